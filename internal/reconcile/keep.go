package reconcile

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// The sides of results, as they are stored.
const (
	sideLine  int16 = 0
	sideEntry int16 = 1
)

// storedCandidate names an item of the other side: a line by its number, an entry by sequence and leg.
type storedCandidate struct {
	Line     int64 `json:"line,omitempty"`
	Sequence int64 `json:"sequence,omitempty"`
	Leg      int16 `json:"leg,omitempty"`
}

var resultColumns = []string{
	"ledger_id", "bank_account_no", "run_no", "side", "item", "leg", "item_on", "open", "outcome", "rule", "group_no", "difference", "in_transit",
	"note",
	"candidates",
}

// copyResults writes what a run has to say of open items, and gives how many these are.
func (r *Reconciler) copyResults(ctx context.Context, tx pgx.Tx, w *work, runNo int64) (int64, error) {
	source := &resultSource{}
	ended := make(chan struct{})
	source.next, source.stop = make(chan []any, 256), make(chan struct{})
	go func() {
		defer close(ended)
		defer close(source.next)
		_ = w.results(func(line bool, one result) error {
			select {
			case source.next <- w.resultRow(runNo, line, one):
				return nil
			case <-source.stop:
				return context.Canceled
			}
		})
	}()
	n, err := tx.CopyFrom(ctx, pgx.Identifier{"reconcile_result"}, resultColumns, source)
	close(source.stop)
	<-ended
	return n, err
}

func (w *work) resultRow(runNo int64, line bool, one result) []any {
	side := sideEntry
	if line {
		side = sideLine
	}
	var candidates *string
	if len(one.candidates) > 0 {
		list := make([]storedCandidate, len(one.candidates))
		for n, c := range one.candidates {
			if line {
				list[n] = storedCandidate{Sequence: w.entries[c].no, Leg: w.entries[c].leg}
			} else {
				list[n] = storedCandidate{Line: w.lines[c].no}
			}
		}
		text := encode(list)
		candidates = &text
	}
	return []any{
		w.account.ledgerID, w.account.no, runNo, side, one.no, one.leg, toDate(dayOf(one.day)), one.open, string(one.outcome), string(one.rule), one.group,
		one.difference, one.transit, one.note, candidates,
	}
}

// resultSource hands rows to COPY as they are made, so that they are never all in memory.
type resultSource struct {
	next chan []any
	stop chan struct{}
	row  []any
}

func (s *resultSource) Next() bool {
	row, ok := <-s.next
	s.row = row
	return ok
}

func (s *resultSource) Values() ([]any, error) { return s.row, nil }
func (s *resultSource) Err() error             { return nil }

var (
	matchColumns = []string{
		"ledger_id", "bank_account_no", "match_no", "kind", "rule", "outcome", "run_no", "lines", "entries", "request", "reason", "decided_by",
	}
	itemColumns = []string{"ledger_id", "bank_account_no", "match_no", "item_no", "line_no", "sequence", "leg", "amount", "item_on", "posts_difference",
		"number",
	}
)

// copyMatches writes what a run confirms.
func (r *Reconciler) copyMatches(ctx context.Context, tx pgx.Tx, w *work, runNo int64, caller string) error {
	var confirmed []int
	for i := range w.groups {
		if w.groups[i].confirmed {
			confirmed = append(confirmed, i)
		}
	}
	if len(confirmed) == 0 {
		return nil
	}
	numbers, err := r.sql.ReconcileNumbers(ctx, tx, int32(len(confirmed))) //nolint:gosec // as many as there are lines
	if err != nil {
		return err
	}
	a := w.account
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"reconcile_match"}, matchColumns, pgx.CopyFromSlice(len(confirmed), func(n int) ([]any, error) {
		g := &w.groups[confirmed[n]]
		return []any{
			a.ledgerID, a.no, numbers[n], kindAutomatic, string(g.rule), string(g.outcome), &runNo, sumOpen(w.lines, g.lines), sumOpen(w.entries, g.entries),
			nil, "", caller,
		}, nil
	}))
	if err != nil {
		return err
	}
	source := &itemSource{work: w, groups: confirmed, numbers: numbers}
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"reconcile_item"}, itemColumns, source)
	return err
}

// itemSource goes through the items of matches.
type itemSource struct {
	*work
	groups  []int
	numbers []int64
	group   int // among the groups
	item    int // of the group, from 1
	row     []any
}

