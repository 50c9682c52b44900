package reconcile

import (
	"fmt"
	"slices"
	"sort"
)

// dated are items of one amount, in the order of their days.
type dated struct{ lines, entries []int }

// between gives those items whose days lie between two.
func between(items []item, places []int, first, last int) []int {
	from := sort.Search(len(places), func(n int) bool { return items[places[n]].day >= first })
	to := sort.Search(len(places), func(n int) bool { return items[places[n]].day > last })
	if from >= to {
		return nil
	}
	return places[from:to]
}

// byDate gives what is open and not remarked on, amount by amount, in the order of the first line of each.
func (s *solver) byDate() []*dated {
	lists := make([]*dated, len(s.amounts))
	var order []*dated
	for place := range s.lines {
		if !s.lineOpen(place) || s.aboutLine[place].outcome != "" {
			continue
		}
		n := s.lineAmount[place]
		if lists[n] == nil {
			lists[n] = &dated{}
			order = append(order, lists[n])
		}
		lists[n].lines = append(lists[n].lines, place)
	}
	for place := range s.entries {
		if n := s.entryAmount[place]; n >= 0 && lists[n] != nil && s.entryOpen(place) && s.aboutEntry[place].outcome == "" {
			lists[n].entries = append(lists[n].entries, place)
		}
	}
	return order
}

func (s *solver) entriesNear(d *dated, line int) []int {
	day := s.lines[line].day
	return between(s.entries, d.entries, day-s.settings.DaysAfter, day+s.settings.DaysBefore)
}

func (s *solver) linesNear(d *dated, entry int) []int {
	day := s.entries[entry].day
	return between(s.lines, d.lines, day-s.settings.DaysBefore, day+s.settings.DaysAfter)
}

// byAmount matches what has the same amount and direction, and dates that are near, where that is so of one line and one entry only.
func (s *solver) byAmount() {
	for _, d := range s.byDate() {
		// All pairs are found before the first is made: one that is only left over by another is not certain.
		var pairs [][2]int
		for _, l := range d.lines {
			if entries := s.entriesNear(d, l); len(entries) == 1 && len(s.linesNear(d, entries[0])) == 1 {
				pairs = append(pairs, [2]int{l, entries[0]})
			}
		}
		for _, p := range pairs {
			s.group(grouping{rule: RuleAmount, outcome: Matched, lines: []int{p[0]}, entries: []int{p[1]}})
		}
		s.alike(d)
		for _, l := range d.lines {
			if entries := s.entriesNear(d, l); s.lineOpen(l) && s.aboutLine[l].outcome == "" && len(entries) > 0 {
				s.aboutLine[l] = remark{Ambiguous, fmt.Sprintf("%d entries near in time have the same amount", len(entries)), atMost(entries)}
			}
		}
		for _, e := range d.entries {
			if lines := s.linesNear(d, e); s.entryOpen(e) && s.aboutEntry[e].outcome == "" && len(lines) > 0 {
				s.aboutEntry[e] = remark{Ambiguous, fmt.Sprintf("%d lines near in time have the same amount", len(lines)), atMost(lines)}
			}
		}
	}
}

// alike looks for lines that are the same word for word, more of them than there are entries for them: the bank may have booked one twice.
func (s *solver) alike(d *dated) {
	for _, e := range d.entries {
		lines := s.linesNear(d, e)
		if len(lines) < 2 || len(lines) > maxOptions || !s.entryOpen(e) {
			continue
		}
		base := s.lines[lines[0]].base
		if base == "" || slices.ContainsFunc(lines, func(l int) bool {
			return s.lines[l].base != base || !s.lineOpen(l) || len(s.entriesNear(d, l)) != 1
		}) {
			continue
		}
		s.surplusLines(RuleAmount, lines, e, "the bank has this line %d times, word for word, and the books have it once")
	}
}

