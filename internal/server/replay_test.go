package server_test

import (
	"slices"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// replay decides every transfer again, one after the other in the order of their sequences, by rules written anew, and
// compares: every outcome must be what it would have been if everything had happened one at a time in that order. So a
// floor also holds at every sequence, and nobody posted to an account that was frozen or closed at that point.
func (b *books) replay(t testing.TB) {
	t.Helper()
	accounts := map[ledger.AccountID]*replayed{}
	changes := b.changes
	apply := func(until int64) {
		for ; len(changes) > 0 && changes[0].sequence <= until; changes = changes[1:] {
			c := changes[0]
			if c.sequence == until {
				t.Errorf("sequence %d is both a transfer and a change of %s", until, c.account.ID)
			}
			a := accounts[c.account.ID]
			if a == nil {
				a = &replayed{}
				accounts[c.account.ID] = a
			}
			a.Account = c.account
			if a.Closed && !a.balance.IsZero() {
				t.Errorf("%s was closed at sequence %d with a balance of %s", a.ID, c.sequence, a.balance)
			}
		}
	}
	wrong := 0
	for i, r := range b.inOrder {
		if i > 0 && r.Sequence == b.inOrder[i-1].Sequence {
			t.Errorf("sequence %d is there twice", r.Sequence)
		}
		apply(r.Sequence)
		reason, account := judge(accounts, r.spec.Entries)
		if reason != r.Reason || account != r.Account {
			if wrong++; wrong <= 5 {
				t.Errorf("%s at sequence %d was decided %q (%s); at that point it had to be %q (%s): %s",
					r.spec.ID, r.Sequence, r.Reason, r.Account, reason, account, contentOf(r.spec))
			}
		}
		if r.Reason != "" {
			continue
		}
		for _, e := range r.spec.Entries {
			a := accounts[e.Account]
			a.balance = a.balance.Add(a.Type.Signed(e.Direction, e.Amount))
		}
	}
	if wrong > 5 {
		t.Errorf("and %d outcomes more disagree with the order of sequences", wrong-5)
	}
	for id, a := range accounts {
		if sum := a.Type.Signed(ledger.Debit, b.sums[id]); !sum.Equal(a.balance) {
			t.Errorf("%s: entries sum to %s, its transfers to %s", id, sum, a.balance)
		}
	}
}

type replayed struct {
	ledger.Account
	balance decimal.Decimal // in the normal direction
}

func judge(accounts map[ledger.AccountID]*replayed, entries []ledger.Entry) (ledger.Code, ledger.AccountID) {
	change := map[ledger.AccountID]decimal.Decimal{}
	for _, e := range entries {
		a := accounts[e.Account]
		if a == nil {
			return ledger.CodeAccountNotFound, e.Account
		}
		if a.Closed {
			return ledger.CodeAccountClosed, e.Account
		}
		sides := []ledger.Frozen{ledger.FrozenBoth, ledger.FrozenDebits}
		if e.Direction == ledger.Credit {
			sides[1] = ledger.FrozenCredits
		}
		if slices.Contains(sides, a.Frozen) {
			return ledger.CodeAccountFrozen, e.Account
		}
		change[e.Account] = change[e.Account].Add(a.Type.Signed(e.Direction, e.Amount))
	}
	for _, e := range entries {
		a, d := accounts[e.Account], change[e.Account]
		if a.Floor != nil && d.IsNegative() && a.balance.Add(d).LessThan(*a.Floor) {
			return ledger.CodeInsufficientFunds, e.Account
		}
	}
	return "", ""
}
