package cli_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	khatabench "github.com/khata-ledger/khata/internal/bench"
	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/verify"
)

// small makes every measurement as short as it can be.
const small = " --duration 250ms --warmup 10ms --accounts 20 --clients 8 --connections 2 --batch 20 --shared-buffers 32MB --max-wal-size 1GB"

// benchReport runs khata bench with --json and reads its report.
func benchReport(t *testing.T, line string) (khatabench.Report, result) {
	t.Helper()
	r := khata(t.Context(), strings.Fields("bench "+line+" --json")...)
	var report khatabench.Report
	if r.out != "" {
		if err := json.Unmarshal([]byte(r.out), &report); err != nil {
			t.Fatalf("khata bench %s: %v\n%s", line, err, r.out)
		}
	}
	return report, r
}

func find(t *testing.T, report khatabench.Report, name string) khatabench.Result {
	t.Helper()
	i := slices.IndexFunc(report.Results, func(r khatabench.Result) bool { return r.Case == name })
	if i < 0 {
		t.Fatalf("case %s was not measured", name)
	}
	return report.Results[i]
}

// Every mode, against a PostgreSQL and a server that the command starts and removes.
func TestBench_EveryMode(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	open(t, disk)
	report, r := benchReport(t, "growth post batch hot floor onefloor zipf dup balance mixed --floors --history 2000 "+
		"--growth-from 500 --growth-to 5000 --keep-free 0 --disk "+disk+small)
	if r.code != cli.ExitOK || !report.OK() || report.Stopped != "" || len(report.Notes) > 0 {
		t.Fatalf("exit %d, stopped %q, notes %q, failures %v\n%s", r.code, report.Stopped, report.Notes, report.Failures, r.err)
	}
	var cases []string
	var posted int64
	for _, m := range report.Results {
		cases = append(cases, m.Case)
		if m.Calls == 0 || m.CallsPerSecond <= 0 || m.Seconds < 0.25 || m.Latency.P50 <= 0 || m.Latency.P99 > m.Latency.Max {
			t.Errorf("%s: %+v", m.Case, m)
		}
		if !m.Floor && m.Case != "dup" {
			posted += m.Transfers
		}
	}
	want := strings.Fields("F1/1 F1/16 F1/64 F2/1 F2/2 growth/500 growth/5000 post/8 batch hot floor onefloor zipf dup balance/1000 balance/2000 mixed")
	if !slices.Equal(cases, want) {
		t.Errorf("cases %q, want %q", cases, want)
	}
	if got := find(t, report, "batch"); got.Transfers != 20*got.Calls || got.BytesPerTransfer == nil || *got.BytesPerTransfer < 50 ||
		got.Ratio == nil || got.Ratio.Of != "F2/2" || got.Ratio.Value <= 0 {
		t.Errorf("batch: %+v", got)
	}
	for _, name := range []string{"batch", "post/8"} {
		got := find(t, report, name).CPU
		if runtime.GOOS == "linux" && (got.Client == nil || got.Server == nil || got.Postgres == nil) {
			t.Errorf("CPU of %s: %+v", name, got)
		}
	}
	if got := find(t, report, "post/8"); got.Transfers != got.Calls || got.Ratio == nil || !strings.HasPrefix(got.Ratio.Of, "F1/") {
		t.Errorf("post: %+v", got)
	}
	if got := find(t, report, "mixed"); len(got.Parts) != 4 {
		t.Errorf("mixed: %+v", got)
	}
	if got := find(t, report, "growth/5000"); got.Size < 5000 {
		t.Errorf("growth: %+v", got)
	}
	if report.Transfers < posted || len(report.Tables) == 0 {
		t.Errorf("the journal has %d transfers in %v, and %d were measured", report.Transfers, report.Tables, posted)
	}
	checkVerified(t, report.Verify, report.Transfers)
	if left, err := os.ReadDir(disk); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}

// open lets the user that PostgreSQL runs as pass through a test's directory.
func open(t *testing.T, dir string) {
	t.Helper()
	for range 2 { // It lies in one of the test's own.
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
		dir += "/.."
	}
}

func checkVerified(t *testing.T, report *verify.Report, transfers int64) {
	t.Helper()
	if report == nil || !report.OK() {
		t.Fatalf("verify: %+v", report)
	}
	for _, c := range report.Checks {
		if c.Name == "transfers-balance" && c.Checked == transfers {
			return
		}
	}
	t.Errorf("verify has not looked at %d transfers: %+v", transfers, report)
}

