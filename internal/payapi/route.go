package payapi

import (
	_ "embed"
	"errors"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// handler answers a request of a known caller, or returns an error that becomes a problem.
type handler func(w http.ResponseWriter, r *http.Request, who Principal) error

// handle registers the handler of a method and path.
func (a *API) handle(pattern string, h handler) {
	a.public(pattern, func(w http.ResponseWriter, r *http.Request) error {
		who, err := a.config.Authenticate(r)
		if err != nil {
			return err
		}
		return h(w, r, who)
	})
}

// public registers the handler of a method and path that answers everyone.
func (a *API) public(pattern string, h func(w http.ResponseWriter, r *http.Request) error) {
	method, path, _ := strings.Cut(pattern, " ")
	a.methods[path] = append(a.methods[path], method)
	if method == http.MethodGet {
		a.methods[path] = append(a.methods[path], http.MethodHead)
	}
	a.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		defer a.recovered(w, pattern)
		if err := h(w, r); err != nil {
			if ledger.CodeOf(err) == ledger.CodeInternal && !errors.As(err, new(*problem)) {
				a.config.Logger.Error("internal error", "route", pattern, "error", err)
			}
			p := asProblem(err)
			if p.retryAfter > 0 && method != http.MethodPost {
				p.Detail = "send the same request again" // There is no payment to be in doubt of.
			}
			writeProblem(w, p)
		}
	})
}

// recovered answers a request whose handler has panicked. Handlers write their answers last, so nothing has been written. Without an
// answer the caller would try again all the same, and nobody would know why.
func (a *API) recovered(w http.ResponseWriter, pattern string) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // It is a value to panic with, and never wrapped.
		panic(p)
	}
	a.config.Logger.Error("panic", "route", pattern, "panic", p, "stack", string(debug.Stack()))
	writeProblem(w, ledger.Errorf(ledger.CodeInternal, "internal error"))
}

// handleRest answers what is not registered: other methods of known paths, and unknown paths.
func (a *API) handleRest() {
	for path, methods := range a.methods {
		a.methods[path] = append(methods, http.MethodOptions)
		slices.Sort(a.methods[path])
		allow := strings.Join(a.methods[path], ", ")
		a.mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Allow", allow)
			if r.Method == http.MethodOptions {
				w.Header().Set("Access-Control-Allow-Methods", allow)
				w.WriteHeader(http.StatusNoContent)
				return
			}
			writeProblem(w, &problem{
				Status: http.StatusMethodNotAllowed, Code: codeMethodNotAllowed, Title: "The method is not one of this path",
				Detail: "use one of " + allow,
			})
		})
	}
	a.mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, &problem{Status: http.StatusNotFound, Code: codeNotFound, Title: "There is nothing here", Detail: r.URL.Path})
	})
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	if len(a.config.Origins) > 0 {
		a.allowOrigin(h, r)
	}
	a.mux.ServeHTTP(w, r)
}

// allowOrigin tells a browser whether the page that it shows may call, and which headers the page may send and see. A page that cannot
// see Idempotent-Replayed or Retry-After cannot do what the contract asks of it.
func (a *API) allowOrigin(h http.Header, r *http.Request) {
	h.Add("Vary", "Origin")
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(a.config.Origins, origin) && !slices.Contains(a.config.Origins, "*") {
		return
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Access-Control-Expose-Headers", "Idempotent-Replayed, Location, Retry-After")
	if r.Method == http.MethodOptions {
		h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, Idempotency-Key")
		h.Set("Access-Control-Max-Age", "600")
	}
}

// openAPI is the contract for machines. Tests hold every exchange of theirs against it.
//
//go:embed openapi.json
var openAPI []byte

func getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "max-age=300") // It is the same for everyone.
	_, _ = w.Write(openAPI)                        // The client may have gone.
	return nil
}
