package grpcapi_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func bankMethods() protoreflect.MethodDescriptors {
	return khatav1.File_khata_v1_reconcile_proto.Services().ByName("ReconcileService").Methods()
}

// askBank calls a method of ReconcileService with one request, and reads all that comes.
func askBank(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in any, out func() any, options ...grpc.CallOption) error {
	if !m.IsStreamingClient() {
		return exchange(ctx, conn, m, in, out, options...)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, path(m), options...)
	if err != nil {
		return err
	}
	return converse(stream, in, out)
}

// bankMessage is a request of a method, in the form in which it is sent.
func bankMessage(in proto.Message) any {
	switch in := in.(type) {
	case *khatav1.BankFileSpec:
		return spec(in)
	case *khatav1.DriftSpec:
		return &khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Spec{Spec: in}}
	}
	return in
}

// call sends a request to the method that it is of, and describes the error.
func (r *reconciler) call(t *testing.T, in proto.Message) string {
	t.Helper()
	for i := range bankMethods().Len() {
		m := bankMethods().Get(i)
		message := bankMessage(in)
		if m.Input().FullName() != message.(proto.Message).ProtoReflect().Descriptor().FullName() {
			continue
		}
		kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		if err != nil {
			t.Fatal(err)
		}
		return fault(askBank(t.Context(), r.conn, m, message, func() any { return kind.New().Interface() }))
	}
	t.Fatalf("%T is of no method", in)
	return ""
}

