package grpcapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// alteration is a change of a transfer and what it leads to.
type alteration struct {
	name   string
	change func(*khatav1.NewTransfer)
	want   string
}

// badTransfers are requests that decide nothing, and the error of each.
var badTransfers = []alteration{
	{"amount 500.001", amountIs("500.001"), "InvalidArgument AMOUNT_SCALE amount"},
	{"amount 500.000", amountIs("500.000"), "InvalidArgument AMOUNT_SCALE amount"},
	{"amount -5", amountIs("-5"), invalid("amount")},
	{"amount +5", amountIs("+5"), invalid("amount")},
	{"amount 0", amountIs("0"), invalid("amount")},
	{"amount 0.00", amountIs("0.00"), invalid("amount")},
	{"amount 1e3", amountIs("1e3"), invalid("amount")},
	{"amount 1E3", amountIs("1E3"), invalid("amount")},
	{"amount with space", amountIs(" 5"), invalid("amount")},
	{"amount with newline", amountIs("5\n"), invalid("amount")},
	{"amount 05", amountIs("05"), invalid("amount")},
	{"amount .5", amountIs(".5"), invalid("amount")},
	{"amount 5.", amountIs("5."), invalid("amount")},
	{"amount empty", amountIs(""), invalid("amount")},
	{"amount of 39 digits", amountIs(strings.Repeat("9", 39)), invalid("amount")},
	{"amount of 39 digits with decimals", amountIs(strings.Repeat("9", 37) + ".99"), invalid("amount")},
	{"amount of a megabyte", amountIs(strings.Repeat("9", 1<<20)), invalid("amount")},
	{"amount NaN", amountIs("NaN"), invalid("amount")},
	{"amount Infinity", amountIs("Infinity"), invalid("amount")},
	{"amount 1,000", amountIs("1,000"), invalid("amount")},
	{"amount 1_000", amountIs("1_000"), invalid("amount")},
	{"amount 0x10", amountIs("0x10"), invalid("amount")},
	{"amount in Bengali digits", amountIs("৫০০"), invalid("amount")},
	{"amount with NUL", amountIs("5\x00"), invalid("amount")},
	{"amount not UTF-8", amountIs("5\xff"), invalid("amount")},

	{"id empty", func(x *khatav1.NewTransfer) { x.TransferId = "" }, invalid("transfer_id")},
	{"id with space", func(x *khatav1.NewTransfer) { x.TransferId = "a b" }, invalid("transfer_id")},
	{"id of 129 bytes", func(x *khatav1.NewTransfer) { x.TransferId = strings.Repeat("x", 129) }, invalid("transfer_id")},
	{"id reserved", func(x *khatav1.NewTransfer) { x.TransferId = "khata:x" }, invalid("transfer_id")},
	{"id with NUL", func(x *khatav1.NewTransfer) { x.TransferId = "a\x00" }, invalid("transfer_id")},
	{"id not UTF-8", func(x *khatav1.NewTransfer) { x.TransferId = "a\xff" }, invalid("transfer_id")},
	{"id not ASCII", func(x *khatav1.NewTransfer) { x.TransferId = "চালান-1" }, invalid("transfer_id")},
	{"id with DEL", func(x *khatav1.NewTransfer) { x.TransferId = "a\x7f" }, invalid("transfer_id")},

	{"debit account unknown", func(x *khatav1.NewTransfer) { x.DebitAccount = "nobody" }, "NotFound ACCOUNT_NOT_FOUND debit_account"},
	{"credit account unknown", func(x *khatav1.NewTransfer) { x.CreditAccount = "nobody" }, "NotFound ACCOUNT_NOT_FOUND credit_account"},
	{"both accounts unknown", func(x *khatav1.NewTransfer) { x.DebitAccount, x.CreditAccount = "nobody", "noone" },
		"NotFound ACCOUNT_NOT_FOUND debit_account,credit_account"},
	{"debit account empty", func(x *khatav1.NewTransfer) { x.DebitAccount = "" }, invalid("debit_account")},
	{"credit account empty", func(x *khatav1.NewTransfer) { x.CreditAccount = "" }, invalid("credit_account")},
	{"account with NUL", func(x *khatav1.NewTransfer) { x.CreditAccount = "a\x00" }, invalid("credit_account")},
	{"account not UTF-8", func(x *khatav1.NewTransfer) { x.DebitAccount = "a\xff" }, invalid("debit_account")},
	{"account on both sides", func(x *khatav1.NewTransfer) { x.CreditAccount = x.DebitAccount }, invalid("credit_account")},

	{"currency of nobody", func(x *khatav1.NewTransfer) { x.Currency = "USD" }, "InvalidArgument CURRENCY_MISMATCH currency"},
	{"currency malformed", func(x *khatav1.NewTransfer) { x.Currency = "bdt" }, invalid("currency")},
	{"currency not UTF-8", func(x *khatav1.NewTransfer) { x.Currency = "BD\xff" }, invalid("currency")},
	{"currencies of the accounts differ", func(x *khatav1.NewTransfer) { x.DebitAccount, x.Amount = "cash:jpy", "5" }, "InvalidArgument CURRENCY_MISMATCH currency"},
	{"decimals in JPY", func(x *khatav1.NewTransfer) {
		x.DebitAccount, x.CreditAccount, x.Amount = "cash:jpy", "wallet:jpy", "500.0"
	}, "InvalidArgument AMOUNT_SCALE amount"},

	{"description of 1,025 bytes", func(x *khatav1.NewTransfer) { x.Description = strings.Repeat("x", 1025) }, invalid("description")},
	{"description with NUL", func(x *khatav1.NewTransfer) { x.Description = "a\x00b" }, invalid("description")},
	{"description not UTF-8", func(x *khatav1.NewTransfer) { x.Description = "\xff" }, invalid("description")},

	{"metadata over its bound", metadataIs(`{"a":"` + strings.Repeat("x", 16<<10-7) + `"}`), invalid("metadata")},
	{"metadata no JSON", metadataIs("hello"), invalid("metadata")},
	{"metadata no object", metadataIs(`["a"]`), invalid("metadata")},
	{"metadata cut off", metadataIs(`{"a":`), invalid("metadata")},
	{"metadata two values", metadataIs(`{"a":1}{"b":2}`), invalid("metadata")},
	{"metadata key twice", metadataIs(`{"a":1,"a":1}`), invalid("metadata")},
	{"metadata with NUL", metadataIs(`{"a":"\u0000"}`), invalid("metadata")},
	{"metadata not UTF-8", metadataIs("{\"a\":\"\xff\"}"), invalid("metadata")},
	{"metadata nested deep", metadataIs(strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000)), invalid("metadata")},

	{"effective_at finer than a microsecond", effectiveIs(&timestamppb.Timestamp{Seconds: 1, Nanos: 1}), invalid("effective_at")},
	{"effective_at in year 10000", effectiveIs(&timestamppb.Timestamp{Seconds: 253402300800}), invalid("effective_at")},
	{"effective_at in year 0", effectiveIs(&timestamppb.Timestamp{Seconds: -62135596801}), invalid("effective_at")},
	{"effective_at with negative nanos", effectiveIs(&timestamppb.Timestamp{Nanos: -1000}), invalid("effective_at")},

	{"entries besides the shorthand", func(x *khatav1.NewTransfer) {
		x.Entries = []*khatav1.Entry{debit("cash", "5.00"), credit("wallet:a", "5.00")}
	}, invalid("entries")},
	{"entries besides a currency only", func(x *khatav1.NewTransfer) {
		entriesAre(debit("cash", "5.00"), credit("wallet:a", "5.00"))(x)
		x.Currency = "BDT"
	}, invalid("entries")},
	{"neither entries nor shorthand", entriesAre(), invalid("amount")},
	{"one entry", entriesAre(debit("cash", "5.00")), invalid("entries")},
	{"1,001 entries", entriesAre(manyEntries(1001)...), invalid("entries")},
	{"entry without direction", entriesAre(&khatav1.Entry{Account: "cash", Amount: "5.00"}, credit("wallet:a", "5.00")), invalid("entries[0].direction")},
	{"entry with another direction", entriesAre(debit("cash", "5.00"), &khatav1.Entry{Account: "wallet:a", Amount: "5.00", Direction: 7}), invalid("entries[1].direction")},
	{"entry with a bad amount", entriesAre(debit("cash", "5.00"), credit("wallet:a", "2.50"), credit("wallet:b", "2,50")), invalid("entries[2].amount")},
	{"entry with a fine amount", entriesAre(debit("cash", "5.00"), credit("wallet:a", "2.499"), credit("wallet:b", "2.501")), "InvalidArgument AMOUNT_SCALE entries[1].amount"},
	{"entry of an unknown account", entriesAre(debit("cash", "5.00"), credit("nobody", "2.50"), credit("noone", "2.50")),
		"NotFound ACCOUNT_NOT_FOUND entries[1].account,entries[2].account"},
	{"entry of a bad account", entriesAre(debit("cash", "5.00"), credit("wallet:a", "4.00"), credit("a b", "1.00")), invalid("entries[2].account")},
	{"entry in another currency", entriesAre(debit("cash", "5.00"), credit("wallet:a", "4.00"),
		&khatav1.Entry{Account: "wallet:b", Direction: khatav1.Direction_DIRECTION_CREDIT, Amount: "1.00", Currency: "USD"}),
		"InvalidArgument CURRENCY_MISMATCH entries[2].currency"},
	{"entries of one account on both sides", entriesAre(debit("cash", "5.00"), credit("wallet:a", "4.00"), credit("cash", "1.00")), invalid("entries[2].account")},
	{"entries that do not balance", entriesAre(debit("cash", "5.00"), credit("wallet:a", "4.99")), "InvalidArgument UNBALANCED entries"},
	{"entries on one side", entriesAre(debit("cash", "5.00"), debit("wallet:a", "5.00")), "InvalidArgument UNBALANCED entries"},
	{"entries that balance only across currencies", entriesAre(debit("cash", "5"), credit("wallet:jpy", "5")), "InvalidArgument CURRENCY_MISMATCH currency"},
}

