package console_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// Every page and action is in the policy, and nothing in the policy is no page.
func TestConsole_Policy(t *testing.T) {
	t.Parallel()
	routes := console.ConsoleRoutes()
	for _, route := range routes {
		rule, ok := auth.RuleOf(route)
		if !ok {
			t.Errorf("%s is missing from the policy: nobody may go there", route)
		}
		if about := strings.Contains(route, "{ledger}"); ok && rule.Scope != auth.Anyone && about != (rule.Scope == auth.InLedger) {
			t.Errorf("%s names a ledger: %t; its rule is %+v", route, about, rule)
		}
		if anyone := strings.Contains(route, "sign") || strings.Contains(route, "assets"); anyone != (rule.Scope == auth.Anyone) {
			t.Errorf("%s is for anyone: %+v", route, rule)
		}
	}
	for _, method := range auth.Methods() {
		if strings.Contains(method, " /console/") && !slices.Contains(routes, method) {
			t.Errorf("%s has a rule and is no page", method)
		}
	}
}

// sample fills in the pattern of a route.
func sample(route string) (method, path string) {
	method, path, _ = strings.Cut(route, " ")
	return method, strings.NewReplacer("{ledger}", "main", "{report}", "trial-balance", "{no}", "1", "{bank}", "brac", "{profile}", "plain").Replace(path)
}

// Every page and action × role, and the two ways of having none.
func TestConsole_Roles(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	d.banked(t)
	period, _ := report.Month("2026-01", "Asia/Dhaka")
	if _, _, err := d.books.Issue(t.Context(), report.StatementSpec{Ledger: "main", Account: "wallet:tithi", Period: period}, "x"); err != nil {
		t.Fatal(err)
	}
	grants := map[string][]string{"elsewhere": {"shop:finance", "shop:admin", "shop:reader"}, "everywhere": {"*:finance"}}
	for _, role := range auth.RoleNames() {
		grants[role] = []string{"main:" + role}
	}
	for name, list := range grants {
		g := d.as(t, list...)
		g.from = name
		parsed, err := auth.ParseGrants(list)
		if err != nil {
			t.Fatal(err)
		}
		home := g.get("/console/?all=1").Body.String()
		key := formKeyPattern.FindStringSubmatch(home)
		for _, route := range console.ConsoleRoutes() {
			rule, _ := auth.RuleOf(route)
			if rule.Scope == auth.Anyone {
				continue
			}
			have := parsed.On("main")
			if rule.Scope == auth.Somewhere {
				have = parsed.Somewhere()
			}
			method, path := sample(route)
			var w *httptest.ResponseRecorder
			if method == http.MethodGet {
				w = g.get(path + map[string]string{"/console/main/account": "?account=wallet:shimul", brac + "/item": "?item=line:1",
					"/console/main/transfer": "?id=TXN-1", "/console/main/refund": "?id=TXN-1", "/console/main/support": "?text=TXN-1"}[path])
			} else {
				w = g.post(path, "form_key", key[1], "account", "wallet:shimul", "month", "2026-01", "closed_before", "", "everything", "", "reason", "x",
					"request", strings.Repeat("A", 26), "item", "line:1", "profile", "{}",
					"id", "TXN-1", "key", strings.Repeat("A", 26), "amount", "1", "expected_refunded", "0", "members", "2")
			}
			if want := have&rule.Roles != 0; want == (w.Code == http.StatusForbidden) || w.Code >= 500 {
				t.Errorf("%s: %s: %d\n%s", name, route, w.Code, w.Body)
			} else if !want {
				said := "It takes one of these roles"
				if len(rule.Roles.Names()) == 1 {
					said = "It takes the role"
				}
				says(t, name+": "+route, w, http.StatusForbidden, "You may not do this", said, rule.Roles.String())
			}
		}
	}
}

// A ledger that there is and one that there is not are the same to who may not look.
func TestConsole_NoLeak(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	answers := map[string]bool{}
	for _, name := range []string{"shop", "nowhere", "%2A", "a b", "UPPER"} {
		w := g.get("/console/" + url.PathEscape(name) + "/reports/trial-balance?month=2026-01")
		answers[fmt.Sprint(w.Code)] = true
		says(t, name, w, http.StatusForbidden, "You may not do this")
	}
	everywhere := d.as(t, "*:finance")
	says(t, "a name that cannot be, to who may look everywhere", everywhere.get("/console/UPPER/"), http.StatusNotFound)
	says(t, "a ledger that there is not", everywhere.get("/console/nowhere/"), http.StatusNotFound, "ledger nowhere does not exist")
	if body := g.get("/console/?all=1").Body.String(); strings.Contains(body, "shop") {
		t.Errorf("the list of ledgers names one that is not hers:\n%s", body)
	}
}