// A value that is wrong is said of the field that has it, method by method.
func TestReconcile_WrongRequests(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	r.entriesOn(t, "A 2026-01-20 50", "B 2026-01-20 20", "P 2026-01-20 3")
	r.imports(t, csvFile("2026-01-02;50.00;LA;a;a", "2026-01-02;20.00;LB;b;b", "2026-01-02;2.99;LC;c;c"))
	run := r.matches(t, "first").GetNo()
	line, other := r.lineNo(t, "LA"), r.lineNo(t, "LB")
	made, err := r.ConfirmMatch(t.Context(), &khatav1.ConfirmMatchRequest{
		BankAccount: "bank", Lines: []*khatav1.LineTake{{Line: other}}, Entries: []*khatav1.EntryTake{{TransferId: "B"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	decision := made.GetDecision().GetNo()

	create := func(change func(*khatav1.CreateBankAccountRequest)) proto.Message {
		in := &khatav1.CreateBankAccountRequest{Name: "new", Account: "cash:other", Settings: bankSettings()}
		change(in)
		return in
	}
	set := func(change func(*khatav1.BankSettings)) proto.Message {
		in := &khatav1.UpdateBankAccountRequest{BankAccount: "bank", Settings: bankSettings()}
		change(in.GetSettings())
		return in
	}
	confirm := func(lines []*khatav1.LineTake, entries []*khatav1.EntryTake, changes ...func(*khatav1.ConfirmMatchRequest)) proto.Message {
		in := &khatav1.ConfirmMatchRequest{BankAccount: "bank", Lines: lines, Entries: entries}
		for _, change := range changes {
			change(in)
		}
		return in
	}
	lineA, entryA := []*khatav1.LineTake{{Line: line}}, []*khatav1.EntryTake{{TransferId: "A"}}
	amount := func(text string) []*khatav1.LineTake { return []*khatav1.LineTake{{Line: line, Amount: text}} }
	ignore := func(line *khatav1.LineTake, entry *khatav1.EntryTake) proto.Message {
		return &khatav1.IgnoreItemRequest{BankAccount: "bank", Line: line, Entry: entry, Reason: "x"}
	}
	reportOf := func(change func(*khatav1.RunReconcileReportRequest)) proto.Message {
		in := &khatav1.RunReconcileReportRequest{BankAccount: "bank"}
		change(in)
		return in
	}
	long := strings.Repeat("x", 257)
	for name, c := range map[string]struct {
		in   proto.Message
		want string
	}{
		"create: no name":           {create(func(in *khatav1.CreateBankAccountRequest) { in.Name = "" }), invalid("name")},
		"create: a name":            {create(func(in *khatav1.CreateBankAccountRequest) { in.Name = "Main Bank" }), invalid("name")},
		"create: no account":        {create(func(in *khatav1.CreateBankAccountRequest) { in.Account = "" }), invalid("account")},
		"create: account missing":   {create(func(in *khatav1.CreateBankAccountRequest) { in.Account = "none" }), "NotFound ACCOUNT_NOT_FOUND"},
		"create: a side":            {create(func(in *khatav1.CreateBankAccountRequest) { in.MoneyIn = 3 }), invalid("money_in")},
		"create: a basis":           {create(func(in *khatav1.CreateBankAccountRequest) { in.Basis = 3 }), invalid("basis")},
		"create: a zone":            {create(func(in *khatav1.CreateBankAccountRequest) { in.Zone = "Dhaka" }), invalid("zone")},
		"create: no day":            {create(func(in *khatav1.CreateBankAccountRequest) { in.Begins = "2026-02-30" }), invalid("begins")},
		"create: a month":           {create(func(in *khatav1.CreateBankAccountRequest) { in.Begins = "2026-02" }), invalid("begins")},
		"create: to come":           {create(func(in *khatav1.CreateBankAccountRequest) { in.Begins = "9990-01-01" }), invalid("begins")},
		"create: the last day":      {create(func(in *khatav1.CreateBankAccountRequest) { in.Begins = "9999-12-31" }), invalid("begins")},
		"create: settings":          {create(func(in *khatav1.CreateBankAccountRequest) { in.Settings.DaysAfter = 61 }), invalid("settings.days_after")},
		"create: taken name":        {create(func(in *khatav1.CreateBankAccountRequest) { in.Name = "bank" }), "AlreadyExists ALREADY_EXISTS account,basis"},
		"create: taken account":     {create(func(in *khatav1.CreateBankAccountRequest) { in.Account = "cash:bank" }), "AlreadyExists ALREADY_EXISTS"},
		"create: a ledger":          {create(func(in *khatav1.CreateBankAccountRequest) { in.Ledger = "nowhere" }), "NotFound LEDGER_NOT_FOUND"},
		"create: no name of one":    {create(func(in *khatav1.CreateBankAccountRequest) { in.Ledger = "A" }), invalid("ledger")},
		"set: nothing":              {&khatav1.UpdateBankAccountRequest{BankAccount: "bank"}, invalid("settings")},
		"set: no account":           {&khatav1.UpdateBankAccountRequest{BankAccount: "none", Settings: bankSettings()}, missing("bank_account")},
		"set: identifiers":          {set(func(s *khatav1.BankSettings) { s.Identifiers = slices.Repeat([]string{"A"}, 21) }), invalid("settings.identifiers")},
		"set: an identifier":        {set(func(s *khatav1.BankSettings) { s.Identifiers = []string{"A", " "} }), invalid("settings.identifiers[1]")},
		"set: a profile":            {set(func(s *khatav1.BankSettings) { s.Profile = "A B" }), invalid("settings.profile")},
		"set: days before":          {set(func(s *khatav1.BankSettings) { s.DaysBefore = -1 }), invalid("settings.days_before")},
		"set: days in transit":      {set(func(s *khatav1.BankSettings) { s.TransitDays = 367 }), invalid("settings.transit_days")},
		"set: no number":            {set(func(s *khatav1.BankSettings) { s.Tolerance = "NaN" }), invalid("settings.tolerance")},
		"set: an exponent":          {set(func(s *khatav1.BankSettings) { s.Tolerance = "1e3" }), invalid("settings.tolerance")},
		"set: negative":             {set(func(s *khatav1.BankSettings) { s.Tolerance = "-1" }), invalid("settings.tolerance")},
		"set: too fine":             {set(func(s *khatav1.BankSettings) { s.Tolerance = "0.001" }), "InvalidArgument AMOUNT_SCALE"},
		"set: keys":                 {set(func(s *khatav1.BankSettings) { s.ReferenceKeys = []string{""} }), invalid("settings.reference_keys[0]")},
		"set: a rule":               {set(func(s *khatav1.BankSettings) { s.Confirm = []string{"opening", "manual"} }), invalid("settings.confirm[1]")},
		"set: a currency":           {set(func(s *khatav1.BankSettings) { s.Bai2Decimals = map[string]int32{"yen": 0} }), invalid("settings.bai2_decimals")},
		"set: decimals":             {set(func(s *khatav1.BankSettings) { s.Bai2Decimals = map[string]int32{"JPY": -1} }), invalid("settings.bai2_decimals")},
		"account: none":             {&khatav1.GetBankAccountRequest{}, invalid("bank_account")},
		"account: missing":          {&khatav1.GetBankAccountRequest{BankAccount: "none"}, missing("bank_account")},
		"account: a ledger":         {&khatav1.GetBankAccountRequest{Ledger: "nowhere", BankAccount: "bank"}, "NotFound LEDGER_NOT_FOUND"},
		"accounts: a ledger":        {&khatav1.ListBankAccountsRequest{Ledger: "nowhere"}, "NotFound LEDGER_NOT_FOUND"},
		"accounts: no name":         {&khatav1.ListBankAccountsRequest{Ledger: "*"}, invalid("ledger")},
		"profile: nothing":          {&khatav1.SaveBankProfileRequest{}, invalid("content")},
		"profile: no JSON":          {&khatav1.SaveBankProfileRequest{Content: "{"}, invalid("content")},
		"profile: unknown":          {&khatav1.SaveBankProfileRequest{Content: `{"called":"x"}`}, invalid("content")},
		"profile: no name":          {&khatav1.SaveBankProfileRequest{Content: strings.Replace(plainProfile, `"plain"`, `""`, 1)}, invalid("content")},
		"profile: of no use":        {&khatav1.SaveBankProfileRequest{Content: `{"name":"x","columns":{}}`}, invalid("content")},
		"profile: too long":         {&khatav1.SaveBankProfileRequest{Content: plainProfile + strings.Repeat(" ", 64<<10)}, invalid("content")},
		"profile: missing":          {&khatav1.GetBankProfileRequest{Name: "none"}, missing("name")},
		"profile: a version":        {&khatav1.GetBankProfileRequest{Name: "plain", Version: 9}, missing("name")},
		"profile: less":             {&khatav1.GetBankProfileRequest{Name: "plain", Version: -1}, missing("name")},
		"profiles: a ledger":        {&khatav1.ListBankProfilesRequest{Ledger: "nowhere"}, "NotFound LEDGER_NOT_FOUND"},
		"import: account":           {&khatav1.BankFileSpec{BankAccount: "none"}, missing("bank_account")},
		"import: format":            {&khatav1.BankFileSpec{BankAccount: "bank", Format: "pdf"}, invalid("format")},
		"import: profile":           {&khatav1.BankFileSpec{BankAccount: "bank", Format: "csv", Profile: "none"}, missing("profile")},
		"import: version":           {&khatav1.BankFileSpec{BankAccount: "bank", Format: "csv", ProfileVersion: 7}, missing("profile")},
		"import: no profile":        {&khatav1.BankFileSpec{Format: "csv"}, invalid("profile")},
		"import: name":              {&khatav1.BankFileSpec{BankAccount: "bank", FileName: long}, invalid("file_name")},
		"import: a ledger":          {&khatav1.BankFileSpec{Ledger: "nowhere", BankAccount: "bank"}, "NotFound LEDGER_NOT_FOUND"},
		"file: missing":             {&khatav1.GetBankFileRequest{BankAccount: "bank", No: 1 << 40}, missing("no")},
		"file: none":                {&khatav1.GetBankFileRequest{BankAccount: "bank"}, missing("no")},
		"files: account":            {&khatav1.ListBankFilesRequest{BankAccount: "none"}, missing("bank_account")},
		"line: missing":             {&khatav1.GetBankLineRequest{BankAccount: "bank", No: -1}, missing("no")},
		"lines: from":               {&khatav1.ListBankLinesRequest{BankAccount: "bank", From: "01.02.2026"}, invalid("from")},
		"lines: to":                 {&khatav1.ListBankLinesRequest{BankAccount: "bank", To: "2026-01-32"}, invalid("to")},
		"match: request":            {&khatav1.MatchBankAccountRequest{BankAccount: "bank"}, invalid("request_id")},
		"match: long":               {&khatav1.MatchBankAccountRequest{BankAccount: "bank", RequestId: long}, invalid("request_id")},
		"match: account":            {&khatav1.MatchBankAccountRequest{BankAccount: "none", RequestId: "x"}, missing("bank_account")},
		"run: missing":              {&khatav1.GetReconcileRunRequest{BankAccount: "bank", Run: 1 << 40}, missing("run")},
		"runs: account":             {&khatav1.ListReconcileRunsRequest{BankAccount: "none"}, missing("bank_account")},
		"repeat: missing":           {&khatav1.RepeatReconcileRunRequest{BankAccount: "bank", Run: -1}, missing("run")},
		"repeat: ledger":            {&khatav1.RepeatReconcileRunRequest{Ledger: "?", BankAccount: "bank"}, invalid("ledger")},
		"results: run":              {&khatav1.ListReconcileResultsRequest{BankAccount: "bank", Run: 1 << 40}, missing("run")},
		"results: side":             {&khatav1.ListReconcileResultsRequest{BankAccount: "bank", Side: "left"}, invalid("side")},
		"results: outcome":          {&khatav1.ListReconcileResultsRequest{BankAccount: "bank", Outcomes: []string{"matched", "odd"}}, invalid("outcomes")},
		"suggestions: run":          {&khatav1.ListReconcileSuggestionsRequest{BankAccount: "bank", Run: -1}, missing("run")},
		"confirm: nothing":          {confirm(nil, nil), invalid("lines")},
		"confirm: one":              {confirm(lineA, nil), invalid("entries")},
		"confirm: no line":          {confirm([]*khatav1.LineTake{{Line: line}, {}}, entryA), invalid("lines[1].line")},
		"confirm: negative":         {confirm([]*khatav1.LineTake{{Line: -1}}, entryA), invalid("lines[0].line")},
		"confirm: missing":          {confirm([]*khatav1.LineTake{{Line: 1 << 40}}, entryA), missing("lines")},
		"confirm: zero":             {confirm(amount("0.00"), entryA), invalid("lines[0].amount")},
		"confirm: minus zero":       {confirm(amount("-0"), entryA), invalid("lines[0].amount")},
		"confirm: NaN":              {confirm(amount("NaN"), entryA), invalid("lines[0].amount")},
		"confirm: infinity":         {confirm(amount("Inf"), entryA), invalid("lines[0].amount")},
		"confirm: exponent":         {confirm(amount("5e1"), entryA), invalid("lines[0].amount")},
		"confirm: spaces":           {confirm(amount(" 50"), entryA), invalid("lines[0].amount")},
		"confirm: plus":             {confirm(amount("+50"), entryA), invalid("lines[0].amount")},
		"confirm: long":             {confirm(amount(strings.Repeat("9", 100)), entryA), invalid("lines[0].amount")},
		"confirm: too much":         {confirm(amount("50.01"), entryA), invalid("lines[0].amount")},
		"confirm: other sign":       {confirm(amount("-50"), entryA), invalid("lines[0].amount")},
		"confirm: too fine":         {confirm(amount("50.001"), entryA), "InvalidArgument AMOUNT_SCALE"},
		"confirm: of an entry":      {confirm(lineA, []*khatav1.EntryTake{{TransferId: "A", Amount: "51"}}), invalid("entries[0].amount")},
		"confirm: of both":          {confirm(amount("60"), []*khatav1.EntryTake{{TransferId: "A", Amount: "60"}}), invalid("lines")},
		"confirm: of entries":       {confirm(nil, []*khatav1.EntryTake{{TransferId: "A", Amount: "60"}, {TransferId: "P", Amount: "60"}}), invalid("entries")},
		"confirm: no entry":         {confirm(lineA, []*khatav1.EntryTake{{}}), invalid("entries[0]")},
		"confirm: two names":        {confirm(lineA, []*khatav1.EntryTake{{TransferId: "A", Sequence: 1}}), invalid("entries[0]")},
		"confirm: no id":            {confirm(lineA, []*khatav1.EntryTake{{TransferId: "a b"}}), invalid("entries[0].transfer_id")},
		"confirm: no transfer":      {confirm(lineA, []*khatav1.EntryTake{{TransferId: "none"}}), "NotFound TRANSFER_NOT_FOUND"},
		"confirm: no leg":           {confirm(lineA, []*khatav1.EntryTake{{TransferId: "A", Leg: 7}}), "NotFound TRANSFER_NOT_FOUND"},
		"confirm: forward":          {confirm(lineA, []*khatav1.EntryTake{{Forward: true}}), invalid("entries[0]")},
		"confirm: forward and":      {confirm(lineA, []*khatav1.EntryTake{{Forward: true, TransferId: "A"}}), invalid("entries[0].forward")},
		"confirm: twice":            {confirm([]*khatav1.LineTake{{Line: line}, {Line: line}}, entryA), invalid("lines")},
		"confirm: group":            {confirm(lineA, entryA, func(in *khatav1.ConfirmMatchRequest) { in.Run, in.Group = run, 1 }), invalid("group")},
		"confirm: no group":         {confirm(lineA, entryA, func(in *khatav1.ConfirmMatchRequest) { in.Run = run }), invalid("group")},
		"confirm: no run":           {confirm(nil, nil, func(in *khatav1.ConfirmMatchRequest) { in.Group = 1 }), invalid("run")},
		"confirm: no suggestion":    {confirm(nil, nil, func(in *khatav1.ConfirmMatchRequest) { in.Run, in.Group = run, 99 }), missing("group")},
		"confirm: request":          {confirm(lineA, entryA, func(in *khatav1.ConfirmMatchRequest) { in.RequestId = long }), invalid("request_id")},
		"confirm: reason":           {confirm(lineA, entryA, func(in *khatav1.ConfirmMatchRequest) { in.Reason = long }), invalid("reason")},
		"confirm: account":          {confirm(lineA, entryA, func(in *khatav1.ConfirmMatchRequest) { in.BankAccount = "none" }), missing("bank_account")},
		"confirm: differ":           {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}), invalid("difference")},
		"confirm: none":             {confirm(lineA, entryA, against("cash:fees")), invalid("difference")},
		"confirm: against":          {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("")), invalid("difference.account")},
		"confirm: itself":           {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("cash:bank")), invalid("difference.account")},
		"confirm: another currency": {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("cash:yen")), "InvalidArgument CURRENCY_MISMATCH"},
		"confirm: nothing there":    {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("none")), "NotFound ACCOUNT_NOT_FOUND"},
		"confirm: no time":          {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("cash:fees"), at(&timestamppb.Timestamp{Nanos: -1})), invalid("difference.effective_at")},
		"confirm: a fine time":      {confirm(lineA, []*khatav1.EntryTake{{TransferId: "P"}}, against("cash:fees"), at(&timestamppb.Timestamp{Nanos: 1})), invalid("difference.effective_at")},
		"ignore: nothing":           {ignore(nil, nil), invalid("line")},
		"ignore: both":              {ignore(&khatav1.LineTake{Line: line}, &khatav1.EntryTake{TransferId: "A"}), invalid("line")},
		"ignore: no line":           {ignore(&khatav1.LineTake{}, nil), invalid("line.line")},
		"ignore: missing":           {ignore(&khatav1.LineTake{Line: 1 << 40}, nil), missing("line")},
		"ignore: amount":            {ignore(&khatav1.LineTake{Line: line, Amount: "x"}, nil), invalid("line.amount")},
		"ignore: too much":          {ignore(&khatav1.LineTake{Line: line, Amount: "51"}, nil), invalid("line.amount")},
		"ignore: of an entry":       {ignore(nil, &khatav1.EntryTake{TransferId: "A", Amount: "51"}), invalid("entry.amount")},
		"ignore: an entry's amount": {ignore(nil, &khatav1.EntryTake{TransferId: "A", Amount: "0"}), invalid("entry.amount")},
		"ignore: no entry":          {ignore(nil, &khatav1.EntryTake{}), invalid("entry")},
		"ignore: no id":             {ignore(nil, &khatav1.EntryTake{TransferId: "a b"}), invalid("entry.transfer_id")},
		"ignore: no reason":         {&khatav1.IgnoreItemRequest{BankAccount: "bank", Line: &khatav1.LineTake{Line: line}, Reason: " "}, invalid("reason")},
		"ignore: request":           {&khatav1.IgnoreItemRequest{BankAccount: "bank", Line: &khatav1.LineTake{Line: line}, Reason: "x", RequestId: long}, invalid("request_id")},
		"undo: missing":             {&khatav1.UndoDecisionRequest{BankAccount: "bank", Decision: 1 << 40, Reason: "x"}, missing("decision")},
		"undo: no reason":           {&khatav1.UndoDecisionRequest{BankAccount: "bank", Decision: decision}, invalid("reason")},
		"approve: nothing":          {&khatav1.ApproveDifferenceRequest{BankAccount: "bank", Decision: decision}, invalid("difference")},
		"approve: no account":       {&khatav1.ApproveDifferenceRequest{BankAccount: "bank", Decision: decision, Difference: &khatav1.DifferenceSpec{}}, invalid("difference.account")},
		"approve: no difference":    {&khatav1.ApproveDifferenceRequest{BankAccount: "bank", Decision: decision, Difference: &khatav1.DifferenceSpec{Account: "cash:fees"}}, invalid("decision")},
		"approve: missing":          {&khatav1.ApproveDifferenceRequest{BankAccount: "bank", Decision: 1 << 40, Difference: &khatav1.DifferenceSpec{Account: "cash:fees"}}, missing("decision")},
		"decision: missing":         {&khatav1.GetDecisionRequest{BankAccount: "bank"}, missing("decision")},
		"decisions: kind":           {&khatav1.ListDecisionsRequest{BankAccount: "bank", Kind: "odd"}, invalid("kind")},
		"decisions: both":           {&khatav1.ListDecisionsRequest{BankAccount: "bank", Line: 1, Sequence: 1}, invalid("sequence")},
		"report: none":              {reportOf(func(*khatav1.RunReconcileReportRequest) {}), invalid("report")},
		"report: unknown":           {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report = "balance" }), invalid("report")},
		"statement: a day":          {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Day = "statement", "2026-1-1" }), invalid("day")},
		"statement: as of":          {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.AsOf = "statement", 1<<40 }), invalid("as_of")},
		"statement: through":        {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Through = "statement", -1 }), invalid("through")},
		"statement: a run":          {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Run = "statement", run }), invalid("run")},
		"statement: older":          {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Older = "statement", run }), invalid("older")},
		"statement: account":        {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.BankAccount = "statement", "none" }), missing("bank_account")},
		"statement: ledger":         {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Ledger = "statement", "a b" }), invalid("ledger")},
		"items: run":                {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Run = "items", 1<<40 }), missing("run")},
		"items: side":               {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Side = "items", "left" }), invalid("side")},
		"items: outcome":            {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Outcomes = "items", []string{""} }), invalid("outcomes")},
		"items: from":               {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.From = "items", "x" }), invalid("from")},
		"items: to":                 {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.To = "items", "0000-00-00" }), invalid("to")},
		"items: a day":              {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Day = "items", "2026-01-01" }), invalid("day")},
		"items: detailed":           {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Detailed = "items", true }), invalid("detailed")},
		"changes: no older":         {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report = "changes" }), invalid("older")},
		"changes: older missing":    {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Older = "changes", 1<<40 }), missing("older")},
		"changes: newer missing":    {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Older, in.Run = "changes", run, 1<<40 }), missing("run")},
		"changes: the wrong way":    {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Older, in.Run = "changes", run, run }), invalid("older")},
		"changes: of an open item":  {reportOf(func(in *khatav1.RunReconcileReportRequest) { in.Report, in.Older, in.Open = "changes", run, true }), invalid("open")},
		"changes: no such ledger": {reportOf(func(in *khatav1.RunReconcileReportRequest) {
			in.Report, in.Older, in.Ledger = "changes", run, "nowhere"
		}), "NotFound LEDGER_NOT_FOUND"},
		"confirm: too many, at once": {confirm(slices.Repeat([]*khatav1.LineTake{{Line: line}}, 10_001), nil), invalid("lines")},
	} {
		if got := r.call(t, c.in); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	// Nothing of all that has left anything behind.
	list, err := r.ListDecisions(t.Context(), &khatav1.ListDecisionsRequest{BankAccount: "bank"})
	if err != nil || len(list.GetDecisions()) != 1 {
		t.Errorf("%v, %v", list, err)
	}
}

