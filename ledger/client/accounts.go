package client

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Ledger is a separate set of books.
type Ledger struct {
	Name      ledger.Name
	CreatedAt time.Time
}

// CreateLedger makes a ledger, or returns the one that is there. It returns CodeInvalidArgument.
func (c *Client) CreateLedger(ctx context.Context, name ledger.Name) (Ledger, error) {
	resp, err := call(ctx, c, c.api.CreateLedger, &khatav1.CreateLedgerRequest{Name: string(name)})
	if err != nil {
		return Ledger{}, err
	}
	return decodeLedger(resp.GetLedger()), nil
}

// Ledgers lists all ledgers in the order of their names.
func (c *Client) Ledgers(ctx context.Context) ([]Ledger, error) {
	resp, err := call(ctx, c, c.api.ListLedgers, &khatav1.ListLedgersRequest{})
	return each(resp.GetLedgers(), decodeLedger), err
}

func decodeLedger(in *khatav1.Ledger) Ledger {
	return Ledger{Name: ledger.Name(in.GetName()), CreatedAt: in.GetCreatedAt().AsTime()}
}

// RegisterCurrency makes a currency known that ISO 4217 does not define. It returns CodeInvalidArgument, or
// CodeAlreadyExists if it is registered with another scale.
func (c *Client) RegisterCurrency(ctx context.Context, currency ledger.Currency) error {
	_, err := call(ctx, c, c.api.RegisterCurrency, &khatav1.RegisterCurrencyRequest{
		Ledger:   string(c.options.Ledger),
		Currency: &khatav1.Currency{Code: string(currency.Code), Scale: currency.Scale},
	})
	return err
}

// Currencies lists the currencies that accounts can have.
func (c *Client) Currencies(ctx context.Context) ([]ledger.Currency, error) {
	resp, err := call(ctx, c, c.api.ListCurrencies, &khatav1.ListCurrenciesRequest{Ledger: string(c.options.Ledger)})
	return each(resp.GetCurrencies(), func(in *khatav1.Currency) ledger.Currency {
		return ledger.Currency{Code: ledger.CurrencyCode(in.GetCode()), Scale: in.GetScale()}
	}), err
}

// CreatedAccount is the answer to a request for an account.
type CreatedAccount struct {
	Account ledger.Account
	// Created reports whether this request made it.
	Created bool
}

// CreateAccount makes an account. A repeated request returns the account as it is now. It returns CodeInvalidArgument,
// CodeAmountScale, CodeCurrencyNotFound, and CodeAlreadyExists if the id is taken by an account created otherwise.
func (c *Client) CreateAccount(ctx context.Context, spec ledger.AccountSpec) (CreatedAccount, error) {
	if spec.Ceiling != nil {
		if err := c.knowsTerms(ctx); err != nil {
			return CreatedAccount{}, err
		}
	}
	resp, err := call(ctx, c, c.api.CreateAccount, &khatav1.CreateAccountRequest{
		Ledger: string(c.options.Ledger), Account: encodeAccount(spec),
	})
	if err != nil {
		return CreatedAccount{}, err
	}
	return decodeCreated(resp)
}

// CreateAccounts makes up to 10,000 accounts, all or none, and returns them in the order of the requests. Its errors are
// those of CreateAccount.
func (c *Client) CreateAccounts(ctx context.Context, specs []ledger.AccountSpec) ([]CreatedAccount, error) {
	if slices.ContainsFunc(specs, func(spec ledger.AccountSpec) bool { return spec.Ceiling != nil }) {
		if err := c.knowsTerms(ctx); err != nil {
			return nil, err
		}
	}
	resp, err := call(ctx, c, c.api.CreateAccounts, &khatav1.CreateAccountsRequest{
		Ledger: string(c.options.Ledger), Accounts: each(specs, encodeAccount),
	})
	if err != nil {
		return nil, err
	}
	return tryEach(resp.GetResults(), decodeCreated)
}

func decodeCreated(in *khatav1.CreateAccountResponse) (CreatedAccount, error) {
	a, err := decodeAccount(in.GetAccount())
	return CreatedAccount{Account: a, Created: in.GetCreated()}, err
}

// Account gets an account. It returns CodeAccountNotFound.
func (c *Client) Account(ctx context.Context, id ledger.AccountID) (ledger.Account, error) {
	resp, err := call(ctx, c, c.api.GetAccount, &khatav1.GetAccountRequest{Ledger: string(c.options.Ledger), Account: string(id)})
	if err != nil {
		return ledger.Account{}, err
	}
	return decodeAccount(resp.GetAccount())
}

// Accounts goes through the accounts whose ids begin with prefix, in bytewise order. It ends after an error.
func (c *Client) Accounts(ctx context.Context, prefix string) iter.Seq2[ledger.Account, error] {
	return func(yield func(ledger.Account, error) bool) {
		req := &khatav1.ListAccountsRequest{Ledger: string(c.options.Ledger), Prefix: prefix}
		for {
			resp, err := call(ctx, c, c.api.ListAccounts, req)
			if err != nil {
				yield(ledger.Account{}, err)
				return
			}
			for _, in := range resp.GetAccounts() {
				if a, err := decodeAccount(in); !yield(a, err) || err != nil {
					return
				}
			}
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				return
			}
		}
	}
}

