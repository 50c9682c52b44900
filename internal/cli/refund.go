package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
)

func (a *app) refundCommand() *cobra.Command {
	var f struct {
		requestFlags
		partFlags
		expected, reason string
	}
	cmd := a.clientFlags(&cobra.Command{
		Use:   "refund ORIGINAL --id ID --amount AMOUNT|--all --expected-refunded AMOUNT --reason REASON",
		Short: "Move an amount of an earlier transfer back",
		Long: `Move an amount of an earlier transfer, or of a capture, back. All refunds together never exceed it.

Say with --expected-refunded what has been refunded before, as far as you know: 0 if nothing. If that is something else by now, the
refund is refused, so that of two people who look at the same payment one refunds it. khata transfer get ORIGINAL shows it.

  khata refund order-77 --id order-77-refund-1 --amount 120.00 --expected-refunded 0 --reason goods_not_received
  khata refund order-77 --id order-77-refund-2 --all --expected-refunded 120.00 --reason other --description "he asked nicely"`,
		Args: exactArgs("ORIGINAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			amount, err := f.part("refund.amount")
			if err != nil {
				return err
			}
			if f.expected == "" {
				return usagef("--expected-refunded is required: what has been refunded before, as far as you know; 0 if nothing")
			}
			expected, err := ledger.ParseBalance(f.expected, "refund.expected_refunded")
			if err != nil {
				return err
			}
			spec.Terms = &ledger.Terms{
				Kind: ledger.Refund, Origin: ledger.TransferID(args[0]), Amount: amount, ExpectedRefunded: &expected,
				Reason: ledger.RefundReason(f.reason),
			}
			return a.post(cmd.Context(), spec, f.balances)
		},
	})
	f.requestFlags.add(cmd)
	f.addEffectiveAt(cmd)
	f.partFlags.add(cmd)
	cmd.Flags().StringVar(&f.expected, "expected-refunded", "", "what has been refunded before, as far as you know; 0 if nothing (required)")
	onlyOnCommandLine(cmd, "expected-refunded")
	reasons := strings.Trim(fmt.Sprint(ledger.RefundReasons()), "[]")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, one of "+strings.ReplaceAll(reasons, " ", ", ")+"; other needs a --description (required)")
	return cmd
}

func (a *app) reverseCommand() *cobra.Command {
	var f requestFlags
	cmd := a.clientFlags(&cobra.Command{
		Use:   "reverse ORIGINAL --id ID",
		Short: "Undo an earlier transfer by its exact mirror",
		Long: `Undo an earlier transfer, or a capture, by its exact mirror, dated now unless --effective-at says otherwise. It can be reversed
once, and not if anything of it has been refunded.

  khata reverse payroll-11 --id payroll-11-reversal --description "posted in the wrong month"`,
		Args: exactArgs("ORIGINAL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			spec.Terms = &ledger.Terms{Kind: ledger.Reversal, Origin: ledger.TransferID(args[0])}
			return a.post(cmd.Context(), spec, f.balances)
		},
	})
	f.add(cmd)
	f.addEffectiveAt(cmd)
	return cmd
}
