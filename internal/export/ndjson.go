package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/khata-ledger/khata/ledger"
)

// EntryLine is an entry, a line of JSON in the export for a warehouse. The fields stand in this order, none is ever left out, and amounts and
// times are strings of one form each.
type EntryLine struct {
	Ledger   string `json:"ledger"`
	Sequence int64  `json:"sequence"`
	// Leg is the entry's place in its transfer, from 1 to Legs.
	Leg         int    `json:"leg"`
	Legs        int    `json:"legs"`
	TransferID  string `json:"transfer_id"`
	Account     string `json:"account"`
	AccountType string `json:"account_type"`
	Direction   string `json:"direction"`
	// Amount has the full scale of its currency. SignedAmount is the same of a debit, and below zero of a credit.
	Amount       string `json:"amount"`
	SignedAmount string `json:"signed_amount"`
	Currency     string `json:"currency"`
	// PostedAt and EffectiveAt are in UTC, to the microsecond. EffectiveAt is null if there is none.
	PostedAt    string  `json:"posted_at"`
	EffectiveAt *string `json:"effective_at"`
	// Kind is "transfer" of a plain one. Origin is the transfer that it is a step of, such as the one that is refunded, and Ordinal its place among
	// those steps; both are null if there is none.
	Kind        string  `json:"kind"`
	Origin      *string `json:"origin"`
	Ordinal     *int    `json:"ordinal"`
	Description string  `json:"description"`
	Caller      string  `json:"caller"`
}

// NDJSON writes entries as lines of JSON.
type NDJSON struct {
	w io.Writer
	// lines are those that have not been written yet.
	lines   bytes.Buffer
	encoder *json.Encoder
	err     error
}

// ndjsonChunk is how much is gathered before it is written.
const ndjsonChunk = 1 << 16

// NewNDJSON makes one. What it has been given is written when Flush returns, and some of it before. Each call of w.Write has whole transfers.
func NewNDJSON(w io.Writer) *NDJSON {
	n := &NDJSON{w: w}
	n.encoder = json.NewEncoder(&n.lines)
	n.encoder.SetEscapeHTML(false)
	return n
}

// Transfer writes the entries of a transfer. One that was refused, or is of a kind that moves nothing (a hold, its void or its expiry), has none.
// After an error nothing is written any more.
func (n *NDJSON) Transfer(name ledger.Name, t *ledger.Transfer, typeOf func(ledger.AccountID) ledger.AccountType) error {
	if t.Refusal != nil || !t.Kind().Moves() || n.err != nil {
		return n.err
	}
	line := EntryLine{
		Ledger: string(name.Or()), Sequence: t.Sequence, Legs: len(t.Entries), TransferID: string(t.ID), PostedAt: bookTime(t.PostedAt),
		Kind: string(t.Kind()), Description: t.Description, Caller: t.Caller,
	}
	if t.EffectiveAt != nil {
		at := bookTime(*t.EffectiveAt)
		line.EffectiveAt = &at
	}
	if origin := string(t.Origin()); origin != "" {
		line.Origin = &origin
	}
	if t.Step != nil && t.Step.Ordinal > 0 {
		line.Ordinal = &t.Step.Ordinal
	}
	before := n.lines.Len()
	for i, e := range t.Entries {
		line.Leg = i + 1
		if n.err = n.entry(line, e, typeOf(e.Account)); n.err != nil {
			n.lines.Truncate(before) // All of a transfer, or nothing.
			return n.err
		}
	}
	if n.lines.Len() >= ndjsonChunk {
		n.write()
	}
	return n.err
}

func (n *NDJSON) entry(line EntryLine, e ledger.Entry, of ledger.AccountType) error {
	if !of.Valid() {
		return fmt.Errorf("transfer %s: the type of account %s is not known", line.TransferID, e.Account)
	}
	if e.Amount.Exponent() < -e.Currency.Scale && !e.Amount.Equal(e.Amount.Truncate(e.Currency.Scale)) {
		return fmt.Errorf("transfer %s: %s has more decimals than %s has", line.TransferID, e.Amount, e.Currency.Code)
	}
	line.Account, line.AccountType, line.Direction, line.Currency = string(e.Account), string(of), string(e.Direction), string(e.Currency.Code)
	line.Amount = ledger.FormatAmount(e.Amount, e.Currency.Scale)
	line.SignedAmount = line.Amount
	if e.Direction == ledger.Credit {
		line.SignedAmount = ledger.FormatAmount(e.Amount.Neg(), e.Currency.Scale)
	}
	return n.encoder.Encode(line)
}

func (n *NDJSON) write() {
	if _, err := n.w.Write(n.lines.Bytes()); err != nil {
		n.err = fmt.Errorf("write entries: %w", err)
	}
	n.lines.Reset()
}

// Flush writes what has not been written yet.
func (n *NDJSON) Flush() error {
	if n.err == nil && n.lines.Len() > 0 {
		n.write()
	}
	return n.err
}

