package relay

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are what is counted of a relay. A nil one counts nothing.
type Metrics struct {
	leader, oldest, waiting prometheus.Gauge
	records, events, parked prometheus.Counter
	failures                prometheus.Counter
	lag                     prometheus.Histogram
}

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
		registry.MustRegister(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		leader:   gauge("khata_relay_leader", "1 if this relay has the lease and publishes."),
		oldest:   gauge("khata_relay_oldest_unpublished_seconds", "Age of the oldest record of the journal that is not published; 0 if all are. Every relay tells it, at work or not; NaN if the database does not answer."),
		waiting:  gauge("khata_relay_parked", "Events that Kafka has refused, and those behind them, that wait for somebody: khata relay parked."),
		records:  counter("khata_relay_records_total", "Records of the journal that were published, those that were published again included."),
		events:   counter("khata_relay_events_total", "Events that were sent: one or more of each record."),
		parked:   counter("khata_relay_parked_total", "Events that were parked."),
		failures: counter("khata_relay_failures_total", "Times that this relay gave up its lease because something failed."),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_relay_lag_seconds", Help: "From the recording of the oldest record of a batch to its commit in Kafka.",
			Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600},
		}),
	}
	registry.MustRegister(m.lag)
	return m
}

func (m *Metrics) leads(yes bool) {
	switch {
	case m == nil:
	case yes:
		m.leader.Set(1)
	default:
		m.leader.Set(0)
	}
}

func (m *Metrics) failed() {
	if m != nil {
		m.failures.Inc()
	}
}

// unknown is for an alarm: an age that nobody knows must not look like none.
func (m *Metrics) unknown() {
	if m != nil {
		m.oldest.Set(math.NaN())
		m.waiting.Set(math.NaN())
	}
}

// sent counts events that had been parked.
func (m *Metrics) sent(events int) {
	if m != nil {
		m.events.Add(float64(events))
	}
}

func (m *Metrics) published(b batch, parked int) {
	if m == nil {
		return
	}
	m.records.Add(float64(b.records))
	m.events.Add(float64(len(b.events) - parked))
	m.parked.Add(float64(parked))
	m.lag.Observe(max(0, time.Since(b.oldest).Seconds()))
}

// measure brings the gauges about the database up to date.
func (r *Relay) measure(ctx context.Context) error {
	if r.config.Metrics == nil {
		return nil
	}
	s, err := StatusOf(ctx, r.config.Journal, r.config.Pool)
	if err != nil {
		return err
	}
	oldest := 0.0
	for _, l := range s.Ledgers {
		if l.Oldest != nil {
			oldest = max(oldest, time.Since(*l.Oldest).Seconds())
		}
	}
	r.config.Metrics.oldest.Set(oldest)
	r.config.Metrics.waiting.Set(float64(s.Parked))
	return nil
}
