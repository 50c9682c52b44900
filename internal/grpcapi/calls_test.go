package grpcapi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// blocker holds something in the database that requests have to wait for.
type blocker struct {
	t       *testing.T
	waiting func() int
	release func()
}

// block runs a statement in a transaction that stays open until release.
func block(t *testing.T, db *pgtest.DB, statement string) *blocker {
	t.Helper()
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: db.SuperDSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	tx, err := pool.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{"SET LOCAL idle_in_transaction_session_timeout = 0", statement} {
		if _, err := tx.Exec(context.Background(), sql); err != nil {
			t.Fatal(err)
		}
	}
	b := &blocker{t: t, release: func() { _ = tx.Commit(context.Background()) }}
	t.Cleanup(b.release)
	b.waiting = func() (n int) {
		t.Helper()
		// The jobs that take snapshots, expire holds, look for double charges and post what was approved are no requests.
		if err := pool.QueryRow(context.Background(), `SELECT count(*) FROM pg_stat_activity
			WHERE datname = current_database() AND usename = 'khata_service' AND wait_event_type = 'Lock'
			  AND query !~ '^-- name: (LedgersDue|HoldsDue|Suspect.*|TransfersMoved|LedgersMovedAfter|SupportRequestsUnsettled) '`).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	return b
}

// until waits until so many requests are waiting in the database.
func (b *blocker) until(n int, patience time.Duration) {
	b.t.Helper()
	if !within(patience, func() bool { return b.waiting() == n }) {
		b.t.Fatalf("%d requests wait in the database, not %d", b.waiting(), n)
	}
}

// within reports whether done becomes true in time. It asks again and again: done itself takes a round trip.
func within(patience time.Duration, done func() bool) bool {
	for giveUp := time.Now().Add(patience); !done(); {
		if time.Now().After(giveUp) {
			return false
		}
	}
	return true
}

const (
	// gateOfMain is the gate of ledger main, held alone: every posting waits for it.
	gateOfMain = `SELECT pg_advisory_xact_lock(4247, ledger_id) FROM ledger WHERE name = 'main'`
	lockTables = `LOCK TABLE account, entry, transfer IN ACCESS EXCLUSIVE MODE`
	// heldPosting is a posting as another server would make it, whose number is drawn and whose commit is still to come.
	heldPosting = `WITH gate AS MATERIALIZED (SELECT ledger_id, pg_advisory_xact_lock_shared(4247, ledger_id)::text AS held FROM ledger WHERE name = 'main')
		INSERT INTO transfer (ledger_id, transfer_id, account_nos, amounts, caller)
		SELECT g.ledger_id, 'held' || g.held, ARRAY[d.account_no, c.account_no], ARRAY[1, -1], 'local'
		  FROM gate g JOIN account d ON d.ledger_id = g.ledger_id AND d.account_id = 'cash'
		       JOIN account c ON c.ledger_id = g.ledger_id AND c.account_id = 'wallet:a'`
)

// giveUps say how a caller gives up: by a deadline, or because it cancels while it waits.
var giveUps = map[string]struct {
	context func(*testing.T) (context.Context, context.CancelFunc)
	cancels bool
	status  codes.Code
}{
	"deadline": {func(t *testing.T) (context.Context, context.CancelFunc) {
		return context.WithTimeout(t.Context(), 3*time.Second) // The request has to have begun by then.
	}, false, codes.DeadlineExceeded},
	"cancel": {func(t *testing.T) (context.Context, context.CancelFunc) {
		return context.WithCancel(t.Context())
	}, true, codes.Canceled},
}

// A caller who gives up stops waiting. What has begun goes on, once, and the same request finds it out.
func TestPost_CallerGivesUp(t *testing.T) {
	t.Parallel()
	for name, how := range giveUps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.accounts(t, "cash BDT", "wallet:a BDT")
			gate := block(t, b.db, gateOfMain)
			ctx, cancel := how.context(t)
			defer cancel()
			failed := make(chan error, 1)
			go func() {
				_, err := b.PostTransfer(ctx, &khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "wallet:a", "5.00")})
				failed <- err
			}()
			gate.until(1, 10*time.Second)
			if how.cancels {
				cancel()
			}
			if err := <-failed; status.Code(err) != how.status {
				t.Errorf("got %v", err)
			}
			gate.release()
			// Nobody has cancelled what had begun: the batch may be others' too.
			if !within(10*time.Second, func() bool {
				_, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "T-1"})
				return err == nil
			}) {
				t.Error("what had begun was not brought to its end")
			}
			if got := outcome(b.post(t, move("T-1", "cash", "wallet:a", "5.00"))); got != "replayed posted" {
				t.Errorf("sent again: %s", got)
			}
			if got := b.balance(t, "wallet:a"); got != "5.00" {
				t.Errorf("balance %s", got)
			}
		})
	}
}

