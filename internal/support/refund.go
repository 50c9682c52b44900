package support

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// State is where a refund is on its way.
type State string

// The states. Waiting and Ready go on; all others are final.
const (
	// Waiting is one that another person has to approve.
	Waiting State = "waiting"
	// Ready is one that is to be posted: by the call that made it so, by the same call again, or by the sweep.
	Ready State = "ready"
	// Posted is one whose money has moved.
	Posted State = "posted"
	// RefusedByBooks is one that the books have refused: Code says why.
	RefusedByBooks State = "refused"
	Rejected       State = "rejected"
	// Withdrawn is one that its maker has taken back.
	Withdrawn State = "withdrawn"
	// Expired is one that nobody has approved, or that could not be posted, in time.
	Expired State = "expired"
)

// Final reports whether nothing more becomes of a refund in the state.
func (s State) Final() bool { return s != Waiting && s != Ready }

// moves reports whether money has moved by a refund in the state, or still may.
func (s State) moves() bool { return s == Posted || !s.Final() }

// Refund is a request for a refund, and what has become of it. What stands before State never changes.
type Refund struct {
	Ledger ledger.Name
	// Number is its place among the requests.
	Number   int64
	Key      string
	Original ledger.TransferID
	Amount   decimal.Decimal
	Currency ledger.Currency
	// ExpectedRefunded is what had been refunded before, as its maker has seen it.
	ExpectedRefunded decimal.Decimal
	Reason           ledger.RefundReason
	Note, Ticket     string
	Maker            string
	MadeAt           time.Time
	ExpiresAt        time.Time
	// Approval is whether it needs another person, and why.
	Approval     Approval
	LimitVersion int
	// SHA256 is of all of the above, in hex: who decides, decides about this.
	SHA256 string
	// Transfer is the id that it has in the books, once it is there.
	Transfer ledger.TransferID

	State State
	// Decision is nil where nobody has decided.
	Decision *Decision
	// Code and Message are why the books have refused it.
	Code    ledger.Code
	Message string
	// SettledAt is when it was posted or refused; nil before.
	SettledAt *time.Time
	// Replayed reports, of the answer to a request or decision, that it had been made before.
	Replayed bool

	// Warnings say what has gone back, or is about to, of the payments that may be the same one as the original. Lists do not have them.
	Warnings []string
	// Payment is the original, and what has become of it by now; and Obstacle says why the request would be refused if it were approved now, "" where nothing
	// is known that speaks against it. Only Desk.Refund gives them.
	Payment  *journal.Progressed
	Obstacle string
}

// Verdict is what is decided about a request.
type Verdict string

// The verdicts. The maker withdraws; others approve or reject.
const (
	Approve  Verdict = "approve"
	Reject   Verdict = "reject"
	Withdraw Verdict = "withdraw"
)

// Decision is what somebody has decided.
type Decision struct {
	Verdict Verdict
	By      string
	At      time.Time
	Note    string
}

// Form is what a form for a refund has to have.
type Form struct {
	// Key is minted for this form, and comes back with it.
	Key      string
	Transfer *ledger.Transfer
	// Refunded comes back as expected_refunded, and Refundable is the most that can be asked for.
	Refunded, Refundable decimal.Decimal
	Currency             ledger.Currency
	// Closed says why nothing can be refunded; nil if something can.
	Closed *ledger.Error
	// Limit is the one in force, and Alone what the person has refunded without another one in the last 24 hours.
	Limit Limit
	Alone decimal.Decimal
	// Requests are the last 200 that there were about the transfer, the newest first.
	Requests []Refund
	// Reasons are those that can be given.
	Reasons []ledger.RefundReason
	// Warnings say what has gone back, or is about to, of the payments that may be the same one.
	Warnings []string
}

var wellFormedKey = regexp.MustCompile(`^[A-Za-z0-9._-]{16,64}$`)

var base32Digits = base32.StdEncoding.WithPadding(base32.NoPadding)

// MintKey makes a key for one form: 130 bits that nobody can guess. It is short enough that a text message can quote the refund's id.
func MintKey() string {
	var raw [17]byte
	_, _ = rand.Read(raw[:]) // It does not fail.
	return base32Digits.EncodeToString(raw[:])[:26]
}

