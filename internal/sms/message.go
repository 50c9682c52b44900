package sms

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
)

// Schema has the tables.
var Schema = pg.ConsumerSchema("sms", "khata consume sms migrate")

// Grants is the SQL that gives a role what the consumer needs, and no more.
func Grants(role string) string {
	role = pg.Quote(role)
	return `GRANT USAGE ON SCHEMA khata_sms TO ` + role + `;
GRANT SELECT, INSERT ON khata_sms.state, khata_sms.covered, khata_sms.recipient, khata_sms.message TO ` + role + `;
GRANT UPDATE (through) ON khata_sms.covered TO ` + role + `;
GRANT UPDATE (name, phone, language, wants, version) ON khata_sms.recipient TO ` + role + `;
GRANT UPDATE (state, attempts, next_attempt_at, lease_until, sent_at, gateway_ref, last_error, fresh_from) ON khata_sms.message TO ` + role + `;
GRANT DELETE ON khata_sms.recipient, khata_sms.message TO ` + role + `;
GRANT SELECT ON khata_sms.version TO ` + role + `;
`
}

// State is where a message is on its way.
type State string

// The states.
const (
	// Queued is one that waits for its first call of the gateway, or for the next.
	Queued State = "queued"
	// Sending is one that a sender has taken. If that one is not heard of until its lease ends, another takes it.
	Sending State = "sending"
	// Sent is one that the gateway has.
	Sent State = "sent"
	// Failed is one that the gateway refuses for good.
	Failed State = "failed"
	// Expired is one that could not be sent while it was of use.
	Expired State = "expired"
)

// Valid reports whether s is one of them.
func (s State) Valid() bool {
	return s == Queued || s == Sending || s == Sent || s == Failed || s == Expired
}

// Entry is a message as it is on record.
type Entry struct {
	EventID       string     `json:"event_id"`
	Ledger        string     `json:"ledger"`
	Account       string     `json:"account"`
	TransferID    string     `json:"transfer_id"`
	Kind          string     `json:"kind"`
	Phone         string     `json:"phone"`
	Language      string     `json:"language"`
	Text          string     `json:"text"`
	EventTime     time.Time  `json:"event_time"`
	CreatedAt     time.Time  `json:"created_at"`
	State         State      `json:"state"`
	Attempts      int        `json:"attempts"`
	NextAttemptAt *time.Time `json:"next_attempt_at,omitempty"`
	SentAt        *time.Time `json:"sent_at,omitempty"`
	GatewayRef    string     `json:"gateway_ref,omitempty"`
	LastError     string     `json:"last_error,omitempty"`
}

// Selection says which messages are meant. An empty field is any.
type Selection struct {
	State           State
	Ledger, Account string
	// Most bounds the list; 0 is 100.
	Most int
}

const (
	defaultMost = 100
	// MaxListed is the most that List returns.
	MaxListed = 10_000
)

// List returns messages, the newest first.
func List(ctx context.Context, pool *pgxpool.Pool, which Selection) ([]Entry, error) {
	most := min(which.Most, MaxListed)
	if most <= 0 {
		most = defaultMost
	}
	var rows []dbsqlc.SMSListRow
	err := pg.InTx(ctx, pool, func(tx pgx.Tx) (err error) {
		// One statement for every selection: which index is of use depends on what is asked for.
		if _, err := tx.Exec(ctx, "SET LOCAL plan_cache_mode = force_custom_plan"); err != nil {
			return err
		}
		rows, err = queries.SMSList(ctx, tx, dbsqlc.SMSListParams{
			State: string(which.State), Account: which.Account, Ledger: which.Ledger, Most: int32(most), //nolint:gosec // at most MaxListed
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the messages: %w", err)
	}
	return entries(rows), nil
}

// Of returns the messages about some events, the oldest first.
func Of(ctx context.Context, pool *pgxpool.Pool, eventIDs []string) ([]Entry, error) {
	found, err := queries.SMSOf(ctx, pool, eventIDs)
	if err != nil {
		return nil, fmt.Errorf("look for messages: %w", err)
	}
	rows := make([]dbsqlc.SMSListRow, len(found))
	for i, row := range found {
		rows[i] = dbsqlc.SMSListRow(row)
	}
	return entries(rows), nil
}

func entries(rows []dbsqlc.SMSListRow) []Entry {
	list := make([]Entry, len(rows))
	for i, row := range rows {
		list[i] = Entry{
			EventID: row.EventID, Ledger: row.Ledger, Account: row.Account, TransferID: row.TransferID, Kind: row.Kind, Phone: row.Phone,
			Language: row.Language, Text: row.Text, EventTime: row.EventTime.UTC(), CreatedAt: row.CreatedAt.UTC(), State: State(row.State),
			Attempts: int(row.Attempts), GatewayRef: row.GatewayRef, LastError: row.LastError,
		}
		if s := list[i].State; s == Queued || s == Sending {
			at := row.NextAttemptAt.UTC()
			list[i].NextAttemptAt = &at
		}
		if row.SentAt != nil {
			at := row.SentAt.UTC()
			list[i].SentAt = &at
		}
	}
	return list
}

// Retry has failed and expired messages tried again, under the same key, and returns how many there were. Their age is counted from now on.
func Retry(ctx context.Context, pool *pgxpool.Pool, eventIDs []string) (int, error) {
	n, err := queries.SMSRetry(ctx, pool, eventIDs)
	if err != nil {
		return 0, fmt.Errorf("have messages tried again: %w", err)
	}
	return int(n), nil
}

// RetryFailed has all failed messages tried again. Expired ones have to be named: few people want to hear of yesterday.
func RetryFailed(ctx context.Context, pool *pgxpool.Pool) (int, error) {
	n, err := queries.SMSRetryFailed(ctx, pool)
	if err != nil {
		return 0, fmt.Errorf("have messages tried again: %w", err)
	}
	return int(n), nil
}
