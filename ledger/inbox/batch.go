package inbox

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// verdict is what is to be done with a delivery, as take says.
type verdict string

const (
	verdictNew         verdict = "new"
	verdictDuplicate   verdict = "duplicate"
	verdictUnmarked    verdict = "unmarked"
	verdictOtherSource verdict = "other_source"
	verdictFuture      verdict = "future"
	verdictBehind      verdict = "behind"
	verdictTooOld      verdict = "too_old"
)

// tally counts what a batch has come to, for the metrics, once it is committed.
type tally struct {
	handled, duplicates int
	letters             map[Reason]int
}

// batch gives the events of one partition their effects, in their order, in one transaction. What of it has become known before has none. Errors
// that are a failure are of an event, errSlow is of their number, and all others of the road.
func (b *Inbox) batch(ctx context.Context, list []delivery) (tally, error) {
	var done tally
	err := b.transact(ctx, func(tx pgx.Tx) error {
		done = tally{letters: map[Reason]int{}}
		verdicts, err := b.take(ctx, tx, list)
		if err != nil {
			return err
		}
		var letters pgx.Batch
		write := func(d delivery, reason Reason, text string) {
			b.queueLetter(&letters, d, reason, text, 0)
			done.letters[reason]++
		}
		waiting := map[string]bool{}
		var together []Event // what HandleAll gets
		started := time.Now()
		for i, d := range list {
			reason, text := b.refusal(d, verdicts[i])
			switch {
			case verdicts[i] == verdictDuplicate:
				done.duplicates++
				continue
			case reason == "" && d.Key != nil && waiting[string(d.Key)]:
				reason, text = b.refusal(d, verdictBehind)
			}
			if reason != "" {
				write(d, reason, text)
				waiting[string(d.Key)] = b.config.KeepOrder && reason != TooOld || waiting[string(d.Key)]
				continue
			}
			done.handled++
			if b.config.HandleAll != nil {
				together = append(together, d.Event)
				continue
			}
			// One event that takes long has only itself to blame, but many that do must not stop the group.
			if i > 0 && time.Since(started) > b.config.HandleTimeout {
				return &errSlow{i}
			}
			if err := b.handle(ctx, tx, d.Event); err != nil {
				return err
			}
		}
		if len(together) > 0 {
			if err := b.handle(ctx, tx, together...); err != nil {
				return err
			}
		}
		if letters.Len() > 0 {
			if err := tx.SendBatch(ctx, &letters).Close(); err != nil {
				return fmt.Errorf("write letters: %w", err)
			}
		}
		return b.waitForTheirs(ctx, tx, done)
	})
	return done, err
}

// refusal says why a delivery is not given to the handler; an empty reason if it is.
func (b *Inbox) refusal(d delivery, v verdict) (Reason, string) {
	switch {
	case v == verdictOtherSource:
		return OtherSource, "an event of another source has the same id: " + toText(d.Source) + " is not where that one came from"
	case d.malformed != nil:
		return Malformed, "the record is no event: " + d.malformed.Error()
	case v == verdictFuture:
		return Future, fmt.Sprintf("it was recorded at %s, more than a day ahead of the database's clock", d.Time.Format(time.RFC3339))
	case v == verdictTooOld:
		return TooOld, fmt.Sprintf("it was recorded at %s, and events of that time are not remembered any more (the window is %v): it may have had its effect",
			d.Time.Format(time.RFC3339), b.config.Window)
	case v == verdictBehind:
		return Behind, "an event of its key before it waits"
	}
	return "", ""
}

// take looks the deliveries up, and marks those that are new. Of an id that is there twice the second is a duplicate.
func (b *Inbox) take(ctx context.Context, tx pgx.Tx, list []delivery) ([]verdict, error) {
	var (
		ids     = make([]string, 0, len(list))
		sources = make([]int64, 0, len(list))
		times   = make([]*time.Time, 0, len(list))
		keys    = make([][]byte, 0, len(list))
		locks   = make([]int64, 0, len(list))
		at      = make([]int, 0, len(list)) // where in list each of them is
	)
	verdicts := make([]verdict, len(list))
	seen := make(map[string]bool, len(list))
	for i, d := range list {
		if seen[d.ID] {
			verdicts[i] = verdictDuplicate
			continue
		}
		seen[d.ID] = true
		var when *time.Time
		if d.malformed == nil {
			when = &list[i].Time
		}
		ids, sources, times, keys = append(ids, d.ID), append(sources, hash(d.Source)), append(times, when), append(keys, d.Key)
		locks, at = append(locks, hash(b.config.Schema, b.config.Consumer, d.ID)), append(at, i)
	}
	slices.Sort(locks)

	var queue pgx.Batch
	b.queueSettings(&queue)
	if b.config.NoMarkers {
		queue.Queue(b.sql(judgeUnmarked), b.config.Consumer, b.config.KeepOrder, list[0].Topic, ids, sources, times, keys)
	} else {
		b.queueTake(&queue, list[0].Topic, locks, ids, sources, times, keys)
	}
	return b.verdicts(ctx, tx, &queue, verdicts, at)
}

