package journal

import (
	"context"
	"math"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// PeriodTransfer is a posted transfer of a period that moves money.
type PeriodTransfer struct {
	// Day counts the days given, from 0.
	Day      int
	Transfer *ledger.Transfer
	// Amounts are those of its entries, in their order, a debit positive, as the table of entries has them. In books that nobody has tampered with
	// they are the transfer's own; where one is missing, there are fewer.
	Amounts []decimal.Decimal
	// TypeOf tells the type of an account of the transfer.
	TypeOf func(ledger.AccountID) ledger.AccountType
}

// Transfers gives the transfers of the period, by day and in a day by sequence. Days are as for Entries. An error of yield ends it and is returned.
func (p *Period) Transfers(ctx context.Context, days []time.Time, yield func(PeriodTransfer) error) error {
	book := newFeedBook()
	var waiting []dbsqlc.PeriodTransfersRow
	flush := func() error {
		rows := make([]dbsqlc.TransfersByIDRow, len(waiting))
		for i, row := range waiting {
			rows[i] = dbsqlc.TransfersByIDRow{
				TransferID: row.TransferID, Sequence: row.Sequence, PostedAt: row.PostedAt, EffectiveAt: row.EffectiveAt, AccountNos: row.AccountNos,
				Amounts: row.Amounts, Description: row.Description, Metadata: row.Metadata, Caller: row.Caller, Kind: row.Kind, Origin: row.Origin,
				Ordinal: row.Ordinal, Ends: row.Ends, Reserved: row.Reserved, Deadline: row.Deadline, Terms: row.Terms, Atomic: row.Atomic,
			}
		}
		if len(book.names) > maxNames {
			book = newFeedBook()
		}
		if err := p.learn(ctx, book, rows); err != nil {
			return err
		}
		transfers, err := book.names.transfers(rows)
		if err != nil {
			return p.journal.public(ctx, "read the transfers of a period", err)
		}
		for i, row := range waiting {
			if err := yield(PeriodTransfer{int(row.Day) - 1, transfers[i], row.Entries, book.typeOf}); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	sql, args := dbsqlc.PeriodTransfers, []any{p.opening.at, p.closing.at, p.spec.ByValueDate, days, p.book, p.lowest(), p.highest()}
	err := stream(ctx, p, "read the transfers of a period", sql, args, func(row dbsqlc.PeriodTransfersRow) error {
		waiting = append(waiting, row)
		if len(waiting) < accountsPerPage {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

// learn looks up the accounts of transfers that the book does not know.
func (p *Period) learn(ctx context.Context, book *feedBook, rows []dbsqlc.TransfersByIDRow) error {
	missing := book.names.missing(rows)
	if len(missing) == 0 {
		return nil
	}
	return p.read(ctx, "read the names of accounts", func(ctx context.Context) error {
		accounts, err := p.journal.sql.AccountIDs(ctx, p.journal.pool, dbsqlc.AccountIDsParams{LedgerID: p.book, AccountNos: missing})
		book.remember(accounts)
		return err
	})
}

// lowest and highest bound the numbers that may be in the period: after the one, through the other. A value date can lie anywhere.
func (p *Period) lowest() int64 {
	if list := p.listed(); !p.spec.ByValueDate && len(list) > 0 {
		return list[0].after
	}
	return p.spec.Since
}

func (p *Period) highest() int64 {
	if p.spec.ByValueDate {
		return p.horizon
	}
	if list := p.listed(); len(list) > 0 {
		return list[len(list)-1].through
	}
	return p.spec.Since
}

// Activity is how many transfers of one kind, and with one outcome, were decided in a day.
type Activity struct {
	Day     int
	Kind    ledger.Kind
	Refusal ledger.Code // "" for those posted
	// Transfers is how many there were, Entries how many entries these made.
	Transfers, Entries int64
}

// Activity counts what was decided in the period, day by day, by posting time whatever the period goes by.
func (p *Period) Activity(ctx context.Context, days []time.Time, yield func(Activity) error) error {
	after, through := p.spec.Since, p.spec.Since
	if list := p.listed(); len(list) > 0 {
		after, through = list[0].after, list[len(list)-1].through
	}
	sql, args := dbsqlc.PeriodActivity, []any{p.opening.at, p.closing.at, days, p.book, after, through}
	return stream(ctx, p, "count what was decided", sql, args, func(row dbsqlc.PeriodActivityRow) error {
		return yield(Activity{int(row.Day) - 1, kindOf(row.Kind), ledger.Code(row.Refusal), row.Transfers, row.Entries})
	})
}

// AccountItem is an entry of an account, as one looks back at them.
type AccountItem struct {
	Sequence    int64
	Leg         int
	Amount      decimal.Decimal
	TransferID  ledger.TransferID
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
}

// Newest gives the entries of an account, from whenever, up to the horizon, the newest first, until yield says that it has enough.
func (p *Period) Newest(ctx context.Context, account *PeriodAccount, yield func(AccountItem) (more bool, err error)) error {
	args := dbsqlc.NewestEntriesParams{
		LedgerID: p.book, AccountNo: account.no, Horizon: p.horizon, Sequence: math.MaxInt64, Leg: math.MaxInt16, PageSize: accountsPerPage,
	}
	for {
		var rows []dbsqlc.NewestEntriesRow
		err := p.read(ctx, "read the newest entries", func(ctx context.Context) (err error) {
			rows, err = p.journal.sql.NewestEntries(ctx, p.journal.pool, args)
			return err
		})
		if err != nil {
			return err
		}
		for _, row := range rows {
			args.Sequence, args.Leg = row.Sequence, row.Leg
			item := AccountItem{
				row.Sequence, int(row.Leg), row.Amount, ledger.TransferID(row.TransferID), row.PostedAt.UTC(), row.EffectiveAt, row.Description,
			}
			if more, err := yield(item); err != nil || !more {
				return err
			}
		}
		if len(rows) < accountsPerPage {
			return nil
		}
	}
}
