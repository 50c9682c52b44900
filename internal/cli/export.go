package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) exportCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "export",
		Short: "Write the books for hledger, beancount or a warehouse",
		Long: `Write the books for another program. The journals of hledger and beancount assert the balances that Khata has, so that their own check of
what is in the file is a check of Khata: docs/export.md.

  khata export hledger --month 2026-01 --zone Asia/Dhaka --file january.journal && hledger -f january.journal check
  khata export entries --append entries.ndjson                  goes on where the file ends`,
	})
	cmd.AddCommand(a.exportBookCommand(client.Hledger), a.exportBookCommand(client.Beancount), a.exportEntriesCommand())
	return cmd
}

func (a *app) exportBookCommand(format client.BookFormat) *cobra.Command {
	var f spanFlags
	var assert, path string
	request := client.BookRequest{Format: format}
	cmd := &cobra.Command{
		Use:   string(format),
		Short: fmt.Sprintf("Write the transfers of a period as a journal of %s, with assertions of Khata's balances", format),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if request.Period, request.Basis, err = f.read(); err != nil {
				return err
			}
			if assert != "closing" && assert != "running" {
				return usagef("--assert %q: want closing or running", assert)
			}
			request.Running = assert == "running"
			return a.withReports(func(r *client.Reports) error {
				return a.writeExport(path, func(w io.Writer) error { return r.ExportBook(cmd.Context(), request, w) })
			})
		},
	}
	f.add(cmd, false, true)
	addThrough(cmd, &request.Through)
	cmd.Flags().StringVar(&assert, "assert", "closing", "balances to assert: closing, at the end of the period, or running, after each posting too")
	cmd.Flags().StringVar(&path, "file", "", "file to write to; it is there whole, or not at all (default: standard output)")
	onlyOnCommandLine(cmd, "assert")
	onlyOnCommandLine(cmd, "file")
	if format == client.Hledger {
		cmd.Flags().BoolVar(&request.Metadata, "metadata", false, "the metadata of transfers too, which may have in it what not everybody should see")
		onlyOnCommandLine(cmd, "metadata")
	}
	return cmd
}

// writeExport writes to a file, or to standard output, and tells how much there is already.
func (a *app) writeExport(path string, write func(io.Writer) error) error {
	out, end, err := a.openOutput(path)
	if err != nil {
		return err
	}
	w := &counted{Writer: out}
	if path != "" || !isTerminal(a.Out) {
		w.bar = a.progressBar(-1)
	}
	err = write(w)
	clearBar(w.bar)
	return end(err)
}

// counted is a writer that shows how much was written.
type counted struct {
	io.Writer
	bar *progressbar.ProgressBar // nil where nobody looks
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if c.bar != nil {
		_ = c.bar.Add(n)
	}
	return n, err
}

func (a *app) exportEntriesCommand() *cobra.Command {
	var after, through int64
	var path, appendTo string
	cmd := &cobra.Command{
		Use:   "entries",
		Short: "Write the entries of posted transfers as lines of JSON, for a warehouse",
		Long: `Write the entries of posted transfers as lines of JSON, in the order of their sequences. At the end it says on standard error up to which
sequence they went: all before that is final, and --after that sequence goes on.

With --append the file itself tells where to go on. Whatever an export that was stopped has left at its end is made good, so each entry is in the
file once, however often and whenever the command is run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case appendTo != "" && (path != "" || cmd.Flags().Changed("after")):
				return usagef("--append goes without --file and --after: the file tells where to go on")
			case after < 0:
				return usagef("--after %d: want the sequence of the last transfer that you have, or 0", after)
			}
			return a.withReports(func(r *client.Reports) error {
				if appendTo != "" {
					return a.appendEntries(cmd.Context(), r, appendTo, through)
				}
				var last int64
				err := a.writeExport(path, func(w io.Writer) (err error) {
					last, err = r.ExportEntries(cmd.Context(), after, through, w)
					return err
				})
				if err == nil {
					fmt.Fprintf(a.Err, "through sequence %d: go on with --after %d\n", last, last)
				}
				return err
			})
		},
	}
	cmd.Flags().Int64Var(&after, "after", 0, "begin with the transfers after this sequence")
	addThrough(cmd, &through)
	cmd.Flags().StringVar(&path, "file", "", "file to write to; it is there whole, or not at all (default: standard output)")
	cmd.Flags().StringVar(&appendTo, "append", "", "file to go on with, after the last transfer that is in it")
	onlyOnCommandLine(cmd, "after")
	onlyOnCommandLine(cmd, "file")
	onlyOnCommandLine(cmd, "append")
	return cmd
}

// appendEntries goes on with a file of entries after the last transfer that is whole in it.
func (a *app) appendEntries(ctx context.Context, r *client.Reports, path string, through int64) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return usageError{err}
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return usagef("--append %s is no regular file", path)
	}
	// The lock ends with the process.
	if syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil { //nolint:gosec // A descriptor is small.
		return usagef("--append %s: another export is writing to it", path)
	}
	begun, end, err := export.LastEntry(file)
	if err != nil {
		return usagef("--append %s: %w: give a file that khata export entries has written, or a new one", path, err)
	}
	if name := string(ledger.Name(a.ledger).Or()); begun.Ledger != "" && begun.Ledger != name {
		return usagef("--append %s has the entries of ledger %s, and this is %s: give another file", path, begun.Ledger, name)
	}
	if err := file.Truncate(end); err != nil {
		return err
	}
	if _, err := file.Seek(end, io.SeekStart); err != nil {
		return err
	}
	w := &counted{Writer: file, bar: a.progressBar(-1)}
	last, err := r.ExportEntries(ctx, begun.Sequence, through, w)
	clearBar(w.bar)
	if err = errors.Join(err, file.Sync()); err == nil {
		fmt.Fprintf(a.Err, "through sequence %d\n", last)
	}
	return err
}
