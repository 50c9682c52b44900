package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// tryBatch decides well-formed requests in one transaction. On an error nothing is known to have been written, and the
// same batch can be tried again.
func (j *Journal) tryBatch(ctx context.Context, book ledgerRow, caller string, specs []ledger.TransferSpec) ([]PostResult, error) {
	var results []PostResult
	err := pg.InTx(ctx, j.pool, func(tx pgx.Tx) error {
		// First of all, and a statement of its own: what it protects must be read by later ones.
		if err := j.sql.GateShare(ctx, tx, book.id); err != nil {
			return fmt.Errorf("take the gate: %w", err)
		}
		accountIDs, transferIDs := named(specs)
		books, numbers, err := j.lockAndLoad(ctx, tx, book.id, accountIDs, transferIDs)
		if err != nil {
			return err
		}
		results = make([]PostResult, len(specs))
		for i, spec := range specs {
			results[i].Transfer, results[i].Replayed, results[i].Err = books.Decide(spec, caller)
		}
		if len(books.Decided()) == 0 {
			return j.sql.WaitForStandby(ctx, tx)
		}
		return j.insert(ctx, tx, book.id, numbers, books.Decided())
	})
	// Here the transaction has been committed: what is in the results is durable.
	return results, err
}

// named lists the accounts and ids that requests name, each once.
func named(specs []ledger.TransferSpec) (accountIDs, transferIDs []string) {
	accounts, transfers := map[string]bool{}, map[string]bool{}
	for _, spec := range specs {
		transfers[string(spec.ID)] = true
		for _, e := range spec.Entries {
			accounts[string(e.Account)] = true
		}
	}
	return slices.Sorted(maps.Keys(accounts)), slices.Sorted(maps.Keys(transfers))
}

// lockAndLoad locks the serialised accounts and then reads what deciding needs. An account can come into being between the
// two, with a floor, and another server may hold its lock; it is read and not locked, and so everything is done again. What
// is locked by then stays locked, so this may be out of order, and the deadlock that it may cause is retried.
func (j *Journal) lockAndLoad(ctx context.Context, tx pgx.Tx, ledgerID int32, accountIDs, transferIDs []string) (*ledger.Books, accountNumbers, error) {
	for {
		nos, err := j.sql.AccountsLockSerialised(ctx, tx, dbsqlc.AccountsLockSerialisedParams{LedgerID: ledgerID, AccountIds: accountIDs})
		if err != nil {
			return nil, nil, fmt.Errorf("lock accounts: %w", err)
		}
		locked := make(map[int64]bool, len(nos))
		for _, no := range nos {
			locked[no] = true
		}
		books, numbers, unlocked, err := j.loadBooks(ctx, tx, ledgerID, accountIDs, transferIDs, locked)
		if err != nil || !unlocked {
			return books, numbers, err
		}
	}
}

// accountNumbers translates ids of accounts to their numbers in the database.
type accountNumbers map[ledger.AccountID]int64

// loadBooks reads what deciding needs. With the locks held it stays true until the commit; only ids can still be taken by
// others, which the INSERT finds out. It reports whether it met a serialised account that is not locked.
func (j *Journal) loadBooks(ctx context.Context, tx pgx.Tx, ledgerID int32, accountIDs, transferIDs []string, locked map[int64]bool) (_ *ledger.Books, _ accountNumbers, unlocked bool, _ error) {
	accounts, err := j.sql.AccountsForPosting(ctx, tx, dbsqlc.AccountsForPostingParams{LedgerID: ledgerID, AccountIds: accountIDs})
	if err != nil {
		return nil, nil, false, fmt.Errorf("read accounts: %w", err)
	}
	books, numbers := ledger.NewBooks(), accountNumbers{}
	names := accountNames{}
	for _, row := range accounts {
		a := ledger.Account{
			ID: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type),
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
			Floor:    row.Floor, Serialised: row.Serialised, Frozen: ledger.Frozen(row.Frozen), Closed: row.Closed,
		}
		books.AddAccount(a, a.Type.Signed(ledger.Debit, row.Sum))
		numbers[a.ID] = row.AccountNo
		unlocked = unlocked || a.Serialised && !locked[row.AccountNo]
		names[row.AccountNo] = accountName{a.ID, a.Currency}
	}
	existing, err := j.transfers(ctx, tx, ledgerID, transferIDs, names)
	if err != nil {
		return nil, nil, false, err
	}
	for _, t := range existing {
		books.AddTransfer(t)
	}
	return books, numbers, unlocked, nil
}

// insert writes new records and gives each its sequence and time.
func (j *Journal) insert(ctx context.Context, tx pgx.Tx, ledgerID int32, numbers accountNumbers, records []*ledger.Transfer) error {
	args := dbsqlc.TransferInsertParams{LedgerID: ledgerID}
	for _, t := range records {
		args.TransferIds = append(args.TransferIds, string(t.ID))
		args.EffectiveAts = append(args.EffectiveAts, timestamp(t.EffectiveAt))
		var reason string
		var account int64
		if t.Refusal != nil {
			reason, account = string(t.Refusal.Reason), numbers[t.Refusal.Account]
		}
		args.Refusals = append(args.Refusals, reason)
		args.RefusedAccountNos = append(args.RefusedAccountNos, account)
		accountNos, amounts := arrays(t.Entries, numbers)
		args.AccountNos = append(args.AccountNos, accountNos)
		args.Amounts = append(args.Amounts, amounts)
		args.Descriptions = append(args.Descriptions, t.Description)
		args.Metadatas = append(args.Metadatas, string(t.Metadata))
		args.Callers = append(args.Callers, t.Caller)
	}
	rows, err := j.sql.TransferInsert(ctx, tx, args)
	if err != nil {
		return fmt.Errorf("insert transfers: %w", err)
	}
	byID := make(map[ledger.TransferID]*ledger.Transfer, len(records))
	for _, t := range records {
		byID[t.ID] = t
	}
	for _, row := range rows {
		t := byID[ledger.TransferID(row.TransferID)]
		t.Sequence, t.PostedAt = row.Sequence, row.PostedAt.UTC()
	}
	return nil
}

// arrays writes entries as array literals of PostgreSQL's: arrays of arrays would all have to have the same length.
// A debit is positive, a credit negative.
func arrays(entries []ledger.Entry, numbers accountNumbers) (accountNos, amounts string) {
	var nos, sums strings.Builder
	for i, e := range entries {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		nos.WriteByte(separator)
		sums.WriteByte(separator)
		nos.WriteString(strconv.FormatInt(numbers[e.Account], 10))
		if e.Direction == ledger.Credit {
			sums.WriteByte('-')
		}
		sums.WriteString(e.Amount.String())
	}
	nos.WriteByte('}')
	sums.WriteByte('}')
	return nos.String(), sums.String()
}

func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999Z")
}
