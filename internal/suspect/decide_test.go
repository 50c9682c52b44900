package suspect

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// said tells the decisions about a group, as "who dismissed n: why".
func (g *Group) said() []string {
	list := []string{}
	for _, s := range g.Decisions {
		did := "undismissed"
		if s.Dismissed {
			did = "dismissed"
		}
		list = append(list, fmt.Sprintf("%s %s %d: %s", s.By, did, s.Members, s.Reason))
	}
	return list
}

func TestDismiss(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.at(t, "a 0s 500", "b 4s 500")
	d.follow(t)
	g := d.only(t)
	spec := DecisionSpec{Ledger: main, No: g.No, Members: 2, Reason: " two tickets "}
	is := func(want string, said ...string) {
		t.Helper()
		g := d.only(t)
		if g.text() != want {
			t.Errorf("it is %q, want %q", g.text(), want)
		}
		if diff := cmp.Diff(append([]string{}, said...), g.said()); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		d.checkList(t)
	}
	after, first, err := d.Dismiss(t.Context(), spec, clerk)
	if err != nil || first.Replayed || first.By != clerk || first.At.IsZero() || after.State != Dismissed {
		t.Fatal(first, err)
	}
	is("dismissed high: a b", "clerk dismissed 2: two tickets")
	// Again, by somebody else: nothing is written.
	spec.Reason = "me too"
	_, again, err := d.Dismiss(t.Context(), spec, colleague)
	if err != nil || !again.Replayed || again.By != clerk {
		t.Fatal(again, err)
	}
	is("dismissed high: a b", "clerk dismissed 2: two tickets")
	if got := d.suspectsOf(t, Filter{}); len(got) != 0 {
		t.Error(got)
	}

	// A third one makes it a suspect again: by how near it is to the others, not by how near these are.
	d.at(t, "c 5h 500")
	d.follow(t)
	is("open low: a b c", "clerk dismissed 2: two tickets")
	spec.Reason = "all of them"
	_, _, err = d.Dismiss(t.Context(), spec, clerk)
	mustCode(t, err, ledger.CodeInvalidArgument)
	spec.Members, spec.Request = 3, "request-3"
	if _, _, err = d.Dismiss(t.Context(), spec, clerk); err != nil {
		t.Fatal(err)
	}
	is("dismissed high: a b c", "clerk dismissed 2: two tickets", "clerk dismissed 3: all of them")
	if _, again, err := d.Dismiss(t.Context(), spec, clerk); err != nil || !again.Replayed {
		t.Error(again, err)
	}
	other := spec
	other.Reason = "another one"
	_, _, err = d.Dismiss(t.Context(), other, clerk)
	mustCode(t, err, ledger.CodeAlreadyExists)
	_, _, err = d.Undismiss(t.Context(), spec, clerk)
	mustCode(t, err, ledger.CodeAlreadyExists)

	// It is taken back; and the fourth one that came and went back is no reason to look again.
	back := DecisionSpec{Ledger: main, No: g.No, Reason: "it was one after all"}
	if _, made, err := d.Undismiss(t.Context(), back, colleague); err != nil || made.Replayed || made.Members != 3 {
		t.Fatal(made, err)
	}
	all := []string{"clerk dismissed 2: two tickets", "clerk dismissed 3: all of them", "colleague undismissed 3: it was one after all"}
	is("open high: a b c", all...)
	if _, made, err := d.Undismiss(t.Context(), back, clerk); err != nil || !made.Replayed || made.By != colleague {
		t.Error(made, err)
	}
	// The request that dismissed it is still the same request, and does not do it once more.
	if after, made, err := d.Dismiss(t.Context(), spec, clerk); err != nil || !made.Replayed || after.State != Open {
		t.Error(made, err)
	}
	spec.Request = ""
	if _, _, err = d.Dismiss(t.Context(), spec, clerk); err != nil {
		t.Fatal(err)
	}
	d.at(t, "d 6h 500")
	d.post(t, refund("r", "d", "", "0"))
	d.follow(t)
	is("dismissed high: a b c d", append(all, "clerk dismissed 3: all of them")...)

	// Refunds go before decisions.
	d.post(t, refund("r2", "a", "", "0"), refund("r3", "b", "", "0"))
	d.follow(t)
	is("refunded high: a b c d", append(all, "clerk dismissed 3: all of them")...)
}

