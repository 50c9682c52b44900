package export

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

func asBeancount(out *bytes.Buffer) BookWriter { return NewBeancount(out) }

// beancountTakes reports whether bean-check accepts a journal.
func beancountTakes(t *testing.T, path string) (ok bool, complaints string) {
	t.Helper()
	_, stderr, ok := runTool(t, "bean-check", "-C", path)
	return ok, stderr
}

// beanQuery runs a query, and returns the rows without the header.
func beanQuery(t *testing.T, path, query string) [][]string {
	t.Helper()
	stdout, stderr, ok := runTool(t, "bean-query", "-f", "csv", path, query)
	if !ok || stderr != "" {
		t.Fatalf("bean-query %q: %s", query, stderr)
	}
	if strings.TrimSpace(stdout) == "(empty)" {
		return nil
	}
	rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("bean-query %q: %d rows, %v", query, len(rows), err)
	}
	for _, row := range rows {
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
	}
	return rows[1:]
}

// beancountNamesOf are the names of the book's accounts.
func (b *madeBook) beancountNamesOf() map[ledger.AccountID]string {
	list := make([]*bookAccount, len(b.accounts))
	for i, a := range b.accounts {
		list[i] = &bookAccount{BookAccount: a}
	}
	nameForBeancount(list)
	names := map[ledger.AccountID]string{}
	for _, a := range list {
		names[a.ID] = a.name
	}
	return names
}

func TestBeancountAcceptsBooks(t *testing.T) {
	needTool(t, "bean-check", "bean-query")
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newMadeBook(seed, 60+40*int(seed), seed%2 == 0)
			path, text := b.journalOf(t, asBeancount)
			if ok, complaints := beancountTakes(t, path); !ok {
				t.Fatalf("bean-check refuses it: %s", complaints)
			}
			b.compareBeancount(t, path)
			end := fmt.Sprintf("; khata-export end transfers=%d transactions=%d postings=%d accounts=%d\n",
				len(b.transfers), len(b.transfers)+1, b.postings+b.openings, len(b.accounts))
			if !strings.HasSuffix(text, end) {
				t.Errorf("it ends %q, want %q", text[max(0, len(text)-200):], end)
			}
			transactions := beanQuery(t, path, "SELECT id, count(position) GROUP BY id")
			if len(transactions) != len(b.transfers)+1 {
				t.Errorf("beancount sees %d transactions, want %d", len(transactions), len(b.transfers)+1)
			}
		})
	}
}

func TestBeancountTakesEveryCharacter(t *testing.T) {
	needTool(t, "bean-check", "bean-query")
	b := everyCharacterBook()
	path, _ := b.journalOf(t, asBeancount)
	if ok, complaints := beancountTakes(t, path); !ok {
		t.Fatalf("bean-check refuses it: %s", complaints)
	}
	b.compareBeancount(t, path)
}

// compareBeancount compares what beancount makes of the book with the book.
func (b *madeBook) compareBeancount(t *testing.T, path string) {
	t.Helper()
	names := b.beancountNamesOf()
	want, got := map[string]string{}, map[string]string{}
	moved := map[ledger.AccountID]bool{}
	for _, a := range b.accounts {
		moved[a.ID] = !a.Opening.IsZero()
	}
	var wanted, seen []string
	for _, transfer := range b.transfers {
		for _, p := range transfer.Postings {
			moved[p.Account] = true
			wanted = append(wanted, strings.Join([]string{
				transfer.Day, string(transfer.Transfer.ID), oneLine(transfer.Transfer.Description), names[p.Account],
			}, "\x1f"))
		}
	}
	for _, a := range b.accounts {
		switch balance := b.closing[a.ID]; {
		case !moved[a.ID]: // It has no row.
		case balance.IsZero():
			want[names[a.ID]] = ""
		default:
			want[names[a.ID]] = ledger.FormatAmount(balance, a.Currency.Scale) + " " + beancountCurrency(a.Currency.Code)
		}
	}
	for _, row := range beanQuery(t, path, "SELECT account, sum(position) GROUP BY account ORDER BY account") {
		got[row[0]] = strings.Join(strings.Fields(row[1]), " ")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the closing balances differ (-want +got):\n%s", diff)
	}
	// No description or id has been read as something else.
	for _, row := range beanQuery(t, path, `SELECT date, any_meta("transfer-id") AS id, narration, account WHERE NOT "opening" IN tags`) {
		seen = append(seen, strings.Join(row, "\x1f"))
	}
	if diff := cmp.Diff(wanted, seen); diff != "" {
		t.Errorf("the postings differ (-want +got):\n%s", diff)
	}
	ids := map[string]string{}
	for _, row := range beanQuery(t, path, `SELECT DISTINCT account, getitem(open_meta(account), "account-id") AS id`) {
		ids[row[0]] = row[1]
	}
	for _, a := range b.accounts {
		if moved[a.ID] && ids[names[a.ID]] != string(a.ID) {
			t.Errorf("%s is the account %q, want %q", names[a.ID], ids[names[a.ID]], a.ID)
		}
	}
}

