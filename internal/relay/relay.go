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
	"github.com/khata-ledger/khata/ledger"
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

// cursor is how far a ledger has been read or published.
type cursor map[int32]int64

// batch is what is published at once: events of records of one ledger.
type batch struct {
	ledgerID int32
	ledger   ledger.Name
	// from is the cursor before, and through the last record.
	from, through int64
	records       int64
	oldest        time.Time
	events        []event
}

// leader is a relay that has the lease.
type leader struct {
	*Relay
	term      int64
	publisher *publisher
	published cursor
	// blocked are the places at which something is parked.
	blocked map[place]bool
	// refusals counts the events that Kafka has refused one after the other.
	refusals int
}

func (l *leader) load(ctx context.Context) error {
	return l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		rows, err := l.sql.RelayCursors(ctx, tx)
		if err != nil {
			return err
		}
		l.published = cursor{}
		for _, row := range rows {
			l.published[row.LedgerID] = row.Through
		}
		keys, err := l.sql.RelayParkedKeys(ctx, tx)
		for _, key := range keys {
			l.blocked[place{key.Topic, key.Key}] = true
		}
		return err
	})
}

// settleEvery is how often to look whether somebody wants parked events to be tried again.
const settleEvery = time.Second

// run publishes until something fails or ctx ends. One goroutine reads ahead while another one waits for Kafka.
func (l *leader) run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	batches := make(chan batch, 1)
	read := cursor{}
	for id, through := range l.published {
		read[id] = through
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		stop(l.read(ctx, read, batches))
	}()
	defer func() {
		stop(nil)
		<-ended
	}()
	ticker := time.NewTicker(settleEvery)
	defer ticker.Stop()
	for settling := false; ; {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
			settling = len(l.blocked) > 0
		case b := <-batches:
			if err := l.publish(ctx, b); err != nil {
				return err
			}
		case <-next(settling):
		}
		if settling { // In turn with what is new: nobody else waits for a key with many events.
			var err error
			if settling, err = l.settle(ctx); err != nil {
				return err
			}
		}
	}
}

// next is ready at once, or never.
func next(now bool) <-chan struct{} {
	if !now {
		return nil
	}
	ready := make(chan struct{})
	close(ready)
	return ready
}

const (
	// mostBytes and leastBytes bound a transaction; one event may have more.
	mostBytes, leastBytes = 16 << 20, 256 << 10
	// underWayEvery is how often to look again whether a ledger's numbers have been committed, and sayEvery how often to say that they are not.
	underWayEvery, sayEvery = 500 * time.Millisecond, time.Minute
)

// read reads the ledgers from where they are on, in turn, and makes events of what is there.
func (l *leader) read(ctx context.Context, read cursor, out chan<- batch) error {
	feed := l.config.Journal.Feed()
	later := map[int32]time.Time{} // when to look at a ledger again that has something under way
	var said time.Time
	for {
		unread, err := feed.Unread(ctx, read)
		if err != nil {
			return err
		}
		idle := true
		for _, u := range unread {
			if time.Now().Before(later[u.LedgerID]) {
				continue
			}
			records, err := feed.Records(ctx, u.LedgerID, read[u.LedgerID], l.config.Window)
			if errors.Is(err, journal.ErrUnderWay) {
				later[u.LedgerID] = time.Now().Add(underWayEvery)
				if time.Since(u.Since) > 10*time.Second && time.Since(said) > sayEvery {
					said = time.Now()
					l.log.Warn("a ledger waits to be published: a transaction that has drawn numbers does not end (see pg_locks, advisory, class 4247)",
						"ledger", u.Ledger, "since", u.Since)
				}
				continue
			}
			if err != nil {
				return err
			}
			idle = idle && len(records) == 0
			for len(records) > 0 {
				b := l.nextBatch(u, read[u.LedgerID], &records)
				select {
				case out <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
				read[u.LedgerID] = b.through
			}
		}
		if idle && !sleep(ctx, l.config.Poll) {
			return ctx.Err()
		}
	}
}

// nextBatch makes events of records, and takes these off, until they are as large as a transaction may be.
func (l *leader) nextBatch(u journal.Unread, from int64, records *[]journal.Record) batch {
	b := batch{ledgerID: u.LedgerID, ledger: u.Ledger, from: from, oldest: u.Since}
	most := l.bytes.Load()
	for size := int64(0); len(*records) > 0 && size < most; *records = (*records)[1:] {
		before := len(b.events)
		b.events = l.config.Topics.appendEvents(b.events, u.Ledger, (*records)[0])
		b.through, b.records = (*records)[0].Sequence, b.records+1
		for _, e := range b.events[before:] {
			size += e.size()
		}
	}
	return b
}

// publish sends a batch, parks what Kafka refuses, and moves the cursor.
func (l *leader) publish(ctx context.Context, b batch) error {
	parked, err := l.send(ctx, b.events)
	if err != nil {
		if less := l.bytes.Load() / 2; less >= leastBytes {
			l.bytes.Store(less)
			l.log.Warn("the next transactions are smaller, in case that Kafka does not take as much in time", "bytes", less)
		}
		return err
	}
	l.bytes.Store(min(mostBytes, l.bytes.Load()*5/4))
	if err := l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		moved, err := l.sql.RelayAdvance(ctx, tx, dbsqlc.RelayAdvanceParams{
			LedgerID: b.ledgerID, Through: b.through, Records: b.records, FromNumber: b.from,
		})
		if err != nil {
			return err
		}
		if len(moved) == 0 {
			return fmt.Errorf("%w: somebody else has moved the cursor of ledger %s", errDeposed, b.ledger)
		}
		return l.park(ctx, tx, b.ledgerID, parked)
	}); err != nil {
		return err
	}
	l.published[b.ledgerID] = b.through
	l.config.Metrics.published(b, len(parked))
	return nil
}

// mostRefusals is how many events in a row may be at fault themselves.
const mostRefusals = 100

// send publishes events in their order. It returns those that have to be parked: what Kafka refuses, and what may not overtake it.
func (l *leader) send(ctx context.Context, events []event) (parked []parkedEvent, err error) {
	clear := events
	if len(l.blocked) > 0 || anyFault(events) {
		clear = make([]event, 0, len(events))
		for _, e := range events {
			switch at := e.place(); {
			case l.blocked[at]:
				parked = append(parked, parkedEvent{e, nil})
			case e.fault != nil:
				l.blocked[at] = true
				parked = append(parked, parkedEvent{e, e.fault})
			default:
				clear = append(clear, e)
			}
		}
	}
	if len(clear) == 0 {
		return parked, nil
	}
	err = l.publisher.publish(ctx, clear)
	var no refused
	switch {
	case err == nil:
		l.refusals = 0
		return parked, nil
	case !errors.As(err, &no):
		return nil, err
	case len(clear) == 1:
		if err = l.publisher.publishAlone(ctx, clear[0]); !errors.As(err, &no) {
			return parked, err
		}
		if l.refusals++; l.refusals > mostRefusals {
			return nil, fmt.Errorf("%d events were refused by Kafka one after the other, so it is not about them: see khata topics ensure. The last one: %w",
				l.refusals, no.error)
		}
		l.blocked[clear[0].place()] = true
		return append(parked, parkedEvent{clear[0], no.error}), nil
	}
	half := len(clear) / 2
	for _, part := range [][]event{clear[:half], clear[half:]} {
		more, err := l.send(ctx, part)
		if err != nil {
			return nil, err
		}
		parked = append(parked, more...)
	}
	return parked, nil
}

func anyFault(events []event) bool {
	for i := range events {
		if events[i].fault != nil {
			return true
		}
	}
	return false
}
