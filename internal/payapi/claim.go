package payapi

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// The steps of a claim; see the migration. No step is one that is settled, and gone.
const (
	stepCharge   = "charge"
	stepGiveBack = "give_back"
	stepReleased = "released"
	stepNone     = ""
)

var (
	// errKeyBusy is of a key that somebody else is at this moment.
	errKeyBusy = errors.New("the key is busy")
	// errFenced is of a claim that somebody else has taken over.
	errFenced = errors.New("the claim was taken over")
)

// desk is where claims are kept: made, taken over and settled.
type desk struct {
	journal *journal.Journal
	pool    *pgxpool.Pool
	sql     *dbsqlc.Queries
	ledger  ledger.Name
	window  time.Duration
	// patience is for how long what is known is tried to be written.
	patience time.Duration
	log      *slog.Logger
	hook     *claimHook
	config   CashInConfig
}

func newDesk(j *journal.Journal, pool *pgxpool.Pool, name ledger.Name, window time.Duration, log *slog.Logger, config CashInConfig) *desk {
	return &desk{j, pool, dbsqlc.New(), name.Or(), window, config.Lease / 4, log, &claimHook{window}, config}
}

// held is a claim that somebody has.
type held struct {
	*ticket
	fence      int64
	step       string
	gatewayKey string
	attempts   int32
}

func newTicket(user, key string, fingerprint []byte) *ticket {
	t := &ticket{user: user, key: key, fingerprint: fingerprint}
	_, _ = rand.Read(t.attempt.Bytes[:]) // It does not fail.
	t.attempt.Valid = true
	return t
}

func claimOf(user, key string) dbsqlc.PaymentClaimsFindParams {
	return dbsqlc.PaymentClaimsFindParams{UserIds: []string{user}, IdemKeys: []string{key}}
}

// compareClaim gives what a claim has to say to another request under its key: nothing, if it is settled but for giving back.
func (t *ticket) compareClaim(row dbsqlc.PaymentClaimsFindRow) error {
	switch {
	case row.Step != stepCharge:
		return nil
	case !bytes.Equal(row.Fingerprint, t.fingerprint):
		return errKeyReused()
	case row.InReview:
		return errInReview()
	}
	return errInProgress(waitFor(row))
}

// waitFor is how long a client should wait: until somebody looks at the claim again.
func waitFor(row dbsqlc.PaymentClaimsFindRow) time.Duration {
	return max(time.Duration(row.Seconds*float64(time.Second)), time.Second)
}

// gatewayPrefix begins the keys that a payment has at the gateway. They follow from the payment's number and so from user and key: a claim
// that is lost, with a database that was restored from an older copy, does not charge twice.
func gatewayPrefix(id ledger.TransferID) string {
	sum := sha256.Sum256([]byte("khata charge\x00" + string(id)))
	return "khata-" + strings.ToLower(base32Digits.EncodeToString(sum[:])[:26]) + "-"
}

// claim claims a key, in a commit of its own. It returns what the key has already: a stored answer, or the problem that it is in use. If
// the answer to the commit is lost it looks whether it happened, for as long as its patience lasts; after that the claim may be there, and
// the sweeper finds it.
func (d *desk) claim(ctx context.Context, t *ticket, spec ledger.TransferSpec, lease time.Duration) (*held, error) {
	command, err := json.Marshal(commandOf(spec))
	if err != nil { // It is made of strings.
		panic(err)
	}
	var made *held
	var verdict error
	unknown := false
	err = d.insist(ctx, func(ctx context.Context) error {
		made, verdict = nil, nil
		err := pg.InTrips(ctx, d.pool, func(trip pg.Trip) (*pgx.Batch, error) {
			b := &pgx.Batch{}
			var locked []bool
			lockKeys(b, &locked, []int64{lockHash(t.user, t.key)})
			found := findKeys(b, d.window, 0, []string{t.user}, []string{t.key}, nil)
			if err := trip(b); err != nil {
				return nil, err
			}
			if len(found.claims) > 0 && found.claims[0].Attempt == t.attempt && found.claims[0].Step == stepCharge {
				made = &held{ticket: t, fence: found.claims[0].Fence, step: stepCharge, gatewayKey: found.claims[0].GatewayKey}
				return nil, errDone
			}
			switch {
			case !locked[0] && unknown: // By the commit whose answer was lost, it may be.
				return nil, errKeyBusy
			case !locked[0]:
				verdict = errInProgress(time.Second)
			case len(found.answers) > 0:
				verdict = t.compare(found.answers[0])
			case len(found.claims) > 0:
				verdict = t.compareClaim(found.claims[0])
			}
			if verdict != nil {
				return nil, errDone
			}
			last := &pgx.Batch{}
			last.Queue(dbsqlc.PaymentClaimsMake, t.user, t.key, t.fingerprint, string(d.ledger), string(spec.ID), string(command), gatewayPrefix(spec.ID),
				lease.Seconds(), t.attempt).Query(func(rows pgx.Rows) error {
				for rows.Next() {
					made = &held{ticket: t, step: stepCharge}
					if err := rows.Scan(&made.fence, &made.gatewayKey); err != nil {
						return err
					}
				}
				return rows.Err()
			})
			return last, nil
		})
		unknown = unknown || errors.Is(err, pg.ErrUnknown)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case verdict != nil:
		return nil, verdict
	case made == nil: // A step that is being given back has an answer, or its transfer is in the ledger.
		return nil, errInProgress(time.Second)
	}
	return made, nil
}

// errDone ends a transaction that has nothing to write.
var errDone = errors.New("nothing to write")

const firstPause, longestPause = 10 * time.Millisecond, 250 * time.Millisecond

// insist tries something until it is known to have happened or never will, or patience ends. What is tried can be done twice.
func (d *desk) insist(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := try(ctx)
		if err == nil || errors.Is(err, errDone) {
			return nil
		}
		var typed *ledger.Error
		switch again := errors.Is(err, errKeyBusy); {
		case errors.As(err, &typed):
			if again = typed.Code.Retryable(); !again {
				return err
			}
		case !again:
			if class := pg.Classify(err); class == pg.Fault {
				return err
			}
		}
		select {
		case <-ctx.Done():
			d.log.Warn("out of patience with a claim", "error", err)
			return errOpen(time.Second, "the database does not answer in time")
		case <-time.After(pause):
		}
	}
}

