package devpg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"
	"syscall"
	"time"
)

// Server is a running PostgreSQL that belongs to this process. Its methods may
// be called concurrently.
type Server struct {
	Address

	layout   layout
	child    *child
	logStart int64
	stopping atomic.Bool
	// How long Stop waits for a clean shutdown, and for each forced one.
	cleanWait, forceWait time.Duration
}

// Start runs a server on cfg.Dir, after creating the cluster if there is none,
// and returns when it accepts connections. The server lives until Stop or the end
// of this process, not until ctx ends; ctx only bounds the start, which may be
// long: recovery after a crash has no limit of its own.
//
// It returns ErrInUse while another supervisor is alive, ErrNotInstalled,
// ErrVersion, ErrUnreachable, or an error that ends with what PostgreSQL printed.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := start(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	return s, nil
}

func start(ctx context.Context, cfg Config) (_ *Server, err error) {
	l, acct, err := openLayout(cfg.Dir)
	if err != nil {
		return nil, err
	}
	lk, err := l.takeLocks(ctx, cfg.logger())
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			lk.release()
		}
	}()
	bin, err := l.prepare(ctx, cfg, acct, lk)
	if err != nil {
		return nil, err
	}
	return launch(ctx, cfg, l, bin, acct, lk)
}

// prepare leaves a cluster in data/ that no process is using.
func (l layout) prepare(ctx context.Context, cfg Config, acct *account, lk *locks) (binaries, error) {
	major, err := clusterVersion(l.data())
	if err != nil {
		return binaries{}, err
	}
	bin, err := findBinaries(ctx, cfg.Bin, major, acct)
	if err != nil {
		return bin, err
	}
	if major != 0 {
		return bin, l.removeStalePID(cfg.logger())
	}
	log, err := l.openLog()
	if err != nil {
		return bin, err
	}
	defer log.Close()
	cfg.logger().Info("creating a PostgreSQL cluster", "dir", l.dir, "version", bin.major)
	return bin, l.initialise(ctx, bin, acct, lk, log, !cfg.Unsafe)
}

// launch owns lk once postgres has been started.
func launch(ctx context.Context, cfg Config, l layout, bin binaries, acct *account, lk *locks) (*Server, error) {
	log, err := l.openLog()
	if err != nil {
		return nil, err
	}
	defer log.Close()
	sock, removeSock, err := l.makeSocketDir(acct)
	if err != nil {
		return nil, err
	}
	s := &Server{layout: l, logStart: l.logSize(), cleanWait: 30 * time.Second, forceWait: 5 * time.Second}
	s.child, err = startChild(bin.path("postgres"), arguments(cfg, l.data(), sock), l.dir, acct, log, lk.cluster,
		// SIGINT is the fast and clean shutdown; SIGTERM waits for clients.
		syscall.SIGINT, func() {
			removeSock()
			lk.release()
		})
	if err != nil {
		removeSock()
		return nil, err
	}
	s.Address = Address{socketDir: sock, pid: s.child.pid}
	if err := s.waitReady(ctx, cfg.logger()); err != nil {
		return nil, err
	}
	return s, nil
}

func arguments(cfg Config, data, sock string) []string {
	args := []string{"-D", data, "-k", sock}
	set := func(name, value string) { args = append(args, "-c", name+"="+value) }
	set("listen_addresses", "")
	set("port", "5432")
	set("unix_socket_permissions", "0700")
	set("jit", "off") // costs more than it gives on short statements
	if cfg.Unsafe {
		// synchronous_commit stays on: without fsync it costs next to nothing,
		// and without it a kill -9 of postgres loses acknowledged commits.
		set("fsync", "off")
		set("full_page_writes", "off")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Settings)) {
		set(name, cfg.Settings[name])
	}
	return args
}

// waitReady reads postmaster.pid, as pg_ctl does, since attempts to connect
// would fill the log with refusals.
func (s *Server) waitReady(ctx context.Context, log *slog.Logger) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	slow := time.NewTicker(5 * time.Second)
	defer slow.Stop()
	for {
		p, err := readPIDFile(s.layout.data())
		if err == nil && p.pid == s.child.pid && p.ready {
			return nil
		}
		select {
		case <-s.child.done:
			return s.Err()
		case <-ctx.Done():
			err := context.Cause(ctx)
			return errors.Join(fmt.Errorf("wait until it is ready: %w", err), s.Stop(ctx))
		case <-slow.C:
			log.Info("PostgreSQL is still starting; it may be recovering from a crash", "log", s.LogPath())
		case <-tick.C:
		}
	}
}

// Done is closed when postgres has exited and the directory is free again.
func (s *Server) Done() <-chan struct{} { return s.child.done }

// Err is nil while postgres runs and after an exit that Stop asked for. After
// any other exit it says how postgres ended, with the end of its log.
func (s *Server) Err() error {
	select {
	case <-s.child.done:
	default:
		return nil
	}
	if s.stopping.Load() {
		return nil
	}
	how := "exit status 0"
	if s.child.err != nil {
		how = s.child.err.Error()
	}
	return fmt.Errorf("postgres ended by itself (%s)\n%s", how, s.layout.logTail(s.logStart))
}

// LogPath is the file that postgres writes its log to.
func (s *Server) LogPath() string { return s.layout.log() }
