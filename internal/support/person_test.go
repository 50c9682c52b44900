package support

import (
	"fmt"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

// TestOnePerson: whoever has a token and signs in with an identity provider is one person, who neither approves what is theirs nor has two days' totals.
func TestOnePerson(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.limit(t, "10", "15")
	o.pay(t, "order-1", "500.00")
	signedIn := Actor{Name: "oidc:Rina"}
	r := o.ask(t, rina, spec("order-1", "100", "0"), Waiting)
	for _, who := range []Actor{signedIn, {Name: "local:rina"}, {Name: "RINA"}} {
		_, err := o.decide(t, who, r, Approve)
		mustCode(t, err, ledger.CodePermissionDenied)
	}
	if r, err := o.decide(t, signedIn, r, Withdraw); err != nil || r.State != Withdrawn {
		t.Fatalf("%+v %v", r, err)
	}
	o.ask(t, rina, spec("order-1", "10", "0"), Posted)
	if r := o.ask(t, signedIn, spec("order-1", "10", "10"), Waiting); r.Approval != ApprovalAboveDaily {
		t.Errorf("%+v", r)
	}
	form, err := o.Form(t.Context(), signedIn, main, "order-1")
	if err != nil || form.Alone.String() != "10" {
		t.Errorf("%+v %v", form, err)
	}
	o.ask(t, Actor{Name: "oidc:karim"}, spec("order-1", "10", "10"), Posted)
	// What the program and the database take for one person is the same.
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"rina", "oidc:rina", true}, {"oidc:Rina", "local:rINA", true}, {"rina", "rina@a.example", false}, {"oidc:oidc:rina", "rina", false},
		{"other:rina", "rina", false}, {"user:rina", "OIDC:rina", true}, {"oidc:", "local:", true},
	} {
		if got := SamePerson(c.a, c.b); got != c.same {
			t.Errorf("%s and %s: %t", c.a, c.b, got)
		}
		if got := o.query(t, `SELECT (support_person($1) = support_person($2))::text`, c.a, c.b); got != fmt.Sprint(c.same) {
			t.Errorf("%s and %s in the database: %s", c.a, c.b, got)
		}
	}
}

// TestSettledMeanwhile has a request settled between the moment when it is found ready and its posting: no money moves under a request that is over.
func TestSettledMeanwhile(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	r := o.ask(t, rina, spec("order-1", "5", "0"), Waiting)
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
		VALUES (1, %d, 'approve', decode('%s', 'hex'), '', 'karim', now())`, r.Number, r.SHA256))
	ready, err := o.refund(t.Context(), o.pool, main, 1, r.Number)
	if err != nil || ready.State != Ready {
		t.Fatalf("%+v %v", ready, err)
	}
	if err := o.refused(t.Context(), 1, ready, ledger.Errorf(ledger.CodeInvalidArgument, "an older server would not have it")); err != nil {
		t.Fatal(err)
	}
	got, err := o.settle(t.Context(), 1, ready)
	if err != nil || got.State != RefusedByBooks {
		t.Errorf("%+v %v", got, err)
	}
	if got := o.refunded(t, "order-1"); got != "0" {
		t.Errorf("%s is refunded", got)
	}
	// The other way round, what is posted stays so.
	o.pay(t, "order-2", "500.00")
	o.limit(t, "10", "15")
	done := o.ask(t, rina, spec("order-2", "5", "0"), Posted)
	if err := o.refused(t.Context(), 1, done, ledger.Errorf(ledger.CodeInvalidArgument, "too late")); err != nil {
		t.Error(err)
	}
	if got := o.count(t, "support_refund_outcome WHERE outcome = 'posted'"); got != "1" {
		t.Errorf("%s are posted", got)
	}
}
