package cli

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) transferCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "transfer", Short: "Post and show transfers"})
	cmd.AddCommand(a.transferPostCommand(), a.transferPostAtomicCommand(), a.transferGetCommand())
	return cmd
}

// entryFlags are the flags for the entries of a transfer of two of them.
type entryFlags struct{ debit, credit, amount, currency string }

func (f *entryFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.debit, "debit", "", "account to debit")
	cmd.Flags().StringVar(&f.credit, "credit", "", "account to credit")
	cmd.Flags().StringVar(&f.amount, "amount", "", "amount, such as 500.00")
	cmd.Flags().StringVar(&f.currency, "currency", "", "currency of both accounts; checked if given")
}

func (f *entryFlags) read() ([]ledger.Entry, error) {
	amount, err := ledger.ParseAmount(f.amount, "amount")
	if err != nil {
		return nil, err
	}
	return ledger.Simple(ledger.AccountID(f.debit), ledger.AccountID(f.credit), amount, ledger.CurrencyCode(f.currency)), nil
}

// postFlags are the flags of transfer post.
type postFlags struct {
	requestFlags
	entryFlags
	conditionFlags
	entries []string
	atMost  string
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

With conditions it is refused unless they hold when it is decided; the account must be serialised. With --at-most instead of --amount
it moves as much of the amount as there is, down to the floor of the account that it decreases (or to zero) and up to the
ceiling of the other:

  khata transfer post --id order-78 --debit wallet:shimul --credit shop:1 --amount 500 --if-balance wallet:shimul=1200.00
  khata transfer post --id sweep-7 --debit wallet:shimul --credit savings:shimul --at-most 1000000

If the transfer is refused (insufficient funds, account closed or frozen, a condition that does not hold), that is final and
recorded, and the exit code is 3: a new attempt takes a new id.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := f.spec()
			if err != nil {
				return err
			}
			return a.post(cmd.Context(), spec, f.requestFlags.balances)
		},
	}
	f.requestFlags.add(cmd)
	f.addEffectiveAt(cmd)
	f.entryFlags.add(cmd)
	cmd.Flags().StringArrayVar(&f.entries, "entry", nil, `"debit|credit ACCOUNT AMOUNT [CURRENCY]", instead of the four above`)
	cmd.Flags().StringVar(&f.atMost, "at-most", "", "instead of --amount: as much of this as there is")
	for _, flag := range []string{"debit", "credit", "currency"} {
		exclude(cmd, flag, "entry")
	}
	exclude(cmd, "amount", "entry", "at-most")
	exclude(cmd, "entry", "debit", "credit", "amount", "currency", "at-most")
	onlyOnCommandLine(cmd, "at-most")
	f.conditionFlags.add(cmd)
	return cmd
}

func (f *postFlags) spec() (ledger.TransferSpec, error) {
	spec, err := f.requestFlags.spec()
	if err != nil {
		return spec, err
	}
	if f.atMost != "" {
		if f.amount != "" || len(f.entries) > 0 {
			return spec, usagef("give either --at-most, or --amount, or --entry")
		}
		f.amount = f.atMost
	}
	if spec.Entries, err = f.readEntries(); err != nil {
		return spec, err
	}
	conditions, err := f.conditions()
	if err != nil {
		return spec, err
	}
	if len(conditions) > 0 || f.atMost != "" {
		spec.Terms = &ledger.Terms{Kind: ledger.Plain, Conditions: conditions}
	}
	if f.atMost != "" {
		spec.Terms.Balancing, spec.Terms.Amount = true, &spec.Entries[0].Amount
	}
	return spec, nil
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

func (f *postFlags) readEntries() ([]ledger.Entry, error) {
	shorthand := f.debit != "" || f.credit != "" || f.amount != "" || f.currency != ""
	switch {
	case shorthand && len(f.entries) > 0:
		return nil, usagef("give either --debit, --credit, --amount and --currency, or --entry")
	case len(f.entries) == 0:
		return f.entryFlags.read()
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
		Short: "Show the record of a transfer, and what has become of it",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				t, progress, err := c.TransferWithProgress(cmd.Context(), ledger.TransferID(args[0]))
				if err != nil {
					return err
				}
				return a.printTransfer(&t, progress)
			})
		},
	}
}
