package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
	_ "time/tzdata" // A map names a zone; a small container has none of them.

	"github.com/khata-ledger/khata/ledger"
)

// Map says how the columns of a CSV file make transfers, and how accounts are made that do not exist. docs/import.md
// describes it for users; the field names there are those of the JSON here.
type Map struct {
	// Delimiter separates the fields; "" is a comma.
	Delimiter string `json:"delimiter"`
	// SkipLines is how many lines stand before the header.
	SkipLines int `json:"skip_lines"`
	// DecimalMark is "." (the default) or ",".
	DecimalMark string `json:"decimal_mark"`
	// GroupMark stands between thousands in amounts; "" is none.
	GroupMark string `json:"group_mark"`
	// DateLayout is how dates are written, such as "DD.MM.YYYY"; "" is RFC 3339, or YYYY-MM-DD.
	DateLayout string `json:"date_layout"`
	// TimeZone is where dates and times without an offset are meant, such as "Asia/Dhaka"; "" is UTC.
	TimeZone string `json:"time_zone"`
	// SkipIf leaves out the lines that it matches.
	SkipIf condition `json:"skip_if"`
	// Transfer is absent for files of the documented shape, which need only accounts.
	Transfer *transferMap `json:"transfer"`
	// Accounts has the rules by which accounts are made; the first that matches wins.
	Accounts []AccountRule `json:"accounts"`

	layout string
	zone   *time.Location
}

// transferMap has the fields of a transfer.
type transferMap struct {
	TransferID    value            `json:"transfer_id"`
	DebitAccount  value            `json:"debit_account"`
	CreditAccount value            `json:"credit_account"`
	Amount        value            `json:"amount"`
	Currency      value            `json:"currency"`
	EffectiveAt   value            `json:"effective_at"`
	Description   value            `json:"description"`
	Metadata      map[string]value `json:"metadata"`
	// SwapIf exchanges debit and credit on the lines that it matches.
	SwapIf condition `json:"swap_if"`
	// NegativeSwaps allows amounts with a sign: the sign is taken off, and a minus exchanges debit and credit.
	NegativeSwaps bool `json:"negative_swaps"`
}

// fields visits the values, with the names by which a user knows them.
func (t *transferMap) fields(visit func(name string, v value) error) error {
	for _, f := range []struct {
		name string
		value
	}{
		{"transfer_id", t.TransferID}, {"debit_account", t.DebitAccount}, {"credit_account", t.CreditAccount},
		{"amount", t.Amount}, {"currency", t.Currency}, {"effective_at", t.EffectiveAt}, {"description", t.Description},
	} {
		if err := visit(f.name, f.value); err != nil {
			return err
		}
	}
	for name, v := range t.Metadata {
		if err := visit("metadata."+name, v); err != nil {
			return err
		}
	}
	return nil
}

// AccountRule makes accounts whose ids begin with Prefix.
type AccountRule struct {
	Prefix string             `json:"prefix"`
	Type   ledger.AccountType `json:"type"`
	// Currency is for transfers that name none.
	Currency ledger.CurrencyCode `json:"currency"`
}