func TestDismiss_Refused(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.at(t, "a 0s 500", "b 4s 500")
	d.follow(t)
	right := DecisionSpec{Ledger: main, No: d.only(t).No, Members: 2, Reason: "why"}
	for name, c := range map[string]struct {
		change func(*DecisionSpec)
		code   ledger.Code
	}{
		"no reason":         {func(s *DecisionSpec) { s.Reason = " " }, ledger.CodeInvalidArgument},
		"a long reason":     {func(s *DecisionSpec) { s.Reason = strings.Repeat("x", maxReason+1) }, ledger.CodeInvalidArgument},
		"a NUL":             {func(s *DecisionSpec) { s.Reason = "x\x00" }, ledger.CodeInvalidArgument},
		"a long request":    {func(s *DecisionSpec) { s.Request = strings.Repeat("x", maxRequest+1) }, ledger.CodeInvalidArgument},
		"no members":        {func(s *DecisionSpec) { s.Members = 0 }, ledger.CodeInvalidArgument},
		"others":            {func(s *DecisionSpec) { s.Members = 3 }, ledger.CodeInvalidArgument},
		"no such group":     {func(s *DecisionSpec) { s.No = 999 }, ledger.CodeNotFound},
		"no such ledger":    {func(s *DecisionSpec) { s.Ledger = "nowhere" }, ledger.CodeLedgerNotFound},
		"a group elsewhere": {func(s *DecisionSpec) { s.Ledger = "second" }, ledger.CodeNotFound},
	} {
		if _, err := d.journal.CreateLedger(t.Context(), clerk, "second"); err != nil {
			t.Fatal(err)
		}
		spec := right
		c.change(&spec)
		if _, _, err := d.Dismiss(t.Context(), spec, clerk); ledger.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	// What was never dismissed can be undismissed, and nothing happens.
	if g, made, err := d.Undismiss(t.Context(), right, clerk); err != nil || made != nil || g.State != Open {
		t.Error(made, err)
	}
	if n := query[int](t, d, `SELECT count(*) FROM suspect_decision`); n != 0 {
		t.Errorf("%d decisions", n)
	}
}

// TestFaults_Decisions cuts the connection before and after the commit of a decision: it has been made once, and knows itself again.
func TestFaults_Decisions(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	d.at(t, "a 0s 500", "b 4s 500")
	d.follow(t)
	spec := DecisionSpec{Ledger: main, No: d.only(t).No, Members: 2, Reason: "why"}
	want := 0
	for name, cut := range map[string]func(int){"before": faults.CutBeforeCommit, "after": faults.CutAfterCommit} {
		for _, decide := range []func() (*Group, *Decision, error){
			func() (*Group, *Decision, error) { return d.Dismiss(t.Context(), spec, clerk) },
			func() (*Group, *Decision, error) { return d.Undismiss(t.Context(), spec, clerk) },
		} {
			before := faults.Cuts()
			cut(1)
			_, made, err := decide()
			want++
			if err != nil || made.Replayed || made.Ordinal != want {
				t.Errorf("cut %s the commit: %+v, %v", name, made, err)
			}
			if faults.Cuts() == before {
				t.Errorf("nothing was cut %s the commit", name)
			}
			d.checkList(t)
		}
	}
	if n := query[int](t, d, `SELECT count(*) FROM suspect_decision`); n != want {
		t.Errorf("%d decisions, want %d", n, want)
	}
}

// TestFaults_Follow cuts the connection before and after the commit of each batch. Nothing is left out, and nothing is found twice.
func TestFaults_Follow(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	d.config.Batch = 2
	var history []string
	for i := range 20 {
		history = append(history, fmt.Sprintf("t%02d %dm 500 ref=%d", i, i*11, i/3))
	}
	d.at(t, history...)
	cuts := []func(int){faults.CutBeforeCommit, faults.CutAfterCommit}
	failed := 0
	for i := 0; ; i++ {
		cuts[i%2](1)
		_, err := d.Follow(t.Context())
		cuts[i%2](0)
		if err != nil {
			mustCode(t, err, ledger.CodeUnavailable)
			failed++
		}
		// Nothing to do is no sign of the end: PostgreSQL may not know yet that the one who was cut off is gone, and that one has the lock.
		if l, err := d.Lag(t.Context()); err != nil {
			t.Fatal(err)
		} else if len(l.Ledgers) == 0 {
			break
		}
		if i > 1000 {
			t.Fatal("it does not come to an end")
		}
	}
	if failed < 9 { // With every other one something has been done.
		t.Errorf("only %d batches failed", failed)
	}
	d.checkModel(t, main, nil)
}

// Several at once: each batch is done by one of them.
func TestFollow_AtOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Batch = 3
	d.db.Exec(t, `INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller)
		SELECT 1, 'm' || i, $1::timestamptz + i * interval '7 minutes', ARRAY[a.account_no, b.account_no], ARRAY[1 + i % 5, -1 - i % 5], 'psql'
		  FROM account a, account b, generate_series(1, 300) i WHERE a.account_id = 'payer' AND b.account_id = 'payee' ORDER BY i`, noon)
	var wait sync.WaitGroup
	totals := make([]int, 4)
	for i := range totals {
		one := d.another()
		wait.Go(func() {
			for {
				n, err := one.Follow(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				totals[i] += n
				if l, err := one.Lag(t.Context()); err != nil || len(l.Ledgers) == 0 {
					return
				}
			}
		})
	}
	wait.Wait()
	if n := query[int](t, d, `SELECT count(*) FROM suspect_window`); n < 25*60/7 { // A day of them, and an hour more.
		t.Errorf("%d are in the window", n)
	}
	d.checkModel(t, main, nil)
	d.checkList(t)
	sum := 0
	for _, n := range totals {
		sum += n
	}
	if sum != 300 {
		t.Errorf("they have followed %v", totals)
	}
}
