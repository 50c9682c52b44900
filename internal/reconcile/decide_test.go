package reconcile

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/ledger"
)

// lineNo finds a line by its reference.
func (d *desk) lineNo(t testing.TB, reference string) int64 {
	t.Helper()
	list, _, err := d.Lines(t.Context(), main, d.account.Name, LineFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range list {
		if lineName(l) == "line "+reference {
			return l.No
		}
	}
	t.Fatalf("there is no line %s", reference)
	return 0
}

func (d *desk) confirm(t testing.TB, lines, transfers []string, change ...func(*ConfirmSpec)) (*Decision, error) {
	t.Helper()
	spec := ConfirmSpec{BankAccount: d.account.Name}
	for _, l := range lines {
		spec.Lines = append(spec.Lines, LineTake{Line: d.lineNo(t, l)})
	}
	for _, e := range transfers {
		spec.Entries = append(spec.Entries, EntryTake{Transfer: ledger.TransferID(e)})
	}
	for _, c := range change {
		c(&spec)
	}
	return d.Confirm(t.Context(), spec, clerk)
}

func must[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// open is a desk with lines A 50, B 20, C -10 and entries a 50, b 20, c -9.99 that share no reference, and are far apart in time.
func opened(t testing.TB, change ...func(*BankAccountSpec)) *desk {
	t.Helper()
	d := bank(t, change...)
	d.post(t, "a 2026-01-20 50", "b 2026-01-20 20", "c 2026-01-20 -9.99")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 60.00", "2026-01-02 50.00 LINE-A", "2026-01-02 20.00 LINE-B", "2026-01-03 -10.00 LINE-C"))
	return d
}

func TestConfirm(t *testing.T) {
	t.Parallel()
	d := opened(t)
	made := must[*Decision](t)(d.confirm(t, []string{"LINE-A"}, []string{"a"}, func(s *ConfirmSpec) { s.Reason = "called the bank" }))
	if made.Kind != "manual" || made.Outcome != Matched || made.DecidedBy != clerk || made.Reason != "called the bank" || len(made.Items) != 2 ||
		made.Replayed {
		t.Errorf("%+v", made)
	}
	// The same person again: the same decision.
	again := must[*Decision](t)(d.confirm(t, []string{"LINE-A"}, []string{"a"}))
	if again.No != made.No || !again.Replayed {
		t.Errorf("%+v", again)
	}
	// Somebody else is told who was first.
	_, err := d.Confirm(t.Context(), ConfirmSpec{
		BankAccount: "bank", Lines: []LineTake{{Line: d.lineNo(t, "LINE-A")}}, Entries: []EntryTake{{Transfer: "a"}},
	}, colleague)
	mustCode(t, err, ledger.CodeConflict)
	if !strings.Contains(err.Error(), clerk+" matched it at ") || !strings.Contains(err.Error(), "line ") {
		t.Errorf("%v", err)
	}
	// And so is whoever would match it with something else.
	_, err = d.confirm(t, []string{"LINE-A", "LINE-B"}, []string{"a", "b"})
	mustCode(t, err, ledger.CodeConflict)
	d.match(t)
	d.wantState(t, "manual manual matched: line LINE-A 50 = entry a 50", "line LINE-B: missing_in_ledger", "line LINE-C: missing_in_ledger",
		"entry b: missing_at_bank in transit", "entry c: missing_at_bank in transit")
}

func TestConfirm_Refuses(t *testing.T) {
	t.Parallel()
	d := opened(t)
	line := d.lineNo(t, "LINE-A")
	for name, c := range map[string]struct {
		spec ConfirmSpec
		code ledger.Code
	}{
		"nothing":            {ConfirmSpec{}, ledger.CodeInvalidArgument},
		"a line alone":       {ConfirmSpec{Lines: []LineTake{{Line: line}}}, ledger.CodeInvalidArgument},
		"a line twice":       {ConfirmSpec{Lines: []LineTake{{Line: line}, {Line: line}}}, ledger.CodeInvalidArgument},
		"no such line":       {ConfirmSpec{Lines: []LineTake{{Line: 9999}}, Entries: []EntryTake{{Transfer: "a"}}}, ledger.CodeNotFound},
		"no such transfer":   {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{Transfer: "zz"}}}, ledger.CodeTransferNotFound},
		"no transfer at all": {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{}}}, ledger.CodeInvalidArgument},
		"other sums":         {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{Transfer: "b"}}}, ledger.CodeInvalidArgument},
		"more than there is": {ConfirmSpec{Lines: []LineTake{{Line: line, Amount: dec("51")}}, Entries: []EntryTake{{Transfer: "a"}}},
			ledger.CodeInvalidArgument},
		"the other sign": {ConfirmSpec{Lines: []LineTake{{Line: line, Amount: dec("-50")}}, Entries: []EntryTake{{Transfer: "a"}}},
			ledger.CodeInvalidArgument},
		"finer than a cent": {ConfirmSpec{Lines: []LineTake{{Line: line, Amount: dec("0.001")}}, Entries: []EntryTake{{Transfer: "a"}}},
			ledger.CodeAmountScale},
		"no difference": {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{Transfer: "a"}},
			Difference: &DifferenceSpec{Account: "expense:fees"}}, ledger.CodeInvalidArgument},
		"no such account": {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{Transfer: "b"}},
			Difference: &DifferenceSpec{Account: "zz"}}, ledger.CodeAccountNotFound},
		"against itself": {ConfirmSpec{Lines: []LineTake{{Line: line}}, Entries: []EntryTake{{Transfer: "b"}},
			Difference: &DifferenceSpec{Account: "assets:bank"}}, ledger.CodeInvalidArgument},
		"a suggestion and more": {ConfirmSpec{Run: 1, Group: 1, Lines: []LineTake{{Line: line}}}, ledger.CodeInvalidArgument},
		"no such suggestion":    {ConfirmSpec{Run: 1, Group: 1}, ledger.CodeNotFound},
		"lines that are not 0":  {ConfirmSpec{Lines: []LineTake{{Line: line}, {Line: d.lineNo(t, "LINE-B")}}}, ledger.CodeInvalidArgument},
	} {
		c.spec.BankAccount = "bank"
		if _, err := d.Confirm(t.Context(), c.spec, clerk); ledger.CodeOf(err) != c.code {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := d.query(t, `SELECT count(*)::text FROM reconcile_match`); n != "0" {
		t.Errorf("%s matches", n)
	}
}

func TestConfirm_Suggestion(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "a 2026-01-02 50", "b 2026-01-02 20")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 70.00", "2026-01-02 50.00 LINE-A", "2026-01-02 20.00 LINE-B"))
	run := d.match(t)
	list, more, err := d.Suggestions(t.Context(), main, "bank", 0, 0, 10)
	if err != nil || more || len(list) != 2 || len(list[0].Lines) != 1 || len(list[0].Entries) != 1 || list[0].Entries[0].Entry.Transfer != "a" {
		t.Fatalf("%+v %v", list, err)
	}
	made, err := d.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Run: run.No, Group: list[0].Group}, clerk)
	if err != nil || made.Rule != RuleAmount || made.Outcome != Matched {
		t.Fatalf("%+v %v", made, err)
	}
	if again, err := d.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Run: run.No, Group: list[0].Group}, clerk); err != nil ||
		again.No != made.No {
		t.Fatalf("%+v %v", again, err)
	}
	_, err = d.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Run: run.No, Group: list[0].Group}, colleague)
	mustCode(t, err, ledger.CodeConflict)
	// What the run saw is not so any more.
	must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{
		BankAccount: "bank", Entry: &EntryTake{Transfer: "b", Amount: dec("5")}, Reason: "no"}, clerk))
	_, err = d.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Run: run.No, Group: list[1].Group}, clerk)
	mustCode(t, err, ledger.CodeConflict)
	// The suggestion is not made again, and the decision stays.
	d.match(t)
	d.wantState(t, "manual amount matched: line LINE-A 50 = entry a 50", "ignored manual ignored:  = entry b 5", "entry b: partially_matched",
		"line LINE-B: missing_in_ledger")
}

