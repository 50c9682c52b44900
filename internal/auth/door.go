package auth

import (
	"net/http"

	"github.com/khata-ledger/khata/ledger"
)

// Door is where requests of HTTP come in.
type Door struct {
	// Callers says who is calling; nil asks nobody, and everyone may do everything.
	Callers *Authenticator
	// Limiter bounds how often each caller calls; nil does not.
	Limiter *Limiter
	// Denied, if it is not nil, is told of each request that is not let in.
	Denied func(ledger.Code)
}

// Admit gives the caller of a request for a route of the policy, which is about a ledger where the route's scope is InLedger. It returns
// CodeUnauthenticated, CodePermissionDenied, CodeRateLimited, or CodeUnavailable where that could not be found out.
func (d Door) Admit(r *http.Request, route string, name ledger.Name) (*Identity, error) {
	id, err := d.admit(r, Request{Method: route, Ledger: name})
	if err != nil && d.Denied != nil {
		d.Denied(ledger.CodeOf(err))
	}
	return id, err
}

func (d Door) admit(r *http.Request, request Request) (*Identity, error) {
	if rule, ok := policy[request.Method]; d.Callers == nil || ok && rule.Scope == Anyone {
		return everyone, everyone.Allow(request)
	}
	id, err := d.Callers.Bearer(r.Context(), r.Header.Get("Authorization"))
	if err != nil {
		return nil, err
	}
	if err := d.Limiter.Take(id.Name); err != nil {
		return nil, err
	}
	if err := id.Allow(request); err != nil {
		return nil, err
	}
	return id, nil
}
