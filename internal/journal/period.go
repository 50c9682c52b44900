package journal

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// The database knows times beyond those that a transfer can have: before them all, and after them all.
var (
	beforeAll = time.Date(-1, 1, 1, 0, 0, 0, 0, time.UTC)
	afterAll  = time.Date(10_001, 1, 1, 0, 0, 0, 0, time.UTC)
)

const (
	// periodBudget is how long one statement about a period may take. There are accounts with very many entries.
	periodBudget = 10 * time.Minute
	// streamBudget is how long one may take that gives its rows as they are asked for. Whoever takes them slowly holds a connection, and keeps the
	// database from clearing up.
	streamBudget = 30 * time.Minute
	// accountsPerPage is how many accounts one statement reads.
	accountsPerPage = 500
)

// PeriodSpec says which entries a Period is of.
type PeriodSpec struct {
	// From and To bound the period: From is in it, To is not. Either may be zero.
	From, To time.Time
	// ByValueDate goes by effective_at, and by posted_at where there is none; otherwise only posted_at counts.
	ByValueDate bool
	// Through is the last sequence that counts; 0 is the last one drawn.
	Through int64
	// Since is a sequence after which the entries listed come; balances take no notice of it.
	Since int64
}

// Period is a period of a ledger's books as of a sequence. All that is behind that is decided, so what a Period tells never changes.
type Period struct {
	journal *Journal
	book    int32
	spec    PeriodSpec
	now     time.Time
	horizon int64
	// opening and closing are the last moments before the period, and in it: the database's times are whole microseconds.
	opening, closing boundary
	// By posting time, the numbers in the certain stretches are in the period, those in the doubtful ones may be, and no others are.
	certain, doubtful []stretch
}

// boundary is a time, and the numbers that it comes down to.
type boundary struct {
	at time.Time
	// Transfers up to base were posted at or before the time, and beside them only some in the stretches.
	base      int64
	stretches []stretch
}

// stretch is the numbers after one, through another.
type stretch struct{ after, through int64 }

// Period fixes a period of a ledger. It returns CodeInvalidArgument, also for a sequence that is still to come, or CodeLedgerNotFound.
func (j *Journal) Period(ctx context.Context, name ledger.Name, spec PeriodSpec) (*Period, error) {
	if spec.Through < 0 {
		return nil, ledger.Invalid("through", "is negative")
	}
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	p := &Period{journal: j, book: book.id, spec: spec, horizon: spec.Through}
	err = j.read(ctx, "find where the period lies", func(ctx context.Context) error { return p.fix(ctx) })
	return p, err
}

func (p *Period) fix(ctx context.Context) (err error) {
	j := p.journal
	// The clock is read first: who draws a number beyond the horizon reads a later time, so what was posted before now is all there.
	if p.now, err = j.sql.Clock(ctx, j.pool); err != nil {
		return err
	}
	if p.spec.Through > 0 {
		err = aboutThrough(j.awaitSequence(ctx, p.book, p.horizon))
	} else if p.horizon, err = j.horizon(ctx, p.book); err == nil {
		err = j.sql.FlushNumbers(ctx, j.pool) // The number is told to others, and must not be drawn again.
	}
	if err != nil {
		return err
	}
	if p.opening, err = p.boundary(ctx, p.spec.From, boundary{at: beforeAll}); err != nil {
		return err
	}
	p.closing, err = p.boundary(ctx, p.spec.To, boundary{at: afterAll, base: p.horizon})
	p.certain, p.doubtful = within(p.opening, p.closing)
	return err
}

// aboutThrough names the field of an error about a sequence that is still to come.
func aboutThrough(err error) error {
	var refused *ledger.Error
	if errors.As(err, &refused) && refused.Code == ledger.CodeInvalidArgument && len(refused.Violations) > 0 {
		return ledger.Invalid("through", "%s", refused.Violations[0].Message)
	}
	return err
}

// boundary narrows the time before "at" down to numbers.
func (p *Period) boundary(ctx context.Context, at time.Time, open boundary) (boundary, error) {
	if at.IsZero() {
		return open, nil
	}
	b := boundary{at: at.Add(-time.Microsecond)}
	rows, err := p.journal.sql.StretchesAround(ctx, p.journal.pool, dbsqlc.StretchesAroundParams{LedgerID: p.book, At: b.at, Horizon: p.horizon})
	if err != nil {
		return b, err
	}
	b.base = rows[0].After
	for _, row := range rows {
		b.stretches = append(b.stretches, stretch{row.After, row.Through})
	}
	b.stretches = join(b.stretches)
	return b, nil
}

