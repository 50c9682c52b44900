package console_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Whatever a person does to the page, and whatever happens to the network and the browser: one payment, under one key.
func TestPay(t *testing.T) {
	t.Parallel()
	b := newBench(t, true, append(numbered(28), mallory)...)
	browser := browse(t, "")
	for name, test := range map[string]func(*testing.T, *bench, *visit){
		"plain": plain, "double click": doubleClick, "Enter twice": enterTwice, "ten presses": tenPresses, "reload in flight": reloadInFlight,
		"back button": backButton, "two tabs": twoTabs, "two forms": twoForms, "offline then online": offlineOnline, "changed, and it was paid": changedPaid,
		"changed, and it was not": changedNot, "refused": refusedPayment, "mended": mendedPayment, "HTML of a proxy": htmlOfProxy, "markup": markup,
		"past the button": pastTheButton, "language": languageKept, "token": tokenForgotten, "keyboard": keyboard, "back from memory": backFromMemory,
		"accessible in English": accessible("en", "light", 320), "accessible in Bengali": accessible("bn", "dark", 1280),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b, visitor(browser, t))
		})
	}
}

// mallory has a name that a careless page would run.
const mallory = "<img/src=x/onerror=alert(1)>"

func plain(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill("tithi", "৫০০", "coaching")
	if label := v.text("button"); label != "Send ৳500.00" {
		t.Errorf("the button says %q", label)
	}
	v.press("button").says("status", "৳500.00 sent")
	v.says("status", "TXN-")
	v.says("balance", "৳4,500.00")
	v.says("moves", "coaching")
	once(t, b, r, p, "500.00")
	want := fmt.Sprintf(`{"from":"%s","to":"wallet:tithi","amount":"500","currency":"BDT","note":"coaching"}`, p.Wallet)
	if got := r.payments()[0].body; got != want {
		t.Errorf("sent %s, want %s", got, want)
	}
	// It is told once. The history has it from then on.
	v.ready().do(chromedp.Reload())
	v.says("moves", "coaching")
	v.ready()
	if strings.Contains(v.text("pay"), "sent") {
		t.Error("the receipt is shown again")
	}
	if to := js[string](v, `document.getElementById('to').value + document.getElementById('amount').value`); to != "" {
		t.Errorf("the new form has %q in it", to)
	}
}

func doubleClick(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "")
	v.do(chromedp.DoubleClick("#button"))
	v.says("status", "Sending ৳500.00")
	// The locked button is pressed on, by hand and by script.
	js[bool](v, `(() => { for (let i = 0; i < 5; i++) { button.click(); form.requestSubmit(); } return true; })()`)
	v.says("guards", "times. The first one counted.")
	r.release()
	v.says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
	if n := len(r.payments()); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}

func enterTwice(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "")
	v.do(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Enter))
	v.says("status", "Sending ৳500.00")
	r.release()
	v.says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
}

func tenPresses(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill(peer, "500", "")
	js[bool](v, `(() => { const count = document.getElementById('net-count'), mode = document.getElementById('net-mode');
		count.value = 9; mode.value = 'both'; mode.dispatchEvent(new Event('change')); return true; })()`)
	v.press("button").says("status", "We do not know yet")
	for range 9 {
		js[bool](v, `(document.getElementById('choice-try')?.click(), true)`)
	}
	eventually(t, "it was tried ten times", func() bool {
		js[bool](v, `(document.getElementById('choice-try')?.click(), true)`)
		return len(b.movements(t, p)) > 0 && strings.Contains(v.text("status"), "sent")
	})
	once(t, b, r, p, "500.00")
	if n := len(r.payments()); n < 10 {
		t.Errorf("it was sent %d times, want 10", n)
	}
	v.says("guards", "It knew the key from an earlier try")
	v.says("guards", "৳5,000.00 → ৳4,500.00")
	// Where the machine is slow, a try can find the one before it still at work, and be told so: that is an answer, too.
	var tries, lost int
	v.says("guards", " without an answer")
	guards := v.text("guards")
	if _, err := fmt.Sscanf(guards[strings.Index(guards, "Network")+len("Network"):], "\n%d sent, %d without an answer", &tries, &lost); err != nil ||
		tries < 10 || lost < 5 || lost > 9 {
		t.Errorf("of %d tries %d had no answer, want ten or more, and 9 (%v): %s", tries, lost, err, guards)
	}
}

func reloadInFlight(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "Sending")
	eventually(t, "it has left", func() bool { return len(r.payments()) == 1 })
	v.do(chromedp.Reload())
	r.release()
	v.says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
	if n := len(r.payments()); n != 2 {
		t.Errorf("it was sent %d times, want a second time after the reload", n)
	}
}

