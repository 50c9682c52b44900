package report_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// many inserts transfers of ten entries each, nine of them of one account.
func (b *books) many(t testing.TB, transfers int) {
	t.Helper()
	b.account(t, "bank", ledger.Asset, "BDT")
	b.account(t, "wallet", ledger.Liability, "BDT")
	for done := 0; done < transfers; {
		n := min(transfers-done, 10_000)
		b.db.Exec(t, fmt.Sprintf(`INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller, description)
			SELECT 1, 'm' || i, '2025-01-01'::timestamptz + i * interval '1 second',
			       array_fill((SELECT account_no FROM account WHERE account_id = 'bank'), ARRAY[9])
			         || (SELECT account_no FROM account WHERE account_id = 'wallet'),
			       array_fill(1.00::numeric, ARRAY[9]) || -9.00, 'psql', repeat('x', 100)
			  FROM generate_series(%d, %d) i`, done+1, done+n))
		done += n
	}
}

// idle waits until no statement about a period is running.
func (b *books) idle(t testing.TB) time.Duration {
	t.Helper()
	started := time.Now()
	for {
		n := read[int](t, b,
			`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state = 'active' AND query LIKE '-- name: Period%'`)
		if n == 0 {
			return time.Since(started)
		}
		if time.Since(started) > 20*time.Second {
			t.Fatal("a statement goes on and on")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// meter counts what comes from the database.
type meter struct{ read atomic.Int64 }

type meteredConn struct {
	net.Conn
	by *meter
}

func (m *meter) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	return meteredConn{conn, m}, err
}

func (c meteredConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.by.read.Add(int64(n))
	return n, err
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A long report needs no memory, and ends when nobody reads it any more. It is not parallel: it looks at the memory of the process.
func TestStream(t *testing.T) {
	few := open(t)
	var wire meter
	b := serve(t, few.db, pg.Config{DSN: few.db.ServiceDSN(), Dial: wire.dial})
	transfers := 20_000
	if testing.Short() {
		transfers = 5_000
	}
	b.many(t, transfers)
	entries := 10 * transfers
	whole := report.Request{Report: report.GeneralLedger}

	var before, most uint64
	w := &counter{}
	w.at = func(row int) error {
		switch {
		case row == 100:
			before = heap()
		case row%(entries/8) == 0:
			most = max(most, heap())
		}
		return nil
	}
	started := time.Now()
	if err := b.Run(t.Context(), whole, w); err != nil {
		t.Fatal(err)
	}
	all := wire.read.Swap(0)
	if w.heads != 1 || w.rows != entries+4 || w.ends != 1 {
		t.Errorf("%d heads, %d rows and %d ends for %d entries", w.heads, w.rows, w.ends, entries)
	}
	t.Logf("%d rows in %s, from %d to %d KB of memory", w.rows, time.Since(started).Round(time.Millisecond), before>>10, most>>10)
	if most > before+16<<20 {
		t.Errorf("%d rows took %d KB of memory", w.rows, (most-before)>>10)
	}

	// A writer that fails, and a caller who does not want it any more.
	broken := errors.New("the disk is full")
	if err := b.Run(t.Context(), whole, &counter{at: func(row int) error {
		if row == 1000 {
			return broken
		}
		return nil
	}}); !errors.Is(err, broken) {
		t.Errorf("a writer that fails: %v", err)
	}
	if read := wire.read.Load(); read > all/5 {
		t.Errorf("%d of %d KB were read for a writer that had failed at row 1000", read>>10, all>>10)
	}
	if took := b.idle(t); took > 5*time.Second {
		t.Errorf("the statement of a writer that failed went on for %s", took)
	}
	for _, rows := range []int{1, 1000} {
		ctx, cancel := context.WithCancel(t.Context())
		w := &counter{at: func(row int) error {
			switch {
			case row == rows:
				cancel()
			case row > rows+entries/5:
				return errors.New("it goes on and on")
			case row > rows && row%100 == 0: // It is not the rows that see it: whoever does must get to it meanwhile.
				time.Sleep(time.Millisecond)
			}
			return nil
		}}
		if err := b.Run(ctx, whole, w); ledger.CodeOf(err) != ledger.CodeCancelled || w.rows > rows+entries/5 || w.ends != 0 {
			t.Errorf("cancelled at row %d: %v after %d rows", rows, err, w.rows)
		}
		cancel()
	}
	// The report must have begun by then. It would take much longer than that.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	slow := &counter{at: func(int) error {
		time.Sleep(100 * time.Microsecond)
		return nil
	}}
	if err := b.Run(ctx, whole, slow); ledger.CodeOf(err) != ledger.CodeDeadlineExceeded {
		t.Errorf("a deadline: %v", err)
	}
	b.idle(t)
	if b.Busy() != 0 {
		t.Errorf("%d reports are still being made", b.Busy())
	}
	// The end of the journal, some numbers at a time.
	var sequences []int64
	last, err := b.Reports.Entries(t.Context(), main, 0, 0, func(x *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error {
		if typeOf("bank") != ledger.Asset || typeOf("wallet") != ledger.Liability {
			return errors.New("it does not know the types of accounts")
		}
		sequences = append(sequences, x.Sequence)
		return nil
	})
	if err != nil || len(sequences) != transfers || last < sequences[len(sequences)-1] {
		t.Errorf("%d transfers through %d, %v", len(sequences), last, err)
	}
}

// Three reports are made at once; who comes then waits, and his time may be up.
func TestSlots(t *testing.T) {
	t.Parallel()
	b, _ := shop(t)
	if b.AtOnce() != 3 {
		t.Fatalf("%d reports at once", b.AtOnce())
	}
	begun, goOn := make(chan struct{}, 10), make(chan struct{})
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() {
			w := &counter{}
			w.at = func(row int) error {
				if row == 1 {
					begun <- struct{}{}
					<-goOn
				}
				return nil
			}
			if err := b.Run(context.Background(), report.Request{Report: report.TrialBalance}, w); err != nil || w.ends != 1 {
				t.Errorf("%v", err)
			}
		})
	}
	for range 3 {
		<-begun
	}
	time.Sleep(20 * time.Millisecond)
	if b.Busy() != 3 || len(begun) != 0 {
		t.Errorf("%d reports are being made, and %d more have begun", b.Busy(), len(begun))
	}
	timeUp, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	book := func(ctx context.Context) error { return b.Book(ctx, report.BookRequest{}, nil) }
	entries := func(ctx context.Context) error {
		_, err := b.Reports.Entries(ctx, main, 0, 0, nil)
		return err
	}
	issue := func(ctx context.Context) error {
		_, _, err := b.Issue(ctx, spec(t, "wallet:a", report.Value, "2025-01", "2025-02"), "x")
		return err
	}
	run := func(ctx context.Context) error { return b.Run(ctx, report.Request{Report: report.TrialBalance}, nil) }
	for what, ask := range map[string]func(context.Context) error{"run": run, "book": book, "entries": entries, "issue": issue} {
		if err := ask(timeUp); ledger.CodeOf(err) != ledger.CodeOverloaded {
			t.Errorf("%s: %v", what, err)
		}
		if err := ask(cancelled); ledger.CodeOf(err) != ledger.CodeCancelled {
			t.Errorf("%s, cancelled: %v", what, err)
		}
	}
	close(goOn)
	group.Wait()
	if b.Busy() != 0 {
		t.Errorf("%d reports are still being made", b.Busy())
	}
}

// However few connections there are, reports do not wait for each other's for ever: each needs a second one for a moment.
func TestSlots_FewConnections(t *testing.T) {
	t.Parallel()
	few := open(t)
	few.many(t, 200)
	for _, conns := range []int32{2, 3, 4} {
		b := serve(t, few.db, pg.Config{DSN: few.db.ServiceDSN(), MaxConns: conns})
		if want := min(3, int(conns)-1); b.AtOnce() != want {
			t.Errorf("%d reports at once with %d connections", b.AtOnce(), conns)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				for range 3 {
					var c sheet.Collector
					if err := b.Run(ctx, report.Request{Report: report.GeneralLedger}, &c); err != nil || len(c.Rows) != 2004 {
						t.Errorf("with %d connections: %d rows, %v", conns, len(c.Rows), err)
					}
				}
			})
		}
		group.Wait()
		cancel()
	}
}
