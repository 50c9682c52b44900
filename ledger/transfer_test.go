package ledger_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

func debit(account ledger.AccountID, text string) ledger.Entry {
	return ledger.Entry{Account: account, Direction: ledger.Debit, Amount: amount(text)}
}

func credit(account ledger.AccountID, text string) ledger.Entry {
	return ledger.Entry{Account: account, Direction: ledger.Credit, Amount: amount(text)}
}

func in(currency ledger.CurrencyCode, e ledger.Entry) ledger.Entry {
	e.Currency.Code = currency
	return e
}

func transfer(id ledger.TransferID, entries ...ledger.Entry) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Entries: entries}
}

func move(id ledger.TransferID, from, to ledger.AccountID, text string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Entries: ledger.Simple(from, to, amount(text), "")}
}

func TestTransferSpec_Validate(t *testing.T) {
	t.Parallel()
	base := func() ledger.TransferSpec {
		s := move("T-1", "cash", "wallet:a", "500.00")
		s.EffectiveAt = pointer(time.Date(2026, 11, 29, 0, 0, 0, 1000, time.UTC))
		s.Description = strings.Repeat("x", ledger.MaxDescription)
		return s
	}
	many := func(n int) []ledger.Entry {
		list := []ledger.Entry{debit("cash", fmt.Sprint(n-1))}
		for len(list) < n {
			list = append(list, credit("wallet:a", "1"))
		}
		return list
	}
	at := func(year int, nanos int) func(*ledger.TransferSpec) {
		return func(s *ledger.TransferSpec) { s.EffectiveAt = pointer(time.Date(year, 1, 1, 0, 0, 0, nanos, time.UTC)) }
	}
	entries := func(list ...ledger.Entry) func(*ledger.TransferSpec) {
		return func(s *ledger.TransferSpec) { s.Entries = list }
	}
	for name, c := range map[string]struct {
		change func(*ledger.TransferSpec)
		want   string
	}{
		"in order":               {func(*ledger.TransferSpec) {}, "OK"},
		"id empty":               {func(s *ledger.TransferSpec) { s.ID = "" }, invalid("transfer_id")},
		"id reserved":            {func(s *ledger.TransferSpec) { s.ID = "khata:x" }, invalid("transfer_id")},
		"no entries":             {entries(), invalid("entries")},
		"one entry":              {entries(debit("cash", "1")), invalid("entries")},
		"1,000 entries":          {entries(many(1000)...), "OK"},
		"1,001 entries":          {entries(many(1001)...), invalid("entries")},
		"description too long":   {func(s *ledger.TransferSpec) { s.Description += "x" }, invalid("description")},
		"description with NUL":   {func(s *ledger.TransferSpec) { s.Description = "\x00" }, invalid("description")},
		"description not UTF-8":  {func(s *ledger.TransferSpec) { s.Description = "\xff" }, invalid("description")},
		"no effective_at":        {func(s *ledger.TransferSpec) { s.EffectiveAt = nil }, "OK"},
		"a nanosecond":           {at(2026, 1), invalid("effective_at")},
		"999 nanoseconds":        {at(2026, 999), invalid("effective_at")},
		"year 1":                 {at(1, 0), "OK"},
		"year 0":                 {at(0, 0), invalid("effective_at")},
		"year 9999":              {at(9999, 0), "OK"},
		"year 10000":             {at(10000, 0), invalid("effective_at")},
		"debit account bad":      {func(s *ledger.TransferSpec) { s.Entries[0].Account = "" }, invalid("debit_account")},
		"credit account bad":     {func(s *ledger.TransferSpec) { s.Entries[1].Account = "a b" }, invalid("credit_account")},
		"both sides":             {func(s *ledger.TransferSpec) { s.Entries[1].Account = "cash" }, invalid("credit_account")},
		"currency bad":           {func(s *ledger.TransferSpec) { s.Entries[0].Currency.Code = "taka" }, invalid("currency")},
		"amount zero":            {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.Zero }, invalid("amount")},
		"amount negative":        {func(s *ledger.TransferSpec) { s.Entries[1].Amount = amount("-5") }, invalid("amount")},
		"amount of 39 digits":    {func(s *ledger.TransferSpec) { s.Entries[0].Amount = amount(nines + "9") }, invalid("amount")},
		"amount 1e38":            {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.New(1, 38) }, invalid("amount")},
		"amount 1e37":            {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.New(1, 37) }, "OK"},
		"amount 1e1000000":       {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.New(1, 1_000_000) }, invalid("amount")},
		"amount 1e-1000000":      {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.New(1, -1_000_000) }, invalid("amount")},
		"amount of 39 zeros":     {func(s *ledger.TransferSpec) { s.Entries[0].Amount = decimal.New(1, -39) }, invalid("amount")},
		"entry, account bad":     {entries(debit("cash", "2"), credit("a", "1"), credit("a b", "1")), invalid("entries[2].account")},
		"entry, no direction":    {entries(debit("cash", "2"), ledger.Entry{Account: "a", Amount: amount("2")}), invalid("entries[1].direction")},
		"entry, bad direction":   {entries(ledger.Entry{Account: "a", Direction: "DEBIT", Amount: amount("2")}, credit("b", "2")), invalid("entries[0].direction")},
		"entry, both sides":      {entries(debit("a", "2"), credit("b", "1"), credit("a", "1")), invalid("entries[2].account")},
		"entry, currency bad":    {entries(debit("a", "2"), credit("b", "1"), in("x", credit("c", "1"))), invalid("entries[2].currency")},
		"entry, one side twice":  {entries(debit("a", "2"), credit("b", "1"), credit("b", "1")), "OK"},
		"unbalanced is not here": {entries(debit("a", "2"), credit("b", "1")), "OK"},
	} {
		spec := base()
		c.change(&spec)
		if got := fault(spec.Validate()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// record is a transfer as it is kept: its entries have their currency.
func record(spec ledger.TransferSpec) *ledger.Transfer {
	spec.Entries = slices.Clone(spec.Entries)
	for i := range spec.Entries {
		spec.Entries[i].Currency = ledger.Currency{Code: "BDT", Scale: 2}
	}
	return &ledger.Transfer{TransferSpec: spec, Caller: "local", Sequence: 7, PostedAt: time.Now()}
}

func differing(r *ledger.Transfer, s ledger.TransferSpec) string {
	var fields []string
	for _, v := range r.Differences(s) {
		fields = append(fields, v.Field)
	}
	return strings.Join(fields, ",")
}

func TestTransfer_Differences(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	short := ledger.TransferSpec{
		ID: "T-1", Entries: ledger.Simple("cash", "wallet:a", amount("500.00"), ""), EffectiveAt: &at, Description: "tea", Metadata: `{"a":1}`,
	}
	long := short
	long.Entries = []ledger.Entry{debit("cash", "500"), credit("wallet:a", "490"), credit("fees", "10")}
	one := short
	one.Entries = []ledger.Entry{debit("cash", "5"), debit("cash:2", "5"), credit("wallet:a", "5"), credit("wallet:a", "5")}
	with := func(base ledger.TransferSpec, change func(*ledger.TransferSpec)) ledger.TransferSpec {
		base.Entries = slices.Clone(base.Entries)
		change(&base)
		return base
	}
	entries := func(base ledger.TransferSpec, list ...ledger.Entry) ledger.TransferSpec {
		base.Entries = list
		return base
	}
	for name, c := range map[string]struct {
		record, given ledger.TransferSpec
		want          string
	}{
		"the same":                {short, short, ""},
		"amount by value":         {short, entries(short, ledger.Simple("cash", "wallet:a", amount("500"), "")...), ""},
		"currency named":          {short, entries(short, ledger.Simple("cash", "wallet:a", amount("500"), "BDT")...), ""},
		"two entries":             {short, entries(short, credit("wallet:a", "500.0"), debit("cash", "500")), ""},
		"time in another zone":    {short, with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = pointer(at.In(time.FixedZone("Dhaka", 6*3600))) }), ""},
		"time later":              {short, with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = pointer(at.Add(time.Microsecond)) }), "effective_at"},
		"time gone":               {short, with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = nil }), "effective_at"},
		"time added":              {with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = nil }), short, "effective_at"},
		"no time is no zero time": {with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = nil }), with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = &time.Time{} }), "effective_at"},
		"neither has a time":      {with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = nil }), with(short, func(s *ledger.TransferSpec) { s.EffectiveAt = nil }), ""},
		"description":             {short, with(short, func(s *ledger.TransferSpec) { s.Description = "Tea" }), "description"},
		"metadata":                {short, with(short, func(s *ledger.TransferSpec) { s.Metadata = `{"a":2}` }), "metadata"},
		"amount":                  {short, entries(short, ledger.Simple("cash", "wallet:a", amount("500.01"), "")...), "amount"},
		"debit account":           {short, entries(short, ledger.Simple("cash:2", "wallet:a", amount("500"), "")...), "debit_account"},
		"credit account":          {short, entries(short, ledger.Simple("cash", "wallet:b", amount("500"), "")...), "credit_account"},
		"sides":                   {short, entries(short, ledger.Simple("wallet:a", "cash", amount("500"), "")...), "debit_account,credit_account"},
		"currency":                {short, entries(short, ledger.Simple("cash", "wallet:a", amount("500"), "USD")...), "currency"},
		"currency of one entry":   {short, entries(short, debit("cash", "500"), in("USD", credit("wallet:a", "500"))), "currency"},
		"all of the shorthand":    {short, entries(short, ledger.Simple("cash:2", "wallet:b", amount("1"), "USD")...), "debit_account,credit_account,amount,currency"},
		"two debits":              {short, entries(short, debit("cash", "500"), debit("wallet:a", "500")), "entries"},
		"entries for a shorthand": {short, long, "entries"},
		"shorthand for entries":   {long, short, "entries"},
		"other order":             {long, entries(long, credit("fees", "10.0"), debit("cash", "500.00"), credit("wallet:a", "490")), ""},
		"currencies named":        {long, entries(long, in("BDT", debit("cash", "500")), credit("wallet:a", "490"), in("BDT", credit("fees", "10"))), ""},
		"another currency":        {long, entries(long, debit("cash", "500"), credit("wallet:a", "490"), in("USD", credit("fees", "10"))), "entries"},
		"another amount":          {long, entries(long, debit("cash", "500"), credit("wallet:a", "489"), credit("fees", "11")), "entries"},
		"another account":         {long, entries(long, debit("cash", "500"), credit("wallet:b", "490"), credit("fees", "10")), "entries"},
		"an entry split":          {long, entries(long, debit("cash", "500"), credit("wallet:a", "490"), credit("fees", "5"), credit("fees", "5")), "entries"},
		"equal entries":           {one, entries(one, credit("wallet:a", "5"), debit("cash:2", "5"), credit("wallet:a", "5.00"), debit("cash", "5")), ""},
		"equal entries, unequal":  {one, entries(one, credit("wallet:a", "4"), debit("cash:2", "5"), credit("wallet:a", "6"), debit("cash", "5")), "entries"},
		"everything": {long, ledger.TransferSpec{ID: "T-1", Entries: []ledger.Entry{debit("x", "1"), debit("y", "1"), credit("z", "2")}},
			"entries,effective_at,description,metadata"},
	} {
		if got := differing(record(c.record), c.given); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// drawEntries makes two to eight entries; they need not balance to be compared.
func drawEntries(t *rapid.T) []ledger.Entry {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) ledger.Entry {
		return ledger.Entry{
			Account:   rapid.SampledFrom([]ledger.AccountID{"a", "b", "c", "d"}).Draw(t, "account"),
			Direction: rapid.SampledFrom([]ledger.Direction{ledger.Debit, ledger.Credit}).Draw(t, "direction"),
			Amount:    decimal.New(rapid.Int64Range(1, 300).Draw(t, "amount"), -rapid.Int32Range(0, 2).Draw(t, "decimals")),
		}
	}), 2, 8).Draw(t, "entries")
}

