// Package cli is the command line of Khata: a file for each command. Commands that talk to a server use ledger/client.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"sync/atomic"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// The exit codes of the client commands.
const (
	// ExitOK: done; of a transfer: posted, now or before.
	ExitOK = 0
	// ExitFailure: anything that has no code of its own.
	ExitFailure = 1
	// ExitUsage: the command line or a value in it is wrong. Nothing was written.
	ExitUsage = 2
	// ExitRefused: the transfer was refused, and that is on record; or, of what people ask for at the support desk, it would be.
	ExitRefused = 3
	// ExitConflict: the id is taken by other content, or somebody else has decided first. Nothing was written.
	ExitConflict = 4
	// ExitNotFound: a ledger, account, transfer, currency, or whatever else the command names, does not exist. Nothing was written.
	ExitNotFound = 5
	// ExitUnavailable: no answer; of what writes, the outcome is open if anything was sent. Run the same command again.
	ExitUnavailable = 6
	// ExitDenied: the caller is not known to the server, or may not do this. Nothing was written.
	ExitDenied = 7
)

// IO is where a command reads and writes.
type IO struct {
	In       io.Reader
	Out, Err io.Writer
}

// Version is set by the build.
var Version = ""

// Run runs one command line and returns the exit code.
func Run(ctx context.Context, args []string, streams IO) int {
	app := &app{IO: streams, getenv: os.Getenv}
	root := app.root()
	root.SetArgs(args)
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return ExitOK
	}
	var silent *exitError
	if !errors.As(err, &silent) {
		app.printError(err)
	}
	return exitCode(err)
}

// app is what the commands share.
type app struct {
	IO
	getenv func(string) string

	// Of the client commands.
	address, ledger, tokenFile string
	json                       bool
	tls                        security
	// waiting says that it was said that the server does not answer.
	waiting atomic.Bool
	calls   calls
}

// exitError ends a command with an exit code and nothing more to say.
type exitError struct{ code int }

func (e *exitError) Error() string { return fmt.Sprintf("exit %d", e.code) }

// usageError is a mistake in the command line.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

func exitCode(err error) int {
	var exit *exitError
	var usage usageError
	var refused *client.BankFileRefusal
	var conflict conflictError
	var refusedByBooks refusedError
	switch {
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &usage):
		return ExitUsage
	case errors.As(err, &refused): // The command line is in order, and the file is not.
		return ExitFailure
	case errors.As(err, &conflict):
		return ExitConflict
	case errors.As(err, &refusedByBooks):
		return ExitRefused
	}
	switch ledger.CodeOf(err) {
	case ledger.CodeInvalidArgument, ledger.CodeUnbalanced, ledger.CodeCurrencyMismatch, ledger.CodeAmountScale, ledger.CodeWrongOrigin:
		return ExitUsage
	case ledger.CodeAlreadyExists:
		return ExitConflict
	case ledger.CodeLedgerNotFound, ledger.CodeAccountNotFound, ledger.CodeTransferNotFound, ledger.CodeCurrencyNotFound, ledger.CodeNotFound:
		return ExitNotFound
	case ledger.CodeUnauthenticated, ledger.CodePermissionDenied:
		return ExitDenied
	case ledger.CodeUnavailable, ledger.CodeOverloaded, ledger.CodeRateLimited, ledger.CodeConflict, ledger.CodeDeadlineExceeded, ledger.CodeCancelled:
		return ExitUnavailable
	}
	// A precondition that does not hold among them, such as CodeNotSerialised or CodeBalanceNotZero: the command line is in order, and
	// nothing is on record. Of an atomic call it is the transfer at fault that decides.
	return ExitFailure
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "khata",
		Short: "A double-entry ledger: press once or ten times, the money moves once",
		Long: `Khata is a double-entry ledger on PostgreSQL. A transfer is named by an id that the caller chooses; whatever is
sent under that id again gets the first answer again, and the money moves once.

  khata up                                  start everything on this machine
  khata account create wallet:shimul --type liability --currency BDT --floor 0
  khata transfer post --id TXN-88412 --debit wallet:shimul --credit wallet:tithi --amount 500.00 --currency BDT
  khata balance wallet:shimul

Every flag can also be set in the environment, as KHATA_ and its name: KHATA_ADDR for --addr, KHATA_DATA_DIR for
--data-dir. The flag wins. KHATA_TOKEN, which has no flag, is the token that says who is calling.

Exit codes: 0 done (posted or replayed), 1 failure, 2 usage or a malformed value, 3 refused and recorded, 4 conflict (the
id is taken by other content), 5 not found, 6 unavailable (the outcome is open: run the same command again), 7 denied (the
caller is not known, or may not do this).`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usagef("%w (see %s --help)", err, cmd.CommandPath())
	})
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return a.applyEnvironment(cmd) }
	root.AddCommand(
		a.upCommand(), a.serveCommand(), a.migrateCommand(), a.verifyCommand(), a.tokenCommand(),
		a.ledgerCommand(), a.currencyCommand(), a.accountCommand(), a.transferCommand(), a.holdCommand(),
		a.refundCommand(), a.reverseCommand(), a.balanceCommand(), a.entriesCommand(), a.periodCommand(), a.importCommand(), a.reviewCommand(), a.suspectsCommand(), a.supportCommand(),
		a.auditCommand(), a.benchCommand(),
		a.reportCommand(), a.statementCommand(), a.reconcileCommand(), a.exportCommand(),
		a.topicsCommand(), a.relayCommand(), a.eventsCommand(), a.inboxCommand(), a.consumeCommand(), a.fraudCommand(), a.payCommand(),
		a.versionCommand(),
	)
	wrapArgs(root)
	showVariables(root)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	return root
}

// wrapArgs makes a wrong number of arguments, or an unknown subcommand, the usage error that it is.
func wrapArgs(cmd *cobra.Command) {
	check := cmd.Args
	if check == nil {
		check = cobra.ArbitraryArgs
	}
	if cmd.HasSubCommands() {
		check = cobra.NoArgs
	}
	if cmd.HasSubCommands() && cmd.RunE == nil { // Some do something themselves.
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			return usagef("%s needs a subcommand (see %s --help)", cmd.CommandPath(), cmd.CommandPath())
		}
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var usage usageError
		if err == nil || errors.As(err, &usage) { // One of ours has said how it is written.
			return err
		}
		return usagef("%w (see %s --help)", err, cmd.CommandPath())
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

func (a *app) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			version := Version
			if info, ok := debug.ReadBuildInfo(); ok && version == "" {
				version = info.Main.Version
			}
			_, err := fmt.Fprintln(a.Out, "khata", version)
			return err
		},
	}
}
