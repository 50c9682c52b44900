package bankfile

import (
	"fmt"

	"github.com/shopspring/decimal"
)

// Format names a kind of file.
type Format string

// The formats that are read.
const (
	// FormatCSV is text in columns, of which a Profile says what they mean.
	FormatCSV Format = "csv"
	// FormatStripe is a CSV report of Stripe: balance_change_from_activity.itemized.3 or payout_reconciliation.itemized.5.
	FormatStripe Format = "stripe"
	// FormatCamt053 is the bank-to-customer statement of ISO 20022, in any of its versions.
	FormatCamt053 Format = "camt.053"
	// FormatMT940 is SWIFT's customer statement message.
	FormatMT940 Format = "mt940"
	// FormatBAI2 is the cash management balance reporting format of the Bank Administration Institute, version 2.
	FormatBAI2 Format = "bai2"
	// FormatOFX is Open Financial Exchange: 1.x, which is SGML, and 2.x, which is XML. QFX is the same.
	FormatOFX Format = "ofx"
	// FormatZip is a zip of any of the above.
	FormatZip Format = "zip"
)

// File is what was read of one file.
type File struct {
	Format Format
	// SHA256 is that of the raw bytes, in lower-case hex: the identity of the file. It is "" if the file was not read to its end.
	SHA256 string
	// Members are the files of a zip, in its order; none for another format.
	Members []Member
	// Statements are those of the file, or of all members, in the order of the file.
	Statements []*Statement
	// Checks are those of the file as a whole, such as its control total. Each statement has its own beside them.
	Checks []Check
}

// Member is a file of a zip.
type Member struct {
	// Name is its path in the zip.
	Name   string
	Format Format
	// SHA256 is that of the member's bytes, uncompressed: a file that came alone before and comes in a zip now is recognised by it.
	SHA256 string
}

// Statement is what a file says of one account in one currency over one period.
type Statement struct {
	// Member is the path of the zip's member that it is from; "" for a file that is no zip.
	Member string
	// ID is the statement's own id or reference as the bank gave it: camt Stmt/Id, MT940 :20:. It need not be unique.
	ID string
	// AccountID is the IBAN or number of the account as the file has it, spaces around it taken off. It is "" where the file does not say, such as in
	// most CSV files and those of Stripe.
	AccountID string
	// BankID is the bank's identifier beside AccountID, where the file gives one: OFX BANKID, the originator of a BAI2 group.
	BankID string
	// Currency is the code of the account's currency, such as "EUR". All booked lines are in it, else the file is refused.
	Currency string
	// Number is the statement's number as written, and Sequence that number, 0 if there is none or it is no number. Banks number from 1, and many begin
	// again each year.
	Number   string
	Sequence int64
	// Pages is how many pages an MT940 statement came in, which are one statement here; 1 for other formats.
	Pages int
	// From and To are the first and the last day that it covers, as the file says, or where it does not say those of its balances or lines. They are
	// zero where there are none of these.
	From, To Date
	// Opening and Closing are the booked balances at its beginning and end; nil where the file has none.
	Opening, Closing *Balance
	// Balances are all others that the file gives, such as the available balance. They are information: nothing is checked against them.
	Balances []Balance
	Lines    []Line
	Checks   []Check
	// Flags are remarks on the statement as a whole.
	Flags []Flag
}

// Balance is what an account has at the end of a day.
type Balance struct {
	// Code says which balance it is, in the words of the format: "OPBD", "60F", "010", "LEDGERBAL". CodeRunning is one that was worked out here.
	Code string
	// Amount is positive where it is in the account holder's favour.
	Amount   decimal.Decimal
	Currency string
	// Date is zero where the file gives none.
	Date Date
}

// CodeRunning is the Code of an opening or closing balance that the file does not state, but that follows from the balance beside its lines.
const CodeRunning = "running"

// Status says whether a line has happened.
type Status string

// The statuses of lines.
const (
	// StatusBooked is final: the line is in the balance. Only these count, and only these are for matching.
	StatusBooked Status = "booked"
	// StatusPending is expected, and comes again when it is booked.
	StatusPending Status = "pending"
	// StatusInformation changes no balance, by the bank's word or because its amount is zero.
	StatusInformation Status = "information"
)

// Line is one movement on an account, or one part of it (see Details).
type Line struct {
	// Ordinal is its place among the lines of its statement, from 1; in Details, among those.
	Ordinal int
	// Position is the line of the text that it begins on, from 1.
	Position int
	// BookingDate is the day on which the bank booked it, in the bank's own zone. Where the file has only a value date, it is that.
	BookingDate Date
	// ValueDate is the day from which it bears interest; zero where the file has none.
	ValueDate Date
	// Amount is positive where it is in the account holder's favour, in units of Currency (12.34 is 12 euros and 34 cents). For Stripe it is the net:
	// what the balance there changes by.
	Amount   decimal.Decimal
	Currency string
	// Gross and Fee are what a payment processor says that the amount is made of: Amount = Gross - Fee. Both are zero for other formats.
	Gross, Fee decimal.Decimal
	Status     Status
	// Reversal says that it takes back an earlier movement. Amount has its own sign: a reversed credit is negative.
	Reversal bool
	// ExternalID is the bank's own id of the line, "" if there is none. It is meant to be unique within the account, and is not always.
	ExternalID   string
	References   References
	Counterparty Party
	// Code is the kind of movement in the words of the format: camt "PMNT/RCDT/BOOK", MT940 "NTRF", BAI2 "475", OFX "POS".
	Code string
	// Description is what is left of the text, for people and for rules; runs of spaces and line ends are one space, and nothing in it is to be trusted.
	Description string
	Flags       []Flag
	// Details are the parts of a batch that the bank booked as one line, none if there are fewer than two. They are in the status of the line, and their
	// amounts are not counted beside the line's. Where they do not add up to it (FlagDetailsDiffer) they must not stand in its place.
	Details []Line
	// Identity is what the line is recognised by in another file of the same account; see LineIdentity. Details have that of their line, "/" and their
	// Ordinal.
	Identity string
}

