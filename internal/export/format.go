package export

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// Format is a form that a report can be had in.
type Format string

// The formats.
const (
	// Table is text for a terminal: aligned, with its facts above and its checks below.
	Table Format = "table"
	// CSV is the rows and nothing else, for programs and for spreadsheets.
	CSV Format = "csv"
	// JSON is everything, exactly as it is: what has to be read back is kept so.
	JSON Format = "json"
	// XLSX is a workbook for a spreadsheet: the rows, and on a sheet of their own the facts and the checks.
	XLSX Format = "xlsx"
)

var formats = []Format{Table, CSV, JSON, XLSX}

// Formats lists the formats.
func Formats() []Format { return slices.Clone(formats) }

// ParseFormat reads a format. It returns CodeInvalidArgument.
func ParseFormat(text string) (Format, error) {
	if f := Format(text); slices.Contains(formats, f) {
		return f, nil
	}
	names := make([]string, len(formats))
	for i, f := range formats {
		names[i] = string(f)
	}
	last := len(names) - 1
	return "", ledger.Invalid("format", "%.40q is no format: it is %s or %s", text, strings.Join(names[:last], ", "), names[last])
}

// ContentType is the media type of the format, for HTTP.
func (f Format) ContentType() string {
	switch f {
	case CSV:
		return "text/csv; charset=utf-8; header=present"
	case JSON:
		return "application/json"
	case XLSX:
		return "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
	}
	return "text/plain; charset=utf-8"
}

// Extension is the end of the name of a file in the format, with its point: ".csv".
func (f Format) Extension() string {
	switch f {
	case CSV, JSON, XLSX:
		return "." + string(f)
	}
	return ".txt"
}

// New makes a writer of sheets to w. It keeps a bounded part of a sheet in memory, however long that is; XLSX also writes temporary files, since
// nothing of it can go out before the last row is known, and gives its writer a Close (io.Closer) for a sheet that breaks off before its End.
// A format that ParseFormat does not give has a writer that refuses.
func New(f Format, w io.Writer) sheet.Writer {
	switch f {
	case Table:
		return newTable(w)
	case CSV:
		return newCSV(w)
	case JSON:
		return sheet.NewJSON(w)
	case XLSX:
		return newXLSX(w)
	}
	return refusing(f)
}

// refusing is the writer of a format that is none.
type refusing Format

func (r refusing) Begin(sheet.Head) error {
	return fmt.Errorf("write a sheet: %.40q is no format", string(r))
}
func (r refusing) Row(sheet.Row) error       { return r.Begin(sheet.Head{}) }
func (r refusing) End(_ []sheet.Check) error { return r.Begin(sheet.Head{}) }

// FileName is a name for the file of a sheet: its report, its ledger, its account if it is of one, its period. It has nothing in it but a-z, 0-9,
// ".", "_" and "-", so that it goes into an HTTP header and onto any disk as it is, and does not begin with a point.
func FileName(head sheet.Head, f Format) string {
	parts := []string{head.Report, head.Fact("ledger"), head.Fact("account")}
	if period := head.Fact("period"); period != "" {
		parts = append(parts, period)
	} else {
		parts = append(parts, head.Fact("from"), head.Fact("to"))
	}
	var name []string
	for _, part := range parts {
		if part = plainName(part); part != "" {
			name = append(name, part)
		}
	}
	if len(name) == 0 {
		name = []string{"report"}
	}
	return strings.Join(name, "_") + f.Extension()
}

// plainName is what a file's name can have of a text: letters and digits of ASCII, and one "-" for any others between them.
func plainName(text string) string {
	const most = 60 // Four of them and an extension fit into the 255 bytes of a name.
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case b.Len() == most:
			return strings.Trim(b.String(), "._-")
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '.', r == '_':
			b.WriteRune(r)
		case !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
	}
	return strings.Trim(b.String(), "._-")
}

// checkCells makes sure that a row has the cells of its sheet: one more or less would put amounts into columns that they are not of.
func checkCells(columns []sheet.Column, row sheet.Row) error {
	if len(row.Cells) != len(columns) {
		return fmt.Errorf("write a sheet: a row has %d cells for %d columns", len(row.Cells), len(columns))
	}
	return nil
}
