package journal_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

// dense makes marks and snapshots so frequent that a small history has many.
const dense = `CREATE OR REPLACE FUNCTION transfers_per_mark() RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT 5::bigint';
	CREATE OR REPLACE FUNCTION sampled(sequence bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS 'SELECT sequence * 7 % 5 < 2'`

// setupDense is a database with frequent marks, and a journal without a job of its own.
func setupDense(t testing.TB) *bench {
	t.Helper()
	db := pgtest.New(t)
	if err := script(guardConn(t, db.OwnerDSN(), ""), dense); err != nil {
		t.Fatal(err)
	}
	j, pool := open(t, pg.Config{DSN: db.ServiceDSN()}, journal.Config{SnapshotEvery: -1})
	return &bench{Journal: j, db: db, pool: pool}
}

// checkDense is ledgertest.CheckBooks for such a database, whose functions are not those of the migrations. Other checks too
// may be left out.
func checkDense(t testing.TB, db *pgtest.DB, without ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	report, err := verify.Run(ctx, db.ServiceDSN(), verify.Options{})
	if err != nil {
		t.Error(err)
		return
	}
	for _, c := range report.Checks {
		if c.Name == "guards" || slices.Contains(without, c.Name) {
			continue
		}
		for _, b := range c.Breaches {
			t.Errorf("%s: %s", c.Name, b)
		}
	}
}

// recorded is a transfer of the journal as the brute force reads it.
type recorded struct {
	sequence    int64
	postedAt    time.Time
	effectiveAt *time.Time
	refusal     *string
	accounts    []int64
	amounts     []decimal.Decimal
}

// history is a random history of two ledgers, posted under a clock of the test's that goes forward, and now and then back.
type history struct {
	*bench
	random *rand.Rand
	conn   *rawConn
	clock  time.Time
	books  []ledger.Name
	ids    []ledger.AccountID
	posted int
}

