package bankfile_test

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// statement is what the writers below write, each in its format: our own reading of the formats, apart from that of the parsers.
type statement struct {
	Account, Currency string
	Scale             int32
	Number            int
	Opening           decimal.Decimal
	OpeningDate       bankfile.Date
	ClosingDate       bankfile.Date
	Lines             []entry
}

type entry struct {
	Booked, Value bankfile.Date
	Amount        decimal.Decimal
	ID, EndToEnd  string
	Partner, Text string
}

// closing is the opening balance and the lines.
func (s statement) closing() decimal.Decimal {
	sum := s.Opening
	for _, e := range s.Lines {
		sum = sum.Add(e.Amount)
	}
	return sum
}

// with is the statement with another amount in a line. The writers below take totals from the statement, and lines from shown, so that a file can be
// made whose lines are not those of its totals.
func (s statement) with(line int, more decimal.Decimal) []entry {
	shown := append([]entry(nil), s.Lines...)
	shown[line].Amount = shown[line].Amount.Add(more)
	return shown
}

// written is a file of some statements, and how it is read.
type writtenFile struct {
	text    []byte
	options bankfile.Options
}

func (s statement) fixed(amount decimal.Decimal) string { return amount.StringFixed(s.Scale) }

func comma(text string) string { return strings.Replace(text, ".", ",", 1) }

// csvProfile is for what writeCSV writes.
var csvProfile = bankfile.Profile{
	Name: "test", Delimiter: ";", DecimalMark: ",", GroupMark: ".", DateFormats: []string{"DD.MM.YYYY"}, SkipLines: 2, SkipFooter: 1, Header: true,
	Columns: bankfile.Columns{
		BookingDate: bankfile.Column{Name: "Booked"}, ValueDate: bankfile.Column{Name: "Value"}, Amount: bankfile.Column{Name: "Amount"},
		Balance: bankfile.Column{Name: "Balance"}, Currency: bankfile.Column{Number: 5}, Account: bankfile.Column{Name: "Account"},
		ID: bankfile.Column{Name: "ID"}, EndToEnd: bankfile.Column{Name: "E2E"}, Partner: bankfile.Column{Name: "Partner"},
		Description: []bankfile.Column{{Name: "Text"}},
	},
	Opening: &bankfile.Cell{Line: 2, Column: 2}, Closing: &bankfile.Cell{Line: -1, Column: 1, After: "Closing:"},
}

func quoteCSV(text string) string { return `"` + strings.ReplaceAll(text, `"`, `""`) + `"` }

func german(d bankfile.Date) string { return fmt.Sprintf("%02d.%02d.%04d", d.Day, d.Month, d.Year) }

// grouped writes 1.234.567,89.
func (s statement) grouped(amount decimal.Decimal) string {
	whole, fraction, point := strings.Cut(s.fixed(amount.Abs()), ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "." + whole[i:]
	}
	if point {
		whole += "," + fraction
	}
	if amount.IsNegative() {
		return whole + "-"
	}
	return whole
}

func writeCSV(s statement, shown []entry) writtenFile {
	var out strings.Builder
	fmt.Fprintf(&out, "Statement of %s\r\nOpening;%s\r\nBooked;Value;Amount;Balance;Currency;Account;ID;E2E;Partner;Text\r\n", s.Account,
		s.grouped(s.Opening))
	balance := s.Opening
	for i, e := range shown {
		balance = balance.Add(s.Lines[i].Amount)
		fmt.Fprintf(&out, "%s;%s;%s;%s;%s;%s;%s;%s;%s;%s\r\n", german(e.Booked), german(e.Value), s.grouped(e.Amount), s.grouped(balance), s.Currency,
			s.Account, e.ID, e.EndToEnd, quoteCSV(e.Partner), quoteCSV(e.Text))
	}
	fmt.Fprintf(&out, "Closing: %s\r\n\r\n", s.grouped(balance))
	profile := csvProfile
	return writtenFile{[]byte(out.String()), bankfile.Options{Profile: &profile}}
}

