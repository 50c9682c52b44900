package export

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// The helpers of the tests of both journals: made-up books, and the real tools.

var bookCurrencies = []ledger.Currency{
	{Code: "BDT", Scale: 2}, {Code: "JPY", Scale: 0}, {Code: "KWD", Scale: 3}, {Code: "ETH", Scale: 18}, {Code: "USDT2", Scale: 6},
	{Code: "A_1", Scale: 1}, {Code: "AB_", Scale: 2}, {Code: "NULL", Scale: 4}, {Code: "ABCDEFGHIJKLMNO_", Scale: 24},
}

// awkwardTexts are descriptions that a journal could stumble over.
var awkwardTexts = []string{
	"", " ", "paid in at the counter", "=cmd()", "-1+1", `"; drop`, "two\nlines", "two\n    wallet:x  1.00 BDT\n", "]", "[2025-02-02]",
	"date:2025-01-01", "; date:2025-01-01", "x ; date:2025-01-01, date2:2025-01-02",
	"শিমুলের টাকা", "👩‍👩‍👧 🇧🇩", `\`, `\\" \n \`, `2025-01-01 * "x"`, "\ttabs\t",
	"a\u2028b\u2029c", "a\u0085b", "* x", "! x", "(code) x", "* (code) x", "payee | note", "|", "a  b  1.00 BDT", "#tag ^link", "\r",
	"~ monthly", "% x",
	"\u202egnp.exe", "a,b:c", "@ 5 EUR", "= 5 BDT", "include /etc/passwd", "'", "{}", "<script>", "tag:value, tag2:value2", "\x01\x7f\x1b[31m",
	"\ufeffx",
	strings.Repeat("শ", 341) + "x", strings.Repeat("x\n", 512), strings.Repeat(`"`, 1024), strings.Repeat(`\`, 1023) + "a", "\u00a0x\u00a0",
	"x\u3000y",
}

var awkwardTransferIDs = []string{
	";", `"`, "|", "(", ")", "*", "a)b", "(a", `\`, "khata:refund:order-77", "date:2025-01-01", "[2025-02-02]", "a,b",
	"%", "^x", "#x", "a/b", "!", "=", "~", "_", "-", ".",
}

// madeBook is a book of random transfers, and what its accounts have in the end.
type madeBook struct {
	head      BookHead
	accounts  []BookAccount
	transfers []BookTransfer
	closing   map[ledger.AccountID]decimal.Decimal
	// openings is how many accounts begin with something.
	openings, postings int
}

// newMadeBook makes one. Running has its postings say the balances.
func newMadeBook(seed uint64, transfers int, running bool) *madeBook {
	r := rand.New(rand.NewPCG(seed, 1))
	b := &madeBook{closing: map[ledger.AccountID]decimal.Decimal{}, head: BookHead{
		Ledger: "main", Basis: "value", Zone: "Asia/Dhaka", From: "2026-01-30", To: "2026-03-02", Through: 1 << 40, Currencies: bookCurrencies,
	}}
	byCurrency := b.makeAccounts(r)
	day := time.Date(2026, 1, 30, 0, 0, 0, 0, time.UTC)
	for i := range transfers {
		if r.IntN(3) == 0 && day.Day() != 1 {
			day = day.AddDate(0, 0, 1)
		}
		b.transfers = append(b.transfers, b.makeTransfer(r, i, bookDay(day), byCurrency, running))
	}
	return b
}

// makeAccounts makes accounts of each currency with awkward ids, and with openings that sum to zero.
func (b *madeBook) makeAccounts(r *rand.Rand) map[ledger.CurrencyCode][]BookAccount {
	byCurrency := map[ledger.CurrencyCode][]BookAccount{}
	seen := map[ledger.AccountID]bool{}
	for i := range 8 * len(bookCurrencies) {
		c := bookCurrencies[i%len(bookCurrencies)]
		id := ledger.AccountID(awkwardComponents[r.IntN(len(awkwardComponents))])
		for range r.IntN(3) {
			id += ledger.AccountID(":" + awkwardComponents[r.IntN(len(awkwardComponents))])
		}
		for id == "" || seen[id] {
			id += ledger.AccountID(rune('!' + r.IntN('~'-'!'+1)))
		}
		seen[id] = true
		a := BookAccount{ID: id, Type: allTypes[r.IntN(len(allTypes))], Currency: c, Name: awkwardTexts[r.IntN(len(awkwardTexts))]}
		a.Name = a.Name[:min(len(a.Name), 20)]
		a.Name = strings.ToValidUTF8(a.Name, "")
		list := byCurrency[c.Code]
		switch {
		case len(list)%2 == 1:
			a.Opening = list[len(list)-1].Opening.Neg()
		case r.IntN(3) > 0:
			a.Opening = randomAmount(r, c).Neg()
		}
		if !a.Opening.IsZero() {
			b.openings++
		}
		b.closing[a.ID] = a.Opening
		byCurrency[c.Code] = append(list, a)
		b.accounts = append(b.accounts, a)
	}
	return byCurrency
}

// randomAmount is small enough for beancount, and sometimes the smallest that there is.
func randomAmount(r *rand.Rand, c ledger.Currency) decimal.Decimal {
	if r.IntN(4) == 0 {
		return decimal.New(1+r.Int64N(3), -c.Scale)
	}
	whole := int64(10_000)
	if c.Scale > 18 {
		whole = 3
	}
	return decimal.New(r.Int64N(whole), 0).Add(decimal.New(1+r.Int64N(999_999_999_999_999_998), -18).RoundUp(c.Scale))
}

func (b *madeBook) makeTransfer(r *rand.Rand, i int, day string, byCurrency map[ledger.CurrencyCode][]BookAccount, running bool) BookTransfer {
	id := fmt.Sprintf("tr-%d", i)
	if r.IntN(3) == 0 {
		id += awkwardTransferIDs[r.IntN(len(awkwardTransferIDs))]
	}
	at := time.Date(2026, 2, 1, 10, 5, i, 1000*i, time.UTC)
	record := &ledger.Transfer{Sequence: int64(i + 1), PostedAt: at, Caller: "shop; \"1\", x:y"}
	record.ID, record.Description = ledger.TransferID(id), awkwardTexts[i%len(awkwardTexts)]
	record.Metadata = `{"date":"2025-01-01","x":", ; y"}`
	if i%2 == 0 {
		record.EffectiveAt = &at
	}
	if i%5 == 4 {
		record.Terms = &ledger.Terms{Kind: ledger.Refund, Origin: b.transfers[i-1].Transfer.ID, Reason: ledger.ReasonDuplicate}
		record.Step = &ledger.Step{Ordinal: 1}
	}
	t := BookTransfer{Day: day, Transfer: record}
	for range 1 + r.IntN(3)/2 { // sometimes in two currencies
		c := bookCurrencies[r.IntN(len(bookCurrencies))]
		list := byCurrency[c.Code]
		from := r.IntN(len(list))
		total := decimal.Zero
		for range 1 + r.IntN(3) {
			amount := randomAmount(r, c)
			total = total.Add(amount)
			b.post(&t, list[(from+1+r.IntN(len(list)-1))%len(list)].ID, amount, running)
		}
		b.post(&t, list[from].ID, total.Neg(), running)
	}
	return t
}

func (b *madeBook) post(t *BookTransfer, account ledger.AccountID, amount decimal.Decimal, running bool) {
	balance := b.closing[account].Add(amount)
	b.closing[account] = balance
	p := BookPosting{Account: account, Amount: amount}
	if running {
		p.Balance = &balance
	}
	t.Postings = append(t.Postings, p)
	b.postings++
}

// write gives the book to a writer.
func (b *madeBook) write(w BookWriter) error {
	if err := w.Begin(b.head); err != nil {
		return err
	}
	for _, a := range b.accounts {
		if err := w.Account(a); err != nil {
			return err
		}
	}
	for _, t := range b.transfers {
		if err := w.Transfer(t); err != nil {
			return err
		}
	}
	for _, a := range b.accounts {
		if err := w.Closing(a.ID, b.closing[a.ID]); err != nil {
			return err
		}
	}
	return w.End()
}

// journalOf writes the book to a file of its own.
func (b *madeBook) journalOf(t *testing.T, make func(*bytes.Buffer) BookWriter) (path, text string) {
	t.Helper()
	var out bytes.Buffer
	if err := b.write(make(&out)); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "book")
	saveJournal(t, path, out.String())
	return path, out.String()
}

