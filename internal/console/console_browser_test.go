package console_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// office is a console that a browser can go to.
type office struct {
	*httptest.Server
	desk *desk
}

func newOffice(t *testing.T, open bool, change ...func(*console.Config)) *office {
	t.Helper()
	o := &office{desk: newDesk(t, open, change...)}
	before := time.Date(2025, 12, 31, 18, 0, 0, 0, time.UTC)
	o.desk.books.change("ayesha", "Asia/Dhaka", "The year 2025 is done", &before)
	o.Server = httptest.NewServer(o.desk)
	t.Cleanup(o.Close)
	return o
}

func (v *visit) goTo(o *office, path string) *visit {
	v.t.Helper()
	v.do(chromedp.Navigate(o.URL + path))
	v.wait(`document.readyState === 'complete' && document.getElementById('main')`)
	return v
}

// click clicks on the first thing of a kind with a text.
func (v *visit) click(kind, text string) *visit {
	v.t.Helper()
	v.wait(`(() => {
		document.querySelector('[data-click]')?.removeAttribute('data-click');
		const found = [...document.querySelectorAll(%q)].find((e) => e.innerText.trim() === %q && e.checkVisibility());
		found?.setAttribute('data-click', '');
		return found;
	})()`, kind, text)
	return v.do(chromedp.Click("[data-click]"))
}

// beSomebody signs in as a persona.
func (v *visit) beSomebody(o *office, persona string) *visit {
	v.t.Helper()
	v.goTo(o, "/console/signin").do(chromedp.Click(`button[value="` + persona + `"]`))
	v.wait(`document.querySelector('.who-name')?.innerText.includes(%q)`, strings.ToLower(persona))
	return v
}

// pagesOf are the pages of the console, each in a state worth looking at.
var pagesOf = []struct{ name, path string }{
	{"home", "/console/?all=1"},
	{"overview", "/console/main/"},
	{"report-form", "/console/main/reports/trial-balance"},
	{"trial-balance", "/console/main/reports/trial-balance?month=2026-01"},
	{"balance-sheet", "/console/main/reports/balance-sheet?month=2026-01"},
	{"general-ledger", "/console/main/reports/general-ledger?month=2026-01"},
	{"balance-over-time", "/console/main/reports/balance-over-time?month=2026-01&account=wallet:tithi"},
	{"report-refused", "/console/main/reports/trial-balance?month=January&depth=deep"},
	{"accounts", "/console/main/accounts"},
	{"account", "/console/main/account?account=wallet:tithi&month=2026-01"},
	{"statements", "/console/main/statements"},
	{"statement", "/console/main/statements/1?issued=now"},
	{"changes", "/console/main/reports/changes-since-issued?statement=1"},
	{"periods", "/console/main/periods?done=closed"},
	{"not-found", "/console/main/nothing"},
}

func TestConsole_Browser(t *testing.T) {
	t.Parallel()
	o := newOffice(t, true)
	browser := browse(t, "")
	o.desk.guestIssues(t)
	o.desk.banked(t)
	o.desk.busy(t)
	tests := map[string]func(*testing.T, *office, *visit){
		"month end": monthEnd, "keyboard": consoleKeyboard, "paper": paper, "reconcile": reconcileByKeyboard, "refund": refundByKeyboard,
		"accessible at 320": consoleAccessible(320, "dark"), "accessible at 1280": consoleAccessible(1280, "light"),
	}
	if os.Getenv("KHATA_TEST_LONG") != "" { // It lies between the others, and takes a minute.
		tests["accessible at 360"] = consoleAccessible(360, "light")
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, o, visitor(browser, t))
		})
	}
	t.Run("token", func(t *testing.T) {
		t.Parallel()
		byToken(t, newOffice(t, false), visitor(browser, t))
	})
}

