package client

import (
	"context"
	"iter"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Support is the desk at which people help customers of the client's ledger: they find transfers, read their stories, and ask for refunds, about which
// others decide. Who asked for what is written down there.
type Support struct {
	client *Client
	api    khatav1.SupportServiceClient
}

// Support gives the support desk over the client's connection.
func (c *Client) Support() *Support {
	return &Support{client: c, api: khatav1.NewSupportServiceClient(c.conn)}
}

func (s *Support) ledger() string { return string(s.client.options.Ledger) }

// FindQuery says which transfers are looked for. What a person has in hand goes into Text; the rest says where to look.
type FindQuery struct {
	// Text is the id of a transfer, the number of a payment, an idempotency key, the key of a form for a refund, or a reference or a phone number that
	// stands in the metadata.
	Text string
	// User is whose idempotency key it is, such as user:shimul, or shimul for short.
	User string
	// Account is whose entries are looked at.
	Account ledger.AccountID
	// Amount is that of an entry; nil is any.
	Amount *decimal.Decimal
	// Since and Until bound the time of posting: at or after the one, and before the other. Without an account Since is required where anything but an id,
	// number or key is looked for, at most 31 days before Until, or before now where that is zero.
	Since, Until time.Time
	// Page goes on where an answer to the same query ended: its Next.
	Page string
	// Limit is the most that is found at once: 100 at most; 0 is 50.
	Limit int
}

// Found is an answer.
type Found struct {
	// Transfers are those found by an id, number or key, and then the others, the newest first.
	Transfers []FoundTransfer
	// Looked is how many entries or transfers were looked at, and LookedBackTo when the last of them was posted; nil where nothing had to be looked at.
	Looked       int
	LookedBackTo *time.Time
	// Next is where to go on; "" if all was looked at.
	Next string
}

// FoundTransfer is a transfer, and by what it was found.
type FoundTransfer struct {
	ledger.Transfer
	Why []string
}

// Find looks for transfers, as far as one call looks. It returns CodeInvalidArgument or CodeAccountNotFound.
func (s *Support) Find(ctx context.Context, q FindQuery) (Found, error) {
	in := &khatav1.FindTransfersRequest{
		Ledger: s.ledger(), Text: q.Text, User: q.User, Account: string(q.Account), Amount: encodeOptional(q.Amount), PageToken: q.Page,
		PageSize: int32(min(max(q.Limit, -1), 1000)), Since: encodeBound(q.Since), Until: encodeBound(q.Until), //nolint:gosec // it is bounded
	}
	resp, err := call(ctx, s.client, s.api.FindTransfers, in)
	if err != nil {
		return Found{}, err
	}
	out := Found{Looked: int(resp.GetLooked()), LookedBackTo: decodeTime(resp.GetLookedBackTo()), Next: resp.GetNextPageToken()}
	for _, hit := range resp.GetTransfers() {
		t, err := decodeTransfer(hit.GetTransfer())
		if err != nil {
			return Found{}, err
		}
		out.Transfers = append(out.Transfers, FoundTransfer{t, hit.GetWhy()})
	}
	return out, nil
}

// encodeBound writes a bound of time; zero is none.
func encodeBound(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// Story is what is known of a transfer, on one timeline.
type Story struct {
	Ledger     ledger.Name
	TransferID ledger.TransferID
	// Transfer is nil where nothing has been decided under the id: a payment that is under way, or that is stuck, is known to its key alone.
	Transfer *ledger.Transfer
	// Progress is what has become of it; nil where nothing can.
	Progress *ledger.Progress
	// Origin is what it is a step of; nil if it is none.
	Origin *ledger.Transfer
	// Items are in the order of time.
	Items []StoryItem
	// Cut names the sources that had more to tell than there is room for, and Missing those that could not be asked.
	Cut     []string
	Missing []MissingSource
	// Warnings are what to know before money goes back: that the transfer may be one payment with others, of which something has gone back or is about to.
	Warnings []string
}

// StoryItem is one thing that happened to a transfer.
type StoryItem struct {
	At time.Time
	// Source is who knows it, such as ledger, key, duplicate, event, refund, sms or audit.
	Source string
	// TransferID is which one of the story it is about.
	TransferID ledger.TransferID
	// Who did it, as far as is known, and What as a sentence for people.
	Who, What string
	Details   []StoryDetail
}

// StoryDetail is a name and a value.
type StoryDetail struct{ Name, Value string }

// MissingSource is a source that could not be asked.
type MissingSource struct{ Source, Why string }

// Story tells what is known of a transfer. It returns CodeTransferNotFound if nobody knows of it.
func (s *Support) Story(ctx context.Context, id ledger.TransferID) (Story, error) {
	resp, err := call(ctx, s.client, s.api.GetStory, &khatav1.GetStoryRequest{Ledger: s.ledger(), TransferId: string(id)})
	if err != nil {
		return Story{}, err
	}
	in := resp.GetStory()
	out := Story{
		Ledger: ledger.Name(in.GetLedger()), TransferID: ledger.TransferID(in.GetTransferId()), Cut: in.GetCut(),
		Missing: each(in.GetMissing(), decodeMissing), Warnings: in.GetWarnings(),
	}
	if out.Transfer, err = decodeOptionalTransfer(in.GetTransfer()); err != nil {
		return Story{}, err
	}
	if out.Origin, err = decodeOptionalTransfer(in.GetOrigin()); err != nil {
		return Story{}, err
	}
	if out.Transfer != nil {
		if out.Progress, err = decodeProgress(in.GetProgress(), out.Transfer.Entries); err != nil {
			return Story{}, err
		}
	}
	for _, i := range in.GetItems() {
		out.Items = append(out.Items, StoryItem{
			At: i.GetAt().AsTime(), Source: i.GetSource(), TransferID: ledger.TransferID(i.GetTransferId()), Who: i.GetWho(), What: i.GetWhat(),
			Details: each(i.GetDetails(), func(d *khatav1.StoryDetail) StoryDetail { return StoryDetail{d.GetName(), d.GetValue()} }),
		})
	}
	return out, nil
}

func decodeMissing(in *khatav1.MissingSource) MissingSource {
	return MissingSource{in.GetSource(), in.GetWhy()}
}

func decodeOptionalTransfer(in *khatav1.Transfer) (*ledger.Transfer, error) {
	if in == nil {
		return nil, nil
	}
	t, err := decodeTransfer(in)
	return &t, err
}

// ReviewList is what waits for people.
type ReviewList struct {
	// Heaps are those of the deployment, those in which nothing waits among them.
	Heaps []ReviewHeap
	// Missing are those that could not be asked.
	Missing []MissingSource
}

// ReviewHeap is what waits of one kind.
type ReviewHeap struct {
	// Kind is such as waiting_refunds or stuck_keys.
	Kind string
	// Count is how many there are; with More, at least so many.
	Count int
	More  bool
	// Oldest is since when the first of them waits; nil where nothing does.
	Oldest *time.Time
	// Tasks are some of them, the longest waiting first.
	Tasks []ReviewTask
	// Next is what to do about all of them.
	Next string
}

// ReviewTask is one thing that waits for a person.
type ReviewTask struct {
	Since time.Time
	// What is a sentence for people.
	What string
	// ID is what it is known by where it is settled, and TransferID which transfer it is about, where it is about one.
	ID         string
	TransferID ledger.TransferID
	// Next is what to do about it.
	Next string
}

// Review collects what waits for people.
func (s *Support) Review(ctx context.Context) (ReviewList, error) {
	resp, err := call(ctx, s.client, s.api.GetReviewList, &khatav1.GetReviewListRequest{Ledger: s.ledger()})
	if err != nil {
		return ReviewList{}, err
	}
	out := ReviewList{Missing: each(resp.GetMissing(), decodeMissing)}
	for _, h := range resp.GetHeaps() {
		out.Heaps = append(out.Heaps, ReviewHeap{
			Kind: h.GetKind(), Count: int(h.GetCount()), More: h.GetMore(), Oldest: decodeTime(h.GetOldest()), Next: h.GetNext(),
			Tasks: each(h.GetTasks(), func(t *khatav1.ReviewTask) ReviewTask {
				return ReviewTask{t.GetSince().AsTime(), t.GetWhat(), t.GetId(), ledger.TransferID(t.GetTransferId()), t.GetNext()}
			}),
		})
	}
	return out, nil
}

// AuditOutcome is how what a person did ended.
type AuditOutcome string

// The outcomes.
const (
	// AuditDone: something was written.
	AuditDone AuditOutcome = "done"
	// AuditRefused: a rule has said no, and nothing else was written.
	AuditRefused AuditOutcome = "refused"
	// AuditRead: something was shown.
	AuditRead AuditOutcome = "read"
)

var auditOutcomes = map[AuditOutcome]khatav1.AuditOutcome{
	AuditDone: khatav1.AuditOutcome_AUDIT_OUTCOME_DONE, AuditRefused: khatav1.AuditOutcome_AUDIT_OUTCOME_REFUSED,
	AuditRead: khatav1.AuditOutcome_AUDIT_OUTCOME_READ,
}

// AuditEvent is what somebody did.
type AuditEvent struct {
	Number int64
	At     time.Time
	Actor  string
	// Address is the network address that the request came from; "" where there is none.
	Address string
	// Action is such as refund.approve, and ObjectKind and ObjectID what it was done to, such as transfer and its id.
	Action, ObjectKind, ObjectID string
	Outcome                      AuditOutcome
	Detail                       map[string]string
}

// AuditFilter says which events are meant. A zero field is any.
type AuditFilter struct {
	// ObjectKind and ObjectID go together.
	ObjectKind, ObjectID string
	Actor, Action        string
	// Since and Until bound the time: at or after the one, and before the other.
	Since, Until time.Time
	// PageSize is how many come in one call: 200 at most; 0 is 200. Each call is itself in the audit.
	PageSize int
}

// Audit goes through the events of the client's ledger, the newest first. It ends after an error.
func (s *Support) Audit(ctx context.Context, f AuditFilter) iter.Seq2[AuditEvent, error] {
	in := &khatav1.ListAuditEventsRequest{
		Ledger: s.ledger(), ObjectKind: f.ObjectKind, ObjectId: f.ObjectID, Actor: f.Actor, Action: f.Action, Since: encodeBound(f.Since),
		Until: encodeBound(f.Until), PageSize: int32(min(max(f.PageSize, -1), 1000)), //nolint:gosec // it is bounded
	}
	return paged(func(token string) (*khatav1.ListAuditEventsResponse, error) {
		in.PageToken = token
		return call(ctx, s.client, s.api.ListAuditEvents, in)
	}, func(resp *khatav1.ListAuditEventsResponse) ([]AuditEvent, error) {
		return each(resp.GetEvents(), func(e *khatav1.AuditEvent) AuditEvent {
			return AuditEvent{
				Number: e.GetNumber(), At: e.GetAt().AsTime(), Actor: e.GetActor(), Address: e.GetAddress(), Action: e.GetAction(),
				ObjectKind: e.GetObjectKind(), ObjectID: e.GetObjectId(), Outcome: keyOf(auditOutcomes, e.GetOutcome()), Detail: e.GetDetail(),
			}
		}), nil
	})
}
