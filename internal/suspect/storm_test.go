package suspect

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestStorm has people post, refund, dismiss and take back at the same time, on two servers that both follow, while connections break. In the end what
// was found is what the journal says.
func TestStorm(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	d.config.Batch = 7
	deadline := time.Now().Add(4 * time.Second)
	var wait sync.WaitGroup
	var next atomic.Int64
	work := func(what string, do func(random *rand.Rand, d *Detector) error) {
		for worker := range 2 {
			one := d.Detector
			if worker == 1 {
				one = d.another()
			}
			wait.Go(func() {
				random := rand.New(rand.NewPCG(uint64(worker), uint64(len(what))))
				n := 0
				for ; time.Now().Before(deadline); n++ {
					err := do(random, one)
					switch code := ledger.CodeOf(err); {
					case err == nil || code.Retryable():
					case code == ledger.CodeInvalidArgument: // It has grown meanwhile.
					default:
						t.Errorf("%s: %v", what, err)
						return
					}
				}
				t.Logf("%s %d: %d", what, worker, n)
			})
		}
	}
	work("post", func(random *rand.Rand, _ *Detector) error {
		var specs []ledger.TransferSpec
		for range 1 + random.IntN(5) {
			specs = append(specs, pay(ledger.TransferID(fmt.Sprintf("t%d", next.Add(1))), fmt.Sprint(1+random.IntN(150))))
		}
		_, err := d.journal.Post(t.Context(), clerk, main, specs)
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		return err
	})
	work("refund", func(random *rand.Rand, _ *Detector) error {
		last := next.Load()
		if last == 0 {
			return nil
		}
		_, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{refund(ledger.TransferID(fmt.Sprintf("r%d", next.Add(1))),
			ledger.TransferID(fmt.Sprintf("t%d", 1+random.Int64N(last))), "", "0")})
		time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
		return err
	})
	work("follow", func(_ *rand.Rand, d *Detector) error {
		_, err := d.Follow(t.Context())
		return err
	})
	work("decide", func(random *rand.Rand, d *Detector) error {
		page, err := d.Suspects(t.Context(), main, Filter{States: []State{Open, Dismissed}, Limit: 20})
		if err != nil || len(page.Groups) == 0 {
			return err
		}
		g := page.Groups[random.IntN(len(page.Groups))]
		spec := DecisionSpec{Ledger: main, No: g.No, Members: len(g.Members), Reason: "storm"}
		if random.IntN(3) == 0 {
			_, _, err = d.Undismiss(t.Context(), spec, colleague)
		} else {
			_, _, err = d.Dismiss(t.Context(), spec, clerk)
		}
		return err
	})
	wait.Go(func() {
		for time.Now().Before(deadline) {
			for _, cut := range []func(int){faults.CutAfterCommit, faults.CutBeforeCommit} {
				time.Sleep(200 * time.Millisecond)
				cut(1)
			}
		}
	})
	wait.Wait()
	faults.CutBeforeCommit(0)
	faults.CutAfterCommit(0)
	d.follow(t)
	d.checkList(t)
	// Which groups were dismissed is what people were told; how many of each, is in the decisions.
	dismissed := map[[2]int64]int{}
	page, err := d.Suspects(t.Context(), main, Filter{States: States(), Limit: MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	states := map[State]int{}
	for _, g := range page.Groups {
		dismissed[[2]int64{g.Members[0].Sequence, g.Members[1].Sequence}] = dismissedOf(g.Decisions)
		states[g.State]++
	}
	d.checkModel(t, main, dismissed)
	t.Logf("%d groups: %v", len(page.Groups), states)
	if slices.Contains([]int{states[Open], states[Dismissed], states[Refunded]}, 0) {
		t.Logf("not all states were there")
	}
}
