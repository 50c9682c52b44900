package ledger

import (
	"strings"
	"time"
)

// PeriodChange is a change of how far the books of a ledger are closed, and the record of who made it.
//
// Books that are closed before a time take no transfer any more whose effective_at is earlier: what was reported of the months until then
// stays as it was. A transfer without an effective_at is dated by when it is posted, and is not concerned.
type PeriodChange struct {
	// Sequence is the place in the order of decision, from the counter of the transfers: those with a higher one were judged by this change.
	Sequence int64
	// ClosedBefore is the time before which the books are closed since; nil: they are open altogether.
	ClosedBefore *time.Time
	// Previous is the time before which they were closed until then.
	Previous *time.Time
	// Zone is the name of the zone in which the time was given, for people.
	Zone   string
	Reason string
	// Caller is the authenticated name of who asked for it.
	Caller    string
	ChangedAt time.Time
}

// Reopens reports whether the change opened what had been closed.
func (c PeriodChange) Reopens() bool {
	return c.Previous != nil && (c.ClosedBefore == nil || c.ClosedBefore.Before(*c.Previous))
}

// PeriodClose is a request to close the books of a ledger before a time. It never opens anything: where they are closed as far already, or
// further, it changes nothing.
type PeriodClose struct {
	// Before is to the microsecond, and not later than the database's clock.
	Before time.Time
	// Zone is the name of a zone of the IANA database, in which the time is told to people; "" is UTC.
	Zone string
	// Reason may be empty.
	Reason string
}

// Validate returns CodeInvalidArgument unless the request is well-formed. Whether there is such a zone, it does not know.
func (c PeriodClose) Validate() error {
	if c.Before.IsZero() {
		return Invalid("closed_before", "is required: the first moment that stays open, such as that of the new month")
	}
	if err := validateTime(&c.Before, "closed_before"); err != nil {
		return err
	}
	return validateText(c.Reason, "reason", MaxDescription)
}

// Done reports whether books that are closed before a time (nil: that are open altogether) are closed as far as the request asks.
func (c PeriodClose) Done(closedBefore *time.Time) bool {
	return closedBefore != nil && !closedBefore.Before(c.Before)
}

// PeriodReopen is a request to open the books of a ledger again, from a time on or altogether. It never closes anything: where they are open
// from then on already, it changes nothing.
type PeriodReopen struct {
	// Before is up to when they stay closed; nil with Everything, and only with that: a time that was forgotten must not become everything.
	Before     *time.Time
	Everything bool
	Zone       string
	// Reason is required.
	Reason string
}

// Validate returns CodeInvalidArgument unless the request is well-formed. Whether there is such a zone, it does not know.
func (r PeriodReopen) Validate() error {
	switch {
	case r.Before == nil && !r.Everything:
		return Invalid("closed_before", "is required: the time before which the books stay closed; or say that everything is to be opened")
	case r.Before != nil && r.Everything:
		return Invalid("everything", "cannot be given together with closed_before")
	case strings.TrimSpace(r.Reason) == "":
		return Invalid("reason", "is required: why what was closed is opened again")
	}
	if err := validateTime(r.Before, "closed_before"); err != nil {
		return err
	}
	return validateText(r.Reason, "reason", MaxDescription)
}

// Done reports whether books that are closed before a time (nil: that are open altogether) are as open as the request asks.
func (r PeriodReopen) Done(closedBefore *time.Time) bool {
	return closedBefore == nil || r.Before != nil && !closedBefore.After(*r.Before)
}
