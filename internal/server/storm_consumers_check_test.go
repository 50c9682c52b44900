package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/relay"
	"github.com/khata-ledger/khata/internal/sms"
	walletview "github.com/khata-ledger/khata/internal/wallet"
	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/inbox"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// finish waits until all is consumed, and holds what came of it against the books.
func (b *consumerBench) finish(t *testing.T, p *traffic) {
	t.Helper()
	ctx := context.Background()
	b.until(t, "all is published", func() (bool, string) {
		s, err := relay.StatusOf(ctx, b.journal, b.pool)
		return err == nil && !slices.ContainsFunc(s.Ledgers, func(l relay.LedgerStatus) bool { return l.Oldest != nil }), fmt.Sprintf("%+v, %v", s, err)
	})
	records := b.records(t)
	expected := expectedOf(records)
	b.until(t, "the wallet view is what the books are", func() (bool, string) {
		c, err := walletview.Compare(ctx, b.pool, b.journal)
		return err == nil && c.Equal() && c.Behind == 0, fmt.Sprintf("%+v, %v", c, err)
	})
	b.until(t, "every message is sent", func() (bool, string) {
		list := rowsOf(t, b.pg.DB, `SELECT state FROM khata_sms.message ORDER BY state = 'sent'`, pgx.RowTo[string])
		return len(list) == len(expected.messages) && (len(list) == 0 || list[0] == string(sms.Sent)), fmt.Sprintf("%d messages, of %d", len(list), len(expected.messages))
	})
	var verdicts []*khatav1.FraudVerdict
	b.until(t, "every transfer is judged", func() (bool, string) {
		verdicts = b.verdicts(t)
		return len(verdicts) >= len(expected.verdicts), fmt.Sprintf("%d verdicts, of %d", len(verdicts), len(expected.verdicts))
	})
	b.checkVerdicts(t, verdicts, expected.verdicts)
	b.checkMessages(t, expected.messages)
	b.until(t, "what is flagged is on record", func() (bool, string) {
		list := rowsOf(t, b.pg.DB, `SELECT transfer_id FROM khata_fraud.flagged`, pgx.RowTo[string])
		return len(list) == expected.flagged, fmt.Sprintf("%d, of %d", len(list), expected.flagged)
	})
	letters, err := inbox.Letters(ctx, b.pool, inbox.Selection{})
	if err != nil || len(letters) > 0 {
		t.Errorf("letters: %+v, %v", letters, err)
	}
	totals := b.gateway.Totals()
	t.Logf("%d transfers answered, %d verdicts, of which %d flagged; %d messages with %d calls (%d faults)", p.posted, len(verdicts), expected.flagged,
		totals.Sent, totals.Calls, b.faults)
	if expected.flagged == 0 || expected.flagged == len(verdicts) {
		t.Error("the rules say the same of all")
	}
	for _, process := range b.processes {
		stopAll(t, process)
	}
	ledgertest.CheckBooks(t, b.pg.DB)
}

// records are those of the ledger, in the order of decision.
func (b *consumerBench) records(t *testing.T) []journal.Record {
	t.Helper()
	feed := b.journal.Feed()
	ledgers, err := feed.Unread(t.Context(), nil)
	if err != nil || len(ledgers) != 1 {
		t.Fatalf("%+v, %v", ledgers, err)
	}
	var all []journal.Record
	for last := int64(0); ; last = all[len(all)-1].Sequence {
		list, err := feed.Records(t.Context(), ledgers[0].LedgerID, last, 500)
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 0 {
			return all
		}
		all = append(all, list...)
	}
}

// expectation is what should have come of the records of a ledger.
type expectation struct {
	// verdicts has the rules that each posted transfer breaks, by its id.
	verdicts map[string][]string
	flagged  int
	// messages has who is to be told of which transfer.
	messages map[string]bool
}

