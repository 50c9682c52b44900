package verify_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/verify"
	"github.com/khata-ledger/khata/ledger"
)

func TestRun_CleanBooks(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	for role, dsn := range map[string]string{"service": b.db.ServiceDSN(), "owner": b.db.OwnerDSN(), "superuser": b.db.SuperDSN()} {
		report := run(t, dsn)
		if !report.OK() {
			var out strings.Builder
			_ = report.Write(&out)
			t.Errorf("as %s:\n%s", role, out.String())
		}
		checked := map[string]int64{}
		for _, c := range report.Checks {
			checked[c.Name] = c.Checked
		}
		// 13 posted transfers of two entries, one of three and one of four; 4 refused; 11 accounts, changed 8 times.
		want := map[string]int64{
			"ids-unique": 17 + 11 + 4 + 2 + 1, "sequences": 17 + 19, "transfers-well-formed": 17, "transfers-balance": 17,
			"entries-match": 29, "trial-balance": 29, "floors": 29, "ceilings": 29, "holds": 0, "refunds": 0, "conditions": 0, "accounts-open": 29, "refusals": 4,
			"accounts-well-formed": 11, "account-history": 19,
			"snapshots": 0, "marks": 0, "value-dates": 0, "durability": 3, "privileges": 41, "closed-period": 0, "guards": 0,
		}
		for name, n := range checked {
			if name == "guards" && n > 90 {
				continue
			}
			if n != want[name] {
				t.Errorf("as %s: %s checked %d, want %d", role, name, n, want[name])
			}
		}
	}
}

func TestRun_EmptyBooks(t *testing.T) {
	t.Parallel()
	if report := run(t, pgtest.New(t).ServiceDSN()); !report.OK() {
		t.Errorf("%+v", report)
	}
}

func TestRun_NoSchema(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	dsn := strings.Replace(db.SuperDSN(), db.Name, "postgres", 1)
	if _, err := verify.Run(t.Context(), dsn, verify.Options{}); err == nil || !strings.Contains(err.Error(), "khata migrate up") {
		t.Errorf("got %v", err)
	}
}

// recorder is a test that notes its failure.
type recorder struct {
	testing.TB
	failure string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) { r.failure += fmt.Sprintf(format, args...) }

func TestCheckBooks(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	ledgertest.CheckBooks(t, b.db)
	tamper(t, b.db.SuperDSN(), posted("T-psql", "wallet", "cash", "1"))
	r := &recorder{TB: t}
	ledgertest.CheckBooks(r, b.db)
	if !strings.Contains(r.failure, "ledger main, transfer T-psql, account wallet") {
		t.Errorf("got %q", r.failure)
	}
}

// What cannot be read must not pass for sound.
func TestRun_NotAllowedToRead(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	tamper(t, b.db.SuperDSN(), "REVOKE SELECT ON entry FROM khata_service")
	if _, err := verify.Run(t.Context(), b.db.ServiceDSN(), verify.Options{}); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("got %v", err)
	}
}

func TestRun_GivenUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := verify.Run(ctx, pgtest.New(t).ServiceDSN(), verify.Options{}); err == nil {
		t.Error("no error")
	}
}

// A schema and a temporary table of the same names must not lead it astray.
func TestRun_SearchPath(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	tamper(t, b.db.SuperDSN(), "CREATE SCHEMA khata_service", "CREATE VIEW khata_service.entry AS SELECT * FROM public.entry WHERE false",
		"GRANT USAGE ON SCHEMA khata_service TO khata_service", "GRANT SELECT ON khata_service.entry TO khata_service")
	if report := run(t, b.db.ServiceDSN()); !report.OK() {
		t.Errorf("%+v", report)
	}
}

func TestReport_Forms(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	tamper(t, b.db.SuperDSN(), always("transfer", `UPDATE transfer SET amounts = ARRAY[1, -1.5] WHERE ledger_id = 1 AND refusal IS NULL AND cardinality(amounts) = 2`)...)
	report, err := verify.Run(t.Context(), b.db.ServiceDSN(), verify.Options{MaxBreaches: 2})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := report.Write(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"BREACH  transfers-balance           17 transfers  Each transfer sums", "ledger main, transfer T-in, sequence ",
		"BDT: its row sums to -0.5, its entries to 0\n", "… and 8 more", "ok      floors   ", "breaches, in 2 of 26 checks.",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the report lacks %q:\n%s", want, out.String())
		}
	}
	text, err := json.Marshal(report)
	if err != nil {
		t.Fatal(err)
	}
	var back verify.Report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if again, err := json.Marshal(back); err != nil || !bytes.Equal(text, again) {
		t.Errorf("JSON changes: %v\n%s\n%s", err, text, again)
	}
	if !bytes.Contains(text, []byte(`"breaches":[]`)) || back.Checks[6].Breached != 10 || len(back.Checks[6].Breaches) != 2 {
		t.Errorf("JSON: %s", text)
	}
}

func TestBreach_TerminalIsSafe(t *testing.T) {
	t.Parallel()
	line := verify.Breach{TransferID: "T\x1b[2J\n", Detail: "ok\r"}.String()
	if strings.ContainsAny(line, "\x1b\r\n") || !strings.HasPrefix(line, `transfer "T\x1b[2J\n": `) {
		t.Errorf("%q", line)
	}
}

// While transfers and changes of rules are under way, nothing that is half done may look like a breach.
func TestRun_WhilePosting(t *testing.T) {
	t.Parallel()
	b := newBooks(t)
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				id := func(what string) ledger.TransferID {
					return ledger.TransferID(fmt.Sprintf("%s-%d-%d", what, client, i))
				}
				// The context is the test's: a batch that has begun is waited for.
				_, err := b.Post(t.Context(), "local", main, []ledger.TransferSpec{
					move(id("in"), "cash", "wallet", "7"), move(id("out"), "wallet", "cash", "5"), move(id("out2"), "wallet", "cash", "5"),
					move(id("frozen"), "cash", "frozen", "1"), move(id("to-closed"), "fees", "closed", "1"),
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	clients.Go(func() {
		states := []ledger.Frozen{ledger.FrozenBoth, ledger.FrozenNone, ledger.FrozenCredits}
		for i := 0; ctx.Err() == nil; i++ {
			floor := decimal.NewFromInt(int64(i % 5))
			for id, update := range map[ledger.AccountID]ledger.AccountUpdate{
				"frozen": {Frozen: &states[i%3]},
				"wallet": {Floor: &floor},
			} {
				if _, err := b.UpdateAccount(t.Context(), "local", main, id, update); err != nil {
					t.Error(err)
				}
			}
		}
	})
	runs, last := 0, verify.Report{}
	for ctx.Err() == nil {
		last = run(t, b.db.ServiceDSN())
		runs++
		if !last.OK() {
			t.Errorf("%+v", last)
			break
		}
	}
	cancel()
	clients.Wait()
	for _, c := range last.Checks {
		if c.Name == "refusals" && c.Checked < 20 || c.Name == "entries-match" && c.Checked < 200 {
			t.Errorf("%s: only %d %s: hardly anything was going on", c.Name, c.Checked, c.Of)
		}
	}
	t.Logf("%d runs", runs)
	if report := run(t, b.db.ServiceDSN()); !report.OK() {
		t.Errorf("in the end: %+v", report)
	}
}
