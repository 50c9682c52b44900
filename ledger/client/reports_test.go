package client_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// scripted is a server of reports that answers its first call with the first script, and so on.
type scripted struct {
	khatav1.UnimplementedReportServiceServer
	calls     atomic.Int32
	reports   []script[khatav1.RunReportResponse]
	statement []script[khatav1.GetStatementResponse]
	entries   []script[khatav1.ExportEntriesResponse]
	after     []int64
}

// script is what comes on a stream, and how it ends.
type script[M any] struct {
	messages []*M
	err      error
}

func (s script[M]) play(stream grpc.ServerStreamingServer[M]) error {
	for _, m := range s.messages {
		if err := stream.Send(m); err != nil {
			return err
		}
	}
	return s.err
}

func (s *scripted) RunReport(_ *khatav1.RunReportRequest, stream grpc.ServerStreamingServer[khatav1.RunReportResponse]) error {
	return s.reports[s.calls.Add(1)-1].play(stream)
}

func (s *scripted) GetStatement(_ *khatav1.GetStatementRequest, stream grpc.ServerStreamingServer[khatav1.GetStatementResponse]) error {
	return s.statement[s.calls.Add(1)-1].play(stream)
}

func (s *scripted) ExportEntries(in *khatav1.ExportEntriesRequest, stream grpc.ServerStreamingServer[khatav1.ExportEntriesResponse]) error {
	s.after = append(s.after, in.GetAfter())
	return s.entries[s.calls.Add(1)-1].play(stream)
}

func serveReports(t *testing.T, service *scripted) *client.Reports {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	khatav1.RegisterReportServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.Dial(listener.Addr().String(), client.Options{Patience: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c.Reports()
}

// lines notes what it is given of a report. It fails at a row that says so.
type lines []string

var errFull = errors.New("disk full")

func (l *lines) Begin(head client.ReportHead) error {
	*l = append(*l, fmt.Sprint("begin ", head.Report, " ", head.Facts, " ", head.Columns))
	return nil
}

func (l *lines) Row(row client.ReportRow) error {
	if row.Kind == "fail" {
		return errFull
	}
	*l = append(*l, fmt.Sprint(row.Kind, " ", row.Depth, " ", strings.Join(row.Cells, "|")))
	return nil
}

func (l *lines) End(checks []client.ReportCheck) error {
	*l = append(*l, fmt.Sprint("end ", checks))
	return nil
}

func head(columns ...*khatav1.ReportColumn) *khatav1.RunReportResponse {
	return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_Head{Head: &khatav1.ReportHead{
		Report: "r", Facts: []*khatav1.ReportFact{{Id: "ledger", Title: "Ledger", Value: "main"}}, Columns: columns,
	}}}
}

func row(kind string, cells ...string) *khatav1.RunReportResponse {
	return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_Rows{Rows: &khatav1.ReportRows{
		Rows: []*khatav1.ReportRow{{Kind: kind, Depth: 2, Cells: cells}},
	}}}
}

func end() *khatav1.RunReportResponse {
	checks := []*khatav1.ReportCheck{{Name: "n", Detail: "d"}}
	return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_End{End: &khatav1.ReportEnd{Checks: checks}}}
}

func TestReports_Run(t *testing.T) {
	t.Parallel()
	type (
		messages = []*khatav1.RunReportResponse
		scripts  = []script[khatav1.RunReportResponse]
	)
	a := &khatav1.ReportColumn{Id: "a", Title: "A", Kind: "amount"}
	const first, last = "begin r [{ledger Ledger main}] [{a A amount}]", "end [{n false d}]"
	away := status.Error(codes.Unavailable, "away")
	for name, c := range map[string]struct {
		scripts scripts
		want    lines
		code    ledger.Code
	}{
		"a whole one":        {scripts{{messages: messages{head(a), row("item", "1.00"), end()}}}, lines{first, "item 2 1.00", last}, ""},
		"no rows":            {scripts{{messages: messages{head(a), end()}}}, lines{first, last}, ""},
		"a later part":       {scripts{{messages: messages{head(a), {}, end()}}}, lines{first, last}, ""},
		"away at first":      {scripts{{err: away}, {messages: messages{head(a), end()}}}, lines{first, last}, ""},
		"away later":         {scripts{{messages: messages{head(a), row("item", "1")}, err: away}}, lines{first, "item 2 1"}, ledger.CodeUnavailable},
		"cut at the end":     {scripts{{messages: messages{head(a), row("item", "1")}}}, lines{first, "item 2 1"}, ledger.CodeInternal},
		"nothing at all":     {scripts{{}}, nil, ledger.CodeInternal},
		"two heads":          {scripts{{messages: messages{head(a), head(a)}}}, lines{first}, ledger.CodeInternal},
		"rows before a head": {scripts{{messages: messages{row("item")}}}, nil, ledger.CodeInternal},
		"rows after the end": {scripts{{messages: messages{head(a), end(), row("item", "1")}}}, lines{first, last}, ledger.CodeInternal},
		"an end at first":    {scripts{{messages: messages{end()}}}, nil, ledger.CodeInternal},
		"a cell too many":    {scripts{{messages: messages{head(a), row("item", "1", "2")}}}, lines{first}, ledger.CodeInternal},
		"an older server":    {scripts{{err: status.Error(codes.Unimplemented, "unknown service")}}, nil, ledger.CodeInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			service := &scripted{reports: c.scripts}
			var got lines
			err := serveReports(t, service).Run(t.Context(), client.ReportRequest{Report: "r"}, &got)
			if ledger.CodeOf(err) != c.code {
				t.Errorf("error %v, want %q", err, c.code)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("given (-want +got):\n%s", diff)
			}
			if n := int(service.calls.Load()); n != len(c.scripts) {
				t.Errorf("%d calls", n)
			}
		})
	}
}

