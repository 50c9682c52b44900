package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// item is a well-formed request of a batch, and whose it is.
type item struct {
	caller string
	spec   ledger.TransferSpec
	// origin is the transfer that it is a step of, if that was there when the call began.
	origin *ledger.Transfer
	// call is nil but for the items of an atomic call, which are next to each other and have the same one.
	call *request
	// hook, where it is not nil, has rows ride with the transfer.
	hook    Hook
	baggage any
}

// entries are those of the request, or those that it follows from.
func (i item) entries() []ledger.Entry {
	if i.origin != nil {
		return i.origin.Entries
	}
	return i.spec.Entries
}

// try is one attempt to decide a batch, in one transaction.
type try struct {
	book  ledgerRow
	chart *chart
	trip  pg.Trip
	items []item
	// lookUp is whether the records of the ids are read before anything is decided. Where nothing was sent twice of late that
	// is not worth its while: the INSERT finds out, and then the batch is run again and looks.
	lookUp bool

	view  view
	books *ledger.Books
	// xid is the number of the transaction, and madeBy of that which each record found was written by.
	xid    int64
	madeBy map[ledger.TransferID]int64
	// origins are the transfers that the batch has steps of; nil for one that is not there, or that the batch itself may decide.
	origins map[ledger.TransferID]*ledger.Transfer
	// funds are the accounts whose funds are read whatever their rules.
	funds []string
	// timed is whether a deadline is judged, and dated whether an effective_at is.
	timed, dated bool
	// rides are the hooks of the batch, and out the requests that they took out of it.
	rides []ride
	out   map[int]bool
}

// waryFor is for how many batches after one that met a taken id the next ones expect to.
const waryFor = 16

// own are the transactions of a batch whose commits may have been lost. If one turns out to have happened, its records are
// those of these requests, and were not there before them.
type own map[int64]bool

// tryBatch decides requests in one transaction of two round trips. On an error nothing is known to have been written, and
// the same batch can be tried again: ours then has the transactions of earlier tries.
func (j *Journal) tryBatch(ctx context.Context, book ledgerRow, items []item, ours own) ([]PostResult, error) {
	t := try{book: book, chart: j.chart(book.id), items: items, books: ledger.NewBooks(2*len(items), len(items))}
	t.lookUp = len(ours) > 0 || t.chart.wary.Load() > 0
	t.look()
	results := make([]PostResult, len(items))
	err := pg.InTrips(ctx, j.pool, func(trip pg.Trip) (*pgx.Batch, error) {
		t.trip = trip
		if err := t.lockAndLoad(); err != nil {
			return nil, err
		}
		ours[t.xid] = true
		t.takeOut(results)
		if err := t.decide(results, ours); err != nil {
			return nil, err
		}
		last := &pgx.Batch{}
		if decided := t.books.Decided(); len(decided) > 0 {
			t.insert(last, decided)
		} else {
			last.Queue(dbsqlc.WaitForStandby)
		}
		t.alight(last, results)
		return last, nil
	})
	t.noteTaken(err)
	// Without an error the transaction has been committed: what is in the results is durable.
	return results, err
}

// look finds out what the requests need beside their accounts and ids.
func (t *try) look() {
	for _, i := range t.items {
		if i.hook != nil && t.out == nil {
			t.out = map[int]bool{}
		}
		if i.call != nil {
			t.lookUp = true // All or nothing cannot be judged one by one.
		}
		t.dated = t.dated || i.spec.EffectiveAt != nil
		if i.spec.Terms == nil {
			continue
		}
		kind := i.spec.Kind()
		t.timed = t.timed || kind == ledger.Hold || kind.OfHold()
		for _, id := range i.spec.NeedsFunds() {
			t.funds = append(t.funds, string(id))
		}
		if kind.IsStep() {
			if t.origins == nil {
				t.origins = map[ledger.TransferID]*ledger.Transfer{}
			}
			if id := i.spec.Origin(); i.origin != nil || t.origins[id] == nil {
				t.origins[id] = i.origin
			}
		}
	}
}

