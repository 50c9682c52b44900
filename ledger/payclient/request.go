package payclient

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"unicode/utf8"
)

// Request is what is asked for: a Transfer, a Refund or a CashIn.
type Request interface {
	// route gives the path, and checks what would not survive on the way.
	route() (path string, err error)
}

// Transfer pays from one wallet to another.
type Transfer struct {
	// From and To are wallets, such as wallet:shimul.
	From string `json:"from"`
	To   string `json:"to"`
	// Amount is a decimal in the unit of the currency, with no more decimals than it has: "500.00". Of a decimal.Decimal, its String.
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	// Note is for people; at most 1,024 bytes.
	Note string `json:"note,omitempty"`
}

// Refund gives an earlier payment back, or a part of it.
type Refund struct {
	// TransferID is the number of the payment, TXN-….
	TransferID string `json:"transfer_id"`
	// Amount is how much, in the currency of the payment; or Everything is all that is left.
	Amount     string `json:"amount,omitempty"`
	Everything bool   `json:"everything,omitempty"`
	// ExpectedRefunded is what has been refunded before, as far as the caller knows: "0" if nothing. If it is something else by now, the refund
	// is rejected.
	ExpectedRefunded string `json:"expected_refunded"`
	// Reason is one of those in docs/payments.md, such as wrong_amount; "other" needs a Note.
	Reason string `json:"reason"`
	Note   string `json:"note,omitempty"`
}

// CashIn takes money from a card into a wallet.
type CashIn struct {
	To string `json:"to"`
	// Card is the card's token, never its number.
	Card     string `json:"card"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`
}

const (
	transfersPath = "/v1/transfers"
	refundsPath   = "/v1/refunds"
	cashInsPath   = "/v1/cash-ins"

	// maxBody is the server's limit too.
	maxBody = 64 << 10
)

func (t Transfer) route() (string, error) {
	return transfersPath, check(field{"from", t.From}, field{"to", t.To}, amount(t.Amount), field{"currency", t.Currency})
}

func (r Refund) route() (string, error) {
	if (r.Amount == "") == !r.Everything {
		return "", fmt.Errorf("%w: give either an amount or everything", ErrInvalid)
	}
	list := []field{{"transfer_id", r.TransferID}, {"reason", r.Reason}, {"expected_refunded", r.ExpectedRefunded}}
	if !r.Everything {
		list = append(list, amount(r.Amount))
	}
	return refundsPath, check(list...)
}

func (c CashIn) route() (string, error) {
	return cashInsPath, check(field{"to", c.To}, field{"card", c.Card}, amount(c.Amount), field{"currency", c.Currency})
}

type field struct{ name, value string }

func amount(value string) field { return field{"amount", value} }

var wellFormedAmount = regexp.MustCompile(`^(0|[1-9][0-9]*)(\.[0-9]+)?$`)

// check finds what is missing. What the server can say better, it says.
func check(list ...field) error {
	for _, f := range list {
		switch {
		case f.value == "":
			return fmt.Errorf("%w: %s is missing", ErrInvalid, f.name)
		case (f.name == "amount" || f.name == "expected_refunded") && !wellFormedAmount.MatchString(f.value):
			return fmt.Errorf("%w: %s %q is not a decimal such as 500.00", ErrInvalid, f.name, f.value)
		}
	}
	return nil
}

// encode gives the path and the bytes that are sent, now and in every further try.
func encode(r Request) (path string, body []byte, err error) {
	if r == nil {
		return "", nil, fmt.Errorf("%w: there is no request", ErrInvalid)
	}
	if path, err = r.route(); err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err = enc.Encode(r); err != nil {
		return "", nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	body = bytes.TrimSuffix(b.Bytes(), []byte("\n"))
	if len(body) > maxBody {
		return "", nil, fmt.Errorf("%w: the request has %d bytes, and may have %d", ErrInvalid, len(body), maxBody)
	}
	if !isText(reflect.ValueOf(r)) { // The encoder has replaced what is not: it would be another payment than the caller meant.
		return "", nil, fmt.Errorf("%w: the request has text that is not UTF-8", ErrInvalid)
	}
	return path, body, nil
}

// isText reports whether all texts of a request are UTF-8.
func isText(v reflect.Value) bool {
	v = reflect.Indirect(v)
	for i := range v.NumField() {
		if f := v.Field(i); f.Kind() == reflect.String && !utf8.ValidString(f.String()) {
			return false
		}
	}
	return true
}

// sameContent reports whether two bodies ask for the same: the server too takes 500 and 500.00 for equal, and pays no heed to the order
// of fields, in which another release of this package may differ.
func sameContent(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	x, errX := content(a)
	y, errY := content(b)
	return errX == nil && errY == nil && reflect.DeepEqual(x, y)
}

// content reads a body into what counts of it.
func content(body []byte) (map[string]any, error) {
	var m map[string]any
	if err := json.Unmarshal(body, &m); err != nil {
		return nil, err
	}
	for _, name := range []string{"amount", "expected_refunded"} {
		if text, ok := m[name].(string); ok {
			m[name] = plain(text)
		}
	}
	for name, value := range m { // What is left out, and what is empty, are the same.
		if value == "" || value == false {
			delete(m, name)
		}
	}
	return m, nil
}

// plain writes an amount without the zeros at its end: equal amounts are equal texts then.
func plain(amount string) string {
	if strings.Contains(amount, ".") {
		amount = strings.TrimRight(strings.TrimRight(amount, "0"), ".")
	}
	return amount
}

// isAbout reports whether a payment, as the server tells it, is one that this body asks for.
func isAbout(body []byte, p payment) bool {
	m, err := content(body)
	if err != nil {
		return false
	}
	for name, told := range map[string]string{"from": p.From, "to": p.To, "currency": p.Currency, "amount": plain(p.Amount), "transfer_id": p.Original} {
		if asked, ok := m[name].(string); ok && asked != told {
			return false
		}
	}
	return true
}
