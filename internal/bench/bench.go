package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/khata-ledger/khata/internal/verify"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// bench is a run.
type bench struct {
	config Config
	wire   *wire
	db     *database // nil: none that may be looked at
	floors *floors   // nil until they are made
	// prefix begins the accounts of this run.
	prefix string
	sets   map[string][]string
	series series
	report *Report
	titled bool
}

// Run measures. What it returns is all that was measured, also with an error, which is that of a server or a database that
// could not be used, or of a Config that makes no sense. If ctx ends, the run ends early, and that is no error: see
// Report.Stopped.
func Run(ctx context.Context, config Config) (report Report, err error) {
	report = Report{Config: config, Began: time.Now().UTC(), Cores: runtime.NumCPU(), Failures: map[string]int64{}, Results: []Result{}}
	if err := config.Validate(); err != nil {
		return report, err
	}
	if config.NeedsDatabase() && config.Target.DSN == "" {
		return report, errors.New("the floors, suite, relay and growth need the database")
	}
	defer func() { report.Seconds = time.Since(report.Began).Seconds() }()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-config.Target.Ended: // nil never comes
			cancel(errors.New("the server has ended"))
		case <-ctx.Done():
		}
	}()
	b := &bench{
		config: config, prefix: fmt.Sprintf("bench-%012x:", newRandom().Uint64()>>16), sets: map[string][]string{}, series: series{}, report: &report,
	}
	if b.wire, err = dial(config.Target.Addr, config.Target.Ledger, config.Connections); err != nil {
		return report, err
	}
	defer b.wire.close()
	if b.db, err = openDatabase(ctx, config.Target.DSN); err != nil {
		return report, err
	}
	defer b.db.close()
	if b.db != nil {
		if report.Postgres, err = b.db.settings(ctx); err != nil {
			return report, err
		}
	}
	err = b.all(ctx)
	if b.floors != nil {
		err = errors.Join(err, b.floors.drop(ctx))
	}
	if err == nil && ctx.Err() == nil {
		err = b.finish(ctx)
	}
	if ctx.Err() != nil {
		report.Stopped = context.Cause(ctx).Error()
		err = nil // Whatever failed, it is because of that.
	}
	return report, err
}

// all measures all that was asked for.
func (b *bench) all(ctx context.Context) error {
	if err := b.wire.makeLedger(ctx); err != nil {
		return err
	}
	if b.config.Floors {
		if err := b.allFloors(ctx); err != nil {
			return err
		}
	}
	for _, mode := range b.config.Modes {
		if err := b.mode(ctx, mode); err != nil {
			return fmt.Errorf("%s: %w", mode, err)
		}
	}
	return nil
}

func (b *bench) mode(ctx context.Context, mode string) error {
	switch mode {
	case ModeSuite:
		return b.suite(ctx)
	case ModeDup:
		return b.duplicates(ctx, b.config.Unary)
	case ModeBalance:
		return b.balance(ctx)
	case ModeMixed:
		return b.mixed(ctx)
	case ModePay:
		return b.payments(ctx)
	case ModeRelay:
		return b.relay(ctx)
	case ModeWallet:
		return b.wallet(ctx)
	case ModeReports:
		return b.reports(ctx)
	case ModeGrowth:
		return b.growth(ctx, sizes(b.config.GrowthFrom, b.config.GrowthTo))
	case ModePost:
		return b.posting(ctx, mode, true, b.config.Clients)
	case ModeBatch:
		return b.posting(ctx, mode, false, b.config.InFlight)
	}
	if b.config.Unary {
		return b.posting(ctx, mode, true, b.config.Clients)
	}
	return b.posting(ctx, mode, false, b.config.InFlight)
}

