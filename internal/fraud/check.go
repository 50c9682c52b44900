package fraud

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/kafka"
)

// Config is what a Check is made of. Kafka, Rules and Instance are required.
type Config struct {
	// Kafka is how to reach Kafka: seeds, TLS, SASL. How to consume and to produce is not for these options to say.
	Kafka  []kgo.Opt
	Topics kafka.Topics
	Rules  *Rules
	// Instance names this one among those that run at once. It is the same at its next start: then that ends at once what this one has left
	// undone. Two that run under one name take the right to write from each other, again and again.
	Instance string
	// SkipLost goes on when events are gone that were to be judged next, or what is remembered of payers is. Without it Run returns an error that
	// says what.
	SkipLost bool
	// Logger is told what happens. nil: slog.Default().
	Logger *slog.Logger
	// Metrics are counted. nil: nothing is.
	Metrics *Metrics
}

const (
	// firstPause and longestPause bound how long it rests after something has failed.
	firstPause, longestPause = 100 * time.Millisecond, 5 * time.Second
	// startTime bounds what is asked of Kafka before a session begins.
	startTime = 20 * time.Second
	// mostUnfit is how often in a row the topics must be found wrong that were right before: brokers that have just started do not know all.
	mostUnfit = 8
)

// Check is one instance of the fraud check. New makes one.
type Check struct {
	config  Config
	log     *slog.Logger
	metrics *Metrics
	// wasFit is that the topics were right once, and unfit how often in a row they have been wrong since.
	wasFit bool
	unfit  int
	// beforeEnd is called in a transaction when all is written. For tests.
	beforeEnd func()
	// patience is restorePatience, but in tests.
	patience time.Duration
}

var validInstance = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,100}$`)

// New says what of the config cannot be.
func New(config Config) (*Check, error) {
	if config.Rules == nil {
		return nil, errors.New("fraud check: there are no rules")
	}
	if !validInstance.MatchString(config.Instance) {
		return nil, fmt.Errorf("fraud check: instance %q: give it a name of 1 to 100 letters, digits, dots, dashes and underscores that no other instance has", config.Instance)
	}
	if err := config.Topics.ValidateFraud(); err != nil {
		return nil, fmt.Errorf("fraud check: %w", err)
	}
	c := &Check{config: config, log: config.Logger, metrics: config.Metrics, patience: restorePatience}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.log = c.log.With("instance", config.Instance)
	return c, nil
}

// Group is the consumer group of all instances.
func Group(topics kafka.Topics) string { return "khata-fraud-" + topics.Effective() }

// Run judges until ctx ends, and then returns nil: what had begun is finished, and the group is left. Any other end has an error that says
// what a person has to do. What only fails is begun anew, from what is committed: a session of Kafka's client, and all that it remembers.
func (c *Check) Run(ctx context.Context) error {
	pause := firstPause
	for ctx.Err() == nil {
		worked, err := c.live(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if c.isForPeople(err) {
			return fmt.Errorf("fraud check: %w", err)
		}
		if worked {
			pause = firstPause
		}
		if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
			err = fmt.Errorf("%w (if this comes again and again, another process runs as instance %s: each needs a name of its own)", err, c.config.Instance)
		}
		c.log.Warn("the fraud check begins anew from what is committed", "error", err, "pause", pause)
		sleep(ctx, jitter(pause))
		pause = min(2*pause, longestPause)
	}
	return nil
}

// isForPeople reports whether to begin anew would not help.
func (c *Check) isForPeople(err error) bool {
	var lost *LostError
	var wrong unfit
	switch {
	case errors.As(err, &lost):
		return true
	case errors.As(err, &wrong):
		c.unfit++
		return !c.wasFit || c.unfit >= mostUnfit
	}
	return false
}

// live is one life: from a new client until it can be trusted no more. It reports whether it has committed anything.
func (c *Check) live(ctx context.Context) (worked bool, err error) {
	if err := c.checkTopics(ctx); err != nil {
		return false, err
	}
	c.wasFit, c.unfit = true, 0
	s, err := c.open()
	if err != nil {
		return false, err
	}
	defer s.close()
	if err := s.fence(ctx); err != nil {
		return false, err
	}
	err = s.consume(ctx)
	return s.worked, err
}

// jitter is a random time between half of d and d.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func sleep(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
