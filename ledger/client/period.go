package client

import (
	"context"
	"iter"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// ClosePeriod closes the books before a time: a transfer whose effective_at is earlier is refused from then on. It returns the change in force,
// and whether the books had been closed as far before: then nothing was written. It returns CodeInvalidArgument for a malformed request, and for
// a time that the database's clock has not reached.
func (c *Client) ClosePeriod(ctx context.Context, spec ledger.PeriodClose) (change ledger.PeriodChange, replayed bool, err error) {
	resp, err := call(ctx, c, c.api.ClosePeriod, &khatav1.ClosePeriodRequest{
		Ledger: string(c.options.Ledger), ClosedBefore: timestamppb.New(spec.Before), Zone: spec.Zone, Reason: spec.Reason,
	})
	if err != nil {
		return ledger.PeriodChange{}, false, err
	}
	return decodePeriodChange(resp.GetChange()), resp.GetReplayed(), nil
}

// ReopenPeriod opens the books again, from a time on or altogether. It returns the change in force, nil where nothing was ever closed, and
// whether the books had been as open before: then nothing was written. It returns CodeInvalidArgument for a malformed request.
func (c *Client) ReopenPeriod(ctx context.Context, spec ledger.PeriodReopen) (change *ledger.PeriodChange, replayed bool, err error) {
	resp, err := call(ctx, c, c.api.ReopenPeriod, &khatav1.ReopenPeriodRequest{
		Ledger: string(c.options.Ledger), ClosedBefore: encodeTime(spec.Before), Everything: spec.Everything, Zone: spec.Zone, Reason: spec.Reason,
	})
	if err != nil {
		return nil, false, err
	}
	if in := resp.GetChange(); in != nil {
		decoded := decodePeriodChange(in)
		change = &decoded
	}
	return change, resp.GetReplayed(), nil
}

// PeriodChanges goes through who closed what when, and opened it again, the last change first: that one is in force. It ends after an error.
func (c *Client) PeriodChanges(ctx context.Context) iter.Seq2[ledger.PeriodChange, error] {
	return func(yield func(ledger.PeriodChange, error) bool) {
		req := &khatav1.ListPeriodChangesRequest{Ledger: string(c.options.Ledger)}
		for {
			resp, err := call(ctx, c, c.api.ListPeriodChanges, req)
			if err != nil {
				yield(ledger.PeriodChange{}, err)
				return
			}
			for _, in := range resp.GetChanges() {
				if !yield(decodePeriodChange(in), nil) {
					return
				}
			}
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				return
			}
		}
	}
}

func decodePeriodChange(in *khatav1.PeriodChange) ledger.PeriodChange {
	return ledger.PeriodChange{
		Sequence: in.GetSequence(), ClosedBefore: decodeTime(in.GetClosedBefore()), Previous: decodeTime(in.GetPreviousClosedBefore()),
		Zone: in.GetZone(), Reason: in.GetReason(), Caller: in.GetCaller(), ChangedAt: in.GetChangedAt().AsTime(),
	}
}
