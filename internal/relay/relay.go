package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/periodic"
)

// Topics are where events go.
type Topics struct {
	// Transfers has an event for each decided transfer, and Accounts one for each change of an account or of its balance.
	Transfers, Accounts string
	// Prefix is what both begin with.
	Prefix string
}

// TopicsOf are the topics of a prefix.
func TopicsOf(t kafka.Topics) Topics {
	return Topics{Transfers: t.Transfers(), Accounts: t.Accounts(), Prefix: t.Effective()}
}

// Config is how a relay behaves.
type Config struct {
	// Journal is what is published, and Pool its database, as role khata_service. Required.
	Journal *journal.Journal
	Pool    *pgxpool.Pool
	// Kafka are the options of a client: brokers, TLS, SASL. Required.
	Kafka []kgo.Opt
	// Topics are required, and must be there: see khata topics ensure.
	Topics Topics
	// Name is who has the lease, for people.
	Name string
	// Lease is how long a relay that says nothing keeps the work. Default 5 s.
	Lease time.Duration
	// Poll is how often to look for new records. Default 20 ms.
	Poll time.Duration
	// Window is the most records of a transaction. Default 10,000: a relay that is behind sends the more at once.
	Window int
	// Logger is required; Metrics may be nil.
	Logger  *slog.Logger
	Metrics *Metrics
}

// Relay publishes the journal of a database to Kafka while it has the lease.
type Relay struct {
	config Config
	sql    *dbsqlc.Queries
	log    *slog.Logger
	// bytes is the most of a transaction: less after one that has failed, whatever the reason. Kafka has to take it in time.
	bytes atomic.Int64
}

// New makes a relay; Run is what works.
func New(config Config) *Relay {
	if config.Lease == 0 {
		config.Lease = 5 * time.Second
	}
	if config.Poll == 0 {
		config.Poll = 20 * time.Millisecond
	}
	if config.Window == 0 {
		config.Window = 10_000
	}
	r := &Relay{config: config, sql: dbsqlc.New(), log: config.Logger}
	r.bytes.Store(mostBytes)
	return r
}

const (
	// candidateEvery is how often a relay without the lease asks for it.
	candidateEvery = 500 * time.Millisecond
	// firstPause and longestPause are how long a relay that has failed waits before it asks again; the longer, the more often it has.
	firstPause, longestPause = 200 * time.Millisecond, 5 * time.Second
)

// Run works until ctx ends: it waits for the lease, publishes while it has it, and waits again. Kafka and PostgreSQL may go away and
// come back. It returns an error only for what waiting does not mend: cursors that belong to another cluster.
func (r *Relay) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	measured := periodic.Job{
		Name: "measure what is not published", Every: time.Second, Do: r.measure, Failed: r.config.Metrics.unknown, Log: r.log,
	}.Start(ctx)
	defer measured()
	defer stop()
	pause := firstPause
	for ctx.Err() == nil {
		since := time.Now()
		term, err := r.take(ctx)
		if err != nil || term == 0 {
			if err != nil && ctx.Err() == nil {
				r.log.Warn("the relay cannot ask for the lease", "error", err)
			}
			sleep(ctx, candidateEvery)
			continue
		}
		r.log.Info("the relay has the lease", "term", term, "name", r.config.Name)
		r.config.Metrics.leads(true)
		err = r.lead(ctx, term, since)
		r.config.Metrics.leads(false)
		var misplaced *MisplacedError
		switch {
		case errors.As(err, &misplaced):
			return err
		case ctx.Err() != nil:
		case time.Since(since) > time.Minute: // It worked for a while.
			pause = firstPause
			fallthrough
		default:
			r.config.Metrics.failed()
			r.log.Warn("the relay has given up its lease, and will ask again", "term", term, "error", err)
			sleep(ctx, pause)
			pause = min(2*pause, longestPause)
		}
	}
	return nil
}

// MisplacedError says that the cursors belong to another cluster, other topics or another number of partitions: to go on from them would
// leave out what was published there, or part a key from its past.
type MisplacedError struct{ cluster, prefix, wantCluster, wantPrefix, partitions, wantPartitions string }

// Error implements error.
func (e *MisplacedError) Error() string {
	if e.cluster == e.wantCluster && e.prefix == e.wantPrefix {
		return fmt.Sprintf("the topics %s.* had %s partitions, and now have %s: keys lie elsewhere than their events of before, and their order is lost. "+
			"Make topics with another prefix; or, where no consumer needs the order of the past, run khata relay rewind --since NOW and start the relay again",
			e.prefix, e.partitions, e.wantPartitions)
	}
	return fmt.Sprintf("what is published is known of topics %s.* of Kafka cluster %s, and this relay is to publish to %s.* of cluster %s: "+
		"say where to begin there with khata relay rewind --to-beginning or --since, or give the brokers and the prefix of before",
		e.prefix, e.cluster, e.wantPrefix, e.wantCluster)
}

// lead publishes for one term. It returns when ctx ends, the lease is lost, or anything fails.
func (r *Relay) lead(parent context.Context, term int64, since time.Time) (err error) {
	ctx, lost := context.WithCancelCause(parent)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		r.keep(ctx, term, since, lost)
	}()
	defer func() {
		if cause := context.Cause(ctx); cause != nil && errors.Is(cause, errDeposed) {
			err = errors.Join(cause, err)
		}
		lost(nil)
		<-kept
		r.release(parent, term)
	}()
	p, err := r.begin(ctx, term)
	if err != nil {
		return err
	}
	defer p.close()
	l := &leader{Relay: r, term: term, publisher: p, blocked: map[place]bool{}}
	if err := l.load(ctx); err != nil {
		return err
	}
	return l.run(ctx)
}

// begin fences the relay of the term before at Kafka; only then is the cursor read, which nobody else can move any more.
func (r *Relay) begin(ctx context.Context, term int64) (*publisher, error) {
	client, err := kgo.NewClient(r.config.Kafka...)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	maxBatch := int32(2 << 20) // Larger ones gain nothing.
	var partitions []string
	for _, topic := range []string{r.config.Topics.Transfers, r.config.Topics.Accounts} {
		settings, err := kafka.TopicSettings(ctx, client, topic)
		if err != nil {
			return nil, err
		}
		maxBatch = int32(min(int64(maxBatch), int64(settings.MaxMessageBytes)))
		partitions = append(partitions, strconv.Itoa(settings.Partitions))
	}
	layout := strings.Join(partitions, " and ")
	cluster, err := kafka.ClusterID(ctx, client)
	if err != nil {
		return nil, err
	}
	p := newPublisher(r.config.Kafka, r.config.Topics.Prefix, maxBatch, func(ctx context.Context) error {
		return r.inTerm(ctx, term, func(pgx.Tx) error { return nil })
	})
	if err := p.start(ctx, p.maxBatch); err != nil {
		return nil, err
	}
	bound, err := r.sql.RelayAdopt(ctx, r.config.Pool, dbsqlc.RelayAdoptParams{Cluster: cluster, Prefix: r.config.Topics.Prefix, Partitions: layout, Term: term})
	switch {
	case err != nil:
	case len(bound) == 0:
		err = errDeposed
	case bound[0].Cluster != cluster || bound[0].Prefix != r.config.Topics.Prefix || bound[0].Partitions != layout:
		err = &MisplacedError{bound[0].Cluster, bound[0].Prefix, cluster, r.config.Topics.Prefix, bound[0].Partitions, layout}
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// sleep returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
