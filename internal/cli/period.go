package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) periodCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "period", Short: "Close the books before a date, open them again, and show who did"})
	cmd.AddCommand(a.periodCloseCommand(), a.periodReopenCommand(), a.periodListCommand())
	return cmd
}

// periodFlags are the flags of close and reopen.
type periodFlags struct{ before, zone, reason string }

func (f *periodFlags) add(cmd *cobra.Command, before, reason string) {
	cmd.Flags().StringVar(&f.before, "before", "", before)
	cmd.Flags().StringVar(&f.zone, "zone", "UTC", "the zone in which a date begins, such as Asia/Dhaka")
	cmd.Flags().StringVar(&f.reason, "reason", "", reason)
	onlyOnCommandLine(cmd, "before")
	onlyOnCommandLine(cmd, "reason")
}

// at reads the time of --before: a day or a month begins in the zone.
func (f *periodFlags) at() (time.Time, error) {
	p, err := report.ParsePeriod(f.before, "", f.zone)
	var typed *ledger.Error
	if errors.As(err, &typed) && len(typed.Violations) > 0 && typed.Violations[0].Field == "from" {
		return time.Time{}, ledger.Invalid("--before", "%s", typed.Violations[0].Message)
	}
	return p.From, err
}

func (a *app) periodCloseCommand() *cobra.Command {
	var f periodFlags
	cmd := &cobra.Command{
		Use:   "close --before DATE [--zone ZONE]",
		Short: "Close the books before a date; to do it again is no error",
		Long: `Close the books before a date. From then on a transfer with an earlier --effective-at is refused with PERIOD_CLOSED, and that is on record;
one without a value date is dated by when it is posted, and is not concerned. A date is its first moment in the zone; a time of RFC 3339 will do, too.

It never opens anything: where the books are closed as far already, or further, nothing is written.

  khata period close --before 2026-02-01 --zone Asia/Dhaka --reason "January is reconciled"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.before == "" {
				return usagef("--before is required: the first day that stays open, such as 2026-02-01 to close January")
			}
			before, err := f.at()
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				change, replayed, err := c.ClosePeriod(cmd.Context(), ledger.PeriodClose{Before: before, Zone: f.zone, Reason: f.reason})
				if err != nil {
					return err
				}
				return a.printPeriodChange(&change, &replayed)
			})
		},
	}
	f.add(cmd, "the first moment that stays open: 2026-02-01, 2026-02 or 2026-02-01T00:00:00+06:00 (required)", "text for people")
	return cmd
}

func (a *app) periodReopenCommand() *cobra.Command {
	var f periodFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "reopen --before DATE|--all --reason REASON [--zone ZONE]",
		Short: "Open the books again, from a date on; to do it again is no error",
		Long: `Open the books again: what is before the date stays closed. What was refused meanwhile stays refused; a new attempt takes a new id.

It never closes anything: where the books are open from that date on already, nothing is written.

  khata period reopen --before 2026-01-01 --zone Asia/Dhaka --reason "an invoice of January came late"
  khata period reopen --all --reason "the year is restated"`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all == (f.before != "") {
				return usagef("give either --before or --all")
			}
			spec := ledger.PeriodReopen{Everything: all, Zone: f.zone, Reason: f.reason}
			if !all {
				before, err := f.at()
				if err != nil {
					return err
				}
				spec.Before = &before
			}
			if f.reason == "" {
				return usagef("--reason is required: why what was closed is opened again")
			}
			return a.withClient(func(c *client.Client) error {
				change, replayed, err := c.ReopenPeriod(cmd.Context(), spec)
				if err != nil {
					return err
				}
				return a.printPeriodChange(change, &replayed)
			})
		},
	}
	f.add(cmd, "the first moment that is open again: 2026-01-01, 2026-01 or 2026-01-01T00:00:00+06:00; or --all", "why (required)")
	cmd.Flags().BoolVar(&all, "all", false, "nothing stays closed")
	onlyOnCommandLine(cmd, "all")
	return cmd
}

func (a *app) periodListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show who closed what when, and opened it again; the first line is in force",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				for change, err := range c.PeriodChanges(cmd.Context()) {
					if err != nil {
						return err
					}
					if err := a.printPeriodChange(&change, nil); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

type periodChangeJSON struct {
	Sequence     int64  `json:"sequence,omitempty"`
	ClosedBefore string `json:"closed_before,omitempty"`
	Previous     string `json:"previous_closed_before,omitempty"`
	Zone         string `json:"zone,omitempty"`
	Reason       string `json:"reason,omitempty"`
	Caller       string `json:"caller,omitempty"`
	ChangedAt    string `json:"changed_at,omitempty"`
	Replayed     *bool  `json:"replayed,omitempty"`
}

// printPeriodChange prints a change; nil is that of books which never were closed. replayed is nil for a listing.
func (a *app) printPeriodChange(c *ledger.PeriodChange, replayed *bool) error {
	if c == nil {
		return a.print(periodChangeJSON{Replayed: replayed}, "open altogether  (nothing was ever closed, and nothing was written now)")
	}
	out := periodChangeJSON{
		Sequence: c.Sequence, ClosedBefore: formatOptionalTime(c.ClosedBefore), Previous: formatOptionalTime(c.Previous), Zone: c.Zone,
		Reason: c.Reason, Caller: c.Caller, ChangedAt: formatTime(c.ChangedAt), Replayed: replayed,
	}
	text := "reopened altogether"
	if c.ClosedBefore != nil {
		text = "closed before "
		if c.Reopens() {
			text = "reopened from "
		}
		text += timeIn(*c.ClosedBefore, c.Zone)
	}
	text += fmt.Sprintf("  sequence %d  %s  by %s", c.Sequence, out.ChangedAt, c.Caller)
	if c.Reason != "" {
		text += "  " + c.Reason
	}
	if replayed != nil && *replayed {
		text += "  (replayed: this was in force before, and nothing was written now)"
	}
	return a.print(out, text)
}

// timeIn is a time as people say it in a zone: the day, if it is the first moment of one.
func timeIn(t time.Time, zone string) string {
	location, err := report.ParseZone(zone)
	if err != nil { // Of a newer database of zones, say.
		return t.UTC().Format(time.RFC3339Nano)
	}
	day := t.In(location).Format(time.DateOnly)
	if p, err := report.ParsePeriod(day, "", zone); err == nil && p.From.Equal(t) {
		return day + " " + zone
	}
	return t.In(location).Format(time.RFC3339Nano) + " " + zone
}
