package auth

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/ledger"
)

// Config is how to know callers.
type Config struct {
	// Pool reads the tokens. One connection is enough. Required.
	Pool *pgxpool.Pool
	// JWT is how to know users; nil lets none in.
	JWT *JWTConfig
	// Logger is required.
	Logger *slog.Logger
}

// Authenticator says who is calling. It is safe for concurrent use.
type Authenticator struct {
	tokens *cached[*tokens]
	jwt    *verifier
}

const (
	// A list of tokens is read again when it is used and tokensSoon old, and not believed for longer than tokensLimit: by then no
	// token that was revoked lets anyone in any more.
	tokensSoon, tokensLimit = 2 * time.Second, 5 * time.Second
	// tokensPause is between two readings. An id that is not in the list makes it be read, so that a new token works at once; ids
	// that somebody makes up cost the database four small queries a second, however many they are.
	tokensPause = 250 * time.Millisecond
)

// New makes an Authenticator. The tokens are read when they are needed; keys of users in a file are read now.
func New(ctx context.Context, config Config) (*Authenticator, error) {
	a := &Authenticator{tokens: newCached("the tokens", tokensPause, config.Logger, func(ctx context.Context) (*tokens, error) {
		return readTokens(ctx, config.Pool, config.Logger)
	})}
	if config.JWT != nil {
		var err error
		if a.jwt, err = newVerifier(ctx, *config.JWT, config.Logger); err != nil {
			a.Close()
			return nil, err
		}
	}
	return a, nil
}

// Close ends the readings under way.
func (a *Authenticator) Close() {
	a.tokens.close()
	if a.jwt != nil {
		a.jwt.keys.close()
	}
}

// tokens is every token that is valid. It is all in memory, which is bounded by maxTokens: nobody can push anybody out, and what is not
// in it needs no memory of its own.
type tokens struct {
	byID map[string]*entry
	// byCertificate has nil for one that two names lay claim to.
	byCertificate map[string]*entry
}

type entry struct {
	identity *Identity
	hash     []byte
	expires  *time.Time
}

func (e *entry) live() bool { return e != nil && (e.expires == nil || time.Now().Before(*e.expires)) }

func readTokens(ctx context.Context, pool *pgxpool.Pool, log *slog.Logger) (*tokens, error) {
	rows, err := queries.TokenListValid(ctx, pool, maxTokens)
	if err != nil {
		return nil, err
	}
	t := &tokens{byID: map[string]*entry{}, byCertificate: map[string]*entry{}}
	for _, row := range rows {
		grants, err := ParseGrants(row.Grants)
		if err != nil { // A role of a newer version. The others are right all the same.
			log.Warn("a token is left out", "token", row.TokenID, "error", err)
			continue
		}
		e := &entry{identity: &Identity{Name: row.Name, Kind: Service, Grants: grants}, hash: row.SecretSha256, expires: row.ExpiresAt}
		if row.Certificate == nil {
			t.byID[row.TokenID] = e
			continue
		}
		t.addCertificate(*row.Certificate, e, log)
	}
	return t, nil
}

// addCertificate adds the grants of a row to those of others for the same certificate. Until the list is read again, all of them
// last as long as the one that ends first.
func (t *tokens) addCertificate(name string, e *entry, log *slog.Logger) {
	before, found := t.byCertificate[name]
	switch {
	case !found:
		t.byCertificate[name] = e
	case before == nil || before.identity.Name != e.identity.Name:
		log.Warn("a certificate lets nobody in: rows with different names are valid for it", "certificate", name)
		t.byCertificate[name] = nil
	default:
		for on, roles := range e.identity.Grants {
			before.identity.Grants[on] |= roles
		}
		if e.expires != nil && (before.expires == nil || e.expires.Before(*before.expires)) {
			before.expires = e.expires
		}
	}
}

var errUnauthenticated = ledger.Errorf(ledger.CodeUnauthenticated, "this call needs a token: send \"authorization: Bearer TOKEN\"")

