package reconcile

import (
	"context"
	"encoding/json"
	"math"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// ourTransfers is how the ids of the transfers begin that post differences.
const ourTransfers = ledger.ReservedPrefix + "reconcile:"

// snapshot is a state of a bank account and of its account in the books, as of two numbers. It never changes.
type snapshot struct {
	account  *BankAccount
	settings Settings
	version  int
	// asOf is the number up to which lines and decisions count, and through that for entries.
	asOf, through int64
	// sinceLine and sinceEntry are numbers up to which nothing is open.
	sinceLine, sinceEntry int64
	// covers is the last day that the bank's files cover.
	covers bankfile.Date
	// keepSettled keeps what is settled, too, as far as something open may be a duplicate of it.
	keepSettled bool
}

// now is the state as it is. The decisions come first: of all that they were about, the entries are there when the horizon of the journal is read.
func (r *Reconciler) now(ctx context.Context, a *BankAccount) (*snapshot, error) {
	s := &snapshot{account: a, settings: a.Settings, version: a.SettingsVersion}
	state, err := r.sql.ReconcileNow(ctx, r.pool, dbsqlc.ReconcileNowParams{LedgerID: a.ledgerID, BankAccountNo: a.no})
	if err != nil {
		return nil, err
	}
	s.asOf, s.sinceLine, s.sinceEntry, s.covers = state.Newest, max(0, state.Line), max(0, state.Entry), fromDate(state.Covers)
	s.through, err = r.journal.Horizon(ctx, a.Ledger)
	return s, err
}

// rowsOf runs a query and gives its rows one by one.
func rowsOf[Row any](ctx context.Context, db dbsqlc.DBTX, sql string, args []any, yield func(Row) error) error {
	rows, err := db.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		row, err := pgx.RowToStructByPos[Row](rows)
		if err != nil {
			return err
		}
		if err := yield(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// problem reads what is to be matched.
func (r *Reconciler) problem(ctx context.Context, s *snapshot) (problem, error) {
	p := problem{settings: s.settings}
	var err error
	if p.lines, err = r.openLines(ctx, s); err != nil {
		return p, err
	}
	known := map[string]bool{}
	for i := range p.lines {
		for _, n := range p.lines[i].names {
			known[n.text] = true
		}
	}
	err = r.openEntries(ctx, s, func(e *journal.ReconcileEntry, i item) error {
		i.traits = entryTraits(e, known)
		if !i.open.IsZero() || s.keepSettled && len(i.names) > 0 {
			p.entries = append(p.entries, i)
		}
		return nil
	})
	if err != nil {
		return p, err
	}
	p.undone, err = r.undoneSets(ctx, r.pool, s.account, 0, s.asOf)
	return p, err
}

// entryTraits gives the names of an entry that some line has.
func entryTraits(e *journal.ReconcileEntry, known map[string]bool) *traits {
	var names []name
	if text := fold(string(e.TransferID)); known[text] {
		names = append(names, name{text, ownName})
	}
	for _, t := range e.Texts {
		if text := fold(t); known[text] && (len(names) == 0 || names[0].text != text) {
			names = append(names, name{text, keyName})
		}
	}
	if len(names) == 0 {
		return noTraits
	}
	return &traits{names: names}
}

// recent is the first of the last days that the bank's files cover: what comes next may be a duplicate of what lies in them, settled or not.
func (s *snapshot) recent() int {
	if s.covers.IsZero() {
		return math.MaxInt
	}
	return dayNumber(s.covers) - duplicateDays
}

// openLines reads the lines that are open, and with them, if they are wanted, those that are settled and lie near in time to an open one, or are of
// the last days.
func (r *Reconciler) openLines(ctx context.Context, s *snapshot) ([]item, error) {
	var list, waiting []item
	until := 0 // settled ones are kept up to this day
	args := []any{s.asOf, s.account.ledgerID, s.account.no, s.sinceLine}
	err := rowsOf(ctx, r.pool, dbsqlc.ReconcileLines, args, func(row dbsqlc.ReconcileLinesRow) error {
		i := item{
			no: row.LineNo, day: dayNumber(fromDate(row.BookedOn)), amount: row.Amount, open: row.Amount, special: row.Kind == kindOpening,
			traits: &traits{parent: row.ParentNo, base: baseOf(row.Identity)},
		}
		if !row.Taken.IsZero() {
			i.open = row.Amount.Sub(row.Taken)
		}
		if i.open.IsZero() && !s.keepSettled {
			return nil
		}
		var err error
		if i.names, err = namesOf(row); err != nil {
			return err
		}
		switch {
		case !i.open.IsZero():
			for _, w := range waiting {
				if w.day >= i.day-duplicateDays {
					list = append(list, w)
				}
			}
			waiting, until = waiting[:0], i.day+duplicateDays
			list = append(list, i)
		case len(list) > 0 && i.day <= until, i.day >= s.recent():
			list = append(list, i)
		default:
			if len(waiting) > 0 && waiting[0].day < i.day-duplicateDays {
				kept := 0
				for kept < len(waiting) && waiting[kept].day < i.day-duplicateDays {
					kept++
				}
				waiting = append(waiting[:0], waiting[kept:]...)
			}
			waiting = append(waiting, i)
		}
		return nil
	})
	return list, err
}

func namesOf(row dbsqlc.ReconcileLinesRow) ([]name, error) {
	if row.Kind == kindOpening {
		return nil, nil
	}
	var refs storedRefs
	if err := json.Unmarshal([]byte(row.Refs), &refs); err != nil {
		return nil, err
	}
	var parent *bankfile.References
	if row.ParentRefs != "" {
		var stored storedRefs
		if err := json.Unmarshal([]byte(row.ParentRefs), &stored); err != nil {
			return nil, err
		}
		refs := bankfile.References(stored)
		parent = &refs
	}
	return lineNames(bankfile.References(refs), row.ExternalID, row.Description, parent, row.ParentID), nil
}

// openEntries gives the entries of a snapshot that come after what is settled, each with what is open of it; those that were brought forward together
// as one, the first. The names are left to the caller.
func (r *Reconciler) openEntries(ctx context.Context, s *snapshot, yield func(*journal.ReconcileEntry, item) error) error {
	a := s.account
	if err := r.openForward(ctx, s, yield); err != nil {
		return err
	}
	p, err := r.journal.Period(ctx, a.Ledger, journal.PeriodSpec{Through: s.through, Since: s.sinceEntry})
	if err != nil {
		return err
	}
	taken, err := r.takenAfter(ctx, s, s.sinceEntry, s.through)
	if err != nil {
		return err
	}
	defer taken.close()
	return p.AccountEntries(ctx, a.Account, s.settings.ReferenceKeys, func(e journal.ReconcileEntry) error {
		amount, err := taken.of(entryKey{e.Sequence, int16(e.Leg)}) //nolint:gosec // a leg of a transfer
		if err != nil {
			return err
		}
		day := a.dayOf(&e)
		if a.isForward(e.Sequence, day) {
			return nil
		}
		i := item{
			no: e.Sequence, leg: int16(e.Leg), day: dayNumber(day), amount: a.sense(e.Amount), //nolint:gosec // as above
			special: strings.HasPrefix(string(e.TransferID), ourTransfers),
		}
		if i.open = i.amount; !amount.IsZero() {
			i.open = i.amount.Sub(amount)
		}
		return yield(&e, i)
	})
}

// openForward gives what was brought forward, dated the day before the beginning.
func (r *Reconciler) openForward(ctx context.Context, s *snapshot, yield func(*journal.ReconcileEntry, item) error) error {
	a := s.account
	if a.Forward.IsZero() {
		return nil
	}
	taken, err := r.takenAfter(ctx, s, -1, 0)
	if err != nil {
		return err
	}
	defer taken.close()
	amount, err := taken.of(entryKey{})
	if err != nil {
		return err
	}
	day := dayNumber(a.Begins) - 1
	at := dayOf(day).Time()
	e := &journal.ReconcileEntry{Amount: a.sense(a.Forward), PostedAt: at, EffectiveAt: &at, Description: "Balance brought forward"}
	return yield(e, item{day: day, amount: a.Forward, open: a.Forward.Sub(amount), special: true})
}

// taken goes through what matches have taken of entries, in the order of the entries.
type taken struct {
	rows pgx.Rows
	next dbsqlc.ReconcileTakenRow
	more bool
}

func (r *Reconciler) takenAfter(ctx context.Context, s *snapshot, since, through int64) (*taken, error) {
	rows, err := r.pool.Query(ctx, dbsqlc.ReconcileTaken, s.account.ledgerID, s.account.no, since, through, s.asOf)
	if err != nil {
		return nil, err
	}
	t := &taken{rows: rows}
	if err := t.read(); err != nil {
		return nil, err
	}
	return t, rows.Err()
}

func (t *taken) read() (err error) {
	if t.more = t.rows.Next(); !t.more {
		return t.rows.Err()
	}
	t.next, err = pgx.RowToStructByPos[dbsqlc.ReconcileTakenRow](t.rows)
	return err
}

// of gives what is taken of an entry. Entries are asked for in their order.
func (t *taken) of(e entryKey) (decimal.Decimal, error) {
	for t.more && (t.next.Sequence < e.sequence || t.next.Sequence == e.sequence && t.next.Leg < e.leg) {
		if err := t.read(); err != nil {
			return decimal.Zero, err
		}
	}
	if t.more && t.next.Sequence == e.sequence && t.next.Leg == e.leg {
		return t.next.Taken, nil
	}
	return decimal.Zero, nil
}

func (t *taken) close() { t.rows.Close() }

// undoneSets are the sets of items that were matched, and taken apart, after one number and as of another.
func (r *Reconciler) undoneSets(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, after, asOf int64) (map[string]bool, error) {
	rows, err := r.sql.ReconcileUndone(ctx, db, dbsqlc.ReconcileUndoneParams{LedgerID: a.ledgerID, BankAccountNo: a.no, After: after, AsOf: asOf})
	if err != nil {
		return nil, err
	}
	sets := map[string]bool{}
	var set decisionItems
	for i, row := range rows {
		item := DecisionItem{Sequence: row.Sequence, Leg: int(row.Leg)}
		if row.IsLine {
			item = DecisionItem{Line: row.LineNo}
		}
		set.add(item)
		if i == len(rows)-1 || rows[i+1].MatchNo != row.MatchNo {
			sets[set.key()] = true
			set = decisionItems{}
		}
	}
	return sets, nil
}
