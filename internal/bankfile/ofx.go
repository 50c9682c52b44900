package bankfile

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
)

// ofx reads Open Financial Exchange: the statements of bank accounts and of credit cards in it. It gives the balance at a time, and none at the
// beginning, so that its lines cannot be checked against a total.
func (p *parse) ofx() error {
	r := &ofxReader{in: skipBOM(p.in), limit: p.limits.Element, line: 1}
	b := &ofxBook{p: p}
	for {
		token, err := r.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := b.token(token); err != nil {
			var refused *Refusal
			if errors.As(err, &refused) {
				return err
			}
			return malformed(token.position, "%s", err)
		}
	}
	switch {
	case !b.seen:
		return refusal(ReasonNotThisFormat, 0, "it has no element OFX: it is no OFX")
	case len(b.stack) > 0:
		return malformed(0, "the file ends within %s", b.stack[len(b.stack)-1])
	}
	return nil
}

// The elements that hold others and mean something here. Others are read as if their tags were not there.
const (
	ofxRoot       = "OFX"
	ofxStatement  = "STMTRS"
	ofxCard       = "CCSTMTRS"
	ofxInvestment = "INVSTMTRS"
	ofxBankFrom   = "BANKACCTFROM"
	ofxCardFrom   = "CCACCTFROM"
	ofxBankTo     = "BANKACCTTO"
	ofxCardTo     = "CCACCTTO"
	ofxList       = "BANKTRANLIST"
	ofxLine       = "STMTTRN"
	ofxPending    = "STMTTRNP"
	ofxPayee      = "PAYEE"
	ofxLedger     = "LEDGERBAL"
	ofxAvailable  = "AVAILBAL"
	ofxCurrency   = "CURRENCY"
	ofxOriginal   = "ORIGCURRENCY"
)

var ofxAggregates = []string{
	ofxRoot, ofxStatement, ofxCard, ofxInvestment, ofxBankFrom, ofxCardFrom, ofxBankTo, ofxCardTo, ofxList, ofxLine, ofxPending, ofxPayee, ofxLedger,
	ofxAvailable, ofxCurrency, ofxOriginal,
}

// ofxBook is the file as it is read.
type ofxBook struct {
	p    *parse
	seen bool
	// stack are the known elements that are open, the innermost last; leaf is the tag that was opened last, if it is none of them.
	stack []string
	leaf  string
	s     *Statement
	index int
	line  ofxReading
	// Of a balance.
	amount string
	date   rawDate
}

// ofxReading is a line that is being read.
type ofxReading struct {
	Line
	amount, name, memo string
	hasDate            bool
}

func (b *ofxBook) token(t ofxToken) error {
	switch t.kind {
	case ofxOpen:
		b.leaf = ""
		if !slices.Contains(ofxAggregates, t.text) {
			b.leaf = t.text
			return nil
		}
		return b.enter(t)
	case ofxClose:
		b.leaf = ""
		return b.leave(t.text)
	}
	if b.leaf == "" || len(b.stack) == 0 {
		return nil // the header of version 1, or text that belongs to nothing
	}
	leaf := b.leaf
	b.leaf = ""
	if err := b.value(b.stack[len(b.stack)-1], leaf, t.text); err != nil {
		return fmt.Errorf("%s: %w", leaf, err)
	}
	return nil
}

// enter opens an element. SGML lets the end of some be left out: two lines do not stand in each other, so the second ends the first.
func (b *ofxBook) enter(t ofxToken) error {
	if t.text == ofxLine || t.text == ofxPending {
		for _, open := range []string{ofxLine, ofxPending} {
			if err := b.leave(open); err != nil {
				return err
			}
		}
	}
	if len(b.stack) > maxDepth {
		return errors.New("elements stand too deep in each other")
	}
	switch t.text {
	case ofxRoot:
		b.seen = true
	case ofxInvestment:
		return refusal(ReasonUnsupported, t.position, "it has a statement of investments, which is not read")
	case ofxStatement, ofxCard:
		if b.s != nil {
			return errors.New("a statement stands in another")
		}
		b.s, b.index = &Statement{}, len(b.p.file.Statements)
		if err := b.p.open(b.s); err != nil {
			return err
		}
	case ofxLine, ofxPending:
		if b.s == nil {
			return fmt.Errorf("%s stands outside a statement", t.text)
		}
		b.line = ofxReading{Line: Line{Position: t.position, Status: StatusBooked}}
		if t.text == ofxPending {
			b.line.Status = StatusPending
		}
	case ofxLedger, ofxAvailable:
		b.amount, b.date = "", rawDate{}
	}
	b.stack = append(b.stack, t.text)
	return nil
}

// leave closes an element and all that stand in it; nothing if it is not open.
func (b *ofxBook) leave(name string) error {
	at := slices.Index(b.stack, name)
	if at < 0 {
		return nil
	}
	for len(b.stack) > at {
		last := b.stack[len(b.stack)-1]
		b.stack = b.stack[:len(b.stack)-1]
		if err := b.close(last); err != nil {
			return err
		}
	}
	return nil
}

// close does what the end of an element means.
func (b *ofxBook) close(name string) error {
	switch name {
	case ofxLine, ofxPending:
		return b.closeLine()
	case ofxLedger, ofxAvailable:
		return b.closeBalance(name)
	case ofxStatement, ofxCard:
		s := b.s
		b.s = nil
		if s.Currency == "" {
			return &Refusal{Reason: ReasonMalformed, Statement: b.index + 1, Account: s.AccountID, Detail: "the statement names no currency (CURDEF)"}
		}
	}
	return nil
}

