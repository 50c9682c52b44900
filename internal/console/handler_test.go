package console_test

import (
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/console"
	core "github.com/khata-ledger/khata/ledger/payclient/js"
)

func page(config console.PayConfig) http.Handler {
	config.Logger = slog.New(slog.DiscardHandler)
	return console.Pay(config)
}

// ask sends a request with headers as name, value, name, value.
func ask(h http.Handler, method, path string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestPay_Headers(t *testing.T) {
	t.Parallel()
	w := ask(page(console.PayConfig{}), "GET", "/pay")
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	got := map[string]string{}
	for name := range w.Header() {
		got[name] = w.Header().Get(name)
	}
	want := map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; " +
			"frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer", "Cross-Origin-Opener-Policy": "same-origin",
		"Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()", "Content-Type": "text/html; charset=utf-8",
		"Content-Language": "en", "Cache-Control": "private, no-cache", "Vary": "Accept-Language, Cookie",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// Nothing in the page needs a hole in the policy.
func TestPay_NothingInline(t *testing.T) {
	t.Parallel()
	body := ask(page(console.PayConfig{Sandbox: true, SandboxUsers: []console.SandboxUser{
		{Name: `"><script>alert(1)</script>`, Token: `'"<>&`, Wallet: `" onfocus="alert(1)`},
	}}), "GET", "/pay").Body.String()
	for _, wrong := range []string{`<style`, `style="`, `javascript:`, `<script>`, `onfocus="`} {
		if strings.Contains(body, wrong) {
			t.Errorf("the page has %s", wrong)
		}
	}
	if scripts := regexp.MustCompile(`<script[^>]*>[^<]`).FindAllString(body, -1); scripts != nil {
		t.Errorf("inline scripts: %q", scripts)
	}
	if handlers := regexp.MustCompile(`<[^>"]*("[^"]*"[^>"]*)*\son[a-z]+=`).FindAllString(body, -1); handlers != nil {
		t.Errorf("inline handlers: %q", handlers)
	}
}

func TestPay_Language(t *testing.T) {
	t.Parallel()
	h := page(console.PayConfig{})
	for _, c := range []struct{ path, accept, cookie, want string }{
		{"/pay", "", "", "en"},
		{"/pay", "bn", "", "bn"},
		{"/pay", "bn-BD,bn;q=0.9,en;q=0.8", "", "bn"},
		{"/pay", "en-GB,en;q=0.9,bn;q=0.8", "", "en"},
		{"/pay", "en;q=0.5, bn;q=0.7", "", "bn"},
		{"/pay", "fr,de;q=0.5", "", "en"},
		{"/pay", "fr,bn;q=0.1", "", "bn"},
		{"/pay", "bn;q=0, en;q=0.1", "", "en"},
		{"/pay", "bn", "en", "en"},
		{"/pay", "en", "bn", "bn"},
		{"/pay", "en", "xx", "en"},
		{"/pay?lang=bn", "en", "en", "bn"},
		{"/pay?lang=%3Cscript%3E", "bn", "", "bn"},
		{"/pay", ";;q=x,,=", "", "en"},
	} {
		headers := []string{"Accept-Language", c.accept}
		if c.cookie != "" {
			headers = append(headers, "Cookie", "khata_lang="+c.cookie)
		}
		w := ask(h, "GET", c.path, headers...)
		if got := w.Header().Get("Content-Language"); got != c.want || !strings.Contains(w.Body.String(), `<html lang="`+c.want+`">`) {
			t.Errorf("%+v: %s", c, got)
		}
		if set := w.Header().Get("Set-Cookie"); (set != "") != strings.Contains(c.path, "lang=bn") {
			t.Errorf("%+v: Set-Cookie: %s", c, set)
		}
	}
}

// Both languages say everything, with the same things to be filled in, and every text that a script asks for is there.
func TestPay_Texts(t *testing.T) {
	t.Parallel()
	texts := console.Texts()
	placeholders := func(words string) map[string]bool {
		found := map[string]bool{}
		for _, p := range regexp.MustCompile(`\{\w+\}`).FindAllString(words, -1) {
			found[p] = true
		}
		return found
	}
	for name, english := range texts["en"] {
		bengali, ok := texts["bn"][name]
		if !ok {
			t.Errorf("there is no Bengali text %s", name)
		} else if diff := cmp.Diff(placeholders(english), placeholders(bengali)); diff != "" {
			t.Errorf("%s (-English +Bengali):\n%s", name, diff)
		}
	}
	if len(texts["bn"]) != len(texts["en"]) {
		t.Errorf("%d texts in Bengali, %d in English", len(texts["bn"]), len(texts["en"]))
	}
	used := regexp.MustCompile(`\b(?:text|card)\('([\w.-]+)'|choice\('\w+', '([\w.-]+)'`)
	for name, source := range console.Files() {
		if !strings.HasSuffix(name, ".js") || strings.HasPrefix(name, "payclient/") {
			continue
		}
		for _, m := range used.FindAllStringSubmatch(source, -1) {
			if wanted := m[1] + m[2]; texts["en"][wanted] == "" {
				t.Errorf("%s asks for the text %s, which is not there", name, wanted)
			}
		}
	}
}

func TestPay_Files(t *testing.T) {
	t.Parallel()
	h := page(console.PayConfig{})
	body := ask(h, "GET", "/pay").Body.String()
	script := regexp.MustCompile(`src="(/pay/assets/[0-9a-f]{16}/)pay\.js"`).FindStringSubmatch(body)
	if script == nil {
		t.Fatal("the page has no script")
	}
	kinds := map[string]string{"pay.js": "text/javascript; charset=utf-8", "pay.css": "text/css; charset=utf-8", "icon.svg": "image/svg+xml"}
	if err := fs.WalkDir(core.Source(), ".", func(name string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			kinds["payclient/"+name] = "text/javascript; charset=utf-8"
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for name, kind := range kinds {
		w := ask(h, "GET", script[1]+name)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || w.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	for _, missing := range []string{script[1], script[1] + "nothing.js", script[1] + "%2e%2e/pay.go", "/pay/assets/0123456789abcdef/pay.js", "/pay/assets/", "/pay/nothing"} {
		if w := ask(h, "GET", missing); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", missing, w.Code)
		}
	}
	if w := ask(h, "POST", "/pay"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
	if w := ask(h, "HEAD", "/pay"); w.Code != http.StatusOK {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// To the caller both ways to lose look alike: a connection that ends. To the handler they do not.
func TestBadNetwork(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	s := httptest.NewServer(console.BadNetwork(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, "answer")
	})))
	defer s.Close()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, step := range []struct {
		header           string
		handled, answers bool
	}{{"", true, true}, {"lose-request", false, false}, {"lose-answer", true, false}, {"something", true, true}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, strings.NewReader("body of "+step.header))
		if err != nil {
			t.Fatal(err)
		}
		if step.header != "" {
			req.Header.Set("Khata-Sandbox-Network", step.header)
		}
		resp, err := c.Do(req)
		if (err == nil) != step.answers {
			t.Errorf("%q: %v", step.header, err)
		}
		if err == nil {
			if resp.StatusCode != http.StatusCreated || resp.Header.Get("X-Answer") != "yes" {
				t.Errorf("%q: %v", step.header, resp)
			}
			_ = resp.Body.Close()
		}
		select {
		case body := <-got:
			if !step.handled || body != "body of "+step.header {
				t.Errorf("%q: the handler got %q", step.header, body)
			}
		default:
			if step.handled {
				t.Errorf("%q: the handler got nothing", step.header)
			}
		}
	}
}
