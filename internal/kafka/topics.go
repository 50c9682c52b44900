package kafka

import (
	"fmt"
	"regexp"
)

// DefaultPrefix is what the names of the topics begin with by default.
const DefaultPrefix = "khata"

// Topics are the topics of Khata: two of events, and two of the fraud check.
type Topics struct {
	// Prefix is what their names begin with, before a dot; DefaultPrefix by default.
	Prefix string
}

// Transfers is the name of the topic of transfers.
func (t Topics) Transfers() string { return t.Effective() + ".transfers" }

// Accounts is the name of the topic of accounts.
func (t Topics) Accounts() string { return t.Effective() + ".accounts" }

// Names are the names of the two topics of events.
func (t Topics) Names() []string { return []string{t.Transfers(), t.Accounts()} }

// Verdicts is the name of the topic of the fraud check's verdicts.
func (t Topics) Verdicts() string { return t.Effective() + ".verdicts" }

// FraudState is the name of the changelog of what the fraud check remembers.
func (t Topics) FraudState() string { return t.Effective() + ".fraud-state" }

// FraudNames are the names of the two topics of the fraud check.
func (t Topics) FraudNames() []string { return []string{t.Verdicts(), t.FraudState()} }

// Effective is the prefix that is used, the default where none is given.
func (t Topics) Effective() string {
	if t.Prefix == "" {
		return DefaultPrefix
	}
	return t.Prefix
}

// What Kafka takes as a topic's name.
const longestName = 249 // bytes

var validName = regexp.MustCompile(`^[a-zA-Z0-9._-]+$`)

// Validate says why Kafka would refuse the names of the topics of events.
func (t Topics) Validate() error { return t.validate(t.Names()) }

// ValidateFraud says why Kafka would refuse the names of all topics, those of the fraud check among them.
func (t Topics) ValidateFraud() error { return t.validate(append(t.Names(), t.FraudNames()...)) }

func (t Topics) validate(names []string) error {
	longest := 0
	for _, name := range names {
		if !validName.MatchString(name) {
			return fmt.Errorf("topic prefix %q has characters that Kafka does not take: only letters, digits, dot, dash and underscore of ASCII", t.Prefix)
		}
		longest = max(longest, len(name))
	}
	if longest > longestName {
		return fmt.Errorf("topic prefix of %d characters is too long: at most %d", len(t.Prefix), longestName-(longest-len(t.Prefix)))
	}
	return nil
}
