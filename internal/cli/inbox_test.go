package cli_test

import (
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestInbox(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	khataInbox := func(dsn, line string, more ...string) result {
		return khata(t.Context(), append(append(strings.Fields("inbox "+line), more...), "--dsn", dsn)...)
	}
	for range 2 {
		if r := khataInbox(db.OwnerDSN(), "migrate --grant khata_service"); r.code != cli.ExitOK || !strings.HasSuffix(r.out, "granted to khata_service\n") {
			t.Fatalf("%+v", r)
		}
	}
	if r := khataInbox(db.OwnerDSN(), "migrate"); r.out != "the inbox is up to date\n" {
		t.Errorf("%+v", r)
	}
	run := func(line string, more ...string) result { return khataInbox(db.ServiceDSN(), line, more...) }
	if r := run("letters"); r.code != cli.ExitOK || r.out != "there are no letters\n" {
		t.Errorf("%+v", r)
	}
	// More than are read at once; the first is the quarantine's.
	db.Exec(t, `INSERT INTO khata_inbox.letter (consumer, event_id, source_hash, reason, error, attempts, source, type, topic, partition, "offset", key, value, header_keys, header_values)
		SELECT CASE WHEN i <= 250 THEN 'wallet' ELSE 'sms' END, 'event-' || i, 0, CASE i WHEN 1 THEN 'too_old' ELSE 'failed' END, E'it says no\nat line 7', 5, 's', 't',
		       'khata.transfers', 3, i, 'k', '\x00ff', ARRAY['ce_type'::bytea, 'ce_time'], ARRAY['t'::bytea, '2026-09-30T10:00:00Z']
		  FROM generate_series(1, 251) i`)
	if r := run("letters"); r.code != cli.ExitOK || strings.Count(r.out, "\n") != 502 ||
		!strings.Contains(r.out, "2  event-2  failed  open  for wallet since ") || !strings.Contains(r.out, "\n  khata.transfers, partition 3, offset 2, tried 5 times: it says no\n") {
		t.Errorf("%d %s %.600s", r.code, r.err, r.out)
	}
	r := run("letters --json --consumer sms")
	list := objects(t, r.out)
	if len(list) != 1 || list[0]["event_id"] != "event-251" || list[0]["data"] != "AP8=" || list[0]["error"] != "it says no\nat line 7" {
		t.Errorf("%+v", r)
	}
	for _, line := range []string{
		"replay", "replay --consumer wallet", "replay event-2", "replay event-2 --all --consumer wallet", "discard event-2 --consumer wallet", "discard event-2 --reason so",
	} {
		if r := run(line); r.code != cli.ExitUsage {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for _, line := range []string{"inbox letters", "inbox replay x --consumer y", "inbox discard x --consumer y --reason z", "inbox migrate"} {
		if r := khata(t.Context(), strings.Fields(line)...); r.code != cli.ExitUsage {
			t.Errorf("%s: %+v", line, r)
		}
	}
	for _, c := range []struct {
		line string
		want string
	}{
		{"replay event-1 event-2 event-251 --consumer wallet", "asked for 1 letters\n"},
		{"replay event-1 event-2 --too-old --consumer wallet", "asked for 1 letters\n"},
		{"discard event-3 --consumer wallet --reason unwanted", "discarded 1 letters\n"},
		{"discard event-3 --consumer wallet --reason unwanted", "discarded 0 letters\n"},
		{"replay --all --consumer wallet", "asked for 247 letters\n"},
		{"discard --all --consumer sms --reason unwanted", "discarded 1 letters\n"},
	} {
		if r := run(c.line); r.code != cli.ExitOK || r.out != c.want {
			t.Errorf("%s: %+v", c.line, r)
		}
	}
	if r := run("letters --open --json"); len(objects(t, r.out)) != 249 {
		t.Errorf("%d are not settled", len(objects(t, r.out)))
	}
	if r := run("letters --json --consumer sms"); objects(t, r.out)[0]["note"] != "unwanted" || objects(t, r.out)[0]["state"] != "discarded" {
		t.Errorf("%+v", r)
	}
	if r := run("letters --schema nowhere"); r.code != cli.ExitFailure {
		t.Errorf("%+v", r)
	}
}
