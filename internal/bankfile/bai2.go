package bankfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// The records of BAI2.
const (
	baiFile         = "01"
	baiGroup        = "02"
	baiAccount      = "03"
	baiTransaction  = "16"
	baiAccountEnd   = "49"
	baiContinuation = "88"
	baiGroupEnd     = "98"
	baiFileEnd      = "99"
)

// baiRecord is a record with its continuations. Its first field is its code.
type baiRecord struct {
	fields   []string
	position int
	// physical is how many records it is in the file: itself and its continuations, which the counts count.
	physical int
	// ends are the numbers of fields after each of the physical records, so that a text that was continued can be put together.
	ends []int
}

func (r *baiRecord) code() string { return r.fields[0] }

// field is a field by its place, "" if the record is shorter.
func (r *baiRecord) field(i int) string {
	if i >= len(r.fields) {
		return ""
	}
	return strings.TrimSpace(r.fields[i])
}

// baiReader reads records. A record is a line, or several stand on one, each ended by "/" and spaces; one that carries text may leave out the "/" and
// go on over several lines.
type baiReader struct {
	lines lineReader
	limit int
	// queue are physical records that were read, from head on. The last of them may go on with the next line.
	queue []baiPhysical
	head  int
	ended bool
}

// baiPhysical is a record as it stands in the file, "/" and all.
type baiPhysical struct {
	text     []byte
	position int
}

var (
	baiCode  = regexp.MustCompile(`^(?:01|02|03|16|49|88|98|99)(?:,|/|$)`)
	baiInner = regexp.MustCompile(`/[ \t]+(?:01|02|03|16|49|88|98|99),`)
)

// next gives a record with its continuations, which follow it.
func (r *baiReader) next() (*baiRecord, error) {
	first, position, err := r.pull()
	if err != nil {
		return nil, err
	}
	record := &baiRecord{position: position}
	record.add(first)
	if record.code() == baiContinuation {
		return nil, malformed(position, "record 88 continues nothing")
	}
	size := len(first)
	for {
		more, position, err := r.pull()
		if errors.Is(err, io.EOF) {
			return record, nil
		}
		if err != nil {
			return nil, err
		}
		code, text, _ := strings.Cut(more, ",")
		if code != baiContinuation {
			r.head--
			return record, nil
		}
		if size += len(more); size > r.limit {
			return nil, refusal(ReasonTooLarge, position, "the record has more than %d bytes", r.limit)
		}
		record.add(text)
	}
}

func (r *baiRecord) add(text string) {
	r.fields = append(r.fields, strings.Split(text, ",")...)
	r.physical++
	r.ends = append(r.ends, len(r.fields))
}

// pull gives a physical record, without the "/" at its end, and the line of the text that it begins on.
func (r *baiReader) pull() (text string, position int, err error) {
	for len(r.queue)-r.head < 2 && !r.ended { // the last may go on with the next line
		line, err := r.lines.next()
		if errors.Is(err, io.EOF) {
			r.ended = true
			break
		}
		if err != nil {
			return "", 0, err
		}
		if err := r.split(strings.TrimRight(line, " \t\x1a")); err != nil {
			return "", 0, err
		}
	}
	if r.head == len(r.queue) {
		return "", 0, io.EOF
	}
	first := r.queue[r.head]
	r.head++
	return string(bytes.TrimSuffix(first.text, []byte("/"))), first.position, nil
}

// split takes the records of a line.
func (r *baiReader) split(line string) error {
	if line == "" {
		return nil
	}
	if r.head > len(r.queue)/2 { // of those that were given, none is taken back any more
		r.queue = slices.Delete(r.queue, 0, r.head)
		r.head = 0
	}
	goesOn := !baiCode.MatchString(line)
	for line != "" {
		one := line
		if at := baiInner.FindStringIndex(line); at != nil {
			one = line[:at[0]+1]
		}
		line = strings.TrimLeft(line[len(one):], " \t")
		if !goesOn {
			r.queue = append(r.queue, baiPhysical{text: []byte(one), position: r.lines.number})
			continue
		}
		goesOn = false
		if err := r.goOn(one); err != nil {
			return err
		}
	}
	return nil
}

