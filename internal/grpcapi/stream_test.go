package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// fakeReports makes up reports.
type fakeReports struct {
	run     func(ctx context.Context, request report.Request, w sheet.Writer) error
	book    func(ctx context.Context, request report.BookRequest, w export.BookWriter) error
	content []byte
	err     error
}

func (f *fakeReports) Run(ctx context.Context, request report.Request, w sheet.Writer) error {
	return f.run(ctx, request, w)
}

func (f *fakeReports) Issue(context.Context, report.StatementSpec, string) (report.Statement, bool, error) {
	return report.Statement{}, false, f.err
}

func (f *fakeReports) Statement(context.Context, ledger.Name, int64) (report.Statement, error) {
	return report.Statement{Number: 7, Content: f.content}, f.err
}

func (f *fakeReports) Statements(context.Context, ledger.Name, ledger.AccountID, int64, int) ([]report.Statement, bool, error) {
	return nil, false, f.err
}

func (f *fakeReports) Book(ctx context.Context, request report.BookRequest, w export.BookWriter) error {
	return f.book(ctx, request, w)
}

func (f *fakeReports) Entries(
	context.Context, ledger.Name, int64, int64, func(*ledger.Transfer, func(ledger.AccountID) ledger.AccountType) error,
) (int64, error) {
	return 0, f.err
}

// serveReports serves these reports, and gives a client and what the server logs.
func serveReports(t *testing.T, reports grpcapi.Reports) (khatav1.ReportServiceClient, *lockedBuffer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	s := grpcapi.New(nil, grpcapi.Config{Reports: reports, Logger: slog.New(slog.NewTextHandler(log, nil))})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return khatav1.NewReportServiceClient(connect(t, listener.Addr().String())), log
}

type lockedBuffer struct {
	sync.Mutex
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.Lock()
	defer b.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.Lock()
	defer b.Unlock()
	return b.buffer.String()
}

// endless is a report without an end. It closes stopped when it has been ended, and tells why.
func endless(stopped chan<- error) func(context.Context, report.Request, sheet.Writer) error {
	return func(_ context.Context, _ report.Request, w sheet.Writer) error {
		err := w.Begin(sheet.Head{Report: "endless", Columns: []sheet.Column{{ID: "a", Kind: sheet.Text}}})
		for err == nil {
			err = w.Row(sheet.Row{Kind: sheet.Item, Cells: []string{strings.Repeat("x", 1000)}})
		}
		stopped <- err
		return err
	}
}

// A caller who goes away while a report comes ends it: what reads the books does not go on for nobody.
func TestStream_CallerGoesAway(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		leave func(t *testing.T) (context.Context, context.CancelFunc)
		want  ledger.Code
	}{
		"cancels": {func(t *testing.T) (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) }, ledger.CodeCancelled},
		"has a deadline": {func(t *testing.T) (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 3*time.Second) // The first rows have to be here by then.
		}, ledger.CodeDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stopped := make(chan error, 1)
			client, _ := serveReports(t, &fakeReports{run: endless(stopped)})
			ctx, cancel := c.leave(t)
			defer cancel()
			stream, err := client.RunReport(ctx, &khatav1.RunReportRequest{Report: "endless"})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := stream.Recv(); err != nil {
					t.Fatal(err)
				}
			}
			if c.want == ledger.CodeCancelled {
				cancel()
			}
			select {
			case err := <-stopped:
				if got := ledger.CodeOf(err); got != c.want && got != ledger.CodeCancelled { // The server may hear of it first that the stream is gone.
					t.Errorf("the report ends with %v, want %s", err, c.want)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the report goes on")
			}
		})
	}
}

