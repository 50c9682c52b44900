package export

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// BookHead says what a book is of: the transfers of a ledger in a period.
type BookHead struct {
	Ledger ledger.Name
	// Basis is "booking" or "value", Zone the name of the zone that the days are in.
	Basis, Zone string
	// From and To are the first day and the day after the last one, as "2026-01-31". Both are required: a journal has no beginning of time.
	From, To string
	// Through is the last sequence that is in it.
	Through int64
	// Currencies are those of the accounts.
	Currencies []ledger.Currency
}

// BookAccount is an account of a book.
type BookAccount struct {
	ID       ledger.AccountID
	Type     ledger.AccountType
	Currency ledger.Currency
	Name     string
	// Opening is the balance before the period, a debit positive. Those of all accounts sum to zero in each currency; if they do not, they are
	// written all the same, so that the tool refuses the book.
	Opening decimal.Decimal
}

// BookPosting is an entry of a transfer, a debit positive. Its currency is the account's.
type BookPosting struct {
	Account ledger.AccountID
	Amount  decimal.Decimal
	// Balance is the account's after it, also a debit positive; nil if it is not to be asserted.
	Balance *decimal.Decimal
}

// BookTransfer is a posted transfer that moves money.
type BookTransfer struct {
	// Day is that of the basis, "2026-01-31".
	Day      string
	Transfer *ledger.Transfer
	// Postings are the transfer's entries, in their order.
	Postings []BookPosting
}

// BookWriter writes a ledger as the journal of a plain-text accounting tool: Begin once, Account for each account, Transfer for each transfer in
// the order of days and then of sequence, Closing for each account again, End once. All accounts come before the first transfer. The balances
// that it is given come from Khata's balance function and not from the transfers that it has written, so that the tool's check of them is a
// check of Khata.
//
// What it has written is whole only once End has returned without an error. After an error of any method, throw it away.
type BookWriter interface {
	Begin(head BookHead) error
	Account(account BookAccount) error
	Transfer(transfer BookTransfer) error
	// Closing is the balance of an account at the end of the period, a debit positive.
	Closing(account ledger.AccountID, balance decimal.Decimal) error
	// End writes what remains: the last of the assertions, and how many transactions and postings there were.
	End() error
}

// bookFormat is the version of the two formats, as their headers name it.
const bookFormat = 1

// bookAccount is an account as a journal knows it.
type bookAccount struct {
	BookAccount
	// name and currency are as the tool spells them.
	name, currency string
	// running is the balance after what has been written of it, and claimed what Khata last said that it was after a posting of the day; nil
	// if it did not say. They are kept for beancount only.
	running decimal.Decimal
	claimed *decimal.Decimal
	// closing sums up what a check of the account's balance will look at. A parent's is also that of its children.
	closing, size  decimal.Decimal
	parent, closed bool
}

// sumUp adds a closing balance to what a check of the account's will look at.
func (a *bookAccount) sumUp(balance decimal.Decimal) {
	a.closing, a.size = a.closing.Add(balance), a.size.Add(balance.Abs())
}

// amount writes an amount of the account with the full scale of its currency. It rounds nothing: what does not fit is an error.
func (a *bookAccount) amount(v decimal.Decimal) (string, error) {
	if scale := a.Currency.Scale; v.Exponent() < -scale && !v.Equal(v.Truncate(scale)) {
		return "", fmt.Errorf("%s of account %s has more decimals than %s has", v, a.ID, a.Currency.Code)
	}
	return ledger.FormatAmount(v, a.Currency.Scale), nil
}

// bookBase is what the writers of journals have in common.
type bookBase struct {
	out      *bufio.Writer
	head     BookHead
	from, to time.Time
	accounts map[ledger.AccountID]*bookAccount
	// list has the accounts in the order in which they came.
	list []*bookAccount
	// day is that of the last transaction.
	day                                         string
	transactions, transfers, postings, closings int64
	// err is the first error of writing.
	err error
}

func newBookBase(w io.Writer) bookBase {
	return bookBase{out: bufio.NewWriterSize(w, 1<<16), accounts: map[ledger.AccountID]*bookAccount{}}
}

// printf writes; an error is kept for End.
func (b *bookBase) printf(format string, args ...any) {
	if _, err := fmt.Fprintf(b.out, format, args...); err != nil && b.err == nil {
		b.err = fmt.Errorf("write a journal: %w", err)
	}
}