// value takes the text of an element that stands in another.
func (b *ofxBook) value(within, name, text string) error {
	if b.s == nil {
		return nil
	}
	inLine := slices.Contains(b.stack, ofxLine) || slices.Contains(b.stack, ofxPending)
	switch within {
	case ofxStatement, ofxCard:
		if name == "CURDEF" {
			return setCurrency(&b.s.Currency, text)
		}
	case ofxBankFrom, ofxCardFrom:
		if !inLine {
			b.account(name, text)
		}
	case ofxList:
		return b.period(name, text)
	case ofxLedger, ofxAvailable:
		return b.balanceValue(name, text)
	case ofxLine, ofxPending:
		return b.line.value(name, text)
	}
	if inLine {
		return b.line.inner(within, name, text)
	}
	return nil
}

func setCurrency(to *string, text string) error {
	*to = strings.ToUpper(clean(text))
	if !isCurrency(*to) {
		return fmt.Errorf("%.40q is not a currency code", text)
	}
	return nil
}

func (b *ofxBook) account(name, text string) {
	switch name {
	case "ACCTID":
		b.s.AccountID = clean(text)
	case "BANKID":
		b.s.BankID = clean(text)
	}
}

func (b *ofxBook) period(name, text string) (err error) {
	if name != "DTSTART" && name != "DTEND" {
		return nil
	}
	raw, err := ofxDate(text)
	if err != nil {
		return err
	}
	to := &b.s.From
	if name == "DTEND" {
		to = &b.s.To
	}
	*to, err = raw.date()
	return err
}

func (b *ofxBook) balanceValue(name, text string) (err error) {
	switch name {
	case "BALAMT":
		b.amount = text
	case "DTASOF":
		b.date, err = ofxDate(text)
	}
	return err
}

// closeBalance keeps a balance. One without an amount is none.
func (b *ofxBook) closeBalance(name string) error {
	if b.s == nil || b.amount == "" {
		return nil
	}
	amount, err := ofxAmount(b.amount)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	balance := Balance{Code: name, Amount: amount, Currency: b.s.Currency}
	if b.date != (rawDate{}) {
		if balance.Date, err = b.date.date(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if name == ofxLedger {
		b.s.Closing = &balance
	} else {
		b.s.Balances = append(b.s.Balances, balance)
	}
	return nil
}

// value takes the text of an element of a line.
func (l *ofxReading) value(name, text string) error {
	switch name {
	case "TRNTYPE":
		l.Code = clean(text)
	case "DTPOSTED", "DTTRAN": // the second is that of a pending line
		raw, err := ofxDate(text)
		if err == nil {
			l.BookingDate, err = raw.date()
			l.hasDate = true
		}
		return err
	case "DTAVAIL":
		raw, err := ofxDate(text)
		if err != nil {
			return err
		}
		return l.setValueDate(raw)
	case "TRNAMT":
		l.amount = text
	case "FITID":
		l.ExternalID = reference(text)
	case "CORRECTFITID":
		l.flag(FlagCorrection, "it corrects the line with the id %.60q", text)
	case "CHECKNUM":
		l.References.Cheque = reference(text)
	case "REFNUM":
		l.References.Bank = reference(text)
	case "NAME":
		l.name = text
	case "MEMO":
		l.memo = text
	}
	return nil
}

// inner takes the text of an element of what stands in a line.
func (l *ofxReading) inner(within, name, text string) error {
	switch within + "/" + name {
	case ofxPayee + "/NAME":
		l.name = text
	case ofxBankTo + "/ACCTID", ofxCardTo + "/ACCTID":
		l.Counterparty.Account = clean(text)
	case ofxBankTo + "/BANKID":
		l.Counterparty.Bank = clean(text)
	case ofxCurrency + "/CURSYM": // the amount is in it; ORIGCURRENCY is what it was converted from
		return setCurrency(&l.Currency, text)
	}
	return nil
}

func (b *ofxBook) closeLine() error {
	line := &b.line
	wrong := func(format string, args ...any) error {
		return malformed(line.Position, "%s: "+format, append([]any{ofxLine}, args...)...)
	}
	if line.amount == "" {
		return wrong("there is no TRNAMT")
	}
	if !line.hasDate {
		return wrong("there is no DTPOSTED")
	}
	var err error
	if line.Amount, err = ofxAmount(line.amount); err != nil {
		return wrong("%s", err)
	}
	if line.Currency == "" {
		line.Currency = b.s.Currency
	}
	line.Counterparty.Name = clean(line.name)
	line.Description = clean(line.memo)
	if !strings.Contains(line.Description, line.Counterparty.Name) {
		line.Description = join(" ", line.name, line.memo)
	}
	return b.p.add(b.s, &line.Line)
}

// ofxAmount reads a signed amount. The decimal mark is a point or a comma; there is none between thousands.
func ofxAmount(text string) (decimal.Decimal, error) {
	text = strings.TrimSpace(text)
	mark := byte('.')
	if strings.Contains(text, ",") {
		mark = ','
	}
	sign := ""
	if text != "" && (text[0] == '-' || text[0] == '+') {
		sign, text = text[:1], text[1:]
	}
	if text != "" && text[0] == mark { // ".50"
		text = "0" + text
	}
	return parseSigned(sign+text, mark)
}

// ofxDate reads the day of "20090401122017.000[-5:EST]", as written: the day at the bank, whatever its zone.
func ofxDate(text string) (rawDate, error) {
	raw, rest, ok := compactDate(strings.TrimSpace(text))
	if !ok || rest != "" && !strings.ContainsAny(rest[:1], "0123456789.[ ") {
		return rawDate{}, fmt.Errorf("%.40q is not a date such as 20240312 or 20240312101500[-5:EST]", text)
	}
	return raw, nil
}