// TestConfirm_Parts matches a line with two entries one after the other.
func TestConfirm_Parts(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "a 2026-01-20 30", "b 2026-01-20 20")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 50.00", "2026-01-02 50.00 LINE-A"))
	part := func(amount, transfer string) (*Decision, error) {
		return d.confirm(t, []string{"LINE-A"}, []string{transfer}, func(s *ConfirmSpec) { s.Lines[0].Amount = dec(amount) })
	}
	must[*Decision](t)(part("30", "a"))
	run := d.match(t)
	d.wantState(t, "manual manual matched: line LINE-A 30 = entry a 30", "line LINE-A: partially_matched", "entry b: missing_at_bank in transit")
	if !equal(run.Summary.OpenLines.Sum, "20") || !equal(run.Summary.MatchedLines, "30") {
		t.Errorf("%+v", run.Summary)
	}
	_, err := part("21", "b")
	mustCode(t, err, ledger.CodeConflict)
	must[*Decision](t)(part("20", "b"))
	d.match(t)
	d.wantState(t, "manual manual matched: line LINE-A 20 = entry b 20", "manual manual matched: line LINE-A 30 = entry a 30")
}

// TestConfirm_OneSide matches lines with each other that come to zero, and entries.
func TestConfirm_OneSide(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "a 2026-01-20 30", "b 2026-01-20 -30")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 0.00", "2026-01-02 50.00 LINE-A", "2026-01-02 -50.00 LINE-B"))
	must[*Decision](t)(d.confirm(t, []string{"LINE-A", "LINE-B"}, nil))
	must[*Decision](t)(d.confirm(t, nil, []string{"a", "b"}))
	if run := d.match(t); run.Results != 0 {
		t.Errorf("%+v", run)
	}
}

