package journal_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// month is the first moment of a month of 2025, by the clocks of Dhaka.
func month(n time.Month) time.Time {
	return time.Date(2025, n, 1, 0, 0, 0, 0, time.FixedZone("", 6*3600)).UTC()
}

func dated(spec ledger.TransferSpec, at time.Time) ledger.TransferSpec {
	spec.EffectiveAt = &at
	return spec
}

func (b *bench) closePeriod(t testing.TB, before time.Time) ledger.PeriodChange {
	t.Helper()
	change, replayed, err := b.ClosePeriod(t.Context(), "finance", main, ledger.PeriodClose{Before: before, Zone: "Asia/Dhaka"})
	if err != nil || replayed {
		t.Fatalf("close before %s: %+v, replayed %t, %v", before, change, replayed, err)
	}
	return change
}

func (b *bench) reopenPeriod(t testing.TB, before *time.Time) *ledger.PeriodChange {
	t.Helper()
	spec := ledger.PeriodReopen{Before: before, Everything: before == nil, Reason: "a late invoice"}
	change, replayed, err := b.ReopenPeriod(t.Context(), "boss", main, spec)
	if err != nil || replayed {
		t.Fatalf("reopen from %v: %+v, replayed %t, %v", before, change, replayed, err)
	}
	return change
}

// Press once or ten times: only what changes something is written, and who did it when stays on record.
func TestClosePeriod_Record(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	ctx := t.Context()
	// Nothing was ever closed.
	change, replayed, err := b.ReopenPeriod(ctx, "boss", main, ledger.PeriodReopen{Everything: true, Reason: "x"})
	if change != nil || !replayed || err != nil {
		t.Errorf("opened what was open: %+v %t %v", change, replayed, err)
	}
	if list, err := b.PeriodChanges(ctx, main, 0, 10); len(list) != 0 || err != nil {
		t.Errorf("%+v %v", list, err)
	}
	before := b.post(t, move("A", "cash", "wallet", "100")).Transfer
	january := ledger.PeriodClose{Before: month(2), Zone: "Asia/Dhaka", Reason: "January"}
	first, replayed, err := b.ClosePeriod(ctx, "finance", main, january)
	after := b.post(t, move("B", "cash", "wallet", "100")).Transfer
	want := ledger.PeriodChange{
		Sequence: first.Sequence, ClosedBefore: &january.Before, Zone: "Asia/Dhaka", Reason: "January", Caller: "finance",
		ChangedAt: first.ChangedAt,
	}
	if diff := cmp.Diff(want, first); diff != "" || replayed || err != nil {
		t.Errorf("closed (-want +got): %s, replayed %t, %v", diff, replayed, err)
	}
	if first.Sequence <= before.Sequence || first.Sequence >= after.Sequence ||
		first.ChangedAt.Before(before.PostedAt) || first.ChangedAt.After(after.PostedAt) {
		t.Errorf("%d at %s is not between %d at %s and %d at %s", first.Sequence, first.ChangedAt, before.Sequence, before.PostedAt,
			after.Sequence, after.PostedAt)
	}
	// The same again, by whomever; what is closed already; and what is open already.
	earlier, later := month(1), month(3)
	for i, again := range []func() (*ledger.PeriodChange, bool, error){
		func() (*ledger.PeriodChange, bool, error) {
			c, replayed, err := b.ClosePeriod(ctx, "somebody", main, ledger.PeriodClose{Before: month(2)})
			return &c, replayed, err
		},
		func() (*ledger.PeriodChange, bool, error) {
			c, replayed, err := b.ClosePeriod(ctx, "finance", main, ledger.PeriodClose{Before: earlier})
			return &c, replayed, err
		},
		func() (*ledger.PeriodChange, bool, error) {
			return b.ReopenPeriod(ctx, "boss", main, ledger.PeriodReopen{Before: &january.Before, Reason: "x"})
		},
		func() (*ledger.PeriodChange, bool, error) {
			return b.ReopenPeriod(ctx, "boss", main, ledger.PeriodReopen{Before: &later, Reason: "x"})
		},
	} {
		for range 10 {
			change, replayed, err := again()
			if err != nil || !replayed || !cmp.Equal(*change, first) {
				t.Fatalf("%d: %+v, replayed %t, %v", i, change, replayed, err)
			}
		}
	}
	second := b.closePeriod(t, month(4))
	third := b.reopenPeriod(t, &later)
	fourth := b.reopenPeriod(t, nil)
	fifth := b.closePeriod(t, month(2))
	if !third.Reopens() || !fourth.Reopens() || first.Reopens() || second.Reopens() || fifth.Reopens() {
		t.Error("not those that open are said to open")
	}
	if fourth.ClosedBefore != nil || fourth.Zone != "UTC" || fourth.Reason != "a late invoice" || fourth.Caller != "boss" || fifth.Previous != nil ||
		!third.Previous.Equal(month(4)) || !fourth.Previous.Equal(later) || !second.Previous.Equal(month(2)) {
		t.Errorf("second %+v, third %+v, fourth %+v, fifth %+v", second, third, fourth, fifth)
	}
	all := []ledger.PeriodChange{fifth, *fourth, *third, second, first}
	list, err := b.PeriodChanges(ctx, main, 0, 10)
	if diff := cmp.Diff(all, list); diff != "" || err != nil {
		t.Errorf("listed (-want +got): %s %v", diff, err)
	}
	if list, err = b.PeriodChanges(ctx, main, fourth.Sequence, 2); err != nil || !cmp.Equal(list, all[2:4]) {
		t.Errorf("the next page: %+v %v", list, err)
	}
	if _, err := b.CreateLedger(ctx, "local", "other"); err != nil {
		t.Fatal(err)
	}
	if list, err = b.PeriodChanges(ctx, "other", 0, 10); err != nil || len(list) != 0 {
		t.Errorf("of another ledger: %+v %v", list, err)
	}
	ledgertest.CheckBooks(t, b.db)
}

