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

	"github.com/khata-ledger/khata/internal/grpcapi"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/pg"
)

// Config is how to run a server.
type Config struct {
	// DSN is the database, as role khata_service. Required.
	DSN string
	// GRPC and HTTP are the addresses to listen on, such as "127.0.0.1:7070"; port 0 takes a free one. Only loopback is
	// allowed, as long as callers have no identity. Required.
	GRPC, HTTP string
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
	grpc    *grpc.Server
	health  *healthService
	http    *http.Server

	grpcListener, httpListener net.Listener
	failed                     chan error
	stopWatch                  context.CancelFunc
	watched                    chan struct{}
	ready                      readiness
}

// gcPercent lets the heap grow to five times what is in use, unless GOGC says otherwise: what is in use is some ten MB, and
// collecting it again and again took a sixth of the server's time.
const gcPercent = 400

// Start checks the database, starts a server and returns while it runs. The context bounds the start only. An error says
// what to do.
func Start(ctx context.Context, config Config) (_ *Server, err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	s := &Server{config: config, failed: make(chan error, 2), watched: make(chan struct{})}
	if err := s.listen(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.grpcListener.Close(), s.httpListener.Close())
		}
	}()
	s.pool, err = pg.Connect(ctx, pg.Config{DSN: config.DSN, MaxConns: config.MaxConns})
	if err != nil {
		return nil, err
	}
	if err := s.preflight(ctx); err != nil {
		s.pool.Close()
		return nil, err
	}
	s.probe, err = pg.Connect(ctx, pg.Config{DSN: config.DSN, MaxConns: 1})
	if err != nil {
		s.pool.Close()
		return nil, err
	}
	registry := prometheus.NewRegistry()
	s.journal = journal.New(s.pool, journal.Config{Logger: config.Logger, Metrics: journal.NewMetrics(registry)})
	s.grpc = grpcapi.New(s.journal, config.Logger)
	s.health = newHealthService()
	healthpb.RegisterHealthServer(s.grpc, s.health)
	reflection.Register(s.grpc)
	s.http = &http.Server{Handler: s.routes(registry), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	go func() { s.failed <- s.grpc.Serve(s.grpcListener) }()
	go func() { s.failed <- s.http.Serve(s.httpListener) }()
	watch, stopWatch := context.WithCancel(context.Background())
	s.stopWatch = stopWatch
	s.ready.set(true)
	go s.watchDatabase(watch)
	config.Logger.Info("serving", "grpc", s.GRPCAddr(), "http", s.HTTPAddr())
	return s, nil
}

// GRPCAddr is the address of the gRPC API.
func (s *Server) GRPCAddr() string { return s.grpcListener.Addr().String() }

// HTTPAddr is the address of health, readiness and metrics.
func (s *Server) HTTPAddr() string { return s.httpListener.Addr().String() }

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
	_ = s.http.Close()
	s.journal.Close()
	s.pool.Close()
	s.probe.Close()
	s.config.Logger.Info("stopped")
}

func (s *Server) listen(ctx context.Context) (err error) {
	if s.grpcListener, err = listenLoopback(ctx, "gRPC", s.config.GRPC); err != nil {
		return err
	}
	if s.httpListener, err = listenLoopback(ctx, "HTTP", s.config.HTTP); err != nil {
		return errors.Join(err, s.grpcListener.Close())
	}
	return nil
}

// listenLoopback refuses any other address: whoever reaches the port may move money, since callers have no identity yet.
func listenLoopback(ctx context.Context, what, address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%s address %q: want HOST:PORT, such as 127.0.0.1:7070", what, address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s address %q is not on loopback: callers have no identity yet, so Khata listens on "+
			"127.0.0.1 or ::1 only", what, address)
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen for %s: %w", what, err)
	}
	if at, ok := listener.Addr().(*net.TCPAddr); ok && !at.IP.IsLoopback() { // whatever "localhost" means here
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
