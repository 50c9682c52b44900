package export

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// HledgerOptions are choices of NewHledger.
type HledgerOptions struct {
	// Metadata writes the metadata of transfers too, as the tag metadata. It is the callers' own, and may have in it what not everybody who does
	// the accounts should see.
	Metadata bool
}

// NewHledger writes a ledger as a journal of hledger 1.25 or newer. What it writes passes
//
//	hledger -f FILE check -s ordereddates
//
// and does not any more once an amount in it has been changed: each transfer sums to zero, and the accounts' balances are asserted, at the end
// of the period and after each posting that has one. hledger has no limit on digits.
func NewHledger(w io.Writer, options HledgerOptions) BookWriter {
	return &hledgerWriter{bookBase: newBookBase(w), options: options, currencies: map[ledger.CurrencyCode]bool{}}
}

type hledgerWriter struct {
	bookBase
	options    HledgerOptions
	currencies map[ledger.CurrencyCode]bool
	// started is that no account comes any more.
	started bool
}

// Begin implements BookWriter.
func (h *hledgerWriter) Begin(head BookHead) error {
	if err := h.begin(head); err != nil {
		return err
	}
	h.printf("decimal-mark .\n")
	for _, c := range head.Currencies {
		h.declare(c)
	}
	return h.err
}

// declare declares a currency, with its scale. The point is there even where no decimal comes after it: hledger asks for it.
func (h *hledgerWriter) declare(c ledger.Currency) {
	if !h.currencies[c.Code] {
		h.currencies[c.Code] = true
		h.printf("commodity 1000.%s %s\n", strings.Repeat("0", int(c.Scale)), hledgerCurrency(c.Code))
	}
}

// Account implements BookWriter.
func (h *hledgerWriter) Account(account BookAccount) error {
	if h.started {
		return errLateAccount(account.ID)
	}
	a, err := h.add(account, hledgerAccount(account.ID), hledgerCurrency(account.Currency.Code))
	if err != nil {
		return err
	}
	h.declare(account.Currency)
	// With less than two spaces before it, the comment would be a part of the name.
	h.printf("account %s  ; type:%s, account-id:%s", a.name, hledgerTypes[a.Type], percentEncoded(string(a.ID)))
	if name := softEncoded(a.Name); name != "" {
		h.printf(", name:%s", name)
	}
	h.printf("\n")
	return h.err
}

// start writes the opening balances, once all accounts are there.
func (h *hledgerWriter) start() error {
	if h.started {
		return nil
	}
	h.started = true
	first := true
	for _, a := range h.list {
		if a.Opening.IsZero() {
			continue
		}
		if first {
			h.open(h.head.From, "opening", "opening balances", "kind:opening")
			first = false
		}
		if err := h.posting(a, a.Opening, "", decimal.Zero); err != nil {
			return err
		}
	}
	return h.err
}

// open begins a transaction. The mark and the code always stand before the description: without them, some first characters of it would be read
// as one or the other.
func (h *hledgerWriter) open(day, code, description string, tags ...string) {
	h.transactions++
	if description != "" {
		description = " " + description
	}
	h.printf("\n%s * (%s)%s\n    ; %s\n", day, code, description, strings.Join(tags, ", "))
}

// posting writes one, with the assertion that relation ("=" or "==") makes of the balance after it; "" is none. Without two spaces before it, the
// amount would be a part of the name.
func (h *hledgerWriter) posting(a *bookAccount, amount decimal.Decimal, relation string, balance decimal.Decimal) error {
	text, err := a.amount(amount)
	if err != nil {
		return err
	}
	h.postings++
	h.printf("    %-40s  %14s %s", a.name, text, a.currency)
	if relation != "" {
		if text, err = a.amount(balance); err != nil {
			return err
		}
		h.printf(" %s %s %s", relation, text, a.currency)
	}
	h.printf("\n")
	return h.err
}

// Transfer implements BookWriter.
func (h *hledgerWriter) Transfer(t BookTransfer) error {
	if err := h.start(); err != nil {
		return err
	}
	if _, err := h.turnTo(t.Day); err != nil {
		return err
	}
	h.transfers++
	h.open(t.Day, percentEncoded(string(t.Transfer.ID)), hledgerDescription(t.Transfer.Description), h.tags(t.Transfer)...)
	for _, p := range t.Postings {
		a, err := h.of(p.Account)
		if err != nil {
			return err
		}
		relation, balance := "", decimal.Zero
		if p.Balance != nil {
			relation, balance = "=", *p.Balance
		}
		if err := h.posting(a, p.Amount, relation, balance); err != nil {
			return err
		}
	}
	return h.err
}

// hledgerMarks are what a description has in place of characters that mean something: ";" would begin a comment, and "|" part a payee from a note.
var hledgerMarks = strings.NewReplacer(";", ",", "|", "/")

// hledgerDescription is a description that hledger reads as nothing else.
func hledgerDescription(text string) string { return hledgerMarks.Replace(oneLine(text)) }

// tags are those of a transfer. They stand in the comment of the transaction: in that of a posting, hledger would look for dates. A value ends at a
// comma, so that nothing that somebody else has written stays as it was.
func (h *hledgerWriter) tags(t *ledger.Transfer) []string {
	list := []string{"transfer-id:" + percentEncoded(string(t.ID)), "kind:" + percentEncoded(string(t.Kind()))}
	add := func(name, value string) {
		if value != "" {
			list = append(list, name+":"+value)
		}
	}
	add("origin", percentEncoded(string(t.Origin())))
	if t.Terms != nil {
		add("reason", percentEncoded(string(t.Terms.Reason)))
	}
	add("posted-at", bookTime(t.PostedAt))
	add("effective-at", optionalBookTime(t.EffectiveAt))
	add("seq", strconv.FormatInt(t.Sequence, 10))
	add("caller", percentEncoded(t.Caller))
	if h.options.Metadata {
		add("metadata", percentEncoded(string(t.Metadata)))
	}
	return list
}

func optionalBookTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return bookTime(*t)
}

// Closing implements BookWriter. The assertions are postings of nothing on the last day: "==" says that the account has no other currency.
func (h *hledgerWriter) Closing(account ledger.AccountID, balance decimal.Decimal) error {
	if err := h.start(); err != nil {
		return err
	}
	a, err := h.close(account)
	if err != nil {
		return err
	}
	if h.closings == 1 {
		h.open(bookDay(h.to.AddDate(0, 0, -1)), "assert", "closing balances", "kind:closing")
	}
	return h.posting(a, decimal.Zero, "==", balance)
}

// End implements BookWriter.
func (h *hledgerWriter) End() error {
	if err := h.start(); err != nil {
		return err
	}
	return h.end()
}
