package reconcile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestAtOnce has people import, run, confirm, ignore and undo at the same time, on two servers, while transfers are posted and connections break. At
// the end nothing is taken twice, and the balances are explained.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	d.open(t, "EUR", func(s *BankAccountSpec) { s.Settings.Confirm = automatic })
	d.usingCSV(t)
	other := New(d.journal, d.pool)
	deadline := time.Now().Add(3 * time.Second)
	var wait sync.WaitGroup
	var counts sync.Map
	var again atomic.Int64 // what was to be asked again
	work := func(what string, do func(random *rand.Rand, r *Reconciler) error) {
		for worker := range 2 {
			wait.Go(func() {
				random := rand.New(rand.NewPCG(uint64(worker), uint64(len(what))))
				r := []*Reconciler{d.Reconciler, other}[worker]
				for n := 0; time.Now().Before(deadline); n++ {
					err := do(random, r)
					switch code := ledger.CodeOf(err); {
					case err == nil:
						counts.Store(fmt.Sprint(what, worker), n)
					case code == ledger.CodeConflict, code == ledger.CodeInvalidArgument, code == ledger.CodeTransferNotFound,
						code == ledger.CodeNotFound:
					case code.Retryable() && code != ledger.CodeInternal:
						again.Add(1)
						t.Logf("%s: %v", what, err)
					default:
						t.Errorf("%s: %v", what, err)
						return
					}
				}
			})
		}
	}
	var posted sync.Mutex
	next := 0
	work("post", func(random *rand.Rand, _ *Reconciler) error {
		posted.Lock()
		defer posted.Unlock()
		next++
		at := time.Date(2026, 1, 1+random.IntN(9), 0, 0, 0, 0, time.UTC)
		results, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{{
			ID: ledger.TransferID(fmt.Sprintf("t%d", next)), Entries: ledger.Simple("assets:bank", "wallet", dec(fmt.Sprint(1+random.IntN(5))), ""),
			EffectiveAt: &at,
		}})
		if err != nil {
			return err
		}
		return results[0].Err
	})
	var rows []string
	work("import", func(random *rand.Rand, r *Reconciler) error {
		posted.Lock()
		for range random.IntN(4) {
			rows = append(rows, fmt.Sprintf("2026-01-%02d;%d.00;t%d;;", 1+random.IntN(9), 1+random.IntN(5), 1+random.IntN(next+1)))
		}
		file := csvFile(rows...)
		posted.Unlock()
		_, err := r.Import(t.Context(), ImportSpec{BankAccount: "bank"}, strings.NewReader(file), clerk)
		return err
	})
	work("match", func(_ *rand.Rand, r *Reconciler) error {
		_, err := r.Match(t.Context(), MatchSpec{BankAccount: "bank"}, clerk)
		return err
	})
	work("suggestion", func(random *rand.Rand, r *Reconciler) error {
		run, err := r.Run(t.Context(), main, "bank", 0)
		if err != nil {
			return err
		}
		_, err = r.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Run: run.No, Group: 1 + random.IntN(20)}, clerk)
		return err
	})
	work("confirm", func(random *rand.Rand, r *Reconciler) error {
		lines, _, err := r.Lines(t.Context(), main, "bank", LineFilter{Open: true, Limit: 20})
		if err != nil || len(lines) == 0 {
			return err
		}
		spec := ConfirmSpec{BankAccount: "bank", Lines: []LineTake{{Line: lines[random.IntN(len(lines))].No}}}
		spec.Entries = []EntryTake{{Transfer: ledger.TransferID(fmt.Sprintf("t%d", 1+random.IntN(50)))}}
		if random.IntN(2) == 0 {
			spec.Difference = &DifferenceSpec{Account: "expense:fees"}
		}
		_, err = r.Confirm(t.Context(), spec, colleague)
		return err
	})
	work("undo", func(random *rand.Rand, r *Reconciler) error {
		time.Sleep(time.Duration(random.IntN(100)) * time.Millisecond)
		list, _, err := r.Decisions(t.Context(), main, "bank", DecisionFilter{Active: true, Limit: 20})
		if err != nil || len(list) == 0 {
			return err
		}
		spec := UnmatchSpec{BankAccount: "bank", Match: list[random.IntN(len(list))].No, Reason: "storm", ReverseDifference: random.IntN(2) == 0}
		_, err = r.Unmatch(t.Context(), spec, colleague)
		return err
	})
	wait.Go(func() {
		for time.Now().Before(deadline) {
			time.Sleep(300 * time.Millisecond)
			faults.CutAfterCommit(1)
			time.Sleep(300 * time.Millisecond)
			faults.CutBeforeCommit(1)
		}
	})
	wait.Wait()
	faults.CutBeforeCommit(0)
	faults.CutAfterCommit(0)
	counts.Range(func(what, n any) bool {
		t.Logf("%v: %v", what, n)
		return true
	})
	// A posting is told so that has waited two seconds for its turn; what the broken connections do is nobody's to know.
	if n := again.Load(); n > 5 {
		t.Errorf("%d calls were to be made again", n)
	}
	run := d.match(t)
	s := run.Summary
	if !s.Lines.Sum.Equal(s.MatchedLines.Add(s.IgnoredLines).Add(s.OpenLines.Sum)) {
		t.Errorf("%+v", s)
	}
	if n := d.query(t, `SELECT count(*)::text FROM (SELECT 1 FROM reconcile_item i JOIN bank_line l USING (ledger_id, line_no)
		WHERE NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.match_no = i.match_no) GROUP BY i.line_no
		HAVING abs(sum(i.amount)) > max(abs(l.amount))) x`); n != "0" {
		t.Errorf("%s lines are matched with more than there is", n)
	}
	d.statement(t, StatementSpec{})
	d.statement(t, StatementSpec{Day: day("2026-01-05")})
	runs, _, err := d.Runs(t.Context(), main, "bank", 0, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for n, one := range runs {
		if n%5 == 0 {
			d.mustRepeat(t, one.No)
		}
	}
}
