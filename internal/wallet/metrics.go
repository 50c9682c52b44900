package wallet

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics are those of a consumer, beside those of its inbox. A nil one counts nothing.
type Metrics struct {
	facts *prometheus.CounterVec
	late  prometheus.Histogram
}

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{
		facts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "khata_wallet_events_total",
			Help: "Events of accounts, by what became of them: applied; covered, in what was read from the journal; known, duplicates that were absorbed.",
		}, []string{"result"}),
		late: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "khata_wallet_lag_seconds", Help: "From the posting of a transfer to the wallet view, by the clocks of the ledger's database and of this machine.",
			Buckets: []float64{.01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 60, 600, 3600},
		}),
	}
	registry.MustRegister(m.facts, m.late)
	return m
}

func (m *Metrics) came(done tally, covered int, facts []fact) {
	if m == nil {
		return
	}
	m.facts.WithLabelValues("applied").Add(float64(done.applied))
	m.facts.WithLabelValues("known").Add(float64(done.known))
	m.facts.WithLabelValues("covered").Add(float64(covered))
	now := time.Now()
	for _, f := range facts {
		if f.moved != nil {
			m.late.Observe(max(0, now.Sub(f.at).Seconds()))
		}
	}
}
