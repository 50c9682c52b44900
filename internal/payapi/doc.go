// Package payapi is the HTTP payment API: what a phone or a shop's server talks to. It is an adapter to internal/journal, and the owner
// of the keys by which a payment that is sent twice is recognised.
//
// A request carries an Idempotency-Key. User and key together name one payment, for ever: the transfer's id is made from them. For as
// long as the window lasts, the answer is also kept byte for byte, in a row that is committed together with the money (hook.go), and is
// given again; afterwards it is rebuilt from the transfer. Whatever is sent under a key that has other content is refused.
//
// The order in which a request is looked at: who calls, what is asked for, whether it is well-formed (none of which is stored); then the
// key.
package payapi
