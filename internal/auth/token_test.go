package auth_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

func TestToken_LetsItsBearerIn(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, secret := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster", "shop:reader", "shop:support")
	for _, header := range []string{"Bearer " + secret, "bearer  " + secret} {
		id, err := b.Bearer(t.Context(), header)
		if err != nil {
			t.Fatal(err)
		}
		want := &auth.Identity{Name: "checkout", Kind: auth.Service, Grants: auth.Grants{"main": auth.Poster, "shop": auth.Reader | auth.Support}}
		if diff := cmp.Diff(want, id); diff != "" {
			t.Errorf("the caller (-want +got):\n%s", diff)
		}
	}
	if !strings.HasPrefix(secret, "khata_"+token.ID+"_") || len(secret) < 60 {
		t.Errorf("the token is %q of %s", secret, token.ID)
	}
	other, _ := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster")
	random := base64.RawURLEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])
	_, body, _ := strings.Cut(secret, token.ID+"_")
	for name, header := range map[string]string{
		"nothing":              "",
		"no scheme":            secret,
		"another scheme":       "Basic " + secret,
		"no token":             "Bearer ",
		"another secret":       "Bearer khata_" + token.ID + "_" + random,
		"no secret":            "Bearer khata_" + token.ID + "_",
		"the secret of others": "Bearer khata_" + other.ID + "_" + body,
		"an unknown id":        "Bearer khata_aaaaaaaaaaaaaaaa_" + body,
		"no id":                "Bearer khata__" + body,
		"cut off":              "Bearer " + secret[:len(secret)-1],
		"longer":               "Bearer " + secret + "A",
		"the hash of nothing":  "Bearer khata_aaaaaaaaaaaaaaaa_" + base64.RawURLEncoding.EncodeToString(make([]byte, 32)),
		"a JWT, of which none": "Bearer a.b.c",
	} {
		if _, err := b.Bearer(t.Context(), header); !errors.Is(err, ledger.CodeUnauthenticated) || strings.Contains(err.Error(), body) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestToken_OnlyTheHashIsKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, secret := b.create(t, auth.TokenSpec{Name: "checkout", Expires: time.Hour}, "*:admin")
	var row string
	if err := b.pool.QueryRow(t.Context(), `SELECT token::text FROM token`).Scan(&row); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.RawURLEncoding.DecodeString(secret[strings.LastIndex(secret, "_")+1:])
	if err != nil && !strings.Contains(secret, token.ID) {
		t.Fatal(err)
	}
	if strings.Contains(row, secret) || strings.Contains(row, secret[len(secret)-20:]) || len(raw) > 0 && strings.Contains(row, fmt.Sprintf("%x", raw)) {
		t.Errorf("the secret stands in %s", row)
	}
	list, err := b.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	if diff := cmp.Diff(token, list[0]); diff != "" {
		t.Errorf("what is listed (-created +listed):\n%s", diff)
	}
	if token.CreatedBy != "khata_owner" || token.ExpiresAt == nil || time.Until(*token.ExpiresAt) > time.Hour {
		t.Errorf("%+v", token)
	}
}

// The role that servers connect as can let nobody in, and nobody takes a token out of the list.
func TestToken_ServiceOnlyReads(t *testing.T) {
	t.Parallel()
	b := setup(t)
	token, _ := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:reader")
	owner, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.OwnerDSN(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	for _, sql := range []string{
		`INSERT INTO token (token_id, name, secret_sha256, grants) VALUES ('x', 'x', sha256('x'), '{*:admin}')`,
		`UPDATE token SET grants = '{*:admin}'`, `UPDATE token SET revoked_at = NULL`, `UPDATE token SET revoked_at = now()`, `DELETE FROM token`,
	} {
		var refused *pgconn.PgError
		if _, err := b.pool.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "42501" {
			t.Errorf("the service: %s: %v", sql, err)
		}
	}
	for _, sql := range []string{`DELETE FROM token`, `TRUNCATE token CASCADE`} {
		if _, err := owner.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("the owner: %s: %v", sql, err)
		}
	}
	for _, sql := range []string{
		`UPDATE token SET grants = '{}'`, `UPDATE token SET grants = '{main:king}'`, `UPDATE token SET grants = '{main:poster,NULL}'`, `UPDATE token SET grants = '{"main:poster x"}'`,
		`UPDATE token SET name = 'khata'`, `UPDATE token SET name = 'user:7'`, `UPDATE token SET secret_sha256 = NULL`, `UPDATE token SET secret_sha256 = 'short'`,
		`UPDATE token SET certificate = 'both'`,
	} {
		var refused *pgconn.PgError
		if _, err := owner.Exec(t.Context(), sql); !errors.As(err, &refused) || refused.Code != "23514" {
			t.Errorf("the owner: %s: %v", sql, err)
		}
	}
	_ = token
}

