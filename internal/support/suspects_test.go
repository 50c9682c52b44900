package support

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

// twins says which payments may be one, as a test has it.
type twins struct {
	*office
	mu     sync.Mutex
	groups [][]ledger.TransferID
	// away is the payment of which it cannot say anything.
	away string
}

// withTwins makes an office that knows of suspects, and payments of 500.
func withTwins(t *testing.T, payments ...ledger.TransferID) *twins {
	t.Helper()
	k := &twins{}
	k.office = setup(t, Config{Suspects: k})
	for _, id := range payments {
		k.pay(t, id, "500.00")
	}
	return k
}

func (k *twins) know(groups ...[]ledger.TransferID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.groups = groups
}

func (k *twins) Of(ctx context.Context, name ledger.Name, sequence int64) (list []*suspect.Group, err error) {
	k.mu.Lock()
	groups := k.groups
	k.mu.Unlock()
	for i, ids := range groups {
		g, in := &suspect.Group{No: int64(i + 1)}, false
		for _, id := range ids {
			t, p, err := k.journal.Transfer(ctx, name, id)
			if err != nil {
				return nil, err
			}
			if in = in || t.Sequence == sequence; t.Sequence == sequence && k.away == string(id) {
				return nil, ledger.Errorf(ledger.CodeUnavailable, "the suspects are away")
			}
			back := p.Reversed || p.Currency.Code != "" && p.Refundable.IsZero()
			g.Members = append(g.Members, suspect.Member{Progressed: journal.Progressed{Transfer: t, Progress: p}, WentBack: back})
		}
		if in {
			list = append(list, g)
		}
	}
	return list, nil
}

func (k *twins) Known(_ context.Context, _ ledger.Name, numbers []int64) (list []int64, err error) {
	for _, n := range numbers {
		if n >= 1 && n <= int64(len(k.groups)) {
			list = append(list, n)
		}
	}
	return list, nil
}

// goodwill is spec for another reason than that it was paid twice.
func goodwill(of ledger.TransferID, amount, expected string) RefundSpec {
	s := spec(of, amount, expected)
	s.Reason = ledger.ReasonGoodwill
	return s
}

// about fails the test unless an error is about a field, and says all of some texts.
func about(t *testing.T, err error, field string, texts ...string) {
	t.Helper()
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Code != ledger.CodeInvalidArgument || len(typed.Violations) != 1 || typed.Violations[0].Field != field {
		t.Fatalf("want an error about %s, got %v", field, err)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in: %v", text, err)
		}
	}
}

// TestTwins: of a payment that was made twice, one goes back as a duplicate, and not the other.
func TestTwins(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "tap-1", "tap-2", "other")
	k.limit(t, "600", "5000")
	k.know([]ledger.TransferID{"tap-1", "tap-2"})
	if f, err := k.Form(t.Context(), rina, main, "tap-2"); err != nil || len(f.Warnings) != 0 {
		t.Fatalf("%+v %v", f, err)
	}
	s := spec("tap-1", "500", "0")
	if r := k.ask(t, rina, s, Posted); len(r.Warnings) != 0 {
		t.Errorf("%+v", r)
	}
	_, err := k.Request(t.Context(), karim, spec("tap-2", "500", "0"))
	about(t, err, "reason", "tap-2 is the last payment of suspect 1 that stands: its other payment tap-1 was refunded (request 1); if this payment is to go back, too, "+
		"say why with another reason")
	_, err = k.Request(t.Context(), karim, spec("tap-2", "1", "0")) // A part of it is no less the last one.
	about(t, err, "reason", "suspect 1")
	if got := k.count(t, "support_refund_request"); got != "1" {
		t.Errorf("%s requests", got)
	}
	k.ask(t, rina, s, Posted) // The first form again is what it was.
	const warning = "belongs to suspect 1: its other payment tap-1 was refunded (request 1)"
	f, err := k.Form(t.Context(), karim, main, "tap-2")
	if err != nil || len(f.Warnings) != 1 || f.Warnings[0] != warning {
		t.Errorf("%+v %v", f, err)
	}
	if story, err := k.Story(t.Context(), karim, main, "tap-2"); err != nil || len(story.Warnings) != 1 || story.Warnings[0] != warning {
		t.Errorf("%+v %v", story, err)
	}
	if r := k.ask(t, karim, goodwill("tap-2", "500", "0"), Posted); len(r.Warnings) != 1 || r.Warnings[0] != warning {
		t.Errorf("%+v", r)
	}
	k.ask(t, karim, spec("other", "500", "0"), Posted)
}