// A report that gives nothing yet ends, too.
func TestStream_CallerGoesAwayBeforeTheFirstRow(t *testing.T) {
	t.Parallel()
	begun, stopped := make(chan struct{}), make(chan struct{})
	client, _ := serveReports(t, &fakeReports{run: func(ctx context.Context, _ report.Request, _ sheet.Writer) error {
		close(begun)
		<-ctx.Done()
		close(stopped)
		return ctx.Err()
	}})
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := client.RunReport(ctx, &khatav1.RunReportRequest{}); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Fatal("the report goes on")
	}
}

// stalled is a caller who takes the first messages and then nothing more.
type stalled struct {
	grpc.ServerStream
	ctx   context.Context
	takes int
}

func (s *stalled) Context() context.Context { return s.ctx }

func (s *stalled) Send(*khatav1.RunReportResponse) error {
	if s.takes--; s.takes >= 0 {
		return nil
	}
	<-s.ctx.Done()
	return status.FromContextError(s.ctx.Err()).Err()
}

// Whoever stays, and takes nothing, does not keep others from the database.
func TestStream_CallerTakesNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	produced, delivered := make(chan error, 1), make(chan error, 1)
	produce := func(_ context.Context, send func(*khatav1.RunReportResponse) error) error {
		for {
			if err := send(&khatav1.RunReportResponse{}); err != nil {
				produced <- err
				return err
			}
		}
	}
	go func() { delivered <- grpcapi.DeliverReport(&stalled{ctx: ctx, takes: 2}, 50*time.Millisecond, produce) }()
	select {
	case err := <-produced:
		if !errors.Is(err, ledger.CodeDeadlineExceeded) {
			t.Errorf("the report ends with %v", err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the report waits for its caller")
	}
	cancel()
	if err := <-delivered; status.Code(err) != codes.Canceled {
		t.Errorf("the call ends with %v", err)
	}
}

// What fails in the middle of a stream is told as everything is.
func TestStream_ErrorsInTheMiddle(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err   error
		panic any
		want  string
	}{
		"a fault":             {errors.New("pg: secret"), nil, "Internal INTERNAL"},
		"a panic":             {nil, "secret", "Internal INTERNAL"},
		"no database":         {ledger.Errorf(ledger.CodeUnavailable, "away"), nil, "Unavailable UNAVAILABLE"},
		"too much":            {ledger.Invalid("prefix", "gives too many rows"), nil, "InvalidArgument INVALID_ARGUMENT prefix"},
		"a field of a period": {ledger.Invalid("to", "is too late"), nil, "InvalidArgument INVALID_ARGUMENT period.to"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client, log := serveReports(t, &fakeReports{run: func(_ context.Context, _ report.Request, w sheet.Writer) error {
				if err := w.Begin(sheet.Head{Report: "r"}); err != nil {
					return err
				}
				if c.panic != nil {
					panic(c.panic)
				}
				return c.err
			}})
			stream, err := client.RunReport(t.Context(), &khatav1.RunReportRequest{})
			if err != nil {
				t.Fatal(err)
			}
			if first, err := stream.Recv(); err != nil || first.GetHead().GetReport() != "r" {
				t.Fatalf("%v, %v", first, err)
			}
			_, err = stream.Recv()
			if got := fault(err); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("the caller sees %v", err)
			}
			if logged := strings.Contains(log.String(), "secret"); logged != (c.want == "Internal INTERNAL") {
				t.Errorf("logged: %s", log)
			}
		})
	}
}

// A book that beancount cannot compute with is the request's to mend.
func TestExportBook_BeancountLimit(t *testing.T) {
	t.Parallel()
	client, _ := serveReports(t, &fakeReports{book: func(context.Context, report.BookRequest, export.BookWriter) error {
		return &export.BeancountLimitError{Account: "vault", Why: "too many digits"}
	}})
	stream, err := client.ExportBook(t.Context(), &khatav1.ExportBookRequest{Format: khatav1.BookFormat_BOOK_FORMAT_BEANCOUNT})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); fault(err) != "InvalidArgument INVALID_ARGUMENT format" || !strings.Contains(err.Error(), "vault") {
		t.Errorf("got %v", err)
	}
}

