package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

const (
	// reportTries is how often each report is made; the table has the middle one.
	reportTries = 3
	// reportPatience bounds one.
	reportPatience = 30 * time.Minute
	// memoryEvery is how often the memory of the server is looked at.
	memoryEvery = 20 * time.Millisecond
)

// sumCase is the floor of reports: what PostgreSQL itself takes to add up the entries of each account, once, for one who believes all that is
// in the tables and asks for no period.
const sumCase = ModeReports + "/sum"

const sumSQL = `SELECT count(*) FROM (SELECT account_no, sum(amount) FROM entry WHERE ledger_id = (SELECT ledger_id FROM ledger WHERE name = $1)
	GROUP BY account_no) s`

// reports measures how long reports take on a ledger of so many entries, and what memory the server needs for them.
func (b *bench) reports(ctx context.Context) error {
	choose, err := b.choice(ctx, ModeReports)
	if err != nil {
		return err
	}
	b.progress("reports: posting %s transfers", grouped(b.config.History/2))
	if err := b.postMany(ctx, int64(b.config.History/2), choose, nil); err != nil {
		return err
	}
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	if err := b.sumEntries(ctx); err != nil {
		return err
	}
	period := &khatav1.ReportPeriod{Zone: "Asia/Dhaka"}
	for _, r := range []struct {
		name string
		req  *khatav1.RunReportRequest
	}{
		{"trial balance", &khatav1.RunReportRequest{Report: "trial-balance"}},
		{"trial balance, by value date", &khatav1.RunReportRequest{Report: "trial-balance", Basis: khatav1.Basis_BASIS_VALUE}},
		{"balance sheet, depth 1", &khatav1.RunReportRequest{Report: "balance-sheet", Depth: 1}},
		{"general ledger", &khatav1.RunReportRequest{Report: "general-ledger"}},
	} {
		r.req.Ledger, r.req.Period = b.wire.ledger, period
		if err := b.report1(ctx, r.req.GetReport(), r.name, b.runReport(r.req)); err != nil {
			return err
		}
	}
	entries := &khatav1.ExportEntriesRequest{Ledger: b.wire.ledger}
	return b.report1(ctx, "entries", "export of entries", func(ctx context.Context) (int64, error) {
		stream, err := b.wire.reports().ExportEntries(ctx, entries)
		return countMessages(stream, err, func(m *khatav1.ExportEntriesResponse) int { return strings.Count(string(m.GetChunk()), "\n") })
	})
}

// report1 makes a report a few times.
func (b *bench) report1(ctx context.Context, id, name string, run func(context.Context) (rows int64, err error)) error {
	r := Result{Case: ModeReports + "/" + id, Name: name, Clients: 1, Size: int64(b.config.History)}
	if r.Case == ModeReports+"/trial-balance" && strings.Contains(name, "value") {
		r.Case += "-value"
	}
	b.progress("%s of %s entries", name, grouped(b.config.History))
	memory := watchMemory(b.config.Target.ServerPID)
	var t tally
	var rows int64
	before, began := b.load().processes.read(), time.Now()
	for range reportTries {
		limited, cancel := context.WithTimeout(ctx, reportPatience)
		from := time.Now()
		n, err := run(limited)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows = n
		t.latency.add(time.Since(from))
		t.calls++
	}
	took := time.Since(began)
	r.fill(window{took: took, cpu: b.load().processes.read().since(before)}, &t)
	r.PeakBytes = memory()
	if err := b.emit(ctx, r); err != nil {
		return err
	}
	text := fmt.Sprintf("%s of %s entries: %s rows in %.2f s", name, grouped(b.config.History), grouped(rows), r.Latency.P50/1000)
	if r.PeakBytes > 0 {
		text += fmt.Sprintf("; the server took %s MB of memory at most", grouped(r.PeakBytes>>20))
	}
	b.note("%s", text)
	return nil
}

// sumEntries measures the floor.
func (b *bench) sumEntries(ctx context.Context) error {
	if b.db == nil {
		return nil
	}
	r := Result{Case: sumCase, Name: "PostgreSQL alone: sum by account", Floor: true, Clients: 1, Size: int64(b.config.History)}
	var t tally
	began := time.Now()
	for range reportTries {
		from := time.Now()
		var accounts int64
		if err := b.db.conn.QueryRow(ctx, sumSQL, b.wire.ledger).Scan(&accounts); err != nil {
			return fmt.Errorf("sum the entries: %w", err)
		}
		t.latency.add(time.Since(from))
		t.calls++
	}
	r.fill(window{took: time.Since(began)}, &t)
	return b.emit(ctx, r)
}

func (b *bench) runReport(req *khatav1.RunReportRequest) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		failed := ""
		stream, err := b.wire.reports().RunReport(ctx, req)
		rows, err := countMessages(stream, err, func(m *khatav1.RunReportResponse) int {
			for _, c := range m.GetEnd().GetChecks() {
				if !c.GetOk() {
					failed = c.GetName()
				}
			}
			return len(m.GetRows().GetRows())
		})
		if err == nil && failed != "" {
			err = errors.New("it does not hold that " + failed)
		}
		return rows, err
	}
}

// countMessages reads a stream to its end, and adds up what its messages have.
func countMessages[M any](stream grpc.ServerStreamingClient[M], err error, has func(*M) int) (total int64, _ error) {
	for err == nil {
		var m *M
		if m, err = stream.Recv(); err == nil {
			total += int64(has(m))
		}
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return total, err
}

// watchMemory looks at the memory of a process until it is asked for the most that it has seen, in bytes; 0 is not known.
func watchMemory(pid int) (most func() int64) {
	stop, done := make(chan struct{}), make(chan int64)
	go func() {
		var seen int64
		ticker := time.NewTicker(memoryEvery)
		defer ticker.Stop()
		for {
			seen = max(seen, residentBytes(pid))
			select {
			case <-stop:
				done <- seen
				return
			case <-ticker.C:
			}
		}
	}()
	return func() int64 {
		close(stop)
		return <-done
	}
}
