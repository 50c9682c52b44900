package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/sms"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
)

// SupportSources are the rooms that the support desk asks beside the books, as far as a deployment has them.
type SupportSources struct {
	// Journal and Books are the books: they have the keys of payments, what the relay has parked, and the reconciliation, too.
	Journal *journal.Journal
	Books   *pgxpool.Pool
	// Fraud and SMS are the databases of the consumers; nil where there is none.
	Fraud, SMS *pgxpool.Pool
	// Letters are the inboxes of consumers.
	Letters []SupportLetters
}

// SupportLetters is the inbox of a consumer.
type SupportLetters struct {
	Consumer string
	Pool     *pgxpool.Pool
	// Schema is where the inbox is. Empty: inbox.DefaultSchema.
	Schema string
}

// Desk makes a support desk that asks all of them.
func (s SupportSources) Desk(config support.Config) *support.Desk {
	config.PaymentID = payapi.PaymentID
	// It is asked, and follows nothing: that is for the server's own.
	config.Suspects = suspect.New(suspect.Config{Journal: s.Journal, Pool: s.Books})
	config.Tellers = append(config.Tellers, keyTeller{s.Books}, duplicateTeller{s.Journal}, eventTeller{s.Books})
	config.Piles = append(config.Piles, keyPile{s.Books}, eventPile{s.Books})
	if s.Fraud != nil {
		config.Tellers = append(config.Tellers, fraudTeller{s.Fraud})
		config.Piles = append(config.Piles, fraudPile{s.Fraud})
	}
	if s.SMS != nil {
		config.Tellers = append(config.Tellers, smsTeller{s.SMS})
	}
	if len(s.Letters) > 0 {
		config.Tellers = append(config.Tellers, letterTeller(s.Letters))
		config.Piles = append(config.Piles, letterPile(s.Letters))
	}
	config.Piles = append(config.Piles, breakPile{reconcile.New(s.Journal, s.Books)})
	return support.New(s.Journal, s.Books, config)
}

// details makes details of names and values, without those that are empty.
func details(pairs ...string) (list []support.Detail) {
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			list = append(list, support.Detail{Name: pairs[i], Value: pairs[i+1]})
		}
	}
	return list
}

func cut[T any](list []T, most int) []T { return list[:min(len(list), most)] }

// keyTeller tells of the keys of the payment API.
type keyTeller struct{ pool *pgxpool.Pool }

func (keyTeller) Source() string { return "key" }

func (t keyTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	story, err := payapi.KeysOf(ctx, t.pool, s.Ledger, s.IDs(), s.Transfers)
	if err != nil {
		return nil, err
	}
	var list []support.Item
	for _, a := range story.Answers {
		list = append(list, support.Item{
			At: a.AnsweredAt, Source: "key", Transfer: a.Transfer, Who: a.User, What: fmt.Sprintf("the request was answered with status %d", a.Status),
			Details: details("key", a.Key),
		})
	}
	for _, c := range story.Claims {
		what := map[string]string{
			"charge": "a gateway is asked to charge", "give_back": "a charge is to be given back", "released": "nothing was charged, and the key is free",
		}[c.Step]
		list = append(list, support.Item{
			At: c.CreatedAt, Source: "key", Transfer: c.Transfer, Who: c.User, What: "the key is claimed: " + what,
			Details: details("key", c.Key, "gateway_key", c.GatewayKey, "attempts", fmt.Sprint(c.Attempts), "released_before", fmt.Sprint(c.Released), "detail",
				c.Detail, "lease_until", formatUTC(c.LeaseUntil)),
		})
		if c.ReviewAt != nil {
			list = append(list, support.Item{
				At: c.ReviewAt.UTC(), Source: "key", Transfer: c.Transfer, What: "nobody could find out what the gateway did: it waits for people",
				Details: details("key", c.Key, "detail", c.Detail),
			})
		}
	}
	for _, r := range story.Resolutions {
		list = append(list, support.Item{
			At: r.ResolvedAt, Source: "key", Transfer: r.Transfer, What: fmt.Sprintf("it was settled by hand as %s", r.As),
			Details: details("key", r.Key, "reason", r.Reason),
		})
	}
	return cut(list, most), nil
}

// duplicateTeller tells how often somebody has pressed again.
type duplicateTeller struct{ journal *journal.Journal }

func (duplicateTeller) Source() string { return "duplicate" }

