package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) supportCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{
		Use:   "support",
		Short: "Help customers: find a transfer, read its story, refund it, decide about refunds",
		Long: `For people who help customers: docs/support.md. Who looked for what, asked for what and decided what is written down (khata audit list).
Services refund with khata refund.

  khata support find TXN-MZXW6YTBOI2DGNBVGY3TQOJQGE
  khata support find 01711000000 --account wallet:shimul
  khata support story order-77                        what is known of a payment, on one timeline
  khata support refund order-77 --reason duplicate --ticket T-4711
  khata support show 12                               a request for a refund, with the hash that a decision takes
  khata support decide 12 --approve --hash HASH       by another person
  khata support review                                what waits for people`,
	})
	cmd.AddCommand(
		a.supportFindCommand(), a.supportStoryCommand(), a.supportRefundCommand(), a.supportDecideCommand(), a.supportRefundsCommand(),
		a.supportShowCommand(), a.supportLimitCommand(), a.supportReviewCommand(),
	)
	return cmd
}

// withSupport runs f with the support desk. An error about a field is one about the flag that flags has for it.
func (a *app) withSupport(flags map[string]string, f func(*client.Support) error) error {
	return a.withClient(func(c *client.Client) error { return nameFlags(f(c.Support()), flags) })
}

// bounds reads --since and --until; what is not given is zero.
func bounds(since, until string) (from, to time.Time, err error) {
	for _, bound := range []struct {
		flag, text string
		at         *time.Time
	}{{"--since", since, &from}, {"--until", until, &to}} {
		at, err := parseTime(bound.flag, bound.text)
		if err != nil {
			return from, to, err
		}
		if at != nil {
			*bound.at = *at
		}
	}
	return from, to, nil
}

// findCalls is in how many calls one command looks: each looks at thousands of transfers, and then somebody should say where else to look.
const findCalls = 20

func (a *app) supportFindCommand() *cobra.Command {
	var q client.FindQuery
	var account, amount, since, until string
	limit := 50
	cmd := &cobra.Command{
		Use:   "find [TEXT]",
		Short: "Find transfers by what somebody has in hand",
		Long: `Find transfers. TEXT is the id of a transfer, the number of a payment (TXN-...), what a text message calls a refund (refund:...), an idempotency key, the key
of a form for a refund, or a reference or a phone number that stands in the metadata, written just so; it need not be said which.

An id, a number, and a key with its --user, are found at once. Everything else is looked for back in time: among the entries of --account, or among all
transfers from --since to --until, which is now unless you say so, 31 days at most. The last line says how far back it was, and how to go on.

  khata support find TXN-MZXW6YTBOI2DGNBVGY3TQOJQGE
  khata support find 5b1f0c0e-key --user user:shimul
  khata support find --account wallet:shimul --amount 500
  khata support find 01711000000 --since 2026-11-29T00:00:00+06:00 --until 2026-11-30T00:00:00+06:00`,
		Args: atMostOneArg("TEXT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Account = ledger.AccountID(account)
			q.Text = strings.Join(args, "")
			if amount != "" {
				of, err := ledger.ParseAmount(amount, "--amount")
				if err != nil {
					return err
				}
				q.Amount = &of
			}
			var err error
			if q.Since, q.Until, err = bounds(since, until); err != nil {
				return err
			}
			if limit < 1 {
				return usagef("--limit is %d, want 1 or more", limit)
			}
			flags := map[string]string{
				"text": "TEXT", "user": "--user", "account": "--account", "amount": "--amount", "since": "--since", "until": "--until", "page_token": "--page",
			}
			return a.withSupport(flags, func(s *client.Support) error {
				list := a.list("TRANSFER", "OUTCOME", "POSTED", "DEBIT", "CREDIT", ">AMOUNT", "CURRENCY", "FOUND BY")
				end, err := find(s, cmd, q, limit, list)
				if err != nil {
					return errors.Join(list.end(), err)
				}
				if err := list.end(); err != nil {
					return err
				}
				// The rest was not even looked for.
				if end.named = end.found == 0 && q.Account == "" && q.Since.IsZero(); end.named && q.User == "" {
					end.hint = "if " + q.Text + " is an idempotency key, say whose: --user user:NAME"
				}
				return a.print(end, plainText(end.text()))
			})
		},
	}
	cmd.Flags().StringVar(&q.User, "user", "", "whose idempotency key TEXT is, such as user:shimul, or shimul for short")
	cmd.Flags().StringVar(&account, "account", "", "only among the entries of this account")
	cmd.Flags().StringVar(&amount, "amount", "", "only those with an entry of this amount")
	cmd.Flags().StringVar(&since, "since", "", "only those posted at or after a time, RFC 3339")
	cmd.Flags().StringVar(&until, "until", "", "only those posted before a time, RFC 3339 (default: now)")
	cmd.Flags().IntVar(&limit, "limit", limit, "stop after so many")
	cmd.Flags().StringVar(&q.Page, "page", "", "go on where the last line of an earlier answer says")
	for _, flag := range []string{"user", "account", "amount", "since", "until", "limit", "page"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}

// find adds what is found to a list, call by call.
func find(s *client.Support, cmd *cobra.Command, q client.FindQuery, limit int, list *listing) (end foundEndJSON, err error) {
	for range findCalls {
		q.Limit = min(limit-end.found, 100)
		found, err := s.Find(cmd.Context(), q)
		if err != nil {
			return end, err
		}
		for _, hit := range found.Transfers {
			var debit, credit, amount, currency string
			for _, e := range hit.Entries {
				switch {
				case e.Direction == ledger.Debit && debit == "":
					debit, amount, currency = string(e.Account), ledger.FormatAmount(e.Amount, e.Currency.Scale), string(e.Currency.Code)
				case e.Direction == ledger.Credit && credit == "":
					credit = string(e.Account)
				}
			}
			object := foundJSON{transferJSON: list.app.toTransferJSON(&hit.Transfer, nil), Why: hit.Why}
			if err := list.add(object, string(hit.ID), string(hit.Outcome()), formatTime(hit.PostedAt), debit, credit, amount, currency,
				strings.Join(hit.Why, ", ")); err != nil {
				return end, err
			}
		}
		end.found += len(found.Transfers)
		end.Looked += found.Looked
		if found.LookedBackTo != nil {
			end.LookedBackTo = formatTime(*found.LookedBackTo)
		}
		end.NextPageToken = found.Next
		if q.Page = found.Next; found.Next == "" || end.found >= limit {
			break
		}
	}
	return end, nil
}

func (a *app) supportStoryCommand() *cobra.Command {
	var details bool
	cmd := &cobra.Command{
		Use:   "story TRANSFER",
		Short: "Tell what is known of a transfer and its refunds, on one timeline",
		Args:  exactArgs("TRANSFER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withSupport(map[string]string{"transfer_id": "TRANSFER"}, func(s *client.Support) error {
				story, err := s.Story(cmd.Context(), ledger.TransferID(args[0]))
				if err != nil {
					return err
				}
				return a.print(a.toStoryJSON(story), strings.TrimRight(storyText(story, details), "\n"))
			})
		},
	}
	cmd.Flags().BoolVar(&details, "details", false, "also what is for those who want to know more; --json always has it")
	onlyOnCommandLine(cmd, "details")
	return cmd
}

