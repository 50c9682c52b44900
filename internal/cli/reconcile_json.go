package cli

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// What reconcile prints with --json, in the names of the API.

type bankAccountJSON struct {
	Ledger          string           `json:"ledger"`
	Name            string           `json:"name"`
	Account         string           `json:"account"`
	Currency        string           `json:"currency"`
	MoneyIn         string           `json:"money_in"`
	Basis           string           `json:"basis"`
	Zone            string           `json:"zone"`
	Begins          string           `json:"begins,omitempty"`
	Forward         string           `json:"forward"`
	ForwardThrough  int64            `json:"forward_through,omitempty"`
	CreatedAt       string           `json:"created_at"`
	CreatedBy       string           `json:"created_by"`
	Settings        bankSettingsJSON `json:"settings"`
	SettingsVersion int              `json:"settings_version"`
	SettingsAt      string           `json:"settings_at"`
	SettingsBy      string           `json:"settings_by"`
}

type bankSettingsJSON struct {
	Identifiers    []string                      `json:"identifiers,omitempty"`
	Profile        string                        `json:"profile,omitempty"`
	DaysBefore     int                           `json:"days_before"`
	DaysAfter      int                           `json:"days_after"`
	Tolerance      string                        `json:"tolerance"`
	TransitDays    int                           `json:"transit_days"`
	ReferenceKeys  []string                      `json:"reference_keys,omitempty"`
	Confirm        []string                      `json:"confirm,omitempty"`
	AnyNumbers     bool                          `json:"any_numbers,omitempty"`
	IgnoreBalances bool                          `json:"ignore_balances,omitempty"`
	BAI2Decimals   map[ledger.CurrencyCode]int32 `json:"bai2_decimals,omitempty"`
}

func toBankAccountJSON(b client.BankAccount) bankAccountJSON {
	s := b.Settings
	return bankAccountJSON{
		Ledger: string(b.Ledger), Name: b.Name, Account: string(b.Account), Currency: string(b.Currency), MoneyIn: string(b.MoneyIn),
		Basis: string(b.Basis), Zone: b.Zone, Begins: b.Begins, Forward: written(b.Forward), ForwardThrough: b.ForwardThrough,
		CreatedAt: formatTime(b.CreatedAt), CreatedBy: b.CreatedBy, SettingsVersion: b.SettingsVersion, SettingsAt: formatTime(b.SettingsAt),
		SettingsBy: b.SettingsBy,
		Settings: bankSettingsJSON{
			Identifiers: s.Identifiers, Profile: s.Profile, DaysBefore: s.DaysBefore, DaysAfter: s.DaysAfter, Tolerance: written(s.Tolerance),
			TransitDays: s.TransitDays, ReferenceKeys: s.ReferenceKeys, Confirm: s.Confirm, AnyNumbers: s.AnyNumbers, IgnoreBalances: s.IgnoreBalances,
			BAI2Decimals: s.BAI2Decimals,
		},
	}
}

type bankProfileJSON struct {
	Name    string          `json:"name"`
	Version int             `json:"version"`
	Content json.RawMessage `json:"content"`
	SavedAt string          `json:"saved_at"`
	SavedBy string          `json:"saved_by"`
}

func toBankProfileJSON(p client.BankProfile) bankProfileJSON {
	return bankProfileJSON{Name: p.Name, Version: p.Version, Content: json.RawMessage(p.Content), SavedAt: formatTime(p.SavedAt), SavedBy: p.SavedBy}
}

type bankCheckJSON struct {
	Name     string `json:"name"`
	State    string `json:"state"`
	Detail   string `json:"detail,omitempty"`
	Stated   string `json:"stated,omitempty"`
	Computed string `json:"computed,omitempty"`
}

type bankFlagJSON struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

