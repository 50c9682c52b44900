package server_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

const wallets = 8

// workloadAccounts are the accounts that the transfers of a workload are about: many with floors, of both normal
// balances, one with a floor above its balance, one that is only serialised, and two that nobody has to wait for.
func workloadAccounts() []ledger.AccountSpec {
	list := []ledger.AccountSpec{
		cash(),
		{ID: "fees", Type: ledger.Revenue, Currency: "BDT"},
		{ID: "queue", Type: ledger.Liability, Currency: "BDT", Serialised: true},
		wallet("savings", "1000"),
	}
	till := wallet("till", "-20")
	till.Type = ledger.Asset
	list = append(list, till)
	for i := range wallets {
		list = append(list, wallet(walletID(i), "0"))
	}
	return list
}

func walletID(i int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("wallet:%d", i)) }

// workload makes transfers that can be made again from their place alone: a caller that has lost its memory repeats
// itself.
type workload struct{ seed uint64 }

func (w workload) random(stream, i int) *rand.Rand {
	return rand.New(rand.NewPCG(w.seed, uint64(stream)<<32|uint64(i))) //nolint:gosec // repeatable on purpose
}

// spec is transfer i of a stream. The first four of every sixteen are a chain: each but the first can only pay with what
// the one before it brought. Less comes in than wants to go out, so that refusals are common. Every fourth stream is on accounts
// without floors only, where nothing but the ids can hold anybody up.
func (w workload) spec(stream, i int) ledger.TransferSpec {
	s := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("s%d-%d", stream, i))}
	if stream%4 == floorlessStream {
		s.Entries = ledger.Simple("cash", "fees", cents(1, 3000, w.random(stream, i)), "BDT")
		return s
	}
	if link := i % 16; link < 4 {
		s.Entries = w.chain(w.random(stream, i-link), link)
		return s
	}
	r := w.random(stream, i)
	switch r.IntN(4) {
	case 0:
		s.Description = "rent, ভাড়া"
	case 1:
		s.Metadata = ledger.Metadata(fmt.Sprintf(`{"order":"%d"}`, i))
	case 2:
		at := time.Date(2026, 1, 1+r.IntN(300), 12, 0, 0, 1000*r.IntN(1000), time.UTC)
		s.EffectiveAt = &at
	}
	s.Entries = entries(r)
	return s
}

const floorlessStream = 3

func (workload) chain(r *rand.Rand, link int) []ledger.Entry {
	p, value := r.Perm(wallets), cents(4000, 5000, r)
	path := []ledger.AccountID{"cash", walletID(p[0]), walletID(p[1]), walletID(p[2]), "cash"}
	return ledger.Simple(path[link], path[link+1], value, "BDT")
}

func entries(r *rand.Rand) []ledger.Entry {
	p := r.Perm(wallets)
	a, b := walletID(p[0]), walletID(p[1])
	switch r.IntN(10) {
	case 0, 1, 2, 3: // one pays another
		return ledger.Simple(a, b, cents(1, 3000, r), "BDT")
	case 4: // paid in at the counter
		return ledger.Simple("cash", a, cents(1, 2000, r), "BDT")
	case 5: // and out
		return ledger.Simple(a, "cash", cents(1, 2500, r), "BDT")
	case 6: // paid out from the till, which has a floor of its own
		return ledger.Simple(a, "till", cents(1, 2000, r), "BDT")
	case 7:
		return ledger.Simple("till", "savings", cents(1, 2500, r), "BDT")
	case 8:
		return ledger.Simple("savings", "queue", cents(1, 500, r), "BDT")
	default: // with a fee, for which both pay
		value, fee := cents(100, 3000, r), cents(1, 50, r)
		entry := func(id ledger.AccountID, d ledger.Direction, amount decimal.Decimal) ledger.Entry {
			return ledger.Entry{Account: id, Direction: d, Amount: amount}
		}
		return []ledger.Entry{
			entry("fees", ledger.Credit, fee.Add(fee)), entry(b, ledger.Credit, value.Sub(fee)), entry(a, ledger.Debit, value.Add(fee)),
		}
	}
}

func cents(least, most int64, r *rand.Rand) decimal.Decimal {
	return decimal.New(least+r.Int64N(most-least), -2)
}

// contradict is another transfer under the same id, as a caller with a bug sends it.
func contradict(s ledger.TransferSpec, r *rand.Rand) ledger.TransferSpec {
	switch r.IntN(3) {
	case 0:
		s.Description += "!"
	case 1:
		s.Metadata = `{"bug":true}`
	default:
		more := decimal.New(1, -2)
		if len(s.Entries) == 2 {
			s.Entries = ledger.Simple(s.Entries[0].Account, s.Entries[1].Account, s.Entries[0].Amount.Add(more), "BDT")
		} else {
			s.EffectiveAt = new(time.Time)
			*s.EffectiveAt = time.Date(2020, 2, 29, 0, 0, 0, 0, time.UTC)
		}
	}
	return s
}