// faulty is an office whose reports are too long for a page and do not add up, or break off if they are by value date.
func faulty(t *testing.T) *office {
	t.Helper()
	o := newOffice(t, true)
	o.desk.books.run = func(_ context.Context, q report.Request, w sheet.Writer) error {
		s := &sheet.Sheet{Head: sheet.Head{Report: string(q.Report), Title: "Trial balance", Facts: fakeFacts(q)}}
		fakeTrialBalance(s)
		total := s.Rows[len(s.Rows)-1]
		s.Rows = s.Rows[:len(s.Rows)-1]
		if q.Basis == report.Value {
			if err := w.Begin(s.Head); err != nil {
				return err
			}
			return errors.Join(w.Row(s.Rows[0]), ledger.Errorf(ledger.CodeUnavailable, "the database is away"))
		}
		for i := range 2500 {
			s.Rows = append(s.Rows, sheet.Row{Kind: sheet.Item, Cells: []string{fmt.Sprintf("wallet:%06d", i), "", "liability", "BDT", "", "", "", "", "",
				"1.00"}})
		}
		s.Rows = append(s.Rows, total)
		s.Checks = []sheet.Check{
			{Name: "debits equal credits in BDT", Detail: "they differ by 0 before the period, 12.50 in it and 12.50 at its end. Run khata verify"},
			{Name: "opening + debits - credits = closing, for each account", OK: true},
		}
		return s.WriteTo(w)
	}
	return o
}

// faultsOf are the pages of a faulty office.
var faultsOf = []struct{ name, path string }{
	{"does-not-add-up", "/console/main/reports/trial-balance?month=2026-01"}, {"broken-off",
		"/console/main/reports/trial-balance?month=2026-01&basis=value"},
}

// guestIssues issues the statement that pages show.
func (d *desk) guestIssues(t *testing.T) {
	t.Helper()
	g := d.guest(t)
	g.post("/console/signin", "persona", "Finance")
	if w := g.submit("/console/main/statements", "account", "wallet:tithi", "month", "2026-01", "zone", "Asia/Dhaka"); w.Code != 303 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
}

// monthEnd is what an accountant does at the end of a month.
func monthEnd(t *testing.T, o *office, v *visit) {
	v.camera(1280, "light").goTo(o, "/console/main/reports/trial-balance?month=2026-01")
	v.do(chromedp.Click(`button[value="Finance"]`))
	// Signing in leads to the page that was asked for.
	v.wait(`document.querySelector('h1')?.innerText === 'Trial balance' && document.querySelector('tr.total')`)
	v.wait(`document.querySelector('tr.total').innerText.includes('19,511,070.75')`)
	v.click("a", "wallet:tithi")
	v.wait(`document.querySelector('h1')?.innerText === 'wallet:tithi' && document.querySelectorAll('figure svg, table').length === 3`)
	v.click("a.more", "Statements")
	v.wait(`document.querySelector('h1')?.innerText === 'Statements' && document.getElementById('account').value === 'wallet:tithi'`)
	v.do(chromedp.Click(`summary`))
	v.do(chromedp.SendKeys(`#issue-month`, "2026-01"))
	v.click("button", "Issue the statement")
	v.wait(`document.querySelector('.note')?.innerText.includes('It is the same one')`)
	v.click("nav a", "Periods")
	v.wait(`document.getElementById('close-month')`)
	v.do(chromedp.SendKeys(`#close-month`, "2026-01"))
	v.click("button", "Close the books")
	v.wait(`document.querySelector('.state')?.innerText.includes('closed before 2026-02-01')`)
	// To load it again closes nothing again.
	changes := len(o.desk.books.history())
	v.do(chromedp.Reload())
	v.wait(`document.querySelector('.state')`)
	if after := len(o.desk.books.history()); after != changes {
		t.Errorf("%d changes, and after a reload %d", changes, after)
	}
	v.click("button", "Sign out")
	v.wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
	js[bool](v, `(history.back(), true)`)
	v.wait(`document.querySelector('h1')?.innerText === 'Sign in' && !document.querySelector('.state')`)
}