// locked does something to a claim while nobody else is at its key.
func (d *desk) locked(ctx context.Context, user, key string, then func(trip pg.Trip) (*pgx.Batch, error)) error {
	return pg.InTrips(ctx, d.pool, func(trip pg.Trip) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		var locked []bool
		lockKeys(b, &locked, []int64{lockHash(user, key)})
		if err := trip(b); err != nil {
			return nil, err
		}
		if !locked[0] {
			return nil, errKeyBusy
		}
		return then(trip)
	})
}

// put brings a claim to another step, or to its end, if it has not been taken over.
func (d *desk) put(ctx context.Context, h *held, step string) error {
	return d.insist(ctx, func(ctx context.Context) error {
		return d.locked(ctx, h.user, h.key, func(pg.Trip) (*pgx.Batch, error) {
			last := &pgx.Batch{}
			queuePut(last, []*held{h}, []string{step})
			return last, nil
		})
	})
}

func queuePut(b *pgx.Batch, list []*held, steps []string) {
	users, keys, fences := make([]string, len(list)), make([]string, len(list)), make([]int64, len(list))
	for i, h := range list {
		users[i], keys[i], fences[i] = h.user, h.key, h.fence
	}
	b.Queue(dbsqlc.PaymentClaimsPut, users, keys, fences, steps)
}

// release gives a key free, of which nothing was charged and nothing will be. Where that fails, the sweeper finds the claim as it was.
func (d *desk) release(ctx context.Context, h *held) {
	if err := d.put(ctx, h, stepReleased); err != nil {
		d.log.Warn("release a key", "transfer", newNumber(h.user, h.key), "error", err)
	}
}

// postpone leaves a claim alone for a while, or to people. If that fails its lease ends all the same.
func (d *desk) postpone(ctx context.Context, h *held, pause time.Duration, detail string, review bool) {
	const most = 500
	if len(detail) > most {
		detail = strings.ToValidUTF8(detail[:most], "")
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.patience)
	defer cancel()
	if err := d.sql.PaymentClaimsPostpone(ctx, d.pool, dbsqlc.PaymentClaimsPostponeParams{
		PauseSeconds: pause.Seconds(), Detail: strings.ReplaceAll(strings.ToValidUTF8(detail, ""), "\x00", ""), Review: review,
		UserID: h.user, IdemKey: h.key, Fence: h.fence,
	}); err != nil {
		d.log.Warn("postpone a claim", "transfer", newNumber(h.user, h.key), "error", err)
	}
}

// taken is a claim that was taken over.
type taken struct {
	held
	spec ledger.TransferSpec
}

// charge is what the gateway is asked about.
func (t *taken) charge() Charge {
	c := commandOf(t.spec)
	return Charge{Key: t.gatewayKey, Amount: c.Amount, Currency: c.Currency}
}

// take takes a claim over if it is still as it was seen, and gives nil if not.
func (d *desk) take(ctx context.Context, user, key string, fence int64, inReview bool, with func(*pgx.Batch, taken)) (*taken, error) {
	var row []dbsqlc.PaymentClaimsTakeRow
	var t *taken
	err := d.locked(ctx, user, key, func(trip pg.Trip) (*pgx.Batch, error) {
		b := &pgx.Batch{}
		pg.Ask(b, &row, dbsqlc.PaymentClaimsTake, d.config.Lease.Seconds(), user, key, fence, inReview)
		if err := trip(b); err != nil {
			return nil, err
		}
		if len(row) == 0 {
			return nil, errDone
		}
		spec, err := readCommand(ledger.TransferID(row[0].TransferID), row[0].Command)
		if err != nil {
			return nil, fmt.Errorf("the command of claim %s cannot be read: %w", row[0].TransferID, err)
		}
		t = &taken{held{newTicket(user, key, row[0].Fingerprint), row[0].Fence, row[0].Step, row[0].GatewayKey, row[0].Attempts}, spec}
		last := &pgx.Batch{}
		if with != nil {
			with(last, *t)
		}
		return last, nil
	})
	if errors.Is(err, errDone) || errors.Is(err, errKeyBusy) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}
