package importer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/importer"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const header = "transfer_id,debit_account,credit_account,amount,currency,effective_at,description,metadata\n"

// file makes a file of n good lines, each of 1.00 to one of ten wallets.
func file(n int) string {
	var text strings.Builder
	text.WriteString(header)
	for i := range n {
		fmt.Fprintf(&text, "T%d,asset:cash,liability:%d,1.00,BDT,,,\n", i+1, i%10)
	}
	return text.String()
}

// run imports a text and gives the problems too.
func run(t *testing.T, books importer.Books, text string, config importer.Config) (importer.Summary, []string) {
	t.Helper()
	var problems []string
	config.Problem = func(p importer.Problem) error {
		problems = append(problems, fmt.Sprintf("%d %s %s: %s", p.Line, p.TransferID, p.Outcome, p.Reason))
		return nil
	}
	s, err := importer.Run(t.Context(), books, strings.NewReader(text), config)
	if err != nil {
		t.Fatal(err)
	}
	s.Elapsed = 0
	return s, problems
}

func same(t *testing.T, got, want importer.Summary, problems []string, prefixes ...string) {
	t.Helper()
	if got != want {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	if len(problems) != len(prefixes) {
		t.Fatalf("%d problems, want %d:\n%s", len(problems), len(prefixes), strings.Join(problems, "\n"))
	}
	for i, p := range problems {
		if !strings.HasPrefix(p, prefixes[i]) {
			t.Errorf("%s\nwant %s", p, prefixes[i])
		}
	}
}

func TestImport_EveryOutcome(t *testing.T) {
	t.Parallel()
	b := setup(t)
	zero, err := ledger.ParseBalance("0", "floor")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateAccounts(t.Context(), []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "poor", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		{ID: "yen", Type: ledger.Asset, Currency: "JPY"},
	}); err != nil {
		t.Fatal(err)
	}
	text := header +
		"T1,cash,poor,5.00,BDT,,,\n" +
		"T2,poor,cash,5.01,BDT,,,\n" +
		"T3,poor,nobody,1.00,BDT,,,\n" +
		"T1,cash,poor,5,BDT,,,\n" +
		"T1,cash,poor,6.00,BDT,,,\n" +
		"T4,cash,poor,1.001,BDT,,,\n" +
		"T5,cash,yen,1,,,,\n" +
		"T6,cash,poor,x,BDT,,,\n" +
		"T7,poor,cash,5.00,BDT,,,\n"
	reasons := []string{
		"3 T2 refused: insufficient funds of account poor",
		"4 T3 wrong: account nobody does not exist: create it (khata account create nobody --type TYPE --currency BDT), or import with --create-accounts",
		"6 T1 conflict: transfer_id \"T1\" is taken by a transfer with other content: amount: differs",
		"7 T4 wrong: amount scale: amount: has 3 decimals, BDT has 2",
		"8 T5 wrong: currency mismatch: currency: the debit account is in BDT, the credit account in JPY",
		"9 T6 wrong: invalid argument: amount: \"x\" is not an amount",
	}
	for _, batch := range []int{1000, 1, 2} { // the order of the file holds, whatever shares a call
		s, problems := run(t, b, text, importer.Config{Batch: batch})
		want := importer.Summary{Lines: 9, Posted: 2, Replayed: 1, Refused: 1, Wrong: 5, Conflicts: 1}
		if batch != 1000 {
			want.Posted, want.Replayed = 0, 3
		}
		same(t, s, want, problems, reasons...)
	}
}

// A payment waits for the deposit that it needs, even where each is a call of its own and many are under way.
func TestImport_KeepsOrderWhereItMatters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	zero, err := ledger.ParseBalance("0", "floor")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateAccounts(t.Context(), []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "w1", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
		{ID: "w2", Type: ledger.Liability, Currency: "BDT", Floor: &zero},
	}); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	text.WriteString(header)
	for i := range 30 {
		fmt.Fprintf(&text, "in%d,cash,w1,1,,,,\nmove%d,w1,w2,1,,,,\nout%d,w2,cash,1,,,,\nout%d,w2,cash,1,,,again,\n", i, i, i, i)
	}
	// The later a call, the sooner it is sent.
	books := &watched{Books: b, before: func(call int64, _ []ledger.TransferSpec) { time.Sleep(time.Duration(8-call%8) * time.Millisecond) }}
	s, problems := run(t, books, text.String(), importer.Config{Batch: 1, InFlight: 8})
	if s.Posted != 90 || s.Conflicts != 30 || s.Lines != 120 {
		t.Errorf("%+v, %q", s, problems)
	}
}

