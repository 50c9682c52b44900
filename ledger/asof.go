package ledger

import "time"

// AsOf is the point that a balance is asked for. At most one field is set; with none, it is now. Every point includes what lies
// exactly on it.
type AsOf struct {
	// Sequence asks for the transfers up to a number. The answer is the same for ever.
	Sequence *int64
	// PostedAt asks for the transfers posted at or before a time of the database's clock. The answer is the same for ever,
	// unless that clock is set back to before this time.
	PostedAt *time.Time
	// EffectiveAt asks for the transfers whose value date, or where they have none the time of posting, is at or before a
	// time. Transfers posted later with an earlier value date change the answer.
	EffectiveAt *time.Time
}

// Validate returns CodeInvalidArgument unless the point is well-formed.
func (a AsOf) Validate() error {
	set := 0
	for _, is := range []bool{a.Sequence != nil, a.PostedAt != nil, a.EffectiveAt != nil} {
		if is {
			set++
		}
	}
	switch {
	case set > 1:
		return Invalid("as_of", "can be one of a sequence, a time of posting and an effective time")
	case a.Sequence != nil && *a.Sequence < 0:
		return Invalid("as_of_sequence", "is %d, want 0 or more", *a.Sequence)
	case outOfRange(a.PostedAt):
		return Invalid("as_of_posted_at", "is outside the years 1 to 9999")
	case outOfRange(a.EffectiveAt):
		return Invalid("as_of_effective_at", "is outside the years 1 to 9999")
	}
	return nil
}

func outOfRange(t *time.Time) bool { return t != nil && (t.UTC().Year() < 1 || t.UTC().Year() > 9999) }
