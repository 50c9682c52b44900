package console_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// axeFile is where .ci/need-chromium.sh puts axe-core, below the user's cache.
const axeFile = "khata/axe-core-4.14.1/axe.min.js"

// loadAxe gives axe-core, or "" where it was not fetched.
func loadAxe(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(cache, axeFile))
	if err != nil {
		t.Logf("there is no axe-core, only the checks of our own: see .ci/need-chromium.sh")
	}
	return string(source)
}

// accessible looks at each state of the page: no fault that keeps somebody out.
func accessible(language, scheme string, width int64) func(*testing.T, *bench, *visit) {
	return func(t *testing.T, b *bench, v *visit) {
		axe := loadAxe(t)
		v.camera(width, scheme)
		r, p := b.road(t, holdAnswer), b.person()
		check := func(state string) {
			t.Helper()
			checkNames(v, state)
			checkLayout(v, state)
			if axe != "" {
				checkAxe(v, state, axe)
			}
		}
		v.do(chromedp.Navigate(r.URL + "/pay?lang=" + language))
		v.wait(`document.getElementById('user') && !document.getElementById('user').disabled`)
		check("signed out")
		v.be(p).ready()
		check("form")
		v.press("button").wait(`document.getElementById('to-error').innerText`)
		check("errors")
		v.fill(peer, "500", "").press("button").wait(`document.querySelector('.status.busy')`)
		check("in flight")
		r.release()
		v.wait(`document.querySelector('.status.sent')`)
		check("sent")
		js[bool](v, `(() => { const mode = document.getElementById('net-mode'); mode.value = 'lose-request'; mode.dispatchEvent(new Event('change')); return true; })()`)
		v.fill(peer, "50000", "").press("button").wait(`document.querySelector('.status.unknown')`)
		check("unknown")
		v.wait(`document.querySelector('.status.rejected')`)
		check("rejected")
	}
}

// checkAxe has axe-core look at the page.
func checkAxe(v *visit, state, axe string) {
	v.t.Helper()
	if !js[bool](v, `Boolean(window.axe)`) {
		js[bool](v, `%s; true`, axe)
	}
	type finding struct {
		ID, Impact, Help string
		Nodes            []struct{ HTML, FailureSummary string }
	}
	text := js[string](v, `axe.run(document, {resultTypes: ['violations'], preload: false}).then((r) => JSON.stringify(r.violations))`)
	var found []finding
	if err := json.Unmarshal([]byte(text), &found); err != nil {
		v.t.Fatal(err)
	}
	for _, f := range found {
		v.t.Errorf("%s: %s (%s): %s\n%v", state, f.ID, f.Impact, f.Help, f.Nodes)
	}
}

