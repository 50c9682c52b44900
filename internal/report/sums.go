package report

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// maxDepth is how many parts of an id can be told apart.
const maxDepth = 16

// sums is what accounts of one currency come to together. Balances are a debit positive.
type sums struct {
	currency                          ledger.Currency
	opening, debits, credits, closing decimal.Decimal
	// Those with a balance on the debit side count here, so that the two sides of a total can be compared.
	openingDebit, closingDebit decimal.Decimal
	accounts                   int
}

func (s *sums) add(a *journal.PeriodAccount) {
	s.currency = a.Currency
	s.opening = s.opening.Add(a.Opening)
	s.debits = s.debits.Add(a.Debits)
	s.credits = s.credits.Add(a.Credits)
	s.closing = s.closing.Add(a.Closing)
	if a.Opening.IsPositive() {
		s.openingDebit = s.openingDebit.Add(a.Opening)
	}
	if a.Closing.IsPositive() {
		s.closingDebit = s.closingDebit.Add(a.Closing)
	}
	s.accounts++
}

// change is what the period has changed.
func (s *sums) change() decimal.Decimal { return s.debits.Sub(s.credits) }

// byCurrency is what accounts come to, currency by currency.
type byCurrency map[ledger.CurrencyCode]*sums

func (b byCurrency) add(a *journal.PeriodAccount) {
	s := b[a.Currency.Code]
	if s == nil {
		s = &sums{}
		b[a.Currency.Code] = s
	}
	s.add(a)
}

// list gives them in the order of the currencies' codes.
func (b byCurrency) list() []*sums {
	list := make([]*sums, 0, len(b))
	for _, code := range slices.Sorted(maps.Keys(b)) {
		list = append(list, b[code])
	}
	return list
}

// groups are accounts taken together by the first parts of their ids.
type groups struct {
	depth  int
	byPath map[string]*grouped
	most   int
}

// grouped is what accounts of one path come to: all of them, and those whose id is the path itself.
type grouped struct{ all, own byCurrency }

func newGroups(depth, most int) *groups {
	return &groups{depth: depth, most: most, byPath: map[string]*grouped{}}
}

// add adds an account to its group, and to all groups above that. It returns CodeInvalidArgument if there are too many.
func (g *groups) add(a *journal.PeriodAccount) error {
	parts := strings.Split(string(a.ID), ":")
	for n := min(g.depth, len(parts)); n > 0; n-- {
		path := strings.Join(parts[:n], ":")
		group := g.byPath[path]
		if group == nil {
			if len(g.byPath) >= g.most {
				return ledger.Invalid("depth", "%d gives more than %d groups: give less, or a prefix", g.depth, g.most)
			}
			group = &grouped{all: byCurrency{}, own: byCurrency{}}
			g.byPath[path] = group
		}
		group.all.add(a)
		if n == len(parts) {
			group.own.add(a)
		}
	}
	return nil
}

// group is what is to be shown of one: itself, and whether others are below it.
type group struct {
	path  string
	depth int // from 0
	inner bool
	sums  byCurrency
}

// list gives the groups in the order of a chart of accounts, each after those below it. An account that has others below it is one of them too: so
// those that have none below them come to the totals.
func (g *groups) list() []group {
	paths := slices.Collect(maps.Keys(g.byPath))
	split := make(map[string][]string, len(paths))
	for _, path := range paths {
		split[path] = strings.Split(path, ":")
	}
	slices.SortFunc(paths, func(x, y string) int {
		a, b := split[x], split[y]
		for i := range min(len(a), len(b)) {
			if c := cmp.Compare(a[i], b[i]); c != 0 {
				return c
			}
		}
		return cmp.Compare(len(b), len(a)) // What sums others up comes after them.
	})
	list := make([]group, 0, len(paths))
	for i, path := range paths {
		of := g.byPath[path]
		inner := i > 0 && strings.HasPrefix(paths[i-1], path+":")
		if inner && len(of.own) > 0 {
			list = append(list, group{path: path, depth: len(split[path]), sums: of.own})
		}
		list = append(list, group{path: path, depth: len(split[path]) - 1, inner: inner, sums: of.all})
	}
	return list
}
