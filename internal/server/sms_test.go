package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/devkafka"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/kafka"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/server"
	"github.com/khata-ledger/khata/internal/sms"
	"github.com/khata-ledger/khata/ledger"
)

// From a transfer in the books to the text at the gateway, with the real relay; and what was before the consumer began is not told.
func TestRunSMS(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	if _, err := server.MigrateConsumer(t.Context(), db.OwnerDSN(), sms.Schema, "khata_service", sms.Grants); err != nil {
		t.Fatal(err)
	}
	pool, err := pg.Connect(t.Context(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	books := journal.New(pool, journal.Config{SnapshotEvery: -1, ExpireEvery: -1})
	t.Cleanup(books.Close)
	if _, err := books.CreateAccounts(t.Context(), "local", "main", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"},
		{ID: "wallet:shimul", Type: ledger.Liability, Currency: "BDT", Name: "Shimul", Metadata: `{"phone":"+8801711000011"}`},
		{ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT", Name: "Tithi", Metadata: `{"phone":"+8801711000012","sms_language":"en"}`},
	}); err != nil {
		t.Fatal(err)
	}
	pay := func(id string, from, to ledger.AccountID) {
		results, err := books.Post(context.Background(), "local", "main", []ledger.TransferSpec{{ID: ledger.TransferID(id), Entries: ledger.Simple(from, to, decimal.New(500, 0), "BDT")}})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
	}
	pay("before", "cash", "wallet:shimul")
	log := slog.New(slog.DiscardHandler)
	broker, err := devkafka.Start(devkafka.Config{Addr: "127.0.0.1:0", Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Close)
	reach := kafka.Config{Brokers: broker.Brokers()}
	client, err := kafka.Connect(t.Context(), reach)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := kafka.EnsureTopics(t.Context(), client, kafka.TopicSpec{Partitions: 3}); err != nil {
		t.Fatal(err)
	}
	box, err := server.StartSMSSandbox(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(box.Close)
	config := server.SMSConfig{
		ConsumerConfig: server.ConsumerConfig{DSN: db.ServiceDSN(), Kafka: reach, Registry: prometheus.NewRegistry(), Logger: log},
		Gateway:        box.URL(),
	}
	if err := server.RunSMS(t.Context(), config); err == nil || !strings.Contains(err.Error(), "khata consume sms bootstrap") {
		t.Errorf("without the books: %v", err)
	}
	done, err := server.BootstrapSMS(t.Context(), db.ServiceDSN(), db.ServiceDSN(), false, log)
	if err != nil || !done.First || done.Accounts != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	config.Registry, config.LedgerDSN = prometheus.NewRegistry(), db.ServiceDSN()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := server.RunRelay(ctx, server.RelayConfig{DSN: db.ServiceDSN(), Kafka: reach, Logger: log}); err != nil {
			t.Error(err)
		}
	})
	wg.Go(func() {
		if err := server.RunSMS(ctx, config); err != nil {
			t.Error(err)
		}
	})
	defer wg.Wait()
	defer cancel()
	pay("TXN-1", "wallet:shimul", "wallet:tithi")
	var list []sms.SandboxMessage
	for deadline := time.Now().Add(time.Minute); len(list) < 2 && time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		list = box.Gateway.Messages()
	}
	got := map[string]string{}
	for _, m := range list {
		got[m.To], _, _ = strings.Cut(m.Text, "TXN-1")
	}
	if len(list) != 2 || got["+8801711000011"] != "Tithi-কে ৳৫০০.০০ পাঠিয়েছেন। রেফ " || got["+8801711000012"] != "৳500.00 received from Shimul. Ref " {
		t.Errorf("%+v", list)
	}
	entries, err := server.SMSMessages(t.Context(), db.ServiceDSN(), sms.Selection{Account: "wallet:tithi"})
	if err != nil || len(entries) != 1 || entries[0].TransferID != "TXN-1" {
		t.Errorf("%+v, %v", entries, err)
	}
}

func TestStartSMSSandbox_Loopback(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:80", "sms.example:80", "80"} {
		if box, err := server.StartSMSSandbox(t.Context(), address); err == nil {
			box.Close()
			t.Errorf("it listens on %s", address)
		}
	}
	if err := server.RunSMS(t.Context(), server.SMSConfig{Gateway: "http://127.0.0.1:1", Zone: "Mars/Olympus"}); err == nil || !strings.Contains(fmt.Sprint(err), "time zone") {
		t.Errorf("%v", err)
	}
}
