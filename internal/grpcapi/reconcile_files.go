package grpcapi

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// formats are those that a file can be said to have; "" has it recognised.
var formats = []bankfile.Format{
	"", bankfile.FormatCSV, bankfile.FormatStripe, bankfile.FormatCamt053, bankfile.FormatMT940, bankfile.FormatBAI2, bankfile.FormatOFX,
	bankfile.FormatZip,
}

// ImportBankFile implements khata.v1.ReconcileService.
func (s *ReconcileService) ImportBankFile(stream grpc.ClientStreamingServer[khatav1.ImportBankFileRequest, khatav1.ImportBankFileResponse]) error {
	ctx := stream.Context()
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	spec, err := s.decodeImport(ctx, first.GetSpec())
	if err != nil {
		return err
	}
	in := &upload{ctx: ctx, patience: s.patience, within: s.uploadTime, next: func() ([]byte, error) {
		m, err := stream.Recv()
		if err != nil {
			return nil, err
		}
		part, ok := m.GetPart().(*khatav1.ImportBankFileRequest_Chunk)
		if !ok {
			return nil, errPart(m.GetSpec() != nil)
		}
		return part.Chunk, nil
	}}
	imported, err := s.reconciler.Import(ctx, spec, in, caller(ctx))
	if err != nil && in.failed() != nil {
		return in.failed() // Half a file may look like one that is to be refused.
	}
	if err != nil {
		return err
	}
	accounts, err := s.reconciler.BankAccounts(ctx, spec.Ledger)
	if err != nil {
		return err
	}
	scales := map[string]int32{}
	for _, a := range accounts {
		scales[a.Name] = a.Currency.Scale
	}
	out := &khatav1.ImportBankFileResponse{Replayed: imported.Replayed}
	for i := range imported.Files {
		f := &imported.Files[i]
		out.Files = append(out.Files, encodeFile(f, scales[f.BankAccount]))
	}
	return stream.SendAndClose(out)
}

func (s *ReconcileService) decodeImport(ctx context.Context, in *khatav1.BankFileSpec) (reconcile.ImportSpec, error) {
	spec := reconcile.ImportSpec{
		BankAccount: in.GetBankAccount(), FileName: in.GetFileName(), Format: bankfile.Format(in.GetFormat()), Profile: in.GetProfile(),
		ProfileVersion: int(in.GetProfileVersion()), DryRun: in.GetDryRun(),
	}
	var err error
	if spec.Ledger, err = decodeLedger(in); err != nil {
		return spec, err
	}
	if !slices.Contains(formats, spec.Format) {
		return spec, ledger.Invalid("format", "%.40q is none of %s", in.GetFormat(), strings.Join(each(formats[1:], func(f bankfile.Format) string {
			return string(f)
		}), ", "))
	}
	if spec.Format != bankfile.FormatCSV || spec.Profile != "" {
		return spec, nil
	}
	if spec.BankAccount != "" {
		a, err := s.account(ctx, in)
		if err != nil || a.Settings.Profile != "" {
			return spec, err
		}
	}
	return spec, ledger.Invalid("profile", "is required, or a bank_account whose settings have one: nothing else says how CSV is read")
}

// GetBankFile implements khata.v1.ReconcileService.
func (s *ReconcileService) GetBankFile(ctx context.Context, in *khatav1.GetBankFileRequest) (*khatav1.GetBankFileResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	f, err := s.reconciler.File(ctx, a.Ledger, a.Name, in.GetNo())
	if err != nil {
		return nil, calling(err, called("file", "no"))
	}
	return &khatav1.GetBankFileResponse{File: encodeFile(f, a.Currency.Scale)}, nil
}

// ListBankFiles implements khata.v1.ReconcileService.
func (s *ReconcileService) ListBankFiles(ctx context.Context, in *khatav1.ListBankFilesRequest) (*khatav1.ListBankFilesResponse, error) {
	limit, token, err := readPage(in)
	if err != nil {
		return nil, err
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Files(ctx, a.Ledger, a.Name, token.No, limit)
	if err != nil {
		return nil, err
	}
	files := each(list, func(f reconcile.File) *khatav1.BankFile { return encodeFile(&f, a.Currency.Scale) })
	n := fitting(files)
	out := &khatav1.ListBankFilesResponse{Files: files[:n]}
	if more || n < len(files) {
		token.No = files[n-1].GetNo()
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}

// GetBankLine implements khata.v1.ReconcileService.
func (s *ReconcileService) GetBankLine(ctx context.Context, in *khatav1.GetBankLineRequest) (*khatav1.GetBankLineResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	l, err := s.reconciler.Line(ctx, a.Ledger, a.Name, in.GetNo())
	if err != nil {
		return nil, calling(err, called("line", "no"))
	}
	return &khatav1.GetBankLineResponse{Line: encodeLine(l, a.Currency)}, nil
}

// ListBankLines implements khata.v1.ReconcileService.
func (s *ReconcileService) ListBankLines(ctx context.Context, in *khatav1.ListBankLinesRequest) (*khatav1.ListBankLinesResponse, error) {
	limit, token, err := readPage(in)
	if err != nil {
		return nil, err
	}
	filter := reconcile.LineFilter{File: in.GetFile(), Counting: in.GetCounting(), Open: in.GetOpen(), After: token.No, Limit: limit}
	if filter.From, filter.To, err = decodeDays(in); err != nil {
		return nil, err
	}
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	list, more, err := s.reconciler.Lines(ctx, a.Ledger, a.Name, filter)
	if err != nil {
		return nil, err
	}
	lines := each(list, func(l *reconcile.Line) *khatav1.BankLine { return encodeLine(l, a.Currency) })
	n := fitting(lines)
	out := &khatav1.ListBankLinesResponse{Lines: lines[:n]}
	if more || n < len(lines) {
		token.No = lines[n-1].GetNo()
		out.NextPageToken = writeToken(token)
	}
	return out, nil
}
