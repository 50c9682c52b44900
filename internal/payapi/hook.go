package payapi

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
)

// ticket is what the key of one request takes with it into the transaction that pays.
type ticket struct {
	user, key   string
	fingerprint []byte
	attempt     pgtype.UUID
}

// stored is the answer that a key has; it is how the hook takes a request out of a batch.
type stored struct {
	answer answer
	// mine is whether this very request wrote it: the answer to its commit was lost.
	mine bool
}

func (*stored) Error() string { return "answered before" }

// hook lets key rows ride in the journal's transactions. It looks each key up under a lock that nobody waits for, and inserts the
// answers to the payments that were decided.
type hook struct{ window time.Duration }

// Begin implements journal.Hook.
func (h *hook) Begin(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger) func() []error {
	hashes := make([]int64, len(passengers))
	users, keys, ids := make([]string, len(passengers)), make([]string, len(passengers)), make([]string, len(passengers))
	for i, p := range passengers {
		t := ticketOf(p)
		hashes[i], users[i], keys[i], ids[i] = lockHash(t.user, t.key), t.user, t.key, string(p.Spec.ID)
	}
	var locked []bool
	lockKeys(b, &locked, hashes)
	// A statement of its own: it must see what whoever had the lock before has committed.
	found := findKeys(b, h.window, ledgerID, users, keys, ids)
	return func() []error {
		verdicts := make([]error, len(passengers))
		for i, free := range locked {
			if !free {
				verdicts[i] = errInProgress(time.Second)
			}
		}
		for _, row := range found.claims {
			if i := int(row.N) - 1; verdicts[i] == nil {
				verdicts[i] = ticketOf(passengers[i]).compareClaim(row)
			}
		}
		for _, row := range found.answers {
			i := int(row.N) - 1
			verdicts[i] = ticketOf(passengers[i]).compare(row)
		}
		return verdicts
	}
}

func lockKeys(b *pgx.Batch, locked *[]bool, hashes []int64) {
	b.Queue(dbsqlc.PaymentKeysLock, hashes).Query(func(rows pgx.Rows) (err error) {
		*locked, err = pgx.CollectRows(rows, pgx.RowTo[bool])
		return err
	})
}

// found is what there is of some keys.
type found struct {
	answers []dbsqlc.PaymentKeysFindRow
	claims  []dbsqlc.PaymentClaimsFindRow
}

// findKeys queues the look-up of keys. The claims come first: who settles one writes the answer in the same commit, and between two
// statements that looked at the answers first, a payment would be in neither.
//
// Where the ids of their transfers are known, and the ledger is not 0, the answers of those that are not there are not looked for.
func findKeys(b *pgx.Batch, window time.Duration, ledgerID int32, users, keys, ids []string) *found {
	var f found
	pg.Ask(b, &f.claims, dbsqlc.PaymentClaimsFind, users, keys)
	pg.Ask(b, &f.answers, dbsqlc.PaymentKeysFind, ledgerID, users, keys, ids, window.Seconds())
	return &f
}

// compare gives the answer that a key row has for a request.
func (t *ticket) compare(row dbsqlc.PaymentKeysFindRow) error {
	if !bytes.Equal(row.Fingerprint, t.fingerprint) {
		return errKeyReused()
	}
	return &stored{
		answer: answer{status: int(row.Status), body: row.Body, number: numberOf(row.TransferID)},
		mine:   row.Attempt == t.attempt,
	}
}

// End implements journal.Hook.
func (h *hook) End(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger) {
	storeAnswers(b, ledgerID, passengers, ticketOf)
}

// storeAnswers queues the key rows of what was decided. Of equal requests in a batch one is new. What was decided before its key row
// went has none any more.
func storeAnswers(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger, ticketOf func(journal.Passenger) *ticket) {
	args := dbsqlc.PaymentKeysInsertParams{LedgerID: ledgerID}
	for _, p := range passengers {
		if !p.New {
			continue
		}
		t := ticketOf(p)
		status, before, after := template(p.Transfer)
		args.UserIds = append(args.UserIds, t.user)
		args.IdemKeys = append(args.IdemKeys, t.key)
		args.Fingerprints = append(args.Fingerprints, t.fingerprint)
		args.TransferIds = append(args.TransferIds, string(p.Spec.ID))
		args.Statuses = append(args.Statuses, int16(status)) //nolint:gosec // three digits
		args.Befores = append(args.Befores, before)
		args.Afters = append(args.Afters, after)
		args.Attempts = append(args.Attempts, t.attempt)
	}
	if len(args.UserIds) > 0 {
		b.Queue(dbsqlc.PaymentKeysInsert, args.LedgerID, args.UserIds, args.IdemKeys, args.Fingerprints, args.TransferIds, args.Statuses,
			args.Befores, args.Afters, args.Attempts)
	}
}

func ticketOf(p journal.Passenger) *ticket { return p.Baggage.(*ticket) } //nolint:forcetypeassert // PostWith is called with one.

func numberOf(transferID string) number {
	return number(strings.TrimPrefix(transferID, "khata:"))
}

// answer is what is sent for a payment.
type answer struct {
	status   int
	body     []byte
	number   number
	replayed bool
	// stopped is which guard has stopped the duplicate that the request is; empty if it is none.
	stopped journal.Guard
}

func (a answer) write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if a.status >= http.StatusBadRequest {
		h.Set("Content-Type", "application/problem+json")
	}
	h.Set("Location", "/v1/transfers/"+string(a.number))
	h.Set("Cache-Control", "no-store")
	if a.replayed {
		h.Set("Idempotent-Replayed", "true")
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body) // The client may have gone; it will ask again.
}
