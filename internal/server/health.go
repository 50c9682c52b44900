package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// healthService is gRPC's health service, whose watchers are sent away when the server stops: an open stream would hold
// it up.
type healthService struct {
	*health.Server
	life context.Context
	end  context.CancelFunc
}

func newHealthService() *healthService {
	life, end := context.WithCancel(context.Background())
	return &healthService{Server: health.NewServer(), life: life, end: end}
}

func (h *healthService) stop() {
	h.Shutdown()
	h.end()
}

// Watch implements grpc.health.v1.Health.
func (h *healthService) Watch(in *healthpb.HealthCheckRequest, stream healthpb.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	return h.Server.Watch(in, watcher{stream, ctx})
}

type watcher struct {
	healthpb.Health_WatchServer
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (w watcher) Context() context.Context { return w.ctx }

// readiness is whether the server should be sent requests.
type readiness struct{ up atomic.Bool }

func (r *readiness) set(up bool) { r.up.Store(up) }

const (
	// watchEvery and watchPatience say how soon a database that does not answer makes the server unready.
	watchEvery, watchPatience = time.Second, 2 * time.Second
)

// watchDatabase keeps readiness, and the gRPC health service, true to whether the database answers, and still keeps what it
// acknowledges: its settings can change while it runs.
func (s *Server) watchDatabase(ctx context.Context) {
	defer close(s.watched)
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := s.look(ctx)
		if ctx.Err() != nil {
			return
		}
		if up := err == nil; up != s.ready.up.Load() {
			s.config.Logger.Warn("database", "usable", up, "error", err)
			s.ready.set(up)
			status := healthpb.HealthCheckResponse_SERVING
			if !up {
				status = healthpb.HealthCheckResponse_NOT_SERVING
			}
			s.health.SetServingStatus("", status)
		}
	}
}

func (s *Server) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	lax, err := pg.NotDurable(ctx, s.probe)
	if err == nil && len(lax) > 0 && !s.config.Unsafe {
		return &pg.Unsafe{Reasons: lax}
	}
	return err
}

// routes serves /healthz (the process lives), /readyz (its database answers) and /metrics.
func (s *Server) routes(registry *prometheus.Registry) http.Handler {
	registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "khata_database_connections", Help: "Connections in the pool."},
			func() float64 { return float64(s.pool.Stat().TotalConns()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "khata_database_connections_in_use", Help: "Connections in use."},
			func() float64 { return float64(s.pool.Stat().AcquiredConns()) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "khata_ready", Help: "1 if the server takes requests."},
			func() float64 {
				if s.ready.up.Load() {
					return 1
				}
				return 0
			}),
	)
	mux := http.NewServeMux()
	s.route(mux, "GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	s.route(mux, "GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if !s.ready.up.Load() {
			http.Error(w, "the database does not answer or is not safe, or the server is stopping", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintln(w, "ready")
	})
	// Where the time goes, for "go tool pprof http://…/debug/pprof/profile". This address is the operators' own.
	s.route(mux, "GET /debug/pprof/", pprof.Index)
	s.route(mux, "GET /debug/pprof/profile", pprof.Profile)
	s.route(mux, "GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP)
	return mux
}

// route adds a handler behind the policy's rule for its pattern, which there must be.
func (s *Server) route(mux *http.ServeMux, pattern string, handler http.HandlerFunc) {
	if _, ok := auth.RuleOf(pattern); !ok {
		panic("package auth has no rule for " + pattern)
	}
	door := s.door()
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		if _, err := door.Admit(r, pattern, ""); err != nil {
			refuse(w, err)
			return
		}
		handler(w, r)
	})
}

// refuse tells a caller of HTTP why it was not let in.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	var typed *ledger.Error
	switch code := ledger.CodeOf(err); code {
	case ledger.CodeUnauthenticated:
		w.Header().Set("WWW-Authenticate", "Bearer")
		status = http.StatusUnauthorized
	case ledger.CodePermissionDenied:
		status = http.StatusForbidden
	case ledger.CodeRateLimited:
		status = http.StatusTooManyRequests
	}
	message := "internal error"
	if errors.As(err, &typed) {
		message = typed.Error()
		if typed.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(typed.RetryAfter.Seconds()))))
		}
	}
	http.Error(w, message, status)
}
