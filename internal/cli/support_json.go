package cli

import (
	"fmt"

	"github.com/khata-ledger/khata/ledger/client"
)

// foundJSON is a transfer, and by what it was found.
type foundJSON struct {
	transferJSON
	Why []string `json:"why"`
}

// foundEndJSON is what is said after all that was found.
type foundEndJSON struct {
	found int
	// named is whether only ids, numbers and keys were looked up, and hint what else could help.
	named bool
	hint  string

	Looked        int    `json:"looked"`
	LookedBackTo  string `json:"looked_back_to,omitempty"`
	NextPageToken string `json:"next_page_token,omitempty"`
}

func (e foundEndJSON) text() string {
	text := fmt.Sprintf("found %d", e.found)
	if e.Looked > 0 {
		text += fmt.Sprintf(", looked at %d, back to %s", e.Looked, e.LookedBackTo)
	}
	if e.named {
		text += ": only ids, numbers and keys were looked up; for a reference, a phone number or an amount give --account, or --since"
	}
	if e.hint != "" {
		text += "; " + e.hint
	}
	if e.NextPageToken != "" {
		text += "; to go on: --page " + e.NextPageToken
	}
	return text
}

type storyJSON struct {
	Ledger     string              `json:"ledger"`
	TransferID string              `json:"transfer_id"`
	Transfer   *transferJSON       `json:"transfer,omitempty"`
	Origin     *transferJSON       `json:"origin,omitempty"`
	Items      []storyItemJSON     `json:"items"`
	Cut        []string            `json:"cut,omitempty"`
	Missing    []missingSourceJSON `json:"missing,omitempty"`
	Warnings   []string            `json:"warnings,omitempty"`
}

type storyItemJSON struct {
	At         string            `json:"at"`
	Source     string            `json:"source"`
	TransferID string            `json:"transfer_id"`
	Who        string            `json:"who,omitempty"`
	What       string            `json:"what"`
	Details    []storyDetailJSON `json:"details,omitempty"`
}

type storyDetailJSON struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type missingSourceJSON struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

func (a *app) toStoryJSON(s client.Story) storyJSON {
	out := storyJSON{
		Ledger: string(s.Ledger), TransferID: string(s.TransferID), Items: []storyItemJSON{}, Cut: s.Cut, Missing: toMissingJSON(s.Missing),
		Warnings: s.Warnings,
	}
	if s.Transfer != nil {
		t := a.toTransferJSON(s.Transfer, s.Progress)
		out.Transfer = &t
	}
	if s.Origin != nil {
		t := a.toTransferJSON(s.Origin, nil)
		out.Origin = &t
	}
	for _, i := range s.Items {
		item := storyItemJSON{At: formatTime(i.At), Source: i.Source, TransferID: string(i.TransferID), Who: i.Who, What: i.What}
		for _, d := range i.Details {
			item.Details = append(item.Details, storyDetailJSON(d))
		}
		out.Items = append(out.Items, item)
	}
	return out
}

func toMissingJSON(list []client.MissingSource) (out []missingSourceJSON) {
	for _, m := range list {
		out = append(out, missingSourceJSON(m))
	}
	return out
}

type reviewListJSON struct {
	Heaps   []reviewHeapJSON    `json:"heaps"`
	Missing []missingSourceJSON `json:"missing,omitempty"`
}

type reviewHeapJSON struct {
	Kind   string           `json:"kind"`
	Count  int              `json:"count"`
	More   bool             `json:"more,omitempty"`
	Oldest string           `json:"oldest,omitempty"`
	Tasks  []reviewTaskJSON `json:"tasks,omitempty"`
	Next   string           `json:"next"`
}

type reviewTaskJSON struct {
	Since      string `json:"since"`
	What       string `json:"what"`
	ID         string `json:"id"`
	TransferID string `json:"transfer_id,omitempty"`
	Next       string `json:"next,omitempty"`
}

func toReviewJSON(review client.ReviewList) reviewListJSON {
	out := reviewListJSON{Heaps: []reviewHeapJSON{}, Missing: toMissingJSON(review.Missing)}
	for _, h := range review.Heaps {
		heap := reviewHeapJSON{Kind: h.Kind, Count: h.Count, More: h.More, Oldest: formatOptionalTime(h.Oldest), Next: h.Next}
		for _, t := range h.Tasks {
			heap.Tasks = append(heap.Tasks, reviewTaskJSON{formatTime(t.Since), t.What, t.ID, string(t.TransferID), t.Next})
		}
		out.Heaps = append(out.Heaps, heap)
	}
	return out
}

