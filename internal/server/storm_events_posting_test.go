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
					if _, err := b.journals[n%2].UpdateAccount(ctx, "local", ledger.DefaultLedger, walletID(i%wallets), ledger.AccountUpdate{Name: &name}); err != nil && ctx.Err() == nil {
						t.Error(err)
					}
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
	results, err := j.Post(ctx, "local", ledger.DefaultLedger, specs)
	if err != nil {
		if ctx.Err() == nil {
			t.Error(err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.slowest = max(p.slowest, time.Since(asked))
	for _, r := range results {
		switch {
		case r.Err != nil:
			t.Error(r.Err)
			continue
		case !late:
			p.highest = max(p.highest, r.Transfer.Sequence)
		case r.Transfer.Sequence < p.highest:
			p.overtaken++
		}
		p.answered[r.Transfer.ID] = r.Transfer.Sequence
	}
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
