package cli

import (
	"strings"
	"unicode/utf8"
)

// columns are a list for people, each column as wide as what is in it. A column in which nothing stands is left out.
type columns struct {
	titles []string
	right  []bool
	rows   [][]string
}

// newColumns begins a list. What a title that begins with ">" stands above is aligned to the right, as amounts are.
func newColumns(titles ...string) *columns {
	c := &columns{}
	for _, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		c.titles, c.right = append(c.titles, name), append(c.right, right)
	}
	return c
}

// row adds a row. What strangers have written does nothing in a terminal.
func (c *columns) row(cells ...string) {
	for i := range cells {
		cells[i] = plainText(cells[i])
	}
	c.rows = append(c.rows, cells)
}

// text is the list, titles first, each line after an indent; without rows it is "".
func (c *columns) text(indent string) string {
	if len(c.rows) == 0 {
		return ""
	}
	widths := make([]int, len(c.titles))
	for _, row := range c.rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for i, title := range c.titles {
		if widths[i] > 0 {
			widths[i] = max(widths[i], utf8.RuneCountInString(title))
		}
	}
	var out strings.Builder
	line := func(cells []string) {
		var text strings.Builder
		text.WriteString(indent)
		for i, cell := range cells {
			if widths[i] == 0 {
				continue
			}
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if c.right[i] {
				cell = pad + cell
			} else {
				cell += pad
			}
			text.WriteString(cell + "  ")
		}
		out.WriteString(strings.TrimRight(text.String(), " ") + "\n")
	}
	if strings.Join(c.titles, "") != "" {
		line(c.titles)
	}
	for _, row := range c.rows {
		line(row)
	}
	return out.String()
}

// short is a text of strangers that is not to make a list too wide. All of it is in --json, and where one thing is shown.
func short(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most-1]) + "…"
}

// listing prints what there is of something: with --json at once, one object a line, and else as columns at the end.
type listing struct {
	app *app
	*columns
}

func (a *app) list(titles ...string) *listing { return &listing{a, newColumns(titles...)} }

func (l *listing) add(object any, cells ...string) error {
	if l.app.json {
		return l.app.print(object, "")
	}
	l.row(cells...)
	return nil
}

// end prints the columns. What was listed before an error is printed, too.
func (l *listing) end() error { return l.app.write(l.text("")) }

// write prints text that has its own line ends.
func (a *app) write(text string) error {
	if text == "" {
		return nil
	}
	_, err := a.Out.Write([]byte(text))
	return err
}
