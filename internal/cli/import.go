package cli

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// maxListed is how many lines that were not posted are listed on the screen.
const maxListed = 20

// importFlags are the flags of import.
type importFlags struct {
	format, delimiter, mapFile, errorsFile string
	createAccounts, dryRun                 bool
	batch, inFlight                        int
	patience                               time.Duration
}

func (a *app) importCommand() *cobra.Command { return a.importCommandTo(a.dialBooks) }

// dialBooks connects to the server, with more patience than a person has.
func (a *app) dialBooks(patience time.Duration) (importer.Books, io.Closer, error) {
	c, err := a.dial(client.Options{Patience: patience})
	return c, c, err
}

type dialer func(patience time.Duration) (importer.Books, io.Closer, error)

func (a *app) importCommandTo(dial dialer) *cobra.Command {
	var f importFlags
	cmd := a.clientFlags(&cobra.Command{
		Use:   "import FILE",
		Short: "Post the transfers of a CSV or NDJSON file; run it again as often as you like",
		Long: `Post the transfers of a file; "-" is standard input. CSV has a header with the columns

  transfer_id,debit_account,credit_account,amount,currency,effective_at,description,metadata

of which the first four are required. NDJSON has an object with these names on each line, or "entries" for more than two.
For other files, such as those of a bank, --map says how their columns make transfers; docs/import.md tells how.

Each line has an id and is posted once: to run the same import again, after it was stopped or to be sure, replays what is
there and posts what is missing. A wrong line is reported and does not stop the others. Correct it and run the import again.

  khata import --map berka-map.json --dry-run trans.csv | head     see what would be posted
  khata import --map berka-map.json --create-accounts --errors wrong.csv trans.csv

Exit codes: 0 every line is posted or replayed, 3 some were refused (that is final and recorded) and no line is wrong, 1 some
lines are wrong, 2 the command line, the map or the header is wrong and nothing was posted, 6 it stopped because the server
did not answer or it was interrupted: run it again.`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error { return a.runImport(cmd.Context(), args[0], f, dial) },
	})
	cmd.Flags().StringVar(&f.format, "format", "", "csv or ndjson (default: by the file's name or its first character)")
	cmd.Flags().StringVar(&f.delimiter, "delimiter", "", `what separates the fields of CSV, such as ";" or "\t" (default: the map's, or ",")`)
	cmd.Flags().StringVar(&f.mapFile, "map", "", "JSON file that maps other columns to transfers (see docs/import.md)")
	cmd.Flags().BoolVar(&f.createAccounts, "create-accounts", false,
		"create accounts that do not exist, by the rules of the map, or else by ids that begin with asset:, liability:, equity:, revenue:, expense:")
	cmd.Flags().StringVar(&f.errorsFile, "errors", "", "file for all lines that were not posted, as CSV")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "post nothing; print the transfers as NDJSON, and the wrong lines")
	cmd.Flags().IntVar(&f.batch, "batch", 1000, "transfers in a call")
	cmd.Flags().IntVar(&f.inFlight, "in-flight", 4, "calls under way at once")
	cmd.Flags().DurationVar(&f.patience, "patience", 2*time.Minute, "for how long a call is tried again while the server does not answer")
	return cmd
}

func (a *app) runImport(ctx context.Context, path string, f importFlags, dial dialer) (err error) {
	config := importer.Config{
		Name: path, Format: importer.Format(f.format), Delimiter: f.delimiter, CreateAccounts: f.createAccounts,
		Batch: f.batch, InFlight: f.inFlight,
	}
	if f.batch < 1 || f.batch > ledger.MaxTransfersPerCall || f.inFlight < 1 {
		return usagef("--batch is 1 to %d, --in-flight at least 1", ledger.MaxTransfersPerCall)
	}
	if f.mapFile != "" {
		if config.Map, err = importer.ReadMap(f.mapFile); err != nil {
			return usagef("map %w", err)
		}
	}
	in, size, err := a.openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	report, err := newImportReport(f.errorsFile, path, f.mapFile)
	if err != nil {
		return err
	}
	config.Problem = report.problem
	summary, err := a.importFrom(ctx, in, size, f, config, dial)
	if closed := report.close(); closed != nil {
		err = errors.Join(err, closed)
	}
	return a.endImport(ctx, summary, report, f, err)
}

