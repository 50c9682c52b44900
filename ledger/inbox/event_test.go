package inbox_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/khata-ledger/khata/ledger/inbox"
)

func TestRead(t *testing.T) {
	t.Parallel()
	r := event("a", key("k"), header("ce_time", "2026-09-30T23:59:59.123456789+06:00"), header("ce_subject", "TXN-1"), header("x", "y"))
	r.Topic, r.Partition, r.Offset = "t", 3, 7
	got, err := inbox.Read(r)
	if err != nil {
		t.Fatal(err)
	}
	want := inbox.Event{
		ID: "a", Type: "test.happened.v1", Source: "test", Subject: "TXN-1", Time: time.Date(2026, 9, 30, 17, 59, 59, 123456789, time.UTC),
		ContentType: "text/plain", Data: []byte("data of a"), Key: []byte("k"), Headers: r.Headers, Topic: "t", Partition: 3, Offset: 7,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRead_Malformed(t *testing.T) {
	t.Parallel()
	twice := func(r *kgo.Record) { r.Headers = append(r.Headers, kgo.RecordHeader{Key: "ce_id", Value: []byte("b")}) }
	const made = "kafka:t/3/7" // the id of a record that brought none
	for name, c := range map[string]struct {
		change  func(*kgo.Record)
		id, why string
	}{
		"no id":            {without("ce_id"), made, "no ce_id"},
		"an empty id":      {header("ce_id", ""), made, "no ce_id"},
		"a long id":        {header("ce_id", strings.Repeat("x", 257)), made, "257 bytes"},
		"the longest id":   {header("ce_id", strings.Repeat("x", 256)), strings.Repeat("x", 256), ""},
		"an id with NUL":   {header("ce_id", "a\x00"), made, "ce_id is no text"},
		"an id in Latin-1": {header("ce_id", "caf\xe9"), made, "ce_id is no text"},
		"two ids":          {twice, "a", "ce_id twice"},
		"no time":          {without("ce_time"), "a", "no ce_time"},
		"another time":     {header("ce_time", "30.9.2026"), "a", "RFC 3339"},
		"a small time":     {header("ce_time", "2026-09-30t23:59:59z"), "a", ""},
		"no source":        {without("ce_source"), "a", "no ce_source"},
		"no type":          {without("ce_type"), "a", "no ce_type"},
		"no version":       {without("ce_specversion"), "a", "no ce_specversion"},
		"version 0.3":      {header("ce_specversion", "0.3"), "a", `"0.3", not 1.0`},
		"structured mode": {func(r *kgo.Record) {
			r.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents+json")}}
		}, made, "structured mode"},
		"a tombstone":       {func(r *kgo.Record) { r.Value = nil }, "a", ""},
		"no headers at all": {func(r *kgo.Record) { r.Headers = nil }, made, "no ce_specversion"},
	} {
		r := event("a", c.change)
		r.Topic, r.Partition, r.Offset = "t", 3, 7
		got, err := inbox.Read(r)
		if got.ID != c.id {
			t.Errorf("%s: the id is %q", name, got.ID)
		}
		if (err == nil) != (c.why == "") || err != nil && !strings.Contains(err.Error(), c.why) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestIsTransient(t *testing.T) {
	t.Parallel()
	sql := func(code string) error { return fmt.Errorf("post: %w", &pgconn.PgError{Code: code}) }
	for _, code := range []string{"08006", "40001", "40P01", "53300", "55P03", "57P01", "57014", "58030", "25P03", "25006"} {
		if !inbox.IsTransient(sql(code)) {
			t.Errorf("%s is not", code)
		}
	}
	for _, code := range []string{"23505", "22P02", "42P01", "25P02", "P0001", "XX000"} {
		if inbox.IsTransient(sql(code)) {
			t.Errorf("%s is", code)
		}
	}
	if inbox.IsTransient(errTest) || inbox.IsTransient(inbox.Poison(errTest)) || !inbox.IsTransient(fmt.Errorf("so: %w", inbox.Transient(errTest))) {
		t.Error("what the handler says does not count")
	}
	if inbox.Poison(nil) != nil || inbox.Transient(nil) != nil {
		t.Error("an error was made of none")
	}
	if !errors.Is(inbox.Poison(errTest), errTest) || !errors.Is(inbox.Transient(errTest), errTest) {
		t.Error("the error is lost")
	}
}
