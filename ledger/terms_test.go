package ledger_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"
	"pgregory.net/rapid"

	"github.com/khata-ledger/khata/ledger"
)

// The requests of the tests, by their kinds. An amount of "" is all that is left.

func terms(spec ledger.TransferSpec, change func(*ledger.Terms)) ledger.TransferSpec {
	t := ledger.Terms{Kind: ledger.Plain}
	if spec.Terms != nil {
		t = *spec.Terms
		t.Conditions = slices.Clone(t.Conditions)
	}
	change(&t)
	spec.Terms = &t
	return spec
}

func step(kind ledger.Kind, id, origin ledger.TransferID, text string) ledger.TransferSpec {
	return terms(ledger.TransferSpec{ID: id}, func(t *ledger.Terms) {
		t.Kind, t.Origin = kind, origin
		if text != "" {
			t.Amount = pointer(amount(text))
		}
	})
}

func hold(id ledger.TransferID, from, to ledger.AccountID, text string) ledger.TransferSpec {
	return terms(move(id, from, to, text), func(t *ledger.Terms) { t.Kind = ledger.Hold })
}

func expiring(spec ledger.TransferSpec, at time.Time) ledger.TransferSpec {
	return terms(spec, func(t *ledger.Terms) { t.ExpiresAt = &at })
}

func capture(id, hold ledger.TransferID, text string) ledger.TransferSpec {
	return step(ledger.Capture, id, hold, text)
}

func keepOpen(spec ledger.TransferSpec) ledger.TransferSpec {
	return terms(spec, func(t *ledger.Terms) { t.KeepOpen = true })
}

func void(id, hold ledger.TransferID) ledger.TransferSpec { return step(ledger.Void, id, hold, "") }

func expiry(id, hold ledger.TransferID) ledger.TransferSpec { return step(ledger.Expiry, id, hold, "") }

func refund(id, original ledger.TransferID, text, expected string) ledger.TransferSpec {
	return terms(step(ledger.Refund, id, original, text), func(t *ledger.Terms) {
		t.ExpectedRefunded, t.Reason = pointer(amount(expected)), ledger.ReasonGoodwill
	})
}

func reversal(id, original ledger.TransferID) ledger.TransferSpec {
	return step(ledger.Reversal, id, original, "")
}

func balancing(spec ledger.TransferSpec) ledger.TransferSpec {
	return terms(spec, func(t *ledger.Terms) { t.Balancing, t.Amount = true, pointer(spec.Entries[0].Amount) })
}

// given adds a condition. A balance of "" is none, and so is a version below zero.
func given(spec ledger.TransferSpec, account ledger.AccountID, balance string, version int64) ledger.TransferSpec {
	c := ledger.Condition{Account: account}
	if balance != "" {
		c.Balance = pointer(amount(balance))
	}
	if version >= 0 {
		c.Version = &version
	}
	return terms(spec, func(t *ledger.Terms) { t.Conditions = append(t.Conditions, c) })
}

func TestKind(t *testing.T) {
	t.Parallel()
	for kind, want := range map[ledger.Kind][4]bool{ // of a hold, goes back, a step, moves
		ledger.Plain: {false, false, false, true}, ledger.Hold: {false, false, false, false},
		ledger.Capture: {true, false, true, true}, ledger.Void: {true, false, true, false}, ledger.Expiry: {true, false, true, false},
		ledger.Refund: {false, true, true, true}, ledger.Reversal: {false, true, true, true}, "": {}, "Hold": {},
	} {
		if got := [4]bool{kind.OfHold(), kind.GoesBack(), kind.IsStep(), kind.Moves()}; got != want {
			t.Errorf("%q: got %v, want %v", kind, got, want)
		}
	}
	if s := move("1", "a", "b", "1"); s.Kind() != ledger.Plain || s.Origin() != "" || s.StoredTerms() != "" {
		t.Error("a transfer without terms is not a plain one")
	}
	if s := void("1", "h"); s.Kind() != ledger.Void || s.Origin() != "h" {
		t.Errorf("a void is a %s of %s", s.Kind(), s.Origin())
	}
}

