package cli_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// shop makes books to report of, and gives the last sequence of them.
func (b *bench) shop(t *testing.T) (through string) {
	t.Helper()
	for _, line := range []string{
		"account create assets:bank --type asset --currency BDT", "account create assets:clearing --type asset --currency BDT",
		"account create wallet:a --type liability --currency BDT", "account create wallet:b --type liability --currency BDT",
		"account create fees --type revenue --currency BDT", "account create idle --type asset --currency JPY",
		"transfer post --id T-1 --debit assets:bank --credit wallet:a --amount 1000 --effective-at 2026-01-05T00:00:00Z",
		"transfer post --id T-2 --debit wallet:a --credit wallet:b --amount 12.50 --effective-at 2026-01-31T17:59:59.999999Z",
		"transfer post --id T-3 --debit wallet:a --credit fees --amount 1.25 --effective-at 2026-01-31T18:00:00Z",
		"transfer post --id T-4 --debit assets:clearing --credit wallet:b --amount 3 --effective-at 2026-02-01T00:00:00Z",
		"transfer post --id T-5 --debit wallet:b --credit wallet:a --amount 4 --description now",
	} {
		b.must(t, line)
	}
	return fmt.Sprint(objects(t, b.must(t, "transfer get T-5 --json"))[0]["sequence"])
}

// local makes reports without a server.
func (b *bench) local(t *testing.T) *report.Reports {
	t.Helper()
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: b.db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return report.New(j, pool)
}

// These facts are of when a report was made, not of what it is about.
var ofTheMoment = regexp.MustCompile(`\{"id": "(read_at|bytes)".*\}`)

// What the command line prints as JSON is what the report writes, through the wire and back, byte for byte.
func TestReport_JSONIsWhatTheReportWrites(t *testing.T) {
	t.Parallel()
	b := setup(t)
	through := b.shop(t)
	reports := b.local(t)
	b.must(t, "statement issue wallet:a --month 2026-01 --basis value --zone Asia/Dhaka")
	b.must(t, "transfer post --id T-late --debit wallet:a --credit fees --amount 2 --effective-at 2026-01-06T00:00:00Z")
	today := time.Now().UTC()
	for _, d := range report.Definitions() {
		for _, basis := range []report.Basis{report.Booking, report.Value} {
			name := string(d.Name)
			q := report.Request{Report: d.Name, Basis: basis}
			line := "report " + name + " --json --zone Asia/Dhaka"
			from, to := "2026-01", "2026-02-02"
			switch {
			case d.Takes&report.NeedsStatement != 0:
				q.Statement, line = 1, "statement changes 1 --json"
			case d.Name == report.Growth:
				if basis == report.Value {
					continue
				}
				from, to = today.AddDate(0, 0, -2).Format(time.DateOnly), today.AddDate(0, 0, 3).Format(time.DateOnly)
				line += " --from " + from + " --to " + to
			case d.Takes&report.AtOneMoment != 0:
				from = ""
				line += " --to " + to + " --basis " + string(basis)
			default:
				line += " --from " + from + " --to " + to + " --basis " + string(basis)
			}
			if d.Takes&report.NeedsStatement == 0 {
				var err error
				if q.Period, err = report.ParsePeriod(from, to, "Asia/Dhaka"); err != nil {
					t.Fatal(err)
				}
				var n int64
				if _, err := fmt.Sscan(through, &n); err != nil {
					t.Fatal(err)
				}
				q.Through = n
				line += " --through " + through
			}
			if d.Takes&report.NeedsAccount != 0 {
				q.Account = "wallet:a"
				line += " --account wallet:a"
			}
			if d.Takes&report.TakesDepth != 0 {
				q.Depth, q.Empty = 1, true
				line += " --depth 1 --empty"
			}
			var want bytes.Buffer
			if err := reports.Run(t.Context(), q, sheet.NewJSON(&want)); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := b.must(t, line)
			if diff := cmp.Diff(ofTheMoment.ReplaceAllString(want.String(), "…"), ofTheMoment.ReplaceAllString(got, "…")); diff != "" {
				t.Errorf("khata %s (-report +command):\n%s", line, diff)
			}
			if s, err := sheet.ParseJSON([]byte(got)); err != nil || len(sheet.Failed(s.Checks)) > 0 {
				t.Errorf("khata %s: %v", line, err)
			}
		}
	}
}

