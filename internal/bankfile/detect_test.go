package bankfile_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/khata-ledger/khata/internal/bankfile"
)

func TestDetect(t *testing.T) {
	t.Parallel()
	s := example(2)
	texts := map[string]struct {
		text []byte
		want bankfile.Format
	}{
		"nothing":            {nil, ""},
		"words":              {[]byte("hello, world\n"), ""},
		"csv":                {writeCSV(s, s.Lines).text, ""}, // never: a profile has to be named
		"html":               {[]byte("<html><body></body></html>"), ""},
		"bom and camt":       {append([]byte("\xef\xbb\xbf"), writeCamt(2)(s, s.Lines).text...), bankfile.FormatCamt053},
		"spaces and camt":    {append([]byte("\r\n  "), writeCamt(2)(s, s.Lines).text...), bankfile.FormatCamt053},
		"OFX in a text":      {[]byte("date,text\n2024-01-01,<OFX>\n"), ""},
		"almost BAI2":        {[]byte("01,02,03\n"), ""},
		"almost MT940":       {[]byte(":20:x\n"), ""},
		"zip":                {zipped(t, zipMember{"x", nil}), bankfile.FormatZip},
		"an empty zip":       {zipped(t), bankfile.FormatZip},
		"OFX without header": {[]byte("<OFX><SIGNONMSGSRSV1>"), bankfile.FormatOFX},
	}
	for _, w := range writers {
		if w.format != bankfile.FormatCSV {
			texts[w.name] = struct {
				text []byte
				want bankfile.Format
			}{w.write(s, s.Lines).text, w.format}
		}
	}
	for name, c := range texts {
		format, r, err := bankfile.Detect(iotest.HalfReader(bytes.NewReader(c.text)))
		if format != c.want || (err != nil) != (name == "html") {
			t.Errorf("%s: %q, %v; want %q", name, format, err, c.want)
		}
		if all, _ := io.ReadAll(r); !bytes.Equal(all, c.text) {
			t.Errorf("%s: cannot be read from the beginning any more", name)
		}
	}
	_, _, err := bankfile.Detect(strings.NewReader(`<Document xmlns="urn:iso:std:iso:20022:tech:xsd:camt.052.001.08"><BkToCstmrAcctRpt>`))
	if err == nil || !strings.Contains(err.Error(), "camt.052") {
		t.Error(err)
	}
}

// TestParse_NotWhatATextSays reads a CSV file in which a stranger has written a whole statement, as the text of his payment.
func TestParse_NotWhatATextSays(t *testing.T) {
	t.Parallel()
	s := example(2)
	for _, w := range writers {
		text := "date,amount,text\n2024-01-02,12.34," + quoteCSV("\n"+string(w.write(s, s.Lines).text)) + "\n"
		file, refused := parse(t, []byte(text), bankfile.Options{Profile: profile(t, plain)})
		if refused != nil || file.Format != bankfile.FormatCSV || len(file.Statements) != 1 || len(file.Statements[0].Lines) != 1 {
			t.Errorf("%s: %s %v", w.name, file.Format, refused)
		}
	}
}

// TestParse_CSVThatLooksOdd reads CSV files that begin as other formats could.
func TestParse_CSVThatLooksOdd(t *testing.T) {
	t.Parallel()
	for _, header := range []string{"<DATE>", ":20:", "01"} {
		p := profile(t, strings.Replace(plain, `"booking_date": "date"`, `"booking_date": "`+header+`"`, 1))
		file, refused := parse(t, []byte(header+",amount,text\n2024-01-02,12.34,x\n"), bankfile.Options{Profile: p})
		if refused != nil || file.Format != bankfile.FormatCSV {
			t.Errorf("%s: %s %v", header, file.Format, refused)
		}
	}
}

