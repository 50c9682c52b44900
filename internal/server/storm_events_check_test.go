package server_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/khata-ledger/khata/internal/eventstest"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/ledger"
)

// finish waits until all that was posted is published and consumed, ends the processes, and compares: what was answered with the journal, the
// journal with the topics, the topics with the effects.
func (b *eventBench) finish(ctx context.Context, t *testing.T, p *posting) {
	t.Helper()
	b.until(t, "all is published", func() (bool, string) {
		s := b.status(ctx, t)
		return !slices.ContainsFunc(s.Ledgers, func(l relay.LedgerStatus) bool { return l.Oldest != nil }), fmt.Sprintf("%+v", s)
	})
	for _, r := range b.relays {
		stopAll(t, r.process)
	}
	topics := relay.TopicsOf(b.topics)
	facts, sent := eventstest.Expected(t, b.journals[0], topics), eventstest.Read(t, b.cluster, topics)
	again := eventstest.Check(t, facts, sent)
	b.checkAnswers(t, p, facts)
	moves, pace := b.checkCursor(t)
	t.Logf("%d transfers posted, the slowest took %v, %d calls were made again, %d were overtaken; %d events, and %d of them again; "+
		"the cursor was moved %d times, mostly within %v; %d terms", len(p.answered), p.slowest, p.again, p.overtaken, len(facts), again, moves, pace, b.status(ctx, t).Term)
	if p.overtaken == 0 {
		t.Error("no commit came late")
	}
	if len(b.consumers) > 0 {
		b.consumed(ctx, t, sent)
		stopAll(t, b.consumers...)
		b.checkEffects(t, sent)
	}
	ledgertest.CheckBooks(t, b.db)
}

// checkAnswers looks for what was answered among the facts.
func (b *eventBench) checkAnswers(t *testing.T, p *posting, facts []eventstest.Fact) {
	t.Helper()
	decided := map[ledger.TransferID]int64{}
	for _, f := range facts {
		if f.Topic == b.topics.Transfers() {
			decided[ledger.TransferID(f.Subject)] = f.Sequence
		}
	}
	for id, sequence := range p.answered {
		if decided[id] != sequence {
			t.Errorf("%s was answered under number %d, and is there under %d", id, sequence, decided[id])
		}
	}
	if len(decided) != len(p.answered) {
		t.Errorf("%d transfers are there, and %d were answered", len(decided), len(p.answered))
	}
}

// consumed waits until the group has committed that it has had every event.
func (b *eventBench) consumed(ctx context.Context, t *testing.T, sent []eventstest.Sent) {
	t.Helper()
	last := map[int32]int64{}
	for _, s := range sent {
		if s.Topic == b.topics.Accounts() {
			last[s.Partition] = max(last[s.Partition], s.Offset)
		}
	}
	b.until(t, "all is consumed", func() (bool, string) {
		committed, err := b.admin.FetchOffsetsForTopics(ctx, group, b.topics.Accounts())
		if err != nil {
			return false, err.Error()
		}
		through := true
		committed.Each(func(o kadm.OffsetResponse) {
			if at, there := last[o.Partition]; there && o.At <= at {
				through = false
			}
		})
		return through, fmt.Sprintf("committed %v, the last ones are %v", committed.Offsets(), last)
	})
}

