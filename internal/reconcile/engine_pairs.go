package reconcile

import (
	"fmt"
	"slices"
)

// options are the items of the other side that one may be matched with: those that are near in time, and the others. There may be more than are
// listed.
type options struct {
	near, far         []int
	manyNear, manyFar bool
}

const maxOptions = 8

func (o *options) add(place int, near bool) {
	list, many := &o.far, &o.manyFar
	if near {
		list, many = &o.near, &o.manyNear
	}
	if slices.Contains(*list, place) {
		return
	}
	if len(*list) >= maxOptions {
		*many = true
		return
	}
	*list = append(*list, place)
}

// onlyNear is the one option that is near, if there is one alone.
func (o *options) onlyNear() (int, bool) {
	if len(o.near) != 1 || o.manyNear {
		return 0, false
	}
	return o.near[0], true
}

// only is the one option there is.
func (o *options) only() (int, bool) {
	if len(o.near)+len(o.far) != 1 {
		return 0, false
	}
	return slices.Concat(o.near, o.far)[0], true
}

// best are those that are near, or all if none is.
func (o *options) best() (list []int, many bool) {
	if len(o.near) > 0 {
		return o.near, o.manyNear
	}
	return o.far, o.manyFar
}

// pairing is one pass over pairs of a line and an entry that share a name.
type pairing struct {
	*solver
	rule                  Rule
	lineKinds, entryKinds nameKind
	// anyAmount takes pairs whose amounts differ, in the same direction.
	anyAmount bool
	// lines and entries are those that are open and have such a name, and what follows has the options of each.
	lines, entries    []int
	ofLines, ofTheirs map[int]*options
}

// pairs matches lines and entries that share a name and have the same amount: first those that nothing else near in time is like, then those that
// nothing else at all is like. What then has options left is ambiguous, or a duplicate.
func (s *solver) pairs(rule Rule, lineKinds, entryKinds nameKind) {
	p := &pairing{solver: s, rule: rule, lineKinds: lineKinds, entryKinds: entryKinds}
	p.look()
	for _, l := range p.lines {
		e, ok := p.ofLines[l].onlyNear()
		if !ok {
			continue
		}
		if back, ok := p.ofTheirs[e].onlyNear(); ok && back == l {
			s.group(grouping{rule: rule, outcome: Matched, lines: []int{l}, entries: []int{e}})
		}
	}
	p.look()
	for _, l := range p.lines {
		e, ok := p.ofLines[l].only()
		if !ok || s.near(l, e) {
			continue
		}
		if back, ok := p.ofTheirs[e].only(); ok && back == l {
			days := s.lines[l].day - s.entries[e].day
			s.group(grouping{
				rule: rule, outcome: DateMismatch, lines: []int{l}, entries: []int{e},
				note: fmt.Sprintf("the bank has it %s the books", daysApart(days)),
			})
		}
	}
	p.look()
	p.duplicates()
	p.remark()
}

func daysApart(days int) string {
	if days < 0 {
		return fmt.Sprintf("%d days before", -days)
	}
	return fmt.Sprintf("%d days after", days)
}

// look finds the options of all that is open.
func (p *pairing) look() {
	p.lines, p.entries = p.lines[:0], p.entries[:0]
	p.ofLines, p.ofTheirs = map[int]*options{}, map[int]*options{}
	seenLine, seenEntry := map[int]bool{}, map[int]bool{}
	for _, text := range p.order {
		b := p.names[text]
		for _, l := range b.lines {
			if l.kind&p.lineKinds != 0 && !seenLine[l.place] && p.lineOpen(l.place) && p.aboutLine[l.place].outcome == "" {
				seenLine[l.place] = true
				p.lines = append(p.lines, l.place)
			}
		}
		for _, e := range b.entries {
			if e.kind&p.entryKinds != 0 && !seenEntry[e.place] && p.entryOpen(e.place) && p.aboutEntry[e.place].outcome == "" {
				seenEntry[e.place] = true
				p.entries = append(p.entries, e.place)
			}
		}
	}
	slices.Sort(p.lines)
	slices.Sort(p.entries)
	for _, l := range p.lines {
		o := &options{}
		for _, n := range p.solver.lines[l].names {
			if b := p.bucket(n, p.lineKinds, p.lineAmount[l]); b != nil {
				for _, e := range b.entries {
					if e.kind&p.entryKinds != 0 && seenEntry[e.place] && p.fits(l, e.place) {
						o.add(e.place, p.near(l, e.place))
					}
				}
			}
		}
		p.ofLines[l] = o
	}
	for _, e := range p.entries {
		o := &options{}
		for _, n := range p.solver.entries[e].names {
			if b := p.bucket(n, p.entryKinds, p.entryAmount[e]); b != nil {
				for _, l := range b.lines {
					if l.kind&p.lineKinds != 0 && seenLine[l.place] && p.fits(l.place, e) {
						o.add(l.place, p.near(l.place, e))
					}
				}
			}
		}
		p.ofTheirs[e] = o
	}
}

