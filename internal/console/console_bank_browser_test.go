package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

// bankPagesOf are the pages about a bank account, each in a state worth looking at.
func bankPagesOf(t *testing.T, d *desk) []struct{ name, path string } {
	t.Helper()
	var batch *reconcile.Decision
	for _, made := range d.decisions(t) {
		if made.Rule == reconcile.RuleBatch {
			batch = made
		}
	}
	run := d.lastRun(t).No
	return []struct{ name, path string }{
		{"banks", "/console/main/reconcile"},
		{"bank", brac + "?done=matched"},
		{"bank-suggestions", fmt.Sprintf("%s/work?run=%d&view=suggestions", brac, run)},
		{"bank-items", fmt.Sprintf("%s/work?run=%d&view=items", brac, run)},
		{"bank-line", brac + "/item?item=" + d.find(t, ofLine("Agent 17"))},
		{"bank-entry", brac + "/item?item=" + d.find(t, ofTransfer("LATE-1"))},
		{"bank-decisions", brac + "/decisions"},
		{"bank-decision", fmt.Sprintf("%s/decisions/%d", brac, batch.No)},
		{"bank-statement", brac + "/statement?items=1"},
		{"bank-list", brac + "/items?run="},
		{"bank-changes", brac + "/changes"},
		{"bank-file", brac + "/files/1?done=imported"},
		{"bank-profile", "/console/main/reconcile/profiles/plain"},
		{"bank-profiles", "/console/main/reconcile/profiles"},
	}
}

// choose picks a file with this content in the form of the page.
func (v *visit) choose(field, dir, name, content string) *visit {
	v.t.Helper()
	file := filepath.Join(dir, name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		v.t.Fatal(err)
	}
	return v.do(chromedp.SetUploadFiles(field, []string{file}))
}

// refusedFile goes to the page of a file that does not add up.
func (v *visit) refusedFile(o *office, dir string) {
	v.t.Helper()
	v.goTo(o, brac).choose("#file-file", dir, "february.sta", mt940(2, "2026-02-01 10852.50", "2026-02-28 11000.00", "2026-02-03|100.00|NEW|A line"))
	v.click("button", "Import the file")
	v.wait(`document.querySelector('h1')?.innerText.startsWith('The file is refused')`)
}

// previewed goes to the page of a sample as a profile reads it.
func (v *visit) previewed(o *office, dir string) {
	v.t.Helper()
	v.goTo(o, "/console/main/reconcile/profiles/plain").choose("#profile-file", dir, "sample.csv",
		"day;amount;reference;text;partner;iban;bic;id;e2e;code\n2026-02-02;12.00;R-1;ধন্যবাদ, চা ও নাশতা;Shop;;;1;;\n2026-02-03;twelve;R-2;Tea;Shop;;;2;;\n")
	v.click("button", "Preview the sample")
	v.wait(`document.getElementById('preview')`)
}

// second goes to the page of who confirms what somebody else has decided meanwhile; that is taken back again.
func (v *visit) second(t *testing.T, o *office) {
	t.Helper()
	item := o.desk.find(t, ofLine("Agent 17"))
	v.goTo(o, brac+"/item?item="+item)
	var line int64
	if _, err := fmt.Sscanf(item, "line:%d", &line); err != nil {
		t.Fatal(err)
	}
	made, err := o.desk.bank.Ignore(t.Context(), reconcile.IgnoreSpec{Ledger: "main", BankAccount: "brac", Line: &reconcile.LineTake{Line: line},
		Reason: "The agent has sent it twice"}, "karim")
	if err != nil {
		t.Fatal(err)
	}
	v.do(chromedp.Click(`input[name="with"]`))
	v.click("button", fmt.Sprintf("Confirm that line %d is what is named here", line))
	v.wait(`document.querySelector('.alert')?.innerText.includes('Somebody else has decided first')`)
	if _, err := o.desk.bank.Unmatch(t.Context(), reconcile.UnmatchSpec{Ledger: "main", BankAccount: "brac", Match: made.No, Reason: "For the next picture"},
		"karim"); err != nil {
		t.Fatal(err)
	}
}

