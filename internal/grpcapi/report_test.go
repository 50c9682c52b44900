package grpcapi_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/report"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// reporter is a server with books to report of.
type reporter struct {
	*bench
	khatav1.ReportServiceClient
}

func reporting(t *testing.T) *reporter {
	t.Helper()
	b := setup(t)
	r := &reporter{b, khatav1.NewReportServiceClient(b.conn)}
	b.accounts(t, "cash BDT", "cash:clearing BDT", "wallet:a BDT", "wallet:b BDT", "idle JPY")
	for i, c := range []struct{ debit, credit, at string }{
		{"cash", "wallet:a", "2026-01-05T00:00:00Z"}, {"wallet:a", "wallet:b", "2026-01-31T17:59:59.999999Z"},
		{"wallet:a", "wallet:b", "2026-01-31T18:00:00Z"}, {"cash:clearing", "wallet:a", "2026-02-10T00:00:00Z"},
	} {
		x := move(fmt.Sprintf("T-%d", i+1), c.debit, c.credit, "10.00")
		x.EffectiveAt = moment(c.at)
		b.post(t, x)
	}
	return r
}

func moment(text string) *timestamppb.Timestamp {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		panic(err)
	}
	return timestamppb.New(t)
}

// january is a month in Dhaka.
func january() *khatav1.ReportPeriod {
	return &khatav1.ReportPeriod{From: moment("2025-12-31T18:00:00Z"), To: moment("2026-01-31T18:00:00Z"), Zone: "Asia/Dhaka"}
}

func receive[M any](stream grpc.ServerStreamingClient[M], err error) ([]*M, error) {
	if err != nil {
		return nil, err
	}
	var all []*M
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, m)
	}
}

// requestFor asks for a report in a way that it can be asked.
func requestFor(d *khatav1.ReportDefinition, statement int64) *khatav1.RunReportRequest {
	in := &khatav1.RunReportRequest{Ledger: "main", Report: d.GetName(), Basis: khatav1.Basis_BASIS_VALUE}
	if slices.Contains(d.GetTakes(), "period.to") {
		in.Period = january()
		if !slices.Contains(d.GetTakes(), "period.from") {
			in.Period.From = nil
		}
	}
	if d.GetName() == string(report.Growth) {
		in.Basis = khatav1.Basis_BASIS_BOOKING
	}
	if slices.Contains(d.GetNeeds(), "account") {
		in.Account = "wallet:a"
	}
	if slices.Contains(d.GetNeeds(), "statement") {
		in.Statement = statement
	}
	return in
}

func (r *reporter) issue(t *testing.T, account string, period *khatav1.ReportPeriod) *khatav1.Statement {
	t.Helper()
	resp, err := r.IssueStatement(t.Context(), &khatav1.IssueStatementRequest{Account: account, Period: period, Basis: khatav1.Basis_BASIS_VALUE})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetStatement()
}

