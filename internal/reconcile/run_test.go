package reconcile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// match makes a run.
func (d *desk) match(t testing.TB) *Run {
	t.Helper()
	run, err := d.Match(t.Context(), MatchSpec{BankAccount: d.account.Name}, clerk)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// state tells all there is: active decisions and what the last run says of the rest, by references and transfers.
func (d *desk) state(t testing.TB) []string {
	t.Helper()
	var out []string
	decisions, _, err := d.Decisions(t.Context(), main, d.account.Name, DecisionFilter{Active: true, Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range decisions {
		var lines, entries []string
		for _, i := range one.Items {
			name := d.itemName(t, i) + " " + i.Amount.String()
			if i.PostsDifference {
				name += " (difference)"
			}
			if i.IsLine() {
				lines = append(lines, name)
			} else {
				entries = append(entries, name)
			}
		}
		slices.Sort(lines)
		slices.Sort(entries)
		out = append(out, fmt.Sprintf("%s %s %s: %s = %s", one.Kind, one.Rule, one.Outcome, strings.Join(lines, ", "), strings.Join(entries, ", ")))
	}
	results, _, err := d.Results(t.Context(), main, d.account.Name, 0, ResultFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		text := fmt.Sprintf("%s: %s", d.resultName(r), r.Outcome)
		if r.Group != 0 {
			text += " suggested"
		}
		if r.InTransit {
			text += " in transit"
		}
		if !r.Difference.IsZero() {
			text += " " + r.Difference.String()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (d *desk) resultName(r Result) string {
	if r.Line != nil {
		return lineName(r.Line)
	}
	return "entry " + cmp.Or(string(r.Entry.Transfer), "forward")
}

func lineName(l *Line) string {
	return "line " + cmp.Or(l.References.EndToEnd, l.References.Customer, l.ExternalID, l.Kind)
}

func (d *desk) itemName(t testing.TB, i DecisionItem) string {
	t.Helper()
	if i.IsLine() {
		l, err := d.Line(t.Context(), main, d.account.Name, i.Line)
		if err != nil {
			t.Fatal(err)
		}
		return lineName(l)
	}
	found, err := d.entriesBySequence(t.Context(), d.account, []int64{i.Sequence})
	e := found[entryKey{i.Sequence, int16(i.Leg)}]
	if err != nil || e == nil {
		t.Fatalf("entry %d: %v", i.Sequence, err)
	}
	return "entry " + cmp.Or(string(e.Transfer), "forward")
}

func (d *desk) wantState(t testing.TB, want ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := gocmp.Diff(want, d.state(t)); diff != "" {
		t.Errorf("the state (-want +got):\n%s", diff)
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "R1 2026-01-02 50", "R12 2026-01-02 50", "t3 2026-01-05 30 reference=INV-3", "t4 2026-01-06 20.00", "t5 2026-01-07 -9.99 reference=FEE-5",
		"p1 2026-01-05 60 payout=PO-1", "p2 2026-01-06 50 payout=PO-1", "p3 2026-01-06 -10 payout=PO-1", "t8 2026-01-20 7")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-10 190.00", "2026-01-03 50.00 R1", "2026-01-05 30.00 INV-3", "2026-01-07 20.00 NONREF",
		"2026-01-07 -10.00 FEE-5", "2026-01-08 100.00 PO-1"))
	run := d.match(t)
	d.wantState(t, "automatic batch matched: line PO-1 100 = entry p1 60, entry p2 50, entry p3 -10",
		"automatic reference matched: line INV-3 30 = entry t3 30",
		"automatic reference matched: line R1 50 = entry R1 50", "entry R12: missing_at_bank", "entry t4: matched suggested",
		"line line: matched suggested",
		"entry t5: amount_mismatch suggested -0.01", "line FEE-5: amount_mismatch suggested -0.01", "entry t8: missing_at_bank in transit")
	s := run.Summary
	if run.Confirmed != 3 || run.Results != 6 || s.Suggestions != 2 || s.Lines.Count != 5 || !equal(s.Lines.Sum, "190") || !equal(s.MatchedLines,
		"180") ||
		!equal(s.OpenLines.Sum, "10") || !equal(s.OpenEntries.Sum, "67.01") || s.OpenEntries.Count != 4 || s.InTransit.Count != 1 {
		t.Errorf("%+v", run)
	}
	// Nothing is new: the same again.
	again := d.match(t)
	if again.Ordinal != 2 || again.Confirmed != 0 {
		t.Errorf("%+v", again)
	}
	if diff := gocmp.Diff(run.Summary, again.Summary, decimals); diff != "" {
		t.Errorf("the second run (-first +second):\n%s", diff)
	}
	d.mustRepeat(t, run.No)
	d.mustRepeat(t, again.No)
}

var decimals = gocmp.Comparer(func(a, b decimal.Decimal) bool { return a.Equal(b) })

func (d *desk) mustRepeat(t testing.TB, run int64) {
	t.Helper()
	differences, err := d.Repeat(t.Context(), main, d.account.Name, run)
	if err != nil || len(differences) > 0 {
		t.Errorf("run %d repeated: %v, %v", run, differences, err)
	}
}

func TestMatch_Request(t *testing.T) {
	t.Parallel()
	d := bank(t)
	spec := MatchSpec{BankAccount: "bank", Request: "today"}
	first, err := d.Match(t.Context(), spec, clerk)
	if err != nil || first.Replayed {
		t.Fatal(first, err)
	}
	again, err := d.Match(t.Context(), spec, clerk)
	if err != nil || !again.Replayed || again.No != first.No {
		t.Fatal(again, err)
	}
	if _, err := d.Match(t.Context(), MatchSpec{BankAccount: "nowhere"}, clerk); ledger.CodeOf(err) != ledger.CodeNotFound {
		t.Error(err)
	}
}

// TestMatch_Batch has a batch that the books have in parts, and one that they have as a whole. Either is counted once.
func TestMatch_Batch(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "E1 2026-01-02 30", "E2 2026-01-02 70")
	d.importText(t, camtBatch("30.00 E1", "70.00 E2"))
	d.match(t)
	d.wantState(t, "automatic reference matched: line E1 30 = entry E1 30", "automatic reference matched: line E2 70 = entry E2 70")
	d = bank(t)
	d.post(t, "whole 2026-01-02 100 reference=BATCH-9")
	d.importText(t, camtBatch("30.00 E1", "70.00 E2"))
	run := d.match(t)
	d.wantState(t, "automatic batch matched: line E1 30, line E2 70 = entry whole 100")
	if !equal(run.Summary.Lines.Sum, "100") || !equal(run.Summary.MatchedLines, "100") {
		t.Errorf("%+v", run.Summary)
	}
}

func TestMatch_Elsewhere(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.accounts(t, "dollars", ledger.Asset, "USD")
	d.accounts(t, "dollars:wallet", ledger.Liability, "USD")
	d.accounts(t, "till", ledger.Asset, "EUR")
	results, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{
		{ID: "usd", Entries: ledger.Simple("dollars", "dollars:wallet", dec("50"), "")}, {ID: "till-1", Entries: ledger.Simple("till", "wallet",
			dec("20"), "")},
	})
	if err != nil || results[0].Err != nil || results[1].Err != nil {
		t.Fatal(err, results)
	}
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-10 70.00", "2026-01-03 50.00 usd", "2026-01-03 20.00 till-1"))
	run := d.match(t)
	d.wantState(t, "line usd: currency_mismatch", "line till-1: missing_in_ledger")
	d.mustRepeat(t, run.No)
}

func TestMatch_Forward(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.accounts(t, "assets:bank", ledger.Asset, "EUR")
	d.accounts(t, "wallet", ledger.Liability, "EUR")
	d.account = &BankAccount{Name: "bank"}
	d.post(t, "old1 2025-11-01 150", "old2 2025-12-30 -50", "new 2026-01-02 5")
	settings := DefaultSettings()
	settings.Identifiers = []string{"ACC"}
	var err error
	d.account, err = d.CreateBankAccount(t.Context(), BankAccountSpec{
		Name: "bank", Account: "assets:bank", Basis: "value", Settings: &settings, Begins: day("2026-01-01"),
	}, clerk)
	if err != nil || !equal(d.account.Forward, "100") {
		t.Fatalf("%+v, %v", d.account, err)
	}
	d.post(t, "late 2025-12-31 3") // Dated before the beginning, and not in what was brought forward.
	d.importText(t, mt940(1, "2026-01-01 100.00", "2026-01-10 105.00", "2026-01-03 5.00 new"))
	run := d.match(t)
	d.wantState(t, "automatic opening matched: line opening 100 = entry forward 100", "automatic reference matched: line new 5 = entry new 5",
		"entry late: missing_at_bank")
	d.mustRepeat(t, run.No)

	all, _, err := d.Results(t.Context(), main, "bank", 0, ResultFilter{Limit: 10})
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	late := all[0].Entry
	for _, c := range []struct {
		sequences []int64
		want      string
	}{
		{nil, ""}, {[]int64{1 << 40}, ""}, {[]int64{0}, "0 100 2025-12-31; "},
		{[]int64{late.Sequence, 0, 0}, fmt.Sprintf("0 100 2025-12-31; %d 3 2025-12-31; ", late.Sequence)},
	} {
		list, err := d.Entries(t.Context(), main, "bank", c.sequences)
		got := ""
		for _, e := range list {
			got += fmt.Sprintf("%d %s %s; ", e.Sequence, e.Amount, e.Day)
		}
		if err != nil || got != c.want {
			t.Errorf("%v: %q, want %q, %v", c.sequences, got, c.want, err)
		}
	}
	if _, err := d.Entries(t.Context(), main, "nobank", nil); ledger.CodeOf(err) != ledger.CodeNotFound {
		t.Errorf("%v", err)
	}
}

// TestMatch_DuplicateLater has the bank book again, and the books post again, what a run has settled before.
func TestMatch_DuplicateLater(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "t1 2026-01-08 50 reference=INV-1", "t2 2026-01-08 20 reference=INV-2")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-09 70.00", "2026-01-08 50.00 INV-1", "2026-01-08 20.00 INV-2"))
	if run := d.match(t); run.Confirmed != 2 {
		t.Fatalf("%+v", run)
	}
	d.post(t, "t3 2026-01-10 20 reference=INV-2")
	run := d.match(t)
	d.wantOpen(t, "entry t3: duplicate_ledger_entry")
	d.mustRepeat(t, run.No)
	d.importText(t, mt940(2, "2026-01-09 70.00", "2026-01-12 120.00", "2026-01-12 50.00 INV-1"))
	run = d.match(t)
	d.wantOpen(t, "entry t3: duplicate_ledger_entry", "line INV-1: duplicate_bank_line")
	d.mustRepeat(t, run.No)
}

// wantOpen compares what the last run says of open items.
func (d *desk) wantOpen(t *testing.T, want ...string) {
	t.Helper()
	var open []string
	for _, text := range d.state(t) {
		if !strings.Contains(text, " = ") {
			open = append(open, text)
		}
	}
	if diff := gocmp.Diff(want, open); diff != "" {
		t.Errorf("what is open (-want +got):\n%s", diff)
	}
}

// TestMatch_ElsewhereTwice has lines whose names are several transfers elsewhere: what is said of them is always the same.
func TestMatch_ElsewhereTwice(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.usingCSV(t)
	for _, till := range []ledger.AccountID{"till", "till2"} {
		d.accounts(t, till, ledger.Asset, "EUR")
	}
	specs := []ledger.TransferSpec{{ID: "hold", Entries: ledger.Simple("wallet", "assets:bank", dec("1"), ""), Terms: &ledger.Terms{Kind: ledger.Hold}}}
	var rows []string
	for n := range 8 {
		for _, till := range []string{"till", "till2"} {
			specs = append(specs, ledger.TransferSpec{ID: ledger.TransferID(fmt.Sprint(till, n)), Entries: ledger.Simple(ledger.AccountID(till), "wallet",
				dec("20"), "")})
		}
		rows = append(rows, fmt.Sprintf("2026-01-02;3.00;till%d;;till2%d", n, n), fmt.Sprintf("2026-01-02;4.00;till2%d;;other%d", n, n))
	}
	results, err := d.journal.Post(t.Context(), clerk, main, specs)
	if err != nil || results[0].Err != nil {
		t.Fatal(err, results)
	}
	d.importText(t, csvFile(append(rows, "2026-01-02;1.00;hold;;")...))
	run := d.match(t)
	found, _, err := d.Results(t.Context(), main, "bank", run.No, ResultFilter{Side: BankSide, Limit: 100})
	if err != nil || len(found) != 17 {
		t.Fatal(found, err)
	}
	for n, r := range found[:16] {
		if want := fmt.Sprintf("transfer till2%d is in the books of ", n/2); !strings.HasPrefix(r.Note, want) {
			t.Errorf("line %d: %q", n, r.Note)
		}
	}
	if note := found[16].Note; note != "transfer hold is a hold, which moves nothing before it is captured" {
		t.Errorf("%q", note)
	}
	for range 3 {
		d.mustRepeat(t, run.No)
	}
}
