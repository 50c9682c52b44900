package reconcile

import (
	"fmt"
	"slices"

	"github.com/shopspring/decimal"
)

// maxBatch is how many items of a batch are added up.
const maxBatch = 50_000

// batch is what shares a name, and may be one movement on one side and several on the other.
type batch struct {
	lines, entries []int
	difference     decimal.Decimal
	// byWord says that a line has the name in its text only.
	byWord bool
}

// batches matches a line with several entries, or several lines with an entry, that share a name and come to the same. Where they do not, what they
// differ by is told; it may be a fee that the books do not have yet.
func (s *solver) batches() {
	var exact, inexact, mixed []batch
	for _, text := range s.order {
		b, ok := s.batchOf(text)
		switch {
		case !ok:
		case len(b.lines) > 1 && len(b.entries) > 1:
			if b.difference.IsZero() && !b.byWord {
				mixed = append(mixed, b)
			}
		case b.difference.Abs().LessThanOrEqual(s.settings.Tolerance):
			exact = append(exact, b)
		case b.byWord: // A word may be anything; that the sums agree is what makes it a name.
		default:
			inexact = append(inexact, b)
		}
	}
	s.takeBatches(exact, func(b batch) grouping {
		switch {
		case !s.inTime(b):
			return grouping{outcome: DateMismatch, note: "an item of the batch is dated after it"}
		case !b.difference.IsZero():
			return grouping{outcome: MatchedWithDifference}
		}
		return grouping{outcome: Matched}
	})
	s.takeBatches(s.stillOpen(inexact), func(b batch) grouping {
		return grouping{outcome: AmountMismatch, note: fmt.Sprintf("%d lines and %d entries of one batch differ by %s", len(b.lines), len(b.entries),
			b.difference)}
	})
	s.takeBatches(s.stillOpen(mixed), func(b batch) grouping {
		return grouping{outcome: Ambiguous, note: fmt.Sprintf("%d lines and %d entries of one reference come to the same", len(b.lines), len(b.entries))}
	})
}

// batchOf gives what is open of a name, if it may be a batch.
func (s *solver) batchOf(text string) (batch, bool) {
	var b batch
	shared := s.names[text]
	if len(shared.lines)+len(shared.entries) > maxBatch {
		return b, false
	}
	for _, l := range shared.lines {
		if s.lineOpen(l.place) {
			b.lines = append(b.lines, l.place)
			b.byWord = b.byWord || l.kind == wordName
		}
	}
	for _, e := range shared.entries {
		if s.entryOpen(e.place) {
			b.entries = append(b.entries, e.place)
		}
	}
	if len(b.lines) == 0 || len(b.entries) == 0 || len(b.lines)+len(b.entries) < 3 {
		return b, false
	}
	lines, entries := sumOpen(s.lines, b.lines), sumOpen(s.entries, b.entries)
	b.difference = lines.Sub(entries)
	return b, lines.Sign() != 0 && lines.Sign() == entries.Sign()
}

// stillOpen finds out again what is left of batches, after others have been taken.
func (s *solver) stillOpen(list []batch) []batch {
	return slices.DeleteFunc(list, func(b batch) bool {
		return slices.ContainsFunc(b.lines, func(l int) bool { return !s.lineOpen(l) }) ||
			slices.ContainsFunc(b.entries, func(e int) bool { return !s.entryOpen(e) })
	})
}

// takeBatches groups batches. Those that share an item with another one are ambiguous, unless they are the same batch under two names.
func (s *solver) takeBatches(list []batch, judge func(batch) grouping) {
	ofLine, ofEntry := map[int]int{}, map[int]int{}
	var distinct []batch
	seen := map[string]bool{}
	for _, b := range list {
		key := fmt.Sprint(b.lines, b.entries)
		if seen[key] {
			continue
		}
		seen[key] = true
		distinct = append(distinct, b)
		for _, l := range b.lines {
			ofLine[l]++
		}
		for _, e := range b.entries {
			ofEntry[e]++
		}
	}
	for _, b := range distinct {
		shared := slices.ContainsFunc(b.lines, func(l int) bool { return ofLine[l] > 1 }) ||
			slices.ContainsFunc(b.entries, func(e int) bool { return ofEntry[e] > 1 })
		if !shared {
			g := judge(b)
			if g.rule, g.lines, g.entries = RuleBatch, b.lines, b.entries; b.byWord {
				g.rule = RuleText
			}
			s.group(g)
			continue
		}
		const note = "it is in two batches or more"
		for _, l := range b.lines {
			s.aboutLine[l] = remark{Ambiguous, note, atMost(b.entries)}
		}
		for _, e := range b.entries {
			s.aboutEntry[e] = remark{Ambiguous, note, atMost(b.lines)}
		}
	}
}

// inTime reports whether no entry of a batch is dated so late that it cannot be in it. They may be older than it: it is what has gathered.
func (s *solver) inTime(b batch) bool {
	last := s.lines[slices.Max(b.lines)].day
	return s.entries[slices.Max(b.entries)].day-last <= s.settings.DaysBefore
}

// opening matches the balance with which the bank begins: with the balance that was brought forward in the books, or with all entries until then.
func (s *solver) opening() {
	line := slices.IndexFunc(s.lines, func(i item) bool { return i.special && !i.open.IsZero() })
	if line < 0 {
		return
	}
	day := s.lines[line].day
	if forward := slices.IndexFunc(s.entries, func(i item) bool { return i.no == 0 }); forward >= 0 {
		if s.entries[forward].open.Equal(s.lines[line].open) {
			s.group(grouping{rule: RuleOpening, outcome: Matched, lines: []int{line}, entries: []int{forward}})
		}
		return
	}
	const most = 1000 // so that nobody has to look through more
	// The opening balance is that of the morning, or of the evening before.
	for _, until := range []int{day - 1, day} {
		var before []int
		for e := range s.entries {
			if s.entries[e].day > until || len(before) > most {
				break
			}
			if s.entryOpen(e) {
				before = append(before, e)
			}
		}
		if len(before) > 0 && len(before) <= most && sumOpen(s.entries, before).Equal(s.lines[line].open) {
			s.group(grouping{rule: RuleOpening, outcome: Matched, lines: []int{line}, entries: before})
			return
		}
	}
}
