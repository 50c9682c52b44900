package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The floors are what plain pgx reaches in the same database server, in the same minutes: the least that anybody has to do
// who keeps the facts of a transfer. Every id is there once, under a primary key, with its place in the order and its time; of
// each entry the account, the amount and that place, under one index. No trigger, no check, no foreign key.

// floorBatch is how many transfers F2 puts into one transaction.
const floorBatch = 1000

// floorSchema begins the names of the floors' schemas: each run has its own.
const floorSchema = "khata_bench_floor_"

// floors are the tables of the floors, in a schema of their own.
type floors struct {
	dsn, schema string
	accounts    int
	ids         IDVersion
}

// makeFloors makes the tables. They have to be dropped.
func makeFloors(ctx context.Context, d *database, accounts int, version IDVersion) (*floors, error) {
	f := &floors{
		dsn: d.dsn, schema: fmt.Sprintf("%s%08x", floorSchema, newRandom().Uint32()), accounts: accounts, ids: version,
	}
	if _, err := d.conn.Exec(ctx, f.in(`
		CREATE SCHEMA {};
		CREATE SEQUENCE {}.floor_sequence;
		CREATE TABLE {}.transfer (
			transfer_id text        COLLATE "C" PRIMARY KEY,
			sequence    bigint      NOT NULL,
			posted_at   timestamptz NOT NULL
		);
		CREATE TABLE {}.entry (
			account  bigint  NOT NULL,
			sequence bigint  NOT NULL,
			amount   numeric NOT NULL
		);
		CREATE INDEX ON {}.entry (account, sequence);`)); err != nil {
		return nil, fmt.Errorf("make the tables of the floors: %w", err)
	}
	return f, nil
}

// in puts the schema's name into a statement.
func (f *floors) in(sql string) string {
	return strings.ReplaceAll(sql, "{}", pgx.Identifier{f.schema}.Sanitize())
}

