package grpcapi_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// withoutStamps leaves out of a comparison what the database makes.
var withoutStamps = cmp.Options{
	protocmp.Transform(),
	protocmp.IgnoreFields(&khatav1.Account{}, "version", "created_at", "updated_at"),
}

func (b *bench) create(t testing.TB, a *khatav1.NewAccount) (*khatav1.CreateAccountResponse, error) {
	t.Helper()
	return b.CreateAccount(t.Context(), &khatav1.CreateAccountRequest{Account: a})
}

func (b *bench) get(t testing.TB, id string) *khatav1.Account {
	t.Helper()
	resp, err := b.GetAccount(t.Context(), &khatav1.GetAccountRequest{Account: id})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetAccount()
}

// update sends an update that must succeed, and checks that the answer is what is then there.
func (b *bench) update(t testing.TB, in *khatav1.UpdateAccountRequest) *khatav1.Account {
	t.Helper()
	resp, err := b.UpdateAccount(t.Context(), in)
	if err != nil {
		t.Fatalf("update %v: %v", in, err)
	}
	if diff := cmp.Diff(b.get(t, in.GetAccount()), resp.GetAccount(), protocmp.Transform()); diff != "" {
		t.Errorf("the answer to %v is not what is there (-there +answer):\n%s", in, diff)
	}
	return resp.GetAccount()
}

func richAccount() *khatav1.NewAccount {
	return &khatav1.NewAccount{
		Account: "wallet:shimul", Type: khatav1.AccountType_ACCOUNT_TYPE_LIABILITY, Currency: "BDT", Name: "শিমুল",
		Metadata: `{"kyc": 2, "city": "Dhaka"}`, Floor: proto.String("-100"),
	}
}

func TestCreateAccount_Repeated(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, err := b.create(t, richAccount())
	if err != nil {
		t.Fatal(err)
	}
	want := &khatav1.Account{
		Account: "wallet:shimul", Type: khatav1.AccountType_ACCOUNT_TYPE_LIABILITY, Currency: "BDT", Scale: 2, Name: "শিমুল",
		Metadata: `{"city":"Dhaka","kyc":2}`, Floor: proto.String("-100.00"), Serialised: true, Frozen: khatav1.Frozen_FROZEN_NONE,
	}
	if diff := cmp.Diff(&khatav1.CreateAccountResponse{Account: want, Created: true}, first, withoutStamps); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if a := first.GetAccount(); a.GetVersion() == 0 || a.GetCreatedAt() == nil || a.GetUpdatedAt() == nil {
		t.Errorf("stamps: %v", a)
	}
	same := map[string]func(*khatav1.NewAccount){
		"nothing changed":        func(*khatav1.NewAccount) {},
		"floor written longer":   func(a *khatav1.NewAccount) { a.Floor = proto.String("-100.00") },
		"metadata written other": func(a *khatav1.NewAccount) { a.Metadata = `{"city":"Dhaka","kyc":2.0}` },
		"serialised, as implied": func(a *khatav1.NewAccount) { a.Serialised = true },
	}
	other := map[string]struct {
		change func(*khatav1.NewAccount)
		fields string
	}{
		"type":           {func(a *khatav1.NewAccount) { a.Type = khatav1.AccountType_ACCOUNT_TYPE_ASSET }, "type"},
		"currency":       {func(a *khatav1.NewAccount) { a.Currency = "USD" }, "currency"},
		"name":           {func(a *khatav1.NewAccount) { a.Name = "Shimul" }, "name"},
		"no metadata":    {func(a *khatav1.NewAccount) { a.Metadata = "" }, "metadata"},
		"floor":          {func(a *khatav1.NewAccount) { a.Floor = proto.String("0") }, "floor"},
		"floor scale":    {func(a *khatav1.NewAccount) { a.Currency, a.Floor = "JPY", proto.String("-100") }, "currency"},
		"no floor":       {func(a *khatav1.NewAccount) { a.Floor, a.Serialised = nil, true }, "floor"},
		"no floor, free": {func(a *khatav1.NewAccount) { a.Floor = nil }, "floor,serialised"},
	}
	check := func(now *khatav1.Account) {
		t.Helper()
		for name, change := range same {
			again := richAccount()
			change(again)
			resp, err := b.create(t, again)
			if diff := cmp.Diff(&khatav1.CreateAccountResponse{Account: now}, resp, protocmp.Transform()); diff != "" || err != nil {
				t.Errorf("again, %s (-want +got), %v:\n%s", name, err, diff)
			}
		}
		for name, c := range other {
			again := richAccount()
			c.change(again)
			if _, err := b.create(t, again); fault(err) != "AlreadyExists ALREADY_EXISTS "+c.fields {
				t.Errorf("with another %s: got %s", name, fault(err))
			}
		}
		if diff := cmp.Diff(now, b.get(t, "wallet:shimul"), protocmp.Transform()); diff != "" {
			t.Errorf("repeating has changed it (-before +after):\n%s", diff)
		}
	}
	check(first.GetAccount())
	// After an update the request that made it is still the same request, and is answered with what is there now.
	updated := b.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:shimul", Name: proto.String("Shimul"), Floor: proto.String("5"), Frozen: khatav1.Frozen_FROZEN_DEBITS})
	if updated.GetVersion() <= first.GetAccount().GetVersion() {
		t.Errorf("version %d after %d", updated.GetVersion(), first.GetAccount().GetVersion())
	}
	check(updated)
}

