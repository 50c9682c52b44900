package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/schollz/progressbar/v3"
	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger/client"
)

// svg is the format of a plot, which some reports can be had in beside those of package export.
const svg export.Format = "svg"

// sheetFlags are the flags of where a report goes, and in what form.
type sheetFlags struct {
	format, file string
	formats      []export.Format
}

func (f *sheetFlags) add(cmd *cobra.Command, more ...export.Format) {
	f.formats = slices.Concat(export.Formats(), more)
	cmd.Flags().StringVar(&f.format, "format", "", f.names()+" (default: by the end of --file's name, or table)")
	cmd.Flags().StringVar(&f.file, "file", "", "file to write to; it is there whole, or not at all (default: standard output)")
	onlyOnCommandLine(cmd, "format")
	onlyOnCommandLine(cmd, "file")
}

// names are those of the formats, for people.
func (f *sheetFlags) names() string {
	names := make([]string, len(f.formats))
	for i, format := range f.formats {
		names[i] = string(format)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}

// choose finds out the format. With --json it is json, unless something else is asked for.
func (f *sheetFlags) choose(a *app) (export.Format, error) {
	format := export.Format(f.format)
	if extension := export.Format(strings.TrimPrefix(filepath.Ext(f.file), ".")); format == "" && slices.Contains(f.formats, extension) {
		format = extension
	}
	switch {
	case format == "" && a.json:
		format = export.JSON
	case format == "":
		format = export.Table
	case !slices.Contains(f.formats, format):
		return "", usagef("--format %q: want %s", f.format, f.names())
	}
	if format == export.XLSX && f.file == "" && isTerminal(a.Out) {
		return "", usagef("a workbook is nothing to look at in a terminal: give --file NAME.xlsx, or redirect standard output")
	}
	return format, nil
}

// writeSheet writes a sheet where the flags say. Once all of it is there, a check that does not hold is an error.
func (a *app) writeSheet(f sheetFlags, write func(sheet.Writer) error) (err error) {
	format, err := f.choose(a)
	if err != nil {
		return err
	}
	out, end, err := a.openOutput(f.file)
	if err != nil {
		return err
	}
	w := &sheetOutput{Writer: newSheetWriter(format, out)}
	if closer, ok := w.Writer.(io.Closer); ok {
		defer closer.Close()
	}
	if (format == export.CSV || format == svg) && !a.json {
		w.facts = a.Err // They are not in the file.
	}
	if f.file != "" || !isTerminal(a.Out) {
		w.bar = a.countBar("rows")
	}
	err = write(w)
	clearBar(w.bar)
	if err = end(err); err != nil {
		return err
	}
	return failedChecks(w.checks)
}

// openOutput opens the file, or standard output. End makes the file what it is to be, unless there is an error, and returns that.
func (a *app) openOutput(path string) (out io.Writer, end func(error) error, err error) {
	if path == "" {
		return a.Out, func(err error) error { return err }, nil
	}
	file, err := createFile(path)
	if err != nil {
		return nil, nil, err
	}
	return file, func(err error) error {
		if err != nil {
			file.abandon()
			return err
		}
		return file.commit()
	}, nil
}

func newSheetWriter(format export.Format, w io.Writer) sheet.Writer {
	if format == svg {
		return &plotWriter{w: w}
	}
	return export.New(format, w)
}

// sheetOutput looks on while a sheet is written.
type sheetOutput struct {
	sheet.Writer
	facts  io.Writer // nil if the format has them
	bar    *progressbar.ProgressBar
	rows   int64
	checks []sheet.Check
}

// Begin tells the facts, if the format does not.
func (o *sheetOutput) Begin(head sheet.Head) error {
	if o.facts != nil {
		for _, fact := range head.Facts {
			fmt.Fprintf(o.facts, "%s: %s\n", plainText(fact.Title), plainText(fact.Value))
		}
	}
	return o.Writer.Begin(head)
}

// Row counts.
func (o *sheetOutput) Row(row sheet.Row) error {
	if o.rows++; o.bar != nil {
		_ = o.bar.Set64(o.rows)
	}
	return o.Writer.Row(row)
}

// End keeps the checks.
func (o *sheetOutput) End(checks []sheet.Check) error {
	o.checks = checks
	return o.Writer.End(checks)
}

// failedChecks is an error if a check does not hold.
func failedChecks(checks []sheet.Check) error {
	failed := sheet.Failed(checks)
	if len(failed) == 0 {
		return nil
	}
	lines := make([]string, len(failed))
	for i, c := range failed {
		lines[i] = "it does not hold that " + c.Name
		if c.Detail != "" {
			lines[i] += ": " + c.Detail
		}
	}
	return errors.New(plainText(strings.Join(lines, "; ")))
}

// plainText is a text that does nothing in a terminal: what users have written comes in quotes if it might.
func plainText(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Sprintf("%+q", text)
	}
	return text
}

