package server_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// history is what was asked and what was answered, by whichever server. What contradicts a promise is a fault at once;
// the rest is compared with the database in the end.
type history struct {
	// tolerated are the codes that the test itself provokes. They leave the outcome open.
	tolerated []ledger.Code
	// meter counts answers.
	meter meter

	mu      sync.Mutex
	ids     map[ledger.TransferID]*told
	errors  map[ledger.Code]int
	faults  []string
	slowest time.Duration
	// calls were answered, and noTurns of them had no turn. See allHaveTurns.
	calls, noTurns int
}

// told is what is known of one id.
type told struct {
	contents []ledger.TransferSpec // that were sent, each once
	answered *answer
	content  string // that the answer was given to
	fresh    int    // answers that were not marked as replayed
	taken    map[string]bool
}

// answer is what no two answers for an id may differ in.
type answer struct {
	Sequence int64
	PostedAt time.Time
	Reason   ledger.Code // "" if posted
	Account  ledger.AccountID
}

func newHistory(tolerated ...ledger.Code) *history {
	return &history{tolerated: tolerated, ids: map[ledger.TransferID]*told{}, errors: map[ledger.Code]int{}}
}

func (h *history) faultLocked(format string, args ...any) {
	h.faults = append(h.faults, fmt.Sprintf(format, args...))
}

// fault notes something that must not happen.
func (h *history) fault(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.faultLocked(format, args...)
}

// took notes how long a call took.
func (h *history) took(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	h.slowest = max(h.slowest, d)
}

func (h *history) slowestCall() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.slowest
}

// hadNoTurn reports whether a request waited for its turn, a quarter of what it may take, and was taken back: nothing was begun. It is the only
// timeout that a machine that stands still for two seconds brings where nothing is broken.
func hadNoTurn(err error) bool {
	return ledger.CodeOf(err) == ledger.CodeUnavailable && strings.Contains(err.Error(), "no turn within the time there was")
}

func (h *history) countNoTurn() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noTurns++
}

// allHaveTurns tries something in which each call has to have its turn. Those who wait have none if the machine stands still just then: that is
// tried again, since what Khata itself does to them it does each time. A long form lasts long enough for that to happen, and too long to be
// tried again for it.
func allHaveTurns(t *testing.T, try func(context.Context, *testing.T) *history) {
	t.Helper()
	const tries = 3
	for range tries {
		ctx, cancel := stormLimit(t)
		h := try(ctx, t)
		if ctx.Err() != nil {
			t.Error("it is not done in time")
		}
		cancel()
		if h.noTurns <= count(0, h.calls/100) || t.Failed() {
			return
		}
		t.Logf("%d of %d calls had no turn in time", h.noTurns, h.calls)
	}
	t.Errorf("each of %d times somebody had no turn in time", tries)
}

// sent notes a request before it leaves: from then on it may take effect.
func (h *history) sent(spec ledger.TransferSpec) {
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.ids[spec.ID]
	if x == nil {
		x = &told{taken: map[string]bool{}}
		h.ids[spec.ID] = x
	}
	same := func(other ledger.TransferSpec) bool { return contentOf(other) == contentOf(spec) }
	if !slices.ContainsFunc(x.contents, same) {
		x.contents = append(x.contents, spec)
	}
}

// heard notes what a request brought, and reports whether it has to be sent again.
func (h *history) heard(spec ledger.TransferSpec, r client.Result, err error) (open bool) {
	if err == nil {
		err = r.Err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	x := h.ids[spec.ID]
	switch code := ledger.CodeOf(err); {
	case err == nil:
		if r.TransferID != spec.ID {
			h.faultLocked("%s was answered for %s", r.TransferID, spec.ID)
		}
		h.answeredLocked(spec, x, answerOf(r))
		if !r.Replayed {
			x.fresh++
		}
	case code == ledger.CodeAlreadyExists:
		x.taken[contentOf(spec)] = true
		if !strings.Contains(err.Error(), "differs from the record") {
			h.faultLocked("%s is taken, and the answer names no field: %v", spec.ID, err)
		}
	case code.Retryable():
		h.errors[code]++
		if !hadNoTurn(err) && !slices.Contains(h.tolerated, code) { // allHaveTurns judges the former.
			h.faultLocked("%s: %s: %v", spec.ID, code, err)
		}
		return true
	default:
		h.errors[code]++
		h.faultLocked("%s: %s: %v", spec.ID, code, err)
		return false
	}
	h.meter.add(1)
	return false
}

func (h *history) answeredLocked(spec ledger.TransferSpec, x *told, a answer) {
	content := contentOf(spec)
	switch {
	case x.answered == nil:
		x.answered, x.content = &a, content
	case !x.answered.equal(a):
		h.faultLocked("%s was answered in two ways: %+v and %+v", spec.ID, *x.answered, a)
	case x.content != content:
		h.faultLocked("%s was answered for two contents: %s and %s", spec.ID, x.content, content)
	}
}

func (a answer) equal(b answer) bool {
	return a.Sequence == b.Sequence && a.PostedAt.Equal(b.PostedAt) && a.Reason == b.Reason && a.Account == b.Account
}

func answerOf(r client.Result) answer {
	a := answer{Sequence: r.Sequence, PostedAt: r.PostedAt}
	if r.Refusal != nil {
		a.Reason, a.Account = r.Refusal.Reason, r.Refusal.Account
	}
	return a
}

// contentOf writes what makes two requests the same, in one way. It is written anew here and not taken from package
// ledger, which is what is being tested.
func contentOf(s ledger.TransferSpec) string {
	lines := make([]string, len(s.Entries))
	for i, e := range s.Entries {
		lines[i] = fmt.Sprintf("%s %s %s", e.Direction, e.Account, e.Amount.StringFixed(2))
	}
	slices.Sort(lines)
	at := ""
	if s.EffectiveAt != nil {
		at = s.EffectiveAt.UTC().Format(time.RFC3339Nano)
	}
	return fmt.Sprintf("%s|%s|%s|%s", strings.Join(lines, ", "), at, s.Description, s.Metadata)
}

// report fails the test for each fault, and says which errors came.
func (h *history) report(t testing.TB) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.errors) > 0 {
		t.Logf("errors seen by callers: %v", h.errors)
	}
	const most = 10
	for i, fault := range h.faults {
		if i == most {
			t.Errorf("and %d faults more", len(h.faults)-most)
			break
		}
		t.Error(fault)
	}
}

// open lists the ids whose outcome nobody was told.
func (h *history) open() []ledger.TransferSpec {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []ledger.TransferSpec
	for _, x := range h.ids {
		untold := func(s ledger.TransferSpec) bool { return !x.taken[contentOf(s)] }
		if i := slices.IndexFunc(x.contents, untold); x.answered == nil && i >= 0 {
			list = append(list, x.contents[i])
		}
	}
	return list
}
