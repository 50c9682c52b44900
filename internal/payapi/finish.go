package payapi

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// claimHook lets the end of a claim ride with the money: the transfer, the answer and the claim are one commit. It lets through who still
// has the claim, and nobody else: one who was overtaken, and wakes up with the gateway's answer in hand, finds its fence gone.
type claimHook struct{ window time.Duration }

// Begin implements journal.Hook.
func (h *claimHook) Begin(b *pgx.Batch, _ int32, passengers []journal.Passenger) func() []error {
	hashes := make([]int64, len(passengers))
	users, keys := make([]string, len(passengers)), make([]string, len(passengers))
	for i, p := range passengers {
		c := heldOf(p)
		hashes[i], users[i], keys[i] = lockHash(c.user, c.key), c.user, c.key
	}
	var locked []bool
	lockKeys(b, &locked, hashes)
	found := findKeys(b, h.window, 0, users, keys, nil)
	return func() []error {
		verdicts := make([]error, len(passengers))
		for i := range verdicts {
			verdicts[i] = errFenced
		}
		for _, row := range found.claims {
			i := int(row.N) - 1
			if row.Fence == heldOf(passengers[i]).fence && row.Step == stepCharge {
				verdicts[i] = nil
			}
		}
		for _, row := range found.answers {
			i := int(row.N) - 1
			verdicts[i] = heldOf(passengers[i]).compare(row)
		}
		for i, free := range locked {
			if !free {
				verdicts[i] = errKeyBusy
			}
		}
		return verdicts
	}
}

// End implements journal.Hook. A refusal that is not the gateway's own comes after a charge: it has to be given back.
func (h *claimHook) End(b *pgx.Batch, ledgerID int32, passengers []journal.Passenger) {
	storeAnswers(b, ledgerID, passengers, func(p journal.Passenger) *ticket { return heldOf(p).ticket })
	list, steps := make([]*held, len(passengers)), make([]string, len(passengers))
	for i, p := range passengers {
		list[i], steps[i] = heldOf(p), stepNone
		if owed(p.Transfer) {
			steps[i] = stepGiveBack
		}
	}
	queuePut(b, list, steps)
}

func heldOf(p journal.Passenger) *held { return p.Baggage.(*held) } //nolint:forcetypeassert // finish puts one in.

// owed reports whether a charge has to be given back.
func owed(t *ledger.Transfer) bool {
	return t.Refusal != nil && t.Refusal.Reason != ledger.CodeDeclinedByGateway
}

// finish records what the gateway has done, answers, and settles the claim, in one commit; and again until that is known. Who was
// overtaken gives the answer of who came first, if there is one yet.
func (d *desk) finish(ctx context.Context, h *held, spec ledger.TransferSpec, declined bool) (answer, error) {
	if declined {
		spec.Declined = spec.Entries[0].Account
	}
	var given answer
	err := d.insist(ctx, func(ctx context.Context) error {
		result, err := d.journal.PostWith(ctx, h.user, d.ledger, spec, d.hook, h)
		if err == nil {
			err = result.Err
		}
		var found *stored
		switch {
		case err == nil:
			given = rebuilt(result.Transfer)
			given.replayed = result.Replayed
		case errors.As(err, &found):
			given, err = again(err)
			given.stopped = "" // It has made the claim, and the sweeper was quicker: nobody has asked twice.
		}
		return err
	})
	if errors.Is(err, errFenced) {
		return answer{}, errOpen(time.Second, "somebody else brings this payment to its end")
	}
	if err != nil {
		d.log.Error("a charge is not recorded yet", "transfer", spec.ID, "gateway_key", h.gatewayKey, "declined", declined, "error", err)
		if !ledger.CodeOf(err).Open() { // Whatever the ledger says against it: the card was charged.
			err = errOpen(time.Second, "the payment is not recorded yet")
		}
		return answer{}, err
	}
	d.config.at("finished")
	return given, nil
}
