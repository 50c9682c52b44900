package bankfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Profile says how the CSV files of one bank are read. It is kept as JSON, under its name. Nothing is guessed: a file that does not fit is refused.
type Profile struct {
	// Name is what people choose it by.
	Name string `json:"name"`
	// Encoding is "utf-8" (the default), "utf-16" (with a byte order mark), "windows-1252" or "iso-8859-1".
	Encoding string `json:"encoding,omitempty"`
	// Delimiter separates the fields, one character of ASCII; "" is a comma, and "\t" a tab.
	Delimiter string `json:"delimiter,omitempty"`
	// Quote stands around fields that may hold a delimiter, and doubled within them is itself; "" is a double quote, and "none" is no quoting at all.
	Quote string `json:"quote,omitempty"`
	// DecimalMark is "." (the default) or ",".
	DecimalMark string `json:"decimal_mark,omitempty"`
	// GroupMark stands between thousands; "" is none. It is one of "." "," "'" and " ", which is any of the spaces in use.
	GroupMark string `json:"group_mark,omitempty"`
	// DateFormats are how dates are written, such as "DD.MM.YYYY"; the first that fits a date wins. They are made of YYYY or YY, MM or M or MMM (Jan),
	// DD or D, hh, mm, ss and the characters " .,:/-T" between them. None is YYYY-MM-DD. A time of day is read over.
	DateFormats []string `json:"date_formats,omitempty"`
	// SkipLines is how many lines of text stand before the column header, or the rows if there is none; empty lines count.
	SkipLines int `json:"skip_lines,omitempty"`
	// SkipFooter is how many lines stand after the rows; empty lines do not count, there as among the rows.
	SkipFooter int `json:"skip_footer,omitempty"`
	// Header says that a line with the names of the columns stands before the rows.
	Header bool `json:"header,omitempty"`
	// Account is the number or IBAN of the account, where the file has no column for it; "" leaves it open.
	Account string `json:"account,omitempty"`
	// Currency is the code of all amounts, where the file has no column for it.
	Currency string  `json:"currency,omitempty"`
	Columns  Columns `json:"columns"`
	// DebitValues and CreditValues are what the column Flag has for money out and money in, such as "D" or "Soll"; upper and lower case are the same.
	DebitValues  []string `json:"debit_values,omitempty"`
	CreditValues []string `json:"credit_values,omitempty"`
	// InvertSign says that the column Amount is positive for money out, as on the statements of some credit cards, and InvertBalance that the balances
	// are positive for what is owed.
	InvertSign    bool `json:"invert_sign,omitempty"`
	InvertBalance bool `json:"invert_balance,omitempty"`
	// SignedDebit says that the column Debit has negative amounts for money out. Without it a sign there is refused, since it may mean a reversal.
	SignedDebit bool `json:"signed_debit,omitempty"`
	// Opening and Closing are where the file has these balances, in the lines that are skipped. They are for files of one account in one currency.
	Opening *Cell `json:"opening,omitempty"`
	Closing *Cell `json:"closing,omitempty"`
}

// Columns say which column has what. The zero Column is none. There must be BookingDate or ValueDate, a currency here or in the profile, and one of
// these: Amount alone, signed; Amount and Flag; Debit and Credit.
type Columns struct {
	BookingDate Column `json:"booking_date,omitzero"`
	ValueDate   Column `json:"value_date,omitzero"`
	Amount      Column `json:"amount,omitzero"`
	// Debit and Credit are two columns of which one has the amount and the other is empty or zero.
	Debit  Column `json:"debit,omitzero"`
	Credit Column `json:"credit,omitzero"`
	// Flag has one of DebitValues or CreditValues.
	Flag Column `json:"flag,omitzero"`
	// Balance is that of the account after the row.
	Balance  Column `json:"balance,omitzero"`
	Currency Column `json:"currency,omitzero"`
	Account  Column `json:"account,omitzero"`
	// ID is the bank's own id of the row, which becomes Line.ExternalID.
	ID Column `json:"id,omitzero"`
	// Reference becomes References.Customer, and EndToEnd References.EndToEnd.
	Reference Column `json:"reference,omitzero"`
	EndToEnd  Column `json:"end_to_end,omitzero"`
	// Description has one or more columns, whose texts are joined by spaces.
	Description    []Column `json:"description,omitempty"`
	Partner        Column   `json:"partner,omitzero"`
	PartnerAccount Column   `json:"partner_account,omitzero"`
	PartnerBank    Column   `json:"partner_bank,omitzero"`
	// Code is the kind of movement, which becomes Line.Code.
	Code Column `json:"code,omitzero"`
}

