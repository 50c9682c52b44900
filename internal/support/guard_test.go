package support

import (
	"fmt"
	"strings"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

// TestGuards tries what nobody may do, in SQL, as the service and as the superuser, and as one who has switched ordinary triggers off.
func TestGuards(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.limit(t, "10", "15")
	if _, err := o.journal.CreateAccounts(t.Context(), "setup", main, []ledger.AccountSpec{{ID: "usd", Type: ledger.Asset, Currency: "USD"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := o.SetLimit(t.Context(), boss, LimitSpec{Currency: "USD", Single: dec("1000"), Daily: dec("1000"), Reason: "test"}); err != nil {
		t.Fatal(err)
	}
	o.pay(t, "order-1", "500.00")
	o.pay(t, "order-2", "500.00")
	alone := o.ask(t, rina, spec("order-1", "10", "0"), Posted)
	a, b := o.ask(t, rina, spec("order-1", "100", "10"), Waiting), o.ask(t, rina, spec("order-1", "200", "10"), Waiting)
	done := o.ask(t, karim, spec("order-2", "20", "0"), Waiting)
	if r, err := o.decide(t, rina, done, Approve); err != nil || r.State != Posted {
		t.Fatalf("%+v %v", r, err)
	}
	request := func(amount, approval, maker string) string {
		return fmt.Sprintf(`INSERT INTO support_refund_request (ledger_id, key, original, amount, currency, expected_refunded, reason, note, ticket, maker, made_at,
			expires_at, approval, limit_version, sha256) VALUES (1, 'a-key-of-a-hand-1234', 'order-1', %s, 'BDT', 0, 'duplicate', '', '', '%s',
			now() - interval '2 days', now() + interval '1 hour', '%s', 1, '\x00');`, amount, maker, approval)
	}
	decision := func(r *Refund, sum, verdict, by string) string {
		return fmt.Sprintf(`INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
			VALUES (1, %d, '%s', decode('%s', 'hex'), 'x', '%s', now() - interval '1 day');`, r.Number, verdict, sum, by)
	}
	outcome := func(r *Refund, outcome string, transfer ledger.TransferID, code string) string {
		return fmt.Sprintf(`INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, transfer_id, code, message)
			VALUES (1, %d, '%s', nullif('%s', ''), nullif('%s', ''), '');`, r.Number, outcome, transfer, code)
	}
	// move posts a refund as the books would, by hand.
	move := func(id ledger.TransferID, amount string) string {
		return fmt.Sprintf(`INSERT INTO transfer (ledger_id, transfer_id, kind, origin, ordinal, account_nos, amounts, terms, caller)
			SELECT 1, '%s', 'refund', 'order-1', 2, account_nos, ARRAY[-%[2]s, %[2]s]::numeric[],
			'{"amount":"%[2]s","expected_refunded":"10","reason":"duplicate"}', 'hand' FROM transfer WHERE transfer_id = 'order-1';`, id, amount)
	}
	for name, c := range map[string]struct{ sql, want string }{
		"the maker approves":                 {decision(a, a.SHA256, "approve", "rina"), "support_maker_is_not_checker"},
		"the maker approves, in capitals":    {decision(a, a.SHA256, "approve", "Rina"), "support_maker_is_not_checker"},
		"the maker approves, signed in":      {decision(a, a.SHA256, "approve", "oidc:rina"), "support_maker_is_not_checker"},
		"the maker rejects":                  {decision(a, a.SHA256, "reject", "rina"), "support_maker_is_not_checker"},
		"another one withdraws":              {decision(a, a.SHA256, "withdraw", "karim"), "support_maker_is_not_checker"},
		"an approval of another content":     {decision(a, b.SHA256, "approve", "karim"), "support_decision_of_content"},
		"an approval that nobody wants":      {decision(alone, alone.SHA256, "approve", "karim"), "support_decision_wanted"},
		"two decisions":                      {decision(a, a.SHA256, "approve", "karim") + decision(a, a.SHA256, "reject", "boss"), "support_refund_decision_pkey"},
		"a verdict that there is not":        {decision(a, a.SHA256, "perhaps", "karim"), "support_refund_decision_verdict_check"},
		"alone, above the limit for one":     {request("10.01", "none", "karim"), "support_needs_approval"},
		"alone, above the limit for a day":   {request("5.01", "none", "rina"), "support_needs_approval"},
		"alone, signed in":                   {request("5.01", "none", "oidc:Rina"), "support_needs_approval"},
		"posted without an approval":         {outcome(a, "posted", RefundID(a.Key), ""), "support_outcome_approved"},
		"refused without an approval":        {outcome(a, "refused", "", "X"), "support_outcome_approved"},
		"posted, and rejected":               {decision(a, a.SHA256, "reject", "karim") + outcome(a, "posted", RefundID(a.Key), ""), "support_outcome_approved"},
		"posted, without a transfer":         {decision(a, a.SHA256, "approve", "karim") + outcome(a, "posted", RefundID(a.Key), ""), "support_outcome_of_content"},
		"posted, by the transfer of another": {decision(a, a.SHA256, "approve", "karim") + outcome(a, "posted", alone.Transfer, ""), "support_outcome_of_content"},
		"posted, with another amount": {
			decision(a, a.SHA256, "approve", "karim") + move(RefundID(a.Key), "101") + outcome(a, "posted", RefundID(a.Key), ""), "support_outcome_of_content",
		},
		"posted, under the limit of another currency": {
			strings.NewReplacer("'BDT', 0", "'USD', 10").Replace(request("100", "none", "karim")) + move("khata:refund:a-key-of-a-hand-1234", "100") +
				`INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, transfer_id, message)
				SELECT 1, request_no, 'posted', 'khata:refund:' || key, '' FROM support_refund_request WHERE key = 'a-key-of-a-hand-1234';`, "support_outcome_of_content",
		},
		"posted, moving more than its terms say": {
			decision(a, a.SHA256, "approve", "karim") + strings.Replace(move(RefundID(a.Key), "100"), "ARRAY[-100, 100]", "ARRAY[-101, 101]", 1) +
				outcome(a, "posted", RefundID(a.Key), ""), "support_outcome_of_content",
		},
		"refused, and then posted": {
			decision(a, a.SHA256, "approve", "karim") + outcome(a, "refused", "", "X") + move(RefundID(a.Key), "100") + outcome(a, "posted", RefundID(a.Key), ""),
			"support_outcome_once",
		},
		"refused, and the books have posted it": {
			decision(a, a.SHA256, "approve", "karim") + move(RefundID(a.Key), "100") + outcome(a, "refused", "", "X"), "support_outcome_of_content",
		},
		"the same key again": {strings.ReplaceAll(request("1", "no_limit", "karim"), "a-key-of-a-hand-1234", a.Key), "support_refund_request_key_key"},
		"other, and no note": {strings.ReplaceAll(request("1", "no_limit", "karim"), "'duplicate', ''", "'other', ' '"), "support_refund_request_note_check"},
		"for ever":           {strings.ReplaceAll(request("1", "no_limit", "karim"), "1 hour", "2 months"), "support_refund_request_expires_check"},
		"in a snapshot":      {"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; " + request("1", "none", "karim"), "support_read_committed"},
		"an audit of nobody": {
			`INSERT INTO audit_event (ledger_id, event_id, actor, action, object_kind, object_id, address, outcome)
			 VALUES (1, gen_random_uuid(), '', 'a.b', 'x', '', '', 'done')`, "audit_event_actor_check",
		},
		"a limit without a reason": {`INSERT INTO support_limit (ledger_id, currency, version, single, daily, reason, set_by)
			VALUES (1, 'BDT', 9, 1, 1, ' ', 'hand')`, "support_limit_reason_check"},
	} {
		for who, dsn := range map[string]string{"service": o.db.ServiceDSN(), "superuser": o.db.SuperDSN()} {
			for _, replica := range []bool{false, true} {
				if replica && who == "service" {
					continue
				}
				if err := execAs(t, dsn, replica, c.sql); !isRefusedBy(err, c.want) {
					t.Errorf("%s, as %s (replica %t): %v", name, who, replica, err)
				}
			}
		}
	}
	// A hand can do what is right: with the clock of the database, whatever it says itself.
	right := request("5", "none", "rina") + decision(a, a.SHA256, "approve", "karim") + move(RefundID(a.Key), "100") +
		outcome(a, "posted", RefundID(a.Key), "")
	if err := execAs(t, o.db.ServiceDSN(), false, right); err != nil {
		t.Error(err)
	}
	// What has expired is neither approved nor posted.
	short := strings.ReplaceAll(request("5", "%s", "rina"), "now() + interval '1 hour'", "now() - interval '2 days' + interval '200 milliseconds'")
	short = strings.Replace(short, "'BDT', 0,", "'BDT', 10,", 1) + "SELECT pg_sleep(0.3);"
	last := "FROM support_refund_request ORDER BY request_no DESC LIMIT 1;"
	id := ledger.TransferID("khata:refund:a-key-of-a-hand-1234")
	for _, c := range []struct{ sql, want string }{
		{fmt.Sprintf(short, "no_limit") + `INSERT INTO support_refund_decision (ledger_id, request_no, verdict, sha256, note, decided_by, decided_at)
			SELECT 1, request_no, 'approve', sha256, '', 'karim', made_at ` + last, "support_decision_in_time"},
		{fmt.Sprintf(short, "none") + move(id, "5") + `INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, transfer_id, message)
			SELECT 1, request_no, 'posted', '` + string(id) + `', '' ` + last, "support_outcome_in_time"},
	} {
		if err := execAs(t, o.db.ServiceDSN(), false, c.sql); !isRefusedBy(err, c.want) {
			t.Error(err)
		}
	}
}

// TestGuards_NothingChanges tries to change what is there.
func TestGuards_NothingChanges(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	for _, table := range strings.Fields("audit_event support_limit support_refund_request support_refund_decision support_refund_outcome") {
		for _, sql := range []string{"UPDATE " + table + " SET ledger_id = 1", "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			if err := execAs(t, o.db.ServiceDSN(), false, sql); !isRefusedBy(err, "42501") {
				t.Errorf("as the service: %s: %v", sql, err)
			}
			for _, replica := range []bool{false, true} {
				if err := execAs(t, o.db.SuperDSN(), replica, sql); !isRefusedBy(err, "42501") {
					t.Errorf("as the superuser (replica %t): %s: %v", replica, sql, err)
				}
			}
		}
	}
	// When something was done is for the database to say.
	for _, sql := range []string{
		`INSERT INTO audit_event (ledger_id, event_id, at, actor, action, object_kind, object_id, address, outcome)
			VALUES (1, gen_random_uuid(), now() - interval '1 day', 'rina', 'a.b', 'x', '', '', 'done')`,
		`INSERT INTO support_limit (ledger_id, currency, version, single, daily, reason, set_by, set_at) VALUES (1, 'BDT', 1, 1, 1, 'x', 'boss', now() - interval '1 day')`,
		`INSERT INTO support_refund_outcome (ledger_id, request_no, outcome, code, message, settled_at) VALUES (1, 1, 'refused', 'X', '', now())`,
	} {
		if err := execAs(t, o.db.ServiceDSN(), false, sql); !isRefusedBy(err, "42501") {
			t.Errorf("as the service: %s: %v", sql, err)
		}
	}
	// The trigger functions are nobody's to hang on a table of his own.
	for _, f := range []string{"support_refund_request_seal()", "support_refund_decision_four_eyes()", "support_refund_outcome_fits()"} {
		if got := o.query(t, `SELECT has_function_privilege('khata_service', $1, 'EXECUTE')::text`, f); got != "false" {
			t.Errorf("the service may execute %s", f)
		}
	}
}

// TestSeal is of everything that is asked for: two requests that differ in one thing have different hashes, and the stored content gives the hash.
func TestSeal(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	o.pay(t, "order-1", "500.00")
	o.pay(t, "order-2", "500.00")
	seen := map[string]string{}
	for name, change := range map[string]func(*RefundSpec){
		"same": func(*RefundSpec) {}, "amount": func(s *RefundSpec) { s.Amount = dec("5.01") }, "note": func(s *RefundSpec) { s.Note = "" },
		"ticket": func(s *RefundSpec) { s.Ticket = "T-2" }, "original": func(s *RefundSpec) { s.Transfer = "order-2" },
		"reason": func(s *RefundSpec) { s.Reason = ledger.ReasonGoodwill },
	} {
		s := spec("order-1", "5", "0")
		change(&s)
		r := o.ask(t, rina, s, Waiting)
		if len(r.SHA256) != 64 || seen[r.SHA256] != "" {
			t.Errorf("%s has the hash of %s: %s", name, seen[r.SHA256], r.SHA256)
		}
		seen[r.SHA256] = name
	}
	if got := o.query(t, `SELECT count(*)::text FROM support_refund_request
		WHERE sha256 = sha256(convert_to(json_build_array(ledger_id, request_no, key, original, amount::text, currency, expected_refunded::text, reason, note,
			ticket, maker, extract(epoch FROM made_at)::text, extract(epoch FROM expires_at)::text)::text, 'UTF8'))`); got != fmt.Sprint(len(seen)) {
		t.Errorf("%s requests have the hash of their content", got)
	}
}
