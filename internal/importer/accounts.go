package importer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/khata-ledger/khata/ledger"
)

const (
	// lookups is how many accounts are asked for at once.
	lookups = 16
	// maxKnown is how many accounts are remembered; beyond it they are asked for again.
	maxKnown = 1 << 20
)

// DefaultAccounts are the rules by which accounts are made where a map has none: the type is what their ids begin with.
func DefaultAccounts() []AccountRule {
	return []AccountRule{
		{Prefix: "asset:", Type: ledger.Asset}, {Prefix: "liability:", Type: ledger.Liability},
		{Prefix: "equity:", Type: ledger.Equity}, {Prefix: "revenue:", Type: ledger.Revenue},
		{Prefix: "expense:", Type: ledger.Expense},
	}
}

// accounts knows which accounts exist, and makes those that do not. It is not safe for concurrent use.
type accounts struct {
	books   Books
	create  bool
	rules   []AccountRule
	known   map[ledger.AccountID]account
	created int
}

type account struct {
	serialised bool
	missing    error // why lines with it are wrong; nil if it exists
}

func newAccounts(books Books, config Config) *accounts {
	a := &accounts{books: books, create: config.CreateAccounts, rules: DefaultAccounts(), known: map[ledger.AccountID]account{}}
	if config.Map != nil && len(config.Map.Accounts) > 0 {
		a.rules = config.Map.Accounts
	}
	return a
}

// prepare makes the accounts of a batch, marks the rows wrong whose accounts there are not, and notes the serialised ones.
// It returns an error if it cannot find out.
func (a *accounts) prepare(ctx context.Context, b *batch) error {
	if len(a.known) > maxKnown {
		clear(a.known)
	}
	currencies := map[ledger.AccountID]ledger.CurrencyCode{} // of those not known, as the rows have them
	var unknown []ledger.AccountID
	for _, r := range b.rows {
		for _, e := range r.spec.Entries {
			if _, ok := a.known[e.Account]; ok || r.err != nil {
				continue
			}
			currency, seen := currencies[e.Account]
			if !seen {
				unknown = append(unknown, e.Account)
			}
			if currency == "" {
				currencies[e.Account] = e.Currency.Code
			}
		}
	}
	missing, err := a.lookUp(ctx, unknown)
	if err != nil {
		return err
	}
	if err := a.make(ctx, missing, currencies); err != nil {
		return err
	}
	for i := range b.rows {
		r := &b.rows[i]
		for _, e := range r.spec.Entries {
			if r.err != nil {
				break
			}
			known := a.known[e.Account]
			r.err = known.missing
			if known.serialised {
				b.shared[e.Account] = struct{}{}
			}
		}
	}
	return nil
}

// lookUp asks for accounts and returns those that do not exist, in their order.
func (a *accounts) lookUp(ctx context.Context, ids []ledger.AccountID) (missing []ledger.AccountID, err error) {
	found := make([]ledger.Account, len(ids))
	errs := make([]error, len(ids))
	slots := make(chan struct{}, lookups)
	var group sync.WaitGroup
	for i, id := range ids {
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			found[i], errs[i] = a.books.Account(ctx, id)
		})
	}
	group.Wait()
	for i, id := range ids {
		switch {
		case errors.Is(errs[i], ledger.CodeAccountNotFound):
			missing = append(missing, id)
		case errs[i] != nil:
			return nil, fmt.Errorf("look for account %s: %w", id, errs[i])
		default:
			a.known[id] = account{serialised: found[i].Serialised}
		}
	}
	return missing, nil
}

// make makes accounts, or notes why not.
func (a *accounts) make(ctx context.Context, ids []ledger.AccountID, currencies map[ledger.AccountID]ledger.CurrencyCode) error {
	var specs []ledger.AccountSpec
	for _, id := range ids {
		spec, err := a.spec(id, currencies[id])
		if err != nil {
			a.known[id] = account{missing: err}
			continue
		}
		specs = append(specs, spec)
	}
	for chunk := range slices.Chunk(specs, 1000) {
		err := a.makeAll(ctx, chunk)
		if err == nil {
			continue
		}
		if ledger.CodeOf(err).Retryable() || !aboutAccounts(err) {
			return fmt.Errorf("create accounts: %w", err)
		}
		// All or none: one of them must not cost the others.
		for _, spec := range chunk {
			if err := a.makeAll(ctx, []ledger.AccountSpec{spec}); err != nil {
				if ledger.CodeOf(err).Retryable() {
					return fmt.Errorf("create account %s: %w", spec.ID, err)
				}
				a.known[spec.ID] = account{missing: fmt.Errorf("account %s does not exist and cannot be created: %w", spec.ID, err)}
			}
		}
	}
	return nil
}

// aboutAccounts reports whether an error is about some account, and not about all there can be.
func aboutAccounts(err error) bool {
	switch ledger.CodeOf(err) {
	case ledger.CodeLedgerNotFound, ledger.CodePermissionDenied, ledger.CodeUnauthenticated:
		return false
	}
	return true
}

func (a *accounts) makeAll(ctx context.Context, specs []ledger.AccountSpec) error {
	made, err := a.books.CreateAccounts(ctx, specs)
	if errors.Is(err, ledger.CodeAlreadyExists) && len(specs) == 1 {
		// Somebody else made it meanwhile, and not as we would have. It is there.
		_, err = a.lookUp(ctx, []ledger.AccountID{specs[0].ID})
		return err
	}
	if err != nil {
		return err
	}
	for _, m := range made {
		a.known[m.Account.ID] = account{serialised: m.Account.Serialised}
		if m.Created {
			a.created++
		}
	}
	return nil
}

// spec gives the request for an account that does not exist, or the reason that there is none.
func (a *accounts) spec(id ledger.AccountID, currency ledger.CurrencyCode) (ledger.AccountSpec, error) {
	spec := ledger.AccountSpec{ID: id, Currency: currency}
	rule := slices.IndexFunc(a.rules, func(rule AccountRule) bool { return strings.HasPrefix(string(id), rule.Prefix) })
	if rule >= 0 {
		spec.Type = a.rules[rule].Type
		if currency == "" {
			spec.Currency = a.rules[rule].Currency
		}
	}
	switch {
	case !a.create:
		kind, code := cmp.Or(string(spec.Type), "TYPE"), cmp.Or(string(spec.Currency), "CODE")
		return spec, fmt.Errorf("account %s does not exist: create it (khata account create %s --type %s --currency %s), "+
			"or import with --create-accounts", id, id, kind, code)
	case rule < 0:
		return spec, fmt.Errorf("account %s does not exist, and no rule says of what type to create it: its id begins with none of %s",
			id, a.prefixes())
	case spec.Currency == "":
		return spec, fmt.Errorf("account %s does not exist, and neither the line nor a rule says in what currency to create it", id)
	}
	return spec, nil
}

func (a *accounts) prefixes() string {
	var list []string
	for _, rule := range a.rules {
		list = append(list, rule.Prefix)
	}
	return quoted(list)
}