// Bearer gives the caller that the value of an Authorization header names. Without one, and for one that is not valid, it returns
// CodeUnauthenticated, and CodeUnavailable where that could not be found out.
func (a *Authenticator) Bearer(ctx context.Context, header string) (*Identity, error) {
	scheme, text, _ := strings.Cut(header, " ")
	text = strings.TrimSpace(text)
	if !strings.EqualFold(scheme, "bearer") || text == "" {
		return nil, errUnauthenticated
	}
	if !strings.HasPrefix(text, tokenPrefix) {
		if a.jwt == nil {
			return nil, ledger.Errorf(ledger.CodeUnauthenticated, "this is no token of Khata's, and no others are accepted here")
		}
		return a.jwt.verify(ctx, text)
	}
	invalid := ledger.Errorf(ledger.CodeUnauthenticated, "the token is unknown, expired or revoked")
	id, hash, ok := parseToken(text)
	if !ok {
		return nil, invalid
	}
	e, err := a.find(ctx, func(t *tokens) (*entry, bool) { e, found := t.byID[id]; return e, found })
	if err != nil {
		return nil, err
	}
	// An unknown id is compared too, with what no hash is like.
	want := make([]byte, sha256.Size)
	if e != nil {
		want = e.hash
	}
	if same := subtle.ConstantTimeCompare(want, hash[:]) == 1; !same || !e.live() {
		return nil, invalid
	}
	return e.identity, nil
}

// Token gives the caller of a token that was shown before, as it is now. For one that is not valid any more it returns CodeUnauthenticated, and
// CodeUnavailable where that could not be found out.
func (a *Authenticator) Token(ctx context.Context, id string) (*Identity, error) {
	e, err := a.find(ctx, func(t *tokens) (*entry, bool) { e, found := t.byID[id]; return e, found })
	if err != nil {
		return nil, err
	}
	if !e.live() {
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the token that you signed in with has expired or was revoked")
	}
	return e.identity, nil
}

// Certificate gives the caller of a client certificate that TLS has verified. Its DNS names count, its URIs, and if it has neither its
// common name.
func (a *Authenticator) Certificate(ctx context.Context, cert *x509.Certificate) (*Identity, error) {
	if time.Now().After(cert.NotAfter) { // A connection outlives the moment at which it was verified.
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the client certificate has expired")
	}
	names := certificateNames(cert)
	e, err := a.find(ctx, func(t *tokens) (*entry, bool) {
		for _, name := range names {
			if e, found := t.byCertificate[name]; found {
				return e, true
			}
		}
		return nil, false
	})
	if err != nil {
		return nil, err
	}
	if !e.live() {
		return nil, ledger.Errorf(ledger.CodeUnauthenticated, "the client certificate of %s names no caller that is known, and there is no token",
			strings.Join(names, ", "))
	}
	return e.identity, nil
}

func certificateNames(cert *x509.Certificate) []string {
	names := append([]string(nil), cert.DNSNames...)
	for _, uri := range cert.URIs {
		names = append(names, uri.String())
	}
	if len(names) == 0 && cert.Subject.CommonName != "" {
		names = append(names, cert.Subject.CommonName)
	}
	return names
}

// find looks something up in the list of tokens, and if it is not there once more in one that is read now.
func (a *Authenticator) find(ctx context.Context, look func(*tokens) (*entry, bool)) (*entry, error) {
	asked := time.Now()
	t, _, err := a.tokens.get(ctx, tokensSoon, tokensLimit)
	if err == nil {
		if e, found := look(t); found {
			return e, nil
		}
		t, _, err = a.tokens.since(ctx, asked)
	}
	if err != nil {
		return nil, unavailable(ctx, "who is calling cannot be looked up", err)
	}
	e, _ := look(t)
	return e, nil
}

func unavailable(ctx context.Context, doing string, err error) error {
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return ledger.Errorf(ledger.CodeCancelled, "%s: the caller cancelled the request", doing)
	case ctx.Err() != nil:
		return ledger.Errorf(ledger.CodeDeadlineExceeded, "%s before the caller's deadline", doing)
	}
	return fmt.Errorf("%w (%w)", ledger.Errorf(ledger.CodeUnavailable, "%s now", doing), err)
}
