package ledger

import (
	"time"

	"github.com/shopspring/decimal"
)

const (
	// MaxName is the most bytes of an account's display name.
	MaxName = 256
	// MaxDescription is the most bytes of a transfer's description.
	MaxDescription = 1024
)

// Direction is the side of an entry.
type Direction string

// The two sides.
const (
	Debit  Direction = "debit"
	Credit Direction = "credit"
)

// AccountType is the kind of an account, and so its normal balance. It never changes.
type AccountType string

// The five kinds of account.
const (
	Asset     AccountType = "asset"
	Liability AccountType = "liability"
	Equity    AccountType = "equity"
	Revenue   AccountType = "revenue"
	Expense   AccountType = "expense"
)

// Valid reports whether t is one of the five.
func (t AccountType) Valid() bool {
	switch t {
	case Asset, Liability, Equity, Revenue, Expense:
		return true
	}
	return false
}

// NormalBalance is the side on which entries make the account's balance grow.
func (t AccountType) NormalBalance() Direction {
	if t == Asset || t == Expense {
		return Debit
	}
	return Credit
}

// Signed turns an amount on one side into a change of the balance in the account's normal direction.
func (t AccountType) Signed(direction Direction, amount decimal.Decimal) decimal.Decimal {
	if direction == t.NormalBalance() {
		return amount
	}
	return amount.Neg()
}

// Frozen says on which sides an account takes no entries.
type Frozen string

// The states of freezing.
const (
	FrozenNone    Frozen = "none"
	FrozenDebits  Frozen = "debits"
	FrozenCredits Frozen = "credits"
	FrozenBoth    Frozen = "both"
)

// Valid reports whether f is one of the four.
func (f Frozen) Valid() bool {
	return f == FrozenNone || f == FrozenDebits || f == FrozenCredits || f == FrozenBoth
}

// Blocks reports whether an entry on that side is refused.
func (f Frozen) Blocks(direction Direction) bool {
	return f == FrozenBoth || f == FrozenDebits && direction == Debit || f == FrozenCredits && direction == Credit
}

// Account is a bucket of one currency.
type Account struct {
	ID       AccountID
	Type     AccountType
	Currency Currency
	// Name is for people, at most MaxName bytes.
	Name     string
	Metadata Metadata
	// Floor is the least balance, in the normal direction and the account's currency, that a transfer may leave; nil is
	// none. A floor above the balance blocks only what decreases it.
	Floor *decimal.Decimal
	// Ceiling is the most balance, in the same way, that a transfer may leave, with what open holds will add to it; nil is none. A
	// ceiling below the balance blocks only what increases it.
	Ceiling *decimal.Decimal
	// Serialised accounts are locked while a transfer is decided, one at a time. A floor or a ceiling implies it.
	Serialised bool
	Frozen     Frozen
	// Closed accounts take no entries, and stay closed.
	Closed bool
	// Version is the sequence of the account's last change, from the same counter as the transfers.
	Version   int64
	CreatedAt time.Time
	UpdatedAt time.Time
}

// AccountSpec is a request for a new account.
type AccountSpec struct {
	ID         AccountID
	Type       AccountType
	Currency   CurrencyCode
	Name       string
	Metadata   Metadata
	Floor      *decimal.Decimal
	Ceiling    *decimal.Decimal
	Serialised bool
}

// Validate returns CodeInvalidArgument unless the request is well-formed.
func (s AccountSpec) Validate() error {
	if err := s.ID.Validate("account"); err != nil {
		return err
	}
	if !s.Type.Valid() {
		return Invalid("type", "%.40q is not asset, liability, equity, revenue or expense", string(s.Type))
	}
	if err := s.Currency.Validate("currency"); err != nil {
		return err
	}
	return validateText(s.Name, "name", MaxName)
}

// Resolve gives the account that the request makes, in its currency. It returns CodeAmountScale for a floor or ceiling that is
// more precise than the currency, and CodeInvalidArgument for a ceiling below the floor.
func (s AccountSpec) Resolve(currency Currency) (Account, error) {
	if err := checkLimits(s.Floor, s.Ceiling, currency, "ceiling"); err != nil {
		return Account{}, err
	}
	return Account{
		ID: s.ID, Type: s.Type, Currency: currency, Name: s.Name, Metadata: s.Metadata, Floor: s.Floor, Ceiling: s.Ceiling,
		Serialised: s.Serialised || s.Floor != nil || s.Ceiling != nil, Frozen: FrozenNone,
	}, nil
}

// checkLimits names the field that was given where floor and ceiling do not go together.
func checkLimits(floor, ceiling *decimal.Decimal, currency Currency, given string) error {
	if floor != nil {
		if err := checkScale(*floor, currency, "floor"); err != nil {
			return err
		}
	}
	if ceiling == nil {
		return nil
	}
	if err := checkScale(*ceiling, currency, "ceiling"); err != nil {
		return err
	}
	switch {
	case floor == nil || floor.LessThanOrEqual(*ceiling):
		return nil
	case given == "floor":
		return Invalid("floor", "%s is above the ceiling, which is %s", floor, ceiling)
	default:
		return Invalid("ceiling", "%s is below the floor, which is %s", ceiling, floor)
	}
}