func TestConfirm_Difference(t *testing.T) {
	t.Parallel()
	d := opened(t)
	post := func(s *ConfirmSpec) { s.Difference = &DifferenceSpec{Account: "expense:fees"} }
	made := must[*Decision](t)(d.confirm(t, []string{"LINE-C"}, []string{"c"}, post))
	if made.Outcome != MatchedWithDifference || !equal(made.Difference(), "-0.01") || !made.Posted() || len(made.Differences) != 1 {
		t.Fatalf("%+v", made)
	}
	for range 10 {
		again := must[*Decision](t)(d.confirm(t, []string{"LINE-C"}, []string{"c"}, post))
		if again.No != made.No || !again.Replayed {
			t.Errorf("%+v", again)
		}
		again = must[*Decision](t)(d.ApproveDifference(t.Context(), ApproveSpec{
			BankAccount: "bank", Match: made.No, DifferenceSpec: DifferenceSpec{Account: "expense:fees"},
		}, colleague))
		if len(again.Differences) != 1 || !again.Replayed {
			t.Errorf("%+v", again)
		}
	}
	balances, err := d.journal.Balances(t.Context(), main, []ledger.AccountID{"expense:fees", "assets:bank"})
	if err != nil || !equal(balances[0].Posted, "0.01") || !equal(balances[1].Posted, "60.00") {
		t.Errorf("%+v, %v", balances, err)
	}
	d.match(t)
	posted := string(made.Differences[0].Transfer)
	d.wantState(t, "manual manual matched_with_difference: line LINE-C -10 = entry c -9.99, entry "+posted+" -0.01 (difference)",
		"line LINE-A: missing_in_ledger", "line LINE-B: missing_in_ledger", "entry a: missing_at_bank in transit", "entry b: missing_at_bank in transit")
	// Taken back with its difference: all is open again, and the two transfers about the difference are nothing together.
	undone := must[*Decision](t)(d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "wrong", ReverseDifference: true},
		clerk))
	if undone.Undone == nil || undone.Undone.By != clerk {
		t.Errorf("%+v", undone)
	}
	must[*Decision](t)(d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "wrong", ReverseDifference: true}, clerk))
	run := d.match(t)
	if !equal(run.Summary.OpenLines.Sum, "60") || !equal(run.Summary.OpenEntries.Sum, "60.01") || run.Summary.OpenEntries.Count != 3 {
		t.Errorf("%+v", run.Summary)
	}
	_, err = d.ApproveDifference(t.Context(), ApproveSpec{BankAccount: "bank", Match: made.No,
		DifferenceSpec: DifferenceSpec{Account: "expense:fees"}}, clerk)
	mustCode(t, err, ledger.CodeConflict)
}

