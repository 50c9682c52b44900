package support

import (
	"errors"
	"fmt"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestFaults cuts the connection before and after the commits of each change. The call finds out what became of them, and each has happened once.
func TestFaults(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	o := setup(t, Config{}, faults)
	o.limit(t, "10", "1000")
	n := 0
	for name, cut := range map[string]func(int){"before": faults.CutBeforeCommit, "after": faults.CutAfterCommit} {
		for cuts := 1; cuts <= 3; cuts++ {
			n++
			// Each change is made under cuts, and the database counts what has come of it.
			step := func(what string, do func() error, counts map[string]string) {
				t.Helper()
				cut(cuts)
				before := faults.Cuts()
				if err := do(); err != nil {
					t.Fatalf("%d cuts %s the commit of %s: %v", cuts, name, what, err)
				}
				cut(0)
				if faults.Cuts() == before {
					t.Errorf("nothing was cut %s the commit of %s", name, what)
				}
				for from, want := range counts {
					if got := o.count(t, from); got != want {
						t.Errorf("%d cuts %s the commit of %s: there are %s of %s, want %s", cuts, name, what, got, from, want)
					}
				}
			}
			id := ledger.TransferID(fmt.Sprintf("order-%d", n))
			o.pay(t, id, "100.00")
			about := func(action string) string {
				return fmt.Sprintf("audit_event WHERE object_id = '%s' AND action = '%s'", id, action)
			}
			step("a refund alone", func() error {
				r, err := o.Request(t.Context(), rina, spec(id, "10", "0"))
				if err == nil && (r.State != Posted || r.Replayed) {
					return fmt.Errorf("%+v", r)
				}
				return err
			}, map[string]string{
				about("refund.request"): "1", about("refund.post"): "1", "transfer WHERE origin = '" + string(id) + "'": "1",
				"support_refund_outcome JOIN support_refund_request USING (ledger_id, request_no) WHERE original = '" + string(id) + "'": "1",
			})
			var r *Refund
			step("a request", func() (err error) {
				r, err = o.Request(t.Context(), rina, spec(id, "20", "10"))
				return err
			}, map[string]string{about("refund.request"): "2"})
			step("an approval that is not allowed", func() error {
				if _, err := o.decide(t, rina, r, Approve); !errors.Is(err, ledger.CodePermissionDenied) {
					return fmt.Errorf("it was: %w", err)
				}
				return nil
			}, map[string]string{about("refund.approve"): "1"})
			step("an approval", func() error {
				done, err := o.decide(t, karim, r, Approve)
				if err == nil && (done.State != Posted || done.Replayed) {
					return fmt.Errorf("%+v", done)
				}
				return err
			}, map[string]string{
				about("refund.approve") + " AND outcome = 'done'": "1", about("refund.post"): "2", "transfer WHERE origin = '" + string(id) + "'": "2",
				fmt.Sprintf("support_refund_decision WHERE request_no = %d", r.Number): "1",
			})
			r = o.ask(t, rina, spec(id, "30", "30"), Waiting)
			step("a rejection", func() error {
				_, err := o.decide(t, karim, r, Reject)
				return err
			}, map[string]string{about("refund.reject"): "1", fmt.Sprintf("support_refund_decision WHERE request_no = %d", r.Number): "1"})
			// The books refuse the second of these.
			a, b := o.ask(t, rina, spec(id, "40", "30"), Waiting), o.ask(t, rina, spec(id, "41", "30"), Waiting)
			if _, err := o.decide(t, karim, a, Approve); err != nil {
				t.Fatal(err)
			}
			step("a refusal", func() error {
				done, err := o.decide(t, karim, b, Approve)
				if err == nil && done.State != RefusedByBooks {
					return fmt.Errorf("%+v", done)
				}
				return err
			}, map[string]string{about("refund.post") + " AND outcome = 'refused'": "1"})
			step("a limit", func() error {
				_, err := o.SetLimit(t.Context(), boss, LimitSpec{Currency: "BDT", Single: dec("10"), Daily: dec(fmt.Sprint(1000 + n)), Reason: "test"})
				return err
			}, map[string]string{"support_limit": fmt.Sprint(1 + n), "audit_event WHERE action = 'limit.set'": fmt.Sprint(1 + n)})
			shown := 0
			step("a read", func() error {
				return o.audit.Read(t.Context(), Event{Ledger: main, Actor: rina, Action: "test.read", Object: Object{ObjectTransfer, string(id)}}, func() error {
					shown++
					return nil
				})
			}, map[string]string{about("test.read"): "1"})
			if shown != 1 {
				t.Errorf("it was shown %d times", shown)
			}
		}
	}
}

// TestFaults_Undone has the database go away in the middle of a posting: the answer is that it is open, and the sweep ends it.
func TestFaults_Undone(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	o := setup(t, Config{}, faults)
	o.pay(t, "order-1", "100.00")
	s := spec("order-1", "20", "0")
	r := o.ask(t, rina, s, Waiting)
	// The decision's commit gets through; those of the posting do not, until its budget is spent.
	o.db.Exec(t, `CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'away' USING ERRCODE = '57014'; END $$`)
	o.db.Exec(t, `CREATE TRIGGER stop BEFORE INSERT ON support_refund_outcome FOR EACH ROW EXECUTE FUNCTION stop()`)
	_, err := o.decide(t, karim, r, Approve)
	mustCode(t, err, ledger.CodeUnavailable)
	if got := o.read(t, r.Number); got.State != Ready || o.refunded(t, "order-1") != "0" {
		t.Fatalf("%+v", got)
	}
	o.db.Exec(t, `DROP TRIGGER stop ON support_refund_outcome`)
	if n, err := o.Sweep(t.Context()); n != 1 || err != nil {
		t.Fatalf("%d %v", n, err)
	}
	if again := o.ask(t, rina, s, Posted); !again.Replayed || o.refunded(t, "order-1") != "20" {
		t.Errorf("%+v", again)
	}
}

func (o *office) read(t testing.TB, number int64) *Refund {
	t.Helper()
	r, err := o.refund(t.Context(), o.pool, main, 1, number) // Without the audit, which a test has refuse to be written.
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestAudit_OrNothing has the audit refuse to be written: then nothing else is.
func TestAudit_OrNothing(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "100.00")
	a, b := o.ask(t, rina, spec("order-1", "20", "0"), Waiting), o.ask(t, rina, spec("order-1", "30", "0"), Waiting)
	stop := `CREATE OR REPLACE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN IF NEW.action <> '%s' THEN RAISE EXCEPTION 'the audit is full'; END IF; RETURN NEW; END $$`
	o.db.Exec(t, fmt.Sprintf(stop, ""))
	o.db.Exec(t, `CREATE TRIGGER stop BEFORE INSERT ON audit_event FOR EACH ROW EXECUTE FUNCTION stop()`)
	before := o.query(t, `SELECT concat_ws(' ', (SELECT count(*) FROM support_refund_request), (SELECT count(*) FROM support_refund_decision),
		(SELECT count(*) FROM support_refund_outcome), (SELECT count(*) FROM support_limit), (SELECT count(*) FROM transfer))`)
	_, err := o.Request(t.Context(), rina, spec("order-1", "1", "0"))
	mustCode(t, err, ledger.CodeInternal)
	_, err = o.decide(t, karim, a, Approve)
	mustCode(t, err, ledger.CodeInternal)
	_, err = o.decide(t, karim, b, Reject)
	mustCode(t, err, ledger.CodeInternal)
	_, err = o.SetLimit(t.Context(), boss, LimitSpec{Currency: "BDT", Reason: "test"})
	mustCode(t, err, ledger.CodeInternal)
	err = o.audit.Read(t.Context(), Event{Actor: rina, Action: "test.read", Object: Object{"test", "x"}}, func() error {
		t.Error("it was shown")
		return nil
	})
	mustCode(t, err, ledger.CodeInternal)
	after := o.query(t, `SELECT concat_ws(' ', (SELECT count(*) FROM support_refund_request), (SELECT count(*) FROM support_refund_decision),
		(SELECT count(*) FROM support_refund_outcome), (SELECT count(*) FROM support_limit), (SELECT count(*) FROM transfer))`)
	if before != after {
		t.Errorf("there were %s, and are %s", before, after)
	}
	// The approval can be written, and the posting cannot: no money moves.
	o.db.Exec(t, fmt.Sprintf(stop, ActionRefundApprove))
	_, err = o.decide(t, karim, a, Approve)
	mustCode(t, err, ledger.CodeInternal)
	if got := o.read(t, a.Number); got.State != Ready || o.refunded(t, "order-1") != "0" {
		t.Errorf("%+v", got)
	}
	o.db.Exec(t, `DROP TRIGGER stop ON audit_event`)
	if n, err := o.Sweep(t.Context()); n != 1 || err != nil || o.refunded(t, "order-1") != "20" {
		t.Errorf("%d %v", n, err)
	}
}

// TestAudit_Read does not show what fails.
func TestAudit_Read(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	wrong := errors.New("wrong")
	if err := o.audit.Read(t.Context(), Event{Actor: rina, Action: "test.read", Object: Object{"test", "x"}}, func() error { return wrong }); !errors.Is(err, wrong) {
		t.Error(err)
	}
	nothing := func() error { return nil }
	for _, c := range []struct {
		event Event
		code  ledger.Code
	}{
		{Event{Action: "test.read", Object: Object{"test", "x"}}, ledger.CodeInvalidArgument},
		{Event{Actor: rina, Action: "Test read", Object: Object{"test", "x"}}, ledger.CodeInvalidArgument},
		{Event{Actor: rina, Action: "test.read", Object: Object{"", "x"}}, ledger.CodeInvalidArgument},
		{Event{Actor: rina, Action: "test.read", Object: Object{"test", "x\x00"}}, ledger.CodeInvalidArgument},
		{Event{Ledger: "nowhere", Actor: rina, Action: "test.read", Object: Object{"test", "x"}}, ledger.CodeLedgerNotFound},
		{Event{Actor: rina, Action: "test.read", Object: Object{"test", "x"}, Detail: map[string]string{"x": fmt.Sprintf("%09000d", 1)}}, ledger.CodeInvalidArgument},
	} {
		mustCode(t, o.audit.Read(t.Context(), c.event, nothing), c.code)
	}
}
