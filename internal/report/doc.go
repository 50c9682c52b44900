// Package report makes the reports of finance, and issues account statements. It owns the table of statements; everything else it reads through
// package journal.
//
// # One balance function
//
// A report is of a journal.Period: a period of a ledger's books as of a sequence, behind which all is decided. Opening and closing balances come
// from the function of the database that GetBalance uses too; debits and credits are summed up apart, from the entries. Each report holds the one
// against the other, and says at its end what it has checked: a trial balance that shows no difference is a check of the books, not of itself.
//
// # Two times, one zone
//
// A report goes by booking time (posted_at) or by value date (effective_at, and posted_at where there is none), and never by both. Its period is
// from a moment up to, and without, another one. Days begin where the zone that is named says.
//
// # Signs
//
// Amounts have two columns, debit and credit, or one in which a debit is positive; then each currency sums to zero. Balance sheet, income statement
// and account statement show balances as their owners see them, in the normal direction of the account; their heads say so.
package report