// judgeUnmarked judges deliveries without looking for markers, or making any: as take does, but for these.
const judgeUnmarked = `SELECT e.n, CASE
	WHEN EXISTS (SELECT FROM {schema}.letter l
	              WHERE l.consumer = $1 AND l.event_id = e.id AND l.source_hash = e.source AND l.state IN ('open', 'requested')) THEN 'duplicate'
	WHEN e.at IS NULL THEN 'unmarked'
	WHEN e.at > clock_timestamp() + interval '1 day' THEN 'future'
	WHEN $2 AND e.key IS NOT NULL AND EXISTS (
	    SELECT FROM {schema}.letter w WHERE w.consumer = $1 AND w.topic = $3 AND sha256(w.key) = sha256(e.key)
	                           AND w.key IS NOT NULL AND w.state IN ('open', 'requested') AND w.reason <> 'too_old') THEN 'behind'
	ELSE 'new' END
	FROM unnest($4::text[], $5::bigint[], $6::timestamptz[], $7::bytea[]) WITH ORDINALITY AS e (id, source, at, key, n) ORDER BY e.n`

func (b *Inbox) queueTake(queue *pgx.Batch, topic string, locks []int64, ids []string, sources []int64, times []*time.Time, keys [][]byte) {
	queue.Queue(b.sql(`SELECT n, verdict FROM {schema}.take($1, $2, $3, $4, $5::bigint[], $6::text[], $7::bigint[], $8::timestamptz[], $9::bytea[])`),
		b.config.Consumer, b.config.Window.Seconds(), b.config.KeepOrder, topic, locks, ids, sources, times, keys)
}

// verdicts sends what was queued, and puts what comes back where it belongs.
func (b *Inbox) verdicts(ctx context.Context, tx pgx.Tx, queue *pgx.Batch, verdicts []verdict, at []int) ([]verdict, error) {
	results := tx.SendBatch(ctx, queue)
	defer results.Close()
	if _, err := results.Exec(); err != nil {
		return nil, fmt.Errorf("set the transaction up: %w", err)
	}
	rows, err := results.Query()
	if err != nil {
		return nil, fmt.Errorf("look the events up: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		N int
		V verdict
	}])
	if err != nil {
		return nil, fmt.Errorf("look the events up: %w", err)
	}
	for _, f := range found {
		verdicts[at[f.N-1]] = f.V
	}
	if len(found) != len(at) {
		return nil, fmt.Errorf("the consumer %s has been deleted from %s.consumer: start it again", b.config.Consumer, b.config.Schema)
	}
	return verdicts, results.Close()
}

// waitForTheirs makes the commit of nothing but duplicates as durable as the commits of those who were first: it writes something, so that it
// ends up on disk, and on a synchronous standby, after theirs. The offset moves on for theirs.
func (b *Inbox) waitForTheirs(ctx context.Context, tx pgx.Tx, done tally) error {
	if done.duplicates == 0 || done.handled > 0 || len(done.letters) > 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `SELECT pg_logical_emit_message(true, 'khata_inbox', '')`); err != nil {
		return fmt.Errorf("wait for the transactions of others: %w", err)
	}
	return nil
}

// bury makes an event a dead letter for what its handler said.
func (b *Inbox) bury(ctx context.Context, d delivery, f *failure, attempts int) (tally, error) {
	var done tally
	err := b.transact(ctx, func(tx pgx.Tx) error {
		done = tally{letters: map[Reason]int{}}
		verdicts, err := b.take(ctx, tx, []delivery{d})
		if err != nil {
			return err
		}
		if verdicts[0] == verdictDuplicate {
			done.duplicates++
			return b.waitForTheirs(ctx, tx, done)
		}
		reason := Failed
		if f.final {
			reason = Poisoned
		}
		var letters pgx.Batch
		b.queueLetter(&letters, d, reason, f.Error(), attempts)
		done.letters[reason]++
		if err := tx.SendBatch(ctx, &letters).Close(); err != nil {
			return fmt.Errorf("write a dead letter: %w", err)
		}
		return nil
	})
	return done, err
}
