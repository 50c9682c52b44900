package report

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/retry"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// AccountStatement is the report that a statement's content is of.
	AccountStatement Name = "account-statement"
)

var accountStatementColumns = []sheet.Column{
	{ID: "date", Title: "Date", Kind: sheet.Date}, {ID: "sequence", Title: "Sequence", Kind: sheet.Count}, {ID: "transfer", Title: "Transfer", Kind: sheet.Text},
	{ID: "kind", Title: "Kind", Kind: sheet.Text}, {ID: "against", Title: "Against", Kind: sheet.Text},
	{ID: "description", Title: "Description", Kind: sheet.Text}, {ID: "debit", Title: "Debit", Kind: sheet.Amount},
	{ID: "credit", Title: "Credit", Kind: sheet.Amount}, {ID: "balance", Title: "Balance", Kind: sheet.Amount},
}

// Issue issues the statement of an account for a period that is over, and stores it. Whoever asks for the same again gets the same bytes, and
// issued is false.
//
// The statements of an account, by one basis, are a chain: the first begins where it is told to, and each later one where the last one ended, with
// the balance that that one told. What was recorded after a statement, with a time before its end, is among the late items of the next one.
//
// It returns CodeInvalidArgument, CodeLedgerNotFound or CodeAccountNotFound; and CodeInternal if the books do not add up.
func (r *Reports) Issue(ctx context.Context, spec StatementSpec, caller string) (s Statement, issued bool, err error) {
	if err := spec.validate(); err != nil {
		return Statement{}, false, err
	}
	leave, err := r.enter(ctx)
	if err != nil {
		return Statement{}, false, err
	}
	defer leave()
	var number int64
	// A place that somebody else has taken meanwhile is not there any more: the next try finds their statement, or follows it.
	err = patience.Do(ctx, "issue the statement", func(bool) (err error) {
		number, issued, err = r.issue(ctx, spec, caller)
		return err
	})
	if err != nil {
		return Statement{}, false, err
	}
	s, err = r.Statement(ctx, spec.Ledger, number)
	return s, issued, err
}

func (s *StatementSpec) validate() error {
	if s.Basis == "" {
		s.Basis = Booking
	}
	if _, err := ParseBasis(string(s.Basis)); err != nil {
		return err
	}
	if err := s.Account.ValidateFormat("account"); err != nil {
		return err
	}
	if s.Period.To.IsZero() {
		return ledger.Invalid("to", "is required: a statement ends")
	}
	return s.Period.Validate()
}

// issue issues the statement, or finds the one that is asked for.
func (r *Reports) issue(ctx context.Context, spec StatementSpec, caller string) (number int64, fresh bool, err error) {
	account, err := r.account(ctx, spec.Ledger, spec.Account)
	if err != nil {
		return 0, false, err
	}
	same, err := r.sql.StatementEnding(ctx, r.pool, dbsqlc.StatementEndingParams{
		LedgerID: account.LedgerID, AccountNo: account.AccountNo, Basis: string(spec.Basis), EndsAt: spec.Period.To,
	})
	if err != nil {
		return 0, false, err
	}
	if len(same) > 0 && (spec.Period.From.IsZero() || same[0].StartsAt.Equal(spec.Period.From)) {
		return same[0].StatementNo, false, nil
	}
	previous, err := r.previous(ctx, account, spec)
	if err != nil {
		return 0, false, err
	}
	if previous != nil {
		spec.Period.From = previous.EndsAt
	}
	made, err := r.make(ctx, account, spec, previous)
	if err != nil {
		return 0, false, err
	}
	made.IssuedBy = caller
	number, err = r.sql.StatementIssue(ctx, r.pool, *made)
	return number, true, err
}

func (r *Reports) account(ctx context.Context, name ledger.Name, id ledger.AccountID) (dbsqlc.StatementAccountRow, error) {
	if _, err := r.journal.Account(ctx, name, id); err != nil {
		return dbsqlc.StatementAccountRow{}, err
	}
	return r.sql.StatementAccount(ctx, r.pool, dbsqlc.StatementAccountParams{Ledger: string(name.Or()), AccountID: string(id)})
}

