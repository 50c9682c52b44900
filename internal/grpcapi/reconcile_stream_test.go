package grpcapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Parts of an import in the wrong order: nothing is imported, and the caller is told which part it was.
func TestImport_WrongOrder(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	s := spec(&khatav1.BankFileSpec{BankAccount: "bank"})
	file := csvFile("2026-01-02;50.00;R1;one;a")
	for name, c := range map[string]struct {
		messages []*khatav1.ImportBankFileRequest
		want     string
	}{
		"nothing":              {nil, "InvalidArgument INVALID_ARGUMENT"},
		"a chunk alone":        {[]*khatav1.ImportBankFileRequest{chunk(file)}, invalid("spec")},
		"a chunk first":        {[]*khatav1.ImportBankFileRequest{chunk(file), s}, invalid("spec")},
		"an empty part first":  {[]*khatav1.ImportBankFileRequest{{}, s, chunk(file)}, invalid("spec")},
		"an empty chunk first": {[]*khatav1.ImportBankFileRequest{chunk(""), s, chunk(file)}, invalid("spec")},
		"a spec alone":         {[]*khatav1.ImportBankFileRequest{s}, invalid("file")},
		"a spec twice":         {[]*khatav1.ImportBankFileRequest{s, s, chunk(file)}, invalid("spec")},
		"a spec in between":    {[]*khatav1.ImportBankFileRequest{s, chunk(file[:10]), s, chunk(file[10:])}, invalid("spec")},
		"a spec at the end":    {[]*khatav1.ImportBankFileRequest{s, chunk(file), s}, invalid("spec")},
		"an empty part":        {[]*khatav1.ImportBankFileRequest{s, chunk(file), {}}, invalid("chunk")},
	} {
		if _, err := r.send(t.Context(), c.messages...); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", name, fault(err), c.want)
		}
	}
	// In the middle of a file comes what is no message.
	stream, err := r.conn.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, khatav1.ReconcileService_ImportBankFile_FullMethodName,
		grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := proto.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range [][]byte{raw, {0xff, 0xff}} {
		if err := stream.SendMsg(message); err != nil {
			t.Fatal(err)
		}
	}
	var answer []byte
	if err := stream.RecvMsg(&answer); fault(err) != "InvalidArgument INVALID_ARGUMENT" {
		t.Errorf("rubbish in the middle: %v", err)
	}
	r.nothingImported(t.Context(), t, "")
}

func (r *reconciler) nothingImported(ctx context.Context, t *testing.T, ledger string) {
	t.Helper()
	files, err := r.ListBankFiles(ctx, &khatav1.ListBankFilesRequest{Ledger: ledger, BankAccount: "bank"})
	lines, err2 := r.ListBankLines(ctx, &khatav1.ListBankLinesRequest{Ledger: ledger, BankAccount: "bank"})
	if err != nil || err2 != nil || len(files.GetFiles()) != 0 || len(lines.GetLines()) != 0 {
		t.Errorf("%v, %v, %d lines, %v", files, err, len(lines.GetLines()), err2)
	}
}

