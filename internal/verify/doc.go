// Package verify recomputes the invariants of the books from the rows, on live data, and reports each row that breaks one.
//
// It trusts nothing that it can count by hand: no trigger, no constraint, no index, and no answer that the service gave. It
// only reads, in one REPEATABLE READ transaction, and so sees the books at one instant while posting goes on. What is in
// flight then is either whole or not there: a transfer and its entries have one commit, and whatever a rule of an account
// was decided by (the gate, a row lock) was committed before it.
//
// Every check is a statement or two over whole tables, and only breaches leave the database. Each file of sql/ gives the
// breaches of the check that it is named after; guards.txt is the schema that the migrations make.
package verify
