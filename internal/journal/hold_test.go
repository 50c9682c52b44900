package journal_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

func hold(id string, debit, credit ledger.AccountID, value string) ledger.TransferSpec {
	spec := move(id, debit, credit, value)
	spec.Terms = &ledger.Terms{Kind: ledger.Hold}
	return spec
}

func expiring(spec ledger.TransferSpec, at time.Time) ledger.TransferSpec {
	at = at.Truncate(time.Microsecond)
	spec.Terms.ExpiresAt = &at
	return spec
}

// capture captures a part of a hold, or with "" all that is left.
func capture(id, hold, value string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &ledger.Terms{
		Kind: ledger.Capture, Origin: ledger.TransferID(hold), Amount: optional(value),
	}}
}

func keepingOpen(spec ledger.TransferSpec) ledger.TransferSpec {
	spec.Terms.KeepOpen = true
	return spec
}

func void(id, hold string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &ledger.Terms{Kind: ledger.Void, Origin: ledger.TransferID(hold)}}
}

// refund refunds a part of a transfer, or with "" all that is left.
func refund(id, original, value, expected string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &ledger.Terms{
		Kind: ledger.Refund, Origin: ledger.TransferID(original), Amount: optional(value), ExpectedRefunded: floor(expected),
		Reason: ledger.ReasonRequestedByCustomer,
	}}
}

func reverse(id, original string) ledger.TransferSpec {
	return ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &ledger.Terms{Kind: ledger.Reversal, Origin: ledger.TransferID(original)}}
}

// funds shows what an account has: posted, held, incoming.
func (b *bench) funds(t testing.TB, id ledger.AccountID) string {
	t.Helper()
	balances, err := b.Balances(t.Context(), main, []ledger.AccountID{id})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s, %s, %s", balances[0].Posted, balances[0].Held, balances[0].Incoming)
}

