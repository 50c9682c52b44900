package suspect

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/ledger"
)

// Lag is how far the journal has been followed.
type Lag struct {
	Ledgers []LedgerLag
}

// LedgerLag is how far a ledger has been followed that has transfers nobody has looked at.
type LedgerLag struct {
	Ledger ledger.Name
	// Through is the number of the last transfer that was looked at, Last that of the last one there is, and Since when the first one in between was
	// decided. Numbers have gaps, and changes of accounts take some.
	Through, Last int64
	Since         time.Time
}

// Oldest is when the first transfer was decided that nobody has looked at; nil is that there is none.
func (l Lag) Oldest() *time.Time {
	var oldest *time.Time
	for _, one := range l.Ledgers {
		if oldest == nil || one.Since.Before(*oldest) {
			oldest = &one.Since
		}
	}
	return oldest
}

// Lag says how far the journal has been followed. It has no ledgers if nothing is left to look at.
func (d *Detector) Lag(ctx context.Context) (Lag, error) {
	var l Lag
	err := d.again(ctx, "look how far the journal was followed", func(bool) (err error) {
		l, err = d.lag(ctx)
		return err
	})
	return l, err
}

func (d *Detector) lag(ctx context.Context) (l Lag, err error) {
	read, err := d.cursors(ctx)
	if err != nil {
		return l, err
	}
	list, err := d.journal.Feed().UnreadTransfers(ctx, read)
	for _, u := range list {
		l.Ledgers = append(l.Ledgers, LedgerLag{u.Ledger, read[u.LedgerID], u.Last, u.Since})
	}
	return l, err
}

// measureLimit is after how long of silence nobody knows any more.
const measureLimit = 5 * time.Second

// measure brings the gauge up to date.
func (d *Detector) measure(ctx context.Context) error {
	if d.config.Metrics == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, measureLimit)
	defer cancel()
	l, err := d.lag(ctx)
	if err != nil {
		return err
	}
	age := 0.0
	if oldest := l.Oldest(); oldest != nil {
		age = max(0, time.Since(*oldest).Seconds())
	}
	d.config.Metrics.oldest.Set(age)
	return nil
}

// Metrics are what is counted. Nil ones count nothing.
type Metrics struct {
	oldest    prometheus.Gauge
	transfers prometheus.Counter
	groups    prometheus.Counter
	members   prometheus.Counter
	failures  prometheus.Counter
}

// NewMetrics makes and registers them.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
		registry.MustRegister(c)
		return c
	}
	m := &Metrics{
		oldest: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "khata_suspects_oldest_unread_seconds",
			Help: "Age of the oldest transfer that was not looked at for double charges; 0 if all were; NaN if the database does not answer.",
		}),
		transfers: counter("khata_suspects_transfers_total", "Transfers that this server has looked at for double charges."),
		groups:    counter("khata_suspects_groups_total", "Groups of suspected double charges that this server has found."),
		members:   counter("khata_suspects_members_total", "Transfers that this server has put into such groups."),
		failures:  counter("khata_suspects_failures_total", "Rounds of the search for double charges that failed."),
	}
	registry.MustRegister(m.oldest)
	return m
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
	}
}

func (m *Metrics) followed(transfers int, touched []*group) {
	if m == nil {
		return
	}
	m.transfers.Add(float64(transfers))
	for _, g := range touched {
		if g.written == 0 {
			m.groups.Inc()
		}
		m.members.Add(float64(len(g.members) - g.written))
	}
}