// An error of the writer ends the report, and comes back as it is.
func TestReports_RunStopsWithItsWriter(t *testing.T) {
	t.Parallel()
	column := &khatav1.ReportColumn{Id: "a"}
	played := script[khatav1.RunReportResponse]{messages: []*khatav1.RunReportResponse{head(column), row("fail", "1"), row("item", "2"), end()}}
	service := &scripted{reports: []script[khatav1.RunReportResponse]{played}}
	var got lines
	if err := serveReports(t, service).Run(t.Context(), client.ReportRequest{}, &got); !errors.Is(err, errFull) || len(got) != 1 {
		t.Errorf("%v after %q", err, got)
	}
	if err := serveReports(t, service).Run(t.Context(), client.ReportRequest{Basis: "x"}, &got); !errors.Is(err, ledger.CodeInvalidArgument) {
		t.Errorf("another basis: %v", err)
	}
}

// A statement comes in parts, and is what its hash says, or an error.
func TestReports_Statement(t *testing.T) {
	t.Parallel()
	hash := sha256.Sum256([]byte("0123456789"))
	s := &khatav1.Statement{Number: 3, Account: "a", Basis: khatav1.Basis_BASIS_VALUE, Sha256: hex.EncodeToString(hash[:])}
	parts := func(texts ...string) []script[khatav1.GetStatementResponse] {
		var played script[khatav1.GetStatementResponse]
		for i, text := range texts {
			m := &khatav1.GetStatementResponse{Content: []byte(text)}
			if i == 0 {
				m.Statement = s
			}
			played.messages = append(played.messages, m)
		}
		return []script[khatav1.GetStatementResponse]{played}
	}
	got, content, err := serveReports(t, &scripted{statement: parts("01234", "", "56789")}).Statement(t.Context(), 3)
	if err != nil || string(content) != "0123456789" || got.Number != 3 || got.Basis != client.Value {
		t.Errorf("%+v %q %v", got, content, err)
	}
	for name, script := range map[string][]script[khatav1.GetStatementResponse]{
		"a part is missing": parts("01234"), "one is other": parts("01234", "x6789"), "nothing comes": {{}},
	} {
		_, content, err := serveReports(t, &scripted{statement: script}).Statement(t.Context(), 3)
		if !errors.Is(err, ledger.CodeInternal) || content != nil {
			t.Errorf("%s: %q %v", name, content, err)
		}
	}
}

// An export of entries goes on where it was when the server comes back, and writes each line once.
func TestReports_ExportEntriesGoesOn(t *testing.T) {
	t.Parallel()
	away := status.Error(codes.Unavailable, "away")
	chunk := func(text string, last int64) *khatav1.ExportEntriesResponse {
		return &khatav1.ExportEntriesResponse{Chunk: []byte(text), LastSequence: last}
	}
	service := &scripted{entries: []script[khatav1.ExportEntriesResponse]{
		{messages: []*khatav1.ExportEntriesResponse{chunk("4\n5\n", 5)}, err: away},
		{err: away},
		{messages: []*khatav1.ExportEntriesResponse{chunk("6\n", 6), chunk("7\n", 7)}, err: away},
		{messages: []*khatav1.ExportEntriesResponse{chunk("", 9)}},
	}}
	var out bytes.Buffer
	last, err := serveReports(t, service).ExportEntries(t.Context(), 3, 0, &out)
	if err != nil || last != 9 || out.String() != "4\n5\n6\n7\n" {
		t.Errorf("%q through %d, %v", &out, last, err)
	}
	if diff := cmp.Diff([]int64{3, 5, 5, 7}, service.after); diff != "" {
		t.Errorf("asked after (-want +got):\n%s", diff)
	}
	// What is final is returned, with how far it came; so is an error of the writer.
	service = &scripted{entries: []script[khatav1.ExportEntriesResponse]{
		{messages: []*khatav1.ExportEntriesResponse{chunk("4\n", 4)}, err: status.Error(codes.PermissionDenied, "no more")},
	}}
	if last, err := serveReports(t, service).ExportEntries(t.Context(), 3, 0, &out); !errors.Is(err, ledger.CodePermissionDenied) || last != 4 {
		t.Errorf("through %d, %v", last, err)
	}
	service = &scripted{entries: []script[khatav1.ExportEntriesResponse]{{messages: []*khatav1.ExportEntriesResponse{chunk("4\n", 4)}}}}
	if last, err := serveReports(t, service).ExportEntries(t.Context(), 3, 0, full{}); !errors.Is(err, errFull) || last != 3 {
		t.Errorf("through %d, %v", last, err)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// Whoever gives up gets an answer at once.
func TestReports_CancelledWhileWaiting(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := serveReports(t, &scripted{}).Run(ctx, client.ReportRequest{}, &lines{}); !errors.Is(err, ledger.CodeCancelled) {
		t.Error(err)
	}
}
