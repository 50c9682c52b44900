package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// transferJSON is the record of a transfer. Of hold to expiry, which are its kind, it has at most one.
type transferJSON struct {
	Ledger          string          `json:"ledger"`
	TransferID      string          `json:"transfer_id"`
	Outcome         string          `json:"outcome"`
	Reason          string          `json:"reason,omitempty"`
	ReasonAccount   string          `json:"reason_account,omitempty"`
	Sequence        int64           `json:"sequence"`
	PostedAt        string          `json:"posted_at"`
	Entries         []entryJSON     `json:"entries"`
	EffectiveAt     string          `json:"effective_at,omitempty"`
	Description     string          `json:"description,omitempty"`
	Metadata        string          `json:"metadata,omitempty"`
	Caller          string          `json:"caller"`
	Hold            *holdJSON       `json:"hold,omitempty"`
	Capture         *stepJSON       `json:"capture,omitempty"`
	Void            *stepJSON       `json:"void,omitempty"`
	Refund          *stepJSON       `json:"refund,omitempty"`
	Reversal        *stepJSON       `json:"reversal,omitempty"`
	Expiry          *stepJSON       `json:"expiry,omitempty"`
	Conditions      []conditionJSON `json:"conditions,omitempty"`
	BalancingAmount string          `json:"balancing_amount,omitempty"`
	Ordinal         int             `json:"ordinal,omitempty"`
	Released        string          `json:"released,omitempty"`
	Ends            bool            `json:"ends,omitempty"`
	Deadline        string          `json:"deadline,omitempty"`
	Atomic          bool            `json:"atomic,omitempty"`
	Progress        *progressJSON   `json:"progress,omitempty"`
}

type holdJSON struct {
	ExpiresAt    string `json:"expires_at,omitempty"`
	ExpiresAfter string `json:"expires_after,omitempty"`
}

// stepJSON is what a transfer that is a step of another was asked for.
type stepJSON struct {
	Hold             string `json:"hold,omitempty"`
	Original         string `json:"original,omitempty"`
	Amount           string `json:"amount,omitempty"`
	Everything       bool   `json:"everything,omitempty"`
	KeepOpen         bool   `json:"keep_open,omitempty"`
	ExpectedRefunded string `json:"expected_refunded,omitempty"`
	Reason           string `json:"reason,omitempty"`
}

type conditionJSON struct {
	Account string `json:"account"`
	Balance string `json:"balance,omitempty"`
	Version *int64 `json:"version,omitempty"`
}

type progressJSON struct {
	Hold       string   `json:"hold,omitempty"`
	Captured   string   `json:"captured,omitempty"`
	Released   string   `json:"released,omitempty"`
	Reserved   string   `json:"reserved,omitempty"`
	Refunded   string   `json:"refunded,omitempty"`
	Refundable string   `json:"refundable,omitempty"`
	Reversed   bool     `json:"reversed,omitempty"`
	Steps      []string `json:"steps,omitempty"`
}

// printTransfer prints a record, and what has become of it where something can.
func (a *app) printTransfer(t *ledger.Transfer, p *ledger.Progress) error {
	out := a.toTransferJSON(t, p)
	lines := []string{fmt.Sprintf("%s %s  sequence %d  %s", out.Outcome, out.TransferID, out.Sequence, out.PostedAt)}
	add := func(format string, args ...any) { lines = append(lines, "  "+fmt.Sprintf(format, args...)) }
	if t.Refusal != nil {
		add("because of %s", refusalText(t.Refusal))
	}
	if t.Atomic {
		add("in an atomic call, as if what came before it in the call had been posted")
	}
	if text := kindText(out); text != "" {
		add("%s", text)
	}
	for _, e := range t.Entries {
		lines = append(lines, entryText(e))
	}
	for _, c := range out.Conditions {
		add("%s", conditionText(c))
	}
	for _, field := range []struct{ name, value string }{
		{"effective at", out.EffectiveAt}, {"description", out.Description}, {"metadata", out.Metadata},
	} {
		if field.value != "" {
			add("%s: %s", field.name, field.value)
		}
	}
	if text := progressText(out.Progress); text != "" {
		add("%s", text)
	}
	return a.print(out, strings.Join(lines, "\n"))
}

func (a *app) toTransferJSON(t *ledger.Transfer, p *ledger.Progress) transferJSON {
	out := transferJSON{
		Ledger: string(ledger.Name(a.ledger).Or()), TransferID: string(t.ID), Outcome: string(t.Outcome()), Sequence: t.Sequence,
		PostedAt: formatTime(t.PostedAt), EffectiveAt: formatOptionalTime(t.EffectiveAt), Description: t.Description,
		Metadata: string(t.Metadata), Caller: t.Caller, Atomic: t.Atomic, Progress: toProgressJSON(p),
	}
	if t.Refusal != nil {
		out.Reason, out.ReasonAccount = string(t.Refusal.Reason), string(t.Refusal.Account)
	}
	for _, e := range t.Entries {
		out.Entries = append(out.Entries, toEntryJSON(e))
	}
	if t.Terms != nil && len(t.Entries) > 0 {
		out.setTerms(t)
	}
	return out
}

