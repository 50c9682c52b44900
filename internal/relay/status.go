package relay

import (
	"context"
	"fmt"
	"math"
	"slices"
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

// Back is how far to rewind.
type Back struct {
	// Ledger is one ledger; empty is all of them.
	Ledger ledger.Name
	// Since is from when on records are published again, and some before; zero is from the beginning.
	Since time.Time
	// Most bounds how many records that are, roughly; 0 does not.
	Most int
}

// Rewind has records published again. Consumers absorb what they have had. A relay that is at work loses its lease and begins anew. What
// is parked behind the place is settled: it is published again like the rest. If all ledgers are rewound, the cursors belong to no cluster
// until a relay has begun.
//
// A ledger that was never published begins at the place too, if no ledger was; otherwise it is new, and begins at its beginning.
func Rewind(ctx context.Context, j *journal.Journal, pool *pgxpool.Pool, back Back) error {
	feed, sql := j.Feed(), dbsqlc.New()
	all, err := feed.Unread(ctx, nil) // All that have any records.
	if err != nil {
		return err
	}
	if back.Ledger != "" {
		all = slices.DeleteFunc(all, func(u journal.Unread) bool { return u.Ledger != back.Ledger })
		if len(all) == 0 {
			return fmt.Errorf("ledger %q does not exist, or has no records", string(back.Ledger))
		}
	}
	return pg.InTx(ctx, pool, func(tx pgx.Tx) error {
		if _, err := sql.RelayExclude(ctx, tx); err != nil {
			return err
		}
		rows, err := sql.RelayCursors(ctx, tx)
		if err != nil {
			return err
		}
		for _, u := range all {
			to, err := placeOf(ctx, feed, rows, u.LedgerID, back)
			if err != nil {
				return err
			}
			if to == nil {
				continue
			}
			if err := sql.RelayPlace(ctx, tx, *to); err != nil {
				return err
			}
			if err := sql.RelayRewound(ctx, tx, dbsqlc.RelayRewoundParams{LedgerID: u.LedgerID, Through: to.Through}); err != nil {
				return err
			}
		}
		if back.Ledger == "" {
			return sql.RelayUnbind(ctx, tx)
		}
		return nil
	})
}

// placeOf is where the cursor of a ledger goes; nil is that it stays.
func placeOf(ctx context.Context, feed *journal.Feed, cursors []dbsqlc.RelayCursorsRow, ledgerID int32, back Back) (*dbsqlc.RelayPlaceParams, error) {
	to := &dbsqlc.RelayPlaceParams{LedgerID: ledgerID}
	if back.Since.IsZero() && back.Most == 0 {
		return to, nil
	}
	most := back.Most
	if most == 0 {
		most = math.MaxInt32
	}
	var err error
	if to.Through, err = feed.Since(ctx, ledgerID, back.Since, most); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(cursors, func(c dbsqlc.RelayCursorsRow) bool { return c.LedgerID == ledgerID })
	switch {
	case i < 0 && len(cursors) > 0: // It is new.
		return nil, nil
	case i < 0:
		to.Records, err = feed.Count(ctx, ledgerID, 0, to.Through)
	case cursors[i].Through <= to.Through:
		return nil, nil // It is behind that time already.
	default: // What is between is counted, which is less than all.
		var between int64
		between, err = feed.Count(ctx, ledgerID, to.Through, cursors[i].Through)
		to.Records = cursors[i].Records - between
	}
	return to, err
}
