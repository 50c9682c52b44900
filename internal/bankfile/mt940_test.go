package bankfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// message is an MT940 of 100,00 EUR, to which lines are added.
func message(closing, lines string) string {
	return ":20:REF\n:25:DE1\n:28C:5/1\n:60F:C240101EUR100,\n" + lines + ":62F:C240131EUR" + closing + "\n-\n"
}

func TestMT940_Lines(t *testing.T) {
	t.Parallel()
	type row struct {
		Booked, Value, Amount, Code, Bank, Customer, Description string
		Reversal                                                 bool
	}
	for name, c := range map[string]struct {
		line string
		want row
	}{
		"all of it": {":61:2403120313C1234,50NTRFCUST REF//BANKREF\nsupplement\n:86:text\nmore", row{"2024-03-13", "2024-03-12",
			"1234.5", "NTRF", "BANKREF", "CUST REF", "supplement text more", false}},
		"no entry date":            {":61:240312D1,NMSC", row{"2024-03-12", "2024-03-12", "-1", "NMSC", "", "", "", false}},
		"spaces for it":            {":61:240312    D1,5NMSCNONREF//NONREF", row{"2024-03-12", "2024-03-12", "-1.5", "NMSC", "", "", "", false}},
		"a letter of the currency": {":61:240312CR1,05FMSCX", row{"2024-03-12", "2024-03-12", "1.05", "FMSC", "", "X", "", false}},
		"a credit taken back":      {":61:240312RC2,NTRFX", row{"2024-03-12", "2024-03-12", "-2", "NTRF", "", "X", "", true}},
		"a debit taken back":       {":61:240312RDR2,NTRFX", row{"2024-03-12", "2024-03-12", "2", "NTRF", "", "X", "", true}},
		"entry in the year before": {":61:2601011230C27,98NTRFX", row{"2025-12-30", "2026-01-01", "27.98", "NTRF", "", "X", "", false}},
		"entry in the year after":  {":61:2512310102C1,NTRFX", row{"2026-01-02", "2025-12-31", "1", "NTRF", "", "X", "", false}},
		"entry on 29 February":     {":61:2503010229C1,NTRFX", row{"2024-02-29", "2025-03-01", "1", "NTRF", "", "X", "", false}},
		"of the last century":      {":61:9903010301C1,NTRFX", row{"1999-03-01", "1999-03-01", "1", "NTRF", "", "X", "", false}},
		"no comma": {":61:240312C500NTRF29-07-2014 10:05//B4G", row{"2024-03-12", "2024-03-12", "500", "NTRF", "B4G",
			"29-07-2014 10:05", "", false}},
		"a long reference": {":61:240312C1,N0440121470966      W.P. Jansen", row{"2024-03-12", "2024-03-12", "1", "N044", "", "0121470966",
			"W.P. Jansen", false}},
		"two descriptions": {":61:240312C1,NTRFX\n:86:one\n:86:two", row{"2024-03-12", "2024-03-12", "1", "NTRF", "", "X", "one two", false}},
		"what looks like a field": {":61:240312C1,NTRFX\n:86:at 10\n:26:37 o'clock\n:x:y", row{"2024-03-12", "2024-03-12", "1", "NTRF", "", "X",
			"at 10 :26:37 o'clock :x:y", false}},
		"no letters of the kind": {":61:240312C1,\n:86:x", row{"2024-03-12", "2024-03-12", "1", "", "", "", "x", false}},
	} {
		file, _ := parse(t, []byte(message("0,", c.line+"\n")), bankfile.Options{})
		if len(file.Statements) != 1 || len(file.Statements[0].Lines) != 1 {
			t.Errorf("%s: no line", name)
			continue
		}
		l := file.Statements[0].Lines[0]
		got := row{l.BookingDate.String(), l.ValueDate.String(), l.Amount.String(), l.Code, l.References.Bank, l.References.Customer, l.Description,
			l.Reversal}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestMT940_StructuredDetails(t *testing.T) {
	t.Parallel()
	lines := ":61:240312CR1,NTRFKREF+//X\n:86:166?00GUTSCHRIFT?100399?20EREF+E2E 1?21KREF+K1?22SVWZ+Inv\noice 7?23 thank you?24MREF+M9?30BANKDEFF\n" +
		"?31DE2?32Jane?33 Doe?60 more\n"
	file, refused := parse(t, []byte(message("101,", lines)), bankfile.Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	l := file.Statements[0].Lines[0]
	want := bankfile.Line{
		Description: "GUTSCHRIFT Invoice 7 thank you", Counterparty: bankfile.Party{Name: "Jane Doe", Account: "DE2", Bank: "BANKDEFF"},
		References: bankfile.References{EndToEnd: "E2E 1", Customer: "K1", Mandate: "M9 more", Bank: "X"},
	}
	if l.Description != want.Description || l.Counterparty != want.Counterparty || l.References != want.References {
		t.Errorf("%+v", l)
	}
	dutch := ":61:240312C1,NTRFX\n:86:/TRTP/SEPA/IBAN/NL1/EREF/E-9\n9/REMI/text\n"
	file, _ = parse(t, []byte(message("101,", dutch)), bankfile.Options{})
	if got := file.Statements[0].Lines[0].References.EndToEnd; got != "E-99" {
		t.Errorf("end to end: %q", got)
	}
}

func TestMT940_Envelope(t *testing.T) {
	t.Parallel()
	body := message("101,", ":61:240312C1,NTRFX\n")
	for name, c := range map[string]struct {
		text string
		n    int
	}{
		"bare": {body, 1},
		"CRLF": {strings.ReplaceAll(body, "\n", "\r\n"), 1},
		"blocks": {"{1:F01BANKDEFFAXXX0000000000}{2:O9401200240131BANKDEFFAXXX00000000002401311200N}{4:\n" + strings.TrimSuffix(body,
			"-\n") + "-}{5:{CHK:1}}\n", 1},
		"the first in the block": {"{1:F01X}{2:I940BANKDEFFXXXXN}{4:" + strings.TrimSuffix(body, "-\n") + "-}", 1},
		"no end":                 {strings.TrimSuffix(body, "-\n"), 1},
		"a header, two messages": {"BANKDEFF\n940\n" + body + "-XXX\n\nBANKDEFF\n940 00\n" + strings.Replace(body, ":25:DE1", ":25:DE2", 1), 2},
		"no end between two":     {strings.TrimSuffix(body, "-\n") + strings.Replace(body, ":25:DE1", ":25:DE2", 1), 2},
		"control characters":     {"\x01\n" + strings.TrimSuffix(body, "-\n") + "-\x03\n\x1a", 1},
		"latin-1":                {strings.Replace(body, "NTRFX", "NTRF\xe4\xf6\xfc", 1), 1},
	} {
		file, refused := parse(t, []byte(c.text), bankfile.Options{})
		if refused != nil || file.Format != bankfile.FormatMT940 || len(file.Statements) != c.n || len(file.Statements[0].Lines) != 1 {
			t.Errorf("%s: %v, %d statements", name, refused, len(file.Statements))
		}
	}
}

func TestMT940_Pages(t *testing.T) {
	t.Parallel()
	page := func(number, opening, lines, closing string) string {
		return ":20:R\n:25:DE1\n:28C:" + number + "\n:" + opening + "\n" + lines + ":" + closing + "\n-\n"
	}
	first := page("9/1", "60F:C240101EUR100,", ":61:240102C1,NTRFA\n", "62M:C240102EUR101,")
	second := page("9/2", "60M:C240102EUR101,", ":61:240102C2,NTRFB\n", "62M:C240102EUR103,")
	third := page("9/3", "60M:C240102EUR103,", ":61:240103D3,NTRFC\n", "62F:C240103EUR100,")
	file, refused := parse(t, []byte(first+second+third), bankfile.Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	s := file.Statements[0]
	if len(file.Statements) != 1 || s.Pages != 3 || len(s.Lines) != 3 || s.Lines[2].Ordinal != 3 || s.Opening.Code != "60F" || s.Closing.Code != "62F" ||
		state(s.Checks, bankfile.CheckTotals) != bankfile.CheckHeld {
		t.Errorf("%+v", s)
	}
	// A final balance ends a statement, whatever number the next has.
	after := page("9/2", "60M:C240103EUR101,", ":61:240103D1,NTRFC\n", "62F:C240103EUR100,")
	file, refused = parse(t, []byte(strings.Replace(first, "62M", "62F", 1)+after), bankfile.Options{})
	if refused != nil || len(file.Statements) != 2 {
		t.Errorf("%v, %d statements", refused, len(file.Statements))
	}
	for name, c := range map[string]struct {
		text   string
		reason bankfile.Reason
	}{
		"a page missing": {first + third, bankfile.ReasonChain},
		"one that makes nothing": {first + strings.NewReplacer("9/2", "9/3", "62M:C240102EUR103,", "62F:C240102EUR103,").Replace(second),
			bankfile.ReasonChain},
		"a page with other ends": {first + strings.Replace(second, "60M:C240102EUR101,", "60M:C240102EUR100,", 1) + third, bankfile.ReasonChain},
		"an amount wrong":        {first + strings.Replace(second, "C2,", "C3,", 1) + third, bankfile.ReasonTotals},
		"only the first":         {first, ""},
		"only one between":       {second, ""},
	} {
		_, refused := parse(t, []byte(c.text), bankfile.Options{})
		if (refused == nil) != (c.reason == "") || refused != nil && refused.Reason != c.reason {
			t.Errorf("%s: %v; want %s", name, refused, c.reason)
		}
	}
}

func TestMT940_Refused(t *testing.T) {
	t.Parallel()
	line := ":61:240312C1,NTRFX\n"
	for name, c := range map[string]struct {
		text   string
		reason bankfile.Reason
		detail string
	}{
		"MT942 by its fields":   {":20:R\n:25:X\n:28C:1/1\n:34F:EUR0,\n:13D:2401010000+0000\n" + line, bankfile.ReasonNotThisFormat, "MT942"},
		"MT942 by its header":   {"{1:F01X}{2:O9421200240131X}{4:\n" + message("101,", line), bankfile.ReasonNotThisFormat, "MT942"},
		"MT950":                 {"{1:F01X}{2:O9501200240131X}{4:\n" + message("101,", line), bankfile.ReasonNotThisFormat, "MT950"},
		"no opening":            {":20:R\n:25:X\n:28C:1\n:62F:C240101EUR1,\n", bankfile.ReasonMalformed, "no opening balance"},
		"no closing":            {":20:R\n:25:X\n:28C:1\n:60F:C240101EUR1,\n", bankfile.ReasonMalformed, "no closing balance"},
		"no account":            {":20:R\n:28C:1\n:60F:C240101EUR1,\n:62F:C240101EUR1,\n", bankfile.ReasonMalformed, "no account"},
		"two openings":          {message("101,", ":60F:C240101EUR1,\n"), bankfile.ReasonMalformed, "two opening"},
		"a line after the end":  {strings.TrimSuffix(message("101,", line), "-\n") + line, bankfile.ReasonMalformed, "after the closing balance"},
		"a decimal point":       {message("101,", ":61:240312C1.50NTRFX\n"), bankfile.ReasonMalformed, "is not a statement line"},
		"thousands":             {message("101,", ":61:240312C1.234,50NTRFX\n"), bankfile.ReasonMalformed, "is not a statement line"},
		"a day that is none":    {message("101,", ":61:241312C1,NTRFX\n"), bankfile.ReasonMalformed, "is not a date"},
		"an entry that is none": {message("101,", ":61:2403120230C1,NTRFX\n"), bankfile.ReasonMalformed, "is not a day of 2024"},
		"a balance in words": {strings.Replace(message("101,", line), ":60F:C240101EUR100,", ":60F:nothing", 1), bankfile.ReasonMalformed,
			"is not a balance"},
		"two currencies": {strings.Replace(message("101,", line), ":62F:C240131EUR", ":62F:C240131USD", 1), bankfile.ReasonTotals, "101.00 USD"},
		"half a cent":    {message("100,005", ":61:240312C0,005NTRFX\n"), bankfile.ReasonScale, "0.005"},
	} {
		_, refused := parse(t, []byte(c.text), bankfile.Options{})
		if refused == nil || refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %+v; want %s, %q", name, refused, c.reason, c.detail)
		}
	}
}

// TestMT940_NumberMissing leaves out a statement in which nothing moved: only the numbers can tell.
func TestMT940_NumberMissing(t *testing.T) {
	t.Parallel()
	numbered := func(numbers ...string) string {
		var all strings.Builder
		for i, n := range numbers {
			day := itoa(i+1, 2)
			all.WriteString(":20:R\n:25:DE1\n:28C:" + n + "\n:60F:C2401" + day + "EUR1,\n:62F:C2401" + day + "EUR1,\n-\n")
		}
		return all.String()
	}
	for text, ok := range map[string]bool{
		numbered("5/1", "6/1", "7/1"): true, numbered("5/1", "7/1"): false, numbered("364", "365", "1", "2"): true, numbered("0", "0"): true,
		numbered("00001", "00002"): true, numbered("A", "B"): true, numbered("5", "5"): true, numbered("5", "900"): false,
	} {
		_, refused := parse(t, []byte(text), bankfile.Options{})
		if (refused == nil) != ok || refused != nil && (refused.Reason != bankfile.ReasonChain || !strings.Contains(refused.Detail,
			"a statement is missing")) {
			t.Errorf("%s: %v", text, refused)
		}
	}
}
