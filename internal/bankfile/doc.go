// Package bankfile reads the files in which banks and payment processors say what happened on an account: CSV by a profile, the itemised reports of
// Stripe, camt.053, MT940, BAI2, OFX, and a zip of these. It does no I/O but reading the stream that it is given, and knows nothing of the ledger.
//
// # What it promises
//
// Parse reads a file into one model, whatever its format: a File of Statements of Lines. Amounts are exact decimals, positive where they are in the
// account holder's favour. What a file says of itself is checked: that opening balance and booked lines make the closing balance, control totals,
// counts, that the balance beside each line adds up, that the statements of one account follow each other. Every check is in the model, also those
// that could not be made, with the reason. A file of which a check fails is refused as a whole, with a *Refusal; it is still returned, so that a
// person can be shown what is wrong with it.
//
// A file comes from a stranger. Sizes are bounded by Limits, nothing is read by guessing (CSV needs a Profile), and no file makes it panic.
//
// # What counts
//
// Only lines whose Status is StatusBooked count towards the totals and are for matching. Pending and information lines are kept to be shown. So is a
// line of 0.00, which some banks write to carry a message: it is kept as information, and flagged. The Details of a batch are parts of its line's
// amount: either the line counts or they do, never both.
//
// # Sameness
//
// The same file has the same SHA256. The same line in another file, of a period that overlaps, has the same Identity: see LineIdentity.
package bankfile
