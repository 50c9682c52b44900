package journal_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// TestModel runs random operations, several at once, on two servers with one database, and holds what they answer against a
// model that is told of them one at a time, in the order of their sequences. That order is a promise: it is the order of
// decision, of transfers and of changes of accounts alike.
func TestModel(t *testing.T) {
	t.Parallel()
	checks := "25"
	if os.Getenv("KHATA_TEST_LONG") != "" {
		checks = "400"
	}
	if f := flag.Lookup("rapid.checks"); f.Value.String() == f.DefValue {
		if err := flag.Set("rapid.checks", checks); err != nil {
			t.Fatal(err)
		}
	}
	db := pgtest.New(t)
	// With snapshots at every turn, so that balances are computed from them.
	if err := script(guardConn(t, db.OwnerDSN(), ""), dense); err != nil {
		t.Fatal(err)
	}
	config := journal.Config{SnapshotEvery: 10 * time.Millisecond, ExpireEvery: -1}
	one, _ := open(t, pg.Config{DSN: db.ServiceDSN()}, config)
	two, _ := open(t, pg.Config{DSN: db.ServiceDSN()}, config)
	var books atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{
			ctx: t.Context(), servers: []*journal.Journal{one, two}, model: ledgertest.NewModel(),
			ledger: ledger.Name(fmt.Sprintf("model-%d", books.Add(1))), log: t.Logf,
		}
		m.start(rt)
		rt.Repeat(map[string]func(*rapid.T){
			"concurrent": m.concurrently,
			"":           m.check,
		})
	})
	checkDense(t, db)
}

var modelAccounts = []ledger.AccountSpec{
	{ID: "bank", Type: ledger.Asset, Currency: "BDT"},
	{ID: "fees", Type: ledger.Revenue, Currency: "BDT"},
	{ID: "costs", Type: ledger.Expense, Currency: "BDT", Serialised: true},
	{ID: "a", Type: ledger.Liability, Currency: "BDT", Floor: floor("0")},
	{ID: "b", Type: ledger.Liability, Currency: "BDT", Floor: floor("0")},
	{ID: "c", Type: ledger.Liability, Currency: "BDT", Floor: floor("-10.00")},
	{ID: "till", Type: ledger.Asset, Currency: "BDT", Floor: floor("0"), Ceiling: floor("30")},
}

// machine drives the servers and the model.
type machine struct {
	ctx     context.Context
	servers []*journal.Journal
	ledger  ledger.Name
	model   *ledgertest.Model
	firsts  map[string]*ledger.Transfer
	// closings are the changes of closed periods that the model knows.
	closings map[int64]bool
	// past are accounts as the model had them once it knew everything up to a number.
	past []pastAccounts
	// log is that of the test: what goes wrong once and not again, rapid does not tell.
	log func(string, ...any)
}

func (m *machine) fatalf(t *rapid.T, format string, args ...any) {
	m.log(format, args...)
	t.Fatalf(format, args...)
}

type pastAccounts struct {
	sequence int64
	accounts []ledgertest.ModelAccount // in the order of modelAccounts
}

func (m *machine) start(t *rapid.T) {
	m.firsts, m.closings = map[string]*ledger.Transfer{}, map[int64]bool{}
	if _, err := m.servers[0].CreateLedger(m.ctx, "local", m.ledger); err != nil {
		t.Fatal(err)
	}
	if _, err := m.servers[0].CreateAccounts(m.ctx, "local", m.ledger, modelAccounts); err != nil {
		t.Fatal(err)
	}
	for _, a := range modelAccounts {
		m.model.Open(string(a.ID), ledgertest.ModelAccount{
			DebitNormal: a.Type == ledger.Asset || a.Type == ledger.Expense, Floor: cents(a.Floor), Ceiling: cents(a.Ceiling),
			Serialised: a.Serialised || a.Floor != nil || a.Ceiling != nil,
		})
	}
}

func cents(d *decimal.Decimal) *int64 {
	if d == nil {
		return nil
	}
	c := d.Shift(2).IntPart()
	return &c
}

