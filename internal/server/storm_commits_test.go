package server_test

import (
	"slices"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestStorm_CutCommits cuts connections at COMMIT, before it reaches PostgreSQL and after its answer has left, all
// connections at once, and slows them down, while transfers are posted. Nobody may be told that something failed which is
// there: an outcome that was open, for the server or for its caller, is found out by sending the same again.
func TestStorm_CutCommits(t *testing.T) {
	rounds := count(120, 2000)
	w := workload{seed(t)}
	db := pgtest.New(t)
	faults := []*pgtest.Faults{pgtest.NewFaults(t), pgtest.NewFaults(t)}
	b := onDatabase(db)
	for _, f := range faults {
		s := startServer(t, db.Through(t, f).ServiceDSN())
		b.servers = append(b.servers, s)
		b.routes = append(b.routes, routeTo(s.GRPCAddr()))
	}
	b.create(t, workloadAccounts()...)
	h := newHistory(ledger.CodeUnavailable)
	ctx, cancel := stormLimit(t)
	defer cancel()
	r := random(w.seed, 1000)
	l := startLoad(t, b, h, w, 16)
	for range rounds {
		if !h.meter.wait(ctx, 10+r.IntN(60)) {
			t.Error("no answers come any more")
			break
		}
		f := pick(r, faults)
		switch r.IntN(6) {
		case 0, 1:
			f.CutBeforeCommit(1 + r.IntN(4))
		case 2, 3:
			f.CutAfterCommit(1 + r.IntN(4))
		case 4:
			f.CutAll()
		case 5:
			f.Delay(time.Duration(r.IntN(3)) * time.Millisecond)
		}
	}
	for _, f := range faults {
		f.CutBeforeCommit(0)
		f.CutAfterCommit(0)
		f.Delay(0)
	}
	l.stop()
	cuts, commits := 0, 0
	for _, f := range faults {
		cuts, commits = cuts+f.Cuts(), commits+f.Commits()
	}
	t.Logf("%d connections cut, %d commits sent", cuts, commits)
	h.finish(t, b, false)
	if n := deadlocks(t, db); n > 0 {
		t.Errorf("PostgreSQL had to break %d deadlocks", n)
	}
}

// TestCutCommits_EveryAttempt cuts every COMMIT until the server gives up: what it then says leaves the outcome open, and
// sending the same again finds it out, whichever way it went.
func TestCutCommits_EveryAttempt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		cut   func(*pgtest.Faults, int)
		there bool
	}{
		{"before", (*pgtest.Faults).CutBeforeCommit, false},
		{"after", (*pgtest.Faults).CutAfterCommit, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := pgtest.New(t)
			f := pgtest.NewFaults(t)
			b := newBench(t, db, db.Through(t, f).ServiceDSN(), 1)
			b.create(t, cash(), wallet("payer", "0"))
			h := newHistory(ledger.CodeUnavailable)
			first := b.caller(t, h, random(1, 0))
			first.post(t.Context(), move("opening", "cash", "payer", "10.00"))
			test.cut(f, 1<<30)
			specs := []ledger.TransferSpec{
				move("posted", "payer", "cash", "7.00"), move("refused", "payer", "cash", "8.00"), move("posted", "payer", "cash", "7.00"),
			}
			for _, s := range specs {
				h.sent(s)
			}
			asked := time.Now()
			open := first.try(t.Context(), slices.Clone(specs))
			if len(open) != len(specs) {
				t.Errorf("%d of %d requests were answered although no commit was", len(specs)-len(open), len(specs))
			}
			if took := time.Since(asked); took > 10*time.Second {
				t.Errorf("the answer took %s", took)
			}
			test.cut(f, 0)
			if _, there := readBooks(t, b.superDSN).records["posted"]; there != test.there {
				t.Errorf("it is there: %v, want %v", there, test.there)
			}
			first.post(t.Context(), open...)
			h.finish(t, b, !test.there)
		})
	}
}
