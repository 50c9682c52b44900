package journal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// item is a well-formed request of a batch, and whose it is.
type item struct {
	caller string
	spec   ledger.TransferSpec
}

// try is one attempt to decide a batch, in one transaction.
type try struct {
	journal *Journal
	book    ledgerRow
	chart   *chart
	trip    pg.Trip

	accountIDs, transferIDs []string
	// accounts are those of accountIDs that exist.
	accounts map[ledger.AccountID]*charted
	books    *ledger.Books
	// xid is the number of the transaction, and madeBy of that which each record found was written by.
	xid    int64
	madeBy map[ledger.TransferID]int64
}

// tryBatch decides requests in one transaction of two round trips. On an error nothing is known to have been written, and
// the same batch can be tried again.
func (j *Journal) tryBatch(ctx context.Context, book ledgerRow, items []item, ours own) ([]PostResult, error) {
	t := try{journal: j, book: book, chart: j.chart(book.id), books: ledger.NewBooks()}
	t.accountIDs, t.transferIDs = named(items)
	results := make([]PostResult, len(items))
	claimed := map[ledger.TransferID]bool{}
	err := pg.InTrips(ctx, j.pool, func(trip pg.Trip) (*pgx.Batch, error) {
		t.trip = trip
		if err := t.lockAndLoad(); err != nil {
			return nil, err
		}
		for i, item := range items {
			r := &results[i]
			r.Transfer, r.Replayed, r.Err = t.books.Decide(item.spec, item.caller)
			if r.Replayed && ours[t.madeBy[item.spec.ID]] && !claimed[item.spec.ID] {
				// The second of two equal requests is a replay all the same.
				r.Replayed, claimed[item.spec.ID] = false, true
			}
		}
		last := &pgx.Batch{}
		if decided := t.books.Decided(); len(decided) > 0 {
			t.insert(last, decided)
		} else {
			last.Queue(dbsqlc.WaitForStandby)
		}
		ours[t.xid] = true
		return last, nil
	})
	// Without an error the transaction has been committed: what is in the results is durable.
	return results, err
}

// named lists the accounts and ids that requests name, each once.
func named(items []item) (accountIDs, transferIDs []string) {
	accounts, transfers := make(map[string]bool, 2*len(items)), make(map[string]bool, len(items))
	for _, item := range items {
		transfers[string(item.spec.ID)] = true
		for _, e := range item.spec.Entries {
			accounts[string(e.Account)] = true
		}
	}
	return slices.Sorted(maps.Keys(accounts)), slices.Sorted(maps.Keys(transfers))
}

// mostChanges is up to how many changes of accounts it pays to drop them from the chart one by one.
const mostChanges = 1000

// loaded is what one trip reads.
type loaded struct {
	gate    []dbsqlc.GateShareForPostingRow
	locked  []int64
	changes []dbsqlc.AccountsChangedSinceRow
	read    []dbsqlc.AccountsForPostingRow
	tails   []dbsqlc.EntriesSinceRow
	records []dbsqlc.TransfersByIDRow
}

// lockAndLoad takes the gate, locks the serialised accounts, and then reads what deciding needs and the chart does not have.
// With the locks held it stays true until the commit; only ids can still be taken by others, which the INSERT finds out.
//
// It may find that it has to look again, at all accounts: where one has changed since the chart was drawn, or has come into
// being, with a floor, between the statement that locks and the one that reads, and was read without its lock. What is
// locked by then stays locked, so this may be out of order, and the deadlock that it may cause is retried.
func (t *try) lockAndLoad() error {
	v := t.chart.look(t.accountIDs)
	l, err := t.load(v, true)
	if err != nil {
		return err
	}
	started := l.gate[0].Started
	t.xid = l.gate[0].Xid
	for {
		through := v.through
		if len(l.changes) > 0 {
			through = l.changes[0].Sequence
		}
		if t.noteChanges(v, l, started, through) && t.lockedAll(l) {
			t.enter(v, l, started, through)
			return t.enterRecords(l.records)
		}
		v = view{started: started, through: through, unknown: t.accountIDs}
		if l, err = t.load(v, false); err != nil {
			return err
		}
	}
}

