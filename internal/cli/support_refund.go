package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
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

func (a *app) supportRefundsCommand() *cobra.Command {
	var states []string
	var transfer string
	limit := 100
	cmd := &cobra.Command{
		Use:   "refunds",
		Short: "List requests for refunds, the newest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if limit < 0 {
				return usagef("--limit is %d, want 1 or more, or 0 for all", limit)
			}
			filter := client.RefundFilter{TransferID: ledger.TransferID(transfer)}
			for _, state := range states {
				filter.States = append(filter.States, client.RefundState(state))
			}
			if len(states) == 0 { // Then what is looked at is listed, and there is no need to look at more.
				filter.PageSize = min(limit, 200)
			}
			return a.withSupport(map[string]string{"states": "--state", "transfer_id": "--transfer"}, func(s *client.Support) error {
				list := a.list(">REQUEST", "STATE", ">AMOUNT", "CURRENCY", "TRANSFER", "REASON", "MADE", "BY", "APPROVAL", "DECIDED BY", "TICKET")
				n := 0
				for r, err := range s.RefundRequests(cmd.Context(), filter) {
					if err != nil {
						return errors.Join(list.end(), err)
					}
					decider := ""
					if r.Decision != nil {
						decider = r.Decision.By
					}
					if err := list.add(a.toRefundRequestJSON(r, nil), strconv.FormatInt(r.Number, 10), string(r.State), written(r.Amount), string(r.Currency),
						string(r.TransferID), string(r.Reason), formatTime(r.MadeAt), r.Maker, string(r.Approval), decider, short(r.Ticket, 30)); err != nil {
						return err
					}
					if n++; n == limit {
						break
					}
				}
				return list.end()
			})
		},
	}
	cmd.Flags().StringSliceVar(&states, "state", nil, "only these: waiting, ready, posted, refused, rejected, withdrawn or expired; several with commas")
	cmd.Flags().StringVar(&transfer, "transfer", "", "only those about this transfer")
	cmd.Flags().IntVar(&limit, "limit", limit, "stop after so many; 0 lists all")
	for _, flag := range []string{"state", "transfer", "limit"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

func (a *app) supportShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NUMBER",
		Short: "Show a request for a refund: all that is in it, what has become of it, and how to decide",
		Args:  exactArgs("NUMBER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			no, err := requestNumber(args[0])
			if err != nil {
				return err
			}
			return a.withSupport(nil, func(s *client.Support) error {
				r, err := s.RefundRequest(cmd.Context(), no)
				if err != nil {
					return err
				}
				return a.print(a.toRefundRequestJSON(r, nil), refundRequestText(r))
			})
		},
	}
}

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

// approvalText says whether a refund needs another person, and why.
func approvalText(a client.RefundApproval) string {
	switch a {
	case client.ApprovalNone:
		return "needs nobody else"
	case client.ApprovalNoLimit:
		return "needs another person: no limit is set for this currency"
	case client.ApprovalAboveSingle:
		return "needs another person: it is above the limit for one refund"
	case client.ApprovalAboveDaily:
		return "needs another person: with the other refunds of 24 hours it is above the limit"
	}
	return string(a)
}

// refundRequestHead is a request on a line.
func refundRequestHead(r client.RefundRequest) string {
	text := fmt.Sprintf("request %d  %s  %s %s of %s  %s  by %s", r.Number, r.State, written(r.Amount), r.Currency, r.TransferID, r.Reason, r.Maker)
	switch r.State {
	case client.RefundPosted:
		text += "  as " + string(r.RefundID)
		if r.Decision != nil {
			text += "  approved by " + r.Decision.By
		}
	case client.RefundRefused:
		text += fmt.Sprintf("  %s: %s", r.Refusal, plainText(r.Message))
	case client.RefundRejected, client.RefundWithdrawn:
		if d := r.Decision; d != nil && (d.By != r.Maker || d.Note != "") {
			text += fmt.Sprintf("  by %s: %s", d.By, plainText(d.Note))
		}
	case client.RefundReady:
		text += "  it is posted by itself"
	case client.RefundExpired, client.RefundWaiting:
	}
	return text
}

// refundRequestLine is a request on a line, and below it what is to be known and done.
func refundRequestLine(r client.RefundRequest, replayed *bool) string {
	text := refundRequestHead(r)
	if replayed != nil && *replayed {
		text += "  (replayed: it was there before, and nothing was written now)"
	}
	if r.State == client.RefundWaiting {
		text += fmt.Sprintf("\n  it %s\n  until %s another person can look at it, and decide: khata support show %d", approvalText(r.Approval), formatTime(r.ExpiresAt),
			r.Number)
	}
	return strings.TrimRight(text+"\n"+warningText(r.Warnings), "\n")
}

// refundRequestText is all of a request.
func refundRequestText(r client.RefundRequest) string {
	lines := []string{refundRequestHead(r)}
	add := func(name, value string) {
		if value != "" {
			lines = append(lines, "  "+name+": "+plainText(value))
		}
	}
	if t := r.Transfer; t != nil {
		payers, payees := sidesOf(t)
		add("from", payers)
		add("to", payees)
		if r.Progress != nil {
			add("refunded by now", written(r.Progress.Refunded)+" "+string(r.Currency))
			add("left to refund", written(r.Progress.Refundable)+" "+string(r.Currency))
		}
	}
	add("refunded before it was asked for", written(r.ExpectedRefunded)+" "+string(r.Currency))
	add("note", r.Note)
	add("ticket", r.Ticket)
	add("made", formatTime(r.MadeAt))
	add("key", r.Key)
	add("approval", approvalText(r.Approval))
	if d := r.Decision; d != nil {
		did := map[client.RefundVerdict]string{client.RefundApprove: "approved", client.RefundReject: "rejected", client.RefundWithdraw: "withdrawn"}[d.Verdict]
		text := fmt.Sprintf("%s by %s", formatTime(d.At), d.By)
		if d.Note != "" {
			text += ": " + d.Note
		}
		add(did, text)
	}
	add("settled", formatOptionalTime(r.SettledAt))
	add("hash", r.SHA256)
	lines = append(lines, strings.Split(strings.TrimRight(warningText(r.Warnings), "\n"), "\n")...)
	if r.Obstacle != "" {
		lines = append(lines, "  "+plainText(r.Obstacle))
	}
	lines = slices.DeleteFunc(lines, func(line string) bool { return line == "" })
	if r.State == client.RefundWaiting {
		lines = append(lines, fmt.Sprintf("  until %s another person than %s can decide: khata support decide %d --approve --hash %s", formatTime(r.ExpiresAt), r.Maker,
			r.Number, r.SHA256))
	}
	return strings.Join(lines, "\n")
}

// maxSides is how many accounts of one side of a transfer are named.
const maxSides = 5

// sidesOf names who pays and who is paid.
func sidesOf(t *ledger.Transfer) (payers, payees string) {
	var sides [2][]string
	for _, e := range t.Entries {
		side := 0
		if e.Direction == ledger.Credit {
			side = 1
		}
		if id := string(e.Account); !slices.Contains(sides[side], id) {
			sides[side] = append(sides[side], id)
		}
	}
	name := func(ids []string) string {
		if len(ids) > maxSides {
			return strings.Join(ids[:maxSides], ", ") + " and others"
		}
		return strings.Join(ids, ", ")
	}
	return name(sides[0]), name(sides[1])
}
