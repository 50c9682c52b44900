package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/inbox"
)

// inboxFlags say where an inbox is, and which of its letters are meant.
type inboxFlags struct {
	dsn, schema, consumer, reason string
	all, tooOld, open             bool
}

func (f *inboxFlags) database(cmd *cobra.Command, role string) {
	cmd.Flags().StringVar(&f.dsn, "dsn", "", "the database of the consumer, as URL or key=value ("+role+")")
	cmd.Flags().StringVar(&f.schema, "schema", inbox.DefaultSchema, "the schema of its inbox")
}

// letters are the flags of the commands that change some.
func (f *inboxFlags) letters(cmd *cobra.Command) {
	f.database(cmd, "role of the consumer")
	cmd.Flags().StringVar(&f.consumer, "consumer", "", "whose letters")
	cmd.Flags().BoolVar(&f.all, "all", false, "all of its letters, in place of EVENT_ID")
	cmd.Flags().BoolVar(&f.tooOld, "too-old", false, "also the quarantined ones, which may have had their effect")
	for _, flag := range []string{"consumer", "all", "too-old"} {
		onlyOnCommandLine(cmd, flag)
	}
}

// selection is what the flags and the ids say, once they say it.
func (f *inboxFlags) selection(ids []string) (inbox.Selection, error) {
	which := inbox.Selection{Schema: f.schema, Consumer: f.consumer, EventIDs: ids}
	switch {
	case f.dsn == "":
		return which, usagef("--dsn is required")
	case f.consumer == "":
		return which, usagef("--consumer is required")
	case f.all != (len(ids) == 0):
		return which, usagef("give either event ids or --all")
	}
	which.Reasons = []inbox.Reason{inbox.Failed, inbox.Poisoned, inbox.Malformed, inbox.Future, inbox.OtherSource, inbox.Behind}
	if f.tooOld {
		which.Reasons = append(which.Reasons, inbox.TooOld)
	}
	return which, nil
}

func (a *app) inboxCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "inbox",
		Short: "Events that a consumer could not handle, and the tables of its inbox",
		Long: `Events that a consumer could not handle, and the tables of its inbox (docs/inbox.md). An event whose handler failed for good
is a dead letter; one that is older than the inbox remembers is quarantined, since nobody can tell whether it had its effect. Both are rows in the
consumer's own database, until a person replays or discards them.`,
	}
	cmd.AddCommand(a.inboxLettersCommand(), a.inboxReplayCommand(), a.inboxDiscardCommand(), a.inboxMigrateCommand())
	return cmd
}

func (a *app) inboxLettersCommand() *cobra.Command {
	var f inboxFlags
	cmd := &cobra.Command{
		Use:   "letters --dsn DSN",
		Short: "List dead letters and quarantined events, oldest first",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.dsn == "" {
				return usagef("--dsn is required")
			}
			pool, err := inbox.Connect(cmd.Context(), f.dsn)
			if err != nil {
				return err
			}
			defer pool.Close()
			which := inbox.Selection{Schema: f.schema, Consumer: f.consumer, Limit: lettersAtOnce}
			if f.open {
				which.States = []inbox.State{inbox.Open, inbox.Requested}
			}
			for listed := 0; ; {
				list, err := inbox.Letters(cmd.Context(), pool, which)
				if err != nil {
					return err
				}
				for _, l := range list {
					if err := a.print(toLetterJSON(l), letterText(l)); err != nil {
						return err
					}
					which.After = l.Number
				}
				if listed += len(list); len(list) < lettersAtOnce {
					if listed == 0 && !a.json {
						_, _ = fmt.Fprintln(a.Out, "there are no letters")
					}
					return nil
				}
			}
		},
	}
	f.database(cmd, "role of the consumer")
	cmd.Flags().StringVar(&f.consumer, "consumer", "", "only this consumer's")
	cmd.Flags().BoolVar(&f.open, "open", false, "only those that are not replayed or discarded")
	cmd.Flags().BoolVar(&a.json, "json", false, "print each as a JSON object on a line, with key and data in base64")
	onlyOnCommandLine(cmd, "consumer")
	return cmd
}

// lettersAtOnce bounds the memory of a long list.
const lettersAtOnce = 200