// checkEffects compares the receipts with what was published to their topic: one of each event, in the order of its key.
func (b *eventBench) checkEffects(t *testing.T, sent []eventstest.Sent) {
	t.Helper()
	published := map[string]eventstest.Sent{}
	for _, s := range sent {
		if s.Topic == b.topics.Accounts() {
			published[s.ID()] = s
		}
	}
	had, last := map[string]bool{}, map[string]int64{}
	for _, id := range rowsOf(t, b.effects, "SELECT event_id FROM receipts ORDER BY at", pgx.RowTo[string]) {
		s, there := published[id]
		f, err := s.Fact()
		switch {
		case !there || err != nil:
			t.Errorf("a receipt is of event %s, which was not published: %v", id, err)
		case had[id]:
			t.Errorf("two receipts are of %v", s)
		case f.Sequence <= last[f.Key]:
			t.Errorf("the receipt of %v comes after that of %d", s, last[f.Key])
		}
		had[id] = true
		last[f.Key] = f.Sequence
	}
	for id, s := range published {
		if !had[id] {
			t.Errorf("no receipt is of %v", s)
		}
	}
	for _, letter := range rowsOf(t, b.effects, "SELECT l::text FROM khata_inbox.letter l", pgx.RowTo[string]) {
		t.Errorf("a letter: %s", letter)
	}
}

// watchCursor has the database write down who moves the cursor of the relays, from where to where, and who had the lease then.
func (b *eventBench) watchCursor(t *testing.T) {
	t.Helper()
	asSuperuser(t, b.db, `
		CREATE TABLE cursor_move (
			n bigint GENERATED ALWAYS AS IDENTITY, ledger_id integer, was bigint, through bigint, mover text, holder text, term bigint,
			at timestamptz DEFAULT clock_timestamp()
		);
		CREATE FUNCTION note_cursor_move() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
		BEGIN
			INSERT INTO cursor_move (ledger_id, was, through, mover, holder, term)
			SELECT NEW.ledger_id, CASE WHEN TG_OP = 'UPDATE' THEN OLD.through ELSE 0 END, NEW.through, current_setting('application_name'), holder, term
			  FROM relay;
			RETURN NULL;
		END $$;
		CREATE TRIGGER note_cursor_move AFTER INSERT OR UPDATE ON relay_cursor FOR EACH ROW EXECUTE FUNCTION note_cursor_move();`)
}

type cursorMove struct {
	LedgerID      int32
	Was, Through  int64
	Mover, Holder string
	Term          int64
	At            time.Time
}

// checkCursor checks that the cursor only ever went on from where it was, moved by whoever had the lease, in terms that only rise. It returns
// how often it was moved, and after how long at most in three cases of four. It takes away what the cursor was watched by.
func (b *eventBench) checkCursor(t *testing.T) (moves int, pace time.Duration) {
	t.Helper()
	at, term := map[int32]int64{}, int64(0)
	list := rowsOf(t, b.db, "SELECT ledger_id, was, through, mover, holder, term, at FROM cursor_move ORDER BY n", pgx.RowToStructByPos[cursorMove])
	var pauses []time.Duration
	for i, m := range list {
		if i > 0 {
			pauses = append(pauses, m.At.Sub(list[i-1].At))
		}
		if m.Was != at[m.LedgerID] || m.Through <= m.Was {
			t.Errorf("the cursor was at %d, and then: %+v", at[m.LedgerID], m)
		}
		if pid, known := b.pids[m.Mover]; !known || !isHolder(m.Holder, pid) || m.Term < term {
			t.Errorf("the cursor is moved by who does not have the lease, after term %d: %+v (process %d)", term, m, pid)
		}
		at[m.LedgerID], term = m.Through, m.Term
	}
	asSuperuser(t, b.db, `DROP TABLE cursor_move; DROP FUNCTION note_cursor_move() CASCADE`)
	if len(pauses) == 0 {
		t.Fatal("the cursor was hardly moved")
	}
	slices.Sort(pauses)
	if pace = pauses[len(pauses)*3/4]; pace > 2*time.Second { // Where something was broken it may take its time.
		t.Errorf("often the cursor is not moved for %v: what does the relay wait for?", pace)
	}
	return len(list), pace
}

func asSuperuser(t *testing.T, db *pgtest.DB, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

func rowsOf[T any](t *testing.T, db *pgtest.DB, sql string, scan pgx.RowToFunc[T]) []T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	rows, err := conn.Query(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, scan)
	if err != nil {
		t.Fatal(err)
	}
	return list
}
