package suspect

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/ledger"
)

// TestGroups has histories of one day and what is to be found in each.
func TestGroups(t *testing.T) {
	t.Parallel()
	const hour = "60m"
	for name, c := range map[string]struct {
		history []string
		want    []string
	}{
		"nothing":                           {nil, nil},
		"one":                               {[]string{"a 0s 500"}, nil},
		"two":                               {[]string{"a 0s 500", "b 4s 500"}, []string{"open high: a b"}},
		"of one microsecond":                {[]string{"a 0s 500", "b 0s 500"}, []string{"open high: a b"}},
		"three in a row":                    {[]string{"a 0s 500", "b 4s 500", "c 8s 500"}, []string{"open high: a b c"}},
		"three, each of which can be meant": {[]string{"a 0s 500", "b 15s 500", "c 2m 500"}, []string{"open medium: a b c"}},
		"three, two of them at one press":   {[]string{"a 0s 500", "b 14.9s 500", "c 2m 500"}, []string{"open high: a b c"}},
		"three of one order":                {[]string{"a 0s 500 order_id=7", "b 1m 500 order_id=7", "c 2m 500 order_id=7"}, []string{"open high: a b c"}},
		"two, and one long before":          {[]string{"a 0s 500", "b 2h 500", "c 121m 500"}, []string{"open high: a b c"}},
		"three, and two long afterwards":    {[]string{"a 0s 500", "b 1m 500", "c 2m 500", "d 8h 500", "e 485m 500"}, []string{"open high: a b c d e"}},
		"there and back":                    {[]string{"a 0s 500", "b 4s 500 payee>payer"}, nil},
		"to somebody else":                  {[]string{"a 0s 500", "b 4s 500 payer>other"}, nil},
		"from somebody else":                {[]string{"a 0s 500", "b 4s 500 other>payee"}, nil},
		"another amount":                    {[]string{"a 0s 500", "b 4s 500.01"}, nil},
		"the same amount, written longer":   {[]string{"a 0s 500", "b 4s 500.00"}, []string{"open high: a b"}},
		"another currency":                  {[]string{"a 0s 500", "b 4s 500 payer-usd>payee-usd"}, nil},
		"ten minutes":                       {[]string{"a 0s 500", "b 10m 500"}, []string{"open high: a b"}},
		"ten minutes and a microsecond":     {[]string{"a 0s 500", "b 10m0.000001s 500"}, []string{"open medium: a b"}},
		"an hour":                           {[]string{"a 0s 500", "b " + hour + " 500"}, []string{"open medium: a b"}},
		"an hour and a microsecond":         {[]string{"a 0s 500", "b 60m0.000001s 500"}, []string{"open low: a b"}},
		"a day":                             {[]string{"a 0s 500", "b 24h 500"}, []string{"open low: a b"}},
		"a day and a microsecond":           {[]string{"a 0s 500", "b 24h0.000001s 500"}, nil},
		"a clock set back by half an hour":  {[]string{"a 30m 500", "b 0s 500"}, []string{"open medium: a b"}},
		"a clock set back by a day":         {[]string{"a 24h 500", "b 0s 500"}, []string{"open low: a b"}},
		"a clock set back by more":          {[]string{"a 24h0.000001s 500", "b 0s 500"}, nil},
		"the same order":                    {[]string{"a 0s 500 order_id=7", "b 20h 500 order_id=7"}, []string{"open medium: a b"}},
		"the same order within an hour":     {[]string{"a 0s 500 order_id=7", "b 50m 500 order_id=7"}, []string{"open high: a b"}},
		"another order":                     {[]string{"a 0s 500 order_id=7", "b 4s 500 order_id=8"}, []string{"open low: a b"}},
		"the same order, another part":      {[]string{"a 0s 500 order_id=7 Instalment-No=1", "b 4s 500 order_id=7 Instalment-No=2"}, []string{"open low: a b"}},
		"the same order, another number":    {[]string{"a 0s 500 order_id=7 end_to_end_id=1", "b 4s 500 order_id=7 end_to_end_id=2"}, []string{"open high: a b"}},
		"another order, the same number":    {[]string{"a 0s 500 order_id=7 ref=1", "b 4s 500 order_id=8 ref=1"}, []string{"open low: a b"}},
		"another number of the payment":     {[]string{"a 0s 500 end_to_end_id=1", "b 4s 500 end_to_end_id=2"}, []string{"open low: a b"}},
		"an order, and none":                {[]string{"a 0s 500 order_id=7", "b 4s 500"}, []string{"open high: a b"}},
		"another id of the request":         {[]string{"a 0s 500 request_id=7", "b 4s 500 request_id=8"}, []string{"open high: a b"}},
		"the same text":                     {[]string{"a 0s 500 description=tea", "b 4h 500 description=tea"}, []string{"open low: a b"}},
		"another text":                      {[]string{"a 0s 500 description=tea", "b 4s 500 description=rice"}, []string{"open medium: a b"}},
		"the same order, another text":      {[]string{"a 0s 500 description=tea ref=1", "b 4s 500 description=rice ref=1"}, []string{"open high: a b"}},
		"value dates of two months":         {[]string{"a 0s 500 value=2026-01-01", "b 4s 500 value=2026-02-01"}, []string{"open low: a b"}},
		"the one between is of another one": {[]string{"a 0s 500 ref=1", "b 4m 500 ref=2", "c 8m 500 ref=1"}, []string{"open high: a b c"}},
		"two groups": {
			[]string{"a 0s 500", "b 4s 20", "c 5s 500", "d 20m 20"}, []string{"open medium: b d", "open high: a c"},
		},
		"a chain of days": {
			[]string{"a 0s 500", "b 20h 500", "c 30h 500", "d 40h 500", "e 100h 500"}, []string{"open low: b c d", "open low: a b"},
		},
		"a day of a group exactly": {[]string{"a 0s 500", "b 20h 500", "c 24h 500"}, []string{"open low: a b c"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, batch := range []int{5_000, 1} { // All at once, and one after the other.
				d := setup(t)
				d.config.Batch = batch
				d.at(t, c.history...)
				d.follow(t)
				if diff := cmp.Diff(append([]string{}, c.want...), d.suspectsOf(t, everything)); diff != "" {
					t.Errorf("in batches of %d (-want +got):\n%s", batch, diff)
				}
			}
		})
	}
}

