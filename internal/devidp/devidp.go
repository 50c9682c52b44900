package devidp

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Person is somebody whom visitors can be.
type Person struct {
	// Login is the subject, which no two people share, and Name is on the button.
	Login, Name string
	// Groups are in the claim groups.
	Groups []string
}

// Config is whom a Provider knows.
type Config struct {
	// Issuer is where it is served, such as http://127.0.0.1:7094. Required.
	Issuer string
	// ClientID is the one application that it signs people in to, a public client, and RedirectURI where its answers go. Required. After signing out
	// a browser may go to SignedOutURI, if it is not empty.
	ClientID, RedirectURI, SignedOutURI string
	// People are whom visitors can be. Required.
	People []Person
}

const (
	// codeLife is how long a code can be redeemed, and maxCodes how many can wait for it.
	codeLife, maxCodes = time.Minute, 1000
	tokenLife          = 5 * time.Minute
	maxForm            = 16 << 10
)

// Provider is an identity provider. Its key is made with it, and is gone with it.
type Provider struct {
	config Config
	key    *ecdsa.PrivateKey
	keyID  string
	signer jose.Signer
	mux    *http.ServeMux

	mu    sync.Mutex
	codes map[string]grant
}

// grant is what a code stands for.
type grant struct {
	person           Person
	nonce, challenge string
	made             time.Time
}

// New makes a Provider, to be served at its issuer.
func New(config Config) (*Provider, error) {
	p := &Provider{config: config, keyID: random(), mux: http.NewServeMux(), codes: map[string]grant{}}
	var err error
	if p.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return nil, err
	}
	p.signer, err = jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: p.keyID}}, (&jose.SignerOptions{}).WithType("JWT"))
	if err != nil {
		return nil, err
	}
	p.mux.HandleFunc("GET /.well-known/openid-configuration", p.describe)
	p.mux.HandleFunc("GET /keys", p.keys)
	p.mux.HandleFunc("GET /authorize", p.authorize)
	p.mux.HandleFunc("POST /token", p.token)
	p.mux.HandleFunc("GET /signout", p.signOut)
	return p, nil
}

func random() string {
	raw := make([]byte, 32)
	_, _ = rand.Read(raw) // It never fails.
	return base64.RawURLEncoding.EncodeToString(raw)
}

// ServeHTTP serves the provider.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src '"+styleHash+"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	// It believes everybody: a page of somebody else's, whose name leads here all of a sudden, is not to be among them.
	if !isThisMachine(r.Host) {
		http.Error(w, "this identity provider answers only under names of its own machine, such as 127.0.0.1", http.StatusMisdirectedRequest)
		return
	}
	p.mux.ServeHTTP(w, r)
}

func isThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func answer(w http.ResponseWriter, status int, content any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(content) // Whoever has asked may have gone.
}

func (p *Provider) describe(w http.ResponseWriter, _ *http.Request) {
	at := p.config.Issuer
	answer(w, http.StatusOK, map[string]any{
		"issuer": at, "authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token", "jwks_uri": at + "/keys", "end_session_endpoint": at + "/signout",
		"response_types_supported": []string{"code"}, "response_modes_supported": []string{"query"}, "grant_types_supported": []string{"authorization_code"},
		"subject_types_supported": []string{"public"}, "id_token_signing_alg_values_supported": []string{"ES256"},
		"scopes_supported": []string{"openid", "profile", "email"}, "claims_supported": []string{"sub", "name", "preferred_username", "groups"},
		"token_endpoint_auth_methods_supported": []string{"none"}, "code_challenge_methods_supported": []string{"S256"},
		"authorization_response_iss_parameter_supported": true,
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: p.key.Public(), KeyID: p.keyID, Algorithm: "ES256", Use: "sig"}}})
}

