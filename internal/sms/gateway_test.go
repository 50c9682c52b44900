package sms

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

var aMessage = Message{Key: "key-1", Phone: "+8801711000002", Text: "৳500.00 received from Shimul."}

// serve gives a gateway at a server of the test's.
func serve(t *testing.T, handle http.HandlerFunc) *HTTPGateway {
	t.Helper()
	server := httptest.NewServer(handle)
	g, err := NewHTTPGateway(server.URL+"/v1/", "secret")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return g
}

func TestHTTPGateway_Send(t *testing.T) {
	t.Parallel()
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" || r.Header.Get("Idempotency-Key") != "key-1" || r.Header.Get("Authorization") != "Bearer secret" ||
			string(body) != `{"text":"৳500.00 received from Shimul.","to":"+8801711000002"}` || r.Header.Get("Cookie") != "" {
			t.Errorf("%s %s %v %s", r.Method, r.URL, r.Header, body)
		}
		http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
		writeAnswer(w, http.StatusCreated, answer{ID: "m-1"})
	})
	for range 2 { // The second would bring the cookie.
		if ref, err := g.Send(t.Context(), aMessage); err != nil || ref != "m-1" {
			t.Errorf("%q, %v", ref, err)
		}
	}
}

// What counts is what a gateway says, and what a proxy says does not.
func TestHTTPGateway_Answers(t *testing.T) {
	t.Parallel()
	says := func(code int, body string, headers ...string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			for i := 0; i < len(headers); i += 2 {
				w.Header().Set(headers[i], headers[i+1])
			}
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	const page = "<html><body>Bad thing</body></html>"
	for _, c := range []struct {
		name   string
		handle http.HandlerFunc
		want   string // ok, refused, later, unknown
		after  time.Duration
	}{
		{"200", says(200, `{"id":"a"}`), "ok", 0},
		{"201 with more than we know", says(201, ` {"id":"a","parts":2} `), "ok", 0},
		{"202", says(202, `{"id":"a"}`), "later", 0},
		{"200 and a page", says(200, page), "unknown", 0},
		{"200 and garbage after it", says(200, `{"id":"a"}{"id":"b"}`), "unknown", 0},
		{"200 and no id", says(200, `{"ok":true}`), "unknown", 0},
		{"200 and an id that is a number", says(200, `{"id":7}`), "unknown", 0},
		{"200 and an id of two lines", says(200, `{"id":"a\nb"}`), "unknown", 0},
		{"200 and a long id", says(200, `{"id":"`+strings.Repeat("a", 201)+`"}`), "unknown", 0},
		{"200 and too much", says(200, `{"id":"a","x":"`+strings.Repeat("a", maxAnswer)+`"}`), "unknown", 0},
		{"200 and nothing", says(200, ""), "unknown", 0},
		{"400", says(400, `{"error":"no such number"}`), "refused", 0},
		{"422", says(422, `{"error":"the text is too long"}`), "refused", 0},
		{"400 of a proxy", says(400, page), "later", 0},
		{"422 without a reason", says(422, `{}`), "later", 0},
		{"401", says(401, `{"error":"who are you?"}`), "later", 0},
		{"403", says(403, `{"error":"no"}`), "later", 0},
		{"404", says(404, `{"error":"no such page"}`), "later", 0},
		{"409: the same key is under way", says(409, `{"error":"wait"}`, "Retry-After", "3"), "later", 3 * time.Second},
		{"429", says(429, "", "Retry-After", "7"), "later", 7 * time.Second},
		{"429 without patience", says(429, "", "Retry-After", "soon"), "later", 0},
		{"429 for less than nothing", says(429, "", "Retry-After", "-7"), "later", 0},
		{"500", says(500, page), "later", 0},
		{"503", says(503, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), "later", 0},
		{"302", says(302, "", "Location", "/elsewhere"), "later", 0},
		{"308", says(308, "", "Location", "/elsewhere"), "later", 0},
		{"cut in the headers", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "unknown", 0},
		{"cut in the body", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, `{"id":"a"`)
			panic(http.ErrAbortHandler)
		}, "unknown", 0},
		{"never", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, "unknown", 0},
		{"a byte now and then", func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, " ")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(20 * time.Millisecond)
			}
		}, "unknown", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			g := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/v1/messages" {
					t.Errorf("it went to %s", r.URL)
				}
				calls.Add(1)
				_, _ = io.Copy(io.Discard, r.Body)
				c.handle(w, r)
			})
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			began := time.Now()
			ref, err := g.Send(ctx, aMessage)
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
			var refused *RefusedError
			var later *LaterError
			got := "unknown"
			switch {
			case err == nil:
				got = "ok"
			case errors.As(err, &refused):
				got = "refused"
			case errors.As(err, &later):
				got = "later"
				if later.After != c.after {
					t.Errorf("after %s", later.After)
				}
			}
			if got != c.want || (err == nil) != (ref == "a") {
				t.Errorf("%s (%q, %v), want %s", got, ref, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), aMessage.Phone) {
				t.Errorf("it quotes the number: %v", err)
			}
			if calls.Load() != 1 {
				t.Errorf("%d calls", calls.Load())
			}
		})
	}
}

