package client

import (
	"context"
	"errors"
	"io"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// ReconcileReportRequest asks for a report about a bank account.
type ReconcileReportRequest struct {
	BankAccount string
	// Report is "statement", the reconciliation statement; "items", all lines and entries with their outcomes; or "changes", from one run to another.
	Report string
	// Of a statement: Day is that at whose end the balances are, "" the last that the bank's files cover. Detailed lists each item, and not only what
	// they come to by age. AsOf is the number up to which lines and decisions count, and Through the sequence for entries: with both a statement is the
	// same whenever it is asked for. 0 is all that there is.
	Day           string
	Detailed      bool
	AsOf, Through int64
	// Of items: Run is the run after which they are listed, 0 for the last. Of changes: the newer run, and Older the older one.
	Run, Older int64
	// Of items: Side is "bank", "ledger", or "" for both; Outcomes has only those, From and To are the first and the last day, and Open leaves out what
	// is settled.
	Side     string
	Outcomes []string
	From, To string
	Open     bool
}

// Report has a report made, and writes it row by row. Without an error it is whole; whether its checks hold, it says itself. It returns
// CodeInvalidArgument, and any error of the writer.
func (r *Reconciliation) Report(ctx context.Context, request ReconcileReportRequest, w ReportWriter) error {
	in := &khatav1.RunReconcileReportRequest{
		Ledger: r.ledger(), BankAccount: request.BankAccount, Report: request.Report, Day: request.Day, Detailed: request.Detailed, AsOf: request.AsOf,
		Through: request.Through, Run: request.Run, Older: request.Older, Side: request.Side, Outcomes: request.Outcomes, From: request.From, To: request.To,
		Open: request.Open,
	}
	reading := &reading{w: w}
	if err := follow(ctx, r.client, r.api.RunReconcileReport, in, func(m *khatav1.RunReconcileReportResponse) error { return reading.part(m) }); err != nil {
		return err
	}
	return reading.complete()
}

// DriftSpec says what a file is compared with.
type DriftSpec struct {
	// Profile is a stored profile, or ProfileContent one as JSON. It has a column for the balance, and one for the account or the account itself.
	Profile, ProfileContent string
	// Account is the account of the books that an account of the file is, with {account} in the place of its number, such as "customer:{account}".
	Account string
	// MoneyIn is the side on which money that comes in stands in the books; "" is the normal side of each account.
	MoneyIn ledger.Direction
	// Basis is Booking by default, and Zone, in which days end, UTC.
	Basis Basis
	Zone  string
	// Through is the last sequence that counts; 0 is the last one there is.
	Through int64
	// All lists the accounts that agree, too.
	All bool
}

// Drift compares the balances that a file has beside its rows with those of the books, and writes the report row by row. The file is not imported.
//
// It returns a *BankFileRefusal, by errors.As, for a file that cannot be read; CodeInvalidArgument; any error of the writer; and what reading the file
// returned. What goes wrong before anything has come of the report is tried again as ImportBankFile says.
func (r *Reconciliation) Drift(ctx context.Context, spec DriftSpec, file io.Reader, w ReportWriter) error {
	in := &khatav1.DriftSpec{
		Ledger: r.ledger(), Profile: spec.Profile, ProfileContent: spec.ProfileContent, Account: spec.Account, Zone: spec.Zone, Through: spec.Through,
		All: spec.All,
	}
	var err error
	if in.MoneyIn, err = encodeMoneyIn(spec.MoneyIn); err != nil {
		return err
	}
	if in.Basis, err = encodeBasis(spec.Basis); err != nil {
		return err
	}
	first := &khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Spec{Spec: in}}
	up := newUpload(file)
	reading := &reading{w: w}
	err = r.client.again(ctx, func() (final bool, err error) {
		if err := up.rewind(); err != nil {
			return true, err
		}
		answered, err := r.drift(ctx, up, first, reading)
		return answered || up.spent(), err
	})
	if err != nil {
		return err
	}
	return reading.complete()
}

// drift sends the file once, and reads the answer.
func (r *Reconciliation) drift(ctx context.Context, up *upload, first *khatav1.RunDriftReportRequest, reading *reading) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // Whoever does not read on tells the server so.
	stream, err := r.api.RunDriftReport(ctx)
	if err != nil {
		return false, fromGRPC(err)
	}
	// The server reads all of the file before it says anything, so that one after the other will do.
	if err := send(up, stream.Send, first, func(bytes []byte) *khatav1.RunDriftReportRequest {
		return &khatav1.RunDriftReportRequest{Part: &khatav1.RunDriftReportRequest_Chunk{Chunk: bytes}}
	}); err != nil {
		return true, err
	}
	if err := stream.CloseSend(); err != nil {
		return false, fromGRPC(err)
	}
	for {
		message, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return answered, nil
		}
		if err != nil {
			return answered, fromGRPC(err)
		}
		answered = true
		if err := reading.part(message); err != nil {
			return answered, err
		}
	}
}
