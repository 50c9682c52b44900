package journal

import (
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// column is an array of the INSERT's, one value a record. It is NULL, which costs nothing, where no record has any.
type column[T comparable] struct {
	values []T
	given  bool
}

func newColumn[T comparable](n int) column[T] { return column[T]{values: make([]T, n)} }

func (c *column[T]) set(i int, value T) {
	var zero T
	if value != zero {
		c.values[i], c.given = value, true
	}
}

func (c *column[T]) array() []T {
	if !c.given {
		return nil
	}
	return c.values
}

// insert queues the statement that writes new records, and gives each its sequence and time.
func (t *try) insert(b *pgx.Batch, records []*ledger.Transfer) {
	n := len(records)
	ids := make([]string, n)
	debitNos, creditNos, pairAmounts := newColumn[int64](n), newColumn[int64](n), newColumn[string](n)
	accountNos, amounts := newColumn[string](n), newColumn[string](n)
	effectiveAts, refusals, refusedNos := newColumn[string](n), newColumn[string](n), newColumn[int64](n)
	descriptions, metadatas, callers := newColumn[string](n), newColumn[string](n), newColumn[string](n)
	var of terms
	byID := make(map[string]*ledger.Transfer, n)
	for i, r := range records {
		byID[string(r.ID)] = r
		ids[i] = string(r.ID)
		if debit, credit, amount, ok := r.Pair(); ok {
			debitNos.set(i, t.view.accounts[debit].no)
			creditNos.set(i, t.view.accounts[credit].no)
			pairAmounts.set(i, amount.String())
		} else {
			nos, sums := t.arrays(r.Entries)
			accountNos.set(i, nos)
			amounts.set(i, sums)
		}
		effectiveAts.set(i, timestamp(r.EffectiveAt))
		if r.Refusal != nil {
			refusals.set(i, string(r.Refusal.Reason))
			if r.Refusal.Account != "" {
				refusedNos.set(i, t.view.accounts[r.Refusal.Account].no)
			}
		}
		descriptions.set(i, r.Description)
		metadatas.set(i, string(r.Metadata))
		if r.Caller != records[0].Caller {
			callers.set(i, r.Caller)
		}
		if r.Terms != nil || r.Atomic {
			of.set(n, i, r)
		}
	}
	b.Queue(dbsqlc.TransferInsert, t.book.id, records[0].Caller, ids, effectiveAts.array(), refusals.array(), refusedNos.array(),
		debitNos.array(), creditNos.array(), pairAmounts.array(), accountNos.array(), amounts.array(), descriptions.array(),
		metadatas.array(), callers.array(), of.kinds.array(), of.origins.array(), of.ordinals.array(), of.ends.array(),
		of.reserveds.array(), of.expiresAts.array(), of.expiresAfters.array(), of.stored.array(), of.atomics.array()).Query(func(rows pgx.Rows) error {
		var id string
		var sequence int64
		var postedAt time.Time
		_, err := pgx.ForEachRow(rows, []any{&id, &sequence, &postedAt}, func() error {
			record := byID[id]
			record.Sequence, record.PostedAt = sequence, postedAt.UTC()
			if record.Step != nil && record.Terms.ExpiresAfter > 0 { // As the statement computes it.
				deadline := record.PostedAt.Add(record.Terms.ExpiresAfter)
				record.Step.Deadline = &deadline
			}
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
		nos.WriteString(strconv.FormatInt(t.view.accounts[e.Account].no, 10))
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

// terms are the columns that most transfers have nothing in.
type terms struct {
	made                      bool
	kinds, origins, reserveds column[string]
	ordinals                  column[int32]
	ends, atomics             column[bool]
	expiresAts, stored        column[string]
	expiresAfters             column[int64]
}

func (c *terms) set(n, i int, r *ledger.Transfer) {
	if !c.made {
		*c = terms{
			true, newColumn[string](n), newColumn[string](n), newColumn[string](n), newColumn[int32](n), newColumn[bool](n),
			newColumn[bool](n), newColumn[string](n), newColumn[string](n), newColumn[int64](n),
		}
	}
	c.atomics.set(i, r.Atomic)
	c.stored.set(i, r.StoredTerms())
	if kind := r.Kind(); kind != ledger.Plain {
		c.kinds.set(i, string(kind))
		c.origins.set(i, string(r.Origin()))
	}
	if r.Step == nil {
		return
	}
	c.ordinals.set(i, int32(r.Step.Ordinal)) //nolint:gosec // It counts rows.
	c.ends.set(i, r.Step.Ends)
	if !r.Step.Reserved.IsZero() {
		c.reserveds.set(i, r.Step.Reserved.String())
	}
	c.expiresAts.set(i, timestamp(r.Terms.ExpiresAt))
	c.expiresAfters.set(i, r.Terms.ExpiresAfter.Microseconds())
}
