package report_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// The three zones of the months.
var monthZones = []string{"Asia/Dhaka", "UTC", "America/New_York"}

// The last moment of a month is in it, and the first moment of the next one is not: by both times and in each zone.
func TestMonths_Edges(t *testing.T) {
	t.Parallel()
	b, o := setup(t), newOracle()
	specs := []ledger.AccountSpec{{ID: "bank", Type: ledger.Asset, Currency: "BDT"}, {ID: "wallet", Type: ledger.Liability, Currency: "BDT"}}
	o.open(specs...)
	b.accounts(t, specs...)
	type edge struct{ zone, last, first string }
	edges := []edge{
		{"Asia/Dhaka", "2025-01-31T23:59:59.999999+06:00", "2025-02-01T00:00:00+06:00"},
		{"UTC", "2025-01-31T23:59:59.999999Z", "2025-02-01T00:00:00Z"},
		{"America/New_York", "2025-01-31T23:59:59.999999-05:00", "2025-02-01T00:00:00-05:00"},
	}
	for i, e := range edges {
		n := fmt.Sprint(i)
		b.insert(t, o, hand{"last" + ledger.TransferID(n), "bank", "wallet", "1", *at(e.last), time.Time{}},
			hand{"first" + ledger.TransferID(n), "bank", "wallet", "10", *at(e.first), time.Time{}},
			hand{"valued-last" + ledger.TransferID(n), "bank", "wallet", "100", *at("2025-03-01T12:00:00Z"), *at(e.last)},
			hand{"valued-first" + ledger.TransferID(n), "bank", "wallet", "1000", *at("2024-12-01T12:00:00Z"), *at(e.first)})
	}
	listed := func(zone, month string, basis report.Basis) (ids []string) {
		p, err := report.Month(month, zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range b.run(t, report.Request{Report: report.GeneralLedger, Period: p, Basis: basis, Account: "bank"}).Rows {
			if row.Kind == sheet.Item {
				ids = append(ids, row.Cells[1]+" "+row.Cells[3])
			}
		}
		return ids
	}
	for zone, want := range map[string]map[string][]string{
		"Asia/Dhaka": {
			"2025-01": {"2025-01-31 last0"},
			"2025-02": {"2025-02-01 first0", "2025-02-01 last1", "2025-02-01 first1", "2025-02-01 last2", "2025-02-01 first2"},
		},
		"UTC": {
			"2025-01": {"2025-01-31 last0", "2025-01-31 first0", "2025-01-31 last1"},
			"2025-02": {"2025-02-01 first1", "2025-02-01 last2", "2025-02-01 first2"},
		},
		"America/New_York": {
			"2025-01": {"2025-01-31 last0", "2025-01-31 first0", "2025-01-31 last1", "2025-01-31 first1", "2025-01-31 last2"},
			"2025-02": {"2025-02-01 first2"},
		},
	} {
		for month, ids := range want {
			if got := listed(zone, month, report.Booking); !slices.Equal(got, ids) {
				t.Errorf("by booking time, %s in %s has %q, want %q", month, zone, got, ids)
			}
			var valued []string
			for _, id := range ids {
				valued = append(valued, id, id[:11]+"valued-"+id[11:])
			}
			got := listed(zone, month, report.Value)
			if !slices.Equal(sorted(got), sorted(valued)) {
				t.Errorf("by value date, %s in %s has %q, want %q", month, zone, got, valued)
			}
		}
	}
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

// Each entry is in exactly one month, the months come to the whole, and each begins with what the one before it ended with. The clock goes forward,
// jumps back by hours and days, and posts in some disorder; there are no marks, or some, or as many as there can be.
func TestMonths_Random(t *testing.T) {
	t.Parallel()
	b, o := setup(t), newOracle()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	ids := []ledger.AccountID{"bank", "hot", "wallet:a", "wallet:b", "still", "late"}
	for i, id := range ids {
		spec := ledger.AccountSpec{ID: id, Type: []ledger.AccountType{ledger.Asset, ledger.Liability}[i%2], Currency: "BDT"}
		o.open(spec)
		b.accounts(t, spec)
	}
	first := *at("2025-01-01T00:00:00Z")
	clock := first.Add(-20 * 24 * time.Hour)
	const months = 3 // before and after which there is a little too
	edge := func() time.Time {
		p, err := report.Month(first.AddDate(0, r.IntN(months+1), 0).Format("2006-01"), monthZones[r.IntN(3)])
		if err != nil {
			t.Fatal(err)
		}
		return p.From.Add(time.Duration(r.IntN(3)-1) * time.Microsecond).UTC()
	}
	b.insert(t, o, hand{"opening", "still", "hot", "77.70", clock, time.Time{}})
	inserted := 0
	insert := func(n int) {
		var hands []hand
		for range n {
			inserted++
			h := hand{id: ledger.TransferID(fmt.Sprint("t", inserted)), amount: decimal.New(1+r.Int64N(1e6), -2).String()}
			// Not "still", which has an entry before the months, and after them.
			h.debit, h.credit = ids[r.IntN(4)], ids[r.IntN(4)]
			for h.debit == h.credit {
				h.credit = ids[r.IntN(4)]
			}
			clock = clock.Add(time.Duration(r.Int64N(int64(7 * time.Hour)))).Truncate(time.Microsecond)
			switch r.IntN(100) {
			case 0: // A clock that is set back.
				clock = clock.Add(-time.Duration(r.Int64N(int64(10 * 24 * time.Hour)))).Truncate(time.Microsecond)
			case 1, 2, 3:
				h.at = edge()
			}
			if h.at.IsZero() {
				h.at = clock.Add(-time.Duration(r.Int64N(int64(60 * time.Millisecond)))).Truncate(time.Microsecond)
			}
			switch r.IntN(8) {
			case 0:
				h.effective = edge()
			case 1, 2:
				h.effective = h.at.Add(time.Duration(r.Int64N(int64(90*24*time.Hour))) - 60*24*time.Hour).Truncate(time.Microsecond)
			}
			hands = append(hands, h)
		}
		b.insert(t, o, hands...)
	}
	for round := range 2 {
		marks := 0
		if round == 0 {
			insert(200)
		} else {
			insert(550)
			if marks = b.marks(t); marks < 2 {
				t.Errorf("only %d marks", marks)
			}
			insert(150)
		}
		for _, zone := range monthZones {
			for _, basis := range []report.Basis{report.Booking, report.Value} {
				b.checkMonths(t, o, first, months, zone, basis)
			}
		}
		if t.Failed() {
			t.Fatalf("with %d transfers and %d marks", inserted, marks)
		}
	}
}

// checkMonths holds months that follow each other, and what is before and after them, against the whole.
func (b *books) checkMonths(t testing.TB, o *oracle, first time.Time, months int, zone string, basis report.Basis) {
	t.Helper()
	whole := cut{basis: basis, zone: zoneOf(t, zone)}
	cuts := []cut{whole}
	for n := range months {
		p, err := report.Month(first.AddDate(0, n, 0).Format("2006-01"), zone)
		if err != nil {
			t.Fatal(err)
		}
		cuts[len(cuts)-1].to = p.From
		cuts = append(cuts, cut{from: p.From, to: p.To, basis: basis, zone: whole.zone})
	}
	cuts = append(cuts, cut{from: cuts[len(cuts)-1].to, basis: basis, zone: whole.zone})
	seen := map[string]int{}
	closing := map[string]string{}
	debits, credits := map[string]decimal.Decimal{}, map[string]decimal.Decimal{}
	for i, c := range cuts {
		b.checkTrialBalance(t, o, c)
		if !c.to.IsZero() {
			b.checkBalancesAsOf(t, o, c)
		}
		s := b.run(t, c.request(report.GeneralLedger))
		same(t, "general ledger "+c.String(), rows(s), o.generalLedger(c))
		for _, row := range s.Rows {
			id := row.Cells[0]
			switch row.Kind {
			case sheet.Opening:
				if was, ok := closing[id]; ok && was != row.Cells[10] || !ok && i > 0 && row.Cells[10] != "0.00" {
					t.Errorf("%s %s begins with %s, and the period before ends with %q", id, c, row.Cells[10], was)
				}
			case sheet.Closing:
				closing[id] = row.Cells[10]
				debits[id], credits[id] = debits[id].Add(amount(row.Cells[8])), credits[id].Add(amount(row.Cells[9]))
			case sheet.Item:
				seen[id+" "+row.Cells[2]]++
			}
		}
	}
	if len(seen) != len(o.lines) {
		t.Errorf("%d entries are in months, and there are %d", len(seen), len(o.lines))
	}
	for entry, n := range seen {
		if n != 1 {
			t.Errorf("entry %s is in %d months", entry, n)
		}
	}
	for id, f := range o.of(whole) {
		if !debits[string(id)].Equal(f.debits) || !credits[string(id)].Equal(f.credits) || !f.quiet() && closing[string(id)] != o.money(id, f.closing) {
			t.Errorf("the months of %s come to %s and %s and end with %s, and the whole is %s, %s and %s", id, debits[string(id)], credits[string(id)],
				closing[string(id)], f.debits, f.credits, f.closing)
		}
	}
}
