package reconcile

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
)

// importPart imports a file as far as it is about one bank account, which is locked, or finds that it was.
func (r *Reconciler) importPart(ctx context.Context, tx pgx.Tx, p *part, fileName, caller string) (*File, error) {
	a := p.account
	found, err := r.sql.BankFileBySHA(ctx, tx, dbsqlc.BankFileBySHAParams{LedgerID: a.ledgerID, BankAccountNo: a.no, Sha256: p.sha256})
	if err != nil {
		return nil, err
	}
	if len(found) > 0 {
		f, err := r.file(ctx, tx, a, found[0])
		if err == nil {
			f.Replayed = found[0] != p.own
		}
		return f, err
	}
	args := dbsqlc.BankFileInsertParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, Sha256: p.sha256, Archive: p.archive, Name: fileName, Member: p.member, Format: string(p.format),
		Checks: encode(checksOf(p.checks)), Caller: caller,
	}
	if p.profile != nil {
		version := int32(p.profile.Version) //nolint:gosec // it was one
		args.Profile, args.ProfileVersion = &p.profile.Name, &version
	}
	fileNo, err := r.sql.BankFileInsert(ctx, tx, args)
	if err != nil {
		return nil, err
	}
	p.own = fileNo
	c, err := r.chain(ctx, tx, a)
	if err != nil {
		return nil, err
	}
	p.identify()
	for ordinal, s := range p.statements {
		w := &statementWriter{r: r, tx: tx, account: a, chain: c, statement: s, fileNo: fileNo, ordinal: ordinal + 1}
		if err := w.write(ctx); err != nil {
			return nil, err
		}
	}
	return r.file(ctx, tx, a, fileNo)
}

// chain reads where the statements of a bank account have come to.
func (r *Reconciler) chain(ctx context.Context, db dbsqlc.DBTX, a *BankAccount) (*chain, error) {
	c := &chain{currency: a.Currency}
	last, err := r.sql.BankStatementLast(ctx, db, dbsqlc.BankStatementLastParams{LedgerID: a.ledgerID, BankAccountNo: a.no})
	if err != nil || len(last) == 0 {
		return c, err
	}
	c.exists, c.balance, c.anchored, c.covers = true, last[0].Balance, last[0].Anchored, fromDate(last[0].CoversOn)
	c.number, c.label = last[0].Number, last[0].Label
	first, err := r.sql.BankLineFirst(ctx, db, dbsqlc.BankLineFirstParams{LedgerID: a.ledgerID, BankAccountNo: a.no})
	c.begins = fromDate(first)
	return c, err
}

// statementWriter writes one statement.
type statementWriter struct {
	r         *Reconciler
	tx        pgx.Tx
	account   *BankAccount
	chain     *chain
	statement placed
	fileNo    int64
	ordinal   int
}

func (w *statementWriter) write(ctx context.Context) error {
	s := w.statement.Statement
	known, err := w.known(ctx)
	if err != nil {
		return err
	}
	again, err := w.again(ctx)
	if err != nil {
		return err
	}
	l, refused := w.chain.follow(w.statement.place, s, known, again, &w.account.Settings)
	if refused != nil {
		return refusalError{refused}
	}
	if l.renumber {
		if err := w.renumber(ctx); err != nil {
			return err
		}
	}
	w.chain.extend(s, &l)
	rows := w.rows(&l)
	numbers, err := w.r.sql.ReconcileNumbers(ctx, w.tx, int32(len(rows))+1) //nolint:gosec // bounded by bankfile.Limits
	if err != nil {
		return err
	}
	added := 0
	for _, fresh := range l.fresh {
		if fresh {
			added++
		}
	}
	args := dbsqlc.BankStatementInsertParams{
		LedgerID: w.account.ledgerID, BankAccountNo: w.account.no, StatementNo: numbers[0],
		FileNo: w.fileNo, Ordinal: int32(w.ordinal), //nolint:gosec // bounded
		StatementID: s.ID, Label: s.Number, Number: s.Sequence, FromOn: toDate(s.From), ToOn: toDate(s.To), Balances: encode(balancesOf(s.Balances)),
		Checks: encode(checksOf(append(slices.Clone(s.Checks), l.check))),
		Flags:  encode(flagsOf(s.Flags)), Lines: int32(len(s.Lines)), //nolint:gosec // bounded
		Added: int32(added), AddedSum: l.sum, Balance: w.chain.balance, CoversOn: toDate(w.chain.covers), //nolint:gosec // bounded
		Anchored: w.chain.anchored,
	}
	args.Opening, args.Closing = amountOf(s.Opening), amountOf(s.Closing)
	if err := w.r.sql.BankStatementInsert(ctx, w.tx, args); err != nil {
		return err
	}
	return w.copy(ctx, rows, numbers)
}

func amountOf(b *bankfile.Balance) *decimal.Decimal {
	if b == nil {
		return nil
	}
	return &b.Amount
}

// known finds out which lines the bank account has.
func (w *statementWriter) known(ctx context.Context) ([]bool, error) {
	lines := w.statement.Lines
	known := make([]bool, len(lines))
	if !w.chain.exists || len(lines) == 0 {
		return known, nil
	}
	identities := make([]string, len(lines))
	for i := range lines {
		identities[i] = lines[i].Identity
	}
	rows, err := w.r.sql.BankLinesKnown(ctx, w.tx, dbsqlc.BankLinesKnownParams{
		LedgerID: w.account.ledgerID, BankAccountNo: w.account.no, Identities: identities,
	})
	have := make(map[string]bool, len(rows))
	for _, identity := range rows {
		have[identity] = true
	}
	for i, identity := range identities {
		known[i] = have[identity]
	}
	return known, err
}

