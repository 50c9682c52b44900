package ledger_test

import (
	stdcmp "cmp"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

func amount(text string) decimal.Decimal { return decimal.RequireFromString(text) }

func pointer[T any](v T) *T { return &v }

// fault describes an error as "AMOUNT_SCALE amount,entries[1].account": its code and fields.
func fault(err error) string {
	var typed *ledger.Error
	switch {
	case err == nil:
		return "OK"
	case !errors.As(err, &typed):
		return "untyped: " + err.Error()
	}
	var fields []string
	for _, v := range typed.Violations {
		fields = append(fields, v.Field)
	}
	return strings.TrimSpace(string(typed.Code) + " " + strings.Join(fields, ","))
}

func invalid(field string) string { return "INVALID_ARGUMENT " + field }

// badIDs are no ids of transfers or accounts.
var badIDs = map[string]string{
	"empty": "", "of 129 bytes": strings.Repeat("x", 129), "with space": "a b", "with leading space": " a", "with trailing newline": "a\n", "with tab": "a\tb",
	"with NUL": "a\x00", "with DEL": "a\x7f", "not UTF-8": "a\xff", "not ASCII": "চালান", "with no-break space": "a\u00a0b",
	"reserved": "khata:x", "only the reserved prefix": "khata:", "of a megabyte": strings.Repeat("x", 1<<20),
}

func TestID_Validate(t *testing.T) {
	t.Parallel()
	for name, id := range badIDs {
		for _, err := range []error{ledger.TransferID(id).Validate("some.field"), ledger.AccountID(id).Validate("some.field")} {
			if got := fault(err); got != invalid("some.field") {
				t.Errorf("%s: got %s", name, got)
			} else if len(err.Error()) > 200 {
				t.Errorf("%s: a message of %d bytes", name, len(err.Error()))
			}
		}
	}
	all := strings.Builder{}
	for c := byte(0x21); c <= 0x7e; c++ {
		all.WriteByte(c)
	}
	for _, id := range []string{"a", "!", "~", "0", all.String(), strings.Repeat("x", 128), "order-77-capture", "wallet:shimul", "khata", "khata-x", "Khata:x", "x-khata:", "a/b?c#d"} {
		if err := errors.Join(ledger.TransferID(id).Validate("id"), ledger.AccountID(id).Validate("id")); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestName_Validate(t *testing.T) {
	t.Parallel()
	for _, name := range []ledger.Name{"main", "a", "0", "a-b_c", "9lives", ledger.Name(strings.Repeat("a", 63)), "a-", "a_"} {
		if err := name.Validate("ledger"); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []ledger.Name{"", "-a", "_a", "A", "aB", "a b", "a.b", "a:b", "ক", "a\x00", "a\xff", ledger.Name(strings.Repeat("a", 64)), ledger.Name(strings.Repeat("a", 1<<20))} {
		if err := name.Validate("ledger"); fault(err) != invalid("ledger") || len(err.Error()) > 400 {
			t.Errorf("%.80q: got %s", name, fault(err))
		}
	}
	if ledger.Name("").Or() != ledger.DefaultLedger || ledger.Name("shop").Or() != "shop" || ledger.DefaultLedger.Validate("") != nil {
		t.Error("the default ledger is not what an empty name means")
	}
}

func TestDerivedID(t *testing.T) {
	t.Parallel()
	if got := ledger.DerivedID("refund", "order-77", "2"); got != "khata:refund:order-77:2" {
		t.Errorf("got %s", got)
	}
	if err := ledger.DerivedID("refund", "x").Validate("transfer_id"); fault(err) != invalid("transfer_id") {
		t.Errorf("a caller may post it: %v", err)
	}
	ids := map[ledger.TransferID]int{}
	for n := range 300 {
		id := ledger.DerivedID("refund", strings.Repeat("x", n))
		if id != ledger.DerivedID("refund", strings.Repeat("x", n)) {
			t.Fatalf("%d: the same parts give another id", n)
		}
		if before, ok := ids[id]; ok {
			t.Errorf("%d and %d give the same id", before, n)
		}
		ids[id] = n
		if !strings.HasPrefix(string(id), "khata:refund:") || len(id) > ledger.MaxIDLength {
			t.Errorf("%d: %s", n, id)
		}
		// But for its prefix it is an id as a caller could have chosen.
		if err := ledger.TransferID(strings.TrimPrefix(string(id), ledger.ReservedPrefix)).Validate("id"); err != nil {
			t.Errorf("%d: %v", n, err)
		}
		if whole, hashed := 13+n, !strings.Contains(string(id), strings.Repeat("x", n)); hashed != (whole > ledger.MaxIDLength) && n > 0 {
			t.Errorf("an id of %d bytes: hashed is %t", whole, hashed)
		}
	}
	if ledger.DerivedID("refund", strings.Repeat("x", 200), "1") == ledger.DerivedID("refund", strings.Repeat("x", 200), "2") {
		t.Error("the end of a long id does not count")
	}
}

func TestCurrency_Table(t *testing.T) {
	t.Parallel()
	for code, scale := range map[ledger.CurrencyCode]int32{
		"BDT": 2, "USD": 2, "EUR": 2, "JPY": 0, "KRW": 0, "ISK": 0, "UYI": 0, "KWD": 3, "BHD": 3, "TND": 3, "CLF": 4, "UYW": 4, "CLP": 0, "HUF": 2, "MGA": 2,
	} {
		if got, ok := ledger.ISOCurrency(code); !ok || got != (ledger.Currency{Code: code, Scale: scale}) {
			t.Errorf("%s: %v %t", code, got, ok)
		}
	}
	for _, code := range []ledger.CurrencyCode{"ETH", "XAU", "XXX", "XTS", "XDR", "HRK", "bdt", ""} {
		if got, ok := ledger.ISOCurrency(code); ok {
			t.Errorf("%s is in the table: %v", code, got)
		}
	}
	list := ledger.ISOCurrencies()
	if !slices.IsSortedFunc(list, func(a, b ledger.Currency) int { return strings.Compare(string(a.Code), string(b.Code)) }) {
		t.Error("not in the order of their codes")
	}
	for _, c := range list {
		if err := c.Validate(); err != nil || len(c.Code) != 3 {
			t.Errorf("%v: %v", c, err)
		}
		if got, ok := ledger.ISOCurrency(c.Code); !ok || got != c {
			t.Errorf("listed as %v, found as %v", c, got)
		}
	}
	// A code that stood in two of the table's lists would have one scale or the other.
	written := codesInSource(t)
	slices.Sort(written)
	if twice := slices.Clone(written); len(slices.Compact(twice)) != len(written) {
		t.Error("a code is written twice in the table")
	}
	if len(written) != len(list) || len(list) < 150 {
		t.Errorf("%d codes are written in the table, %d are listed", len(written), len(list))
	}
}

// codesInSource reads the codes that the table of currencies is made from.
func codesInSource(t *testing.T) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "currency.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var written []string
	for _, decl := range file.Decls {
		table, ok := decl.(*ast.GenDecl)
		if !ok || table.Tok != token.VAR {
			continue
		}
		ast.Inspect(table, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err != nil {
					t.Fatal(err)
				}
				written = append(written, strings.Fields(text)...)
			}
			return true
		})
	}
	return written
}

func TestCurrency_Validate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		currency ledger.Currency
		want     string
	}{
		{ledger.Currency{Code: "ETH", Scale: 18}, "OK"}, {ledger.Currency{Code: "POINTS_2026", Scale: 0}, "OK"}, {ledger.Currency{Code: "X30", Scale: 30}, "OK"},
		{ledger.Currency{Code: "ABCDEFGHIJKLMNOP", Scale: 2}, "OK"}, {ledger.Currency{Code: "BDT", Scale: 2}, "OK"}, {ledger.Currency{Code: "XAU", Scale: 6}, "OK"},
		{ledger.Currency{Code: "BDT", Scale: 3}, invalid("code")}, {ledger.Currency{Code: "X31", Scale: 31}, invalid("scale")},
		{ledger.Currency{Code: "NEG", Scale: -1}, invalid("scale")}, {ledger.Currency{Code: "AB"}, invalid("code")}, {ledger.Currency{Code: ""}, invalid("code")},
		{ledger.Currency{Code: "ABCDEFGHIJKLMNOPQ"}, invalid("code")}, {ledger.Currency{Code: "1AB"}, invalid("code")}, {ledger.Currency{Code: "_AB"}, invalid("code")},
		{ledger.Currency{Code: "eth"}, invalid("code")}, {ledger.Currency{Code: "E H"}, invalid("code")}, {ledger.Currency{Code: "ET\xff"}, invalid("code")},
	} {
		if got := fault(c.currency.Validate()); got != c.want {
			t.Errorf("%v: got %s, want %s", c.currency, got, c.want)
		}
	}
}

