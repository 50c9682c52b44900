package ledger_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

var (
	bdt = ledger.Currency{Code: "BDT", Scale: 2}
	jpy = ledger.Currency{Code: "JPY", Scale: 0}
)

// page is the books of the tests below, with what is on each account.
func page() *ledger.Books {
	b := ledger.NewBooks(0, 0)
	add := func(id ledger.AccountID, kind ledger.AccountType, currency ledger.Currency, balance string, change func(*ledger.Account)) {
		a := ledger.Account{ID: id, Type: kind, Currency: currency, Frozen: ledger.FrozenNone}
		if change != nil {
			change(&a)
		}
		b.AddAccount(&a, ledger.Funds{Posted: amount(balance)})
	}
	floor := func(text string) func(*ledger.Account) {
		return func(a *ledger.Account) { a.Floor, a.Serialised = pointer(amount(text)), true }
	}
	add("cash", ledger.Asset, bdt, "0", nil)
	add("shop", ledger.Revenue, bdt, "0", nil)
	add("wallet", ledger.Liability, bdt, "100", floor("0"))
	add("till", ledger.Asset, bdt, "100", floor("0"))
	add("short", ledger.Liability, bdt, "10", floor("50"))
	add("credit", ledger.Liability, bdt, "0", floor("-30"))
	add("cash:jpy", ledger.Asset, jpy, "0", nil)
	add("wallet:jpy", ledger.Liability, jpy, "5", floor("0"))
	add("no-debits", ledger.Liability, bdt, "0", func(a *ledger.Account) { a.Frozen = ledger.FrozenDebits })
	add("no-credits", ledger.Liability, bdt, "0", func(a *ledger.Account) { a.Frozen = ledger.FrozenCredits })
	add("closed", ledger.Liability, bdt, "0", func(a *ledger.Account) { a.Closed = true })
	return b
}

// verdict describes what Decide returns.
func verdict(r *ledger.Transfer, replayed bool, err error) string {
	var words []string
	switch {
	case err != nil && r != nil:
		return "a record and an error"
	case err != nil:
		return fault(err)
	case replayed:
		words = append(words, "replayed")
	}
	words = append(words, string(r.Outcome()))
	if r.Refusal != nil {
		words = append(words, string(r.Refusal.Reason), string(r.Refusal.Account))
	}
	return strings.TrimSpace(strings.Join(words, " ")) // A refusal may be about no account.
}