// beancountPlaces are where a journal has amounts.
var beancountPlaces = map[string]*regexp.Regexp{
	"posting":           regexp.MustCompile(`(?m)^  [A-Z][^ ]+ +(-?[0-9.]+) [A-Z]`),
	"daily assertion":   regexp.MustCompile(`(?m)^2026-0(?:1|2)-[0-9]+ balance [^ ]+ +(-?[0-9.]+) ~`),
	"closing assertion": regexp.MustCompile(`(?m)^2026-03-02 balance [^ ]+ +(-?[0-9.]+) ~`),
	"opening":           regexp.MustCompile(`(?s)"opening balances"[^\n]*\n  [^ ]+ +(-?[0-9.]+) [A-Z]`),
}

func TestBeancountRefusesAlteredBooks(t *testing.T) {
	needTool(t, "bean-check")
	for _, running := range []bool{true, false} {
		b := newMadeBook(100, 30, running)
		path, text := b.journalOf(t, asBeancount)
		if ok, complaints := beancountTakes(t, path); !ok {
			t.Fatalf("bean-check refuses it as it is: %s", complaints)
		}
		for _, place := range slices.Sorted(maps.Keys(beancountPlaces)) {
			if place == "daily assertion" && !running {
				continue
			}
			t.Run(fmt.Sprintf("%s, running %t", place, running), func(t *testing.T) {
				at := digitsOf(text, beancountPlaces[place].FindAllStringSubmatchIndex(text, -1))
				refusesAltered(t, text, at, beancountTakes)
			})
		}
	}
}

// TestBeancountChecksParents has accounts whose names begin with those of others: beancount adds their balances up.
func TestBeancountChecksParents(t *testing.T) {
	needTool(t, "bean-check")
	b := exampleBook()
	b.accounts[0].ID, b.accounts[1].ID = "wallet", "wallet:shimul:bkash"
	b.accounts[0].Type = ledger.Liability
	usd := ledger.Currency{Code: "USD", Scale: 2}
	b.accounts = append(b.accounts,
		BookAccount{ID: "wallet:shimul", Type: ledger.Liability, Currency: usd, Opening: decimal.New(5, 0)},
		BookAccount{ID: "wallet:shimul:usd", Type: ledger.Liability, Currency: usd, Opening: decimal.New(-5, 0)})
	for i := range b.transfers[0].Postings {
		b.transfers[0].Postings[i].Account = b.accounts[i].ID
	}
	b.closing = map[ledger.AccountID]decimal.Decimal{
		"wallet": decimal.New(600, 0), "wallet:shimul:bkash": decimal.New(-600, 0),
		"wallet:shimul": decimal.New(5, 0), "wallet:shimul:usd": decimal.New(-5, 0),
	}
	path, text := b.journalOf(t, asBeancount)
	if ok, complaints := beancountTakes(t, path); !ok {
		t.Fatalf("bean-check refuses it: %s", complaints)
	}
	var lines []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " balance ") {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
	}
	if want := []string{ // A parent's day is not asserted, and its closing balance is after the others.
		"2026-02-01 balance Liabilities:Wallet:Shimul:Bkash -600.00 ~ 0 BDT",
		"2026-02-01 balance Liabilities:Wallet:Shimul:Usd -5.00 ~ 0 USD",
		"2026-02-01 balance Liabilities:Wallet 0.00 ~ 0 BDT",
		"2026-02-01 balance Liabilities:Wallet:Shimul 0.00 ~ 0 USD",
	}; !slices.Equal(lines, want) {
		t.Errorf("the assertions are %q, want %q", lines, want)
	}
	refusesAltered(t, text, digitsOf(text, beancountPlaces["posting"].FindAllStringSubmatchIndex(text, -1)), beancountTakes)
}

