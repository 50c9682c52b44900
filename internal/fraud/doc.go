// Package fraud is the check that looks at every posted transfer after the fact, and says what it thinks of it: once.
//
// It reads the movements of accounts from one topic of Kafka and writes verdicts to another. The verdicts, what is remembered of each payer
// and how far it has come are one transaction of Kafka: all of it is there for those who read committed records, or none. Nothing else is
// touched, no database and no other service, since Kafka's transactions cover nothing else.
//
// What it remembers of a payer is in a third topic, a changelog, which is compacted. An instance that gets a partition reads what
// the one before it has left there, and goes on as if it had been there all the time.
//
// Judge is what decides. It is pure: the same transfers in the same order make the same verdicts, on any day and in any instance. All else of the
// package is there so that each transfer passes it once:
//
//	khata.accounts ──► read ──► Judge ──► verdicts ─────────► khata.verdicts
//	      ▲                       ▲  └──► new states ───────► khata.fraud-state
//	      └ offsets ◄─────────────┼────── all in one transaction
//	                              └────── restored from khata.fraud-state
//
// It must never do I/O inside a transaction but to Kafka, read a clock to judge, or commit what it is not sure to have written.
package fraud
