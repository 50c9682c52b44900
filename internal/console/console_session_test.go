package console_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/ledger"
)

const report1 = "/console/main/reports/trial-balance"

func TestConsole_SignIn(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	_, secret := d.token(t, "ayesha", "main:finance")
	g := d.guest(t)
	leads(t, "a page of somebody who is not signed in", g.get(report1+"?month=2026-01"),
		"/console/signin?next="+url.QueryEscape(report1+"?month=2026-01"))
	says(t, "the page to sign in", g.get("/console/signin?next="+url.QueryEscape(report1)), 200, `type="password"`, `value="`+report1+`"`)
	for name, token := range map[string]string{
		"nothing": "", "no token": "khata_x", "a JWT": "a.b.c", "cut off": secret[:len(secret)-1], "markup": `"><script>alert(1)</script>`,
	} {
		w := g.post("/console/signin", "token", token, "next", report1)
		says(t, name, w, http.StatusForbidden, "You are not signed in", `value="`+report1+`"`)
		if body := w.Body.String(); len(g.cookies) > 0 || strings.Contains(body, "<script") || token != "" && token != "a.b.c" &&
			strings.Contains(body, token) {
			t.Errorf("%s: %v\n%s", name, g.cookies, body)
		}
	}
	leads(t, "signing in", g.post("/console/signin", "token", "  "+secret+"\n", "next", report1), report1)
	says(t, "the page that was asked for", g.get(report1), 200, "Trial balance", "ayesha", "finance")
	leads(t, "the page to sign in, signed in", g.get("/console/signin?next="+url.QueryEscape(report1)), report1)
}

func TestConsole_Cookie(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"khata_session": false, "__Host-khata": true} {
		d := newDesk(t, false, func(c *console.Config) { c.Secure = secure })
		_, secret := d.token(t, "ayesha", "main:finance")
		cookies := d.guest(t).post("/console/signin", "token", secret).Result().Cookies()
		if len(cookies) != 1 {
			t.Fatalf("%v", cookies)
		}
		got := *cookies[0]
		if len(got.Value) != 43 {
			t.Errorf("the secret has %d characters", len(got.Value))
		}
		got.Raw, got.Value = "", ""
		want := http.Cookie{Name: name, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: secure}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("the cookie (-want +got):\n%s", diff)
		}
	}
}

// Nobody can sign somebody else in to a session that he knows, and a session ends where another begins in its browser.
func TestConsole_Fixation(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	planted := strings.Repeat("A", 43)
	g := d.guest(t)
	g.cookies["khata_session"] = planted
	_, secret := d.token(t, "ayesha", "main:finance")
	g.post("/console/signin", "token", secret)
	first := g.cookies["khata_session"]
	if first == planted || first == "" {
		t.Fatalf("the session is %q", first)
	}
	mallory := d.guest(t)
	mallory.cookies["khata_session"] = planted
	if w := mallory.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("the planted session: %d", w.Code)
	}
	g.post("/console/signin", "token", secret)
	if second := g.cookies["khata_session"]; second == first {
		t.Error("the second sign-in goes on with the session of the first")
	}
	old := d.guest(t)
	old.cookies["khata_session"] = first
	if w := old.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("the session before: %d", w.Code)
	}
	says(t, "the session now", g.get(report1), 200)
}

func TestConsole_SignOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	secret := g.cookies["khata_session"]
	says(t, "somebody else's form", g.post("/console/signout", "form_key", "x"), http.StatusForbidden, "This form is not from here")
	says(t, "still signed in", g.get(report1), 200)
	leads(t, "signing out", g.submit("/console/signout"), "/console/signin?left=1")
	says(t, "afterwards", g.get("/console/signin?left=1"), 200, "You are signed out")
	if _, kept := g.cookies["khata_session"]; kept {
		t.Error("the browser keeps the cookie")
	}
	g.cookies["khata_session"] = secret
	if w := g.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("with the secret of before: %d", w.Code)
	}
	var rows int
	if err := d.at.Pool.QueryRow(t.Context(), `SELECT count(*) FROM console_session`).Scan(&rows); err != nil || rows != 0 {
		t.Errorf("%d sessions are left: %v", rows, err)
	}
	leads(t, "signing out once more", d.guest(t).post("/console/signout"), "/console/signin?left=1")
}