// The bytes of a statement are those whose hash is listed, wherever they go.
func TestStatement_Bytes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.shop(t)
	issued := objects(t, b.must(t, "statement issue wallet:a --month 2026-01 --basis value --json"))[0]
	listed := objects(t, b.must(t, "statement list --json"))[0]
	shown := b.must(t, "statement show 1 --json")
	file := filepath.Join(t.TempDir(), "statement.json")
	if r := b.run(t, "statement show 1 --file", file); r.code != cli.ExitOK || r.out != "" || !strings.Contains(r.err, fmt.Sprint(listed["sha256"])) {
		t.Errorf("to a file: %+v", r)
	}
	kept, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"printed": []byte(shown), "in the file": kept} {
		hash := sha256.Sum256(content)
		if got := hex.EncodeToString(hash[:]); got != issued["sha256"] || got != listed["sha256"] {
			t.Errorf("%s: hash %s, issued %v, listed %v", name, got, issued["sha256"], listed["sha256"])
		}
	}
	// Later entries do not change it.
	b.must(t, "transfer post --id T-late --debit wallet:a --credit fees --amount 2 --effective-at 2026-01-06T00:00:00Z")
	if again := b.must(t, "statement show 1 --json"); again != shown {
		t.Error("it has changed")
	}
}

// Each format arrives in a file as what it is.
func TestReport_Files(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.shop(t)
	dir := t.TempDir()
	read := func(name string) []byte {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
	write := func(line, name string) result { return b.run(t, line+" --file", filepath.Join(dir, name)) }
	for _, name := range []string{"a.xlsx", "a.csv", "a.json", "a.txt"} {
		if r := write("report trial-balance", name); r.code != cli.ExitOK || r.out != "" || (r.err != "") != (name == "a.csv") {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if z, err := zip.NewReader(bytes.NewReader(read("a.xlsx")), int64(len(read("a.xlsx")))); err != nil || len(z.File) < 5 {
		t.Errorf("the workbook: %v", err)
	}
	if _, err := sheet.ParseJSON(read("a.json")); err != nil {
		t.Error(err)
	}
	if !bytes.HasPrefix(read("a.csv"), []byte("row,account,")) || !bytes.HasPrefix(read("a.txt"), []byte("Trial balance\n")) {
		t.Errorf("%s\n%s", read("a.csv"), read("a.txt"))
	}
	plot := "report balance-over-time --account wallet:a --month 2026-01 --basis value --zone Asia/Dhaka"
	if r := write(plot, "a.svg"); r.code != cli.ExitOK {
		t.Errorf("the plot: %+v", r)
	}
	if err := xml.Unmarshal(read("a.svg"), new(struct{})); err != nil || !bytes.Contains(read("a.svg"), []byte("987.50")) {
		t.Errorf("%v: %s", err, read("a.svg"))
	}
	if r := write("report trial-balance --format csv", "b.xlsx"); r.code != cli.ExitOK || !bytes.Equal(read("b.xlsx"), read("a.csv")) {
		t.Errorf("a format that is named goes before that of the name: %+v", r)
	}
	checkDir(t, dir, "a.csv", "a.json", "a.svg", "a.txt", "a.xlsx", "b.xlsx")
}

// checkDir finds what was left lying about.
func checkDir(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("in the directory (-want +got):\n%s", diff)
	}
}

// A file is replaced by the whole of the new one, or not touched.
func TestReport_FileIsThereWholeOrNotAtAll(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.shop(t)
	dir := t.TempDir()
	file, link := filepath.Join(dir, "kept.csv"), filepath.Join(dir, "link.csv")
	if err := os.WriteFile(file, []byte("before"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if r := b.run(t, "report general-ledger --account nobody --file", file); r.code != cli.ExitNotFound || content() != "before" {
		t.Errorf("a report that there is not: %+v, %q", r, content())
	}
	checkDir(t, dir, "kept.csv", "link.csv")
	if r := b.run(t, "report general-ledger --account wallet:a --file", link); r.code != cli.ExitOK || !strings.HasPrefix(content(), "row,") {
		t.Errorf("through a link: %+v, %q", r, content())
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link has become %v, %v", info, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file has become %v, %v", info, err)
	}
	checkDir(t, dir, "kept.csv", "link.csv")
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, "report trial-balance --file", pipe); r.code != cli.ExitUsage || !strings.Contains(r.err, "no regular file") {
		t.Errorf("a pipe: %+v", r)
	}
}

// A variable that is set for other commands narrows no report. The zone is one for all of them.
func TestReport_Environment(t *testing.T) {
	b := setup(t)
	b.shop(t)
	plain := b.must(t, "report trial-balance --basis value --to 2026-02-01 --format json")
	for _, name := range []string{"CURRENCY", "PREFIX", "ACCOUNT", "FORMAT", "FILE", "TO", "FROM", "MONTH", "DEPTH", "THROUGH", "AFTER", "APPEND"} {
		t.Setenv("KHATA_"+name, "JPY")
	}
	if got := b.must(t, "report trial-balance --basis value --to 2026-02-01 --format json"); ofTheMoment.ReplaceAllString(got, "") != ofTheMoment.ReplaceAllString(plain, "") {
		t.Errorf("with variables:\n%s", got)
	}
	t.Setenv("KHATA_ZONE", "Asia/Dhaka")
	got := b.must(t, "report trial-balance --basis value --to 2026-02-01 --format json")
	if !strings.Contains(got, `"value": "Asia/Dhaka"`) || got == plain {
		t.Errorf("with a zone:\n%s", got)
	}
}

// made is a server with made-up reports.
type made struct {
	grpcapi.Reports
	run func(ctx context.Context, w sheet.Writer) error
}

func (m made) Run(ctx context.Context, _ report.Request, w sheet.Writer) error { return m.run(ctx, w) }

func serveMade(t *testing.T, run func(ctx context.Context, w sheet.Writer) error) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := grpcapi.New(nil, grpcapi.Config{Reports: made{run: run}, Logger: slog.New(slog.DiscardHandler)})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return listener.Addr().String()
}

var oneColumn = sheet.Head{Report: "trial-balance", Title: "Trial balance", Columns: []sheet.Column{{ID: "account", Title: "Account", Kind: sheet.Text}}}

// A check that does not hold is an error, after everything was written.
func TestReport_FailedCheck(t *testing.T) {
	t.Parallel()
	addr := serveMade(t, func(_ context.Context, w sheet.Writer) error {
		s := sheet.Sheet{Head: oneColumn, Rows: []sheet.Row{{Kind: sheet.Item, Cells: []string{"cash"}}}, Checks: []sheet.Check{
			{Name: "debits equal credits in BDT", Detail: "they differ by 0.01. Run khata verify"}, {Name: "in JPY", OK: true},
		}}
		return s.WriteTo(w)
	})
	const said = "khata: it does not hold that debits equal credits in BDT: they differ by 0.01. Run khata verify\n"
	want := result{code: cli.ExitFailure, out: "row,account\nitem,cash\n", err: said}
	if diff := cmp.Diff(want, khata(t.Context(), "report", "trial-balance", "--format", "csv", "--addr", addr), cmp.AllowUnexported(result{})); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
	file := filepath.Join(t.TempDir(), "x.json")
	r := khata(t.Context(), "report", "trial-balance", "--file", file, "--addr", addr)
	if text, err := os.ReadFile(file); r.code != cli.ExitFailure || r.err != said || err != nil || !strings.Contains(string(text), "0.01") {
		t.Errorf("to a file: %+v %s %v", r, text, err)
	}
}

// Ctrl-C ends the report on the server, and leaves no file.
func TestReport_Interrupted(t *testing.T) {
	t.Parallel()
	begun, ended := make(chan struct{}), make(chan error, 1)
	addr := serveMade(t, func(_ context.Context, w sheet.Writer) error {
		err := w.Begin(oneColumn)
		close(begun)
		for err == nil {
			err = w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{strings.Repeat("x", 100)}})
		}
		ended <- err
		return err
	})
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		time.Sleep(20 * time.Millisecond)
		cancel()
	}()
	r := khata(ctx, "report", "trial-balance", "--file", filepath.Join(dir, "x.csv"), "--addr", addr)
	if r.code != cli.ExitUnavailable || r.err == "" {
		t.Errorf("interrupted: %+v", r)
	}
	checkDir(t, dir)
	select {
	case err := <-ended:
		if ledger.CodeOf(err) != ledger.CodeCancelled {
			t.Errorf("the report ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the report goes on")
	}
}

