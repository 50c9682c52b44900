package grpcapi_test

import (
	"encoding/base64"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/testing/protocmp"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// listEntries goes through all pages. between is called before each, and may be nil.
func (b *bench) listEntries(t testing.TB, account string, newestFirst bool, pageSize int32, between func()) []*khatav1.AccountEntry {
	t.Helper()
	return all(t, func(token string) ([]*khatav1.AccountEntry, string, error) {
		if between != nil {
			between()
		}
		resp, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{
			Account: account, NewestFirst: newestFirst, PageSize: pageSize, PageToken: token,
		})
		if int32(len(resp.GetEntries())) > pageSize && pageSize > 0 {
			t.Errorf("a page of %d has %d entries", pageSize, len(resp.GetEntries()))
		}
		return resp.GetEntries(), resp.GetNextPageToken(), err
	})
}

// checkRunning compares the balance after each entry with a sum of our own, for an account whose normal balance is credit.
func checkRunning(t *testing.T, list []*khatav1.AccountEntry) {
	t.Helper()
	sum := decimal.Zero
	for i, e := range list {
		amount := decimal.RequireFromString(e.GetAmount())
		if e.GetDirection() == khatav1.Direction_DIRECTION_DEBIT {
			amount = amount.Neg()
		}
		if sum = sum.Add(amount); e.GetBalance() != sum.StringFixed(2) {
			t.Fatalf("entry %d (%s) has balance %s, the entries so far sum to %s", i, e.GetTransferId(), e.GetBalance(), sum.StringFixed(2))
		}
		if i > 0 && e.GetSequence() < list[i-1].GetSequence() {
			t.Fatalf("entry %d has sequence %d after %d", i, e.GetSequence(), list[i-1].GetSequence())
		}
	}
}

