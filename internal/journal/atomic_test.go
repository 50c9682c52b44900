package journal_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

func (b *bench) atomically(t testing.TB, specs ...ledger.TransferSpec) []journal.PostResult {
	t.Helper()
	results, err := b.PostAtomically(t.Context(), "local", main, specs)
	if err != nil {
		t.Fatal(err)
	}
	return results
}

// Of an atomic call of a thousand whose last one is refused, that refusal is all that is recorded.
func TestAtomic_LastOneRefused(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	b.post(t, move("IN", "cash", "wallet", "999"))
	specs := make([]ledger.TransferSpec, 1000)
	for i := range specs {
		specs[i] = move(fmt.Sprint("A", i), "wallet", "shop", "1")
	}
	for range 2 {
		results := b.atomically(t, specs...)
		for i, r := range results[:999] {
			if ledger.CodeOf(r.Err) != ledger.CodeAtomicCallRefused || !strings.Contains(r.Err.Error(), `transfers[999]: "A999" was refused: INSUFFICIENT_FUNDS of wallet`) {
				t.Fatalf("%d: %s %v", i, describe(r), r.Err)
			}
		}
		if r := results[999]; r.Err != nil || r.Transfer.Refusal == nil || !r.Transfer.Atomic {
			t.Fatalf("the culprit: %s %v", describe(r), r.Err)
		}
		if got := b.transfers(t, "A%"); got != 1 {
			t.Errorf("%d records", got)
		}
	}
	// P7: the culprit's id is spent, also by itself; the others are not.
	if got := b.each(t, specs[999], specs[0]); got != "INSUFFICIENT_FUNDS, posted" {
		t.Error(got)
	}
	// One that would have been posted in another call's company goes through without it.
	if got := describeAll(b.atomically(t, specs[:5]...)); got != "replayed, posted, posted, posted, posted" {
		t.Error(got)
	}
	if got := b.funds(t, "wallet"); got != "994, 0, 0" {
		t.Error(got)
	}
	ledgertest.CheckBooks(t, b.db)
}

