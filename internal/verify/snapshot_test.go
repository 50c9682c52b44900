package verify_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// markBooks sets all marks that are due. The journal's own job waits until nothing is in flight; here nothing is.
const markBooks = `INSERT INTO mark (ledger_id, horizon) SELECT l.ledger_id, m FROM ledger l,
	LATERAL next_marks(l.ledger_id, (SELECT pg_sequence_last_value('journal_sequence')), 1000) m ORDER BY 1, 2 ON CONFLICT DO NOTHING`

// newMarkedBooks are books with so many transfers that they have marks, and with value dates.
func newMarkedBooks(t *testing.T) *books {
	t.Helper()
	b := newBooks(t)
	for n := range 4 {
		var specs []ledger.TransferSpec
		for i := range 200 {
			spec := move(ledger.TransferID(fmt.Sprintf("M-%d-%d", n, i)), "cash", []ledger.AccountID{"wallet", "frozen", "fees"}[i%3], "7.25")
			if i%10 == 0 {
				at := time.Date(2026, 1, 1+i%28, 0, 0, 0, 0, time.UTC)
				spec.EffectiveAt = &at
			}
			specs = append(specs, spec)
		}
		b.post(t, main, "posted", specs...)
	}
	// Of so many holds and steps the lot falls on some.
	for n := range 2 {
		var specs []ledger.TransferSpec
		for i := range 250 {
			id := ledger.TransferID(fmt.Sprintf("MH-%d-%d", n, i))
			specs = append(specs, hold(id, "cash", "wallet", "3", ledger.Terms{}), capture("C"+id, id, "2", i%5 > 0))
			if i%2 == 0 && i%5 > 0 {
				specs = append(specs, void("V"+id, id))
			}
		}
		b.post(t, main, "posted", specs...)
	}
	tamper(t, b.db.ServiceDSN(), markBooks)
	return b
}

func TestRun_MarkedBooks(t *testing.T) {
	t.Parallel()
	b := newMarkedBooks(t)
	report := run(t, b.db.ServiceDSN())
	if !report.OK() {
		t.Errorf("%+v", report)
	}
	for _, c := range report.Checks {
		if c.Name == "marks" && c.Checked != 7 || c.Name == "value-dates" && c.Checked != 160 || c.Name == "snapshots" && c.Checked < 3 {
			t.Errorf("%s checked %d", c.Name, c.Checked)
		}
	}
}

