package bench

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// The modes.
const (
	// ModePost sends transfers one a call, from many clients.
	ModePost = "post"
	// ModeBatch sends many transfers a call, with a few calls in flight.
	ModeBatch = "batch"
	// ModeHot has one account, without a floor, in every transfer.
	ModeHot = "hot"
	// ModeFloor has only accounts with a floor, which are all in funds.
	ModeFloor = "floor"
	// ModeOneFloor has one payer with a floor in every transfer.
	ModeOneFloor = "onefloor"
	// ModeZipf has few accounts in most transfers.
	ModeZipf = "zipf"
	// ModeDup sends transfers again that were posted before.
	ModeDup = "dup"
	// ModeBalance reads the balance of an account whose history grows.
	ModeBalance = "balance"
	// ModeMixed does some of everything.
	ModeMixed = "mixed"
	// ModePay pays through the HTTP payment API, under new keys and then under the same ones again.
	ModePay = "pay"
	// ModeRelay posts batches, and then times how fast a relay publishes them to Kafka.
	ModeRelay = "relay"
	// ModeWallet posts at a steady rate, and times each transfer until it is in a wallet view.
	ModeWallet = "wallet"
	// ModeGrowth posts until the tables are large, and measures on the way.
	ModeGrowth = "growth"
	// ModeReports makes reports of a ledger that has many entries.
	ModeReports = "reports"
	// ModeSuite measures all that has a target, in one run.
	ModeSuite = "suite"
)

// Modes lists the modes in the order in which they are explained.
func Modes() []string {
	return []string{
		ModePost, ModeBatch, ModeHot, ModeFloor, ModeOneFloor, ModeZipf, ModeDup, ModeBalance, ModeMixed, ModePay, ModeRelay, ModeWallet, ModeReports,
		ModeGrowth, ModeSuite,
	}
}

// Config is what to measure. Its JSON is part of the report.
type Config struct {
	// Target is the server under test.
	Target Target `json:"target"`
	// Modes are measured in this order.
	Modes []string `json:"modes"`
	// Floors are measured first. The suite does it anyway.
	Floors bool `json:"floors"`
	// Duration is the timed window of each measurement, and Warmup what goes before it, untimed.
	Duration time.Duration `json:"duration_ns"`
	Warmup   time.Duration `json:"warmup_ns"`
	// Accounts is how many accounts a mode has.
	Accounts int `json:"accounts"`
	// Clients is how many send single transfers at once, and Connections how many gRPC connections all clients share.
	Clients     int `json:"clients"`
	Connections int `json:"connections"`
	// Batch is how many transfers a call has where it has many, and InFlight how many such calls are under way at once.
	Batch    int `json:"batch"`
	InFlight int `json:"in_flight"`
	// Rate is how many transfers a second ModeWallet posts.
	Rate int `json:"rate"`
	// Unary sends single transfers in the modes that otherwise send batches.
	Unary bool `json:"unary"`
	// PlainPayees lets the payers with a floor of ModeFloor pay accounts without one, instead of each other.
	PlainPayees bool `json:"plain_payees"`
	// IDs is what transfers are named by.
	IDs IDVersion `json:"ids"`
	// History is the most entries of ModeBalance, and those of ModeReports; Readers how many read at once.
	History int `json:"history"`
	Readers int `json:"readers"`
	// GrowthFrom and GrowthTo are the first and the last size, in transfers, at which ModeGrowth measures; between them at
	// every tenfold. The suite leaves it out if GrowthTo is 0. It stops before less than KeepFree bytes are free in the target's directory.
	GrowthFrom int64 `json:"growth_from"`
	GrowthTo   int64 `json:"growth_to"`
	KeepFree   int64 `json:"keep_free_bytes"`
	// Rounds is how often the suite measures each case; what counts is the median.
	Rounds int `json:"rounds"`
	// Verify recomputes the invariants of the books at the end.
	Verify bool `json:"verify"`

	// Out gets what is measured as a table, line by line; nil prints nothing.
	Out io.Writer `json:"-"`
	// Progress hears what is being done; nil is silence.
	Progress func(what string) `json:"-"`
}

