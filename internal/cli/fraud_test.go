package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestFraud_Usage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wrong, right := filepath.Join(dir, "wrong.json"), "../../docs/examples/fraud-rules.json"
	if err := os.WriteFile(wrong, []byte(`{"payers": ["wallet:"], "rules": [{"name": "a", "kind": "speed"}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"fraud":                          "--instance is required",
		"fraud --kafka b:1 --instance a": "--rules is required",
		"fraud --kafka b:1 --instance a --rules " + dir + "/missing": "no such file",
		"fraud --kafka b:1 --instance a --rules " + wrong:            `wrong.json: rule 1 ("a"): its kind is "speed": choose one of`,
		"fraud --instance a --rules " + right:                        "--kafka is required",
		"fraud rules":                                                "give the FILE: khata fraud rules FILE",
		"fraud rules " + wrong:                                       `wrong.json: rule 1 ("a")`,
		"fraud flagged":                                              "give either --dsn or --data-dir",
		"fraud settle --as cleared --note n --by b --dsn x":          "give at least one",
		"fraud settle v --note n --by b --dsn x":                     "--as is required: cleared or confirmed",
		"fraud settle v --as open --note n --by b --dsn x":           "--as is required: cleared or confirmed",
		"fraud settle v --as cleared --by b --dsn x":                 "--note and --by are required",
		"fraud settle v --as cleared --note n --by b":                "give either --dsn or --data-dir",
		"consume verdicts --kafka b:1":                               "--dsn is required",
		"consume verdicts migrate":                                   "--dsn is required",
	} {
		if r := khata(t.Context(), strings.Fields(line)...); r.code != cli.ExitUsage || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("khata %s: %+v, want %q", line, r, want)
		}
	}
	r := khata(t.Context(), "fraud", "--kafka", "127.0.0.1:1", "--instance", "a/b", "--rules", right)
	if r.code != cli.ExitFailure || !strings.Contains(r.err, `instance "a/b": give it a name`) {
		t.Errorf("%+v", r)
	}
}

func TestFraudRules(t *testing.T) {
	t.Parallel()
	r := khata(t.Context(), "fraud", "rules", "../../docs/examples/fraud-rules.json")
	if diff := cmp.Diff(`rules 228e23179f206091
  transfers are judged whose payer begins with wallet:; all others are approved
  large: flags one of more than 50000 BDT or 500 USD
  haste: flags every one after the first 10 of a payer within 10m
  daily: flags one with which its payer has paid more than 100000 BDT or 1000 USD within 24h
  twice: flags one of the same payer, payee and amount as another within 2m
  stranger: flags one of more than 20000 BDT or 200 USD to somebody whom its payer has not paid within 720h
`, r.out); diff != "" || r.code != cli.ExitOK {
		t.Error(r.code, r.err, diff)
	}
	r = khata(t.Context(), "fraud", "rules", "../../docs/examples/fraud-rules.json", "--json")
	if list := objects(t, r.out); len(list) != 1 || list[0]["rules"] != "228e23179f206091" {
		t.Errorf("%+v", r)
	}
}

// What is flagged is listed, and settled by people.
func TestFraudFlagged(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	run := func(line string, more ...string) result {
		return khata(t.Context(), append(strings.Fields(line), more...)...)
	}
	if r := run("fraud flagged --dsn", db.ServiceDSN()); r.code != cli.ExitFailure || !strings.Contains(r.err, "run khata consume verdicts migrate") {
		t.Errorf("%+v", r)
	}
	if r := run("consume verdicts migrate --grant khata_service --dsn", db.OwnerDSN()); r.code != cli.ExitOK || !strings.Contains(r.out, "granted to khata_service") {
		t.Fatalf("%+v", r)
	}
	if r := run("fraud flagged --dsn", db.ServiceDSN()); r.out != "nothing is flagged\n" {
		t.Errorf("%+v", r)
	}
	db.Exec(t, `INSERT INTO khata_fraud.flagged (verdict, unreadable, ledger, transfer_id, sequence, kind, payer, payee, amount, currency, posted_at, reasons, rules, judged_event)
		VALUES ('v1', false, 'main', 't1', 7, 'plain', 'wallet:a', 'shop', 60000.00, 'BDT', '2026-11-30T10:00:00.5Z', '[{"rule":"large","kind":"amount","text":"60000.00 BDT is more than 50000 BDT"}]', 'r', 'e'),
		       ('v2', true, 'main', '', 0, '', '', '', NULL, '', NULL, '[{"kind":"unreadable","text":"the event in topic, partition 1, offset 2: it has no posted_at"}]', 'r', 'e2')`)
	r := run("fraud flagged --dsn", db.ServiceDSN())
	if diff := cmp.Diff(`v1  open
  t1 in ledger main, wallet:a to shop, 60000.00 BDT, posted 2026-11-30T10:00:00.500000Z
  large: 60000.00 BDT is more than 50000 BDT
v2  open
  unreadable: the event in topic, partition 1, offset 2: it has no posted_at
`, r.out); diff != "" {
		t.Error(r.err, diff)
	}
	if list := objects(t, run("fraud flagged --json --dsn", db.ServiceDSN()).out); len(list) != 2 || list[0]["amount"] != "60000.00" || list[0]["state"] != "open" {
		t.Errorf("%v", list)
	}
	if r := run("fraud settle v1 --as confirmed --note stolen --by tithi --dsn", db.ServiceDSN()); r.out != "settled 1 as confirmed\n" {
		t.Errorf("%+v", r)
	}
	if r := run("fraud settle v1 v2 --as cleared --note no --by tithi --dsn", db.ServiceDSN()); r.code != cli.ExitFailure || !strings.Contains(r.err, "v1 was settled before, as confirmed") {
		t.Errorf("%+v", r)
	}
	if r := run("fraud flagged --dsn", db.ServiceDSN()); !strings.HasPrefix(r.out, "v2  open") {
		t.Errorf("%+v", r)
	}
	if r := run("fraud flagged --all --dsn", db.ServiceDSN()); !strings.HasPrefix(r.out, "v1  confirmed by tithi 20") || !strings.Contains(r.out, ": stolen\n") {
		t.Errorf("%+v", r)
	}
}

// The two commands that run end in order; without topics, and without tables, they say what to do.
func TestFraud_Runs(t *testing.T) {
	t.Parallel()
	b, topics := kafkaBench(t)
	brokers := b.Brokers()[0]
	db := pgtest.New(t)
	check := []string{"fraud", "--kafka", brokers, "--instance", "one", "--rules", "../../docs/examples/fraud-rules.json", "--http", "127.0.0.1:0"}
	consume := []string{"consume", "verdicts", "--kafka", brokers, "--dsn", db.ServiceDSN()}
	if r := khata(t.Context(), check...); r.code != cli.ExitFailure || !strings.Contains(r.err, "there is no topic khata.accounts: run khata topics ensure --fraud") {
		t.Errorf("%+v", r)
	}
	if r := khata(t.Context(), consume...); r.code != cli.ExitFailure || !strings.Contains(r.err, "run khata consume verdicts migrate") {
		t.Errorf("%+v", r)
	}
	topics("ensure --fraud --partitions 2")
	if r := khata(t.Context(), "consume", "verdicts", "migrate", "--grant", "khata_service", "--dsn", db.OwnerDSN()); r.code != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	for _, args := range [][]string{check, consume} {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan result, 1)
		go func() { ended <- khata(ctx, args...) }()
		select {
		case r := <-ended:
			t.Errorf("%q has ended: %+v", args, r)
		case <-time.After(time.Second):
		}
		stop()
		if r := <-ended; r.code != cli.ExitOK {
			t.Errorf("%q: %+v", args, r)
		}
	}
}
