package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/shopspring/decimal"
)

// The matching. It is a function of its problem and of nothing else: neither the order of what it is given nor the time makes a difference.

// problem is what is to be matched.
type problem struct {
	// lines and entries are those that are open, and some that are settled, with nothing open: what is open may be a duplicate of them.
	lines, entries []item
	settings       Settings
	// undone has the sets of items (see setKey) that a person has taken apart: they are suggested, and not confirmed again.
	undone map[string]bool
}

// grouping says that some lines and some entries belong together.
type grouping struct {
	rule      Rule
	outcome   Outcome
	confirmed bool
	// lines and entries are places in the solution.
	lines, entries []int
	// difference is what is open of the lines without that of the entries.
	difference decimal.Decimal
	note       string
}

// remark is what there is to say of an item beside its group, or without one.
type remark struct {
	outcome    Outcome
	note       string
	candidates []int // some of the other side
}

// solution is what came out. Its lines and entries are those of the problem, in order.
type solution struct {
	lines, entries []item
	groups         []grouping
	// ofLine and ofEntry have the group of each, from 1; 0 is none.
	ofLine, ofEntry []int
	// aboutLine and aboutEntry have the remarks. An open item with neither group nor remark is missing on the other side.
	aboutLine, aboutEntry map[int]remark
}

// maxCandidates is how many candidates are told of an item.
const maxCandidates = 5

// solver is a solution in the making.
type solver struct {
	solution
	settings Settings
	confirms map[Rule]bool
	undone   map[string]bool
	// names has the items by what they are known by, for names that some line has.
	names map[string]*bucket
	// order are the names in the order of the first line that has each: what is done name by name is done in it.
	order []string
	// amounts numbers the amounts that lines have open; lineAmount and entryAmount are the numbers of the items', -1 for one that no line has.
	amounts                 map[string]int
	lineAmount, entryAmount []int
}

// bucket has the items that share a name.
type bucket struct {
	lines, entries []named
	byAmount       map[int]*bucket
}

// named is an item, and what the name is to it.
type named struct {
	place int
	kind  nameKind
}

// solve matches.
func solve(p problem) *solution {
	s := &solver{settings: p.settings, undone: p.undone, confirms: map[Rule]bool{}, names: map[string]*bucket{}, amounts: map[string]int{}}
	for _, rule := range p.settings.Confirm {
		s.confirms[rule] = true
	}
	s.lines, s.entries = p.lines, p.entries
	slices.SortFunc(s.lines, compareItems)
	slices.SortFunc(s.entries, compareItems)
	s.ofLine, s.ofEntry = make([]int, len(s.lines)), make([]int, len(s.entries))
	s.aboutLine, s.aboutEntry = map[int]remark{}, map[int]remark{}
	s.index()

	s.opening()
	s.pairs(RuleReference, ownName, ownName)
	s.pairs(RuleReference, ownName, keyName)
	s.amountsDiffer()
	s.batches()
	s.pairs(RuleText, wordName, ownName|keyName)
	s.byAmount()
	s.parents()
	s.leftLines()
	s.leftEntries()
	return &s.solution
}

// index finds out which items share names and amounts.
func (s *solver) index() {
	amount := func(d decimal.Decimal) int {
		text := d.String()
		n, ok := s.amounts[text]
		if !ok {
			n = len(s.amounts)
			s.amounts[text] = n
		}
		return n
	}
	s.lineAmount = make([]int, len(s.lines))
	parents := map[int64]decimal.Decimal{}
	for i := range s.lines {
		line := &s.lines[i]
		s.lineAmount[i] = amount(line.amount)
		if !line.open.Equal(line.amount) && !line.open.IsZero() {
			s.lineAmount[i] = amount(line.open)
		}
		if line.parent != 0 {
			parents[line.parent] = parents[line.parent].Add(line.open)
		}
		for _, n := range line.names {
			b := s.names[n.text]
			if b == nil {
				b = &bucket{}
				s.names[n.text] = b
				s.order = append(s.order, n.text)
			}
			b.lines = append(b.lines, named{i, n.kind})
		}
	}
	for _, sum := range parents {
		amount(sum)
	}
	s.entryAmount = make([]int, len(s.entries))
	for i := range s.entries {
		entry := &s.entries[i]
		open := entry.open
		if open.IsZero() {
			open = entry.amount
		}
		n, ok := s.amounts[open.String()]
		if !ok {
			n = -1
		}
		s.entryAmount[i] = n
		for _, n := range entry.names {
			if b := s.names[n.text]; b != nil {
				b.entries = append(b.entries, named{i, n.kind})
			}
		}
	}
	s.order = slices.DeleteFunc(s.order, func(text string) bool { return len(s.names[text].entries) == 0 })
	// In which order a line has its names makes no difference.
	slices.SortFunc(s.order, func(a, b string) int {
		return cmp.Or(cmp.Compare(s.names[a].lines[0].place, s.names[b].lines[0].place), cmp.Compare(a, b))
	})
}

