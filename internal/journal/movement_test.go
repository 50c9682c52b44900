package journal_test

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/khata-ledger/khata/db"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// wide makes a transfer of a thousand entries, a thousand to each account but the payer.
func (b *bench) wide(t *testing.T, id string) ledger.TransferSpec {
	t.Helper()
	specs := []ledger.AccountSpec{{ID: "payer", Type: ledger.Asset, Currency: "BDT"}}
	entries := []ledger.Entry{{Account: "payer", Direction: ledger.Debit, Amount: amount("999000")}}
	for i := range 999 {
		account := ledger.AccountID(fmt.Sprint("payee", i))
		specs = append(specs, ledger.AccountSpec{ID: account, Type: ledger.Liability, Currency: "BDT"})
		entries = append(entries, ledger.Entry{Account: account, Direction: ledger.Credit, Amount: amount("1000")})
	}
	if _, err := b.CreateAccounts(t.Context(), "local", main, specs); err != nil {
		t.Fatal(err)
	}
	return ledger.TransferSpec{ID: ledger.TransferID(id), Entries: entries}
}

// A step has the entries of its origin also where that is in the same call: a batch has 5,000 at most, and not a million.
func TestMovement_EntriesOfStepsInTheSameCall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		n    int
	}{{"atomic", 999}, {"each by itself", 150}} {
		t.Run(c.name, func(t *testing.T) {
			b := setupShop(t)
			specs := []ledger.TransferSpec{b.wide(t, "WIDE")}
			for i := range c.n {
				specs = append(specs, refund(fmt.Sprint("R", i), "WIDE", "999", fmt.Sprint(999*i)))
			}
			post := b.Post
			if c.name == "atomic" {
				post = b.PostAtomically
			}
			began := time.Now()
			results, err := post(t.Context(), "local", main, specs)
			took := time.Since(began)
			switch {
			case c.name == "atomic" && ledger.CodeOf(err) == ledger.CodeInvalidArgument:
			case err != nil:
				t.Error(err)
			default:
				if got := describe(results[0]); got != "posted" {
					t.Errorf("after %s: %s %v", took, got, results[0].Err)
				}
			}
			largest := read[int](t, b.raw(t), "SELECT coalesce(max(n), 0) FROM (SELECT count(*) AS n FROM entry e JOIN transfer t USING (ledger_id, sequence) GROUP BY t.xmin::text) x")
			t.Logf("it took %s; the largest batch has %d entries", took, largest)
			if largest > 5000+1000 {
				t.Errorf("a batch of %d entries", largest)
			}
		})
	}
}

