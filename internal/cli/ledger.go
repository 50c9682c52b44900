package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

type ledgerJSON struct {
	Name      string `json:"name"`
	CreatedAt string `json:"created_at"`
}

func (a *app) printLedger(l client.Ledger) error {
	out := ledgerJSON{string(l.Name), formatTime(l.CreatedAt)}
	return a.print(out, fmt.Sprintf("%s  created %s", out.Name, out.CreatedAt))
}

func (a *app) ledgerCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "ledger", Short: "Create and list ledgers, which are separate sets of books"})
	cmd.AddCommand(&cobra.Command{
		Use:   "create NAME",
		Short: "Create a ledger; to do it again is no error",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				l, err := c.CreateLedger(cmd.Context(), ledger.Name(args[0]))
				if err != nil {
					return err
				}
				return a.printLedger(l)
			})
		},
	}, &cobra.Command{
		Use:   "list",
		Short: "List the ledgers",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				list, err := c.Ledgers(cmd.Context())
				for _, l := range list {
					if err := a.printLedger(l); err != nil {
						return err
					}
				}
				return err
			})
		},
	})
	return cmd
}

type currencyJSON struct {
	Code  string `json:"code"`
	Scale int32  `json:"scale"`
}

func (a *app) printCurrency(c ledger.Currency) error {
	return a.print(currencyJSON{string(c.Code), c.Scale}, fmt.Sprintf("%s  %d decimals", c.Code, c.Scale))
}

func (a *app) currencyCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "currency", Short: "Register and list currencies"})
	cmd.AddCommand(&cobra.Command{
		Use:   "register CODE SCALE",
		Short: "Make a currency known that ISO 4217 does not define, such as ETH 18",
		Args:  exactArgs("CODE", "SCALE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			scale, err := strconv.ParseInt(args[1], 10, 32)
			if err != nil {
				return usagef("scale %q is not a number from 0 to %d", args[1], ledger.MaxScale)
			}
			currency := ledger.Currency{Code: ledger.CurrencyCode(args[0]), Scale: int32(scale)}
			return a.withClient(func(c *client.Client) error {
				if err := c.RegisterCurrency(cmd.Context(), currency); err != nil {
					return err
				}
				return a.printCurrency(currency)
			})
		},
	}, &cobra.Command{
		Use:   "list",
		Short: "List the currencies that accounts of the ledger can have",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				list, err := c.Currencies(cmd.Context())
				for _, currency := range list {
					if err := a.printCurrency(currency); err != nil {
						return err
					}
				}
				return err
			})
		},
	})
	return cmd
}
