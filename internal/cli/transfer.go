package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) transferCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "transfer", Short: "Post and show transfers"})
	cmd.AddCommand(a.transferPostCommand(), a.transferGetCommand())
	return cmd
}

// postFlags are the flags of transfer post.
type postFlags struct {
	id, debit, credit, amount, currency, effectiveAt, description, metadata string
	entries                                                                 []string
	balances                                                                bool
}

func (a *app) transferPostCommand() *cobra.Command {
	var f postFlags
	cmd := &cobra.Command{
		Use:   "post --id ID --debit ACCOUNT --credit ACCOUNT --amount AMOUNT",
		Short: "Post a transfer; with the same id as often as you like, it happens once",
		Long: `Post a transfer. Choose the id before the first try, and use it again in every retry: then it happens once, and each
further try gets the first answer. The same id with other content is a conflict, and changes nothing.

A transfer of more than two entries is given by --entry, several times:

  khata transfer post --id order-77 --entry "debit wallet:shimul 500.00" --entry "credit shop:1 490.00" --entry "credit fees 10.00"

If the transfer is refused (insufficient funds, account closed or frozen), that is final and recorded, and the exit code
is 3: a new attempt takes a new id.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				post := c.PostTransfer
				if f.balances {
					post = c.PostTransferWithBalances
				}
				result, err := post(cmd.Context(), spec)
				if err != nil {
					return err
				}
				if err := a.printResult(result); err != nil {
					return err
				}
				if result.Refusal != nil {
					return &exitError{ExitRefused}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&f.id, "id", "", "the transfer's id: 1 to 128 characters without spaces (required)")
	cmd.Flags().StringVar(&f.debit, "debit", "", "account to debit")
	cmd.Flags().StringVar(&f.credit, "credit", "", "account to credit")
	cmd.Flags().StringVar(&f.amount, "amount", "", "amount, such as 500.00")
	cmd.Flags().StringVar(&f.currency, "currency", "", "currency of both accounts; checked if given")
	cmd.Flags().StringArrayVar(&f.entries, "entry", nil, `"debit|credit ACCOUNT AMOUNT [CURRENCY]", instead of the four above`)
	for _, flag := range []string{"debit", "credit", "amount", "currency"} {
		exclude(cmd, flag, "entry")
	}
	exclude(cmd, "entry", "debit", "credit", "amount", "currency")
	cmd.Flags().StringVar(&f.effectiveAt, "effective-at", "", "value date, RFC 3339, such as 2026-11-29T00:00:00Z")
	cmd.Flags().StringVar(&f.description, "description", "", "text for people")
	cmd.Flags().StringVar(&f.metadata, "metadata", "", "a JSON object")
	cmd.Flags().BoolVar(&f.balances, "balances", false, "show the resulting balances")
	return cmd
}

func (f postFlags) spec() (ledger.TransferSpec, error) {
	spec := ledger.TransferSpec{ID: ledger.TransferID(f.id), Description: f.description}
	if f.id == "" {
		return spec, usagef("--id is required: choose it before the first try, and use the same one in every retry")
	}
	var err error
	if spec.Entries, err = f.readEntries(); err != nil {
		return spec, err
	}
	if spec.EffectiveAt, err = parseTime("--effective-at", f.effectiveAt); err != nil {
		return spec, err
	}
	if spec.Metadata, err = ledger.ParseMetadata(f.metadata, "metadata"); err != nil {
		return spec, err
	}
	return spec, spec.Validate()
}

// parseTime reads the time that a flag gives, if it gives one.
func parseTime(flag, text string) (*time.Time, error) {
	if text == "" {
		return nil, nil
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return nil, usagef("%s %q is not RFC 3339, such as 2026-11-29T00:00:00Z", flag, text)
	}
	return &t, nil
}

func (f postFlags) readEntries() ([]ledger.Entry, error) {
	shorthand := f.debit != "" || f.credit != "" || f.amount != "" || f.currency != ""
	switch {
	case shorthand && len(f.entries) > 0:
		return nil, usagef("give either --debit, --credit, --amount and --currency, or --entry")
	case len(f.entries) == 0:
		amount, err := ledger.ParseAmount(f.amount, "amount")
		if err != nil {
			return nil, err
		}
		return ledger.Simple(ledger.AccountID(f.debit), ledger.AccountID(f.credit), amount, ledger.CurrencyCode(f.currency)), nil
	}
	var entries []ledger.Entry
	for i, text := range f.entries {
		words := strings.Fields(text)
		if len(words) < 3 || len(words) > 4 {
			return nil, usagef("--entry %q: want \"debit|credit ACCOUNT AMOUNT [CURRENCY]\"", text)
		}
		amount, err := ledger.ParseAmount(words[2], ledger.EntryField(i, "amount"))
		if err != nil {
			return nil, err
		}
		entry := ledger.Entry{Direction: ledger.Direction(words[0]), Account: ledger.AccountID(words[1]), Amount: amount}
		if len(words) == 4 {
			entry.Currency.Code = ledger.CurrencyCode(words[3])
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

func (a *app) transferGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ID",
		Short: "Show the record of a transfer",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				t, err := c.Transfer(cmd.Context(), ledger.TransferID(args[0]))
				if err != nil {
					return err
				}
				return a.printTransfer(&t)
			})
		},
	}
}

type transferJSON struct {
	Ledger        string      `json:"ledger"`
	TransferID    string      `json:"transfer_id"`
	Outcome       string      `json:"outcome"`
	Reason        string      `json:"reason,omitempty"`
	ReasonAccount string      `json:"reason_account,omitempty"`
	Sequence      int64       `json:"sequence"`
	PostedAt      string      `json:"posted_at"`
	Entries       []entryJSON `json:"entries"`
	EffectiveAt   string      `json:"effective_at,omitempty"`
	Description   string      `json:"description,omitempty"`
	Metadata      string      `json:"metadata,omitempty"`
	Caller        string      `json:"caller"`
}

type entryJSON struct {
	Account   string `json:"account"`
	Direction string `json:"direction"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency"`
}

func (a *app) printTransfer(t *ledger.Transfer) error {
	out := transferJSON{
		Ledger: string(ledger.Name(a.ledger).Or()), TransferID: string(t.ID), Outcome: string(t.Outcome()), Sequence: t.Sequence,
		PostedAt: formatTime(t.PostedAt), EffectiveAt: formatOptionalTime(t.EffectiveAt), Description: t.Description,
		Metadata: string(t.Metadata), Caller: t.Caller,
	}
	lines := []string{fmt.Sprintf("%s %s  sequence %d  %s", out.Outcome, out.TransferID, out.Sequence, out.PostedAt)}
	if t.Refusal != nil {
		out.Reason, out.ReasonAccount = string(t.Refusal.Reason), string(t.Refusal.Account)
		lines = append(lines, fmt.Sprintf("  because of %s of %s", out.Reason, out.ReasonAccount))
	}
	for _, e := range t.Entries {
		entry := entryJSON{string(e.Account), string(e.Direction), ledger.FormatAmount(e.Amount, e.Currency.Scale), string(e.Currency.Code)}
		out.Entries = append(out.Entries, entry)
		lines = append(lines, fmt.Sprintf("  %-6s  %s  %s %s", entry.Direction, entry.Account, entry.Amount, entry.Currency))
	}
	for _, field := range []struct{ name, value string }{
		{"effective at", out.EffectiveAt}, {"description", out.Description}, {"metadata", out.Metadata},
	} {
		if field.value != "" {
			lines = append(lines, fmt.Sprintf("  %s: %s", field.name, field.value))
		}
	}
	return a.print(out, strings.Join(lines, "\n"))
}
