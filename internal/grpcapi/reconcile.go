package grpcapi

import (
	"context"
	"io"
	"time"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Reconciler compares the books with what banks say. *reconcile.Reconciler does.
type Reconciler interface {
	CreateBankAccount(ctx context.Context, spec reconcile.BankAccountSpec, caller string) (*reconcile.BankAccount, error)
	Set(ctx context.Context, name ledger.Name, bankAccount string, settings reconcile.Settings, caller string) (*reconcile.BankAccount, error)
	BankAccount(ctx context.Context, name ledger.Name, bankAccount string) (*reconcile.BankAccount, error)
	BankAccounts(ctx context.Context, name ledger.Name) ([]*reconcile.BankAccount, error)
	SaveProfile(ctx context.Context, name ledger.Name, profile bankfile.Profile, caller string) (reconcile.StoredProfile, error)
	Profile(ctx context.Context, name ledger.Name, profile string, version int) (reconcile.StoredProfile, error)
	Profiles(ctx context.Context, name ledger.Name) ([]reconcile.StoredProfile, error)

	Import(ctx context.Context, spec reconcile.ImportSpec, in io.Reader, caller string) (*reconcile.Import, error)
	File(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.File, error)
	Files(ctx context.Context, name ledger.Name, bankAccount string, before int64, limit int) (list []reconcile.File, more bool, err error)
	Line(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Line, error)
	Lines(ctx context.Context, name ledger.Name, bankAccount string, filter reconcile.LineFilter) (list []*reconcile.Line, more bool, err error)

	Match(ctx context.Context, spec reconcile.MatchSpec, caller string) (*reconcile.Run, error)
	Run(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Run, error)
	Runs(ctx context.Context, name ledger.Name, bankAccount string, before, limit int) (list []*reconcile.Run, more bool, err error)
	Repeat(ctx context.Context, name ledger.Name, bankAccount string, no int64) ([]string, error)
	Results(ctx context.Context, name ledger.Name, bankAccount string, run int64, filter reconcile.ResultFilter) (list []reconcile.Result, more bool,
		err error)
	Suggestions(ctx context.Context, name ledger.Name, bankAccount string, run int64, after, limit int) (list []reconcile.Suggestion, more bool,
		err error)

	Confirm(ctx context.Context, spec reconcile.ConfirmSpec, caller string) (*reconcile.Decision, error)
	Ignore(ctx context.Context, spec reconcile.IgnoreSpec, caller string) (*reconcile.Decision, error)
	Unmatch(ctx context.Context, spec reconcile.UnmatchSpec, caller string) (*reconcile.Decision, error)
	ApproveDifference(ctx context.Context, spec reconcile.ApproveSpec, caller string) (*reconcile.Decision, error)
	Decision(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Decision, error)
	Decisions(ctx context.Context, name ledger.Name, bankAccount string, filter reconcile.DecisionFilter) (list []*reconcile.Decision, more bool,
		err error)

	Statement(ctx context.Context, spec reconcile.StatementSpec, w sheet.Writer) error
	Items(ctx context.Context, spec reconcile.ItemsSpec, w sheet.Writer) error
	Changes(ctx context.Context, name ledger.Name, bankAccount string, older, newer int64, w sheet.Writer) error
	Drift(ctx context.Context, spec reconcile.DriftSpec, in io.Reader, w sheet.Writer) (reconcile.DriftSummary, error)
}

// ReconcileService serves khata.v1.ReconcileService.
type ReconcileService struct {
	khatav1.UnimplementedReconcileServiceServer
	reconciler Reconciler
	// patience is for how long a caller may take nothing of a stream, or send nothing, and uploadTime for how long it may send a file.
	patience, uploadTime time.Duration
}

// ofBankAccount is a request about a bank account.
type ofBankAccount interface {
	GetLedger() string
	GetBankAccount() string
}

// account finds the bank account of a request. Its currency says how amounts are written.
func (s *ReconcileService) account(ctx context.Context, in ofBankAccount) (*reconcile.BankAccount, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	return s.reconciler.BankAccount(ctx, name, in.GetBankAccount())
}

// CreateBankAccount implements khata.v1.ReconcileService.
func (s *ReconcileService) CreateBankAccount(ctx context.Context, in *khatav1.CreateBankAccountRequest) (*khatav1.CreateBankAccountResponse, error) {
	spec, err := decodeBankAccount(in)
	if err != nil {
		return nil, err
	}
	a, err := s.reconciler.CreateBankAccount(ctx, spec, caller(ctx))
	if err != nil {
		return nil, calling(err, inSettings)
	}
	return &khatav1.CreateBankAccountResponse{BankAccount: encodeBankAccount(a)}, nil
}

// UpdateBankAccount implements khata.v1.ReconcileService.
func (s *ReconcileService) UpdateBankAccount(ctx context.Context, in *khatav1.UpdateBankAccountRequest) (*khatav1.UpdateBankAccountResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	if in.GetSettings() == nil {
		return nil, ledger.Invalid("settings", "is required")
	}
	settings, err := decodeSettings(in.GetSettings())
	if err != nil {
		return nil, err
	}
	a, err := s.reconciler.Set(ctx, name, in.GetBankAccount(), settings, caller(ctx))
	if err != nil {
		return nil, calling(err, inSettings)
	}
	return &khatav1.UpdateBankAccountResponse{BankAccount: encodeBankAccount(a)}, nil
}

// GetBankAccount implements khata.v1.ReconcileService.
func (s *ReconcileService) GetBankAccount(ctx context.Context, in *khatav1.GetBankAccountRequest) (*khatav1.GetBankAccountResponse, error) {
	a, err := s.account(ctx, in)
	if err != nil {
		return nil, err
	}
	return &khatav1.GetBankAccountResponse{BankAccount: encodeBankAccount(a)}, nil
}

// ListBankAccounts implements khata.v1.ReconcileService.
func (s *ReconcileService) ListBankAccounts(ctx context.Context, in *khatav1.ListBankAccountsRequest) (*khatav1.ListBankAccountsResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	list, err := s.reconciler.BankAccounts(ctx, name)
	if err != nil {
		return nil, err
	}
	return &khatav1.ListBankAccountsResponse{BankAccounts: each(list, encodeBankAccount)}, nil
}

// SaveBankProfile implements khata.v1.ReconcileService.
func (s *ReconcileService) SaveBankProfile(ctx context.Context, in *khatav1.SaveBankProfileRequest) (*khatav1.SaveBankProfileResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	profile, err := decodeProfile(in.GetContent(), "content")
	if err != nil {
		return nil, err
	}
	saved, err := s.reconciler.SaveProfile(ctx, name, *profile, caller(ctx))
	if err != nil {
		return nil, calling(err, called("name", "content", "profile", "content"))
	}
	out, err := encodeProfile(saved)
	return &khatav1.SaveBankProfileResponse{Profile: out}, err
}

// GetBankProfile implements khata.v1.ReconcileService.
func (s *ReconcileService) GetBankProfile(ctx context.Context, in *khatav1.GetBankProfileRequest) (*khatav1.GetBankProfileResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	profile, err := s.reconciler.Profile(ctx, name, in.GetName(), int(in.GetVersion()))
	if err != nil {
		return nil, calling(err, called("profile", "name"))
	}
	out, err := encodeProfile(profile)
	return &khatav1.GetBankProfileResponse{Profile: out}, err
}

// ListBankProfiles implements khata.v1.ReconcileService.
func (s *ReconcileService) ListBankProfiles(ctx context.Context, in *khatav1.ListBankProfilesRequest) (*khatav1.ListBankProfilesResponse, error) {
	name, err := decodeLedger(in)
	if err != nil {
		return nil, err
	}
	list, err := s.reconciler.Profiles(ctx, name)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListBankProfilesResponse{}
	for _, profile := range list {
		encoded, err := encodeProfile(profile)
		if err != nil {
			return nil, err
		}
		out.Profiles = append(out.Profiles, encoded)
	}
	return out, nil
}
