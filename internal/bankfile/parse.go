package bankfile

import (
	"bufio"
	"context"
	"errors"
	"io"
)

// Parse reads a file and checks what it says of itself. The error is a *Refusal, by errors.As, if there is something wrong with the file, and then
// the File has as much of it as could be read: all of it, with all its checks, where it was well-formed and does not add up. There is one Refusal,
// the first; the Checks have the others. Another error means that the stream could not be read, that ctx has ended, or that the options are wrong.
//
// It reads r to its end, and holds what it returns in memory, but not the file, unless that is a zip. The File is nil only where the options are
// wrong.
func Parse(ctx context.Context, r io.Reader, o Options) (*File, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	p := &parse{ctx: ctx, o: o, limits: o.Limits.withDefaults(), file: &File{}, lines: map[*Statement]int{}}
	p.src = newSource(ctx, r, p.limits.Bytes)
	p.in = bufio.NewReaderSize(p.src, sniffed)
	return p.run()
}

// parse is the reading of one file.
type parse struct {
	ctx    context.Context
	o      Options
	limits Limits
	src    *source
	in     *bufio.Reader
	file   *File
	// refused is the first refusal of checks, after which reading goes on.
	refused *Refusal
	// lines counts those of each statement, the details of batches included.
	lines map[*Statement]int
}

func (p *parse) run() (*File, error) {
	err := p.read()
	if err == nil {
		err = p.verify()
	}
	var refused *Refusal
	if err != nil && !errors.As(err, &refused) {
		return p.file, err
	}
	// A refusal that stopped the reading comes before one of a check: without the rest of the file the check may be wrong.
	if refused == nil {
		refused = p.refused
	}
	identify(p.file)
	switch _, err := io.Copy(io.Discard, p.in); {
	case err == nil:
		p.file.SHA256 = p.src.hex()
	case refused == nil:
		return p.file, err
	}
	if refused != nil {
		return p.file, refused
	}
	return p.file, nil
}

// read reads the file in its format. A file that has nothing in it is refused: it may as well be one that was not understood.
func (p *parse) read() error {
	err := p.readFormat()
	if err == nil && len(p.file.Statements) == 0 {
		return refusal(ReasonEmpty, 0, "there is no statement in the file")
	}
	return err
}

func (p *parse) readFormat() error {
	p.file.Format = p.o.Format
	start, err := p.in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(start) < sniffed && len(sniffText(start)) == 0 {
		return refusal(ReasonEmpty, 0, "the file is empty")
	}
	if refused := noStatement(start); refused != nil && p.o.Format != FormatZip { // Of a format that was named, too: it says more than that the first line is wrong.
		return refused
	}
	if p.o.Format == "" {
		format, refused := sniff(start, p.o.Profile != nil)
		switch {
		case refused != nil:
			return refused
		case format == "" && p.o.Profile == nil:
			refused = refusal(ReasonNotThisFormat, 0,
				"the format is not known: it is none of Stripe, camt.053, MT940, BAI2, OFX and zip, and CSV needs a profile")
			refused.MayBeCSV = true
			return refused
		case format == "":
			format = FormatCSV
		}
		p.file.Format = format
	}
	switch p.file.Format {
	case FormatCSV:
		return p.csv()
	case FormatStripe:
		return p.stripe()
	case FormatCamt053:
		return p.camt()
	case FormatMT940:
		return p.mt940()
	case FormatBAI2:
		return p.bai2()
	case FormatOFX:
		return p.ofx()
	case FormatZip:
		return p.zip()
	}
	return refusal(ReasonNotThisFormat, 0, "there is no format %.40q", p.file.Format)
}

// refuse notes that a check refuses the file. The first is told.
func (p *parse) refuse(r *Refusal) {
	if p.refused == nil {
		p.refused = r
	}
}

// open adds a statement to the file.
func (p *parse) open(s *Statement) error {
	if len(p.file.Statements) >= p.limits.Statements {
		return refusal(ReasonTooLarge, 0, "the file has more than %d statements", p.limits.Statements)
	}
	s.Pages = max(1, s.Pages)
	p.file.Statements = append(p.file.Statements, s)
	return nil
}

// add adds a line to a statement. Its caller has set everything but Ordinal and Identity.
func (p *parse) add(s *Statement, line *Line) error {
	if err := p.room(s, 1+len(line.Details), line.Position); err != nil {
		return err
	}
	p.lines[s] += 1 + len(line.Details)
	if line.Amount.IsZero() && line.Status == StatusBooked {
		line.Status = StatusInformation
		line.flag(FlagZero, "the amount is zero: kept as information")
	}
	if line.BookingDate.IsZero() {
		line.BookingDate = line.ValueDate
	}
	line.Ordinal = len(s.Lines) + 1
	for i := range line.Details {
		detail := &line.Details[i]
		detail.Ordinal, detail.Status = i+1, line.Status
		if detail.BookingDate.IsZero() {
			detail.BookingDate = line.BookingDate
		}
		if detail.ValueDate.IsZero() {
			detail.ValueDate = line.ValueDate
		}
	}
	s.Lines = append(s.Lines, *line)
	return nil
}

// room refuses a statement that would have too many lines with some more.
func (p *parse) room(s *Statement, more, position int) error {
	if p.lines[s]+more > p.limits.Lines {
		return refusal(ReasonTooLarge, position, "a statement has more than %d lines", p.limits.Lines)
	}
	return nil
}
