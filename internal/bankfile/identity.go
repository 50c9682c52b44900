package bankfile

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"github.com/shopspring/decimal"
)

// LineIdentity is what a line is recognised by when a later file of the same account has it again, as files do whose periods overlap: 32 hex digits,
// and the base to which identify adds a number (see Occurrences). It is within an account: a caller keeps it beside the account's id.
//
// Where the bank gave the line an id of its own (ExternalID), the identity is made of that, the booking date, the amount, the currency and the
// status, and the bank may reword its texts. The id alone is not enough: banks have been seen to use one again, and to hide a movement of money is
// worse than to show one twice. Where there is no such id, it is made of all that the line says: both dates, amount, currency, status, reversal,
// references, counterparty, code and description. Flags, details, the place in the file and gross and fee are not in it.
//
// A pending line is another than the booked one that it becomes.
func LineIdentity(line Line) string {
	h := hasher{}
	if line.ExternalID != "" {
		h.add("id", line.ExternalID, line.BookingDate.String(), canonical(line.Amount), line.Currency, string(line.Status))
		return h.sum()
	}
	r, c := line.References, line.Counterparty
	h.add("content", line.BookingDate.String(), line.ValueDate.String(), canonical(line.Amount), line.Currency, string(line.Status),
		strconv.FormatBool(line.Reversal), line.Code, line.Description, c.Name, c.Account, c.Bank,
		r.EndToEnd, r.Bank, r.Customer, r.Instruction, r.Transaction, r.Mandate, r.Creditor, r.Batch, r.Source, r.Cheque)
	return h.sum()
}

// Occurrences counts how often something was seen. Two rows that are alike in every word are two movements, such as two tickets bought at a machine:
// the identity of the first ends in "#1" and that of the second in "#2". A later file that has both gives them the same two identities, in whatever
// order, so long as it has all such rows of that day. A file that begins in the middle of a day may not; banks' files hold whole days.
type Occurrences map[string]int

// Number adds the occurrence to a base: "…#1" for the first.
func (o Occurrences) Number(base string) string {
	o[base]++
	return base + "#" + strconv.Itoa(o[base])
}

// identify gives each line of a file its identity. Occurrences are counted by account and over the whole file, so that a line that two statements of
// one file share is two. Each member of a zip is a file, so that a line that two members share has the same identity in both.
func identify(f *File) {
	type key struct{ member, account string }
	counts := map[key]Occurrences{}
	for _, s := range f.Statements {
		k := key{s.Member, s.AccountID}
		seen := counts[k]
		if seen == nil {
			seen = Occurrences{}
			counts[k] = seen
		}
		for i := range s.Lines {
			line := &s.Lines[i]
			line.Identity = seen.Number(LineIdentity(*line))
			for d := range line.Details {
				line.Details[d].Identity = line.Identity + "/" + strconv.Itoa(d+1)
			}
		}
	}
}

// hasher hashes a list of texts, each with its length before it, so that where one ends and the next begins is part of the hash.
type hasher struct{ buf []byte }

func (h *hasher) add(parts ...string) {
	for _, part := range parts {
		h.buf = binary.AppendUvarint(h.buf, uint64(len(part)))
		h.buf = append(h.buf, part...)
	}
}

func (h *hasher) sum() string {
	const kept = 16 // bytes: no two lines of a bank's lifetime collide
	sum := sha256.Sum256(h.buf)
	return hex.EncodeToString(sum[:kept])
}

// canonical is an amount in one way, however many zeros it was padded with.
func canonical(amount decimal.Decimal) string { return amount.String() }
