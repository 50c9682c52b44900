package journal

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Ledger is a separate set of books.
type Ledger struct {
	Name      ledger.Name
	CreatedAt time.Time
}

// ledgerRow is what is remembered of a ledger. It never changes.
type ledgerRow struct{ id int32 }

// CreateLedger makes a ledger. To create one that exists is no error. It returns CodeInvalidArgument.
func (j *Journal) CreateLedger(ctx context.Context, caller string, name ledger.Name) (Ledger, error) {
	if err := name.Validate("name"); err != nil {
		return Ledger{}, err
	}
	var row dbsqlc.LedgerByNameRow
	err := j.inTx(ctx, func(tx pgx.Tx) error {
		if _, err := j.sql.LedgerInsert(ctx, tx, dbsqlc.LedgerInsertParams{Name: string(name), Caller: caller}); err != nil {
			return err
		}
		var err error
		row, err = j.sql.LedgerByName(ctx, tx, string(name))
		return err
	})
	if err != nil {
		return Ledger{}, j.public(ctx, "create the ledger", err)
	}
	return Ledger{Name: name, CreatedAt: row.CreatedAt.UTC()}, nil
}

// Ledgers lists all ledgers in the order of their names.
func (j *Journal) Ledgers(ctx context.Context) ([]Ledger, error) {
	var rows []dbsqlc.LedgerListRow
	err := j.read(ctx, "list ledgers", func(ctx context.Context) (err error) {
		rows, err = j.sql.LedgerList(ctx, j.pool)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := make([]Ledger, len(rows))
	for i, row := range rows {
		list[i] = Ledger{Name: ledger.Name(row.Name), CreatedAt: row.CreatedAt.UTC()}
	}
	return list, nil
}

// ledger finds a ledger by its name. It returns CodeInvalidArgument or CodeLedgerNotFound.
func (j *Journal) ledger(ctx context.Context, name ledger.Name) (ledgerRow, error) {
	name = name.Or()
	if known, ok := j.ledgers.Load(name); ok {
		return known.(ledgerRow), nil
	}
	if err := name.Validate("ledger"); err != nil {
		return ledgerRow{}, err
	}
	var row dbsqlc.LedgerByNameRow
	err := j.read(ctx, "find the ledger", func(ctx context.Context) (err error) {
		row, err = j.sql.LedgerByName(ctx, j.pool, string(name))
		if errors.Is(err, pgx.ErrNoRows) {
			return ledger.Errorf(ledger.CodeLedgerNotFound, "ledger %q does not exist", string(name))
		}
		return err
	})
	if err != nil {
		return ledgerRow{}, err
	}
	found := ledgerRow{id: row.LedgerID}
	j.ledgers.Store(name, found)
	return found, nil
}

// RegisterCurrency makes a currency known to a ledger that ISO 4217 does not define. To register it again is no error. It
// returns CodeInvalidArgument, or CodeAlreadyExists if it is registered with another scale.
func (j *Journal) RegisterCurrency(ctx context.Context, name ledger.Name, currency ledger.Currency) error {
	if err := currency.Validate(); err != nil {
		return err
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return err
	}
	err = j.inTx(ctx, func(tx pgx.Tx) error {
		if err := j.insertCurrencies(ctx, tx, book.id, []ledger.Currency{currency}); err != nil {
			return err
		}
		known, err := j.currencies(ctx, tx, book.id, []string{string(currency.Code)})
		if err == nil && known[currency.Code] != currency {
			return &ledger.Error{
				Code:    ledger.CodeAlreadyExists,
				Message: "currency " + string(currency.Code) + " is registered with another scale",
				Violations: []ledger.Violation{{
					Field: "scale", Message: "differs from the record",
				}},
			}
		}
		return err
	})
	return j.public(ctx, "register the currency", err)
}

// Currencies lists the currencies that accounts of a ledger can have, in the order of their codes.
func (j *Journal) Currencies(ctx context.Context, name ledger.Name) ([]ledger.Currency, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	var rows []dbsqlc.CurrencyListRow
	err = j.read(ctx, "list currencies", func(ctx context.Context) (err error) {
		rows, err = j.sql.CurrencyList(ctx, j.pool, book.id)
		return err
	})
	if err != nil {
		return nil, err
	}
	list := ledger.ISOCurrencies()
	for _, row := range rows {
		if _, iso := ledger.ISOCurrency(ledger.CurrencyCode(row.Code)); !iso {
			list = append(list, ledger.Currency{Code: ledger.CurrencyCode(row.Code), Scale: int32(row.Scale)})
		}
	}
	slices.SortFunc(list, func(a, b ledger.Currency) int { return strings.Compare(string(a.Code), string(b.Code)) })
	return list, nil
}

func (j *Journal) insertCurrencies(ctx context.Context, tx pgx.Tx, ledgerID int32, list []ledger.Currency) error {
	args := dbsqlc.CurrencyInsertParams{LedgerID: ledgerID}
	for _, c := range list {
		args.Codes = append(args.Codes, string(c.Code))
		args.Scales = append(args.Scales, int16(c.Scale)) //nolint:gosec // at most ledger.MaxScale
	}
	return j.sql.CurrencyInsert(ctx, tx, args)
}

func (j *Journal) currencies(ctx context.Context, tx pgx.Tx, ledgerID int32, codes []string) (map[ledger.CurrencyCode]ledger.Currency, error) {
	rows, err := j.sql.CurrencyByCode(ctx, tx, dbsqlc.CurrencyByCodeParams{LedgerID: ledgerID, Codes: codes})
	if err != nil {
		return nil, err
	}
	known := make(map[ledger.CurrencyCode]ledger.Currency, len(rows))
	for _, row := range rows {
		known[ledger.CurrencyCode(row.Code)] = ledger.Currency{Code: ledger.CurrencyCode(row.Code), Scale: int32(row.Scale)}
	}
	return known, nil
}
