package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// timeFormat is RFC 3339 in UTC with the microseconds that the database has.
const timeFormat = "2006-01-02T15:04:05.000000Z"

func formatTime(t time.Time) string { return t.UTC().Format(timeFormat) }

func formatOptionalTime(t *time.Time) string {
	if t == nil {
		return ""
	}
	return formatTime(*t)
}

// print writes a value: as one line of JSON, or as text.
func (a *app) print(value any, text string) error {
	if !a.json {
		_, err := fmt.Fprintln(a.Out, text)
		return err
	}
	enc := json.NewEncoder(a.Out)
	enc.SetEscapeHTML(false)
	return enc.Encode(value)
}

// errorJSON is an error on standard error with --json.
type errorJSON struct {
	Code       ledger.Code     `json:"code"`
	Message    string          `json:"message"`
	Violations []violationJSON `json:"violations,omitempty"`
	// Refusal is of a file of a bank that is refused.
	Refusal *refusalJSON `json:"refusal,omitempty"`
}

type violationJSON struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (a *app) printError(err error) {
	if !a.json {
		// ledger/client does not say which server it is.
		text := strings.Replace(err.Error(), "no answer from the server", "no answer from "+a.address, 1)
		_, _ = fmt.Fprintln(a.Err, "khata:", text+a.hint(err))
		return
	}
	enc := json.NewEncoder(a.Err)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(toErrorJSON(err))
}

// hint is what can be done about an error, for people.
func (a *app) hint(err error) string {
	var typed *ledger.Error
	var conflict conflictError
	if !errors.As(err, &typed) {
		return ""
	}
	switch {
	case typed.Code == ledger.CodeLedgerNotFound:
		return " (khata ledger list shows those that are there)"
	case typed.Code == ledger.CodeTransferNotFound:
		if found := noTransfer.FindStringSubmatch(typed.Message); found != nil {
			return " (khata support find " + found[1] + " looks for payment numbers, keys and references, too)"
		}
	case !typed.Code.Open() || errors.As(err, &conflict) || !a.calls.wrote.Load(): // What only reads leaves nothing open.
	case a.calls.sent.Load():
		return "\nkhata: no answer, so the outcome is open: run the same command again (a transfer under the same id)"
	default:
		return "\nkhata: nothing was sent: run the same command again when the server is there"
	}
	return ""
}

// noTransfer finds the id that a ledger does not have, as it can be written in a shell.
var noTransfer = regexp.MustCompile(`^ledger \S+ has no transfer "([A-Za-z0-9._:/@+-]+)"$`)

func toErrorJSON(err error) errorJSON {
	out := errorJSON{Code: ledger.CodeOf(err), Message: err.Error()}
	var typed *ledger.Error
	var usage usageError
	if errors.As(err, &usage) {
		out.Code = ledger.CodeInvalidArgument
	}
	var refused *client.BankFileRefusal
	if errors.As(err, &refused) {
		out.Refusal = toRefusalJSON(refused)
		var of *refusedFile
		if errors.As(err, &of) {
			out.Refusal.File = of.path
		}
	}
	if errors.As(err, &typed) {
		out.Message = typed.Message
		for _, v := range typed.Violations {
			out.Violations = append(out.Violations, violationJSON(v))
		}
	}
	return out
}

type balanceJSON struct {
	Account   string `json:"account"`
	Currency  string `json:"currency"`
	Posted    string `json:"posted"`
	Held      string `json:"held"`
	Available string `json:"available"`
	Incoming  string `json:"incoming"`
	Version   int64  `json:"version"`
	// AsOf is of a balance as of a point.
	AsOf int64 `json:"as_of_sequence,omitempty"`
}

func toBalanceJSON(b ledger.Balance) balanceJSON {
	format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, b.Currency.Scale) }
	return balanceJSON{
		Account: string(b.Account), Currency: string(b.Currency.Code), Version: b.Version, AsOf: b.AsOf,
		Posted: format(b.Posted), Held: format(b.Held), Available: format(b.Available()), Incoming: format(b.Incoming),
	}
}

type resultJSON struct {
	TransferID    string        `json:"transfer_id"`
	Outcome       string        `json:"outcome"`
	Reason        string        `json:"reason,omitempty"`
	ReasonAccount string        `json:"reason_account,omitempty"`
	Replayed      bool          `json:"replayed"`
	Sequence      int64         `json:"sequence"`
	PostedAt      string        `json:"posted_at"`
	Entries       []entryJSON   `json:"entries,omitempty"`
	Deadline      string        `json:"deadline,omitempty"`
	Balances      []balanceJSON `json:"balances,omitempty"`
}

func (a *app) printResult(r client.Result) error {
	out, text := result(r)
	return a.print(out, text)
}

func result(r client.Result) (resultJSON, string) {
	out := resultJSON{
		TransferID: string(r.TransferID), Outcome: string(r.Outcome()), Replayed: r.Replayed, Sequence: r.Sequence,
		PostedAt: formatTime(r.PostedAt), Deadline: formatOptionalTime(r.Deadline),
	}
	text := fmt.Sprintf("%s %s", r.Outcome(), r.TransferID)
	if r.Refusal != nil {
		out.Reason, out.ReasonAccount = string(r.Refusal.Reason), string(r.Refusal.Account)
		text += ": " + refusalText(r.Refusal)
	}
	text += fmt.Sprintf("  sequence %d  %s", r.Sequence, out.PostedAt)
	if r.Deadline != nil {
		text += "  until " + out.Deadline
	}
	if r.Replayed {
		text += "  (replayed: this was decided before, and nothing was written now)"
	}
	for _, e := range r.Entries {
		out.Entries = append(out.Entries, toEntryJSON(e))
		text += "\n" + entryText(e)
	}
	for _, b := range r.Balances {
		out.Balances = append(out.Balances, toBalanceJSON(b))
		text += "\n  " + balanceText(b)
	}
	return out, text
}

// refusalText is the reason of a refusal, and the account where it is about one.
func refusalText(r *ledger.Refusal) string {
	if r.Account == "" {
		return string(r.Reason)
	}
	return string(r.Reason) + " of " + string(r.Account)
}

func balanceText(b ledger.Balance) string {
	format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, b.Currency.Scale) }
	text := fmt.Sprintf("%s  %s %s", b.Account, format(b.Posted), b.Currency.Code)
	if !b.Held.IsZero() {
		text += fmt.Sprintf("  held %s  available %s", format(b.Held), format(b.Available()))
	}
	if !b.Incoming.IsZero() {
		text += "  incoming " + format(b.Incoming)
	}
	return text
}

type entryJSON struct {
	Account   string `json:"account"`
	Direction string `json:"direction"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
}

func toEntryJSON(e ledger.Entry) entryJSON {
	return entryJSON{string(e.Account), string(e.Direction), ledger.FormatAmount(e.Amount, e.Currency.Scale), string(e.Currency.Code)}
}

func entryText(e ledger.Entry) string {
	return fmt.Sprintf("  %-6s  %s  %s %s", e.Direction, e.Account, ledger.FormatAmount(e.Amount, e.Currency.Scale), e.Currency.Code)
}

// none says that a list is empty, to people: a program sees that nothing is printed.
func (a *app) none() {
	if !a.json {
		_, _ = fmt.Fprintln(a.Err, "none")
	}
}
