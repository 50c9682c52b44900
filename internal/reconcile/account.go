package reconcile

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// BankAccountSpec is a request for a bank account. All of it but Settings is for ever.
type BankAccountSpec struct {
	Ledger ledger.Name
	// Name is unique in the ledger: 1 to 63 characters of a-z, 0-9, '.', '_' and '-'.
	Name string
	// Account is the account of the books that mirrors it. No other bank account may have it.
	Account ledger.AccountID
	// MoneyIn is the side of that account on which money stands that comes in at the bank; "" is ledger.Debit, and right for whoever has an account at
	// a bank, also a credit card. It is ledger.Credit where the books are the bank's own and the account is a customer's.
	MoneyIn ledger.Direction
	// Basis says which of a transfer's two times is the date of its entries; "" is report.Booking.
	Basis report.Basis
	// Zone is that in which the days of entries begin: the bank's. nil is UTC.
	Zone *time.Location
	// Begins is the first day of whose entries each is to be matched; those before are one item, brought forward. Without it each entry is one.
	Begins bankfile.Date
	// Settings are the first; nil is DefaultSettings.
	Settings *Settings
}

// BankAccount is an account at a bank, and the account of the books that mirrors it.
type BankAccount struct {
	Ledger   ledger.Name
	Name     string
	Account  ledger.AccountID
	Type     ledger.AccountType
	Currency ledger.Currency
	MoneyIn  ledger.Direction
	Basis    report.Basis
	Zone     *time.Location
	Begins   bankfile.Date
	// Forward is what was brought forward, in the bank's sense, and ForwardThrough the last sequence that is in it.
	Forward        decimal.Decimal
	ForwardThrough int64
	CreatedAt      time.Time
	CreatedBy      string

	Settings        Settings
	SettingsVersion int
	SettingsAt      time.Time
	SettingsBy      string

	ledgerID  int32
	no        int32
	accountNo int64
	first     Settings
}

// sense turns an amount of the books, a debit positive, into the bank's sense, and back.
func (a *BankAccount) sense(amount decimal.Decimal) decimal.Decimal {
	if a.MoneyIn == ledger.Credit {
		return amount.Neg()
	}
	return amount
}

// dayOf is the date of an entry.
func (a *BankAccount) dayOf(e *journal.ReconcileEntry) bankfile.Date {
	if a.Basis == report.Value && e.EffectiveAt != nil {
		return dateIn(*e.EffectiveAt, a.Zone)
	}
	return dateIn(e.PostedAt, a.Zone)
}

// isForward reports whether an entry is in what was brought forward.
func (a *BankAccount) isForward(sequence int64, day bankfile.Date) bool {
	return !a.Begins.IsZero() && sequence <= a.ForwardThrough && day.Compare(a.Begins) < 0
}

func (s *BankAccountSpec) validate() error {
	if s.MoneyIn == "" {
		s.MoneyIn = ledger.Debit
	}
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	if s.Settings == nil {
		defaults := DefaultSettings()
		s.Settings = &defaults
	}
	if err := validateSlug("name", s.Name); err != nil {
		return err
	}
	if err := s.Account.ValidateFormat("account"); err != nil {
		return err
	}
	if s.MoneyIn != ledger.Debit && s.MoneyIn != ledger.Credit {
		return ledger.Invalid("money_in", "%.40q is not debit or credit", string(s.MoneyIn))
	}
	var err error
	if s.Basis, err = report.ParseBasis(string(s.Basis)); err != nil {
		return err
	}
	if _, err = report.ParseZone(s.Zone.String()); err != nil {
		return err
	}
	return validateDay("begins", s.Begins)
}

