package client

import (
	"context"
	"crypto/rand"
	"iter"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// runTimeout bounds an attempt to make a run, which reads all that is open.
const runTimeout = 10 * time.Minute

// ReconcileRun is a run of the matching. It never changes.
type ReconcileRun struct {
	No int64
	// Ordinal is its place among the runs of the bank account, from 1.
	Ordinal     int
	BankAccount string
	// AsOf is the number up to which it has seen lines and decisions, and Through the sequence up to which it has seen the journal.
	AsOf, Through   int64
	SettingsVersion int
	// Covers is the last day that the bank's files cover.
	Covers string
	// Confirmed is how many matches it made, and Results of how many open items it has something to say.
	Confirmed, Results int64
	Summary            ReconcileSummary
	RunAt              time.Time
	RunBy              string
}

// ReconcileTally is how many there are of something, and what they come to.
type ReconcileTally struct {
	Count int64
	Sum   decimal.Decimal
}

// ReconcileSummary is what a run found. Lines.Sum is MatchedLines, IgnoredLines and OpenLines.Sum together.
type ReconcileSummary struct {
	// Lines are all lines that count.
	Lines                          ReconcileTally
	MatchedLines, IgnoredLines     decimal.Decimal
	MatchedEntries, IgnoredEntries decimal.Decimal
	OpenLines, OpenEntries         ReconcileTally
	// InTransit are the open entries that are expected to be on their way.
	InTransit ReconcileTally
	// Suggestions is how many groups of items are suggested.
	Suggestions int64
	// LineOutcomes and EntryOutcomes are what is open, by outcome.
	LineOutcomes, EntryOutcomes map[string]ReconcileTally
}

// Match makes a run of the matching: it confirms what is certain, and keeps what it has to say of the rest. A request with the same id again is the
// same run, and replayed is true. Where requestID is "" the client makes one, so that what it sends again is one run all the same; whoever wants to ask
// again after an error has to choose it.
//
// It returns CodeInvalidArgument, or CodeConflict if people keep deciding about the same items meanwhile; nothing was done then.
func (r *Reconciliation) Match(ctx context.Context, bankAccount, requestID string) (run ReconcileRun, replayed bool, err error) {
	if requestID == "" {
		requestID = rand.Text()
	}
	in := &khatav1.MatchBankAccountRequest{Ledger: r.ledger(), BankAccount: bankAccount, RequestId: requestID}
	resp, err := call(ctx, r.client.patientFor(runTimeout), r.api.MatchBankAccount, in)
	if err != nil {
		return ReconcileRun{}, false, err
	}
	run, err = decodeRun(resp.GetRun())
	return run, resp.GetReplayed(), err
}

// Run gets a run by its number; 0 is the last one. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciliation) Run(ctx context.Context, bankAccount string, run int64) (ReconcileRun, error) {
	resp, err := call(ctx, r.client, r.api.GetReconcileRun, &khatav1.GetReconcileRunRequest{Ledger: r.ledger(), BankAccount: bankAccount, Run: run})
	if err != nil {
		return ReconcileRun{}, err
	}
	return decodeRun(resp.GetRun())
}

// Runs goes through the runs of a bank account, the newest first. It ends after an error.
func (r *Reconciliation) Runs(ctx context.Context, bankAccount string) iter.Seq2[ReconcileRun, error] {
	return paged(func(token string) (*khatav1.ListReconcileRunsResponse, error) {
		in := &khatav1.ListReconcileRunsRequest{Ledger: r.ledger(), BankAccount: bankAccount, PageToken: token}
		return call(ctx, r.client, r.api.ListReconcileRuns, in)
	}, func(resp *khatav1.ListReconcileRunsResponse) ([]ReconcileRun, error) {
		return tryEach(resp.GetRuns(), decodeRun)
	})
}

