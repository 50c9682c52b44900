package reconcile

import "slices"

// Outcome is what a run says of a line of the bank, or of an entry of the books.
type Outcome string

// The outcomes.
const (
	// Matched: lines and entries are the same movement, and come to the same.
	Matched Outcome = "matched"
	// MatchedWithDifference: they are the same movement, and what they differ by is known and kept.
	MatchedWithDifference Outcome = "matched_with_difference"
	// PartiallyMatched: a part of it is matched, and the rest is open.
	PartiallyMatched Outcome = "partially_matched"
	// MissingInLedger: nothing in the books is like this line.
	MissingInLedger Outcome = "missing_in_ledger"
	// MissingAtBank: nothing at the bank is like this entry. While it is young, it is in transit.
	MissingAtBank Outcome = "missing_at_bank"
	// AmountMismatch: the reference is the same, and the amount is not.
	AmountMismatch Outcome = "amount_mismatch"
	// DateMismatch: reference and amount are the same, and the dates are too far apart.
	DateMismatch Outcome = "date_mismatch"
	// CurrencyMismatch: the reference is that of a transfer in another currency.
	CurrencyMismatch Outcome = "currency_mismatch"
	// DuplicateBankLine: the bank has it more often than the books.
	DuplicateBankLine Outcome = "duplicate_bank_line"
	// DuplicateLedgerEntry: the books have it more often than the bank.
	DuplicateLedgerEntry Outcome = "duplicate_ledger_entry"
	// Ambiguous: there are two candidates or more. It is never matched without a person.
	Ambiguous Outcome = "ambiguous"
	// Ignored: a person has said that it has no counterpart and needs none.
	Ignored Outcome = "ignored"
)

var outcomes = []Outcome{
	Matched, MatchedWithDifference, PartiallyMatched, MissingInLedger, MissingAtBank, AmountMismatch, DateMismatch, CurrencyMismatch, DuplicateBankLine,
	DuplicateLedgerEntry, Ambiguous, Ignored,
}

// Outcomes lists the outcomes.
func Outcomes() []Outcome { return slices.Clone(outcomes) }

// Rule is what a match, or a suggestion, goes by.
type Rule string

// The rules, in the order in which they are tried: what is most certain comes first, and what it takes is no candidate for the next.
const (
	// RuleOpening: the balance with which the bank begins is what the books had until then.
	RuleOpening Rule = "opening"
	// RuleReference: reference and amount are the same, and nothing else has both.
	RuleReference Rule = "reference"
	// RuleBatch: the items of a batch, or of a payout, come to its sum.
	RuleBatch Rule = "batch"
	// RuleText: a word of the bank's text is the reference, and the amount is the same, or that of all items which have it.
	RuleText Rule = "text"
	// RuleAmount: the amount is the same, the dates are near, and nothing else is like it.
	RuleAmount Rule = "amount"
	// RuleManual: a person has said so.
	RuleManual Rule = "manual"
)

// automatic are the rules that can be set to confirm by themselves.
var automatic = []Rule{RuleOpening, RuleReference, RuleBatch, RuleText, RuleAmount}

// The kinds of decisions, as they are stored.
const (
	kindAutomatic = "automatic"
	kindManual    = "manual"
	kindIgnored   = "ignored"
)