// storyText is a story for people.
func storyText(s client.Story, details bool) string {
	var out strings.Builder
	if s.Transfer == nil {
		fmt.Fprintf(&out, "%s  not decided\n", s.TransferID)
	} else {
		fmt.Fprintf(&out, "%s  %s", s.TransferID, s.Transfer.Outcome())
		if text := progressText(toProgressJSON(s.Progress)); text != "" {
			out.WriteString("  " + text)
		}
		out.WriteString("\n")
	}
	out.WriteString(warningText(s.Warnings))
	rows := newColumns("", "", "", "", "")
	for _, i := range s.Items {
		of := ""
		if i.TransferID != s.TransferID {
			of = string(i.TransferID)
		}
		rows.row(formatTime(i.At), i.Source, i.Who, i.What, of)
		if !details {
			continue
		}
		for _, d := range i.Details {
			rows.row("", "", "", "  "+d.Name+": "+d.Value, "")
		}
	}
	out.WriteString(rows.text("  "))
	if len(s.Cut) > 0 {
		fmt.Fprintf(&out, "there is more than fits: only the last ones are told, of: %s\n", strings.Join(s.Cut, ", "))
	}
	for _, m := range s.Missing {
		fmt.Fprintf(&out, "%s could not be asked, so there may be gaps: %s\n", m.Source, plainText(m.Why))
	}
	return out.String()
}

// warningText are warnings, each on a line.
func warningText(warnings []string) string {
	var out strings.Builder
	for _, w := range warnings {
		out.WriteString("  warning: " + plainText(w) + "\n")
	}
	return out.String()
}

func (a *app) supportReviewCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "review",
		Short: "Show what waits for people, and what to do about it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withSupport(nil, func(s *client.Support) error {
				review, err := s.Review(cmd.Context())
				if err != nil {
					return err
				}
				return a.print(toReviewJSON(review), strings.TrimRight(reviewText(review), "\n"))
			})
		},
	}
}

// reviewText is the review list for people.
func reviewText(review client.ReviewList) string {
	var out strings.Builder
	for _, h := range review.Heaps {
		fmt.Fprintf(&out, "%s  %d", h.Kind, h.Count)
		if h.More {
			out.WriteString(" or more")
		}
		if h.Count == 0 {
			out.WriteString("\n")
			continue
		}
		if h.Oldest != nil {
			out.WriteString("  since " + formatTime(*h.Oldest))
		}
		fmt.Fprintf(&out, "  %s\n", plainText(h.Next))
		rows := newColumns("", "", "")
		for _, t := range h.Tasks {
			rows.row(t.ID, formatTime(t.Since), t.What)
			if t.Next != "" {
				rows.row("", "", "  "+t.Next)
			}
		}
		out.WriteString(rows.text("  "))
	}
	for _, m := range review.Missing {
		fmt.Fprintf(&out, "%s  could not be asked: %s\n", m.Source, plainText(m.Why))
	}
	return out.String()
}
