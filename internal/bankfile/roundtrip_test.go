package bankfile_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// drawDate draws a day of 2023 to 2025.
func drawDate(t *rapid.T, name string) bankfile.Date {
	year := rapid.IntRange(2023, 2025).Draw(t, name+" year")
	month := rapid.IntRange(1, 12).Draw(t, name+" month")
	day := rapid.IntRange(1, 28).Draw(t, name+" day")
	date, err := bankfile.ParseDate(strings.Join([]string{itoa(year, 4), itoa(month, 2), itoa(day, 2)}, "-"))
	if err != nil {
		t.Fatal(err)
	}
	return date
}

func itoa(n, width int) string {
	text := decimal.NewFromInt(int64(n)).String()
	return strings.Repeat("0", max(0, width-len(text))) + text
}

// near is a date of the same month: an entry date without its year is read as near to the value date.
func near(t *rapid.T, d bankfile.Date, name string) bankfile.Date {
	d.Day = rapid.IntRange(1, 28).Draw(t, name)
	return d
}

func drawAmount(t *rapid.T, scale int32, name string) decimal.Decimal {
	units := rapid.OneOf(rapid.Int64Range(1, 100), rapid.Int64Range(1, 1e12), rapid.Int64Range(-1e12, -1), rapid.Int64Range(-100, -1)).Draw(t, name)
	return decimal.New(units, -scale)
}

// drawText draws text that each of the formats can hold as it is; punctuation is escaped by those that must.
func drawText(t *rapid.T, format bankfile.Format, name string) string {
	word := `[A-Za-z0-9äöüßéঅক()'.]{1,8}`
	switch format {
	case bankfile.FormatCSV, bankfile.FormatStripe, bankfile.FormatCamt053, bankfile.FormatOFX:
		word = `[A-Za-z0-9äöüßéঅক()'.,;:"&<>/?+]{1,8}`
	}
	return strings.Join(rapid.SliceOfN(rapid.StringMatching(word), 1, 4).Draw(t, name), " ")
}

func drawStatement(t *rapid.T, format bankfile.Format, least int) statement {
	currency := rapid.SampledFrom([]string{"EUR", "JPY", "KWD"}).Draw(t, "currency")
	scale, _ := scales(currency)
	s := statement{
		Account: rapid.StringMatching(`[A-Z]{2}[0-9]{10}`).Draw(t, "account"), Currency: currency, Scale: scale, Number: rapid.IntRange(1, 999).Draw(t,
			"number"),
		Opening: drawAmount(t, scale, "opening"), OpeningDate: drawDate(t, "opening"), ClosingDate: drawDate(t, "closing"),
	}
	for i := range rapid.IntRange(least, 8).Draw(t, "lines") {
		value := drawDate(t, "value")
		s.Lines = append(s.Lines, entry{
			Booked: near(t, value, "booked"), Value: value, Amount: drawAmount(t, scale, "amount"), ID: "ID" + itoa(i, 1),
			EndToEnd: rapid.StringMatching(`[A-Z]{3}[0-9]{1,5}`).Draw(t, "end to end"), Partner: drawText(t, format, "partner"), Text: drawText(t, format,
				"text"),
		})
	}
	// A file with a balance beside its lines is in the order of their dates.
	slices.SortStableFunc(s.Lines, func(a, b entry) int { return a.Booked.Compare(b.Booked) })
	return s
}

// TestRoundTrip writes statements in each format, and reads the same.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s := drawStatement(t, w.format, 1)
				written := w.write(s, s.Lines)
				file, refused := parse(t, written.text, written.options)
				if refused != nil {
					t.Fatalf("%v\n%s", refused, written.text)
				}
				if file.Format != w.format || len(file.Statements) != 1 {
					t.Fatalf("read as %s with %d statements", file.Format, len(file.Statements))
				}
				got := file.Statements[0]
				if w.account && got.AccountID != s.Account || got.Currency != s.Currency {
					t.Errorf("account %q in %s", got.AccountID, got.Currency)
				}
				if w.opening && (got.Opening == nil || !got.Opening.Amount.Equal(s.Opening)) {
					t.Errorf("opening balance %+v, want %s", got.Opening, s.Opening)
				}
				if w.closing && (got.Closing == nil || !got.Closing.Amount.Equal(s.closing())) {
					t.Errorf("closing balance %+v, want %s", got.Closing, s.closing())
				}
				if diff := cmp.Diff(wantEntries(w.format, s), gotEntries(w.format, got)); diff != "" {
					t.Errorf("(-want +got):\n%s\n%s", diff, written.text)
				}
			})
		})
	}
}

