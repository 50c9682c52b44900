package export

import (
	"bytes"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

func asHledger(out *bytes.Buffer) BookWriter { return NewHledger(out, HledgerOptions{}) }

// hledger runs it on a journal.
func hledger(t *testing.T, path string, args ...string) (stdout string) {
	t.Helper()
	stdout, stderr, ok := runTool(t, "hledger", append([]string{"-f", path}, args...)...)
	if !ok {
		t.Fatalf("hledger %q: %s", args, stderr)
	}
	return stdout
}

// hledgerTable runs it for CSV, and returns the rows without the header.
func hledgerTable(t *testing.T, path string, args ...string) [][]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(hledger(t, path, append(args, "-O", "csv")...))).ReadAll()
	if err != nil || len(rows) == 0 {
		t.Fatalf("hledger %q: %d rows, %v", args, len(rows), err)
	}
	return rows[1:]
}

// hledgerChecks are the two commands that docs/export.md names; the second one is for many accounts.
var hledgerChecks = [][]string{{"check", "-s", "ordereddates"}, {"check", "balancednoautoconversion", "commodities", "ordereddates"}}

// hledgerTakes reports whether both of them accept a journal; they must agree.
func hledgerTakes(t *testing.T, path string) (ok bool, complaints string) {
	t.Helper()
	for i, args := range hledgerChecks {
		_, stderr, takes := runTool(t, "hledger", append([]string{"-f", path}, args...)...)
		if i > 0 && takes != ok {
			t.Errorf("hledger %q says %t, the other check %t: %s%s", args, takes, ok, complaints, stderr)
		}
		ok, complaints = takes, stderr
	}
	return ok, complaints
}

func TestHledgerAcceptsBooks(t *testing.T) {
	needTool(t, "hledger")
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			b := newMadeBook(seed, 60+40*int(seed), seed%2 == 0)
			path, text := b.journalOf(t, asHledger)
			if ok, complaints := hledgerTakes(t, path); !ok {
				t.Fatalf("hledger refuses it: %s", complaints)
			}
			b.compareHledger(t, path)
			transactions := len(b.transfers) + 2
			end := fmt.Sprintf("; khata-export end transfers=%d transactions=%d postings=%d accounts=%d\n",
				len(b.transfers), transactions, b.postings+b.openings+len(b.accounts), len(b.accounts))
			if !strings.HasSuffix(text, end) {
				t.Errorf("it ends %q, want %q", text[max(0, len(text)-200):], end)
			}
			tags := strings.Fields(hledger(t, path, "tags"))
			if want := []string{
				"account-id", "caller", "effective-at", "kind", "name", "origin", "posted-at", "reason", "seq", "transfer-id", "type",
			}; !slices.Equal(tags, want) {
				t.Errorf("the tags are %q, want %q", tags, want)
			}
			if stats := hledger(t, path, "stats"); !regexp.MustCompile(fmt.Sprintf(`(?m)^Transactions +: %d `, transactions)).MatchString(stats) {
				t.Errorf("hledger sees other than %d transactions: %s", transactions, stats)
			}
		})
	}
}

func TestHledgerTakesEveryCharacter(t *testing.T) {
	needTool(t, "hledger")
	b := everyCharacterBook()
	path, _ := b.journalOf(t, asHledger)
	if ok, complaints := hledgerTakes(t, path); !ok {
		t.Fatalf("hledger refuses it: %s", complaints)
	}
	b.compareHledger(t, path)
}

