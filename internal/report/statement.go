package report

import (
	"time"

	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
)

// StatementSpec asks for the statement of an account in a period. Whoever asks for the same again gets the same statement.
type StatementSpec struct {
	Ledger  ledger.Name
	Account ledger.AccountID
	// Period ends before now. Its From may be zero: then it begins where the account's last statement ended; the first one needs it.
	Period Period
	Basis  Basis
}

// Statement is an account statement as it was issued. It never changes: what is recorded later, with a time in its period, is in the next one,
// among the late items.
type Statement struct {
	// Number is that of the statement, which no other one has in any ledger; Ordinal its place among those of its account and basis, from 1.
	Number  int64
	Ordinal int
	Ledger  ledger.Name
	Account ledger.AccountID
	Period  Period
	Basis   Basis
	// Through is the last sequence that it has seen.
	Through  int64
	IssuedAt time.Time
	IssuedBy string
	// SHA256 is the hash of Content, in hexadecimal; Content is the statement as sheet.JSON writes it. Listings leave the content out.
	SHA256  string
	Content []byte
}

// Sheet gives the statement's content.
func (s Statement) Sheet() (*sheet.Sheet, error) { return sheet.ParseJSON(s.Content) }
