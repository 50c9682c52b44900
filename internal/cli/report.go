package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reportCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "report",
		Short: "Make the reports of finance: trial balance, balance sheet and others",
		Long: `Make a report of a ledger, as a table, CSV, JSON or a workbook. What each shows is in docs/reports.md.

  khata report trial-balance --month 2026-01 --zone Asia/Dhaka
  khata report general-ledger --from 2026-01-01 --to 2026-02-01 --prefix assets:bank: --file january.xlsx

A period is from its first moment up to, and without, its last: --month 2026-01 is --from 2026-01-01 --to 2026-02-01. Days begin where --zone says.
Each report checks itself. If something does not hold, all of it is written, and the exit code is 1.`,
	})
	cmd.AddCommand(a.reportListCommand())
	for _, d := range report.Definitions() {
		if d.Takes&report.NeedsStatement == 0 { // What is of a statement is a command of statement.
			cmd.AddCommand(a.reportRunCommand(d))
		}
	}
	return cmd
}

// withReports runs f with what makes reports. An error about a field of a period is one about a flag.
func (a *app) withReports(f func(*client.Reports) error) error {
	return a.withClient(func(c *client.Client) error {
		err := f(c.Reports())
		if err == nil || ledger.CodeOf(err) != ledger.CodeInvalidArgument {
			return err
		}
		return ledger.Within("period.", err)
	})
}

type reportJSON struct {
	Name  string   `json:"name"`
	Title string   `json:"title"`
	About string   `json:"about"`
	Takes []string `json:"takes"`
	Needs []string `json:"needs,omitempty"`
}

func (a *app) reportListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the reports that the server makes",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withReports(func(r *client.Reports) error {
				list, err := r.List(cmd.Context())
				for _, d := range list {
					text := fmt.Sprintf("%-21s %s: %s", d.Name, d.Title, d.About)
					if err := a.print(reportJSON(d), text); err != nil {
						return err
					}
				}
				return err
			})
		},
	}
}

// reportFlags are the flags of a report. Those that narrow it have no variable: a KHATA_CURRENCY that was set for transfers would leave half of a
// trial balance out.
type reportFlags struct {
	spanFlags
	sheetFlags
	prefix, currency, account string
	depth                     int
	empty                     bool
	through                   int64
}

func (a *app) reportRunCommand(d report.Definition) *cobra.Command {
	var f reportFlags
	takes := func(which report.Takes) bool { return d.Takes&which != 0 }
	cmd := &cobra.Command{
		Use:   string(d.Name),
		Short: strings.TrimSuffix(d.About, "."),
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			request := client.ReportRequest{
				Report: string(d.Name), Prefix: f.prefix, Currency: ledger.CurrencyCode(f.currency), Account: ledger.AccountID(f.account),
				Depth: f.depth, Empty: f.empty, Through: f.through,
			}
			if request.Period, request.Basis, err = f.spanFlags.read(); err != nil {
				return err
			}
			if takes(report.NeedsPeriod) && (request.Period.From.IsZero() || request.Period.To.IsZero()) {
				return usagef("the report is of a period that begins and ends: give --month, or --from and --to")
			}
			if takes(report.NeedsAccount) && f.account == "" {
				return usagef("the report is of one account: give --account")
			}
			return a.runReport(cmd, request, f.sheetFlags)
		},
	}
	f.spanFlags.add(cmd, takes(report.AtOneMoment), d.Name != report.Growth)
	if d.Name == report.BalanceOverTime {
		f.sheetFlags.add(cmd, svg)
	} else {
		f.sheetFlags.add(cmd)
	}
	f.add(cmd, takes)
	return cmd
}

