package cli

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) reconcileAccountCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "account", Short: "Say which account of the books mirrors one at a bank, and how it is matched"}
	cmd.AddCommand(a.bankAccountCreateCommand(), a.bankAccountSetCommand(), a.bankAccountListCommand(), a.bankAccountShowCommand())
	return cmd
}

// argumentFlags are for commands that have the bank account as their argument.
var argumentFlags = map[string]string{"name": "NAME", "bank_account": "NAME; khata reconcile account list shows them"}

// settingsFlags are the flags of what can be set of a bank account.
type settingsFlags struct {
	identifiers, referenceKeys, confirm, decimals []string
	profile, tolerance                            string
	before, after, transit                        int
	anyNumbers, ignoreBalances                    bool
}

func (f *settingsFlags) add(cmd *cobra.Command) {
	d := client.DefaultBankSettings()
	flags := cmd.Flags()
	flags.StringArrayVar(&f.identifiers, "identifier", nil, "IBAN or number by which the bank's files know the account; several times for several")
	flags.StringVar(&f.profile, "profile", "", "profile by which its CSV files are read where none is named")
	flags.IntVar(&f.before, "days-before", d.DaysBefore, "how many days the bank's date may lie before that of the books")
	flags.IntVar(&f.after, "days-after", d.DaysAfter, "how many days the bank's date may lie after that of the books")
	flags.StringVar(&f.tolerance, "tolerance", "0", "the most that two amounts of one reference may differ by and still be the same movement")
	flags.IntVar(&f.transit, "transit-days", d.TransitDays, "for how many days an entry is expected to be on its way to the bank")
	flags.StringArrayVar(&f.referenceKeys, "reference-key", d.ReferenceKeys, "key of a transfer's metadata that has references; several times for several")
	flags.StringSliceVar(&f.confirm, "confirm", d.Confirm, "rules whose matches need no person: of opening, reference, batch, text, amount; none is a person for each")
	flags.BoolVar(&f.anyNumbers, "any-numbers", false, "take statements whose numbers leave gaps")
	flags.BoolVar(&f.ignoreBalances, "ignore-balances", false, "take no notice of the balances in files; then nobody sees whether lines are missing")
	flags.StringArrayVar(&f.decimals, "bai2-decimals", nil, "CURRENCY=N: the decimals that BAI2 amounts imply where they are not the currency's, such as JPY=2")
	for _, flag := range settingNames {
		onlyOnCommandLine(cmd, flag)
	}
}

// settingNames are the flags of settings.
var settingNames = []string{
	"identifier", "profile", "days-before", "days-after", "tolerance", "transit-days", "reference-key", "confirm", "any-numbers", "ignore-balances",
	"bai2-decimals",
}

// apply puts what the command line has in the place of what is set.
func (f *settingsFlags) apply(cmd *cobra.Command, s *client.BankSettings) (err error) {
	set := func(flag string, do func()) {
		if cmd.Flags().Changed(flag) {
			do()
		}
	}
	set("identifier", func() { s.Identifiers = given(f.identifiers) })
	set("profile", func() { s.Profile = f.profile })
	set("days-before", func() { s.DaysBefore = f.before })
	set("days-after", func() { s.DaysAfter = f.after })
	set("transit-days", func() { s.TransitDays = f.transit })
	set("reference-key", func() { s.ReferenceKeys = given(f.referenceKeys) })
	set("confirm", func() {
		if s.Confirm = given(f.confirm); slices.Equal(s.Confirm, []string{"none"}) {
			s.Confirm = nil
		}
	})
	set("any-numbers", func() { s.AnyNumbers = f.anyNumbers })
	set("ignore-balances", func() { s.IgnoreBalances = f.ignoreBalances })
	set("tolerance", func() { s.Tolerance, err = ledger.ParseBalance(f.tolerance, "--tolerance") })
	if err != nil {
		return err
	}
	set("bai2-decimals", func() { s.BAI2Decimals, err = parseDecimals(f.decimals) })
	return err
}

// given leaves out what is empty, so that --identifier "" takes the last one away.
func given(list []string) []string {
	return slices.DeleteFunc(slices.Clone(list), func(text string) bool { return text == "" })
}

func parseDecimals(list []string) (map[ledger.CurrencyCode]int32, error) {
	out := map[ledger.CurrencyCode]int32{}
	for _, text := range given(list) {
		currency, digits, ok := strings.Cut(text, "=")
		n, err := strconv.ParseInt(digits, 10, 32)
		if !ok || err != nil || currency == "" {
			return nil, usagef("--bai2-decimals %q: want CURRENCY=N, such as JPY=2", text)
		}
		out[ledger.CurrencyCode(currency)] = int32(n)
	}
	return out, nil
}

