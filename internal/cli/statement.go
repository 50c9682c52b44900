package cli

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/export"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) statementCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "statement",
		Short: "Issue account statements, show and list them, and what was recorded since",
		Long: `A statement tells what an account did in a period that is over, from its opening to its closing balance. Once issued it never changes: what
is recorded later, with a time in its period, is among the late items of the next one, which begins where this one ends.

  khata statement issue wallet:shimul --month 2026-01 --zone Asia/Dhaka
  khata statement issue wallet:shimul --to 2026-03-01 --zone Asia/Dhaka     begins where the last one ended
  khata statement list --account wallet:shimul
  khata statement show 1 --format json | sha256sum                          the hash that list shows
  khata statement changes 1                                                 what was recorded of its period since`,
	})
	cmd.AddCommand(a.statementIssueCommand(), a.statementShowCommand(), a.statementListCommand(), a.statementChangesCommand())
	return cmd
}

func (a *app) statementIssueCommand() *cobra.Command {
	var f spanFlags
	cmd := &cobra.Command{
		Use:   "issue ACCOUNT --month MONTH|--to DAY [--from DAY]",
		Short: "Issue the statement of an account; to do it again gives the same one",
		Long: `Issue the statement of an account for a period that is over. Whoever asks for the same again gets the same statement. The statements of an
account, by one basis, are a chain: leave --from out, and the next one begins where the last one ended.`,
		Args: exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			spec := client.StatementSpec{Account: ledger.AccountID(args[0])}
			if spec.Period, spec.Basis, err = f.read(); err != nil {
				return err
			}
			if spec.Period.To.IsZero() {
				return usagef("a statement ends: give --month, or --to with the first day that is not in it")
			}
			return a.withReports(func(r *client.Reports) error {
				s, issued, err := r.IssueStatement(cmd.Context(), spec)
				if err != nil {
					return err
				}
				return a.printStatement(s, &issued)
			})
		},
	}
	f.add(cmd, false, true)
	cmd.Flags().Lookup("from").Usage = "first day or moment: 2026-01-01, 2026-01 or RFC 3339 (default: where the account's last statement ended)"
	cmd.Flags().Lookup("to").Usage = "first day or moment after the period: 2026-02-01, 2026-02 or RFC 3339"
	return cmd
}

type statementJSON struct {
	Ledger    string `json:"ledger"`
	Statement int64  `json:"statement"`
	Account   string `json:"account"`
	Basis     string `json:"basis"`
	Ordinal   int    `json:"ordinal"`
	From      string `json:"from"`
	To        string `json:"to"`
	Zone      string `json:"zone"`
	Through   int64  `json:"through"`
	IssuedAt  string `json:"issued_at"`
	IssuedBy  string `json:"issued_by"`
	SHA256    string `json:"sha256"`
	// Issued is of issue only.
	Issued *bool `json:"issued,omitempty"`
}

// printStatement prints what a statement is of. Issued is whether it was issued now, where that is the question.
func (a *app) printStatement(s client.Statement, issued *bool) error {
	out := statementJSON{
		Ledger: string(s.Ledger), Statement: s.Number, Account: string(s.Account), Basis: string(s.Basis), Ordinal: s.Ordinal,
		From: formatTime(s.Period.From), To: formatTime(s.Period.To), Zone: s.Period.Zone, Through: s.Through, IssuedAt: formatTime(s.IssuedAt),
		IssuedBy: s.IssuedBy, SHA256: s.SHA256, Issued: issued,
	}
	text := fmt.Sprintf("%d  %s  %s to %s %s  by %s  issued %s by %s  sha256 %s", s.Number, s.Account, momentIn(s.Period.From, s.Period.Zone),
		momentIn(s.Period.To, s.Period.Zone), s.Period.Zone, s.Basis, out.IssuedAt, s.IssuedBy, s.SHA256)
	if issued != nil && !*issued {
		text += "  (it was issued before, and nothing was written now)"
	}
	return a.print(out, text)
}

// momentIn is a moment in a zone: a day, where one begins with it.
func momentIn(t time.Time, zone string) string {
	location, err := report.ParseZone(zone)
	if err != nil {
		location = time.UTC // A zone that the server knows, and not this program.
	}
	local := t.In(location)
	if h, m, s := local.Clock(); h == 0 && m == 0 && s == 0 && local.Nanosecond() == 0 {
		return local.Format(time.DateOnly)
	}
	return local.Format(time.RFC3339Nano)
}

// statementNumber reads the number of a statement.
func statementNumber(text string) (int64, error) {
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return 0, usagef("%q is no number of a statement: khata statement list shows them", text)
	}
	return number, nil
}

func (a *app) statementShowCommand() *cobra.Command {
	var f sheetFlags
	cmd := &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show a statement as it was issued",
		Long: `Show a statement as it was issued. With --format json it is in the very bytes, whose SHA-256 is the hash of the statement; that they are
has been checked. Which statement it is, and its hash, is said on standard error.`,
		Args: exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := statementNumber(args[0])
			if err != nil {
				return err
			}
			format, err := f.choose(a)
			if err != nil {
				return err
			}
			return a.withReports(func(r *client.Reports) error {
				s, content, err := r.Statement(cmd.Context(), number)
				if err != nil {
					return err
				}
				if !a.json {
					fmt.Fprintf(a.Err, "statement %d of %s, sha256 %s\n", s.Number, s.Account, s.SHA256)
				}
				return a.writeStatement(f, format, content)
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) writeStatement(f sheetFlags, format export.Format, content []byte) error {
	if format != export.JSON {
		s, err := sheet.ParseJSON(content)
		if err != nil {
			return err
		}
		return a.writeSheet(f, s.WriteTo)
	}
	out, end, err := a.openOutput(f.file)
	if err != nil {
		return err
	}
	_, err = bytes.NewReader(content).WriteTo(out)
	return end(err)
}

func (a *app) statementListCommand() *cobra.Command {
	var account string
	var limit int
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the statements that were issued, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withReports(func(r *client.Reports) error {
				n := 0
				for s, err := range r.Statements(cmd.Context(), ledger.AccountID(account)) {
					if err != nil {
						return err
					}
					if limit > 0 && n == limit {
						break
					}
					n++
					if err := a.printStatement(s, nil); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "only those of this account")
	onlyOnCommandLine(cmd, "account")
	cmd.Flags().IntVar(&limit, "limit", 0, "stop after so many; 0 lists all")
	return cmd
}

func (a *app) statementChangesCommand() *cobra.Command {
	var f sheetFlags
	var through int64
	cmd := &cobra.Command{
		Use:   "changes NUMBER",
		Short: "Show what was recorded of a statement's period after it was issued",
		Long: `Show what was recorded of a statement's period, or with an earlier time, after it was issued, and in which later statement of the account it
is among the late items. The check holds the statement and these together against the balance as it is now.`,
		Args: exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			number, err := statementNumber(args[0])
			if err != nil {
				return err
			}
			return a.runReport(cmd, client.ReportRequest{Report: string(report.ChangesSince), Statement: number, Through: through}, f)
		},
	}
	f.add(cmd)
	addThrough(cmd, &through)
	return cmd
}
