package cli_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
)

// A file and a profile can come from standard input, and reports go into files.
func TestReconcile_Streams(t *testing.T) {
	b := setup(t)
	piped := func(in, line string) result {
		var out, err bytes.Buffer
		code := cli.Run(t.Context(), append(strings.Fields(line), "--addr", b.addr), cli.IO{In: strings.NewReader(in), Out: &out, Err: &err})
		return result{code, out.String(), err.String()}
	}
	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", "bank", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	b.must(t, "account create bank --type asset --currency BDT")
	if r := piped(read("city.json"), "reconcile profile save -"); r.code != 0 {
		t.Fatalf("%+v", r)
	}
	b.must(t, "reconcile account create main --account bank --profile city --confirm none")
	if r := piped(read("january.csv"), "reconcile preview - --profile city"); r.code != 0 || !strings.Contains(r.out, "Rent of January") {
		t.Errorf("%+v", r)
	}
	t.Setenv("KHATA_BANK_ACCOUNT", "main")
	if r := piped(read("january.csv"), "reconcile import -"); r.code != 0 || !strings.Contains(r.out, "107275.00  at the bank") {
		t.Errorf("%+v", r)
	}
	account := objects(t, b.must(t, "reconcile account show main --json"))[0]
	if confirm, ok := account["settings"].(map[string]any)["confirm"]; ok {
		t.Errorf("--confirm none leaves %v", confirm)
	}
	files := objects(t, b.must(t, "reconcile files --json"))
	if len(files) != 1 || files[0]["name"] != "standard input" {
		t.Fatalf("%v", files)
	}
	if got := objects(t, b.must(t, "reconcile lines --open --limit 3 --json")); len(got) != 3 || got[0]["amount"] != "100000.00" {
		t.Errorf("%v", got)
	}
	if got := b.must(t, fmt.Sprint("reconcile files ", files[0]["no"])); !strings.Contains(got, "sha256") || !strings.Contains(got, "running balance  held") {
		t.Errorf("%s", got)
	}
	book := filepath.Join(t.TempDir(), "statement.xlsx")
	b.must(t, "reconcile report statement --detailed --file "+book)
	if text, err := os.ReadFile(book); err != nil || !bytes.HasPrefix(text, []byte("PK")) {
		t.Errorf("no workbook: %v", err)
	}
	// What people have in hand that is no statement, or not yet.
	dir := t.TempDir()
	for _, c := range []struct {
		name, content, line string
		code                int
		wants               []string
	}{
		{"letter.pdf", "%PDF-1.7\n\x00\x01", "--bank-account main", 1, []string{"the file is a PDF: ask the bank for CSV, camt.053"}},
		{"photo.png", "\x89PNG\r\n\x1a\n\x00", "--bank-account main", 1, []string{"the file is an image (PNG): ask the bank for CSV"}},
		{"empty.csv", "", "--bank-account main", 1, []string{"the file is empty"}},
		{"header.csv", "Date;Reference;Text;Amount;Balance\n", "--bank-account main", 1, []string{"the file has a header and no rows"}},
		{"old.csv", "Date;Reference;Text;Amount;Balance\n01.12.2025;X;Old;10,00;10,00\n", "--bank-account main", 1, []string{"refused (before_the_beginning)",
			"it begins on 2025-12-01, before what was imported, which begins on 2026-01-02: it cannot be imported any more"}},
		{"bare.csv", read("january.csv"), "", 1, []string{"CSV needs a profile: give --bank-account, if that has one, or --profile; khata reconcile profile list"}},
		{"bare.csv", read("january.csv"), "--bank-account plain", 1, []string{"give --profile, or set one with khata reconcile account set plain --profile;"}},
		{"bare.csv", read("january.csv"), "--bank-account main --profile nope", 5, []string{"--profile: ledger main has no profile nope (khata reconcile profile list"}},
		{"bare.csv", read("january.csv"), "--bank-account main --profile city --profile-version 9", 5, []string{"profile city has no version 9: the last is 1"}},
		{"comma.csv", strings.ReplaceAll(read("january.csv"), ";", ","), "--bank-account main", 1, []string{`it has "Date,`, `the file may need delimiter ","`}},
	} {
		if b.run(t, "reconcile account show plain").code != 0 {
			b.must(t, "account create other --type asset --currency BDT")
			b.must(t, "reconcile account create plain --account other")
		}
		path := filepath.Join(dir, c.name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		t.Setenv("KHATA_BANK_ACCOUNT", "")
		r := b.run(t, "reconcile import "+path+" "+c.line)
		for _, want := range c.wants {
			if r.code != c.code || !strings.Contains(r.err, want) {
				t.Errorf("khata reconcile import %s %s: exit %d, %s; want %q", c.name, c.line, r.code, r.err, want)
			}
			if strings.Contains(r.err, "stated") {
				t.Errorf("khata reconcile import %s: two numbers that could never be the same: %s", c.name, r.err)
			}
		}
	}
	t.Setenv("KHATA_BANK_ACCOUNT", "main")
	for content, want := range map[string]string{
		"{\"name\": \"x\",\n \"header\": yes}": " is not JSON: line 2, column 12: invalid character 'y'", "{\n": " is not JSON: line 2, column 1: it ends before",
		`{"nam": "x"}`: ` is no profile: has a field "nam"`,
	} {
		path := filepath.Join(dir, "profile.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := b.run(t, "reconcile profile save "+path); r.code != cli.ExitUsage || !strings.Contains(r.err, "profile.json"+want) {
			t.Errorf("%q: exit %d, %s", content, r.code, r.err)
		}
	}
	// What the server would not take is not sent to it.
	for line, want := range map[string]string{
		"reconcile show --results --line 3":                                    "give one of",
		"reconcile show --run 3 --line 3":                                      "--run goes without",
		"reconcile show --suggestions --outcome ambiguous":                     "go with --results",
		"reconcile confirm --run 3 --line 3 --entry T":                         "--run goes with --group",
		"reconcile confirm --group -1":                                         "want the number of a group",
		"reconcile confirm --line 3":                                           "give an --entry, too, that is the same movement as line 3",
		"reconcile confirm --entry T":                                          "give a --line, too, that is the same movement as entry T",
		"reconcile import testdata/bank/january.csv --format foo":              `"foo" is none of csv, stripe, camt.053, mt940, bai2, ofx, zip`,
		"reconcile preview x --profile a --profile-file b":                     "either --profile or --profile-file",
		"reconcile preview x --profile-version 2":                              "goes with --profile",
		"reconcile preview testdata/bank --profile-file b":                     "no such file",
		"reconcile preview testdata/bank/january.sta --lines 0":                "1 or more",
		"reconcile import x --profile-version 2":                               "goes with --profile",
		"reconcile import":                                                     "give at least one",
		"reconcile drift x --profile a":                                        "--account is required",
		"reconcile account set main --bai2-decimals JPY":                       "want CURRENCY=N",
		"reconcile account set main --tolerance x":                             "--tolerance",
		"reconcile account create other":                                       "--account is required",
		"reconcile profile show city --version -1":                             "--version",
		"reconcile unmatch x --reason y":                                       "no number of a decision",
		"reconcile approve 3 --account a --effective-at tomorrow":              "--effective-at",
		"reconcile report":                                                     "needs a subcommand",
		"reconcile preview testdata/bank/january.csv --format csv":             "give a profile",
		"reconcile preview testdata/bank/january.sta --format pdf":             `"pdf": want one of csv, camt.053, mt940, bai2, ofx, stripe, zip`,
		"reconcile report statement --format pdf":                              "want table, csv",
		"reconcile ignore --line 3 --reason r --entry ":                        "flag needs an argument",
		"reconcile profile save testdata/bank/none.json":                       "no such file",
		"reconcile account set main --reference-key a --days-before yesterday": "invalid argument",
	} {
		r := b.run(t, line)
		if strings.HasSuffix(line, " ") { // a flag without its value
			r = khata(t.Context(), strings.Fields(line)...)
		}
		if r.code != cli.ExitUsage || !strings.Contains(r.err, want) {
			t.Errorf("khata %s: exit %d, %s", line, r.code, r.err)
		}
	}
}
