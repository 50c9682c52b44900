package auth_test

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

func (b *bench) sessions(callers *auth.Authenticator) *auth.Sessions {
	return auth.NewSessions(auth.SessionsConfig{Pool: b.pool, Callers: callers})
}

func TestSession_OfAToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.sessions(b.Authenticator)
	_, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance", "shop:reader")
	secret, id, err := s.SignIn(t.Context(), " "+token+"\n")
	if err != nil {
		t.Fatal(err)
	}
	want := &auth.Identity{Name: "ayesha", Kind: auth.Service, Grants: auth.Grants{"main": auth.Finance, "shop": auth.Reader}}
	got, err := s.Get(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []*auth.Identity{id, got.Identity} {
		if diff := cmp.Diff(want, id); diff != "" {
			t.Errorf("the caller (-want +got):\n%s", diff)
		}
	}
	if again, err := s.Get(t.Context(), secret); err != nil || again.FormKey != got.FormKey || !got.IsFormKey(again.FormKey) || got.IsFormKey("") ||
		len(got.FormKey) != 43 {
		t.Errorf("the keys of its forms: %q, %v", got.FormKey, err)
	}
	other, _, err := s.SignIn(t.Context(), token)
	if err != nil || other == secret {
		t.Fatalf("signing in twice gives %q twice: %v", other, err)
	}
	if second, err := s.Get(t.Context(), other); err != nil || second.FormKey == got.FormKey {
		t.Errorf("two sessions share the key of their forms: %v", err)
	}
	if err := s.End(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{secret, "", "x", strings.Repeat("A", 43), secret + "A", token,
		base64.RawURLEncoding.EncodeToString(make([]byte, 31))} {
		if _, err := s.Get(t.Context(), wrong); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%q: %v", wrong, err)
		}
		if err := s.End(t.Context(), wrong); err != nil {
			t.Errorf("end %q: %v", wrong, err)
		}
	}
	if _, err := s.Get(t.Context(), other); err != nil {
		t.Errorf("the other session has ended too: %v", err)
	}
	if _, _, err := s.SignInAs(t.Context(), "Admin"); !errors.Is(err, ledger.CodeUnauthenticated) || s.Personas() != nil {
		t.Errorf("anybody can be %v: %v", s.Personas(), err)
	}
}

