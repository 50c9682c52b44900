package cli

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) accountCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "account", Short: "Create, show, list and update accounts"})
	cmd.AddCommand(a.accountCreateCommand(), a.accountGetCommand(), a.accountListCommand(), a.accountUpdateCommand())
	return cmd
}

func (a *app) accountCreateCommand() *cobra.Command {
	var kind, currency, name, metadata, floor, ceiling string
	var serialised bool
	cmd := &cobra.Command{
		Use:   "create ACCOUNT --type TYPE --currency CODE",
		Short: "Create an account; to do it again is no error",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			spec := ledger.AccountSpec{
				ID: ledger.AccountID(args[0]), Type: ledger.AccountType(kind), Currency: ledger.CurrencyCode(currency),
				Name: name, Serialised: serialised,
			}
			if spec.Metadata, err = ledger.ParseMetadata(metadata, "metadata"); err != nil {
				return err
			}
			if spec.Floor, err = parseLimit(floor, "floor"); err != nil {
				return err
			}
			if spec.Ceiling, err = parseLimit(ceiling, "ceiling"); err != nil {
				return err
			}
			if err := spec.Validate(); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				created, err := c.CreateAccount(cmd.Context(), spec)
				if err != nil {
					return err
				}
				return a.printAccount(created.Account)
			})
		},
	}
	cmd.Flags().StringVar(&kind, "type", "", "asset, liability, equity, revenue or expense (required)")
	cmd.Flags().StringVar(&currency, "currency", "", "ISO 4217 code, or one that was registered (required)")
	cmd.Flags().StringVar(&name, "name", "", "name for people")
	cmd.Flags().StringVar(&metadata, "metadata", "", "a JSON object")
	cmd.Flags().StringVar(&floor, "floor", "", "least balance, such as 0; empty is none")
	cmd.Flags().StringVar(&ceiling, "ceiling", "", "most balance, such as 300000; empty is none")
	cmd.Flags().BoolVar(&serialised, "serialised", false, "decide transfers on it one at a time (a floor or a ceiling implies it)")
	return cmd
}

// parseLimit reads a floor or a ceiling; "" is none.
func parseLimit(text, field string) (*decimal.Decimal, error) {
	if text == "" {
		return nil, nil
	}
	limit, err := ledger.ParseBalance(text, field)
	return &limit, err
}

func (a *app) accountGetCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "get ACCOUNT",
		Short: "Show an account",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				account, err := c.Account(cmd.Context(), ledger.AccountID(args[0]))
				if err != nil {
					return err
				}
				return a.printAccount(account)
			})
		},
	}
}

func (a *app) accountListCommand() *cobra.Command {
	var prefix string
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List accounts in the order of their ids",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				for account, err := range c.Accounts(cmd.Context(), prefix) {
					if err != nil {
						return err
					}
					if err := a.printAccount(account); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&prefix, "prefix", "", "only accounts whose ids begin with this")
	return cmd
}

func (a *app) accountUpdateCommand() *cobra.Command {
	var f updateFlags
	cmd := &cobra.Command{
		Use:   "update ACCOUNT",
		Short: "Set fields of an account; those not given stay",
		Args:  exactArgs("ACCOUNT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			update, err := f.read(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if err := update.Validate(); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				account, err := c.UpdateAccount(cmd.Context(), ledger.AccountID(args[0]), update)
				if err != nil {
					return err
				}
				return a.printAccount(account)
			})
		},
	}
	cmd.Flags().StringVar(&f.name, "name", "", "name for people")
	cmd.Flags().StringVar(&f.metadata, "metadata", "", "a JSON object; empty removes it")
	cmd.Flags().StringVar(&f.floor, "floor", "", `least balance; "none" removes it`)
	cmd.Flags().StringVar(&f.ceiling, "ceiling", "", `most balance; "none" removes it`)
	cmd.Flags().StringVar(&f.freeze, "freeze", "", "the side that takes no more entries: none, debits, credits or both")
	cmd.Flags().BoolVar(&f.serialised, "serialised", false, "decide transfers on it one at a time")
	cmd.Flags().BoolVar(&f.closed, "close", false, "close it for ever; its balance must be zero, and no hold open")
	return cmd
}

// updateFlags are the flags of account update.
type updateFlags struct {
	name, metadata, floor, ceiling, freeze string
	serialised, closed                     bool
}

func (f *updateFlags) read(given func(flag string) bool) (update ledger.AccountUpdate, err error) {
	if given("name") {
		update.Name = &f.name
	}
	if given("metadata") {
		m, err := ledger.ParseMetadata(f.metadata, "metadata")
		if err != nil {
			return update, err
		}
		update.Metadata = &m
	}
	if given("floor") {
		if update.Floor, update.RemoveFloor, err = parseLimitUpdate(f.floor, "floor"); err != nil {
			return update, err
		}
	}
	if given("ceiling") {
		if update.Ceiling, update.RemoveCeiling, err = parseLimitUpdate(f.ceiling, "ceiling"); err != nil {
			return update, err
		}
	}
	if given("freeze") {
		frozen := ledger.Frozen(f.freeze)
		update.Frozen = &frozen
	}
	if given("serialised") {
		update.Serialised = &f.serialised
	}
	if given("close") {
		update.Closed = &f.closed
	}
	return update, nil
}

func parseLimitUpdate(text, field string) (limit *decimal.Decimal, remove bool, err error) {
	if text == "none" {
		return nil, true, nil
	}
	balance, err := ledger.ParseBalance(text, field)
	return &balance, false, err
}

type accountJSON struct {
	Account    string  `json:"account"`
	Type       string  `json:"type"`
	Currency   string  `json:"currency"`
	Name       string  `json:"name"`
	Metadata   string  `json:"metadata,omitempty"`
	Floor      *string `json:"floor,omitempty"`
	Ceiling    *string `json:"ceiling,omitempty"`
	Serialised bool    `json:"serialised"`
	Frozen     string  `json:"frozen"`
	Closed     bool    `json:"closed"`
	Version    int64   `json:"version"`
	CreatedAt  string  `json:"created_at"`
	UpdatedAt  string  `json:"updated_at"`
}

func (a *app) printAccount(account ledger.Account) error {
	out := accountJSON{
		Account: string(account.ID), Type: string(account.Type), Currency: string(account.Currency.Code), Name: account.Name,
		Metadata: string(account.Metadata), Serialised: account.Serialised, Frozen: string(account.Frozen),
		Closed: account.Closed, Version: account.Version, CreatedAt: formatTime(account.CreatedAt),
		UpdatedAt: formatTime(account.UpdatedAt),
	}
	words := []string{out.Account, out.Type, out.Currency}
	if account.Floor != nil {
		floor := ledger.FormatAmount(*account.Floor, account.Currency.Scale)
		out.Floor = &floor
		words = append(words, "floor "+floor)
	}
	if account.Ceiling != nil {
		ceiling := ledger.FormatAmount(*account.Ceiling, account.Currency.Scale)
		out.Ceiling = &ceiling
		words = append(words, "ceiling "+ceiling)
	}
	if account.Floor == nil && account.Ceiling == nil && account.Serialised {
		words = append(words, "serialised")
	}
	if account.Frozen != ledger.FrozenNone {
		words = append(words, "frozen "+out.Frozen)
	}
	if account.Closed {
		words = append(words, "closed")
	}
	if account.Name != "" {
		words = append(words, fmt.Sprintf("%q", account.Name))
	}
	if account.Metadata != "" {
		words = append(words, out.Metadata)
	}
	return a.print(out, strings.Join(words, "  "))
}
