package console

import (
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"strings"
)

// SandboxUser is somebody whom a visitor of a sandbox can be.
type SandboxUser struct {
	// Name is for people to read; Token is what the payment API is told, and Wallet is whose money it is, such as wallet:shimul.
	Name   string `json:"name"`
	Token  string `json:"token"`
	Wallet string `json:"wallet"`
}

// PayConfig is how the pay page is served.
type PayConfig struct {
	// Sandbox shows the panel that tells guard by guard what has happened, with the switch for a bad network. The payment API must be
	// wrapped in BadNetwork then.
	Sandbox bool
	// SandboxUsers can be picked on the page, without a password. Without any, the page asks for a bearer token.
	SandboxUsers []SandboxUser
	// Logger gets what visitors are not told. Required.
	Logger *slog.Logger
}

//go:embed templates
var templates embed.FS

// payPage is the page, rendered once in each language: it holds nothing of whoever looks at it.
type payPage struct {
	config PayConfig
	files  *files
	pages  map[string][]byte
}

// Pay serves the pay page at /pay, and its files below.
func Pay(config PayConfig) http.Handler {
	p := &payPage{config: config, files: loadFiles(), pages: map[string][]byte{}}
	parsed := template.Must(template.ParseFS(templates, "templates/pay.html"))
	for _, language := range languages {
		page, err := p.render(parsed, language)
		if err != nil { // It is made of what is built in, and of names.
			panic(err)
		}
		p.pages[language] = page
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /pay", p.get)
	mux.HandleFunc("GET /pay/{$}", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/pay", http.StatusSeeOther) })
	mux.Handle("GET /pay/assets/", http.StripPrefix("/pay/assets/", p.files))
	return secured(mux)
}

// forScript is what the page's JavaScript is given.
type forScript struct {
	Language string            `json:"language"`
	Texts    map[string]string `json:"texts"`
	Sandbox  bool              `json:"sandbox"`
	Users    []SandboxUser     `json:"users"`
}

func (p *payPage) render(parsed *template.Template, language string) ([]byte, error) {
	spoken := texts[language]
	script, err := json.Marshal(forScript{language, spoken, p.config.Sandbox, append([]SandboxUser{}, p.config.SandboxUsers...)})
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	err = parsed.Execute(&page, map[string]any{
		"Language": language, "Languages": languages, "Names": languageNames, "Text": spoken, "Script": string(script), "Files": p.files.path,
		"Sandbox": p.config.Sandbox, "Users": p.config.SandboxUsers,
	})
	return page.Bytes(), err
}

func (p *payPage) get(w http.ResponseWriter, r *http.Request) {
	language := negotiate(r)
	if r.URL.Query().Get("lang") == language {
		// A choice that was made on purpose stays. It says nothing of anybody but the language.
		http.SetCookie(w, &http.Cookie{
			Name: languageCookie, Value: language, Path: "/pay", MaxAge: 365 * 24 * 60 * 60, SameSite: http.SameSiteLaxMode, HttpOnly: true, Secure: r.TLS != nil,
		})
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", language)
	h.Add("Vary", "Accept-Language, Cookie")
	// Not no-store: the page has no secret in it, and a browser may keep it whole for the back button.
	h.Set("Cache-Control", "private, no-cache")
	if _, err := w.Write(p.pages[language]); err != nil {
		p.config.Logger.Debug("write the pay page", "error", err)
	}
}

// policy is what the page may load and do: its own files, and calls to its own server. There is no script or style in the page itself, so
// that text which somebody smuggles in does nothing.
var policy = strings.Join([]string{
	"default-src 'none'", "script-src 'self'", "style-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'",
	"frame-ancestors 'none'", "require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// secured adds the headers that keep other pages out of the pay page.
func secured(next http.Handler) http.Handler { return securedBy(policy, next) }

// securedBy adds the headers that keep other pages out, and a policy of what the page itself may do.
func securedBy(policy string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY") // for browsers that do not know frame-ancestors
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		next.ServeHTTP(w, r)
	})
}

// mustRead reads a file that is built in.
func mustRead(files embed.FS, name string) []byte {
	data, err := files.ReadFile(name)
	if err != nil {
		panic(fmt.Sprintf("console: %v", err))
	}
	return data
}