// TestNoStatement refuses what people have of their bank beside statements, and says what it is. With a profile, too: it may be anything that has a name.
func TestNoStatement(t *testing.T) {
	t.Parallel()
	spreadsheet := zipped(t, zipMember{"[Content_Types].xml", []byte("<Types/>")}, zipMember{"xl/workbook.xml", []byte("<workbook/>")})
	for name, c := range map[string]struct{ text, want string }{
		"PNG":            {"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "the file is an image (PNG): ask the bank for CSV, camt.053"},
		"JPEG":           {"\xff\xd8\xff\xe0\x00\x10JFIF", "the file is an image (JPEG)"},
		"PDF":            {"%PDF-1.7\n%\xe2\xe3\n", "the file is a PDF: ask the bank for CSV, camt.053"},
		"XLS":            {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\x00\x00", "Microsoft Office"},
		"XLSX":           {string(spreadsheet), "save its sheet as CSV"},
		"gzip":           {"\x1f\x8b\x08\x00", "packed with gzip: unpack it first"},
		"a program":      {"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00", "the file is no text"},
		"nothing":        {"", "the file is empty"},
		"a mark alone":   {"\xef\xbb\xbf\r\n", "the file is empty"},
		"UTF-16, no BOM": {"d\x00a\x00t\x00e\x00", "it lacks the byte order mark"},
	} {
		for _, o := range []bankfile.Options{{}, {Profile: profile(t, plain)}} {
			_, refused := parse(t, []byte(c.text), o)
			if refused == nil || !strings.Contains(refused.Detail, c.want) || refused.Reason != bankfile.ReasonNotThisFormat && refused.Reason != bankfile.ReasonEmpty {
				t.Errorf("%s: %v; want %q", name, refused, c.want)
			}
		}
	}
	for _, format := range []bankfile.Format{bankfile.FormatCSV, bankfile.FormatMT940, bankfile.FormatCamt053, bankfile.FormatOFX} {
		if _, refused := parse(t, []byte("%PDF-1.7\n"), bankfile.Options{Format: format, Profile: profile(t, plain)}); refused == nil ||
			!strings.Contains(refused.Detail, "a PDF") {
			t.Errorf("a PDF as %s: %v", format, refused)
		}
	}
	// What a stranger writes into a payment makes a file of the bank no other.
	file, refused := parse(t, []byte("date,amount,text\n2024-01-02,1,\x89PNG\x00\x00\x00\x00\n"), bankfile.Options{Profile: profile(t, strings.Replace(plain, "{",
		`{"encoding": "windows-1252", `, 1))})
	if refused != nil || len(file.Statements) != 1 {
		t.Errorf("zeros in a text: %v", refused)
	}
}

// TestCSV_NoRows refuses a header alone, unless balances beside it say that nothing happened.
func TestCSV_NoRows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ profile, text, want string }{
		"a header": {plain, "date,amount,text\n\n", "the file has a header and no rows"},
		"a line that is skipped": {`{"currency": "EUR", "skip_lines": 1, "columns": {"booking_date": 1, "amount": 2}}`, "My bank\n",
			"the file has no rows"},
	} {
		if _, refused := parse(t, []byte(c.text), bankfile.Options{Profile: profile(t, c.profile)}); refused == nil || refused.Reason != bankfile.ReasonEmpty ||
			refused.Detail != c.want {
			t.Errorf("%s: %v", name, refused)
		}
	}
}