// CreateBankAccount creates a bank account. The same request again gets the same bank account.
//
// It returns CodeInvalidArgument, CodeAmountScale or CodeAccountNotFound; CodeNotFound for a profile that there is not; and CodeAlreadyExists for a name
// that another bank account has, or for an account of the books that another one mirrors.
func (r *Reconciler) CreateBankAccount(ctx context.Context, spec BankAccountSpec, caller string) (*BankAccount, error) {
	if err := spec.validate(); err != nil {
		return nil, err
	}
	mirrored, err := r.journal.Account(ctx, spec.Ledger, spec.Account)
	if err != nil {
		return nil, err
	}
	if err := spec.Settings.validate(mirrored.Currency); err != nil {
		return nil, err
	}
	if err := r.knownProfile(ctx, spec.Ledger, spec.Settings.Profile); err != nil {
		return nil, err
	}
	ids, err := r.sql.BankLedgerAccount(ctx, r.pool, dbsqlc.BankLedgerAccountParams{Ledger: string(spec.Ledger.Or()), AccountID: string(spec.Account)})
	if err != nil {
		return nil, public(ctx, "create the bank account", err)
	}
	forward, through, err := r.bringForward(ctx, spec)
	if err != nil {
		return nil, err
	}
	err = r.change(ctx, "create the bank account", func(tx pgx.Tx) error {
		nos, err := r.sql.BankAccountInsert(ctx, tx, dbsqlc.BankAccountInsertParams{
			LedgerID: ids.LedgerID, Name: spec.Name, AccountNo: ids.AccountNo, MoneyIn: string(spec.MoneyIn), Basis: string(spec.Basis),
			Zone: spec.Zone.String(), BeginsOn: toDate(spec.Begins), ForwardThrough: through, Forward: forward, Caller: caller,
		})
		if err != nil || len(nos) == 0 {
			return err
		}
		return r.sql.BankSettingInsert(ctx, tx, dbsqlc.BankSettingInsertParams{
			LedgerID: ids.LedgerID, BankAccountNo: nos[0], Version: 1, Content: spec.Settings.encode(), Caller: caller,
		})
	})
	if err != nil {
		return nil, err
	}
	return r.created(ctx, spec, ids.AccountNo)
}

// bringForward gives what the entries before the beginning come to, in the bank's sense, and the last sequence that is in it.
func (r *Reconciler) bringForward(ctx context.Context, spec BankAccountSpec) (decimal.Decimal, int64, error) {
	if spec.Begins.IsZero() {
		return decimal.Zero, 0, nil
	}
	at, err := beginOf(spec.Begins, spec.Zone)
	if err != nil {
		return decimal.Zero, 0, err
	}
	a := &BankAccount{Ledger: spec.Ledger, Account: spec.Account, MoneyIn: spec.MoneyIn, Basis: spec.Basis}
	balance, p, err := r.ledgerBalance(ctx, a, at, 0)
	if err != nil {
		return decimal.Zero, 0, err
	}
	if at.After(p.Now()) {
		return decimal.Zero, 0, ledger.Invalid("begins", "%s is still to come", spec.Begins)
	}
	return balance, p.Horizon(), nil
}

// ledgerBalance is the balance of a bank account's account in the books before a moment, in the bank's sense, as of a sequence; 0 is the last one.
func (r *Reconciler) ledgerBalance(ctx context.Context, a *BankAccount, before time.Time, through int64) (decimal.Decimal, *journal.Period, error) {
	p, err := r.journal.Period(ctx, a.Ledger, journal.PeriodSpec{To: before, ByValueDate: a.Basis == report.Value, Through: through})
	if err != nil {
		return decimal.Zero, nil, err
	}
	var balance decimal.Decimal
	err = p.Accounts(ctx, journal.AccountFilter{Account: a.Account}, func(page []journal.PeriodAccount) error {
		balance = a.sense(page[0].Closing)
		return nil
	})
	return balance, p, err
}

// created finds the bank account that a request asked for.
func (r *Reconciler) created(ctx context.Context, spec BankAccountSpec, accountNo int64) (*BankAccount, error) {
	taken, err := r.bankAccounts(ctx, spec.Ledger, "", accountNo)
	if err != nil {
		return nil, err
	}
	if len(taken) > 0 && taken[0].Name != spec.Name {
		return nil, ledger.Errorf(ledger.CodeAlreadyExists, "account %s is mirrored by bank account %s", spec.Account, taken[0].Name)
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.Name)
	if err != nil {
		return nil, err
	}
	differs := &ledger.Error{Code: ledger.CodeAlreadyExists, Message: "bank account " + spec.Name + " exists, and is another one"}
	for _, field := range []struct {
		name string
		same bool
	}{
		{"account", a.Account == spec.Account}, {"money_in", a.MoneyIn == spec.MoneyIn}, {"basis", a.Basis == spec.Basis},
		{"zone", a.Zone.String() == spec.Zone.String()}, {"begins", a.Begins == spec.Begins}, {"settings", sameSettings(a.first, *spec.Settings)},
	} {
		if !field.same {
			differs.Violations = append(differs.Violations, ledger.Violation{Field: field.name, Message: "differs"})
		}
	}
	if len(differs.Violations) > 0 {
		return nil, differs
	}
	return a, nil
}