func TestBooks_Decide(t *testing.T) {
	t.Parallel()
	type step struct {
		spec ledger.TransferSpec
		want string
	}
	for name, steps := range map[string][]step{
		"no floor, no limit": {{move("1", "shop", "cash", "1000000"), "posted"}},
		"a floor holds, in the order of decision": {
			{move("1", "wallet", "shop", "60"), "posted"},
			{move("2", "wallet", "shop", "40.01"), "refused INSUFFICIENT_FUNDS wallet"},
			{move("3", "wallet", "shop", "40.00"), "posted"},
			{move("4", "wallet", "shop", "0.01"), "refused INSUFFICIENT_FUNDS wallet"},
			{move("5", "cash", "wallet", "0.01"), "posted"},
			{move("6", "wallet", "shop", "0.01"), "posted"},
		},
		"a floor of an asset, whose balance grows by debits": {
			{move("1", "shop", "till", "100.01"), "refused INSUFFICIENT_FUNDS till"},
			{move("2", "till", "shop", "1"), "posted"},
			{move("3", "shop", "till", "101"), "posted"},
		},
		"a negative floor": {
			{move("1", "credit", "shop", "30.01"), "refused INSUFFICIENT_FUNDS credit"},
			{move("2", "credit", "shop", "30"), "posted"},
		},
		"a floor above the balance blocks only decreases": {
			{move("1", "short", "shop", "0.01"), "refused INSUFFICIENT_FUNDS short"},
			{move("2", "cash", "short", "1"), "posted"},
			{move("3", "cash", "short", "40"), "posted"},
			{move("4", "short", "shop", "1.01"), "refused INSUFFICIENT_FUNDS short"},
			{move("5", "short", "shop", "1"), "posted"},
		},
		"several entries of one account count together": {
			{transfer("1", debit("wallet", "60"), debit("wallet", "40.01"), credit("shop", "100.01")), "refused INSUFFICIENT_FUNDS wallet"},
			{transfer("2", debit("wallet", "60"), debit("wallet", "40"), credit("shop", "100")), "posted"},
		},
		"refused as a whole": {
			{transfer("1", debit("till", "5"), debit("wallet", "101"), credit("short", "106")), "refused INSUFFICIENT_FUNDS wallet"},
			{move("2", "shop", "till", "100"), "posted"},
			{move("3", "wallet", "shop", "100"), "posted"},
			{move("4", "short", "shop", "1"), "refused INSUFFICIENT_FUNDS short"},
		},
		"a refusal stays": {
			{move("1", "wallet", "shop", "100.01"), "refused INSUFFICIENT_FUNDS wallet"},
			{move("top-up", "cash", "wallet", "1000"), "posted"},
			{move("1", "wallet", "shop", "100.01"), "replayed refused INSUFFICIENT_FUNDS wallet"},
			{move("1", "wallet", "shop", "100"), "ALREADY_EXISTS amount"},
			{move("2", "wallet", "shop", "100.01"), "posted"},
		},
		"the same id twice": {
			{move("1", "cash", "wallet", "5"), "posted"},
			{move("1", "cash", "wallet", "5.00"), "replayed posted"},
			{transfer("1", credit("wallet", "5"), debit("cash", "5")), "replayed posted"},
			{move("1", "cash", "wallet", "6"), "ALREADY_EXISTS amount"},
			{move("1", "cash", "shop", "5"), "ALREADY_EXISTS credit_account"},
			{move("1", "cash", "wallet", "5"), "replayed posted"},
			{move("2", "wallet", "shop", "105.01"), "refused INSUFFICIENT_FUNDS wallet"},
			{move("3", "wallet", "shop", "105"), "posted"},
		},
		"what is no amount of the currency is no replay": {
			{move("1", "cash", "wallet", "5"), "posted"},
			{move("1", "cash", "wallet", "5.000"), "AMOUNT_SCALE amount"},
		},
		"another content before anything else": {
			{move("1", "cash", "wallet", "5"), "posted"},
			{move("1", "cash", "nobody", "5"), "ALREADY_EXISTS credit_account"},
			{move("1", "cash", "wallet", "5.001"), "ALREADY_EXISTS amount"},
			{transfer("1", debit("cash", "5"), credit("wallet", "4")), "ALREADY_EXISTS amount"},
		},
		"an error leaves the id free": {
			{move("1", "cash", "nobody", "5"), "ACCOUNT_NOT_FOUND credit_account"},
			{move("1", "cash", "wallet", "5.001"), "AMOUNT_SCALE amount"},
			{transfer("1", debit("cash", "5"), credit("wallet", "4")), "UNBALANCED entries"},
			{transfer("1", ledger.Simple("cash", "wallet", amount("5"), "USD")...), "CURRENCY_MISMATCH currency"},
			{move("1", "cash", "wallet", "7"), "posted"},
		},
		"unknown accounts are all named": {
			{move("1", "nobody", "noone", "5"), "ACCOUNT_NOT_FOUND debit_account,credit_account"},
			{transfer("1", debit("cash", "5"), credit("nobody", "3"), credit("noone", "2")), "ACCOUNT_NOT_FOUND entries[1].account,entries[2].account"},
		},
		"several currencies": {
			{transfer("1", debit("cash", "75.50"), credit("wallet", "75.50"), debit("wallet:jpy", "5"), credit("cash:jpy", "5")), "posted"},
			{transfer("2", debit("cash", "75.50"), credit("wallet", "75.50"), debit("wallet:jpy", "1"), credit("cash:jpy", "1")), "refused INSUFFICIENT_FUNDS wallet:jpy"},
			{transfer("3", debit("cash", "5"), credit("wallet:jpy", "5")), "CURRENCY_MISMATCH currency"},
			{transfer("4", debit("cash", "5"), credit("wallet", "4"), debit("cash:jpy", "4"), credit("wallet:jpy", "5")), "UNBALANCED entries"},
			{transfer("5", debit("cash", "5"), credit("wallet", "5"), debit("cash:jpy", "5.0"), credit("wallet:jpy", "5.0")), "AMOUNT_SCALE entries[2].amount"},
			{transfer("6", debit("cash", "5"), credit("wallet", "5"), in("BDT", debit("cash:jpy", "5")), credit("wallet:jpy", "5")), "CURRENCY_MISMATCH entries[2].currency"},
			{transfer("7", in("BDT", debit("cash", "5")), in("BDT", credit("wallet", "5")), in("JPY", debit("cash:jpy", "5")), in("JPY", credit("wallet:jpy", "5"))), "posted"},
		},
		"only one side": {{transfer("1", debit("cash", "5"), debit("shop", "5")), "UNBALANCED entries"}},
		"frozen and closed": {
			{move("1", "no-debits", "shop", "1"), "refused ACCOUNT_FROZEN no-debits"},
			{move("2", "cash", "no-debits", "1"), "posted"},
			{move("3", "cash", "no-credits", "1"), "refused ACCOUNT_FROZEN no-credits"},
			{move("4", "no-credits", "shop", "1"), "posted"},
			{move("5", "cash", "closed", "1"), "refused ACCOUNT_CLOSED closed"},
			{move("6", "closed", "cash", "1"), "refused ACCOUNT_CLOSED closed"},
			{transfer("7", debit("wallet", "999"), debit("closed", "1"), credit("shop", "1000")), "refused ACCOUNT_CLOSED closed"},
			{transfer("8", debit("no-debits", "999"), debit("closed", "1"), credit("shop", "1000")), "refused ACCOUNT_FROZEN no-debits"},
			{transfer("9", debit("wallet", "999"), debit("short", "1"), credit("shop", "1000")), "refused INSUFFICIENT_FUNDS wallet"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := page()
			var decided []string
			for i, s := range steps {
				if err := s.spec.Validate(); err != nil {
					t.Fatalf("step %d: %v", i, err)
				}
				r, replayed, err := b.Decide(s.spec, "local")
				if got := verdict(r, replayed, err); got != s.want {
					t.Fatalf("step %d: got %s, want %s", i, got, s.want)
				}
				if err == nil && !replayed {
					decided = append(decided, string(s.spec.ID))
				}
			}
			var got []string
			for _, r := range b.Decided() {
				got = append(got, string(r.ID))
				for _, e := range r.Entries {
					if e.Currency.Code == "" || r.Caller != "local" || r.Sequence != 0 {
						t.Errorf("record %+v", r)
					}
				}
			}
			if !slices.Equal(got, decided) {
				t.Errorf("Decided() is %q, in the order of decision it was %q", got, decided)
			}
		})
	}
}

