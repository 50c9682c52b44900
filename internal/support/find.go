package support

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// userPrefix is what the payment API puts before the names of its users.
const userPrefix = "user:"

const (
	// MaxWindow is the longest time in which transfers are looked for where no account is given.
	MaxWindow = 31 * 24 * time.Hour
	// lookAccount is how many entries of an account are looked at in one call, and lookLedger how many transfers of a ledger.
	lookAccount, lookLedger = 5000, 10_000
	// maxHits is the most transfers of an answer.
	maxHits = 100
)

// Query says which transfers are looked for. What a person has in hand goes into Text; the rest says where to look.
type Query struct {
	Ledger ledger.Name
	// Text is one of these, and need not say which: the id of a transfer; the number of a payment, such as TXN-…; what a text message calls a refund, such as
	// refund:…; an idempotency key; the key of a form for a refund; a reference or a phone number that stands in the transfer's metadata, at any depth,
	// written just so.
	Text string
	// User is whose key it is, of the payment API, such as user:shimul; shimul is taken for that, too. With it the payment is found by the key alone, however
	// old it is.
	User string
	// Account is whose entries are looked at.
	Account ledger.AccountID
	// Amount is that of an entry; nil is any.
	Amount *decimal.Decimal
	// Since and Until bound the time of posting: at or after the one, and before the other. Without an account Since is required where anything but an id,
	// number or key is looked for, at most MaxWindow before Until, or before now where that is zero.
	Since, Until time.Time
	// Before goes on where an earlier answer ended: its Next.
	Before int64
	// Limit is the most hits of an answer. Default 50, most 100.
	Limit int
}

// Hit is a transfer that was found.
type Hit struct {
	*ledger.Transfer
	// Why says by what it was found.
	Why []string
}

// Found is an answer.
type Found struct {
	// Hits are those found by an id or key, and then the others, the newest first.
	Hits []Hit
	// Looked is how many entries or transfers were looked at, and Back the time of the last of them: that far back the answer is complete. It is zero
	// where nothing had to be looked at.
	Looked int
	Back   time.Time
	// Next is where to go on; 0 if everything was looked at.
	Next int64
}

// Find looks for transfers, and writes down who has looked for what.
//
// An id, a number and a key are looked up in indexes. Everything else is looked for back in time: among the entries of the account, 5,000 of them in a
// call; or without an account among the transfers of at most 31 days, 10,000 of them in a call. The answer says how far it has looked, and Next goes
// on. So no question takes longer than another, and none needs an index that posting would have to keep.
//
// It returns CodeInvalidArgument or CodeAccountNotFound.
func (d *Desk) Find(ctx context.Context, who Actor, q Query) (*Found, error) {
	if err := q.validate(); err != nil {
		return nil, err
	}
	if q.Limit <= 0 {
		q.Limit = maxHits / 2
	}
	q.Limit = min(q.Limit, maxHits)
	if q.Amount != nil {
		amount := q.Amount.Abs()
		q.Amount = &amount
	}
	detail := map[string]string{}
	for name, value := range map[string]string{"text": q.Text, "user": q.User, "account": string(q.Account)} {
		if value != "" {
			detail[name] = value
		}
	}
	if q.Amount != nil {
		detail["amount"] = q.Amount.String()
	}
	for name, at := range map[string]time.Time{"since": q.Since, "until": q.Until} {
		if !at.IsZero() {
			detail[name] = at.UTC().Format(time.RFC3339)
		}
	}
	var found *Found
	event := Event{Ledger: q.Ledger.Or(), Actor: who, Action: ActionFind, Object: Object{"transfers", ""}, Detail: detail}
	err := d.audit.Read(ctx, event, func() (err error) {
		found, err = d.find(ctx, &q)
		return err
	})
	return found, err
}

func (q *Query) window() bool { return !q.Since.IsZero() }

// everywhere reports whether it is to be looked for back in time.
func (q *Query) everywhere() bool { return q.Account != "" || q.window() }