func (s *itemSource) Next() bool {
	for ; s.group < len(s.groups); s.group, s.item = s.group+1, 0 {
		g := &s.work.groups[s.groups[s.group]]
		if s.item >= len(g.lines)+len(g.entries) {
			continue
		}
		var line, sequence *int64
		var leg *int16
		var i *item
		if s.item < len(g.lines) {
			i = &s.lines[g.lines[s.item]]
			line = &i.no
		} else {
			i = &s.entries[g.entries[s.item-len(g.lines)]]
			sequence, leg = &i.no, &i.leg
		}
		s.item++
		s.row = []any{
			s.account.ledgerID, s.account.no, s.numbers[s.group], int32(s.item), line, sequence, leg, i.open, //nolint:gosec // a place
			toDate(dayOf(i.day)), false, s.numbers[s.group],
		}
		return true
	}
	return false
}

func (s *itemSource) Values() ([]any, error) { return s.row, nil }
func (s *itemSource) Err() error             { return nil }

const (
	// mostElsewhere is how many names of lines are looked for among all transfers of the ledger, and atATime how many in one statement.
	mostElsewhere = 20_000
	atATime       = 1000
)

// lookElsewhere finds out whether lines that are not in the account's books have the id of a transfer that is elsewhere in them.
func (r *Reconciler) lookElsewhere(ctx context.Context, w *work) error {
	w.elsewhere = map[int]remark{}
	var ids []ledger.TransferID
	var of [][]int // the lines that have each of ids as a name
	known := map[ledger.TransferID]int{}
	var nos []int64
	places := map[int64]int{}
	for n := range w.lines {
		if w.lines[n].special || w.lines[n].open.IsZero() || w.ofLine[n] != 0 || w.aboutLine[n].outcome != "" {
			continue
		}
		if len(nos) < mostElsewhere {
			nos = append(nos, w.lines[n].no)
			places[w.lines[n].no] = n
		}
	}
	for begin := 0; begin < len(nos); begin += atATime {
		rows, err := r.sql.BankLineNames(ctx, r.pool, bankLineNames(w.account, nos[begin:min(begin+atATime, len(nos))]))
		if err != nil {
			return err
		}
		for _, row := range rows {
			var refs storedRefs
			if err := json.Unmarshal([]byte(row.Refs), &refs); err != nil {
				return err
			}
			for _, text := range []string{row.ExternalID, refs.EndToEnd, refs.Bank, refs.Customer, refs.Instruction, refs.Transaction, refs.Creditor,
				refs.Source} {
				id := ledger.TransferID(text)
				if id.ValidateFormat("") != nil {
					continue
				}
				n, asked := known[id]
				if !asked {
					n = len(ids)
					known[id] = n
					ids, of = append(ids, id), append(of, nil)
				}
				of[n] = append(of[n], places[row.LineNo])
			}
		}
	}
	found := make([]*ledger.Transfer, len(ids))
	for begin := 0; begin < len(ids); begin += atATime {
		transfers, err := r.journal.TransfersNamed(ctx, w.account.Ledger, ids[begin:min(begin+atATime, len(ids))])
		if err != nil {
			return err
		}
		for _, t := range transfers {
			if n, ok := known[t.ID]; ok && t.Sequence <= w.through {
				found[n] = t
			}
		}
	}
	// Of several names of a line the first one counts, in whatever order the transfers were found: a run that is repeated says the same.
	for n, t := range found {
		for _, place := range of[n] {
			if _, told := w.elsewhere[place]; t != nil && !told {
				w.elsewhere[place] = whereIs(w.account, t)
			}
		}
	}
	return nil
}

// whereIs says of a transfer why it is not among the entries that a line may be.
func whereIs(a *BankAccount, t *ledger.Transfer) remark {
	if t.Refusal != nil {
		return remark{outcome: MissingInLedger, note: fmt.Sprintf("transfer %s was refused: %s", t.ID, t.Refusal.Reason)}
	}
	if t.Kind() == ledger.Hold {
		return remark{outcome: MissingInLedger, note: fmt.Sprintf("transfer %s is a hold, which moves nothing before it is captured", t.ID)}
	}
	outcome := CurrencyMismatch
	for _, e := range t.Entries {
		if e.Account == a.Account {
			return remark{outcome: MissingInLedger, note: fmt.Sprintf("transfer %s is in the books of this account, and is no match", t.ID)}
		}
		if e.Currency.Code == a.Currency.Code {
			outcome = MissingInLedger
		}
	}
	if outcome == CurrencyMismatch {
		return remark{outcome: outcome, note: fmt.Sprintf("transfer %s is in %s", t.ID, t.Entries[0].Currency.Code)}
	}
	return remark{outcome: outcome, note: fmt.Sprintf("transfer %s is in the books of %s and others, and not of this account", t.ID,
		t.Entries[0].Account)}
}

func bankLineNames(a *BankAccount, nos []int64) dbsqlc.BankLineNamesParams {
	return dbsqlc.BankLineNamesParams{LedgerID: a.ledgerID, BankAccountNo: a.no, LineNos: nos}
}
