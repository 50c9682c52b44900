package cli_test

import (
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
)

func TestReview(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.must(t, "account create gateway:clearing:BDT --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	const number = "TXN-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	b.db.Exec(t, `INSERT INTO payment_claim
		SELECT 'user:a', 'a-key-in-review-', '\x00', name, 'khata:' || $1, '{"to":"wallet:a","clearing":"gateway:clearing:BDT","amount":"7","currency":"BDT"}',
		       'charge', 0, 'khata-key-0', clock_timestamp(), nextval('payment_claim_fence'), 35, clock_timestamp(), clock_timestamp(), 'no answer', gen_random_uuid()
		  FROM ledger`, number)
	on := []string{"--dsn", b.db.ServiceDSN()}
	review := func(line string, more ...string) result {
		return khata(t.Context(), append(append(strings.Fields("review "+line), more...), on...)...)
	}
	if r := review("list"); r.code != cli.ExitOK || !strings.Contains(r.out, number+"  charge  7 BDT to wallet:a") || !strings.Contains(r.out, "no answer") {
		t.Errorf("%+v", r)
	}
	if r := review("list --json"); r.code != cli.ExitOK || objects(t, r.out)[0]["gateway_key"] != "khata-key-0" {
		t.Errorf("%+v", r)
	}
	for _, line := range []string{"resolve", "resolve " + number, "resolve " + number + " --as given-back --reason so", "resolve " + number + " --as charged --reason "} {
		if r := review(line); r.code != cli.ExitUsage {
			t.Errorf("%s: %+v", line, r)
		}
	}
	if r := review("resolve TXN-NO --as charged --reason so"); r.code != cli.ExitNotFound {
		t.Errorf("%+v", r)
	}
	if r := review("resolve "+number+" --as charged --reason", "a call to the gateway's people"); r.code != cli.ExitOK {
		t.Errorf("%+v", r)
	}
	if got := b.must(t, "balance wallet:a"); !strings.Contains(got, "7.00") {
		t.Errorf("%s", got)
	}
	if r := review("list"); r.code != cli.ExitOK || r.out != "nothing is in review\n" {
		t.Errorf("%+v", r)
	}
}
