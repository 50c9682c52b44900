package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/cli"
	"github.com/khata-ledger/khata/internal/devkafka"
)

// kafkaBench starts a broker, and gives who runs commands of topics against it.
func kafkaBench(t *testing.T) (b *devkafka.Broker, topics func(line string) result) {
	t.Helper()
	b, err := devkafka.Start(devkafka.Config{Addr: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b, func(line string) result {
		return khata(context.Background(), append(strings.Fields("topics "+line), "--kafka", b.Brokers()[0])...)
	}
}

func TestTopics(t *testing.T) {
	t.Parallel()
	b, topics := kafkaBench(t)
	if r := topics("show"); r.code != cli.ExitFailure || !strings.Contains(r.err, "khata.transfers: there is no such topic: make it with khata topics ensure") {
		t.Errorf("%+v", r)
	}
	for _, c := range []struct {
		line, out, err string
		code           int
	}{
		{"ensure --partitions 3", `khata.transfers  created  partitions 3  replicas 1
khata.accounts  created  partitions 3  replicas 1
`, "", cli.ExitOK},
		{"ensure --partitions 3", `khata.transfers  as it should be  partitions 3  replicas 1
khata.accounts  as it should be  partitions 3  replicas 1
`, "", cli.ExitOK},
		{"ensure --partitions 3 --retention 48h", `khata.transfers  differs  partitions 3  replicas 1
  retention.ms is 604800000, should be 172800000
khata.accounts  differs  partitions 3  replicas 1
  retention.ms is 604800000, should be 172800000
`, "khata: not all is as it should be: --alter sets what differs, except for the replication factor\n", cli.ExitFailure},
		{"ensure --partitions 3 --retention 48h --segment 30m --alter --json",
			`{"topic":"khata.transfers","state":"altered","partitions":3,"replicas":1,"differences":[{"setting":"retention.ms","is":"604800000","should":"172800000"},{"setting":"segment.ms","is":"3600000","should":"1800000"}]}
{"topic":"khata.accounts","state":"altered","partitions":3,"replicas":1,"differences":[{"setting":"retention.ms","is":"604800000","should":"172800000"},{"setting":"segment.ms","is":"3600000","should":"1800000"}]}
`, "", cli.ExitOK},
		{"show", `khata.transfers  cluster CLUSTER
  partitions 3  replicas 1, of which 1 must have a record
  kept at least 48h0m0s, 30m0s longer at most  cleanup delete
  batches of 2097152 bytes at most, with the brokers' time
khata.accounts  cluster CLUSTER
  partitions 3  replicas 1, of which 1 must have a record
  kept at least 48h0m0s, 30m0s longer at most  cleanup delete
  batches of 2097152 bytes at most, with the brokers' time
`, "", cli.ExitOK},
		{"show --json",
			`{"cluster":"CLUSTER","topic":"khata.transfers","partitions":3,"replicas":1,"min_insync_replicas":1,"retention_ms":172800000,"segment_ms":1800000,"cleanup_policy":"delete","max_message_bytes":2097152,"log_append_time":true}
{"cluster":"CLUSTER","topic":"khata.accounts","partitions":3,"replicas":1,"min_insync_replicas":1,"retention_ms":172800000,"segment_ms":1800000,"cleanup_policy":"delete","max_message_bytes":2097152,"log_append_time":true}
`, "", cli.ExitOK},
	} {
		r := topics(c.line)
		r.out = strings.ReplaceAll(r.out, b.ClusterID(), "CLUSTER")
		if r.code != c.code || r.err != c.err {
			t.Errorf("khata topics %s: exit %d, %s", c.line, r.code, r.err)
		}
		if diff := cmp.Diff(c.out, r.out); diff != "" {
			t.Errorf("khata topics %s: %s", c.line, diff)
		}
	}
	if r := topics("ensure"); r.code != cli.ExitFailure || !strings.Contains(r.err, "khata.transfers has 3 partitions, and 12 are asked for") {
		t.Errorf("%+v", r)
	}
	if r := topics("ensure --topic-prefix other --replication 1"); r.code != cli.ExitOK || !strings.HasPrefix(r.out, "other.transfers  created  partitions 12") {
		t.Errorf("%+v", r)
	}
}

func TestTopics_Fraud(t *testing.T) {
	t.Parallel()
	b, topics := kafkaBench(t)
	if r := topics("ensure --fraud --partitions 3"); r.code != cli.ExitOK || !strings.HasSuffix(r.out, `khata.verdicts  created  partitions 3  replicas 1
khata.fraud-state  created  partitions 3  replicas 1
`) {
		t.Errorf("%+v", r)
	}
	r := topics("show --fraud")
	want := `khata.fraud-state  cluster CLUSTER
  partitions 3  replicas 1, of which 1 must have a record
  kept the last of each key  cleanup compact
  batches of 2097152 bytes at most, with the brokers' time
`
	if out := strings.ReplaceAll(r.out, b.ClusterID(), "CLUSTER"); r.code != cli.ExitOK || !strings.HasSuffix(out, want) || strings.Count(out, "cluster") != 4 {
		t.Errorf("%+v", r)
	}
	if r := topics("show"); strings.Contains(r.out, "fraud") || strings.Contains(r.out, "verdicts") {
		t.Errorf("%+v", r)
	}
	if r := topics("show --fraud --topic-prefix " + strings.Repeat("a", 238)); r.code != cli.ExitUsage || !strings.Contains(r.err, "at most 237") {
		t.Errorf("%+v", r)
	}
}

func TestTopics_Usage(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing.pem")
	for line, want := range map[string]string{
		"topics":                              "needs a subcommand",
		"topics ensure":                       "--kafka is required, such as broker1:9092,broker2:9092",
		"topics show":                         "--kafka is required",
		"topics show --kafka broker1":         `broker "broker1" is not HOST:PORT`,
		"topics show --kafka broker1:9092,:1": `broker ":1" is not HOST:PORT`,
		"topics show --kafka broker1:9092 --kafka-ca " + missing:   "authorities to trust: open " + missing,
		"topics show --kafka broker1:9092 --kafka-cert " + missing: "go together",
		"topics show --kafka broker1:9092 --kafka-sasl plain":      "the user in KHATA_KAFKA_USER and the password in KHATA_KAFKA_PASSWORD",
		"topics show --kafka broker1:9092 --topic-prefix a/b":      "characters that Kafka does not take",
		"topics ensure --kafka broker1:9092 --topic-prefix a/b":    "characters that Kafka does not take",
		"topics ensure --kafka broker1:9092 --partitions -1":       "-1 partitions",
		"topics ensure --kafka broker1:9092 --retention -1h":       "must not stay for ever",
		"topics ensure --kafka broker1:9092 --retention 7":         "missing unit in duration",
	} {
		if r := khata(t.Context(), strings.Fields(line)...); r.code != cli.ExitUsage || !strings.Contains(r.err, want) || r.out != "" {
			t.Errorf("khata %s: %+v, want %q", line, r, want)
		}
	}
}

// Who is calling comes from the environment, where not everybody can read it; so can the rest, except for what changes topics that exist.
func TestTopics_Environment(t *testing.T) {
	b, _ := kafkaBench(t)
	t.Setenv("KHATA_KAFKA", b.Brokers()[0])
	t.Setenv("KHATA_PARTITIONS", "2")
	t.Setenv("KHATA_TOPIC_PREFIX", "mine")
	if r := khata(t.Context(), "topics", "ensure"); r.code != cli.ExitOK || !strings.HasPrefix(r.out, "mine.transfers  created  partitions 2") {
		t.Errorf("%+v", r)
	}
	t.Setenv("KHATA_ALTER", "true")
	if r := khata(t.Context(), "topics", "ensure", "--segment", "2h"); r.code != cli.ExitFailure || !strings.Contains(r.out, "mine.transfers  differs") {
		t.Errorf("%+v", r)
	}
	t.Setenv("KHATA_KAFKA_USER", "khata")
	t.Setenv("KHATA_KAFKA_PASSWORD", "the-secret")
	for want, args := range map[string][]string{
		"say by --kafka-sasl how to show them":                                  {"topics", "show"},
		`SASL mechanism "gssapi" is not one of plain,`:                          {"topics", "show", "--kafka-sasl", "gssapi"},
		"the password for broker broker1:9092 would cross the network in plain": {"topics", "show", "--kafka-sasl", "PLAIN", "--kafka", "broker1:9092"},
	} {
		if r := khata(t.Context(), args...); r.code != cli.ExitUsage || !strings.Contains(r.err, want) || strings.Contains(r.err, "the-secret") {
			t.Errorf("khata %q: %+v, want %q", args, r, want)
		}
	}
	for _, name := range []string{"KHATA_KAFKA_USER", "KHATA_KAFKA_PASSWORD"} {
		if err := os.Unsetenv(name); err != nil {
			t.Fatal(err)
		}
	}
	b.Close()
	if r := khata(t.Context(), "topics", "show"); r.code != cli.ExitFailure || !strings.Contains(r.err, "no answer from Kafka at "+b.Brokers()[0]) {
		t.Errorf("%+v", r)
	}
}
