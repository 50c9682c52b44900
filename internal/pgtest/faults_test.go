package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// ways are those in which Go code commits, each inserting one row.
var ways = []struct {
	name   string
	insert func(ctx context.Context, conn *pgx.Conn) error
}{
	{"transaction", func(ctx context.Context, conn *pgx.Conn) error {
		return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, "INSERT INTO fact VALUES ($1)", "a COMMIT; commit in a value is none")
			return err
		})
	}},
	{"one query", func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "begin; insert into fact values ('x'); CoMmIt")
		return err
	}},
	{"pipeline", func(ctx context.Context, conn *pgx.Conn) error {
		p := conn.PgConn().StartPipeline(ctx)
		p.SendQueryParams("begin", nil, nil, nil, nil)
		p.SendQueryParams("insert into fact values ($1)", [][]byte{[]byte("x")}, nil, nil, nil)
		p.SendQueryParams("commit", nil, nil, nil, nil)
		return errors.Join(p.Sync(), drain(p), p.Close())
	}},
	{"pipeline with earlier syncs", func(ctx context.Context, conn *pgx.Conn) error {
		p := conn.PgConn().StartPipeline(ctx)
		p.SendQueryParams("begin", nil, nil, nil, nil)
		p.SendPipelineSync()
		p.SendQueryParams("insert into fact values ('x')", nil, nil, nil, nil)
		p.SendPipelineSync()
		p.SendQueryParams("commit", nil, nil, nil, nil)
		return errors.Join(p.Sync(), drain(p), p.Close())
	}},
	{"prepared batch", func(ctx context.Context, conn *pgx.Conn) error {
		var b pgx.Batch
		b.Queue("begin")
		b.Queue("insert into fact values ($1)", "x")
		b.Queue("commit")
		return conn.SendBatch(ctx, &b).Close()
	}},
}

func drain(p *pgconn.Pipeline) error {
	for {
		results, err := p.GetResults()
		if err != nil {
			return err
		}
		switch r := results.(type) {
		case nil:
			return nil
		case *pgconn.ResultReader:
			if _, err := r.Close(); err != nil {
				return err
			}
		}
	}
}

func TestFaults_CutCommit(t *testing.T) {
	t.Parallel()
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			t.Parallel()
			db, f := New(t), NewFaults(t)
			direct := connect(t, db.OwnerDSN(), nil)
			mustExec(t, direct, "CREATE TABLE fact (v text)")
			// The answer to a COMMIT that takes its time must not be cut off early.
			mustExec(t, direct, `CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS
				$$ BEGIN PERFORM pg_sleep(0.05); RETURN NULL; END $$`)
			mustExec(t, direct, `CREATE CONSTRAINT TRIGGER wait AFTER INSERT ON fact
				DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION wait()`)
			rows := 0
			try := func(what string, fails bool, more int) {
				t.Helper()
				conn := connect(t, db.OwnerDSN(), f)
				err := way.insert(t.Context(), conn)
				if (err != nil) != fails {
					t.Errorf("%s: %v", what, err)
				}
				if fails && !conn.IsClosed() {
					t.Errorf("%s: the connection lives", what)
				}
				if _, ok := errors.AsType[*pgconn.PgError](err); ok {
					t.Errorf("%s: the server's own error: %v", what, err)
				}
				rows += more
				// The lock waits for a backend that is still at work.
				mustExec(t, direct, "BEGIN; LOCK TABLE fact IN EXCLUSIVE MODE; COMMIT")
				if got := text(t, direct, "SELECT count(*)::text FROM fact"); got != fmt.Sprint(rows) {
					t.Errorf("%s: %s rows, want %d", what, got, rows)
				}
			}
			try("untouched", false, 1)
			f.CutBeforeCommit(1)
			f.CutAfterCommit(2)
			try("before", true, 0)
			try("after", true, 1)
			try("after again", true, 1)
			try("over", false, 1)
			if f.Commits() != 5 || f.Cuts() != 3 {
				t.Errorf("%d commits, %d cuts", f.Commits(), f.Cuts())
			}
		})
	}
}

