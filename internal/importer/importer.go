package importer

import (
	"context"
	"fmt"
	"time"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// Books is the ledger that a file is imported into; *client.Client is one. Whatever it does not answer for certain it has
// to have tried again by itself.
type Books interface {
	PostTransfers(ctx context.Context, specs []ledger.TransferSpec) ([]client.Result, error)
	Account(ctx context.Context, id ledger.AccountID) (ledger.Account, error)
	CreateAccounts(ctx context.Context, specs []ledger.AccountSpec) ([]client.CreatedAccount, error)
}

var _ Books = (*client.Client)(nil)

// Config is how a file is read and imported. The zero value of each field is its default.
type Config struct {
	// Name is the file's name, from which the format is guessed.
	Name string
	// Format is CSV or NDJSON. Default: by the name, or else by the first character.
	Format Format
	// Delimiter separates the fields of CSV: one character, or \t. Default: the map's, or else a tab for a name in .tsv, or
	// else a comma.
	Delimiter string
	// Map is for CSV of another shape than the documented one; nil is none.
	Map *Map
	// CreateAccounts makes accounts that do not exist, by the rules of the map or else of DefaultAccounts.
	CreateAccounts bool
	// Batch is how many lines a call has, at most ledger.MaxTransfersPerCall. Default 1,000, which is also the most that the
	// server commits at once.
	Batch int
	// InFlight is how many calls are under way at once. Default 4.
	InFlight int
	// Problem gets every line that was not posted or replayed, in the order of the file; nil is nobody. An error of it stops
	// the import.
	Problem func(Problem) error
	// Progress gets the summary so far and the bytes that were read of the file, after each call; nil is nobody.
	Progress func(Summary, int64)
}

func (c Config) withDefaults() Config {
	if c.Batch <= 0 {
		c.Batch = 1000
	}
	c.Batch = min(c.Batch, ledger.MaxTransfersPerCall)
	if c.InFlight <= 0 {
		c.InFlight = 4
	}
	return c
}

func (c Config) delimiter() (byte, error) {
	text := c.Delimiter
	if text == "" && c.Map != nil {
		text = c.Map.Delimiter
	}
	if text == "" {
		text = defaultDelimiter(c.Name)
	}
	return delimiterByte(text)
}

// Outcome is what became of a line that is a problem.
type Outcome string

// The outcomes of problems.
const (
	// Refused: the state of the books refused it, finally, and that is on record.
	Refused Outcome = "refused"
	// Wrong: nothing was written; the line can be corrected and imported again.
	Wrong Outcome = "wrong"
	// Conflict: wrong, because the id is taken by a transfer with other content.
	Conflict Outcome = "conflict"
)

// Problem is a line that was not posted or replayed.
type Problem struct {
	// Line is where it begins in the file, from 1.
	Line int
	// TransferID is "" where the line was not understood so far.
	TransferID ledger.TransferID
	Outcome    Outcome
	Reason     string
}

// Summary is what became of the lines of a file.
type Summary struct {
	// Lines is how many lines were dealt with: the sum of the next four. The header, blank lines and those that the map
	// skips are not among them; a record of CSV that goes over several lines is one.
	Lines    int
	Posted   int
	Replayed int
	// Refused is how many are refused, now or in an earlier run.
	Refused int
	// Wrong is how many lines are wrong, conflicts included.
	Wrong     int
	Conflicts int
	// Skipped is how many lines the map skips.
	Skipped int
	// AccountsCreated is how many accounts were made.
	AccountsCreated int
	Elapsed         time.Duration
}

// StoppedError is returned by an import that could not go on. Every line before Line was dealt with; of Line and those
// after it some may have been posted. To run the import again is safe and finds out.
type StoppedError struct {
	Line int
	Err  error
}

// Error says where and why it stopped.
func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped at line %d: %v", e.Line, e.Err)
}

// Unwrap returns why it stopped.
func (e *StoppedError) Unwrap() error { return e.Err }
