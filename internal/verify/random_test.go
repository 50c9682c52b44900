package verify_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// A capture moves what was counted when it was held: it breaks neither the floor of who is paid, though less comes in than was to, nor
// the ceiling of who pays, though something stays.
func TestRun_CaptureLacksNothing(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	zero := decimal.Zero
	b.accounts(t, main,
		ledger.AccountSpec{ID: "payer", Type: ledger.Liability, Currency: "BDT", Ceiling: dec("100")},
		ledger.AccountSpec{ID: "shop", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	)
	b.post(t, main, "posted", move("M-in", "cash", "payer", "100"), hold("H-1", "payer", "shop", "100", ledger.Terms{}), capture("C-1", "H-1", "50", false))
	if _, all := breaches(run(t, b.db.ServiceDSN())); all != "" {
		t.Error(all)
	}
}

// history draws requests of every kind, many of them wrong, about few accounts and transfers.
type history struct {
	mu     sync.Mutex
	posted []ledger.TransferID
}

// draw makes a request; mine are the ids of its call so far.
func (h *history) draw(r *rand.Rand, id ledger.TransferID, mine []ledger.TransferID) ledger.TransferSpec {
	spec := h.drawKind(r, id, mine)
	if r.IntN(4) == 0 && spec.Kind().Moves() {
		spec = dated(spec, month(time.Month(1+r.IntN(6))))
	}
	return spec
}

func (h *history) drawKind(r *rand.Rand, id ledger.TransferID, mine []ledger.TransferID) ledger.TransferSpec {
	names := []ledger.AccountID{"a", "b", "c", "d", "e"}
	debit, credit, amount := names[r.IntN(5)], names[r.IntN(5)], strconv.Itoa(1+r.IntN(40))
	if debit == credit {
		credit = "cash"
	}
	var spec ledger.TransferSpec
	switch r.IntN(10) {
	case 0, 1:
		spec = move(id, debit, credit, amount)
	case 2, 3:
		spec = hold(id, debit, credit, amount, ledger.Terms{})
		if r.IntN(3) == 0 {
			spec.Terms.ExpiresAfter = time.Second
		}
	case 4, 5:
		return capture(id, h.origin(r, mine), []string{"", "1", "7", amount}[r.IntN(4)], r.IntN(2) == 0)
	case 6:
		return void(id, h.origin(r, mine))
	case 7:
		return refund(id, h.origin(r, mine), []string{"", "1", amount}[r.IntN(3)], strconv.Itoa(r.IntN(3)))
	case 8:
		return reversal(id, h.origin(r, mine))
	default:
		spec = balancing(id, debit, credit, amount)
	}
	if version := int64(r.IntN(3)); r.IntN(5) == 0 {
		spec = conditional(spec, ledger.Condition{Account: debit, Balance: dec(strconv.Itoa(r.IntN(5)))})
		if version > 0 {
			spec = conditional(spec, ledger.Condition{Account: debit, Version: &version})
		}
	}
	return spec
}

func (h *history) origin(r *rand.Rand, mine []ledger.TransferID) ledger.TransferID {
	if len(mine) > 0 && r.IntN(2) == 0 {
		return mine[r.IntN(len(mine))]
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.posted[max(0, len(h.posted)-1-r.IntN(20))]
}

// Whatever is asked for by many at once, what the journal makes of it is sound.
func TestRun_RandomHistory(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	zero := decimal.Zero
	b.accounts(t, main,
		ledger.AccountSpec{ID: "a", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		ledger.AccountSpec{ID: "b", Type: ledger.Liability, Currency: "BDT", Floor: &zero, Ceiling: dec("60")},
		ledger.AccountSpec{ID: "c", Type: ledger.Asset, Currency: "BDT", Ceiling: dec("80")},
		ledger.AccountSpec{ID: "d", Type: ledger.Asset, Currency: "BDT", Serialised: true},
		ledger.AccountSpec{ID: "e", Type: ledger.Expense, Currency: "BDT"},
	)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &history{posted: []ledger.TransferID{"T-in"}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var clients sync.WaitGroup
	for client := range 4 {
		clients.Go(func() {
			r := rand.New(rand.NewPCG(uint64(client), seed)) //nolint:gosec // It is no secret.
			for i := 0; ctx.Err() == nil; i++ {
				b.random(t, h, r, fmt.Sprintf("Z-%d-%d", client, i))
			}
		})
	}
	clients.Wait()
	tamper(t, b.db.ServiceDSN(), markBooks)
	if _, all := breaches(run(t, b.db.ServiceDSN())); all != "" {
		t.Error(all)
	}
}

// random makes one call, and now and then changes rules or expires holds.
func (b *books) random(t *testing.T, h *history, r *rand.Rand, call string) {
	var specs []ledger.TransferSpec
	var mine []ledger.TransferID
	for k := range 1 + r.IntN(8) {
		id := ledger.TransferID(fmt.Sprintf("%s-%d", call, k))
		specs = append(specs, h.draw(r, id, mine))
		mine = append(mine, id)
	}
	post := b.Post
	if r.IntN(3) == 0 {
		post = b.PostAtomically
	}
	// The context is the test's: a batch that has begun is waited for.
	results, err := post(t.Context(), "local", main, specs)
	if err != nil {
		t.Error(err)
		return
	}
	for i, result := range results {
		switch {
		case ledger.CodeOf(result.Err) == ledger.CodeInternal:
			t.Errorf("%+v: %v", specs[i], result.Err)
		case result.Err == nil && result.Transfer.Refusal == nil:
			h.mu.Lock()
			h.posted = append(h.posted, specs[i].ID)
			h.mu.Unlock()
		}
	}
	if r.IntN(10) == 0 {
		if err := b.ExpireHolds(t.Context()); err != nil {
			t.Error(err)
		}
	}
	switch r.IntN(50) {
	case 0:
	case 1:
		b.closePeriod(t, month(time.Month(1+r.IntN(6))))
		return
	case 2:
		b.reopenPeriod(t, month(time.Month(1+r.IntN(6))), "at random")
		return
	default:
		return
	}
	frozen := []ledger.Frozen{ledger.FrozenNone, ledger.FrozenNone, ledger.FrozenNone, ledger.FrozenBoth, ledger.FrozenCredits, ledger.FrozenDebits}[r.IntN(6)]
	for id, update := range map[ledger.AccountID]ledger.AccountUpdate{
		"d": {Frozen: &frozen}, "b": {Ceiling: dec(strconv.Itoa(20 + r.IntN(60)))}, "c": {Floor: dec(strconv.Itoa(-r.IntN(60)))},
	} {
		if _, err := b.UpdateAccount(t.Context(), "local", main, id, update); err != nil {
			t.Error(err)
		}
	}
}
