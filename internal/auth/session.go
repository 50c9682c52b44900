package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// A session lasts for a working day, and half an hour beside an empty chair.
	sessionLifetime, sessionIdle = 8 * time.Hour, 30 * time.Minute
	// sessionTouch is how old the time of the last use may be. A write at each request would be one too many.
	sessionTouch = time.Minute
	sessionBytes = 32
)

// Persona is somebody whom a visitor of the console can be on a server that asks nobody who they are, to see what each role may do.
type Persona struct {
	// Name is on a button. What is recorded of it is "local:" and the name in small letters, with hyphens for spaces.
	Name   string
	Grants Grants
}

// Personas gives one for each role that the console has pages for, and a second one for support, where some things take two people.
func Personas() []Persona {
	all := func(roles Roles) Grants { return Grants{AllLedgers: roles} }
	return []Persona{{"Finance", all(Finance)}, {"Admin", all(Admin)}, {"Support", all(Support)}, {"Support 2", all(Support)}, {"Reader", all(Reader)}}
}

// Login is the name as machines write it.
func (p Persona) Login() string { return strings.ReplaceAll(strings.ToLower(p.Name), " ", "-") }

func (p Persona) identity() *Identity {
	return &Identity{Name: "local:" + p.Login(), Kind: Local, Grants: p.Grants}
}

// SessionsConfig is how to know who is signed in.
type SessionsConfig struct {
	// Pool keeps the sessions. One connection is enough. Required.
	Pool *pgxpool.Pool
	// Callers knows tokens; nil asks nobody who they are, and visitors are one of the Personas, or whom a sandbox's Provider lets them be.
	Callers *Authenticator
	// Provider is the identity provider that people can sign in with; nil is none. NoTokens has them sign in with nothing else.
	Provider *Provider
	NoTokens bool
	// Personas can be picked where Callers and Provider are nil; nil is those of Personas().
	Personas []Persona
	// Lifetime is when a session ends in any case, at most a day, and Idle when it ends unused; 0 is 8 hours and 30 minutes.
	Lifetime, Idle time.Duration
}

// Sessions knows who is signed in to the console. It is safe for concurrent use, and what it knows is in the database: any server knows
// the sessions of all of them.
type Sessions struct{ config SessionsConfig }

// NewSessions makes Sessions.
func NewSessions(config SessionsConfig) *Sessions {
	if config.Callers != nil || config.Provider != nil {
		config.Personas = nil
	} else if config.Personas == nil {
		config.Personas = Personas()
	}
	if config.Lifetime == 0 {
		config.Lifetime = sessionLifetime
	}
	if config.Idle == 0 {
		config.Idle = sessionIdle
	}
	return &Sessions{config}
}

// Session is somebody who is signed in.
type Session struct {
	*Identity
	// FormKey is what the session's own forms send back, and other pages cannot know.
	FormKey string
	// Display is the name of a Person, for reading only: people may have chosen it. It is empty for all others, and for some of them.
	Display string
}

// Open reports whether the server asks nobody who they are, or believes what they say: then only who is at its machine may come.
func (s *Sessions) Open() bool { return s.config.Callers == nil }

// Tokens reports whether people can sign in with tokens.
func (s *Sessions) Tokens() bool { return s.config.Callers != nil && !s.config.NoTokens }

// Provider is the identity provider that people can sign in with; nil is none.
func (s *Sessions) Provider() *Provider { return s.config.Provider }

// Personas gives the names of those whom a visitor can be; none where people sign in.
func (s *Sessions) Personas() []string {
	var names []string
	for _, p := range s.config.Personas {
		names = append(names, p.Name)
	}
	return names
}

// SignIn makes a session of the bearer of a token, and gives the secret that its browser keeps. It returns CodeUnauthenticated, CodePermissionDenied
// for a user with a JWT, or CodeUnavailable.
func (s *Sessions) SignIn(ctx context.Context, token string) (secret string, id *Identity, err error) {
	if !s.Tokens() {
		return "", nil, ledger.Errorf(ledger.CodeUnauthenticated, "this server takes no tokens")
	}
	token = strings.TrimSpace(token)
	if id, err = s.config.Callers.Bearer(ctx, "Bearer "+token); err != nil {
		return "", nil, err
	}
	if id.Kind != Service {
		return "", nil, ledger.Errorf(ledger.CodePermissionDenied,
			"this is the token of a user of wallets, and the console is for those who keep the books: it takes a token that begins with %s", tokenPrefix)
	}
	tokenID, _, _ := parseToken(token)
	secret, err = s.begin(ctx, dbsqlc.ConsoleSessionInsertParams{TokenID: &tokenID})
	return secret, id, err
}

// SignInWith makes a session of whom the identity provider names, in its answer to a sign-in that the browser has the cookie of. It also gives what was
// to be seen, as the cookie says. It returns what Provider.finish does.
func (s *Sessions) SignInWith(ctx context.Context, cookie string, answer url.Values) (secret, next string, id *Identity, err error) {
	p := s.config.Provider
	if p == nil {
		return "", "", nil, ledger.Errorf(ledger.CodeUnauthenticated, "this server has no identity provider")
	}
	who, next, err := p.finish(ctx, cookie, answer)
	if err != nil {
		return "", "", nil, err
	}
	secret, err = s.begin(ctx, dbsqlc.ConsoleSessionInsertParams{
		OidcIssuer: &p.config.Issuer, OidcSubject: &who.subject, OidcName: &who.name, OidcDisplay: &who.display, OidcGroups: who.groups,
	})
	return secret, next, p.identity(who.name, who.groups), err
}

