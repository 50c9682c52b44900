package journal

import (
	"context"
	"errors"
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
	// Fault is why the record of a transfer cannot be read: it may be of a kind that this program does not know yet. Then only the id, the
	// origin and the accounts of Transfer are there.
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

// ErrUnderWay is that a ledger has records after a number that are not final yet: somebody has drawn numbers, and not committed.
var ErrUnderWay = errors.New("numbers were drawn that are not committed yet")

const (
	// gatePatience is how long a Feed waits for those who have drawn numbers. Whoever posts by Khata needs milliseconds.
	gatePatience = 300 * time.Millisecond
	// feedBytes bounds what is read at once, roughly: a transfer can have a thousand entries.
	feedBytes = 8 << 20
)

// Records reads up to limit records of a ledger after a number, in the order of decision; fewer where they are large. Read from number to
// number it gives every record exactly once, whatever is posted meanwhile: no record that is not there yet will get a number below the
// last one returned. It returns ErrUnderWay if there is nothing to return but what others have to finish first.
func (f *Feed) Records(ctx context.Context, ledgerID int32, after int64, limit int) (records []Record, err error) {
	err = f.behindHorizon(ctx, ledgerID, after, func(book *feedBook) (int, error) {
		records, err = f.through(ctx, ledgerID, book, after, limit)
		return len(records), err
	})
	return records, err
}

// behindHorizon has read read what there is after a number, up to the horizon of a book, and perhaps once more up to a newer one. read returns how
// much it has found.
func (f *Feed) behindHorizon(ctx context.Context, ledgerID int32, after int64, read func(*feedBook) (int, error)) error {
	book := f.book(ledgerID)
	// Far behind, the horizon of a while ago will do.
	if book.horizon > after {
		if found, err := read(book); err != nil || found > 0 {
			return err
		}
	}
	patient, cancel := context.WithTimeout(ctx, gatePatience)
	defer cancel()
	horizon, err := f.journal.horizon(patient, ledgerID)
	switch {
	case err == nil:
	case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		return ErrUnderWay
	default:
		return f.journal.public(ctx, "read the journal", err)
	}
	book.horizon = horizon
	_, err = read(book)
	return err
}

// RecordsThrough is Records up to a horizon that the caller has been given by Horizon, and which it does not wait for again. It can return
// records beyond it.
func (f *Feed) RecordsThrough(ctx context.Context, ledgerID int32, after, horizon int64, limit int) ([]Record, error) {
	book := f.book(ledgerID)
	book.horizon = max(book.horizon, horizon)
	return f.through(ctx, ledgerID, book, after, limit)
}

// book is what is remembered of a ledger.
func (f *Feed) book(ledgerID int32) *feedBook {
	book := f.books[ledgerID]
	if book == nil {
		book = newFeedBook()
		f.books[ledgerID] = book
	}
	return book
}

// through reads up to the book's horizon.
func (f *Feed) through(ctx context.Context, ledgerID int32, book *feedBook, after int64, limit int) (records []Record, err error) {
	err = f.journal.read(ctx, "read the journal", func(ctx context.Context) (err error) {
		records, err = f.between(ctx, ledgerID, book, after, book.horizon, limit)
		return err
	})
	return records, err
}

// At reads the records of these numbers of a ledger, as far as they have been read before; in their order.
func (f *Feed) At(ctx context.Context, ledgerID int32, sequences []int64) (records []Record, err error) {
	book := newFeedBook()
	err = f.journal.read(ctx, "read the journal", func(ctx context.Context) error {
		rows, err := f.journal.sql.FeedTransfersAt(ctx, f.journal.pool, dbsqlc.FeedTransfersAtParams{LedgerID: ledgerID, Sequences: sequences})
		if err != nil {
			return err
		}
		transfers := make([]dbsqlc.TransfersByIDRow, len(rows))
		found := map[int64]bool{}
		for i, row := range rows {
			transfers[i] = dbsqlc.TransfersByIDRow(row)
			found[row.Sequence] = true
		}
		var changes []dbsqlc.FeedChangesRow
		for _, sequence := range sequences {
			if found[sequence] {
				continue
			}
			more, err := f.journal.sql.FeedChanges(ctx, f.journal.pool, dbsqlc.FeedChangesParams{
				LedgerID: ledgerID, After: sequence - 1, Through: sequence, AtMost: 1,
			})
			if err != nil {
				return err
			}
			changes = append(changes, more...)
		}
		records, err = f.merge(ctx, ledgerID, book, transfers, changes, math.MaxInt64, len(sequences))
		return err
	})
	return records, err
}

// between merges transfers and changes in the order of their numbers.
func (f *Feed) between(ctx context.Context, ledgerID int32, book *feedBook, after, through int64, limit int) ([]Record, error) {
	var rows []dbsqlc.FeedTransfersRow
	var changes []dbsqlc.FeedChangesRow
	j, atMost := f.journal, int32(limit) //nolint:gosec // a few thousand
	b := &pgx.Batch{}
	pg.Ask(b, &rows, dbsqlc.FeedTransfers, ledgerID, after, through, atMost, int64(feedBytes))
	pg.Ask(b, &changes, dbsqlc.FeedChanges, ledgerID, after, through, atMost)
	if err := j.pool.SendBatch(ctx, b).Close(); err != nil {
		return nil, err
	}
	// What one of the two has left out may come before what the other one has.
	last := int64(math.MaxInt64)
	if n := len(rows); n == limit || n > 0 && int(rows[0].Considered) > n {
		last = rows[n-1].Sequence
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
		transfers[i] = dbsqlc.TransfersByIDRow{
			TransferID: row.TransferID, Sequence: row.Sequence, PostedAt: row.PostedAt, EffectiveAt: row.EffectiveAt, Refusal: row.Refusal,
			RefusedAccountNo: row.RefusedAccountNo, AccountNos: row.AccountNos, Amounts: row.Amounts, Description: row.Description,
			Metadata: row.Metadata, Caller: row.Caller, Kind: row.Kind, Origin: row.Origin, Ordinal: row.Ordinal, Ends: row.Ends,
			Reserved: row.Reserved, Deadline: row.Deadline, Terms: row.Terms, Atomic: row.Atomic,
		}
	}
	return f.merge(ctx, ledgerID, book, transfers, changes, last, limit)
}

// merge makes records of rows through a number, so many at most.
func (f *Feed) merge(ctx context.Context, ledgerID int32, book *feedBook, transfers []dbsqlc.TransfersByIDRow, changes []dbsqlc.FeedChangesRow, last int64, limit int) ([]Record, error) {
	if missing := book.names.missing(transfers); len(missing) > 0 {
		accounts, err := f.journal.sql.AccountIDs(ctx, f.journal.pool, dbsqlc.AccountIDsParams{LedgerID: ledgerID, AccountNos: missing})
		if err != nil {
			return nil, err
		}
		book.remember(accounts)
	}
	records := make([]Record, 0, len(transfers)+len(changes))
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
		for _, no := range row.AccountNos {
			spec.Entries = append(spec.Entries, ledger.Entry{Account: b.names[no].id})
		}
		return Record{Sequence: row.Sequence, Transfer: &ledger.Transfer{TransferSpec: spec, Sequence: row.Sequence, PostedAt: row.PostedAt}, Fault: err}
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

// Since is a number of a ledger after which all lies that was recorded at or after a time; or, if it is higher, one after which there are
// no more than some so many records. It does not take long.
func (f *Feed) Since(ctx context.Context, ledgerID int32, at time.Time, most int) (through int64, err error) {
	const transfersPerMark = 256
	err = f.journal.read(ctx, "look for a time in the journal", func(ctx context.Context) (err error) {
		through, err = f.journal.sql.MarkSince(ctx, f.journal.pool, dbsqlc.MarkSinceParams{
			LedgerID: ledgerID, At: at, Most: int32(min(most/transfersPerMark, math.MaxInt32)), //nolint:gosec // It is bounded.
		})
		return err
	})
	return through, err
}

// Count counts the records of a ledger after a number, through another one. It reads their index, and takes as long as that does.
func (f *Feed) Count(ctx context.Context, ledgerID int32, after, through int64) (int64, error) {
	return f.journal.sql.RecordsBetween(ctx, f.journal.pool, dbsqlc.RecordsBetweenParams{LedgerID: ledgerID, After: after, Through: through})
}
