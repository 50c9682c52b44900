package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// The rules of posting, each beside a variant that breaks it and is caught by the same check. The broken ones are raw SQL;
// the right ones are the journal itself wherever it can be driven, with raw connections for the others in the race.

// patience is how long a test waits for what must come. It is reached only where something is wrong.
const patience = 20 * time.Second

const (
	gateShare = "SELECT pg_advisory_xact_lock_shared(4247, 1)"
	gateAlone = "SELECT pg_advisory_xact_lock(4247, 1)"
)

// rawConn is a connection that does what it is told, in the order it is told.
type rawConn struct {
	*pgx.Conn
	pid uint32
}

// raw connects as the service's role, but without the settings that bound its waits.
func (b *bench) raw(t testing.TB) *rawConn { return rawAs(t, b.db.ServiceDSN()) }

func rawAs(t testing.TB, dsn string) *rawConn {
	t.Helper()
	conn := guardConn(t, dsn+" application_name=raw", "")
	return &rawConn{Conn: conn, pid: conn.PgConn().PID()}
}

// do runs statements one after the other.
func (c *rawConn) do(t testing.TB, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, sql := range statements {
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// read runs a query for one value.
func read[T any](t testing.TB, c *rawConn, sql string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var value T
	if err := c.QueryRow(ctx, sql).Scan(&value); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return value
}

// start runs something that is going to wait.
func start[T any](f func() T) chan T {
	done := make(chan T, 1)
	go func() { done <- f() }()
	return done
}

// result waits for what start has started.
func result[T any](t testing.TB, done <-chan T) T {
	t.Helper()
	select {
	case value := <-done:
		return value
	case <-time.After(patience):
		t.Fatal("it does not end")
		panic("unreachable")
	}
}

// pending fails the test if something has ended that must be waiting.
func pending[T any](t testing.TB, done <-chan T) {
	t.Helper()
	select {
	case value := <-done:
		t.Fatalf("it did not wait: %+v", value)
	default:
	}
}

// await polls until a condition over the database holds.
func (c *rawConn) await(t testing.TB, condition string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !read[bool](t, c, "SELECT "+condition); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s", condition)
		}
	}
}

// awaitBlocked waits until a raw connection waits for a lock.
func (c *rawConn) awaitBlocked(t testing.TB, pid uint32) {
	t.Helper()
	c.await(t, fmt.Sprintf("cardinality(pg_blocking_pids(%d)) > 0", pid))
}

// journalBlocked counts the connections of journals that wait for a lock.
const journalBlocked = `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()
	AND application_name = 'khata' AND cardinality(pg_blocking_pids(pid)) > 0)`

// awaitJournalBlocked waits until that many connections of journals wait for a lock.
func (c *rawConn) awaitJournalBlocked(t testing.TB, n int) {
	t.Helper()
	c.await(t, strings.TrimPrefix(journalBlocked, "SELECT ")+fmt.Sprintf(" = %d", n))
}

// awaitReader waits until a journal has asked twice, after the call, who holds the gate: it is waiting for the horizon.
func (c *rawConn) awaitReader(t testing.TB) {
	t.Helper()
	asked := map[time.Time]bool{}
	began := read[time.Time](t, c, "SELECT clock_timestamp()")
	for deadline := time.Now().Add(patience); len(asked) < 2; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no reader asks who holds the gate")
		}
		if at := read[*time.Time](t, c, `SELECT max(query_start) FROM pg_stat_activity WHERE datname = current_database()
			AND query LIKE '%name: GateHolders%' AND pid <> pg_backend_pid()`); at != nil && at.After(began) {
			asked[*at] = true
		}
	}
}

// insertMove is a transfer in SQL, as the journal would post it. The number is drawn by the default unless one is given.
func insertMove(id, debit, credit, value string, sequence ...string) string {
	column, number := "", ""
	if len(sequence) > 0 {
		column, number = "sequence, ", sequence[0]+", "
	}
	return fmt.Sprintf(`INSERT INTO transfer (ledger_id, transfer_id, %saccount_nos, amounts, caller)
		SELECT 1, '%s', %sARRAY[d.account_no, c.account_no], ARRAY[%s, -%s]::numeric[], 'local' FROM account d, account c
		 WHERE d.ledger_id = 1 AND c.ledger_id = 1 AND d.account_id = '%s' AND c.account_id = '%s'`,
		column, id, number, value, value, debit, credit)
}

// balanceOf sums a liability's entries, in SQL.
func balanceOf(account string) string {
	return `(SELECT coalesce(-sum(e.amount), 0) FROM entry e JOIN account a USING (ledger_id, account_no)
		WHERE a.ledger_id = 1 AND a.account_id = '` + account + `')`
}

// lowest is the least running balance of a liability, read in the order of sequences.
func lowest(account string) string {
	return `SELECT coalesce(min(running), 0)::text FROM (SELECT -sum(e.amount) OVER (ORDER BY e.sequence, e.leg) AS running
		FROM entry e JOIN account a USING (ledger_id, account_no) WHERE a.ledger_id = 1 AND a.account_id = '` + account + `') r`
}

// shop opens the accounts that most tests move money between.
func setupShop(t testing.TB) *bench {
	t.Helper()
	b := setup(t)
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	b.account(t, "wallet", ledger.Liability, "BDT", floor("0"))
	return b
}

// storm is the count for a test: small in every run, larger and fixed when the long tests are asked for.
func storm(small, long int) int {
	if os.Getenv("KHATA_TEST_LONG") != "" {
		return long
	}
	return small
}

// postAsync starts a Post of one caller.
func postAsync(j *journal.Journal, specs ...ledger.TransferSpec) chan []journal.PostResult {
	return start(func() []journal.PostResult {
		results, err := j.Post(context.Background(), "local", main, specs)
		if err != nil {
			return []journal.PostResult{{Err: err}}
		}
		return results
	})
}

