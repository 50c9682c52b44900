package pg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	pgxdecimal "github.com/jackc/pgx-shopspring-decimal"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Config is how to reach a database.
type Config struct {
	// DSN is a connection string of libpq's, as URL or as key=value. Required. Settings named in it win over Khata's.
	DSN string
	// MaxConns is the size of the pool; 0 is 16.
	MaxConns int32
	// Dial replaces the dialer, for tests that break connections; nil is pgx's.
	Dial pgconn.DialFunc
}

// settings bound every wait of ours and every wait for us. Without them one frozen client stops a ledger: others would
// wait for its locks, or for the row of a transfer that it has inserted and not committed, for ever.
var settings = map[string]string{
	"application_name": "khata",
	"TimeZone":         "UTC",
	// Waiting for a lock is given up; the answer is then UNAVAILABLE and the outcome open.
	"lock_timeout": "5s",
	// A client that has gone silent inside a transaction is thrown out, and its locks fall.
	"idle_in_transaction_session_timeout": "10s",
	// A backend that works or waits notices that its client is gone.
	"client_connection_check_interval": "1s",
	// The same where the network has gone silent.
	"tcp_keepalives_idle":     "5",
	"tcp_keepalives_interval": "2",
	"tcp_keepalives_count":    "3",
	// Compiling a plan costs more than any of our queries, and so does planning it again for every list of keys: they all
	// look rows up key by key.
	"jit":             "off",
	"plan_cache_mode": "force_generic_plan",
}

// Connect opens a pool. It does not connect yet; the first query does.
func Connect(ctx context.Context, config Config) (*pgxpool.Pool, error) {
	pc, err := pgxpool.ParseConfig(config.DSN)
	if err != nil {
		return nil, fmt.Errorf("read the DSN: %w", err)
	}
	pc.MaxConns = 16
	if config.MaxConns > 0 {
		pc.MaxConns = config.MaxConns
	}
	for name, value := range settings {
		if _, given := pc.ConnConfig.RuntimeParams[name]; !given {
			pc.ConnConfig.RuntimeParams[name] = value
		}
	}
	// The database does not take transfers that touch what this binary would not know of.
	version, err := SchemaVersion()
	if err != nil {
		return nil, err
	}
	pc.ConnConfig.RuntimeParams["khata.schema"] = fmt.Sprintf("%04d", version)
	// A WARNING at a commit says that it was not waited for, and must not go unheard, whatever the DSN says.
	pc.ConnConfig.RuntimeParams["client_min_messages"] = "warning"
	if config.Dial != nil {
		pc.ConnConfig.DialFunc = config.Dial
	}
	pc.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler { return closeSocket{conn} }
	pc.ConnConfig.OnNotice = noteWarning
	pc.BeforeConnect = withoutCancelRequests
	pc.AfterConnect = func(_ context.Context, conn *pgx.Conn) error {
		pgxdecimal.Register(conn.TypeMap())
		return nil
	}
	return pgxpool.NewWithConfig(ctx, pc)
}

// closeSocket gives up a query whose context has ended by closing the socket, at once.
type closeSocket struct{ conn *pgconn.PgConn }

func (c closeSocket) HandleCancel(context.Context) { _ = c.conn.Conn().Close() }

func (closeSocket) HandleUnwatchAfterCancel() {}

var errNoCancelRequests = errors.New("cancel requests are never sent")

// withoutCancelRequests keeps pgx from sending a cancel request when it gives up a connection. With a synchronous standby
// a cancel request releases a commit that is waiting to be replicated, and shows it to others: a transfer would then be
// acknowledged that a failover loses. pgx sends it over a second connection from the same dialer, so the dialer refuses
// once the first one stands.
func withoutCancelRequests(_ context.Context, config *pgx.ConnConfig) error {
	var connected atomic.Bool
	dial := config.DialFunc
	config.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		if connected.Load() {
			return nil, errNoCancelRequests
		}
		return dial(ctx, network, address)
	}
	after := config.Config.AfterConnect
	config.Config.AfterConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if after != nil {
			if err := after(ctx, conn); err != nil {
				return err
			}
		}
		connected.Store(true)
		return nil
	}
	return nil
}
