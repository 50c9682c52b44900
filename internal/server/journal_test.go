package server_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// record is a transfer as psql sees it.
type record struct {
	answer
	spec ledger.TransferSpec
}

// change is a state of an account, as psql sees it, from its sequence on.
type change struct {
	sequence int64
	account  ledger.Account
}

// books is everything that the database holds of the default ledger, read around the service.
type books struct {
	records map[ledger.TransferID]record
	inOrder []record // by sequence
	changes []change // by sequence
	sums    map[ledger.AccountID]decimal.Decimal
}

func readBooks(t testing.TB, dsn string) *books {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	conn, err := pgx.Connect(ctx, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	// All as of one point in time, whatever is still going on.
	if _, err := conn.Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"); err != nil {
		t.Fatal(err)
	}
	b := &books{records: map[ledger.TransferID]record{}, sums: map[ledger.AccountID]decimal.Decimal{}}
	query(ctx, t, conn, transfersSQL, func(rows pgx.Rows) error { return b.readTransfer(t, rows) })
	query(ctx, t, conn, changesSQL, b.readChange)
	b.checkEntries(ctx, t, conn)
	return b
}

func query(ctx context.Context, t testing.TB, conn *pgx.Conn, sql string, read func(pgx.Rows) error) {
	t.Helper()
	rows, err := conn.Query(ctx, sql, string(ledger.DefaultLedger))
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := read(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
}

const transfersSQL = `
SELECT t.transfer_id, t.sequence, t.posted_at, t.effective_at, coalesce(t.refusal, ''), coalesce(r.account_id, ''),
       coalesce(t.description, ''), coalesce(t.metadata::text, ''), e.accounts, e.amounts
  FROM transfer t
       JOIN ledger l ON l.ledger_id = t.ledger_id
       LEFT JOIN account r ON r.ledger_id = t.ledger_id AND r.account_no = t.refused_account_no
       CROSS JOIN LATERAL (
           SELECT array_agg(a.account_id ORDER BY u.leg) AS accounts, array_agg(u.amount::text ORDER BY u.leg) AS amounts
             FROM unnest(t.account_nos, t.amounts) WITH ORDINALITY AS u (account_no, amount, leg)
                  LEFT JOIN account a ON a.ledger_id = t.ledger_id AND a.account_no = u.account_no) e
 WHERE l.name = $1
 ORDER BY t.sequence`

func (b *books) readTransfer(t testing.TB, rows pgx.Rows) error {
	var r record
	var accounts, amounts []string
	var metadata string
	if err := rows.Scan(&r.spec.ID, &r.Sequence, &r.PostedAt, &r.spec.EffectiveAt, &r.Reason, &r.Account,
		&r.spec.Description, &metadata, &accounts, &amounts); err != nil {
		return err
	}
	r.spec.Metadata = ledger.Metadata(metadata)
	for i, text := range amounts {
		signed, err := decimal.NewFromString(text)
		if err != nil {
			return err
		}
		e := ledger.Entry{Account: ledger.AccountID(accounts[i]), Direction: ledger.Debit, Amount: signed.Abs()}
		if signed.IsNegative() {
			e.Direction = ledger.Credit
		}
		r.spec.Entries = append(r.spec.Entries, e)
	}
	if _, twice := b.records[r.spec.ID]; twice {
		t.Errorf("transfer %s is there twice", r.spec.ID)
	}
	b.records[r.spec.ID] = r
	b.inOrder = append(b.inOrder, r)
	return nil
}

const changesSQL = `
SELECT c.sequence, a.account_id, a.type, c.floor::text, c.frozen, c.closed
  FROM account_change c
       JOIN ledger l ON l.ledger_id = c.ledger_id
       JOIN account a ON a.ledger_id = c.ledger_id AND a.account_no = c.account_no
 WHERE l.name = $1
 ORDER BY c.sequence`

func (b *books) readChange(rows pgx.Rows) error {
	var c change
	var floor *string
	if err := rows.Scan(&c.sequence, &c.account.ID, &c.account.Type, &floor, &c.account.Frozen, &c.account.Closed); err != nil {
		return err
	}
	if floor != nil {
		f, err := decimal.NewFromString(*floor)
		if err != nil {
			return err
		}
		c.account.Floor = &f
	}
	b.changes = append(b.changes, c)
	return nil
}

const entriesSQL = `
SELECT e.sequence, a.account_id, e.amount::text
  FROM entry e
       JOIN ledger l ON l.ledger_id = e.ledger_id
       JOIN account a ON a.ledger_id = e.ledger_id AND a.account_no = e.account_no
 WHERE l.name = $1
 ORDER BY e.sequence, e.leg`

// checkEntries compares the entries with the transfers, leg by leg, and sums them by account.
func (b *books) checkEntries(ctx context.Context, t testing.TB, conn *pgx.Conn) {
	t.Helper()
	type leg struct {
		sequence int64
		account  ledger.AccountID
		amount   string
	}
	var want, got []leg
	for _, r := range b.inOrder {
		for _, e := range r.spec.Entries {
			if r.Reason == "" {
				want = append(want, leg{r.Sequence, e.Account, signed(e).StringFixed(2)})
			}
		}
	}
	query(ctx, t, conn, entriesSQL, func(rows pgx.Rows) error {
		var l leg
		if err := rows.Scan(&l.sequence, &l.account, &l.amount); err != nil {
			return err
		}
		value, err := decimal.NewFromString(l.amount)
		l.amount = value.StringFixed(2)
		b.sums[l.account] = b.sums[l.account].Add(value)
		got = append(got, l)
		return err
	})
	if len(got) != len(want) {
		t.Errorf("the journal has %d entries, its posted transfers have %d", len(got), len(want))
		return
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("entry %d is %+v, want %+v", i, got[i], want[i])
			return
		}
	}
}

// signed is an entry's amount as the database has it: debits positive.
func signed(e ledger.Entry) decimal.Decimal {
	if e.Direction == ledger.Credit {
		return e.Amount.Neg()
	}
	return e.Amount
}