// goOn adds a line that begins no record to the one above it: a text that the bank broke over lines without saying so.
func (r *baiReader) goOn(text string) error {
	last := len(r.queue) - 1
	if last < r.head || bytes.HasSuffix(r.queue[last].text, []byte("/")) {
		return malformed(r.lines.number, "%.40q is not a record of BAI2", text)
	}
	if len(r.queue[last].text)+len(text) > r.limit {
		return refusal(ReasonTooLarge, r.lines.number, "the record has more than %d bytes", r.limit)
	}
	r.queue[last].text = append(append(r.queue[last].text, ' '), text...)
	return nil
}

// bai2 reads a balance report: a file of groups, one for each bank and day, of accounts, each with its transactions. Amounts have no decimal point.
func (p *parse) bai2() error {
	r := &baiReader{lines: lineReader{in: skipBOM(p.in), limit: p.limits.Element}, limit: p.limits.Element}
	b := &baiBook{p: p}
	for {
		record, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.record(record); err != nil {
			var refused *Refusal
			if errors.As(err, &refused) {
				return err
			}
			return malformed(record.position, "record %s: %s", record.code(), err)
		}
	}
	if b.level != baiOver {
		if b.level == baiOutside {
			return refusal(ReasonNotThisFormat, 0, "it has no record 01: it is no BAI2")
		}
		return malformed(0, "the file ends before its last record, 99")
	}
	return nil
}

// baiLevel is what is being read.
type baiLevel int

const (
	baiOutside baiLevel = iota
	baiInFile
	baiInGroup
	baiInAccount
	baiOver
)

// baiBook is the file as it is read.
type baiBook struct {
	p     *parse
	level baiLevel
	// Totals are sums of amounts as they are written, without regard to currencies; that is what the bank adds up as well.
	file, group, account baiTotals
	groups               int
	accounts             int
	// Of the group.
	bank, currency string
	asOf           Date
	correction     bool
	open           *baiAccountReading
}

// baiTotals are what a trailer gives: the sum of the amounts, and the number of records from the header to the trailer itself.
type baiTotals struct {
	sum     decimal.Decimal
	records int
}

func (b *baiBook) record(r *baiRecord) error {
	if b.level == baiOver {
		return errors.New("stands after the end of the file")
	}
	want, known := map[string]baiLevel{
		baiFile: baiOutside, baiGroup: baiInFile, baiAccount: baiInGroup, baiTransaction: baiInAccount, baiAccountEnd: baiInAccount,
		baiGroupEnd: baiInGroup, baiFileEnd: baiInFile,
	}[r.code()]
	if !known || want != b.level {
		return errors.New("stands where it cannot")
	}
	switch r.code() {
	case baiFile:
		b.file = baiTotals{records: r.physical}
		b.level = baiInFile
	case baiGroup:
		return b.openGroup(r)
	case baiAccount:
		return b.openAccount(r)
	case baiTransaction:
		b.account.records += r.physical
		return b.transaction(r)
	case baiAccountEnd:
		return b.closeAccount(r)
	case baiGroupEnd:
		return b.closeGroup(r)
	case baiFileEnd:
		return b.closeFile(r)
	}
	return nil
}

// The fields of a group header, and what its status may be.
const (
	groupBank, groupStatus, groupAsOf, groupCurrency, groupModifier = 2, 3, 4, 6, 7

	groupUpdate, groupDeletion, groupCorrection, groupTest = "1", "2", "3", "4"
	// What the group has is final unless it says otherwise: interim reports are of the day before or of today.
	interimBefore, interimToday = "1", "3"
)

