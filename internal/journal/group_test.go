package journal_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// Group commit on a real database: requests of many callers that share batches, and what one of them may do to the others.

// answered is what a caller got.
type answered struct {
	spec ledger.TransferSpec
	journal.PostResult
	took time.Duration
}

// crowd is callers who each post one transfer at the same time.
type crowd struct {
	wg      sync.WaitGroup
	mu      sync.Mutex
	answers []answered
}

func (c *crowd) post(ctx context.Context, j *journal.Journal, spec ledger.TransferSpec) {
	c.wg.Go(func() {
		began := time.Now()
		results, err := j.Post(ctx, "local", main, []ledger.TransferSpec{spec})
		a := answered{spec: spec, took: time.Since(began)}
		if err != nil {
			a.Err = err
		} else {
			a.PostResult = results[0]
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers = append(c.answers, a)
	})
}

// wait returns all answers, in the order in which they came.
func (c *crowd) wait(t testing.TB) []answered {
	t.Helper()
	done := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(done)
	}()
	result(t, done)
	return c.answers
}

// tally counts answers by what they are.
func tally(answers []answered) string {
	counts := map[string]int{}
	for _, a := range answers {
		counts[describe(a.PostResult)]++
	}
	var words []string
	for what, n := range counts {
		words = append(words, fmt.Sprintf("%d %s", n, what))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// holdGate keeps batches of the ledger from beginning in the database, until release. Those that have begun in the journal
// wait for the gate, and everybody else waits in the queue.
func (b *bench) holdGate(t testing.TB) (release func()) {
	t.Helper()
	holder := b.raw(t)
	holder.do(t, "BEGIN", gateAlone)
	return func() {
		t.Helper()
		holder.do(t, "COMMIT")
	}
}

// unhurried is a server that can be held up for long and still answers everybody.
func (b *bench) unhurried(t testing.TB, config journal.Config) *journal.Journal {
	t.Helper()
	config.Budget = 4 * time.Minute
	j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN() + " lock_timeout=60s"}, config)
	return j
}

// transfers counts the records whose ids are like a pattern, and fails the test if one of them has not two entries.
func (b *bench) transfers(t testing.TB, like string) int {
	t.Helper()
	c := b.raw(t)
	const each = "FROM (SELECT t.refusal, (SELECT count(*) FROM entry e WHERE (e.ledger_id, e.sequence) = (t.ledger_id, t.sequence)) AS entries FROM transfer t WHERE transfer_id LIKE '%s') x"
	if n := read[int](t, c, fmt.Sprintf("SELECT count(*) "+each+" WHERE entries <> CASE WHEN refusal IS NULL THEN 2 ELSE 0 END", like)); n > 0 {
		t.Errorf("%d of %s have other entries than their own", n, like)
	}
	return read[int](t, c, fmt.Sprintf("SELECT count(*) "+each, like))
}