type bankFileJSON struct {
	No             int64                   `json:"no,omitempty"`
	BankAccount    string                  `json:"bank_account"`
	SHA256         string                  `json:"sha256"`
	Archive        string                  `json:"archive,omitempty"`
	Name           string                  `json:"name,omitempty"`
	Member         string                  `json:"member,omitempty"`
	Format         string                  `json:"format"`
	Profile        string                  `json:"profile,omitempty"`
	ProfileVersion int                     `json:"profile_version,omitempty"`
	Checks         []bankCheckJSON         `json:"checks,omitempty"`
	Statements     []bankFileStatementJSON `json:"statements"`
	ImportedAt     string                  `json:"imported_at,omitempty"`
	ImportedBy     string                  `json:"imported_by,omitempty"`
	// Replayed and DryRun are of import only.
	Replayed *bool `json:"replayed,omitempty"`
	DryRun   bool  `json:"dry_run,omitempty"`
}

type bankFileStatementJSON struct {
	No       int64           `json:"no,omitempty"`
	Ordinal  int             `json:"ordinal"`
	ID       string          `json:"id,omitempty"`
	Number   string          `json:"number,omitempty"`
	From     string          `json:"from,omitempty"`
	To       string          `json:"to,omitempty"`
	Opening  string          `json:"opening,omitempty"`
	Closing  string          `json:"closing,omitempty"`
	Checks   []bankCheckJSON `json:"checks,omitempty"`
	Flags    []bankFlagJSON  `json:"flags,omitempty"`
	Lines    int             `json:"lines"`
	Added    int             `json:"added"`
	AddedSum string          `json:"added_sum"`
	Balance  string          `json:"balance"`
	Anchored bool            `json:"anchored"`
	Covers   string          `json:"covers,omitempty"`
}

func toBankFileJSON(f client.BankFile) bankFileJSON {
	out := bankFileJSON{
		No: f.No, BankAccount: f.BankAccount, SHA256: f.SHA256, Archive: f.Archive, Name: f.Name, Member: f.Member, Format: f.Format,
		Profile: f.Profile, ProfileVersion: f.ProfileVersion, Checks: bankChecksJSON(f.Checks), ImportedBy: f.ImportedBy,
	}
	if f.No != 0 {
		out.ImportedAt = formatTime(f.ImportedAt)
	}
	for _, s := range f.Statements {
		out.Statements = append(out.Statements, bankFileStatementJSON{
			No: s.No, Ordinal: s.Ordinal, ID: s.ID, Number: s.Number, From: s.From, To: s.To, Opening: writtenOptional(s.Opening),
			Closing: writtenOptional(s.Closing), Checks: bankChecksJSON(s.Checks), Flags: bankFlagsJSON(s.Flags), Lines: s.Lines, Added: s.Added,
			AddedSum: written(s.AddedSum), Balance: written(s.Balance), Anchored: s.Anchored, Covers: s.Covers,
		})
	}
	return out
}

func bankChecksJSON(list []client.BankCheck) []bankCheckJSON {
	var out []bankCheckJSON
	for _, c := range list {
		out = append(out, bankCheckJSON(c))
	}
	return out
}

func bankFlagsJSON(list []client.BankFlag) []bankFlagJSON {
	var out []bankFlagJSON
	for _, f := range list {
		out = append(out, bankFlagJSON(f))
	}
	return out
}

type refusalJSON struct {
	File      string          `json:"file,omitempty"`
	Reason    string          `json:"reason"`
	Member    string          `json:"member,omitempty"`
	Statement int             `json:"statement,omitempty"`
	Account   string          `json:"account,omitempty"`
	Position  int             `json:"position,omitempty"`
	Detail    string          `json:"detail"`
	Stated    string          `json:"stated,omitempty"`
	Computed  string          `json:"computed,omitempty"`
	Checks    []bankCheckJSON `json:"checks,omitempty"`
}

func toRefusalJSON(r *client.BankFileRefusal) *refusalJSON {
	return &refusalJSON{
		Reason: r.Reason, Member: r.Member, Statement: r.Statement, Account: r.Account, Position: r.Position, Detail: r.Detail, Stated: r.Stated,
		Computed: r.Computed, Checks: bankChecksJSON(r.Checks),
	}
}