// bucket has what shares a name, of that amount if it matters.
func (p *pairing) bucket(n name, kinds nameKind, amount int) *bucket {
	b := p.names[n.text]
	if b == nil || n.kind&kinds == 0 {
		return nil
	}
	if p.anyAmount {
		return b
	}
	return b.of(p.solver, amount)
}

func (p *pairing) fits(line, entry int) bool {
	return !p.anyAmount || p.solver.lines[line].open.Sign() == p.solver.entries[entry].open.Sign()
}

// duplicates suggests the first of several that are alike on one side for the one that is there on the other side, and says of all of them what they
// are.
func (p *pairing) duplicates() {
	for _, e := range p.entries {
		lines, many := p.ofTheirs[e].best()
		if many || len(lines) < 2 || !allOnly(lines, p.ofLines, e) {
			continue
		}
		p.surplusLines(p.rule, lines, e, "the bank has the same reference and amount %d times, the books once")
	}
	for _, l := range p.lines {
		entries, many := p.ofLines[l].best()
		if many || len(entries) < 2 || !allOnly(entries, p.ofTheirs, l) {
			continue
		}
		p.surplusEntries(p.rule, l, entries, "the books have the same reference and amount %d times, the bank once")
	}
}

// allOnly reports whether each of some items has no other option than one.
func allOnly(items []int, of map[int]*options, one int) bool {
	return !slices.ContainsFunc(items, func(i int) bool {
		list, many := of[i].best()
		return many || len(list) != 1 || list[0] != one
	})
}

// surplusLines suggests the first of some lines for an entry. It is not confirmed: which of them is the real one, a person has to say.
func (s *solver) surplusLines(rule Rule, lines []int, entry int, format string) {
	lines = slices.Clone(lines)
	slices.Sort(lines)
	note := fmt.Sprintf(format, len(lines))
	s.group(grouping{rule: rule, outcome: Ambiguous, lines: lines[:1:1], entries: []int{entry}, note: note})
	for _, l := range lines {
		s.aboutLine[l] = remark{DuplicateBankLine, note, []int{entry}}
	}
	s.aboutEntry[entry] = remark{Ambiguous, note, atMost(lines)}
}

// surplusEntries is surplusLines for the other side.
func (s *solver) surplusEntries(rule Rule, line int, entries []int, format string) {
	entries = slices.Clone(entries)
	slices.Sort(entries)
	note := fmt.Sprintf(format, len(entries))
	s.group(grouping{rule: rule, outcome: Ambiguous, lines: []int{line}, entries: entries[:1:1], note: note})
	for _, e := range entries {
		s.aboutEntry[e] = remark{DuplicateLedgerEntry, note, []int{line}}
	}
	s.aboutLine[line] = remark{Ambiguous, note, atMost(entries)}
}

func atMost(list []int) []int { return slices.Clone(list[:min(maxCandidates, len(list))]) }

// remark says of what has options left that it is ambiguous.
func (p *pairing) remark() {
	for _, l := range p.lines {
		if list, many := p.ofLines[l].best(); p.lineOpen(l) && p.aboutLine[l].outcome == "" && len(list) > 0 {
			p.aboutLine[l] = remark{Ambiguous, optionsNote(len(list), many, "entries have the same reference and amount"), atMost(list)}
		}
	}
	for _, e := range p.entries {
		if list, many := p.ofTheirs[e].best(); p.entryOpen(e) && p.aboutEntry[e].outcome == "" && len(list) > 0 {
			p.aboutEntry[e] = remark{Ambiguous, optionsNote(len(list), many, "lines have the same reference and amount"), atMost(list)}
		}
	}
}

func optionsNote(n int, many bool, what string) string {
	if many {
		return fmt.Sprintf("more than %d %s", n, what)
	}
	return fmt.Sprintf("%d %s", n, what)
}

// amountsDiffer suggests pairs that share a reference and have the same direction, and nothing else does. Within the tolerance they are the same
// movement.
func (s *solver) amountsDiffer() {
	p := &pairing{solver: s, rule: RuleReference, lineKinds: ownName, entryKinds: ownName | keyName, anyAmount: true}
	p.look()
	for _, l := range p.lines {
		e, ok := p.ofLines[l].only()
		if !ok {
			continue
		}
		back, ok := p.ofTheirs[e].only()
		if !ok || back != l {
			continue
		}
		g := grouping{rule: RuleReference, outcome: AmountMismatch, lines: []int{l}, entries: []int{e}}
		if s.within(l, e) && s.near(l, e) {
			g.outcome = MatchedWithDifference
		}
		s.group(g)
	}
}

// within reports whether what is open of a line and of an entry differ by no more than is tolerated.
func (s *solver) within(line, entry int) bool {
	return s.lines[line].open.Sub(s.entries[entry].open).Abs().LessThanOrEqual(s.settings.Tolerance)
}