// ReadMap reads the file of a map.
func ReadMap(path string) (*Map, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := ParseMap(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// ParseMap reads a map, and checks everything in it that can be checked without the file that it is for.
func ParseMap(text []byte) (*Map, error) {
	var m Map
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return nil, mapFault(text, dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("has more after the JSON object")
	}
	return &m, m.check()
}

// mapFault says where in the file a map is no JSON.
func mapFault(text []byte, offset int64, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		offset = syntax.Offset
	}
	line := 1 + bytes.Count(text[:min(int(offset), len(text))], []byte("\n"))
	return fmt.Errorf("line %d: %w", line, err)
}

func (m *Map) check() (err error) {
	if _, err = delimiterByte(m.Delimiter); err != nil {
		return fmt.Errorf("delimiter: %w", err)
	}
	switch {
	case m.DecimalMark == "":
		m.DecimalMark = "."
	case m.DecimalMark != "." && m.DecimalMark != ",":
		return fmt.Errorf("decimal_mark: %q is neither \".\" nor \",\"", m.DecimalMark)
	}
	if m.GroupMark == m.DecimalMark {
		return fmt.Errorf("group_mark: is the decimal mark too")
	}
	if m.SkipLines < 0 {
		return errors.New("skip_lines: is negative")
	}
	if m.zone, err = time.LoadLocation(m.TimeZone); err != nil {
		return fmt.Errorf("time_zone: %q is not known; it is a name such as Asia/Dhaka", m.TimeZone)
	}
	if m.DateLayout != "" {
		if m.layout, err = goLayout(m.DateLayout); err != nil {
			return fmt.Errorf("date_layout: %w", err)
		}
	}
	for i, rule := range m.Accounts {
		if !rule.Type.Valid() {
			return fmt.Errorf("accounts[%d].type: %q is not asset, liability, equity, revenue or expense", i, rule.Type)
		}
		if rule.Currency != "" {
			if err := rule.Currency.Validate("currency"); err != nil {
				return fmt.Errorf("accounts[%d]: %w", i, err)
			}
		}
	}
	if m.Transfer == nil {
		if m.SkipIf != nil || m.DecimalMark != "." || m.GroupMark != "" || m.DateLayout != "" || m.TimeZone != "" {
			return errors.New("transfer: is required for a file that is not of the documented shape")
		}
		return nil
	}
	for _, f := range []struct {
		name string
		value
	}{
		{"transfer_id", m.Transfer.TransferID}, {"debit_account", m.Transfer.DebitAccount},
		{"credit_account", m.Transfer.CreditAccount}, {"amount", m.Transfer.Amount},
	} {
		if len(f.value) == 0 {
			return fmt.Errorf("transfer.%s: is required", f.name)
		}
	}
	return nil
}

// value is the value of a field: the first case whose condition holds. In JSON it is a template, or a list of cases.
type value []valueCase

type valueCase struct {
	If   condition `json:"if"`
	Then template  `json:"then"`
}

// UnmarshalJSON reads "template" or [{"if": ..., "then": "template"}, ...].
func (v *value) UnmarshalJSON(text []byte) error {
	if bytes.HasPrefix(text, []byte("[")) {
		dec := json.NewDecoder(bytes.NewReader(text)) // The outer decoder's strictness does not reach here.
		dec.DisallowUnknownFields()
		var cases []valueCase
		if err := dec.Decode(&cases); err != nil {
			return err
		}
		for i, c := range cases {
			if c.Then == nil {
				return fmt.Errorf("case %d of a list has no \"then\"", i+1)
			}
		}
		*v = cases
		return nil
	}
	var t template
	if err := json.Unmarshal(text, &t); err != nil {
		return err
	}
	*v = value{{Then: t}}
	return nil
}

// condition holds if each column that it names has one of the patterns. An empty one always holds.
type condition map[string]patterns

// patterns match a text if one of them does. In JSON it is a string or a list of them.
type patterns []string

// UnmarshalJSON reads "pattern" or ["pattern", ...].
func (p *patterns) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*p = patterns{one}
		return nil
	}
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return errors.New("a condition is a text, or a list of texts, for each column")
	}
	*p = list
	return nil
}

func (p patterns) match(text string) bool {
	for _, pattern := range p {
		if glob(pattern, text) {
			return true
		}
	}
	return false
}

// glob matches * with any text and ? with any one character.
func glob(pattern, text string) bool {
	p, t := []rune(pattern), []rune(text)
	star, from := -1, 0 // the last * and where the text that it takes would end
	i, j := 0, 0
	for j < len(t) {
		switch {
		case i < len(p) && p[i] == '*':
			star, from = i, j
			i++
		case i < len(p) && (p[i] == '?' || p[i] == t[j]):
			i, j = i+1, j+1
		case star >= 0:
			from++
			i, j = star+1, from
		default:
			return false
		}
	}
	for i < len(p) && p[i] == '*' {
		i++
	}
	return i == len(p)
}
