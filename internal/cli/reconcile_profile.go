package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileProfileCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "profile", Short: "Keep how the CSV files of a bank are read"}
	cmd.AddCommand(a.bankProfileSaveCommand(), a.bankProfileListCommand(), a.bankProfileShowCommand())
	return cmd
}

func (a *app) bankProfileSaveCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "save FILE.json",
		Short: "Keep a profile under the name that is in it; to do it again is no error, and another content is another version",
		Long: `Keep how the CSV files of a bank are read: a JSON object with a name, as docs/reconciliation.md describes it. - is standard input. To try one
first: khata reconcile preview FILE --profile-file FILE.json.

  {"name": "city", "header": true, "delimiter": ";", "decimal_mark": ",", "date_formats": ["DD.MM.YYYY"], "currency": "EUR",
   "columns": {"booking_date": "Date", "amount": "Amount", "reference": "Reference", "description": ["Text"], "balance": "Balance"}}`,
		Args: exactArgs("FILE.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, _, err := a.readProfile(args[0])
			if err != nil {
				return err
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				saved, err := r.SaveBankProfile(cmd.Context(), text)
				if err != nil {
					return err
				}
				return a.print(toBankProfileJSON(saved), profileText(saved))
			}, map[string]string{"content": "FILE", "profile": "FILE"})
		},
	}
}

// readProfile reads a profile from a file. That it can be used is found out here, where the file is at hand.
func (a *app) readProfile(path string) (string, *bankfile.Profile, error) {
	const most = 1 << 20
	in, _, err := a.openInput(path)
	if err != nil {
		return "", nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, most))
	if err != nil {
		return "", nil, usageError{err}
	}
	profile, err := bankfile.ParseProfile(text)
	var notJSON *bankfile.NotJSON
	switch {
	case errors.As(err, &notJSON):
		return "", nil, usagef("%s %w", path, err)
	case err != nil:
		return "", nil, usagef("%s is no profile: %w", path, err)
	}
	return string(text), profile, nil
}

func profileText(p client.BankProfile) string {
	return fmt.Sprintf("%s  version %d  saved %s by %s", p.Name, p.Version, formatTime(p.SavedAt), p.SavedBy)
}

func (a *app) bankProfileListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the last version of each profile, by name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withReconciliation(func(r *client.Reconciliation) error {
				profiles, err := r.BankProfiles(cmd.Context())
				for _, p := range profiles {
					if err := a.print(toBankProfileJSON(p), profileText(p)); err != nil {
						return err
					}
				}
				return err
			})
		},
	}
}

func (a *app) bankProfileShowCommand() *cobra.Command {
	var version int
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show a profile, as JSON that profile save takes",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if version < 0 {
				return usagef("--version %d: want the number of a version, or 0 for the last", version)
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				p, err := r.BankProfile(cmd.Context(), args[0], version)
				if err != nil {
					return err
				}
				return a.print(toBankProfileJSON(p), p.Content)
			}, map[string]string{"name": "NAME", "profile": "NAME; khata reconcile profile list shows them", "version": "--version"})
		},
	}
	cmd.Flags().IntVar(&version, "version", 0, "an earlier version of it; 0 is the last")
	onlyOnCommandLine(cmd, "version")
	return cmd
}
