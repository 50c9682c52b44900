package bankfile

import (
	"fmt"
	"strings"
)

// dateLayout is how a date is written, in its parts. It is read by ourselves, and not by package time, since a bank's 30 February must be told from
// what is no date at all.
type dateLayout []layoutPart

// layoutPart is a token, or a character that stands as it is.
type layoutPart struct {
	token   string
	literal byte
}

// layoutTokens are the parts of a date, the longer of two that begin alike first, and the digits that each takes.
var layoutTokens = []struct {
	token       string
	least, most int
}{
	{"YYYY", 4, 4}, {"YY", 2, 2}, {"MMM", 0, 0}, {"MM", 2, 2}, {"M", 1, 2}, {"DD", 2, 2}, {"D", 1, 2}, {"hh", 2, 2}, {"mm", 2, 2}, {"ss", 2, 2},
}

const monthNames = "JANFEBMARAPRMAYJUNJULAUGSEPOCTNOVDEC"

// parseLayout reads "DD.MM.YYYY".
func parseLayout(format string) (dateLayout, error) {
	var layout dateLayout
	count := map[byte]int{}
next:
	for rest := format; rest != ""; {
		for _, t := range layoutTokens {
			if strings.HasPrefix(rest, t.token) {
				layout = append(layout, layoutPart{token: t.token})
				count[t.token[0]]++
				rest = rest[len(t.token):]
				continue next
			}
		}
		if !strings.Contains(" .,:/-T", rest[:1]) {
			return nil, fmt.Errorf("%.60q is not a date format: it is made of YYYY or YY, MM or M or MMM (Jan), DD or D, hh, mm, ss, "+
				"and the characters \" .,:/-T\" between them", format)
		}
		layout = append(layout, layoutPart{literal: rest[0]})
		rest = rest[1:]
	}
	if count['Y'] != 1 || count['M'] != 1 || count['D'] != 1 {
		return nil, fmt.Errorf("%.60q has not one year, one month and one day", format)
	}
	return layout, nil
}

// parse reads a date, which may be one that does not exist.
func (l dateLayout) parse(text string) (rawDate, bool) {
	var date rawDate
	for _, part := range l {
		if part.token == "" {
			if text == "" || text[0] != part.literal {
				return rawDate{}, false
			}
			text = text[1:]
			continue
		}
		n, rest, ok := part.number(text)
		if !ok {
			return rawDate{}, false
		}
		text = rest
		switch part.token {
		case "YYYY":
			date.year = n
		case "YY":
			date.year = century(n)
		case "MMM", "MM", "M":
			date.month = n
		case "DD", "D":
			date.day = n
		}
	}
	return date, text == ""
}

// number reads what a token stands for, as a number.
func (p layoutPart) number(text string) (n int, rest string, ok bool) {
	if p.token == "MMM" {
		const length = 3
		if len(text) < length {
			return 0, "", false
		}
		at := strings.Index(monthNames, strings.ToUpper(text[:length]))
		return at/length + 1, text[length:], at >= 0 && at%length == 0
	}
	for _, t := range layoutTokens {
		if t.token != p.token {
			continue
		}
		digits := 0
		for digits < t.most && digits < len(text) && text[digits] >= '0' && text[digits] <= '9' {
			digits++
		}
		return smallInt(text[:digits]), text[digits:], digits >= t.least
	}
	return 0, "", false
}

// parseDate reads a date in the first layout that fits.
func parseDate(layouts []dateLayout, text string) (rawDate, error) {
	text = clean(text)
	for _, layout := range layouts {
		if date, ok := layout.parse(text); ok {
			return date, nil
		}
	}
	formats := make([]string, len(layouts))
	for i, layout := range layouts {
		formats[i] = layout.String()
	}
	return rawDate{}, fmt.Errorf("%.40q is not a date in the format of the profile, which is %s: date_formats says how dates are written", text,
		strings.Join(formats, " or "))
}

// String is the format that parseLayout has read.
func (l dateLayout) String() string {
	var format strings.Builder
	for _, part := range l {
		if part.token != "" {
			format.WriteString(part.token)
		} else {
			format.WriteByte(part.literal)
		}
	}
	return format.String()
}
