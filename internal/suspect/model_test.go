package suspect

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// failer is a test, or one of rapid's.
type failer interface {
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
	Context() context.Context
}

// modelled is a group as it has to be.
type modelled struct {
	members []int64
	facts   []*fact
}

// recompute computes the groups of a ledger from the journal alone, by comparing each payment with all before it: without a cursor, a window or a
// fingerprint.
func (d *desk) recompute(t failer, name ledger.Name) []*modelled {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `
		SELECT ledger_id, sequence, posted_at,
		       (SELECT string_agg(account_no || '/' || trim_scale(amount), ' ' ORDER BY account_no, amount) FROM entry e
		         WHERE e.ledger_id = t.ledger_id AND e.sequence = t.sequence)
		  FROM transfer t JOIN ledger l USING (ledger_id)
		 WHERE l.name = $1 AND refusal IS NULL AND coalesce(kind, 'capture') = 'capture' ORDER BY sequence`, string(name))
	if err != nil {
		t.Fatal(err)
	}
	type payment struct {
		LedgerID int32
		Sequence int64
		At       time.Time
		Moves    string
	}
	payments, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payment])
	if err != nil {
		t.Fatal(err)
	}
	if len(payments) == 0 {
		return nil
	}
	var sequences []int64
	for _, p := range payments {
		sequences = append(sequences, p.Sequence)
	}
	facts := map[int64]*fact{}
	list, err := d.journal.ProgressAt(t.Context(), payments[0].LedgerID, sequences)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list {
		facts[p.Sequence] = factOf(p)
	}
	var groups []*modelled
	for i, p := range payments {
		var best verdict
		var partner *payment
		for k := range payments[:i] {
			q := &payments[k]
			if q.Moves != p.Moves || p.At.Sub(q.At) > 24*time.Hour || q.At.Sub(p.At) > 24*time.Hour {
				continue
			}
			v := compare(facts[q.Sequence], facts[p.Sequence])
			// As likely and as near: the one posted later.
			if partner == nil || v.better(best) || !best.better(v) && !q.At.Before(partner.At) {
				best, partner = v, q
			}
		}
		if partner == nil {
			continue
		}
		var g *modelled
		for _, one := range groups {
			if slices.Contains(one.members, partner.Sequence) {
				g = one // the last of them
			}
		}
		if g != nil {
			first, last := p.At, p.At
			for _, m := range g.facts {
				first, last = earlier(first, m.postedAt), later(last, m.postedAt)
			}
			if last.Sub(first) > 24*time.Hour || len(g.members) == 50 {
				g = nil
			}
		}
		if g == nil {
			g = &modelled{[]int64{partner.Sequence}, []*fact{facts[partner.Sequence]}}
			groups = append(groups, g)
		}
		g.members, g.facts = append(g.members, p.Sequence), append(g.facts, facts[p.Sequence])
	}
	return groups
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// text is a group as "state level: numbers", with so many members dismissed.
func (m *modelled) text(dismissed int) string {
	a := assess(m.facts, dismissed)
	return fmt.Sprintf("%s %s: %v", a.state, a.level(), m.members)
}

// checkModel compares all groups of a ledger, and their places in the list, with what the journal says. dismissed has how many members of a group
// somebody has dismissed, by the group's first and second one.
func (d *desk) checkModel(t failer, name ledger.Name, dismissed map[[2]int64]int) {
	t.Helper()
	want := []string{}
	for _, m := range d.recompute(t, name) {
		want = append(want, m.text(dismissed[[2]int64{m.members[0], m.members[1]}]))
	}
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), `
		SELECT l.state, l.level, (SELECT string_agg(m.sequence::text, ' ' ORDER BY m.ordinal) FROM suspect_member m
		                           WHERE m.ledger_id = l.ledger_id AND m.group_no = l.group_no)
		  FROM suspect_list l JOIN ledger b USING (ledger_id)
		 WHERE b.name = $1 AND l.account_no = 0 ORDER BY l.group_no`, string(name))
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	listed, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		State   State
		Level   Level
		Members string
	}])
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range listed {
		got = append(got, fmt.Sprintf("%s %s: [%s]", row.State, row.Level, row.Members))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is listed is not what the journal says (-journal +list):\n%s", diff)
	}
	// And read from beginning to end, in any order of pages.
	read := []string{}
	filter := Filter{States: States(), Limit: 3}
	for {
		page, err := d.Suspects(t.Context(), name, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Groups {
			var members []string
			for _, m := range g.Members {
				members = append(members, fmt.Sprint(m.Sequence))
			}
			read = append(read, fmt.Sprintf("%s %s: [%s]", g.State, g.Level, strings.Join(members, " ")))
		}
		if page.Next == nil {
			break
		}
		filter.After = page.Next
	}
	slices.Sort(want)
	slices.Sort(read)
	if diff := cmp.Diff(want, read); diff != "" {
		t.Errorf("what is read is not what the journal says (-journal +read):\n%s", diff)
	}
}

// machine does anything that can be done, in any order.
type machine struct {
	*desk
	t         *rapid.T
	faults    *pgtest.Faults
	name      ledger.Name
	at        time.Time
	next      int
	payments  []ledger.TransferID
	refunded  map[ledger.TransferID]bool
	dismissed map[[2]int64]int
}

