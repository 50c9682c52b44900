package bankfile

import (
	"bufio"
	"context"
	"errors"
	"io"
)

// PreviewLine is what a line of a CSV file is by a profile.
type PreviewLine struct {
	Kind RowKind
	// Position is the line of the text that it begins on, from 1.
	Position int
	Fields   []string
	// Line is what a RowLine is read as; nil for other kinds, and where Err is set. It has no identity.
	Line *Line
	// Account is the account that the row names, or the profile's.
	Account string
	// Err is what is wrong with this line alone.
	Err error
}

// Preview reads the first lines of a CSV file by a profile, up to a number of them, for a person to see what the profile makes of each. It goes on
// after a line that is wrong. The error is that of the profile, of reading, or a *Refusal for what makes the rest unreadable; the lines before it are
// returned.
//
// A line is known to be of the footer only if the file ends within the lines that are read.
func Preview(ctx context.Context, r io.Reader, profile Profile, limits Limits, lines int) ([]PreviewLine, error) {
	if err := profile.Validate(); err != nil {
		return nil, err
	}
	limits = limits.withDefaults()
	in := bufio.NewReaderSize(newSource(ctx, r, limits.Bytes), sniffed)
	start, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if refused := noStatement(start); refused != nil {
		return nil, refused
	}
	scan, err := newCSVScan(&profile, in, limits)
	if err != nil {
		return nil, err
	}
	var out []PreviewLine
	var decoder *csvDecoder
	var unfit error
	for len(out) < lines {
		row, err := scan.next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if decoder == nil && unfit == nil && row.kind != RowSkipped {
			decoder, unfit = newCSVDecoder(&profile, scan.header)
		}
		out = append(out, previewLine(decoder, unfit, row))
	}
	return out, nil
}

// previewLine reads one row. That the profile does not fit the header is told at the header, or where there is none at each row.
func previewLine(decoder *csvDecoder, unfit error, row csvRow) PreviewLine {
	line := PreviewLine{Kind: row.kind, Position: row.position, Fields: row.fields}
	switch {
	case row.kind == RowHeader:
		line.Err = unfit
	case row.kind == RowLine && unfit == nil:
		read, err := decoder.decode(row)
		if line.Account, line.Err = read.account, err; err == nil {
			line.Line = &read.line
		}
	}
	return line
}