// Without a floor nothing waits: calls overlap.
func TestImport_CallsOverlap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var under sync.WaitGroup
	under.Add(3)
	books := &watched{Books: b, before: func(call int64, _ []ledger.TransferSpec) {
		if call <= 3 { // each waits for the other two
			under.Done()
			under.Wait()
		}
	}}
	s, _ := run(t, books, file(40), importer.Config{Batch: 10, InFlight: 3, CreateAccounts: true})
	if s.Posted != 40 {
		t.Errorf("%+v", s)
	}
}

func TestImport_CreateAccounts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	m, err := importer.ParseMap([]byte(`{"accounts": [
		{"prefix": "wallet:", "type": "liability", "currency": "BDT"}, {"prefix": "cash", "type": "asset"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	text := header +
		"T1,cash,wallet:1,5.00,BDT,,,\n" +
		"T2,cash,wallet:2,5.00,,,,\n" +
		"T3,cash,fees,5.00,BDT,,,\n" +
		"T4,cashes,wallet:1,5.00,,,,\n" +
		"T5,cash,wallet:3,5.00,XXY,,,\n" +
		"T6,cash,wallet:4,0.00,BDT,,,\n"
	s, problems := run(t, b, text, importer.Config{Map: m, CreateAccounts: true})
	// wallet:4 is only on a line that is wrong, and is not made.
	same(t, s, importer.Summary{Lines: 6, Posted: 2, Wrong: 4, AccountsCreated: 3}, problems,
		`4 T3 wrong: account fees does not exist, and no rule says of what type to create it: its id begins with none of "wallet:", "cash"`,
		`5 T4 wrong: account cashes does not exist, and neither the line nor a rule says in what currency`,
		`6 T5 wrong: account wallet:3 does not exist and cannot be created: `,
		`7 T6 wrong: invalid argument: amount: "0.00" is not positive`)
	// Made by hand meanwhile, and not as the rules would: it is there, and that is all that matters.
	if _, err := b.CreateAccount(t.Context(), ledger.AccountSpec{ID: "fees", Type: ledger.Revenue, Currency: "BDT", Name: "Fees"}); err != nil {
		t.Fatal(err)
	}
	s, _ = run(t, b, text, importer.Config{Map: m})
	same(t, s, importer.Summary{Lines: 6, Posted: 1, Replayed: 2, Wrong: 3}, nil)
}

func TestImport_NDJSON(t *testing.T) {
	t.Parallel()
	b := setup(t)
	text := `{"transfer_id":"T1","entries":[{"account":"asset:cash","direction":"debit","amount":"5.00","currency":"BDT"},` +
		`{"account":"liability:1","direction":"credit","amount":"4.90","currency":"BDT"},{"account":"revenue:fees","direction":"credit","amount":"0.10","currency":"BDT"}]}` + "\n"
	s, _ := run(t, b, text, importer.Config{CreateAccounts: true})
	same(t, s, importer.Summary{Lines: 1, Posted: 1, AccountsCreated: 3}, nil)
	if got := b.balance(t, "revenue:fees"); got != "0.1" {
		t.Errorf("fees are %s", got)
	}
	// What Convert writes is the same transfer.
	var out strings.Builder
	if _, err := importer.Convert(t.Context(), strings.NewReader(text), &out, importer.Config{}); err != nil {
		t.Fatal(err)
	}
	s, _ = run(t, b, out.String(), importer.Config{})
	same(t, s, importer.Summary{Lines: 1, Replayed: 1}, nil)
}

// Calls stay within what the server commits at once, so that one is decided as a whole.
func TestImport_ManyEntries(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var text strings.Builder
	enc := json.NewEncoder(&text)
	for i := range 12 {
		var entries []map[string]string
		for k := range 999 {
			entries = append(entries, map[string]string{"account": fmt.Sprintf("liability:%d", k), "direction": "credit", "amount": "1"})
		}
		entries = append(entries, map[string]string{"account": "asset:cash", "direction": "debit", "amount": "999"})
		for _, e := range entries {
			e["currency"] = "JPY"
		}
		if err := enc.Encode(map[string]any{"transfer_id": fmt.Sprintf("T%d", i), "entries": entries}); err != nil {
			t.Fatal(err)
		}
	}
	books := &watched{Books: b, before: func(_ int64, specs []ledger.TransferSpec) {
		if len(specs) > 5 {
			t.Errorf("a call of %d transfers of 1,000 entries", len(specs))
		}
	}}
	s, _ := run(t, books, text.String(), importer.Config{CreateAccounts: true})
	same(t, s, importer.Summary{Lines: 12, Posted: 12, AccountsCreated: 1000}, nil)
}

// The import is ended after a few calls, in each way that one can end, and run again.
func TestImport_RunAgain(t *testing.T) {
	t.Parallel()
	const n = 5000
	impatient := client.Options{Patience: 300 * time.Millisecond} // with a server that is gone
	for name, end := range map[string]func(b *bench, cancel context.CancelFunc){
		"cancelled":      func(_ *bench, cancel context.CancelFunc) { cancel() },
		"server stopped": func(b *bench, _ context.CancelFunc) { b.grpc.Stop() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// The calls that are under way then are cut off. The first may be one of them, whatever has come back before it: something must have been counted.
			var counted atomic.Bool
			var once sync.Once
			books := &watched{Books: b.dial(t, impatient), after: func(call int64) {
				if call >= 5 && counted.Load() {
					once.Do(func() { end(b, cancel) })
				}
			}}
			config := importer.Config{Batch: 200, CreateAccounts: true, Progress: func(s importer.Summary, _ int64) { counted.Store(s.Posted > 0) }}
			first, err := importer.Run(ctx, books, strings.NewReader(file(n)), config)
			var stopped *importer.StoppedError
			if !errors.As(err, &stopped) || first.Posted == 0 || first.Posted == n {
				t.Fatalf("%v: %+v", err, first)
			}
			t.Logf("%v: %+v", err, first)
			if stored := b.count(t, "SELECT count(*) FROM transfer"); stored < first.Posted || stored == n {
				t.Errorf("%d posted, %d stored", first.Posted, stored)
			}
			// All lines before the one that it stopped at are there.
			if want := stopped.Line - 2; b.count(t, "SELECT count(*) FROM transfer WHERE substr(transfer_id, 2)::int <= "+fmt.Sprint(want)) != want {
				t.Errorf("not every line before line %d is there", stopped.Line)
			}
			if name == "server stopped" {
				b.serve(t)
			}
			s, problems := run(t, b, file(n), config)
			if s.Posted+s.Replayed != n || s.Replayed < first.Posted || len(problems) > 0 {
				t.Errorf("again: %+v %q", s, problems)
			}
			if stored := b.count(t, "SELECT count(*) FROM transfer"); stored != n {
				t.Errorf("%d of %d are stored", stored, n)
			}
			if got := b.balance(t, "asset:cash"); got != fmt.Sprint(n) {
				t.Errorf("the cash is %s, want %d", got, n)
			}
		})
	}
}

// A server that goes and comes back, and a database that throws everyone out, cost time only.
func TestImport_GoesOnThroughFaults(t *testing.T) {
	t.Parallel()
	const n = 6000
	b := setup(t)
	var down sync.WaitGroup
	books := &watched{Books: b, after: func(call int64) {
		switch call {
		case 4:
			b.grpc.Stop()
			down.Go(func() {
				time.Sleep(50 * time.Millisecond)
				b.serve(t)
			})
		case 12, 20:
			b.db.KillBackends(t)
		}
	}}
	s, problems := run(t, books, file(n), importer.Config{Batch: 200, CreateAccounts: true})
	down.Wait()
	if s.Posted+s.Replayed != n || len(problems) > 0 {
		t.Errorf("%+v %q", s, problems)
	}
	if stored := b.count(t, "SELECT count(*) FROM transfer"); stored != n {
		t.Errorf("%d of %d are stored", stored, n)
	}
	if got := b.balance(t, "asset:cash"); got != fmt.Sprint(n) {
		t.Errorf("the cash is %s, want %d", got, n)
	}
}

func TestImport_NoLedger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s, err := importer.Run(t.Context(), b.WithLedger("nobody"), strings.NewReader(file(3)), importer.Config{CreateAccounts: true})
	var stopped *importer.StoppedError
	if !errors.As(err, &stopped) || stopped.Line != 2 || !errors.Is(err, ledger.CodeLedgerNotFound) || s.Lines != 0 {
		t.Errorf("%v: %+v", err, s)
	}
}

// fake is books that are fast, for tests of the importer alone.
type fake struct {
	post func([]ledger.TransferSpec) ([]client.Result, error)
}

func (f fake) PostTransfers(_ context.Context, specs []ledger.TransferSpec) ([]client.Result, error) {
	if f.post != nil {
		return f.post(specs)
	}
	return make([]client.Result, len(specs)), nil
}

func (fake) Account(_ context.Context, id ledger.AccountID) (ledger.Account, error) {
	return ledger.Account{ID: id}, nil
}

func (fake) CreateAccounts(context.Context, []ledger.AccountSpec) ([]client.CreatedAccount, error) {
	return nil, nil
}

// Some of a call stay open however long the client tries: the import stops at the first, and counts the others.
func TestImport_StopsAtWhatIsOpen(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	books := fake{post: func(specs []ledger.TransferSpec) ([]client.Result, error) {
		results := make([]client.Result, len(specs))
		if calls.Add(1); specs[0].ID == "T21" {
			results[3].Err = ledger.CodeUnavailable
		}
		return results, nil
	}}
	s, err := importer.Run(t.Context(), books, strings.NewReader(file(100_000)), importer.Config{Batch: 10})
	var stopped *importer.StoppedError
	if !errors.As(err, &stopped) || stopped.Line != 25 || !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("%v", err)
	}
	if n := calls.Load(); s.Posted != int(n)*10-1 || n > 100 {
		t.Errorf("%d calls: %+v", n, s)
	}
}

func TestImport_ProblemsInOrder(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	text.WriteString(header)
	for i := range 1000 {
		fmt.Fprintf(&text, "T%d,a,b,%s,,,,\n", i, []string{"1", "x"}[i%2])
	}
	books := fake{post: func(specs []ledger.TransferSpec) ([]client.Result, error) {
		time.Sleep(time.Duration(len(specs[0].ID)) * time.Millisecond)
		return make([]client.Result, len(specs)), nil
	}}
	var found []int
	stop := errors.New("the disk is full")
	config := importer.Config{Batch: 7, Problem: func(p importer.Problem) error {
		if found = append(found, p.Line); len(found) == 300 {
			return stop
		}
		return nil
	}}
	_, err := importer.Run(t.Context(), books, strings.NewReader(text.String()), config)
	var stopped *importer.StoppedError
	if !errors.Is(err, stop) || !errors.As(err, &stopped) || stopped.Line != 601 {
		t.Errorf("%v", err)
	}
	if len(found) != 300 || !slices.IsSorted(found) || found[0] != 3 || found[299] != 601 {
		t.Errorf("%v", found)
	}
}

// The file breaks off, or nothing more comes from a pipe.
func TestImport_InputFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("the disk is gone")
	in := io.MultiReader(strings.NewReader(file(25)), failing{broken})
	s, err := importer.Run(t.Context(), fake{}, in, importer.Config{Batch: 10})
	var stopped *importer.StoppedError
	if !errors.Is(err, broken) || !errors.As(err, &stopped) || stopped.Line != 27 || s.Posted != 25 {
		t.Errorf("%v: %+v", err, s)
	}

	ctx, cancel := context.WithCancel(t.Context())
	pipe, writer := io.Pipe()
	defer writer.Close()
	go func() { _, _ = io.WriteString(writer, file(25)) }()
	var calls atomic.Int64
	books := fake{post: func(specs []ledger.TransferSpec) ([]client.Result, error) {
		if calls.Add(1) == 2 {
			cancel()
		}
		return make([]client.Result, len(specs)), nil
	}}
	done := make(chan error, 1)
	go func() {
		_, err := importer.Run(ctx, books, pipe, importer.Config{Batch: 10})
		done <- err
	}()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) || !errors.As(err, &stopped) {
			t.Errorf("%v", err)
		}
	case <-time.After(soon):
		t.Fatal("the import waits for a pipe in which nothing comes")
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