// TestTwins_Waiting: what waits for one is in the way of asking for the other, and does not keep it away for ever.
func TestTwins_Waiting(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "tap-1", "tap-2")
	k.know([]ledger.TransferID{"tap-1", "tap-2"})
	a := k.ask(t, rina, spec("tap-1", "500", "0"), Waiting)
	_, err := k.Request(t.Context(), karim, spec("tap-2", "500", "0"))
	about(t, err, "reason", "request 1 for its other payment tap-1 waits; reject or withdraw that request first, or if this payment is to go back, too, say why with another reason")
	f, err := k.Form(t.Context(), karim, main, "tap-2")
	if want := "belongs to suspect 1: request 1 for its other payment tap-1 waits"; err != nil || len(f.Warnings) != 1 || f.Warnings[0] != want {
		t.Errorf("%+v %v", f, err)
	}
	if _, err := k.decide(t, rina, a, Withdraw); err != nil {
		t.Fatal(err)
	}
	// A part of the first that is asked for by another reason leaves it standing.
	k.ask(t, rina, goodwill("tap-1", "100", "0"), Waiting)
	b := k.ask(t, karim, spec("tap-2", "500", "0"), Waiting)
	r, err := k.Refund(t.Context(), boss, main, b.Number)
	if err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "request 2 for its other payment tap-1 waits") || r.Obstacle != "" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := k.decide(t, boss, b, Approve); err != nil || r.State != Posted || len(r.Warnings) != 1 {
		t.Errorf("%+v %v", r, err)
	}
}

// TestTwins_Approvals: two requests that wait for the two halves, since nobody knew that they are, are approved at once. One is posted, and the other can be
// rejected, or comes to its turn when the books have refused the one.
func TestTwins_Approvals(t *testing.T) {
	t.Parallel()
	k := withTwins(t)
	for n := range 8 {
		k.know()
		ids := []ledger.TransferID{ledger.TransferID(fmt.Sprintf("a-%d", n)), ledger.TransferID(fmt.Sprintf("b-%d", n))}
		var requests []*Refund
		for _, id := range ids {
			k.pay(t, id, "500.00")
			requests = append(requests, k.ask(t, rina, spec(id, "500", "0"), Waiting))
		}
		k.know(ids)
		var wg sync.WaitGroup
		var errs [2]error
		for i, who := range []Actor{karim, boss} {
			wg.Go(func() { _, errs[i] = k.decide(t, who, requests[i], Approve) })
		}
		wg.Wait()
		posted := 0
		for i, r := range requests {
			got, err := k.Refund(t.Context(), boss, main, r.Number)
			switch {
			case err != nil:
				t.Fatal(err)
			case errs[i] == nil && got.State == Posted:
				posted++
			default:
				about(t, errs[i], "number", "cannot be approved", "suspect 1", "reject it, and if this payment is to go back, too, ask for it with another reason")
				if got.State != Waiting || !strings.Contains(got.Obstacle, "is the last payment of suspect 1 that stands") {
					t.Errorf("%+v", got)
				}
				if got, err := k.decide(t, karim, r, Reject); err != nil || got.State != Rejected {
					t.Errorf("%+v %v", got, err)
				}
			}
		}
		if posted != 1 {
			t.Fatalf("%d of two halves were posted: %v", posted, errs)
		}
	}
	k.know()
	k.pay(t, "x", "500.00")
	k.pay(t, "y", "500.00")
	x, y := k.ask(t, rina, spec("x", "500", "0"), Waiting), k.ask(t, rina, spec("y", "500", "0"), Waiting)
	k.know([]ledger.TransferID{"x", "y"})
	part := k.ask(t, rina, goodwill("x", "5", "0"), Waiting)
	if r, err := k.decide(t, karim, part, Approve); err != nil || r.State != Posted {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := k.Refund(t.Context(), karim, main, x.Number); err != nil || r.Obstacle != "5.00 BDT was refunded since it was asked for: approving it will be refused by the books" ||
		r.Payment.Progress.Refundable.String() != "495" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err := k.decide(t, karim, x, Approve); err != nil || r.State != RefusedByBooks {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := k.decide(t, karim, y, Approve); err != nil || r.State != Posted {
		t.Fatalf("%+v %v", r, err)
	}
}

// TestTwins_AtOnce: many people ask for the payments of one group at the same time, each within what they may refund alone. One of them stands.
func TestTwins_AtOnce(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "a", "b", "c")
	k.limit(t, "600", "5000")
	k.know([]ledger.TransferID{"a", "b", "c"}, []ledger.TransferID{"c", "b"}) // And nobody waits for a lock that another one has.
	var wg sync.WaitGroup
	var mu sync.Mutex
	posted, last := 0, 0
	for n := range 12 {
		of := []ledger.TransferID{"a", "b", "c"}[n%3]
		wg.Go(func() {
			r, err := k.Request(t.Context(), Actor{Name: fmt.Sprintf("person-%d", n)}, spec(of, "500", "0"))
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil && r.State == Posted:
				posted++
			case ledger.CodeOf(err) == ledger.CodeInvalidArgument:
				last++
			case err != nil && ledger.CodeOf(err).Retryable():
				t.Error(err)
			}
		})
	}
	wg.Wait()
	standing := 0
	for _, id := range []ledger.TransferID{"a", "b", "c"} {
		if k.refunded(t, id) == "0" {
			standing++
		}
	}
	if posted != 2 || last == 0 || standing != 1 {
		t.Errorf("%d were posted, %d were told that theirs is the last one, and %d stand", posted, last, standing)
	}
}

