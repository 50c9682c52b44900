package verify

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// Report is what was checked, and what was found. It has a form in JSON.
type Report struct {
	Database string    `json:"database"`
	Role     string    `json:"role"`
	At       time.Time `json:"at"`
	Checks   []Check   `json:"checks"`
}

// Check is one check.
type Check struct {
	// Name is short and stable.
	Name string `json:"name"`
	// Says is what holds if there is no breach.
	Says string `json:"says"`
	// Checked is how many things were looked at, and Of what they are.
	Checked int64  `json:"checked"`
	Of      string `json:"of"`
	// Breached is how many breaches there are, of which Breaches has the first.
	Breached int64         `json:"breached"`
	Breaches []Breach      `json:"breaches"`
	Took     time.Duration `json:"took_ns"`
}

// Breach is one offending row. The names are empty where they say nothing.
type Breach struct {
	Ledger     string `json:"ledger,omitempty"`
	TransferID string `json:"transfer_id,omitempty"`
	AccountID  string `json:"account_id,omitempty"`
	Sequence   int64  `json:"sequence,omitempty"`
	Detail     string `json:"detail"`
}

// String gives the breach in a line.
func (b Breach) String() string {
	var where []string
	for _, name := range []struct{ what, value string }{
		{"ledger", b.Ledger}, {"transfer", b.TransferID}, {"account", b.AccountID},
	} {
		if name.value != "" {
			where = append(where, name.what+" "+printable(name.value))
		}
	}
	if b.Sequence != 0 {
		where = append(where, "sequence "+strconv.FormatInt(b.Sequence, 10))
	}
	if len(where) == 0 {
		return printable(b.Detail)
	}
	return strings.Join(where, ", ") + ": " + printable(b.Detail)
}

// printable quotes what could play tricks on a terminal: a row that was tampered with can hold anything.
func printable(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(text)
	}
	return text
}

// OK reports whether there is no breach.
func (r Report) OK() bool {
	_, breaches := r.breached()
	return breaches == 0
}

// breached counts the checks with breaches, and the breaches.
func (r Report) breached() (checks int, breaches int64) {
	for _, c := range r.Checks {
		if c.Breached > 0 {
			checks++
			breaches += c.Breached
		}
	}
	return checks, breaches
}

// Write prints the report for people.
func (r Report) Write(w io.Writer) error {
	var out strings.Builder
	fmt.Fprintf(&out, "Database %s as %s, %s\n\n", printable(r.Database), printable(r.Role), r.At.Format(time.RFC3339))
	for _, c := range r.Checks {
		mark := "ok    "
		if c.Breached > 0 {
			mark = "BREACH"
		}
		fmt.Fprintf(&out, "%s  %-21s %18s  %s\n", mark, c.Name, fmt.Sprintf("%d %s", c.Checked, c.Of), c.Says)
		for _, b := range c.Breaches {
			fmt.Fprintf(&out, "          %s\n", b)
		}
		if more := c.Breached - int64(len(c.Breaches)); more > 0 {
			fmt.Fprintf(&out, "          … and %d more\n", more)
		}
	}
	if checks, breaches := r.breached(); checks > 0 {
		fmt.Fprintf(&out, "\n%d breaches, in %d of %d checks.\n", breaches, checks, len(r.Checks))
	} else {
		fmt.Fprintf(&out, "\nAll %d checks hold.\n", len(r.Checks))
	}
	_, err := io.WriteString(w, out.String())
	return err
}