// rewrite says the same in another way: another order, more zeros, a currency named or not.
func rewrite(t *rapid.T, entries []ledger.Entry) []ledger.Entry {
	entries = rapid.Permutation(entries).Draw(t, "order")
	for i := range entries {
		entries[i].Amount = entries[i].Amount.Add(decimal.New(0, -rapid.Int32Range(0, 6).Draw(t, "zeros")))
		entries[i].Currency = ledger.Currency{}
		if rapid.Bool().Draw(t, "named") {
			entries[i].Currency.Code = "BDT"
		}
	}
	return entries
}

func TestTransfer_Differences_OfTheSameSaidOtherwise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := ledger.TransferSpec{ID: "T-1", Entries: drawEntries(t)}
		given := spec
		given.Entries = rewrite(t, spec.Entries)
		before := slices.Clone(given.Entries)
		r := record(spec)
		if diff := r.Differences(given); len(diff) > 0 {
			t.Fatalf("%v and %v differ: %v", r.Entries, given.Entries, diff)
		}
		if !slices.EqualFunc(before, given.Entries, func(a, b ledger.Entry) bool { return a.Account == b.Account && a.Amount.Equal(b.Amount) }) {
			t.Fatal("comparing has put the request's entries in another order")
		}
	})
}

func TestTransfer_Differences_OfAnythingElse(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := ledger.TransferSpec{ID: "T-1", Entries: drawEntries(t)}
		given := spec
		given.Entries = rewrite(t, spec.Entries)
		i := rapid.IntRange(0, len(given.Entries)-1).Draw(t, "which")
		e := &given.Entries[i]
		switch rapid.SampledFrom([]string{"amount", "account", "direction", "currency", "one more", "one less"}).Draw(t, "change") {
		case "amount":
			e.Amount = e.Amount.Add(decimal.New(1, -rapid.Int32Range(0, 20).Draw(t, "decimals")))
		case "account":
			e.Account += "x"
		case "direction":
			e.Direction = map[ledger.Direction]ledger.Direction{ledger.Debit: ledger.Credit, ledger.Credit: ledger.Debit}[e.Direction]
		case "currency":
			e.Currency.Code = "USD"
		case "one more":
			given.Entries = append(given.Entries, *e)
		case "one less":
			given.Entries = slices.Delete(given.Entries, i, i+1)
		}
		if diff := record(spec).Differences(given); len(diff) == 0 {
			t.Fatalf("%v and %v are the same", spec.Entries, given.Entries)
		}
	})
}