func backButton(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button")
	v.says("status", "We do not know yet")
	v.do(chromedp.Navigate(r.URL + "/v1/openapi.json")).back()
	r.release() // Not before: the page that is left must not have had the answer, or it has shown the receipt.
	v.says("status", "৳500.00 sent")
	// Away with the receipt on the screen, and back: it was read.
	v.do(chromedp.Navigate(r.URL + "/v1/openapi.json")).back()
	v.says("moves", "Sent")
	if strings.Contains(v.text("pay"), "৳500.00 sent") {
		t.Error("the receipt is shown again")
	}
	once(t, b, r, p, "500.00")
}

func twoTabs(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseRequest, holdAnswer), b.person()
	v.open(r).be(p)
	other := v.tab().open(r).be(p).ready()
	v.fill(peer, "500", "").press("button").says("status", "৳500.00")
	// The other tab shows the same, and its button is locked by the same payment.
	other.says("status", "৳500.00")
	other.wait(`document.getElementById('button').disabled`)
	other.wait(`document.getElementById('amount').value === '500'`)
	eventually(t, "it was sent twice", func() bool { return len(r.payments()) == 2 })
	r.release()
	other.ready()
	v.ready()
	other.says("moves", "Sent")
	shown := strings.Count(v.text("pay"), "৳500.00 sent") + strings.Count(other.text("pay"), "৳500.00 sent")
	if shown != 1 {
		t.Errorf("the receipt is shown in %d tabs", shown)
	}
	once(t, b, r, p, "500.00")
}

// Two tabs with a form each, filled alike, both sent at the same moment.
func twoForms(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, holdAnswer), b.person()
	v.open(r).be(p)
	other := v.tab().open(r).be(p).fill(peer, "500", "")
	v.fill(peer, "500", "")
	done := make(chan bool)
	go func() {
		defer close(done)
		_ = chromedp.Do(other.ctx, chromedp.Click("#button"))
	}()
	_ = chromedp.Do(v.ctx, chromedp.Click("#button"))
	<-done
	r.release()
	v.ready()
	other.ready()
	once(t, b, r, p, "500.00")
}

func offlineOnline(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill(peer, "500", "")
	v.offline(true)
	v.says("offline", "You are offline")
	v.press("button").says("status", "offline. It goes on by itself")
	if n := len(r.payments()); n != 0 {
		t.Errorf("%d payments arrived without a network", n)
	}
	v.offline(false)
	v.says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
}

func changedPaid(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer, loseAnswer, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "We do not know yet")
	v.press("choice-change").fill(peer, "400", "").says("button", "Send ৳400.00 instead")
	v.press("button").says("status", "First we find out about the ৳500.00")
	// It is asked for also where the browser was closed meanwhile.
	v.do(chromedp.Reload())
	v.says("status", "First we find out about the ৳500.00")
	r.release()
	v.says("status", "The ৳500.00 did go through")
	v.says("status", "Do you want to send ৳400.00 to wallet:tithi as well?")
	once(t, b, r, p, "500.00")
	v.press("choice-no").ready()
	once(t, b, r, p, "500.00")
}

func changedNot(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer, loseAnswer, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "50000", "").press("button").says("status", "We do not know yet")
	v.press("choice-change").fill(peer, "500", "").press("button").says("status", "First we find out about the ৳50,000.00")
	r.release()
	v.says("status", "The ৳50,000.00 did not go through")
	v.says("status", "There is not enough money in your wallet.")
	old := r.payments()
	v.press("choice-yes").says("status", "৳500.00 sent")
	all := r.payments()
	for _, s := range old {
		if s.key != all[0].key {
			t.Errorf("the old payment was sent under %s and %s", s.key, all[0].key)
		}
	}
	if last := all[len(all)-1]; last.key == all[0].key || len(b.movements(t, p)) != 1 {
		t.Errorf("the changed payment is under the old key, or not alone: %q, %s", all, b.movements(t, p))
	}
}

func refusedPayment(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer), b.person()
	v.open(r).be(p).fill(peer, "50000", "").press("button")
	v.says("status", "There is not enough money in your wallet.")
	v.says("status", "This is final.")
	v.do(chromedp.Reload())
	v.says("status", "There is not enough money in your wallet.")
	v.press("choice-ok").wait(`document.getElementById('status').hidden`)
	if moved := b.movements(t, p); len(moved) != 0 {
		t.Errorf("the books say %s", moved)
	}
	first := r.payments()[0].key
	v.fill(peer, "500", "").press("button").says("status", "৳500.00 sent")
	if all := r.payments(); all[len(all)-1].key == first {
		t.Error("a new payment was sent under the key of one that is refused for ever")
	}
}

