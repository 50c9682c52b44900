package export

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// BeancountDigits is how many significant digits beancount computes with: Python's decimals round what has more, and nobody is told.
const BeancountDigits = 28

// BeancountLimitError is that a book has something in it that beancount cannot compute with, or would do wrongly.
type BeancountLimitError struct {
	// Account is where it would happen; "" if it is about no account.
	Account ledger.AccountID
	// Transfer is the one before which the writer stopped; "" if it is about an opening or closing balance.
	Transfer ledger.TransferID
	// Why says what it is.
	Why string
}

// Error says it, and what to do instead.
func (e *BeancountLimitError) Error() string {
	var where strings.Builder
	if e.Account != "" {
		fmt.Fprintf(&where, "account %s: ", e.Account)
	}
	if e.Transfer != "" {
		fmt.Fprintf(&where, "transfer %s: ", e.Transfer)
	}
	return where.String() + e.Why + "; export to hledger, which has no such limit"
}

// NewBeancount writes a ledger as a journal of beancount 2.3 or newer. What it writes passes
//
//	bean-check -C FILE
//
// and does not any more once an amount in it has been changed: each transfer sums to zero, and the accounts' balances are asserted at the end of
// the period, and at the end of each day in which postings say what they are. beancount has no assertions within a day. It returns a
// *BeancountLimitError before it writes anything that beancount would round.
func NewBeancount(w io.Writer) BookWriter {
	return &beancountWriter{bookBase: newBookBase(w), claims: map[*bookAccount]bool{}, codes: map[ledger.CurrencyCode]bool{}}
}

type beancountWriter struct {
	bookBase
	started bool
	codes   map[ledger.CurrencyCode]bool
	// touched are the accounts that the day's transfers have postings in, in order; claims knows which those are.
	touched []*bookAccount
	claims  map[*bookAccount]bool
	// parents knows the accounts by whose names those of others begin.
	parents map[string]*bookAccount
}

// Begin implements BookWriter.
func (b *beancountWriter) Begin(head BookHead) error {
	if err := b.begin(head); err != nil {
		return err
	}
	// The day after the last one is that of the closing assertions.
	if b.to.Year() > 9999 {
		return &BeancountLimitError{Why: "beancount has no day " + head.To}
	}
	b.printf("option \"title\" %s\n", beancountString("Khata, ledger "+string(head.Ledger.Or())))
	// By default, a transaction may be off by half a unit of its last digit.
	b.printf("option \"inferred_tolerance_multiplier\" \"0\"\n")
	for _, c := range head.Currencies {
		b.declare(c.Code)
	}
	return b.err
}

// declare declares a currency.
func (b *beancountWriter) declare(code ledger.CurrencyCode) {
	if b.codes[code] {
		return
	}
	b.codes[code] = true
	name := beancountCurrency(code)
	b.printf("%s commodity %s\n", b.head.From, name)
	if name != string(code) {
		b.printf("  code: %s\n", beancountString(string(code)))
	}
}

// Account implements BookWriter. It is written with the others, when their names are certain.
func (b *beancountWriter) Account(account BookAccount) error {
	if b.started {
		return errLateAccount(account.ID)
	}
	_, err := b.add(account, "", beancountCurrency(account.Currency.Code))
	return err
}

// start writes the accounts and the opening balances, once all accounts are there.
func (b *beancountWriter) start() error {
	if b.started {
		return nil
	}
	b.started = true
	nameForBeancount(b.list)
	b.findParents()
	for _, a := range b.list {
		b.declare(a.Currency.Code)
	}
	for _, a := range b.list {
		b.printf("%s open %s %s\n  account-id: %s\n", b.head.From, a.name, a.currency, beancountString(string(a.ID)))
		if a.Name != "" {
			b.printf("  name: %s\n", beancountString(a.Name))
		}
	}
	return b.opening()
}

