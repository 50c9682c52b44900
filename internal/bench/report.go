package bench

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/verify"
)

// Report is all that a run has measured. It has a form in JSON.
type Report struct {
	Config  Config    `json:"config"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	// Cores is how many this machine has, and Postgres the settings of the server that bear on speed.
	Cores    int               `json:"cores"`
	Postgres map[string]string `json:"postgres,omitempty"`
	Results  []Result          `json:"results"`
	// Goals are the targets of the suite.
	Goals []Goal `json:"goals,omitempty"`
	// Failures counts what failed in the whole run by code, whether or not it was timed.
	Failures map[string]int64 `json:"failures"`
	// Transfers is how many the journal has at the end, and Tables what the tables of the service take then.
	Transfers int64       `json:"transfers,omitempty"`
	Tables    []TableSize `json:"tables,omitempty"`
	// Verify is absent where it was not run.
	Verify *verify.Report `json:"verify,omitempty"`
	// Notes say what was left out, and why.
	Notes []string `json:"notes,omitempty"`
	// Stopped says why the run ended early; empty if it did not.
	Stopped string `json:"stopped,omitempty"`
}

// OK reports whether nothing failed, nothing was cut short, and the books are in order. A target that was missed is no
// failure.
func (r Report) OK() bool {
	return len(r.Failures) == 0 && r.Stopped == "" && (r.Verify == nil || r.Verify.OK())
}

// Result is one measurement.
type Result struct {
	// Case names what was measured, the same in every run: "batch", "F1/16".
	Case string `json:"case"`
	// Name is Case for people.
	Name string `json:"name"`
	// Floor marks a measurement of a floor.
	Floor bool `json:"floor,omitempty"`
	// Clients is how many calls were under way at once, and Batch how many transfers a call had; 0 is a call without.
	Clients int `json:"clients"`
	Batch   int `json:"batch,omitempty"`
	// Seconds is the length of the timed window.
	Seconds float64 `json:"seconds"`
	// Calls and Transfers are those that were answered in it as they should be.
	Calls              int64   `json:"calls"`
	Transfers          int64   `json:"transfers"`
	CallsPerSecond     float64 `json:"calls_per_second"`
	TransfersPerSecond float64 `json:"transfers_per_second"`
	// Latency is that of a call.
	Latency Latency `json:"latency_ms"`
	CPU     CPU     `json:"cpu"`
	// BytesPerTransfer is by how much all tables and indexes of the service grew for each new transfer.
	BytesPerTransfer *float64 `json:"bytes_per_transfer,omitempty"`
	// Size is the number of entries or transfers that were there when the window began, where that is the point.
	Size int64 `json:"size,omitempty"`
	// PeakBytes is the most memory that the server's process took meanwhile; 0 is not known.
	PeakBytes int64 `json:"peak_bytes,omitempty"`
	// Ratio is to the floor, if that was measured.
	Ratio *Ratio `json:"ratio,omitempty"`
	// Failures counts by code, the warm-up included.
	Failures map[string]int64 `json:"failures,omitempty"`
	// Parts are what a mode mixes.
	Parts []Result `json:"parts,omitempty"`
}

// Latency has quantiles in milliseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Ratio is a rate of transfers divided by that of a floor.
type Ratio struct {
	Value float64 `json:"value"`
	Of    string  `json:"of"`
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// fill enters what a tally came to in a window.
func (r *Result) fill(w window, t *tally) {
	r.Seconds = w.took.Seconds()
	r.Calls, r.Transfers = t.calls, t.transfers
	r.CallsPerSecond, r.TransfersPerSecond = float64(t.calls)/r.Seconds, float64(t.transfers)/r.Seconds
	r.Latency = Latency{
		P50: milliseconds(t.latency.quantile(0.5)), P95: milliseconds(t.latency.quantile(0.95)),
		P99: milliseconds(t.latency.quantile(0.99)), Max: milliseconds(t.latency.longest),
	}
	r.CPU = w.cpu
	if len(w.failures) > 0 {
		r.Failures = w.failures
	}
}

// series are all measurements of each case, in their order.
type series map[string][]Result

// median is that of one number of all measurements of a case; false if there are none.
func (s series) median(name string, of func(Result) float64) (float64, bool) {
	if len(s[name]) == 0 {
		return 0, false
	}
	var list []float64
	for _, r := range s[name] {
		list = append(list, of(r))
	}
	return median(list), true
}

// median is the middle of some numbers, or the mean of the two in the middle. It sorts them.
func median(list []float64) float64 {
	slices.SortFunc(list, cmp.Compare[float64])
	half := len(list) / 2
	if len(list)%2 == 1 {
		return list[half]
	}
	return (list[half-1] + list[half]) / 2
}

func rateOf(r Result) float64 { return r.TransfersPerSecond }

func p50Of(r Result) float64 { return r.Latency.P50 }

func p99Of(r Result) float64 { return r.Latency.P99 }

// floor finds what a measurement is to be held against: transfers one a call against F1, with one client on one
// connection and otherwise on the best number of them; batches against F2 on as many connections as calls are in flight,
// of which more than two gain nothing.
func (s series) floor(r Result) (name string, rate float64, ok bool) {
	switch {
	case r.Batch > 1 && r.Clients > 1:
		name = floorCase(true, 2)
	case r.Batch > 1:
		name = floorCase(true, 1)
	case r.Batch == 1 && r.Clients == 1:
		name = floorCase(false, 1)
	case r.Batch == 1:
		return s.bestF1()
	default:
		return "", 0, false
	}
	rate, ok = s.median(name, rateOf)
	return name, rate, ok
}

// bestF1 is the number of connections on which F1 is fastest.
func (s series) bestF1() (name string, rate float64, ok bool) {
	for _, connections := range floorConnections[false] {
		if r, there := s.median(floorCase(false, connections), rateOf); there && r > rate {
			name, rate, ok = floorCase(false, connections), r, true
		}
	}
	return name, rate, ok
}

func (s series) ratio(r Result) *Ratio {
	if sum, ok := s.median(sumCase, p50Of); ok && !r.Floor && strings.HasPrefix(r.Case, ModeReports+"/") { // Of times, not of rates.
		return &Ratio{Value: sum / r.Latency.P50, Of: "the sum's speed"}
	}
	name, rate, ok := s.floor(r)
	if r.Case == ModeRelay { // Publishing has to keep up with posting.
		name = ModeBatch
		rate, ok = s.median(ModeBatch, rateOf)
	}
	if !ok || rate == 0 || r.Floor {
		return nil
	}
	return &Ratio{Value: r.TransfersPerSecond / rate, Of: name}
}