// TestFormat_Given reads each format by name alone, and refuses what is not of it.
func TestFormat_Given(t *testing.T) {
	t.Parallel()
	s := example(2)
	for _, w := range writers {
		written := w.write(s, s.Lines)
		written.options.Format = w.format
		if _, refused := parse(t, written.text, written.options); refused != nil {
			t.Errorf("%s: %v", w.name, refused)
		}
		for _, text := range []string{"", "hello\n", "\x00\x01\x02", "<a/>", strings.Repeat("x", 1000)} {
			if _, refused := parse(t, []byte(text), written.options); refused == nil {
				t.Errorf("%q was read as %s", text, w.name)
			}
		}
	}
	if _, refused := parse(t, []byte("x"), bankfile.Options{Format: "fax"}); refused == nil || refused.Reason != bankfile.ReasonNotThisFormat {
		t.Error(refused)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	s := example(50)
	for _, w := range writers {
		for name, limits := range map[string]bankfile.Limits{
			"bytes": {Bytes: 3000}, "element": {Element: 20}, "lines": {Lines: 49}, "a byte too few": {Bytes: int64(len(w.write(s, s.Lines).text)) - 1},
		} {
			written := w.write(s, s.Lines)
			written.options.Limits = limits
			file, refused := parse(t, written.text, written.options)
			if refused == nil || refused.Reason != bankfile.ReasonTooLarge {
				t.Errorf("%s, %s: %v", w.name, name, refused)
			}
			if (file.SHA256 != "") != (limits.Bytes == 0) { // it is of the whole file, or it is not there
				t.Errorf("%s, %s: hash %q", w.name, name, file.SHA256)
			}
		}
		written := w.write(s, s.Lines)
		written.options.Limits = bankfile.Limits{Bytes: int64(len(written.text)), Lines: 50, Statements: 1}
		if _, refused := parse(t, written.text, written.options); refused != nil {
			t.Errorf("%s, exactly at the limits: %v", w.name, refused)
		}
	}
	two := camtFile(8, s.camt(8, s.Lines)+strings.ReplaceAll(s.camt(8, s.Lines), "DE89", "DE90"))
	if _, refused := parse(t, []byte(two), bankfile.Options{Limits: bankfile.Limits{Statements: 1}}); refused == nil ||
		refused.Reason != bankfile.ReasonTooLarge {
		t.Error(refused)
	}
	// Lines that belong to nothing, and elements around the message, are bounded one by one.
	for name, c := range map[string]struct {
		text string
		fits bool
	}{
		"a long line before":         {strings.Repeat("x", 3000) + "\n" + s.mt940(s.Lines), false},
		"many lines before":          {strings.Repeat("x\n", 3000) + s.mt940(s.Lines), true},
		"a long element around":      {strings.Replace(two, "<Document", "<E><a>"+strings.Repeat("x", 3000)+"</a><Document", 1) + "</E>", false},
		"many short elements around": {strings.Replace(two, "<Document", "<E>"+strings.Repeat("<a/>", 3000)+"<Document", 1) + "</E>", true},
	} {
		_, refused := parse(t, []byte(c.text), bankfile.Options{Limits: bankfile.Limits{Element: 1000}})
		if (refused == nil) != c.fits || refused != nil && refused.Reason != bankfile.ReasonTooLarge {
			t.Errorf("%s: %v", name, refused)
		}
	}
	// The transactions of one batch count as lines, and each is an element of its own.
	batch := func(n int) []byte {
		return stmt("101", ntry("1", "CRDT", "<Sts>BOOK</Sts>"+onDay+
			"<NtryDtls>"+strings.Repeat("<TxDtls><Refs><EndToEndId>X</EndToEndId></Refs></TxDtls>", n)+"</NtryDtls>"))
	}
	limits := bankfile.Limits{Lines: 1000, Element: 1000}
	if _, refused := parse(t, batch(999), bankfile.Options{Limits: limits}); refused != nil {
		t.Error(refused)
	}
	twice := stmt("102", strings.Repeat(ntry("1", "CRDT", "<Sts>BOOK</Sts>"+onDay+"<NtryDtls>"+strings.Repeat("<TxDtls/>", 600)+"</NtryDtls>"), 2))
	if _, refused := parse(t, twice, bankfile.Options{Limits: limits}); refused == nil || refused.Reason != bankfile.ReasonTooLarge {
		t.Error(refused)
	}
	if _, refused := parse(t, batch(1001), bankfile.Options{Limits: limits}); refused == nil || refused.Reason != bankfile.ReasonTooLarge {
		t.Error(refused)
	}
}