// TestTwins_Posting: both were approved before anybody knew that they may be one. The one that was approved first is posted.
func TestTwins_Posting(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "tap-1", "tap-2")
	a, b := k.ask(t, rina, spec("tap-1", "500", "0"), Waiting), k.ask(t, rina, spec("tap-2", "500", "0"), Waiting)
	for _, r := range []*Refund{b, a} {
		k.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
			VALUES (1, %d, 'approve', decode('%s', 'hex'), '', 'karim', now())`, r.Number, r.SHA256))
	}
	k.know([]ledger.TransferID{"tap-1", "tap-2"})
	if n, err := k.Sweep(t.Context()); n != 2 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if r, err := k.Refund(t.Context(), boss, main, b.Number); err != nil || r.State != Posted {
		t.Errorf("%+v %v", r, err)
	}
	r, err := k.Refund(t.Context(), boss, main, a.Number)
	if err != nil || r.State != RefusedByBooks || r.Transfer != "" || !strings.Contains(r.Message, "tap-1 is the last payment of suspect 1 that stands") ||
		!strings.Contains(r.Message, "ask for it with another reason") {
		t.Errorf("%+v %v", r, err)
	}
	if first, second := k.refunded(t, "tap-1"), k.refunded(t, "tap-2"); first != "0" || second != "500" {
		t.Errorf("%s of the one and %s of the other are refunded", first, second)
	}
}

// TestTwins_Groups: of three, two may go back; and who is the end of one group and the beginning of the next is meant once among all.
func TestTwins_Groups(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "a", "b", "c", "d")
	k.limit(t, "600", "5000")
	k.know([]ledger.TransferID{"a", "b"}, []ledger.TransferID{"b", "c", "d"})
	k.ask(t, rina, spec("a", "500", "0"), Posted)
	k.ask(t, rina, spec("b", "500", "0"), Posted) // c and d stand.
	k.ask(t, rina, spec("c", "500", "0"), Posted)
	_, err := k.Request(t.Context(), rina, spec("d", "500", "0"))
	about(t, err, "reason", "d is the last payment of suspect 2 that stands: its other payment b was refunded (request 2); its other payment c was refunded (request 3);")
	// What went back without the desk, too.
	k.pay(t, "e", "500.00")
	k.pay(t, "f", "500.00")
	k.post(t, ledger.TransferSpec{ID: "undone", Terms: &ledger.Terms{Kind: ledger.Reversal, Origin: "e"}})
	k.know([]ledger.TransferID{"e", "f"})
	_, err = k.Request(t.Context(), rina, spec("f", "500", "0"))
	about(t, err, "reason", "its other payment e was reversed")
}

// TestTwins_Away: where nobody can say what else was paid, nothing is written, and what was is told all the same.
func TestTwins_Away(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "tap-1", "tap-2")
	k.know([]ledger.TransferID{"tap-1", "tap-2"})
	k.limit(t, "600", "5000")
	k.away = "tap-1"
	_, err := k.Request(t.Context(), rina, spec("tap-1", "500", "0"))
	mustCode(t, err, ledger.CodeUnavailable)
	if got := k.count(t, "support_refund_request"); got != "0" {
		t.Errorf("%s requests", got)
	}
	k.ask(t, rina, goodwill("tap-1", "500", "0"), Posted)
	story, err := k.Story(t.Context(), rina, main, "tap-1")
	if err != nil || len(story.Missing) != 1 || story.Missing[0].Source != SourceSuspects {
		t.Errorf("%+v %v", story, err)
	}
}

// TestSweep_Behind: those that fail again and again do not hold up the others.
func TestSweep_Behind(t *testing.T) {
	t.Parallel()
	k := withTwins(t, "stuck", "twin", "good")
	k.know([]ledger.TransferID{"stuck", "twin"})
	k.away, k.sweepBatch = "stuck", 3
	ready := func(of ledger.TransferID, n int) {
		t.Helper()
		k.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_request (ledger_id, key, original, amount, currency, expected_refunded, reason, note, ticket, maker, made_at,
				expires_at, approval, limit_version, sha256)
			SELECT 1, 'a-key-of-a-hand-%[1]s' || n, '%[1]s', 1, 'BDT', 0, 'duplicate', '', '', 'rina', now(), now() + interval '1 hour', 'none', 1, ''
			FROM generate_series(1, %[2]d) n`, of, n))
	}
	k.limit(t, "10", "1000")
	ready("stuck", 7)
	ready("good", 1)
	settled := 0
	for range 3 {
		n, err := k.Sweep(t.Context())
		if settled += n; err == nil || ledger.CodeOf(err) != ledger.CodeUnavailable {
			t.Errorf("%d %v", n, err)
		}
	}
	if got := k.refunded(t, "good"); settled != 1 || got != "1" {
		t.Errorf("%d are settled, and %s of the one that can be is refunded", settled, got)
	}
	// And then it begins anew.
	k.away = ""
	if n, err := k.Sweep(t.Context()); n != 3 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