// TestFaults_CutAfterRefusal checks that a COMMIT that the server refuses is cut
// all the same: the client must not be able to tell.
func TestFaults_CutAfterRefusal(t *testing.T) {
	t.Parallel()
	db, f := New(t), NewFaults(t)
	direct := connect(t, db.OwnerDSN(), nil)
	mustExec(t, direct, "CREATE TABLE fact (v text UNIQUE DEFERRABLE INITIALLY DEFERRED)")
	for _, way := range ways {
		mustExec(t, direct, "TRUNCATE fact; INSERT INTO fact VALUES ('x'), ('a COMMIT; commit in a value is none')")
		f.CutAfterCommit(1)
		conn := connect(t, db.OwnerDSN(), f)
		err := way.insert(t.Context(), conn)
		if _, ok := errors.AsType[*pgconn.PgError](err); ok || err == nil || !conn.IsClosed() {
			t.Errorf("%s: %v", way.name, err)
		}
	}
}

func TestFaults_Freeze(t *testing.T) {
	t.Parallel()
	db, f := New(t), NewFaults(t)
	direct := connect(t, db.OwnerDSN(), nil)
	mustExec(t, direct, "CREATE TABLE fact (v text)")
	conn := connectNoCancel(t, db.OwnerDSN(), f)
	mustExec(t, conn, "BEGIN; LOCK TABLE fact")

	thaw := f.Freeze()
	// A client that gives up and hangs up does not free its lock.
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Exec(ctx, "INSERT INTO fact VALUES ('late'); COMMIT"); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("statement while frozen: %v", err)
	}
	conn.Close(ctx)
	_, err := direct.Exec(t.Context(), "BEGIN; LOCK TABLE fact NOWAIT")
	if e, ok := errors.AsType[*pgconn.PgError](err); !ok || e.Code != "55P03" {
		t.Errorf("the lock of a frozen client: %v", err)
	}
	mustExec(t, direct, "ROLLBACK")
	// A new connection hangs.
	if _, err := dialFor(50*time.Millisecond, db.OwnerDSN(), f); err == nil {
		t.Error("connected while frozen")
	}
	thaw()
	thaw()
	// What had been sent arrives: the server commits what the client gave up.
	mustExec(t, direct, "BEGIN; LOCK TABLE fact; COMMIT")
	if got := text(t, direct, "SELECT string_agg(v, ',') FROM fact"); got != "late" {
		t.Errorf("fact = %s", got)
	}
	connect(t, db.OwnerDSN(), f)
}

// TestFaults_HoldCommits holds commits of each way, and lets them go; those that are cut meanwhile never come.
func TestFaults_HoldCommits(t *testing.T) {
	t.Parallel()
	db, f := New(t), NewFaults(t)
	direct := connect(t, db.OwnerDSN(), nil)
	mustExec(t, direct, "CREATE TABLE fact (v text)")
	release := f.HoldCommits()
	insertAll := func() chan error {
		before := f.Commits()
		done := make(chan error, len(ways))
		for _, way := range ways {
			conn := connect(t, db.OwnerDSN(), f)
			go func() { done <- way.insert(context.Background(), conn) }()
		}
		for deadline := time.Now().Add(opWait); f.Commits() != before+len(ways); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d commits have come", f.Commits()-before)
			}
		}
		return done
	}
	rows := func(want int) {
		t.Helper()
		// The lock waits for a backend that is still at work.
		mustExec(t, direct, "BEGIN; LOCK TABLE fact IN EXCLUSIVE MODE; COMMIT")
		if got := text(t, direct, "SELECT count(*)::text FROM fact"); got != fmt.Sprint(want) {
			t.Errorf("%s rows, want %d", got, want)
		}
	}
	lost := insertAll()
	f.CutAll()
	for range ways {
		if err := <-lost; err == nil {
			t.Error("a commit that was held and cut succeeded")
		}
	}
	rows(0)
	done := insertAll()
	if got := text(t, direct, "SELECT count(*)::text FROM fact"); got != "0" {
		t.Errorf("%s rows while commits are held", got)
	}
	select {
	case err := <-done:
		t.Fatalf("answered while commits are held: %v", err)
	default:
	}
	if got := text(t, connect(t, db.OwnerDSN(), f), "SELECT 'through'"); got != "through" {
		t.Error(got)
	}
	release()
	for range ways {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	rows(len(ways))
	mustExec(t, connect(t, db.OwnerDSN(), f), "BEGIN; INSERT INTO fact VALUES ('x'); COMMIT")
	rows(len(ways) + 1)
}

// connectNoCancel keeps pgx from sending a cancel request when it gives up, which
// would race with the statement after the thaw.
func connectNoCancel(t *testing.T, dsn string, f *Faults) *pgx.Conn {
	t.Helper()
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		t.Fatal(err)
	}
	dial, dialled := f.DialFunc(nil), false
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if dialled {
			return nil, errors.New("no cancel requests")
		}
		dialled = true
		return dial(ctx, network, addr)
	}
	conn, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

