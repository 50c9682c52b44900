package support

import (
	"context"
	"fmt"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxWaiting is how many of a pile the review list has, and maxCounted how far they are counted.
	maxWaiting, maxCounted = 20, 1000
	// showExpired is for how long requests are in the list that have expired: the customer still waits.
	showExpired = 7 * 24 * time.Hour
)

// Kind is what waits in a pile.
type Kind string

// The kinds. A pile of a deployment can have a kind of its own.
const (
	// StuckKeys are payments of which nobody knows whether a gateway has charged them.
	StuckKeys Kind = "stuck_keys"
	// ParkedEvents are those that Kafka would not take.
	ParkedEvents Kind = "parked_events"
	// QuarantinedEvents are letters of consumers: dead ones, and those too old to be judged.
	QuarantinedEvents Kind = "quarantined_events"
	// FlaggedVerdicts are transfers that the fraud check has flagged.
	FlaggedVerdicts Kind = "flagged_verdicts"
	// Breaks are lines of the bank, or entries of the books, that have no counterpart.
	Breaks Kind = "breaks"
	// WaitingRefunds are requests for refunds that another person has to look at.
	WaitingRefunds Kind = "waiting_refunds"
)

// Task is one thing that waits for a person.
type Task struct {
	Since time.Time
	// What is a sentence for people.
	What string
	// ID is what it is known by where it is settled, and Transfer which one it is about, where it is about one.
	ID       string
	Transfer ledger.TransferID
	// Next is what to do about it: a command, or where to look.
	Next string
}

// Heap is what waits of one kind.
type Heap struct {
	Kind Kind
	// Count is how many there are; with More, there are at least so many.
	Count int
	More  bool
	// Oldest is since when the first of them waits; zero where there are none.
	Oldest time.Time
	// Entries are some of them, the longest waiting first.
	Entries []Task
	// Next is what to do about all of them.
	Next string
}

// Pile is a room where things wait for people.
type Pile interface {
	// Kind is what waits there.
	Kind() Kind
	// Waiting tells what waits of a ledger, and gives at most so many entries. Rooms that know no ledgers tell of all.
	Waiting(ctx context.Context, name ledger.Name, most int) (Heap, error)
}

// Review is what waits for people.
type Review struct {
	// Heaps are those of the deployment, the refunds first, and those that are empty too.
	Heaps []Heap
	// Missing are those that could not be asked.
	Missing []Missing
}

// Review collects what waits for people, and writes down who has looked.
func (d *Desk) Review(ctx context.Context, who Actor, name ledger.Name) (*Review, error) {
	var r *Review
	err := d.audit.Read(ctx, Event{Ledger: name.Or(), Actor: who, Action: ActionReview, Object: Object{"review", ""}}, func() error {
		r = &Review{}
		for _, p := range append([]Pile{refundPile{d}}, d.config.Piles...) {
			asked, cancel := context.WithTimeout(ctx, tellTime)
			heap, err := p.Waiting(asked, name.Or(), maxWaiting)
			cancel()
			if err != nil {
				r.Missing = append(r.Missing, Missing{string(p.Kind()), err.Error()})
				continue
			}
			heap.Kind = p.Kind()
			heap.Entries = heap.Entries[:min(len(heap.Entries), maxWaiting)]
			r.Heaps = append(r.Heaps, heap)
		}
		return nil
	})
	return r, err
}

// refundPile is the desk's own.
type refundPile struct{ *Desk }

// Kind is WaitingRefunds.
func (refundPile) Kind() Kind { return WaitingRefunds }

// Waiting lists the requests that nobody has settled, those that have expired of late included.
func (p refundPile) Waiting(ctx context.Context, name ledger.Name, most int) (Heap, error) {
	h := Heap{Next: "look at each with its transfer, and approve or reject it: khata support show NUMBER, and then khata support decide NUMBER --approve --hash HASH"}
	id, err := p.ledgerID(ctx, name)
	if err != nil {
		return h, err
	}
	rows, err := p.sql.SupportRequestsUnsettled(ctx, p.pool, dbsqlc.SupportRequestsUnsettledParams{
		LedgerID: id, OverFor: showExpired.Seconds(), Most: maxCounted + 1,
	})
	if err != nil {
		return h, public(ctx, "list the requests", err)
	}
	h.Count, h.More = min(len(rows), maxCounted), len(rows) > maxCounted
	var numbers []int64
	for _, row := range rows[:min(len(rows), most)] {
		numbers = append(numbers, row.RequestNo)
	}
	list, err := p.refunds(ctx, p.pool, name, id, numbers)
	if err != nil {
		return h, public(ctx, "list the requests", err)
	}
	for i := range list {
		r := &list[i]
		w := Task{Since: r.MadeAt, ID: fmt.Sprint(r.Number), Transfer: r.Original}
		w.What = fmt.Sprintf("%s asked for a refund of %s of %s (%s)", r.Maker, r.amountText(), publicID(r.Original), r.Reason)
		switch r.State {
		case Waiting:
			w.What += ": it " + r.Approval.String()
			w.Next = fmt.Sprintf("another person than %s approves or rejects request %d before %s", r.Maker, r.Number, formatTime(r.ExpiresAt))
		case Ready:
			w.What += ", and it is approved"
			w.Next = "nothing: it is posted by itself; if it stays here, look whether the server runs and what its log says"
		default:
			w.What += ", and it has expired"
			w.Next = fmt.Sprintf("if it is still needed, %s makes a new one", r.Maker)
		}
		h.Entries = append(h.Entries, w)
		if h.Oldest.IsZero() || w.Since.Before(h.Oldest) {
			h.Oldest = w.Since
		}
	}
	return h, nil
}
