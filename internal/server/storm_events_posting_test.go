package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// posting is what is posted while events are published, and what was answered.
type posting struct {
	cancel context.CancelFunc
	enough chan struct{}
	wg     sync.WaitGroup

	mu       sync.Mutex
	answered map[ledger.TransferID]int64 // the numbers of the transfers
	// highest is the highest number that the first journal has answered, and overtaken how many lower ones the second one has answered later.
	highest, overtaken int64
	slowest            time.Duration
	again              int // calls that were made once more
}

// startPosting has two posters a journal post: plain transfers, of which some are refused, and holds that are captured and then refunded. Now and
// then an account gets another name.
func (b *eventBench) startPosting(t *testing.T, w workload) *posting {
	t.Helper()
	p := &posting{enough: make(chan struct{}), answered: map[ledger.TransferID]int64{}}
	ctx, cancel := context.WithCancel(t.Context())
	p.cancel = cancel
	t.Cleanup(func() {
		cancel()
		p.wg.Wait()
	})
	for n := range 2 * len(b.journals) {
		p.wg.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-p.enough:
					return
				case <-ctx.Done():
					return
				case <-time.After(40 * time.Millisecond):
				}
				p.post(ctx, t, b.journals[n%2], n%2 == 1, stretch(w, n, i))
				if i%10 == 9 {
					name := fmt.Sprintf("name %d of poster %d", i, n)
					p.untilAnswered(ctx, t, func() error {
						_, err := b.journals[n%2].UpdateAccount(ctx, "local", ledger.DefaultLedger, walletID(i%wallets), ledger.AccountUpdate{Name: &name})
						return err
					})
				}
			}
		})
	}
	return p
}

// stretch is what a poster posts at once. The steps of a life come in one stretch after the other.
func stretch(w workload, poster, i int) []ledger.TransferSpec {
	const plain = 4
	var list []ledger.TransferSpec
	for k := range plain {
		list = append(list, w.spec(poster, i*plain+k))
	}
	id := func(step string, of int) ledger.TransferID {
		return ledger.TransferID(fmt.Sprintf("%s%d-%d", step, poster, of))
	}
	hold := move(id("hold", i), "cash", "fees", "2.00")
	hold.Terms = &ledger.Terms{Kind: ledger.Hold}
	list = append(list, hold)
	if i >= 1 {
		list = append(list, ledger.TransferSpec{ID: id("capture", i-1), Terms: &ledger.Terms{Kind: ledger.Capture, Origin: id("hold", i-1)}})
	}
	if i >= 2 {
		none := decimal.Zero
		list = append(list, ledger.TransferSpec{ID: id("refund", i-2), Terms: &ledger.Terms{
			Kind: ledger.Refund, Origin: id("capture", i-2), ExpectedRefunded: &none, Reason: ledger.ReasonGoodwill,
		}})
	}
	return list
}

func (p *posting) post(ctx context.Context, t *testing.T, j *journal.Journal, late bool, specs []ledger.TransferSpec) {
	asked := time.Now()
	p.untilAnswered(ctx, t, func() (err error) {
		specs, err = p.try(ctx, t, j, late, specs)
		return err
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = max(p.slowest, time.Since(asked))
}

// untilAnswered does something until it is answered: two who share an account wait for each other's batches, and on a machine that brokers are
// started on they may be told to ask again.
func (p *posting) untilAnswered(ctx context.Context, t *testing.T, do func() error) {
	for started := time.Now(); ; {
		err := do()
		switch {
		case err == nil || ctx.Err() != nil:
			return
		case !mayAskAgain(err):
			t.Error(err)
			return
		case time.Since(started) > eventPatience:
			t.Errorf("%v later there is still no answer: %v", eventPatience, err)
			return
		}
		p.mu.Lock()
		p.again++
		p.mu.Unlock()
		time.Sleep(50 * time.Millisecond)
	}
}

// mayAskAgain reports whether an error is for the caller to ask again. A fault of Khata's own is for nobody to get over.
func mayAskAgain(err error) bool {
	code := ledger.CodeOf(err)
	return code.Retryable() && code != ledger.CodeInternal
}

// try posts once. It returns what is open, and why.
func (p *posting) try(ctx context.Context, t *testing.T, j *journal.Journal, late bool, specs []ledger.TransferSpec) (open []ledger.TransferSpec, why error) {
	results, err := j.Post(ctx, "local", ledger.DefaultLedger, specs)
	if err != nil {
		return specs, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, r := range results {
		switch {
		case mayAskAgain(r.Err):
			open, why = append(open, specs[i]), r.Err
			continue
		case r.Err != nil:
			t.Error(r.Err)
			continue
		case r.Replayed: // Its number was drawn by a try before, so that it says nothing of who overtook whom.
		case !late:
			p.highest = max(p.highest, r.Transfer.Sequence)
		case r.Transfer.Sequence < p.highest:
			p.overtaken++
		}
		p.answered[r.Transfer.ID] = r.Transfer.Sequence
	}
	return open, why
}

// stop lets every poster wait for its last answers.
func (p *posting) stop(t *testing.T) {
	t.Helper()
	close(p.enough)
	watchdog := time.AfterFunc(time.Minute, p.cancel)
	p.wg.Wait()
	if !watchdog.Stop() {
		t.Error("posters have no answer after a minute")
	}
}
