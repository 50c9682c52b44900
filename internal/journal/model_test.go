package journal_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
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
	config := journal.Config{SnapshotEvery: 10 * time.Millisecond}
	one, _ := open(t, pg.Config{DSN: db.ServiceDSN()}, config)
	two, _ := open(t, pg.Config{DSN: db.ServiceDSN()}, config)
	var books atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		m := &machine{
			ctx: t.Context(), servers: []*journal.Journal{one, two}, model: ledgertest.NewModel(),
			ledger: ledger.Name(fmt.Sprintf("model-%d", books.Add(1))),
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
	{ID: "till", Type: ledger.Asset, Currency: "BDT", Floor: floor("0")},
}

// machine drives the servers and the model.
type machine struct {
	ctx     context.Context
	servers []*journal.Journal
	ledger  ledger.Name
	model   *ledgertest.Model
	firsts  map[string]*ledger.Transfer
	// past are balances as the model had them once it knew everything up to a number.
	past []pastBalances
}

type pastBalances struct {
	sequence int64
	cents    []int64 // in the order of modelAccounts
}

func (m *machine) start(t *rapid.T) {
	m.firsts = map[string]*ledger.Transfer{}
	if _, err := m.servers[0].CreateLedger(m.ctx, "local", m.ledger); err != nil {
		t.Fatal(err)
	}
	if _, err := m.servers[0].CreateAccounts(m.ctx, "local", m.ledger, modelAccounts); err != nil {
		t.Fatal(err)
	}
	for _, a := range modelAccounts {
		m.model.Open(string(a.ID), ledgertest.ModelAccount{
			DebitNormal: a.Type == ledger.Asset || a.Type == ledger.Expense, Floor: cents(a.Floor),
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
	results []journal.PostResult
	// Of an update.
	account ledger.AccountID
	update  ledger.AccountUpdate
	after   ledger.Account
	err     error
}

// fact is what the model is told of.
type fact struct {
	sequence int64
	spec     *ledger.TransferSpec
	record   *ledger.Transfer
	update   *operation
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
		then := pastBalances{sequence: facts[len(facts)-1].sequence}
		for _, a := range modelAccounts {
			then.cents = append(then.cents, m.model.Account(string(a.ID)).Balance)
		}
		m.past = append(m.past, then)
	}
	for _, op := range ops {
		m.judge(t, op, len(ops) == 1)
	}
}

func (m *machine) draw(t *rapid.T) *operation {
	op := &operation{server: rapid.IntRange(0, 1).Draw(t, "server")}
	if rapid.IntRange(0, 5).Draw(t, "kind") == 0 {
		op.account = rapid.SampledFrom(modelAccounts).Draw(t, "account").ID
		op.update = drawUpdate(t)
		return op
	}
	op.specs = rapid.SliceOfN(rapid.Custom(drawSpec), 1, 5).Draw(t, "transfers")
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

func drawSpec(t *rapid.T) ledger.TransferSpec {
	spec := ledger.TransferSpec{
		ID:          ledger.TransferID(fmt.Sprintf("t%d", rapid.IntRange(0, 60).Draw(t, "id"))),
		Description: rapid.SampledFrom([]string{"", "", "", "note"}).Draw(t, "note"),
	}
	ids := rapid.Permutation([]ledger.AccountID{"bank", "bank", "fees", "costs", "a", "b", "c", "till"}).Draw(t, "accounts")
	ids = slices.Compact(ids)
	value := rapid.SampledFrom([]string{"1", "3.00", "7.5", "20.00", "0.01"})
	if rapid.IntRange(0, 3).Draw(t, "legs") > 0 || ids[0] == ids[2] || ids[1] == ids[2] {
		if ids[0] == ids[1] {
			ids[1] = "fees"
		}
		spec.Entries = ledger.Simple(ids[0], ids[1], amount(value.Draw(t, "amount")), "BDT")
		return spec
	}
	x, y := amount(value.Draw(t, "x")), amount(value.Draw(t, "y"))
	spec.Entries = []ledger.Entry{
		{Account: ids[0], Direction: ledger.Credit, Amount: x},
		{Account: ids[1], Direction: ledger.Credit, Amount: y},
		{Account: ids[2], Direction: ledger.Debit, Amount: x.Add(y)},
	}
	return spec
}

func (m *machine) run(op *operation) {
	server := m.servers[op.server]
	if op.specs == nil {
		op.after, op.err = server.UpdateAccount(m.ctx, "local", m.ledger, op.account, op.update)
		return
	}
	op.results, op.err = server.Post(m.ctx, "local", m.ledger, op.specs)
}

// facts collects what is new, each once.
func (m *machine) facts(t *rapid.T, ops []*operation, before map[ledger.AccountID]int64) []fact {
	var facts []fact
	seen := map[int64]bool{}
	for _, op := range ops {
		if op.specs == nil {
			if op.err == nil && op.after.Version > before[op.account] && !seen[op.after.Version] {
				seen[op.after.Version] = true
				facts = append(facts, fact{sequence: op.after.Version, update: op})
			}
			continue
		}
		if op.err != nil {
			t.Fatalf("post: %v", op.err)
		}
		for i, r := range op.results {
			if r.Err == nil && m.firsts[string(op.specs[i].ID)] == nil && !seen[r.Transfer.Sequence] {
				seen[r.Transfer.Sequence] = true
				facts = append(facts, fact{sequence: r.Transfer.Sequence, spec: &op.specs[i], record: r.Transfer})
			}
		}
	}
	return facts
}

// tell tells the model of one fact, and checks that it would have decided the same.
func (m *machine) tell(t *rapid.T, f fact) {
	if f.update != nil {
		// The state that was answered, not the one that was asked for: a request that changed nothing answers with the
		// version of the change before it.
		a, after := m.model.Account(string(f.update.account)), f.update.after
		if after.Closed && !a.Closed && a.Balance != 0 {
			t.Fatalf("%s was closed at %d with a balance of %d", f.update.account, f.sequence, a.Balance)
		}
		a.Floor, a.Closed = cents(after.Floor), after.Closed
		a.Frozen = map[ledger.Frozen][]string{
			ledger.FrozenDebits: {"debit"}, ledger.FrozenCredits: {"credit"}, ledger.FrozenBoth: {"debit", "credit"},
		}[after.Frozen]
		return
	}
	id := string(f.spec.ID)
	want := m.model.Decide(id, modelEntries(*f.spec), f.spec.Description)
	got := "posted"
	if f.record.Refusal != nil {
		got = string(f.record.Refusal.Reason)
	}
	if got != want {
		t.Fatalf("%s at %d: %s, the model says %s", id, f.sequence, got, want)
	}
	m.firsts[id] = f.record
}

func modelEntries(spec ledger.TransferSpec) []ledgertest.ModelEntry {
	var entries []ledgertest.ModelEntry
	for _, e := range spec.Entries {
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
	if op.specs == nil {
		code := ledger.CodeOf(op.err)
		a := m.model.Account(string(op.account))
		switch {
		case code == "":
		case code == ledger.CodeBalanceNotZero && op.update.Closed != nil:
			if alone && a.Balance == 0 {
				t.Fatalf("close %s: %v, but its balance is zero", op.account, op.err)
			}
		default:
			t.Fatalf("update %s: %v", op.account, op.err)
		}
		return
	}
	for i, r := range op.results {
		spec := op.specs[i]
		decided, ok := m.model.Transfer(string(spec.ID))
		if !ok {
			t.Fatalf("%s: %v, but nobody decided it", spec.ID, r.Err)
		}
		first := m.firsts[string(spec.ID)]
		switch same := decided.Same(modelEntries(spec), spec.Description); {
		case !same && ledger.CodeOf(r.Err) != ledger.CodeAlreadyExists:
			t.Fatalf("%s has other content: %s %v", spec.ID, describe(r), r.Err)
		case same && r.Err != nil:
			t.Fatalf("%s: %v", spec.ID, r.Err)
		case same && (r.Transfer.Sequence != first.Sequence || !r.Transfer.PostedAt.Equal(first.PostedAt)):
			t.Fatalf("%s: told sequence %d, first was %d", spec.ID, r.Transfer.Sequence, first.Sequence)
		}
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
		if got, want := *cents(&b.Posted), m.model.Account(string(ids[i])).Balance; got != want {
			t.Fatalf("balance of %s: %d, the model says %d", ids[i], got, want)
		}
	}
	if len(m.past) > 0 {
		then := rapid.SampledFrom(m.past).Draw(t, "then")
		balances, err := server.BalancesAsOf(m.ctx, m.ledger, ids, ledger.AsOf{Sequence: &then.sequence})
		if err != nil {
			t.Fatal(err)
		}
		for i, b := range balances {
			if got := *cents(&b.Posted); got != then.cents[i] {
				t.Fatalf("balance of %s as of %d: %d, the model said %d", ids[i], then.sequence, got, then.cents[i])
			}
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
		t.Fatalf("the listing of %s ends at %s, its balance is %s", id, sum, last.Posted)
	}
}