type bankLineJSON struct {
	No           int64             `json:"no"`
	File         int64             `json:"file,omitempty"`
	Statement    int64             `json:"statement,omitempty"`
	Kind         string            `json:"kind"`
	Parent       int64             `json:"parent,omitempty"`
	Counts       bool              `json:"counts"`
	BookedOn     string            `json:"booked_on,omitempty"`
	ValueOn      string            `json:"value_on,omitempty"`
	Amount       string            `json:"amount"`
	Open         string            `json:"open"`
	Currency     string            `json:"currency"`
	Status       string            `json:"status"`
	Reversal     bool              `json:"reversal,omitempty"`
	ExternalID   string            `json:"external_id,omitempty"`
	Code         string            `json:"code,omitempty"`
	Description  string            `json:"description,omitempty"`
	References   map[string]string `json:"references,omitempty"`
	PartyName    string            `json:"party_name,omitempty"`
	PartyAccount string            `json:"party_account,omitempty"`
	PartyBank    string            `json:"party_bank,omitempty"`
	Flags        []bankFlagJSON    `json:"flags,omitempty"`
}

func toBankLineJSON(l client.BankLine) bankLineJSON {
	return bankLineJSON{
		No: l.No, File: l.File, Statement: l.Statement, Kind: l.Kind, Parent: l.Parent, Counts: l.Counts, BookedOn: l.BookedOn, ValueOn: l.ValueOn,
		Amount: written(l.Amount), Open: written(l.Open), Currency: string(l.Currency), Status: l.Status, Reversal: l.Reversal, ExternalID: l.ExternalID,
		Code: l.Code, Description: l.Description, References: l.References, PartyName: l.PartyName, PartyAccount: l.PartyAccount, PartyBank: l.PartyBank,
		Flags: bankFlagsJSON(l.Flags),
	}
}

type tallyJSON struct {
	Count int64  `json:"count"`
	Sum   string `json:"sum"`
}

type runSummaryJSON struct {
	Lines          tallyJSON            `json:"lines"`
	MatchedLines   string               `json:"matched_lines"`
	IgnoredLines   string               `json:"ignored_lines"`
	MatchedEntries string               `json:"matched_entries"`
	IgnoredEntries string               `json:"ignored_entries"`
	OpenLines      tallyJSON            `json:"open_lines"`
	OpenEntries    tallyJSON            `json:"open_entries"`
	InTransit      tallyJSON            `json:"in_transit"`
	Suggestions    int64                `json:"suggestions"`
	LineOutcomes   map[string]tallyJSON `json:"line_outcomes"`
	EntryOutcomes  map[string]tallyJSON `json:"entry_outcomes"`
}

type runJSON struct {
	No              int64          `json:"no"`
	Ordinal         int            `json:"ordinal"`
	BankAccount     string         `json:"bank_account"`
	AsOf            int64          `json:"as_of"`
	Through         int64          `json:"through"`
	SettingsVersion int            `json:"settings_version"`
	Covers          string         `json:"covers,omitempty"`
	Confirmed       int64          `json:"confirmed"`
	Results         int64          `json:"results"`
	Summary         runSummaryJSON `json:"summary"`
	RunAt           string         `json:"run_at"`
	RunBy           string         `json:"run_by"`
	// Replayed is of match only.
	Replayed *bool `json:"replayed,omitempty"`
}