// of gives the items of the bucket with an amount.
func (b *bucket) of(s *solver, amount int) *bucket {
	if b.byAmount == nil {
		b.byAmount = map[int]*bucket{}
		at := func(n int) *bucket {
			if b.byAmount[n] == nil {
				b.byAmount[n] = &bucket{}
			}
			return b.byAmount[n]
		}
		for _, l := range b.lines {
			one := at(s.lineAmount[l.place])
			one.lines = append(one.lines, l)
		}
		for _, e := range b.entries {
			one := at(s.entryAmount[e.place])
			one.entries = append(one.entries, e)
		}
	}
	return b.byAmount[amount]
}

// isOpen reports whether an item can still be matched by a rule.
func isOpen(i *item, group int) bool { return group == 0 && !i.special && !i.open.IsZero() }

func (s *solver) lineOpen(i int) bool  { return isOpen(&s.lines[i], s.ofLine[i]) }
func (s *solver) entryOpen(i int) bool { return isOpen(&s.entries[i], s.ofEntry[i]) }

// near reports whether a line and an entry are near enough in time.
func (s *solver) near(line, entry int) bool {
	days := s.lines[line].day - s.entries[entry].day
	return days >= -s.settings.DaysBefore && days <= s.settings.DaysAfter
}

// group puts items together. It confirms what its rule confirms, but nothing that a person has taken apart, and nothing of which a person has matched
// a part.
func (s *solver) group(g grouping) {
	g.difference = sumOpen(s.lines, g.lines).Sub(sumOpen(s.entries, g.entries))
	slices.Sort(g.lines)
	slices.Sort(g.entries)
	g.confirmed = s.confirms[g.rule] && (g.outcome == Matched || g.outcome == MatchedWithDifference)
	for _, i := range g.lines {
		g.confirmed = g.confirmed && s.lines[i].untouched()
	}
	for _, i := range g.entries {
		g.confirmed = g.confirmed && s.entries[i].untouched()
	}
	if g.confirmed && len(s.undone) > 0 && s.undone[s.key(g.lines, g.entries)] {
		g.confirmed, g.note = false, "was matched before, and undone"
	}
	s.groups = append(s.groups, g)
	n := len(s.groups)
	for _, i := range g.lines {
		s.ofLine[i] = n
		delete(s.aboutLine, i)
	}
	for _, i := range g.entries {
		s.ofEntry[i] = n
		delete(s.aboutEntry, i)
	}
}

// key names a set of items.
func (s *solution) key(lines, entries []int) string {
	l, e := make([]int64, len(lines)), make([]entryKey, len(entries))
	for n, i := range lines {
		l[n] = s.lines[i].no
	}
	for n, i := range entries {
		e[n] = entryKey{s.entries[i].no, s.entries[i].leg}
	}
	return setKey(l, e)
}

// entryKey names an entry.
type entryKey struct {
	sequence int64
	leg      int16
}

// setKey names a set of lines and entries, in whatever order they come.
func setKey(lines []int64, entries []entryKey) string {
	parts := make([]string, 0, len(lines)+len(entries))
	for _, no := range lines {
		parts = append(parts, fmt.Sprintf("l%d", no))
	}
	for _, e := range entries {
		parts = append(parts, fmt.Sprintf("e%d.%d", e.sequence, e.leg))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}