// operation is one call and what came of it.
type operation struct {
	server int
	// Of a post: one or more requests in a call.
	specs   []ledger.TransferSpec
	atomic  bool
	results []journal.PostResult
	// expire runs the job that expires holds.
	expire bool
	// Of a period that is closed, or opened with a reason; and the change that was in force then.
	closing, opening *time.Time
	closed           *ledger.PeriodChange
	// Of an update.
	account ledger.AccountID
	update  ledger.AccountUpdate
	after   ledger.Account
	err     error
}

// fact is what the model is told of.
type fact struct {
	sequence int64
	record   *ledger.Transfer
	// mates are what came before the culprit of an atomic call in it.
	mates  []ledger.TransferSpec
	update *operation
	closed *ledger.PeriodChange
}

func (m *machine) concurrently(t *rapid.T) {
	ops := rapid.SliceOfN(rapid.Custom(m.draw), 1, 6).Draw(t, "operations")
	before := map[ledger.AccountID]int64{}
	for _, a := range modelAccounts {
		account, err := m.servers[0].Account(m.ctx, m.ledger, a.ID)
		if err != nil {
			t.Fatal(err)
		}
		before[a.ID] = account.Version
	}
	var wg sync.WaitGroup
	for _, op := range ops {
		wg.Go(func() { m.run(op) })
	}
	wg.Wait()

	facts := m.facts(t, ops, before)
	slices.SortFunc(facts, func(a, b fact) int { return cmp.Compare(a.sequence, b.sequence) })
	for _, f := range facts {
		m.tell(t, f)
	}
	if len(facts) > 0 {
		then := pastAccounts{sequence: facts[len(facts)-1].sequence}
		for _, a := range modelAccounts {
			then.accounts = append(then.accounts, *m.model.Account(string(a.ID)))
		}
		m.past = append(m.past, then)
	}
	for _, op := range ops {
		m.judge(t, op, len(ops) == 1)
	}
}

func (m *machine) draw(t *rapid.T) *operation {
	op := &operation{server: rapid.IntRange(0, 1).Draw(t, "server")}
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 12:
		at := month(time.Month(rapid.IntRange(1, 6).Draw(t, "closed before")))
		op.closing = &at
		return op
	case 13:
		at := month(time.Month(rapid.IntRange(1, 6).Draw(t, "open from")))
		op.opening = &at
		return op
	case 0, 1:
		op.account = rapid.SampledFrom(modelAccounts).Draw(t, "account").ID
		op.update = drawUpdate(t)
		return op
	case 2:
		op.expire = true
		return op
	case 3, 4:
		op.atomic = true
	}
	op.specs = rapid.SliceOfN(rapid.Custom(m.drawSpec), 1, 5).Draw(t, "transfers")
	return op
}

func drawUpdate(t *rapid.T) ledger.AccountUpdate {
	var update ledger.AccountUpdate
	switch rapid.IntRange(0, 9).Draw(t, "update") {
	case 0, 1:
		update.Floor = floor(rapid.SampledFrom([]string{"0", "5", "-20", "1000000"}).Draw(t, "floor"))
	case 2, 3:
		update.RemoveFloor = true
	case 4:
		closed := true
		update.Closed = &closed
	case 5:
		if update.Ceiling = floor(rapid.SampledFrom([]string{"40", "1000000"}).Draw(t, "ceiling")); rapid.Bool().Draw(t, "remove") {
			update.Ceiling, update.RemoveCeiling = nil, true
		}
	case 6:
		name := rapid.SampledFrom([]string{"x", "y"}).Draw(t, "name")
		update.Name = &name
	default:
		frozen := rapid.SampledFrom([]ledger.Frozen{
			ledger.FrozenNone, ledger.FrozenNone, ledger.FrozenNone, ledger.FrozenDebits, ledger.FrozenCredits, ledger.FrozenBoth,
		}).Draw(t, "frozen")
		update.Frozen = &frozen
	}
	return update
}

