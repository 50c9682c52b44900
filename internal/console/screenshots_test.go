package console_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// screenshotsEnv names a directory, where the page is then pictured in each state, language and width, for people to look at.
const screenshotsEnv = "KHATA_SCREENSHOTS"

func TestPay_Screenshots(t *testing.T) {
	dir := os.Getenv(screenshotsEnv)
	if dir == "" {
		t.Skip("set " + screenshotsEnv + " to a directory")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	browser := browse(t, "")
	for _, language := range []string{"en", "bn"} {
		b := newBench(t, true, "Shimul", "Rahim", "Karim", "Jamal")
		picture(browser, t, b, language, 360, "light")
		picture(browser, t, b, language, 1280, "light")
	}
	b := newBench(t, true, "Shimul", "Rahim")
	picture(browser, t, b, "en", 360, "dark")
	picture(browser, t, b, "bn", 1280, "dark")
	token := newBench(t, false, "Shimul")
	v := visitor(browser, t).camera(360, "light")
	v.open(token.road(t)).wait(`document.getElementById('signin')?.checkVisibility()`)
	v.shoot(filepath.Join(dir, "token-360.png"))
}

// camera gives the tab a width and a scheme of colours, and nothing that moves.
func (v *visit) camera(width int64, scheme string) *visit {
	v.t.Helper()
	v.do(chromedp.EmulateViewport(width, 800))
	if err := call(v, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}},
	}); err != nil {
		v.t.Fatal(err)
	}
	return v
}

func (v *visit) shoot(file string) {
	v.t.Helper()
	data, err := chromedp.Run(v.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		v.t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		v.t.Fatal(err)
	}
}

func picture(browser context.Context, t *testing.T, b *bench, language string, width int64, scheme string) {
	t.Helper()
	v := visitor(browser, t).camera(width, scheme)
	r, p := b.road(t, holdAnswer), b.person()
	shoot := func(state string) {
		v.shoot(filepath.Join(os.Getenv(screenshotsEnv), fmt.Sprintf("%s-%d-%s-%s.png", language, width, scheme, state)))
	}
	v.open(r).do(chromedp.Navigate(r.URL + "/pay?lang=" + language))
	v.wait(`document.getElementById('user') && !document.getElementById('user').disabled`)
	shoot("1-signed-out")
	v.be(p).fill(peer, "1,500", "coaching")
	shoot("2-form")
	v.press("button").wait(`document.querySelector('.status.busy')`)
	shoot("3-in-flight")
	r.release()
	v.wait(`document.querySelector('.status.sent')`)
	v.wait(`document.querySelectorAll('#moves-list li').length > 1`)
	shoot("4-sent")
	js[bool](v, `(() => { const mode = document.getElementById('net-mode'); mode.value = 'lose-answer'; mode.dispatchEvent(new Event('change')); return true; })()`)
	v.ready().fill("tithi", "500", "").press("button").wait(`document.querySelector('.status.unknown')`)
	js[bool](v, `(document.getElementById('steps').open = true)`)
	shoot("5-unknown")
	js[bool](v, `(async () => { for (let i = 0; i < 100 && !document.querySelector('.status.sent'); i++) { document.getElementById('choice-try')?.click(); await new Promise((d) => setTimeout(d, 100)); } return true; })()`)
	v.wait(`document.querySelector('.status.sent')`)
	v.ready()
	shoot("6-sent-after-lost-answers")
	v.fill("tithi", "500000", "").press("button").wait(`document.querySelector('.status.rejected')`)
	shoot("7-rejected")
	v.fill("tithi", "5,0", "").press("button").wait(`document.getElementById('amount-error').innerText`)
	shoot("8-wrong")
}
