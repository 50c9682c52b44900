package payapi

import (
	"strconv"
	"strings"

	"github.com/khata-ledger/khata/internal/journal"
)

func parseCursor(text string) (journal.EntryCursor, error) {
	sequence, leg, ok := strings.Cut(text, ".")
	s, err1 := strconv.ParseInt(sequence, 36, 64)
	l, err2 := strconv.ParseInt(leg, 36, 16)
	if !ok || err1 != nil || err2 != nil || s <= 0 {
		return journal.EntryCursor{}, invalid("after", "is not the next of an earlier page")
	}
	return journal.EntryCursor{Sequence: s, Leg: int16(l)}, nil
}
