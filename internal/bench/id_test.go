package bench

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	t.Parallel()
	for version, form := range map[IDVersion]string{
		V7: `^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
		V4: `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`,
	} {
		want := regexp.MustCompile(form)
		seen := map[string]bool{}
		variants := map[byte]bool{}
		for range 4 { // Generators of other clients, or of other runs.
			g, err := newIDs(version)
			if err != nil {
				t.Fatal(err)
			}
			last := ""
			for range 20_000 {
				id := g.next()
				if !want.MatchString(id) || len(id) != idLength {
					t.Fatalf("%s: %q", version, id)
				}
				if seen[id] {
					t.Fatalf("%s: %s comes twice", version, id)
				}
				if version == V7 && id <= last {
					t.Fatalf("%s comes after %s", id, last)
				}
				seen[id], variants[id[19]], last = true, true, id
			}
		}
		if len(variants) != 4 {
			t.Errorf("%s: the bits beside the variant do not vary: %v", version, variants)
		}
	}
	if _, err := newIDs("v1"); err == nil {
		t.Error("v1 is made")
	}
}

func TestIDs_OfTime(t *testing.T) {
	t.Parallel()
	g, err := newIDs(V7)
	if err != nil {
		t.Fatal(err)
	}
	now := time.UnixMilli(1_800_000_000_123)
	g.now = func() time.Time { return now }
	milliseconds := func() int64 {
		n, err := strconv.ParseInt(strings.ReplaceAll(g.next(), "-", "")[:12], 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := milliseconds(); got != now.UnixMilli() {
		t.Errorf("at %d the id says %d", now.UnixMilli(), got)
	}
	now = now.Add(-time.Hour) // The clock is set back: the ids do not follow it.
	if got := milliseconds(); got != 1_800_000_000_123 {
		t.Errorf("an hour earlier it says %d", got)
	}
	for range 5000 { // More than a millisecond can count.
		g.next()
	}
	if got := milliseconds(); got != 1_800_000_000_124 {
		t.Errorf("after 5,000 within a millisecond it says %d", got)
	}
}
