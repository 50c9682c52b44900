package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

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