// compareHledger compares what hledger makes of the book with the book.
func (b *madeBook) compareHledger(t *testing.T, path string) {
	t.Helper()
	want, got, zero := map[string]string{}, map[string]string{}, map[string]string{}
	for _, a := range b.accounts {
		zero[string(a.Currency.Code)] = ledger.FormatAmount(decimal.Zero, a.Currency.Scale)
		want[hledgerAccount(a.ID)+" "+string(a.Currency.Code)] = ledger.FormatAmount(b.closing[a.ID], a.Currency.Scale)
	}
	for _, row := range hledgerTable(t, path, "bal", "-N", "--flat", "-E", "--layout=bare") {
		// Of nothing, it shows as many decimals as it has come by.
		if a, err := decimal.NewFromString(row[2]); err == nil && a.IsZero() {
			row[2] = zero[row[1]]
		}
		got[row[0]+" "+row[1]] = row[2]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the closing balances differ (-want +got):\n%s", diff)
	}
	// No description, tag or id has made a posting, a date or a code other than it should be.
	var wanted, seen []string
	for _, p := range b.transfers {
		for _, posting := range p.Postings {
			wanted = append(wanted, strings.Join([]string{p.Day, percentEncoded(string(p.Transfer.ID)),
				hledgerDescription(p.Transfer.Description), hledgerAccount(posting.Account)}, "\x1f"))
		}
	}
	for _, row := range hledgerTable(t, path, "register", "-w", "2000") {
		if row[2] != "opening" && row[2] != "assert" {
			seen = append(seen, strings.Join([]string{row[1], row[2], row[3], row[4]}, "\x1f"))
		}
	}
	if diff := cmp.Diff(wanted, seen); diff != "" {
		t.Errorf("the postings differ (-want +got):\n%s", diff)
	}
}

// hledgerPlaces are where a journal has amounts.
var hledgerPlaces = map[string]*regexp.Regexp{
	"posting":           regexp.MustCompile(`(?m)^    \S+ +(-?[0-9.]+) [A-Z"]`),
	"running assertion": regexp.MustCompile(`(?m) = (-?[0-9.]+) [A-Z"]`),
	"closing assertion": regexp.MustCompile(`(?m) == (-?[0-9.]+) [A-Z"]`),
	"opening":           regexp.MustCompile(`(?s)opening balances\n[^\n]*\n    \S+ +(-?[0-9.]+) [A-Z"]`),
}

func TestHledgerRefusesAlteredBooks(t *testing.T) {
	needTool(t, "hledger")
	for _, running := range []bool{true, false} {
		b := newMadeBook(100, 30, running)
		path, text := b.journalOf(t, asHledger)
		if ok, complaints := hledgerTakes(t, path); !ok {
			t.Fatalf("hledger refuses it as it is: %s", complaints)
		}
		for _, place := range slices.Sorted(maps.Keys(hledgerPlaces)) {
			if place == "running assertion" && !running {
				continue
			}
			t.Run(fmt.Sprintf("%s, running %t", place, running), func(t *testing.T) {
				at := digitsOf(text, hledgerPlaces[place].FindAllStringSubmatchIndex(text, -1))
				refusesAltered(t, text, at, hledgerTakes)
			})
		}
	}
}

// refusesAltered alters one digit at some of the places.
func refusesAltered(t *testing.T, text string, places []int, takes func(*testing.T, string) (bool, string)) {
	t.Helper()
	if len(places) < 3 {
		t.Fatalf("there are %d digits", len(places))
	}
	r := rand.New(rand.NewPCG(7, 7))
	for range 5 {
		at := places[r.IntN(len(places))]
		path := filepath.Join(t.TempDir(), "altered")
		saveJournal(t, path, alteredAt(text, at))
		if ok, _ := takes(t, path); ok {
			t.Errorf("it is accepted with another digit at byte %d, in %q", at, text[max(0, at-80):min(len(text), at+40)])
		}
	}
}

// TestHledgerRefusesAConsistentLie alters both sides of a transfer, which still sums to zero.
func TestHledgerRefusesAConsistentLie(t *testing.T) {
	needTool(t, "hledger")
	b := newMadeBook(101, 40, false)
	p := b.transfers[20].Postings
	cent := decimal.New(1, -b.accounts[slices.IndexFunc(b.accounts, func(a BookAccount) bool { return a.ID == p[0].Account })].Currency.Scale)
	for i := range p {
		if p[i].Amount.IsNegative() {
			p[0].Amount, p[i].Amount = p[0].Amount.Add(cent), p[i].Amount.Sub(cent)
			break
		}
	}
	path, _ := b.journalOf(t, asHledger)
	if ok, _ := hledgerTakes(t, path); ok {
		t.Error("it is accepted")
	}
}