// RefundID is the id that a refund has in the books. It follows from the form's key, which is drawn at random, and not from the request's number:
// after a restore from an older backup a number comes again, and means another refund.
func RefundID(key string) ledger.TransferID { return ledger.DerivedID("refund", key) }

// refundPrefix is what RefundID puts before a key.
const refundPrefix = ledger.ReservedPrefix + "refund:"

// Form gives what a form for a refund of a transfer has to have, with a new key, and writes down who has looked. It returns CodeTransferNotFound.
func (d *Desk) Form(ctx context.Context, who Actor, name ledger.Name, id ledger.TransferID) (f *Form, err error) {
	if err := id.ValidateFormat("transfer_id"); err != nil {
		return nil, err
	}
	if id, err = d.resolve(ctx, name, id); err != nil {
		return nil, err
	}
	err = d.audit.Read(ctx, Event{Ledger: name.Or(), Actor: who, Action: ActionRefundForm, Object: Object{ObjectTransfer, string(id)}}, func() error {
		f, err = d.form(ctx, who, name, id)
		return err
	})
	return f, err
}

func (d *Desk) form(ctx context.Context, who Actor, name ledger.Name, id ledger.TransferID) (*Form, error) {
	t, progress, err := d.journal.Transfer(ctx, name, id)
	if err != nil {
		return nil, err
	}
	f := &Form{
		Key: MintKey(), Transfer: t, Refunded: progress.Refunded, Refundable: progress.Refundable, Currency: progress.Currency,
		Closed: refundable(t, progress), Reasons: ledger.RefundReasons(),
	}
	ledgerID, err := d.ledgerID(ctx, name)
	if err != nil {
		return nil, err
	}
	if f.Closed == nil {
		f.Limit = Limit{Currency: progress.Currency}
		limits, err := d.limits(ctx, name, progress.Currency.Code, 1)
		if err != nil {
			return nil, err
		}
		if len(limits) > 0 {
			f.Limit = limits[0]
		}
		f.Alone, err = d.sql.SupportMadeAlone(ctx, d.pool, dbsqlc.SupportMadeAloneParams{
			LedgerID: ledgerID, Currency: string(progress.Currency.Code), Maker: who.Name,
		})
		if err != nil {
			return nil, public(ctx, "read the total of a day", err)
		}
	}
	if f.Requests, err = d.requestsOf(ctx, name, ledgerID, id, MaxShown); err != nil {
		return nil, err
	}
	f.Warnings, err = d.warnings(ctx, name, ledgerID, t)
	return f, err
}

// refundable says why nothing of a transfer can be refunded; nil if something can.
func refundable(t *ledger.Transfer, p ledger.Progress) *ledger.Error {
	switch {
	case t.Refusal != nil:
		return ledger.Errorf(ledger.CodeWrongOrigin, "transfer %s was refused: it moved nothing that could go back", t.ID)
	case t.Kind().GoesBack():
		return ledger.Errorf(ledger.CodeWrongOrigin, "transfer %s is a %s itself: what it gave back is sent again by a new transfer", t.ID, t.Kind())
	case !t.Kind().Moves():
		return ledger.Errorf(ledger.CodeWrongOrigin, "transfer %s is a %s, and moved nothing: what is held is released by a void", t.ID, t.Kind())
	case p.Currency.Code == "":
		return ledger.Errorf(ledger.CodeWrongOrigin, "transfer %s moved several currencies: it can only be reversed as a whole", t.ID)
	case p.Reversed:
		return ledger.Errorf(ledger.CodeAlreadyReversed, "transfer %s was reversed: everything has gone back", t.ID)
	case !p.Refundable.IsPositive():
		return ledger.Errorf(ledger.CodeRefundExceedsRest, "transfer %s was refunded in full", t.ID)
	}
	return nil
}

// Refund returns a request and what has become of it, and writes down who has looked. It returns CodeTransferNotFound.
func (d *Desk) Refund(ctx context.Context, who Actor, name ledger.Name, number int64) (r *Refund, err error) {
	id, err := d.ledgerID(ctx, name)
	if err != nil {
		return nil, err
	}
	event := Event{Ledger: name.Or(), Actor: who, Action: ActionRefundRead, Object: Object{"refund", strconv.FormatInt(number, 10)}}
	err = d.audit.Read(ctx, event, func() error {
		if r, err = d.refund(ctx, d.pool, name, id, number); err != nil {
			return public(ctx, "read the request", err)
		}
		return d.look(ctx, id, r)
	})
	return r, err
}