// Column names a column by the text above it, or by its number from 1. In JSON it is a string or a number.
type Column struct {
	Name   string
	Number int
}

// IsZero reports whether it is no column.
func (c Column) IsZero() bool { return c == Column{} }

func (c Column) String() string {
	if c.Name != "" {
		return fmt.Sprintf("%.60q", c.Name)
	}
	return fmt.Sprint(c.Number)
}

// MarshalJSON writes the name, or else the number.
func (c Column) MarshalJSON() ([]byte, error) {
	if c.Name != "" {
		return json.Marshal(c.Name)
	}
	return json.Marshal(c.Number)
}

// UnmarshalJSON reads a name or a number.
func (c *Column) UnmarshalJSON(text []byte) error {
	*c = Column{}
	if len(text) > 0 && text[0] == '"' {
		return json.Unmarshal(text, &c.Name)
	}
	if err := json.Unmarshal(text, &c.Number); err != nil {
		return errors.New("a column is a name or a number")
	}
	return nil
}

// Cell is a place in the lines that are skipped.
type Cell struct {
	// Line is the line of the file from 1, among the SkipLines, or from -1 backwards, among the SkipFooter.
	Line int `json:"line"`
	// Column is the field of it, from 1.
	Column int `json:"column"`
	// After is text in the field that stands before the amount, such as "Opening balance:"; "" is none.
	After string `json:"after,omitempty"`
}

const (
	noQuote   = "none"
	maxSkip   = 100
	maxColumn = 1000
)

// ParseProfile reads a profile from JSON, strictly: a name that is not known is an error. It is valid.
func ParseProfile(text []byte) (*Profile, error) {
	var p Profile
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return nil, profileError(text, dec.InputOffset(), err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the JSON object")
	}
	return &p, p.Validate()
}

// NotJSON is the error of ParseProfile for what is not JSON.
type NotJSON struct {
	// Line and Column are where, from 1; a column is a byte.
	Line, Column int
	What         string
}

// Error says where, and what.
func (e *NotJSON) Error() string {
	return fmt.Sprintf("is not JSON: line %d, column %d: %s", e.Line, e.Column, e.What)
}

// profileError says of a profile that cannot be read what is wrong, in the words of profiles and not of Go.
func profileError(text []byte, read int64, err error) error {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	at := func(offset int64, what string) error {
		before := text[:min(max(offset, 0), int64(len(text)))]
		last := bytes.LastIndexByte(before, '\n')
		return &NotJSON{Line: bytes.Count(before, []byte("\n")) + 1, Column: max(len(before)-last-1, 1), What: what}
	}
	switch {
	case len(bytes.TrimSpace(text)) == 0:
		return errors.New("is empty")
	case errors.As(err, &syntax):
		return at(read+syntax.Offset, syntax.Error())
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return at(int64(len(text)), "it ends before the object does")
	case errors.As(err, &kind):
		value, _, _ := strings.Cut(kind.Value, " ") // A number follows its word.
		field := ""
		if kind.Field != "" {
			field = kind.Field + ": "
		}
		return fmt.Errorf("%sis %s, and should be %s", field, jsonKinds[value], goKinds[kind.Type.Kind()])
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("has a field %s, and there is none of that name in a profile", name)
	}
	return err
}

// jsonKinds and goKinds are what values are, and what they should be.
var jsonKinds = map[string]string{
	"string": "a text", "number": "a number", "bool": "true or false", "array": "a list", "object": "an object",
}