// Each tampering with what makes balances cheap is found by the checks that are named, and by no other.
func TestRun_TamperedSnapshots(t *testing.T) {
	t.Parallel()
	original := newMarkedBooks(t)
	original.close()
	const (
		first = "(SELECT min(horizon) FROM mark)"
		last  = "(SELECT max(horizon) FROM mark)"
		one   = "(account_no, through) = (SELECT account_no, through FROM snapshot ORDER BY 2, 1 LIMIT 1)"

		heldOne = "(account_no, through) = (SELECT account_no, through FROM hold_snapshot ORDER BY 2, 1 LIMIT 1)"
	)
	for _, c := range []struct {
		name string
		do   []string
		want []string
		says string
	}{
		{"a sum", always("snapshot", "UPDATE snapshot SET sum = sum + 0.01 WHERE "+one), []string{"snapshots"}, "its snapshot is "},
		{"a sum that is no number", always("snapshot", "UPDATE snapshot SET sum = 'NaN' WHERE "+one), []string{"snapshots"}, "its snapshot is NaN"},
		{"a snapshot deleted", always("snapshot", "DELETE FROM snapshot WHERE "+one), []string{"snapshots"}, "has no snapshot; its entries sum to "},
		{
			"a snapshot of a number that the lot did not fall on", always("snapshot", `INSERT INTO snapshot
				SELECT e.ledger_id, e.account_no, e.sequence, b.sum FROM entry e, balance_through(1, e.account_no, e.sequence) b
				 WHERE e.ledger_id = 1 AND NOT sampled(e.sequence) AND e.sequence < `+last+` LIMIT 1`),
			[]string{"snapshots"}, "that belongs to no entry here",
		},
		{
			"a snapshot above the last mark", always("snapshot", "INSERT INTO snapshot VALUES (1, "+account("cash")+", 5000, 0)"),
			[]string{"snapshots"}, "or lies above the last mark",
		},
		{
			"a snapshot of an account that was not in the transfer", always("snapshot", `UPDATE snapshot SET account_no = `+account("unused")+` WHERE `+one),
			[]string{"snapshots"}, "account unused",
		},
		{"an entry behind a snapshot", always("entry", `UPDATE entry SET amount = amount + 1 WHERE ledger_id = 1 AND sequence = `+sequence("T-in")+" AND leg = 1"),
			[]string{"entries-match", "snapshots", "transfers-balance", "trial-balance"}, "its snapshot is "},
		{
			"a sum of what is held", always("hold_snapshot", "UPDATE hold_snapshot SET debit = debit + 0.01 WHERE "+heldOne),
			[]string{"snapshots"}, "its snapshot says that ",
		},
		{
			"a sum of what is held that is no number", always("hold_snapshot", "UPDATE hold_snapshot SET credit = 'NaN' WHERE "+heldOne),
			[]string{"snapshots"}, "is held to debit and NaN to credit",
		},
		{"a snapshot of what is held deleted", always("hold_snapshot", "DELETE FROM hold_snapshot WHERE "+heldOne), []string{"snapshots"}, "has no snapshot of what is held"},
		{
			"a snapshot of what is held that the lot did not fall on", always("hold_snapshot", `INSERT INTO hold_snapshot
				SELECT e.ledger_id, e.account_no, e.sequence, b.debit, b.credit FROM hold_entry e, held_through(1, e.account_no, e.sequence) b
				 WHERE e.ledger_id = 1 AND NOT sampled(e.sequence) AND e.sequence < `+last+` LIMIT 1`),
			[]string{"snapshots"}, "that belongs to no hold or step here",
		},
		{
			"a hold entry behind a snapshot", always("hold_entry", "UPDATE hold_entry SET debit = debit + 1 WHERE ledger_id = 1 AND sequence = "+sequence("MH-0-0")+" AND debit > 0"),
			[]string{"holds", "snapshots"}, "its snapshot says that ",
		},
		{"a mark deleted", always("mark", "DELETE FROM mark WHERE horizon = "+first), []string{"marks"}, "there is no mark here"},
		{"the last mark deleted", always("mark", "DELETE FROM mark WHERE horizon >= (SELECT max(through) FROM snapshot)"), []string{"snapshots"}, "or lies above the last mark"},
		{"a mark moved", always("mark", "UPDATE mark SET horizon = horizon - 1 WHERE horizon = "+first), []string{"marks"}, "no mark belongs here"},
		{"a mark's first time", always("mark", "UPDATE mark SET earliest = earliest + interval '1 ms' WHERE horizon = "+first), []string{"marks"}, "the mark says "},
		{"a mark's last time", always("mark", "UPDATE mark SET latest = latest - interval '1 us' WHERE horizon = "+last), []string{"marks"}, "the mark says "},
		{"a mark that goes back", always("mark", "UPDATE mark SET goes_back = true WHERE horizon = "+last), []string{"marks"}, ", going back, the transfers"},
		{"a mark's count", always("mark", "UPDATE mark SET snapshots = snapshots + 1 WHERE horizon = "+last), []string{"marks"}, "the mark says "},
		{
			"a mark of another ledger", always("mark", "UPDATE mark SET ledger_id = 2 WHERE horizon = "+first),
			[]string{"marks"}, "ledger second",
		},
		{
			"a transfer behind the marks", []string{
				pgtest.Mutate("transfer_write_entries", "IF behind THEN", "IF false THEN"),
				// Number 1 was that of an account's first state.
				strings.Replace(strings.Replace(posted("T-low", "cash", "fees", "1"), "transfer_id,", "transfer_id, sequence,", 1), "'T-low',", "'T-low', 1,", 1),
				pgtest.Mutate("transfer_write_entries", "IF false THEN", "IF behind THEN"),
			},
			[]string{"account-history", "marks", "sequences", "snapshots"}, "there is no mark here",
		},
		{
			"a value date", always("value_dated_entry", "UPDATE value_dated_entry SET effective_at = effective_at + interval '1 day' WHERE leg = 1 AND sequence = "+sequence("M-1-10")),
			[]string{"value-dates"}, "missing among the value-dated entries: leg 1 cash 7.25, effective 2026-01-11",
		},
		{
			"a time of posting", always("value_dated_entry", "UPDATE value_dated_entry SET posted_at = now() WHERE leg = 1 AND sequence = "+sequence("M-1-10")),
			[]string{"value-dates"}, "without being of the transfer: leg 1 cash 7.25",
		},
		{
			"a value-dated entry deleted", always("value_dated_entry", "DELETE FROM value_dated_entry WHERE leg = 2 AND sequence = "+sequence("M-1-10")),
			[]string{"value-dates"}, "missing among the value-dated entries: leg 2 ",
		},
		{
			"value dates that were not written", []string{
				pgtest.Mutate("transfer_write_entries", "batch.value_dated > 0", "batch.value_dated < 0"),
				strings.Replace(strings.Replace(posted("T-dated", "cash", "fees", "1"), "caller)", "caller, effective_at)", 1), "'psql')", "'psql', '2026-01-01')", 1),
				pgtest.Mutate("transfer_write_entries", "batch.value_dated < 0", "batch.value_dated > 0"),
			},
			[]string{"value-dates"}, "transfer T-dated",
		},
		{"the lot", []string{strings.Replace(lot, "< 8388608", "< 8388609", 1)}, []string{"guards"}, "function sampled(bigint) is sql"},
		{"the balance", []string{"ALTER FUNCTION balance_through(integer, bigint, bigint) SET search_path = public"}, []string{"guards"}, "function balance_through"},
		{"INSERT on snapshot", []string{"GRANT INSERT ON snapshot, value_dated_entry TO khata_service"}, []string{"privileges"}, "khata_service may INSERT snapshot"},
		{"INSERT on all of mark", []string{"GRANT INSERT ON mark TO khata_service"}, []string{"privileges"}, "khata_service may INSERT mark"},
		{"UPDATE on mark", []string{"GRANT UPDATE ON mark TO khata_service"}, []string{"privileges"}, "khata_service may UPDATE mark"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			copied := original.clone(t)
			tamper(t, copied.super, c.do...)
			got := map[string]bool{}
			var lines []string
			for _, check := range run(t, copied.service).Checks {
				for _, breach := range check.Breaches {
					got[check.Name] = true
					lines = append(lines, check.Name+": "+breach.String())
				}
			}
			if all := strings.Join(lines, "\n"); !slices.Equal(slices.Sorted(maps.Keys(got)), c.want) || !strings.Contains(all, c.says) {
				t.Errorf("breaches of %v, want %v with %q:\n%s", slices.Sorted(maps.Keys(got)), c.want, c.says, all)
			}
		})
	}
}

// lot is the function that says which numbers get snapshots, to be spoilt.
const lot = `CREATE OR REPLACE FUNCTION sampled(sequence bigint) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE AS
'SELECT (sequence % 2147483647 * 1103515245 % 2147483647) * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647
        * (sequence % 2147483647 * 1103515245 % 2147483647) % 2147483647 < 8388608'`