// The navigation shows only where one may go, and the pages only what one may do.
func TestConsole_Navigation(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d.books.change("x", "UTC", "", &before)
	for role, want := range map[string]struct{ has, hasNot []string }{
		"reader": {[]string{"Trial balance", `href="/console/main/statements"`},
			[]string{"Issue a statement", "Close the books", "Open the books again", "/console/main/support", "/console/main/suspects", "/console/main/review"}},
		"finance":  {[]string{"Trial balance", "Issue a statement", "Close the books"}, []string{"Open the books again"}},
		"admin":    {[]string{"Trial balance", "Close the books", "Open the books again"}, []string{"Issue a statement"}},
		"support":  {[]string{`href="/console/main/support"`, `href="/console/main/suspects"`, `href="/console/main/review"`}, []string{"Trial balance", "Statements", "Periods", "Accounts", "no pages yet"}},
		"approver": {[]string{`href="/console/main/support"`, `href="/console/main/suspects"`, `href="/console/main/review"`}, []string{"Trial balance", "Statements"}},
	} {
		g := d.as(t, "main:"+role)
		g.from = role
		var all string
		for _, path := range []string{"/console/main/", "/console/main/statements", "/console/main/periods"} {
			if w := g.get(path); w.Code == 200 {
				all += w.Body.String()
			}
		}
		for _, text := range want.has {
			if !strings.Contains(all, text) {
				t.Errorf("%s is not shown %q", role, text)
			}
		}
		for _, text := range want.hasNot {
			if strings.Contains(all, text) {
				t.Errorf("%s is shown %q", role, text)
			}
		}
	}
	leads(t, "who has one ledger", d.as(t, "shop:finance").get("/console/"), "/console/shop/")
	says(t, "who has two", d.as(t, "*:finance").get("/console/"), 200, `href="/console/main/"`, `href="/console/shop/"`)
	leads(t, "without the slash", d.as(t, "*:finance").get("/console"), "/console/")
}

func TestConsole_Headers(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; " +
			"require-trusted-types-for 'script'; trusted-types 'none'",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
		"Content-Type": "text/html; charset=utf-8", "Content-Language": "en", "Cache-Control": "no-store",
	}
	for _, path := range []string{"/console/signin", "/console/main/", report1 + "?month=2026-01", "/console/nothing/here", "/console/main/periods"} {
		w := g.get(path)
		if strings.HasSuffix(path, "signin") {
			w = d.guest(t).get(path)
		}
		got := map[string]string{}
		for name := range w.Header() {
			got[name] = w.Header().Get(name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: headers (-want +got):\n%s", path, diff)
		}
	}
}

func TestConsole_Files(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.guest(t)
	body := g.get("/console/signin").Body.String()
	_, rest, _ := strings.Cut(body, `<link rel="stylesheet" href="`)
	style, _, _ := strings.Cut(rest, `"`)
	w := g.get(style)
	if w.Code != 200 || w.Header().Get("Content-Type") != "text/css; charset=utf-8" ||
		w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
		t.Errorf("%s: %d %v", style, w.Code, w.Header())
	}
	for _, missing := range []string{
		strings.TrimSuffix(style, "console.css"), strings.Replace(style, "console.css", "console.go",
			1), "/console/-/assets/0123456789abcdef/console.css",
		strings.Replace(style, "console.css", "..%2fconsole.css", 1),
	} {
		if w := g.get(missing); w.Code == 200 {
			t.Errorf("%s: %d", missing, w.Code)
		}
	}
}

