package devidp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/devidp"
)

const (
	issuer   = "http://127.0.0.1:7094"
	back     = "http://127.0.0.1:7093/console/signin/callback"
	verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
)

func provider(t *testing.T) *devidp.Provider {
	t.Helper()
	p, err := devidp.New(devidp.Config{Issuer: issuer, ClientID: "khata", RedirectURI: back, SignedOutURI: "http://127.0.0.1:7093/console/signin",
		People: []devidp.Person{{Login: "finance", Name: "Finance", Groups: []string{"f"}}, {Login: "support-2", Name: "Support 2", Groups: []string{"s"}}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func send(p *devidp.Provider, r *http.Request) *httptest.ResponseRecorder {
	if r.Host == "example.com" { // httptest's own.
		r.Host = "127.0.0.1:7094"
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func request(differs ...string) url.Values {
	sum := sha256.Sum256([]byte(verifier))
	query := url.Values{"response_type": {"code"}, "client_id": {"khata"}, "redirect_uri": {back}, "scope": {"openid profile"}, "state": {"S"}, "nonce": {"N"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}, "login_hint": {"Support 2"}}
	for i := 0; i < len(differs); i += 2 {
		query.Set(differs[i], differs[i+1])
	}
	return query
}

func authorize(p *devidp.Provider, query url.Values) *httptest.ResponseRecorder {
	return send(p, httptest.NewRequest(http.MethodGet, "/authorize?"+query.Encode(), nil))
}

func redeem(p *devidp.Provider, code string, differs ...string) *httptest.ResponseRecorder {
	form := url.Values{"grant_type": {"authorization_code"}, "client_id": {"khata"}, "code": {code}, "redirect_uri": {back}, "code_verifier": {verifier}}
	for i := 0; i < len(differs); i += 2 {
		form.Set(differs[i], differs[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, "/token", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return send(p, r)
}

func code(t *testing.T, p *devidp.Provider) string {
	t.Helper()
	w := authorize(p, request())
	at, err := url.Parse(w.Header().Get("Location"))
	if err != nil || w.Code != http.StatusSeeOther || !strings.HasPrefix(at.String(), back+"?") {
		t.Fatalf("%d %s %v", w.Code, w.Header().Get("Location"), err)
	}
	if q := at.Query(); q.Get("state") != "S" || q.Get("iss") != issuer || q.Get("code") == "" {
		t.Fatalf("it answers %s", at)
	}
	return at.Query().Get("code")
}

func TestProvider_Code(t *testing.T) {
	t.Parallel()
	p := provider(t)
	first := code(t, p)
	w := redeem(p, first)
	var got struct {
		Token string `json:"id_token"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.Split(got.Token, ".")[1])
	if err != nil || !strings.Contains(string(claims), `"sub":"support-2"`) || !strings.Contains(string(claims), `"nonce":"N"`) ||
		!strings.Contains(string(claims), `"groups":["s"]`) {
		t.Errorf("the token says %s", claims)
	}
	for name, w := range map[string]*httptest.ResponseRecorder{
		"the same code again":      redeem(p, first),
		"no code":                  redeem(p, ""),
		"with another verifier":    redeem(p, code(t, p), "code_verifier", verifier+"x"),
		"without a verifier":       redeem(p, code(t, p), "code_verifier", ""),
		"for another address":      redeem(p, code(t, p), "redirect_uri", "http://127.0.0.1:1/"),
		"for another application":  redeem(p, code(t, p), "client_id", "other"),
		"by another kind of grant": redeem(p, code(t, p), "grant_type", "password"),
	} {
		if w.Code != http.StatusBadRequest || strings.Contains(w.Body.String(), "id_token") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestProvider_Authorize(t *testing.T) {
	t.Parallel()
	p := provider(t)
	for name, differs := range map[string][]string{
		"another application": {"client_id", "x"}, "another address": {"redirect_uri", "https://evil.example/"}, "an address that goes on": {"redirect_uri", back + "/x"},
		"no address": {"redirect_uri", ""},
	} {
		if w := authorize(p, request(differs...)); w.Code != http.StatusBadRequest || w.Header().Get("Location") != "" {
			t.Errorf("%s: %d to %s", name, w.Code, w.Header().Get("Location"))
		}
	}
	for name, differs := range map[string][]string{
		"another kind": {"response_type", "token"}, "no challenge": {"code_challenge", ""}, "a plain challenge": {"code_challenge_method", "plain"},
		"another scope": {"scope", "profile"},
	} {
		if w := authorize(p, request(differs...)); !strings.Contains(w.Header().Get("Location"), "error=") {
			t.Errorf("%s: %d to %s", name, w.Code, w.Header().Get("Location"))
		}
	}
	w := authorize(p, request("login_hint", "", "state", `"><script>alert(1)</script>`))
	body := w.Body.String()
	if w.Code != 200 || !strings.Contains(body, "Support 2") || !strings.Contains(body, "login_hint=Finance") || strings.Contains(body, "<script") {
		t.Errorf("the page: %d %s", w.Code, body)
	}
	if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || strings.Contains(policy, "script-src") {
		t.Errorf("the policy is %s", policy)
	}
}

// A page whose name leads here all of a sudden is not believed.
func TestProvider_Hosts(t *testing.T) {
	t.Parallel()
	p := provider(t)
	for host, want := range map[string]int{"127.0.0.1:7094": 200, "localhost:7094": 200, "[::1]:7094": 200, "evil.example:7094": 421, "127.0.0.1.evil.example": 421, "": 421} {
		r := httptest.NewRequest(http.MethodGet, "/.well-known/openid-configuration", nil)
		r.Host = host
		w := httptest.NewRecorder()
		p.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%q: %d", host, w.Code)
		}
	}
}

func TestProvider_SignOut(t *testing.T) {
	t.Parallel()
	p := provider(t)
	for to, want := range map[string]string{
		"http://127.0.0.1:7093/console/signin": "http://127.0.0.1:7093/console/signin?state=left", "https://evil.example/": "", "": "",
	} {
		w := send(p, httptest.NewRequest(http.MethodGet, "/signout?"+url.Values{"post_logout_redirect_uri": {to}, "state": {"left"}}.Encode(), nil))
		if got := w.Header().Get("Location"); got != want || !slices.Contains([]int{200, 303}, w.Code) {
			t.Errorf("%q: %d to %q", to, w.Code, got)
		}
	}
}