// A session ends after eight hours, after half an hour without use, and with its token.
func TestConsole_Ends(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	for name, sql := range map[string]string{
		"eight hours later":     `UPDATE console_session SET created_at = created_at - interval '9 h', expires_at = expires_at - interval '8 h 1 s'`,
		"half an hour unused":   `UPDATE console_session SET used_at = used_at - interval '31 minutes'`,
		"swept by another hand": `DELETE FROM console_session`,
	} {
		g := d.as(t, "main:finance")
		says(t, name+": before", g.get(report1), 200)
		d.db.Exec(t, sql)
		if w := g.get(report1); w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d", name, w.Code)
		}
		leads(t, name+": a form", g.post("/console/main/statements", "form_key", "x"), "/console/signin?lost=1")
	}
	g := d.as(t, "main:finance")
	id, secret := d.token(t, "rahim", "main:finance")
	revoked := d.guest(t)
	revoked.post("/console/signin", "token", secret)
	says(t, "before it is revoked", revoked.get(report1), 200)
	if _, _, err := d.register.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(7 * time.Second); revoked.get(report1).Code == 200; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("a session outlives its token")
		}
	}
	says(t, "the session of another token", g.get(report1), 200)
}

// Where nobody is asked, a visitor picks whom to be, and only under a name of this machine.
func TestConsole_Personas(t *testing.T) {
	t.Parallel()
	d := newDesk(t, true)
	g := d.guest(t)
	says(t, "the page to sign in", g.get("/console/signin"), 200, `value="Finance"`, `value="Admin"`, `value="Support"`, `value="Reader"`)
	says(t, "nobody", g.post("/console/signin", "persona", "Nobody"), http.StatusForbidden, "nobody of that name")
	says(t, "a token", g.post("/console/signin", "token", "khata_x_y"), http.StatusForbidden, "takes no tokens")
	leads(t, "Finance", g.post("/console/signin", "persona", "Finance"), "/console/")
	says(t, "a report", g.get(report1), 200, "local:finance")
	g.submit("/console/main/statements", "account", "wallet:shimul", "month", "2026-01")
	if caller := d.books.callers[0]; caller != "local:finance" {
		t.Errorf("the statement was issued by %s", caller)
	}
	for host, want := range map[string]int{
		"localhost": 200, "localhost:7080": 200, "LOCALHOST": 200, "[::1]:7080": 200, "127.0.0.2:80": 200,
		"evil.example:7080": 421, "127.0.0.1.evil.example": 421,
		"localhost.evil.example": 421, "192.0.2.1": 421, "": 421,
	} {
		d.host = host
		if w := g.get(report1); w.Code != want {
			t.Errorf("under the name %q: %d, want %d", host, w.Code, want)
		}
	}
	// A server that asks who they are does not take such a session.
	strict := newDesk(t, false)
	if _, err := strict.at.Pool.Exec(t.Context(), `INSERT INTO console_session (session_sha256, persona, expires_at)
		VALUES (sha256(decode($1, 'base64')), 'Admin',
			clock_timestamp() + interval '1 hour')`, "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="); err != nil {
		t.Fatal(err)
	}
	h := strict.guest(t)
	h.cookies["khata_session"] = strings.Repeat("A", 43)
	if w := h.get(report1); w.Code != http.StatusSeeOther {
		t.Errorf("a session that anybody could have had: %d", w.Code)
	}
}

func TestConsole_ForeignForms(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g, other := d.as(t, "main:finance", "main:admin"), d.as(t, "main:finance")
	key := g.key()
	fields := func(key string) []string {
		return []string{"form_key", key, "account", "wallet:shimul", "month", "2026-01"}
	}
	for _, path := range []string{"/console/main/statements", "/console/main/periods/close", "/console/main/periods/reopen"} {
		for name, c := range map[string]struct {
			headers map[string]string
			key     string
		}{
			"without a key":              {map[string]string{"Sec-Fetch-Site": "same-origin"}, ""},
			"with another key":           {map[string]string{"Sec-Fetch-Site": "same-origin"}, strings.Repeat("x", len(key))},
			"with another's key":         {map[string]string{"Sec-Fetch-Site": "same-origin"}, other.key()},
			"from another site":          {map[string]string{"Sec-Fetch-Site": "cross-site"}, key},
			"from a neighbour":           {map[string]string{"Sec-Fetch-Site": "same-site"}, key},
			"with another's origin":      {map[string]string{"Origin": "https://evil.example"}, key},
			"with an origin of its host": {map[string]string{"Origin": "http://127.0.0.1:9999"}, key},
			"with no origin":             {map[string]string{"Origin": "null"}, key},
		} {
			g.headers = c.headers
			says(t, path+" "+name, g.post(path, fields(c.key)...), http.StatusForbidden, "This form is not from here", "Nothing was done")
		}
	}
	if len(d.books.statements)+len(d.books.changes) > 0 {
		t.Errorf("done: %v %v", d.books.statements, d.books.changes)
	}
	g.headers = map[string]string{"Origin": "http://127.0.0.1:7080"}
	if w := g.post("/console/main/statements", fields(key)...); w.Code != http.StatusSeeOther {
		t.Errorf("an old browser's own form: %d %s", w.Code, w.Body)
	}
	// To sign in takes a browser that says where the form was: there is no session that it could be of.
	_, secret := d.token(t, "rahim", "main:finance")
	for name, headers := range map[string]map[string]string{
		"nothing": {}, "cross-site": {"Sec-Fetch-Site": "cross-site"}, "by hand": {"Sec-Fetch-Site": "none"},
		"another origin": {"Origin": "https://evil.example"},
	} {
		h := d.guest(t)
		h.headers = headers
		says(t, "signing in from "+name, h.post("/console/signin", "token", secret), http.StatusForbidden, "This form is not from here")
	}
}

