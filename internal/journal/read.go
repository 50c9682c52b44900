package journal

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Transfer returns the record of a decided transfer, and what has become of it since. It returns CodeTransferNotFound.
func (j *Journal) Transfer(ctx context.Context, name ledger.Name, id ledger.TransferID) (*ledger.Transfer, ledger.Progress, error) {
	if err := id.ValidateFormat("transfer_id"); err != nil {
		return nil, ledger.Progress{}, err
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, ledger.Progress{}, err
	}
	var found []Progressed
	err = j.read(ctx, "read the transfer", func(ctx context.Context) (err error) {
		found, err = j.progress(ctx, book.id, []string{string(id)})
		return err
	})
	if err != nil {
		return nil, ledger.Progress{}, err
	}
	if len(found) == 0 {
		return nil, ledger.Progress{}, ledger.Errorf(ledger.CodeTransferNotFound, "ledger %s has no transfer %q", name.Or(), string(id))
	}
	return found[0].Transfer, found[0].Progress, nil
}

// Progressed is a transfer and what has become of it.
type Progressed struct {
	*ledger.Transfer
	Progress ledger.Progress
}

// progress reads the records of ids, as many as there are, and what has become of them.
func (j *Journal) progress(ctx context.Context, ledgerID int32, ids []string) ([]Progressed, error) {
	records, err := j.sql.TransfersByID(ctx, j.pool, dbsqlc.TransfersByIDParams{LedgerID: ledgerID, TransferIds: ids})
	if err != nil {
		return nil, err
	}
	return j.withProgress(ctx, ledgerID, records, ids)
}

// withProgress is progress, of records that have been read.
func (j *Journal) withProgress(ctx context.Context, ledgerID int32, found []dbsqlc.TransfersByIDRow, ids []string) ([]Progressed, error) {
	records, err := j.named(ctx, j.pool, ledgerID, found)
	if err != nil {
		return nil, err
	}
	rows, err := j.sql.StepsOf(ctx, j.pool, dbsqlc.StepsOfParams{LedgerID: ledgerID, Origins: ids})
	if err != nil {
		return nil, err
	}
	converted := make([]dbsqlc.TransfersByIDRow, len(rows))
	for i, row := range rows {
		converted[i] = dbsqlc.TransfersByIDRow(row)
	}
	all, err := j.named(ctx, j.pool, ledgerID, converted)
	if err != nil {
		return nil, err
	}
	steps := map[ledger.TransferID][]*ledger.Transfer{}
	for _, step := range all {
		steps[step.Origin()] = append(steps[step.Origin()], step)
	}
	list := make([]Progressed, len(records))
	for i, t := range records {
		list[i] = Progressed{t, ledger.ProgressOf(t, steps[t.ID])}
	}
	return list, nil
}

// OpenHolds lists up to limit open holds of an account, on either side, that come after a sequence, in the order of decision. It
// returns CodeAccountNotFound.
func (j *Journal) OpenHolds(ctx context.Context, name ledger.Name, id ledger.AccountID, after int64, limit int) (holds []Progressed, more bool, err error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, false, err
	}
	err = j.read(ctx, "list holds", func(ctx context.Context) error {
		row, err := j.accountRow(ctx, j.pool, book.id, id)
		if err != nil {
			return err
		}
		rows, err := j.sql.OpenHolds(ctx, j.pool, dbsqlc.OpenHoldsParams{
			LedgerID: book.id, AccountNo: row.AccountNo, After: after, PageSize: int32(limit) + 1, //nolint:gosec // at most MaxPage+1
		})
		if err != nil {
			return err
		}
		more = len(rows) > limit
		var ids []string
		for _, row := range rows[:min(len(rows), limit)] {
			ids = append(ids, row.TransferID)
		}
		holds, err = j.progress(ctx, book.id, ids)
		slices.SortFunc(holds, func(a, b Progressed) int { return cmp.Compare(a.Sequence, b.Sequence) })
		return err
	})
	return holds, more, err
}

// accountNames translates numbers of accounts to what callers know.
type accountNames map[int64]accountName

type accountName struct {
	id       ledger.AccountID
	currency ledger.Currency
}

