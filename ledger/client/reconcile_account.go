package client

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// BankAccount is an account at a bank or a payment processor, and the account of the books that mirrors it.
type BankAccount struct {
	Ledger ledger.Name
	Name   string
	// Account is the account of the books that mirrors it, and Currency its currency.
	Account  ledger.AccountID
	Currency ledger.CurrencyCode
	// MoneyIn is the side on which money stands in the books that comes in at the bank.
	MoneyIn ledger.Direction
	// Basis says which of a transfer's two times is the date of its entries, and Zone, a name of the IANA database, where their days begin.
	Basis Basis
	Zone  string
	// Begins is the first day of whose entries each is an item; those before are one. "": each entry is one.
	Begins string
	// Forward is what was brought forward, and ForwardThrough the last sequence that is in it.
	Forward        decimal.Decimal
	ForwardThrough int64
	CreatedAt      time.Time
	CreatedBy      string

	Settings        BankSettings
	SettingsVersion int
	SettingsAt      time.Time
	SettingsBy      string
}

// BankSettings are what can be set of a bank account. They are set all together: begin with those of BankAccount, or with DefaultBankSettings.
type BankSettings struct {
	// Identifiers are the numbers by which the bank's files know the account, such as its IBAN. A file of another account is refused.
	Identifiers []string
	// Profile is the one by which its CSV files are read where none is named.
	Profile string
	// DaysBefore and DaysAfter are how many days the bank's date may lie before that of the books, and after it.
	DaysBefore, DaysAfter int
	// Tolerance is the most that two amounts of one reference may differ by and still be the same movement.
	Tolerance decimal.Decimal
	// TransitDays is for how many days an entry is expected to be on its way to the bank.
	TransitDays int
	// ReferenceKeys are the keys of a transfer's metadata that have references.
	ReferenceKeys []string
	// Confirm are the rules whose matches need no person: of "opening", "reference", "batch", "text" and "amount".
	Confirm []string
	// AnyNumbers takes statements whose numbers leave gaps.
	AnyNumbers bool
	// IgnoreBalances takes no notice of the balances in files. Then nobody sees whether lines are missing.
	IgnoreBalances bool
	// BAI2Decimals are the decimals that amounts in BAI2 files imply, by currency, where the bank's are not the currency's.
	BAI2Decimals map[ledger.CurrencyCode]int32
}

// DefaultBankSettings are those of a bank account that was created without any.
func DefaultBankSettings() BankSettings {
	return BankSettings{
		DaysBefore: 1, DaysAfter: 3, TransitDays: 5, ReferenceKeys: []string{"reference", "bank_reference", "end_to_end", "payout", "batch"},
		Confirm: []string{"opening", "reference", "batch"},
	}
}

// BankAccountSpec asks for a bank account. All of it but Settings is for ever.
type BankAccountSpec struct {
	// Name is 1 to 63 characters of a-z, 0-9, '.', '_' and '-'.
	Name string
	// Account is the account of the books that mirrors it. No other bank account may have it.
	Account ledger.AccountID
	// MoneyIn is ledger.Debit by default, which is right for whoever has an account at a bank; ledger.Credit where the books are the bank's own.
	MoneyIn ledger.Direction
	// Basis is Booking by default, and Zone UTC.
	Basis Basis
	Zone  string
	// Begins is the first day of whose entries each is to be matched; those before are one item, brought forward. "": each entry is one.
	Begins string
	// Settings are the first; nil is DefaultBankSettings.
	Settings *BankSettings
}

// CreateBankAccount says that an account at a bank is mirrored by an account of the books. The same request again gets the same bank account. It
// returns CodeInvalidArgument, CodeAccountNotFound, CodeAmountScale for a tolerance that is finer than the currency, and CodeAlreadyExists for a name
// that another one has, or for an account that another one mirrors.
func (r *Reconciliation) CreateBankAccount(ctx context.Context, spec BankAccountSpec) (BankAccount, error) {
	in := &khatav1.CreateBankAccountRequest{
		Ledger: r.ledger(), Name: spec.Name, Account: string(spec.Account), Zone: spec.Zone, Begins: spec.Begins,
	}
	var err error
	if in.MoneyIn, err = encodeMoneyIn(spec.MoneyIn); err != nil {
		return BankAccount{}, err
	}
	if in.Basis, err = encodeBasis(spec.Basis); err != nil {
		return BankAccount{}, err
	}
	if spec.Settings != nil {
		in.Settings = encodeBankSettings(*spec.Settings)
	}
	resp, err := call(ctx, r.client, r.api.CreateBankAccount, in)
	if err != nil {
		return BankAccount{}, err
	}
	return decodeBankAccount(resp.GetBankAccount())
}

// UpdateBankAccount changes the settings of a bank account, all of them, as a new version. It returns CodeInvalidArgument, CodeAmountScale or
// CodeNotFound.
func (r *Reconciliation) UpdateBankAccount(ctx context.Context, bankAccount string, settings BankSettings) (BankAccount, error) {
	resp, err := call(ctx, r.client, r.api.UpdateBankAccount, &khatav1.UpdateBankAccountRequest{
		Ledger: r.ledger(), BankAccount: bankAccount, Settings: encodeBankSettings(settings),
	})
	if err != nil {
		return BankAccount{}, err
	}
	return decodeBankAccount(resp.GetBankAccount())
}