// load makes one trip. The gate comes first of all and in a statement of its own: what it protects must be read by later
// ones. So must what the locks protect.
func (t *try) load(v view, first bool) (*loaded, error) {
	var l loaded
	b := &pgx.Batch{}
	if first {
		pg.Ask(b, &l.gate, dbsqlc.GateShareForPosting, t.book.id)
	}
	toLock := v.unknown
	var nos, throughs []int64
	for _, id := range t.accountIDs {
		if a, ok := v.known[ledger.AccountID(id)]; ok && a.Serialised {
			toLock = append(toLock, id)
			if a.Floor != nil {
				nos, throughs = append(nos, a.no), append(throughs, a.through)
			}
		}
	}
	if len(toLock) > 0 {
		b.Queue(dbsqlc.AccountsLockSerialised, toLock, t.book.id).Query(func(rows pgx.Rows) (err error) {
			l.locked, err = pgx.CollectRows(rows, pgx.RowTo[int64])
			return err
		})
	}
	pg.Ask(b, &l.changes, dbsqlc.AccountsChangedSince, t.book.id, v.through, mostChanges)
	if len(v.unknown) > 0 {
		pg.Ask(b, &l.read, dbsqlc.AccountsForPosting, v.unknown, t.book.id)
	}
	if len(nos) > 0 {
		pg.Ask(b, &l.tails, dbsqlc.EntriesSince, nos, throughs, t.book.id)
	}
	pg.Ask(b, &l.records, dbsqlc.TransfersByID, t.transferIDs, t.book.id)
	if err := t.trip(b); err != nil {
		return nil, fmt.Errorf("lock and read: %w", err)
	}
	return &l, nil
}

// noteChanges tells the chart what has changed, and reports whether what was known of the batch's accounts holds.
func (t *try) noteChanges(v view, l *loaded, started time.Time, through int64) (holds bool) {
	if !started.Equal(v.started) || len(l.changes) == mostChanges {
		t.chart.reset(started, through)
		return len(v.known) == 0
	}
	holds = true
	changed := make([]ledger.AccountID, len(l.changes))
	for i, c := range l.changes {
		changed[i] = ledger.AccountID(c.AccountID)
		if _, ok := v.known[changed[i]]; ok {
			holds = false
		}
	}
	if len(changed) > 0 {
		t.chart.forget(started, v.through, through, changed)
	}
	return holds
}

// lockedAll reports whether every serialised account that was read is locked.
func (t *try) lockedAll(l *loaded) bool {
	locked := make(map[int64]bool, len(l.locked))
	for _, no := range l.locked {
		locked[no] = true
	}
	for _, row := range l.read {
		if row.Serialised && !locked[row.AccountNo] {
			return false
		}
	}
	return true
}

// enter puts the accounts into the books, and what was learnt of them into the chart.
func (t *try) enter(v view, l *loaded, started time.Time, through int64) {
	t.accounts = v.known
	if t.accounts == nil {
		t.accounts = make(map[ledger.AccountID]*charted, len(l.read))
	}
	learnt := make(map[ledger.AccountID]*charted, len(l.read)+len(l.tails))
	for _, row := range l.read {
		a := &charted{no: row.AccountNo, sum: row.Sum, through: row.Through, Account: ledger.Account{
			ID: ledger.AccountID(row.AccountID), Type: ledger.AccountType(row.Type),
			Currency: ledger.Currency{Code: ledger.CurrencyCode(row.Currency), Scale: int32(row.Scale)},
			Floor:    row.Floor, Serialised: row.Serialised, Frozen: ledger.Frozen(row.Frozen), Closed: row.Closed,
			Version: row.Version,
		}}
		t.accounts[a.ID], learnt[a.ID] = a, a
	}
	if len(l.tails) > 0 {
		tails := make(map[int64]dbsqlc.EntriesSinceRow, len(l.tails))
		for _, tail := range l.tails {
			tails[tail.AccountNo] = tail
		}
		for id, a := range t.accounts {
			if tail, ok := tails[a.no]; ok {
				newer := *a
				newer.sum, newer.through = a.sum.Add(tail.Sum), tail.Through
				t.accounts[id], learnt[id] = &newer, &newer
			}
		}
	}
	for _, a := range t.accounts {
		t.books.AddAccount(a.Account, a.Type.Signed(ledger.Debit, a.sum))
	}
	if len(learnt) > 0 {
		t.chart.learn(started, through, learnt)
	}
}