// What an accountant does with a bank's file, by keyboard alone but for the dialog in which the browser has files chosen.
func reconcileByKeyboard(t *testing.T, o *office, v *visit) {
	if _, err := o.desk.bank.CreateBankAccount(t.Context(), reconcile.BankAccountSpec{Ledger: "main", Name: "city", Account: "assets:bank:city"}, "x"); err != nil {
		t.Fatal(err)
	}
	results, err := o.desk.journal.Post(t.Context(), "x", "main", []ledger.TransferSpec{{
		ID: "CITY-7", Entries: ledger.Simple("assets:bank:city", "wallet:tithi", dec("70.00"), ""), Description: "Deposit",
	}})
	if err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	key := func(keys string) { v.do(chromedp.KeyEvent(keys)) }
	tabTo := func(what string) {
		t.Helper()
		var seen []string
		for range 60 {
			key(kb.Tab)
			at := js[string](v, `(document.activeElement.innerText || document.activeElement.id || document.activeElement.tagName).trim()`)
			if at == what || strings.HasPrefix(at, what) && strings.HasSuffix(what, " ") {
				return
			}
			if seen = append(seen, at); len(seen) > 1 && at == "BODY" {
				break
			}
		}
		t.Fatalf("the focus does not come to %q: %q", what, seen)
	}
	v.camera(1280, "light").beSomebody(o, "Finance").goTo(o, "/console/main/")
	tabTo("Reconciliation")
	key(kb.Enter)
	v.wait(`document.querySelector('h1')?.innerText === 'Reconciliation'`)
	tabTo("city")
	key(kb.Enter)
	v.wait(`document.querySelector('h1')?.innerText === 'city'`)
	day := today()
	content := strings.ReplaceAll(mt940(1, day+" 0.00", day+" 70.00", day+"|70.00|NONREF|At the counter"), "BRAC-001", "CITY-1")
	v.choose("#file-file", t.TempDir(), "city.sta", content)
	v.do(chromedp.Focus("#file-file"))
	tabTo("Import the file")
	key(kb.Enter)
	// It is of an account that nobody has named: the page says so, and what to do.
	v.wait(`document.querySelector('[role=alert]')?.innerText.includes('does not say by which numbers it is known')`)
	v.goTo(o, "/console/main/reconcile/bank/city")
	tabTo("Change the settings")
	key(" ")
	tabTo("set-identifiers")
	key("CITY-1")
	tabTo("Change the settings") // the button
	key(kb.Enter)
	v.wait(`document.querySelector('[role=status]')?.innerText.includes('settings are changed')`)
	v.choose("#file-file", t.TempDir(), "city.sta", content).do(chromedp.Focus("#file-file"))
	tabTo("Import the file")
	key(kb.Enter)
	v.wait(`document.querySelector('[role=status]')?.innerText.includes('The file is imported')`)
	tabTo("Match now")
	key(kb.Enter)
	v.wait(`document.querySelector('h1')?.innerText === 'city'`)
	tabTo("Match now")
	key(kb.Enter)
	v.wait(`document.querySelector('[role=status]')?.innerText.includes('The matching is done')`)
	tabTo("1 suggestion")
	key(kb.Enter)
	v.wait(`document.querySelector('.suggestion')`)
	tabTo("Confirm: ")
	key(kb.Enter)
	v.wait(`document.querySelector('[role=status]')?.innerText.includes('Confirmed')`)
	// To load it again confirms nothing again.
	v.do(chromedp.Reload())
	v.wait(`document.querySelector('.decided')`)
	list, _, err := o.desk.bank.Decisions(t.Context(), "main", "city", reconcile.DecisionFilter{Kind: "manual", Limit: 10})
	if err != nil || len(list) != 1 || list[0].DecidedBy != "local:finance" {
		t.Errorf("%d decisions: %v", len(list), err)
	}
}
