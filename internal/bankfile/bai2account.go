package bankfile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
)

// baiAccountReading is an account that is being read.
type baiAccountReading struct {
	*Statement
	index    int
	decimals int32
	// credits and debits are the bank's own totals of record 03, nil where there is none.
	credits, debits *baiSummary
}

// baiSummary is a total with the number of items in it, as they are written; -1 items where the file gives no number.
type baiSummary struct {
	sum   decimal.Decimal
	items int
}

// The type codes of balances and totals that mean something here. Codes below 100 are balances, those below 700 sums and movements: credits to 399,
// debits from 400. Loans (700 to 799) go either way by codes that differ from bank to bank. Custom codes are credits from 920 and debits from 960.
const (
	typeOpening, typeClosing           = 10, 15
	typeTotalCredits, typeTotalDebits  = 100, 400
	firstMovement, firstDebit          = 100, 400
	firstLoan, firstMessage            = 700, 800
	typeMessage                        = 890 // text without an amount
	firstCustomCredit, firstCustomDebt = 920, 960
	maxType                            = 999
)

// baiType reads a type code.
func baiType(text string) (int, error) {
	const length = 3
	if len(text) != length || !isDigits(text) {
		return 0, fmt.Errorf("%.20q is not a type code", text)
	}
	return smallInt(text), nil
}

// baiSign gives the sign of a movement's type; 0 for a message.
func baiSign(code int) (int, error) {
	switch {
	case code == typeMessage:
		return 0, nil
	case code >= firstMovement && code < firstDebit, code >= firstCustomCredit && code < firstCustomDebt:
		return 1, nil
	case code >= firstDebit && code < firstLoan, code >= firstCustomDebt && code <= maxType:
		return -1, nil
	}
	return 0, refusal(ReasonUnsupported, 0, "type code %03d does not say whether it is a credit or a debit", code)
}

// The fields of an account header.
const accountNumber, accountCurrency, accountAmounts = 1, 2, 3

func (b *baiBook) openAccount(r *baiRecord) error {
	b.level, b.account = baiInAccount, baiTotals{records: r.physical}
	b.accounts++
	s := &Statement{AccountID: clean(r.field(accountNumber)), BankID: b.bank, From: b.asOf, To: b.asOf}
	s.Currency = strings.ToUpper(r.field(accountCurrency))
	if s.Currency == "" {
		s.Currency = b.currency
	}
	if !isCurrency(s.Currency) {
		return fmt.Errorf("%.40q is not a currency code", s.Currency)
	}
	if b.correction {
		s.Flags = append(s.Flags, Flag{FlagCorrection, "the bank sends this as a correction of what it sent before"})
	}
	decimals, ok := b.p.o.bai2Decimals(s.Currency)
	if !ok {
		return refusal(ReasonScale, r.position, "BAI2 writes amounts without their decimals, and those of %s are not known", s.Currency)
	}
	b.open = &baiAccountReading{Statement: s, index: len(b.p.file.Statements), decimals: decimals}
	if err := b.p.open(s); err != nil {
		return err
	}
	for i := accountAmounts; i < len(r.fields); {
		var err error
		if i, err = b.accountAmount(r, i); err != nil {
			return err
		}
	}
	return nil
}

// accountAmount reads a balance or a total of an account header, which begins at a field, and gives the field after it.
func (b *baiBook) accountAmount(r *baiRecord, i int) (int, error) {
	text, stated := r.field(i), r.field(i+1)
	items := -1
	if count := r.field(i + 2); count != "" {
		n, err := baiNumber(count)
		if err != nil {
			return 0, fmt.Errorf("number of items: %w", err)
		}
		items = int(n.IntPart())
	}
	next, _, err := fundsType(r, i+3)
	if err != nil {
		return 0, err
	}
	amount, err := baiNumber(stated)
	if err != nil {
		return 0, err
	}
	b.account.sum = b.account.sum.Add(amount)
	if text == "" {
		if stated != "" {
			return 0, errors.New("an amount has no type code")
		}
		return next, nil // an account of which nothing is reported
	}
	code, err := baiType(text)
	if err != nil {
		return 0, err
	}
	if stated != "" {
		b.open.note(code, text, amount, items, b.asOf)
	}
	return next, nil
}

// note keeps what an amount of the header says.
func (a *baiAccountReading) note(code int, text string, amount decimal.Decimal, items int, asOf Date) {
	balance := &Balance{Code: text, Amount: amount.Shift(-a.decimals), Currency: a.Currency, Date: asOf}
	switch {
	case code == typeOpening:
		a.Opening = balance
	case code == typeClosing:
		a.Closing = balance
	case code == typeTotalCredits:
		a.credits = &baiSummary{amount.Abs(), items}
	case code == typeTotalDebits:
		a.debits = &baiSummary{amount.Abs(), items} // some banks write it as negative
	case code < firstMovement:
		a.Balances = append(a.Balances, *balance)
	}
}

