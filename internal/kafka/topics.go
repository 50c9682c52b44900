package kafka

import (
	"fmt"
	"regexp"
)

// DefaultPrefix is what the names of the topics begin with by default.
const DefaultPrefix = "khata"

// Topics are the two topics of Khata.
type Topics struct {
	// Prefix is what their names begin with, before a dot; DefaultPrefix by default.
	Prefix string
}

// Transfers is the name of the topic of transfers.
func (t Topics) Transfers() string { return t.Effective() + ".transfers" }

// Accounts is the name of the topic of accounts.
func (t Topics) Accounts() string { return t.Effective() + ".accounts" }

// Names are the names of both.
func (t Topics) Names() []string { return []string{t.Transfers(), t.Accounts()} }

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

// Validate says why Kafka would refuse the names.
func (t Topics) Validate() error {
	for _, name := range t.Names() {
		if !validName.MatchString(name) {
			return fmt.Errorf("topic prefix %q has characters that Kafka does not take: only letters, digits, dot, dash and underscore of ASCII", t.Prefix)
		}
		if len(name) > longestName {
			return fmt.Errorf("topic prefix of %d characters is too long: at most %d", len(t.Prefix), longestName-len(".transfers"))
		}
	}
	return nil
}
