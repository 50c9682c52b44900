package reconcile

import (
	"context"
	"crypto/rand"
	"errors"
	"math"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// MatchSpec asks for a run of the matching.
type MatchSpec struct {
	Ledger      ledger.Name
	BankAccount string
	// Request is what the caller knows the request by: with it again, it is the same run. "" is one that nobody repeats.
	Request string
}

// Tally is how many there are of something, and what they come to, in the bank's sense.
type Tally struct {
	Count int64           `json:"count"`
	Sum   decimal.Decimal `json:"sum"`
}

func (t *Tally) add(amount decimal.Decimal) {
	t.Count++
	t.Sum = t.Sum.Add(amount)
}

// Summary is what a run found.
type Summary struct {
	// Lines are all lines that count.
	Lines Tally `json:"lines"`
	// MatchedLines and MatchedEntries are what active matches have taken, those of this run too; IgnoredLines and IgnoredEntries what was ignored.
	MatchedLines   decimal.Decimal `json:"matched_lines"`
	IgnoredLines   decimal.Decimal `json:"ignored_lines"`
	MatchedEntries decimal.Decimal `json:"matched_entries"`
	IgnoredEntries decimal.Decimal `json:"ignored_entries"`
	// OpenLines and OpenEntries are those of which something is open, and what it comes to. Lines.Sum is MatchedLines, IgnoredLines and OpenLines.Sum
	// together.
	OpenLines   Tally `json:"open_lines"`
	OpenEntries Tally `json:"open_entries"`
	// InTransit are the open entries that are expected to be on their way.
	InTransit Tally `json:"in_transit"`
	// Suggestions is how many groups of items are suggested.
	Suggestions int64 `json:"suggestions"`
	// LineOutcomes and EntryOutcomes are what is open, by outcome.
	LineOutcomes  map[Outcome]Tally `json:"line_outcomes"`
	EntryOutcomes map[Outcome]Tally `json:"entry_outcomes"`
}

// Run is a run of the matching. It never changes.
type Run struct {
	// No is its number, and Ordinal its place among the runs of its bank account, from 1.
	No          int64
	Ordinal     int
	BankAccount string
	Request     string
	// AsOf is the number up to which it has seen lines and decisions, and Through that of the journal.
	AsOf, Through int64
	// Settings are what it went by.
	Settings        Settings
	SettingsVersion int
	// Covers is the last day that the bank's files cover.
	Covers bankfile.Date
	// Confirmed is how many matches it made, and Results how many items it has something to say of: see Results.
	Confirmed, Results int64
	Summary            Summary
	RunAt              time.Time
	RunBy              string
	// Replayed says that the request had been made before.
	Replayed bool

	sinceLine, sinceEntry, settledLine, settledEntry int64
}

// matchTries is how often a run is begun anew because people have decided about the same items meanwhile.
const matchTries = 5

// errStale says that what a run would confirm has been decided otherwise meanwhile.
var errStale = errors.New("decided otherwise meanwhile")

// Match makes a run: it matches what is open, confirms what is certain, and keeps what it has to say of the rest. What people have decided stays as
// it is. It returns CodeInvalidArgument, or CodeConflict if people keep deciding about the same items; nothing was done then.
func (r *Reconciler) Match(ctx context.Context, spec MatchSpec, caller string) (*Run, error) {
	if err := validateRequest(spec.Request); err != nil {
		return nil, err
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	request := spec.Request
	if request == "" {
		request = rand.Text()
	}
	for range matchTries {
		// The settings are those of now.
		a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
		if err != nil {
			return nil, err
		}
		if run, err := r.runOf(ctx, r.pool, a, 0, request); err != nil || run != nil {
			return replayed(run), public(ctx, "look for the run", err)
		}
		work, err := r.work(ctx, a)
		if err != nil {
			return nil, public(ctx, "match", err)
		}
		run, err := r.keep(ctx, work, request, caller)
		if !errors.Is(err, errStale) {
			return run, err
		}
	}
	return nil, ledger.Errorf(ledger.CodeConflict, "people keep deciding about what would be matched: ask again")
}

func replayed(run *Run) *Run {
	if run != nil {
		run.Replayed = true
	}
	return run
}

// work is a run that has been made, and is not kept yet.
type work struct {
	*snapshot
	*solution
	// missing has what is known of names that lines have and entries do not.
	elsewhere map[int]remark
	covers    int
}

func (r *Reconciler) work(ctx context.Context, a *BankAccount) (*work, error) {
	s, err := r.now(ctx, a)
	if err != nil {
		return nil, err
	}
	return r.solved(ctx, s)
}

// solved matches the state of a snapshot.
func (r *Reconciler) solved(ctx context.Context, s *snapshot) (*work, error) {
	s.keepSettled = true
	p, err := r.problem(ctx, s)
	if err != nil {
		return nil, err
	}
	w := &work{snapshot: s, solution: solve(p), covers: math.MinInt}
	if !s.covers.IsZero() {
		w.covers = dayNumber(s.covers)
	}
	return w, r.lookElsewhere(ctx, w)
}

// inTransit reports whether an entry is expected to be on its way to the bank still.
func (w *work) inTransit(i *item) bool { return !i.special && i.day+w.settings.TransitDays >= w.covers }

// result is what the run says of an open item.
type result struct {
	*item
	outcome    Outcome
	rule       Rule
	group      *int32
	difference *decimal.Decimal
	note       string
	transit    bool
	candidates []int
}

// results gives what is not confirmed, lines and then entries, each in the order of the numbers. Suggestions are numbered from 1.
func (w *work) results(yield func(line bool, r result) error) error {
	numbers := make([]int32, len(w.groups))
	next := int32(0)
	for i, g := range w.groups {
		if !g.confirmed {
			next++
			numbers[i] = next
		}
	}
	one := func(items []item, n int, of []int, about map[int]remark, line bool) error {
		i := &items[n]
		if i.open.IsZero() {
			return nil
		}
		r := result{item: i, outcome: MissingAtBank}
		if line {
			r.outcome = MissingInLedger
		}
		if g := of[n]; g > 0 {
			group := &w.groups[g-1]
			if group.confirmed {
				return nil
			}
			r.outcome, r.rule, r.note, r.group = group.outcome, group.rule, group.note, &numbers[g-1]
			if !group.difference.IsZero() {
				r.difference = &group.difference
			}
		}
		if a, ok := about[n]; ok {
			r.outcome, r.note, r.candidates = a.outcome, a.note, a.candidates
		} else if a, ok := w.elsewhere[n]; ok && line && r.group == nil {
			r.outcome, r.note = a.outcome, a.note
		}
		r.transit = !line && r.outcome == MissingAtBank && w.inTransit(i)
		return yield(line, r)
	}
	for n := range w.lines {
		if err := one(w.lines, n, w.ofLine, w.aboutLine, true); err != nil {
			return err
		}
	}
	for n := range w.entries {
		if err := one(w.entries, n, w.ofEntry, w.aboutEntry, false); err != nil {
			return err
		}
	}
	return nil
}

// suggestions is how many groups are not confirmed.
func (w *work) suggestions() (n int64) {
	for i := range w.groups {
		if !w.groups[i].confirmed {
			n++
		}
	}
	return n
}

// settled gives the numbers before which nothing is open after the run, and nothing is recent.
func (w *work) settled() (line, entry int64) {
	line, entry = w.asOf, w.through
	for n := range w.lines {
		if i := &w.lines[n]; i.day >= w.recent() && !i.special {
			line = min(line, i.no-1)
		}
	}
	for n := range w.entries {
		if i := &w.entries[n]; i.day >= w.recent() && i.no > 0 {
			entry = min(entry, i.no-1)
		}
	}
	_ = w.results(func(isLine bool, r result) error {
		switch {
		case isLine:
			line = min(line, r.no-1)
		case r.no > 0:
			entry = min(entry, r.no-1)
		}
		return nil
	})
	return line, entry
}

// summary adds up what is open.
func (w *work) summary() Summary {
	s := Summary{LineOutcomes: map[Outcome]Tally{}, EntryOutcomes: map[Outcome]Tally{}, Suggestions: w.suggestions()}
	add := func(m map[Outcome]Tally, o Outcome, amount decimal.Decimal) {
		t := m[o]
		t.add(amount)
		m[o] = t
	}
	_ = w.results(func(line bool, r result) error {
		if line {
			s.OpenLines.add(r.open)
			add(s.LineOutcomes, r.outcome, r.open)
			return nil
		}
		s.OpenEntries.add(r.open)
		add(s.EntryOutcomes, r.outcome, r.open)
		if r.transit {
			s.InTransit.add(r.open)
		}
		return nil
	})
	return s
}

// isTaken reports whether an error says that an item has been taken by another match.
func isTaken(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && (refused.ConstraintName == "reconcile_line_taken_once" || refused.ConstraintName == "reconcile_entry_taken_once")
}

// keep writes a run with its results and its matches. The results come first: they need no lock.
func (r *Reconciler) keep(ctx context.Context, w *work, request, caller string) (*Run, error) {
	var no int64
	err := r.change(ctx, "keep the run", func(tx pgx.Tx) error {
		known, err := r.runOf(ctx, tx, w.account, 0, request)
		if err != nil || known != nil {
			if known != nil {
				no = known.No
			}
			return err
		}
		if no, err = r.sql.ReconcileRunNumber(ctx, tx); err != nil {
			return err
		}
		written, err := r.copyResults(ctx, tx, w, no)
		if err != nil {
			return err
		}
		if err := r.lock(ctx, tx, w.account); err != nil {
			return err
		}
		if err := r.stillWanted(ctx, tx, w); err != nil {
			return err
		}
		if err := r.copyMatches(ctx, tx, w, no, caller); err != nil {
			return err
		}
		return r.insertRun(ctx, tx, w, no, written, request, caller)
	})
	if isTaken(err) || errors.Is(err, errStale) {
		return nil, errStale
	}
	if err != nil {
		return nil, err
	}
	run, err := r.runOf(ctx, r.pool, w.account, no, "")
	if err == nil && run == nil {
		err = ledger.Errorf(ledger.CodeInternal, "run %d is not there", no)
	}
	return run, public(ctx, "read the run", err)
}

// stillWanted returns errStale if a person has taken apart, since the run looked, what it would confirm.
func (r *Reconciler) stillWanted(ctx context.Context, tx pgx.Tx, w *work) error {
	undone, err := r.undoneSets(ctx, tx, w.account, w.asOf, math.MaxInt64)
	if err != nil || len(undone) == 0 {
		return err
	}
	for i := range w.groups {
		if g := &w.groups[i]; g.confirmed && undone[w.key(g.lines, g.entries)] {
			return errStale
		}
	}
	return nil
}

func (r *Reconciler) insertRun(ctx context.Context, tx pgx.Tx, w *work, no, written int64, request, caller string) error {
	summary := w.summary()
	totals, err := r.sql.ReconcileTotals(ctx, tx, dbsqlc.ReconcileTotalsParams{
		LedgerID: w.account.ledgerID, BankAccountNo: w.account.no, AsOf: w.asOf, Through: w.through, RunNo: no,
	})
	if err != nil {
		return err
	}
	summary.Lines = Tally{totals.Lines, totals.LinesSum}
	summary.MatchedLines, summary.IgnoredLines = totals.MatchedLines, totals.IgnoredLines
	summary.MatchedEntries, summary.IgnoredEntries = totals.MatchedEntries, totals.IgnoredEntries
	if sum := summary.MatchedLines.Add(summary.IgnoredLines).Add(summary.OpenLines.Sum); !sum.Equal(summary.Lines.Sum) {
		return ledger.Errorf(ledger.CodeInternal, "the run does not add up: %s of lines are matched, ignored or open, and the lines come to %s", sum,
			summary.Lines.Sum)
	}
	line, entry := w.settled()
	_, err = r.sql.ReconcileRunInsert(ctx, tx, dbsqlc.ReconcileRunInsertParams{
		LedgerID: w.account.ledgerID, BankAccountNo: w.account.no, RunNo: no, Request: request, AsOf: w.asOf, Through: w.through,
		SettingVersion: int32(w.version), SinceLine: w.sinceLine, SinceEntry: w.sinceEntry, //nolint:gosec // it was one
		SettledLine: line, SettledEntry: entry,
		CoversOn: toDate(w.snapshot.covers), Confirmed: int64(len(w.groups)) - w.suggestions(), Results: written, Summary: encode(summary), Caller: caller,
	})
	return err
}