// TestApproveDifference_Refused has the books refuse the transfer, which is final for its id.
func TestApproveDifference_Refused(t *testing.T) {
	t.Parallel()
	d := opened(t)
	freeze := func(f ledger.Frozen) {
		if _, err := d.journal.UpdateAccount(t.Context(), clerk, main, "expense:fees", ledger.AccountUpdate{Frozen: &f}); err != nil {
			t.Fatal(err)
		}
	}
	freeze(ledger.FrozenBoth)
	_, err := d.confirm(t, []string{"LINE-C"}, []string{"c"}, func(s *ConfirmSpec) { s.Difference = &DifferenceSpec{Account: "expense:fees"} })
	mustCode(t, err, ledger.CodeAccountFrozen)
	freeze(ledger.FrozenNone)
	list, _, err := d.Decisions(t.Context(), main, "bank", DecisionFilter{Line: d.lineNo(t, "LINE-C"), Limit: 10})
	if err != nil || len(list) != 1 || list[0].Posted() {
		t.Fatalf("%+v, %v", list, err)
	}
	made := must[*Decision](t)(d.ApproveDifference(t.Context(), ApproveSpec{
		BankAccount: "bank", Match: list[0].No, DifferenceSpec: DifferenceSpec{Account: "expense:fees", Description: "charge"},
	}, colleague))
	if !made.Posted() || len(made.Differences) != 2 || made.Differences[1].ApprovedBy != colleague {
		t.Errorf("%+v", made)
	}
}

// TestTolerance matches what differs by no more than is tolerated, and posts nothing before somebody approves it.
func TestTolerance(t *testing.T) {
	t.Parallel()
	d := bank(t, func(s *BankAccountSpec) { s.Settings.Tolerance = dec("0.05") })
	d.post(t, "R1 2026-01-02 50")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 49.96", "2026-01-02 49.96 R1"))
	run := d.match(t)
	if run.Confirmed != 1 {
		t.Fatalf("%+v", run)
	}
	list, _, err := d.Decisions(t.Context(), main, "bank", DecisionFilter{Limit: 10})
	if err != nil || list[0].Outcome != MatchedWithDifference || !equal(list[0].Difference(), "-0.04") || list[0].Posted() || list[0].Run != run.No {
		t.Fatalf("%+v, %v", list[0], err)
	}
	for range 3 {
		made := must[*Decision](t)(d.ApproveDifference(t.Context(), ApproveSpec{
			BankAccount: "bank", Match: list[0].No, DifferenceSpec: DifferenceSpec{Account: "expense:fees"},
		}, clerk))
		if !made.Posted() {
			t.Errorf("%+v", made)
		}
	}
	balances, err := d.journal.Balances(t.Context(), main, []ledger.AccountID{"expense:fees", "assets:bank"})
	if err != nil || !equal(balances[0].Posted, "0.04") || !equal(balances[1].Posted, "49.96") {
		t.Errorf("%+v, %v", balances, err)
	}
	d.mustRepeat(t, run.No)
}

