package console_test

import (
	htmltext "html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/devidp"
)

// signInDesk is a desk that people come to from an identity provider.
type signInDesk struct {
	*desk
	provider *auth.Provider
	idp      *httptest.Server
	config   auth.OIDCConfig
}

// newSignInDesk makes a desk at an address. Without tokens nobody is asked, as in a sandbox.
func newSignInDesk(t *testing.T, base string, tokens bool, change ...func(*console.Config)) *signInDesk {
	t.Helper()
	d := &signInDesk{desk: newDesk(t, !tokens), idp: httptest.NewServer(http.NotFoundHandler())}
	t.Cleanup(d.idp.Close)
	provider, err := devidp.New(devidp.Config{
		Issuer: d.idp.URL, ClientID: "console", RedirectURI: base + auth.OIDCCallback, SignedOutURI: base + auth.SignInPath, People: []devidp.Person{
			{Login: "ayesha", Name: "Ayesha Rahman", Groups: []string{"staff", "khata-finance"}}, {Login: "mallory", Name: "Mallory", Groups: []string{"staff"}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.idp.Config.Handler = provider
	d.config = auth.OIDCConfig{
		Issuer: d.idp.URL, ClientID: "console", Base: base, Title: "Example & Sons", Grants: map[string]auth.Grants{"khata-finance": {"main": auth.Finance}},
	}
	if !tokens {
		d.config.People = []string{"Ayesha Rahman", "Mallory"}
	}
	if d.provider, err = auth.NewProvider(d.config, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.provider.Close)
	sessions := d.at
	sessions.Provider = d.provider
	c := console.Config{
		Reports: d.books, Books: d.books, Sessions: auth.NewSessions(sessions), Zone: "Asia/Dhaka", Secure: d.provider.Secure(), Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&c)
	}
	d.Handler = console.New(c)
	return d
}

const booksAt = "https://books.example"

func TestConsole_OpenID(t *testing.T) {
	t.Parallel()
	d := newSignInDesk(t, booksAt, true)
	d.host = "books.example"
	g := d.guest(t)
	asked := report1 + "?month=2026-01"
	start := booksAt + "/console/signin/openid?" + url.Values{"next": {asked}}.Encode()
	says(t, "the page to sign in", g.get("/console/signin?next="+url.QueryEscape(asked)), 200, "Sign in with Example &amp; Sons", htmltext.EscapeString(start),
		"Or with a token", `type="password"`)
	answer := g.toProvider(start, "Ayesha Rahman")
	w := g.get(answer)
	says(t, "coming back", w, 200, "You are signed in", htmltext.EscapeString(asked))
	if to := w.Header().Get("Refresh"); to != "0; url="+asked {
		t.Errorf("the browser goes on to %q", to)
	}
	got := map[string]http.Cookie{}
	for _, cookie := range w.Result().Cookies() {
		if cookie.Name == "__Host-khata" && len(cookie.Value) != 43 {
			t.Errorf("the secret is %q", cookie.Value)
		}
		cookie.Raw, cookie.Value = "", ""
		got[cookie.Name] = *cookie
	}
	want := map[string]http.Cookie{
		"__Host-khata":        {Name: "__Host-khata", Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: true},
		"__Host-khata-signin": {Name: "__Host-khata-signin", Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode, Secure: true, MaxAge: -1},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("cookies (-want +got):\n%s", diff)
	}
	says(t, "the page that was asked for", g.get(asked), 200, "Trial balance", "Ayesha Rahman", "oidc:ayesha", "finance")
	says(t, "what finance may not do", g.submit("/console/main/periods/reopen", "everything", "", "reason", "x"), 403, "role admin")
	g.submit("/console/main/statements", "account", "wallet:shimul", "month", "2026-01")
	if caller := d.books.callers[0]; caller != "oidc:ayesha" {
		t.Errorf("the statement was issued by %s", caller)
	}
	leads(t, "the address of the answer, loaded again", g.get(answer), "/console/")
	leads(t, "to sign in, signed in", g.get("/console/signin/openid?next="+url.QueryEscape(asked)), asked)
	says(t, "the same answer in another browser", d.guest(t).get(answer), 403, "not to a sign-in that this browser has begun")
	w = g.submit("/console/signout")
	says(t, "signing out", w, 200, "You are signed out of the console", "Example &amp; Sons")
	to := d.idp.URL + "/signout?client_id=console&post_logout_redirect_uri=" + url.QueryEscape(booksAt+"/console/signin") + "&state=left"
	if got := w.Header().Get("Refresh"); got != "0; url="+to || g.cookies["__Host-khata"] != "" {
		t.Errorf("the browser goes on to %q with %v", got, g.cookies)
	}
	says(t, "coming back from there", g.get("/console/signin?state=left"), 200, "You are signed out")
	if w := g.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("afterwards: %d", w.Code)
	}
}

// toProvider follows the way to the identity provider, and picks somebody there. It gives the address to come back to, as a path.
func (g *guest) toProvider(start, who string) string {
	g.t.Helper()
	at, err := url.Parse(start)
	if err != nil {
		g.t.Fatal(err)
	}
	w := g.get(at.RequestURI())
	if w.Code != http.StatusSeeOther {
		g.t.Fatalf("%s: %d %s", start, w.Code, w.Body)
	}
	return g.pick(w.Header().Get("Location"), who)
}

func (g *guest) pick(at, who string) string {
	g.t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(httptest.NewRequestWithContext(g.t.Context(), http.MethodGet, at+"&login_hint="+url.QueryEscape(who), nil))
	if err != nil {
		g.t.Fatal(err)
	}
	defer resp.Body.Close()
	back, err := resp.Location()
	if err != nil {
		g.t.Fatal(resp.Status, err)
	}
	return back.RequestURI()
}

// The session after a sign-in is a new one, whatever the browser had, and a sign-in that somebody else has begun signs nobody in.
func TestConsole_OpenIDFixation(t *testing.T) {
	t.Parallel()
	d := newSignInDesk(t, booksAt, true)
	g, mallory := d.guest(t), d.guest(t)
	planted := strings.Repeat("A", 43)
	g.cookies["__Host-khata"] = planted
	first := g.get("/console/signin/openid")
	flow := first.Result().Cookies()[0]
	if want := 600; flow.MaxAge != want || flow.SameSite != http.SameSiteLaxMode || !flow.HttpOnly || !flow.Secure || flow.Path != "/" {
		t.Errorf("the cookie of the way there is %+v", flow)
	}
	// Mallory's own answer, and the state of it, in somebody else's browser.
	theirs := mallory.toProvider("/console/signin/openid", "Ayesha Rahman")
	says(t, "an answer to somebody else", g.get(theirs), 403, "not to a sign-in that this browser has begun")
	if _, signedIn := g.cookies["__Host-khata-signin"]; signedIn || g.cookies["__Host-khata"] != planted {
		t.Errorf("the browser keeps %v", g.cookies)
	}
	g.get(g.toProvider("/console/signin/openid", "Ayesha Rahman"))
	if secret := g.cookies["__Host-khata"]; secret == planted || len(secret) != 43 {
		t.Fatalf("the session is %q", secret)
	}
	mallory.cookies["__Host-khata"] = planted
	if w := mallory.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("the planted session: %d", w.Code)
	}
	// What was begun before is over: its cookie is gone.
	says(t, "an old answer", d.guest(t).get(theirs), 403)
}

// Nobody is sent anywhere but to the provider and back, and then to a page of the console's.
func TestConsole_OpenIDRedirects(t *testing.T) {
	t.Parallel()
	d := newSignInDesk(t, booksAt, true)
	for next, want := range map[string]string{
		"":                               "/console/",
		"/console/main/periods?x=1&y=;2": "/console/main/periods?x=1&y=;2",
		"//evil.example/":                "/console/",
		`\\evil.example\`:                "/console/",
		`/\evil.example/`:                "/console/",
		"/%2f%2fevil.example":            "/console/",
		"%2f%2fevil.example":             "/console/",
		"/console/%2f%2fevil.example":    "/console/",
		"/console/..%2f..%2fpay":         "/console/",
		"https://evil.example/console/":  "/console/",
		"https:/console/":                "/console/",
		"javascript:alert(1)":            "/console/",
		"/console/\n0; url=//evil":       "/console/",
		"/console/signin/openid":         "/console/",
		"/console/signin/callback?code=": "/console/",
		"/console/signout":               "/console/",
		// Longer ones do not fit into a cookie.
		"/console/main/?" + strings.Repeat("x", 2400): "/console/main/?" + strings.Repeat("x", 2400), "/console/main/?" + strings.Repeat("x", 3000): "/console/",
	} {
		g := d.guest(t)
		g.from = "192.0.2." + string(rune('0'+len(next)%10)) + string(rune('0'+len(next)/10%10)) + ":1"
		back := g.toProvider("/console/signin/openid?"+url.Values{"next": {next}}.Encode(), "Ayesha Rahman")
		if size := len(g.cookies["__Host-khata-signin"]); size == 0 || size > 3900 {
			t.Errorf("next %.40q: the cookie has %d bytes", next, size)
		}
		w := g.get(back)
		if got := w.Header().Get("Refresh"); w.Code != 200 || got != "0; url="+want {
			t.Errorf("next %q: %d, on to %q, want %q", next, w.Code, got, want)
		}
	}
	// The way back is what the server is configured with, whatever a request says.
	g := d.guest(t)
	d.host = "evil.example"
	g.headers["X-Forwarded-Host"], g.headers["Origin"] = "evil.example", "https://evil.example"
	for _, path := range []string{
		"/console/signin/openid?redirect_uri=https://evil.example/", "/console/signin/openid?next=x&redirect_uri=&client_id=evil&login_hint=mallory&as=Mallory&state=x",
	} {
		to, err := url.Parse(g.get(path).Header().Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		query := to.Query()
		if query["redirect_uri"][0] != booksAt+"/console/signin/callback" || len(query["redirect_uri"]) != 1 || query.Get("client_id") != "console" ||
			query.Has("login_hint") || !strings.HasPrefix(to.String(), d.idp.URL+"/authorize?") {
			t.Errorf("%s leads to %s", path, to)
		}
	}
	// Another site leads to the page to sign in, and no further.
	for _, site := range []string{"cross-site", "same-site"} {
		g := d.guest(t)
		g.headers["Sec-Fetch-Site"] = site
		leads(t, "from "+site, g.get("/console/signin/openid?next=/console/main/"), "/console/signin?next=%2Fconsole%2Fmain%2F")
		if len(g.cookies) > 0 {
			t.Errorf("%s sets %v", site, g.cookies)
		}
	}
}

func TestConsole_OpenIDNotSignedIn(t *testing.T) {
	t.Parallel()
	d := newSignInDesk(t, booksAt, true)
	g := d.guest(t)
	w := g.get(g.toProvider("/console/signin/openid", "Mallory"))
	says(t, "somebody without a role", w, 403, "You are not signed in", "mallory", "none of your groups has a role", "again=1")
	if _, in := g.cookies["__Host-khata"]; in {
		t.Error("and yet there is a session")
	}
	to := g.get("/console/signin/openid?again=1").Header().Get("Location")
	if !strings.Contains(to, "prompt=login") {
		t.Errorf("to be somebody else one goes to %s", to)
	}
	answer := g.pick(to, "Ayesha Rahman")
	says(t, "an error of the provider's", g.get(regexp.MustCompile(`code=[^&]*`).ReplaceAllString(answer, "error=%3Cscript%3E")), 403, "did not let you in", "script")
	says(t, "without a state", g.get("/console/signin/callback?code=x"), 403, "begin again")
	// Codes that somebody makes up are not asked of the provider without end.
	for range 20 {
		w = g.get("/console/signin/callback?code=x")
	}
	says(t, "too often", w, 429, "Too many attempts")
	// Pages lead to sign in as ever.
	for _, route := range console.ConsoleRoutes() {
		rule, _ := auth.RuleOf(route)
		method, path := sample(route)
		if rule.Scope == auth.Anyone {
			continue
		}
		if method == http.MethodGet {
			leads(t, route, d.guest(t).get(path), "/console/signin?next="+url.QueryEscape(path))
		} else {
			leads(t, route, d.guest(t).post(path), "/console/signin?lost=1")
		}
	}
	// The other way in goes on, whatever becomes of the provider.
	d.idp.Close()
	fresh, err := auth.NewProvider(d.config, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fresh.Close)
	at := d.at
	at.Provider = fresh
	d.Handler = console.New(console.Config{Reports: d.books, Books: d.books, Sessions: auth.NewSessions(at), Logger: slog.New(slog.DiscardHandler)})
	g = d.guest(t)
	says(t, "the page to sign in", g.get("/console/signin"), 200, "Sign in with Example &amp; Sons")
	w = g.get("/console/signin/openid?next=" + url.QueryEscape(report1))
	says(t, "a provider that is away", w, 503, "You cannot be signed in now", "Example &amp; Sons", "Try again", htmltext.EscapeString("/console/signin?next="+url.QueryEscape(report1)))
	if strings.Contains(w.Body.String(), "refused") {
		t.Error("the visitor is told what the log should have")
	}
	_, secret := d.token(t, "rahim", "main:finance")
	leads(t, "with a token", g.post("/console/signin", "token", secret, "next", report1), report1)
	for _, path := range []string{"/console/signin/openid", "/console/signin/callback?code=x"} {
		says(t, path+" without a provider", newDesk(t, false).guest(t).get(path), 404)
	}
}

// In a sandbox one is somebody by one press, and only at this machine.
func TestConsole_OpenIDSandbox(t *testing.T) {
	t.Parallel()
	d := newSignInDesk(t, "http://127.0.0.1:7080", false)
	g := d.guest(t)
	page := g.get("/console/signin?next=/console/main/")
	says(t, "the page to sign in", page, 200, "asks nobody who they are", ">Ayesha Rahman</a>", ">Mallory</a>")
	body := page.Body.String()
	if strings.Contains(body, `type="password"`) || strings.Contains(body, "<form") {
		t.Errorf("it asks for more:\n%s", body)
	}
	path := htmltext.UnescapeString(regexp.MustCompile(`href="http://127.0.0.1:7080(/console/signin/openid[^"]*Ayesha[^"]*)"`).FindStringSubmatch(body)[1])
	to := g.get(path).Header().Get("Location")
	if !strings.Contains(to, "login_hint=Ayesha+Rahman") {
		t.Fatalf("the press leads to %s", to)
	}
	says(t, "coming back", g.get(g.pick(strings.Replace(to, "login_hint=Ayesha+Rahman", "", 1), "Ayesha Rahman")), 200, "/console/main/")
	says(t, "a page", g.get(report1), 200, "oidc:ayesha")
	for host, want := range map[string]int{"localhost:7080": 200, "evil.example:7080": 421, "127.0.0.1.evil.example": 421, "": 421} {
		d.host = host
		for _, path := range []string{report1, "/console/signin/openid", "/console/signin/callback?code=x"} {
			if w := g.get(path); (w.Code == 421) != (want == 421) {
				t.Errorf("%s under the name %q: %d", path, host, w.Code)
			}
		}
	}
}

// A real browser goes to another site and comes back, by keyboard and pointer, with cookies that are for this host alone.
func TestConsole_OpenIDBrowser(t *testing.T) {
	t.Parallel()
	var handler http.Handler
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	// To a browser localhost and 127.0.0.1, where the provider is, are two sites; and localhost is as good as TLS.
	at := strings.Replace(front.URL, "127.0.0.1", "localhost", 1)
	d := newSignInDesk(t, at, true, func(c *console.Config) { c.Secure = true })
	handler = d.Handler
	o := &office{Server: &httptest.Server{URL: at}, desk: d.desk}
	browser := browse(t, "")
	v := visitor(browser, t).camera(360, "dark")
	axe := loadAxe(t)
	check := func(name string) {
		t.Helper()
		checkLayout(v, name)
		if axe != "" {
			checkAxe(v, name, axe)
		}
	}
	v.goTo(o, report1+"?month=2026-01").wait(`document.getElementById('token')`)
	check("signin")
	v.click("a", "Sign in with Example & Sons")
	v.wait(`location.host !== %q && document.querySelector('h1')?.innerText === 'Who are you?'`, strings.TrimPrefix(at, "http://"))
	if style := js[string](v, `getComputedStyle(document.querySelector('main a')).display`); style != "flex" {
		t.Errorf("the provider's page has no styles: %s", style)
	}
	check("provider")
	v.do(chromedp.Click(`a[href*="Ayesha"]`))
	v.wait(`document.querySelector('h1')?.innerText === 'Trial balance' && document.querySelector('tr.total')`)
	v.wait(`document.querySelector('.who')?.innerText.includes('oidc:ayesha')`)
	check("signed in")
	if cookies := js[string](v, `document.cookie`); cookies != "" {
		t.Errorf("scripts can read %s", cookies)
	}
	// Back is no way to sign in again, and none to lose the session.
	js[bool](v, `(history.back(), true)`)
	v.wait(`document.readyState === 'complete' && document.querySelector('h1')?.innerText !== 'Trial balance'`)
	v.goTo(o, "/console/main/periods").wait(`document.querySelector('h1')?.innerText === 'Periods'`)
	v.click("button", "Sign out")
	v.wait(`document.querySelector('h1')?.innerText === 'Sign in' && document.querySelector('.note')?.innerText.includes('signed out')`)
	if at := js[string](v, `location.search`); at != "?state=left" {
		t.Errorf("it has not been at the provider: %s", at)
	}
	v.goTo(o, "/console/main/periods").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
	// Somebody without a role is told so.
	v.click("a", "Sign in with Example & Sons").wait(`document.querySelector('h1')?.innerText === 'Who are you?'`)
	v.do(chromedp.Click(`a[href*="Mallory"]`))
	v.wait(`document.querySelector('[role=alert]')?.innerText.includes('none of your groups has a role')`)
	check("no role")
	v.click("a", "Sign in with Example & Sons").wait(`document.querySelector('h1')?.innerText === 'Who are you?' && location.search.includes('prompt=login')`)
}
