// Package relay publishes the journal to Kafka: every decided transfer and every change of an account at least once, in the order of
// decision, and after a crash, too. Posting knows nothing of it: what is to be published is the journal itself, behind its safe
// horizon.
//
// # One at a time
//
// Any number of relays may run; one of them works. It has the lease, a row of table relay, and with it a term: the row's number goes up
// each time that another relay takes over. A relay that was thought dead and comes back (a process that was stopped, a network that was
// cut) can do no harm, since it is fenced at both ends:
//
//   - in Kafka by the transactional id, which all relays share. Who takes over asks for a new epoch first of all; from then on Kafka
//     refuses what the other one still has under way, and readers of committed records never see it.
//   - in PostgreSQL by the term: the cursor is moved in a transaction that holds the lease's row, if it still has that term.
//
// # In order
//
// A reader takes the records of a ledger behind its cursor, in the order of their numbers, and makes events of them (event.go). The
// publisher sends them in one Kafka transaction and, when that is committed, moves the cursor. Between the two a crash makes the
// next relay send them again, with the same ids: consumers absorb that (package inbox).
//
// # What Kafka refuses for good
//
// A transaction with an event that is too large is aborted, and its events are sent again in halves until the culprit stands alone.
// That one is parked (parked.go): on record in PostgreSQL, by the same commit that moves the cursor. Later events of its topic and key
// are parked behind it, because they must not overtake it; all others go on.
package relay
