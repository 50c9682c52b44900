package inbox

import (
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics counts what an Inbox does. A nil *metrics counts nothing.
type metrics struct {
	events  *prometheus.CounterVec
	letters *prometheus.GaugeVec
	retries *prometheus.CounterVec
	handler prometheus.Histogram
	lag     *prometheus.GaugeVec
	lost    prometheus.Counter
}

// newMetrics makes the metrics and registers them. Two Inboxes of one consumer in a process share them.
func newMetrics(registerer prometheus.Registerer, consumer string) (*metrics, error) {
	if registerer == nil {
		return nil, nil
	}
	labels := prometheus.Labels{"consumer": consumer}
	var failed error
	m := &metrics{
		events: register(registerer, &failed, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_inbox_events_total", ConstLabels: labels,
			Help: "Events, by what became of them: handled, duplicate (absorbed), replayed, or the reason of a letter.",
		}, []string{"result"})),
		letters: register(registerer, &failed, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "khata_inbox_open_letters", ConstLabels: labels,
			Help: "Letters that are not settled, by reason; too_old is the quarantine.",
		}, []string{"reason"})),
		retries: register(registerer, &failed, prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_inbox_retries_total", ConstLabels: labels,
			Help: "Transactions that have to be done again, by whose fault it was: event, road (the database, mostly), slow.",
		}, []string{"fault"})),
		handler: register(registerer, &failed, prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_inbox_handler_seconds", ConstLabels: labels, Help: "What the handler takes for an event.",
			Buckets: prometheus.ExponentialBuckets(0.0001, 4, 9),
		})),
		lag: register(registerer, &failed, prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "khata_inbox_lag_events", ConstLabels: labels, Help: "Events of a partition that wait, as of the last time any came.",
		}, []string{"topic", "partition"})),
		lost: register(registerer, &failed, prometheus.NewCounter(prometheus.CounterOpts{
			Name: "khata_inbox_lost_events_total", ConstLabels: labels,
			Help: "Offsets that were gone from a topic before they were read, and were skipped.",
		})),
	}
	return m, failed
}

// register keeps the collector that is there, if there is one.
func register[C prometheus.Collector](registerer prometheus.Registerer, failed *error, c C) C {
	err := registerer.Register(c)
	var twice prometheus.AlreadyRegisteredError
	if errors.As(err, &twice) {
		if there, ok := twice.ExistingCollector.(C); ok {
			return there
		}
	}
	*failed = errors.Join(*failed, err)
	return c
}

func (m *metrics) came(done tally) {
	if m == nil {
		return
	}
	m.events.WithLabelValues("handled").Add(float64(done.handled))
	m.events.WithLabelValues("duplicate").Add(float64(done.duplicates))
	for reason, n := range done.letters {
		m.events.WithLabelValues(string(reason)).Add(float64(n))
	}
}

func (m *metrics) replayed() {
	if m != nil {
		m.events.WithLabelValues("replayed").Inc()
	}
}

func (m *metrics) took(d time.Duration) {
	if m != nil {
		m.handler.Observe(d.Seconds())
	}
}

func (m *metrics) retried(err error) {
	if m == nil {
		return
	}
	var f *failure
	var slow *errSlow
	fault := "road"
	switch {
	case errors.As(err, &f):
		fault = "event"
	case errors.As(err, &slow):
		fault = "slow"
	}
	m.retries.WithLabelValues(fault).Inc()
}

func (m *metrics) openLetters(counts map[Reason]int) {
	for _, reason := range []Reason{Failed, Poisoned, Malformed, Future, OtherSource, Behind, TooOld} {
		m.letters.WithLabelValues(string(reason)).Set(float64(counts[reason]))
	}
}

func (m *metrics) lags(topic string, partition int32, events int64) {
	if m != nil {
		m.lag.WithLabelValues(topic, strconv.Itoa(int(partition))).Set(float64(max(events, 0)))
	}
}

func (m *metrics) left(topic string, partition int32) {
	if m != nil {
		m.lag.DeleteLabelValues(topic, strconv.Itoa(int(partition)))
	}
}

func (m *metrics) skipped(events int64) {
	if m != nil {
		m.lost.Add(float64(max(events, 0)))
	}
}
