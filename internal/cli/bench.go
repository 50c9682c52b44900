package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/internal/bench"
	"github.com/khata-ledger/khata/internal/devpg"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/wallet"
)

// benchFlags are the flags of bench that are not in its Config as they are.
type benchFlags struct {
	config                bench.Config
	ids                   string
	disk                  string
	keep                  bool
	sharedBuffers, maxWAL string
	settings              map[string]string
	maxConns              int32
	keepFree              int64
	reach                 kafkaFlags
}

func (a *app) benchCommand() *cobra.Command {
	var f benchFlags
	cmd := &cobra.Command{
		Use:   "bench [MODE...]",
		Short: "Measure how fast transfers become durable, against what bare PostgreSQL reaches",
		Long: `Measure how fast transfers become durable. Without --addr it starts a fresh PostgreSQL in a temporary directory, with
commits on disk as in earnest, and a "khata serve" as a process of its own, posts to it over gRPC, and removes it all
afterwards. At the end it verifies the books. Modes, of which several can be measured after each other (default: post batch):

  post      one transfer a call, --clients at once
  batch     --batch transfers a call, --in-flight at once
  hot       batches with one account, which has no floor, in every transfer
  floor     batches among accounts that all have a floor
  onefloor  batches with one payer that has a floor in every transfer
  zipf      batches in which few accounts take part in most transfers
  dup       batches that were posted before, sent again
  balance   reads of a balance whose history grows from 1,000 entries to --history
  pay       payments through the HTTP API, under new keys and then under the same ones again, --clients at once
  relay     batches, and then how fast a relay publishes them to the Kafka at --kafka, in topics of its own that are removed
  wallet    --rate transfers a second, each timed from its call until it is in a wallet view that follows the events on that Kafka
  reports   trial balance, balance sheet, general ledger and the export of entries, of --history entries; and the server's memory
  mixed     of a hundred calls 70 posts, 20 balances, 9 duplicates, one batch
  growth    batches until there are --growth-to transfers, measured at --growth-from and every tenfold
  suite     all that has a target, in --rounds rounds, and the table of targets; a quarter of an hour

--floors measures first what plain pgx reaches in the same PostgreSQL, into the fewest rows and indexes that hold the same
facts: F1 is a SQL transaction for each transfer, on 1, 16 and 64 connections, F2 one for each thousand, on 1 and 2.

A transfer counts once it is acknowledged within the timed window. The exit code is 1 if any call failed, or verify finds
anything, or it was interrupted; what was measured is printed all the same. A target that was missed is no failure.

With --addr it measures a running server, and what it posts stays there for ever, in a ledger and accounts of its own.`,
		ValidArgs: bench.Modes(),
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.config.Modes = args
			if len(args) == 0 {
				f.config.Modes = []string{bench.ModePost, bench.ModeBatch}
			}
			return a.runBench(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	c := &f.config
	flags.DurationVar(&c.Duration, "duration", 10*time.Second, "the timed window of each measurement")
	flags.DurationVar(&c.Warmup, "warmup", 2*time.Second, "how long each goes on before that")
	flags.IntVar(&c.Accounts, "accounts", 10_000, "accounts of each mode")
	flags.IntVar(&c.Clients, "clients", 256, "single transfers sent at once")
	flags.IntVar(&c.Connections, "connections", 4, "gRPC connections that all clients share")
	flags.IntVar(&c.Batch, "batch", 1000, "transfers in a call of many")
	flags.IntVar(&c.InFlight, "in-flight", 2, "calls of many under way at once")
	flags.IntVar(&c.Rate, "rate", 1000, "wallet: transfers a second")
	flags.BoolVar(&c.Unary, "unary", false, "hot, floor, onefloor, zipf and dup: one transfer a call, --clients at once")
	flags.BoolVar(&c.PlainPayees, "plain-payees", false, "floor: pay accounts without a floor, instead of each other")
	flags.StringVar(&f.ids, "ids", string(bench.V7), "what transfers are named by: UUIDs of version 7, by time (v7), or 4, random (v4)")
	flags.BoolVar(&c.Floors, "floors", false, "first measure what plain pgx reaches")
	flags.IntVar(&c.History, "history", 1_000_000, "balance: the most entries")
	flags.IntVar(&c.Readers, "readers", 1, "balance: reads under way at once")
	flags.Int64Var(&c.GrowthFrom, "growth-from", 1_000_000, "growth: the first size that is measured, in transfers")
	flags.Int64Var(&c.GrowthTo, "growth-to", 0, "growth: the last one; the suite ends at --growth-from if it is 0")
	flags.Int64Var(&f.keepFree, "keep-free", 10, "growth: stop before less than so many GiB of the disk are free")
	flags.IntVar(&c.Rounds, "rounds", 3, "suite: how often each case is measured; the median counts")
	flags.BoolVar(&c.Verify, "verify", true, "recompute every invariant of the books at the end")
	flags.BoolVar(&a.json, "json", false, "print one JSON object at the end")
	flags.StringVar(&f.disk, "disk", "", "directory on the disk to measure; the database is made in it, and removed (default: the temporary directory)")
	flags.BoolVar(&f.keep, "keep", false, "keep the database, and say where it is")
	flags.StringVar(&f.sharedBuffers, "shared-buffers", "1GB", "PostgreSQL's shared_buffers")
	flags.StringVar(&f.maxWAL, "max-wal-size", "8GB", "PostgreSQL's max_wal_size")
	flags.StringToStringVar(&f.settings, "pg-set", nil, "further settings of PostgreSQL, such as wal_compression=on")
	flags.Int32Var(&f.maxConns, "max-connections", 16, "most connections of the server to the database")
	flags.StringVar(&c.Target.Addr, "addr", "", "measure the server at this address instead; what is posted stays there")
	flags.StringVar(&c.Target.PayURL, "pay-url", "", "with --addr: its payment API, with the sandbox and on the same ledger, for pay")
	flags.StringVar(&c.Target.DSN, "database-url", "", "with --addr: its database, as a role that may make a schema, for --floors, sizes and verify")
	flags.StringVar(&c.Target.Ledger, "ledger", "bench", "the ledger; it is made if it does not exist")
	f.reach.flags(cmd)
	onlyOnCommandLine(cmd, "addr")
	onlyOnCommandLine(cmd, "database-url")
	return cmd
}

func (a *app) runBench(ctx context.Context, f benchFlags) (err error) {
	c := f.config
	c.IDs, c.KeepFree = bench.IDVersion(f.ids), f.keepFree<<30
	c.Progress = func(what string) { fmt.Fprintln(a.Err, "khata:", what) }
	if !a.json {
		c.Out = a.Out
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	switch {
	case c.Target.Addr == "" && c.Target.DSN != "":
		return usagef("--database-url goes with --addr")
	case (slices.Contains(c.Modes, bench.ModeRelay) || slices.Contains(c.Modes, bench.ModeWallet)) && (len(f.reach.brokers) == 0 || c.Target.Addr != ""):
		return usagef("relay and wallet need --kafka, and a database of their own, so no --addr")
	case c.Target.Addr != "" && c.Target.DSN == "" && c.NeedsDatabase():
		return usagef("the floors, suite, relay, wallet and growth need the database: give --database-url")
	case c.Target.Addr == "":
		stop, err := a.startBenchTarget(ctx, f, &c)
		if err != nil {
			return err
		}
		defer func() {
			if failed := stop(); failed != nil {
				fmt.Fprintln(a.Err, "khata:", failed)
				err = cmp.Or[error](err, &exitError{ExitFailure})
			}
		}()
	}
	report, err := bench.Run(ctx, c)
	if err != nil && len(report.Results) == 0 {
		return err
	}
	printed := a.printBench(report)
	return cmp.Or(err, printed)
}

// startBenchTarget starts a PostgreSQL of its own, and a server as another process of this program. Further settings of the
// server can be given by their variables.
func (a *app) startBenchTarget(ctx context.Context, f benchFlags, c *bench.Config) (stop func() error, err error) {
	dir, err := os.MkdirTemp(f.disk, "khata-bench-")
	if err != nil {
		return nil, err
	}
	var stops []func() error // in the order in which they were started
	stop = func() (err error) {
		for _, end := range slices.Backward(stops) {
			err = errors.Join(err, end())
		}
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, stop())
		}
	}()
	if f.keep {
		c.Progress("the database is kept in " + dir)
	} else {
		stops = append(stops, func() error { return os.RemoveAll(dir) })
	}
	settings := map[string]string{
		"shared_buffers": f.sharedBuffers, "max_wal_size": f.maxWAL, "max_connections": strconv.Itoa(int(f.maxConns) + 100), // + the floors'
	}
	maps.Copy(settings, f.settings)
	c.Progress("starting PostgreSQL in " + dir)
	database, err := server.StartEmbedded(ctx, devpg.Config{Dir: dir, Settings: settings, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	stops = append(stops, func() error { return database.Stop(context.WithoutCancel(ctx)) })
	program, err := os.Executable()
	if err != nil {
		return nil, err
	}
	// What is set for another server, such as authentication, is not for this one.
	environment := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "KHATA_") })
	serve, err := bench.StartServer(ctx, program,
		[]string{"serve", "--grpc", "127.0.0.1:0", "--http", "127.0.0.1:0", "--pay", "127.0.0.1:0", "--pay-sandbox", "--pay-ledger", c.Target.Ledger,
			"--max-connections", strconv.Itoa(int(f.maxConns))},
		append(environment, "KHATA_DSN="+database.ServiceDSN())) // not an argument, which everybody on the machine could read
	if err != nil {
		return nil, err
	}
	stops = append(stops, serve.Stop)
	if len(f.reach.brokers) > 0 {
		config, err := f.reach.config(a.getenv)
		if err != nil {
			return nil, err
		}
		topics := kafka.Topics{Prefix: "khata-" + filepath.Base(dir)}
		c.Target.Relay = func(ctx context.Context) (*bench.Server, error) {
			client, err := kafka.Connect(ctx, config)
			if err != nil {
				return nil, err
			}
			defer client.Close()
			if _, err := kafka.EnsureTopics(ctx, client, kafka.TopicSpec{Topics: topics}); err != nil {
				return nil, err
			}
			args := []string{"relay", "--topic-prefix", topics.Prefix}
			return bench.StartRelay(ctx, program, append(args, f.reach.args()...), append(a.kafkaEnvironment(environment), "KHATA_DSN="+database.ServiceDSN()))
		}
		c.Target.Wallet = func(ctx context.Context) (*bench.Server, error) {
			if _, err := server.MigrateConsumer(ctx, database.OwnerDSN(), wallet.Schema, server.ServiceRole, wallet.Grants); err != nil {
				return nil, err
			}
			args := []string{"consume", "wallet", "--topic-prefix", topics.Prefix, "--group", topics.Prefix + "-wallet"}
			return bench.StartWallet(ctx, program, append(args, f.reach.args()...),
				append(a.kafkaEnvironment(environment), "KHATA_DSN="+database.ServiceDSN(), "KHATA_LEDGER_DSN="+database.ServiceDSN()))
		}
		stops = append(stops, func() error { return kafka.RemoveTopics(context.WithoutCancel(ctx), config, topics) })
	}
	c.Target.PayURL = "http://" + serve.PayAddr
	c.Target.Addr, c.Target.DSN, c.Target.Dir = serve.Addr, database.SuperDSN(), dir
	c.Target.ServerPID, c.Target.PostmasterPID, c.Target.Ended = serve.PID(), database.PID(), serve.Done()
	return stop, nil
}

func (a *app) printBench(report bench.Report) error {
	var err error
	if a.json {
		err = json.NewEncoder(a.Out).Encode(report)
	} else {
		err = report.WriteSummary(a.Out)
	}
	if err == nil && !report.OK() {
		err = &exitError{ExitFailure}
	}
	return err
}
