package bankfile

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
)

// camtStatements is the element that makes a message a camt.053.
const camtStatements = "BkToCstmrStmt"

// camt reads a camt.053 (ISO 20022, bank to customer statement). Versions .001.02 and .001.08 are those that it was made for; others differ in what
// is not read. An amount there is never negative: its direction is said beside it.
func (p *parse) camt() error {
	b := newBudget(skipBOM(p.in), p.limits.Element)
	x := &xmlReader{dec: newXMLDecoder(b), budget: b}
	found := false
	for {
		b.renew()
		token, err := x.token()
		if errors.Is(err, io.EOF) {
			if found {
				return nil
			}
			return refusal(ReasonNotThisFormat, 0, "it has no element %s: it is no camt.053", camtStatements)
		}
		if err != nil {
			return err
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		switch name := start.Name.Local; {
		case name == camtStatements:
			found = true
			if err := p.camtMessage(x); err != nil {
				return err
			}
		case camtOthers[name] != "":
			return otherCamt(name)
		}
	}
}

// children calls each with the start of every child of the element whose start was read.
func (x *xmlReader) children(parent string, each func(xml.StartElement) error) error {
	for {
		x.budget.renew()
		token, err := x.token()
		if errors.Is(err, io.EOF) {
			return malformed(x.position(), "%s", errCut)
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case xml.StartElement:
			if err := each(token); err != nil {
				return err
			}
		case xml.EndElement:
			if token.Name.Local != parent {
				return malformed(x.position(), "element %.40q ends as %.40q", parent, token.Name.Local)
			}
			return nil
		}
	}
}

func (p *parse) camtMessage(x *xmlReader) error {
	return x.children(camtStatements, func(start xml.StartElement) error {
		if start.Name.Local == "Stmt" {
			return p.camtStatement(x)
		}
		_, err := x.tree(start, 0, nil)
		return err
	})
}

// camtReading is a statement that is being read.
type camtReading struct {
	*Statement
	balances []camtBalance
	summary  *node
	batches  batchCount
}

type camtBalance struct {
	Balance
	code string
}

func (p *parse) camtStatement(x *xmlReader) error {
	s := &camtReading{Statement: &Statement{}}
	index := len(p.file.Statements)
	if err := p.open(s.Statement); err != nil {
		return err
	}
	err := x.children("Stmt", func(start xml.StartElement) error {
		if start.Name.Local == "Ntry" {
			return p.camtEntry(x, s, start)
		}
		n, err := x.tree(start, 0, nil)
		if err != nil {
			return err
		}
		if err := s.read(n); err != nil {
			return malformed(x.position(), "%s: %s", n.name, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.chooseBalances()
	if s.Currency == "" {
		return &Refusal{Reason: ReasonMalformed, Statement: index + 1, Account: s.AccountID, Detail: "the statement names no currency"}
	}
	s.batches.report(s.Statement)
	p.camtSummary(index, s)
	return nil
}

// read takes what an element of the statement says, other than an entry.
func (s *camtReading) read(n *node) error {
	switch n.name {
	case "Id":
		s.ID = clean(n.text)
	case "ElctrncSeqNb", "LglSeqNb":
		// The electronic number counts what was sent. The legal one counts what the law calls a statement, and is second best.
		if s.Number == "" || n.name == "ElctrncSeqNb" {
			s.Number = clean(n.text)
			s.Sequence = sequence(s.Number)
		}
	case "FrToDt":
		return s.period(n)
	case "Acct":
		s.AccountID = clean(n.get("Id", "IBAN"))
		if s.AccountID == "" {
			s.AccountID = clean(n.get("Id", "Othr", "Id"))
		}
		s.Currency = clean(n.get("Ccy"))
		if s.Currency != "" && !isCurrency(s.Currency) {
			return fmt.Errorf("%.40q is not a currency code", s.Currency)
		}
		s.BankID = clean(join("", n.get("Svcr", "FinInstnId", "BICFI"), n.get("Svcr", "FinInstnId", "BIC")))
	case "Bal":
		return s.balance(n)
	case "TxsSummry":
		s.summary = n
	}
	return nil
}

// sequence is a number as written, and 0 for what is no number.
func sequence(text string) int64 {
	const digits = 18 // that an int64 always holds
	if len(text) > digits {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

func (s *camtReading) period(n *node) (err error) {
	for _, end := range []struct {
		names []string
		to    *Date
	}{{[]string{"FrDtTm", "FrDt"}, &s.From}, {[]string{"ToDtTm", "ToDt"}, &s.To}} {
		for _, name := range end.names {
			if text := n.get(name); text != "" {
				if *end.to, err = camtDay(text).date(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// camtDay is the day of a date or of a time, as written: the bank's own day, whatever its zone. What is none is a date that does not exist.
func camtDay(text string) rawDate {
	raw, rest, ok := isoDate(text)
	if !ok || rest != "" && !strings.Contains("T Zz+-", rest[:1]) {
		return rawDate{}
	}
	return raw
}

// camtDate reads a choice of Dt and DtTm; the zero rawDate, and false, if there is none.
func camtDate(n *node) (rawDate, bool) {
	for _, name := range []string{"Dt", "DtTm"} {
		if text := n.get(name); text != "" {
			return camtDay(text), true
		}
	}
	return rawDate{}, false
}

// camtAmount reads the amount of an element, with the sign that CdtDbtInd gives it.
func camtAmount(n *node) (amount decimal.Decimal, currency string, err error) {
	amt := n.find("Amt")
	if amt == nil {
		return amount, "", errors.New("there is no Amt")
	}
	if !isCurrency(amt.currency) {
		return amount, "", fmt.Errorf("%.40q is not a currency code", amt.currency)
	}
	if amount, err = parseNumber(amt.text, '.'); err != nil {
		return amount, "", err
	}
	amount, err = camtSign(n, amount)
	return amount, amt.currency, err
}

func camtSign(n *node, amount decimal.Decimal) (decimal.Decimal, error) {
	switch direction := n.get("CdtDbtInd"); direction {
	case "CRDT":
		return amount, nil
	case "DBIT":
		return amount.Neg(), nil
	default:
		return amount, fmt.Errorf("CdtDbtInd is %.40q, and neither CRDT nor DBIT", direction)
	}
}

func (s *camtReading) balance(n *node) error {
	code := n.get("Tp", "CdOrPrtry", "Cd")
	if code == "" {
		code = n.get("Tp", "CdOrPrtry", "Prtry")
	}
	amount, currency, err := camtAmount(n)
	if err != nil {
		return err
	}
	b := camtBalance{code: clean(code), Balance: Balance{Code: clean(code), Amount: amount, Currency: currency}}
	if raw, ok := camtDate(n.find("Dt")); ok {
		if b.Date, err = raw.date(); err != nil {
			return err
		}
	}
	s.balances = append(s.balances, b)
	return nil
}

// chooseBalances finds the opening and the closing balance. A statement in several pages has interim balances (ITBD) at the page's ends. OPBD is the
// opening balance; some banks send only PRCD, the closing balance of the day before, which is the same amount. Of several of a kind, such as in two
// currencies, the first in the account's currency is taken, or else the first.
func (s *camtReading) chooseBalances() {
	if s.Currency == "" {
		s.Currency = s.guessCurrency()
	}
	opening := s.choose("OPBD", "PRCD")
	closing := s.choose("CLBD")
	interim := s.allOf("ITBD")
	if opening < 0 && len(interim) > 0 && (closing >= 0 || len(interim) > 1) {
		opening = interim[0]
	}
	if closing < 0 && len(interim) > 0 && interim[len(interim)-1] != opening {
		closing = interim[len(interim)-1]
	}
	for i := range s.balances {
		b := s.balances[i].Balance
		switch i {
		case opening:
			s.Opening = &b
		case closing:
			s.Closing = &b
		default:
			s.Balances = append(s.Balances, b)
		}
	}
}

// guessCurrency is for a statement whose account names none: that of its opening balance, or of its other balances or entries.
func (s *camtReading) guessCurrency() string {
	if i := s.choose("OPBD", "PRCD", "CLBD"); i >= 0 {
		return s.balances[i].Currency
	}
	if len(s.balances) > 0 {
		return s.balances[0].Currency
	}
	if len(s.Lines) > 0 {
		return s.Lines[0].Currency
	}
	return ""
}

// choose gives the place of the balance of the first code that there is, -1 if none.
func (s *camtReading) choose(codes ...string) int {
	for _, code := range codes {
		places := s.allOf(code)
		for _, i := range places {
			if s.balances[i].Currency == s.Currency {
				return i
			}
		}
		if len(places) > 0 {
			return places[0]
		}
	}
	return -1
}

func (s *camtReading) allOf(code string) []int {
	var places []int
	for i := range s.balances {
		if s.balances[i].code == code {
			places = append(places, i)
		}
	}
	return places
}

// camtSummary compares the bank's own counts and sums of entries with the lines.
func (p *parse) camtSummary(index int, s *camtReading) {
	if s.summary == nil {
		return
	}
	var failed *Check
	reason, stated := ReasonControl, false
	for _, part := range s.summaryParts() {
		stated = stated || part.count != "" || part.sum != ""
		check, why := part.compare(s.Statement)
		if check != nil && failed == nil {
			failed, reason = check, why
		}
	}
	switch {
	case !stated:
		s.notMade(CheckSummary, "the bank's summary of entries has no counts and no sums")
	case failed == nil:
		s.held(CheckSummary, "the bank's own counts and sums of entries are those of the lines")
	case s.hasPending():
		// Whether the bank counts entries that are not booked is not laid down.
		s.notMade(CheckSummary, "%s; the bank may have counted entries that are not booked", failed.Detail)
	default:
		p.failed(index, s.Statement, *failed, reason, 0)
	}
}

func (s *Statement) hasPending() bool {
	for i := range s.Lines {
		if s.Lines[i].Status != StatusBooked && !s.Lines[i].Amount.IsZero() {
			return true
		}
	}
	return false
}

// summaryPart is a count and a sum that the bank gives, for the lines of some sign.
type summaryPart struct {
	what       string
	count, sum string
	// sign of the lines that it is for, 0 for all; absolute says that the sum is of amounts without their sign.
	sign     int
	absolute bool
	negative bool
}

func (s *camtReading) summaryParts() []summaryPart {
	all, credits, debits := s.summary.find("TtlNtries"), s.summary.find("TtlCdtNtries"), s.summary.find("TtlDbtNtries")
	parts := []summaryPart{
		{what: "entries", count: all.get("NbOfNtries"), sum: all.get("Sum"), absolute: true},
		{what: "credit entries", count: credits.get("NbOfNtries"), sum: credits.get("Sum"), sign: 1, absolute: true},
		{what: "debit entries", count: debits.get("NbOfNtries"), sum: debits.get("Sum"), sign: -1, absolute: true},
	}
	// Until version .03 the net is a child of TtlNtries, from .04 on one level below.
	net := summaryPart{what: "net of entries", sum: all.get("TtlNetNtryAmt"), negative: all.get("CdtDbtInd") == "DBIT"}
	if inner := all.find("TtlNetNtry"); inner != nil {
		net.sum, net.negative = inner.get("Amt"), inner.get("CdtDbtInd") == "DBIT"
	}
	return append(parts, net)
}

// compare gives the check that does not hold, nil if both numbers do.
func (part summaryPart) compare(s *Statement) (*Check, Reason) {
	count, sum := 0, decimal.Zero
	for i := range s.Lines {
		line := &s.Lines[i]
		// A line of zero has no sign, and is counted where the bank says so; only the total of all can be compared then.
		if line.Status == StatusPending || line.Status == StatusInformation && !line.Amount.IsZero() || part.sign != 0 && line.Amount.Sign() != part.sign {
			continue
		}
		count++
		if part.absolute {
			sum = sum.Add(line.Amount.Abs())
		} else {
			sum = sum.Add(line.Amount)
		}
	}
	comparable := part.sign == 0 || !s.hasZero()
	if part.count != "" && part.count != strconv.Itoa(count) && comparable {
		check := compare(CheckSummary, "number of "+part.what, part.count, strconv.Itoa(count))
		return &check, ReasonCount
	}
	stated, err := parseNumber(part.sum, '.')
	if err != nil { // there is none
		return nil, ""
	}
	if part.negative {
		stated = stated.Neg()
	}
	if stated.Equal(sum) {
		return nil, ""
	}
	check := compare(CheckSummary, "sum of "+part.what, written(stated, s.Currency), written(sum, s.Currency))
	return &check, ReasonControl
}

func (s *Statement) hasZero() bool {
	for i := range s.Lines {
		if s.Lines[i].Amount.IsZero() {
			return true
		}
	}
	return false
}