func TestCreateAccount_BadInput(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, c := range []struct {
		name   string
		change func(*khatav1.NewAccount)
		want   string
	}{
		{"id empty", func(a *khatav1.NewAccount) { a.Account = "" }, invalid("account")},
		{"id with space", func(a *khatav1.NewAccount) { a.Account = "a b" }, invalid("account")},
		{"id reserved", func(a *khatav1.NewAccount) { a.Account = "khata:fees" }, invalid("account")},
		{"no type", func(a *khatav1.NewAccount) { a.Type = 0 }, invalid("type")},
		{"another type", func(a *khatav1.NewAccount) { a.Type = 9 }, invalid("type")},
		{"no currency", func(a *khatav1.NewAccount) { a.Currency = "" }, invalid("currency")},
		{"unknown currency", func(a *khatav1.NewAccount) { a.Currency = "ETH" }, "NotFound CURRENCY_NOT_FOUND"},
		{"gold", func(a *khatav1.NewAccount) { a.Currency = "XAU" }, "NotFound CURRENCY_NOT_FOUND"},
		{"floor of three decimals", func(a *khatav1.NewAccount) { a.Floor = proto.String("0.000") }, "InvalidArgument AMOUNT_SCALE floor"},
		{"floor empty", func(a *khatav1.NewAccount) { a.Floor = proto.String("") }, invalid("floor")},
		{"floor +5", func(a *khatav1.NewAccount) { a.Floor = proto.String("+5") }, invalid("floor")},
		{"floor 1e3", func(a *khatav1.NewAccount) { a.Floor = proto.String("1e3") }, invalid("floor")},
		{"floor of 39 digits", func(a *khatav1.NewAccount) { a.Floor = proto.String("-100000000000000000000000000000000000000") }, invalid("floor")},
		{"metadata no object", func(a *khatav1.NewAccount) { a.Metadata = "1" }, invalid("metadata")},
		{"name of 257 bytes", func(a *khatav1.NewAccount) { a.Name = fmt.Sprintf("%257s", "x") }, invalid("name")},
	} {
		a := account("wallet:a BDT")
		c.change(a)
		if _, err := b.create(t, a); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, fault(err), c.want)
		}
		// In a list the field carries its place.
		_, err := b.CreateAccounts(t.Context(), &khatav1.CreateAccountsRequest{Accounts: []*khatav1.NewAccount{account("wallet:fine BDT"), a}})
		if got, want := fault(err), inList(c.want, "accounts[1]"); got != want {
			t.Errorf("%s, in a list: got %s, want %s", c.name, got, want)
		}
	}
	if got := b.listAccounts(t, "", 0); len(got) != 0 {
		t.Errorf("bad requests have made %q", got)
	}
}

// inList puts a path before the one field of a described error.
func inList(want, at string) string {
	var status, reason, field string
	if n, _ := fmt.Sscan(want, &status, &reason, &field); n < 3 {
		return want
	}
	return fmt.Sprintf("%s %s %s.%s", status, reason, at, field)
}