func TestTransferSpec_Validate_Terms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	huge, tiny := decimal.New(1, 1_000_000), decimal.New(1, -1_000_000)
	plain := move("1", "a", "b", "5.00")
	three := transfer("1", debit("a", "5"), credit("b", "3"), credit("c", "2"))
	with := func(spec ledger.TransferSpec, change func(*ledger.TransferSpec)) ledger.TransferSpec {
		change(&spec)
		return spec
	}
	dated := func(spec ledger.TransferSpec) ledger.TransferSpec {
		return with(spec, func(s *ledger.TransferSpec) { s.EffectiveAt = &at })
	}
	after := func(d time.Duration) ledger.TransferSpec {
		return terms(hold("1", "a", "b", "5"), func(t *ledger.Terms) { t.ExpiresAfter = d })
	}
	expected := func(d *decimal.Decimal) ledger.TransferSpec {
		return terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.ExpectedRefunded = d })
	}
	of := func(kind ledger.Kind) func(*ledger.Terms) { return func(t *ledger.Terms) { t.Kind = kind } }
	everyCondition := func(n int) ledger.TransferSpec {
		spec := transfer("1", debit("a", fmt.Sprint(n)))
		for i := range n {
			id := ledger.AccountID(fmt.Sprintf("b%d", i))
			spec.Entries = append(spec.Entries, credit(id, "1"))
			spec = given(spec, id, "0", -1)
		}
		return spec
	}
	cases := map[string]struct {
		spec ledger.TransferSpec
		want string
	}{
		"no kind":                  {terms(plain, of("")), invalid("kind")},
		"another kind":             {terms(plain, of("Hold")), invalid("kind")},
		"a megabyte of kind":       {terms(plain, of(ledger.Kind(strings.Repeat("\xff", 1<<20)))), invalid("kind")},
		"plain, with empty terms":  {terms(plain, of(ledger.Plain)), "OK"},
		"plain, with an origin":    {terms(plain, func(t *ledger.Terms) { t.Origin = "o" }), invalid("transfer")},
		"plain, kept open":         {keepOpen(plain), invalid("transfer")},
		"plain, expires at":        {expiring(plain, at), invalid("transfer")},
		"plain, expires after":     {terms(plain, func(t *ledger.Terms) { t.ExpiresAfter = time.Hour }), invalid("transfer")},
		"plain, expected_refunded": {terms(plain, func(t *ledger.Terms) { t.ExpectedRefunded = &decimal.Zero }), invalid("transfer")},
		"plain, with a reason":     {terms(plain, func(t *ledger.Terms) { t.Reason = ledger.ReasonGoodwill }), invalid("transfer")},
		"plain, another amount":    {terms(plain, func(t *ledger.Terms) { t.Amount = pointer(amount("5")) }), invalid("balancing")},

		"balancing":                    {balancing(plain), "OK"},
		"balancing, dated":             {dated(balancing(plain)), "OK"},
		"balancing, the credit first":  {balancing(transfer("1", credit("b", "5"), debit("a", "5.00"))), "OK"},
		"balancing, without an amount": {terms(plain, func(t *ledger.Terms) { t.Balancing = true }), invalid("balancing")},
		"balancing, another amount":    {terms(balancing(plain), func(t *ledger.Terms) { t.Amount = pointer(amount("5.01")) }), invalid("balancing")},
		"balancing, three entries":     {balancing(three), invalid("entries")},
		"balancing, two debits":        {balancing(transfer("1", debit("a", "5"), debit("b", "5"))), invalid("entries")},
		"balancing, unequal":           {balancing(transfer("1", debit("a", "5"), credit("b", "4"))), invalid("entries")},
		"balancing, no entries":        {balancing(transfer("1", debit("a", "5"))), invalid("entries")},

		"hold":                          {hold("1", "a", "b", "5"), "OK"},
		"hold, the credit first":        {terms(transfer("1", credit("b", "5"), debit("a", "5")), of(ledger.Hold)), "OK"},
		"hold, three entries":           {terms(three, of(ledger.Hold)), invalid("entries")},
		"hold, two credits":             {terms(transfer("1", credit("a", "5"), credit("b", "5")), of(ledger.Hold)), invalid("entries")},
		"hold, unequal":                 {terms(transfer("1", debit("a", "5"), credit("b", "4")), of(ledger.Hold)), invalid("entries")},
		"hold, no entries":              {terms(transfer("1"), of(ledger.Hold)), invalid("entries")},
		"hold, both sides":              {hold("1", "a", "a", "5"), invalid("credit_account")},
		"hold, amount zero":             {hold("1", "a", "b", "0"), invalid("amount")},
		"hold, dated":                   {dated(hold("1", "a", "b", "5")), invalid("effective_at")},
		"hold, balancing":               {balancing(hold("1", "a", "b", "5")), invalid("balancing")},
		"hold, with an amount":          {terms(hold("1", "a", "b", "5"), func(t *ledger.Terms) { t.Amount = pointer(amount("5")) }), invalid("balancing")},
		"hold, with an origin":          {terms(hold("1", "a", "b", "5"), func(t *ledger.Terms) { t.Origin = "o" }), invalid("hold")},
		"hold, kept open":               {keepOpen(hold("1", "a", "b", "5")), invalid("hold")},
		"hold, with a reason":           {terms(hold("1", "a", "b", "5"), func(t *ledger.Terms) { t.Reason = ledger.ReasonOther }), invalid("hold")},
		"hold, expected_refunded":       {terms(hold("1", "a", "b", "5"), func(t *ledger.Terms) { t.ExpectedRefunded = &huge }), invalid("hold")},
		"hold, expires at":              {expiring(hold("1", "a", "b", "5"), at), "OK"},
		"hold, two deadlines":           {expiring(after(time.Hour), at), invalid("hold.expires_after")},
		"hold, at a nanosecond":         {expiring(after(0), at.Add(1)), invalid("hold.expires_at")},
		"hold, at year 10000":           {expiring(after(0), at.AddDate(8000, 0, 0)), invalid("hold.expires_at")},
		"hold, at year 10000 of UTC":    {expiring(after(0), time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("west", -3600))), invalid("hold.expires_at")},
		"hold, at year 0 of UTC":        {expiring(after(0), time.Date(1, 1, 1, 0, 30, 0, 0, time.FixedZone("east", 3600))), invalid("hold.expires_at")},
		"hold, at year 9999 of UTC":     {expiring(after(0), time.Date(10000, 1, 1, 0, 30, 0, 0, time.FixedZone("east", 3600))), "OK"},
		"hold, for a second":            {after(time.Second), "OK"},
		"hold, for less":                {after(time.Second - time.Microsecond), invalid("hold.expires_after")},
		"hold, for less than nothing":   {after(-time.Second), invalid("hold.expires_after")},
		"hold, for ten years":           {after(ledger.MaxHold), "OK"},
		"hold, for longer":              {after(ledger.MaxHold + time.Microsecond), invalid("hold.expires_after")},
		"hold, for some microseconds":   {after(time.Second + time.Microsecond), "OK"},
		"hold, for some nanoseconds":    {after(time.Second + 1), invalid("hold.expires_after")},
		"hold, of an id that we derive": {hold("khata:x", "a", "b", "5"), invalid("transfer_id")},

		"capture":                      {capture("1", "h", "5"), "OK"},
		"capture, dated":               {dated(capture("1", "h", "5")), "OK"},
		"capture, everything":          {capture("1", "h", ""), "OK"},
		"capture, kept open":           {keepOpen(capture("1", "h", "5")), "OK"},
		"capture, of an id of ours":    {capture("1", "khata:x", "5"), "OK"},
		"capture, no hold":             {capture("1", "", "5"), invalid("capture.hold")},
		"capture, no id for a hold":    {capture("1", "a b", "5"), invalid("capture.hold")},
		"capture, of itself":           {capture("1", "1", "5"), invalid("capture.hold")},
		"capture, id empty":            {capture("", "h", "5"), invalid("transfer_id")},
		"capture, id reserved":         {capture("khata:x", "h", "5"), invalid("transfer_id")},
		"capture, amount zero":         {capture("1", "h", "0"), invalid("capture.amount")},
		"capture, amount negative":     {capture("1", "h", "-5"), invalid("capture.amount")},
		"capture, of 39 digits":        {capture("1", "h", nines+"9"), invalid("capture.amount")},
		"capture, huge":                {terms(capture("1", "h", ""), func(t *ledger.Terms) { t.Amount = &huge }), invalid("capture.amount")},
		"capture, tiny":                {terms(capture("1", "h", ""), func(t *ledger.Terms) { t.Amount = &tiny }), invalid("capture.amount")},
		"capture, with entries":        {with(capture("1", "h", "5"), func(s *ledger.TransferSpec) { s.Entries = plain.Entries }), invalid("entries")},
		"capture, with a condition":    {given(capture("1", "h", "5"), "a", "5", -1), invalid("conditions")},
		"capture, balancing":           {terms(capture("1", "h", "5"), func(t *ledger.Terms) { t.Balancing = true }), invalid("capture")},
		"capture, expires at":          {expiring(capture("1", "h", "5"), at), invalid("capture")},
		"capture, expires after":       {terms(capture("1", "h", "5"), func(t *ledger.Terms) { t.ExpiresAfter = time.Hour }), invalid("capture")},
		"capture, with a reason":       {terms(capture("1", "h", "5"), func(t *ledger.Terms) { t.Reason = ledger.ReasonGoodwill }), invalid("capture")},
		"capture, expected_refunded":   {terms(capture("1", "h", "5"), func(t *ledger.Terms) { t.ExpectedRefunded = &decimal.Zero }), invalid("capture")},
		"capture, description too big": {with(capture("1", "h", "5"), func(s *ledger.TransferSpec) { s.Description = strings.Repeat("x", 1025) }), invalid("description")},

		"void":                   {void("1", "h"), "OK"},
		"void, no hold":          {void("1", ""), invalid("void.hold")},
		"void, of itself":        {void("1", "1"), invalid("void.hold")},
		"void, dated":            {dated(void("1", "h")), invalid("effective_at")},
		"void, with an amount":   {step(ledger.Void, "1", "h", "5"), invalid("void")},
		"void, kept open":        {keepOpen(void("1", "h")), invalid("void")},
		"void, with a reason":    {terms(void("1", "h"), func(t *ledger.Terms) { t.Reason = ledger.ReasonGoodwill }), invalid("void")},
		"expiry":                 {expiry("khata:expiry:h", "h"), "OK"},
		"expiry, of any id":      {expiry("1", "h"), "OK"},
		"expiry, id empty":       {expiry("", "h"), invalid("transfer_id")},
		"expiry, no hold":        {expiry("1", ""), invalid("expiry.hold")},
		"expiry, dated":          {dated(expiry("1", "h")), invalid("effective_at")},
		"expiry, with an amount": {step(ledger.Expiry, "1", "h", "5"), invalid("expiry")},

		"refund":                       {refund("1", "o", "5", "0"), "OK"},
		"refund, dated":                {dated(refund("1", "o", "5", "0")), "OK"},
		"refund, everything":           {refund("1", "o", "", "3.50"), "OK"},
		"refund, no original":          {refund("1", "", "5", "0"), invalid("refund.original")},
		"refund, of itself":            {refund("1", "1", "5", "0"), invalid("refund.original")},
		"refund, amount zero":          {refund("1", "o", "0", "0"), invalid("refund.amount")},
		"refund, amount negative":      {refund("1", "o", "-0.01", "0"), invalid("refund.amount")},
		"refund, nothing expected":     {expected(nil), invalid("refund.expected_refunded")},
		"refund, less than nothing":    {refund("1", "o", "5", "-1"), invalid("refund.expected_refunded")},
		"refund, huge expected":        {expected(&huge), invalid("refund.expected_refunded")},
		"refund, tiny expected":        {expected(&tiny), invalid("refund.expected_refunded")},
		"refund, a long zero expected": {expected(pointer(decimal.New(0, -1_000_000))), invalid("refund.expected_refunded")},
		"refund, 38 digits expected":   {refund("1", "o", "5", nines), "OK"},
		"refund, no reason":            {terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = "" }), invalid("refund.reason")},
		"refund, unknown reason":       {terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = "GOODWILL" }), invalid("refund.reason")},
		"refund, other reason":         {terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = ledger.ReasonOther }), invalid("description")},
		"refund, other reason, told": {with(terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = ledger.ReasonOther }),
			func(s *ledger.TransferSpec) { s.Description = "rain" }), "OK"},
		"refund, kept open":        {keepOpen(refund("1", "o", "5", "0")), invalid("refund")},
		"refund, with entries":     {with(refund("1", "o", "5", "0"), func(s *ledger.TransferSpec) { s.Entries = three.Entries }), invalid("entries")},
		"refund, with a condition": {given(refund("1", "o", "5", "0"), "a", "", 0), invalid("conditions")},

		"reversal":                    {reversal("1", "o"), "OK"},
		"reversal, dated":             {dated(reversal("1", "o")), "OK"},
		"reversal, no original":       {reversal("1", ""), invalid("reversal.original")},
		"reversal, of itself":         {reversal("1", "1"), invalid("reversal.original")},
		"reversal, with an amount":    {step(ledger.Reversal, "1", "o", "5"), invalid("reversal")},
		"reversal, with a reason":     {terms(reversal("1", "o"), func(t *ledger.Terms) { t.Reason = ledger.ReasonGoodwill }), invalid("reversal")},
		"reversal, expected_refunded": {terms(reversal("1", "o"), func(t *ledger.Terms) { t.ExpectedRefunded = &decimal.Zero }), invalid("reversal")},

		"a balance":                      {given(plain, "a", "5", -1), "OK"},
		"a balance below zero":           {given(plain, "a", "-5.00", -1), "OK"},
		"a balance of zero":              {given(plain, "a", "0", -1), "OK"},
		"a version":                      {given(plain, "b", "", 7), "OK"},
		"a version of 0":                 {given(plain, "b", "", 0), "OK"},
		"a balance and a version":        {given(given(plain, "b", "5", 7), "a", "1", -1), "OK"},
		"conditions of a hold":           {given(hold("1", "a", "b", "5"), "a", "5", 7), "OK"},
		"conditions of three entries":    {given(three, "c", "5", 7), "OK"},
		"100 conditions":                 {everyCondition(100), "OK"},
		"101 conditions":                 {everyCondition(101), invalid("conditions")},
		"a condition of another account": {given(given(plain, "b", "5", -1), "c", "5", -1), invalid("conditions[1].account")},
		"a condition of no account":      {given(plain, "", "5", -1), invalid("conditions[0].account")},
		"a condition of a long account":  {given(plain, ledger.AccountID(strings.Repeat("\xff", 1<<20)), "5", -1), invalid("conditions[0].account")},
		"two conditions of an account":   {given(given(plain, "b", "5", -1), "b", "", 7), invalid("conditions[1].account")},
		"a condition of nothing":         {given(plain, "b", "", -1), invalid("conditions[0].balance")},
		"a version below zero":           {terms(plain, func(t *ledger.Terms) { t.Conditions = []ledger.Condition{{Account: "a", Version: pointer(int64(-1))}} }), invalid("conditions[0].version")},
		"a balance of 39 digits":         {given(plain, "a", nines+"9", -1), invalid("conditions[0].balance")},
		"a balance of 39 digits below 0": {given(plain, "a", "-"+nines+"9", -1), invalid("conditions[0].balance")},
		"a huge balance":                 {terms(plain, func(t *ledger.Terms) { t.Conditions = []ledger.Condition{{Account: "a", Balance: &huge}} }), invalid("conditions[0].balance")},
		"a zero balance of a long spelling": {terms(plain, func(t *ledger.Terms) {
			t.Conditions = []ledger.Condition{{Account: "a", Balance: pointer(decimal.New(0, -1_000_000))}}
		}), invalid("conditions[0].balance")},
	}
	for name, c := range cases {
		err := c.spec.Validate()
		if got := fault(err); got != c.want {
			t.Errorf("%s: got %s, want %s", name, got, c.want)
		}
		if err != nil && (len(err.Error()) > 1000 || !utf8.ValidString(err.Error())) {
			t.Errorf("%s: the error is not fit to print: %.400q", name, err)
		}
	}
	for _, reason := range ledger.RefundReasons() {
		spec := terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = reason })
		spec.Description = "told"
		if err := spec.Validate(); err != nil {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestTransferSpec_NeedsFunds(t *testing.T) {
	t.Parallel()
	for want, spec := range map[string]ledger.TransferSpec{
		"[]":    hold("1", "a", "b", "5"),
		"[b]":   given(hold("1", "a", "b", "5"), "b", "5", -1),
		"[a b]": balancing(move("1", "a", "b", "5")),
	} {
		if got := fmt.Sprint(spec.NeedsFunds()); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if got := move("1", "a", "b", "5").NeedsFunds(); got != nil {
		t.Errorf("a transfer without terms asks for the funds of %s", got)
	}
}

func TestTransfer_Differences_OfTerms(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	dhaka := at.In(time.FixedZone("Dhaka", 6*3600))
	plain := move("1", "a", "b", "500.00")
	most := balancing(plain)
	held := hold("1", "a", "b", "500.00")
	two := given(given(plain, "a", "-5.00", 7), "b", "0", -1)
	with := func(spec ledger.TransferSpec, change func(*ledger.TransferSpec)) ledger.TransferSpec {
		change(&spec)
		return spec
	}
	after := func(d time.Duration) ledger.TransferSpec {
		return terms(held, func(t *ledger.Terms) { t.ExpiresAfter = d })
	}
	for name, c := range map[string]struct {
		record, given ledger.TransferSpec
		want          string
	}{
		"empty terms are none":         {plain, terms(plain, func(*ledger.Terms) {}), ""},
		"a hold for a transfer":        {plain, held, "kind"},
		"a transfer for a hold":        {held, plain, "kind"},
		"a void for a capture":         {capture("1", "h", ""), void("1", "h"), "kind"},
		"a transfer for a refund":      {refund("1", "o", "5", "0"), plain, "kind"},
		"a hold, in other order":       {held, terms(transfer("1", credit("b", "500"), debit("a", "500.0")), func(t *ledger.Terms) { t.Kind = ledger.Hold }), ""},
		"a hold of other accounts":     {held, hold("1", "b", "a", "500"), "debit_account,credit_account"},
		"a hold of another amount":     {held, hold("1", "a", "b", "500.01"), "amount"},
		"a deadline in another zone":   {expiring(held, at), expiring(held, dhaka), ""},
		"a later deadline":             {expiring(held, at), expiring(held, at.Add(time.Microsecond)), "hold.expires_at"},
		"no deadline":                  {expiring(held, at), held, "hold.expires_at"},
		"a deadline":                   {held, expiring(held, at), "hold.expires_at"},
		"another duration":             {after(time.Hour), after(time.Minute), "hold.expires_after"},
		"a deadline for a duration":    {after(time.Hour), expiring(held, at), "hold.expires_at,hold.expires_after"},
		"a capture in another form":    {capture("1", "h", "500.0"), capture("1", "h", "500.00"), ""},
		"another hold":                 {capture("1", "h", "500"), capture("1", "g", "500"), "capture.hold"},
		"another amount":               {capture("1", "h", "500"), capture("1", "h", "500.01"), "capture.amount"},
		"everything for an amount":     {capture("1", "h", "500"), capture("1", "h", ""), "capture.amount"},
		"an amount for everything":     {capture("1", "h", ""), capture("1", "h", "500"), "capture.amount"},
		"kept open":                    {capture("1", "h", "500"), keepOpen(capture("1", "h", "500")), "capture.keep_open"},
		"all of a capture":             {capture("1", "h", "500"), keepOpen(capture("1", "g", "5")), "capture.hold,capture.amount,capture.keep_open"},
		"a void of another hold":       {void("1", "h"), void("1", "g"), "void.hold"},
		"an expiry of another hold":    {expiry("1", "h"), expiry("1", "g"), "expiry.hold"},
		"a refund in another form":     {refund("1", "o", "5.0", "0"), refund("1", "o", "5", "0.00"), ""},
		"another original":             {refund("1", "o", "5", "0"), refund("1", "p", "5", "0"), "refund.original"},
		"another refund":               {refund("1", "o", "5", "0"), refund("1", "o", "6", "0"), "refund.amount"},
		"all that is left":             {refund("1", "o", "5", "0"), refund("1", "o", "", "0"), "refund.amount"},
		"expected otherwise":           {refund("1", "o", "5", "0"), refund("1", "o", "5", "1"), "refund.expected_refunded"},
		"another reason":               {refund("1", "o", "5", "0"), terms(refund("1", "o", "5", "0"), func(t *ledger.Terms) { t.Reason = ledger.ReasonDuplicate }), "refund.reason"},
		"a reversal of another":        {reversal("1", "o"), reversal("1", "p"), "reversal.original"},
		"a step, dated":                {reversal("1", "o"), with(reversal("1", "o"), func(s *ledger.TransferSpec) { s.EffectiveAt = &at }), "effective_at"},
		"a step, described":            {void("1", "h"), with(void("1", "h"), func(s *ledger.TransferSpec) { s.Description = "x" }), "description"},
		"a step, with metadata":        {void("1", "h"), with(void("1", "h"), func(s *ledger.TransferSpec) { s.Metadata = `{"a":1}` }), "metadata"},
		"balancing, in another form":   {most, balancing(move("1", "a", "b", "500")), ""},
		"balancing, with another most": {most, balancing(move("1", "a", "b", "501")), "amount"},
		"balancing, other accounts":    {most, balancing(move("1", "b", "a", "500")), "debit_account,credit_account"},
		"not balancing any more":       {most, plain, "balancing"},
		"balancing now":                {plain, most, "balancing"},
		"balancing now, and more":      {plain, balancing(move("1", "a", "b", "501")), "balancing,amount"},
		"conditions in another order":  {two, given(given(plain, "b", "0.00", -1), "a", "-5", 7), ""},
		"no conditions":                {two, plain, "conditions"},
		"conditions":                   {plain, two, "conditions"},
		"one condition less":           {two, given(plain, "a", "-5.00", 7), "conditions"},
		"a condition of another":       {given(plain, "a", "5", -1), given(plain, "b", "5", -1), "conditions"},
		"another balance":              {two, given(given(plain, "a", "-5.01", 7), "b", "0", -1), "conditions"},
		"another version":              {two, given(given(plain, "a", "-5", 8), "b", "0", -1), "conditions"},
		"no version":                   {two, given(given(plain, "a", "-5", -1), "b", "0", -1), "conditions"},
		"version 0 for none":           {two, given(given(plain, "a", "-5", 7), "b", "0", 0), "conditions"},
		"balance 0 for none":           {given(plain, "a", "", 7), given(plain, "a", "0", 7), "conditions"},
		"everything of a hold": {given(expiring(held, at), "a", "5", -1), hold("1", "c", "d", "1"),
			"hold.expires_at,conditions,debit_account,credit_account,amount"},
	} {
		if got := differing(record(c.record), c.given); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
	// A balancing transfer is compared by what it was asked for, not by what it moved.
	r := record(most)
	for i := range r.Entries {
		r.Entries[i].Amount = amount("123.45")
	}
	for want, spec := range map[string]ledger.TransferSpec{
		"": most, "amount": balancing(move("1", "a", "b", "123.45")), "balancing": plain, "balancing,amount": move("1", "a", "b", "123.45"),
	} {
		if got := differing(r, spec); got != want {
			t.Errorf("of what was moved in part: got %q, want %q", got, want)
		}
	}
}

// Whatever field of the terms is another one, the difference is found, and no field was forgotten here.
func TestTransfer_Differences_OfEachFieldOfTerms(t *testing.T) {
	t.Parallel()
	changes := map[string]func(*ledger.Terms){
		"Kind": func(t *ledger.Terms) { t.Kind = "x" }, "Origin": func(t *ledger.Terms) { t.Origin = "x" },
		"Amount": func(t *ledger.Terms) { t.Amount = pointer(amount("1")) }, "Balancing": func(t *ledger.Terms) { t.Balancing = true },
		"KeepOpen": func(t *ledger.Terms) { t.KeepOpen = true }, "ExpiresAt": func(t *ledger.Terms) { t.ExpiresAt = &time.Time{} },
		"ExpiresAfter":     func(t *ledger.Terms) { t.ExpiresAfter = 1 },
		"ExpectedRefunded": func(t *ledger.Terms) { t.ExpectedRefunded = &decimal.Zero }, "Reason": func(t *ledger.Terms) { t.Reason = "x" },
		"Conditions": func(t *ledger.Terms) { t.Conditions = []ledger.Condition{{}} },
	}
	var fields []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[ledger.Terms]()) {
		fields = append(fields, f.Name)
	}
	if slices.Sort(fields); !slices.Equal(fields, slices.Sorted(maps.Keys(changes))) {
		t.Errorf("the fields are %q", fields)
	}
	base := step(ledger.Capture, "1", "h", "")
	for name, change := range changes {
		other := terms(base, change)
		if len(record(base).Differences(other)) != 1 || len(record(other).Differences(base)) != 1 {
			t.Errorf("another %s is %v", name, record(base).Differences(other))
		}
	}
}

// drawTerms makes well-formed terms of any kind, for entries of accounts a and b.
func drawTerms(t *rapid.T) ledger.TransferSpec {
	spec := move("1", "a<&>", `b"\`, "500.00")
	spec.Description = "x"
	money := rapid.Custom(func(t *rapid.T) *decimal.Decimal {
		return pointer(decimal.New(rapid.Int64Range(1, 1<<62).Draw(t, "units"), rapid.Int32Range(-20, 18).Draw(t, "exponent")))
	})
	maybe := rapid.Bool()
	term := ledger.Terms{Kind: rapid.SampledFrom([]ledger.Kind{
		ledger.Plain, ledger.Hold, ledger.Capture, ledger.Void, ledger.Expiry, ledger.Refund, ledger.Reversal,
	}).Draw(t, "kind")}
	if term.Kind.IsStep() {
		term.Origin = ledger.TransferID(rapid.StringMatching(`[!-~]{2,128}`).Draw(t, "origin"))
		spec.Entries = nil
	} else if maybe.Draw(t, "conditions") {
		for _, account := range rapid.Permutation([]ledger.AccountID{"a<&>", `b"\`}).Draw(t, "order") {
			c := ledger.Condition{Account: account}
			if maybe.Draw(t, "balance") {
				c.Balance = money.Draw(t, "of")
				if maybe.Draw(t, "negative") {
					c.Balance = pointer(c.Balance.Neg())
				}
			}
			if c.Balance == nil || maybe.Draw(t, "version") {
				c.Version = pointer(rapid.Int64Min(0).Draw(t, "number"))
			}
			term.Conditions = append(term.Conditions, c)
		}
	}
	switch term.Kind {
	case ledger.Plain:
		if term.Balancing = maybe.Draw(t, "balancing"); term.Balancing {
			term.Amount = pointer(amount("500"))
		}
	case ledger.Hold:
		switch rapid.IntRange(0, 2).Draw(t, "deadline") {
		case 0:
			unix := rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds") // The years 1 to 9999.
			at := time.Unix(unix, 1000*rapid.Int64Range(0, 999_999).Draw(t, "micros"))
			term.ExpiresAt = pointer(at.In(time.FixedZone("", 60*rapid.IntRange(-700, 700).Draw(t, "zone"))))
		case 1:
			term.ExpiresAfter = time.Microsecond * time.Duration(rapid.Int64Range(1_000_000, ledger.MaxHold.Microseconds()).Draw(t, "after"))
		}
	case ledger.Capture, ledger.Refund:
		if maybe.Draw(t, "in part") {
			term.Amount = money.Draw(t, "amount")
		}
		term.KeepOpen = term.Kind == ledger.Capture && maybe.Draw(t, "keep open")
		if term.Kind == ledger.Refund {
			term.Reason = rapid.SampledFrom(ledger.RefundReasons()).Draw(t, "reason")
			term.ExpectedRefunded = rapid.OneOf(money, rapid.Just(&decimal.Zero)).Draw(t, "expected")
		}
	}
	spec.Terms = &term
	return spec
}

// What is kept of the terms says all of them.
func TestReadTerms(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawTerms(t)
		if err := spec.Validate(); err != nil {
			t.Fatal(err)
		}
		text := spec.StoredTerms()
		if text != "" && (!json.Valid([]byte(text)) || text[0] != '{' || text == "{}") {
			t.Fatalf("stored as %s", text)
		}
		kind := spec.Kind()
		if kind == ledger.Plain && rapid.Bool().Draw(t, "kept without its kind") {
			kind = ""
		}
		read, err := ledger.ReadTerms(kind, spec.Origin(), text)
		if err != nil {
			t.Fatal(err)
		}
		kept := spec
		if kept.Terms = read; read == nil {
			kept.Terms = &ledger.Terms{Kind: ledger.Plain}
		}
		if diff := cmp.Diff(spec.Terms, kept.Terms); diff != "" {
			t.Fatalf("%s (-given +read):\n%s", text, diff)
		}
		if kept.StoredTerms() != text {
			t.Fatalf("stored as %s, and then as %s", text, kept.StoredTerms())
		}
		kept.Terms = read
		if diff := record(kept).Differences(spec); len(diff) > 0 {
			t.Fatalf("%s: %v", text, diff)
		}
	})
}