// within gives the numbers of what was posted after one boundary, up to another.
func within(opening, closing boundary) (certain, doubtful []stretch) {
	doubtful = join(slices.Concat(opening.stretches, closing.stretches))
	after := opening.base
	for _, d := range doubtful {
		if through := min(d.after, closing.base); through > after {
			certain = append(certain, stretch{after, through})
		}
		after = max(after, d.through)
	}
	if closing.base > after {
		certain = append(certain, stretch{after, closing.base})
	}
	return certain, doubtful
}

// join sorts stretches, and makes one of those that touch or overlap. Empty ones go.
func join(list []stretch) []stretch {
	list = slices.DeleteFunc(list, func(s stretch) bool { return s.after >= s.through })
	slices.SortFunc(list, func(a, b stretch) int { return int(min(1, max(-1, a.after-b.after))) })
	var joined []stretch
	for _, s := range list {
		if last := len(joined) - 1; last >= 0 && joined[last].through >= s.after {
			joined[last].through = max(joined[last].through, s.through)
			continue
		}
		joined = append(joined, s)
	}
	return joined
}

// split gives stretches as the two arrays that statements take.
func split(list []stretch) (afters, throughs []int64) {
	afters, throughs = make([]int64, len(list)), make([]int64, len(list))
	for i, s := range list {
		afters[i], throughs[i] = s.after, s.through
	}
	return afters, throughs
}

// listed gives the numbers that may be in the period and come after spec.Since.
func (p *Period) listed() []stretch {
	list := join(slices.Concat(p.certain, p.doubtful))
	for i := range list {
		list[i].after = max(list[i].after, p.spec.Since)
	}
	return join(list)
}

// Window is the period with only those entries that come after one sequence, up to another. Balances are the period's all the same.
func (p *Period) Window(since, through int64) *Period {
	w := *p
	w.spec.Since = max(since, p.spec.Since)
	clip := func(list []stretch) []stretch {
		clipped := slices.Clone(list)
		for i := range clipped {
			clipped[i].through = min(clipped[i].through, through)
		}
		return join(clipped)
	}
	w.certain, w.doubtful = clip(p.certain), clip(p.doubtful)
	w.horizon = min(p.horizon, through)
	return &w
}

// Horizon is the last sequence that counts.
func (p *Period) Horizon() int64 { return p.horizon }

// Now is what the database's clock said when the period was fixed.
func (p *Period) Now() time.Time { return p.now.UTC() }

// Dates gives the first and the last time of the transfers of the period, for each day of UTC that has any, in order. It looks at all of them.
func (p *Period) Dates(ctx context.Context) (dates [][2]time.Time, err error) {
	err = p.read(ctx, "look for the days of a period", func(ctx context.Context) error {
		rows, err := p.journal.sql.PeriodDates(ctx, p.journal.pool, dbsqlc.PeriodDatesParams{
			OpeningAt: p.opening.at, ClosingAt: p.closing.at, ByValueDate: p.spec.ByValueDate, LedgerID: p.book, After: p.lowest(), Through: p.highest(),
		})
		dates = make([][2]time.Time, len(rows))
		for i, row := range rows {
			dates[i] = [2]time.Time{row.First.UTC(), row.Last.UTC()}
		}
		return err
	})
	return dates, err
}

// read is Journal.read for statements that may take long.
func (p *Period) read(ctx context.Context, doing string, f func(context.Context) error) error {
	return p.journal.read(context.WithValue(ctx, budgetKey{}, time.Now().Add(periodBudget)), doing, f)
}

// stream runs a query and gives its rows one by one, without keeping them. What was given cannot be taken back, so nothing is tried again.
func stream[Row any](ctx context.Context, p *Period, doing, sql string, args []any, yield func(Row) error) error {
	var stopped error
	bounded, cancel := context.WithTimeout(ctx, streamBudget)
	defer cancel()
	err := func() error {
		conn, err := p.journal.pool.Acquire(bounded)
		if err != nil {
			return err
		}
		defer conn.Release()
		rows, err := conn.Query(bounded, sql, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			row, err := pgx.RowToStructByPos[Row](rows)
			if err != nil {
				return err
			}
			if stopped = yield(row); stopped != nil {
				// Close would read all the rows that nobody wants any more, so the connection ends before it.
				_ = conn.Conn().PgConn().Conn().Close()
				rows.Close()
				_ = conn.Conn().Close(ctx)
				return nil
			}
		}
		return rows.Err()
	}()
	switch {
	case stopped != nil:
		return stopped
	case err != nil && bounded.Err() != nil && ctx.Err() == nil:
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s: it took longer than %s", doing, streamBudget)
	}
	return p.journal.public(ctx, doing, err)
}