// Nobody is sent anywhere else by way of the page to sign in.
func TestConsole_OpenRedirect(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	_, secret := d.token(t, "ayesha", "main:finance")
	for next, want := range map[string]string{
		"":               "/console/",
		"/console/main/": "/console/main/",
		"/console/main/account?account=wallet%3Ashimul&month=2026-01": "/console/main/account?account=wallet%3Ashimul&month=2026-01",
		"https://evil.example/":                 "/console/",
		"//evil.example/console/":               "/console/",
		"/\\evil.example/console/":              "/console/",
		"/console/\\evil.example":               "/console/",
		"/console/../../evil":                   "/console/",
		"/console/%2e%2e/pay":                   "/console/",
		"/console//evil.example":                "/console/",
		"/pay":                                  "/console/",
		"javascript:alert(1)":                   "/console/",
		"data:text/html,x":                      "/console/",
		"/console/\r\nSet-Cookie: x=y":          "/console/",
		"/console/main/#x":                      "/console/",
		" /console/main/":                       "/console/",
		"http:/console/main/":                   "/console/",
		"/consolex/":                            "/console/",
		"/console/signin?next=/console/":        "/console/",
		"/console/" + strings.Repeat("x", 5000): "/console/",
	} {
		g := d.guest(t)
		g.from = "192.0.2." + string(rune('0'+len(next)%10)) + string(rune('0'+len(next)/10%10)) + ":1" // Nobody tries too often.
		leads(t, "next "+next, g.post("/console/signin", "token", secret, "next", next), want)
		if len(next) > 4000 {
			continue
		}
		leads(t, "next "+next+" for who is signed in", g.get("/console/signin?next="+url.QueryEscape(next)), want)
	}
}

func TestConsole_TooManyAttempts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	_, secret := d.token(t, "ayesha", "main:finance")
	g := d.guest(t)
	var w *httptest.ResponseRecorder
	for range 20 {
		w = g.post("/console/signin", "token", "khata_x")
	}
	says(t, "the twentieth attempt", w, http.StatusTooManyRequests, "Too many attempts")
	if w.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	says(t, "the right token from there", g.post("/console/signin", "token", secret), http.StatusTooManyRequests)
	g.from = "192.0.2.2:1"
	leads(t, "from elsewhere", g.post("/console/signin", "token", secret), "/console/")
	six := d.guest(t)
	for i := range 20 {
		six.from = "[2001:db8::" + string(rune('a'+i%6)) + "]:1"
		w = six.post("/console/signin", "token", "khata_x")
	}
	says(t, "from one network of IPv6", w, http.StatusTooManyRequests)
}

// The limit of calls a second is the same here as elsewhere, and whoever is not let in is counted.
func TestConsole_LimitedAndCounted(t *testing.T) {
	t.Parallel()
	var denied []ledger.Code
	d := newDesk(t, false, func(c *console.Config) {
		c.Limiter = auth.NewLimiter(0.01, 3)
		c.Denied = func(code ledger.Code) { denied = append(denied, code) }
	})
	g := d.as(t, "main:reader")
	for range 3 {
		says(t, "a page", g.get(report1), 200)
	}
	w := g.get(report1)
	if says(t, "one too many", w, http.StatusTooManyRequests, "Too many at once"); w.Header().Get("Retry-After") == "" {
		t.Error("it does not say when to try again")
	}
	d.guest(t).get(report1)
	d.guest(t).post("/console/signin", "token", "khata_x")
	d.as(t, "shop:reader").get("/console/main/") // Its name is ayesha too, who has called too often.
	_, secret := d.token(t, "rahim", "shop:reader")
	h := d.guest(t)
	h.post("/console/signin", "token", secret)
	h.get("/console/main/")
	want := []ledger.Code{ledger.CodeRateLimited, ledger.CodeUnauthenticated, ledger.CodeUnauthenticated, ledger.CodeRateLimited,
		ledger.CodePermissionDenied}
	if diff := cmp.Diff(want, denied); diff != "" {
		t.Errorf("denied (-want +got):\n%s", diff)
	}
}

func TestConsole_DatabaseAway(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	d.at.Pool.Close()
	w := g.get(report1)
	says(t, "a page", w, http.StatusServiceUnavailable, "It cannot be shown now", "Try again")
	if strings.Contains(w.Body.String(), "closed pool") {
		t.Error("the visitor is told what the log should have")
	}
}
