package bankfile

import (
	"fmt"
	"slices"
)

// verifyChains checks that the statements of each account follow each other. Those of different members of a zip are not compared: a zip has no
// order.
func (p *parse) verifyChains() {
	type key struct{ member, account, currency string }
	chains := map[key][]int{}
	var order []key
	for i, s := range p.file.Statements {
		k := key{s.Member, s.AccountID, s.Currency}
		if chains[k] == nil {
			order = append(order, k)
		}
		chains[k] = append(chains[k], i)
	}
	for _, k := range order {
		chain := chains[k]
		if p.isDescending(chain) {
			slices.Reverse(chain)
		}
		for n := 1; n < len(chain); n++ {
			p.verifyLink(chain[n-1], chain[n])
		}
	}
}

// isDescending reports whether a bank put the newest statement first: by their dates, and by their numbers only where these say nothing, since
// numbers begin again each year.
func (p *parse) isDescending(chain []int) bool {
	first, last := p.file.Statements[chain[0]], p.file.Statements[chain[len(chain)-1]]
	if !first.To.IsZero() && !last.To.IsZero() && first.To != last.To {
		return first.To.Compare(last.To) > 0
	}
	return first.Sequence > 0 && last.Sequence > 0 && first.Sequence > last.Sequence
}

// verifyLink checks that one statement follows another.
func (p *parse) verifyLink(earlier, later int) {
	a, b := p.file.Statements[earlier], p.file.Statements[later]
	broken := func(check Check) { p.failed(later, b, check, ReasonChain, 0) }
	// A number that is not higher says nothing: some begin again each year, others are that of the year.
	if a.Sequence > 0 && b.Sequence > a.Sequence+1 {
		check := compare(CheckChain, "", b.Number, fmt.Sprint(a.Sequence+1))
		check.Detail = fmt.Sprintf("a statement is missing: number %s follows number %s", b.Number, a.Number)
		broken(check)
		return
	}
	if a.Closing == nil || b.Opening == nil {
		b.notMade(CheckChain, "there is no closing balance of the statement before it, or no opening balance, to compare")
		return
	}
	check := compare(CheckChain, "", written(b.Opening.Amount, b.Opening.Currency), written(a.Closing.Amount, a.Closing.Currency))
	check.Detail = fmt.Sprintf("opening balance %s; the statement before it closes with %s", check.Stated, check.Computed)
	if a.Closing.Currency != b.Opening.Currency || !a.Closing.Amount.Equal(b.Opening.Amount) {
		broken(check)
		return
	}
	check.State = CheckHeld
	b.Checks = append(b.Checks, check)
}