// UpdateAccount changes an account and returns it as it then is. It returns CodeInvalidArgument, CodeAccountNotFound,
// CodeAmountScale, CodeAccountClosed and CodeBalanceNotZero.
func (c *Client) UpdateAccount(ctx context.Context, id ledger.AccountID, update ledger.AccountUpdate) (ledger.Account, error) {
	req := &khatav1.UpdateAccountRequest{
		Ledger: string(c.options.Ledger), Account: string(id), Name: update.Name, Serialised: update.Serialised, Closed: update.Closed,
	}
	if update.Metadata != nil {
		req.Metadata = proto.String(string(*update.Metadata))
	}
	if update.Floor != nil {
		req.Floor = proto.String(ledger.FormatWritten(*update.Floor))
	} else if update.RemoveFloor {
		req.Floor = proto.String("")
	}
	if update.Ceiling != nil {
		req.Ceiling = proto.String(ledger.FormatWritten(*update.Ceiling))
	} else if update.RemoveCeiling {
		req.Ceiling = proto.String("")
	}
	if update.Frozen != nil {
		req.Frozen = frozens[*update.Frozen]
	}
	if req.Ceiling != nil {
		if err := c.knowsTerms(ctx); err != nil {
			return ledger.Account{}, err
		}
	}
	resp, err := call(ctx, c, c.api.UpdateAccount, req)
	if err != nil {
		return ledger.Account{}, err
	}
	return decodeAccount(resp.GetAccount())
}

var accountTypes = map[ledger.AccountType]khatav1.AccountType{
	ledger.Asset:     khatav1.AccountType_ACCOUNT_TYPE_ASSET,
	ledger.Liability: khatav1.AccountType_ACCOUNT_TYPE_LIABILITY,
	ledger.Equity:    khatav1.AccountType_ACCOUNT_TYPE_EQUITY,
	ledger.Revenue:   khatav1.AccountType_ACCOUNT_TYPE_REVENUE,
	ledger.Expense:   khatav1.AccountType_ACCOUNT_TYPE_EXPENSE,
}

var frozens = map[ledger.Frozen]khatav1.Frozen{
	ledger.FrozenNone:    khatav1.Frozen_FROZEN_NONE,
	ledger.FrozenDebits:  khatav1.Frozen_FROZEN_DEBITS,
	ledger.FrozenCredits: khatav1.Frozen_FROZEN_CREDITS,
	ledger.FrozenBoth:    khatav1.Frozen_FROZEN_BOTH,
}

func encodeAccount(spec ledger.AccountSpec) *khatav1.NewAccount {
	out := &khatav1.NewAccount{
		Account: string(spec.ID), Type: accountTypes[spec.Type], Currency: string(spec.Currency), Name: spec.Name,
		Metadata: string(spec.Metadata), Serialised: spec.Serialised,
	}
	if spec.Floor != nil {
		out.Floor = proto.String(ledger.FormatWritten(*spec.Floor))
	}
	if spec.Ceiling != nil {
		out.Ceiling = proto.String(ledger.FormatWritten(*spec.Ceiling))
	}
	return out
}

func decodeAccount(in *khatav1.Account) (ledger.Account, error) {
	a := ledger.Account{
		ID: ledger.AccountID(in.GetAccount()), Type: keyOf(accountTypes, in.GetType()), Name: in.GetName(),
		Metadata: ledger.Metadata(in.GetMetadata()), Serialised: in.GetSerialised(), Frozen: keyOf(frozens, in.GetFrozen()),
		Closed: in.GetClosed(), Version: in.GetVersion(), CreatedAt: in.GetCreatedAt().AsTime(), UpdatedAt: in.GetUpdatedAt().AsTime(),
		Currency: ledger.Currency{Code: ledger.CurrencyCode(in.GetCurrency()), Scale: in.GetScale()},
	}
	var err error
	if a.Floor, err = decodeOptional(in.GetFloor()); err != nil {
		return a, err
	}
	a.Ceiling, err = decodeOptional(in.GetCeiling())
	return a, err
}

// decodeAmount reads an amount of the server's.
func decodeAmount(text string) (decimal.Decimal, error) {
	amount, err := decimal.NewFromString(text)
	if err != nil {
		return amount, ledger.Errorf(ledger.CodeInternal, "the server sent %q, which is no amount", text)
	}
	return amount, nil
}

func keyOf[K, V comparable](m map[K]V, value V) K {
	for k, v := range m {
		if v == value {
			return k
		}
	}
	var none K
	return none
}

func each[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}

func tryEach[A, B any](list []A, f func(A) (B, error)) ([]B, error) {
	out := make([]B, len(list))
	for i, v := range list {
		var err error
		if out[i], err = f(v); err != nil {
			return nil, err
		}
	}
	return out, nil
}
