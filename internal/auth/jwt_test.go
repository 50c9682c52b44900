package auth_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

// issuer is an identity provider.
type issuer struct {
	rsa, small *rsa.PrivateKey
	ec, curve  *ecdsa.PrivateKey
	ed         ed25519.PrivateKey
}

var theIssuer = sync.OnceValue(func() *issuer {
	var i issuer
	var errs [5]error
	i.rsa, errs[0] = rsa.GenerateKey(rand.Reader, 2048)
	i.small, errs[1] = rsa.GenerateKey(rand.Reader, 1024)
	i.ec, errs[2] = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	i.curve, errs[3] = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	_, i.ed, errs[4] = ed25519.GenerateKey(rand.Reader)
	if err := errors.Join(errs[:]...); err != nil {
		panic(err)
	}
	return &i
})

func (i *issuer) set() []jose.JSONWebKey {
	return []jose.JSONWebKey{
		{Key: i.rsa.Public(), KeyID: "r", Algorithm: "RS256", Use: "sig"},
		{Key: i.ec.Public(), KeyID: "e"},
		{Key: i.ed.Public(), KeyID: "d", Use: "sig"},
	}
}

func encodeSet(t testing.TB, keys ...jose.JSONWebKey) []byte {
	t.Helper()
	text, err := json.Marshal(jose.JSONWebKeySet{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func publicPEM(t testing.TB, public crypto.PublicKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

// sign makes a JWT.
func sign(t testing.TB, key any, algorithm jose.SignatureAlgorithm, kid string, claims any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("JWT")
	if kid != "" {
		options = options.WithHeader("kid", kid)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(text)
	if err != nil {
		t.Fatal(err)
	}
	compact, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return compact
}

// bare makes a JWT by hand, with whatever signature.
func bare(header, claims any, signature func(input string) []byte) string {
	part := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	input := part(header) + "." + part(claims)
	return input + "." + base64.RawURLEncoding.EncodeToString(signature(input))
}

type claims map[string]any

// of gives claims that are in order, but for what differs.
func of(subject string, differs claims) claims {
	all := claims{"iss": "https://id.example", "aud": []string{"other", "khata"}, "sub": subject, "exp": time.Now().Add(time.Hour).Unix()}
	for name, v := range differs {
		if all[name] = v; v == nil {
			delete(all, name)
		}
	}
	return all
}

// users is an Authenticator that knows users by keys in a file.
func users(t testing.TB, keys []byte, config auth.JWTConfig) *auth.Authenticator {
	t.Helper()
	if config.Keys == "" {
		config.Keys = filepath.Join(t.TempDir(), "keys")
		if err := os.WriteFile(config.Keys, keys, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config.Issuer, config.Audience = "https://id.example", "khata"
	return authenticator(t, auth.Config{JWT: &config}) // Users need no table.
}

func bearer(t testing.TB, a *auth.Authenticator, token string) (*auth.Identity, error) {
	t.Helper()
	id, err := a.Bearer(t.Context(), "Bearer "+token)
	if err != nil && !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Fatal(err)
	}
	return id, err
}

func TestJWT_LetsItsSubjectIn(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	want := &auth.Identity{Name: "user:shimul", Kind: auth.User, Wallets: []ledger.AccountID{"wallet:shimul"}, SubWallets: true}
	for name, keys := range map[string][]byte{
		"JWK set": encodeSet(t, i.set()...),
		"PEM":     append(append(publicPEM(t, i.rsa.Public()), publicPEM(t, i.ec.Public())...), publicPEM(t, i.ed.Public())...),
	} {
		a := users(t, keys, auth.JWTConfig{})
		for _, token := range []string{
			sign(t, i.rsa, jose.RS256, "r", of("shimul", nil)), sign(t, i.ec, jose.ES256, "e", of("shimul", nil)), sign(t, i.ed, jose.EdDSA, "d", of("shimul", nil)),
			sign(t, i.rsa, jose.RS256, "", of("shimul", nil)),
			sign(t, i.ec, jose.ES256, "e", of("shimul", claims{"aud": "khata", "nbf": time.Now().Unix() + 5, "iat": time.Now().Unix() + 5, "exp": time.Now().Unix() - 5})),
		} {
			id, err := bearer(t, a, token)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if diff := cmp.Diff(want, id); diff != "" {
				t.Errorf("%s: the caller (-want +got):\n%s", name, diff)
			}
			for account, own := range map[ledger.AccountID]bool{
				"wallet:shimul": true, "wallet:shimul:usd": true, "wallet:shimul:": true, "wallet:tithi": false, "wallet:shimul2": false, "wallet:shimu": false,
				"wallet:": false, "": false, "savings:shimul": false, "wallet:tithi:wallet:shimul": false,
			} {
				if id.Owns(account) != own {
					t.Errorf("%s: %s owns %s: %t", name, id.Name, account, !own)
				}
			}
			if id.Grants.Somewhere() != 0 {
				t.Errorf("%s: %s has a role", name, id.Name)
			}
		}
	}
}

func TestJWT_ForgedOrNotForUs(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	rsaPEM := publicPEM(t, i.rsa.Public())
	mac := func(key []byte) func(string) []byte {
		return func(input string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(input))
			return h.Sum(nil)
		}
	}
	none := func(string) []byte { return nil }
	good := sign(t, i.rsa, jose.RS256, "r", of("shimul", nil))
	parts := strings.Split(good, ".")
	tithi, err := json.Marshal(of("tithi", nil))
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(i.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().Unix()
	ok := func(differs claims) string { return sign(t, i.ec, jose.ES256, "e", of("shimul", differs)) }
	tokens := map[string]string{
		"another key":                         sign(t, strange, jose.RS256, "r", of("shimul", nil)),
		"another key without a kid":           sign(t, strange, jose.RS256, "", of("shimul", nil)),
		"an unknown kid":                      sign(t, strange, jose.RS256, "x", of("shimul", nil)),
		"the right key under an unknown kid":  sign(t, i.rsa, jose.RS256, "x", of("shimul", nil)),
		"the right key under another's kid":   sign(t, i.rsa, jose.RS256, "e", of("shimul", nil)),
		"none":                                bare(claims{"alg": "none", "kid": "r"}, of("shimul", nil), none),
		"None":                                bare(claims{"alg": "None"}, of("shimul", nil), none),
		"no algorithm":                        bare(claims{"typ": "JWT"}, of("shimul", nil), none),
		"HS256 with the public key in PEM":    bare(claims{"alg": "HS256", "kid": "r"}, of("shimul", nil), mac(rsaPEM)),
		"HS256 with the public key in DER":    bare(claims{"alg": "HS256", "kid": "r"}, of("shimul", nil), mac(der)),
		"HS256 with the public key of EdDSA":  bare(claims{"alg": "HS256", "kid": "d"}, of("shimul", nil), mac(i.ed.Public().(ed25519.PublicKey))),
		"HS256 with nothing":                  bare(claims{"alg": "HS256"}, of("shimul", nil), mac(nil)),
		"RS256 with no signature":             bare(claims{"alg": "RS256", "kid": "r"}, of("shimul", nil), none),
		"RS512, which is not allowed":         sign(t, i.rsa, jose.RS512, "r", of("shimul", nil)),
		"PS256, which is not allowed":         sign(t, i.rsa, jose.PS256, "r", of("shimul", nil)),
		"a key in the header":                 bare(claims{"alg": "EdDSA", "jwk": jose.JSONWebKey{Key: strange.Public()}}, of("shimul", nil), none),
		"a critical extension":                bare(claims{"alg": "EdDSA", "kid": "d", "crit": []string{"x"}, "x": 1}, of("shimul", nil), func(in string) []byte { return ed25519.Sign(i.ed, []byte(in)) }),
		"other claims under a good signature": parts[0] + "." + base64.RawURLEncoding.EncodeToString(tithi) + "." + parts[2],
		"cut off":                             good[:len(good)-4],
		"two parts":                           parts[0] + "." + parts[1],
		"four parts":                          good + ".x",
		"JSON":                                `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`,
		"too long":                            ok(claims{"more": strings.Repeat("x", 9000)}),
		"words":                               "let me in",
		"no JSON in it":                       func() string { return parts[0] + ".e30x." + parts[2] }(),

		"expired":                     ok(claims{"exp": now - 40}),
		"without an end":              ok(claims{"exp": nil}),
		"an end that is null":         sign(t, i.ec, jose.ES256, "e", map[string]any{"iss": "https://id.example", "aud": "khata", "sub": "shimul", "exp": nil}),
		"not valid yet":               ok(claims{"nbf": now + 60}),
		"issued in the future":        ok(claims{"iat": now + 60}),
		"another issuer":              ok(claims{"iss": "https://id.example.org"}),
		"no issuer":                   ok(claims{"iss": nil}),
		"another audience":            ok(claims{"aud": "khata2"}),
		"other audiences":             ok(claims{"aud": []string{"a", "b"}}),
		"no audience":                 ok(claims{"aud": nil}),
		"an empty audience":           ok(claims{"aud": []string{}}),
		"no subject":                  ok(claims{"sub": nil}),
		"an empty subject":            ok(claims{"sub": ""}),
		"a subject with a space":      ok(claims{"sub": "shimul x"}),
		"a subject with a line break": ok(claims{"sub": "shimul\n"}),
		"a subject beyond ASCII":      ok(claims{"sub": "শিমুল"}),
		"a long subject":              ok(claims{"sub": strings.Repeat("x", 101)}),
		"a subject that is a number":  ok(claims{"sub": 7}),
		"issuer in other case":        ok(claims{"iss": nil, "ISS": "https://id.example"}),
	}
	a := users(t, encodeSet(t, i.set()...), auth.JWTConfig{})
	for name, token := range tokens {
		if id, err := bearer(t, a, token); err == nil {
			t.Errorf("%s: lets %s in", name, id.Name)
		}
	}
	for _, alg := range []string{"another key", "none", "HS256 with the public key in PEM"} {
		if _, err := bearer(t, users(t, rsaPEM, auth.JWTConfig{}), tokens[alg]); err == nil {
			t.Errorf("%s, with the keys in PEM: is let in", alg)
		}
	}
}

func TestJWT_Wallets(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	byClaim := users(t, encodeSet(t, i.set()...), auth.JWTConfig{WalletsClaim: "wallets"})
	token := func(subject string, differs claims) string {
		return sign(t, i.ec, jose.ES256, "e", of(subject, differs))
	}
	for name, c := range map[string]struct {
		wallets any
		want    []ledger.AccountID
		refused bool
	}{
		"two":            {[]string{"wallet:7", "savings:7"}, []ledger.AccountID{"wallet:7", "savings:7"}, false},
		"none":           {nil, nil, false},
		"an empty list":  {[]string{}, []ledger.AccountID{}, false},
		"a string":       {"wallet:7", nil, true},
		"numbers":        {[]int{7}, nil, true},
		"no account":     {[]string{"wallet 7"}, nil, true},
		"a reserved one": {[]string{"khata:x"}, nil, true},
		"too many":       {make([]string, 101), nil, true},
	} {
		id, err := bearer(t, byClaim, token("shimul", claims{"wallets": c.wallets}))
		switch {
		case (err != nil) != c.refused:
			t.Errorf("%s: %v", name, err)
		case err == nil:
			if diff := cmp.Diff(c.want, id.Wallets); diff != "" {
				t.Errorf("%s: (-want +got):\n%s", name, diff)
			}
			if id.Owns("wallet:shimul") || id.Owns("wallet:7:usd") {
				t.Errorf("%s: owns what the claim does not say", name)
			}
		}
	}
	bySubject := users(t, encodeSet(t, i.set()...), auth.JWTConfig{})
	id, err := bearer(t, bySubject, token("shimul:usd", nil))
	if err != nil || len(id.Wallets) > 0 {
		t.Errorf("a subject that looks like a part of another's: %+v, %v", id, err)
	}
}

func TestJWT_Keys(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	private, err := x509.MarshalPKCS8PrivateKey(i.rsa)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text []byte
		keys int
	}{
		"a set":                 {encodeSet(t, i.set()...), 3},
		"with strange ones":     {[]byte(`{"keys":[{"kty":"new"},{"kty":"oct","k":"c2VjcmV0"},{},7,` + string(encodeSet(t, i.set()[1])[len(`{"keys":[`):])), 1},
		"of encryption":         {encodeSet(t, jose.JSONWebKey{Key: i.rsa.Public(), Use: "enc"}), 0},
		"for another algorithm": {encodeSet(t, jose.JSONWebKey{Key: i.rsa.Public(), Algorithm: "RS512"}), 0},
		"a small one":           {encodeSet(t, jose.JSONWebKey{Key: i.small.Public()}), 0},
		"another curve":         {encodeSet(t, jose.JSONWebKey{Key: i.curve.Public()}), 0},
		"a secret":              {[]byte(`{"keys":[{"kty":"oct","k":"c2VjcmV0"}]}`), 0},
		"a private key":         {encodeSet(t, jose.JSONWebKey{Key: i.rsa}), 0},
		"a private key in PEM":  {pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0},
		"a small one in PEM":    {publicPEM(t, i.small.Public()), 0},
		"rubbish in PEM":        {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), 0},
		"rubbish":               {[]byte("keys"), 0},
		"nothing":               {nil, 0},
		"no keys":               {[]byte(`{}`), 0},
	} {
		keys, err := auth.ParseKeys(c.text)
		if len(keys) != c.keys || (err != nil) != (c.keys == 0) {
			t.Errorf("%s: %d keys, %v", name, len(keys), err)
		}
	}
	for name, config := range map[string]auth.JWTConfig{
		"no file":            {Issuer: "i", Audience: "a", Keys: filepath.Join(t.TempDir(), "none")},
		"no issuer":          {Audience: "a", Keys: "x"},
		"no audience":        {Issuer: "i", Keys: "x"},
		"no keys":            {Issuer: "i", Audience: "a"},
		"http":               {Issuer: "i", Audience: "a", Keys: "http://id.example/keys"},
		"http to a namesake": {Issuer: "i", Audience: "a", Keys: "http://127.0.0.1.example/keys"},
		"a file URL":         {Issuer: "i", Audience: "a", Keys: "file:///etc/passwd"},
	} {
		if a, err := auth.New(t.Context(), auth.Config{JWT: &config, Logger: discard}); err == nil {
			a.Close()
			t.Errorf("%s: is taken", name)
		}
	}
}

func TestJWT_FileChanges(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	file := filepath.Join(t.TempDir(), "keys")
	write := func(keys ...jose.JSONWebKey) {
		if err := os.WriteFile(file, encodeSet(t, keys...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(i.set()[:1]...)
	a := users(t, nil, auth.JWTConfig{Keys: file})
	before, after := sign(t, i.rsa, jose.RS256, "r", of("shimul", nil)), sign(t, i.ed, jose.EdDSA, "d", of("shimul", nil))
	if _, err := bearer(t, a, before); err != nil {
		t.Fatal(err)
	}
	write(i.set()[2:]...)
	deadline := time.Now().Add(2*auth.KeysPause + 2*time.Second)
	for _, err := bearer(t, a, after); err != nil; _, err = bearer(t, a, after) {
		if time.Now().After(deadline) {
			t.Fatal("the new key is not known:", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if _, err := bearer(t, a, before); err == nil {
		t.Error("a key that was taken out is still known")
	}
}

func TestJWT_URL(t *testing.T) {
	t.Parallel()
	i := theIssuer()
	var asked atomic.Int64
	var away atomic.Bool
	var keys atomic.Pointer[[]byte]
	publish := func(list ...jose.JSONWebKey) {
		text := encodeSet(t, list...)
		keys.Store(&text)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		switch {
		case r.URL.Path == "/elsewhere":
			http.Redirect(w, r, "http://id.example/keys", http.StatusFound)
		case away.Load():
			http.Error(w, "away", http.StatusServiceUnavailable)
		default:
			_, _ = w.Write(*keys.Load())
		}
	}))
	t.Cleanup(provider.Close)
	publish(i.set()[:1]...)
	a := users(t, nil, auth.JWTConfig{Keys: provider.URL})
	old := sign(t, i.rsa, jose.RS256, "r", of("shimul", nil))
	if _, err := bearer(t, a, old); err != nil {
		t.Fatal(err)
	}
	// A new key, ahead of its use. Until the keys may be read again, ids that are not known are refused without asking.
	publish(i.set()...)
	began, before := time.Now(), asked.Load()
	next := sign(t, i.ed, jose.EdDSA, "d", of("shimul", nil))
	for _, err := bearer(t, a, next); err != nil; _, err = bearer(t, a, next) {
		for n := range 20 {
			_, _ = bearer(t, a, sign(t, i.ed, jose.EdDSA, fmt.Sprint(n), of("shimul", nil)))
		}
		if time.Since(began) > 2*auth.KeysPause+10*time.Second {
			t.Fatal("the new key is not known:", err)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if got := asked.Load() - before; got > int64(time.Since(began)/auth.KeysPause)+1 {
		t.Errorf("the provider was asked %d times in %v", got, time.Since(began))
	}
	away.Store(true)
	if _, err := bearer(t, a, old); err != nil {
		t.Errorf("while the provider is away: %v", err)
	}
	fresh := users(t, nil, auth.JWTConfig{Keys: provider.URL})
	if _, err := fresh.Bearer(t.Context(), "Bearer "+old); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("of a provider who was away from the start: %v", err)
	}
	away.Store(false)
	redirected := users(t, nil, auth.JWTConfig{Keys: provider.URL + "/elsewhere"})
	if _, err := redirected.Bearer(t.Context(), "Bearer "+old); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("redirected to plain http: %v", err)
	}
}