func TestAtomic_Culprits(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	b.post(t, move("IN", "cash", "wallet", "100"))
	bad := move("BAD", "wallet", "shop", "1")
	bad.Entries[0].Amount = amount("0.001")
	malformed := move("", "wallet", "shop", "1")
	for _, c := range []struct {
		name  string
		specs []ledger.TransferSpec
		want  string
	}{
		{"all well", []ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "shop", "wallet", "1")}, "posted, posted"},
		{"again", []ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("2", "shop", "wallet", "1")}, "replayed, replayed"},
		{"other content", []ledger.TransferSpec{move("3", "wallet", "shop", "1"), move("2", "shop", "wallet", "2")}, "ATOMIC_CALL_REFUSED, ALREADY_EXISTS"},
		{"no account", []ledger.TransferSpec{move("3", "wallet", "nobody", "1"), move("4", "shop", "wallet", "2")}, "ACCOUNT_NOT_FOUND, ATOMIC_CALL_REFUSED"},
		{"too precise", []ledger.TransferSpec{move("1", "wallet", "shop", "1"), move("3", "wallet", "shop", "1"), bad}, "replayed, ATOMIC_CALL_REFUSED, AMOUNT_SCALE"},
		{"malformed", []ledger.TransferSpec{move("3", "wallet", "shop", "1"), malformed, bad}, "ATOMIC_CALL_REFUSED, INVALID_ARGUMENT, ATOMIC_CALL_REFUSED"},
		{"by what came before", []ledger.TransferSpec{move("3", "wallet", "cash", "60"), move("4", "wallet", "cash", "60")}, "ATOMIC_CALL_REFUSED, INSUFFICIENT_FUNDS"},
		{"the other way round", []ledger.TransferSpec{move("4", "wallet", "cash", "60"), move("3", "wallet", "cash", "60")}, "INSUFFICIENT_FUNDS, ATOMIC_CALL_REFUSED"},
		{"through a balance", []ledger.TransferSpec{move("5", "cash", "wallet", "900"), move("6", "wallet", "shop", "1000")}, "posted, posted"},
		{"a hold and its end", []ledger.TransferSpec{move("7", "shop", "wallet", "10"), hold("8", "wallet", "shop", "10"), capture("9", "8", "4"), capture("10", "8", "1")},
			"ATOMIC_CALL_REFUSED, ATOMIC_CALL_REFUSED, ATOMIC_CALL_REFUSED, HOLD_ENDED"},
		{"what is left of it", []ledger.TransferSpec{capture("11", "8", "1")}, "TRANSFER_NOT_FOUND"},
		{"and once more", []ledger.TransferSpec{move("7", "shop", "wallet", "10"), hold("8", "wallet", "shop", "10"), capture("9", "8", "4")}, "posted, posted, posted"},
	} {
		if got := describeAll(b.atomically(t, c.specs...)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if got := b.funds(t, "wallet"); got != "6, 0, 0" {
		t.Error(got)
	}
	many := make([]ledger.TransferSpec, 1001)
	if _, err := b.PostAtomically(t.Context(), "local", main, many); ledger.CodeOf(err) != ledger.CodeInvalidArgument {
		t.Error(err)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Atomic calls that pay in a ring, from many clients: money is never between two accounts, whoever looks.
func TestAtomic_Ring(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	const wallets = 5
	id := func(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprint("w", n%wallets)) }
	var all []ledger.AccountID
	for n := range wallets {
		b.account(t, id(n), ledger.Liability, "BDT", floor("0"))
		all = append(all, id(n))
	}
	b.post(t, move("IN", "cash", "w0", "7"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for c := range 16 {
		j := []*journal.Journal{b.Journal, other}[c%2]
		wg.Go(func() {
			for n := range storm(6, 60) {
				var specs []ledger.TransferSpec
				for k := range wallets { // All the way round, or not at all.
					specs = append(specs, move(fmt.Sprintf("%d-%d-%d", c, n, k), id(c+k), id(c+k+1), "2"))
				}
				results, err := j.PostAtomically(t.Context(), "local", main, specs)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				outcomes[describe(results[0])]++
				mu.Unlock()
				balances, err := j.Balances(t.Context(), main, all)
				if err != nil {
					t.Error(err)
					return
				}
				if got := balances[0].Posted.String(); got != "7" {
					t.Errorf("w0 has %s", got)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%v", outcomes)
	ledgertest.CheckBooks(t, b.db)
}

// Conditions, balancing transfers and ceilings: what is expected, what there is, and at most so much.
func TestConditional(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("-10"))
	if _, err := b.CreateAccounts(t.Context(), "local", main, []ledger.AccountSpec{
		{ID: "jar", Type: ledger.Liability, Currency: "BDT", Ceiling: floor("100")},
		{ID: "till", Type: ledger.Asset, Currency: "BDT", Serialised: true},
	}); err != nil {
		t.Fatal(err)
	}
	given := func(spec ledger.TransferSpec, c ...ledger.Condition) ledger.TransferSpec {
		spec.Terms = &ledger.Terms{Kind: ledger.Plain, Conditions: c}
		return spec
	}
	atMost := func(spec ledger.TransferSpec) ledger.TransferSpec {
		spec.Terms = &ledger.Terms{Kind: ledger.Plain, Balancing: true, Amount: &spec.Entries[0].Amount}
		return spec
	}
	version := func(id ledger.AccountID) *int64 {
		balances, err := b.Balances(t.Context(), main, []ledger.AccountID{id})
		if err != nil {
			t.Fatal(err)
		}
		return &balances[0].Version
	}
	b.post(t, move("IN", "cash", "wallet", "50"))
	old := version("wallet")
	for _, step := range []struct {
		spec ledger.TransferSpec
		want string
	}{
		{given(move("1", "wallet", "jar", "10"), ledger.Condition{Account: "wallet", Balance: floor("49")}), "CONDITION_FAILED"},
		{given(move("2", "wallet", "jar", "10"), ledger.Condition{Account: "wallet", Balance: floor("50.00"), Version: old}), "posted"},
		{given(move("2", "wallet", "jar", "10"), ledger.Condition{Account: "wallet", Balance: floor("50.0"), Version: old}), "replayed"},
		{given(move("3", "wallet", "jar", "10"), ledger.Condition{Account: "wallet", Version: old}), "CONDITION_FAILED"},
		{given(move("4", "wallet", "cash", "1"), ledger.Condition{Account: "cash", Balance: floor("50")}), "NOT_SERIALISED"},
		{hold("5", "wallet", "jar", "10"), "posted"},
		{move("6", "cash", "jar", "80.01"), "CEILING_EXCEEDED"}, // With what the hold will bring.
		{atMost(move("7", "cash", "jar", "90")), "posted"},
		{atMost(move("8", "cash", "jar", "1")), "CEILING_EXCEEDED"},
		{capture("9", "5", ""), "posted"},
		{atMost(move("10", "wallet", "cash", "1000")), "posted"},
		{atMost(move("11", "wallet", "cash", "1000")), "INSUFFICIENT_FUNDS"},
		{atMost(move("10", "wallet", "cash", "1000")), "replayed"},
		{atMost(move("10", "wallet", "cash", "40")), "ALREADY_EXISTS"},
		{move("10", "wallet", "cash", "40"), "ALREADY_EXISTS"},
		{move("12", "till", "cash", "5"), "posted"},
		{atMost(move("13", "cash", "till", "7")), "posted"}, // It has no floor, and gives what there is.
	} {
		if got := describeAll([]journal.PostResult{b.post(t, step.spec)}); got != step.want {
			t.Errorf("%s: %s, want %s", step.spec.ID, got, step.want)
		}
	}
	for id, want := range map[ledger.AccountID]string{"wallet": "-10, 0, 0", "jar": "100, 0, 0", "till": "0, 0, 0"} {
		if got := b.funds(t, id); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
	ledgertest.CheckBooks(t, b.db)
}

// Many clients who post on the condition that nothing has changed: one at a time gets through.
func TestConditional_CompareAndSet(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "counter", ledger.Liability, "BDT", floor("0"))
	var wg sync.WaitGroup
	var mu sync.Mutex
	posted := 0
	for c := range 16 {
		j := []*journal.Journal{b.Journal, other}[c%2]
		wg.Go(func() {
			for n := range storm(10, 100) {
				balances, err := j.Balances(t.Context(), main, []ledger.AccountID{"counter"})
				if err != nil {
					t.Error(err)
					return
				}
				spec := move(fmt.Sprintf("%d-%d", c, n), "cash", "counter", "1")
				spec.Terms = &ledger.Terms{Kind: ledger.Plain, Conditions: []ledger.Condition{{Account: "counter", Version: &balances[0].Version}}}
				switch got := describeAll([]journal.PostResult{post(t, j, spec)}); got {
				case "posted":
					mu.Lock()
					posted++
					mu.Unlock()
				case "CONDITION_FAILED":
				default:
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	if got := b.funds(t, "counter"); got != fmt.Sprintf("%d, 0, 0", posted) || posted == 0 {
		t.Errorf("%d were posted, the counter says %s", posted, got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Foreign exchange is one transfer of four entries through exchange accounts; each currency balances, at its own scale.
func TestForeignExchange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	wallets := map[ledger.CurrencyCode]string{"BDT": "500.00", "JPY": "631", "KWD": "1.257"}
	for currency := range wallets {
		b.account(t, ledger.AccountID("fx:"+currency), ledger.Asset, currency, nil)
		b.account(t, ledger.AccountID("bank:"+currency), ledger.Asset, currency, nil)
		b.account(t, ledger.AccountID("wallet:"+currency), ledger.Liability, currency, floor("0"))
	}
	b.post(t, move("IN", "bank:BDT", "wallet:BDT", "1000"))
	exchange := func(id string, from, to ledger.CurrencyCode, gives, gets, rate string) ledger.TransferSpec {
		metadata, err := ledger.ParseMetadata(fmt.Sprintf(`{"rate":%q}`, rate), "metadata")
		if err != nil {
			t.Fatal(err)
		}
		return ledger.TransferSpec{ID: ledger.TransferID(id), Metadata: metadata, Entries: []ledger.Entry{
			{Account: ledger.AccountID("wallet:" + from), Direction: ledger.Debit, Amount: amount(gives)},
			{Account: ledger.AccountID("fx:" + from), Direction: ledger.Credit, Amount: amount(gives)},
			{Account: ledger.AccountID("fx:" + to), Direction: ledger.Debit, Amount: amount(gets)},
			{Account: ledger.AccountID("wallet:" + to), Direction: ledger.Credit, Amount: amount(gets)},
		}}
	}
	if got := b.each(t, exchange("FX1", "BDT", "JPY", "500.00", "631", "1.262"), exchange("FX2", "BDT", "KWD", "500.00", "1.257", "0.002514"),
		exchange("FX3", "JPY", "BDT", "631.5", "500.00", "0.79"), exchange("FX4", "KWD", "JPY", "1.258", "631", "501"),
		refund("RF", "FX1", "1", "0"), reverse("RV", "FX2")); got != "posted, posted, AMOUNT_SCALE, INSUFFICIENT_FUNDS, WRONG_ORIGIN, posted" {
		t.Error(got)
	}
	for id, want := range map[ledger.AccountID]string{
		"wallet:BDT": "500, 0, 0", "wallet:JPY": "631, 0, 0", "wallet:KWD": "0, 0, 0", "fx:BDT": "-500, 0, 0", "fx:JPY": "631, 0, 0", "fx:KWD": "0, 0, 0",
	} {
		if got := b.funds(t, id); got != want {
			t.Errorf("%s has %s, want %s", id, got, want)
		}
	}
	ledgertest.CheckBooks(t, b.db)
}
