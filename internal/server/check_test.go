package server_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// finish ends a test: it has every open outcome found out by sending the same again, and then compares all that anyone
// was told with the books, and the books with themselves. exactlyOne asks that of each id one answer was not marked as
// replayed, which holds as long as no answer was lost on the way.
func (h *history) finish(t testing.TB, b *bench, exactlyOne bool) *books {
	t.Helper()
	h.resolve(t, b)
	found := readBooks(t, b.superDSN)
	h.compare(t, found, exactlyOne)
	found.replay(t)
	for _, c := range b.clients(t) {
		found.compareBalances(t, c)
		found.compareListing(t, c)
		h.compareReads(t, c, found)
	}
	b.verify(t)
	h.report(t)
	return found
}

// resolve sends what is open again, with nothing in the way any more, and expects the truth: the record that is there, as
// a replay, or else a first answer.
func (h *history) resolve(t testing.TB, b *bench) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	settle(ctx, t, b.superDSN)
	before := readBooks(t, b.superDSN)
	clients := b.clients(t)
	open := h.open()
	inside := 0
	for i, spec := range open {
		r, err := clients[i%len(clients)].PostTransfer(ctx, spec)
		there, was := before.records[spec.ID]
		switch {
		case was && contentOf(there.spec) != contentOf(spec):
			if ledger.CodeOf(err) != ledger.CodeAlreadyExists {
				t.Errorf("%s has other content, and sending it again brings %+v, %v", spec.ID, r, err)
			}
		case err != nil:
			t.Errorf("%s was open, and sending it again brings %v", spec.ID, err)
		case was && (!r.Replayed || !there.equal(answerOf(r))):
			t.Errorf("%s was open and is there as %+v; sending it again brings %+v", spec.ID, there.answer, r)
		case !was && r.Replayed:
			t.Errorf("%s was open and not there; sending it again brings a replay, %+v", spec.ID, r)
		}
		if was {
			inside++
		}
		h.heard(spec, r, err)
	}
	t.Logf("%d ids asked for, %d answers; %d outcomes were open, of which %d had taken effect", len(h.ids), h.meter.count(), len(open), inside)
}

// settle waits for backends whose servers are gone, and that are perhaps committing: all of them hold the gate.
func settle(ctx context.Context, t testing.TB, dsn string) {
	t.Helper()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_xact_lock(4247, ledger_id) FROM ledger"); err != nil {
		t.Fatal(err)
	}
}

// compare checks the answers against the records.
func (h *history) compare(t testing.TB, b *books, exactlyOne bool) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	posted, refused := 0, 0
	for id, x := range h.ids {
		r, there := b.records[id]
		switch {
		case x.answered == nil && len(x.taken) == 0:
			h.faultLocked("nobody was ever told what became of %s", id)
			continue
		case !there:
			h.faultLocked("%s was answered (%+v) and is not there", id, x.answered)
			continue
		case x.answered != nil && !x.answered.equal(r.answer):
			h.faultLocked("%s was answered as %+v and is there as %+v", id, *x.answered, r.answer)
		}
		content := contentOf(r.spec)
		if x.answered != nil && x.content != content {
			h.faultLocked("%s was answered for %s and is there with %s", id, x.content, content)
		}
		if x.taken[content] {
			h.faultLocked("%s was told that its id is taken by other content, and is what is there: %s", id, content)
		}
		if !slices.ContainsFunc(x.contents, func(s ledger.TransferSpec) bool { return contentOf(s) == content }) {
			h.faultLocked("%s is there with a content that nobody sent: %s", id, content)
		}
		if x.fresh > 1 || exactlyOne && x.fresh != 1 {
			h.faultLocked("%s: %d answers were not marked as replayed", id, x.fresh)
		}
		if r.Reason == "" {
			posted++
		} else {
			refused++
		}
	}
	for id := range b.records {
		if h.ids[id] == nil {
			h.faultLocked("%s is there, and nobody asked for it", id)
		}
	}
	t.Logf("%d transfers posted, %d refused", posted, refused)
}

// compareBalances checks what a server says of balances against the sums.
func (b *books) compareBalances(t testing.TB, c *client.Client) {
	t.Helper()
	types := map[ledger.AccountID]ledger.AccountType{}
	var ids []ledger.AccountID
	for _, state := range b.changes {
		if types[state.account.ID] == "" {
			ids = append(ids, state.account.ID)
		}
		types[state.account.ID] = state.account.Type
	}
	got, err := c.Balances(t.Context(), ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		if want := types[id].Signed(ledger.Debit, b.sums[id]); !got[i].Posted.Equal(want) || got[i].Account != id {
			t.Errorf("balance of %s: %+v, want %s", id, got[i], want)
		}
	}
}

// compareListing checks the listing of the account that has the most entries.
func (b *books) compareListing(t testing.TB, c *client.Client) {
	t.Helper()
	entries := map[ledger.AccountID]int{}
	busiest := ledger.AccountID("")
	for _, r := range b.inOrder {
		for _, e := range r.spec.Entries {
			if entries[e.Account]++; r.Reason == "" && entries[e.Account] > entries[busiest] {
				busiest = e.Account
			}
		}
	}
	var want, got []ledger.TransferID
	for _, r := range b.inOrder {
		for _, e := range r.spec.Entries {
			if r.Reason == "" && e.Account == busiest {
				want = append(want, r.spec.ID)
			}
		}
	}
	for e, err := range c.Entries(t.Context(), busiest, false) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e.TransferID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the listing of %s has %d entries, or not in the order of the %d that are there", busiest, len(got), len(want))
	}
}

// compareReads checks GetTransfer, for at most so many ids that it does not take longer than the test itself.
func (h *history) compareReads(t testing.TB, c *client.Client, b *books) {
	t.Helper()
	const most, at = 500, 8
	h.mu.Lock()
	var ids []ledger.TransferID
	for id := range h.ids {
		ids = append(ids, id)
	}
	h.mu.Unlock()
	slices.Sort(ids)
	random(1, len(ids)).Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	ids = ids[:min(most, len(ids))]
	var wg sync.WaitGroup
	for worker := range at {
		wg.Go(func() {
			for i := worker; i < len(ids); i += at {
				h.compareRead(t, c, ids[i], b)
			}
		})
	}
	wg.Wait()
	if _, err := c.Transfer(t.Context(), "nobody-ever-sent-this"); ledger.CodeOf(err) != ledger.CodeTransferNotFound {
		t.Errorf("an id that was never sent: %v", err)
	}
}

func (h *history) compareRead(t testing.TB, c *client.Client, id ledger.TransferID, b *books) {
	got, err := c.Transfer(t.Context(), id)
	want, there := b.records[id]
	if !there || err != nil {
		if there || ledger.CodeOf(err) != ledger.CodeTransferNotFound {
			h.fault("GetTransfer %s: %v, and it is there: %v", id, err, there)
		}
		return
	}
	a := answer{Sequence: got.Sequence, PostedAt: got.PostedAt}
	if got.Refusal != nil {
		a.Reason, a.Account = got.Refusal.Reason, got.Refusal.Account
	}
	if !a.equal(want.answer) || contentOf(got.TransferSpec) != contentOf(want.spec) {
		h.fault("GetTransfer %s: %+v, want %+v", id, got, want)
	}
}

// pick is a random element.
func pick[E any](r *rand.Rand, list []E) E { return list[r.IntN(len(list))] }