func TestListEntries_EachExactlyOnceWhileOthersPost(t *testing.T) {
	t.Parallel()
	one := setup(t)
	two := serve(t, one.db)
	one.accounts(t, "cash BDT", "cash:2 BDT", "wallet:a BDT", floored("wallet:b BDT", "-1000000"))
	const before, writers, each = 60, 4, 40
	acknowledged := map[string]bool{}
	for i := range before {
		x := shuffledTransfer("before", i)
		one.post(t, x)
		acknowledged[x.GetTransferId()] = true
	}
	var posters sync.WaitGroup
	for w := range writers {
		posters.Go(func() {
			for i := range each {
				b := []*bench{one, two}[(w+i)%2]
				if _, err := b.try(t, shuffledTransfer(fmt.Sprintf("during-%d", w), i)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	late := 0
	meanwhile := func() {
		if late++; late <= 30 {
			one.post(t, shuffledTransfer("between", late))
		}
	}
	type listing struct {
		name        string
		newestFirst bool
		entries     []*khatav1.AccountEntry
	}
	var listings []listing
	for _, newestFirst := range []bool{false, true, false, true} {
		name := fmt.Sprintf("newest first %t, listing %d", newestFirst, len(listings))
		listings = append(listings, listing{name, newestFirst, two.listEntries(t, "wallet:a", newestFirst, 7, meanwhile)})
	}
	posters.Wait()

	final := one.listEntries(t, "wallet:a", false, 0, nil)
	checkRunning(t, final)
	// Every second transfer has two entries in the account, every third has none.
	wantEntries := 0
	count := func(prefix string, from, to int) {
		for i := from; i < to; i++ {
			for _, e := range shuffledTransfer(prefix, i).GetEntries() {
				if e.GetAccount() == "wallet:a" {
					wantEntries++
				}
			}
		}
	}
	count("before", 0, before)
	count("between", 1, min(late, 30)+1)
	for range writers {
		count("during", 0, each)
	}
	if len(final) != wantEntries {
		t.Errorf("%d entries in the end, want %d", len(final), wantEntries)
	}
	reversed := slices.Clone(final)
	slices.Reverse(reversed)
	if diff := cmp.Diff(reversed, one.listEntries(t, "wallet:a", true, 100, nil), protocmp.Transform()); diff != "" {
		t.Errorf("newest first is not the reverse (-want +got):\n%s", diff)
	}
	for _, l := range listings {
		list := l.entries
		if l.newestFirst {
			list = slices.Clone(list)
			slices.Reverse(list)
		}
		// Without a gap or a double, it is the beginning of what there is in the end.
		if len(list) > len(final) {
			t.Errorf("%s: %d entries of %d", l.name, len(list), len(final))
			continue
		}
		if diff := cmp.Diff(final[:len(list)], list, protocmp.Transform()); diff != "" {
			t.Errorf("%s: differs from the final listing (-final +listed):\n%s", l.name, diff)
		}
		seen := map[string]bool{}
		for _, e := range list {
			seen[e.GetTransferId()] = true
		}
		for i := range before {
			x := shuffledTransfer("before", i)
			if touches(x, "wallet:a") && !seen[x.GetTransferId()] {
				t.Errorf("%s: %s was acknowledged before the listing and is not in it", l.name, x.GetTransferId())
			}
		}
	}
}

func touches(x *khatav1.NewTransfer, account string) bool {
	return slices.ContainsFunc(x.GetEntries(), func(e *khatav1.Entry) bool { return e.GetAccount() == account })
}

// shuffledTransfer is one of three kinds: one entry in wallet:a, two, or none.
func shuffledTransfer(prefix string, i int) *khatav1.NewTransfer {
	id, amount := fmt.Sprintf("%s-%d", prefix, i), fmt.Sprintf("%d.%02d", i+1, i%100)
	switch i % 3 {
	case 0:
		return entries(id, debit("cash", amount), credit("wallet:a", amount))
	case 1:
		return entries(id, debit("wallet:a", amount), debit("wallet:a", "0.01"), credit("wallet:b", amount), credit("cash", "0.01"))
	default:
		return entries(id, debit("cash:2", amount), credit("wallet:b", amount))
	}
}

func TestListEntries_Fields(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT", floored("wallet:poor BDT", "0"))
	full := fullTransfer("T-1")
	first := b.post(t, full)
	b.post(t, move("T-refused", "wallet:poor", "wallet:a", "1.00"))
	second := b.post(t, move("T-2", "wallet:a", "wallet:b", "0.5"))
	resp, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: "wallet:a"})
	if err != nil {
		t.Fatal(err)
	}
	want := &khatav1.ListEntriesResponse{Account: "wallet:a", Currency: "BDT", Entries: []*khatav1.AccountEntry{
		{
			Sequence: first.GetSequence(), TransferId: "T-1", Direction: khatav1.Direction_DIRECTION_CREDIT, Amount: "500.00", Balance: "500.00",
			PostedAt: first.GetPostedAt(), EffectiveAt: full.GetEffectiveAt(), Description: "for tea",
		},
		{
			Sequence: second.GetSequence(), TransferId: "T-2", Direction: khatav1.Direction_DIRECTION_DEBIT, Amount: "0.50", Balance: "499.50",
			PostedAt: second.GetPostedAt(),
		},
	}}
	if diff := cmp.Diff(want, resp, protocmp.Transform()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	resp, err = b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: "wallet:poor"})
	want = &khatav1.ListEntriesResponse{Account: "wallet:poor", Currency: "BDT"}
	if diff := cmp.Diff(want, resp, protocmp.Transform()); diff != "" || err != nil {
		t.Errorf("an account with a refused transfer only (-want +got), %v:\n%s", err, diff)
	}
	if _, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: "nobody"}); fault(err) != "NotFound ACCOUNT_NOT_FOUND" {
		t.Errorf("of no account: %s", fault(err))
	}
}