func mendedPayment(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill("wallet:nobody", "500", "").press("button").says("status", "There is no such wallet")
	v.fill(peer, "500", "").press("button").says("status", "৳500.00 sent")
	all := r.payments()
	if len(all) != 2 || all[0].key != all[1].key {
		t.Errorf("mended under another key: %q", all)
	}
	if moved := b.movements(t, p); len(moved) != 1 {
		t.Errorf("the books say %s", moved)
	}
}

func htmlOfProxy(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, html, loseAnswer, html), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
}

// What people write is text, wherever it is shown.
func markup(t *testing.T, b *bench, v *visit) {
	const bomb = `<img src=x onerror="document.title='hit'"><script>document.title='hit'</script>`
	r, p := b.road(t, loseAnswer, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", bomb).press("button").says("status", "We do not know yet")
	r.release()
	v.says("status", "sent")
	v.says("moves", bomb)
	v.says("user", mallory)
	v.says("people", mallory)
	v.ready().fill(mallory, "5", "").press("button").says("status", "wallet:"+mallory)
	if n := js[int](v, `document.querySelectorAll('img:not(.brand img), main script').length`); n != 0 {
		t.Errorf("%d elements of what people wrote", n)
	}
	if title := js[string](v, `document.title`); title != "Send money · Khata" {
		t.Errorf("the title is %q", title)
	}
}

func pastTheButton(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "৳500.00 sent")
	v.press("again").says("guards", "10 more requests past the button: 10 replays, all with the same bytes.")
	once(t, b, r, p, "500.00")
	if n := len(r.payments()); n != 11 {
		t.Errorf("%d were sent", n)
	}
	v.says("balance", "৳4,500.00")
}

// The language can be changed at any moment.
func languageKept(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer, holdAnswer), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "We do not know yet")
	v.do(chromedp.Click(`a[lang="bn"]`))
	v.wait(`document.documentElement.lang === 'bn'`)
	v.says("status", "৳৫০০.০০")
	r.release()
	v.says("status", "৳৫০০.০০ পাঠানো হয়েছে")
	v.do(chromedp.Navigate(r.URL + "/pay"))
	v.wait(`document.documentElement.lang === 'bn'`)
	once(t, b, r, p, "500.00")
}

// A token that is not known any more: the payment waits for another one, and goes on under its key.
func tokenForgotten(t *testing.T, _ *bench, v *visit) {
	b := newBench(t, false, "Shimul")
	r, p := b.road(t, loseAnswer, unknownUser), b.person()
	signIn := func(token string) {
		v.wait(`document.getElementById('signin')?.checkVisibility()`)
		js[bool](v, `(() => { document.getElementById('wallet').value = %q; return true; })()`, p.Wallet)
		v.do(chromedp.SendKeys("#token", token+kb.Enter))
	}
	v.open(r)
	signIn("nonsense")
	v.says("who-error", "not accepted")
	v.press("signout")
	signIn(p.Token)
	v.says("balance", "৳5,000.00")
	v.fill(peer, "500", "").press("button").says("status", "Sign in again to go on")
	v.press("choice-resume")
	signIn(p.Token)
	v.says("status", "৳500.00 sent")
	once(t, b, r, p, "500.00")
	kept := js[string](v, `(async () => { const db = await new Promise((done) => { const r = indexedDB.open('khata-pay'); r.onsuccess = () => done(r.result); });
		const tx = db.transaction([...db.objectStoreNames]); const all = [];
		for (const name of db.objectStoreNames) all.push(await new Promise((done) => { const r = tx.objectStore(name).getAll(); r.onsuccess = () => done(r.result); }));
		return JSON.stringify(all) + document.cookie + JSON.stringify({...localStorage}); })()`)
	if strings.Contains(kept, "sandbox-") || !strings.Contains(kept, "TXN-") {
		t.Errorf("a token is kept where it should not be: %s", kept)
	}
}

// The browser is killed while nobody knows whether the money has moved, and comes back with its profile.
func TestPay_Killed(t *testing.T) {
	t.Parallel()
	b := newBench(t, true, numbered(3)...)
	for name, fault := range map[string]string{"its request was lost": loseRequest, "its answer was lost": loseAnswer, "waiting for the answer": holdAnswer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, p := b.road(t, fault), b.person()
			profile := t.TempDir()
			first := browse(t, profile)
			v := newVisit(first, t)
			v.open(r).be(p).fill(peer, "500", "").press("button")
			eventually(t, "it has left", func() bool { return len(r.payments()) > 0 })
			if err := chromedp.FromContext(first).Browser.Process().Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			r.CloseClientConnections()
			v = newVisit(browse(t, profile), t)
			v.open(r).be(p)
			v.says("moves", "Sent")
			v.says("pay", "৳500.00 sent")
			once(t, b, r, p, "500.00")
		})
	}
}