func (m *machine) pay() {
	m.next++
	id := ledger.TransferID(fmt.Sprintf("%s-%d", m.name, m.next))
	m.at = m.at.Add(rapid.SampledFrom([]time.Duration{
		0, time.Microsecond, 5 * time.Minute, 10 * time.Minute, time.Hour, 12 * time.Hour, 24 * time.Hour, 24*time.Hour + time.Microsecond, -20 * time.Minute,
	}).Draw(m.t, "later by"))
	from, to := "payer", "payee"
	if rapid.IntRange(0, 3).Draw(m.t, "back") == 0 {
		from, to = to, from
	}
	var metadata *string
	if ref := rapid.IntRange(0, 2).Draw(m.t, "reference"); ref > 0 {
		text := fmt.Sprintf(`{"ref":"%d"}`, ref)
		metadata = &text
	}
	conn, err := pgx.Connect(m.t.Context(), m.db.OwnerDSN())
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(m.t.Context(), `INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller, metadata)
		SELECT l.ledger_id, $2, $3, ARRAY[a.account_no, b.account_no], ARRAY[$4::numeric, -$4::numeric], 'psql', $5::json
		  FROM ledger l JOIN account a USING (ledger_id) JOIN account b USING (ledger_id)
		 WHERE l.name = $1 AND a.account_id = $6 AND b.account_id = $7`,
		string(m.name), string(id), m.at, rapid.IntRange(1, 2).Draw(m.t, "amount"), metadata, from, to); err != nil {
		m.t.Fatal(err)
	}
	m.payments = append(m.payments, id)
}

func (m *machine) refund() {
	if len(m.payments) == 0 {
		return
	}
	m.next++
	original := rapid.SampledFrom(m.payments).Draw(m.t, "original")
	if m.refunded[original] {
		return
	}
	spec := refund(ledger.TransferID(fmt.Sprintf("%s-%d", m.name, m.next)), original, "", "0")
	switch rapid.IntRange(0, 2).Draw(m.t, "how") {
	case 0:
		spec = reversal(spec.ID, original)
	case 1:
		half := dec("0.5")
		spec.Terms.Amount = &half
	}
	m.refunded[original] = true
	results, err := m.journal.Post(m.t.Context(), clerk, m.name, []ledger.TransferSpec{spec})
	if err != nil || results[0].Err != nil || results[0].Transfer.Refusal != nil {
		m.t.Fatalf("%v %+v", err, results)
	}
}

// follow follows some, perhaps with others at the same time, and perhaps it is killed in the middle.
func (m *machine) follow() {
	detectors := []*Detector{m.Detector}
	for range rapid.IntRange(0, 2).Draw(m.t, "others") {
		detectors = append(detectors, m.another())
	}
	m.config.Batch = rapid.IntRange(1, 5).Draw(m.t, "batch")
	cut := rapid.IntRange(0, 2).Draw(m.t, "cut")
	switch cut {
	case 1:
		m.faults.CutBeforeCommit(1)
	case 2:
		m.faults.CutAfterCommit(1)
	}
	var wait sync.WaitGroup
	errs := make([]error, len(detectors))
	for i, d := range detectors {
		wait.Go(func() { _, errs[i] = d.Follow(m.t.Context()) })
	}
	wait.Wait()
	m.faults.CutBeforeCommit(0)
	m.faults.CutAfterCommit(0)
	for _, err := range errs {
		if err != nil && (cut == 0 || ledger.CodeOf(err) != ledger.CodeUnavailable) {
			m.t.Fatal(err)
		}
	}
}

func (m *machine) decide() {
	page, err := m.Suspects(m.t.Context(), m.name, everything)
	if err != nil {
		m.t.Fatal(err)
	}
	if len(page.Groups) == 0 {
		return
	}
	g := page.Groups[rapid.IntRange(0, len(page.Groups)-1).Draw(m.t, "group")]
	key := [2]int64{g.Members[0].Sequence, g.Members[1].Sequence}
	spec := DecisionSpec{Ledger: m.name, No: g.No, Members: len(g.Members), Reason: "because"}
	if rapid.Bool().Draw(m.t, "dismiss") {
		_, _, err = m.Dismiss(m.t.Context(), spec, clerk)
		m.dismissed[key] = len(g.Members)
	} else {
		_, _, err = m.Undismiss(m.t.Context(), spec, clerk)
		m.dismissed[key] = 0
	}
	if err != nil {
		m.t.Fatal(err)
	}
}

// catchUp follows all there is, and compares it with the journal.
func (m *machine) catchUp() {
	for {
		if _, err := m.Follow(m.t.Context()); err != nil {
			m.t.Fatal(err)
		}
		if l, err := m.Lag(m.t.Context()); err != nil {
			m.t.Fatal(err)
		} else if len(l.Ledgers) == 0 {
			break
		}
	}
	m.checkModel(m.t, m.name, m.dismissed)
}

// TestModel does anything in any order, and what is found in the end is what the journal says.
func TestModel(t *testing.T) {
	t.Parallel()
	faults := pgtest.NewFaults(t)
	d := setup(t, faults)
	var ledgers atomic.Int64
	rapid.Check(t, func(rt *rapid.T) {
		name := ledger.Name(fmt.Sprintf("l%d", ledgers.Add(1)))
		if _, err := d.journal.CreateLedger(rt.Context(), clerk, name); err != nil {
			rt.Fatal(err)
		}
		if _, err := d.journal.CreateAccounts(rt.Context(), clerk, name, []ledger.AccountSpec{
			{ID: "payer", Type: ledger.Liability, Currency: "BDT"}, {ID: "payee", Type: ledger.Liability, Currency: "BDT"},
		}); err != nil {
			rt.Fatal(err)
		}
		m := &machine{desk: d, t: rt, faults: faults, name: name, at: noon, refunded: map[ledger.TransferID]bool{}, dismissed: map[[2]int64]int{}}
		actions := []func(){m.pay, m.pay, m.pay, m.pay, m.refund, m.follow, m.follow, m.decide, m.catchUp}
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			rapid.SampledFrom(actions).Draw(rt, "action")()
		}
		m.catchUp()
	})
}
