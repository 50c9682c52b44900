package bankfile

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
)

// mt940 reads customer statement messages of SWIFT, with or without the envelope of the network, one after another.
func (p *parse) mt940() error {
	r := &mtReader{lines: lineReader{in: skipBOM(p.in), limit: p.limits.Element}, limit: p.limits.Element}
	m := &mtMessage{p: p}
	for {
		field, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := m.take(field); err != nil {
			return err
		}
	}
	if err := m.finish(); err != nil {
		return err
	}
	if len(p.file.Statements) == 0 {
		return refusal(ReasonNotThisFormat, 0, "it has no field :20: it is no MT940")
	}
	return nil
}

// mtField is a field of a message, such as ":61:…", whose text may be several lines.
type mtField struct {
	tag      string
	text     string
	position int
}

// mtReader reads fields.
type mtReader struct {
	lines lineReader
	limit int
	// ahead is the field that is being read, with its text so far; begun says that there is one.
	ahead mtField
	text  []byte
	begun bool
}

var (
	// mtTag are the tags that a statement may have. A line that begins otherwise goes on with the field above: texts are broken anywhere, also before
	// what looks like a tag, such as the time ":26:37".
	mtTag = regexp.MustCompile(`^:(13D?|20|21|25P?|28C?|34F|60[FM]|61|62[FM]|64|65|86|90[CD]|940|NS):`)
	// mtBlock is the header of SWIFT, of which the second block says what message it is.
	mtBlock = regexp.MustCompile(`\{2:[IO](\d{3})`)
)

// next reads a field.
func (r *mtReader) next() (mtField, error) {
	for {
		text, err := r.lines.next()
		if errors.Is(err, io.EOF) && r.begun {
			field, _ := r.end()
			return field, nil
		}
		if err != nil {
			return mtField{}, err
		}
		field, ready, err := r.line(strings.TrimLeft(text, "\x00\x01\x02\x03\x1a"))
		if err != nil || ready {
			return field, err
		}
	}
}

// line takes a line, and gives the field that it ends, if ready.
func (r *mtReader) line(text string) (field mtField, ready bool, err error) {
	if strings.HasPrefix(text, "{") {
		if err := r.envelope(text); err != nil {
			return mtField{}, false, err
		}
		if _, body, ok := strings.Cut(text, "{4:"); ok && mtTag.MatchString(body) {
			field, ready = r.begin(body)
			return field, ready, nil
		}
		field, ready = r.end()
		return field, ready, nil
	}
	trimmed := strings.TrimRight(text, " \x00\x03\x1a")
	switch {
	case trimmed == "-" || trimmed == "-XXX" || strings.HasPrefix(trimmed, "-}"):
		field, ready = r.end()
	case mtTag.MatchString(text):
		field, ready = r.begin(text)
	case !r.begun: // banks put lines of their own before a message
	case len(r.text)+len(text) > r.limit:
		return field, false, refusal(ReasonTooLarge, r.ahead.position, "field :%s: has more than %d bytes", r.ahead.tag, r.limit)
	default:
		r.text = append(append(r.text, '\n'), text...)
	}
	return field, ready, nil
}

// begin starts a field and gives the one before it, if there is one.
func (r *mtReader) begin(text string) (before mtField, begun bool) {
	before, begun = r.end()
	tag := mtTag.FindStringSubmatch(text)[1]
	r.ahead, r.begun = mtField{tag: tag, position: r.lines.number}, true
	r.text = append(r.text[:0], text[len(tag)+2:]...)
	return before, begun
}

// end ends the field that is being read. What follows belongs to no field until one begins, so the end of a message need not be told: the next begins
// with :20:, which ends the one before.
func (r *mtReader) end() (field mtField, begun bool) {
	field, begun = r.ahead, r.begun
	field.text = string(r.text)
	r.ahead, r.begun, r.text = mtField{}, false, r.text[:0]
	return field, begun
}

// envelope looks at the header of a message for what it is.
func (r *mtReader) envelope(text string) error {
	if kind := mtBlock.FindStringSubmatch(text); kind != nil && kind[1] != "940" {
		return otherMT(kind[1], r.lines.number)
	}
	return nil
}

func otherMT(kind string, position int) *Refusal {
	if kind == "942" {
		return refusal(ReasonNotThisFormat, position,
			"it is an MT942, an interim report within the day, whose movements come again in an MT940 when they are final")
	}
	return refusal(ReasonNotThisFormat, position, "it is an MT%s, and no MT940", kind)
}

// mtMessage is a message that is being read.
type mtMessage struct {
	p *parse
	// s is the statement, nil before the first :20: and after the end.
	s       *Statement
	opening string // 60F or 60M
	page    int64
	first   int // line of the text
	// line is the last :61:, which the :86: after it describes; nil after the closing balance.
	line *Line
	text strings.Builder
}

// take reads a field.
func (m *mtMessage) take(f mtField) error {
	if f.tag == "20" {
		if err := m.finish(); err != nil {
			return err
		}
		m.s, m.first = &Statement{ID: clean(f.text)}, f.position
		return nil
	}
	if m.s == nil {
		if f.tag == "940" {
			return nil
		}
		return malformed(f.position, "field :%s: stands before the first :20:", f.tag)
	}
	err := m.field(f)
	var refused *Refusal
	if err != nil && !errors.As(err, &refused) {
		return malformed(f.position, ":%s: %s", f.tag, err)
	}
	return err
}

