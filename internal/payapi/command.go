package payapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxBody is the most bytes of a request.
	maxBody = 64 << 10
	// walletPrefix begins the ids of the accounts that this API moves money between. All others are the company's own.
	walletPrefix = "wallet:"
)

// transferCommand asks for a payment from one wallet to another.
type transferCommand struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`
}

// spec checks the command and gives the transfer that it asks for: the wallets are what the company owes, so the payer's is debited.
func (c *transferCommand) spec(n number) (ledger.TransferSpec, error) {
	amount, err := parseAmount(&c.Amount, "amount")
	if err != nil {
		return ledger.TransferSpec{}, err
	}
	if err := checkWallet("from", c.From); err != nil {
		return ledger.TransferSpec{}, err
	}
	if err := checkWallet("to", c.To); err != nil {
		return ledger.TransferSpec{}, err
	}
	if c.From == c.To {
		return ledger.TransferSpec{}, invalid("to", "is the wallet that the money comes from")
	}
	if c.Currency == "" {
		return ledger.TransferSpec{}, invalid("currency", "is required, such as BDT")
	}
	spec := ledger.TransferSpec{
		ID: n.transferID(), Description: c.Note,
		Entries: ledger.Simple(ledger.AccountID(c.From), ledger.AccountID(c.To), amount, ledger.CurrencyCode(c.Currency)),
	}
	return spec, spec.ValidateDerived()
}

func checkWallet(field, id string) error {
	switch {
	case id == "":
		return invalid(field, "is required, such as wallet:shimul")
	case !strings.HasPrefix(id, walletPrefix):
		return &problem{
			Status: http.StatusUnprocessableEntity, Code: codeNotAWallet, Title: "That is not a wallet",
			Fields: []fieldError{{field, "want the id of a wallet, which begins with " + walletPrefix}},
		}
	}
	return ledger.AccountID(id).ValidateFormat(field)
}

// refundCommand asks for a refund of an earlier payment.
type refundCommand struct {
	TransferID string `json:"transfer_id"`
	// Amount is how much; or Everything is everything that is left.
	Amount     string `json:"amount,omitempty"`
	Everything bool   `json:"everything,omitempty"`
	// ExpectedRefunded is what the caller believes to have been refunded before.
	ExpectedRefunded string `json:"expected_refunded"`
	Reason           string `json:"reason"`
	Note             string `json:"note,omitempty"`
}

func (c *refundCommand) spec(n number) (ledger.TransferSpec, error) {
	if !wellFormedNumber.MatchString(c.TransferID) {
		return ledger.TransferSpec{}, invalid("transfer_id", "is required, such as TXN- and 26 characters")
	}
	terms := &ledger.Terms{Kind: ledger.Refund, Origin: number(c.TransferID).transferID(), Reason: ledger.RefundReason(c.Reason)}
	if (c.Amount == "") == !c.Everything {
		return ledger.TransferSpec{}, invalid("amount", "is required, or everything: one of the two")
	}
	if !c.Everything {
		amount, err := parseAmount(&c.Amount, "amount")
		if err != nil {
			return ledger.TransferSpec{}, err
		}
		terms.Amount = &amount
	}
	expected, err := ledger.ParseBalance(c.ExpectedRefunded, "expected_refunded")
	if err != nil {
		return ledger.TransferSpec{}, err
	}
	terms.ExpectedRefunded = &expected
	c.ExpectedRefunded = expected.String()
	spec := ledger.TransferSpec{ID: n.transferID(), Description: c.Note, Terms: terms}
	return spec, ledger.Within("refund.", spec.ValidateDerived())
}

// parseAmount reads an amount, and writes it back in the form that equal amounts share.
func parseAmount(text *string, field string) (decimal.Decimal, error) {
	amount, err := ledger.ParseAmount(*text, field)
	if err != nil {
		return amount, err
	}
	*text = amount.String()
	return amount, nil
}

// command is what is asked for under a key.
type command interface {
	spec(n number) (ledger.TransferSpec, error)
}

// fingerprint is that of a command with its method and route. The command must be in canonical form: spec sees to it.
func fingerprint(method, route string, c command) []byte {
	canonical, err := json.Marshal(c)
	if err != nil { // It is made of strings.
		panic(err)
	}
	sum := sha256.Sum256([]byte(method + " " + route + "\n" + string(canonical)))
	return sum[:]
}

// readBody reads a JSON object of known fields, and nothing after it. What is not understood is not paid.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &problem{
			Status: http.StatusUnsupportedMediaType, Code: codeMediaType, Title: "The request is not JSON",
			Detail: "send it with Content-Type: application/json",
		}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return &problem{Status: http.StatusRequestEntityTooLarge, Code: codeTooLarge, Title: "The request is too large", Detail: "at most 64 KiB are allowed"}
	case err != nil:
		return invalid("", "the body ended early")
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return invalid(wrongType.Field, "want a %s, not a %s", wrongType.Type.Kind(), wrongType.Value)
	case errors.As(err, &wrongType):
		return invalid("", "want a JSON object, not a %s", wrongType.Value)
	case err != nil:
		return invalid("", "is not the JSON object that is wanted: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return invalid("", "has something after the JSON object")
	}
	return checkStrictly(body)
}