// decide judges the requests in their order.
func (t *try) decide(results []PostResult, ours own) error {
	t.judge(results)
	var undecided []string
	for i := range results {
		if results[i].Err != nil && !t.out[i] {
			undecided = append(undecided, string(t.items[i].spec.ID))
		}
	}
	// The INSERT will not find out about these.
	if !t.lookUp && len(undecided) > 0 {
		if err := t.readRecords(undecided); err != nil {
			return err
		}
		for i := range t.items {
			if _, taken := t.madeBy[t.items[i].spec.ID]; taken && results[i].Err != nil && !t.out[i] {
				t.judgeOne(i, &results[i])
			}
		}
	}
	claimed := map[ledger.TransferID]bool{}
	for i := range results {
		if r := &results[i]; r.Transfer != nil && r.Replayed && ours[t.madeBy[r.Transfer.ID]] && !claimed[r.Transfer.ID] {
			// The second of two equal requests is a replay all the same.
			r.Replayed, claimed[r.Transfer.ID] = false, true
		}
	}
	return nil
}

// judge has the books decide, each request by itself or with its call.
func (t *try) judge(results []PostResult) {
	for i := 0; i < len(t.items); {
		call := t.items[i].call
		if call == nil {
			if !t.out[i] {
				t.judgeOne(i, &results[i])
			}
			i++
			continue
		}
		var specs []ledger.TransferSpec
		for k := i; k < len(t.items) && t.items[k].call == call; k++ {
			specs = append(specs, t.items[k].spec)
		}
		for k, d := range t.books.DecideAtomically(specs, t.items[i].caller) {
			results[i+k] = PostResult{Transfer: d.Transfer, Replayed: d.Replayed, Err: d.Err}
		}
		i += len(specs)
	}
}

func (t *try) judgeOne(i int, r *PostResult) {
	r.Transfer, r.Replayed, r.Err = t.books.Decide(t.items[i].spec, t.items[i].caller)
}

// noteTaken tells the next batches whether to expect taken ids.
func (t *try) noteTaken(err error) {
	switch {
	case len(t.madeBy) > 0, err != nil && pg.Classify(err) == pg.Again && !errors.Is(err, pg.ErrAgain):
		t.chart.wary.Store(waryFor)
	case t.lookUp && err == nil && t.chart.wary.Load() > 0:
		t.chart.wary.Add(-1)
	}
}

// mostChanges is up to how many changes of accounts it pays to drop them from the chart one by one.
const mostChanges = 1000

// loaded is what one trip reads.
type loaded struct {
	gate    []dbsqlc.GateShareForPostingRow
	locked  []int64
	changed []int64 // the last change of an account, if there was any
	read    []dbsqlc.AccountsForPostingRow
	tails   []dbsqlc.EntriesSinceRow
	records []dbsqlc.TransfersByIDRow
	origins []dbsqlc.TransfersByIDRow // those that were not known
	steps   []dbsqlc.StepsOfRow
	funds   []dbsqlc.BalancesAtRow
	now     []time.Time
	closed  []*time.Time // before when the books are closed, if they ever were
}

// lockAndLoad takes the gate, locks the serialised accounts, and then reads what deciding needs and the chart does not have.
// With the locks held it stays true until the commit; only ids can still be taken by others, which the INSERT finds out.
//
// It may find that it has to look again, at all accounts: where one has changed since the chart was drawn, or has come into
// being, with a floor, between the statement that locks and the one that reads, and was read without its lock; or where an origin
// was found whose accounts nobody has named. With a lock in hand it gives that back and returns pg.ErrAgain: to lock more, out of
// order, would be a deadlock in waiting.
func (t *try) lockAndLoad() error {
	t.view = t.chart.look(t.items)
	l, err := t.load(true)
	if err != nil {
		return err
	}
	started := l.gate[0].Started
	t.xid = l.gate[0].Xid
	for {
		var last int64
		if len(l.changed) > 0 {
			last = l.changed[0]
		}
		holds, through, err := t.noteChanges(started, last)
		if err != nil {
			return err
		}
		known, err := t.noteOrigins(l)
		if err != nil {
			return err
		}
		if holds && known && lockedAll(l) {
			t.enter(l, started, through)
			if err := t.enterOrigins(l.steps); err != nil {
				return err
			}
			return t.enterRecords(l.records)
		}
		if len(l.locked) > 0 || len(t.origins) > 0 {
			t.keepOrigins()
			return pg.ErrAgain
		}
		t.view.started, t.view.through = started, through
		t.view.forget()
		if l, err = t.load(false); err != nil {
			return err
		}
	}
}

