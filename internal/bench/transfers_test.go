package bench

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"testing"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestMaker(t *testing.T) {
	t.Parallel()
	accounts := make([]string, 5)
	for i := range accounts {
		accounts[i] = fmt.Sprint("a", i)
	}
	amount := regexp.MustCompile(`^[1-9][0-9]{0,2}\.[0-9]{2}$`)
	for name, choose := range map[string]func(*rand.Rand) pick{
		"uniform": func(*rand.Rand) pick { return uniform(accounts) },
		"zipf":    func(r *rand.Rand) pick { return zipf(accounts, r) },
		"across":  func(*rand.Rand) pick { return across(accounts[:2], accounts[2:]) },
	} {
		m, err := newMaker(V7, choose)
		if err != nil {
			t.Fatal(err)
		}
		ids, pairs := map[string]bool{}, map[string]int{}
		transfers := blank(10)
		for range 300 {
			m.fill(transfers...)
			for _, x := range transfers {
				if x.GetDebitAccount() == x.GetCreditAccount() || !amount.MatchString(x.GetAmount()) || len(x.GetTransferId()) != idLength {
					t.Fatalf("%s: %v", name, x)
				}
				ids[x.GetTransferId()] = true
				pairs[x.GetDebitAccount()+x.GetCreditAccount()]++
			}
		}
		want := 20
		if name == "across" {
			want = 6
		}
		if len(ids) != 3000 || len(pairs) != want {
			t.Errorf("%s: %d ids, %d pairs, want 3000 and %d", name, len(ids), len(pairs), want)
		}
	}
}

func TestZipf(t *testing.T) {
	t.Parallel()
	accounts := make([]string, 10_000)
	for i := range accounts {
		accounts[i] = fmt.Sprint(i)
	}
	r := newRandom()
	p, first := zipf(accounts, r), 0
	const n = 20_000
	for range n {
		if d, c := p(r); d == "0" || c == "0" {
			first++
		}
	}
	if share := float64(first) / n; share < 0.25 || share > 0.35 {
		t.Errorf("the most popular account takes part in %.2f of all transfers", share)
	}
}

func TestMixedKind(t *testing.T) {
	t.Parallel()
	r := newRandom()
	var n [mixedKinds]int
	for range 100_000 {
		n[mixedKind(r)]++
	}
	for kind, want := range [mixedKinds]int{mixedPost: 70, mixedBatch: 1, mixedBalance: 20, mixedDuplicate: 9} {
		if got := float64(n[kind]) / 1000; got < float64(want)*0.8 || got > float64(want)*1.2 {
			t.Errorf("%s: %.1f of a hundred, want %d", mixedNames[kind], got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	posted, refused := khatav1.Outcome_OUTCOME_POSTED, khatav1.Outcome_OUTCOME_REFUSED
	for _, c := range []struct {
		r         *khatav1.TransferResult
		duplicate bool
		want      string
	}{
		{&khatav1.TransferResult{Outcome: posted}, false, ""},
		{&khatav1.TransferResult{Outcome: posted, Replayed: true}, true, ""},
		{&khatav1.TransferResult{Outcome: posted, Replayed: true}, false, "REPLAYED"},
		{&khatav1.TransferResult{Outcome: posted}, true, "POSTED"},
		{&khatav1.TransferResult{Outcome: refused, Reason: "INSUFFICIENT_FUNDS"}, false, "REFUSED_INSUFFICIENT_FUNDS"},
		{nil, false, "REFUSED_"},
	} {
		if got := verdict(c.r, nil, c.duplicate); got != c.want {
			t.Errorf("%v, duplicate %t: %q, want %q", c.r, c.duplicate, got, c.want)
		}
	}
}