// The train story's ending. Without Khata's keys the app has sent the same payment under two; a clerk finds it, and refunds one of them, once.
func TestTrain(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.post(t, pay("first-key", "500"))
	d.post(t, pay("second-key", "500"), pay("groceries", "120"))
	d.follow(t)
	g := d.only(t)
	if g.text() != "open high: first-key second-key" {
		t.Fatal(g.text())
	}
	later := g.Members[g.Pair[1]]
	// Two clerks at once, each with a request of his own, who both have seen that nothing was refunded.
	for i, by := range []string{clerk, colleague} {
		results, err := d.journal.Post(t.Context(), by, main, []ledger.TransferSpec{
			refund(ledger.TransferID("refund-by-"+by), later.ID, later.Progress.Refundable.String(), later.Progress.Refunded.String()),
		})
		if err != nil || results[0].Err != nil {
			t.Fatal(err, results)
		}
		if refused := results[0].Transfer.Refusal; (refused == nil) != (i == 0) {
			t.Errorf("the refund of %s: %v", by, refused)
		}
	}
	// At once, before anybody has followed the journal.
	if got := d.suspectsOf(t, Filter{}); len(got) != 0 {
		t.Error(got)
	}
	d.follow(t)
	if got := d.only(t).text(); got != "refunded high: first-key second-key" {
		t.Error(got)
	}
	sums := query[string](t, d, `SELECT string_agg(account_id || ' ' || sum, ', ' ORDER BY account_id) FROM (
		SELECT account_id, sum(amount)::text FROM entry JOIN account USING (ledger_id, account_no) GROUP BY account_id) s (account_id, sum)`)
	if sums != "payee -620.00, payer 620.00" && sums != "payee -620, payer 620" {
		t.Errorf("the balances are %s", sums)
	}
	if sum := query[string](t, d, `SELECT trim_scale(sum(amount))::text FROM entry`); sum != "0" {
		t.Errorf("the trial balance is %s", sum)
	}
}