func describeAll(results []journal.PostResult) string {
	words := make([]string, len(results))
	for i, r := range results {
		words[i] = describe(r)
		if r.Err == nil && r.Transfer.Refusal != nil {
			words[i] = string(r.Transfer.Refusal.Reason)
		}
	}
	return strings.Join(words, ", ")
}

// listed gives the ids of an account's entries after a cursor, as the journal lists them, and the cursor behind them.
func (b *bench) listed(t testing.TB, account ledger.AccountID, after journal.EntryCursor) (ids []string, next journal.EntryCursor) {
	t.Helper()
	page, err := b.Entries(context.Background(), main, account, after, false, journal.MaxPage)
	if err != nil {
		t.Error(err)
		return nil, after
	}
	next = after
	for _, e := range page.Entries {
		ids = append(ids, string(e.TransferID))
		next = e.Cursor
	}
	return ids, next
}

// Rule: a listing waits until nothing below its horizon is in flight.
func TestRules_HorizonWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		late []string // the posting that draws a low number and commits after others
		lost bool
	}{
		{name: "gate first", late: []string{gateShare, insertMove("LATE", "cash", "shop", "1")}},
		{name: "gate, savepoint, rolled back to", late: []string{
			gateShare, "SAVEPOINT s", insertMove("UNDONE", "cash", "shop", "1"), "ROLLBACK TO s", insertMove("LATE", "cash", "shop", "1"),
		}},
		{name: "gate in the statement", late: []string{
			"WITH gate AS MATERIALIZED (" + gateShare + ") " + insertMove("LATE", "cash", "shop", "1") + " AND (SELECT true FROM gate)",
		}},
		// Whoever inserts without the gate is given it by a trigger, and so cannot bring this about.
		{name: "gate by the trigger", late: []string{insertMove("LATE", "cash", "shop", "1")}},
		// The broken ones, without that guard: a posting that only seems to hold the gate.
		{name: "no gate", late: []string{insertMove("LATE", "cash", "shop", "1")}, lost: true},
		{name: "unreferenced CTE", late: []string{
			"WITH gate AS MATERIALIZED (" + gateShare + ") " + insertMove("LATE", "cash", "shop", "1"),
		}, lost: true},
		{name: "gate taken in a savepoint, rolled back to", late: []string{
			"SAVEPOINT s", gateShare, "ROLLBACK TO s", insertMove("LATE", "cash", "shop", "1"),
		}, lost: true},
		{name: "gate of another ledger", late: []string{
			"SELECT pg_advisory_xact_lock_shared(4247, 2)", insertMove("LATE", "cash", "shop", "1"),
		}, lost: true},
		{name: "gate in the other key space", late: []string{
			"SELECT pg_advisory_xact_lock_shared((4247::bigint << 32) + 1)", insertMove("LATE", "cash", "shop", "1"),
		}, lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			poster, watcher := b.raw(t), rawAs(t, b.db.SuperDSN())
			if c.lost {
				watcher.do(t, pgtest.Mutate("transfer_write_entries", "pg_advisory_xact_lock_shared(4247, batch.ledger_id) IS NULL", "true"),
					"ALTER TABLE transfer DISABLE TRIGGER transfer_gate")
			}
			poster.do(t, "BEGIN")
			poster.do(t, c.late...)
			b.post(t, move("A", "cash", "shop", "1"))
			b.post(t, move("B", "cash", "shop", "1"))
			type page struct {
				ids  []string
				next journal.EntryCursor
			}
			listing := start(func() page {
				ids, next := b.listed(t, "cash", journal.EntryCursor{})
				return page{ids, next}
			})
			if !c.lost {
				watcher.awaitReader(t)
				pending(t, listing)
				poster.do(t, "COMMIT")
				if p := result(t, listing); !slices.Equal(p.ids, []string{"LATE", "A", "B"}) {
					t.Errorf("listed %v", p.ids)
				}
				return
			}
			first := result(t, listing)
			poster.do(t, "COMMIT")
			rest, _ := b.listed(t, "cash", first.next)
			if slices.Contains(append(first.ids, rest...), "LATE") {
				t.Errorf("the broken posting is not caught: listed %v, then %v", first.ids, rest)
			}
		})
	}
	t.Run("the journal's own", func(t *testing.T) {
		t.Parallel()
		b := setupShop(t)
		second, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
		holder, watcher := b.raw(t), rawAs(t, b.db.SuperDSN())
		// It has drawn its numbers when it meets an id that somebody else is about to take, or not.
		holder.do(t, "BEGIN", insertMove("LATE-2", "shop", "cash", "9"))
		late := postAsync(second, move("LATE-1", "cash", "shop", "1"), move("LATE-2", "cash", "shop", "1"))
		watcher.awaitJournalBlocked(t, 1)
		b.post(t, move("A", "cash", "shop", "1"))
		listing := start(func() []string { ids, _ := b.listed(t, "cash", journal.EntryCursor{}); return ids })
		watcher.awaitReader(t)
		pending(t, listing)
		holder.do(t, "ROLLBACK")
		if got := describeAll(result(t, late)); got != "posted, posted" {
			t.Errorf("the late posting: %s", got)
		}
		if ids := result(t, listing); !slices.Equal(ids, []string{"LATE-1", "LATE-2", "A"}) {
			t.Errorf("listed %v", ids)
		}
	})
}

