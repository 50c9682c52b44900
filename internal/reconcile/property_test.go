package reconcile

import (
	"fmt"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// machine does anything that can be done to a bank account, in any order.
type machine struct {
	*desk
	t         *rapid.T
	outer     testing.TB
	name      string
	books     ledger.AccountID
	transfers []ledger.TransferID
	posted    decimal.Decimal
	rows      []string
	banked    decimal.Decimal
	next      int
}

var amounts = rapid.SampledFrom([]string{"1.00", "2.00", "3.00", "5.00", "-1.00", "-2.00", "4.99", "10.00"})

func (m *machine) failed(err error, allowed ...ledger.Code) bool {
	if err == nil {
		return false
	}
	for _, code := range allowed {
		if ledger.CodeOf(err) == code {
			return true
		}
	}
	m.t.Fatal(err)
	return true
}

func (m *machine) post() {
	m.next++
	amount := dec(amounts.Draw(m.t, "amount"))
	at := time.Date(2026, 1, rapid.IntRange(1, 9).Draw(m.t, "day"), 12, 0, 0, 0, time.UTC)
	debit, credit := m.books, ledger.AccountID("wallet")
	if amount.IsNegative() {
		debit, credit = credit, debit
	}
	spec := ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprintf("%s-%d", m.name, m.next)), Entries: ledger.Simple(debit, credit, amount.Abs(), ""),
		EffectiveAt: &at}
	if rapid.Bool().Draw(m.t, "reference") {
		spec.Metadata = ledger.Metadata(fmt.Sprintf(`{"reference":"ref-%d"}`, rapid.IntRange(1, 4).Draw(m.t, "which")))
	}
	results, err := m.journal.Post(m.t.Context(), clerk, main, []ledger.TransferSpec{spec})
	if err != nil || results[0].Err != nil {
		m.t.Fatal(err, results)
	}
	m.posted = m.posted.Add(amount)
	m.transfers = append(m.transfers, spec.ID)
}

// importRows imports a file of some rows that were there before, and some new ones. It is a window of one list, as files of banks are.
func (m *machine) importRows() {
	least := 0
	if len(m.rows) == 0 { // A file without any is refused.
		least = 1
	}
	for range rapid.IntRange(least, 4).Draw(m.t, "rows") {
		amount, reference := amounts.Draw(m.t, "amount"), ""
		switch rapid.IntRange(0, 3).Draw(m.t, "kind") {
		case 0:
			reference = fmt.Sprintf("ref-%d", rapid.IntRange(1, 4).Draw(m.t, "which"))
		case 1:
			reference = fmt.Sprintf("%s-%d", m.name, rapid.IntRange(1, 20).Draw(m.t, "transfer"))
		}
		m.rows = append(m.rows, fmt.Sprintf("2026-01-%02d;%s;%s;;", rapid.IntRange(1, 9).Draw(m.t, "day"), amount, reference))
		m.banked = m.banked.Add(dec(amount))
	}
	// All rows from the beginning, so that rows that look the same are counted as before.
	in := strings.NewReader(csvFile(m.rows...))
	if _, err := m.Import(m.t.Context(), ImportSpec{BankAccount: m.name}, in, clerk); err != nil {
		m.t.Fatal(err)
	}
}

func (m *machine) run() {
	run, err := m.Match(m.t.Context(), MatchSpec{BankAccount: m.name}, clerk)
	if err != nil {
		m.t.Fatal(err)
	}
	if differences, err := m.Repeat(m.t.Context(), main, m.name, run.No); err != nil || len(differences) > 0 {
		m.t.Fatalf("repeated: %v %v", differences, err)
	}
}