// missing is the fault of a request that names what is not there.
func missing(field string) string { return "NotFound NOT_FOUND " + field }

func invalid(field string) string { return "InvalidArgument INVALID_ARGUMENT " + field }

func amountIs(text string) func(*khatav1.NewTransfer) {
	return func(x *khatav1.NewTransfer) { x.Amount = text }
}

func metadataIs(text string) func(*khatav1.NewTransfer) {
	return func(x *khatav1.NewTransfer) { x.Metadata = text }
}

func effectiveIs(at *timestamppb.Timestamp) func(*khatav1.NewTransfer) {
	return func(x *khatav1.NewTransfer) { x.EffectiveAt = at }
}

func entriesAre(list ...*khatav1.Entry) func(*khatav1.NewTransfer) {
	return func(x *khatav1.NewTransfer) {
		x.DebitAccount, x.CreditAccount, x.Amount, x.Entries = "", "", "", list
	}
}

func manyEntries(n int) []*khatav1.Entry {
	list := []*khatav1.Entry{debit("cash", fmt.Sprintf("%d", n-1))}
	for len(list) < n {
		list = append(list, credit("wallet:a", "1"))
	}
	return list
}

func (b *bench) badBench(t *testing.T) {
	t.Helper()
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT", "cash:jpy JPY", "wallet:jpy JPY")
}

