package reconcile

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

const (
	main = ledger.DefaultLedger
	// clerk and colleague are people who decide.
	clerk, colleague = "clerk", "colleague"
)

// desk is a ledger, a bank account of it, and what reconciles them.
type desk struct {
	*Reconciler
	journal *journal.Journal
	db      *pgtest.DB
	pool    *pgxpool.Pool
	account *BankAccount
}

// setup makes a desk without a bank account. At the end of the test the books are verified.
func setup(t testing.TB, faults ...*pgtest.Faults) *desk {
	t.Helper()
	db := pgtest.New(t)
	config := pg.Config{DSN: db.ServiceDSN()}
	if len(faults) > 0 {
		config.Dial = faults[0].DialFunc(nil)
	}
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	return &desk{Reconciler: New(j, pool), journal: j, db: db, pool: pool}
}

// bank makes a desk with a bank account "bank" of EUR, known as ACC, on assets:bank, and two accounts to post against.
func bank(t testing.TB, change ...func(*BankAccountSpec)) *desk {
	t.Helper()
	d := setup(t)
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	d.open(t, "EUR", change...)
	return d
}

func (d *desk) open(t testing.TB, currency ledger.CurrencyCode, change ...func(*BankAccountSpec)) {
	t.Helper()
	d.accounts(t, "assets:bank", ledger.Asset, currency)
	d.accounts(t, "wallet", ledger.Liability, currency)
	d.accounts(t, "expense:fees", ledger.Expense, currency)
	settings := DefaultSettings()
	settings.Identifiers = []string{"ACC"}
	spec := BankAccountSpec{Name: "bank", Account: "assets:bank", Basis: report.Value, Settings: &settings}
	for _, c := range change {
		c(&spec)
	}
	var err error
	if d.account, err = d.CreateBankAccount(t.Context(), spec, clerk); err != nil {
		t.Fatal(err)
	}
}

func (d *desk) accounts(t testing.TB, id ledger.AccountID, kind ledger.AccountType, currency ledger.CurrencyCode) {
	t.Helper()
	if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, []ledger.AccountSpec{{ID: id, Type: kind, Currency: currency}}); err != nil {
		t.Fatal(err)
	}
}

// post posts "id day amount [key=value…]" between the bank's account and the wallet: a positive amount comes in.
func (d *desk) post(t testing.TB, transfers ...string) {
	t.Helper()
	var specs []ledger.TransferSpec
	for _, text := range transfers {
		f := strings.Fields(text)
		at, err := time.Parse("2006-01-02", f[1])
		if err != nil {
			t.Fatal(err)
		}
		amount, debit, credit := dec(f[2]), ledger.AccountID("assets:bank"), ledger.AccountID("wallet")
		if amount.IsNegative() {
			debit, credit, amount = credit, debit, amount.Neg()
		}
		at = at.Add(10 * time.Hour)
		spec := ledger.TransferSpec{ID: ledger.TransferID(f[0]), Entries: ledger.Simple(debit, credit, amount, ""), EffectiveAt: &at}
		if len(f) > 3 {
			var pairs []string
			for _, pair := range f[3:] {
				key, value, _ := strings.Cut(pair, "=")
				pairs = append(pairs, fmt.Sprintf("%q:%q", key, value))
			}
			spec.Metadata = ledger.Metadata("{" + strings.Join(pairs, ",") + "}")
		}
		specs = append(specs, spec)
	}
	results, err := d.journal.Post(t.Context(), clerk, main, specs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil || r.Transfer.Refusal != nil {
			t.Fatalf("%s: %v %+v", transfers[i], r.Err, r.Transfer)
		}
	}
}