func (m *machine) confirmSuggestion() {
	list, _, err := m.Suggestions(m.t.Context(), main, m.name, 0, 0, 100)
	if m.failed(err, ledger.CodeNotFound) || len(list) == 0 {
		return
	}
	s := rapid.SampledFrom(list).Draw(m.t, "suggestion")
	run, err := m.Run(m.t.Context(), main, m.name, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	spec := ConfirmSpec{BankAccount: m.name, Run: run.No, Group: s.Group}
	if !s.Difference.IsZero() {
		spec.Difference = &DifferenceSpec{Account: "expense:fees"}
		m.posted = m.posted.Add(m.confirmDifference(spec))
		return
	}
	_, err = m.Confirm(m.t.Context(), spec, clerk)
	m.failed(err, ledger.CodeConflict)
}

// confirmDifference gives what was posted.
func (m *machine) confirmDifference(spec ConfirmSpec) decimal.Decimal {
	d, err := m.Confirm(m.t.Context(), spec, clerk)
	if m.failed(err, ledger.CodeConflict) || d.Replayed {
		return decimal.Zero
	}
	return d.Difference()
}

func (m *machine) confirmAny() {
	lines, _, err := m.Lines(m.t.Context(), main, m.name, LineFilter{Counting: true, Limit: 100})
	if err != nil || len(lines) == 0 || len(m.transfers) == 0 {
		return
	}
	spec := ConfirmSpec{BankAccount: m.name, Reason: "because"}
	for range rapid.IntRange(1, 2).Draw(m.t, "lines") {
		take := LineTake{Line: rapid.SampledFrom(lines).Draw(m.t, "line").No}
		if rapid.IntRange(0, 3).Draw(m.t, "part") == 0 {
			take.Amount = dec("1.00")
		}
		spec.Lines = append(spec.Lines, take)
	}
	for range rapid.IntRange(1, 2).Draw(m.t, "entries") {
		spec.Entries = append(spec.Entries, EntryTake{Transfer: rapid.SampledFrom(m.transfers).Draw(m.t, "entry")})
	}
	if rapid.Bool().Draw(m.t, "difference") {
		spec.Difference = &DifferenceSpec{Account: "expense:fees"}
	}
	d, err := m.Confirm(m.t.Context(), spec, clerk)
	if !m.failed(err, ledger.CodeConflict, ledger.CodeInvalidArgument) && !d.Replayed && spec.Difference != nil {
		m.posted = m.posted.Add(d.Difference())
	}
}

func (m *machine) ignore() {
	lines, _, err := m.Lines(m.t.Context(), main, m.name, LineFilter{Open: true, Limit: 100})
	if err != nil || len(lines) == 0 {
		return
	}
	_, err = m.Ignore(m.t.Context(), IgnoreSpec{BankAccount: m.name, Line: &LineTake{Line: rapid.SampledFrom(lines).Draw(m.t, "line").No},
		Reason: "no"}, clerk)
	m.failed(err, ledger.CodeConflict)
}

func (m *machine) undo() {
	list, _, err := m.Decisions(m.t.Context(), main, m.name, DecisionFilter{Active: true, Limit: 100})
	if err != nil || len(list) == 0 {
		return
	}
	m.unmatch(rapid.SampledFrom(list).Draw(m.t, "decision"))
}

func (m *machine) unmatch(d *Decision) {
	spec := UnmatchSpec{BankAccount: m.name, Match: d.No, Reason: "undo", ReverseDifference: true}
	if _, err := m.Unmatch(m.t.Context(), spec, clerk); err != nil {
		m.t.Fatal(err)
	}
	if d.Posted() {
		m.posted = m.posted.Sub(d.Difference())
	}
}

// holds checks what must hold whatever has happened.
func (m *machine) holds() {
	lines, _, err := m.Lines(m.t.Context(), main, m.name, LineFilter{Counting: true, Limit: 10_000})
	if err != nil {
		m.t.Fatal(err)
	}
	total, taken, free := decimal.Zero, decimal.Zero, decimal.Zero
	for _, l := range lines {
		if l.Taken.Abs().GreaterThan(l.Amount.Abs()) || l.Taken.Sign()*l.Amount.Sign() < 0 {
			m.t.Fatalf("of line %d of %s, %s is taken", l.No, l.Amount, l.Taken)
		}
		total, taken, free = total.Add(l.Amount), taken.Add(l.Taken), free.Add(l.Open())
	}
	if !total.Equal(taken.Add(free)) || !total.Equal(m.banked) {
		m.t.Fatalf("the lines come to %s, of which %s is taken and %s is open; the bank sent %s", total, taken, free, m.banked)
	}
	if over := m.query(m.outer, `SELECT count(*)::text FROM (
		SELECT i.sequence, i.leg, sum(i.amount) AS taken, max(e.amount) AS amount
		  FROM reconcile_item i JOIN bank_account b USING (ledger_id,
		bank_account_no) JOIN entry e ON e.ledger_id = b.ledger_id AND e.account_no = b.account_no AND e.sequence = i.sequence AND e.leg = i.leg
		 WHERE NOT EXISTS (SELECT FROM reconcile_undo u WHERE u.match_no = i.match_no) GROUP BY i.sequence,
		i.leg) x WHERE abs(taken) > abs(amount)`); over != "0" {
		m.t.Fatalf("%s entries are matched with more than there is", over)
	}
	for _, on := range []string{"2026-01-05", "2026-01-31"} {
		var c sheet.Collector
		spec := StatementSpec{BankAccount: m.name, Day: day(on)}
		if err := m.Statement(m.t.Context(), spec, &c); err != nil {
			m.t.Fatal(err)
		}
		if bad := sheet.Failed(c.Checks); len(bad) > 0 {
			m.t.Fatalf("%+v\n%v", bad, strings.Join(cells(&c.Sheet, "item", "age", "count", "amount"), "\n"))
		}
	}
}

// TestAnything does anything, in any order. Whatever it is, lines are matched or open, no more is taken of anything than there is, and the balances
// are explained. When everything is undone, everything is open again.
func TestAnything(t *testing.T) {
	t.Parallel()
	d := setup(t)
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	d.open(t, "EUR")
	d.usingCSV(t)
	// Each takes a second or so. One that has failed is made smaller, however many that takes. Every run of the tests makes others; the long form makes
	// all that rapid makes, a hundred.
	checks := int64(6)
	if os.Getenv("KHATA_TEST_LONG") != "" {
		checks = math.MaxInt64
	}
	var number atomic.Int64
	var failed atomic.Bool
	outer := t
	rapid.Check(t, func(t *rapid.T) {
		n := number.Add(1)
		if n > checks && !failed.Load() {
			return
		}
		done := false
		defer func() {
			if !done {
				failed.Store(true)
			}
		}()
		m := &machine{desk: d, t: t, outer: outer, name: fmt.Sprintf("bank%d", n), books: ledger.AccountID(fmt.Sprintf("assets:bank%d", n))}
		if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, []ledger.AccountSpec{{ID: m.books, Type: ledger.Asset,
			Currency: "EUR"}}); err != nil {
			t.Fatal(err)
		}
		settings := DefaultSettings()
		settings.Profile = "plain"
		settings.Tolerance = rapid.SampledFrom([]decimal.Decimal{decimal.Zero, dec("0.01")}).Draw(t, "tolerance")
		settings.Confirm = rapid.SampledFrom([][]Rule{DefaultSettings().Confirm, automatic}).Draw(t, "confirm")
		spec := BankAccountSpec{Name: m.name, Account: m.books, Basis: "value", Settings: &settings}
		if _, err := d.CreateBankAccount(t.Context(), spec, clerk); err != nil {
			t.Fatal(err)
		}
		t.Repeat(map[string]func(*rapid.T){
			"post": func(*rapid.T) { m.post() }, "post again": func(*rapid.T) { m.post() }, "import": func(*rapid.T) { m.importRows() },
			"run":        func(*rapid.T) { m.run() },
			"suggestion": func(*rapid.T) { m.confirmSuggestion() }, "confirm": func(*rapid.T) { m.confirmAny() }, "ignore": func(*rapid.T) { m.ignore() },
			"undo": func(*rapid.T) { m.undo() }, "": func(*rapid.T) { m.holds() },
		})
		m.undoAll()
		done = true
	})
}