func newHistory(t testing.TB, b *bench, seed uint64) *history {
	t.Helper()
	h := &history{
		bench: b, random: rand.New(rand.NewPCG(seed, 0)), conn: b.raw(t),
		clock: time.Now().Add(-10 * 24 * time.Hour).Truncate(time.Microsecond),
		books: []ledger.Name{main, "other"}, ids: []ledger.AccountID{"hot", "a", "b", "c", "idle"},
	}
	if _, err := b.CreateLedger(t.Context(), "local", "other"); err != nil {
		t.Fatal(err)
	}
	for _, book := range h.books {
		var specs []ledger.AccountSpec
		for i, id := range h.ids {
			specs = append(specs, ledger.AccountSpec{ID: id, Type: []ledger.AccountType{ledger.Asset, ledger.Liability}[i%2], Currency: "BDT"})
		}
		if _, err := b.CreateAccounts(t.Context(), "local", book, specs); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// post posts some transfers of one ledger in one statement.
func (h *history) post(t testing.TB) {
	t.Helper()
	r := h.random
	book := 1 + r.IntN(3)/2 // the first has more
	var rows []string
	for range 1 + r.IntN(4) {
		h.posted++
		switch r.IntN(40) {
		case 0:
			h.clock = h.clock.Add(-time.Duration(r.Int64N(int64(time.Hour))))
		case 1:
			h.clock = h.clock.Add(time.Duration(r.Int64N(int64(3 * time.Hour))))
		case 2, 3, 4: // a little, as between two sessions
			h.clock = h.clock.Add(-time.Duration(r.Int64N(int64(80 * time.Millisecond))))
		default:
			h.clock = h.clock.Add(time.Duration(r.Int64N(int64(40 * time.Millisecond)))).Truncate(time.Microsecond)
		}
		at := h.clock
		if r.IntN(60) == 0 { // a hand in psql that knows no clock
			at = at.Add(time.Duration(r.Int64N(int64(200*time.Hour))) - 100*time.Hour)
		}
		effective := "NULL"
		if r.IntN(3) == 0 {
			effective = sqlTime(at.Add(time.Duration(r.Int64N(int64(60*time.Hour))) - 45*time.Hour))
		}
		refusal, refused := "NULL", "NULL"
		accounts, amounts := h.legs()
		if r.IntN(10) == 0 {
			refusal, refused = "'INSUFFICIENT_FUNDS'", accounts[0]
		}
		rows = append(rows, fmt.Sprintf("(%d, 'h%d', %s, %s, %s, %s, ARRAY[%s], ARRAY[%s]::numeric[], 'psql')", book, h.posted, sqlTime(at),
			effective, refusal, refused, strings.Join(accounts, ", "), strings.Join(amounts, ", ")))
	}
	for i, row := range rows {
		rows[i] = strings.ReplaceAll(row, "$ledger", fmt.Sprint(book))
	}
	h.conn.do(t, `INSERT INTO transfer (ledger_id, transfer_id, posted_at, effective_at, refusal, refused_account_no, account_nos, amounts, caller)
		VALUES `+strings.Join(rows, ", "))
}

// legs are those of a transfer: the hot account and one or two others, sometimes one of them twice.
func (h *history) legs() (accounts, amounts []string) {
	number := func(i int) string {
		return "(SELECT account_no FROM account WHERE ledger_id = $ledger AND account_id = '" + string(h.ids[i]) + "')"
	}
	x, y := 1+h.random.IntN(1000), 1+h.random.IntN(1000)
	first, second := 1+h.random.IntN(3), 1+h.random.IntN(3)
	if h.random.IntN(2) == 0 {
		x, y = -x, -y
	}
	return []string{number(0), number(first), number(second)}, []string{fmt.Sprint(-x - y), fmt.Sprint(x), fmt.Sprint(y)}
}

func sqlTime(t time.Time) string { return "'" + t.UTC().Format("2006-01-02T15:04:05.999999Z") + "'" }

// read reads all that a ledger has, by the order of numbers.
func (h *history) read(t testing.TB, book int) (transfers []recorded, accounts map[ledger.AccountID]int64) {
	t.Helper()
	rows, err := h.pool.Query(t.Context(), `SELECT sequence, posted_at, effective_at, refusal, account_nos, amounts
		FROM transfer WHERE ledger_id = $1 ORDER BY sequence`, book)
	if err == nil {
		transfers, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (r recorded, err error) {
			return r, row.Scan(&r.sequence, &r.postedAt, &r.effectiveAt, &r.refusal, &r.accounts, &r.amounts)
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	accounts = map[ledger.AccountID]int64{}
	for _, id := range h.ids {
		accounts[id] = read[int64](t, h.conn, fmt.Sprintf("SELECT account_no FROM account WHERE ledger_id = %d AND account_id = '%s'", book, id))
	}
	return transfers, accounts
}

// bruteForce sums what is in. version is of the last of it.
func bruteForce(transfers []recorded, account int64, in func(recorded) bool) (sum decimal.Decimal, version int64) {
	for _, r := range transfers {
		if r.refusal != nil || !in(r) {
			continue
		}
		for leg, no := range r.accounts {
			if no == account {
				sum, version = sum.Add(r.amounts[leg]), r.sequence
			}
		}
	}
	return sum, version
}

// compare asks for balances as of many points, and returns how they differ from the brute force.
func (h *history) compare(t testing.TB, points int) (wrong []string) {
	t.Helper()
	for i, name := range h.books {
		transfers, accounts := h.read(t, i+1)
		if len(transfers) == 0 {
			continue
		}
		last := read[int64](t, h.conn, "SELECT last_value FROM journal_sequence")
		now := read[time.Time](t, h.conn, "SELECT clock_timestamp()")
		check := func(at ledger.AsOf, what string, in func(recorded) bool) {
			balances, err := h.BalancesAsOf(t.Context(), name, h.ids, at)
			if err != nil {
				t.Fatalf("%s as of %s: %v", name, what, err)
			}
			for n, b := range balances {
				no := accounts[h.ids[n]]
				sum, version := bruteForce(transfers, no, in)
				if n%2 == 1 { // a liability
					sum = sum.Neg()
				}
				if at.EffectiveAt != nil {
					_, version = bruteForce(transfers, no, func(recorded) bool { return true })
				}
				asOf := last
				if at.Sequence != nil {
					asOf = *at.Sequence
				}
				if !b.Posted.Equal(sum) || b.Version != version || b.AsOf != asOf {
					wrong = append(wrong, fmt.Sprintf("%s of %s as of %s: %s version %d as of %d, want %s version %d as of %d",
						b.Account, name, what, b.Posted, b.Version, b.AsOf, sum, version, asOf))
				}
			}
		}
		for range points {
			r := transfers[h.random.IntN(len(transfers))]
			n := r.sequence + int64(h.random.IntN(3)) - 1
			if n > last {
				n = last
			}
			check(ledger.AsOf{Sequence: &n}, fmt.Sprint(n), func(o recorded) bool { return o.sequence <= n })

			at := r.postedAt.Add(time.Duration(h.random.IntN(3)-1) * time.Microsecond)
			if !at.After(now) {
				check(ledger.AsOf{PostedAt: &at}, "posted "+at.String(), func(o recorded) bool { return !o.postedAt.After(at) })
			}
			if r.effectiveAt != nil && h.random.IntN(2) == 0 {
				at = r.effectiveAt.Add(time.Duration(h.random.IntN(3)-1) * time.Microsecond)
			}
			check(ledger.AsOf{EffectiveAt: &at}, "effective "+at.String(), func(o recorded) bool {
				if o.effectiveAt != nil {
					return !o.effectiveAt.After(at)
				}
				return !o.postedAt.After(at)
			})
		}
	}
	return wrong
}

// Balances as of any point are what a brute force over all transfers gives: over random histories of two ledgers whose numbers
// interleave, under a clock that is set back, with value dates before and after the posting, with marks and without.
func TestAsOf_RandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(storm(4, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := setupDense(t)
			h := newHistory(t, b, seed)
			for range storm(60, 200) {
				h.post(t)
				if h.random.IntN(12) == 0 {
					if err := h.SnapshotRound(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if h.random.IntN(10) == 0 {
					for _, w := range h.compare(t, 4) {
						t.Error(w)
					}
				}
			}
			if marks := read[int](t, h.conn, "SELECT count(*) FROM mark"); marks < 10 {
				t.Errorf("only %d marks", marks)
			}
			for _, w := range h.compare(t, 40) {
				t.Error(w)
			}
			checkDense(t, b.db, "refusals") // They are by chance here.
		})
	}
}

// Each part of it is needed: without it the same comparison finds wrong balances.
func TestAsOf_BrokenVariants(t *testing.T) {
	t.Parallel()
	for name, sql := range map[string]string{
		"times that go back are not minded":       pgtest.Mutate("stretches_around", "m.goes_back", "false"),
		"what has no mark yet is left out":        pgtest.Mutate("stretches_around", "SELECT b.last, $3 FROM bound b", "SELECT b.last, b.last FROM bound b"),
		"no disorder is put up with":              pgtest.Mutate("stretches_around", "+ interval '100 milliseconds'", ""),
		"no value dates":                          pgtest.Mutate("transfer_write_entries", "batch.value_dated > 0", "false"),
		"a balance goes past the point":           pgtest.Mutate("balance_through", "t.sequence <= balance_through.through", "t.sequence <= balance_through.through + 1"),
		"the snapshot's own entry is added again": pgtest.Mutate("balance_through", "t.sequence > coalesce", "t.sequence >= coalesce"),
		"a snapshot after the point":              pgtest.Mutate("balance_through", "AND n.through <= balance_through.through", ""),
		"a snapshot without its own entry":        pgtest.Mutate("mark_take_snapshots", "p.account_no, p.through) b", "p.account_no, p.through - 1) b"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupDense(t)
			rawAs(t, b.db.SuperDSN()).do(t, sql)
			h := newHistory(t, b, 7)
			for i := range 120 {
				h.post(t)
				if i%10 == 9 {
					if err := h.SnapshotRound(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if wrong := h.compare(t, 200); len(wrong) == 0 {
				t.Error("the broken variant is not caught")
			}
		})
	}
}

// A point that is still to come is refused: its balance would not stay as it is.
func TestAsOf_StillToCome(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	r := b.post(t, move("ONE", "cash", "shop", "5"))
	ask := func(at ledger.AsOf) (string, error) {
		balances, err := b.BalancesAsOf(t.Context(), main, []ledger.AccountID{"shop"}, at)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("%s version %d as of %d", balances[0].Posted, balances[0].Version, balances[0].AsOf), nil
	}
	seq, next, none, minus := r.Transfer.Sequence, r.Transfer.Sequence+1, int64(0), int64(-1)
	soon, before, posted := time.Now().Add(time.Hour), r.Transfer.PostedAt.Add(-time.Nanosecond), r.Transfer.PostedAt.Add(999*time.Nanosecond)
	ancient := time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		at   ledger.AsOf
		want string // or the field that is at fault
	}{
		"now":                       {ledger.AsOf{}, fmt.Sprintf("5 version %d as of 0", seq)},
		"its number":                {ledger.AsOf{Sequence: &seq}, fmt.Sprintf("5 version %d as of %d", seq, seq)},
		"number 0":                  {ledger.AsOf{Sequence: &none}, "0 version 0 as of 0"},
		"a number below 0":          {ledger.AsOf{Sequence: &minus}, "as_of_sequence"},
		"the next number":           {ledger.AsOf{Sequence: &next}, "as_of_sequence"},
		"its time":                  {ledger.AsOf{PostedAt: &posted}, fmt.Sprintf("5 version %d as of %d", seq, seq)},
		"a nanosecond earlier":      {ledger.AsOf{PostedAt: &before}, fmt.Sprintf("0 version 0 as of %d", seq)},
		"a time in the future":      {ledger.AsOf{PostedAt: &soon}, "as_of_posted_at"},
		"to take effect by then":    {ledger.AsOf{EffectiveAt: &soon}, fmt.Sprintf("5 version %d as of %d", seq, seq)},
		"a time before all times":   {ledger.AsOf{PostedAt: &ancient}, "as_of_posted_at"},
		"an effective time as well": {ledger.AsOf{EffectiveAt: &ancient}, "as_of_effective_at"},
		"two points":                {ledger.AsOf{Sequence: &seq, PostedAt: &posted}, "as_of"},
	} {
		got, err := ask(c.at)
		var e *ledger.Error
		if errors.As(err, &e) && e.Code == ledger.CodeInvalidArgument && len(e.Violations) == 1 {
			got = e.Violations[0].Field
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// Rule: a balance as of a number waits until nothing below it is in flight, unless a mark says so already.
func TestAsOf_WaitsForTheHorizon(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	poster, watcher := b.raw(t), rawAs(t, b.db.SuperDSN())
	poster.do(t, "BEGIN", gateShare, insertMove("LATE", "cash", "shop", "1"))
	after := b.post(t, move("A", "cash", "shop", "1")).Transfer
	points := []ledger.AsOf{{Sequence: &after.Sequence}, {PostedAt: &after.PostedAt}, {EffectiveAt: &after.PostedAt}}
	var asked []chan string
	for _, at := range points {
		asked = append(asked, start(func() string {
			balances, err := b.BalancesAsOf(context.Background(), main, []ledger.AccountID{"shop"}, at)
			if err != nil {
				return err.Error()
			}
			return balances[0].Posted.String()
		}))
	}
	watcher.awaitReader(t)
	for _, answer := range asked {
		pending(t, answer)
	}
	poster.do(t, "COMMIT")
	var got []string
	for _, answer := range asked {
		got = append(got, result(t, answer))
	}
	if !slices.Equal(got, []string{"2", "2", "2"}) {
		t.Errorf("balances %v", got)
	}
}
