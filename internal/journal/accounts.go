package journal

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// MaxAccountsPerCall is the most accounts of one CreateAccounts, and the most balances of one Balances.
	MaxAccountsPerCall = 10_000
	// MaxPage is the most rows of a page, and the default.
	MaxPage = 1000
)

// CreatedAccount is the answer to a request for an account.
type CreatedAccount struct {
	// Account is the account as it is now, which for a repeated request may not be as it was created.
	Account ledger.Account
	// Created reports whether this call made it.
	Created bool
}

// CreateAccounts makes accounts, all or none, and returns them in the order of the requests. A repeated request is no
// error. It returns CodeInvalidArgument, CodeCurrencyNotFound or CodeAmountScale, and CodeAlreadyExists where an id is
// taken by an account that was created otherwise, naming the fields that differ.
func (j *Journal) CreateAccounts(ctx context.Context, caller string, name ledger.Name, specs []ledger.AccountSpec) ([]CreatedAccount, error) {
	if len(specs) == 0 || len(specs) > MaxAccountsPerCall {
		return nil, ledger.Invalid("accounts", "has %d accounts, want 1 to %d", len(specs), MaxAccountsPerCall)
	}
	for i, spec := range specs {
		if err := spec.Validate(); err != nil {
			return nil, ledger.At(fmt.Sprintf("accounts[%d]", i), err)
		}
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	var results []CreatedAccount
	err = j.inTx(ctx, func(tx pgx.Tx) error {
		// The account's first state draws a number.
		if err := j.sql.GateShare(ctx, tx, book.id); err != nil {
			return err
		}
		wanted, order, err := j.resolve(ctx, tx, book.id, specs)
		if err != nil {
			return err
		}
		results, err = j.createAccounts(ctx, tx, book.id, caller, wanted, order)
		return err
	})
	if err != nil {
		return nil, j.public(ctx, "create accounts", err)
	}
	j.janitor.wrote(&j.janitor.accounts, len(results))
	return results, nil
}

// resolve finds the currencies of requests, and merges equal requests. order has the id of each request.
func (j *Journal) resolve(ctx context.Context, tx pgx.Tx, ledgerID int32, specs []ledger.AccountSpec) (wanted map[ledger.AccountID]ledger.Account, order []ledger.AccountID, err error) {
	var codes []string
	var iso []ledger.Currency
	seen := map[ledger.CurrencyCode]bool{}
	for _, spec := range specs {
		if seen[spec.Currency] {
			continue
		}
		seen[spec.Currency] = true
		codes = append(codes, string(spec.Currency))
		if currency, ok := ledger.ISOCurrency(spec.Currency); ok {
			iso = append(iso, currency)
		}
	}
	if err := j.insertCurrencies(ctx, tx, ledgerID, iso); err != nil {
		return nil, nil, err
	}
	known, err := j.currencies(ctx, tx, ledgerID, codes)
	if err != nil {
		return nil, nil, err
	}
	wanted = map[ledger.AccountID]ledger.Account{}
	for i, spec := range specs {
		currency, ok := known[spec.Currency]
		if !ok {
			return nil, nil, ledger.Errorf(ledger.CodeCurrencyNotFound,
				"currency %s is not in ISO 4217 and is not registered in this ledger: register it with its scale", spec.Currency)
		}
		account, err := spec.Resolve(currency)
		if err != nil {
			return nil, nil, ledger.At(fmt.Sprintf("accounts[%d]", i), err)
		}
		if twin, ok := wanted[spec.ID]; ok {
			if diff := twin.Differences(account); len(diff) > 0 {
				return nil, nil, accountTaken(spec.ID, diff)
			}
		}
		wanted[spec.ID] = account
		order = append(order, spec.ID)
	}
	return wanted, order, nil
}

func accountTaken(id ledger.AccountID, diff []ledger.Violation) error {
	return &ledger.Error{
		Code:       ledger.CodeAlreadyExists,
		Message:    fmt.Sprintf("account %s was created with other content", id),
		Violations: diff,
	}
}

func (j *Journal) createAccounts(ctx context.Context, tx pgx.Tx, ledgerID int32, caller string, wanted map[ledger.AccountID]ledger.Account, order []ledger.AccountID) ([]CreatedAccount, error) {
	args := dbsqlc.AccountInsertParams{LedgerID: ledgerID, Caller: caller}
	for id, a := range wanted {
		args.AccountIds = append(args.AccountIds, string(id))
		args.Types = append(args.Types, string(a.Type))
		args.Currencies = append(args.Currencies, string(a.Currency.Code))
		args.Scales = append(args.Scales, int16(a.Currency.Scale)) //nolint:gosec // at most ledger.MaxScale
		args.Names = append(args.Names, a.Name)
		args.Metadatas = append(args.Metadatas, string(a.Metadata))
		args.Floors = append(args.Floors, limitText(a.Floor))
		args.Ceilings = append(args.Ceilings, limitText(a.Ceiling))
		args.Serialiseds = append(args.Serialiseds, a.Serialised)
	}
	inserted, err := j.sql.AccountInsert(ctx, tx, args)
	if err != nil {
		return nil, err
	}
	created := make(map[ledger.AccountID]bool, len(inserted))
	for _, id := range inserted {
		created[ledger.AccountID(id)] = true
	}
	if err := j.checkRepeated(ctx, tx, ledgerID, wanted, created); err != nil {
		return nil, err
	}
	rows, err := j.sql.AccountsByID(ctx, tx, dbsqlc.AccountsByIDParams{LedgerID: ledgerID, AccountIds: args.AccountIds})
	if err != nil {
		return nil, err
	}
	accounts := make(map[ledger.AccountID]ledger.Account, len(rows))
	for _, row := range rows {
		accounts[ledger.AccountID(row.AccountID)] = account(row)
	}
	results := make([]CreatedAccount, len(order))
	for i, id := range order {
		results[i] = CreatedAccount{Account: accounts[id], Created: created[id]}
		delete(created, id) // The second of two equal requests repeats the first.
	}
	return results, nil
}

// checkRepeated compares the requests whose accounts were there already with these accounts as they were created.
func (j *Journal) checkRepeated(ctx context.Context, tx pgx.Tx, ledgerID int32, wanted map[ledger.AccountID]ledger.Account, created map[ledger.AccountID]bool) error {
	var repeated []string
	for id := range wanted {
		if !created[id] {
			repeated = append(repeated, string(id))
		}
	}
	if len(repeated) == 0 {
		return nil
	}
	rows, err := j.sql.AccountsAsCreated(ctx, tx, dbsqlc.AccountsAsCreatedParams{LedgerID: ledgerID, AccountIds: repeated})
	if err != nil {
		return err
	}
	for _, row := range rows {
		id := ledger.AccountID(row.AccountID)
		first := ledger.Account{
			ID: id, Type: ledger.AccountType(row.Type), Name: row.Name, Metadata: ledger.Metadata(row.Metadata),
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
			Floor:    row.Floor, Ceiling: row.Ceiling, Serialised: row.Serialised,
		}
		if diff := first.Differences(wanted[id]); len(diff) > 0 {
			return accountTaken(id, diff)
		}
	}
	return nil
}

// Account returns an account. It returns CodeAccountNotFound.
func (j *Journal) Account(ctx context.Context, name ledger.Name, id ledger.AccountID) (ledger.Account, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return ledger.Account{}, err
	}
	var row dbsqlc.AccountsByIDRow
	err = j.read(ctx, "read the account", func(ctx context.Context) (err error) {
		row, err = j.accountRow(ctx, j.pool, book.id, id)
		return err
	})
	if err != nil {
		return ledger.Account{}, err
	}
	return account(row), nil
}

