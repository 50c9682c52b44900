package wallet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// row is an account in the view.
type row struct {
	key
	currency               ledger.Currency
	posted, held, incoming decimal.Decimal
	version                int64
	movedAt                time.Time
	change                 change
	changedBy              int64 // the sequence of the change
}

// writer changes rows of one generation in one transaction.
type writer struct {
	sql        *dbsqlc.Queries
	tx         pgx.Tx
	generation int32
	// oldest is the time before which movements are not kept.
	oldest time.Time
}

// errOther is that a fact cannot be of the account that the view has.
var errOther = errors.New("it is not the account that the view has")

// tally is what became of facts.
type tally struct {
	applied, known int
	// passed are the movements that were passed over.
	passed []fact
}

// ContradictionError is a movement that the view should have had before those that it has: the books have been set back to an older state, or
// somebody has changed the view.
type ContradictionError struct {
	Ledger   ledger.Name
	Account  ledger.AccountID
	Transfer ledger.TransferID
	Sequence int64
}

// Error implements error.
func (e *ContradictionError) Error() string {
	return fmt.Sprintf("transfer %s moved account %s of ledger %s at sequence %d, and the wallet view is beyond that without it: was a backup of the ledger "+
		"restored? Build the view anew: khata consume wallet rebuild", e.Transfer, e.Account, e.Ledger, e.Sequence)
}

// apply has facts take effect, which come in the order of their accounts, on rows that are locked: those that are missing are made. Movements
// that the rows have already are passed over.
func (w writer) apply(ctx context.Context, rows map[key]*row, facts []fact) (tally, error) {
	var done tally
	if err := w.begin(ctx, rows, facts); err != nil {
		return done, err
	}
	var moves dbsqlc.WalletMovementsInsertParams
	touched := map[key]bool{}
	for _, f := range facts {
		r := rows[f.key]
		switch {
		case f.changed != nil && f.version > r.changedBy:
			r.change, r.changedBy = *f.changed, f.version
			r.currency.Code = f.changed.currency
		case f.moved != nil && f.version > r.version:
			if r.currency.Code != "" && r.currency.Code != f.moved.currency.Code {
				return done, fmt.Errorf("account %s of ledger %s is in %s, and is moved in %s: %w", f.account, f.ledger, r.currency.Code, f.moved.currency.Code, errOther)
			}
			r.move(f)
			if !f.at.Before(w.oldest) {
				add(&moves, f, r.posted)
			}
		default:
			if f.moved != nil {
				done.passed = append(done.passed, f)
			}
			done.known++
			continue
		}
		done.applied++
		touched[f.key] = true
	}
	if len(touched) == 0 {
		return done, nil
	}
	set := dbsqlc.WalletsSetParams{Generation: w.generation}
	for _, k := range sorted(touched) {
		rows[k].addTo(&set)
	}
	return done, w.write(ctx, set, moves)
}

// begin makes the rows of accounts that have none.
func (w writer) begin(ctx context.Context, rows map[key]*row, facts []fact) error {
	missing := map[key]bool{}
	for _, f := range facts {
		if rows[f.key] == nil {
			missing[f.key] = true
		}
	}
	if len(missing) == 0 {
		return nil
	}
	begin := dbsqlc.WalletsBeginParams{Generation: w.generation}
	begin.Ledgers, begin.Accounts = columns(sorted(missing))
	if err := w.sql.WalletsBegin(ctx, w.tx, begin); err != nil {
		return fmt.Errorf("add accounts to the wallet view: %w", err)
	}
	more, err := w.lock(ctx, sorted(missing))
	if err == nil && len(more) != len(missing) {
		err = fmt.Errorf("%d accounts of the wallet view are not there after they were added", len(missing)-len(more))
	}
	maps.Copy(rows, more)
	return err
}

// lock locks the rows of accounts, as many as there are.
func (w writer) lock(ctx context.Context, keys []key) (map[key]*row, error) {
	args := dbsqlc.WalletsOfParams{Generation: &w.generation}
	args.Ledgers, args.Accounts = columns(keys)
	list, err := w.sql.WalletsOf(ctx, w.tx, args)
	if err != nil {
		return nil, fmt.Errorf("lock accounts of the wallet view: %w", err)
	}
	return rowsOf(list), nil
}

// keysOf are the accounts of facts, in their order.
func keysOf(facts []fact) []key {
	keys := map[key]bool{}
	for _, f := range facts {
		keys[f.key] = true
	}
	return sorted(keys)
}