// Rule: first the last number, then who holds the gate, in two statements. The reader is raw SQL, so that others can be let
// in between its statements.
func TestRules_HorizonOrder(t *testing.T) {
	t.Parallel()
	const (
		last    = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM journal_sequence"
		holders = `SELECT coalesce(array_agg(virtualtransaction), '{}') FROM pg_locks WHERE locktype = 'advisory' AND classid = 4247
			AND objid = 1 AND objsubid = 2 AND granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`
	)
	for _, c := range []struct {
		name         string
		holdersFirst bool
		noWait       bool
		lost         bool
	}{
		{name: "last number, then holders"},
		{name: "holders, then last number", holdersFirst: true, lost: true},
		{name: "last number only", noWait: true, lost: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lost := 0
			// The low number is drawn before the reader begins, between its two statements, or after them.
			for place := range 3 {
				b := setupShop(t)
				reader, poster := b.raw(t), b.raw(t)
				disturb := func(now int) {
					if now == place {
						poster.do(t, "BEGIN", gateShare, insertMove("LATE", "cash", "shop", "1"))
						b.post(t, move("A", "cash", "shop", "1"))
					}
				}
				var horizon int64
				var waitFor []string
				steps := []func(){
					func() { horizon = read[int64](t, reader, last) },
					func() { waitFor = read[[]string](t, reader, holders) },
				}
				if c.holdersFirst {
					slices.Reverse(steps)
				}
				disturb(0)
				steps[0]()
				disturb(1)
				steps[1]()
				disturb(2)
				if len(waitFor) > 0 && !c.noWait {
					poster.do(t, "COMMIT") // and so waits for it
				}
				seen := func(after, through int64) []string {
					return read[[]string](t, reader, fmt.Sprintf(`SELECT coalesce(array_agg(transfer_id ORDER BY sequence), '{}') FROM transfer
						WHERE ledger_id = 1 AND sequence > %d AND sequence <= %d`, after, through))
				}
				ids := seen(0, horizon)
				poster.do(t, "COMMIT")
				ids = append(ids, seen(horizon, read[int64](t, reader, last))...)
				if !slices.Contains(ids, "LATE") {
					lost++
				}
			}
			if (lost > 0) != c.lost {
				t.Errorf("the row was lost in %d of 3 interleavings", lost)
			}
		})
	}
}

// Rule: a sequence that nothing was drawn from has no last number.
func TestRules_HorizonOfFreshSequence(t *testing.T) {
	t.Parallel()
	b := setup(t)
	c := b.raw(t)
	last := func() int64 {
		t.Helper()
		n, err := dbsqlc.New().LastSequence(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := last(); got != 0 {
		t.Errorf("before anything was drawn the last number is %d", got)
	}
	// The broken variant: everything through number 1 would seem to have been read.
	if got := read[int64](t, c, "SELECT last_value FROM journal_sequence"); got != 1 {
		t.Errorf("last_value is %d", got)
	}
	if got := read[int64](t, c, "SELECT nextval('journal_sequence')"); got != 1 {
		t.Errorf("the first number is %d", got)
	}
	if got := last(); got != 1 {
		t.Errorf("after number 1 the last number is %d", got)
	}
	b.account(t, "cash", ledger.Asset, "BDT", nil)
	b.account(t, "shop", ledger.Liability, "BDT", nil)
	rawAs(t, b.db.SuperDSN()).do(t, "ALTER SEQUENCE journal_sequence RESTART")
	if ids, next := b.listed(t, "cash", journal.EntryCursor{}); len(ids) > 0 || next != (journal.EntryCursor{}) {
		t.Errorf("listed %v before anything was posted", ids)
	}
	if r := b.post(t, move("FIRST", "cash", "shop", "1")); r.Err != nil || r.Transfer.Sequence != 1 {
		t.Fatalf("the first transfer: %+v", r)
	}
	if ids, _ := b.listed(t, "cash", journal.EntryCursor{}); !slices.Equal(ids, []string{"FIRST"}) {
		t.Errorf("listed %v", ids)
	}
}

// Rule: what the gate protects is read in a later statement than the one that waits for it. Whoever changes the rules of an
// account holds the gate alone; here that is a raw connection, so that it can be held open.
func TestRules_RulesAreReadBehindTheGate(t *testing.T) {
	t.Parallel()
	const gateAndRules = "WITH gate AS MATERIALIZED (" + gateShare + ") "
	for _, c := range []struct {
		name   string
		change string
		refuse string
		broken string // posts in one statement with the gate, if the account's rules allow it
	}{
		{
			name: "closed", change: "UPDATE account SET closed = true WHERE account_id = 'shop'", refuse: "ACCOUNT_CLOSED",
			broken: gateAndRules + insertMove("BROKEN", "shop", "cash", "5") + " AND (SELECT true FROM gate) AND NOT d.closed",
		},
		{
			name: "frozen", change: "UPDATE account SET frozen = 'debits' WHERE account_id = 'shop'", refuse: "ACCOUNT_FROZEN",
			broken: gateAndRules + insertMove("BROKEN", "shop", "cash", "5") + " AND (SELECT true FROM gate) AND d.frozen = 'none'",
		},
		{
			name: "floored", change: "UPDATE account SET floor = 0, serialised = true WHERE account_id = 'shop'", refuse: "INSUFFICIENT_FUNDS",
			broken: gateAndRules + insertMove("BROKEN", "shop", "cash", "5") + " AND (SELECT true FROM gate) AND (d.floor IS NULL OR d.floor <= " +
				balanceOf("shop") + " - 5)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			changer, poster, watcher := b.raw(t), b.raw(t), b.raw(t)
			changer.do(t, "BEGIN", gateAlone, c.change)
			real := postAsync(b.Journal, move("RIGHT", "shop", "cash", "5"))
			broken := start(func() error { _, err := poster.Exec(context.Background(), c.broken); return err })
			watcher.awaitJournalBlocked(t, 1)
			watcher.awaitBlocked(t, poster.pid)
			changer.do(t, "COMMIT")
			if err := result(t, broken); err != nil {
				t.Fatal(err)
			}
			if got := describeAll(result(t, real)); got != c.refuse {
				t.Errorf("posted behind the gate: %s, want %s", got, c.refuse)
			}
			if !read[bool](t, watcher, "SELECT EXISTS (SELECT FROM transfer WHERE transfer_id = 'BROKEN')") {
				t.Error("the gate in the statement that reads the rules: it did not post, and so proves nothing")
			}
		})
	}
}

// Rule: the same for the closer, who looks at the balance.
func TestRules_BalanceIsReadBehindTheGate(t *testing.T) {
	t.Parallel()
	for _, right := range []bool{true, false} {
		t.Run(map[bool]string{true: "right", false: "broken"}[right], func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			poster, closer, watcher := b.raw(t), b.raw(t), b.raw(t)
			poster.do(t, "BEGIN", gateShare, insertMove("IN", "cash", "shop", "10"))
			if right {
				yes := true
				closing := start(func() error {
					_, err := b.UpdateAccount(context.Background(), "local", main, "shop", ledger.AccountUpdate{Closed: &yes})
					return err
				})
				watcher.awaitJournalBlocked(t, 1)
				poster.do(t, "COMMIT")
				if err := result(t, closing); !errors.Is(err, ledger.CodeBalanceNotZero) {
					t.Errorf("closed with 10 on it: %v", err)
				}
				return
			}
			closing := start(func() error {
				_, err := closer.Exec(context.Background(), "WITH gate AS MATERIALIZED ("+gateAlone+
					") UPDATE account SET closed = true FROM gate WHERE account_id = 'shop' AND "+balanceOf("shop")+" = 0")
				return err
			})
			watcher.awaitBlocked(t, closer.pid)
			poster.do(t, "COMMIT")
			if err := result(t, closing); err != nil {
				t.Fatal(err)
			}
			if !read[bool](t, watcher, "SELECT closed FROM account WHERE account_id = 'shop'") {
				t.Error("it did not close, and so proves nothing")
			}
		})
	}
}

