package grpcapi

import (
	"encoding/json"
	"slices"

	"github.com/shopspring/decimal"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// exactly writes an amount with the decimals of its currency, or with more where a bank has given more.
func exactly(amount decimal.Decimal, scale int32) string {
	if !amount.Equal(amount.Truncate(scale)) {
		return amount.String()
	}
	return ledger.FormatAmount(amount, scale)
}

func encodeBankAccount(a *reconcile.BankAccount) *khatav1.BankAccount {
	return &khatav1.BankAccount{
		Ledger: string(a.Ledger), Name: a.Name, Account: string(a.Account), Currency: string(a.Currency.Code), MoneyIn: wire.Direction(a.MoneyIn),
		Basis: basesOut[a.Basis], Zone: a.Zone.String(), Begins: a.Begins.String(), Forward: exactly(a.Forward, a.Currency.Scale),
		ForwardThrough: a.ForwardThrough, CreatedAt: timestamppb.New(a.CreatedAt), CreatedBy: a.CreatedBy,
		Settings: encodeSettings(a.Settings, a.Currency.Scale), SettingsVersion: int32(a.SettingsVersion), //nolint:gosec // it was one
		SettingsAt: timestamppb.New(a.SettingsAt), SettingsBy: a.SettingsBy,
	}
}

func encodeSettings(s reconcile.Settings, scale int32) *khatav1.BankSettings {
	return &khatav1.BankSettings{
		Identifiers: s.Identifiers, Profile: s.Profile, DaysBefore: int32(s.DaysBefore), DaysAfter: int32(s.DaysAfter), //nolint:gosec // bounded
		Tolerance: exactly(s.Tolerance, scale), TransitDays: int32(s.TransitDays), ReferenceKeys: s.ReferenceKeys, //nolint:gosec // bounded
		Confirm: each(s.Confirm, func(rule reconcile.Rule) string { return string(rule) }), AnyNumbers: s.AnyNumbers, IgnoreBalances: s.IgnoreBalances,
		Bai2Decimals: s.BAI2Decimals,
	}
}

func encodeProfile(p reconcile.StoredProfile) (*khatav1.BankProfile, error) {
	content, err := json.Marshal(p.Profile)
	return &khatav1.BankProfile{
		Name: p.Name, Version: int32(p.Version), Content: string(content), SavedAt: timestamppb.New(p.SavedAt), //nolint:gosec // it was one
		SavedBy: p.SavedBy,
	}, err
}

func encodeFile(f *reconcile.File, scale int32) *khatav1.BankFile {
	return &khatav1.BankFile{
		No: f.No, BankAccount: f.BankAccount, Sha256: f.SHA256, Archive: f.Archive, Name: f.Name, Member: f.Member, Format: string(f.Format),
		Profile: f.Profile, ProfileVersion: int32(f.ProfileVersion), Checks: each(f.Checks, encodeCheck), //nolint:gosec // it was one
		Statements: each(f.Statements, encodeFileStatement(scale)), ImportedAt: timestamppb.New(f.ImportedAt), ImportedBy: f.ImportedBy,
		Replayed: f.Replayed,
	}
}

func encodeCheck(c bankfile.Check) *khatav1.BankCheck {
	return &khatav1.BankCheck{Name: string(c.Name), State: string(c.State), Detail: c.Detail, Stated: c.Stated, Computed: c.Computed}
}

func encodeFlag(f bankfile.Flag) *khatav1.BankFlag {
	return &khatav1.BankFlag{Code: string(f.Code), Text: f.Text}
}

func encodeFileStatement(scale int32) func(reconcile.FileStatement) *khatav1.BankFileStatement {
	balance := func(amount *decimal.Decimal) string {
		if amount == nil {
			return ""
		}
		return exactly(*amount, scale)
	}
	return func(s reconcile.FileStatement) *khatav1.BankFileStatement {
		return &khatav1.BankFileStatement{
			No: s.No, Ordinal: int32(s.Ordinal), Id: s.ID, Number: s.Number, From: s.From.String(), To: s.To.String(), //nolint:gosec // bounded
			Opening: balance(s.Opening), Closing: balance(s.Closing), Checks: each(s.Checks, encodeCheck), Flags: each(s.Flags, encodeFlag),
			Lines: int32(s.Lines), Added: int32(s.Added), AddedSum: exactly(s.AddedSum, scale), //nolint:gosec // bounded
			Balance: exactly(s.Balance, scale), Anchored: s.Anchored, Covers: s.Covers.String(),
		}
	}
}

// The bounds of a refusal: details of a status travel in a header, of which some take no more than eight KiB.
const maxRefusalChecks, maxRefusalText = 10, 200

// encodeRefusal says why a file is refused, and what was held against what: of the file, and of the statement that the refusal is about. What failed
// comes first.
func encodeRefusal(r *reconcile.RefusedFile) *khatav1.BankFileRefusal {
	out := &khatav1.BankFileRefusal{
		Reason: string(r.Reason), Member: short(r.Member), Statement: int32(r.Statement), Account: short(r.Account), //nolint:gosec // bounded
		Position: int32(r.Position), Detail: short(r.Detail), Stated: short(r.Stated), Computed: short(r.Computed), //nolint:gosec // bounded
	}
	if r.File == nil {
		return out
	}
	checks := slices.Clone(r.File.Checks)
	if n := r.Statement; n >= 1 && n <= len(r.File.Statements) {
		checks = append(checks, r.File.Statements[n-1].Checks...)
	}
	order := []bankfile.CheckState{bankfile.CheckFailed, bankfile.CheckHeld, bankfile.CheckNotMade}
	slices.SortStableFunc(checks, func(a, b bankfile.Check) int { return slices.Index(order, a.State) - slices.Index(order, b.State) })
	for _, c := range checks[:min(len(checks), maxRefusalChecks)] {
		c.Detail, c.Stated, c.Computed = short(c.Detail), short(c.Stated), short(c.Computed)
		out.Checks = append(out.Checks, encodeCheck(c))
	}
	return out
}

// short makes text of a bank fit for the details of a status.
func short(text string) string {
	text = readable(text)
	if len(text) <= maxRefusalText {
		return text
	}
	return readable(text[:maxRefusalText]) + "\u2026"
}

func encodeLine(l *reconcile.Line, currency ledger.Currency) *khatav1.BankLine {
	scale := currency.Scale
	if l.Currency != string(currency.Code) { // Only what does not count can be in another one, of which nothing is known.
		scale = max(0, -l.Amount.Exponent())
	}
	refs := map[string]string{}
	for name, text := range map[string]string{
		"end_to_end": l.References.EndToEnd, "bank": l.References.Bank, "customer": l.References.Customer, "instruction": l.References.Instruction,
		"transaction": l.References.Transaction, "mandate": l.References.Mandate, "creditor": l.References.Creditor, "batch": l.References.Batch,
		"source": l.References.Source, "cheque": l.References.Cheque,
	} {
		if text != "" {
			refs[name] = text
		}
	}
	return &khatav1.BankLine{
		No: l.No, File: l.File, Statement: l.Statement, Kind: l.Kind, Parent: l.Parent, Counts: l.Counts, BookedOn: l.BookingDate.String(),
		ValueOn: l.ValueDate.String(), Amount: exactly(l.Amount, scale), Open: exactly(l.Open(), scale), Currency: l.Currency, Status: string(l.Status),
		Reversal: l.Reversal, ExternalId: l.ExternalID, Code: l.Code, Description: l.Description, References: refs, PartyName: l.Counterparty.Name,
		PartyAccount: l.Counterparty.Account, PartyBank: l.Counterparty.Bank, Flags: each(l.Flags, encodeFlag),
	}
}

func encodeRun(r *reconcile.Run, scale int32) *khatav1.ReconcileRun {
	return &khatav1.ReconcileRun{
		No: r.No, Ordinal: int32(r.Ordinal), BankAccount: r.BankAccount, AsOf: r.AsOf, Through: r.Through, //nolint:gosec // it was one
		SettingsVersion: int32(r.SettingsVersion), Covers: r.Covers.String(), Confirmed: r.Confirmed, Results: r.Results, //nolint:gosec // it was one
		Summary: encodeSummary(&r.Summary, scale), RunAt: timestamppb.New(r.RunAt), RunBy: r.RunBy,
	}
}

func encodeSummary(s *reconcile.Summary, scale int32) *khatav1.ReconcileSummary {
	tally := func(t reconcile.Tally) *khatav1.ReconcileTally {
		return &khatav1.ReconcileTally{Count: t.Count, Sum: exactly(t.Sum, scale)}
	}
	tallies := func(m map[reconcile.Outcome]reconcile.Tally) map[string]*khatav1.ReconcileTally {
		out := make(map[string]*khatav1.ReconcileTally, len(m))
		for outcome, t := range m {
			out[string(outcome)] = tally(t)
		}
		return out
	}
	return &khatav1.ReconcileSummary{
		Lines: tally(s.Lines), MatchedLines: exactly(s.MatchedLines, scale), IgnoredLines: exactly(s.IgnoredLines, scale),
		MatchedEntries: exactly(s.MatchedEntries, scale), IgnoredEntries: exactly(s.IgnoredEntries, scale), OpenLines: tally(s.OpenLines),
		OpenEntries: tally(s.OpenEntries), InTransit: tally(s.InTransit), Suggestions: s.Suggestions, LineOutcomes: tallies(s.LineOutcomes),
		EntryOutcomes: tallies(s.EntryOutcomes),
	}
}

func encodeItem(currency ledger.Currency) func(reconcile.Result) *khatav1.ReconcileResult {
	return func(r reconcile.Result) *khatav1.ReconcileResult {
		out := &khatav1.ReconcileResult{
			Open: exactly(r.Open, currency.Scale), Outcome: string(r.Outcome), Group: int32(r.Group), Rule: string(r.Rule), //nolint:gosec // it was one
			Difference: exactly(r.Difference, currency.Scale), InTransit: r.InTransit, Note: r.Note,
			Candidates: each(r.Candidates, func(c reconcile.Candidate) *khatav1.ReconcileCandidate {
				return &khatav1.ReconcileCandidate{Line: c.Line, Sequence: c.Sequence, Leg: int32(c.Leg)} //nolint:gosec // a leg of a transfer
			}),
		}
		if r.Line != nil {
			out.Line = encodeLine(r.Line, currency)
		}
		if r.Entry != nil {
			out.Entry = encodeReconcileEntry(r.Entry, currency.Scale)
		}
		return out
	}
}

func encodeReconcileEntry(e *reconcile.Entry, scale int32) *khatav1.ReconcileEntry {
	out := &khatav1.ReconcileEntry{
		Sequence: e.Sequence, Leg: int32(e.Leg), Amount: exactly(e.Amount, scale), Day: e.Day.String(), //nolint:gosec // a leg of a transfer
		TransferId: string(e.Transfer), Kind: string(e.Kind), Description: e.Description, EffectiveAt: wire.Time(e.EffectiveAt),
		Others: each(e.Others, func(id ledger.AccountID) string { return string(id) }),
	}
	if !e.PostedAt.IsZero() { // What was brought forward was posted at many times.
		out.PostedAt = timestamppb.New(e.PostedAt)
	}
	return out
}

func encodeSuggestion(currency ledger.Currency) func(reconcile.Suggestion) *khatav1.ReconcileSuggestion {
	return func(s reconcile.Suggestion) *khatav1.ReconcileSuggestion {
		return &khatav1.ReconcileSuggestion{
			Group: int32(s.Group), Rule: string(s.Rule), Lines: each(s.Lines, encodeItem(currency)), //nolint:gosec // it was one
			Entries: each(s.Entries, encodeItem(currency)), Difference: exactly(s.Difference, currency.Scale),
		}
	}
}

func encodeDecision(d *reconcile.Decision, scale int32) *khatav1.Decision {
	out := &khatav1.Decision{
		No: d.No, BankAccount: d.BankAccount, Kind: d.Kind, Rule: string(d.Rule), Outcome: string(d.Outcome), Run: d.Run,
		Lines: exactly(d.Lines, scale), Entries: exactly(d.Entries, scale), Difference: exactly(d.Difference(), scale), RequestId: d.Request,
		Reason: d.Reason, DecidedAt: timestamppb.New(d.DecidedAt), DecidedBy: d.DecidedBy, Posted: d.Posted(),
		Items: each(d.Items, func(i reconcile.DecisionItem) *khatav1.DecisionItem {
			return &khatav1.DecisionItem{
				Line: i.Line, Sequence: i.Sequence, Leg: int32(i.Leg), Amount: exactly(i.Amount, scale), Day: i.Day.String(), //nolint:gosec // a leg
				PostsDifference: i.PostsDifference,
			}
		}),
		Approvals: each(d.Differences, func(a reconcile.Difference) *khatav1.DifferenceApproval {
			return &khatav1.DifferenceApproval{
				Attempt: int32(a.Attempt), Account: string(a.Account), Amount: exactly(a.Amount, scale), //nolint:gosec // few
				TransferId: string(a.Transfer), EffectiveAt: wire.Time(a.EffectiveAt), Description: a.Description,
				ApprovedAt: timestamppb.New(a.ApprovedAt), ApprovedBy: a.ApprovedBy,
			}
		}),
	}
	if u := d.Undone; u != nil {
		out.Undone = &khatav1.DecisionUndone{No: u.No, Reason: u.Reason, UndoneAt: timestamppb.New(u.At), UndoneBy: u.By}
	}
	return out
}