// A read that nobody waits for ends in the database too.
func TestRead_CallerGivesUp(t *testing.T) {
	t.Parallel()
	for name, how := range giveUps {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.accounts(t, "cash BDT", "wallet:a BDT")
			b.post(t, move("T-1", "cash", "wallet:a", "5.00"))
			tables := block(t, b.db, lockTables)
			reads := map[string]func(context.Context) error{
				"GetAccount": func(ctx context.Context) error {
					_, err := b.GetAccount(ctx, &khatav1.GetAccountRequest{Account: "cash"})
					return err
				},
				"GetTransfer": func(ctx context.Context) error {
					_, err := b.GetTransfer(ctx, &khatav1.GetTransferRequest{TransferId: "T-1"})
					return err
				},
				"GetBalance": func(ctx context.Context) error {
					_, err := b.GetBalance(ctx, &khatav1.GetBalanceRequest{Account: "cash"})
					return err
				},
				"ListEntries": func(ctx context.Context) error {
					_, err := b.ListEntries(ctx, &khatav1.ListEntriesRequest{Account: "cash"})
					return err
				},
			}
			ctx, cancel := how.context(t)
			defer cancel()
			failed := make(chan error, len(reads))
			for name, read := range reads {
				go func() {
					if err := read(ctx); status.Code(err) != how.status {
						failed <- fmt.Errorf("%s: got %w", name, err)
						return
					}
					failed <- nil
				}()
			}
			if how.cancels {
				tables.until(len(reads), 10*time.Second)
				cancel()
			}
			for range reads {
				if err := <-failed; err != nil {
					t.Error(err)
				}
			}
			// The server has let go of them: their backends notice within a second that nobody is there, long before they
			// would give up waiting for the lock.
			tables.until(0, 3*time.Second)
			tables.release()
			if got := b.balance(t, "wallet:a"); got != "5.00" {
				t.Errorf("balance %s", got)
			}
		})
	}
}

// A number that was drawn and is not yet visible lies below one that is. A listing that went on without it would lose it,
// so it waits, and so do resulting balances; what needs no order does not.
func TestListEntries_WaitsForWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	b.post(t, move("T-1", "cash", "wallet:a", "1.00"))
	posting := block(t, b.db, heldPosting)
	b.post(t, move("T-2", "cash", "wallet:a", "1.00"))
	if got := b.balance(t, "wallet:a"); got != "2.00" {
		t.Errorf("meanwhile the balance is %s", got)
	}
	var waiters sync.WaitGroup
	for name, call := range map[string]func(context.Context) error{
		"ListEntries": func(ctx context.Context) error {
			_, err := b.ListEntries(ctx, &khatav1.ListEntriesRequest{Account: "wallet:a"})
			return err
		},
		"ListEntries, newest first": func(ctx context.Context) error {
			_, err := b.ListEntries(ctx, &khatav1.ListEntriesRequest{Account: "wallet:a", NewestFirst: true, PageSize: 1})
			return err
		},
		"include_balances": func(ctx context.Context) error {
			_, err := b.PostTransfer(ctx, &khatav1.PostTransferRequest{Transfer: move("T-2", "cash", "wallet:a", "1.00"), IncludeBalances: true})
			return err
		},
	} {
		waiters.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			// The server stops a little before the deadline rather than begin another pause.
			if err := call(ctx); status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
				t.Errorf("%s does not wait for a posting under way: %v", name, err)
			}
		})
	}
	waiters.Wait()
	posting.release()
	got := each(b.listEntries(t, "wallet:a", false, 1, nil), func(e *khatav1.AccountEntry) string { return e.GetTransferId() + " " + e.GetBalance() })
	if diff := cmp.Diff([]string{"T-1 1.00", "held 2.00", "T-2 3.00"}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// A call whose deadline has passed before it comes decides nothing.
func TestPost_DeadlineAlreadyPassed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
	defer cancel()
	_, err := b.PostTransfer(ctx, &khatav1.PostTransferRequest{Transfer: move("T-1", "cash", "wallet:a", "5.00")})
	if status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("got %v", err)
	}
	if _, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "T-1"}); fault(err) != "NotFound TRANSFER_NOT_FOUND" {
		t.Errorf("the transfer: %s", fault(err))
	}
}

