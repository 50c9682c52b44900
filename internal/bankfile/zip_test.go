package bankfile_test

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/bankfile"
)

type zipMember struct {
	name string
	text []byte
}

func zipped(t testing.TB, members ...zipMember) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	w.RegisterCompressor(zip.Deflate, func(out io.Writer) (io.WriteCloser, error) { return flate.NewWriter(out, flate.BestSpeed) })
	for _, m := range members {
		f, err := w.Create(m.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write(m.text); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestZip(t *testing.T) {
	t.Parallel()
	s := example(3)
	camt, sta := writeCamt(8)(s, s.Lines).text, writeMT940(s, s.Lines).text
	table := []byte("date,amount,text\n2024-01-02,12.34,in\n")
	text := zipped(t, zipMember{"a/", nil}, zipMember{"a/1.xml", camt}, zipMember{"__MACOSX/a/._1.xml", []byte("junk")}, zipMember{"2.sta", sta},
		zipMember{"3.csv", table})
	file, refused := parse(t, text, bankfile.Options{Profile: profile(t, plain)})
	if refused != nil {
		t.Fatal(refused)
	}
	if file.Format != bankfile.FormatZip || file.SHA256 != sha256Of(text) || len(file.Members) != 3 || len(file.Statements) != 3 {
		t.Fatalf("%+v", file)
	}
	for i, want := range []bankfile.Member{
		{"a/1.xml", bankfile.FormatCamt053, sha256Of(camt)}, {"2.sta", bankfile.FormatMT940, sha256Of(sta)}, {"3.csv", bankfile.FormatCSV, sha256Of(table)},
	} {
		if file.Members[i] != want || file.Statements[i].Member != want.Name {
			t.Errorf("member %d: %+v", i, file.Members[i])
		}
	}
	// One member that does not add up refuses all, and it is named.
	wrong := writeCamt(8)(s, s.with(1, s.Lines[0].Amount)).text
	_, refused = parse(t, zipped(t, zipMember{"1.sta", sta}, zipMember{"2.xml", wrong}), bankfile.Options{})
	if refused == nil || refused.Reason != bankfile.ReasonTotals || refused.Member != "2.xml" || refused.Statement != 2 {
		t.Errorf("%+v", refused)
	}
	_, refused = parse(t, zipped(t, zipMember{"1.sta", sta}, zipMember{"2.xml", bytes.Replace(camt, []byte("<Ccy>EUR"), []byte("<Ccy>eur"), 1)}),
		bankfile.Options{})
	if refused == nil || refused.Reason != bankfile.ReasonMalformed || refused.Member != "2.xml" {
		t.Errorf("%+v", refused)
	}
	none := []byte(camtFile(8, "<Stmt><Id>x</Id></Stmt>")) // no currency
	_, refused = parse(t, zipped(t, zipMember{"1.sta", sta}, zipMember{"2.xml", none}), bankfile.Options{})
	if refused == nil || refused.Reason != bankfile.ReasonMalformed || refused.Statement != 2 {
		t.Errorf("%+v", refused)
	}
	// The same file in the zip twice: the lines are the same lines, and not two of each.
	file, refused = parse(t, zipped(t, zipMember{"1.sta", sta}, zipMember{"2.sta", sta}), bankfile.Options{})
	if refused != nil || file.Statements[0].Lines[0].Identity != file.Statements[1].Lines[0].Identity {
		t.Errorf("%v", refused)
	}
}

func TestZip_Bounded(t *testing.T) {
	t.Parallel()
	s := example(300)
	sta := writeMT940(s, s.Lines).text
	zeros := append(bytes.Clone(sta), bytes.Repeat([]byte{'\n'}, 8<<20)...)
	good := zipped(t, zipMember{"1.sta", sta}, zipMember{"2.sta", sta})
	encrypted := bytes.Clone(zipped(t, zipMember{"1.sta", sta}))
	encrypted[bytes.Index(encrypted, []byte("PK\x01\x02"))+8] |= 1
	broken := bytes.Clone(zipped(t, zipMember{"1.sta", sta}))
	for i := 50; i < 200; i++ {
		broken[i] ^= 0xff
	}
	for name, c := range map[string]struct {
		text   []byte
		limits bankfile.Limits
		reason bankfile.Reason
		detail string
	}{
		"a bomb":              {zipped(t, zipMember{"1.sta", zeros}), bankfile.Limits{}, bankfile.ReasonTooLarge, "unpacks to more than 200 times"},
		"too many bytes":      {good, bankfile.Limits{Bytes: 2*int64(len(sta)) - 1}, bankfile.ReasonTooLarge, "bytes"},
		"too many files":      {good, bankfile.Limits{Members: 1}, bankfile.ReasonTooLarge, "more than 1 files"},
		"too many statements": {good, bankfile.Limits{Statements: 1}, bankfile.ReasonTooLarge, "statements"},
		"a zip in it":         {zipped(t, zipMember{"x.zip", good}), bankfile.Limits{}, bankfile.ReasonUnsupported, "a zip stands in the zip"},
		"something else":      {zipped(t, zipMember{"x.pdf", []byte("%PDF")}), bankfile.Limits{}, bankfile.ReasonNotThisFormat, "format is not known"},
		"nothing":             {zipped(t), bankfile.Limits{}, bankfile.ReasonEmpty, "no statement"},
		"encrypted":           {encrypted, bankfile.Limits{}, bankfile.ReasonUnsupported, "encrypted"},
		"broken":              {broken, bankfile.Limits{}, bankfile.ReasonMalformed, "unpacked"},
		"cut":                 {good[:len(good)-30], bankfile.Limits{}, bankfile.ReasonMalformed, "no zip that can be read"},
	} {
		_, refused := parse(t, c.text, bankfile.Options{Limits: c.limits})
		if refused == nil || refused.Reason != c.reason || !strings.Contains(refused.Detail, c.detail) {
			t.Errorf("%s: %+v; want %s, %q", name, refused, c.reason, c.detail)
		}
	}
}

// Names are text, whatever the zip says, and each is that of one file.
func TestZip_Names(t *testing.T) {
	t.Parallel()
	table := []byte("date,amount,text\n2024-01-02,12.34,in\n")
	for name, want := range map[string]string{
		"Ausz\xfcge.csv": "Auszüge.csv", "Auszüge.csv": "Auszüge.csv", "a\x00b\x1b.csv": "ab.csv", "\xe0\xa6": "à¦", "খাতা.csv": "খাতা.csv",
	} {
		file, refused := parse(t, zipped(t, zipMember{name, table}), bankfile.Options{Profile: profile(t, plain)})
		if refused != nil || len(file.Members) != 1 || file.Members[0].Name != want || file.Statements[0].Member != want {
			t.Errorf("%q: %+v, %v", name, file, refused)
		}
	}
	for _, names := range [][]string{{"a.csv", "a.csv"}, {"a\x00.csv", "a.csv"}, {"\x00"}} {
		var members []zipMember
		for _, name := range names {
			members = append(members, zipMember{name, table})
		}
		if _, refused := parse(t, zipped(t, members...), bankfile.Options{Profile: profile(t, plain)}); refused == nil ||
			refused.Reason != bankfile.ReasonMalformed {
			t.Errorf("%q: %v", names, refused)
		}
	}
}