// A statement that is longer than a message may be comes in parts.
func TestGetStatement_Long(t *testing.T) {
	t.Parallel()
	content := bytes.Repeat([]byte("0123456789"), 100_001)
	client, _ := serveReports(t, &fakeReports{content: content})
	stream, err := client.GetStatement(t.Context(), &khatav1.GetStatementRequest{Statement: 7})
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for n := 0; ; n++ {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if (part.GetStatement().GetNumber() == 7) != (n == 0) || len(part.GetContent()) > 1<<20 {
			t.Errorf("part %d: statement %v, %d bytes", n, part.GetStatement(), len(part.GetContent()))
		}
		got = append(got, part.GetContent()...)
	}
	if !bytes.Equal(got, content) {
		t.Errorf("%d bytes, want %d", len(got), len(content))
	}
}

// Without reports a server has no such service.
func TestReports_LeftOut(t *testing.T) {
	t.Parallel()
	client, _ := serveReports(t, nil)
	if _, err := client.ListReports(t.Context(), &khatav1.ListReportsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("ListReports: %v", err)
	}
	stream, err := client.RunReport(t.Context(), &khatav1.RunReportRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Errorf("RunReport: %v", err)
	}
}

// empty is a stream on which nothing comes in.
type empty struct {
	grpc.ServerStream
	ctx  context.Context
	sent int
}

func (e *empty) Context() context.Context { return e.ctx }
func (e *empty) RecvMsg(any) error        { return io.EOF }
func (e *empty) SendMsg(any) error        { e.sent++; return nil }

// A handler that answers without having asked what for gives nothing away.
func TestStream_NothingIsSentBeforeItIsAllowed(t *testing.T) {
	t.Parallel()
	under := &empty{ctx: t.Context()}
	stream := grpcapi.GuardStream(under, func(any) error { return nil })
	if err := stream.SendMsg(&khatav1.RunReportResponse{}); !errors.Is(err, ledger.CodeInternal) || under.sent != 0 {
		t.Errorf("sent %d, %v", under.sent, err)
	}
	if err := stream.RecvMsg(&khatav1.RunReportRequest{}); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Errorf("no request: %v", err)
	}
}

func reportMethods() protoreflect.MethodDescriptors {
	return khatav1.File_khata_v1_report_proto.Services().ByName("ReportService").Methods()
}

// askReports calls a method of ReportService, a stream or not, with a request about a ledger, and reads all that comes.
func askReports(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, ledger string) error {
	in := dynamicpb.NewMessage(m.Input())
	if f := m.Input().Fields().ByName("ledger"); f != nil {
		in.Set(f, protoreflect.ValueOfString(ledger))
	}
	return exchange(ctx, conn, m, in, func() any { return dynamicpb.NewMessage(m.Output()) })
}

// exchange sends a request, and reads all that comes.
func exchange(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, in any, out func() any, options ...grpc.CallOption) error {
	if !m.IsStreamingServer() {
		return conn.Invoke(ctx, path(m), in, out(), options...)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, path(m), options...)
	if err != nil {
		return err
	}
	return converse(stream, in, out)
}

// converse sends one message, and reads all that comes.
func converse(stream grpc.ClientStream, in any, out func() any) error {
	if err := stream.SendMsg(in); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		switch err := stream.RecvMsg(out()); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

func TestPolicy_HasEveryReportMethod(t *testing.T) {
	t.Parallel()
	for i := range reportMethods().Len() {
		m := reportMethods().Get(i)
		rule, ok := auth.RuleOf(path(m))
		if !ok || rule.Scope == auth.Anyone || rule.Roles == 0 {
			t.Errorf("%s is missing from the policy, or for anyone, or no one: %+v", path(m), rule)
		}
		if about := m.Input().Fields().ByName("ledger") != nil; about != (rule.Scope == auth.InLedger) {
			t.Errorf("%s: its request names a ledger: %t, its rule is about one: %t", path(m), about, rule.Scope == auth.InLedger)
		}
	}
	for _, method := range auth.Methods() {
		name, ours := strings.CutPrefix(method, "/khata.v1.ReportService/")
		if ours && reportMethods().ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s has a rule and is no method", method)
		}
	}
}