func (j *Journal) accountRow(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, id ledger.AccountID) (dbsqlc.AccountsByIDRow, error) {
	if err := id.ValidateFormat("account"); err != nil {
		return dbsqlc.AccountsByIDRow{}, err
	}
	rows, err := j.sql.AccountsByID(ctx, db, dbsqlc.AccountsByIDParams{LedgerID: ledgerID, AccountIds: []string{string(id)}})
	if err != nil {
		return dbsqlc.AccountsByIDRow{}, err
	}
	if len(rows) == 0 {
		return dbsqlc.AccountsByIDRow{}, accountMissing(id)
	}
	return rows[0], nil
}

func accountMissing(id ledger.AccountID) error {
	return ledger.Errorf(ledger.CodeAccountNotFound, "account %s does not exist", id)
}

// Accounts lists up to limit accounts whose ids begin with prefix and come after an id, in bytewise order.
func (j *Journal) Accounts(ctx context.Context, name ledger.Name, prefix string, after ledger.AccountID, limit int) ([]ledger.Account, error) {
	if prefix != "" {
		if err := ledger.AccountID(prefix).ValidateFormat("prefix"); err != nil {
			return nil, err
		}
	}
	if after != "" {
		if err := after.ValidateFormat("page_token"); err != nil {
			return nil, err
		}
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	var rows []dbsqlc.AccountListRow
	err = j.read(ctx, "list accounts", func(ctx context.Context) (err error) {
		rows, err = j.sql.AccountList(ctx, j.pool, dbsqlc.AccountListParams{
			LedgerID: book.id, After: string(after), Prefix: prefix, PageSize: int32(limit), //nolint:gosec // at most MaxPage+1
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]ledger.Account, len(rows))
	for i, row := range rows {
		list[i] = account(dbsqlc.AccountsByIDRow(row))
	}
	return list, nil
}

// UpdateAccount changes an account and returns it as it then is. Where the rules change, it takes its place in one order
// with the transfers: none of those decided after it sees the old rules. It returns CodeInvalidArgument,
// CodeAccountNotFound, and what ledger.AccountUpdate.Apply returns.
func (j *Journal) UpdateAccount(ctx context.Context, caller string, name ledger.Name, id ledger.AccountID, update ledger.AccountUpdate) (ledger.Account, error) {
	if err := id.ValidateFormat("account"); err != nil {
		return ledger.Account{}, err
	}
	if err := update.Validate(); err != nil {
		return ledger.Account{}, err
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return ledger.Account{}, err
	}
	var updated ledger.Account
	change := func(tx pgx.Tx) (err error) {
		updated, err = j.updateAccount(ctx, tx, book.id, caller, id, update)
		return err
	}
	if update.ChangesRules() {
		err = j.inTxAlone(ctx, book.id, change)
	} else {
		err = j.inTx(ctx, func(tx pgx.Tx) error {
			if err := j.sql.GateShare(ctx, tx, book.id); err != nil {
				return err
			}
			return change(tx)
		})
	}
	if err != nil {
		return ledger.Account{}, j.public(ctx, "update the account", err)
	}
	return updated, nil
}

func (j *Journal) updateAccount(ctx context.Context, tx pgx.Tx, ledgerID int32, caller string, id ledger.AccountID, update ledger.AccountUpdate) (ledger.Account, error) {
	if err := j.sql.AccountLock(ctx, tx, dbsqlc.AccountLockParams{LedgerID: ledgerID, AccountID: string(id)}); err != nil {
		return ledger.Account{}, err
	}
	// Statements after the gate and the lock see what they protect.
	row, err := j.accountRow(ctx, tx, ledgerID, id)
	if err != nil {
		return ledger.Account{}, err
	}
	var balance ledger.Balance
	if update.Closed != nil {
		point := balancePoint{id, latest}
		balances, err := j.balances(ctx, tx, ledgerID, []balancePoint{point})
		if err != nil {
			return ledger.Account{}, err
		}
		balance = balances[point]
	}
	before := account(row)
	after, err := update.Apply(before, balance)
	if err != nil || after.Unchanged(before) {
		return after, err
	}
	changed, err := j.sql.AccountUpdate(ctx, tx, dbsqlc.AccountUpdateParams{
		LedgerID: ledgerID, AccountNo: row.AccountNo, Caller: caller, Name: after.Name, Metadata: string(after.Metadata),
		Floor: limitText(after.Floor), Ceiling: limitText(after.Ceiling), Serialised: after.Serialised, Frozen: string(after.Frozen), Closed: after.Closed,
	})
	if err != nil {
		return ledger.Account{}, err
	}
	after.Version, after.UpdatedAt = changed.Version, changed.ChangedAt.UTC()
	return after, nil
}

func account(row dbsqlc.AccountsByIDRow) ledger.Account {
	return ledger.Account{
		ID: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type),
		Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
		Name:     row.Name, Metadata: ledger.Metadata(row.Metadata), Floor: row.Floor, Ceiling: row.Ceiling, Serialised: row.Serialised,
		Frozen: ledger.Frozen(row.Frozen), Closed: row.Closed, Version: row.Version,
		CreatedAt: row.CreatedAt.UTC(), UpdatedAt: row.ChangedAt.UTC(),
	}
}

// limitText writes a floor or a ceiling; "" is none.
func limitText(limit *decimal.Decimal) string {
	if limit == nil {
		return ""
	}
	return limit.String()
}