func rowsOf(list []dbsqlc.WalletsOfRow) map[key]*row {
	rows := make(map[key]*row, len(list))
	for _, r := range list {
		found := &row{
			key: key{ledger.Name(r.Ledger), ledger.AccountID(r.Account)}, posted: r.Posted, held: r.Held, incoming: r.Incoming, version: r.Version,
			currency: ledger.Currency{Code: ledger.CurrencyCode(r.Currency), Scale: int32(r.Scale)}, changedBy: r.AccountVersion,
			change: change{ledger.AccountType(r.Type), ledger.CurrencyCode(r.Currency), r.Name, ledger.Frozen(r.Frozen), r.Closed},
		}
		if r.MovedAt != nil {
			found.movedAt = *r.MovedAt
		}
		rows[found.key] = found
	}
	return rows
}

// write sets accounts and inserts movements, on one trip.
func (w writer) write(ctx context.Context, p dbsqlc.WalletsSetParams, m dbsqlc.WalletMovementsInsertParams) error {
	var batch pgx.Batch
	batch.Queue(dbsqlc.WalletsSet, p.Generation, p.Ledgers, p.Accounts, p.Currencies, p.Scales, p.Posteds, p.Helds, p.Incomings, p.Versions, p.MovedAts,
		p.Types, p.Names, p.Frozens, p.Closeds, p.AccountVersions)
	if len(m.Ledgers) > 0 {
		batch.Queue(dbsqlc.WalletMovementsInsert, w.generation, m.Ledgers, m.Accounts, m.Versions, m.TransferIds, m.Kinds, m.Origins, m.Posteds, m.Helds,
			m.Incomings, m.Balances, m.PostedAts, m.BackDateds, m.EffectiveAts, m.Descriptions, m.Payers, m.Payees)
	}
	if err := w.tx.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("write to the wallet view: %w", err)
	}
	return nil
}

// move has a movement take effect.
func (r *row) move(f fact) {
	m := f.moved
	r.posted, r.held, r.incoming = r.posted.Add(m.posted), r.held.Add(m.held), r.incoming.Add(m.incoming)
	r.version, r.movedAt, r.currency = f.version, f.at, m.currency
}

func (r *row) addTo(p *dbsqlc.WalletsSetParams) {
	p.Ledgers, p.Accounts = append(p.Ledgers, string(r.ledger)), append(p.Accounts, string(r.account))
	p.Currencies, p.Versions = append(p.Currencies, string(r.currency.Code)), append(p.Versions, r.version)
	p.Scales = append(p.Scales, int16(r.currency.Scale)) //nolint:gosec // at most 18
	p.Posteds, p.Helds, p.Incomings = append(p.Posteds, r.posted), append(p.Helds, r.held), append(p.Incomings, r.incoming)
	p.MovedAts, p.AccountVersions = append(p.MovedAts, r.movedAt), append(p.AccountVersions, r.changedBy)
	p.Types, p.Names = append(p.Types, string(r.change.kind)), append(p.Names, r.change.name)
	p.Frozens, p.Closeds = append(p.Frozens, string(r.change.frozen)), append(p.Closeds, r.change.closed)
}

func add(p *dbsqlc.WalletMovementsInsertParams, f fact, balance decimal.Decimal) {
	m, effective := f.moved, f.at
	if m.effectiveAt != nil {
		effective = *m.effectiveAt
	}
	p.Ledgers, p.Accounts, p.Versions = append(p.Ledgers, string(f.ledger)), append(p.Accounts, string(f.account)), append(p.Versions, f.version)
	p.TransferIds, p.Kinds, p.Origins = append(p.TransferIds, string(m.transfer)), append(p.Kinds, string(m.kind)), append(p.Origins, string(m.origin))
	p.Posteds, p.Helds, p.Incomings = append(p.Posteds, m.posted), append(p.Helds, m.held), append(p.Incomings, m.incoming)
	p.Balances, p.PostedAts = append(p.Balances, balance), append(p.PostedAts, f.at)
	p.BackDateds, p.EffectiveAts = append(p.BackDateds, m.effectiveAt != nil), append(p.EffectiveAts, effective)
	p.Descriptions, p.Payers, p.Payees = append(p.Descriptions, m.description), append(p.Payers, string(m.payer)), append(p.Payees, string(m.payee))
}

func sorted(keys map[key]bool) []key {
	return slices.SortedFunc(maps.Keys(keys), func(a, b key) int {
		return cmp.Or(cmp.Compare(a.ledger, b.ledger), cmp.Compare(a.account, b.account))
	})
}

func columns(keys []key) (ledgers, accounts []string) {
	for _, k := range keys {
		ledgers, accounts = append(ledgers, string(k.ledger)), append(accounts, string(k.account))
	}
	return ledgers, accounts
}
