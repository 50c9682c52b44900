package fraud

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what is counted of a check. A nil one counts nothing.
type Metrics struct {
	verdicts, transactions                      *prometheus.CounterVec
	duplicates, unreadable, payerless, restores prometheus.Counter
	lagEvents                                   *prometheus.GaugeVec
	lag                                         prometheus.Histogram
	payers                                      prometheus.Gauge
}

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		verdicts:     prometheus.NewCounterVec(prometheus.CounterOpts{Name: "khata_fraud_verdicts_total", Help: "Transfers that were judged."}, []string{"outcome"}),
		transactions: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "khata_fraud_transactions_total", Help: "Transactions of Kafka, by how they ended: committed; aborted, after which all is done again; failed, where nobody heard how."}, []string{"result"}),
		duplicates:   counter("khata_fraud_duplicates_total", "Movements of transfers that had been judged before."),
		unreadable:   counter("khata_fraud_unreadable_total", "Events that could not be read, and were flagged for it."),
		payerless:    counter("khata_fraud_without_payer_total", "Movements from before movements told the payer. They are not judged."),
		restores:     counter("khata_fraud_restores_total", "Partitions whose state was read from the changelog."),
		lagEvents: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "khata_fraud_lag_events", Help: "Events of a partition that are not judged yet, as of the last batch."},
			[]string{"partition"}),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_fraud_lag_seconds", Help: "From the recording of the oldest event of a batch to the commit of its verdicts.",
			Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600},
		}),
		payers: prometheus.NewGauge(prometheus.GaugeOpts{Name: "khata_fraud_payers", Help: "Payers whose state is in memory."}),
	}
	registry.MustRegister(m.verdicts, m.transactions, m.lagEvents, m.lag, m.payers)
	for _, outcome := range []string{"approved", "flagged"} {
		m.verdicts.WithLabelValues(outcome)
	}
	for _, result := range []string{committed, aborted, failed} {
		m.transactions.WithLabelValues(result)
	}
	return m
}

// How a transaction ended.
const (
	committed = "committed"
	aborted   = "aborted"
	failed    = "failed"
)

func (m *Metrics) ended(result string) {
	if m != nil {
		m.transactions.WithLabelValues(result).Inc()
	}
}

func (m *Metrics) restored(partitions int) {
	if m != nil {
		m.restores.Add(float64(partitions))
	}
}

func (m *Metrics) remembers(payers int) {
	if m != nil {
		m.payers.Set(float64(payers))
	}
}

func (m *Metrics) lags(partition int32, events int64) {
	if m != nil {
		m.lagEvents.WithLabelValues(strconv.Itoa(int(partition))).Set(float64(max(0, events)))
	}
}

// left is that a partition is another one's now.
func (m *Metrics) left(partition int32) {
	if m != nil {
		m.lagEvents.DeleteLabelValues(strconv.Itoa(int(partition)))
	}
}

// tally is what a batch came to.
type tally struct {
	approved, flagged, duplicates, unreadable, payerless int
	// oldest is when the oldest of its events was recorded that was judged; zero if none was.
	oldest time.Time
}

func (t *tally) judged(at time.Time) {
	if t.oldest.IsZero() || at.Before(t.oldest) {
		t.oldest = at
	}
}

func (m *Metrics) came(t tally) {
	if m == nil {
		return
	}
	m.verdicts.WithLabelValues("approved").Add(float64(t.approved))
	m.verdicts.WithLabelValues("flagged").Add(float64(t.flagged))
	m.duplicates.Add(float64(t.duplicates))
	m.unreadable.Add(float64(t.unreadable))
	m.payerless.Add(float64(t.payerless))
	if !t.oldest.IsZero() {
		m.lag.Observe(max(0, time.Since(t.oldest).Seconds()))
	}
}