func (out *transferJSON) setTerms(t *ledger.Transfer) {
	terms, scale := t.Terms, t.Entries[0].Currency.Scale
	amount := formatOptional(terms.Amount, scale)
	ofHold := &stepJSON{Hold: string(terms.Origin)}
	goesBack := &stepJSON{Original: string(terms.Origin)}
	switch terms.Kind {
	case ledger.Plain:
		out.BalancingAmount = amount
	case ledger.Hold:
		out.Hold = &holdJSON{ExpiresAt: formatOptionalTime(terms.ExpiresAt)}
		if terms.ExpiresAfter != 0 {
			out.Hold.ExpiresAfter = formatDuration(terms.ExpiresAfter)
		}
	case ledger.Capture:
		ofHold.Amount, ofHold.Everything, ofHold.KeepOpen = amount, terms.Amount == nil, terms.KeepOpen
		out.Capture = ofHold
	case ledger.Void:
		out.Void = ofHold
	case ledger.Expiry:
		out.Expiry = ofHold
	case ledger.Refund:
		goesBack.Amount, goesBack.Everything, goesBack.Reason = amount, terms.Amount == nil, string(terms.Reason)
		goesBack.ExpectedRefunded = formatOptional(terms.ExpectedRefunded, scale)
		out.Refund = goesBack
	case ledger.Reversal:
		out.Reversal = goesBack
	}
	for _, c := range terms.Conditions {
		condition := conditionJSON{Account: string(c.Account), Version: c.Version}
		if c.Balance != nil {
			condition.Balance = ledger.FormatWritten(*c.Balance)
		}
		out.Conditions = append(out.Conditions, condition)
	}
	if t.Step == nil {
		return
	}
	out.Ordinal, out.Ends, out.Deadline = t.Step.Ordinal, t.Step.Ends, formatOptionalTime(t.Step.Deadline)
	if terms.Kind.OfHold() {
		out.Released = ledger.FormatAmount(t.Step.Reserved.Neg(), scale)
	}
}

func toProgressJSON(p *ledger.Progress) *progressJSON {
	if p == nil {
		return nil
	}
	out := &progressJSON{Hold: string(p.Hold), Reversed: p.Reversed}
	format := func(amount decimal.Decimal) string { return ledger.FormatAmount(amount, p.Currency.Scale) }
	switch {
	case p.Hold != "":
		out.Captured, out.Released, out.Reserved = format(p.Captured), format(p.Released), format(p.Reserved)
	case p.Currency.Code != "":
		out.Refunded, out.Refundable = format(p.Refunded), format(p.Refundable)
	}
	for _, id := range p.Steps {
		out.Steps = append(out.Steps, string(id))
	}
	return out
}

// kindText says what kind of transfer it is, and what it is a step of; "" for a plain one.
func kindText(t transferJSON) string {
	var text string
	switch {
	case t.Hold != nil && t.Deadline != "":
		return "hold until " + t.Deadline
	case t.Hold != nil:
		return "hold"
	case t.Capture != nil:
		text = fmt.Sprintf("capture of %s of hold %s", part(t.Capture), t.Capture.Hold)
		if t.Capture.KeepOpen {
			text += ", which is to stay open"
		}
	case t.Void != nil:
		text = "void of hold " + t.Void.Hold
	case t.Expiry != nil:
		text = "expiry of hold " + t.Expiry.Hold
	case t.Refund != nil:
		text = fmt.Sprintf("refund of %s of %s, %s refunded before, because of %s", part(t.Refund), t.Refund.Original, t.Refund.ExpectedRefunded, t.Refund.Reason)
	case t.Reversal != nil:
		text = "reversal of " + t.Reversal.Original
	case t.BalancingAmount != "":
		return "balancing, at most " + t.BalancingAmount
	}
	if t.Ordinal > 0 {
		text += fmt.Sprintf(", step %d", t.Ordinal)
	}
	return text
}

func part(s *stepJSON) string {
	if s.Everything {
		return "everything left"
	}
	return s.Amount
}

func conditionText(c conditionJSON) string {
	var words []string
	if c.Balance != "" {
		words = append(words, "balance "+c.Balance)
	}
	if c.Version != nil {
		words = append(words, fmt.Sprintf("version %d", *c.Version))
	}
	return "if " + c.Account + " has " + strings.Join(words, " and ")
}

// progressText says what has become of a transfer; "" where nothing has.
func progressText(p *progressJSON) string {
	var text string
	switch {
	case p == nil || p.Hold == "" && len(p.Steps) == 0:
		return ""
	case p.Hold != "":
		text = fmt.Sprintf("is %s; captured %s, released %s, reserved %s", p.Hold, p.Captured, p.Released, p.Reserved)
	case p.Reversed:
		text = "reversed"
	default:
		text = fmt.Sprintf("refunded %s, refundable %s", p.Refunded, p.Refundable)
	}
	if len(p.Steps) > 0 {
		text += ", by " + strings.Join(p.Steps, ", ")
	}
	return text
}

func formatOptional(amount *decimal.Decimal, scale int32) string {
	if amount == nil {
		return ""
	}
	return ledger.FormatAmount(*amount, max(scale, -amount.Exponent()))
}

// formatDuration is as protobuf writes a duration in JSON: seconds, such as "5400s".
func formatDuration(d time.Duration) string {
	return decimal.New(int64(d), -9).String() + "s"
}