func TestConsole_WrongRequests(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	key := g.key()
	says(t, "nothing there", g.get("/console/main/nothing"), http.StatusNotFound, "There is no such page")
	says(t, "no report", g.get("/console/main/reports/nothing"), http.StatusNotFound)
	says(t, "no statement", g.get("/console/main/statements/7"), http.StatusNotFound, "There is no such statement")
	says(t, "no number", g.get("/console/main/statements/x"), http.StatusNotFound)
	for path, allow := range map[string]string{report1: "GET, HEAD", "/console/main/periods/close": "POST",
		"/console/main/statements": "GET, HEAD, POST"} {
		w := g.send(httptest.NewRequest(http.MethodDelete, path, nil))
		if says(t, path, w, http.StatusMethodNotAllowed); w.Header().Get("Allow") != allow {
			t.Errorf("%s allows %s", path, w.Header().Get("Allow"))
		}
	}
	says(t, "a page that is posted to", g.submit(report1), http.StatusMethodNotAllowed)
	says(t, "an action that is got", g.get("/console/main/periods/close"), http.StatusMethodNotAllowed)
	says(t, "a big form", g.post("/console/main/statements", "form_key", key, "account", strings.Repeat("x", 20_000)),
		http.StatusRequestEntityTooLarge, "too big")
	says(t, "a long address", g.get(report1+"?prefix="+strings.Repeat("x", 5000)), http.StatusRequestURITooLong, "too long")
	says(t, "a long field", g.submit("/console/main/statements", "account", strings.Repeat("x", 300), "month", "2026-01"), http.StatusBadRequest,
		"at most 256")
	r := httptest.NewRequest(http.MethodPost, "/console/main/statements", strings.NewReader(`{"form_key":"`+key+`"}`))
	r.Header.Set("Content-Type", "application/json")
	says(t, "another kind", g.send(r), http.StatusUnsupportedMediaType)
	r = httptest.NewRequest(http.MethodPost, "/console/main/statements", strings.NewReader("form_key=%zz"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	says(t, "what is no form", g.send(r), http.StatusBadRequest)
	if w := g.send(httptest.NewRequest(http.MethodHead, report1, nil)); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
	if len(d.books.statements) > 0 {
		t.Error("something was done")
	}
}

func TestConsole_Report(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:reader")
	// Nothing is read before something is asked.
	says(t, "the form", g.get(report1), 200, `<details class="question no-print" open>`, `name="month"`, `value="Asia/Dhaka"`, `name="depth"`,
		"opening balance, debits, credits")
	if len(d.books.requests) > 0 {
		t.Errorf("%+v", d.books.requests)
	}
	w := g.get(report1 + "?month=2026-01&from=&to=&zone=Asia/Dhaka&basis=value&prefix=wallet:&depth=2&currency=bdt&empty=1")
	says(t, "the report", w, 200, "Total BDT", "19,650,124.50", "debits equal credits in BDT", "তিথি রহমান",
		`<th scope="col" class="num">Opening debit</th>`, "<caption")
	period, err := report.Month("2026-01", "Asia/Dhaka")
	if err != nil {
		t.Fatal(err)
	}
	want := report.Request{Report: report.TrialBalance, Ledger: "main", Period: period, Basis: report.Value, Prefix: "wallet:", Depth: 2,
		Currency: "BDT", Empty: true}
	if diff := cmp.Diff(want, d.books.last(), cmp.Comparer(func(a, b *time.Location) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("what was asked (-want +got):\n%s", diff)
	}
	// The files are of the same moment as the page.
	for _, format := range []string{"csv", "xlsx", "json"} {
		link := report1 + "?basis=value&amp;currency=bdt&amp;depth=2&amp;empty=1&amp;format=" + format +
			"&amp;month=2026-01&amp;prefix=wallet%3A&amp;through=482113&amp;zone=Asia%2FDhaka"
		if !strings.Contains(w.Body.String(), link) {
			t.Errorf("there is no link to %s", link)
		}
	}
	w = g.get("/console/main/reports/balance-sheet?month=2026-01")
	says(t, "as of a moment", w, 200, "−84,794.50", "neg")
	if p := d.books.last().Period; !p.From.IsZero() || p.To.Format(time.DateOnly) != "2026-02-01" {
		t.Errorf("it is of %v to %v", p.From, p.To)
	}
	says(t, "a statement's changes", g.get("/console/main/reports/changes-since-issued?statement=7"), 200, `<span class="tag">late</span>`)
	if got := d.books.last().Statement; got != 7 {
		t.Errorf("of statement %d", got)
	}
	says(t, "links to accounts", g.get(report1+"?month=2026-01"), 200, `href="/console/main/account?account=wallet%3Ashimul&amp;month=2026-01"`)
}

func TestConsole_ReportRefused(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	for query, text := range map[string]string{
		"month=January":                                    `<a href="#month">Month: &#34;January&#34; is no month`,
		"month=2026-13":                                    `is no month`,
		"month=2026-01&from=2026-01-01":                    `<a href="#month">Month: and from or to cannot be given together`,
		"from=2026-02-01&to=2026-01-01":                    `<a href="#to">`,
		"from=yesterday":                                   `<a href="#from">`,
		"month=2026-01&zone=Mars/Olympus":                  `<a href="#zone">Time zone: &#34;Mars/Olympus&#34; is no zone`,
		"month=2026-01&zone=Local":                         `is no zone`,
		"month=2026-01&basis=both":                         `<a href="#basis">`,
		"month=2026-01&depth=-1":                           `<a href="#depth">`,
		"month=2026-01&depth=deep":                         `is no whole number`,
		"month=2026-01&prefix=%00":                         `is not text`,
		"month=2026-01&prefix=%ff":                         `is not text`,
		"month=2026-01&through=x":                          `<a href="#through">`,
		"month=%3Cscript%3Ealert(1)":                       `&lt;script&gt;alert(1)`,
		"month=2026-01&prefix=" + strings.Repeat("x", 300): `at most 256`,
	} {
		w := g.get(report1 + "?" + query)
		says(t, query, w, http.StatusBadRequest, text, `aria-invalid="true"`, `role="alert"`, `<details class="question no-print" open>`)
		if strings.Contains(w.Body.String(), "<script") {
			t.Errorf("%s: markup", query)
		}
	}
	overTime := "/console/main/reports/balance-over-time?month=2026-01"
	says(t, "without the account", g.get(overTime+"&account="), http.StatusBadRequest, `<a href="#account">Account: is required`)
	says(t, "an account that there is not", g.get(overTime+"&account=nobody"), http.StatusNotFound,
		`<a href="#account">Account: account nobody does not exist`)
	for err, want := range map[error]struct {
		status int
		text   string
	}{
		ledger.Errorf(ledger.CodeUnavailable, "the database does not answer"):        {503, "the database does not answer"},
		ledger.Errorf(ledger.CodeOverloaded, "3 reports are being made"):             {503, "3 reports are being made"},
		ledger.Errorf(ledger.CodeLedgerNotFound, "ledger main does not exist"):       {404, "ledger main does not exist"},
		ledger.Errorf(ledger.CodeDeadlineExceeded, "it took too long"):               {504, "it took too long"},
		ledger.Errorf(ledger.CodeInternal, "the books do not add up"):                {500, "the books do not add up"},
		errors.New("secret of the house"):                                            {500, "This is a fault of Khata’s"},
		ledger.Errorf(ledger.CodeUnavailable, "<img src=x onerror=alert(1)> is bad"): {503, "&lt;img src=x onerror=alert(1)&gt;"},
	} {
		d.books.err = err
		w := g.get(report1 + "?month=2026-01")
		says(t, err.Error(), w, want.status, strings.ReplaceAll(want.text, "’", "&#39;"))
		if body := w.Body.String(); strings.Contains(body, "secret of") || strings.Contains(body, "<img src=x") {
			t.Errorf("%v:\n%s", err, body)
		}
	}
}

// A report that breaks off, one that does not add up, and one that is too long for a page.
func TestConsole_ReportFaults(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	head := sheet.Head{Report: "trial-balance", Title: "Trial balance", Facts: []sheet.Fact{{ID: "zone", Title: "Time zone", Value: "Asia/Dhaka"}},
		Columns: ledgerColumns[:1]}
	rows := func(n int, then error, checks ...sheet.Check) func(context.Context, report.Request, sheet.Writer) error {
		return func(_ context.Context, _ report.Request, w sheet.Writer) error {
			if err := w.Begin(head); err != nil {
				return err
			}
			for i := range n {
				if err := w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{fmt.Sprintf("row:%d", i)}}); err != nil {
					return err
				}
			}
			if then != nil {
				return then
			}
			if err := w.Row(sheet.Row{Kind: sheet.Total, Cells: []string{"The total"}}); err != nil {
				return err
			}
			return w.End(checks)
		}
	}
	d.books.run = rows(3, errors.New("secret of the house"))
	w := g.get(report1 + "?month=2026-01")
	says(t, "broken off", w, http.StatusInternalServerError, "This report is not complete", "row:2", `role="alert"`)
	if strings.Contains(w.Body.String(), "secret of") {
		t.Error("the visitor is told what the log should have")
	}
	d.books.run = rows(3, ledger.Errorf(ledger.CodeDeadlineExceeded, "too long"))
	says(t, "broken off by time", g.get(report1+"?month=2026-01"), http.StatusGatewayTimeout, "This report is not complete",
		"longer than a page may take")
	d.books.run = func(_ context.Context, _ report.Request, w sheet.Writer) error { return w.Begin(head) }
	says(t, "no end", g.get(report1+"?month=2026-01"), http.StatusInternalServerError, "This report is not complete")
	d.books.run = func(context.Context, report.Request, sheet.Writer) error { return nil }
	says(t, "no head", g.get(report1+"?month=2026-01"), http.StatusInternalServerError, "Something is broken")
	d.books.run = rows(3, nil, sheet.Check{Name: "debits equal credits in <BDT>", Detail: "they differ by 5"})
	says(t, "a check that does not hold", g.get(report1+"?month=2026-01"), 200, "This does not add up", "debits equal credits in &lt;BDT&gt;",
		"they differ by 5")
	d.books.run = rows(0, nil)
	says(t, "empty", g.get(report1+"?month=2026-01"), 200, "The total")

	d.books.run = rows(console.MaxShown-1, nil)
	if body := g.get(report1 + "?month=2026-01").Body.String(); strings.Contains(body, "Only the first") || !strings.Contains(body, "The total") {
		t.Error("as many rows as a page shows are cut")
	}
	d.books.run = rows(console.MaxShown+500, nil)
	w = g.get(report1 + "?month=2026-01")
	says(t, "long", w, 200, "Only the first 2,000 of 2,501 rows are shown", "The totals below are of all rows", "row:1999", "The total",
		"More rows, which are not shown")
	if strings.Contains(w.Body.String(), "row:2000<") {
		t.Error("more rows are shown")
	}
	d.books.run = rows(console.MaxRead+1, nil)
	w = g.get(report1 + "?month=2026-01")
	says(t, "very long", w, 200, "Only the first 2,000 of more than 150,000 rows are shown", "were not waited for")
	if strings.Contains(w.Body.String(), "not complete") {
		t.Error("a page that has enough says that the report is broken")
	}
}

// What users have written does nothing, wherever it is shown.
func TestConsole_Markup(t *testing.T) {
	t.Parallel()
	const evil = `"><script>alert(1)</script><img/src=x/onerror=alert(1)>'{{.}}` + "\u202e"
	d := newDesk(t, false)
	d.books.accounts = append(d.books.accounts, ledger.Account{
		ID: `<svg/onload=alert(1)>"'`, Type: ledger.Asset, Currency: ledger.Currency{Code: "BDT", Scale: 2}, Name: evil, Frozen: ledger.FrozenNone,
	})
	account := url.QueryEscape(string(d.books.accounts[len(d.books.accounts)-1].ID))
	before := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d.books.change(evil, "UTC", evil, &before)
	d.books.statements = append(d.books.statements, report.Statement{
		Number: 1, Account: ledger.AccountID(evil), IssuedBy: evil, SHA256: "ab",
		Content: statementContent(report.StatementSpec{Account: ledger.AccountID(evil)}),
	})
	d.books.run = func(_ context.Context, q report.Request, w sheet.Writer) error {
		s := &sheet.Sheet{Head: sheet.Head{Report: string(q.Report), Title: evil, Facts: []sheet.Fact{
			{ID: "account", Title: evil, Value: evil}, {ID: "ledger", Title: "x", Value: evil}, {ID: "zone", Value: evil}, {ID: "through",
				Value: evil}, {ID: "from", Value: evil},
		}}}
		if q.Report == report.BalanceOverTime {
			fakeBalances(s)
			s.Rows[0].Cells[1] = evil
		} else {
			for _, c := range ledgerColumns {
				c.Title = evil
				s.Head.Columns = append(s.Head.Columns, c)
			}
			for _, kind := range []sheet.RowKind{sheet.Opening, sheet.Item, sheet.Late, sheet.Total} {
				s.Rows = append(s.Rows, sheet.Row{Kind: kind, Cells: slices.Repeat([]string{evil}, len(ledgerColumns))})
			}
		}
		s.Checks = []sheet.Check{{Name: evil, OK: true}, {Name: evil, Detail: evil}}
		return s.WriteTo(w)
	}
	g := d.as(t, "main:finance", "main:admin")
	e := url.QueryEscape(evil)
	for _, path := range []string{
		report1 + "?month=2026-01", report1 + "?month=" + e + "&from=" + e + "&to=" + e + "&zone=" + e + "&prefix=" + e + "&depth=" + e + "&basis=" + e,
		"/console/main/reports/balance-over-time?month=2026-01&account=x", "/console/main/account?month=2026-01&account=" + account,
		"/console/main/account?account=" + e, "/console/main/accounts", "/console/main/accounts?prefix=" + e, "/console/main/statements?account=" + e,
		"/console/main/statements", "/console/main/statements/1?issued=" + e, "/console/main/periods?done=" + e,
		"/console/main/nothing" + url.PathEscape(evil),
		"/console/" + url.PathEscape(evil) + "/", "/console/signin?next=" + e + "&lost=" + e,
	} {
		noMarkup(t, path, g.get(path).Body.String())
	}
	for _, path := range []string{"/console/main/statements", "/console/main/periods/close", "/console/main/periods/reopen"} {
		noMarkup(t, path, g.submit(path, "account", evil, "month", evil, "closed_before", evil, "zone", evil, "reason", evil).Body.String())
	}
}

func noMarkup(t *testing.T, what, body string) {
	t.Helper()
	for _, wrong := range []string{"<script", "<img/src", "<svg/", "<style", ` style="`, "javascript:"} {
		if strings.Contains(body, wrong) {
			t.Errorf("%s has %s:\n%s", what, wrong, body)
		}
	}
	// What is written from right to left does not turn what stands beside it.
	if found := regexp.MustCompile(`<(td|dd)[^>]*>[^<]*\x{202e}`).FindString(body); found != "" {
		t.Errorf("%s: text that turns around: %s", what, found)
	}
}

func TestConsole_Download(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:reader")
	for format, kind := range map[string]string{
		"csv": "text/csv; charset=utf-8; header=present", "json": "application/json",
		"xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	} {
		w := g.get(report1 + "?month=2026-01&format=" + format)
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %v", format, w.Code, w.Header())
		}
		if got, want := w.Header().Get("Content-Disposition"), `attachment; filename="trial-balance_main_2026-01-01_2026-02-01.`+format+`"`; got != want {
			t.Errorf("%s: %s", format, got)
		}
		if format == "json" {
			parsed, err := sheet.ParseJSON(w.Body.Bytes())
			if err != nil || len(parsed.Rows) != len(fakeAccounts)+1 {
				t.Errorf("%v %v", parsed, err)
			}
		}
	}
	for _, format := range []string{"pdf", "table", "<script>"} {
		says(t, format, g.get(report1+"?month=2026-01&format="+url.QueryEscape(format)), http.StatusBadRequest, "format")
	}
	says(t, "a malformed question", g.get(report1+"?month=x&format=csv"), http.StatusBadRequest, "is no month")
	d.books.err = ledger.Errorf(ledger.CodeUnavailable, "the database does not answer")
	w := g.get(report1 + "?month=2026-01&format=csv")
	says(t, "an error before the first row", w, http.StatusServiceUnavailable, "the database does not answer")
	if w.Header().Get("Content-Disposition") != "" {
		t.Error("an error page is a file")
	}
	d.books.err = nil
	// A name with everything that a header should not have.
	d.books.run = func(_ context.Context, q report.Request, w sheet.Writer) error {
		s := &sheet.Sheet{Head: sheet.Head{Report: "x\"\r\nSet-Cookie: a=b; ../../etc",
			Facts: []sheet.Fact{{ID: "ledger", Value: "../\x00\r\n"}, {ID: "account", Value: "\"; filename=evil.exe"}}}}
		s.Head.Columns = ledgerColumns[:1]
		return s.WriteTo(w)
	}
	w = g.get(report1 + "?month=2026-01&format=json")
	if got := w.Header().Get("Content-Disposition"); strings.ContainsAny(got, "\r\n/") || strings.Count(got, `"`) != 2 ||
		w.Header().Get("Set-Cookie") != "" {
		t.Errorf("%q", got)
	}
}