func TestPostTransfer_BadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.badBench(t)
	for i, c := range badTransfers {
		transfer := move(fmt.Sprintf("T-%d", i), "cash", "wallet:a", "5.00")
		c.change(transfer)
		if _, err := b.try(t, transfer); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, fault(err), c.want)
		}
		// Nothing was decided, and the id is still free.
		if id := fmt.Sprintf("T-%d", i); transfer.GetTransferId() == id {
			if got := outcome(b.post(t, move(id, "cash", "wallet:b", "0.01"))); got != "posted" {
				t.Errorf("%s: the id is then %s", c.name, got)
			}
		}
	}
	if got := b.balance(t, "wallet:a"); got != "0.00" {
		t.Errorf("bad transfers have moved %s", got)
	}
	if _, err := b.PostTransfer(t.Context(), &khatav1.PostTransferRequest{}); fault(err) != invalid("transfer_id") {
		t.Errorf("no transfer at all: got %s", fault(err))
	}
}

// Each bad transfer stands between two good ones, in one call.
func TestPostTransfers_BadInputLeavesNeighboursAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.badBench(t)
	var transfers []*khatav1.NewTransfer
	var want, got []string
	good := 0
	addGood := func() {
		transfers = append(transfers, move(fmt.Sprintf("good-%d", good), "cash", "wallet:b", "1.00"))
		want = append(want, "posted")
		good++
	}
	for i, c := range badTransfers {
		addGood()
		transfer := move(fmt.Sprintf("bad-%d", i), "cash", "wallet:a", "5.00")
		c.change(transfer)
		transfers = append(transfers, transfer)
		want = append(want, c.want)
	}
	transfers = append(transfers, nil) // an empty message
	want = append(want, invalid("transfer_id"))
	addGood()
	results := b.postAll(t, transfers...)
	var last int64
	for i, r := range results {
		got = append(got, outcomeOrFault(r))
		if r.GetError() != nil {
			continue
		}
		if id := r.GetResult().GetTransferId(); id != transfers[i].GetTransferId() {
			t.Errorf("result %d is of %s", i, id)
		}
		if r.GetResult().GetSequence() <= last {
			t.Errorf("result %d has sequence %d after %d", i, r.GetResult().GetSequence(), last)
		}
		last = r.GetResult().GetSequence()
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if got := b.balance(t, "wallet:a"); got != "0.00" {
		t.Errorf("bad transfers have moved %s", got)
	}
	if got := b.balance(t, "wallet:b"); got != fmt.Sprintf("%d.00", good) {
		t.Errorf("%d good transfers have moved %s", good, got)
	}
}

// What is just inside of each bound is posted.
func TestPostTransfer_EdgesOfTheAllowed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.badBench(t)
	if _, err := b.RegisterCurrency(t.Context(), &khatav1.RegisterCurrencyRequest{Currency: &khatav1.Currency{Code: "FINE", Scale: 30}}); err != nil {
		t.Fatal(err)
	}
	b.accounts(t, "cash:fine FINE", "wallet:fine FINE")
	for name, transfer := range map[string]*khatav1.NewTransfer{
		"38 digits":                  move("T-1", "cash:jpy", "wallet:jpy", strings.Repeat("9", 38)),
		"38 digits with 2 decimals":  move("T-2", "cash", "wallet:a", strings.Repeat("9", 36)+".99"),
		"38 digits with 30 decimals": move("T-3", "cash:fine", "wallet:fine", strings.Repeat("9", 8)+"."+strings.Repeat("9", 30)),
		"smallest":                   move("T-4", "cash:fine", "wallet:fine", "0."+strings.Repeat("0", 29)+"1"),
		"id of 1 character":          move("!", "cash", "wallet:a", "1"),
		"id of 128 characters":       move(strings.Repeat("~", 128), "cash", "wallet:a", "1"),
		"id with khata: inside":      move("x-khata:", "cash", "wallet:a", "1"),
		"1,000 entries":              entries("T-6", manyEntries(1000)...),
		"description of 1,024 bytes": changed(move("T-7", "cash", "wallet:a", "1"), func(x *khatav1.NewTransfer) { x.Description = strings.Repeat("x", 1024) }),
		"metadata of 16 KiB":         changed(move("T-8", "cash", "wallet:a", "1"), metadataIs(`{"a":"`+strings.Repeat("x", 16<<10-8)+`"}`)),
		"year 1":                     changed(move("T-9", "cash", "wallet:a", "1"), effectiveIs(&timestamppb.Timestamp{Seconds: -62135596800})),
		"year 9999":                  changed(move("T-10", "cash", "wallet:a", "1"), effectiveIs(&timestamppb.Timestamp{Seconds: 253402300799, Nanos: 999999000})),
		"before 1970, microseconds":  changed(move("T-11", "cash", "wallet:a", "1"), effectiveIs(&timestamppb.Timestamp{Seconds: -1, Nanos: 1000})),
	} {
		first, err := b.try(t, transfer)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		again := b.post(t, transfer)
		if outcome(first) != "posted" || outcome(again) != "replayed posted" {
			t.Errorf("%s: %s, then %s", name, outcome(first), outcome(again))
		}
		got, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: transfer.GetTransferId()})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(transfer.GetEffectiveAt(), got.GetTransfer().GetEffectiveAt(), protocmp.Transform()); diff != "" {
			t.Errorf("%s: effective_at (-sent +kept):\n%s", name, diff)
		}
		if got.GetTransfer().GetMetadata() != transfer.GetMetadata() || got.GetTransfer().GetDescription() != transfer.GetDescription() {
			t.Errorf("%s: text was not kept", name)
		}
	}
}

