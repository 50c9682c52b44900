package eventstest

import (
	"context"
	"slices"
	"testing"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

// Fact is what an event tells of. No two facts of a journal have the same topic, key and sequence.
type Fact struct {
	Topic, Key string
	// Type and Subject are the attributes of the event.
	Type, Subject string
	Sequence      int64
}

// Expected lists the facts that a journal should have become on these topics, ledger by ledger, in the order of decision.
func Expected(t testing.TB, j *journal.Journal, topics relay.Topics) []Fact {
	t.Helper()
	ctx, feed := context.Background(), j.Feed()
	ledgers, err := feed.Unread(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	var facts []Fact
	for _, l := range ledgers {
		for last := int64(0); ; {
			records, err := feed.Records(ctx, l.LedgerID, last, 500)
			if err != nil {
				t.Fatal(err)
			}
			if len(records) == 0 {
				break
			}
			for _, r := range records {
				if r.Fault != nil {
					t.Errorf("record %d cannot be read: %v", r.Sequence, r.Fault)
				}
				facts = appendFacts(facts, topics, string(l.Ledger)+"/", r)
			}
			last = records[len(records)-1].Sequence
		}
	}
	return facts
}

var typeOfKind = map[ledger.Kind]string{
	ledger.Plain: "posted", ledger.Hold: "held", ledger.Capture: "captured", ledger.Void: "voided", ledger.Expiry: "expired",
	ledger.Refund: "refunded", ledger.Reversal: "reversed",
}

func appendFacts(facts []Fact, topics relay.Topics, prefix string, r journal.Record) []Fact {
	if c := r.Change; c != nil {
		account := string(c.Account.ID)
		return append(facts, Fact{topics.Accounts, prefix + account, "khata.account." + whatChanged(c) + ".v1", account, r.Sequence})
	}
	lifeline, outcome := r.Transfer.ID, typeOfKind[r.Transfer.Kind()]
	if origin := r.Transfer.Origin(); origin != "" {
		lifeline = origin
	}
	if r.Transfer.Refusal != nil {
		outcome = "refused"
	}
	facts = append(facts, Fact{topics.Transfers, prefix + string(lifeline), "khata.transfer." + outcome + ".v1", string(r.Transfer.ID), r.Sequence})
	for _, m := range r.Movements {
		account := string(m.Account)
		facts = append(facts, Fact{topics.Accounts, prefix + account, "khata.account.moved.v1", account, r.Sequence})
	}
	return facts
}

func whatChanged(c *journal.Change) string {
	if c.Before == nil {
		return "opened"
	}
	changed := c.Account.ChangedFrom(*c.Before)
	switch {
	case slices.Contains(changed, "closed"):
		return "closed"
	case !slices.Contains(changed, "frozen"):
		return "updated"
	case c.Account.Frozen == ledger.FrozenNone:
		return "unfrozen"
	}
	return "frozen"
}