func saveJournal(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// needTool skips a test where a tool is not installed. In CI it fails: a check that nobody runs is none.
func needTool(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed: run .ci/need-finance.sh", name)
		}
		t.Skipf("%s is not installed: .ci/need-finance.sh does that", name)
	}
}

// runTool runs a tool, and returns what it printed.
func runTool(t *testing.T, name string, args ...string) (stdout, stderr string, ok bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "LEDGER_FILE=/dev/null")
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s %q: %v", name, args, err)
	}
	return out.String(), complaints.String(), err == nil
}

// alteredAt writes another digit in place of one.
func alteredAt(text string, at int) string {
	return text[:at] + string('0'+(text[at]-'0'+1)%10) + text[at+1:]
}

// digitsOf lists where the digits of what a pattern's first group matches in a text stand.
func digitsOf(text string, groups [][]int) (at []int) {
	for _, g := range groups {
		for i := g[2]; i < g[3]; i++ {
			if text[i] >= '0' && text[i] <= '9' {
				at = append(at, i)
			}
		}
	}
	return at
}

// exampleBook is a small one.
func exampleBook() *madeBook {
	bdt := bookCurrencies[0]
	at := time.Date(2026, 1, 31, 10, 5, 0, 1000, time.UTC)
	b := &madeBook{
		head: BookHead{
			Ledger: "main", Basis: "booking", Zone: "Asia/Dhaka", From: "2026-01-01", To: "2026-02-01",
			Through: 77, Currencies: []ledger.Currency{bdt},
		},
		accounts: []BookAccount{
			{ID: "asset:cash", Type: ledger.Asset, Currency: bdt, Opening: decimal.New(100, 0)},
			{ID: "wallet:shimul", Type: ledger.Liability, Currency: bdt, Opening: decimal.New(-100, 0), Name: "Shimul, the first"},
		},
		closing: map[ledger.AccountID]decimal.Decimal{"asset:cash": decimal.New(100, 0), "wallet:shimul": decimal.New(-100, 0)},
	}
	t := BookTransfer{Day: "2026-01-31", Transfer: &ledger.Transfer{Sequence: 77, PostedAt: at, Caller: "shop 1"}}
	t.Transfer.ID, t.Transfer.Description, t.Transfer.Metadata = "order-77", "paid in; at the counter\n", `{"a":1}`
	b.post(&t, "asset:cash", decimal.New(500, 0), true)
	b.post(&t, "wallet:shimul", decimal.New(-500, 0), true)
	b.transfers = append(b.transfers, t)
	return b
}

