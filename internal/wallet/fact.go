package wallet

import (
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// key names an account.
type key struct {
	ledger  ledger.Name
	account ledger.AccountID
}

// fact is something that became of an account: a movement or a change.
type fact struct {
	key
	version int64
	at      time.Time
	// moved is nil for a change, and changed for a movement.
	moved   *movement
	changed *change
}

// movement is what a transfer did to the account.
type movement struct {
	transfer     ledger.TransferID
	kind         ledger.Kind
	origin       ledger.TransferID
	currency     ledger.Currency
	posted       decimal.Decimal
	held         decimal.Decimal
	incoming     decimal.Decimal
	effectiveAt  *time.Time
	description  string
	payer, payee ledger.AccountID
}

// change is the account as a change left it.
type change struct {
	kind     ledger.AccountType
	currency ledger.CurrencyCode
	name     string
	frozen   ledger.Frozen
	closed   bool
}

// ofEvent reads an event. The error is that of one that can never be read.
func ofEvent(e inbox.Event) (f fact, err error) {
	switch e.Type {
	case "khata.account.moved.v1":
		f, err = ofMovement(e.Data)
	case "khata.account.opened.v1", "khata.account.updated.v1", "khata.account.frozen.v1", "khata.account.unfrozen.v1", "khata.account.closed.v1":
		f, err = ofChange(e.Data)
	default:
		return f, fmt.Errorf("the type %.100q is not known here: it may be of a later version of Khata. Use that one's khata, and have the event replayed", e.Type)
	}
	if err != nil {
		return f, err
	}
	return f, f.check(string(e.Key))
}

func ofMovement(data []byte) (fact, error) {
	var m khatav1.AccountMovement
	if err := proto.Unmarshal(data, &m); err != nil {
		return fact{}, fmt.Errorf("read a movement: %w", err)
	}
	f := fact{
		key: key{ledger.Name(m.Ledger), ledger.AccountID(m.Account)}, version: m.Version, at: m.PostedAt.AsTime(),
		moved: &movement{
			transfer: ledger.TransferID(m.TransferId), origin: ledger.TransferID(m.Origin), currency: ledger.Currency{Code: ledger.CurrencyCode(m.Currency)},
			description: m.Description, payer: ledger.AccountID(m.Payer), payee: ledger.AccountID(m.Payee),
		},
	}
	var known bool
	if f.moved.kind, known = wire.TransferKinds[m.Kind]; !known {
		return fact{}, fmt.Errorf("read a movement: a transfer of kind %d is not known here", m.Kind)
	}
	if m.EffectiveAt != nil {
		at := m.EffectiveAt.AsTime()
		f.moved.effectiveAt = &at
	}
	for _, part := range []struct {
		text string
		into *decimal.Decimal
	}{{m.Posted, &f.moved.posted}, {m.Held, &f.moved.held}, {m.Incoming, &f.moved.incoming}} {
		var err error
		if *part.into, err = ledger.ParseBalance(part.text, "amount"); err != nil {
			return fact{}, fmt.Errorf("read a movement: %w", err)
		}
	}
	// Amounts are at the scale of their currency.
	f.moved.currency.Scale = max(0, -f.moved.posted.Exponent())
	return f, nil
}

func ofChange(data []byte) (fact, error) {
	var m khatav1.AccountEvent
	if err := proto.Unmarshal(data, &m); err != nil {
		return fact{}, fmt.Errorf("read a change of an account: %w", err)
	}
	a := m.GetAccount()
	f := fact{
		key: key{ledger.Name(m.Ledger), ledger.AccountID(a.GetAccount())}, version: a.GetVersion(), at: a.GetUpdatedAt().AsTime(),
		changed: &change{
			kind: wire.AccountTypes[a.GetType()], currency: ledger.CurrencyCode(a.GetCurrency()), name: a.GetName(), frozen: wire.Frozens[a.GetFrozen()],
			closed: a.GetClosed(),
		},
	}
	return f, nil
}

// check tells a message that is something else, which protobuf may read all the same, and one under another account's key: in another partition
// than that account's it could come before what comes before it.
func (f fact) check(key string) error {
	currency := ledger.CurrencyCode("")
	if f.moved != nil {
		currency = f.moved.currency.Code
	} else {
		currency = f.changed.currency
	}
	err := errors.Join(f.ledger.Validate("ledger"), f.account.ValidateFormat("account"), currency.Validate("currency"))
	switch {
	case err != nil:
		return fmt.Errorf("it is no event of a ledger: %w", err)
	case f.version <= 0:
		return fmt.Errorf("it is no event of a ledger: its sequence is %d", f.version)
	case key != string(f.ledger)+"/"+string(f.account):
		return fmt.Errorf("it is of account %s of ledger %s, and has the key %.200q", f.account, f.ledger, key)
	case f.changed != nil && (f.changed.kind == "" || f.changed.frozen == ""):
		return errors.New("the account has a type, or is frozen in a way, that is not known here")
	}
	return nil
}

// ofRecord makes facts of a record of the journal, as its events tell them.
func ofRecord(facts []fact, name ledger.Name, r journal.Record) []fact {
	if c := r.Change; c != nil {
		a := c.Account
		return append(facts, fact{key: key{name, a.ID}, version: a.Version, at: a.UpdatedAt, changed: &change{a.Type, a.Currency.Code, a.Name, a.Frozen, a.Closed}})
	}
	t := r.Transfer
	payer, payee := t.Parties()
	for _, m := range r.Movements {
		facts = append(facts, fact{key: key{name, m.Account}, version: r.Sequence, at: t.PostedAt, moved: &movement{
			transfer: t.ID, kind: t.Kind(), origin: t.Origin(), currency: m.Currency, posted: m.Posted, held: m.Held, incoming: m.Incoming,
			effectiveAt: t.EffectiveAt, description: t.Description, payer: payer, payee: payee,
		}})
	}
	return facts
}
