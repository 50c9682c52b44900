package bankfile_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// stmt is a statement of 100.00 EUR, to which entries are added; closing is its closing balance.
func stmt(closing, rest string) []byte {
	return []byte(camtFile(8, `<Stmt><Id>S</Id><Acct><Id><IBAN>DE1</IBAN></Id></Acct>
<Bal><Tp><CdOrPrtry><Cd>OPBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">100</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2024-01-01</Dt></Dt></Bal>
<Bal><Tp><CdOrPrtry><Cd>CLBD</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">`+closing+`</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2024-01-31</Dt></Dt></Bal>
`+rest+`</Stmt>`))
}

func ntry(amount, direction, rest string) string {
	return `<Ntry><Amt Ccy="EUR">` + amount + `</Amt><CdtDbtInd>` + direction + `</CdtDbtInd>` + rest + `</Ntry>`
}

const onDay = `<BookgDt><Dt>2024-01-02</Dt></BookgDt>`

func TestCamt_Entries(t *testing.T) {
	t.Parallel()
	booked := "<Sts><Cd>BOOK</Cd></Sts>" + onDay
	rest := strings.Join([]string{
		ntry("5.00", "CRDT", booked),
		ntry("3.00", "DBIT", "<RvslInd>true</RvslInd><Sts>BOOK</Sts>"+onDay),
		ntry("1000", "CRDT", "<Sts>PDNG</Sts>"+onDay),
		ntry("2000", "CRDT", "<Sts><Cd>INFO</Cd></Sts>"+onDay),
		ntry("0.00", "CRDT", booked),
		ntry("1", "CRDT", "<ValDt><DtTm>2024-02-30T23:59:59.123456789-05:00</DtTm></ValDt>"),
		ntry("1", "CRDT", booked+`<AcctSvcrRef>NONREF</AcctSvcrRef><NtryDtls><TxDtls><Refs><AcctSvcrRef>A1</AcctSvcrRef><EndToEndId>NOTPROVIDED</EndToEndId>
			<InstrId>I1</InstrId><TxId>T1</TxId><MndtId>M1</MndtId></Refs><RmtInf><Ustrd>one</Ustrd><Ustrd>  two
			</Ustrd></RmtInf></TxDtls></NtryDtls><AddtlNtryInf>three</AddtlNtryInf>`),
	}, "\n")
	file, refused := parse(t, stmt("104", rest), bankfile.Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	lines := file.Statements[0].Lines
	type row struct {
		amount, booked, value string
		status                bankfile.Status
		reversal              bool
		flag                  bankfile.FlagCode
	}
	var got []row
	for _, l := range lines {
		r := row{l.Amount.String(), l.BookingDate.String(), l.ValueDate.String(), l.Status, l.Reversal, ""}
		if len(l.Flags) > 0 {
			r.flag = l.Flags[0].Code
		}
		got = append(got, r)
	}
	const b, p, i = bankfile.StatusBooked, bankfile.StatusPending, bankfile.StatusInformation
	want := []row{
		{"5", "2024-01-02", "", b, false, ""},
		{"-3", "2024-01-02", "", b, true, ""},
		{"1000", "2024-01-02", "", p, false, ""},
		{"2000", "2024-01-02", "", i, false, ""},
		{"0", "2024-01-02", "", i, false, bankfile.FlagZero},
		{"1", "2024-02-29", "2024-02-29", b, false, bankfile.FlagNoStatus},
		{"1", "2024-01-02", "", b, false, ""},
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	last := lines[len(lines)-1]
	if want := (bankfile.References{Bank: "A1", Instruction: "I1", Transaction: "T1", Mandate: "M1"}); last.References != want ||
		last.ExternalID != "A1" ||
		last.Description != "one two three" {
		t.Errorf("%+v", last)
	}
	if len(lines[5].Flags) != 2 || lines[5].Flags[1].Code != bankfile.FlagValueDate {
		t.Errorf("%+v", lines[5].Flags)
	}
}

func TestCamt_Batch(t *testing.T) {
	t.Parallel()
	tx := func(amount, rest string) string {
		return `<TxDtls><Refs><EndToEndId>E` + amount + `</EndToEndId></Refs><Amt Ccy="EUR">` + amount + `</Amt>` + rest + `</TxDtls>`
	}
	batch := func(details string) string {
		return ntry("100.00", "DBIT", "<Sts>BOOK</Sts>"+onDay+"<NtryDtls><Btch><PmtInfId>P1</PmtInfId></Btch>"+details+"</NtryDtls>")
	}
	for name, c := range map[string]struct {
		details string
		want    []string
		state   bankfile.CheckState
	}{
		"30 and 70": {tx("30", "") + tx("70", ""), []string{"-30", "-70"}, bankfile.CheckHeld},
		"with their own": {tx("130", "<CdtDbtInd>DBIT</CdtDbtInd>") + tx("30", "<CdtDbtInd>CRDT</CdtDbtInd>"), []string{"-130", "30"},
			bankfile.CheckHeld},
		"below AmtDtls": {strings.NewReplacer(`<Amt Ccy`, `<AmtDtls><TxAmt><Amt Ccy`, `</Amt>`, `</Amt></TxAmt></AmtDtls>`).Replace(tx("30", "") +
			tx("70", "")), []string{"-30", "-70"}, bankfile.CheckHeld},
		"in two NtryDtls":   {tx("30", "") + "</NtryDtls><NtryDtls>" + tx("70", ""), []string{"-30", "-70"}, bankfile.CheckHeld},
		"do not add up":     {tx("30", "") + tx("69", ""), []string{"-30", "-69"}, bankfile.CheckNotMade},
		"in another money":  {tx("30", "") + strings.Replace(tx("70", ""), "EUR", "USD", 1), []string{"-30", "-70"}, bankfile.CheckNotMade},
		"one without":       {tx("30", "") + "<TxDtls></TxDtls>", []string{"-30", "0"}, bankfile.CheckNotMade},
		"one is the line":   {tx("99", ""), nil, ""},
		"none":              {"", nil, ""},
		"thousands of them": {strings.Repeat(tx("0.01", ""), 10_000), nil, bankfile.CheckHeld},
	} {
		file, refused := parse(t, stmt("0", batch(c.details)), bankfile.Options{})
		if refused != nil { // a batch is counted once, whatever is in it
			t.Errorf("%s: %v", name, refused)
			continue
		}
		s := file.Statements[0]
		line := s.Lines[0]
		var got []string
		for i, d := range line.Details {
			got = append(got, d.Amount.String())
			if d.Status != bankfile.StatusBooked || d.BookingDate != line.BookingDate || d.Ordinal != i+1 || !strings.HasPrefix(d.Identity, line.Identity+
				"/") {
				t.Errorf("%s: detail %+v", name, d)
			}
		}
		if c.want != nil || len(got) < 100 {
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		}
		if state(s.Checks, bankfile.CheckDetails) != c.state || (len(line.Flags) > 0) != (c.state == bankfile.CheckNotMade) ||
			line.References.Batch != "P1" {
			t.Errorf("%s: %+v, flags %v", name, s.Checks, line.Flags)
		}
	}
}

func TestCamt_Counterparty(t *testing.T) {
	t.Parallel()
	parties := `<NtryDtls><TxDtls><RltdPties><Dbtr><Nm>Payer</Nm></Dbtr><Cdtr><Pty><Nm>Payee</Nm></Pty></Cdtr></RltdPties></TxDtls></NtryDtls>`
	only := `<NtryDtls><TxDtls><RltdPties><Cdtr><Nm>Only</Nm></Cdtr><CdtrAcct><Id><IBAN>DE2</IBAN></Id></CdtrAcct></RltdPties></TxDtls></NtryDtls>`
	own := strings.Replace(only, "DE2", "DE1", 1)
	sts := "<Sts>BOOK</Sts>" + onDay
	for name, c := range map[string]struct{ entry, want string }{
		"money in":           {ntry("1", "CRDT", sts+parties), "Payer"},
		"money out":          {ntry("1", "DBIT", sts+parties), "Payee"},
		"money out, back":    {ntry("1", "CRDT", "<RvslInd>1</RvslInd>"+sts+parties), "Payee"},
		"money in, back":     {ntry("1", "DBIT", "<RvslInd>true</RvslInd>"+sts+parties), "Payer"},
		"only the wrong one": {ntry("1", "CRDT", sts+only), "Only"},
		"only ourselves":     {ntry("1", "CRDT", sts+own), ""},
	} {
		file, _ := parse(t, stmt("101", c.entry), bankfile.Options{})
		if got := file.Statements[0].Lines[0].Counterparty.Name; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

func TestCamt_Summary(t *testing.T) {
	t.Parallel()
	entries := ntry("5", "CRDT", "<Sts>BOOK</Sts>"+onDay) + ntry("2", "DBIT", "<Sts>BOOK</Sts>"+onDay)
	pending := ntry("7", "DBIT", "<Sts>PDNG</Sts>"+onDay)
	summary := func(n, sum, credits, net string) string {
		return "<TxsSummry><TtlNtries><NbOfNtries>" + n + "</NbOfNtries><Sum>" + sum + "</Sum><TtlNetNtry><Amt>" + net +
			"</Amt><CdtDbtInd>CRDT</CdtDbtInd></TtlNetNtry>" +
			"</TtlNtries><TtlCdtNtries><NbOfNtries>1</NbOfNtries><Sum>" + credits + "</Sum></TtlCdtNtries></TxsSummry>"
	}
	for name, c := range map[string]struct {
		rest   string
		reason bankfile.Reason
		state  bankfile.CheckState
	}{
		"right":         {summary("2", "7.00", "5", "3") + entries, "", bankfile.CheckHeld},
		"wrong count":   {summary("3", "7.00", "5", "3") + entries, bankfile.ReasonCount, bankfile.CheckFailed},
		"wrong sum":     {summary("2", "7.01", "5", "3") + entries, bankfile.ReasonControl, bankfile.CheckFailed},
		"wrong credits": {summary("2", "7.00", "6", "3") + entries, bankfile.ReasonControl, bankfile.CheckFailed},
		"wrong net":     {summary("2", "7.00", "5", "4") + entries, bankfile.ReasonControl, bankfile.CheckFailed},
		"net negative": {strings.Replace(summary("2", "7.00", "5", "3"), "<Amt>3</Amt><CdtDbtInd>CRDT", "<Amt>3</Amt><CdtDbtInd>DBIT", 1) +
			entries, bankfile.ReasonControl, bankfile.CheckFailed},
		"net of version 2": {strings.NewReplacer("<TtlNetNtry><Amt>", "<TtlNetNtryAmt>", "</Amt><CdtDbtInd>", "</TtlNetNtryAmt><CdtDbtInd>",
			"</TtlNetNtry>", "").Replace(summary("2", "7.00", "5", "3")) + entries, "", bankfile.CheckHeld},
		"pending counted":    {summary("3", "14.00", "5", "-4") + entries + pending, "", bankfile.CheckNotMade},
		"pending left out":   {summary("2", "7.00", "5", "3") + entries + pending, "", bankfile.CheckHeld},
		"nothing to compare": {"<TxsSummry></TxsSummry>" + entries, "", bankfile.CheckNotMade},
	} {
		file, refused := parse(t, stmt("103", c.rest), bankfile.Options{})
		if (refused == nil) != (c.reason == "") || refused != nil && refused.Reason != c.reason {
			t.Errorf("%s: %v; want %s", name, refused, c.reason)
		}
		if got := state(file.Statements[0].Checks, bankfile.CheckSummary); got != c.state {
			t.Errorf("%s: %s, want %s", name, got, c.state)
		}
	}
}

func TestCamt_Refused(t *testing.T) {
	t.Parallel()
	sts := "<Sts>BOOK</Sts>" + onDay
	for name, c := range map[string]struct {
		text   []byte
		reason bankfile.Reason
		detail string
	}{
		"camt.052":      {[]byte(`<Document><BkToCstmrAcctRpt></BkToCstmrAcctRpt></Document>`), bankfile.ReasonNotThisFormat, "camt.052"},
		"camt.054":      {[]byte(`<d:Document xmlns:d="x"><d:BkToCstmrDbtCdtNtfctn/></d:Document>`), bankfile.ReasonNotThisFormat, "camt.054"},
		"pain.001":      {[]byte(`<Document><CstmrCdtTrfInitn/></Document>`), bankfile.ReasonNotThisFormat, `root "Document"`},
		"no statement":  {[]byte(camtFile(2, "")), bankfile.ReasonEmpty, "no statement"},
		"a cut":         {stmt("101", ntry("1", "CRDT", sts))[:600], bankfile.ReasonMalformed, "unexpected EOF"},
		"a cut between": {[]byte(strings.TrimSuffix(camtFile(2, ""), "</BkToCstmrStmt></Document>\n")), bankfile.ReasonMalformed, "ends before"},

		"not XML":        {stmt("101", "<Ntry><Amt"), bankfile.ReasonMalformed, "not XML"},
		"wrongly nested": {stmt("101", "<Ntry><Amt></Ntry></Amt>"), bankfile.ReasonMalformed, "ends as"},
		"an entity": {[]byte(`<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "b">]>` + string(stmt("101", ntry("&a;", "CRDT", sts)))),
			bankfile.ReasonMalformed, "not XML"},
		"a negative amount": {stmt("101", ntry("-1", "CRDT", sts)), bankfile.ReasonMalformed, "is not an amount"},
		"no direction":      {stmt("101", ntry("1", "", sts)), bankfile.ReasonMalformed, "neither CRDT nor DBIT"},
		"no amount":         {stmt("101", "<Ntry>"+sts+"</Ntry>"), bankfile.ReasonMalformed, "no Amt"},
		"an unknown status": {stmt("101", ntry("1", "CRDT", "<Sts>XXXX</Sts>"+onDay)), bankfile.ReasonMalformed, "is not known"},
		"a date that is none": {stmt("101", ntry("1", "CRDT", "<Sts>BOOK</Sts><BookgDt><Dt>2024-13-01</Dt></BookgDt>")), bankfile.ReasonMalformed,
			"booking date"},
		"another currency": {stmt("100", strings.Replace(ntry("1", "CRDT", sts), "EUR", "USD", 1)), bankfile.ReasonCurrency,
			"is in USD, its account is in EUR"},
		"half a cent":      {stmt("100.005", ntry("0.005", "CRDT", sts)), bankfile.ReasonScale, "0.005 has 3 decimals, and EUR has 2"},
		"too deep":         {stmt("101", strings.Repeat("<a>", 100)), bankfile.ReasonMalformed, "deep"},
		"another encoding": {[]byte(strings.Replace(string(stmt("101", "")), "UTF-8", "KOI8-R", 1)), bankfile.ReasonMalformed, "KOI8-R"},
	} {
		_, refused := parse(t, c.text, bankfile.Options{})
		if refused == nil || refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %+v; want %s, %q", name, refused, c.reason, c.detail)
		}
	}
	// Named as camt.053, it is still refused by what it is.
	_, refused := parse(t, []byte(`<Document><BkToCstmrAcctRpt></BkToCstmrAcctRpt></Document>`), bankfile.Options{Format: bankfile.FormatCamt053})
	if refused == nil || refused.Reason != bankfile.ReasonNotThisFormat {
		t.Error(refused)
	}
}

func TestCamt_Namespaces(t *testing.T) {
	t.Parallel()
	text := string(stmt("101", ntry("1", "CRDT", "<Sts>BOOK</Sts>"+onDay+"<AddtlNtryInf>Caf\u00e9</AddtlNtryInf>")))
	latin := strings.NewReplacer("UTF-8", "ISO-8859-1", "\u00e9", "\xe9").Replace(text)
	prefixed := strings.NewReplacer("</", "</n:", "<?xml", "<?xml", "<", "<n:").Replace(text)
	prefixed = strings.NewReplacer("<n:?xml", "<?xml", "<n:/n:", "</n:", "xmlns=", "xmlns:n=").Replace(prefixed)
	wrapped := strings.Replace(text, "<Document", "<Envelope><Header><From/></Header><Document", 1) + "</Envelope>"
	for name, text := range map[string]string{"latin-1": latin, "a prefix": prefixed, "an envelope": wrapped, "no namespace": strings.Replace(text,
		"xmlns", "x", 1)} {
		file, refused := parse(t, []byte(text), bankfile.Options{})
		if refused != nil {
			t.Errorf("%s: %v", name, refused)
		} else if l := file.Statements[0].Lines; len(l) != 1 || l[0].Description != "Caf\u00e9" {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

func TestCamt_InterimBalances(t *testing.T) {
	t.Parallel()
	bal := func(code, amount string) string {
		return `<Bal><Tp><CdOrPrtry><Cd>` + code + `</Cd></CdOrPrtry></Tp><Amt Ccy="EUR">` + amount +
			`</Amt><CdtDbtInd>CRDT</CdtDbtInd><Dt><Dt>2024-01-01</Dt></Dt></Bal>`
	}
	for name, c := range map[string]struct{ balances, opening, closing string }{
		"of the day before": {bal("PRCD", "1") + bal("CLBD", "1"), "PRCD", "CLBD"},
		"both":              {bal("PRCD", "2") + bal("OPBD", "1") + bal("CLBD", "1"), "OPBD", "CLBD"},
		"first page":        {bal("OPBD", "1") + bal("ITBD", "1"), "OPBD", "ITBD"},
		"page between":      {bal("ITBD", "1") + bal("ITBD", "1"), "ITBD", "ITBD"},
		"last page":         {bal("ITBD", "1") + bal("CLBD", "1"), "ITBD", "CLBD"},
		"one only":          {bal("ITBD", "1"), "", "ITBD"},
		"available":         {bal("CLAV", "1"), "", ""},
	} {
		file, refused := parse(t, []byte(camtFile(8, "<Stmt><Acct><Ccy>EUR</Ccy></Acct>"+c.balances+"</Stmt>")), bankfile.Options{})
		if refused != nil {
			t.Errorf("%s: %v", name, refused)
			continue
		}
		code := func(b *bankfile.Balance) string {
			if b == nil {
				return ""
			}
			return b.Code
		}
		if s := file.Statements[0]; code(s.Opening) != c.opening || code(s.Closing) != c.closing {
			t.Errorf("%s: from %s to %s", name, code(s.Opening), code(s.Closing))
		}
	}
}

// TestParse_Context stops when the caller does.
func TestParse_Context(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := bankfile.Parse(ctx, strings.NewReader("x"), bankfile.Options{})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	broken := errors.New("broken")
	for _, w := range writers {
		s := example(3000)
		text := w.write(s, s.Lines)
		text.options.Scale = scales
		_, err := bankfile.Parse(context.Background(), &failing{strings.NewReader(string(text.text[:len(text.text)/2])), broken}, text.options)
		if !errors.Is(err, broken) || errors.As(err, new(*bankfile.Refusal)) {
			t.Errorf("%s: %v; want the error of the stream", w.name, err)
		}
	}
}

// failing is a stream that breaks.
type failing struct {
	*strings.Reader
	err error
}

func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil {
		err = f.err
	}
	return n, err
}
