package export

import (
	"fmt"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// What Khata's ids become in journals. Each mapping gives different ids different names, so that no two accounts are ever added up; and all but
// one of them look at the id alone, so that a name never changes. docs/export.md has them as tables.

// isPlainByte reports whether a byte stands for itself in every form: in account names and tags of hledger, and in links of beancount.
func isPlainByte(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '.' || c == '-' }

func isAlphanumeric(c byte) bool { return isLower(c) || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' }

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }

// escapeBytes writes each byte that may not stand for itself as what format makes of it.
func escapeBytes(text string, keep func(byte) bool, format string) string {
	var out strings.Builder
	for i := range len(text) {
		if keep(text[i]) {
			out.WriteByte(text[i])
		} else {
			fmt.Fprintf(&out, format, text[i])
		}
	}
	return out.String()
}

// percentEncoded writes all but letters, digits, "_", "." and "-" as in a URL, with upper-case hex.
func percentEncoded(text string) string { return escapeBytes(text, isPlainByte, "%%%02X") }

// softEncoded is percentEncoded for text that people are to read in the value of a tag of hledger: it encodes only what would end the value or
// be a tag, a date or a comment.
func softEncoded(text string) string {
	return escapeBytes(oneLine(text), func(c byte) bool { return !strings.ContainsRune("%,:;[]|", rune(c)) }, "%%%02X")
}

// hledgerAccount is an account's name for hledger: the id with its colons, each component of it percent-encoded. An empty component, which
// hledger takes but cannot put into its tree, is %00, which no id has in it.
func hledgerAccount(id ledger.AccountID) string {
	components := strings.Split(string(id), ":")
	for i, c := range components {
		if c == "" {
			c = "\x00"
		}
		components[i] = percentEncoded(c)
	}
	return strings.Join(components, ":")
}

// hledgerCurrency quotes codes that have more than letters in them.
func hledgerCurrency(code ledger.CurrencyCode) string {
	if strings.ContainsAny(string(code), "0123456789_") {
		return `"` + string(code) + `"`
	}
	return string(code)
}

// hledgerTypes are the types of accounts, as the tag type of hledger has them.
var hledgerTypes = map[ledger.AccountType]string{
	ledger.Asset: "A", ledger.Liability: "L", ledger.Equity: "E", ledger.Revenue: "R", ledger.Expense: "X",
}

// beancountRoots are the first components that beancount gives the names of accounts, and beancountWords those of ids that say the same.
var (
	beancountRoots = map[ledger.AccountType]string{
		ledger.Asset: "Assets", ledger.Liability: "Liabilities", ledger.Equity: "Equity", ledger.Revenue: "Income", ledger.Expense: "Expenses",
	}
	beancountWords = map[ledger.AccountType][]string{
		ledger.Asset: {"asset", "assets"}, ledger.Liability: {"liability", "liabilities"}, ledger.Equity: {"equity"},
		ledger.Revenue: {"revenue", "revenues", "income"}, ledger.Expense: {"expense", "expenses"},
	}
)

// beancountEscape begins a component that could not stay as it was.
const beancountEscape = "X-"

// beancountComponent is a component of an id in the name of an account of beancount, where it begins with a capital or a digit and has letters,
// digits and "-" only. The common ones stay readable: "wallet" is Wallet, "7f3a" stays. Any other is X- and then the component, in which all but
// letters and digits are "-" and two digits of hex: "Cash" is X-Cash, "to_sort" X-to-5fsort, and an empty one X- alone.
func beancountComponent(c string) string {
	plain := c != "" && strings.IndexFunc(c, func(r rune) bool { return r > '~' || !isAlphanumeric(byte(r)) && r != '-' }) < 0
	switch {
	case plain && isLower(c[0]) && !strings.HasPrefix(c, "x-"):
		return strings.ToUpper(c[:1]) + c[1:]
	case plain && c[0] >= '0' && c[0] <= '9':
		return c
	}
	return beancountEscape + escapeBytes(c, isAlphanumeric, "-%02x")
}

// beancountAccount is the name of an account for beancount. A first component that only says the type, such as "asset" of an asset, is dropped,
// because the root says it: then full is the name in which it stays, which no other account can have; otherwise full is "".
func beancountAccount(id ledger.AccountID, of ledger.AccountType) (name, full string) {
	root := beancountRoots[of]
	first, rest, more := strings.Cut(string(id), ":")
	if more {
		for _, word := range beancountWords[of] {
			if first == word {
				name = root + ":" + beancountComponents(rest)
				// No component becomes X-asset: "asset" would have become Asset.
				return name, root + ":" + beancountEscape + word + strings.TrimPrefix(name, root)
			}
		}
	}
	return root + ":" + beancountComponents(string(id)), ""
}

func beancountComponents(id string) string {
	components := strings.Split(id, ":")
	for i, c := range components {
		components[i] = beancountComponent(c)
	}
	return strings.Join(components, ":")
}

// nameForBeancount names the accounts of a book. "asset:cash" is Assets:Cash, and so would "cash" be: where another account of the book would
// get the same name, the ones with a word dropped keep it.
func nameForBeancount(list []*bookAccount) {
	wanted := make(map[string]int, len(list))
	full := make(map[*bookAccount]string)
	for _, a := range list {
		var kept string
		a.name, kept = beancountAccount(a.ID, a.Type)
		wanted[a.name]++
		if kept != "" {
			full[a] = kept
		}
	}
	for a, kept := range full {
		if wanted[a.name] > 1 {
			a.name = kept
		}
	}
}

// beancountCurrency is a code in the form that beancount takes: it does not end in "_", and is none of the words that mean a value. "-" stands in
// no code of Khata's.
func beancountCurrency(code ledger.CurrencyCode) string {
	switch code {
	case "TRUE", "FALSE", "NULL":
		return string(code) + "-C"
	}
	if before, ok := strings.CutSuffix(string(code), "_"); ok {
		return before + "-U"
	}
	return string(code)
}

// beancountLink is a transfer's id as a link of beancount: letters, digits, "_", "." and "-" stay, another byte is "/" and two digits of hex.
func beancountLink(id ledger.TransferID) string { return escapeBytes(string(id), isPlainByte, "/%02x") }

// beancountEscapes are what a string of beancount has in place of these.
var beancountEscapes = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// beancountString quotes text for beancount.
func beancountString(text string) string { return `"` + beancountEscapes.Replace(oneLine(text)) + `"` }