func changed(x *khatav1.NewTransfer, change func(*khatav1.NewTransfer)) *khatav1.NewTransfer {
	x = proto.CloneOf(x)
	change(x)
	return x
}

func TestPostTransfers_TooMany(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	many := make([]*khatav1.NewTransfer, 10_001)
	for i := range many {
		many[i] = move(fmt.Sprintf("T-%d", i), "cash", "wallet:a", "0.01")
	}
	_, err := b.PostTransfers(t.Context(), &khatav1.PostTransfersRequest{Transfers: many})
	if got := fault(err); got != invalid("transfers") {
		t.Errorf("10,001 transfers: got %s", got)
	}
	if got := b.balance(t, "wallet:a"); got != "0.00" {
		t.Fatalf("10,001 transfers have moved %s", got)
	}
	for i, r := range b.postAll(t, many[:10_000]...) {
		if got := outcomeOrFault(r); got != "posted" || r.GetResult().GetTransferId() != many[i].GetTransferId() {
			t.Fatalf("result %d of 10,000 is %s of %s", i, got, r.GetResult().GetTransferId())
		}
	}
	if got := b.balance(t, "wallet:a"); got != "100.00" {
		t.Errorf("10,000 transfers have moved %s", got)
	}
	if got := b.postAll(t); len(got) != 0 {
		t.Errorf("no transfers: %v", got)
	}
}

// A call larger than the 4 MiB that gRPC allows by default.
func TestPostTransfers_LargeCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	many := make([]*khatav1.NewTransfer, 400)
	for i := range many {
		many[i] = changed(move(fmt.Sprintf("T-%d", i), "cash", "wallet:a", "1"), metadataIs(`{"a":"`+strings.Repeat("x", 16_000)+`"}`))
	}
	for i, r := range b.postAll(t, many...) {
		if got := outcomeOrFault(r); got != "posted" {
			t.Fatalf("result %d: %s", i, got)
		}
	}
}

func TestPostTransfers_TheSameIDTwice(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT", floored("wallet:poor BDT", "0"))
	equal := entries("T-1", credit("wallet:a", "5"), debit("cash", "5"))
	results := b.postAll(t,
		move("T-1", "cash", "wallet:a", "5.00"),
		move("T-2", "cash", "wallet:b", "1.00"),
		equal,
		move("T-1", "cash", "wallet:a", "6.00"),
		move("T-1", "cash", "wallet:b", "5.00"),
		move("T-3", "wallet:poor", "wallet:b", "9.00"),
		move("T-3", "wallet:poor", "wallet:b", "9.00"),
		move("T-3", "wallet:poor", "wallet:b", "9.01"),
		move("T-4", "cash", "wallet:a", "bad"),
		move("T-4", "cash", "wallet:a", "2.00"),
	)
	want := []string{
		"posted", "posted", "replayed posted", "AlreadyExists ALREADY_EXISTS amount", "AlreadyExists ALREADY_EXISTS credit_account",
		"refused INSUFFICIENT_FUNDS wallet:poor", "replayed refused INSUFFICIENT_FUNDS wallet:poor", "AlreadyExists ALREADY_EXISTS amount",
		invalid("amount"), "posted",
	}
	if diff := cmp.Diff(want, each(results, outcomeOrFault)); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	first, second := results[0].GetResult(), results[2].GetResult()
	if first.GetSequence() != second.GetSequence() || !proto.Equal(first.GetPostedAt(), second.GetPostedAt()) {
		t.Errorf("the pair has two answers: %v and %v", first, second)
	}
	if got := b.balance(t, "wallet:a") + " " + b.balance(t, "wallet:b"); got != "7.00 1.00" {
		t.Errorf("balances %s", got)
	}
}

