package fraud

import "time"

// The bounds of what is remembered.
const (
	MaxRecent = maxRecent
	MaxPayees = maxPayees
	Slack     = slack
)

// Encode and DecodeState are the changelog's.
func (s *State) Encode() ([]byte, error) { return s.encode() }

// DecodeState is decodeState.
var DecodeState = decodeState

// Sizes are how many transfers and payees are remembered.
func (s *State) Sizes() (recent, payees int) { return len(s.recent), len(s.payees) }

// Judges is judges.
func (r *Rules) Judges(payer string) bool { return r.judges(payer) }

// BeforeEnd has a function called in each transaction when all is written.
func (c *Check) BeforeEnd(f func()) { c.beforeEnd = f }

// SetPatience is how long it waits at a transaction that is open.
func (c *Check) SetPatience(patience time.Duration) { c.patience = patience }