// progress shows what has become of a transfer.
func (b *bench) progress(t testing.TB, id string) ledger.Progress {
	t.Helper()
	_, p, err := b.Transfer(t.Context(), main, ledger.TransferID(id))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// each posts transfers one after the other, and shows what became of them.
func (b *bench) each(t testing.TB, specs ...ledger.TransferSpec) string {
	t.Helper()
	var all []journal.PostResult
	for _, spec := range specs {
		all = append(all, b.post(t, spec))
	}
	return describeAll(all)
}

// quiet is a bench without the job that expires holds.
func quiet(t testing.TB) *bench {
	t.Helper()
	db := pgtest.New(t)
	j, pool := open(t, pg.Config{DSN: db.ServiceDSN()}, journal.Config{ExpireEvery: -1})
	return &bench{Journal: j, db: db, pool: pool}
}

// soon posts a hold that expires soon, after it what has to come before that, and gives its id and its deadline. Where a slow machine takes longer than
// the lead, there is another hold, with twice as much.
func (b *bench) soon(t testing.TB, name string, lead time.Duration, specs func(id string) []ledger.TransferSpec) (id string, deadline time.Time) {
	t.Helper()
	for ; ; lead *= 2 {
		id, deadline = fmt.Sprint(name, "-", lead.Milliseconds()), time.Now().Add(lead)
		list := specs(id)
		list[0] = expiring(list[0], deadline)
		got := b.each(t, list...)
		if strings.Count(got, "posted") == len(list) {
			return id, deadline
		}
		if !strings.Contains(got, "HOLD_EXPIRED") || lead > 10*time.Second {
			t.Fatalf("%s, with %s to go: %s", id, lead, got)
		}
		if err := b.ExpireHolds(t.Context()); err != nil { // What it held is needed again.
			t.Fatal(err)
		}
	}
}

func optional(value string) *decimal.Decimal {
	if value == "" {
		return nil
	}
	return floor(value)
}

func TestHold_Life(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	b.post(t, move("IN", "cash", "wallet", "5000"))
	// Six holds of 1,000 against 5,000.
	var six []ledger.TransferSpec
	for i := range 6 {
		six = append(six, hold(fmt.Sprint("H", i), "wallet", "shop", "1000"))
	}
	if got, want := b.each(t, six...), "posted, posted, posted, posted, posted, INSUFFICIENT_FUNDS"; got != want {
		t.Fatalf("six holds: %s, want %s", got, want)
	}
	if got := b.funds(t, "wallet") + "; " + b.funds(t, "shop"); got != "5000, 5000, 0; 0, 0, 5000" {
		t.Errorf("while held: %s", got)
	}
	for _, step := range []struct {
		spec         ledger.TransferSpec
		want, wallet string
	}{
		{move("MORE", "wallet", "shop", "0.01"), "INSUFFICIENT_FUNDS", "5000, 5000, 0"},
		{capture("C0", "H0", ""), "posted", "4000, 4000, 0"},
		{capture("C0", "H0", ""), "replayed", "4000, 4000, 0"},
		{capture("C0", "H0", "1000"), "ALREADY_EXISTS", "4000, 4000, 0"},
		{capture("C0b", "H0", ""), "HOLD_ENDED", "4000, 4000, 0"},
		{capture("C1", "H1", "300"), "posted", "3700, 3000, 0"},
		{keepingOpen(capture("C2", "H2", "300")), "posted", "3400, 2700, 0"},
		{keepingOpen(capture("C2b", "H2", "700.01")), "CAPTURE_EXCEEDS_HOLD", "3400, 2700, 0"},
		{keepingOpen(capture("C2c", "H2", "700")), "posted", "2700, 2000, 0"}, // Nothing is left to keep open.
		{void("V2", "H2"), "HOLD_ENDED", "2700, 2000, 0"},
		{void("V3", "H3"), "posted", "2700, 1000, 0"},
		{void("V3", "H3"), "replayed", "2700, 1000, 0"},
		{capture("C3", "H3", "1"), "HOLD_ENDED", "2700, 1000, 0"},
		{capture("C9", "NOWHERE", "1"), "TRANSFER_NOT_FOUND", "2700, 1000, 0"},
		{capture("CIN", "IN", "1"), "WRONG_ORIGIN", "2700, 1000, 0"},
		{capture("C5", "H5", "1"), "WRONG_ORIGIN", "2700, 1000, 0"}, // It was refused.
		{reverse("R4", "H4"), "WRONG_ORIGIN", "2700, 1000, 0"},
	} {
		if got := describeAll([]journal.PostResult{b.post(t, step.spec)}); got != step.want {
			t.Errorf("%s: %s, want %s", step.spec.ID, got, step.want)
		}
		if got := b.funds(t, "wallet"); got != step.wallet {
			t.Errorf("after %s the wallet has %s, want %s", step.spec.ID, got, step.wallet)
		}
	}
	for id, want := range map[string]string{
		"H0": "captured 1000 0 0 [C0]", "H1": "captured 300 700 0 [C1]", "H2": "captured 1000 0 0 [C2 C2c]", "H3": "voided 0 1000 0 [V3]",
		"H4": "open 0 0 1000 []",
	} {
		p := b.progress(t, id)
		if got := fmt.Sprint(p.Hold, " ", p.Captured, " ", p.Released, " ", p.Reserved, " ", p.Steps); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
	holds, more, err := b.OpenHolds(t.Context(), main, "shop", 0, 10)
	if err != nil || more || len(holds) != 1 || holds[0].ID != "H4" || holds[0].Progress.Reserved.String() != "1000" {
		t.Errorf("open holds of the shop: %v %v %v", holds, more, err)
	}
	// What was held then is known for ever.
	record, _, err := b.Transfer(t.Context(), main, "C1")
	if err != nil {
		t.Fatal(err)
	}
	past, err := b.BalancesAsOf(t.Context(), main, []ledger.AccountID{"wallet"}, ledger.AsOf{Sequence: &record.Sequence})
	if err != nil || past[0].Posted.String() != "3700" || past[0].Held.String() != "3000" || past[0].Available().String() != "700" {
		t.Errorf("as of C1: %v %v", past, err)
	}
	ledgertest.CheckBooks(t, b.db)
}

// A hold ends exactly once, whoever races: captures, voids and expiries, over two servers. Its accounts have no floor, so that no
// lock of theirs puts the racers in a row.
func TestHold_EndsOnce(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{ExpireEvery: -1})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	ends := map[ledger.HoldState]int{}
	for round := range storm(8, 60) {
		id, deadline := b.soon(t, fmt.Sprint("H", round), 100*time.Millisecond, func(id string) []ledger.TransferSpec {
			return []ledger.TransferSpec{hold(id, "cash", "shop", "64")}
		})
		answers := make([]journal.PostResult, 64)
		var wg sync.WaitGroup
		for i := range answers {
			j := []*journal.Journal{b.Journal, other}[i%2]
			wg.Go(func() {
				time.Sleep(time.Until(deadline) + time.Duration(rand.IntN(20)-8)*time.Millisecond)
				switch i % 4 {
				case 0:
					answers[i] = post(t, j, capture(fmt.Sprint(id, "C", i), id, ""))
				case 1:
					answers[i] = post(t, j, keepingOpen(capture(fmt.Sprint(id, "K", i), id, "1")))
				case 2:
					answers[i] = post(t, j, void(fmt.Sprint(id, "V", i), id))
				default:
					if err := j.ExpireHolds(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		ended, captured := 0, amount("0")
		for i, r := range answers {
			if i%4 == 3 {
				continue
			}
			switch got := describe(r); got {
			case "posted":
				if r.Transfer.Step.Ends {
					ended++
				}
				if r.Transfer.Kind() == ledger.Capture {
					captured = captured.Add(r.Transfer.Entries[0].Amount)
				}
			case "refused hold ended", "refused hold expired":
			default:
				t.Errorf("%s: %v", got, r.Err)
			}
		}
		p := b.progress(t, id)
		ends[p.Hold]++
		if p.Hold == ledger.HoldExpired {
			ended++
		}
		if ended != 1 || !p.Reserved.IsZero() || !p.Captured.Equal(captured) || !p.Captured.Add(p.Released).Equal(amount("64")) {
			t.Errorf("%s ended %d times, captured %s: %+v", id, ended, captured, p)
		}
	}
	t.Logf("ends: %v", ends)
	for _, id := range []ledger.AccountID{"cash", "shop"} {
		if got := b.funds(t, id); !strings.HasSuffix(got, ", 0, 0") {
			t.Errorf("%s has %s", id, got)
		}
	}
	ledgertest.CheckBooks(t, b.db)
}

// On an idle server a hold expires within two seconds of its deadline, and until then its money stays held. The seconds are counted in looks at it: where
// the machine stands still, these do too.
func TestHold_ExpiresOnAnIdleServer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.post(t, move("IN", "cash", "wallet", "100"))
	spec := hold("H", "wallet", "cash", "100")
	spec.Terms.ExpiresAfter = time.Second
	r := b.post(t, spec)
	if r.Err != nil || !r.Transfer.Step.Deadline.Equal(r.Transfer.PostedAt.Add(time.Second)) {
		t.Fatalf("%v %+v", r.Err, r.Transfer)
	}
	deadline := *r.Transfer.Step.Deadline
	const pause = 10 * time.Millisecond
	for looks := 0; b.progress(t, "H").Hold == ledger.HoldOpen; time.Sleep(pause) {
		if late := time.Since(deadline); late > 0 {
			if looks++; looks > int(2*time.Second/pause) {
				t.Fatalf("it is open %s after its deadline", late)
			}
		}
	}
	expiry, _, err := b.Transfer(t.Context(), main, journal.ExpiryID("H"))
	if err != nil || expiry.Kind() != ledger.Expiry || expiry.PostedAt.Before(deadline) {
		t.Fatalf("%v %+v, deadline %s", err, expiry, deadline)
	}
	t.Logf("expired %s after the deadline", expiry.PostedAt.Sub(deadline))
	if got := b.each(t, capture("C", "H", ""), move("OUT", "wallet", "cash", "100")); got != "HOLD_ENDED, posted" {
		t.Error(got)
	}
	// The same request again tells the same deadline.
	if again := b.post(t, spec); !again.Replayed || !again.Transfer.Step.Deadline.Equal(deadline) {
		t.Errorf("%+v", again)
	}
	ledgertest.CheckBooks(t, b.db)
}

// A capture after the deadline is refused whether or not the hold has been swept, and its money is not free before the expiry is on
// record.
func TestHold_DeadlineBeforeTheSweep(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.post(t, move("IN", "cash", "wallet", "100"))
	id, deadline := b.soon(t, "H", 300*time.Millisecond, func(id string) []ledger.TransferSpec {
		return []ledger.TransferSpec{hold(id, "wallet", "cash", "100"), keepingOpen(capture(id+"-C0", id, "1"))}
	})
	time.Sleep(time.Until(deadline) + 10*time.Millisecond)
	got := b.each(t, capture("C1", id, "1"), move("OUT", "wallet", "cash", "1"), expiring(hold("LATE", "wallet", "cash", "1"), deadline))
	if got != "HOLD_EXPIRED, INSUFFICIENT_FUNDS, HOLD_EXPIRED" {
		t.Error(got)
	}
	if err := b.ExpireHolds(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := b.each(t, capture("C1", id, "1"), capture("C2", id, "1"), move("OUT", "wallet", "cash", "1"), move("OUT2", "wallet", "cash", "99")); got !=
		"HOLD_EXPIRED, HOLD_ENDED, INSUFFICIENT_FUNDS, posted" {
		t.Error(got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Between any two steps the server may be gone, or the answer: whoever sends the step again finds it done once.
func TestHold_UnknownSteps(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		t.Run(map[bool]string{false: "failed, not applied", true: "failed, but applied"}[applied], func(t *testing.T) {
			t.Parallel()
			b := quiet(t)
			b.account(t, "cash", ledger.Asset, "BDT", nil)
			b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
			b.account(t, "shop", ledger.Liability, "BDT", nil)
			b.post(t, move("IN", "cash", "wallet", "100"))
			steps := []struct {
				specs []ledger.TransferSpec
				want  string
			}{
				{[]ledger.TransferSpec{hold("H", "wallet", "shop", "50")}, "posted"},
				{[]ledger.TransferSpec{keepingOpen(capture("C1", "H", "20"))}, "posted"},
				{[]ledger.TransferSpec{capture("CX", "H", "31")}, "CAPTURE_EXCEEDS_HOLD"},
				{[]ledger.TransferSpec{capture("C2", "H", "10")}, "posted"},
				{[]ledger.TransferSpec{refund("R1", "C1", "5", "0")}, "posted"},
				{[]ledger.TransferSpec{refund("R2", "C1", "5", "0")}, "REFUNDED_CHANGED"},
				{[]ledger.TransferSpec{refund("R3", "C1", "", "5")}, "posted"},
				{[]ledger.TransferSpec{reverse("V1", "C2")}, "posted"},
				{[]ledger.TransferSpec{reverse("V2", "C1")}, "ALREADY_REFUNDED"},
				{[]ledger.TransferSpec{hold("H2", "wallet", "shop", "7"), void("VOID", "H2")}, "posted, posted"},
				{[]ledger.TransferSpec{hold("H3", "wallet", "shop", "7"), capture("C3", "H3", ""), reverse("V3", "C3")}, "posted, posted, posted"},
			}
			for _, step := range steps {
				// A server of its own for each: nothing is remembered.
				j, _, faults := b.faulty(t, journal.Config{ExpireEvery: -1})
				if applied {
					faults.CutAfterCommit(1)
				} else {
					faults.CutBeforeCommit(1)
				}
				f := j.Post
				if len(step.specs) > 1 {
					f = j.PostAtomically
				}
				results, err := f(t.Context(), "local", main, step.specs)
				if err != nil {
					t.Fatal(err)
				}
				if got := describeAll(results); got != step.want || faults.Cuts() != 1 {
					t.Errorf("%s: %s, want %s; %d cuts", step.specs[0].ID, got, step.want, faults.Cuts())
				}
				again, err := b.Post(t.Context(), "local", main, step.specs)
				if err != nil {
					t.Fatal(err)
				}
				for i, r := range again {
					if !r.Replayed || r.Transfer.Sequence != results[i].Transfer.Sequence {
						t.Errorf("%s again: %s %v, first %s", step.specs[i].ID, describe(r), r.Err, describe(results[i]))
					}
				}
			}
			if got := b.funds(t, "wallet") + "; " + b.funds(t, "shop"); got != "100, 0, 0; 0, 0, 0" {
				t.Error(got)
			}
			ledgertest.CheckBooks(t, b.db)
		})
	}
}

// Steps of holds and refunds, from many clients over two servers whose connections are cut again and again.
func TestHold_Storm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	const each = 100
	clients := storm(12, 40)
	b.post(t, move("IN", "cash", "wallet", fmt.Sprint(each*clients)))
	one, _, f1 := b.faulty(t, journal.Config{})
	two, _, f2 := b.faulty(t, journal.Config{})
	ctx, stop := context.WithCancel(t.Context())
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for ctx.Err() == nil {
			f1.CutAfterCommit(1)
			f2.CutBeforeCommit(1)
			time.Sleep(250 * time.Millisecond)
		}
	})
	var wg sync.WaitGroup
	for c := range clients {
		j := []*journal.Journal{one, two}[c%2]
		wg.Go(func() {
			// A client asks again until it has an answer.
			ask := func(spec ledger.TransferSpec) string {
				for {
					results, err := j.Post(t.Context(), "local", main, []ledger.TransferSpec{spec})
					if err == nil && !ledger.CodeOf(results[0].Err).Retryable() {
						return describeAll(results)
					}
				}
			}
			for n := range storm(3, 12) {
				id := fmt.Sprintf("%d-%d", c, n)
				for _, step := range []ledger.TransferSpec{
					hold(id, "wallet", "shop", "100"), keepingOpen(capture(id+"a", id, "40")), capture(id+"b", id, "30"),
					refund(id+"c", id+"a", "15", "0"), refund(id+"d", id+"a", "", "15"), reverse(id+"e", id+"b"),
				} {
					if got := ask(step); got != "posted" && got != "replayed" {
						t.Errorf("%s: %s", step.ID, got)
					}
				}
			}
		})
	}
	wg.Wait()
	stop()
	cuts.Wait()
	if got, want := b.funds(t, "wallet")+"; "+b.funds(t, "shop"), fmt.Sprintf("%d, 0, 0; 0, 0, 0", each*clients); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	t.Logf("%d and %d cuts", f1.Cuts(), f2.Cuts())
	ledgertest.CheckBooks(t, b.db)
}
