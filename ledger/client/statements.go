package client

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"iter"
	"time"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// issueTimeout bounds an attempt to issue a statement, which reads all that the account did in its period.
const issueTimeout = 2 * time.Minute

// StatementSpec asks for the statement of an account in a period that is over.
type StatementSpec struct {
	Account ledger.AccountID
	// Period may do without From: then it begins where the account's last statement ended.
	Period ReportPeriod
	// Basis is Booking by default.
	Basis Basis
}

// Statement is an account statement as it was issued.
type Statement struct {
	Ledger  ledger.Name
	Number  int64
	Account ledger.AccountID
	Basis   Basis
	// Ordinal is its place among the statements of the account by this basis, from 1.
	Ordinal int
	Period  ReportPeriod
	// Through is the last sequence that it has seen.
	Through  int64
	IssuedAt time.Time
	IssuedBy string
	// SHA256 is the hash of its content, in hexadecimal.
	SHA256 string
}

// IssueStatement issues a statement. Whoever asks for the same again gets the same one, and issued is false. It returns CodeInvalidArgument,
// CodeLedgerNotFound or CodeAccountNotFound.
func (r *Reports) IssueStatement(ctx context.Context, spec StatementSpec) (s Statement, issued bool, err error) {
	in := &khatav1.IssueStatementRequest{
		Ledger: string(r.client.options.Ledger), Account: string(spec.Account), Period: encodePeriod(spec.Period),
	}
	if in.Basis, err = encodeBasis(spec.Basis); err != nil {
		return Statement{}, false, err
	}
	patient := *r.client
	if patient.options.AttemptTimeout > 0 {
		patient.options.AttemptTimeout = max(patient.options.AttemptTimeout, issueTimeout)
	}
	resp, err := call(ctx, &patient, r.api.IssueStatement, in)
	if err != nil {
		return Statement{}, false, err
	}
	return decodeStatement(resp.GetStatement()), resp.GetIssued(), nil
}

// Statement gets a statement, and its content in the bytes in which it was issued, whose hash has been checked. It returns CodeNotFound for a
// number that there is not.
func (r *Reports) Statement(ctx context.Context, number int64) (s Statement, content []byte, err error) {
	in := &khatav1.GetStatementRequest{Ledger: string(r.client.options.Ledger), Statement: number}
	var all bytes.Buffer
	err = follow(ctx, r.client, r.api.GetStatement, in, func(part *khatav1.GetStatementResponse) error {
		if part.GetStatement() != nil {
			s = decodeStatement(part.GetStatement())
		}
		_, err := all.Write(part.GetContent())
		return err
	})
	if err != nil {
		return Statement{}, nil, err
	}
	if hash := sha256.Sum256(all.Bytes()); hex.EncodeToString(hash[:]) != s.SHA256 {
		return Statement{}, nil, ledger.Errorf(ledger.CodeInternal, "what has arrived of statement %d is not what was issued: the hash differs", number)
	}
	return s, all.Bytes(), nil
}

// Statements goes through the statements of an account, or of all accounts where it is "", the newest first. It ends after an error.
func (r *Reports) Statements(ctx context.Context, account ledger.AccountID) iter.Seq2[Statement, error] {
	return func(yield func(Statement, error) bool) {
		in := &khatav1.ListStatementsRequest{Ledger: string(r.client.options.Ledger), Account: string(account)}
		for {
			resp, err := call(ctx, r.client, r.api.ListStatements, in)
			if err != nil {
				yield(Statement{}, err)
				return
			}
			for _, s := range resp.GetStatements() {
				if !yield(decodeStatement(s), nil) {
					return
				}
			}
			if in.PageToken = resp.GetNextPageToken(); in.GetPageToken() == "" {
				return
			}
		}
	}
}

func decodeStatement(in *khatav1.Statement) Statement {
	return Statement{
		Ledger: ledger.Name(in.GetLedger()), Number: in.GetNumber(), Account: ledger.AccountID(in.GetAccount()), Basis: keyOf(bases, in.GetBasis()),
		Ordinal: int(in.GetOrdinal()), Through: in.GetThrough(), IssuedAt: in.GetIssuedAt().AsTime(), IssuedBy: in.GetIssuedBy(), SHA256: in.GetSha256(),
		Period: ReportPeriod{From: in.GetPeriod().GetFrom().AsTime(), To: in.GetPeriod().GetTo().AsTime(), Zone: in.GetPeriod().GetZone()},
	}
}

// BookFormat is a plain-text accounting tool.
type BookFormat string

// The formats of ExportBook.
const (
	Hledger   BookFormat = "hledger"
	Beancount BookFormat = "beancount"
)

// BookRequest asks for the transfers of a period in the format of another tool.
type BookRequest struct {
	Format BookFormat
	Period ReportPeriod
	// Basis is Booking by default.
	Basis Basis
	// Running asserts balances after each posting, not only at the end.
	Running bool
	// Metadata writes the metadata of transfers too, for hledger only.
	Metadata bool
	// Through is the last sequence that counts; 0 is the last one there is.
	Through int64
}

// ExportBook writes the books of a period to w. What is there after an error is not whole.
func (r *Reports) ExportBook(ctx context.Context, request BookRequest, w io.Writer) error {
	formats := map[BookFormat]khatav1.BookFormat{Hledger: khatav1.BookFormat_BOOK_FORMAT_HLEDGER, Beancount: khatav1.BookFormat_BOOK_FORMAT_BEANCOUNT}
	in := &khatav1.ExportBookRequest{
		Ledger: string(r.client.options.Ledger), Period: encodePeriod(request.Period), Format: formats[request.Format], Running: request.Running,
		Metadata: request.Metadata, Through: request.Through,
	}
	var err error
	if in.Basis, err = encodeBasis(request.Basis); err != nil {
		return err
	}
	return follow(ctx, r.client, r.api.ExportBook, in, func(part *khatav1.ExportBookResponse) error {
		_, err := w.Write(part.GetChunk())
		return err
	})
}

// ExportEntries writes the entries of transfers after a sequence, through another one or, for 0, the last there is, as lines of JSON. Each Write
// has whole transfers in it. If the server goes away it goes on where it was, so that each line is written once.
//
// It returns the sequence after which to go on, with an error too: everything up to it has been written.
func (r *Reports) ExportEntries(ctx context.Context, after, through int64, w io.Writer) (last int64, err error) {
	in := &khatav1.ExportEntriesRequest{Ledger: string(r.client.options.Ledger), After: after, Through: through}
	for {
		before := in.GetAfter()
		var failed error
		err := follow(ctx, r.client, r.api.ExportEntries, in, func(part *khatav1.ExportEntriesResponse) error {
			if len(part.GetChunk()) > 0 {
				if _, failed = w.Write(part.GetChunk()); failed != nil {
					return failed
				}
			}
			in.After = part.GetLastSequence()
			return nil
		})
		if err == nil || failed != nil || in.GetAfter() == before || !ledger.CodeOf(err).Retryable() || ctx.Err() != nil {
			return in.GetAfter(), err
		}
	}
}
