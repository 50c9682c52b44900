package auth_test

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/devidp"
	"github.com/khata-ledger/khata/ledger"
)

const base = "https://books.example"

// idp is an identity provider that can be made to answer anything. It does not look at codes: what keeps strangers out is to hold without it.
type idp struct {
	*httptest.Server
	mu sync.Mutex
	// describes are the claims of its description, token what it answers a code with, and hooks answer instead of it, by path.
	describes claims
	token     func(nonce string) string
	nonce     string
	hooks     map[string]http.HandlerFunc
	// asked are the forms that came with codes, and their authorization.
	asked []url.Values
	basic []string
}

func newIDP(t testing.TB) *idp {
	t.Helper()
	i := &idp{hooks: map[string]http.HandlerFunc{}}
	i.Server = httptest.NewServer(i)
	t.Cleanup(i.Close)
	i.describes = claims{"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize?tenant=7", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys"}
	i.token = func(nonce string) string { return i.signed(t, claims{"nonce": nonce}) }
	return i
}

func (i *idp) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	hook, describes, token, nonce := i.hooks[r.URL.Path], maps.Clone(i.describes), i.token, i.nonce
	i.mu.Unlock()
	switch {
	case hook != nil:
		hook(w, r)
	case r.URL.Path == "/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(describes)
	case r.URL.Path == "/keys":
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: theIssuer().set()})
	case r.URL.Path == "/token" && r.ParseForm() == nil:
		i.mu.Lock()
		i.asked, i.basic = append(i.asked, r.PostForm), append(i.basic, r.Header.Get("Authorization"))
		i.mu.Unlock()
		_ = json.NewEncoder(w).Encode(claims{"id_token": token(nonce), "access_token": "x", "token_type": "Bearer"})
	default:
		http.NotFound(w, r)
	}
}

// set changes what it does.
func (i *idp) set(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	f()
}

// claims of a token that is in order, but for what differs.
func (i *idp) claims(differs claims) claims {
	all := claims{"aud": "console", "iss": i.URL, "iat": time.Now().Unix(), "groups": []string{"staff", "khata-finance"}, "name": "Ayesha Rahman"}
	maps.Copy(all, differs)
	return of("248289761001", all)
}

func (i *idp) signed(t testing.TB, differs claims) string {
	return sign(t, theIssuer().rsa, jose.RS256, "r", i.claims(differs))
}

func (i *idp) config(change ...func(*auth.OIDCConfig)) auth.OIDCConfig {
	c := auth.OIDCConfig{Issuer: i.URL, ClientID: "console", Base: base, Grants: map[string]auth.Grants{
		"khata-finance": {"main": auth.Finance}, "khata-admin": {"*": auth.Admin}, "ayesha@example.com": {"shop": auth.Reader},
	}}
	for _, f := range change {
		f(&c)
	}
	return c
}

