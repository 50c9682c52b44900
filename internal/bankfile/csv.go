package bankfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// csvScan reads the lines of a CSV file and says what each is.
type csvScan struct {
	profile *Profile
	in      *csvReader
	skipped int
	header  []string
	// ahead are rows that were read and may yet turn out to be the footer, which is known at the end only.
	ahead []csvRow
	ended bool
}

// RowKind says what a line of a CSV file is.
type RowKind string

// The kinds of lines.
const (
	// RowSkipped stands before the header.
	RowSkipped RowKind = "skipped"
	// RowHeader has the names of the columns.
	RowHeader RowKind = "header"
	// RowLine is a line of the statement.
	RowLine RowKind = "line"
	// RowFooter stands after the lines.
	RowFooter RowKind = "footer"
)

type csvRow struct {
	kind     RowKind
	position int
	fields   []string
	err      error // errRecord
}

func newCSVScan(profile *Profile, in *bufio.Reader, limits Limits) (*csvScan, error) {
	switch profile.Encoding {
	case encodingWindows:
		in = bufio.NewReader(&byteDecoder{in: in, toRune: windowsRune})
	case encodingLatin1:
		in = bufio.NewReader(&byteDecoder{in: in, toRune: latin1Rune})
	case encodingUTF16:
		if start, _ := in.Peek(len(bomBig)); string(start) != bomBig && string(start) != bomLittle {
			return nil, malformed(1, "the file is not UTF-16 with a byte order mark, as the profile says")
		}
		in = skipBOM(in)
	default:
		in = skipBOM(in) // UTF-16 that says so is read even where the profile does not: it cannot be anything else
	}
	reader := &csvReader{in: in, delimiter: profile.delimiter(), quote: profile.quote(), limit: limits.Element, line: 1}
	return &csvScan{profile: profile, in: reader}, nil
}

// next gives the lines in order, and io.EOF at the end.
func (s *csvScan) next() (csvRow, error) {
	if s.skipped < s.profile.SkipLines {
		s.skipped++
		fields, err := s.in.skip()
		return csvRow{kind: RowSkipped, position: s.in.first, fields: fields}, err
	}
	if s.profile.Header && s.header == nil {
		fields, err := s.in.next()
		var wrong errRecord
		if errors.As(err, &wrong) {
			err = malformed(s.in.first, "the header: %s", wrong)
		}
		s.header = fields
		return csvRow{kind: RowHeader, position: s.in.first, fields: fields}, err
	}
	for !s.ended && len(s.ahead) <= s.profile.SkipFooter {
		fields, err := s.in.next()
		row := csvRow{kind: RowLine, position: s.in.first, fields: fields}
		if errors.Is(err, io.EOF) {
			s.ended = true
			for i := range s.ahead {
				s.ahead[i].kind = RowFooter
			}
			break
		}
		if !errors.As(err, new(errRecord)) && err != nil {
			return row, err
		}
		row.err = err
		s.ahead = append(s.ahead, row)
	}
	if len(s.ahead) == 0 {
		return csvRow{}, io.EOF
	}
	row := s.ahead[0]
	s.ahead = slices.Delete(s.ahead, 0, 1)
	return row, nil
}

// csvDecoder makes lines of rows.
type csvDecoder struct {
	profile Profile // of which the columns all have numbers
	layouts []dateLayout
	style   numberStyle
	header  []string
}

// newCSVDecoder finds the columns by the header, which is nil if the file has none.
func newCSVDecoder(profile *Profile, header []string) (*csvDecoder, error) {
	layouts, err := profile.layouts()
	if err != nil {
		return nil, err
	}
	d := &csvDecoder{profile: *profile, layouts: layouts, header: header, style: numberStyle{profile.decimalMark(), profile.GroupMark}}
	d.profile.Columns.Description = slices.Clone(profile.Columns.Description)
	err = d.profile.Columns.visit(func(field string, column *Column) error {
		if column.Name == "" {
			return nil
		}
		number, err := findColumn(header, column.Name)
		if errors.Is(err, errNoColumn) {
			return fmt.Errorf("columns.%s: the header has no column %.60q; %s", field, column.Name, foundColumns(header, profile.delimiter()))
		}
		if err != nil {
			return fmt.Errorf("columns.%s: %w", field, err)
		}
		*column = Column{Number: number}
		return nil
	})
	return d, err
}