// A file that breaks off ends in a broken connection: nobody takes it for the whole.
func TestConsole_DownloadBreaksOff(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:reader")
	d.books.run = func(_ context.Context, _ report.Request, w sheet.Writer) error {
		if err := w.Begin(sheet.Head{Report: "x", Title: "x", Columns: ledgerColumns[:1]}); err != nil {
			return err
		}
		for range 5000 {
			if err := w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{"wallet:shimul"}}); err != nil {
				return err
			}
		}
		return errors.New("the database is gone")
	}
	s := httptest.NewServer(d)
	defer s.Close()
	d.host = strings.TrimPrefix(s.URL, "http://")
	for _, format := range []string{"csv", "json"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+report1+"?month=2026-01&format="+format, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.AddCookie(&http.Cookie{Name: "khata_session", Value: g.cookies["khata_session"]})
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err == nil || resp.StatusCode != 200 {
			t.Errorf("%s: it looks whole: %d", format, resp.StatusCode)
		}
		_ = resp.Body.Close()
	}
}

func TestConsole_Accounts(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:reader")
	says(t, "all", g.get("/console/main/accounts"), 200, "wallet:shimul", "assets:bank:brac", "BRAC Bank, settlement")
	if body := g.get("/console/main/accounts?prefix=wallet:").Body.String(); strings.Contains(body, "assets:bank") ||
		!strings.Contains(body, "wallet:tithi") {
		t.Error("the prefix does not count")
	}
	says(t, "none", g.get("/console/main/accounts?prefix=nobody"), 200, "There is no such account")
	says(t, "what cannot be", g.get("/console/main/accounts?prefix=a+b"), http.StatusBadRequest, `<a href="#prefix">`)
	w := g.get("/console/main/account?account=wallet:tithi&month=2026-01")
	says(t, "one", w, 200, "তিথি রহমান", "<svg", "General ledger", "Balance over time", "/console/main/statements?account=wallet%3Atithi")
	// Both reports are of the same moment.
	if requests := d.books.requests; len(requests) != 2 || requests[0].Report != report.BalanceOverTime ||
		requests[1].Report != report.GeneralLedger || requests[1].Through != 482113 {
		t.Errorf("asked for %+v", requests)
	}
	says(t, "one that there is not", g.get("/console/main/account?account=nobody2"), http.StatusNotFound, "account nobody2 does not exist")
	says(t, "a wrong period", g.get("/console/main/account?account=wallet:tithi&month=x"), http.StatusBadRequest, `<a href="#month">`)
	for i := range 250 {
		d.books.accounts = append(d.books.accounts, ledger.Account{ID: ledger.AccountID(fmt.Sprintf("z:%04d", i)), Type: ledger.Asset,
			Frozen: ledger.FrozenNone})
	}
	says(t, "many", g.get("/console/main/accounts?prefix=z:"), 200, "The next ones", "after=z%3A0199")
	says(t, "the next", g.get("/console/main/accounts?prefix=z:&after=z:0199"), 200, "z:0249")
}