// fundsType reads the type of funds and what belongs to it, and gives the field after it. Only type V has a date for all of the amount.
func fundsType(r *baiRecord, i int) (next int, value *rawDate, err error) {
	switch kind := r.field(i); kind {
	case "", "0", "1", "2", "Z":
		return i + 1, nil, nil
	case "V":
		if r.field(i+1) == "" {
			return i + 3, nil, nil
		}
		raw, ok := shortDate(r.field(i + 1))
		if !ok {
			return 0, nil, fmt.Errorf("%.20q is not a value date such as 240312", r.field(i+1))
		}
		return i + 3, &raw, nil
	case "S": // available at once, after one day, after two days and more
		return i + 4, nil, nil
	case "D": // a number of pairs of days and amount
		n := r.field(i + 1)
		const most = 99
		if !isDigits(n) || len(n) > 2 || smallInt(n) > most {
			return 0, nil, fmt.Errorf("%.20q is not a number of distributions", n)
		}
		return i + 2 + 2*smallInt(n), nil, nil
	default:
		return 0, nil, fmt.Errorf("type of funds %.20q is not known", kind)
	}
}

// transaction reads a record 16.
func (b *baiBook) transaction(r *baiRecord) error {
	const typeField, amountField, fundsField = 1, 2, 3
	code, err := baiType(r.field(typeField))
	if err != nil {
		return err
	}
	sign, err := baiSign(code)
	if err != nil {
		var refused *Refusal
		if errors.As(err, &refused) {
			refused.Position = r.position
		}
		return err
	}
	amount, err := baiNumber(r.field(amountField))
	if err != nil {
		return err
	}
	b.account.sum = b.account.sum.Add(amount)
	line := Line{
		Position: r.position, BookingDate: b.asOf, Amount: amount.Shift(-b.open.decimals), Currency: b.open.Currency, Status: StatusBooked,
		Code: r.field(typeField),
	}
	switch sign {
	case -1:
		line.Amount = line.Amount.Neg()
	case 0:
		line.Status = StatusInformation
	}
	next, value, err := fundsType(r, fundsField)
	if err != nil {
		return err
	}
	if value != nil {
		if err := line.setValueDate(*value); err != nil {
			return err
		}
	}
	line.References.Bank, line.References.Customer = reference(r.field(next)), reference(r.field(next+1))
	line.ExternalID = line.References.Bank
	line.Description = clean(r.text(next + 2))
	return b.p.add(b.open.Statement, &line)
}

// text puts together the text that begins at a field: it may have commas in it, and each continuation goes on with it.
func (r *baiRecord) text(from int) string {
	var parts []string
	for _, end := range r.ends {
		if end > from {
			parts = append(parts, strings.Join(r.fields[from:end], ","))
			from = end
		}
	}
	return strings.Join(parts, " ")
}

// closeAccount compares the sum and the count of record 49, and the bank's totals with the lines.
func (b *baiBook) closeAccount(r *baiRecord) error {
	b.level = baiInGroup
	b.account.records += r.physical
	b.group.sum = b.group.sum.Add(b.account.sum)
	b.group.records += b.account.records
	a := b.open
	checks, reason, err := baiChecks(r, "account", b.account, nil)
	if err != nil {
		return err
	}
	for _, check := range checks {
		if check.State == CheckFailed {
			b.p.failed(a.index, a.Statement, check, reason(check), r.position)
		} else {
			a.Checks = append(a.Checks, check)
		}
	}
	b.summary(a, a.credits, 1)
	b.summary(a, a.debits, -1)
	return nil
}

// summary compares the total of credits or debits with the lines. A bank may report a total and not all of its items, so the two need only agree if
// the items are as many as the total says.
func (b *baiBook) summary(a *baiAccountReading, total *baiSummary, sign int) {
	if total == nil {
		return
	}
	what := "total credits"
	if sign < 0 {
		what = "total debits"
	}
	items, sum := 0, decimal.Zero
	for i := range a.Lines {
		if amount := a.Lines[i].Amount; amount.Sign() == sign {
			items++
			sum = sum.Add(amount.Abs())
		}
	}
	stated := total.sum.Shift(-a.decimals)
	check := compare(CheckSummary, what, written(stated, a.Currency), written(sum, a.Currency))
	switch {
	case stated.Equal(sum):
		check.State = CheckHeld
		a.Checks = append(a.Checks, check)
	case total.items == items:
		b.p.failed(a.index, a.Statement, check, ReasonControl, 0)
	case total.items < 0:
		a.notMade(CheckSummary, "%s; the file need not have all of its items", check.Detail)
	default:
		a.notMade(CheckSummary, "%s; the total is of %d items, and %d are reported", check.Detail, total.items, items)
	}
}