// findColumn gives the number of a column by its name, from 1.
func findColumn(header []string, name string) (int, error) {
	found := 0
	for i, title := range header {
		if !strings.EqualFold(clean(title), clean(name)) {
			continue
		}
		if found > 0 {
			return 0, fmt.Errorf("column %.60q stands in the header twice: give its number", name)
		}
		found = i + 1
	}
	if found == 0 {
		return 0, errNoColumn
	}
	return found, nil
}

var errNoColumn = errors.New("there is no such column")

// foundColumns lists the columns that a header has. If it has more of another delimiter than of the profile's, that may be the one.
func foundColumns(header []string, delimiter byte) string {
	const most = 20
	names := make([]string, 0, len(header))
	for _, name := range header[:min(len(header), most)] {
		names = append(names, fmt.Sprintf("%.40q", clean(name)))
	}
	text := "it has " + strings.Join(names, ", ")
	if len(header) > most {
		text += fmt.Sprintf(" and %d more", len(header)-most)
	}
	best, of := byte(0), len(header)-1
	for _, other := range []byte(",;\t|") {
		if n := strings.Count(strings.Join(header, ""), string(other)); other != delimiter && n > of {
			best, of = other, n
		}
	}
	if best != 0 {
		text += fmt.Sprintf(". The profile's delimiter is %q, and there are more of %q: the file may need delimiter %[2]q", string(delimiter), string(best))
	}
	return text
}

// csvLine is a row as the profile reads it.
type csvLine struct {
	line    Line
	account string
	balance *decimal.Decimal
}

// decode reads a row. Its error is about a field of it.
func (d *csvDecoder) decode(row csvRow) (csvLine, error) {
	if row.err != nil {
		return csvLine{}, row.err
	}
	if d.header != nil && len(row.fields) > len(d.header) && join("", row.fields[len(d.header):]...) != "" {
		return csvLine{}, fmt.Errorf("the row has %d fields, the header has %d", len(row.fields), len(d.header))
	}
	c := &d.profile.Columns
	r := csvFields(row.fields)
	out := csvLine{account: d.profile.Account}
	line := &out.line
	line.Position, line.Status, line.Currency = row.position, StatusBooked, d.profile.Currency
	for _, column := range []Column{c.BookingDate, c.ValueDate, c.Amount, c.Debit, c.Credit, c.Flag, c.Currency, c.Account} {
		if column.Number > len(r) {
			return out, fmt.Errorf("the row has %d fields, and no column %s", len(r), column)
		}
	}
	if !c.Currency.IsZero() {
		line.Currency = strings.ToUpper(clean(r.get(c.Currency)))
		if !isCurrency(line.Currency) {
			return out, fmt.Errorf("%.40q is not a currency code", r.get(c.Currency))
		}
	}
	if !c.Account.IsZero() {
		out.account = clean(r.get(c.Account))
	}
	if err := d.dates(line, r); err != nil {
		return out, err
	}
	var err error
	if line.Amount, err = d.amount(r); err != nil {
		return out, err
	}
	if out.balance, err = d.balance(r.get(c.Balance)); err != nil {
		return out, fmt.Errorf("balance: %w", err)
	}
	d.texts(line, r)
	return out, nil
}

// csvFields are the fields of a row.
type csvFields []string

// get gives a field, "" if the column is none or beyond the end of the row.
func (f csvFields) get(c Column) string {
	if c.Number < 1 || c.Number > len(f) {
		return ""
	}
	return f[c.Number-1]
}

func (d *csvDecoder) texts(line *Line, r csvFields) {
	c := &d.profile.Columns
	line.ExternalID = reference(r.get(c.ID))
	line.References = References{Customer: reference(r.get(c.Reference)), EndToEnd: reference(r.get(c.EndToEnd))}
	line.Counterparty = Party{Name: clean(r.get(c.Partner)), Account: clean(r.get(c.PartnerAccount)), Bank: clean(r.get(c.PartnerBank))}
	line.Code = clean(r.get(c.Code))
	parts := make([]string, len(c.Description))
	for i, column := range c.Description {
		parts[i] = r.get(column)
	}
	line.Description = join(" ", parts...)
}