func TestIgnore(t *testing.T) {
	t.Parallel()
	d := opened(t)
	line := LineTake{Line: d.lineNo(t, "LINE-B")}
	_, err := d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &line}, clerk)
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Reason: "why"}, clerk)
	mustCode(t, err, ledger.CodeInvalidArgument)
	made := must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &line, Reason: "of another company"}, clerk))
	if made.Kind != "ignored" || made.Outcome != Ignored || made.Reason != "of another company" {
		t.Errorf("%+v", made)
	}
	if again := must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: &line, Reason: "of another company"},
		clerk)); again.No != made.No {
		t.Errorf("%+v", again)
	}
	_, err = d.confirm(t, []string{"LINE-B"}, []string{"b"})
	mustCode(t, err, ledger.CodeConflict)
	if !strings.Contains(err.Error(), "ignored it") {
		t.Error(err)
	}
	run := d.match(t)
	if !equal(run.Summary.IgnoredLines, "20") || !equal(run.Summary.OpenLines.Sum, "40") {
		t.Errorf("%+v", run.Summary)
	}
}

func TestUnmatch(t *testing.T) {
	t.Parallel()
	d := bank(t)
	d.post(t, "R1 2026-01-02 50")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 50.00", "2026-01-02 50.00 R1"))
	first := d.match(t)
	list, _, err := d.Decisions(t.Context(), main, "bank", DecisionFilter{Limit: 10})
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
	}
	_, err = d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: list[0].No}, clerk)
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: 99999, Reason: "x"}, clerk)
	mustCode(t, err, ledger.CodeNotFound)
	spec := UnmatchSpec{BankAccount: "bank", Match: list[0].No, Reason: "another customer's"}
	must[*Decision](t)(d.Unmatch(t.Context(), spec, clerk))
	if again := must[*Decision](t)(d.Unmatch(t.Context(), spec, clerk)); !again.Replayed {
		t.Errorf("%+v", again)
	}
	_, err = d.Unmatch(t.Context(), spec, colleague)
	mustCode(t, err, ledger.CodeConflict)
	if !strings.Contains(err.Error(), clerk) || !strings.Contains(err.Error(), "another customer's") {
		t.Error(err)
	}
	// The next run leaves it to people.
	second := d.match(t)
	d.wantState(t, "line R1: matched suggested", "entry R1: matched suggested")
	d.mustRepeat(t, first.No)
	d.mustRepeat(t, second.No)
	suggestions, _, err := d.Suggestions(t.Context(), main, "bank", 0, 0, 10)
	if err != nil || suggestions[0].Lines[0].Note != "was matched before, and undone" {
		t.Errorf("%+v %v", suggestions, err)
	}
}

func TestRequests(t *testing.T) {
	t.Parallel()
	d := opened(t)
	spec := ConfirmSpec{BankAccount: "bank", Request: "r1", Lines: []LineTake{{Line: d.lineNo(t, "LINE-A")}}, Entries: []EntryTake{{Transfer: "a"}}}
	made := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk))
	again := must[*Decision](t)(d.Confirm(t.Context(), spec, colleague))
	if again.No != made.No || !again.Replayed || made.Request != "r1" {
		t.Errorf("%+v", again)
	}
	spec.Lines[0].Line, spec.Entries[0].Transfer = d.lineNo(t, "LINE-B"), "b"
	_, err := d.Confirm(t.Context(), spec, clerk)
	mustCode(t, err, ledger.CodeAlreadyExists)

	// Those that decisions without one are known by are nobody's.
	for _, own := range []string{"once:x", fmt.Sprintf("undo:%d", made.No)} {
		spec.Request = own
		_, err := d.Confirm(t.Context(), spec, clerk)
		mustCode(t, err, ledger.CodeInvalidArgument)
	}
	spec.Request = ""
	if unnamed := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk)); unnamed.Request != "" {
		t.Errorf("a decision without a request is known by %q", unnamed.Request)
	}
}

