package cli

import (
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const defaultAddress = "127.0.0.1:7070"

// clientFlags adds the flags that all client commands have.
func (a *app) clientFlags(cmd *cobra.Command) *cobra.Command {
	cmd.PersistentFlags().StringVar(&a.address, "addr", defaultAddress, "address of the server's gRPC API")
	cmd.PersistentFlags().StringVar(&a.ledger, "ledger", string(ledger.DefaultLedger), "the ledger")
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object a line, with the names of the API")
	return cmd
}

// withClient runs f with a connection to the server.
func (a *app) withClient(f func(*client.Client) error) error {
	c, err := client.Dial(a.address, client.Options{Ledger: ledger.Name(a.ledger)})
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return f(c)
}