func sameSettings(a, b Settings) bool {
	a, errA := decodeSettings(a.encode())
	b, errB := decodeSettings(b.encode())
	a.Tolerance, b.Tolerance = decimal.Zero.Add(a.Tolerance), decimal.Zero.Add(b.Tolerance)
	equal := a.Tolerance.Equal(b.Tolerance)
	a.Tolerance, b.Tolerance = decimal.Zero, decimal.Zero
	return errA == nil && errB == nil && equal && reflect.DeepEqual(a, b)
}

// Set changes the settings of a bank account. It returns CodeInvalidArgument, CodeAmountScale, or CodeNotFound for a bank account or a profile that there
// is not.
func (r *Reconciler) Set(ctx context.Context, name ledger.Name, bankAccount string, settings Settings, caller string) (*BankAccount, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	if err := settings.validate(a.Currency); err != nil {
		return nil, err
	}
	if settings.Profile != a.Settings.Profile { // What was set before profiles had to be there can stay.
		if err := r.knownProfile(ctx, name, settings.Profile); err != nil {
			return nil, err
		}
	}
	err = r.change(ctx, "change the settings", func(tx pgx.Tx) error {
		if err := r.lock(ctx, tx, a); err != nil {
			return err
		}
		now, err := r.readBankAccounts(ctx, tx, name, bankAccount, 0)
		if err != nil || sameSettings(now[0].Settings, settings) {
			return err
		}
		return r.sql.BankSettingInsert(ctx, tx, dbsqlc.BankSettingInsertParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, Version: int32(now[0].SettingsVersion) + 1, //nolint:gosec // as often as people change them
			Content: settings.encode(), Caller: caller,
		})
	})
	if err != nil {
		return nil, err
	}
	return r.BankAccount(ctx, name, bankAccount)
}

// BankAccount gives a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) BankAccount(ctx context.Context, name ledger.Name, bankAccount string) (*BankAccount, error) {
	if err := validateSlug("bank_account", bankAccount); err != nil {
		return nil, err
	}
	list, err := r.bankAccounts(ctx, name, bankAccount, 0)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, ledger.Missing("bank_account", "ledger %s has no bank account %s", name.Or(), bankAccount)
	}
	return list[0], nil
}

// BankAccounts lists the bank accounts of a ledger, by name.
func (r *Reconciler) BankAccounts(ctx context.Context, name ledger.Name) ([]*BankAccount, error) {
	return r.bankAccounts(ctx, name, "", 0)
}

func (r *Reconciler) bankAccounts(ctx context.Context, name ledger.Name, bankAccount string, accountNo int64) ([]*BankAccount, error) {
	list, err := r.readBankAccounts(ctx, r.pool, name, bankAccount, accountNo)
	if err == nil && len(list) == 0 {
		return nil, r.knownLedger(ctx, name)
	}
	return list, public(ctx, "read the bank accounts", err)
}

func (r *Reconciler) readBankAccounts(ctx context.Context, db dbsqlc.DBTX, name ledger.Name, bankAccount string, accountNo int64) ([]*BankAccount,
	error) {
	rows, err := r.sql.BankAccountList(ctx, db, dbsqlc.BankAccountListParams{Ledger: string(name.Or()), Name: bankAccount, AccountNo: accountNo})
	if err != nil {
		return nil, err
	}
	list := make([]*BankAccount, len(rows))
	for i, row := range rows {
		a := &BankAccount{
			Ledger: name.Or(), Name: row.Name, Account: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type),
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)}, MoneyIn: ledger.Direction(row.MoneyIn),
			Basis: report.Basis(row.Basis), Begins: fromDate(row.BeginsOn), Forward: row.Forward, ForwardThrough: row.ForwardThrough,
			CreatedAt: row.CreatedAt.UTC(), CreatedBy: row.CreatedBy, SettingsVersion: int(row.Version), SettingsAt: row.ChangedAt.UTC(),
			SettingsBy: row.ChangedBy, ledgerID: row.LedgerID, no: row.BankAccountNo, accountNo: row.AccountNo,
		}
		var errs [3]error
		a.Zone, errs[0] = report.ParseZone(row.Zone)
		a.Settings, errs[1] = decodeSettings(row.Content)
		a.first, errs[2] = decodeSettings(row.First)
		if err := errors.Join(errs[:]...); err != nil {
			return nil, ledger.Errorf(ledger.CodeInternal, "bank account %s cannot be read: %v", a.Name, err)
		}
		list[i] = a
	}
	return list, nil
}
