// Package ledgertest has what tests hold the ledger against: a plain model of it in memory, and a check of the books in a
// database. It shares no code with what it judges.
package ledgertest
