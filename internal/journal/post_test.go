package journal_test

import (
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

func TestPost_TenTimesIsOnce(t *testing.T) {
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet:tithi", ledger.Liability, "BDT", floor("0"))
	first := b.post(t, move("TXN-1", "cash", "wallet:tithi", "500.00"))
	if got := describe(first); got != "posted" {
		t.Fatalf("first: %s %v", got, first.Err)
	}
	for range 9 {
		again := b.post(t, move("TXN-1", "cash", "wallet:tithi", "500"))
		if again.Err != nil || !again.Replayed || again.Transfer.Sequence != first.Transfer.Sequence ||
			!again.Transfer.PostedAt.Equal(first.Transfer.PostedAt) {
			t.Fatalf("again: %+v, first %+v", again, first.Transfer)
		}
	}
	if got := b.balance(t, "wallet:tithi"); got != "500.00" {
		t.Errorf("balance %s", got)
	}
}
