// Package ledger is the domain of Khata: ledgers, accounts, transfers, entries, and the rules that decide what a
// transfer may do.
//
// It is pure. It imports the standard library and decimal, and nothing of Khata; it does no I/O, reads no clock and
// knows no SQL. Everything else in the project adapts it.
//
// # Words
//
// An Account is a bucket of one currency. Its Type gives it a normal balance: debit for assets and expenses, credit for
// liabilities, equity and revenue. An Entry is one debit or one credit of a positive amount to one account. A transfer is
// a request (TransferSpec), and once decided a record (Transfer), that moves an amount: it has two or more entries, and
// they sum to zero in each currency. A ledger is a separate set of books; ids and accounts live inside one.
//
// # One id, one effect, for ever
//
// A TransferID names one transfer in its ledger. The first well-formed request of an id that the books can judge is decided,
// as posted or as refused, and recorded; each later request of that id with the same content gets the recorded answer
// again, and one with other content gets CodeAlreadyExists and changes nothing. Books.Decide holds these rules.
//
// # Steps
//
// A transfer has a Kind. A hold reserves its amount, and moves nothing; captures, a void or an expiry are its steps. Refunds, or one
// reversal, are the steps of a transfer that moved money. A step names its origin, and is a transfer with an id of its own: what it
// moves or releases follows from the origin and the steps before it, which Progress sums up. Terms has what else a request asks for:
// to move as much as there is, or only if an account is as its caller believes. Books.DecideAtomically judges several requests, all
// or nothing.
//
// # Closed periods
//
// The books of a ledger can be closed before a time (PeriodClose) and opened again (PeriodReopen). While they are closed, a transfer with an
// earlier effective_at is refused with CodePeriodClosed.
//
// # Amounts
//
// Amounts are exact decimals (shopspring/decimal). Nothing here rounds: an amount with more decimals than its currency has
// is an error.
package ledger