// Ten posts are one, and so are many at once from two servers.
func TestPostTransfer_ManyTimesIsOnce(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := serve(t, one.db)
	one.accounts(t, "cash BDT", "wallet:a BDT", floored("wallet:poor BDT", "0"))
	for name, transfer := range map[string]*khatav1.NewTransfer{
		"posted":  move("T-1", "cash", "wallet:a", "500.00"),
		"refused": move("T-2", "wallet:poor", "wallet:a", "500.00"),
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var answers []*khatav1.TransferResult
			var clients sync.WaitGroup
			for i := range 40 {
				clients.Go(func() {
					resp, err := []*bench{one, two}[i%2].PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: transfer})
					if err != nil {
						t.Error(err)
					}
					mu.Lock()
					defer mu.Unlock()
					answers = append(answers, resp.GetResult())
				})
			}
			clients.Wait()
			for range 10 {
				answers = append(answers, one.post(t, transfer))
			}
			fresh := 0
			for _, a := range answers {
				if !a.GetReplayed() {
					fresh++
				}
				a.Replayed = false
				if diff := cmp.Diff(answers[0], a, protocmp.Transform()); diff != "" {
					t.Fatalf("two answers (-one +another):\n%s", diff)
				}
			}
			if fresh != 1 {
				t.Errorf("%d of %d answers are not replays", fresh, len(answers))
			}
		})
	}
	if got := two.balance(t, "wallet:a"); got != "500.00" {
		t.Errorf("balance %s", got)
	}
}

// A refusal is final, whatever becomes of the balance (P7).
func TestPostTransfer_RefusalIsFinal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "shop BDT", floored("wallet:a BDT", "0"))
	first := b.post(t, move("T-1", "wallet:a", "shop", "3.00"))
	b.post(t, move("top-up", "cash", "wallet:a", "100.00"))
	again := b.post(t, move("T-1", "wallet:a", "shop", "3"))
	if outcome(first) != "refused INSUFFICIENT_FUNDS wallet:a" || outcome(again) != "replayed "+outcome(first) {
		t.Errorf("%s, then %s", outcome(first), outcome(again))
	}
	if again.GetSequence() != first.GetSequence() || !proto.Equal(again.GetPostedAt(), first.GetPostedAt()) {
		t.Errorf("two answers: %v and %v", first, again)
	}
	if got := outcome(b.post(t, move("T-2", "wallet:a", "shop", "3.00"))); got != "posted" {
		t.Errorf("under a new id: %s", got)
	}
	record, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "T-1"})
	if err != nil {
		t.Fatal(err)
	}
	want := &khatav1.Transfer{
		Ledger: "main", TransferId: "T-1", Outcome: khatav1.Outcome_OUTCOME_REFUSED, Reason: "INSUFFICIENT_FUNDS", ReasonAccount: "wallet:a",
		Sequence: first.GetSequence(), PostedAt: first.GetPostedAt(), Caller: "local",
		Entries: []*khatav1.Entry{inCurrency(debit("wallet:a", "3.00"), "BDT"), inCurrency(credit("shop", "3.00"), "BDT")},
	}
	if diff := cmp.Diff(want, record.GetTransfer(), protocmp.Transform()); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	if got := b.balance(t, "shop") + " " + b.balance(t, "wallet:a"); got != "3.00 97.00" {
		t.Errorf("balances %s", got)
	}
}

func inCurrency(e *khatav1.Entry, currency string) *khatav1.Entry {
	e.Currency = currency
	return e
}

func fullTransfer(id string) *khatav1.NewTransfer {
	x := move(id, "cash", "wallet:a", "500.00")
	x.Currency = "BDT"
	x.EffectiveAt = timestamppb.New(time.Date(2026, 11, 29, 12, 0, 0, 123456000, time.UTC))
	x.Description = "for tea"
	x.Metadata = `{"order":"77","lines":[1,2.50]}`
	return x
}

func fullEntries(id string) *khatav1.NewTransfer {
	x := fullTransfer(id)
	entriesAre(debit("cash", "500.00"), credit("wallet:a", "490.00"), credit("wallet:b", "10.00"))(x)
	x.Currency = ""
	return x
}

