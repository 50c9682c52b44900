package support

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

func (f *Found) ids() string {
	var list []string
	for _, h := range f.Hits {
		list = append(list, string(h.ID))
	}
	return strings.Join(list, " ")
}

// TestFind finds by each of the ways.
func TestFind(t *testing.T) {
	t.Parallel()
	paymentID := func(user, key string) ledger.TransferID {
		sum := sha256.Sum256([]byte(user + " " + key))
		return ledger.TransferID(ledger.ReservedPrefix + "TXN-" + base32Digits.EncodeToString(sum[:])[:26])
	}
	o := setup(t, Config{PaymentID: paymentID})
	begun := time.Now().Add(-time.Second)
	o.pay(t, "order-1", "500.00")
	o.pay(t, "order-2", "20.00")
	o.post(t, ledger.TransferSpec{
		ID: "order-3", Entries: ledger.Simple("wallet:shimul", "wallet:poor", dec("20"), "BDT"),
		Metadata: ledger.Metadata(`{"customer":{"phones":["+8801711000000"]},"reference":"INV-7","order":7755}`),
	})
	number := paymentID("u1", "key-key-key-key-1")
	if result, err := o.journal.PostWith(t.Context(), "u1", main, ledger.TransferSpec{
		ID: number, Entries: ledger.Simple("wallet:shimul", "wallet:shop", dec("3"), "BDT"),
	}, nil, nil); err != nil || result.Err != nil {
		t.Fatal(err, result.Err)
	}
	s := spec("order-1", "5", "0")
	r := o.ask(t, rina, s, Waiting)
	if _, err := o.decide(t, karim, r, Approve); err != nil {
		t.Fatal(err)
	}
	refund := string(RefundID(s.Key))
	until := time.Now().Add(time.Minute)
	amount := ptr(dec("20"))
	for name, c := range map[string]struct {
		q         Query
		want, why string
	}{
		"an id":                           {Query{Text: "order-2"}, "order-2", "transfer id"},
		"an id with spaces around it":     {Query{Text: " order-2 "}, "order-2", "transfer id"},
		"nothing":                         {Query{Text: "order-9"}, "", ""},
		"a number":                        {Query{Text: strings.ToLower(strings.TrimPrefix(string(number), ledger.ReservedPrefix))}, string(number), "number of the payment"},
		"a key and its user":              {Query{Text: "key-key-key-key-1", User: "u1"}, string(number), "idempotency key of u1"},
		"a key of somebody else":          {Query{Text: "key-key-key-key-1", User: "u2"}, "", ""},
		"a key alone":                     {Query{Text: "key-key-key-key-1"}, "", ""},
		"a key within a time":             {Query{Text: "key-key-key-key-1", Since: begun, Until: until}, string(number), "idempotency key of u1"},
		"a key within an account":         {Query{Text: "key-key-key-key-1", Account: "wallet:shop"}, string(number), "idempotency key of u1"},
		"a form's key":                    {Query{Text: s.Key}, "order-1 " + refund, "key of request 1"},
		"a phone within a time":           {Query{Text: "+8801711000000", Since: begun, Until: until}, "order-3", "metadata"},
		"a phone within an account":       {Query{Text: "+8801711000000", Account: "wallet:poor"}, "order-3", "metadata"},
		"a phone within another account":  {Query{Text: "+8801711000000", Account: "wallet:shop"}, "", ""},
		"a reference":                     {Query{Text: "INV-7", Account: "wallet:shimul"}, "order-3", "metadata"},
		"an order number":                 {Query{Text: "7755", Account: "wallet:shimul"}, "order-3", "metadata"},
		"a part of a reference":           {Query{Text: "INV-", Account: "wallet:shimul"}, "", ""},
		"an amount in an account":         {Query{Account: "wallet:shimul", Amount: amount}, "order-3 order-2", "amount"},
		"an amount in a time":             {Query{Since: begun, Until: until, Amount: amount}, "order-3 order-2", "amount"},
		"an amount before all":            {Query{Since: begun.Add(-time.Hour), Until: begun, Amount: amount}, "", ""},
		"an account since a time to come": {Query{Account: "wallet:shimul", Since: until}, "", ""},
		"an account":                      {Query{Account: "wallet:poor"}, "order-3", "entry of wallet:poor"},
		"all since a time":                {Query{Since: begun}, refund + " " + string(number) + " order-3 order-2 order-1", "time"},
		"all of a time":                   {Query{Since: begun, Until: until}, refund + " " + string(number) + " order-3 order-2 order-1", "time"},
	} {
		f, err := o.Find(t.Context(), rina, c.q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.ids() != c.want || c.want != "" && !strings.Contains(strings.Join(f.Hits[0].Why, ", "), c.why) || f.Next != 0 {
			t.Errorf("%s: %s, %+v", name, f.ids(), f)
		}
	}
	for name, q := range map[string]Query{
		"nowhere":     {},
		"too long":    {Since: begun.Add(-32 * 24 * time.Hour), Until: begun},
		"half a time": {Until: until}, "too long ago": {Since: begun.Add(-32 * 24 * time.Hour)}, "backwards": {Account: "x", Since: until, Until: begun}, "an amount nowhere": {Text: "x", Amount: amount},
		"a user alone": {User: "u"}, "NUL": {Text: "a\x00b"},
	} {
		_, err := o.Find(t.Context(), rina, q)
		if ledger.CodeOf(err) != ledger.CodeInvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err := o.Find(t.Context(), rina, Query{Account: "wallet:nobody"})
	mustCode(t, err, ledger.CodeAccountNotFound)
	if got := o.query(t, `SELECT detail->>'text' FROM audit_event WHERE action = 'transfer.find' AND detail->>'account' = 'wallet:poor' AND detail->>'text' IS NOT NULL`); got != "+8801711000000" {
		t.Errorf("the audit has %q", got)
	}
}

// TestFind_Pages goes on from answer to answer, and finds each once; and reads no more than it may.
func TestFind_Pages(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	const many = 2*lookAccount/1000 + 3
	var specs []ledger.TransferSpec
	for n := range many * 1000 {
		to := ledger.AccountID("wallet:shop")
		if n%1000 == 7 {
			to = "wallet:poor"
		}
		specs = append(specs, ledger.TransferSpec{
			ID: ledger.TransferID(fmt.Sprintf("t-%d", n)), Entries: ledger.Simple("wallet:shimul", to, dec(fmt.Sprint(n%1000+1)), "BDT"),
		})
	}
	for begin := 0; begin < len(specs); begin += 10_000 {
		if _, err := o.journal.Post(t.Context(), "payments", main, specs[begin:min(begin+10_000, len(specs))]); err != nil {
			t.Fatal(err)
		}
	}
	for name, q := range map[string]Query{
		"in an account": {Account: "wallet:shimul", Amount: ptr(dec("8")), Limit: 2},
		"in a ledger":   {Since: time.Now().Add(-time.Hour), Until: time.Now().Add(time.Hour), Amount: ptr(dec("8")), Limit: 2},
	} {
		seen := map[ledger.TransferID]bool{}
		calls := 0
		for {
			calls++
			f, err := o.Find(t.Context(), rina, q)
			if err != nil {
				t.Fatal(err)
			}
			if f.Looked > lookLedger || q.Account != "" && f.Looked > lookAccount || len(f.Hits) > 2 || f.Looked > 0 && f.Back.IsZero() {
				t.Errorf("%s: %+v", name, f)
			}
			for _, h := range f.Hits {
				if seen[h.ID] {
					t.Errorf("%s: %s is found twice", name, h.ID)
				}
				seen[h.ID] = true
			}
			if q.Before = f.Next; q.Before == 0 {
				break
			}
		}
		if len(seen) != many {
			t.Errorf("%s: %d are found in %d calls, want %d", name, len(seen), calls, many)
		}
	}
	// What is not there is looked for as far as one call goes, and no further.
	f, err := o.Find(t.Context(), rina, Query{Account: "wallet:shimul", Amount: ptr(dec("9999"))})
	if err != nil || f.Looked > lookAccount || f.Looked < lookAccount-1 || f.Next == 0 {
		t.Errorf("%+v %v", f, err)
	}
}

// TestAudit_List lists by each filter, page by page.
func TestAudit_List(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	const many = 3000
	o.db.Exec(t, fmt.Sprintf(`INSERT INTO audit_event (ledger_id, event_id, at, actor, action, object_kind, object_id, address, outcome, detail)
		SELECT n %% 2, gen_random_uuid(), '2026-01-01'::timestamptz + (n / 4) * interval '1 second', 'a' || n %% 10, 'x.' || n %% 3, 'transfer', 't' || n %% 100, '', 'done',
		json_build_object('n', n::text) FROM generate_series(0, %d - 1) n`, many))
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		filter AuditFilter
		want   func(n int) bool
	}{
		"all":                     {AuditFilter{}, func(int) bool { return true }},
		"an actor":                {AuditFilter{Actor: "a3"}, func(n int) bool { return n%10 == 3 }},
		"an action and an actor":  {AuditFilter{Actor: "a3", Action: "x.1"}, func(n int) bool { return n%10 == 3 && n%3 == 1 }},
		"an object":               {AuditFilter{Object: Object{"transfer", "t5"}}, func(n int) bool { return n%100 == 5 }},
		"an object and an action": {AuditFilter{Object: Object{"transfer", "t5"}, Action: "x.1"}, func(n int) bool { return n%100 == 5 && n%3 == 1 }},
		"an action":               {AuditFilter{Action: "x.2"}, func(n int) bool { return n%3 == 2 }},
		"a time":                  {AuditFilter{Since: day.Add(10 * time.Second), Until: day.Add(20 * time.Second)}, func(n int) bool { return n/4 >= 10 && n/4 < 20 }},
	} {
		for _, parity := range []int{0, 1} {
			f := c.filter
			f.Limit = 70
			if parity == 1 {
				f.Ledger = main
			}
			var want, got []string
			for n := many - 1; n >= 0; n-- {
				if n%2 == parity && c.want(n) {
					want = append(want, fmt.Sprint(n))
				}
			}
			for {
				page, err := o.audit.List(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range page.Events {
					got = append(got, e.Detail["n"])
				}
				if f.Before = page.Next; f.Before == nil {
					break
				}
			}
			if strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%s: %d events, want %d", name, len(got), len(want))
			}
		}
	}
	if page, err := o.audit.Show(t.Context(), boss, AuditFilter{Ledger: main, Action: ActionAuditList}); err != nil || len(page.Events) != 1 ||
		page.Events[0].Actor != boss || page.Events[0].Outcome != Seen {
		t.Errorf("who looks at the audit is not in it: %+v %v", page, err)
	}
	_, err := o.audit.List(t.Context(), AuditFilter{Ledger: "nowhere"})
	mustCode(t, err, ledger.CodeLedgerNotFound)
	_, err = o.audit.List(t.Context(), AuditFilter{Object: Object{Kind: "transfer"}})
	mustCode(t, err, ledger.CodeInvalidArgument)
}
