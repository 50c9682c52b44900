package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) supportDecideCommand() *cobra.Command {
	var approve, reject, withdraw bool
	var hash, reason string
	cmd := &cobra.Command{
		Use:   "decide NUMBER --approve|--reject|--withdraw --hash HASH",
		Short: "Decide about a request for a refund; to do it again is no error",
		Long: `Approve a request for a refund, which posts it, or reject it, by another person than its maker; or withdraw it, by its maker. --hash is that of the
request as you have seen it: khata support show NUMBER shows it. There is one decision, and it stands.

  khata support decide 12 --approve --hash 5f2c...
  khata support decide 12 --reject --hash 5f2c... --reason "these were two tickets"`,
		Args: exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			no, err := requestNumber(args[0])
			if err != nil {
				return err
			}
			spec := client.RefundDecisionSpec{Number: no, SHA256: hash, Note: reason}
			said := 0
			for verdict, given := range map[client.RefundVerdict]bool{
				client.RefundApprove: approve, client.RefundReject: reject, client.RefundWithdraw: withdraw,
			} {
				if given {
					spec.Verdict = verdict
					said++
				}
			}
			switch {
			case said != 1:
				return usagef("give one of --approve, --reject and --withdraw")
			case hash == "":
				return usagef("--hash is required: that of the request as you have seen it, which khata support show %d shows", no)
			case reject && strings.TrimSpace(reason) == "":
				return usagef("--reason is required: why it is rejected")
			}
			flags := map[string]string{"sha256": "--hash; khata support show " + args[0] + " shows it", "note": "--reason", "number": "NUMBER"}
			return a.withSupport(flags, func(s *client.Support) error {
				r, replayed, err := s.DecideRefund(cmd.Context(), spec)
				if err != nil {
					return err
				}
				if err := a.print(a.toRefundRequestJSON(r, &replayed), refundRequestLine(r, &replayed)); err != nil {
					return err
				}
				if r.State == client.RefundRefused {
					return &exitError{ExitRefused}
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&approve, "approve", false, "post it")
	cmd.Flags().BoolVar(&reject, "reject", false, "do not post it")
	cmd.Flags().BoolVar(&withdraw, "withdraw", false, "take your own request back")
	cmd.Flags().StringVar(&hash, "hash", "", "that of the request as you have seen it (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why; required with --reject")
	for _, flag := range []string{"approve", "reject", "withdraw", "hash", "reason"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// requestNumber reads the number of a request.
func requestNumber(text string) (int64, error) {
	no, err := strconv.ParseInt(text, 10, 64)
	if err != nil || no < 1 {
		return 0, usagef("%.40q is no number of a request: khata support refunds shows them", text)
	}
	return no, nil
}