// TestWrittenAsCustomersHaveIt: wherever a desk takes the id of a transfer it takes what customers call it, and writes down the id of the books.
func TestWrittenAsCustomersHaveIt(t *testing.T) {
	t.Parallel()
	number := "TXN-" + strings.Repeat("AB", 13)
	id := ledger.TransferID("khata:" + number)
	o := setup(t, Config{PaymentID: func(user, key string) ledger.TransferID {
		if user == "user:shimul" && key == "press-1" {
			return id
		}
		return "khata:TXN-" + ledger.TransferID(strings.Repeat("Q", 26))
	}})
	o.limit(t, "600", "5000")
	payment, err := o.journal.PostWith(t.Context(), "u1", main, ledger.TransferSpec{
		ID: id, Entries: ledger.Simple("wallet:shimul", "wallet:shop", dec("500"), "BDT"),
	}, nil, nil)
	if err != nil || payment.Err != nil {
		t.Fatal(err, payment.Err)
	}
	for _, text := range []string{number, strings.ToLower(number), string(id)} {
		written := ledger.TransferID(text)
		if s, err := o.Story(t.Context(), rina, main, written); err != nil || s.ID != id || s.Transfer == nil {
			t.Errorf("%s: %+v %v", text, s, err)
		}
		if f, err := o.Form(t.Context(), rina, main, written); err != nil || f.Transfer.ID != id {
			t.Errorf("%s: %+v %v", text, f, err)
		}
	}
	s := spec(ledger.TransferID(number), "100", "0")
	r := o.ask(t, rina, s, Posted)
	if s.Transfer = id; r.Original != id || !o.ask(t, rina, s, Posted).Replayed {
		t.Errorf("%+v", r)
	}
	if list, err := o.Refunds(t.Context(), rina, RefundFilter{Transfer: ledger.TransferID(number)}); err != nil || len(list) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	ref := strings.TrimPrefix(string(r.Transfer), "khata:")
	for _, text := range []string{ref, strings.ToLower(ref), "Refund:" + s.Key} {
		if got, err := o.Story(t.Context(), rina, main, ledger.TransferID(text)); err != nil || got.ID != r.Transfer {
			t.Errorf("%s: %+v %v", text, got, err)
		}
		if f, err := o.Find(t.Context(), rina, Query{Text: text}); err != nil || f.ids() != string(r.Transfer) || f.Hits[0].Why[0] != "reference of the refund" {
			t.Errorf("%s: %+v %v", text, f, err)
		}
	}
	for _, user := range []string{"shimul", "user:shimul"} {
		if f, err := o.Find(t.Context(), rina, Query{Text: "press-1", User: user}); err != nil || f.ids() != string(id) || f.Hits[0].Why[0] != "idempotency key of user:shimul" {
			t.Errorf("%s: %+v %v", user, f, err)
		}
	}
	page, err := o.Audit().Show(t.Context(), boss, AuditFilter{Ledger: main, Object: Object{ObjectTransfer, number}})
	if err != nil || len(page.Events) != 8 {
		t.Errorf("%+v %v", page.Events, err)
	}
	for _, e := range page.Events {
		if e.Object.ID != string(id) {
			t.Errorf("%+v", e)
		}
	}
	if got := o.count(t, "audit_event WHERE object_id ~ '^TXN-'"); got != "0" {
		t.Errorf("%s events are of an id that is in no books", got)
	}
	if got := o.query(t, `SELECT detail->>'id' FROM audit_event WHERE action = 'audit.list'`); got != string(id) {
		t.Errorf("the audit was looked at for %s", got)
	}
	// What has just this id comes first.
	o.pay(t, ledger.TransferID(number), "7.00")
	if s, err := o.Story(t.Context(), rina, main, ledger.TransferID(number)); err != nil || string(s.ID) != number {
		t.Errorf("%+v %v", s, err)
	}
	_, err = o.Story(t.Context(), rina, main, ledger.TransferID("TXN-"+strings.Repeat("Z", 26)))
	mustCode(t, err, ledger.CodeTransferNotFound)
	known, err := o.Audit().Known(t.Context(), main, []Object{
		{ObjectTransfer, string(id)}, {ObjectTransfer, "NOPE"}, {"refund", "1"}, {"refund", "99"}, {"suspect", "99"}, {"limit", "BDT"}, {ObjectTransfer, "no id"}, {"refund", "x"},
	})
	if err != nil || !known[Object{ObjectTransfer, string(id)}] || !known[Object{"refund", "1"}] {
		t.Errorf("%v %v", known, err)
	}
	for _, o := range []Object{{ObjectTransfer, "NOPE"}, {"refund", "99"}, {"suspect", "99"}} {
		if known[o] {
			t.Errorf("%v is known", o)
		}
	}
}