func TestConsole_Statements(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance")
	fields := []string{"account", "wallet:tithi", "month", "2026-01", "zone", "Asia/Dhaka", "basis", "booking"}
	says(t, "none", g.get("/console/main/statements"), 200, "No statement has been issued", "Issue a statement")
	leads(t, "issued", g.submit("/console/main/statements", fields...), "/console/main/statements/1?issued=now")
	leads(t, "issued again", g.submit("/console/main/statements", fields...), "/console/main/statements/1?issued=before")
	if len(d.books.statements) != 1 || d.books.statements[0].IssuedBy != "ayesha" {
		t.Errorf("%+v", d.books.statements)
	}
	s := d.books.statements[0]
	w := g.get("/console/main/statements/1?issued=now")
	says(t, "the statement", w, 200, "The statement is issued", s.SHA256, "2026-02-01 09:15:09", "ayesha", "wallet:tithi", "Opening balance",
		"/console/main/reports/changes-since-issued?statement=1", `<span class="tag">late</span>`, "ledger main")
	w = g.get("/console/main/statements/1?format=json")
	if diff := cmp.Diff(string(s.Content), w.Body.String()); diff != "" || w.Header().Get("Content-Type") != "application/json" {
		t.Errorf("the file is not what was stored: %v", w.Header())
	}
	for _, format := range []string{"csv", "xlsx"} {
		if w := g.get("/console/main/statements/1?format=" + format); w.Code != 200 ||
			!strings.HasPrefix(w.Header().Get("Content-Disposition"), "attachment; filename=\"account-statement_main_wallet-tithi_") {
			t.Errorf("%s: %d %v", format, w.Code, w.Header())
		}
	}
	says(t, "no format", g.get("/console/main/statements/1?format=x"), http.StatusBadRequest)
	says(t, "the list", g.get("/console/main/statements?account=wallet:tithi"), 200, `href="/console/main/statements/1"`)
	says(t, "another's list", g.get("/console/main/statements?account=wallet:shimul"), 200, "No statement of")
	says(t, "without an account", g.submit("/console/main/statements", "month", "2026-01"), http.StatusBadRequest, `<a href="#issue-account">`)
	says(t, "without an end", g.submit("/console/main/statements", "account", "wallet:shimul", "from", "2026-01-01"), http.StatusBadRequest,
		`<a href="#issue-to">`)
	d.books.err = ledger.Errorf(ledger.CodeConflict, "others keep issuing")
	says(t, "a conflict", g.submit("/console/main/statements", "account", "wallet:shimul", "month", "2026-01"), http.StatusServiceUnavailable,
		"Whether it was done is not known")
}

