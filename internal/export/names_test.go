package export

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

var allTypes = []ledger.AccountType{ledger.Asset, ledger.Liability, ledger.Equity, ledger.Revenue, ledger.Expense}

// awkwardComponents are parts of ids that a mapping could stumble over.
var awkwardComponents = []string{
	"", "X-", "x-", "x-41", "X-41", "X-2d", "X", "x", "-", "--", "-2d", "A", "a", "Cash", "cash", "CASH", "cash-", "ca-sh", "ca-2dsh", "ca_sh",
	"asset", "assets", "Asset", "Assets", "X-asset", "x-asset", "liability", "liabilities", "equity", "Equity", "revenue", "revenues", "income",
	"Income", "expense", "expenses", "1", "0", "007", "1-a", "2026-01-01", "10.00", "%", "%00", "%2A", "%3A", "~", "!", "*", "(x)", "[x]",
	"[2025-02-02]", ";", `"`, `\`, "|", "a;b", "a|b",
	"type", "date", "date=2025-01-01", ".", "..", "a.b", "_", "comment", "end", "include", "=", "@", "@@", "#tag",
	"^link", "{1}", "'", "`", "$1", "<", ">", "?", ",", "/", "+1", "&",
}

// ids makes ids of such parts, and of any characters that an id can have.
func ids() *rapid.Generator[ledger.AccountID] {
	component := rapid.OneOf(
		rapid.SampledFrom(awkwardComponents),
		rapid.StringMatching(`[a-z]{1,3}`),
		rapid.StringMatching(`[!-9;-~]{0,6}`),
	)
	return rapid.Custom(func(t *rapid.T) ledger.AccountID {
		id := strings.Join(rapid.SliceOfN(component, 1, 4).Draw(t, "components"), ":")
		if id == "" {
			id = ":"
		}
		return ledger.AccountID(id[:min(len(id), ledger.MaxIDLength)])
	})
}

var (
	hledgerNames   = regexp.MustCompile(`^[A-Za-z0-9_.%-]+(:[A-Za-z0-9_.%-]+)*$`)
	beancountNames = regexp.MustCompile(`^(Assets|Liabilities|Equity|Income|Expenses)(:[A-Z0-9][A-Za-z0-9-]*)+$`)
)

// TestNamesOfHledgerAccountsCanBeReadBack shows that no two ids have one name.
func TestNamesOfHledgerAccountsCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		name := hledgerAccount(id)
		if !hledgerNames.MatchString(name) {
			t.Fatalf("%q is %q", id, name)
		}
		back, err := url.PathUnescape(name)
		if back = strings.ReplaceAll(back, "\x00", ""); err != nil || back != string(id) {
			t.Fatalf("%q is %q, which is %q read back: %v", id, name, back, err)
		}
	})
}

// componentBack is the inverse of beancountComponent.
func componentBack(c string) string {
	rest, escaped := strings.CutPrefix(c, beancountEscape)
	if !escaped {
		return strings.ToLower(c[:1]) + c[1:]
	}
	var out strings.Builder
	for i := 0; i < len(rest); i++ {
		if rest[i] != '-' {
			out.WriteByte(rest[i])
			continue
		}
		b, _ := strconv.ParseUint(rest[i+1:i+3], 16, 8)
		out.WriteByte(byte(b))
		i += 2
	}
	return out.String()
}

// componentsBack is the inverse of beancountComponents.
func componentsBack(name string) string {
	components := strings.Split(name, ":")
	for i, c := range components {
		components[i] = componentBack(c)
	}
	return strings.Join(components, ":")
}

func TestNamesOfBeancountAccountsCanBeReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id, of := ids().Draw(t, "id"), rapid.SampledFrom(allTypes).Draw(t, "type")
		name, full := beancountAccount(id, of)
		root := beancountRoots[of]
		for _, n := range []string{name, full} {
			if n != "" && (!beancountNames.MatchString(n) || !strings.HasPrefix(n, root+":")) {
				t.Fatalf("%q is %q", id, n)
			}
		}
		if full == "" {
			if back := componentsBack(strings.TrimPrefix(name, root+":")); back != string(id) {
				t.Fatalf("%q is %q, which is %q read back", id, name, back)
			}
			return
		}
		word, rest, _ := strings.Cut(strings.TrimPrefix(full, root+":"+beancountEscape), ":")
		if back := word + ":" + componentsBack(rest); back != string(id) {
			t.Fatalf("%q is %q, which is %q read back", id, full, back)
		}
		// A name in which the word stays has a first component that no other id gives.
		first, _, _ := strings.Cut(strings.TrimPrefix(full, root+":"), ":")
		if beancountComponent(componentBack(first)) == first {
			t.Fatalf("%q is %q, and %q would be too", id, full, componentsBack(first))
		}
	})
}

// TestNamesOfABeancountBookAreAllDifferent is about the one mapping that looks at other accounts too.
func TestNamesOfABeancountBookAreAllDifferent(t *testing.T) {
	word := rapid.SampledFrom([]string{"", "asset:", "assets:", "income:", "revenue:", "X-asset:", "Asset:", "asset:asset:", "equity:"})
	rest := rapid.SampledFrom([]string{"cash", "Cash", "asset", "assets", "asset:cash", "assets:cash", "income:asset", "", ":", "x-asset:cash"})
	near := rapid.Custom(func(t *rapid.T) ledger.AccountID {
		return ledger.AccountID(word.Draw(t, "word") + rest.Draw(t, "rest"))
	}).Filter(func(id ledger.AccountID) bool { return id != "" })
	rapid.Check(t, func(t *rapid.T) {
		list := make([]*bookAccount, 0, 20)
		for _, id := range rapid.SliceOfDistinct(rapid.OneOf(near, ids()), func(id ledger.AccountID) ledger.AccountID { return id }).Draw(t, "ids") {
			list = append(list, &bookAccount{BookAccount: BookAccount{ID: id, Type: rapid.SampledFrom(allTypes[:4]).Draw(t, "type")}})
		}
		nameForBeancount(list)
		seen := map[string]ledger.AccountID{}
		for _, a := range list {
			if other, twice := seen[a.name]; twice {
				t.Fatalf("%q and %q are both %q", a.ID, other, a.name)
			}
			seen[a.name] = a.ID
		}
	})
}

func TestNamesInExamples(t *testing.T) {
	for _, c := range []struct {
		id                 ledger.AccountID
		of                 ledger.AccountType
		hledger, beancount string
	}{
		{"wallet:shimul", ledger.Liability, "wallet:shimul", "Liabilities:Wallet:Shimul"},
		{"asset:cash", ledger.Asset, "asset:cash", "Assets:Cash"},
		{"assets", ledger.Asset, "assets", "Assets:Assets"},
		{"assets:assets", ledger.Asset, "assets:assets", "Assets:Assets"},
		{"assets", ledger.Liability, "assets", "Liabilities:Assets"},
		{"liability:wallet:7f3a", ledger.Liability, "liability:wallet:7f3a", "Liabilities:Wallet:7f3a"},
		{"revenue:fees", ledger.Revenue, "revenue:fees", "Income:Fees"},
		{"income:fees", ledger.Revenue, "income:fees", "Income:Fees"},
		{"expense:food", ledger.Expense, "expense:food", "Expenses:Food"},
		{"equity:to-sort", ledger.Equity, "equity:to-sort", "Equity:To-sort"},
		{"equity:to_sort", ledger.Equity, "equity:to_sort", "Equity:X-to-5fsort"},
		{"Cash", ledger.Asset, "Cash", "Assets:X-Cash"},
		{"cash:", ledger.Asset, "cash:%00", "Assets:Cash:X-"},
		{"::", ledger.Asset, "%00:%00:%00", "Assets:X-:X-:X-"},
		{"x-41", ledger.Asset, "x-41", "Assets:X-x-2d41"},
		{"X-", ledger.Asset, "X-", "Assets:X-X-2d"},
		{"a;b|(c)", ledger.Asset, "a%3Bb%7C%28c%29", "Assets:X-a-3bb-7c-28c-29"},
	} {
		name, _ := beancountAccount(c.id, c.of)
		if got := hledgerAccount(c.id); got != c.hledger || name != c.beancount {
			t.Errorf("%s %q is %q and %q, want %q and %q", c.of, c.id, got, name, c.hledger, c.beancount)
		}
	}
	list := []*bookAccount{
		{BookAccount: BookAccount{ID: "cash", Type: ledger.Asset}}, {BookAccount: BookAccount{ID: "asset:cash", Type: ledger.Asset}},
		{BookAccount: BookAccount{ID: "assets:cash", Type: ledger.Asset}}, {BookAccount: BookAccount{ID: "asset:bank", Type: ledger.Asset}},
	}
	nameForBeancount(list)
	got := []string{list[0].name, list[1].name, list[2].name, list[3].name}
	if want := []string{"Assets:Cash", "Assets:X-asset:Cash", "Assets:X-assets:Cash", "Assets:Bank"}; !slices.Equal(got, want) {
		t.Errorf("the names are %q, want %q", got, want)
	}
}

