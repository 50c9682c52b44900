package fraud

import (
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// The bounds of what is remembered of a payer.
const (
	// maxRecent is how many transfers are remembered at most. One who has paid as often within the longest window is flagged for that: rules
	// would not see all that they have to see.
	maxRecent = 500
	// maxPayees is how many payees are remembered at most, those that were paid last. One more is new again.
	maxPayees = 200
	// slack is for how much longer than any window transfers are remembered. A payer's times follow the order of decision but for what clocks
	// step back and what was decided at once; up to so much the rules see everything that lies in their windows.
	slack = 10 * time.Minute
)

// State is what is remembered of a payer. It is never changed: Judge makes another one. The zero value is that of somebody who has not paid yet.
type State struct {
	// version is the sequence of the last transfer that was judged, and latest the greatest posted_at of any.
	version int64
	latest  micros
	// restoredVersion and restoredAt are the greatest of both when the numbers stepped back, because the books were restored.
	restoredVersion int64
	restoredAt      micros
	// recent are the transfers that rules look back at, in the order of decision.
	recent []paid
	// payees are those that were paid, the one paid last at the end.
	payees []payee
}

// micros is a time, as microseconds since 1970: that of the ledger, exactly.
type micros int64

func microsOf(t time.Time) micros { return micros(t.UnixMicro()) }

// near reports whether two times are less than d apart.
func (m micros) near(other micros, d time.Duration) bool {
	apart := m - other
	return max(apart, -apart) < micros(d.Microseconds())
}

type paid struct {
	at              micros
	payee, currency string
	amount          decimal.Decimal
}

type payee struct {
	name string
	at   micros
}

// has reports whether a transfer was judged before. It can come again at any time, in any order, but what was not judged yet comes in the order of
// its numbers. When books are restored from a backup their numbers begin again at an earlier one, and only the clock tells
// the transfers that they get then from those that had the same numbers.
func (s *State) has(p *Payment) bool {
	at := microsOf(p.PostedAt)
	return p.Sequence <= s.version && at <= s.latest || p.Sequence <= s.restoredVersion && at <= s.restoredAt
}

// with is the state after a transfer, without what the rules remember of it.
func (s *State) with(p *Payment) *State {
	next := *s
	if p.Sequence <= s.version { // The books were restored.
		next.restoredVersion, next.restoredAt = max(s.version, s.restoredVersion), s.latest
	}
	next.version, next.latest = p.Sequence, max(s.latest, microsOf(p.PostedAt))
	return &next
}

// remember adds what later transfers are judged by, and forgets what they are not. It is for a state that nobody else has yet.
func (s *State) remember(rules *Rules, p *Payment) {
	at := microsOf(p.PostedAt)
	recent := make([]paid, 0, len(s.recent)+1)
	if rules.recent > 0 {
		for _, before := range s.recent {
			if before.at.near(at, rules.recent+slack) {
				recent = append(recent, before)
			}
		}
		recent = append(recent, paid{at, p.Payee, p.Currency, p.Amount})
	}
	s.recent = recent[max(0, len(recent)-maxRecent):]
	payees := make([]payee, 0, len(s.payees)+1)
	if rules.known > 0 {
		for _, before := range s.payees {
			if before.name != p.Payee && before.at.near(at, rules.known+slack) {
				payees = append(payees, before)
			}
		}
		payees = append(payees, payee{p.Payee, at})
	}
	s.payees = payees[max(0, len(payees)-maxPayees):]
}

// knows reports whether a payee was paid within a time.
func (s *State) knows(name string, at micros, within time.Duration) bool {
	return slices.ContainsFunc(s.payees, func(p payee) bool { return p.name == name && p.at.near(at, within) })
}

// encode is the state in the changelog.
func (s *State) encode() ([]byte, error) {
	out := &khatav1.FraudState{
		Version: s.version, PostedAt: int64(s.latest), RestoredVersion: s.restoredVersion, RestoredAt: int64(s.restoredAt),
		Recent: make([]*khatav1.FraudPayment, len(s.recent)), Payees: make([]*khatav1.FraudPayee, len(s.payees)),
	}
	for i, p := range s.recent {
		out.Recent[i] = &khatav1.FraudPayment{PostedAt: int64(p.at), Payee: p.payee, Currency: p.currency, Amount: ledger.FormatWritten(p.amount)}
	}
	for i, p := range s.payees {
		out.Payees[i] = &khatav1.FraudPayee{Payee: p.name, PaidAt: int64(p.at)}
	}
	return proto.Marshal(out)
}

func decodeState(value []byte) (*State, error) {
	var in khatav1.FraudState
	if err := proto.Unmarshal(value, &in); err != nil {
		return nil, err
	}
	s := &State{
		version: in.Version, latest: micros(in.PostedAt), restoredVersion: in.RestoredVersion, restoredAt: micros(in.RestoredAt),
		recent: make([]paid, len(in.Recent)), payees: make([]payee, len(in.Payees)),
	}
	for i, p := range in.Recent {
		amount, err := ledger.ParseAmount(p.Amount, "amount")
		if err != nil {
			return nil, fmt.Errorf("a transfer that is remembered: %w", err)
		}
		s.recent[i] = paid{micros(p.PostedAt), p.Payee, p.Currency, amount}
	}
	for i, p := range in.Payees {
		s.payees[i] = payee{p.Payee, micros(p.PaidAt)}
	}
	return s, nil
}