// The same terms said otherwise are the same: other zeros, another zone, another order.
func TestTransfer_Differences_OfTheSameTermsSaidOtherwise(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		spec := drawTerms(t)
		respell := func(d *decimal.Decimal) *decimal.Decimal {
			if d == nil {
				return nil
			}
			return pointer(d.Add(decimal.New(0, -rapid.Int32Range(0, 25).Draw(t, "zeros"))))
		}
		other := terms(spec, func(term *ledger.Terms) {
			term.Amount, term.ExpectedRefunded = respell(term.Amount), respell(term.ExpectedRefunded)
			if term.ExpiresAt != nil {
				term.ExpiresAt = pointer(term.ExpiresAt.In(time.FixedZone("", 60*rapid.IntRange(-700, 700).Draw(t, "zone"))))
			}
			if len(term.Conditions) > 0 {
				term.Conditions = rapid.Permutation(term.Conditions).Draw(t, "order")
			}
			for i := range term.Conditions {
				term.Conditions[i].Balance = respell(term.Conditions[i].Balance)
			}
		})
		if len(spec.Entries) > 0 {
			other.Entries = rapid.Permutation(spec.Entries).Draw(t, "entries")
		}
		before := slices.Clone(other.Terms.Conditions)
		if diff := record(spec).Differences(other); len(diff) > 0 {
			t.Fatalf("%s and %s differ: %v", spec.StoredTerms(), other.StoredTerms(), diff)
		}
		if !slices.EqualFunc(before, other.Terms.Conditions, func(a, b ledger.Condition) bool { return a.Account == b.Account }) {
			t.Fatal("comparing has put the request's conditions in another order")
		}
	})
}

func TestReadTerms_OfWhatIsNotTerms(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", "[]", `"x"`, `{"amount":"x"}`, `{"expires_after":"1 h"}`, `{"expires_at":"now"}`, `{"conditions":{}}`} {
		if got, err := ledger.ReadTerms(ledger.Hold, "", text); err == nil {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
	last := expiring(hold("1", "a", "b", "5"), time.Date(10000, 1, 1, 0, 30, 0, 0, time.FixedZone("east", 3600)))
	if got, err := ledger.ReadTerms(ledger.Hold, "", last.StoredTerms()); err != nil || !cmp.Equal(last.Terms, got) {
		t.Errorf("a deadline in the last hour that there is: %s", last.StoredTerms())
	}
	if got, err := ledger.ReadTerms("", "", ""); got != nil || err != nil {
		t.Errorf("nothing is read as %+v, %v", got, err)
	}
}