// countBar tells how many there are already; nil where nobody looks.
func (a *app) countBar(of string) *progressbar.ProgressBar {
	if a.json || !isTerminal(a.Err) {
		return nil
	}
	return progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.Err), progressbar.OptionSetDescription(of), progressbar.OptionShowCount(),
		progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetSpinnerChangeInterval(0))
}

// clearBar leaves nothing of it on the screen. It may be nil.
func clearBar(bar *progressbar.ProgressBar) {
	if bar != nil {
		_, _ = bar.Clear(), bar.Exit()
	}
}

// plotWriter draws a report that has a balance for each day.
type plotWriter struct {
	w                       io.Writer
	series                  export.PlotSeries
	date, currency, balance int
}

// Begin finds the columns.
func (p *plotWriter) Begin(head sheet.Head) error {
	column := func(id string) int {
		return slices.IndexFunc(head.Columns, func(c sheet.Column) bool { return c.ID == id })
	}
	p.date, p.currency, p.balance = column("date"), column("currency"), column("balance")
	if min(p.date, p.currency, p.balance) < 0 {
		return fmt.Errorf("the report %s has nothing to draw", head.Report)
	}
	p.series.Title = head.Fact("account")
	return nil
}

// Row takes a day.
func (p *plotWriter) Row(row sheet.Row) error {
	if row.Kind != sheet.Item {
		return nil
	}
	value, err := decimal.NewFromString(row.Cells[p.balance])
	if err != nil {
		return fmt.Errorf("draw the balance of %s: %w", row.Cells[p.date], err)
	}
	p.series.Currency, p.series.Scale = row.Cells[p.currency], max(0, -value.Exponent())
	p.series.Points = append(p.series.Points, export.Point{Day: row.Cells[p.date], Value: value})
	return nil
}

// End draws.
func (p *plotWriter) End([]sheet.Check) error { return export.Plot(p.w, p.series) }

// fromServer gives a sheet as it comes from a server to what writes sheets.
type fromServer struct{ w sheet.Writer }

// Begin implements client.ReportWriter.
func (f fromServer) Begin(in client.ReportHead) error {
	head := sheet.Head{Report: in.Report, Title: in.Title}
	for _, fact := range in.Facts {
		head.Facts = append(head.Facts, sheet.Fact(fact))
	}
	for _, c := range in.Columns {
		head.Columns = append(head.Columns, sheet.Column{ID: c.ID, Title: c.Title, Kind: sheet.Kind(c.Kind)})
	}
	return f.w.Begin(head)
}

// Row implements client.ReportWriter.
func (f fromServer) Row(in client.ReportRow) error {
	return f.w.Row(sheet.Row{Kind: sheet.RowKind(in.Kind), Depth: in.Depth, Cells: in.Cells})
}

// End implements client.ReportWriter.
func (f fromServer) End(in []client.ReportCheck) error {
	checks := make([]sheet.Check, len(in))
	for i, c := range in {
		checks[i] = sheet.Check(c)
	}
	return f.w.End(checks)
}