// net/http sends again by itself what has an idempotency key, on a connection that was used before and then breaks. Calls are counted here, so
// it must not.
func TestHTTPGateway_NoCallsOfItsOwn(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	g := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if calls.Add(1) == 2 {
			panic(http.ErrAbortHandler)
		}
		writeAnswer(w, http.StatusOK, answer{ID: "a"})
	})
	if _, err := g.Send(t.Context(), aMessage); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Send(t.Context(), aMessage); err == nil || calls.Load() != 2 {
		t.Errorf("%d calls, %v", calls.Load(), err)
	}
}

func TestRetryAfter_Date(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	if got := retryAfter("Mon, 30 Nov 2026 12:00:09 GMT", now); got != 9*time.Second {
		t.Error(got)
	}
	if got := retryAfter("99999999999999999999", now); got != 0 {
		t.Error(got)
	}
}

func TestNewHTTPGateway_Refuses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "sms.example", "ftp://sms.example", "http://", "http://a?b=c", "http://user:word@a", "http://a#b", "://"} {
		if _, err := NewHTTPGateway(base, ""); err == nil || base != "" && strings.Contains(err.Error(), "word") {
			t.Errorf("%q: %v", base, err)
		}
	}
	if _, err := NewHTTPGateway("http://a", "two\nlines"); err == nil {
		t.Error("it takes a token of two lines")
	}
}

// sandbox serves one, and gives a gateway that speaks to it.
func sandbox(t *testing.T) (*SandboxGateway, *HTTPGateway, string) {
	t.Helper()
	box := NewSandboxGateway()
	server := httptest.NewServer(box)
	g, err := NewHTTPGateway(server.URL, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		server.CloseClientConnections()
		server.Close()
	})
	return box, g, server.URL
}