// TestConfirm_AtOnce has many people confirm the same line at the same time: one of them does, the others are told who.
func TestConfirm_AtOnce(t *testing.T) {
	t.Parallel()
	d := opened(t)
	lineA := d.lineNo(t, "LINE-A")
	var wait sync.WaitGroup
	people := []string{"p1", "p2", "p3", "p4", "p5", "p6", "p7", "p8"}
	errs := make([]error, len(people))
	for i, who := range people {
		wait.Go(func() {
			_, errs[i] = d.Confirm(t.Context(), ConfirmSpec{BankAccount: "bank", Lines: []LineTake{{Line: lineA}}, Entries: []EntryTake{{Transfer: "a"}}}, who)
		})
	}
	wait.Wait()
	won := ""
	for i, err := range errs {
		if err == nil {
			if won != "" {
				t.Errorf("%s and %s have both confirmed it", won, people[i])
			}
			won = people[i]
		}
	}
	for _, err := range errs {
		if err != nil {
			mustCode(t, err, ledger.CodeConflict)
			if !strings.Contains(err.Error(), won+" matched it at 2") {
				t.Errorf("%v; it was %s", err, won)
			}
		}
	}
	if n := d.query(t, `SELECT count(*)::text FROM reconcile_match`); n != "1" || won == "" {
		t.Errorf("%s matches, by %q", n, won)
	}
}

// TestConfirm_AnotherDifference asks again for what was matched, and now for its difference to be posted, or to another account.
func TestConfirm_AnotherDifference(t *testing.T) {
	t.Parallel()
	d := bank(t, func(s *BankAccountSpec) { s.Settings.Tolerance = dec("0.05") })
	d.accounts(t, "expense:other", ledger.Expense, "EUR")
	d.post(t, "a 2026-01-02 50", "b 2026-01-02 20")
	d.importText(t, mt940(1, "2026-01-01 0.00", "2026-01-05 69.92", "2026-01-02 49.96 LINE-A", "2026-01-02 19.96 LINE-B"))
	to := func(account ledger.AccountID, request string) func(*ConfirmSpec) {
		return func(s *ConfirmSpec) { s.Request, s.Difference = request, &DifferenceSpec{Account: account} }
	}
	made := must[*Decision](t)(d.confirm(t, []string{"LINE-A"}, []string{"a"}, func(s *ConfirmSpec) { s.Request = "q" }))
	_, err := d.confirm(t, []string{"LINE-A"}, []string{"a"}, to("expense:fees", ""))
	mustCode(t, err, ledger.CodeConflict)
	_, err = d.confirm(t, []string{"LINE-A"}, []string{"a"}, to("expense:fees", made.Request))
	mustCode(t, err, ledger.CodeAlreadyExists)
	made = must[*Decision](t)(d.confirm(t, []string{"LINE-B"}, []string{"b"}, to("expense:fees", "r")))
	again := must[*Decision](t)(d.confirm(t, []string{"LINE-B"}, []string{"b"}, to("expense:fees", "r")))
	if again.No != made.No || !again.Replayed || !again.Posted() {
		t.Errorf("%+v", again)
	}
	for _, request := range []string{"", "r"} {
		_, err = d.confirm(t, []string{"LINE-B"}, []string{"b"}, to("expense:other", request))
		mustCode(t, err, map[string]ledger.Code{"": ledger.CodeConflict, "r": ledger.CodeAlreadyExists}[request])
	}
}

// unposted makes a match of LINE-C and c whose difference was approved, and not posted: whoever was about to do it was stopped.
func unposted(t *testing.T) (*desk, ConfirmSpec, *Decision) {
	t.Helper()
	d := opened(t)
	spec := ConfirmSpec{
		BankAccount: "bank", Request: "r", Lines: []LineTake{{Line: d.lineNo(t, "LINE-C")}}, Entries: []EntryTake{{Transfer: "c"}},
		Difference: &DifferenceSpec{Account: "expense:fees"},
	}
	w := &decision{r: d.Reconciler, account: d.account, kind: kindManual, rule: RuleManual, request: "r", caller: clerk, difference: spec.Difference}
	var err error
	if w.against, err = d.differenceAccount(t.Context(), d.account, "expense:fees"); err != nil {
		t.Fatal(err)
	}
	if err := w.fromTakes(t.Context(), spec.Lines, spec.Entries); err != nil {
		t.Fatal(err)
	}
	return d, spec, must[*Decision](t)(w.decide(t.Context()))
}