// Each report that is listed can be made, has a head, rows with a cell for each column, and an end at which its checks hold. What it is listed to
// take it takes, and it takes nothing else.
func TestRunReport_Each(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	issued := r.issue(t, "wallet:a", january())
	statement, now := issued.GetNumber(), issued.GetThrough()
	list, err := r.ListReports(t.Context(), &khatav1.ListReportsRequest{})
	if err != nil || len(list.GetReports()) != len(report.Definitions()) {
		t.Fatalf("%d reports, %v", len(list.GetReports()), err)
	}
	set := map[string]func(*khatav1.RunReportRequest){
		"period.from": func(in *khatav1.RunReportRequest) { in.Period = january() },
		"prefix":      func(in *khatav1.RunReportRequest) { in.Prefix = "wallet:" },
		"currency":    func(in *khatav1.RunReportRequest) { in.Currency = "BDT" },
		"account":     func(in *khatav1.RunReportRequest) { in.Account = "wallet:b" },
		"depth":       func(in *khatav1.RunReportRequest) { in.Depth = 1 },
		"empty":       func(in *khatav1.RunReportRequest) { in.Empty = true },
		"statement":   func(in *khatav1.RunReportRequest) { in.Statement = statement },
		"through":     func(in *khatav1.RunReportRequest) { in.Through = now },
	}
	for _, d := range list.GetReports() {
		parts, err := receive(r.RunReport(t.Context(), requestFor(d, statement)))
		if err != nil || len(parts) < 2 {
			t.Errorf("%s: %d parts, %v", d.GetName(), len(parts), err)
			continue
		}
		head, end := parts[0].GetHead(), parts[len(parts)-1].GetEnd()
		if head.GetReport() != d.GetName() || head.GetTitle() != d.GetTitle() || d.GetAbout() == "" || end == nil {
			t.Errorf("%s: head %v, end %v", d.GetName(), head, end)
		}
		for _, check := range end.GetChecks() {
			if !check.GetOk() {
				t.Errorf("%s: %v", d.GetName(), check)
			}
		}
		for _, part := range parts[1 : len(parts)-1] {
			for _, row := range part.GetRows().GetRows() {
				if len(row.GetCells()) != len(head.GetColumns()) || row.GetKind() == "" {
					t.Errorf("%s: row %v", d.GetName(), row)
				}
			}
		}
		for field, change := range set {
			in := requestFor(d, statement)
			change(in)
			_, err := receive(r.RunReport(t.Context(), in))
			refused := strings.HasPrefix(fault(err), "InvalidArgument INVALID_ARGUMENT "+field)
			if takes := slices.Contains(d.GetTakes(), field); takes == refused || takes && err != nil {
				t.Errorf("%s takes %s: %t, and says %v", d.GetName(), field, takes, err)
			}
		}
		for _, field := range d.GetNeeds() {
			in := requestFor(d, statement)
			switch field {
			case "period.from":
				in.Period.From = nil
			case "period.to":
				in.Period.To = nil
			case "account":
				in.Account = ""
			case "statement":
				in.Statement = 0
			default:
				t.Errorf("%s needs %s", d.GetName(), field)
			}
			if _, err := receive(r.RunReport(t.Context(), in)); !strings.HasPrefix(fault(err), "InvalidArgument INVALID_ARGUMENT ") {
				t.Errorf("%s without %s: %v", d.GetName(), field, err)
			}
		}
	}
}