// closeUnderFire lets many posters post pairs that leave an account at zero until they learn that it is closed, which
// somebody does meanwhile.
func closeUnderFire(t *testing.T, accounts, posters int) {
	b := setupShop(t)
	second, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	watcher := b.raw(t)
	floors := []*decimal.Decimal{nil, floor("0")}
	for n := range accounts {
		id := ledger.AccountID(fmt.Sprintf("short-lived:%d", n))
		b.account(t, id, ledger.Liability, "BDT", floors[n%2])
		var posted atomic.Int64
		begun := make(chan struct{})
		var once sync.Once
		var wg sync.WaitGroup
		for p := range posters {
			wg.Go(func() {
				j := []*journal.Journal{b.Journal, second}[p%2]
				for i := 0; ; i++ {
					in, out := fmt.Sprintf("in:%d:%d:%d", n, p, i), fmt.Sprintf("out:%d:%d:%d", n, p, i)
					results := <-postAsync(j, move(in, "cash", id, "1"), move(out, id, "cash", "1"))
					switch got := describeAll(results); got {
					case "posted, posted":
						if posted.Add(1) == int64(2*posters) {
							once.Do(func() { close(begun) })
						}
					case "ACCOUNT_CLOSED, ACCOUNT_CLOSED":
						return
					default:
						t.Errorf("a pair: %s (%v)", got, results[0].Err)
						once.Do(func() { close(begun) })
						return
					}
				}
			})
		}
		<-begun
		yes := true
		closed, err := b.UpdateAccount(t.Context(), "local", main, id, ledger.AccountUpdate{Closed: &yes})
		if err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if late := read[int64](t, watcher, fmt.Sprintf(`SELECT count(*) FROM entry e JOIN account a USING (ledger_id, account_no)
			WHERE a.account_id = '%s' AND e.sequence > %d`, id, closed.Version)); late > 0 {
			t.Errorf("account %s: %d entries after it was closed", id, late)
		}
		if early := read[int64](t, watcher, fmt.Sprintf("SELECT count(*) FROM transfer WHERE refusal = 'ACCOUNT_CLOSED' AND sequence < %d AND transfer_id ~ '^(in|out):%d:'",
			closed.Version, n)); early > 0 {
			t.Errorf("account %s: %d refusals before it was closed", id, early)
		}
		if entries := read[int64](t, watcher, fmt.Sprintf("SELECT count(*) FROM entry e JOIN account a USING (ledger_id, account_no) WHERE a.account_id = '%s'",
			id)); entries != 2*posted.Load() {
			t.Errorf("account %s: %d entries of %d pairs", id, entries, posted.Load())
		}
	}
}

func TestRules_CloseRacesWithPosts(t *testing.T) {
	t.Parallel()
	closeUnderFire(t, 4, 6)
}

func TestRules_CloseStorm(t *testing.T) { closeUnderFire(t, storm(12, 60), storm(12, 24)) }

// Rule: whoever wants the gate alone does not stand in the queue for long, since everybody who posts waits behind him.
func TestRules_StuckPostingAndCloser(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	stuck, closer, watcher := b.raw(t), b.raw(t), b.raw(t)
	stuck.do(t, "BEGIN", gateShare)
	// The broken variant: asking for the gate alone and waiting.
	blocking := start(func() error { _, err := closer.Exec(context.Background(), gateAlone); return err })
	watcher.awaitBlocked(t, closer.pid)
	behind := postAsync(b.Journal, move("BEHIND", "cash", "shop", "1"))
	watcher.awaitJournalBlocked(t, 1)
	pending(t, behind)
	stuck.do(t, "ROLLBACK")
	if err := result(t, blocking); err != nil {
		t.Fatal(err)
	}
	if got := describeAll(result(t, behind)); got != "posted" {
		t.Errorf("the post behind the closer: %s", got)
	}
	// The journal's closer steps aside while the posting stays stuck, and gets his turn in the end.
	stuck.do(t, "BEGIN", gateShare)
	freeze := ledger.FrozenBoth
	freezing := start(func() error {
		_, err := b.UpdateAccount(context.Background(), "local", main, "wallet", ledger.AccountUpdate{Frozen: &freeze})
		return err
	})
	watcher.awaitJournalBlocked(t, 1)
	for i := range 3 {
		if got := describeAll(result(t, postAsync(b.Journal, move(fmt.Sprintf("BY-%d", i), "cash", "shop", "1")))); got != "posted" {
			t.Errorf("a post beside the closer: %s", got)
		}
	}
	pending(t, freezing)
	stuck.do(t, "ROLLBACK")
	if err := result(t, freezing); err != nil {
		t.Error(err)
	}
}

