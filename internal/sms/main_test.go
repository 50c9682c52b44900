package sms

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(processEnv); config != "" {
		os.Exit(runProcess(config))
	}
	os.Exit(kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) }))
}

// patience is how long a test waits for what must come. It is reached only where something is wrong.
const patience = 40 * time.Second

// bench is a database with the consumer's tables, whose accounts have been read.
type bench struct {
	db      *pgtest.DB
	pool    *pgxpool.Pool
	handler *handler
}

func setup(t testing.TB) *bench {
	t.Helper()
	b := setupEmpty(t)
	b.db.Exec(t, "INSERT INTO khata_sms.state DEFAULT VALUES")
	return b
}

func setupEmpty(t testing.TB) *bench {
	t.Helper()
	b := &bench{db: pgtest.New(t), handler: &handler{language: English, zone: dhaka(t)}}
	if _, err := inbox.Migrate(t.Context(), b.db.OwnerDSN(), ""); err != nil {
		t.Fatal(err)
	}
	if _, err := Schema.Migrate(t.Context(), b.db.OwnerDSN()); err != nil {
		t.Fatal(err)
	}
	b.db.Exec(t, inbox.Grants("", "khata_service")+Grants("khata_service"))
	b.pool = connect(t, pg.Config{DSN: b.db.ServiceDSN()})
	return b
}

func connect(t testing.TB, config pg.Config) *pgxpool.Pool {
	t.Helper()
	pool, err := pg.Connect(context.Background(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// handle gives events to the handler in one transaction, as the inbox does.
func (b *bench) handle(t testing.TB, events ...inbox.Event) error {
	t.Helper()
	return pg.InTx(t.Context(), b.pool, func(tx pgx.Tx) error { return b.handler.all(t.Context(), tx, events) })
}

func (b *bench) mustHandle(t testing.TB, events ...inbox.Event) {
	t.Helper()
	if err := b.handle(t, events...); err != nil {
		t.Fatal(err)
	}
}

// rows are what a query of one column of text gives.
func (b *bench) rows(t testing.TB, sql string, args ...any) []string {
	t.Helper()
	rows, err := b.pool.Query(context.Background(), sql, args...)
	if err != nil {
		t.Fatal(err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// event makes one of a message.
func event(id, kind string, m proto.Message) inbox.Event {
	data, err := proto.Marshal(m)
	if err != nil {
		panic(err)
	}
	return inbox.Event{ID: id, Type: "khata.account." + kind + ".v1", Source: "/khata/ledgers/main", Time: at, Data: data}
}

// account is an event of an account as it now is.
func account(kind, id, name, metadata string, version int64) inbox.Event {
	return event(fmt.Sprintf("%s-%s-%d", kind, id, version), kind, &khatav1.AccountEvent{
		Ledger: "main", Account: &khatav1.Account{Account: id, Name: name, Metadata: metadata, Version: version, Currency: "BDT"},
	})
}

// moves are the two events of a transfer between people: the payer's and the payee's.
func moves(transfer string, kind khatav1.TransferKind, payer, payee, amount string, version int64) []inbox.Event {
	of := func(account, other, posted string) inbox.Event {
		return event(transfer+"/"+account, "moved", &khatav1.AccountMovement{
			Ledger: "main", Account: account, Currency: "BDT", Version: version, TransferId: transfer, Kind: kind, Posted: posted, Held: "0.00", Incoming: "0.00",
			Counterparties: []string{other}, Payer: payer, Payee: payee,
		})
	}
	return []inbox.Event{of(payer, payee, "-"+amount), of(payee, payer, amount)}
}

const plain = khatav1.TransferKind_TRANSFER_KIND_PLAIN

func pay(transfer, payer, payee, amount string, version int64) []inbox.Event {
	return moves(transfer, plain, payer, payee, amount, version)
}

func withPhone(phone string) string { return `{"phone":"` + phone + `"}` }

// people opens the accounts of Shimul and Tithi, who have phones, and of a shop, which has none.
func (b *bench) people(t testing.TB) {
	t.Helper()
	b.mustHandle(t, account("opened", "wallet:shimul", "Shimul", withPhone("+8801711000011"), 1),
		account("opened", "wallet:tithi", "Tithi", withPhone("+8801711000012"), 2), account("opened", "shop:7", "", "", 3))
}

// testLog sends what is logged to the test's log, until the test has ended, and keeps it.
type testLog struct {
	t    testing.TB
	mu   sync.Mutex
	text strings.Builder
}

func (l *testLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.Write(line)
	if l.t != nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

// quotes reports whether any of these has been logged.
func (l *testLog) quotes(texts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range texts {
		if strings.Contains(l.text.String(), text) {
			return true
		}
	}
	return false
}

// logger logs to the test, and fails it if a phone or a text was logged.
func logger(t testing.TB) *slog.Logger {
	out := &testLog{t: t}
	t.Cleanup(func() {
		if out.quotes("8801711", "৳", "received from") {
			t.Error("a number or a text was logged")
		}
		out.mu.Lock()
		defer out.mu.Unlock()
		out.t = nil
	})
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// until waits until something holds.
func until(t testing.TB, what string, holds func() (bool, string)) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		ok, now := holds()
		if ok {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("it never comes to this: %s; it is %s", what, now)
		}
	}
}

// metric is the value of a counter or gauge, with the value of its label.
func metric(t testing.TB, registry *prometheus.Registry, name, label string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	t.Fatalf("there is no metric %s %s", name, label)
	return 0
}
