package grpcapi_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// reconciler is a server with an account at a bank: bank account "bank", known as ACC, mirrored by cash:bank in EUR, whose CSV files are
// "day;amount;reference;text;id".
type reconciler struct {
	*bench
	khatav1.ReconcileServiceClient
}

const plainProfile = `{"name":"plain","delimiter":";","currency":"EUR","header":true,"columns":{"booking_date":"day","amount":"amount",` +
	`"id":"id","reference":"reference","description":["text"]}}`

func reconciling(t testing.TB) *reconciler {
	t.Helper()
	b := setup(t)
	r := &reconciler{b, khatav1.NewReconcileServiceClient(b.conn)}
	r.open(t.Context(), t, "")
	return r
}

func bankSettings() *khatav1.BankSettings {
	return &khatav1.BankSettings{
		Identifiers: []string{"ACC"}, Profile: "plain", DaysBefore: 1, DaysAfter: 3, TransitDays: 5, ReferenceKeys: []string{"reference"},
		Confirm: []string{"opening", "reference", "batch"},
	}
}

// open makes the bank account and what goes with it.
func (r *reconciler) open(ctx context.Context, t testing.TB, ledger string) {
	t.Helper()
	accounts := &khatav1.CreateAccountsRequest{Ledger: ledger}
	for _, a := range []string{"cash:bank EUR", "cash:other EUR", "cash:fees EUR", "wallet EUR", "cash:yen JPY"} {
		accounts.Accounts = append(accounts.Accounts, account(a))
	}
	if _, err := r.CreateAccounts(ctx, accounts); err != nil {
		t.Fatal(err)
	}
	if _, err := r.SaveBankProfile(ctx, &khatav1.SaveBankProfileRequest{Ledger: ledger, Content: plainProfile}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.CreateBankAccount(ctx, &khatav1.CreateBankAccountRequest{
		Ledger: ledger, Name: "bank", Account: "cash:bank", Basis: khatav1.Basis_BASIS_VALUE, Settings: bankSettings(),
	}); err != nil {
		t.Fatal(err)
	}
}

// entriesOn posts "id day amount": a positive amount comes in at the bank.
func (r *reconciler) entriesOn(t testing.TB, list ...string) {
	t.Helper()
	for _, text := range list {
		f := strings.Fields(text)
		x := move(f[0], "cash:bank", "wallet", strings.TrimPrefix(f[2], "-"))
		if strings.HasPrefix(f[2], "-") {
			x.DebitAccount, x.CreditAccount = x.GetCreditAccount(), x.GetDebitAccount()
		}
		x.EffectiveAt = moment(f[1] + "T10:00:00Z")
		if got := outcome(r.post(t, x)); got != "posted" {
			t.Fatalf("%s: %s", text, got)
		}
	}
}

func csvFile(lines ...string) string {
	return "day;amount;reference;text;id\n" + strings.Join(lines, "\n") + "\n"
}

// mt940 is a statement of account ACC in EUR of January 2026: "02 50,00 REFERENCE". A balance with a minus is a debit.
func mt940(number int, opening, closing string, lines ...string) string {
	sign := func(amount string) string {
		if strings.HasPrefix(amount, "-") {
			return "D"
		}
		return "C"
	}
	balance := func(tag, text string) string {
		day, amount, _ := strings.Cut(text, " ")
		return fmt.Sprintf(":%s:%s2601%sEUR%s\n", tag, sign(amount), day, strings.TrimPrefix(amount, "-"))
	}
	out := fmt.Sprintf(":20:TEST%d\n:25:ACC\n:28C:%d/1\n", number, number) + balance("60F", opening)
	for _, line := range lines {
		f := strings.Fields(line)
		out += fmt.Sprintf(":61:2601%s01%s%s%sNTRF%s\n", f[0], f[0], sign(f[1]), strings.TrimPrefix(f[1], "-"), f[2])
	}
	return out + balance("62F", closing) + "-\n"
}

func spec(s *khatav1.BankFileSpec) *khatav1.ImportBankFileRequest {
	return &khatav1.ImportBankFileRequest{Part: &khatav1.ImportBankFileRequest_Spec{Spec: s}}
}

func chunk(text string) *khatav1.ImportBankFileRequest {
	return &khatav1.ImportBankFileRequest{Part: &khatav1.ImportBankFileRequest_Chunk{Chunk: []byte(text)}}
}

// send sends messages of an import, and gives the answer.
func (r *reconciler) send(ctx context.Context, messages ...*khatav1.ImportBankFileRequest) (*khatav1.ImportBankFileResponse, error) {
	stream, err := r.ImportBankFile(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range messages {
		if stream.Send(m) != nil { // The answer says why.
			break
		}
	}
	return stream.CloseAndRecv()
}

// upload imports a file in chunks of a few bytes.
func (r *reconciler) upload(ctx context.Context, s *khatav1.BankFileSpec, content string) (*khatav1.ImportBankFileResponse, error) {
	messages := []*khatav1.ImportBankFileRequest{spec(s)}
	for part := range slices.Chunk([]byte(content), 50) {
		messages = append(messages, chunk(string(part)), chunk("")) // An empty one is no end.
	}
	return r.send(ctx, messages...)
}

func (r *reconciler) imports(t testing.TB, content string) *khatav1.BankFile {
	t.Helper()
	out, err := r.upload(t.Context(), &khatav1.BankFileSpec{BankAccount: "bank", FileName: "january"}, content)
	if err != nil || len(out.GetFiles()) != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	return out.GetFiles()[0]
}

func (r *reconciler) matches(t testing.TB, request string) *khatav1.ReconcileRun {
	t.Helper()
	out, err := r.MatchBankAccount(t.Context(), &khatav1.MatchBankAccountRequest{BankAccount: "bank", RequestId: request})
	if err != nil {
		t.Fatal(err)
	}
	return out.GetRun()
}

// lineNo is the number of the line with this reference of the customer.
func (r *reconciler) lineNo(t testing.TB, reference string) int64 {
	t.Helper()
	out, err := r.ListBankLines(t.Context(), &khatav1.ListBankLinesRequest{BankAccount: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range out.GetLines() {
		if l.GetReferences()["customer"] == reference {
			return l.GetNo()
		}
	}
	t.Fatalf("there is no line %s", reference)
	return 0
}

// bankReport reads a report, whose checks hold unless it is to say otherwise.
func bankReport[M interface {
	GetHead() *khatav1.ReportHead
	GetRows() *khatav1.ReportRows
	GetEnd() *khatav1.ReportEnd
}](t testing.TB, parts []M, err error,
) (head *khatav1.ReportHead, rows []string, failed []string) {
	t.Helper()
	if err != nil || len(parts) < 2 || parts[0].GetHead() == nil || parts[len(parts)-1].GetEnd() == nil {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	head = parts[0].GetHead()
	for _, part := range parts[1 : len(parts)-1] {
		for _, row := range part.GetRows().GetRows() {
			if len(row.GetCells()) != len(head.GetColumns()) {
				t.Errorf("row %v", row)
			}
			rows = append(rows, strings.Join(row.GetCells(), "|"))
		}
	}
	for _, c := range parts[len(parts)-1].GetEnd().GetChecks() {
		if !c.GetOk() {
			failed = append(failed, c.GetName())
		}
	}
	return head, rows, failed
}

func describeDecision(d *khatav1.Decision) string {
	text := fmt.Sprintf("%s %s %s: %s against %s", d.GetKind(), d.GetRule(), d.GetOutcome(), d.GetLines(), d.GetEntries())
	for _, i := range d.GetItems() {
		side := "entry"
		if i.GetLine() != 0 {
			side = "line"
		}
		if i.GetPostsDifference() {
			side = "difference"
		}
		text += fmt.Sprintf(", %s %s on %s", side, i.GetAmount(), i.GetDay())
	}
	if !d.GetPosted() {
		text += ", not posted"
	}
	if u := d.GetUndone(); u != nil {
		text += ", undone by " + u.GetUndoneBy() + ": " + u.GetReason()
	}
	return text
}

// From the account to the statement, each step twice where it changes something.
func TestReconcile_Tour(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	ctx := t.Context()
	r.entriesOn(t, "R1 2026-01-02 50.00", "R2 2026-01-03 20.04", "R3 2026-01-04 7", "R4 2026-01-08 -3", "R5 2026-01-05 9")

	a, err := r.CreateBankAccount(ctx, &khatav1.CreateBankAccountRequest{
		Ledger: "main", Name: "bank", Account: "cash:bank", MoneyIn: khatav1.Direction_DIRECTION_DEBIT, Basis: khatav1.Basis_BASIS_VALUE, Zone: "UTC",
		Settings: bankSettings(),
	})
	if err != nil {
		t.Fatal(err)
	}
	want := &khatav1.BankAccount{
		Ledger: "main", Name: "bank", Account: "cash:bank", Currency: "EUR", MoneyIn: khatav1.Direction_DIRECTION_DEBIT,
		Basis: khatav1.Basis_BASIS_VALUE, Zone: "UTC", Forward: "0.00", CreatedBy: "local", Settings: bankSettings(), SettingsVersion: 1, SettingsBy: "local",
	}
	want.Settings.Tolerance = "0.00"
	times := protocmp.IgnoreFields(&khatav1.BankAccount{}, "created_at", "settings_at")
	if diff := cmp.Diff(want, a.GetBankAccount(), protocmp.Transform(), times); diff != "" || time.Since(a.GetBankAccount().GetCreatedAt().AsTime()) > time.Minute {
		t.Errorf("(-want +got):\n%s", diff)
	}
	settings := a.GetBankAccount().GetSettings()
	settings.Tolerance, settings.Bai2Decimals = "0.02", map[string]int32{"JPY": 2}
	for range 2 {
		updated, err := r.UpdateBankAccount(ctx, &khatav1.UpdateBankAccountRequest{BankAccount: "bank", Settings: settings})
		if err != nil || updated.GetBankAccount().GetSettingsVersion() != 2 || !proto.Equal(updated.GetBankAccount().GetSettings(), settings) {
			t.Errorf("%v, %v", updated, err)
		}
	}
	got, err := r.GetBankAccount(ctx, &khatav1.GetBankAccountRequest{BankAccount: "bank"})
	list, err2 := r.ListBankAccounts(ctx, &khatav1.ListBankAccountsRequest{})
	if err != nil || err2 != nil || len(list.GetBankAccounts()) != 1 || !proto.Equal(got.GetBankAccount(), list.GetBankAccounts()[0]) ||
		got.GetBankAccount().GetSettings().GetTolerance() != "0.02" {
		t.Errorf("%v %v, %v %v", got, err, list, err2)
	}

	// A profile in two versions.
	other := strings.Replace(plainProfile, `";"`, `","`, 1)
	for _, content := range []string{other, other, plainProfile} {
		if _, err := r.SaveBankProfile(ctx, &khatav1.SaveBankProfileRequest{Content: content}); err != nil {
			t.Fatal(err)
		}
	}
	for version, want := range map[int32]string{0: plainProfile, 1: plainProfile, 2: strings.Replace(other, `"delimiter":",",`, `"delimiter":",",`, 1), 3: plainProfile} {
		p, err := r.GetBankProfile(ctx, &khatav1.GetBankProfileRequest{Name: "plain", Version: version})
		if err != nil || len(p.GetProfile().GetContent()) != len(want) || p.GetProfile().GetName() != "plain" || p.GetProfile().GetSavedBy() != "local" {
			t.Errorf("version %d: %v, %v", version, p, err)
		}
	}
	profiles, err := r.ListBankProfiles(ctx, &khatav1.ListBankProfilesRequest{})
	if err != nil || len(profiles.GetProfiles()) != 1 || profiles.GetProfiles()[0].GetVersion() != 3 {
		t.Errorf("%v, %v", profiles, err)
	}

	// A file: first only a look at it, then twice.
	file := csvFile("2026-01-02;50.00;R1;one;a", "2026-01-03;20.00;R2;two;b", "2026-01-05;7.00;;three;c", "2026-01-06;-2.50;FEE;four;d")
	look := &khatav1.BankFileSpec{BankAccount: "bank", FileName: "january.csv", Format: "csv", DryRun: true}
	for _, c := range []struct{ dry, replayed bool }{{true, false}, {true, false}, {false, false}, {false, true}} {
		look.DryRun = c.dry
		out, err := r.upload(ctx, look, file)
		if err != nil || out.GetReplayed() != c.replayed || len(out.GetFiles()) != 1 {
			t.Fatalf("dry %t: %v, %v", c.dry, out, err)
		}
		sum := sha256.Sum256([]byte(file))
		f := out.GetFiles()[0]
		s := f.GetStatements()[0]
		if f.GetSha256() != hex.EncodeToString(sum[:]) || f.GetBankAccount() != "bank" || f.GetName() != "january.csv" || f.GetFormat() != "csv" ||
			f.GetProfile() != "plain" || f.GetProfileVersion() != 3 || f.GetReplayed() != c.replayed || len(s.GetChecks()) == 0 || s.GetLines() != 4 ||
			s.GetAdded() != 4 || s.GetAddedSum() != "74.50" || s.GetBalance() != "74.50" || s.GetCovers() != "2026-01-06" || s.GetOpening() != "" {
			t.Errorf("dry %t: %v", c.dry, f)
		}
	}
	files, err := r.ListBankFiles(ctx, &khatav1.ListBankFilesRequest{BankAccount: "bank"})
	if err != nil || len(files.GetFiles()) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	one, err := r.GetBankFile(ctx, &khatav1.GetBankFileRequest{BankAccount: "bank", No: files.GetFiles()[0].GetNo()})
	if err != nil || !proto.Equal(one.GetFile(), files.GetFiles()[0]) || one.GetFile().GetImportedBy() != "local" {
		t.Errorf("%v, %v", one, err)
	}
	line, err := r.GetBankLine(ctx, &khatav1.GetBankLineRequest{BankAccount: "bank", No: r.lineNo(t, "FEE")})
	if l := line.GetLine(); err != nil || l.GetKind() != "line" || !l.GetCounts() || l.GetBookedOn() != "2026-01-06" || l.GetAmount() != "-2.50" ||
		l.GetOpen() != "-2.50" || l.GetCurrency() != "EUR" || l.GetStatus() != "booked" || l.GetExternalId() != "d" || l.GetDescription() != "four" ||
		l.GetFile() != one.GetFile().GetNo() || len(l.GetReferences()) != 1 {
		t.Errorf("%v, %v", line, err)
	}

	// A run confirms what is certain, and suggests the rest.
	run := r.matches(t, "night-1")
	again, err := r.MatchBankAccount(ctx, &khatav1.MatchBankAccountRequest{BankAccount: "bank", RequestId: "night-1"})
	if err != nil || !again.GetReplayed() || !proto.Equal(again.GetRun(), run) {
		t.Errorf("again: %v, %v", again, err)
	}
	if s := run.GetSummary(); run.GetOrdinal() != 1 || run.GetConfirmed() != 1 || run.GetCovers() != "2026-01-06" || run.GetRunBy() != "local" ||
		run.GetSettingsVersion() != 2 || s.GetLines().GetCount() != 4 || s.GetLines().GetSum() != "74.50" || s.GetMatchedLines() != "50.00" ||
		s.GetIgnoredLines() != "0.00" || s.GetOpenLines().GetSum() != "24.50" || s.GetSuggestions() != 2 ||
		s.GetLineOutcomes()["missing_in_ledger"].GetSum() != "-2.50" {
		t.Errorf("%v", run)
	}
	last, err := r.GetReconcileRun(ctx, &khatav1.GetReconcileRunRequest{BankAccount: "bank"})
	if err != nil || !proto.Equal(last.GetRun(), run) {
		t.Errorf("%v, %v", last, err)
	}
	if same, err := r.RepeatReconcileRun(ctx, &khatav1.RepeatReconcileRunRequest{BankAccount: "bank"}); err != nil || len(same.GetDifferences()) != 0 {
		t.Errorf("repeated: %v, %v", same, err)
	}
	results, err := r.ListReconcileResults(ctx, &khatav1.ListReconcileResultsRequest{BankAccount: "bank"})
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, one := range results.GetResults() {
		name := one.GetLine().GetDescription()
		if e := one.GetEntry(); e != nil {
			name = e.GetTransferId() + " " + e.GetAmount() + " " + e.GetDay() + " " + strings.Join(e.GetOthers(), ",")
		}
		said = append(said, fmt.Sprintf("%s: %s %q %d %s %t", name, one.GetOutcome(), one.GetRule(), one.GetGroup(), one.GetDifference(), one.GetInTransit()))
	}
	if diff := cmp.Diff([]string{
		`two: amount_mismatch "reference" 1 -0.04 false`, `three: matched "amount" 2 0.00 false`, `four: missing_in_ledger "" 0 0.00 false`,
		`R2 20.04 2026-01-03 wallet: amount_mismatch "reference" 1 -0.04 false`, `R3 7.00 2026-01-04 wallet: matched "amount" 2 0.00 false`,
		`R4 -3.00 2026-01-08 wallet: missing_at_bank "" 0 0.00 true`, `R5 9.00 2026-01-05 wallet: missing_at_bank "" 0 0.00 true`,
	}, said); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	suggestions, err := r.ListReconcileSuggestions(ctx, &khatav1.ListReconcileSuggestionsRequest{BankAccount: "bank", Run: run.GetNo()})
	if err != nil || len(suggestions.GetSuggestions()) != 2 {
		t.Fatalf("%v, %v", suggestions, err)
	}
	if s := suggestions.GetSuggestions()[0]; s.GetGroup() != 1 || s.GetRule() != "reference" || s.GetDifference() != "-0.04" || len(s.GetLines()) != 1 ||
		len(s.GetEntries()) != 1 || !proto.Equal(s.GetEntries()[0], results.GetResults()[3]) {
		t.Errorf("%v", s)
	}

	// A person confirms a suggestion, with its difference; and another match by its items.
	confirm := &khatav1.ConfirmMatchRequest{BankAccount: "bank", RequestId: "c-1", Run: run.GetNo(), Group: 1, Reason: "rounded", Difference: &khatav1.DifferenceSpec{
		Account: "cash:fees", EffectiveAt: moment("2026-01-03T12:00:00Z"), Description: "cents",
	}}
	var decision *khatav1.Decision
	for _, replayed := range []bool{false, true} {
		out, err := r.ConfirmMatch(ctx, confirm)
		if err != nil || out.GetReplayed() != replayed {
			t.Fatalf("%v, %v", out, err)
		}
		decision = out.GetDecision()
		const want = "manual reference matched_with_difference: 20.00 against 20.04, line 20.00 on 2026-01-03, entry 20.04 on 2026-01-03, " +
			"difference -0.04 on 2026-01-03"
		if got := describeDecision(decision); got != want || len(decision.GetApprovals()) != 1 || decision.GetApprovals()[0].GetAmount() != "-0.04" ||
			decision.GetApprovals()[0].GetAccount() != "cash:fees" || decision.GetApprovals()[0].GetDescription() != "cents" ||
			decision.GetRequestId() != "c-1" || decision.GetReason() != "rounded" || decision.GetDecidedBy() != "local" {
			t.Errorf("%s\n%v", got, decision)
		}
	}
	if got := r.balance(t, "cash:fees"); got != "0.04" {
		t.Errorf("the difference: %s", got)
	}
	parts := &khatav1.ConfirmMatchRequest{
		BankAccount: "bank", Lines: []*khatav1.LineTake{{Line: suggestions.GetSuggestions()[1].GetLines()[0].GetLine().GetNo(), Amount: "6.00"}},
		Entries: []*khatav1.EntryTake{{TransferId: "R3", Amount: "6"}},
	}
	out, err := r.ConfirmMatch(ctx, parts)
	if err != nil || out.GetDecision().GetLines() != "6.00" {
		t.Fatalf("%v, %v", out, err)
	}
	byParts := out.GetDecision().GetNo()

	ignore := &khatav1.IgnoreItemRequest{BankAccount: "bank", RequestId: "i-1", Line: &khatav1.LineTake{Line: r.lineNo(t, "FEE")}, Reason: "the bank's fee"}
	for _, replayed := range []bool{false, true} {
		out, err := r.IgnoreItem(ctx, ignore)
		if err != nil || out.GetReplayed() != replayed || describeDecision(out.GetDecision()) != "ignored manual ignored: -2.50 against 0.00, line -2.50 on 2026-01-06" {
			t.Errorf("%s, %v", describeDecision(out.GetDecision()), err)
		}
	}
	undo := &khatav1.UndoDecisionRequest{BankAccount: "bank", Decision: decision.GetNo(), Reason: "not so", ReverseDifference: true}
	for _, replayed := range []bool{false, true} {
		out, err := r.UndoDecision(ctx, undo)
		if err != nil || out.GetReplayed() != replayed || out.GetDecision().GetUndone().GetReason() != "not so" {
			t.Errorf("%v, %v", out, err)
		}
	}
	if got := r.balance(t, "cash:fees"); got != "0.00" {
		t.Errorf("the difference, taken back: %s", got)
	}

	// Once more, within the tolerance, and the difference is approved afterwards.
	settings.Tolerance = "0.05"
	if _, err := r.UpdateBankAccount(ctx, &khatav1.UpdateBankAccountRequest{BankAccount: "bank", Settings: settings}); err != nil {
		t.Fatal(err)
	}
	confirmed, err := r.ConfirmMatch(ctx, &khatav1.ConfirmMatchRequest{
		BankAccount: "bank", Lines: []*khatav1.LineTake{{Line: r.lineNo(t, "R2")}}, Entries: []*khatav1.EntryTake{{TransferId: "R2"}},
	})
	if err != nil || confirmed.GetDecision().GetPosted() {
		t.Fatalf("%v, %v", confirmed, err)
	}
	approve := &khatav1.ApproveDifferenceRequest{
		BankAccount: "bank", Decision: confirmed.GetDecision().GetNo(),
		Difference: &khatav1.DifferenceSpec{Account: "cash:fees", EffectiveAt: moment("2026-01-03T12:00:00Z")},
	}
	for _, replayed := range []bool{false, true} {
		out, err := r.ApproveDifference(ctx, approve)
		if err != nil || out.GetReplayed() != replayed || !out.GetDecision().GetPosted() || len(out.GetDecision().GetApprovals()) != 1 {
			t.Errorf("%v, %v", out, err)
		}
	}
	d, err := r.GetDecision(ctx, &khatav1.GetDecisionRequest{BankAccount: "bank", Decision: byParts})
	if err != nil || describeDecision(d.GetDecision()) != "manual manual matched: 6.00 against 6.00, line 6.00 on 2026-01-05, entry 6.00 on 2026-01-04" {
		t.Errorf("%s, %v", describeDecision(d.GetDecision()), err)
	}
	for name, c := range map[string]struct {
		in   *khatav1.ListDecisionsRequest
		want int
	}{
		"all":          {&khatav1.ListDecisionsRequest{}, 6}, // with the reversal of the difference
		"active":       {&khatav1.ListDecisionsRequest{Active: true}, 5},
		"by a run":     {&khatav1.ListDecisionsRequest{Kind: "automatic"}, 1},
		"ignored":      {&khatav1.ListDecisionsRequest{Kind: "ignored"}, 1},
		"of a line":    {&khatav1.ListDecisionsRequest{Line: r.lineNo(t, "R2")}, 2},
		"of an entry":  {&khatav1.ListDecisionsRequest{Sequence: results.GetResults()[4].GetEntry().GetSequence()}, 1},
		"of no entry":  {&khatav1.ListDecisionsRequest{Sequence: 1 << 40}, 0},
		"of both kind": {&khatav1.ListDecisionsRequest{Line: r.lineNo(t, "R2"), Active: true}, 1},
	} {
		c.in.BankAccount = "bank"
		if out, err := r.ListDecisions(ctx, c.in); err != nil || len(out.GetDecisions()) != c.want {
			t.Errorf("%s: %d, %v", name, len(out.GetDecisions()), err)
		}
	}

	// Reports.
	second := r.matches(t, "night-2")
	in := &khatav1.RunReconcileReportRequest{BankAccount: "bank", Report: "statement", Detailed: true}
	stream, err := receive(r.RunReconcileReport(ctx, in))
	head, rows, failed := bankReport(t, stream, err)
	if len(failed) != 0 || !strings.Contains(rows[len(rows)-1], "0.00") || len(head.GetFacts()) < 5 {
		t.Errorf("statement: %q, failed %q", rows, failed)
	}
	for name, c := range map[string]struct {
		in    *khatav1.RunReconcileReportRequest
		count int
	}{
		"all items":     {&khatav1.RunReconcileReportRequest{Report: "items"}, 12},
		"lines":         {&khatav1.RunReconcileReportRequest{Report: "items", Side: "bank"}, 4},
		"open lines":    {&khatav1.RunReconcileReportRequest{Report: "items", Side: "bank", Open: true}, 1},
		"of a day":      {&khatav1.RunReconcileReportRequest{Report: "items", Side: "bank", From: "2026-01-02", To: "2026-01-02"}, 1},
		"an outcome":    {&khatav1.RunReconcileReportRequest{Report: "items", Outcomes: []string{"ignored"}}, 1},
		"since the run": {&khatav1.RunReconcileReportRequest{Report: "changes", Older: run.GetNo(), Run: second.GetNo()}, 5},
		"to the last":   {&khatav1.RunReconcileReportRequest{Report: "changes", Older: run.GetNo()}, 5},
	} {
		c.in.BankAccount = "bank"
		parts, err := receive(r.RunReconcileReport(ctx, c.in))
		_, rows, failed := bankReport(t, parts, err)
		items := slices.DeleteFunc(rows, func(row string) bool { return !strings.HasPrefix(row, "bank|") && !strings.HasPrefix(row, "ledger|") })
		if len(items) != c.count || len(failed) != 0 {
			t.Errorf("%s: %d rows, failed %q\n%s", name, len(items), failed, strings.Join(rows, "\n"))
		}
	}
	runs, err := r.ListReconcileRuns(ctx, &khatav1.ListReconcileRunsRequest{BankAccount: "bank"})
	if err != nil || len(runs.GetRuns()) != 2 || !proto.Equal(runs.GetRuns()[1], run) {
		t.Errorf("%v, %v", runs, err)
	}
}

// What was brought forward is one item, and a file for nobody in particular finds its bank account.
func TestReconcile_BroughtForward(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	r.entriesOn(t, "E1 2026-01-02 50.00")
	x := move("O1", "cash:other", "wallet", "30")
	x.EffectiveAt = moment("2025-12-30T00:00:00Z")
	r.post(t, x)
	settings := bankSettings()
	settings.Identifiers = []string{"OTHER"}
	made, err := r.CreateBankAccount(t.Context(), &khatav1.CreateBankAccountRequest{
		Name: "other", Account: "cash:other", Basis: khatav1.Basis_BASIS_VALUE, Zone: "Europe/Berlin", Begins: "2026-01-01", Settings: settings,
	})
	if a := made.GetBankAccount(); err != nil || a.GetForward() != "30.00" || a.GetForwardThrough() == 0 || a.GetBegins() != "2026-01-01" {
		t.Fatalf("%v, %v", made, err)
	}
	out, err := r.upload(t.Context(), &khatav1.BankFileSpec{}, strings.ReplaceAll(mt940(1, "01 20,00", "05 25,00", "02 5,00 X"), "ACC", "OTHER"))
	if err != nil || out.GetFiles()[0].GetBankAccount() != "other" || out.GetFiles()[0].GetStatements()[0].GetClosing() != "25.00" {
		t.Fatalf("%v, %v", out, err)
	}
	if _, err := r.MatchBankAccount(t.Context(), &khatav1.MatchBankAccountRequest{BankAccount: "other", RequestId: "1"}); err != nil {
		t.Fatal(err)
	}
	results, err := r.ListReconcileResults(t.Context(), &khatav1.ListReconcileResultsRequest{BankAccount: "other", Side: "ledger"})
	if err != nil || len(results.GetResults()) != 1 || results.GetResults()[0].GetEntry().GetSequence() != 0 ||
		results.GetResults()[0].GetEntry().GetAmount() != "30.00" || results.GetResults()[0].GetEntry().PostedAt != nil {
		t.Fatalf("%v, %v", results, err)
	}
	lines, err := r.ListBankLines(t.Context(), &khatav1.ListBankLinesRequest{BankAccount: "other", Counting: true})
	if err != nil || len(lines.GetLines()) != 2 || lines.GetLines()[0].GetKind() != "opening" {
		t.Fatalf("%v, %v", lines, err)
	}
	confirmed, err := r.ConfirmMatch(t.Context(), &khatav1.ConfirmMatchRequest{
		BankAccount: "other", Lines: []*khatav1.LineTake{{Line: lines.GetLines()[0].GetNo()}, {Line: lines.GetLines()[1].GetNo()}},
		Entries: []*khatav1.EntryTake{{Forward: true}}, Difference: &khatav1.DifferenceSpec{Account: "cash:fees"},
	})
	if err != nil || confirmed.GetDecision().GetDifference() != "-5.00" {
		t.Errorf("%v, %v", confirmed, err)
	}
	if got := r.balance(t, "cash:fees"); got != "5.00" {
		t.Errorf("the difference: %s", got)
	}
}

func refusalOf(t testing.TB, err error) *khatav1.BankFileRefusal {
	t.Helper()
	if got := fault(err); got != invalid("file") {
		t.Errorf("got %s: %v", got, err)
	}
	for _, detail := range status.Convert(err).Details() {
		if d, ok := detail.(*khatav1.BankFileRefusal); ok {
			return d
		}
	}
	t.Errorf("nothing tells why: %v", err)
	return nil
}

// A file that is refused says so in words, in numbers, and by what was held against what; and nothing of it is there.
func TestImport_Refused(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	for name, c := range map[string]struct {
		spec    *khatav1.BankFileSpec
		content string
		reason  string
	}{
		"nothing":         {&khatav1.BankFileSpec{BankAccount: "bank"}, "", "empty"},
		"no format":       {&khatav1.BankFileSpec{}, "what is this", "not_this_format"},
		"totals":          {&khatav1.BankFileSpec{BankAccount: "bank"}, mt940(1, "01 0,00", "05 50,01", "02 50,00 X"), "totals_differ"},
		"another account": {&khatav1.BankFileSpec{BankAccount: "bank"}, strings.ReplaceAll(mt940(1, "01 0,00", "05 0,00"), "ACC", "ELSE"), "other_account"},
		"no such account": {&khatav1.BankFileSpec{}, strings.ReplaceAll(mt940(1, "01 0,00", "05 0,00"), "ACC", "ELSE"), "other_account"},
		"currency":        {&khatav1.BankFileSpec{BankAccount: "bank"}, strings.ReplaceAll(mt940(1, "01 0,00", "05 0,00"), "EUR", "USD"), "currency"},
		"malformed":       {&khatav1.BankFileSpec{BankAccount: "bank", Profile: "plain"}, csvFile("2026-13-01;1;;;"), "malformed"},
		"no zip":          {&khatav1.BankFileSpec{BankAccount: "bank", Format: "zip"}, "PK\x03\x04 but no", "malformed"},
		"bytes":           {&khatav1.BankFileSpec{BankAccount: "bank", Profile: "plain"}, csvFile("\xff\xfe\x00;1;;;"), "malformed"},
	} {
		_, err := r.upload(t.Context(), c.spec, c.content)
		refusal := refusalOf(t, err)
		if refusal.GetReason() != c.reason || refusal.GetDetail() == "" {
			t.Errorf("%s: %v", name, refusal)
		}
		if size := proto.Size(status.Convert(err).Proto()); size > 6<<10 {
			t.Errorf("%s: the status has %d bytes", name, size)
		}
		if c.reason != "totals_differ" {
			continue
		}
		if len(refusal.GetChecks()) == 0 || refusal.GetChecks()[0].GetName() != "totals" || refusal.GetChecks()[0].GetState() != "failed" ||
			refusal.GetStatement() != 1 || refusal.GetAccount() != "ACC" || refusal.GetStated() == "" || refusal.GetStated() == refusal.GetComputed() {
			t.Errorf("%s: %v", name, refusal)
		}
	}
	r.imports(t, mt940(1, "01 0,00", "05 50,00", "02 50,00 X"))
	for name, c := range map[string]struct{ content, reason string }{
		"gap":      {mt940(3, "05 50,00", "06 50,00"), "gap"},
		"balance":  {mt940(2, "05 51,00", "06 51,00"), "gap"},
		"repeated": {mt940(1, "01 0,00", "05 50,00", "02 50,00 X") + "\n", "repeated"},
	} {
		_, err := r.upload(t.Context(), &khatav1.BankFileSpec{BankAccount: "bank"}, c.content)
		if refusal := refusalOf(t, err); refusal.GetReason() != c.reason {
			t.Errorf("%s: %v", name, refusal)
		}
	}
	files, err := r.ListBankFiles(t.Context(), &khatav1.ListBankFilesRequest{BankAccount: "bank"})
	if err != nil || len(files.GetFiles()) != 1 {
		t.Errorf("%v, %v", files, err)
	}
}

// Whatever a bank, or a stranger, writes into a file: it is text in the answer, or the file is refused.
func TestImport_OddText(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	for i, odd := range []string{"a\x00b", "\xff\xfe", "\xe0\xa6", "\xed\xa0\x80", "\u202e", "খাতা", "\x1b[2J", strings.Repeat("ক", 3000)} {
		for name, c := range map[string]struct{ profile, content string }{
			"a reference": {"plain", csvFile(fmt.Sprintf("2026-01-02;1.00;%s;x;%d-r", odd, i))},
			"a text":      {"plain", csvFile(fmt.Sprintf("2026-01-02;1.00;x;%s;%d-t", odd, i))},
			"an id":       {"plain", csvFile(fmt.Sprintf("2026-01-02;1.00;x;y;%d%s", i, odd))},
			"a number":    {"", strings.Replace(mt940(1, "01 0,00", "05 0,00"), "TEST1", odd, 1)},
			"an account":  {"", strings.Replace(mt940(1, "01 0,00", "05 0,00"), "ACC", odd, 1)},
			"a movement":  {"", mt940(1, "01 0,00", "05 1,00", "02 1,00 "+odd)},
			"a date":      {"plain", csvFile(odd + ";1.00;x;y;z")},
			"an amount":   {"plain", csvFile("2026-01-02;" + odd + ";x;y;z")},
		} {
			_, err := r.upload(t.Context(), &khatav1.BankFileSpec{BankAccount: "bank", Profile: c.profile, DryRun: c.profile == ""}, c.content)
			if err != nil {
				if refusal := refusalOf(t, err); refusal.GetReason() == "" {
					t.Errorf("%s %.10q: %v", name, odd, err)
				}
			}
		}
	}
	lines := all(t, func(token string) ([]*khatav1.BankLine, string, error) {
		page, err := r.ListBankLines(t.Context(), &khatav1.ListBankLinesRequest{BankAccount: "bank", PageSize: 7, PageToken: token})
		return page.GetLines(), page.GetNextPageToken(), err
	})
	if len(lines) < 15 { // The rest is refused: it is not in the encoding of the profile.
		t.Errorf("%d lines", len(lines))
	}
	for _, l := range lines {
		for _, text := range []string{l.GetDescription(), l.GetExternalId(), l.GetReferences()["customer"]} {
			if strings.ToValidUTF8(text, "") != text || strings.ContainsRune(text, 0) {
				t.Errorf("%q", text)
			}
		}
	}
}

// A file whose balances are compared with the books, and that is not imported.
func TestDriftReport(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	r.entriesOn(t, "R1 2026-01-02 10.50")
	const profile = `{"name":"balances","delimiter":";","currency":"EUR","header":true,"columns":{"booking_date":"day","amount":"amount","account":"account","balance":"balance"}}`
	const file = "day;account;amount;balance\n2026-01-02;bank;10.50;10.50\n2026-01-02;fees;1.00;1.00\n2026-01-02;nobody;1.00;1.00\n"
	run := func(in *khatav1.DriftSpec) ([]*khatav1.RunDriftReportResponse, error) {
		stream, err := r.RunDriftReport(t.Context())
		if err != nil {
			return nil, err
		}
		_ = stream.Send(&khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Spec{Spec: in}})
		for part := range slices.Chunk([]byte(file), 20) {
			_ = stream.Send(&khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Chunk{Chunk: part}})
		}
		_ = stream.CloseSend()
		return receive(stream, nil)
	}
	if _, err := r.SaveBankProfile(t.Context(), &khatav1.SaveBankProfileRequest{Content: profile}); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]*khatav1.DriftSpec{
		"a stored profile": {Profile: "balances", Account: "cash:{account}", Basis: khatav1.Basis_BASIS_VALUE, All: true},
		"one as JSON":      {ProfileContent: profile, Account: "cash:{account}", Basis: khatav1.Basis_BASIS_VALUE, All: true, MoneyIn: khatav1.Direction_DIRECTION_DEBIT},
	} {
		parts, err := run(in)
		_, rows, failed := bankReport(t, parts, err)
		if len(rows) != 4 || len(failed) != 2 || !strings.HasPrefix(rows[0], "bank|cash:bank|EUR|2026-01-02|1|10.50|10.50|0.00") {
			t.Errorf("%s: %q, failed %q", name, rows, failed)
		}
	}
	for name, c := range map[string]struct {
		in   *khatav1.DriftSpec
		want string
	}{
		"no profile":         {&khatav1.DriftSpec{Account: "a"}, invalid("profile")},
		"no such profile":    {&khatav1.DriftSpec{Profile: "none", Account: "a"}, missing("profile")},
		"two profiles":       {&khatav1.DriftSpec{Profile: "plain", ProfileContent: profile, Account: "a"}, invalid("profile_content")},
		"no JSON":            {&khatav1.DriftSpec{ProfileContent: "{", Account: "a"}, invalid("profile_content")},
		"without a balance":  {&khatav1.DriftSpec{Profile: "plain", Account: "a"}, invalid("profile")},
		"and as JSON":        {&khatav1.DriftSpec{ProfileContent: plainProfile, Account: "a"}, invalid("profile_content")},
		"no account":         {&khatav1.DriftSpec{Profile: "balances"}, invalid("account")},
		"a zone":             {&khatav1.DriftSpec{Profile: "balances", Account: "a", Zone: "Dhaka"}, invalid("zone")},
		"a basis":            {&khatav1.DriftSpec{Profile: "balances", Account: "a", Basis: 9}, invalid("basis")},
		"a side":             {&khatav1.DriftSpec{Profile: "balances", Account: "a", MoneyIn: 9}, invalid("money_in")},
		"a ledger":           {&khatav1.DriftSpec{Ledger: "nowhere", Profile: "balances", Account: "a"}, "NotFound LEDGER_NOT_FOUND"},
		"a name of a ledger": {&khatav1.DriftSpec{Ledger: "a b", Profile: "balances", Account: "a"}, invalid("ledger")},
		"a sequence":         {&khatav1.DriftSpec{Profile: "balances", Account: "a", Through: 1 << 40}, invalid("through")},
	} {
		if _, err := run(c.in); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s (%v)", name, fault(err), c.want, err)
		}
	}
}

// Each listing goes through all of it, page by page; a token fits what it is of, and nothing else.
func TestReconcile_Pages(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	ctx := t.Context()
	var lines []string
	for i := range 25 {
		lines = append(lines, fmt.Sprintf("2026-01-%02d;%d.00;L%d;t;%d", 1+i, i+1, i, i))
	}
	for i := range 5 { // Five files of five lines.
		r.imports(t, csvFile(lines[5*i:5*i+5]...))
	}
	for i := range 6 {
		r.entriesOn(t, fmt.Sprintf("E%d 2026-01-%02d %d", i, 1+i, i+1))
	}
	for i := range 3 {
		r.matches(t, fmt.Sprint("run", i))
	}
	for _, line := range []string{"L20", "L21", "L22"} {
		if _, err := r.IgnoreItem(ctx, &khatav1.IgnoreItemRequest{BankAccount: "bank", Line: &khatav1.LineTake{Line: r.lineNo(t, line)}, Reason: "x"}); err != nil {
			t.Fatal(err)
		}
	}
	last := r.matches(t, "last")
	listings := map[string]struct {
		page func(bankAccount, token string, size int32) (nos []int64, next string, err error)
		want int
	}{
		"files": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListBankFiles(ctx, &khatav1.ListBankFilesRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetFiles(), func(f *khatav1.BankFile) int64 { return -f.GetNo() }), p.GetNextPageToken(), err
		}, 5},
		"lines": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListBankLines(ctx, &khatav1.ListBankLinesRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetLines(), func(l *khatav1.BankLine) int64 { return l.GetNo() }), p.GetNextPageToken(), err
		}, 25},
		"open lines": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListBankLines(ctx, &khatav1.ListBankLinesRequest{
				BankAccount: b, PageToken: token, PageSize: size, Open: true, Counting: true, From: "2026-01-11", To: "2026-01-25",
			})
			return each(p.GetLines(), func(l *khatav1.BankLine) int64 { return l.GetNo() }), p.GetNextPageToken(), err
		}, 12},
		"runs": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListReconcileRuns(ctx, &khatav1.ListReconcileRunsRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetRuns(), func(x *khatav1.ReconcileRun) int64 { return -x.GetNo() }), p.GetNextPageToken(), err
		}, 4},
		"results": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListReconcileResults(ctx, &khatav1.ListReconcileResultsRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetResults(), func(x *khatav1.ReconcileResult) int64 {
				if e := x.GetEntry(); e != nil {
					return 1<<40 + e.GetSequence()
				}
				return x.GetLine().GetNo()
			}), p.GetNextPageToken(), err
		}, 28},
		"suggestions": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListReconcileSuggestions(ctx, &khatav1.ListReconcileSuggestionsRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetSuggestions(), func(x *khatav1.ReconcileSuggestion) int64 { return int64(x.GetGroup()) }), p.GetNextPageToken(), err
		}, 6},
		"decisions": {func(b, token string, size int32) ([]int64, string, error) {
			p, err := r.ListDecisions(ctx, &khatav1.ListDecisionsRequest{BankAccount: b, PageToken: token, PageSize: size})
			return each(p.GetDecisions(), func(x *khatav1.Decision) int64 { return -x.GetNo() }), p.GetNextPageToken(), err
		}, 3},
	}
	tokens := map[string]string{}
	for name, l := range listings {
		for _, size := range []int32{1, 2, 1000, 0} {
			nos := all(t, func(token string) ([]int64, string, error) {
				if token != "" {
					tokens[name] = token
				}
				return l.page("bank", token, size)
			})
			if len(nos) != l.want || !slices.IsSorted(nos) || len(slices.Compact(slices.Clone(nos))) != len(nos) {
				t.Errorf("%s by %d: %v", name, size, nos)
			}
		}
	}
	if _, err := r.CreateBankAccount(ctx, &khatav1.CreateBankAccountRequest{Name: "other", Account: "cash:other"}); err != nil {
		t.Fatal(err)
	}
	for name, l := range listings {
		for of, token := range tokens {
			if of == name {
				continue
			}
			if _, _, err := l.page("bank", token, 0); fault(err) != invalid("page_token") {
				t.Errorf("%s by a token of %s: %v", name, of, err)
			}
		}
		for _, token := range []string{"?", "e30", "bnVsbA", strings.Repeat("A", 5000)} {
			if _, _, err := l.page("bank", token, 0); fault(err) != invalid("page_token") {
				t.Errorf("%s by token %.20q: %v", name, token, err)
			}
		}
		if _, _, err := l.page("other", tokens[name], 0); fault(err) != invalid("page_token") {
			t.Errorf("%s of another account: %v", name, err)
		}
		for _, size := range []int32{-1, 1001} {
			if _, _, err := l.page("bank", "", size); fault(err) != invalid("page_size") {
				t.Errorf("%s by %d: %v", name, size, err)
			}
		}
	}
	// Pages of the last run go on in the run with which they began, also when there is another one. The ledger may be named, or not.
	first, err := r.ListReconcileSuggestions(ctx, &khatav1.ListReconcileSuggestionsRequest{BankAccount: "bank", PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.ConfirmMatch(ctx, &khatav1.ConfirmMatchRequest{BankAccount: "bank", Run: last.GetNo(), Group: 5}); err != nil {
		t.Fatal(err)
	}
	r.matches(t, "later")
	rest, err := r.ListReconcileSuggestions(ctx, &khatav1.ListReconcileSuggestionsRequest{Ledger: "main", BankAccount: "bank", PageToken: first.GetNextPageToken()})
	if err != nil || len(rest.GetSuggestions()) != 4 {
		t.Errorf("%d suggestions more, %v", len(rest.GetSuggestions()), err)
	}
}

// Of long texts there are fewer on a page: an answer is never too large.
func TestReconcile_LongTexts(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	const count, size = 34, 1 << 19
	var lines []string
	for i := range count {
		lines = append(lines, fmt.Sprintf("2026-01-02;1.00;;%s;%d", strings.Repeat("x", size), i))
	}
	out, err := r.send(t.Context(), spec(&khatav1.BankFileSpec{BankAccount: "bank"}), chunk(csvFile(lines...)))
	if err != nil || out.GetFiles()[0].GetStatements()[0].GetAdded() != count {
		t.Fatalf("%v, %v", out, err)
	}
	pages := 0
	got := all(t, func(token string) ([]*khatav1.BankLine, string, error) {
		pages++
		p, err := r.ListBankLines(t.Context(), &khatav1.ListBankLinesRequest{BankAccount: "bank", PageToken: token})
		return p.GetLines(), p.GetNextPageToken(), err
	})
	if len(got) != count || pages < 2 || pages > 4 || len(got[0].GetDescription()) != size {
		t.Errorf("%d lines on %d pages", len(got), pages)
	}
}

// Two who decide about the same: the second is told who was first. What the books refuse is told as the books do.
func TestReconcile_Conflicts(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	ctx := t.Context()
	r.entriesOn(t, "A 2026-01-20 50", "B 2026-01-20 20.01")
	r.imports(t, csvFile("2026-01-02;50.00;LA;a;a", "2026-01-02;20.00;LB;b;b"))
	confirm := func(line, transfer, request string) (*khatav1.ConfirmMatchResponse, error) {
		return r.ConfirmMatch(ctx, &khatav1.ConfirmMatchRequest{
			BankAccount: "bank", RequestId: request, Lines: []*khatav1.LineTake{{Line: r.lineNo(t, line)}}, Entries: []*khatav1.EntryTake{{TransferId: transfer}},
		})
	}
	made, err := confirm("LA", "A", "r-1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.IgnoreItem(ctx, &khatav1.IgnoreItemRequest{BankAccount: "bank", Line: &khatav1.LineTake{Line: r.lineNo(t, "LA")}, Reason: "x"})
	if fault(err) != "Aborted CONFLICT" || !strings.Contains(err.Error(), "local matched it at") {
		t.Errorf("decided already: %v", err)
	}
	if _, err := confirm("LB", "A", "r-1"); fault(err) != "AlreadyExists ALREADY_EXISTS" {
		t.Errorf("the request of another one: %v", err)
	}
	undo := &khatav1.UndoDecisionRequest{BankAccount: "bank", Decision: made.GetDecision().GetNo(), Reason: "one"}
	if _, err := r.UndoDecision(ctx, undo); err != nil {
		t.Fatal(err)
	}
	undo.Reason = "two"
	if _, err := r.UndoDecision(ctx, undo); fault(err) != "Aborted CONFLICT" {
		t.Errorf("undone already: %v", err)
	}
	// The books are closed at that day.
	if _, err := r.ClosePeriod(ctx, &khatav1.ClosePeriodRequest{ClosedBefore: moment("2026-01-15T00:00:00Z")}); err != nil {
		t.Fatal(err)
	}
	in := &khatav1.ConfirmMatchRequest{
		BankAccount: "bank", Lines: []*khatav1.LineTake{{Line: r.lineNo(t, "LB")}}, Entries: []*khatav1.EntryTake{{TransferId: "B"}},
		Difference: &khatav1.DifferenceSpec{Account: "cash:fees", EffectiveAt: moment("2026-01-02T00:00:00Z")},
	}
	if _, err := r.ConfirmMatch(ctx, in); fault(err) != "FailedPrecondition PERIOD_CLOSED" {
		t.Errorf("the books refuse: %v", err)
	}
	list, err := r.ListDecisions(ctx, &khatav1.ListDecisionsRequest{BankAccount: "bank", Active: true})
	if err != nil || len(list.GetDecisions()) != 1 || list.GetDecisions()[0].GetPosted() {
		t.Fatalf("%v, %v", list, err)
	}
	out, err := r.ApproveDifference(ctx, &khatav1.ApproveDifferenceRequest{
		BankAccount: "bank", Decision: list.GetDecisions()[0].GetNo(), Difference: &khatav1.DifferenceSpec{Account: "cash:fees"},
	})
	if err != nil || !out.GetDecision().GetPosted() || len(out.GetDecision().GetApprovals()) != 2 {
		t.Errorf("approved again: %v, %v", out, err)
	}
}
