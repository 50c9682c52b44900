// Package journal is the only writer of the books: ledgers, currencies, accounts, transfers and entries. It owns those
// tables; nobody else writes them, and the rules of package ledger are applied here, at the one door, whichever adapter a
// request came through.
//
// # How a transfer is posted
//
// Post takes a list. It is cut into batches, and each batch is one READ COMMITTED transaction (batch.go):
//
//  1. the gate of the ledger, shared
//  2. row locks on the serialised accounts of the batch, in the order of their ids; done again if one has come into being meanwhile
//  3. the accounts' rules and balances, and the transfers that have these ids already
//  4. ledger.Books decides, in the order of arrival
//  5. one INSERT of what was newly decided, refusals included; it draws the numbers
//  6. COMMIT
//
// Each of these is a statement of its own, in this order, because a statement sees the books as they were when it began:
// what is read in the statement that waits for a lock is older than the lock.
//
// The INSERT decides. If an id has meanwhile been taken, it fails on the primary key, everything that was decided on the
// strength of its being new is rolled back, and the batch is run again, now seeing the other's record. The same is done
// after a deadlock, and after a COMMIT whose answer was lost: to run the batch again is how its outcome is found out.
//
// # The gate
//
// The gate of a ledger is an advisory lock. Posting holds it shared, so posters never wait for one another at it; a change of
// an account's rules holds it alone. Numbers are drawn while it is held, and so it also tells which numbers can still
// become visible: see horizon. A trigger takes it for whoever inserts a transfer without it.
//
// # How a balance is computed
//
// From the nearest snapshot before the point, and the entries after it, by the SQL function balance_through and nothing else. A job
// of each server (snapshot.go) takes snapshots behind the horizon, by inserting marks, whose trigger does the work. Where they
// are, and what is in them, follows from the journal, so it does not matter how often or by whom it is done. Marks also
// narrow a time down to numbers, for balances as of a time (balance.go).
package journal
