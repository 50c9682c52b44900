package sms

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/khata-ledger/khata/ledger"
)

// Language is what a message is written in.
type Language string

// The languages.
const (
	Bengali Language = "bn"
	English Language = "en"
)

// Valid reports whether l is one of the two.
func (l Language) Valid() bool { return l == Bengali || l == English }

// kind is what a message says of an account. Each has a template in every language.
type kind string

const (
	received kind = "received"
	sent     kind = "sent"
	returned kind = "returned"
	// apologised is returned, because of a mistake of ours.
	apologised kind = "apologised"
)

const (
	// maxText and maxName are in characters, not bytes: a message of one part has 70 of them once one is not in the oldest phones' alphabet.
	maxText, maxName = 160, 40
	// maxReference is how long a transfer's id may be to be quoted. Longer ones are made by programs for programs.
	maxReference = 40
)

// notice is what a message says, before it is in any language.
type notice struct {
	kind kind
	// amount is a decimal at the scale of its currency, and positive.
	amount, currency string
	// other is the name of who paid or was paid; empty if nobody knows.
	other     string
	reference string
	at        time.Time
}

// sentence is how a language says one kind: with the other's name and the amount, or with the amount alone.
type sentence struct {
	named func(name, amount string) string
	alone func(amount string) string
}

// phrasing is a language.
type phrasing struct {
	templates map[kind]sentence
	months    [12]string
	// reference comes before an id, and stop ends a sentence.
	reference, stop string
	// digits are ten characters in place of 0 to 9; empty keeps these.
	digits []rune
}

var phrasings = map[Language]phrasing{
	English: {
		templates: map[kind]sentence{
			received: {
				func(name, amount string) string { return amount + " received from " + name },
				func(amount string) string { return amount + " received" },
			},
			sent: {
				func(name, amount string) string { return amount + " sent to " + name },
				func(amount string) string { return amount + " sent" },
			},
			returned: {
				func(name, amount string) string { return amount + " returned to you by " + name },
				func(amount string) string { return amount + " returned to you" },
			},
			apologised: {
				func(name, amount string) string {
					return "Sorry for our mistake: " + amount + " returned to you by " + name
				},
				func(amount string) string { return "Sorry for our mistake: " + amount + " returned to you" },
			},
		},
		months:    [12]string{"Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"},
		reference: "Ref ", stop: ".",
	},
	// A name keeps its own letters, and the ending follows it after a hyphen: it cannot be joined to letters of another script.
	Bengali: {
		templates: map[kind]sentence{
			received: {
				func(name, amount string) string {
					return name + "-এর কাছ থেকে " + amount + " পেয়েছেন"
				},
				func(amount string) string { return amount + " পেয়েছেন" },
			},
			sent: {
				func(name, amount string) string {
					return name + "-কে " + amount + " পাঠিয়েছেন"
				},
				func(amount string) string { return amount + " পাঠিয়েছেন" },
			},
			returned: {
				func(name, amount string) string {
					return name + " আপনাকে " + amount + " ফেরত দিয়েছেন"
				},
				func(amount string) string { return amount + " ফেরত পেয়েছেন" },
			},
			apologised: {
				func(name, amount string) string {
					return "আমাদের ভুলের জন্য দুঃখিত: " + name + " আপনাকে " + amount + " ফেরত দিয়েছেন"
				},
				func(amount string) string {
					return "আমাদের ভুলের জন্য দুঃখিত: " + amount + " ফেরত পেয়েছেন"
				},
			},
		},
		months:    [12]string{"জানু", "ফেব্রু", "মার্চ", "এপ্রিল", "মে", "জুন", "জুলাই", "আগস্ট", "সেপ্টে", "অক্টো", "নভে", "ডিসে"},
		reference: "রেফ ", stop: "।", digits: []rune("০১২৩৪৫৬৭৮৯"),
	},
}

// text writes a notice in a language, with the time in a zone. It has at most maxText characters: the name gives way.
func (n notice) text(language Language, zone *time.Location) string {
	p := phrasings[language]
	t := p.templates[n.kind]
	amount := p.amount(n.amount, n.currency)
	tail := p.stop + " " + p.tail(n, zone) + p.stop
	if name := cleanName(n.other); name != "" {
		room := maxText - utf8.RuneCountInString(t.named("", amount)+tail)
		if name = cutName(name, room); name != "" {
			return t.named(name, amount) + tail
		}
	}
	text := t.alone(amount) + tail
	if n.kind == apologised && utf8.RuneCountInString(text) > maxText {
		// What comes back and of what is more to the point than an apology.
		n.kind = returned
		return n.text(language, zone)
	}
	// Otherwise the longest amount, currency and reference that there are fit in by themselves.
	return text
}

