package eventstest_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/eventstest"
)

// recorder is a test that only notes its failures.
type recorder struct {
	testing.TB
	faults []string
}

func (*recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

func fact(key string, sequence int64) eventstest.Fact {
	return eventstest.Fact{Topic: "accounts", Key: key, Type: "moved", Subject: key, Sequence: sequence}
}

func sent(key string, sequence int64, changes ...func(*eventstest.Sent)) eventstest.Sent {
	s := eventstest.Sent{
		Topic: "accounts", Key: key, Timestamp: time.Now(), Value: fmt.Appendf(nil, "%s %d", key, sequence),
		Headers: map[string]string{
			"ce_id": fmt.Sprintf("id of %s %d", key, sequence), "ce_type": "moved", "ce_subject": key, "ce_sequence": fmt.Sprintf("%020d", sequence),
		},
	}
	for _, change := range changes {
		change(&s)
	}
	return s
}

func header(name, value string) func(*eventstest.Sent) {
	return func(s *eventstest.Sent) { s.Headers[name] = value }
}

func TestCheck(t *testing.T) {
	t.Parallel()
	want := []eventstest.Fact{fact("a", 1), fact("b", 1), fact("a", 3), fact("a", 5)}
	a1, b1, a3, a5 := sent("a", 1), sent("b", 1), sent("a", 3), sent("a", 5)
	for name, c := range map[string]struct {
		sent  []eventstest.Sent
		again int
		fault string // what is said of it; none where it is in order
	}{
		"once":                     {[]eventstest.Sent{a1, b1, a3, a5}, 0, ""},
		"another key meanwhile":    {[]eventstest.Sent{a1, a3, a5, b1}, 0, ""},
		"from the beginning again": {[]eventstest.Sent{a1, a3, a1, a3, a5, b1}, 2, ""},
		"all of it again":          {[]eventstest.Sent{a1, b1, a3, a5, a1, b1, a3, a5}, 4, ""},
		"lost":                     {[]eventstest.Sent{a1, a3, a5}, 0, "is not published"},
		"lost in between":          {[]eventstest.Sent{a1, b1, a5}, 0, "1 facts of its key before it are left out"},
		"overtaken":                {[]eventstest.Sent{a1, b1, a5, a3}, 0, "comes too early"},
		"left out the second time": {[]eventstest.Sent{a1, b1, a3, a5, a1, a5}, 2, "1 facts of its key before it are left out"},
		"of no record":             {[]eventstest.Sent{a1, b1, a3, sent("a", 4), a5}, 0, "has no such fact"},
		"of another type":          {[]eventstest.Sent{a1, b1, a3, sent("a", 5, header("ce_type", "closed"))}, 0, "has no such fact"},
		"of another subject":       {[]eventstest.Sent{a1, b1, a3, sent("a", 5, header("ce_subject", "b"))}, 0, "has no such fact"},
		"without a number":         {[]eventstest.Sent{a1, b1, a3, a5, sent("a", 5, header("ce_sequence", ""))}, 0, "has no such fact"},
		"under a second id":        {[]eventstest.Sent{a1, b1, a3, a5, sent("a", 5, header("ce_id", "x"))}, 0, "has the id x, and had id of a 5"},
		"two under one id":         {[]eventstest.Sent{a1, b1, a3, sent("a", 5, header("ce_id", "id of a 3"))}, 1, "and is another"},
		"other content": {
			[]eventstest.Sent{a1, b1, a3, a5, sent("a", 5, func(s *eventstest.Sent) { s.Value = []byte("else") })}, 1, "and is another",
		},
		"other headers": {[]eventstest.Sent{a1, b1, a3, a5, sent("a", 5, header("ce_time", "2026"))}, 1, "and is another"},
		"another partition": {
			[]eventstest.Sent{a1, b1, a3, sent("a", 5, func(s *eventstest.Sent) { s.Partition = 1 })}, 0, "is in another partition",
		},
		"stamped long ago": {
			[]eventstest.Sent{a1, b1, a3, sent("a", 5, func(s *eventstest.Sent) { s.Timestamp = time.Unix(0, 0) })}, 0, "is stamped",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &recorder{}
			if again := eventstest.Check(r, want, c.sent); again != c.again {
				t.Errorf("%d came again, want %d", again, c.again)
			}
			if (c.fault == "") != (len(r.faults) == 0) || !slices.ContainsFunc(append(r.faults, ""), func(s string) bool { return strings.Contains(s, c.fault) }) {
				t.Errorf("it says %q, want %q", r.faults, c.fault)
			}
		})
	}
}

func TestCheck_SaysNoMoreThanOneReads(t *testing.T) {
	t.Parallel()
	var want []eventstest.Fact
	for i := range 1000 {
		want = append(want, fact("a", int64(i+1)))
	}
	r := &recorder{}
	eventstest.Check(r, append(want, want[0]), nil)
	if n := len(r.faults); n != 22 || r.faults[0] != "1001 facts are expected, and only 1000 different ones" || r.faults[n-1] != "and 981 faults more" {
		t.Errorf("%d faults are told: %q", n, r.faults)
	}
}
