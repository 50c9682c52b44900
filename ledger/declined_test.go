package ledger_test

import (
	"testing"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger"
)

// What somebody outside has declined is recorded unjudged, and is the same request as without the word.
func TestDecide_Declined(t *testing.T) {
	spec := ledger.TransferSpec{ID: "T", Entries: ledger.Simple("cash", "closed", decimal.New(5, 0), "BDT")}
	declined := spec
	declined.Declined = "cash"
	if err := declined.Validate(); err != nil {
		t.Fatal(err)
	}
	b := page()
	record, replayed, err := b.Decide(declined, "me")
	if err != nil || replayed || record.Refusal == nil || *record.Refusal != (ledger.Refusal{Reason: ledger.CodeDeclinedByGateway, Account: "cash"}) ||
		record.Declined != "" {
		t.Fatalf("%+v %v %v", record, replayed, err)
	}
	if again, replayed, err := b.Decide(spec, "me"); err != nil || !replayed || again != record {
		t.Errorf("the same without the word: %+v %v %v", again, replayed, err)
	}
	b = page()
	judged, _, err := b.Decide(spec, "me")
	if err != nil || judged.Refusal.Reason != ledger.CodeAccountClosed {
		t.Fatalf("%+v %v", judged, err)
	}
	if again, replayed, err := b.Decide(declined, "me"); err != nil || !replayed || again != judged {
		t.Errorf("a record stands: %+v %v %v", again, replayed, err)
	}
	stranger := spec
	stranger.Declined = "nobody"
	held := declined
	held.Terms = &ledger.Terms{Kind: ledger.Hold}
	for _, s := range []ledger.TransferSpec{stranger, held} {
		if ledger.CodeOf(s.Validate()) != ledger.CodeInvalidArgument {
			t.Errorf("%+v is valid", s)
		}
	}
}
