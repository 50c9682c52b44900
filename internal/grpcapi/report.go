package grpcapi

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Reports makes reports, issues statements and gives the books to others. *report.Reports does.
type Reports interface {
	Run(ctx context.Context, request report.Request, w sheet.Writer) error
	Issue(ctx context.Context, spec report.StatementSpec, caller string) (statement report.Statement, issued bool, err error)
	Statement(ctx context.Context, name ledger.Name, number int64) (report.Statement, error)
	Statements(ctx context.Context, name ledger.Name, account ledger.AccountID, before int64, limit int) (list []report.Statement, more bool, err error)
	Books
}

// ReportService serves khata.v1.ReportService.
type ReportService struct {
	khatav1.UnimplementedReportServiceServer
	reports Reports
	// patience is for how long a caller may take nothing of a stream.
	patience time.Duration
}

// ListReports implements khata.v1.ReportService.
func (s *ReportService) ListReports(context.Context, *khatav1.ListReportsRequest) (*khatav1.ListReportsResponse, error) {
	return &khatav1.ListReportsResponse{Reports: each(report.Definitions(), encodeDefinition)}, nil
}

// encodeDefinition says what a report takes by the fields of RunReportRequest.
func encodeDefinition(d report.Definition) *khatav1.ReportDefinition {
	out := &khatav1.ReportDefinition{Name: string(d.Name), Title: d.Title, About: d.About}
	take := func(which report.Takes, fields ...string) {
		if d.Takes&which != 0 {
			out.Takes = append(out.Takes, fields...)
		}
	}
	need := func(which report.Takes, fields ...string) {
		take(which, fields...)
		if d.Takes&which != 0 {
			out.Needs = append(out.Needs, fields...)
		}
	}
	switch {
	case d.Takes&report.NeedsStatement != 0:
	case d.Takes&report.AtOneMoment != 0:
		out.Takes = append(out.Takes, "period.to", "period.zone", "basis")
	case d.Takes&report.NeedsPeriod != 0:
		need(report.NeedsPeriod, "period.from", "period.to")
		out.Takes = append(out.Takes, "period.zone", "basis")
	default:
		out.Takes = append(out.Takes, "period.from", "period.to", "period.zone", "basis")
	}
	take(report.TakesPrefix, "prefix", "currency")
	take(report.TakesAccount, "account")
	need(report.NeedsAccount, "account")
	take(report.TakesDepth, "depth")
	take(report.TakesEmpty, "empty")
	need(report.NeedsStatement, "statement")
	out.Takes = append(out.Takes, "through")
	return out
}

// RunReport implements khata.v1.ReportService.
func (s *ReportService) RunReport(in *khatav1.RunReportRequest, stream grpc.ServerStreamingServer[khatav1.RunReportResponse]) error {
	request := report.Request{
		Report: report.Name(in.GetReport()), Ledger: ledger.Name(in.GetLedger()), Prefix: in.GetPrefix(), Currency: ledger.CurrencyCode(in.GetCurrency()),
		Account: ledger.AccountID(in.GetAccount()), Depth: int(in.GetDepth()), Empty: in.GetEmpty(), Through: in.GetThrough(), Statement: in.GetStatement(),
	}
	var err error
	if request.Period, err = decodePeriod(in.GetPeriod()); err != nil {
		return err
	}
	if request.Basis, err = decodeBasis(in.GetBasis()); err != nil {
		return err
	}
	err = deliver(stream, s.patience, func(ctx context.Context, send func(*khatav1.RunReportResponse) error) error {
		return s.reports.Run(ctx, request, writeReport(send, reportResponse))
	})
	return inPeriod(err)
}

const (
	// rowsPerMessage and bytesPerMessage are about how many rows, and bytes of cells, go into one message of a report.
	rowsPerMessage, bytesPerMessage = 500, 256 << 10
)

