// Package reconcile compares the books with what banks say: it imports the files of bank accounts, finds out which of their lines and which entries
// of the books are the same movement, keeps who decided that, and tells what is left. It owns the tables bank_… and reconcile_…; the books it
// reads, and posts to, through package journal.
//
// # What is what
//
// A bank account is an account at a bank or a payment processor, and mirrors one account of the books. Its amounts, of lines and of entries, are
// positive where they are in the account holder's favour: a line of 100.00 that comes in at the bank is a debit of 100.00 in the books, unless the
// bank account says that the books are the bank's own.
//
// A line counts, or its details do, or neither: see package bankfile. The balance at the bank is the sum of the lines that count, the first of which
// is the balance with which the bank's first file begins. So open lines and open entries together explain the difference of the two balances, to the
// last unit; see Statement.
//
// # Decisions
//
// A match takes amounts of lines and of entries. The database sees to it that no more is taken of any than there is, whoever does it, in whatever
// order. A run of the matching (Match) confirms what is certain and suggests the rest; a person confirms (Confirm), says that an item has no
// counterpart (Ignore), and takes a decision back (Unmatch). Nothing is changed or deleted: a decision that was taken back is still there, with who
// took it back and why. Later runs leave all decisions alone, and do not confirm again what a person has taken apart.
//
// # Repeating
//
// Lines, decisions and their undoing take numbers from one counter, in the order in which they become visible. A run keeps the number as of which it
// looked, and that of the journal, so it can be done again with the same outcome: see Repeat. Requests can be repeated, too: the same file is not
// imported again, and the same decision is the same one.
package reconcile
