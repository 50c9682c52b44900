package cli

import (
	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/server"
)

// signIn are the flags of how people sign in to the console.
type signIn struct {
	oidc   auth.OIDCConfig
	grants []string
	tokens bool
}

func (s *signIn) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&s.oidc.Issuer, "console-oidc-issuer", "", "identity provider that people sign in to the console with (OpenID Connect), such as https://id.example")
	f.StringVar(&s.oidc.ClientID, "console-oidc-client-id", "", "what the identity provider calls the console")
	f.StringVar(&s.oidc.SecretFile, "console-oidc-client-secret-file", "", "file with the console's secret at the identity provider, read at each sign-in; empty is a public client")
	f.StringVar(&s.oidc.Base, "console-oidc-redirect", "", "where visitors find the console, such as https://books.example; people come back to "+auth.OIDCCallback+" there")
	// No list with commas: those are in the names of groups.
	f.StringArrayVar(&s.grants, "console-oidc-grant", nil, "what a group of the identity provider's may do: GROUP=LEDGER:ROLE[,LEDGER:ROLE…], such as khata-finance=main:finance; can be repeated, or have several with semicolons between them")
	f.StringVar(&s.oidc.GroupsClaim, "console-oidc-groups-claim", "groups", "claim with the groups of who signs in")
	f.StringVar(&s.oidc.NameClaim, "console-oidc-name-claim", "sub", "claim that is recorded, after oidc:, as who has done something; one that nobody can choose, and nobody else gets")
	f.StringSliceVar(&s.oidc.Scopes, "console-oidc-scopes", []string{"profile", "email"}, "scopes that are asked for besides openid")
	f.StringVar(&s.oidc.Title, "console-oidc-title", "", "what the identity provider is called on the page to sign in; empty is its host")
	f.BoolVar(&s.tokens, "console-tokens", true, "let people sign in to the console with tokens of Khata's too")
}

// into adds to the configuration how people sign in.
func (s *signIn) into(config *server.Config) error {
	config.ConsoleNoTokens = !s.tokens
	if s.oidc.Issuer+s.oidc.ClientID+s.oidc.SecretFile+s.oidc.Base == "" && len(s.grants) == 0 {
		return nil
	}
	var err error
	if s.oidc.Grants, err = auth.ParseGroupGrants(s.grants); err != nil {
		return usagef("--console-oidc-grant %w", err)
	}
	config.ConsoleOIDC = &s.oidc
	return nil
}
