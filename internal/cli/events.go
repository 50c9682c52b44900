package cli

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/relay"
)

func (a *app) eventsCommand() *cobra.Command {
	var reach kafkaFlags
	var topics kafka.Topics
	var follow, fromBeginning bool
	var only, key string
	cmd := &cobra.Command{
		Use:   "events --kafka HOST:PORT,… [--from-beginning] [--follow]",
		Short: "Show what is published, decoded",
		Long: `Show what is published, decoded: from the beginning of the topics to their end, or with --follow what comes from now on. Only what is
committed. It is for people to look at: it belongs to no group and moves nobody's place.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !follow && !fromBeginning {
				return usagef("give --from-beginning, --follow, or both")
			}
			if err := topics.Validate(); err != nil {
				return usagef("%w", err)
			}
			names := topics.Names()
			switch only {
			case "":
			case "transfers":
				names = names[:1]
			case "accounts":
				names = names[1:]
			default:
				return usagef("--only %q: it is transfers or accounts", only)
			}
			config, err := reach.config(a.getenv)
			if err != nil {
				return err
			}
			client, err := kafka.Connect(cmd.Context(), config) // It says best what is wrong.
			if err != nil {
				return err
			}
			for _, name := range names {
				if _, err := kafka.TopicSettings(cmd.Context(), client, name); err != nil {
					client.Close()
					return err
				}
			}
			client.Close()
			options, err := config.Options()
			if err != nil {
				return err
			}
			return relay.Tail(cmd.Context(), options, names, fromBeginning, follow, func(e relay.Event) error {
				if key != "" && e.Key != key {
					return nil
				}
				return a.print(e, eventText(e))
			})
		},
	}
	reach.flags(cmd)
	prefixFlag(cmd, &topics)
	cmd.Flags().BoolVar(&fromBeginning, "from-beginning", false, "from the beginning of the topics")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on until Ctrl-C")
	cmd.Flags().StringVar(&only, "only", "", "transfers or accounts: one of the topics only")
	cmd.Flags().StringVar(&key, "key", "", "events of this key only, such as main/wallet:shimul")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line")
	return cmd
}

func eventText(e relay.Event) string {
	data := string(e.Data)
	if e.Data == nil {
		data = "(of a type that this khata does not know)"
	} else if indented, err := json.MarshalIndent(e.Data, "  ", "  "); err == nil {
		data = string(indented)
	}
	return fmt.Sprintf("%s  %s  number %s\n  key %s  partition %d, offset %d  id %s\n  %s", e.Headers["ce_time"], e.Headers["ce_type"],
		strings.TrimLeft(e.Headers["ce_sequence"], "0"), e.Key, e.Partition, e.Offset, e.Headers["ce_id"], data)
}
