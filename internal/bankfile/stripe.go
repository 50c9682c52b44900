package bankfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// The columns of Stripe's itemised reports that are read (docs.stripe.com/reports, "Balance" and "Payout reconciliation"). A report may leave out or
// add columns, and have them in any order; the first five, and one of the dates, must be there. Amounts are in major units: 12.34 is 12 dollars and
// 34 cents, although Stripe's API has 1234.
var (
	stripeRequired = []string{"balance_transaction_id", "currency", "gross", "fee", "net"}
	// stripeDates are where the day of a movement is looked for. In UTC if the report has it: the other columns are in a zone that it does not name.
	stripeDates     = []string{"created_utc", "created"}
	stripeAvailable = []string{"available_on_utc", "available_on"}
)

// stripe reads one of the itemised reports. Each currency is a statement, of the account's balance at Stripe.
func (p *parse) stripe() error {
	in := &csvReader{in: skipBOM(p.in), delimiter: ',', quote: '"', limit: p.limits.Element, line: 1}
	header, err := in.next()
	if errors.Is(err, io.EOF) {
		return refusal(ReasonEmpty, 0, "the file has not even a header")
	}
	if err != nil {
		return stripeError(in, err)
	}
	s, err := newStripe(header)
	if err != nil {
		return err
	}
	statements := map[string]*Statement{}
	for {
		fields, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return stripeError(in, err)
		}
		line, err := s.line(fields)
		if err != nil {
			return malformed(in.first, "%s", err)
		}
		line.Position = in.first
		statement := statements[line.Currency]
		if statement == nil {
			statement = &Statement{Currency: line.Currency}
			statements[line.Currency] = statement
			if err := p.open(statement); err != nil {
				return err
			}
		}
		if err := p.add(statement, &line); err != nil {
			return err
		}
	}
	for i, statement := range p.file.Statements {
		p.verifyNet(i, statement)
	}
	return nil
}

func stripeError(in *csvReader, err error) error {
	var wrong errRecord
	if errors.As(err, &wrong) {
		return malformed(in.first, "%s", wrong)
	}
	return err
}

// stripeReport has the place of each column.
type stripeReport struct {
	places map[string]int
	width  int
}

func newStripe(header []string) (*stripeReport, error) {
	s := &stripeReport{places: map[string]int{}, width: len(header)}
	for i, name := range header {
		if _, twice := s.places[name]; !twice {
			s.places[name] = i
		}
	}
	for _, name := range stripeRequired {
		if _, ok := s.places[name]; !ok {
			return nil, refusal(ReasonNotThisFormat, 1, "the report has no column %s", name)
		}
	}
	if !slices.ContainsFunc(slices.Concat(stripeDates, stripeAvailable), func(name string) bool { _, ok := s.places[name]; return ok }) {
		return nil, refusal(ReasonNotThisFormat, 1, "the report has no column %s, or another with a date", stripeDates[0])
	}
	return s, nil
}

// first gives the first of some columns that has something in it.
func (s *stripeReport) first(fields []string, names ...string) string {
	for _, name := range names {
		if place, ok := s.places[name]; ok && fields[place] != "" {
			return fields[place]
		}
	}
	return ""
}

func (s *stripeReport) line(fields []string) (Line, error) {
	line := Line{Status: StatusBooked}
	if len(fields) != s.width {
		return line, fmt.Errorf("the row has %d fields, the header has %d", len(fields), s.width)
	}
	get := func(names ...string) string { return s.first(fields, names...) }
	line.Currency = strings.ToUpper(get("currency"))
	if !isCurrency(line.Currency) {
		return line, fmt.Errorf("%.40q is not a currency code", line.Currency)
	}
	for _, a := range []struct {
		name string
		to   *decimal.Decimal
	}{{"gross", &line.Gross}, {"fee", &line.Fee}, {"net", &line.Amount}} {
		amount, err := parseSigned(get(a.name), '.')
		if err != nil {
			return line, fmt.Errorf("%s: %w", a.name, err)
		}
		*a.to = amount
	}
	var err error
	if line.BookingDate, err = stripeDate(get(slices.Concat(stripeDates, stripeAvailable)...)); err != nil {
		return line, err
	}
	if available := get(stripeAvailable...); available != "" {
		if line.ValueDate, err = stripeDate(available); err != nil {
			return line, err
		}
	}
	line.ExternalID = reference(get("balance_transaction_id"))
	line.Code = clean(get("reporting_category"))
	line.Description = clean(get("description"))
	line.Counterparty.Name = clean(get("customer_name", "customer_description"))
	line.References = References{
		Source: reference(get("source_id")), Transaction: reference(get("payment_intent_id")), Batch: reference(get("automatic_payout_id")),
		Customer: reference(get("invoice_number", "charge_id")), EndToEnd: reference(get("trace_id")),
	}
	return line, nil
}

// stripeDate reads the day of "2024-03-01 10:22:33" or "2024-03-01".
func stripeDate(text string) (Date, error) {
	raw, rest, ok := isoDate(text)
	if !ok || rest != "" && rest[0] != ' ' && rest[0] != 'T' {
		return Date{}, fmt.Errorf("%.40q is not a time such as 2024-03-01 10:22:33", text)
	}
	return raw.date()
}

// verifyNet checks that the net of each line is its gross less its fee.
func (p *parse) verifyNet(i int, s *Statement) {
	for n := range s.Lines {
		line := &s.Lines[n]
		computed := line.Gross.Sub(line.Fee)
		if computed.Equal(line.Amount) {
			continue
		}
		check := compare(CheckNet, "", written(line.Amount, s.Currency), written(computed, s.Currency))
		check.Detail = fmt.Sprintf("net is %s; gross %s less fee %s is %s",
			check.Stated, written(line.Gross, s.Currency), written(line.Fee, s.Currency), check.Computed)
		p.failed(i, s, check, ReasonTotals, line.Position)
		return
	}
	s.held(CheckNet, "gross less fee is net on each of %d lines", len(s.Lines))
}