// opening is the transaction of the opening balances.
func (b *beancountWriter) opening() error {
	sums := beancountSums{}
	first := true
	for _, a := range b.list {
		if a.Opening.IsZero() {
			continue
		}
		if err := b.fits(a, "", "the opening balance", a.Opening); err != nil {
			return err
		}
		if err := sums.add(b, a, "", a.Opening); err != nil {
			return err
		}
		if first {
			b.open(b.head.From, "opening balances", "#opening")
			first = false
		}
		if err := b.posting(a, a.Opening); err != nil {
			return err
		}
	}
	return b.err
}

// findParents marks the accounts by whose names those of others begin: beancount's checks of them include the others.
func (b *beancountWriter) findParents() {
	names := make(map[string]*bookAccount, len(b.list))
	for _, a := range b.list {
		names[a.name] = a
	}
	b.parents = map[string]*bookAccount{}
	for _, a := range b.list {
		for name := range ancestors(a.name) {
			if parent := names[name]; parent != nil {
				parent.parent = true
				b.parents[name] = parent
			}
		}
	}
}

// ancestors yields what a name of an account begins with.
func ancestors(name string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := len(name) - 1; i > 0; i-- {
			if name[i] == ':' && !yield(name[:i]) {
				return
			}
		}
	}
}

// fits returns a BeancountLimitError if an amount of an account has too many digits, with all the decimals of the currency.
func (b *beancountWriter) fits(a *bookAccount, transfer ledger.TransferID, what string, v decimal.Decimal) error {
	if v.Abs().LessThan(decimal.New(1, BeancountDigits-a.Currency.Scale)) {
		return nil
	}
	return &BeancountLimitError{Account: a.ID, Transfer: transfer, Why: fmt.Sprintf(
		"%s of %s %s has more than the %d digits that beancount computes with",
		what, ledger.FormatAmount(v, a.Currency.Scale), a.Currency.Code, BeancountDigits)}
}

// beancountSums are the sums of a transaction's postings so far, by currency. beancount adds them up to see whether they come to zero.
type beancountSums map[ledger.CurrencyCode]decimal.Decimal

func (s beancountSums) add(b *beancountWriter, a *bookAccount, transfer ledger.TransferID, v decimal.Decimal) error {
	sum := s[a.Currency.Code].Add(v)
	s[a.Currency.Code] = sum
	return b.fits(a, transfer, "a sum of postings, through this account's,", sum)
}

// open begins a transaction.
func (b *beancountWriter) open(day, description string, marks ...string) {
	b.transactions++
	b.printf("\n%s * %s", day, beancountString(description))
	for _, mark := range marks {
		b.printf(" %s", mark)
	}
	b.printf("\n")
}

func (b *beancountWriter) posting(a *bookAccount, amount decimal.Decimal) error {
	text, err := a.amount(amount)
	if err != nil {
		return err
	}
	b.postings++
	b.printf("  %-50s  %14s %s\n", a.name, text, a.currency)
	return b.err
}

// Transfer implements BookWriter.
func (b *beancountWriter) Transfer(t BookTransfer) error {
	if err := b.start(); err != nil {
		return err
	}
	before := b.day
	fresh, err := b.turnTo(t.Day)
	if err != nil {
		return err
	}
	if fresh && before != "" {
		if err := b.endDay(before); err != nil {
			return err
		}
	}
	sums := beancountSums{}
	accounts := make([]*bookAccount, len(t.Postings))
	for i, p := range t.Postings {
		if accounts[i], err = b.of(p.Account); err != nil {
			return err
		}
		if err := b.enter(accounts[i], p, t.Transfer.ID, sums); err != nil {
			return err
		}
	}
	b.transfers++
	b.heading(t)
	for i, p := range t.Postings {
		if err := b.posting(accounts[i], p.Amount); err != nil {
			return err
		}
	}
	return b.err
}