// Repeat does a run again, of the same state and by the same settings, and gives what comes out otherwise, in words: nothing, unless somebody has
// changed what never changes, or another version of Khata matches otherwise. It keeps nothing. It returns CodeInvalidArgument.
func (r *Reconciliation) Repeat(ctx context.Context, bankAccount string, run int64) (differences []string, err error) {
	in := &khatav1.RepeatReconcileRunRequest{Ledger: r.ledger(), BankAccount: bankAccount, Run: run}
	resp, err := call(ctx, r.client.patientFor(runTimeout), r.api.RepeatReconcileRun, in)
	return resp.GetDifferences(), err
}

// ReconcileEntry is an entry of the books, as reconciliation looks at it.
type ReconcileEntry struct {
	// Sequence is that of its transfer, 0 for what was brought forward, and Leg which of the transfer's entries in the account, from 1.
	Sequence int64
	Leg      int
	Amount   decimal.Decimal
	// Day is its date by the basis of the bank account.
	Day         string
	TransferID  ledger.TransferID
	Kind        ledger.Kind
	Description string
	PostedAt    time.Time
	EffectiveAt *time.Time
	// Others are the other accounts of the transfer.
	Others []ledger.AccountID
}

// ReconcileResult is what a run says of an item that is open after it.
type ReconcileResult struct {
	// Line or Entry is the item.
	Line  *BankLine
	Entry *ReconcileEntry
	// Open is what was open of it.
	Open decimal.Decimal
	// Outcome is such as "missing_in_ledger": see docs/reconciliation.md.
	Outcome string
	// Group is the suggestion that it is in, 0 for none, Rule what that goes by, and Difference what its lines come to beyond its entries.
	Group      int
	Rule       string
	Difference decimal.Decimal
	InTransit  bool
	Note       string
	// Candidates are some items of the other side that it may be.
	Candidates []ReconcileCandidate
}

// ReconcileCandidate names an item: a line, or an entry by sequence and leg.
type ReconcileCandidate struct {
	Line, Sequence int64
	Leg            int
}

// ReconcileResultFilter says which results are meant. The zero filter is all of them.
type ReconcileResultFilter struct {
	// Side is "bank", "ledger", or "" for both.
	Side string
	// Outcomes has only those; none is all.
	Outcomes []string
	// Suggested has only what is in a suggestion.
	Suggested bool
}

// Results goes through what a run says of each open item: lines, and then entries. 0 is the last run. It ends after an error.
func (r *Reconciliation) Results(ctx context.Context, bankAccount string, run int64, filter ReconcileResultFilter) iter.Seq2[ReconcileResult, error] {
	return paged(func(token string) (*khatav1.ListReconcileResultsResponse, error) {
		in := &khatav1.ListReconcileResultsRequest{
			Ledger: r.ledger(), BankAccount: bankAccount, Run: run, Side: filter.Side, Outcomes: filter.Outcomes, Suggested: filter.Suggested, PageToken: token,
		}
		return call(ctx, r.client, r.api.ListReconcileResults, in)
	}, func(resp *khatav1.ListReconcileResultsResponse) ([]ReconcileResult, error) {
		return tryEach(resp.GetResults(), decodeReconcileResult)
	})
}

// ReconcileSuggestion is a group of items that belong together, as a run suggests. Confirm takes it by run and group.
type ReconcileSuggestion struct {
	Group          int
	Rule           string
	Lines, Entries []ReconcileResult
	// Difference is what the lines come to beyond the entries. Where there is one, Confirm needs to be told where it goes.
	Difference decimal.Decimal
}

// Suggestions goes through what a run suggests to confirm. 0 is the last run. It ends after an error.
func (r *Reconciliation) Suggestions(ctx context.Context, bankAccount string, run int64) iter.Seq2[ReconcileSuggestion, error] {
	return paged(func(token string) (*khatav1.ListReconcileSuggestionsResponse, error) {
		in := &khatav1.ListReconcileSuggestionsRequest{Ledger: r.ledger(), BankAccount: bankAccount, Run: run, PageToken: token}
		return call(ctx, r.client, r.api.ListReconcileSuggestions, in)
	}, func(resp *khatav1.ListReconcileSuggestionsResponse) ([]ReconcileSuggestion, error) {
		return tryEach(resp.GetSuggestions(), decodeSuggestion)
	})
}

