package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// refusedError is that the books would refuse something, which was not even written down.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

// supportRefundFlags are the flags of support refund.
type supportRefundFlags struct{ amount, expected, reason, note, ticket, key string }

var supportRefundFields = map[string]string{
	"transfer_id": "TRANSFER", "amount": "--amount", "expected_refunded": "--expected-refunded", "reason": "--reason", "note": "--note", "ticket": "--ticket",
	"key": "--key",
}

func (a *app) supportRefundCommand() *cobra.Command {
	var f supportRefundFlags
	cmd := &cobra.Command{
		Use:   "refund TRANSFER --reason REASON",
		Short: "Ask for a refund: it is posted, or waits for another person",
		Long: `Ask for a refund, of --amount or of all that remains. One within the limits is posted at once; for one above them another person has to agree, and where
no limit is set, for every one. The first word after the number tells which.

Run it twice, and there is one refund: all that remains is nothing the second time; while a request waits no other one is made; and of an amount
--expected-refunded says what was refunded before, as far as you know: nothing, unless you say so. With --key, 16 to 64 characters that you have
drawn at random, the same command is the same request, whatever has become of it: scripts give one.

  khata support refund order-77 --reason duplicate --ticket T-4711
  khata support refund order-77 --amount 120.00 --reason goods_not_received --note "one of three came broken"
  khata support refund order-77 --amount 80.00 --expected-refunded 120.00 --reason other --note "and another one"

The exit code is 0 if it is posted or waits, 3 if the books refuse it, 4 if somebody else's request waits or the key is taken, 1 if it was rejected, withdrawn or has
expired.`,
		Args: exactArgs("TRANSFER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.reason == "" {
				return usagef("--reason is required: one of %s", refundReasonNames())
			}
			return a.withSupport(supportRefundFields, func(s *client.Support) error {
				r, replayed, err := f.request(cmd.Context(), s, ledger.TransferID(args[0]))
				if err != nil {
					return err
				}
				if err := a.print(a.toRefundRequestJSON(r, &replayed), refundRequestLine(r, &replayed)); err != nil {
					return err
				}
				switch r.State {
				case client.RefundRefused:
					return &exitError{ExitRefused}
				case client.RefundRejected, client.RefundWithdrawn, client.RefundExpired:
					return &exitError{ExitFailure}
				case client.RefundWaiting, client.RefundReady, client.RefundPosted:
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&f.amount, "amount", "", "how much (default: all that remains)")
	cmd.Flags().StringVar(&f.expected, "expected-refunded", "", "what was refunded before, as far as you know (default: with --amount nothing, without it whatever it is)")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, one of "+refundReasonNames()+"; other needs a --note (required)")
	cmd.Flags().StringVar(&f.note, "note", "", "text for colleagues; neither the books nor the customer have it")
	cmd.Flags().StringVar(&f.ticket, "ticket", "", "what the case has elsewhere")
	cmd.Flags().StringVar(&f.key, "key", "", "key of the request: with it again it is the same one (default: a new one)")
	for _, flag := range []string{"amount", "expected-refunded", "reason", "note", "ticket", "key"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

func refundReasonNames() string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(ledger.RefundReasons()), "[]"), " ", ", ")
}

// request fills the form in, and sends it.
func (f *supportRefundFlags) request(ctx context.Context, s *client.Support, id ledger.TransferID) (r client.RefundRequest, replayed bool, err error) {
	spec := client.RefundSpec{Key: f.key, TransferID: id, Reason: ledger.RefundReason(f.reason), Note: f.note, Ticket: f.ticket}
	if f.amount != "" {
		if spec.Amount, err = ledger.ParseAmount(f.amount, "--amount"); err != nil {
			return r, false, err
		}
	}
	if f.expected != "" {
		if spec.ExpectedRefunded, err = ledger.ParseBalance(f.expected, "--expected-refunded"); err != nil {
			return r, false, err
		}
	}
	form, err := s.RefundForm(ctx, id)
	if err != nil {
		return r, false, err
	}
	if err := f.fill(&spec, form); err != nil {
		return r, false, err
	}
	if r, replayed, err = s.RequestRefund(ctx, spec); err == nil {
		return r, replayed, nil
	}
	var taken *ledger.Error
	switch code := ledger.CodeOf(err); {
	case code == ledger.CodeAlreadyExists && f.key != "" && errors.As(err, &taken): // There is no form that somebody would make anew.
		other := *taken
		other.Message = strings.Replace(other.Message, "take another key", "take another --key", 1)
		err = &other
	case code.Open() && f.key == "": // The form that would come next has another key, and would be another request.
		err = fmt.Errorf("%w (the same request again is: --key %s)", err, spec.Key)
	case code == ledger.CodeRefundedChanged:
		err = refusedError{fmt.Errorf("%w, and say with --expected-refunded what you know of", err)}
	case code == ledger.CodeRefundExceedsRest, code == ledger.CodeAlreadyReversed:
		err = refusedError{err}
	}
	return r, false, err
}

// fill takes from the form what the flags do not say.
func (f *supportRefundFlags) fill(spec *client.RefundSpec, form client.RefundForm) error {
	for _, before := range form.Requests {
		if f.key != "" && before.Key == f.key { // Whatever has become of it: it is asked for again.
			if f.amount == "" {
				spec.Amount = before.Amount
			}
			if f.expected == "" {
				spec.ExpectedRefunded = before.ExpectedRefunded
			}
			return nil
		}
	}
	if form.Closed != nil {
		if form.Closed.Code == ledger.CodeWrongOrigin {
			return form.Closed
		}
		return refusedError{form.Closed}
	}
	if f.key == "" {
		spec.Key = form.Key
		for _, r := range form.Requests {
			if !r.State.Final() {
				return conflictError{ledger.Errorf(ledger.CodeAlreadyExists,
					"request %d by %s for %s %s of it is %s: look at it with khata support show %d; with a --key there will be another one", r.Number, r.Maker,
					written(r.Amount), r.Currency, r.State, r.Number)}
			}
		}
	}
	switch {
	case f.amount == "":
		spec.Amount = form.Refundable
		if f.expected == "" {
			spec.ExpectedRefunded = form.Refunded
		}
	case f.expected == "" && form.Refunded.IsPositive(): // Twice the same command may be meant once.
		return refusedError{ledger.Errorf(ledger.CodeRefundedChanged, "%s %s was refunded before: if you mean another %s, add --expected-refunded %s",
			written(form.Refunded), form.Currency, written(spec.Amount), written(form.Refunded))}
	}
	return nil
}