func (a *app) inboxReplayCommand() *cobra.Command {
	var f inboxFlags
	cmd := &cobra.Command{
		Use:   "replay (EVENT_ID... | --all) --consumer NAME --dsn DSN",
		Short: "Have the running consumer handle letters again, each once",
		Long: `Have the running consumer handle letters again, each once and in the order of their key. It needs a moment, so look at
"khata inbox letters" afterwards: one that fails again is open again. Asking twice does no harm.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			which, err := f.selection(ids)
			if err != nil {
				return err
			}
			pool, err := inbox.Connect(cmd.Context(), f.dsn)
			if err != nil {
				return err
			}
			defer pool.Close()
			n, err := inbox.RequestReplay(cmd.Context(), pool, which)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(a.Out, "asked for %d letters\n", n)
			return nil
		},
	}
	f.letters(cmd)
	return cmd
}

func (a *app) inboxDiscardCommand() *cobra.Command {
	var f inboxFlags
	cmd := &cobra.Command{
		Use:   "discard (EVENT_ID... | --all) --consumer NAME --reason TEXT --dsn DSN",
		Short: "Lay letters aside for good: their events will have no effect",
		Long: `Lay letters aside for good: their events will have no effect. The rows stay, with the reason. Where the consumer keeps the
order of keys, the events behind a discarded one go on.`,
		RunE: func(cmd *cobra.Command, ids []string) error {
			which, err := f.selection(ids)
			if err != nil {
				return err
			}
			if f.reason == "" {
				return usagef("--reason is required")
			}
			pool, err := inbox.Connect(cmd.Context(), f.dsn)
			if err != nil {
				return err
			}
			defer pool.Close()
			n, err := inbox.Discard(cmd.Context(), pool, which, f.reason)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(a.Out, "discarded %d letters\n", n)
			return nil
		},
	}
	f.letters(cmd)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why they are not wanted, and who says so")
	onlyOnCommandLine(cmd, "reason")
	return cmd
}

func (a *app) inboxMigrateCommand() *cobra.Command {
	var f inboxFlags
	var role string
	cmd := &cobra.Command{
		Use:   "migrate --dsn DSN",
		Short: "Make the tables of an inbox in a database, or bring them up to date",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.dsn == "" {
				return usagef("--dsn is required")
			}
			applied, err := inbox.Migrate(cmd.Context(), f.dsn, f.schema)
			if err != nil {
				return err
			}
			for _, name := range applied {
				_, _ = fmt.Fprintf(a.Out, "applied %s\n", name)
			}
			if len(applied) == 0 {
				_, _ = fmt.Fprintln(a.Out, "the inbox is up to date")
			}
			if role == "" {
				return nil
			}
			pool, err := inbox.Connect(cmd.Context(), f.dsn)
			if err != nil {
				return err
			}
			defer pool.Close()
			if _, err := pool.Exec(cmd.Context(), inbox.Grants(f.schema, role)); err != nil {
				return fmt.Errorf("grant it to %s: %w", role, err)
			}
			_, _ = fmt.Fprintf(a.Out, "granted to %s\n", role)
			return nil
		},
	}
	f.database(cmd, "its owner")
	cmd.Flags().StringVar(&role, "grant", "", "the role of the consumer, which gets the rights that it needs")
	onlyOnCommandLine(cmd, "grant")
	return cmd
}

type letterJSON struct {
	Number      int64  `json:"number"`
	Consumer    string `json:"consumer"`
	EventID     string `json:"event_id"`
	Reason      string `json:"reason"`
	State       string `json:"state"`
	Error       string `json:"error"`
	Attempts    int    `json:"attempts"`
	Type        string `json:"type,omitempty"`
	Source      string `json:"source,omitempty"`
	Subject     string `json:"subject,omitempty"`
	Time        string `json:"time,omitempty"`
	Topic       string `json:"topic"`
	Partition   int32  `json:"partition"`
	Offset      int64  `json:"offset"`
	Key         []byte `json:"key,omitempty"`
	Data        []byte `json:"data,omitempty"`
	RecordedAt  string `json:"recorded_at"`
	RequestedAt string `json:"requested_at,omitempty"`
	SettledAt   string `json:"settled_at,omitempty"`
	Note        string `json:"note,omitempty"`
}

func toLetterJSON(l inbox.Letter) letterJSON {
	e := l.Event
	return letterJSON{
		Number: l.Number, Consumer: l.Consumer, EventID: e.ID, Reason: string(l.Reason), State: string(l.State), Error: l.Error, Attempts: l.Attempts,
		Type: e.Type, Source: e.Source, Subject: e.Subject, Time: formatTimeUnlessZero(e.Time), Topic: e.Topic, Partition: e.Partition, Offset: e.Offset,
		Key: e.Key, Data: e.Data, RecordedAt: formatTime(l.RecordedAt), RequestedAt: formatTimeUnlessZero(l.RequestedAt),
		SettledAt: formatTimeUnlessZero(l.SettledAt), Note: l.Note,
	}
}

func formatTimeUnlessZero(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return formatTime(t)
}

// letterText has the first line of the error: what follows in it is for who looks closer.
func letterText(l inbox.Letter) string {
	e := l.Event
	reason, _, _ := strings.Cut(l.Error, "\n")
	text := fmt.Sprintf("%d  %s  %s  %s  for %s since %s\n  %s, partition %d, offset %d, tried %d times: %s", l.Number, e.ID, l.Reason, l.State, l.Consumer,
		formatTime(l.RecordedAt), e.Topic, e.Partition, e.Offset, l.Attempts, reason)
	if l.Note != "" {
		text += "\n  discarded: " + l.Note
	}
	return text
}