func TestBench_Suite(t *testing.T) {
	t.Parallel()
	// There is no disk with so much space, so nothing grows.
	r := khata(t.Context(), strings.Fields("bench suite --rounds 1 --history 2000 --growth-from 1000 --growth-to 2000 --keep-free 1000000"+small)...)
	if r.code != cli.ExitOK {
		t.Fatalf("exit %d\n%s%s", r.code, r.out, r.err)
	}
	for _, want := range []string{
		"case ", "F2, 2 connections", "post, 1 client ", "hot, 8 clients", "batch calls of 20, 2 in flight", "≥ 0.6 of F2 on 2 connections",
		"bytes per transfer on disk", "balance read, 2,000 entries: p99", "Note: growth stopped before 1,000 transfers", "Verify: all ",
	} {
		if !strings.Contains(r.out, want) {
			t.Errorf("the output has no %q:\n%s", want, r.out)
		}
	}
	for line := range strings.Lines(r.out) {
		measured := !strings.HasPrefix(line, "table of 2,000 transfers")
		if strings.Contains(line, "≥ ") || strings.Contains(line, "≤ ") {
			if strings.Contains(line, "not measured") == measured {
				t.Errorf("verdict: %s", line)
			}
		}
	}
}

// Against a running server, with its database and without. Nothing of it is left but the journal.
func TestBench_OfARunningServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	report, r := benchReport(t, "batch hot --unary --floors --addr "+b.addr+small)
	if r.code != cli.ExitUsage || len(report.Results) > 0 {
		t.Errorf("floors without a database: exit %d, %s", r.code, r.err)
	}
	report, r = benchReport(t, "batch hot --unary --ids v4 --addr "+b.addr+small)
	if r.code != cli.ExitOK || len(report.Results) != 2 || report.Verify != nil || len(report.Notes) != 1 {
		t.Errorf("without its database: exit %d, %+v, %s", r.code, report, r.err)
	}
	before := report.Results[0].Transfers
	out := khata(t.Context(), append([]string{"bench", "batch", "--floors", "--addr", b.addr, "--database-url", b.db.OwnerDSN()}, strings.Fields(small)...)...)
	if out.code != cli.ExitOK || !strings.Contains(out.out, "Verify: all ") || !strings.Contains(out.out, " of F2/2") {
		t.Errorf("with its database: %+v, after %d transfers", out, before)
	}
	if got := b.must(t, "ledger list"); !strings.Contains(got, "bench  created ") {
		t.Errorf("ledgers: %s", got)
	}
}

func TestBench_Interrupted(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.OwnerDSN(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan result, 1)
	go func() {
		ended <- khata(ctx, strings.Fields("bench batch post --addr "+b.addr+small+" --duration 1m")...)
	}()
	// Some answers must have come after the warm-up: those of ten calls and more that were posted well after it, but for the two in flight.
	const measured = "SELECT count(*) >= 200 FROM transfer WHERE posted_at > (SELECT min(posted_at) FROM transfer) + interval '100 ms'"
	for enough := false; !enough && len(ended) == 0; time.Sleep(10 * time.Millisecond) { // One that ends by itself is seen below.
		if err := pool.QueryRow(t.Context(), measured).Scan(&enough); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	r := <-ended
	if r.code != cli.ExitFailure || !strings.Contains(r.out, "STOPPED EARLY") || !strings.Contains(r.out, "\nbatch, 20 × 2 in flight ") ||
		strings.Contains(r.out, "\npost") {
		t.Errorf("exit %d\n%s%s", r.code, r.out, r.err)
	}
}

// What other commands are told by KHATA_ADDR bench must not hear: it would fill that server. If it heard it, it would ask
// for the database of the suite.
func TestBench_OnlyWhereItIsTold(t *testing.T) {
	t.Setenv("KHATA_ADDR", "127.0.0.1:1")
	r := khata(t.Context(), "bench", "suite", "--disk", filepath.Join(t.TempDir(), "none"))
	if r.code != cli.ExitFailure || !strings.Contains(r.err, "none") {
		t.Errorf("%+v", r)
	}
}

func TestBench_Usage(t *testing.T) {
	t.Parallel()
	for line, said := range map[string]string{
		"speed":                           "speed",
		"suite batch":                     "suite",
		"batch --ids v1":                  "--ids",
		"batch --batch 10001":             "--batch",
		"batch --duration 0s":             "--duration",
		"growth":                          "--growth-to",
		"batch --accounts 2":              "--accounts",
		"batch --database-url host=x":     "--addr",
		"growth --growth-to 1 --addr x:1": "--growth-from",
	} {
		if r := khata(t.Context(), strings.Fields("bench "+line)...); r.code != cli.ExitUsage || !strings.Contains(r.err, said) {
			t.Errorf("khata bench %s: exit %d, %s", line, r.code, r.err)
		}
	}
	help := khata(t.Context(), "bench", "--help").out
	if strings.Contains(help, "KHATA_ADDR") || strings.Contains(help, "KHATA_DATABASE_URL") || !strings.Contains(help, "KHATA_DURATION") {
		t.Errorf("the variables in the help: %s", help)
	}
}
