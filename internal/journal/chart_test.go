package journal

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// world is a database as far as the chart can see it: the statements that a batch reads with, and what happens beside them.
// Every statement sees what is committed when it begins, and between any two of them anything may happen that the gate and
// the locks allow.
type world struct {
	state
	started time.Time
	// clock counts what happens.
	clock    int
	locks    map[int64]*session
	sessions []*session // that live: each holds the gate
	batches  []*session // that have not come to their end, dead or alive
	err      error      // what went wrong in a batch
	// asked counts statements, by name, and added how many entries they have added up.
	asked map[string]int
	added int
}

// state is what a backup has.
type state struct {
	sequence int64 // the last number drawn
	accounts map[ledger.AccountID]worldAccount
	changes  []dbsqlc.AccountsChangedSinceRow
	entries  map[int64][]worldEntry
}

type worldAccount struct {
	dbsqlc.AccountsForPostingRow
	born int
}

type worldEntry struct {
	sequence int64
	sums     sums
}

func (s state) clone() state {
	s.accounts, s.entries, s.changes = maps.Clone(s.accounts), maps.Clone(s.entries), slices.Clone(s.changes)
	return s
}

// session is a transaction.
type session struct {
	w    *world
	dead bool
	// next goes on with a batch up to its next statement, and stop ends it; both are nil for other transactions, which end by
	// commit.
	next   func() (struct{}, bool)
	stop   func()
	pause  func() bool
	commit func()
	readAt int
	try    *try
}

func newWorld() *world {
	return &world{
		started: time.Unix(1_000_000, 0), locks: map[int64]*session{}, asked: map[string]int{},
		state: state{accounts: map[ledger.AccountID]worldAccount{}, entries: map[int64][]worldEntry{}},
	}
}

func (w *world) draw() int64 {
	w.sequence++
	return w.sequence
}

// end ends a session: it lets go of the gate and of all locks.
func (w *world) end(s *session) {
	s.dead = true
	w.sessions = slices.DeleteFunc(w.sessions, func(o *session) bool { return o == s })
	maps.DeleteFunc(w.locks, func(_ int64, holder *session) bool { return holder == s })
}

// put makes an account, or changes it, under a number drawn earlier.
func (w *world) put(id ledger.AccountID, sequence int64, change func(*dbsqlc.AccountsForPostingRow)) {
	a, ok := w.accounts[id]
	if !ok {
		a.AccountNo, a.AccountID = int64(1000+len(w.accounts)), string(id)
		a.Type, a.Currency, a.Scale, a.Frozen, a.born = "liability", "BDT", 2, "none", w.clock
	}
	change(&a.AccountsForPostingRow)
	a.Version = sequence
	w.accounts[id] = a
	w.changes = append(w.changes, dbsqlc.AccountsChangedSinceRow{Sequence: sequence, AccountID: string(id)})
}

// begin begins something that holds the gate with others, and is seen when it commits.
func (w *world) begin(commit func()) *session {
	s := &session{w: w, commit: commit}
	w.sessions = append(w.sessions, s)
	return s
}

// batch begins a batch of transfers, one for each account: it locks and reads as posting does, is checked, and then writes
// entries and commits, or is rolled back.
func (w *world) batch(c *chart, writes bool, ids ...ledger.AccountID) *session {
	var items []item
	for i, id := range ids {
		items = append(items, item{caller: "local", spec: ledger.TransferSpec{
			ID: ledger.TransferID(fmt.Sprint(i)), Entries: ledger.Simple(id, ids[(i+1)%len(ids)], decimal.New(1, 0), ""),
		}})
	}
	s := &session{w: w}
	w.sessions, w.batches = append(w.sessions, s), append(w.batches, s)
	begin := func() {
		s.try = &try{book: ledgerRow{1}, chart: c, items: items, books: ledger.NewBooks(10, 10)}
		s.try.trip = s.trip
	}
	begin()
	s.next, s.stop = iter.Pull(func(yield func(struct{}) bool) {
		s.pause = func() bool { return yield(struct{}{}) }
		defer func() {
			w.end(s)
			w.batches = slices.DeleteFunc(w.batches, func(o *session) bool { return o == s })
		}()
		for {
			err := s.try.lockAndLoad()
			if err == nil && !s.dead {
				break
			}
			if !errors.Is(err, pg.ErrAgain) || s.dead {
				return
			}
			// It is rolled back, and runs again.
			w.end(s)
			if !s.pause() {
				return
			}
			s.dead = false
			w.sessions = append(w.sessions, s)
			begin()
		}
		s.check()
		if !writes || !s.pause() {
			return
		}
		sequence := w.draw()
		if !s.pause() || s.dead {
			return
		}
		for _, id := range ids {
			if a := s.try.view.accounts[id]; a != nil {
				// Not appended in place: a backup may share the array.
				w.entries[a.no] = append(slices.Clip(w.entries[a.no]), worldEntry{sequence, odd(sequence)})
			}
		}
	})
	return s
}

