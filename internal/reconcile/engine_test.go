package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/internal/bankfile"
)

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// bankLine is a line such as "day amount reference…"; a reference that begins with "~" is a word of its text, one with "^" a batch's.
func bankLine(no int64, text string) item {
	i := entryItem(no, text)
	i.base = fmt.Sprintf("base%d", no)
	for n := range i.names {
		i.names[n].kind = ownName
		switch i.names[n].text[0] {
		case '~':
			i.names[n] = name{i.names[n].text[1:], wordName}
		case '^':
			i.names[n] = name{i.names[n].text[1:], batchName}
		}
	}
	return i
}

// entryItem is an entry such as "day amount transfer-id key-text…".
func entryItem(no int64, text string) item {
	fields := strings.Fields(text)
	i := item{no: no, amount: dec(fields[1]), traits: &traits{}}
	if _, err := fmt.Sscan(fields[0], &i.day); err != nil {
		panic(err)
	}
	i.open = i.amount
	for n, f := range fields[2:] {
		kind := keyName
		if n == 0 {
			kind = ownName
		}
		if f != "-" {
			i.names = append(i.names, name{fold(f), kind})
		}
	}
	return i
}

func newProblem(lines, entries []string) problem {
	p := problem{settings: DefaultSettings()}
	for n, l := range lines {
		p.lines = append(p.lines, bankLine(int64(n+1), l))
	}
	for n, e := range entries {
		p.entries = append(p.entries, entryItem(int64(n+1), e))
	}
	return p
}

// told writes a solution as text: a line for each group, and one for each remark, in an order of its own.
func told(s *solution) []string {
	var out []string
	names := func(items []item, side string, which []int) string {
		var parts []string
		for _, i := range which {
			parts = append(parts, fmt.Sprintf("%s%d", side, items[i].no))
		}
		return strings.Join(parts, "+")
	}
	for _, g := range s.groups {
		how := "suggested"
		if g.confirmed {
			how = "confirmed"
		}
		text := fmt.Sprintf("%s = %s: %s %s %s", names(s.lines, "L", g.lines), names(s.entries, "E", g.entries), how, g.rule, g.outcome)
		if !g.difference.IsZero() {
			text += " " + g.difference.String()
		}
		out = append(out, text)
	}
	for l := range s.lines {
		if r, ok := s.aboutLine[l]; ok {
			out = append(out, fmt.Sprintf("L%d: %s %s", s.lines[l].no, r.outcome, names(s.entries, "E", r.candidates)))
		}
	}
	for e := range s.entries {
		if r, ok := s.aboutEntry[e]; ok {
			out = append(out, fmt.Sprintf("E%d: %s %s", s.entries[e].no, r.outcome, names(s.lines, "L", r.candidates)))
		}
	}
	for n := range out {
		out[n] = strings.TrimSpace(out[n])
	}
	sort.Strings(out)
	return out
}

