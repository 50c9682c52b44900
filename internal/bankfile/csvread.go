package bankfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// csvReader reads records of CSV, in bounded memory. A quote within a field that does not begin with one is text.
type csvReader struct {
	in        *bufio.Reader
	delimiter byte
	quote     byte // 0 for none
	limit     int  // bytes of a record

	// line is that on which the next byte stands, and first the one on which the record last read begins.
	line, first int
	text        []byte
	ends        []int
}

// errRecord is what is wrong with one record, after which the next can be read.
type errRecord string

func (e errRecord) Error() string { return string(e) }

// next reads a record that is not a blank line. It returns io.EOF at the end, an errRecord, or a Refusal after which nothing can be read.
func (r *csvReader) next() ([]string, error) {
	for {
		fields, err := r.record()
		if err != nil || fields != nil {
			return fields, err
		}
	}
}

// The places where a byte can be.
type csvState int

const (
	fieldStart csvState = iota
	inField
	inQuotes
	afterQuotes
)

// record reads a record; none for a blank line.
func (r *csvReader) record() ([]string, error) {
	r.text, r.ends = r.text[:0], r.ends[:0]
	r.first = r.line
	state, wrong, blank := fieldStart, error(nil), true
	for {
		c, err := r.in.ReadByte()
		atEnd := errors.Is(err, io.EOF)
		switch {
		case err != nil && !atEnd:
			return nil, err
		case atEnd && blank:
			return nil, io.EOF
		case atEnd && state == inQuotes:
			return nil, malformed(r.first, "a quote is opened and not closed")
		}
		if c == '\n' && !atEnd {
			r.line++
		}
		if atEnd || c == '\n' && state != inQuotes {
			if wrong != nil {
				return nil, wrong
			}
			return r.finish()
		}
		if blank = blank && c == '\r'; len(r.text)+len(r.ends) >= r.limit {
			return nil, refusal(ReasonTooLarge, r.first, "the record has more than %d bytes", r.limit)
		}
		if wrong == nil && state == afterQuotes && c != r.quote && c != r.delimiter && c != '\r' {
			wrong = errRecord(fmt.Sprintf("field %d goes on after its closing quote", len(r.ends)+1))
		}
		state = r.take(c, state)
	}
}

// take puts a byte where it belongs.
func (r *csvReader) take(c byte, state csvState) csvState {
	switch {
	case r.quote != 0 && c == r.quote && state == fieldStart:
		return inQuotes
	case c == r.quote && state == inQuotes && r.quote != 0:
		return afterQuotes
	case c == r.delimiter && state != inQuotes:
		r.ends = append(r.ends, len(r.text))
		return fieldStart
	case state == inQuotes:
	case c == r.quote && state == afterQuotes: // doubled: one quote in the text
		state = inQuotes
	case state == fieldStart && c != '\r':
		state = inField
	}
	r.text = append(r.text, c)
	return state
}

// finish makes the fields of what was read. It gives none for a line of nothing, or of delimiters only.
func (r *csvReader) finish() ([]string, error) {
	for len(r.text) > 0 && r.text[len(r.text)-1] == '\r' && (len(r.ends) == 0 || r.ends[len(r.ends)-1] < len(r.text)) {
		r.text = r.text[:len(r.text)-1]
	}
	if !utf8.Valid(r.text) {
		return nil, errRecord("the text is not UTF-8: the profile may need another encoding")
	}
	text := string(r.text)
	fields := make([]string, 0, len(r.ends)+1)
	start, some := 0, false
	for _, end := range append(r.ends, len(text)) {
		field := strings.TrimSpace(text[start:end])
		fields = append(fields, field)
		start, some = end, some || field != ""
	}
	if !some { // a row of a spreadsheet with nothing in it
		return nil, nil
	}
	return fields, nil
}

// skip reads a line of text as it stands, quotes and all, for the lines before the records, and gives the fields that it would have.
func (r *csvReader) skip() ([]string, error) {
	lines := lineReader{in: r.in, limit: r.limit, number: r.line - 1}
	text, err := lines.next()
	if err != nil {
		return nil, err
	}
	r.first, r.line = r.line, r.line+1
	alone := csvReader{in: bufio.NewReader(strings.NewReader(text)), delimiter: r.delimiter, quote: r.quote, limit: r.limit, line: 1}
	fields, err := alone.record()
	if err != nil {
		return []string{text}, nil // what stands before the records need not be CSV
	}
	return fields, nil
}
