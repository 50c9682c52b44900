package inbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The defaults of Config.
const (
	DefaultSchema = "khata_inbox"
	// DefaultWindow is for topics that keep events as Kafka does by itself: for 7 days, in segments of 7 days.
	DefaultWindow        = 15 * day
	DefaultBatchSize     = 100
	DefaultMaxAttempts   = 5
	DefaultHandleTimeout = 5 * time.Second
	DefaultCheckEvery    = time.Hour
	DefaultReplayEvery   = 2 * time.Second
)

const day = 24 * time.Hour

// The limits of Config.
const (
	// maxWindow bounds the number of partitions: every event is looked for in all of them.
	maxWindow = 366 * day
	// maxBatch bounds the locks of a transaction: it takes one for each event.
	maxBatch = 1000
	maxName  = 200
)

// Config is what an Inbox is made of. Consumer, Pool, Kafka, Topics and one of Handle and HandleAll are required.
type Config struct {
	// Consumer names who consumes, in up to 200 bytes: every marker is under this name. Two programs with different effects need different
	// names; all processes of one program have the same.
	Consumer string
	// Group is the consumer group in Kafka. Empty: as Consumer. Another group reads the topics from their beginnings, and under the same
	// Consumer only what is new has an effect.
	Group string
	// Pool is the database of the handler's effects, where the inbox is too. Migrate has to have been run there.
	Pool *pgxpool.Pool
	// Kafka is how to reach Kafka: seeds, TLS, SASL. How to consume is not for these options to say: what is set here of that is overruled.
	Kafka []kgo.Opt
	// Topics are the topics to consume.
	Topics []string
	// Window is for how long an event is remembered, by its own time. It must be longer than what any of the topics can keep, by an hour; add
	// how long the producer may be late. 0: DefaultWindow. A longer one costs a partition a day, and a lookup in it for each event.
	Window time.Duration
	// Handle gives an event its effect, through tx. Whatever it does there is committed together with the event's id, and with the effects of
	// other events: tx is not to be committed or rolled back. For savepoints there is tx.Begin. Waiting for a lock ends after 2 seconds.
	//
	// An error takes all of it back. Poison and Transient say what kind it is; any other is tried MaxAttempts times, as a panic is. It is
	// called by several goroutines, one for each partition, and one for replays.
	Handle func(ctx context.Context, tx pgx.Tx, e Event) error
	// HandleAll, in place of Handle, gives several events of a partition their effects at once, in their order: those of a batch that are new. It
	// saves round trips where that can be done by fewer statements. If it fails, it is called again for each of them alone, so that only the one
	// at fault becomes a dead letter.
	HandleAll func(ctx context.Context, tx pgx.Tx, events []Event) error
	// Schema is where the tables are. Empty: DefaultSchema.
	Schema string
	// BatchSize is how many events of a partition share a transaction at most, 1 to 1000. 0: DefaultBatchSize. Handlers that lock the same rows
	// from several partitions do better with fewer.
	BatchSize int
	// MaxAttempts is how often an event is tried before it becomes a dead letter. 0: DefaultMaxAttempts. Tries are counted in memory: a
	// process that dies begins anew.
	MaxAttempts int
	// HandleTimeout is how long a call of Handle or HandleAll may take. 0: DefaultHandleTimeout. Its context ends then, and the try has failed. A
	// process that freezes in the middle stops its successor for as long, and a second more.
	HandleTimeout time.Duration
	// NoMarkers keeps no markers: every delivery is given to the handler, however often and however late it comes, and there is no window. It is for a
	// handler that tells by itself, and for ever, what it has had already, such as by a version that each event of a key has. Letters and KeepOrder
	// are as always.
	NoMarkers bool
	// KeepOrder makes an event wait, as a letter, while one of its key before it does. It goes on by itself when that one has been replayed or
	// discarded. Without it, later events of the key are handled meanwhile. Those that are too old stop nobody.
	KeepOrder bool
	// SkipLost goes on from the beginning of a partition when events that were to be read next are gone from it. Without it Run returns an
	// error that says which.
	SkipLost bool
	// OnLost, in place of SkipLost, is asked what to do about events that are gone, and can find out from their source what they said. After
	// nil it goes on from the beginning of the partition; an error is what Run returns. The group waits for it for a minute, and may then
	// give the partition to another member, who asks again.
	//
	// With it, how far this database has come counts, and not only what Kafka knows of the group: a database that was restored from a backup
	// goes back to where it was then; and about a partition of which it knows nothing, though there were events before those that are there, it is
	// asked, too.
	OnLost func(ctx context.Context, lost *LostError) error
	// CheckEvery is how often it is checked, while it runs, that the window still covers what the topics keep. 0: DefaultCheckEvery.
	CheckEvery time.Duration
	// ReplayEvery is how often it looks for letters that are to be replayed. 0: DefaultReplayEvery.
	ReplayEvery time.Duration
	// Logger is told what happens. nil: slog.Default().
	Logger *slog.Logger
	// Registerer gets the metrics. nil: there are none.
	Registerer prometheus.Registerer
}