func TestConsole_Periods(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	g := d.as(t, "main:finance", "main:admin")
	says(t, "open", g.get("/console/main/periods"), 200, "The books are <strong>open</strong>", "Nothing was ever closed")
	leads(t, "closing", g.submit("/console/main/periods/close", "month", "2026-01", "zone", "Asia/Dhaka", "reason", "January is done"),
		"/console/main/periods?done=closed")
	want := time.Date(2026, 1, 31, 18, 0, 0, 0, time.UTC)
	if c := d.books.changes[0]; !c.ClosedBefore.Equal(want) || c.Caller != "ayesha" || c.Zone != "Asia/Dhaka" || c.Reason != "January is done" {
		t.Errorf("%+v", c)
	}
	says(t, "closed", g.get("/console/main/periods?done=closed"), 200, "closed before 2026-02-01", "January is done", "ayesha",
		"The books are closed.")
	leads(t, "closing again", g.submit("/console/main/periods/close", "closed_before", "2026-02-01", "zone", "Asia/Dhaka"),
		"/console/main/periods?done=unchanged")
	says(t, "opening without a reason", g.submit("/console/main/periods/reopen", "closed_before", "2026-01-01"), http.StatusBadRequest,
		`<a href="#reopen-reason">Reason: is required`)
	says(t, "opening nothing", g.submit("/console/main/periods/reopen", "reason", "x"), http.StatusBadRequest, `<a href="#reopen-closed_before">`)
	says(t, "opening both", g.submit("/console/main/periods/reopen", "reason", "x", "closed_before", "2026-01-01", "everything", "1"),
		http.StatusBadRequest, `<a href="#reopen-everything">`)
	leads(t, "opening", g.submit("/console/main/periods/reopen", "closed_before", "2026-01-01", "zone", "Asia/Dhaka", "reason",
		"An invoice was forgotten"),
		"/console/main/periods?done=opened")
	says(t, "opened", g.get("/console/main/periods?done=opened"), 200, "closed before 2026-01-01", "An invoice was forgotten",
		`<span class="tag">opened</span>`)
	says(t, "closing nothing", g.submit("/console/main/periods/close"), http.StatusBadRequest, `<a href="#close-closed_before">`)
	says(t, "closing what is no day", g.submit("/console/main/periods/close", "closed_before", "soon"), http.StatusBadRequest,
		`<a href="#close-closed_before">`)
	says(t, "closing twice at once", g.submit("/console/main/periods/close", "month", "2026-01", "closed_before", "2026-02-01"),
		http.StatusBadRequest, `<a href="#close-month">`)
	for i := range 60 {
		at := want.AddDate(0, 0, i)
		d.books.change("x", "UTC", "", &at)
	}
	says(t, "a long history", g.get("/console/main/periods"), 200, "Older ones", "/console/main/periods?before=13")
}