func TestListEntries_PageTokens(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT")
	for i := range 4 {
		b.post(t, move(fmt.Sprintf("T-%d", i), "cash", []string{"wallet:a", "wallet:b"}[i%2], "1.00"))
	}
	token := func(account string, newestFirst bool) string {
		t.Helper()
		resp, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: account, NewestFirst: newestFirst, PageSize: 1})
		if err != nil || resp.GetNextPageToken() == "" {
			t.Fatalf("no next page: %v %v", resp, err)
		}
		return resp.GetNextPageToken()
	}
	encode := func(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct {
		name, token, account string
		newestFirst          bool
		want                 string
	}{
		{"its own", token("wallet:a", false), "wallet:a", false, "OK"},
		{"its own, newest first", token("wallet:a", true), "wallet:a", true, "OK"},
		{"of another account", token("wallet:b", false), "wallet:a", false, invalid("page_token")},
		{"of another account, newest first", token("wallet:b", true), "wallet:a", true, invalid("page_token")},
		{"of the other order", token("wallet:a", true), "wallet:a", false, invalid("page_token")},
		{"of the order of decision, newest first", token("wallet:a", false), "wallet:a", true, invalid("page_token")},
		{"garbage", "hello", "wallet:a", false, invalid("page_token")},
		{"not base64", "!!!", "wallet:a", false, invalid("page_token")},
		{"padded base64", encode(`{"a":"wallet:a","s":1}`) + "==", "wallet:a", false, invalid("page_token")},
		{"no JSON", encode("hello"), "wallet:a", false, invalid("page_token")},
		{"a number", encode("7"), "wallet:a", false, invalid("page_token")},
		{"null", encode("null"), "wallet:a", false, invalid("page_token")},
		{"no account", encode("{}"), "wallet:a", false, invalid("page_token")},
		{"a leg out of range", encode(`{"a":"wallet:a","s":1,"l":70000}`), "wallet:a", false, invalid("page_token")},
		{"a sequence out of range", encode(`{"a":"wallet:a","s":1e30}`), "wallet:a", false, invalid("page_token")},
		{"its own, cut off", token("wallet:a", false)[:8], "wallet:a", false, invalid("page_token")},
		{"its own, doubled", token("wallet:a", false) + token("wallet:a", false), "wallet:a", false, invalid("page_token")},
	} {
		_, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: c.account, NewestFirst: c.newestFirst, PageToken: c.token})
		if got := fault(err); got != c.want {
			t.Errorf("token %s: got %s, want %s", c.name, got, c.want)
		}
	}
	for size, want := range map[int32]string{
		-1: invalid("page_size"), 0: "OK", 1: "OK", 1000: "OK", 1001: invalid("page_size"), 1 << 30: invalid("page_size"),
	} {
		_, err := b.ListEntries(t.Context(), &khatav1.ListEntriesRequest{Account: "wallet:a", PageSize: size})
		if got := fault(err); got != want {
			t.Errorf("ListEntries, page size %d: got %s, want %s", size, got, want)
		}
		_, err = b.ListAccounts(t.Context(), &khatav1.ListAccountsRequest{PageSize: size})
		if got := fault(err); got != want {
			t.Errorf("ListAccounts, page size %d: got %s, want %s", size, got, want)
		}
	}
}

func TestListEntries_PagesOfEverySize(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	// Five entries of one transfer: pages end in the middle of it.
	b.post(t, entries("T-1", debit("cash", "15"), credit("wallet:a", "1"), credit("wallet:a", "2"), credit("wallet:a", "3"), credit("wallet:a", "4"), credit("wallet:a", "5")))
	b.post(t, move("T-2", "wallet:a", "cash", "20"))
	for _, newestFirst := range []bool{false, true} {
		want := []string{"1.00→1.00", "2.00→3.00", "3.00→6.00", "4.00→10.00", "5.00→15.00", "20.00→-5.00"}
		if newestFirst {
			slices.Reverse(want)
		}
		for size := range int32(8) {
			got := each(b.listEntries(t, "wallet:a", newestFirst, size, nil), func(e *khatav1.AccountEntry) string {
				return e.GetAmount() + "→" + e.GetBalance()
			})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("newest first %t, pages of %d (-want +got):\n%s", newestFirst, size, diff)
			}
		}
	}
}

func (b *bench) listAccounts(t testing.TB, prefix string, pageSize int32) []string {
	t.Helper()
	list := all(t, func(token string) ([]*khatav1.Account, string, error) {
		resp, err := b.ListAccounts(t.Context(), &khatav1.ListAccountsRequest{Prefix: prefix, PageSize: pageSize, PageToken: token})
		return resp.GetAccounts(), resp.GetNextPageToken(), err
	})
	return each(list, (*khatav1.Account).GetAccount)
}