// What has gone back, in whatever way, is no double charge any more.
func TestRefunded(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		steps func(*desk)
		want  string
	}{
		"in part":      {func(d *desk) { d.post(t, refund("r", "b", "100", "0")) }, "open high: a b c"},
		"one of three": {func(d *desk) { d.post(t, refund("r", "b", "", "0")) }, "open high: a b c"},
		"two of three": {func(d *desk) { d.post(t, refund("r", "b", "", "0"), refund("s", "c", "500", "0")) }, "refunded high: a b c"},
		"all": {func(d *desk) {
			d.post(t, refund("r", "b", "", "0"), refund("s", "c", "", "0"), refund("q", "a", "", "0"))
		}, "refunded high: a b c"},
		"in parts": {func(d *desk) {
			d.post(t, refund("r", "b", "", "0"), refund("s", "c", "1", "0"), refund("q", "c", "499", "1"))
		}, "refunded high: a b c"},
		"by a reversal":  {func(d *desk) { d.post(t, reversal("r", "a"), reversal("s", "b")) }, "refunded high: a b c"},
		"and paid again": {func(d *desk) { d.post(t, refund("r", "b", "", "0"), refund("s", "c", "", "0"), pay("d", "500")) }, "open high: a b c d"},
	} {
		for when, first := range map[string]bool{"after": true, "before": false} {
			d := setup(t)
			d.post(t, pay("a", "500"), pay("b", "500"), pay("c", "500"))
			if first {
				d.follow(t)
			}
			c.steps(d)
			d.follow(t)
			if got := d.only(t).text(); got != c.want {
				t.Errorf("%s, %s they were found: %s, want %s", name, when, got, c.want)
			}
			d.checkList(t)
		}
	}
	// A payment that was refunded and made again is none.
	d := setup(t)
	d.post(t, pay("a", "500"))
	d.post(t, refund("r", "a", "", "0"))
	d.post(t, pay("b", "500"))
	d.follow(t)
	if got := d.suspectsOf(t, Filter{}); len(got) != 0 {
		t.Error(got)
	}
}

func reversal(id, original ledger.TransferID) ledger.TransferSpec {
	return ledger.TransferSpec{ID: id, Terms: &ledger.Terms{Kind: ledger.Reversal, Origin: original}}
}

