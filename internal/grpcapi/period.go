package grpcapi

import (
	"context"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// ClosePeriod implements khata.v1.LedgerService.
func (s *Service) ClosePeriod(ctx context.Context, in *khatav1.ClosePeriodRequest) (*khatav1.ClosePeriodResponse, error) {
	name := ledger.Name(in.GetLedger())
	before, err := decodeTime(in.GetClosedBefore(), "closed_before")
	if err != nil {
		return nil, err
	}
	spec := ledger.PeriodClose{Zone: in.GetZone(), Reason: in.GetReason()}
	if before != nil {
		spec.Before = *before
	}
	change, replayed, err := s.journal.ClosePeriod(ctx, caller(ctx), name, spec)
	if err != nil {
		return nil, err
	}
	return &khatav1.ClosePeriodResponse{Change: encodePeriodChange(name)(change), Replayed: replayed}, nil
}

// ReopenPeriod implements khata.v1.LedgerService.
func (s *Service) ReopenPeriod(ctx context.Context, in *khatav1.ReopenPeriodRequest) (*khatav1.ReopenPeriodResponse, error) {
	name := ledger.Name(in.GetLedger())
	before, err := decodeTime(in.GetClosedBefore(), "closed_before")
	if err != nil {
		return nil, err
	}
	spec := ledger.PeriodReopen{Before: before, Everything: in.GetEverything(), Zone: in.GetZone(), Reason: in.GetReason()}
	change, replayed, err := s.journal.ReopenPeriod(ctx, caller(ctx), name, spec)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ReopenPeriodResponse{Replayed: replayed}
	if change != nil {
		out.Change = encodePeriodChange(name)(*change)
	}
	return out, nil
}

// ListPeriodChanges implements khata.v1.LedgerService.
func (s *Service) ListPeriodChanges(ctx context.Context, in *khatav1.ListPeriodChangesRequest) (*khatav1.ListPeriodChangesResponse, error) {
	limit, err := pageSize(in.GetPageSize())
	if err != nil {
		return nil, err
	}
	var before periodToken
	if err := readToken(in.GetPageToken(), &before); err != nil {
		return nil, err
	}
	name := ledger.Name(in.GetLedger())
	list, err := s.journal.PeriodChanges(ctx, name, before.Sequence, limit+1)
	if err != nil {
		return nil, err
	}
	out := &khatav1.ListPeriodChangesResponse{}
	if len(list) > limit {
		list = list[:limit]
		out.NextPageToken = writeToken(periodToken{Sequence: list[limit-1].Sequence})
	}
	out.Changes = each(list, encodePeriodChange(name))
	return out, nil
}

func encodePeriodChange(name ledger.Name) func(ledger.PeriodChange) *khatav1.PeriodChange {
	return func(c ledger.PeriodChange) *khatav1.PeriodChange {
		return &khatav1.PeriodChange{
			Ledger: string(name.Or()), Sequence: c.Sequence, ClosedBefore: wire.Time(c.ClosedBefore), PreviousClosedBefore: wire.Time(c.Previous),
			Zone: c.Zone, Reason: c.Reason, Caller: c.Caller, ChangedAt: timestamppb.New(c.ChangedAt),
		}
	}
}