func byToken(t *testing.T, o *office, v *visit) {
	_, secret := o.desk.token(t, "ayesha", "main:finance")
	v.goTo(o, "/console/main/periods").wait(`document.getElementById('token')`)
	v.do(chromedp.SendKeys("#token", secret[:len(secret)-2]+"xx"), chromedp.KeyEvent(kb.Enter))
	v.wait(`document.querySelector('[role=alert]')?.innerText.includes('unknown, expired or revoked')`)
	v.do(chromedp.SendKeys("#token", secret), chromedp.KeyEvent(kb.Enter))
	v.wait(`document.querySelector('h1')?.innerText === 'Periods'`)
	if cookies := js[string](v, `document.cookie`); cookies != "" {
		t.Errorf("scripts can read %s", cookies)
	}
}

// Everything can be reached and done by keyboard alone, in the order in which it is read.
func consoleKeyboard(t *testing.T, o *office, v *visit) {
	key := func(keys string) { v.do(chromedp.KeyEvent(keys)) }
	focus := func() string {
		return js[string](v,
			`(document.activeElement.innerText || document.activeElement.id || document.activeElement.className || document.activeElement.tagName).trim()`)
	}
	tabTo := func(what string) {
		t.Helper()
		var seen []string
		for range 40 {
			key(kb.Tab)
			if at := focus(); at == what {
				if outline := js[string](v, `getComputedStyle(document.activeElement).outlineStyle`); outline == "none" {
					t.Errorf("the focus on %s cannot be seen", what)
				}
				return
			} else if seen = append(seen, at); len(seen) > 1 && at == "BODY" {
				break
			}
		}
		t.Fatalf("the focus does not come to %q: %q", what, seen)
	}
	v.goTo(o, "/console/main/reports/trial-balance")
	tabTo("Skip to the content")
	tabTo("Finance")
	key(kb.Enter)
	v.wait(`document.getElementById('month')`)
	tabTo("Skip to the content")
	key(kb.Enter)
	tabTo("What to show")
	key(kb.Tab)
	if at := focus(); at != "month" {
		t.Errorf("after the summary comes %s", at)
	}
	key("x")
	key(kb.Enter)
	v.wait(`document.querySelector('.alert a')`)
	v.do(chromedp.Focus(`.alert a`))
	// Without the character, which a browser leaves out where the key has followed a link, and the protocol does not.
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
		if err := call(v, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter", Code: "Enter",
			WindowsVirtualKeyCode: 13}); err != nil {
			t.Fatal(err)
		}
	}
	v.wait(`location.hash === '#month' && document.activeElement.id === 'month'`)
	v.do(chromedp.Focus("#month"))
	js[bool](v, `(document.getElementById('month').select(), true)`)
	key("2026-01")
	key(kb.Enter)
	v.wait(`document.querySelector('.scroll')`)
	// The box of the table can be scrolled by keyboard.
	v.camera(360, "light")
	v.do(chromedp.Focus(`.scroll`))
	for range 5 {
		key(kb.ArrowRight)
	}
	v.wait(`document.querySelector('.scroll').scrollLeft > 0`)
}