func toRunJSON(r client.ReconcileRun, replayed *bool) runJSON {
	tally := func(t client.ReconcileTally) tallyJSON { return tallyJSON{t.Count, written(t.Sum)} }
	outcomes := func(in map[string]client.ReconcileTally) map[string]tallyJSON {
		out := make(map[string]tallyJSON, len(in))
		for outcome, t := range in {
			out[outcome] = tally(t)
		}
		return out
	}
	s := r.Summary
	return runJSON{
		No: r.No, Ordinal: r.Ordinal, BankAccount: r.BankAccount, AsOf: r.AsOf, Through: r.Through, SettingsVersion: r.SettingsVersion, Covers: r.Covers,
		Confirmed: r.Confirmed, Results: r.Results, RunAt: formatTime(r.RunAt), RunBy: r.RunBy, Replayed: replayed,
		Summary: runSummaryJSON{
			Lines: tally(s.Lines), MatchedLines: written(s.MatchedLines), IgnoredLines: written(s.IgnoredLines), MatchedEntries: written(s.MatchedEntries),
			IgnoredEntries: written(s.IgnoredEntries), OpenLines: tally(s.OpenLines), OpenEntries: tally(s.OpenEntries), InTransit: tally(s.InTransit),
			Suggestions: s.Suggestions, LineOutcomes: outcomes(s.LineOutcomes), EntryOutcomes: outcomes(s.EntryOutcomes),
		},
	}
}

type reconcileEntryJSON struct {
	Sequence    int64              `json:"sequence"`
	Leg         int                `json:"leg,omitempty"`
	Amount      string             `json:"amount"`
	Day         string             `json:"day,omitempty"`
	TransferID  string             `json:"transfer_id,omitempty"`
	Kind        string             `json:"kind,omitempty"`
	Description string             `json:"description,omitempty"`
	PostedAt    string             `json:"posted_at,omitempty"`
	EffectiveAt string             `json:"effective_at,omitempty"`
	Others      []ledger.AccountID `json:"others,omitempty"`
}

type candidateJSON struct {
	Line     int64 `json:"line,omitempty"`
	Sequence int64 `json:"sequence,omitempty"`
	Leg      int   `json:"leg,omitempty"`
}

type reconcileResultJSON struct {
	Line       *bankLineJSON       `json:"line,omitempty"`
	Entry      *reconcileEntryJSON `json:"entry,omitempty"`
	Open       string              `json:"open"`
	Outcome    string              `json:"outcome"`
	Group      int                 `json:"group,omitempty"`
	Rule       string              `json:"rule,omitempty"`
	Difference string              `json:"difference,omitempty"`
	InTransit  bool                `json:"in_transit,omitempty"`
	Note       string              `json:"note,omitempty"`
	Candidates []candidateJSON     `json:"candidates,omitempty"`
}

func toReconcileResultJSON(r client.ReconcileResult) reconcileResultJSON {
	out := reconcileResultJSON{Open: written(r.Open), Outcome: r.Outcome, Group: r.Group, Rule: r.Rule, InTransit: r.InTransit, Note: r.Note}
	if r.Group != 0 {
		out.Difference = written(r.Difference)
	}
	for _, c := range r.Candidates {
		out.Candidates = append(out.Candidates, candidateJSON(c))
	}
	if r.Line != nil {
		line := toBankLineJSON(*r.Line)
		out.Line = &line
	}
	if e := r.Entry; e != nil {
		out.Entry = &reconcileEntryJSON{
			Sequence: e.Sequence, Leg: e.Leg, Amount: written(e.Amount), Day: e.Day, TransferID: string(e.TransferID), Kind: string(e.Kind),
			Description: e.Description, EffectiveAt: formatOptionalTime(e.EffectiveAt), Others: e.Others,
		}
		if e.Sequence != 0 {
			out.Entry.PostedAt = formatTime(e.PostedAt)
		}
	}
	return out
}

type suggestionJSON struct {
	Run        int64                 `json:"run"`
	Group      int                   `json:"group"`
	Rule       string                `json:"rule"`
	Lines      []reconcileResultJSON `json:"lines"`
	Entries    []reconcileResultJSON `json:"entries"`
	Difference string                `json:"difference"`
}