// A thousand holds that cannot be expired just now do not keep those of another ledger from expiring.
func TestMovement_ExpiryStarvation(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.post(t, move("IN", "cash", "wallet", "1000"))
	if _, err := b.CreateLedger(t.Context(), "local", "second"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateAccounts(t.Context(), "local", "second", []ledger.AccountSpec{
		{ID: "a", Type: ledger.Asset, Currency: "BDT"}, {ID: "b", Type: ledger.Asset, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	short := func(id string, from, to ledger.AccountID) ledger.TransferSpec {
		spec := hold(id, from, to, "1")
		spec.Terms.ExpiresAfter = ledger.MinHold // From when it is posted, however long that takes.
		return spec
	}
	var specs []ledger.TransferSpec
	for i := range 1000 {
		specs = append(specs, short(fmt.Sprint("H", i), "wallet", "cash"))
	}
	if results, err := b.Post(t.Context(), "local", main, specs); err != nil || describe(results[999]) != "posted" {
		t.Fatal(err, describe(results[999]))
	}
	// Its deadline is behind all of theirs.
	results, err := b.Post(t.Context(), "local", "second", []ledger.TransferSpec{short("OTHER", "a", "b")})
	if err != nil || describe(results[0]) != "posted" {
		t.Fatal(err, results)
	}
	time.Sleep(time.Until(*results[0].Transfer.Step.Deadline) + 50*time.Millisecond)
	// A hand in psql, or whatever else keeps one account of one ledger.
	holder := rawAs(t, b.db.SuperDSN())
	holder.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
	j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{ExpireEvery: -1, Budget: time.Second})
	for range 3 {
		t.Log(j.ExpireHolds(t.Context()))
	}
	_, p, err := b.Transfer(t.Context(), "second", "OTHER")
	if err != nil || p.Hold != ledger.HoldExpired {
		t.Errorf("the hold of the other ledger is %s (%v)", p.Hold, err)
	}
}

// Steps of many origins and with shared ids, in any order, over two servers: no deadlock, and the books are right.
func TestMovement_NoDeadlocks(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{ExpireEvery: -1})
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	wallet := func(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprint("w", n)) }
	var in []ledger.TransferSpec
	for n := range 6 {
		var f = floor("0")
		if n%2 == 1 {
			f = nil
		}
		b.account(t, wallet(n), ledger.Liability, "BDT", f)
		in = append(in, move(fmt.Sprint("IN", n), "cash", wallet(n), "500"))
	}
	if _, err := b.Post(t.Context(), "local", main, in); err != nil {
		t.Fatal(err)
	}
	const rounds, origins = 60, 40
	var wg sync.WaitGroup
	var mu sync.Mutex
	outcomes := map[string]int{}
	for c := range 8 {
		j := []*journal.Journal{b.Journal, other}[c%2]
		r := rand.New(rand.NewPCG(uint64(c), 7))
		wg.Go(func() {
			for n := range rounds {
				var specs []ledger.TransferSpec
				for k := range 8 {
					o := r.IntN(origins)
					h, m, id := fmt.Sprint("H", o), fmt.Sprint("M", o), fmt.Sprintf("S%d-%d-%d", c/2, n, k) // shared by the two servers
					switch r.IntN(7) {
					case 0, 1:
						specs = append(specs, hold(h, wallet(o%6), wallet((o+1)%6), "10"))
					case 2:
						specs = append(specs, move(m, wallet(o%6), wallet((o+3)%6), "10"))
					case 3:
						specs = append(specs, keepingOpen(capture(id+"c", h, "1")))
					case 4:
						specs = append(specs, void(id+"v", h))
					case 5:
						specs = append(specs, refund(id+"r", m, "1", fmt.Sprint(r.IntN(3))))
					case 6:
						specs = append(specs, reverse(id+"b", m))
					}
				}
				f := j.Post
				if n%3 == 0 {
					f = j.PostAtomically
				}
				noTurn := func(r journal.PostResult) bool { return ledger.CodeOf(r.Err) == ledger.CodeUnavailable }
				results, err := f(t.Context(), "local", main, specs)
				for until := time.Now().Add(patience); err == nil && slices.ContainsFunc(results, noTurn) && time.Now().Before(until); {
					results, err = f(t.Context(), "local", main, specs) // On a busy machine it does not always get one in time.
				}
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, r := range results {
					outcomes[describe(r)]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	t.Logf("%v", outcomes)
	for _, bad := range []ledger.Code{ledger.CodeConflict, ledger.CodeInternal, ledger.CodeUnavailable} {
		if outcomes[string(bad)] > 0 {
			t.Errorf("%d %s", outcomes[string(bad)], bad)
		}
	}
	time.Sleep(1200 * time.Millisecond) // statistics are reported once a second
	if n := read[int64](t, rawAs(t, b.db.SuperDSN()), "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()"); n > 0 {
		t.Errorf("%d deadlocks", n)
	}
	b.neverBelow(t)
}

// The hold is decided by another server between the look for origins and the batch, and is in the batch itself too.
func TestMovement_OriginDecidedBetween(t *testing.T) {
	t.Parallel()
	b := quiet(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	b.post(t, move("IN", "cash", "wallet", "1000"))
	holder, watcher := b.raw(t), b.raw(t)
	for i := range 6 {
		one, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{ExpireEvery: -1})
		two, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{ExpireEvery: -1})
		h := hold(fmt.Sprint("H", i), "wallet", "shop", "100")
		c := keepingOpen(capture(fmt.Sprint("C", i), fmt.Sprint("H", i), "40"))
		x := capture(fmt.Sprint("X", i), fmt.Sprint("H", i), "70")
		holder.do(t, "BEGIN", gateShare, "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
		first := postAsync(one, h)
		watcher.awaitJournalBlocked(t, 1)
		second := postAsync(two, h, c, x, c)
		watcher.awaitJournalBlocked(t, 2)
		holder.do(t, "COMMIT")
		got := describeAll(result(t, first)) + "; " + describeAll(result(t, second))
		if got != "posted; replayed, posted, CAPTURE_EXCEEDS_HOLD, replayed" {
			t.Error(got)
		}
	}
	b.neverBelow(t)
}

// neverBelow checks, number by number, that no liability with a floor of zero has ever had less than was held of it, and that what is
// held is what the open holds have left. (The verify of this branch does not know holds yet.)
func (b *bench) neverBelow(t *testing.T) {
	t.Helper()
	c := b.raw(t)
	if n := read[int](t, c, `SELECT count(*) FROM (
		SELECT sum(m.change) OVER (PARTITION BY m.account_no ORDER BY m.sequence) AS available
		  FROM (SELECT account_no, sequence, sum(change) AS change FROM (
		               SELECT account_no, sequence, -amount AS change FROM entry WHERE ledger_id = 1
		               UNION ALL SELECT account_no, sequence, -debit FROM hold_entry WHERE ledger_id = 1) u GROUP BY 1, 2) m
		       JOIN account a ON a.ledger_id = 1 AND a.account_no = m.account_no AND a.floor = 0) x WHERE x.available < 0`); n > 0 {
		t.Errorf("%d times an account was below its floor", n)
	}
	if n := read[int](t, c, `SELECT count(*) FROM (
		SELECT h.sequence, h.reserved + coalesce(sum(s.reserved), 0) AS left, count(*) FILTER (WHERE s.ends) AS ended, o.sequence AS open
		  FROM transfer h LEFT JOIN transfer s ON s.ledger_id = h.ledger_id AND s.origin = h.transfer_id AND s.ordinal IS NOT NULL
		       LEFT JOIN open_hold o ON o.ledger_id = h.ledger_id AND o.sequence = h.sequence
		 WHERE h.kind = 'hold' AND h.refusal IS NULL GROUP BY h.sequence, h.reserved, o.sequence) x
		 WHERE x.left < 0 OR x.ended > 1 OR (x.left = 0) <> (x.ended = 1) OR (x.ended = 0) <> (x.open IS NOT NULL)`); n > 0 {
		t.Errorf("%d holds are wrong", n)
	}
}

// A hold of which little by little is captured, and a transfer of which little by little goes back, in calls of many: each step costs
// what all steps before it cost, in the trigger and in what is read.
func TestMovement_ManySteps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		kind      string
		n, rounds int
	}{{"refund", 100, 4}, {"refund", 300, 2}, {"refund", 1000, 6}, {"capture", 1000, 5}} {
		t.Run(fmt.Sprintf("%d times %d %ss", c.rounds, c.n, c.kind), func(t *testing.T) {
			b := setupShop(t)
			b.post(t, move("IN", "cash", "wallet", "100000"))
			b.post(t, hold("H", "wallet", "shop", "50000"))
			b.post(t, move("M", "wallet", "shop", "50000"))
			done := 0
			for round := range c.rounds {
				specs := make([]ledger.TransferSpec, c.n)
				for i := range specs {
					if id := fmt.Sprintf("S%d", done); c.kind == "capture" {
						specs[i] = keepingOpen(capture(id, "H", "1"))
					} else {
						specs[i] = refund(id, "M", "1", fmt.Sprint(done))
					}
					done++
				}
				began := time.Now()
				posting, took := postAsync(b.Journal, specs...), time.Duration(0)
				beside := post(t, b.Journal, move(fmt.Sprint("BESIDE", round), "cash", "wallet", "1"))
				took = time.Since(began)
				results := result(t, posting)
				last := results[c.n-1]
				t.Logf("round %d took %s: %s %v; a payment beside it took %s: %s", round, time.Since(began), describe(last), last.Err, took, describe(beside))
				if describe(last) != "posted" || describe(beside) != "posted" {
					t.Errorf("round %d: %s, %s", round, describe(last), describe(beside))
					break
				}
			}
		})
	}
}

// A server of before 0007, still running while the servers are replaced one by one, knows no holds: it compares a floor with the sum of
// the entries alone. Its statement names the columns of 0004. It must not spend what a newer server has reserved.
func TestMovement_OldServerSpendsWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	b.post(t, move("IN", "cash", "wallet", "100"))
	b.post(t, hold("H", "wallet", "shop", "100"))
	// As the old server does it: the gate, the lock, sum(entry) = 100 - 100 is not below the floor, and the INSERT.
	old := b.raw(t)
	old.do(t, "SET khata.schema = ''")
	_, err := old.Exec(t.Context(), insertMove("OLD", "wallet", "cash", "100"))
	if err == nil {
		t.Error("an old server's INSERT spends what is held")
	}
	b.post(t, capture("C", "H", ""))
	if got := b.funds(t, "wallet"); got != "0, 0, 0" {
		t.Errorf("the wallet, with a floor of 0, has %s", got)
	}
}

// A migration that takes table transfer and then table account is in a ring with posters, unless it has the gates. Posters have account first (trip 1) and transfer
// then (trip 2): whoever is between the two when it begins, or comes while it builds, is in a ring with it.
func TestMovement_MigrationBesidePosters(t *testing.T) {
	t.Parallel()
	beside := pgtest.New(t)
	super := rawAs(t, beside.SuperDSN())
	name := "m" + beside.Name[1:]
	super.do(t, "CREATE DATABASE "+name+" OWNER khata_owner")
	t.Cleanup(func() { super.do(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	dsn := beside.OwnerDSN() + " dbname=" + name
	config, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	pool := stdlib.OpenDB(*config)
	defer pool.Close()
	migrations, err := fs.Sub(db.Migrations, "migrations")
	if err != nil {
		t.Fatal(err)
	}
	steps, err := goose.NewProvider(goose.DialectPostgres, pool, migrations)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := steps.UpTo(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	owner := rawAs(t, dsn)
	owner.do(t, `INSERT INTO currency VALUES (1, 'BDT', 2)`, `INSERT INTO account (ledger_id, account_id, type, currency, scale, floor, serialised, changed_by)
		VALUES (1, 'cash', 'asset', 'BDT', 2, NULL, false, 'x'), (1, 'wallet', 'liability', 'BDT', 2, 0, true, 'x')`)
	poster := rawAs(t, strings.Replace(dsn, "khata_owner", "khata_service", 1))
	poster.do(t, "BEGIN", gateShare, "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE") // trip 1
	migrating := start(func() error { _, err := steps.Up(t.Context()); return err })
	owner.await(t, "EXISTS (SELECT FROM pg_locks WHERE relation = 'account'::regclass AND mode = 'AccessExclusiveLock' AND NOT granted)"+
		" OR EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 4247 AND NOT granted)")
	_, posted := poster.Exec(t.Context(), insertMove("OLD", "cash", "wallet", "1")) // trip 2
	poster.do(t, "COMMIT")
	if err := result(t, migrating); err != nil || posted != nil {
		t.Errorf("the migration: %v; the poster: %v", err, posted)
	}
}

// The deadline passes between the two trips: whoever decided before it decides again after it, and nothing lies on the wrong side.
func TestMovement_DeadlineBetweenTrips(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	j, _, faults := b.faulty(t, journal.Config{ExpireEvery: -1})
	b.post(t, move("IN", "cash", "wallet", "100"))
	post(t, j, move("WARM", "cash", "wallet", "1"))
	post(t, j, move("WARM2", "wallet", "shop", "1"))
	h := hold("H", "wallet", "shop", "50")
	h.Terms.ExpiresAfter = 1600 * time.Millisecond
	deadline := *post(t, b.Journal, h).Transfer.Step.Deadline
	faults.Delay(time.Second / 3)
	atomic := start(func() []journal.PostResult {
		results, err := j.PostAtomically(t.Context(), "local", main, []ledger.TransferSpec{
			move("A", "wallet", "shop", "1"), keepingOpen(capture("C", "H", "1")), expiring(hold("H2", "wallet", "shop", "1"), deadline),
		})
		if err != nil {
			t.Error(err)
		}
		return results
	})
	got := describeAll(result(t, atomic))
	if got != "ATOMIC_CALL_REFUSED, HOLD_EXPIRED, ATOMIC_CALL_REFUSED" && got != "ATOMIC_CALL_REFUSED, HOLD_ENDED, ATOMIC_CALL_REFUSED" {
		t.Error(got)
	}
	for b.progress(t, "H").Hold == ledger.HoldOpen {
		time.Sleep(10 * time.Millisecond)
	}
	if got := b.funds(t, "wallet"); got != "100, 0, 0" {
		t.Error(got)
	}
	b.neverBelow(t)
}
