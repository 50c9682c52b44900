package console

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

const (
	bankRoute    = "GET /console/{ledger}/reconcile/bank/{bank}"
	bankSetRoute = "POST /console/{ledger}/reconcile/bank/{bank}/settings"
	matchRoute   = "POST /console/{ledger}/reconcile/bank/{bank}/match"
	// filesShown and runsShown are how many files and runs the page of a bank account lists.
	filesShown, runsShown = 20, 10
	// balancesPatience is how long that page waits for the balances, which the statement has anyway.
	balancesPatience = 3 * time.Second
	// matchPatience is how long a run may take. It takes half a minute where a million entries are open.
	matchPatience = 5 * time.Minute
)

// bankMain is what the page of a bank account shows.
type bankMain struct {
	bankHead
	bank
	ZoneName, BasisName, CreatedAt, SettingsAt string
	// Next is what to do next.
	Next []nextStep
	// Balances lead from the books to the bank; none if they were not waited for.
	Balances   []balanceRow
	BalancesOf string
	Statement  string
	Run        *runRow
	Outcomes   []outcomeRow
	// Since is how many items were decided since the run, and LeftOut whether they are left out of what it left open.
	Since        int
	LeftOut      bool
	Match        string
	Request      string
	Upload       *form
	Files        []fileRow
	MoreFiles    string
	Runs         []runRow
	MoreRuns     string
	Settings     *form
	SettingsList []factView
	// Said is what has just been done, and Wrong what is the matter with it.
	Said, Wrong string
}

// nextStep is something to do next, and where.
type nextStep struct{ Text, Link, Path string }

// balanceRow is a row of the way from the balance in the books to that at the bank.
type balanceRow struct {
	Title  string
	Count  string
	Amount money
	Strong bool
}

// outcomeRow is what a run says of open items, by outcome.
type outcomeRow struct {
	Title, Path             string
	Lines, Entries          string
	LinesSum, EntriesSum    money
	HasLines, HasEntries    bool
	LinesPath, EntriesPath  string
	lines, entries          reconcile.Tally
	outcome                 reconcile.Outcome
	Certain, Transit, Total bool
}

// runRow is a run in a list.
type runRow struct {
	*reconcile.Run
	At, Path, Changes      string
	OpenLines, OpenEntries string
}

// fileRow is a file in a list.
type fileRow struct {
	reconcile.File
	Path, At      string
	Covers        string
	Balance       money
	AddedN, LineN string
}

// outcomeNames are what people call the outcomes.
var outcomeNames = map[reconcile.Outcome]string{
	reconcile.Matched: "matched", reconcile.MatchedWithDifference: "matched, with a difference", reconcile.PartiallyMatched: "matched in part",
	reconcile.MissingInLedger: "not in the books", reconcile.MissingAtBank: "not at the bank", reconcile.AmountMismatch: "another amount",
	reconcile.DateMismatch: "dates too far apart", reconcile.CurrencyMismatch: "another currency", reconcile.DuplicateBankLine: "twice at the bank",
	reconcile.DuplicateLedgerEntry: "twice in the books", reconcile.Ambiguous: "several candidates", reconcile.Ignored: "ignored",
}

// openName is what people call the outcome of an item that is open: what a run has found to be the same, and not confirmed by itself, is suggested.
func openName(o reconcile.Outcome) string {
	switch o {
	case reconcile.Matched:
		return "the same, as suggested"
	case reconcile.MatchedWithDifference:
		return "the same with a difference, as suggested"
	}
	return outcomeNames[o]
}

// ruleNames are what people call the rules.
var ruleNames = map[reconcile.Rule]string{
	reconcile.RuleOpening: "opening balance", reconcile.RuleReference: "reference", reconcile.RuleBatch: "batch", reconcile.RuleText: "reference in the text",
	reconcile.RuleAmount: "amount and date", reconcile.RuleManual: "by a person",
}

func (v *visit) bankPage() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	return v.showBank(http.StatusOK, b, nil, nil)
}