func wantEntries(format bankfile.Format, s statement) []entry {
	want := slices.Clone(s.Lines)
	for i := range want {
		switch format {
		case bankfile.FormatBAI2: // has one text for all, and one day
			want[i].Text = want[i].Partner + " " + want[i].Text
			want[i].Partner = ""
			want[i].Booked = s.ClosingDate
			// Its text is separated from the fields by a comma, as any other.
		case bankfile.FormatOFX: // has the name in the text where that does not repeat it, and no end-to-end reference
			if !strings.Contains(want[i].Text, want[i].Partner) {
				want[i].Text = want[i].Partner + " " + want[i].Text
			}
			want[i].EndToEnd = ""
		}
	}
	return want
}

func gotEntries(format bankfile.Format, s *bankfile.Statement) []entry {
	var got []entry
	for _, l := range s.Lines {
		e := entry{l.BookingDate, l.ValueDate, l.Amount, l.ExternalID, l.References.EndToEnd, l.Counterparty.Name, l.Description}
		if format == bankfile.FormatBAI2 {
			e.EndToEnd = l.References.Customer
		}
		got = append(got, e)
	}
	return got
}

// TestOneAmountChanged changes one amount of a file by its least unit, and each format that carries totals refuses it.
func TestOneAmountChanged(t *testing.T) {
	t.Parallel()
	for _, w := range writers {
		t.Run(w.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				s := drawStatement(t, w.format, 1)
				more := decimal.New(rapid.SampledFrom([]int64{1, -1, 900}).Draw(t, "more"), -s.Scale)
				written := w.write(s, s.with(rapid.IntRange(0, len(s.Lines)-1).Draw(t, "line"), more))
				file, refused := parse(t, written.text, written.options)
				switch {
				case w.reasons == nil && refused != nil:
					t.Fatalf("%v, although the format has nothing to compare with", refused)
				case w.reasons == nil && state(file.Statements[0].Checks, bankfile.CheckTotals) != bankfile.CheckNotMade:
					t.Fatalf("the totals are said to be checked: %+v", file.Statements[0].Checks)
				case w.reasons == nil:
				case refused == nil:
					t.Fatalf("was not refused:\n%s", written.text)
				case !slices.Contains(w.reasons, refused.Reason):
					t.Fatalf("refused for %s: %v", refused.Reason, refused)
				case refused.Stated == "" || refused.Stated == refused.Computed || !strings.Contains(refused.Detail, refused.Stated):
					t.Fatalf("the refusal does not have its two numbers: %+v", refused)
				case len(file.Statements) != 1 || len(file.Statements[0].Lines) != len(s.Lines):
					t.Fatal("the file that was refused is not there to be shown")
				}
			})
		})
	}
}

// TestChained writes statements of one account that follow each other.
func TestChained(t *testing.T) {
	t.Parallel()
	join := map[string]func([]statement) []byte{
		"camt.053": func(list []statement) []byte {
			var all strings.Builder
			for _, s := range list {
				all.WriteString(s.camt(8, s.Lines))
			}
			return []byte(camtFile(8, all.String()))
		},
		"mt940": func(list []statement) []byte {
			var all strings.Builder
			for _, s := range list {
				all.WriteString(s.mt940(s.Lines))
			}
			return []byte(all.String())
		},
	}
	for name, write := range join {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(t *rapid.T) {
				list := chain(t)
				file, refused := parse(t, write(list), bankfile.Options{})
				if refused != nil {
					t.Fatal(refused)
				}
				if len(file.Statements) != len(list) {
					t.Fatalf("%d statements", len(file.Statements))
				}
				for _, s := range file.Statements[1:] {
					if state(s.Checks, bankfile.CheckChain) != bankfile.CheckHeld {
						t.Fatalf("%+v", s.Checks)
					}
				}
				slices.Reverse(list) // newest first
				if _, refused := parse(t, write(list), bankfile.Options{}); refused != nil {
					t.Fatal(refused)
				}
				slices.Reverse(list)
				missing := slices.Delete(slices.Clone(list), 1, 2)
				if _, refused := parse(t, write(missing), bankfile.Options{}); refused == nil || refused.Reason != bankfile.ReasonChain {
					t.Fatalf("one in the middle is missing: %v", refused)
				}
				list[2].Opening = list[2].Opening.Add(decimal.New(1, -2))
				if _, refused := parse(t, write(list), bankfile.Options{}); refused == nil || refused.Reason != bankfile.ReasonChain || refused.Statement != 3 {
					t.Fatalf("one begins with another balance: %v", refused)
				}
			})
		})
	}
}

// chain draws three or four statements, one a day.
func chain(t *rapid.T) []statement {
	s := example(rapid.IntRange(1, 5).Draw(t, "lines"))
	s.Number = rapid.IntRange(1, 300).Draw(t, "number")
	var list []statement
	for i := range rapid.IntRange(3, 4).Draw(t, "statements") {
		next := s
		next.Number += i
		next.OpeningDate.Day, next.ClosingDate.Day = 1+i, 2+i
		if i > 0 {
			next.Opening = list[i-1].closing()
		}
		list = append(list, next)
	}
	return list
}