func TestToken_Spec(t *testing.T) {
	t.Parallel()
	some := auth.Grants{"main": auth.Poster}
	for name, spec := range map[string]auth.TokenSpec{
		"no name":         {Grants: some},
		"a user's name":   {Name: "user:7", Grants: some},
		"Khata's name":    {Name: "khata", Grants: some},
		"a long name":     {Name: strings.Repeat("x", 64), Grants: some},
		"no role":         {Name: "checkout"},
		"already expired": {Name: "checkout", Grants: some, Expires: -time.Second},
	} {
		if spec.Validate() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, grants := range [][]string{nil, {"main"}, {"main:king"}, {":poster"}, {"Main:poster"}, {"main:poster", "x y:poster"}, {"**:poster"}} {
		if _, err := auth.ParseGrants(grants); err == nil {
			t.Errorf("grants %q are taken", grants)
		}
	}
	grants, err := auth.ParseGrants([]string{"shop:reader", "*:finance", "main:poster", "main:admin", "main:poster"})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"*:finance", "main:poster", "main:admin", "shop:reader"}, grants.List()); diff != "" {
		t.Errorf("grants (-want +got):\n%s", diff)
	}
	if got := grants.On(""); got != auth.Poster|auth.Admin|auth.Finance {
		t.Errorf("in main: %s", got)
	}
	if got := grants.On("other"); got != auth.Finance {
		t.Errorf("in another ledger: %s", got)
	}
}

// A revoked token lets nobody in after the time that is promised; a new one works at once, and both together until then.
func TestToken_Rotation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	old, oldSecret := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster")
	if !b.knows(t, oldSecret) {
		t.Fatal("the token is not known")
	}
	_, newSecret := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster")
	if !b.knows(t, newSecret) {
		t.Error("a new token is not known at once")
	}
	if !b.knows(t, oldSecret) {
		t.Error("the old token is not known any more")
	}
	name, at, err := b.Revoke(t.Context(), old.ID)
	if err != nil || name != "checkout" {
		t.Fatal(name, err)
	}
	revoked := time.Now()
	for b.knows(t, oldSecret) {
		if time.Since(revoked) > auth.TokensLimit+time.Second {
			t.Fatalf("the token is known %v after it was revoked", time.Since(revoked))
		}
		if !b.knows(t, newSecret) {
			t.Fatal("the new token is not known any more")
		}
		time.Sleep(20 * time.Millisecond)
	}
	if _, again, err := b.Revoke(t.Context(), old.ID); err != nil || !again.Equal(at) {
		t.Errorf("revoked again: %v %v, at first %v", again, err, at)
	}
	if _, _, err := b.Revoke(t.Context(), "nobody"); !errors.Is(err, auth.ErrNoToken) {
		t.Errorf("to revoke what is not there: %v", err)
	}
}

func TestToken_Expires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.create(t, auth.TokenSpec{Name: "checkout", Expires: time.Second}, "main:poster")
	if !b.knows(t, secret) {
		t.Fatal("the token is not known")
	}
	time.Sleep(time.Second)
	if b.knows(t, secret) {
		t.Error("the token is known after it has expired")
	}
}