func writeStripe(s statement, shown []entry) writtenFile {
	var out strings.Builder
	out.WriteString("balance_transaction_id,created_utc,available_on_utc,currency," +
		"gross,fee,net,reporting_category,source_id,description,customer_name,trace_id\n")
	fee := decimal.New(7, -s.Scale)
	for i, e := range shown {
		fmt.Fprintf(&out, "%s,%s 10:11:12,%s 00:00:00,%s,%s,%s,%s,charge,,%s,%s,%s\n", e.ID, e.Booked, e.Value, strings.ToLower(s.Currency),
			s.fixed(s.Lines[i].Amount.Add(fee)), s.fixed(fee), s.fixed(e.Amount), quoteCSV(e.Text), quoteCSV(e.Partner), e.EndToEnd)
	}
	return writtenFile{[]byte(out.String()), bankfile.Options{}}
}

func escape(text string) string {
	var out bytes.Buffer
	_ = xml.EscapeText(&out, []byte(text))
	return out.String()
}

// direction is a sign as camt has it.
func direction(amount decimal.Decimal) string {
	if amount.IsNegative() {
		return "DBIT"
	}
	return "CRDT"
}

func (s statement) camtAmount(amount decimal.Decimal) string {
	return fmt.Sprintf(`<Amt Ccy="%s">%s</Amt><CdtDbtInd>%s</CdtDbtInd>`, s.Currency, s.fixed(amount.Abs()), direction(amount))
}

func (s statement) camtBalance(code string, amount decimal.Decimal, date bankfile.Date) string {
	return fmt.Sprintf("<Bal><Tp><CdOrPrtry><Cd>%s</Cd></CdOrPrtry></Tp>%s<Dt><Dt>%s</Dt></Dt></Bal>", code, s.camtAmount(amount), date)
}

func camtFile(version int, statements string) string {
	return fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+"\n"+
		`<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.053.001.%02d"><BkToCstmrStmt>`+
		"<GrpHdr><MsgId>M</MsgId></GrpHdr>%s</BkToCstmrStmt></Document>\n", version, statements)
}

func (s statement) camt(version int, shown []entry) string {
	var out strings.Builder
	fmt.Fprintf(&out, "<Stmt><Id>S%d</Id><ElctrncSeqNb>%d</ElctrncSeqNb><Acct><Id><IBAN>%s</IBAN></Id><Ccy>%s</Ccy></Acct>", s.Number, s.Number,
		s.Account, s.Currency)
	out.WriteString(s.camtBalance("OPBD", s.Opening, s.OpeningDate) + s.camtBalance("CLBD", s.closing(), s.ClosingDate))
	for i, e := range shown {
		status, party := "<Sts>BOOK</Sts>", "<Nm>%s</Nm>"
		if version >= 8 {
			status, party = "<Sts><Cd>BOOK</Cd></Sts>", "<Pty><Nm>%s</Nm></Pty>"
		}
		role := "Dbtr"
		if e.Amount.IsNegative() {
			role = "Cdtr"
		}
		fmt.Fprintf(&out, "<Ntry>%s%s<BookgDt><Dt>%s</Dt></BookgDt><ValDt><DtTm>%sT00:00:00+02:00</DtTm></ValDt><AcctSvcrRef>%s</AcctSvcrRef>"+
			"<NtryDtls><TxDtls><Refs><EndToEndId>%s</EndToEndId></Refs><RltdPties><%s>"+party+"</%s></RltdPties><RmtInf><Ustrd>%s</Ustrd></RmtInf>"+
			"</TxDtls></NtryDtls></Ntry>\n", s.camtAmount(shown[i].Amount), status, e.Booked, e.Value, escape(e.ID), escape(e.EndToEnd), role,
			escape(e.Partner),
			role, escape(e.Text))
	}
	out.WriteString("</Stmt>")
	return out.String()
}

func writeCamt(version int) func(statement, []entry) writtenFile {
	return func(s statement, shown []entry) writtenFile {
		return writtenFile{[]byte(camtFile(version, s.camt(version, shown))), bankfile.Options{}}
	}
}

