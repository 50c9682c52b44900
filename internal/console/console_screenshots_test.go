package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

func TestConsole_Screenshots(t *testing.T) {
	dir := os.Getenv(screenshotsEnv)
	if dir == "" {
		t.Skip("set " + screenshotsEnv + " to a directory")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	browser := browse(t, "")
	o := newOffice(t, true)
	o.desk.guestIssues(t)
	o.desk.banked(t)
	o.desk.busy(t)
	for _, look := range []struct {
		width  int64
		scheme string
	}{{1280, "light"}, {360, "light"}, {1280, "dark"}, {360, "dark"}} {
		v := visitor(browser, t).camera(look.width, look.scheme)
		shoot := func(name string) {
			v.shoot(filepath.Join(dir, fmt.Sprintf("console-%s-%d-%s.png", name, look.width, look.scheme)))
		}
		v.goTo(o, "/console/signin?lost=1")
		shoot("signin")
		v.beSomebody(o, "Admin")
		for _, p := range pagesOf {
			v.goTo(o, p.path)
			shoot(p.name)
		}
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Finance").goTo(o, "/console/main/statements")
		v.click("summary", "Issue a statement")
		shoot("statements-finance")
		for _, p := range bankPagesOf(t, o.desk) {
			v.goTo(o, p.path)
			shoot(p.name)
		}
		v.goTo(o, brac).click("summary", "Change the settings")
		shoot("bank-settings")
		v.refusedFile(o, t.TempDir())
		shoot("bank-refused")
		v.previewed(o, t.TempDir())
		shoot("bank-preview")
		v.second(t, o)
		shoot("bank-conflict")
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Support")
		for _, p := range helpPagesOf {
			v.goTo(o, p.path)
			shoot(p.name)
		}
		v.overtaken(t, o, ledger.TransferID(fmt.Sprintf("overtaken-%d-%s", look.width, look.scheme)))
		shoot("refund-overtaken")
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(o, "Admin").goTo(o, "/console/main/audit")
		shoot("audit")
		v.goTo(o, "/console/main/limits").click("summary", "Set a limit")
		shoot("limits-admin")
		bad := faulty(t)
		v.beSomebody(bad, "Support").goTo(bad, "/console/main/periods")
		shoot("forbidden")
		v.click("button", "Sign out").wait(`document.querySelector('h1')?.innerText === 'Sign in'`)
		v.beSomebody(bad, "Finance")
		for _, p := range faultsOf {
			v.goTo(bad, p.path)
			shoot(p.name)
		}
	}
	token := newOffice(t, false)
	v := visitor(browser, t).camera(360, "light").goTo(token, "/console/signin")
	v.shoot(filepath.Join(dir, "console-token-360-light.png"))
}