// However many ids are made up, little is asked of the database, nothing is remembered, and those who are known come in.
func TestToken_MadeUpIdsCostLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster")
	if !b.knows(t, secret) {
		t.Fatal("the token is not known")
	}
	queries := func() (n int64) {
		return b.pool.Stat().AcquireCount()
	}
	before, began := queries(), time.Now()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			for range 4 {
				body := base64.RawURLEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])
				if b.knows(t, "khata_"+strings.ToLower(rand.Text())[:16]+"_"+body) {
					t.Error("an id that was made up is known")
				}
				if !b.knows(t, secret) {
					t.Error("the token is not known any more")
				}
			}
		})
	}
	all.Wait()
	if got, most := queries()-before, int64(time.Since(began)/(250*time.Millisecond))+2; got > most {
		t.Errorf("%d queries in %v, want %d at most", got, time.Since(began), most)
	}
	if got := b.Known(); got != 1 {
		t.Errorf("%d tokens are remembered, want 1", got)
	}
}

// While the database is away nobody can be known; what was read a moment ago still holds.
func TestToken_DatabaseAway(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, secret := b.create(t, auth.TokenSpec{Name: "checkout"}, "main:poster")
	b.knows(t, secret)
	b.pool.Close()
	if !b.knows(t, secret) {
		t.Error("the token is forgotten at once")
	}
	fresh := authenticator(t, auth.Config{Pool: b.pool})
	if _, err := fresh.Bearer(t.Context(), "Bearer "+secret); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("without a database: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fresh.Bearer(ctx, "Bearer "+secret); !errors.Is(err, ledger.CodeCancelled) && !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("of a caller who has gone: %v", err)
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	at := func(text string) *url.URL {
		u, err := url.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	b.create(t, auth.TokenSpec{Name: "checkout", Certificate: "checkout.example"}, "main:poster")
	b.create(t, auth.TokenSpec{Name: "checkout", Certificate: "checkout.example"}, "main:reader", "shop:reader")
	b.create(t, auth.TokenSpec{Name: "fraud", Certificate: "spiffe://example/fraud"}, "main:reader")
	spec := auth.TokenSpec{Name: "impostor", Certificate: "checkout.example", Grants: auth.Grants{"main": auth.Admin}}
	if _, _, err := b.Create(t.Context(), spec); err == nil || !strings.Contains(err.Error(), "checkout") {
		t.Errorf("a second name for a certificate: %v", err)
	}
	later := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		cert *x509.Certificate
		want string
	}{
		"by DNS name":                 {&x509.Certificate{DNSNames: []string{"else", "checkout.example"}, NotAfter: later}, "checkout main:poster main:reader shop:reader"},
		"by URI":                      {&x509.Certificate{URIs: []*url.URL{at("spiffe://example/fraud")}, NotAfter: later}, "fraud main:reader"},
		"by common name":              {&x509.Certificate{Subject: pkix.Name{CommonName: "checkout.example"}, NotAfter: later}, "checkout main:poster main:reader shop:reader"},
		"a common name beside others": {&x509.Certificate{Subject: pkix.Name{CommonName: "checkout.example"}, DNSNames: []string{"x"}, NotAfter: later}, ""},
		"of nobody":                   {&x509.Certificate{DNSNames: []string{"nobody"}, NotAfter: later}, ""},
		"without a name":              {&x509.Certificate{NotAfter: later}, ""},
		"expired meanwhile":           {&x509.Certificate{DNSNames: []string{"checkout.example"}, NotAfter: time.Now().Add(-time.Second)}, ""},
	} {
		id, err := b.Certificate(t.Context(), c.cert)
		got := ""
		if err == nil {
			got = id.Name + " " + strings.Join(id.Grants.List(), " ")
		} else if !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s: %v", name, err)
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// By hand, past khata token.
	owner, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.OwnerDSN(), MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	if _, err := owner.Exec(t.Context(), `INSERT INTO token (token_id, name, certificate, grants) VALUES ('x', 'impostor', 'checkout.example', '{*:admin}')`); err != nil {
		t.Fatal(err)
	}
	fresh := authenticator(t, auth.Config{Pool: b.pool})
	if _, err := fresh.Certificate(t.Context(), &x509.Certificate{DNSNames: []string{"checkout.example"}, NotAfter: later}); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("a certificate with two names: %v", err)
	}
}
