package bench

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// measured makes series of transfers per second.
func measured(rates map[string][]float64) series {
	s := series{}
	for name, list := range rates {
		for _, rate := range list {
			s[name] = append(s[name], Result{Case: name, TransfersPerSecond: rate, Latency: Latency{P50: 1000 / rate, P99: 5000 / rate}})
		}
	}
	return s
}

func TestMedian(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 3, 100}, 3.5}} {
		if got := median(c.of); got != c.want {
			t.Errorf("median of %v is %v, want %v", c.of, got, c.want)
		}
	}
	if _, ok := measured(nil).median("batch", rateOf); ok {
		t.Error("there is a median of nothing")
	}
}

func TestRatio(t *testing.T) {
	t.Parallel()
	s := measured(map[string][]float64{
		"F1/1": {900, 1000, 5000}, "F1/16": {8000}, "F1/64": {7000, 7000, 99_000}, "F2/1": {20_000}, "F2/2": {30_000, 40_000, 50_000},
	})
	for name, c := range map[string]struct {
		r    Result
		want *Ratio
	}{
		"one client":            {Result{Clients: 1, Batch: 1}, &Ratio{2, "F1/1"}},
		"many clients":          {Result{Clients: 64, Batch: 1}, &Ratio{0.25, "F1/16"}},
		"one batch at a time":   {Result{Clients: 1, Batch: 1000}, &Ratio{0.1, "F2/1"}},
		"batches":               {Result{Clients: 2, Batch: 1000}, &Ratio{0.05, "F2/2"}},
		"reads":                 {Result{Clients: 2}, nil},
		"a floor":               {Result{Clients: 2, Batch: 1000, Floor: true}, nil},
		"single batches of ten": {Result{Clients: 4, Batch: 10}, &Ratio{0.05, "F2/2"}},
	} {
		c.r.TransfersPerSecond = 2000
		if diff := cmp.Diff(c.want, s.ratio(c.r)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := measured(nil).ratio(Result{Clients: 1, Batch: 1}); got != nil {
		t.Errorf("without floors: %v", got)
	}
}

func TestGoals(t *testing.T) {
	t.Parallel()
	c := Config{Clients: 64, Accounts: 10_000, Batch: 1000, InFlight: 2, History: 100_000, GrowthFrom: 1_000_000, GrowthTo: 10_000_000, IDs: V7}
	s := measured(map[string][]float64{
		"F1/1": {1000}, "F1/16": {8000}, "F1/64": {7000}, "F2/2": {40_000},
		"batch": {20_000, 30_000, 24_000}, "post/64": {9500}, "post/1": {400}, "hot": {21_600}, "hot/64": {8000},
		"floor": {16_800}, "onefloor": {11_000}, "dup": {60_000}, "balance/1000": {2000}, "balance/100000": {900}, "growth/1000000": {20_000},
	})
	bytes := 700.0
	s["batch"][1].BytesPerTransfer = &bytes
	var got []string
	for _, g := range judge(goals(c), s) {
		measured := "-"
		if g.Measured != nil {
			measured = short(*g.Measured)
		}
		got = append(got, strings.Join([]string{g.Case, g.Target, measured, g.Verdict}, " | "))
	}
	want := []string{
		"batch calls of 1,000, 2 in flight | ≥ 0.6 of F2 on 2 connections | 0.60 | pass",
		"unary, 64 clients | ≥ 1.2 of the best F1 | 1.19 | miss",
		"one client, unary: p50 | ≤ 2.5 of F1's on 1 connection | 2.50 | pass",
		"hot account in every transfer, batch calls | ≥ 0.9 of uniform | 0.90 | pass",
		"hot account in every transfer, unary | ≥ 0.9 of uniform | 0.84 | miss",
		"all payers floored, 10,000 accounts, batch calls | ≥ 0.7 of unfloored | 0.70 | pass",
		"all payers floored, 10,000 accounts, unary | ≥ 0.7 of unfloored | - | not measured",
		"one floored payer in every transfer | ≥ 0.5 of uniform | 0.46 | miss",
		"duplicates only | ≥ 2 of fresh posts | 2.50 | pass",
		"balance read, 100,000 entries: p99 | ≤ 2 of that at 1,000 | 2.22 | miss",
		"bytes per transfer on disk | ≤ 700 | 700 | pass",
		"table of 10,000,000 transfers (v7 ids) | ≥ 0.8 of the rate at 1,000,000 | - | not measured",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("goals (-want +got):\n%s", diff)
	}
	for _, g := range judge(goals(c), series{}) {
		if g.Verdict != VerdictNone || g.Measured != nil {
			t.Errorf("of nothing: %+v", g)
		}
	}
}

func TestReport_JSON(t *testing.T) {
	t.Parallel()
	cpu, bytes := 0.5, 600.0
	report := Report{
		Config:   Config{Target: Target{Addr: "127.0.0.1:1", Ledger: "bench", DSN: "password=secret"}, Modes: []string{ModeBatch}, IDs: V7},
		Failures: map[string]int64{"UNAVAILABLE": 2},
		Results: []Result{{
			Case: "batch", Name: "batch, 1,000 × 2 in flight", Clients: 2, Batch: 1000, Seconds: 2, Calls: 3, Transfers: 2998, CallsPerSecond: 1.5,
			TransfersPerSecond: 1499, Latency: Latency{P50: 1, P95: 2, P99: 3, Max: 4}, CPU: CPU{Client: &cpu}, BytesPerTransfer: &bytes,
			Ratio: &Ratio{0.5, "F2/2"},
		}},
		Goals: []Goal{{Case: "batch", Target: "≥ 0.6", Verdict: VerdictNone}},
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "secret") {
		t.Errorf("the password is in the report: %s", text)
	}
	var got struct {
		Config struct {
			Modes  []string
			Target map[string]any
		}
		Results []map[string]any
		Goals   []map[string]any
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"case": "batch", "name": "batch, 1,000 × 2 in flight", "clients": 2.0, "batch": 1000.0, "seconds": 2.0, "calls": 3.0, "transfers": 2998.0,
		"calls_per_second": 1.5, "transfers_per_second": 1499.0, "latency_ms": map[string]any{"p50": 1.0, "p95": 2.0, "p99": 3.0, "max": 4.0},
		"cpu": map[string]any{"client_seconds": 0.5}, "bytes_per_transfer": 600.0, "ratio": map[string]any{"value": 0.5, "of": "F2/2"},
	}
	if diff := cmp.Diff(want, got.Results[0]); diff != "" {
		t.Errorf("a result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]any{"case": "batch", "target": "≥ 0.6", "verdict": "not measured"}, got.Goals[0]); diff != "" {
		t.Errorf("a goal (-want +got):\n%s", diff)
	}
	if report.OK() || !(Report{}).OK() || (Report{Stopped: "interrupted"}).OK() {
		t.Error("OK is wrong")
	}
}

func TestResult_Line(t *testing.T) {
	t.Parallel()
	client, server, postgres := 0.2, 0.6, 1.0
	r := Result{
		Case: "batch", Name: "batch", Clients: 2, Batch: 1000, CPU: CPU{Client: &client, Server: &server, Postgres: &postgres},
		Ratio: &Ratio{0.512, "F2/2"}, Failures: map[string]int64{"UNAVAILABLE": 1200, "CONFLICT": 1},
	}
	var h tally
	h.calls, h.transfers = 20, 20_000
	for range 20 {
		h.latency.add(95 * time.Millisecond)
	}
	r.fill(window{took: time.Second, cpu: r.CPU, failures: r.Failures}, &h)
	want := strings.Fields("batch 20,000 95.0 95.0 95.0 95.0 10 30 50 1.80 - 0.51 of F2/2 FAILED: 1 CONFLICT, 1,200 UNAVAILABLE")
	if diff := cmp.Diff(want, strings.Fields(r.line(""))); diff != "" {
		t.Errorf("line (-want +got):\n%s", diff)
	}
	if math.Abs(r.CPU.total()-1.8) > 1e-9 {
		t.Errorf("total %v", r.CPU.total())
	}
}

func TestGrouped(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		if got := grouped(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		first, last int64
		want        []int64
	}{
		{1000, 100_000, []int64{1000, 10_000, 100_000}}, {1000, 2500, []int64{1000, 2500}}, {1000, 1000, []int64{1000}}, {1000, 10, []int64{10}},
	} {
		if diff := cmp.Diff(c.want, sizes(c.first, c.last)); diff != "" {
			t.Errorf("from %d to %d (-want +got):\n%s", c.first, c.last, diff)
		}
	}
}
