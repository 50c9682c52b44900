package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

// OIDCConfig is how people sign in to the console with an identity provider, by OpenID Connect.
type OIDCConfig struct {
	// Issuer is the provider: what iss must be, and where it describes itself. Required.
	Issuer string
	// ClientID is what the provider knows the console by. Required. SecretFile is the file with the console's secret, read at each sign-in; "" is
	// a public client, which has none.
	ClientID, SecretFile string
	// Base is where visitors find the console, such as https://books.example. Required: no address is ever taken from a request, which anybody
	// can make up.
	Base string
	// Title is what the provider is called on the page to sign in; "" is its host.
	Title string
	// Scopes are asked for besides openid; nil is profile and email.
	Scopes []string
	// GroupsClaim is the claim with what Grants is looked up by, a text or a list of texts; "" is groups.
	GroupsClaim string
	// NameClaim is the claim that is recorded, after "oidc:", as who has done something; "" is sub, which the provider gives to nobody else.
	NameClaim string
	// Grants are what members of a group may do. Required: who is in none of them is not let in.
	Grants map[string]Grants
	// People are whom a sandbox's provider lets anybody be; nil for all others.
	People []string
}

// Where the console sends people to the provider from, where they come back to, and where they come back to after signing out.
const (
	OIDCStart    = "/console/signin/openid"
	OIDCCallback = "/console/signin/callback"
	SignInPath   = "/console/signin"
)

// ParseGroupGrants reads what groups may do, each as GROUP=LEDGER:ROLE or GROUP=LEDGER:ROLE,LEDGER:ROLE. One text can have several, with
// semicolons or line breaks between them. A group may have equals signs and commas in it, as those of LDAP do.
func ParseGroupGrants(list []string) (map[string]Grants, error) {
	all := map[string]Grants{}
	for _, text := range list {
		for _, one := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
			one = strings.TrimSpace(one)
			if one == "" {
				continue
			}
			i := strings.LastIndexByte(one, '=')
			if i < 1 {
				return nil, fmt.Errorf("%q: want GROUP=LEDGER:ROLE, such as khata-finance=main:finance", one)
			}
			group := strings.TrimSpace(one[:i])
			for word := range strings.FieldsSeq(group) {
				if _, value, found := strings.Cut(word, "="); found {
					if _, err := ParseGrants(strings.Split(value, ",")); err == nil {
						return nil, fmt.Errorf("%q are several, which need semicolons between them", one)
					}
				}
			}
			grants, err := ParseGrants(strings.Split(strings.ReplaceAll(one[i+1:], " ", ""), ","))
			if err != nil {
				return nil, fmt.Errorf("%q: %w", one, err)
			}
			if all[group] == nil {
				all[group] = Grants{}
			}
			all[group].add(grants)
		}
	}
	return all, nil
}

func (g Grants) add(more Grants) {
	for on, roles := range more {
		g[on] |= roles
	}
}

// Provider is an identity provider that people sign in with. It is safe for concurrent use. What is between the start of a sign-in and its end is
// in the browser's cookie alone, so that any server can end what another has begun.
type Provider struct {
	config   OIDCConfig
	base     *url.URL
	log      *slog.Logger
	known    *cached[*discovery]
	exchange *http.Client
	now      func() time.Time
}

// exchangePatience is how long the provider may take to answer a code.
const exchangePatience = 10 * time.Second

// discovery is what a provider says of itself, and its keys.
type discovery struct {
	Issuer        string   `json:"issuer"`
	Authorization string   `json:"authorization_endpoint"`
	Token         string   `json:"token_endpoint"`
	Keys          string   `json:"jwks_uri"`
	EndSession    string   `json:"end_session_endpoint"`
	AuthMethods   []string `json:"token_endpoint_auth_methods_supported"`
	// NamesItself is whether each answer of its says whose it is.
	NamesItself bool `json:"authorization_response_iss_parameter_supported"`

	keys []key
}

