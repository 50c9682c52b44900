package support

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Limit is how much may be refunded in a currency by one person alone. Where none was ever set, every refund needs a second person: a deployment
// that nobody has thought about must not let one person give everything away.
type Limit struct {
	Currency ledger.Currency
	// Version is 0 where none was ever set.
	Version int
	// Single is the most that one refund may be, and Daily the most that a person's refunds without a second one may come to within 24 hours. With
	// zero, every refund needs a second person.
	Single, Daily decimal.Decimal
	Reason        string
	SetAt         time.Time
	SetBy         string
}

// LimitSpec asks for a limit to be set.
type LimitSpec struct {
	Ledger        ledger.Name
	Currency      ledger.CurrencyCode
	Single, Daily decimal.Decimal
	// Reason is required.
	Reason string
}

// currency finds a currency of a ledger. It returns CodeCurrencyNotFound.
func (d *Desk) currency(ctx context.Context, name ledger.Name, code ledger.CurrencyCode) (ledger.Currency, error) {
	all, err := d.journal.Currencies(ctx, name)
	if err != nil {
		return ledger.Currency{}, err
	}
	for _, c := range all {
		if c.Code == code {
			return c, nil
		}
	}
	return ledger.Currency{}, ledger.Errorf(ledger.CodeCurrencyNotFound, "ledger %s has no currency %.40q", name.Or(), string(code))
}

// SetLimit sets the limit of a currency, from now on. One that is in force already is not set again. It returns CodeInvalidArgument,
// CodeAmountScale or CodeCurrencyNotFound.
func (d *Desk) SetLimit(ctx context.Context, who Actor, spec LimitSpec) (*Limit, error) {
	if err := who.validate(); err != nil {
		return nil, err
	}
	if err := validateText("reason", spec.Reason, true, maxNote); err != nil {
		return nil, err
	}
	currency, err := d.currency(ctx, spec.Ledger, spec.Currency)
	if err != nil {
		return nil, err
	}
	for _, a := range []struct {
		field  string
		amount decimal.Decimal
	}{{"single", spec.Single}, {"daily", spec.Daily}} {
		switch {
		case !plausible(a.amount):
			return nil, ledger.Invalid(a.field, "has more than %d digits", ledger.MaxDigits)
		case a.amount.IsNegative():
			return nil, ledger.Invalid(a.field, "is negative")
		}
		if err := checkScale(a.field, a.amount, currency); err != nil {
			return nil, err
		}
	}
	if spec.Single.GreaterThan(spec.Daily) {
		return nil, ledger.Invalid("single", "%s is more than the %s of 24 hours: it could never be used", inCurrency(spec.Single, currency), inCurrency(spec.Daily, currency))
	}
	id, err := d.ledgerID(ctx, spec.Ledger)
	if err != nil {
		return nil, err
	}
	err = change(ctx, d.pool, "set the limit", func(tx pgx.Tx) error {
		// Who loses the race for a version begins anew, and sees the winner's.
		rows, err := d.sql.SupportLimitInForce(ctx, tx, dbsqlc.SupportLimitInForceParams{LedgerID: id, Currency: string(spec.Currency)})
		if err != nil {
			return err
		}
		version := int32(1)
		if len(rows) > 0 {
			if rows[0].Single.Equal(spec.Single) && rows[0].Daily.Equal(spec.Daily) {
				return nil
			}
			version = rows[0].Version + 1
		}
		if _, err := d.sql.SupportLimitInsert(ctx, tx, dbsqlc.SupportLimitInsertParams{
			LedgerID: id, Currency: string(spec.Currency), Version: version, Single: spec.Single, Daily: spec.Daily, Reason: spec.Reason, SetBy: who.Name,
		}); isViolation(err, "support_limit_currency_fkey") {
			return ledger.Errorf(ledger.CodeCurrencyNotFound, "ledger %s has no account in %s yet: a limit is set once it has one", spec.Ledger.Or(), currency.Code)
		} else if err != nil {
			return err
		}
		return d.audit.Record(ctx, tx, Event{
			Ledger: spec.Ledger.Or(), Actor: who, Action: ActionLimitSet, Object: Object{"limit", string(spec.Currency)}, Outcome: Done,
			Detail: map[string]string{
				"version": strconv.Itoa(int(version)), "single": spec.Single.String(), "daily": spec.Daily.String(), "reason": spec.Reason,
			},
		})
	})
	if err != nil {
		return nil, err
	}
	list, err := d.limits(ctx, spec.Ledger, spec.Currency, 1)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return &list[0], nil
}