// Records that were there before the batch are answered, and are not decided again.
func TestBooks_EarlierRecords(t *testing.T) {
	t.Parallel()
	b := page()
	earlier := record(move("1", "cash", "wallet", "5"))
	b.AddTransfer(earlier)
	r, replayed, err := b.Decide(move("1", "cash", "wallet", "5.0"), "local")
	if err != nil || !replayed || r != earlier {
		t.Errorf("got %v %t %v", r, replayed, err)
	}
	if len(b.Decided()) != 0 {
		t.Errorf("decided again: %v", b.Decided())
	}
}

// Whoever did not post a transfer learns only that its id is taken, whether the content is the same or not.
func TestBooks_OtherCallers(t *testing.T) {
	t.Parallel()
	b := page()
	if _, _, err := b.Decide(move("1", "wallet", "shop", "1000"), "local"); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, spec := range []ledger.TransferSpec{move("1", "wallet", "shop", "1000"), move("1", "wallet", "shop", "1"), move("1", "cash", "nobody", "0.001")} {
		r, replayed, err := b.Decide(spec, "mallory")
		if got := verdict(r, replayed, err); got != "ALREADY_EXISTS" {
			t.Errorf("got %s", got)
			continue
		}
		texts = append(texts, err.Error())
	}
	if slices.Sort(texts); len(slices.Compact(texts)) != 1 {
		t.Errorf("the texts tell them apart: %q", texts)
	}
	if got := verdict(b.Decide(move("1", "wallet", "shop", "1000"), "local")); got != "replayed refused INSUFFICIENT_FUNDS wallet" {
		t.Errorf("who posted it: %s", got)
	}
}