// drawSpec draws a request: mostly one that may go through, given what has been decided so far.
func (m *machine) drawSpec(t *rapid.T) ledger.TransferSpec {
	spec := ledger.TransferSpec{
		ID:          ledger.TransferID(fmt.Sprintf("t%d", rapid.IntRange(0, 90).Draw(t, "id"))),
		Description: rapid.SampledFrom([]string{"", "", "", "note"}).Draw(t, "note"),
	}
	switch kind := rapid.SampledFrom([]ledger.Kind{
		ledger.Plain, ledger.Plain, ledger.Plain, ledger.Hold, ledger.Hold, ledger.Capture, ledger.Capture, ledger.Void, ledger.Refund,
		ledger.Refund, ledger.Reversal,
	}).Draw(t, "kind"); kind {
	case ledger.Plain, ledger.Hold:
		m.drawEntries(t, &spec, kind)
	default:
		m.drawStep(t, &spec, kind)
	}
	if spec.Kind().Moves() && rapid.IntRange(0, 3).Draw(t, "dated") == 0 {
		spec = dated(spec, month(time.Month(rapid.IntRange(1, 6).Draw(t, "effective at"))))
	}
	return spec
}

var values = rapid.SampledFrom([]string{"1", "3.00", "7.5", "20.00", "0.01"})

func (m *machine) drawEntries(t *rapid.T, spec *ledger.TransferSpec, kind ledger.Kind) {
	ids := rapid.Permutation([]ledger.AccountID{"bank", "bank", "fees", "costs", "a", "b", "c", "till"}).Draw(t, "accounts")
	ids = slices.Compact(ids)
	if kind == ledger.Plain && rapid.IntRange(0, 3).Draw(t, "legs") == 0 && ids[0] != ids[2] && ids[1] != ids[2] {
		x, y := amount(values.Draw(t, "x")), amount(values.Draw(t, "y"))
		spec.Entries = []ledger.Entry{
			{Account: ids[0], Direction: ledger.Credit, Amount: x},
			{Account: ids[1], Direction: ledger.Credit, Amount: y},
			{Account: ids[2], Direction: ledger.Debit, Amount: x.Add(y)},
		}
		return
	}
	if ids[0] == ids[1] {
		ids[1] = "fees"
	}
	value := amount(values.Draw(t, "amount"))
	spec.Entries = ledger.Simple(ids[0], ids[1], value, "BDT")
	terms := &ledger.Terms{Kind: kind}
	switch which := rapid.IntRange(0, 5).Draw(t, "terms"); {
	case kind == ledger.Hold && which < 2:
		in := rapid.SampledFrom([]time.Duration{time.Millisecond, 20 * time.Millisecond, time.Hour}).Draw(t, "expires in")
		at := time.Now().Add(in).Truncate(time.Microsecond)
		terms.ExpiresAt = &at
	case kind == ledger.Plain && which == 2:
		terms.Balancing, terms.Amount = true, &value
	case which == 3:
		id := rapid.SampledFrom(ids[:2]).Draw(t, "expected of")
		a := m.model.Account(string(id))
		c := ledger.Condition{Account: id}
		if rapid.Bool().Draw(t, "version") {
			version := a.Version
			if rapid.IntRange(0, 3).Draw(t, "stale") == 0 {
				version = 0
			}
			c.Version = &version
		} else {
			balance := decimal.New(a.Balance, -2)
			c.Balance = &balance
		}
		terms.Conditions = []ledger.Condition{c}
	}
	if kind == ledger.Hold || terms.Balancing || terms.Conditions != nil {
		spec.Terms = terms
	}
}

func (m *machine) drawStep(t *rapid.T, spec *ledger.TransferSpec, kind ledger.Kind) {
	terms := &ledger.Terms{Kind: kind}
	spec.Terms = terms
	var fitting []string
	for id, o := range m.model.Transfers() {
		if o.Outcome == "posted" && (o.Kind == "hold") == kind.OfHold() && (kind.OfHold() || o.Kind == "transfer" || o.Kind == "capture") {
			fitting = append(fitting, id)
		}
	}
	slices.Sort(fitting)
	terms.Origin = ledger.TransferID(fmt.Sprintf("t%d", rapid.IntRange(0, 90).Draw(t, "any origin")))
	if len(fitting) > 0 && rapid.IntRange(0, 9).Draw(t, "fitting") > 0 {
		terms.Origin = ledger.TransferID(rapid.SampledFrom(fitting).Draw(t, "origin"))
	}
	if terms.Origin == spec.ID {
		terms.Origin += "0"
	}
	if (kind == ledger.Capture || kind == ledger.Refund) && rapid.Bool().Draw(t, "part") {
		value := amount(values.Draw(t, "amount"))
		terms.Amount = &value
	}
	terms.KeepOpen = kind == ledger.Capture && rapid.Bool().Draw(t, "keep open")
	if kind == ledger.Refund {
		expected := decimal.Zero
		if o, ok := m.model.Transfer(string(terms.Origin)); ok && rapid.IntRange(0, 4).Draw(t, "guess") > 0 {
			expected = decimal.New(o.Refunded, -2)
		}
		terms.ExpectedRefunded, terms.Reason = &expected, ledger.ReasonGoodwill
	}
}

