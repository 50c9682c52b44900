package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/auth"
)

type tokenJSON struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Certificate string   `json:"certificate,omitempty"`
	Grants      []string `json:"grants"`
	CreatedAt   string   `json:"created_at"`
	CreatedBy   string   `json:"created_by"`
	ExpiresAt   string   `json:"expires_at,omitempty"`
	RevokedAt   string   `json:"revoked_at,omitempty"`
	Token       string   `json:"token,omitempty"`
}

func (a *app) printToken(t auth.Token, secret string) error {
	out := tokenJSON{
		ID: t.ID, Name: t.Name, Certificate: t.Certificate, Grants: t.Grants.List(), CreatedAt: formatTime(t.CreatedAt), CreatedBy: t.CreatedBy,
		ExpiresAt: formatOptionalTime(t.ExpiresAt), RevokedAt: formatOptionalTime(t.RevokedAt), Token: secret,
	}
	text := fmt.Sprintf("%s  %s  %s  created %s by %s", out.ID, out.Name, strings.Join(out.Grants, ","), out.CreatedAt, out.CreatedBy)
	if out.Certificate != "" {
		text += "  certificate " + out.Certificate
	}
	if out.ExpiresAt != "" {
		text += "  expires " + out.ExpiresAt
	}
	if out.RevokedAt != "" {
		text += "  revoked " + out.RevokedAt
	}
	return a.print(out, text)
}

func (a *app) tokenCommand() *cobra.Command {
	var dsn string
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Create, list and revoke the tokens of services",
		Long: `Create, list and revoke the tokens of services, which khata serve --auth asks for. The DSN is that of the database's
owner, as for migrate: the role that servers connect as cannot let anybody in.

Several tokens can have one name, and the name is what transfers record: to replace a token, create another one, hand it out, and
revoke the old one when nobody uses it any more. Servers know within five seconds.`,
	}
	cmd.PersistentFlags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value (its owner)")
	cmd.PersistentFlags().BoolVar(&a.json, "json", false, "print one JSON object a line")
	with := func(ctx context.Context, f func(*auth.Register) error) error {
		if dsn == "" {
			return usagef("--dsn is required, such as \"host=localhost dbname=khata user=khata_owner\"")
		}
		r, err := auth.OpenRegister(ctx, dsn)
		if err != nil {
			return err
		}
		defer r.Close()
		return f(r)
	}
	cmd.AddCommand(a.tokenCreateCommand(with), &cobra.Command{
		Use:   "list",
		Short: "List all tokens that there ever were, without their secrets",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return with(cmd.Context(), func(r *auth.Register) error {
				list, err := r.List(cmd.Context())
				for _, t := range list {
					if err := a.printToken(t, ""); err != nil {
						return err
					}
				}
				return err
			})
		},
	}, &cobra.Command{
		Use:   "revoke ID",
		Short: "End a token for ever; the id stands in the list, and in the token between the underscores",
		Args:  exactArgs("ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return with(cmd.Context(), func(r *auth.Register) error {
				name, at, err := r.Revoke(cmd.Context(), args[0])
				if errors.Is(err, auth.ErrNoToken) {
					return usagef("there is no token %q: khata token list has the ids", args[0])
				} else if err != nil {
					return err
				}
				out := struct {
					ID        string `json:"id"`
					Name      string `json:"name"`
					RevokedAt string `json:"revoked_at"`
				}{args[0], name, formatTime(at)}
				return a.print(out, fmt.Sprintf("%s  %s  revoked %s", out.ID, out.Name, out.RevokedAt))
			})
		},
	})
	return cmd
}

func (a *app) tokenCreateCommand(with func(context.Context, func(*auth.Register) error) error) *cobra.Command {
	var spec auth.TokenSpec
	var roles, ledgers, grants []string
	var expires string
	cmd := &cobra.Command{
		Use:   "create --name NAME --ledger LEDGER --role ROLE",
		Short: "Create a token and print it; it cannot be read again",
		Long: `Create a token and print it, alone on standard output; what else there is to say goes to standard error. It cannot be read again.

The roles hold in each of the ledgers. For different ones in different ledgers give --grant LEDGER:ROLE instead, as often as needed.
A ledger * is all of them, also those to come.

With --certificate there is no secret: a client certificate of this name, signed by an authority of khata serve --client-ca, is the
caller.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if (len(roles) == 0) != (len(ledgers) == 0) {
				return usagef("--ledger and --role go together")
			}
			for _, l := range ledgers {
				for _, role := range roles {
					grants = append(grants, l+":"+role)
				}
			}
			if spec.Name == "" || len(grants) == 0 {
				return usagef("--name, --ledger and --role are required (roles: %s)", strings.Join(auth.RoleNames(), ", "))
			}
			if spec.Grants, err = auth.ParseGrants(grants); err != nil {
				return usagef("%w", err)
			}
			if spec.Expires, err = parseExpiry(expires); err != nil {
				return err
			}
			if err := spec.Validate(); err != nil {
				return usagef("%w", err)
			}
			return with(cmd.Context(), func(r *auth.Register) error {
				t, secret, err := r.Create(cmd.Context(), spec)
				switch {
				case err != nil:
					return err
				case a.json:
					return a.printToken(t, secret)
				}
				_, _ = fmt.Fprintf(a.Err, "%s  %s  %s\n", t.ID, t.Name, strings.Join(t.Grants.List(), ","))
				if secret != "" {
					_, err = fmt.Fprintln(a.Out, secret)
				}
				return err
			})
		},
	}
	cmd.Flags().StringVar(&spec.Name, "name", "", "the caller, as transfers record it, such as checkout")
	cmd.Flags().StringVar(&spec.Certificate, "certificate", "", "the name of a client certificate: a DNS name, a URI, or its common name")
	cmd.Flags().StringSliceVar(&roles, "role", nil, "what it may do: "+strings.Join(auth.RoleNames(), ", "))
	cmd.Flags().StringSliceVar(&ledgers, "ledger", nil, "where it may do that")
	cmd.Flags().StringSliceVar(&grants, "grant", nil, "a role in one ledger, as LEDGER:ROLE")
	cmd.Flags().StringVar(&expires, "expires", "", "when it ends, such as 90d or 12h; by default it does not")
	for _, flag := range []string{"name", "certificate", "role", "ledger", "grant", "expires"} {
		onlyOnCommandLine(cmd, flag) // KHATA_LEDGER is meant for the client commands.
	}
	return cmd
}

// parseExpiry reads a duration, which can be in days.
func parseExpiry(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if days, isDays := strings.CutSuffix(text, "d"); isDays {
		var n uint64
		n, err = strconv.ParseUint(days, 10, 16)
		d = time.Duration(n) * 24 * time.Hour
	}
	if err != nil || d <= 0 {
		return 0, usagef("--expires %q: want a time from now, such as 90d or 12h", text)
	}
	return d, nil
}
