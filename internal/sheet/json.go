package sheet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// JSON writes a sheet as JSON, a row a line, always in the same bytes: a statement is kept so, and its hash is of these. Every value is a string,
// amounts too: a number of JSON is a binary one to most readers, and loses digits. The cells of a row go by the ids of their columns, and empty
// ones are left out.
type JSON struct {
	w       *bufio.Writer
	columns []Column
	rows    int
	scratch bytes.Buffer
	encoder *json.Encoder
}

// NewJSON writes to w.
func NewJSON(w io.Writer) *JSON {
	j := &JSON{w: bufio.NewWriter(w)}
	j.encoder = json.NewEncoder(&j.scratch)
	j.encoder.SetEscapeHTML(false)
	return j
}

func (j *JSON) value(v any) string {
	j.scratch.Reset()
	_ = j.encoder.Encode(v) // strings, booleans and structs of these
	return strings.TrimSuffix(j.scratch.String(), "\n")
}

// Begin writes the head. It returns an error if the ids of the columns would not tell the members of a row apart.
func (j *JSON) Begin(head Head) error {
	taken := map[string]bool{"row": true, "depth": true}
	for _, c := range head.Columns {
		if taken[c.ID] {
			return fmt.Errorf("write a sheet: a column cannot be called %q, which is something else in its rows", c.ID)
		}
		taken[c.ID] = true
	}
	j.columns = head.Columns
	fmt.Fprintf(j.w, "{\"report\": %s, \"title\": %s,\n\"facts\": [", j.value(head.Report), j.value(head.Title))
	for i, f := range head.Facts {
		fmt.Fprintf(j.w, "%s\n  {\"id\": %s, \"title\": %s, \"value\": %s}", comma(i), j.value(f.ID), j.value(f.Title), j.value(f.Value))
	}
	fmt.Fprint(j.w, "],\n\"columns\": [")
	for i, c := range head.Columns {
		fmt.Fprintf(j.w, "%s\n  {\"id\": %s, \"title\": %s, \"kind\": %s}", comma(i), j.value(c.ID), j.value(c.Title), j.value(c.Kind))
	}
	_, err := j.w.WriteString("],\n\"rows\": [")
	return err
}

func comma(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// Row writes a row.
func (j *JSON) Row(row Row) error {
	if len(row.Cells) != len(j.columns) {
		return fmt.Errorf("write a sheet: a row has %d cells for %d columns", len(row.Cells), len(j.columns))
	}
	fmt.Fprintf(j.w, "%s\n  {\"row\": %s", comma(j.rows), j.value(row.Kind))
	j.rows++
	if row.Depth > 0 {
		fmt.Fprintf(j.w, ", \"depth\": \"%d\"", row.Depth)
	}
	for i, cell := range row.Cells {
		if cell != "" {
			fmt.Fprintf(j.w, ", %s: %s", j.value(j.columns[i].ID), j.value(cell))
		}
	}
	_, err := j.w.WriteString("}")
	return err
}

// End writes the checks.
func (j *JSON) End(checks []Check) error {
	fmt.Fprint(j.w, "],\n\"checks\": [")
	for i, c := range checks {
		fmt.Fprintf(j.w, "%s\n  {\"name\": %s, \"ok\": %t", comma(i), j.value(c.Name), c.OK)
		if c.Detail != "" {
			fmt.Fprintf(j.w, ", \"detail\": %s", j.value(c.Detail))
		}
		fmt.Fprint(j.w, "}")
	}
	fmt.Fprint(j.w, "]}\n")
	return j.w.Flush()
}

// ParseJSON reads what JSON has written.
func ParseJSON(data []byte) (*Sheet, error) {
	var parsed struct {
		Report, Title string
		Facts         []Fact
		Columns       []Column
		Rows          []map[string]string
		Checks        []Check
	}
	if err := json.Unmarshal(data, &parsed); err != nil {
		return nil, fmt.Errorf("read a sheet: %w", err)
	}
	if parsed.Report == "" || len(parsed.Columns) == 0 {
		return nil, errors.New("read a sheet: it has no report or no columns")
	}
	s := &Sheet{Head: Head{Report: parsed.Report, Title: parsed.Title, Facts: parsed.Facts, Columns: parsed.Columns}, Checks: parsed.Checks}
	for _, cells := range parsed.Rows {
		row := Row{Kind: RowKind(cells["row"]), Cells: make([]string, len(parsed.Columns))}
		if depth := cells["depth"]; depth != "" {
			var err error
			if row.Depth, err = strconv.Atoi(depth); err != nil || row.Depth < 1 {
				return nil, fmt.Errorf("read a sheet: depth %.20q", depth)
			}
		}
		for i, c := range parsed.Columns {
			row.Cells[i] = cells[c.ID]
		}
		s.Rows = append(s.Rows, row)
	}
	return s, nil
}
