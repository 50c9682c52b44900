package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/khata-ledger/khata/ledger"
)

// JWTConfig is how to know users by the tokens of an identity provider.
type JWTConfig struct {
	// Issuer and Audience are what iss must be and aud must contain. Required: a token that the same provider made for
	// another application is not for us.
	Issuer, Audience string
	// Keys is where the provider's public keys are: a file with PEM blocks or a JWK set, or the https URL of a JWK set. Required.
	Keys string
	// WalletsClaim, if it is not empty, names the claim with the list of accounts that the user may debit. Without it that is
	// wallet:SUBJECT and what begins with that and a colon.
	WalletsClaim string
}

const (
	// jwtLeeway is by how much clocks may differ.
	jwtLeeway = 30 * time.Second
	// maxJWT bounds what is parsed before it is known to be genuine, in bytes.
	maxJWT     = 8 << 10
	maxSubject = 100
	maxWallets = 100
	userPrefix = "user:"
)

// algorithms are the signatures that are accepted: those whose verification takes a public key only. "none" is not among them, and no
// HMAC, for which a public key that somebody takes for the secret would do.
var algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.EdDSA}

// verifier checks JWTs.
type verifier struct {
	config JWTConfig
	keys   *cached[[]key]
	fresh  time.Duration // keys are read again after this
	now    func() time.Time
}

func newVerifier(ctx context.Context, config JWTConfig, log *slog.Logger) (*verifier, error) {
	if config.Issuer == "" || config.Audience == "" || config.Keys == "" {
		return nil, errors.New("to accept user tokens, the issuer, the audience and the keys must all be given")
	}
	load, remote, err := keySource(config.Keys)
	if err != nil {
		return nil, err
	}
	v := &verifier{config: config, fresh: fileFresh, now: time.Now}
	if remote {
		v.fresh = urlFresh
	}
	v.keys = newCached("the keys of user tokens", keysPause, log, load)
	// A file that is wrong is better noticed now. A provider that is away comes back.
	if _, _, err := v.keys.get(ctx, 0, keysLimit); err != nil && !remote {
		v.keys.close()
		return nil, fmt.Errorf("keys of user tokens: %w", err)
	}
	return v, nil
}

// forged is what every token that is not to be trusted is told, whatever is wrong with it.
func forged() error {
	return ledger.Errorf(ledger.CodeUnauthenticated, "the user token is not one of the issuer's: its signature does not verify")
}

// verify gives the user of a JWT, or CodeUnauthenticated.
func (v *verifier) verify(ctx context.Context, text string) (*Identity, error) {
	if len(text) > maxJWT {
		return nil, forged()
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(token.Headers) != 1 {
		return nil, forged()
	}
	var standard jwt.Claims
	var all map[string]json.RawMessage
	if err := v.genuine(ctx, token, &standard, &all); err != nil {
		return nil, err
	}
	switch err := standard.ValidateWithLeeway(jwt.Expected{
		Issuer: v.config.Issuer, AnyAudience: jwt.Audience{v.config.Audience}, Time: v.now(),
	}, jwtLeeway); {
	case standard.Expiry == nil:
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token has no exp: one that never ends is not accepted")
	case errors.Is(err, jwt.ErrExpired):
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token has expired: get a new one")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token is not valid yet")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token is for another audience")
	case err != nil:
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token is of another issuer")
	}
	return v.user(standard.Subject, all)
}

// genuine reads the claims of a token whose signature verifies.
func (v *verifier) genuine(ctx context.Context, token *jwt.JSONWebToken, claims ...any) error {
	is, err := verifyBy(ctx, v.keys, func(keys []key) []key { return keys }, v.fresh, token, claims...)
	if err != nil {
		return unavailable(ctx, "the keys of user tokens cannot be read", err)
	}
	if !is {
		return forged()
	}
	return nil
}

// verifyBy reports whether one of the keys in what is cached has signed a token, and then reads its claims. A key that is not known makes the
// keys be read again, but not within a moment of the last time.
func verifyBy[T any](ctx context.Context, from *cached[T], keysOf func(T) []key, fresh time.Duration, token *jwt.JSONWebToken, claims ...any) (bool, error) {
	header := token.Headers[0]
	fits := func(k key) bool {
		return k.algorithm == jose.SignatureAlgorithm(header.Algorithm) && (k.id == header.KeyID || k.id == "" || header.KeyID == "")
	}
	asked := time.Now()
	known, asOf, err := from.get(ctx, fresh, keysLimit)
	if err == nil && !slices.ContainsFunc(keysOf(known), fits) && asked.Sub(asOf) > keysPause {
		known, _, err = from.since(ctx, asked)
	}
	if err != nil {
		return false, err
	}
	for _, k := range keysOf(known) {
		if fits(k) && token.Claims(k.public, claims...) == nil {
			return true, nil
		}
	}
	return false, nil
}

// user makes the identity of a subject.
func (v *verifier) user(subject string, claims map[string]json.RawMessage) (*Identity, error) {
	if subject == "" || len(subject) > maxSubject || strings.ContainsFunc(subject, func(r rune) bool { return r < 0x21 || r > 0x7e }) {
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token's sub must be 1 to %d characters of 0x21-0x7E", maxSubject)
	}
	id := &Identity{Name: userPrefix + subject, Kind: User}
	if v.config.WalletsClaim == "" {
		// With a colon in it, the wallet of one subject would be among those of another.
		if !strings.Contains(subject, ":") {
			id.Wallets, id.SubWallets = []ledger.AccountID{ledger.AccountID("wallet:" + subject)}, true
		}
		return id, nil
	}
	var wallets []ledger.AccountID
	if claim, ok := claims[v.config.WalletsClaim]; ok {
		if err := json.Unmarshal(claim, &wallets); err != nil || len(wallets) > maxWallets {
			return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token's %s must be a list of at most %d accounts", v.config.WalletsClaim, maxWallets)
		}
	}
	for _, w := range wallets {
		if err := w.Validate(v.config.WalletsClaim); err != nil {
			return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the user token's %s holds what is no account id", v.config.WalletsClaim)
		}
	}
	id.Wallets = wallets
	return id, nil
}
