package client

import (
	"context"
	"crypto/rand"
	"iter"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// SuspectLevel is how much speaks for a double charge.
type SuspectLevel string

// The levels.
const (
	SuspectLow    SuspectLevel = "low"
	SuspectMedium SuspectLevel = "medium"
	SuspectHigh   SuspectLevel = "high"
)

// SuspectState is what has become of a group.
type SuspectState string

// The states.
const (
	// SuspectOpen: somebody should look at it.
	SuspectOpen SuspectState = "open"
	// SuspectDismissed: somebody says that it is none.
	SuspectDismissed SuspectState = "dismissed"
	// SuspectRefunded: all of its transfers but one, or all, have gone back.
	SuspectRefunded SuspectState = "refunded"
)

var (
	suspectLevels = map[SuspectLevel]khatav1.SuspectLevel{
		SuspectLow: khatav1.SuspectLevel_SUSPECT_LEVEL_LOW, SuspectMedium: khatav1.SuspectLevel_SUSPECT_LEVEL_MEDIUM,
		SuspectHigh: khatav1.SuspectLevel_SUSPECT_LEVEL_HIGH,
	}
	suspectStates = map[SuspectState]khatav1.SuspectState{
		SuspectOpen: khatav1.SuspectState_SUSPECT_STATE_OPEN, SuspectDismissed: khatav1.SuspectState_SUSPECT_STATE_DISMISSED,
		SuspectRefunded: khatav1.SuspectState_SUSPECT_STATE_REFUNDED,
	}
)

// Suspect is a group of transfers that may be one payment.
type Suspect struct {
	Ledger ledger.Name
	Number int64
	State  SuspectState
	Level  SuspectLevel
	// Score is from 1 to 100, and Reasons say why. Both are about the transfers Earlier and Later.
	Score          int
	Reasons        []string
	Earlier, Later ledger.TransferID
	// Members are its transfers, in the order of decision. There are ever only more of them.
	Members []SuspectMember
	// Decisions are what people have said of it, in order.
	Decisions []SuspectDecision
}

// SuspectMember is a transfer of a group, and what has become of it.
type SuspectMember struct {
	Transfer ledger.Transfer
	Progress ledger.Progress
	// WentBack says that nothing is left of it.
	WentBack bool
}

// SuspectDecision is what somebody has said of a group.
type SuspectDecision struct {
	// Dismissed says that it is no double charge; otherwise that was taken back.
	Dismissed bool
	// Members is how many the group had.
	Members   int
	Reason    string
	RequestID string
	At        time.Time
	By        string
}

// SuspectFilter says which groups are meant. The zero filter is all that are open.
type SuspectFilter struct {
	States []SuspectState
	// AtLeast is the lowest level.
	AtLeast SuspectLevel
	Account ledger.AccountID
	// Since and Until bound when the last transfer of a group was posted; zero is no bound.
	Since, Until time.Time
}

// Suspects asks for suspected double charges of the client's ledger.
type Suspects struct {
	client *Client
	api    khatav1.SupportServiceClient
}

// Suspects gives what asks for suspected double charges over the client's connection.
func (c *Client) Suspects() *Suspects {
	return &Suspects{client: c, api: khatav1.NewSupportServiceClient(c.conn)}
}

// List goes through groups, those with the latest transfer first. It ends after an error.
func (s *Suspects) List(ctx context.Context, filter SuspectFilter) iter.Seq2[Suspect, error] {
	return func(yield func(Suspect, error) bool) {
		in, err := s.listRequest(filter)
		if err != nil {
			yield(Suspect{}, err)
			return
		}
		for {
			resp, err := call(ctx, s.client, s.api.ListSuspects, in)
			if err != nil {
				yield(Suspect{}, err)
				return
			}
			for _, one := range resp.GetSuspects() {
				if one, err := decodeSuspect(one); !yield(one, err) || err != nil {
					return
				}
			}
			if in.PageToken = resp.GetNextPageToken(); in.GetPageToken() == "" {
				return
			}
		}
	}
}

func (s *Suspects) listRequest(filter SuspectFilter) (*khatav1.ListSuspectsRequest, error) {
	in := &khatav1.ListSuspectsRequest{Ledger: string(s.client.options.Ledger), Account: string(filter.Account)}
	var ok bool
	if filter.AtLeast != "" {
		if in.AtLeast, ok = suspectLevels[filter.AtLeast]; !ok {
			return nil, ledger.Invalid("at_least", "%.40q is no level: want low, medium or high", string(filter.AtLeast))
		}
	}
	for _, state := range filter.States {
		wire, ok := suspectStates[state]
		if !ok {
			return nil, ledger.Invalid("states", "%.40q is no state: want open, dismissed or refunded", string(state))
		}
		in.States = append(in.States, wire)
	}
	if !filter.Since.IsZero() {
		in.Since = timestamppb.New(filter.Since)
	}
	if !filter.Until.IsZero() {
		in.Until = timestamppb.New(filter.Until)
	}
	return in, nil
}

// Get gets a group. It returns CodeNotFound.
func (s *Suspects) Get(ctx context.Context, number int64) (Suspect, error) {
	resp, err := call(ctx, s.client, s.api.GetSuspect, &khatav1.GetSuspectRequest{Ledger: string(s.client.options.Ledger), Suspect: number})
	if err != nil {
		return Suspect{}, err
	}
	return decodeSuspect(resp.GetSuspect())
}

// Dismiss says that a group, which had so many members when it was looked at, is no double charge. replayed is that it was dismissed before. It
// returns CodeInvalidArgument, about "members" where it has others by now.
func (s *Suspects) Dismiss(ctx context.Context, number int64, members int, reason string) (suspect Suspect, replayed bool, err error) {
	resp, err := call(ctx, s.client, s.api.DismissSuspect, &khatav1.DismissSuspectRequest{
		Ledger: string(s.client.options.Ledger), Suspect: number, Members: int32(min(max(members, -1), 1000)), Reason: reason, //nolint:gosec // it is bounded
		RequestId: rand.Text(), // All tries of this call are one request.
	})
	if err != nil {
		return Suspect{}, false, err
	}
	suspect, err = decodeSuspect(resp.GetSuspect())
	return suspect, resp.GetReplayed(), err
}

// Undismiss takes a dismissal back. replayed is that the group was not dismissed.
func (s *Suspects) Undismiss(ctx context.Context, number int64, reason string) (suspect Suspect, replayed bool, err error) {
	resp, err := call(ctx, s.client, s.api.UndismissSuspect, &khatav1.UndismissSuspectRequest{
		Ledger: string(s.client.options.Ledger), Suspect: number, Reason: reason, RequestId: rand.Text(),
	})
	if err != nil {
		return Suspect{}, false, err
	}
	suspect, err = decodeSuspect(resp.GetSuspect())
	return suspect, resp.GetReplayed(), err
}

func decodeSuspect(in *khatav1.Suspect) (Suspect, error) {
	out := Suspect{
		Ledger: ledger.Name(in.GetLedger()), Number: in.GetSuspect(), State: keyOf(suspectStates, in.GetState()), Level: keyOf(suspectLevels, in.GetLevel()),
		Score: int(in.GetScore()), Reasons: in.GetReasons(), Earlier: ledger.TransferID(in.GetEarlier()), Later: ledger.TransferID(in.GetLater()),
	}
	for _, m := range in.GetMembers() {
		t, err := decodeTransfer(m.GetTransfer())
		if err != nil {
			return Suspect{}, err
		}
		member := SuspectMember{Transfer: t, WentBack: m.GetWentBack()}
		p, err := decodeProgress(m.GetProgress(), t.Entries)
		if err != nil {
			return Suspect{}, err
		}
		if p != nil {
			member.Progress = *p
		}
		out.Members = append(out.Members, member)
	}
	for _, d := range in.GetDecisions() {
		out.Decisions = append(out.Decisions, SuspectDecision{
			Dismissed: d.GetDismissed(), Members: int(d.GetMembers()), Reason: d.GetReason(), RequestID: d.GetRequestId(), At: d.GetDecidedAt().AsTime(),
			By: d.GetDecidedBy(),
		})
	}
	return out, nil
}
