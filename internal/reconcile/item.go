package reconcile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// item is a line of the bank, or an entry of the books, as the matching looks at it. Amounts of both are positive where they are in the account
// holder's favour.
type item struct {
	// no is the number of the line, or the sequence of the entry; leg is the entry's.
	no  int64
	leg int16
	// special is a line that is the bank's opening balance, or an entry that is the balance brought forward, or posts a difference. Only a rule of its
	// own, or a person, matches it.
	special bool
	day     int
	// amount is all of it, and open what no match has taken.
	amount, open decimal.Decimal
	*traits
}

// traits are what most entries have none of, and so share.
type traits struct {
	names []name
	// parent is the line of which a line is a detail, or 0; base is its identity without the number of its occurrence.
	parent int64
	base   string
}

var noTraits = &traits{}

func (i *item) untouched() bool { return i.open.Equal(i.amount) }

// name is something that an item is known by, with its letters in upper case: banks change that.
type name struct {
	text string
	kind nameKind
}

type nameKind uint8

const (
	// ownName is the id of an entry's transfer, or a reference that a line has in a field of its own.
	ownName nameKind = 1 << iota
	// keyName is a text of the metadata of an entry's transfer.
	keyName
	// batchName is that of the batch of which a line is a part.
	batchName
	// wordName is a word of a line's description.
	wordName
)

func fold(text string) string { return strings.ToUpper(strings.TrimSpace(text)) }

// lineNames gives the names of a line. A detail has those of its line, too, which are the batch's.
func lineNames(refs bankfile.References, externalID, description string, parent *bankfile.References, parentID string) []name {
	var names []name
	add := func(kind nameKind, texts ...string) {
		for _, text := range texts {
			text = fold(text)
			if text != "" && !slices.ContainsFunc(names, func(n name) bool { return n.text == text }) {
				names = append(names, name{text, kind})
			}
		}
	}
	own := func(r bankfile.References, id string) []string {
		return []string{id, r.EndToEnd, r.Bank, r.Customer, r.Instruction, r.Transaction, r.Creditor, r.Source, r.Cheque}
	}
	add(ownName, own(refs, externalID)...)
	add(batchName, refs.Batch)
	if parent != nil {
		add(batchName, own(*parent, parentID)...)
		add(batchName, parent.Batch)
	}
	add(wordName, words(description)...)
	return names
}

const (
	// minWord is how long a word of a text must be to be taken for a reference, and maxWords how many a text may have. A number of a few digits is a
	// date or an amount as often as not.
	minWord  = 6
	maxWords = 32
)

// words gives the words of a text that may be references: whole ones, and their parts between the marks that banks put between a label and a value.
func words(text string) []string {
	var list []string
	add := func(word string) {
		word = strings.Trim(word, ".,:;-/=?+()[]{}<>\"'|#*")
		if len(word) >= minWord && len(list) < maxWords && strings.ContainsAny(word, "0123456789") {
			list = append(list, word)
		}
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" ,;()[]{}<>\"|", r) }) {
		add(word)
		if parts := strings.FieldsFunc(word, func(r rune) bool { return strings.ContainsRune(":/=?+", r) }); len(parts) > 1 {
			for _, part := range parts {
				add(part)
			}
		}
	}
	return list
}

// compareItems puts items in an order that does not depend on where they come from.
func compareItems(a, b item) int {
	return cmp.Or(cmp.Compare(a.day, b.day), cmp.Compare(a.no, b.no), cmp.Compare(a.leg, b.leg))
}

// sumOpen adds up what is open of some items.
func sumOpen(items []item, which []int) decimal.Decimal {
	sum := decimal.Zero
	for _, i := range which {
		sum = sum.Add(items[i].open)
	}
	return sum
}

// baseOf is an identity without the number of its occurrence, "" for a detail.
func baseOf(identity string) string {
	base, number, ok := strings.Cut(identity, "#")
	if !ok || strings.Contains(number, "/") {
		return ""
	}
	return base
}