// importFrom posts the file, or prints it.
func (a *app) importFrom(ctx context.Context, in io.Reader, size int64, f importFlags, config importer.Config, dial dialer) (importer.Summary, error) {
	if f.dryRun {
		out := bufio.NewWriter(a.Out)
		s, err := importer.Convert(ctx, in, out, config)
		return s, errors.Join(err, out.Flush())
	}
	books, closer, err := dial(f.patience)
	if err != nil {
		return importer.Summary{}, err
	}
	defer closer.Close()
	if bar := a.progressBar(size); bar != nil {
		config.Progress = func(s importer.Summary, read int64) {
			bar.Describe(fmt.Sprintf("line %d, %d posted", s.Lines, s.Posted))
			_ = bar.Set64(read)
		}
		defer func() { _ = bar.Exit() }()
	}
	return importer.Run(ctx, books, in, config)
}

// openInput opens the file, and gives its size, or -1 where that is not known.
func (a *app) openInput(path string) (io.ReadCloser, int64, error) {
	if path == "-" {
		return io.NopCloser(a.In), -1, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, usageError{err}
	}
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, 0, errors.Join(err, file.Close())
	case info.IsDir():
		return nil, 0, errors.Join(usagef("%s is a directory", path), file.Close())
	case !info.Mode().IsRegular():
		return file, -1, nil
	}
	return file, info.Size(), nil
}