// What a report says of a check may have been written by users, and does nothing in a terminal.
func TestReport_NothingReachesTheTerminal(t *testing.T) {
	t.Parallel()
	const evil = "\x1b]0;owned\x07\u202e"
	addr := serveMade(t, func(_ context.Context, w sheet.Writer) error {
		head := oneColumn
		head.Facts = []sheet.Fact{{ID: "name", Title: "Name", Value: evil}}
		s := sheet.Sheet{Head: head, Rows: []sheet.Row{{Kind: sheet.Item, Cells: []string{evil}}}, Checks: []sheet.Check{{Name: evil, Detail: evil}}}
		return s.WriteTo(w)
	})
	for _, format := range []string{"table", "csv"} {
		r := khata(t.Context(), "report", "trial-balance", "--format", format, "--addr", addr)
		if strings.ContainsAny(r.err, "\x1b\x07\u202e") || strings.ContainsAny(r.out, "\x1b\x07") {
			t.Errorf("%s: %q, %q", format, r.out, r.err)
		}
	}
}

// terminal is what a command has when a person looks at it: here, the other end of a pseudo-terminal.
func terminal(t *testing.T) *os.File {
	t.Helper()
	file, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		if file, err = os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0); err != nil {
			t.Skipf("no terminal: %v", err)
		}
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}

