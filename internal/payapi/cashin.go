package payapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

const (
	cashInRoute = "/v1/cash-ins"
	// cashInKind is what a payment from a card is called in answers.
	cashInKind = "cash_in"
	// DefaultClearing begins the ids of the accounts that stand for what gateways owe; the currency follows.
	DefaultClearing = "gateway:clearing:"
)

// CashInConfig is how money comes in from cards.
type CashInConfig struct {
	// Gateway takes it. Without one there are no cash-ins.
	Gateway Gateway
	// Clearing begins the ids of the clearing accounts, which are assets; "" is DefaultClearing. To change it makes the keys of earlier
	// cash-ins, once their stored answers have gone, keys of other payments.
	Clearing string
	// Timeout bounds each call of the gateway; 0 is 20 s. Lease is for how long a claim is left alone; 0 is 60 s. It must be more than
	// twice the timeout.
	Timeout, Lease time.Duration
	// SweepEvery is how often claims are looked for whose lease has ended; 0 is every second. Attempts is how often it is tried to find
	// out what became of one before people have to look; 0 is 35, which with the pauses between them takes about an hour.
	SweepEvery time.Duration
	Attempts   int32
	// Failpoint, where it is not nil, is called at the steps "claimed", "charged" and "finished" of a request, and at "taken" of a
	// sweeper. For tests.
	Failpoint func(step string)
}

func (c *CashInConfig) complete() error {
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&c.Timeout, 20 * time.Second}, {&c.Lease, time.Minute}, {&c.SweepEvery, time.Second}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	if c.Attempts == 0 {
		c.Attempts = 35
	}
	if c.Clearing == "" {
		c.Clearing = DefaultClearing
	}
	if c.Gateway != nil && c.Lease <= 2*c.Timeout {
		return ledger.Errorf(ledger.CodeInvalidArgument, "the lease of cash-ins is %s, and must be more than twice the gateway's timeout of %s", c.Lease, c.Timeout)
	}
	return nil
}

func (c *CashInConfig) at(step string) {
	if c.Failpoint != nil {
		c.Failpoint(step)
	}
}

func isWallet(id ledger.AccountID) bool { return strings.HasPrefix(string(id), walletPrefix) }

// notFromACard refuses to refund what came from a card: the money would leave the wallet, and reach no card.
func notFromACard(t *ledger.Transfer) error {
	for _, e := range t.Entries {
		if !isWallet(e.Account) {
			return ledger.Errorf(ledger.CodeWrongOrigin, "the payment did not come from a wallet")
		}
	}
	return nil
}

// cashInCommand asks for money from a card into a wallet.
type cashInCommand struct {
	To       string `json:"to"`
	Card     string `json:"card"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`

	clearing string
}

// wellFormedCard is the token of a card. Whatever looks like the number of one is refused: it must not come here.
var (
	wellFormedCard = regexp.MustCompile(`^[A-Za-z0-9._:-]{4,128}$`)
	cardNumber     = regexp.MustCompile(`^[0-9]{12,19}$`)
)

func (c *cashInCommand) spec(n number) (ledger.TransferSpec, error) {
	if err := checkWallet("to", c.To); err != nil {
		return ledger.TransferSpec{}, err
	}
	switch {
	case !wellFormedCard.MatchString(c.Card):
		return ledger.TransferSpec{}, invalid("card", "is required: the token that the gateway has given for the card")
	case cardNumber.MatchString(c.Card):
		return ledger.TransferSpec{}, invalid("card", "is the number of a card, and must be its token")
	case c.Currency == "":
		return ledger.TransferSpec{}, invalid("currency", "is required, such as BDT")
	}
	amount, err := parseAmount(&c.Amount, "amount")
	if err != nil {
		return ledger.TransferSpec{}, err
	}
	stored := claimCommand{c.To, c.clearing + c.Currency, c.Amount, c.Currency, c.Note}
	spec := stored.transfer(n.transferID(), amount)
	return spec, spec.ValidateDerived()
}

// claimCommand is what a claim keeps of a command.
type claimCommand struct {
	To       string `json:"to"`
	Clearing string `json:"clearing"`
	Amount   string `json:"amount"`
	Currency string `json:"currency"`
	Note     string `json:"note,omitempty"`
}

// transfer is what the ledger is asked for: the gateway owes what the wallet gets.
func (c claimCommand) transfer(id ledger.TransferID, amount decimal.Decimal) ledger.TransferSpec {
	return ledger.TransferSpec{
		ID: id, Description: c.Note,
		Entries: ledger.Simple(ledger.AccountID(c.Clearing), ledger.AccountID(c.To), amount, ledger.CurrencyCode(c.Currency)),
	}
}

// commandOf is the other way round.
func commandOf(spec ledger.TransferSpec) claimCommand {
	clearing, to, amount, _ := spec.Pair()
	return claimCommand{string(to), string(clearing), amount.String(), string(spec.Entries[0].Currency.Code), spec.Description}
}

func readCommand(id ledger.TransferID, text string) (ledger.TransferSpec, error) {
	var c claimCommand
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return ledger.TransferSpec{}, err
	}
	amount, err := ledger.ParseAmount(c.Amount, "amount")
	return c.transfer(id, amount), err
}

