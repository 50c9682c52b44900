package reconcile

import (
	"fmt"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/ledger"
)

// The reasons for which a file is refused beside those that it gives by itself (see package bankfile): it does not go with the bank account, or with
// what was imported before.
const (
	// ReasonAccount: it is of another account, or of one that nobody knows.
	ReasonAccount bankfile.Reason = "other_account"
	// ReasonGap: something is missing between the last statement and this one.
	ReasonGap bankfile.Reason = "gap"
	// ReasonRepeated: its statement has been imported from another file.
	ReasonRepeated bankfile.Reason = "repeated"
	// ReasonOverlap: it covers days that were imported before, and says something else of them.
	ReasonOverlap bankfile.Reason = "overlap_differs"
	// ReasonTooEarly: it is of days before the first statement, whose opening balance stands for all before it.
	ReasonTooEarly bankfile.Reason = "before_the_beginning"
)

// RefusedFile is the error of a file that is refused: nothing of it was imported. By errors.As it is a *ledger.Error of CodeInvalidArgument about the
// field "file", too.
type RefusedFile struct {
	bankfile.Refusal
	// File is what could be read of it, with the checks that were made, for a person to see what is wrong.
	File *bankfile.File
}

// Error says why, where first.
func (r *RefusedFile) Error() string { return r.Unwrap().Error() }

// Unwrap gives the typed error.
func (r *RefusedFile) Unwrap() error {
	return ledger.Invalid("file", "is refused (%s): %s", r.Reason, r.Refusal.Error())
}

// refuse is a refusal of a statement, counted from 0 within its file.
func refuse(reason bankfile.Reason, n int, s *bankfile.Statement, format string, args ...any) *bankfile.Refusal {
	return &bankfile.Refusal{Reason: reason, Member: s.Member, Statement: n + 1, Account: s.AccountID, Detail: fmt.Sprintf(format, args...)}
}

// differ adds the two numbers that differ.
func differ(r *bankfile.Refusal, stated, computed string) *bankfile.Refusal {
	r.Stated, r.Computed = stated, computed
	return r
}
