package reconcile

import (
	"context"
	"encoding/hex"
	"errors"
	"math"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// File is a file that was imported, as far as it is about one bank account.
type File struct {
	// No is its number among those of the bank account.
	No          int64
	BankAccount string
	// SHA256 is the hash of its bytes, in hexadecimal, and Archive that of the zip that it came in, or "".
	SHA256, Archive string
	// Name is what it was called, and Member what it was called in the zip.
	Name, Member string
	Format       bankfile.Format
	// Profile is that by which CSV was read.
	Profile        string
	ProfileVersion int
	Checks         []bankfile.Check
	Statements     []FileStatement
	ImportedAt     time.Time
	ImportedBy     string
	// Replayed says that it was there before the import that returns it.
	Replayed bool
}

// FileStatement is a statement of a file.
type FileStatement struct {
	No, File int64
	// Ordinal is its place among those of the file, the oldest first, from 1.
	Ordinal int
	// ID, Number and Sequence are as in bankfile.Statement, and so are the next ones.
	ID, Number string
	Sequence   int64
	From, To   bankfile.Date
	// Opening and Closing are nil where the file has none.
	Opening, Closing *decimal.Decimal
	Balances         []bankfile.Balance
	// Checks has how it goes on from the statement before, too.
	Checks []bankfile.Check
	Flags  []bankfile.Flag
	// Lines is how many lines it has, without details; Added how many of them were new, and AddedSum what the new ones that count come to, with the
	// opening balance if it is the first.
	Lines, Added int
	AddedSum     decimal.Decimal
	// Balance is the sum of all lines of the bank account that count, after it; Anchored says that it is the balance at the bank. Covers is the last day
	// that is covered.
	Balance  decimal.Decimal
	Anchored bool
	Covers   bankfile.Date
}

// Added is how many lines of the file were new.
func (f *File) Added() int {
	n := 0
	for i := range f.Statements {
		n += f.Statements[i].Added
	}
	return n
}

// Lines is how many lines the file has, without details.
func (f *File) Lines() int {
	n := 0
	for i := range f.Statements {
		n += f.Statements[i].Lines
	}
	return n
}

// Files lists the files of a bank account, the newest first, before a number; 0 is the beginning of the list. It returns CodeInvalidArgument.
func (r *Reconciler) Files(ctx context.Context, name ledger.Name, bankAccount string, before int64, limit int) (list []File, more bool, err error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	if before == 0 {
		before = math.MaxInt64
	}
	list, err = r.files(ctx, r.pool, a, dbsqlc.BankFileListParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, Before: before, PageSize: int32(limit) + 1, //nolint:gosec // a few hundred
	})
	if err != nil {
		return nil, false, public(ctx, "list the files", err)
	}
	more = len(list) > limit
	return list[:min(limit, len(list))], more, nil
}

// File gives a file of a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) File(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*File, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	f, err := r.file(ctx, r.pool, a, no)
	if err != nil {
		return nil, public(ctx, "read the file", err)
	}
	return f, nil
}

func (r *Reconciler) file(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, no int64) (*File, error) {
	list, err := r.files(ctx, db, a, dbsqlc.BankFileListParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, Before: math.MaxInt64, FileNo: max(no, 1), PageSize: 1,
	})
	if err == nil && (len(list) == 0 || list[0].No != no) {
		return nil, ledger.Missing("file", "%d is no file of bank account %s", no, a.Name)
	}
	if err != nil {
		return nil, err
	}
	return &list[0], nil
}

func (r *Reconciler) files(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, args dbsqlc.BankFileListParams) ([]File, error) {
	rows, err := r.sql.BankFileList(ctx, db, args)
	if err != nil {
		return nil, err
	}
	list, places, nos := make([]File, len(rows)), map[int64]int{}, make([]int64, len(rows))
	for i, row := range rows {
		f := File{
			No: row.FileNo, BankAccount: a.Name, SHA256: hex.EncodeToString(row.Sha256), Archive: hex.EncodeToString(row.Archive), Name: row.Name,
			Member: row.Member, Format: bankfile.Format(row.Format), ImportedAt: row.ImportedAt.UTC(), ImportedBy: row.ImportedBy,
		}
		if row.Profile != nil && row.ProfileVersion != nil {
			f.Profile, f.ProfileVersion = *row.Profile, int(*row.ProfileVersion)
		}
		if f.Checks, err = decodeList(row.Checks, func(c storedCheck) bankfile.Check { return bankfile.Check(c) }); err != nil {
			return nil, err
		}
		list[i], places[f.No], nos[i] = f, i, f.No
	}
	statements, err := r.sql.BankStatementsOf(ctx, db, dbsqlc.BankStatementsOfParams{LedgerID: a.ledgerID, BankAccountNo: a.no, FileNos: nos})
	if err != nil {
		return nil, err
	}
	for _, row := range statements {
		s, err := fileStatement(row)
		if err != nil {
			return nil, err
		}
		f := &list[places[s.File]]
		f.Statements = append(f.Statements, s)
	}
	return list, nil
}

func fileStatement(row dbsqlc.BankStatementsOfRow) (FileStatement, error) {
	s := FileStatement{
		No: row.StatementNo, File: row.FileNo, Ordinal: int(row.Ordinal), ID: row.StatementID, Number: row.Label, Sequence: row.Number,
		From: fromDate(row.FromOn), To: fromDate(row.ToOn), Opening: row.Opening, Closing: row.Closing, Lines: int(row.Lines), Added: int(row.Added),
		AddedSum: row.AddedSum, Balance: row.Balance, Anchored: row.Anchored, Covers: fromDate(row.CoversOn),
	}
	var errs [3]error
	s.Balances, errs[0] = decodeList(row.Balances, func(b storedBalance) bankfile.Balance { return bankfile.Balance(b) })
	s.Checks, errs[1] = decodeList(row.Checks, func(c storedCheck) bankfile.Check { return bankfile.Check(c) })
	s.Flags, errs[2] = decodeList(row.Flags, func(f storedFlag) bankfile.Flag { return bankfile.Flag(f) })
	return s, errors.Join(errs[:]...)
}
