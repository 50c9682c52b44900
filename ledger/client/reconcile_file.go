package client

import (
	"context"
	"io"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// importTimeout bounds an attempt to import a file, which can be a large one over a slow line.
const importTimeout = 15 * time.Minute

// BankFileSpec says what is to become of a file that is imported.
type BankFileSpec struct {
	// BankAccount is the one that the file is of. "": each statement goes to the one that knows its account number.
	BankAccount string
	// FileName is what it is called, for people.
	FileName string
	// Format is "csv", "camt.053", "mt940", "bai2", "ofx", "stripe" or "zip"; "" has it recognised, which CSV by a profile cannot be.
	Format string
	// Profile is the one by which CSV is read, "" for that of the bank account, and ProfileVersion its version, 0 for the last.
	Profile        string
	ProfileVersion int
	// DryRun finds out what would become of it, and imports nothing.
	DryRun bool
}

// BankImport is what became of a file.
type BankImport struct {
	// Files are what it was kept as: one for each bank account that it has statements of, and of a zip one for each file in it.
	Files []BankFile
	// Replayed says that all of them had been imported before, and nothing was done now.
	Replayed bool
}

// BankFile is a file that was imported, as far as it is about one bank account.
type BankFile struct {
	No          int64
	BankAccount string
	// SHA256 is the hash of its bytes, in hexadecimal, and Archive that of the zip that it came in, or "".
	SHA256, Archive string
	// Name is what it was called, and Member what it was called in the zip.
	Name, Member   string
	Format         string
	Profile        string
	ProfileVersion int
	Checks         []BankCheck
	Statements     []BankFileStatement
	ImportedAt     time.Time
	ImportedBy     string
	// Replayed says that it was there before.
	Replayed bool
}

// BankCheck is something that a file says of itself, and whether it is so.
type BankCheck struct {
	Name string
	// State is "held", "failed", or "not_made" where the file does not carry both sides of it.
	State  string
	Detail string
	// Stated is the number that the file gives, and Computed the one that follows from what it controls; "" where no two numbers were compared.
	Stated, Computed string
}

// BankFlag is a remark on something that was read in a way that a person may want to know of.
type BankFlag struct{ Code, Text string }

// BankFileStatement is what a file says of an account over a period.
type BankFileStatement struct {
	No int64
	// Ordinal is its place among those of the file, the oldest first, from 1.
	Ordinal int
	// ID and Number are the bank's own words for it, and From and To the first and the last day that it covers.
	ID, Number string
	From, To   string
	// Opening and Closing are nil where the file has none.
	Opening, Closing *decimal.Decimal
	Checks           []BankCheck
	Flags            []BankFlag
	// Lines is how many lines it has, Added how many of them were new, and AddedSum what the new ones come to.
	Lines, Added int
	AddedSum     decimal.Decimal
	// Balance is the sum of all lines of the bank account after it; if Anchored, it is the balance at the bank.
	Balance  decimal.Decimal
	Anchored bool
	// Covers is the last day that is covered.
	Covers string
}

// BankFileRefusal is why a file is refused: nothing of it was imported. It is the error of ImportBankFile by errors.As, and a *ledger.Error of
// CodeInvalidArgument is, too.
type BankFileRefusal struct {
	// Reason is such as "totals_differ", "gap", "repeated" or "other_account": see docs/reconciliation.md.
	Reason string
	// Member is the file within a zip, Statement the statement, counted from 1, Account its account, and Position the line of text; "" and 0 where it
	// is about none.
	Member    string
	Statement int
	Account   string
	Position  int
	// Detail says it in words. Stated is the number that the file gives, and Computed the one that follows; "" where it is not about two numbers.
	Detail           string
	Stated, Computed string
	// Checks are what was held against what, as far as it came.
	Checks []BankCheck

	typed *ledger.Error
}

// Error says why, where first.
func (r *BankFileRefusal) Error() string { return r.Unwrap().Error() }

// Unwrap gives the *ledger.Error.
func (r *BankFileRefusal) Unwrap() error {
	if r.typed == nil { // It is none of the server's.
		return ledger.Invalid("file", "is refused (%s): %s", r.Reason, r.Detail)
	}
	return r.typed
}

func decodeRefusedFile(in *khatav1.BankFileRefusal, typed *ledger.Error) *BankFileRefusal {
	return &BankFileRefusal{
		Reason: in.GetReason(), Member: in.GetMember(), Statement: int(in.GetStatement()), Account: in.GetAccount(), Position: int(in.GetPosition()),
		Detail: in.GetDetail(), Stated: in.GetStated(), Computed: in.GetComputed(), Checks: each(in.GetChecks(), decodeBankCheck), typed: typed,
	}
}

// ImportBankFile imports a file, all of it or nothing; the same bytes again are the same import. It returns a *BankFileRefusal, by errors.As, for a file
// that is refused; CodeInvalidArgument; and as it is what reading the file returned.
//
// What goes wrong on the way is tried again, as every call is, if the reader is an io.Seeker and so can begin anew, or nothing was read of it yet.
// Otherwise the caller can do so, with another reader.
func (r *Reconciliation) ImportBankFile(ctx context.Context, spec BankFileSpec, file io.Reader) (BankImport, error) {
	first := &khatav1.ImportBankFileRequest{Part: &khatav1.ImportBankFileRequest_Spec{Spec: &khatav1.BankFileSpec{
		Ledger: r.ledger(), BankAccount: spec.BankAccount, FileName: spec.FileName, Format: spec.Format, Profile: spec.Profile,
		ProfileVersion: encodeVersion(spec.ProfileVersion), DryRun: spec.DryRun,
	}}}
	chunk := func(bytes []byte) *khatav1.ImportBankFileRequest {
		return &khatav1.ImportBankFileRequest{Part: &khatav1.ImportBankFileRequest_Chunk{Chunk: bytes}}
	}
	up := newUpload(file)
	var resp *khatav1.ImportBankFileResponse
	err := r.client.again(ctx, func() (final bool, err error) {
		ctx, cancel := r.client.attemptOf(ctx, importTimeout)
		defer cancel() // Whoever cannot read on tells the server so, and it imports nothing.
		if err := up.rewind(); err != nil {
			return true, err
		}
		stream, err := r.api.ImportBankFile(ctx)
		if err != nil {
			return up.spent(), fromGRPC(err)
		}
		if err := send(up, stream.Send, first, chunk); err != nil {
			return true, err
		}
		resp, err = stream.CloseAndRecv()
		return up.spent(), fromGRPC(err)
	})
	if err != nil {
		return BankImport{}, err
	}
	out := BankImport{Replayed: resp.GetReplayed()}
	out.Files, err = tryEach(resp.GetFiles(), decodeBankFile)
	return out, err
}

// BankFile gets a file of a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) BankFile(ctx context.Context, bankAccount string, no int64) (BankFile, error) {
	resp, err := call(ctx, r.client, r.api.GetBankFile, &khatav1.GetBankFileRequest{Ledger: r.ledger(), BankAccount: bankAccount, No: no})
	if err != nil {
		return BankFile{}, err
	}
	return decodeBankFile(resp.GetFile())
}