// A batch decides on the strength of ids that nobody has looked up. What it answers must be as if somebody had, whether it
// expects taken ids or not.
func TestGroup_TakenIDs(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	b.account(t, "dollars", ledger.Asset, "USD", nil)
	b.post(t, move("IN", "cash", "wallet", "10"))
	taken := b.post(t, move("TAKEN", "cash", "wallet", "5"))
	refused := b.post(t, move("REFUSED", "wallet", "shop", "100"))
	b.post(t, move("MORE", "cash", "wallet", "1000"))
	three := func(id string, debit, credit string, other ledger.AccountID) ledger.TransferSpec {
		return ledger.TransferSpec{ID: ledger.TransferID(id), Entries: []ledger.Entry{
			{Account: "cash", Direction: ledger.Debit, Amount: amount(debit)},
			{Account: "shop", Direction: ledger.Credit, Amount: amount(credit)},
			{Account: other, Direction: ledger.Credit, Amount: amount("1")},
		}}
	}
	for _, c := range []struct {
		name  string
		specs []ledger.TransferSpec
		want  string
	}{
		{"taken, and an account that does not exist", []ledger.TransferSpec{move("TAKEN", "cash", "nobody", "5")}, "ALREADY_EXISTS"},
		{"taken, and another currency", []ledger.TransferSpec{move("TAKEN", "cash", "dollars", "5")}, "ALREADY_EXISTS"},
		{"taken, and too many decimals", []ledger.TransferSpec{move("TAKEN", "cash", "wallet", "5.001")}, "ALREADY_EXISTS"},
		{"taken, and unbalanced", []ledger.TransferSpec{three("TAKEN", "5", "3", "wallet")}, "ALREADY_EXISTS"},
		{"taken, by the same", []ledger.TransferSpec{move("TAKEN", "cash", "wallet", "5.00")}, "replayed"},
		{"refused once", []ledger.TransferSpec{move("REFUSED", "wallet", "shop", "100")}, "INSUFFICIENT_FUNDS"},
		{"refused once, and now other content", []ledger.TransferSpec{move("REFUSED", "wallet", "shop", "1")}, "ALREADY_EXISTS"},
		{"taken, beside others", []ledger.TransferSpec{
			move("NEW-1-%", "cash", "shop", "1"), move("TAKEN", "cash", "nobody", "5"), move("NEW-2-%", "cash", "nobody", "1"),
			move("TAKEN", "cash", "wallet", "5"), move("NEW-1-%", "cash", "shop", "1"), move("NEW-1-%", "cash", "shop", "2"),
		}, "posted, ALREADY_EXISTS, ACCOUNT_NOT_FOUND, replayed, replayed, ALREADY_EXISTS"},
		// What is no transfer takes no id, also where a later one of the same call does.
		{"first wrong, then right", []ledger.TransferSpec{
			move("NEW-3-%", "cash", "nobody", "1"), move("NEW-3-%", "cash", "shop", "1"), move("TAKEN", "cash", "nobody", "1"),
		}, "ACCOUNT_NOT_FOUND, posted, ALREADY_EXISTS"},
	} {
		for _, wary := range []bool{false, true} {
			j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
			if wary {
				post(t, j, move("IN", "cash", "wallet", "10"))
			}
			specs := slices.Clone(c.specs)
			for i := range specs {
				specs[i].ID = ledger.TransferID(strings.ReplaceAll(string(specs[i].ID), "%", fmt.Sprint(wary)))
			}
			results := result(t, postAsync(j, specs...))
			if got := describeAll(results); got != c.want {
				t.Errorf("%s (wary: %v): %s, want %s", c.name, wary, got, c.want)
			}
			for i, r := range results {
				for _, first := range []journal.PostResult{taken, refused} {
					if r.Err == nil && r.Transfer.ID == first.Transfer.ID &&
						(r.Transfer.Sequence != first.Transfer.Sequence || !r.Transfer.PostedAt.Equal(first.Transfer.PostedAt) || !r.Replayed) {
						t.Errorf("%s (wary: %v): answer %d is %+v, the first was %+v", c.name, wary, i, r.Transfer, first.Transfer)
					}
				}
			}
			// To others an id is taken, and that is all they hear.
			others, err := j.Post(t.Context(), "stranger", main, []ledger.TransferSpec{move("TAKEN", "cash", "nobody", "5"), move("TAKEN", "cash", "wallet", "5")})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range others {
				var e *ledger.Error
				if !errors.As(r.Err, &e) || e.Code != ledger.CodeAlreadyExists || len(e.Violations) > 0 {
					t.Errorf("a stranger hears %v", r.Err)
				}
			}
		}
	}
	if got := b.balance(t, "wallet"); got != "1015.00" {
		t.Errorf("balance %s", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// A batch that meets a taken id is run again; those after it expect some, and look first, until there have been none for a
// while.
func TestGroup_Wary(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	j, _, faults := b.faulty(t, journal.Config{})
	commits := func(id, want string) int {
		t.Helper()
		before := faults.Commits()
		if got := describe(post(t, j, move(id, "cash", "shop", "1"))); got != want {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
		return faults.Commits() - before
	}
	if got := commits("A", "posted"); got != 1 {
		t.Errorf("a new id took %d tries", got)
	}
	for i, want := range []int{2, 1, 1} {
		if got := commits("A", "replayed"); got != want {
			t.Errorf("time %d that an id was taken it took %d tries, want %d", 1+i, got, want)
		}
	}
	for i := range 20 {
		if got := commits(fmt.Sprint("NEW-", i), "posted"); got != 1 {
			t.Errorf("a new id took %d tries", got)
		}
	}
	if got := commits("A", "replayed"); got != 2 {
		t.Errorf("after a while without any it took %d tries", got)
	}
}

// Many callers share few commits, nobody's answer is another's, and among equal requests one is the first.
func TestGroup_SharesCommits(t *testing.T) {
	t.Parallel()
	const callers = 300
	b := setupShop(t)
	faults := pgtest.NewFaults(t)
	j, _ := open(t, pg.Config{DSN: b.db.ServiceDSN() + " lock_timeout=60s", Dial: faults.DialFunc(nil)}, journal.Config{Budget: 4 * time.Minute, PostersPerLedger: 2})
	post(t, j, move("WARM", "cash", "shop", "1"))
	commits := faults.Commits()
	release := b.holdGate(t)
	var c crowd
	spec := func(i int) ledger.TransferSpec {
		return move(fmt.Sprintf("T%d", i%(callers/3)), "cash", "shop", fmt.Sprintf("%d.00", 1+i%(callers/3)))
	}
	for i := range callers {
		c.post(t.Context(), j, spec(i))
	}
	b.raw(t).awaitJournalBlocked(t, 2)
	time.Sleep(100 * time.Millisecond) // so that most of them are there
	release()
	answers := c.wait(t)
	if got, want := tally(answers), fmt.Sprintf("%d posted, %d replayed", callers/3, callers*2/3); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	sequences := map[ledger.TransferID]int64{}
	for _, a := range answers {
		if !a.Transfer.Entries[0].Amount.Equal(a.spec.Entries[0].Amount) || a.Transfer.ID != a.spec.ID {
			t.Errorf("%s of %s was answered with %s of %s", a.spec.ID, a.spec.Entries[0].Amount, a.Transfer.ID, a.Transfer.Entries[0].Amount)
		}
		if n, ok := sequences[a.spec.ID]; ok && n != a.Transfer.Sequence {
			t.Errorf("%s has sequences %d and %d", a.spec.ID, n, a.Transfer.Sequence)
		}
		sequences[a.spec.ID] = a.Transfer.Sequence
	}
	if got := faults.Commits() - commits; got > callers/10 {
		t.Errorf("%d callers had %d commits", callers, got)
	}
	if got := b.transfers(t, "T%"); got != callers/3 {
		t.Errorf("%d transfers", got)
	}
}

// A lost commit of many callers' batch is found out for all of them: what it wrote is theirs, and no replay.
func TestGroup_UnknownCommit(t *testing.T) {
	t.Parallel()
	for _, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "before", true: "after"}[after], func(t *testing.T) {
			t.Parallel()
			const callers, cuts = 200, 3
			b := setupShop(t)
			j, _, faults := b.faulty(t, journal.Config{Budget: 4 * time.Minute, Posters: 1})
			post(t, j, move("EARLIER", "cash", "wallet", "10"))
			release := b.holdGate(t)
			first := postAsync(j, move("FIRST", "cash", "shop", "1"))
			watcher, holder := b.raw(t), b.raw(t)
			watcher.awaitJournalBlocked(t, 1)
			var c crowd
			for i := range callers {
				spec := move(fmt.Sprintf("T%d", i), "wallet", "shop", "0.01")
				c.post(t.Context(), j, spec)
				c.post(t.Context(), j, spec)
				c.post(t.Context(), j, move("EARLIER", "cash", "wallet", "10"))
			}
			time.Sleep(50 * time.Millisecond)
			holder.do(t, "BEGIN", "SELECT FROM account WHERE account_id = 'wallet' FOR NO KEY UPDATE")
			release()
			result(t, first)
			watcher.awaitJournalBlocked(t, 1) // the rest of them, at the wallet
			commits := faults.Commits()
			map[bool]func(int){false: faults.CutBeforeCommit, true: faults.CutAfterCommit}[after](cuts)
			holder.do(t, "COMMIT")
			if got, want := tally(c.wait(t)), fmt.Sprintf("%d posted, %d replayed", callers, 2*callers); got != want {
				t.Errorf("%s, want %s", got, want)
			}
			if got := faults.Cuts(); got != cuts {
				t.Errorf("%d cuts", got)
			}
			if got := faults.Commits() - commits; got > cuts+3 {
				t.Errorf("%d commits: they did not share one", got)
			}
			if got := b.transfers(t, "T%"); got != callers {
				t.Errorf("%d transfers", got)
			}
			if got := b.balance(t, "wallet"); got != "8.00" {
				t.Errorf("balance %s", got)
			}
		})
	}
}

// One request that the database will not have fails alone, whatever the 999 beside it do.
func TestGroup_PoisonedRequest(t *testing.T) {
	t.Parallel()
	const callers, poisoned = 1000, 617
	b := setupShop(t)
	j := b.unhurried(t, journal.Config{})
	// A fault of ours, as it were: nothing above knows of this rule.
	rawAs(t, b.db.SuperDSN()).do(t, "ALTER TABLE transfer ADD CONSTRAINT poison CHECK (description <> 'poison')")
	b.post(t, move("DEPOSIT", "cash", "wallet", "5"))
	spec := func(i int) ledger.TransferSpec {
		s := move(fmt.Sprintf("T%d", i), "cash", "shop", "1")
		if i%100 == 50 { // some have to share an account too; the last of them is too much
			s = move(fmt.Sprintf("T%d", i), "wallet", "shop", "0.55")
		}
		if i == poisoned {
			s.Description = "poison"
		}
		return s
	}
	for name, ask := range map[string]func(*testing.T) []answered{
		"in a call": func(t *testing.T) (answers []answered) {
			specs := make([]ledger.TransferSpec, callers)
			for i := range specs {
				specs[i] = spec(i)
			}
			results, err := j.Post(t.Context(), "local", main, specs)
			if err != nil {
				t.Fatal(err)
			}
			for i, r := range results {
				answers = append(answers, answered{spec: specs[i], PostResult: r})
			}
			return answers
		},
		"of many callers": func(t *testing.T) []answered {
			var c crowd
			release := b.holdGate(t)
			for i := range callers {
				s := spec(i)
				s.ID = "C" + s.ID
				c.post(t.Context(), j, s)
			}
			time.Sleep(100 * time.Millisecond)
			release()
			return c.wait(t)
		},
	} {
		t.Run(name, func(t *testing.T) {
			answers := ask(t)
			refused := 0
			for _, a := range answers {
				switch poison := a.spec.Description == "poison"; {
				case poison && !errors.Is(a.Err, ledger.CodeInternal):
					t.Errorf("the poisoned one: %s %v", describe(a.PostResult), a.Err)
				case poison:
				case a.Err != nil || a.Replayed:
					t.Errorf("%s: %s %v", a.spec.ID, describe(a.PostResult), a.Err)
				case a.Transfer.Refusal != nil:
					refused++
				}
			}
			if refused > 10 {
				t.Errorf("%d are refused", refused)
			}
			if t.Failed() {
				t.Log(tally(answers))
			}
		})
	}
	if got := b.transfers(t, "T%") + b.transfers(t, "CT%"); got != 2*(callers-1) {
		t.Errorf("%d transfers", got)
	}
	rawAs(t, b.db.SuperDSN()).do(t, "ALTER TABLE transfer DROP CONSTRAINT poison")
	ledgertest.CheckBooks(t, b.db)
}

// Where a batch was split and the outcome of its first half is open, the second is not decided: a payment would be refused,
// for ever, for want of the deposit before it.
func TestGroup_SplitAndOpen(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	// The poison comes first in the order of ids, in which they are inserted.
	rawAs(t, b.db.SuperDSN()).do(t, `CREATE FUNCTION stumble() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			IF NEW.description = 'poison' THEN RAISE 'poison'; END IF;
			IF NEW.description = 'locked' THEN RAISE lock_not_available; END IF;
			RETURN NEW; END $$`,
		"CREATE TRIGGER stumble BEFORE INSERT ON transfer FOR EACH ROW EXECUTE FUNCTION stumble()")
	deposit, poison := move("B-DEPOSIT", "cash", "wallet", "100"), move("A-POISON", "cash", "shop", "1")
	deposit.Description, poison.Description = "locked", "poison"
	specs := []ledger.TransferSpec{deposit, move("C", "cash", "shop", "1"), poison, move("D-PAYMENT", "wallet", "shop", "100")}
	if got := describeAll(result(t, postAsync(b.Journal, specs...))); got != "UNAVAILABLE, UNAVAILABLE, UNAVAILABLE, UNAVAILABLE" {
		t.Errorf("%s", got)
	}
	rawAs(t, b.db.SuperDSN()).do(t, "DROP TRIGGER stumble ON transfer", "DROP FUNCTION stumble")
	if got := describeAll(result(t, postAsync(b.Journal, specs...))); got != "posted, posted, posted, posted" {
		t.Errorf("again: %s", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Callers who go away are told so at once, and what they asked for has happened or has not, and happens once when they ask
// again.
func TestGroup_CancelledCallers(t *testing.T) {
	t.Parallel()
	const callers = 500
	b := setupShop(t)
	b.post(t, move("DEPOSIT", "cash", "wallet", "100"))
	spec := func(i int) ledger.TransferSpec { return move(fmt.Sprintf("T%d", i), "wallet", "shop", "0.01") }
	t.Run("while they wait", func(t *testing.T) {
		// A caller who goes is no fault of the database.
		j := b.unhurried(t, journal.Config{Logger: slog.New(slog.NewTextHandler(complaints{t}, &slog.HandlerOptions{Level: slog.LevelWarn}))})
		post(t, j, move("KNOWN", "cash", "wallet", "1"))
		release := b.holdGate(t)
		ctx, cancel := context.WithCancel(t.Context())
		var c crowd
		for i := range callers {
			c.post(ctx, j, spec(i))
		}
		b.raw(t).awaitJournalBlocked(t, 1) // all on one account, which is known: one batch
		time.Sleep(50 * time.Millisecond)
		cancelled := time.Now()
		cancel()
		answers := c.wait(t)
		if took := time.Since(cancelled); took > 10*time.Second { // The budget is four minutes.
			t.Errorf("the last one was told after %v", took)
		}
		for _, a := range answers {
			if !errors.Is(a.Err, ledger.CodeCancelled) || !ledger.CodeOf(a.Err).Open() {
				t.Errorf("%s: %s %v", a.spec.ID, describe(a.PostResult), a.Err)
			}
		}
		if n := b.transfers(t, "T%"); n > 0 {
			t.Errorf("%d transfers are there already", n)
		}
		release()
		// What had begun is brought to its end for nobody. What waited never begins.
		post(t, j, move("NEXT", "wallet", "shop", "1.00"))
		if n := b.transfers(t, "T%"); n < 1 || n > 10 {
			t.Errorf("%d of those who went away had begun", n)
		}
	})
	t.Run("at any time", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
		var wg sync.WaitGroup
		var gone atomic.Int32
		for i := range callers {
			// Up to 16 seconds, most much less: on a busy machine, too, some have their answer sooner.
			patience := time.Duration(math.Pow(2, 14*r.Float64()) * float64(time.Millisecond))
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				for {
					results, err := b.Post(ctx, "local", main, []ledger.TransferSpec{spec(i)})
					if code := ledger.CodeOf(err); code == ledger.CodeDeadlineExceeded {
						gone.Add(1)
						ctx = t.Context() // the next time he waits
						continue
					}
					if err != nil || results[0].Err != nil || results[0].Transfer.Refusal != nil {
						t.Errorf("%d: %v %+v", i, err, results)
					}
					return
				}
			})
		}
		wg.Wait()
		t.Logf("%d of %d went away before their answer", gone.Load(), callers)
		if n := gone.Load(); n < callers/20 || n > callers*19/20 {
			t.Errorf("%d of %d went away", n, callers)
		}
	})
	if n := b.transfers(t, "T%"); n != callers {
		t.Errorf("%d transfers", n)
	}
	if got := b.balance(t, "wallet"); got != "95.00" {
		t.Errorf("balance %s", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// complaints fails the test on whatever is logged.
type complaints struct{ testing.TB }

func (c complaints) Write(line []byte) (int, error) {
	c.Errorf("it was logged: %s", line)
	return len(line), nil
}

// A full queue refuses at once what it has no room for, with an error that says so and that nothing came of it. Its memory
// is bounded, however many more try: by half as much again as MaxWaiting, and, since each who waits may be a caller of his
// own, by a goroutine for each 1,536 bytes of it.
func TestGroup_FullQueue(t *testing.T) { // not parallel: it measures the memory of the process
	const maxWaiting, goroutine = 3 << 20, 16 << 10
	const bound = maxWaiting*3/2 + maxWaiting/1536*goroutine
	b := setupShop(t)
	// Half of Posters is not more than PostersPerLedger: those that are stuck at the gate lend nobody a place, and make no room.
	j := b.unhurried(t, journal.Config{MaxWaiting: maxWaiting, Posters: 4, PostersPerLedger: 2})
	post(t, j, move("WARM", "cash", "shop", "1"))
	release := b.holdGate(t)
	before := memory()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var refused, accepted atomic.Int32
	var wg sync.WaitGroup
	ids := make(chan ledger.TransferID, 100_000)
	ask := func(id ledger.TransferID) {
		began := time.Now()
		results, err := j.Post(ctx, "local", main, []ledger.TransferSpec{move(string(id), "cash", "shop", "1")})
		switch {
		case err != nil:
			t.Errorf("%s: %v", id, err)
		case errors.Is(results[0].Err, ledger.CodeOverloaded):
			refused.Add(1)
			ids <- id
			var e *ledger.Error
			if took := time.Since(began); !errors.As(results[0].Err, &e) || e.RetryAfter <= 0 || took > 10*time.Second { // A turn may take a minute.
				t.Errorf("%s: %+v after %v", id, e, took)
			}
		case results[0].Err != nil:
			t.Errorf("%s: %v", id, results[0].Err)
		default:
			accepted.Add(1)
		}
	}
	n := 0
	for ; refused.Load() == 0; n++ {
		id := ledger.TransferID(fmt.Sprintf("T%d", n))
		wg.Go(func() { ask(id) })
		if n%100 == 0 {
			time.Sleep(time.Millisecond) // Those who came must be heard before others do.
		}
		if n > 20_000 {
			t.Fatal("it takes everything")
		}
	}
	// A crowd that comes again and again while there is no room.
	for range 3000 {
		ask(ledger.TransferID(fmt.Sprintf("T%d", n)))
		n++
	}
	held := memory() - before
	release()
	wg.Wait()
	t.Logf("%d waited, %d were refused; %d bytes held, %d allowed to wait", accepted.Load(), refused.Load(), held, maxWaiting)
	if held > bound {
		t.Errorf("%d bytes are held, the bound is %d", held, bound)
	}
	if got := b.transfers(t, "T%"); got != int(accepted.Load()) || got < 1000 {
		t.Errorf("%d transfers, %d callers were told so", got, accepted.Load())
	}
	// There is room again, and those who were refused get through with the same id.
	again := refused.Load()
	for range min(again, 50) {
		if got := describe(post(t, j, move(string(<-ids), "cash", "shop", "1"))); got != "posted" {
			t.Errorf("again: %s", got)
		}
	}
}

func memory() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // not that large
}

// A pool of two connections serves 200 callers who post, press twice and read: one of the two posts, and reads go on beside.
func TestGroup_SmallPool(t *testing.T) {
	t.Parallel()
	const callers, each = 200, 4
	b := setupShop(t)
	j, pool := open(t, pg.Config{DSN: b.db.ServiceDSN(), MaxConns: 2}, journal.Config{Budget: time.Minute})
	post(t, j, move("DEPOSIT", "cash", "wallet", "1000"))
	var wg sync.WaitGroup
	var fresh atomic.Int32
	for n := range callers {
		wg.Go(func() {
			for i := range each {
				// Every transfer is sent by two callers.
				spec := move(fmt.Sprintf("T%d-%d", n/2, i), []ledger.AccountID{"wallet", "cash"}[n/2%2], "shop", "0.10")
				r := post(t, j, spec)
				if r.Err != nil || r.Transfer.Refusal != nil {
					t.Errorf("%s: %s %v", spec.ID, describe(r), r.Err)
					return
				}
				if !r.Replayed {
					fresh.Add(1)
				}
				balances, err := j.Balances(t.Context(), main, []ledger.AccountID{"wallet"})
				if err != nil {
					t.Errorf("balances: %v", err)
					return
				}
				if n/2%2 == 0 && balances[0].Posted.Equal(amount("1000")) {
					t.Errorf("%s: its own payment is not in the balance", spec.ID)
				}
			}
		})
	}
	result(t, start(func() bool { wg.Wait(); return true }))
	if got := fresh.Load(); got != callers/2*each {
		t.Errorf("%d answers were first ones", got)
	}
	if got := b.transfers(t, "T%"); got != callers/2*each {
		t.Errorf("%d transfers", got)
	}
	if got := b.balance(t, "wallet"); got != "980.00" {
		t.Errorf("balance %s", got)
	}
	if got := pool.Stat().MaxConns(); got != 2 {
		t.Errorf("%d connections", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Batches of one server never wait for each other inside the database: not for an account with a floor, and not for an id.
// A second server beside it does make them wait, which proves that it would be seen.
func TestGroup_NoLockWaits(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	var wallets []ledger.AccountID
	for i := range 6 {
		id := ledger.AccountID(fmt.Sprintf("wallet:%d", i))
		wallets = append(wallets, id)
		b.account(t, id, ledger.Liability, "BDT", floor("-1000000"))
	}
	two, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{Posters: 6, PostersPerLedger: 5})
	one, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{Posters: 6, PostersPerLedger: 5})
	for _, id := range wallets { // the rules are known
		post(t, one, move("WARM-1-"+string(id), "cash", id, "1"))
		post(t, two, move("WARM-2-"+string(id), "cash", id, "1"))
	}
	watcher := rawAs(t, b.db.SuperDSN())
	waits := func(name string, servers ...*journal.Journal) (waits, looks int) {
		var enough atomic.Bool
		var wg sync.WaitGroup
		for n := range 40 {
			r := rand.New(rand.NewPCG(3, uint64(n))) //nolint:gosec // repeatable
			j := servers[n%len(servers)]
			wg.Go(func() {
				for i := 0; !enough.Load(); i++ {
					p := r.Perm(len(wallets))
					// Each id is sent by several callers at about the same time.
					got := insist(t, j, move(fmt.Sprintf("%s-%d-%d", name, n/4, i), wallets[p[0]], wallets[p[1]], "1"))
					if code := ledger.CodeOf(got.Err); got.Err != nil && code != ledger.CodeAlreadyExists {
						t.Errorf("%v", got.Err)
						return
					}
				}
			})
		}
		for until := time.Now().Add(time.Duration(storm(1500, 10_000)) * time.Millisecond); time.Now().Before(until); looks++ {
			if read[int](t, watcher, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'khata'
				AND wait_event_type = 'Lock' AND wait_event IN ('transactionid', 'tuple', 'advisory', 'spectoken')`) > 0 {
				waits++
			}
		}
		enough.Store(true)
		wg.Wait()
		return waits, looks
	}
	n, looks := waits("ONE", one)
	if n > 0 {
		t.Errorf("in %d of %d looks a batch waited for another of the same server", n, looks)
	}
	control, of := waits("TWO", one, two)
	t.Logf("waits for locks: in %d of %d looks with one server, in %d of %d with two", n, looks, control, of)
	if control == 0 {
		t.Error("with two servers nobody waits either, and so it proves nothing")
	}
	ledgertest.CheckBooks(t, b.db)
}

// A database that hangs is given up after a bounded time: by those whose batches are under way when the budget is spent, by
// those who wait when they have had no turn in time. None of them is told that it failed, and afterwards each id is there
// once.
func TestGroup_DatabaseHangs(t *testing.T) {
	t.Parallel()
	const callers, budget = 300, 2 * time.Second
	b := setupShop(t)
	j, pool, faults := b.faulty(t, journal.Config{Budget: budget})
	post(t, j, move("DEPOSIT", "cash", "wallet", "100"))
	spec := func(i int) ledger.TransferSpec {
		return move(fmt.Sprintf("T%d", i), []ledger.AccountID{"wallet", "cash"}[i%2], "shop", "0.10")
	}
	faults.DelayCommits(time.Millisecond) // so that it freezes in the middle of commits
	var c crowd
	for i := range callers {
		c.post(t.Context(), j, spec(i))
		if i == callers/3 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	thaw := faults.Freeze()
	answers := c.wait(t)
	open, waited := 0, time.Duration(0)
	for _, a := range answers {
		waited = max(waited, a.took)
		switch {
		case errors.Is(a.Err, ledger.CodeUnavailable):
			open++
		case a.Err != nil:
			t.Errorf("%s: %v", a.spec.ID, a.Err)
		}
	}
	t.Logf("%s; the last answer after %v", tally(answers), waited)
	if open == 0 || waited > budget+5*time.Second {
		t.Errorf("%d are open, and the last answer came after %v", open, waited)
	}
	// The batches have been given up too, by nobody's leave but the clock's: their places are free.
	for deadline := time.Now().Add(patience); pool.Stat().AcquiredConns() > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are still in use", pool.Stat().AcquiredConns())
		}
	}
	thaw()
	faults.DelayCommits(0)
	var again sync.WaitGroup
	for i := range callers {
		again.Go(func() {
			if r := insist(t, j, spec(i)); r.Err != nil || r.Transfer.Refusal != nil {
				t.Errorf("afterwards %s: %s %v", spec(i).ID, describe(r), r.Err)
			}
		})
	}
	result(t, start(func() bool { again.Wait(); return true }))
	if n := b.transfers(t, "T%"); n != callers {
		t.Errorf("%d transfers", n)
	}
	if got := b.balance(t, "wallet"); got != "85.00" {
		t.Errorf("balance %s", got)
	}
	ledgertest.CheckBooks(t, b.db)
}

// Close answers everybody: those whose batches are under way, those who wait, and those who have more to come.
func TestGroup_Close(t *testing.T) {
	t.Parallel()
	const callers = 100
	b := setupShop(t)
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: b.db.ServiceDSN() + " lock_timeout=60s"})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{Budget: 4 * time.Minute})
	post(t, j, move("WARM", "cash", "shop", "1"))
	release := b.holdGate(t)
	var many []ledger.TransferSpec
	for i := range 2500 {
		many = append(many, move(fmt.Sprintf("MANY-%d", i), "cash", "shop", "1"))
	}
	large := postAsync(j, many...)
	b.raw(t).awaitJournalBlocked(t, 1)
	var c crowd
	for i := range callers {
		c.post(t.Context(), j, move(fmt.Sprintf("T%d", i), "cash", "shop", "1"))
	}
	time.Sleep(50 * time.Millisecond)
	closed := start(func() bool {
		j.Close()
		pool.Close()
		return true
	})
	time.Sleep(20 * time.Millisecond)
	pending(t, closed)
	release()
	result(t, closed)
	if got := tally(c.wait(t)); got != fmt.Sprintf("%d posted", callers) {
		t.Errorf("those who waited: %s", got)
	}
	posted := 0
	for i, r := range result(t, large) {
		switch {
		case r.Err == nil && i < 1000:
			posted++
		case !errors.Is(r.Err, ledger.CodeUnavailable) || i < 1000:
			t.Fatalf("transfer %d of a large call: %s %v", i, describe(r), r.Err)
		}
	}
	if got := b.transfers(t, "MANY%"); got != posted || posted != 1000 {
		t.Errorf("%d transfers, %d answered", got, posted)
	}
}

// What one server changes, another one knows at its next transfer, whatever it remembers: rules, and what is in an account.
func TestGroup_RulesOfAnotherServer(t *testing.T) {
	t.Parallel()
	b := setupShop(t)
	other, _ := open(t, pg.Config{DSN: b.db.ServiceDSN()}, journal.Config{})
	both := []*journal.Journal{b.Journal, other}
	yes, no, name := true, false, "renamed"
	frozen, thawed := ledger.FrozenBoth, ledger.FrozenNone
	n := 0
	expect := func(what string, j *journal.Journal, debit, credit ledger.AccountID, value, want string) {
		t.Helper()
		n++
		if got := describeAll([]journal.PostResult{post(t, j, move(fmt.Sprintf("T%d", n), debit, credit, value))}); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	update := func(j *journal.Journal, id ledger.AccountID, u ledger.AccountUpdate) {
		t.Helper()
		if _, err := j.UpdateAccount(t.Context(), "local", main, id, u); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 4 {
		here, there := both[round%2], both[1-round%2]
		payer := ledger.AccountID(fmt.Sprintf("payer:%d", round))
		expect("an account that is not there", here, "cash", payer, "1", "ACCOUNT_NOT_FOUND")
		if _, err := there.CreateAccounts(t.Context(), "local", main, []ledger.AccountSpec{{ID: payer, Type: ledger.Liability, Currency: "BDT", Floor: floor("0")}}); err != nil {
			t.Fatal(err)
		}
		expect("it is there", here, "cash", payer, "10", "posted")
		expect("spent there", there, payer, "shop", "8", "posted")
		expect("spent here too", here, payer, "shop", "8", "INSUFFICIENT_FUNDS")
		expect("what is left", here, payer, "shop", "2", "posted")
		expect("and no more", there, payer, "shop", "0.01", "INSUFFICIENT_FUNDS")
		update(there, payer, ledger.AccountUpdate{Floor: floor("-5")})
		expect("a lower floor", here, payer, "shop", "5", "posted")
		update(there, payer, ledger.AccountUpdate{RemoveFloor: true})
		expect("no floor", here, payer, "shop", "100", "posted")
		expect("no floor there", there, payer, "shop", "100", "posted")
		update(here, payer, ledger.AccountUpdate{Floor: floor("-205")})
		expect("a floor again", there, payer, "shop", "1", "INSUFFICIENT_FUNDS")
		update(there, payer, ledger.AccountUpdate{Name: &name})
		update(there, payer, ledger.AccountUpdate{Frozen: &frozen})
		expect("frozen", here, "cash", payer, "1", "ACCOUNT_FROZEN")
		update(there, payer, ledger.AccountUpdate{Frozen: &thawed})
		expect("thawed", here, "cash", payer, "205", "posted")
		update(there, payer, ledger.AccountUpdate{RemoveFloor: true, Serialised: &no})
		expect("plain", here, payer, "cash", "1", "posted")
		expect("plain", here, "cash", payer, "1", "posted")
		update(there, payer, ledger.AccountUpdate{Closed: &yes})
		expect("closed", here, "cash", payer, "1", "ACCOUNT_CLOSED")
	}
	ledgertest.CheckBooks(t, b.db)
}

// What a server remembers is of one run of one PostgreSQL: after a restart, and after a backup was put in its place while
// the server ran on, it decides by what is there.
func TestGroup_PostgresRestored(t *testing.T) {
	t.Parallel()
	s := pgtest.NewServer(t, nil)
	b := benchOn(t, s)
	expect := func(what string, spec ledger.TransferSpec, want string) {
		t.Helper()
		if got := describeAll([]journal.PostResult{b.post(t, spec)}); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	expect("at first", move("IN-1", "cash", "wallet", "10"), "posted")
	super := rawAs(t, s.SuperDSN())
	directory := read[string](t, super, "SHOW data_directory")
	backup := directory + ".backup"
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	s.Stop(t)
	run("cp", "-a", directory, backup)
	s.Restart(t)
	expect("after a restart", move("OUT-1", "wallet", "cash", "10.01"), "INSUFFICIENT_FUNDS")
	for i := range 5 {
		expect("more", move(fmt.Sprintf("IN-2-%d", i), "cash", "wallet", "100"), "posted")
		b.account(t, ledger.AccountID(fmt.Sprintf("lost:%d", i)), ledger.Asset, "BDT", nil)
	}
	expect("an account that will be lost", move("TO-LOST", "lost:0", "shop", "1"), "posted")

	s.Stop(t)
	run("rm", "-r", directory)
	run("mv", backup, directory)
	s.Restart(t)
	expect("what is lost is not spent", move("OUT-2", "wallet", "cash", "10.01"), "INSUFFICIENT_FUNDS")
	expect("what is left is", move("OUT-3", "wallet", "cash", "4"), "posted")
	expect("an account that is lost", move("TO-LOST", "lost:0", "shop", "1"), "ACCOUNT_NOT_FOUND")
	expect("an id that is lost", move("IN-2-0", "cash", "wallet", "1"), "posted")
	// The numbers of these changes were given to other facts before.
	other, _ := open(t, pg.Config{DSN: s.ServiceDSN()}, journal.Config{})
	frozen := ledger.FrozenBoth
	if _, err := other.UpdateAccount(t.Context(), "local", main, "shop", ledger.AccountUpdate{Frozen: &frozen}); err != nil {
		t.Fatal(err)
	}
	expect("a freeze", move("TO-SHOP", "cash", "shop", "1"), "ACCOUNT_FROZEN")
	if _, err := other.UpdateAccount(t.Context(), "local", main, "wallet", ledger.AccountUpdate{Floor: floor("6.50")}); err != nil {
		t.Fatal(err)
	}
	expect("a higher floor", move("OUT-4", "wallet", "cash", "1"), "INSUFFICIENT_FUNDS")
	ledgertest.CheckBooks(t, b.db)
}
