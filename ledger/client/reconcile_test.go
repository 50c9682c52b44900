package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/shopspring/decimal"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// bank is a server of reconciliation. Each call takes the next of its errors; one that is nil succeeds.
type bank struct {
	khatav1.UnimplementedReconcileServiceServer
	mu       sync.Mutex
	errs     []error
	early    bool // fails before it has read anything of a file
	specs    []string
	files    []string
	requests []string
	pages    []string
	drifts   []script[khatav1.RunDriftReportResponse]
}

func (b *bank) next() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.errs) == 0 {
		return nil
	}
	err := b.errs[0]
	b.errs = b.errs[1:]
	return err
}

func (b *bank) ImportBankFile(stream grpc.ClientStreamingServer[khatav1.ImportBankFileRequest, khatav1.ImportBankFileResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	b.specs = append(b.specs, fmt.Sprint(first.GetSpec().GetLedger(), " ", first.GetSpec().GetBankAccount(), " ", first.GetSpec().GetFileName()))
	if b.early {
		if err := b.next(); err != nil {
			return err
		}
	}
	var file bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if len(m.GetChunk()) == 0 || len(m.GetChunk()) > 1<<20 {
			return status.Errorf(codes.InvalidArgument, "a chunk of %d bytes", len(m.GetChunk()))
		}
		file.Write(m.GetChunk())
	}
	b.files = append(b.files, file.String())
	if err := b.next(); err != nil {
		return err
	}
	return stream.SendAndClose(&khatav1.ImportBankFileResponse{Replayed: true, Files: []*khatav1.BankFile{{
		No: 7, BankAccount: "main", Format: "csv", Statements: []*khatav1.BankFileStatement{
			{Lines: 3, Added: 2, AddedSum: "-1.50", Balance: "98.50", Opening: "100.00", Anchored: true, Checks: []*khatav1.BankCheck{{Name: "totals", State: "held"}}},
		},
	}}})
}

func (b *bank) MatchBankAccount(_ context.Context, in *khatav1.MatchBankAccountRequest) (*khatav1.MatchBankAccountResponse, error) {
	b.requests = append(b.requests, in.GetRequestId())
	if err := b.next(); err != nil {
		return nil, err
	}
	tally := &khatav1.ReconcileTally{Count: 2, Sum: "12.00"}
	return &khatav1.MatchBankAccountResponse{Replayed: true, Run: &khatav1.ReconcileRun{No: 9, Summary: &khatav1.ReconcileSummary{
		Lines: tally, MatchedLines: "3.00", LineOutcomes: map[string]*khatav1.ReconcileTally{"missing_in_ledger": tally},
	}}}, nil
}

func (b *bank) ConfirmMatch(_ context.Context, in *khatav1.ConfirmMatchRequest) (*khatav1.ConfirmMatchResponse, error) {
	b.requests = append(b.requests, in.String())
	if err := b.next(); err != nil {
		return nil, err
	}
	return &khatav1.ConfirmMatchResponse{Replayed: true, Decision: &khatav1.Decision{
		No: 4, Lines: "1.00", Entries: "1.50", Difference: "-0.50", Items: []*khatav1.DecisionItem{{Line: 3, Amount: "1.00"}, {Sequence: 8, Leg: 2, Amount: "1.50"}},
		Undone: &khatav1.DecisionUndone{No: 5, Reason: "why", UndoneAt: timestamppb.New(time.Unix(1, 0))},
	}}, nil
}

func (b *bank) ListBankLines(_ context.Context, in *khatav1.ListBankLinesRequest) (*khatav1.ListBankLinesResponse, error) {
	b.pages = append(b.pages, in.GetPageToken())
	if err := b.next(); err != nil {
		return nil, err
	}
	if in.GetPageToken() == "" {
		return &khatav1.ListBankLinesResponse{NextPageToken: "2", Lines: []*khatav1.BankLine{{No: 1, Amount: "1.00"}, {No: 2, Amount: "2.00"}}}, nil
	}
	return &khatav1.ListBankLinesResponse{Lines: []*khatav1.BankLine{{No: 3, Amount: "3.00", Open: "x"}}}, nil
}

