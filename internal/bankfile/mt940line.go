package bankfile

import (
	"fmt"
	"regexp"
	"strings"
)

// linePattern is :61: value date, entry date (four spaces are none), mark, the third letter of the currency, amount, and the rest.
var linePattern = regexp.MustCompile(`^(\d{6})(\d{4}| {4})?(R?[CD])([A-Z])?(\d+(?:,\d*)?)([A-Za-z].*)?$`)

// mtReference is how long the first reference of :61: may be. What is longer goes on with the bank's own text, without a mark between them.
const mtReference = 16

// mtLine reads a :61:. Its lines after the first are the bank's own text.
func mtLine(f mtField) (Line, error) {
	line := Line{Status: StatusBooked, Position: f.position}
	head, supplement, _ := strings.Cut(f.text, "\n")
	parts := linePattern.FindStringSubmatch(strings.TrimRight(head, " "))
	if parts == nil {
		return line, fmt.Errorf("%.80q is not a statement line such as 2403120312D12,34NTRFNONREF", head)
	}
	raw, _ := shortDate(parts[1])
	if err := line.setValueDate(raw); err != nil {
		return line, err
	}
	line.BookingDate = line.ValueDate
	var err error
	if isDigits(parts[2]) {
		if line.BookingDate, err = yearNear(smallInt(parts[2][:2]), smallInt(parts[2][2:]), line.ValueDate); err != nil {
			return line, fmt.Errorf("entry date: %w", err)
		}
	}
	if line.Amount, err = parseNumber(parts[5], ','); err != nil {
		return line, err
	}
	// A reversed credit takes money away, and a reversed debit gives it back.
	line.Reversal = strings.HasPrefix(parts[3], "R")
	if parts[3] == "D" || parts[3] == "RC" {
		line.Amount = line.Amount.Neg()
	}
	rest := line.kind(parts[6])
	customer, bank, _ := strings.Cut(rest, "//")
	customer, more := cutRunes(customer, mtReference)
	if more != "" {
		supplement = more + "\n" + supplement
	}
	line.References.Customer, line.References.Bank = reference(customer), reference(bank)
	line.ExternalID = line.References.Bank
	line.Description = supplement
	return line, nil
}

// kind takes the type of transaction, a letter and three more characters, off what follows the amount.
func (l *Line) kind(text string) (rest string) {
	const length = 4
	code, rest := cutRunes(text, length)
	l.Code = clean(code)
	return rest
}

// cutRunes splits text after a number of characters, or gives all of it.
func cutRunes(text string, n int) (head, rest string) {
	for i := range text {
		if n == 0 {
			return text[:i], text[i:]
		}
		n--
	}
	return text, ""
}

// describe reads the :86: fields of a line. What they hold is each bank's own affair, with one exception that is common in the German-speaking
// countries: a code, then parts that begin with "?" and two digits.
func (l *Line) describe(text string) {
	if parts, ok := detailParts(text); ok {
		l.structured(parts)
		return
	}
	l.References.EndToEnd = keyword(text, "/EREF/", "/")
	l.Description = join(" ", l.Description, text)
}

var detailStart = regexp.MustCompile(`^\s*\d{3}\s*\?\d\d`)

// detailParts splits "166?00GUTSCHRIFT?20EREF+…" by the numbers of its parts. The lines are joined as they are: they were broken by length.
func detailParts(text string) (map[int]string, bool) {
	if !detailStart.MatchString(text) {
		return nil, false
	}
	found := map[int]*strings.Builder{}
	for _, part := range strings.Split(strings.ReplaceAll(text, "\n", ""), "?")[1:] {
		if len(part) < 2 || !isDigits(part[:2]) {
			continue
		}
		number := smallInt(part[:2])
		if found[number] == nil {
			found[number] = &strings.Builder{}
		}
		found[number].WriteString(part[2:])
	}
	parts := map[int]string{}
	for number, text := range found {
		parts[number] = text.String()
	}
	return parts, true
}

// The numbers of parts: purposes in 20 to 29 and 60 to 63, the other bank, account and name in 30 to 33.
const (
	partTitle      = 0
	partPurpose    = 20
	partPurposeEnd = 29
	partBank       = 30
	partAccount    = 31
	partName       = 32
	partName2      = 33
	partMore       = 60
	partMoreEnd    = 63
)

func (l *Line) structured(parts map[int]string) {
	var purpose strings.Builder
	for i := partPurpose; i <= partPurposeEnd; i++ {
		purpose.WriteString(parts[i])
	}
	for i := partMore; i <= partMoreEnd; i++ {
		purpose.WriteString(parts[i])
	}
	text := purpose.String()
	l.References.EndToEnd = keyword(text, "EREF+", "")
	l.References.Mandate = keyword(text, "MREF+", "")
	if l.References.Customer == "KREF+" || l.References.Customer == "" { // KREF+: look in the purpose
		l.References.Customer = keyword(text, "KREF+", "")
	}
	if paid := cutKeyword(text, "SVWZ+"); paid != "" {
		text = paid
	}
	l.Counterparty = Party{Name: join(" ", parts[partName], parts[partName2]), Account: clean(parts[partAccount]), Bank: clean(parts[partBank])}
	l.Description = join(" ", l.Description, parts[partTitle], text)
}

// sepaKeywords begin the parts of a purpose.
var sepaKeywords = []string{
	"EREF+", "KREF+", "MREF+", "CRED+", "DEBT+", "SVWZ+", "ABWA+", "ABWE+", "IBAN+", "BIC+", "COAM+", "OAMT+", "PURP+", "RTRN+", "SQTP+",
}

// cutKeyword gives what follows a keyword, up to the next, "" if it is not there.
func cutKeyword(text, key string) string {
	_, after, found := strings.Cut(text, key)
	if !found {
		return ""
	}
	for _, next := range sepaKeywords {
		after, _, _ = strings.Cut(after, next)
	}
	return clean(after)
}

// keyword gives a reference that follows a keyword, up to some end, or to the next keyword.
func keyword(text, key, end string) string {
	found := cutKeyword(strings.ReplaceAll(text, "\n", ""), key)
	if end != "" {
		found, _, _ = strings.Cut(found, end)
	}
	return reference(found)
}