// transfers reads the records of ids, as many as there are.
func (j *Journal) transfers(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, ids []string) ([]*ledger.Transfer, error) {
	rows, err := j.sql.TransfersByID(ctx, db, dbsqlc.TransfersByIDParams{LedgerID: ledgerID, TransferIds: ids})
	if err != nil {
		return nil, err
	}
	return j.named(ctx, db, ledgerID, rows)
}

// named makes records of rows.
func (j *Journal) named(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, rows []dbsqlc.TransfersByIDRow) ([]*ledger.Transfer, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	names := accountNames{}
	accounts, err := j.sql.AccountIDs(ctx, db, dbsqlc.AccountIDsParams{LedgerID: ledgerID, AccountNos: names.missing(rows)})
	if err != nil {
		return nil, err
	}
	names.add(accounts)
	return names.transfers(rows)
}

// missing lists the accounts of transfers whose names are not there.
func (names accountNames) missing(rows []dbsqlc.TransfersByIDRow) []int64 {
	var unknown []int64
	for _, row := range rows {
		for _, no := range row.AccountNos {
			if _, ok := names[no]; !ok {
				unknown = append(unknown, no)
			}
		}
	}
	slices.Sort(unknown)
	return slices.Compact(unknown)
}

func (names accountNames) add(accounts []dbsqlc.AccountIDsRow) {
	for _, a := range accounts {
		names[a.AccountNo] = accountName{
			ledger.AccountID(a.AccountID), ledger.Currency{Code: ledger.CurrencyCode(a.Currency), Scale: int32(a.Scale)},
		}
	}
}

func (names accountNames) transfers(rows []dbsqlc.TransfersByIDRow) ([]*ledger.Transfer, error) {
	list := make([]*ledger.Transfer, len(rows))
	for i, row := range rows {
		var err error
		if list[i], err = names.transfer(row); err != nil {
			return nil, err
		}
	}
	return list, nil
}

func (names accountNames) transfer(row dbsqlc.TransfersByIDRow) (*ledger.Transfer, error) {
	t := &ledger.Transfer{
		TransferSpec: ledger.TransferSpec{
			ID: ledger.TransferID(row.TransferID), Description: row.Description, Metadata: ledger.Metadata(row.Metadata),
			Entries: make([]ledger.Entry, len(row.AccountNos)),
		},
		Sequence: row.Sequence, PostedAt: row.PostedAt.UTC(), Caller: row.Caller, Atomic: row.Atomic,
	}
	if row.EffectiveAt != nil {
		at := row.EffectiveAt.UTC()
		t.EffectiveAt = &at
	}
	if row.Refusal != nil {
		t.Refusal = &ledger.Refusal{Reason: ledger.Code(*row.Refusal)}
		if row.RefusedAccountNo != nil {
			t.Refusal.Account = names[*row.RefusedAccountNo].id
		}
	}
	for leg, no := range row.AccountNos {
		t.Entries[leg] = entry(names[no], row.Amounts[leg])
	}
	var err error
	if t.Terms, err = ledger.ReadTerms(ledger.Kind(row.Kind), ledger.TransferID(row.Origin), row.Terms); err != nil {
		return nil, err
	}
	if t.Refusal == nil && t.Kind() != ledger.Plain {
		t.Step = &ledger.Step{Ordinal: int(row.Ordinal), Ends: row.Ends}
		if row.Reserved != nil {
			t.Step.Reserved = *row.Reserved
		}
		if row.Deadline != nil {
			deadline := row.Deadline.UTC()
			t.Step.Deadline = &deadline
		}
	}
	return t, nil
}

// entry turns a signed amount of the database, debits positive, into an entry.
func entry(account accountName, signed decimal.Decimal) ledger.Entry {
	direction := ledger.Debit
	if signed.IsNegative() {
		direction = ledger.Credit
	}
	return ledger.Entry{Account: account.id, Direction: direction, Amount: signed.Abs(), Currency: account.currency}
}

// EntryCursor is a place between two entries of an account. The zero value is the beginning of a listing.
type EntryCursor struct {
	Sequence int64
	Leg      int16
}

// AccountEntry is an entry as its account's listing shows it.
type AccountEntry struct {
	Cursor      EntryCursor
	TransferID  ledger.TransferID
	Direction   ledger.Direction
	Amount      decimal.Decimal
	Balance     decimal.Decimal // after this entry, in the account's normal direction
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
}

