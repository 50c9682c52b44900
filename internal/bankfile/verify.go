package bankfile

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// verify makes the checks that all formats have in common, once all of the file has been read.
func (p *parse) verify() error {
	for i, s := range p.file.Statements {
		if err := p.ctx.Err(); err != nil {
			return err
		}
		if err := completeDates(i, s); err != nil {
			return err
		}
		p.verifyCurrency(i, s)
		p.verifyScale(i, s)
		p.verifyTotals(i, s)
	}
	p.verifyChains()
	return nil
}

// failed notes a check that does not hold, and refuses the file for it.
func (p *parse) failed(i int, s *Statement, check Check, reason Reason, position int) {
	check.State = CheckFailed
	s.Checks = append(s.Checks, check)
	p.refuseStatement(i, s, &Refusal{Reason: reason, Position: position, Detail: check.Detail, Stated: check.Stated, Computed: check.Computed})
}

func (p *parse) refuseStatement(i int, s *Statement, r *Refusal) {
	r.Member, r.Statement, r.Account = s.Member, i+1, s.AccountID
	p.refuse(r)
}

func (s *Statement) held(name CheckName, format string, args ...any) {
	s.Checks = append(s.Checks, Check{Name: name, State: CheckHeld, Detail: fmt.Sprintf(format, args...)})
}

func (s *Statement) notMade(name CheckName, format string, args ...any) {
	s.Checks = append(s.Checks, Check{Name: name, State: CheckNotMade, Detail: fmt.Sprintf(format, args...)})
}

// compare makes a check of two numbers, without its state.
func compare(name CheckName, what, stated, computed string) Check {
	return Check{Name: name, Detail: fmt.Sprintf("%s: the file says %s, its lines make %s", what, stated, computed), Stated: stated, Computed: computed}
}

// completeDates gives the lines that have no date that of the statement's end, and the statement the dates that it does not state.
func completeDates(i int, s *Statement) error {
	end := s.To
	if end.IsZero() && s.Closing != nil {
		end = s.Closing.Date
	}
	for n := range s.Lines {
		line := &s.Lines[n]
		if !line.BookingDate.IsZero() {
			continue
		}
		if end.IsZero() {
			return &Refusal{
				Reason: ReasonMalformed, Member: s.Member, Statement: i + 1, Account: s.AccountID, Position: line.Position,
				Detail: "the line has no date, and neither has the end of its statement",
			}
		}
		line.BookingDate = end
		line.flag(FlagNoDate, "the line has no date: read as of %s, the end of the statement", end)
	}
	from, to := s.span()
	if s.From.IsZero() {
		s.From = from
	}
	if s.To.IsZero() {
		s.To = to
	}
	return nil
}

// span is from the first day to the last that the balances name, or else the lines.
func (s *Statement) span() (from, to Date) {
	for n := range s.Lines {
		date := s.Lines[n].BookingDate
		if from.IsZero() || date.Compare(from) < 0 {
			from = date
		}
		if to.IsZero() || date.Compare(to) > 0 {
			to = date
		}
	}
	if s.Opening != nil && !s.Opening.Date.IsZero() {
		from = s.Opening.Date
	}
	if s.Closing != nil && !s.Closing.Date.IsZero() {
		to = s.Closing.Date
	}
	return from, to
}

// verifyCurrency refuses booked lines in another currency than the statement's, whose sum would mean nothing.
func (p *parse) verifyCurrency(i int, s *Statement) {
	for n := range s.Lines {
		line := &s.Lines[n]
		if line.Status != StatusBooked || line.Currency == s.Currency {
			continue
		}
		p.refuseStatement(i, s, refusal(ReasonCurrency, line.Position, "line %d of the statement is in %s, its account is in %s",
			line.Ordinal, line.Currency, s.Currency))
		return
	}
}

// verifyScale checks that no amount is finer than its currency. Zeros that pad an amount ("8.850") are none: many banks write them.
func (p *parse) verifyScale(i int, s *Statement) {
	v := scaleCheck{o: p.o}
	for n := range s.Lines {
		line := &s.Lines[n]
		v.look(&line.Amount, line.Currency, line.Position)
		if !line.Gross.IsZero() || !line.Fee.IsZero() {
			v.look(&line.Gross, line.Currency, line.Position)
			v.look(&line.Fee, line.Currency, line.Position)
		}
		for d := range line.Details {
			v.look(&line.Details[d].Amount, line.Details[d].Currency, line.Details[d].Position)
		}
	}
	for _, b := range []*Balance{s.Opening, s.Closing} {
		if b != nil {
			v.look(&b.Amount, b.Currency, 0)
		}
	}
	for n := range s.Balances {
		v.look(&s.Balances[n].Amount, s.Balances[n].Currency, 0)
	}
	switch {
	case v.wrong != "":
		p.failed(i, s, Check{Name: CheckScale, Detail: v.wrong}, ReasonScale, v.position)
	case v.unknown != "":
		s.notMade(CheckScale, "the decimals of %s are not known", v.unknown)
	default:
		s.held(CheckScale, "no amount is finer than its currency")
	}
}

// scaleCheck looks at amounts one by one.
type scaleCheck struct {
	o              Options
	code           string
	scale          int32
	known          bool
	wrong, unknown string
	position       int
}

// look gives an amount the decimals of its currency, by adding zeros or dropping those that pad it, and remembers the first that has more than zeros
// to drop.
func (v *scaleCheck) look(amount *decimal.Decimal, code string, position int) {
	if code != v.code || v.code == "" {
		v.code = code
		v.scale, v.known = v.o.scale(code)
	}
	if !v.known {
		if v.unknown == "" {
			v.unknown = code
		}
		return
	}
	if -amount.Exponent() < v.scale {
		*amount = amount.Add(decimal.New(0, -v.scale)) // so that all are printed alike
	}
	if -amount.Exponent() <= v.scale {
		return
	}
	cut := amount.Truncate(v.scale)
	if cut.Equal(*amount) {
		*amount = cut
	} else if v.wrong == "" {
		v.wrong, v.position = fmt.Sprintf("%s has %d decimals, and %s has %d", amount, -amount.Exponent(), code, v.scale), position
	}
}

// verifyTotals checks that the opening balance and the booked lines make the closing balance.
func (p *parse) verifyTotals(i int, s *Statement) {
	var missing []string
	if s.Opening == nil {
		missing = append(missing, "opening")
	}
	if s.Closing == nil {
		missing = append(missing, "closing")
	}
	switch {
	case len(missing) > 0:
		s.notMade(CheckTotals, "the file has no %s balance", strings.Join(missing, " and no "))
		return
	case s.Opening.Code == CodeRunning && s.Closing.Code == CodeRunning:
		s.notMade(CheckTotals, "the file states no opening and closing balance; the balance beside the lines was looked at instead")
		return
	}
	sum := s.sumBooked()
	computed := s.Opening.Amount.Add(sum)
	check := compare(CheckTotals, "closing balance", written(s.Closing.Amount, s.Closing.Currency), written(computed, s.Opening.Currency))
	check.Detail = fmt.Sprintf("closing balance %s; opening balance %s and lines of %s make %s",
		check.Stated, written(s.Opening.Amount, s.Opening.Currency), written(sum, s.Currency), check.Computed)
	if s.Opening.Currency != s.Closing.Currency || !computed.Equal(s.Closing.Amount) {
		p.failed(i, s, check, ReasonTotals, 0)
		return
	}
	check.State = CheckHeld
	s.Checks = append(s.Checks, check)
}