func TestHledgerRefusesOpeningsThatDoNotSumToZero(t *testing.T) {
	needTool(t, "hledger")
	b := newMadeBook(102, 5, true)
	for i := range b.accounts {
		if a := &b.accounts[i]; !a.Opening.IsZero() {
			cent := decimal.New(1, -a.Currency.Scale)
			a.Opening, b.closing[a.ID] = a.Opening.Add(cent), b.closing[a.ID].Add(cent)
			break
		}
	}
	path, _ := b.journalOf(t, asHledger)
	if ok, complaints := hledgerTakes(t, path); ok || !strings.Contains(complaints, "could not balance") {
		t.Errorf("it is accepted, or for another reason: %s", complaints)
	}
}

// TestHledgerIsExact has amounts that no other tool computes with.
func TestHledgerIsExact(t *testing.T) {
	needTool(t, "hledger")
	big := decimal.RequireFromString("12345678.901234567890123456789012345678")
	b := &madeBook{
		head: BookHead{Ledger: "main", Basis: "booking", Zone: "UTC", From: "9999-12-31", To: "10000-01-02"},
		accounts: []BookAccount{
			{ID: "a", Type: ledger.Asset, Currency: ledger.Currency{Code: "XYZ", Scale: 30}},
			{ID: "b", Type: ledger.Asset, Currency: ledger.Currency{Code: "XYZ", Scale: 30}},
		},
		closing: map[ledger.AccountID]decimal.Decimal{},
	}
	for i, day := range []string{"9999-12-31", "10000-01-01"} {
		bt := BookTransfer{Day: day, Transfer: &ledger.Transfer{Sequence: int64(i + 1)}}
		bt.Transfer.ID = ledger.TransferID(fmt.Sprint("t", i))
		b.post(&bt, "a", big, true)
		b.post(&bt, "b", big.Neg(), true)
		b.transfers = append(b.transfers, bt)
	}
	path, text := b.journalOf(t, asHledger)
	if ok, complaints := hledgerTakes(t, path); !ok {
		t.Fatalf("hledger refuses it: %s\n%s", complaints, text)
	}
	if got := hledgerTable(t, path, "bal", "-N", "--flat", "-E", "--layout=bare")[0][2]; got != big.Add(big).StringFixed(30) {
		t.Errorf("the balance is %s", got)
	}
	saveJournal(t, path, strings.Replace(text, "12345678.901234567890123456789012345678", "12345678.901234567890123456789012345679", 1))
	if ok, _ := hledgerTakes(t, path); ok {
		t.Error("it is accepted with another last digit")
	}
}