// Each field of a recorded transfer altered in turn is a conflict that names that field and no other.
func TestPostTransfer_OtherContentIsNamed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "cash:2 BDT", "wallet:a BDT", "wallet:b BDT", "wallet:usd USD", floored("wallet:poor BDT", "0"))
	common := []alteration{
		{"effective_at absent", effectiveIs(nil), "effective_at"},
		{"effective_at a microsecond later", func(x *khatav1.NewTransfer) { x.EffectiveAt.Nanos += 1000 }, "effective_at"},
		{"description absent", func(x *khatav1.NewTransfer) { x.Description = "" }, "description"},
		{"description with a space", func(x *khatav1.NewTransfer) { x.Description += " " }, "description"},
		{"metadata absent", metadataIs(""), "metadata"},
		{"metadata with another value", metadataIs(`{"order":"78","lines":[1,2.50]}`), "metadata"},
		{"metadata with a number for a string", metadataIs(`{"order":77,"lines":[1,2.50]}`), "metadata"},
		{"metadata with another order of an array", metadataIs(`{"order":"77","lines":[2.50,1]}`), "metadata"},
		{"metadata with another key", metadataIs(`{"order":"77","lines":[1,2.50],"x":null}`), "metadata"},
		{"two fields", func(x *khatav1.NewTransfer) { x.Description, x.Metadata = "", "" }, "description,metadata"},
	}
	short := []alteration{
		{"amount", amountIs("500.01"), "amount"},
		{"debit account", func(x *khatav1.NewTransfer) { x.DebitAccount = "cash:2" }, "debit_account"},
		{"credit account", func(x *khatav1.NewTransfer) { x.CreditAccount = "wallet:b" }, "credit_account"},
		{"sides", func(x *khatav1.NewTransfer) {
			x.DebitAccount, x.CreditAccount = x.CreditAccount, x.DebitAccount
		}, "debit_account,credit_account"},
		{"currency", func(x *khatav1.NewTransfer) { x.Currency = "USD" }, "currency"},
		{"an account that does not exist", func(x *khatav1.NewTransfer) { x.CreditAccount = "nobody" }, "credit_account"},
		{"amount as two entries", entriesAnd("BDT", debit("cash", "400"), credit("wallet:a", "400")), "amount"},
		{"entries instead", entriesAnd("BDT", debit("cash", "500"), credit("wallet:a", "490"), credit("wallet:b", "10")), "entries"},
		{"all of it", func(x *khatav1.NewTransfer) {
			id := x.GetTransferId()
			x.Reset()
			proto.Merge(x, move(id, "cash:2", "wallet:b", "1"))
		}, "debit_account,credit_account,amount,effective_at,description,metadata"},
	}
	long := []alteration{
		{"two amounts", entriesAre(debit("cash", "500"), credit("wallet:a", "489.99"), credit("wallet:b", "10.01")), "entries"},
		{"all amounts", entriesAre(debit("cash", "501"), credit("wallet:a", "491"), credit("wallet:b", "10")), "entries"},
		{"an account", entriesAre(debit("cash:2", "500"), credit("wallet:a", "490"), credit("wallet:b", "10")), "entries"},
		{"accounts swapped", entriesAre(debit("cash", "500"), credit("wallet:b", "490"), credit("wallet:a", "10")), "entries"},
		{"directions", entriesAre(credit("cash", "500"), debit("wallet:a", "490"), debit("wallet:b", "10")), "entries"},
		{"an entry split", entriesAre(debit("cash", "500"), credit("wallet:a", "490"), credit("wallet:b", "5"), credit("wallet:b", "5")), "entries"},
		{"a currency", entriesAre(debit("cash", "500"), credit("wallet:a", "490"), inCurrency(credit("wallet:b", "10"), "USD")), "entries"},
		{"the shorthand instead", func(x *khatav1.NewTransfer) {
			x.Entries, x.DebitAccount, x.CreditAccount, x.Amount = nil, "cash", "wallet:a", "500"
		}, "entries"},
	}
	for _, kind := range []struct {
		name   string
		record *khatav1.NewTransfer
		tables [][]alteration
	}{
		{"shorthand", fullTransfer("T-short"), [][]alteration{common, short}},
		{"entries", fullEntries("T-long"), [][]alteration{common, long}},
	} {
		first := b.post(t, kind.record)
		for _, table := range kind.tables {
			for _, c := range table {
				altered := changed(kind.record, c.change)
				if _, err := b.try(t, altered); fault(err) != "AlreadyExists ALREADY_EXISTS "+c.want {
					t.Errorf("%s, %s: got %s, want %s", kind.name, c.name, fault(err), c.want)
				}
				if got := outcomeOrFault(b.postAll(t, altered)[0]); got != "AlreadyExists ALREADY_EXISTS "+c.want {
					t.Errorf("%s, %s, in a call of many: got %s, want %s", kind.name, c.name, got, c.want)
				}
			}
		}
		if again := b.post(t, kind.record); !again.GetReplayed() || again.GetSequence() != first.GetSequence() {
			t.Errorf("%s: afterwards the record is %v", kind.name, again)
		}
	}
	b.post(t, move("T-refused", "wallet:poor", "cash", "1"))
	if _, err := b.try(t, move("T-refused", "wallet:poor", "cash", "0.5")); fault(err) != "AlreadyExists ALREADY_EXISTS amount" {
		t.Errorf("a refused transfer with another amount: got %s", fault(err))
	}
	if got := b.balance(t, "wallet:a") + " " + b.balance(t, "wallet:b"); got != "990.00 10.00" {
		t.Errorf("balances %s", got)
	}
}

func entriesAnd(currency string, list ...*khatav1.Entry) func(*khatav1.NewTransfer) {
	return func(x *khatav1.NewTransfer) {
		entriesAre(list...)(x)
		x.Currency = ""
		for _, e := range x.GetEntries() {
			e.Currency = currency
		}
	}
}

