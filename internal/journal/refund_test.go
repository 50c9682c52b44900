package journal_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// Many agents refund parts of one transfer at once, over two servers. Each reads what has been refunded, and tries again under a new id
// where somebody was quicker. Nothing is refunded twice, and in the end everything is.
func TestRefund_ManyAgents(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	b.account(t, "fees", ledger.Revenue, "BDT", nil)
	original := ledger.TransferSpec{ID: "SALE", Entries: []ledger.Entry{
		{Account: "cash", Direction: ledger.Debit, Amount: amount("1000.01")},
		{Account: "shop", Direction: ledger.Credit, Amount: amount("970.00")},
		{Account: "fees", Direction: ledger.Credit, Amount: amount("30.01")},
	}}
	if r := b.post(t, original); describe(r) != "posted" {
		t.Fatal(describe(r), r.Err)
	}
	var tries, lost atomic.Int64
	var mu sync.Mutex
	sum := decimal.Zero
	var wg sync.WaitGroup
	for c := range 64 {
		j := []*journal.Journal{b.Journal, other}[c%2]
		wg.Go(func() {
			for {
				_, p, err := j.Transfer(t.Context(), main, "SALE")
				if err != nil {
					t.Error(err)
					return
				}
				if p.Refundable.IsZero() {
					return
				}
				part := decimal.Min(p.Refundable, decimal.New(1+rand.Int64N(3000), -2))
				spec := refund(fmt.Sprintf("R%d", tries.Add(1)), "SALE", part.String(), p.Refunded.String())
				r := insist(t, j, spec)
				switch got := describeAll([]journal.PostResult{r}); got {
				case "posted":
					mu.Lock()
					sum = sum.Add(part)
					mu.Unlock()
				case "REFUNDED_CHANGED":
					lost.Add(1)
				default:
					t.Errorf("%s %v", got, r.Err)
					return
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d tries, %d of them too late", tries.Load(), lost.Load())
	if lost.Load() == 0 {
		t.Error("nobody was ever too late: this has tested nothing")
	}
	if !sum.Equal(amount("1000.01")) {
		t.Errorf("%s were refunded", sum)
	}
	for _, id := range []ledger.AccountID{"cash", "shop", "fees"} {
		if got := b.funds(t, id); got != "0, 0, 0" {
			t.Errorf("%s has %s", id, got)
		}
	}
	if got := b.each(t, refund("MORE", "SALE", "0.01", "1000.01"), refund("ALL", "SALE", "", "1000.01"), reverse("REV", "SALE"),
		refund("AGAIN", "R1", "", "0")); got != "REFUND_EXCEEDS_REST, REFUND_EXCEEDS_REST, ALREADY_REFUNDED, WRONG_ORIGIN" {
		t.Error(got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// A hundred refunds of a transfer that does not divide evenly end at exactly zero, for each account.
func TestRefund_DividesExactly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", floor("0"))
	b.account(t, "fees", ledger.Revenue, "BDT", nil)
	b.post(t, ledger.TransferSpec{ID: "SALE", Entries: []ledger.Entry{
		{Account: "shop", Direction: ledger.Credit, Amount: amount("66.67")},
		{Account: "fees", Direction: ledger.Credit, Amount: amount("33.33")},
		{Account: "cash", Direction: ledger.Debit, Amount: amount("100.00")},
	}})
	for i := range 100 {
		if r := b.post(t, refund(fmt.Sprint("R", i), "SALE", "1", fmt.Sprint(i))); describe(r) != "posted" {
			t.Fatal(describe(r), r.Err)
		}
	}
	for _, id := range []ledger.AccountID{"cash", "shop", "fees"} {
		if got := b.funds(t, id); got != "0, 0, 0" {
			t.Errorf("%s has %s", id, got)
		}
	}
	if p := b.progress(t, "SALE"); !p.Refunded.Equal(amount("100")) || !p.Refundable.IsZero() || len(p.Steps) != 100 {
		t.Errorf("%+v", p)
	}
	ledgertest.CheckBooks(t, b.db)
}

// A refund or reversal that an account cannot take says which account, and why.
func TestRefund_OfShutAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.account(t, "shop", ledger.Liability, "BDT", floor("0"))
	update := func(id ledger.AccountID, u ledger.AccountUpdate) {
		t.Helper()
		if _, err := b.UpdateAccount(t.Context(), "local", main, id, u); err != nil {
			t.Fatal(err)
		}
	}
	reason := func(spec ledger.TransferSpec) string {
		t.Helper()
		r := b.post(t, spec)
		if r.Err != nil || r.Transfer.Refusal == nil {
			return describe(r)
		}
		return fmt.Sprint(string(r.Transfer.Refusal.Reason), " ", r.Transfer.Refusal.Account)
	}
	b.post(t, move("IN", "cash", "wallet", "10"))
	b.post(t, move("PAY", "wallet", "shop", "10"))
	frozen, none, closed := ledger.FrozenCredits, ledger.FrozenNone, true
	update("wallet", ledger.AccountUpdate{Frozen: &frozen})
	if got := reason(refund("R1", "PAY", "5", "0")) + ", " + reason(reverse("V1", "PAY")); got != "ACCOUNT_FROZEN wallet, ACCOUNT_FROZEN wallet" {
		t.Error(got)
	}
	update("wallet", ledger.AccountUpdate{Frozen: &none})
	b.post(t, move("OUT", "shop", "cash", "7"))
	if got := reason(refund("R2", "PAY", "5", "0")) + ", " + reason(reverse("V2", "PAY")); got != "INSUFFICIENT_FUNDS shop, INSUFFICIENT_FUNDS shop" {
		t.Error(got)
	}
	if got := reason(refund("R3", "PAY", "3", "0")) + ", " + reason(refund("R1", "PAY", "5", "0")); got != "posted, ACCOUNT_FROZEN wallet" {
		t.Error(got)
	}
	b.post(t, move("SPEND", "wallet", "cash", "3"))
	update("wallet", ledger.AccountUpdate{Closed: &closed})
	if got := reason(refund("R4", "PAY", "1", "3")); got != "ACCOUNT_CLOSED wallet" {
		t.Error(got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Of a refund and a reversal that race, one wins; so it is of two reversals.
func TestRefund_RacesWithReversal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	won := map[string]int{}
	for n := range storm(40, 400) {
		id := fmt.Sprint("S", n)
		b.post(t, move(id, "cash", "shop", "10"))
		contenders := []ledger.TransferSpec{reverse(id+"V", id), refund(id+"R", id, "4", "0"), reverse(id+"W", id), refund(id+"Q", id, "", "0")}
		rand.Shuffle(len(contenders), func(i, k int) { contenders[i], contenders[k] = contenders[k], contenders[i] })
		var wg sync.WaitGroup
		answers := make([]journal.PostResult, len(contenders))
		for i, spec := range contenders {
			wg.Go(func() { answers[i] = post(t, []*journal.Journal{b.Journal, other}[i%2], spec) })
		}
		wg.Wait()
		posted := 0
		for i, r := range answers {
			switch got := describeAll([]journal.PostResult{r}); got {
			case "posted":
				posted++
				won[string(contenders[i].Kind())]++
			case "ALREADY_REVERSED", "ALREADY_REFUNDED", "REFUNDED_CHANGED":
			default:
				t.Errorf("%s: %s %v", contenders[i].ID, got, r.Err)
			}
		}
		if posted != 1 {
			t.Errorf("%s: %d went through: %s", id, posted, describeAll(answers))
		}
	}
	t.Logf("%v", won)
	ledgertest.CheckBooks(t, b.db)
}
