package relay

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// EventState is what has become of an event on its way to Kafka.
type EventState string

// The states.
const (
	// NotYet is one that the relay has not come to.
	NotYet EventState = "not_yet"
	// Published is one that Kafka has.
	Published EventState = "published"
	// IsParked is one that Kafka does not take, or that waits behind one; Skipped is one that people have left out.
	IsParked EventState = "parked"
	Skipped  EventState = "skipped"
)

// EventOf is an event about a transfer.
type EventOf struct {
	ID, Type string
	Transfer ledger.TransferID
	// Account is whose movement it is; "" of the event of the transfer itself.
	Account ledger.AccountID
	State   EventState
	// At is when it was parked or settled; zero of one that went its way: when exactly that was is not kept.
	At time.Time
	// Error is why it is parked, and Reason why it was skipped.
	Error, Reason string
}

// maxEventsOf bounds how many events of a story are looked up: a transfer has one for each of its accounts.
const maxEventsOf = 500

// EventsOf tells what has become of the events of transfers of a ledger, up to 500 of them. It tells nothing where no relay has ever been at work.
func EventsOf(ctx context.Context, pool *pgxpool.Pool, name ledger.Name, transfers []*ledger.Transfer) ([]EventOf, error) {
	sql := dbsqlc.New()
	cursors, err := sql.RelayCursorOf(ctx, pool, string(name.Or()))
	if err != nil || len(cursors) == 0 {
		return nil, err
	}
	var list []EventOf
	for _, t := range transfers {
		state := NotYet
		if t.Sequence <= cursors[0].Through {
			state = Published
		}
		for _, e := range eventsOf(name.Or(), t) {
			if e.State = state; len(list) < maxEventsOf {
				list = append(list, e)
			}
		}
	}
	at := map[string]int{}
	ids := make([]string, len(list))
	for i, e := range list {
		at[e.ID], ids[i] = i, e.ID
	}
	parked, err := sql.RelayParkedByID(ctx, pool, ids)
	for _, p := range parked {
		e := &list[at[p.EventID]]
		e.At, e.Error, e.Reason = p.ParkedAt.UTC(), p.Error, p.Reason
		switch p.Outcome {
		case "":
			e.State = IsParked
		case "skipped":
			e.State, e.At = Skipped, p.SettledAt.UTC()
		case "published":
			e.At = p.SettledAt.UTC()
		}
	}
	return list, err
}

// eventsOf are the events that appendEvents makes of a transfer, without what they carry.
func eventsOf(name ledger.Name, t *ledger.Transfer) []EventOf {
	fact := transferFacts[t.Kind()]
	if t.Refusal != nil {
		fact = factRefused
	}
	list := []EventOf{{ID: eventID(name, fact, string(t.ID)), Type: typeName(fact), Transfer: t.ID}}
	if t.Refusal != nil {
		return list
	}
	for _, account := range accountsOf(t) {
		list = append(list, EventOf{
			ID: eventID(name, factMoved, string(t.ID), account), Type: typeName(factMoved), Transfer: t.ID, Account: ledger.AccountID(account),
		})
	}
	return list
}

// EventIDsOf are the ids of the events of a transfer: of the transfer itself, and of the movement of each of its accounts.
func EventIDsOf(name ledger.Name, t *ledger.Transfer) []string {
	var ids []string
	for _, e := range eventsOf(name.Or(), t) {
		ids = append(ids, e.ID)
	}
	return ids
}
