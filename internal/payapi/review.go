package payapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Review is a payment of which nobody could find out what the gateway did, or whose charge the gateway does not give back.
type Review struct {
	// Number is the public number of the payment, and GatewayKey what the gateway knows it by: to ask them about.
	Number     string `json:"transfer_id"`
	GatewayKey string `json:"gateway_key"`
	User       string `json:"user"`
	Ledger     string `json:"ledger"`
	// Step is "charge" or "give_back".
	Step      string    `json:"step"`
	To        string    `json:"to"`
	Amount    string    `json:"amount"`
	Currency  string    `json:"currency"`
	CreatedAt time.Time `json:"created_at"`
	Since     time.Time `json:"in_review_since"`
	Attempts  int       `json:"attempts"`
	// Detail is what went wrong last.
	Detail string `json:"detail"`
}

// Resolution is what people have found out.
type Resolution string

// The resolutions. The first three are of a charge, the last of giving back.
const (
	AsCharged  Resolution = "charged"
	AsDeclined Resolution = "declined"
	// AsReleased: nothing was charged, and nothing will be. Who says so has cancelled the charge at the gateway.
	AsReleased  Resolution = "released"
	AsGivenBack Resolution = "given-back"
)

const (
	// maxReviews is the most payments of a list.
	maxReviews = 1000
	// maxReason is the most bytes of a reason.
	maxReason = 1000
)

// Reviews lists the payments that people have to look at, the longest waiting first.
func Reviews(ctx context.Context, pool *pgxpool.Pool) ([]Review, error) {
	rows, err := dbsqlc.New().PaymentClaimsInReview(ctx, pool, maxReviews)
	list := make([]Review, len(rows))
	for i, row := range rows {
		var c claimCommand
		_ = json.Unmarshal([]byte(row.Command), &c) // What cannot be read is a reason to look, too.
		list[i] = Review{
			Number: string(numberOf(row.TransferID)), GatewayKey: row.GatewayKey, User: row.UserID, Ledger: row.Ledger, Step: row.Step,
			To: c.To, Amount: c.Amount, Currency: c.Currency, CreatedAt: row.CreatedAt.UTC(), Since: row.ReviewAt.UTC(),
			Attempts: int(row.Attempts), Detail: row.Detail,
		}
	}
	return list, err
}

// Resolve settles a payment in review as the sweeper would have, had it known. The reason is kept with it. It returns CodeTransferNotFound
// if the payment is not in review, CodeInvalidArgument if the resolution is not one of its step, and CodeConflict if somebody else is at it.
func Resolve(ctx context.Context, j *journal.Journal, pool *pgxpool.Pool, log *slog.Logger, paymentNumber string, as Resolution, reason string) error {
	rows, err := dbsqlc.New().PaymentClaimsInReview(ctx, pool, maxReviews)
	if err != nil {
		return err
	}
	n := slices.IndexFunc(rows, func(row dbsqlc.PaymentClaimsInReviewRow) bool {
		return string(numberOf(row.TransferID)) == paymentNumber
	})
	if n < 0 {
		return ledger.Errorf(ledger.CodeTransferNotFound, "payment %.40q is not in review", paymentNumber)
	}
	row := rows[n]
	if err := resolvable(row.Step, as, reason); err != nil {
		return err
	}
	var config CashInConfig
	if err := config.complete(); err != nil {
		return err
	}
	d := newDesk(j, pool, ledger.Name(row.Ledger), DefaultWindow, log, config)
	t, err := d.take(ctx, row.UserID, row.IdemKey, row.Fence, true, func(b *pgx.Batch, t taken) {
		b.Queue(dbsqlc.PaymentResolutionInsert, t.user, t.key, t.fence, row.TransferID, t.gatewayKey, string(as), reason)
	})
	if err != nil {
		return err
	}
	if t == nil {
		return ledger.Errorf(ledger.CodeConflict, "somebody else is at payment %s: look again in a minute", paymentNumber)
	}
	switch as {
	case AsReleased:
		err = d.put(ctx, &t.held, stepReleased)
	case AsGivenBack:
		err = d.put(ctx, &t.held, stepNone)
	default:
		_, err = d.finish(ctx, &t.held, t.spec, as == AsDeclined)
	}
	if err != nil { // It can be tried again at once.
		d.postpone(ctx, &t.held, 0, "resolve: "+err.Error(), true)
	}
	return err
}

func resolvable(step string, as Resolution, reason string) error {
	allowed := map[string][]Resolution{stepCharge: {AsCharged, AsDeclined, AsReleased}, stepGiveBack: {AsGivenBack}}[step]
	if !slices.Contains(allowed, as) {
		return ledger.Invalid("as", "is %.40q, and must be one of %v for a payment in step %s", string(as), allowed, step)
	}
	if strings.TrimSpace(reason) == "" || len(reason) > maxReason || strings.ToValidUTF8(reason, "") != reason || strings.Contains(reason, "\x00") {
		return ledger.Invalid("reason", "is required, in at most %d bytes: it is kept", maxReason)
	}
	return nil
}