func TestCreateAccounts_AllOrNone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "there BDT")
	try := func(list ...*khatav1.NewAccount) (*khatav1.CreateAccountsResponse, error) {
		return b.CreateAccounts(t.Context(), &khatav1.CreateAccountsRequest{Accounts: list})
	}
	for name, c := range map[string]struct {
		bad  []*khatav1.NewAccount
		want string
	}{
		"malformed":        {[]*khatav1.NewAccount{account("a b BDT")}, invalid("accounts[1].currency")},
		"unknown currency": {[]*khatav1.NewAccount{account("x ETH")}, "NotFound CURRENCY_NOT_FOUND"},
		"taken":            {[]*khatav1.NewAccount{account("there USD")}, "AlreadyExists ALREADY_EXISTS currency"},
		"twice, unequal":   {[]*khatav1.NewAccount{account("x BDT"), account("x USD")}, "AlreadyExists ALREADY_EXISTS currency"},
	} {
		list := append([]*khatav1.NewAccount{account("new:1 BDT")}, c.bad...)
		if _, err := try(append(list, account("new:2 BDT"))...); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", name, fault(err), c.want)
		}
	}
	if diff := cmp.Diff([]string{"there"}, b.listAccounts(t, "", 0)); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	if _, err := try(); fault(err) != invalid("accounts") {
		t.Errorf("none: %s", fault(err))
	}
	many := make([]*khatav1.NewAccount, 10_001)
	for i := range many {
		many[i] = account(fmt.Sprintf("many:%05d BDT", i))
	}
	if _, err := try(many...); fault(err) != invalid("accounts") {
		t.Errorf("10,001: %s", fault(err))
	}
	// In the order of the request, new and old mixed; of two equal ones the first makes it.
	resp, err := try(account("z BDT"), account("there BDT"), account("a BDT"), account("z BDT"))
	if err != nil {
		t.Fatal(err)
	}
	got := each(resp.GetResults(), func(r *khatav1.CreateAccountResponse) string {
		return fmt.Sprintf("%s %t", r.GetAccount().GetAccount(), r.GetCreated())
	})
	if diff := cmp.Diff([]string{"z true", "there false", "a true", "z false"}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
}

func TestUpdateAccount_FieldsSetAndLeft(t *testing.T) {
	t.Parallel()
	b := setup(t)
	created, err := b.create(t, richAccount())
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(created.GetAccount())
	id := want.GetAccount()
	for _, c := range []struct {
		name   string
		in     *khatav1.UpdateAccountRequest
		change func()
	}{
		{"name", &khatav1.UpdateAccountRequest{Name: proto.String("S.")}, func() { want.Name = "S." }},
		{"name to nothing", &khatav1.UpdateAccountRequest{Name: proto.String("")}, func() { want.Name = "" }},
		{"metadata", &khatav1.UpdateAccountRequest{Metadata: proto.String(`{ "b":1, "a":[] }`)}, func() { want.Metadata = `{"a":[],"b":1}` }},
		{"metadata to nothing", &khatav1.UpdateAccountRequest{Metadata: proto.String("")}, func() { want.Metadata = "" }},
		{"floor", &khatav1.UpdateAccountRequest{Floor: proto.String("12.5")}, func() { want.Floor = proto.String("12.50") }},
		{"floor removed", &khatav1.UpdateAccountRequest{Floor: proto.String("")}, func() { want.Floor = nil }},
		{"serialised no more", &khatav1.UpdateAccountRequest{Serialised: proto.Bool(false)}, func() { want.Serialised = false }},
		{"floor again, which serialises", &khatav1.UpdateAccountRequest{Floor: proto.String("0")}, func() { want.Floor, want.Serialised = proto.String("0.00"), true }},
		{"freeze debits", &khatav1.UpdateAccountRequest{Frozen: khatav1.Frozen_FROZEN_DEBITS}, func() { want.Frozen = khatav1.Frozen_FROZEN_DEBITS }},
		{"freeze both", &khatav1.UpdateAccountRequest{Frozen: khatav1.Frozen_FROZEN_BOTH}, func() { want.Frozen = khatav1.Frozen_FROZEN_BOTH }},
		{"unfreeze", &khatav1.UpdateAccountRequest{Frozen: khatav1.Frozen_FROZEN_NONE}, func() { want.Frozen = khatav1.Frozen_FROZEN_NONE }},
		{"not to close", &khatav1.UpdateAccountRequest{Closed: proto.Bool(false)}, func() {}},
		{"several at once", &khatav1.UpdateAccountRequest{
			Name: proto.String("T"), Floor: proto.String("-1"), Frozen: khatav1.Frozen_FROZEN_CREDITS, Serialised: proto.Bool(true),
		}, func() {
			want.Name, want.Floor, want.Frozen = "T", proto.String("-1.00"), khatav1.Frozen_FROZEN_CREDITS
		}},
	} {
		c.in.Account = id
		c.change()
		before := b.get(t, id).GetVersion()
		once := b.update(t, c.in)
		if diff := cmp.Diff(want, once, withoutStamps); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if noChange := c.name == "not to close"; once.GetVersion() < before || noChange != (once.GetVersion() == before) {
			t.Errorf("%s: version %d after %d", c.name, once.GetVersion(), before)
		}
		// Ten times is once: nothing changes any more, not even the version.
		if diff := cmp.Diff(once, b.update(t, c.in), protocmp.Transform()); diff != "" {
			t.Errorf("%s again (-once +twice):\n%s", c.name, diff)
		}
	}
	for _, c := range []struct {
		name string
		in   *khatav1.UpdateAccountRequest
		want string
	}{
		{"nothing", &khatav1.UpdateAccountRequest{}, invalid("account")},
		{"floor of three decimals", &khatav1.UpdateAccountRequest{Floor: proto.String("0.001")}, "InvalidArgument AMOUNT_SCALE floor"},
		{"floor no number", &khatav1.UpdateAccountRequest{Floor: proto.String("none")}, invalid("floor")},
		{"unserialised under a floor", &khatav1.UpdateAccountRequest{Serialised: proto.Bool(false)}, invalid("serialised")},
		{"frozen unknown", &khatav1.UpdateAccountRequest{Frozen: 9}, invalid("frozen")},
		{"metadata no object", &khatav1.UpdateAccountRequest{Metadata: proto.String("[]")}, invalid("metadata")},
		{"name too long", &khatav1.UpdateAccountRequest{Name: proto.String(fmt.Sprintf("%257s", ""))}, invalid("name")},
	} {
		c.in.Account = id
		if _, err := b.UpdateAccount(t.Context(), c.in); fault(err) != c.want {
			t.Errorf("%s: got %s, want %s", c.name, fault(err), c.want)
		}
	}
	for _, in := range []*khatav1.UpdateAccountRequest{
		{Account: "nobody", Name: proto.String("N")}, {Account: "nobody", Frozen: khatav1.Frozen_FROZEN_BOTH},
	} {
		if _, err := b.UpdateAccount(t.Context(), in); fault(err) != "NotFound ACCOUNT_NOT_FOUND" {
			t.Errorf("of nobody: %s", fault(err))
		}
	}
	if diff := cmp.Diff(want, b.get(t, id), withoutStamps); diff != "" {
		t.Errorf("in the end (-want +got):\n%s", diff)
	}
}

