package bankfile_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// fuzzLimits are small, so that inputs that go beyond them are small as well.
var fuzzLimits = bankfile.Limits{Bytes: 1 << 20, Element: 1 << 12, Lines: 500, Statements: 50, Members: 20, Ratio: 50}

// fuzz reads whatever comes in one format, and looks at what a file that is not refused must hold, and one that is must not break.
func fuzz(f *testing.F, format bankfile.Format, seeds ...[]byte) {
	f.Helper()
	s := example(4)
	for _, w := range writers {
		if w.format == format {
			f.Add(w.write(s, s.Lines).text)
			f.Add(w.write(s, s.with(1, s.Lines[0].Amount)).text)
		}
	}
	for _, seed := range seeds {
		f.Add(seed)
	}
	files, _ := filepath.Glob(filepath.FromSlash(samples + "/*"))
	for _, name := range files {
		if text, err := os.ReadFile(name); err == nil {
			f.Add(text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { look(t, text, bankfile.Options{Format: format}) })
}

func look(t *testing.T, text []byte, o bankfile.Options) {
	t.Helper()
	o.Limits, o.Scale = fuzzLimits, scales
	if o.Format == bankfile.FormatCSV && o.Profile == nil {
		o.Profile = &csvProfile
	}
	file, err := bankfile.Parse(context.Background(), bytes.NewReader(text), o)
	var refused *bankfile.Refusal
	if err != nil && !errors.As(err, &refused) {
		t.Fatalf("an error that is no refusal: %v", err)
	}
	if refused != nil && (refused.Reason == "" || refused.Error() == "") {
		t.Fatalf("%+v", refused)
	}
	seen := map[string]bool{}
	for _, s := range file.Statements {
		if len(s.Lines) > fuzzLimits.Lines {
			t.Fatalf("%d lines", len(s.Lines))
		}
		sum, _ := booked(s)
		if refused == nil && s.Opening != nil && s.Closing != nil && !s.Opening.Amount.Add(sum).Equal(s.Closing.Amount) {
			t.Fatalf("%s and %s make %s, and was not refused", s.Opening.Amount, sum, s.Closing.Amount)
		}
		for i, l := range s.Lines {
			id := s.Member + "\x00" + s.AccountID + "\x00" + l.Identity
			switch {
			case l.Identity == "" || seen[id]:
				t.Fatalf("identity %q is that of another line", l.Identity)
			case l.Ordinal != i+1:
				t.Fatalf("line %d has ordinal %d", i+1, l.Ordinal)
			case l.Status == bankfile.StatusBooked && (l.Amount.IsZero() || refused == nil && (l.Currency != s.Currency || l.BookingDate.IsZero())):
				t.Fatalf("%+v", l)
			case !utf8.ValidString(l.Description + l.Counterparty.Name + l.ExternalID + l.Code):
				t.Fatalf("not UTF-8: %+v", l)
			}
			seen[id] = true
		}
	}
	again, err := bankfile.Parse(context.Background(), bytes.NewReader(text), o)
	if (err == nil) != (refused == nil) || again.SHA256 != file.SHA256 {
		t.Fatal("read twice, it is another file")
	}
}

func FuzzCSV(f *testing.F)    { fuzz(f, bankfile.FormatCSV) }
func FuzzStripe(f *testing.F) { fuzz(f, bankfile.FormatStripe, []byte(activity)) }
func FuzzCamt(f *testing.F) {
	fuzz(f, bankfile.FormatCamt053, stmt("101", ntry("1", "CRDT", "<Sts>BOOK</Sts>"+onDay+"<NtryDtls><TxDtls/><TxDtls/></NtryDtls>")))
}

func FuzzMT940(f *testing.F) {
	fuzz(f, bankfile.FormatMT940, []byte("{1:F01X}{2:O9401200240131X}{4:\n"+message("101,",
		":61:2403120313RCR1,NTRFX//Y\nz\n:86:166?00A?20EREF+1?32B\n")+"-}"))
}
func FuzzBAI2(f *testing.F) { fuzz(f, bankfile.FormatBAI2, []byte(bai)) }
func FuzzOFX(f *testing.F) {
	fuzz(f, bankfile.FormatOFX, []byte(ofxFile(posted+"<TRNAMT>1<MEMO><![CDATA[x]]>&#65;<CURRENCY><CURSYM>USD</CURRENCY><PAYEE><NAME>y</PAYEE>")))
}

func FuzzZip(f *testing.F) {
	s := example(2)
	fuzz(f, bankfile.FormatZip, zipped(f, zipMember{"a.xml", writeCamt(8)(s, s.Lines).text}, zipMember{"b.sta", writeMT940(s, s.Lines).text}))
}

// FuzzParse has the format recognised.
func FuzzParse(f *testing.F) {
	s := example(2)
	for _, w := range writers {
		f.Add(w.write(s, s.Lines).text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		look(t, text, bankfile.Options{Profile: &csvProfile})
		if _, r, _ := bankfile.Detect(bytes.NewReader(text)); r != nil {
			if all, _ := io.ReadAll(r); !bytes.Equal(all, text) {
				t.Fatal("Detect lost something")
			}
		}
	})
}

// FuzzProfile reads a file by any profile that is valid.
func FuzzProfile(f *testing.F) {
	f.Add([]byte(plain), []byte("date,amount,text\n2024-01-02,12.34,in\n"))
	f.Add([]byte(balances), []byte("date,amount,balance\n2024-01-02,1,2\n2024-01-01,1,1\n"))
	f.Add([]byte(berkaProfile),
		[]byte("trans_id;account_id;date;type;operation;amount;balance;k_symbol;bank;account\n1;2;960728;credit;c;900.00;900.00;;;\n"))
	f.Add([]byte(`{"encoding": "utf-16", "currency": "EUR", "skip_lines": 1, "skip_footer": 1, "columns": {"booking_date": 1, "debit": 2, "credit": 3},
		"opening": {"line": 1, "column": 1}, "closing": {"line": -1, "column": 1}}`), []byte("\xff\xfe1\x00\n\x00"))
	f.Fuzz(func(t *testing.T, shape, text []byte) {
		profile, err := bankfile.ParseProfile(shape)
		if err != nil {
			return
		}
		look(t, text, bankfile.Options{Format: bankfile.FormatCSV, Profile: profile})
		lines, err := bankfile.Preview(context.Background(), bytes.NewReader(text), *profile, fuzzLimits, 20)
		if err != nil && !errors.As(err, new(*bankfile.Refusal)) || len(lines) > 20 {
			t.Fatalf("%d lines, %v", len(lines), err)
		}
	})
}

// TestParse_NoQuadraticTime reads what is made to take long: many small parts that go on with what stands above them. A second is far more than it
// takes.
func TestParse_NoQuadraticTime(t *testing.T) {
	t.Parallel()
	const n = 120_000
	s := example(1)
	sta, camt := message("101,", ":61:240312C1,NTRFX\n"), string(writeCamt(8)(s, s.Lines).text)
	for name, text := range map[string]string{
		"a description of many lines": strings.Replace(sta, "NTRFX\n", "NTRFX\n:86:166?00\n"+strings.Repeat("a\n", n), 1),
		"a description of many parts": strings.Replace(sta, "NTRFX\n", "NTRFX\n:86:166?00\n"+strings.Repeat("?20", n)+"\n", 1),
		"many descriptions":           strings.Replace(sta, "NTRFX\n", "NTRFX\n"+strings.Repeat(":86:a\n", n), 1),
		"a record of many lines":      strings.Replace(bai, "WIRE, FROM/ABC", "x\n"+strings.Repeat("a\n", n), 1),
		"many records on a line":      strings.Replace(bai, "16,195", strings.Repeat("16,890,/  ", n/4)+"16,195", 1),
		"many continuations":          strings.Replace(bai, "88,AND MORE/\n", strings.Repeat("88,/\n", n), 1),
		"many empty texts":            strings.Replace(camt, "<Ustrd>", strings.Repeat("<Ustrd/>", n/4)+"<Ustrd>", 1),
		"open elements":               strings.Replace(camt, "<Ustrd>", strings.Repeat("<a>", n), 1),
		"many tags":                   ofxFile(strings.Repeat("<STMTTRN>", n)),
		"many payees":                 ofxFile(posted + strings.Repeat("<PAYEE>", n)),
		"delimiters":                  "Statement\nOpening;1\n" + strings.Repeat(";", n) + "\n",
		"a table of one long row": "Statement\nOpening;1\nBooked;Value;Amount;Balance;Currency;Account;ID;E2E;Partner;Text\n" + strings.Repeat("x;",
			n) + "\n",
		"brackets":    strings.Repeat("<", n),
		"quotes":      "Statement\nOpening;1\n" + strings.Repeat(`"`, n) + "\n",
		"empty lines": strings.Repeat("\n", n) + sta,
	} {
		done := make(chan struct{})
		go func() {
			defer close(done)
			_, err := bankfile.Parse(context.Background(), strings.NewReader(text), bankfile.Options{Scale: scales, Profile: &csvProfile})
			if err != nil && !errors.As(err, new(*bankfile.Refusal)) {
				t.Errorf("%s: %v", name, err)
			}
		}()
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Fatalf("%s takes more than 20 s", name)
		}
	}
}