// References are the names under which others know a line. Each is "" if there is none; placeholders such as NOTPROVIDED and NONREF are none.
type References struct {
	// EndToEnd was chosen by whoever began the payment, and passes unchanged to its receiver. It is not unique.
	EndToEnd string
	// Bank was given by the bank that keeps the account.
	Bank string
	// Customer was given by the account holder or for him: MT940's first reference, a BAI2 customer reference, the reference column of a CSV profile.
	Customer string
	// Instruction was given by the instructing party to the next in the chain (camt InstrId).
	Instruction string
	// Transaction was given by the first bank in the chain (camt TxId); Stripe's is the payment intent.
	Transaction string
	// Mandate is that of a direct debit.
	Mandate string
	// Creditor is the structured remittance reference, such as an ISO 11649 "RF…" or a number on an invoice.
	Creditor string
	// Batch is that of the batch that the line is part of: camt PmtInfId, the payout of Stripe.
	Batch string
	// Source is the object behind the line in the system of a payment processor: Stripe's source_id, such as ch_… or re_….
	Source string
	// Cheque is the number of a cheque.
	Cheque string
}

// Party is the other side of a line.
type Party struct {
	Name string
	// Account is its IBAN or number, and Bank the BIC or number of its bank.
	Account string
	Bank    string
}

// Flag is a remark on something in the file that was read in a way that a person may want to know of.
type Flag struct {
	Code FlagCode
	// Text says it in words, such as "value date 2016-02-30 does not exist: read as 2016-02-29".
	Text string
}

// FlagCode says what a flag is about.
type FlagCode string

// The flags.
const (
	// FlagValueDate: the value date does not exist, such as 30 February in a year of 360 days, and was read as the last day of its month.
	FlagValueDate FlagCode = "value_date"
	// FlagZero: the amount is zero, so the line is information.
	FlagZero FlagCode = "zero_amount"
	// FlagNoStatus: the file does not say whether the line is booked, and it was read as booked.
	FlagNoStatus FlagCode = "no_status"
	// FlagNoDate: the line has no date of its own, and has that of the statement's end.
	FlagNoDate FlagCode = "no_date"
	// FlagDetailsDiffer: the details of a batch do not add up to its line, or not all of them have an amount in its currency.
	FlagDetailsDiffer FlagCode = "details_differ"
	// FlagCorrection: the bank says that it corrects something it sent before.
	FlagCorrection FlagCode = "correction"
)

func (l *Line) flag(code FlagCode, format string, args ...any) {
	l.Flags = append(l.Flags, Flag{Code: code, Text: fmt.Sprintf(format, args...)})
}

// setValueDate sets the value date, which may be one that does not exist.
func (l *Line) setValueDate(raw rawDate) error {
	date, moved, err := raw.nearest()
	if err != nil {
		return fmt.Errorf("value date: %w", err)
	}
	if moved {
		l.flag(FlagValueDate, "value date %s does not exist: read as %s", raw, date)
	}
	l.ValueDate = date
	return nil
}

// sumBooked adds up what counts.
func (s *Statement) sumBooked() decimal.Decimal {
	sum := decimal.Zero
	for i := range s.Lines {
		if s.Lines[i].Status == StatusBooked {
			sum = sum.Add(s.Lines[i].Amount)
		}
	}
	return sum
}

// CheckName says what a check looks at.
type CheckName string

// The checks.
const (
	// CheckTotals: opening balance and booked lines make the closing balance.
	CheckTotals CheckName = "totals"
	// CheckRunning: the balance beside each line is the one before it and the line's amount.
	CheckRunning CheckName = "running_balance"
	// CheckControl: the sum that the file gives as a control is the sum of what it controls.
	CheckControl CheckName = "control_total"
	// CheckCount: there are as many records as the file says.
	CheckCount CheckName = "count"
	// CheckSummary: the total credits and debits that the bank states are those of the lines.
	CheckSummary CheckName = "summary"
	// CheckNet: gross less fee is net on every line.
	CheckNet CheckName = "net"
	// CheckDetails: the details of each batch add up to its line. It never refuses a file, since charges may lie between the two.
	CheckDetails CheckName = "details"
	// CheckChain: the statement follows the one of the same account before it, in number and in balance.
	CheckChain CheckName = "chain"
	// CheckScale: no amount is finer than its currency.
	CheckScale CheckName = "scale"
)

// CheckState says how a check came out.
type CheckState string

// The states of checks.
const (
	// CheckHeld: it was made and holds.
	CheckHeld CheckState = "held"
	// CheckFailed: it was made and does not hold. The file is refused.
	CheckFailed CheckState = "failed"
	// CheckNotMade: it could not be made. Detail says why.
	CheckNotMade CheckState = "not_made"
)

// Check is something that a file says of itself, and whether it is so.
type Check struct {
	Name  CheckName
	State CheckState
	// Detail says it in words.
	Detail string
	// Stated is the number that the file gives and Computed the one that follows from what it controls, as text; "" where no two numbers were compared.
	Stated, Computed string
}
