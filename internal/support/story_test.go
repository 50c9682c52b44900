package support

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// teller tells what a test has it tell.
type teller struct {
	name string
	tell func(Subject) ([]Item, error)
}

func (t teller) Source() string { return t.name }

func (t teller) Tell(_ context.Context, s Subject, _ int) ([]Item, error) { return t.tell(s) }

func lines(s *Story) string {
	var out strings.Builder
	for _, i := range s.Items {
		fmt.Fprintf(&out, "%s %s: %s\n", i.Source, i.Who, i.What)
	}
	return out.String()
}

// TestStory is one timeline of all sources.
func TestStory(t *testing.T) {
	t.Parallel()
	var asked Subject
	sms := teller{"sms", func(s Subject) ([]Item, error) {
		asked = s
		if s.ID == "only-a-key" {
			return []Item{{At: time.Now(), Source: "sms", What: "known"}}, nil
		}
		return nil, nil
	}}
	broken := teller{"fraud", func(Subject) ([]Item, error) { return nil, errors.New("it is away") }}
	o := setup(t, Config{Tellers: []Teller{sms, broken}})
	o.pay(t, "order-1", "500.00")
	r := o.ask(t, rina, spec("order-1", "20", "0"), Waiting)
	if _, err := o.decide(t, rina, r, Approve); err == nil {
		t.Fatal("the maker may approve")
	}
	if _, err := o.decide(t, karim, r, Approve); err != nil {
		t.Fatal(err)
	}
	o.post(t, ledger.TransferSpec{ID: "by-hand", Terms: &ledger.Terms{
		Kind: ledger.Refund, Origin: "order-1", Amount: ptr(dec("1")), ExpectedRefunded: ptr(dec("20")), Reason: ledger.ReasonGoodwill,
	}})
	if _, err := o.Story(t.Context(), boss, main, "order-1"); err != nil {
		t.Fatal(err)
	}
	s, err := o.Story(t.Context(), karim, main, "order-1")
	if err != nil {
		t.Fatal(err)
	}
	want := `ledger payments: 500.00 BDT was moved
refund rina: a refund of 20.00 BDT was asked for (duplicate); it needs another person: no limit is set for this currency
audit rina: was not allowed to approve the refund
refund karim: the refund of 20.00 BDT was approved
ledger rina: 20.00 BDT was refunded
refund rina: the refund of 20.00 BDT was posted
ledger payments: 1.00 BDT was refunded
audit boss: looked at this story
audit karim: looked at this story
`
	if got := lines(s); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	if len(s.Missing) != 1 || s.Missing[0].Source != "fraud" || len(s.Cut) != 0 || s.Progress.Refunded.String() != "21" {
		t.Errorf("%+v", s)
	}
	if ids := asked.IDs(); len(ids) != 3 || ids[0] != "order-1" || ids[1] != RefundID(r.Key) {
		t.Errorf("%v", ids)
	}
	for _, i := range s.Items {
		if i.Source == SourceAudit && i.Who == "boss" && (len(i.Details) == 0 || i.Details[0].Value != boss.Address) {
			t.Errorf("%+v", i)
		}
	}
	// The refund's own story has the original and the request.
	s, err = o.Story(t.Context(), karim, main, RefundID(r.Key))
	if err != nil || s.Origin == nil || s.Origin.ID != "order-1" || !strings.Contains(lines(s), "a refund of 20.00 BDT was asked for") ||
		!strings.HasPrefix(lines(s), "ledger payments: 500.00 BDT was moved") {
		t.Errorf("%v %s", err, lines(s))
	}
	// What is known to a source alone.
	s, err = o.Story(t.Context(), karim, main, "only-a-key")
	if err != nil || s.Transfer != nil || !strings.Contains(lines(s), "sms : known") {
		t.Errorf("%v %+v", err, s)
	}
	_, err = o.Story(t.Context(), karim, main, "nothing")
	mustCode(t, err, ledger.CodeUnavailable) // One of the sources could not be asked, and might know of it.
	o.config.Tellers = o.config.Tellers[:1]
	_, err = o.Story(t.Context(), karim, main, "nothing")
	mustCode(t, err, ledger.CodeTransferNotFound)
	if got := o.count(t, "audit_event WHERE action = 'transfer.story'"); got != "6" {
		t.Errorf("%s looks are on record", got)
	}
}

