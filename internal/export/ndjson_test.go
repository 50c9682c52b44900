package export

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

func liabilities(ledger.AccountID) ledger.AccountType { return ledger.Liability }

// moved is a transfer with so many entries, half of them debits.
func moved(sequence int64, entries int, description string) *ledger.Transfer {
	t := &ledger.Transfer{Sequence: sequence, PostedAt: time.Date(2026, 1, 31, 10, 5, 0, 0, time.UTC), Caller: "shop"}
	t.ID, t.Description = "order-77", description
	for i := range entries {
		e := ledger.Entry{Account: "wallet:a", Direction: ledger.Debit, Amount: decimal.New(5, 0), Currency: ledger.Currency{Code: "BDT", Scale: 2}}
		if i%2 == 1 {
			e.Account, e.Direction = "wallet:b", ledger.Credit
		}
		t.Entries = append(t.Entries, e)
	}
	return t
}

func TestNDJSONText(t *testing.T) {
	var out bytes.Buffer
	n := NewNDJSON(&out)
	plain := moved(7, 2, "paid in\n<\"at\"> the\u2028 counter ✓")
	refund := moved(9, 2, "")
	at := time.Date(2026, 2, 1, 0, 0, 0, 1000, time.FixedZone("", 6*3600))
	refund.ID, refund.EffectiveAt, refund.Terms = "back", &at, &ledger.Terms{Kind: ledger.Refund, Origin: "order-77"}
	refund.Step = &ledger.Step{Ordinal: 2}
	types := map[ledger.AccountID]ledger.AccountType{"wallet:a": ledger.Asset, "wallet:b": ledger.Revenue}
	for _, record := range []*ledger.Transfer{plain, refund} {
		if err := n.Transfer("", record, func(id ledger.AccountID) ledger.AccountType { return types[id] }); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	const want = `{"ledger":"main","sequence":7,"leg":1,"legs":2,"transfer_id":"order-77","account":"wallet:a","account_type":"asset",` +
		`"direction":"debit","amount":"5.00","signed_amount":"5.00","currency":"BDT","posted_at":"2026-01-31T10:05:00.000000Z","effective_at":null,` +
		`"kind":"transfer","origin":null,"ordinal":null,"description":"paid in\n<\"at\"> the\u2028 counter ✓","caller":"shop"}
{"ledger":"main","sequence":7,"leg":2,"legs":2,"transfer_id":"order-77","account":"wallet:b","account_type":"revenue",` +
		`"direction":"credit","amount":"5.00","signed_amount":"-5.00","currency":"BDT","posted_at":"2026-01-31T10:05:00.000000Z",` +
		`"effective_at":null,"kind":"transfer","origin":null,"ordinal":null,"description":"paid in\n<\"at\"> the\u2028 counter ✓","caller":"shop"}
{"ledger":"main","sequence":9,"leg":1,"legs":2,"transfer_id":"back","account":"wallet:a","account_type":"asset",` +
		`"direction":"debit","amount":"5.00","signed_amount":"5.00","currency":"BDT","posted_at":"2026-01-31T10:05:00.000000Z",` +
		`"effective_at":"2026-01-31T18:00:00.000001Z","kind":"refund","origin":"order-77","ordinal":2,"description":"","caller":"shop"}
{"ledger":"main","sequence":9,"leg":2,"legs":2,"transfer_id":"back","account":"wallet:b","account_type":"revenue",` +
		`"direction":"credit","amount":"5.00","signed_amount":"-5.00","currency":"BDT","posted_at":"2026-01-31T10:05:00.000000Z",` +
		`"effective_at":"2026-01-31T18:00:00.000001Z","kind":"refund","origin":"order-77","ordinal":2,"description":"","caller":"shop"}
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNDJSONHasOnlyWhatMovesMoney(t *testing.T) {
	for _, kind := range []ledger.Kind{ledger.Plain, ledger.Hold, ledger.Capture, ledger.Void, ledger.Expiry, ledger.Refund, ledger.Reversal} {
		for _, refused := range []bool{false, true} {
			record := moved(7, 2, "")
			record.Terms, record.Step = &ledger.Terms{Kind: kind, Origin: "o"}, &ledger.Step{}
			if refused {
				record.Refusal, record.Step = &ledger.Refusal{Reason: ledger.CodeInsufficientFunds}, nil
			}
			var out bytes.Buffer
			n := NewNDJSON(&out)
			if err := errors.Join(n.Transfer("main", record, liabilities), n.Flush()); err != nil {
				t.Fatal(err)
			}
			// What Movements says is what counts.
			money := false
			for _, m := range record.Movements(liabilities) {
				money = money || !m.Posted.IsZero()
			}
			if lines := strings.Count(out.String(), "\n"); (lines == 2) != money || lines != 0 && lines != 2 {
				t.Errorf("a %s, refused %t, has %d lines; it moves money: %t", kind, refused, lines, money)
			}
		}
	}
}

func TestNDJSONWritesAllOfATransferOrNothing(t *testing.T) {
	var out bytes.Buffer
	n := NewNDJSON(&out)
	typeOf := func(id ledger.AccountID) ledger.AccountType {
		return map[ledger.AccountID]ledger.AccountType{"wallet:a": ledger.Asset}[id]
	}
	if err := n.Transfer("main", moved(1, 2, ""), liabilities); err != nil {
		t.Fatal(err)
	}
	if err := n.Transfer("main", moved(2, 2, ""), typeOf); err == nil || !strings.Contains(err.Error(), "the type of account wallet:b") {
		t.Errorf("an unknown type: %v", err)
	}
	if n.Transfer("main", moved(3, 2, ""), liabilities) == nil || n.Flush() == nil || out.Len() > 0 {
		t.Errorf("it goes on: %s", out.String())
	}
	n = NewNDJSON(&out)
	fine := moved(1, 2, "")
	fine.Entries[1].Amount = decimal.New(5001, -3)
	if err := n.Transfer("main", fine, liabilities); err == nil || !strings.Contains(err.Error(), "more decimals") {
		t.Errorf("a finer amount: %v", err)
	}
	room := failing(100)
	n = NewNDJSON(&room)
	if err := errors.Join(n.Transfer("main", moved(1, 2, ""), liabilities), n.Flush()); err == nil || !strings.Contains(err.Error(), "disk is full") {
		t.Errorf("a full disk: %v", err)
	}
}

// writtenLines are transfers of these many entries, with sequences that have gaps; ends are the sizes after each.
func writtenLines(t *testing.T, entries ...int) (text []byte, ends []int64) {
	t.Helper()
	var out bytes.Buffer
	n := NewNDJSON(&out)
	for i, count := range entries {
		if err := errors.Join(n.Transfer("main", moved(int64(10*i+10), count, "two\nlines"), liabilities), n.Flush()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, int64(out.Len()))
	}
	return out.Bytes(), ends
}

func TestNDJSONLastSequenceAfterACrashAtAnyByte(t *testing.T) {
	text, ends := writtenLines(t, 2, 3, 2, 7, 2)
	for size := range len(text) + 1 {
		var want, wantSize int64
		for i, end := range ends {
			if int64(size) >= end {
				want, wantSize = int64(10*i+10), end
			}
		}
		sequence, good, err := LastSequence(bytes.NewReader(text[:size]))
		if err != nil || sequence != want || good != wantSize {
			t.Fatalf("of %d bytes it is %d in %d, %v; want %d in %d", size, sequence, good, err, want, wantSize)
		}
	}
}

// countingReader counts what is read.
type countingReader struct {
	io.ReadSeeker
	read int
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.ReadSeeker.Read(p)
	c.read += n
	return n, err
}

func TestNDJSONLastSequenceReadsTheTailOnly(t *testing.T) {
	long := strings.Repeat("\u2028", ledger.MaxDescription/3)
	var out bytes.Buffer
	n := NewNDJSON(&out)
	for i := range 2000 {
		if err := n.Transfer("main", moved(int64(i+1), 2, long), liabilities); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.Flush(); err != nil {
		t.Fatal(err)
	}
	before := int64(out.Len())
	r := &countingReader{ReadSeeker: bytes.NewReader(out.Bytes())}
	if sequence, good, err := LastSequence(r); err != nil || sequence != 2000 || good != before || r.read > 1<<17 {
		t.Errorf("it is %d in %d of %d, with %d bytes read: %v", sequence, good, before, r.read, err)
	}
	// One that was stopped in the largest transfer that there is: what is good is more than a megabyte before the end.
	if err := errors.Join(n.Transfer("main", moved(2001, ledger.MaxEntries, long), liabilities), n.Flush()); err != nil {
		t.Fatal(err)
	}
	r = &countingReader{ReadSeeker: bytes.NewReader(out.Bytes()[:out.Len()-1])}
	if sequence, good, err := LastSequence(r); err != nil || sequence != 2000 || good != before || out.Len()-int(before) < 1<<20 {
		t.Errorf("it is %d in %d of %d, %v", sequence, good, before, err)
	}
	last, good, err := LastEntry(bytes.NewReader(out.Bytes()))
	if err != nil || last.Sequence != 2001 || last.Ledger != "main" || good != int64(out.Len()) {
		t.Errorf("it is %d of %q in %d, %v", last.Sequence, last.Ledger, good, err)
	}
}

func TestNDJSONLastSequenceRefusesOtherFiles(t *testing.T) {
	text, ends := writtenLines(t, 2, 3, 4)
	lines := strings.SplitAfter(string(text), "\n")
	foreign := strings.Replace(lines[8], `"main"`, `"other"`, 1)
	for what, c := range map[string]struct{ text, want string }{
		"other text without a line":      {"my thesis", "does not begin as"},
		"other text":                     {"my\nthesis\n", "no entry"},
		"JSON":                           {`{"a":1}` + "\n", "no entry"},
		"zeros":                          {"\x00\x00\x00", "does not begin as"},
		"a line in between":              {string(text) + "x\n", "no entry"},
		"a leg too few at the beginning": {lines[1], "an entry is missing before it"},
		"a leg too few in between":       {lines[0] + lines[1] + lines[2] + lines[4], "leg 1 of transfer"},
		"a leg of another ledger":        {string(text[:ends[1]]) + lines[5] + lines[6] + lines[7] + foreign, "leg 1 of transfer"},
		"two that are not whole":         {lines[0] + lines[1] + lines[2] + lines[3] + lines[5] + lines[6], "entries of transfer"},
	} {
		sequence, good, err := LastSequence(strings.NewReader(c.text))
		if err == nil || !strings.Contains(err.Error(), c.want) || sequence != 0 || good != 0 {
			t.Errorf("%s: %d in %d, %v; want %q", what, sequence, good, err, c.want)
		}
	}
	if sequence, good, err := LastSequence(strings.NewReader("")); err != nil || sequence != 0 || good != 0 {
		t.Errorf("of nothing it is %d in %d, %v", sequence, good, err)
	}
}

// TestNDJSONGoesOnExactlyOnce stops a writer again and again, and has another one go on as docs/export.md says.
func TestNDJSONGoesOnExactlyOnce(t *testing.T) {
	want, _ := writtenLines(t, 2, 3, 2, 5, 2, 2, 4, 2)
	counts := []int{2, 3, 2, 5, 2, 2, 4, 2}
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var file []byte
		for range 50 {
			sequence, good, err := LastSequence(bytes.NewReader(file))
			if err != nil {
				t.Fatal(err)
			}
			file = file[:good]
			var out bytes.Buffer
			n := NewNDJSON(&out)
			for i := int(sequence / 10); i < len(counts); i++ {
				if err := errors.Join(n.Transfer("main", moved(int64(10*i+10), counts[i], "two\nlines"), liabilities), n.Flush()); err != nil {
					t.Fatal(err)
				}
			}
			file = append(file, out.Bytes()[:r.IntN(out.Len()+1)]...) // The crash.
		}
		_, good, err := LastSequence(bytes.NewReader(file))
		if err != nil || !bytes.HasPrefix(want, file) {
			t.Fatalf("it is not what it should be through %d: %v\n%s", good, err, file)
		}
	}
}

func TestNDJSONLinesAreWhatTheyWere(t *testing.T) {
	for _, text := range awkwardTexts {
		var out bytes.Buffer
		n := NewNDJSON(&out)
		if err := errors.Join(n.Transfer("main", moved(1, 2, text), liabilities), n.Flush()); err != nil {
			t.Fatal(err)
		}
		lines := strings.SplitAfter(out.String(), "\n")
		var e EntryLine
		if err := json.Unmarshal([]byte(lines[0]), &e); err != nil || e.Description != text || len(lines) != 3 {
			t.Errorf("%q is %q in %d lines: %v", text, e.Description, len(lines), err)
		}
	}
}