// kindOf is the kind that a row says: a plain transfer has none there.
func kindOf(text string) ledger.Kind { return cmp.Or(ledger.Kind(text), ledger.Plain) }

// AccountFilter says which accounts are meant.
type AccountFilter struct {
	// Prefix is what their ids begin with, Account an id in full; Currency and Type are theirs. Each may be empty.
	Prefix   string
	Account  ledger.AccountID
	Currency ledger.CurrencyCode
	Type     ledger.AccountType
	// Part is a part of their ids, between colons, or one of several with | between them.
	Part string
}

// PeriodAccount is an account in a period. Balances are sums of entries, a debit positive.
type PeriodAccount struct {
	ID       ledger.AccountID
	Type     ledger.AccountType
	Currency ledger.Currency
	Name     string
	// Opening is the balance before the period, Closing that at its end. Debits and Credits are what the entries of the period come to, both
	// positive. They are computed apart: Opening + Debits - Credits = Closing holds if the books are right.
	Opening, Debits, Credits, Closing decimal.Decimal
	// Entries is how many entries of the period there are.
	Entries int64

	no int64
}

// Quiet reports whether there is nothing to tell of the account.
func (a *PeriodAccount) Quiet() bool {
	return a.Entries == 0 && a.Opening.IsZero() && a.Closing.IsZero()
}

// Accounts gives the accounts of the ledger in the order of their ids, those with nothing to tell included. An error of yield ends it and is
// returned. A single account that does not exist is CodeAccountNotFound.
func (p *Period) Accounts(ctx context.Context, filter AccountFilter, yield func([]PeriodAccount) error) error {
	args := dbsqlc.PeriodAccountsParams{
		LedgerID: p.book, First: filter.Prefix, Beyond: filter.Prefix + "\x7f", Currency: string(filter.Currency), PageSize: accountsPerPage,
		OpeningAt: p.opening.at, ClosingAt: p.closing.at, ByValueDate: p.spec.ByValueDate, Horizon: p.horizon,
		OpeningBase: p.opening.base, ClosingBase: p.closing.base, Type: string(filter.Type),
	}
	if filter.Part != "" {
		args.Pattern = "(^|:)(" + filter.Part + ")(:|$)"
	}
	if filter.Account != "" { // Nothing that an id may have in it comes before a space.
		args.First, args.Beyond = string(filter.Account), string(filter.Account)+" "
	}
	args.OpeningAfters, args.OpeningThroughs = split(p.opening.stretches)
	args.ClosingAfters, args.ClosingThroughs = split(p.closing.stretches)
	args.CertainAfters, args.CertainThroughs = split(p.certain)
	args.DoubtfulAfters, args.DoubtfulThroughs = split(p.doubtful)
	for {
		var rows []dbsqlc.PeriodAccountsRow
		err := p.read(ctx, "read the accounts of a period", func(ctx context.Context) (err error) {
			rows, err = p.journal.sql.PeriodAccounts(ctx, p.journal.pool, args)
			return err
		})
		switch {
		case err != nil:
			return err
		case len(rows) == 0 && filter.Account != "" && args.After == "":
			return accountMissing(filter.Account)
		}
		page := make([]PeriodAccount, len(rows))
		for i, row := range rows {
			page[i] = periodAccount(row)
			args.After = row.AccountID
		}
		if len(page) > 0 {
			if err := yield(page); err != nil {
				return err
			}
		}
		if len(rows) < accountsPerPage {
			return nil
		}
	}
}

func periodAccount(row dbsqlc.PeriodAccountsRow) PeriodAccount {
	return PeriodAccount{
		ID: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type), Name: row.Name, no: row.AccountNo,
		Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
		Opening:  row.Opening, Debits: row.Debit, Credits: row.Credit, Closing: row.Closing, Entries: row.Entries,
	}
}

// numbers gives the numbers of accounts, and the accounts by them.
func numbers(accounts []PeriodAccount) ([]int64, map[int64]*PeriodAccount) {
	nos, byNo := make([]int64, len(accounts)), make(map[int64]*PeriodAccount, len(accounts))
	for i := range accounts {
		nos[i] = accounts[i].no
		byNo[accounts[i].no] = &accounts[i]
	}
	return nos, byNo
}