// Codes is what other tests go by: a code that it lacks would be tested nowhere.
func TestCodes_AreComplete(t *testing.T) {
	t.Parallel()
	file, err := parser.ParseFile(token.NewFileSet(), "code.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []ledger.Code
	for _, decl := range file.Decls {
		consts, ok := decl.(*ast.GenDecl)
		if !ok || consts.Tok != token.CONST {
			continue
		}
		for _, spec := range consts.Specs {
			value := spec.(*ast.ValueSpec)
			if kind, ok := value.Type.(*ast.Ident); !ok || kind.Name != "Code" {
				t.Errorf("%s is not declared as a Code", value.Names[0])
			}
			text, err := strconv.Unquote(value.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, ledger.Code(text))
			if want := "Code" + camel(text); value.Names[0].Name != want {
				t.Errorf("%s is called %s, want %s", text, value.Names[0], want)
			}
		}
	}
	if diff := cmp.Diff(declared, ledger.Codes()); diff != "" || len(declared) == 0 {
		t.Errorf("Codes() (-declared +listed):\n%s", diff)
	}
	for _, reason := range ledger.Reasons() {
		if !slices.Contains(declared, reason) || reason.Open() || reason.Retryable() {
			t.Errorf("%s is the reason of a refusal and no code, or open", reason)
		}
	}
}

func camel(text string) string {
	var out strings.Builder
	for word := range strings.SplitSeq(text, "_") {
		out.WriteString(word[:1] + strings.ToLower(word[1:]))
	}
	return out.String()
}

func TestError(t *testing.T) {
	t.Parallel()
	inner := &ledger.Error{
		Code: ledger.CodeAmountScale, Message: "amount scale", RetryAfter: time.Second,
		Violations: []ledger.Violation{{Field: "amount", Message: "is fine"}, {Field: "floor", Message: "too"}},
	}
	err := fmt.Errorf("do it: %w", ledger.At("accounts[3]", inner))
	if got := err.Error(); got != "do it: amount scale: accounts[3].amount: is fine; accounts[3].floor: too" {
		t.Errorf("text %q", got)
	}
	if !errors.Is(err, ledger.CodeAmountScale) || errors.Is(err, ledger.CodeInternal) || ledger.CodeOf(err) != ledger.CodeAmountScale {
		t.Errorf("code %s", ledger.CodeOf(err))
	}
	if inner.Violations[0].Field != "amount" {
		t.Error("At has changed the error that it was given")
	}
	plain := errors.New("no connection")
	if !errors.Is(ledger.At("x", plain), plain) || ledger.At("x", nil) != nil || ledger.CodeOf(plain) != ledger.CodeInternal || ledger.CodeOf(nil) != "" {
		t.Error("an error without a code")
	}
	if got := ledger.CodeAccountNotFound.Error(); got != "account not found" {
		t.Errorf("as text: %q", got)
	}
}

func TestAccountType_SignedAndFrozen(t *testing.T) {
	t.Parallel()
	normal := map[ledger.AccountType]ledger.Direction{
		ledger.Asset: ledger.Debit, ledger.Expense: ledger.Debit, ledger.Liability: ledger.Credit, ledger.Equity: ledger.Credit, ledger.Revenue: ledger.Credit,
	}
	for kind, side := range normal {
		other := ledger.Debit
		if side == ledger.Debit {
			other = ledger.Credit
		}
		if !kind.Valid() || kind.NormalBalance() != side || !kind.Signed(side, amount("2.50")).Equal(amount("2.50")) || !kind.Signed(other, amount("2.50")).Equal(amount("-2.50")) {
			t.Errorf("%s: normal balance %s", kind, kind.NormalBalance())
		}
	}
	if ledger.AccountType("").Valid() || ledger.AccountType("Asset").Valid() || ledger.Frozen("").Valid() {
		t.Error("an empty or other type is valid")
	}
	for frozen, blocked := range map[ledger.Frozen][2]bool{
		ledger.FrozenNone: {false, false}, ledger.FrozenDebits: {true, false}, ledger.FrozenCredits: {false, true}, ledger.FrozenBoth: {true, true},
	} {
		if got := [2]bool{frozen.Blocks(ledger.Debit), frozen.Blocks(ledger.Credit)}; got != blocked || !frozen.Valid() {
			t.Errorf("%s blocks debits, credits: %v", frozen, got)
		}
	}
}

func TestAccountSpec(t *testing.T) {
	t.Parallel()
	good := ledger.AccountSpec{ID: "wallet:a", Type: ledger.Liability, Currency: "BDT", Name: strings.Repeat("x", ledger.MaxName)}
	for name, c := range map[string]struct {
		change func(*ledger.AccountSpec)
		want   string
	}{
		"in order":          {func(*ledger.AccountSpec) {}, "OK"},
		"id":                {func(s *ledger.AccountSpec) { s.ID = "a b" }, invalid("account")},
		"no type":           {func(s *ledger.AccountSpec) { s.Type = "" }, invalid("type")},
		"type":              {func(s *ledger.AccountSpec) { s.Type = "wallet" }, invalid("type")},
		"no currency":       {func(s *ledger.AccountSpec) { s.Currency = "" }, invalid("currency")},
		"name too long":     {func(s *ledger.AccountSpec) { s.Name += "x" }, invalid("name")},
		"name with NUL":     {func(s *ledger.AccountSpec) { s.Name = "a\x00" }, invalid("name")},
		"name not UTF-8":    {func(s *ledger.AccountSpec) { s.Name = "\xff" }, invalid("name")},
		"name with newline": {func(s *ledger.AccountSpec) { s.Name = "a\nb" }, "OK"},
	} {
		spec := good
		c.change(&spec)
		if got := fault(spec.Validate()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
	bdt := ledger.Currency{Code: "BDT", Scale: 2}
	good.Floor = pointer(amount("-5.00"))
	account, err := good.Resolve(bdt)
	if err != nil || !account.Serialised || account.Frozen != ledger.FrozenNone || account.Currency != bdt || account.Closed {
		t.Errorf("with a floor: %+v %v", account, err)
	}
	good.Ceiling = pointer(amount("-5"))
	if account, err = good.Resolve(bdt); err != nil || !account.Ceiling.Equal(*good.Floor) {
		t.Errorf("with a ceiling at the floor: %+v %v", account, err)
	}
	good.Ceiling = pointer(amount("-5.01"))
	if _, err := good.Resolve(bdt); fault(err) != invalid("ceiling") {
		t.Errorf("a ceiling below the floor: %v", err)
	}
	good.Ceiling = pointer(amount("5.000"))
	if _, err := good.Resolve(bdt); fault(err) != "AMOUNT_SCALE ceiling" {
		t.Errorf("a ceiling of three decimals: %v", err)
	}
	good.Floor, good.Ceiling = nil, pointer(amount("5"))
	if account, err = good.Resolve(bdt); err != nil || !account.Serialised || account.Floor != nil {
		t.Errorf("with a ceiling: %+v %v", account, err)
	}
	good.Floor = pointer(amount("0.000"))
	if _, err := good.Resolve(bdt); fault(err) != "AMOUNT_SCALE floor" {
		t.Errorf("a floor of three decimals: %v", err)
	}
}

func TestAccountUpdate(t *testing.T) {
	t.Parallel()
	bdt := ledger.Currency{Code: "BDT", Scale: 2}
	plain := ledger.Account{ID: "wallet:a", Type: ledger.Liability, Currency: bdt, Name: "A", Frozen: ledger.FrozenNone}
	floored := plain
	floored.Floor, floored.Serialised = pointer(amount("5")), true
	capped := plain
	capped.Ceiling, capped.Serialised = pointer(amount("5")), true
	closed := plain
	closed.Closed = true
	with := func(a ledger.Account, change func(*ledger.Account)) ledger.Account {
		change(&a)
		return a
	}
	for name, c := range map[string]struct {
		before  ledger.Account
		update  ledger.AccountUpdate
		balance string
		want    ledger.Account
		fault   string
		rules   bool
	}{
		"name":                 {plain, ledger.AccountUpdate{Name: pointer("B")}, "0", with(plain, func(a *ledger.Account) { a.Name = "B" }), "", false},
		"metadata":             {plain, ledger.AccountUpdate{Metadata: pointer(ledger.Metadata(`{"a":1}`))}, "0", with(plain, func(a *ledger.Account) { a.Metadata = `{"a":1}` }), "", false},
		"floor":                {plain, ledger.AccountUpdate{Floor: pointer(amount("5"))}, "0", floored, "", true},
		"floor removed":        {floored, ledger.AccountUpdate{RemoveFloor: true}, "0", with(plain, func(a *ledger.Account) { a.Serialised = true }), "", true},
		"floor and lock gone":  {floored, ledger.AccountUpdate{RemoveFloor: true, Serialised: pointer(false)}, "0", plain, "", true},
		"floor too fine":       {plain, ledger.AccountUpdate{Floor: pointer(amount("5.001"))}, "0", plain, "AMOUNT_SCALE floor", true},
		"ceiling":              {plain, ledger.AccountUpdate{Ceiling: pointer(amount("5"))}, "9", capped, "", true},
		"ceiling removed":      {capped, ledger.AccountUpdate{RemoveCeiling: true}, "0", with(plain, func(a *ledger.Account) { a.Serialised = true }), "", true},
		"ceiling too fine":     {plain, ledger.AccountUpdate{Ceiling: pointer(amount("5.001"))}, "0", plain, "AMOUNT_SCALE ceiling", true},
		"ceiling at the floor": {floored, ledger.AccountUpdate{Ceiling: pointer(amount("5.0"))}, "0", with(floored, func(a *ledger.Account) { a.Ceiling = pointer(amount("5")) }), "", true},
		"ceiling below it":     {floored, ledger.AccountUpdate{Ceiling: pointer(amount("4.99"))}, "0", floored, invalid("ceiling"), true},
		"floor above it":       {capped, ledger.AccountUpdate{Floor: pointer(amount("5.01"))}, "0", capped, invalid("floor"), true},
		"one for the other":    {capped, ledger.AccountUpdate{Floor: pointer(amount("5")), RemoveCeiling: true}, "0", floored, "", true},
		"capped, unserialised": {capped, ledger.AccountUpdate{Serialised: pointer(false)}, "0", capped, invalid("serialised"), true},
		"unserialised":         {floored, ledger.AccountUpdate{Serialised: pointer(false)}, "0", floored, invalid("serialised"), true},
		"frozen":               {plain, ledger.AccountUpdate{Frozen: pointer(ledger.FrozenBoth)}, "9", with(plain, func(a *ledger.Account) { a.Frozen = ledger.FrozenBoth }), "", true},
		"closed":               {plain, ledger.AccountUpdate{Closed: pointer(true)}, "0", closed, "", true},
		"closed again":         {closed, ledger.AccountUpdate{Closed: pointer(true)}, "0", closed, "", true},
		"closed with money":    {plain, ledger.AccountUpdate{Closed: pointer(true)}, "0.01", plain, "BALANCE_NOT_ZERO", true},
		"closed with a debt":   {plain, ledger.AccountUpdate{Closed: pointer(true)}, "-0.01", plain, "BALANCE_NOT_ZERO", true},
		"opened":               {closed, ledger.AccountUpdate{Closed: pointer(false)}, "0", closed, "ACCOUNT_CLOSED", true},
		"not closed":           {plain, ledger.AccountUpdate{Closed: pointer(false)}, "9", plain, "", true},
		"a closed one renamed": {closed, ledger.AccountUpdate{Name: pointer("B")}, "0", with(closed, func(a *ledger.Account) { a.Name = "B" }), "", false},
	} {
		if err := c.update.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if c.update.ChangesRules() != c.rules {
			t.Errorf("%s: ChangesRules is %t", name, !c.rules)
		}
		got, err := c.update.Apply(c.before, ledger.Balance{Posted: amount(c.balance)})
		if want := stdcmp.Or(c.fault, "OK"); fault(err) != want {
			t.Errorf("%s: got %s, want %s", name, fault(err), want)
			continue
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if again, err := c.update.Apply(got, ledger.Balance{Posted: amount(c.balance)}); err != nil || !again.Unchanged(got) {
			t.Errorf("%s, twice: %+v %v", name, again, err)
		}
		if got.Unchanged(c.before) != cmp.Equal(got, c.before) {
			t.Errorf("%s: Unchanged is %t", name, got.Unchanged(c.before))
		}
	}
	for name, c := range map[string]struct {
		update ledger.AccountUpdate
		want   string
	}{
		"nothing":                  {ledger.AccountUpdate{}, invalid("account")},
		"floor set and removed":    {ledger.AccountUpdate{Floor: pointer(amount("1")), RemoveFloor: true}, invalid("floor")},
		"ceiling, set and removed": {ledger.AccountUpdate{Ceiling: pointer(amount("1")), RemoveCeiling: true}, invalid("ceiling")},
		"frozen unknown":           {ledger.AccountUpdate{Frozen: pointer(ledger.Frozen("all"))}, invalid("frozen")},
		"name too long":            {ledger.AccountUpdate{Name: pointer(strings.Repeat("x", 257))}, invalid("name")},
	} {
		if got := fault(c.update.Validate()); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
	}
}

// An account with open holds stays open: what they reserve has to go somewhere.
func TestAccountUpdate_CloseWithHolds(t *testing.T) {
	t.Parallel()
	account := ledger.Account{ID: "wallet:a", Type: ledger.Liability, Currency: ledger.Currency{Code: "BDT", Scale: 2}, Frozen: ledger.FrozenNone}
	for want, balance := range map[string]ledger.Balance{
		"account wallet:a has a balance of 5.00 BDT; only an account with a balance of zero can be closed": {Posted: amount("5"), Held: amount("5")},
		"account wallet:a has open holds of 5.00 BDT; only an account without can be closed":               {Incoming: amount("5")},
		"account wallet:a has open holds of 0.50 BDT; only an account without can be closed":               {Held: amount("0.5")},
	} {
		_, err := ledger.AccountUpdate{Closed: pointer(true)}.Apply(account, balance)
		if ledger.CodeOf(err) != ledger.CodeBalanceNotZero || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if got := (ledger.Balance{Posted: amount("5"), Held: amount("7.5"), Incoming: amount("1")}).Available(); !got.Equal(amount("-2.5")) {
		t.Errorf("available: %s", got)
	}
}

func TestAccount_Differences(t *testing.T) {
	t.Parallel()
	base := ledger.Account{
		ID: "a", Type: ledger.Asset, Currency: ledger.Currency{Code: "BDT", Scale: 2}, Name: "A", Metadata: `{"a":1}`, Floor: pointer(amount("5")), Serialised: true,
	}
	for name, c := range map[string]struct {
		change func(*ledger.Account)
		want   []string
	}{
		"nothing":        {func(*ledger.Account) {}, nil},
		"floor by value": {func(a *ledger.Account) { a.Floor = pointer(amount("5.00")) }, nil},
		"what changes": {func(a *ledger.Account) {
			a.Version, a.Closed, a.Frozen, a.CreatedAt = 7, true, ledger.FrozenBoth, time.Now()
		}, nil},
		"type":       {func(a *ledger.Account) { a.Type = ledger.Expense }, []string{"type"}},
		"currency":   {func(a *ledger.Account) { a.Currency.Code = "USD" }, []string{"currency"}},
		"name":       {func(a *ledger.Account) { a.Name = "" }, []string{"name"}},
		"metadata":   {func(a *ledger.Account) { a.Metadata = "" }, []string{"metadata"}},
		"floor":      {func(a *ledger.Account) { a.Floor = pointer(amount("5.01")) }, []string{"floor"}},
		"no floor":   {func(a *ledger.Account) { a.Floor = nil }, []string{"floor"}},
		"serialised": {func(a *ledger.Account) { a.Serialised = false }, []string{"serialised"}},
		"ceiling":    {func(a *ledger.Account) { a.Ceiling = pointer(amount("9")) }, []string{"ceiling"}},
	} {
		other := base
		c.change(&other)
		for _, diff := range [][]ledger.Violation{base.Differences(other), other.Differences(base)} {
			var got []string
			for _, v := range diff {
				got = append(got, v.Field)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", name, got, c.want)
			}
		}
	}
}
