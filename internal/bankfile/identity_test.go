package bankfile_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/bankfile"
)

func TestLineIdentity(t *testing.T) {
	t.Parallel()
	date := bankfile.Date{Year: 2024, Month: 1, Day: 2}
	line := bankfile.Line{
		BookingDate: date, ValueDate: date, Amount: decimal.RequireFromString("8.85"), Currency: "EUR", Status: bankfile.StatusBooked, Code: "X",
		Description: "text", Counterparty: bankfile.Party{Name: "n", Account: "a", Bank: "b"},
		References: bankfile.References{EndToEnd: "1", Bank: "2", Customer: "3", Instruction: "4", Transaction: "5", Mandate: "6", Creditor: "7",
			Batch: "8", Source: "9", Cheque: "10"},
	}
	other := date
	other.Day = 3
	// With an id of the bank's, other words are the same line; another day, amount, currency or status are another line.
	change := map[string]struct {
		change          func(*bankfile.Line)
		sameID, sameAny bool
	}{
		"nothing":           {func(*bankfile.Line) {}, true, true},
		"zeros after it":    {func(l *bankfile.Line) { l.Amount = decimal.RequireFromString("8.85000") }, true, true},
		"place":             {func(l *bankfile.Line) { l.Ordinal, l.Position = 7, 9 }, true, true},
		"flags and details": {func(l *bankfile.Line) { l.Flags, l.Details = []bankfile.Flag{{}}, []bankfile.Line{{}} }, true, true},
		"booking date":      {func(l *bankfile.Line) { l.BookingDate = other }, false, false},
		"value date":        {func(l *bankfile.Line) { l.ValueDate = other }, true, false},
		"amount":            {func(l *bankfile.Line) { l.Amount = l.Amount.Neg() }, false, false},
		"currency":          {func(l *bankfile.Line) { l.Currency = "USD" }, false, false},
		"status":            {func(l *bankfile.Line) { l.Status = bankfile.StatusPending }, false, false},
		"reversal":          {func(l *bankfile.Line) { l.Reversal = true }, true, false},
		"description":       {func(l *bankfile.Line) { l.Description += "." }, true, false},
		"code":              {func(l *bankfile.Line) { l.Code = "" }, true, false},
		"name":              {func(l *bankfile.Line) { l.Counterparty.Name = "" }, true, false},
		"account":           {func(l *bankfile.Line) { l.Counterparty.Account = "" }, true, false},
		"bank":              {func(l *bankfile.Line) { l.Counterparty.Bank = "" }, true, false},
		"moved text":        {func(l *bankfile.Line) { l.Counterparty.Name, l.Description = "nt", "ext" }, true, false},
	}
	for i, ref := range []func(*bankfile.References) *string{
		func(r *bankfile.References) *string { return &r.EndToEnd }, func(r *bankfile.References) *string { return &r.Bank },
		func(r *bankfile.References) *string { return &r.Customer }, func(r *bankfile.References) *string { return &r.Instruction },
		func(r *bankfile.References) *string { return &r.Transaction }, func(r *bankfile.References) *string { return &r.Mandate },
		func(r *bankfile.References) *string { return &r.Creditor }, func(r *bankfile.References) *string { return &r.Batch },
		func(r *bankfile.References) *string { return &r.Source }, func(r *bankfile.References) *string { return &r.Cheque },
	} {
		change["reference "+itoa(i, 1)] = struct {
			change          func(*bankfile.Line)
			sameID, sameAny bool
		}{func(l *bankfile.Line) { *ref(&l.References) += "x" }, true, false}
	}
	for name, c := range change {
		without, with := line, line
		c.change(&without)
		if got := bankfile.LineIdentity(line) == bankfile.LineIdentity(without); got != c.sameAny {
			t.Errorf("%s, no id: the same is %t", name, got)
		}
		with.ExternalID = "ID"
		changed := with
		c.change(&changed)
		if got := bankfile.LineIdentity(with) == bankfile.LineIdentity(changed); got != c.sameID {
			t.Errorf("%s, with an id: the same is %t", name, got)
		}
	}
	with, other2 := line, line
	with.ExternalID, other2.ExternalID = "ID", "ID2"
	if bankfile.LineIdentity(with) == bankfile.LineIdentity(other2) {
		t.Error("two ids are one line")
	}
	if bankfile.LineIdentity(with) == bankfile.LineIdentity(line) {
		t.Error("the id is not in it")
	}
}

// TestIdentity_OverlappingFiles reads a period, and then another that has part of it: the lines that both have are the same, those that only one has
// are not, and rows that are alike in every word are as many as there are.
func TestIdentity_OverlappingFiles(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := drawStatement(t, bankfile.FormatMT940, 1)
		twins := rapid.IntRange(1, 3).Draw(t, "twins")
		for i := range s.Lines { // no ids, and the first row several times
			s.Lines[i].ID = "NONREF"
		}
		for range twins {
			s.Lines = slices.Insert(s.Lines, 0, s.Lines[0])
		}
		read := func(lines []entry) []string {
			part := s
			part.Lines = lines
			file, refused := parse(t, writeMT940(part, lines).text, bankfile.Options{})
			if refused != nil {
				t.Fatal(refused)
			}
			var ids []string
			for _, l := range file.Statements[0].Lines {
				ids = append(ids, l.Identity)
			}
			return ids
		}
		all := read(s.Lines)
		if unique := slices.Compact(slices.Sorted(slices.Values(all))); len(unique) != len(all) {
			t.Fatalf("two lines are one: %v", all)
		}
		head := read(s.Lines[:twins+1])
		if diff := cmp.Diff(all[:twins+1], head); diff != "" {
			t.Fatalf("the same rows in another file:\n%s", diff)
		}
	})
}

func TestOccurrences(t *testing.T) {
	t.Parallel()
	o := bankfile.Occurrences{}
	var got []string
	for _, base := range []string{"a", "b", "a", "a"} {
		got = append(got, o.Number(base))
	}
	if diff := cmp.Diff([]string{"a#1", "b#1", "a#2", "a#3"}, got); diff != "" {
		t.Error(diff)
	}
}