// load makes one trip. The gate comes first of all and in a statement of its own: what it protects must be read by later
// ones. So must what the locks protect.
func (t *try) load(first bool) (*loaded, error) {
	var l loaded
	b := &pgx.Batch{}
	if first {
		pg.Ask(b, &l.gate, dbsqlc.GateShareForPosting, t.book.id)
		t.board(b)
	}
	toLock := slices.Clip(t.view.unknown)
	var nos, throughs []int64
	for id, a := range t.view.accounts {
		if a != nil && a.Serialised {
			toLock = append(toLock, string(id))
			if a.summed() {
				nos, throughs = append(nos, a.no), append(throughs, a.through)
			}
		}
	}
	if len(toLock) > 0 {
		b.Queue(dbsqlc.AccountsLockSerialised, toLock, t.book.id).Query(func(rows pgx.Rows) (err error) {
			l.locked, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
	}
	origins := t.lockOrigins(b)
	b.Queue(dbsqlc.LastAccountChange, t.book.id).Query(func(rows pgx.Rows) (err error) {
		l.changed, err = pgx.CollectRows(rows, pgx.RowTo[int64])
		return err
	})
	if len(t.view.unknown) > 0 {
		pg.Ask(b, &l.read, dbsqlc.AccountsForPosting, t.view.unknown, t.book.id)
	}
	if len(nos) > 0 {
		pg.Ask(b, &l.tails, dbsqlc.EntriesSince, nos, throughs, t.book.id)
	}
	if t.lookUp {
		ids := make([]string, len(t.items))
		for i, item := range t.items {
			ids[i] = string(item.spec.ID)
		}
		pg.Ask(b, &l.records, dbsqlc.TransfersByID, ids, t.book.id)
	}
	t.loadOrigins(b, &l, origins)
	if len(t.funds) > 0 {
		latests := make([]int64, len(t.funds))
		for i := range latests {
			latests[i] = latest
		}
		pg.Ask(b, &l.funds, dbsqlc.BalancesAt, t.funds, latests, t.book.id)
	}
	if t.timed {
		b.Queue(dbsqlc.Clock).Query(func(rows pgx.Rows) (err error) {
			l.now, err = pgx.CollectRows(rows, pgx.RowTo[time.Time])
			return err
		})
	}
	if t.dated {
		b.Queue(dbsqlc.PeriodInForce, t.book.id).Query(func(rows pgx.Rows) (err error) {
			l.closed, err = pgx.CollectRows(rows, pgx.RowTo[*time.Time])
			return err
		})
	}
	if err := t.trip(b); err != nil {
		return nil, fmt.Errorf("lock and read: %w", err)
	}
	return &l, nil
}

// noteChanges tells the chart what has changed, given the number of the last change. It reports whether what was known of the
// batch's accounts holds, and up to which change everything has now been seen.
func (t *try) noteChanges(started time.Time, last int64) (holds bool, through int64, err error) {
	v := &t.view
	nothingKnown := len(v.unknown) == len(v.accounts)
	if !started.Equal(v.started) { // Another PostgreSQL, which may not have come as far as the one before.
		t.chart.reset(started, last)
		return nothingKnown, last, nil
	}
	if last <= v.through {
		return true, v.through, nil
	}
	var changes []dbsqlc.AccountsChangedSinceRow
	b := &pgx.Batch{}
	pg.Ask(b, &changes, dbsqlc.AccountsChangedSince, t.book.id, v.through, mostChanges)
	if err := t.trip(b); err != nil {
		return false, 0, fmt.Errorf("read the changes of accounts: %w", err)
	}
	through = changes[0].Sequence
	if len(changes) == mostChanges {
		t.chart.reset(started, through)
		return nothingKnown, through, nil
	}
	holds = true
	changed := make([]ledger.AccountID, len(changes))
	for i, c := range changes {
		changed[i] = ledger.AccountID(c.AccountID)
		holds = holds && v.accounts[changed[i]] == nil
	}
	t.chart.forget(started, v.through, through, changed)
	return holds, through, nil
}

// lockedAll reports whether every serialised account that was read is locked.
func lockedAll(l *loaded) bool {
	if len(l.read) == 0 {
		return true
	}
	locked := make(map[int64]bool, len(l.locked))
	for _, no := range l.locked {
		locked[no] = true
	}
	for _, row := range l.read {
		if row.Serialised && !locked[row.AccountNo] {
			return false
		}
	}
	return true
}

// enter puts the accounts into the books, and what was learnt of them into the chart.
func (t *try) enter(l *loaded, started time.Time, through int64) {
	accounts := t.view.accounts
	learnt := make([]*charted, 0, len(l.read)+len(l.tails))
	for _, row := range l.read {
		a := &charted{no: row.AccountNo, sums: sums{row.Sum, row.HeldDebit, row.HeldCredit}, through: row.Through, Account: ledger.Account{
			ID: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type),
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
			Floor:    row.Floor, Ceiling: row.Ceiling, Serialised: row.Serialised, Frozen: ledger.Frozen(row.Frozen),
			Closed: row.Closed, Version: row.Version,
		}}
		accounts[a.ID] = a
		learnt = append(learnt, a)
	}
	if len(l.tails) > 0 {
		tails := make(map[int64]dbsqlc.EntriesSinceRow, len(l.tails))
		for _, tail := range l.tails {
			tails[tail.AccountNo] = tail
		}
		for id, a := range accounts {
			if a == nil {
				continue
			}
			if tail, ok := tails[a.no]; ok {
				newer := *a
				newer.sums, newer.through = a.plus(tail.Sum, tail.HeldDebit, tail.HeldCredit), tail.Through
				accounts[id] = &newer
				learnt = append(learnt, &newer)
			}
		}
	}
	for _, a := range accounts {
		switch {
		case a == nil:
		case !a.summed():
			t.books.AddAccount(&a.Account, ledger.Funds{})
		default:
			t.books.AddAccount(&a.Account, a.funds(a.Type, a.through))
		}
	}
	for _, row := range l.funds {
		if a := accounts[ledger.AccountID(row.AccountID)]; a != nil {
			t.books.AddAccount(&a.Account, sums{row.Sum, row.HeldDebit, row.HeldCredit}.funds(a.Type, row.Version))
		}
	}
	if len(l.now) > 0 {
		t.books.SetClock(l.now[0])
	}
	if len(l.closed) > 0 && l.closed[0] != nil {
		t.books.SetClosedBefore(*l.closed[0])
	}
	if len(learnt) > 0 {
		t.chart.learn(started, through, learnt)
	}
}

// readRecords puts the records of those ids that are taken into the books.
func (t *try) readRecords(ids []string) error {
	var rows []dbsqlc.TransfersByIDRow
	b := &pgx.Batch{}
	pg.Ask(b, &rows, dbsqlc.TransfersByID, ids, t.book.id)
	if err := t.trip(b); err != nil {
		return fmt.Errorf("read records: %w", err)
	}
	return t.enterRecords(rows)
}

func (t *try) enterRecords(rows []dbsqlc.TransfersByIDRow) error {
	if len(rows) == 0 {
		return nil
	}
	records, err := t.named(rows)
	if err != nil {
		return err
	}
	t.madeBy = make(map[ledger.TransferID]int64, len(rows))
	for i, record := range records {
		t.books.AddTransfer(record)
		t.madeBy[record.ID] = rows[i].Xid
	}
	return nil
}

// named makes records of rows, and looks up the names of accounts that the batch does not know.
func (t *try) named(rows []dbsqlc.TransfersByIDRow) ([]*ledger.Transfer, error) {
	names := make(accountNames, len(t.view.accounts))
	for id, a := range t.view.accounts {
		if a != nil {
			names[a.no] = accountName{id, a.Currency}
		}
	}
	if missing := names.missing(rows); len(missing) > 0 {
		var accounts []dbsqlc.AccountIDsRow
		b := &pgx.Batch{}
		pg.Ask(b, &accounts, dbsqlc.AccountIDs, missing, t.book.id)
		if err := t.trip(b); err != nil {
			return nil, fmt.Errorf("read the accounts of records: %w", err)
		}
		names.add(accounts)
	}
	return names.transfers(rows)
}