func (t duplicateTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	found, err := t.journal.DuplicatesOf(ctx, s.Ledger, s.IDs(), most)
	var list []support.Item
	for _, d := range found {
		var what []string
		if d.Replayed > 0 {
			what = append(what, "the same request came again "+times(d.Replayed)+" and was given the first answer")
		}
		if d.Taken > 0 {
			what = append(what, "one with other content, or by another caller, came "+times(d.Taken)+" under its name and was refused")
		}
		list = append(list, support.Item{
			At: d.First, Source: "duplicate", Transfer: d.Transfer, What: strings.Join(append(what, "nothing more moved"), "; "),
			Details: details("stopped_by", string(d.Guard), "until", formatUTC(d.Last)),
		})
	}
	return cut(list, most), err
}

func times(n int64) string {
	switch n {
	case 1:
		return "once"
	case 2:
		return "twice"
	}
	return strconv.FormatInt(n, 10) + " times"
}

func formatUTC(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// eventTeller tells of events on their way to Kafka.
type eventTeller struct{ pool *pgxpool.Pool }

func (eventTeller) Source() string { return "event" }

func (t eventTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	events, err := relay.EventsOf(ctx, t.pool, s.Ledger, s.Transfers)
	posted := map[ledger.TransferID]time.Time{}
	for _, record := range s.Transfers {
		posted[record.ID] = record.PostedAt
	}
	var list []support.Item
	for _, e := range events {
		what := map[relay.EventState]string{
			relay.NotYet: "is still to be published", relay.Published: "was published", relay.IsParked: "is parked: Kafka does not have it",
			relay.Skipped: "was left out, by people",
		}[e.State]
		i := support.Item{
			At: e.At, Source: "event", Transfer: e.Transfer, What: fmt.Sprintf("event %s %s", e.Type, what),
			Details: details("event", e.ID, "account", string(e.Account), "error", e.Error, "reason", e.Reason),
		}
		if i.At.IsZero() { // Its own time: the relay keeps none.
			i.At = posted[e.Transfer]
		}
		list = append(list, i)
	}
	return cut(list, most), err
}

// fraudTeller tells what the fraud check has flagged. What it has approved is kept nowhere.
type fraudTeller struct{ pool *pgxpool.Pool }

func (fraudTeller) Source() string { return "fraud" }

func (t fraudTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	flagged, err := fraud.FlaggedOf(ctx, t.pool, s.Ledger, s.IDs())
	var list []support.Item
	for _, f := range flagged {
		i := support.Item{At: f.RecordedAt.UTC(), Source: "fraud", Transfer: f.Transfer, What: "the fraud check has flagged it", Details: details("verdict", f.Verdict,
			"rules", f.Rules)}
		for n, r := range f.Reasons {
			i.What += map[bool]string{true: ": ", false: "; "}[n == 0] + r.Text
			if r.Rule != "" {
				i.What += " (rule " + r.Rule + ")"
			}
			i.Details = append(i.Details, support.Detail{Name: r.Rule, Value: r.Text})
		}
		list = append(list, i)
		if f.SettledAt != nil {
			list = append(list, support.Item{
				At: f.SettledAt.UTC(), Source: "fraud", Transfer: f.Transfer, Who: f.SettledBy, What: "the verdict was settled as " + f.State,
				Details: details("verdict", f.Verdict, "note", f.Note),
			})
		}
	}
	return cut(list, most), err
}

// eventIDs are those of all events of a story.
func eventIDs(s support.Subject, most int) (ids []string, of map[string]ledger.TransferID) {
	of = map[string]ledger.TransferID{}
	for _, t := range s.Transfers {
		for _, id := range relay.EventIDsOf(s.Ledger, t) {
			if len(ids) < most {
				ids, of[id] = append(ids, id), t.ID
			}
		}
	}
	return ids, of
}

// maxEventIDs bounds how many events of a story are looked for in other databases.
const maxEventIDs = 1000

// smsTeller tells what customers were told.
type smsTeller struct{ pool *pgxpool.Pool }

func (smsTeller) Source() string { return "sms" }

func (t smsTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	ids, _ := eventIDs(s, maxEventIDs)
	messages, err := sms.Of(ctx, t.pool, ids)
	var list []support.Item
	for _, m := range messages {
		i := support.Item{
			At: m.CreatedAt, Source: "sms", Transfer: ledger.TransferID(m.TransferID),
			What: fmt.Sprintf("message to %s, %s: %s", m.Account, m.State, m.Text),
			Details: details("phone", m.Phone, "language", m.Language, "kind", m.Kind, "attempts", fmt.Sprint(m.Attempts), "gateway", m.GatewayRef, "error",
				m.LastError, "event", m.EventID),
		}
		if m.SentAt != nil {
			i.Details = append(i.Details, details("sent", formatUTC(*m.SentAt))...)
		}
		list = append(list, i)
	}
	return cut(list, most), err
}

// letterTeller tells of events that had no effect in a consumer.
type letterTeller []SupportLetters

func (letterTeller) Source() string { return "inbox" }

func (t letterTeller) Tell(ctx context.Context, s support.Subject, most int) ([]support.Item, error) {
	ids, of := eventIDs(s, maxEventIDs)
	if len(ids) == 0 { // No ids would be all of them.
		return nil, nil
	}
	var list []support.Item
	for _, box := range t {
		letters, err := inbox.Letters(ctx, box.Pool, inbox.Selection{Schema: box.Schema, Consumer: box.Consumer, EventIDs: ids, Limit: most})
		if err != nil {
			return list, fmt.Errorf("consumer %s: %w", box.Consumer, err)
		}
		for _, l := range letters {
			list = append(list, support.Item{
				At: l.RecordedAt.UTC(), Source: "inbox", Transfer: of[l.Event.ID],
				What:    fmt.Sprintf("consumer %s did not handle event %s (%s): %s", l.Consumer, l.Event.Type, l.Reason, l.State),
				Details: details("event", l.Event.ID, "letter", fmt.Sprint(l.Number), "error", l.Error, "note", l.Note),
			})
		}
	}
	return cut(list, most), nil
}

// The commands that whoever runs the servers gives, with all that they need: they work on a database.
func resolveCommand(number string) string {
	return "khata review resolve " + number + ` --as charged|declined|released|given-back --reason "…" --dsn "$DSN"`
}

func settleCommand(verdict string) string {
	return "khata fraud settle " + verdict + ` --as cleared|confirmed --note "…" --by YOU --dsn "$DSN"`
}

func retryCommand(event string) string { return "khata relay parked retry " + event + ` --dsn "$DSN"` }

func replayCommand(event, consumer string) string {
	return "khata inbox replay " + event + " --consumer " + consumer + ` --dsn "$DSN"`
}

func discardCommand(event, consumer string) string {
	return "khata inbox discard " + event + " --consumer " + consumer + ` --reason "…" --dsn "$DSN"`
}

// keyPile is of payments that are stuck.
type keyPile struct{ pool *pgxpool.Pool }

func (keyPile) Kind() support.Kind { return support.StuckKeys }

func (p keyPile) Waiting(ctx context.Context, name ledger.Name, most int) (support.Heap, error) {
	h := support.Heap{Next: "find out at the gateway what it did, and say so: " + resolveCommand("NUMBER")}
	reviews, err := payapi.Reviews(ctx, p.pool)
	reviews = slices.DeleteFunc(reviews, func(r payapi.Review) bool { return ledger.Name(r.Ledger) != name })
	h.Count = len(reviews)
	for _, r := range reviews {
		heap(&h, most, support.Task{
			Since: r.Since, ID: r.Number, Transfer: ledger.TransferID(ledger.ReservedPrefix + r.Number),
			What: fmt.Sprintf("%s of %s %s for %s, step %s: %s", r.Number, r.Amount, r.Currency, r.User, r.Step, r.Detail),
			Next: fmt.Sprintf("ask the gateway for key %s, then %s", r.GatewayKey, resolveCommand(r.Number)),
		})
	}
	return h, err
}

// heap adds a task to a heap, as far as there is room.
func heap(h *support.Heap, most int, t support.Task) {
	if h.Oldest.IsZero() || t.Since.Before(h.Oldest) {
		h.Oldest = t.Since
	}
	if len(h.Entries) < most {
		h.Entries = append(h.Entries, t)
	}
}

// eventPile is of parked events.
type eventPile struct{ pool *pgxpool.Pool }

func (eventPile) Kind() support.Kind { return support.ParkedEvents }

func (p eventPile) Waiting(ctx context.Context, name ledger.Name, most int) (support.Heap, error) {
	h := support.Heap{Next: "read the error, and then " + retryCommand("EVENT") + `, or khata relay parked skip EVENT --reason "…" --dsn "$DSN"`}
	parked, err := relay.ListParked(ctx, p.pool, false)
	parked = slices.DeleteFunc(parked, func(e relay.Parked) bool { return ledger.Name(e.Ledger) != name })
	slices.SortStableFunc(parked, func(a, b relay.Parked) int { return a.ParkedAt.Compare(b.ParkedAt) })
	h.Count = len(parked)
	for _, e := range parked {
		t := support.Task{Since: e.ParkedAt, ID: e.EventID, What: fmt.Sprintf("%s under %s: %s", e.Type, e.Key, e.Error), Next: retryCommand(e.EventID)}
		if e.Error == "" {
			t.What = fmt.Sprintf("%s under %s waits behind another one", e.Type, e.Key)
			t.Next = "nothing: it goes on when the one before it is settled"
		}
		heap(&h, most, t)
	}
	return h, err
}

// fraudPile is of flagged transfers.
type fraudPile struct{ pool *pgxpool.Pool }

func (fraudPile) Kind() support.Kind { return support.FlaggedVerdicts }

// maxFlagged is how far flagged transfers are counted.
const maxFlagged = 1000

func (p fraudPile) Waiting(ctx context.Context, name ledger.Name, most int) (support.Heap, error) {
	h := support.Heap{Next: "look at each, and then " + settleCommand("VERDICT") + "; what was stolen is refunded from its page"}
	list, err := fraud.List(ctx, p.pool, fraud.Filter{Limit: maxFlagged + 1})
	h.More = len(list) > maxFlagged
	list = slices.DeleteFunc(cut(list, maxFlagged), func(f fraud.Flagged) bool { return f.Ledger != name && f.Ledger != "" })
	h.Count = len(list)
	for _, f := range list {
		t := support.Task{
			Since: f.RecordedAt, ID: f.Verdict, Transfer: f.Transfer, What: fmt.Sprintf("%s %s from %s to %s", f.Amount, f.Currency, f.Payer, f.Payee),
			Next: settleCommand(f.Verdict),
		}
		if f.Unreadable {
			t.What = "an event that the check could not read"
		}
		for _, r := range f.Reasons {
			t.What += "; " + r.Text
		}
		heap(&h, most, t)
	}
	return h, err
}

// letterPile is of events that consumers did not handle. An inbox knows no ledgers.
type letterPile []SupportLetters

func (letterPile) Kind() support.Kind { return support.QuarantinedEvents }

func (p letterPile) Waiting(ctx context.Context, _ ledger.Name, most int) (support.Heap, error) {
	h := support.Heap{Next: "read the error, and then " + replayCommand("EVENT", "CONSUMER") + ", or " + discardCommand("EVENT", "CONSUMER")}
	for _, box := range p {
		letters, err := inbox.Letters(ctx, box.Pool, inbox.Selection{
			Schema: box.Schema, Consumer: box.Consumer, States: []inbox.State{inbox.Open, inbox.Requested}, Limit: maxFlagged + 1,
		})
		if err != nil {
			return h, fmt.Errorf("consumer %s: %w", box.Consumer, err)
		}
		h.More = h.More || len(letters) > maxFlagged
		letters = cut(letters, maxFlagged)
		h.Count += len(letters)
		for _, l := range letters {
			t := support.Task{
				Since: l.RecordedAt, ID: l.Event.ID, What: fmt.Sprintf("%s of consumer %s (%s): %s", l.Event.Type, l.Consumer, l.Reason, l.Error),
				Next: replayCommand(l.Event.ID, l.Consumer),
			}
			if l.Reason == inbox.TooOld {
				t.Next = "find out whether it had its effect: then " + discardCommand(l.Event.ID, l.Consumer) + ", or " + replayCommand(l.Event.ID, l.Consumer) + " --too-old"
			}
			heap(&h, most, t)
		}
	}
	slices.SortStableFunc(h.Entries, func(a, b support.Task) int { return a.Since.Compare(b.Since) })
	return h, nil
}

// breakPile is of what the last run of the matching of each bank account has left open.
type breakPile struct{ *reconcile.Reconciler }

func (breakPile) Kind() support.Kind { return support.Breaks }

func (p breakPile) Waiting(ctx context.Context, name ledger.Name, most int) (support.Heap, error) {
	h := support.Heap{Next: "look at what the last run of each bank account has left open, and confirm, ignore or import what is missing"}
	accounts, err := p.BankAccounts(ctx, name)
	if err != nil {
		return h, err
	}
	for _, a := range accounts {
		runs, _, err := p.Runs(ctx, name, a.Name, 0, 1)
		if err != nil {
			return h, err
		}
		if len(runs) == 0 {
			continue
		}
		r := runs[0]
		// What is on its way is no break yet.
		open := r.Summary.OpenLines.Count + r.Summary.OpenEntries.Count - r.Summary.InTransit.Count
		if open == 0 {
			continue
		}
		h.Count += int(open)
		heap(&h, most, breakTask(a, r))
	}
	return h, nil
}

func breakTask(a *reconcile.BankAccount, r *reconcile.Run) support.Task {
	amount := func(sum decimal.Decimal) string {
		return ledger.FormatAmount(sum, a.Currency.Scale) + " " + string(a.Currency.Code)
	}
	s := r.Summary
	return support.Task{
		Since: r.RunAt, ID: a.Name, What: fmt.Sprintf("%s: open at the bank: %d (%s); in the books: %d (%s), of them on their way: %d", a.Name,
			s.OpenLines.Count, amount(s.OpenLines.Sum), s.OpenEntries.Count, amount(s.OpenEntries.Sum), s.InTransit.Count),
		Next: fmt.Sprintf("khata reconcile show --bank-account %s --run %d --results", a.Name, r.No),
	}
}
