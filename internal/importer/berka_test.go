package importer_test

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// The transactions of a Czech bank, 1993 to 1998; see shared/data/README.md. They are not part of this repository.
const berkaFile = "../../../shared/data/berka/trans.csv"

// berka is the file, in its parts.
type berka struct {
	header string
	lines  []string
	// sums has what the amounts of each account add up to, by our own reading of the columns.
	sums map[string]decimal.Decimal
}

func readBerka(t testing.TB) berka {
	t.Helper()
	text, err := os.ReadFile(filepath.FromSlash(berkaFile))
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: the Berka data is not part of the repository", berkaFile)
	}
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(strings.TrimSuffix(string(text), "\r\n")+"\r\n", "\n") // the last line has no end of its own
	b := berka{header: lines[0], lines: lines[1 : len(lines)-1], sums: map[string]decimal.Decimal{}}
	r := csv.NewReader(bytes.NewReader(text))
	r.Comma = ';'
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, record := range records[1:] {
		amount := decimal.RequireFromString(record[5])
		if record[3] != "credit" {
			amount = amount.Neg()
		}
		b.sums[record[1]] = b.sums[record[1]].Add(amount)
	}
	if len(b.lines) != 30200 || len(b.sums) != 354 {
		t.Fatalf("the file has %d lines on %d accounts; want 30200 on 354", len(b.lines), len(b.sums))
	}
	return b
}

func berkaMap(t testing.TB) *importer.Map {
	t.Helper()
	m, err := importer.ReadMap("../../docs/examples/berka-map.json")
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// checkBerka compares the books with the file.
func checkBerka(t *testing.T, b *bench, data berka) {
	t.Helper()
	var ids []ledger.AccountID
	for account := range data.sums {
		ids = append(ids, ledger.AccountID("customer:"+account))
	}
	balances, err := b.Balances(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for _, balance := range balances {
		want := data.sums[strings.TrimPrefix(string(balance.Account), "customer:")]
		if !balance.Posted.Equal(want) {
			t.Errorf("%s has %s, its rows add up to %s", balance.Account, balance.Posted, want)
		}
	}
	if n := b.count(t, "SELECT count(*) FROM transfer"); n != len(data.lines) {
		t.Errorf("%d transfers are stored, want each of %d once", n, len(data.lines))
	}
	if n := b.count(t, "SELECT count(*) FROM entry"); n != 2*len(data.lines) {
		t.Errorf("%d entries are stored, want %d", n, 2*len(data.lines))
	}
}

func TestImport_Berka(t *testing.T) {
	t.Parallel()
	b, data := setup(t), readBerka(t)
	config := importer.Config{Map: berkaMap(t), CreateAccounts: true}
	want := importer.Summary{Lines: len(data.lines)}
	for run := range 2 {
		in := strings.NewReader(data.header + strings.Join(data.lines, ""))
		s, err := importer.Run(t.Context(), b, in, config)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("run %d: %+v, %.0f transfers/s", run+1, s, float64(s.Lines)/s.Elapsed.Seconds())
		if run == 0 {
			want.Posted, want.AccountsCreated = s.Lines, 354+3+13
		} else {
			want.Posted, want.Replayed, want.AccountsCreated = 0, s.Lines, 0
		}
		if s.Elapsed = 0; s != want {
			t.Errorf("run %d: %+v\nwant %+v", run+1, s, want)
		}
	}
	checkBerka(t, b, data)
}

// Eight importers at once post the file three times over, in another order each time, with ranges that overlap.
func TestImport_BerkaStorm(t *testing.T) {
	t.Parallel()
	const importers, times = 8, 3
	b, data := setup(t), readBerka(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	m := berkaMap(t)
	var total importer.Summary
	var mu sync.Mutex
	started := time.Now()
	for range times {
		random.Shuffle(len(data.lines), func(i, k int) { data.lines[i], data.lines[k] = data.lines[k], data.lines[i] })
		var group sync.WaitGroup
		for i := range importers {
			// An eighth, and half of the next.
			share := len(data.lines) / importers
			var lines []string
			for k := i * share; k < (i+1)*share+share/2; k++ {
				lines = append(lines, data.lines[k%len(data.lines)])
			}
			c := b.dial(t, client.Options{})
			group.Go(func() {
				in := strings.NewReader(data.header + strings.Join(lines, ""))
				s, err := importer.Run(t.Context(), c, in, importer.Config{Map: m, CreateAccounts: true})
				if err != nil || s.Wrong+s.Refused > 0 || s.Lines != len(lines) {
					t.Errorf("%v: %+v", err, s)
				}
				mu.Lock()
				defer mu.Unlock()
				total.Posted += s.Posted
				total.Replayed += s.Replayed
				total.AccountsCreated += s.AccountsCreated
			})
		}
		group.Wait()
	}
	took := time.Since(started)
	sent := total.Posted + total.Replayed
	t.Logf("%d sent, %d posted, in %s: %.0f/s", sent, total.Posted, took, float64(sent)/took.Seconds())
	if total.Posted != len(data.lines) || total.AccountsCreated != 354+3+13 {
		t.Errorf("posted %d and created %d accounts, want %d and %d", total.Posted, total.AccountsCreated, len(data.lines), 354+3+13)
	}
	checkBerka(t, b, data)
}

func BenchmarkImport_Berka(b *testing.B) {
	data := readBerka(b)
	text := data.header + strings.Join(data.lines, "")
	m := berkaMap(b)
	for b.Loop() {
		b.StopTimer()
		bench := setup(b)
		b.StartTimer()
		s, err := importer.Run(b.Context(), bench, strings.NewReader(text), importer.Config{Map: m, CreateAccounts: true})
		if err != nil || s.Posted != len(data.lines) {
			b.Fatal(fmt.Sprint(err, s))
		}
		b.ReportMetric(float64(s.Posted)/s.Elapsed.Seconds(), "transfers/s")
	}
}