// The same content written otherwise is the same request.
func TestPostTransfer_EqualContentIsReplayed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT")
	for name, kind := range map[string]struct {
		record  *khatav1.NewTransfer
		changes map[string]func(*khatav1.NewTransfer)
	}{
		"shorthand": {fullTransfer("T-short"), map[string]func(*khatav1.NewTransfer){
			"nothing changed":     func(*khatav1.NewTransfer) {},
			"amount 500":          amountIs("500"),
			"amount 500.0":        amountIs("500.0"),
			"no currency":         func(x *khatav1.NewTransfer) { x.Currency = "" },
			"metadata rewritten":  metadataIs(" {\n\"lines\" : [ 1.0, 25e-1 ],\t\"or\\u0064er\":\"7\\u0037\"} "),
			"two entries":         entriesAnd("BDT", debit("cash", "500.00"), credit("wallet:a", "500.00")),
			"two entries swapped": entriesAnd("", credit("wallet:a", "500"), debit("cash", "500.0")),
		}},
		"entries": {fullEntries("T-long"), map[string]func(*khatav1.NewTransfer){
			"nothing changed": func(*khatav1.NewTransfer) {},
			"another order":   entriesAre(credit("wallet:b", "10"), debit("cash", "500"), credit("wallet:a", "490.0")),
			"with currencies": entriesAnd("BDT", debit("cash", "500"), credit("wallet:a", "490"), credit("wallet:b", "10")),
		}},
	} {
		first := b.post(t, kind.record)
		first.Replayed = true
		for what, change := range kind.changes {
			again, err := b.try(t, changed(kind.record, change))
			if err != nil {
				t.Errorf("%s, %s: %v", name, what, err)
			} else if diff := cmp.Diff(first, again, protocmp.Transform()); diff != "" {
				t.Errorf("%s, %s: another answer (-first +again):\n%s", name, what, diff)
			}
		}
	}
	// What is no amount of its currency was never what was posted, whatever its value.
	if _, err := b.try(t, changed(fullTransfer("T-short"), amountIs("500.000"))); fault(err) != "InvalidArgument AMOUNT_SCALE amount" {
		t.Errorf("500.000 again: %s", fault(err))
	}
	if got := b.balance(t, "wallet:a") + " " + b.balance(t, "wallet:b"); got != "990.00 10.00" {
		t.Errorf("balances %s", got)
	}
}

// Ledgers are separate books: one id in two of them is two transfers.
func TestPostTransfer_LedgersAreSeparate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, name := range []string{"shop", "shop"} { // To create it again is no error.
		if _, err := b.CreateLedger(t.Context(), &khatav1.CreateLedgerRequest{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := b.ListLedgers(t.Context(), &khatav1.ListLedgersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"main", "shop"}, each(list.GetLedgers(), (*khatav1.Ledger).GetName)); diff != "" {
		t.Errorf("ledgers (-want +got):\n%s", diff)
	}
	b.accounts(t, "cash BDT", "wallet:a BDT")
	in := &khatav1.PostTransferRequest{Ledger: "shop", Transfer: move("T-1", "cash", "wallet:a", "2.00")}
	if _, err := b.PostTransfer(t.Context(), in); fault(err) != "NotFound ACCOUNT_NOT_FOUND debit_account,credit_account" {
		t.Errorf("accounts of main in shop: %s", fault(err))
	}
	if _, err := b.CreateAccounts(t.Context(), &khatav1.CreateAccountsRequest{
		Ledger: "shop", Accounts: []*khatav1.NewAccount{account("cash JPY"), account("wallet:a JPY")},
	}); err != nil {
		t.Fatal(err)
	}
	in.Transfer.Amount = "2"
	if resp, err := b.PostTransfer(t.Context(), in); err != nil || outcome(resp.GetResult()) != "posted" {
		t.Errorf("in shop: %v %v", resp, err)
	}
	if got := outcome(b.post(t, move("T-1", "cash", "wallet:a", "5.00"))); got != "posted" {
		t.Errorf("in main: %s", got)
	}
	other, err := b.GetBalance(t.Context(), &khatav1.GetBalanceRequest{Ledger: "shop", Account: "wallet:a"})
	if got := b.balance(t, "wallet:a") + " " + other.GetBalance().GetPosted(); got != "5.00 2" || err != nil {
		t.Errorf("balances %s %v", got, err)
	}
	in.Ledger = "nowhere"
	if _, err := b.PostTransfer(t.Context(), in); fault(err) != "NotFound LEDGER_NOT_FOUND" {
		t.Errorf("in no ledger: %s", fault(err))
	}
}

// Wei: more digits than a float, an int64 or a uint64 has survive on every way in and out.
func TestPostTransfer_WeiSurviveExactly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 2 {
		if _, err := b.RegisterCurrency(t.Context(), &khatav1.RegisterCurrencyRequest{Currency: &khatav1.Currency{Code: "ETH", Scale: 18}}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := b.RegisterCurrency(t.Context(), &khatav1.RegisterCurrencyRequest{Currency: &khatav1.Currency{Code: "ETH", Scale: 8}})
	if got := fault(err); got != "AlreadyExists ALREADY_EXISTS scale" {
		t.Errorf("with another scale: %s", got)
	}
	const (
		amount = "1000000000.000000000000000001" // 10^27 + 1 wei
		twice  = "2000000000.000000000000000002"
		none   = "0.000000000000000000"
	)
	b.accounts(t, "cash:eth ETH", floored("vault ETH", "0.000000000000000001"))
	transfer := move("T-1", "cash:eth", "vault", amount)
	want := []*khatav1.Balance{
		{Account: "cash:eth", Currency: "ETH", Posted: amount, Available: amount, Held: none, Incoming: none},
		{Account: "vault", Currency: "ETH", Posted: amount, Available: amount, Held: none, Incoming: none},
	}
	for range 2 {
		resp, err := b.PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: transfer, IncludeBalances: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, balance := range want {
			balance.Version = resp.GetResult().GetSequence()
		}
		if diff := cmp.Diff(want, resp.GetResult().GetBalances(), protocmp.Transform()); diff != "" {
			t.Errorf("resulting balances (-want +got):\n%s", diff)
		}
	}
	if _, err := b.try(t, changed(transfer, amountIs("1000000000.000000000000000002"))); fault(err) != "AlreadyExists ALREADY_EXISTS amount" {
		t.Errorf("one wei more: %s", fault(err))
	}
	b.post(t, move("T-2", "cash:eth", "vault", amount))
	if got := b.balance(t, "vault"); got != twice {
		t.Errorf("balance %s, want %s", got, twice)
	}
	// One wei decides.
	if got := outcome(b.post(t, move("T-3", "vault", "cash:eth", twice))); got != "refused INSUFFICIENT_FUNDS vault" {
		t.Errorf("all of it: %s", got)
	}
	if got := outcome(b.post(t, move("T-4", "vault", "cash:eth", "2000000000.000000000000000001"))); got != "posted" {
		t.Errorf("all but one wei: %s", got)
	}
	record, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "T-1"})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range record.GetTransfer().GetEntries() {
		if e.GetAmount() != amount || e.GetCurrency() != "ETH" {
			t.Errorf("GetTransfer has %s %s", e.GetAmount(), e.GetCurrency())
		}
	}
	list, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: "vault"})
	if err != nil {
		t.Fatal(err)
	}
	got := each(list.GetEntries(), func(e *khatav1.AccountEntry) string {
		return fmt.Sprintf("%s %s → %s", strings.ToLower(strings.TrimPrefix(e.GetDirection().String(), "DIRECTION_")), e.GetAmount(), e.GetBalance())
	})
	if diff := cmp.Diff([]string{
		"credit " + amount + " → " + amount,
		"credit " + amount + " → " + twice,
		"debit 2000000000.000000000000000001 → 0.000000000000000001",
	}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	b.accounts(t, "cash:idle ETH")
	if got := b.balance(t, "cash:idle"); got != none {
		t.Errorf("an empty account has %s", got)
	}
	vault, err := b.GetAccount(t.Context(), &khatav1.GetAccountRequest{Account: "vault"})
	if err != nil || vault.GetAccount().GetFloor() != "0.000000000000000001" || vault.GetAccount().GetScale() != 18 {
		t.Errorf("account %v %v", vault.GetAccount(), err)
	}
}