// enter takes notice of a posting, if it is one that beancount computes rightly with.
func (b *beancountWriter) enter(a *bookAccount, p BookPosting, transfer ledger.TransferID, sums beancountSums) error {
	a.running = a.running.Add(p.Amount)
	a.claimed = p.Balance
	if !b.claims[a] {
		b.claims[a] = true
		b.touched = append(b.touched, a)
	}
	return cmp.Or(
		b.fits(a, transfer, "the amount", p.Amount),
		b.fits(a, transfer, "the balance", a.running),
		sums.add(b, a, transfer, p.Amount),
	)
}

// heading begins the transaction of a transfer. The links are its id and its origin's, so that a refund is found beside what it refunds.
func (b *beancountWriter) heading(t BookTransfer) {
	r := t.Transfer
	marks := []string{"^" + beancountLink(r.ID)}
	if r.Origin() != "" {
		marks = append(marks, "^"+beancountLink(r.Origin()))
	}
	b.open(t.Day, r.Description, append(marks, "#"+beancountLink(ledger.TransferID(r.Kind())))...)
	say := func(key, value string) {
		if value != "" {
			b.printf("  %s: %s\n", key, beancountString(value))
		}
	}
	say("transfer-id", string(r.ID))
	say("origin", string(r.Origin()))
	if r.Terms != nil {
		say("reason", string(r.Terms.Reason))
	}
	say("posted-at", bookTime(r.PostedAt))
	say("effective-at", optionalBookTime(r.EffectiveAt))
	b.printf("  seq: %d\n", r.Sequence)
	say("caller", r.Caller)
}

// endDay asserts what the accounts had at the end of a day, as far as their postings say it. The last day's is the closing balance. Of a parent it
// is left out: Khata says nothing of what its children have in the meantime.
func (b *beancountWriter) endDay(text string) error {
	day, err := parseBookDay(text)
	if err != nil {
		return err
	}
	next := day.AddDate(0, 0, 1)
	first := true
	for _, a := range b.touched {
		if a.claimed == nil || a.parent || !next.Before(b.to) {
			continue
		}
		if first {
			b.printf("\n")
			first = false
		}
		if err := b.balance(bookDay(next), a, *a.claimed); err != nil {
			return err
		}
	}
	b.touched = b.touched[:0]
	clear(b.claims)
	return b.err
}

// balance writes an assertion: it is about the beginning of its day. "~ 0" is the tolerance, which is a unit of the last digit by default.
func (b *beancountWriter) balance(day string, a *bookAccount, balance decimal.Decimal) error {
	text, err := a.amount(balance)
	if err != nil {
		return err
	}
	b.printf("%s balance %-50s  %14s ~ 0 %s\n", day, a.name, text, a.currency)
	return b.err
}

// Closing implements BookWriter. The balance of a parent is asserted together with those of its children, and so not before End.
func (b *beancountWriter) Closing(account ledger.AccountID, balance decimal.Decimal) error {
	if err := b.start(); err != nil {
		return err
	}
	if b.closings == 0 {
		if b.day != "" {
			if err := b.endDay(b.day); err != nil {
				return err
			}
		}
		b.printf("\n")
	}
	a, err := b.close(account)
	if err != nil {
		return err
	}
	if err := b.fits(a, "", "the closing balance", balance); err != nil {
		return err
	}
	a.sumUp(balance)
	for name := range ancestors(a.name) {
		if parent := b.parents[name]; parent != nil && parent.Currency.Code == a.Currency.Code {
			parent.sumUp(balance)
		}
	}
	if a.parent {
		return nil
	}
	return b.balance(b.head.To, a, balance)
}

// End implements BookWriter.
func (b *beancountWriter) End() error {
	if err := b.start(); err != nil {
		return err
	}
	for _, a := range b.list {
		if !a.parent {
			continue
		}
		// In which order beancount adds them up does not matter if all of them together would fit.
		if err := b.fits(a, "", "what it and the accounts below it have on either side, a sum", a.size); err != nil {
			return err
		}
		if err := b.balance(b.head.To, a, a.closing); err != nil {
			return err
		}
	}
	return b.end()
}
