package journal

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/ledger"
)

// Hook lets rows of another capability ride in the transactions that post: what must commit together with a transfer, or not at
// all. It is asked for whole batches, in the two round trips that posting takes anyway. It must not wait for locks, and must keep
// nothing of a batch: one that fails is run again from the beginning.
type Hook interface {
	// Begin queues statements that run behind the gate and before any account is locked. When they have been answered, the function
	// that it returns gives a verdict for each passenger: nil lets it be decided, an error takes it out and is its result.
	Begin(b *pgx.Batch, ledgerID int32, passengers []Passenger) func() []error
	// End queues statements that run after the transfers have been inserted, before the commit. It gets those passengers that were
	// decided, with what was decided: a transfer that is new has no sequence and no time yet, but its row is there.
	End(b *pgx.Batch, ledgerID int32, passengers []Passenger)
}

// Passenger is what rides with one transfer.
type Passenger struct {
	// Baggage is the hook's own.
	Baggage any
	// Spec is the request. The rest is set for End.
	Spec     ledger.TransferSpec
	Transfer *ledger.Transfer
	// New reports whether this batch has decided the transfer; otherwise it is the record of an earlier one.
	New bool
}

// PostWith posts one transfer, whose id may be one of Khata's own, and has a hook's baggage ride with it.
func (j *Journal) PostWith(ctx context.Context, caller string, name ledger.Name, spec ledger.TransferSpec, hook Hook, baggage any) (PostResult, error) {
	ctx = j.WithBudget(ctx)
	book, err := j.ledger(ctx, name)
	if err != nil {
		return PostResult{}, err
	}
	if err := spec.ValidateDerived(); err != nil {
		return PostResult{}, err
	}
	sizes, err := j.sizes(ctx, book, []ledger.TransferSpec{spec})
	if err != nil {
		return PostResult{}, err
	}
	p := posting{journal: j, book: book, results: make([]PostResult, 1), request: newRequest()}
	p.request.add(item{caller: caller, spec: spec, hook: hook, baggage: baggage}, sizes[0])
	p.places = append(p.places, 0)
	if err := p.decide(ctx); err != nil {
		return PostResult{}, err
	}
	return p.results[0], nil
}

// ride is a batch's passengers of one hook.
type ride struct {
	hook   Hook
	places []int // among the items
	// verdicts reads the answers to Begin.
	verdicts func() []error
}

func (t *try) passenger(i int) Passenger {
	return Passenger{Baggage: t.items[i].baggage, Spec: t.items[i].spec}
}

// board queues what the hooks of the batch begin with.
func (t *try) board(b *pgx.Batch) {
	t.rides = t.rides[:0]
	at := map[Hook]int{}
	for i, item := range t.items {
		if item.hook == nil {
			continue
		}
		k, ok := at[item.hook]
		if !ok {
			k = len(t.rides)
			at[item.hook] = k
			t.rides = append(t.rides, ride{hook: item.hook})
		}
		t.rides[k].places = append(t.rides[k].places, i)
	}
	for k := range t.rides {
		r := &t.rides[k]
		passengers := make([]Passenger, len(r.places))
		for n, i := range r.places {
			passengers[n] = t.passenger(i)
		}
		r.verdicts = r.hook.Begin(b, t.book.id, passengers)
	}
}

// takeOut gives their results to the requests that a hook does not let through.
func (t *try) takeOut(results []PostResult) {
	for _, r := range t.rides {
		for n, err := range r.verdicts() {
			if err != nil {
				t.out[r.places[n]] = true
				results[r.places[n]] = PostResult{Err: err}
			}
		}
	}
}

// alight queues what the hooks of the batch end with.
func (t *try) alight(b *pgx.Batch, results []PostResult) {
	fresh := map[*ledger.Transfer]bool{}
	for _, record := range t.books.Decided() {
		fresh[record] = true
	}
	for _, r := range t.rides {
		var passengers []Passenger
		for _, i := range r.places {
			if record := results[i].Transfer; record != nil {
				p := t.passenger(i)
				p.Transfer, p.New = record, fresh[record] && !results[i].Replayed
				passengers = append(passengers, p)
			}
		}
		if len(passengers) > 0 {
			r.hook.End(b, t.book.id, passengers)
		}
	}
}