// BankAccount gets a bank account by its name. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) BankAccount(ctx context.Context, name string) (BankAccount, error) {
	resp, err := call(ctx, r.client, r.api.GetBankAccount, &khatav1.GetBankAccountRequest{Ledger: r.ledger(), BankAccount: name})
	if err != nil {
		return BankAccount{}, err
	}
	return decodeBankAccount(resp.GetBankAccount())
}

// BankAccounts lists all bank accounts, by name.
func (r *Reconciliation) BankAccounts(ctx context.Context) ([]BankAccount, error) {
	resp, err := call(ctx, r.client, r.api.ListBankAccounts, &khatav1.ListBankAccountsRequest{Ledger: r.ledger()})
	if err != nil {
		return nil, err
	}
	return tryEach(resp.GetBankAccounts(), decodeBankAccount)
}

func encodeBankSettings(s BankSettings) *khatav1.BankSettings {
	// A number that is far too large is the server's to refuse.
	days := func(n int) int32 { return int32(min(max(n, -1), 1_000_000)) }
	out := &khatav1.BankSettings{
		Identifiers: s.Identifiers, Profile: s.Profile, DaysBefore: days(s.DaysBefore), DaysAfter: days(s.DaysAfter),
		Tolerance: ledger.FormatWritten(s.Tolerance), TransitDays: days(s.TransitDays), ReferenceKeys: s.ReferenceKeys, Confirm: s.Confirm,
		AnyNumbers: s.AnyNumbers, IgnoreBalances: s.IgnoreBalances, Bai2Decimals: make(map[string]int32, len(s.BAI2Decimals)),
	}
	for currency, decimals := range s.BAI2Decimals {
		out.Bai2Decimals[string(currency)] = decimals
	}
	return out
}

func decodeBankAccount(in *khatav1.BankAccount) (BankAccount, error) {
	var amount amounts
	s := in.GetSettings()
	out := BankAccount{
		Ledger: ledger.Name(in.GetLedger()), Name: in.GetName(), Account: ledger.AccountID(in.GetAccount()),
		Currency: ledger.CurrencyCode(in.GetCurrency()), MoneyIn: keyOf(directions, in.GetMoneyIn()), Basis: keyOf(bases, in.GetBasis()), Zone: in.GetZone(),
		Begins: in.GetBegins(), Forward: amount.of(in.GetForward()), ForwardThrough: in.GetForwardThrough(), CreatedAt: in.GetCreatedAt().AsTime(),
		CreatedBy: in.GetCreatedBy(), SettingsVersion: int(in.GetSettingsVersion()), SettingsAt: in.GetSettingsAt().AsTime(), SettingsBy: in.GetSettingsBy(),
		Settings: BankSettings{
			Identifiers: s.GetIdentifiers(), Profile: s.GetProfile(), DaysBefore: int(s.GetDaysBefore()), DaysAfter: int(s.GetDaysAfter()),
			Tolerance: amount.of(s.GetTolerance()), TransitDays: int(s.GetTransitDays()), ReferenceKeys: s.GetReferenceKeys(), Confirm: s.GetConfirm(),
			AnyNumbers: s.GetAnyNumbers(), IgnoreBalances: s.GetIgnoreBalances(),
		},
	}
	for currency, decimals := range s.GetBai2Decimals() {
		if out.Settings.BAI2Decimals == nil {
			out.Settings.BAI2Decimals = map[ledger.CurrencyCode]int32{}
		}
		out.Settings.BAI2Decimals[ledger.CurrencyCode(currency)] = decimals
	}
	return out, amount.err
}

// BankProfile is how the CSV files of a bank are read, in one of its versions.
type BankProfile struct {
	Name    string
	Version int
	// Content is JSON, as docs/reconciliation.md describes it, with the name in it.
	Content string
	SavedAt time.Time
	SavedBy string
}

// SaveBankProfile keeps a profile, JSON with its name in it: as another version, if it is not the last one again. It returns CodeInvalidArgument.
func (r *Reconciliation) SaveBankProfile(ctx context.Context, content string) (BankProfile, error) {
	resp, err := call(ctx, r.client, r.api.SaveBankProfile, &khatav1.SaveBankProfileRequest{Ledger: r.ledger(), Content: content})
	if err != nil {
		return BankProfile{}, err
	}
	return decodeBankProfile(resp.GetProfile()), nil
}

// BankProfile gets a profile in one of its versions; 0 is the last one. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) BankProfile(ctx context.Context, name string, version int) (BankProfile, error) {
	resp, err := call(ctx, r.client, r.api.GetBankProfile, &khatav1.GetBankProfileRequest{Ledger: r.ledger(), Name: name, Version: encodeVersion(version)})
	if err != nil {
		return BankProfile{}, err
	}
	return decodeBankProfile(resp.GetProfile()), nil
}

// BankProfiles lists the last version of each profile, by name.
func (r *Reconciliation) BankProfiles(ctx context.Context) ([]BankProfile, error) {
	resp, err := call(ctx, r.client, r.api.ListBankProfiles, &khatav1.ListBankProfilesRequest{Ledger: r.ledger()})
	if err != nil {
		return nil, err
	}
	return each(resp.GetProfiles(), decodeBankProfile), nil
}

// encodeVersion keeps a version in the range of the wire; there is none that is out of it.
func encodeVersion(version int) int32 { return int32(min(max(version, -1), 1<<30)) }

func decodeBankProfile(in *khatav1.BankProfile) BankProfile {
	return BankProfile{
		Name: in.GetName(), Version: int(in.GetVersion()), Content: in.GetContent(), SavedAt: in.GetSavedAt().AsTime(), SavedBy: in.GetSavedBy(),
	}
}
