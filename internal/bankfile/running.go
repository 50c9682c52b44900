package bankfile

import (
	"fmt"

	"github.com/shopspring/decimal"
)

// verifyRunning checks the balances beside the lines of a statement: each must be the one before it and the line's amount, in the order of the file
// or against it. Where it is neither, banks sort rows within a day as they like, and the rows may still be steps that can be walked one after the
// other from some balance to some other; that holds for exactly one first and one last balance. From what it finds come the opening and closing
// balance.
func (p *parse) verifyRunning(a *csvAccount) {
	s := a.Statement
	if a.without > 0 {
		s.notMade(CheckRunning, "line %d has no balance beside it", a.without)
		return
	}
	var opening, closing decimal.Decimal
	last := len(s.Lines) - 1
	up, wrongUp := runs(s.Lines, a.balances, false)
	down, wrongDown := runs(s.Lines, a.balances, true)
	// When both hold, as with a single line, the dates decide which is the first; with one line both are the same.
	if up && down {
		up = s.Lines[0].BookingDate.Compare(s.Lines[last].BookingDate) <= 0
	}
	switch {
	case up:
		opening, closing = a.balances[0].Sub(s.Lines[0].Amount), a.balances[last]
		s.held(CheckRunning, "the balance beside each line adds up, oldest line first")
	case down:
		opening, closing = a.balances[last].Sub(s.Lines[last].Amount), a.balances[0]
		s.held(CheckRunning, "the balance beside each line adds up, newest line first")
	default:
		first, final, ok := walk(s.Lines, a.balances)
		if !ok {
			p.runningFailed(a, wrongUp, wrongDown)
			return
		}
		s.held(CheckRunning, "the balance beside each line adds up, in another order than that of the file")
		if first == nil {
			return
		}
		opening, closing = *first, *final
	}
	s.Opening = &Balance{Code: CodeRunning, Amount: opening, Currency: s.Currency}
	s.Closing = &Balance{Code: CodeRunning, Amount: closing, Currency: s.Currency}
}

// runs reports whether the balances add up in the order of the lines, or backwards against it, and if not the first line whose does not.
func runs(lines []Line, balances []decimal.Decimal, backwards bool) (ok bool, wrong int) {
	for i := 1; i < len(lines); i++ {
		before, after, amount := balances[i-1], balances[i], lines[i].Amount
		if backwards {
			before, after, amount = after, before, lines[i-1].Amount
		}
		if !before.Add(amount).Equal(after) {
			return false, i
		}
	}
	return true, 0
}

// walk looks for a first and a last balance between which all lines are steps, each leading from the balance before it to the one beside it. Every
// balance must then be left as often as it is reached, but for the first and the last. There are none for a walk that ends where it began, since
// nobody can say where that was.
func walk(lines []Line, balances []decimal.Decimal) (first, last *decimal.Decimal, ok bool) {
	left := map[string]int{} // how much more often a balance is left than reached
	for i := range lines {
		left[canonical(balances[i].Sub(lines[i].Amount))]++
		left[canonical(balances[i])]--
	}
	for text, n := range left {
		balance := decimal.RequireFromString(text)
		switch {
		case n == 0:
		case n == 1 && first == nil:
			first = &balance
		case n == -1 && last == nil:
			last = &balance
		default:
			return nil, nil, false
		}
	}
	return first, last, connected(lines, balances)
}

// connected reports whether the steps hang together: two closed circles would balance each by itself.
func connected(lines []Line, balances []decimal.Decimal) bool {
	parent := map[string]string{}
	root := func(balance string) string {
		for parent[balance] != "" && parent[balance] != balance {
			parent[balance] = parent[parent[balance]]
			balance = parent[balance]
		}
		return balance
	}
	for i := range lines {
		after := canonical(balances[i])
		before := canonical(balances[i].Sub(lines[i].Amount))
		for _, b := range []string{after, before} {
			if parent[b] == "" {
				parent[b] = b
			}
		}
		parent[root(before)] = root(after)
	}
	end := root(canonical(balances[0]))
	for i := range lines {
		if root(canonical(balances[i])) != end {
			return false
		}
	}
	return true
}

// runningFailed refuses the file where its order is known by the dates, and says that the check could not be made where it is not.
func (p *parse) runningFailed(a *csvAccount, wrongUp, wrongDown int) {
	s := a.Statement
	ascending, descending := dateOrder(s.Lines)
	if !ascending && !descending {
		s.notMade(CheckRunning, "the lines are not in the order of their dates, and their balances do not add up in any other")
		return
	}
	wrong, before := wrongUp, wrongUp-1
	if !ascending || descending && wrongDown > wrongUp { // all on one day: the order that goes on for longer
		wrong, before = wrongDown-1, wrongDown
	}
	line := &s.Lines[wrong]
	computed := a.balances[before].Add(line.Amount)
	check := compare(CheckRunning, "", written(a.balances[wrong], s.Currency), written(computed, s.Currency))
	check.Detail = fmt.Sprintf("line %d: the balance beside it is %s; that of the line before it, %s, and its amount %s make %s", line.Ordinal,
		check.Stated,
		written(a.balances[before], s.Currency), written(line.Amount, s.Currency), check.Computed)
	p.failed(a.index, s, check, ReasonRunning, line.Position)
}

// dateOrder reports whether the lines are in the order of their booking dates, or against it.
func dateOrder(lines []Line) (ascending, descending bool) {
	ascending, descending = true, true
	for i := 1; i < len(lines); i++ {
		switch order := lines[i-1].BookingDate.Compare(lines[i].BookingDate); {
		case order < 0:
			descending = false
		case order > 0:
			ascending = false
		}
	}
	return ascending, descending
}