// reportPart is a part of a report: one of the three.
type reportPart struct {
	head *khatav1.ReportHead
	rows *khatav1.ReportRows
	end  *khatav1.ReportEnd
}

func reportResponse(p reportPart) *khatav1.RunReportResponse {
	switch {
	case p.head != nil:
		return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_Head{Head: p.head}}
	case p.rows != nil:
		return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_Rows{Rows: p.rows}}
	}
	return &khatav1.RunReportResponse{Part: &khatav1.RunReportResponse_End{End: p.end}}
}

// reportWriter makes parts of a sheet.
type reportWriter struct {
	send func(reportPart) error
	rows []*khatav1.ReportRow
	size int
}

// writeReport makes a writer whose parts are sent as messages of a method.
func writeReport[M any](send func(*M) error, message func(reportPart) *M) *reportWriter {
	return &reportWriter{send: func(p reportPart) error { return send(message(p)) }}
}

// Begin sends the head.
func (w *reportWriter) Begin(head sheet.Head) error {
	out := &khatav1.ReportHead{Report: head.Report, Title: head.Title}
	out.Facts = each(head.Facts, func(f sheet.Fact) *khatav1.ReportFact {
		return &khatav1.ReportFact{Id: f.ID, Title: f.Title, Value: f.Value}
	})
	out.Columns = each(head.Columns, func(c sheet.Column) *khatav1.ReportColumn {
		return &khatav1.ReportColumn{Id: c.ID, Title: c.Title, Kind: string(c.Kind)}
	})
	return w.send(reportPart{head: out})
}

// Row keeps a row until there are enough of them.
func (w *reportWriter) Row(row sheet.Row) error {
	w.rows = append(w.rows, &khatav1.ReportRow{Kind: string(row.Kind), Depth: int32(row.Depth), Cells: row.Cells}) //nolint:gosec // some parts of an id
	for _, cell := range row.Cells {
		w.size += len(cell)
	}
	if len(w.rows) < rowsPerMessage && w.size < bytesPerMessage {
		return nil
	}
	return w.flush()
}

func (w *reportWriter) flush() error {
	if len(w.rows) == 0 {
		return nil
	}
	rows := &khatav1.ReportRows{Rows: w.rows}
	w.rows, w.size = nil, 0
	return w.send(reportPart{rows: rows})
}

// End sends the rows that are left, and the checks.
func (w *reportWriter) End(checks []sheet.Check) error {
	if err := w.flush(); err != nil {
		return err
	}
	return w.send(reportPart{end: &khatav1.ReportEnd{Checks: each(checks, func(c sheet.Check) *khatav1.ReportCheck {
		return &khatav1.ReportCheck{Name: c.Name, Ok: c.OK, Detail: c.Detail}
	})}})
}

// IssueStatement implements khata.v1.ReportService.
func (s *ReportService) IssueStatement(ctx context.Context, in *khatav1.IssueStatementRequest) (*khatav1.IssueStatementResponse, error) {
	spec := report.StatementSpec{Ledger: ledger.Name(in.GetLedger()), Account: ledger.AccountID(in.GetAccount())}
	var err error
	if spec.Period, err = decodePeriod(in.GetPeriod()); err != nil {
		return nil, err
	}
	if spec.Basis, err = decodeBasis(in.GetBasis()); err != nil {
		return nil, err
	}
	statement, issued, err := s.reports.Issue(ctx, spec, caller(ctx))
	if err != nil {
		return nil, inPeriod(err)
	}
	return &khatav1.IssueStatementResponse{Statement: encodeStatement(statement), Issued: issued}, nil
}

// GetStatement implements khata.v1.ReportService.
func (s *ReportService) GetStatement(in *khatav1.GetStatementRequest, stream grpc.ServerStreamingServer[khatav1.GetStatementResponse]) error {
	statement, err := s.reports.Statement(stream.Context(), ledger.Name(in.GetLedger()), in.GetStatement())
	if err != nil {
		return err
	}
	message := &khatav1.GetStatementResponse{Statement: encodeStatement(statement)}
	for part := range slices.Chunk(statement.Content, bytesPerMessage) {
		message.Content = part
		if err := stream.Send(message); err != nil {
			return err
		}
		message = &khatav1.GetStatementResponse{}
	}
	return nil
}

