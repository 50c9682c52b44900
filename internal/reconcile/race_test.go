package reconcile

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// hold runs a statement in a transaction that stays open, and gives what ends it.
func (d *desk) hold(t *testing.T, sql string) (release func()) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), "BEGIN; "+sql); err != nil {
		t.Fatal(err)
	}
	return func() {
		if _, err := conn.Exec(context.Background(), "ROLLBACK"); err != nil {
			t.Error(err)
		}
	}
}

const holdAccount = "SELECT pg_advisory_xact_lock(4251, 1)"

// waiting waits until so many wait for the lock of the bank account.
func (d *desk) waiting(t *testing.T, want string) {
	t.Helper()
	for range 1000 {
		if d.query(t, `SELECT count(*)::text FROM pg_locks WHERE locktype = 'advisory' AND classid = 4251 AND NOT granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`) == want {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("nobody waits")
}

// TestStatement_WhileARunIsKept has a run kept while a statement looks for the state of which it is to be: between the numbers and the horizon of the
// books, for which it has to wait.
func TestStatement_WhileARunIsKept(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "R1 2026-01-02 50", "R2 2026-01-02 20")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-30 70.00", "2026-01-03 50.00 R1", "2026-01-03 20.00 R2"))
	release := d.hold(t, holdAccount)
	ran := make(chan error, 1)
	go func() {
		_, err := d.Match(context.Background(), MatchSpec{BankAccount: "bank"}, clerk)
		ran <- err
	}()
	d.waiting(t, "1")
	// The horizon waits for whoever holds the gate of the books.
	posted := d.hold(t, "SELECT pg_advisory_xact_lock_shared(4247, 1)")
	said := make(chan error, 1)
	var c sheet.Collector
	// On that day the entries were on their way.
	go func() {
		said <- d.Statement(context.Background(), StatementSpec{BankAccount: "bank", Day: day("2026-01-02")}, &c)
	}()
	time.Sleep(200 * time.Millisecond)
	release()
	if err := <-ran; err != nil {
		t.Fatal(err)
	}
	posted()
	if err := <-said; err != nil {
		t.Fatal(err)
	}
	if bad := sheet.Failed(c.Checks); len(bad) > 0 {
		t.Errorf("%+v", bad)
	}
}

// TestMatch_TakenApartMeanwhile has a person match and take apart again what a run is about to confirm. It is left to people then.
func TestMatch_TakenApartMeanwhile(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "R1 2026-01-02 50")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 50.00", "2026-01-02 50.00 R1"))
	w, err := d.work(t.Context(), d.account)
	if err != nil {
		t.Fatal(err)
	}
	made := must[*Decision](t)(d.confirm(t, []string{"R1"}, []string{"R1"}))
	must[*Decision](t)(d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "not the same"}, clerk))
	if run, err := d.keep(t.Context(), w, "late", clerk); !errors.Is(err, errStale) {
		t.Errorf("%+v, %v", run, err)
	}
	d.match(t)
	d.wantState(t, "line R1: matched suggested", "entry R1: matched suggested")
}

// TestApproveDifference_AtOnce has several people approve anew a difference that the books have refused to post. It is posted once.
func TestApproveDifference_AtOnce(t *testing.T) {
	t.Parallel()
	d := opened(t)
	freeze := func(f ledger.Frozen) {
		if _, err := d.journal.UpdateAccount(t.Context(), clerk, main, "expense:fees", ledger.AccountUpdate{Frozen: &f}); err != nil {
			t.Fatal(err)
		}
	}
	freeze(ledger.FrozenBoth)
	_, err := d.confirm(t, []string{"LINE-C"}, []string{"c"}, func(s *ConfirmSpec) { s.Difference = &DifferenceSpec{Account: "expense:fees"} })
	mustCode(t, err, ledger.CodeAccountFrozen)
	freeze(ledger.FrozenNone)
	list, _, err := d.Decisions(t.Context(), main, "bank", DecisionFilter{Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	release := d.hold(t, holdAccount)
	people := []string{"p1", "p2", "p3"}
	ended := make(chan error, len(people))
	for _, who := range people {
		go func() {
			_, err := d.ApproveDifference(context.Background(), ApproveSpec{BankAccount: "bank", Match: list[0].No,
				DifferenceSpec: DifferenceSpec{Account: "expense:fees"}}, who)
			ended <- err
		}()
	}
	d.waiting(t, "3")
	release()
	for range people {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if sum := d.query(t, `SELECT sum(amount)::text FROM entry JOIN account USING (ledger_id, account_no) WHERE account_id = 'expense:fees'`); sum != "0.01" {
		t.Errorf("%s was posted", sum)
	}
}

// approved gives a match whose difference may be posted, and was not yet, as whoever is about to post it has read it.
func (d *desk) approved(t *testing.T) *Decision {
	t.Helper()
	d.set(t, func(s *Settings) { s.Tolerance = dec("0.01") })
	made := must[*Decision](t)(d.confirm(t, []string{"LINE-C"}, []string{"c"}))
	against, err := d.differenceAccount(t.Context(), d.account, "expense:fees")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.change(t.Context(), "approve", func(tx pgx.Tx) error {
		return d.approve(t.Context(), tx, d.account, made.No, 1, made.Difference(), against, &DifferenceSpec{Account: "expense:fees"}, colleague)
	}); err != nil {
		t.Fatal(err)
	}
	return must[*Decision](t)(d.Decision(t.Context(), main, "bank", made.No))
}

// TestPostDifference_TakenBackMeanwhile takes a match back when its difference is about to be posted, and with it what was posted, which is nothing
// yet. Nothing is posted afterwards, since nobody would reverse it.
func TestPostDifference_TakenBackMeanwhile(t *testing.T) {
	t.Parallel()
	d := opened(t)
	about := d.approved(t)
	must[*Decision](t)(d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: about.No, Reason: "not the same", ReverseDifference: true}, clerk))
	_, err := d.postDifference(t.Context(), d.account, about)
	mustCode(t, err, ledger.CodeConflict)
	if n := d.query(t, `SELECT count(*)::text FROM entry JOIN account USING (ledger_id, account_no) WHERE account_id = 'expense:fees'`); n != "0" {
		t.Errorf("%s entries were posted for a match that holds no more: %v", n, err)
	}
}

// TestPostDifference_WaitsForDecisions posts nothing while somebody decides about the bank account, who may take the match back, and makes nobody else
// wait for that.
func TestPostDifference_WaitsForDecisions(t *testing.T) {
	t.Parallel()
	d := opened(t)
	about := d.approved(t)
	release := d.hold(t, holdAccount)
	ended := make(chan error, 1)
	go func() {
		_, err := d.postDifference(context.Background(), d.account, about)
		ended <- err
	}()
	time.Sleep(300 * time.Millisecond)
	d.post(t, "while 2026-01-09 1")
	if n := d.query(t, `SELECT count(*)::text FROM entry JOIN account USING (ledger_id, account_no) WHERE account_id = 'expense:fees'`); n != "0" {
		t.Errorf("%s entries were posted under the lock of somebody else", n)
	}
	release()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if now := must[*Decision](t)(d.Decision(t.Context(), main, "bank", about.No)); !now.Posted() {
		t.Errorf("%+v", now)
	}
}