// A session is worth what its token is now.
func TestSession_EndsWithItsToken(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := b.sessions(b.Authenticator)
	revoked, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance")
	first, _, err := s.SignIn(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	var second string
	var expired time.Time
	for life := time.Second; second == ""; life *= 2 { // A slow machine needs one that lives longer to sign in with.
		_, short := b.create(t, auth.TokenSpec{Name: "rahim", Expires: life}, "main:finance")
		expired = time.Now().Add(life)
		if second, _, err = s.SignIn(t.Context(), short); err != nil && (!errors.Is(err, ledger.CodeUnauthenticated) || life > 10*time.Second) {
			t.Fatal(err)
		}
	}
	if _, _, err := b.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	for secret, since := range map[string]time.Time{first: time.Now(), second: expired} {
		for ; ; time.Sleep(50 * time.Millisecond) {
			asked := time.Now() // Whoever asked in time may be answered late.
			_, err := s.Get(t.Context(), secret)
			if errors.Is(err, ledger.CodeUnauthenticated) {
				break
			}
			if late := asked.Sub(since) - auth.TokensLimit; late > 0 && err == nil || late > 30*time.Second {
				t.Fatalf("a session outlives its token by %s: %v", late, err)
			}
		}
	}
}

func TestSession_Expires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance")
	// Only here does time pass: however slow the machine is, it is not as slow as that.
	pass := func(d time.Duration) {
		b.db.Exec(t, `UPDATE console_session SET created_at = created_at - t.d, expires_at = expires_at - t.d, used_at = used_at - t.d
			FROM (SELECT make_interval(secs => $1::double precision)) AS t (d)`, d.Seconds())
	}
	for name, c := range map[string]struct {
		lifetime, idle time.Duration
		// uses are the pauses before each use, and last is the one after which it is too late.
		uses []time.Duration
		last time.Duration
	}{
		"unused": {time.Hour, 10 * time.Minute, []time.Duration{9 * time.Minute, 9 * time.Minute}, 10 * time.Minute},
		"used":   {20 * time.Minute, 15 * time.Minute, []time.Duration{10 * time.Minute, 9 * time.Minute}, time.Minute},
	} {
		s := auth.NewSessions(auth.SessionsConfig{Pool: b.pool, Callers: b.Authenticator, Lifetime: c.lifetime, Idle: c.idle})
		secret, _, err := s.SignIn(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		// One that is used lives on, until its life is over.
		for _, pause := range c.uses {
			pass(pause)
			if _, err := s.Get(t.Context(), secret); err != nil {
				t.Fatalf("%s, after %s: %v", name, pause, err)
			}
		}
		pass(c.last)
		if _, err := s.Get(t.Context(), secret); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
		if n, err := s.Sweep(t.Context()); err != nil || n != 1 {
			t.Errorf("%s: %d swept, %v", name, n, err)
		}
	}
	// Who signs in sweeps.
	s := b.sessions(b.Authenticator)
	for range 3 {
		if _, _, err := s.SignIn(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		b.db.Exec(t, `UPDATE console_session SET used_at = used_at - interval '1 hour'`)
	}
	var rows int
	if err := b.pool.QueryRow(t.Context(), `SELECT count(*) FROM console_session`).Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows are left: %v", rows, err)
	}
}

func TestSession_Personas(t *testing.T) {
	t.Parallel()
	b := setup(t)
	open, strict := b.sessions(nil), b.sessions(b.Authenticator)
	if diff := cmp.Diff([]string{"Finance", "Admin", "Support", "Support 2", "Reader"}, open.Personas()); diff != "" {
		t.Errorf("who can be picked (-want +got):\n%s", diff)
	}
	secret, _, err := open.SignInAs(t.Context(), "Finance")
	if err != nil {
		t.Fatal(err)
	}
	got, err := open.Get(t.Context(), secret)
	want := &auth.Identity{Name: "local:finance", Kind: auth.Local, Grants: auth.Grants{"*": auth.Finance}}
	if diff := cmp.Diff(want, got.Identity); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if _, err := strict.Get(t.Context(), secret); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("a server that asks: %v", err)
	}
	_, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance")
	asked, _, err := strict.SignIn(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"the session of a token": second(open.Get(t.Context(), asked)), "a token": third(open.SignIn(t.Context(),
			token)), "nobody": third(open.SignInAs(t.Context(), "Nobody")),
	} {
		if !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s on a server that asks nobody: %v", name, err)
		}
	}
}

func second[A any](_ A, err error) error        { return err }
func third[A, B any](_ A, _ B, err error) error { return err }

// Of a session the database knows nothing with which one could be signed in, and the service's role can prolong none.
func TestSession_Table(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance")
	secret, _, err := b.sessions(b.Authenticator).SignIn(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	var row string
	if err := b.pool.QueryRow(t.Context(), `SELECT console_session::text FROM console_session`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(secret)
	if err != nil || strings.Contains(row, secret) || strings.Contains(row, strings.ToLower(base64.StdEncoding.EncodeToString(raw))) {
		t.Errorf("the secret stands in %s: %v", row, err)
	}
	for _, sql := range []string{
		`UPDATE console_session SET expires_at = expires_at + interval '1 hour'`,
		`UPDATE console_session SET token_id = NULL, persona = 'Admin'`, `TRUNCATE console_session`,
	} {
		var refused *pgconn.PgError
		if _, err := b.pool.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("%s: %v", sql, err)
		}
	}
	for _, sql := range []string{
		`INSERT INTO console_session (session_sha256, token_id, expires_at) VALUES ('short', 'x', now() + interval '1 hour')`,
		`INSERT INTO console_session (session_sha256, expires_at) VALUES (sha256('x'), now() + interval '1 hour')`,
		`INSERT INTO console_session (session_sha256, persona, expires_at) VALUES (sha256('x'), 'Admin', now() + interval '1 year')`,
	} {
		if _, err := b.pool.Exec(t.Context(), sql); err == nil {
			t.Errorf("%s is let in", sql)
		}
	}
}

func TestSession_NotForUsers(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	a := users(t, encodeSet(t, i.set()...), auth.JWTConfig{})
	s := auth.NewSessions(auth.SessionsConfig{Callers: a}) // It comes to no table.
	token := sign(t, i.ec, jose.ES256, "e", of("shimul", nil))
	if _, _, err := s.SignIn(t.Context(), token); !errors.Is(err, ledger.CodePermissionDenied) || !strings.Contains(err.Error(), "user of wallets") {
		t.Errorf("a user: %v", err)
	}
}