// Every method × role, the two ways of having none, and other ledgers.
func TestRoles_EveryReportMethod(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	callers := map[string]context.Context{"": t.Context(), "elsewhere": g.as(t, "elsewhere", "other:poster", "other:reader", "other:finance")}
	for _, role := range auth.RoleNames() {
		callers[role] = g.as(t, role, "main:"+role)
	}
	for i := range reportMethods().Len() {
		m := reportMethods().Get(i)
		rule, _ := auth.RuleOf(path(m))
		for name, ctx := range callers {
			want := codes.PermissionDenied
			switch role, err := auth.ParseRole(name); {
			case name == "":
				want = codes.Unauthenticated
			case name == "elsewhere" && rule.Scope == auth.Somewhere, err == nil && rule.Roles&role != 0:
				want = codes.OK
			}
			err := askReports(ctx, g.conn, m, "main")
			got := status.Code(err)
			if denied := got == codes.PermissionDenied || got == codes.Unauthenticated; denied != (want != codes.OK) || denied && got != want {
				t.Errorf("%s by %q: %s, want %s", m.Name(), name, got, want)
			}
			if err != nil && strings.Contains(fault(err), "(") {
				t.Errorf("%s by %q: %s", m.Name(), name, fault(err))
			}
			if name == "" || name == "elsewhere" || rule.Scope != auth.InLedger {
				continue
			}
			// What is not theirs and what is not there look the same.
			there, missing := askReports(ctx, g.conn, m, "other"), askReports(ctx, g.conn, m, "absent")
			if status.Code(there) != codes.PermissionDenied || strings.ReplaceAll(missing.Error(), "absent", "other") != there.Error() {
				t.Errorf("%s in another ledger by %q: %v; in one that there is not: %v", m.Name(), name, there, missing)
			}
		}
	}
}

// A stream is refused before its request is read, and counts as a call.
func TestStream_StrangersAndTheLimit(t *testing.T) {
	t.Parallel()
	g := guard(t, func(c *server.Config) { c.RateLimit, c.RateBurst = 0.001, 3 })
	run := reportMethods().ByName("RunReport")
	var answer []byte
	rubbish := func(ctx context.Context) error {
		return exchange(ctx, g.conn, run, []byte{0xff}, func() any { return &answer }, grpc.ForceCodec(rawCodec{}))
	}
	if got := fault(rubbish(t.Context())); got != "Unauthenticated UNAUTHENTICATED" {
		t.Errorf("rubbish without a token: %s", got)
	}
	if got := fault(rubbish(with(t.Context(), "khata_no_token"))); got != "Unauthenticated UNAUTHENTICATED" {
		t.Errorf("rubbish with a token that is none: %s", got)
	}
	reader := g.as(t, "reader", "main:reader")
	if got := fault(rubbish(reader)); got != "InvalidArgument INVALID_ARGUMENT" {
		t.Errorf("rubbish: %s", got)
	}
	for range 2 {
		if got := fault(askReports(reader, g.conn, run, "main")); got != "InvalidArgument INVALID_ARGUMENT report" {
			t.Errorf("within the limit: %s", got)
		}
	}
	if got := fault(askReports(reader, g.conn, run, "main")); got != "ResourceExhausted RATE_LIMITED" {
		t.Errorf("beyond the limit: %s", got)
	}
	if got := fault(askReports(g.as(t, "other", "main:reader"), g.conn, run, "main")); got != "InvalidArgument INVALID_ARGUMENT report" {
		t.Errorf("another caller: %s", got)
	}
}
