package cli

import (
	"context"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// requestFlags are the flags of every command that posts a transfer.
type requestFlags struct {
	id, effectiveAt, description, metadata string
	balances                               bool
}

func (f *requestFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.id, "id", "", "the transfer's id: 1 to 128 characters without spaces (required)")
	cmd.Flags().StringVar(&f.description, "description", "", "text for people")
	cmd.Flags().StringVar(&f.metadata, "metadata", "", "a JSON object")
	cmd.Flags().BoolVar(&f.balances, "balances", false, "show the resulting balances")
}

// addEffectiveAt is for transfers that move something.
func (f *requestFlags) addEffectiveAt(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.effectiveAt, "effective-at", "", "value date, RFC 3339, such as 2026-11-29T00:00:00Z")
}

// spec gives the request, without entries and terms.
func (f *requestFlags) spec() (ledger.TransferSpec, error) {
	spec := ledger.TransferSpec{ID: ledger.TransferID(f.id), Description: f.description}
	if f.id == "" {
		return spec, usagef("--id is required: choose it before the first try, and use the same one in every retry")
	}
	var err error
	if spec.EffectiveAt, err = parseTime("--effective-at", f.effectiveAt); err != nil {
		return spec, err
	}
	spec.Metadata, err = ledger.ParseMetadata(f.metadata, "metadata")
	return spec, err
}

// post has a transfer decided, and prints the result.
func (a *app) post(ctx context.Context, spec ledger.TransferSpec, balances bool) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	return a.withClient(func(c *client.Client) error {
		post := c.PostTransfer
		if balances {
			post = c.PostTransferWithBalances
		}
		result, err := post(ctx, spec)
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
}

// partFlags say how much of what is left a step is for.
type partFlags struct {
	amount string
	all    bool
}

func (f *partFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.amount, "amount", "", "how much, such as 500.00; or --all")
	cmd.Flags().BoolVar(&f.all, "all", false, "all that is left")
	exclude(cmd, "amount", "all")
	onlyOnCommandLine(cmd, "all")
}

// part gives the amount; nil is all. One of the two must be given: an amount that was forgotten must not become everything.
func (f *partFlags) part(field string) (*decimal.Decimal, error) {
	if f.all == (f.amount != "") {
		return nil, usagef("give either --amount or --all")
	}
	if f.all {
		return nil, nil
	}
	amount, err := ledger.ParseAmount(f.amount, field)
	return &amount, err
}

// conditionFlags say what must be true when the transfer is decided.
type conditionFlags struct{ balances, versions []string }

func (f *conditionFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.balances, "if-balance", nil, "ACCOUNT=AMOUNT: only if this is the posted balance; several times for several accounts")
	cmd.Flags().StringArrayVar(&f.versions, "if-version", nil, "ACCOUNT=VERSION: only if this is the version of the balance; several times for several accounts")
}

func (f *conditionFlags) conditions() ([]ledger.Condition, error) {
	var list []ledger.Condition
	of := func(account string) *ledger.Condition {
		for i := range list {
			if string(list[i].Account) == account {
				return &list[i]
			}
		}
		list = append(list, ledger.Condition{Account: ledger.AccountID(account)})
		return &list[len(list)-1]
	}
	for _, text := range f.balances {
		account, value, ok := cutLast(text)
		c := of(account)
		if !ok || c.Balance != nil {
			return nil, usagef("--if-balance %q: want ACCOUNT=AMOUNT, once for an account", text)
		}
		balance, err := ledger.ParseBalance(value, "--if-balance")
		if err != nil {
			return nil, err
		}
		c.Balance = &balance
	}
	for _, text := range f.versions {
		account, value, ok := cutLast(text)
		c := of(account)
		version, err := strconv.ParseInt(value, 10, 64)
		if !ok || err != nil || c.Version != nil {
			return nil, usagef("--if-version %q: want ACCOUNT=VERSION, once for an account", text)
		}
		c.Version = &version
	}
	return list, nil
}

// cutLast splits at the last "=": the id of an account may have one too.
func cutLast(text string) (account, value string, ok bool) {
	i := strings.LastIndexByte(text, '=')
	if i < 0 {
		return "", "", false
	}
	return text[:i], text[i+1:], true
}
