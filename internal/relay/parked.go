package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// parkedEvent is an event that is put aside, and why; nil for one that waits behind another.
type parkedEvent struct {
	event
	why error
}

// park records events by the transaction that moves the cursor past them.
func (l *leader) park(ctx context.Context, tx pgx.Tx, ledgerID int32, parked []parkedEvent) error {
	if len(parked) == 0 {
		return nil
	}
	args := dbsqlc.RelayParkParams{LedgerID: ledgerID}
	for _, e := range parked {
		why := ""
		if e.why != nil {
			why = e.why.Error()
			l.log.Error("an event is parked: Kafka does not take it", "event", e.id, "type", e.typeName(), "topic", e.record.Topic, "key", string(e.record.Key),
				"sequence", e.sequence, "error", e.why)
		}
		args.EventIds, args.Sequences = append(args.EventIds, e.id), append(args.Sequences, e.sequence)
		args.Topics, args.Keys = append(args.Topics, e.record.Topic), append(args.Keys, string(e.record.Key))
		args.Types, args.Errors = append(args.Types, e.typeName()), append(args.Errors, why)
	}
	return l.sql.RelayPark(ctx, tx, args)
}

// settle does what was asked for about parked events, and lets those go on that are in nobody's way any more.
func (l *leader) settle(ctx context.Context) error {
	keys, err := l.sql.RelayParkedKeys(ctx, l.config.Pool)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if !key.Requested {
			continue
		}
		if err := l.settleKey(ctx, place{key.Topic, key.Key}); err != nil {
			return err
		}
	}
	return nil
}

// settleBatch is how many parked events of a key are looked at at once.
const settleBatch = 500

// settleKey goes through what is parked at a place in order, up to the first event that nobody has asked for, or that Kafka still does
// not take.
func (l *leader) settleKey(ctx context.Context, at place) error {
	for {
		rows, err := l.sql.RelayParkedOf(ctx, l.config.Pool, dbsqlc.RelayParkedOfParams{Topic: at.topic, Key: at.key, AtMost: settleBatch})
		if err != nil {
			return err
		}
		if len(rows) == 0 {
			delete(l.blocked, at)
			return nil
		}
		for _, row := range rows {
			goOn, err := l.settleOne(ctx, row)
			if err != nil || !goOn {
				return err
			}
		}
	}
}

// settleOne settles one event. It returns false if those behind it still have to wait.
func (l *leader) settleOne(ctx context.Context, row dbsqlc.RelayParkedOfRow) (goOn bool, err error) {
	outcome := "published"
	switch {
	case row.Request == "skip":
		outcome = "skipped"
	case row.Request == "" && row.Error != "":
		return false, nil
	default:
		e, err := l.eventOf(ctx, row)
		if err == nil {
			err = e.fault
		}
		if err == nil {
			err = l.publisher.publishAlone(ctx, e)
		}
		var no refused
		if errors.As(err, &no) || err != nil && e.fault != nil {
			return false, l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
				return l.sql.RelayStillParked(ctx, tx, dbsqlc.RelayStillParkedParams{Error: new(err.Error()), EventID: row.EventID})
			})
		}
		if err != nil {
			return false, err
		}
	}
	return true, l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		return l.sql.RelaySettle(ctx, tx, dbsqlc.RelaySettleParams{Outcome: &outcome, EventIds: []string{row.EventID}})
	})
}

// eventOf makes the event of a parked row again, from the journal.
func (l *leader) eventOf(ctx context.Context, row dbsqlc.RelayParkedOfRow) (event, error) {
	records, err := l.config.Journal.Feed().Records(ctx, row.LedgerID, row.Sequence-1, 1)
	if err != nil {
		return event{}, err
	}
	if len(records) == 1 && records[0].Sequence == row.Sequence {
		for _, e := range l.config.Topics.appendEvents(nil, ledger.Name(row.Ledger), records[0]) {
			if e.id == row.EventID {
				return e, nil
			}
		}
	}
	return event{}, fmt.Errorf("the journal has no record %d of ledger %s that event %s was made of", row.Sequence, row.Ledger, row.EventID)
}

// Parked is an event that is not published: Kafka has refused it, or an earlier one of its topic and key.
type Parked struct {
	EventID  string    `json:"event_id"`
	Ledger   string    `json:"ledger"`
	Sequence int64     `json:"sequence"`
	Topic    string    `json:"topic"`
	Key      string    `json:"key"`
	Type     string    `json:"type"`
	ParkedAt time.Time `json:"parked_at"`
	// Error is why; empty for an event that waits behind another one.
	Error string `json:"error,omitempty"`
	// Request is what was asked for, "retry" or "skip", and Reason what was said with it.
	Request string `json:"request,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Outcome is what became of it, "published" or "skipped"; empty while it waits.
	Outcome   string     `json:"outcome,omitempty"`
	SettledAt *time.Time `json:"settled_at,omitempty"`
}

// maxParked is the most events of a list.
const maxParked = 10_000

// ListParked lists the events that wait, by topic and key, in their order; with settled also those that do no more.
func ListParked(ctx context.Context, pool *pgxpool.Pool, settled bool) ([]Parked, error) {
	rows, err := dbsqlc.New().RelayParked(ctx, pool, dbsqlc.RelayParkedParams{Settled: settled, AtMost: maxParked})
	list := make([]Parked, len(rows))
	for i, row := range rows {
		list[i] = Parked{
			EventID: row.EventID, Ledger: row.Ledger, Sequence: row.Sequence, Topic: row.Topic, Key: row.Key, Type: row.Type,
			ParkedAt: row.ParkedAt.UTC(), Error: row.Error, Request: row.Request, Reason: row.Reason, Outcome: row.Outcome, SettledAt: row.SettledAt,
		}
	}
	return list, err
}

// Retry asks the relay to publish parked events again, and what is parked before each at its place; all that wait if none is named. It
// returns how many that is.
func Retry(ctx context.Context, pool *pgxpool.Pool, ids []string) (n int, err error) {
	ids = append([]string{}, ids...) // nil would be NULL, and no list
	return n, request(ctx, pool, ids, func(tx pgx.Tx) (found []string, err error) {
		found, err = dbsqlc.New().RelayRetry(ctx, tx, ids)
		n = len(found)
		return found, err
	})
}

// Skip gives parked events up: they are never published, and what waits behind them is. The reason is kept.
func Skip(ctx context.Context, pool *pgxpool.Pool, ids []string, reason string) error {
	if len(ids) == 0 || reason == "" {
		return errors.New("events to skip have to be named, and a reason given")
	}
	return request(ctx, pool, ids, func(tx pgx.Tx) ([]string, error) {
		return dbsqlc.New().RelaySkip(ctx, tx, dbsqlc.RelaySkipParams{Reason: reason, EventIds: ids})
	})
}

// request asks for something about events, all or none of them.
func request(ctx context.Context, pool *pgxpool.Pool, ids []string, ask func(pgx.Tx) ([]string, error)) error {
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		found, err := ask(tx)
		if err != nil {
			return err
		}
		for _, id := range ids {
			if !slices.Contains(found, id) {
				return fmt.Errorf("event %s is not parked: see khata relay parked", id)
			}
		}
		return nil
	})
}
