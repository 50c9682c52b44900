package grpcapi

import (
	"context"
	"net"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc/peer"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Desk is where people help customers, and where it is written down. *support.Desk is one.
type Desk interface {
	Find(ctx context.Context, who support.Actor, q support.Query) (*support.Found, error)
	Story(ctx context.Context, who support.Actor, name ledger.Name, id ledger.TransferID) (*support.Story, error)
	Form(ctx context.Context, who support.Actor, name ledger.Name, id ledger.TransferID) (*support.Form, error)
	Request(ctx context.Context, who support.Actor, spec support.RefundSpec) (*support.Refund, error)
	Decide(ctx context.Context, who support.Actor, spec support.DecisionSpec) (*support.Refund, error)
	Refund(ctx context.Context, who support.Actor, name ledger.Name, number int64) (*support.Refund, error)
	Refunds(ctx context.Context, who support.Actor, f support.RefundFilter) ([]support.Refund, error)
	SetLimit(ctx context.Context, who support.Actor, spec support.LimitSpec) (*support.Limit, error)
	Limits(ctx context.Context, name ledger.Name, currency ledger.CurrencyCode) ([]support.Limit, error)
	Review(ctx context.Context, who support.Actor, name ledger.Name) (*support.Review, error)
	Audit() *support.Audit
}

// SupportService serves khata.v1.SupportService.
type SupportService struct {
	khatav1.UnimplementedSupportServiceServer
	suspects Suspects
	desk     Desk
}

// The most of a page, and what it has where nobody says.
const (
	maxFound, usualFound = 100, 50
	maxDeskPage          = 200
)

// supportToken is of any listing of the support desk. Of says which one, with all that it was asked for by.
type supportToken struct {
	Of string `json:"o"`
	// No is the number before which the listing goes on, and At the time, of the audit.
	No int64     `json:"n"`
	At time.Time `json:"t,omitzero"`
}

// readSupportPage reads where a listing is to go on, and how many it may give.
func readSupportPage(in listing, most, usual int) (limit int, token supportToken, err error) {
	limit = int(in.GetPageSize())
	if limit < 0 || limit > most {
		return 0, token, ledger.Invalid("page_size", "is %d, want 1 to %d, or 0 for %d", limit, most, usual)
	}
	if limit == 0 {
		limit = usual
	}
	of := listingOf(in)
	if in.GetPageToken() == "" {
		return limit, supportToken{Of: of}, nil
	}
	if err := readToken(in.GetPageToken(), &token); err != nil {
		return 0, token, err
	}
	if token.Of != of || token.No < 1 {
		return 0, token, ledger.Invalid("page_token", "is of another listing: all but page_size has to be as it was")
	}
	return limit, token, nil
}

// actor is who is calling, and from where.
func actor(ctx context.Context) support.Actor {
	who := support.Actor{Name: caller(ctx)}
	p, ok := peer.FromContext(ctx)
	if !ok || p.Addr == nil {
		return who
	}
	who.Address = p.Addr.String()
	if host, _, err := net.SplitHostPort(who.Address); err == nil { // The port tells nobody anything a day later.
		who.Address = host
	}
	return who
}

// supportLedger is the ledger that a request names. What is no name is none of a ledger: the desk would ask the database for it.
func supportLedger(in interface{ GetLedger() string }) (ledger.Name, error) {
	name := ledger.Name(in.GetLedger()).Or()
	if name.Validate("ledger") != nil {
		return "", ledger.Errorf(ledger.CodeLedgerNotFound, "ledger %.80q does not exist", string(name))
	}
	return name, nil
}

// decodeBounds reads two times; absent is zero.
func decodeBounds(in interface {
	GetSince() *timestamppb.Timestamp
	GetUntil() *timestamppb.Timestamp
}) (since, until time.Time, err error) {
	from, err := decodeTime(in.GetSince(), "since")
	if err != nil {
		return since, until, err
	}
	to, err := decodeTime(in.GetUntil(), "until")
	if err != nil {
		return since, until, err
	}
	if from != nil {
		since = *from
	}
	if to != nil {
		until = *to
	}
	return since, until, nil
}

// FindTransfers implements khata.v1.SupportService.
func (s *SupportService) FindTransfers(ctx context.Context, in *khatav1.FindTransfersRequest) (*khatav1.FindTransfersResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	limit, token, err := readSupportPage(in, maxFound, usualFound)
	if err != nil {
		return nil, err
	}
	q := support.Query{Ledger: name, Text: in.GetText(), User: in.GetUser(), Account: ledger.AccountID(in.GetAccount()), Before: token.No, Limit: limit}
	if q.Since, q.Until, err = decodeBounds(in); err != nil {
		return nil, err
	}
	if in.GetAmount() != "" {
		amount, err := ledger.ParseAmount(in.GetAmount(), "amount")
		if err != nil {
			return nil, err
		}
		q.Amount = &amount
	}
	found, err := s.desk.Find(ctx, actor(ctx), q)
	if err != nil {
		return nil, err
	}
	out := &khatav1.FindTransfersResponse{Looked: int32(found.Looked)} //nolint:gosec // ten thousand at most
	for _, hit := range found.Hits {
		out.Transfers = append(out.Transfers, &khatav1.FoundTransfer{Transfer: wire.Transfer(name, hit.Transfer), Why: hit.Why})
	}
	if !found.Back.IsZero() {
		out.LookedBackTo = timestamppb.New(found.Back)
	}
	if found.Next != 0 {
		out.NextPageToken = writeToken(supportToken{Of: token.Of, No: found.Next})
	}
	return out, nil
}

// GetStory implements khata.v1.SupportService.
func (s *SupportService) GetStory(ctx context.Context, in *khatav1.GetStoryRequest) (*khatav1.GetStoryResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	story, err := s.desk.Story(ctx, actor(ctx), name, ledger.TransferID(in.GetTransferId()))
	if err != nil {
		return nil, err
	}
	out := &khatav1.Story{
		Ledger: string(name), TransferId: string(story.ID), Cut: story.Cut, Missing: each(story.Missing, encodeMissing),
		Warnings: story.Warnings,
	}
	if story.Transfer != nil {
		out.Transfer, out.Progress = wire.Transfer(name, story.Transfer), encodeProgress(story.Transfer, story.Progress)
	}
	if story.Origin != nil {
		out.Origin = wire.Transfer(name, story.Origin)
	}
	for _, i := range story.Items {
		item := &khatav1.StoryItem{At: timestamppb.New(i.At), Source: i.Source, TransferId: string(i.Transfer), Who: i.Who, What: i.What}
		for _, d := range i.Details {
			item.Details = append(item.Details, &khatav1.StoryDetail{Name: d.Name, Value: d.Value})
		}
		out.Items = append(out.Items, item)
	}
	return &khatav1.GetStoryResponse{Story: out}, nil
}

func encodeMissing(m support.Missing) *khatav1.MissingSource {
	return &khatav1.MissingSource{Source: m.Source, Why: m.Why}
}

// GetReviewList implements khata.v1.SupportService.
func (s *SupportService) GetReviewList(ctx context.Context, in *khatav1.GetReviewListRequest) (*khatav1.GetReviewListResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	review, err := s.desk.Review(ctx, actor(ctx), name)
	if err != nil {
		return nil, err
	}
	out := &khatav1.GetReviewListResponse{Missing: each(review.Missing, encodeMissing)}
	for _, h := range review.Heaps {
		heap := &khatav1.ReviewHeap{Kind: string(h.Kind), Count: int32(h.Count), More: h.More, Next: h.Next} //nolint:gosec // a thousand or so
		if !h.Oldest.IsZero() {
			heap.Oldest = timestamppb.New(h.Oldest)
		}
		for _, t := range h.Entries {
			heap.Tasks = append(heap.Tasks, &khatav1.ReviewTask{
				Since: timestamppb.New(t.Since), What: t.What, Id: t.ID, TransferId: string(t.Transfer), Next: t.Next,
			})
		}
		out.Heaps = append(out.Heaps, heap)
	}
	return out, nil
}

var auditOutcomes = map[support.Outcome]khatav1.AuditOutcome{
	support.Done: khatav1.AuditOutcome_AUDIT_OUTCOME_DONE, support.Refused: khatav1.AuditOutcome_AUDIT_OUTCOME_REFUSED,
	support.Seen: khatav1.AuditOutcome_AUDIT_OUTCOME_READ,
}

// maxAuditText is the most bytes of what the audit is asked by: no event has more.
const maxAuditText = 256

// ListAuditEvents implements khata.v1.SupportService.
func (s *SupportService) ListAuditEvents(ctx context.Context, in *khatav1.ListAuditEventsRequest) (*khatav1.ListAuditEventsResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	limit, token, err := readSupportPage(in, maxDeskPage, maxDeskPage)
	if err != nil {
		return nil, err
	}
	f := support.AuditFilter{
		Ledger: name, Object: support.Object{Kind: in.GetObjectKind(), ID: in.GetObjectId()}, Actor: in.GetActor(), Action: in.GetAction(), Limit: limit,
	}
	for _, given := range []struct{ field, text string }{
		{"object_kind", f.Object.Kind}, {"object_id", f.Object.ID}, {"actor", f.Actor}, {"action", f.Action},
	} {
		switch {
		case len(given.text) > maxAuditText:
			return nil, ledger.Invalid(given.field, "has %d bytes, at most %d are allowed", len(given.text), maxAuditText)
		case !utf8.ValidString(given.text) || strings.ContainsRune(given.text, 0):
			return nil, ledger.Invalid(given.field, "is not text")
		}
	}
	switch {
	case f.Object.Kind == "" && f.Object.ID != "":
		return nil, ledger.Invalid("object_kind", "is required with object_id, such as transfer")
	case f.Object.Kind != "" && f.Object.ID == "":
		return nil, ledger.Invalid("object_id", "is required with object_kind")
	}
	if f.Since, f.Until, err = decodeBounds(in); err != nil {
		return nil, err
	}
	if !f.Since.IsZero() && !f.Until.IsZero() && !f.Until.After(f.Since) {
		return nil, ledger.Invalid("until", "is not after since")
	}
	if in.GetPageToken() != "" {
		f.Before = &support.AuditCursor{At: token.At, Number: token.No}
	}
	page, err := s.desk.Audit().Show(ctx, actor(ctx), f)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListAuditEventsResponse{}
	for _, e := range page.Events {
		out.Events = append(out.Events, &khatav1.AuditEvent{
			Ledger: string(name), Number: e.Number, At: timestamppb.New(e.At), Actor: e.Actor.Name, Address: e.Actor.Address, Action: e.Action,
			ObjectKind: e.Object.Kind, ObjectId: e.Object.ID, Outcome: auditOutcomes[e.Outcome], Detail: e.Detail,
		})
	}
	if page.Next != nil {
		out.NextPageToken = writeToken(supportToken{Of: token.Of, No: page.Next.Number, At: page.Next.At})
	}
	return out, nil
}

// decodeRequired reads an amount that has to be there, and may be zero.
func decodeRequired(text, field string) (decimal.Decimal, error) {
	if text == "" {
		return decimal.Decimal{}, ledger.Invalid(field, "is required")
	}
	return ledger.ParseBalance(text, field)
}