func ptr[T any](v T) *T { return &v }

// TestStory_Hold is of a hold and its steps, and of a refusal.
func TestStory_Hold(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.post(t, ledger.TransferSpec{
		ID: "hold", Entries: ledger.Simple("wallet:shimul", "wallet:shop", dec("9"), "BDT"), Terms: &ledger.Terms{Kind: ledger.Hold, ExpiresAfter: time.Hour},
	})
	o.post(t, ledger.TransferSpec{ID: "part", Terms: &ledger.Terms{Kind: ledger.Capture, Origin: "hold", Amount: ptr(dec("4")), KeepOpen: true}})
	o.post(t, ledger.TransferSpec{ID: "rest", Terms: &ledger.Terms{Kind: ledger.Void, Origin: "hold"}})
	s, err := o.Story(t.Context(), karim, main, "hold")
	if err != nil {
		t.Fatal(err)
	}
	want := `ledger payments: 9.00 BDT was held
ledger payments: 4.00 BDT was captured from the hold
ledger payments: 5.00 BDT was released from the hold
audit karim: looked at this story
`
	if got := lines(s); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	results, err := o.journal.Post(t.Context(), "payments", main, []ledger.TransferSpec{{
		ID: "refused", Entries: ledger.Simple("wallet:poor", "wallet:shop", dec("9"), "BDT"),
	}})
	if err != nil || results[0].Transfer.Refusal == nil {
		t.Fatal(err)
	}
	s, err = o.Story(t.Context(), karim, main, "refused")
	if err != nil || !strings.HasPrefix(lines(s), "ledger payments: the books refused a transfer: insufficient funds of wallet:poor") {
		t.Errorf("%v %s", err, lines(s))
	}
	_, err = o.Form(t.Context(), karim, main, "nothing")
	mustCode(t, err, ledger.CodeTransferNotFound)
	for _, id := range []ledger.TransferID{"hold", "refused"} {
		if f, err := o.Form(t.Context(), karim, main, id); err != nil || f.Closed == nil || f.Closed.Code != ledger.CodeWrongOrigin {
			t.Errorf("%+v %v", f, err)
		}
	}
}

// pile has things that wait, for tests.
type pile struct {
	heap Heap
	err  error
}

func (pile) Kind() Kind { return ParkedEvents }

func (p pile) Waiting(context.Context, ledger.Name, int) (Heap, error) { return p.heap, p.err }

// TestReview collects what waits.
func TestReview(t *testing.T) {
	t.Parallel()
	full := pile{heap: Heap{Count: 3, Entries: make([]Task, 30)}}
	o := setup(t, Config{Piles: []Pile{full, pile{err: errors.New("away")}}})
	o.pay(t, "order-1", "500.00")
	over := o.expired(t, rina, spec("order-1", "20", "0"))
	for n := range 3 {
		r := o.ask(t, rina, spec("order-1", fmt.Sprint(n+1), "0"), Waiting)
		if n == 2 {
			if _, err := o.decide(t, karim, r, Reject); err != nil {
				t.Fatal(err)
			}
		}
	}
	r, err := o.Review(t.Context(), boss, main)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Heaps) != 2 || r.Heaps[1].Count != 3 || len(r.Heaps[1].Entries) != maxWaiting || r.Heaps[1].Kind != ParkedEvents || len(r.Missing) != 1 {
		t.Fatalf("%+v", r)
	}
	h := r.Heaps[0]
	if h.Kind != WaitingRefunds || h.Count != 3 || h.More || !h.Oldest.Equal(over.MadeAt) || len(h.Entries) != 3 {
		t.Fatalf("%+v", h)
	}
	if !strings.Contains(h.Entries[0].What, "expired") || !strings.Contains(h.Entries[1].Next, "another person than rina") || h.Entries[1].Transfer != "order-1" {
		t.Errorf("%+v", h.Entries)
	}
	if got := o.count(t, "audit_event WHERE action = 'review.list' AND actor = 'boss'"); got != "1" {
		t.Errorf("%s looks are on record", got)
	}
}
