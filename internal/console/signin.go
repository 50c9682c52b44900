package console

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"

	"github.com/khata-ledger/khata/internal/auth"
)

const signInPage = "GET /console/signin"

// cookieName is the name of the cookie that a browser keeps the session's secret in. With __Host- a browser takes it over TLS only, from this host
// and no other of its domain.
func (c *console) cookieName() string {
	if c.config.Secure {
		return "__Host-khata"
	}
	return "khata_session"
}

// keep has the browser keep a secret until it is closed; "" has it forget.
func (v *visit) keep(secret string) {
	cookie := &http.Cookie{Name: v.cookieName(), Value: secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: v.config.Secure}
	if secret == "" {
		cookie.MaxAge = -1
	}
	http.SetCookie(v.w, cookie)
}

// signIn is what the page to sign in shows.
type signInForm struct {
	// Personas can be picked; Provider is an identity provider to sign in with; and Tokens is whether a token can be given.
	Personas []string
	Provider *withProvider
	Tokens   bool
	Next     string
	// Lost is whether something was sent that was not done.
	Lost bool
	// Elsewhere is whether the visitor comes from another site: then the browser has not shown the cookie, and may have one.
	Elsewhere bool
	// Left is whether the visitor has just signed out.
	Left  bool
	Error string
}

func (v *visit) signInPage() error {
	query := v.r.URL.Query()
	next := safeNext(query.Get("next"))
	if v.session != nil {
		return v.see(next)
	}
	return v.showSignIn(http.StatusOK, signInForm{
		Next: next, Lost: query.Get("lost") != "", Left: query.Get("left") != "" || query.Get("state") == "left", Elsewhere: v.r.Header.Get("Sec-Fetch-Site") == "cross-site",
	})
}

func (v *visit) showSignIn(status int, form signInForm) error {
	form.Personas, form.Provider, form.Tokens = v.config.Sessions.Personas(), v.withProvider(form), v.config.Sessions.Tokens()
	return v.render(status, page{Name: "signin", Title: "Sign in", Main: form})
}

// askToSignIn sends to the page to sign in, and back afterwards.
func (v *visit) askToSignIn() {
	query := url.Values{}
	switch next := v.r.URL.RequestURI(); {
	case v.r.Method != http.MethodGet && v.r.Method != http.MethodHead:
		query.Set("lost", "1")
	case len(url.QueryEscape(next)) < maxQuery-16: // Otherwise the way back does not fit into an address.
		query.Set("next", next)
	}
	http.Redirect(v.w, v.r, root+"signin?"+query.Encode(), http.StatusSeeOther)
}

func (v *visit) signIn() error {
	// There is no session yet that the form could be of. So the browser has to say that it comes from here; all do that have been made since 2020.
	if !fromHere(v.r) {
		return errForeignForm
	}
	next := safeNext(v.r.PostFormValue("next"))
	address := addressOf(v.r)
	if err := v.attempts.Take(address); err != nil {
		status := v.errorOf(err).Status
		return v.showSignIn(status, signInForm{Next: next, Error: tooManyAttempts})
	}
	var secret string
	var id *auth.Identity
	var err error
	if persona := v.r.PostFormValue("persona"); persona != "" {
		secret, id, err = v.config.Sessions.SignInAs(v.r.Context(), persona)
	} else {
		secret, id, err = v.config.Sessions.SignIn(v.r.Context(), v.r.PostFormValue("token"))
	}
	if err != nil {
		return v.notSignedIn(err, address, next)
	}
	if err := v.signedIn(secret, id, address); err != nil {
		return err
	}
	return v.see(next)
}

const tooManyAttempts = "Too many attempts from here. Wait a few seconds, and try again."

// notSignedIn shows the page to sign in once more, with why.
func (v *visit) notSignedIn(err error, address, next string) error {
	known, is := isRefusal(err)
	if !is {
		return v.providerAway(err, next)
	}
	v.config.Logger.Info("sign-in to the console refused", "from", address, "error", err)
	v.deny(err)
	return v.showSignIn(http.StatusForbidden, signInForm{Next: next, Error: sentence(known.Message)})
}

// signedIn has the browser keep the session that a visitor has signed in to.
func (v *visit) signedIn(secret string, id *auth.Identity, address string) error {
	// A secret that was there before the visitor signed in may be known to somebody else: it ends, and the new one is none that a browser has proposed.
	if err := v.endSession(); err != nil {
		return err
	}
	v.config.Logger.Info("signed in to the console", "caller", id.Name, "from", address)
	v.keep(secret)
	return nil
}

// signOut ends the session, whose own form must have asked for it.
func (v *visit) signOut() error {
	if v.session != nil {
		if !v.session.IsFormKey(v.r.PostFormValue(formKeyField)) {
			return errForeignForm
		}
		if err := v.endSession(); err != nil {
			return err
		}
		v.config.Logger.Info("signed out of the console", "caller", v.session.Name)
	}
	v.keep("")
	if v.session != nil {
		if left, err := v.signOutOfProvider(v.session); left {
			return err
		}
	}
	return v.see(root + "signin?left=1")
}

func (v *visit) endSession() error {
	cookie, err := v.r.Cookie(v.cookieName())
	if err != nil {
		return nil
	}
	return v.config.Sessions.End(v.r.Context(), cookie.Value)
}

// fromHere reports whether the browser says that a form was on a page of this very host.
func fromHere(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin"
	}
	origin, err := url.Parse(r.Header.Get("Origin"))
	return err == nil && origin.Host != "" && origin.Host == r.Host
}

// addressOf is where a visitor comes from, as far as it is one visitor: of IPv6 everybody has a whole network.
func addressOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if address = address.Unmap(); address.Is6() {
		prefix, _ := address.WithZone("").Prefix(64) // 64 are less than 128.
		return prefix.String()
	}
	return address.String()
}

// safeNext is the page that a visitor is sent to after signing in: one of the console's own, or its first one. It comes from an address, which
// anybody can have made.
func safeNext(text string) string {
	u, err := url.Parse(text)
	if err != nil || len(text) > maxQuery || u.IsAbs() || u.Host != "" || u.User != nil || u.Opaque != "" || u.Fragment != "" {
		return root
	}
	for _, c := range []byte(text) {
		if c <= ' ' || c >= 0x7f || c == '\\' { // Browsers take a backslash for a slash, and skip what cannot be seen.
			return root
		}
	}
	clean := path.Clean(u.Path)
	if strings.HasSuffix(u.Path, "/") {
		clean += "/"
	}
	if clean != u.Path || !strings.HasPrefix(u.Path, root) || !strings.HasPrefix(text, root) || strings.HasPrefix(u.Path, root+"sign") {
		return root
	}
	return text
}

// sentence is a message of the ledger's as one reads it.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	return strings.ToUpper(text[:1]) + text[1:] + "."
}