func against(account string) func(*khatav1.ConfirmMatchRequest) {
	return func(in *khatav1.ConfirmMatchRequest) { in.Difference = &khatav1.DifferenceSpec{Account: account} }
}

func at(time *timestamppb.Timestamp) func(*khatav1.ConfirmMatchRequest) {
	return func(in *khatav1.ConfirmMatchRequest) { in.Difference.EffectiveAt = time }
}

// bankRequests has a request of each method with all its texts filled in.
func bankRequests() []proto.Message {
	settings := bankSettings()
	settings.Tolerance = "0.01"
	difference := &khatav1.DifferenceSpec{Account: "cash:fees", Description: "cents"}
	return []proto.Message{
		&khatav1.CreateBankAccountRequest{Ledger: "main", Name: "new", Account: "cash:other", Zone: "UTC", Begins: "2026-01-01", Settings: settings},
		&khatav1.UpdateBankAccountRequest{Ledger: "main", BankAccount: "bank", Settings: settings},
		&khatav1.GetBankAccountRequest{Ledger: "main", BankAccount: "bank"}, &khatav1.ListBankAccountsRequest{Ledger: "main"},
		&khatav1.SaveBankProfileRequest{Ledger: "main", Content: plainProfile}, &khatav1.GetBankProfileRequest{Ledger: "main", Name: "plain"},
		&khatav1.ListBankProfilesRequest{Ledger: "main"},
		&khatav1.BankFileSpec{Ledger: "main", BankAccount: "bank", FileName: "f", Format: "csv", Profile: "plain"},
		&khatav1.GetBankFileRequest{Ledger: "main", BankAccount: "bank", No: 1}, &khatav1.ListBankFilesRequest{Ledger: "main", BankAccount: "bank"},
		&khatav1.GetBankLineRequest{Ledger: "main", BankAccount: "bank", No: 1},
		&khatav1.ListBankLinesRequest{Ledger: "main", BankAccount: "bank", From: "2026-01-01", To: "2026-01-02"},
		&khatav1.MatchBankAccountRequest{Ledger: "main", BankAccount: "bank", RequestId: "m"},
		&khatav1.GetReconcileRunRequest{Ledger: "main", BankAccount: "bank"}, &khatav1.ListReconcileRunsRequest{Ledger: "main", BankAccount: "bank"},
		&khatav1.RepeatReconcileRunRequest{Ledger: "main", BankAccount: "bank"},
		&khatav1.ListReconcileResultsRequest{Ledger: "main", BankAccount: "bank", Side: "bank", Outcomes: []string{"matched"}},
		&khatav1.ListReconcileSuggestionsRequest{Ledger: "main", BankAccount: "bank"},
		&khatav1.ConfirmMatchRequest{
			Ledger: "main", BankAccount: "bank", RequestId: "c", Reason: "r", Difference: difference,
			Lines: []*khatav1.LineTake{{Line: 1, Amount: "1"}}, Entries: []*khatav1.EntryTake{{TransferId: "A", Amount: "1"}},
		},
		&khatav1.IgnoreItemRequest{Ledger: "main", BankAccount: "bank", RequestId: "i", Reason: "r", Line: &khatav1.LineTake{Line: 1, Amount: "1"}},
		&khatav1.IgnoreItemRequest{Ledger: "main", BankAccount: "bank", RequestId: "i", Reason: "r", Entry: &khatav1.EntryTake{TransferId: "A", Amount: "1"}},
		&khatav1.UndoDecisionRequest{Ledger: "main", BankAccount: "bank", Decision: 1, Reason: "r"},
		&khatav1.ApproveDifferenceRequest{Ledger: "main", BankAccount: "bank", Decision: 1, Difference: difference},
		&khatav1.GetDecisionRequest{Ledger: "main", BankAccount: "bank", Decision: 1},
		&khatav1.ListDecisionsRequest{Ledger: "main", BankAccount: "bank", Kind: "manual"},
		&khatav1.RunReconcileReportRequest{Ledger: "main", BankAccount: "bank", Report: "statement", Day: "2026-01-01"},
		&khatav1.RunReconcileReportRequest{
			Ledger: "main", BankAccount: "bank", Report: "items", Side: "bank", Outcomes: []string{"matched"}, From: "2026-01-01", To: "2026-01-01",
		},
		&khatav1.DriftSpec{Ledger: "main", Profile: "plain", Account: "{account}", Zone: "UTC"},
		&khatav1.DriftSpec{Ledger: "main", ProfileContent: plainProfile, Account: "{account}", Zone: "UTC"},
	}
}