func short(d bankfile.Date) string { return fmt.Sprintf("%02d%02d%02d", d.Year%100, d.Month, d.Day) }

func (s statement) mtBalance(tag string, amount decimal.Decimal, date bankfile.Date) string {
	mark := "C"
	if amount.IsNegative() {
		mark = "D"
	}
	text := comma(s.fixed(amount.Abs()))
	if s.Scale == 0 {
		text += "," // nothing after it
	}
	return fmt.Sprintf(":%s:%s%s%s%s\r\n", tag, mark, short(date), s.Currency, text)
}

// mtLine writes the lines of an MT940. A reversal is another way to write the same sign.
func (s statement) mtLines(shown []entry) string {
	var out strings.Builder
	for i, e := range shown {
		mark := "C"
		if e.Amount.IsNegative() {
			mark = "D"
		}
		if i%3 == 2 {
			mark = map[string]string{"C": "RD", "D": "RC"}[mark]
		}
		if i%2 == 1 {
			mark += s.Currency[2:]
		}
		text := comma(s.fixed(e.Amount.Abs()))
		if s.Scale == 0 {
			text += ","
		}
		fmt.Fprintf(&out, ":61:%s%02d%02d%s%sNTRFNONREF//%s\r\n", short(e.Value), e.Booked.Month, e.Booked.Day, mark, text, e.ID)
		fmt.Fprintf(&out, ":86:166?00?20EREF+%s?21SVWZ+%s?32%s\r\n", e.EndToEnd, e.Text, e.Partner)
	}
	return out.String()
}

func (s statement) mt940(shown []entry) string {
	return fmt.Sprintf(":20:S%d\r\n:25:%s\r\n:28C:%d/1\r\n", s.Number, s.Account, s.Number) + s.mtBalance("60F", s.Opening, s.OpeningDate) +
		s.mtLines(shown) + s.mtBalance("62F", s.closing(), s.ClosingDate) + "-\r\n"
}

func writeMT940(s statement, shown []entry) writtenFile {
	return writtenFile{[]byte(s.mt940(shown)), bankfile.Options{}}
}

// writeBAI2 writes a file of one group of one account.
func writeBAI2(s statement, shown []entry) writtenFile {
	minor := func(amount decimal.Decimal) decimal.Decimal { return amount.Shift(s.Scale) }
	control := minor(s.Opening).Add(minor(s.closing()))
	var lines strings.Builder
	records := 2
	for i, e := range shown {
		code := "142"
		if e.Amount.IsNegative() {
			code = "451"
		}
		fmt.Fprintf(&lines, "16,%s,%s,V,%s,,%s,%s,%s\r\n88,%s/\r\n", code, minor(e.Amount.Abs()), short(e.Value), e.ID, e.EndToEnd, e.Partner, e.Text)
		records += 2
		control = control.Add(minor(s.Lines[i].Amount.Abs()))
	}
	text := fmt.Sprintf("01,BANK,ME,%s,0800,1,,,2/\r\n02,ME,BANK,1,%s,,%s,2/\r\n"+
		"03,%s,,010,%s,,,015,%s,,/\r\n%s49,%s,%d/\r\n98,%s,1,%d/\r\n99,%s,1,%d/\r\n",
		short(s.ClosingDate), short(s.ClosingDate), s.Currency, s.Account, minor(s.Opening), minor(s.closing()), lines.String(),
		control, records, control, records+2, control, records+4)
	return writtenFile{[]byte(text), bankfile.Options{}}
}

