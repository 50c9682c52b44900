package console_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
)

// desk is a console on a real database of tokens and sessions, and books that are made up.
type desk struct {
	http.Handler
	books    *fakeBooks
	register *auth.Register
	sessions *auth.Sessions
	// at has the pool of connections.
	at   auth.SessionsConfig
	db   *pgtest.DB
	host string
	// journal and bank are real ones: what banks say is held against real entries.
	journal *journal.Journal
	bank    *reconcile.Reconciler
	// help and suspects are real ones, too.
	help     *support.Desk
	suspects *suspect.Detector
}

// newDesk makes a console that asks for tokens, or, if open, one that asks nobody who they are.
func newDesk(t *testing.T, open bool, change ...func(*console.Config)) *desk {
	t.Helper()
	d := &desk{books: newFakeBooks(), db: pgtest.New(t), host: "127.0.0.1:7080"}
	var err error
	if d.at.Pool, err = pg.Connect(t.Context(), pg.Config{DSN: d.db.ServiceDSN(), MaxConns: 12}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.at.Pool.Close)
	if d.register, err = auth.OpenRegister(t.Context(), d.db.OwnerDSN()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.register.Close)
	if !open {
		callers, err := auth.New(t.Context(), auth.Config{Pool: d.at.Pool, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(callers.Close)
		d.at.Callers = callers
	}
	d.sessions = auth.NewSessions(d.at)
	d.journal = journal.New(d.at.Pool, journal.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(d.journal.Close)
	d.bank = reconcile.New(d.journal, d.at.Pool)
	d.suspects = suspect.New(suspect.Config{Journal: d.journal, Pool: d.at.Pool})
	d.help = support.New(d.journal, d.at.Pool, support.Config{Suspects: d.suspects})
	c := console.Config{
		Reports: d.books, Books: d.books, Reconciler: d.bank, Desk: d.help, Suspects: d.suspects, Sessions: d.sessions, Zone: "Asia/Dhaka",
		Logger: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&c)
	}
	d.Handler = console.New(c)
	return d
}

// token makes a token with grants, such as main:finance.
func (d *desk) token(t *testing.T, name string, grants ...string) (id, secret string) {
	t.Helper()
	parsed, err := auth.ParseGrants(grants)
	if err != nil {
		t.Fatal(err)
	}
	token, secret, err := d.register.Create(context.Background(), auth.TokenSpec{Name: name, Grants: parsed})
	if err != nil {
		t.Fatal(err)
	}
	return token.ID, secret
}

// guest is a browser: it keeps cookies, and says where its forms come from.
type guest struct {
	t       *testing.T
	d       *desk
	cookies map[string]string
	// headers are sent with every request.
	headers map[string]string
	from    string
}

func (d *desk) guest(t *testing.T) *guest {
	return &guest{t: t, d: d, cookies: map[string]string{}, headers: map[string]string{"Sec-Fetch-Site": "same-origin"}, from: "192.0.2.1:4711"}
}

// as gives a browser that is signed in with grants.
func (d *desk) as(t *testing.T, grants ...string) *guest {
	t.Helper()
	_, secret := d.token(t, "ayesha", grants...)
	g := d.guest(t)
	if w := g.post("/console/signin", "token", secret); w.Code != http.StatusSeeOther {
		t.Fatalf("sign in: %d %s", w.Code, w.Body)
	}
	return g
}

func (g *guest) send(r *http.Request) *httptest.ResponseRecorder {
	g.t.Helper()
	r.Host, r.RemoteAddr = g.d.host, g.from
	for name, value := range g.headers {
		if value != "" {
			r.Header.Set(name, value)
		}
	}
	for name, value := range g.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	g.d.ServeHTTP(w, r)
	for _, cookie := range w.Result().Cookies() {
		if g.cookies[cookie.Name] = cookie.Value; cookie.MaxAge < 0 {
			delete(g.cookies, cookie.Name)
		}
	}
	return w
}

func (g *guest) get(path string) *httptest.ResponseRecorder {
	g.t.Helper()
	return g.send(httptest.NewRequest(http.MethodGet, path, nil))
}

// post sends a form of names and values as it is.
func (g *guest) post(path string, fields ...string) *httptest.ResponseRecorder {
	g.t.Helper()
	form := url.Values{}
	for i := 0; i < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return g.send(r)
}

var formKeyPattern = regexp.MustCompile(`name="form_key" value="([\w-]+)"`)

// key is what the session's forms have in them.
func (g *guest) key() string {
	g.t.Helper()
	found := formKeyPattern.FindStringSubmatch(g.get("/console/?all=1").Body.String())
	if found == nil {
		g.t.Fatal("there is no form with a key")
	}
	return found[1]
}

// submit sends a form of the session's own.
func (g *guest) submit(path string, fields ...string) *httptest.ResponseRecorder {
	g.t.Helper()
	return g.post(path, append([]string{"form_key", g.key()}, fields...)...)
}

// says fails unless the answer has a status and all of these texts in it, as a page spells them.
func says(t *testing.T, what string, w *httptest.ResponseRecorder, status int, texts ...string) {
	t.Helper()
	body, err := io.ReadAll(w.Result().Body)
	if err != nil {
		t.Fatal(err)
	}
	if w.Code != status {
		t.Errorf("%s: %d, want %d: %s", what, w.Code, status, body)
		return
	}
	for _, text := range texts {
		if !strings.Contains(string(body), text) {
			t.Errorf("%s: the page does not say %q:\n%s", what, text, body)
		}
	}
}

// leads fails unless the answer sends the browser to an address.
func leads(t *testing.T, what string, w *httptest.ResponseRecorder, to string) {
	t.Helper()
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != to {
		t.Errorf("%s: %d to %q, want 303 to %q\n%s", what, w.Code, got, to, w.Body)
	}
}