const (
	// firstTail is how much of a file's end LastEntry looks at to begin with, and longestTail how much at most: two transfers of the most entries
	// and the longest texts are less.
	firstTail, longestTail = 1 << 16, 1 << 26
)

// LastSequence finds the end of what NDJSON has written to a file: the sequence of the last transfer that is there with all its entries, and the
// size of the file through it. What comes after that, a writer has left that was stopped halfway: cut it off, and go on after the sequence. Both
// are 0 if there is no such transfer. It reads the end of the file only.
func LastSequence(r io.ReadSeeker) (sequence, goodSize int64, err error) {
	last, goodSize, err := LastEntry(r)
	return last.Sequence, goodSize, err
}

// LastEntry is LastSequence that also tells whose transfer it is: a file goes on with the ledger that it began with.
func LastEntry(r io.ReadSeeker) (last EntryLine, goodSize int64, err error) {
	size, err := r.Seek(0, io.SeekEnd)
	if err != nil {
		return last, 0, fmt.Errorf("read the end of the entries: %w", err)
	}
	for length := int64(firstTail); ; length *= 4 {
		start := max(0, size-length)
		if _, err := r.Seek(start, io.SeekStart); err != nil {
			return last, 0, fmt.Errorf("read the end of the entries: %w", err)
		}
		tail := make([]byte, size-start)
		if _, err := io.ReadFull(r, tail); err != nil {
			return last, 0, fmt.Errorf("read the end of the entries: %w", err)
		}
		last, goodSize, err = lastIn(entryTail{start, tail})
		switch {
		case !errors.Is(err, errTailTooShort):
			return last, goodSize, err
		case length >= longestTail:
			return last, 0, fmt.Errorf("the last %d MiB have no whole transfer: this is no file of entries", longestTail>>20)
		}
	}
}

// errTailTooShort is that more of the file must be looked at.
var errTailTooShort = errors.New("the tail of the file is too short")

// entryTail is the end of a file, from a byte on.
type entryTail struct {
	start int64
	text  []byte
}

// textLine is a line of a file, without what ends it; end is the byte after that.
type textLine struct {
	start, end int64
	text       []byte
}

// lines are those that are there from their beginning to their end.
func (t entryTail) lines() (lines []textLine) {
	at, text := t.start, t.text
	for n := 0; ; n++ {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return lines
		}
		if n > 0 || t.start == 0 { // The first one may have begun before.
			lines = append(lines, textLine{at, at + int64(i) + 1, text[:i]})
		}
		at, text = at+int64(i)+1, text[i+1:]
	}
}

// lastIn finds the last whole transfer in the tail of a file, and the size of the file through it.
func lastIn(tail entryTail) (last EntryLine, goodSize int64, err error) {
	lines := tail.lines()
	for torn := false; len(lines) > 0; torn = true {
		end := len(lines)
		if last, err = lines[end-1].entry(); err != nil {
			return EntryLine{}, 0, err
		}
		if last.Leg > end {
			break
		}
		of := lines[end-last.Leg:]
		if err := inOneTransfer(of, last); err != nil {
			return EntryLine{}, 0, err
		}
		if last.Leg == last.Legs {
			return last, lines[end-1].end, nil
		}
		if torn { // Nobody has left this who went on as LastSequence says.
			return EntryLine{}, 0, fmt.Errorf("byte %d: entries of transfer %.128q are missing", lines[end-1].end, last.TransferID)
		}
		lines = lines[:end-last.Leg]
	}
	// What is no file of entries must not be taken for one in which the first entry is torn, and be cut to nothing.
	begin := []byte(`{"ledger":"`)
	switch {
	case tail.start > 0:
		return EntryLine{}, 0, errTailTooShort
	case len(lines) > 0:
		return EntryLine{}, 0, fmt.Errorf("byte %d: an entry is missing before it", lines[0].start)
	case !bytes.HasPrefix(tail.text, begin[:min(len(begin), len(tail.text))]):
		return EntryLine{}, 0, errors.New("it does not begin as a file of entries does")
	}
	return EntryLine{}, 0, nil
}

// entry reads a line.
func (l textLine) entry() (e EntryLine, err error) {
	if err = json.Unmarshal(l.text, &e); err == nil && (e.Ledger == "" || e.Sequence <= 0 || e.Leg < 1 || e.Leg > e.Legs) {
		err = errors.New("it has no ledger, sequence, leg or legs")
	}
	if err != nil {
		return EntryLine{}, fmt.Errorf("byte %d: this line is no entry: %w", l.start, err)
	}
	return e, nil
}

// inOneTransfer checks that the lines are the first legs of the transfer of the last one of them.
func inOneTransfer(lines []textLine, last EntryLine) error {
	for i, line := range lines {
		e, err := line.entry()
		if err != nil {
			return err
		}
		if e.Sequence != last.Sequence || e.Ledger != last.Ledger || e.Leg != i+1 || e.Legs != last.Legs {
			return fmt.Errorf("byte %d: leg %d of transfer %.128q should be here", line.start, i+1, last.TransferID)
		}
	}
	return nil
}