// What is wrong is said of the field that is.
func TestReports_WrongRequests(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	trial := func(change func(*khatav1.RunReportRequest)) error {
		in := &khatav1.RunReportRequest{Report: "trial-balance", Period: january()}
		change(in)
		_, err := receive(r.RunReport(t.Context(), in))
		return err
	}
	book := func(change func(*khatav1.ExportBookRequest)) error {
		in := &khatav1.ExportBookRequest{Format: khatav1.BookFormat_BOOK_FORMAT_HLEDGER}
		change(in)
		_, err := receive(r.ExportBook(t.Context(), in))
		return err
	}
	issue := func(change func(*khatav1.IssueStatementRequest)) error {
		in := &khatav1.IssueStatementRequest{Account: "wallet:a", Period: january()}
		change(in)
		return errOf(r.IssueStatement(t.Context(), in))
	}
	list := func(in *khatav1.ListStatementsRequest) error { return errOf(r.ListStatements(t.Context(), in)) }
	entries := func(in *khatav1.ExportEntriesRequest) error {
		_, err := receive(r.ExportEntries(t.Context(), in))
		return err
	}
	statement := func(in *khatav1.GetStatementRequest) error {
		_, err := receive(r.GetStatement(t.Context(), in))
		return err
	}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"no report":          {trial(func(in *khatav1.RunReportRequest) { in.Report = "profit" }), invalid("report")},
		"no zone":            {trial(func(in *khatav1.RunReportRequest) { in.Period.Zone = "Asia/Nowhere" }), invalid("period.zone")},
		"the machine's zone": {trial(func(in *khatav1.RunReportRequest) { in.Period.Zone = "Local" }), invalid("period.zone")},
		"a path as zone":     {trial(func(in *khatav1.RunReportRequest) { in.Period.Zone = "../etc/passwd" }), invalid("period.zone")},
		"backwards": {trial(func(in *khatav1.RunReportRequest) {
			in.Period.From, in.Period.To = in.GetPeriod().GetTo(), in.GetPeriod().GetFrom()
		}), invalid("period.to")},
		"too fine":            {trial(func(in *khatav1.RunReportRequest) { in.Period.From.Nanos = 1 }), invalid("period.from")},
		"no time":             {trial(func(in *khatav1.RunReportRequest) { in.Period.To.Nanos = -1 }), invalid("period.to")},
		"another basis":       {trial(func(in *khatav1.RunReportRequest) { in.Basis = 9 }), invalid("basis")},
		"too deep":            {trial(func(in *khatav1.RunReportRequest) { in.Depth = 17 }), invalid("depth")},
		"below nothing":       {trial(func(in *khatav1.RunReportRequest) { in.Depth = -1 }), invalid("depth")},
		"still to come":       {trial(func(in *khatav1.RunReportRequest) { in.Through = 1 << 40 }), invalid("through")},
		"no such ledger":      {trial(func(in *khatav1.RunReportRequest) { in.Ledger = "absent" }), "NotFound LEDGER_NOT_FOUND"},
		"no such account":     {trial(func(in *khatav1.RunReportRequest) { in.Report, in.Account = "general-ledger", "nobody" }), "NotFound ACCOUNT_NOT_FOUND"},
		"a book of no format": {book(func(in *khatav1.ExportBookRequest) { in.Format = 0 }), invalid("format")},
		"of another format":   {book(func(in *khatav1.ExportBookRequest) { in.Format = 9 }), invalid("format")},
		"metadata elsewhere":  {book(func(in *khatav1.ExportBookRequest) { in.Format, in.Metadata = 2, true }), invalid("metadata")},
		"a book of no basis":  {book(func(in *khatav1.ExportBookRequest) { in.Basis = -1 }), invalid("basis")},
		"of no zone":          {book(func(in *khatav1.ExportBookRequest) { in.Period = &khatav1.ReportPeriod{Zone: "x"} }), invalid("period.zone")},
		"of no ledger":        {book(func(in *khatav1.ExportBookRequest) { in.Ledger = "absent" }), "NotFound LEDGER_NOT_FOUND"},
		"endless":             {issue(func(in *khatav1.IssueStatementRequest) { in.Period.To = nil }), invalid("period.to")},
		"without a beginning": {issue(func(in *khatav1.IssueStatementRequest) { in.Period.From = nil }), invalid("period.from")},
		"not over": {issue(func(in *khatav1.IssueStatementRequest) {
			in.Period.To = timestamppb.New(time.Now().Add(time.Hour).Truncate(time.Second))
		}), invalid("period.to")},
		"of no basis":           {issue(func(in *khatav1.IssueStatementRequest) { in.Basis = 3 }), invalid("basis")},
		"of nobody":             {issue(func(in *khatav1.IssueStatementRequest) { in.Account = "nobody" }), "NotFound ACCOUNT_NOT_FOUND"},
		"statement 0":           {statement(&khatav1.GetStatementRequest{}), "NotFound NOT_FOUND statement"},
		"statement 9":           {statement(&khatav1.GetStatementRequest{Statement: 9}), "NotFound NOT_FOUND statement"},
		"a page of less":        {list(&khatav1.ListStatementsRequest{PageSize: -1}), invalid("page_size")},
		"statements of nobody":  {list(&khatav1.ListStatementsRequest{Ledger: "absent"}), "NotFound LEDGER_NOT_FOUND"},
		"of another ledger":     {statement(&khatav1.GetStatementRequest{Ledger: "absent", Statement: 1}), "NotFound LEDGER_NOT_FOUND"},
		"no token":              {list(&khatav1.ListStatementsRequest{PageToken: "x"}), invalid("page_token")},
		"before the beginning":  {entries(&khatav1.ExportEntriesRequest{After: -1}), invalid("after")},
		"entries still to come": {entries(&khatav1.ExportEntriesRequest{Through: 1 << 40}), invalid("through")},
		"entries of no ledger":  {entries(&khatav1.ExportEntriesRequest{Ledger: "absent"}), "NotFound LEDGER_NOT_FOUND"},
	} {
		if got := fault(c.err); got != c.want {
			t.Errorf("%s: got %s, want %s (%v)", name, got, c.want, c.err)
		}
	}
}