// PeriodEntry is an entry of a period.
type PeriodEntry struct {
	Account *PeriodAccount
	// Day counts the days given, from 0: that in which its time lies.
	Day      int
	Sequence int64
	Leg      int
	// Amount is positive for a debit.
	Amount      decimal.Decimal
	TransferID  ledger.TransferID
	Kind        ledger.Kind
	Origin      ledger.TransferID
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
	// Others are the other accounts of the transfer, each once.
	Others []ledger.AccountID
}

// Entries gives the entries of accounts in the period, account by account as they are given, by day and in a day by sequence. Days are the moments
// at which they begin, in order; the first is no later than the first entry. An error of yield ends it and is returned.
func (p *Period) Entries(ctx context.Context, accounts []PeriodAccount, days []time.Time, yield func(PeriodEntry) error) error {
	nos, byNo := numbers(accounts)
	afters, throughs := split(p.listed())
	names := &otherNames{period: p, known: map[int64]ledger.AccountID{}}
	// The names of other accounts are looked up for many entries at once.
	var waiting []dbsqlc.PeriodEntriesRow
	flush := func() error {
		if err := names.learn(ctx, waiting); err != nil {
			return err
		}
		for _, row := range waiting {
			if err := yield(periodEntry(row, byNo[row.AccountNo], names)); err != nil {
				return err
			}
		}
		waiting = waiting[:0]
		return nil
	}
	args := []any{nos, p.opening.at, p.closing.at, p.spec.ByValueDate, p.horizon, p.book, days, afters, throughs, p.spec.Since}
	err := stream(ctx, p, "read the entries of a period", dbsqlc.PeriodEntries, args, func(row dbsqlc.PeriodEntriesRow) error {
		waiting = append(waiting, row)
		if len(waiting) < accountsPerPage {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

func periodEntry(row dbsqlc.PeriodEntriesRow, account *PeriodAccount, names *otherNames) PeriodEntry {
	e := PeriodEntry{
		Account: account, Day: int(row.Day) - 1, Sequence: row.Sequence, Leg: int(row.Leg), Amount: row.Amount,
		TransferID: ledger.TransferID(row.TransferID), Kind: kindOf(row.Kind), Origin: ledger.TransferID(row.Origin),
		PostedAt: row.PostedAt.UTC(), EffectiveAt: row.EffectiveAt, Description: row.Description,
	}
	if e.EffectiveAt != nil {
		utc := e.EffectiveAt.UTC()
		e.EffectiveAt = &utc
	}
	for _, no := range row.AccountNos {
		if other := names.known[no]; no != row.AccountNo && !slices.Contains(e.Others, other) {
			e.Others = append(e.Others, other)
		}
	}
	return e
}

// otherNames are ids of accounts by their numbers.
type otherNames struct {
	period *Period
	known  map[int64]ledger.AccountID
}

func (n *otherNames) learn(ctx context.Context, rows []dbsqlc.PeriodEntriesRow) error {
	var unknown []int64
	for _, row := range rows {
		for _, no := range row.AccountNos {
			if _, ok := n.known[no]; !ok {
				unknown = append(unknown, no)
			}
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	if len(n.known) > maxNames {
		clear(n.known)
		unknown = unknown[:0]
		for _, row := range rows {
			unknown = append(unknown, row.AccountNos...)
		}
	}
	slices.Sort(unknown)
	return n.period.read(ctx, "read the names of accounts", func(ctx context.Context) error {
		accounts, err := n.period.journal.sql.AccountIDs(ctx, n.period.journal.pool, dbsqlc.AccountIDsParams{
			LedgerID: n.period.book, AccountNos: slices.Compact(unknown),
		})
		for _, a := range accounts {
			n.known[a.AccountNo] = ledger.AccountID(a.AccountID)
		}
		return err
	})
}

// PeriodDay is what the entries of an account come to in one day.
type PeriodDay struct {
	Account         *PeriodAccount
	Day             int
	Debits, Credits decimal.Decimal
	Entries         int64
}

// Days gives the debits and credits of accounts, account by account as they are given, for each day that has any.
func (p *Period) Days(ctx context.Context, accounts []PeriodAccount, days []time.Time, yield func(PeriodDay) error) error {
	nos, byNo := numbers(accounts)
	afters, throughs := split(p.listed())
	args := []any{nos, p.opening.at, p.closing.at, p.spec.ByValueDate, p.horizon, p.book, days, afters, throughs, p.spec.Since}
	return stream(ctx, p, "add up the days of a period", dbsqlc.PeriodDays, args, func(row dbsqlc.PeriodDaysRow) error {
		return yield(PeriodDay{byNo[row.AccountNo], int(row.Day) - 1, row.Debit, row.Credit, row.Entries})
	})
}