// Half of a file is no file, whatever ends it, and however much like a whole one it looks.
func TestImport_Cancelled(t *testing.T) {
	t.Parallel()
	r := reconciling(t)
	for name, content := range map[string]string{
		"rows": csvFile("2026-01-02;50.00;R1;one;a"), "a statement": mt940(1, "01 0,00", "05 0,00"), "nothing": "", "a zip": "PK\x03\x04",
	} {
		for how, leave := range map[string]func() (context.Context, context.CancelFunc){
			"cancelled": func() (context.Context, context.CancelFunc) { return context.WithCancel(t.Context()) },
			"at a deadline": func() (context.Context, context.CancelFunc) {
				return context.WithTimeout(t.Context(), 300*time.Millisecond)
			},
		} {
			ctx, cancel := leave()
			stream, err := r.ImportBankFile(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*khatav1.ImportBankFileRequest{spec(&khatav1.BankFileSpec{BankAccount: "bank"}), chunk(content)} {
				err := stream.Send(m)
				late := how == "at a deadline" && errors.Is(err, io.EOF) // It has passed already, on a busy machine.
				if err != nil && !late {
					t.Fatal(err)
				}
			}
			if how == "cancelled" {
				time.Sleep(50 * time.Millisecond) // It is being read by then.
				cancel()
			}
			if err := stream.RecvMsg(&khatav1.ImportBankFileResponse{}); status.Code(err) != codes.Canceled && status.Code(err) != codes.DeadlineExceeded {
				t.Errorf("%s %s: %v", name, how, err)
			}
			cancel()
		}
	}
	// All the room there is has been given back, and nothing came of it.
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for range 3 {
		if _, err := r.upload(ctx, &khatav1.BankFileSpec{BankAccount: "bank", DryRun: true}, mt940(1, "01 0,00", "05 0,00")); err != nil {
			t.Fatal(err)
		}
	}
	r.nothingImported(t.Context(), t, "")
}

// fakeReconciler makes up what it is asked for.
type fakeReconciler struct {
	grpcapi.Reconciler
	imports func(ctx context.Context, in io.Reader) error
	drift   func(ctx context.Context, in io.Reader, w sheet.Writer) error
}

func (f *fakeReconciler) Import(ctx context.Context, _ reconcile.ImportSpec, in io.Reader, _ string) (*reconcile.Import, error) {
	return &reconcile.Import{}, f.imports(ctx, in)
}

func (f *fakeReconciler) Drift(ctx context.Context, _ reconcile.DriftSpec, in io.Reader, w sheet.Writer) (reconcile.DriftSummary, error) {
	return reconcile.DriftSummary{}, f.drift(ctx, in, w)
}

func (f *fakeReconciler) Profile(context.Context, ledger.Name, string, int) (reconcile.StoredProfile, error) {
	return reconcile.StoredProfile{}, nil
}

func (f *fakeReconciler) BankAccounts(context.Context, ledger.Name) ([]*reconcile.BankAccount, error) {
	return nil, nil
}

// impatient serves these with little patience.
func impatient(t *testing.T, r grpcapi.Reconciler, patience, uploadTime time.Duration) (khatav1.ReconcileServiceClient, *lockedBuffer) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	log := &lockedBuffer{}
	s := grpcapi.NewImpatient(grpcapi.Config{Reconciler: r, Logger: slog.New(slog.NewTextHandler(log, nil))}, patience, uploadTime)
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	return khatav1.NewReconcileServiceClient(connect(t, listener.Addr().String())), log
}

func driftSpec() *khatav1.RunDriftReportRequest {
	return &khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Spec{Spec: &khatav1.DriftSpec{Profile: "p", Account: "a"}}}
}

// Who sends nothing more, or goes on for ever with very little, gives its room to others; also where a reader makes something else of the error.
func TestImport_CallerSendsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		patience, uploadTime time.Duration
		trickles             bool
	}{
		"nothing":  {100 * time.Millisecond, time.Hour, false},
		"a little": {time.Hour, 300 * time.Millisecond, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ended := make(chan error, 2)
			read := func(in io.Reader) error {
				_, err := io.Copy(io.Discard, in)
				_, again := in.Read(make([]byte, 1))
				if !errors.Is(again, ledger.CodeDeadlineExceeded) {
					t.Errorf("after the end: %v", again)
				}
				ended <- err
				return ledger.Invalid("file", "is half a file")
			}
			client, _ := impatient(t, &fakeReconciler{
				imports: func(_ context.Context, in io.Reader) error { return read(in) },
				drift:   func(_ context.Context, in io.Reader, _ sheet.Writer) error { return read(in) },
			}, c.patience, c.uploadTime)
			upload, err := client.ImportBankFile(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			drift, err := client.RunDriftReport(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(upload.Send(spec(&khatav1.BankFileSpec{BankAccount: "bank"})), drift.Send(driftSpec())); err != nil {
				t.Fatal(err)
			}
			for i := 0; c.trickles && i < 1000; i++ {
				if upload.Send(chunk("x")) != nil {
					break
				}
				time.Sleep(10 * time.Millisecond)
			}
			for range 2 {
				select {
				case err := <-ended:
					if !errors.Is(err, ledger.CodeDeadlineExceeded) {
						t.Errorf("reading ends with %v", err)
					}
				case <-time.After(10 * time.Second):
					t.Fatal("it waits for its caller")
				}
			}
			if err := upload.RecvMsg(&khatav1.ImportBankFileResponse{}); fault(err) != "DeadlineExceeded DEADLINE_EXCEEDED" {
				t.Errorf("the import ends with %v", err)
			}
			if _, err := drift.Recv(); fault(err) != "DeadlineExceeded DEADLINE_EXCEEDED" {
				t.Errorf("the report ends with %v", err)
			}
		})
	}
}

