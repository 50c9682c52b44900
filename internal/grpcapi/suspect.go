package grpcapi

import (
	"context"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Suspects finds suspected double charges, and keeps what people say of them. *suspect.Detector does.
type Suspects interface {
	Suspects(ctx context.Context, name ledger.Name, filter suspect.Filter) (suspect.Page, error)
	Suspect(ctx context.Context, name ledger.Name, no int64) (*suspect.Group, error)
	Dismiss(ctx context.Context, spec suspect.DecisionSpec, by string) (*suspect.Group, *suspect.Decision, error)
	Undismiss(ctx context.Context, spec suspect.DecisionSpec, by string) (*suspect.Group, *suspect.Decision, error)
}

type suspectToken struct {
	At time.Time `json:"t"`
	No int64     `json:"n"`
}

// ListSuspects implements khata.v1.SupportService.
func (s *SupportService) ListSuspects(ctx context.Context, in *khatav1.ListSuspectsRequest) (*khatav1.ListSuspectsResponse, error) {
	if size := in.GetPageSize(); size < 0 || size > suspect.MaxPage {
		return nil, ledger.Invalid("page_size", "is %d, want 1 to %d, or 0 for %d", size, suspect.MaxPage, suspect.DefaultPage)
	}
	filter := suspect.Filter{Account: ledger.AccountID(in.GetAccount()), Limit: int(in.GetPageSize()), AtLeast: suspect.Level(in.GetAtLeast())}
	if filter.AtLeast < 0 || filter.AtLeast > suspect.High {
		return nil, ledger.Invalid("at_least", "%d is no level", in.GetAtLeast())
	}
	for _, state := range in.GetStates() {
		if state < khatav1.SuspectState_SUSPECT_STATE_OPEN || state > khatav1.SuspectState_SUSPECT_STATE_REFUNDED {
			return nil, ledger.Invalid("states", "%d is no state", state)
		}
		filter.States = append(filter.States, suspect.State(state))
	}
	for field, bound := range map[string]struct {
		in  *timestamppb.Timestamp
		out *time.Time
	}{"since": {in.GetSince(), &filter.Since}, "until": {in.GetUntil(), &filter.Until}} {
		at, err := decodeTime(bound.in, field)
		if err != nil {
			return nil, err
		}
		if at != nil {
			*bound.out = *at
		}
	}
	if in.GetPageToken() != "" {
		var token suspectToken
		if err := readToken(in.GetPageToken(), &token); err != nil {
			return nil, err
		}
		filter.After = &suspect.Place{At: token.At, No: token.No}
	}
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	var page suspect.Page
	asked := map[string]string{"account": in.GetAccount()}
	if filter.AtLeast != 0 {
		asked["at_least"] = filter.AtLeast.String()
	}
	err = s.readSuspects(ctx, name, "suspect.list", support.Object{Kind: "suspects"}, asked, func() (err error) {
		page, err = s.suspects.Suspects(ctx, name, filter)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListSuspectsResponse{Suspects: each(page.Groups, encodeSuspect)}
	if page.Next != nil {
		out.NextPageToken = writeToken(suspectToken{page.Next.At, page.Next.No})
	}
	return out, nil
}

// GetSuspect implements khata.v1.SupportService.
func (s *SupportService) GetSuspect(ctx context.Context, in *khatav1.GetSuspectRequest) (*khatav1.GetSuspectResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	var g *suspect.Group
	object := support.Object{Kind: "suspect", ID: strconv.FormatInt(in.GetSuspect(), 10)}
	err = s.readSuspects(ctx, name, "suspect.read", object, nil, func() (err error) {
		g, err = s.suspects.Suspect(ctx, name, in.GetSuspect())
		return err
	})
	if err != nil {
		return nil, err
	}
	return &khatav1.GetSuspectResponse{Suspect: encodeSuspect(g)}, nil
}

// readSuspects writes down who looks at suspects, before they are shown.
func (s *SupportService) readSuspects(ctx context.Context, name ledger.Name, action string, object support.Object, asked map[string]string,
	read func() error) error {
	event := support.Event{Ledger: name.Or(), Actor: actor(ctx), Action: action, Object: object, Detail: map[string]string{}}
	for field, value := range asked {
		if value != "" && len(value) <= 256 && utf8.ValidString(value) && !strings.ContainsRune(value, 0) { // Anything else is refused by who is asked.
			event.Detail[field] = value
		}
	}
	return s.desk.Audit().Read(ctx, event, read)
}

// DismissSuspect implements khata.v1.SupportService.
func (s *SupportService) DismissSuspect(ctx context.Context, in *khatav1.DismissSuspectRequest) (*khatav1.DismissSuspectResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	g, made, err := s.suspects.Dismiss(ctx, suspect.DecisionSpec{
		Ledger: name, No: in.GetSuspect(), Members: int(in.GetMembers()), Reason: in.GetReason(), Request: in.GetRequestId(),
	}, caller(ctx))
	if err != nil {
		return nil, err
	}
	return &khatav1.DismissSuspectResponse{Suspect: encodeSuspect(g), Replayed: made.Replayed}, nil
}

// UndismissSuspect implements khata.v1.SupportService.
func (s *SupportService) UndismissSuspect(ctx context.Context, in *khatav1.UndismissSuspectRequest) (*khatav1.UndismissSuspectResponse, error) {
	name, err := supportLedger(in)
	if err != nil {
		return nil, err
	}
	g, made, err := s.suspects.Undismiss(ctx, suspect.DecisionSpec{
		Ledger: name, No: in.GetSuspect(), Reason: in.GetReason(), Request: in.GetRequestId(),
	}, caller(ctx))
	if err != nil {
		return nil, err
	}
	return &khatav1.UndismissSuspectResponse{Suspect: encodeSuspect(g), Replayed: made == nil || made.Replayed}, nil
}

func encodeSuspect(g *suspect.Group) *khatav1.Suspect {
	out := &khatav1.Suspect{
		Ledger: string(g.Ledger), Suspect: g.No, State: khatav1.SuspectState(g.State), Level: khatav1.SuspectLevel(g.Level), //nolint:gosec // 1 to 3
		Score: int32(g.Score), Reasons: g.Reasons, //nolint:gosec // 1 to 100
		Earlier: string(g.Members[g.Pair[0]].ID), Later: string(g.Members[g.Pair[1]].ID),
	}
	for _, m := range g.Members {
		out.Members = append(out.Members, &khatav1.SuspectMember{
			Transfer: wire.Transfer(g.Ledger, m.Transfer), Progress: encodeProgress(m.Transfer, m.Progress), WentBack: m.WentBack,
		})
	}
	for _, d := range g.Decisions {
		out.Decisions = append(out.Decisions, &khatav1.SuspectDecision{
			Dismissed: d.Dismissed, Members: int32(d.Members), Reason: d.Reason, RequestId: d.Request, DecidedAt: timestamppb.New(d.At), //nolint:gosec // at most fifty
			DecidedBy: d.By,
		})
	}
	return out
}
