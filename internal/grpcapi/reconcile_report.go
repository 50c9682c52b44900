package grpcapi

import (
	"context"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// reconcileReports are the reports about a bank account, and what each takes beside it.
var reconcileReports = map[string][]protoreflect.Name{
	"statement": {"day", "detailed", "as_of", "through"},
	"items":     {"run", "side", "outcomes", "from", "to", "open"},
	"changes":   {"run", "older"},
}

// RunReconcileReport implements khata.v1.ReconcileService.
func (s *ReconcileService) RunReconcileReport(in *khatav1.RunReconcileReportRequest,
	stream grpc.ServerStreamingServer[khatav1.RunReconcileReportResponse]) error {
	if err := takes(in); err != nil {
		return err
	}
	name, err := decodeLedger(in)
	if err != nil {
		return err
	}
	write := s.writeChanges
	switch in.GetReport() {
	case "statement":
		write = s.writeStatement
	case "items":
		write = s.writeItems
	}
	return deliver(stream, s.patience, func(ctx context.Context, send func(*khatav1.RunReconcileReportResponse) error) error {
		return write(ctx, name, in, writeReport(send, reconcileReportResponse))
	})
}

// takes refuses what a report takes no notice of: one that looks as if it had would be believed.
func takes(in *khatav1.RunReconcileReportRequest) error {
	taken, ok := reconcileReports[in.GetReport()]
	if !ok {
		return ledger.Invalid("report", "%.40q is none of statement, items and changes", in.GetReport())
	}
	m := in.ProtoReflect()
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		switch name := field.Name(); {
		case name == "ledger" || name == "bank_account" || name == "report" || slices.Contains(taken, name):
		case m.Has(field):
			return ledger.Invalid(string(name), "is nothing that report %s takes", in.GetReport())
		}
	}
	return nil
}

func (s *ReconcileService) writeStatement(ctx context.Context, name ledger.Name, in *khatav1.RunReconcileReportRequest, w sheet.Writer) error {
	day, err := decodeDay(in.GetDay(), "day")
	if err != nil {
		return err
	}
	return s.reconciler.Statement(ctx, reconcile.StatementSpec{
		Ledger: name, BankAccount: in.GetBankAccount(), Day: day, Items: in.GetDetailed(), AsOf: in.GetAsOf(), Through: in.GetThrough(),
	}, w)
}

func (s *ReconcileService) writeItems(ctx context.Context, name ledger.Name, in *khatav1.RunReconcileReportRequest, w sheet.Writer) error {
	from, to, err := decodeDays(in)
	if err != nil {
		return err
	}
	return s.reconciler.Items(ctx, reconcile.ItemsSpec{
		Ledger: name, BankAccount: in.GetBankAccount(), Run: in.GetRun(), Side: reconcile.Side(in.GetSide()),
		Outcomes: decodeOutcomes(in.GetOutcomes()), From: from, To: to, Open: in.GetOpen(),
	}, w)
}

func (s *ReconcileService) writeChanges(ctx context.Context, name ledger.Name, in *khatav1.RunReconcileReportRequest, w sheet.Writer) error {
	if in.GetOlder() == 0 {
		return ledger.Invalid("older", "is required")
	}
	// Of two runs, one that there is not is said by which field it was named.
	if _, err := s.reconciler.Run(ctx, name, in.GetBankAccount(), in.GetOlder()); err != nil {
		return calling(err, called("run", "older"))
	}
	return s.reconciler.Changes(ctx, name, in.GetBankAccount(), in.GetOlder(), in.GetRun(), w)
}

func reconcileReportResponse(p reportPart) *khatav1.RunReconcileReportResponse {
	switch {
	case p.head != nil:
		return &khatav1.RunReconcileReportResponse{Part: &khatav1.RunReconcileReportResponse_Head{Head: p.head}}
	case p.rows != nil:
		return &khatav1.RunReconcileReportResponse{Part: &khatav1.RunReconcileReportResponse_Rows{Rows: p.rows}}
	}
	return &khatav1.RunReconcileReportResponse{Part: &khatav1.RunReconcileReportResponse_End{End: p.end}}
}

// RunDriftReport implements khata.v1.ReconcileService.
func (s *ReconcileService) RunDriftReport(stream grpc.BidiStreamingServer[khatav1.RunDriftReportRequest, khatav1.RunDriftReportResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	spec, profileField, err := s.decodeDrift(stream.Context(), first.GetSpec())
	if err != nil {
		return err
	}
	return deliver(stream, s.patience, func(ctx context.Context, send func(*khatav1.RunDriftReportResponse) error) error {
		in := &upload{ctx: ctx, patience: s.patience, within: s.uploadTime, next: func() ([]byte, error) {
			m, err := stream.Recv()
			if err != nil {
				return nil, err
			}
			part, ok := m.GetPart().(*khatav1.RunDriftReportRequest_Chunk)
			if !ok {
				return nil, errPart(m.GetSpec() != nil)
			}
			return part.Chunk, nil
		}}
		_, err := s.reconciler.Drift(ctx, spec, in, writeReport(send, driftReportResponse))
		if err != nil && in.failed() != nil {
			return in.failed()
		}
		return calling(err, called("profile", profileField))
	})
}

// decodeDrift also gives the field that says how the file is read.
func (s *ReconcileService) decodeDrift(ctx context.Context, in *khatav1.DriftSpec) (spec reconcile.DriftSpec, profileField string, err error) {
	spec = reconcile.DriftSpec{Account: in.GetAccount(), Through: in.GetThrough(), All: in.GetAll()}
	if spec.Ledger, err = decodeLedger(in); err != nil {
		return spec, "", err
	}
	if spec.MoneyIn, err = decodeMoneyIn(in.GetMoneyIn()); err != nil {
		return spec, "", err
	}
	if spec.Basis, err = decodeBasis(in.GetBasis()); err != nil {
		return spec, "", err
	}
	if spec.Zone, err = report.ParseZone(in.GetZone()); err != nil {
		return spec, "", err
	}
	switch {
	case in.GetProfile() != "" && in.GetProfileContent() != "":
		return spec, "", ledger.Invalid("profile_content", "and profile cannot be given together")
	case in.GetProfileContent() != "":
		profile, err := decodeProfile(in.GetProfileContent(), "profile_content")
		if err != nil {
			return spec, "", err
		}
		spec.Profile = *profile
		return spec, "profile_content", nil
	}
	stored, err := s.reconciler.Profile(ctx, spec.Ledger, in.GetProfile(), 0)
	spec.Profile = stored.Profile
	return spec, "profile", err
}

func driftReportResponse(p reportPart) *khatav1.RunDriftReportResponse {
	switch {
	case p.head != nil:
		return &khatav1.RunDriftReportResponse{Part: &khatav1.RunDriftReportResponse_Head{Head: p.head}}
	case p.rows != nil:
		return &khatav1.RunDriftReportResponse{Part: &khatav1.RunDriftReportResponse_Rows{Rows: p.rows}}
	}
	return &khatav1.RunDriftReportResponse{Part: &khatav1.RunDriftReportResponse_End{End: p.end}}
}
