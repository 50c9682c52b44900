package reconcile

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// ImportSpec asks for a file to be imported.
type ImportSpec struct {
	Ledger ledger.Name
	// BankAccount is the one that the file is of. Without it each statement goes to the bank account that knows its account number, so a file of several
	// accounts can be imported at once.
	BankAccount string
	// FileName is what the file is called, for people.
	FileName string
	// Format is the one that it is in; "" has it recognised.
	Format bankfile.Format
	// Profile is the one by which CSV is read, ProfileVersion its version, 0 for the last. Without it it is that of the bank account's settings.
	Profile        string
	ProfileVersion int
	// DryRun finds out what would become of the file, and imports nothing.
	DryRun bool
	Limits bankfile.Limits
}

// Import is what became of a file.
type Import struct {
	// Files are what it was kept as: one for each bank account that it has statements of, and of a zip one for each file in it.
	Files []File
	// Replayed says that all of them had been imported before, and nothing was done now.
	Replayed bool
}

// part is a file as far as it is about one bank account.
type part struct {
	account    *BankAccount
	sha256     []byte
	archive    []byte
	member     string
	format     bankfile.Format
	profile    *StoredProfile
	checks     []bankfile.Check
	statements []placed
	// own is the number that an earlier try of this import gave it. If the answer to that commit was lost, it is no file that was there before.
	own int64
}

// placed is a statement and its place in the file, from 0.
type placed struct {
	*bankfile.Statement
	place int
}

// Import imports a file of a bank, all of it or nothing. Each of its lines is kept once, however many files have it. The same bytes again are the
// same file: its first import is returned, and nothing is done.
//
// It returns a *RefusedFile, by errors.As, for a file that does not add up, is of another account or currency, has a gap before it, or repeats a
// statement; CodeInvalidArgument; and what reading the file returned.
func (r *Reconciler) Import(ctx context.Context, spec ImportSpec, in io.Reader, caller string) (*Import, error) {
	leave, err := r.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if err := validateText("file_name", spec.FileName, false); err != nil {
		return nil, err
	}
	accounts, err := r.importAccounts(ctx, spec)
	if err != nil {
		return nil, err
	}
	options, profile, err := r.importOptions(ctx, spec, accounts)
	if err != nil {
		return nil, err
	}
	file, err := bankfile.Parse(ctx, in, options)
	var refused *bankfile.Refusal
	switch {
	case errors.As(err, &refused):
		if refused.MayBeCSV {
			refused.Detail += ": name one in profile, or in bank_account one whose settings name one"
		}
		return r.refusedOrReplayed(ctx, spec, accounts, file, refused)
	case ctx.Err() != nil:
		return nil, public(ctx, "import the file", err)
	case err != nil:
		return nil, err
	}
	parts, refused := split(spec, file, accounts, profile)
	if refused != nil {
		return nil, &RefusedFile{*refused, file}
	}
	imported, err := r.importParts(ctx, spec, parts, caller)
	if errors.As(err, &refused) {
		return nil, &RefusedFile{*refused, file}
	}
	return imported, err
}

// importAccounts are the bank accounts that the file may be of.
func (r *Reconciler) importAccounts(ctx context.Context, spec ImportSpec) ([]*BankAccount, error) {
	if spec.BankAccount == "" {
		return r.BankAccounts(ctx, spec.Ledger)
	}
	a, err := r.BankAccount(ctx, spec.Ledger, spec.BankAccount)
	return []*BankAccount{a}, err
}

func (r *Reconciler) importOptions(ctx context.Context, spec ImportSpec, accounts []*BankAccount) (bankfile.Options, *StoredProfile, error) {
	o := bankfile.Options{Format: spec.Format, Limits: spec.Limits}
	scales := map[string]int32{}
	currencies, err := r.journal.Currencies(ctx, spec.Ledger)
	if err != nil {
		return o, nil, err
	}
	for _, c := range currencies {
		scales[string(c.Code)] = c.Scale
	}
	o.Scale = func(code string) (int32, bool) {
		if scale, ok := scales[code]; ok {
			return scale, true
		}
		c, ok := ledger.ISOCurrency(ledger.CurrencyCode(code))
		return c.Scale, ok
	}
	name := spec.Profile
	if spec.BankAccount != "" {
		name = cmp.Or(name, accounts[0].Settings.Profile)
		o.BAI2Decimals = accounts[0].Settings.BAI2Decimals
	}
	if name == "" {
		return o, nil, nil
	}
	profile, err := r.Profile(ctx, spec.Ledger, name, spec.ProfileVersion)
	if err != nil {
		return o, nil, err
	}
	o.Profile = &profile.Profile
	return o, &profile, nil
}

