package verify_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

func dec(text string) *decimal.Decimal {
	d := decimal.RequireFromString(text)
	return &d
}

func hold(id ledger.TransferID, debit, credit ledger.AccountID, amount string, terms ledger.Terms) ledger.TransferSpec {
	terms.Kind = ledger.Hold
	spec := move(id, debit, credit, amount)
	spec.Terms = &terms
	return spec
}

// capture takes an amount of a hold; "" is all that is left.
func capture(id, of ledger.TransferID, amount string, keepOpen bool) ledger.TransferSpec {
	terms := &ledger.Terms{Kind: ledger.Capture, Origin: of, KeepOpen: keepOpen}
	if amount != "" {
		terms.Amount = dec(amount)
	}
	return ledger.TransferSpec{ID: id, Terms: terms}
}

func void(id, of ledger.TransferID) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Terms: &ledger.Terms{Kind: ledger.Void, Origin: of}}
}

// refund takes an amount back; "" is the rest.
func refund(id, of ledger.TransferID, amount, expected string) ledger.TransferSpec {
	terms := &ledger.Terms{Kind: ledger.Refund, Origin: of, ExpectedRefunded: dec(expected), Reason: ledger.ReasonGoodwill}
	if amount != "" {
		terms.Amount = dec(amount)
	}
	return ledger.TransferSpec{ID: id, Terms: terms}
}

func reversal(id, of ledger.TransferID) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Terms: &ledger.Terms{Kind: ledger.Reversal, Origin: of}}
}

func balancing(id ledger.TransferID, debit, credit ledger.AccountID, amount string) ledger.TransferSpec {
	spec := move(id, debit, credit, amount)
	spec.Terms = &ledger.Terms{Kind: ledger.Plain, Balancing: true, Amount: dec(amount)}
	return spec
}

func conditional(spec ledger.TransferSpec, conditions ...ledger.Condition) ledger.TransferSpec {
	if spec.Terms == nil {
		spec.Terms = &ledger.Terms{Kind: ledger.Plain}
	}
	spec.Terms.Conditions = conditions
	return spec
}

