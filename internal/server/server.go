package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sms"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
)

// Config is how to run a server.
type Config struct {
	// DSN is the database, as role khata_service. Required.
	DSN string
	// GRPC and HTTP are the addresses to listen on, such as "127.0.0.1:7070"; port 0 takes a free one. Beyond loopback they need
	// Auth and TLS. Required.
	GRPC, HTTP string
	// Pay is the address of the payment API, of the same kind; "" leaves it out. PayLedger is the ledger that its wallets are in.
	Pay       string
	PayLedger ledger.Name
	// PaySandbox has the payment API believe tokens that anybody can make up: see payapi.Sandbox. It goes without Auth only.
	PaySandbox bool
	// PayPage serves the pay page, /pay, at the payment API's address. PaySandboxUsers are the people whom its visitors can be, with
	// PaySandbox only; without any it asks for a token.
	PayPage         bool
	PaySandboxUsers []PaySandboxUser
	// Console is the address of the pages for finance and support, of the same kind; "" leaves them out. ConsoleZone is the time zone that its forms
	// propose, such as Asia/Dhaka; "" is UTC. With Auth visitors sign in, and without it they pick who to be.
	Console, ConsoleZone string
	// ConsoleOIDC is the identity provider that people sign in to the console with, beside tokens, or instead of them with ConsoleNoTokens; nil is
	// none. It needs Auth.
	ConsoleOIDC     *auth.OIDCConfig
	ConsoleNoTokens bool
	// ConsoleSandbox is the address, of the same kind, of an identity provider of the server's own, which takes the console's visitors for whom they pick;
	// "" leaves it out, and they pick on the console's own page. It goes without Auth only.
	ConsoleSandbox string
	// Consumers is the database in which text messages and flagged transfers are, for the support desk to show; "" is none.
	Consumers string
	// Gateway is the base URL of the gateway that takes money from cards for the payment API, and GatewayToken what is sent to it; ""
	// leaves cash-ins out. With PaySandbox and no Gateway the server runs one of its own, in memory, which moves no money.
	Gateway, GatewayToken string
	// GatewayTimeout bounds each call of the gateway, up to MaxGatewayTimeout; 0 is 20 s. A cash-in whose server has died is looked into by
	// another one after three times as long.
	GatewayTimeout time.Duration
	// Auth asks every caller for an identity. Without it everyone may do everything.
	Auth bool
	// JWT is how to know users; nil lets none in. It needs Auth.
	JWT *auth.JWTConfig
	// TLSCert and TLSKey are files in PEM, of which changes are noticed. Both or none.
	TLSCert, TLSKey string
	// ClientCA, if it is not empty, is a file in PEM with the authorities of client certificates; gRPC then asks for one. It
	// needs Auth and TLS.
	ClientCA string
	// RateLimit is how many calls a second each caller may make, and RateBurst how many at once (0: those of a second). 0 does not
	// limit.
	RateLimit float64
	RateBurst int
	// MaxConns is the size of the pool of connections; 0 is 16.
	MaxConns int32
	// Unsafe serves from a database that could lose or rewrite what was acknowledged, after a warning. For experiments.
	Unsafe bool
	// Logger is required.
	Logger *slog.Logger
}

// drainTimeout bounds how long calls under way may go on after Stop. It is longer than the journal's patience.
const drainTimeout = 12 * time.Second

// Server is a running server.
type Server struct {
	config  Config
	pool    *pgxpool.Pool
	probe   *pgxpool.Pool // for the watch alone: a pool that is busy is not a database that is away
	journal *journal.Journal
	reports *report.Reports
	// reconciler is for the gRPC API and the console together: it bounds how much is made at the same time.
	reconciler *reconcile.Reconciler
	// suspects looks for double charges, until stopFollowing returns.
	suspects      *suspect.Detector
	stopFollowing func()
	// desk is where people help customers. consumers is the database of those who tell it more than the books know; nil is none.
	desk      *support.Desk
	consumers *pgxpool.Pool
	tokens    *pgxpool.Pool // for the tokens alone: to know a caller must not wait for those who post
	callers   *auth.Authenticator
	limiter   *auth.Limiter
	denied    func(ledger.Code)
	certs     *certificates
	grpc      *grpc.Server
	health    *healthService
	http      *http.Server
	pay       *payment      // nil: it is left out
	console   *consolePages // the same

	registry *prometheus.Registry

	grpcListener, httpListener net.Listener
	failed                     chan error
	stopWatch                  context.CancelFunc
	watched                    chan struct{}
	ready                      readiness
}

// gcPercent lets the heap grow to five times what is in use, unless GOGC says otherwise: what is in use is some ten MB, and
// collecting it again and again took a sixth of the server's time.
const gcPercent = 400