func (m *machine) run(op *operation) {
	server := m.servers[op.server]
	switch {
	case op.expire:
		op.err = server.ExpireHolds(m.ctx)
	case op.closing != nil:
		var change ledger.PeriodChange
		change, _, op.err = server.ClosePeriod(m.ctx, "local", m.ledger, ledger.PeriodClose{Before: *op.closing})
		op.closed = &change
	case op.opening != nil:
		op.closed, _, op.err = server.ReopenPeriod(m.ctx, "local", m.ledger, ledger.PeriodReopen{Before: op.opening, Reason: "because"})
	case op.specs == nil:
		op.after, op.err = server.UpdateAccount(m.ctx, "local", m.ledger, op.account, op.update)
	case op.atomic:
		op.results, op.err = server.PostAtomically(m.ctx, "local", m.ledger, op.specs)
	default:
		op.results, op.err = server.Post(m.ctx, "local", m.ledger, op.specs)
	}
}

// facts collects what is new, each once.
func (m *machine) facts(t *rapid.T, ops []*operation, before map[ledger.AccountID]int64) []fact {
	var facts []fact
	seen := map[int64]bool{}
	add := func(f fact) {
		if !seen[f.sequence] {
			seen[f.sequence] = true
			facts = append(facts, f)
		}
	}
	for _, op := range ops {
		switch {
		case op.expire:
			if op.err != nil {
				m.fatalf(t, "expire: %v", op.err)
			}
			continue
		case op.closing != nil || op.opening != nil:
			if op.err != nil {
				m.fatalf(t, "close or open a period: %v", op.err)
			}
			if op.closed != nil && !m.closings[op.closed.Sequence] {
				m.closings[op.closed.Sequence] = true
				add(fact{sequence: op.closed.Sequence, closed: op.closed})
			}
			continue
		case op.specs == nil:
			if op.err == nil && op.after.Version > before[op.account] {
				add(fact{sequence: op.after.Version, update: op})
			}
			continue
		case op.err != nil:
			m.fatalf(t, "post: %v", op.err)
		}
		for i, r := range op.results {
			// What another call was refused as the culprit of, is told with that call.
			if r.Err == nil && m.firsts[string(op.specs[i].ID)] == nil && (!r.Replayed || !r.Transfer.Atomic) {
				add(fact{sequence: r.Transfer.Sequence, record: r.Transfer, mates: op.specs[:i]})
			}
		}
	}
	for _, record := range m.expired(t) {
		add(fact{sequence: record.Sequence, record: record})
	}
	return facts
}

// expired finds the new expiries of holds that the model knows, or is about to.
func (m *machine) expired(t *rapid.T) []*ledger.Transfer {
	var records []*ledger.Transfer
	for n := range 91 {
		id := journal.ExpiryID(ledger.TransferID(fmt.Sprintf("t%d", n)))
		if m.firsts[string(id)] != nil {
			continue
		}
		record, _, err := m.servers[0].Transfer(m.ctx, m.ledger, id)
		switch ledger.CodeOf(err) {
		case "":
			records = append(records, record)
		case ledger.CodeTransferNotFound:
		default:
			t.Fatal(err)
		}
	}
	return records
}