func TestHledgerText(t *testing.T) {
	var out bytes.Buffer
	w := NewHledger(&out, HledgerOptions{Metadata: true})
	if err := exampleBook().write(w); err != nil {
		t.Fatal(err)
	}
	const want = `; khata-export format=1 ledger=main basis=booking zone=Asia/Dhaka from=2026-01-01 to=2026-02-01 (exclusive) through=77
; A debit is positive, a credit negative. How to check this file: docs/export.md of Khata.
; It is whole only if its last line begins with "; khata-export end".
decimal-mark .
commodity 1000.00 BDT
account asset:cash  ; type:A, account-id:asset%3Acash
account wallet:shimul  ; type:L, account-id:wallet%3Ashimul, name:Shimul%2C the first

2026-01-01 * (opening) opening balances
    ; kind:opening
    asset:cash                                        100.00 BDT
    wallet:shimul                                    -100.00 BDT

2026-01-31 * (order-77) paid in, at the counter
    ; transfer-id:order-77, kind:transfer, posted-at:2026-01-31T10:05:00.000001Z, seq:77, caller:shop%201, metadata:%7B%22a%22%3A1%7D
    asset:cash                                        500.00 BDT = 600.00 BDT
    wallet:shimul                                    -500.00 BDT = -600.00 BDT

2026-01-31 * (assert) closing balances
    ; kind:closing
    asset:cash                                          0.00 BDT == 600.00 BDT
    wallet:shimul                                       0.00 BDT == -600.00 BDT

; khata-export end transfers=1 transactions=3 postings=6 accounts=2
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestHledgerAndBeancountRefuseWhatIsNoBook(t *testing.T) {
	for _, c := range []struct {
		what, want string
		change     func(b *madeBook)
	}{
		{"no first day", `"" is no day`, func(b *madeBook) { b.head.From = "" }},
		{"no last day", `"soon" is no day`, func(b *madeBook) { b.head.To = "soon" }},
		{"no days", "has no day", func(b *madeBook) { b.head.To = b.head.From }},
		{"an account twice", "twice", func(b *madeBook) { b.accounts[1] = b.accounts[0] }},
		{"an account without a type", "which is none", func(b *madeBook) { b.accounts[1].Type = "" }},
		{"an unknown account", "not among those", func(b *madeBook) { b.transfers[0].Postings[0].Account = "other" }},
		{"a day before it", "not in the book", func(b *madeBook) { b.transfers[0].Day = "2025-12-31" }},
		{"a day after it", "not in the book", func(b *madeBook) { b.transfers[0].Day = "2026-02-01" }},
		{"a finer amount", "more decimals", func(b *madeBook) { b.transfers[0].Postings[0].Amount = decimal.New(1, -3) }},
		{"a finer opening", "more decimals", func(b *madeBook) { b.accounts[0].Opening = decimal.New(1, -3) }},
		{"a finer closing balance", "more decimals", func(b *madeBook) { b.closing["asset:cash"] = decimal.New(1, -3) }},
		{"days out of order", "comes after", func(b *madeBook) {
			b.transfers = append(b.transfers, b.transfers[0])
			b.transfers[1].Day = "2026-01-30"
		}},
	} {
		for name, make := range bookWriters {
			b := exampleBook()
			c.change(b)
			if err := b.write(make(io.Discard)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %q", name, c.what, err, c.want)
			}
		}
	}
}

var bookWriters = map[string]func(io.Writer) BookWriter{
	"hledger": func(w io.Writer) BookWriter { return NewHledger(w, HledgerOptions{}) }, "beancount": NewBeancount,
}

func TestHledgerAndBeancountWantTheirOrder(t *testing.T) {
	for name, make := range bookWriters {
		b := exampleBook()
		w := make(io.Discard)
		if err := errors.Join(w.Begin(b.head), w.Account(b.accounts[0]), w.Account(b.accounts[1]), w.Transfer(b.transfers[0])); err != nil {
			t.Fatal(err)
		}
		late := BookAccount{ID: "late", Type: ledger.Asset, Currency: bookCurrencies[0]}
		if err := w.Account(late); err == nil || !strings.Contains(err.Error(), "after the first transfer") {
			t.Errorf("%s, an account after a transfer: %v", name, err)
		}
		if err := w.Closing("asset:cash", decimal.Zero); err != nil {
			t.Fatal(err)
		}
		if err := w.Closing("asset:cash", decimal.Zero); err == nil || !strings.Contains(err.Error(), "two closing balances") {
			t.Errorf("%s, a second closing balance: %v", name, err)
		}
		if err := w.Transfer(b.transfers[0]); err == nil || !strings.Contains(err.Error(), "after the first closing") {
			t.Errorf("%s, a transfer after a closing balance: %v", name, err)
		}
		if err := w.End(); err == nil || !strings.Contains(err.Error(), "1 of 2 accounts have no closing balance") {
			t.Errorf("%s, an account without a closing balance: %v", name, err)
		}
	}
}

// failing fails after so many bytes.
type failing int

func (f *failing) Write(p []byte) (int, error) {
	if *f -= failing(len(p)); *f < 0 {
		return 0, errors.New("the disk is full")
	}
	return len(p), nil
}

func TestHledgerAndBeancountReportWhatCouldNotBeWritten(t *testing.T) {
	b := newMadeBook(3, 400, true)
	for name, make := range bookWriters {
		for _, room := range []failing{0, 1 << 16} {
			if err := b.write(make(&room)); err == nil || !strings.Contains(err.Error(), "the disk is full") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestHledgerAndBeancountOfNothing(t *testing.T) {
	needTool(t, "hledger", "bean-check")
	b := &madeBook{head: exampleBook().head}
	path, _ := b.journalOf(t, asHledger)
	if ok, complaints := hledgerTakes(t, path); !ok {
		t.Errorf("hledger refuses an empty book: %s", complaints)
	}
	path, _ = b.journalOf(t, asBeancount)
	if ok, complaints := beancountTakes(t, path); !ok {
		t.Errorf("beancount refuses an empty book: %s", complaints)
	}
}