func TestListAccounts_PagesAndPrefix(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if got := b.listAccounts(t, "", 0); len(got) != 0 {
		t.Errorf("of an empty ledger: %q", got)
	}
	// Bytewise, not as a language would sort: capitals first, "-" before ":" before "_".
	ids := []string{"B", "Z", "_", "a", "a%", "a-1", "a:1", "a:10", "a:2", "a_1", "aa", "b", "~"}
	for _, id := range slices.Backward(ids) {
		b.accounts(t, id+" BDT")
	}
	for size := range int32(len(ids) + 2) {
		if diff := cmp.Diff(ids, b.listAccounts(t, "", size)); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", size, diff)
		}
	}
	for prefix, want := range map[string][]string{
		"a":   {"a", "a%", "a-1", "a:1", "a:10", "a:2", "a_1", "aa"},
		"a:":  {"a:1", "a:10", "a:2"},
		"a:1": {"a:1", "a:10"},
		"a_":  {"a_1"}, // no pattern
		"a%":  {"a%"},
		"A":   {},
		"~":   {"~"},
	} {
		for size := range int32(4) {
			if diff := cmp.Diff(want, b.listAccounts(t, prefix, size)); diff != "" {
				t.Errorf("prefix %s, pages of %d (-want +got):\n%s", prefix, size, diff)
			}
		}
	}
	for _, token := range []string{"hello", "!!!", base64.RawURLEncoding.EncodeToString([]byte(`{"a":"x y"}`)), base64.RawURLEncoding.EncodeToString([]byte(`[]`))} {
		if _, err := b.ListAccounts(t.Context(), &khatav1.ListAccountsRequest{PageToken: token}); fault(err) != invalid("page_token") {
			t.Errorf("token %q: got %s", token, fault(err))
		}
	}
	if _, err := b.ListAccounts(t.Context(), &khatav1.ListAccountsRequest{Prefix: "a b"}); fault(err) != invalid("prefix") {
		t.Errorf("prefix with space: got %s", fault(err))
	}
}

// An account that is made while the pages are turned comes if its id is still ahead, and moves none of the others.
func TestListAccounts_WhileOthersAreMade(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "b BDT", "d BDT", "f BDT", "h BDT")
	made := 0
	var got []string
	for token := ""; ; made++ {
		resp, err := b.ListAccounts(t.Context(), &khatav1.ListAccountsRequest{PageSize: 1, PageToken: token})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, each(resp.GetAccounts(), (*khatav1.Account).GetAccount)...)
		if token = resp.GetNextPageToken(); token == "" {
			break
		}
		b.accounts(t, []any{"a BDT", "e BDT", "c BDT"}[made%3])
	}
	if diff := cmp.Diff([]string{"b", "d", "e", "f", "h"}, got); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
}

func TestGetBalances_OrderAndErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT")
	posted := b.post(t, move("T-1", "cash", "wallet:a", "5"))
	ask := func(accounts ...string) (*khatav1.GetBalancesResponse, error) {
		return b.GetBalances(t.Context(), &khatav1.GetBalancesRequest{Accounts: accounts})
	}
	resp, err := ask("wallet:b", "wallet:a", "cash", "wallet:a")
	if err != nil {
		t.Fatal(err)
	}
	of := func(account, posted string, version int64) *khatav1.Balance {
		return &khatav1.Balance{
			Account: account, Currency: "BDT", Posted: posted, Available: posted, Held: "0.00", Incoming: "0.00", Version: version,
		}
	}
	a := of("wallet:a", "5.00", posted.GetSequence())
	want := []*khatav1.Balance{of("wallet:b", "0.00", 0), a, of("cash", "5.00", posted.GetSequence()), a}
	if diff := cmp.Diff(want, resp.GetBalances(), protocmp.Transform()); diff != "" {
		t.Errorf("balances (-want +got):\n%s", diff)
	}
	if _, err := ask("cash", "nobody"); fault(err) != "NotFound ACCOUNT_NOT_FOUND" {
		t.Errorf("with an unknown one: %s", fault(err))
	}
	if _, err := ask(); fault(err) != invalid("accounts") {
		t.Errorf("of none: %s", fault(err))
	}
	if _, err := ask(slices.Repeat([]string{"cash"}, 10_001)...); fault(err) != invalid("accounts") {
		t.Errorf("10,001: %s", fault(err))
	}
	if resp, err := ask(slices.Repeat([]string{"cash"}, 10_000)...); err != nil || len(resp.GetBalances()) != 10_000 {
		t.Errorf("10,000: %d %v", len(resp.GetBalances()), err)
	}
	if _, err := b.GetTransfer(t.Context(), &khatav1.GetTransferRequest{TransferId: "nothing"}); fault(err) != "NotFound TRANSFER_NOT_FOUND" {
		t.Errorf("GetTransfer of an unknown id: %s", fault(err))
	}
}
