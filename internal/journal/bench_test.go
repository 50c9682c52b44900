package journal_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// BenchmarkPost measures calls without the wire. khata bench measures the whole.
func BenchmarkPost(b *testing.B) {
	for _, c := range []struct{ callers, size int }{{1, 1}, {64, 1}, {2, 1000}} {
		b.Run(fmt.Sprintf("%dx%d", c.callers, c.size), func(b *testing.B) {
			bench := setup(b)
			j, _ := open(b, pg.Config{DSN: bench.db.ServiceDSN()}, journal.Config{})
			const accounts = 1000
			account := func(i int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("wallet:%04d", i%accounts)) }
			for i := range accounts {
				bench.account(b, account(i), ledger.Liability, "BDT", nil)
			}
			each := b.N/c.callers/c.size + 1
			b.ResetTimer()
			var wg sync.WaitGroup
			for caller := range c.callers {
				wg.Go(func() {
					for call := range each {
						specs := make([]ledger.TransferSpec, c.size)
						for i := range specs {
							n := (caller*each+call)*c.size + i
							specs[i] = move(fmt.Sprintf("%036d", n), account(n), account(7*n+1), "12.34")
						}
						results, err := j.Post(b.Context(), "local", main, specs)
						if err != nil || results[0].Err != nil {
							b.Errorf("post: %v %v", err, results)
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(each*c.callers*c.size)/b.Elapsed().Seconds(), "transfers/s")
		})
	}
}