// BankFiles goes through the files of a bank account, the newest first. It ends after an error.
func (r *Reconciliation) BankFiles(ctx context.Context, bankAccount string) iter.Seq2[BankFile, error] {
	return paged(func(token string) (*khatav1.ListBankFilesResponse, error) {
		in := &khatav1.ListBankFilesRequest{Ledger: r.ledger(), BankAccount: bankAccount, PageToken: token}
		return call(ctx, r.client, r.api.ListBankFiles, in)
	}, func(resp *khatav1.ListBankFilesResponse) ([]BankFile, error) {
		return tryEach(resp.GetFiles(), decodeBankFile)
	})
}

// BankLine is a line of the bank. Its texts are the bank's, or a stranger's: nothing in them is to be trusted.
type BankLine struct {
	// No is its number, File that of the file in which it was new, and Statement that of the statement.
	No, File, Statement int64
	// Kind is "line", "detail" of the line Parent, or "opening", the balance at the bank before the first line.
	Kind   string
	Parent int64
	// Counts says whether it adds to the balance and is for matching.
	Counts            bool
	BookedOn, ValueOn string
	Amount            decimal.Decimal
	// Open is what no decision has taken of it.
	Open     decimal.Decimal
	Currency ledger.CurrencyCode
	// Status is "booked", "pending" or "information". Reversal says that it takes back an earlier movement.
	Status   string
	Reversal bool
	// ExternalID is the bank's own id of the line, and Code the kind of movement in the words of the format.
	ExternalID, Code, Description string
	// References are those by which others know it: under "end_to_end", "bank", "customer", "instruction", "transaction", "mandate", "creditor",
	// "batch", "source" and "cheque".
	References map[string]string
	// PartyName, PartyAccount and PartyBank are the other side.
	PartyName, PartyAccount, PartyBank string
	Flags                              []BankFlag
}