func writeOFX(asXML bool) func(statement, []entry) writtenFile {
	return func(s statement, shown []entry) writtenFile {
		var out strings.Builder
		leaf := func(name, text string) {
			out.WriteString("<" + name + ">" + escape(text))
			if asXML {
				out.WriteString("</" + name + ">")
			}
			out.WriteString("\n")
		}
		day := func(d bankfile.Date) string { return fmt.Sprintf("%04d%02d%02d", d.Year, d.Month, d.Day) }
		if asXML {
			out.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n" + `<?OFX OFXHEADER="200" VERSION="211"?>` + "\n")
		} else {
			out.WriteString("OFXHEADER:100\nDATA:OFXSGML\nVERSION:102\nENCODING:UTF-8\n\n")
		}
		out.WriteString("<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS>\n")
		leaf("CURDEF", s.Currency)
		out.WriteString("<BANKACCTFROM>")
		leaf("ACCTID", s.Account)
		out.WriteString("</BANKACCTFROM><BANKTRANLIST>\n")
		for _, e := range shown {
			out.WriteString("<STMTTRN>")
			leaf("TRNTYPE", "OTHER")
			leaf("DTPOSTED", day(e.Booked)+"120000.000[-5:EST]")
			leaf("DTAVAIL", day(e.Value))
			leaf("TRNAMT", s.fixed(e.Amount))
			leaf("FITID", e.ID)
			leaf("NAME", e.Partner)
			leaf("MEMO", e.Text)
			out.WriteString("</STMTTRN>\n")
		}
		out.WriteString("</BANKTRANLIST><LEDGERBAL>")
		leaf("BALAMT", s.fixed(s.closing()))
		leaf("DTASOF", day(s.ClosingDate))
		out.WriteString("</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>\n")
		return writtenFile{[]byte(out.String()), bankfile.Options{}}
	}
}

// writers are the formats, and what a file of one says of itself.
var writers = []struct {
	name   string
	format bankfile.Format
	write  func(statement, []entry) writtenFile
	// opening, closing and account say that the format has them; reason is how a changed amount is found, "" if it cannot be.
	opening, closing, account, endToEnd bool
	reasons                             []bankfile.Reason
}{
	{"csv", bankfile.FormatCSV, writeCSV, true, true, true, true, []bankfile.Reason{bankfile.ReasonRunning, bankfile.ReasonTotals}},
	{"stripe", bankfile.FormatStripe, writeStripe, false, false, false, true, []bankfile.Reason{bankfile.ReasonTotals}},
	{"camt.053.001.02", bankfile.FormatCamt053, writeCamt(2), true, true, true, true, []bankfile.Reason{bankfile.ReasonTotals}},
	{"camt.053.001.08", bankfile.FormatCamt053, writeCamt(8), true, true, true, true, []bankfile.Reason{bankfile.ReasonTotals}},
	{"mt940", bankfile.FormatMT940, writeMT940, true, true, true, true, []bankfile.Reason{bankfile.ReasonTotals}},
	{"bai2", bankfile.FormatBAI2, writeBAI2, true, true, true, false, []bankfile.Reason{bankfile.ReasonControl, bankfile.ReasonTotals}},
	{"ofx 1", bankfile.FormatOFX, writeOFX(false), false, true, true, false, nil},
	{"ofx 2", bankfile.FormatOFX, writeOFX(true), false, true, true, false, nil},
}

// example is a statement of n lines.
func example(n int) statement {
	day := func(i int) bankfile.Date {
		t := time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, i)
		return bankfile.Date{Year: t.Year(), Month: t.Month(), Day: t.Day()}
	}
	const days = 28
	s := statement{
		Account: "DE89370400440532013000", Currency: "EUR", Scale: 2, Number: 7, Opening: decimal.RequireFromString("1000.00"),
		OpeningDate: day(0), ClosingDate: day(days),
	}
	for i := range n {
		amount := decimal.New(int64(i*37%100_000+1), -2)
		if i%3 == 1 {
			amount = amount.Neg()
		}
		booked := day(i * days / n)
		s.Lines = append(s.Lines, entry{
			Booked: booked, Value: booked, Amount: amount, ID: fmt.Sprintf("REF%09d", i), EndToEnd: fmt.Sprintf("E2E%d", i),
			Partner: "Customer and Sons Limited", Text: fmt.Sprintf("Invoice %d of the year, thank you", i),
		})
	}
	return s
}
