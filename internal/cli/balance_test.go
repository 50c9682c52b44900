package cli_test

import (
	"fmt"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
)

func TestBalance_AsOf(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	first := objects(t, b.must(t, "transfer post --id T-1 --debit cash --credit wallet:a --amount 5 --json"))[0]
	second := objects(t, b.must(t, "transfer post --id T-2 --debit cash --credit wallet:a --amount 30 --effective-at 2026-01-31T00:00:00Z --json"))[0]
	for flags, want := range map[string]string{
		"":                                    "35.00 %[2]v <nil>",
		"--at-sequence %[1]v":                 "5.00 %[1]v %[1]v",
		"--at-sequence 0":                     "0.00 0 <nil>",
		"--at-posted %[3]v":                   "5.00 %[1]v %[2]v",
		"--at-posted 2026-02-01T00:00:00Z":    "0.00 0 %[2]v",
		"--at-effective 2026-01-31T00:00:00Z": "30.00 %[2]v %[2]v",
		"--at-effective 2026-01-31T05:59:59.999999+06:00": "0.00 %[2]v %[2]v",
	} {
		fill := func(text string) string {
			return fmt.Sprintf(text+"%.0[1]v%.0[2]v%.0[3]v", first["sequence"], second["sequence"], first["posted_at"])
		}
		o := objects(t, b.must(t, "balance wallet:a --json "+fill(flags)))[0]
		if got := fmt.Sprint(o["posted"], " ", o["version"], " ", o["as_of_sequence"]); got != fill(want) {
			t.Errorf("%s: %s, want %s", fill(flags), got, fill(want))
		}
	}
	for _, flags := range []string{
		"--at-posted yesterday", "--at-effective 2026-01-31", "--at-sequence many", "--at-sequence -1", "--at-sequence 1000000",
		"--at-posted 2200-01-01T00:00:00Z", "--at-sequence 1 --at-posted 2026-01-31T00:00:00Z",
		"--at-effective 2026-01-31T00:00:00Z --at-posted 2026-01-31T00:00:00Z",
	} {
		if r := b.run(t, "balance wallet:a "+flags); r.code != cli.ExitUsage || r.out != "" {
			t.Errorf("%s: exit %d, %s", flags, r.code, r.out+r.err)
		}
	}
}
