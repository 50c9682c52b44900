package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

// The routes of a sign-in with an identity provider.
const (
	startRoute  = "GET " + auth.OIDCStart
	answerRoute = "GET " + auth.OIDCCallback
)

// maxKeptNext is the longest address that is kept during a sign-in: browsers drop a cookie of more than 4 KiB, and with it the sign-in.
const maxKeptNext = 2500

// flowCookie is the name of the cookie that a browser keeps a sign-in under way in.
func (c *console) flowCookie() string {
	if c.config.Secure {
		return "__Host-khata-signin"
	}
	return "khata_signin"
}

// keepFlow has the browser keep a sign-in under way; "" has it forget. It is shown when another site, the provider, sends the browser here.
func (v *visit) keepFlow(flow string) {
	cookie := &http.Cookie{
		Name: v.flowCookie(), Value: flow, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: v.config.Secure,
		MaxAge: int(auth.SignInPatience.Seconds()),
	}
	if flow == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(v.w, cookie)
}

// withProvider is what the page to sign in shows of an identity provider.
type withProvider struct {
	Title, Path string
	// People are whom a sandbox lets anybody be, each with one press.
	People []link
}

// withProvider gives what the page to sign in shows of the provider; nil is none. The way there is a link, and no form: where a form leads, and all that
// the provider's own answer leads to, would have to be in the policy of the page.
func (c *console) withProvider(form signInForm) *withProvider {
	p := c.config.Sessions.Provider()
	if p == nil {
		return nil
	}
	query := url.Values{"next": {form.Next}}
	if form.Error != "" { // Whoever it was must be able to be somebody else: a provider that knows its browser asks nothing.
		query.Set("again", "1")
	}
	shown := &withProvider{Title: p.Title(), Path: p.StartURL(query)}
	for _, name := range p.People() {
		shown.People = append(shown.People, link{Title: name, Path: p.StartURL(url.Values{"next": {form.Next}, "as": {name}})})
	}
	return shown
}

// startSignIn sends a visitor to the identity provider.
func (v *visit) startSignIn() error {
	p := v.config.Sessions.Provider()
	if p == nil {
		return errNotFound
	}
	query := v.r.URL.Query()
	next := safeNext(query.Get("next"))
	if v.session != nil {
		return v.see(next)
	}
	// Another site can lead here, but signs nobody in: that takes a press on a page of the console's, or its address in a bookmark.
	if site := v.r.Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" && site != "none" {
		return v.see(root + "signin?" + url.Values{"next": {next}}.Encode())
	}
	if len(next) > maxKeptNext {
		next = root
	}
	flow, to, err := p.Begin(v.r.Context(), next, query.Get("as"), query.Get("again") != "")
	if err != nil {
		return v.providerAway(err, next)
	}
	v.keepFlow(flow)
	return v.see(to)
}

// endSignIn takes the provider's answer, with which it has sent the visitor back.
func (v *visit) endSignIn() error {
	if v.config.Sessions.Provider() == nil {
		return errNotFound
	}
	cookie, err := v.r.Cookie(v.flowCookie())
	switch {
	case err != nil && v.session != nil: // The address has been loaded again.
		return v.see(root)
	case err != nil:
		cookie = &http.Cookie{}
	}
	address := addressOf(v.r)
	if err := v.attempts.Take(address); err != nil {
		status := v.errorOf(err).Status
		return v.showSignIn(status, signInForm{Next: root, Error: tooManyAttempts})
	}
	secret, next, id, err := v.config.Sessions.SignInWith(v.r.Context(), cookie.Value, v.r.URL.Query())
	if cookie.Name != "" {
		v.keepFlow("") // Whatever came of it, nobody comes back to it.
	}
	if err != nil {
		return v.notSignedIn(err, address, root)
	}
	if err := v.signedIn(secret, id, address); err != nil {
		return err
	}
	// By a redirect the browser would go on in the provider's name, and not show the cookie that it has just been given: SameSite=Strict.
	return v.goOn(safeNext(next), leaving{Title: "You are signed in", Text: "The console opens in a moment.", Go: "Go on"})
}

// providerAway is the page of a provider that cannot be asked.
func (v *visit) providerAway(err error, next string) error {
	if status := statusOf(ledger.CodeOf(err)); status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout {
		return err
	}
	shown := v.errorOf(err)
	shown.Title, shown.Text, shown.Advice = "You cannot be signed in now", sentence(shown.Text), "It may work in a moment."
	shown.Again = root + "signin?" + url.Values{"next": {next}}.Encode()
	return shown
}

// leaving is a page that the browser goes on from by itself.
type leaving struct{ Title, Text, Path, Go string }

// goOn shows a page from which the browser goes on by itself, as if a link on it had been followed.
func (v *visit) goOn(path string, shown leaving) error {
	shown.Path = path
	v.w.Header().Set("Refresh", "0; url="+path)
	return v.render(http.StatusOK, page{Name: "leaving", Title: shown.Title, Main: shown})
}

// signOutOfProvider leads on to where the session at the provider ends, if there is such a place.
func (v *visit) signOutOfProvider(was *auth.Session) (bool, error) {
	p := v.config.Sessions.Provider()
	if p == nil || was.Kind != auth.Person {
		return false, nil
	}
	path := p.SignOutURL(v.r.Context())
	if path == "" {
		return false, nil
	}
	v.session = nil
	return true, v.goOn(path, leaving{
		Title: "You are signed out of the console", Text: p.Title() + " is asked to sign you out too.", Go: "Sign out there",
	})
}

// isRefusal reports whether an error is about who somebody is, and what to tell of it.
func isRefusal(err error) (*ledger.Error, bool) {
	var known *ledger.Error
	is := errors.As(err, &known) && slices.Contains([]ledger.Code{ledger.CodeUnauthenticated, ledger.CodePermissionDenied}, known.Code)
	return known, is
}
