package client_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/ledger/client"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// A method that is new has to be put on one side or the other.
func TestReads(t *testing.T) {
	t.Parallel()
	var writes []string
	for _, service := range []grpc.ServiceDesc{
		khatav1.LedgerService_ServiceDesc, khatav1.ReportService_ServiceDesc, khatav1.ReconcileService_ServiceDesc, khatav1.SupportService_ServiceDesc,
	} {
		var names []string
		for _, m := range service.Methods {
			names = append(names, m.MethodName)
		}
		for _, s := range service.Streams {
			names = append(names, s.StreamName)
		}
		for _, name := range names {
			if !client.Reads("/" + service.ServiceName + "/" + name) {
				writes = append(writes, name)
			}
		}
	}
	slices.Sort(writes)
	want := []string{
		"ApproveDifference", "ClosePeriod", "ConfirmMatch", "CreateAccount", "CreateAccounts", "CreateBankAccount",
		"CreateLedger", "DecideRefund", "DismissSuspect", "IgnoreItem", "ImportBankFile", "IssueStatement", "MatchBankAccount",
		"PostTransfer", "PostTransfers", "RegisterCurrency", "ReopenPeriod", "RequestRefund", "SaveBankProfile",
		"SetRefundLimit", "UndismissSuspect", "UndoDecision", "UpdateAccount", "UpdateBankAccount",
	}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Error(diff)
	}
}