// refusedOrReplayed answers for a file that is refused by itself. One that was imported before is not refused because its profile is another one now.
func (r *Reconciler) refusedOrReplayed(ctx context.Context, spec ImportSpec, accounts []*BankAccount, file *bankfile.File,
	refused *bankfile.Refusal) (*Import, error) {
	sha, err := hex.DecodeString(file.SHA256)
	if spec.BankAccount == "" || err != nil || len(sha) == 0 {
		return nil, &RefusedFile{*refused, file}
	}
	a := accounts[0]
	found, err := r.sql.BankFileBySHA(ctx, r.pool, dbsqlc.BankFileBySHAParams{LedgerID: a.ledgerID, BankAccountNo: a.no, Sha256: sha})
	switch {
	case err != nil:
		return nil, public(ctx, "import the file", err)
	case len(found) == 0:
		return nil, &RefusedFile{*refused, file}
	}
	f, err := r.file(ctx, r.pool, a, found[0])
	if err != nil {
		return nil, public(ctx, "import the file", err)
	}
	f.Replayed = true
	return &Import{Files: []File{*f}, Replayed: true}, nil
}

// split finds out what of a file is of which bank account, or refuses it.
func split(spec ImportSpec, file *bankfile.File, accounts []*BankAccount, profile *StoredProfile) ([]*part, *bankfile.Refusal) {
	parts := map[string]*part{}
	var order []*part
	of := func(a *BankAccount, member string) *part {
		key := fmt.Sprint(a.no, " ", member)
		if parts[key] == nil {
			parts[key] = newPart(a, file, member, profile)
			order = append(order, parts[key])
		}
		return parts[key]
	}
	for n, s := range file.Statements {
		a, refused := accountOf(spec, n, s, accounts)
		if refused != nil {
			return nil, refused
		}
		p := of(a, s.Member)
		p.statements = append(p.statements, placed{s, n})
	}
	if len(order) == 0 && spec.BankAccount != "" { // Nothing happened, and that is known now.
		members := []string{""}
		if len(file.Members) > 0 {
			members = nil
			for _, m := range file.Members {
				members = append(members, m.Name)
			}
		}
		for _, member := range members {
			of(accounts[0], member)
		}
	}
	if len(order) == 0 {
		return nil, &bankfile.Refusal{Reason: ReasonAccount, Detail: "the file has no statement: name the bank account that it is of"}
	}
	for _, p := range order {
		p.arrange()
	}
	slices.SortStableFunc(order, func(a, b *part) int { return cmp.Or(cmp.Compare(a.account.no, b.account.no), a.compare(b)) })
	return order, nil
}

func newPart(a *BankAccount, file *bankfile.File, member string, profile *StoredProfile) *part {
	p := &part{account: a, member: member, format: file.Format, checks: file.Checks}
	p.sha256, _ = hex.DecodeString(file.SHA256) // as bankfile wrote it
	for _, m := range file.Members {
		if m.Name == member {
			p.archive = p.sha256
			p.sha256, _ = hex.DecodeString(m.SHA256)
			p.format = m.Format
		}
	}
	if p.format == bankfile.FormatCSV {
		p.profile = profile
	}
	return p
}

