package suspect

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Level is how much speaks for a double charge.
type Level int

// The levels.
const (
	Low Level = 1 + iota
	Medium
	High
)

// Levels are all of them, the highest first.
func Levels() []Level { return []Level{High, Medium, Low} }

// String is its name.
func (l Level) String() string {
	switch l {
	case Low:
		return "low"
	case Medium:
		return "medium"
	case High:
		return "high"
	}
	return fmt.Sprintf("level %d", int(l))
}

// State is what has become of a group.
type State int

// The states.
const (
	// Open: somebody should look at it.
	Open State = 1 + iota
	// Dismissed: somebody has, and says that it is none.
	Dismissed
	// Refunded: all of its transfers but one have gone back, or all of them.
	Refunded
)

// States are all of them.
func States() []State { return []State{Open, Dismissed, Refunded} }

// String is its name.
func (s State) String() string {
	switch s {
	case Open:
		return "open"
	case Dismissed:
		return "dismissed"
	case Refunded:
		return "refunded"
	}
	return fmt.Sprintf("state %d", int(s))
}

// The rules. A score is what the time between two transfers is worth, and what they say of themselves added and taken off, from 1 to 100.
const (
	highWithin, mediumWithin = 10 * time.Minute, time.Hour

	highScore, mediumScore, lowScore = 80, 50, 20
	atLeastHigh, atLeastMedium       = 70, 40

	sameReference, otherReference     = 30, -70
	sameDescription, otherDescription = 10, -40
	otherValueDate                    = -60

	// inSeries is the most that two are worth that are among three or more within an hour, no faster than somebody can mean each of them: gifts for the
	// grandchildren and instalments look like that, and so does an app that tries again and again.
	inSeries   = 65
	seriesPace = 15 * time.Second
)

// referenceKeys are the keys of metadata, without case and punctuation, that name what is paid for, or the payment. That two transfers have another value
// there says that they are two payments; an id of the request, of which a second try has another one, would not. Whether they name what is paid for is
// the value: a payment's own number may well be another one for a second try, so it says nothing where the order is the same.
var referenceKeys = func() map[string]bool {
	keys := map[string]bool{}
	for _, what := range strings.Fields("order invoice bill ticket booking purchase basket cart trip contract instalment installment item") {
		for _, form := range []string{"", "id", "no", "nr", "number", "ref", "reference", "uuid"} {
			keys[what+form] = true
		}
	}
	for _, key := range strings.Fields("ref reference referenceid referenceno endtoend endtoendid externalid merchantreference paymentreference") {
		keys[key] = false
	}
	return keys
}()

// fact is what has to be known of a transfer to compare it with another one.
type fact struct {
	sequence    int64
	postedAt    time.Time
	effectiveAt *time.Time
	// movement is a hash of all that it moves, which no two that differ have in common.
	movement    [sha256.Size]byte
	accounts    []ledger.AccountID
	description string
	// references are its texts under referenceKeys, by key.
	references map[string]string
	// back says that all of it has gone back.
	back bool
}

func factOf(p journal.Progressed) *fact {
	f := &fact{
		sequence: p.Sequence, postedAt: p.PostedAt, effectiveAt: p.EffectiveAt, description: strings.TrimSpace(p.Description),
		references: references(p.Metadata), back: wentBack(p.Progress),
	}
	legs := make([]string, len(p.Entries))
	for i, e := range p.Entries {
		legs[i] = fmt.Sprintf("%s %s %s", e.Account, e.Direction, e.Amount.String()) // Without trailing zeros. No id of an account has a space.
		f.accounts = append(f.accounts, e.Account)
	}
	slices.Sort(legs)
	f.movement = sha256.Sum256([]byte(strings.Join(legs, "\n")))
	slices.Sort(f.accounts)
	f.accounts = slices.Compact(f.accounts)
	return f
}

// wentBack reports whether nothing is left of a transfer.
func wentBack(p ledger.Progress) bool {
	return p.Reversed || p.Currency.Code != "" && p.Refundable.IsZero()
}

// references are the texts and numbers that metadata has under referenceKeys.
func references(m ledger.Metadata) map[string]string {
	if m == "" {
		return nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal([]byte(m), &all) != nil { // It is canonical; what was inserted by hand may be anything.
		return nil
	}
	var found map[string]string
	for key, raw := range all {
		raw = bytes.TrimSpace(raw)
		if _, ok := referenceKeys[plain(key)]; !ok || len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || string(raw) == "null" || string(raw) == `""` {
			continue
		}
		text := string(raw)
		if raw[0] == '"' {
			_ = json.Unmarshal(raw, &text) // It has been read as JSON before.
		}
		if found == nil {
			found = map[string]string{}
		}
		found[key] = strings.TrimSpace(text)
	}
	return found
}

// plain is a key without case and punctuation.
func plain(key string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("_-. ", r) {
			return -1
		}
		return r
	}, strings.ToLower(key))
}