// everyCharacterBook has each character that an id can have, alone and at either end of ids of accounts and transfers, and in descriptions.
func everyCharacterBook() *madeBook {
	b := &madeBook{head: exampleBook().head, closing: map[ledger.AccountID]decimal.Decimal{}}
	var last ledger.AccountID
	for c := '!'; c <= '~'; c++ {
		for _, id := range []string{string(c), "a" + string(c), string(c) + "a", "a:" + string(c), "a:" + string(c) + ":b"} {
			account := ledger.AccountID(id)
			if _, seen := b.closing[account]; seen { // "a" and its like.
				continue
			}
			b.accounts = append(b.accounts, BookAccount{ID: account, Type: ledger.Asset, Currency: bookCurrencies[0], Name: id})
			b.closing[account] = decimal.Zero
			if last != "" {
				t := BookTransfer{Day: "2026-01-15", Transfer: &ledger.Transfer{Sequence: int64(len(b.accounts))}}
				t.Transfer.ID, t.Transfer.Description, t.Transfer.Caller = ledger.TransferID(id), id, id
				b.post(&t, account, decimal.New(int64(len(b.accounts)), -2), true)
				b.post(&t, last, decimal.New(-int64(len(b.accounts)), -2), true)
				b.transfers = append(b.transfers, t)
			}
			last = account
		}
	}
	return b
}