// authorize lets visitors pick who they are, or takes them for whom the console asks for.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	// Nobody is sent anywhere but to the one application, whatever is wrong with the rest.
	if query.Get("client_id") != p.config.ClientID || query.Get("redirect_uri") != p.config.RedirectURI {
		http.Error(w, "this identity provider does not know the application, or not at this address", http.StatusBadRequest)
		return
	}
	challenge, err := base64.RawURLEncoding.Strict().DecodeString(query.Get("code_challenge"))
	switch {
	case query.Get("response_type") != "code":
		p.sendBack(w, r, url.Values{"error": {"unsupported_response_type"}})
	case !slices.Contains(strings.Fields(query.Get("scope")), "openid"):
		p.sendBack(w, r, url.Values{"error": {"invalid_scope"}})
	case err != nil || len(challenge) != sha256.Size || query.Get("code_challenge_method") != "S256":
		p.sendBack(w, r, url.Values{"error": {"invalid_request"}, "error_description": {"a code challenge is required, by S256"}})
	default:
		who := slices.IndexFunc(p.config.People, func(one Person) bool { return one.Name == query.Get("login_hint") })
		if who < 0 {
			p.ask(w, query)
			return
		}
		p.sendBack(w, r, url.Values{"code": {p.newCode(grant{p.config.People[who], query.Get("nonce"), query.Get("code_challenge"), time.Now()})}})
	}
}

func (p *Provider) sendBack(w http.ResponseWriter, r *http.Request, result url.Values) {
	result.Set("state", r.URL.Query().Get("state"))
	result.Set("iss", p.config.Issuer)
	http.Redirect(w, r, p.config.RedirectURI+"?"+result.Encode(), http.StatusSeeOther)
}

func (p *Provider) newCode(g grant) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.codes, func(_ string, g grant) bool { return time.Since(g.made) > codeLife })
	if len(p.codes) >= maxCodes {
		clear(p.codes)
	}
	code := random()
	p.codes[code] = g
	return code
}

// takeCode gives what a code stands for, once.
func (p *Provider) takeCode(code string) (grant, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	g, found := p.codes[code]
	delete(p.codes, code)
	return g, found && time.Since(g.made) <= codeLife
}

//go:embed page.html
var pageText string

//go:embed page.css
var pageStyle string

var (
	pageTemplate = template.Must(template.New("page").Parse(pageText))
	styleHash    = func() string {
		sum := sha256.Sum256([]byte(pageStyle))
		return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
	}()
)

type choice struct{ Name, Groups, Path string }

// ask shows the people there are.
func (p *Provider) ask(w http.ResponseWriter, query url.Values) {
	var choices []choice
	for _, one := range p.config.People {
		query.Set("login_hint", one.Name)
		choices = append(choices, choice{one.Name, strings.Join(one.Groups, ", "), "/authorize?" + query.Encode()})
	}
	var body bytes.Buffer
	if err := pageTemplate.Execute(&body, map[string]any{"Style": template.CSS(pageStyle), "People": choices}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = body.WriteTo(w) // Whoever has asked may have gone.
}

// token redeems a code, for who knows its verifier.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	fail := func(problem string) { answer(w, http.StatusBadRequest, map[string]string{"error": problem}) }
	if r.ParseForm() != nil || r.PostForm.Get("client_id") != p.config.ClientID {
		fail("invalid_client")
		return
	}
	if r.PostForm.Get("grant_type") != "authorization_code" {
		fail("unsupported_grant_type")
		return
	}
	g, found := p.takeCode(r.PostForm.Get("code"))
	sum := sha256.Sum256([]byte(r.PostForm.Get("code_verifier")))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if !found || r.PostForm.Get("redirect_uri") != p.config.RedirectURI || subtle.ConstantTimeCompare([]byte(challenge), []byte(g.challenge)) != 1 {
		fail("invalid_grant")
		return
	}
	token, err := p.sign(g)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	answer(w, http.StatusOK, map[string]any{"access_token": random(), "token_type": "Bearer", "expires_in": int(tokenLife.Seconds()), "id_token": token})
}

func (p *Provider) sign(g grant) (string, error) {
	now := time.Now()
	token, err := jwt.Signed(p.signer).Claims(jwt.Claims{
		Issuer: p.config.Issuer, Subject: g.person.Login, Audience: jwt.Audience{p.config.ClientID}, IssuedAt: jwt.NewNumericDate(now),
		Expiry: jwt.NewNumericDate(now.Add(tokenLife)),
	}).Claims(map[string]any{"nonce": g.nonce, "name": g.person.Name, "preferred_username": g.person.Login, "groups": g.person.Groups}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	return token, nil
}

// signOut has nothing to end, since nobody stays signed in here, and leads back.
func (p *Provider) signOut(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if p.config.SignedOutURI == "" || query.Get("post_logout_redirect_uri") != p.config.SignedOutURI {
		http.Error(w, "you are signed out", http.StatusOK)
		return
	}
	http.Redirect(w, r, p.config.SignedOutURI+"?"+url.Values{"state": {query.Get("state")}}.Encode(), http.StatusSeeOther)
}
