package relay

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Status is who publishes a journal, and how far.
type Status struct {
	// Holder has the lease, in its term, until LeaseLeft has passed; 0 is that nobody has it.
	Holder    string        `json:"holder"`
	Term      int64         `json:"term"`
	LeaseLeft time.Duration `json:"lease_left_ns"`
	// Cluster and Prefix are what the cursors belong to; empty before anything was published.
	Cluster string         `json:"cluster"`
	Prefix  string         `json:"prefix"`
	Ledgers []LedgerStatus `json:"ledgers"`
	// Parked is how many events wait for somebody to look at them.
	Parked int64 `json:"parked"`
}

// LedgerStatus is how far a ledger is published.
type LedgerStatus struct {
	Ledger  string `json:"ledger"`
	Through int64  `json:"through"`
	Records int64  `json:"records"`
	// Oldest is when the first record was made that is not published; nil if all are.
	Oldest *time.Time `json:"oldest_unpublished,omitempty"`
}

// StatusOf reads the status of a database.
func StatusOf(ctx context.Context, j *journal.Journal, pool *pgxpool.Pool) (s Status, err error) {
	sql := dbsqlc.New()
	state, err := sql.RelayState(ctx, pool)
	if err != nil {
		return Status{}, err
	}
	s = Status{Holder: state.Holder, Term: state.Term, LeaseLeft: time.Duration(state.SecondsLeft * float64(time.Second))}
	if state.Cluster != nil && state.Prefix != nil {
		s.Cluster, s.Prefix = *state.Cluster, *state.Prefix
	}
	if s.Parked, err = sql.RelayWaiting(ctx, pool); err != nil {
		return Status{}, err
	}
	rows, err := sql.RelayCursors(ctx, pool)
	if err != nil {
		return Status{}, err
	}
	read, at := cursor{}, map[int32]int{}
	for _, row := range rows {
		at[row.LedgerID] = len(s.Ledgers)
		read[row.LedgerID] = row.Through
		s.Ledgers = append(s.Ledgers, LedgerStatus{Ledger: row.Name, Through: row.Through, Records: row.Records})
	}
	unread, err := j.Feed().Unread(ctx, read)
	for _, u := range unread {
		i, ok := at[u.LedgerID]
		if !ok {
			i = len(s.Ledgers)
			s.Ledgers = append(s.Ledgers, LedgerStatus{Ledger: string(u.Ledger)})
		}
		s.Ledgers[i].Oldest = &u.Since
	}
	return s, err
}

// Rewind has records published again: those recorded at or after a time and some before, of one ledger or, with an empty name, of all;
// with a zero time all of them. Consumers absorb what they have had. A relay that is at work loses its lease and begins anew. If all
// ledgers are rewound, the cursors belong to no cluster until a relay has begun.
func Rewind(ctx context.Context, j *journal.Journal, pool *pgxpool.Pool, name ledger.Name, since time.Time) error {
	feed, sql := j.Feed(), dbsqlc.New()
	// All of them: a cursor that nobody has is at the beginning.
	all, err := feed.Unread(ctx, nil)
	if err != nil {
		return err
	}
	var places []dbsqlc.RelayPlaceParams
	for _, u := range all {
		if name != "" && u.Ledger != name {
			continue
		}
		to := dbsqlc.RelayPlaceParams{LedgerID: u.LedgerID}
		if !since.IsZero() {
			if to.Through, to.Records, err = feed.Since(ctx, u.LedgerID, since); err != nil {
				return err
			}
		}
		places = append(places, to)
	}
	if name != "" && len(places) == 0 {
		return fmt.Errorf("ledger %q does not exist, or has no records", string(name))
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := sql.RelayExclude(ctx, tx); err != nil {
			return err
		}
		rows, err := sql.RelayCursors(ctx, tx)
		if err != nil {
			return err
		}
		published := cursor{}
		for _, row := range rows {
			published[row.LedgerID] = row.Through
		}
		for _, to := range places {
			if to.Through > published[to.LedgerID] && published[to.LedgerID] > 0 {
				continue // It is behind that time already.
			}
			if err := sql.RelayPlace(ctx, tx, to); err != nil {
				return err
			}
		}
		if name == "" {
			return sql.RelayUnbind(ctx, tx)
		}
		return nil
	})
}