// Nothing is taken of a file before somebody reads it: who waits for room does not fill the server's memory.
func TestImport_IsNotReadAhead(t *testing.T) {
	t.Parallel()
	begin := make(chan struct{})
	client, _ := impatient(t, &fakeReconciler{imports: func(_ context.Context, in io.Reader) error {
		<-begin
		n, err := io.Copy(io.Discard, in)
		if n != 64<<20 {
			t.Errorf("read %d bytes", n)
		}
		return err
	}}, time.Minute, time.Minute)
	stream, err := client.ImportBankFile(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sent, done := make(chan int, 100), make(chan error, 1)
	go func() {
		err := stream.Send(spec(&khatav1.BankFileSpec{BankAccount: "bank"}))
		for i := 0; i < 64 && err == nil; i++ {
			err = stream.Send(chunk(strings.Repeat("x", 1<<20)))
			sent <- i
		}
		done <- err
	}()
	time.Sleep(300 * time.Millisecond)
	if n := len(sent); n > 4 {
		t.Errorf("%d MiB are on their way already", n)
	}
	close(begin)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if _, err := stream.CloseAndRecv(); err != nil {
		t.Error(err)
	}
}

// A fault, or a panic, while a file comes in is told as everywhere, and ends nothing but the call.
func TestImport_Faults(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() error{
		"a fault": func() error { return errors.New("secret") },
		"a panic": func() error { panic("secret") },
	} {
		fake := &fakeReconciler{
			imports: func(_ context.Context, in io.Reader) error {
				_, _ = in.Read(make([]byte, 1))
				return fail()
			},
			drift: func(_ context.Context, in io.Reader, w sheet.Writer) error {
				_, _ = in.Read(make([]byte, 1))
				return errors.Join(w.Begin(sheet.Head{Report: "r"}), fail())
			},
		}
		client, log := impatient(t, fake, time.Minute, time.Minute)
		upload, err := client.ImportBankFile(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = upload.Send(spec(&khatav1.BankFileSpec{})), upload.Send(chunk("x"))
		if err := upload.RecvMsg(&khatav1.ImportBankFileResponse{}); fault(err) != "Internal INTERNAL" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s of an import: %v", name, err)
		}
		drift, err := client.RunDriftReport(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_, _ = drift.Send(driftSpec()), drift.Send(&khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Chunk{Chunk: []byte("x")}})
		if head, err := drift.Recv(); err != nil || head.GetHead().GetReport() != "r" {
			t.Errorf("%s of a report: %v, %v", name, head, err)
		}
		if _, err := drift.Recv(); fault(err) != "Internal INTERNAL" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s of a report: %v", name, err)
		}
		if strings.Count(log.String(), "secret") != 2 {
			t.Errorf("%s: the log is told %s", name, log)
		}
	}
}

// parts is a stream on which messages come in.
type parts struct {
	grpc.ServerStream
	ctx  context.Context
	left int
}

func (p *parts) Context() context.Context { return p.ctx }
func (p *parts) RecvMsg(any) error {
	if p.left--; p.left < 0 {
		return io.EOF
	}
	return nil
}

// Of a request in parts the first one is authorised, and that it was refused stays so.
func TestStream_Parts(t *testing.T) {
	t.Parallel()
	asked := 0
	stream := grpcapi.GuardParts(&parts{ctx: t.Context(), left: 3}, func(any) error { asked++; return nil })
	for range 3 {
		if err := stream.RecvMsg(&khatav1.ImportBankFileRequest{}); err != nil {
			t.Error(err)
		}
	}
	if err := stream.RecvMsg(&khatav1.ImportBankFileRequest{}); !errors.Is(err, io.EOF) || asked != 1 {
		t.Errorf("asked %d times, %v", asked, err)
	}
	no := ledger.Errorf(ledger.CodePermissionDenied, "no")
	stream = grpcapi.GuardParts(&parts{ctx: t.Context(), left: 3}, func(any) error { return no })
	for range 3 {
		if err := stream.RecvMsg(&khatav1.ImportBankFileRequest{}); !errors.Is(err, ledger.CodePermissionDenied) {
			t.Errorf("a part of what was refused: %v", err)
		}
	}
}

// Without a reconciler a server has no such service.
func TestReconcile_LeftOut(t *testing.T) {
	t.Parallel()
	client, _ := impatient(t, nil, time.Minute, time.Minute)
	if _, err := client.ListBankAccounts(t.Context(), &khatav1.ListBankAccountsRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("%v", err)
	}
}

