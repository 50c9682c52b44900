package payapi

import (
	"context"
	"errors"
)

// Gateway takes money from cards. Whatever it answers with an error is unknown: the charge may have been made, or still be made.
//
// What Khata counts on: one key, one charge, for at least as long as the window of the payment API; and after Cancel has answered
// Cancelled nothing is ever charged under that key, also by a request that was sent before and arrives later. A gateway that cannot
// promise the second must not be used with this package.
//
// Charged is said of the amount that was asked about. What was charged another amount is ErrOtherAmount.
type Gateway interface {
	// Charge takes an amount from a card. The same key again gets what became of it the first time.
	Charge(ctx context.Context, c Charge) (ChargeState, error)
	// Status says what has become of a charge. One that is being made is an error.
	Status(ctx context.Context, c Charge) (ChargeState, error)
	// Cancel makes sure that a charge that has not been made never will be. It answers Cancelled, or what it came too late for.
	Cancel(ctx context.Context, c Charge) (ChargeState, error)
	// Refund gives all of a charge back, once, however often the refund key comes. It returns ErrRefundRefused where it never will.
	Refund(ctx context.Context, key, refundKey string) error
}

// Charge is what is taken from a card.
type Charge struct {
	// Key names the charge at the gateway. It is Khata's own.
	Key string
	// Card is the token that stands for a card; only to charge it.
	Card             string
	Amount, Currency string
}

// ChargeState is what a gateway says of a charge. All but NotSeen are final.
type ChargeState string

// The states.
const (
	Charged   ChargeState = "charged"
	Declined  ChargeState = "declined"
	Cancelled ChargeState = "cancelled"
	// NotSeen is a key that the gateway does not know. It is no promise that it will not: a request may be on its way.
	NotSeen ChargeState = "not_seen"
)

// ErrOtherAmount is of a charge that is not what it should be. Nothing finds out more by asking again.
var ErrOtherAmount = errors.New("the gateway has charged another amount")

// ErrRefundRefused is a gateway's final no to giving back.
var ErrRefundRefused = errors.New("the gateway does not give the charge back")