func (m *mtMessage) field(f mtField) error {
	switch f.tag {
	case "25", "25P":
		account, _, _ := strings.Cut(f.text, "\n")
		m.s.AccountID = clean(account)
	case "28", "28C":
		m.number(clean(f.text))
	case "60F", "60M":
		if m.s.Opening != nil {
			return errors.New("there are two opening balances")
		}
		m.opening = f.tag
		return m.setBalance(f, &m.s.Opening)
	case "61":
		return m.newLine(f)
	case "86", "NS":
		if m.line != nil {
			m.text.WriteString(f.text + "\n")
		}
		if m.text.Len() > m.p.limits.Element {
			return refusal(ReasonTooLarge, f.position, "a line's details have more than %d bytes", m.p.limits.Element)
		}
	case "62F", "62M":
		if m.s.Closing != nil {
			return errors.New("there are two closing balances")
		}
		if err := m.closeLine(); err != nil {
			return err
		}
		return m.setBalance(f, &m.s.Closing)
	case "64", "65":
		b, err := mtBalance(f)
		if err == nil {
			m.s.Balances = append(m.s.Balances, b)
		}
		return err
	case "34F", "90C", "90D":
		return otherMT("942", f.position)
	}
	return nil
}

// number reads "123/2": the statement's number, and the page of it.
func (m *mtMessage) number(text string) {
	number, page, _ := strings.Cut(text, "/")
	m.s.Number, m.s.Sequence, m.page = number, sequence(number), sequence(page)
}

func (m *mtMessage) setBalance(f mtField, to **Balance) error {
	b, err := mtBalance(f)
	if err != nil {
		return err
	}
	*to = &b
	if m.s.Currency == "" {
		m.s.Currency = b.Currency
	}
	return nil
}

// balancePattern is the mark, the date, the currency and the amount.
var balancePattern = regexp.MustCompile(`^([CD])(\d{6})([A-Z]{3})(\d+(?:,\d*)?)$`)

func mtBalance(f mtField) (Balance, error) {
	parts := balancePattern.FindStringSubmatch(strings.TrimSpace(f.text))
	if parts == nil {
		return Balance{}, fmt.Errorf("%.60q is not a balance such as C240312EUR1234,56", f.text)
	}
	raw, _ := shortDate(parts[2])
	date, _, err := raw.nearest()
	if err != nil {
		return Balance{}, err
	}
	amount, err := parseNumber(parts[4], ',')
	if parts[1] == "D" {
		amount = amount.Neg()
	}
	return Balance{Code: f.tag, Amount: amount, Currency: parts[3], Date: date}, err
}

func (m *mtMessage) newLine(f mtField) error {
	if m.s.Opening == nil {
		return errors.New("stands before the opening balance")
	}
	if m.s.Closing != nil {
		return errors.New("stands after the closing balance")
	}
	if err := m.closeLine(); err != nil {
		return err
	}
	line, err := mtLine(f)
	line.Currency = m.s.Currency
	m.line = &line
	return err
}

// closeLine adds the last line, whose :86: has ended.
func (m *mtMessage) closeLine() error {
	if m.line == nil {
		return nil
	}
	m.line.describe(m.text.String())
	m.text.Reset()
	err := m.p.add(m.s, m.line)
	m.line = nil
	return err
}

// finish ends the message. Pages of one statement, each a message, become one.
func (m *mtMessage) finish() error {
	if m.s == nil {
		return nil
	}
	s := m.s
	switch {
	case s.AccountID == "":
		return malformed(m.first, "the message has no account (:25:)")
	case s.Opening == nil:
		return malformed(m.first, "the message has no opening balance (:60F: or :60M:)")
	case s.Closing == nil:
		return malformed(m.first, "the message has no closing balance (:62F: or :62M:)")
	}
	m.s = nil
	if before := m.pageBefore(s); before != nil {
		return m.merge(before, s)
	}
	s.Pages = int(min(max(m.page, 1), maxPages))
	return m.p.open(s)
}

// maxPages is more than SWIFT's five digits of a page number allow.
const maxPages = 100_000

// pageBefore is the statement that this message goes on with: the last one, if it ended with an interim balance and this begins with one.
func (m *mtMessage) pageBefore(s *Statement) *Statement {
	if len(m.p.file.Statements) == 0 || m.opening != "60M" {
		return nil
	}
	before := m.p.file.Statements[len(m.p.file.Statements)-1]
	if before.Closing.Code != "62M" || before.AccountID != s.AccountID || before.Currency != s.Currency || before.Number != s.Number {
		return nil
	}
	return before
}

// merge adds a page to the statement that it is of.
func (m *mtMessage) merge(before, s *Statement) error {
	index := len(m.p.file.Statements) - 1
	if m.page > 0 && int64(before.Pages)+1 != m.page {
		check := Check{Name: CheckChain, Detail: fmt.Sprintf("a page is missing: page %d follows page %d of number %s", m.page, before.Pages, s.Number)}
		m.p.failed(index, before, check, ReasonChain, m.first)
	} else if !before.Closing.Amount.Equal(s.Opening.Amount) {
		check := compare(CheckChain, "", written(s.Opening.Amount, s.Currency), written(before.Closing.Amount, s.Currency))
		check.Detail = fmt.Sprintf("page %d begins with %s, and the page before it ends with %s", m.page, check.Stated, check.Computed)
		m.p.failed(index, before, check, ReasonChain, m.first)
	}
	before.Pages++
	if m.page > 0 {
		before.Pages = int(min(m.page, maxPages))
	}
	before.Closing, before.Balances = s.Closing, append(before.Balances, s.Balances...)
	for i := range s.Lines {
		if err := m.p.add(before, &s.Lines[i]); err != nil {
			return err
		}
	}
	return nil
}