// Every text of every request, set to what cannot be stored or is far too long, is an INVALID_ARGUMENT about a field.
func TestReports_EveryTextOfEveryRequest(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	requests := map[string][]proto.Message{
		"ListReports": nil,
		"RunReport": {
			&khatav1.RunReportRequest{Ledger: "main", Report: "trial-balance", Period: january(), Prefix: "wallet:", Currency: "BDT"},
			&khatav1.RunReportRequest{Ledger: "main", Report: "balance-over-time", Period: january(), Account: "wallet:a"},
		},
		"IssueStatement": {&khatav1.IssueStatementRequest{Ledger: "main", Account: "wallet:a", Period: january()}},
		"GetStatement":   {&khatav1.GetStatementRequest{Ledger: "main", Statement: r.issue(t, "wallet:b", january()).GetNumber()}},
		"ListStatements": {&khatav1.ListStatementsRequest{Ledger: "main", Account: "wallet:a"}},
		"ExportBook":     {&khatav1.ExportBookRequest{Ledger: "main", Period: january(), Format: khatav1.BookFormat_BOOK_FORMAT_HLEDGER}},
		"ExportEntries":  {&khatav1.ExportEntriesRequest{Ledger: "main"}},
	}
	call := func(m protoreflect.MethodDescriptor, in proto.Message) string {
		kind, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
		if err != nil {
			t.Fatal(err)
		}
		return fault(exchange(t.Context(), r.conn, m, in, func() any { return kind.New().Interface() }))
	}
	for i := range reportMethods().Len() {
		m := reportMethods().Get(i)
		list, ok := requests[string(m.Name())]
		if !ok {
			t.Errorf("no well-formed %s to alter", m.Name())
		}
		for _, request := range list {
			for name, value := range map[string]string{"not UTF-8": "a\xff\xfe", "NUL": "a\x00b", "100 kB": strings.Repeat("a", 100_000)} {
				eachString(request, value, func(field string, changed proto.Message) {
					if got := call(m, changed); !strings.HasPrefix(got, "InvalidArgument INVALID_ARGUMENT ") {
						t.Errorf("%s with %s %s: got %s", m.Name(), field, name, got)
					}
				})
			}
			if got := call(m, request); got != "OK" {
				t.Errorf("%s unaltered: got %s", m.Name(), got)
			}
		}
	}
}

