package suspect

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/retry"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// Window is how long after another one a transfer can be posted and still be a suspect; exactly so long is not too long.
	Window = 24 * time.Hour
	// slack is how much longer fingerprints are kept: posted_at is a clock, and clocks are set back.
	slack = time.Hour
	// maxMembers bounds a group, so that one can be looked at, and read, in a bounded time.
	maxMembers = 50
	// maxEqual is with how many earlier ones a transfer is compared at most: the latest.
	maxEqual = 100
)

// Config is how a Detector behaves. The zero value of each field but the first two is its default.
type Config struct {
	// Journal is what is followed, and Pool its database, as role khata_service. Required.
	Journal *journal.Journal
	Pool    *pgxpool.Pool
	// Every is how often Run looks for new transfers. Default 1 s.
	Every time.Duration
	// Batch is the most transfers that are followed by one transaction. Default 5,000.
	Batch int
	// Logger gets what Run has to say. Default: discard.
	Logger *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Detector is what this package does. It is safe for concurrent use, and any number of servers may have one on the same database. Every error that
// its methods return is a *ledger.Error by errors.As. Beside those that each names they return CodeLedgerNotFound; CodeUnavailable,
// CodeDeadlineExceeded, CodeCancelled or CodeConflict, after which the same may be asked again; and CodeInternal.
type Detector struct {
	config  Config
	journal *journal.Journal
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	log     *slog.Logger

	// following is held by whoever follows: a feed is for one at a time.
	following sync.Mutex
	feed      *journal.Feed
	// blur takes fingerprints for another, so that tests can have those of different movements collide; nil is as they are.
	blur func(int64) int64
}

// New makes a Detector. Run is what works beside the calls.
func New(config Config) *Detector {
	if config.Every == 0 {
		config.Every = time.Second
	}
	if config.Batch == 0 {
		config.Batch = 5_000
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Detector{
		config: config, journal: config.Journal, pool: config.Pool, sql: dbsqlc.New(), log: config.Logger, feed: config.Journal.Feed(),
	}
}

// ledgerID is the number of a ledger. It returns CodeLedgerNotFound.
func (d *Detector) ledgerID(ctx context.Context, name ledger.Name) (int32, error) {
	ids, err := d.sql.SuspectLedger(ctx, d.pool, string(name))
	switch {
	case err != nil:
		return 0, err
	case len(ids) == 0:
		return 0, ledger.Errorf(ledger.CodeLedgerNotFound, "ledger %q does not exist", string(name))
	}
	return ids[0], nil
}

// patience is how a Detector waits for the database.
var patience = retry.Policy{Budget: 15 * time.Second, Contended: "others keep deciding about the same ledger, or new transfers keep being looked at"}

// again does something, and again while that may help.
func (d *Detector) again(ctx context.Context, doing string, do func(tried bool) error) error {
	return patience.Do(ctx, doing, do)
}

// public turns an error into one for callers.
func public(ctx context.Context, doing string, err error) error {
	return patience.Public(ctx, doing, err)
}
