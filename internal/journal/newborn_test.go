package journal_test

import (
	"testing"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// Rule: whatever is read with a floor is locked. An account that comes into being while a batch waits for the locks of
// others is not among them, since the statement that locks has not seen it; the statement that reads has. Without a second
// look both batches here would spend the same 100.
func TestRules_AccountBornWhileWaiting(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	holder, rival, watcher := b.raw(t), b.raw(t), b.raw(t)
	holder.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
	waiting := start(func() string {
		results, err := b.Post(t.Context(), "local", main, []ledger.TransferSpec{
			move("FIRST", "cash", "wallet", "1"), move("SECOND", "newborn", "shop", "100"),
		})
		if err != nil {
			return err.Error()
		}
		return describe(results[0]) + ", " + describe(results[1])
	})
	watcher.awaitJournalBlocked(t, 1)

	b.account(t, "newborn", ledger.Liability, "BDT", floor("0"))
	b.post(t, move("DEPOSIT", "cash", "newborn", "100"))
	rival.do(t, "BEGIN", gateShare, "SELECT FROM account WHERE account_id = 'newborn' FOR NO KEY UPDATE",
		insertMove("RIVAL", "newborn", "shop", "100"))
	holder.do(t, "COMMIT")
	// Now it waits for the newborn's lock, which the rival holds.
	watcher.awaitJournalBlocked(t, 1)
	pending(t, waiting)
	rival.do(t, "COMMIT")
	if got := result(t, waiting); got != "posted, refused insufficient funds" {
		t.Errorf("got %s", got)
	}
	if got := b.balance(t, "newborn"); got != "0.00" {
		t.Errorf("the newborn has %s", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Rule: what comes later in a call is not decided on the strength of what may not have happened before it. The deposit's
// batch cannot get its lock; the payment that needs it is in the next batch of the same call, and must not be refused.
func TestRules_LaterBatchesWaitForEarlier(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	b.account(t, "payer", ledger.Liability, "BDT", floor("0"))
	holder := b.raw(t)
	holder.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
	var specs []ledger.TransferSpec
	for i := range 999 {
		specs = append(specs, move("FILL-"+string(rune('a'+i%26))+string(rune('a'+i/26%26))+string(rune('a'+i/676)), "cash", "shop", "1"))
	}
	specs = append(specs, ledger.TransferSpec{ID: "DEPOSIT", Entries: []ledger.Entry{
		{Account: "cash", Direction: ledger.Debit, Amount: amount("101")},
		{Account: "payer", Direction: ledger.Credit, Amount: amount("100")},
		{Account: "wallet", Direction: ledger.Credit, Amount: amount("1")},
	}}, move("PAYMENT", "payer", "shop", "100"))
	results, err := b.Post(t.Context(), "local", main, specs)
	if err != nil {
		t.Fatal(err)
	}
	if got := ledger.CodeOf(results[1000].Err); got != ledger.CodeUnavailable {
		t.Errorf("the payment: %s %v, want it open like its deposit", describe(results[1000]), results[1000].Err)
	}
	holder.do(t, "COMMIT")
	results, err = b.Post(t.Context(), "local", main, specs)
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(results[1000]); got != "posted" {
		t.Errorf("the payment, again: %s", got)
	}
}

// Rule: a server that remembers rules hears of every change, whoever makes it. One by hand, numbered before a change that the
// server has seen and committed after it, would never be asked for; so it has to hold the gate alone, and is refused while
// transfers are under way.
func TestRules_ChangedByHand(t *testing.T) {
	t.Parallel()
	const freeze = "UPDATE account SET frozen = 'both', changed_by = 'psql' WHERE account_id = 'shop'"
	for name, guarded := range map[string]bool{"as it is": true, "without the guard": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			hand, super := b.raw(t), rawAs(t, b.db.SuperDSN())
			if !guarded {
				super.do(t, pgtest.Mutate("account_next_version", "NOT pg_try_advisory_xact_lock(4247, NEW.ledger_id)", "false"))
			}
			b.post(t, move("BEFORE", "cash", "shop", "1")) // shop is remembered
			hand.do(t, "BEGIN", freeze)
			creating := start(func() error {
				_, err := b.CreateAccounts(t.Context(), "local", main, []ledger.AccountSpec{{ID: "newborn", Type: ledger.Liability, Currency: "BDT"}})
				return err
			})
			seen := start(func() string { return describeAll(<-postAsync(b.Journal, move("BESIDE", "cash", "newborn", "1"))) })
			if guarded {
				super.awaitJournalBlocked(t, 2) // both at the gate
			} else {
				if err := result(t, creating); err != nil {
					t.Fatal(err)
				}
				result(t, seen)
				b.post(t, move("LATER", "cash", "newborn", "1"))
			}
			hand.do(t, "COMMIT")
			if guarded {
				if err := result(t, creating); err != nil {
					t.Fatal(err)
				}
				result(t, seen)
			}
			got := describe(b.post(t, move("AFTER", "cash", "shop", "1")))
			if frozen := got == "refused account frozen"; frozen != guarded {
				t.Errorf("posting to the account that was frozen by hand: %s", got)
			}
			if guarded {
				ledgertest.CheckBooks(t, b.db)
			}
		})
	}

	b := setupShop(t)
	poster, hand := b.raw(t), b.raw(t)
	poster.do(t, "BEGIN", gateShare)
	if _, err := hand.Exec(t.Context(), freeze); refusedWith(err) != "55P03" {
		t.Errorf("while a transfer is under way: %v", err)
	}
	hand.do(t, "UPDATE account SET name = 'The shop', changed_by = 'psql' WHERE account_id = 'shop'") // is no rule
	poster.do(t, "COMMIT")
	hand.do(t, freeze)
}
