package inbox

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Reason is why an event had no effect.
type Reason string

// The reasons.
const (
	// Failed: its handler failed, or panicked, as often as it may.
	Failed Reason = "failed"
	// Poisoned: its handler returned Poison.
	Poisoned Reason = "poison"
	// Malformed: the record is no CloudEvent. Its Time is zero, and its ID may be one that was made for it.
	Malformed Reason = "malformed"
	// Future: it was recorded more than a day ahead of the database's clock, so one of the two clocks is wrong.
	Future Reason = "future"
	// OtherSource: its id is that of an event of another source. Whether it is the same event, from a producer that changed its name, is for a
	// person to say.
	OtherSource Reason = "other_source"
	// Behind: with KeepOrder, an event of its key before it waits. It goes on by itself when that is settled.
	Behind Reason = "behind"
	// TooOld: it is older than the inbox remembers, so it may have had its effect. This is the quarantine; all others are dead letters.
	TooOld Reason = "too_old"
)

// State is what has become of a letter.
type State string

// The states. A letter goes from open to requested, and from there to replayed, or back to open if its handler fails again.
const (
	Open      State = "open"
	Requested State = "requested"
	Replayed  State = "replayed"
	Discarded State = "discarded"
)

// Letter is an event that had no effect when it came.
type Letter struct {
	// Number orders the letters; those of one partition as their events were.
	Number   int64
	Consumer string
	Event    Event
	Reason   Reason
	State    State
	// Error is what was wrong, as text.
	Error string
	// Attempts is how often the handler has tried, replays included.
	Attempts   int
	RecordedAt time.Time
	// RequestedAt is when it was asked for last, and SettledAt when it was replayed or discarded. Both can be zero.
	RequestedAt, SettledAt time.Time
	// Note is why it was discarded.
	Note string
}

// Selection says which letters. The zero value of a field selects all, but Schema, of which there is always one.
type Selection struct {
	// Schema is where the tables are. Empty: DefaultSchema.
	Schema   string
	Consumer string
	EventIDs []string
	Reasons  []Reason
	States   []State
	// After selects the letters with higher numbers, and Limit how many at most, to read them in pages.
	After int64
	Limit int
}

const selected = ` WHERE number > $1 AND ($2 = '' OR consumer = $2) AND (coalesce(cardinality($3::text[]), 0) = 0 OR event_id = ANY ($3))
	AND (coalesce(cardinality($4::text[]), 0) = 0 OR reason = ANY ($4)) AND (coalesce(cardinality($5::text[]), 0) = 0 OR state = ANY ($5))`

func (s Selection) args() []any { return []any{s.After, s.Consumer, s.EventIDs, s.Reasons, s.States} }

const letterColumns = `number, consumer, event_id, reason, state, error, attempts, topic, partition, "offset", key, value, header_keys, header_values,
	recorded_at, requested_at, settled_at, note`

func scanLetter(row pgx.CollectableRow) (Letter, error) {
	var l Letter
	var r kgo.Record
	var names, values [][]byte
	var id string
	var requested, settled *time.Time
	err := row.Scan(&l.Number, &l.Consumer, &id, &l.Reason, &l.State, &l.Error, &l.Attempts, &r.Topic, &r.Partition, &r.Offset, &r.Key, &r.Value,
		&names, &values, &l.RecordedAt, &requested, &settled, &l.Note)
	if err != nil {
		return l, err
	}
	for i, name := range names {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: string(name), Value: values[i]})
	}
	l.Event = read(&r).Event
	l.Event.ID = id
	if requested != nil {
		l.RequestedAt = *requested
	}
	if settled != nil {
		l.SettledAt = *settled
	}
	return l, nil
}

// Letters lists dead letters and quarantined events, in the order of their numbers.
func Letters(ctx context.Context, pool *pgxpool.Pool, which Selection) ([]Letter, error) {
	sql, err := which.sql(`SELECT ` + letterColumns + ` FROM {schema}.letter` + selected + ` ORDER BY number LIMIT nullif($6, 0)`)
	if err != nil {
		return nil, err
	}
	rows, err := pool.Query(ctx, sql, append(which.args(), which.Limit)...)
	if err != nil {
		return nil, fmt.Errorf("list the letters: %w", err)
	}
	list, err := pgx.CollectRows(rows, scanLetter)
	if err != nil {
		return nil, fmt.Errorf("list the letters: %w", err)
	}
	return list, nil
}

// RequestReplay asks for letters to be handled again, and returns how many of them were open; the others are asked for or settled already. The
// running Inbox of their consumer does it, each once, in the order of their key. If the handler fails again the letter is open again. Events
// that are too old are only asked for if Reasons names TooOld: they may have had their effect.
func RequestReplay(ctx context.Context, pool *pgxpool.Pool, which Selection) (int, error) {
	return which.update(ctx, pool, "ask for letters", `UPDATE {schema}.letter SET state = 'requested', requested_at = clock_timestamp()`+selected+
		` AND state = 'open' AND (reason <> 'too_old' OR 'too_old' = ANY ($4))`)
}

// Discard lays letters aside for good, with the reason, and returns how many of them were not settled yet. Their events will have no effect. The
// rows stay.
func Discard(ctx context.Context, pool *pgxpool.Pool, which Selection, reason string) (int, error) {
	if reason == "" || !isText(reason) {
		return 0, errors.New("discard letters: a reason is needed, for those who will ask")
	}
	return which.update(ctx, pool, "discard letters", `UPDATE {schema}.letter SET state = 'discarded', settled_at = clock_timestamp(), note = $6`+selected+
		` AND state IN ('open', 'requested')`, reason)
}

func (s Selection) update(ctx context.Context, pool *pgxpool.Pool, what, sql string, more ...any) (int, error) {
	switch {
	case s.Consumer == "":
		return 0, fmt.Errorf("%s: Selection.Consumer is missing", what)
	case s.Limit != 0:
		return 0, fmt.Errorf("%s: Selection.Limit is for lists only", what)
	}
	sql, err := s.sql(sql)
	if err != nil {
		return 0, err
	}
	tag, err := pool.Exec(ctx, sql, append(s.args(), more...)...)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", what, err)
	}
	return int(tag.RowsAffected()), nil
}

func (s Selection) sql(text string) (string, error) {
	schema := s.Schema
	or(&schema, DefaultSchema)
	return inSchema(schema, text), validSchema(schema)
}

// queueLetter writes a letter, unless there is one.
func (b *Inbox) queueLetter(batch *pgx.Batch, d delivery, reason Reason, text string, attempts int) {
	names, values := make([][]byte, len(d.Headers)), make([][]byte, len(d.Headers))
	for i, h := range d.Headers {
		names[i], values[i] = []byte(h.Key), h.Value
	}
	var when *time.Time
	if !d.Time.IsZero() {
		when = &d.Time
	}
	batch.Queue(b.sql(`INSERT INTO {schema}.letter (consumer, event_id, source_hash, reason, error, attempts, source, type, event_time,
			topic, partition, "offset", key, value, header_keys, header_values)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16) ON CONFLICT ON CONSTRAINT letter_once DO NOTHING`),
		b.config.Consumer, d.ID, hash(d.Source), reason, toText(text), attempts, toText(d.Source), toText(d.Type), when,
		d.Topic, d.Partition, d.Offset, d.Key, d.Data, names, values)
}