func consoleAccessible(width int64, scheme string) func(*testing.T, *office, *visit) {
	return func(t *testing.T, o *office, v *visit) {
		whole := loadAxe(t)
		axe := whole
		v.camera(width, scheme)
		check := func(name string) {
			t.Helper()
			checkNames(v, name)
			checkLayout(v, name)
			if axe != "" {
				checkAxe(v, name, axe)
			}
		}
		v.goTo(o, "/console/signin")
		check("signin")
		v.beSomebody(o, "Admin")
		for _, p := range pagesOf {
			v.goTo(o, p.path)
			js[bool](v, `(document.querySelectorAll('details').forEach((d) => { d.open = true; }), true)`)
			check(p.name)
		}
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Finance")
		if width > 320 { // Of these axe says the same in each width; contrast and sizes are looked at in all of them.
			axe = ""
		}
		for _, p := range bankPagesOf(t, o.desk) {
			v.goTo(o, p.path)
			js[bool](v, `(document.querySelectorAll('details').forEach((d) => { d.open = true; }), true)`)
			check(p.name)
		}
		v.refusedFile(o, t.TempDir())
		check("refused file")
		v.previewed(o, t.TempDir())
		check("preview")
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Support")
		for _, p := range helpPagesOf {
			v.goTo(o, p.path)
			js[bool](v, `(document.querySelectorAll('details').forEach((d) => { d.open = true; }), true)`)
			check(p.name)
		}
		v.overtaken(t, o, ledger.TransferID(fmt.Sprintf("overtaken-%d", width)))
		check("overtaken")
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Admin").goTo(o, "/console/main/audit")
		check("audit")
		v.goTo(o, "/console/main/limits").click("summary", "Set a limit")
		check("set a limit")
		axe = whole
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.goTo(o, "/console/signin?lost=1")
		check("lost")
		v.beSomebody(o, "Support")
		check("support")
		v.goTo(o, "/console/main/periods")
		check("forbidden")
		bad := faulty(t)
		v.beSomebody(bad, "Finance")
		v.goTo(bad, faultsOf[1].path)
		check(faultsOf[1].name)
		v.goTo(bad, faultsOf[0].path)
		checkLayout(v, faultsOf[0].name) // Its table is too long for the others, which have seen such a one.
	}
}

// On paper there is no navigation, and each sheet says what it is of.
func paper(t *testing.T, o *office, v *visit) {
	v.camera(1280, "dark").beSomebody(o, "Finance")
	for _, c := range []struct {
		name, path, says, column string
		landscape                bool
		least                    int
	}{
		{"general-ledger", "/console/main/reports/general-ledger?month=2026-01", "Generalledger·ledgermain·from2026-01-01to2026-02-01·Asia/Dhaka",
			"Description", true, 2},
		{"balance-sheet", "/console/main/reports/balance-sheet?month=2026-01", "Balancesheet·ledgermain·asof2026-02-01·Asia/Dhaka", "Amount", false, 1},
		{"statement", "/console/main/statements/1", "Accountstatement·ledgermain·wallet:tithi·from2026-01-01to2026-02-01·Asia/Dhaka·statement1",
			"Balance", true, 1},
		{"reconciliation", brac + "/statement?items=1&day=2026-01-31",
			"Reconciliationstatement·ledgermain·assets:bank:brac·UTC·bankaccountbrac·attheendof2026-01-31", "Amount", true, 1},
		{"account", "/console/main/account?account=wallet:tithi&month=2026-01",
			"Generalledger·ledgermain·wallet:tithi·from2026-01-01to2026-02-01·Asia/Dhaka", "Balance", true, 1},
	} {
		v.goTo(o, c.path)
		yes := true
		answer, err := chromedp.Call(v.ctx, cdpage.PrintToPDF, cdpage.PrintToPDFParams{PreferCSSPageSize: &yes, PrintBackground: &yes})
		if err != nil {
			t.Fatal(err)
		}
		sheets := readPDF(t, answer.Data)
		if len(sheets) < c.least {
			t.Errorf("%s has %d sheets", c.name, len(sheets))
		}
		for i, sheet := range sheets {
			if (sheet.width > sheet.height) != c.landscape || min(sheet.width, sheet.height) < 594 || max(sheet.width, sheet.height) > 843 {
				t.Errorf("%s: sheet %d is %v by %v", c.name, i+1, sheet.width, sheet.height)
			}
			if !strings.Contains(sheet.text, c.says) || !strings.Contains(sheet.text, c.column) {
				t.Errorf("%s: sheet %d does not say what it is of:\n%s", c.name, i+1, sheet.text)
			}
			for _, not := range []string{"Signout", "Download", "Showthereport", "scrollit", "Overview", "Thefiguresof"} {
				if strings.Contains(sheet.text, not) {
					t.Errorf("%s: sheet %d has %q", c.name, i+1, not)
				}
			}
		}
		if dir := os.Getenv(screenshotsEnv); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, "console-"+c.name+".pdf"), answer.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}
