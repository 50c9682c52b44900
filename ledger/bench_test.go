package ledger_test

import (
	"fmt"
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

const benchMetadata = `{"order": 88412, "channel": "app", "tags": ["train", "retry"], "device": {"os": "android", "version": "14.0"}}`

// benchSpec is a transfer of two entries between two of a thousand wallets.
func benchSpec(i int) ledger.TransferSpec {
	wallet := func(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("wallet:%04d", n%1000)) }
	return ledger.TransferSpec{
		ID: ledger.TransferID(fmt.Sprintf("0193a5c0-0000-7000-8000-%012d", i)), Description: "rent",
		Entries: ledger.Simple(wallet(i), wallet(i+7), decimal.RequireFromString("500.00"), "BDT"),
	}
}

func benchSpecs(n int) []ledger.TransferSpec {
	list := make([]ledger.TransferSpec, n)
	for i := range list {
		list[i] = benchSpec(i)
	}
	return list
}

// benchBooks has the wallets, all with a floor and in funds, or none.
func benchBooks(floored bool) *ledger.Books {
	books, none := ledger.NewBooks(0, 0), decimal.Zero
	for i := range 1000 {
		a := ledger.Account{
			ID: benchSpec(i).Entries[0].Account, Type: ledger.Liability, Currency: ledger.Currency{Code: "BDT", Scale: 2},
		}
		if floored {
			a.Floor = &none
		}
		books.AddAccount(&a, ledger.Funds{Posted: decimal.New(1, 12)})
	}
	return books
}

// BenchmarkDecide is a batch of a thousand new transfers, and the same again; the time is that of a batch.
func BenchmarkDecide(b *testing.B) {
	specs := benchSpecs(1000)
	decide := func(b *testing.B, books *ledger.Books, replayed bool) {
		b.Helper()
		for _, s := range specs {
			record, again, err := books.Decide(s, "bench")
			if err != nil || again != replayed || record.Refusal != nil {
				b.Fatal(record, again, err)
			}
		}
	}
	for name, floored := range map[string]bool{"plain": false, "floored": true} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				books := benchBooks(floored)
				b.StartTimer()
				decide(b, books, false)
			}
		})
	}
	b.Run("duplicates", func(b *testing.B) {
		b.ReportAllocs()
		books := benchBooks(false)
		decide(b, books, false)
		for b.Loop() {
			decide(b, books, true)
		}
	})
}

func BenchmarkTransferSpec_Validate(b *testing.B) {
	many := benchSpec(1)
	many.Entries = nil
	for i := range 50 {
		many.Entries = append(many.Entries, benchSpec(100 * i).Entries[0], benchSpec(100*i + 50).Entries[1])
	}
	for i := range many.Entries {
		many.Entries[i].Account = ledger.AccountID(fmt.Sprintf("wallet:%d", i))
	}
	for name, spec := range map[string]ledger.TransferSpec{"2 entries": benchSpec(1), "100 entries": many} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := spec.Validate(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParseMetadata(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ledger.ParseMetadata(benchMetadata, "metadata"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkParseAmount(b *testing.B) {
	for name, text := range map[string]string{"money": "1234.56", "wei": "1000000000.000000000000000001"} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ledger.ParseAmount(text, "amount"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkTransfer_Differences is the comparison of a duplicate with its record.
func BenchmarkTransfer_Differences(b *testing.B) {
	metadata, err := ledger.ParseMetadata(benchMetadata, "metadata")
	if err != nil {
		b.Fatal(err)
	}
	record := ledger.Transfer{TransferSpec: benchSpec(1)}
	record.Metadata = metadata
	for i := range record.Entries {
		record.Entries[i].Currency.Scale = 2
	}
	again := benchSpec(1)
	again.Metadata = metadata
	b.ReportAllocs()
	for b.Loop() {
		if diff := record.Differences(again); len(diff) > 0 {
			b.Fatal(diff)
		}
	}
}