// add adds the flags that the report takes.
func (f *reportFlags) add(cmd *cobra.Command, takes func(report.Takes) bool) {
	if takes(report.TakesPrefix) {
		cmd.Flags().StringVar(&f.prefix, "prefix", "", "only accounts whose ids begin with this, such as assets:bank:")
		cmd.Flags().StringVar(&f.currency, "currency", "", "only accounts in this currency")
		onlyOnCommandLine(cmd, "prefix")
		onlyOnCommandLine(cmd, "currency")
	}
	switch {
	case takes(report.NeedsAccount):
		cmd.Flags().StringVar(&f.account, "account", "", "the account (required)")
		onlyOnCommandLine(cmd, "account")
	case takes(report.TakesAccount):
		cmd.Flags().StringVar(&f.account, "account", "", "only this account")
		onlyOnCommandLine(cmd, "account")
	}
	if takes(report.TakesDepth) {
		cmd.Flags().IntVar(&f.depth, "depth", 0, "parts of an id, between colons, that are told apart: 1 sums up all of wallet:…; 0 shows each account")
		onlyOnCommandLine(cmd, "depth")
	}
	if takes(report.TakesEmpty) {
		cmd.Flags().BoolVar(&f.empty, "empty", false, "accounts without a balance and without entries, too")
		onlyOnCommandLine(cmd, "empty")
	}
	addThrough(cmd, &f.through)
}

func addThrough(cmd *cobra.Command, through *int64) {
	cmd.Flags().Int64Var(through, "through", 0, "the last sequence that counts: with it the figures are the same for ever; 0 is the last one there is")
	onlyOnCommandLine(cmd, "through")
}

// runReport has a report made, and writes it.
func (a *app) runReport(cmd *cobra.Command, request client.ReportRequest, f sheetFlags) error {
	return a.withReports(func(r *client.Reports) error {
		return a.writeSheet(f, func(w sheet.Writer) error { return r.Run(cmd.Context(), request, fromServer{w}) })
	})
}

// spanFlags are the flags of what period a report is of.
type spanFlags struct {
	month, from, to, zone, basis string
	moment                       bool
}

// add adds them: for one moment without a beginning, and where a report has one basis only, without that.
func (f *spanFlags) add(cmd *cobra.Command, moment, withBasis bool) {
	f.moment = moment
	month, to := "month, such as 2026-01", "first day or moment after the period: 2026-02-01, 2026-02 or RFC 3339 (default: through the last transfer)"
	if moment {
		month = "as of the end of this month, such as 2026-01"
		to = "as of the beginning of this day or moment: 2026-02-01, 2026-02 or RFC 3339 (default: now)"
	}
	cmd.Flags().StringVar(&f.month, "month", "", month)
	if !moment {
		cmd.Flags().StringVar(&f.from, "from", "", "first day or moment: 2026-01-31, 2026-01 or RFC 3339 (default: the first transfer)")
		onlyOnCommandLine(cmd, "from")
	}
	cmd.Flags().StringVar(&f.to, "to", "", to)
	onlyOnCommandLine(cmd, "month")
	onlyOnCommandLine(cmd, "to")
	cmd.Flags().StringVar(&f.zone, "zone", "UTC", "time zone in which days begin, such as Asia/Dhaka")
	if withBasis {
		cmd.Flags().StringVar(&f.basis, "basis", string(report.Booking), "booking: when Khata recorded a transfer; value: its value date, if it has one")
	}
}

func (f *spanFlags) read() (client.ReportPeriod, client.Basis, error) {
	basis, err := report.ParseBasis(f.basis)
	if err != nil {
		return client.ReportPeriod{}, "", err
	}
	var p report.Period
	switch {
	case f.month != "" && (f.from != "" || f.to != ""):
		return client.ReportPeriod{}, "", usagef("give either --month, or --from and --to")
	case f.month != "":
		p, err = report.Month(f.month, f.zone)
	default:
		p, err = report.ParsePeriod(f.from, f.to, f.zone)
	}
	if err != nil {
		return client.ReportPeriod{}, "", err
	}
	out := client.ReportPeriod{From: p.From, To: p.To, Zone: p.Zone.String()}
	if f.moment { // The end of a month is one, and its beginning is not asked for.
		out.From = time.Time{}
	}
	return out, client.Basis(basis), nil
}