func (d *csvDecoder) dates(line *Line, r csvFields) error {
	c := &d.profile.Columns
	if text := r.get(c.BookingDate); !c.BookingDate.IsZero() && (text != "" || c.ValueDate.IsZero()) {
		raw, err := parseDate(d.layouts, text)
		if err == nil {
			line.BookingDate, err = raw.date()
		}
		if err != nil {
			return fmt.Errorf("booking date: %w", err)
		}
	}
	if text := r.get(c.ValueDate); !c.ValueDate.IsZero() && (text != "" || line.BookingDate.IsZero()) {
		raw, err := parseDate(d.layouts, text)
		if err != nil {
			return fmt.Errorf("value date: %w", err)
		}
		if err := line.setValueDate(raw); err != nil {
			return err
		}
	}
	if line.BookingDate.IsZero() {
		line.BookingDate = line.ValueDate
	}
	return nil
}

func (d *csvDecoder) amount(r csvFields) (decimal.Decimal, error) {
	c := &d.profile.Columns
	if c.Amount.IsZero() {
		return d.twoColumns(r)
	}
	amount, err := d.style.parse(r.get(c.Amount))
	switch {
	case err != nil:
		return amount, fmt.Errorf("amount: %w", err)
	case d.profile.InvertSign:
		return amount.Neg(), nil
	case c.Flag.IsZero():
		return amount, nil
	case amount.IsNegative():
		return amount, fmt.Errorf("amount: %.60q has a sign beside the flag", r.get(c.Amount))
	}
	flag := clean(r.get(c.Flag))
	switch {
	case containsFold(d.profile.CreditValues, flag):
		return amount, nil
	case containsFold(d.profile.DebitValues, flag):
		return amount.Neg(), nil
	}
	return amount, fmt.Errorf("flag: %.40q is neither a debit value nor a credit value of the profile", flag)
}

// twoColumns reads the amount from the column that is not empty.
func (d *csvDecoder) twoColumns(r csvFields) (decimal.Decimal, error) {
	c := &d.profile.Columns
	texts := []string{r.get(c.Debit), r.get(c.Credit)}
	if texts[0] == "" && texts[1] == "" {
		return decimal.Zero, errors.New("amount: neither debit nor credit has one")
	}
	var amounts [2]decimal.Decimal
	for i, text := range texts {
		if text == "" {
			continue
		}
		var err error
		if amounts[i], err = d.style.parse(text); err != nil {
			return decimal.Zero, fmt.Errorf("amount: %w", err)
		}
	}
	debit, credit := amounts[0], amounts[1]
	if d.profile.SignedDebit {
		debit = debit.Neg()
	}
	switch {
	case !debit.IsZero() && !credit.IsZero():
		return decimal.Zero, errors.New("amount: debit and credit both have one")
	case debit.IsNegative():
		return decimal.Zero, fmt.Errorf("amount: the debit %.60q has a sign that the profile does not expect", texts[0])
	case credit.IsNegative():
		return decimal.Zero, fmt.Errorf("amount: the credit %.60q is negative", texts[1])
	}
	return credit.Sub(debit), nil
}

// balance reads a balance; none if there is no text.
func (d *csvDecoder) balance(text string) (*decimal.Decimal, error) {
	if text == "" {
		return nil, nil
	}
	balance, err := d.style.parse(text)
	if err != nil {
		return nil, err
	}
	if d.profile.InvertBalance {
		balance = balance.Neg()
	}
	return &balance, nil
}

// cell reads the balance that the profile says is in a line that is skipped.
func (d *csvDecoder) cell(cell *Cell, row csvRow) (*decimal.Decimal, error) {
	text := csvFields(row.fields).get(Column{Number: cell.Column})
	if cell.After != "" {
		_, after, found := strings.Cut(text, cell.After)
		if !found {
			return nil, fmt.Errorf("column %d has no %.40q before the amount", cell.Column, cell.After)
		}
		text = strings.TrimSpace(after)
	}
	if text == "" {
		return nil, fmt.Errorf("column %d has no amount", cell.Column)
	}
	return d.balance(text)
}
