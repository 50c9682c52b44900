package journal

import (
	"context"
	"encoding/json"
	"math"
	"regexp"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// MaxLookBack is the most rows that one LookBack looks at.
const MaxLookBack = 10_000

// LookBackSpec says where to look for transfers, and what is looked for.
type LookBackSpec struct {
	// Account restricts it to the entries of an account; "" is all transfers of the ledger, refused ones included.
	Account ledger.AccountID
	// Since and Until bound the time of posting: at or after the one, and before the other. Zero does not.
	Since, Until time.Time
	// Before goes on before a sequence; 0 begins with the newest.
	Before int64
	// Text is looked for in the metadata: a string or number in it, at any depth, that is just this.
	Text string
	// Amount is looked for among the entries; nil is none.
	Amount *decimal.Decimal
	// Look is how many rows are looked at, at most MaxLookBack.
	Look int
}

// Looked is a transfer that was looked at.
type Looked struct {
	Sequence int64
	Transfer ledger.TransferID
	Caller   string
	PostedAt time.Time
	// ByText and ByAmount report whether it has what was looked for.
	ByText, ByAmount bool
}

// LookBack looks at the transfers of a ledger, or at the entries of an account, from the newest on, and returns each that lies within the time: whether
// it is what was looked for or not. So its caller knows how far it has looked. Next is where to go on, 0 at the end. It reads no more rows than it is
// told to, by the indexes by which the books are kept, whatever is looked for. It returns CodeInvalidArgument or CodeAccountNotFound.
//
// What was posted while the clock of the database was set back by more than a tenth of a second may be missed by a time; without one it is found.
func (j *Journal) LookBack(ctx context.Context, name ledger.Name, spec LookBackSpec) (list []Looked, next int64, err error) {
	if spec.Look < 1 || spec.Look > MaxLookBack {
		return nil, 0, ledger.Invalid("look", "is %d, want 1 to %d", spec.Look, MaxLookBack)
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	err = j.read(ctx, "look for transfers", func(ctx context.Context) (err error) {
		list, next, err = j.lookBack(ctx, book.id, spec)
		return err
	})
	return list, next, err
}

func (j *Journal) lookBack(ctx context.Context, ledgerID int32, spec LookBackSpec) ([]Looked, int64, error) {
	after, before, err := j.numbersBetween(ctx, ledgerID, spec.Since, spec.Until)
	if err != nil {
		return nil, 0, err
	}
	if spec.Before > 0 {
		before = min(before, spec.Before)
	}
	args := dbsqlc.LookBackAccountParams{
		LedgerID: ledgerID, After: after, Before: before, Wanted: wanted(spec.Text), Look: int32(spec.Look), //nolint:gosec // at most MaxLookBack
	}
	if spec.Amount != nil {
		args.Amount = *spec.Amount
	}
	var rows []dbsqlc.LookBackAccountRow
	if spec.Account != "" {
		account, err := j.accountRow(ctx, j.pool, ledgerID, spec.Account)
		if err != nil {
			return nil, 0, err
		}
		args.AccountNo = account.AccountNo
		if rows, err = j.sql.LookBackAccount(ctx, j.pool, args); err != nil {
			return nil, 0, err
		}
	} else {
		found, err := j.sql.LookBackLedger(ctx, j.pool, dbsqlc.LookBackLedgerParams{
			LedgerID: ledgerID, After: after, Before: before, Wanted: args.Wanted, Amount: args.Amount, Look: args.Look,
		})
		if err != nil {
			return nil, 0, err
		}
		for _, row := range found {
			rows = append(rows, dbsqlc.LookBackAccountRow(row))
		}
	}
	var next int64
	if len(rows) == spec.Look {
		next = rows[len(rows)-1].Sequence
		// The other legs of the last one have not been looked at: it is looked at again.
		if spec.Account != "" && rows[0].Sequence != next {
			for rows[len(rows)-1].Sequence == next {
				rows = rows[:len(rows)-1]
			}
			next++
		}
	}
	var list []Looked
	for _, row := range rows {
		if row.PostedAt.Before(spec.Since) || !spec.Until.IsZero() && !row.PostedAt.Before(spec.Until) {
			continue
		}
		list = append(list, Looked{
			row.Sequence, ledger.TransferID(row.TransferID), row.Caller, row.PostedAt.UTC(), row.ByText, spec.Amount != nil && row.ByAmount,
		})
	}
	return list, next, nil
}

// writtenNumber is a text that is a number in JSON, too.
var writtenNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,30})(\.[0-9]{1,30})?$`)

// wanted is a text as the statements want it: with the number that it is, if it is one.
func wanted(text string) string {
	if text == "" {
		return ""
	}
	number := any(text)
	if writtenNumber.MatchString(text) {
		number = json.Number(text)
	}
	out, err := json.Marshal(map[string]any{"text": text, "number": number})
	if err != nil { // Both are texts.
		panic(err)
	}
	return string(out)
}

// numbersBetween narrows times down to numbers: what was posted between them lies after the one and before the other. Some that was not may, too.
func (j *Journal) numbersBetween(ctx context.Context, ledgerID int32, since, until time.Time) (after, before int64, err error) {
	before = math.MaxInt64
	if since.IsZero() && until.IsZero() {
		return 0, before, nil
	}
	horizon, err := j.horizon(ctx, ledgerID)
	if err != nil {
		return 0, 0, err
	}
	stretches := func(at time.Time) ([]dbsqlc.StretchesAroundRow, error) {
		return j.sql.StretchesAround(ctx, j.pool, dbsqlc.StretchesAroundParams{LedgerID: ledgerID, At: at.Truncate(time.Microsecond), Horizon: horizon})
	}
	if !since.IsZero() {
		list, err := stretches(since.Add(-time.Microsecond)) // It tells what was posted at or before a time.
		if err != nil {
			return 0, 0, err
		}
		after = list[0].After
	}
	if !until.IsZero() {
		list, err := stretches(until)
		if err != nil {
			return 0, 0, err
		}
		// Beyond the first stretch something can be earlier only where the clock was set back. To look at all of that would be to look at everything
		// since.
		if list[0].Through < horizon {
			before = list[0].Through + 1
		}
	}
	return after, before, nil
}