// showBank shows a bank account. The form of which q is was refused, if there is one; which one says blamed.
func (v *visit) showBank(status int, b bank, blamed func(*bankMain, error) bool, refused error) error {
	q := values(v.r.URL.Query())
	main := &bankMain{
		bankHead: v.bankHead(b, ""), bank: b, ZoneName: zoneName(b.Zone), BasisName: basisNames[b.Basis], CreatedAt: momentText(b.CreatedAt, b.Zone),
		SettingsAt: momentText(b.SettingsAt, b.Zone), Statement: v.bankPath(b, "statement", url.Values{"items": {"1"}}), Said: q.get("done"),
	}
	if err := v.fillFiles(main, q); err != nil {
		return err
	}
	if err := v.fillRuns(main, q); err != nil {
		return err
	}
	if len(main.Files) > 0 {
		main.Balances, main.BalancesOf = v.balances(b)
	}
	if v.may(matchRoute) {
		main.Match, main.Request = v.bankPath(b, "match", nil), newRequest()
	}
	if v.may(uploadRoute) {
		upload, err := v.uploadForm(b, values{})
		if err != nil {
			return err
		}
		main.Upload = upload
	}
	main.SettingsList = settingsFacts(b)
	if v.may(bankSetRoute) {
		main.Settings = v.settingsForm(b, nil)
	}
	main.Next = v.nextSteps(main)
	if refused != nil && (blamed == nil || !blamed(main, refused)) {
		return refused
	}
	return v.render(status, page{Name: "bankaccount", Title: b.Name, Section: reconcileRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) fillFiles(main *bankMain, q values) error {
	before, err := q.number("files_before")
	if err != nil {
		return err
	}
	list, more, err := v.config.Reconciler.Files(v.r.Context(), v.ledger, main.bank.Name, before, filesShown)
	if err != nil {
		return err
	}
	for _, f := range list {
		main.Files = append(main.Files, v.fileRow(main.bank, f))
	}
	if more {
		main.MoreFiles = v.bankPath(main.bank, "", url.Values{"files_before": {strconv.FormatInt(list[len(list)-1].No, 10)}})
	}
	return nil
}

func (v *visit) fileRow(b bank, f reconcile.File) fileRow {
	row := fileRow{
		File: f, Path: v.bankPath(b, "files/"+strconv.FormatInt(f.No, 10), nil), At: momentText(f.ImportedAt, b.Zone),
		AddedN: grouped(strconv.Itoa(f.Added())), LineN: grouped(strconv.Itoa(f.Lines())),
	}
	if n := len(f.Statements); n > 0 {
		row.Covers, row.Balance = f.Statements[n-1].Covers.String(), b.money(f.Statements[n-1].Balance)
	}
	return row
}

func (v *visit) fillRuns(main *bankMain, q values) error {
	before, err := q.number("runs_before")
	if err != nil {
		return err
	}
	list, more, err := v.config.Reconciler.Runs(v.r.Context(), v.ledger, main.bank.Name, int(min(before, 1<<30)), runsShown)
	if err != nil {
		return err
	}
	for i, run := range list {
		row := v.runRow(main.bank, run)
		if i+1 < len(list) {
			row.Changes = v.bankPath(main.bank, "changes", url.Values{
				"older": {strconv.FormatInt(list[i+1].No, 10)}, "newer": {strconv.FormatInt(run.No, 10)},
			})
		}
		main.Runs = append(main.Runs, row)
	}
	if more {
		main.MoreRuns = v.bankPath(main.bank, "", url.Values{"runs_before": {strconv.Itoa(list[len(list)-1].Ordinal)}})
	}
	last, err := v.lastRun(main.bank)
	if err != nil || last == nil {
		return err
	}
	since, err := v.decidedSince(main.bank, last)
	if err != nil {
		return err
	}
	now, counted, err := v.openNow(main.bank, last, since)
	if err != nil {
		return err
	}
	row := v.runRow(main.bank, now)
	main.Run, main.Outcomes, main.Since, main.LeftOut = &row, v.outcomeRows(main.bank, now), len(since), counted
	return nil
}

func (v *visit) runRow(b bank, run *reconcile.Run) runRow {
	return runRow{
		Run: run, At: momentText(run.RunAt, b.Zone), Path: v.bankPath(b, "work", url.Values{"run": {strconv.FormatInt(run.No, 10)}}),
		OpenLines: countText(run.Summary.OpenLines.Count), OpenEntries: countText(run.Summary.OpenEntries.Count),
	}
}

func countText(n int64) string { return grouped(strconv.FormatInt(n, 10)) }

// outcomeRows are what is open after a run, by outcome, and what is settled.
func (v *visit) outcomeRows(b bank, run *reconcile.Run) []outcomeRow {
	s := run.Summary
	no := strconv.FormatInt(run.No, 10)
	var rows []outcomeRow
	for _, o := range reconcile.Outcomes() {
		lines, isLines := s.LineOutcomes[o]
		entries, isEntries := s.EntryOutcomes[o]
		if !isLines && !isEntries {
			continue
		}
		row := outcomeRow{
			Title: openName(o), HasLines: isLines, HasEntries: isEntries, Lines: countText(lines.Count), Entries: countText(entries.Count),
			LinesSum: b.money(lines.Sum), EntriesSum: b.money(entries.Sum), outcome: o, lines: lines, entries: entries,
		}
		row.Path = v.bankPath(b, "work", url.Values{"run": {no}, "view": {"items"}, "outcome": {string(o)}})
		rows = append(rows, row)
		if o == reconcile.MissingAtBank && s.InTransit.Count > 0 {
			rows = append(rows, outcomeRow{
				Title: "of these, in transit", HasEntries: true, Entries: countText(s.InTransit.Count), EntriesSum: b.money(s.InTransit.Sum), Transit: true,
			})
		}
	}
	return append(rows, outcomeRow{
		Title: "Open", Total: true, HasLines: true, HasEntries: true, Lines: countText(s.OpenLines.Count), Entries: countText(s.OpenEntries.Count),
		LinesSum: b.money(s.OpenLines.Sum), EntriesSum: b.money(s.OpenEntries.Sum), Path: v.bankPath(b, "work", url.Values{"run": {no}, "view": {"items"}}),
	})
}

// nextSteps says what to do next: what is certain first.
func (v *visit) nextSteps(main *bankMain) []nextStep {
	b := main.bank
	if len(main.Files) == 0 {
		return []nextStep{{Text: "Import the bank’s first file. Begin with the oldest: what comes before it cannot be imported later."}}
	}
	if main.Run == nil {
		return []nextStep{{Text: "Match now: the lines of the files have not been looked at yet."}}
	}
	s := main.Run.Summary
	var steps []nextStep
	if main.Files[0].ImportedAt.After(main.Run.RunAt) && main.Files[0].Added() > 0 {
		steps = append(steps, nextStep{Text: "Match now: files were imported since the last run."})
	}
	if main.Since > 0 {
		steps = append(steps, nextStep{Text: "Match again: " + plural(main.Since, "item was", "items were") + " decided since the last run."})
	}
	if s.Suggestions > 0 {
		steps = append(steps, nextStep{"Decide about", plural(int(s.Suggestions), "suggestion", "suggestions"), v.bankPath(b, "work", nil)})
	}
	doubtful := map[reconcile.Outcome]bool{
		reconcile.Ambiguous: true, reconcile.AmountMismatch: true, reconcile.DateMismatch: true, reconcile.CurrencyMismatch: true,
		reconcile.DuplicateBankLine: true, reconcile.DuplicateLedgerEntry: true, reconcile.PartiallyMatched: true, reconcile.MissingInLedger: true,
	}
	for _, row := range main.Outcomes {
		if !doubtful[row.outcome] {
			continue
		}
		n := int(row.lines.Count + row.entries.Count)
		steps = append(steps, nextStep{strings.ToUpper(row.Title[:1]) + row.Title[1:] + ":", plural(n, "item", "items"), row.Path})
	}
	if overdue := s.EntryOutcomes[reconcile.MissingAtBank].Count - s.InTransit.Count; overdue > 0 {
		steps = append(steps, nextStep{"Find out why the bank does not have", plural(int(overdue), "entry", "entries"), v.bankPath(b, "work",
			url.Values{"view": {"items"}, "outcome": {string(reconcile.MissingAtBank)}})})
	}
	if len(steps) == 0 {
		steps = append(steps, nextStep{"Nothing is left to decide. Make the", "reconciliation statement", main.Statement})
	}
	return steps
}

// balances lead from the balance in the books to that at the bank, as the statement does; none if that takes too long for a page about something else.
func (v *visit) balances(b bank) (rows []balanceRow, day string) {
	ctx, cancel := context.WithTimeout(v.r.Context(), balancesPatience)
	defer cancel()
	s := &screen{}
	if err := v.config.Reconciler.Statement(ctx, reconcile.StatementSpec{Ledger: v.ledger, BankAccount: b.Name}, s); err != nil {
		if ledger.CodeOf(err) == ledger.CodeInternal {
			v.config.Logger.Error("the balances of a bank account cannot be made", "ledger", v.ledger, "bank_account", b.Name, "error", err)
		}
		return nil, ""
	}
	var last *balanceRow
	var count int64
	var sum decimal.Decimal
	for _, row := range s.rows {
		title, amount := row.Cells[0], row.Cells[len(row.Cells)-1]
		if row.Kind == sheet.Total && title != "Unexplained" {
			continue
		}
		if last == nil || last.Title != title {
			rows = append(rows, balanceRow{Title: title, Strong: row.Kind != sheet.Subtotal})
			last, count, sum = &rows[len(rows)-1], 0, decimal.Zero
		}
		// Those of one kind are there by age.
		if d, err := decimal.NewFromString(amount); err == nil {
			sum = sum.Add(d)
		}
		if n, err := strconv.ParseInt(row.Cells[2], 10, 64); err == nil {
			count += n
			last.Count = countText(count)
		}
		last.Amount = b.money(sum)
	}
	return rows, s.head.Fact("day")
}

// match makes a run. However often its form is sent, it is one.
func (v *visit) match() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	request, err := values(v.r.PostForm).request()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(v.whole, matchPatience)
	defer cancel()
	run, err := v.config.Reconciler.Match(ctx, reconcile.MatchSpec{Ledger: v.ledger, BankAccount: b.Name, Request: request}, v.session.Name)
	if ledger.CodeOf(err) == ledger.CodeConflict {
		return v.showBank(http.StatusConflict, b, func(main *bankMain, err error) bool {
			main.Wrong = "The matching was not done: " + ledgerMessage(err) + "."
			return true
		}, err)
	}
	if err != nil {
		return err
	}
	done := "matched"
	if run.Replayed {
		done = "matched-before"
	}
	return v.see(v.bankPath(b, "", url.Values{"done": {done}}))
}