// accountOf finds the bank account of a statement, or refuses the file.
func accountOf(spec ImportSpec, n int, s *bankfile.Statement, accounts []*BankAccount) (*BankAccount, *bankfile.Refusal) {
	if spec.BankAccount == "" && s.AccountID == "" {
		return nil, refuse(ReasonAccount, n, s, "the file does not say of which account it is: name the bank account")
	}
	var found []*BankAccount
	for _, a := range accounts {
		if s.AccountID == "" || a.Settings.knows(s.AccountID) {
			found = append(found, a)
		}
	}
	if len(found) == 0 && spec.BankAccount != "" {
		a := accounts[0]
		if len(a.Settings.Identifiers) == 0 {
			return nil, refuse(ReasonAccount, n, s,
				"it is of account %.60q, and bank account %s does not say by which numbers it is known: set its identifiers",
				s.AccountID, a.Name)
		}
		return nil, refuse(ReasonAccount, n, s, "it is of account %.60q, and bank account %s is known as %s", s.AccountID, a.Name,
			strings.Join(a.Settings.Identifiers, ", "))
	}
	if len(found) == 0 {
		return nil, refuse(ReasonAccount, n, s, "no bank account is known as %.60q", s.AccountID)
	}
	same := slices.DeleteFunc(slices.Clone(found), func(a *BankAccount) bool { return string(a.Currency.Code) != s.Currency })
	switch {
	case len(same) == 0:
		return nil, refuse(bankfile.ReasonCurrency, n, s, "it is in %s, and bank account %s is in %s", s.Currency, found[0].Name, found[0].Currency.Code)
	case len(same) > 1:
		return nil, refuse(ReasonAccount, n, s, "bank accounts %s and %s are both known as %.60q: name the one that it is of", same[0].Name,
			same[1].Name, s.AccountID)
	}
	return same[0], nil
}

// arrange puts the statements of a part in order, the oldest first.
func (p *part) arrange() {
	if n := len(p.statements); n > 1 {
		first, last := p.statements[0], p.statements[n-1]
		newestFirst := first.To.Compare(last.To) > 0
		if first.To == last.To {
			newestFirst = first.Sequence > last.Sequence && last.Sequence > 0
		}
		if newestFirst {
			slices.Reverse(p.statements)
		}
	}
}

// identify gives the lines their identities, with numbers for those that look the same. Those of another file of a zip, or of another account, are
// not counted together. It is done anew for each try, since a statement may be given others: see statementWriter.renumber.
func (p *part) identify() {
	seen := bankfile.Occurrences{}
	for _, s := range p.statements {
		for i := range s.Lines {
			line := &s.Lines[i]
			line.Identity = seen.Number(bankfile.LineIdentity(*line))
		}
	}
}

// compare puts the files of a zip in the order of their days.
func (p *part) compare(q *part) int {
	if len(p.statements) == 0 || len(q.statements) == 0 {
		return cmp.Compare(len(p.statements), len(q.statements))
	}
	a, b := p.statements[0], q.statements[0]
	return cmp.Or(a.To.Compare(b.To), a.From.Compare(b.From), cmp.Compare(a.Sequence, b.Sequence))
}

// refusalError carries a refusal out of a transaction.
type refusalError struct{ *bankfile.Refusal }

func (e refusalError) Unwrap() []error {
	return []error{e.Refusal, ledger.Invalid("file", "is refused")}
}

// errDryRun ends a transaction of which nothing is to be kept.
var errDryRun = ledger.Errorf(ledger.CodeInternal, "dry run")

// importParts imports the parts of a file in one transaction.
func (r *Reconciler) importParts(ctx context.Context, spec ImportSpec, parts []*part, caller string) (*Import, error) {
	var result *Import
	err := r.change(ctx, "import the file", func(tx pgx.Tx) error {
		result = &Import{Replayed: true}
		var locked *BankAccount
		for _, p := range parts {
			if locked != p.account { // They are in the order of their accounts' numbers.
				if err := r.lock(ctx, tx, p.account); err != nil {
					return err
				}
				locked = p.account
			}
			f, err := r.importPart(ctx, tx, p, spec.FileName, caller)
			if err != nil {
				return err
			}
			result.Files = append(result.Files, *f)
			result.Replayed = result.Replayed && f.Replayed
		}
		if spec.DryRun {
			return errDryRun
		}
		return nil
	})
	if errors.Is(err, errDryRun) && spec.DryRun {
		err = nil
	}
	if err != nil {
		return nil, err
	}
	return result, nil
}