func TestUpdateAccount_FreezeBlocksItsSide(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	n := 0
	move := func(debit, credit, amount string) string {
		n++
		return outcome(b.post(t, move(fmt.Sprintf("T-%d", n), debit, credit, amount)))
	}
	const frozen = "refused ACCOUNT_FROZEN wallet:a"
	for _, c := range []struct {
		frozen     khatav1.Frozen
		into, from string
	}{
		{khatav1.Frozen_FROZEN_DEBITS, "posted", frozen},
		{khatav1.Frozen_FROZEN_CREDITS, frozen, "posted"},
		{khatav1.Frozen_FROZEN_BOTH, frozen, frozen},
		{khatav1.Frozen_FROZEN_NONE, "posted", "posted"},
	} {
		b.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Frozen: c.frozen})
		if gotIn, gotOut := move("cash", "wallet:a", "2.00"), move("wallet:a", "cash", "1.00"); gotIn != c.into || gotOut != c.from {
			t.Errorf("%s: in %s, out %s", c.frozen, gotIn, gotOut)
		}
	}
	// What was refused while frozen stays refused.
	n = 1
	if got := move("wallet:a", "cash", "1.00"); got != "replayed "+frozen {
		t.Errorf("later: %s", got)
	}
	if got := b.balance(t, "wallet:a"); got != "2.00" {
		t.Errorf("balance %s", got)
	}
}

func TestUpdateAccount_CloseIsFinal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT")
	closing := &khatav1.UpdateAccountRequest{Account: "wallet:a", Closed: proto.Bool(true)}
	b.post(t, move("T-in", "cash", "wallet:a", "5.00"))
	if _, err := b.UpdateAccount(t.Context(), closing); fault(err) != "FailedPrecondition BALANCE_NOT_ZERO" {
		t.Errorf("with a balance: %s", fault(err))
	}
	// All of an update or none of it.
	if _, err := b.UpdateAccount(t.Context(), &khatav1.UpdateAccountRequest{Account: "wallet:a", Name: proto.String("N"), Closed: proto.Bool(true)}); fault(err) != "FailedPrecondition BALANCE_NOT_ZERO" {
		t.Errorf("with a balance and a name: %s", fault(err))
	}
	if a := b.get(t, "wallet:a"); a.GetClosed() || a.GetName() != "" {
		t.Errorf("a refused update has changed it: %v", a)
	}
	b.post(t, move("T-out", "wallet:a", "cash", "5.00"))
	if a := b.update(t, closing); !a.GetClosed() {
		t.Errorf("not closed: %v", a)
	}
	b.update(t, closing)
	if got := outcome(b.post(t, move("T-late", "cash", "wallet:a", "1.00"))); got != "refused ACCOUNT_CLOSED wallet:a" {
		t.Errorf("after the close: %s", got)
	}
	if got := outcome(b.post(t, move("T-in", "cash", "wallet:a", "5.00"))); got != "replayed posted" {
		t.Errorf("what was posted before it: %s", got)
	}
	if _, err := b.UpdateAccount(t.Context(), &khatav1.UpdateAccountRequest{Account: "wallet:a", Closed: proto.Bool(false)}); fault(err) != "FailedPrecondition ACCOUNT_CLOSED" {
		t.Errorf("reopened: %s", fault(err))
	}
	if a := b.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Name: proto.String("gone")}); !a.GetClosed() || a.GetName() != "gone" {
		t.Errorf("a name for a closed account: %v", a)
	}
}