// A statement is issued once, comes back in its bytes, and is listed.
func TestStatements(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	spec := &khatav1.IssueStatementRequest{Account: "wallet:a", Period: january(), Basis: khatav1.Basis_BASIS_VALUE}
	first, err := r.IssueStatement(t.Context(), spec)
	if err != nil || !first.GetIssued() {
		t.Fatal(first, err)
	}
	again, err := r.IssueStatement(t.Context(), spec)
	if err != nil || again.GetIssued() || !proto.Equal(first.GetStatement(), again.GetStatement()) {
		t.Errorf("again: %v, %v", again, err)
	}
	s := first.GetStatement()
	if s.GetLedger() != "main" || s.GetAccount() != "wallet:a" || s.GetOrdinal() != 1 || s.GetBasis() != khatav1.Basis_BASIS_VALUE ||
		s.GetIssuedBy() != "local" || !proto.Equal(s.GetPeriod(), january()) || s.GetThrough() <= 0 || time.Since(s.GetIssuedAt().AsTime()).Abs() > time.Hour {
		t.Errorf("statement %v", s)
	}
	parts, err := receive(r.GetStatement(t.Context(), &khatav1.GetStatementRequest{Statement: s.GetNumber()}))
	if err != nil || len(parts) != 1 || !proto.Equal(parts[0].GetStatement(), s) {
		t.Fatalf("%v, %v", parts, err)
	}
	if hash := sha256.Sum256(parts[0].GetContent()); hex.EncodeToString(hash[:]) != s.GetSha256() || !json.Valid(parts[0].GetContent()) {
		t.Errorf("the hash of %s is not %s", parts[0].GetContent(), s.GetSha256())
	}
	r.issue(t, "wallet:b", january())
	next := january()
	next.From, next.To = nil, moment("2026-02-28T18:00:00Z")
	second := r.issue(t, "wallet:a", next)
	if second.GetOrdinal() != 2 || !proto.Equal(second.GetPeriod().GetFrom(), january().GetTo()) {
		t.Errorf("the second one: %v", second)
	}
	for account, want := range map[string][]string{
		"": {"wallet:a 2", "wallet:b 1", "wallet:a 1"}, "wallet:a": {"wallet:a 2", "wallet:a 1"}, "cash": nil,
	} {
		got := all(t, func(token string) ([]string, string, error) {
			resp, err := r.ListStatements(t.Context(), &khatav1.ListStatementsRequest{Account: account, PageSize: 1, PageToken: token})
			names := each(resp.GetStatements(), func(s *khatav1.Statement) string { return fmt.Sprint(s.GetAccount(), " ", s.GetOrdinal()) })
			return names, resp.GetNextPageToken(), err
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("statements of %q (-want +got):\n%s", account, diff)
		}
	}
	page, err := r.ListStatements(t.Context(), &khatav1.ListStatementsRequest{PageSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.ListStatements(t.Context(), &khatav1.ListStatementsRequest{Account: "cash", PageToken: page.GetNextPageToken()})
	if got := fault(err); got != invalid("page_token") {
		t.Errorf("a token of another listing: %s", got)
	}
}

// The entries come in lines, each once, wherever one goes on.
func TestExportEntries(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	export := func(after, through int64) (text string, last int64) {
		t.Helper()
		parts, err := receive(r.ExportEntries(t.Context(), &khatav1.ExportEntriesRequest{After: after, Through: through}))
		if err != nil || len(parts) == 0 || len(parts[len(parts)-1].GetChunk()) > 0 {
			t.Fatalf("%v, %v", parts, err)
		}
		for _, part := range parts {
			if chunk := part.GetChunk(); len(chunk) > 0 && !bytes.HasSuffix(chunk, []byte("}\n")) {
				t.Errorf("a chunk ends within a line: %q", chunk)
			}
			text += string(part.GetChunk())
			last = part.GetLastSequence()
		}
		return text, last
	}
	whole, end := export(0, 0)
	if n := strings.Count(whole, "\n"); n != 8 {
		t.Fatalf("%d lines:\n%s", n, whole)
	}
	var pieces string
	for at := int64(0); at < end; {
		piece, last := export(at, at+1)
		pieces += piece
		if last != at+1 {
			t.Fatalf("through %d it says %d", at+1, last)
		}
		at = last
	}
	if pieces != whole {
		t.Errorf("in pieces:\n%s\nat once:\n%s", pieces, whole)
	}
	if rest, last := export(end, 0); rest != "" || last != end {
		t.Errorf("after the end: %q, %d", rest, last)
	}
}

// A long answer comes in chunks, which together are the whole.
func TestExportBook(t *testing.T) {
	t.Parallel()
	r := reporting(t)
	for _, format := range []khatav1.BookFormat{khatav1.BookFormat_BOOK_FORMAT_HLEDGER, khatav1.BookFormat_BOOK_FORMAT_BEANCOUNT} {
		for _, running := range []bool{false, true} {
			in := &khatav1.ExportBookRequest{Format: format, Running: running, Period: january(), Basis: khatav1.Basis_BASIS_VALUE}
			parts, err := receive(r.ExportBook(t.Context(), in))
			if err != nil {
				t.Fatal(err)
			}
			var text string
			for _, part := range parts {
				text += string(part.GetChunk())
			}
			if !strings.Contains(text, "; khata-export end transfers=2") || !strings.Contains(text, "T-2") || strings.Contains(text, "T-3") {
				t.Errorf("%s: %s", format, text)
			}
		}
	}
}