// tell tells the model of one fact, and checks that it would have decided the same.
func (m *machine) tell(t *rapid.T, f fact) {
	if f.closed != nil {
		var before, after time.Time
		if f.closed.Previous != nil {
			before = *f.closed.Previous
		}
		if f.closed.ClosedBefore != nil {
			after = *f.closed.ClosedBefore
		}
		if !before.Equal(m.model.ClosedBefore) {
			m.fatalf(t, "at %d the books are said to have been closed before %s, the model says %s", f.sequence, before, m.model.ClosedBefore)
		}
		m.model.ClosedBefore = after
		return
	}
	if f.update != nil {
		// The state that was answered, not the one that was asked for: a request that changed nothing answers with the
		// version of the change before it.
		a, after := m.model.Account(string(f.update.account)), f.update.after
		if after.Closed && !a.Closed && (a.Balance != 0 || a.Held != 0 || a.Incoming != 0) {
			m.fatalf(t, "%s was closed at %d with a balance of %d, %d held and %d incoming", f.update.account, f.sequence, a.Balance, a.Held, a.Incoming)
		}
		a.Floor, a.Ceiling, a.Closed, a.Serialised = cents(after.Floor), cents(after.Ceiling), after.Closed, after.Serialised
		a.Frozen = map[ledger.Frozen][]string{
			ledger.FrozenDebits: {"debit"}, ledger.FrozenCredits: {"credit"}, ledger.FrozenBoth: {"debit", "credit"},
		}[after.Frozen]
		return
	}
	id, r := string(f.record.ID), modelRequest(f.record.TransferSpec)
	m.firsts[id] = f.record
	got := "posted"
	if f.record.Refusal != nil {
		got = string(f.record.Refusal.Reason)
	}
	if f.record.Atomic {
		m.culprit(t, f, r, got)
		return
	}
	if wrong := m.model.Wrong(r); r.Origin != "" && wrong != "" {
		m.fatalf(t, "%s at %d: %s, the model says %s", id, f.sequence, got, wrong)
	}
	want := m.decide(m.model, f, r, f.sequence, got)
	if got != want {
		m.fatalf(t, "%s at %d: %s, the model says %s of %+v; accounts:%s", id, f.sequence, got, want, r, m.accounts())
	}
	decided, _ := m.model.Transfer(id)
	if told := modelEntries(f.record.Entries); got == "posted" && !slices.Equal(told, decided.Moved) {
		m.fatalf(t, "%s at %d: moved %v, the model says %v", id, f.sequence, told, decided.Moved)
	}
}

// decide has the model decide a fact. A record is judged a moment before its posted_at: what was refused for another reason may since
// have become too late, and so may a hold, which then expires at once. A capture that is posted may not.
func (m *machine) decide(model *ledgertest.Model, f fact, r ledgertest.ModelRequest, sequence int64, got string) string {
	id, moved := string(f.record.ID), modelEntries(f.record.Entries)
	want := model.Decide(id, r, sequence, f.record.PostedAt, moved)
	if want == "HOLD_EXPIRED" && got != want && (got != "posted" || r.Kind == "hold") {
		want = model.DecideBefore(id, r, sequence, moved)
	}
	return want
}

// accounts tells what the model knows.
func (m *machine) accounts() string {
	var text strings.Builder
	for _, a := range modelAccounts {
		account := m.model.Account(string(a.ID))
		limit := func(n *int64) string {
			if n == nil {
				return "none"
			}
			return fmt.Sprint(*n)
		}
		fmt.Fprintf(&text, "\n%s %+v, floor %s, ceiling %s", a.ID, *account, limit(account.Floor), limit(account.Ceiling))
	}
	return text.String()
}

// culprit checks the refusal of the culprit of an atomic call: as if what came before it in the call had been posted.
func (m *machine) culprit(t *rapid.T, f fact, r ledgertest.ModelRequest, got string) {
	then := m.model.Clone()
	const undrawn = -1
	known := true
	for _, mate := range f.mates {
		if _, decided := then.Transfer(string(mate.ID)); decided {
			continue
		}
		request := modelRequest(mate)
		if wrong := then.Wrong(request); request.Origin != "" && wrong != "" {
			m.fatalf(t, "%s at %d is the culprit, but %s before it: %s", f.record.ID, f.sequence, mate.ID, wrong)
		}
		if request.Kind == "refund" { // The model does not divide.
			known = false
			break
		}
		outcome := then.Decide(string(mate.ID), request, undrawn, f.record.PostedAt, nil)
		if outcome == "HOLD_EXPIRED" { // As decide has it: it may have been in time when the call was decided, and nothing came of it.
			outcome = then.DecideBefore(string(mate.ID), request, undrawn, nil)
		}
		if outcome != "posted" {
			m.fatalf(t, "%s at %d is the culprit, but the model refuses %s before it: %s", f.record.ID, f.sequence, mate.ID, outcome)
		}
	}
	if known {
		if want := m.decide(then, f, r, undrawn, got); got != want {
			m.fatalf(t, "%s at %d, the culprit: %s, the model says %s", f.record.ID, f.sequence, got, want)
		}
	}
	m.model.Refuse(string(f.record.ID), r, got)
}