// A decision does not change the request that it was made of.
func TestBooks_LeavesTheRequestAlone(t *testing.T) {
	t.Parallel()
	spec := move("1", "cash", "wallet", "5")
	before := slices.Clone(spec.Entries)
	if _, _, err := page().Decide(spec, "local"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, spec.Entries); diff != "" {
		t.Errorf("entries (-before +after):\n%s", diff)
	}
}

// Whatever is asked: posted transfers balance, floors hold after each, and one id has one record.
func TestBooks_Model(t *testing.T) {
	t.Parallel()
	type account struct {
		kind           ledger.AccountType
		balance, floor decimal.Decimal
	}
	rapid.Check(t, func(t *rapid.T) {
		b := ledger.NewBooks(0, 0)
		accounts := map[ledger.AccountID]*account{
			"a": {ledger.Liability, amount("10"), amount("0")}, "b": {ledger.Asset, amount("10"), amount("0")},
			"c": {ledger.Liability, amount("0"), amount("-5")}, "d": {ledger.Asset, amount("0"), amount("20")},
		}
		for id, a := range accounts {
			b.AddAccount(&ledger.Account{ID: id, Type: a.kind, Currency: bdt, Floor: &a.floor, Serialised: true, Frozen: ledger.FrozenNone}, ledger.Funds{Posted: a.balance})
		}
		b.AddAccount(&ledger.Account{ID: "free", Type: ledger.Equity, Currency: bdt, Frozen: ledger.FrozenNone}, ledger.Funds{})
		ids := slices.Sorted(maps.Keys(accounts))
		records := map[ledger.TransferID]*ledger.Transfer{}
		for range rapid.IntRange(1, 30).Draw(t, "transfers") {
			id := ledger.TransferID(fmt.Sprint(rapid.IntRange(0, 15).Draw(t, "id")))
			pair := rapid.Permutation(append([]ledger.AccountID{"free"}, ids...)).Draw(t, "accounts")
			value := decimal.New(rapid.Int64Range(1, 1200).Draw(t, "amount"), -2)
			spec := ledger.TransferSpec{ID: id, Entries: ledger.Simple(pair[0], pair[1], value, "")}
			r, replayed, err := b.Decide(spec, "local")
			first, taken := records[id]
			switch {
			case taken && err == nil && (!replayed || r != first):
				t.Fatalf("%s was decided twice", id)
			case taken && err != nil && len(first.Differences(spec)) == 0:
				t.Fatalf("%s again: %v", id, err)
			case taken:
				continue
			case err != nil || replayed:
				t.Fatalf("%s: replayed %t, %v", id, replayed, err)
			}
			records[id] = r
			fits := true
			for _, e := range r.Entries {
				if a, ok := accounts[e.Account]; ok {
					after := a.balance.Add(a.kind.Signed(e.Direction, e.Amount))
					fits = fits && (after.GreaterThanOrEqual(a.balance) || after.GreaterThanOrEqual(a.floor))
				}
			}
			if fits != (r.Refusal == nil) {
				t.Fatalf("%s is %s, but the floors say fits=%t", id, r.Outcome(), fits)
			}
			for _, e := range r.Entries {
				if a, ok := accounts[e.Account]; ok && r.Refusal == nil {
					a.balance = a.balance.Add(a.kind.Signed(e.Direction, e.Amount))
				}
			}
		}
		if len(b.Decided()) != len(records) {
			t.Fatalf("%d decided, %d records", len(b.Decided()), len(records))
		}
	})
}