func (a *API) postCashIn(w http.ResponseWriter, r *http.Request, who Principal) error {
	c := cashInCommand{clearing: a.config.CashIn.Clearing}
	may := func(context.Context) error {
		if !who.Owns(ledger.AccountID(c.To)) {
			return denied()
		}
		return nil
	}
	return a.under(w, r, who, cashInRoute, &c, may, func(ctx context.Context, t *ticket, spec ledger.TransferSpec) (answer, error) {
		if err := a.lookUp(ctx, t); err != nil {
			return again(err)
		}
		return a.cash.cashIn(ctx, t, spec, c.Card)
	})
}

// running returns the problem that a key is claimed, if it is.
func (a *API) running(ctx context.Context, who Principal, key string) error {
	row, err := a.sql.PaymentClaimsFind(ctx, a.config.Pool, claimOf(who.Name, key))
	if err != nil || len(row) == 0 || row[0].Step != stepCharge {
		return nil //nolint:nilerr // Then the caller is told what it was told before.
	}
	return errInProgress(waitFor(row[0]))
}

// cashier brings cash-ins to their end: those of requests, and those that were left behind.
type cashier struct {
	*desk
}

// cashIn answers a request whose key has neither an answer nor a claim. The transfer's id is looked up before anybody is called: what was
// decided before its key row went is never charged again.
func (c *cashier) cashIn(ctx context.Context, t *ticket, spec ledger.TransferSpec, card string) (answer, error) {
	record, err := c.recorded(ctx, spec)
	if err != nil {
		return answer{}, err
	}
	if record != nil {
		if record.Caller != t.user || len(record.Differences(spec)) > 0 {
			return answer{}, ledger.Errorf(ledger.CodeAlreadyExists, "transfer %s has other content", spec.ID)
		}
		given := rebuilt(record)
		given.replayed, given.stopped = true, journal.LedgerGuard
		return given, nil
	}
	held, err := c.claim(ctx, t, spec, c.config.Lease)
	if err != nil {
		return again(err)
	}
	c.config.at("claimed")
	// Under the claim, so that what is answered is the answer to every try of this key that is under way.
	if err := c.canTake(ctx, spec); err != nil {
		c.release(ctx, held)
		return answer{}, err
	}
	amount := commandOf(spec)
	calling, cancel := context.WithTimeout(ctx, c.config.Timeout)
	state, err := c.config.Gateway.Charge(calling, Charge{Key: held.gatewayKey, Card: card, Amount: amount.Amount, Currency: amount.Currency})
	cancel()
	c.config.at("charged")
	switch {
	case err == nil && (state == Charged || state == Declined):
		return c.finish(ctx, held, spec, state == Declined)
	case err == nil && state == Cancelled:
		// Somebody was quicker to give it up. Nothing was charged, and never will be under that key of the gateway's.
		c.release(ctx, held)
		return answer{}, errOpen(time.Second, "the charge was cancelled")
	case err == nil:
		err = errors.New("the gateway answered " + string(state))
	}
	c.log.Warn("what a gateway did is not known", "transfer", spec.ID, "gateway_key", held.gatewayKey, "error", err)
	// This request is done with the claim, and the sweeper need not wait for the end of its lease.
	c.postpone(ctx, held, c.config.SweepEvery, err.Error(), false)
	return answer{}, errOpen(max(2*c.config.SweepEvery, time.Second), "what the gateway did is not known yet")
}

// recorded finds the transfer of a claim or request, if it has been decided.
func (d *desk) recorded(ctx context.Context, spec ledger.TransferSpec) (*ledger.Transfer, error) {
	record, _, err := d.journal.Transfer(ctx, d.ledger, spec.ID)
	if ledger.CodeOf(err) == ledger.CodeTransferNotFound {
		return nil, nil
	}
	return record, err
}

// canTake looks, before anything is charged, for what would keep the ledger from taking the money. Nothing of it is recorded: the key is
// free again. What changes between here and the posting costs the gateway a way back.
func (c *cashier) canTake(ctx context.Context, spec ledger.TransferSpec) error {
	for _, e := range spec.Entries {
		account, err := c.journal.Account(ctx, c.ledger, e.Account)
		switch {
		case ledger.CodeOf(err) == ledger.CodeAccountNotFound && !isWallet(e.Account):
			c.log.Error("there is no clearing account", "account", e.Account)
			return ledger.Errorf(ledger.CodeCurrencyNotFound, "no gateway takes %s", e.Currency.Code)
		case err != nil:
			return err
		case account.Closed:
			return ledger.Errorf(ledger.CodeAccountClosed, "nothing was charged")
		case account.Frozen.Blocks(e.Direction):
			return ledger.Errorf(ledger.CodeAccountFrozen, "nothing was charged")
		case account.Currency.Code != e.Currency.Code:
			return ledger.Errorf(ledger.CodeCurrencyMismatch, "the wallet is in %s", account.Currency.Code)
		case !e.Amount.Equal(e.Amount.Truncate(account.Currency.Scale)):
			return ledger.Errorf(ledger.CodeAmountScale, "%s has %d decimals", account.Currency.Code, account.Currency.Scale)
		}
	}
	return nil
}
