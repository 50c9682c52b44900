package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) supportLimitCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "limit", Short: "Set and list how much one person alone may refund"}
	var single, daily, reason string
	set := &cobra.Command{
		Use:   "set CURRENCY --single AMOUNT --daily AMOUNT --reason REASON",
		Short: "Set how much one person alone may refund in a currency, from now on",
		Long: `Set the most that one refund may be (--single), and the most that a person's refunds without another person may come to within 24 hours (--daily).
Zero is that every refund needs another person, as it is where no limit was ever set.

  khata support limit set BDT --single 500 --daily 2000 --reason "as agreed with finance"`,
		Args: exactArgs("CURRENCY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case single == "":
				return usagef("--single is required: the most that one refund may be")
			case daily == "":
				return usagef("--daily is required: the most that a person may refund alone within 24 hours")
			case reason == "":
				return usagef("--reason is required: why it is set")
			}
			one, err := ledger.ParseBalance(single, "--single")
			if err != nil {
				return err
			}
			day, err := ledger.ParseBalance(daily, "--daily")
			if err != nil {
				return err
			}
			flags := map[string]string{"single": "--single", "daily": "--daily", "reason": "--reason", "currency": "CURRENCY"}
			return a.withSupport(flags, func(s *client.Support) error {
				limit, err := s.SetRefundLimit(cmd.Context(), ledger.CurrencyCode(args[0]), one, day, reason)
				if err != nil {
					return err
				}
				return a.print(toRefundLimitJSON(limit), refundLimitText(limit))
			})
		},
	}
	set.Flags().StringVar(&single, "single", "", "the most that one refund may be (required)")
	set.Flags().StringVar(&daily, "daily", "", "the most that a person may refund alone within 24 hours (required)")
	set.Flags().StringVar(&reason, "reason", "", "why (required)")
	for _, flag := range []string{"single", "daily", "reason"} {
		onlyOnCommandLine(set, flag)
	}
	list := &cobra.Command{
		Use:   "list [CURRENCY]",
		Short: "List the limits in force, or the versions of one",
		Args:  atMostOneArg("CURRENCY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSupport(map[string]string{"currency": "CURRENCY"}, func(s *client.Support) error {
				limits, err := s.RefundLimits(cmd.Context(), ledger.CurrencyCode(strings.Join(args, "")))
				if err != nil {
					return err
				}
				for _, limit := range limits {
					if err := a.print(toRefundLimitJSON(limit), refundLimitText(limit)); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.AddCommand(set, list)
	return cmd
}

func refundLimitText(l client.RefundLimit) string {
	return fmt.Sprintf("%s  single %s  daily %s  version %d  %s by %s  %s", l.Currency, written(l.Single), written(l.Daily), l.Version, formatTime(l.SetAt),
		l.SetBy, plainText(l.Reason))
}
