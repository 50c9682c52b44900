package ledgertest

import (
	"fmt"
	"slices"
)

// Model is a ledger as one would write it on a napkin: one thing at a time, whole minor units, everything in memory. It is
// told what happened in the order of the sequence, and says what should have happened.
type Model struct {
	accounts  map[string]*ModelAccount
	transfers map[string]ModelTransfer
}

// ModelAccount is an account of the model.
type ModelAccount struct {
	DebitNormal bool
	Floor       *int64
	// Frozen has "debit" and "credit" in it.
	Frozen []string
	Closed bool
	// Balance is in the normal direction.
	Balance int64
}

// ModelEntry is an entry of the model: positive debits, negative credits.
type ModelEntry struct {
	Account string
	Signed  int64
}

// ModelTransfer is a transfer and what became of it.
type ModelTransfer struct {
	Entries []ModelEntry
	Note    string
	// Outcome is "posted", or the reason of the refusal.
	Outcome string
}

// NewModel makes an empty ledger.
func NewModel() *Model {
	return &Model{accounts: map[string]*ModelAccount{}, transfers: map[string]ModelTransfer{}}
}

// Open makes an account.
func (m *Model) Open(id string, a ModelAccount) { m.accounts[id] = &a }

// Account returns an account, or nil.
func (m *Model) Account(id string) *ModelAccount { return m.accounts[id] }

// Transfer returns what became of an id.
func (m *Model) Transfer(id string) (ModelTransfer, bool) {
	t, ok := m.transfers[id]
	return t, ok
}

// Decide decides a new id and keeps the outcome.
func (m *Model) Decide(id string, entries []ModelEntry, note string) string {
	if _, taken := m.transfers[id]; taken {
		panic("the model has decided " + id + " before")
	}
	outcome := m.judge(entries)
	if outcome == "posted" {
		for _, e := range entries {
			m.accounts[e.Account].Balance += m.normal(e)
		}
	}
	m.transfers[id] = ModelTransfer{Entries: entries, Note: note, Outcome: outcome}
	return outcome
}

func (m *Model) normal(e ModelEntry) int64 {
	if m.accounts[e.Account].DebitNormal {
		return e.Signed
	}
	return -e.Signed
}

func (m *Model) judge(entries []ModelEntry) string {
	for _, e := range entries {
		side := "debit"
		if e.Signed < 0 {
			side = "credit"
		}
		a := m.accounts[e.Account]
		if a.Closed {
			return "ACCOUNT_CLOSED"
		}
		if slices.Contains(a.Frozen, side) {
			return "ACCOUNT_FROZEN"
		}
	}
	changes := map[string]int64{}
	for _, e := range entries {
		changes[e.Account] += m.normal(e)
	}
	for id, change := range changes {
		a := m.accounts[id]
		if a.Floor != nil && change < 0 && a.Balance+change < *a.Floor {
			return "INSUFFICIENT_FUNDS"
		}
	}
	return "posted"
}

// Same reports whether a transfer of the model has this content, whatever the order of the entries.
func (t ModelTransfer) Same(entries []ModelEntry, note string) bool {
	key := func(list []ModelEntry) []string {
		var keys []string
		for _, e := range list {
			keys = append(keys, fmt.Sprint(e.Account, " ", e.Signed))
		}
		slices.Sort(keys)
		return keys
	}
	return t.Note == note && slices.Equal(key(t.Entries), key(entries))
}
