package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileImportCommand() *cobra.Command {
	var spec client.BankFileSpec
	cmd := &cobra.Command{
		Use:   "import FILE...",
		Short: "Import files of the bank, each whole or not at all; the same file again is no error",
		Long: `Import files of the bank: camt.053, MT940, BAI2, OFX, a report of Stripe, CSV by a profile, or a zip of these. Each is imported whole or not at
all, the same file again does nothing, and files that overlap add what is new. Give the oldest first. - is standard input.

A file that does not add up, is of another account, or leaves a gap is refused with the two numbers that differ; the exit code is 1, and the files
after it are not tried. --dry-run finds that out, and imports nothing; it looks at each file as if it were the only one.`,
		Args: atLeastOneArg("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if spec.ProfileVersion != 0 && spec.Profile == "" {
				return usagef("--profile-version goes with --profile")
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				for i, path := range args {
					if err := a.importBankFile(cmd, r, path, spec); err != nil {
						if rest := args[i+1:]; len(rest) > 0 && !a.json {
							fmt.Fprintf(a.Err, "not tried: %s\n", strings.Join(rest, " "))
						}
						return err
					}
				}
				return nil
			}, map[string]string{"bank_account": "--bank-account; khata reconcile account list shows them", "file": "FILE"})
		},
	}
	cmd.Flags().StringVar(&spec.BankAccount, "bank-account", "", "the bank account (default: each statement goes to the one that knows its account number)")
	cmd.Flags().StringVar(&spec.Profile, "profile", "", "profile by which CSV is read (default: that of the bank account)")
	cmd.Flags().IntVar(&spec.ProfileVersion, "profile-version", 0, "an earlier version of --profile; 0 is the last")
	addFileFormat(cmd, &spec.Format)
	cmd.Flags().BoolVar(&spec.DryRun, "dry-run", false, "find out what would become of it, and import nothing")
	for _, flag := range []string{"profile", "profile-version", "dry-run"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// addFileFormat adds the flag of the format of a file that is read.
func addFileFormat(cmd *cobra.Command, format *string) {
	cmd.Flags().StringVar(format, "format", "", "csv, camt.053, mt940, bai2, ofx, stripe or zip (default: it is recognised; CSV, by its profile)")
	onlyOnCommandLine(cmd, "format")
}

func (a *app) importBankFile(cmd *cobra.Command, r *client.Reconciliation, path string, spec client.BankFileSpec) error {
	in, _, err := a.openInput(path)
	if err != nil {
		return err
	}
	defer in.Close()
	spec.FileName = filepath.Base(path)
	if path == "-" {
		spec.FileName = "standard input"
	}
	imported, err := r.ImportBankFile(cmd.Context(), spec, in)
	var refused *client.BankFileRefusal
	if errors.As(err, &refused) {
		return &refusedFile{path, withFlags(refused, spec.BankAccount), ", and nothing of it was imported"}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, f := range imported.Files {
		if a.json {
			out := toBankFileJSON(f)
			out.DryRun, out.Replayed = spec.DryRun, &f.Replayed
			if err := a.print(out, ""); err != nil {
				return err
			}
			continue
		}
		if err := a.write(importedText(path, f, spec.DryRun)); err != nil {
			return err
		}
	}
	return nil
}

// withFlags says how a file gets the profile that it lacks; the server names the fields of the API.
func withFlags(refused *client.BankFileRefusal, bankAccount string) *client.BankFileRefusal {
	const needs = "CSV needs a profile"
	what, _, found := strings.Cut(refused.Detail, needs)
	if !found {
		return refused
	}
	flags := *refused
	flags.Detail = what + needs + ": give --bank-account, if that has one, or --profile; khata reconcile profile list shows them"
	if bankAccount != "" {
		flags.Detail = what + needs + ": give --profile, or set one with khata reconcile account set " + bankAccount +
			" --profile; khata reconcile profile list shows them"
	}
	return &flags
}

// refusedFile is that a file was refused.
type refusedFile struct {
	path    string
	refusal *client.BankFileRefusal
	// so is what follows from it.
	so string
}

// Error says why, where, and the two numbers that differ, each on a line.
func (e *refusedFile) Error() string {
	r := e.refusal
	text := fmt.Sprintf("%s is refused (%s)%s: %s", plainText(e.path), r.Reason, e.so, plainText(r.Detail))
	rows := newColumns("", "")
	add := func(title, value string) {
		if value != "" && value != "0" {
			rows.row(title, value)
		}
	}
	add("member", r.Member)
	add("statement", fmt.Sprint(r.Statement))
	add("account", r.Account)
	add("line of text", fmt.Sprint(r.Position))
	if r.Stated != "" || r.Computed != "" {
		rows.row("stated", r.Stated)
		rows.row("computed", r.Computed)
	}
	return strings.TrimRight(text+"\n"+rows.text("  ")+checksText(r.Checks, "  "), "\n")
}

// Unwrap gives the refusal, for --json.
func (e *refusedFile) Unwrap() error { return e.refusal }

// importedText tells what became of a file.
func importedText(path string, f client.BankFile, dryRun bool) string {
	var out strings.Builder
	name := path
	if f.Member != "" {
		name += ", " + f.Member
	}
	did := fmt.Sprintf("file %d of bank account %s", f.No, f.BankAccount)
	switch {
	case dryRun && f.Replayed:
		did += ", where it is already"
	case dryRun:
		did = "would be imported for bank account " + f.BankAccount
	case f.Replayed:
		did += fmt.Sprintf(": it was imported before, at %s by %s, and nothing was done now", formatTime(f.ImportedAt), f.ImportedBy)
	}
	fmt.Fprintf(&out, "%s  %s  %s\n", plainText(name), formatText(f), did)
	out.WriteString(fileDetail(f))
	return out.String()
}

func formatText(f client.BankFile) string {
	if f.Profile == "" {
		return f.Format
	}
	return fmt.Sprintf("%s by profile %s version %d", f.Format, f.Profile, f.ProfileVersion)
}

// fileDetail is what there is to say of a file's statements, and its checks.
func fileDetail(f client.BankFile) string {
	var out strings.Builder
	out.WriteString(checksText(f.Checks, "  "))
	for _, s := range f.Statements {
		title := fmt.Sprintf("statement %d", s.Ordinal)
		if s.Number != "" {
			title += ", number " + s.Number
		}
		if s.From != "" {
			title += ", " + s.From + " to " + s.To
		}
		fmt.Fprintf(&out, "  %s\n", plainText(title))
		rows := newColumns("", ">", "")
		rows.row("lines", fmt.Sprint(s.Lines), "")
		rows.row("new", fmt.Sprint(s.Added), "coming to "+written(s.AddedSum))
		if s.Opening != nil {
			rows.row("opening", written(*s.Opening), "")
		}
		if s.Closing != nil {
			rows.row("closing", written(*s.Closing), "")
		}
		what := "all lines until now; what the bank's balance is, its files do not say"
		if s.Anchored {
			what = "at the bank"
		}
		rows.row("balance", written(s.Balance), what)
		out.WriteString(rows.text("    "))
		out.WriteString(checksText(s.Checks, "    "))
		for _, flag := range s.Flags {
			fmt.Fprintf(&out, "    note: %s\n", plainText(flag.Text))
		}
	}
	return out.String()
}

// checksText lists checks, with the two numbers where two were compared and differ, and the words do not have them.
func checksText(checks []client.BankCheck, indent string) string {
	rows := newColumns("", "", "")
	for _, c := range checks {
		text := c.Detail
		told := strings.Contains(text, c.Stated) && strings.Contains(text, c.Computed)
		if c.State == "failed" && c.Stated != c.Computed && !told {
			text += fmt.Sprintf(" (stated %s, computed %s)", c.Stated, c.Computed)
		}
		rows.row(strings.ReplaceAll(c.Name, "_", " "), strings.ReplaceAll(c.State, "_", " "), text)
	}
	return rows.text(indent)
}

func (a *app) reconcileFilesCommand() *cobra.Command {
	var bankAccount string
	var limit int
	cmd := &cobra.Command{
		Use:   "files [NUMBER] --bank-account A",
		Short: "List the files that were imported, the newest first; or show one of them",
		Args:  atMostOneArg("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			no := int64(0)
			if len(args) > 0 {
				if no, err = number("file", args[0], "files"); err != nil {
					return err
				}
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				if no != 0 {
					f, err := r.BankFile(cmd.Context(), bankAccount, no)
					if err != nil {
						return err
					}
					head := fmt.Sprintf("file %d of bank account %s  %s  %s  imported %s by %s\n  sha256 %s\n", f.No, f.BankAccount, plainText(f.Name), formatText(f),
						formatTime(f.ImportedAt), f.ImportedBy, f.SHA256)
					return a.print(toBankFileJSON(f), strings.TrimRight(head+fileDetail(f), "\n"))
				}
				list := a.list(">FILE", "NAME", "FORMAT", "FROM", "TO", ">LINES", ">NEW", ">BALANCE", "IMPORTED", "BY")
				if err := a.listFiles(cmd, r, bankAccount, limit, list); err != nil {
					return errors.Join(list.end(), err)
				}
				return list.end()
			}, map[string]string{"file": "NUMBER; khata reconcile files shows them", "no": "NUMBER; khata reconcile files shows them"})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	addLimit(cmd, &limit)
	return cmd
}

func (a *app) listFiles(cmd *cobra.Command, r *client.Reconciliation, bankAccount string, limit int, list *listing) error {
	n := 0
	for f, err := range r.BankFiles(cmd.Context(), bankAccount) {
		if err != nil {
			return err
		}
		if n++; limit > 0 && n > limit {
			return nil
		}
		var from, to, balance string
		lines, added := 0, 0
		for i, s := range f.Statements {
			if i == 0 {
				from = s.From
			}
			lines, added, to, balance = lines+s.Lines, added+s.Added, s.To, written(s.Balance)
		}
		name := f.Name
		if f.Member != "" {
			name += ", " + f.Member
		}
		if err := list.add(toBankFileJSON(f), fmt.Sprint(f.No), short(name, 40), f.Format, from, to, fmt.Sprint(lines), fmt.Sprint(added), balance,
			formatTime(f.ImportedAt), f.ImportedBy); err != nil {
			return err
		}
	}
	return nil
}

// addLimit adds the flag of how many of a list are wanted.
func addLimit(cmd *cobra.Command, limit *int) {
	cmd.Flags().IntVar(limit, "limit", 0, "stop after so many; 0 lists all")
}

func (a *app) reconcileLinesCommand() *cobra.Command {
	var bankAccount string
	var filter client.BankLineFilter
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use:   "lines --bank-account A",
		Short: "List lines of the bank in the order in which they were imported",
		Long: `List lines of the bank that count, in the order in which they were imported, and what is open of each. Pending lines, those of 0.00, and of a
batch that is broken down its line, are listed with --all. One with all that the bank says of it: khata reconcile show --line N.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needBankAccount(bankAccount); err != nil {
				return err
			}
			filter.Counting = !all
			return a.withReconciliation(func(r *client.Reconciliation) error {
				list := a.list(">LINE", "KIND", "DATE", "VALUE", ">AMOUNT", ">OPEN", "CUR", "REFERENCE", "DESCRIPTION")
				n := 0
				for l, err := range r.BankLines(cmd.Context(), bankAccount, filter) {
					if err != nil {
						return errors.Join(list.end(), err)
					}
					if n++; limit > 0 && n > limit {
						break
					}
					if err := list.add(toBankLineJSON(l), fmt.Sprint(l.No), lineKind(l), l.BookedOn, otherDay(l), written(l.Amount), openText(l), string(l.Currency),
						short(reference(l), 35), short(lineText(l), 60)); err != nil {
						return err
					}
				}
				return list.end()
			}, map[string]string{"file": "--file-number; khata reconcile files shows them"})
		},
	}
	bankAccountFlag(cmd, &bankAccount)
	cmd.Flags().StringVar(&filter.From, "from", "", "the first booking day, such as 2026-01-01")
	cmd.Flags().StringVar(&filter.To, "to", "", "the last booking day, such as 2026-01-31")
	cmd.Flags().Int64Var(&filter.File, "file-number", 0, "only those that were new in this file")
	cmd.Flags().BoolVar(&filter.Open, "open", false, "only those of which something is open")
	cmd.Flags().BoolVar(&all, "all", false, "those that do not count, too")
	addLimit(cmd, &limit)
	for _, flag := range []string{"from", "to", "file-number", "open", "all"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// lineKind is what kind of line it is, where it is no ordinary one.
func lineKind(l client.BankLine) string {
	switch {
	case l.Kind == "detail":
		return fmt.Sprintf("detail of %d", l.Parent)
	case l.Kind != "line":
		return l.Kind
	case l.Status != "booked":
		return l.Status
	case !l.Counts:
		return "batch"
	}
	return ""
}

// otherDay is the value date, where it is another than the booking date.
func otherDay(l client.BankLine) string {
	if l.ValueOn == l.BookedOn {
		return ""
	}
	return l.ValueOn
}

func openText(l client.BankLine) string {
	if l.Open.IsZero() || !l.Counts {
		return "-"
	}
	return written(l.Open)
}

// reference is the first thing by which others know a line, in the order in which they are compared with the books.
func reference(l client.BankLine) string {
	if l.ExternalID != "" {
		return l.ExternalID
	}
	for _, key := range []string{"end_to_end", "bank", "customer", "creditor", "cheque", "instruction", "transaction", "batch", "source", "mandate"} {
		if l.References[key] != "" {
			return l.References[key]
		}
	}
	return ""
}

// lineText is who is at the other side, and the bank's text.
func lineText(l client.BankLine) string {
	return strings.Trim(l.PartyName+": "+l.Description, ": ")
}