// verdict is what two equal transfers look like together.
type verdict struct {
	a, b  *fact
	score int
	apart time.Duration
	// same and other are keys of references that both have, and under which they say the same or not; "" is none.
	same, other string
	// series is of how many payments within an hour they are two, where that is why they are worth no more; 0 is that it is not.
	series int
}

func (v verdict) level() Level {
	switch {
	case v.score >= atLeastHigh:
		return High
	case v.score >= atLeastMedium:
		return Medium
	}
	return Low
}

// better reports whether a verdict says more than another one.
func (v verdict) better(other verdict) bool {
	return v.score > other.score || v.score == other.score && v.apart < other.apart
}

// compare judges two transfers that move the same. Which of them comes first makes no difference to the score.
func compare(a, b *fact) verdict {
	v := verdict{a: a, b: b, apart: b.postedAt.Sub(a.postedAt).Abs(), score: lowScore}
	switch {
	case v.apart <= highWithin:
		v.score = highScore
	case v.apart <= mediumWithin:
		v.score = mediumScore
	}
	// What is paid for comes first, and the numbers of payments count where nothing is said of that.
	for _, things := range []bool{true, false} {
		for key, value := range a.references {
			switch given, ok := b.references[key]; {
			case !ok || referenceKeys[plain(key)] != things:
			case given == value && (v.same == "" || key < v.same):
				v.same = key
			case given != value && (v.other == "" || key < v.other):
				v.other = key
			}
		}
		if v.same != "" || v.other != "" {
			break
		}
	}
	switch {
	case v.other != "":
		v.score += otherReference
	case v.same != "":
		v.score += sameReference
	case a.description == "" || b.description == "":
	case a.description == b.description:
		v.score += sameDescription
	default:
		v.score += otherDescription
	}
	if v.otherValueDate() {
		v.score += otherValueDate
	}
	v.score = min(max(v.score, 1), 100)
	return v
}

// among is a verdict that knows the others of the group. That three are paid one after the other, and none says what for, is as likely meant as not. Where
// an order is the same it is not meant.
func (v verdict) among(members []*fact) verdict {
	if v.score <= inSeries || v.same != "" || v.apart < seriesPace {
		return v
	}
	n := 0
	for _, m := range members {
		if m.postedAt.Sub(v.a.postedAt).Abs() <= mediumWithin && m.postedAt.Sub(v.b.postedAt).Abs() <= mediumWithin {
			n++
		}
	}
	if n > 2 {
		v.score, v.series = inSeries, n
	}
	return v
}

func (v verdict) otherValueDate() bool {
	a, b := v.a.effectiveAt, v.b.effectiveAt
	return a != nil && b != nil && b.Sub(*a).Abs() > Window
}

// reasons are what compare went by, for people.
func (v verdict) reasons() []string {
	list := []string{"posted " + short(v.apart) + " apart"}
	if v.apart < time.Second {
		list[0] = "posted less than a second apart"
	}
	switch {
	case v.other != "":
		list = append(list, fmt.Sprintf("%s differs: %.40q and %.40q", v.other, v.a.references[v.other], v.b.references[v.other]))
	case v.same != "":
		list = append(list, fmt.Sprintf("the same %s: %.40q", v.same, v.a.references[v.same]))
	case v.a.description == "" || v.b.description == "":
	case v.a.description == v.b.description:
		list = append(list, "the same description")
	default:
		list = append(list, "the descriptions differ")
	}
	if v.otherValueDate() {
		list = append(list, "the value dates are more than a day apart")
	}
	if v.series > 0 {
		list = append(list, fmt.Sprintf("%d equal payments within an hour, which can be meant", v.series))
	}
	return list
}

// short is a duration as a person reads it.
func short(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Truncate(time.Second)
	case d >= time.Second:
		d = d.Truncate(10 * time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// assessment is what a group is worth.
type assessment struct {
	state State
	verdict
	// pair are the places of the two members that the verdict is about.
	pair [2]int
}

// assess judges a group: by its members in the order in which they came, and how many of the first of them somebody has dismissed. An open one is
// judged by each two that still stand and have not been dismissed together, others by all; what says most counts.
func assess(members []*fact, dismissed int) assessment {
	standing := 0
	for _, m := range members {
		if !m.back {
			standing++
		}
	}
	var all, open assessment
	for j, b := range members {
		for i, a := range members[:j] {
			v := compare(a, b).among(members)
			found := assessment{Open, v, [2]int{i, j}}
			if all.score == 0 || v.better(all.verdict) {
				all = found
			}
			if !a.back && !b.back && j >= dismissed && (open.score == 0 || v.better(open.verdict)) {
				open = found
			}
		}
	}
	switch {
	case standing < 2:
		all.state = Refunded
	case open.score == 0:
		all.state = Dismissed
	default:
		return open
	}
	return all
}