// drop removes the tables, also after the run was interrupted. It uses a connection of its own: the run's may be closed.
func (f *floors) drop(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	conn, err := connect(ctx, f.dsn)
	if err != nil {
		return fmt.Errorf("drop the tables of the floors: %w", err)
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if _, err := conn.Exec(ctx, f.in("DROP SCHEMA {} CASCADE")); err != nil {
		return fmt.Errorf("drop the tables of the floors: %w", err)
	}
	return nil
}

// one is F1: a transaction for each transfer, which is one prepared statement and so one round trip. An INSERT for each
// table, sent together, takes as much of the server.
func (f *floors) one() string {
	return f.in(`WITH posted AS (
			INSERT INTO {}.transfer (transfer_id, sequence, posted_at) VALUES ($1, nextval('{}.floor_sequence'), now())
			ON CONFLICT DO NOTHING RETURNING sequence)
		INSERT INTO {}.entry (account, sequence, amount)
		SELECT e.account, posted.sequence, e.amount
		  FROM posted, (VALUES ($2::bigint, $4::numeric), ($3::bigint, -$4::numeric)) AS e (account, amount)`)
}

// many is F2: a transaction for each thousand transfers, which is one statement over arrays. Entries take their numbers
// from where they were drawn, so that nothing has to be joined. A statement for each table, sent together, with numbers that
// the client gives, is no faster.
func (f *floors) many() string {
	return f.in(`WITH drawn AS MATERIALIZED (
			SELECT nextval('{}.floor_sequence') AS sequence, n.*
			  FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::numeric[]) AS n (transfer_id, debit, credit, amount)),
		posted AS (
			INSERT INTO {}.transfer (transfer_id, sequence, posted_at) SELECT transfer_id, sequence, now() FROM drawn)
		INSERT INTO {}.entry (account, sequence, amount)
		SELECT e.account, drawn.sequence, e.amount
		  FROM drawn CROSS JOIN LATERAL (VALUES (debit, amount), (credit, -amount)) AS e (account, amount)`)
}

// floorClient posts on a connection of its own.
type floorClient struct {
	conn   *pgx.Conn
	ids    *ids
	random *rand.Rand
	pairs  int

	// Of a batch.
	names           []string
	debits, credits []int64
	amounts         []string
}

func (f *floors) client(ctx context.Context, sql string) (*floorClient, error) {
	conn, err := connect(ctx, f.dsn)
	if err != nil {
		return nil, err
	}
	generator, err := newIDs(f.ids)
	if err == nil {
		_, err = conn.Prepare(ctx, "floor", sql)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	return &floorClient{conn: conn, ids: generator, random: newRandom(), pairs: f.accounts}, nil
}

// pair gives the numbers of two accounts, which are not the same.
func (c *floorClient) pair() (debit, credit int64) {
	d, k := distinct(c.random, c.pairs)
	return int64(d), int64(k)
}

func (c *floorClient) postOne(ctx context.Context) (o outcome) {
	ctx, cancel := patient(ctx)
	defer cancel()
	debit, credit := c.pair()
	tag, err := c.conn.Exec(ctx, "floor", c.ids.next(), debit, credit, randomAmount(c.random))
	c.settle(&o, err, tag.RowsAffected(), 1)
	return o
}

func (c *floorClient) postMany(ctx context.Context) (o outcome) {
	ctx, cancel := patient(ctx)
	defer cancel()
	c.names, c.debits, c.credits, c.amounts = c.names[:0], c.debits[:0], c.credits[:0], c.amounts[:0]
	for range floorBatch {
		debit, credit := c.pair()
		c.names = append(c.names, c.ids.next())
		c.debits, c.credits, c.amounts = append(c.debits, debit), append(c.credits, credit), append(c.amounts, randomAmount(c.random))
	}
	tag, err := c.conn.Exec(ctx, "floor", c.names, c.debits, c.credits, c.amounts)
	c.settle(&o, err, tag.RowsAffected(), floorBatch)
	return o
}

// fill posts until the tables have about as many transfers as the journal. An index of a million entries costs more to insert
// into than an empty one, and would be held against it otherwise. It returns how many it posted.
func (f *floors) fill(ctx context.Context, journal int64) (posted int64, err error) {
	c, err := f.client(ctx, f.many())
	if err != nil {
		return 0, fmt.Errorf("fill the floors: %w", err)
	}
	defer func() { _ = c.conn.Close(context.WithoutCancel(ctx)) }()
	var have int64
	if err := c.conn.QueryRow(ctx, f.in("SELECT last_value FROM {}.floor_sequence")).Scan(&have); err != nil {
		return 0, fmt.Errorf("fill the floors: %w", err)
	}
	for ; have+posted < journal && ctx.Err() == nil; posted += floorBatch {
		if o := c.postMany(ctx); len(o.failures) > 0 {
			return posted, fmt.Errorf("fill the floors: %v", o.failures)
		}
	}
	return posted, nil
}

// settle enters what a statement did, which is to have written two entries for each transfer.
func (c *floorClient) settle(o *outcome, err error, entries int64, transfers int) {
	var refused *pgconn.PgError
	switch {
	case errors.As(err, &refused):
		o.fail("SQLSTATE_" + refused.Code)
	case err != nil:
		o.fail("CONNECTION")
	case entries != int64(2*transfers):
		o.fail(unexpectedReplay)
	default:
		o.transfers = transfers
	}
}

// measure measures F1 (batch false) or F2 on so many connections.
func (f *floors) measure(ctx context.Context, l load, batch bool, connections int) (_ window, err error) {
	sql := f.one()
	if batch {
		sql = f.many()
	}
	var clients []step
	for range connections {
		c, err := f.client(ctx, sql)
		if err != nil {
			return window{}, fmt.Errorf("floors: %w", err)
		}
		defer func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Second)
			defer cancel()
			_ = c.conn.Close(ctx)
		}()
		if batch {
			clients = append(clients, c.postMany)
		} else {
			clients = append(clients, c.postOne)
		}
	}
	return l.run(ctx, clients), nil
}
