package cli_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestConsumeSMS(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, want := range []string{"applied khata_sms: 0001_sms.sql\ngranted to khata_service\n", "its tables are up to date\ngranted to khata_service\n"} {
		if r := khata(t.Context(), "consume", "sms", "migrate", "--grant", "khata_service", "--dsn", db.OwnerDSN()); r.code != cli.ExitOK || !strings.HasSuffix(r.out, want) {
			t.Fatalf("%+v", r)
		}
	}
	run := func(line string, more ...string) result {
		return khata(t.Context(), append(append(strings.Fields("consume sms "+line), more...), "--dsn", db.ServiceDSN())...)
	}
	for range 2 {
		r := run("bootstrap", "--ledger-dsn", db.ServiceDSN())
		if r.code != cli.ExitOK || !strings.HasPrefix(r.out, "read 0 accounts of 1 ledgers\n") {
			t.Errorf("%+v", r)
		}
	}
	if r := run("messages"); r.out != "there are no messages\n" {
		t.Errorf("%+v", r)
	}
	db.Exec(t, `INSERT INTO khata_sms.message (event_id, ledger, account, transfer_id, kind, phone, language, text, event_time, fresh_from, state, attempts, sent_at, gateway_ref, last_error)
		SELECT 'event-' || s, 'main', 'wallet:' || s, 'TXN-1', 'received', '+8801711000011', 'en', 'text of ' || s, '2026-11-30T09:04:00Z', now(), s, 1,
		       CASE s WHEN 'sent' THEN timestamptz '2026-11-30T09:04:02Z' END, CASE s WHEN 'sent' THEN 'm-7' ELSE '' END,
		       CASE s WHEN 'failed' THEN 'the gateway refuses it (422): no phone has +8801711000011' ELSE '' END
		  FROM unnest(ARRAY['sent', 'failed', 'expired']) s`)
	r := run("messages --state failed --account wallet:failed --ledger main")
	if want := "event-failed  failed  to +880********11  wallet:failed of ledger main  2026-11-30T09:04:00.000000Z, calls: 1\n  text of failed\n" +
		"  the gateway refuses it (422): no phone has +880********11\n"; r.out != want {
		t.Errorf("%q, want %q", r.out, want)
	}
	r = run("messages --json --show-phones")
	if list := objects(t, r.out); len(list) != 3 || !slices.ContainsFunc(list, func(m map[string]any) bool {
		return m["event_id"] == "event-sent" && m["phone"] == "+8801711000011" && m["gateway_ref"] == "m-7" && m["sent_at"] == "2026-11-30T09:04:02Z"
	}) {
		t.Errorf("%s", r.out)
	}
	if r := run("messages --json --limit 2"); strings.Contains(r.out, "8801711000011") || len(objects(t, r.out)) != 2 {
		t.Errorf("%s", r.out)
	}
	for _, c := range []struct{ line, want string }{
		{"retry event-sent event-expired event-none", "1 messages are tried again\n2 are not there, or neither failed nor expired\n"},
		{"retry --all-failed", "1 messages are tried again\n"},
		{"retry --all-failed", "0 messages are tried again\n"},
	} {
		if r := run(c.line); r.code != cli.ExitOK || r.out != c.want {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
	for _, line := range []string{
		"retry", "retry a --all-failed", "messages --state gone", "messages --limit 0", "bootstrap", "--kafka 127.0.0.1:1", "--gateway http://a --language fr --kafka 127.0.0.1:1",
	} {
		if r := run(line); r.code != cli.ExitUsage {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for line, want := range map[string]string{
		"--gateway ftp://a --kafka 127.0.0.1:1": "not the URL of a server", "--gateway http://a --kafka 127.0.0.1:1 --zone Nowhere": "time zone",
	} {
		if r := run(line); r.code != cli.ExitFailure || !strings.Contains(r.err, want) {
			t.Errorf("%s: %+v", line, r)
		}
	}
}
