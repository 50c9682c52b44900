package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// importBooks decide by the id: "posted...", "replayed...", "refused...", "taken...", "open...".
type importBooks struct{}

func (importBooks) PostTransfers(_ context.Context, specs []ledger.TransferSpec) ([]client.Result, error) {
	results := make([]client.Result, len(specs))
	for i, spec := range specs {
		id := string(spec.ID)
		switch r := &results[i]; {
		case strings.HasPrefix(id, "replayed"):
			r.Replayed = true
		case strings.HasPrefix(id, "refused"):
			r.Refusal = &ledger.Refusal{Reason: ledger.CodeInsufficientFunds, Account: "a"}
		case strings.HasPrefix(id, "taken"):
			r.Err = ledger.Errorf(ledger.CodeAlreadyExists, "transfer_id %q is taken", id)
		case strings.HasPrefix(id, "open"):
			r.Err = ledger.Errorf(ledger.CodeUnavailable, "no answer")
		}
	}
	return results, nil
}

func (importBooks) Account(_ context.Context, id ledger.AccountID) (ledger.Account, error) {
	return ledger.Account{ID: id}, nil
}

func (importBooks) CreateAccounts(context.Context, []ledger.AccountSpec) ([]client.CreatedAccount, error) {
	return nil, nil
}

// runImport runs the command on books that are no server's.
func runImport(t *testing.T, stdin string, args ...string) (code int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{IO: IO{In: strings.NewReader(stdin), Out: &stdout, Err: &stderr}, getenv: func(string) string { return "" }}
	cmd := a.importCommandTo(func(time.Duration) (importer.Books, io.Closer, error) {
		return importBooks{}, io.NopCloser(nil), nil
	})
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	err := cmd.ExecuteContext(t.Context())
	if err == nil {
		return ExitOK, stdout.String(), stderr.String()
	}
	if exit, ok := err.(*exitError); !ok { //nolint:errorlint // as Run does: what the command returns is not wrapped
		a.printError(err)
	} else {
		code = exit.code
	}
	return max(code, exitCode(err)), stdout.String(), stderr.String()
}

func importFile(ids ...string) string {
	text := "transfer_id,debit_account,credit_account,amount\n"
	for _, id := range ids {
		text += id + ",a,b,5.00\n"
	}
	return text
}

func TestImport_ExitCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ids  []string
		code int
		want string
	}{
		{nil, ExitOK, ": 0 posted, 0 replayed, 0 refused, 0 wrong\n"},
		{[]string{"posted", "replayed"}, ExitOK, ": 1 posted, 1 replayed, 0 refused, 0 wrong\n"},
		{[]string{"posted", "refused"}, ExitRefused, "line 3, \"refused\": refused: insufficient funds of account a\n2 lines in "},
		{[]string{"taken", "refused", "posted"}, ExitFailure, ": 1 posted, 0 replayed, 1 refused, 1 wrong (of these 1 conflicts)\n"},
		{[]string{"khata:x"}, ExitFailure, "line 2, \"khata:x\": wrong: invalid argument: transfer_id: begins with"},
		{[]string{"posted", "open", "posted2"}, ExitUnavailable, "stopped at line 3: the lines before it are done. Run the same command again"},
	} {
		code, out, errs := runImport(t, importFile(test.ids...), "-")
		if code != test.code || !strings.Contains(out, test.want) {
			t.Errorf("%q: exit %d, want %d:\n%s%s\nwant %s", test.ids, code, test.code, out, errs, test.want)
		}
	}
}

func TestImport_Usage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.csv", importFile("posted"))
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{filepath.Join(dir, "nothing.csv")}, "no such file"},
		{[]string{dir}, "is a directory"},
		{[]string{write("empty.csv", "")}, "khata: the file is empty"},
		{[]string{write("other.csv", "a;b\n")}, `khata: the header has no column "transfer_id"`},
		{[]string{good, "--batch", "0"}, "--batch is 1 to 10000"},
		{[]string{good, "--map", write("m.json", "{")}, "m.json: line 1: unexpected EOF"},
		{[]string{good, "--errors", good}, "would overwrite what is to be read"},
		{[]string{good, "--delimiter", "ab"}, `"ab" is not a delimiter`},
	} {
		code, out, errs := runImport(t, "", test.args...)
		if code != ExitUsage || out != "" || !strings.Contains(errs, test.want) {
			t.Errorf("%q: exit %d:\n%s%s\nwant %s", test.args, code, out, errs, test.want)
		}
	}
	if text, _ := os.ReadFile(good); string(text) != importFile("posted") {
		t.Error("the input was overwritten")
	}
}

