// Package journal is the only writer of the books: ledgers, currencies, accounts, transfers and entries. It owns those
// tables; nobody else writes them, and the rules of package ledger are applied here, at the one door, whichever adapter a
// request came through.
//
// # How a transfer is posted
//
// Post takes a list, cuts it into requests, and puts these into the queue of their ledger one after the other (post.go,
// queue.go). Requests that wait while batches are under way form the next batch; one that finds a free place is a batch
// at once. A batch is one READ COMMITTED transaction of two round trips (batch.go):
//
//  1. the gate of the ledger, shared
//  2. row locks on the serialised accounts of the batch, in the order of their ids
//  3. whether any account has changed; the rules and balances of those that are not remembered (chart.go), and, where some
//     were sent twice of late, the transfers that have these ids already; where one has a value date, how far the books are
//     closed; all of it again, from the locks on, where an account has changed or has come into being meanwhile
//  4. ledger.Books decides, in the order of arrival
//  5. one INSERT of what was newly decided, refusals included; it draws the numbers
//  6. COMMIT
//
// Each of these is a statement of its own, in this order, because a statement sees the books as they were when it began:
// what is read in the statement that waits for a lock is older than the lock. The first three travel together, and the last
// two.
//
// The INSERT decides. If an id is taken, it fails on the primary key, everything that was decided on the strength of its
// being new is rolled back, and the batch is run again, now seeing the other's record. The same is done after a deadlock, and
// after a COMMIT whose answer was lost: to run the batch again is how its outcome is found out.
//
// # The gate
//
// The gate of a ledger is an advisory lock. Posting holds it shared, so posters never wait for one another at it; a change of
// an account's rules, or of how far the books are closed (closing.go), holds it alone. Numbers are drawn while it is held, and so
// it also tells which numbers can still become visible: see horizon. A trigger takes it for whoever inserts a transfer without it.
//
// # How a balance is computed
//
// From the nearest snapshot before the point, and the entries after it, by the SQL function balance_through and nothing else. A job
// of each server (snapshot.go) takes snapshots behind the horizon, by inserting marks, whose trigger does the work. Where they
// are, and what is in them, follows from the journal, so it does not matter how often or by whom it is done. Marks also
// narrow a time down to numbers, for balances as of a time (balance.go).
package journal
