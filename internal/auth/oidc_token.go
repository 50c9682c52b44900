package auth

import (
	"context"
	"crypto/hmac"
	"encoding/json"
	"errors"
	"strings"
	"unicode"

	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/khata-ledger/khata/ledger"
)

const (
	// maxIDToken is the most bytes of an ID token; those of people in many groups are long.
	maxIDToken = 64 << 10
	maxDisplay = 80
	// personPrefix is before every name that a provider gives. Tokens have no colon in theirs, and users another prefix.
	personPrefix = "oidc:"
)

// person is who somebody is, as a provider says.
type person struct {
	// subject is what the provider gives to nobody else, and name what is recorded, after the prefix. display is for reading only: people may
	// choose it.
	subject, name, display string
	// groups are those of the person's that have a role.
	groups []string
}

// identify gives who an ID token is of. It must be the provider's, for this console, of this moment, and an answer to this very sign-in.
func (p *Provider) identify(ctx context.Context, text, nonce string) (*person, error) {
	bad := func(reason string) error {
		p.log.Warn("an ID token lets nobody in", "reason", reason)
		return refused("the identity provider's answer cannot be trusted: %s", reason)
	}
	if len(text) > maxIDToken {
		return nil, bad("its token is too long")
	}
	token, err := jwt.ParseSigned(text, algorithms)
	if err != nil || len(token.Headers) != 1 {
		return nil, bad("its token is not signed by RS256, ES256 or EdDSA")
	}
	var standard jwt.Claims
	var own struct {
		Nonce string `json:"nonce"`
		// Party is for whom the token was made, where it is for more than one.
		Party *string `json:"azp"`
	}
	var all map[string]json.RawMessage
	is, err := verifyBy(ctx, p.known, func(d *discovery) []key { return d.keys }, urlFresh, token, &standard, &own, &all)
	if err != nil {
		return nil, p.away(ctx, err)
	}
	if !is {
		return nil, bad("its token's signature does not verify")
	}
	switch err := standard.ValidateWithLeeway(jwt.Expected{
		Issuer: p.config.Issuer, AnyAudience: jwt.Audience{p.config.ClientID}, Time: p.now(),
	}, jwtLeeway); {
	case standard.Expiry == nil || standard.IssuedAt == nil:
		return nil, bad("its token does not say from when until when it holds")
	case errors.Is(err, jwt.ErrExpired):
		return nil, bad("its token has expired; do the clocks differ?")
	case errors.Is(err, jwt.ErrNotValidYet), errors.Is(err, jwt.ErrIssuedInTheFuture):
		return nil, bad("its token is not valid yet; do the clocks differ?")
	case errors.Is(err, jwt.ErrInvalidAudience):
		return nil, bad("its token is for another application")
	case err != nil:
		return nil, bad("its token is of another issuer")
	case own.Party == nil && len(standard.Audience) > 1, own.Party != nil && *own.Party != p.config.ClientID:
		return nil, bad("its token was made for another application")
	case own.Nonce == "" || !hmac.Equal([]byte(own.Nonce), []byte(nonce)):
		return nil, bad("its token is not the answer to this sign-in")
	case !isName(standard.Subject):
		return nil, bad("its token's sub is not 1 to 100 characters of 0x21-0x7E")
	}
	return p.person(standard.Subject, all)
}

// isName reports whether what a provider calls somebody can be recorded.
func isName(text string) bool {
	return text != "" && len(text) <= maxSubject && !strings.ContainsFunc(text, func(r rune) bool { return r < 0x21 || r > 0x7e })
}

// person makes what is kept of somebody out of the claims of a token that is genuine.
func (p *Provider) person(subject string, claims map[string]json.RawMessage) (*person, error) {
	who := &person{subject: subject}
	names, ok := textsOf(claims, p.config.NameClaim)
	if !ok || len(names) != 1 || !isName(names[0]) {
		return nil, ledger.Errorf(ledger.CodePermissionDenied,
			"the identity provider does not say what you are to be recorded as: its %s should be 1 to %d characters of 0x21-0x7E, and an email verified",
			p.config.NameClaim, maxSubject)
	}
	who.name = names[0]
	for _, claim := range []string{"name", "preferred_username", "email"} {
		if texts, _ := textsOf(claims, claim); len(texts) == 1 && who.display == "" {
			who.display = legible(texts[0])
		}
	}
	groups, ok := textsOf(claims, p.config.GroupsClaim)
	if !ok {
		p.log.Warn("groups of the identity provider's cannot be read", "claim", p.config.GroupsClaim, "caller", personPrefix+who.name)
	}
	seen := map[string]bool{}
	for _, group := range groups {
		if p.config.Grants[group] != nil && !seen[group] {
			seen[group] = true
			who.groups = append(who.groups, group)
		}
	}
	if len(who.groups) == 0 {
		return nil, ledger.Errorf(ledger.CodePermissionDenied,
			"the identity provider knows you, as %s, and none of your groups has a role in these books: ask who looks after the groups there", who.name)
	}
	return who, nil
}

// textsOf gives the texts in a claim: one, or a list of them. Of a claim that has anything else in it nothing is taken, nor of an email that the provider
// has not verified, which anybody can have written. An email is one person's in whatever case it is written.
func textsOf(claims map[string]json.RawMessage, name string) (texts []string, ok bool) {
	raw, found := claims[name]
	if !found || string(raw) == "null" {
		return nil, true
	}
	var one string
	var list []*string
	switch {
	case json.Unmarshal(raw, &one) == nil:
		texts = []string{one}
	case json.Unmarshal(raw, &list) == nil:
		for _, text := range list {
			if text == nil {
				return nil, false
			}
			texts = append(texts, *text)
		}
	default:
		return nil, false
	}
	if name == "email" {
		if verified := string(claims["email_verified"]); verified != "true" && verified != `"true"` {
			return nil, false
		}
		for i, text := range texts {
			texts[i] = strings.ToLower(text)
		}
	}
	return texts, true
}

// legible is a name that people can have chosen, as it is shown.
func legible(text string) string {
	shown := []rune(strings.Join(strings.Fields(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, ""))), " "))
	return strings.TrimSpace(string(shown[:min(len(shown), maxDisplay)]))
}

// identity is the caller that a person is, by what their groups may do now; nil for none.
func (p *Provider) identity(name string, groups []string) *Identity {
	grants := Grants{}
	for _, group := range groups {
		grants.add(p.config.Grants[group])
	}
	if len(grants) == 0 {
		return nil
	}
	return &Identity{Name: personPrefix + name, Kind: Person, Grants: grants}
}