// newMovedBooks are books with every kind of transfer and every reason of a refusal.
func newMovedBooks(t testing.TB) *books {
	t.Helper()
	b := newBooks(t)
	zero := decimal.Zero
	b.accounts(t, main,
		ledger.AccountSpec{ID: "payer", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		ledger.AccountSpec{ID: "shop", Type: ledger.Liability, Currency: "BDT"},
		ledger.AccountSpec{ID: "savings", Type: ledger.Liability, Currency: "BDT", Ceiling: dec("1000")},
		ledger.AccountSpec{ID: "counted", Type: ledger.Liability, Currency: "BDT", Serialised: true},
		ledger.AccountSpec{ID: "drawer", Type: ledger.Asset, Currency: "BDT", Floor: &zero, Ceiling: dec("100")},
	)
	effective := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	past, future := time.Now().Add(-time.Hour).UTC().Truncate(time.Second), time.Date(2999, 1, 1, 0, 0, 0, 500_000_000, time.UTC)
	b.post(t, main, "posted",
		move("M-in", "cash", "payer", "1500"), move("M-drawer", "drawer", "cash", "60"),
		// Captured in two, and the rest released; captured whole; voided; open.
		hold("H-1", "payer", "shop", "200", ledger.Terms{}), capture("C-1", "H-1", "50", true),
		dated(capture("C-2", "H-1", "60", false), effective),
		hold("H-2", "payer", "savings", "100", ledger.Terms{}), capture("C-3", "H-2", "", false),
		hold("H-3", "payer", "shop", "100", ledger.Terms{}), void("V-3", "H-3"),
		hold("H-4", "payer", "shop", "300", ledger.Terms{}), capture("C-4", "H-4", "0.50", true),
		hold("H-5", "payer", "shop", "10", ledger.Terms{ExpiresAfter: time.Second}),
		hold("H-7", "payer", "shop", "10", ledger.Terms{ExpiresAt: &future}),
		hold("H-8", "cash", "savings", "500", ledger.Terms{ExpiresAfter: 90*time.Hour + 30*time.Minute + 1500*time.Millisecond}),
		hold("H-9", "cash", "drawer", "50", ledger.Terms{}),
	)
	b.post(t, main, "INSUFFICIENT_FUNDS", move("X-held", "payer", "shop", "1200"), hold("X-hold", "payer", "shop", "1200", ledger.Terms{}),
		move("X-drawer", "cash", "drawer", "10.01"))
	b.post(t, main, "CEILING_EXCEEDED", move("X-savings", "cash", "savings", "400.01"), hold("X-savings-hold", "cash", "savings", "400.01", ledger.Terms{}),
		move("X-drawer-full", "drawer", "cash", "41"))
	b.post(t, main, "HOLD_ENDED", capture("X-ended", "H-3", "", false), void("X-ended2", "H-1"))
	b.post(t, main, "CAPTURE_EXCEEDS_HOLD", capture("X-more", "H-4", "299.51", false))
	b.post(t, main, "HOLD_EXPIRED", hold("X-past", "payer", "shop", "1", ledger.Terms{ExpiresAt: &past}))
	b.post(t, main, "ACCOUNT_FROZEN", hold("X-frozen", "frozen", "shop", "1", ledger.Terms{}))
	b.post(t, main, "ACCOUNT_CLOSED", hold("X-closed", "payer", "closed", "1", ledger.Terms{}))
	declined := move("X-declined", "cash", "payer", "1")
	declined.Declined = "cash"
	b.post(t, main, "DECLINED_BY_GATEWAY", declined)
	// Refunds and reversals.
	b.post(t, main, "posted",
		ledger.TransferSpec{ID: "P-1", Entries: []ledger.Entry{
			{Account: "payer", Direction: ledger.Debit, Amount: decimal.RequireFromString("100")},
			{Account: "shop", Direction: ledger.Credit, Amount: decimal.RequireFromString("90")},
			{Account: "fees", Direction: ledger.Credit, Amount: decimal.RequireFromString("10")},
		}},
		refund("R-1", "P-1", "33.33", "0"), refund("R-2", "P-1", "", "33.33"),
		move("P-2", "payer", "shop", "20"), reversal("V-2", "P-2"),
		move("P-3", "payer", "shop", "20"), refund("R-3", "P-3", "5", "0"), refund("R-3b", "P-3", "5", "5.00"),
		refund("R-4", "C-1", "20", "0"),
		ledger.TransferSpec{ID: "P-4", Entries: append(ledger.Simple("cash", "payer", decimal.RequireFromString("2"), ""),
			ledger.Simple("vault", "coins", decimal.RequireFromString("0.1"), "")...)},
		reversal("V-4", "P-4"),
	)
	b.post(t, main, "REFUNDED_CHANGED", refund("X-changed", "P-3", "1", "0"))
	b.post(t, main, "REFUND_EXCEEDS_REST", refund("X-rest", "P-3", "10.01", "10"), refund("X-rest2", "P-1", "", "100"))
	b.post(t, main, "ALREADY_REVERSED", refund("X-reversed", "P-2", "", "0"), reversal("X-reversed2", "P-2"))
	b.post(t, main, "ALREADY_REFUNDED", reversal("X-refunded", "P-3"))
	b.post(t, main, "posted", move("P-5", "cash", "payer", "1"), move("P-6", "cash", "counted", "70"))
	// Balancing and conditions.
	b.post(t, main, "posted", balancing("B-1", "counted", "cash", "100"), balancing("B-2", "cash", "savings", "5000"), balancing("B-3", "payer", "cash", "3"))
	b.post(t, main, "INSUFFICIENT_FUNDS", balancing("X-empty", "counted", "cash", "0.01"))
	b.post(t, main, "CEILING_EXCEEDED", balancing("X-full", "cash", "savings", "0.01"))
	b.post(t, main, "posted", conditional(move("K-1", "cash", "counted", "5"), ledger.Condition{Account: "counted", Balance: &zero}))
	b.post(t, main, "CONDITION_FAILED", conditional(move("X-condition", "cash", "counted", "5"), ledger.Condition{Account: "counted", Balance: &zero}))
	version := func() *int64 {
		balances, err := b.Balances(t.Context(), main, []ledger.AccountID{"payer"})
		if err != nil {
			t.Fatal(err)
		}
		return &balances[0].Version
	}
	b.post(t, main, "posted", conditional(hold("K-2", "payer", "shop", "5", ledger.Terms{}), ledger.Condition{Account: "payer", Version: version()}),
		hold("H-10", "payer", "shop", "1", ledger.Terms{}))
	b.post(t, main, "posted", conditional(move("K-3", "payer", "shop", "5"), ledger.Condition{Account: "payer", Version: version()}))
	b.post(t, main, "CONDITION_FAILED", conditional(hold("X-version", "payer", "shop", "5", ledger.Terms{}), ledger.Condition{Account: "payer", Version: new(int64)}))
	// Atomic calls: what their refusals were judged by is in no book.
	b.atomically(t, "", hold("A-1", "payer", "shop", "5", ledger.Terms{}), capture("A-2", "A-1", "", false), reversal("A-3", "A-2"))
	b.atomically(t, "HOLD_ENDED", hold("N-1", "payer", "shop", "5", ledger.Terms{}), capture("N-2", "N-1", "", false), void("X-atomic-ended", "N-1"))
	b.atomically(t, "INSUFFICIENT_FUNDS", balancing("N-3", "payer", "shop", "9000"), move("X-atomic-funds", "payer", "shop", "1"))
	b.atomically(t, "REFUND_EXCEEDS_REST", move("N-4", "payer", "shop", "1"), refund("X-atomic-rest", "N-4", "2", "0"))
	b.atomically(t, "ACCOUNT_CLOSED", move("N-5", "payer", "shop", "1"), move("X-atomic-closed", "payer", "closed", "1"))
	b.atomically(t, "CONDITION_FAILED", move("N-6", "payer", "shop", "1"),
		conditional(move("X-atomic-condition", "payer", "shop", "1"), ledger.Condition{Account: "payer", Version: version()}))
	time.Sleep(1100 * time.Millisecond) // H-5 is due.
	b.post(t, main, "HOLD_EXPIRED", capture("X-late", "H-5", "", false))
	b.must(t, b.ExpireHolds)
	b.post(t, main, "HOLD_ENDED", void("X-expired", "H-5"))
	// Closed periods.
	b.closePeriod(t, month(2))
	b.post(t, main, "PERIOD_CLOSED", dated(move("X-period", "cash", "payer", "1"), month(1)), dated(capture("X-period-capture", "H-4", "1", true), month(1)),
		dated(refund("X-period-refund", "P-3", "1", "10"), month(1)), dated(reversal("X-period-reversal", "P-5"), month(1)),
		dated(balancing("X-period-balancing", "payer", "cash", "1"), month(1)))
	b.atomically(t, "PERIOD_CLOSED", move("N-7", "payer", "shop", "1"), dated(move("X-atomic-period", "payer", "shop", "1"), month(1)))
	b.post(t, main, "posted", dated(move("D-1", "cash", "payer", "1"), month(2)))
	b.closePeriod(t, month(4))
	b.post(t, main, "PERIOD_CLOSED", dated(move("X-period2", "cash", "payer", "1"), month(3)))
	b.reopenPeriod(t, month(3), "a late invoice")
	b.post(t, main, "PERIOD_CLOSED", dated(move("X-period2", "cash", "payer", "1"), month(3)), dated(move("X-period3", "cash", "payer", "1"), month(2)))
	b.post(t, main, "posted", dated(move("D-2", "cash", "payer", "1"), month(3)), hold("H-11", "cash", "shop", "1", ledger.Terms{}),
		dated(capture("D-3", "H-11", "", false), month(3)))
	return b
}

// month is the first moment of a month of 2025.
func month(n time.Month) time.Time { return time.Date(2025, n, 1, 0, 0, 0, 0, time.UTC) }

func dated(spec ledger.TransferSpec, at time.Time) ledger.TransferSpec {
	spec.EffectiveAt = &at
	return spec
}

func (b *books) closePeriod(t testing.TB, before time.Time) {
	t.Helper()
	b.must(t, func(ctx context.Context) error {
		_, _, err := b.ClosePeriod(ctx, "finance", main, ledger.PeriodClose{Before: before})
		return err
	})
}

func (b *books) reopenPeriod(t testing.TB, before time.Time, reason string) {
	t.Helper()
	b.must(t, func(ctx context.Context) error {
		_, _, err := b.ReopenPeriod(ctx, "boss", main, ledger.PeriodReopen{Before: &before, Reason: reason})
		return err
	})
}

// atomically posts an atomic call, which is posted, or of which the last transfer is refused.
func (b *books) atomically(t testing.TB, reason ledger.Code, specs ...ledger.TransferSpec) {
	t.Helper()
	results, err := b.PostAtomically(t.Context(), "local", main, specs)
	if err != nil {
		t.Fatal(err)
	}
	last := results[len(results)-1]
	switch {
	case last.Err != nil:
		t.Fatal(last.Err)
	case reason == "" && last.Transfer.Refusal != nil, reason != "" && (last.Transfer.Refusal == nil || last.Transfer.Refusal.Reason != reason):
		t.Fatalf("%s: %+v, want %q", last.Transfer.ID, last.Transfer.Refusal, reason)
	}
}

func TestRun_MovedBooks(t *testing.T) {
	t.Parallel()
	b := newMovedBooks(t)
	report := run(t, b.db.ServiceDSN())
	if !report.OK() {
		var out strings.Builder
		_ = report.Write(&out)
		t.Errorf("%s", out.String())
	}
	// The books have what they promise.
	conn, err := pgx.Connect(t.Context(), b.db.ServiceDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	count := func(sql string) (n int64) {
		t.Helper()
		if err := conn.QueryRow(t.Context(), sql).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, reason := range ledger.Reasons() {
		if n := count("SELECT count(*) FROM transfer WHERE refusal = '" + string(reason) + "'"); n == 0 {
			t.Errorf("nothing was refused for %s", reason)
		}
	}
	for _, kind := range []ledger.Kind{ledger.Hold, ledger.Capture, ledger.Void, ledger.Expiry, ledger.Refund, ledger.Reversal} {
		if n := count("SELECT count(*) FROM transfer WHERE refusal IS NULL AND kind = '" + string(kind) + "'"); n == 0 {
			t.Errorf("there is no %s", kind)
		}
	}
	for _, c := range report.Checks {
		switch c.Name {
		case "holds", "refunds", "conditions", "refusals", "ceilings", "closed-period":
			if c.Checked < 4 {
				t.Errorf("%s checked %d", c.Name, c.Checked)
			}
		}
	}
}

// The widest terms that a request can have are read back, and are no breach.
func TestRun_ExtremeTerms(t *testing.T) {
	t.Parallel()
	b := newMovedBooks(t)
	greatest, zero := int64(math.MaxInt64), decimal.RequireFromString("0e5")
	fine, big := decimal.New(1, -2), decimal.New(1, 37)
	b.post(t, main, "CONDITION_FAILED", conditional(move("S-1", "cash", "counted", "5"), ledger.Condition{Account: "counted", Version: &greatest}),
		conditional(move("S-2", "cash", "counted", "5"), ledger.Condition{Account: "counted", Balance: &big}))
	b.post(t, main, "ACCOUNT_CLOSED", conditional(move("S-3", "closed", "counted", "5"), ledger.Condition{Account: "counted", Balance: &fine}))
	first, last := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC)
	b.post(t, main, "posted", hold("S-4", "cash", "shop", "5", ledger.Terms{ExpiresAfter: ledger.MaxHold}),
		hold("S-5", "cash", "shop", "5", ledger.Terms{ExpiresAfter: time.Minute + time.Second + time.Microsecond}),
		hold("S-6", "cash", "shop", "5", ledger.Terms{ExpiresAt: &last}))
	b.post(t, main, "HOLD_EXPIRED", hold("S-7", "cash", "shop", "5", ledger.Terms{ExpiresAt: &first}))
	nothing := refund("S-8", "P-5", "1", "0")
	nothing.Terms.ExpectedRefunded = &zero
	b.post(t, main, "posted", nothing)
	if _, all := breaches(run(t, b.db.ServiceDSN())); all != "" {
		t.Error(all)
	}
}

// A race of everything with everything, seen while it goes on.
func TestRun_WhileMoving(t *testing.T) {
	t.Parallel()
	b := newMovedBooks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ctx.Err() == nil; i++ {
			id := func(what string) ledger.TransferID { return ledger.TransferID(fmt.Sprintf("%s-%d", what, i)) }
			if _, err := b.Post(t.Context(), "local", main, []ledger.TransferSpec{
				move(id("w-in"), "cash", "payer", "3"), hold(id("w-h"), "payer", "shop", "4", ledger.Terms{}), capture(id("w-c"), id("w-h"), "1", i%2 == 0),
				void(id("w-v"), id("w-h")), refund(id("w-r"), id("w-c"), "0.50", "0"), balancing(id("w-b"), "payer", "cash", "2"),
				reversal(id("w-x"), id("w-in")), hold(id("w-o"), "cash", "savings", "1", ledger.Terms{}),
			}); err != nil {
				t.Error(err)
			}
		}
	}()
	for ctx.Err() == nil {
		if report := run(t, b.db.ServiceDSN()); !report.OK() {
			t.Errorf("%+v", report)
			break
		}
	}
	cancel()
	<-done
	if report := run(t, b.db.ServiceDSN()); !report.OK() {
		t.Errorf("in the end: %+v", report)
	}
}

// breaches counts those of a report by check, and lists them.
func breaches(report verify.Report) (counts map[string]int64, all string) {
	counts = map[string]int64{}
	var lines []string
	for _, check := range report.Checks {
		if check.Breached > 0 {
			counts[check.Name] = check.Breached
		}
		for _, breach := range check.Breaches {
			lines = append(lines, check.Name+": "+breach.String())
		}
	}
	return counts, strings.Join(lines, "\n")
}