// Rule: balances are read in a later statement than the one that waits for the account's lock, whatever the isolation level
// that the database gives by default.
func TestRules_BalanceIsReadBehindTheLock(t *testing.T) {
	t.Parallel()
	const lock = "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE"
	for _, c := range []struct {
		name, before string
		// of a raw poster: what it waits in, and how it then learns the balance, unless the first has told it.
		waits, reads string
		breaks       bool
	}{
		{name: "lock, then balance", waits: lock, reads: "SELECT " + balanceOf("wallet") + "::text"},
		{name: "balance in the statement that locks", waits: "SELECT " + balanceOf("wallet") + "::text FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE", breaks: true},
		{
			name: "REPEATABLE READ", before: "ALTER DATABASE %s SET default_transaction_isolation = 'repeatable read'",
			waits: lock, reads: "SELECT " + balanceOf("wallet") + "::text", breaks: true,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			if c.before != "" {
				rawAs(t, b.db.SuperDSN()).do(t, fmt.Sprintf(c.before, b.db.Name))
			}
			j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
			post(t, j, move("IN", "cash", "wallet", "100"))
			first, second, watcher := b.raw(t), b.raw(t), b.raw(t)
			first.do(t, "BEGIN", gateShare, lock, insertMove("FIRST", "wallet", "cash", "100"))
			second.do(t, "BEGIN", gateShare)
			told := start(func() string {
				var balance string
				rows, err := second.Query(context.Background(), c.waits)
				if err == nil && c.reads == "" && rows.Next() {
					err = rows.Scan(&balance)
				}
				rows.Close()
				return balance + fmt.Sprint(errors.Join(err, rows.Err()))
			})
			watcher.awaitBlocked(t, second.pid)
			real := postAsync(j, move("REAL", "wallet", "cash", "100"))
			watcher.awaitJournalBlocked(t, 1)
			first.do(t, "COMMIT")
			balance, _ := strings.CutSuffix(result(t, told), "<nil>")
			if c.reads != "" {
				balance = read[string](t, second, c.reads)
			}
			if balance == "100" || balance == "100.00" {
				second.do(t, insertMove("SECOND", "wallet", "cash", "100"))
			}
			second.do(t, "COMMIT")
			if got := describeAll(result(t, real)); got != "INSUFFICIENT_FUNDS" {
				t.Errorf("the journal's post: %s", got)
			}
			if got := read[bool](t, watcher, "SELECT "+balanceOf("wallet")+" < 0"); got != c.breaks {
				t.Errorf("the floor is broken: %v", got)
			}
		})
	}
}

// Rule: numbers are drawn after the balances were read, so that the running balance in the order of numbers keeps to the
// floor as well.
func TestRules_NumbersAreDrawnBehindTheBalances(t *testing.T) {
	t.Parallel()
	const lock = "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE"
	for _, broken := range []bool{false, true} {
		t.Run(map[bool]string{false: "right", true: "broken"}[broken], func(t *testing.T) {
			t.Parallel()
			b := setupShop(t)
			first, second, watcher := b.raw(t), b.raw(t), b.raw(t)
			second.do(t, "BEGIN", gateShare)
			number := read[int64](t, second, "SELECT nextval('journal_sequence')") // too early
			first.do(t, "BEGIN", gateShare, lock, insertMove("IN", "cash", "wallet", "100"))
			if broken {
				waiting := start(func() error { _, err := second.Exec(context.Background(), lock); return err })
				watcher.awaitBlocked(t, second.pid)
				first.do(t, "COMMIT")
				if err := result(t, waiting); err != nil {
					t.Fatal(err)
				}
				if !read[bool](t, second, "SELECT "+balanceOf("wallet")+" >= 100") {
					t.Fatal("the balance is not there")
				}
				second.do(t, insertMove("OUT", "wallet", "cash", "100", fmt.Sprint(number)), "COMMIT")
			} else {
				real := postAsync(b.Journal, move("OUT", "wallet", "cash", "100"))
				watcher.awaitJournalBlocked(t, 1)
				first.do(t, "COMMIT")
				if got := describeAll(result(t, real)); got != "posted" {
					t.Fatalf("the journal's post: %s", got)
				}
				second.do(t, "ROLLBACK")
			}
			if got, want := read[string](t, watcher, lowest("wallet")), map[bool]string{false: "0", true: "-100"}[broken]; got != want {
				t.Errorf("the running balance goes down to %s, want %s", got, want)
			}
		})
	}
}

// Rule: numbers follow the order of decision, not that of the ids, although the rows are inserted in the order of the ids.
func TestRules_NumbersFollowTheDecisions(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	const n = 40
	specs := make([]ledger.TransferSpec, 0, 2*n)
	for i := range n {
		// Ids fall while decisions go on: z99 in, z98 out, …
		specs = append(specs, move(fmt.Sprintf("z%02d", 99-2*i), "cash", "wallet", "1"),
			move(fmt.Sprintf("z%02d", 98-2*i), "wallet", "cash", "1"))
	}
	results := result(t, postAsync(b.Journal, specs...))
	for i, r := range results {
		if describe(r) != "posted" {
			t.Fatalf("%s: %s %v", specs[i].ID, describe(r), r.Err)
		}
		if i > 0 && r.Transfer.Sequence != results[i-1].Transfer.Sequence+1 {
			t.Errorf("%s has number %d, after %d", specs[i].ID, r.Transfer.Sequence, results[i-1].Transfer.Sequence)
		}
	}
	c := b.raw(t)
	if got := read[string](t, c, lowest("wallet")); got != "0" {
		t.Errorf("the running balance goes down to %s", got)
	}
	// The broken variant: numbers in the order of the ids.
	c.do(t, "BEGIN", gateShare, insertMove("a-out", "wallet", "cash", "1"), insertMove("b-in", "cash", "wallet", "1"), "COMMIT")
	if got := read[string](t, c, lowest("wallet")); got != "-1" {
		t.Errorf("numbers in the order of ids: the running balance goes down to %s, and so proves nothing", got)
	}
}

