package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

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
}

type violationJSON struct {
	Field   string `json:"field"`
	Message string `json:"message"`
}

func (a *app) printError(err error) {
	if !a.json {
		_, _ = fmt.Fprintln(a.Err, "khata:", err)
		var typed *ledger.Error
		if errors.As(err, &typed) && typed.Code.Open() {
			_, _ = fmt.Fprintln(a.Err, "khata: no answer, so the outcome is open: run the same command again (a transfer under the same id)")
		}
		return
	}
	out := errorJSON{Code: ledger.CodeOf(err), Message: err.Error()}
	var typed *ledger.Error
	var usage usageError
	if errors.As(err, &usage) {
		out.Code = ledger.CodeInvalidArgument
	}
	if errors.As(err, &typed) {
		out.Message = typed.Message
		for _, v := range typed.Violations {
			out.Violations = append(out.Violations, violationJSON(v))
		}
	}
	enc := json.NewEncoder(a.Err)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(out)
}

type balanceJSON struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Posted   string `json:"posted"`
	Version  int64  `json:"version"`
	// AsOf is of a balance as of a point.
	AsOf int64 `json:"as_of_sequence,omitempty"`
}

func toBalanceJSON(b ledger.Balance) balanceJSON {
	return balanceJSON{
		Account: string(b.Account), Currency: string(b.Currency.Code), Version: b.Version, AsOf: b.AsOf,
		Posted: ledger.FormatAmount(b.Posted, b.Currency.Scale),
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
	Balances      []balanceJSON `json:"balances,omitempty"`
}

func (a *app) printResult(r client.Result) error {
	out := resultJSON{
		TransferID: string(r.TransferID), Outcome: string(r.Outcome()), Replayed: r.Replayed, Sequence: r.Sequence,
		PostedAt: formatTime(r.PostedAt),
	}
	text := fmt.Sprintf("%s %s", r.Outcome(), r.TransferID)
	if r.Refusal != nil {
		out.Reason, out.ReasonAccount = string(r.Refusal.Reason), string(r.Refusal.Account)
		text += fmt.Sprintf(": %s of %s", out.Reason, out.ReasonAccount)
	}
	text += fmt.Sprintf("  sequence %d  %s", r.Sequence, out.PostedAt)
	if r.Replayed {
		text += "  (replayed: this was decided before, and nothing was written now)"
	}
	for _, b := range r.Balances {
		out.Balances = append(out.Balances, toBalanceJSON(b))
		text += "\n  " + balanceText(b)
	}
	return a.print(out, text)
}

func balanceText(b ledger.Balance) string {
	return fmt.Sprintf("%s  %s %s", b.Account, ledger.FormatAmount(b.Posted, b.Currency.Scale), b.Currency.Code)
}
