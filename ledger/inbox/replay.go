package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// nextLetter locks the first letter after a number that is due, unless somebody else has it. Due is one that was asked for, and with KeepOrder
// one that was merely behind. Those of a key go one after the other: what is before it in the queue must be settled, and with KeepOrder
// everything before it.
const nextLetter = `SELECT ` + letterColumns + ` FROM {schema}.letter l
	WHERE consumer = $1 AND number > $2 AND state IN ('open', 'requested') AND (state = 'requested' OR $3 AND reason = 'behind')
	  AND (key IS NULL OR NOT EXISTS (
	      SELECT FROM {schema}.letter b
	       WHERE b.consumer = l.consumer AND b.topic = l.topic AND sha256(b.key) = sha256(l.key) AND b.key IS NOT NULL AND b.number < l.number
	         AND b.state IN ('open', 'requested') AND (b.state = 'requested' OR $3 AND b.reason <> 'too_old')))
	ORDER BY number LIMIT 1 FOR UPDATE SKIP LOCKED`

// replays handles the letters that are due, from time to time, until ctx ends.
func (b *Inbox) replays(ctx context.Context) {
	pause := b.config.ReplayEvery
	for sleep(ctx, jitter(pause)) {
		pause = b.config.ReplayEvery
		if err := b.replayAll(ctx); err != nil {
			b.log.Warn("replay letters", "error", err)
			pause = max(pause, longestPause)
		}
		if err := b.countLetters(ctx); err != nil {
			b.log.Warn("count the open letters", "error", err)
		}
	}
}

// replayAll handles each letter that is due once. It returns the last error that was of the road; that letter waits for the next time.
func (b *Inbox) replayAll(ctx context.Context) (failed error) {
	for number := int64(0); ctx.Err() == nil; {
		next, err := b.replayOne(ctx, number)
		if err != nil {
			failed = err
		}
		if next == 0 {
			break
		}
		number = next
	}
	return failed
}

// replayOne handles the next letter after a number in a transaction with its new state, and returns its number, or 0 if there is none.
func (b *Inbox) replayOne(ctx context.Context, after int64) (int64, error) {
	// What has begun is finished.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*b.config.HandleTimeout)
	defer cancel()
	var number int64
	var letter Letter
	err := b.transact(ctx, func(tx pgx.Tx) error {
		var queue pgx.Batch
		b.queueSettings(&queue)
		queue.Queue(b.sql(nextLetter), b.config.Consumer, after, b.config.KeepOrder)
		results := tx.SendBatch(ctx, &queue)
		defer results.Close()
		if _, err := results.Exec(); err != nil {
			return fmt.Errorf("set the transaction up: %w", err)
		}
		rows, err := results.Query()
		if err != nil {
			return fmt.Errorf("look for a letter: %w", err)
		}
		letter, err = pgx.CollectExactlyOneRow(rows, scanLetter)
		if errors.Is(err, pgx.ErrNoRows) {
			return results.Close()
		} else if err != nil {
			return fmt.Errorf("look for a letter: %w", err)
		}
		if err := results.Close(); err != nil {
			return fmt.Errorf("look for a letter: %w", err)
		}
		number = letter.Number
		if err := b.handle(ctx, tx, letter.Event); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, b.sql(`UPDATE {schema}.letter SET state = 'replayed', settled_at = clock_timestamp(), attempts = attempts + 1
			WHERE number = $1`), number)
		return err
	})
	var f *failure
	switch {
	case errors.As(err, &f):
		b.log.Warn("a replayed letter failed again", "letter", number, "event", letter.Event.ID, "error", err)
		return number, b.reopen(ctx, number, err)
	case err != nil:
		return number, err
	case number != 0:
		b.metrics.replayed()
		b.log.Info("replayed a letter", "letter", number, "event", letter.Event.ID)
	}
	return number, nil
}

// reopen gives a letter back to people. One that was behind has failed by itself now, and does not go on by itself any more.
func (b *Inbox) reopen(ctx context.Context, number int64, failed error) error {
	_, err := b.pool.Exec(ctx, b.sql(`UPDATE {schema}.letter SET state = 'open', reason = CASE reason WHEN 'behind' THEN 'failed' ELSE reason END,
		error = $2, attempts = attempts + 1 WHERE number = $1 AND state IN ('open', 'requested')`), number, toText(failed.Error()))
	if err != nil {
		return fmt.Errorf("write down that a letter failed again: %w", err)
	}
	return nil
}

// countLetters is for the metrics.
func (b *Inbox) countLetters(ctx context.Context) error {
	if b.metrics == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	rows, err := b.pool.Query(ctx, b.sql(`SELECT reason, count(*) FROM {schema}.letter
		WHERE consumer = $1 AND state IN ('open', 'requested') GROUP BY reason`), b.config.Consumer)
	if err != nil {
		return err
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		Reason Reason
		N      int
	}])
	if err != nil {
		return err
	}
	counts := map[Reason]int{}
	for _, of := range list {
		counts[of.Reason] = of.N
	}
	b.metrics.openLetters(counts)
	return nil
}
