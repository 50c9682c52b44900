package support

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// MaxShown is how many steps of a transfer, and requests for its refund, are shown: the last ones. maxTold is how much one source tells.
	MaxShown, maxTold = 200, 200
	// tellTime is how long one source may take.
	tellTime = 5 * time.Second
)

// The sources of this package. Tellers have names of their own.
const (
	SourceLedger = "ledger"
	SourceRefund = "refund"
	SourceAudit  = "audit"
	// SourceSuspects has no items: it is where the warnings come from.
	SourceSuspects = "suspects"
)

// Item is one thing that happened to a transfer.
type Item struct {
	At time.Time
	// Source is who knows it, such as ledger, key, duplicate, event, fraud, sms or audit.
	Source string
	// Transfer is which one of the story it is about: the transfer itself, its origin or a step.
	Transfer ledger.TransferID
	// Who did it, as far as is known.
	Who string
	// What is a sentence for people.
	What string
	// Details are for those who want to know more, in the order in which they are shown.
	Details []Detail

	// look is whether it says that somebody has looked.
	look bool
}

// Detail is a name and a value.
type Detail struct{ Name, Value string }

// Subject is what a story is about.
type Subject struct {
	Ledger ledger.Name
	ID     ledger.TransferID
	// Transfers are the transfer and its posted steps, such as its refunds. It is empty where nothing has been decided.
	Transfers []*ledger.Transfer
}

// IDs are those of the transfers, or the one that is asked about.
func (s Subject) IDs() []ledger.TransferID {
	if len(s.Transfers) == 0 {
		return []ledger.TransferID{s.ID}
	}
	ids := make([]ledger.TransferID, len(s.Transfers))
	for i, t := range s.Transfers {
		ids[i] = t.ID
	}
	return ids
}

// Teller is a room that knows something of transfers: the payment API of their keys, the relay of their events, and so on.
type Teller interface {
	// Source is its name.
	Source() string
	// Tell tells what it knows of a story, at most so many items. One that knows nothing tells nothing.
	Tell(ctx context.Context, s Subject, most int) ([]Item, error)
}

// Missing is a source that could not be asked.
type Missing struct{ Source, Why string }

// Story is what is known of a transfer, on one timeline.
type Story struct {
	Ledger ledger.Name
	// ID is the one that it has in the books, however it was asked for.
	ID ledger.TransferID
	// Transfer is nil where nothing has been decided under the id: a payment that is under way, or that is stuck, is known to its key alone.
	Transfer *ledger.Transfer
	Progress ledger.Progress
	// Origin is the hold or original that the transfer is a step of; nil if it is none.
	Origin *ledger.Transfer
	// Items are in the order of time.
	Items []Item
	// Cut names the sources that had more to tell than there is room for, and Missing those that could not be asked: the story has gaps there.
	Cut     []string
	Missing []Missing
	// Warnings say what has gone back, or is about to, of the payments that may be the same one.
	Warnings []string
}

// Story tells the story of a transfer, and writes down who has looked. It returns CodeTransferNotFound if nobody knows of it.
func (d *Desk) Story(ctx context.Context, who Actor, name ledger.Name, id ledger.TransferID) (*Story, error) {
	if err := id.ValidateFormat("transfer_id"); err != nil {
		return nil, err
	}
	id, err := d.resolve(ctx, name, id)
	if err != nil {
		return nil, err
	}
	var s *Story
	err = d.audit.Read(ctx, Event{Ledger: name.Or(), Actor: who, Action: ActionStory, Object: Object{ObjectTransfer, string(id)}}, func() (err error) {
		s, err = d.story(ctx, name, id)
		return err
	})
	return s, err
}

