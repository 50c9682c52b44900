package cli

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/client"
)

func (a *app) auditCommand() *cobra.Command {
	cmd := a.clientFlags(&cobra.Command{Use: "audit", Short: "Show who did what, and who looked at what"})
	cmd.AddCommand(a.auditListCommand())
	return cmd
}

func (a *app) auditListCommand() *cobra.Command {
	var filter client.AuditFilter
	var object, since, until string
	limit := 100
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List what people did at the support desk, and what they looked at, the newest first",
		Long: `List what people did, and what they looked at: docs/support.md. To list it is written down as well.

  khata audit list --object transfer:order-77
  khata audit list --actor rina --since 2026-11-30T00:00:00+06:00
  khata audit list --action refund.approve --limit 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if filter.Since, filter.Until, err = bounds(since, until); err != nil {
				return err
			}
			var ok bool
			if filter.ObjectKind, filter.ObjectID, ok = strings.Cut(object, ":"); object != "" && (!ok || filter.ObjectKind == "" || filter.ObjectID == "") {
				return usagef("--object %q: want KIND:ID, such as transfer:order-77", object)
			}
			if limit < 0 {
				return usagef("--limit is %d, want 1 or more, or 0 for all", limit)
			}
			filter.PageSize = min(limit, 200)
			flags := map[string]string{
				"object_kind": "--object", "object_id": "--object", "actor": "--actor", "action": "--action", "since": "--since", "until": "--until",
			}
			return a.withSupport(flags, func(s *client.Support) error {
				list := a.list("AT", "ACTOR", "ADDRESS", "OUTCOME", "ACTION", "OBJECT", "DETAIL")
				n := 0
				for e, err := range s.Audit(cmd.Context(), filter) {
					if err != nil {
						return errors.Join(list.end(), err)
					}
					object := e.ObjectKind
					if e.ObjectID != "" {
						object += ":" + e.ObjectID
					}
					var details []string
					for _, name := range sortedKeys(e.Detail) {
						if name != "sha256" { // It tells people nothing, and pushes out what does.
							details = append(details, name+" "+strconv.Quote(e.Detail[name]))
						}
					}
					if err := list.add(toAuditEventJSON(e), formatTime(e.At), e.Actor, e.Address, string(e.Outcome), e.Action, object,
						short(strings.Join(details, ", "), 100)); err != nil {
						return err
					}
					if n++; n == limit {
						break
					}
				}
				if n == 0 {
					a.none()
				}
				return list.end()
			})
		},
	}
	cmd.Flags().StringVar(&object, "object", "", "only what was done to this, as KIND:ID, such as transfer:order-77")
	cmd.Flags().StringVar(&filter.Actor, "actor", "", "only what this caller did")
	cmd.Flags().StringVar(&filter.Action, "action", "", "only this, such as refund.approve")
	cmd.Flags().StringVar(&since, "since", "", "only at or after a time, RFC 3339")
	cmd.Flags().StringVar(&until, "until", "", "only before a time, RFC 3339")
	cmd.Flags().IntVar(&limit, "limit", limit, "stop after so many; 0 lists all")
	for _, flag := range []string{"object", "actor", "action", "since", "until", "limit"} {
		onlyOnCommandLine(cmd, flag)
	}
	return cmd
}