func (b *baiBook) openGroup(r *baiRecord) error {
	b.level, b.group, b.accounts = baiInGroup, baiTotals{records: r.physical}, 0
	b.groups++
	b.bank = clean(r.field(groupBank))
	switch status := r.field(groupStatus); status {
	case groupUpdate, "":
		b.correction = false
	case groupCorrection:
		b.correction = true
	case groupDeletion:
		return refusal(ReasonUnsupported, r.position, "the group takes back what was sent before (status 2), which is not read")
	case groupTest:
		return refusal(ReasonUnsupported, r.position, "the group is a test (status 4)")
	default:
		return fmt.Errorf("group status %.20q is not known", status)
	}
	if modifier := r.field(groupModifier); modifier == interimBefore || modifier == interimToday {
		return refusal(ReasonUnsupported, r.position, "the group is an interim report, whose movements come again when they are final")
	}
	raw, ok := shortDate(r.field(groupAsOf))
	if !ok {
		return fmt.Errorf("%.20q is not a date such as 240312", r.field(groupAsOf))
	}
	var err error
	if b.asOf, err = raw.date(); err != nil {
		return err
	}
	b.currency = strings.ToUpper(r.field(groupCurrency))
	if b.currency == "" {
		b.currency = "USD" // what the format says
	}
	return nil
}

// closeGroup compares the sums and counts of record 98.
func (b *baiBook) closeGroup(r *baiRecord) error {
	b.level = baiInFile
	b.group.records += r.physical
	b.file.sum = b.file.sum.Add(b.group.sum)
	b.file.records += b.group.records
	return b.trailer(r, fmt.Sprintf("group %d", b.groups), b.group, baiCount{"accounts", b.accounts})
}

// closeFile compares those of record 99.
func (b *baiBook) closeFile(r *baiRecord) error {
	b.level = baiOver
	b.file.records += r.physical
	return b.trailer(r, "file", b.file, baiCount{"groups", b.groups})
}

// baiCount is a count in a trailer, other than that of records.
type baiCount struct {
	what string
	n    int
}

// trailer makes the checks of a trailer: control total, count, number of records. They are the file's.
func (b *baiBook) trailer(r *baiRecord, whose string, totals baiTotals, count baiCount) error {
	checks, reason, err := baiChecks(r, whose, totals, &count)
	if err != nil {
		return err
	}
	for _, check := range checks {
		if check.State == CheckFailed {
			b.p.refuse(&Refusal{Reason: reason(check), Position: r.position, Detail: check.Detail, Stated: check.Stated, Computed: check.Computed})
		}
	}
	b.p.file.Checks = append(b.p.file.Checks, checks...)
	return nil
}

// baiChecks compares the fields of a trailer. Records 98 and 99 have a count between the control total and the number of records.
func baiChecks(r *baiRecord, whose string, totals baiTotals, count *baiCount) (checks []Check, reason func(Check) Reason, err error) {
	stated, err := baiNumber(r.field(1))
	if err != nil {
		return nil, nil, fmt.Errorf("control total: %w", err)
	}
	checks = append(checks, outcome(compare(CheckControl, "control total of "+whose, stated.String(), totals.sum.String())))
	counts := []baiCount{{"records", totals.records}}
	if count != nil {
		counts = []baiCount{*count, counts[0]}
	}
	for i, c := range counts {
		n, err := baiNumber(r.field(i + 2))
		if err != nil {
			return nil, nil, fmt.Errorf("number of %s: %w", c.what, err)
		}
		checks = append(checks, outcome(compare(CheckCount, fmt.Sprintf("number of %s of %s", c.what, whose), n.String(), fmt.Sprint(c.n))))
	}
	return checks, func(c Check) Reason {
		if c.Name == CheckCount {
			return ReasonCount
		}
		return ReasonControl
	}, nil
}

// outcome gives a check of two numbers its state.
func outcome(c Check) Check {
	c.State = CheckHeld
	if c.Stated != c.Computed {
		c.State = CheckFailed
	}
	return c
}

// baiNumber reads a whole number with an optional sign; "" is 0, as the format has it.
func baiNumber(text string) (decimal.Decimal, error) {
	if text == "" {
		return decimal.Zero, nil
	}
	if strings.ContainsAny(text, ".,") {
		return decimal.Zero, fmt.Errorf("%.40q is not a whole number", text)
	}
	return parseSigned(text, '.')
}
