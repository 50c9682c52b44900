package importer

import (
	"encoding/json"
	"fmt"
	"strings"
)

// template is text with columns in it, such as "berka-{trans_id}". It has parts of both kinds in turn, text first.
type template []string

// The columns that every line has, beside those of the file.
const (
	lineColumn = "#line" // the number of the line
	hashColumn = "#hash" // a hash of all its fields, and of how many lines like it came before
)

// UnmarshalJSON reads a template from a string.
func (t *template) UnmarshalJSON(text []byte) error {
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return fmt.Errorf("%.60s is neither a text in quotes nor a list of cases", text)
	}
	var err error
	*t, err = parseTemplate(s)
	return err
}

func parseTemplate(s string) (template, error) {
	parts := template{""}
	add := func(text string) { parts[len(parts)-1] += text }
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			add(s)
			break
		}
		add(s[:i])
		brace := s[i : i+1]
		s = s[i+1:]
		if strings.HasPrefix(s, brace) { // doubled: the brace itself
			add(brace)
			s = s[1:]
			continue
		}
		column, rest, closed := strings.Cut(s, "}")
		if brace == "}" || !closed || strings.Contains(column, "{") {
			return nil, fmt.Errorf("a brace in a template has no other; write {{ or }} for the brace itself")
		}
		parts = append(parts, column, "")
		s = rest
	}
	return parts, nil
}

// columns visits the names of the columns.
func (t template) columns(visit func(name string) error) error {
	for i := 1; i < len(t); i += 2 {
		if err := visit(t[i]); err != nil {
			return err
		}
	}
	return nil
}

func (t template) expand(column func(name string) string) string {
	if len(t) == 1 {
		return t[0]
	}
	var out strings.Builder
	for i, part := range t {
		if i%2 == 1 {
			part = column(part)
		}
		out.WriteString(part)
	}
	return strings.TrimSpace(out.String())
}

// dateTokens are what a date layout is made of, the longer of two that begin alike first, and Go's words for them.
var dateTokens = []struct{ token, layout string }{
	{"YYYY", "2006"}, {"YY", "06"}, {"MMM", "Jan"}, {"MM", "01"}, {"M", "1"}, {"DD", "02"}, {"D", "2"},
	{"hh", "15"}, {"mm", "04"}, {"ss", "05"},
}

// goLayout turns "DD.MM.YYYY" into "02.01.2006".
func goLayout(layout string) (string, error) {
	var out strings.Builder
	has := map[byte]bool{}
next:
	for rest := layout; rest != ""; {
		for _, t := range dateTokens {
			if strings.HasPrefix(rest, t.token) {
				out.WriteString(t.layout)
				has[t.token[0]] = true
				rest = rest[len(t.token):]
				continue next
			}
		}
		if !strings.Contains(" .,:/-T", rest[:1]) {
			return "", fmt.Errorf("%q is not a layout: it is made of YYYY or YY, MM or M or MMM (Jan), DD or D, hh, mm, ss, "+
				"and the characters \" .,:/-T\" between them", layout)
		}
		out.WriteByte(rest[0])
		rest = rest[1:]
	}
	if !has['Y'] || !has['M'] || !has['D'] {
		return "", fmt.Errorf("%q has no year, no month or no day", layout)
	}
	return out.String(), nil
}