func toSuggestionJSON(run int64, s client.ReconcileSuggestion) suggestionJSON {
	out := suggestionJSON{Run: run, Group: s.Group, Rule: s.Rule, Difference: written(s.Difference)}
	for _, r := range s.Lines {
		out.Lines = append(out.Lines, toReconcileResultJSON(r))
	}
	for _, r := range s.Entries {
		out.Entries = append(out.Entries, toReconcileResultJSON(r))
	}
	return out
}

type decisionItemJSON struct {
	Line            int64  `json:"line,omitempty"`
	Sequence        int64  `json:"sequence,omitempty"`
	Leg             int    `json:"leg,omitempty"`
	Amount          string `json:"amount"`
	Day             string `json:"day,omitempty"`
	PostsDifference bool   `json:"posts_difference,omitempty"`
}

type approvalJSON struct {
	Attempt     int    `json:"attempt"`
	Account     string `json:"account"`
	Amount      string `json:"amount"`
	TransferID  string `json:"transfer_id"`
	EffectiveAt string `json:"effective_at,omitempty"`
	Description string `json:"description,omitempty"`
	ApprovedAt  string `json:"approved_at"`
	ApprovedBy  string `json:"approved_by"`
}

type undoneJSON struct {
	No       int64  `json:"no"`
	Reason   string `json:"reason"`
	UndoneAt string `json:"undone_at"`
	UndoneBy string `json:"undone_by"`
}

type decisionJSON struct {
	No          int64              `json:"no"`
	BankAccount string             `json:"bank_account"`
	Kind        string             `json:"kind"`
	Rule        string             `json:"rule"`
	Outcome     string             `json:"outcome"`
	Run         int64              `json:"run,omitempty"`
	Lines       string             `json:"lines"`
	Entries     string             `json:"entries"`
	Difference  string             `json:"difference"`
	Items       []decisionItemJSON `json:"items"`
	Approvals   []approvalJSON     `json:"approvals,omitempty"`
	RequestID   string             `json:"request_id,omitempty"`
	Reason      string             `json:"reason,omitempty"`
	DecidedAt   string             `json:"decided_at"`
	DecidedBy   string             `json:"decided_by"`
	Undone      *undoneJSON        `json:"undone,omitempty"`
	Posted      bool               `json:"posted"`
	// Replayed is of what decides only.
	Replayed *bool `json:"replayed,omitempty"`
}

func toDecisionJSON(d client.Decision, replayed *bool) decisionJSON {
	out := decisionJSON{
		No: d.No, BankAccount: d.BankAccount, Kind: d.Kind, Rule: d.Rule, Outcome: d.Outcome, Run: d.Run, Lines: written(d.Lines),
		Entries: written(d.Entries), Difference: written(d.Difference), RequestID: d.RequestID, Reason: d.Reason, DecidedAt: formatTime(d.DecidedAt),
		DecidedBy: d.DecidedBy, Posted: d.Posted, Replayed: replayed,
	}
	for _, i := range d.Items {
		out.Items = append(out.Items, decisionItemJSON{i.Line, i.Sequence, i.Leg, written(i.Amount), i.Day, i.PostsDifference})
	}
	for _, p := range d.Approvals {
		out.Approvals = append(out.Approvals, approvalJSON{
			Attempt: p.Attempt, Account: string(p.Account), Amount: written(p.Amount), TransferID: string(p.TransferID),
			EffectiveAt: formatOptionalTime(p.EffectiveAt), Description: p.Description, ApprovedAt: formatTime(p.ApprovedAt), ApprovedBy: p.ApprovedBy,
		})
	}
	if u := d.Undone; u != nil {
		out.Undone = &undoneJSON{u.No, u.Reason, formatTime(u.UndoneAt), u.UndoneBy}
	}
	return out
}

func written(amount decimal.Decimal) string { return ledger.FormatWritten(amount) }

func writtenOptional(amount *decimal.Decimal) string {
	if amount == nil {
		return ""
	}
	return written(*amount)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
