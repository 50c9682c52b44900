package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// profileFlags are the flags of how a CSV file is read: by a profile of the server, or by one in a file.
type profileFlags struct {
	name, file string
	version    int
}

func (f *profileFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.name, "profile", "", "profile by which CSV is read, of those that were saved")
	cmd.Flags().StringVar(&f.file, "profile-file", "", "file with a profile, instead of --profile")
	cmd.Flags().IntVar(&f.version, "profile-version", 0, "an earlier version of --profile; 0 is the last")
	for _, flag := range []string{"profile", "profile-file", "profile-version"} {
		onlyOnCommandLine(cmd, flag)
	}
}

func (f *profileFlags) check() error {
	switch {
	case f.name != "" && f.file != "":
		return usagef("give either --profile or --profile-file")
	case f.version != 0 && f.name == "":
		return usagef("--profile-version goes with --profile")
	}
	return nil
}

// read gives the profile and its text; nil without one. The server is asked only for its own.
func (f *profileFlags) read(ctx context.Context, a *app) (text string, profile *bankfile.Profile, err error) {
	if err := f.check(); err != nil {
		return "", nil, err
	}
	switch {
	case f.file != "":
		return a.readProfile(f.file)
	case f.name == "":
		return "", nil, nil
	}
	err = a.withReconciliation(func(r *client.Reconciliation) error {
		stored, err := r.BankProfile(ctx, f.name, f.version)
		if err != nil {
			return err
		}
		text = stored.Content
		if profile, err = bankfile.ParseProfile([]byte(text)); err != nil {
			return fmt.Errorf("profile %s version %d cannot be read by this version of khata: %w", stored.Name, stored.Version, err)
		}
		return nil
	}, map[string]string{"name": fieldFlags["profile"], "version": "--profile-version"})
	return text, profile, err
}

func (a *app) reconcilePreviewCommand() *cobra.Command {
	var profile profileFlags
	var format string
	var lines int
	cmd := &cobra.Command{
		Use:   "preview FILE",
		Short: "Show what is read of a file of the bank; nothing is imported",
		Long: `Show what is read of a file of the bank, and whether it adds up by itself. Of CSV it shows what each line is read as, so that a profile can be
tried; with --profile-file, and of other formats, no server is needed. - is standard input. Exit code 1: something is wrong with the file, or the
profile does not fit it.

  khata reconcile preview january.csv --profile-file profile.json
  khata reconcile preview january.sta`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if lines < 1 {
				return usagef("--lines %d: want how many lines are shown, 1 or more", lines)
			}
			if format != "" && !slices.Contains(fileFormats, bankfile.Format(format)) {
				return usagef("--format %q: want one of %s", format, listed(fileFormats))
			}
			_, p, err := profile.read(cmd.Context(), a)
			if err != nil {
				return err
			}
			content, err := a.readBankFile(args[0])
			if err != nil {
				return err
			}
			return a.preview(cmd.Context(), args[0], content, bankfile.Options{Profile: p, Format: bankfile.Format(format), Scale: isoScale}, lines)
		},
	}
	profile.add(cmd)
	addFileFormat(cmd, &format)
	cmd.Flags().IntVar(&lines, "lines", 20, "how many lines of a CSV file are shown; the whole file is checked")
	onlyOnCommandLine(cmd, "lines")
	return cmd
}

// fileFormats are those of files that are read.
var fileFormats = []bankfile.Format{
	bankfile.FormatCSV, bankfile.FormatCamt053, bankfile.FormatMT940, bankfile.FormatBAI2, bankfile.FormatOFX, bankfile.FormatStripe, bankfile.FormatZip,
}

// listed is a list of what is allowed, for people.
func listed[T ~string](list []T) string {
	texts := make([]string, len(list))
	for i, text := range list {
		texts[i] = string(text)
	}
	return strings.Join(texts, ", ")
}

