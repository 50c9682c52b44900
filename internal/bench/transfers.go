package bench

import (
	"fmt"
	"math/rand/v2"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

const currency = "BDT"

// amounts are what is moved: 1.00 to 100.99, made once.
var amounts = func() []string {
	list := make([]string, 10_000)
	for i := range list {
		list[i] = fmt.Sprintf("%d.%02d", 1+i/100, i%100)
	}
	return list
}()

func randomAmount(r *rand.Rand) string { return amounts[r.IntN(len(amounts))] }

// distinct picks two of n numbers that are not the same.
func distinct(r *rand.Rand, n int) (int, int) {
	first, second := r.IntN(n), r.IntN(n-1)
	if second >= first {
		second++
	}
	return first, second
}

// pick chooses who pays whom.
type pick func(r *rand.Rand) (debit, credit string)

// uniform lets any account pay any other.
func uniform(accounts []string) pick {
	return func(r *rand.Rand) (string, string) {
		d, c := distinct(r, len(accounts))
		return accounts[d], accounts[c]
	}
}

// across lets any account of one list pay any of another.
func across(payers, payees []string) pick {
	return func(r *rand.Rand) (string, string) { return payers[r.IntN(len(payers))], payees[r.IntN(len(payees))] }
}

// zipfExponent makes the most popular of 10,000 accounts take part in almost a third of all transfers.
const zipfExponent = 1.1

// zipf lets few accounts take part in most transfers, as it is among people. It is not safe for concurrent use.
func zipf(accounts []string, r *rand.Rand) pick {
	z := rand.NewZipf(r, zipfExponent, 1, uint64(len(accounts)-1))
	return func(*rand.Rand) (string, string) {
		d, c := z.Uint64(), z.Uint64()
		for d == c {
			c = z.Uint64()
		}
		return accounts[d], accounts[c]
	}
}

// maker makes transfers of new ids. Each client has its own.
type maker struct {
	ids    *ids
	random *rand.Rand
	pick   pick
	buf    []byte
}

func newMaker(version IDVersion, choose func(*rand.Rand) pick) (*maker, error) {
	generator, err := newIDs(version)
	if err != nil {
		return nil, err
	}
	r := newRandom()
	return &maker{ids: generator, random: r, pick: choose(r)}, nil
}

// fill makes each of these transfers a new one.
func (m *maker) fill(transfers ...*khatav1.NewTransfer) {
	m.buf = m.buf[:0]
	for range transfers {
		m.buf = m.ids.append(m.buf)
	}
	all := string(m.buf) // one allocation for all
	for i, t := range transfers {
		t.TransferId = all[i*idLength : (i+1)*idLength]
		t.DebitAccount, t.CreditAccount = m.pick(m.random)
		t.Amount = randomAmount(m.random)
	}
}

// blank makes transfers to be filled.
func blank(n int) []*khatav1.NewTransfer {
	list := make([]*khatav1.NewTransfer, n)
	for i := range list {
		list[i] = &khatav1.NewTransfer{}
	}
	return list
}