// look adds to a request what whoever decides about it should know: what it is of, as that is now, and what speaks against it.
func (d *Desk) look(ctx context.Context, ledgerID int32, r *Refund) error {
	t, p, err := d.journal.Transfer(ctx, r.Ledger, r.Original)
	if errors.Is(err, ledger.CodeTransferNotFound) { // Then somebody has written the request by hand.
		return nil
	}
	if err != nil {
		return err
	}
	p.Steps = last(p.Steps)
	r.Payment = &journal.Progressed{Transfer: t, Progress: p}
	suspects, err := d.suspectsOf(ctx, r.Ledger, t)
	if err != nil {
		return err
	}
	groups, err := d.groups(ctx, d.pool, r.Ledger, ledgerID, r.Original, suspects)
	if err != nil {
		return public(ctx, "look for suspects", err)
	}
	if r.State.moves() {
		r.Warnings = warningsOf(groups)
	}
	if r.State.Final() {
		return nil
	}
	since := p.Refunded.Sub(r.ExpectedRefunded)
	switch {
	case p.Reversed:
		r.Obstacle = "the payment was reversed since it was asked for"
	case since.IsPositive():
		r.Obstacle = inCurrency(since, r.Currency) + " was refunded since it was asked for"
	case since.IsNegative():
		r.Obstacle = fmt.Sprintf("%s was refunded before, and not %s as it says", inCurrency(p.Refunded, r.Currency), inCurrency(r.ExpectedRefunded, r.Currency))
	case r.Amount.GreaterThan(p.Refundable):
		r.Obstacle = "only " + inCurrency(p.Refundable, r.Currency) + " is left"
	}
	switch {
	case r.Obstacle != "" && r.State == Ready:
		r.Obstacle += ": the books will refuse it"
	case r.Obstacle != "":
		r.Obstacle += ": approving it will be refused by the books"
	case r.Reason == ledger.ReasonDuplicate:
		if why := r.twinsToPost(groups); why != "" {
			r.Obstacle = why + ": approving it as one of a payment that was made twice will be refused"
		}
	}
	return nil
}

// RefundFilter says which requests are meant.
type RefundFilter struct {
	Ledger ledger.Name
	// Transfer is the original; "" is any.
	Transfer ledger.TransferID
	// Before goes on before a number; 0 begins with the newest.
	Before int64
	// Limit is the most requests of a page. Default and most: 200.
	Limit int
}

const maxRefunds = 200

// Refunds lists requests, the newest first, and writes down who has looked.
func (d *Desk) Refunds(ctx context.Context, who Actor, f RefundFilter) (list []Refund, err error) {
	if f.Transfer != "" {
		if err := f.Transfer.ValidateFormat("transfer_id"); err != nil {
			return nil, err
		}
		if f.Transfer, err = d.resolve(ctx, f.Ledger, f.Transfer); err != nil {
			return nil, err
		}
	}
	event := Event{Ledger: f.Ledger.Or(), Actor: who, Action: ActionRefundRead, Object: Object{"refunds", string(f.Transfer)}}
	err = d.audit.Read(ctx, event, func() error {
		list, err = d.list(ctx, f)
		return err
	})
	return list, err
}

func (d *Desk) list(ctx context.Context, f RefundFilter) ([]Refund, error) {
	id, err := d.ledgerID(ctx, f.Ledger)
	if err != nil {
		return nil, err
	}
	if f.Limit <= 0 || f.Limit > maxRefunds {
		f.Limit = maxRefunds
	}
	if f.Before <= 0 {
		f.Before = newest
	}
	var numbers []int64
	if f.Transfer != "" {
		numbers, err = d.sql.SupportRequestsOf(ctx, d.pool, dbsqlc.SupportRequestsOfParams{
			LedgerID: id, Original: string(f.Transfer), Before: f.Before, Most: int32(f.Limit), //nolint:gosec // at most maxRefunds
		})
	} else {
		numbers, err = d.sql.SupportRequestsBefore(ctx, d.pool, dbsqlc.SupportRequestsBeforeParams{
			LedgerID: id, Before: f.Before, Most: int32(f.Limit), //nolint:gosec // at most maxRefunds
		})
	}
	if err != nil {
		return nil, public(ctx, "list requests", err)
	}
	list, err := d.refunds(ctx, d.pool, f.Ledger, id, numbers)
	return list, public(ctx, "list requests", err)
}