// TestStory_Looks: who looks again and again is told once.
func TestStory_Looks(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	look := func(minute int, who, what string) Item {
		return Item{At: at.Add(time.Duration(minute) * time.Minute), Source: SourceAudit, Who: who, What: what, look: true}
	}
	const form, story = "opened the refund form", "looked at this story"
	done := Item{At: at.Add(4 * time.Minute), Source: SourceRefund, Who: "rina", What: "asked"}
	var got strings.Builder
	for _, i := range joinLooks([]Item{
		look(0, "rina", form), look(1, "rina", form), look(2, "rina", story), look(3, "rina", form), done, look(5, "rina", form), look(6, "karim", form),
		look(7, "rina", story), look(16, "rina", story), look(18, "rina", story),
	}) {
		fmt.Fprintf(&got, "%s %s: %s %v\n", i.At.Format("15:04"), i.Who, i.What, i.Details)
	}
	want := `12:00 rina: opened the refund form 3 times, looked at this story [{until 2026-11-30 12:03:00Z}]
12:04 rina: asked []
12:05 rina: opened the refund form []
12:06 karim: opened the refund form []
12:07 rina: looked at this story 2 times [{until 2026-11-30 12:16:00Z}]
12:18 rina: looked at this story []
`
	if got.String() != want {
		t.Errorf("%s\nwant\n%s", got.String(), want)
	}
}

// TestStory_Many: of a payment that was refunded in many parts, the last 200 are told.
func TestStory_Many(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	const parts = MaxShown + 3
	var specs []ledger.TransferSpec
	for n := range parts {
		specs = append(specs, ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("part-%d", n)), Terms: &ledger.Terms{
			Kind: ledger.Refund, Origin: "order-1", Amount: ptr(dec("1")), ExpectedRefunded: ptr(dec(fmt.Sprint(n))), Reason: ledger.ReasonGoodwill,
		}})
	}
	results, err := o.journal.Post(t.Context(), "payments", main, specs)
	if err != nil || results[parts-1].Err != nil {
		t.Fatal(err)
	}
	s, err := o.Story(t.Context(), rina, main, "order-1")
	if err != nil || len(s.Cut) != 1 || s.Cut[0] != SourceLedger || len(s.Progress.Steps) != MaxShown || s.Progress.Steps[MaxShown-1] != specs[parts-1].ID {
		t.Fatalf("%v %v %d steps", err, s.Cut, len(s.Progress.Steps))
	}
	told := map[ledger.TransferID]bool{}
	for _, i := range s.Items {
		told[i.Transfer] = true
	}
	if told["part-2"] || !told["part-3"] || !told[specs[parts-1].ID] {
		t.Errorf("not the last ones are told: %v", told)
	}
}
