package report_test

import (
	"context"
	"encoding/csv"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// tool is another accounting tool, of which it is known how Khata's books are written for it, checked and summed up.
type tool struct {
	name, extension string
	commands        []string
	writer          func(*os.File) export.BookWriter
	// check returns what the tool says against the book; nil is nothing.
	check func(t testing.TB, file string) error
	// balances are those of the accounts, by the tool's names for them, as it writes them.
	balances func(t testing.TB, file string, book report.BookRequest) map[string]string
	// accounts finds the ids of accounts in the text of a book, and how the tool calls them.
	accounts *regexp.Regexp
	unescape func(string) (string, error)
}

var tools = []tool{
	{
		name: "hledger", extension: ".journal", commands: []string{"hledger"},
		writer: func(f *os.File) export.BookWriter { return export.NewHledger(f, export.HledgerOptions{}) },
		check: func(t testing.TB, file string) error {
			return output(t, "", "hledger", "-f", file, "check", "-s", "ordereddates").err
		},
		balances: func(t testing.TB, file string, _ report.BookRequest) map[string]string {
			balances := map[string]string{}
			for _, row := range table(t, output(t, "", "hledger", "-f", file, "bal", "-N", "--flat", "-E", "--layout=bare", "-O", "csv")) {
				balances[row[0]] = row[2] + " " + strings.Trim(row[1], `"`)
			}
			return balances
		},
		accounts: regexp.MustCompile(`(?m)^account (\S+)  ; type:., account-id:([^,\n]+)`),
		unescape: url.PathUnescape,
	},
	{
		name: "beancount", extension: ".beancount", commands: []string{"bean-check", "bean-query"},
		writer: func(f *os.File) export.BookWriter { return export.NewBeancount(f) },
		check: func(t testing.TB, file string) error {
			return output(t, filepath.Dir(file), "bean-check", file).err
		},
		balances: func(t testing.TB, file string, _ report.BookRequest) map[string]string {
			balances := map[string]string{}
			// Sums of positions: those of numbers are rounded where the columns of two currencies are one.
			query := "SELECT account, sum(position) GROUP BY account ORDER BY account"
			for _, row := range table(t, output(t, filepath.Dir(file), "bean-query", "-f", "csv", file, query)) {
				fields := strings.Fields(row[1])
				if len(fields) > 0 && strings.Contains(fields[0], "E") { // Python writes what is very small in its own way; no digit is lost.
					exact := amount(fields[0])
					fields[0] = exact.StringFixed(-exact.Exponent())
				}
				balances[strings.TrimSpace(row[0])] = strings.Join(fields, " ")
			}
			return balances
		},
		accounts: regexp.MustCompile(`(?m)^\S+ open (\S+) \S+\n  account-id: ("(?:[^"\\]|\\.)*")`),
		unescape: strconv.Unquote,
	},
}

type ran struct {
	out string
	err error
}

// failure is what a tool has said.
type failure string

func (f failure) Error() string { return string(f) }

func output(t testing.TB, dir, name string, args ...string) ran {
	t.Helper()
	cmd := exec.CommandContext(context.Background(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		said := strings.TrimSpace(stderr.String() + stdout.String())
		return ran{stdout.String(), failure(name + ": " + err.Error() + ": " + said[:min(len(said), 600)])}
	}
	return ran{stdout.String(), nil}
}

func table(t testing.TB, r ran) [][]string {
	t.Helper()
	if r.err != nil {
		t.Fatal(r.err)
	}
	records, err := csv.NewReader(strings.NewReader(r.out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return records[1:]
}

// needTools skips a test where the tools are not there. In CI it fails: a check that nobody runs is none.
func needTools(t testing.TB) {
	t.Helper()
	for _, tool := range tools {
		for _, command := range tool.commands {
			if _, err := exec.LookPath(command); err != nil {
				if os.Getenv("CI") == "true" {
					t.Fatalf("%s is not installed: run .ci/need-finance.sh", command)
				}
				t.Skipf("%s is not installed: .ci/need-finance.sh does that", command)
			}
		}
	}
}

// book writes the books of a period to a file for a tool.
func (b *books) book(t testing.TB, tool tool, q report.BookRequest) (string, error) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "book"+tool.extension))
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Book(t.Context(), q, tool.writer(f)); err != nil {
		_ = f.Close()
		return f.Name(), err
	}
	return f.Name(), f.Close()
}

// refuses reports whether the books of a period do not pass: the export already fails, or the tool says so.
func (b *books) refuses(t testing.TB, tool tool, q report.BookRequest) error {
	t.Helper()
	file, err := b.book(t, tool, q)
	if err != nil {
		return err
	}
	return tool.check(t, file)
}

// checkTool exports a cut, has a tool check it, and compares what it computes with the oracle. It writes the two as text, an account a line.
func (b *books) checkTool(t testing.TB, tool tool, o *oracle, c cut) {
	t.Helper()
	q := report.BookRequest{Period: c.period(), Basis: c.basis, Through: c.through, Running: true}
	file, err := b.book(t, tool, q)
	if err != nil {
		t.Errorf("%s %s: %v", tool.name, c, err)
		return
	}
	if err := tool.check(t, file); err != nil {
		t.Errorf("%s %s: %v", tool.name, c, err)
	}
	journal, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	names := map[ledger.AccountID]string{}
	for _, m := range tool.accounts.FindAllStringSubmatch(string(journal), -1) {
		id, err := tool.unescape(m[2])
		if err != nil {
			t.Fatal(err)
		}
		names[ledger.AccountID(id)] = m[1]
	}
	var got, want strings.Builder
	balances := tool.balances(t, file, q)
	all := o.of(c)
	for _, id := range o.ids() {
		f, name := all[id], names[id]
		if f.quiet() {
			continue
		}
		delete(names, id)
		said := balances[name]
		if said == "" || strings.HasPrefix(said, "0 ") { // A zero has no currency, or no decimals.
			said = o.money(id, amount("0")) + " " + string(o.specs[id].Currency)
		}
		got.WriteString(string(id) + " " + said + "\n")
		want.WriteString(string(id) + " " + o.money(id, f.closing) + " " + string(o.specs[id].Currency) + "\n")
	}
	same(t, tool.name+" "+c.String(), got.String(), want.String())
	for id := range names {
		t.Errorf("%s %s has the account %s, which has nothing to show", tool.name, c, id)
	}
}
