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

// settle does what was asked for about parked events, and lets those go on that are in nobody's way any more, some at a time. It reports
// whether there is more to do.
func (l *leader) settle(ctx context.Context) (more bool, err error) {
	keys, err := l.sql.RelayParkedKeys(ctx, l.config.Pool)
	if err != nil {
		return false, err
	}
	parked := map[place]bool{}
	for _, key := range keys {
		at := place{key.Topic, key.Key}
		parked[at] = true
		if !key.Due {
			continue
		}
		moreHere, err := l.settleKey(ctx, at)
		if err != nil {
			return false, err
		}
		more = more || moreHere
	}
	for at := range l.blocked {
		if !parked[at] {
			delete(l.blocked, at)
		}
	}
	return more, nil
}

// settleBatch is how many parked events of a key are settled at once.
const settleBatch = 2000

// settleKey settles the first events of a place: one that was refused before and is asked for, or those that only waited behind it. It
// reports whether there may be more.
func (l *leader) settleKey(ctx context.Context, at place) (more bool, err error) {
	rows, err := l.sql.RelayParkedOf(ctx, l.config.Pool, dbsqlc.RelayParkedOfParams{Topic: at.topic, Key: at.key, AtMost: settleBatch})
	if err != nil || len(rows) == 0 {
		return false, err
	}
	switch first := rows[0]; {
	case first.Request == "skip":
		return true, l.settled(ctx, "skipped", first.EventID)
	case first.Error != "" && first.Request == "":
		return false, nil
	case first.Error != "":
		rows = rows[:1]
	default: // Up to the next one that is for people.
		for i, row := range rows {
			if row.Error != "" || row.Request == "skip" {
				rows = rows[:i]
				break
			}
		}
	}
	events, missing, err := l.eventsOf(ctx, at, rows)
	if err != nil {
		return false, err
	}
	if len(events) > 0 {
		var no refused
		err := l.sendParked(ctx, events)
		switch {
		case errors.As(err, &no) && len(events) == 1:
			return false, l.stillParked(ctx, rows[0].EventID, err)
		case errors.As(err, &no): // One of them; they are tried one by one.
			return true, l.stillParkedAll(ctx, rows[:len(events)], err)
		case err != nil:
			return false, err
		}
		var ids []string
		for _, row := range rows[:len(events)] {
			ids = append(ids, row.EventID)
		}
		if err := l.settled(ctx, "published", ids...); err != nil {
			return false, err
		}
		l.config.Metrics.sent(len(events))
	}
	if missing != nil {
		return false, l.stillParked(ctx, rows[len(events)].EventID, missing)
	}
	return true, nil
}

func (l *leader) sendParked(ctx context.Context, events []event) error {
	if len(events) == 1 {
		return l.publisher.publishAlone(ctx, events[0])
	}
	return l.publisher.publish(ctx, events)
}

func (l *leader) settled(ctx context.Context, outcome string, ids ...string) error {
	return l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		return l.sql.RelaySettle(ctx, tx, dbsqlc.RelaySettleParams{Outcome: &outcome, EventIds: ids})
	})
}

func (l *leader) stillParked(ctx context.Context, id string, why error) error {
	text := why.Error()
	return l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		return l.sql.RelayStillParked(ctx, tx, dbsqlc.RelayStillParkedParams{Error: &text, EventID: id})
	})
}

// stillParkedAll makes events that were refused together ones that are tried alone.
func (l *leader) stillParkedAll(ctx context.Context, rows []dbsqlc.RelayParkedOfRow, why error) error {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.EventID
	}
	return l.inTerm(ctx, l.term, func(tx pgx.Tx) error {
		return l.sql.RelayTryAlone(ctx, tx, dbsqlc.RelayTryAloneParams{Error: "refused together with others: " + why.Error(), EventIds: ids})
	})
}

// eventsOf makes the events of parked rows again, from the journal, as far as that goes: missing is why not of the next one. What is
// found is what belongs to the place: of a record that could not be read before, the fact may be another one than was thought.
func (l *leader) eventsOf(ctx context.Context, at place, rows []dbsqlc.RelayParkedOfRow) (events []event, missing, err error) {
	sequences := make([]int64, len(rows))
	for i, row := range rows {
		sequences[i] = row.Sequence
	}
	records, err := l.config.Journal.Feed().At(ctx, rows[0].LedgerID, sequences)
	if err != nil {
		return nil, nil, err
	}
	found := map[int64]event{}
	for _, r := range records {
		for _, e := range l.config.Topics.appendEvents(nil, ledger.Name(rows[0].Ledger), r) {
			if e.place() == at {
				found[r.Sequence] = e
			}
		}
	}
	for _, row := range rows {
		e, ok := found[row.Sequence]
		switch {
		case !ok:
			return events, fmt.Errorf("the journal has no record %d of ledger %s that makes an event with key %s for topic %s", row.Sequence, row.Ledger, at.key, at.topic), nil
		case e.fault != nil:
			return events, e.fault, nil
		}
		events = append(events, e)
	}
	return events, nil, nil
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
	// Outcome is what became of it, "published", "skipped" or "rewound"; empty while it waits.
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
