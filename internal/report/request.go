package report

import (
	"slices"

	"github.com/khata-ledger/khata/ledger"
)

// Name is what a report is known by.
type Name string

// The reports.
const (
	TrialBalance    Name = "trial-balance"
	BalanceSheet    Name = "balance-sheet"
	IncomeStatement Name = "income-statement"
	GeneralLedger   Name = "general-ledger"
	Clearing        Name = "clearing"
	DailyPosition   Name = "daily-position"
	BalanceOverTime Name = "balance-over-time"
	Growth          Name = "growth"
	// ChangesSince lists what has been recorded of a statement's period since it was issued.
	ChangesSince Name = "changes-since-issued"
)

// Takes is a set of what a report can be asked for, beside its ledger, period and basis.
type Takes uint8

// What a report can be asked for.
const (
	// TakesPrefix: accounts whose ids begin so.
	TakesPrefix Takes = 1 << iota
	// TakesAccount: one account only.
	TakesAccount
	// NeedsAccount: one account, which must be given.
	NeedsAccount
	// TakesDepth: how many parts of an account's id to tell apart.
	TakesDepth
	// TakesEmpty: accounts that have nothing to show, too.
	TakesEmpty
	// AtOneMoment: it is as of the end of the period, which has no beginning.
	AtOneMoment
	// NeedsStatement: a statement that was issued, and no period.
	NeedsStatement
	// NeedsPeriod: a period that begins and ends.
	NeedsPeriod
)

// Definition describes a report.
type Definition struct {
	Name  Name
	Title string
	// About says in a sentence what it shows.
	About string
	Takes Takes
}

var definitions = []Definition{
	{TrialBalance, "Trial balance", "Each account's opening balance, debits, credits and closing balance; debits equal credits in each currency.",
		TakesPrefix | TakesDepth | TakesEmpty},
	{BalanceSheet, "Balance sheet", "Assets, liabilities and equity as of a moment, with the result that is not yet closed.",
		TakesPrefix | TakesDepth | TakesEmpty | AtOneMoment},
	{IncomeStatement, "Income statement", "Revenue, expenses and the result of a period.", TakesPrefix | TakesDepth | TakesEmpty},
	{GeneralLedger, "General ledger", "Every entry of every account in a period, with the balance after it.", TakesPrefix | TakesAccount},
	{Clearing, "Clearing and suspense", "What is left on clearing and suspense accounts, and for how long it has been there.",
		TakesPrefix | AtOneMoment | TakesEmpty},
	{DailyPosition, "Daily position", "Each account's opening balance, debits, credits and closing balance, day by day.",
		TakesPrefix | TakesAccount | NeedsPeriod},
	{BalanceOverTime, "Balance over time", "The balance of an account at the end of each day.", NeedsAccount | NeedsPeriod},
	{Growth, "Duplicates and growth", "How much was posted, refused and stopped as a duplicate, day by day.", NeedsPeriod},
	{ChangesSince, "Changes since issued", "What was recorded of a statement's period after it was issued.", NeedsStatement},
}

// Definitions lists the reports.
func Definitions() []Definition { return slices.Clone(definitions) }

// Define gives the definition of a report. It returns CodeInvalidArgument.
func Define(name Name) (Definition, error) {
	for _, d := range definitions {
		if d.Name == name {
			return d, nil
		}
	}
	return Definition{}, ledger.Invalid("report", "%.60q is no report", string(name))
}

// Request asks for a report.
type Request struct {
	Report Name
	Ledger ledger.Name
	Period Period
	Basis  Basis
	// Prefix is what the ids of the accounts begin with, such as "assets:bank:"; "" is all of them.
	Prefix string
	// Currency is that of the accounts; "" is all of them.
	Currency ledger.CurrencyCode
	// Account is one account, where the report is of one.
	Account ledger.AccountID
	// Depth is how many parts of an id, between colons, are told apart: accounts that agree in them are one row. 0 is all.
	Depth int
	// Empty includes accounts without a balance and without entries.
	Empty bool
	// Through is the last sequence that counts: with it, a report is the same whenever it is asked for. 0 is the last one there is.
	Through int64
	// Statement is the number of a statement.
	Statement int64
}