func newProvider(t testing.TB, config auth.OIDCConfig) *auth.Provider {
	t.Helper()
	p, err := auth.NewProvider(config, discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// begin begins a sign-in in a browser, and gives its cookie and what the provider was asked.
func begin(t testing.TB, p *auth.Provider) (cookie string, asked url.Values) {
	t.Helper()
	cookie, to, err := p.Begin(t.Context(), "/console/main/", "", false)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	return cookie, at.Query()
}

// signIn is a whole sign-in, of which the provider's answer is altered.
func (i *idp) signIn(t testing.TB, p *auth.Provider, change ...func(answer url.Values)) (auth.Finished, error) {
	t.Helper()
	cookie, asked := begin(t, p)
	i.set(func() { i.nonce = asked.Get("nonce") })
	answer := url.Values{"code": {"c"}, "state": {asked.Get("state")}}
	for _, f := range change {
		f(answer)
	}
	return p.Finish(t.Context(), cookie, answer)
}

func TestOIDC_SignsIn(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := newProvider(t, i.config())
	cookie, asked := begin(t, p)
	i.set(func() { i.nonce = asked.Get("nonce") })
	got, err := p.Finish(t.Context(), cookie, url.Values{"code": {"a code"}, "state": {asked.Get("state")}, "iss": {i.URL}, "session_state": {"x"}})
	want := auth.Finished{Subject: "248289761001", Name: "248289761001", Display: "Ayesha Rahman", Next: "/console/main/", Groups: []string{"khata-finance"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	verifier := i.asked[0].Get("code_verifier")
	challenge := sha256.Sum256([]byte(verifier))
	wantAsked := url.Values{
		"tenant": {"7"}, "response_type": {"code"}, "client_id": {"console"}, "redirect_uri": {base + "/console/signin/callback"}, "scope": {"openid profile email"},
		"state": {asked.Get("state")}, "nonce": {asked.Get("nonce")}, "code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])},
		"code_challenge_method": {"S256"},
	}
	if diff := cmp.Diff(wantAsked, asked); diff != "" {
		t.Errorf("what the provider is asked (-want +got):\n%s", diff)
	}
	wantForm := url.Values{
		"grant_type": {"authorization_code"}, "code": {"a code"}, "redirect_uri": {base + "/console/signin/callback"}, "code_verifier": {verifier}, "client_id": {"console"},
	}
	if diff := cmp.Diff(wantForm, i.asked[0]); diff != "" || i.basic[0] != "" {
		t.Errorf("how the code is redeemed, %q (-want +got):\n%s", i.basic[0], diff)
	}
	// Nothing can be told from one of these about another, and all are new each time.
	_, second := begin(t, p)
	all := map[string]bool{"": true}
	for _, secret := range []string{
		verifier, asked.Get("state"), asked.Get("nonce"), asked.Get("code_challenge"), second.Get("state"), second.Get("nonce"), second.Get("code_challenge"),
	} {
		if all[secret] || len(secret) != 43 {
			t.Errorf("%q comes twice, or is too short", secret)
		}
		all[secret] = true
	}
}

// Who does not come back to where he began, or too late, or from elsewhere, is not signed in, whatever the code is worth.
func TestOIDC_Answers(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	p := newProvider(t, i.config())
	other, otherAsked := begin(t, p)
	set := func(pairs ...string) func(url.Values) {
		return func(answer url.Values) {
			for n := 0; n < len(pairs); n += 2 {
				answer.Set(pairs[n], pairs[n+1])
			}
		}
	}
	for name, change := range map[string]func(url.Values){
		"no state": set("state", ""), "another state": set("state", strings.Repeat("A", 43)), "another browser's state": set("state", otherAsked.Get("state")),
		"no code": set("code", ""), "another issuer's": set("iss", "https://evil.example"), "declined": set("error", "access_denied"),
		"an error and a code": set("error", "server_error", "error_description", "<script>"), "the nonce for the state": set("state", otherAsked.Get("nonce")),
	} {
		if got, err := i.signIn(t, p, change); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	cookie, asked := begin(t, p)
	i.set(func() { i.nonce = asked.Get("nonce") })
	answer := url.Values{"code": {"c"}, "state": {asked.Get("state")}}
	key, next, _ := strings.Cut(cookie, ".")
	raw, err := base64.RawURLEncoding.DecodeString(key)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)-1]++ // A second later.
	for name, cookie := range map[string]string{
		"none": "", "another browser's": other, "a longer life": base64.RawURLEncoding.EncodeToString(raw) + "." + next, "half": key[:20], "rubbish": "!.!",
		"another order": next + "." + key, "zeros": base64.RawURLEncoding.EncodeToString(make([]byte, 40)) + ".",
	} {
		if got, err := p.Finish(t.Context(), cookie, answer); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("the cookie is %s: %+v, %v", name, got, err)
		}
	}
	if n := len(i.asked); n > 0 {
		t.Errorf("codes were redeemed: %v", i.asked)
	}
	for by, in := range map[time.Duration]bool{11 * time.Minute: false, -time.Minute: false, 0: true} {
		p.Later(by)
		if _, err := p.Finish(t.Context(), cookie, answer); (err == nil) != in {
			t.Errorf("%v later: %v", by, err)
		}
	}
	// A provider that says that it names itself in each answer does.
	i.set(func() { i.describes["authorization_response_iss_parameter_supported"] = true })
	strict := newProvider(t, i.config())
	if _, err := i.signIn(t, strict); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("an answer of nobody's: %v", err)
	}
	if _, err := i.signIn(t, strict, set("iss", i.URL)); err != nil {
		t.Error(err)
	}
}

// A code that somebody else was given, or that was redeemed, is worth nothing: not with a provider that looks at it, nor with one that does not.
func TestOIDC_StolenCodes(t *testing.T) {
	t.Parallel()
	front := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(front.Close)
	real, err := devidp.New(devidp.Config{Issuer: front.URL, ClientID: "console", RedirectURI: base + auth.OIDCCallback,
		People: []devidp.Person{{Login: "ayesha", Name: "Ayesha", Groups: []string{"khata-finance"}}, {Login: "rahim", Name: "Rahim", Groups: []string{"khata-admin"}}}})
	if err != nil {
		t.Fatal(err)
	}
	front.Config.Handler = real
	i := newIDP(t)
	p := newProvider(t, i.config(func(c *auth.OIDCConfig) { c.Issuer, c.People = front.URL, []string{"Ayesha", "Rahim"} }))
	leave := func(who string) (cookie string, answer url.Values) {
		t.Helper()
		cookie, to, err := p.Begin(t.Context(), "/console/", who, false)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultTransport.RoundTrip(httptest.NewRequest(http.MethodGet, to, nil))
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		at, err := resp.Location()
		if err != nil {
			t.Fatal(err)
		}
		return cookie, at.Query()
	}
	cookie, answer := leave("Ayesha")
	if got, err := p.Finish(t.Context(), cookie, answer); err != nil || got.Name != "ayesha" || got.Display != "Ayesha" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := p.Finish(t.Context(), cookie, answer); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("the same answer again: %+v, %v", got, err)
	}
	_, stolen := leave("Rahim")
	mine, answer := leave("Ayesha")
	answer.Set("code", stolen.Get("code"))
	if got, err := p.Finish(t.Context(), mine, answer); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("a code of another browser: %+v, %v", got, err)
	}
	// The other provider takes any code. What it signs was asked for by another sign-in.
	careless := newProvider(t, i.config())
	_, asked := begin(t, careless)
	mine, own := begin(t, careless)
	i.set(func() { i.nonce = asked.Get("nonce") })
	if got, err := careless.Finish(t.Context(), mine, url.Values{"code": {"c"}, "state": {own.Get("state")}}); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("another sign-in's token: %+v, %v", got, err)
	}
}

