package fraud

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Schema is where flagged transfers are, for people to settle.
var Schema = pg.ConsumerSchema("fraud", "khata consume verdicts migrate")

// Consumer is under which name verdicts are consumed.
const Consumer = "fraud-verdicts"

// Grants is the SQL that lets a role store flagged transfers, list and settle them.
func Grants(role string) string {
	return strings.ReplaceAll(`GRANT USAGE ON SCHEMA khata_fraud TO {role};
GRANT SELECT, INSERT ON khata_fraud.flagged TO {role};
GRANT UPDATE (state, note, settled_by, settled_at) ON khata_fraud.flagged TO {role};
GRANT SELECT ON khata_fraud.version TO {role};
`, "{role}", pg.Quote(role))
}

// Consume fills in what makes an inbox the consumer of verdicts: those that flag become rows, once each. The database must have Schema.
func Consume(config inbox.Config, topics kafka.Topics) inbox.Config {
	config.Consumer, config.Topics, config.Handle = Consumer, []string{topics.Verdicts()}, handle
	return config
}

// handle stores a verdict.
func handle(ctx context.Context, tx pgx.Tx, e inbox.Event) error {
	switch e.Type {
	case typeApproved:
		return nil
	case typeFlagged, typeUnreadable:
	default:
		return inbox.Poison(fmt.Errorf("it is of type %s, which this consumer does not know: a later one may", e.Type))
	}
	var v khatav1.FraudVerdict
	if err := proto.Unmarshal(e.Data, &v); err != nil {
		return inbox.Poison(fmt.Errorf("its data is no FraudVerdict: %w", err))
	}
	row, err := rowOf(e, &v)
	if err != nil {
		return inbox.Poison(err)
	}
	if _, err := dbsqlc.New().FraudFlag(ctx, tx, row); err != nil {
		return fmt.Errorf("store a flagged transfer: %w", err)
	}
	return nil
}

func rowOf(e inbox.Event, v *khatav1.FraudVerdict) (row dbsqlc.FraudFlagParams, err error) {
	row = dbsqlc.FraudFlagParams{
		Verdict: e.ID, Unreadable: e.Type == typeUnreadable, Ledger: v.Ledger, TransferID: v.TransferId, Sequence: v.Sequence,
		Kind: string(wire.TransferKinds[v.Kind]), Payer: v.Payer, Payee: v.Payee, Currency: v.Currency, Rules: v.Rules, JudgedEvent: v.JudgedEvent,
	}
	reasons := []Reason{}
	for _, r := range v.Reasons {
		reasons = append(reasons, Reason{r.Rule, Kind(r.Kind), r.Text})
	}
	text, err := json.Marshal(reasons)
	if err != nil {
		return row, err
	}
	row.Reasons = string(text)
	if row.Unreadable {
		return row, nil
	}
	_, err = ledger.ParseAmount(v.Amount, "amount")
	switch {
	case err != nil:
		return row, fmt.Errorf("its data is no verdict: %w", err)
	case v.Ledger == "" || v.TransferId == "" || v.PostedAt == nil:
		return row, errors.New("its data is no verdict: it does not say about which transfer it is")
	}
	at := v.PostedAt.AsTime()
	row.Amount, row.PostedAt = v.Amount, &at
	return row, nil
}

// State of a flagged transfer.
const (
	// Open is one that nobody has settled.
	Open = "open"
	// Cleared is one that was in order, and Confirmed one that was not.
	Cleared   = "cleared"
	Confirmed = "confirmed"
)

// Flagged is a flagged transfer, or an event that could not be read.
type Flagged struct {
	// Number is its place in the order in which they came.
	Number     int64             `json:"number"`
	Verdict    string            `json:"verdict"`
	Unreadable bool              `json:"unreadable,omitempty"`
	Ledger     ledger.Name       `json:"ledger"`
	Transfer   ledger.TransferID `json:"transfer_id,omitempty"`
	Sequence   int64             `json:"sequence"`
	Kind       ledger.Kind       `json:"kind,omitempty"`
	Payer      string            `json:"payer,omitempty"`
	Payee      string            `json:"payee,omitempty"`
	// Amount, a decimal, is empty and PostedAt is nil of what could not be read.
	Amount      string     `json:"amount,omitempty"`
	Currency    string     `json:"currency,omitempty"`
	PostedAt    *time.Time `json:"posted_at,omitempty"`
	Reasons     []Reason   `json:"reasons"`
	Rules       string     `json:"rules"`
	JudgedEvent string     `json:"judged_event"`
	RecordedAt  time.Time  `json:"recorded_at"`
	State       string     `json:"state"`
	Note        string     `json:"note,omitempty"`
	SettledBy   string     `json:"settled_by,omitempty"`
	SettledAt   *time.Time `json:"settled_at,omitempty"`
}

