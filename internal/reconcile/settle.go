package reconcile

import (
	"context"
	"crypto/rand"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// decide makes the decision, or finds that it was made.
func (w *decision) decide(ctx context.Context) (*Decision, error) {
	once := w.request == ""
	if once {
		// So that it knows its own work again where the answer to the commit is lost.
		w.request = requestOnce + rand.Text()
	}
	var result *Decision
	own := int64(0) // what an earlier try of this call has written, if that was committed
	err := w.r.change(ctx, "decide", func(tx pgx.Tx) error {
		if err := w.r.lock(ctx, tx, w.account); err != nil {
			return err
		}
		known, err := w.r.decisionOf(ctx, tx, w.account, w.request)
		if err != nil {
			return err
		}
		if known != nil {
			result, known.Replayed = known, known.No != own
			return w.sameAs(known)
		}
		var earlier *Decision
		if once {
			earlier, err = w.made(ctx, tx)
		}
		if err == nil && earlier == nil {
			earlier, err = w.look(ctx, tx)
		}
		if err != nil {
			return err
		}
		if earlier != nil {
			earlier.Replayed = true
			result = earlier
			return nil
		}
		if own, err = w.write(ctx, tx); err != nil {
			return err
		}
		result, err = w.r.mustDecision(ctx, tx, w.account, own)
		return err
	})
	if err != nil {
		return nil, err
	}
	return result, nil
}

// made finds an active decision of the same person that takes the same amounts of the same items. Where only a part of an item is taken, the rest is
// open, and nothing else would tell a request that is sent again from another one.
func (w *decision) made(ctx context.Context, tx pgx.Tx) (*Decision, error) {
	for _, t := range w.takes {
		if t.asked.IsZero() || t.exactly != nil {
			return nil, nil
		}
	}
	a, first := w.account, w.takes[0]
	var nos []int64
	var err error
	if first.IsLine() {
		nos, err = w.r.sql.ReconcileMatchNumbersOfLine(ctx, tx, dbsqlc.ReconcileMatchNumbersOfLineParams{LedgerID: a.ledgerID, LineNo: first.Line})
	} else {
		nos, err = w.r.sql.ReconcileMatchNumbersOfEntry(ctx, tx, dbsqlc.ReconcileMatchNumbersOfEntryParams{
			LedgerID: a.ledgerID, BankAccountNo: a.no, Sequence: first.Sequence,
		})
	}
	if err != nil {
		return nil, err
	}
	list, err := w.r.decisions(ctx, tx, a, nos)
	for _, d := range list {
		if d.Undone == nil && d.DecidedBy == w.caller && w.sameAs(d) == nil {
			return d, nil
		}
	}
	return nil, err
}

// sameAs returns CodeAlreadyExists unless a decision under the same request is about the same.
func (w *decision) sameAs(d *Decision) error {
	asked := &decisionItems{}
	for _, t := range w.takes {
		asked.add(t.DecisionItem)
	}
	made := &decisionItems{}
	for _, i := range d.Items {
		if !i.PostsDifference {
			made.add(i)
		}
	}
	same := d.Kind == w.kind && asked.key() == made.key() && w.approvesAs(d)
	for _, t := range w.takes {
		same = same && (t.asked.IsZero() || slices.ContainsFunc(d.Items, func(i DecisionItem) bool {
			return sameItem(i, t.DecisionItem) &&
				i.Amount.Equal(t.asked)
		}))
	}
	if !same {
		return ledger.Errorf(ledger.CodeAlreadyExists, "request %q was made before, and was another one (match %d)", w.request, d.No)
	}
	return nil
}

// approvesAs reports whether a decision's difference was approved as is asked here. A decision is not another one because it was approved later.
func (w *decision) approvesAs(d *Decision) bool {
	return w.difference == nil || slices.ContainsFunc(d.Differences, func(a Difference) bool {
		at := w.difference.EffectiveAt
		return a.Account == w.difference.Account && (at == nil) == (a.EffectiveAt == nil) && (at == nil || at.Equal(*a.EffectiveAt))
	})
}

func sameItem(a, b DecisionItem) bool {
	return a.Line == b.Line && (a.Line != 0 || a.Sequence == b.Sequence && a.Leg == b.Leg)
}

// decisionItems names a set of items.
type decisionItems struct {
	lines   []int64
	entries []entryKey
}

func (s *decisionItems) add(i DecisionItem) {
	if i.IsLine() {
		s.lines = append(s.lines, i.Line)
	} else {
		s.entries = append(s.entries, entryKey{i.Sequence, int16(i.Leg)}) //nolint:gosec // a leg of a transfer
	}
}

func (s *decisionItems) key() string { return setKey(s.lines, s.entries) }

// state is what is known of an item under the lock.
type state struct {
	taken     decimal.Decimal
	match     int64
	matchKind string
	by        string
	at        time.Time
}

// look completes the items under the lock. It returns the decision that is this one already, or CodeConflict if somebody else has been first.
func (w *decision) look(ctx context.Context, tx pgx.Tx) (*Decision, error) {
	states, err := w.states(ctx, tx)
	if err != nil {
		return nil, err
	}
	var conflict *ledger.Error
	matches := map[int64]bool{}
	for i := range w.takes {
		t, s := &w.takes[i], states[i]
		open := t.whole.Sub(s.taken)
		if t.Amount = t.asked; t.Amount.IsZero() {
			t.Amount = open
		}
		matches[s.match] = true
		switch {
		case open.IsZero(), s.match != 0 && t.Amount.Abs().GreaterThan(open.Abs()), t.exactly != nil && !t.exactly.Equal(open):
			if conflict == nil {
				conflict = ledger.Errorf(ledger.CodeConflict, "%s: of %s, %s is open: %s", t.name, w.text(t.whole), w.text(open), decided(s.matchKind, s.match, s.by, s.at))
			}
			if s.match == 0 {
				conflict = ledger.Errorf(ledger.CodeConflict, "%s: of %s, %s is open: it is not as the run saw it any more", t.name, w.text(t.whole), w.text(open))
			}
		case t.Amount.Sign() != open.Sign() || t.Amount.Abs().GreaterThan(open.Abs()):
			return nil, ledger.Invalid("amount", "%s of %s: %s is open, in that sign", w.text(t.Amount), t.name, w.text(open))
		}
	}
	if conflict == nil {
		return nil, nil
	}
	if len(matches) == 1 && !matches[0] {
		for no := range matches {
			d, err := w.r.mustDecision(ctx, tx, w.account, no)
			if err != nil {
				return nil, err
			}
			if d.DecidedBy == w.caller && d.Kind == w.kind && w.sameAs(d) == nil {
				return d, nil
			}
		}
	}
	return nil, conflict
}

// states reads what is known of the items, in their order.
func (w *decision) states(ctx context.Context, tx pgx.Tx) ([]state, error) {
	a := w.account
	lines := dbsqlc.ReconcileLineStatesParams{LedgerID: a.ledgerID, BankAccountNo: a.no}
	entries := dbsqlc.ReconcileEntryStatesParams{LedgerID: a.ledgerID, BankAccountNo: a.no}
	for _, t := range w.takes {
		if t.IsLine() {
			lines.LineNos = append(lines.LineNos, t.Line)
		} else {
			entries.Sequences, entries.Legs = append(entries.Sequences, t.Sequence), append(entries.Legs, int16(t.Leg)) //nolint:gosec // a leg
		}
	}
	ofLines, err := w.r.sql.ReconcileLineStates(ctx, tx, lines)
	if err != nil {
		return nil, err
	}
	known := map[int64]dbsqlc.ReconcileLineStatesRow{}
	for _, row := range ofLines {
		known[row.LineNo] = row
	}
	ofEntries, err := w.r.sql.ReconcileEntryStates(ctx, tx, entries)
	if err != nil {
		return nil, err
	}
	states, next := make([]state, len(w.takes)), 0
	for i := range w.takes {
		t := &w.takes[i]
		if !t.IsLine() {
			row := ofEntries[next]
			next++
			states[i] = state{row.Taken, row.MatchNo, row.MatchKind, row.DecidedBy, row.DecidedAt}
			continue
		}
		row, ok := known[t.Line]
		switch {
		case !ok:
			return nil, ledger.Missing("lines", "bank account %s has no line %d", a.Name, t.Line)
		case !row.Counts && row.Status == "booked" && !row.Amount.IsZero():
			return nil, ledger.Invalid("lines", "line %d does not count: its details do, or its line does", t.Line)
		case !row.Counts:
			return nil, ledger.Invalid("lines", "line %d is information (%s, %s): there is nothing to decide", t.Line, row.Status, row.Amount)
		}
		t.whole, t.Day = row.Amount, fromDate(row.BookedOn)
		states[i] = state{row.Taken, row.MatchNo, row.MatchKind, row.DecidedBy, row.DecidedAt}
	}
	return states, nil
}

// write writes the decision, and that its difference may be posted.
func (w *decision) write(ctx context.Context, tx pgx.Tx) (int64, error) {
	a := w.account
	numbers, err := w.r.sql.ReconcileNumbers(ctx, tx, 1)
	if err != nil {
		return 0, err
	}
	match := dbsqlc.ReconcileMatchInsertParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNo: numbers[0], Kind: w.kind, Rule: string(w.rule), Outcome: string(Ignored), Request: &w.request,
		Reason: w.reason, Caller: w.caller,
	}
	items := dbsqlc.ReconcileItemsInsertParams{LedgerID: a.ledgerID, BankAccountNo: a.no, MatchNo: numbers[0], Number: numbers[0]}
	for i, t := range w.takes {
		addItem(&items, i+1, t.DecisionItem)
		if t.IsLine() {
			match.Lines = match.Lines.Add(t.Amount)
		} else {
			match.Entries = match.Entries.Add(t.Amount)
		}
	}
	difference := match.Lines.Sub(match.Entries)
	if w.kind == kindManual {
		match.Outcome = string(Matched)
		if err := w.mayDiffer(match.Lines, match.Entries); err != nil {
			return 0, err
		}
		if !difference.IsZero() {
			match.Outcome = string(MatchedWithDifference)
		}
	}
	if err := w.r.sql.ReconcileMatchInsert(ctx, tx, match); err != nil {
		return 0, err
	}
	if err := w.r.sql.ReconcileItemsInsert(ctx, tx, items); err != nil {
		return 0, err
	}
	if w.difference != nil {
		err = w.r.approve(ctx, tx, a, numbers[0], 1, difference, w.against, w.difference, w.caller)
	}
	return numbers[0], err
}

