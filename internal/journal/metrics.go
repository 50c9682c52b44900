package journal

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Metrics counts what the journal does. A nil *Metrics counts nothing.
type Metrics struct {
	transfers *prometheus.CounterVec
	retries   *prometheus.CounterVec
	batchSize prometheus.Histogram
	batchTime prometheus.Histogram
	queueTime prometheus.Histogram
	horizon   prometheus.Histogram

	snapshots        prometheus.Counter
	snapshotFailures prometheus.Counter
	snapshotLag      prometheus.Gauge

	expiryFailures prometheus.Counter
}

// NewMetrics makes the metrics and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		transfers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_transfers_total",
			Help: "Answers to requests for a transfer, by result: posted, refused, replayed, or the code of the error.",
		}, []string{"result"}),
		retries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_database_retries_total",
			Help: "Transactions that failed, by what was done about it: again, unavailable, lock_timeout, fault.",
		}, []string{"class"}),
		batchSize: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_batch_transfers", Help: "Transfers in a batch.", Buckets: prometheus.ExponentialBuckets(1, 4, 6),
		}),
		batchTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_batch_seconds", Help: "From the start of a batch to its outcome, retries included.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		queueTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_queue_wait_seconds", Help: "How long a request for transfers waited for its turn.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
		horizon: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_horizon_wait_seconds", Help: "How long a reader waited for the safe horizon.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 15),
		}),
	}
	m.snapshots = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "khata_snapshots_total", Help: "Snapshots of accounts' sums that this server took.",
	})
	m.snapshotFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "khata_snapshot_failures_total", Help: "Rounds of the snapshot job that failed.",
	})
	m.snapshotLag = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "khata_snapshot_lag_seconds",
		Help: "For how long the oldest snapshots that are due have been due, on whichever server; 0 where none are.",
	})
	m.expiryFailures = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "khata_expiry_failures_total", Help: "Rounds of the job that expires holds that failed.",
	})
	registry.MustRegister(m.transfers, m.retries, m.batchSize, m.batchTime, m.queueTime, m.horizon, m.snapshots, m.snapshotFailures,
		m.snapshotLag, m.expiryFailures)
	return m
}

var classNames = map[pg.Class]string{
	pg.Fault: "fault", pg.Again: "again", pg.Unavailable: "unavailable", pg.LockTimeout: "lock_timeout",
}

func (m *Metrics) retried(class pg.Class) {
	if m != nil {
		m.retries.WithLabelValues(classNames[class]).Inc()
	}
}

func (m *Metrics) horizonWaited(d time.Duration) {
	if m != nil {
		m.horizon.Observe(d.Seconds())
	}
}

func (m *Metrics) snapshotsTaken(n int) {
	if m != nil {
		m.snapshots.Add(float64(n))
	}
}

func (m *Metrics) snapshotRoundFailed() {
	if m != nil {
		m.snapshotFailures.Inc()
	}
}

func (m *Metrics) expiryRoundFailed() {
	if m != nil {
		m.expiryFailures.Inc()
	}
}

func (m *Metrics) snapshotsLag(seconds float64) {
	if m != nil {
		m.snapshotLag.Set(seconds)
	}
}

func (m *Metrics) batchEnded(requests []*request, results []PostResult, started time.Time) {
	if m == nil {
		return
	}
	m.batchSize.Observe(float64(len(results)))
	m.batchTime.Observe(time.Since(started).Seconds())
	for _, r := range requests {
		m.queueTime.Observe(started.Sub(r.arrived).Seconds())
	}
	m.answered(results)
}

// refused counts requests that were never decided.
func (m *Metrics) refused(requests int, err error) {
	if m != nil {
		m.transfers.WithLabelValues(string(ledger.CodeOf(err))).Add(float64(requests))
	}
}

func (m *Metrics) answered(results []PostResult) {
	counts := map[string]int{}
	for _, r := range results {
		counts[r.label()]++
	}
	for label, n := range counts {
		m.transfers.WithLabelValues(label).Add(float64(n))
	}
}

func (r PostResult) label() string {
	switch {
	case r.Err != nil:
		return string(ledger.CodeOf(r.Err))
	case r.Replayed:
		return "replayed"
	default:
		return string(r.Transfer.Outcome())
	}
}