// Filter says which flagged transfers are meant: those that came after a number, at most so many, open ones only unless Settled.
type Filter struct {
	After   int64
	Limit   int
	Settled bool
}

// List lists flagged transfers in the order in which they came.
func List(ctx context.Context, pool *pgxpool.Pool, f Filter) ([]Flagged, error) {
	rows, err := dbsqlc.New().FraudFlagged(ctx, pool, dbsqlc.FraudFlaggedParams{Settled: f.Settled, After: f.After, AtMost: int32(f.Limit)})
	if err != nil {
		return nil, fmt.Errorf("list flagged transfers: %w", err)
	}
	return flaggedList(rows)
}

// FlaggedOf lists what is flagged of some transfers of a ledger, settled or not.
func FlaggedOf(ctx context.Context, pool *pgxpool.Pool, name ledger.Name, ids []ledger.TransferID) ([]Flagged, error) {
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	found, err := dbsqlc.New().FraudFlaggedOf(ctx, pool, dbsqlc.FraudFlaggedOfParams{Ledger: string(name.Or()), TransferIds: texts})
	if err != nil {
		return nil, fmt.Errorf("look for flagged transfers: %w", err)
	}
	rows := make([]dbsqlc.FraudFlaggedRow, len(found))
	for i, r := range found {
		rows[i] = dbsqlc.FraudFlaggedRow(r)
	}
	return flaggedList(rows)
}

func flaggedList(rows []dbsqlc.FraudFlaggedRow) ([]Flagged, error) {
	var list []Flagged
	for _, r := range rows {
		out := Flagged{
			Number: r.Number, Verdict: r.Verdict, Unreadable: r.Unreadable, Ledger: ledger.Name(r.Ledger), Transfer: ledger.TransferID(r.TransferID),
			Sequence: r.Sequence, Kind: ledger.Kind(r.Kind), Payer: r.Payer, Payee: r.Payee, Amount: r.Amount, Currency: r.Currency, PostedAt: r.PostedAt,
			Rules: r.Rules, JudgedEvent: r.JudgedEvent, RecordedAt: r.RecordedAt, State: r.State, SettledAt: r.SettledAt, Note: r.Note, SettledBy: r.SettledBy,
		}
		if err := json.Unmarshal([]byte(r.Reasons), &out.Reasons); err != nil {
			return nil, fmt.Errorf("the reasons of verdict %s: %w", r.Verdict, err)
		}
		list = append(list, out)
	}
	return list, nil
}

// Settlement is what somebody has made of flagged transfers.
type Settlement struct {
	// Verdicts are their ids.
	Verdicts []string
	// As is Cleared or Confirmed. Note says why, and By who says so; both are kept.
	As, Note, By string
}

// Settle settles flagged transfers, all or none. Those that are settled the same way stay as they are; it is an error if one is settled the other way,
// or there is none of that id. It moves no money: to refund a transfer is another decision.
func Settle(ctx context.Context, pool *pgxpool.Pool, s Settlement) error {
	switch {
	case s.As != Cleared && s.As != Confirmed:
		return fmt.Errorf("a flagged transfer is settled as %s or %s, not as %q", Cleared, Confirmed, s.As)
	case len(s.Verdicts) == 0:
		return errors.New("name the verdicts that are to be settled")
	case strings.TrimSpace(s.Note) == "" || strings.TrimSpace(s.By) == "":
		return errors.New("say why, and who says so: both are kept")
	}
	return pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
		q := dbsqlc.New()
		if _, err := q.FraudSettle(ctx, tx, dbsqlc.FraudSettleParams{State: s.As, Note: s.Note, SettledBy: s.By, Verdicts: s.Verdicts}); err != nil {
			return fmt.Errorf("settle flagged transfers: %w", err)
		}
		states, err := q.FraudStates(ctx, tx, s.Verdicts)
		if err != nil {
			return fmt.Errorf("settle flagged transfers: %w", err)
		}
		for _, id := range s.Verdicts {
			at := slices.IndexFunc(states, func(r dbsqlc.FraudStatesRow) bool { return r.Verdict == id })
			switch {
			case at < 0:
				return fmt.Errorf("there is no verdict %s here: khata fraud flagged --all lists them", id)
			case states[at].State != s.As:
				return fmt.Errorf("verdict %s was settled before, as %s: nothing was changed", id, states[at].State)
			}
		}
		return nil
	})
}