func TestSandboxGateway(t *testing.T) {
	t.Parallel()
	box, g, _ := sandbox(t)
	first, err := g.Send(t.Context(), aMessage)
	if err != nil {
		t.Fatal(err)
	}
	again, err := g.Send(t.Context(), aMessage)
	if err != nil || again != first {
		t.Errorf("%q and %q, %v", first, again, err)
	}
	other := aMessage
	other.Text = "something else"
	var refused *RefusedError
	if _, err := g.Send(t.Context(), other); !errors.As(err, &refused) || refused.Status != http.StatusUnprocessableEntity {
		t.Errorf("another text under the same key: %v", err)
	}
	if _, err := g.Send(t.Context(), Message{"key-2", "+8801711000000", "x"}); !errors.As(err, &refused) {
		t.Errorf("a number that ends in 00: %v", err)
	}
	if _, err := g.Send(t.Context(), Message{"key-3", "01711", "x"}); !errors.As(err, &refused) {
		t.Errorf("no number: %v", err)
	}
	if got, want := box.Totals(), (SandboxTotals{Calls: 5, Repeated: 1, Sent: 1, Reused: 1, Refused: 2}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if list := box.Messages(); len(list) != 1 || list[0].Calls != 2 || list[0].Text != aMessage.Text {
		t.Errorf("%+v", list)
	}
}

// The first call for a number that ends in 01 hears nothing, though the message is taken; the next one finds it.
func TestSandboxGateway_Silent(t *testing.T) {
	t.Parallel()
	box, g, _ := sandbox(t)
	m := Message{"key-1", "+8801711000001", "x"}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := g.Send(ctx, m); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if _, err := g.Send(t.Context(), m); err != nil {
		t.Error(err)
	}
	if got := box.Totals(); got.Sent != 1 || got.Repeated != 1 {
		t.Errorf("%+v", got)
	}
}

func TestSandboxGateway_Bounded(t *testing.T) {
	t.Parallel()
	box := NewSandboxGateway()
	for i := range sandboxKeeps + 10 {
		if code, _, _ := box.accept("key-"+time.Duration(i).String(), "+8801711000002", "x"); code != http.StatusCreated {
			t.Fatal(code)
		}
	}
	if len(box.byKey) != sandboxKeeps || len(box.messages) != sandboxKeeps {
		t.Errorf("%d keys, %d messages", len(box.byKey), len(box.messages))
	}
}

func TestSandboxGateway_Page(t *testing.T) {
	t.Parallel()
	box, g, base := sandbox(t)
	for _, m := range []Message{
		{"1", "+8801711000002", "the first"}, {"2", "+8801711000003", "<script>alert(1)</script>&"}, {"3", "+8801711000002", "the last"},
	} {
		if _, err := g.Send(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	page, header := get(t, base+"/")
	for _, want := range []string{"&lt;script&gt;alert(1)&lt;/script&gt;&amp;", `<h2>&#43;8801711000002</h2>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if strings.Contains(page, "<script") {
		t.Error("the page has a script")
	}
	if strings.Index(page, "the last") > strings.Index(page, "the first") || strings.Index(page, "the first") > strings.Index(page, "alert") {
		t.Errorf("the newest is not first:\n%s", page)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'; style-src 'sha256-") || strings.Contains(policy, "unsafe") {
		t.Errorf("its policy is %q", policy)
	}
	text, header := get(t, base+"/messages")
	var list struct{ Messages []SandboxMessage }
	if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Messages) != 3 || list.Messages[0].Key != "3" || header.Get("Content-Type") != "application/json" {
		t.Errorf("%s, %v", text, err)
	}
	// Somebody else's page, whose name now leads here.
	for _, host := range []string{"evil.example", "evil.example:80", "127.0.0.1.evil.example"} {
		r := httptest.NewRequest(http.MethodGet, "/messages", nil)
		r.Host = host
		w := httptest.NewRecorder()
		box.ServeHTTP(w, r)
		if w.Code != http.StatusMisdirectedRequest || strings.Contains(w.Body.String(), "880") {
			t.Errorf("%s: %d %s", host, w.Code, w.Body)
		}
	}
	// A form of somebody else's page.
	resp, err := http.PostForm(base+"/messages", url.Values{"to": {"+8801711000002"}})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest || box.Totals().Calls != 3 {
		t.Errorf("%d", resp.StatusCode)
	}
	http.DefaultClient.CloseIdleConnections()
}

func get(t *testing.T, address string) (string, http.Header) {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%d, %v", resp.StatusCode, err)
	}
	return string(body), resp.Header
}

func TestReadPreferences(t *testing.T) {
	t.Parallel()
	for metadata, want := range map[string]preferences{
		``:                           {setting: wantsAll},
		`{}`:                         {setting: wantsAll},
		`{"phone":"+8801711000002"}`: {phone: "+8801711000002", setting: wantsAll},
		`{"phone":"+14155550100","sms":"received","sms_language":"en"}`: {phone: "+14155550100", setting: wantsReceived, language: English},
		`{"phone":"+8801711000002","sms":"off","sms_language":"BN"}`:    {phone: "+8801711000002", setting: wantsNone, language: Bengali},
		`{"phone":"+8801711000002","sms":"OFF"}`:                        {phone: "+8801711000002", setting: wantsNone},
		`{"phone":"+8801711000002","sms":false}`:                        {phone: "+8801711000002", setting: wantsNone},
		`{"phone":"+8801711000002","sms":["received"]}`:                 {phone: "+8801711000002", setting: wantsNone},
		`{"phone":"+8801711000002","sms":null,"sms_language":"fr"}`:     {phone: "+8801711000002", setting: wantsAll},
		`{"phone":"+8801711000002","sms_language":{"a":1}}`:             {phone: "+8801711000002", setting: wantsAll},
		`{"phone":"01711000002"}`:                                       {badPhone: true, setting: wantsAll},
		`{"phone":"+88 01711 000002"}`:                                  {badPhone: true, setting: wantsAll},
		`{"phone":"+8801711000002\n"}`:                                  {badPhone: true, setting: wantsAll},
		`{"phone":"+0801711000002"}`:                                    {badPhone: true, setting: wantsAll},
		`{"phone":"+1234567890123456"}`:                                 {badPhone: true, setting: wantsAll},
		`{"phone":"+৮৮০১৭১১০০০০০২"}`:                                    {badPhone: true, setting: wantsAll},
		`{"phone":8801711000002}`:                                       {badPhone: true, setting: wantsAll},
		`{"phone":["+8801711000002"]}`:                                  {badPhone: true, setting: wantsAll},
		`{"phone":""}`:                                                  {setting: wantsAll},
		`{"phone":null}`:                                                {setting: wantsAll},
		`["+8801711000002"]`:                                            {setting: wantsAll},
		`{"phone":`:                                                     {setting: wantsAll},
		`"x"`:                                                           {setting: wantsAll},
		"\xff\x00":                                                      {setting: wantsAll},
	} {
		if got := readPreferences(metadata); got != want {
			t.Errorf("%s: %+v, want %+v", metadata, got, want)
		}
	}
}

func TestMask(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"+8801711000002": "+880********02", "": "", "123456": "******"} {
		if got := MaskPhone(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"no phone has the number +8801711000002": "no phone has the number +880********02", "01711-000-002 is gone": "0171*******02 is gone", "the gateway answered 503": "the gateway answered 503",
	} {
		if got := MaskNumbers(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