// floorsUnderFire pays from and into few floored accounts, from two servers, and looks at every running balance.
func floorsUnderFire(t *testing.T, wallets, workers, rounds int) {
	b := setupShop(t)
	second, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	id := func(n int) ledger.AccountID { return ledger.AccountID(fmt.Sprintf("wallet:%d", n%wallets)) }
	for n := range wallets {
		b.account(t, id(n), ledger.Liability, "BDT", floor("0"))
	}
	var posted, refused atomic.Int64
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			j := []*journal.Journal{b.Journal, second}[w%2]
			for i := range rounds {
				// Two workers share the ids, in opposite order within the batch: a retry storm.
				key := func(k int) string { return fmt.Sprintf("%d:%d:%d", w/2, i, k) }
				specs := []ledger.TransferSpec{
					move(key(0), "cash", id(w/2+i), "3"),
					move(key(1), id(w/2+i+1), "cash", "2"),
					move(key(2), id(w/2+i), id(w/2+i+2), "2"),
					move(key(3), id(w/2+i+2), "cash", "5"),
				}
				if w%2 == 1 {
					slices.Reverse(specs)
				}
				results := <-postAsync(j, specs...)
				for k, r := range results {
					switch {
					case r.Err != nil:
						t.Errorf("%s: %v", specs[k].ID, r.Err)
					case r.Transfer.Refusal != nil:
						refused.Add(1)
					default:
						posted.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	c := b.raw(t)
	for n := range wallets {
		if got := read[string](t, c, lowest(string(id(n)))); strings.HasPrefix(got, "-") {
			t.Errorf("%s: the running balance goes down to %s", id(n), got)
		}
	}
	if posted.Load() == 0 || refused.Load() == 0 {
		t.Errorf("%d posted, %d refused: nothing was tried", posted.Load(), refused.Load())
	}
}

func TestRules_FloorsHold(t *testing.T) {
	t.Parallel()
	floorsUnderFire(t, 4, 8, 15)
}

func TestRules_FloorStorm(t *testing.T) {
	floorsUnderFire(t, storm(6, 10), storm(16, 24), storm(60, 200))
}

// retried counts the retries of a journal by what they were for.
func retried(t testing.TB, registry *prometheus.Registry, class string) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			if family.GetName() == "khata_database_retries_total" && metric.GetLabel()[0].GetValue() == class {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	return 0
}

// Rule: a deadlock never reaches a caller. It is forced here, by somebody who inserts the same ids in the other order.
func TestRules_Deadlock(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	super := rawAs(t, b.db.SuperDSN())
	super.do(t, fmt.Sprintf("ALTER DATABASE %s SET deadlock_timeout = '50ms'", b.db.Name))
	t.Run("raw", func(t *testing.T) {
		one, two := b.raw(t), b.raw(t)
		one.do(t, "BEGIN", gateShare, insertMove("p", "cash", "shop", "1"))
		two.do(t, "BEGIN", gateShare, insertMove("q", "cash", "shop", "1"))
		waiting := start(func() error {
			_, err := one.Exec(context.Background(), insertMove("q", "cash", "shop", "1"))
			return err
		})
		super.awaitBlocked(t, one.pid)
		other := start(func() error {
			_, err := two.Exec(context.Background(), insertMove("p", "cash", "shop", "1"))
			return err
		})
		// Whoever is the victim, the other one gets on.
		errs := []error{result(t, waiting), result(t, other)}
		slices.SortFunc(errs, func(a, b error) int { return strings.Compare(refusedWith(a), refusedWith(b)) })
		if refusedWith(errs[0]) != "40P01" || pg.Classify(errs[0]) != pg.Again || errs[1] != nil {
			t.Errorf("in opposite orders: %v", errs)
		}
		one.do(t, "ROLLBACK")
		two.do(t, "ROLLBACK")
	})
	t.Run("account before gate", func(t *testing.T) {
		poster, changer := b.raw(t), b.raw(t)
		poster.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
		changer.do(t, "BEGIN", gateAlone)
		waiting := start(func() error {
			_, err := changer.Exec(context.Background(), "UPDATE account SET frozen = 'both' WHERE account_id = 'wallet'")
			return err
		})
		super.awaitBlocked(t, changer.pid)
		_, err := poster.Exec(context.Background(), gateShare)
		poster.do(t, "ROLLBACK")
		changed := result(t, waiting)
		changer.do(t, "ROLLBACK")
		if refusedWith(err) != "40P01" && refusedWith(changed) != "40P01" {
			t.Errorf("%v, %v", err, changed)
		}
	})
	t.Run("journal", func(t *testing.T) {
		registry := prometheus.NewRegistry()
		// A backend looks for a deadlock once, when it has waited for this long. The other one must be there by then.
		super.do(t, fmt.Sprintf("ALTER DATABASE %s SET deadlock_timeout = '2s'", b.db.Name))
		j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{Metrics: journal.NewMetrics(registry)})
		other := rawAs(t, b.db.SuperDSN())
		other.do(t, "SET deadlock_timeout = '1h'", "BEGIN", gateShare, insertMove("b", "cash", "shop", "1"))
		posting := postAsync(j, move("b", "cash", "shop", "1"), move("a", "cash", "shop", "1"))
		super.awaitJournalBlocked(t, 1)
		if n := retried(t, registry, "again"); n != 0 {
			t.Fatalf("retried %d times before it could", n)
		}
		// Comes through only because the journal's transaction is the victim: this one never looks.
		other.do(t, insertMove("a", "cash", "shop", "2"))
		super.awaitJournalBlocked(t, 1)
		pending(t, posting)
		if n := retried(t, registry, "again"); n == 0 {
			t.Error("it was no deadlock")
		}
		other.do(t, "COMMIT")
		if got := describeAll(result(t, posting)); got != "replayed, ALREADY_EXISTS" {
			t.Errorf("the journal's post: %s", got)
		}
	})
}

// explainer is a database that explains statements instead of running them.
type explainer struct {
	*rawConn
	plan map[string]any
}

var errExplained = errors.New("explained")

func (e *explainer) explain(ctx context.Context, sql string, args ...any) error {
	var plans []map[string]any
	var text []byte
	if err := e.QueryRow(ctx, "EXPLAIN (VERBOSE, FORMAT JSON) "+sql, args...).Scan(&text); err != nil {
		return err
	}
	if err := json.Unmarshal(text, &plans); err != nil {
		return err
	}
	e.plan = plans[0]["Plan"].(map[string]any)
	return errExplained
}

func (e *explainer) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	return nil, e.explain(ctx, sql, args...)
}

func (e *explainer) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return pgconn.CommandTag{}, e.explain(ctx, sql, args...)
}

