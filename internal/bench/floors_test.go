package bench

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/pgtest"
)

// The floors keep the facts of what they count, no less, and leave nothing behind.
func TestFloors(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	db := pgtest.New(t)
	d, err := openDatabase(ctx, db.OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	f, err := makeFloors(ctx, d, 50, V4)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.settle(ctx); err != nil { // The owner may not write a checkpoint; that is no error.
		t.Fatal(err)
	}
	var want int64
	l := load{warmup: 10 * time.Millisecond, duration: 50 * time.Millisecond}
	for _, batch := range []bool{false, true} {
		w, err := f.measure(ctx, l, batch, 3)
		if err != nil || len(w.failures) > 0 || w.acknowledged == 0 {
			t.Fatalf("batch %t: %d acknowledged, failures %v, %v", batch, w.acknowledged, w.failures, err)
		}
		want += w.acknowledged
	}
	query := func(sql string) (n int64) {
		t.Helper()
		if err := d.conn.QueryRow(ctx, f.in(sql)).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if got := query(`SELECT count(*) FROM {}.transfer WHERE length(transfer_id) = 36 AND posted_at IS NOT NULL`); got != want {
		t.Errorf("%d transfers, %d acknowledged", got, want)
	}
	if got := query(`SELECT count(*) FROM (SELECT sequence FROM {}.entry JOIN {}.transfer USING (sequence) GROUP BY sequence
		HAVING count(*) = 2 AND sum(amount) = 0 AND count(DISTINCT account) = 2 AND min(account) >= 0 AND max(account) < 50
			AND max(amount) BETWEEN 1.00 AND 100.99) a`); got != want {
		t.Errorf("%d transfers have their two entries, of %d", got, want)
	}
	if got := query(`SELECT count(*) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid WHERE c.relnamespace::regnamespace::text LIKE 'khata_bench_floor_%'`); got != 2 {
		t.Errorf("%d indexes", got)
	}
	if got := query(`SELECT count(*) FROM public.transfer`); got != 0 {
		t.Errorf("the service's tables have %d transfers", got)
	}
	sizes, err := d.sizes(ctx)
	if err != nil || len(sizes) < 6 {
		t.Errorf("sizes %v, %v", sizes, err)
	}
	if err := f.drop(ctx); err != nil {
		t.Error(err)
	}
	if got := query(`SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'khata_bench%'`); got != 0 {
		t.Errorf("%d schemas are left", got)
	}
}

// An id that is taken is no transfer.
func TestFloors_Duplicate(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	d, err := openDatabase(ctx, pgtest.New(t).OwnerDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	f, err := makeFloors(ctx, d, 50, V7)
	if err != nil {
		t.Fatal(err)
	}
	id := "the same"
	post := func() (o outcome) {
		tag, err := d.conn.Exec(ctx, f.one(), id, 1, 2, "5.00")
		new(floorClient).settle(&o, err, tag.RowsAffected(), 1)
		return o
	}
	if o := post(); o.transfers != 1 || len(o.failures) > 0 {
		t.Errorf("the first: %+v", o)
	}
	if o := post(); o.transfers != 0 || o.failures[unexpectedReplay] != 1 {
		t.Errorf("the second: %+v", o)
	}
	var o outcome
	_, err = d.conn.Exec(ctx, f.many(), []string{"other", id}, []int64{1, 1}, []int64{2, 2}, []string{"1.00", "1.00"})
	new(floorClient).settle(&o, err, 0, 2)
	if o.transfers != 0 || o.failures["SQLSTATE_23505"] != 1 {
		t.Errorf("in a batch: %+v", o)
	}
	var n int
	if err := d.conn.QueryRow(ctx, f.in("SELECT count(*) FROM {}.transfer")).Scan(&n); err != nil || n != 1 {
		t.Errorf("%d transfers, %v", n, err)
	}
	o = outcome{}
	new(floorClient).settle(&o, pgx.ErrTxClosed, 0, 1)
	if o.failures["CONNECTION"] != 1 {
		t.Errorf("without a connection: %+v", o)
	}
}
