package sms

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// metrics are what is counted. A nil one counts nothing.
type metrics struct {
	messages            *prometheus.GaugeVec
	oldest              prometheus.Gauge
	calls               *prometheus.CounterVec
	repeated, badPhones prometheus.Counter
	seconds             prometheus.Histogram
}

// The results of a call of the gateway, and of a message that was not worth one any more.
const (
	resultSent    = "sent"
	resultRefused = "refused"
	resultAgain   = "again"
)

// newMetrics makes and registers them; nil for nobody.
func newMetrics(registry prometheus.Registerer) *metrics {
	if registry == nil {
		return nil
	}
	m := &metrics{
		messages: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "khata_sms_messages", Help: "Messages in the table by state: queued, sending, failed, expired. Those that were sent are not counted: there are too many. NaN if the database does not answer.",
		}, []string{"state"}),
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "khata_sms_oldest_queued_seconds", Help: "Age of the oldest event whose message waits to be sent; 0 if none does. NaN if the database does not answer.",
		}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_sms_calls_total", Help: "Calls of the gateway by result: sent, refused (never tried again), again (anything else).",
		}, []string{"result"}),
		repeated: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "khata_sms_repeated_calls_total", Help: "Calls for messages that somebody was sending before, without leaving word of what became of it: the gateway may have them.",
		}),
		badPhones: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "khata_sms_bad_phones_total", Help: "Accounts whose phone is no number in the form of E.164, each time they were read. They get no messages.",
		}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_sms_seconds", Help: "From an event to the gateway's yes to its message.",
			Buckets: []float64{.05, .1, .2, .5, 1, 2, 5, 10, 30, 60, 300, 1800, 7200, 86400},
		}),
	}
	registry.MustRegister(m.messages, m.oldest, m.calls, m.repeated, m.badPhones, m.seconds)
	for _, result := range []string{resultSent, resultRefused, resultAgain} {
		m.calls.WithLabelValues(result)
	}
	return m
}

func (m *metrics) badPhone(n int) {
	if m != nil {
		m.badPhones.Add(float64(n))
	}
}

func (m *metrics) called(result string) {
	if m != nil {
		m.calls.WithLabelValues(result).Inc()
	}
}

func (m *metrics) calledAgain() {
	if m != nil {
		m.repeated.Inc()
	}
}

func (m *metrics) sent(event time.Time) {
	if m != nil {
		m.seconds.Observe(max(0, time.Since(event).Seconds()))
	}
}

// measure brings the gauges about the table up to date.
func (m *metrics) measure(ctx context.Context, pool *pgxpool.Pool) error {
	if m == nil {
		return nil
	}
	rows, err := queries.SMSMeasure(ctx, pool)
	counts := map[State]float64{Queued: 0, Sending: 0, Failed: 0, Expired: 0}
	oldest := 0.0
	for _, row := range rows {
		counts[State(row.State)] = float64(row.Messages)
		if s := State(row.State); s == Queued || s == Sending {
			oldest = max(oldest, time.Since(row.Oldest).Seconds())
		}
	}
	for state, n := range counts {
		if err != nil { // What nobody knows must not look like none.
			n = math.NaN()
		}
		m.messages.WithLabelValues(string(state)).Set(n)
	}
	if err != nil {
		oldest = math.NaN()
	}
	m.oldest.Set(oldest)
	return err
}