// ListStatements implements khata.v1.ReportService.
func (s *ReportService) ListStatements(ctx context.Context, in *khatav1.ListStatementsRequest) (*khatav1.ListStatementsResponse, error) {
	limit, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	token := statementToken{Account: ledger.AccountID(in.GetAccount())}
	if in.GetPageToken() != "" {
		token.Account = ""
	}
	if err := readToken(in.GetPageToken(), &token); err != nil {
		return nil, err
	}
	if token.Account != ledger.AccountID(in.GetAccount()) {
		return nil, ledger.Invalid("page_token", "is of a listing of another account")
	}
	list, more, err := s.reports.Statements(ctx, ledger.Name(in.GetLedger()), token.Account, token.Before, limit)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListStatementsResponse{Statements: each(list, encodeStatement)}
	if more {
		token.Before = list[len(list)-1].Number
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

func encodeStatement(s report.Statement) *khatav1.Statement {
	return &khatav1.Statement{
		Ledger: string(s.Ledger), Number: s.Number, Account: string(s.Account), Basis: basesOut[s.Basis],
		Ordinal: int32(s.Ordinal), //nolint:gosec // it was one
		Period:  &khatav1.ReportPeriod{From: timestamppb.New(s.Period.From), To: timestamppb.New(s.Period.To), Zone: s.Period.Zone.String()},
		Through: s.Through, IssuedAt: timestamppb.New(s.IssuedAt), IssuedBy: s.IssuedBy, Sha256: s.SHA256,
	}
}

var (
	bases = map[khatav1.Basis]report.Basis{
		khatav1.Basis_BASIS_UNSPECIFIED: report.Booking, khatav1.Basis_BASIS_BOOKING: report.Booking, khatav1.Basis_BASIS_VALUE: report.Value,
	}
	basesOut = map[report.Basis]khatav1.Basis{report.Booking: khatav1.Basis_BASIS_BOOKING, report.Value: khatav1.Basis_BASIS_VALUE}
)

// decodeBasis refuses a basis of a later version: a report by another one than was asked for looks just as right.
func decodeBasis(in khatav1.Basis) (report.Basis, error) {
	basis, ok := bases[in]
	if !ok {
		return "", ledger.Invalid("basis", "is %d, which is not booking or value", in)
	}
	return basis, nil
}

func decodePeriod(in *khatav1.ReportPeriod) (p report.Period, err error) {
	if p.Zone, err = report.ParseZone(in.GetZone()); err != nil {
		return p, inPeriod(err)
	}
	from, err := decodeTime(in.GetFrom(), "period.from")
	if err != nil {
		return p, err
	}
	to, err := decodeTime(in.GetTo(), "period.to")
	if err != nil {
		return p, err
	}
	if from != nil {
		p.From = *from
	}
	if to != nil {
		p.To = *to
	}
	return p, nil
}

// inPeriod calls the fields of a period as the API does.
func inPeriod(err error) error {
	return calling(err, func(field string) string {
		if field == "from" || field == "to" || field == "zone" {
			return "period." + field
		}
		return field
	})
}

// calling gives an error whose fields are called as the API does. One that is about no such field is left as it is, with all that it wraps.
func calling(err error, name func(field string) string) error {
	isOther := func(v ledger.Violation) bool { return name(v.Field) != v.Field }
	var typed *ledger.Error
	if !errors.As(err, &typed) || !slices.ContainsFunc(typed.Violations, isOther) {
		return err
	}
	renamed := *typed
	renamed.Violations = slices.Clone(typed.Violations)
	for i, v := range renamed.Violations {
		renamed.Violations[i].Field = name(v.Field)
	}
	return &renamed
}
