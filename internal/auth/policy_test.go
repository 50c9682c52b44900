package auth_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

var update = flag.Bool("update", false, "write the table of docs/security.md again")

func TestAllow(t *testing.T) {
	t.Parallel()
	id := func(grants ...string) *auth.Identity {
		g, err := auth.ParseGrants(grants)
		if err != nil {
			t.Fatal(err)
		}
		return &auth.Identity{Name: "x", Kind: auth.Service, Grants: g}
	}
	const get, post, list = "/khata.v1.LedgerService/GetAccount", "/khata.v1.LedgerService/PostTransfer", "/khata.v1.LedgerService/ListLedgers"
	const desk = "/khata.v1.SupportService/"
	for name, c := range map[string]struct {
		id      *auth.Identity
		request auth.Request
		want    bool
	}{
		"everyone":                           {auth.Everyone(), auth.Request{Method: post, Ledger: "x", Balances: true}, true},
		"what is not in the table":           {auth.Everyone(), auth.Request{Method: "/khata.v1.LedgerService/Steal"}, false},
		"nothing":                            {auth.Everyone(), auth.Request{}, false},
		"the role":                           {id("main:reader"), auth.Request{Method: get, Ledger: "main"}, true},
		"the role, without a name":           {id("main:reader"), auth.Request{Method: get}, true},
		"the role elsewhere":                 {id("main:reader"), auth.Request{Method: get, Ledger: "shop"}, false},
		"the role everywhere":                {id("*:reader"), auth.Request{Method: get, Ledger: "shop"}, true},
		"a ledger *":                         {id("main:reader"), auth.Request{Method: get, Ledger: "*"}, false},
		"another role":                       {id("main:poster"), auth.Request{Method: get, Ledger: "main"}, false},
		"a role here and another there":      {id("main:poster", "shop:reader"), auth.Request{Method: get, Ledger: "main"}, false},
		"balances without reading":           {id("main:poster"), auth.Request{Method: post, Ledger: "main", Balances: true}, false},
		"balances with reading elsewhere":    {id("main:poster", "shop:reader"), auth.Request{Method: post, Ledger: "main", Balances: true}, false},
		"balances with reading":              {id("main:poster", "main:finance"), auth.Request{Method: post, Ledger: "main", Balances: true}, true},
		"to post, by those who do not":       {id("main:support", "main:finance", "main:admin", "main:approver", "main:reader"), auth.Request{Method: post, Ledger: "main"}, false},
		"a refund, around the desk":          {id("main:support", "main:approver", "main:admin"), auth.Request{Method: "POST /v1/refunds", Ledger: "main"}, false},
		"a refund at the desk":               {id("main:support"), auth.Request{Method: desk + "RequestRefund", Ledger: "main"}, true},
		"a refund at the desk, by others":    {id("main:poster", "main:finance", "main:approver", "main:reader", "main:admin"), auth.Request{Method: desk + "RequestRefund", Ledger: "main"}, false},
		"to decide, by an approver":          {id("main:approver"), auth.Request{Method: desk + "DecideRefund", Ledger: "main"}, true},
		"to decide, by an admin":             {id("main:admin"), auth.Request{Method: desk + "DecideRefund", Ledger: "main"}, false},
		"a limit by support":                 {id("main:support", "main:finance"), auth.Request{Method: desk + "SetRefundLimit", Ledger: "main"}, false},
		"the audit by support":               {id("main:support", "main:approver"), auth.Request{Method: desk + "ListAuditEvents", Ledger: "main"}, false},
		"somewhere":                          {id("shop:approver"), auth.Request{Method: list}, true},
		"nowhere":                            {&auth.Identity{Name: "user:x", Kind: auth.User}, auth.Request{Method: list}, false},
		"a user":                             {&auth.Identity{Name: "user:x", Kind: auth.User, Grants: auth.Grants{"*": auth.AnyRole}}, auth.Request{Method: get}, false},
		"metrics by a reader of one ledger":  {id("main:reader"), auth.Request{Method: "GET /metrics"}, false},
		"metrics by a reader of all ledgers": {id("*:reader"), auth.Request{Method: "GET /metrics"}, true},
		"anyone":                             {&auth.Identity{}, auth.Request{Method: "GET /healthz"}, true},
	} {
		err := c.id.Allow(c.request)
		if (err == nil) != c.want || err != nil && !errors.Is(err, ledger.CodePermissionDenied) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The table of docs/security.md is the policy.
func TestDocs(t *testing.T) {
	t.Parallel()
	const file, begin, end = "../../docs/security.md", "<!-- policy: ", "<!-- /policy -->"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	comment, rest, ok2 := strings.Cut(rest, "\n")
	_, after, ok3 := strings.Cut(rest, end)
	if !ok || !ok2 || !ok3 {
		t.Fatalf("%s has no %s…%s", file, begin, end)
	}
	want := before + begin + comment + "\n\n" + table() + "\n" + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(string(text), "\n")); diff != "" {
		t.Errorf("%s (-policy +file; go test ./internal/auth -run TestDocs -update writes it again):\n%s", file, diff)
	}
}

func table() string {
	var out strings.Builder
	roles := auth.RoleNames()
	fmt.Fprintf(&out, "| method | %s |\n|%s\n", strings.Join(roles, " | "), strings.Repeat(" --- |", len(roles)+1))
	for _, method := range auth.Methods() {
		rule, _ := auth.RuleOf(method)
		name := method
		if _, bare, ours := strings.Cut(method, "/khata.v1."); ours {
			name = bare[strings.IndexByte(bare, '/')+1:]
		}
		note := ""
		switch {
		case rule.Scope == auth.Anyone:
			fmt.Fprintf(&out, "| `%s` | anyone |%s\n", name, strings.Repeat(" |", len(roles)-1))
			continue
		case rule.Scope == auth.Somewhere:
			note = " ²"
		case rule.Scope == auth.Everywhere:
			note = " ³"
		case rule.Balances != 0:
			note = " ¹"
		}
		fmt.Fprintf(&out, "| `%s`%s |", name, note)
		for i := range roles {
			if rule.Roles&(auth.Roles(1)<<i) != 0 {
				out.WriteString(" yes |")
			} else {
				out.WriteString(" |")
			}
		}
		out.WriteString("\n")
	}
	return out.String()
}