// enterRecords puts the records of ids that are taken into the books.
func (t *try) enterRecords(rows []dbsqlc.TransfersByIDRow) error {
	if len(rows) == 0 {
		return nil
	}
	names := make(accountNames, len(t.accounts))
	for id, a := range t.accounts {
		names[a.no] = accountName{id, a.Currency}
	}
	if missing := names.missing(rows); len(missing) > 0 {
		var accounts []dbsqlc.AccountIDsRow
		b := &pgx.Batch{}
		pg.Ask(b, &accounts, dbsqlc.AccountIDs, missing, t.book.id)
		if err := t.trip(b); err != nil {
			return fmt.Errorf("read the accounts of records: %w", err)
		}
		names.add(accounts)
	}
	t.madeBy = make(map[ledger.TransferID]int64, len(rows))
	for _, row := range rows {
		record := names.transfer(row)
		t.books.AddTransfer(record)
		t.madeBy[record.ID] = row.Xid
	}
	return nil
}

// insert queues the statement that writes new records, and gives each its sequence and time.
func (t *try) insert(b *pgx.Batch, records []*ledger.Transfer) {
	n := len(records)
	ids, effectiveAts, refusals, refusedNos := make([]string, n), make([]string, n), make([]string, n), make([]int64, n)
	accountNos, amounts := make([]string, n), make([]string, n)
	descriptions, metadatas, callers := make([]string, n), make([]string, n), make([]string, n)
	byID := make(map[string]*ledger.Transfer, n)
	for i, r := range records {
		byID[string(r.ID)] = r
		ids[i], effectiveAts[i] = string(r.ID), timestamp(r.EffectiveAt)
		if r.Refusal != nil {
			refusals[i], refusedNos[i] = string(r.Refusal.Reason), t.accounts[r.Refusal.Account].no
		}
		accountNos[i], amounts[i] = t.arrays(r.Entries)
		descriptions[i], metadatas[i], callers[i] = r.Description, string(r.Metadata), r.Caller
	}
	b.Queue(dbsqlc.TransferInsert, t.book.id, ids, effectiveAts, refusals, refusedNos, accountNos, amounts, descriptions,
		metadatas, callers).Query(func(rows pgx.Rows) error {
		var row dbsqlc.TransferInsertRow
		_, err := pgx.ForEachRow(rows, []any{&row.TransferID, &row.Sequence, &row.PostedAt}, func() error {
			record := byID[row.TransferID]
			record.Sequence, record.PostedAt = row.Sequence, row.PostedAt.UTC()
			return nil
		})
		return err
	})
}

// arrays writes entries as array literals of PostgreSQL's: arrays of arrays would all have to have the same length.
// A debit is positive, a credit negative.
func (t *try) arrays(entries []ledger.Entry) (accountNos, amounts string) {
	var nos, sums strings.Builder
	for i, e := range entries {
		separator := byte(',')
		if i == 0 {
			separator = '{'
		}
		nos.WriteByte(separator)
		sums.WriteByte(separator)
		nos.WriteString(strconv.FormatInt(t.accounts[e.Account].no, 10))
		if e.Direction == ledger.Credit {
			sums.WriteByte('-')
		}
		sums.WriteString(e.Amount.String())
	}
	nos.WriteByte('}')
	sums.WriteByte('}')
	return nos.String(), sums.String()
}

func timestamp(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.999999Z")
}

// own are the transactions of a batch whose commits may have been lost. If one turns out to have happened, its records are
// those of these requests, and were not there before them.
type own map[int64]bool
