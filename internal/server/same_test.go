package server_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// TestSameTransfer posts the same transfer 200 times at once, from 50 connections to two servers on one database.
func TestSameTransfer(t *testing.T) {
	t.Parallel()
	allHaveTurns(t, sameTransfer)
}

func sameTransfer(ctx context.Context, t *testing.T) *history {
	t.Helper()
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	b.create(t, cash(), wallet("wallet:shimul", "0"))
	const connections, each = 50, 4
	h := newHistory()
	spec := move("TXN-88412", "cash", "wallet:shimul", "500.00")
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range connections {
		shared := []*client.Client{b.routes[i%2].dial(t)}
		for n := range each {
			c := &caller{history: h, clients: shared, random: random(1, i*each+n)}
			wg.Go(func() {
				<-begin
				c.post(ctx, spec)
			})
		}
	}
	close(begin)
	wg.Wait()
	if got := h.meter.count(); got != connections*each {
		t.Errorf("%d answers, want %d", got, connections*each)
	}
	if got := b.balance(t, "wallet:shimul"); got != "500.00" {
		t.Errorf("the balance is %s: the money has not moved once", got)
	}
	found := h.finish(t, b, true)
	if len(found.inOrder) != 1 {
		t.Errorf("%d transfers are there, want 1", len(found.inOrder))
	}
	return h
}

// TestFloor_ManyPayers has many clients spend the same money at once, under distinct ids, against two servers: as many
// get it as it suffices for, all others are refused, and stay refused.
func TestFloor_ManyPayers(t *testing.T) {
	t.Parallel()
	for _, test := range []manyPayers{
		{name: "third", balance: "100.00", floor: "0", amount: "3.00", payers: 50, posted: 33},
		{name: "exact", balance: "100.00", floor: "0", amount: "5.00", payers: 50, posted: 20},
		{name: "overdraft", balance: "0.01", floor: "-10.00", amount: "0.77", payers: 50, posted: 13},
		{name: "above", balance: "100.00", floor: "100.01", amount: "0.01", payers: 20, posted: 0},
		{name: "reserve", balance: "100.00", floor: "40.00", amount: "7.00", payers: 40, posted: 8, fee: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			allHaveTurns(t, test.run)
		})
	}
}

type manyPayers struct {
	name                   string
	balance, floor, amount string
	payers, posted         int
	fee                    bool // each also pays into one account that has no floor
}

func (test manyPayers) run(ctx context.Context, t *testing.T) *history {
	t.Helper()
	db := pgtest.New(t)
	b := newBench(t, db, db.ServiceDSN(), 2)
	b.create(t, cash(), wallet("payer", test.floor), ledger.AccountSpec{ID: "fees", Type: ledger.Revenue, Currency: "BDT"})
	h := newHistory()
	first := b.caller(t, h, random(1, 0))
	first.post(ctx, move("opening", "cash", "payer", test.balance))
	pay := func(id string) ledger.TransferSpec {
		s := move(ledger.TransferID(id), "payer", "cash", test.amount)
		if test.fee {
			s.Entries[0].Amount = s.Entries[0].Amount.Add(amount("0.50"))
			s.Entries = append(s.Entries, ledger.Entry{Account: "fees", Direction: ledger.Credit, Amount: amount("0.50")})
		}
		return s
	}
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range test.payers {
		c := &caller{history: h, clients: []*client.Client{b.routes[i%2].dial(t)}, random: random(1, i)}
		spec := pay(fmt.Sprintf("pay-%d", i))
		wg.Go(func() {
			<-begin
			c.post(ctx, spec)
		})
	}
	close(begin)
	wg.Wait()
	refused := h.refused()
	if posted := test.payers - len(refused); posted != test.posted {
		t.Errorf("%d were posted, want %d", posted, test.posted)
	}
	// Somebody has been told no: that does not change when money comes in, on whichever server.
	first.post(ctx, move("top-up", "cash", "payer", "1000.00"))
	for _, id := range refused {
		first.post(ctx, pay(string(id)))
	}
	first.post(ctx, pay("a-new-attempt"))
	if got := h.refused(); len(got) != len(refused) {
		t.Errorf("after the top-up %d are refused, want the same %d", len(got), len(refused))
	}
	h.finish(t, b, true)
	return h
}

// refused lists the ids that were told no for want of money.
func (h *history) refused() []ledger.TransferID {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []ledger.TransferID
	for id, x := range h.ids {
		if x.answered != nil && x.answered.Reason == ledger.CodeInsufficientFunds {
			list = append(list, id)
		}
	}
	return list
}
