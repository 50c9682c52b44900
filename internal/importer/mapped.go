package importer

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// mapped decodes the records of a file that has a map.
type mapped struct {
	*Map
	places map[string]int
	hashes bool
	seen   map[[16]byte]int // how often a record came, by its hash
}

// newMapped binds a map to the header of its file, so that a column that is not there is an error of the file and not of
// each line.
func newMapped(m *Map, header []string) (*mapped, error) {
	d := &mapped{Map: m, places: map[string]int{}, seen: map[[16]byte]int{}}
	twice := map[string]bool{}
	for place, name := range header {
		name = strings.TrimSpace(name)
		_, known := d.places[name]
		twice[name] = known
		d.places[name] = place
	}
	use := func(field string) func(name string) error {
		return func(name string) error {
			if name == lineColumn || name == hashColumn {
				d.hashes = d.hashes || name == hashColumn
				return nil
			}
			if _, ok := d.places[name]; !ok {
				return fmt.Errorf("%s of the map uses column %q, but the header has %s", field, name, quoted(header))
			}
			if twice[name] {
				return fmt.Errorf("%s of the map uses column %q, which stands in the header twice", field, name)
			}
			return nil
		}
	}
	conditions := func(field string, c condition) error {
		for name := range c {
			if err := use(field)(name); err != nil {
				return err
			}
		}
		return nil
	}
	if err := conditions("skip_if", m.SkipIf); err != nil {
		return nil, err
	}
	if err := conditions("transfer.swap_if", m.Transfer.SwapIf); err != nil {
		return nil, err
	}
	return d, m.Transfer.fields(func(field string, v value) error {
		for _, c := range v {
			if err := conditions("transfer."+field, c.If); err != nil {
				return err
			}
			if err := c.Then.columns(use("transfer." + field)); err != nil {
				return err
			}
		}
		return nil
	})
}

func (d *mapped) decode(fields []string, line int) (spec ledger.TransferSpec, skip bool, err error) {
	hash := ""
	if d.hashes { // also of lines that are skipped, so that the count is one of the file
		hash = d.hash(fields)
	}
	column := func(name string) string {
		switch name {
		case lineColumn:
			return strconv.Itoa(line)
		case hashColumn:
			return hash
		}
		return strings.TrimSpace(fields[d.places[name]])
	}
	if d.SkipIf != nil && d.SkipIf.holds(column) {
		return spec, true, nil
	}
	spec, err = d.transfer(column)
	return spec, false, err
}

func (d *mapped) transfer(column func(string) string) (spec ledger.TransferSpec, err error) {
	t := d.Transfer
	var id, debit, credit, amount, currency, at string
	for _, f := range []struct {
		name string
		value
		out *string
	}{
		{"transfer_id", t.TransferID, &id}, {"debit_account", t.DebitAccount, &debit}, {"credit_account", t.CreditAccount, &credit},
		{"amount", t.Amount, &amount}, {"currency", t.Currency, &currency}, {"effective_at", t.EffectiveAt, &at},
		{"description", t.Description, &spec.Description},
	} {
		if *f.out, err = f.expand(f.name, column); err != nil {
			return spec, err
		}
		if f.name == "transfer_id" {
			spec.ID = ledger.TransferID(id) // now, so that an error about another field can be looked up by it
		}
	}
	negative := false
	if t.NegativeSwaps {
		amount, negative = cutSign(amount)
	}
	if amount, err = d.plainAmount(amount); err != nil {
		return spec, err
	}
	swap := t.SwapIf != nil && t.SwapIf.holds(column)
	if swap != negative { // a reversed withdrawal is written as a negative one: both together are neither
		debit, credit = credit, debit
	}
	if spec.Entries, err = simpleEntries(debit, credit, amount, currency); err != nil {
		return spec, err
	}
	if spec.EffectiveAt, err = d.time(at); err != nil {
		return spec, err
	}
	spec.Metadata, err = d.metadata(column)
	return spec, err
}

func (d *mapped) metadata(column func(string) string) (ledger.Metadata, error) {
	members := map[string]string{}
	for name, v := range d.Transfer.Metadata {
		text, err := v.expand("metadata."+name, column)
		if err != nil {
			return "", err
		}
		if text != "" {
			members[name] = text
		}
	}
	if len(members) == 0 {
		return "", nil
	}
	text, err := json.Marshal(members)
	if err != nil {
		return "", err
	}
	return ledger.ParseMetadata(string(text), "metadata")
}

// time reads a date or time as the map has it. A date is its first instant in the map's zone.
func (d *mapped) time(text string) (*time.Time, error) {
	switch {
	case text == "":
		return nil, nil
	case d.layout != "":
		t, err := time.ParseInLocation(d.layout, text, d.zone)
		if err != nil {
			return nil, ledger.Invalid("effective_at", "%.60q is not a date written as %s", text, d.DateLayout)
		}
		return &t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, d.zone); err == nil {
		return &t, nil
	}
	return parseTime(text, "effective_at")
}

// plainAmount turns "1.234,50" into "1234.50" if the marks of the map say so. It only takes marks away where they can
// stand: "1.5" with a point between thousands is not 15.
func (d *mapped) plainAmount(text string) (string, error) {
	if d.DecimalMark == "." && d.GroupMark == "" {
		return text, nil
	}
	wrong := ledger.Invalid("amount", "%.60q is not an amount with decimal_mark %q and group_mark %q", text, d.DecimalMark, d.GroupMark)
	whole, decimals, hasDecimals := strings.Cut(text, d.DecimalMark)
	if d.GroupMark != "" && strings.Contains(whole, d.GroupMark) {
		groups := strings.Split(whole, d.GroupMark)
		for i, group := range groups {
			// Two digits too: in South Asia 12,34,567 is what elsewhere is 1,234,567.
			ok := len(group) == 3 || len(group) == 2 && i < len(groups)-1 || len(group) == 1 && i == 0
			if !ok {
				return "", wrong
			}
		}
		whole = strings.Join(groups, "")
	}
	if strings.Trim(whole+decimals, "0123456789") != "" {
		return "", wrong
	}
	if hasDecimals {
		return whole + "." + decimals, nil
	}
	return whole, nil
}

// cutSign takes a sign off an amount, before it or, as some banks have it, after it.
func cutSign(text string) (rest string, negative bool) {
	for _, sign := range []string{"-", "+", "\u2212"} {
		if rest, ok := strings.CutPrefix(text, sign); ok {
			return strings.TrimSpace(rest), sign != "+"
		}
		if rest, ok := strings.CutSuffix(text, sign); ok {
			return strings.TrimSpace(rest), sign != "+"
		}
	}
	return text, false
}

// hash names a record by its content and, since two equal ones are two payments, by how many like it came before.
func (d *mapped) hash(fields []string) string {
	h := sha256.New()
	for _, field := range fields {
		fmt.Fprintf(h, "%d:%s,", len(field), field)
	}
	sum := [16]byte(h.Sum(nil))
	d.seen[sum]++
	text := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	if n := d.seen[sum]; n > 1 {
		text += "-" + strconv.Itoa(n)
	}
	return text
}

func (c condition) holds(column func(string) string) bool {
	for name, patterns := range c {
		if !patterns.match(column(name)) {
			return false
		}
	}
	return true
}

func (v value) expand(field string, column func(string) string) (string, error) {
	for _, c := range v {
		if c.If.holds(column) {
			return c.Then.expand(column), nil
		}
	}
	if len(v) == 0 {
		return "", nil
	}
	return "", ledger.Invalid(field, "no case of the map matches this line")
}