// EntryPage is a part of an account's entries.
type EntryPage struct {
	Currency ledger.Currency
	Entries  []AccountEntry
	// More reports whether there are entries after the last one.
	More bool
}

// Entries lists up to limit entries of an account after a cursor, in the order of decision or the newest first. Followed
// from cursor to cursor it gives every entry exactly once, whatever is posted meanwhile; and every entry of a transfer
// that anyone had an answer for when the first page was asked for. It waits for the horizon: without that, a number that
// becomes visible late would fall behind a cursor. It returns CodeAccountNotFound.
func (j *Journal) Entries(ctx context.Context, name ledger.Name, id ledger.AccountID, after EntryCursor, newestFirst bool, limit int) (EntryPage, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return EntryPage{}, err
	}
	var page EntryPage
	err = j.read(ctx, "list entries", func(ctx context.Context) (err error) {
		page, err = j.entries(ctx, book.id, id, after, newestFirst, limit)
		return err
	})
	return page, err
}

func (j *Journal) entries(ctx context.Context, ledgerID int32, id ledger.AccountID, after EntryCursor, newestFirst bool, limit int) (EntryPage, error) {
	row, err := j.accountRow(ctx, j.pool, ledgerID, id)
	if err != nil {
		return EntryPage{}, err
	}
	horizon, err := j.horizon(ctx, ledgerID)
	if err != nil {
		return EntryPage{}, err
	}
	if newestFirst && after == (EntryCursor{}) {
		after = EntryCursor{math.MaxInt64, math.MaxInt16}
	}
	args := dbsqlc.EntriesAscendingParams{
		LedgerID: ledgerID, AccountNo: row.AccountNo, Sequence: after.Sequence, Leg: after.Leg, Horizon: horizon,
		PageSize: int32(limit) + 1, //nolint:gosec // at most MaxPage+1; one more tells whether there is more
	}
	rows, err := j.entryRows(ctx, args, newestFirst)
	if err != nil {
		return EntryPage{}, err
	}
	page := EntryPage{Currency: account(row).Currency, More: len(rows) > limit}
	rows = rows[:min(len(rows), limit)]
	if len(rows) == 0 {
		return page, nil
	}
	// Behind the horizon nothing changes any more, so it does no harm that these are several statements.
	balance, err := j.sql.SumThrough(ctx, j.pool, dbsqlc.SumThroughParams{
		LedgerID: ledgerID, AccountNo: row.AccountNo, Sequence: rows[0].Sequence, Leg: rows[0].Leg,
	})
	if err != nil {
		return EntryPage{}, err
	}
	for i, r := range rows {
		if i > 0 && newestFirst {
			balance = balance.Sub(rows[i-1].Amount)
		} else if i > 0 {
			balance = balance.Add(r.Amount)
		}
		page.Entries = append(page.Entries, accountEntry(r, account(row).Type, balance))
	}
	return page, nil
}

func (j *Journal) entryRows(ctx context.Context, args dbsqlc.EntriesAscendingParams, newestFirst bool) ([]dbsqlc.EntriesAscendingRow, error) {
	if !newestFirst {
		return j.sql.EntriesAscending(ctx, j.pool, args)
	}
	rows, err := j.sql.EntriesDescending(ctx, j.pool, dbsqlc.EntriesDescendingParams(args))
	list := make([]dbsqlc.EntriesAscendingRow, len(rows))
	for i, row := range rows {
		list[i] = dbsqlc.EntriesAscendingRow(row)
	}
	return list, err
}

func accountEntry(row dbsqlc.EntriesAscendingRow, t ledger.AccountType, sum decimal.Decimal) AccountEntry {
	e := entry(accountName{}, row.Amount)
	listed := AccountEntry{
		Cursor:     EntryCursor{row.Sequence, row.Leg},
		TransferID: ledger.TransferID(row.TransferID), Direction: e.Direction, Amount: e.Amount,
		Balance:  t.Signed(ledger.Debit, sum),
		PostedAt: row.PostedAt.UTC(), Description: row.Description,
	}
	if row.EffectiveAt != nil {
		at := row.EffectiveAt.UTC()
		listed.EffectiveAt = &at
	}
	return listed
}
