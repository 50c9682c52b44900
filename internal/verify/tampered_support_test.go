package verify_test

import (
	"context"
	"maps"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

// newSupportedBooks are books with a request for a refund in each state: 1 was posted alone, 2 and 3 were approved, of which the books refused the
// second, 4 was rejected, 5 withdrawn, and 6 waits. Nobody is connected to them.
func newSupportedBooks(t *testing.T) *books {
	t.Helper()
	db := pgtest.New(t)
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	b := &books{Journal: journal.New(pool, journal.Config{ExpireEvery: -1}), db: db}
	defer b.Close()
	b.accounts(t, main,
		ledger.AccountSpec{ID: "wallet", Type: ledger.Liability, Currency: "BDT"}, ledger.AccountSpec{ID: "shop", Type: ledger.Liability, Currency: "BDT"},
		ledger.AccountSpec{ID: "usd", Type: ledger.Asset, Currency: "USD"})
	b.post(t, main, "posted", move("order-1", "wallet", "shop", "500"), move("order-2", "wallet", "shop", "500"))
	desk := support.New(b.Journal, pool, support.Config{})
	rina, karim := support.Actor{Name: "rina"}, support.Actor{Name: "karim"}
	if _, err := desk.SetLimit(t.Context(), karim, support.LimitSpec{
		Currency: "BDT", Single: decimal.NewFromInt(10), Daily: decimal.NewFromInt(15), Reason: "test",
	}); err != nil {
		t.Fatal(err)
	}
	ask := func(amount, expected int64) *support.Refund {
		r, err := desk.Request(t.Context(), rina, support.RefundSpec{
			Key: support.MintKey(), Transfer: "order-1", Amount: decimal.NewFromInt(amount), ExpectedRefunded: decimal.NewFromInt(expected), Reason: ledger.ReasonDuplicate,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	decide := func(who support.Actor, r *support.Refund, v support.Verdict, want support.State) {
		r, err := desk.Decide(t.Context(), who, support.DecisionSpec{Number: r.Number, SHA256: r.SHA256, Verdict: v, Note: "looked at it"})
		if err != nil || r.State != want {
			t.Fatalf("%+v %v", r, err)
		}
	}
	ask(10, 0)
	posted, refused, rejected, withdrawn := ask(100, 10), ask(101, 10), ask(102, 10), ask(103, 10)
	ask(104, 10)
	decide(karim, posted, support.Approve, support.Posted)
	decide(karim, refused, support.Approve, support.RefusedByBooks)
	decide(karim, rejected, support.Reject, support.Rejected)
	decide(rina, withdrawn, support.Withdraw, support.Withdrawn)
	return b
}

// Each tampering with what people have asked for, decided and done is found.
func TestRun_TamperedSupport(t *testing.T) {
	t.Parallel()
	original := newSupportedBooks(t)
	report := run(t, original.db.ServiceDSN())
	if _, all := breaches(report); !report.OK() {
		t.Fatal(all)
	}
	set := func(table, change, where string) []string {
		return always(table, "UPDATE "+table+" SET "+change+" WHERE "+where)
	}
	const request, decision, outcome = "support_refund_request", "support_refund_decision", "support_refund_outcome"
	reseal := always(request, `UPDATE support_refund_request SET sha256 = sha256(convert_to(json_build_array(ledger_id, request_no, key, original, amount::text, currency,
		expected_refunded::text, reason, note, ticket, maker, extract(epoch FROM made_at)::text, extract(epoch FROM expires_at)::text)::text, 'UTF8'))`)
	for _, c := range []struct {
		name string
		do   []string
		want map[string]int64
		says string
	}{
		{"another amount", set(request, "amount = 11", "request_no = 6"), map[string]int64{"support": 1}, "request 6: its hash is not that of its content"},
		{"another amount after the approval", join(set(request, "amount = 99", "request_no = 2"), reseal), map[string]int64{"support": 2}, "something else was decided about"},
		{"another amount than was posted", join(set(request, "amount = 9", "request_no = 1"), reseal), map[string]int64{"support": 1}, "is not what was asked for: 9 BDT of order-1"},
		{"another original", join(set(request, "original = 'order-2'", "request_no = 1"), reseal), map[string]int64{"support": 1}, "10.00 BDT of order-2"},
		{"another currency", join(set(request, "currency = 'USD'", "request_no = 1"), reseal), map[string]int64{"support": 2}, "there was no limit"},
		{"the approver is the maker", set(decision, "decided_by = 'oidc:Rina'", "request_no = 2"), map[string]int64{"support": 1}, "rina made it, and oidc:Rina decided: approve"},
		{"another one withdraws", set(decision, "decided_by = 'karim'", "request_no = 5"), map[string]int64{"support": 1}, "karim decided: withdraw"},
		{"an approval that came late", set(decision, "decided_at = decided_at + interval '4 days'", "request_no = 2"), map[string]int64{"support": 1}, "when it had expired"},
		{"an approval that is gone", always(decision, "DELETE FROM support_refund_decision WHERE request_no = 2"), map[string]int64{"support": 1}, "nobody had approved it"},
		{"an approval that was a rejection", set(decision, "verdict = 'reject'", "request_no = 2"), map[string]int64{"support": 1}, "it was posted, and nobody had approved it"},
		{"one that needed nobody", set(request, "approval = 'none'", "request_no = 6"), map[string]int64{"support": 1}, "request 6: nobody has approved it: it is 104.00 of 10"},
		{"a day's total", set("support_limit", "daily = 9", "true"), map[string]int64{"support": 1}, "with all of a day 10.00 of 9"},
		{"a limit that is gone", always("support_limit", "DELETE FROM support_limit"), map[string]int64{"support": 1}, "there was no limit"},
		{"posted late", set(outcome, "settled_at = settled_at + interval '4 days'", "request_no = 1"), map[string]int64{"support": 1}, "it was posted when it had expired"},
		{"what became of it is gone", always(outcome, "DELETE FROM support_refund_outcome WHERE request_no = 3"), map[string]int64{"support": 1}, "not among what became of it"},
		{"posted, and it was refused", set(outcome, "outcome = 'posted', code = NULL", "request_no = 3"), map[string]int64{"support": 1}, "is not what was asked for"},
		{"a request that is gone", always(request, "DELETE FROM support_refund_request WHERE request_no = 1"), map[string]int64{"support": 1}, "it is not there, and something has become of it"},
		{"a request and what became of it", join(always(request, "DELETE FROM support_refund_request WHERE request_no = 1"), always(outcome, "DELETE FROM support_refund_outcome WHERE request_no = 1")),
			map[string]int64{"support": 1}, "is in the books, and nobody has asked for it"},
		{"the audit of it", always("audit_event", "DELETE FROM audit_event WHERE action = 'refund.post' AND detail ->> 'request' = '1'"),
			map[string]int64{"support": 1}, "the audit has 0 times what became of it"},
		{"a guard switched off", []string{"ALTER TABLE support_refund_decision DISABLE TRIGGER support_refund_decision_four_eyes"}, map[string]int64{"guards": 1}, "four_eyes"},
		{"a guard that replicas do without", []string{"ALTER TABLE suspect_member ENABLE TRIGGER suspect_member_refuse_change"}, map[string]int64{"guards": 1}, "not ALWAYS"},
		{"another person", []string{"CREATE OR REPLACE FUNCTION support_person(name text) RETURNS text LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$ SELECT name $$"},
			map[string]int64{"guards": 1}, "support_person"},
		{"UPDATE on audit_event", []string{"GRANT UPDATE ON audit_event TO khata_service"}, map[string]int64{"privileges": 1}, "khata_service may UPDATE audit_event"},
		{"INSERT on audit_event", []string{"GRANT INSERT ON audit_event TO khata_service"}, map[string]int64{"privileges": 1}, "khata_service may INSERT audit_event"},
		{"DELETE on suspect_decision", []string{"GRANT DELETE ON suspect_decision TO khata_service"}, map[string]int64{"privileges": 1}, "khata_service may DELETE suspect_decision"},
		{"a request's numbers", []string{"GRANT UPDATE ON SEQUENCE support_refund_request_request_no_seq TO khata_service"}, map[string]int64{"privileges": 1}, "request_no_seq"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			copied := original.clone(t)
			tamper(t, copied.super, c.do...)
			got, all := breaches(run(t, copied.service))
			if !maps.Equal(got, c.want) || !strings.Contains(all, c.says) {
				t.Errorf("breaches %v, want %v with %q:\n%s", got, c.want, c.says, all)
			}
		})
	}
}
