package importer

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// Format is the shape of a file.
type Format string

// The formats.
const (
	CSV    Format = "csv"
	NDJSON Format = "ndjson"
)

// row is what a line of the file says.
type row struct {
	line, last int // where it begins and ends, from 1
	spec       ledger.TransferSpec
	err        error // what is wrong with it
}

// source reads a file line by line. It holds one line in memory.
type source struct {
	count   *countingReader
	csv     *csvReader
	header  []string
	decoder decoder
	json    *lineReader
	skipped int
}

// open begins to read a file. It returns an error that is about the whole file, such as a header without a column.
func open(in io.Reader, config Config) (*source, error) {
	s := &source{count: &countingReader{in: in}}
	buffered := bufio.NewReaderSize(s.count, 64<<10)
	if err := skipBOM(buffered); err != nil {
		return nil, err
	}
	format, err := guessFormat(buffered, config)
	if err != nil {
		return nil, err
	}
	if format == NDJSON {
		if config.Map != nil && config.Map.Transfer != nil {
			return nil, errors.New("a map with \"transfer\" is for CSV; NDJSON has the names of the API already")
		}
		s.json = &lineReader{in: buffered}
		return s, nil
	}
	return s, s.openCSV(buffered, config)
}

// guessFormat takes the format from the options, the name of the file or its first character.
func guessFormat(in *bufio.Reader, config Config) (Format, error) {
	switch config.Format {
	case CSV, NDJSON:
		return config.Format, nil
	case "":
	default:
		return "", fmt.Errorf("format %.20q is neither csv nor ndjson", config.Format)
	}
	start, err := in.Peek(512)
	if len(start) == 0 {
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
		return "", errEmpty
	}
	switch name := strings.ToLower(config.Name); {
	case strings.HasSuffix(name, ".ndjson"), strings.HasSuffix(name, ".jsonl"):
		return NDJSON, nil
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".tsv"):
		return CSV, nil
	}
	if start = bytes.TrimSpace(start); bytes.HasPrefix(start, []byte("{")) {
		return NDJSON, nil
	}
	return CSV, nil
}

func (s *source) openCSV(in *bufio.Reader, config Config) error {
	delimiter, err := config.delimiter()
	if err != nil {
		return err
	}
	s.csv = newCSVReader(in, delimiter)
	if config.Map != nil {
		for range config.Map.SkipLines {
			if err := skipLine(in); err != nil {
				return fmt.Errorf("the %d lines that the map skips: %w", config.Map.SkipLines, err)
			}
			s.csv.lineNo++
		}
	}
	if err := s.csv.next(); err != nil {
		if errors.Is(err, io.EOF) {
			return errEmpty
		}
		return fmt.Errorf("the header, line %d: %w", s.csv.line, err)
	}
	s.header = s.csv.fields
	if config.Map != nil && config.Map.Transfer != nil {
		s.decoder, err = newMapped(config.Map, s.header)
	} else {
		s.decoder, err = newShape(s.header)
	}
	if err != nil {
		return wrongDelimiter(s.header, delimiter, err)
	}
	return nil
}

func skipLine(in *bufio.Reader) error {
	for {
		_, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			return errors.New("the file ends within them")
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// next gives the next line that is neither blank nor skipped. Its error is io.EOF at the end, or that of the file, which
// ends the reading; what is wrong with a line is in the row.
func (s *source) next() (row, error) {
	for {
		r, skip, err := s.read()
		if err != nil || !skip {
			return r, err
		}
		s.skipped++
	}
}

func (s *source) read() (r row, skip bool, err error) {
	if s.json != nil {
		err = s.json.next()
		r.line, r.last = s.json.line, s.json.line
	} else {
		err = s.csv.next()
		r.line, r.last = s.csv.line, s.csv.last
	}
	var wrong wrongLine
	switch {
	case errors.As(err, &wrong):
		r.err = wrong
		return r, false, nil
	case err != nil:
		return r, false, err
	case s.json != nil:
		r.spec, r.err = parseJSON(s.json.text)
	default:
		if r.err = checkFields(s.csv.fields, s.header); r.err == nil {
			r.spec, skip, r.err = s.decoder.decode(s.csv.fields, r.line)
		}
	}
	if r.err == nil && !skip {
		r.err = r.spec.Validate()
	}
	return r, skip, nil
}

// cancelReader lets a context end the wait for input, such as that of a pipe in which nothing comes.
type cancelReader struct {
	ctx  context.Context
	in   io.Reader
	buf  []byte // lent to the read under way, which may outlive the call of Read
	rest []byte // of buf, not taken yet
	err  error
}

func (c *cancelReader) Read(p []byte) (int, error) {
	if len(c.rest) == 0 && c.err == nil {
		c.fill()
	}
	n := copy(p, c.rest)
	if c.rest = c.rest[n:]; len(c.rest) == 0 && n == 0 {
		return 0, c.err
	}
	return n, nil
}

func (c *cancelReader) fill() {
	if c.err = c.ctx.Err(); c.err != nil {
		return
	}
	if c.buf == nil {
		c.buf = make([]byte, 64<<10)
	}
	type result struct {
		n   int
		err error
	}
	done := make(chan result, 1)
	go func() {
		n, err := c.in.Read(c.buf)
		done <- result{n, err}
	}()
	select {
	case r := <-done:
		c.rest, c.err = c.buf[:r.n], r.err
	case <-c.ctx.Done():
		c.err = c.ctx.Err()
	}
}

// countingReader knows how much was read.
type countingReader struct {
	in io.Reader
	n  int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	c.n += int64(n)
	return n, err
}

// delimiterByte reads a delimiter: one character of ASCII, or \t; "" is none.
func delimiterByte(text string) (byte, error) {
	switch {
	case text == "":
		return 0, nil
	case text == `\t`:
		return '\t', nil
	case len(text) != 1 || text[0] >= 0x80 || strings.Contains("\"\r\n\x00", text):
		return 0, fmt.Errorf("%q is not a delimiter: want one character, such as ; or \\t", text)
	}
	return text[0], nil
}

func defaultDelimiter(name string) string {
	if strings.HasSuffix(strings.ToLower(name), ".tsv") {
		return "\t"
	}
	return ","
}