var goKinds = map[reflect.Kind]string{
	reflect.String: "a text", reflect.Int: "a whole number", reflect.Bool: "true or false", reflect.Slice: "a list", reflect.Struct: "an object",
}

// Validate returns an error, which begins with the name of the field, for a profile that no file could be read with.
func (p *Profile) Validate() error {
	for _, check := range []func() error{p.validateText, p.validateSkips, p.validateAmounts, p.validateColumns} {
		if err := check(); err != nil {
			return err
		}
	}
	_, err := p.layouts()
	return err
}

func (p *Profile) validateText() error {
	const printable, last = ' ', '~'
	one := func(field, text string) error {
		if len(text) > 1 || text != "" && text != "\t" && (text[0] < printable || text[0] > last) {
			return fmt.Errorf("%s: %.20q is not one character of ASCII", field, text)
		}
		return nil
	}
	switch p.Encoding {
	case "", encodingUTF8, encodingUTF16, encodingWindows, encodingLatin1:
	default:
		return fmt.Errorf("encoding: %.40q is not one of %s, %s, %s, %s", p.Encoding, encodingUTF8, encodingUTF16, encodingWindows, encodingLatin1)
	}
	if err := one("delimiter", p.Delimiter); err != nil {
		return err
	}
	if p.Quote != noQuote {
		if err := one("quote", p.Quote); err != nil {
			return err
		}
	}
	if p.quote() == p.delimiter() {
		return errors.New("quote: is the delimiter too")
	}
	return nil
}

func (p *Profile) validateSkips() error {
	for _, skip := range []struct {
		field string
		n     int
	}{{"skip_lines", p.SkipLines}, {"skip_footer", p.SkipFooter}} {
		if skip.n < 0 || skip.n > maxSkip {
			return fmt.Errorf("%s: %d is not from 0 to %d", skip.field, skip.n, maxSkip)
		}
	}
	for _, cell := range []struct {
		field string
		*Cell
	}{{"opening", p.Opening}, {"closing", p.Closing}} {
		switch {
		case cell.Cell == nil:
		case cell.Line == 0 || cell.Line > p.SkipLines || cell.Line < -p.SkipFooter:
			return fmt.Errorf("%s.line: %d is not among the lines that are skipped", cell.field, cell.Line)
		case cell.Column < 1 || cell.Column > maxColumn:
			return fmt.Errorf("%s.column: %d is not from 1 to %d", cell.field, cell.Column, maxColumn)
		}
	}
	return nil
}

func (p *Profile) validateAmounts() error {
	if p.DecimalMark != "" && p.DecimalMark != "." && p.DecimalMark != "," {
		return fmt.Errorf("decimal_mark: %.20q is neither \".\" nor \",\"", p.DecimalMark)
	}
	if !slices.Contains([]string{"", ".", ",", "'", " "}, p.GroupMark) {
		return fmt.Errorf("group_mark: %.20q is not \".\" or \",\" or \"'\" or a space", p.GroupMark)
	}
	if p.GroupMark == string(p.decimalMark()) {
		return errors.New("group_mark: is the decimal mark too")
	}
	c := p.Columns
	twoColumns := !c.Debit.IsZero() || !c.Credit.IsZero()
	switch {
	case c.Amount.IsZero() && !twoColumns:
		return errors.New("columns: there is no column for amounts: want amount, or debit and credit")
	case !c.Amount.IsZero() && twoColumns:
		return errors.New("columns: amount and debit or credit exclude each other")
	case twoColumns && (c.Debit.IsZero() || c.Credit.IsZero()):
		return errors.New("columns: debit and credit go together")
	case !c.Flag.IsZero() && c.Amount.IsZero():
		return errors.New("columns.flag: goes with amount")
	case !c.Flag.IsZero() && p.InvertSign:
		return errors.New("invert_sign: goes with a signed amount, not with a flag; exchange debit_values and credit_values instead")
	case twoColumns && p.InvertSign:
		return errors.New("invert_sign: goes with a signed amount, not with debit and credit; exchange the columns instead")
	case p.SignedDebit && !twoColumns:
		return errors.New("signed_debit: goes with debit and credit")
	}
	return p.validateFlags()
}

