package cli_test

import (
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/cli"
)

// background runs a command until the test ends, or the returned function is called, which gives what it has left behind.
func background(t *testing.T, args ...string) (stop func() result) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan result, 1)
	go func() { ended <- khata(ctx, args...) }()
	var r *result
	stop = func() result {
		cancel()
		if r == nil {
			left := <-ended
			r = &left
		}
		return *r
	}
	t.Cleanup(func() { stop() })
	return stop
}

// eventually runs a command until its output has a text.
func eventually(t *testing.T, text string, args ...string) string {
	t.Helper()
	var r result
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if r = khata(t.Context(), args...); strings.Contains(r.out, text) {
			return r.out
		}
	}
	t.Fatalf("khata %s never says %q: %+v", strings.Join(args, " "), text, r)
	return ""
}

// A ledger, a relay, and who looks at what it does.
func TestRelay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broker, topics := kafkaBench(t)
	at, on := []string{"--kafka", broker.Brokers()[0]}, []string{"--dsn", b.db.ServiceDSN()}
	run := func(line string, more ...string) result {
		return khata(t.Context(), append(strings.Fields(line), more...)...)
	}
	status := append([]string{"relay", "status"}, on...)
	if r := khata(t.Context(), status...); r.code != cli.ExitOK || r.out != "nobody publishes\n" {
		t.Errorf("%+v", r)
	}
	stop := background(t, append(append([]string{"relay", "--http", "127.0.0.1:0"}, at...), on...)...)
	b.must(t, "account create cash --type asset --currency BDT")
	b.must(t, "account create wallet:a --type liability --currency BDT")
	eventually(t, "the oldest that is not published is ", status...) // There are no topics yet.
	time.Sleep(time.Second)                                          // A relay that begins asks for its topics at once, and says what is missing.
	if r := topics("ensure --partitions 2"); r.code != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	b.must(t, "transfer post --id T1 --debit cash --credit wallet:a --amount 12.50")
	told := eventually(t, "ledger main: 3 records", status...)
	if !regexp.MustCompile(`^\S+, process \d+ publishes, in term \d+; topics khata\.\*, cluster \S+\nledger main: 3 records, through number \d+, which is all\n$`).MatchString(told) {
		t.Errorf("%q", told)
	}

	r := run("events --from-beginning --only transfers", at...)
	for _, want := range []string{"khata.transfer.posted.v1  number ", "key main/T1  partition ", `"transfer_id": "T1"`, `"amount": "12.50"`} {
		if r.code != cli.ExitOK || !strings.Contains(r.out, want) {
			t.Errorf("it does not say %s: %+v", want, r)
		}
	}
	r = run("events --from-beginning --json --key main/wallet:a", at...)
	if list := objects(t, r.out); len(list) != 2 || list[1]["headers"].(map[string]any)["ce_subject"] != "wallet:a" || list[1]["data"].(map[string]any)["posted"] != "12.50" {
		t.Errorf("%+v", r)
	}
	if r := run("relay parked", on...); r != (result{out: "nothing is parked\n"}) {
		t.Errorf("%+v", r)
	}
	if r := run("relay parked retry", on...); r != (result{out: "asked for 0; the relay tries within some seconds\n"}) {
		t.Errorf("%+v", r)
	}
	if r := run("relay parked skip an-id --reason so", on...); r.code != cli.ExitFailure || !strings.Contains(r.err, "event an-id is not parked") {
		t.Errorf("%+v", r)
	}
	if r := run("relay rewind --to-beginning", on...); r != (result{out: "rewound\n"}) {
		t.Errorf("%+v", r)
	}
	if told := eventually(t, "ledger main: 3 records", status...); !strings.Contains(told, "which is all") {
		t.Errorf("%q", told)
	}
	if r := run("events --from-beginning --json --only transfers", at...); len(objects(t, r.out)) != 2 {
		t.Errorf("after a rewind: %+v", r)
	}
	left := stop()
	if left.code != cli.ExitOK || !strings.Contains(left.err, "make it with khata topics ensure") {
		t.Errorf("%+v", left)
	}
	address := regexp.MustCompile(`msg="serving metrics" http=(\S+)`).FindStringSubmatch(left.err)
	if address == nil {
		t.Fatalf("it does not say where its metrics are: %s", left.err)
	}
	if r := khata(t.Context(), status...); !strings.HasPrefix(r.out, "nobody publishes; topics khata.*") {
		t.Errorf("%+v", r)
	}
}