// parents matches a batch that the books have as one entry with all its details, by amount and date.
func (s *solver) parents() {
	type family struct {
		details []int
		entries []int
	}
	families := map[int64]*family{}
	var order []*family
	for l := range s.lines {
		if no := s.lines[l].parent; no != 0 {
			if families[no] == nil {
				families[no] = &family{}
				order = append(order, families[no])
			}
			families[no].details = append(families[no].details, l)
		}
	}
	if len(order) == 0 {
		return
	}
	byAmount := map[int][]int{}
	for place := range s.entries {
		if n := s.entryAmount[place]; n >= 0 && s.entryOpen(place) && s.aboutEntry[place].outcome == "" {
			byAmount[n] = append(byAmount[n], place)
		}
	}
	wanted := map[int]int{}
	for _, f := range order {
		if len(f.details) < 2 || slices.ContainsFunc(f.details, func(l int) bool { return !s.lineOpen(l) || s.aboutLine[l].outcome != "" }) {
			continue
		}
		n := s.amounts[sumOpen(s.lines, f.details).String()]
		day := s.lines[f.details[0]].day
		f.entries = between(s.entries, byAmount[n], day-s.settings.DaysAfter, day+s.settings.DaysBefore)
		for _, e := range f.entries {
			wanted[e]++
		}
	}
	for _, f := range order {
		switch {
		case len(f.entries) == 1 && wanted[f.entries[0]] == 1:
			s.group(grouping{rule: RuleAmount, outcome: Matched, lines: f.details, entries: slices.Clone(f.entries), note: "all details of one batch"})
		case len(f.entries) > 0:
			for _, l := range f.details {
				s.aboutLine[l] = remark{Ambiguous, fmt.Sprintf("%d entries near in time have the amount of its batch", len(f.entries)), atMost(f.entries)}
			}
		}
	}
}

// duplicateDays is how near in time a duplicate is: what comes again after a month is another movement.
const duplicateDays = 7

// leftLines says of lines that are left whether they are like others that are not.
func (s *solver) leftLines() {
	byBase := map[string][]int{}
	for l := range s.lines {
		if base := s.lines[l].base; base != "" {
			byBase[base] = append(byBase[base], l)
		}
	}
	for place := range s.lines {
		line := &s.lines[place]
		if !s.lineOpen(place) || s.aboutLine[place].outcome != "" {
			continue
		}
		if !line.untouched() {
			s.aboutLine[place] = remark{outcome: PartiallyMatched}
			continue
		}
		twin := func(other int) bool { return other != place && s.settled(&s.lines[other], s.ofLine[other], line.day) }
		if slices.ContainsFunc(byBase[line.base], twin) {
			s.aboutLine[place] = remark{outcome: DuplicateBankLine, note: "the bank has it twice, word for word, and the books have it once"}
			continue
		}
		for _, n := range line.names {
			if n.kind != ownName {
				continue
			}
			b := s.names[n.text].of(s, s.lineAmount[place])
			if slices.ContainsFunc(b.lines, func(other named) bool { return other.kind == ownName && twin(other.place) }) {
				s.aboutLine[place] = remark{outcome: DuplicateBankLine, note: "the bank has its reference and amount twice, and the books have it once"}
				break
			}
		}
	}
}

// settled reports whether an item has been matched, or is going to be, and lies near a day.
func (s *solver) settled(i *item, group, day int) bool {
	days := i.day - day
	return !i.special && (i.open.IsZero() || group != 0) && days <= duplicateDays && days >= -duplicateDays
}

// leftEntries is leftLines for the entries.
func (s *solver) leftEntries() {
	for place := range s.entries {
		entry := &s.entries[place]
		if !s.entryOpen(place) || s.aboutEntry[place].outcome != "" {
			continue
		}
		if !entry.untouched() {
			s.aboutEntry[place] = remark{outcome: PartiallyMatched}
			continue
		}
		for _, n := range entry.names {
			if n.kind != keyName {
				continue
			}
			b := s.names[n.text]
			if b == nil { // Entries may have names that no line has.
				continue
			}
			b = b.of(s, s.entryAmount[place])
			if slices.ContainsFunc(b.entries, func(other named) bool {
				// Amounts that no line has are together in one bucket.
				return other.kind == keyName && other.place != place && s.entries[other.place].amount.Equal(entry.amount) && s.settled(&s.entries[other.place], s.ofEntry[other.place], entry.day)
			}) {
				s.aboutEntry[place] = remark{outcome: DuplicateLedgerEntry, note: "the books have its reference and amount twice, and the bank has it once"}
				break
			}
		}
	}
}
