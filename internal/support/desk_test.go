package support

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// TestRefund_Alone is a refund below the limits: posted at once, and once, however often the form is sent.
func TestRefund_Alone(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	o.limit(t, "100", "250")
	form, err := o.Form(t.Context(), rina, main, "order-1")
	if err != nil {
		t.Fatal(err)
	}
	if form.Closed != nil || form.Refundable.String() != "500" || form.Refunded.String() != "0" || form.Limit.Single.String() != "100" || !wellFormedKey.MatchString(form.Key) {
		t.Errorf("%+v", form)
	}
	s := spec("order-1", "100", "0")
	s.Key = form.Key
	first := o.ask(t, rina, s, Posted)
	if first.Replayed || first.Transfer != RefundID(s.Key) || first.Approval != ApprovalNone || first.LimitVersion != 1 {
		t.Errorf("%+v", first)
	}
	for range 3 {
		again := o.ask(t, rina, s, Posted)
		if !again.Replayed || again.Number != first.Number || again.SHA256 != first.SHA256 {
			t.Errorf("%+v", again)
		}
	}
	if got := o.refunded(t, "order-1"); got != "100" {
		t.Errorf("%s is refunded", got)
	}
	tr, _, err := o.journal.Transfer(t.Context(), main, first.Transfer)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"refund":{"maker":"rina","reason":"duplicate","request":"1","ticket":"T-1"}}`; string(tr.Metadata) != want || tr.Caller != "rina" ||
		strings.Contains(tr.Description, "paid twice") || tr.Terms.Reason != ledger.ReasonDuplicate {
		t.Errorf("%s %+v", tr.Metadata, tr)
	}
	if got := o.audited(t, "order-1"); got != "rina refund.form read, rina refund.request done, rina refund.post done" {
		t.Error(got)
	}
	// The same key with anything else.
	for field, change := range map[string]func(*RefundSpec){
		"amount": func(s *RefundSpec) { s.Amount = dec("99") }, "note": func(s *RefundSpec) { s.Note = "other" },
		"reason": func(s *RefundSpec) { s.Reason = ledger.ReasonGoodwill }, "expected_refunded": func(s *RefundSpec) { s.ExpectedRefunded = dec("1") },
		"transfer_id": func(s *RefundSpec) { s.Transfer = "order-2" }, "ticket": func(s *RefundSpec) { s.Ticket = "" },
	} {
		other := s
		change(&other)
		_, err := o.Request(t.Context(), rina, other)
		mustCode(t, err, ledger.CodeAlreadyExists)
		if !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	_, err = o.Request(t.Context(), karim, s)
	mustCode(t, err, ledger.CodeAlreadyExists)
	// The day's total: 100, 100, and 50 more.
	o.ask(t, rina, spec("order-1", "100.00", "100"), Posted)
	if r := o.ask(t, rina, spec("order-1", "50.01", "200"), Waiting); r.Approval != ApprovalAboveDaily {
		t.Errorf("%+v", r)
	}
	if r := o.ask(t, rina, spec("order-1", "100.01", "200"), Waiting); r.Approval != ApprovalAboveSingle {
		t.Errorf("%+v", r)
	}
	o.ask(t, karim, spec("order-1", "50.01", "200"), Posted)
}

// TestRefund_FourEyes is a refund that another person approves.
func TestRefund_FourEyes(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	r := o.ask(t, rina, spec("order-1", "500", "0"), Waiting)
	if r.Approval != ApprovalNoLimit {
		t.Errorf("%+v", r)
	}
	for _, who := range []Actor{rina, {Name: "RINA"}} {
		_, err := o.decide(t, who, r, Approve)
		mustCode(t, err, ledger.CodePermissionDenied)
	}
	_, err := o.decide(t, karim, r, Withdraw)
	mustCode(t, err, ledger.CodePermissionDenied)
	_, err = o.Decide(t.Context(), karim, DecisionSpec{Number: r.Number, SHA256: strings.Repeat("0", 64), Verdict: Approve})
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = o.Decide(t.Context(), karim, DecisionSpec{Number: 99, SHA256: r.SHA256, Verdict: Approve})
	mustCode(t, err, ledger.CodeTransferNotFound)
	if got := o.refunded(t, "order-1"); got != "0" {
		t.Fatalf("%s is refunded", got)
	}
	after, err := o.decide(t, karim, r, Approve)
	if err != nil || after.State != Posted || after.Replayed || after.Approver() != "karim" {
		t.Fatalf("%+v %v", after, err)
	}
	again, err := o.decide(t, karim, r, Approve)
	if err != nil || !again.Replayed || again.State != Posted {
		t.Fatalf("%+v %v", again, err)
	}
	_, err = o.decide(t, boss, r, Reject)
	mustCode(t, err, ledger.CodeAlreadyExists)
	tr, _, err := o.journal.Transfer(t.Context(), main, after.Transfer)
	if err != nil || !strings.Contains(string(tr.Metadata), `"approver":"karim"`) {
		t.Errorf("%v %+v", err, tr)
	}
	if got, want := o.audited(t, "order-1"), "rina refund.request done, rina refund.approve refused, RINA refund.approve refused, "+
		"karim refund.withdraw refused, karim refund.approve done, rina refund.post done"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestRefund_NotApproved are the other ends of a request.
func TestRefund_NotApproved(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	late := spec("order-1", "4", "0")
	rejected, withdrawn := o.ask(t, rina, spec("order-1", "1", "0"), Waiting), o.ask(t, rina, spec("order-1", "2", "0"), Waiting)
	over := o.expired(t, rina, late)
	if r, err := o.decide(t, karim, rejected, Reject); err != nil || r.State != Rejected {
		t.Fatalf("%+v %v", r, err)
	}
	if r, err := o.decide(t, rina, withdrawn, Withdraw); err != nil || r.State != Withdrawn {
		t.Fatalf("%+v %v", r, err)
	}
	_, err := o.decide(t, karim, withdrawn, Approve)
	mustCode(t, err, ledger.CodeAlreadyExists)
	_, err = o.decide(t, karim, over, Approve)
	mustCode(t, err, ledger.CodeInvalidArgument)
	if r := o.ask(t, rina, late, Expired); !r.Replayed {
		t.Errorf("%+v", r)
	}
	if n, err := o.Sweep(t.Context()); n != 0 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	if got := o.refunded(t, "order-1"); got != "0" {
		t.Errorf("%s is refunded", got)
	}
}

// expired asks for a refund at a desk where requests live for a short time only, and waits until this one has expired.
func (o *office) expired(t testing.TB, who Actor, s RefundSpec) *Refund {
	t.Helper()
	r, err := New(o.journal, o.pool, Config{Lifetime: time.Second}).Request(t.Context(), who, s)
	if err != nil {
		t.Fatal(err)
	}
	if r.State != Waiting && time.Now().Before(r.ExpiresAt) { // It may have taken longer than that to ask.
		t.Fatalf("request %d is %s before its time: %+v", r.Number, r.State, r)
	}
	time.Sleep(time.Until(r.ExpiresAt) + 50*time.Millisecond)
	return r
}

// TestRefund_BooksRefuse has the books say no to what was approved.
func TestRefund_BooksRefuse(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	o.pay(t, "order-2", "50.00", "wallet:poor")
	o.post(t, ledger.TransferSpec{ID: "spent", Entries: ledger.Simple("wallet:poor", "wallet:shop", dec("30"), "BDT")})
	a, b := o.ask(t, rina, spec("order-1", "300", "0"), Waiting), o.ask(t, karim, spec("order-1", "200", "0"), Waiting)
	if r, err := o.decide(t, boss, a, Approve); err != nil || r.State != Posted {
		t.Fatalf("%+v %v", r, err)
	}
	r, err := o.decide(t, boss, b, Approve)
	if err != nil || r.State != RefusedByBooks || r.Code != ledger.CodeRefundedChanged || r.Message == "" || r.Transfer == "" {
		t.Fatalf("%+v %v", r, err)
	}
	c := o.ask(t, rina, spec("order-2", "50", "0"), Waiting)
	r, err = o.decide(t, boss, c, Approve)
	if err != nil || r.State != RefusedByBooks || r.Code != ledger.CodeInsufficientFunds || !strings.Contains(r.Message, "wallet:poor") {
		t.Fatalf("%+v %v", r, err)
	}
	if got := o.audited(t, "order-2"); got != "rina refund.request done, boss refund.approve done, rina refund.post refused" {
		t.Error(got)
	}
	// What cannot be at all is told at once, and not written down.
	before := o.count(t, "support_refund_request")
	for _, c := range []struct {
		spec RefundSpec
		code ledger.Code
	}{
		{spec("nothing", "1", "0"), ledger.CodeTransferNotFound}, {spec("order-1", "1", "0"), ledger.CodeRefundedChanged},
		{spec("order-1", "200.01", "300"), ledger.CodeRefundExceedsRest}, {spec("order-1", "0.001", "300"), ledger.CodeAmountScale},
		{spec(a.original(), "1", "0"), ledger.CodeWrongOrigin}, {spec("order-1", "0", "300"), ledger.CodeInvalidArgument},
		{spec("order-1", "1e40", "300"), ledger.CodeInvalidArgument},
	} {
		_, err := o.Request(t.Context(), rina, c.spec)
		mustCode(t, err, c.code)
	}
	other := spec("order-1", "1", "300")
	other.Reason, other.Note = ledger.ReasonOther, " "
	_, err = o.Request(t.Context(), rina, other)
	mustCode(t, err, ledger.CodeInvalidArgument)
	if after := o.count(t, "support_refund_request"); after != before {
		t.Errorf("%s requests, and before %s", after, before)
	}
}

// original is the refund itself, as if somebody wanted to refund it.
func (r *Refund) original() ledger.TransferID { return RefundID(r.Key) }

// TestDailyTotal has one person send many forms at once: those that are posted stay below the limit of a day, and the others wait.
func TestDailyTotal(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.limit(t, "10", "35")
	const forms = 12
	var wg sync.WaitGroup
	states := make([]*Refund, forms)
	errs := make([]error, forms)
	for n := range forms {
		o.pay(t, ledger.TransferID(fmt.Sprintf("order-%d", n)), "10.00")
	}
	for n := range forms {
		wg.Go(func() {
			states[n], errs[n] = o.Request(t.Context(), rina, spec(ledger.TransferID(fmt.Sprintf("order-%d", n)), "10", "0"))
		})
	}
	wg.Wait()
	posted := 0
	for n, r := range states {
		switch {
		case errs[n] != nil:
			t.Error(errs[n])
		case r.State == Posted:
			posted++
		case r.State != Waiting || r.Approval != ApprovalAboveDaily:
			t.Errorf("%+v", r)
		}
	}
	if posted != 3 {
		t.Errorf("%d refunds of 10 were posted below a limit of 35", posted)
	}
	if got := o.query(t, `SELECT sum(amount)::text FROM support_refund_request WHERE approval = 'none'`); got != "30.00" {
		t.Errorf("%s was refunded alone", got)
	}
	o.pay(t, "another", "10.00")
	form, err := o.Form(t.Context(), rina, main, "another")
	if err != nil || form.Alone.String() != "30" {
		t.Errorf("%+v %v", form, err)
	}
}

// TestLimits are versions.
func TestLimits(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.limit(t, "10", "20")
	o.limit(t, "10", "20")
	o.limit(t, "0", "20")
	list, err := o.Limits(t.Context(), main, "BDT")
	if err != nil || len(list) != 2 || list[0].Version != 2 || !list[0].Single.IsZero() || list[0].SetBy != "boss" {
		t.Fatalf("%+v %v", list, err)
	}
	if list, err = o.Limits(t.Context(), main, ""); err != nil || len(list) != 1 || list[0].Version != 2 {
		t.Fatalf("%+v %v", list, err)
	}
	if got := o.audited(t, "BDT"); got != "boss limit.set done, boss limit.set done" {
		t.Error(got)
	}
	for _, s := range []LimitSpec{
		{Currency: "BDT", Single: dec("-1"), Reason: "x"}, {Currency: "BDT", Single: dec("1")}, {Currency: "BDT", Daily: dec("1e99"), Reason: "x"},
	} {
		_, err := o.SetLimit(t.Context(), boss, s)
		mustCode(t, err, ledger.CodeInvalidArgument)
	}
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Currency: "BDT", Daily: dec("0.001"), Reason: "x"})
	mustCode(t, err, ledger.CodeAmountScale)
	if !strings.Contains(err.Error(), "daily: 0.001 has more decimals than BDT, which has 2") {
		t.Error(err)
	}
	// What could never be used is a mistake.
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Currency: "BDT", Single: dec("100"), Daily: dec("50"), Reason: "x"})
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Currency: "XAU", Reason: "x"})
	mustCode(t, err, ledger.CodeCurrencyNotFound)
	// One that Khata knows, and that no account of the ledger has.
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Currency: "USD", Reason: "x"})
	mustCode(t, err, ledger.CodeCurrencyNotFound)
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Ledger: "nowhere", Currency: "BDT", Reason: "x"})
	mustCode(t, err, ledger.CodeLedgerNotFound)
}

// TestSweep takes up what was left between its approval and its posting.
func TestSweep(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	r := o.ask(t, rina, spec("order-1", "5", "0"), Waiting)
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
		VALUES (1, %d, 'approve', decode('%s', 'hex'), '', 'karim', now())`, r.Number, r.SHA256))
	if n, err := o.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if n, err := o.Sweep(t.Context()); n != 0 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	got, err := o.Refund(t.Context(), boss, main, r.Number)
	if err != nil || got.State != Posted || got.Approver() != "karim" {
		t.Fatalf("%+v %v", got, err)
	}
	list, err := o.Refunds(t.Context(), boss, RefundFilter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v %v", list, err)
	}
	if _, err := json.Marshal(list); err != nil {
		t.Error(err)
	}
}
