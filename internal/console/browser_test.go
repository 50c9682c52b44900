package console_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"github.com/khata-ledger/khata/internal/server"
)

// browse starts a Chromium. Where there is none, a test is skipped, and in CI it fails. profile is its directory, or "" for one that is
// thrown away.
func browse(t *testing.T, profile string) context.Context {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal("there is no Chromium: see .ci/need-chromium.sh")
		}
		t.Skip("there is no Chromium: see .ci/need-chromium.sh")
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.Flag("headless", "new"), chromedp.Flag("lang", "en"),
		// As in a browser that people use: a page that comes back by the back button comes from memory.
		chromedp.Flag("disable-features", "Translate"), chromedp.Flag("enable-features", "BackForwardCache"))
	if profile != "" {
		options = append(options, chromedp.UserDataDir(profile))
	}
	allocator, cancel := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx, chromedp.Navigate("about:blank")); err != nil {
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx
}

// visit is a tab with a page in it.
type visit struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	errors []string
}

// visitor opens a tab in a browser of its own: nothing is kept from others.
func visitor(browser context.Context, t *testing.T) *visit {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	return newVisit(ctx, t)
}

// tab opens another tab of the same visitor.
func (v *visit) tab() *visit {
	v.t.Helper()
	ctx, cancel := chromedp.NewContext(v.ctx)
	v.t.Cleanup(cancel)
	return newVisit(ctx, v.t)
}

func newVisit(ctx context.Context, t *testing.T) *visit {
	t.Helper()
	v := &visit{t: t, ctx: ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1280, 900)); err != nil {
		t.Fatal(err)
	}
	// A script that fails, or is forbidden by the page's policy, is a fault of the page whatever else works.
	if err := chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*runtime.EventExceptionThrown); ok {
			v.mu.Lock()
			v.errors = append(v.errors, e.ExceptionDetails.Text+" "+fmt.Sprint(e.ExceptionDetails.Exception))
			v.mu.Unlock()
		}
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		for _, e := range v.errors {
			t.Errorf("an error in the page: %s", e)
		}
		if t.Failed() {
			ctx, cancel := context.WithTimeout(v.ctx, 2*time.Second)
			defer cancel()
			body, _ := chromedp.Run(ctx, chromedp.Evaluate[string](`document.body?.innerText ?? ''`))
			t.Logf("the page says:\n%s", body)
		}
	})
	return v
}

func (v *visit) do(actions ...chromedp.Action[chromedp.Void]) *visit {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		v.t.Fatal(err)
	}
	return v
}

// back goes back to the page, which the browser may bring back from memory.
func (v *visit) back() *visit {
	v.t.Helper()
	js[bool](v, `(history.back(), true)`)
	v.wait(`document.getElementById('form')`)
	return v
}

// js evaluates an expression.
func js[T any](v *visit, format string, args ...any) T {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(v.ctx, 20*time.Second)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](fmt.Sprintf(format, args...), chromedp.EvalAwaitPromise))
	if err != nil {
		v.t.Fatalf("%s: %v", fmt.Sprintf(format, args...), err)
	}
	return value
}

// wait waits until an expression is true. Between two pages there is nothing to ask.
func (v *visit) wait(format string, args ...any) {
	v.t.Helper()
	expression := fmt.Sprintf(format, args...)
	eventually(v.t, expression, func() bool {
		ctx, cancel := context.WithTimeout(v.ctx, 5*time.Second)
		defer cancel()
		is, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if err != nil && errors.Is(v.ctx.Err(), context.Canceled) {
			v.t.Fatal(err)
		}
		return is
	})
}

// says waits until something is to be read in an element.
func (v *visit) says(id, words string) {
	v.t.Helper()
	quoted, _ := json.Marshal(words)
	v.wait(`document.getElementById(%q)?.innerText.includes(%s)`, id, quoted)
}

func (v *visit) text(id string) string {
	v.t.Helper()
	return js[string](v, `document.getElementById(%q).innerText`, id)
}

// open goes to the page.
func (v *visit) open(r *road) *visit {
	v.t.Helper()
	v.do(chromedp.Navigate(r.URL + "/pay?lang=en"))
	return v
}

// be picks a person, and waits until the page knows the balance.
func (v *visit) be(p server.PaySandboxUser) *visit {
	v.t.Helper()
	v.wait(`document.getElementById('user') && !document.getElementById('user').disabled`)
	js[bool](v, `(() => { const u = document.getElementById('user'); u.value = %q; u.dispatchEvent(new Event('change')); return true; })()`, p.Wallet)
	v.says("balance", "৳")
	return v
}

// ready waits until the form can be sent.
func (v *visit) ready() *visit {
	v.t.Helper()
	v.wait(`document.getElementById('button') && !document.getElementById('button').disabled`)
	return v
}

// fill writes into the form by keyboard.
func (v *visit) fill(to, amount, note string) *visit {
	v.t.Helper()
	v.ready()
	for _, field := range [][2]string{{"to", to}, {"amount", amount}, {"note", note}} {
		v.do(chromedp.Click("#"+field[0]), chromedp.Func(func(ctx context.Context, _ *chromedp.Target) error {
			_, err := chromedp.Run(ctx, chromedp.Evaluate[bool](fmt.Sprintf(`(document.getElementById(%q).select(), true)`, field[0])))
			return err
		}))
		if field[1] != "" {
			v.do(chromedp.SendKeys("#"+field[0], field[1]))
		}
	}
	return v
}

// press clicks on the middle of something, which must be there.
func (v *visit) press(id string) *visit {
	v.t.Helper()
	v.wait(`document.getElementById(%q)?.checkVisibility()`, id)
	v.do(chromedp.Click("#" + id))
	return v
}

// offline takes the browser's network away, or gives it back.
func (v *visit) offline(is bool) {
	v.t.Helper()
	all := []*network.Conditions{{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}}
	for _, err := range []error{
		call(v, network.Enable, network.EnableParams{}),
		call(v, network.EmulateNetworkConditionsByRule, network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: all}),
		call(v, network.OverrideNetworkState, network.OverrideNetworkStateParams{Offline: is, DownloadThroughput: -1, UploadThroughput: -1}),
	} {
		if err != nil {
			v.t.Fatal(err)
		}
	}
}

// once is what every test here ends in: in the books one payment of this amount and nothing else, and on the road one key and one body.
func once(t *testing.T, b *bench, r *road, p server.PaySandboxUser, amount string) {
	t.Helper()
	eventually(t, "the payment is in the books", func() bool { return len(b.movements(t, p)) > 0 })
	if moved := b.movements(t, p); len(moved) != 1 || moved[0] != "-"+amount {
		t.Errorf("the books say %s, want -%s alone", moved, amount)
	}
	all := r.payments()
	for _, s := range all {
		if s.key != all[0].key || s.body != all[0].body {
			t.Errorf("%d payments were sent, under more than one key or with more than one body:\n%s", len(all), strings.ReplaceAll(fmt.Sprintf("%q", all), "{", "\n{"))
			break
		}
	}
}

// call runs a command of the browser's protocol.
func call[P, R any](v *visit, command cdp.Command[P, R], params P) error {
	ctx, cancel := context.WithTimeout(v.ctx, 10*time.Second)
	defer cancel()
	_, err := chromedp.Call(ctx, command, params)
	return err
}