// tail is the reference and the time.
func (p phrasing) tail(n notice, zone *time.Location) string {
	at := n.at.In(zone)
	when := p.number(fmt.Sprintf("%d ", at.Day())) + p.months[at.Month()-1] + p.number(at.Format(" 2006 15:04"))
	// People know a payment by the number that the payment API gives it, without the prefix that it has in the books.
	n.reference = strings.TrimPrefix(n.reference, ledger.ReservedPrefix)
	if n.reference == "" || len(n.reference) > maxReference {
		return when
	}
	return p.reference + n.reference + ", " + when
}

// amount writes a decimal with its digits as people here group them: 1,23,45,678.90. It works on the text, so that not a digit is lost.
func (p phrasing) amount(decimal, currency string) string {
	whole, fraction, point := strings.Cut(decimal, ".")
	text := groupDigits(whole)
	if point {
		text += "." + fraction
	}
	text = p.number(text)
	if currency == "BDT" {
		return "৳" + text
	}
	return currency + " " + text
}

// groupDigits puts a comma before the last three digits, and before every two that are left of them.
func groupDigits(whole string) string {
	if len(whole) <= 3 {
		return whole
	}
	head, text := whole[:len(whole)-3], whole[len(whole)-3:]
	for len(head) > 2 {
		head, text = head[:len(head)-2], head[len(head)-2:]+","+text
	}
	return head + "," + text
}

// number writes digits in the language.
func (p phrasing) number(text string) string {
	if p.digits == nil {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r >= '0' && r <= '9' {
			return p.digits[r-'0']
		}
		return r
	}, text)
}

// nameOf is what to call an account that has no name: the end of its id.
func nameOf(account string) string {
	if name := account[strings.LastIndexByte(account, ':')+1:]; name != "" {
		return name
	}
	return account
}

const (
	zeroWidthNonJoiner, zeroWidthJoiner = '\u200C', '\u200D'
	hasanta                             = '\u09CD'
)

// cleanName leaves of a name what can be shown in a line of text: people choose their names. What ends lines, turns the direction of writing
// round or cannot be seen is dropped, apart from the two joiners, which Bengali words are written with.
func cleanName(name string) string {
	var out strings.Builder
	for _, r := range strings.ToValidUTF8(name, "") {
		switch {
		case unicode.IsSpace(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r):
			out.WriteByte(' ')
		case r == zeroWidthNonJoiner || r == zeroWidthJoiner || unicode.IsGraphic(r) && r != utf8.RuneError:
			out.WriteRune(r)
		}
	}
	text := strings.Trim(strings.Join(strings.Fields(out.String()), " "), string([]rune{zeroWidthNonJoiner, zeroWidthJoiner}))
	if !strings.ContainsFunc(text, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) }) {
		return "" // Nothing to call anybody by.
	}
	return cutName(text, maxName)
}

// cutName cuts a name to so many characters, of which the last then says that it was cut. A letter keeps the signs that belong to it, or
// goes with them.
func cutName(name string, most int) string {
	runes := []rune(name)
	if len(runes) <= most {
		return name
	}
	end := most - 1 // room for the mark
	for end > 0 && (joins(runes[end]) || runes[end-1] == hasanta || runes[end-1] == zeroWidthJoiner) {
		end--
	}
	if end <= 0 {
		return ""
	}
	return strings.TrimRight(string(runes[:end]), " ") + "…"
}

// joins reports whether a character belongs to the one before it.
func joins(r rune) bool { return unicode.IsMark(r) || r == zeroWidthJoiner || r == zeroWidthNonJoiner }

// magnitude checks a decimal of an event, and takes it apart: its sign, and its text without one.
func magnitude(decimal string) (sign int, text string, err error) {
	value, err := ledger.ParseBalance(decimal, "posted")
	if err != nil {
		return 0, "", err
	}
	return value.Sign(), strings.TrimPrefix(decimal, "-"), nil
}