// Kinds: two captures may be one, and holds, voids, refunds and refusals are no payments.
func TestKinds(t *testing.T) {
	t.Parallel()
	d := setup(t)
	hold := func(id ledger.TransferID, amount string) ledger.TransferSpec {
		s := pay(id, amount)
		s.Terms = &ledger.Terms{Kind: ledger.Hold}
		return s
	}
	step := func(id, origin ledger.TransferID, kind ledger.Kind) ledger.TransferSpec {
		return ledger.TransferSpec{ID: id, Terms: &ledger.Terms{Kind: kind, Origin: origin}}
	}
	d.post(t, hold("h1", "10"), hold("h2", "10"), hold("h3", "20"), hold("h4", "20"), pay("p1", "30"), pay("p2", "31"), pay("p3", "40"), pay("p4", "40"))
	d.post(t, step("c1", "h1", ledger.Capture), step("c2", "h2", ledger.Capture), step("v1", "h3", ledger.Void), step("v2", "h4", ledger.Void))
	d.post(t, refund("r1", "p1", "5", "0"), refund("r2", "p2", "5", "0"), refund("r3", "p3", "40", "0"), refund("r4", "p4", "40", "0"))
	again := pay("p1", "30") // the same id again
	d.post(t, again, again)
	d.post(t, ledger.TransferSpec{ID: "three", Entries: []ledger.Entry{
		{Account: "payer", Direction: ledger.Debit, Amount: dec("10")}, {Account: "payee", Direction: ledger.Credit, Amount: dec("9")},
		{Account: "fees", Direction: ledger.Credit, Amount: dec("1")},
	}}, ledger.TransferSpec{ID: "three-again", Entries: []ledger.Entry{
		{Account: "fees", Direction: ledger.Credit, Amount: dec("1")}, {Account: "payee", Direction: ledger.Credit, Amount: dec("9.00")},
		{Account: "payer", Direction: ledger.Debit, Amount: dec("10")},
	}}, ledger.TransferSpec{ID: "another-fee", Entries: []ledger.Entry{
		{Account: "payer", Direction: ledger.Debit, Amount: dec("10")}, {Account: "payee", Direction: ledger.Credit, Amount: dec("8")},
		{Account: "fees", Direction: ledger.Credit, Amount: dec("2")},
	}})
	// What is refused moves nothing.
	floor := dec("0")
	if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, []ledger.AccountSpec{{ID: "poor", Type: ledger.Liability, Currency: "BDT", Floor: &floor}}); err != nil {
		t.Fatal(err)
	}
	for _, id := range []ledger.TransferID{"no1", "no2"} {
		results, err := d.journal.Post(t.Context(), clerk, main, []ledger.TransferSpec{{ID: id, Entries: ledger.Simple("poor", "payee", dec("7"), "")}})
		if err != nil || results[0].Transfer == nil || results[0].Transfer.Refusal == nil {
			t.Fatalf("%v %+v", err, results)
		}
	}
	d.follow(t)
	want := []string{"open high: three three-again", "open high: c1 c2", "refunded high: p3 p4"}
	if diff := cmp.Diff(want, d.suspectsOf(t, everything)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"open high: three three-again"}, d.suspectsOf(t, Filter{Account: "fees"})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A robot that pays the same every minute: the groups are bounded, and everybody is in one.
func TestMany(t *testing.T) {
	t.Parallel()
	for _, batch := range []int{5_000, 77} {
		d := setup(t)
		d.config.Batch = batch
		d.db.Exec(t, `INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller)
			SELECT 1, 'm' || i, $1::timestamptz + i * interval '1 minute', ARRAY[a.account_no, b.account_no], ARRAY[500, -500], 'psql'
			  FROM account a, account b, generate_series(1, 400) i WHERE a.account_id = 'payer' AND b.account_id = 'payee' ORDER BY i`, noon)
		d.follow(t)
		// A new group takes one member of the group before it with it.
		if got := query[string](t, d, `SELECT count(DISTINCT sequence) || ' in ' || count(DISTINCT group_no) || ' of ' || max(ordinal) FROM suspect_member`); got != "400 in 9 of 50" {
			t.Errorf("in batches of %d: %s", batch, got)
		}
		if got := len(d.suspectsOf(t, Filter{Limit: 2})); got != 9 {
			t.Errorf("%d are listed", got)
		}
		d.checkList(t)
	}
}