// BankLine gets a line of a bank account. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) BankLine(ctx context.Context, bankAccount string, no int64) (BankLine, error) {
	resp, err := call(ctx, r.client, r.api.GetBankLine, &khatav1.GetBankLineRequest{Ledger: r.ledger(), BankAccount: bankAccount, No: no})
	if err != nil {
		return BankLine{}, err
	}
	return decodeBankLine(resp.GetLine())
}

// BankLineFilter says which lines are meant. The zero filter is all of them.
type BankLineFilter struct {
	// From and To are the first and the last booking day.
	From, To string
	// File has only those that were new in that file.
	File int64
	// Counting leaves out those that do not count, and Open those of which nothing is open.
	Counting, Open bool
}

// BankLines goes through lines of a bank account in the order in which they were imported. It ends after an error.
func (r *Reconciliation) BankLines(ctx context.Context, bankAccount string, filter BankLineFilter) iter.Seq2[BankLine, error] {
	return paged(func(token string) (*khatav1.ListBankLinesResponse, error) {
		in := &khatav1.ListBankLinesRequest{
			Ledger: r.ledger(), BankAccount: bankAccount, From: filter.From, To: filter.To, File: filter.File, Counting: filter.Counting, Open: filter.Open,
			PageToken: token,
		}
		return call(ctx, r.client, r.api.ListBankLines, in)
	}, func(resp *khatav1.ListBankLinesResponse) ([]BankLine, error) {
		return tryEach(resp.GetLines(), decodeBankLine)
	})
}

func decodeBankCheck(in *khatav1.BankCheck) BankCheck {
	return BankCheck{Name: in.GetName(), State: in.GetState(), Detail: in.GetDetail(), Stated: in.GetStated(), Computed: in.GetComputed()}
}

func decodeBankFlag(in *khatav1.BankFlag) BankFlag {
	return BankFlag{Code: in.GetCode(), Text: in.GetText()}
}

func decodeBankFile(in *khatav1.BankFile) (BankFile, error) {
	out := BankFile{
		No: in.GetNo(), BankAccount: in.GetBankAccount(), SHA256: in.GetSha256(), Archive: in.GetArchive(), Name: in.GetName(), Member: in.GetMember(),
		Format: in.GetFormat(), Profile: in.GetProfile(), ProfileVersion: int(in.GetProfileVersion()), Checks: each(in.GetChecks(), decodeBankCheck),
		ImportedAt: in.GetImportedAt().AsTime(), ImportedBy: in.GetImportedBy(), Replayed: in.GetReplayed(),
	}
	var err error
	out.Statements, err = tryEach(in.GetStatements(), decodeBankFileStatement)
	return out, err
}

func decodeBankFileStatement(in *khatav1.BankFileStatement) (BankFileStatement, error) {
	var amount amounts
	out := BankFileStatement{
		No: in.GetNo(), Ordinal: int(in.GetOrdinal()), ID: in.GetId(), Number: in.GetNumber(), From: in.GetFrom(), To: in.GetTo(),
		Opening: amount.optional(in.GetOpening()), Closing: amount.optional(in.GetClosing()), Checks: each(in.GetChecks(), decodeBankCheck),
		Flags: each(in.GetFlags(), decodeBankFlag), Lines: int(in.GetLines()), Added: int(in.GetAdded()), AddedSum: amount.of(in.GetAddedSum()),
		Balance: amount.of(in.GetBalance()), Anchored: in.GetAnchored(), Covers: in.GetCovers(),
	}
	return out, amount.err
}

func decodeBankLine(in *khatav1.BankLine) (BankLine, error) {
	var amount amounts
	out := BankLine{
		No: in.GetNo(), File: in.GetFile(), Statement: in.GetStatement(), Kind: in.GetKind(), Parent: in.GetParent(), Counts: in.GetCounts(),
		BookedOn: in.GetBookedOn(), ValueOn: in.GetValueOn(), Amount: amount.of(in.GetAmount()), Open: amount.of(in.GetOpen()),
		Currency: ledger.CurrencyCode(in.GetCurrency()), Status: in.GetStatus(), Reversal: in.GetReversal(), ExternalID: in.GetExternalId(),
		Code: in.GetCode(), Description: in.GetDescription(), References: in.GetReferences(), PartyName: in.GetPartyName(),
		PartyAccount: in.GetPartyAccount(), PartyBank: in.GetPartyBank(), Flags: each(in.GetFlags(), decodeBankFlag),
	}
	return out, amount.err
}