func (d *Desk) story(ctx context.Context, name ledger.Name, id ledger.TransferID) (*Story, error) {
	ledgerID, err := d.ledgerID(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &Story{Ledger: name.Or(), ID: id}
	about := Subject{Ledger: name.Or(), ID: id}
	t, progress, err := d.journal.Transfer(ctx, name, id)
	switch {
	case errors.Is(err, ledger.CodeTransferNotFound):
	case err != nil:
		return nil, err
	default:
		s.Transfer, s.Progress = t, progress
		if err := d.record(ctx, s, &about); err != nil {
			return nil, err
		}
		if s.Warnings, err = d.warnings(ctx, name, ledgerID, t); err != nil {
			s.Missing = append(s.Missing, Missing{SourceSuspects, err.Error()})
		}
	}
	if err := d.refundItems(ctx, ledgerID, s, id); err != nil {
		return nil, err
	}
	for _, teller := range d.config.Tellers {
		asked, cancel := context.WithTimeout(ctx, tellTime)
		items, err := teller.Tell(asked, about, maxTold)
		cancel()
		if err != nil {
			s.Missing = append(s.Missing, Missing{teller.Source(), err.Error()})
			continue
		}
		if len(items) >= maxTold {
			s.Cut = append(s.Cut, teller.Source())
		}
		s.Items = append(s.Items, items...)
	}
	if s.Transfer == nil && len(s.Items) == 0 {
		if len(s.Missing) > 0 {
			return nil, ledger.Errorf(ledger.CodeUnavailable, "ledger %s has no transfer %q, and %s could not be asked: %s", name.Or(), string(id), s.Missing[0].Source,
				s.Missing[0].Why)
		}
		return nil, ledger.Errorf(ledger.CodeTransferNotFound, "ledger %s has no transfer %q", name.Or(), string(id))
	}
	if err := d.auditItems(ctx, s, id); err != nil {
		return nil, err
	}
	slices.SortStableFunc(s.Items, func(a, b Item) int { return a.At.Compare(b.At) })
	s.Items = joinLooks(s.Items)
	return s, nil
}

// record tells what the books have: the transfer, what it is a step of, and its own steps.
func (d *Desk) record(ctx context.Context, s *Story, about *Subject) error {
	t := s.Transfer
	about.Transfers = []*ledger.Transfer{t}
	if origin := t.Origin(); origin != "" {
		found, err := d.journal.TransfersNamed(ctx, s.Ledger, []ledger.TransferID{origin})
		if err != nil {
			return err
		}
		if len(found) > 0 {
			s.Origin = found[0]
			s.Items = append(s.Items, recordItem(found[0]))
		}
	}
	s.Items = append(s.Items, recordItem(t))
	// A payment may have been refunded in thousands of parts: the last of them are told, and shown.
	if len(s.Progress.Steps) > MaxShown {
		s.Cut = append(s.Cut, SourceLedger)
	}
	s.Progress.Steps = last(s.Progress.Steps)
	ids := s.Progress.Steps
	if len(ids) == 0 {
		return nil
	}
	steps, err := d.journal.TransfersNamed(ctx, s.Ledger, ids)
	slices.SortFunc(steps, func(a, b *ledger.Transfer) int { return cmp.Compare(a.Sequence, b.Sequence) })
	for _, step := range steps {
		s.Items = append(s.Items, recordItem(step))
	}
	about.Transfers = append(about.Transfers, steps...)
	return err
}

// last are the last of some, as many as are shown.
func last[T any](list []T) []T { return list[max(0, len(list)-MaxShown):] }

// maxEntryDetails bounds what is shown of a transfer of a thousand entries.
const maxEntryDetails = 20

// recordItem tells of a record of the books.
func recordItem(t *ledger.Transfer) Item {
	i := Item{At: t.PostedAt, Source: SourceLedger, Transfer: t.ID, Who: t.Caller}
	did := map[ledger.Kind]string{
		ledger.Plain: "moved", ledger.Hold: "held", ledger.Capture: "captured from the hold", ledger.Void: "released from the hold",
		ledger.Expiry: "released from the hold, whose deadline has passed", ledger.Refund: "refunded", ledger.Reversal: "reversed",
	}[t.Kind()]
	i.What = fmt.Sprintf("%s was %s", moved(t), did)
	if t.Refusal != nil {
		i.What = fmt.Sprintf("the books refused a %s: %s", t.Kind(), strings.ToLower(strings.ReplaceAll(string(t.Refusal.Reason), "_", " ")))
		if t.Refusal.Account != "" {
			i.What += " of " + string(t.Refusal.Account)
		}
	}
	add := func(name, value string) {
		if value != "" {
			i.Details = append(i.Details, Detail{name, value})
		}
	}
	add("kind", string(t.Kind()))
	add("sequence", strconv.FormatInt(t.Sequence, 10))
	add("origin", string(t.Origin()))
	for n, e := range t.Entries {
		if n == maxEntryDetails {
			add("entries", fmt.Sprintf("and %d more", len(t.Entries)-n))
			break
		}
		add(string(e.Direction), fmt.Sprintf("%s %s %s", e.Account, ledger.FormatAmount(e.Amount, e.Currency.Scale), e.Currency.Code))
	}
	if t.EffectiveAt != nil {
		add("effective_at", formatTime(*t.EffectiveAt))
	}
	if terms := t.Terms; terms != nil {
		add("reason", string(terms.Reason))
		if terms.ExpectedRefunded != nil {
			add("expected_refunded", terms.ExpectedRefunded.String())
		}
	}
	if t.Step != nil && t.Step.Deadline != nil {
		add("deadline", formatTime(*t.Step.Deadline))
	}
	if t.Refusal != nil {
		add("refusal", string(t.Refusal.Reason))
	}
	add("description", t.Description)
	add("metadata", string(t.Metadata))
	return i
}

// moved is what the debits of a transfer come to, in each currency.
func moved(t *ledger.Transfer) string {
	var order []ledger.Currency
	sums := map[ledger.Currency]decimal.Decimal{}
	for _, e := range t.Entries {
		if e.Direction != ledger.Debit {
			continue
		}
		if _, ok := sums[e.Currency]; !ok {
			order = append(order, e.Currency)
		}
		sums[e.Currency] = sums[e.Currency].Add(e.Amount)
	}
	parts := make([]string, len(order))
	for n, c := range order {
		parts[n] = ledger.FormatAmount(sums[c], c.Scale) + " " + string(c.Code)
	}
	if len(parts) == 0 {
		return "nothing"
	}
	return strings.Join(parts, " and ")
}

// refundItems tells of the requests for refunds: those of the transfer, or the one that the transfer is the refund of.
func (d *Desk) refundItems(ctx context.Context, ledgerID int32, s *Story, id ledger.TransferID) error {
	list, err := d.requestsOf(ctx, s.Ledger, ledgerID, id, maxTold)
	if err != nil {
		return err
	}
	if len(list) == maxTold {
		s.Cut = append(s.Cut, SourceRefund)
	}
	if key, ok := strings.CutPrefix(string(id), refundPrefix); ok {
		numbers, err := d.sql.SupportRequestByKey(ctx, d.pool, dbsqlc.SupportRequestByKeyParams{LedgerID: ledgerID, Key: key})
		if err == nil {
			var of []Refund
			of, err = d.refunds(ctx, d.pool, s.Ledger, ledgerID, numbers)
			list = append(list, of...)
		}
		if err != nil {
			return public(ctx, "read the request", err)
		}
	}
	for i := range list {
		s.Items = append(s.Items, list[i].items()...)
	}
	return nil
}

// items are what became of a request, step by step. That it was posted is in the books.
func (r *Refund) items() []Item {
	number := Detail{"request", strconv.FormatInt(r.Number, 10)}
	asked := Item{
		At: r.MadeAt, Source: SourceRefund, Transfer: r.Original, Who: r.Maker,
		What:    fmt.Sprintf("a refund of %s was asked for (%s); it %s", r.amountText(), r.Reason, r.Approval),
		Details: []Detail{number, {"key", r.Key}, {"expected_refunded", ledger.FormatAmount(r.ExpectedRefunded, r.Currency.Scale)}},
	}
	for _, text := range []Detail{{"note", r.Note}, {"ticket", r.Ticket}, {"sha256", r.SHA256}} {
		if text.Value != "" {
			asked.Details = append(asked.Details, text)
		}
	}
	list := []Item{asked}
	if got := r.Decision; got != nil {
		did := map[Verdict]string{Approve: "approved", Reject: "rejected", Withdraw: "withdrawn"}[got.Verdict]
		i := Item{
			At: got.At, Source: SourceRefund, Transfer: r.Original, Who: got.By, What: fmt.Sprintf("the refund of %s was %s", r.amountText(), did),
			Details: []Detail{number},
		}
		if got.Note != "" {
			i.Details = append(i.Details, Detail{"note", got.Note})
		}
		list = append(list, i)
	}
	switch r.State {
	case RefusedByBooks:
		list = append(list, Item{
			At: *r.SettledAt, Source: SourceRefund, Transfer: r.Original, Who: r.Maker,
			What:    fmt.Sprintf("the refund of %s was refused by the books: %s", r.amountText(), r.Message),
			Details: []Detail{number, {"code", string(r.Code)}},
		})
	case Posted:
		list = append(list, Item{
			At: *r.SettledAt, Source: SourceRefund, Transfer: r.Original, Who: r.Maker, What: fmt.Sprintf("the refund of %s was posted", r.amountText()),
			Details: []Detail{number, {"transfer", string(r.Transfer)}},
		})
	case Expired:
		list = append(list, Item{
			At: r.ExpiresAt, Source: SourceRefund, Transfer: r.Original, What: fmt.Sprintf("the request for a refund of %s expired", r.amountText()),
			Details: []Detail{number},
		})
	case Waiting, Ready, Rejected, Withdrawn:
	}
	return list
}

// auditItems tells who has looked, and what was refused to whom. What was done is told by those who know more of it.
func (d *Desk) auditItems(ctx context.Context, s *Story, id ledger.TransferID) error {
	page, err := d.audit.List(ctx, AuditFilter{Ledger: s.Ledger, Object: Object{ObjectTransfer, string(id)}})
	if err != nil {
		return err
	}
	if page.Next != nil {
		s.Cut = append(s.Cut, SourceAudit)
	}
	for _, e := range page.Events {
		if e.Outcome == Done && strings.HasPrefix(e.Action, "refund.") || e.Action == ActionRefundPost {
			continue
		}
		i := Item{At: e.At, Source: SourceAudit, Transfer: id, Who: e.Actor.Name, What: auditText(e.Event), look: e.Outcome == Seen}
		if e.Actor.Address != "" {
			i.Details = append(i.Details, Detail{"address", e.Actor.Address})
		}
		i.Details = append(i.Details, Detail{"action", e.Action})
		names := make([]string, 0, len(e.Detail))
		for name := range e.Detail {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			i.Details = append(i.Details, Detail{name, e.Detail[name]})
		}
		s.Items = append(s.Items, i)
	}
	return nil
}

// The words for what people did to a transfer, in the default story.
var (
	sawWords = map[string]string{ActionStory: "looked at this story", ActionRefundForm: "opened the refund form"}
	didWords = map[string]string{ActionRefundApprove: "approve the refund", ActionRefundReject: "reject the refund", ActionRefundWithdraw: "withdraw the refund"}
)

func auditText(e Event) string {
	if text := sawWords[e.Action]; text != "" && e.Outcome == Seen {
		return text
	}
	switch {
	case e.Outcome == Seen:
		return "looked at it: " + e.Action
	case e.Outcome == Refused && didWords[e.Action] != "":
		return "was not allowed to " + didWords[e.Action]
	case e.Outcome == Refused:
		return "was not allowed to do this: " + e.Action
	}
	return "did this: " + e.Action
}

// lookSpan is how far apart looks are at most that are told as one.
const lookSpan = 10 * time.Minute

// joinLooks makes one item of the looks of one person in a row within ten minutes, with a count: who reads the story wants to know what happened.
func joinLooks(items []Item) []Item {
	var out []Item
	for n := 0; n < len(items); {
		row := n + 1
		for row < len(items) && items[n].look && items[row].look && items[row].Who == items[n].Who && items[row].At.Sub(items[n].At) <= lookSpan {
			row++
		}
		out = append(out, joined(items[n:row]))
		n = row
	}
	return out
}

func joined(looks []Item) Item {
	one := looks[0]
	if len(looks) == 1 {
		return one
	}
	var order []string
	counts := map[string]int{}
	for _, l := range looks {
		if counts[l.What]++; counts[l.What] == 1 {
			order = append(order, l.What)
		}
	}
	for i, what := range order {
		if counts[what] > 1 {
			order[i] = fmt.Sprintf("%s %d times", what, counts[what])
		}
	}
	one.What = strings.Join(order, ", ")
	one.Details = append(slices.Clone(one.Details), Detail{"until", formatTime(looks[len(looks)-1].At)})
	return one
}
