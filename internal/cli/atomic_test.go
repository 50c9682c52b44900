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

func TestPostAtomic_Bounds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	lines := func(n int, more string) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, `{"transfer_id":"T-%d","debit_account":"cash","credit_account":"wallet:a","amount":"1.00"%s}`+"\n", i, more)
		}
		return text.String()
	}
	for name, c := range map[string]struct {
		text, said string
		code       int
	}{
		"1,001":                           {lines(1001, ""), "line 1001: an atomic call has at most 1000 transfers", cli.ExitUsage},
		"a long line":                     {"\n" + lines(1, strings.Repeat(" ", 1<<20)), "line 2: is longer than 1 MiB", cli.ExitUsage},
		"no JSON":                         {"\n\nhello\n", "line 3: ", cli.ExitUsage},
		"two on a line":                   {strings.ReplaceAll(lines(2, ""), "\n", " "), "line 1: ", cli.ExitUsage},
		"an empty file":                   {"\n \n", "no transfer", cli.ExitUsage},
		"1,000, and one of 1,000 entries": {lines(999, "") + entriesLine(1000) + "\n", "", cli.ExitOK},
		"an id malformed":                 {`{"transfer_id":"a b"}`, "", cli.ExitUsage},
	} {
		file := filepath.Join(t.TempDir(), "transfers")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		if r := b.run(t, "transfer post-atomic", file); r.code != c.code || !strings.Contains(r.err, c.said) {
			t.Errorf("%s: exit %d, %.300s%.300s", name, r.code, r.err, r.out)
		}
	}
	// What a file begins with is not posted when its end is wrong; what was posted is that of the one good file.
	if got := objects(t, b.must(t, "balance wallet:a --json"))[0]["posted"]; got != "1998.00" {
		t.Errorf("balance %v", got)
	}
}

// entriesLine is a transfer of so many entries.
func entriesLine(n int) string {
	list := []string{fmt.Sprintf(`{"account":"cash","direction":"DIRECTION_DEBIT","amount":"%d"}`, n-1)}
	for len(list) < n {
		list = append(list, `{"account":"wallet:a","direction":"DIRECTION_CREDIT","amount":"1"}`)
	}
	return `{"transfer_id":"many","entries":[` + strings.Join(list, ",") + `]}`
}

// The same from a pipe, more than once: all or nothing, once.
func TestPostAtomic_StandardInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT --floor 0")
	text := `{"transferId":"T-1","debitAccount":"cash","creditAccount":"wallet:a","amount":"5"}
{"transfer_id":"T-2","debit_account":"wallet:a","credit_account":"cash","amount":"5","conditions":[{"account":"wallet:a","balance":"5.00"}]}`
	for try := range 3 {
		var out, said bytes.Buffer
		code := cli.Run(t.Context(), []string{"transfer", "post-atomic", "-", "--json", "--addr", b.addr}, cli.IO{In: strings.NewReader(text), Out: &out, Err: &said})
		results := objects(t, out.String())
		if code != cli.ExitOK || said.Len() > 0 || len(results) != 2 || results[0]["replayed"] != (try > 0) || results[1]["replayed"] != (try > 0) {
			t.Errorf("try %d: exit %d, %s%s", try, code, &out, &said)
		}
	}
}