// A workbook is not poured out over a person.
func TestReport_NoWorkbookForATerminal(t *testing.T) {
	t.Parallel()
	var err bytes.Buffer
	code := cli.Run(t.Context(), []string{"report", "trial-balance", "--format", "xlsx", "--addr", "127.0.0.1:1"},
		cli.IO{In: strings.NewReader(""), Out: terminal(t), Err: &err})
	if code != cli.ExitUsage || !strings.Contains(err.String(), "--file NAME.xlsx") {
		t.Errorf("exit %d, %s", code, &err)
	}
}

// An export goes on where the file ends, whatever it ends with, and has each entry once.
func TestExportEntries_Append(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.shop(t)
	whole := b.run(t, "export entries").out
	if strings.Count(whole, "\n") != 10 {
		t.Fatalf("the entries:\n%s", whole)
	}
	file := filepath.Join(t.TempDir(), "entries.ndjson")
	for cut := 0; cut <= len(whole); cut += 1 + cut%37*7 {
		if err := os.WriteFile(file, []byte(whole[:cut]), 0o600); err != nil {
			t.Fatal(err)
		}
		r := b.run(t, "export entries --append", file)
		if got, err := os.ReadFile(file); r.code != cli.ExitOK || err != nil || string(got) != whole {
			t.Fatalf("cut after %d bytes: %+v, %v; it has\n%s", cut, r, err, got)
		}
	}
	b.must(t, "transfer post --id T-6 --debit wallet:a --credit fees --amount 1")
	r := b.run(t, "export entries --append", file)
	got, err := os.ReadFile(file)
	if r.code != cli.ExitOK || err != nil || !strings.HasPrefix(string(got), whole) || strings.Count(string(got), "\n") != 12 {
		t.Errorf("after one more transfer: %+v, %v; it has\n%s", r, err, got)
	}
	// What is said at the end is where --after goes on.
	_, after, _ := strings.Cut(b.run(t, "export entries").err, "--after ")
	if rest := b.run(t, "export entries --after", strings.TrimSpace(after)); rest.out != "" || rest.code != cli.ExitOK {
		t.Errorf("after the end: %+v", rest)
	}
	// Another ledger's entries do not get in, nor those of two at once.
	b.must(t, "ledger create other")
	if r := b.run(t, "export entries --ledger other --append", file); r.code != cli.ExitUsage || !strings.Contains(r.err, "ledger main") {
		t.Errorf("another ledger: %+v", r)
	}
	held, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := syscall.Flock(int(held.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if r := b.run(t, "export entries --append", file); r.code != cli.ExitUsage || !strings.Contains(r.err, "another export") {
		t.Errorf("while another one writes: %+v", r)
	}
	if now, err := os.ReadFile(file); err != nil || !bytes.Equal(now, got) {
		t.Errorf("it has changed: %v", err)
	}
}

// A book is the same on standard output and in a file, and has its assertions.
func TestExportBook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	through := b.shop(t)
	for _, format := range []string{"hledger", "beancount"} {
		for _, assert := range []string{"closing", "running"} {
			line := fmt.Sprintf("export %s --assert %s --month 2026-01 --zone Asia/Dhaka --basis value --through %s", format, assert, through)
			printed := b.must(t, line)
			file := filepath.Join(t.TempDir(), "x")
			b.must(t, line+" --file", file)
			if kept, err := os.ReadFile(file); err != nil || string(kept) != printed {
				t.Errorf("%s: %v; in the file\n%s", line, err, kept)
			}
			if !strings.Contains(printed, "T-2") || strings.Contains(printed, "T-3") || !strings.Contains(printed, "-987.50") {
				t.Errorf("%s:\n%s", line, printed)
			}
			if n := strings.Count(printed, "12.50 BDT = "); format == "hledger" && (n > 0) != (assert == "running") {
				t.Errorf("%s asserts %d balances after postings", line, n)
			}
		}
	}
}

// The reports that there are have a command each.
func TestReport_EachIsACommand(t *testing.T) {
	t.Parallel()
	help := khata(t.Context(), "report", "--help")
	for _, d := range report.Definitions() {
		if d.Takes&report.NeedsStatement == 0 && !strings.Contains(help.out, "\n  "+string(d.Name)+" ") {
			t.Errorf("khata report --help has no %s", d.Name)
		}
		r := khata(t.Context(), "report", string(d.Name), "--help")
		for flag, takes := range map[string]bool{
			"--prefix": d.Takes&report.TakesPrefix != 0, "--account": d.Takes&(report.TakesAccount|report.NeedsAccount) != 0,
			"--depth": d.Takes&report.TakesDepth != 0, "--empty": d.Takes&report.TakesEmpty != 0, "--from": d.Takes&report.AtOneMoment == 0,
			"--zone": true, "--through": true, "--format": true, "--file": true,
		} {
			if d.Takes&report.NeedsStatement == 0 && slices.Contains(strings.Fields(r.out), flag) != takes {
				t.Errorf("khata report %s takes %s: %t", d.Name, flag, !takes)
			}
		}
	}
}