// finish goes on with a batch to its end.
func (s *session) finish() {
	for more := true; more; {
		_, more = s.next()
	}
}

// stop ends all batches.
func (w *world) stop() {
	for _, s := range slices.Clone(w.batches) {
		s.stop()
	}
	w.batches = nil
}

var errLost = errors.New("connection lost")

// trip answers the statements of a trip, with a pause before each, and one before the answers arrive.
func (s *session) trip(b *pgx.Batch) error {
	var answers []func() error
	for i, q := range b.QueuedQueries {
		if !s.pause() || s.dead {
			return errLost
		}
		if i == 0 {
			s.readAt = s.w.clock
		}
		rows, err := s.answer(q.SQL, q.Arguments) //nolint:rowserrcheck // they are of this file, and have no errors
		if err != nil {
			return err
		}
		answers = append(answers, func() error { return q.Fn(worldResults{rows: rows}) })
	}
	if !s.pause() {
		return errLost
	}
	for _, answer := range answers {
		if err := answer(); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) answer(sql string, args []any) (rows *worldRows, err error) {
	w := s.w
	name, _, _ := strings.Cut(strings.TrimPrefix(sql, "-- name: "), " ")
	w.asked[name]++
	rows = &worldRows{}
	switch sql {
	case dbsqlc.GateShareForPosting:
		rows.add(w.started, int64(1), "held")
	case dbsqlc.AccountsLockSerialised:
		var found []ledger.AccountID // by the snapshot of the statement
		for _, id := range slices.Sorted(slices.Values(args[0].([]string))) {
			if a, ok := w.accounts[ledger.AccountID(id)]; ok && a.Serialised {
				found = append(found, ledger.AccountID(id))
			}
		}
		for _, id := range found {
			no := w.accounts[id].AccountNo
			for w.locks[no] != nil && w.locks[no] != s {
				if !s.pause() || s.dead {
					return nil, errLost
				}
			}
			w.locks[no] = s
			rows.add(no)
		}
	case dbsqlc.LastAccountChange:
		var last int64
		for _, c := range w.changes {
			last = max(last, c.Sequence)
		}
		if last > 0 {
			rows.add(last)
		}
	case dbsqlc.AccountsChangedSince:
		since, most := args[1].(int64), args[2].(int)
		newest := slices.SortedFunc(slices.Values(w.changes), func(a, b dbsqlc.AccountsChangedSinceRow) int { return -cmp.Compare(a.Sequence, b.Sequence) })
		for _, c := range newest {
			if c.Sequence > since && len(rows.values) < most {
				rows.add(c.Sequence, c.AccountID)
			}
		}
	case dbsqlc.AccountsForPosting:
		for _, id := range args[0].([]string) {
			if a, ok := w.accounts[ledger.AccountID(id)]; ok {
				row := a.AccountsForPostingRow
				if row.Floor != nil {
					var all sums
					all, row.Through = w.sum(row.AccountNo, 0)
					row.Sum, row.HeldDebit, row.HeldCredit = all.entries, all.heldDebit, all.heldCredit
				}
				rows.addStruct(row)
			}
		}
	case dbsqlc.EntriesSince:
		for i, no := range args[0].([]int64) {
			if sum, through := w.sum(no, args[1].([]int64)[i]); through > 0 {
				rows.add(no, sum.entries, sum.heldDebit, sum.heldCredit, through)
			}
		}
	default:
		return nil, fmt.Errorf("the world knows no such statement: %s", sql)
	}
	return rows, nil
}

// odd makes sums that tell which number they are of, and each other apart.
func odd(sequence int64) sums {
	return sums{decimal.New(sequence, 0), decimal.New(sequence, 1), decimal.New(-sequence, 2)}
}

func text(s sums) string { return fmt.Sprint(s.entries, " ", s.heldDebit, " ", s.heldCredit) }

// sum adds up the entries of an account after a number, and gives the number of the last.
func (w *world) sum(no, since int64) (sum sums, through int64) {
	for _, e := range w.entries[no] {
		if e.sequence > since {
			sum, through = sum.plus(e.sums.entries, e.sums.heldDebit, e.sums.heldCredit), max(through, e.sequence)
			w.added++
		}
	}
	return sum, through
}

// check compares what a batch is about to decide by with what is so. Nothing of it can change before the batch ends.
func (s *session) check() {
	w := s.w
	fault := func(format string, args ...any) { w.err = errors.Join(w.err, fmt.Errorf(format, args...)) }
	for id, got := range s.try.view.accounts {
		want, there := w.accounts[id]
		if got == nil {
			if there && want.born < s.readAt {
				fault("%s is not known, and has been there for long", id)
			}
			continue
		}
		if !there || got.no != want.AccountNo {
			fault("%s is known as number %d, and is %+v", id, got.no, want)
			continue
		}
		rules := func(floor *decimal.Decimal, serialised bool, frozen string, closed bool) string {
			return fmt.Sprint("floor ", floor, ", serialised ", serialised, ", frozen ", frozen, ", closed ", closed)
		}
		if k, is := rules(got.Floor, got.Serialised, string(got.Frozen), got.Closed), rules(want.Floor, want.Serialised, want.Frozen, want.Closed); k != is {
			fault("%s is known with %s, and has %s", id, k, is)
		}
		if want.Floor == nil {
			continue
		}
		if w.locks[want.AccountNo] != s {
			fault("%s has a floor and is not locked", id)
		}
		if sum, _ := w.sum(want.AccountNo, 0); text(sum) != text(got.sums) {
			fault("%s is known with sums of %s, and has %s", id, text(got.sums), text(sum))
		}
	}
}

// worldResults and worldRows are what pgx would hand out.
type worldResults struct {
	pgx.BatchResults
	rows *worldRows
}

func (r worldResults) Query() (pgx.Rows, error) { return r.rows, nil }

type worldRows struct {
	pgx.Rows
	values [][]any
	row    []any
}

func (r *worldRows) add(values ...any) { r.values = append(r.values, values) }

func (r *worldRows) addStruct(row any) {
	v := reflect.ValueOf(row)
	values := make([]any, v.NumField())
	for i := range values {
		values[i] = v.Field(i).Interface()
	}
	r.add(values...)
}

func (r *worldRows) Close() {}

func (r *worldRows) Err() error { return nil }

func (r *worldRows) FieldDescriptions() []pgconn.FieldDescription {
	return make([]pgconn.FieldDescription, len(r.row))
}

func (r *worldRows) RawValues() [][]byte { return make([][]byte, len(r.row)) }

func (r *worldRows) Next() bool {
	if len(r.values) == 0 {
		return false
	}
	r.row, r.values = r.values[0], r.values[1:]
	return true
}

func (r *worldRows) Scan(targets ...any) error {
	if len(targets) != len(r.row) {
		return fmt.Errorf("%d targets for %d columns", len(targets), len(r.row))
	}
	for i, target := range targets {
		reflect.ValueOf(target).Elem().Set(reflect.ValueOf(r.row[i]))
	}
	return nil
}

// TestChart_Random has two servers decide batches in a world where accounts are made and renamed beside them, rules change
// between them, backends die, and PostgreSQL crashes, is started again, or is restored to an older state. Whatever a batch
// remembers, what it decides by must be so.
func TestChart_Random(t *testing.T) { // not parallel: another test sets how often rapid checks
	rounds := 3
	if os.Getenv("KHATA_TEST_LONG") != "" {
		rounds = 100
	}
	for range rounds {
		rapid.Check(t, checkChart)
	}
}

func checkChart(t *rapid.T) {
	m := &chartMachine{world: newWorld(), charts: []*chart{newChart(), newChart()}}
	defer m.stop()
	for _, id := range []ledger.AccountID{"a", "b", "c"} {
		m.put(id, m.draw(), drawRules(t))
	}
	m.backUp(t)
	t.Repeat(map[string]func(*rapid.T){
		"create": m.create, "rename": m.rename, "commit": m.commitOne, "change": m.change, "batch": m.start,
		"step": m.step, "step 2": m.step, "step 3": m.step, "run": m.run, "die": m.die, "again": m.again, "backup": m.backUp, "": m.check,
	})
}

type chartMachine struct {
	*world
	charts []*chart
	backup *state
	filler int
}

func (m *chartMachine) check(t *rapid.T) {
	m.clock++
	if m.err != nil {
		t.Fatal(m.err)
	}
}

func drawAccount(t *rapid.T) ledger.AccountID {
	return rapid.SampledFrom([]ledger.AccountID{"a", "b", "c", "d"}).Draw(t, "account")
}

func drawRules(t *rapid.T) func(*dbsqlc.AccountsForPostingRow) {
	kind, value := rapid.IntRange(0, 5).Draw(t, "rules"), rapid.IntRange(0, 3).Draw(t, "value")
	return func(a *dbsqlc.AccountsForPostingRow) {
		switch kind {
		case 0, 1:
			floor := decimal.New(int64(value), 0)
			a.Floor, a.Serialised = &floor, true
		case 2:
			a.Floor, a.Serialised = nil, value > 0
		case 3:
			a.Frozen = []string{"none", "debits", "credits", "both"}[value]
		case 4:
			a.Closed = a.Closed || value == 0
		}
	}
}

// create makes an account, to be seen later.
func (m *chartMachine) create(t *rapid.T) {
	id, rules, sequence := drawAccount(t), drawRules(t), m.draw()
	if rapid.IntRange(0, 9).Draw(t, "many") == 0 { // an import
		for range mostChanges + 5 {
			m.filler++
			m.put(ledger.AccountID(fmt.Sprint("filler:", m.filler)), m.draw(), func(*dbsqlc.AccountsForPostingRow) {})
		}
	}
	m.begin(func() {
		if _, ok := m.accounts[id]; !ok {
			m.put(id, sequence, rules)
		}
	})
}

// rename changes what is no rule: beside others, but not beside whoever has the account locked.
func (m *chartMachine) rename(t *rapid.T) {
	id := drawAccount(t)
	a, ok := m.accounts[id]
	if !ok || m.locks[a.AccountNo] != nil {
		return
	}
	sequence := m.draw()
	m.locks[a.AccountNo] = m.begin(func() { m.put(id, sequence, func(*dbsqlc.AccountsForPostingRow) {}) })
}

func (m *chartMachine) commitOne(t *rapid.T) {
	var open []*session
	for _, s := range m.sessions {
		if s.commit != nil {
			open = append(open, s)
		}
	}
	if len(open) > 0 {
		s := rapid.SampledFrom(open).Draw(t, "session")
		s.commit()
		m.end(s)
	}
}

// change changes rules, which takes the gate alone.
func (m *chartMachine) change(t *rapid.T) {
	id := drawAccount(t)
	if rapid.Bool().Draw(t, "wait for the gate") {
		m.run(t)
	}
	if _, ok := m.accounts[id]; ok && len(m.sessions) == 0 {
		m.put(id, m.draw(), drawRules(t))
	}
}

func (m *chartMachine) start(t *rapid.T) {
	if len(m.sessions) < 5 {
		ids := rapid.SliceOfN(rapid.Custom(drawAccount), 1, 3).Draw(t, "accounts")
		s := m.batch(rapid.SampledFrom(m.charts).Draw(t, "server"), rapid.Bool().Draw(t, "writes"), ids...)
		for range rapid.SampledFrom([]int{0, 2, 30}).Draw(t, "steps") {
			s.next()
		}
	}
}

func (m *chartMachine) step(t *rapid.T) {
	if len(m.batches) > 0 {
		s := rapid.SampledFrom(m.batches).Draw(t, "session")
		for range rapid.IntRange(1, 4).Draw(t, "steps") {
			s.next()
		}
	}
}

// run lets everybody come to an end, unless they wait for each other.
func (m *chartMachine) run(*rapid.T) {
	for range 100 {
		for _, s := range slices.Clone(m.batches) {
			s.next()
		}
		for _, s := range slices.Clone(m.sessions) {
			if s.commit != nil {
				s.commit()
				m.end(s)
			}
		}
	}
}

// die ends a backend. Its client may have all its answers already, and go on for a while.
func (m *chartMachine) die(t *rapid.T) {
	if len(m.sessions) > 0 {
		s := rapid.SampledFrom(m.sessions).Draw(t, "session")
		m.end(s)
	}
}

func (m *chartMachine) backUp(*rapid.T) {
	b := m.state.clone()
	m.backup = &b
}

// again crashes PostgreSQL, or starts it again, perhaps with an older state. What was drawn and not written is drawn again.
func (m *chartMachine) again(t *rapid.T) {
	for _, s := range slices.Clone(m.sessions) {
		m.end(s)
	}
	kind := rapid.IntRange(0, 2).Draw(t, "crash, start, restore")
	if kind > 0 {
		m.started = m.started.Add(time.Second)
	}
	if kind == 2 && m.backup != nil {
		m.state = m.backup.clone()
	}
	m.sequence = 0
	for _, c := range m.changes {
		m.sequence = max(m.sequence, c.Sequence)
	}
	for _, list := range m.entries {
		m.sequence = max(m.sequence, list[len(list)-1].sequence)
	}
}

// TestChart_Trips counts what posting asks the database for: a batch whose accounts are known reads none of them, and so
// again after a change has been noticed.
func TestChart_Trips(t *testing.T) {
	t.Parallel()
	w, c := newWorld(), newChart()
	floor := decimal.Zero
	w.put("wallet", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Floor, a.Serialised = &floor, true })
	w.put("shop", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
	post := func(what, want string, ids ...ledger.AccountID) {
		t.Helper()
		clear(w.asked)
		w.batch(c, true, ids...).finish()
		var got []string
		for name, n := range w.asked {
			got = append(got, fmt.Sprintf("%s %d", name, n))
		}
		slices.Sort(got)
		if s := strings.Join(got, ", "); s != want || w.err != nil {
			t.Errorf("%s: %s, want %s; %v", what, s, want, w.err)
		}
	}
	const (
		known   = "AccountsLockSerialised 1, EntriesSince 1, GateShareForPosting 1, LastAccountChange 1"
		unknown = "AccountsForPosting 1, AccountsLockSerialised 1, GateShareForPosting 1, LastAccountChange 1"
		// With a lock in hand the batch begins anew.
		other = "AccountsForPosting 1, AccountsLockSerialised 2, EntriesSince 1, GateShareForPosting 2, LastAccountChange 2"
	)
	post("at first", unknown, "wallet", "shop")
	for n := range 10 {
		before := w.added
		post("known", known, "wallet", "shop")
		if got := w.added - before - (n + 1); got != 1 { // those of before are added up by the check
			t.Errorf("for the balance of an account that is known it has added up %d entries", got)
		}
	}
	w.put("shop", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Frozen = "both" })
	post("a change", "AccountsChangedSince 1, "+strings.Replace(other, "Since 1", "Since 2", 1), "wallet", "shop")
	post("known again", known, "wallet", "shop")
	w.put("stranger", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
	post("a change of another", "AccountsChangedSince 1, "+known, "wallet", "shop")
	w.started = w.started.Add(time.Hour)
	post("another PostgreSQL", other, "wallet", "shop")
	post("known again", known, "wallet", "shop")
	for i := range mostChanges {
		w.put(ledger.AccountID(fmt.Sprint("import:", i)), w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
	}
	post("an import", "AccountsChangedSince 1, "+other, "wallet", "shop")
	post("known again", known, "wallet", "shop")
	defer w.stop()
	if got := fmt.Sprint(c.serialised(w.batch(c, false, "wallet", "shop", "stranger").try.items)); got != "[wallet wallet]" {
		t.Errorf("serialised: %s", got)
	}
}

// Another PostgreSQL may know less than the one before, and give the same numbers to other facts.
func TestChart_Restored(t *testing.T) {
	t.Parallel()
	w, c := newWorld(), newChart()
	floor := decimal.Zero
	w.put("wallet", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Floor, a.Serialised = &floor, true })
	w.put("shop", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
	post := func() {
		t.Helper()
		if w.batch(c, true, "wallet", "shop").finish(); w.err != nil {
			t.Fatal(w.err)
		}
	}
	post()
	backup := w.state.clone()
	for range 3 {
		post()
	}
	w.put("stranger", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
	post()
	w.state, w.started = backup, w.started.Add(time.Hour)
	post() // the sum is another one
	// These changes have numbers that were seen before.
	w.put("shop", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Frozen = "both" })
	post()
	w.put("wallet", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Floor = nil })
	post()
}

// A batch whose backend has died may still be about to tell the chart what it has read, however long ago. What others have
// noticed meanwhile is not undone.
func TestChart_Late(t *testing.T) {
	t.Parallel()
	frozen := func(a *dbsqlc.AccountsForPostingRow) { a.Frozen = "both" }
	for steps := range 12 {
		for name, change := range map[string]func(w *world, c *chart){
			"a change of rules": func(w *world, _ *chart) { w.put("shop", w.draw(), frozen) },
			"a change that another batch has noticed": func(w *world, c *chart) {
				w.put("shop", w.draw(), frozen)
				w.batch(c, true, "wallet", "cash").finish()
			},
			"a payment": func(w *world, c *chart) { w.batch(c, true, "wallet", "shop").finish() },
			// The same numbers, of other facts.
			"another PostgreSQL": func(w *world, c *chart) {
				w.started = w.started.Add(time.Hour)
				shop, wallet := w.accounts["shop"], w.accounts["wallet"]
				frozen(&shop.AccountsForPostingRow)
				w.accounts["shop"] = shop
				w.entries[wallet.AccountNo] = []worldEntry{{w.draw(), sums{entries: decimal.New(77, 0)}}}
				w.batch(c, false, "cash").finish()
			},
			"an import": func(w *world, c *chart) {
				w.put("shop", w.draw(), frozen)
				for i := range mostChanges {
					w.put(ledger.AccountID(fmt.Sprint("import:", i)), w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
				}
				w.batch(c, true, "wallet", "cash").finish()
			},
		} {
			for _, warm := range []bool{false, true} {
				w, c := newWorld(), newChart()
				floor := decimal.Zero
				w.put("cash", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
				w.put("shop", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
				w.put("wallet", w.draw(), func(a *dbsqlc.AccountsForPostingRow) { a.Floor, a.Serialised = &floor, true })
				w.batch(c, true, "cash").finish()
				if warm {
					w.batch(c, true, "cash", "shop", "wallet").finish()
				}
				late := w.batch(c, true, "shop", "wallet")
				for range steps {
					late.next()
				}
				w.end(late)
				change(w, c)
				late.finish()
				for range 2 {
					w.batch(c, true, "shop", "wallet", "cash").finish()
				}
				if w.err != nil {
					t.Errorf("%s after %d steps (warm: %v): %v", name, steps, warm, w.err)
				}
			}
		}
	}
}

// What holds the gate with others may happen between any two statements of a batch: an account comes into being, with a
// floor, or is renamed.
func TestChart_Beside(t *testing.T) {
	t.Parallel()
	floor := decimal.Zero
	newborn := func(a *dbsqlc.AccountsForPostingRow) { a.Floor, a.Serialised = &floor, true }
	for steps := range 12 {
		for name, happen := range map[string]func(w *world){
			"born": func(w *world) { w.put("newborn", w.draw(), newborn) },
			"born with an earlier number": func(w *world) {
				sequence := w.draw()
				w.put("another", w.draw(), newborn)
				w.put("newborn", sequence, newborn)
			},
			"renamed": func(w *world) { w.put("shop", w.draw(), func(*dbsqlc.AccountsForPostingRow) {}) },
		} {
			w, c := newWorld(), newChart()
			w.put("shop", w.draw(), func(*dbsqlc.AccountsForPostingRow) {})
			w.batch(c, true, "shop").finish()
			b := w.batch(c, true, "shop", "newborn")
			for range steps {
				b.next()
			}
			w.clock++
			happen(w)
			w.clock++
			b.finish()
			w.batch(c, true, "shop", "newborn", "another").finish()
			if w.err != nil {
				t.Errorf("%s after %d steps: %v", name, steps, w.err)
			}
		}
	}
}

// The order in which batches tell what they have seen is nobody's: later ones may come first.
func TestChart_Order(t *testing.T) {
	t.Parallel()
	run, another := time.Unix(1, 0), time.Unix(2, 0)
	account := func(id ledger.AccountID, version int64) *charted {
		return &charted{Account: ledger.Account{ID: id, Version: version}, through: version}
	}
	c := newChart()
	expect := func(what string, started time.Time, through int64, known string) {
		t.Helper()
		var ids []string
		for id, a := range c.accounts {
			ids = append(ids, fmt.Sprintf("%s %d", id, a.Version))
		}
		slices.Sort(ids)
		if got := strings.Join(ids, ", "); !c.started.Equal(started) || c.through != through || got != known {
			t.Errorf("%s: through %d of the run of %v, knowing %q; want %d, %v, %q", what, c.through, c.started, got, through, started, known)
		}
	}
	c.reset(run, 10)
	c.learn(run, 10, []*charted{account("a", 5), account("b", 7)})
	expect("learnt", run, 10, "a 5, b 7")
	c.forget(run, 10, 20, []ledger.AccountID{"a"})
	expect("a change", run, 20, "b 7")
	c.learn(run, 10, []*charted{account("a", 5)})
	expect("learnt before the change", run, 20, "b 7")
	c.learn(another, 20, []*charted{account("a", 5)})
	expect("learnt of another run", run, 20, "b 7")
	c.learn(run, 20, []*charted{account("a", 20)})
	expect("learnt after the change", run, 20, "a 20, b 7")
	c.forget(run, 10, 15, []ledger.AccountID{"x"})
	expect("an earlier change, told late", run, 20, "a 20, b 7")
	c.forget(run, 30, 40, []ledger.AccountID{"b"})
	expect("a change after some that are not told yet", run, 20, "a 20, b 7")
	c.forget(another, 20, 40, []ledger.AccountID{"b"})
	expect("a change of another run", run, 20, "a 20, b 7")
	older := account("a", 20)
	older.through = 15
	c.learn(run, 20, []*charted{older})
	if c.accounts["a"].through != 20 {
		t.Error("an older sum takes the place of a newer one")
	}
	newer := account("a", 20)
	newer.through = 25
	c.learn(run, 20, []*charted{newer})
	if c.accounts["a"].through != 25 {
		t.Error("a newer sum is not taken over")
	}
	c.reset(another, 3)
	expect("another run", another, 3, "")
}

// What is remembered is bounded, and what is forgotten for want of room is read again.
func TestChart_Bounded(t *testing.T) {
	t.Parallel()
	c := newChart()
	accounts := make([]charted, maxCharted+1000)
	list := make([]*charted, len(accounts))
	for i := range accounts {
		accounts[i].ID = ledger.AccountID(fmt.Sprint("account:", i))
		list[i] = &accounts[i]
	}
	c.learn(time.Time{}, 0, list)
	if len(c.accounts) != maxCharted {
		t.Errorf("%d accounts are remembered, the bound is %d", len(c.accounts), maxCharted)
	}
	c.learn(time.Time{}, 0, list[:1000])
	if len(c.accounts) != maxCharted {
		t.Errorf("%d accounts are remembered, the bound is %d", len(c.accounts), maxCharted)
	}
}

// TestChart_Memory measures a full chart of accounts with a floor, and that it takes no more.
func TestChart_Memory(t *testing.T) { // not parallel: it measures the memory of the process
	const bound = 100 << 20 // docs/operations.md says so
	before := heap()
	c := newChart()
	floor := decimal.Zero
	for i := range maxCharted + 1000 {
		id := ledger.AccountID(fmt.Sprintf("liability:customers:wallet:%09d", i))
		c.learn(c.started, c.through, []*charted{{
			Account: ledger.Account{
				ID: id, Type: ledger.Liability, Currency: ledger.Currency{Code: "BDT", Scale: 2}, Floor: &floor, Serialised: true,
				Frozen: ledger.FrozenNone, Version: int64(i),
			},
			no: int64(i), sums: sums{entries: decimal.New(int64(i)+1<<40, -2)}, through: int64(i),
		}})
	}
	took := heap() - before
	t.Logf("%d accounts take %d bytes", len(c.accounts), took)
	if len(c.accounts) != maxCharted || took > bound {
		t.Errorf("%d accounts take %d bytes, the bound is %d accounts and %d bytes", len(c.accounts), took, maxCharted, bound)
	}
}