// finish looks at what all of it has left behind.
func (b *bench) finish(ctx context.Context) (err error) {
	if b.db == nil {
		b.note("sizes, floors and verify need the database: give --database-url")
		return nil
	}
	if b.report.Transfers, err = b.db.transfers(ctx); err != nil {
		return err
	}
	if b.report.Tables, err = b.db.sizes(ctx); err != nil {
		return err
	}
	if !b.config.Verify {
		b.note("verify was left out")
		return nil
	}
	b.progress("verify: recomputing every invariant of %s transfers", grouped(b.report.Transfers))
	report, err := verify.Run(ctx, b.config.Target.DSN, verify.Options{})
	if err != nil {
		return fmt.Errorf("verify: %w", err)
	}
	b.report.Verify = &report
	return nil
}

func (b *bench) note(format string, args ...any) {
	b.report.Notes = append(b.report.Notes, fmt.Sprintf(format, args...))
}

func (b *bench) progress(format string, args ...any) {
	if b.config.Progress != nil {
		b.config.Progress(fmt.Sprintf(format, args...))
	}
}

// load is the load of one measurement.
func (b *bench) load() load {
	return load{
		warmup: b.config.Warmup, duration: b.config.Duration,
		processes: processes{server: b.config.Target.ServerPID, postmaster: b.config.Target.PostmasterPID},
	}
}

// emit enters a measurement and prints it. One that was cut off before anything was answered is none.
func (b *bench) emit(ctx context.Context, r Result) error {
	addAll(b.report.Failures, r.Failures)
	if err := ctx.Err(); err != nil && r.Calls == 0 {
		return err
	}
	r.Ratio = b.series.ratio(r)
	b.series[r.Case] = append(b.series[r.Case], r)
	b.report.Results = append(b.report.Results, r)
	if b.config.Out != nil {
		text := r.line("")
		if !b.titled {
			text, b.titled = header+text, true
		}
		if _, err := fmt.Fprint(b.config.Out, text); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// accounts gives the accounts of a mode by their number, making them the first time. Those with a floor are in funds.
func (b *bench) accounts(ctx context.Context, set string, n int, floored bool) ([]string, error) {
	if list, made := b.sets[set]; made {
		return list, nil
	}
	b.progress("making accounts for %s: %s", set, grouped(n))
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%s%s:%d", b.prefix, set, i)
	}
	if err := b.wire.makeAccounts(ctx, list, khatav1.AccountType_ACCOUNT_TYPE_LIABILITY, floored); err != nil {
		return nil, err
	}
	if floored {
		if err := b.fund(ctx, set, list); err != nil {
			return nil, err
		}
	}
	b.sets[set] = list
	return list, nil
}

// fund pays into each account more than any run can spend, so that nothing is ever refused.
func (b *bench) fund(ctx context.Context, set string, accounts []string) error {
	const amount = "1000000000000.00"
	cash := fmt.Sprintf("%s%s:cash", b.prefix, set)
	if err := b.wire.makeAccounts(ctx, []string{cash}, khatav1.AccountType_ACCOUNT_TYPE_ASSET, false); err != nil {
		return err
	}
	next := 0
	inTurn := func(*rand.Rand) (string, string) {
		next++
		return cash, accounts[next-1]
	}
	m, err := newMaker(b.config.IDs, func(*rand.Rand) pick { return inTurn })
	if err != nil {
		return err
	}
	return failed(each(ctx, 1, func(int) (step, bool) {
		n := min(b.config.Batch, len(accounts)-next)
		if n == 0 {
			return nil, false
		}
		req := &khatav1.PostTransfersRequest{Ledger: b.wire.ledger, Transfers: blank(n)}
		m.fill(req.GetTransfers()...)
		for _, t := range req.GetTransfers() {
			t.Amount = amount
		}
		return func(ctx context.Context) outcome { return postBatch(ctx, b.wire.of(0), req, false) }, true
	}))
}

// failed is the error of a preparation in which something failed.
func failed(failures map[string]int64) error {
	if len(failures) == 0 {
		return nil
	}
	return errors.New("preparing failed: " + failureText(failures))
}
