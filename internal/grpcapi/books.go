package grpcapi

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Books gives the books to other programs. *report.Reports does.
type Books interface {
	Book(ctx context.Context, request report.BookRequest, w export.BookWriter) error
	Entries(ctx context.Context, name ledger.Name, after, through int64,
		yield func(t *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error) (last int64, err error)
}

// ExportBook implements khata.v1.ReportService.
func (s *ReportService) ExportBook(in *khatav1.ExportBookRequest, stream grpc.ServerStreamingServer[khatav1.ExportBookResponse]) error {
	request := report.BookRequest{Ledger: ledger.Name(in.GetLedger()), Running: in.GetRunning(), Through: in.GetThrough()}
	var err error
	if request.Period, err = decodePeriod(in.GetPeriod()); err != nil {
		return err
	}
	if request.Basis, err = decodeBasis(in.GetBasis()); err != nil {
		return err
	}
	writer, err := bookWriter(in)
	if err != nil {
		return err
	}
	err = deliver(stream, s.patience, func(ctx context.Context, send func(*khatav1.ExportBookResponse) error) error {
		out := &chunks{send: func(chunk []byte) error { return send(&khatav1.ExportBookResponse{Chunk: chunk}) }}
		if err := s.reports.Book(ctx, request, writer(out)); err != nil {
			return err
		}
		return out.flush()
	})
	var limit *export.BeancountLimitError
	if errors.As(err, &limit) {
		return ledger.Invalid("format", "%v", limit)
	}
	return inPeriod(err)
}

// bookWriter gives what writes the format that is asked for.
func bookWriter(in *khatav1.ExportBookRequest) (func(io.Writer) export.BookWriter, error) {
	switch {
	case in.GetFormat() == khatav1.BookFormat_BOOK_FORMAT_HLEDGER:
		return func(w io.Writer) export.BookWriter {
			return export.NewHledger(w, export.HledgerOptions{Metadata: in.GetMetadata()})
		}, nil
	case in.GetFormat() != khatav1.BookFormat_BOOK_FORMAT_BEANCOUNT:
		return nil, ledger.Invalid("format", "is required: HLEDGER or BEANCOUNT")
	case in.GetMetadata():
		return nil, ledger.Invalid("metadata", "can be had in the format of hledger only")
	}
	return export.NewBeancount, nil
}

// chunks makes messages of what is written to it.
type chunks struct {
	send    func([]byte) error
	pending []byte
}

// Write keeps bytes until there are enough of them.
func (c *chunks) Write(p []byte) (int, error) {
	c.pending = append(c.pending, p...)
	if len(c.pending) < bytesPerMessage {
		return len(p), nil
	}
	return len(p), c.flush()
}

func (c *chunks) flush() error {
	if len(c.pending) == 0 {
		return nil
	}
	chunk := c.pending
	c.pending = make([]byte, 0, len(chunk)) // The other one belongs to its message.
	return c.send(chunk)
}

// ExportEntries implements khata.v1.ReportService.
func (s *ReportService) ExportEntries(in *khatav1.ExportEntriesRequest, stream grpc.ServerStreamingServer[khatav1.ExportEntriesResponse]) error {
	name := ledger.Name(in.GetLedger())
	return deliver(stream, s.patience, func(ctx context.Context, send func(*khatav1.ExportEntriesResponse) error) error {
		given := in.GetAfter()
		// It is written to between two transfers only.
		lines := export.NewNDJSON(writerFunc(func(chunk []byte) error {
			return send(&khatav1.ExportEntriesResponse{Chunk: append([]byte(nil), chunk...), LastSequence: given})
		}))
		take := func(t *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error {
			given = t.Sequence
			return lines.Transfer(name, t, typeOf)
		}
		last, err := s.reports.Entries(ctx, name, in.GetAfter(), in.GetThrough(), take)
		if err != nil {
			return err
		}
		if err := lines.Flush(); err != nil {
			return err
		}
		return send(&khatav1.ExportEntriesResponse{LastSequence: last})
	})
}

// writerFunc is a writer that takes all or nothing.
type writerFunc func([]byte) error

// Write implements io.Writer.
func (f writerFunc) Write(p []byte) (int, error) {
	if err := f(p); err != nil {
		return 0, err
	}
	return len(p), nil
}
