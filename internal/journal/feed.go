package journal

import (
	"context"
	"math"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Record is one record of the journal: a decided transfer, or a change of an account.
type Record struct {
	Sequence int64
	// Transfer is nil for a change. Movements are what it did to its accounts, if it was posted.
	Transfer  *ledger.Transfer
	Movements []ledger.Movement
	// Change is nil for a transfer.
	Change *Change
	// Fault is why the record of a transfer cannot be read; then only the id and origin of Transfer are there. The guards of the
	// database let no such record in.
	Fault error
}

// Change is a change of an account, its creation included.
type Change struct {
	// ID is drawn at random when the change is made, and never for another one. Changes from before migration 0011 have none.
	ID string
	// Account is the account as the change left it, and Before as it was; nil if it was created.
	Account ledger.Account
	Before  *ledger.Account
	Caller  string
}

// Unread is a ledger that has records after a number.
type Unread struct {
	LedgerID int32
	Ledger   ledger.Name
	// Since is when the first of them was recorded, by the database's clock.
	Since time.Time
}

// Unread lists the ledgers that have records after these numbers, by ledger; a ledger that is not among them is asked for all of its
// records. It waits for nobody: what is listed may have to wait for the horizon.
func (f *Feed) Unread(ctx context.Context, read map[int32]int64) ([]Unread, error) {
	var args dbsqlc.LedgersAfterParams
	for id, after := range read {
		args.LedgerIds, args.Afters = append(args.LedgerIds, id), append(args.Afters, after)
	}
	var list []Unread
	err := f.journal.read(ctx, "look for new records", func(ctx context.Context) error {
		rows, err := f.journal.sql.LedgersAfter(ctx, f.journal.pool, args)
		list = make([]Unread, len(rows))
		for i, row := range rows {
			list[i] = Unread{row.LedgerID, ledger.Name(row.Name), row.At.UTC()}
		}
		return err
	})
	return list, err
}

// Feed reads the journal as it was decided, record by record. It remembers names of accounts, which never change. It is not safe for
// concurrent use.
type Feed struct {
	journal *Journal
	books   map[int32]*feedBook
}

// feedBook is what a Feed remembers of a ledger.
type feedBook struct {
	names accountNames
	types map[ledger.AccountID]ledger.AccountType
	// horizon is how far the ledger was final when it was last asked.
	horizon int64
}

func newFeedBook() *feedBook {
	return &feedBook{names: accountNames{}, types: map[ledger.AccountID]ledger.AccountType{}}
}

// maxNames bounds how many accounts a feed remembers, some 100 bytes each.
const maxNames = 200_000

// Feed makes one.
func (j *Journal) Feed() *Feed { return &Feed{journal: j, books: map[int32]*feedBook{}} }

// Records reads up to limit records of a ledger after a number, in the order of decision. Read from number to number it gives every
// record exactly once, whatever is posted meanwhile: no record that is not there yet will get a number below the last one returned.
func (f *Feed) Records(ctx context.Context, ledgerID int32, after int64, limit int) ([]Record, error) {
	var records []Record
	err := f.journal.read(ctx, "read the journal", func(ctx context.Context) (err error) {
		records, err = f.records(ctx, ledgerID, after, limit)
		return err
	})
	return records, err
}

func (f *Feed) records(ctx context.Context, ledgerID int32, after int64, limit int) ([]Record, error) {
	book := f.books[ledgerID]
	if book == nil {
		book = newFeedBook()
		f.books[ledgerID] = book
	}
	// Far behind, the horizon of a while ago will do.
	if through := book.horizon; through > after {
		records, err := f.between(ctx, ledgerID, book, after, through, limit)
		if err != nil || len(records) > 0 {
			return records, err
		}
	}
	horizon, err := f.journal.horizon(ctx, ledgerID)
	if err != nil {
		return nil, err
	}
	book.horizon = horizon
	return f.between(ctx, ledgerID, book, after, horizon, limit)
}

// between merges transfers and changes in the order of their numbers.
func (f *Feed) between(ctx context.Context, ledgerID int32, book *feedBook, after, through int64, limit int) ([]Record, error) {
	var rows []dbsqlc.FeedTransfersRow
	var changes []dbsqlc.FeedChangesRow
	j, atMost := f.journal, int32(limit) //nolint:gosec // a few thousand
	b := &pgx.Batch{}
	pg.Ask(b, &rows, dbsqlc.FeedTransfers, ledgerID, after, through, atMost)
	pg.Ask(b, &changes, dbsqlc.FeedChanges, ledgerID, after, through, atMost)
	if err := j.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	// What one of the two has left out may come before what the other one has.
	last := int64(math.MaxInt64)
	if len(rows) == limit {
		last = rows[limit-1].Sequence
	}
	if len(changes) == limit {
		last = min(last, changes[limit-1].Version)
	}
	if len(book.names) > maxNames {
		fresh := newFeedBook()
		book.names, book.types = fresh.names, fresh.types
	}
	transfers := make([]dbsqlc.TransfersByIDRow, len(rows))
	for i, row := range rows {
		transfers[i] = dbsqlc.TransfersByIDRow(row)
	}
	if missing := book.names.missing(transfers); len(missing) > 0 {
		accounts, err := j.sql.AccountIDs(ctx, j.pool, dbsqlc.AccountIDsParams{LedgerID: ledgerID, AccountNos: missing})
		if err != nil {
			return nil, err
		}
		book.remember(accounts)
	}
	records := make([]Record, 0, len(rows)+len(changes))
	for len(transfers) > 0 || len(changes) > 0 {
		var r Record
		if len(changes) == 0 || len(transfers) > 0 && transfers[0].Sequence < changes[0].Version {
			r = book.decided(transfers[0])
			transfers = transfers[1:]
		} else {
			r = Record{Sequence: changes[0].Version, Change: change(changes[0])}
			changes = changes[1:]
		}
		if r.Sequence > last || len(records) == limit {
			break
		}
		records = append(records, r)
	}
	return records, nil
}

func (b *feedBook) decided(row dbsqlc.TransfersByIDRow) Record {
	t, err := b.names.transfer(row)
	if err != nil {
		spec := ledger.TransferSpec{ID: ledger.TransferID(row.TransferID), Terms: &ledger.Terms{Origin: ledger.TransferID(row.Origin)}}
		return Record{Sequence: row.Sequence, Transfer: &ledger.Transfer{TransferSpec: spec, Sequence: row.Sequence}, Fault: err}
	}
	return Record{Sequence: row.Sequence, Transfer: t, Movements: t.Movements(b.typeOf)}
}

func (b *feedBook) typeOf(id ledger.AccountID) ledger.AccountType { return b.types[id] }

func (b *feedBook) remember(accounts []dbsqlc.AccountIDsRow) {
	b.names.add(accounts)
	for _, a := range accounts {
		b.types[ledger.AccountID(a.AccountID)] = ledger.AccountType(a.Type)
	}
}

func change(row dbsqlc.FeedChangesRow) *Change {
	c := &Change{ID: row.ChangeID, Caller: row.ChangedBy, Account: account(dbsqlc.AccountsByIDRow{
		AccountNo: row.AccountNo, AccountID: row.AccountID, Type: row.Type, Currency: row.Currency, Scale: row.Scale, Name: row.Name,
		Metadata: row.Metadata, Floor: row.Floor, Ceiling: row.Ceiling, Serialised: row.Serialised, Frozen: row.Frozen, Closed: row.Closed,
		CreatedAt: row.CreatedAt, Version: row.Version, ChangedAt: row.ChangedAt,
	})}
	if row.BeforeVersion > 0 {
		before := c.Account
		before.Name, before.Metadata, before.Floor, before.Ceiling = row.BeforeName, ledger.Metadata(row.BeforeMetadata), row.BeforeFloor, row.BeforeCeiling
		before.Serialised, before.Frozen, before.Closed = row.BeforeSerialised, ledger.Frozen(row.BeforeFrozen), row.BeforeClosed
		before.Version = row.BeforeVersion
		c.Before = &before
	}
	return c
}

// Since is a number of a ledger after which all lies that was recorded at or after a time, and how many records come before it.
func (f *Feed) Since(ctx context.Context, ledgerID int32, at time.Time) (through, records int64, err error) {
	j := f.journal
	err = j.read(ctx, "look for a time in the journal", func(ctx context.Context) error {
		if through, err = j.sql.LastMarkBefore(ctx, j.pool, dbsqlc.LastMarkBeforeParams{LedgerID: ledgerID, At: at}); err != nil {
			return err
		}
		records, err = j.sql.RecordsThrough(ctx, j.pool, dbsqlc.RecordsThroughParams{LedgerID: ledgerID, Through: through})
		return err
	})
	return through, records, err
}
