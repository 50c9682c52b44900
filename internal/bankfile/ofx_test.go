package bankfile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// ofxFile is a file of version 1 with one account, to which transactions are added.
func ofxFile(transactions string) string {
	return "OFXHEADER:100\nDATA:OFXSGML\nCHARSET:1252\n\n<OFX><BANKMSGSRSV1><STMTTRNRS><STMTRS>" +
		"<CURDEF>USD<BANKACCTFROM><BANKID>9<ACCTID>A1</BANKACCTFROM>" +
		"<BANKTRANLIST><DTSTART>20240101<DTEND>20240131" + transactions +
		"</BANKTRANLIST><LEDGERBAL><BALAMT>10.00<DTASOF>20240131</LEDGERBAL></STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>"
}

const posted = "<STMTTRN><TRNTYPE>POS<DTPOSTED>20240105"

func TestOFX_Lines(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want gist
	}{
		"a zone": {"<STMTTRN><TRNTYPE>POS<DTPOSTED>20240105233000.000[-5:EST]<TRNAMT>-1.50<FITID>F1<NAME>Shop<MEMO>at Shop</STMTTRN>",
			gist{"2024-01-05", "", "-1.50 USD", "F1", "at Shop"}},
		"a comma":         {posted + "<TRNAMT>-1,5<FITID>F1</STMTTRN>", gist{"2024-01-05", "", "-1.50 USD", "F1", ""}},
		"a plus, a point": {posted + "<TRNAMT>+.75<FITID>F1</STMTTRN>", gist{"2024-01-05", "", "0.75 USD", "F1", ""}},
		"entities": {posted + "<TRNAMT>1<NAME>A &amp; B &lt;C&gt; &#233; D&E; AT&T &unknown;</STMTTRN>", gist{"2024-01-05", "", "1.00 USD", "",
			"A & B <C> é D&E; AT&T &unknown;"}},
		"windows-1252":   {posted + "<TRNAMT>1<NAME>Caf\xe9 \x80</STMTTRN>", gist{"2024-01-05", "", "1.00 USD", "", "Café €"}},
		"CDATA":          {posted + "<TRNAMT>1<MEMO><![CDATA[a > b & <c>]]></STMTTRN>", gist{"2024-01-05", "", "1.00 USD", "", "a > b & <c>"}},
		"empty elements": {posted + "<TRNAMT>1<FITID>\n<CHECKNUM/><NAME>\n<MEMO>x</STMTTRN>", gist{"2024-01-05", "", "1.00 USD", "", "x"}},
		"a payee": {posted + "<TRNAMT>1<PAYEE><NAME>P<CITY>X</PAYEE><BANKACCTTO><ACCTID>Z9</BANKACCTTO><MEMO>m</STMTTRN>", gist{"2024-01-05",
			"", "1.00 USD", "", "P m"}},
		"a value date": {posted + "<DTAVAIL>20240107<TRNAMT>1</STMTTRN>", gist{"2024-01-05", "2024-01-07", "1.00 USD", "", ""}},
		"closed as XML": {"<STMTTRN><DTPOSTED>20240105</DTPOSTED><TRNAMT>1</TRNAMT><FITID>F</FITID></STMTTRN>", gist{"2024-01-05", "", "1.00 USD",
			"F", ""}},
		"small letters": {"<stmttrn><dtposted>20240105<trnamt>1<fitid>F</stmttrn>", gist{"2024-01-05", "", "1.00 USD", "F", ""}},
		"converted":     {posted + "<TRNAMT>1<ORIGCURRENCY><CURSYM>EUR</ORIGCURRENCY></STMTTRN>", gist{"2024-01-05", "", "1.00 USD", "", ""}},
	} {
		file, refused := parse(t, []byte(ofxFile(c.text)), bankfile.Options{})
		if refused != nil {
			t.Errorf("%s: %v", name, refused)
		} else if diff := cmp.Diff([]gist{c.want}, gists(file.Statements[0])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestOFX_Statements(t *testing.T) {
	t.Parallel()
	// The end tags of the lines are left out, as SGML allows.
	text := ofxFile(posted + "<TRNAMT>1<CORRECTFITID>F0" + posted + "<TRNAMT>2<CHECKNUM>17")
	card := `<CREDITCARDMSGSRSV1><CCSTMTTRNRS><CCSTMTRS><CURDEF>eur</CURDEF><CCACCTFROM><ACCTID>C1</ACCTID></CCACCTFROM><BANKTRANLIST></BANKTRANLIST>` +
		`<BANKTRANLISTP><DTASOF>20240131</DTASOF><STMTTRNP><TRNTYPE>POS</TRNTYPE>` +
		`<DTTRAN>20240130</DTTRAN><TRNAMT>-5</TRNAMT><NAME>x</NAME></STMTTRNP></BANKTRANLISTP>` +
		`<AVAILBAL><BALAMT>1</BALAMT><DTASOF>20240131</DTASOF></AVAILBAL></CCSTMTRS></CCSTMTTRNRS></CREDITCARDMSGSRSV1></OFX>`
	text = strings.TrimSuffix(text, "</OFX>") + card
	file, refused := parse(t, []byte(text), bankfile.Options{})
	if refused != nil {
		t.Fatal(refused)
	}
	bank, cc := file.Statements[0], file.Statements[1]
	if len(bank.Lines) != 2 || bank.AccountID != "A1" || bank.BankID != "9" || bank.From.String() != "2024-01-01" ||
		bank.Closing.Amount.StringFixed(2) != "10.00" ||
		bank.Lines[0].Flags[0].Code != bankfile.FlagCorrection || bank.Lines[1].References.Cheque != "17" {
		t.Errorf("%+v", bank)
	}
	if cc.AccountID != "C1" || cc.Currency != "EUR" || cc.Closing != nil || len(cc.Balances) != 1 || len(cc.Lines) != 1 ||
		cc.Lines[0].Status != bankfile.StatusPending || cc.Lines[0].Currency != "EUR" {
		t.Errorf("%+v", cc)
	}
}

func TestOFX_Refused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		reason bankfile.Reason
		detail string
	}{
		"no amount":           {ofxFile(posted + "</STMTTRN>"), bankfile.ReasonMalformed, "no TRNAMT"},
		"no date":             {ofxFile("<STMTTRN><TRNAMT>1</STMTTRN>"), bankfile.ReasonMalformed, "no DTPOSTED"},
		"a date that is none": {ofxFile("<STMTTRN><DTPOSTED>20240230<TRNAMT>1</STMTTRN>"), bankfile.ReasonMalformed, "does not exist"},
		"thousands":           {ofxFile(posted + "<TRNAMT>1,234.56</STMTTRN>"), bankfile.ReasonMalformed, "is not an amount"},
		"a thousand?":         {ofxFile(posted + "<TRNAMT>1,234</STMTTRN>"), bankfile.ReasonScale, "1.234 has 3 decimals"},
		"a foreign amount":    {ofxFile(posted + "<TRNAMT>1<CURRENCY><CURSYM>EUR</CURRENCY></STMTTRN>"), bankfile.ReasonCurrency, "is in EUR"},
		"no currency":         {strings.Replace(ofxFile(""), "<CURDEF>USD", "", 1), bankfile.ReasonMalformed, "no currency"},
		"a cut":               {strings.TrimSuffix(ofxFile(""), "</STMTRS></STMTTRNRS></BANKMSGSRSV1></OFX>"), bankfile.ReasonMalformed, "ends within"},
		"a cut tag":           {ofxFile("<STMTTR")[:len(ofxFile("<STMTTR"))-1], bankfile.ReasonMalformed, "opened and not closed"},
		"investments":         {"<OFX><INVSTMTRS></INVSTMTRS></OFX>", bankfile.ReasonUnsupported, "investments"},
		"sign-on only":        {"<OFX><SIGNONMSGSRSV1></SIGNONMSGSRSV1></OFX>", bankfile.ReasonEmpty, "no statement"},
		"no OFX":              {"OFXHEADER:100\n", bankfile.ReasonNotThisFormat, "no element OFX"},
	} {
		_, refused := parse(t, []byte(c.text), bankfile.Options{})
		if refused == nil || refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %+v; want %s, %q", name, refused, c.reason, c.detail)
		}
	}
}