func tuneGC() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// Start checks the database, starts a server and returns while it runs. The context bounds the start only. An error says
// what to do.
func Start(ctx context.Context, config Config) (_ *Server, err error) {
	tuneGC()
	s := &Server{config: config, failed: make(chan error, 4), watched: make(chan struct{})}
	if err := s.secure(); err != nil {
		return nil, err
	}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.grpcListener.Close(), s.httpListener.Close())
		}
	}()
	if err := s.connect(ctx); err != nil {
		s.disconnect()
		return nil, err
	}
	pay, err := s.listenForPayments(ctx)
	if err != nil {
		s.disconnect()
		return nil, err
	}
	registry := prometheus.NewRegistry()
	denied := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "khata_calls_denied_total", Help: "Calls that were not let in, by the reason of the error.",
	}, []string{"reason"})
	registry.MustRegister(denied)
	s.registry = registry
	s.denied = func(code ledger.Code) { denied.WithLabelValues(string(code)).Inc() }
	s.journal = journal.New(s.pool, journal.Config{Logger: config.Logger, Metrics: journal.NewMetrics(registry)})
	s.reports = report.New(s.journal, s.pool)
	s.suspects = suspect.New(suspect.Config{Journal: s.journal, Pool: s.pool, Logger: config.Logger, Metrics: suspect.NewMetrics(registry)})
	s.reconciler = reconcile.New(s.journal, s.pool)
	s.desk = SupportSources{Journal: s.journal, Books: s.pool, Fraud: s.consumers, SMS: s.consumers, Letters: s.letters()}.Desk(support.Config{})
	grpcConfig := grpcapi.Config{
		Callers: s.callers, Limiter: s.limiter, Denied: s.denied, Reports: s.reports, Reconciler: s.reconciler, Suspects: s.suspects, Desk: s.desk,
		Logger: config.Logger,
	}
	if s.certs != nil {
		grpcConfig.TLS = s.certs.config(true, "h2")
	}
	s.grpc = grpcapi.New(s.journal, grpcConfig)
	s.health = newHealthService()
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.http = &http.Server{
		Handler: s.routes(registry), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute,
		ErrorLog: slog.NewLogLogger(config.Logger.Handler(), slog.LevelDebug), // handshakes that strangers do not finish
	}
	if s.certs != nil {
		s.http.TLSConfig = s.certs.config(false, "h2", "http/1.1")
	}
	if err = s.startPayments(ctx, pay); err == nil {
		if err = s.startConsole(ctx); err != nil {
			s.stopPayments()
		}
	}
	if err != nil {
		s.grpc.Stop() // Its workers wait already.
		s.journal.Close()
		s.disconnect()
		return nil, err
	}
	go func() { s.failed <- s.grpc.Serve(s.grpcListener) }()
	go func() { s.failed <- s.serveHTTP() }()
	watch, stopWatch := context.WithCancel(context.Background())
	s.stopWatch = stopWatch
	s.ready.set(true)
	go s.watchDatabase(watch)
	s.follow()
	addresses := []any{"grpc", s.GRPCAddr(), "http", s.HTTPAddr()}
	if s.pay != nil {
		addresses = append(addresses, "pay", s.PayAddr())
	}
	if s.console != nil {
		addresses = append(addresses, "console", s.ConsoleAddr())
	}
	config.Logger.Info("serving", append(addresses, "auth", config.Auth, "tls", s.certs != nil)...)
	return s, nil
}

// GRPCAddr is the address of the gRPC API.
func (s *Server) GRPCAddr() string { return s.grpcListener.Addr().String() }

// HTTPAddr is the address of health, readiness and metrics.
func (s *Server) HTTPAddr() string { return s.httpListener.Addr().String() }

// Registry has what /metrics tells; what else runs in the process may add to it.
func (s *Server) Registry() *prometheus.Registry { return s.registry }

// Failed receives an error if a listener breaks.
func (s *Server) Failed() <-chan error { return s.failed }

// Stop says that the server is going, lets the calls under way end, and waits for the batches that have begun. After
// drainTimeout it cuts the rest off; what was committed is answered to the retry.
func (s *Server) Stop() {
	s.config.Logger.Info("stopping")
	s.stopWatch()
	<-s.watched
	s.ready.set(false)
	s.health.stop()
	drained := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(drained)
	}()
	select {
	case <-drained:
	case <-time.After(drainTimeout):
		s.grpc.Stop()
		<-drained
	}
	s.stopConsole()
	s.stopPayments()
	s.stopFollowing()
	_ = s.http.Close()
	s.journal.Close()
	s.disconnect()
	s.config.Logger.Info("stopped")
}

// consumersConns is how many questions the support desk asks the consumers' database at a time.
const consumersConns = 4