func TestBeancountText(t *testing.T) {
	b := exampleBook()
	b.transfers[0].Day = "2026-01-30"
	b.transfers[0].Transfer.Description = `"paid" in; at \ the counter` + "\n"
	b.transfers[0].Transfer.Terms = &ledger.Terms{Kind: ledger.Refund, Origin: "order:76", Reason: ledger.ReasonDuplicate}
	b.transfers[0].Transfer.EffectiveAt = &b.transfers[0].Transfer.PostedAt
	var out bytes.Buffer
	if err := b.write(NewBeancount(&out)); err != nil {
		t.Fatal(err)
	}
	const want = `; khata-export format=1 ledger=main basis=booking zone=Asia/Dhaka from=2026-01-01 to=2026-02-01 (exclusive) through=77
; A debit is positive, a credit negative. How to check this file: docs/export.md of Khata.
; It is whole only if its last line begins with "; khata-export end".
option "title" "Khata, ledger main"
option "inferred_tolerance_multiplier" "0"
2026-01-01 commodity BDT
2026-01-01 open Assets:Cash BDT
  account-id: "asset:cash"
2026-01-01 open Liabilities:Wallet:Shimul BDT
  account-id: "wallet:shimul"
  name: "Shimul, the first"

2026-01-01 * "opening balances" #opening
  Assets:Cash                                                 100.00 BDT
  Liabilities:Wallet:Shimul                                  -100.00 BDT

2026-01-30 * "\"paid\" in; at \\ the counter" ^order-77 ^order/3a76 #refund
  transfer-id: "order-77"
  origin: "order:76"
  reason: "duplicate"
  posted-at: "2026-01-31T10:05:00.000001Z"
  effective-at: "2026-01-31T10:05:00.000001Z"
  seq: 77
  caller: "shop 1"
  Assets:Cash                                                 500.00 BDT
  Liabilities:Wallet:Shimul                                  -500.00 BDT

2026-01-31 balance Assets:Cash                                                 600.00 ~ 0 BDT
2026-01-31 balance Liabilities:Wallet:Shimul                                  -600.00 ~ 0 BDT

2026-02-01 balance Assets:Cash                                                 600.00 ~ 0 BDT
2026-02-01 balance Liabilities:Wallet:Shimul                                  -600.00 ~ 0 BDT

; khata-export end transfers=1 transactions=2 postings=4 accounts=2
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestBeancountStopsBeforeItRounds shows each way in which beancount would meet a 29th digit.
func TestBeancountStopsBeforeItRounds(t *testing.T) {
	eth := ledger.Currency{Code: "ETH", Scale: 18}
	most := decimal.RequireFromString("9999999999.999999999999999999") // 28 digits
	unit := decimal.New(1, -18)
	book := func(opening decimal.Decimal, amounts ...decimal.Decimal) *madeBook {
		b := &madeBook{head: exampleBook().head, closing: map[ledger.AccountID]decimal.Decimal{}}
		for i, id := range []ledger.AccountID{"a", "b", "c", "d"} {
			a := BookAccount{ID: id, Type: ledger.Asset, Currency: eth}
			if i < 2 {
				a.Opening = opening.Mul(decimal.New(int64(1-2*i), 0))
			}
			b.accounts = append(b.accounts, a)
			b.closing[id] = a.Opening
		}
		bt := BookTransfer{Day: "2026-01-05", Transfer: &ledger.Transfer{Sequence: 1}}
		bt.Transfer.ID = "t"
		for i, amount := range amounts {
			b.post(&bt, b.accounts[i].ID, amount, false)
		}
		b.transfers = append(b.transfers, bt)
		return b
	}
	for _, c := range []struct {
		what, why string
		account   ledger.AccountID
		transfer  ledger.TransferID
		book      *madeBook
	}{
		{"nothing", "", "", "", book(most, unit.Neg(), unit)},
		{"an amount", "the amount", "a", "t", book(decimal.Zero, most.Add(unit), most.Add(unit).Neg())},
		{"a balance", "the balance", "a", "t", book(most, unit, unit.Neg())},
		{"an opening balance", "the opening balance", "a", "", book(most.Add(unit))},
		{"a sum on the way", "a sum of postings", "b", "t", book(decimal.Zero, most, most, most.Neg(), most.Neg())},
	} {
		var limit *BeancountLimitError
		var out bytes.Buffer
		err := c.book.write(NewBeancount(&out))
		switch {
		case c.why == "":
			if err != nil {
				t.Errorf("%s: %v", c.what, err)
			}
		case !errors.As(err, &limit) || limit.Account != c.account || limit.Transfer != c.transfer || !strings.Contains(limit.Why, c.why):
			t.Errorf("%s: %v", c.what, err)
		case !strings.Contains(err.Error(), "export to hledger"):
			t.Errorf("%s: %v does not say what else there is", c.what, err)
		}
		if strings.Contains(out.String(), "10000000000") {
			t.Errorf("%s: it is written:\n%s", c.what, out.String())
		}
	}
}

// TestBeancountIsExactWithAllItsDigits shows that the limit is not too high.
func TestBeancountIsExactWithAllItsDigits(t *testing.T) {
	needTool(t, "bean-check", "bean-query")
	b := exampleBook()
	c := ledger.Currency{Code: "ETH", Scale: 18}
	most := decimal.RequireFromString("9999999999.999999999999999999")
	b.accounts[0].Currency, b.accounts[1].Currency = c, c
	b.accounts[0].Opening, b.accounts[1].Opening = most, most.Neg()
	one := decimal.New(1, -18)
	b.transfers[0].Postings[0].Amount, b.transfers[0].Postings[1].Amount = one.Neg(), one
	b.transfers[0].Postings[0].Balance, b.transfers[0].Postings[1].Balance = nil, nil
	b.closing = map[ledger.AccountID]decimal.Decimal{"asset:cash": most.Sub(one), "wallet:shimul": most.Sub(one).Neg()}
	path, text := b.journalOf(t, asBeancount)
	if ok, complaints := beancountTakes(t, path); !ok {
		t.Fatalf("bean-check refuses it: %s", complaints)
	}
	// Without str, bean-query fails at a thousand million of any currency.
	rows := beanQuery(t, path, "SELECT account, str(sum(position)) AS balance GROUP BY account ORDER BY account")
	if rows[0][1] != "(9999999999.999999999999999998 ETH)" {
		t.Errorf("the balances are %q", rows)
	}
	saveJournal(t, path, strings.ReplaceAll(text, "9999999999.999999999999999998", "9999999999.999999999999999997"))
	if ok, _ := beancountTakes(t, path); ok {
		t.Error("it is accepted with another last digit")
	}
}

func TestBeancountHasNoYear10000(t *testing.T) {
	var limit *BeancountLimitError
	head := exampleBook().head
	head.To = "10000-01-01"
	if err := NewBeancount(io.Discard).Begin(head); !errors.As(err, &limit) {
		t.Errorf("it begins: %v", err)
	}
}