// begin takes the head, and writes what it says as a comment.
func (b *bookBase) begin(head BookHead) (err error) {
	if b.from, err = parseBookDay(head.From); err != nil {
		return err
	}
	if b.to, err = parseBookDay(head.To); err != nil {
		return err
	}
	if !b.from.Before(b.to) {
		return fmt.Errorf("a book from %s to %s has no day", head.From, head.To)
	}
	b.head = head
	b.printf("; khata-export format=%d ledger=%s basis=%s zone=%s from=%s to=%s (exclusive) through=%d\n",
		bookFormat, head.Ledger.Or(), percentEncoded(head.Basis), oneLine(head.Zone), head.From, head.To, head.Through)
	b.printf("; A debit is positive, a credit negative. How to check this file: docs/export.md of Khata.\n")
	b.printf("; It is whole only if its last line begins with \"; khata-export end\".\n")
	return b.err
}

// add takes an account.
func (b *bookBase) add(account BookAccount, name, currency string) (*bookAccount, error) {
	if b.accounts[account.ID] != nil {
		return nil, fmt.Errorf("account %s is in the book twice", account.ID)
	}
	if !account.Type.Valid() {
		return nil, fmt.Errorf("account %s has the type %q, which is none", account.ID, string(account.Type))
	}
	a := &bookAccount{BookAccount: account, name: name, currency: currency, running: account.Opening}
	b.accounts[account.ID] = a
	b.list = append(b.list, a)
	return a, nil
}

func errLateAccount(id ledger.AccountID) error {
	return fmt.Errorf("account %s comes after the first transfer or closing balance", id)
}

// of finds an account.
func (b *bookBase) of(id ledger.AccountID) (*bookAccount, error) {
	a := b.accounts[id]
	if a == nil {
		return nil, fmt.Errorf("account %s is not among those of the book", id)
	}
	return a, nil
}

// turnTo goes to the day of a transfer, and reports whether it is another one than that of the transfer before. The checks of both tools rely
// on the order.
func (b *bookBase) turnTo(text string) (fresh bool, err error) {
	if b.closings > 0 {
		return false, errors.New("a transfer comes after the first closing balance")
	}
	if text == b.day {
		return false, nil
	}
	day, err := parseBookDay(text)
	if err != nil {
		return false, err
	}
	if day.Before(b.from) || !day.Before(b.to) {
		return false, fmt.Errorf("day %s is not in the book, which is from %s to %s", text, b.head.From, b.head.To)
	}
	if b.day != "" {
		if last, err := parseBookDay(b.day); err != nil || day.Before(last) {
			return false, fmt.Errorf("day %s comes after %s", text, b.day)
		}
	}
	b.day = text
	return true, nil
}

// close finds an account whose closing balance is to be written.
func (b *bookBase) close(id ledger.AccountID) (*bookAccount, error) {
	a, err := b.of(id)
	if err != nil {
		return nil, err
	}
	if a.closed {
		return nil, fmt.Errorf("account %s has two closing balances", id)
	}
	a.closed = true
	b.closings++
	return a, nil
}

// end writes the counts. An account without a closing balance would be one that nobody checks.
func (b *bookBase) end() error {
	if n := int64(len(b.list)) - b.closings; n != 0 {
		return fmt.Errorf("%d of %d accounts have no closing balance", n, len(b.list))
	}
	b.printf("\n; khata-export end transfers=%d transactions=%d postings=%d accounts=%d\n", b.transfers, b.transactions, b.postings, len(b.list))
	if b.err != nil {
		return b.err
	}
	if err := b.out.Flush(); err != nil {
		return fmt.Errorf("write a journal: %w", err)
	}
	return nil
}

// parseBookDay reads a day. Its year has four digits or more: in some zone, the last hours of the year 9999 are those of the next one.
func parseBookDay(text string) (time.Time, error) {
	var number [3]int
	parts := strings.Split(text, "-")
	for i, part := range parts {
		if len(parts) != len(number) {
			break
		}
		number[i], _ = strconv.Atoi(part)
	}
	day := time.Date(number[0], time.Month(number[1]), number[2], 0, 0, 0, 0, time.UTC)
	if day.Year() < 1 || bookDay(day) != text {
		return time.Time{}, fmt.Errorf("%.40q is no day, such as 2026-01-31", text)
	}
	return day, nil
}

func bookDay(t time.Time) string { return fmt.Sprintf("%04d-%02d-%02d", t.Year(), t.Month(), t.Day()) }

// bookTime writes a time in UTC, always with microseconds.
func bookTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// oneLine makes text harmless wherever a line must not end: control characters, whatever ends a line in some program, and characters that turn
// the direction of text, by which a line would not look like what it is, become spaces.
func oneLine(text string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == '\u2028', r == '\u2029', r >= '\u202a' && r <= '\u202e', r >= '\u2066' && r <= '\u2069', r == '\ufeff':
			return ' '
		}
		return r
	}, text))
}