func (b *bank) RunDriftReport(stream grpc.BidiStreamingServer[khatav1.RunDriftReportRequest, khatav1.RunDriftReportResponse]) error {
	var file bytes.Buffer
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		file.Write(m.GetChunk())
	}
	b.files = append(b.files, file.String())
	played := b.drifts[0]
	b.drifts = b.drifts[1:]
	for _, m := range played.messages {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return played.err
}

func serveBank(t *testing.T, service *bank) *client.Reconciliation {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	khatav1.RegisterReconcileServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(listener.Addr().String(), client.Options{Ledger: "shop", Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Reconciliation()
}

var away = status.Error(codes.Unavailable, "away")

// fileText is a file of several chunks.
func fileText() string { return strings.Repeat("0123456789abcde\n", 100_000) }

// onceReader cannot go back.
type onceReader struct{ io.Reader }

// A file arrives whole, and is sent again from where its reader was while there is no answer. A reader that cannot go back is read once.
func TestReconciliation_ImportBankFile(t *testing.T) {
	t.Parallel()
	text := fileText()
	skipped := func(n int64) io.Reader {
		r := strings.NewReader("skipped " + text)
		if _, err := r.Seek(n, io.SeekStart); err != nil {
			t.Fatal(err)
		}
		return r
	}
	for name, c := range map[string]struct {
		errs  []error
		early bool
		in    io.Reader
		code  ledger.Code
		calls int
	}{
		"at once":                         {nil, false, strings.NewReader(text), "", 1},
		"in small pieces":                 {nil, false, onceReader{iotest.HalfReader(strings.NewReader(text))}, "", 1},
		"away twice":                      {[]error{away, away}, false, skipped(8), "", 3},
		"away, and no way back":           {[]error{away}, false, onceReader{strings.NewReader(text)}, ledger.CodeUnavailable, 1},
		"away early, and no way back":     {[]error{away}, true, onceReader{strings.NewReader(text)}, ledger.CodeUnavailable, 1},
		"a server without reconciliation": {[]error{status.Error(codes.Unimplemented, "unknown")}, false, strings.NewReader(text), ledger.CodeInvalidArgument, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{errs: c.errs, early: c.early}
			got, err := serveBank(t, b).ImportBankFile(t.Context(), client.BankFileSpec{BankAccount: "main", FileName: "a.csv"}, c.in)
			if ledger.CodeOf(err) != c.code {
				t.Fatalf("error %v, want %q", err, c.code)
			}
			if len(b.specs) != c.calls || b.specs[0] != "shop main a.csv" {
				t.Errorf("%d calls of %d: %q", len(b.specs), c.calls, b.specs)
			}
			for _, file := range b.files {
				if file != text {
					t.Errorf("a file of %d bytes arrived, of %d", len(file), len(text))
				}
			}
			if c.code != "" {
				return
			}
			s := got.Files[0].Statements[0]
			if !got.Replayed || got.Files[0].No != 7 || s.Opening.String() != "100" || s.Closing != nil || s.AddedSum.String() != "-1.5" || s.Checks[0].State != "held" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What reading the file returned comes back as it is, and the server does not take what has come for all of it.
func TestReconciliation_ImportStopsWithItsReader(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]error{"an error": errFull, "one like an end": io.ErrUnexpectedEOF} {
		b := &bank{}
		in := io.MultiReader(strings.NewReader("half of it"), iotest.ErrReader(failure))
		_, err := serveBank(t, b).ImportBankFile(t.Context(), client.BankFileSpec{}, in)
		if !errors.Is(err, failure) || len(b.files) != 0 {
			t.Errorf("%s: %v, and %d files arrived", name, err, len(b.files))
		}
	}
}

// A file that is refused says why, as a typed error of its own and as every error.
func TestReconciliation_RefusedFile(t *testing.T) {
	t.Parallel()
	st, err := status.New(codes.InvalidArgument, "invalid argument: file: is refused").WithDetails(
		&errdetails.ErrorInfo{Domain: "khata", Reason: "INVALID_ARGUMENT"},
		&errdetails.BadRequest{FieldViolations: []*errdetails.BadRequest_FieldViolation{{Field: "file", Description: "is refused"}}},
		&khatav1.BankFileRefusal{Reason: "gap", Statement: 2, Position: 9, Detail: "d", Stated: "1.00", Computed: "2.00", Checks: []*khatav1.BankCheck{
			{Name: "totals", State: "failed", Stated: "3"},
		}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = serveBank(t, &bank{errs: []error{st.Err()}}).ImportBankFile(t.Context(), client.BankFileSpec{}, strings.NewReader("x"))
	var refused *client.BankFileRefusal
	if !errors.As(err, &refused) {
		t.Fatalf("%v is no refusal", err)
	}
	want := &client.BankFileRefusal{Reason: "gap", Statement: 2, Position: 9, Detail: "d", Stated: "1.00", Computed: "2.00", Checks: []client.BankCheck{
		{Name: "totals", State: "failed", Stated: "3"},
	}}
	if diff := cmp.Diff(want, refused, cmpopts.IgnoreUnexported(client.BankFileRefusal{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Violations[0].Field != "file" || !errors.Is(err, ledger.CodeInvalidArgument) || err.Error() != "invalid argument: file: is refused" {
		t.Errorf("%v", err)
	}
	// One that a caller has made has no error of a server's in it, and is one all the same.
	if err := error(&client.BankFileRefusal{Reason: "gap", Detail: "d"}); !errors.Is(err, ledger.CodeInvalidArgument) || !strings.Contains(err.Error(), "gap") {
		t.Errorf("%v", err)
	}
}

// A run that is asked for again is the same, under an id that the client has made.
func TestReconciliation_MatchIsOneRun(t *testing.T) {
	t.Parallel()
	b := &bank{errs: []error{away, status.Error(codes.Aborted, "people decide")}}
	r := serveBank(t, b)
	run, replayed, err := r.Match(t.Context(), "main", "")
	if err != nil || !replayed || run.No != 9 || run.Summary.LineOutcomes["missing_in_ledger"].Sum.String() != "12" || run.Summary.MatchedLines.String() != "3" {
		t.Errorf("%+v, %v, %v", run, replayed, err)
	}
	if len(b.requests) != 3 || b.requests[0] == "" || b.requests[0] != b.requests[1] || b.requests[0] != b.requests[2] {
		t.Errorf("asked as %q", b.requests)
	}
	for range 2 {
		if _, _, err := r.Match(t.Context(), "main", ""); err != nil {
			t.Error(err)
		}
	}
	if b.requests[3] == b.requests[0] || b.requests[4] == b.requests[3] {
		t.Errorf("another run was asked for under the same id: %q", b.requests)
	}
	if _, _, err := r.Match(t.Context(), "main", "mine"); err != nil || b.requests[5] != "mine" {
		t.Errorf("%q, %v", b.requests, err)
	}
}

// A decision is sent again while its outcome is open. That somebody else was first is no such thing.
func TestReconciliation_Confirm(t *testing.T) {
	t.Parallel()
	b := &bank{errs: []error{away}}
	spec := client.ConfirmSpec{
		BankAccount: "main", RequestID: "r", Lines: []client.LineTake{{Line: 3, Amount: decimal.RequireFromString("-1.50")}, {Line: 4}},
		Entries:    []client.EntryTake{{TransferID: "t", Amount: decimal.RequireFromString("2")}, {Sequence: 8, Leg: 2}, {Forward: true}},
		Difference: &client.DifferenceSpec{Account: "fees", Description: "d"}, Reason: "why",
	}
	d, replayed, err := serveBank(t, b).Confirm(t.Context(), spec)
	if err != nil || !replayed || d.No != 4 || d.Difference.String() != "-0.5" || d.Items[1].Leg != 2 || d.Undone.Reason != "why" {
		t.Errorf("%+v, %v, %v", d, replayed, err)
	}
	if len(b.requests) != 2 || b.requests[0] != b.requests[1] {
		t.Errorf("asked %d times", len(b.requests))
	}
	for _, part := range []string{`line:3 amount:"-1.50"`, `{line:4}`, `transfer_id:"t" amount:"2"`, `sequence:8 leg:2`, `forward:true`, `account:"fees"`} {
		if text := strings.ReplaceAll(b.requests[0], "  ", " "); !strings.Contains(text, part) {
			t.Errorf("%s is not in %s", part, text)
		}
	}
	b = &bank{errs: []error{status.Error(codes.Aborted, "somebody was first")}}
	if _, _, err := serveBank(t, b).Confirm(t.Context(), spec); !errors.Is(err, ledger.CodeConflict) || len(b.requests) != 1 {
		t.Errorf("%v after %d requests", err, len(b.requests))
	}
}

// A list goes through its pages, each time it is ranged over, and ends with an error.
func TestReconciliation_Lists(t *testing.T) {
	t.Parallel()
	b := &bank{errs: []error{away}}
	lines := serveBank(t, b).BankLines(t.Context(), "main", client.BankLineFilter{})
	for range 2 {
		var got []int64
		var failed error
		for l, err := range lines {
			if err != nil {
				failed = err
				continue
			}
			got = append(got, l.No)
		}
		if diff := cmp.Diff([]int64{1, 2}, got); diff != "" || !errors.Is(failed, ledger.CodeInternal) {
			t.Errorf("%v; (-want +got):\n%s", failed, diff)
		}
	}
	if diff := cmp.Diff([]string{"", "", "2", "", "2"}, b.pages); diff != "" {
		t.Errorf("pages (-want +got):\n%s", diff)
	}
	for _, err := range lines {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if len(b.pages) != 6 {
		t.Errorf("whoever has enough asks for no more: %q", b.pages)
	}
}

// A report of a file is asked for again only while nothing of it has come.
func TestReconciliation_Drift(t *testing.T) {
	t.Parallel()
	type messages = []*khatav1.RunDriftReportResponse
	first := &khatav1.RunDriftReportResponse{Part: &khatav1.RunDriftReportResponse_Head{Head: &khatav1.ReportHead{Report: "drift"}}}
	last := &khatav1.RunDriftReportResponse{Part: &khatav1.RunDriftReportResponse_End{End: &khatav1.ReportEnd{}}}
	const begun, ended = "begin drift [] []", "end []"
	for name, c := range map[string]struct {
		scripts []script[khatav1.RunDriftReportResponse]
		in      io.Reader
		want    lines
		code    ledger.Code
	}{
		"a whole one":           {[]script[khatav1.RunDriftReportResponse]{{messages: messages{first, last}}}, strings.NewReader(fileText()), lines{begun, ended}, ""},
		"away at first":         {[]script[khatav1.RunDriftReportResponse]{{err: away}, {messages: messages{first, last}}}, strings.NewReader(fileText()), lines{begun, ended}, ""},
		"away later":            {[]script[khatav1.RunDriftReportResponse]{{messages: messages{first}, err: away}}, strings.NewReader(fileText()), lines{begun}, ledger.CodeUnavailable},
		"cut at the end":        {[]script[khatav1.RunDriftReportResponse]{{messages: messages{first}}}, strings.NewReader(fileText()), lines{begun}, ledger.CodeInternal},
		"away, and no way back": {[]script[khatav1.RunDriftReportResponse]{{err: away}}, onceReader{strings.NewReader(fileText())}, nil, ledger.CodeUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := &bank{drifts: c.scripts}
			var got lines
			err := serveBank(t, b).Drift(t.Context(), client.DriftSpec{Profile: "p", Account: "a"}, c.in, &got)
			if ledger.CodeOf(err) != c.code {
				t.Errorf("error %v, want %q", err, c.code)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("given (-want +got):\n%s", diff)
			}
			if len(b.drifts) != 0 || len(b.files) != len(c.scripts) || b.files[len(b.files)-1] != fileText() {
				t.Errorf("%d files arrived, %d scripts are left", len(b.files), len(b.drifts))
			}
		})
	}
	r := serveBank(t, &bank{})
	if err := r.Drift(t.Context(), client.DriftSpec{Basis: "x"}, strings.NewReader(""), &lines{}); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Error(err)
	}
	if err := r.Drift(t.Context(), client.DriftSpec{MoneyIn: "x"}, strings.NewReader(""), &lines{}); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Error(err)
	}
}
