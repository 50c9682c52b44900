package support

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

// TestModel has two agents with two tabs each, and a supervisor, do what they like at the same time: forms are sent twice, in part and in full, by both;
// requests are approved, rejected, withdrawn or left to expire, by anybody; limits are changed; servers sweep. Whatever the order, the database must be
// one that a single careful person could have brought about.
func TestModel(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	// A second desk, whose requests expire while people think.
	hasty := New(o.journal, o.pool, Config{Lifetime: 40 * time.Millisecond})
	people := []Actor{rina, karim, boss}
	paid := 0
	rapid.Check(t, func(rt *rapid.T) {
		paid++
		total := rapid.Int64Range(1, 60).Draw(rt, "paid")
		id := ledger.TransferID(fmt.Sprintf("order-%d", paid))
		o.pay(t, id, fmt.Sprint(total))
		forms := make([]RefundSpec, 4)
		for i := range forms {
			forms[i] = spec(id, fmt.Sprint(rapid.Int64Range(1, total).Draw(rt, "amount")), fmt.Sprint(rapid.Int64Range(0, total/2).Draw(rt, "expected")))
			if rapid.Bool().Draw(rt, "first") {
				forms[i].ExpectedRefunded = dec("0")
			}
		}
		var mu sync.Mutex
		seen := map[int64]*Refund{}
		var numbers []int64
		note := func(r *Refund, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				if ledger.CodeOf(err).Retryable() {
					rt.Errorf("%v", err)
				}
				return
			}
			before, ok := seen[r.Number]
			if ok && before.State.Final() && r.State == Expired {
				return // It was read while the answer that is noted already was being committed. What it is afterwards is looked at below.
			}
			if !ok {
				numbers = append(numbers, r.Number)
			} else if before.SHA256 != r.SHA256 || before.State.Final() && before.State != r.State && before.State != Expired {
				rt.Errorf("request %d was %s and is %s", r.Number, before.State, r.State)
			}
			seen[r.Number] = r
		}
		for round := range rapid.IntRange(1, 4).Draw(rt, "rounds") {
			var wg sync.WaitGroup
			for range rapid.IntRange(2, 6).Draw(rt, "at once") {
				who := rapid.SampledFrom(people).Draw(rt, "who")
				desk := rapid.SampledFrom([]*Desk{o.Desk, o.Desk, hasty}).Draw(rt, "desk")
				what := rapid.IntRange(0, 9).Draw(rt, "what")
				switch {
				case what < 4 || len(numbers) == 0 && what < 8:
					form := rapid.SampledFrom(forms).Draw(rt, "form")
					wg.Go(func() { note(desk.Request(t.Context(), who, form)) })
				case what < 8:
					r := seen[rapid.SampledFrom(numbers).Draw(rt, "request")]
					other := seen[rapid.SampledFrom(numbers).Draw(rt, "another")]
					verdict := rapid.SampledFrom([]Verdict{Approve, Approve, Approve, Reject, Withdraw}).Draw(rt, "verdict")
					sum := r.SHA256
					if rapid.IntRange(0, 4).Draw(rt, "mixed up") == 0 {
						sum = other.SHA256
					}
					wg.Go(func() {
						note(desk.Decide(t.Context(), who, DecisionSpec{Number: r.Number, SHA256: sum, Verdict: verdict, Note: "so"}))
					})
				case what == 8:
					limit := LimitSpec{Currency: "BDT", Reason: fmt.Sprint(round), Single: dec(fmt.Sprint(rapid.Int64Range(0, 40).Draw(rt, "single"))), Daily: dec("200")}
					wg.Go(func() {
						if _, err := desk.SetLimit(t.Context(), boss, limit); err != nil {
							rt.Errorf("%v", err)
						}
					})
				default:
					wg.Go(func() {
						if _, err := desk.Sweep(t.Context()); err != nil {
							rt.Errorf("%v", err)
						}
					})
				}
			}
			wg.Wait()
			for _, no := range numbers {
				before := seen[no]
				r, err := o.Refund(t.Context(), boss, main, no)
				if err != nil || before.State.Final() && before.State != Expired && r.State != before.State {
					rt.Errorf("request %d was %s and is %+v afterwards, %v", no, before.State, r, err)
				}
			}
		}
		if _, err := o.Sweep(t.Context()); err != nil {
			rt.Fatal(err)
		}
		for what, sql := range map[string]string{
			"more was refunded than was paid": `SELECT coalesce(sum(r.amount), 0) > ` + fmt.Sprint(total) + ` FROM support_refund_request r
				JOIN support_refund_outcome o USING (ledger_id, request_no) WHERE o.outcome = 'posted' AND r.original = '` + string(id) + `'`,
			"what the desk has posted is not what the books have": `SELECT coalesce(sum(r.amount), 0) <> ` + o.refunded(t, id) + ` FROM support_refund_request r
				JOIN support_refund_outcome o USING (ledger_id, request_no) WHERE o.outcome = 'posted' AND r.original = '` + string(id) + `'`,
			"one was posted without another person": `SELECT EXISTS (SELECT FROM support_refund_outcome o JOIN support_refund_request r USING (ledger_id, request_no)
				WHERE r.approval <> 'none' AND NOT EXISTS (SELECT FROM support_refund_decision d WHERE d.request_no = r.request_no AND d.verdict = 'approve'
					AND d.decided_by <> r.maker AND d.sha256 = r.sha256))`,
			"one was posted after its time": `SELECT EXISTS (SELECT FROM support_refund_outcome o JOIN support_refund_request r USING (ledger_id, request_no)
				WHERE o.outcome = 'posted' AND o.settled_at >= r.expires_at)`,
			"somebody refunded more alone than the limit of a day": `SELECT EXISTS (SELECT FROM support_refund_request r WHERE r.approval = 'none'
				AND NOT EXISTS (SELECT FROM support_refund_outcome o WHERE o.request_no = r.request_no AND o.outcome = 'refused')
				GROUP BY r.maker HAVING sum(r.amount) > 200)`,
			"one above the limit for one went through alone": `SELECT EXISTS (SELECT FROM support_refund_request r JOIN support_limit l
				ON l.version = r.limit_version WHERE r.approval = 'none' AND r.amount > l.single)`,
			"the audit has not every request, decision and outcome once": `SELECT
				(SELECT count(*) FROM support_refund_request) <> (SELECT count(*) FROM audit_event WHERE action = 'refund.request')
				OR (SELECT count(*) FROM support_refund_decision) <> (SELECT count(*) FROM audit_event WHERE action ~ 'refund.(approve|reject|withdraw)'
					AND outcome = 'done')
				OR (SELECT count(*) FROM support_refund_outcome) <> (SELECT count(*) FROM audit_event WHERE action = 'refund.post')`,
			"one that can be posted was left": `SELECT EXISTS (SELECT FROM support_refund_request r WHERE r.expires_at > clock_timestamp() + interval '1 hour'
				AND NOT EXISTS (SELECT FROM support_refund_outcome o WHERE o.request_no = r.request_no)
				AND (r.approval = 'none' OR EXISTS (SELECT FROM support_refund_decision d WHERE d.request_no = r.request_no AND d.verdict = 'approve')))`,
		} {
			if o.query(t, "SELECT ("+sql+")::text") != "false" {
				rt.Fatal(what)
			}
		}
	})
}