// NewProvider makes a Provider. What the provider says of itself is read when it is needed: one that is away stops no server from starting.
func NewProvider(config OIDCConfig, log *slog.Logger) (*Provider, error) {
	config.GroupsClaim, config.NameClaim = or(config.GroupsClaim, "groups"), or(config.NameClaim, "sub")
	if config.Scopes == nil {
		config.Scopes = []string{"profile", "email"}
	}
	p := &Provider{config: config, log: log, now: time.Now}
	if err := p.check(); err != nil {
		return nil, err
	}
	if p.config.Title == "" {
		issuer, _ := url.Parse(config.Issuer) // It has been checked.
		p.config.Title = issuer.Host
	}
	// Whoever answers a code with a way to somewhere else would have the code, and the secret, sent there.
	p.exchange = &http.Client{Timeout: exchangePatience, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	client := fetchingClient()
	p.known = newCached("what the identity provider says of itself", keysPause, log, func(ctx context.Context) (*discovery, error) {
		return p.discover(ctx, client)
	})
	// So that what is wrong with it stands in the log now, and not only when somebody wants to sign in.
	p.known.mu.Lock()
	defer p.known.mu.Unlock()
	p.known.start()
	return p, nil
}

func or(text, otherwise string) string {
	if text == "" {
		return otherwise
	}
	return text
}

// check returns an error that says what to do unless people can sign in with this configuration.
func (p *Provider) check() error {
	c := &p.config
	switch {
	case c.Issuer == "":
		return errors.New("the issuer is missing: give the identity provider's address as its own configuration has it")
	case c.ClientID == "":
		return errors.New("the client id is missing: it is what the identity provider calls the console")
	case c.Base == "":
		return errors.New("the address to come back to is missing: give the console's as visitors see it, such as https://books.example")
	case len(c.Grants) == 0:
		return errors.New("no group has a role, so nobody could sign in: give one at least, such as khata-finance=main:finance")
	}
	issuer, err := url.Parse(c.Issuer)
	if err != nil || issuer.Host == "" || issuer.User != nil || issuer.RawQuery != "" || issuer.Fragment != "" || !fetchable(issuer) {
		return fmt.Errorf("the issuer is %q: want an https URL, or whoever is on the way says who signs in", c.Issuer)
	}
	c.Base = strings.TrimSuffix(strings.TrimSuffix(c.Base, OIDCCallback), "/")
	if p.base, err = url.Parse(c.Base); err != nil || p.base.Host == "" || p.base.User != nil || p.base.Path != "" || p.base.RawQuery != "" ||
		p.base.Fragment != "" || p.base.Scheme != "https" && (p.base.Scheme != "http" || !onThisMachine(p.base.Hostname())) {
		return fmt.Errorf("the address to come back to is %q: want the console's as visitors see it, with https and without a path, such as https://books.example",
			c.Base)
	}
	_, err = p.secret()
	return err
}

// onThisMachine reports whether a browser that is sent to a host does not leave its machine.
func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (p *Provider) secret() (string, error) {
	if p.config.SecretFile == "" {
		return "", nil
	}
	text, err := os.ReadFile(p.config.SecretFile)
	if err != nil {
		return "", fmt.Errorf("the client secret: %w", err)
	}
	secret := strings.TrimSpace(string(text))
	if secret == "" || strings.ContainsFunc(secret, func(r rune) bool { return r < 0x20 }) {
		return "", fmt.Errorf("the client secret: %s should hold it alone, on one line", p.config.SecretFile)
	}
	return secret, nil
}

// Close ends the readings under way.
func (p *Provider) Close() { p.known.close() }

// Title is what the provider is called on pages.
func (p *Provider) Title() string { return p.config.Title }

// People are whom a sandbox's provider lets anybody be; none for all others.
func (p *Provider) People() []string { return slices.Clone(p.config.People) }

// Secure reports whether visitors come over TLS, whoever ends it.
func (p *Provider) Secure() bool { return p.base.Scheme == "https" }

// StartURL is where a sign-in starts: under the name that visitors come back to, since a browser shows its cookie to that one only.
func (p *Provider) StartURL(query url.Values) string {
	return p.config.Base + OIDCStart + "?" + query.Encode()
}

// discover reads what the provider says of itself, and its keys.
func (p *Provider) discover(ctx context.Context, client *http.Client) (*discovery, error) {
	where := strings.TrimSuffix(p.config.Issuer, "/") + "/.well-known/openid-configuration"
	text, err := fetch(ctx, client, where)
	if err != nil {
		return nil, err
	}
	var d discovery
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	if d.Issuer != p.config.Issuer {
		return nil, fmt.Errorf("%s is of the issuer %q, and not of %q: give it as it is written there", where, d.Issuer, p.config.Issuer)
	}
	needed := map[string]string{"authorization_endpoint": d.Authorization, "token_endpoint": d.Token, "jwks_uri": d.Keys}
	if d.EndSession != "" {
		needed["end_session_endpoint"] = d.EndSession
	}
	issuer, err := url.Parse(p.config.Issuer)
	if err != nil { // It has been checked.
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(needed)) {
		if at, err := url.Parse(needed[name]); err != nil || !fetchableFrom(issuer, at) || at.Host == "" || at.Fragment != "" {
			return nil, fmt.Errorf("%s: its %s is %q, and no https URL", where, name, needed[name])
		}
	}
	if d.keys, err = fetchKeys(ctx, client, d.Keys); err != nil {
		return nil, fmt.Errorf("the keys at %s: %w", d.Keys, err)
	}
	return &d, nil
}

// describe gives what the provider says of itself.
func (p *Provider) describe(ctx context.Context) (*discovery, error) {
	d, _, err := p.known.get(ctx, urlFresh, keysLimit)
	if err != nil {
		return nil, p.away(ctx, err)
	}
	return d, nil
}

// away is what is told where the provider is of no help.
func (p *Provider) away(ctx context.Context, err error) error {
	return unavailable(ctx, "the identity provider, "+p.config.Title+", cannot be asked", err)
}

// SignOutURL is where to end the session at the provider too; "" where it has no such place, or that cannot be found out soon.
func (p *Provider) SignOutURL(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	d, err := p.describe(ctx)
	if err != nil || d.EndSession == "" {
		return ""
	}
	return withQuery(d.EndSession, url.Values{
		"client_id": {p.config.ClientID}, "post_logout_redirect_uri": {p.config.Base + SignInPath}, "state": {"left"},
	})
}

// withQuery adds to the query of an endpoint, which may have one already.
func withQuery(endpoint string, more url.Values) string {
	at, err := url.Parse(endpoint)
	if err != nil { // It has been checked.
		return endpoint
	}
	query := at.Query()
	maps.Copy(query, more)
	at.RawQuery = query.Encode()
	return at.String()
}