// depths walks a plan and gives the depth of the nodes that a test looks for, or nothing.
func depths(plan map[string]any, is func(node map[string]any) bool) []int {
	var found []int
	var walk func(node map[string]any, depth int)
	walk = func(node map[string]any, depth int) {
		if is(node) {
			found = append(found, depth)
		}
		children, _ := node["Plans"].([]any)
		for _, child := range children {
			walk(child.(map[string]any), depth+1)
		}
	}
	walk(plan, 0)
	return found
}

// locksInOrder reports whether a plan locks rows in the order of a sort: right above it, or in a loop over its rows.
func locksInOrder(plan map[string]any) bool {
	has := func(node any, name string) bool { return len(depths(node.(map[string]any), nodeType(name))) > 0 }
	children, _ := plan["Plans"].([]any)
	switch {
	case plan["Node Type"] == "LockRows":
		child := children[0].(map[string]any)
		return child["Node Type"] == "Sort"
	case plan["Node Type"] == "Nested Loop" && has(children[1], "LockRows"):
		outer := children[0].(map[string]any)
		for outer["Node Type"] == "Subquery Scan" {
			outer = outer["Plans"].([]any)[0].(map[string]any)
		}
		return outer["Node Type"] == "Sort"
	case len(children) == 1:
		return locksInOrder(children[0].(map[string]any))
	}
	return false
}

func nodeType(name string) func(map[string]any) bool {
	return func(node map[string]any) bool { return node["Node Type"] == name }
}

// Rule: the order of the rows is in the SQL, where the plan cannot lose it, and numbers are drawn below that sort.
func TestRules_PlansSort(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	super := rawAs(t, b.db.SuperDSN())
	super.do(t, `INSERT INTO account (ledger_id, account_id, type, currency, scale, changed_by, serialised)
		SELECT 1, 'many:' || n, 'asset', 'BDT', 2, 'local', true FROM generate_series(1, 5000) n`, "ANALYZE account")
	queries := dbsqlc.New()
	explain := func(t *testing.T, run func(dbsqlc.DBTX) error) map[string]any {
		t.Helper()
		e := &explainer{rawConn: b.raw(t)}
		if err := run(e); !errors.Is(err, errExplained) {
			t.Fatal(err)
		}
		return e.plan
	}
	// check wants one sort by a key, below the node that acts on the rows and above the one that draws, if one does.
	check := func(t *testing.T, plan map[string]any, act, key string, draws bool) {
		t.Helper()
		text, _ := json.MarshalIndent(plan, "", " ")
		acts := depths(plan, nodeType(act))
		sorts := depths(plan, func(node map[string]any) bool {
			keys, _ := node["Sort Key"].([]any)
			return nodeType("Sort")(node) && len(keys) == 1 && strings.Contains(keys[0].(string), key)
		})
		joins := depths(plan, func(node map[string]any) bool { return strings.Contains(node["Node Type"].(string), "Join") })
		if len(acts) != 1 || len(sorts) != 1 || acts[0] >= sorts[0] || len(joins) > 0 && joins[0] < sorts[0] {
			t.Errorf("%s at %v, Sort by %s at %v, joins at %v:\n%s", act, acts, key, sorts, joins, text)
			return
		}
		if !draws {
			return
		}
		drawn := depths(plan, func(node map[string]any) bool {
			output, _ := node["Output"].([]any)
			return slices.ContainsFunc(output, func(column any) bool { return strings.HasPrefix(column.(string), "nextval(") })
		})
		if len(drawn) != 1 || drawn[0] <= sorts[0] {
			t.Errorf("nextval is computed at %v, sorted at %v:\n%s", drawn, sorts, text)
		}
	}
	few := []string{"b", "a"}
	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf("many:%d", n))
	}
	for _, ids := range [][]string{few, many} {
		t.Run(fmt.Sprint(len(ids)), func(t *testing.T) {
			blank := make([]string, len(ids))
			check(t, explain(t, func(db dbsqlc.DBTX) error {
				_, err := queries.TransferInsert(t.Context(), db, dbsqlc.TransferInsertParams{
					LedgerID: 1, TransferIds: ids, EffectiveAts: blank, Refusals: blank, RefusedAccountNos: make([]int64, len(ids)),
					AccountNos: blank, Amounts: blank, Descriptions: blank, Metadatas: blank, Callers: blank,
				})
				return err
			}), "ModifyTable", "transfer_id", true)
			if plan := explain(t, func(db dbsqlc.DBTX) error {
				_, err := queries.AccountsLockSerialised(t.Context(), db, dbsqlc.AccountsLockSerialisedParams{LedgerID: 1, AccountIds: ids})
				return err
			}); !locksInOrder(plan) {
				text, _ := json.MarshalIndent(plan, "", " ")
				t.Errorf("the accounts are locked in any order:\n%s", text)
			}
			check(t, explain(t, func(db dbsqlc.DBTX) error {
				_, err := queries.AccountInsert(t.Context(), db, dbsqlc.AccountInsertParams{
					LedgerID: 1, Caller: "local", AccountIds: ids, Types: blank, Currencies: blank, Scales: make([]int16, len(ids)),
					Names: blank, Metadatas: blank, Floors: blank, Serialiseds: make([]bool, len(ids)),
				})
				return err
			}), "ModifyTable", "account_id", false)
		})
	}
	t.Run("broken", func(t *testing.T) {
		e := &explainer{rawConn: b.raw(t)}
		if err := e.explain(t.Context(), `INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
			SELECT 1, unnest($1::text[]), '{}', '{}', ''`, few); !errors.Is(err, errExplained) {
			t.Fatal(err)
		}
		if got := depths(e.plan, nodeType("Sort")); len(got) != 0 {
			t.Errorf("a plan without ORDER BY sorts, and so proves nothing: %v", e.plan)
		}
		if err := e.explain(t.Context(), "SELECT FROM account WHERE account_id = ANY ($1::text[]) FOR NO KEY UPDATE", few); !errors.Is(err, errExplained) {
			t.Fatal(err)
		}
		if locksInOrder(e.plan) {
			t.Errorf("a lock without ORDER BY passes: %v", e.plan)
		}
	})
}