// previous finds the last statement, if there is one, and checks that the one asked for can follow it.
func (r *Reports) previous(ctx context.Context, account dbsqlc.StatementAccountRow, spec StatementSpec) (*dbsqlc.LastStatementRow, error) {
	rows, err := r.sql.LastStatement(ctx, r.pool, dbsqlc.LastStatementParams{
		LedgerID: account.LedgerID, AccountNo: account.AccountNo, Basis: string(spec.Basis),
	})
	if err != nil {
		return nil, err
	}
	p := spec.Period
	switch {
	case len(rows) == 0 && p.From.IsZero():
		return nil, ledger.Invalid("from", "is required: it is the account's first statement by %s", spec.Basis)
	case len(rows) == 0:
		return nil, nil
	case !p.From.IsZero() && !p.From.Equal(rows[0].EndsAt):
		return nil, ledger.Invalid("from", "is not %s, where the account's last statement by %s ended (number %d): the next one begins there. Leave it out to "+
			"begin there", p.text(rows[0].EndsAt), spec.Basis, rows[0].StatementNo)
	case !p.To.After(rows[0].EndsAt):
		return nil, ledger.Invalid("to", "is not after %s, where the account's last statement by %s ended (number %d)", p.text(rows[0].EndsAt), spec.Basis,
			rows[0].StatementNo)
	}
	return &rows[0], nil
}

// statementRun is a statement being made.
type statementRun struct {
	reports  *Reports
	spec     StatementSpec
	account  journal.PeriodAccount
	balance  decimal.Decimal
	lines    int
	w        sheet.Writer
	debits   decimal.Decimal
	credits  decimal.Decimal
	previous *dbsqlc.LastStatementRow
}

func (r *Reports) make(ctx context.Context, account dbsqlc.StatementAccountRow, spec StatementSpec, previous *dbsqlc.LastStatementRow) (*dbsqlc.StatementIssueParams, error) {
	byValueDate := spec.Basis == Value
	p, err := r.journal.Period(ctx, spec.Ledger, journal.PeriodSpec{From: spec.Period.From, To: spec.Period.To, ByValueDate: byValueDate})
	if err != nil {
		return nil, err
	}
	if spec.Period.To.After(p.Now()) {
		return nil, ledger.Invalid("to", "%s is still to come: a statement is of a period that is over", spec.Period.text(spec.Period.To))
	}
	var content bytes.Buffer
	s := &statementRun{reports: r, spec: spec, w: sheet.NewJSON(&content), previous: previous}
	err = p.Accounts(ctx, journal.AccountFilter{Account: spec.Account}, func(page []journal.PeriodAccount) error {
		s.account = page[0]
		return nil
	})
	if err != nil {
		return nil, err
	}
	made := &dbsqlc.StatementIssueParams{
		LedgerID: account.LedgerID, AccountNo: account.AccountNo, Basis: string(spec.Basis), Ordinal: 1, StartsAt: spec.Period.From, EndsAt: spec.Period.To,
		Zone: spec.Period.zone().String(), Through: p.Horizon(), Opening: s.account.Opening, IssuedAt: p.Now(),
	}
	if previous != nil {
		made.Ordinal, made.Opening = previous.Ordinal+1, previous.Closing
	}
	held, err := r.held(ctx, spec, p.Horizon())
	if err != nil {
		return nil, err
	}
	if err := s.begin(p, made, held); err != nil {
		return nil, err
	}
	if err := s.list(ctx, p, made.Opening); err != nil {
		return nil, err
	}
	if !s.balance.Equal(s.account.Closing) {
		return nil, ledger.Errorf(ledger.CodeInternal, "the statement does not add up: its items lead from %s to %s, and the balance is %s. Run khata verify",
			made.Opening, s.balance, s.account.Closing)
	}
	if err := s.end(); err != nil {
		return nil, err
	}
	made.Closing, made.Content = s.balance, content.Bytes()
	hash := sha256.Sum256(made.Content)
	made.Sha256 = hash[:]
	return made, nil
}

// held is what is reserved on the account by holds that are open.
func (r *Reports) held(ctx context.Context, spec StatementSpec, through int64) (decimal.Decimal, error) {
	point := journal.Point{Account: spec.Account, Through: through}
	balances, err := r.journal.BalancesAt(ctx, spec.Ledger, []journal.Point{point})
	return balances[point].Held, err
}

func (s *statementRun) natural(d decimal.Decimal) string {
	return amount(s.account.Type.Signed(ledger.Debit, d), s.account.Currency)
}