func modelRequest(spec ledger.TransferSpec) ledgertest.ModelRequest {
	r := ledgertest.ModelRequest{Kind: string(spec.Kind()), Note: spec.Description, Origin: string(spec.Origin())}
	if spec.EffectiveAt != nil {
		r.Effective = *spec.EffectiveAt
	}
	if r.Origin == "" {
		r.Entries = modelEntries(spec.Entries)
	}
	if spec.Terms == nil {
		return r
	}
	terms := spec.Terms
	if terms.Balancing {
		for i, e := range r.Entries { // A record has what was moved.
			r.Entries[i].Signed = *cents(terms.Amount)
			if e.Signed < 0 {
				r.Entries[i].Signed = -r.Entries[i].Signed
			}
		}
		r.AtMost = true
	} else if terms.Amount != nil {
		r.Amount = *cents(terms.Amount)
	}
	r.KeepOpen = terms.KeepOpen
	if terms.ExpiresAt != nil {
		r.Deadline = *terms.ExpiresAt
	}
	if terms.ExpectedRefunded != nil {
		r.Expected = *cents(terms.ExpectedRefunded)
	}
	for _, c := range terms.Conditions {
		r.Conditions = append(r.Conditions, ledgertest.ModelCondition{Account: string(c.Account), Balance: cents(c.Balance), Version: c.Version})
	}
	return r
}

func modelEntries(list []ledger.Entry) []ledgertest.ModelEntry {
	var entries []ledgertest.ModelEntry
	for _, e := range list {
		signed := *cents(&e.Amount)
		if e.Direction == ledger.Credit {
			signed = -signed
		}
		entries = append(entries, ledgertest.ModelEntry{Account: string(e.Account), Signed: signed})
	}
	return entries
}

// judge checks what each request was told, once the model knows all.
func (m *machine) judge(t *rapid.T, op *operation, alone bool) {
	if op.expire || op.closing != nil || op.opening != nil {
		return
	}
	if op.specs == nil {
		code := ledger.CodeOf(op.err)
		a := m.model.Account(string(op.account))
		switch {
		case code == "":
		case code == ledger.CodeBalanceNotZero && op.update.Closed != nil:
			if alone && a.Balance == 0 && a.Held == 0 && a.Incoming == 0 {
				m.fatalf(t, "close %s: %v, but its balance is zero", op.account, op.err)
			}
		case code == ledger.CodeInvalidArgument && (op.update.Floor != nil || op.update.Ceiling != nil): // One above the other.
		default:
			m.fatalf(t, "update %s: %v", op.account, op.err)
		}
		return
	}
	if op.atomic {
		m.judgeCall(t, op)
	}
	for i, r := range op.results {
		spec := op.specs[i]
		if op.atomic && ledger.CodeOf(r.Err) == ledger.CodeAtomicCallRefused {
			continue
		}
		decided, ok := m.model.Transfer(string(spec.ID))
		if !ok || r.Err != nil && ledger.CodeOf(r.Err) != ledger.CodeAlreadyExists {
			m.judgeUndecided(t, op, i, alone)
			continue
		}
		first := m.firsts[string(spec.ID)]
		switch same := decided.Same(modelRequest(spec)); {
		case !same && ledger.CodeOf(r.Err) != ledger.CodeAlreadyExists:
			m.fatalf(t, "%s has other content: %s %v", spec.ID, describe(r), r.Err)
		case same && r.Err != nil:
			m.fatalf(t, "%s: %v", spec.ID, r.Err)
		case same && (r.Transfer.Sequence != first.Sequence || !r.Transfer.PostedAt.Equal(first.PostedAt)):
			m.fatalf(t, "%s: told sequence %d, first was %d", spec.ID, r.Transfer.Sequence, first.Sequence)
		}
	}
}

