package sms

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
	_ "time/tzdata" // Machines without a database of time zones know them too.

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// The defaults of Config.
const (
	Consumer        = "sms"
	DefaultLanguage = Bengali
	DefaultZone     = "Asia/Dhaka"
	DefaultSenders  = 8
	DefaultMaxAge   = 24 * time.Hour
	DefaultKeep     = 90 * 24 * time.Hour
)

// The least of Config.
const (
	minMaxAge = time.Minute
	minKeep   = 24 * time.Hour
)

// Config is what the consumer is made of. Pool, Inbox, Gateway and Logger are required.
type Config struct {
	// Pool is the database of the messages, where the inbox is too.
	Pool *pgxpool.Pool
	// Inbox is how to consume: Kafka, topics, group, window. Whose inbox it is and what is done with events is set by Run.
	Inbox inbox.Config
	// Gateway takes the messages.
	Gateway Gateway
	// Books are where the directory is read from at the start; nil does without, where it was read once.
	Books *journal.Journal
	// Language is for those whose account does not say. "": DefaultLanguage.
	Language Language
	// Zone is where the clocks are that messages quote. nil: that of DefaultZone.
	Zone *time.Location
	// Senders is how many calls of the gateway are under way at most, 1 to 64. 0: DefaultSenders.
	Senders int
	// MaxAge is after how long a message is not sent any more, from the event on; at least a minute. 0: DefaultMaxAge.
	MaxAge time.Duration
	// Keep is for how long messages stay on record that were sent, or expired; at least a day. 0: DefaultKeep.
	Keep time.Duration
	// Registerer gets the metrics. nil: there are none.
	Registerer prometheus.Registerer
	// Logger is told what happens, and never a number or a text.
	Logger *slog.Logger

	// pace is for tests.
	pace *pace
}

func (c Config) withDefaults() (Config, error) {
	if c.Language == "" {
		c.Language = DefaultLanguage
	}
	if c.Senders == 0 {
		c.Senders = DefaultSenders
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultMaxAge
	}
	if c.Keep == 0 {
		c.Keep = DefaultKeep
	}
	if c.Zone == nil {
		zone, err := time.LoadLocation(DefaultZone)
		if err != nil {
			return c, fmt.Errorf("sms: the time zone of messages: %w", err)
		}
		c.Zone = zone
	}
	if c.pace == nil {
		p := defaultPace()
		p.senders, p.maxAge = c.Senders, c.MaxAge
		c.pace = &p
	}
	return c, c.validate()
}

func (c Config) validate() error {
	switch {
	case c.Pool == nil || c.Gateway == nil || c.Logger == nil:
		return errors.New("sms: Config.Pool, Config.Gateway and Config.Logger are required")
	case !c.Language.Valid():
		return fmt.Errorf("sms: the language %.20q is not %s or %s", string(c.Language), Bengali, English)
	case c.Senders < 1 || c.Senders > maxSenders:
		return fmt.Errorf("sms: %d senders; there can be 1 to %d", c.Senders, maxSenders)
	case c.MaxAge < minMaxAge:
		return fmt.Errorf("sms: messages cannot expire after %s; give at least %s", c.MaxAge, minMaxAge)
	case c.Keep < minKeep:
		return fmt.Errorf("sms: messages cannot be kept for %s only; give at least %s", c.Keep, minKeep)
	}
	return nil
}

// measureEvery and cleanEvery are how often the table is looked at as a whole.
const measureEvery, cleanEvery = 10 * time.Second, 10 * time.Minute

// Run consumes events and sends messages until ctx ends, and then returns nil: what has begun is finished, within some fifteen seconds. Any other
// end has an error that says what a person has to do.
func Run(ctx context.Context, config Config) error {
	c, err := config.withDefaults()
	if err != nil {
		return err
	}
	m := newMetrics(c.Registerer)
	refreshed, err := c.begin(ctx, m)
	if err != nil {
		return err
	}
	h := &handler{language: c.Language, zone: c.Zone, metrics: m}
	settings := c.Inbox
	settings.Consumer, settings.Pool, settings.Handle, settings.HandleAll = Consumer, c.Pool, nil, h.all
	in, err := inbox.New(ctx, settings)
	if err != nil {
		return err
	}
	s := &sender{pool: c.Pool, gateway: c.Gateway, pace: *c.pace, metrics: m, log: c.Logger}
	running, stop := context.WithCancel(ctx)
	var jobs sync.WaitGroup
	jobs.Go(func() { s.run(running) })
	if !refreshed {
		jobs.Go(func() { c.refresh(running, m) })
	}
	waits := []func(){
		periodic.Job{Name: "measure the messages", Every: measureEvery, Log: c.Logger, Do: func(ctx context.Context) error {
			return m.measure(ctx, c.Pool)
		}}.Start(running),
		periodic.Job{Name: "delete old messages", Every: cleanEvery, Log: c.Logger, Do: func(ctx context.Context) error {
			return clean(ctx, c.Pool, c.Keep)
		}}.Start(running),
	}
	err = in.Run(ctx)
	stop()
	jobs.Wait()
	for _, wait := range waits {
		wait()
	}
	return explain(err)
}

// begin reads the directory from the books. Once it has been read, that they cannot be reached stops nobody: it is tried again beside the work,
// and false says so.
func (c Config) begin(ctx context.Context, m *metrics) (refreshed bool, err error) {
	begun, err := queries.SMSBegun(ctx, c.Pool)
	switch {
	case err != nil:
		return false, fmt.Errorf("sms: %w", err)
	case c.Books == nil && !begun:
		return false, fmt.Errorf("sms: %w", ErrNotBegun)
	case c.Books == nil:
		return true, nil
	}
	err = c.read(ctx, m)
	if err != nil && begun && ctx.Err() == nil {
		c.Logger.Warn("the directory could not be read from the books; it is tried again", "error", err)
		return false, nil
	}
	return true, err
}

func (c Config) read(ctx context.Context, m *metrics) error {
	done, err := Bootstrap(ctx, c.Books, c.Pool)
	if err != nil {
		return fmt.Errorf("sms: %w", err)
	}
	m.badPhone(done.badPhone)
	c.Logger.Info("the directory is read from the books", "ledgers", done.Ledgers, "accounts", done.Accounts, "first", done.First)
	if len(done.Restored) > 0 {
		c.Logger.Error("ledgers end before what was covered: if they were restored from a backup, stop the consumer and run khata consume sms "+
			"bootstrap --restored", "ledgers", done.Restored)
	}
	return nil
}

// refresh reads the directory until it has worked.
func (c Config) refresh(ctx context.Context, m *metrics) {
	const every = 10 * time.Second
	for sleep(ctx, every) {
		if c.read(ctx, m) == nil {
			return
		}
	}
}

// explain adds to the inbox's error what it means here.
func explain(err error) error {
	var lost *inbox.LostError
	if errors.As(err, &lost) {
		return fmt.Errorf("%w. Here that is --skip-lost: what those events would have told people they are never told, and with --ledger-dsn "+
			"the directory is read from the books at the start", err)
	}
	return err
}