// letters are the inboxes in which letters to consumers may lie.
func (s *Server) letters() (list []SupportLetters) {
	if s.consumers == nil {
		return nil
	}
	for _, consumer := range []string{sms.Consumer, fraud.Consumer, wallet.Consumer} {
		list = append(list, SupportLetters{Consumer: consumer, Pool: s.consumers})
	}
	return list
}

// sweepRefunds is how often a server looks for refunds that were approved and not posted.
const sweepRefunds = 15 * time.Second

// follow has the journal followed behind those who post.
func (s *Server) follow() {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.suspects.Run(ctx)
	}()
	// What was approved and not posted: by a server that died, or while the database was away.
	swept := periodic.Job{
		Name: "post the refunds that were approved", Every: sweepRefunds, Log: s.config.Logger,
		Do: func(ctx context.Context) error { _, err := s.desk.Sweep(ctx); return err },
	}.Start(ctx)
	s.stopFollowing = func() {
		stop()
		<-ended
		swept()
	}
}

// secure makes ready what keeps strangers out, and needs no database.
func (s *Server) secure() (err error) {
	if err := s.config.checkSecurity(); err != nil {
		return err
	}
	if s.config.RateLimit > 0 {
		s.limiter = auth.NewLimiter(s.config.RateLimit, s.config.RateBurst)
	}
	if s.config.TLSCert != "" {
		s.certs, err = newCertificates(s.config.TLSCert, s.config.TLSKey, s.config.ClientCA, s.config.Logger)
	}
	return err
}

// connect opens the connections to the database, and checks it.
func (s *Server) connect(ctx context.Context) (err error) {
	if s.pool, err = pg.Connect(ctx, pg.Config{DSN: s.config.DSN, MaxConns: s.config.MaxConns}); err != nil {
		return err
	}
	if err := s.preflight(ctx); err != nil {
		return err
	}
	if s.config.Consumers != "" {
		if s.consumers, err = pg.Connect(ctx, pg.Config{DSN: s.config.Consumers, MaxConns: consumersConns}); err != nil {
			return fmt.Errorf("the database of the consumers: %w", err)
		}
	}
	if s.probe, err = pg.Connect(ctx, pg.Config{DSN: s.config.DSN, MaxConns: 1}); err != nil || !s.config.Auth {
		return err
	}
	if s.tokens, err = pg.Connect(ctx, pg.Config{DSN: s.config.DSN, MaxConns: 1}); err != nil {
		return err
	}
	s.callers, err = auth.New(ctx, auth.Config{Pool: s.tokens, JWT: s.config.JWT, Logger: s.config.Logger})
	return err
}

// disconnect undoes connect, as far as it came.
func (s *Server) disconnect() {
	if s.callers != nil {
		s.callers.Close()
	}
	for _, pool := range []*pgxpool.Pool{s.pool, s.probe, s.tokens, s.consumers} {
		if pool != nil {
			pool.Close()
		}
	}
}

func (s *Server) serveHTTP() error {
	if s.certs == nil {
		return s.http.Serve(s.httpListener)
	}
	return s.http.ServeTLS(s.httpListener, "", "")
}

func (s *Server) listen(ctx context.Context) (err error) {
	if s.grpcListener, err = s.listenOn(ctx, "gRPC", s.config.GRPC); err != nil {
		return err
	}
	if s.httpListener, err = s.listenOn(ctx, "HTTP", s.config.HTTP); err != nil {
		return errors.Join(err, s.grpcListener.Close())
	}
	return nil
}

// listenOn refuses every address but loopback unless callers are known and nobody on the way can read their tokens: whoever reaches
// the port could move money.
func (s *Server) listenOn(ctx context.Context, what, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s address %q: want HOST:PORT, such as 127.0.0.1:7070", what, address)
	}
	anywhere := s.config.Auth && s.certs != nil
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) && !anywhere {
		return nil, fmt.Errorf("%s address %q is not on loopback, where callers must be known and nobody may listen in: "+
			"give --auth, --tls-cert and --tls-key, or listen on 127.0.0.1 or ::1", what, address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", what, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() && !anywhere { // whatever "localhost" means here
		return nil, errors.Join(fmt.Errorf("%s address %q is %s here, which is not on loopback", what, address, at.IP), listener.Close())
	}
	return listener, nil
}

func (s *Server) preflight(ctx context.Context) error {
	err := pg.Preflight(ctx, s.pool)
	var unsafe *pg.Unsafe
	if !errors.As(err, &unsafe) {
		return err
	}
	if !s.config.Unsafe {
		return fmt.Errorf("%w (to serve all the same, give --unsafe)", err)
	}
	for _, reason := range unsafe.Reasons {
		s.config.Logger.Warn("unsafe database: acknowledged transfers can be lost or changed", "reason", reason)
	}
	return nil
}