func (c Config) withDefaults() Config {
	or(&c.Group, c.Consumer)
	or(&c.Window, DefaultWindow)
	or(&c.Schema, DefaultSchema)
	or(&c.BatchSize, DefaultBatchSize)
	or(&c.MaxAttempts, DefaultMaxAttempts)
	or(&c.HandleTimeout, DefaultHandleTimeout)
	or(&c.CheckEvery, DefaultCheckEvery)
	or(&c.ReplayEvery, DefaultReplayEvery)
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	c.Logger = c.Logger.With("consumer", c.Consumer)
	return c
}

func or[T comparable](value *T, otherwise T) {
	var none T
	if *value == none {
		*value = otherwise
	}
}

func (c Config) validate() error {
	for _, topic := range c.Topics {
		if topic == "" {
			return errors.New("inbox: a name in Config.Topics is empty")
		}
	}
	switch {
	case c.Consumer == "" || len(c.Consumer) > maxName || !isText(c.Consumer):
		return fmt.Errorf("inbox: Config.Consumer must be a name of 1 to %d bytes", maxName)
	case c.Pool == nil:
		return errors.New("inbox: Config.Pool is missing")
	case len(c.Topics) == 0:
		return errors.New("inbox: Config.Topics is empty: which topics are to be consumed?")
	case c.Handle == nil && c.HandleAll == nil:
		return errors.New("inbox: Config.Handle is missing")
	case c.Handle != nil && c.HandleAll != nil:
		return errors.New("inbox: give one of Config.Handle and Config.HandleAll")
	case c.SkipLost && c.OnLost != nil:
		return errors.New("inbox: give one of Config.SkipLost and Config.OnLost")
	case c.Window < time.Minute || c.Window > maxWindow:
		return fmt.Errorf("inbox: Config.Window is %v, and can be from a minute to %v", c.Window, maxWindow)
	case c.BatchSize < 1 || c.BatchSize > maxBatch:
		return fmt.Errorf("inbox: Config.BatchSize is %d, and can be from 1 to %d", c.BatchSize, maxBatch)
	case c.MaxAttempts < 1:
		return fmt.Errorf("inbox: Config.MaxAttempts is %d, and must be at least 1", c.MaxAttempts)
	case c.HandleTimeout < 0 || c.CheckEvery < 0 || c.ReplayEvery < 0:
		return errors.New("inbox: a duration in Config is negative")
	}
	return validSchema(c.Schema)
}

// The times that follow from HandleTimeout. A transaction takes up to two of it (see batch), and all of a round must end well before
// the group gives up on this member.

// rebalanceTimeout is how long the group waits for a member that works.
func (c Config) rebalanceTimeout() time.Duration { return max(time.Minute, 6*c.HandleTimeout) }

// roundTime is after how long no further transaction begins before the group has had its say.
func (c Config) roundTime() time.Duration { return c.rebalanceTimeout() / 3 }

// idleTime is after how long PostgreSQL throws out a transaction from which it hears nothing.
func (c Config) idleTime() time.Duration { return c.HandleTimeout + time.Second }