// undoAll takes every decision back, the newest first, and looks whether all is open again.
func (m *machine) undoAll() {
	for {
		list, _, err := m.Decisions(m.t.Context(), main, m.name, DecisionFilter{Active: true, Limit: 10_000})
		if err != nil {
			m.t.Fatal(err)
		}
		var rest []*Decision
		for _, d := range list {
			if !strings.Contains(d.Reason, "was taken back") { // Those settle a difference and its reversal, which are nothing together.
				rest = append(rest, d)
			}
		}
		if len(rest) == 0 {
			break
		}
		m.unmatch(rest[0])
	}
	m.holds()
	lines, _, err := m.Lines(m.t.Context(), main, m.name, LineFilter{Counting: true, Limit: 10_000})
	if err != nil {
		m.t.Fatal(err)
	}
	for _, l := range lines {
		if !l.Taken.IsZero() {
			m.t.Fatalf("of line %d, %s is taken, and everything was undone", l.No, l.Taken)
		}
	}
	run, err := m.Match(m.t.Context(), MatchSpec{BankAccount: m.name}, clerk)
	if err != nil {
		m.t.Fatal(err)
	}
	again := m.sumOpen(run)
	if !again.Equal(m.posted) {
		m.t.Fatalf("entries of %s are open or matched anew, and %s was posted", again, m.posted)
	}
}

func (m *machine) sumOpen(run *Run) decimal.Decimal {
	return run.Summary.OpenEntries.Sum.Add(run.Summary.MatchedEntries).Add(run.Summary.IgnoredEntries)
}
