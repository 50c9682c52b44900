package auth

import (
	"context"
	"slices"
	"strings"

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
	// Person is one who keeps the books, and has signed in to the console with an identity provider.
	Person
)

// Identity is who is calling.
type Identity struct {
	// Name is what is recorded in the transfers that this caller posts, and what their retries are recognised by: the name of
	// the token, which outlives its secrets, or "user:" and the subject, or for a Person "oidc:" and what the provider calls them.
	Name string
	Kind Kind
	// Grants has the roles. A user has none.
	Grants Grants
	// Wallets are the accounts of a user, which nobody else's overlap.
	Wallets []ledger.AccountID
	// SubWallets is whether what begins with a wallet and a colon is the user's too: wallet:shimul:usd beside wallet:shimul.
	SubWallets bool
}

// everyone is the caller of a server without authentication.
var everyone = &Identity{Name: "local", Kind: Local, Grants: Grants{AllLedgers: AnyRole}}

// Everyone is the caller of a server without authentication: it may do everything.
func Everyone() *Identity { return everyone }

// Owns reports whether an account is a user's own: a user debits no other. A service owns nothing; its roles say what it may do.
func (id *Identity) Owns(account ledger.AccountID) bool {
	return id.Kind == User && slices.ContainsFunc(id.Wallets, func(wallet ledger.AccountID) bool {
		return wallet == account || id.SubWallets && strings.HasPrefix(string(account), string(wallet)+":")
	})
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