// Rule: who has lost the race for an id decides again all that counted on it.
func TestRules_LostRace(t *testing.T) {
	t.Parallel()
	const lock = "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE"
	// The rival takes the id IN for something else, and does not touch the wallet.
	rival := insertMove("IN", "cash", "shop", "100")
	t.Run("journal", func(t *testing.T) {
		t.Parallel()
		b := setupShop(t)
		other, watcher := b.raw(t), b.raw(t)
		other.do(t, "BEGIN", gateShare, rival)
		posting := postAsync(b.Journal, move("IN", "cash", "wallet", "100"), move("OUT", "wallet", "cash", "60"), move("FREE", "cash", "shop", "1"))
		watcher.awaitJournalBlocked(t, 1)
		other.do(t, "COMMIT")
		results := result(t, posting)
		if got := describeAll(results); got != "ALREADY_EXISTS, INSUFFICIENT_FUNDS, posted" {
			t.Errorf("the journal's batch: %s", got)
		}
		if got := b.balance(t, "wallet"); got != "0.00" {
			t.Errorf("balance %s", got)
		}
		// Numbers are new ones, in the order of decision.
		if results[1].Err == nil && results[2].Err == nil && results[1].Transfer.Sequence >= results[2].Transfer.Sequence {
			t.Errorf("numbers %d, %d", results[1].Transfer.Sequence, results[2].Transfer.Sequence)
		}
	})
	t.Run("journal, rival rolls back", func(t *testing.T) {
		t.Parallel()
		b := setupShop(t)
		other, watcher := b.raw(t), b.raw(t)
		other.do(t, "BEGIN", gateShare, rival)
		posting := postAsync(b.Journal, move("IN", "cash", "wallet", "100"), move("OUT", "wallet", "cash", "60"))
		watcher.awaitJournalBlocked(t, 1)
		other.do(t, "ROLLBACK")
		if got := describeAll(result(t, posting)); got != "posted, posted" {
			t.Errorf("the journal's batch: %s", got)
		}
	})
	t.Run("no redo", func(t *testing.T) {
		t.Parallel()
		b := setupShop(t)
		other, poster, watcher := b.raw(t), b.raw(t), b.raw(t)
		other.do(t, "BEGIN", gateShare, rival)
		poster.do(t, "BEGIN", gateShare, lock)
		inserting := start(func() error {
			_, err := poster.Exec(context.Background(), insertMove("IN", "cash", "wallet", "100")+" ON CONFLICT DO NOTHING")
			return err
		})
		watcher.awaitBlocked(t, poster.pid)
		other.do(t, "COMMIT")
		if err := result(t, inserting); err != nil {
			t.Fatal(err)
		}
		poster.do(t, insertMove("OUT", "wallet", "cash", "60"), "COMMIT")
		if got := read[string](t, watcher, lowest("wallet")); got != "-60" {
			t.Errorf("without deciding again the balance is %s, and so proves nothing", got)
		}
	})
}

// Rule: no lock where no floor. An account without one makes nobody wait, whatever is under way on it.
func TestRules_NoFloorNoLock(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	other, watcher := b.raw(t), b.raw(t)
	// Not even a lock on their rows holds anybody up.
	other.do(t, "BEGIN", gateShare, insertMove("OPEN", "cash", "shop", "1"),
		"SELECT FROM account WHERE account_id IN ('cash', 'shop') FOR UPDATE")
	if got := describeAll(result(t, postAsync(b.Journal, move("BESIDE", "shop", "cash", "1")))); got != "posted" {
		t.Errorf("beside a posting on the same accounts: %s", got)
	}
	// The control: with a floor it waits.
	other.do(t, "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
	waiting := postAsync(b.Journal, move("WAITS", "cash", "wallet", "1"))
	watcher.awaitJournalBlocked(t, 1)
	pending(t, waiting)
	other.do(t, "COMMIT")
	if got := describeAll(result(t, waiting)); got != "posted" {
		t.Errorf("after the lock: %s", got)
	}
}