// Several currencies in one transfer, when each balances.
func TestPostTransfer_SeveralCurrencies(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.badBench(t)
	resp, err := b.PostTransfer(t.Context(), &khatav1.PostTransferRequest{IncludeBalances: true, Transfer: entries("T-1",
		debit("cash", "75.50"), credit("wallet:a", "75.50"), debit("wallet:jpy", "100"), credit("cash:jpy", "60"), credit("cash:jpy", "40"))})
	if err != nil {
		t.Fatal(err)
	}
	got := each(resp.GetResult().GetBalances(), func(x *khatav1.Balance) string {
		return x.GetAccount() + " " + x.GetPosted() + " " + x.GetCurrency()
	})
	want := []string{"cash 75.50 BDT", "wallet:a 75.50 BDT", "wallet:jpy -100 JPY", "cash:jpy -100 JPY"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("balances (-want +got):\n%s", diff)
	}
}

// The balances in an answer are those of its sequence, and the same at every replay.
func TestPostTransfer_ResultingBalancesStay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", floored("wallet:a BDT", "0"), "wallet:b BDT")
	post := func(x *khatav1.NewTransfer) *khatav1.TransferResult {
		t.Helper()
		resp, err := b.PostTransfer(t.Context(), &khatav1.PostTransferRequest{Transfer: x, IncludeBalances: true})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetResult()
	}
	var firsts []*khatav1.TransferResult
	transfers := []*khatav1.NewTransfer{
		move("T-1", "cash", "wallet:a", "10.00"),
		entries("T-2", debit("wallet:a", "4.00"), credit("wallet:b", "1.00"), credit("wallet:b", "3.00")),
		move("T-3", "wallet:a", "wallet:b", "100.00"), // refused
		move("T-4", "wallet:a", "wallet:b", "6.00"),
	}
	for _, x := range transfers {
		firsts = append(firsts, post(x))
	}
	wants := [][]string{
		{"cash 10.00", "wallet:a 10.00"}, {"wallet:a 6.00", "wallet:b 4.00"}, {"wallet:a 6.00", "wallet:b 4.00"}, {"wallet:a 0.00", "wallet:b 10.00"},
	}
	for i, first := range firsts {
		got := each(first.GetBalances(), func(x *khatav1.Balance) string { return x.GetAccount() + " " + x.GetPosted() })
		if diff := cmp.Diff(wants[i], got); diff != "" {
			t.Errorf("%s: balances (-want +got):\n%s", first.GetTransferId(), diff)
		}
	}
	many, err := b.PostTransfers(t.Context(), &khatav1.PostTransfersRequest{Transfers: append(transfers, move("bad", "cash", "x", "-1")), IncludeBalances: true})
	if err != nil {
		t.Fatal(err)
	}
	for i, first := range firsts {
		want := proto.CloneOf(first)
		want.Replayed = true
		for _, again := range []*khatav1.TransferResult{post(transfers[i]), many.GetResults()[i].GetResult()} {
			if diff := cmp.Diff(want, again, protocmp.Transform()); diff != "" {
				t.Errorf("replay of %s (-first +again):\n%s", first.GetTransferId(), diff)
			}
		}
	}
	if got := outcomeOrFault(many.GetResults()[len(firsts)]); got != invalid("amount") {
		t.Errorf("the bad one among them: %s", got)
	}
	if plain := b.post(t, transfers[0]); len(plain.GetBalances()) != 0 {
		t.Errorf("balances that nobody asked for: %v", plain.GetBalances())
	}
}
