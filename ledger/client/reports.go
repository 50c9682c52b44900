package client

import (
	"context"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Reports asks for reports, statements and exports of the client's ledger. What goes wrong before anything has come of an answer is tried again, as
// every call is; after that the error is returned, since what was given cannot be taken back.
type Reports struct {
	client *Client
	api    khatav1.ReportServiceClient
}

// Reports gives what asks for reports over the client's connection.
func (c *Client) Reports() *Reports {
	return &Reports{client: c, api: khatav1.NewReportServiceClient(c.conn)}
}

// Basis is which of a transfer's two times a report goes by.
type Basis string

// The two bases.
const (
	// Booking goes by posted_at: when Khata recorded the transfer.
	Booking Basis = "booking"
	// Value goes by effective_at, and by posted_at for a transfer without one.
	Value Basis = "value"
)

// ReportPeriod is the time from From up to, and without, To. Either may be zero: from the first transfer on, and up to the last one.
type ReportPeriod struct {
	From, To time.Time
	// Zone is that in which days begin, a name of the IANA database such as Asia/Dhaka; "" is UTC.
	Zone string
}

// ReportDefinition is a report that can be asked for.
type ReportDefinition struct {
	// Name is what ReportRequest.Report calls it, and Title what people read. About says in a sentence what it shows.
	Name, Title, About string
	// Takes are the fields of khata.v1.RunReportRequest that it can be asked for, such as "period.to" or "prefix", and Needs those that it must be.
	Takes, Needs []string
}

// ReportRequest asks for a report. Which of the fields it takes, its definition says.
type ReportRequest struct {
	Report string
	Period ReportPeriod
	// Basis is Booking by default.
	Basis Basis
	// Prefix is what the ids of the accounts begin with, and Currency theirs; Account is the one that the report is of.
	Prefix   string
	Currency ledger.CurrencyCode
	Account  ledger.AccountID
	// Depth is how many parts of an id, between colons, are told apart; 0 is all.
	Depth int
	// Empty includes accounts without a balance and without entries.
	Empty bool
	// Through is the last sequence that counts; 0 is the last one there is.
	Through int64
	// Statement is the number of a statement.
	Statement int64
}

// ReportHead is what comes before the rows of a report.
type ReportHead struct {
	// Report is what programs know it by, and Title what people read.
	Report, Title string
	Facts         []ReportFact
	Columns       []ReportColumn
}

// ReportFact is something that holds for a whole report.
type ReportFact struct{ ID, Title, Value string }

// ReportColumn is a column of a report. Kind is "text", "amount", "count", "time" or "date".
type ReportColumn struct{ ID, Title, Kind string }

// ReportRow is a row of a report, with a cell for each column.
type ReportRow struct {
	// Kind is "item", "opening", "closing", "late", "subtotal" or "total"; Depth is how deep it lies in a tree of accounts.
	Kind  string
	Depth int
	Cells []string
}

// ReportCheck is something that a report has found out about itself. Detail says what was found, if it does not hold.
type ReportCheck struct {
	Name   string
	OK     bool
	Detail string
}

// ReportWriter takes a report: Begin once, Row for each row, End once. After an error it is not called again.
type ReportWriter interface {
	Begin(head ReportHead) error
	Row(row ReportRow) error
	End(checks []ReportCheck) error
}

// List lists the reports that the server makes.
func (r *Reports) List(ctx context.Context) ([]ReportDefinition, error) {
	resp, err := call(ctx, r.client, r.api.ListReports, &khatav1.ListReportsRequest{})
	return each(resp.GetReports(), func(in *khatav1.ReportDefinition) ReportDefinition {
		return ReportDefinition{Name: in.GetName(), Title: in.GetTitle(), About: in.GetAbout(), Takes: in.GetTakes(), Needs: in.GetNeeds()}
	}), err
}

// Run has a report made, and writes it row by row. Without an error it is whole; whether its checks hold, it says itself. It returns
// CodeInvalidArgument, CodeLedgerNotFound, CodeAccountNotFound, and any error of the writer.
func (r *Reports) Run(ctx context.Context, request ReportRequest, w ReportWriter) error {
	in := &khatav1.RunReportRequest{
		Ledger: string(r.client.options.Ledger), Report: request.Report, Period: encodePeriod(request.Period), Prefix: request.Prefix,
		Currency: string(request.Currency), Account: string(request.Account), Empty: request.Empty, Through: request.Through, Statement: request.Statement,
		Depth: int32(min(max(request.Depth, -1), 1000)), // The server refuses what is far too deep.
	}
	var err error
	if in.Basis, err = encodeBasis(request.Basis); err != nil {
		return err
	}
	reading := &reading{w: w}
	if err := follow(ctx, r.client, r.api.RunReport, in, func(m *khatav1.RunReportResponse) error { return reading.part(m) }); err != nil {
		return err
	}
	return reading.complete()
}

// reading is a report that comes in, part by part.
type reading struct {
	w       ReportWriter
	columns int
	begun   bool
	ended   bool
}

// reportPart is a message of any stream that is a report.
type reportPart interface {
	GetHead() *khatav1.ReportHead
	GetRows() *khatav1.ReportRows
	GetEnd() *khatav1.ReportEnd
}

func (r *reading) part(in reportPart) error {
	switch {
	case in.GetHead() != nil:
		if r.begun {
			return outOfOrder()
		}
		r.begun, r.columns = true, len(in.GetHead().GetColumns())
		return r.w.Begin(decodeHead(in.GetHead()))
	case in.GetRows() != nil:
		if !r.begun || r.ended {
			return outOfOrder()
		}
		for _, row := range in.GetRows().GetRows() {
			if len(row.GetCells()) != r.columns {
				return outOfOrder()
			}
			if err := r.w.Row(ReportRow{Kind: row.GetKind(), Depth: int(row.GetDepth()), Cells: row.GetCells()}); err != nil {
				return err
			}
		}
	case in.GetEnd() != nil:
		if !r.begun || r.ended {
			return outOfOrder()
		}
		r.ended = true
		return r.w.End(each(in.GetEnd().GetChecks(), func(c *khatav1.ReportCheck) ReportCheck {
			return ReportCheck{Name: c.GetName(), OK: c.GetOk(), Detail: c.GetDetail()}
		}))
	}
	return nil // A part of a later version can be left out, or it would be another report.
}

func outOfOrder() error {
	return ledger.Errorf(ledger.CodeInternal, "the server sent parts of the report that do not fit together")
}

// complete returns an error unless the report has come to its end.
func (r *reading) complete() error {
	if !r.ended {
		return ledger.Errorf(ledger.CodeInternal, "the server ended the answer before the report was at its end")
	}
	return nil
}

func decodeHead(in *khatav1.ReportHead) ReportHead {
	return ReportHead{
		Report: in.GetReport(), Title: in.GetTitle(),
		Facts: each(in.GetFacts(), func(f *khatav1.ReportFact) ReportFact { return ReportFact{f.GetId(), f.GetTitle(), f.GetValue()} }),
		Columns: each(in.GetColumns(), func(c *khatav1.ReportColumn) ReportColumn {
			return ReportColumn{c.GetId(), c.GetTitle(), c.GetKind()}
		}),
	}
}

// follow reads the messages of a stream. While none has come, the request is sent again as that of a call is.
func follow[Req, Resp any](
	ctx context.Context, c *Client, open func(context.Context, Req, ...grpc.CallOption) (grpc.ServerStreamingClient[Resp], error), req Req,
	yield func(*Resp) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Whoever does not read on tells the server so.
	return c.again(ctx, func() (begun bool, err error) {
		stream, err := open(ctx, req)
		if err != nil {
			return false, fromGRPC(err)
		}
		for {
			message, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				return begun, nil
			}
			if err != nil {
				return begun, fromGRPC(err)
			}
			begun = true
			if err := yield(message); err != nil {
				return begun, err
			}
		}
	})
}

var bases = map[Basis]khatav1.Basis{
	"": khatav1.Basis_BASIS_UNSPECIFIED, Booking: khatav1.Basis_BASIS_BOOKING, Value: khatav1.Basis_BASIS_VALUE,
}

func encodeBasis(basis Basis) (khatav1.Basis, error) {
	out, ok := bases[basis]
	if !ok {
		return 0, ledger.Invalid("basis", "%.40q is not booking or value", string(basis))
	}
	return out, nil
}

func encodePeriod(p ReportPeriod) *khatav1.ReportPeriod {
	out := &khatav1.ReportPeriod{Zone: p.Zone}
	if !p.From.IsZero() {
		out.From = timestamppb.New(p.From)
	}
	if !p.To.IsZero() {
		out.To = timestamppb.New(p.To)
	}
	return out
}
