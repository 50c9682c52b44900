package journal_test

import (
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger"
)

// A horizon that somebody keeps elsewhere holds over a crash: no number up to it is drawn again, though nothing was committed under the last ones.
func TestHorizon_Crash(t *testing.T) {
	t.Parallel()
	// PostgreSQL writes the log by itself soon, which would hide that nobody else does.
	s := pgtest.NewServer(t, map[string]string{"wal_writer_delay": "10s", "bgwriter_delay": "10s"})
	b := benchOn(t, s)
	b.post(t, move("IN-1", "cash", "wallet", "10"))
	raw := rawAs(t, s.ServiceDSN())
	raw.do(t, "BEGIN") // To end it would write the log.
	for range 100 {    // Some are logged 32 ahead.
		read[int64](t, raw, "SELECT nextval('journal_sequence')")
	}
	horizon, err := b.Horizon(t.Context(), ledger.DefaultLedger)
	if err != nil {
		t.Fatal(err)
	}
	s.Kill(t)
	s.Restart(t)
	next := b.post(t, move("IN-2", "cash", "wallet", "10"))
	if next.Err != nil || next.Transfer.Sequence <= horizon {
		t.Errorf("after a crash %d was drawn, and %d was said to be behind the horizon; %v", next.Transfer.Sequence, horizon, next.Err)
	}
}