func (d *desk) fees(t *testing.T) string {
	t.Helper()
	return d.query(t, `SELECT coalesce(sum(amount), 0)::numeric(9, 2)::text FROM entry JOIN account USING (ledger_id, account_no)
		WHERE account_id = 'expense:fees'`)
}

// TestConfirm_UnfinishedDifference finishes, with the same request, what was begun, unless it was taken back meanwhile.
func TestConfirm_UnfinishedDifference(t *testing.T) {
	t.Parallel()
	d, spec, made := unposted(t)
	if again := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk)); again.No != made.No || !again.Posted() || d.fees(t) != "0.01" {
		t.Errorf("%+v", again)
	}
	d, spec, made = unposted(t)
	must[*Decision](t)(d.Unmatch(t.Context(), UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "wrong"}, colleague))
	if again := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk)); again.No != made.No || again.Undone == nil || d.fees(t) != "0.00" {
		t.Errorf("%+v, and %s was posted", again, d.fees(t))
	}
}

// TestUnmatch_UnfinishedDifference takes back a match whose difference is in the books, and was not made part of it any more.
func TestUnmatch_UnfinishedDifference(t *testing.T) {
	t.Parallel()
	d, _, made := unposted(t)
	results, err := d.journal.PostWith(t.Context(), clerk, main, ledger.TransferSpec{
		ID: made.Differences[0].Transfer, Entries: ledger.Simple("expense:fees", "assets:bank", dec("0.01"), "EUR"),
		Description: made.Differences[0].Description,
	}, nil, nil)
	if err != nil || results.Err != nil {
		t.Fatal(err, results)
	}
	spec := UnmatchSpec{BankAccount: "bank", Match: made.No, Reason: "wrong", ReverseDifference: true}
	for range 2 {
		must[*Decision](t)(d.Unmatch(t.Context(), spec, clerk))
		if d.fees(t) != "0.00" {
			t.Errorf("%s is left", d.fees(t))
		}
	}
	if run := d.match(t); !equal(run.Summary.OpenEntries.Sum, "60.01") || run.Summary.OpenEntries.Count != 3 {
		t.Errorf("%+v", run.Summary)
	}
}

// TestParts_Again sends the same request about a part of an item again: the rest of it stays open.
func TestParts_Again(t *testing.T) {
	t.Parallel()
	d := opened(t)
	line := &LineTake{Line: d.lineNo(t, "LINE-A"), Amount: dec("20")}
	ignore := func(who string) *Decision {
		return must[*Decision](t)(d.Ignore(t.Context(), IgnoreSpec{BankAccount: "bank", Line: line, Reason: "of another company"}, who))
	}
	made := ignore(clerk)
	if again := ignore(clerk); again.No != made.No || !again.Replayed {
		t.Errorf("%+v", again)
	}
	if other := ignore(colleague); other.No == made.No {
		t.Errorf("%+v", other)
	}
	spec := ConfirmSpec{
		BankAccount: "bank", Lines: []LineTake{{Line: line.Line, Amount: dec("4")}}, Entries: []EntryTake{{Transfer: "a", Amount: dec("4")}},
	}
	made = must[*Decision](t)(d.Confirm(t.Context(), spec, clerk))
	if again := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk)); again.No != made.No || !again.Replayed {
		t.Errorf("%+v", again)
	}
	// Under a name of its own it is another request.
	spec.Request = "once more"
	if more := must[*Decision](t)(d.Confirm(t.Context(), spec, clerk)); more.No == made.No || more.Replayed {
		t.Errorf("%+v", more)
	}
	if l, err := d.Line(t.Context(), main, "bank", line.Line); err != nil || !equal(l.Open(), "2") {
		t.Errorf("%+v, %v", l, err)
	}
}