// checkNames looks at the page as it is told to a screen reader: whatever can be used has a name.
func checkNames(v *visit, state string) {
	v.t.Helper()
	tree, err := chromedp.Call(v.ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
	if err != nil {
		v.t.Fatal(err)
	}
	controls := []string{"button", "textbox", "combobox", "spinbutton", "link", "searchbox", "listbox", "checkbox"}
	seen := 0
	for _, n := range tree.Nodes {
		if n.Ignored || n.Role == nil || !slices.Contains(controls, valueOf(n.Role)) {
			continue
		}
		seen++
		if n.Name == nil || strings.TrimSpace(valueOf(n.Name)) == "" {
			v.t.Errorf("%s: a %s without a name", state, valueOf(n.Role))
		}
	}
	if seen < 4 {
		v.t.Errorf("%s: only %d controls: is this the page?", state, seen)
	}
}

func valueOf(value *accessibility.Value) string {
	var text string
	_ = json.Unmarshal(value.Value, &text) // What is no text is no name.
	return text
}

// checkLayout looks at what styles make of the page: contrast, sizes for fingers, and nothing that is too wide.
func checkLayout(v *visit, state string) {
	v.t.Helper()
	for _, fault := range js[[]string](v, layoutFaults) {
		v.t.Errorf("%s: %s", state, fault)
	}
}

const layoutFaults = `(() => {
	const faults = [], seen = (e) => e.checkVisibility() && e.getClientRects().length > 0;
	const parse = (c) => { const [r, g, b, a = 1] = c.match(/[\d.]+/g).map(Number); return {r, g, b, a}; };
	const light = ({r, g, b}) => { const [x, y, z] = [r, g, b].map((c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; }); return 0.2126 * x + 0.7152 * y + 0.0722 * z; };
	const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.a > 0) return c; } return {r: 255, g: 255, b: 255}; };
	for (const e of document.querySelectorAll('body *')) {
		if (!seen(e) || e.closest('.hidden-label, .skip')) continue;
		const words = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()) || (e.matches('input, select') && e.value);
		if (words) {
			const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
			const contrast = (a + 0.05) / (b + 0.05);
			if (contrast < 4.5) faults.push(e.tagName + ' "' + (e.textContent || e.value).trim().slice(0, 30) + '": contrast ' + contrast.toFixed(2));
		}
		if (e.matches('button, input, select, a, summary') && !e.matches('[type=checkbox]')) { // A checkbox is pressed by its label.
			const {height} = e.getBoundingClientRect();
			// In tables and lists of faults they stand close together, and there is another way for who cannot hit them.
			if (height < (e.closest('td, th, .alert ul') ? 24 : 44)) faults.push(e.tagName + ' "' + (e.textContent || e.id).trim().slice(0, 30) + '": only ' + height + ' px high');
		}
	}
	if (document.documentElement.scrollWidth > innerWidth) faults.push('it is ' + document.documentElement.scrollWidth + ' px wide in a window of ' + innerWidth);
	return faults;
})()`

// Everything can be done by keyboard alone, in the order in which it is read, and the focus is never lost.
func keyboard(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t, loseAnswer), b.person()
	focus := func() string {
		return js[string](v, `document.activeElement.id || document.activeElement.className || document.activeElement.lang || document.activeElement.tagName`)
	}
	key := func(keys string) { v.do(chromedp.KeyEvent(keys)) }
	v.open(r).wait(`document.getElementById('user') && !document.getElementById('user').disabled`)
	var order []string
	for range 4 {
		key(kb.Tab)
		order = append(order, focus())
	}
	if want := []string{"skip", "en", "bn", "user"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
	key(p.Name)
	v.says("balance", "৳5,000.00")
	if wallet := js[string](v, `document.getElementById('user').value`); wallet != p.Wallet {
		t.Fatalf("picked %s", wallet)
	}
	v.ready()
	key(kb.Tab)
	if at := focus(); at != "to" {
		t.Errorf("after the person comes %s", at)
	}
	key("tithi")
	for focus() != "amount" {
		key(kb.Tab)
	}
	key("500")
	key(kb.Enter)
	v.says("status", "We do not know yet")
	eventually(t, "the focus is on what came of it", func() bool { return focus() == "status" })
	v.says("status", "৳500.00 sent")
	if at := focus(); at != "status" {
		t.Errorf("the focus is on %s", at)
	}
	for _, want := range []string{"status", "polite"} {
		if got := js[string](v, `document.getElementById('say').getAttribute(%q)`, map[string]string{"status": "role", "polite": "aria-live"}[want]); got != want {
			t.Errorf("what came of it is not read out: %q", got)
		}
	}
	key(kb.Tab)
	if at := focus(); at != "to" {
		t.Errorf("after the receipt comes %s", at)
	}
	once(t, b, r, p, "500.00")
}

// A page that is brought back from memory shows what is so now, and not what was.
func backFromMemory(t *testing.T, b *bench, v *visit) {
	r, p := b.road(t), b.person()
	v.open(r).be(p).fill(peer, "500", "").press("button").says("status", "৳500.00 sent")
	js[bool](v, `(window.marked = true)`)
	v.do(chromedp.Navigate(r.URL + "/v1/openapi.json")).back()
	if !js[bool](v, `Boolean(window.marked)`) {
		t.Error("the browser has loaded the page again: what keeps it out of its memory?")
	}
	v.ready().wait(`document.getElementById('status').hidden`)
	// By script: chromedp does not know the nodes of a page that has come back.
	js[bool](v, `(() => { for (const [id, value] of [['to', 'tithi'], ['amount', '250']]) document.getElementById(id).value = value;
		document.getElementById('form').requestSubmit(); return true; })()`)
	v.says("status", "৳250.00 sent")
	if moved := fmt.Sprint(b.movements(t, p)); moved != "[-250.00 -500.00]" {
		t.Errorf("the books say %s", moved)
	}
	if all := r.payments(); len(all) != 2 || all[0].key == all[1].key {
		t.Errorf("two payments were sent as %q", all)
	}
}