func TestHealthAndReflection(t *testing.T) {
	t.Parallel()
	b := setup(t)
	health, err := healthpb.NewHealthClient(b.conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil || health.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Errorf("health: %v %v", health, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(b.conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(in *reflectionpb.ServerReflectionRequest) *reflectionpb.ServerReflectionResponse {
		t.Helper()
		if err := stream.Send(in); err != nil {
			t.Fatal(err)
		}
		resp, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	services := map[string]bool{}
	for _, s := range ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{},
	}).GetListServicesResponse().GetService() {
		services[s.GetName()] = true
	}
	for _, want := range []string{"khata.v1.LedgerService", "grpc.health.v1.Health"} {
		if !services[want] {
			t.Errorf("reflection does not list %s: %v", want, services)
		}
	}
	files := ask(&reflectionpb.ServerReflectionRequest{
		MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "khata.v1.LedgerService.PostTransfer"},
	}).GetFileDescriptorResponse().GetFileDescriptorProto()
	if len(files) == 0 {
		t.Error("reflection does not know PostTransfer")
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

// P11: whoever has the answer to a post or an update sees it in every later read, on whichever server.
func TestTwoServers_ReadYourWrites(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := serve(t, one.db)
	one.accounts(t, "cash BDT", "wallet:a BDT", floored("wallet:b BDT", "0"))
	for i := range 24 {
		writer, reader := one, two
		if i%2 == 1 {
			writer, reader = two, one
		}
		transfer := move(fmt.Sprintf("T-%d", i), "cash", "wallet:a", "1.00")
		resp, err := writer.PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: transfer, IncludeBalances: true})
		if err != nil {
			t.Fatal(err)
		}
		posted, want := resp.GetResult(), fmt.Sprintf("%d.00", i+1)

		balance, err := reader.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Account: "wallet:a"})
		if b := balance.GetBalance(); err != nil || b.GetPosted() != want || b.GetVersion() != posted.GetSequence() {
			t.Fatalf("GetBalance %v %v, want %s at %d", b, err, want, posted.GetSequence())
		}
		balances, err := reader.GetBalances(t.Context(), &khatav1.GetBalancesRequest{Accounts: []string{"cash", "wallet:a"}})
		if err != nil || balances.GetBalances()[0].GetPosted() != want || balances.GetBalances()[1].GetPosted() != want {
			t.Fatalf("GetBalances %v %v", balances, err)
		}
		record, err := reader.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: transfer.GetTransferId()})
		if x := record.GetTransfer(); err != nil || x.GetSequence() != posted.GetSequence() || !proto.Equal(x.GetPostedAt(), posted.GetPostedAt()) {
			t.Fatalf("GetTransfer %v %v", x, err)
		}
		for _, newestFirst := range []bool{false, true} {
			list := reader.listEntries(t, "wallet:a", newestFirst, 10, nil)
			last := list[len(list)-1]
			if newestFirst {
				last = list[0]
			}
			if len(list) != i+1 || last.GetSequence() != posted.GetSequence() || last.GetBalance() != want {
				t.Fatalf("ListEntries, newest first %t: %d entries, the last %v", newestFirst, len(list), last)
			}
		}
		replay, err := reader.PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: transfer, IncludeBalances: true})
		posted.Replayed = true
		if diff := cmp.Diff(posted, replay.GetResult(), protocmp.Transform()); diff != "" || err != nil {
			t.Fatalf("replay (-first +again), %v:\n%s", err, diff)
		}
	}
}

// The rules of an account, its currency and its ledger, changed on one server, hold at once on the other.
func TestTwoServers_RulesHoldAtOnce(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := serve(t, one.db)
	one.accounts(t, "cash BDT", "wallet:a BDT")
	if got := outcome(two.post(t, move("T-1", "cash", "wallet:a", "1.00"))); got != "posted" {
		t.Fatal(got)
	}
	one.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Frozen: khatav1.Frozen_FROZEN_DEBITS})
	if got := outcome(two.post(t, move("T-2", "wallet:a", "cash", "1.00"))); got != "refused ACCOUNT_FROZEN wallet:a" {
		t.Errorf("frozen: %s", got)
	}
	two.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Frozen: khatav1.Frozen_FROZEN_NONE, Floor: proto.String("0.50")})
	if got := outcome(one.post(t, move("T-3", "wallet:a", "cash", "0.51"))); got != "refused INSUFFICIENT_FUNDS wallet:a" {
		t.Errorf("floored: %s", got)
	}
	one.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Floor: proto.String("")})
	if got := outcome(two.post(t, move("T-4", "wallet:a", "cash", "1.00"))); got != "posted" {
		t.Errorf("without a floor: %s", got)
	}
	one.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Closed: proto.Bool(true)})
	if got := outcome(two.post(t, move("T-5", "cash", "wallet:a", "1.00"))); got != "refused ACCOUNT_CLOSED wallet:a" {
		t.Errorf("closed: %s", got)
	}
	if got := two.get(t, "wallet:a"); !got.GetClosed() {
		t.Errorf("GetAccount %v", got)
	}
	// What one of them has not found is not remembered.
	if _, err := two.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Ledger: "shop", Account: "cash"}); fault(err) != "NotFound LEDGER_NOT_FOUND" {
		t.Errorf("before there is such a ledger: %s", fault(err))
	}
	if _, err := one.CreateLedger(t.Context(), &khatav1.CreateLedgerRequest{Name: "shop"}); err != nil {
		t.Fatal(err)
	}
	if _, err := one.RegisterCurrency(t.Context(), &khatav1.RegisterCurrencyRequest{Ledger: "shop", Currency: &khatav1.Currency{Code: "ETH", Scale: 18}}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.CreateAccount(t.Context(), &khatav1.CreateAccountRequest{Ledger: "shop", Account: account("cash ETH")}); err != nil {
		t.Errorf("in the new ledger and currency: %v", err)
	}
	if resp, err := one.GetAccount(t.Context(), &khatav1.GetAccountRequest{Ledger: "shop", Account: "cash"}); err != nil || resp.GetAccount().GetScale() != 18 {
		t.Errorf("the account there: %v %v", resp, err)
	}
}