// Every text of every request, set to what cannot be stored or is far too long, is the request's fault, and never the server's.
func TestReconcile_EveryTextOfEveryRequest(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	if _, err := r.MatchBankAccount(t.Context(), &khatav1.MatchBankAccountRequest{BankAccount: "bank", RequestId: "first"}); err != nil { // Listings are of a run.
		t.Fatal(err)
	}
	asked := map[protoreflect.FullName]bool{}
	tried := 0
	for _, request := range bankRequests() {
		asked[bankMessage(request).(proto.Message).ProtoReflect().Descriptor().FullName()] = true
		for name, value := range map[string]string{
			"not UTF-8": "a\xff\xfe", "cut UTF-8": "\xe0\xa6", "surrogates": "\xed\xa0\x80", "NUL": "a\x00b", "100 kB": strings.Repeat("a", 100_000),
		} {
			eachString(request, value, func(field string, changed proto.Message) {
				tried++
				if got := r.call(t, changed); !strings.HasPrefix(got, "InvalidArgument INVALID_ARGUMENT ") {
					t.Errorf("%T with %s %s: got %s", request, field, name, got)
				}
			})
		}
	}
	for i := range bankMethods().Len() {
		if m := bankMethods().Get(i); !asked[m.Input().FullName()] {
			t.Errorf("no request of %s to alter", m.Name())
		}
	}
	if tried < 400 {
		t.Errorf("only %d texts altered", tried)
	}
}