func TestOIDC_ForgedTokens(t *testing.T) {
	t.Parallel()
	i, keys := newIDP(t), theIssuer()
	strange, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(keys.rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	mac := func(key []byte) func(string) []byte {
		return func(input string) []byte {
			h := hmac.New(sha256.New, key)
			h.Write([]byte(input))
			return h.Sum(nil)
		}
	}
	none := func(string) []byte { return nil }
	with := func(differs claims) func(string) string {
		return func(nonce string) string {
			all := claims{"nonce": nonce}
			maps.Copy(all, differs)
			return i.signed(t, all)
		}
	}
	by := func(key any, algorithm jose.SignatureAlgorithm, kid string) func(string) string {
		return func(nonce string) string { return sign(t, key, algorithm, kid, i.claims(claims{"nonce": nonce})) }
	}
	plain := func(header claims, signature func(string) []byte) func(string) string {
		return func(nonce string) string { return bare(header, i.claims(claims{"nonce": nonce}), signature) }
	}
	now := time.Now().Unix()
	for name, token := range map[string]func(string) string{
		"another key":                      by(strange, jose.RS256, "r"),
		"an unknown kid":                   by(strange, jose.RS256, "x"),
		"another algorithm":                by(keys.rsa, jose.RS512, "r"),
		"PS256":                            by(keys.rsa, jose.PS256, "r"),
		"none":                             plain(claims{"alg": "none"}, none),
		"nOnE":                             plain(claims{"alg": "nOnE", "kid": "r"}, none),
		"no algorithm":                     plain(claims{"typ": "JWT"}, none),
		"HS256 with the public key in PEM": plain(claims{"alg": "HS256", "kid": "r"}, mac(publicPEM(t, keys.rsa.Public()))),
		"HS256 with the public key in DER": plain(claims{"alg": "HS256", "kid": "r"}, mac(der)),
		"HS256 with the client's id":       plain(claims{"alg": "HS256"}, mac([]byte("console"))),
		"no signature":                     plain(claims{"alg": "RS256", "kid": "r"}, none),
		"a key of its own":                 plain(claims{"alg": "RS256", "jwk": jose.JSONWebKey{Key: strange.Public()}}, none),
		"no token":                         func(string) string { return "let.me.in" },
		"too long":                         with(claims{"more": strings.Repeat("x", 70000)}),
		"another nonce":                    with(claims{"nonce": strings.Repeat("A", 43)}),
		"no nonce":                         with(claims{"nonce": nil}),
		"a nonce that is a list":           func(nonce string) string { return i.signed(t, claims{"nonce": []string{nonce}}) },
		"another audience":                 with(claims{"aud": "khata"}),
		"no audience":                      with(claims{"aud": nil}),
		"two audiences, and no party":      with(claims{"aud": []string{"console", "khata"}}),
		"another party":                    with(claims{"aud": []string{"console", "khata"}, "azp": "khata"}),
		"another party alone":              with(claims{"azp": "khata"}),
		"an empty party":                   with(claims{"azp": ""}),
		"another issuer":                   with(claims{"iss": "https://id.example"}),
		"no issuer":                        with(claims{"iss": nil}),
		"an issuer with a slash more":      with(claims{"iss": i.URL + "/"}),
		"expired":                          with(claims{"exp": now - 40}),
		"no end":                           with(claims{"exp": nil}),
		"issued in the future":             with(claims{"iat": now + 60}),
		"never issued":                     with(claims{"iat": nil}),
		"not valid yet":                    with(claims{"nbf": now + 60}),
		"no subject":                       with(claims{"sub": nil}),
		"an empty subject":                 with(claims{"sub": ""}),
		"a subject with a line break":      with(claims{"sub": "ayesha\nadmin"}),
		"a long subject":                   with(claims{"sub": strings.Repeat("x", 256)}),
		"a subject that is a number":       with(claims{"sub": 7}),
	} {
		i.set(func() { i.token = token })
		p := newProvider(t, i.config()) // So that an unknown kid does not have to wait for the pause between two readings.
		if got, err := i.signIn(t, p); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	p := newProvider(t, i.config())
	for name, token := range map[string]func(string) string{
		"ES256": by(keys.ec, jose.ES256, "e"), "EdDSA": by(keys.ed, jose.EdDSA, "d"), "two audiences and the party": with(claims{"aud": []string{"x", "console"}, "azp": "console"}),
		"a clock that is behind": with(claims{"exp": now - 10}), "a clock that is ahead": with(claims{"iat": now + 10}),
	} {
		i.set(func() { i.token = token })
		if _, err := i.signIn(t, p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the provider's claims are made of is whatever somebody has configured there.
func TestOIDC_Claims(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	finance := []string{"khata-finance"}
	ayesha := func(groups ...string) auth.Finished {
		return auth.Finished{Name: "248289761001", Display: "Ayesha Rahman", Groups: groups}
	}
	byEmail := func(c *auth.OIDCConfig) { c.GroupsClaim = "email" }
	called := func(claim string) func(*auth.OIDCConfig) {
		return func(c *auth.OIDCConfig) { c.NameClaim = claim }
	}
	for name, c := range map[string]struct {
		claims claims
		change func(*auth.OIDCConfig)
		want   auth.Finished // nobody where it has no name
	}{
		"a text":                   {claims{"groups": "khata-finance"}, nil, ayesha(finance...)},
		"twice the same":           {claims{"groups": []string{"khata-finance", "khata-finance"}}, nil, ayesha(finance...)},
		"two":                      {claims{"groups": []string{"khata-admin", "x", "khata-finance"}}, nil, ayesha("khata-admin", "khata-finance")},
		"no groups":                {claims{"groups": nil}, nil, auth.Finished{}},
		"an empty list":            {claims{"groups": []string{}}, nil, auth.Finished{}},
		"no group with a role":     {claims{"groups": []string{"staff", "KHATA-FINANCE", "khata-finance ", ""}}, nil, auth.Finished{}},
		"a number":                 {claims{"groups": 7}, nil, auth.Finished{}},
		"an object":                {claims{"groups": claims{"khata-admin": true}}, nil, auth.Finished{}},
		"true":                     {claims{"groups": true}, nil, auth.Finished{}},
		"a list of odd things":     {claims{"groups": []any{"khata-finance", 7}}, nil, auth.Finished{}},
		"a list with null":         {claims{"groups": []any{"khata-finance", json.RawMessage("null")}}, nil, auth.Finished{}},
		"a list of lists":          {claims{"groups": [][]string{{"khata-finance"}}}, nil, auth.Finished{}},
		"names with commas":        {claims{"groups": "khata-finance,khata-admin"}, nil, auth.Finished{}},
		"another claim":            {claims{"groups": nil, "roles": finance}, func(c *auth.OIDCConfig) { c.GroupsClaim = "roles" }, ayesha(finance...)},
		"a group of one":           {claims{"email": "Ayesha@Example.com", "email_verified": true}, byEmail, ayesha("ayesha@example.com")},
		"an email of anybody's":    {claims{"email": "ayesha@example.com"}, byEmail, auth.Finished{}},
		"one that is not checked":  {claims{"email": "ayesha@example.com", "email_verified": false}, byEmail, auth.Finished{}},
		"by email":                 {claims{"email": "Ayesha@Example.com", "email_verified": "true"}, called("email"), auth.Finished{Name: "ayesha@example.com", Display: "Ayesha Rahman", Groups: finance}},
		"by anybody's email":       {claims{"email": "ayesha@example.com", "email_verified": "false"}, called("email"), auth.Finished{}},
		"by another name":          {claims{"upn": "ayesha"}, called("upn"), auth.Finished{Name: "ayesha", Display: "Ayesha Rahman", Groups: finance}},
		"by no name":               {claims{}, called("upn"), auth.Finished{}},
		"by two names":             {claims{"upn": []string{"a", "b"}}, called("upn"), auth.Finished{}},
		"by a name with a space":   {claims{"upn": "ayesha rahman"}, called("upn"), auth.Finished{}},
		"by a number":              {claims{"upn": 7}, called("upn"), auth.Finished{}},
		"a long name":              {claims{"name": strings.Repeat("ত", 100)}, nil, auth.Finished{Name: "248289761001", Display: strings.Repeat("ত", 80), Groups: finance}},
		"a name that turns around": {claims{"name": "  Ay\u202eesha\n\t <b>\u0000 "}, nil, auth.Finished{Name: "248289761001", Display: "Ayesha <b>", Groups: finance}},
		"a name that is a list":    {claims{"name": []int{1}, "preferred_username": "ayesha"}, nil, auth.Finished{Name: "248289761001", Display: "ayesha", Groups: finance}},
		"no name to show":          {claims{"name": "\u202e"}, nil, auth.Finished{Name: "248289761001", Groups: finance}},
	} {
		i.set(func() {
			i.token = func(nonce string) string {
				all := claims{"nonce": nonce}
				maps.Copy(all, c.claims)
				return i.signed(t, all)
			}
		})
		p := newProvider(t, i.config(func(config *auth.OIDCConfig) {
			if c.change != nil {
				c.change(config)
			}
		}))
		got, err := i.signIn(t, p)
		if c.want.Name == "" {
			if !errors.Is(err, ledger.CodePermissionDenied) {
				t.Errorf("%s: %+v, %v", name, got, err)
			}
			continue
		}
		c.want.Subject, c.want.Next = "248289761001", "/console/main/"
		if diff := cmp.Diff(c.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestOIDC_Secret(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	file := filepath.Join(t.TempDir(), "secret")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a secret+\n")
	withSecret := func(c *auth.OIDCConfig) { c.SecretFile, c.ClientID = file, "con:sole" }
	i.token = func(nonce string) string { return i.signed(t, claims{"nonce": nonce, "aud": "con:sole"}) }
	p := newProvider(t, i.config(withSecret))
	if _, err := i.signIn(t, p); err != nil {
		t.Fatal(err)
	}
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte("con%3Asole:a+secret%2B"))
	if i.basic[0] != want || i.asked[0].Has("client_secret") || i.asked[0].Has("client_id") {
		t.Errorf("the secret goes as %q %v, want %q", i.basic[0], i.asked[0], want)
	}
	write("another") // It is taken without a restart.
	i.set(func() {
		i.describes["token_endpoint_auth_methods_supported"] = []string{"private_key_jwt", "client_secret_post"}
	})
	inForm := newProvider(t, i.config(withSecret))
	if _, err := i.signIn(t, inForm); err != nil {
		t.Fatal(err)
	}
	if i.basic[1] != "" || i.asked[1].Get("client_secret") != "another" || i.asked[1].Get("client_id") != "con:sole" {
		t.Errorf("in the form the secret goes as %q %v", i.basic[1], i.asked[1])
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if _, err := i.signIn(t, p); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("without the file: %v", err)
	}
}

func TestOIDC_ProviderFaults(t *testing.T) {
	t.Parallel()
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(text))
		}
	}
	endless := func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(`{"id_token":"`))
		for block := []byte(strings.Repeat("x", 64<<10)); r.Context().Err() == nil; {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
	const described, keys, token = "/.well-known/openid-configuration", "/keys", "/token"
	for name, c := range map[string]struct {
		path string
		hook http.HandlerFunc
		set  claims
		want ledger.Code
	}{
		"away":                    {described, status(503, ""), nil, ledger.CodeUnavailable},
		"no description":          {described, status(404, ""), nil, ledger.CodeUnavailable},
		"a description in HTML":   {described, status(200, "<html>"), nil, ledger.CodeUnavailable},
		"an endless description":  {described, endless, nil, ledger.CodeUnavailable},
		"a list":                  {described, status(200, "[]"), nil, ledger.CodeUnavailable},
		"another issuer":          {"", nil, claims{"issuer": "https://id.example"}, ledger.CodeUnavailable},
		"codes in plain text":     {"", nil, claims{"token_endpoint": "http://id.example/token"}, ledger.CodeUnavailable},
		"a script to sign in at":  {"", nil, claims{"authorization_endpoint": "javascript:alert(1)"}, ledger.CodeUnavailable},
		"nowhere to sign in":      {"", nil, claims{"authorization_endpoint": ""}, ledger.CodeUnavailable},
		"keys in a file":          {"", nil, claims{"jwks_uri": "file:///etc/passwd"}, ledger.CodeUnavailable},
		"a way out in plain text": {"", nil, claims{"end_session_endpoint": "http://id.example/"}, ledger.CodeUnavailable},
		"no keys":                 {keys, status(200, `{"keys":[]}`), nil, ledger.CodeUnavailable},
		"keys that lead to plain": {keys, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://id.example/", http.StatusFound)
		}, nil, ledger.CodeUnavailable},
		"endless keys":             {keys, endless, nil, ledger.CodeUnavailable},
		"a code refused":           {token, status(400, `{"error":"invalid_grant"}`), nil, ledger.CodeUnauthenticated},
		"the console refused":      {token, status(401, `{"error":"invalid_client"}`), nil, ledger.CodeUnavailable},
		"an error with 200":        {token, status(200, `{"error":"server_error"}`), nil, ledger.CodeUnavailable},
		"an endless token":         {token, endless, nil, ledger.CodeUnavailable},
		"a token in HTML":          {token, status(200, "<html>"), nil, ledger.CodeUnavailable},
		"no token":                 {token, status(200, `{"access_token":"x"}`), nil, ledger.CodeUnavailable},
		"a token that is a number": {token, status(200, `{"id_token":7}`), nil, ledger.CodeUnavailable},
		"an error of the server":   {token, status(500, `{"id_token":"x"}`), nil, ledger.CodeUnavailable},
		"a token that is rubbish":  {token, status(200, `{"id_token":"x"}`), nil, ledger.CodeUnauthenticated},
		"a code that is to go on": {token, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		}, nil, ledger.CodeUnavailable},
		"a connection that breaks":    {token, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, nil, ledger.CodeUnavailable},
		"a description that is slow":  {described, slow, nil, ledger.CodeDeadlineExceeded},
		"a token that does not come":  {token, slow, nil, ledger.CodeDeadlineExceeded},
		"what is published elsewhere": {"/elsewhere", func(http.ResponseWriter, *http.Request) { t.Error("the code was sent on") }, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := newIDP(t)
			maps.Copy(i.describes, c.set)
			i.hooks[c.path] = c.hook
			p := newProvider(t, i.config())
			patience := time.Minute // A machine that is busy may take its time to answer.
			if c.want == ledger.CodeDeadlineExceeded {
				patience = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cookie, to, err := p.Begin(ctx, "", "", false)
			if err == nil {
				at, _ := url.Parse(to)
				i.set(func() { i.nonce = at.Query().Get("nonce") })
				_, err = p.Finish(ctx, cookie, url.Values{"code": {"c"}, "state": {at.Query().Get("state")}})
			}
			if c.want == "" && err != nil || c.want != "" && !errors.Is(err, c.want) {
				t.Errorf("%v", err)
			}
			var known *ledger.Error
			if c.want == ledger.CodeUnavailable && (!errors.As(err, &known) || !strings.Contains(known.Message, "127.0.0.1")) {
				t.Errorf("it does not say which provider: %v", err)
			}
		})
	}
}

// slow answers nothing for as long as somebody waits.
func slow(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // Only then a server notices that the other end has gone.
	<-r.Context().Done()
}

// A provider that comes back is asked again, and what is known of one that goes is good for a while.
func TestOIDC_ProviderComesAndGoes(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	i.hooks["/.well-known/openid-configuration"] = http.NotFound
	p := newProvider(t, i.config())
	if _, _, err := p.Begin(t.Context(), "", "", false); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("a provider that is away: %v", err)
	}
	if to := p.SignOutURL(t.Context()); to != "" {
		t.Errorf("to sign out one goes to %s", to)
	}
	i.set(func() {
		clear(i.hooks)
		i.describes["end_session_endpoint"] = i.URL + "/signout?tenant=7"
	})
	if _, err := i.signIn(t, p); err != nil {
		t.Errorf("after it has come back: %v", err)
	}
	want := i.URL + "/signout?client_id=console&post_logout_redirect_uri=https%3A%2F%2Fbooks.example%2Fconsole%2Fsignin&state=left&tenant=7"
	if to := p.SignOutURL(t.Context()); to != want {
		t.Errorf("to sign out one goes to %s, want %s", to, want)
	}
	i.set(func() { i.hooks["/.well-known/openid-configuration"] = http.NotFound })
	if _, err := i.signIn(t, p); err != nil {
		t.Errorf("after its description is gone: %v", err)
	}
	_, to, err := p.Begin(t.Context(), "", "Mallory", true)
	at, _ := url.Parse(to)
	if err != nil || at.Query().Get("prompt") != "login" || at.Query().Has("login_hint") {
		t.Errorf("to be somebody else one goes to %s: %v", to, err)
	}
}

func TestOIDC_Config(t *testing.T) {
	t.Parallel()
	i := newIDP(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte("\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*auth.OIDCConfig)
		says   string
	}{
		"no issuer":              {func(c *auth.OIDCConfig) { c.Issuer = "" }, "issuer is missing"},
		"an issuer in plain":     {func(c *auth.OIDCConfig) { c.Issuer = "http://id.example" }, "https"},
		"an issuer with a query": {func(c *auth.OIDCConfig) { c.Issuer = "https://id.example?x" }, "https"},
		"no URL":                 {func(c *auth.OIDCConfig) { c.Issuer = "id.example" }, "https"},
		"no client":              {func(c *auth.OIDCConfig) { c.ClientID = "" }, "client id is missing"},
		"no way back":            {func(c *auth.OIDCConfig) { c.Base = "" }, "https://books.example"},
		"a way back in plain":    {func(c *auth.OIDCConfig) { c.Base = "http://books.example" }, "with https"},
		"a way back with a path": {func(c *auth.OIDCConfig) { c.Base = "https://books.example/khata" }, "without a path"},
		"no URL to come back to": {func(c *auth.OIDCConfig) { c.Base = "books.example" }, "with https"},
		"nobody":                 {func(c *auth.OIDCConfig) { c.Grants = nil }, "nobody could sign in"},
		"no secret":              {func(c *auth.OIDCConfig) { c.SecretFile = filepath.Join(t.TempDir(), "none") }, "client secret"},
		"an empty secret":        {func(c *auth.OIDCConfig) { c.SecretFile = empty }, "client secret"},
	} {
		p, err := auth.NewProvider(i.config(c.change), discard)
		if err == nil {
			p.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want something with %q", name, err, c.says)
		}
	}
	for _, given := range []string{"https://books.example", "https://books.example/", "https://books.example/console/signin/callback"} {
		p := newProvider(t, i.config(func(c *auth.OIDCConfig) { c.Base = given }))
		if _, asked := begin(t, p); asked.Get("redirect_uri") != "https://books.example/console/signin/callback" || !p.Secure() {
			t.Errorf("%s: %s, %t", given, asked.Get("redirect_uri"), p.Secure())
		}
	}
	if p := newProvider(t, i.config(func(c *auth.OIDCConfig) { c.Base = "http://localhost:7093" })); p.Secure() {
		t.Error("http is taken for TLS")
	}
}

func TestOIDC_GroupGrants(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]map[string][]string{
		"khata-finance=main:finance":                 {"khata-finance": {"main:finance"}},
		"a=main:finance,shop:reader":                 {"a": {"main:finance", "shop:reader"}},
		"a=main:finance; b = *:reader ;\na=x:admin":  {"a": {"main:finance", "x:admin"}, "b": {"*:reader"}},
		"cn=khata,ou=groups,dc=example=main:support": {"cn=khata,ou=groups,dc=example": {"main:support"}},
		"Khata Finance=main:finance, main:reader":    {"Khata Finance": {"main:reader", "main:finance"}},
		" ; ": {},
	} {
		got, err := auth.ParseGroupGrants([]string{text})
		lists := map[string][]string{}
		for group, grants := range got {
			lists[group] = grants.List()
		}
		if diff := cmp.Diff(want, lists); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	for _, text := range []string{"khata-finance", "=main:finance", "a=", "a=main", "a=main:owner", "a=MAIN:finance", "a=main:finance b=main:finance", "a=main:finance,"} {
		if got, err := auth.ParseGroupGrants([]string{text}); err == nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// A session of a person is worth what the groups may do now, and nothing on a server that knows another provider, or none.
func TestSession_OfAPerson(t *testing.T) {
	t.Parallel()
	b, i := setup(t), newIDP(t)
	sessions := func(callers *auth.Authenticator, p *auth.Provider) *auth.Sessions {
		return auth.NewSessions(auth.SessionsConfig{Pool: b.pool, Callers: callers, Provider: p})
	}
	p := newProvider(t, i.config())
	s := sessions(b.Authenticator, p)
	cookie, asked := begin(t, p)
	i.set(func() { i.nonce = asked.Get("nonce") })
	secret, next, id, err := s.SignInWith(t.Context(), cookie, url.Values{"code": {"c"}, "state": {asked.Get("state")}})
	if err != nil || next != "/console/main/" {
		t.Fatal(next, err)
	}
	want := &auth.Identity{Name: "oidc:248289761001", Kind: auth.Person, Grants: auth.Grants{"main": auth.Finance}}
	got, err := s.Get(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []*auth.Identity{id, got.Identity} {
		if diff := cmp.Diff(want, id); diff != "" || got.Display != "Ayesha Rahman" {
			t.Errorf("the caller, %s (-want +got):\n%s", got.Display, diff)
		}
	}
	more := newProvider(t, i.config(func(c *auth.OIDCConfig) { c.Grants = map[string]auth.Grants{"khata-finance": {"main": auth.Reader}} }))
	if got, err := sessions(b.Authenticator, more).Get(t.Context(), secret); err != nil || got.Grants["main"] != auth.Reader {
		t.Errorf("after the group has another role: %+v, %v", got, err)
	}
	other := newIDP(t)
	for name, s := range map[string]*auth.Sessions{
		"a server that asks nobody":  sessions(nil, nil),
		"a server without providers": sessions(b.Authenticator, nil),
		"another provider's":         sessions(b.Authenticator, newProvider(t, other.config())),
		"another provider's sandbox": sessions(nil, newProvider(t, other.config())),
		"the group has no role any more": sessions(b.Authenticator, newProvider(t, i.config(func(c *auth.OIDCConfig) {
			delete(c.Grants, "khata-finance")
		}))),
	} {
		if got, err := s.Get(t.Context(), secret); !errors.Is(err, ledger.CodeUnauthenticated) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	if _, err := s.Get(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := sessions(b.Authenticator, nil).SignInWith(t.Context(), cookie, nil); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("without a provider: %v", err)
	}
	// Nothing of the provider's that could be used again is kept.
	var row string
	if err := b.pool.QueryRow(t.Context(), `SELECT console_session::text FROM console_session`).Scan(&row); err != nil || strings.Contains(row, "eyJ") {
		t.Errorf("%s: %v", row, err)
	}
	if err := s.End(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(t.Context(), secret); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("after the end: %v", err)
	}
	for n, columns := range []string{
		`token_id, oidc_issuer, oidc_subject, oidc_name, oidc_display, oidc_groups) VALUES ('x', 'i', 's', 'n', 'd', '{}'`,
		`oidc_issuer, oidc_subject, oidc_name, oidc_display) VALUES ('i', 's', 'n', 'd'`, `oidc_subject) VALUES ('s'`,
		`persona, oidc_issuer) VALUES ('Admin', 'i'`,
	} {
		into, values, _ := strings.Cut(columns, ") VALUES (")
		if _, err := b.pool.Exec(t.Context(), fmt.Sprintf(`INSERT INTO console_session (session_sha256, expires_at, %s)
			VALUES (sha256('%d'), now() + interval '1 hour', %s)`, into, n, values)); err == nil {
			t.Errorf("%s is let in", columns)
		}
	}
	// Where tokens are not for people, no token lets anybody in, nor does a session that one has begun.
	_, token := b.create(t, auth.TokenSpec{Name: "ayesha"}, "main:finance")
	byToken, _, err := s.SignIn(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	only := auth.NewSessions(auth.SessionsConfig{Pool: b.pool, Callers: b.Authenticator, Provider: p, NoTokens: true})
	if _, _, err := only.SignIn(t.Context(), token); !errors.Is(err, ledger.CodeUnauthenticated) || only.Tokens() || !s.Tokens() {
		t.Errorf("with a token: %v", err)
	}
	if _, err := only.Get(t.Context(), byToken); !errors.Is(err, ledger.CodeUnauthenticated) {
		t.Errorf("with a session of a token's: %v", err)
	}
}