// judgeUndecided checks an error that decides nothing. Others may have changed the reason since.
func (m *machine) judgeUndecided(t *rapid.T, op *operation, i int, alone bool) {
	spec, r := op.specs[i], op.results[i]
	request := modelRequest(spec)
	// An atomic call that is refused leaves nothing of an origin in it.
	mate := slices.ContainsFunc(op.specs, func(mate ledger.TransferSpec) bool { return string(mate.ID) == request.Origin })
	twice := op.atomic && slices.ContainsFunc(op.specs[:i], func(mate ledger.TransferSpec) bool { return mate.ID == spec.ID })
	switch code := ledger.CodeOf(r.Err); {
	case code == ledger.CodeAlreadyExists && twice:
	case code == ledger.CodeTransferNotFound && request.Origin != "":
		if alone && !mate && m.model.Wrong(request) != string(code) {
			m.fatalf(t, "%s: %v, but the model knows it", spec.ID, r.Err)
		}
	case code == ledger.CodeWrongOrigin && request.Origin != "":
		if m.model.Wrong(request) != string(code) && (!op.atomic || !mate) {
			m.fatalf(t, "%s: %v, but the model says %q", spec.ID, r.Err, m.model.Wrong(request))
		}
	case code == ledger.CodeNotSerialised && (request.AtMost || request.Conditions != nil):
	case code == ledger.CodeInvalidArgument && request.AtMost: // Nothing limits it.
	default:
		m.fatalf(t, "%s: %v, but nobody decided it", spec.ID, r.Err)
	}
}

// judgeCall checks that an atomic call was decided as a whole.
func (m *machine) judgeCall(t *rapid.T, op *operation) {
	refused, culprits := 0, 0
	for _, r := range op.results {
		switch {
		case ledger.CodeOf(r.Err) == ledger.CodeAtomicCallRefused:
			refused++
		case r.Err != nil, r.Transfer.Refusal != nil:
			culprits++
		case !r.Replayed:
			refused += 1000 // It was posted.
		}
	}
	if refused > 0 && refused < 1000 && culprits == 0 || culprits > 0 && refused >= 1000 || refused >= 1000 && refused%1000 != 0 {
		var told []string
		for i, r := range op.results {
			told = append(told, fmt.Sprint(op.specs[i].ID, " ", describe(r), " ", r.Err))
		}
		m.fatalf(t, "an atomic call: %s", strings.Join(told, "; "))
	}
}

// check compares balances and listings of both servers with the model.
func (m *machine) check(t *rapid.T) {
	server := m.servers[rapid.IntRange(0, 1).Draw(t, "reader")]
	var ids []ledger.AccountID
	for _, a := range modelAccounts {
		ids = append(ids, a.ID)
	}
	balances, err := server.Balances(m.ctx, m.ledger, ids)
	if err != nil {
		t.Fatal(err)
	}
	for i, b := range balances {
		m.compare(t, "now", b, *m.model.Account(string(ids[i])))
	}
	if len(m.past) > 0 {
		then := rapid.SampledFrom(m.past).Draw(t, "then")
		balances, err := server.BalancesAsOf(m.ctx, m.ledger, ids, ledger.AsOf{Sequence: &then.sequence})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range balances {
			m.compare(t, fmt.Sprint("as of ", then.sequence), b, then.accounts[i])
		}
	}
	id := rapid.SampledFrom(ids).Draw(t, "listed")
	sum, last := decimal.Zero, balances[slices.Index(ids, id)]
	for cursor, more := (journal.EntryCursor{}), true; more; {
		page, err := server.Entries(m.ctx, m.ledger, id, cursor, false, 3)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			sum, cursor = e.Balance, e.Cursor
		}
		more = page.More
	}
	if !sum.Equal(last.Posted) {
		m.fatalf(t, "the listing of %s ends at %s, its balance is %s", id, sum, last.Posted)
	}
}

func (m *machine) compare(t *rapid.T, when string, b ledger.Balance, a ledgertest.ModelAccount) {
	got := fmt.Sprintf("posted %d, held %d, incoming %d, version %d", *cents(&b.Posted), *cents(&b.Held), *cents(&b.Incoming), b.Version)
	want := fmt.Sprintf("posted %d, held %d, incoming %d, version %d", a.Balance, a.Held, a.Incoming, a.Version)
	if got != want {
		m.fatalf(t, "%s %s: %s, the model says %s", b.Account, when, got, want)
	}
}