func dialFor(d time.Duration, dsn string, f *Faults) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(dsn)
	if err != nil {
		return nil, err
	}
	cfg.DialFunc = f.DialFunc(nil)
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return pgx.ConnectConfig(ctx, cfg)
}

func TestFaults_DelayAndCutAll(t *testing.T) {
	t.Parallel()
	f := NewFaults(t)
	db := New(t).Through(t, f)
	conn := connect(t, db.ServiceDSN(), nil)
	f.Delay(30 * time.Millisecond)
	began := time.Now()
	mustExec(t, conn, "SELECT 1")
	if d := time.Since(began); d < 30*time.Millisecond {
		t.Errorf("answered after %v", d)
	}
	f.Delay(0)
	f.CutAll()
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the connection lives after CutAll")
	}
	mustExec(t, connect(t, db.ServiceDSN(), nil), "SELECT 1")
}

// TestFaults_Big sends messages larger than any buffer, both ways.
func TestFaults_Big(t *testing.T) {
	t.Parallel()
	conn := connect(t, New(t).OwnerDSN(), NewFaults(t))
	big := strings.Repeat("commit;", 500_000)
	var got string
	if err := conn.QueryRow(t.Context(), "SELECT $1::text", big).Scan(&got); err != nil || got != big {
		t.Errorf("%d bytes of %d come back: %v", len(got), len(big), err)
	}
}

// TestFaults_Concurrent has many clients commit through one Faults that cuts: each
// row is there or not, and the number of errors is the number of cuts.
func TestFaults_Concurrent(t *testing.T) {
	t.Parallel()
	db, f := New(t), NewFaults(t)
	direct := connect(t, db.OwnerDSN(), nil)
	mustExec(t, direct, "CREATE TABLE fact (v text)")
	const clients, each = 8, 20
	f.CutBeforeCommit(10)
	f.CutAfterCommit(10)
	var (
		wg     sync.WaitGroup
		mu     sync.Mutex
		failed int
	)
	for range clients {
		wg.Go(func() {
			var conn *pgx.Conn
			for range each {
				if conn == nil || conn.IsClosed() {
					var err error
					if conn, err = dial(db.OwnerDSN(), f); err != nil {
						t.Error(err)
						return
					}
				}
				if err := ways[0].insert(context.Background(), conn); err != nil {
					mu.Lock()
					failed++
					mu.Unlock()
				}
			}
			conn.Close(context.Background())
		})
	}
	wg.Wait()
	if failed != 20 || f.Cuts() != 20 || f.Commits() != clients*each {
		t.Errorf("%d failures, %d cuts, %d commits", failed, f.Cuts(), f.Commits())
	}
	if got := text(t, direct, "SELECT count(*)::text FROM fact"); got != fmt.Sprint(clients*each-10) {
		t.Errorf("%s rows, want %d", got, clients*each-10)
	}
}

// TestAnswerReader_Pieces feeds one stream in pieces of every size.
func TestAnswerReader_Pieces(t *testing.T) {
	t.Parallel()
	stream := "Z\x00\x00\x00\x05I" + "2\x00\x00\x00\x04" + "C\x00\x00\x00\x0aBEGIN\x00" +
		"Z\x00\x00\x00\x05T" + "C\x00\x00\x00\x0bCOMMIT\x00" + "Z\x00\x00\x00\x05I"
	for size := 1; size <= len(stream); size++ {
		var r answerReader
		at := -1
		for i := 0; i < len(stream); i += size {
			if r.read([]byte(stream[i:min(i+size, len(stream))]), 2) && at < 0 {
				at = i
			}
		}
		if end := strings.Index(stream, "COMMIT\x00") + len("COMMIT"); at < 0 || at > end || at+size <= end-size {
			t.Errorf("pieces of %d: answered in the piece at %d", size, at)
		}
		if r.ready != 3 {
			t.Errorf("pieces of %d: ready %d times", size, r.ready)
		}
	}
}

func TestCommitSQL(t *testing.T) {
	t.Parallel()
	for sql, want := range map[string]bool{
		"commit": true, "  COMMIT AND CHAIN": true, "end": true, "insert into x values (1) ;\n commit": true,
		"select 'commit'": false, "committed": false, "endless": false, "create table c () on commit drop": false,
		"do $$ begin null; end $$": false, "rollback": false, "select commit_lsn": false,
	} {
		if got := commitSQL.MatchString(sql); got != want {
			t.Errorf("%q: %v", sql, got)
		}
	}
}
