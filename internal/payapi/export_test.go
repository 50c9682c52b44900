package payapi

import (
	"context"
	"slices"

	"github.com/khata-ledger/khata/ledger"
)

// OpenAPI is the document as it is served.
var OpenAPI = openAPI

// Routes are the methods and paths that are registered, without HEAD and OPTIONS, which follow from them.
func (a *API) Routes() []string {
	var routes []string
	for path, methods := range a.methods {
		for _, m := range methods {
			if m != "HEAD" && m != "OPTIONS" {
				routes = append(routes, m+" "+path)
			}
		}
	}
	slices.Sort(routes)
	return routes
}

// Codes are those that a problem may have by the table of the ledger's codes.
func Codes() []string {
	var codes []string
	for code := range statuses {
		codes = append(codes, asProblem(ledger.Errorf(code, "")).Code)
	}
	return codes
}

// KeepPartitions runs the job once.
func (a *API) KeepPartitions(ctx context.Context) error { return a.keepPartitions(ctx) }

// NumberOf is the number of the payment of a user and key.
func NumberOf(user, key string) string { return string(newNumber(user, key)) }