// expectedOf goes through the records alone and in their order. The rules are those of tightRules, written out once more and without any bound on
// what is remembered.
func expectedOf(records []journal.Record) expectation {
	e := expectation{verdicts: map[string][]string{}, messages: map[string]bool{}}
	type payment struct {
		at     time.Time
		payee  ledger.AccountID
		amount decimal.Decimal
	}
	paid := map[ledger.AccountID][]payment{}
	for _, r := range records {
		t := r.Transfer
		if t == nil || t.Refusal != nil {
			continue
		}
		kind := t.Kind()
		for _, m := range r.Movements {
			goes := m.Posted.Sign()
			tells := kind == ledger.Plain || kind == ledger.Capture || kind.GoesBack() && goes > 0
			if goes != 0 && tells && len(m.Account) > 7 && m.Account[:7] == "wallet:" {
				e.messages[string(t.ID)+" "+string(m.Account)] = true
			}
		}
		payer, payee := t.Parties()
		broken := []string{}
		if (kind == ledger.Plain || kind == ledger.Hold) && len(payer) > 7 && payer[:7] == "wallet:" {
			amount := decimal.Zero
			for _, entry := range t.Entries {
				if entry.Account == payer && entry.Direction == ledger.Debit {
					amount = amount.Add(entry.Amount)
				}
			}
			lately, again, known := 0, false, false
			for _, before := range paid[payer] {
				age := t.PostedAt.Sub(before.at).Abs()
				if age < 5*time.Second {
					lately++
				}
				again = again || age < 3*time.Second && before.payee == payee && before.amount.Equal(amount)
				known = known || age < time.Hour && before.payee == payee
			}
			for _, rule := range []struct {
				name   string
				broken bool
			}{
				{"large", amount.GreaterThan(decimal.NewFromInt(25))}, {"often", lately >= 6}, {"again", again},
				{"stranger", !known && amount.GreaterThan(decimal.NewFromInt(15))},
			} {
				if rule.broken {
					broken = append(broken, rule.name)
				}
			}
			paid[payer] = append(paid[payer], payment{t.PostedAt, payee, amount})
		}
		if len(broken) > 0 {
			e.flagged++
		}
		e.verdicts[string(t.ID)] = broken
	}
	return e
}

// verdicts reads what is committed in the topic of verdicts, to its end.
func (b *consumerBench) verdicts(t *testing.T) (list []*khatav1.FraudVerdict) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), eventPatience)
	defer cancel()
	client := b.cluster.Client(t, kgo.ConsumeTopics(b.topics.Verdicts()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer client.Close()
	ends, err := kadm.NewClient(client).ListCommittedOffsets(ctx, b.topics.Verdicts())
	if err != nil {
		t.Fatal(err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	for len(left) > 0 && ctx.Err() == nil {
		for _, r := range client.PollFetches(ctx).Records() {
			if r.Offset >= left[r.Partition]-1 {
				delete(left, r.Partition)
			}
			if r.Attrs.IsControl() {
				continue
			}
			v := &khatav1.FraudVerdict{}
			if err := proto.Unmarshal(r.Value, v); err != nil {
				t.Fatal(err)
			}
			list = append(list, v)
		}
	}
	return list
}

func (b *consumerBench) checkVerdicts(t *testing.T, verdicts []*khatav1.FraudVerdict, want map[string][]string) {
	t.Helper()
	got := map[string][]string{}
	for _, v := range verdicts {
		if _, twice := got[v.TransferId]; twice {
			t.Errorf("there are two verdicts on %s", v.TransferId)
		}
		broken := []string{}
		for _, reason := range v.Reasons {
			broken = append(broken, reason.Rule)
		}
		got[v.TransferId] = broken
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s", diff)
	}
}

// checkMessages holds what the gateway was asked against what there was to tell.
func (b *consumerBench) checkMessages(t *testing.T, want map[string]bool) {
	t.Helper()
	list := rowsOf(t, b.pg.DB, `SELECT transfer_id || ' ' || account FROM khata_sms.message`, pgx.RowTo[string])
	for _, about := range list {
		if !want[about] {
			t.Errorf("a message is about %s, which nobody was to be told of, or twice", about)
		} else {
			want[about] = false
		}
	}
	totals := b.gateway.Totals()
	if totals.Sent != len(list) || totals.Calls < totals.Sent || totals.Calls > totals.Sent+b.faults || totals.Reused > 0 || totals.Refused > 0 {
		text, _ := json.Marshal(totals)
		t.Errorf("the gateway was asked %s, for %d messages with %d faults", text, len(list), b.faults)
	}
}