func (s *statementRun) begin(p *journal.Period, made *dbsqlc.StatementIssueParams, held decimal.Decimal) error {
	r := &run{
		Request: Request{Ledger: s.spec.Ledger, Period: s.spec.Period, Basis: s.spec.Basis, Account: s.spec.Account}, period: p,
		definition: Definition{Name: AccountStatement, Title: "Account statement"}, w: s.w,
	}
	facts := []sheet.Fact{
		{ID: "name", Title: "Name", Value: s.account.Name}, {ID: "type", Title: "Type", Value: string(s.account.Type)},
		{ID: "currency", Title: "Currency", Value: string(s.account.Currency.Code)},
		{ID: "ordinal", Title: "Statement of this account", Value: "number " + strconv.Itoa(int(made.Ordinal))},
		{ID: "held", Title: "On hold when issued", Value: amount(held, s.account.Currency)}, inNormalDirection,
	}
	if s.previous != nil {
		facts = append(facts, sheet.Fact{ID: "late", Title: "Late items", Value: "were recorded after the statement before this one, with a time in its period or earlier"})
	}
	return r.begin(accountStatementColumns, facts...)
}

// list writes the rows, from the opening balance to the closing one.
func (s *statementRun) list(ctx context.Context, p *journal.Period, opening decimal.Decimal) error {
	s.balance = opening
	cells := make([]string, len(accountStatementColumns))
	cells[5], cells[8] = "Opening balance", s.natural(opening)
	if err := s.w.Row(sheet.Row{Kind: sheet.Opening, Cells: cells}); err != nil {
		return err
	}
	if s.previous != nil {
		late, err := s.reports.lateEntries(ctx, s.spec, s.account, s.spec.Period.From, s.previous.Through, p.Horizon())
		if err != nil {
			return err
		}
		for _, e := range late {
			if err := s.entry(sheet.Late, e.on.String(), e.PeriodEntry); err != nil {
				return err
			}
		}
	}
	days, err := daysOf(s.spec.Period)
	if err != nil {
		return err
	}
	return p.Entries(ctx, []journal.PeriodAccount{s.account}, days.begin, func(e journal.PeriodEntry) error {
		return s.entry(sheet.Item, days.name(e.Day), e)
	})
}

func (s *statementRun) entry(kind sheet.RowKind, on string, e journal.PeriodEntry) error {
	if s.lines++; s.lines > s.reports.limits.lines {
		return s.reports.tooLong()
	}
	s.balance = s.balance.Add(e.Amount)
	if e.Amount.IsPositive() {
		s.debits = s.debits.Add(e.Amount)
	} else {
		s.credits = s.credits.Sub(e.Amount)
	}
	debit, credit := sides(e.Amount, s.account.Currency)
	return s.w.Row(sheet.Row{Kind: kind, Cells: []string{
		on, strconv.FormatInt(e.Sequence, 10), string(e.TransferID), string(e.Kind), others(e.Others), e.Description, debit, credit, s.natural(s.balance),
	}})
}

func (r *Reports) tooLong() error {
	return ledger.Invalid("to", "gives more than %d lines: ask for a shorter period, or for the general ledger", r.limits.lines)
}

// lateEntry is an entry that was recorded after its time.
type lateEntry struct {
	journal.PeriodEntry
	on day
}

// lateEntries gives the entries of an account whose time is before a moment, and which were recorded after one sequence, through another; by day
// and then by sequence. There are few of them.
func (r *Reports) lateEntries(ctx context.Context, spec StatementSpec, a journal.PeriodAccount, before time.Time, since, through int64) ([]lateEntry, error) {
	p, err := r.journal.Period(ctx, spec.Ledger, journal.PeriodSpec{To: before, ByValueDate: spec.Basis == Value, Through: through, Since: since})
	if err != nil {
		return nil, err
	}
	var late []lateEntry
	err = p.Entries(ctx, []journal.PeriodAccount{a}, []time.Time{before}, func(e journal.PeriodEntry) error {
		if len(late) >= r.limits.lines {
			return r.tooLong()
		}
		at := e.PostedAt
		if spec.Basis == Value && e.EffectiveAt != nil {
			at = *e.EffectiveAt
		}
		late = append(late, lateEntry{e, dayAt(at, spec.Period.zone())})
		return nil
	})
	slices.SortStableFunc(late, func(a, b lateEntry) int { return cmp.Compare(a.on, b.on) })
	return late, err
}

func (s *statementRun) end() error {
	cells := make([]string, len(accountStatementColumns))
	cells[5], cells[8] = "Closing balance", s.natural(s.balance)
	cells[6], cells[7] = amount(s.debits, s.account.Currency), amount(s.credits, s.account.Currency)
	if err := s.w.Row(sheet.Row{Kind: sheet.Closing, Cells: cells}); err != nil {
		return err
	}
	return s.w.End([]sheet.Check{{Name: "the items lead from the opening to the closing balance", OK: true}})
}