// What is no message at all, or has nothing in it.
func TestReconcile_UndecodableAndEmpty(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	empty := map[string]string{
		"CreateBankAccount": "name", "UpdateBankAccount": "settings", "ListBankAccounts": "OK", "SaveBankProfile": "content", "GetBankProfile": "name",
		"ListBankProfiles": "OK", "ImportBankFile": "spec", "MatchBankAccount": "request_id", "ApproveDifference": "difference", "RunReconcileReport": "report", "RunDriftReport": "spec",
	}
	for i := range bankMethods().Len() {
		m := bankMethods().Get(i)
		for _, raw := range [][]byte{{0xff, 0xff, 0xff}, {0x0a, 0x7f, 'x'}, {0x02, 0x00}, {0x0c}} {
			var answer []byte
			err := askBank(t.Context(), r.conn, m, raw, func() any { return &answer }, grpc.ForceCodec(rawCodec{}))
			if got := fault(err); got != "InvalidArgument INVALID_ARGUMENT" {
				t.Errorf("%s of %x: got %s", m.Name(), raw, got)
			}
		}
		want, ok := empty[string(m.Name())]
		switch {
		case !ok:
			want = invalid("bank_account")
		case want != "OK":
			want = invalid(want)
		}
		var answer []byte
		err := askBank(t.Context(), r.conn, m, []byte{}, func() any { return &answer }, grpc.ForceCodec(rawCodec{}))
		if got := fault(err); got != want {
			t.Errorf("%s of nothing: got %s, want %s", m.Name(), got, want)
		}
	}
}

