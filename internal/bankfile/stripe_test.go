package bankfile_test

import (
	"strings"
	"testing"

	"github.com/khata-ledger/khata/internal/bankfile"
)

const activity = `"balance_transaction_id","created_utc","available_on_utc","currency","gross","fee","net",` +
	`"reporting_category","source_id","description","payment_intent_id","automatic_payout_id"
"txn_1","2024-03-01 23:59:59","2024-03-05 00:00:00","usd","100.00","3.20","96.80","charge","ch_1","Order 7, ""gift""","pi_1","po_1"
"txn_2","2024-03-02 08:00:00","2024-03-05 00:00:00","usd","-100.00","0.00","-100.00","refund","re_1","","pi_1","po_1"
"txn_3","2024-03-02 08:00:00","2024-03-05 00:00:00","jpy","5000","180","4820","charge","ch_2","","",""
`

func TestStripe(t *testing.T) {
	t.Parallel()
	file, refused := parse(t, []byte(activity), bankfile.Options{})
	if refused != nil || file.Format != bankfile.FormatStripe || len(file.Statements) != 2 {
		t.Fatalf("%v, %+v", refused, file)
	}
	dollars, yen := file.Statements[0], file.Statements[1]
	l := dollars.Lines[0]
	want := bankfile.References{Source: "ch_1", Transaction: "pi_1", Batch: "po_1"}
	if l.Amount.StringFixed(2) != "96.80" || l.Gross.StringFixed(2) != "100.00" || l.Fee.StringFixed(2) != "3.20" ||
		l.BookingDate.String() != "2024-03-01" ||
		l.ValueDate.String() != "2024-03-05" || l.References != want || l.Code != "charge" || l.ExternalID != "txn_1" ||
		l.Description != `Order 7, "gift"` {
		t.Errorf("%+v", l)
	}
	if sum, n := booked(dollars); sum.StringFixed(2) != "-3.20" || n != 2 || state(dollars.Checks, bankfile.CheckNet) != bankfile.CheckHeld {
		t.Errorf("%d lines of %s", n, sum)
	}
	// Yen have no decimals: the report is in major units, 5000 is 5000 yen.
	if yen.Currency != "JPY" || yen.Lines[0].Amount.String() != "4820" {
		t.Errorf("%+v", yen)
	}
	for name, c := range map[string]struct {
		old, changed string
		reason       bankfile.Reason
	}{
		"a net that is wrong":   {"96.80", "96.81", bankfile.ReasonTotals},
		"a fee that is wrong":   {`"3.20"`, `"3.2"`, ""},
		"cents read as dollars": {`"180","4820"`, `"1.80","4998.20"`, bankfile.ReasonScale},
		"a row too short":       {`,"pi_1","po_1"`, `,"pi_1"`, bankfile.ReasonMalformed},
		"no amount":             {`"96.80"`, `""`, bankfile.ReasonMalformed},
		"no time":               {"2024-03-01 23:59:59", "", ""}, // then the day on which it is available
		"a time that is none":   {"2024-03-01 23:59:59", "yesterday", bankfile.ReasonMalformed},
		"no currency":           {`"usd"`, `""`, bankfile.ReasonMalformed},
		"no fee column":         {`"fee"`, `"fees"`, bankfile.ReasonNotThisFormat},
	} {
		_, refused := parse(t, []byte(strings.Replace(activity, c.old, c.changed, 1)), bankfile.Options{})
		if (refused == nil) != (c.reason == "") || refused != nil && refused.Reason != c.reason {
			t.Errorf("%s: %v; want %s", name, refused, c.reason)
		}
	}
	// The order of the columns, and the zone of the dates, are up to whoever makes the report.
	payouts := "automatic_payout_id,automatic_payout_effective_at,balance_transaction_id,created,net,fee,gross,currency,reporting_category\n" +
		"po_1,2024-03-05 00:00:00,txn_1,2024-03-02 05:59:59,96.80,3.20,100.00,usd,charge\n"
	file, refused = parse(t, []byte(payouts), bankfile.Options{})
	if refused != nil || file.Statements[0].Lines[0].BookingDate.String() != "2024-03-02" || file.Statements[0].Lines[0].References.Batch != "po_1" {
		t.Errorf("%v %+v", refused, file.Statements)
	}
	header, _, _ := strings.Cut(activity, "\n")
	if _, refused := parse(t, []byte(header+"\n"), bankfile.Options{}); refused == nil || refused.Reason != bankfile.ReasonEmpty {
		t.Errorf("no rows: %v", refused)
	}
}
