package payapi

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// PaymentID is the id that a payment of a user under a key has in the books, whether or not there is one.
func PaymentID(user, key string) ledger.TransferID { return newNumber(user, key).transferID() }

// KeyAnswer is the key under which a transfer was answered, and with which status.
type KeyAnswer struct {
	User, Key  string
	Transfer   ledger.TransferID
	Status     int
	AnsweredAt time.Time
}

// KeyClaim is a key that is not settled: a gateway was, or is to be, called under it; or it was released of late.
type KeyClaim struct {
	User, Key  string
	Transfer   ledger.TransferID
	Step       string
	GatewayKey string
	CreatedAt  time.Time
	LeaseUntil time.Time
	// Attempts is how often it was taken over, and Released how often the key was released before.
	Attempts, Released int
	// ReviewAt is since when people have to look; nil is not yet.
	ReviewAt *time.Time
	Detail   string
}

// KeyResolution is what people have decided about a claim.
type KeyResolution struct {
	User, Key  string
	Transfer   ledger.TransferID
	As         Resolution
	Reason     string
	ResolvedAt time.Time
}

// KeyStory is what the payment API knows of transfers.
type KeyStory struct {
	Answers     []KeyAnswer
	Claims      []KeyClaim
	Resolutions []KeyResolution
}

// maxKeys bounds each part of a story.
const maxKeys = 200

// KeysOf tells what the payment API knows of transfers of a ledger: of those that were decided, by their records; of one that was not, by its id alone.
// Answers are known as long as the window of keys lasts.
func KeysOf(ctx context.Context, pool *pgxpool.Pool, name ledger.Name, ids []ledger.TransferID, records []*ledger.Transfer) (*KeyStory, error) {
	sql := dbsqlc.New()
	s := &KeyStory{}
	ledgers, err := sql.PaymentLedger(ctx, pool, string(name.Or()))
	if err != nil || len(ledgers) == 0 {
		return s, err
	}
	keys := dbsqlc.PaymentKeysOfTransfersParams{LedgerID: ledgers[0]}
	for _, t := range records {
		keys.TransferIds, keys.UserIds = append(keys.TransferIds, string(t.ID)), append(keys.UserIds, t.Caller)
		keys.Days = append(keys.Days, pgtype.Date{Time: t.PostedAt.UTC(), Valid: true})
	}
	answers, err := sql.PaymentKeysOfTransfers(ctx, pool, keys)
	if err != nil {
		return nil, err
	}
	for _, a := range answers {
		s.Answers = append(s.Answers, KeyAnswer{a.UserID, a.IdemKey, ledger.TransferID(a.TransferID), int(a.Status), a.CreatedAt.UTC()})
	}
	texts := make([]string, len(ids))
	for i, id := range ids {
		texts[i] = string(id)
	}
	claims, err := sql.PaymentClaimsOfTransfers(ctx, pool, dbsqlc.PaymentClaimsOfTransfersParams{Ledger: string(name.Or()), TransferIds: texts, Most: maxKeys})
	if err != nil {
		return nil, err
	}
	users := keys.UserIds
	for _, c := range claims {
		users = append(users, c.UserID)
		s.Claims = append(s.Claims, KeyClaim{
			User: c.UserID, Key: c.IdemKey, Transfer: ledger.TransferID(c.TransferID), Step: c.Step, GatewayKey: c.GatewayKey, CreatedAt: c.CreatedAt.UTC(),
			LeaseUntil: c.LeaseUntil.UTC(), Attempts: int(c.Attempts), Released: int(c.Generation), ReviewAt: c.ReviewAt, Detail: c.Detail,
		})
	}
	if len(users) == 0 {
		return s, nil
	}
	resolutions, err := sql.PaymentResolutionsOfTransfers(ctx, pool, dbsqlc.PaymentResolutionsOfTransfersParams{UserIds: users, TransferIds: texts, Most: maxKeys})
	for _, r := range resolutions {
		s.Resolutions = append(s.Resolutions, KeyResolution{
			r.UserID, r.IdemKey, ledger.TransferID(r.TransferID), Resolution(r.ResolvedAs), r.Reason, r.ResolvedAt.UTC(),
		})
	}
	return s, err
}