func TestNamesOfCurrencies(t *testing.T) {
	code := rapid.Custom(func(t *rapid.T) ledger.CurrencyCode {
		return ledger.CurrencyCode(rapid.OneOf(
			rapid.StringMatching(`[A-Z][A-Z0-9_]{2,15}`), rapid.StringMatching(`[A-Z]_{2,4}`), rapid.SampledFrom([]string{"TRUE", "FALSE", "NULL"}),
		).Draw(t, "code"))
	})
	form := regexp.MustCompile(`^[A-Z][A-Z0-9'._-]{0,22}[A-Z0-9]$`)
	rapid.Check(t, func(t *rapid.T) {
		c := code.Draw(t, "code")
		name := beancountCurrency(c)
		back := strings.TrimSuffix(name, "-C")
		if before, ok := strings.CutSuffix(name, "-U"); ok {
			back = before + "_"
		}
		if back != string(c) || !form.MatchString(name) || name == "TRUE" || name == "FALSE" || name == "NULL" {
			t.Fatalf("%q is %q, which is %q read back", c, name, back)
		}
		if back := strings.Trim(hledgerCurrency(c), `"`); back != string(c) {
			t.Fatalf("%q is %q", c, hledgerCurrency(c))
		}
	})
}

func TestNamesOfLinksCanBeReadBack(t *testing.T) {
	form := regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)
	rapid.Check(t, func(t *rapid.T) {
		id := ids().Draw(t, "id")
		link := beancountLink(ledger.TransferID(id))
		back, err := url.PathUnescape(strings.ReplaceAll(link, "/", "%"))
		if err != nil || back != string(id) || !form.MatchString(link) {
			t.Fatalf("%q is %q, which is %q read back: %v", id, link, back, err)
		}
	})
}

func TestNamesMakeTextHarmless(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\r\n\tc": "a b   c", "\u0085\u2028x\u2029": "x", "a\u202eb\u2066c": "a b c", "শিমুল 👩‍👩‍👧": "শিমুল 👩‍👩‍👧", "\ufeff\x00\x1b[1m": "[1m",
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := softEncoded("শিমুল, date:2025-01-01 [x]; 5%"); got != "শিমুল%2C date%3A2025-01-01 %5Bx%5D%3B 5%25" {
		t.Errorf("it is %q", got)
	}
	if got := hledgerDescription("; a|b;c\n"); got != ", a/b,c" {
		t.Errorf("it is %q", got)
	}
}

func TestNamesOfDays(t *testing.T) {
	for _, good := range []string{"2026-01-31", "0001-01-01", "9999-12-31", "10000-01-01", "2024-02-29"} {
		if day, err := parseBookDay(good); err != nil || bookDay(day) != good {
			t.Errorf("%q is %s, %v", good, day, err)
		}
	}
	for _, bad := range []string{"", "2026", "2026-1-31", "2026-02-30", "2023-02-29", "0000-12-31", "-001-01-01",
		"2026-01-31x", "2026-01", "a-b-c", "2026-01-01-01"} {
		if day, err := parseBookDay(bad); err == nil {
			t.Errorf("%q is %s", bad, day)
		}
	}
}