func addItem(items *dbsqlc.ReconcileItemsInsertParams, no int, i DecisionItem) {
	items.ItemNos = append(items.ItemNos, int32(no)) //nolint:gosec // at most maxTakes
	items.LineNos = append(items.LineNos, i.Line)
	items.Sequences = append(items.Sequences, i.Sequence)
	items.Legs = append(items.Legs, int16(i.Leg)) //nolint:gosec // a leg of a transfer
	items.Amounts = append(items.Amounts, i.Amount)
	items.Days = append(items.Days, pgtype.Date{Time: i.Day.Time(), Valid: true})
}

// mayDiffer returns CodeInvalidArgument for sums that differ without anybody having approved that.
func (w *decision) mayDiffer(lines, entries decimal.Decimal) error {
	difference := lines.Sub(entries)
	switch {
	case difference.IsZero() && w.difference != nil:
		return ledger.Invalid("difference", "there is none: lines and entries both come to %s", w.text(lines))
	case difference.IsZero() || w.difference != nil:
		return nil
	case lines.IsZero() || entries.IsZero():
		return ledger.Invalid("lines", "come to %s and the entries to %s: those of one side alone must come to zero", w.text(lines), w.text(entries))
	case difference.Abs().LessThanOrEqual(w.account.Settings.Tolerance):
		return nil
	}
	return ledger.Invalid("difference", "the lines come to %s and the entries to %s: name the account to which the difference of %s is posted",
		w.text(lines), w.text(entries), w.text(difference))
}

// text is an amount for people.
func (w *decision) text(amount decimal.Decimal) string {
	return amount.StringFixed(w.account.Currency.Scale)
}