// A zip says of each file in it what became of it, and names its files as it likes.
func TestImport_Zip(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	pack := func(files map[string]string) string {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for name, content := range files {
			f, err := w.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(f, content)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	two := pack(map[string]string{"1.sta": mt940(1, "01 0,00", "05 50,00", "02 50,00 X"), "2.sta": mt940(2, "05 50,00", "06 49,00", "06 -1,00 Y")})
	for _, replayed := range []bool{false, true} {
		out, err := r.upload(t.Context(), &khatav1.BankFileSpec{}, two)
		if err != nil || len(out.GetFiles()) != 2 || out.GetReplayed() != replayed {
			t.Fatalf("%v, %v", out, err)
		}
		for i, f := range out.GetFiles() {
			if f.GetMember() != fmt.Sprintf("%d.sta", i+1) || f.GetArchive() == "" || f.GetArchive() == f.GetSha256() || f.GetFormat() != "mt940" {
				t.Errorf("%v", f)
			}
		}
	}
	_, err := r.upload(t.Context(), &khatav1.BankFileSpec{}, pack(map[string]string{"x\xff\xfe.sta": mt940(3, "06 49,00", "07 50,00")}))
	if refusal := refusalOf(t, err); refusal.GetReason() != "totals_differ" || !strings.Contains(refusal.GetMember(), ".sta") {
		t.Errorf("%v", refusal)
	}
	for _, name := range []string{"x\xff\xfe.sta", "a\x00b", strings.Repeat("n", 5000)} {
		_, err := r.upload(t.Context(), &khatav1.BankFileSpec{DryRun: true}, pack(map[string]string{name: mt940(3, "06 49,00", "07 49,00")}))
		if err != nil {
			t.Errorf("a member %.10q: %s %v", name, fault(err), err)
		}
	}
}