func TestRelay_Metrics(t *testing.T) {
	t.Parallel()
	b := setup(t)
	broker, topics := kafkaBench(t)
	if r := topics("ensure --partitions 1"); r.code != cli.ExitOK {
		t.Fatalf("%+v", r)
	}
	const address = "127.0.0.1:0"
	b.must(t, "account create cash --type asset --currency BDT")
	// The port is only known from the log, which is only there at the end; so it is asked for twice.
	probe := background(t, "relay", "--http", address, "--kafka", broker.Brokers()[0], "--dsn", b.db.ServiceDSN())
	eventually(t, "which is all", "relay", "status", "--dsn", b.db.ServiceDSN())
	free := regexp.MustCompile(`msg="serving metrics" http=(\S+)`).FindStringSubmatch(probe().err)[1]
	background(t, "relay", "--http", free, "--kafka", broker.Brokers()[0], "--dsn", b.db.ServiceDSN())
	eventually(t, " publishes, in term 2", "relay", "status", "--dsn", b.db.ServiceDSN())
	text := ""
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline) && !strings.Contains(text, "khata_relay_leader 1\n"); time.Sleep(20 * time.Millisecond) {
		text = get(t, "http://"+free+"/metrics")
	}
	for _, want := range []string{"khata_relay_leader 1\n", "khata_relay_oldest_unpublished_seconds 0\n", "khata_relay_parked 0\n", "khata_relay_records_total 0\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics have no %q:\n%s", want, text)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRelay_Usage(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"relay":                                  "--dsn is required",
		"relay --dsn x":                          "--kafka is required",
		"relay nonsense":                         "unknown command",
		"relay status":                           "give either --dsn or --data-dir",
		"relay parked":                           "give either --dsn or --data-dir",
		"relay parked skip --dsn x":              "give at least one",
		"relay parked skip an-id --dsn x":        "--reason is required",
		"relay rewind --dsn x":                   "give either --since or --to-beginning",
		"relay rewind --dsn x --since yesterday": `--since "yesterday" is not a time such as`,
		"relay rewind --dsn x --since 2026-11-01T00:00:00Z --to-beginning": "give either --since or --to-beginning",
		"events --kafka localhost:9092":                                    "give --from-beginning, --follow, or both",
		"events --from-beginning":                                          "--kafka is required",
		"events --from-beginning --only all --kafka x:1":                   `--only "all": it is transfers or accounts`,
		"events --from-beginning --topic-prefix a/b --kafka x:1":           `topic prefix "a/b" has characters`,
		"bench relay": "relay and wallet need --kafka",
		"relay --dsn x --kafka x:1 --kafka-sasl plain": "needs the user in KHATA_KAFKA_USER",
	} {
		if r := khata(t.Context(), strings.Fields(line)...); r.code != cli.ExitUsage || !strings.Contains(r.err, want) {
			t.Errorf("khata %s: %+v, want %s", line, r, want)
		}
	}
	if r := khata(t.Context(), "events", "--from-beginning", "--kafka", "127.0.0.1:1"); r.code != cli.ExitFailure || !strings.Contains(r.err, "no answer from Kafka at 127.0.0.1:1") {
		t.Errorf("%+v", r)
	}
	if r := khata(t.Context(), "relay", "--kafka", "127.0.0.1:1", "--dsn", "host=127.0.0.1 port=1 dbname=x user=x"); r.code != cli.ExitFailure || !strings.Contains(r.err, "connect") {
		t.Errorf("%+v", r)
	}
}
