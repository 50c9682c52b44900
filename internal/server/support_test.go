package server

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/fraud"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/sms"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

// TestSupportSources has a payment leave a trace in every room, and the desk find all of them: in its story, and in the list of what waits.
func TestSupportSources(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, s := range []struct {
		schema pg.Schema
		grants func(string) string
	}{{fraud.Schema, fraud.Grants}, {sms.Schema, sms.Grants}} {
		if _, err := MigrateConsumer(t.Context(), db.OwnerDSN(), s.schema, "khata_service", s.grants); err != nil {
			t.Fatal(err)
		}
	}
	pool, err := pg.Connect(context.Background(), pg.Config{DSN: db.ServiceDSN()})
	if err != nil {
		t.Fatal(err)
	}
	j := journal.New(pool, journal.Config{CountEvery: 20 * time.Millisecond})
	t.Cleanup(func() {
		j.Close()
		pool.Close()
	})
	sources := SupportSources{
		Journal: j, Books: pool, Fraud: pool, SMS: pool, Letters: []SupportLetters{{Consumer: "sms", Pool: pool}, {Consumer: fraud.Consumer, Pool: pool}},
	}
	desk := sources.Desk(support.Config{})
	if _, err := j.CreateAccounts(t.Context(), "setup", "", []ledger.AccountSpec{
		{ID: "wallet:a", Type: ledger.Liability, Currency: "BDT"}, {ID: "wallet:b", Type: ledger.Liability, Currency: "BDT"},
	}); err != nil {
		t.Fatal(err)
	}
	const user, key = "user-1", "key-0123456789abcdef"
	id := payapi.PaymentID(user, key)
	spec := ledger.TransferSpec{ID: id, Entries: ledger.Simple("wallet:a", "wallet:b", decimal.RequireFromString("5"), "BDT")}
	result, err := j.PostWith(t.Context(), user, "", spec, nil, nil)
	if err != nil || result.Err != nil {
		t.Fatal(err, result.Err)
	}
	// She presses again: the ledger stops it twice, and the key six times, twice of it because the amount was another.
	for range 2 {
		if again, err := j.PostWith(t.Context(), user, "", spec, nil, nil); err != nil || !again.Replayed {
			t.Fatal(err, again)
		}
		for range 2 {
			j.CountReplay(t.Context(), "", journal.KeyGuard, id)
		}
		j.CountTaken(t.Context(), "", journal.KeyGuard, id)
	}
	ids := []ledger.TransferID{id}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		written, err := j.DuplicatesOf(t.Context(), "", ids, 10)
		if err != nil || time.Now().After(end) {
			t.Fatal(err, written)
		}
		if len(written) == 2 && written[0].Replayed+written[1].Replayed == 6 && written[0].Taken+written[1].Taken == 2 {
			break
		}
	}
	events := relay.EventIDsOf("main", result.Transfer)
	if len(events) != 3 {
		t.Fatalf("%v", events)
	}
	stuck := "TXN-" + strings.Repeat("A", 26)
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO payment_key (user_id, idem_key, day, created_at, fingerprint, ledger_id, transfer_id, status, body, attempt)
			VALUES ('%s', '%s', (now() AT TIME ZONE 'UTC')::date, now(), '', 1, '%s', 201, '', gen_random_uuid())`, user, key, id),
		fmt.Sprintf(`INSERT INTO payment_claim (user_id, idem_key, fingerprint, ledger, transfer_id, command, step, generation, gateway_key, lease_until, fence,
			attempts, created_at, review_at, detail, attempt) VALUES ('user-2', 'another-key-01234567', '', 'main', 'khata:%s', '{}', 'charge', 0, 'gw-1', now(), 1, 3,
			now(), now(), 'the gateway is silent', gen_random_uuid())`, stuck),
		`INSERT INTO payment_resolution (user_id, idem_key, fence, transfer_id, gateway_key, resolved_as, reason)
			VALUES ('user-2', 'another-key-01234567', 0, 'khata:` + stuck + `', 'gw-0', 'released', 'they said so')`,
		fmt.Sprintf(`INSERT INTO relay_cursor (ledger_id, through, records) VALUES (1, %d, 1)`, result.Transfer.Sequence),
		fmt.Sprintf(`INSERT INTO relay_parked (event_id, ledger_id, sequence, topic, key, type, error)
			VALUES ('%s', 1, %d, 'khata.accounts', 'main/wallet:b', 'khata.account.moved.v1', 'too large')`, events[2], result.Transfer.Sequence),
		fmt.Sprintf(`INSERT INTO khata_fraud.flagged (verdict, unreadable, ledger, transfer_id, sequence, kind, payer, payee, amount, currency, posted_at, reasons, rules,
			judged_event, state, note, settled_by, settled_at) VALUES ('v-1', false, 'main', '%s', 1, 'transfer', 'wallet:a', 'wallet:b', 5, 'BDT', now(),
			'[{"rule":"large","kind":"amount","text":"it is large"}]', 'r1', 'e', 'cleared', 'all is well', 'mina', now())`, id),
		`INSERT INTO khata_fraud.flagged (verdict, unreadable, ledger, transfer_id, sequence, kind, payer, payee, amount, currency, posted_at, reasons, rules,
			judged_event) VALUES ('v-2', false, 'main', 'other', 1, 'transfer', 'wallet:a', 'wallet:b', 7, 'BDT', now(), '[]', 'r1', 'e')`,
		fmt.Sprintf(`INSERT INTO khata_sms.message (event_id, ledger, account, transfer_id, kind, phone, language, text, event_time, fresh_from)
			VALUES ('%s', 'main', 'wallet:b', '%s', 'received', '+8801711000012', 'en', '5.00 received', now(), now())`, events[2], id),
		fmt.Sprintf(`INSERT INTO khata_inbox.letter (consumer, event_id, source_hash, reason, error, attempts, source, type, topic, partition, "offset",
			header_keys, header_values) VALUES ('sms', '%s', 1, 'too_old', 'it is old', 0, 's', 't', 'khata.accounts', 0, 1, '{}', '{}')`, events[1]),
	} {
		db.Exec(t, sql)
	}
	who := support.Actor{Name: "rina"}
	story, err := desk.Story(t.Context(), who, "", id)
	if err != nil || len(story.Missing) > 0 {
		t.Fatalf("%v %+v", err, story)
	}
	have := map[string]string{}
	for _, i := range story.Items {
		have[i.Source] += fmt.Sprintf("%s|%s|%+v\n", i.Who, i.What, i.Details)
	}
	for source, want := range map[string][]string{
		"ledger": {"user-1|5.00 BDT was moved"},
		"key":    {"user-1|the request was answered with status 201", key},
		"duplicate": {
			"|the same request came again twice and was given the first answer; nothing more moved|[{Name:stopped_by Value:ledger} {Name:until ",
			"|the same request came again 4 times and was given the first answer; one with other content, or by another caller, came twice under its name and was refused; " +
				"nothing more moved|" +
				"[{Name:stopped_by Value:key} {Name:until ",
		},
		"event": {"event khata.transfer.posted.v1 was published", "event khata.account.moved.v1 was published", "event khata.account.moved.v1 is parked", "too large"},
		"fraud": {"the fraud check has flagged it: it is large (rule large)", "mina|the verdict was settled as cleared", "all is well"},
		"sms":   {"message to wallet:b, queued: 5.00 received", "+8801711000012"},
		"inbox": {"consumer sms did not handle event", "it is old"},
		"audit": {"rina|looked at this story"},
	} {
		for _, text := range want {
			if !strings.Contains(have[source], text) {
				t.Errorf("%s does not tell %q:\n%s", source, text, have[source])
			}
		}
	}
	// A payment that is stuck is known to its key alone.
	story, err = desk.Story(t.Context(), who, "", ledger.TransferID("khata:"+stuck))
	if err != nil || story.Transfer != nil || len(story.Items) != 4 {
		t.Fatalf("%v %+v", err, story)
	}
	found, err := desk.Find(t.Context(), who, support.Query{Text: key, User: user})
	if err != nil || len(found.Hits) != 1 || found.Hits[0].ID != id {
		t.Errorf("%+v %v", found, err)
	}
	review, err := desk.Review(t.Context(), who, "")
	if err != nil || len(review.Missing) > 0 {
		t.Fatalf("%v %+v", err, review)
	}
	counts := map[support.Kind]int{}
	next := ""
	for _, h := range review.Heaps {
		next += h.Next + "\n"
		for _, e := range h.Entries {
			next += e.Next + "\n"
		}
		counts[h.Kind] = h.Count
		if h.Next == "" || h.Count > 0 && (len(h.Entries) != h.Count || h.Entries[0].Next == "" || h.Entries[0].What == "" || time.Since(h.Oldest) > time.Hour) {
			t.Errorf("%+v", h)
		}
	}
	for kind, want := range map[support.Kind]int{
		support.StuckKeys: 1, support.ParkedEvents: 1, support.QuarantinedEvents: 1, support.FlaggedVerdicts: 1, support.Breaks: 0, support.WaitingRefunds: 0,
	} {
		if got, ok := counts[kind]; !ok || got != want {
			t.Errorf("%d of %s wait (%t), want %d", got, kind, ok, want)
		}
	}
	// Each command is whole.
	for _, command := range []string{
		`khata fraud settle v-2 --as cleared|confirmed --note "…" --by YOU --dsn "$DSN"`, `khata relay parked retry ` + events[2] + ` --dsn "$DSN"`,
		`khata review resolve ` + stuck + ` --as charged|declined|released|given-back --reason "…" --dsn "$DSN"`, `khata inbox replay ` + events[1] + ` --consumer sms --dsn "$DSN" --too-old`,
	} {
		if !strings.Contains(next, command) {
			t.Errorf("nothing says %s:\n%s", command, next)
		}
	}
	// Payments that may be one are known to the desk, once the journal has been followed.
	for _, id := range []ledger.TransferID{"tap-1", "tap-2"} {
		results, err := j.Post(t.Context(), user, "", []ledger.TransferSpec{{ID: id, Entries: ledger.Simple("wallet:b", "wallet:a", decimal.RequireFromString("3"), "BDT")}})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
	}
	if _, err := suspect.New(suspect.Config{Journal: j, Pool: pool}).Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := desk.Request(t.Context(), who, support.RefundSpec{
		Key: support.MintKey(), Transfer: "tap-1", Amount: decimal.RequireFromString("3"), Reason: ledger.ReasonDuplicate,
	}); err != nil {
		t.Fatal(err)
	}
	_, err = desk.Request(t.Context(), who, support.RefundSpec{
		Key: support.MintKey(), Transfer: "tap-2", Amount: decimal.RequireFromString("3"), Reason: ledger.ReasonDuplicate,
	})
	if err == nil || !strings.Contains(err.Error(), "tap-2 is the last payment of suspect 1 that stands: request 1 for its other payment tap-1 waits") {
		t.Error(err)
	}
	form, err := desk.Form(t.Context(), who, "", "tap-2")
	if err != nil || len(form.Warnings) != 1 {
		t.Errorf("%+v %v", form, err)
	}
	known, err := desk.Audit().Known(t.Context(), "main", []support.Object{{Kind: "suspect", ID: "1"}, {Kind: "suspect", ID: "99"}})
	if err != nil || !known[support.Object{Kind: "suspect", ID: "1"}] || known[support.Object{Kind: "suspect", ID: "99"}] {
		t.Errorf("%v %v", known, err)
	}
	// What a deployment does not have, it does not tell of; what cannot be asked is named.
	bare := SupportSources{Journal: j, Books: pool}.Desk(support.Config{})
	if story, err = bare.Story(t.Context(), who, "", id); err != nil || len(story.Missing) > 0 {
		t.Errorf("%v %+v", err, story)
	}
	for _, i := range story.Items {
		if i.Source == "sms" || i.Source == "fraud" || i.Source == "inbox" {
			t.Errorf("%+v", i)
		}
	}
	db.Exec(t, `ALTER TABLE khata_sms.message RENAME TO gone`)
	if story, err = desk.Story(t.Context(), who, "", id); err != nil || len(story.Missing) != 1 || story.Missing[0].Source != "sms" {
		t.Errorf("%v %+v", err, story)
	}
}

// TestSupportBreaks: what a bank account has open is in its currency, and what to do about it is a command.
func TestSupportBreaks(t *testing.T) {
	t.Parallel()
	run := &reconcile.Run{No: 5}
	run.Summary.OpenLines = reconcile.Tally{Count: 1, Sum: decimal.NewFromInt(-5)}
	task := breakTask(&reconcile.BankAccount{Name: "city", Currency: ledger.Currency{Code: "BDT", Scale: 2}}, run)
	if want := "city: open at the bank: 1 (-5.00 BDT); in the books: 0 (0.00 BDT), of them on their way: 0"; task.What != want {
		t.Errorf("%s, want %s", task.What, want)
	}
	if want := "khata reconcile show --bank-account city --run 5 --results"; task.Next != want {
		t.Errorf("%s, want %s", task.Next, want)
	}
}