// importText imports a file.
func (d *desk) importText(t testing.TB, content string) *Import {
	t.Helper()
	i, err := d.Import(t.Context(), ImportSpec{BankAccount: d.account.Name, FileName: "test"}, strings.NewReader(content), clerk)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// refusedText imports a file that is to be refused, and returns the refusal.
func (d *desk) refusedText(t testing.TB, content string) *RefusedFile {
	t.Helper()
	_, err := d.Import(t.Context(), ImportSpec{BankAccount: d.account.Name}, strings.NewReader(content), clerk)
	return mustRefuse(t, err)
}

func mustRefuse(t testing.TB, err error) *RefusedFile {
	t.Helper()
	var refused *RefusedFile
	if !errors.As(err, &refused) {
		t.Fatalf("not refused: %v", err)
	}
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Code != ledger.CodeInvalidArgument || refused.File == nil {
		t.Fatalf("the refusal is %+v", err)
	}
	return refused
}

// mt940 is a statement of account ACC in EUR: its number, the days and balances "2026-01-01 100.00" at its beginning and end, and lines
// "2026-01-02 50.00 REFERENCE [text]".
func mt940(number int, opening, closing string, lines ...string) string {
	return mt940In("EUR", number, opening, closing, lines...)
}

func mt940In(currency string, number int, opening, closing string, lines ...string) string {
	mark := func(amount string) (string, string) {
		if strings.HasPrefix(amount, "-") {
			return "D", strings.ReplaceAll(amount[1:], ".", ",")
		}
		return "C", strings.ReplaceAll(amount, ".", ",")
	}
	short := func(day string) string { return strings.ReplaceAll(day[2:], "-", "") }
	balance := func(tag, text string) string {
		f := strings.Fields(text)
		sign, amount := mark(f[1])
		return fmt.Sprintf(":%s:%s%s%s%s\n", tag, sign, short(f[0]), currency, comma(amount))
	}
	out := fmt.Sprintf(":20:TEST%d\n:25:ACC\n:28C:%d/1\n", number, number) + balance("60F", opening)
	for _, line := range lines {
		f := strings.SplitN(line, " ", 4)
		sign, amount := mark(f[1])
		out += fmt.Sprintf(":61:%s%s%s%sNTRF%s\n", short(f[0]), short(f[0])[2:], sign, comma(amount), f[2])
		if len(f) > 3 {
			out += ":86:" + f[3] + "\n"
		}
	}
	return out + balance("62F", closing) + "-\n"
}

// comma is an amount as SWIFT has it: always with a comma.
func comma(amount string) string {
	if strings.Contains(amount, ",") {
		return amount
	}
	return amount + ","
}

// csvProfile reads files of lines "day;amount;reference;text;id".
func csvProfile() bankfile.Profile {
	return bankfile.Profile{
		Name: "plain", Delimiter: ";", Currency: "EUR", Header: true,
		Columns: bankfile.Columns{
			BookingDate: bankfile.Column{Name: "day"}, Amount: bankfile.Column{Name: "amount"}, Reference: bankfile.Column{Name: "reference"},
			Description: []bankfile.Column{{Name: "text"}}, ID: bankfile.Column{Name: "id"},
		},
	}
}

// usingCSV makes the bank account read CSV.
func (d *desk) usingCSV(t testing.TB) {
	t.Helper()
	if _, err := d.SaveProfile(t.Context(), main, csvProfile(), clerk); err != nil {
		t.Fatal(err)
	}
	d.set(t, func(s *Settings) { s.Profile = "plain" })
}

func csvFile(lines ...string) string {
	return "day;amount;reference;text;id\n" + strings.Join(lines, "\n") + "\n"
}

func (d *desk) set(t testing.TB, change func(*Settings)) {
	t.Helper()
	settings := d.account.Settings
	change(&settings)
	a, err := d.Set(t.Context(), main, d.account.Name, settings, clerk)
	if err != nil {
		t.Fatal(err)
	}
	d.account = a
}

// query runs a query as the superuser, and gives its one value as text.
func (d *desk) query(t testing.TB, sql string, args ...any) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text *string
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	if text == nil {
		return ""
	}
	return *text
}

// mustCode fails the test unless an error has a code.
func mustCode(t testing.TB, err error, code ledger.Code) {
	t.Helper()
	var typed *ledger.Error
	if !errors.As(err, &typed) || typed.Code != code {
		t.Fatalf("want %s, got %v", code, err)
	}
}

// sample is a file of a bank that is not part of the repository.
func sample(t testing.TB, name string) *os.File {
	t.Helper()
	path := filepath.FromSlash("../../../shared/data/" + name)
	f, err := os.Open(path)
	if os.IsNotExist(err) {
		t.Skipf("%s is not here: other people's files are not part of the repository", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func equal(a decimal.Decimal, b string) bool { return a.Equal(dec(b)) }

func day(text string) bankfile.Date {
	d, err := bankfile.ParseDate(text)
	if err != nil {
		panic(err)
	}
	return d
}

func execAs(t testing.TB, dsn, sql string) error {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), sql)
	return err
}

// budgetForTests is a context that ends soon.
func budgetForTests(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	t.Cleanup(cancel)
	return ctx
}
