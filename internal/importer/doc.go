// Package importer reads files of transfers and has them posted, in large calls, through package client.
//
// It keeps no state of its own between runs: each line has a transfer_id, and the ledger posts an id once. An import that
// stopped is run again from the start, and what was posted is replayed.
//
// # Order
//
// Several calls are under way at once, and the ledger decides them in any order. Where the order can change an answer, the
// order of the file is kept: a call waits for those under way that share one of its ids, or an account that is serialised
// (a floor implies it). A refusal is final, so a payment must not overtake the deposit that it needs.
//
// # What is read as a line
//
// Text that stood between quotes is never read as a line of its own, however wrong its record is: descriptions are written
// by strangers, and a line is money. A quote that is never closed therefore takes what follows with it, and is reported
// with the lines that it took.
package importer
