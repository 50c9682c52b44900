package payapi

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// transferAnswer is how a payment is told. The time comes last: it is filled in by the statement that stores the answer, which runs in the
// same round trip as the one that draws it.
type transferAnswer struct {
	TransferID string `json:"transfer_id"`
	// Kind is "transfer", "refund" or "cash_in"; left out of the first.
	Kind     string `json:"kind,omitempty"`
	Original string `json:"original,omitempty"`
	// From is left out where the money comes from a card.
	From     string `json:"from,omitempty"`
	To       string `json:"to"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Reason   string `json:"reason,omitempty"`
	Note     string `json:"note,omitempty"`
}

// timeFormat is RFC 3339 with the microseconds that the database has; the statement that stores an answer writes the same.
const timeFormat = "2006-01-02T15:04:05.000000Z"

// template gives the answer to a payment by its record, up to the time of posting and after it. A refusal tells no time.
func template(t *ledger.Transfer) (status int, before, after string) {
	n := numberOf(string(t.ID))
	if t.Refusal != nil {
		kind := statuses[t.Refusal.Reason]
		p := problem{
			Status: kind.status, Code: string(t.Refusal.Reason), Title: kind.title, TransferID: string(n),
			Detail: "this is on record, and stays so: a new attempt needs a new key",
		}
		if len(t.Entries) == 2 && t.Kind() == ledger.Plain && !isWallet(t.Entries[0].Account) && owed(t) {
			p.Detail += "; what was taken from the card is given back"
		}
		if isWallet(t.Refusal.Account) { // The company's own accounts are no customer's business.
			p.Account = string(t.Refusal.Account)
		}
		return p.Status, string(p.encode()), ""
	}
	a := transferAnswer{TransferID: string(n), Note: t.Description, Currency: string(t.Entries[0].Currency.Code)}
	amount := t.Entries[0].Amount
	for _, e := range t.Entries { // A debit takes from a wallet, and a credit gives to one.
		if e.Direction == ledger.Debit {
			a.From = string(e.Account)
		} else {
			a.To = string(e.Account)
		}
	}
	if t.Kind() == ledger.Refund {
		a.Kind, a.Original, a.Reason = string(ledger.Refund), string(numberOf(string(t.Origin()))), string(t.Terms.Reason)
	}
	if t.Kind() == ledger.Plain && !isWallet(ledger.AccountID(a.From)) {
		a.Kind, a.From = cashInKind, ""
	}
	a.Amount = ledger.FormatAmount(amount, t.Entries[0].Currency.Scale)
	body, err := json.Marshal(a)
	if err != nil { // It is made of strings.
		panic(err)
	}
	return http.StatusCreated, strings.TrimSuffix(string(body), "}") + `,"posted_at":"`, "\"}\n"
}

// rebuilt gives the answer to a payment by its record, with the bytes that are stored while its key is.
func rebuilt(t *ledger.Transfer) answer {
	status, before, after := template(t)
	body := before
	if after != "" {
		body += t.PostedAt.UTC().Format(timeFormat) + after
	}
	return answer{status: status, body: []byte(body), number: numberOf(string(t.ID))}
}

func formatTime(t time.Time) string { return t.UTC().Format(timeFormat) }