func (q *Query) validate() error {
	if err := validateText("text", q.Text, false, maxActor); err != nil {
		return err
	}
	if err := validateText("user", q.User, false, maxActor); err != nil {
		return err
	}
	if q.Account != "" {
		if err := q.Account.ValidateFormat("account"); err != nil {
			return err
		}
	}
	until := q.Until
	if until.IsZero() {
		until = time.Now()
	}
	switch {
	case q.Amount != nil && !plausible(*q.Amount):
		return ledger.Invalid("amount", "has more than %d digits", ledger.MaxDigits)
	case !q.Since.IsZero() && !q.Until.IsZero() && !q.Until.After(q.Since):
		return ledger.Invalid("until", "is not after since")
	case q.Account == "" && q.Since.IsZero() && !q.Until.IsZero():
		return ledger.Invalid("since", "is required with until, or an account: from when on is one to look?")
	case q.Account == "" && q.window() && q.Until.IsZero() && until.Sub(q.Since) > MaxWindow:
		return ledger.Invalid("since", "is more than 31 days ago: give an account, or until, or less time")
	case q.Account == "" && q.window() && until.Sub(q.Since) > MaxWindow:
		return ledger.Invalid("since", "is more than 31 days before until: give an account, or less time")
	case q.User != "" && q.Text == "":
		return ledger.Invalid("user", "is whose key it is, and text is the key")
	case q.Before < 0:
		return ledger.Invalid("before", "is negative")
	case q.Text == "" && !q.everywhere():
		return ledger.Invalid("text", "is required, or an account, or since: where is one to look?")
	case !q.everywhere() && (q.Amount != nil || q.Before > 0):
		return ledger.Invalid("account", "is required, or since: where is one to look?")
	}
	return nil
}

func (d *Desk) find(ctx context.Context, q *Query) (*Found, error) {
	id, err := d.ledgerID(ctx, q.Ledger)
	if err != nil {
		return nil, err
	}
	f := &Found{}
	var ids []ledger.TransferID
	why := map[ledger.TransferID][]string{}
	add := func(id ledger.TransferID, reason string) {
		if _, ok := why[id]; !ok {
			ids = append(ids, id)
		}
		why[id] = append(why[id], reason)
	}
	if q.Text != "" && q.Before == 0 {
		if err := d.named(ctx, id, q, add); err != nil {
			return nil, err
		}
	}
	if q.everywhere() {
		if err := d.lookBack(ctx, q, f, add); err != nil {
			return nil, err
		}
	}
	if len(ids) == 0 {
		return f, nil
	}
	records, err := d.journal.TransfersNamed(ctx, q.Ledger, ids)
	if err != nil {
		return nil, err
	}
	byID := map[ledger.TransferID]*ledger.Transfer{}
	for _, t := range records {
		byID[t.ID] = t
	}
	for _, id := range ids {
		if t := byID[id]; t != nil {
			f.Hits = append(f.Hits, Hit{t, why[id]})
		}
	}
	return f, nil
}

var (
	writtenNumber = regexp.MustCompile(`^(?i:txn-[a-z2-7]{26})$`)
	writtenRefund = regexp.MustCompile(`^(?i:refund):([A-Za-z0-9._-]{16,64})$`)
)

// readings are the ids that a transfer may have in the books of which a customer or a colleague has a text in hand, and what it is then. The first is the
// text itself: what the payment API calls TXN-… and a text message refund:… has a prefix in the books, and may be written in small letters.
func readings(text string) (ids []ledger.TransferID, what []string) {
	text = strings.TrimSpace(text)
	add := func(id ledger.TransferID, is string) {
		if !slices.Contains(ids, id) {
			ids, what = append(ids, id), append(what, is)
		}
	}
	add(ledger.TransferID(text), "transfer id")
	if writtenNumber.MatchString(text) {
		add(ledger.TransferID(ledger.ReservedPrefix+strings.ToUpper(text)), "number of the payment")
	}
	if m := writtenRefund.FindStringSubmatch(text); m != nil {
		add(RefundID(m[1]), "reference of the refund")
		add(RefundID(strings.ToUpper(m[1])), "reference of the refund")
	}
	return ids, what
}