// The screen gets the first problems, the file all of them.
func TestImport_Errors(t *testing.T) {
	t.Parallel()
	var ids []string
	for i := range 50 {
		ids = append(ids, fmt.Sprintf("refused-%d", i))
	}
	path := filepath.Join(t.TempDir(), "errors.csv")
	code, out, _ := runImport(t, importFile(ids...), "-", "--errors", path)
	if code != ExitRefused || strings.Count(out, "\n") != maxListed+3 || !strings.Contains(out, "and 30 more\nall of them are in "+path) {
		t.Errorf("exit %d:\n%s", code, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(string(text), "\n"); len(lines) != 52 || lines[0] != "line,transfer_id,outcome,reason" ||
		lines[50] != "51,refused-49,refused,insufficient funds of account a" {
		t.Errorf("%s", text)
	}
	code, out, _ = runImport(t, importFile(ids...), "-", "--json")
	var summary summaryJSON
	if err := json.Unmarshal([]byte(out), &summary); err != nil || code != ExitRefused || summary.Refused != 50 ||
		len(summary.Problems) != maxListed || summary.MoreProblems != 30 || summary.Problems[0].Line != 2 {
		t.Errorf("exit %d, %v:\n%s", code, err, out)
	}
}

// The maps that users are shown do what docs/import.md says of them.
func TestImport_Examples(t *testing.T) {
	t.Parallel()
	examples := filepath.Join("..", "..", "docs", "examples")
	for _, test := range []struct{ file, mapFile, want string }{
		{filepath.Join(examples, "bank.csv"), filepath.Join(examples, "bank-map.json"), filepath.Join(examples, "bank.ndjson")},
	} {
		code, out, errs := runImport(t, "", test.file, "--map", test.mapFile, "--dry-run")
		want, err := os.ReadFile(test.want)
		if err != nil {
			t.Fatal(err)
		}
		if code != ExitOK || out != string(want) {
			t.Errorf("%s: exit %d: %s\n%s\nwant\n%s", test.file, code, errs, out, want)
		}
	}
	const berka = "trans_id;account_id;date;type;operation;amount;balance;k_symbol;bank;account\r\n" +
		"1;25;960728;credit;credit in cash;900.00;900.00;;;\r\n" +
		"2;25;960930;credit;;362.50;0;interest credited;;\r\n" +
		"3;25;961001;withdrawal;remittance to another bank;5.00;0; ;YZ;123\r\n" +
		"4;25;961001;withdrawal in cash;withdrawal in cash;6.00;0;;;\r\n" +
		"5;25;961001;withdrawal;withdrawal in cash;14.60;0;payment for statement;;\r\n" +
		"6;25;961001;withdrawal;cheque;1.00;0;;;\r\n"
	code, out, errs := runImport(t, berka, "-", "--map", filepath.Join(examples, "berka-map.json"), "--dry-run")
	for _, want := range []string{
		`{"transfer_id":"berka-1","debit_account":"asset:cash","credit_account":"customer:25","amount":"900.00","currency":"CZK","effective_at":"1996-07-28T00:00:00Z","description":"credit in cash"}`,
		`{"transfer_id":"berka-2","debit_account":"expense:interest","credit_account":"customer:25",`,
		`{"transfer_id":"berka-3","debit_account":"customer:25","credit_account":"asset:clearing:YZ",`,
		`{"transfer_id":"berka-4","debit_account":"customer:25","credit_account":"asset:cash",`,
		`{"transfer_id":"berka-5","debit_account":"customer:25","credit_account":"revenue:fees",`,
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no line %s in\n%s", want, out)
		}
	}
	if !strings.Contains(errs, `line 7, "berka-6": wrong: invalid argument: debit_account: no case of the map matches this line`) || code != ExitFailure {
		t.Errorf("exit %d: %s", code, errs)
	}
}
