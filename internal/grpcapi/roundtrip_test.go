package grpcapi_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func amountOf(text string) *decimal.Decimal {
	amount := decimal.RequireFromString(text)
	return &amount
}

// What the client says of a record is what the journal has of it, kind by kind, posted and refused.
func TestClient_RecordsCrossTheWire(t *testing.T) {
	t.Parallel()
	b := setup(t)
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	j := journal.New(pool, journal.Config{ExpireEvery: -1})
	t.Cleanup(j.Close)
	c := once(t, b.addr)
	ctx := t.Context()

	specs := []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"},
		{ID: "a", Type: ledger.Liability, Currency: "BDT", Floor: amountOf("-0.50"), Ceiling: amountOf("10000")},
		{ID: "b", Type: ledger.Liability, Currency: "BDT", Serialised: true},
		{ID: "shop", Type: ledger.Liability, Currency: "BDT"},
		{ID: "fx:bdt", Type: ledger.Equity, Currency: "BDT"}, {ID: "fx:jpy", Type: ledger.Equity, Currency: "JPY"},
		{ID: "yen", Type: ledger.Liability, Currency: "JPY"},
	}
	created, err := c.CreateAccounts(ctx, specs)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range created {
		want, err := j.Account(ctx, "", a.Account.ID)
		if diff := cmp.Diff(want, a.Account); diff != "" || err != nil {
			t.Errorf("account %s (-journal +client): %v\n%s", a.Account.ID, err, diff)
		}
	}

	zero, at := int64(0), time.Now().Add(time.Hour).Truncate(time.Microsecond).UTC()
	simple := func(id, debit, credit, amount string, terms *ledger.Terms) ledger.TransferSpec {
		return ledger.TransferSpec{
			ID: ledger.TransferID(id), Entries: ledger.Simple(ledger.AccountID(debit), ledger.AccountID(credit), *amountOf(amount), ""), Terms: terms,
		}
	}
	step := func(id string, terms ledger.Terms) ledger.TransferSpec {
		return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &terms}
	}
	refund := func(amount *decimal.Decimal, expected string, reason ledger.RefundReason) ledger.Terms {
		return ledger.Terms{Kind: ledger.Refund, Origin: "split", Amount: amount, ExpectedRefunded: amountOf(expected), Reason: reason}
	}
	transfers := []ledger.TransferSpec{
		simple("plain", "cash", "a", "1000.00", nil),
		simple("no-money", "a", "shop", "5000.00", nil),
		simple("if", "cash", "b", "1", &ledger.Terms{Kind: ledger.Plain, Conditions: []ledger.Condition{{Account: "b", Balance: amountOf("0.00"), Version: &zero}}}),
		simple("if-not", "cash", "b", "1", &ledger.Terms{Kind: ledger.Plain, Conditions: []ledger.Condition{{Account: "b", Balance: amountOf("-2")}}}),
		simple("balancing", "b", "shop", "5.00", &ledger.Terms{Kind: ledger.Plain, Balancing: true, Amount: amountOf("5.00")}),
		simple("balancing-none", "b", "shop", "5", &ledger.Terms{Kind: ledger.Plain, Balancing: true, Amount: amountOf("5")}),
		simple("hold", "a", "shop", "100.00", &ledger.Terms{Kind: ledger.Hold}),
		simple("hold-at", "a", "shop", "10", &ledger.Terms{Kind: ledger.Hold, ExpiresAt: &at}),
		simple("hold-after", "a", "shop", "10", &ledger.Terms{Kind: ledger.Hold, ExpiresAfter: 90*time.Minute + time.Microsecond}),
		simple("hold-none", "a", "shop", "10000", &ledger.Terms{Kind: ledger.Hold, Conditions: []ledger.Condition{{Account: "a", Version: &zero}}}),
		step("capture-1", ledger.Terms{Kind: ledger.Capture, Origin: "hold", Amount: amountOf("30"), KeepOpen: true}),
		step("capture-2", ledger.Terms{Kind: ledger.Capture, Origin: "hold", Amount: amountOf("70.01")}),
		step("capture-3", ledger.Terms{Kind: ledger.Capture, Origin: "hold"}),
		step("void", ledger.Terms{Kind: ledger.Void, Origin: "hold-at"}),
		step("void-again", ledger.Terms{Kind: ledger.Void, Origin: "hold-at"}),
		{ID: "split", Description: "three entries", Entries: []ledger.Entry{
			{Account: "a", Direction: ledger.Debit, Amount: *amountOf("100")}, {Account: "shop", Direction: ledger.Credit, Amount: *amountOf("66.67")},
			{Account: "b", Direction: ledger.Credit, Amount: *amountOf("33.33")},
		}},
		{ID: "fx", Entries: append(ledger.Simple("a", "fx:bdt", *amountOf("73.50"), ""), ledger.Simple("fx:jpy", "yen", *amountOf("100"), "")...)},
		step("fx-back", ledger.Terms{Kind: ledger.Reversal, Origin: "fx"}),
		step("reversal", ledger.Terms{Kind: ledger.Reversal, Origin: "capture-1"}),
		step("reversal-again", ledger.Terms{Kind: ledger.Reversal, Origin: "capture-1"}),
	}
	expected := decimal.Zero
	for i, reason := range ledger.RefundReasons() {
		spec := step(fmt.Sprintf("refund-%d", i), refund(amountOf("9.99"), expected.StringFixed(2), reason))
		spec.Description = "why"
		transfers = append(transfers, spec)
		expected = expected.Add(*amountOf("9.99"))
	}
	transfers = append(transfers, step("refund-too-much", refund(amountOf("9.99"), expected.String(), ledger.ReasonGoodwill)),
		step("refund-all", refund(nil, expected.String(), ledger.ReasonGoodwill)))

	results, err := c.PostTransfers(ctx, transfers)
	if err != nil {
		t.Fatal(err)
	}
	outcomes := map[ledger.Outcome]int{}
	check := func(id ledger.TransferID) {
		t.Helper()
		want, progress, err := j.Transfer(ctx, "", id)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		got, gotProgress, err := c.TransferWithProgress(ctx, id)
		if err != nil {
			t.Errorf("%s: %v", id, err)
			return
		}
		if diff := cmp.Diff(*want, got); diff != "" {
			t.Errorf("record of %s (-journal +client):\n%s", id, diff)
		}
		if (gotProgress == nil) != (want.Refusal != nil || want.Kind().IsStep() && want.Kind() != ledger.Capture) {
			t.Errorf("progress of %s: %v", id, gotProgress)
		}
		if gotProgress == nil {
			return
		}
		if diff := cmp.Diff(progress, *gotProgress, cmpopts.IgnoreUnexported(ledger.Progress{})); diff != "" {
			t.Errorf("progress of %s (-journal +client):\n%s", id, diff)
		}
	}
	for i, r := range results {
		if r.Err != nil {
			t.Errorf("%s: %v", transfers[i].ID, r.Err)
			continue
		}
		outcomes[r.Outcome()]++
		check(r.TransferID)
		record, err := c.Transfer(ctx, r.TransferID)
		if err != nil {
			t.Fatal(err)
		}
		if terms := record.Terms; r.Refusal == nil && terms != nil && (terms.Kind.IsStep() || terms.Balancing) {
			if diff := cmp.Diff(record.Entries, r.Entries); diff != "" {
				t.Errorf("entries of %s (-record +result):\n%s", r.TransferID, diff)
			}
		} else if r.Entries != nil {
			t.Errorf("entries of %s: %v", r.TransferID, r.Entries)
		}
		if record.Step != nil && !cmp.Equal(record.Step.Deadline, r.Deadline) || record.Step == nil && r.Deadline != nil {
			t.Errorf("deadline of %s: %v", r.TransferID, r.Deadline)
		}
	}
	if outcomes[ledger.Posted] != 24 || outcomes[ledger.Refused] != 8 {
		t.Errorf("outcomes: %v", outcomes)
	}
	again, err := c.PostTransfers(ctx, transfers)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range again {
		r.Replayed = results[i].Replayed
		if diff := cmp.Diff(results[i], r); diff != "" || !again[i].Replayed {
			t.Errorf("%s, sent again:\n%s", r.TransferID, diff)
		}
	}

	var holds []ledger.TransferID
	for h, err := range c.Holds(ctx, "a") {
		if err != nil {
			t.Fatal(err)
		}
		holds = append(holds, h.Transfer.ID)
		record, progress, err := c.TransferWithProgress(ctx, h.Transfer.ID)
		if diff := cmp.Diff(client.OpenHold{Transfer: record, Progress: *progress}, h, cmpopts.IgnoreUnexported(ledger.Progress{})); diff != "" || err != nil {
			t.Errorf("listed (-gotten +listed): %v\n%s", err, diff)
		}
	}
	if want := []ledger.TransferID{"hold-after"}; !cmp.Equal(holds, want) {
		t.Errorf("open holds %v, want %v", holds, want)
	}
	for _, err := range c.Holds(ctx, "nobody") {
		if !errors.Is(err, ledger.CodeAccountNotFound) {
			t.Errorf("holds of nobody: %v", err)
		}
	}
	for _, id := range []ledger.AccountID{"a", "shop", "yen"} {
		want, err := j.Balances(ctx, "", []ledger.AccountID{id})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Balance(ctx, id); err != nil || !cmp.Equal(want[0], got) {
			t.Errorf("balance of %s: %v\n%s", id, err, cmp.Diff(want[0], got))
		}
	}

	atomically, err := c.PostAtomically(ctx, []ledger.TransferSpec{
		simple("plain", "cash", "a", "1000.00", nil), simple("with", "cash", "a", "1", nil), simple("culprit", "a", "shop", "99999", nil),
	})
	if err != nil || !atomically[0].Replayed || !errors.Is(atomically[1].Err, ledger.CodeAtomicCallRefused) || atomically[2].Outcome() != ledger.Refused {
		t.Fatalf("atomically: %+v %v", atomically, err)
	}
	check("culprit")
	a, err := c.UpdateAccount(ctx, "a", ledger.AccountUpdate{RemoveCeiling: true, RemoveFloor: true})
	if err != nil || a.Ceiling != nil || a.Floor != nil {
		t.Errorf("without limits: %+v %v", a, err)
	}
	if a, err = c.UpdateAccount(ctx, "a", ledger.AccountUpdate{Ceiling: amountOf("7")}); err != nil || a.Ceiling == nil || !a.Ceiling.Equal(*amountOf("7")) {
		t.Errorf("with a ceiling: %+v %v", a, err)
	}
}