// resolve gives the id that a transfer has in the books: what is written is that, or else one of its other readings. Where there is none of them, a number
// is taken for that of a payment which is not decided yet: its key is known. Whatever takes the id of a transfer from people asks here first, so that
// requests and the audit have the id of the books.
func (d *Desk) resolve(ctx context.Context, name ledger.Name, id ledger.TransferID) (ledger.TransferID, error) {
	ids, _ := readings(string(id))
	if len(ids) == 1 {
		return id, nil
	}
	records, err := d.journal.TransfersNamed(ctx, name, ids)
	if err != nil {
		return "", err
	}
	for _, reading := range ids {
		if slices.ContainsFunc(records, func(t *ledger.Transfer) bool { return t.ID == reading }) {
			return reading, nil
		}
	}
	return ids[1], nil
}

// named adds what a text may be the name of. That there is such a transfer is still to be seen.
func (d *Desk) named(ctx context.Context, ledgerID int32, q *Query, add func(ledger.TransferID, string)) error {
	text := strings.TrimSpace(q.Text)
	ids, what := readings(text)
	for i, id := range ids {
		if id.ValidateFormat("text") == nil {
			add(id, what[i])
		}
	}
	if q.User != "" && d.config.PaymentID != nil {
		users := []string{q.User}
		if !strings.HasPrefix(q.User, userPrefix) {
			users = append(users, userPrefix+q.User)
		}
		for _, user := range users {
			add(d.config.PaymentID(user, text), "idempotency key of "+user)
		}
	}
	if !wellFormedKey.MatchString(text) {
		return nil
	}
	numbers, err := d.sql.SupportRequestByKey(ctx, d.pool, dbsqlc.SupportRequestByKeyParams{LedgerID: ledgerID, Key: text})
	if err != nil {
		return public(ctx, "find the request", err)
	}
	requests, err := d.refunds(ctx, d.pool, q.Ledger, ledgerID, numbers)
	for _, r := range requests {
		add(r.Original, fmt.Sprintf("key of request %d for a refund", r.Number))
		if r.Transfer != "" {
			add(r.Transfer, fmt.Sprintf("key of request %d, of which it is the refund", r.Number))
		}
	}
	return public(ctx, "find the request", err)
}

// lookBack adds what is found among the entries of an account, or among the transfers of a time.
func (d *Desk) lookBack(ctx context.Context, q *Query, f *Found, add func(ledger.TransferID, string)) error {
	spec := journal.LookBackSpec{Account: q.Account, Since: q.Since, Until: q.Until, Before: q.Before, Text: q.Text, Amount: q.Amount, Look: lookLedger}
	if q.Account != "" {
		spec.Look = lookAccount
	}
	list, next, err := d.journal.LookBack(ctx, q.Ledger, spec)
	if err != nil {
		return err
	}
	f.Next = next
	hits := map[ledger.TransferID]bool{}
	for n, t := range list {
		f.Looked, f.Back = n+1, t.PostedAt
		reasons := q.reasons(t, d.config.PaymentID)
		for _, reason := range reasons {
			add(t.Transfer, reason)
		}
		if len(reasons) == 0 {
			continue
		}
		if hits[t.Transfer] = true; len(hits) == q.Limit && n+1 < len(list) {
			f.Next = t.Sequence
			return nil
		}
	}
	return nil
}

// reasons are why a transfer is one that is looked for; none if it is not.
func (q *Query) reasons(t journal.Looked, paymentID func(user, key string) ledger.TransferID) (list []string) {
	if q.Amount != nil && !t.ByAmount {
		return nil
	}
	switch {
	case q.Text == "":
	case t.ByText:
		list = append(list, "the text stands in its metadata")
	case paymentID != nil && strings.HasPrefix(string(t.Transfer), ledger.ReservedPrefix+"TXN-") && paymentID(t.Caller, strings.TrimSpace(q.Text)) == t.Transfer:
		list = append(list, "idempotency key of "+t.Caller)
	default:
		return nil
	}
	if q.Account != "" {
		list = append(list, "entry of "+string(q.Account))
	}
	if q.Amount != nil {
		list = append(list, "amount")
	}
	if !q.Since.IsZero() || !q.Until.IsZero() {
		list = append(list, "time")
	}
	return list
}
