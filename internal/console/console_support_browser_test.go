package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

// busy gives a desk with customers a day's work: limits, requests in many states, a suspect that is open and one that is dismissed.
func (d *desk) busy(t testing.TB) *desk {
	t.Helper()
	d.customers(t)
	d.limit(t, "300", "1000")
	for _, id := range []ledger.TransferID{"gift-one-of-two-with-an-id-that-is-as-long-as-ids-of-apps-often-are", "gift-2"} {
		d.pay(t, id, "wallet:mina", "250.00", `{"order":"B-9","note":"ধন্যবাদ"}`, "ঢাকা থেকে সিলেট, দুইটি আসন")
	}
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	ask := func(who string, id ledger.TransferID, amount, expected string) {
		t.Helper()
		if _, err := d.help.Request(t.Context(), support.Actor{Name: who, Address: "192.0.2.4"}, support.RefundSpec{
			Ledger: "main", Key: support.MintKey(), Transfer: id, Amount: dec(amount), ExpectedRefunded: dec(expected), Reason: ledger.ReasonServiceFailure,
			Note: "The train was four hours late.\nShe has called twice.", Ticket: "CASE-2026-0117",
		}); err != nil {
			t.Fatal(err)
		}
	}
	ask("rina", "other-key", "20.00", "0")
	ask("rina", "first-key", "450.00", "0")
	ask("local:support", "first-key", "400.00", "0")
	ask("rina", "gift-2", "100.00", "0")
	r, err := d.help.Refund(t.Context(), boss, "main", 2)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.help.Decide(t.Context(), boss, support.DecisionSpec{Ledger: "main", Number: 3, Verdict: support.Reject, SHA256: d.sha(t, 3), Note: "She has been there"}); err != nil {
		t.Fatal(err)
	}
	ask("local:support", "first-key", "350.00", "0")
	if r.State != support.Waiting {
		t.Fatalf("request 2 is %s", r.State)
	}
	return d
}

func (d *desk) sha(t testing.TB, no int64) string {
	t.Helper()
	for _, r := range d.requests(t) {
		if r.Number == no {
			return r.SHA256
		}
	}
	t.Fatalf("there is no request %d", no)
	return ""
}

// helpPagesOf are the pages of support, each in a state worth looking at.
var helpPagesOf = []struct{ name, path string }{
	{"support", "/console/main/support"},
	{"support-found", "/console/main/support?account=shop:railway"},
	{"support-wrong", "/console/main/support?amount=x&from=soon"},
	{"transfer", "/console/main/transfer?id=first-key"},
	{"refund", "/console/main/refund?id=second-key&reason=duplicate"},
	{"refund-part", "/console/main/refund?id=first-key&amount=120"},
	{"refunds", "/console/main/refunds"},
	{"refund-posted", "/console/main/refunds/1?done=asked"},
	{"refund-waiting", "/console/main/refunds/2"},
	{"refund-mine", "/console/main/refunds/5?done=asked"},
	{"limits", "/console/main/limits"},
	{"review", "/console/main/review"},
	{"suspects", "/console/main/suspects?state=all"},
	{"suspect", "/console/main/suspects/1"},
	{"suspect-with-metadata", "/console/main/suspects/2"},
}

// overtaken goes to the page of who refunds what somebody else has refunded meanwhile; nothing of it is left for the next picture but a payment more.
func (v *visit) overtaken(t *testing.T, o *office, id ledger.TransferID) {
	t.Helper()
	o.desk.pay(t, id, "wallet:mina", "33.00", `{}`, "Tea")
	v.goTo(o, "/console/main/refund?reason=duplicate&id="+string(id))
	if _, err := o.desk.help.Request(t.Context(), support.Actor{Name: "karim"}, support.RefundSpec{
		Ledger: "main", Key: support.MintKey(), Transfer: id, Amount: dec("10.00"), Reason: ledger.ReasonGoodwill,
	}); err != nil {
		t.Fatal(err)
	}
	v.click("button", "Refund 33.00 BDT").wait(`document.querySelector('.alert')?.innerText.includes('Somebody else came first')`)
}

// Support finds the second payment of two, and refunds it, by keyboard alone.
func refundByKeyboard(t *testing.T, o *office, v *visit) {
	for _, id := range []ledger.TransferID{"key-board-1", "key-board-2"} {
		o.desk.pay(t, id, "wallet:rana", "75.00", `{}`, "Tea for two")
	}
	if _, err := o.desk.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	key := func(keys string) { v.do(chromedp.KeyEvent(keys)) }
	tabTo := func(what string) {
		t.Helper()
		var seen []string
		for range 80 {
			key(kb.Tab)
			at := js[string](v, `(document.activeElement.innerText || document.activeElement.id || document.activeElement.tagName).trim()`)
			if at == what || strings.HasSuffix(what, " ") && strings.HasPrefix(at, strings.TrimSpace(what)) {
				return
			}
			if seen = append(seen, at); len(seen) > 1 && at == "BODY" {
				break
			}
		}
		t.Fatalf("the focus does not come to %q: %q", what, seen)
	}
	v.camera(1280, "light").beSomebody(o, "Support").goTo(o, "/console/main/")
	tabTo("Support")
	key(kb.Enter)
	v.wait(`document.querySelector('h1')?.innerText === 'Find a transfer'`)
	tabTo("text")
	key("key-board-2")
	key(kb.Enter)
	v.wait(`document.querySelector('td, th[scope=row]')?.innerText.includes('key-board-2')`)
	tabTo("key-board-2")
	key(kb.Enter)
	v.wait(`document.querySelector('h1')?.innerText === 'Transfer key-board-2'`)
	tabTo("Refund of up to 75.00 BDT")
	key(kb.Enter)
	v.wait(`document.getElementById('refund-reason')`)
	key(kb.Tab) // A page begins at its beginning.
	tabTo("choose one ")
	key("paid twice")
	tabTo("refund-ticket")
	key("CASE-7")
	tabTo("Refund 75.00 BDT")
	key(kb.Enter)
	v.wait(`document.querySelector('[role=status]')?.innerText.includes('75.00 BDT is refunded')`)
	// To load it again, and to go back, refunds nothing again.
	v.do(chromedp.Reload())
	v.wait(`document.querySelector('h1')?.innerText.startsWith('Refund request')`)
	js[bool](v, `(history.back(), true)`)
	// The browser shows the page anew, or the one that it has kept: then its form is the one that was sent.
	v.wait(`document.querySelector('h1')?.innerText.startsWith('Refund of') && document.readyState === 'complete'`)
	js[bool](v, `([...document.querySelectorAll('main button')].find((b) => b.innerText === 'Refund 75.00 BDT')?.click(), true)`)
	v.wait(`/sent before|came first|Nothing can be refunded/.test(document.querySelector('main')?.innerText)`)
	if got := o.desk.refunded(t, "key-board-2"); got != "75.00" {
		t.Errorf("%s has gone back", got)
	}
	list, err := o.desk.help.Refunds(t.Context(), boss, support.RefundFilter{Ledger: "main", Transfer: "key-board-2"})
	if err != nil || len(list) != 1 || list[0].Maker != "local:support" || list[0].Ticket != "CASE-7" || list[0].Reason != ledger.ReasonDuplicate {
		t.Errorf("%+v %v", list, err)
	}
}