func (p *Profile) validateFlags() error {
	has := len(p.DebitValues) > 0 || len(p.CreditValues) > 0
	if p.Columns.Flag.IsZero() {
		if has {
			return errors.New("debit_values, credit_values: go with columns.flag")
		}
		return nil
	}
	if len(p.DebitValues) == 0 || len(p.CreditValues) == 0 {
		return errors.New("debit_values, credit_values: both are needed with columns.flag")
	}
	for _, value := range p.DebitValues {
		if containsFold(p.CreditValues, value) {
			return fmt.Errorf("debit_values: %.40q is a credit value too", value)
		}
	}
	return nil
}

func (p *Profile) validateColumns() error {
	c := &p.Columns
	if c.BookingDate.IsZero() && c.ValueDate.IsZero() {
		return errors.New("columns: there is no column for a date: want booking_date or value_date")
	}
	if c.Currency.IsZero() == (p.Currency == "") {
		return errors.New("currency: want either a code here or a column in columns.currency")
	}
	if p.Currency != "" && !isCurrency(p.Currency) {
		return fmt.Errorf("currency: %.40q is not a currency code", p.Currency)
	}
	if !c.Account.IsZero() && p.Account != "" {
		return errors.New("account: and columns.account exclude each other")
	}
	return c.visit(func(field string, column *Column) error {
		switch {
		case column.Name != "" && column.Number != 0:
			return fmt.Errorf("columns.%s: has a name and a number", field)
		case column.Name != "" && !p.Header:
			return fmt.Errorf("columns.%s: is a name, and the file has no header", field)
		case column.Number < 0 || column.Number > maxColumn:
			return fmt.Errorf("columns.%s: %d is not from 1 to %d", field, column.Number, maxColumn)
		}
		return nil
	})
}

// visit goes through the columns, with the names that they have in JSON.
func (c *Columns) visit(visit func(field string, column *Column) error) error {
	for _, f := range []struct {
		field string
		*Column
	}{
		{"booking_date", &c.BookingDate}, {"value_date", &c.ValueDate}, {"amount", &c.Amount}, {"debit", &c.Debit}, {"credit", &c.Credit},
		{"flag", &c.Flag}, {"balance", &c.Balance}, {"currency", &c.Currency}, {"account", &c.Account}, {"id", &c.ID}, {"reference", &c.Reference},
		{"end_to_end", &c.EndToEnd}, {"partner", &c.Partner}, {"partner_account", &c.PartnerAccount}, {"partner_bank", &c.PartnerBank},
		{"code", &c.Code},
	} {
		if err := visit(f.field, f.Column); err != nil {
			return err
		}
	}
	for i := range c.Description {
		field := fmt.Sprintf("description[%d]", i)
		if c.Description[i].IsZero() {
			return fmt.Errorf("columns.%s: is no column", field)
		}
		if err := visit(field, &c.Description[i]); err != nil {
			return err
		}
	}
	return nil
}

func (p *Profile) delimiter() byte {
	if p.Delimiter == "" {
		return ','
	}
	return p.Delimiter[0]
}

// quote is 0 for none.
func (p *Profile) quote() byte {
	switch p.Quote {
	case "":
		return '"'
	case noQuote:
		return 0
	}
	return p.Quote[0]
}

func (p *Profile) decimalMark() byte {
	if p.DecimalMark == "" {
		return '.'
	}
	return p.DecimalMark[0]
}

func (p *Profile) layouts() ([]dateLayout, error) {
	if len(p.DateFormats) == 0 {
		return []dateLayout{{{token: "YYYY"}, {literal: '-'}, {token: "MM"}, {literal: '-'}, {token: "DD"}}}, nil
	}
	layouts := make([]dateLayout, len(p.DateFormats))
	for i, format := range p.DateFormats {
		var err error
		if layouts[i], err = parseLayout(format); err != nil {
			return nil, fmt.Errorf("date_formats[%d]: %w", i, err)
		}
	}
	return layouts, nil
}

func containsFold(list []string, value string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), value) })
}