func TestPolicy_HasEveryBankMethod(t *testing.T) {
	t.Parallel()
	for i := range bankMethods().Len() {
		m := bankMethods().Get(i)
		rule, ok := auth.RuleOf(path(m))
		if !ok || rule.Scope != auth.InLedger || rule.Roles == 0 {
			t.Errorf("%s is missing from the policy, or not about a ledger, or for no one: %+v", path(m), rule)
		}
		input := m.Input()
		if m.IsStreamingClient() { // The guard has to know the part that says what the request is about.
			input = input.Fields().ByName("spec").Message()
		}
		if input.Fields().ByName("ledger") == nil {
			t.Errorf("%s does not say which ledger it is about", m.Name())
		}
	}
	for _, method := range auth.Methods() {
		name, ours := strings.CutPrefix(method, "/khata.v1.ReconcileService/")
		if ours && bankMethods().ByName(protoreflect.Name(name)) == nil {
			t.Errorf("%s has a rule and is no method", method)
		}
	}
}

// askBankAbout calls a method with a request about a ledger, and nothing else in it.
func askBankAbout(ctx context.Context, conn *grpc.ClientConn, m protoreflect.MethodDescriptor, ledger string) error {
	in := dynamicpb.NewMessage(m.Input())
	about := in.ProtoReflect()
	if m.IsStreamingClient() {
		about = in.Mutable(m.Input().Fields().ByName("spec")).Message()
	}
	about.Set(about.Descriptor().Fields().ByName("ledger"), protoreflect.ValueOfString(ledger))
	return askBank(ctx, conn, m, in, func() any { return dynamicpb.NewMessage(m.Output()) })
}

// Every method × role, the two ways of having none, and other ledgers.
func TestRoles_EveryBankMethod(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	callers := map[string]context.Context{"": t.Context(), "elsewhere": g.as(t, "elsewhere", "other:admin", "other:reader", "other:finance")}
	for _, role := range auth.RoleNames() {
		callers[role] = g.as(t, role, "main:"+role)
	}
	for i := range bankMethods().Len() {
		m := bankMethods().Get(i)
		rule, _ := auth.RuleOf(path(m))
		for name, ctx := range callers {
			want := codes.PermissionDenied
			switch role, err := auth.ParseRole(name); {
			case name == "":
				want = codes.Unauthenticated
			case err == nil && rule.Roles&role != 0:
				want = codes.OK
			}
			err := askBankAbout(ctx, g.conn, m, "main")
			got := status.Code(err)
			if denied := got == codes.PermissionDenied || got == codes.Unauthenticated; denied != (want != codes.OK) || denied && got != want {
				t.Errorf("%s by %q: %s, want %s", m.Name(), name, got, want)
			}
			if err != nil && strings.Contains(fault(err), "(") {
				t.Errorf("%s by %q: %s", m.Name(), name, fault(err))
			}
			if name == "" || name == "elsewhere" {
				continue
			}
			// What is not theirs and what is not there look the same.
			there, missing := askBankAbout(ctx, g.conn, m, "other"), askBankAbout(ctx, g.conn, m, "absent")
			if status.Code(there) != codes.PermissionDenied || strings.ReplaceAll(missing.Error(), "absent", "other") != there.Error() {
				t.Errorf("%s in another ledger by %q: %v; in one that there is not: %v", m.Name(), name, there, missing)
			}
		}
	}
	for _, m := range []string{"ImportBankFile", "RunDriftReport"} { // Before anything is read.
		var answer []byte
		err := askBank(t.Context(), g.conn, bankMethods().ByName(protoreflect.Name(m)), []byte{0xff}, func() any { return &answer },
			grpc.ForceCodec(rawCodec{}))
		if fault(err) != "Unauthenticated UNAUTHENTICATED" {
			t.Errorf("%s of rubbish without a token: %v", m, err)
		}
	}
}

