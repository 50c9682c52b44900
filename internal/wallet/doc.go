// Package wallet is a view of the ledger's accounts in another database: what each has, and what moved it last, for apps that ask often and
// must not trouble the ledger.
//
// It is fed by the events of the accounts topic, through an inbox: a movement and the id of its event are one transaction. All that becomes of
// an account is in one partition of the topic, in order, so a row is at every moment exactly what its account had at one sequence, its version.
// It is late, by a fraction of a second when all is well, and never wrong.
//
// A topic keeps events for some days, so the view begins with the journal: it is built from there up to a sequence, which is written down, and
// fed by events beyond it. So is what a topic has lost before it was read.
//
// Nothing is added up in the database. A consumer locks the rows, computes what they are after the movements, inserts these under their key
// (account, version), which is unique, and sets the rows.
package wallet

import (
	"strings"

	"github.com/khata-ledger/khata/internal/pg"
)

// Consumer is the name under which events are remembered.
const Consumer = "wallet"

// Schema is where the view is.
var Schema = pg.ConsumerSchema("wallet", "khata consume wallet migrate")

// Grants is the SQL that gives a role what the consumer needs.
func Grants(role string) string {
	return strings.ReplaceAll(`GRANT USAGE ON SCHEMA khata_wallet TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON khata_wallet.state, khata_wallet.covered, khata_wallet.wallet, khata_wallet.movement TO {role};
GRANT SELECT ON khata_wallet.version TO {role};
`, "{role}", pg.Quote(role))
}