func TestClosePeriod_Malformed(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	ctx := t.Context()
	day, future := month(2), time.Now().Add(time.Hour).Truncate(time.Microsecond)
	for name, c := range map[string]struct {
		do   func() error
		want string
	}{
		"what is not over": {func() error {
			_, _, err := b.ClosePeriod(ctx, "finance", main, ledger.PeriodClose{Before: future})
			return err
		}, "INVALID_ARGUMENT closed_before"},
		"no time": {func() error {
			_, _, err := b.ClosePeriod(ctx, "finance", main, ledger.PeriodClose{})
			return err
		}, "INVALID_ARGUMENT closed_before"},
		"no zone": {func() error {
			_, _, err := b.ClosePeriod(ctx, "finance", main, ledger.PeriodClose{Before: day, Zone: "Asia/Atlantis"})
			return err
		}, "INVALID_ARGUMENT zone"},
		"the machine's zone": {func() error {
			_, _, err := b.ReopenPeriod(ctx, "finance", main, ledger.PeriodReopen{Before: &day, Zone: "Local", Reason: "x"})
			return err
		}, "INVALID_ARGUMENT zone"},
		"no reason": {func() error {
			_, _, err := b.ReopenPeriod(ctx, "finance", main, ledger.PeriodReopen{Before: &day})
			return err
		}, "INVALID_ARGUMENT reason"},
		"no ledger": {func() error {
			_, _, err := b.ClosePeriod(ctx, "finance", "nowhere", ledger.PeriodClose{Before: day})
			return err
		}, "LEDGER_NOT_FOUND "},
		"no ledger to open": {func() error {
			_, _, err := b.ReopenPeriod(ctx, "finance", "nowhere", ledger.PeriodReopen{Before: &day, Reason: "x"})
			return err
		}, "LEDGER_NOT_FOUND "},
		"no ledger to list": {func() error {
			_, err := b.PeriodChanges(ctx, "nowhere", 0, 1)
			return err
		}, "LEDGER_NOT_FOUND "},
	} {
		var typed *ledger.Error
		err := c.do()
		if !errors.As(err, &typed) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := string(typed.Code) + " "
		if len(typed.Violations) > 0 {
			got += typed.Violations[0].Field
		}
		if got != c.want {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	// A moment ago will do.
	now := read[time.Time](t, b.raw(t), "SELECT clock_timestamp()")
	b.closePeriod(t, now)
}

// Every kind that can have a value date is refused in a closed period, and stays so when it is opened again.
func TestClosePeriod_Refusals(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	if _, err := b.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateAccounts(t.Context(), "local", "other", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "shop", Type: ledger.Liability, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	part, zero := amount("5"), amount("0")
	hold := move("H", "wallet", "shop", "50")
	hold.Terms = &ledger.Terms{Kind: ledger.Hold}
	step := func(id string, kind ledger.Kind, origin ledger.TransferID) ledger.TransferSpec {
		spec := ledger.TransferSpec{ID: ledger.TransferID(id), Terms: &ledger.Terms{Kind: kind, Origin: origin}}
		if kind == ledger.Capture || kind == ledger.Refund {
			spec.Terms.Amount = &part
		}
		if kind == ledger.Refund {
			spec.Terms.ExpectedRefunded, spec.Terms.Reason = &zero, ledger.ReasonGoodwill
		}
		return spec
	}
	all := func(suffix string, at time.Time) []ledger.TransferSpec {
		capture := step("capture"+suffix, ledger.Capture, "H")
		capture.Terms.KeepOpen = true
		specs := []ledger.TransferSpec{
			move("plain"+suffix, "cash", "wallet", "1"), move("floored"+suffix, "wallet", "cash", "1"), capture,
			step("refund"+suffix, ledger.Refund, ledger.TransferID("paid"+suffix)), step("reversal"+suffix, ledger.Reversal, ledger.TransferID("back"+suffix)),
		}
		for i := range specs {
			specs[i] = dated(specs[i], at)
		}
		return specs
	}
	post := func(j *journal.Journal, specs []ledger.TransferSpec) (told, refused string) {
		t.Helper()
		results, err := j.Post(t.Context(), "local", main, specs)
		if err != nil {
			t.Fatal(err)
		}
		replayed := 0
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
			if r.Replayed {
				replayed++
			}
		}
		return fmt.Sprint(describeAll(results), " ", replayed), string(results[0].Transfer.ID)
	}
	b.post(t, move("IN", "cash", "wallet", "1000"))
	b.post(t, hold)
	for _, suffix := range []string{"-1", "-2", "-3"} {
		b.post(t, dated(move("paid"+suffix, "wallet", "shop", "20"), month(1)))
		b.post(t, dated(move("back"+suffix, "wallet", "shop", "20"), month(1)))
	}
	late := month(2).Add(-time.Microsecond)
	const posted, refused = "posted, posted, posted, posted, posted", "PERIOD_CLOSED, PERIOD_CLOSED, PERIOD_CLOSED, PERIOD_CLOSED, PERIOD_CLOSED"
	b.closePeriod(t, month(2))
	for want, specs := range map[string][]ledger.TransferSpec{refused + " 0": all("-1", late), posted + " 0": all("-2", month(2))} {
		if got, id := post(b.Journal, specs); got != want {
			t.Errorf("%s and others: %s, want %s", id, got, want)
		}
	}
	// What was refused has moved nothing. There were 1000 less six times 20; the others have moved 1 - 1 - 5 + 5 + 20.
	if got := b.balance(t, "wallet"); got != "900.00" {
		t.Errorf("the wallet has %s", got)
	}
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.reopenPeriod(t, nil)
	for _, j := range []*journal.Journal{b.Journal, other} {
		if got, _ := post(j, all("-1", late)); got != refused+" 5" {
			t.Errorf("again, when it is open: %s", got)
		}
		record, _, err := j.Transfer(t.Context(), main, "plain-1")
		if err != nil || record.Refusal == nil || *record.Refusal != (ledger.Refusal{Reason: ledger.CodePeriodClosed}) || !record.EffectiveAt.Equal(late) {
			t.Errorf("the record: %+v %v", record, err)
		}
	}
	if got, _ := post(b.Journal, all("-3", late)); got != posted+" 0" {
		t.Errorf("under new ids, when it is open: %s", got)
	}
	// Without a value date, and in another ledger, nobody is concerned.
	b.closePeriod(t, time.Now().Add(-time.Minute).Truncate(time.Microsecond))
	if got := describe(b.post(t, move("undated", "cash", "wallet", "1"))); got != "posted" {
		t.Error(got)
	}
	results, err := b.Post(t.Context(), "local", "other", []ledger.TransferSpec{dated(move("elsewhere", "cash", "shop", "1"), late)})
	if err != nil || describe(results[0]) != "posted" {
		t.Errorf("%v %v", results, err)
	}
	// Nor does an atomic call post a part.
	results, err = b.PostAtomically(t.Context(), "local", main, []ledger.TransferSpec{
		move("atomic-1", "cash", "wallet", "1"), dated(move("atomic-2", "cash", "wallet", "1"), late),
	})
	if err != nil || describeAll(results) != "ATOMIC_CALL_REFUSED, PERIOD_CLOSED" || !results[1].Transfer.Atomic {
		t.Errorf("%s %v", describeAll(results), err)
	}
	ledgertest.CheckBooks(t, b.db)
}

// insertDated is insertMove with a value date.
func insertDated(id, at string, sequence ...string) string {
	return strings.NewReplacer("caller)", "caller, effective_at)", "'local' FROM", "'local', '"+at+"'::timestamptz FROM").
		Replace(insertMove(id, "cash", "shop", "5", sequence...))
}

func insertClosing(before string) string {
	return "INSERT INTO period_change (ledger_id, closed_before, reason, changed_by) VALUES (1, " + before + ", 'by hand', 'psql')"
}

// Rule: how far the books are closed is read behind the gate, and whoever closes them waits for those who hold it.
func TestRules_ClosingIsReadBehindTheGate(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	hand, watcher := b.raw(t), b.raw(t)
	hand.do(t, "BEGIN", gateAlone, insertClosing("'2025-02-01'"))
	late := postAsync(b.Journal, dated(move("LATE", "cash", "shop", "5"), month(1)), dated(move("OPEN", "cash", "shop", "5"), month(3)))
	watcher.awaitJournalBlocked(t, 1)
	hand.do(t, "COMMIT")
	if got := describeAll(result(t, late)); got != "PERIOD_CLOSED, posted" {
		t.Errorf("posted while it was being closed: %s", got)
	}
	// The other way round: what is under way comes before the closing, and has a lower number.
	hand.do(t, "BEGIN", gateShare, insertDated("EARLY", "2025-02-15"))
	closing := start(func() ledger.PeriodChange {
		change, _, err := b.ClosePeriod(context.Background(), "finance", main, ledger.PeriodClose{Before: month(3)})
		if err != nil {
			t.Error(err)
		}
		return change
	})
	watcher.awaitJournalBlocked(t, 1)
	pending(t, closing)
	hand.do(t, "COMMIT")
	change := result(t, closing)
	if early := read[int64](t, watcher, "SELECT sequence FROM transfer WHERE transfer_id = 'EARLY'"); early >= change.Sequence {
		t.Errorf("posted before it was closed at %d, under number %d", change.Sequence, early)
	}
	ledgertest.CheckBooks(t, b.db)
}

// By hand nobody posts in a closed period either, whatever was closed or opened between the moment in which a statement draws its
// number and the one in which the guards see it.
func TestGuards_ClosedPeriod(t *testing.T) {
	t.Parallel()
	const closed, readCommitted = "23514 transfer_period_closed", "23514 transfer_read_committed"
	b := setupShop(t)
	if _, err := b.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	if err := script(guardConn(t, b.db.OwnerDSN(), ""), insertDated("OPEN", "2025-01-15")); err != nil {
		t.Fatalf("before anything is closed: %v", err)
	}
	b.closePeriod(t, month(2))
	for name, dsn := range map[string]string{
		"service": b.db.ServiceDSN(), "owner": b.db.OwnerDSN(), "superuser": b.db.SuperDSN(), "replica": b.db.SuperDSN(),
	} {
		conn := guardConn(t, dsn, "")
		if name == "replica" {
			if err := script(conn, "SET session_replication_role = replica"); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct{ want, sql string }{
			{closed, insertDated("X", "2025-01-31T17:59:59.999999Z")},
			{closed, insertDated("X", "0001-01-01T00:00:00Z")},
			// Among others that are right, before and after it.
			{closed, insertDated("A", "2025-05-01") + ` UNION ALL SELECT 1, 'X', array_agg(account_no), '{1,-1}', 'psql', '2025-01-01'
				FROM account WHERE account_id IN ('cash', 'shop')`},
			{closed, insertDated("A", "2025-05-01") + "; " + insertDated("X", "2025-01-01") + "; " + insertDated("B", "2025-05-01")},
			{closed, insertMove("A", "cash", "shop", "1") + "; " + insertDated("X", "2025-01-01")},
			// A statement that is older than the closing, for all that it can see.
			{readCommitted, "BEGIN ISOLATION LEVEL REPEATABLE READ; " + insertDated("X", "2025-05-01")},
			{readCommitted, "BEGIN ISOLATION LEVEL SERIALIZABLE; " + insertDated("X", "2025-01-01")},
			// Without a value date any will do.
			{"accepted", "BEGIN ISOLATION LEVEL SERIALIZABLE; " + insertMove("X", "cash", "shop", "1") + "; ROLLBACK"},
			{"accepted", "BEGIN; " + insertDated("X", "2025-01-31T18:00:00Z") + "; ROLLBACK"},
			// A refusal takes effect at no time, and names no account.
			{"accepted", "BEGIN; " + strings.NewReplacer("effective_at)", "effective_at, refusal)", "::timestamptz", "::timestamptz, 'PERIOD_CLOSED'").
				Replace(insertDated("X", "2025-01-01")) + "; ROLLBACK"},
			{"23514 transfer_refusal_check", strings.NewReplacer("caller)", "caller, refusal, refused_account_no)",
				"'local' FROM", "'local', 'PERIOD_CLOSED', d.account_no FROM").Replace(insertMove("X", "cash", "shop", "1"))},

			{"23514 period_change_closed_before_check", insertClosing("clock_timestamp() + interval '1 minute'")},
			{"23514 period_change_closed_before_check", insertClosing("'infinity'")},
			{"23514 period_change_closed_before_check", insertClosing("'-infinity'")},
			{"23514 period_change_closed_before_check", insertClosing("'0001-12-31 BC'")},
			{"23514 period_change_reason_check", strings.Replace(insertClosing("'2025-01-01'"), "by hand", " ", 1)},
			{"23514 period_change_reason_check", strings.Replace(insertClosing("NULL"), "by hand", "", 1)},
			{"23514 period_change_read_committed", "BEGIN ISOLATION LEVEL REPEATABLE READ; " + insertClosing("'2025-03-01'")},
			{denied, "UPDATE period_change SET reason = 'another'"},
			{denied, "UPDATE period_change SET closed_before = NULL WHERE false"},
			{denied, "DELETE FROM period_change"},
			{denied, "TRUNCATE period_change"},
			{denied, insertClosing("'2025-03-01'") + " ON CONFLICT (ledger_id, sequence) DO UPDATE SET reason = 'another'"},
			{"accepted", "BEGIN; " + strings.Replace(insertClosing("'2025-01-01'"), "VALUES (1", "VALUES (2", 1) + "; ROLLBACK"},
			{"accepted", "BEGIN; " + insertClosing("NULL") + "; " + insertDated("X", "2025-01-01") + "; ROLLBACK"},
			{"accepted", "BEGIN; " + insertDated("X", "2025-02-15") + "; " + insertClosing("'2025-03-01'") + "; ROLLBACK"},
			{closed, "BEGIN; " + insertClosing("'2025-03-01'") + "; " + insertDated("X", "2025-02-15") + "; COMMIT"},
		} {
			if got := refusedWith(script(conn, c.sql)); got != c.want {
				t.Errorf("%s: %s, want %s: %s", name, got, c.want, c.sql)
			}
			if err := script(conn, "ROLLBACK"); err != nil {
				t.Fatal(err)
			}
		}
	}
	ledgertest.CheckBooks(t, b.db)
}

// A hand's statement draws its numbers before it has the gate. What is closed or opened meanwhile has a higher number, and is there when the
// guards look: neither may put a transfer into a period that is closed by one of the two.
func TestGuards_ClosedWhileInserting(t *testing.T) {
	t.Parallel()
	january := month(2).Add(-time.Hour)
	// Guards that look at less.
	onlyOwn := pgtest.Mutate("transfer_write_entries", "AND p.sequence >= coalesce", "AND p.sequence < n.first AND p.sequence >= coalesce")
	onlyLast := pgtest.Mutate("transfer_write_entries", "AND q.sequence < n.first", "AND q.sequence < 9223372036854775807")
	for _, c := range []struct {
		name   string
		first  func(*bench, testing.TB)
		then   func(*bench, testing.TB)
		want   string
		broken string // lets it through
	}{
		{"closed", nil, func(b *bench, t testing.TB) { b.closePeriod(t, month(2)) }, "23514 transfer_period_closed", onlyOwn},
		{
			"opened", func(b *bench, t testing.TB) { b.closePeriod(t, month(2)) },
			func(b *bench, t testing.TB) { b.reopenPeriod(t, nil) }, "23514 transfer_period_closed", onlyLast,
		},
		{
			"closed and opened again", nil, func(b *bench, t testing.TB) {
				b.closePeriod(t, month(2))
				b.reopenPeriod(t, nil)
			}, "23514 transfer_period_closed", onlyLast,
		},
		{"closed before", nil, func(b *bench, t testing.TB) { b.closePeriod(t, january) }, "accepted", ""},
		{
			"closed and opened earlier", func(b *bench, t testing.TB) {
				b.closePeriod(t, month(2))
				b.reopenPeriod(t, nil)
			}, func(b *bench, t testing.TB) { b.closePeriod(t, january) }, "accepted", "",
		},
	} {
		for _, broken := range []bool{false, true} {
			if broken && c.broken == "" {
				continue
			}
			t.Run(fmt.Sprintf("%s/broken %v", c.name, broken), func(t *testing.T) {
				t.Parallel()
				b := setupShop(t)
				hand, brake, watcher := rawAs(t, b.db.SuperDSN()), b.raw(t), b.raw(t)
				if broken {
					hand.do(t, c.broken)
				}
				if c.first != nil {
					c.first(b, t)
				}
				brake.do(t, "BEGIN", "SELECT pg_advisory_xact_lock(99)")
				slow := strings.Replace(insertDated("SLOW", january.Format(time.RFC3339), "nextval('journal_sequence')"), "'local'",
					"CASE WHEN pg_advisory_xact_lock(99)::text = '' THEN 'local' END", 1)
				inserted := start(func() error { _, err := hand.Exec(context.Background(), slow); return err })
				watcher.awaitBlocked(t, hand.pid)
				c.then(b, t)
				pending(t, inserted)
				brake.do(t, "COMMIT")
				switch got := refusedWith(result(t, inserted)); {
				case broken && got != "accepted":
					t.Errorf("without the guard it is %s, and so proves nothing", got)
				case !broken && got != c.want:
					t.Errorf("%s, want %s", got, c.want)
				case !broken:
					ledgertest.CheckBooks(t, b.db)
				}
			})
		}
	}
}

// A period cannot be closed by hand while transfers of its ledger are under way: nobody who posts waits behind that.
func TestGuards_ClosingBesidePosters(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	poster, hand := b.raw(t), b.raw(t)
	poster.do(t, "BEGIN", gateShare)
	if got := refusedWith(script(hand.Conn, insertClosing("'2025-02-01'"))); got != "55P03" {
		t.Errorf("beside a poster: %s", got)
	}
	poster.do(t, "COMMIT")
	hand.do(t, "BEGIN", insertClosing("'2025-02-01'"))
	posting := postAsync(b.Journal, move("A", "cash", "shop", "1"))
	b.raw(t).awaitJournalBlocked(t, 1)
	pending(t, posting)
	hand.do(t, "ROLLBACK")
	if got := describeAll(result(t, posting)); got != "posted" {
		t.Error(got)
	}
}

// closingUnderFire has many post with value dates around those that somebody closes and opens meanwhile: two servers, and hands.
func closingUnderFire(t *testing.T, posters, rounds int) {
	b := setupShop(t)
	second, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	b.post(t, move("IN", "cash", "wallet", "100000"))
	var posting sync.WaitGroup
	var done atomic.Bool
	for w := range posters {
		j := []*journal.Journal{b.Journal, second}[w%2]
		posting.Go(func() {
			for i := 0; !done.Load(); i++ {
				id := func(k int) string { return fmt.Sprintf("t-%d-%d-%d", w, i, k) }
				var specs []ledger.TransferSpec
				for k := range 6 {
					specs = append(specs, dated(move(id(k), []ledger.AccountID{"cash", "wallet"}[k%2], "shop", "1"), month(time.Month(1+(i+5*k)%12))))
				}
				specs = append(specs, move(id(6), "cash", "shop", "1"))
				post := j.Post
				if i%4 == 3 {
					post = j.PostAtomically
				}
				results, err := post(context.Background(), "local", main, specs)
				if err != nil {
					t.Error(err)
					return
				}
				for _, r := range results {
					if code := ledger.CodeOf(r.Err); code != "" && code != ledger.CodeAtomicCallRefused {
						t.Error(r.Err)
					}
				}
			}
		})
	}
	hand := guardConn(t, b.db.OwnerDSN(), "")
	posting.Go(func() {
		for i := 0; !done.Load(); i++ {
			err := script(hand, insertDated(fmt.Sprintf("hand-%d", i), month(time.Month(1+i%12)).Format(time.RFC3339)))
			if got := refusedWith(err); got != "accepted" && got != "23514 transfer_period_closed" {
				t.Error(err)
			}
		}
	})
	for i := range rounds {
		for n := time.Month(2); n <= 12; n++ {
			b.closePeriod(t, month(n))
			if n%5 == 0 {
				back := month(n - 2)
				b.reopenPeriod(t, &back)
			}
		}
		if i < rounds-1 {
			b.reopenPeriod(t, nil)
		}
	}
	time.Sleep(50 * time.Millisecond)
	done.Store(true)
	posting.Wait()
	list, err := b.PeriodChanges(t.Context(), main, 0, journal.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	// Each change against all that came after it, until the next one.
	next := int64(1) << 62
	for _, change := range list {
		closedBefore := month(1).AddDate(-1, 0, 0)
		if change.ClosedBefore != nil {
			closedBefore = *change.ClosedBefore
		}
		var wrong []string
		err := b.pool.QueryRow(t.Context(), `SELECT coalesce(array_agg(transfer_id), '{}') FROM transfer WHERE effective_at IS NOT NULL
			AND sequence > $1 AND sequence < $2 AND (effective_at < $3) <> (refusal IS NOT DISTINCT FROM 'PERIOD_CLOSED')
			-- Of an atomic call another one may be the culprit.
			AND NOT (refusal IS NOT NULL AND atomic)`, change.Sequence, next, closedBefore).Scan(&wrong)
		if err != nil || len(wrong) > 0 {
			t.Errorf("between %d and %d, closed before %s: %v %v", change.Sequence, next, closedBefore, wrong, err)
		}
		next = change.Sequence
	}
	var posted, refused, before int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FILTER (WHERE refusal IS NULL), count(*) FILTER (WHERE refusal = 'PERIOD_CLOSED'),
		count(*) FILTER (WHERE refusal IS NULL AND effective_at < (SELECT max(closed_before) FROM period_change))
		FROM transfer WHERE effective_at IS NOT NULL`).Scan(&posted, &refused, &before); err != nil {
		t.Fatal(err)
	}
	if posted < 20 || refused < 20 || before < 20 {
		t.Errorf("hardly anything was going on: %d posted, %d refused, %d of those posted are closed by now", posted, refused, before)
	}
	t.Logf("%d changes, %d posted, %d refused, %d of those posted are closed by now", len(list), posted, refused, before)
	ledgertest.CheckBooks(t, b.db)
}

func TestRules_ClosingRacesWithPosts(t *testing.T) {
	t.Parallel()
	closingUnderFire(t, 6, storm(2, 20))
}