// Target is a server to measure.
type Target struct {
	// Addr is its gRPC address, and Ledger the ledger to post to, which is made if it does not exist.
	Addr   string `json:"addr"`
	Ledger string `json:"ledger"`
	// PayURL is where it serves the payment API with its sandbox; empty is nowhere.
	PayURL string `json:"pay_url,omitempty"`
	// Relay starts a relay that publishes the database to a Kafka, and that has never run before; nil is that there is none to measure.
	Relay func(context.Context) (*Server, error) `json:"-"`
	// Wallet starts a consumer that keeps a wallet view of it in the same database; nil is that there is none.
	Wallet func(context.Context) (*Server, error) `json:"-"`
	// DSN is its database, as a role that may make a schema, for the floors, sizes and verify; empty does without these.
	DSN string `json:"-"`
	// Dir is on the disk of the database; empty is not known.
	Dir string `json:"-"`
	// ServerPID and PostmasterPID are its processes on this machine; 0 is not known.
	ServerPID     int `json:"-"`
	PostmasterPID int `json:"-"`
	// Ended is closed if the server ends, which ends the run; nil is not known.
	Ended <-chan struct{} `json:"-"`
}

// Validate says what is wrong with the numbers, by the names of the flags.
func (c Config) Validate() error {
	for _, mode := range c.Modes {
		if !slices.Contains(Modes(), mode) {
			return fmt.Errorf("there is no mode %q: want %s", mode, strings.Join(Modes(), ", "))
		}
	}
	if slices.Contains(c.Modes, ModeSuite) && len(c.Modes) > 1 {
		return fmt.Errorf("%s measures everything and takes no other mode beside it", ModeSuite)
	}
	if c.IDs != V7 && c.IDs != V4 {
		return fmt.Errorf("--ids is %s or %s", V7, V4)
	}
	const mostConnections = 1000
	for _, n := range []struct {
		flag             string
		value, low, high int64
	}{
		{"accounts", int64(c.Accounts), 3, 10_000_000}, {"clients", int64(c.Clients), 1, 100_000},
		{"connections", int64(c.Connections), 1, mostConnections}, {"batch", int64(c.Batch), 1, ledger.MaxTransfersPerCall},
		{"in-flight", int64(c.InFlight), 1, mostConnections}, {"history", int64(c.History), 1, 1_000_000_000},
		{"readers", int64(c.Readers), 1, mostConnections}, {"rounds", int64(c.Rounds), 1, 1000},
		{"rate", int64(c.Rate), 1, 1_000_000},
		{"growth-from", c.GrowthFrom, 1, 1_000_000_000_000}, {"growth-to", c.GrowthTo, 0, 1_000_000_000_000},
	} {
		if n.value < n.low || n.value > n.high {
			return fmt.Errorf("--%s is %d, want %d to %d", n.flag, n.value, n.low, n.high)
		}
	}
	if c.Duration <= 0 || c.Warmup < 0 {
		return fmt.Errorf("--duration %s and --warmup %s: the first is more than 0, the second not less", c.Duration, c.Warmup)
	}
	if slices.Contains(c.Modes, ModeGrowth) && c.GrowthTo < c.GrowthFrom {
		return fmt.Errorf("%s needs --growth-to, of at least --growth-from %d", ModeGrowth, c.GrowthFrom)
	}
	return nil
}

// NeedsDatabase reports whether something is to be measured that cannot be without Target.DSN.
func (c Config) NeedsDatabase() bool {
	return c.Floors || slices.Contains(c.Modes, ModeSuite) || slices.Contains(c.Modes, ModeGrowth) || slices.Contains(c.Modes, ModeRelay) ||
		slices.Contains(c.Modes, ModeWallet)
}
