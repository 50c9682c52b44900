package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/server"
)

func (a *app) fraudCommand() *cobra.Command {
	config := server.FraudConfig{}
	var reach kafkaFlags
	var rules string
	cmd := &cobra.Command{
		Use:   "fraud --kafka HOST:PORT,… --rules FILE --instance NAME",
		Short: "Judge every posted transfer by rules, once",
		Long: `Judge every posted transfer by rules, once, and publish the verdicts: to the topic khata.verdicts, in transactions of Kafka, so that who reads
committed records sees each verdict exactly once. The topics must be there (khata topics ensure --fraud). Run as many as you like, at most one for
each partition, each under a name of its own that it has again at its next start.

docs/fraud.md says what rules can say, and what is guaranteed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if config.Instance == "" {
				return usagef("--instance is required: a name that no other instance has, such as fraud-0")
			}
			if rules == "" {
				return usagef("--rules is required: a file such as docs/examples/fraud-rules.json")
			}
			if config.Rules, err = readRules(rules); err != nil {
				return err
			}
			if config.Kafka, err = reach.config(a.getenv); err != nil {
				return err
			}
			config.Logger = a.logger()
			return server.RunFraud(cmd.Context(), config)
		},
	}
	cmd.Flags().StringVar(&rules, "rules", "", "file with the rules (JSON)")
	cmd.Flags().StringVar(&config.Instance, "instance", "", "name of this instance, such as fraud-0")
	cmd.Flags().BoolVar(&config.SkipLost, "skip-lost", false, "go on without events, or without what is remembered of payers, that are gone from Kafka")
	cmd.Flags().StringVar(&config.HTTP, "http", "", "address of /healthz and /metrics, such as 127.0.0.1:7083; empty leaves them out")
	reach.flags(cmd)
	prefixFlag(cmd, &config.Topics)
	onlyOnCommandLine(cmd, "skip-lost")
	cmd.AddCommand(a.fraudRulesCommand(), a.fraudFlaggedCommand(), a.fraudSettleCommand())
	return cmd
}

func readRules(path string) (*fraud.Rules, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, usagef("%w", err)
	}
	rules, err := fraud.ParseRules(text)
	if err != nil {
		return nil, usagef("%s: %w", path, err)
	}
	return rules, nil
}

// rulesJSON is what khata fraud rules says.
type rulesJSON struct {
	Rules   string   `json:"rules"`
	Meaning []string `json:"meaning"`
}

func (a *app) fraudRulesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rules FILE",
		Short: "Check a file of rules, and say what they mean",
		Args:  exactArgs("FILE"),
		RunE: func(_ *cobra.Command, args []string) error {
			rules, err := readRules(args[0])
			if err != nil {
				return err
			}
			return a.print(rulesJSON{rules.Identity(), rules.Meaning()}, "rules "+rules.Identity()+"\n  "+strings.Join(rules.Meaning(), "\n  "))
		},
	}
	cmd.Flags().BoolVar(&a.json, "json", false, "print a JSON object")
	return cmd
}

// flaggedAtOnce bounds the memory of a long list.
const flaggedAtOnce = 200

func (a *app) fraudFlaggedCommand() *cobra.Command {
	var db database
	f := fraud.Filter{Limit: flaggedAtOnce}
	cmd := &cobra.Command{
		Use:   "flagged --dsn DSN | --data-dir DIR",
		Short: "List flagged transfers that nobody has settled, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return db.open(cmd.Context(), func(dsn string) error {
				for listed := 0; ; {
					list, err := server.FlaggedTransfers(cmd.Context(), dsn, f)
					if err != nil {
						return err
					}
					for _, t := range list {
						if err := a.print(t, flaggedText(t)); err != nil {
							return err
						}
						f.After = t.Number
					}
					if listed += len(list); len(list) < flaggedAtOnce {
						if listed == 0 && !a.json {
							_, _ = fmt.Fprintln(a.Out, "nothing is flagged")
						}
						return nil
					}
				}
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().BoolVar(&f.Settled, "all", false, "also those that are settled")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line")
	onlyOnCommandLine(cmd, "all")
	return cmd
}

func flaggedText(t fraud.Flagged) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s  %s", t.Verdict, t.State)
	if t.SettledAt != nil {
		fmt.Fprintf(&text, " by %s %s: %s", t.SettledBy, formatTime(*t.SettledAt), t.Note)
	}
	if !t.Unreadable {
		fmt.Fprintf(&text, "\n  %s in ledger %s, %s to %s, %s %s", t.Transfer, t.Ledger, t.Payer, t.Payee, t.Amount, t.Currency)
		if t.PostedAt != nil {
			fmt.Fprintf(&text, ", posted %s", formatTime(*t.PostedAt))
		}
	}
	for _, r := range t.Reasons {
		name := r.Rule
		if name == "" {
			name = string(r.Kind)
		}
		fmt.Fprintf(&text, "\n  %s: %s", name, r.Text)
	}
	return text.String()
}

func (a *app) fraudSettleCommand() *cobra.Command {
	var db database
	var s fraud.Settlement
	cmd := &cobra.Command{
		Use:   "settle VERDICT… --as cleared|confirmed --note TEXT --by WHO --dsn DSN | --data-dir DIR",
		Short: "Say what became of flagged transfers",
		Long: `Say what became of flagged transfers: cleared, if they were in order, or confirmed. All of them are settled, or none. It moves no money; what
was stolen is refunded by khata refund.`,
		Args: atLeastOneArg("VERDICT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s.Verdicts = args
			switch {
			case s.As != fraud.Cleared && s.As != fraud.Confirmed:
				return usagef("--as is required: %s or %s", fraud.Cleared, fraud.Confirmed)
			case strings.TrimSpace(s.Note) == "" || strings.TrimSpace(s.By) == "":
				return usagef("--note and --by are required: both are kept")
			}
			return db.open(cmd.Context(), func(dsn string) error {
				if err := server.SettleFlagged(cmd.Context(), dsn, s); err != nil {
					return err
				}
				_, _ = fmt.Fprintf(a.Out, "settled %d as %s\n", len(args), s.As)
				return nil
			})
		},
	}
	db.flags(cmd)
	cmd.Flags().StringVar(&s.As, "as", "", "cleared or confirmed")
	cmd.Flags().StringVar(&s.Note, "note", "", "why")
	cmd.Flags().StringVar(&s.By, "by", "", "who says so")
	for _, flag := range []string{"as", "note", "by"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}