// readBankFile reads a file of which there are to be several passes.
func (a *app) readBankFile(path string) ([]byte, error) {
	const most = 256 << 20 // as much as is read of a bank's file anywhere
	in, _, err := a.openInput(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	content, err := io.ReadAll(io.LimitReader(in, most+1))
	switch {
	case err != nil:
		return nil, usageError{err}
	case len(content) > most:
		return nil, usagef("%s has more than %d MiB, which is more than can be imported", path, most>>20)
	}
	return content, nil
}

// isoScale is how many decimals a currency has that everybody knows. Those that were registered are the server's to know.
func isoScale(code string) (int32, bool) {
	currency, ok := ledger.ISOCurrency(ledger.CurrencyCode(code))
	return currency.Scale, ok
}

func (a *app) preview(ctx context.Context, path string, content []byte, options bankfile.Options, lines int) error {
	if options.Format == "" {
		format, _, err := bankfile.Detect(bytes.NewReader(content))
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if options.Format = format; format == "" {
			options.Format = bankfile.FormatCSV
		}
	}
	if options.Format == bankfile.FormatCSV {
		if options.Profile == nil {
			return usagef("%s is of no format that can be recognised. If it is CSV, give a profile of the bank: --profile or --profile-file", path)
		}
		if err := a.previewCSV(ctx, content, *options.Profile, lines); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	file, err := bankfile.Parse(ctx, bytes.NewReader(content), options)
	if file == nil {
		return usageError{err}
	}
	if printed := a.printParsed(path, file); printed != nil {
		return printed
	}
	var refusal *bankfile.Refusal
	if errors.As(err, &refusal) {
		r := client.BankFileRefusal{
			Reason: string(refusal.Reason), Member: refusal.Member, Statement: refusal.Statement, Account: refusal.Account, Position: refusal.Position,
			Detail: refusal.Detail, Stated: refusal.Stated, Computed: refusal.Computed,
		}
		return &refusedFile{path: path, refusal: &r}
	}
	return err
}

type previewLineJSON struct {
	Kind      string            `json:"kind"`
	Position  int               `json:"position"`
	Fields    []string          `json:"fields,omitempty"`
	Account   string            `json:"account,omitempty"`
	BookedOn  string            `json:"booked_on,omitempty"`
	ValueOn   string            `json:"value_on,omitempty"`
	Amount    string            `json:"amount,omitempty"`
	Currency  string            `json:"currency,omitempty"`
	Status    string            `json:"status,omitempty"`
	ID        string            `json:"external_id,omitempty"`
	Refs      map[string]string `json:"references,omitempty"`
	Code      string            `json:"code,omitempty"`
	Text      string            `json:"description,omitempty"`
	PartyName string            `json:"party_name,omitempty"`
	Flags     []bankFlagJSON    `json:"flags,omitempty"`
	Error     string            `json:"error,omitempty"`
}

// previewCSV shows what each of the first lines is read as.
func (a *app) previewCSV(ctx context.Context, content []byte, profile bankfile.Profile, most int) error {
	lines, failed := bankfile.Preview(ctx, bytes.NewReader(content), profile, bankfile.Limits{}, most)
	list := a.list(">LINE", "IS", "DATE", "VALUE", ">AMOUNT", "CUR", "REFERENCE", "TEXT")
	for _, l := range lines {
		out := previewLineJSON{Kind: string(l.Kind), Position: l.Position, Fields: l.Fields, Account: l.Account}
		cells := []string{fmt.Sprint(l.Position), string(l.Kind), "", "", "", "", "", short(strings.Join(l.Fields, " | "), 80)}
		switch {
		case l.Err != nil:
			out.Error = l.Err.Error()
			cells[1], cells[7] = "WRONG", out.Error
		case l.Line != nil:
			line := fromParsed(*l.Line)
			out.BookedOn, out.ValueOn, out.Amount, out.Currency, out.Status = line.BookedOn, line.ValueOn, written(line.Amount), string(line.Currency), line.Status
			out.ID, out.Refs, out.Code, out.Text, out.PartyName = line.ExternalID, line.References, line.Code, line.Description, line.PartyName
			out.Flags = bankFlagsJSON(line.Flags)
			cells = append(cells[:2], line.BookedOn, otherDay(line), out.Amount, out.Currency, short(reference(line), 35), short(lineText(line), 60))
		}
		if err := list.add(out, cells...); err != nil {
			return err
		}
	}
	if err := list.end(); err != nil {
		return err
	}
	if failed == nil && len(lines) == most && !a.json {
		return a.write("…\n")
	}
	var refusal *bankfile.Refusal
	if errors.As(failed, &refusal) {
		return nil // Parse says so again, with all that goes with it.
	}
	return failed
}

// fromParsed is a line that was read as one of the server's would be.
func fromParsed(l bankfile.Line) client.BankLine {
	refs := map[string]string{}
	for name, value := range map[string]string{
		"end_to_end": l.References.EndToEnd, "bank": l.References.Bank, "customer": l.References.Customer, "instruction": l.References.Instruction,
		"transaction": l.References.Transaction, "mandate": l.References.Mandate, "creditor": l.References.Creditor, "batch": l.References.Batch,
		"source": l.References.Source, "cheque": l.References.Cheque,
	} {
		if value != "" {
			refs[name] = value
		}
	}
	out := client.BankLine{
		BookedOn: l.BookingDate.String(), ValueOn: l.ValueDate.String(), Amount: l.Amount, Currency: ledger.CurrencyCode(l.Currency), Status: string(l.Status),
		ExternalID: l.ExternalID, References: refs, Code: l.Code, Description: l.Description, PartyName: l.Counterparty.Name,
	}
	for _, f := range l.Flags {
		out.Flags = append(out.Flags, client.BankFlag{Code: string(f.Code), Text: f.Text})
	}
	return out
}

type parsedFileJSON struct {
	Format     string                `json:"format"`
	SHA256     string                `json:"sha256,omitempty"`
	Members    []string              `json:"members,omitempty"`
	Checks     []bankCheckJSON       `json:"checks,omitempty"`
	Statements []parsedStatementJSON `json:"statements"`
}

type parsedStatementJSON struct {
	Member   string          `json:"member,omitempty"`
	ID       string          `json:"id,omitempty"`
	Account  string          `json:"account,omitempty"`
	Currency string          `json:"currency,omitempty"`
	Number   string          `json:"number,omitempty"`
	From     string          `json:"from,omitempty"`
	To       string          `json:"to,omitempty"`
	Opening  string          `json:"opening,omitempty"`
	Closing  string          `json:"closing,omitempty"`
	Lines    int             `json:"lines"`
	Sum      string          `json:"sum"`
	Checks   []bankCheckJSON `json:"checks,omitempty"`
	Flags    []bankFlagJSON  `json:"flags,omitempty"`
}

func fromChecks(list []bankfile.Check) []client.BankCheck {
	var out []client.BankCheck
	for _, c := range list {
		out = append(out, client.BankCheck{Name: string(c.Name), State: string(c.State), Detail: c.Detail, Stated: c.Stated, Computed: c.Computed})
	}
	return out
}

// printParsed shows what the file says of itself.
func (a *app) printParsed(path string, file *bankfile.File) error {
	out := parsedFileJSON{Format: string(file.Format), SHA256: file.SHA256, Checks: bankChecksJSON(fromChecks(file.Checks)), Statements: []parsedStatementJSON{}}
	for _, m := range file.Members {
		out.Members = append(out.Members, m.Name)
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s  %s\n%s", plainText(path), file.Format, checksText(fromChecks(file.Checks), "  "))
	for i, s := range file.Statements {
		parsed := toParsedStatement(s)
		out.Statements = append(out.Statements, parsed)
		text.WriteString(parsedText(i+1, s, parsed))
	}
	return a.print(out, strings.TrimRight(text.String(), "\n"))
}

func toParsedStatement(s *bankfile.Statement) parsedStatementJSON {
	out := parsedStatementJSON{
		Member: s.Member, ID: s.ID, Account: s.AccountID, Currency: s.Currency, Number: s.Number, From: s.From.String(), To: s.To.String(),
		Lines: len(s.Lines), Checks: bankChecksJSON(fromChecks(s.Checks)),
	}
	if s.Opening != nil {
		out.Opening = written(s.Opening.Amount)
	}
	if s.Closing != nil {
		out.Closing = written(s.Closing.Amount)
	}
	sum := decimal.Zero
	for _, l := range s.Lines {
		if l.Status == bankfile.StatusBooked {
			sum = sum.Add(l.Amount)
		}
	}
	out.Sum = written(sum)
	for _, f := range s.Flags {
		out.Flags = append(out.Flags, bankFlagJSON{string(f.Code), f.Text})
	}
	for _, l := range s.Lines {
		for _, f := range l.Flags {
			out.Flags = append(out.Flags, bankFlagJSON{string(f.Code), fmt.Sprintf("line %d of %s: %s", l.Ordinal, l.BookingDate, f.Text)})
		}
	}
	return out
}

func parsedText(no int, s *bankfile.Statement, parsed parsedStatementJSON) string {
	title := fmt.Sprintf("statement %d", no)
	for _, part := range []struct{ name, value string }{
		{", ", s.Member}, {", number ", s.Number}, {", account ", s.AccountID}, {", ", s.Currency},
	} {
		if part.value != "" {
			title += part.name + part.value
		}
	}
	if parsed.From != "" {
		title += ", " + parsed.From + " to " + parsed.To
	}
	rows := newColumns("", ">", "")
	if s.Opening != nil {
		rows.row("opening", parsed.Opening, "")
	}
	rows.row("booked", parsed.Sum, "in "+count(int64(parsed.Lines), "line", "lines"))
	if s.Closing != nil {
		rows.row("closing", parsed.Closing, "")
	}
	text := "  " + plainText(title) + "\n" + rows.text("    ") + checksText(fromChecks(s.Checks), "    ")
	const most = 20
	for i, f := range parsed.Flags {
		if i == most {
			return text + fmt.Sprintf("    and %d notes more: --json has them\n", len(parsed.Flags)-most)
		}
		text += fmt.Sprintf("    note: %s\n", plainText(f.Text))
	}
	return text
}
