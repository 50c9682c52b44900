package importer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// MaxLine is the most bytes of a line of NDJSON, or of a record of CSV, which may be several lines. A transfer of 1,000
// entries takes a quarter of it.
const MaxLine = 1 << 20

// wrongLine is what is wrong with a line that cannot be read at all.
type wrongLine string

func (w wrongLine) Error() string { return string(w) }

const (
	errTooLong = wrongLine("the line has more than 1 MiB")
	errNotUTF8 = wrongLine("is not UTF-8 text; convert the file first, such as with: iconv -f WINDOWS-1252 -t UTF-8")
)

// csvReader reads CSV as RFC 4180 has it, from lines that end in LF or CRLF. Unlike encoding/csv it goes on after what is
// wrong, in bounded memory, and never reads text between quotes as a record. A quote inside a field that does not begin
// with one is text.
type csvReader struct {
	in        *bufio.Reader
	delimiter byte
	lineNo    int // of the last byte read

	text []byte
	ends []int

	// Of the record last read.
	line, last int
	fields     []string
	blank      bool
}

func newCSVReader(in *bufio.Reader, delimiter byte) *csvReader {
	return &csvReader{in: in, delimiter: delimiter, lineNo: 1}
}

// The places where a byte can be.
type csvState int

const (
	fieldStart csvState = iota
	inField
	inQuotes
	afterQuotes
)

// next reads a record that is not a blank line. It returns a wrongLine for one that cannot be used, after which it can go
// on, io.EOF at the end, and the error of the file if it cannot be read.
func (r *csvReader) next() error {
	for {
		err := r.record()
		if err != nil || !r.blank {
			return err
		}
	}
}

func (r *csvReader) record() error {
	r.text, r.ends, r.fields = r.text[:0], r.ends[:0], nil
	r.line = r.lineNo
	state, wrong := fieldStart, error(nil)
	r.blank = true
	for {
		c, err := r.byte()
		atEnd := errors.Is(err, io.EOF)
		if err != nil && !atEnd {
			r.last = r.lineNo
			return err
		}
		if atEnd && r.blank {
			return io.EOF
		}
		if atEnd && state == inQuotes {
			r.last = r.lineNo
			return wrongLine(fmt.Sprintf("a quote is opened and not closed: lines %d to %d were not read", r.line, r.last))
		}
		if atEnd || c == '\n' && state != inQuotes {
			r.last = r.lineNo
			if !atEnd {
				r.lineNo++
			}
			if wrong != nil {
				return wrong
			}
			return r.finish()
		}
		if r.blank = false; c == '\n' {
			r.lineNo++
		}
		switch {
		case c == '"' && state == fieldStart:
			state = inQuotes
			continue
		case c == '"' && state == inQuotes:
			state = afterQuotes
			continue
		case c == '"' && state == afterQuotes: // doubled: one quote in the text
			state = inQuotes
		case c == r.delimiter && state != inQuotes:
			r.ends = append(r.ends, len(r.text))
			state = fieldStart
			if len(r.ends) > MaxLine {
				wrong, r.ends = errTooLong, r.ends[:0]
			}
			continue
		case state == afterQuotes:
			wrong = wrongLine(fmt.Sprintf("field %d goes on after its closing quote", len(r.ends)+1))
			state = inField
		case state == fieldStart:
			state = inField
		}
		if len(r.text) == MaxLine {
			wrong, r.text, r.ends = errTooLong, r.text[:0], r.ends[:0]
		}
		r.text = append(r.text, c)
	}
}

// byte reads a byte, and a CR LF as a LF.
func (r *csvReader) byte() (byte, error) {
	c, err := r.in.ReadByte()
	if err != nil || c != '\r' {
		return c, err
	}
	following, err := r.in.Peek(1)
	switch {
	case err == nil && following[0] == '\n':
		return r.in.ReadByte()
	case errors.Is(err, io.EOF): // a file that was cut, or whose last line ends in CR
		return 0, err
	}
	return c, nil
}

func (r *csvReader) finish() error {
	text := string(r.text)
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	start := 0
	r.fields = make([]string, 0, len(r.ends)+1)
	for _, end := range r.ends {
		r.fields = append(r.fields, text[start:end])
		start = end
	}
	r.fields = append(r.fields, text[start:])
	return nil
}

// lineReader reads lines of bounded length.
type lineReader struct {
	in   *bufio.Reader
	line int // of the line last read
	text []byte
}

// next reads a line that is not blank. Its errors are those of csvReader.next.
func (r *lineReader) next() error {
	for {
		err := r.read()
		if err != nil || len(bytes.TrimSpace(r.text)) > 0 {
			return err
		}
	}
}

func (r *lineReader) read() error {
	r.line++
	r.text = r.text[:0]
	tooLong := false
	for {
		part, err := r.in.ReadSlice('\n')
		if tooLong = tooLong || len(r.text)+len(part) > MaxLine; !tooLong {
			r.text = append(r.text, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.text) == 0 && !tooLong:
			return io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return err
		case tooLong:
			return errTooLong
		case !utf8.Valid(r.text):
			return errNotUTF8
		}
		return nil
	}
}

// skipBOM takes a byte order mark off the beginning. It returns an error for text in UTF-16, which spreadsheets save too.
func skipBOM(in *bufio.Reader) error {
	start, _ := in.Peek(3)
	switch {
	case bytes.HasPrefix(start, []byte("\xef\xbb\xbf")):
		_, err := in.Discard(3)
		return err
	case bytes.HasPrefix(start, []byte("\xff\xfe")), bytes.HasPrefix(start, []byte("\xfe\xff")):
		return errors.New("the file is in UTF-16: save it as UTF-8, or convert it with: iconv -f UTF-16 -t UTF-8")
	}
	return nil
}

// quoted lists names for a message.
func quoted(names []string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = fmt.Sprintf("%.60q", name)
	}
	return strings.Join(list, ", ")
}