func (d *Desk) requestsOf(ctx context.Context, name ledger.Name, ledgerID int32, original ledger.TransferID, most int32) ([]Refund, error) {
	numbers, err := d.sql.SupportRequestsOf(ctx, d.pool, dbsqlc.SupportRequestsOfParams{
		LedgerID: ledgerID, Original: string(original), Before: newest, Most: most,
	})
	if err != nil {
		return nil, public(ctx, "list requests", err)
	}
	list, err := d.refunds(ctx, d.pool, name, ledgerID, numbers)
	return list, public(ctx, "list requests", err)
}

// refund reads a request. It returns CodeTransferNotFound.
func (d *Desk) refund(ctx context.Context, db dbsqlc.DBTX, name ledger.Name, ledgerID int32, number int64) (*Refund, error) {
	list, err := d.refunds(ctx, db, name, ledgerID, []int64{number})
	if err != nil {
		return nil, err
	}
	if len(list) == 0 {
		return nil, ledger.Errorf(ledger.CodeTransferNotFound, "there is no request %d for a refund", number)
	}
	return &list[0], nil
}

func (d *Desk) refunds(ctx context.Context, db dbsqlc.DBTX, name ledger.Name, ledgerID int32, numbers []int64) ([]Refund, error) {
	if len(numbers) == 0 {
		return nil, nil
	}
	rows, err := d.sql.SupportRefunds(ctx, db, dbsqlc.SupportRefundsParams{LedgerID: ledgerID, RequestNos: numbers})
	list := make([]Refund, len(rows))
	for i, row := range rows {
		list[i] = refundOf(name, row)
	}
	return list, err
}

func refundOf(name ledger.Name, row dbsqlc.SupportRefundsRow) Refund {
	r := Refund{
		Ledger: name.Or(), Number: row.RequestNo, Key: row.Key, Original: ledger.TransferID(row.Original), Amount: row.Amount,
		Currency:         ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
		ExpectedRefunded: row.ExpectedRefunded, Reason: ledger.RefundReason(row.Reason), Note: row.Note, Ticket: row.Ticket, Maker: row.Maker,
		MadeAt: row.MadeAt.UTC(), ExpiresAt: row.ExpiresAt.UTC(), Approval: Approval(row.Approval), LimitVersion: int(row.LimitVersion),
		SHA256: hex.EncodeToString(row.Sha256), Transfer: ledger.TransferID(row.TransferID), Code: ledger.Code(row.Code), Message: row.Message,
	}
	if row.SettledAt != nil {
		at := row.SettledAt.UTC()
		r.SettledAt = &at
	}
	if row.Verdict != "" {
		r.Decision = &Decision{Verdict: Verdict(row.Verdict), By: row.DecidedBy, At: row.DecidedAt.UTC(), Note: row.DecisionNote}
	}
	switch approved := r.Approval == ApprovalNone || row.Verdict == string(Approve); {
	case row.Outcome == "posted":
		r.State = Posted
	case row.Outcome == "refused":
		r.State = RefusedByBooks
	case row.Verdict == string(Reject):
		r.State = Rejected
	case row.Verdict == string(Withdraw):
		r.State = Withdrawn
	case row.Over:
		r.State = Expired
	case approved:
		r.State = Ready
	default:
		r.State = Waiting
	}
	return r
}

// Approver is who has approved it; "" where nobody had to.
func (r *Refund) Approver() string {
	if r.Decision == nil || r.Decision.Verdict != Approve {
		return ""
	}
	return r.Decision.By
}

// RefundSpec asks for a refund.
type RefundSpec struct {
	Ledger ledger.Name
	// Key is that of the form: see Form and MintKey.
	Key      string
	Transfer ledger.TransferID
	// Amount is exact: "all that is left" is the number that the form has shown.
	Amount decimal.Decimal
	// ExpectedRefunded is what had been refunded before, as the form has shown it.
	ExpectedRefunded decimal.Decimal
	Reason           ledger.RefundReason
	// Note is for colleagues, and required where the reason is other. Customers do not see it.
	Note string
	// Ticket is what the case has elsewhere.
	Ticket string
}