// progressBar is nil where nobody looks.
func (a *app) progressBar(size int64) *progressbar.ProgressBar {
	file, ok := a.Err.(*os.File)
	if !ok || a.json {
		return nil
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return nil
	}
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(file), progressbar.OptionShowBytes(true),
		progressbar.OptionFullWidth(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
}

// importReport keeps the lines that were not posted: the first for the screen, all in the file of --errors.
type importReport struct {
	listed []importer.Problem
	more   int
	file   *os.File
	csv    *csv.Writer
}

// newImportReport makes the file of --errors, which must be none of the inputs.
func newImportReport(path string, inputs ...string) (*importReport, error) {
	r := &importReport{}
	if path == "" {
		return r, nil
	}
	if there, err := os.Stat(path); err == nil {
		for _, input := range inputs {
			if info, err := os.Stat(input); err == nil && os.SameFile(info, there) {
				return nil, usagef("--errors %s would overwrite what is to be read", path)
			}
		}
	}
	var err error
	if r.file, err = os.Create(path); err != nil {
		return nil, usageError{err}
	}
	r.csv = csv.NewWriter(r.file)
	return r, r.csv.Write([]string{"line", "transfer_id", "outcome", "reason"})
}

func (r *importReport) problem(p importer.Problem) error {
	if len(r.listed) < maxListed {
		r.listed = append(r.listed, p)
	} else {
		r.more++
	}
	if r.csv == nil {
		return nil
	}
	return r.csv.Write([]string{strconv.Itoa(p.Line), string(p.TransferID), string(p.Outcome), p.Reason})
}

func (r *importReport) close() error {
	if r.csv == nil {
		return nil
	}
	r.csv.Flush()
	return errors.Join(r.csv.Error(), r.file.Close())
}

type summaryJSON struct {
	Lines           int           `json:"lines"`
	Posted          int           `json:"posted"`
	Replayed        int           `json:"replayed"`
	Refused         int           `json:"refused"`
	Wrong           int           `json:"wrong"`
	Conflicts       int           `json:"conflicts"`
	Skipped         int           `json:"skipped"`
	AccountsCreated int           `json:"accounts_created"`
	Seconds         float64       `json:"seconds"`
	StoppedAtLine   int           `json:"stopped_at_line,omitempty"`
	Problems        []problemJSON `json:"problems"`
	MoreProblems    int           `json:"more_problems"`
}

type problemJSON struct {
	Line       int    `json:"line"`
	TransferID string `json:"transfer_id"`
	Outcome    string `json:"outcome"`
	Reason     string `json:"reason"`
}

// endImport prints the summary, and turns it into an exit code.
func (a *app) endImport(ctx context.Context, s importer.Summary, r *importReport, f importFlags, err error) error {
	var stopped *importer.StoppedError
	interrupted := err != nil && ctx.Err() != nil
	if err != nil && !errors.As(err, &stopped) && !interrupted {
		return usageError{err} // The file as a whole is not what it should be, and nothing was posted.
	}
	if printed := a.printSummary(s, r, f, stopped); printed != nil {
		return errors.Join(err, printed)
	}
	switch {
	case interrupted:
		fmt.Fprintln(a.Err, "khata: interrupted")
		return &exitError{ExitUnavailable}
	case err != nil:
		return err
	case s.Wrong > 0:
		return &exitError{ExitFailure}
	case s.Refused > 0:
		return &exitError{ExitRefused}
	}
	return nil
}

func (a *app) printSummary(s importer.Summary, r *importReport, f importFlags, stopped *importer.StoppedError) error {
	out := summaryJSON{
		Lines: s.Lines, Posted: s.Posted, Replayed: s.Replayed, Refused: s.Refused, Wrong: s.Wrong, Conflicts: s.Conflicts,
		Skipped: s.Skipped, AccountsCreated: s.AccountsCreated, Seconds: s.Elapsed.Seconds(), Problems: []problemJSON{}, MoreProblems: r.more,
	}
	var lines []string
	for _, p := range r.listed {
		out.Problems = append(out.Problems, problemJSON{p.Line, string(p.TransferID), string(p.Outcome), p.Reason})
		line := fmt.Sprintf("line %d: %s", p.Line, p.Outcome)
		if p.TransferID != "" {
			line = fmt.Sprintf("line %d, %q: %s", p.Line, string(p.TransferID), p.Outcome)
		}
		lines = append(lines, line+": "+p.Reason)
	}
	if r.more > 0 {
		line := fmt.Sprintf("and %d more", r.more)
		if f.errorsFile == "" {
			line += "; --errors FILE gets them all"
		}
		lines = append(lines, line)
	}
	if f.errorsFile != "" && len(r.listed) > 0 {
		lines = append(lines, "all of them are in "+f.errorsFile)
	}
	lines = append(lines, summaryText(s, f.dryRun))
	if stopped != nil {
		out.StoppedAtLine = stopped.Line
		lines = append(lines, fmt.Sprintf("stopped at line %d: the lines before it are done. Run the same command again: it replays them and goes on.", stopped.Line))
	}
	if f.dryRun { // standard output has the transfers
		_, err := fmt.Fprintln(a.Err, strings.Join(lines, "\n"))
		return err
	}
	return a.print(out, strings.Join(lines, "\n"))
}

func summaryText(s importer.Summary, dryRun bool) string {
	text := fmt.Sprintf("%d lines in %s", s.Lines, s.Elapsed.Round(10*time.Millisecond))
	if dryRun {
		text += fmt.Sprintf(": %d good, %d wrong", s.Lines-s.Wrong, s.Wrong)
	} else {
		text += fmt.Sprintf(": %d posted, %d replayed, %d refused, %d wrong", s.Posted, s.Replayed, s.Refused, s.Wrong)
	}
	if s.Conflicts > 0 {
		text += fmt.Sprintf(" (of these %d conflicts)", s.Conflicts)
	}
	if s.Skipped > 0 {
		text += fmt.Sprintf(", %d skipped", s.Skipped)
	}
	if s.AccountsCreated > 0 {
		text += fmt.Sprintf("; %d accounts created", s.AccountsCreated)
	}
	return text
}