// A floor above the balance blocks only what decreases it.
func TestUpdateAccount_FloorAboveTheBalance(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.accounts(t, "cash BDT", "wallet:a BDT", "wallet:b BDT")
	b.post(t, move("T-1", "cash", "wallet:a", "10.00"))
	b.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Floor: proto.String("100")})
	for i, c := range []struct {
		transfer *khatav1.NewTransfer
		want     string
	}{
		{move("T-2", "wallet:a", "cash", "0.01"), "refused INSUFFICIENT_FUNDS wallet:a"},
		{move("T-3", "cash", "wallet:a", "0.01"), "posted"},
		{move("T-4", "cash", "wallet:a", "100.00"), "posted"},
		{move("T-5", "wallet:a", "wallet:b", "10.02"), "refused INSUFFICIENT_FUNDS wallet:a"},
		{move("T-6", "wallet:a", "wallet:b", "10.01"), "posted"},
		{move("T-7", "wallet:a", "wallet:b", "0.01"), "refused INSUFFICIENT_FUNDS wallet:a"},
	} {
		if got := outcome(b.post(t, c.transfer)); got != c.want {
			t.Errorf("step %d: got %s, want %s", i, got, c.want)
		}
	}
	b.update(t, &khatav1.UpdateAccountRequest{Account: "wallet:a", Floor: proto.String("")})
	if got := outcome(b.post(t, move("T-8", "wallet:a", "cash", "1000.00"))); got != "posted" {
		t.Errorf("without the floor: %s", got)
	}
	if got := b.balance(t, "wallet:a"); got != "-900.00" {
		t.Errorf("balance %s", got)
	}
}

func TestRegisterCurrency_AndList(t *testing.T) {
	t.Parallel()
	b := setup(t)
	register := func(code string, scale int32) string {
		_, err := b.RegisterCurrency(t.Context(), &khatav1.RegisterCurrencyRequest{Currency: &khatav1.Currency{Code: code, Scale: scale}})
		return fault(err)
	}
	for _, c := range []struct {
		code  string
		scale int32
		want  string
	}{
		{"ETH", 18, "OK"}, {"ETH", 18, "OK"}, {"ETH", 17, "AlreadyExists ALREADY_EXISTS scale"}, {"POINTS_2026", 0, "OK"}, {"X30", 30, "OK"},
		{"BDT", 2, "OK"}, {"BDT", 3, invalid("code")}, {"X31", 31, invalid("scale")}, {"NEG", -1, invalid("scale")},
		{"AB", 2, invalid("code")}, {"ABCDEFGHIJKLMNOPQ", 2, invalid("code")}, {"1AB", 2, invalid("code")}, {"eth", 2, invalid("code")}, {"", 2, invalid("code")},
	} {
		if got := register(c.code, c.scale); got != c.want {
			t.Errorf("%s %d: got %s, want %s", c.code, c.scale, got, c.want)
		}
	}
	list, err := b.ListCurrencies(t.Context(), &khatav1.ListCurrenciesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	scales := map[string]int32{}
	last := ""
	for _, c := range list.GetCurrencies() {
		if c.GetCode() <= last {
			t.Errorf("%s after %s", c.GetCode(), last)
		}
		last = c.GetCode()
		scales[c.GetCode()] = c.GetScale()
	}
	for code, want := range map[string]int32{"BDT": 2, "JPY": 0, "KWD": 3, "CLF": 4, "ETH": 18, "POINTS_2026": 0, "X30": 30} {
		if got, ok := scales[code]; !ok || got != want {
			t.Errorf("%s has scale %d, %t", code, got, ok)
		}
	}
	if _, ok := scales["X31"]; ok {
		t.Error("X31 is listed")
	}
}