// Differences names the fields in which the account, as it was created, differs from a request for it. The balance, the
// dates and later changes are not part of it.
func (a Account) Differences(created Account) []Violation {
	var diff differences
	diff.add(a.Type != created.Type, "type")
	diff.add(a.Currency.Code != created.Currency.Code, "currency")
	diff.add(a.Name != created.Name, "name")
	diff.add(a.Metadata != created.Metadata, "metadata")
	diff.add(!sameAmount(a.Floor, created.Floor), "floor")
	diff.add(!sameAmount(a.Ceiling, created.Ceiling), "ceiling")
	diff.add(a.Serialised != created.Serialised, "serialised")
	return diff
}

// ChangedFrom names the fields in which the account differs from an earlier state of it, in the order of the wire's fields.
func (a Account) ChangedFrom(before Account) []string {
	var fields []string
	for _, field := range []struct {
		name    string
		differs bool
	}{
		{"name", a.Name != before.Name}, {"metadata", a.Metadata != before.Metadata}, {"floor", !sameAmount(a.Floor, before.Floor)},
		{"serialised", a.Serialised != before.Serialised}, {"frozen", a.Frozen != before.Frozen}, {"closed", a.Closed != before.Closed},
		{"ceiling", !sameAmount(a.Ceiling, before.Ceiling)},
	} {
		if field.differs {
			fields = append(fields, field.name)
		}
	}
	return fields
}

// AccountUpdate is a request to change an account. A nil field stays as it is; each other is set, so that ten times is
// once.
type AccountUpdate struct {
	Name     *string
	Metadata *Metadata
	// Floor sets the floor, RemoveFloor removes it.
	Floor       *decimal.Decimal
	RemoveFloor bool
	// Ceiling sets the ceiling, RemoveCeiling removes it.
	Ceiling       *decimal.Decimal
	RemoveCeiling bool
	Serialised    *bool
	Frozen        *Frozen
	// Closed can only be set: closing is final.
	Closed *bool
}

// Validate returns CodeInvalidArgument unless the request is well-formed.
func (u AccountUpdate) Validate() error {
	if u.Name != nil {
		if err := validateText(*u.Name, "name", MaxName); err != nil {
			return err
		}
	}
	if u.Frozen != nil && !u.Frozen.Valid() {
		return Invalid("frozen", "%.40q is not none, debits, credits or both", string(*u.Frozen))
	}
	if u.Floor != nil && u.RemoveFloor {
		return Invalid("floor", "cannot be set and removed at once")
	}
	if u.Ceiling != nil && u.RemoveCeiling {
		return Invalid("ceiling", "cannot be set and removed at once")
	}
	if u == (AccountUpdate{}) {
		return Invalid("account", "the request changes nothing: set name, metadata, floor, ceiling, serialised, frozen or closed")
	}
	return nil
}

// ChangesRules reports whether the update touches what decides about transfers, and so must not race with one.
func (u AccountUpdate) ChangesRules() bool {
	return u.Floor != nil || u.RemoveFloor || u.Ceiling != nil || u.RemoveCeiling || u.Serialised != nil || u.Frozen != nil || u.Closed != nil
}

// Apply gives the account as the update leaves it, given its balance. It returns CodeAmountScale for a floor or ceiling more
// precise than the currency, CodeInvalidArgument for a ceiling below the floor and for an account with either that is to be
// unserialised, CodeAccountClosed for a closed account that is to be opened, and CodeBalanceNotZero for one with a balance or an
// open hold that is to be closed.
func (u AccountUpdate) Apply(a Account, balance Balance) (Account, error) {
	if u.Name != nil {
		a.Name = *u.Name
	}
	if u.Metadata != nil {
		a.Metadata = *u.Metadata
	}
	if u.Serialised != nil {
		a.Serialised = *u.Serialised
	}
	if u.RemoveFloor {
		a.Floor = nil
	}
	if u.Floor != nil {
		a.Floor = u.Floor
	}
	if u.RemoveCeiling {
		a.Ceiling = nil
	}
	if u.Ceiling != nil {
		a.Ceiling = u.Ceiling
	}
	given := "ceiling"
	if u.Ceiling == nil {
		given = "floor"
	}
	if err := checkLimits(a.Floor, a.Ceiling, a.Currency, given); err != nil {
		return a, err
	}
	if (a.Floor != nil || a.Ceiling != nil) && !a.Serialised {
		if u.Serialised != nil {
			return a, Invalid("serialised", "%s has a floor or a ceiling, which needs it", a.ID)
		}
		a.Serialised = true
	}
	if u.Frozen != nil {
		a.Frozen = *u.Frozen
	}
	if u.Closed != nil && *u.Closed != a.Closed {
		if a.Closed {
			return a, Errorf(CodeAccountClosed, "account %s is closed, and closing is final", a.ID)
		}
		if !balance.Posted.IsZero() {
			return a, Errorf(CodeBalanceNotZero, "account %s has a balance of %s %s; only an account with a balance of zero can be closed",
				a.ID, FormatAmount(balance.Posted, a.Currency.Scale), a.Currency.Code)
		}
		if open := balance.Held.Add(balance.Incoming); !open.IsZero() {
			return a, Errorf(CodeBalanceNotZero, "account %s has open holds of %s %s; only an account without can be closed",
				a.ID, FormatAmount(open, a.Currency.Scale), a.Currency.Code)
		}
		a.Closed = true
	}
	return a, nil
}

// Unchanged reports whether b is the same account in the same state.
func (a Account) Unchanged(b Account) bool {
	return a.ID == b.ID && len(a.ChangedFrom(b)) == 0
}