func (a *app) bankAccountCreateCommand() *cobra.Command {
	var f settingsFlags
	var account, moneyIn, basis string
	var spec client.BankAccountSpec
	cmd := &cobra.Command{
		Use:   "create NAME --account ACCOUNT",
		Short: "Say that an account at a bank is mirrored by an account of the books; to do it again is no error",
		Long: `Say that an account at a bank is mirrored by an account of the books, such as assets:bank:main. No two mirror the same.

Name, account, --money-in, --basis, --zone and --begins are for ever, since decisions rest on them. What --begins is for: where the books are
older than the first file of the bank, what was posted before that day is one item, the balance brought forward. The rest can be set later.

  khata reconcile account create main --account assets:bank:main --identifier DE89370400440532013000 --zone Europe/Berlin --begins 2026-01-01`,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if account == "" {
				return usagef("--account is required: the account of the books that mirrors it, such as assets:bank:main")
			}
			spec.Name, spec.Account, spec.MoneyIn, spec.Basis = args[0], ledger.AccountID(account), ledger.Direction(moneyIn), client.Basis(basis)
			if slices.ContainsFunc(settingNames, cmd.Flags().Changed) {
				settings := client.DefaultBankSettings()
				if err := f.apply(cmd, &settings); err != nil {
					return err
				}
				spec.Settings = &settings
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				created, err := r.CreateBankAccount(cmd.Context(), spec)
				if err != nil {
					return err
				}
				return a.printBankAccount(created)
			}, argumentFlags)
		},
	}
	cmd.Flags().StringVar(&account, "account", "", "the account of the books that mirrors it (required)")
	cmd.Flags().StringVar(&moneyIn, "money-in", "debit", "side on which incoming money stands in the books; credit where they are the bank's own")
	cmd.Flags().StringVar(&basis, "basis", "booking", "date of entries; booking: when Khata recorded the transfer; value: its value date, if it has one")
	cmd.Flags().StringVar(&spec.Zone, "zone", "UTC", "time zone in which the days of entries begin, such as Asia/Dhaka: the bank's")
	cmd.Flags().StringVar(&spec.Begins, "begins", "", "first day whose entries are matched one by one, such as 2026-01-01; those before are one item")
	for _, flag := range []string{"account", "money-in", "basis", "begins"} {
		onlyOnCommandLine(cmd, flag)
	}
	f.add(cmd)
	return cmd
}

func (a *app) bankAccountSetCommand() *cobra.Command {
	var f settingsFlags
	cmd := &cobra.Command{
		Use:   "set NAME",
		Short: "Set what can be set of a bank account; what is not given stays",
		Long: `Set what can be set of a bank account. What is not given stays; of a list that is given, all of it. Each change is a version, and a run
keeps by which one it went.

  khata reconcile account set main --tolerance 0.05 --days-after 5
  khata reconcile account set main --confirm opening,reference,batch,text       these need no person; --confirm none has a person look at each`,
		Args: exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if !slices.ContainsFunc(settingNames, cmd.Flags().Changed) {
				return usagef("nothing to set: give one of --%s", strings.Join(settingNames, ", --"))
			}
			return a.withReconciliation(func(r *client.Reconciliation) error {
				now, err := r.BankAccount(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				if err := f.apply(cmd, &now.Settings); err != nil {
					return err
				}
				if now, err = r.UpdateBankAccount(cmd.Context(), args[0], now.Settings); err != nil {
					return err
				}
				return a.printBankAccount(now)
			}, argumentFlags)
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) bankAccountListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the bank accounts, by name",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withReconciliation(func(r *client.Reconciliation) error {
				accounts, err := r.BankAccounts(cmd.Context())
				if err != nil {
					return err
				}
				list := a.list("NAME", "ACCOUNT", "CURRENCY", "MONEY IN", "BASIS", "ZONE", "BEGINS", "IDENTIFIERS")
				for _, b := range accounts {
					if err := list.add(toBankAccountJSON(b), b.Name, string(b.Account), string(b.Currency), string(b.MoneyIn), string(b.Basis), b.Zone, b.Begins,
						strings.Join(b.Settings.Identifiers, ", ")); err != nil {
						return err
					}
				}
				return list.end()
			})
		},
	}
}

func (a *app) bankAccountShowCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "Show a bank account, and what is set of it",
		Args:  exactArgs("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withReconciliation(func(r *client.Reconciliation) error {
				b, err := r.BankAccount(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return a.printBankAccount(b)
			}, argumentFlags)
		},
	}
}

func (a *app) printBankAccount(b client.BankAccount) error {
	if a.json {
		return a.print(toBankAccountJSON(b), "")
	}
	s := b.Settings
	yes := map[bool]string{true: "yes"}
	list := func(texts []string) string {
		if len(texts) == 0 {
			return "none"
		}
		return strings.Join(texts, ", ")
	}
	rows := newColumns("", "")
	rows.row("mirrors", fmt.Sprintf("%s in %s, where incoming money is a %s", b.Account, b.Currency, b.MoneyIn))
	rows.row("dates", fmt.Sprintf("by %s, days begin in %s", b.Basis, b.Zone))
	if b.Begins != "" {
		rows.row("begins", fmt.Sprintf("%s, with %s brought forward", b.Begins, ledger.FormatWritten(b.Forward)))
	}
	rows.row("created", fmt.Sprintf("%s by %s", formatTime(b.CreatedAt), b.CreatedBy))
	rows.row("settings", fmt.Sprintf("version %d, %s by %s", b.SettingsVersion, formatTime(b.SettingsAt), b.SettingsBy))
	rows.row("  identifiers", list(s.Identifiers))
	if s.Profile != "" {
		rows.row("  profile", s.Profile)
	}
	rows.row("  bank's date", fmt.Sprintf("%d before to %d after that of the books", s.DaysBefore, s.DaysAfter))
	rows.row("  tolerance", ledger.FormatWritten(s.Tolerance))
	rows.row("  in transit", fmt.Sprintf("for %d days", s.TransitDays))
	rows.row("  references", "in metadata under "+list(s.ReferenceKeys))
	rows.row("  no person for", list(s.Confirm))
	for _, setting := range []struct{ title, text string }{
		{"  any numbers", yes[s.AnyNumbers]}, {"  ignores balances", yes[s.IgnoreBalances]},
	} {
		if setting.text != "" {
			rows.row(setting.title, setting.text)
		}
	}
	for _, currency := range sortedKeys(s.BAI2Decimals) {
		rows.row("  BAI2 decimals", fmt.Sprintf("%d of %s", s.BAI2Decimals[currency], currency))
	}
	return a.write(plainText(b.Name) + "\n" + rows.text("  "))
}
