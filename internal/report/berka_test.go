package report_test

import (
	"cmp"
	"context"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// The transactions of a Czech bank, 1993 to 1998; see shared/data/README.md. They are not part of this repository.
const berkaFile = "../../../shared/data/berka/trans.csv"

// importing lets the importer write to a journal without a server between them.
type importing struct{ *books }

func (i importing) PostTransfers(ctx context.Context, specs []ledger.TransferSpec) ([]client.Result, error) {
	results, err := i.Post(ctx, "import", main, specs)
	out := make([]client.Result, len(results))
	for n, r := range results {
		if out[n] = (client.Result{TransferID: specs[n].ID, Replayed: r.Replayed, Err: r.Err}); r.Err == nil {
			out[n].Refusal, out[n].Sequence, out[n].PostedAt = r.Transfer.Refusal, r.Transfer.Sequence, r.Transfer.PostedAt
		}
	}
	return out, err
}

func (i importing) Account(ctx context.Context, id ledger.AccountID) (ledger.Account, error) {
	return i.books.Account(ctx, main, id)
}

func (i importing) CreateAccounts(ctx context.Context, specs []ledger.AccountSpec) ([]client.CreatedAccount, error) {
	made, err := i.books.CreateAccounts(ctx, "import", main, specs)
	out := make([]client.CreatedAccount, len(made))
	for n, a := range made {
		out[n] = client.CreatedAccount(a)
	}
	return out, err
}

// The statement of each account ends with what its rows of the file come to, of which this test knows nothing but the file; month by month, too. The
// short form issues those of every third account, and holds all of them against the file in the trial balance.
func TestBerka(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.FromSlash(berkaFile))
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: the Berka data is not part of the repository", berkaFile)
	}
	if err != nil {
		t.Fatal(err)
	}
	r := csv.NewReader(strings.NewReader(string(content)))
	r.Comma = ';'
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	sums, counts := map[string]decimal.Decimal{}, map[string]int{}
	monthly := map[string]decimal.Decimal{} // by account and month
	for _, record := range records[1:] {
		account, month, amount := record[1], "19"+record[2][:2]+"-"+record[2][2:4], decimal.RequireFromString(record[5])
		if record[3] != "credit" {
			amount = amount.Neg()
		}
		sums[account], counts[account] = sums[account].Add(amount), counts[account]+1
		monthly[account+" "+month] = monthly[account+" "+month].Add(amount)
	}
	if len(records) != 30_201 || len(sums) != 354 {
		t.Fatalf("the file has %d lines on %d accounts", len(records)-1, len(sums))
	}

	b := setup(t)
	mapping, err := importer.ReadMap("../../docs/examples/berka-map.json")
	if err != nil {
		t.Fatal(err)
	}
	imported, err := importer.Run(t.Context(), importing{b}, strings.NewReader(string(content)), importer.Config{Map: mapping, CreateAccounts: true})
	if err != nil || imported.Posted != 30_200 {
		t.Fatalf("%+v, %v", imported, err)
	}
	accounts := make([]string, 0, len(sums))
	for account := range sums {
		accounts = append(accounts, account)
	}
	slices.Sort(accounts)
	last := func(s report.Statement) (closing string, items int) {
		told, err := s.Sheet()
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range told.Rows {
			if row.Kind == sheet.Item {
				items++
			}
		}
		return told.Rows[len(told.Rows)-1].Cells[8], items
	}
	of := map[string]string{} // by account
	for _, row := range b.run(t, report.Request{Report: report.TrialBalance, Basis: report.Value, Period: period(t, "1993-01", "1999-01", "UTC")}).Rows {
		if account, ok := strings.CutPrefix(row.Cells[0], "customer:"); ok && row.Kind == sheet.Item {
			debit, credit := decimal.RequireFromString(cmp.Or(row.Cells[8], "0")), decimal.RequireFromString(cmp.Or(row.Cells[9], "0"))
			of[account] = credit.Sub(debit).StringFixed(2)
		}
	}
	for _, account := range accounts {
		if closing := sums[account].StringFixed(2); of[account] != closing {
			t.Errorf("customer:%s: the trial balance ends with %s, and its rows come to %s", account, of[account], closing)
		}
	}
	every := 3
	if os.Getenv("KHATA_TEST_LONG") != "" {
		every = 1
	}
	issued := 0
	for i, account := range accounts {
		if i%every != 0 {
			continue
		}
		id := ledger.AccountID("customer:" + account)
		if i%120 != 0 {
			s := b.issue(t, report.StatementSpec{Account: id, Basis: report.Value, Period: period(t, "1993-01", "1999-01", "UTC")})
			if closing, items := last(s); closing != sums[account].StringFixed(2) || items != counts[account] {
				t.Errorf("%s: the statement ends with %s after %d items, and %d rows come to %s", id, closing, items, counts[account],
					sums[account].StringFixed(2))
			}
			issued++
			continue
		}
		balance, items := decimal.Decimal{}, 0
		for month := range 72 {
			from := fmt.Sprintf("%d-%02d", 1993+month/12, 1+month%12)
			s := b.issue(t, report.StatementSpec{Account: id, Basis: report.Value, Period: monthOf(t, from)})
			balance = balance.Add(monthly[account+" "+from])
			closing, n := last(s)
			if items += n; closing != balance.StringFixed(2) {
				t.Errorf("%s: the statement of %s ends with %s, and the rows come to %s", id, from, closing, balance.StringFixed(2))
			}
			issued++
		}
		if !balance.Equal(sums[account]) || items != counts[account] {
			t.Errorf("%s: the months come to %s in %d items, and %d rows to %s", id, balance, items, counts[account], sums[account])
		}
	}
	t.Logf("%d statements of %d accounts", issued, len(accounts))
}

// monthOf is a month as the map dates it: its days begin in UTC.
func monthOf(t testing.TB, month string) report.Period {
	t.Helper()
	p, err := report.Month(month, "UTC")
	if err != nil {
		t.Fatal(err)
	}
	return p
}
