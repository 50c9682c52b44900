package auth

import (
	"context"

	"github.com/khata-ledger/khata/ledger"
)

// Kind is the sort of a caller.
type Kind int

// The sorts of callers.
const (
	// Local is whoever reaches a server that asks for no identity, and therefore listens on loopback only.
	Local Kind = iota
	// Service is a program with a token or certificate.
	Service
	// User is a person with a JWT, who owns wallets.
	User
)

// Identity is who is calling.
type Identity struct {
	// Name is what is recorded in the transfers that this caller posts, and what their retries are recognised by: the name of
	// the token, which outlives its secrets, or "user:" and the subject.
	Name string
	Kind Kind
	// Grants has the roles. A user has none.
	Grants Grants
	// Wallets are the accounts that a user may debit.
	Wallets []ledger.AccountID
}

// everyone is the caller of a server without authentication.
var everyone = &Identity{Name: "local", Kind: Local, Grants: Grants{AllLedgers: AnyRole}}

// Everyone is the caller of a server without authentication: it may do everything.
func Everyone() *Identity { return everyone }

// MayDebit reports whether a user may have money taken from an account. What a service may debit, its roles say.
func (id *Identity) MayDebit(account ledger.AccountID) bool {
	if id.Kind != User {
		return true
	}
	for _, wallet := range id.Wallets {
		if wallet == account {
			return true
		}
	}
	return false
}

type contextKey struct{}

// With puts a caller into a context.
func With(ctx context.Context, id *Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// From gives the caller of a context, if one has been put there.
func From(ctx context.Context) (*Identity, bool) {
	id, ok := ctx.Value(contextKey{}).(*Identity)
	return id, ok
}