func (s *RefundSpec) validate() error {
	if !wellFormedKey.MatchString(s.Key) {
		return ledger.Invalid("key", "want 16 to 64 characters of A-Z, a-z, 0-9 and ._- , made for this form alone")
	}
	if err := s.Transfer.ValidateFormat("transfer_id"); err != nil {
		return err
	}
	if err := validateText("note", s.Note, s.Reason == ledger.ReasonOther, maxNote); err != nil {
		return err
	}
	if err := validateText("ticket", s.Ticket, false, maxTicket); err != nil {
		return err
	}
	switch {
	case !s.Amount.IsPositive():
		return ledger.Invalid("amount", "is not positive")
	case !plausible(s.Amount):
		return ledger.Invalid("amount", "has more than %d digits", ledger.MaxDigits)
	case !plausible(s.ExpectedRefunded):
		return ledger.Invalid("expected_refunded", "has more than %d digits", ledger.MaxDigits)
	case s.ExpectedRefunded.IsNegative():
		return ledger.Invalid("expected_refunded", "is negative")
	case !slices.Contains(ledger.RefundReasons(), s.Reason):
		return ledger.Invalid("reason", "%.40q is not a reason: want one of %s", string(s.Reason), reasonNames())
	}
	return nil
}

func reasonNames() string {
	var names []string
	for _, r := range ledger.RefundReasons() {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// plausible reports whether an amount can be one of any currency: it is looked at before anything is computed with it.
func plausible(a decimal.Decimal) bool {
	return a.NumDigits() <= ledger.MaxDigits && a.Exponent() <= ledger.MaxDigits && a.Exponent() >= -ledger.MaxDigits
}

// differences names what a request under the same key asks for otherwise.
func (s *RefundSpec) differences(r *Refund, maker string) (list []ledger.Violation) {
	for _, f := range []struct {
		name string
		same bool
	}{
		{"transfer_id", s.Transfer == r.Original}, {"amount", s.Amount.Equal(r.Amount)},
		{"expected_refunded", s.ExpectedRefunded.Equal(r.ExpectedRefunded)}, {"reason", s.Reason == r.Reason}, {"note", s.Note == r.Note},
		{"ticket", s.Ticket == r.Ticket}, {"maker", maker == r.Maker},
	} {
		if !f.same {
			list = append(list, ledger.Violation{Field: f.name, Message: "differs from the request that has this key"})
		}
	}
	return list
}

// amountText is an amount with its currency.
func (r *Refund) amountText() string { return inCurrency(r.Amount, r.Currency) }

func inCurrency(a decimal.Decimal, c ledger.Currency) string {
	return ledger.FormatAmount(a, c.Scale) + " " + string(c.Code)
}

// publicID is how people know a transfer: the payment API's numbers without the prefix that they have in the books.
func publicID(id ledger.TransferID) string {
	if number, ok := strings.CutPrefix(string(id), ledger.ReservedPrefix+"TXN-"); ok {
		return "TXN-" + number
	}
	return string(id)
}

// formatTime writes a time for people.
func formatTime(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// refusalText says to people why the books have refused a refund.
func refusalText(code ledger.Code, account ledger.AccountID) string {
	of := ""
	if account != "" {
		of = fmt.Sprintf(" (account %s)", account)
	}
	switch code {
	case ledger.CodeRefundedChanged:
		return "something else has been refunded since the form was made: look at the transfer, and make a new one if it is still needed"
	case ledger.CodeRefundExceedsRest:
		return "it is for more than is left of the transfer"
	case ledger.CodeAlreadyReversed:
		return "the transfer has been reversed: everything has gone back"
	case ledger.CodeInsufficientFunds:
		return "who was paid does not have the money any more" + of + ": it has to be covered first, and then a new request made"
	case ledger.CodeCeilingExceeded:
		return "who paid may not have so much" + of
	case ledger.CodeAccountClosed:
		return "an account is closed" + of + ": the money has to go another way"
	case ledger.CodeAccountFrozen:
		return "an account is frozen" + of + ": ask who has frozen it"
	}
	return strings.ToLower(strings.ReplaceAll(string(code), "_", " ")) + of
}
