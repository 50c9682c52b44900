package suspect

import (
	"context"
	"errors"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// tryAs runs statements in a transaction that is rolled back, and gives the code and the constraint of their refusal.
func tryAs(t *testing.T, dsn string, replica bool, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if replica {
		if _, err := conn.Exec(t.Context(), "SET session_replication_role = replica"); err != nil {
			t.Fatal(err)
		}
	}
	_, err = conn.Exec(t.Context(), "BEGIN; "+sql+"; ROLLBACK")
	var refused *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case !errors.As(err, &refused):
		t.Fatal(err)
	case refused.ConstraintName != "":
		return refused.ConstraintName
	}
	return refused.Code
}

// What people have decided, and what was found, nobody changes.
func TestGuards(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.at(t, "a 0s 500", "b 4s 500")
	d.follow(t)
	if _, _, err := d.Dismiss(t.Context(), DecisionSpec{Ledger: main, No: d.only(t).No, Members: 2, Reason: "why"}, clerk); err != nil {
		t.Fatal(err)
	}
	for _, table := range []string{"suspect_group", "suspect_member", "suspect_decision"} {
		for _, sql := range []string{"UPDATE " + table + " SET ledger_id = 1", "DELETE FROM " + table, "TRUNCATE " + table + " CASCADE"} {
			if got := tryAs(t, d.db.ServiceDSN(), false, sql); got != "42501" {
				t.Errorf("as the service: %s: %s", sql, got)
			}
			for _, replica := range []bool{false, true} {
				if got := tryAs(t, d.db.SuperDSN(), replica, sql); got != "42501" {
					t.Errorf("as the superuser (replica %t): %s: %s", replica, sql, got)
				}
			}
		}
	}
	for sql, want := range map[string]string{
		`INSERT INTO suspect_decision SELECT ledger_id, group_no, ordinal, true, 2, 'x', 'other', now(), 'hand' FROM suspect_decision`: "suspect_decision_pkey",
		`INSERT INTO suspect_decision SELECT ledger_id, group_no, 2, true, 2, 'x', request, now(), 'hand' FROM suspect_decision`:       "suspect_decision_request_key",
		`INSERT INTO suspect_decision SELECT ledger_id, group_no, 2, true, 2, ' ', 'other', now(), 'hand' FROM suspect_decision`:       "suspect_decision_reason_check",
		`INSERT INTO suspect_decision SELECT ledger_id, group_no + 1, 2, true, 2, 'x', 'other', now(), 'hand' FROM suspect_decision`:   "suspect_decision_group_fkey",
		`INSERT INTO suspect_member SELECT ledger_id, group_no, ordinal + 2, sequence, posted_at FROM suspect_member`:                  "suspect_member_sequence_key",
		`INSERT INTO suspect_member SELECT ledger_id, group_no, ordinal, sequence + 100, posted_at FROM suspect_member`:                "suspect_member_pkey",
		`INSERT INTO suspect_window SELECT * FROM suspect_window`:                                                                      "suspect_window_pkey",
		`UPDATE suspect_window SET sequence = 1`: "42501",
		`UPDATE suspect_list SET state = 2`:      "42501",
		`DELETE FROM suspect_cursor`:             "42501",
	} {
		if got := tryAs(t, d.db.ServiceDSN(), false, sql); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}
