package auth

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// SignInPatience is how long somebody may take at the provider.
const SignInPatience = 10 * time.Minute

// flow is a sign-in under way, as the cookie of its browser has it. State, nonce and verifier all follow from its key: no server has to remember
// any, and who does not have the cookie has none of them.
type flow struct {
	// key is 32 random bytes, and when it was made: to alter the time alters all that follows.
	key  []byte
	next string
}

const flowKeyBytes = sessionBytes + 8

func newFlow(now time.Time, next string) flow {
	key := make([]byte, sessionBytes, flowKeyBytes)
	_, _ = rand.Read(key) // It never fails.
	return flow{binary.BigEndian.AppendUint64(key, uint64(now.Unix())), next}
}

func (f flow) cookie() string {
	return base64.RawURLEncoding.EncodeToString(f.key) + "." + base64.RawURLEncoding.EncodeToString([]byte(f.next))
}

func parseFlow(cookie string) (flow, bool) {
	key, next, _ := strings.Cut(cookie, ".")
	encoding := base64.RawURLEncoding.Strict()
	rawKey, err := encoding.DecodeString(key)
	rawNext, nextErr := encoding.DecodeString(next)
	return flow{rawKey, string(rawNext)}, err == nil && nextErr == nil && len(rawKey) == flowKeyBytes
}

// begun is when the sign-in began, as its cookie says.
func (f flow) begun() time.Time {
	return time.Unix(int64(binary.BigEndian.Uint64(f.key[sessionBytes:])), 0)
}

// derive gives what follows from the key for one purpose.
func (f flow) derive(what string) string {
	mac := hmac.New(sha256.New, f.key)
	_, _ = mac.Write([]byte("khata: a sign-in's " + what)) // A hash does not fail.
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

func (f flow) state() string    { return f.derive("state") }
func (f flow) nonce() string    { return f.derive("nonce") }
func (f flow) verifier() string { return f.derive("code verifier") }

// Begin begins a sign-in: what the browser keeps until it comes back, and where it goes. next is what it is to see afterwards, hint whom a sandbox
// is asked for, and fresh has the provider ask even whom it knows. It returns CodeUnavailable where the provider cannot be asked.
func (p *Provider) Begin(ctx context.Context, next, hint string, fresh bool) (cookie, to string, err error) {
	d, err := p.describe(ctx)
	if err != nil {
		return "", "", err
	}
	f := newFlow(p.now(), next)
	challenge := sha256.Sum256([]byte(f.verifier()))
	query := url.Values{
		"response_type": {"code"}, "client_id": {p.config.ClientID}, "redirect_uri": {p.config.Base + OIDCCallback},
		"scope": {strings.Join(append([]string{"openid"}, p.config.Scopes...), " ")}, "state": {f.state()}, "nonce": {f.nonce()},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	if slices.Contains(p.config.People, hint) {
		query.Set("login_hint", hint)
	}
	if fresh {
		query.Set("prompt", "login")
	}
	return f.cookie(), withQuery(d.Authorization, query), nil
}

// refused is what is told of an answer that lets nobody in.
func refused(format string, args ...any) error {
	return ledger.Errorf(ledger.CodeUnauthenticated, format, args...)
}

// finish ends a sign-in that a browser has come back from: who it is, and what was to be seen. It returns CodeUnauthenticated for an answer that is not
// to this browser, or not to be trusted, CodePermissionDenied for somebody who has no role here, and CodeUnavailable.
func (p *Provider) finish(ctx context.Context, cookie string, answer url.Values) (who *person, next string, err error) {
	f, ok := parseFlow(cookie)
	switch {
	case !ok || !hmac.Equal([]byte(answer.Get("state")), []byte(f.state())):
		return nil, "", refused("this answer of the identity provider is not to a sign-in that this browser has begun last: begin again")
	case p.now().Sub(f.begun()) > SignInPatience || f.begun().Sub(p.now()) > jwtLeeway:
		return nil, "", refused("the sign-in took longer than %v: begin again", SignInPatience)
	}
	d, err := p.describe(ctx)
	if err != nil {
		return nil, "", err
	}
	// An answer of another provider has no business here, whoever has led the browser to it.
	if issuer := answer.Get("iss"); issuer != "" && issuer != d.Issuer || issuer == "" && d.NamesItself {
		return nil, "", refused("this answer is not of the identity provider that was asked")
	}
	if problem := answer.Get("error"); problem != "" {
		p.log.Info("the identity provider lets somebody not sign in", "error", problem, "description", answer.Get("error_description"))
		if problem == "access_denied" {
			return nil, "", refused("the identity provider says that you declined, or may not use this console")
		}
		return nil, "", refused("the identity provider did not let you in: %q", problem)
	}
	code := answer.Get("code")
	if code == "" {
		return nil, "", refused("the identity provider's answer has no code: begin again")
	}
	token, err := p.redeem(ctx, d, code, f)
	if err != nil {
		return nil, "", err
	}
	if who, err = p.identify(ctx, token, f.nonce()); err != nil {
		return nil, "", err
	}
	return who, f.next, nil
}

// redeem exchanges a code for an ID token. A code is good for one exchange, by who knows the verifier.
func (p *Provider) redeem(ctx context.Context, d *discovery, code string, f flow) (string, error) {
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.config.Base + OIDCCallback}, "code_verifier": {f.verifier()},
	}
	secret, err := p.secret()
	if err != nil {
		return "", p.away(ctx, err)
	}
	// The header is what every provider has to know; it is not used only where the provider says that it wants the secret in the form.
	inForm := len(d.AuthMethods) > 0 && !slices.Contains(d.AuthMethods, "client_secret_basic")
	if secret == "" || inForm {
		form.Set("client_id", p.config.ClientID)
	}
	if secret != "" && inForm {
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.Token, strings.NewReader(form.Encode()))
	if err != nil {
		return "", p.away(ctx, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if secret != "" && !inForm {
		req.SetBasicAuth(url.QueryEscape(p.config.ClientID), url.QueryEscape(secret))
	}
	resp, err := p.exchange.Do(req)
	if err != nil {
		return "", p.away(ctx, err)
	}
	defer resp.Body.Close()
	text, err := readAnswer(resp.Body)
	if err != nil {
		return "", p.away(ctx, err)
	}
	var answer struct {
		IDToken     string `json:"id_token"`
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	err = json.Unmarshal(text, &answer)
	switch {
	case answer.Error == "invalid_grant":
		return "", refused("the identity provider does not take its own answer any more: begin again")
	case err == nil && answer.Error != "":
		return "", p.away(ctx, fmt.Errorf("it answers a code with %s: %s (%s)", resp.Status, answer.Error, answer.Description))
	case resp.StatusCode != http.StatusOK:
		return "", p.away(ctx, fmt.Errorf("it answers a code with %s", resp.Status))
	case err != nil:
		return "", p.away(ctx, fmt.Errorf("its answer to a code: %w", err))
	case answer.IDToken == "":
		return "", p.away(ctx, errors.New("its answer to a code has no id_token"))
	}
	return answer.IDToken, nil
}