// again finds a statement that was imported before and says the same of itself.
func (w *statementWriter) again(ctx context.Context) (*earlier, error) {
	s := w.statement
	if !w.chain.exists || s.Number == "" && s.ID == "" {
		return nil, nil
	}
	rows, err := w.r.sql.BankStatementAgain(ctx, w.tx, dbsqlc.BankStatementAgainParams{
		LedgerID: w.account.ledgerID, BankAccountNo: w.account.no, Label: s.Number, StatementID: s.ID, FromOn: toDate(s.From), ToOn: toDate(s.To),
		Opening: amountOf(s.Opening), Closing: amountOf(s.Closing),
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	e := &earlier{file: fmt.Sprint(rows[0].FileNo), what: fmt.Sprintf("%s at %s", rows[0].ImportedBy,
		rows[0].ImportedAt.UTC().Format("2006-01-02 15:04:05Z"))}
	if rows[0].Name != "" {
		e.file = fmt.Sprintf("%d (%.100q)", rows[0].FileNo, rows[0].Name)
	}
	return e, nil
}

// renumber gives the lines identities after those that look the same.
func (w *statementWriter) renumber(ctx context.Context) error {
	lines := w.statement.Lines
	var bases []string
	seen := map[string]bool{}
	for i := range lines {
		if base := baseOf(lines[i].Identity); !seen[base] {
			seen[base] = true
			bases = append(bases, base)
		}
	}
	rows, err := w.r.sql.BankLineOccurrences(ctx, w.tx, dbsqlc.BankLineOccurrencesParams{LedgerID: w.account.ledgerID, BankAccountNo: w.account.no,
		Bases: bases})
	if err != nil {
		return err
	}
	counts := bankfile.Occurrences{}
	for _, row := range rows {
		counts[row.Base] = int(row.Occurrences)
	}
	for i := range lines {
		lines[i].Identity = counts.Number(baseOf(lines[i].Identity))
	}
	return nil
}

// lineRow is a line to be written: one of the file's, a detail of one, or the opening balance.
type lineRow struct {
	*bankfile.Line
	kind     string
	identity string
	parent   int // among the rows, -1 for none
	counts   bool
}

const (
	kindLine    = "line"
	kindDetail  = "detail"
	kindOpening = "opening"
)

// rows lists what is new, each line before its details.
func (w *statementWriter) rows(l *link) []lineRow {
	var rows []lineRow
	if l.opening != nil {
		rows = append(rows, lineRow{
			Line: &bankfile.Line{
				BookingDate: l.openingOn, Amount: *l.opening, Currency: string(w.account.Currency.Code), Status: bankfile.StatusBooked,
				Description: "Balance at the bank before the first line",
			},
			kind: kindOpening, identity: kindOpening, parent: -1, counts: true,
		})
	}
	for i := range w.statement.Lines {
		if !l.fresh[i] {
			continue
		}
		line := &w.statement.Lines[i]
		counts := line.Status == bankfile.StatusBooked && !line.Amount.IsZero()
		instead := counts && inItsPlace(line)
		parent := len(rows)
		rows = append(rows, lineRow{line, kindLine, line.Identity, -1, counts && !instead})
		for d := range line.Details {
			detail := &line.Details[d]
			rows = append(rows, lineRow{
				detail, kindDetail, fmt.Sprintf("%s/%d", line.Identity, d+1), parent, instead && !detail.Amount.IsZero(),
			})
		}
	}
	return rows
}

// inItsPlace reports whether the details of a line can stand in its place: they come to it, in its currency.
func inItsPlace(line *bankfile.Line) bool {
	sum := decimal.Zero
	for i := range line.Details {
		if line.Details[i].Currency != line.Currency || line.Details[i].Status != bankfile.StatusBooked {
			return false
		}
		sum = sum.Add(line.Details[i].Amount)
	}
	return len(line.Details) > 0 && sum.Equal(line.Amount) &&
		!slices.ContainsFunc(line.Flags, func(f bankfile.Flag) bool { return f.Code == bankfile.FlagDetailsDiffer })
}

var lineColumns = []string{
	"ledger_id", "bank_account_no", "line_no", "statement_no", "parent_no", "kind", "ordinal", "position", "identity", "status", "counts", "booked_on",
	"value_on", "amount", "currency", "gross", "fee", "reversal", "external_id", "code", "description", "refs", "party", "flags",
}

// copy writes the rows, which have the numbers after the statement's.
func (w *statementWriter) copy(ctx context.Context, rows []lineRow, numbers []int64) error {
	if len(rows) == 0 {
		return nil
	}
	source := pgx.CopyFromSlice(len(rows), func(i int) ([]any, error) {
		row := rows[i]
		var parent *int64
		if row.parent >= 0 {
			parent = &numbers[row.parent+1]
		}
		return []any{
			w.account.ledgerID, w.account.no, numbers[i+1], numbers[0], parent, row.kind, int32(row.Ordinal), //nolint:gosec // bounded
			int32(row.Position), row.identity,
			string(row.Status), row.counts, toDate(row.BookingDate), toDate(row.ValueDate), row.Amount, row.Currency, row.Gross, row.Fee, row.Reversal,
			text(row.ExternalID), text(row.Code), text(row.Description), encode(storedRefs(row.References)), encode(storedParty(row.Counterparty)),
			encode(flagsOf(row.Flags)),
		}, nil
	})
	_, err := w.tx.CopyFrom(ctx, pgx.Identifier{"bank_line"}, lineColumns, source)
	return err
}

// text is text that PostgreSQL can keep.
func text(s string) string { return strings.ToValidUTF8(strings.ReplaceAll(s, "\x00", ""), "\uFFFD") }

// encode is JSON of what can be nothing else.
func encode(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // texts and lists of these
	}
	return text(string(raw))
}