// SignInAs makes a session of whom a visitor has picked to be, where nobody is asked.
func (s *Sessions) SignInAs(ctx context.Context, persona string) (secret string, id *Identity, err error) {
	id = s.persona(persona)
	if id == nil {
		return "", nil, ledger.Errorf(ledger.CodeUnauthenticated, "there is nobody of that name to be")
	}
	secret, err = s.begin(ctx, dbsqlc.ConsoleSessionInsertParams{Persona: &persona})
	return secret, id, err
}

func (s *Sessions) persona(name string) *Identity {
	for _, p := range s.config.Personas {
		if p.Name == name {
			return p.identity()
		}
	}
	return nil
}

// begin writes a session, and clears up those that have ended: where nobody signs in, none come to be either.
func (s *Sessions) begin(ctx context.Context, row dbsqlc.ConsoleSessionInsertParams) (string, error) {
	if _, err := s.Sweep(ctx); err != nil {
		return "", err
	}
	raw := make([]byte, sessionBytes)
	_, _ = rand.Read(raw) // It never fails.
	hash := sha256.Sum256(raw)
	row.SessionSha256, row.Seconds = hash[:], s.config.Lifetime.Seconds()
	if err := queries.ConsoleSessionInsert(ctx, s.config.Pool, row); err != nil {
		return "", unavailable(ctx, "nobody can be signed in", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw), nil
}

var errSignedOut = ledger.Errorf(ledger.CodeUnauthenticated, "you are not signed in")

// Get gives whose session it is, with what they may do now. It returns CodeUnauthenticated for a session that there is not, that has ended, or
// whose token is not valid any more, and CodeUnavailable where that could not be found out.
func (s *Sessions) Get(ctx context.Context, secret string) (*Session, error) {
	raw, hash, ok := parseSession(secret)
	if !ok {
		return nil, errSignedOut
	}
	row, err := queries.ConsoleSessionGet(ctx, s.config.Pool, dbsqlc.ConsoleSessionGetParams{
		SessionSha256: hash, MostIdleSeconds: s.config.Idle.Seconds(),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, errSignedOut
	} else if err != nil {
		return nil, unavailable(ctx, "who is signed in cannot be looked up", err)
	}
	id, err := s.holder(ctx, row)
	if err != nil {
		return nil, err
	}
	if row.IdleSeconds > min(sessionTouch, s.config.Idle/10).Seconds() {
		if err := queries.ConsoleSessionTouch(ctx, s.config.Pool, hash); err != nil {
			return nil, unavailable(ctx, "who is signed in cannot be noted", err)
		}
	}
	session := &Session{Identity: id, FormKey: formKey(raw)}
	if row.OidcDisplay != nil {
		session.Display = *row.OidcDisplay
	}
	return session, nil
}

// holder looks up who holds a session. One that was begun when the server asked nobody is worth nothing on one that asks, and the other way round; so
// is one of another identity provider's, or of somebody whose groups have no role any more.
func (s *Sessions) holder(ctx context.Context, row dbsqlc.ConsoleSessionGetRow) (*Identity, error) {
	switch {
	case row.TokenID != nil && s.Tokens():
		return s.config.Callers.Token(ctx, *row.TokenID)
	case row.Persona != nil:
		if id := s.persona(*row.Persona); id != nil {
			return id, nil
		}
	case row.OidcIssuer != nil && s.config.Provider != nil && *row.OidcIssuer == s.config.Provider.config.Issuer:
		if id := s.config.Provider.identity(*row.OidcName, row.OidcGroups); id != nil {
			return id, nil
		}
	}
	return nil, errSignedOut
}

// End ends a session for ever. To end one that there is not is no error.
func (s *Sessions) End(ctx context.Context, secret string) error {
	_, hash, ok := parseSession(secret)
	if !ok {
		return nil
	}
	if err := queries.ConsoleSessionDelete(ctx, s.config.Pool, hash); err != nil {
		return unavailable(ctx, "the session cannot be ended", err)
	}
	return nil
}

// Sweep deletes the sessions that have ended, and says how many.
func (s *Sessions) Sweep(ctx context.Context) (int64, error) {
	n, err := queries.ConsoleSessionSweep(ctx, s.config.Pool, s.config.Idle.Seconds())
	if err != nil {
		return 0, unavailable(ctx, "sessions cannot be cleared up", err)
	}
	return n, nil
}

func parseSession(secret string) (raw, hash []byte, ok bool) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(secret)
	if err != nil || len(raw) != sessionBytes {
		return nil, nil, false
	}
	sum := sha256.Sum256(raw)
	return raw, sum[:], true
}

// formKey follows from the session's secret, and tells nothing of it. It needs no place in the database, and no two sessions share one.
func formKey(secret []byte) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = mac.Write([]byte("khata: a form of the console")) // A hash does not fail.
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// IsFormKey reports whether a form is the session's own.
func (s *Session) IsFormKey(key string) bool { return hmac.Equal([]byte(s.FormKey), []byte(key)) }