// ledgerExists returns CodeInvalidArgument or CodeLedgerNotFound unless there is such a ledger.
func (r *Reports) ledgerExists(ctx context.Context, name ledger.Name) error {
	_, err := r.journal.Accounts(ctx, name, "", "", 1)
	return err
}

// Statement gives a statement that was issued. It returns CodeNotFound for a number that there is not, or CodeLedgerNotFound.
func (r *Reports) Statement(ctx context.Context, name ledger.Name, number int64) (Statement, error) {
	if err := r.ledgerExists(ctx, name); err != nil {
		return Statement{}, err
	}
	row, err := r.sql.StatementByNumber(ctx, r.pool, dbsqlc.StatementByNumberParams{Ledger: string(name.Or()), StatementNo: number})
	if errors.Is(err, pgx.ErrNoRows) {
		return Statement{}, ledger.Missing("statement", "%d is no statement of ledger %s", number, name.Or())
	}
	if err != nil {
		return Statement{}, public(ctx, "read the statement", err)
	}
	s := statement(name, dbsqlc.StatementsOfLedgerRow{
		StatementNo: row.StatementNo, AccountID: row.AccountID, Basis: row.Basis, Ordinal: row.Ordinal, StartsAt: row.StartsAt, EndsAt: row.EndsAt,
		Zone: row.Zone, Through: row.Through, Opening: row.Opening, Closing: row.Closing, Sha256: row.Sha256, IssuedAt: row.IssuedAt, IssuedBy: row.IssuedBy,
	})
	s.Content = row.Content
	if hash := sha256.Sum256(row.Content); !bytes.Equal(hash[:], row.Sha256) {
		return Statement{}, ledger.Errorf(ledger.CodeInternal, "the bytes of statement %d are not those that were issued. Run khata verify", number)
	}
	return s, nil
}

// Statements lists the statements of an account, or of all where it is "", the newest first, before a number; 0 is the beginning of the list.
// Their content is left out. It returns CodeInvalidArgument or CodeLedgerNotFound.
func (r *Reports) Statements(ctx context.Context, name ledger.Name, account ledger.AccountID, before int64, limit int) (list []Statement, more bool, err error) {
	if err := r.ledgerExists(ctx, name); err != nil {
		return nil, false, err
	}
	if account != "" {
		if err := account.ValidateFormat("account"); err != nil {
			return nil, false, err
		}
	}
	if before == 0 {
		before = math.MaxInt64
	}
	pageSize := int32(limit) + 1 //nolint:gosec // a few hundred
	var rows []dbsqlc.StatementsOfLedgerRow
	if account == "" {
		rows, err = r.sql.StatementsOfLedger(ctx, r.pool, dbsqlc.StatementsOfLedgerParams{Ledger: string(name.Or()), Before: before, PageSize: pageSize})
	} else {
		var found []dbsqlc.StatementsOfAccountBackwardsRow
		found, err = r.sql.StatementsOfAccountBackwards(ctx, r.pool, dbsqlc.StatementsOfAccountBackwardsParams{
			Ledger: string(name.Or()), AccountID: string(account), Before: before, PageSize: pageSize,
		})
		for _, row := range found {
			rows = append(rows, dbsqlc.StatementsOfLedgerRow(row))
		}
	}
	if err != nil {
		return nil, false, public(ctx, "list the statements", err)
	}
	more = len(rows) > limit
	for _, row := range rows[:min(limit, len(rows))] {
		list = append(list, statement(name, row))
	}
	return list, more, nil
}

func statement(name ledger.Name, row dbsqlc.StatementsOfLedgerRow) Statement {
	zone, err := ParseZone(row.Zone)
	if err != nil {
		zone = time.UTC
	}
	return Statement{
		Number: row.StatementNo, Ordinal: int(row.Ordinal), Ledger: name.Or(), Account: ledger.AccountID(row.AccountID),
		Period: Period{row.StartsAt.In(zone), row.EndsAt.In(zone), zone}, Basis: Basis(row.Basis), Through: row.Through, IssuedAt: row.IssuedAt.UTC(),
		IssuedBy: row.IssuedBy, SHA256: hex.EncodeToString(row.Sha256),
	}
}

// patience is for those who lost to others. Where the database does not answer, the caller asks again.
var patience = retry.Policy{Contended: "others keep issuing statements of the same account"}

// public turns an error of the database into one for callers.
func public(ctx context.Context, doing string, err error) error {
	return patience.Public(ctx, doing, err)
}