// Whoever may import into one ledger imports nothing into another one, in whatever order the parts come. Nor does anybody learn what is there.
func TestImport_IntoAnotherLedger(t *testing.T) {
	t.Parallel()
	g := guard(t, nil)
	r := &reconciler{g.bench, khatav1.NewReconcileServiceClient(g.conn)}
	owner := g.as(t, "owner", "*:admin", "*:poster", "*:finance")
	if _, err := g.CreateLedger(owner, &khatav1.CreateLedgerRequest{Name: "theirs"}); err != nil {
		t.Fatal(err)
	}
	r.open(owner, t, "")
	r.open(owner, t, "theirs")
	clerk := g.as(t, "clerk", "main:finance")
	mine, theirs := spec(&khatav1.BankFileSpec{BankAccount: "bank"}), spec(&khatav1.BankFileSpec{Ledger: "theirs", BankAccount: "bank"})
	file := chunk(csvFile("2026-01-02;50.00;R1;one;a"))
	const denied = "PermissionDenied PERMISSION_DENIED"
	for name, c := range map[string]struct {
		messages []*khatav1.ImportBankFileRequest
		want     string
	}{
		"theirs":                   {[]*khatav1.ImportBankFileRequest{theirs, file}, denied},
		"theirs, then mine":        {[]*khatav1.ImportBankFileRequest{theirs, mine, file}, denied},
		"theirs, and mine later":   {[]*khatav1.ImportBankFileRequest{theirs, file, mine}, denied},
		"mine, then theirs":        {[]*khatav1.ImportBankFileRequest{mine, theirs, file}, invalid("spec")},
		"mine, and theirs later":   {[]*khatav1.ImportBankFileRequest{mine, file, theirs}, invalid("spec")},
		"a chunk, then theirs":     {[]*khatav1.ImportBankFileRequest{file, theirs}, invalid("spec")},
		"nothing, then theirs":     {[]*khatav1.ImportBankFileRequest{{}, theirs, file}, invalid("spec")},
		"what there is not":        {[]*khatav1.ImportBankFileRequest{spec(&khatav1.BankFileSpec{Ledger: "absent"}), file}, denied},
		"all ledgers":              {[]*khatav1.ImportBankFileRequest{spec(&khatav1.BankFileSpec{Ledger: "*", BankAccount: "bank"}), file}, denied},
		"only a look at theirs":    {[]*khatav1.ImportBankFileRequest{spec(&khatav1.BankFileSpec{Ledger: "theirs", BankAccount: "bank", DryRun: true}), file}, denied},
		"mine twice, then theirs":  {[]*khatav1.ImportBankFileRequest{mine, mine, theirs, file}, invalid("spec")},
		"chunks, mine, and theirs": {[]*khatav1.ImportBankFileRequest{file, mine, theirs}, invalid("spec")},
	} {
		if _, err := r.send(clerk, c.messages...); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", name, fault(err), c.want)
		}
	}
	// One message with two parts: the last one counts, for the guard as for the handler.
	first, err := proto.Marshal(mine)
	if err != nil {
		t.Fatal(err)
	}
	second, err := proto.Marshal(&khatav1.ImportBankFileRequest{Part: &khatav1.ImportBankFileRequest_Spec{Spec: &khatav1.BankFileSpec{Ledger: "theirs"}}})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := proto.Marshal(file)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := g.conn.NewStream(clerk, &grpc.StreamDesc{ClientStreams: true}, khatav1.ReconcileService_ImportBankFile_FullMethodName,
		grpc.ForceCodec(rawCodec{}))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = stream.SendMsg(bytes.Join([][]byte{first, second}, nil)), stream.SendMsg(rest)
	_ = stream.CloseSend()
	var answer []byte
	if err := stream.RecvMsg(&answer); fault(err) != denied {
		t.Errorf("two parts in a message: %v", err)
	}
	r.nothingImported(owner, t, "")
	r.nothingImported(owner, t, "theirs")
	// Mine is imported, under my name.
	out, err := r.send(clerk, mine, file)
	if err != nil || out.GetFiles()[0].GetStatements()[0].GetAdded() != 1 {
		t.Fatalf("%v, %v", out, err)
	}
	files, err := r.ListBankFiles(clerk, &khatav1.ListBankFilesRequest{BankAccount: "bank"})
	if err != nil || files.GetFiles()[0].GetImportedBy() != "clerk" {
		t.Errorf("%v, %v", files, err)
	}
	r.nothingImported(owner, t, "theirs")
	// The same of the other stream.
	drift := func(messages ...*khatav1.DriftSpec) error {
		stream, err := r.RunDriftReport(clerk)
		if err != nil {
			return err
		}
		for _, m := range messages {
			_ = stream.Send(&khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Spec{Spec: m}})
		}
		_ = stream.CloseSend()
		_, err = receive(stream, nil)
		return err
	}
	const profile = `{"name":"b","currency":"EUR","columns":{"booking_date":1,"amount":2,"balance":3}}`
	ours := &khatav1.DriftSpec{ProfileContent: profile, Account: "cash:bank"}
	other := &khatav1.DriftSpec{Ledger: "theirs", ProfileContent: profile, Account: "cash:bank"}
	if err := drift(other); fault(err) != denied {
		t.Errorf("a report on theirs: %v", err)
	}
	if err := drift(ours, other); fault(err) != invalid("spec") {
		t.Errorf("a report on mine, and theirs: %v", err)
	}
}