func decodeRun(in *khatav1.ReconcileRun) (ReconcileRun, error) {
	var amount amounts
	tally := func(in *khatav1.ReconcileTally) ReconcileTally {
		return ReconcileTally{Count: in.GetCount(), Sum: amount.of(in.GetSum())}
	}
	s := in.GetSummary()
	out := ReconcileRun{
		No: in.GetNo(), Ordinal: int(in.GetOrdinal()), BankAccount: in.GetBankAccount(), AsOf: in.GetAsOf(), Through: in.GetThrough(),
		SettingsVersion: int(in.GetSettingsVersion()), Covers: in.GetCovers(), Confirmed: in.GetConfirmed(), Results: in.GetResults(),
		RunAt: in.GetRunAt().AsTime(), RunBy: in.GetRunBy(),
		Summary: ReconcileSummary{
			Lines: tally(s.GetLines()), MatchedLines: amount.of(s.GetMatchedLines()), IgnoredLines: amount.of(s.GetIgnoredLines()),
			MatchedEntries: amount.of(s.GetMatchedEntries()), IgnoredEntries: amount.of(s.GetIgnoredEntries()), OpenLines: tally(s.GetOpenLines()),
			OpenEntries: tally(s.GetOpenEntries()), InTransit: tally(s.GetInTransit()), Suggestions: s.GetSuggestions(),
			LineOutcomes: decodeMap(s.GetLineOutcomes(), tally), EntryOutcomes: decodeMap(s.GetEntryOutcomes(), tally),
		},
	}
	return out, amount.err
}

func decodeReconcileEntry(in *khatav1.ReconcileEntry) (ReconcileEntry, error) {
	amount, err := decodeAmount(in.GetAmount())
	return ReconcileEntry{
		Sequence: in.GetSequence(), Leg: int(in.GetLeg()), Amount: amount, Day: in.GetDay(), TransferID: ledger.TransferID(in.GetTransferId()),
		Kind: ledger.Kind(in.GetKind()), Description: in.GetDescription(), PostedAt: in.GetPostedAt().AsTime(), EffectiveAt: decodeTime(in.GetEffectiveAt()),
		Others: each(in.GetOthers(), func(id string) ledger.AccountID { return ledger.AccountID(id) }),
	}, err
}

func decodeReconcileResult(in *khatav1.ReconcileResult) (ReconcileResult, error) {
	var amount amounts
	out := ReconcileResult{
		Open: amount.of(in.GetOpen()), Outcome: in.GetOutcome(), Group: int(in.GetGroup()), Rule: in.GetRule(), Difference: amount.of(in.GetDifference()),
		InTransit: in.GetInTransit(), Note: in.GetNote(),
		Candidates: each(in.GetCandidates(), func(c *khatav1.ReconcileCandidate) ReconcileCandidate {
			return ReconcileCandidate{Line: c.GetLine(), Sequence: c.GetSequence(), Leg: int(c.GetLeg())}
		}),
	}
	if in.GetLine() != nil {
		line, err := decodeBankLine(in.GetLine())
		if err != nil {
			return out, err
		}
		out.Line = &line
	}
	if in.GetEntry() != nil {
		entry, err := decodeReconcileEntry(in.GetEntry())
		if err != nil {
			return out, err
		}
		out.Entry = &entry
	}
	return out, amount.err
}

func decodeSuggestion(in *khatav1.ReconcileSuggestion) (ReconcileSuggestion, error) {
	var amount amounts
	out := ReconcileSuggestion{Group: int(in.GetGroup()), Rule: in.GetRule(), Difference: amount.of(in.GetDifference())}
	var err error
	if out.Lines, err = tryEach(in.GetLines(), decodeReconcileResult); err != nil {
		return out, err
	}
	if out.Entries, err = tryEach(in.GetEntries(), decodeReconcileResult); err != nil {
		return out, err
	}
	return out, amount.err
}
