package cli

import (
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/ledger"
)

// addresses are the flags of the commands that serve.
type addresses struct {
	grpc, http, pay string
	payLedger       string
	console, zone   string
	identity        string
	paySandbox      bool
	payPage         bool
	gateway         string
	gatewayTimeout  time.Duration
	unsafe          bool
	maxConns        int32
}

func (s *addresses) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.grpc, "grpc", "127.0.0.1:7070", "address of the gRPC API; beyond loopback only with authentication and TLS")
	cmd.Flags().StringVar(&s.http, "http", "127.0.0.1:7080", "address of /healthz, /readyz and /metrics; the same")
	cmd.Flags().StringVar(&s.payLedger, "pay-ledger", "", "the ledger that the wallets of the payment API are in; empty is main")
	cmd.Flags().StringVar(&s.zone, "console-zone", "UTC", "time zone that the console's forms propose, such as Asia/Dhaka")
	cmd.Flags().BoolVar(&s.unsafe, "unsafe", false, "serve even if the database could lose or rewrite acknowledged transfers")
	cmd.Flags().Int32Var(&s.maxConns, "max-connections", 16, "most connections to the database")
}

func (s *addresses) config(dsn string, log *slog.Logger) server.Config {
	return server.Config{
		DSN: dsn, GRPC: s.grpc, HTTP: s.http, Pay: s.pay, PayLedger: ledger.Name(s.payLedger), PaySandbox: s.paySandbox, PayPage: s.payPage,
		Console: s.console, ConsoleZone: s.zone, ConsoleSandbox: s.identity, Gateway: s.gateway, GatewayTimeout: s.gatewayTimeout, MaxConns: s.maxConns, Unsafe: s.unsafe, Logger: log,
	}
}

// callers are the flags of who may call.
type callers struct {
	auth                bool
	cert, key, clientCA string
	jwt                 auth.JWTConfig
	rate                float64
	burst               int
}

func (c *callers) flags(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.auth, "auth", false, "ask every caller for a token or client certificate (khata token)")
	cmd.Flags().StringVar(&c.cert, "tls-cert", "", "file in PEM with the server's certificate; read again when it changes")
	cmd.Flags().StringVar(&c.key, "tls-key", "", "file in PEM with its key")
	cmd.Flags().StringVar(&c.clientCA, "client-ca", "", "file in PEM with the authorities of client certificates, which gRPC then requires")
	cmd.Flags().StringVar(&c.jwt.Issuer, "jwt-issuer", "", "iss of user tokens")
	cmd.Flags().StringVar(&c.jwt.Audience, "jwt-audience", "", "aud of user tokens")
	cmd.Flags().StringVar(&c.jwt.Keys, "jwt-keys", "", "public keys of user tokens: a file (PEM or JWK set), or the https URL of a JWK set")
	cmd.Flags().StringVar(&c.jwt.WalletsClaim, "jwt-wallets-claim", "", "claim with the list of the user's accounts; by default they are wallet:SUBJECT and wallet:SUBJECT:…")
	cmd.Flags().Float64Var(&c.rate, "rate-limit", 0, "calls a second that each caller may make; 0 is no limit")
	cmd.Flags().IntVar(&c.burst, "rate-burst", 0, "calls that each caller may make at once; 0 is those of a second")
}

func (c *callers) into(config *server.Config) {
	config.Auth, config.TLSCert, config.TLSKey, config.ClientCA = c.auth, c.cert, c.key, c.clientCA
	config.RateLimit, config.RateBurst = c.rate, c.burst
	if c.jwt != (auth.JWTConfig{}) {
		config.JWT = &c.jwt
	}
}

func (a *app) logger() *slog.Logger { return slog.New(slog.NewTextHandler(a.Err, nil)) }

func (a *app) serveCommand() *cobra.Command {
	var at addresses
	var who callers
	var people signIn
	var dsn, consumers string
	cmd := &cobra.Command{
		Use:   "serve --dsn DSN",
		Short: "Serve from a PostgreSQL of yours",
		Long: `Serve from a PostgreSQL of yours. The schema must be up to date (khata migrate up), and the DSN that of the role
khata_service, which cannot rewrite the journal. A PostgreSQL with fsync, full_page_writes or synchronous_commit off is
refused unless --unsafe is given. Run as many servers on one database as you like.

Without --auth whoever reaches the server may do everything, so it listens on loopback only. Beyond that it takes --auth, --tls-cert
and --tls-key.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dsn == "" {
				return usagef("--dsn is required, such as \"host=localhost dbname=khata user=khata_service\"")
			}
			config := at.config(dsn, a.logger())
			config.GatewayToken = a.getenv("KHATA_GATEWAY_TOKEN") // not a flag, which everybody on the machine could read
			config.Consumers = consumers
			who.into(&config)
			if err := people.into(&config); err != nil {
				return err
			}
			s, err := server.Start(cmd.Context(), config)
			if err != nil {
				return err
			}
			defer s.Stop()
			select {
			case <-cmd.Context().Done():
				return nil
			case err := <-s.Failed():
				return err
			}
		},
	}
	cmd.Flags().StringVar(&dsn, "dsn", "", "the database, as URL or key=value (role khata_service)")
	cmd.Flags().StringVar(&consumers, "consumers-dsn", "", "the database of khata consume sms and verdicts, whose messages and verdicts the support desk shows; empty shows none")
	at.flags(cmd)
	cmd.Flags().StringVar(&at.pay, "pay", "", "address of the payment API, such as 127.0.0.1:7090; empty leaves it out")
	cmd.Flags().StringVar(&at.console, "console", "", "address of the console, the pages for finance and support, such as 127.0.0.1:7093; empty leaves it out")
	cmd.Flags().BoolVar(&at.payPage, "pay-page", true, "payment API: serve the pay page beside it, at /pay")
	cmd.Flags().StringVar(&at.gateway, "gateway", "", "base URL of the card gateway, for cash-ins of the payment API; its token is read from KHATA_GATEWAY_TOKEN")
	cmd.Flags().DurationVar(&at.gatewayTimeout, "gateway-timeout", 20*time.Second, "how long a call of the gateway may take, 30s at most; what a dead server left is looked into after three times as long")
	cmd.Flags().BoolVar(&at.paySandbox, "pay-sandbox", false, "payment API: believe tokens that anybody can make up, such as sandbox-shimul; loopback only")
	who.flags(cmd)
	people.flags(cmd)
	return cmd
}