// Limits lists the limits in force, each currency's; or with a currency its last 1,000 versions, the newest first.
func (d *Desk) Limits(ctx context.Context, name ledger.Name, currency ledger.CurrencyCode) ([]Limit, error) {
	return d.limits(ctx, name, currency, 1000)
}

func (d *Desk) limits(ctx context.Context, name ledger.Name, currency ledger.CurrencyCode, most int32) ([]Limit, error) {
	id, err := d.ledgerID(ctx, name)
	if err != nil {
		return nil, err
	}
	rows, err := d.sql.SupportLimits(ctx, d.pool, dbsqlc.SupportLimitsParams{LedgerID: id, Currency: string(currency), Most: most})
	list := make([]Limit, len(rows))
	for i, row := range rows {
		list[i] = Limit{
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)}, Version: int(row.Version), Single: row.Single,
			Daily: row.Daily, Reason: row.Reason, SetAt: row.SetAt.UTC(), SetBy: row.SetBy,
		}
	}
	return list, public(ctx, "list the limits", err)
}

// Approval is whether a refund needs another person, and why.
type Approval string

// The reasons.
const (
	// ApprovalNone: the maker alone is enough.
	ApprovalNone Approval = "none"
	// ApprovalNoLimit: no limit was ever set for the currency.
	ApprovalNoLimit Approval = "no_limit"
	// ApprovalAboveSingle: the amount is above the limit for one refund.
	ApprovalAboveSingle Approval = "above_single"
	// ApprovalAboveDaily: with what the maker has refunded alone in the 24 hours before, it is above the limit for a day.
	ApprovalAboveDaily Approval = "above_daily"
)

// String says it to people.
func (a Approval) String() string {
	switch a {
	case ApprovalNone:
		return "needs nobody else"
	case ApprovalNoLimit:
		return "needs another person: no limit is set for this currency"
	case ApprovalAboveSingle:
		return "needs another person: it is above the limit for one refund"
	case ApprovalAboveDaily:
		return "needs another person: with the other refunds of 24 hours it is above the limit"
	}
	return string(a)
}

// approval judges an amount. In a transaction that is to write a request, the lock of its maker has to be taken first, in a statement of its own.
func (d *Desk) approval(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, currency ledger.CurrencyCode, maker string, amount decimal.Decimal) (
	a Approval, version int32, err error) {
	rows, err := d.sql.SupportLimitInForce(ctx, db, dbsqlc.SupportLimitInForceParams{LedgerID: ledgerID, Currency: string(currency)})
	if err != nil || len(rows) == 0 {
		return ApprovalNoLimit, 0, err
	}
	limit := rows[0]
	if amount.GreaterThan(limit.Single) {
		return ApprovalAboveSingle, limit.Version, nil
	}
	total, err := d.sql.SupportMadeAlone(ctx, db, dbsqlc.SupportMadeAloneParams{LedgerID: ledgerID, Currency: string(currency), Maker: maker})
	if err != nil {
		return "", 0, err
	}
	if total.Add(amount).GreaterThan(limit.Daily) {
		return ApprovalAboveDaily, limit.Version, nil
	}
	return ApprovalNone, limit.Version, nil
}

const newest int64 = math.MaxInt64
