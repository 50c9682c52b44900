package bankfile

import (
	"fmt"
	"strings"
)

// Reason says why a file is refused.
type Reason string

// The reasons.
const (
	// ReasonNotThisFormat: it is not a file of the format asked for, or of none that is known.
	ReasonNotThisFormat Reason = "not_this_format"
	// ReasonUnsupported: it is of a known format, but of a kind that is not read, such as an OFX file of investments, an interim BAI2 group or an
	// encrypted zip.
	ReasonUnsupported Reason = "unsupported"
	// ReasonEmpty: it is of the format, and there is no statement in it.
	ReasonEmpty Reason = "empty"
	// ReasonMalformed: it breaks the rules of its format, or the profile does not fit it.
	ReasonMalformed Reason = "malformed"
	// ReasonTotals: opening balance and lines do not make the closing balance, or a processor's gross less fee its net.
	ReasonTotals Reason = "totals_differ"
	// ReasonRunning: the balances beside the lines do not add up.
	ReasonRunning Reason = "running_balance"
	// ReasonControl: a control total or the bank's own sum of credits or debits is another.
	ReasonControl Reason = "control_total"
	// ReasonCount: there are more or fewer records than the file says.
	ReasonCount Reason = "count"
	// ReasonChain: statements of one account in the file do not follow each other: a number is left out, or one begins with another balance than the
	// one before it ended with.
	ReasonChain Reason = "chain_broken"
	// ReasonCurrency: a booked line is in another currency than its account.
	ReasonCurrency Reason = "currency"
	// ReasonScale: an amount is finer than its currency, or the decimals of a currency have to be known and are not.
	ReasonScale Reason = "scale"
	// ReasonTooLarge: it goes beyond one of the Limits.
	ReasonTooLarge Reason = "too_large"
)

// Refusal is why a file is refused. It is the error of Parse, by errors.As, for all that is wrong with the file; other errors of Parse are those of
// reading it at all.
type Refusal struct {
	Reason Reason
	// Member is the path of a zip's member, "" if it is no zip.
	Member string
	// Statement is the statement that it is about, counted from 1 within the file, and Account its account; 0 and "" if it is about the file.
	Statement int
	Account   string
	// Position is the line of the text, from 1; 0 if it is about no single line.
	Position int
	// Detail says in words what is wrong, with the two numbers where two numbers differ.
	Detail string
	// Stated is the number that the file gives, and Computed the one that follows from its lines, as text; "" where it is not about two numbers.
	Stated, Computed string
	// MayBeCSV says that the format is not known, and there is no profile by which it could be CSV.
	MayBeCSV bool
}

// Error says all of it, where first.
func (r *Refusal) Error() string {
	var where []string
	if r.Member != "" {
		where = append(where, fmt.Sprintf("%.100q", r.Member))
	}
	if r.Statement > 0 {
		text := fmt.Sprintf("statement %d", r.Statement)
		if r.Account != "" {
			text += fmt.Sprintf(" of account %.60q", r.Account)
		}
		where = append(where, text)
	}
	if r.Position > 0 {
		where = append(where, fmt.Sprintf("line %d", r.Position))
	}
	if len(where) == 0 {
		return r.Detail
	}
	return strings.Join(where, ", ") + ": " + r.Detail
}

func refusal(reason Reason, position int, format string, args ...any) *Refusal {
	return &Refusal{Reason: reason, Position: position, Detail: fmt.Sprintf(format, args...)}
}

func malformed(position int, format string, args ...any) *Refusal {
	return refusal(ReasonMalformed, position, format, args...)
}
