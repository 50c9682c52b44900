package reconcile

import (
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// chain is where the statements of a bank account have come to.
type chain struct {
	currency ledger.Currency
	// exists says that there is a statement. balance is the sum of the lines that count; anchored says that the first of them is an opening balance of
	// the bank's, so that the sum is the balance at the bank.
	exists   bool
	balance  decimal.Decimal
	anchored bool
	// begins and covers are the first day of a line, and the last day that is covered.
	begins, covers bankfile.Date
	// number is that of the last statement that has one, as a number and as written.
	number int64
	label  string
}

// earlier is a statement that was imported before.
type earlier struct {
	file string // what it was called, or its number
	what string // by whom and when
}

// link is how a statement goes on from the chain.
type link struct {
	// fresh says of each line whether it is new. renumbered lines are not those that look the same, but come after them.
	fresh    []bool
	renumber bool
	// opening is the line with which the bank's balance begins, if this statement is the one that gives it.
	opening   *decimal.Decimal
	openingOn bankfile.Date
	// sum is what the new lines that count come to, the opening included.
	sum   decimal.Decimal
	check bankfile.Check
}

// follow decides what a statement adds, of whose lines some are known, or refuses it. Its own sums have been checked before: opening balance and
// lines make the closing balance.
func (c *chain) follow(n int, s *bankfile.Statement, known []bool, again *earlier, settings *Settings) (link, *bankfile.Refusal) {
	l := link{fresh: make([]bool, len(known))}
	fresh, old, ofOld, byID := 0, 0, decimal.Zero, false
	for i, k := range known {
		if l.fresh[i] = !k; k {
			old++
			ofOld = ofOld.Add(counting(&s.Lines[i]))
			byID = byID || s.Lines[i].ExternalID != ""
			continue
		}
		fresh++
		l.sum = l.sum.Add(counting(&s.Lines[i]))
	}
	if again != nil && fresh == 0 {
		return l, refuse(ReasonRepeated, n, s, "%s was imported before, from file %s, by %s: all of its %d lines are known", called(s), again.file,
			again.what, old)
	}
	next := old > 0 && c.isNext(s, ofOld, byID, settings)
	if fresh == 0 && old > 0 && !next {
		l.check = bankfile.Check{Name: bankfile.CheckChain, State: bankfile.CheckHeld, Detail: fmt.Sprintf("all of its %d lines are known", old)}
		return l, nil
	}
	if !settings.AnyNumbers && s.Sequence > 0 && c.number > 0 && s.Sequence > c.number+1 {
		return l, differ(refuse(ReasonGap, n, s, "%s is missing: number %s follows number %s, which is the last one imported", missing(c.number+1,
			s.Sequence-1),
			s.Number, c.label), s.Number, fmt.Sprint(c.number+1))
	}
	if next {
		return c.alike(s, l, old), nil
	}
	return c.balances(n, s, l, old, settings)
}

// isNext reports whether a statement with lines that look like known ones comes after all that is known, so that they are others. It begins where the
// last one ended, and has the next number; or, without a number, its lines would have to be known twice for the balance to be what it is. What the
// bank gives an id of its own is known by it.
func (c *chain) isNext(s *bankfile.Statement, ofOld decimal.Decimal, byID bool, settings *Settings) bool {
	switch {
	case settings.IgnoreBalances || !c.anchored || s.Opening == nil || s.Closing == nil || !s.Opening.Amount.Equal(c.balance),
		s.From.IsZero() || s.From.Compare(c.covers) < 0:
		return false
	case s.Sequence > 0 && c.number > 0 && s.Sequence != c.number:
		return s.Sequence > c.number
	}
	return !ofOld.IsZero() && !byID
}

// alike takes all lines of a statement for new, however much they look like earlier ones.
func (c *chain) alike(s *bankfile.Statement, l link, old int) link {
	l.renumber, l.sum = true, sumBooked(s)
	for i := range l.fresh {
		l.fresh[i] = true
	}
	l.check = bankfile.Check{
		Name: bankfile.CheckChain, State: bankfile.CheckHeld,
		Detail: fmt.Sprintf("%s goes on from the balance that was known, %s; %d of its lines look like earlier ones", called(s), c.text(c.balance), old),
	}
	return l
}

// counting is what a line adds to the balance.
func counting(line *bankfile.Line) decimal.Decimal {
	if line.Status != bankfile.StatusBooked {
		return decimal.Zero
	}
	return line.Amount
}

func missing(first, last int64) string {
	if first == last {
		return fmt.Sprintf("a statement: number %d", first)
	}
	return fmt.Sprintf("some statements: numbers %d to %d", first, last)
}

// called names a statement for people.
func called(s *bankfile.Statement) string {
	switch {
	case s.Number != "":
		return fmt.Sprintf("statement number %.40s of %s to %s", s.Number, s.From, s.To)
	case s.ID != "":
		return fmt.Sprintf("statement %.40q of %s to %s", s.ID, s.From, s.To)
	}
	return fmt.Sprintf("the statement of %s to %s", s.From, s.To)
}

// balances compares the balance of which the new lines make the closing balance with that to which the chain has come.
func (c *chain) balances(n int, s *bankfile.Statement, l link, old int, settings *Settings) (link, *bankfile.Refusal) {
	opening, closing := s.Opening, s.Closing
	if settings.IgnoreBalances {
		opening, closing = nil, nil
	}
	var before *decimal.Decimal
	switch {
	case closing != nil:
		b := closing.Amount.Sub(l.sum)
		before = &b
	case opening != nil && old == 0:
		before = &opening.Amount
	}
	l.check = bankfile.Check{Name: bankfile.CheckChain, State: bankfile.CheckHeld}
	switch {
	case !c.anchored && before == nil:
		l.check.State, l.check.Detail = bankfile.CheckNotMade, "the file gives no balance to compare with"
	case !c.anchored:
		c.anchor(s, &l, *before)
	case before == nil && old == 0 && c.isTooEarly(s):
		return l, c.tooEarly(n, s)
	case before == nil:
		l.check.State, l.check.Detail = bankfile.CheckNotMade, "the file gives no balance to compare with"
		return l, c.covered(n, s, &l)
	case before.Equal(c.balance):
		l.check.Detail = fmt.Sprintf("%s goes on from the balance that was known, %s", called(s), c.text(c.balance))
	case old > 0 && opening != nil && closing != nil && opening.Amount.Equal(c.balance) && s.From.Compare(c.covers) >= 0:
		// It begins where the last one ended, so its lines are none of those that are known, however much they look like them.
		return c.alike(s, l, old), nil
	default:
		return l, c.broken(n, s, &l, old, *before)
	}
	return l, nil
}

// anchor gives the chain its beginning at the bank.
func (c *chain) anchor(s *bankfile.Statement, l *link, before decimal.Decimal) {
	amount := before.Sub(c.balance)
	l.openingOn = c.begins
	if !c.exists || l.openingOn.IsZero() {
		l.openingOn = firstDay(s)
	}
	if l.openingOn.IsZero() {
		l.check.State, l.check.Detail = bankfile.CheckNotMade, "the file gives a balance and no day"
		return
	}
	l.check.Detail = fmt.Sprintf("the balance at the bank begins with %s", c.text(amount))
	if !amount.IsZero() {
		l.opening = &amount
		l.sum = l.sum.Add(amount)
	}
}

// firstDay is the day of a statement's opening balance, or of its first line if that is earlier.
func firstDay(s *bankfile.Statement) bankfile.Date {
	first := s.From
	if s.Opening != nil && !s.Opening.Date.IsZero() {
		first = s.Opening.Date
	}
	for i := range s.Lines {
		if d := s.Lines[i].BookingDate; s.Lines[i].Status == bankfile.StatusBooked && (first.IsZero() || d.Compare(first) < 0) {
			first = d
		}
	}
	return first
}

// covered refuses lines without a balance that would change one that the bank has stated.
func (c *chain) covered(n int, s *bankfile.Statement, l *link) *bankfile.Refusal {
	for i := range s.Lines {
		line := &s.Lines[i]
		if l.fresh[i] && line.Status == bankfile.StatusBooked && line.BookingDate.Compare(c.covers) < 0 {
			r := refuse(ReasonOverlap, n, s,
				"line %d of %s, %s, is not known, and what was imported through %s adds up to the bank's balance of %s without it", line.Ordinal,
				line.BookingDate,
				c.text(line.Amount), c.covers, c.text(c.balance))
			r.Position = line.Position
			return r
		}
	}
	return nil
}

// broken says why a statement does not go on from the chain.
func (c *chain) broken(n int, s *bankfile.Statement, l *link, old int, before decimal.Decimal) *bankfile.Refusal {
	var r *bankfile.Refusal
	switch {
	case old > 0:
		r = refuse(ReasonOverlap, n, s, "%d of its %d lines are known; the other %d and its closing balance make the balance before them %s, and it is "+
			"known to be %s through %s", old, len(s.Lines), len(s.Lines)-old, c.text(before), c.text(c.balance), c.covers)
	case c.isTooEarly(s):
		return c.tooEarly(n, s)
	default:
		r = refuse(ReasonGap, n, s, "it begins with a balance of %s, and what was imported ends with %s on %s: lines that come to %s are missing "+
			"between them", c.text(before), c.text(c.balance), c.covers, c.text(before.Sub(c.balance)))
	}
	return differ(r, c.text(before), c.text(c.balance))
}

// isTooEarly reports whether a statement, of which nothing is known, is of days before the first line.
func (c *chain) isTooEarly(s *bankfile.Statement) bool {
	if !s.To.IsZero() && s.To.Compare(c.begins) < 0 {
		return true
	}
	return slices.ContainsFunc(s.Lines, func(line bankfile.Line) bool {
		return line.Status == bankfile.StatusBooked && line.BookingDate.Compare(c.begins) < 0
	})
}

// tooEarly refuses a statement that is. There are no two numbers: before the first balance there is none to compare with.
func (c *chain) tooEarly(n int, s *bankfile.Statement) *bankfile.Refusal {
	return refuse(ReasonTooEarly, n, s, "it begins on %s, before what was imported, which begins on %s: it cannot be imported any more, since the balance "+
		"with which that begins stands for all before it", firstDay(s), c.begins)
}

func (c *chain) text(d decimal.Decimal) string {
	return sheet.AmountCell(d, c.currency.Scale) + " " + string(c.currency.Code)
}

// extend is the chain after a statement.
func (c *chain) extend(s *bankfile.Statement, l *link) {
	c.balance = c.balance.Add(l.sum)
	added := false
	for i := range s.Lines {
		if !l.fresh[i] {
			continue
		}
		added = true
		day := s.Lines[i].BookingDate
		if c.begins.IsZero() || day.Compare(c.begins) < 0 {
			c.begins = day
		}
		c.covers = later(c.covers, day)
	}
	c.covers = later(c.covers, s.To)
	if s.Closing != nil {
		c.covers = later(c.covers, s.Closing.Date)
	}
	if !l.openingOn.IsZero() {
		c.anchored = true
		if c.begins.IsZero() || l.openingOn.Compare(c.begins) < 0 {
			c.begins = l.openingOn
		}
	}
	if s.Sequence > 0 && (added || len(s.Lines) == 0) {
		c.number, c.label = s.Sequence, s.Number
	}
	c.exists = true
}

func later(a, b bankfile.Date) bankfile.Date {
	if b.Compare(a) > 0 || a.IsZero() {
		return b
	}
	return a
}

func sumBooked(s *bankfile.Statement) decimal.Decimal {
	sum := decimal.Zero
	for i := range s.Lines {
		sum = sum.Add(counting(&s.Lines[i]))
	}
	return sum
}
