package importer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// columns are those of the documented CSV shape, which are also the names of the API. The first four are required.
var columns = []string{
	"transfer_id", "debit_account", "credit_account", "amount", "currency", "effective_at", "description", "metadata",
}

const requiredColumns = 4

// decoder turns the fields of a CSV record into a transfer.
type decoder interface {
	decode(fields []string, line int) (spec ledger.TransferSpec, skip bool, err error)
}

// shape decodes the documented CSV shape. It has the place of each of columns, -1 where there is none.
type shape []int

// newShape finds the columns. It is strict: a misspelt "efective_at" must not cost a file its dates.
func newShape(header []string) (shape, error) {
	s := make(shape, len(columns))
	for i := range s {
		s[i] = -1
	}
	var unknown, missing []string
	for place, name := range header {
		i := slices.Index(columns, name)
		switch {
		case i < 0:
			unknown = append(unknown, name)
		case s[i] >= 0:
			return nil, fmt.Errorf("column %q stands in the header twice", name)
		default:
			s[i] = place
		}
	}
	for i, name := range columns[:requiredColumns] {
		if s[i] < 0 {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return nil, fmt.Errorf("the header has no column %s. It has %s. A file of another shape needs a map: see docs/import.md",
			quoted(missing), quoted(header))
	case len(unknown) > 0:
		return nil, fmt.Errorf("the header has column %s, which is not known. The columns are %s. A file of another shape needs a map: "+
			"see docs/import.md", quoted(unknown), strings.Join(columns, ", "))
	}
	return s, nil
}

func (s shape) decode(fields []string, _ int) (spec ledger.TransferSpec, skip bool, err error) {
	field := func(i int) string {
		if s[i] < 0 {
			return ""
		}
		return fields[s[i]]
	}
	spec.ID, spec.Description = ledger.TransferID(field(0)), field(6)
	if spec.Entries, err = simpleEntries(field(1), field(2), field(3), field(4)); err != nil {
		return spec, false, err
	}
	if spec.EffectiveAt, err = parseTime(field(5), columns[5]); err != nil {
		return spec, false, err
	}
	spec.Metadata, err = ledger.ParseMetadata(field(7), columns[7])
	return spec, false, err
}

func simpleEntries(debit, credit, amount, currency string) ([]ledger.Entry, error) {
	value, err := ledger.ParseAmount(amount, "amount")
	if err != nil {
		return nil, err
	}
	return ledger.Simple(ledger.AccountID(debit), ledger.AccountID(credit), value, ledger.CurrencyCode(currency)), nil
}

// parseTime reads an instant as RFC 3339 has it, or a date, which is its first instant in UTC; "" is none.
func parseTime(text, field string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return &t, nil
		}
	}
	return nil, ledger.Invalid(field, "%.60q is neither a date such as 2026-01-31 nor a time such as 2026-01-31T09:30:00+06:00", text)
}

// checkFields compares the length of a record with that of the header.
func checkFields(fields, header []string) error {
	if len(fields) == len(header) {
		return nil
	}
	return wrongLine(fmt.Sprintf("has %d fields, the header has %d", len(fields), len(header)))
}

// wrongDelimiter gives a hint where the header looks as if the fields were separated otherwise.
func wrongDelimiter(header []string, delimiter byte, err error) error {
	if len(header) > 1 {
		return err
	}
	for _, other := range []string{";", ",", "\t", "|"} {
		if other[0] != delimiter && strings.Contains(header[0], other) {
			return fmt.Errorf("%w. It seems to be separated by %q: use --delimiter %q", err, other, other)
		}
	}
	return err
}

var errEmpty = errors.New("the file is empty")