type refundRequestJSON struct {
	Ledger           string              `json:"ledger"`
	Number           int64               `json:"number"`
	Key              string              `json:"key"`
	TransferID       string              `json:"transfer_id"`
	Amount           string              `json:"amount"`
	Currency         string              `json:"currency"`
	ExpectedRefunded string              `json:"expected_refunded"`
	Reason           string              `json:"reason"`
	Note             string              `json:"note,omitempty"`
	Ticket           string              `json:"ticket,omitempty"`
	Maker            string              `json:"maker"`
	MadeAt           string              `json:"made_at"`
	ExpiresAt        string              `json:"expires_at"`
	Approval         string              `json:"approval"`
	LimitVersion     int                 `json:"limit_version,omitempty"`
	SHA256           string              `json:"sha256"`
	State            string              `json:"state"`
	Decision         *refundDecisionJSON `json:"decision,omitempty"`
	RefundTransferID string              `json:"refund_transfer_id,omitempty"`
	Refusal          string              `json:"refusal,omitempty"`
	RefusalMessage   string              `json:"refusal_message,omitempty"`
	SettledAt        string              `json:"settled_at,omitempty"`
	Replayed         *bool               `json:"replayed,omitempty"`
	Warnings         []string            `json:"warnings,omitempty"`
	Transfer         *transferJSON       `json:"transfer,omitempty"`
	Obstacle         string              `json:"obstacle,omitempty"`
}

type refundDecisionJSON struct {
	Verdict   string `json:"verdict"`
	DecidedBy string `json:"decided_by"`
	DecidedAt string `json:"decided_at"`
	Note      string `json:"note,omitempty"`
}

func (a *app) toRefundRequestJSON(r client.RefundRequest, replayed *bool) refundRequestJSON {
	out := refundRequestJSON{
		Ledger: string(r.Ledger), Number: r.Number, Key: r.Key, TransferID: string(r.TransferID), Amount: written(r.Amount), Currency: string(r.Currency),
		ExpectedRefunded: written(r.ExpectedRefunded), Reason: string(r.Reason), Note: r.Note, Ticket: r.Ticket, Maker: r.Maker, MadeAt: formatTime(r.MadeAt),
		ExpiresAt: formatTime(r.ExpiresAt), Approval: string(r.Approval), LimitVersion: r.LimitVersion, SHA256: r.SHA256, State: string(r.State),
		RefundTransferID: string(r.RefundID), Refusal: string(r.Refusal), RefusalMessage: r.Message, SettledAt: formatOptionalTime(r.SettledAt),
		Replayed: replayed, Warnings: r.Warnings, Obstacle: r.Obstacle,
	}
	if r.Transfer != nil {
		t := a.toTransferJSON(r.Transfer, r.Progress)
		out.Transfer = &t
	}
	if d := r.Decision; d != nil {
		out.Decision = &refundDecisionJSON{string(d.Verdict), d.By, formatTime(d.At), d.Note}
	}
	return out
}

type refundLimitJSON struct {
	Currency string `json:"currency"`
	Version  int    `json:"version"`
	Single   string `json:"single"`
	Daily    string `json:"daily"`
	Reason   string `json:"reason"`
	SetAt    string `json:"set_at"`
	SetBy    string `json:"set_by"`
}

func toRefundLimitJSON(l client.RefundLimit) refundLimitJSON {
	return refundLimitJSON{string(l.Currency), l.Version, written(l.Single), written(l.Daily), l.Reason, formatTime(l.SetAt), l.SetBy}
}

type auditEventJSON struct {
	Number     int64             `json:"number"`
	At         string            `json:"at"`
	Actor      string            `json:"actor"`
	Address    string            `json:"address,omitempty"`
	Action     string            `json:"action"`
	ObjectKind string            `json:"object_kind"`
	ObjectID   string            `json:"object_id,omitempty"`
	Outcome    string            `json:"outcome"`
	Detail     map[string]string `json:"detail,omitempty"`
}

func toAuditEventJSON(e client.AuditEvent) auditEventJSON {
	return auditEventJSON{e.Number, formatTime(e.At), e.Actor, e.Address, e.Action, e.ObjectKind, e.ObjectID, string(e.Outcome), e.Detail}
}