// Different movements whose fingerprints collide are no suspects, and equal ones among them are.
func TestCollisions(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.blur = func(int64) int64 { return 7 }
	d.config.Batch = 3
	d.at(t, "a 0s 500", "b 1s 20", "c 2s 500 payee>payer", "d 3s 500 payer>other", "e 4s 500", "f 5s 20", "g 6s 500 payer-usd>payee-usd", "h 7s 500")
	d.follow(t)
	if diff := cmp.Diff([]string{"open high: a e h", "open high: b f"}, d.suspectsOf(t, everything)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// The window has the last day and no more.
func TestWindow(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.config.Batch = 1
	d.at(t, "a 0s 500", "b 25h 20", "c 25h0.000001s 30", "d 200h 40")
	want := []string{"1", "1", "1", "1"}
	for i := range want {
		if n, _, err := d.batch(t.Context(), 1); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		want[i] = query[string](t, d, `SELECT string_agg(transfer_id, ' ' ORDER BY transfer_id) FROM suspect_window JOIN transfer USING (ledger_id, sequence)`)
	}
	if diff := cmp.Diff([]string{"a", "a b", "b c", "d"}, want); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// Transfers of long ago that a hand inserts later do not empty it.
	d.at(t, "old -10000h 500", "e 201h 40")
	d.follow(t)
	if diff := cmp.Diff([]string{"open medium: d e"}, d.suspectsOf(t, everything)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Filters and pages.
func TestSuspects(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.at(t, "a1 0s 1", "a2 1s 1", "b1 1h 2 payer>other", "b2 1h30m 2 payer>other", "c1 2h 3", "c2 5h 3", "d1 6h 4", "d2 6h 4")
	d.follow(t)
	for name, c := range map[string]struct {
		filter Filter
		want   []string
	}{
		"all":                      {Filter{}, []string{"open high: d1 d2", "open low: c1 c2", "open medium: b1 b2", "open high: a1 a2"}},
		"in pages":                 {Filter{Limit: 1}, []string{"open high: d1 d2", "open low: c1 c2", "open medium: b1 b2", "open high: a1 a2"}},
		"medium":                   {Filter{AtLeast: Medium}, []string{"open high: d1 d2", "open medium: b1 b2", "open high: a1 a2"}},
		"high":                     {Filter{AtLeast: High, Limit: 1}, []string{"open high: d1 d2", "open high: a1 a2"}},
		"since":                    {Filter{Since: noon.Add(5 * time.Hour)}, []string{"open high: d1 d2", "open low: c1 c2"}},
		"until":                    {Filter{Until: noon.Add(5 * time.Hour)}, []string{"open medium: b1 b2", "open high: a1 a2"}},
		"an account":               {Filter{Account: "other"}, []string{"open medium: b1 b2"}},
		"an account in all":        {Filter{Account: "payee", Limit: 2}, []string{"open high: d1 d2", "open low: c1 c2", "open high: a1 a2"}},
		"an account without any":   {Filter{Account: "third"}, []string{}},
		"those that were refunded": {Filter{States: []State{Refunded, Dismissed}}, []string{}},
	} {
		if diff := cmp.Diff(c.want, d.suspectsOf(t, c.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	_, err := d.Suspects(t.Context(), "nowhere", Filter{})
	mustCode(t, err, ledger.CodeLedgerNotFound)
	_, err = d.Suspects(t.Context(), main, Filter{Account: "nobody"})
	mustCode(t, err, ledger.CodeAccountNotFound)
	_, err = d.Suspects(t.Context(), main, Filter{Limit: MaxPage + 1})
	mustCode(t, err, ledger.CodeInvalidArgument)
	_, err = d.Suspect(t.Context(), main, 9999)
	mustCode(t, err, ledger.CodeNotFound)
	// A group of another ledger is none of this one.
	if _, err := d.journal.CreateLedger(t.Context(), clerk, "second"); err != nil {
		t.Fatal(err)
	}
	page, err := d.Suspects(t.Context(), main, Filter{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Suspect(t.Context(), "second", page.Groups[0].No)
	mustCode(t, err, ledger.CodeNotFound)
	g, err := d.Suspect(t.Context(), main, page.Groups[2].No)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"posted 30m apart"}, g.Reasons); diff != "" || g.Score != 50 || g.Pair != [2]int{0, 1} {
		t.Errorf("%+v", g)
	}
}