func TestSolve(t *testing.T) {
	t.Parallel()
	for title, c := range map[string]struct {
		lines, entries []string
		set            func(*Settings)
		change         func(*problem)
		want           []string
	}{
		"the id of the transfer": {
			lines: []string{"10 100 ORDER-7"}, entries: []string{"9 100 order-7", "9 100 order-8"},
			want: []string{"L1 = E1: confirmed reference matched"},
		},
		"1 is not 12": {
			lines: []string{"10 100 12", "50 100 112"}, entries: []string{"9 100 1", "50 100 2"},
			set:  func(s *Settings) { s.DaysBefore, s.DaysAfter = 0, 0 },
			want: []string{"L2 = E2: suggested amount matched"},
		},
		"a key of the metadata": {
			lines: []string{"10 100 INV-1"}, entries: []string{"9 100 t1 inv-1"},
			want: []string{"L1 = E1: confirmed reference matched"},
		},
		"off by a cent": {
			lines: []string{"10 100.01 r"}, entries: []string{"10 100 r"},
			want: []string{"L1 = E1: suggested reference amount_mismatch 0.01"},
		},
		"off by a cent that is tolerated": {
			lines: []string{"10 100.01 r"}, entries: []string{"10 100 r"},
			set:  func(s *Settings) { s.Tolerance = dec("0.01") },
			want: []string{"L1 = E1: confirmed reference matched_with_difference 0.01"},
		},
		"off by more than is tolerated": {
			lines: []string{"10 100.02 r"}, entries: []string{"10 100 r"},
			set:  func(s *Settings) { s.Tolerance = dec("0.01") },
			want: []string{"L1 = E1: suggested reference amount_mismatch 0.02"},
		},
		"off by a cent without a reference": {lines: []string{"10 100.01"}, entries: []string{"10 100 r"}},
		"the other direction":               {lines: []string{"10 100 r"}, entries: []string{"10 -100 r"}},
		"the bank is four days after the books": {
			lines: []string{"14 100 r"}, entries: []string{"10 100 r"},
			want: []string{"L1 = E1: suggested reference date_mismatch"},
		},
		"the bank is four days after, without a reference": {lines: []string{"14 100"}, entries: []string{"10 100 r"}},
		"the bank is three days after": {
			lines: []string{"13 100"}, entries: []string{"10 100 r"},
			want: []string{"L1 = E1: suggested amount matched"},
		},
		"the bank is a day before": {
			lines: []string{"9 100"}, entries: []string{"10 100 r"},
			want: []string{"L1 = E1: suggested amount matched"},
		},
		"the bank is two days before": {lines: []string{"8 100"}, entries: []string{"10 100 r"}},
		"by amount, confirmed": {
			lines: []string{"10 100"}, entries: []string{"10 100 r"},
			set:  func(s *Settings) { s.Confirm = append(s.Confirm, RuleAmount) },
			want: []string{"L1 = E1: confirmed amount matched"},
		},
		"two entries may be it": {
			lines: []string{"10 100"}, entries: []string{"10 100 a", "11 100 b"},
			set:  func(s *Settings) { s.Confirm = append(s.Confirm, RuleAmount) },
			want: []string{"E1: ambiguous L1", "E2: ambiguous L1", "L1: ambiguous E1+E2"},
		},
		"two lines may be it": {
			lines: []string{"10 100", "11 100"}, entries: []string{"10 100 a"},
			set:  func(s *Settings) { s.Confirm = append(s.Confirm, RuleAmount) },
			want: []string{"E1: ambiguous L1+L2", "L1: ambiguous E1", "L2: ambiguous E1"},
		},
		"the same every month": {
			lines: []string{"10 100 RENT", "40 100 RENT", "70 100 RENT"}, entries: []string{"9 100 a rent", "40 100 b rent", "69 100 c rent"},
			want: []string{"L1 = E1: confirmed reference matched", "L2 = E2: confirmed reference matched", "L3 = E3: confirmed reference matched"},
		},
		"the same twice on a day, on both sides": {
			lines: []string{"10 100 RENT", "10 100 RENT"}, entries: []string{"10 100 a rent", "10 100 b rent"},
			want: []string{"L1+L2 = E1+E2: suggested batch ambiguous"},
		},
		"a duplicate at the bank": {
			lines: []string{"10 100 r", "11 100 r"}, entries: []string{"10 100 r"},
			want: []string{"E1: ambiguous L1+L2", "L1 = E1: suggested reference ambiguous", "L1: duplicate_bank_line E1", "L2: duplicate_bank_line E1"},
		},
		"a duplicate at the bank of what is matched": {
			lines: []string{"10 100 r", "11 100 r"}, entries: []string{"10 100 r"},
			change: func(p *problem) { p.lines[0].open, p.entries[0].open = decimal.Zero, decimal.Zero },
			want:   []string{"L2: duplicate_bank_line"},
		},
		"the same a month later is no duplicate": {
			lines: []string{"10 100 r", "40 100 r"}, entries: []string{"10 100 r"},
			want: []string{"L1 = E1: confirmed reference matched"},
		},
		"a duplicate in the books": {
			lines: []string{"10 100 order-1"}, entries: []string{"10 100 a order-1", "10 100 b order-1"},
			want: []string{"E1: duplicate_ledger_entry L1", "E2: duplicate_ledger_entry L1", "L1 = E1: suggested reference ambiguous", "L1: ambiguous E1+E2"},
		},
		"the same line twice, word for word": {
			lines: []string{"10 100", "10 100"}, entries: []string{"10 100 a"},
			change: func(p *problem) { p.lines[0].base, p.lines[1].base = "b", "b" },
			want:   []string{"E1: ambiguous L1+L2", "L1 = E1: suggested amount ambiguous", "L1: duplicate_bank_line E1", "L2: duplicate_bank_line E1"},
		},
		"a payout of many": {
			lines: []string{"20 270 po_1"}, entries: []string{"10 100 a po_1", "12 200 b po_1", "19 -30 fee po_1", "12 1000 d po_2"},
			want: []string{"L1 = E1+E2+E3: confirmed batch matched"},
		},
		"a payout without its fee": {
			lines: []string{"20 270 po_1"}, entries: []string{"10 100 a po_1", "12 200 b po_1"},
			want: []string{"L1 = E1+E2: suggested batch amount_mismatch -30"},
		},
		"a payout with an item dated after it": {
			lines: []string{"20 300 po_1"}, entries: []string{"10 100 a po_1", "25 200 b po_1"},
			want: []string{"L1 = E1+E2: suggested batch date_mismatch"},
		},
		"a batch that the books have as one": {
			lines: []string{"20 30 x1 ^B7", "20 70 x2 ^B7"}, entries: []string{"19 100 b7"},
			want: []string{"L1+L2 = E1: confirmed batch matched"},
		},
		"a batch that the books have as one, without a reference": {
			lines: []string{"20 30 x1", "20 70 x2"}, entries: []string{"19 100 b7"},
			change: func(p *problem) { p.lines[0].parent, p.lines[1].parent = 9, 9 },
			want:   []string{"L1+L2 = E1: suggested amount matched"},
		},
		"the details of a batch one by one": {
			lines: []string{"20 30 x1 ^B7", "20 70 x2 ^B7"}, entries: []string{"19 30 x1", "19 70 x2"},
			want: []string{"L1 = E1: confirmed reference matched", "L2 = E2: confirmed reference matched"},
		},
		"a payout whose name is in the text": {
			lines: []string{"20 270 ~po_777"}, entries: []string{"10 100 a po_777", "12 200 b po_777", "19 -30 fee po_777"},
			want: []string{"L1 = E1+E2+E3: suggested text matched"},
		},
		"a word of the text, and another sum": {lines: []string{"20 271 ~po_777"}, entries: []string{"10 100 a po_777", "12 200 b po_777"}},
		"in two batches": {
			lines: []string{"20 30 p1", "20 70 p2"}, entries: []string{"19 10 a p1 p2", "19 20 b p1", "19 60 c p2"},
			want: []string{"E1: ambiguous L2", "E2: ambiguous L1", "E3: ambiguous L2", "L1: ambiguous E1+E2", "L2: ambiguous E1+E3"},
		},
		"a word of the text": {
			lines: []string{"10 100 ~ORDER-77"}, entries: []string{"10 100 order-77", "10 100 other"},
			want: []string{"L1 = E1: suggested text matched"},
		},
		"a part of it is matched": {
			lines: []string{"10 100 r", "10 50 s"}, entries: []string{"10 60 r", "10 50 q"},
			change: func(p *problem) {
				p.lines[0].open, p.lines[1].open, p.entries[1].open = dec("60"), dec("20"), dec("30")
			},
			want: []string{"E2: partially_matched", "L1 = E1: suggested reference matched", "L2: partially_matched"},
		},
		"what was undone is not confirmed again": {
			lines: []string{"10 100 r", "10 50 s"}, entries: []string{"10 100 r", "10 50 s"},
			change: func(p *problem) { p.undone = map[string]bool{setKey([]int64{1}, []entryKey{{1, 0}}): true} },
			want:   []string{"L1 = E1: suggested reference matched", "L2 = E2: confirmed reference matched"},
		},
		"the opening balance is what the books had": {
			lines: []string{"10 70 -", "10 5 a"}, entries: []string{"3 100 x", "9 -30 y", "10 5 a"},
			change: func(p *problem) { p.lines[0].special = true },
			want:   []string{"L1 = E1+E2: confirmed opening matched", "L2 = E3: confirmed reference matched"},
		},
		"the opening balance is what was brought forward": {
			lines: []string{"10 70 -"}, entries: []string{"1 70 -", "10 70 y"},
			change: func(p *problem) { p.lines[0].special, p.entries[0].special, p.entries[0].no = true, true, 0 },
			want:   []string{"L1 = E0: confirmed opening matched"},
		},
		"the opening balance is another": {
			lines: []string{"10 70 -"}, entries: []string{"9 70.01 y"},
			change: func(p *problem) { p.lines[0].special = true },
		},
	} {
		t.Run(title, func(t *testing.T) {
			p := newProblem(c.lines, c.entries)
			if c.set != nil {
				c.set(&p.settings)
			}
			if c.change != nil {
				c.change(&p)
			}
			if diff := cmp.Diff(c.want, told(solve(p))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// anyProblem draws lines and entries that have much in common.
func anyProblem(t *rapid.T) problem {
	p := problem{settings: DefaultSettings()}
	p.settings.Tolerance = rapid.SampledFrom([]decimal.Decimal{decimal.Zero, dec("1")}).Draw(t, "tolerance")
	p.settings.Confirm = rapid.SampledFrom([][]Rule{DefaultSettings().Confirm, automatic}).Draw(t, "confirm")
	texts := rapid.SampledFrom([]string{"A", "B", "C", "1", "12", "ORDER-1"})
	amounts := rapid.SampledFrom([]string{"1", "2", "3", "5", "-1", "-2", "4.99"})
	draw := func(no int64, kinds []nameKind) item {
		i := item{no: no, day: rapid.IntRange(0, 12).Draw(t, "day"), amount: dec(amounts.Draw(t, "amount")), traits: &traits{}}
		i.open = i.amount
		switch rapid.IntRange(0, 9).Draw(t, "state") {
		case 0:
			i.open = decimal.Zero
		case 1:
			i.open = i.amount.Div(dec("2"))
		}
		for range rapid.IntRange(0, 3).Draw(t, "names") {
			n := name{texts.Draw(t, "name"), rapid.SampledFrom(kinds).Draw(t, "kind")}
			if !slices.ContainsFunc(i.names, func(m name) bool { return m.text == n.text }) {
				i.names = append(i.names, n)
			}
		}
		return i
	}
	for n := range rapid.IntRange(0, 9).Draw(t, "lines") {
		l := draw(int64(n+1), []nameKind{ownName, batchName, wordName})
		l.base = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "base")
		l.parent = rapid.SampledFrom([]int64{0, 0, 0, 100, 200}).Draw(t, "parent")
		l.special = n == 0 && rapid.Bool().Draw(t, "special")
		p.lines = append(p.lines, l)
	}
	for n := range rapid.IntRange(0, 9).Draw(t, "entries") {
		p.entries = append(p.entries, draw(int64(n+1), []nameKind{ownName, keyName}))
	}
	return p
}

func (p problem) clone() problem {
	p.lines, p.entries = slices.Clone(p.lines), slices.Clone(p.entries)
	return p
}

// TestSolve_OrderMakesNoDifference permutes what is given.
func TestSolve_OrderMakesNoDifference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		want := told(solve(p.clone()))
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		for range 3 {
			q := p.clone()
			random.Shuffle(len(q.lines), func(i, k int) { q.lines[i], q.lines[k] = q.lines[k], q.lines[i] })
			random.Shuffle(len(q.entries), func(i, k int) { q.entries[i], q.entries[k] = q.entries[k], q.entries[i] })
			for i := range q.lines {
				own := *q.lines[i].traits
				own.names = slices.Clone(own.names)
				q.lines[i].traits = &own
				random.Shuffle(len(q.lines[i].names), func(a, b int) {
					n := q.lines[i].names
					n[a], n[b] = n[b], n[a]
				})
			}
			if diff := cmp.Diff(want, told(solve(q))); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// TestSolve_Holds looks at what must hold whatever is matched.
func TestSolve_Holds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := anyProblem(t)
		s := solve(p.clone())
		usedLine, usedEntry := map[int]bool{}, map[int]bool{}
		for n, g := range s.groups {
			for _, l := range g.lines {
				if usedLine[l] || s.ofLine[l] != n+1 || s.lines[l].open.IsZero() {
					t.Fatalf("line %d is taken twice, or was settled", s.lines[l].no)
				}
				usedLine[l] = true
			}
			for _, e := range g.entries {
				if usedEntry[e] || s.ofEntry[e] != n+1 || s.entries[e].open.IsZero() {
					t.Fatalf("entry %d is taken twice, or was settled", s.entries[e].no)
				}
				usedEntry[e] = true
			}
			if !sumOpen(s.lines, g.lines).Sub(sumOpen(s.entries, g.entries)).Equal(g.difference) {
				t.Fatalf("the difference of %+v is another", g)
			}
			if !g.confirmed {
				continue
			}
			if g.difference.Abs().GreaterThan(p.settings.Tolerance) || g.difference.IsZero() != (g.outcome == Matched) {
				t.Fatalf("%+v is confirmed", g)
			}
			if len(g.lines) == 1 && len(g.entries) == 1 {
				mustBeAlone(t, s, g)
			}
		}
		for l := range s.lines {
			if s.ofLine[l] != 0 != usedLine[l] {
				t.Fatalf("line %d is in a group that does not have it", s.lines[l].no)
			}
		}
	})
}

// mustBeAlone fails if a pair that is confirmed by its reference was not the only one of its kind. It is looked for in the simplest way.
func mustBeAlone(t *rapid.T, s *solution, g grouping) {
	if g.rule != RuleReference || g.outcome != Matched {
		return
	}
	own := func(l, e int) bool {
		for _, a := range s.lines[l].names {
			for _, b := range s.entries[e].names {
				if a.text == b.text && a.kind == ownName && b.kind == ownName {
					return true
				}
			}
		}
		return false
	}
	like := func(l, e int) bool {
		days := s.lines[l].day - s.entries[e].day
		return own(l, e) && s.lines[l].open.Equal(s.entries[e].open) && days >= -1 && days <= 3 && !s.lines[l].special && !s.lines[l].open.IsZero()
	}
	l, e := g.lines[0], g.entries[0]
	if !like(l, e) {
		return // By a key of the metadata: after those by id have been taken.
	}
	for other := range s.entries {
		if other != e && like(l, other) {
			t.Fatalf("line %d is confirmed with entry %d, and might be entry %d", s.lines[l].no, s.entries[e].no, s.entries[other].no)
		}
	}
	for other := range s.lines {
		if other != l && like(other, e) {
			t.Fatalf("entry %d is confirmed with line %d, and might be line %d", s.entries[e].no, s.lines[l].no, s.lines[other].no)
		}
	}
}

func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"":                                      nil,
		"RENT MAY":                              nil,
		"paid on 1 May for 12":                  nil,
		"REF:ORDER-77, thanks":                  {"REF:ORDER-77", "ORDER-77"},
		"ID IPH: XX000000000001; TNR: 1790.001": {"XX000000000001", "1790.001"},
		"(INV-2026/77)":                         {"INV-2026/77", "INV-2026"},
	} {
		if diff := cmp.Diff(want, words(text)); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestLineNames(t *testing.T) {
	t.Parallel()
	got := lineNames(bankfile.References{EndToEnd: "e2e", Batch: "b"}, "x", "for order-77", &bankfile.References{Bank: "parent", EndToEnd: "E2E"}, "")
	want := []name{{"X", ownName}, {"E2E", ownName}, {"B", batchName}, {"PARENT", batchName}, {"ORDER-77", wordName}}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(name{})); diff != "" {
		t.Error(diff)
	}
}
