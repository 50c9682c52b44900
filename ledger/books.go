package ledger

import (
	"fmt"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// Books is what must be known of a ledger to decide a batch of transfers: the accounts and the records that the batch
// names, as they are while the locks are held. Deciding changes it, so that later transfers of the batch see earlier ones.
//
// It is not safe for concurrent use.
type Books struct {
	accounts  map[AccountID]*bookAccount
	transfers map[TransferID]*Transfer
	decided   []*Transfer
}

type bookAccount struct {
	*Account
	balance decimal.Decimal
}

// NewBooks makes empty books, with room for so many accounts and transfers.
func NewBooks(accounts, transfers int) *Books {
	return &Books{
		accounts: make(map[AccountID]*bookAccount, accounts), transfers: make(map[TransferID]*Transfer, transfers),
		decided: make([]*Transfer, 0, transfers),
	}
}

// AddAccount enters an account, which must not change any more, and its balance in the normal direction. The balance matters
// only if it has a floor.
func (b *Books) AddAccount(a *Account, balance decimal.Decimal) {
	b.accounts[a.ID] = &bookAccount{Account: a, balance: balance}
}

// AddTransfer enters the record of a transfer that was decided earlier.
func (b *Books) AddTransfer(t *Transfer) { b.transfers[t.ID] = t }

// Decided returns the transfers that Decide has newly decided, in the order of decision. They have no sequence yet.
func (b *Books) Decided() []*Transfer { return b.decided }

// Decide judges one well-formed request (see TransferSpec.Validate) by one caller. It returns the record of its id and
// whether that was there before: a new record, posted or refused, or the first answer again.
//
// It returns CodeAlreadyExists if the id is taken by other content, naming the fields that differ to the caller who posted
// the record, and to no one else; and, with nothing decided, CodeAccountNotFound, CodeCurrencyMismatch,
// CodeAmountScale or CodeUnbalanced.
func (b *Books) Decide(spec TransferSpec, caller string) (record *Transfer, replayed bool, err error) {
	record, taken := b.transfers[spec.ID]
	if taken {
		if err := sameRequest(record, spec, caller); err != nil {
			return nil, false, err
		}
	}
	// Also for a retry: what is no amount of its currency was never what was posted, whatever its value.
	entries, err := b.resolve(spec.Entries)
	if err != nil {
		return nil, false, err
	}
	if taken {
		return record, true, nil
	}
	spec.Entries = entries
	record = &Transfer{TransferSpec: spec, Caller: caller, Refusal: b.judge(entries)}
	if record.Refusal == nil {
		b.apply(entries)
	}
	b.transfers[spec.ID] = record
	b.decided = append(b.decided, record)
	return record, false, nil
}

func sameRequest(record *Transfer, spec TransferSpec, caller string) error {
	taken := Errorf(CodeAlreadyExists, "transfer_id %q is taken", string(spec.ID))
	if record.Caller != caller {
		return taken
	}
	if diff := record.Differences(spec); len(diff) > 0 {
		taken.Message += " by a transfer with other content"
		taken.Violations = diff
		return taken
	}
	return nil
}

// resolve checks the entries against the immutable facts of their accounts, and gives them their currency.
func (b *Books) resolve(entries []Entry) ([]Entry, error) {
	resolved := slices.Clone(entries)
	var missing []Violation
	for i, e := range entries {
		a, ok := b.accounts[e.Account]
		if !ok {
			missing = append(missing, Violation{
				Field: fieldOf(entries, i, "account"), Message: fmt.Sprintf("%s does not exist", e.Account),
			})
			continue
		}
		if e.Currency.Code != "" && e.Currency.Code != a.Currency.Code {
			return nil, atEntry(entries, i, violation(CodeCurrencyMismatch, "currency", "is %s, but account %s is in %s",
				e.Currency.Code, e.Account, a.Currency.Code))
		}
		if err := checkScale(e.Amount, a.Currency, "amount"); err != nil {
			return nil, atEntry(entries, i, err)
		}
		resolved[i].Currency = a.Currency
	}
	if len(missing) > 0 {
		return nil, (&Error{Code: CodeAccountNotFound, Message: CodeAccountNotFound.Error(), Violations: missing}).capped()
	}
	if debit, credit := resolved[0].Currency.Code, resolved[1].Currency.Code; isSimple(resolved) && debit != credit {
		return nil, violation(CodeCurrencyMismatch, "currency", "the debit account is in %s, the credit account in %s", debit, credit)
	}
	return resolved, checkBalanced(resolved)
}

// checkBalanced returns CodeUnbalanced unless debits and credits agree in each currency.
func checkBalanced(entries []Entry) error {
	if isSimple(entries) && entries[0].Currency.Code == entries[1].Currency.Code && entries[0].Amount.Equal(entries[1].Amount) {
		return nil
	}
	sums := map[CurrencyCode]decimal.Decimal{}
	for _, e := range entries {
		amount := e.Amount
		if e.Direction == Credit {
			amount = amount.Neg()
		}
		sums[e.Currency.Code] = sums[e.Currency.Code].Add(amount)
	}
	var off []string
	for currency, sum := range sums {
		if !sum.IsZero() {
			off = append(off, fmt.Sprintf("%s by %s", currency, sum))
		}
	}
	if len(off) == 0 {
		return nil
	}
	slices.Sort(off)
	if more := len(off) - maxViolations; more > 0 {
		off = append(off[:maxViolations], fmt.Sprintf("and %d more", more))
	}
	return violation(CodeUnbalanced, "entries", "debits minus credits is off in %s; each currency must balance", strings.Join(off, ", "))
}

// judge applies the rules that depend on the state of the books. Accounts that take no such entry at all come before
// accounts without the funds; among them the first in the order of the entries gives the reason.
func (b *Books) judge(entries []Entry) *Refusal {
	for _, e := range entries {
		switch a := b.accounts[e.Account]; {
		case a.Closed:
			return &Refusal{Reason: CodeAccountClosed, Account: e.Account}
		case a.Frozen.Blocks(e.Direction):
			return &Refusal{Reason: CodeAccountFrozen, Account: e.Account}
		}
	}
	for _, e := range entries {
		a := b.accounts[e.Account]
		if a.Floor == nil {
			continue
		}
		change := b.change(entries, e.Account)
		if change.IsNegative() && a.balance.Add(change).LessThan(*a.Floor) {
			return &Refusal{Reason: CodeInsufficientFunds, Account: e.Account}
		}
	}
	return nil
}

// change sums what the entries do to an account, in its normal direction.
func (b *Books) change(entries []Entry, id AccountID) decimal.Decimal {
	sum := decimal.Zero
	for _, e := range entries {
		if e.Account == id {
			sum = sum.Add(b.accounts[id].Type.Signed(e.Direction, e.Amount))
		}
	}
	return sum
}

func (b *Books) apply(entries []Entry) {
	for _, e := range entries {
		if a := b.accounts[e.Account]; a.Floor != nil {
			a.balance = a.balance.Add(a.Type.Signed(e.Direction, e.Amount))
		}
	}
}
