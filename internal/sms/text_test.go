package sms

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func dhaka(t testing.TB) *time.Location {
	t.Helper()
	zone, err := time.LoadLocation("Asia/Dhaka")
	if err != nil {
		t.Fatal(err)
	}
	return zone
}

// at is four minutes past three in the afternoon in Dhaka.
var at = time.Date(2026, 11, 30, 9, 4, 59, 0, time.UTC)

func TestNotice_Text(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ABCDEFGHIJ", 50)
	for _, c := range []struct {
		name   string
		n      notice
		en, bn string
	}{
		{
			"received", notice{received, "500.00", "BDT", "Shimul", "TXN-1", at},
			"৳500.00 received from Shimul. Ref TXN-1, 30 Nov 2026 15:04.",
			"Shimul-এর কাছ থেকে ৳৫০০.০০ পেয়েছেন। রেফ TXN-1, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"sent", notice{sent, "500.00", "BDT", "তিথি", "TXN-1", at},
			"৳500.00 sent to তিথি. Ref TXN-1, 30 Nov 2026 15:04.",
			"তিথি-কে ৳৫০০.০০ পাঠিয়েছেন। রেফ TXN-1, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"returned", notice{returned, "20.50", "BDT", "Aarong", "REF-7", at},
			"৳20.50 returned to you by Aarong. Ref REF-7, 30 Nov 2026 15:04.",
			"Aarong আপনাকে ৳২০.৫০ ফেরত দিয়েছেন। রেফ REF-7, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"apologised", notice{apologised, "20.50", "BDT", "Aarong", "khata:refund:JIJEIT6TZXQWT5FKRO3O755UHA", at},
			"Sorry for our mistake: ৳20.50 returned to you by Aarong. Ref refund:JIJEIT6TZXQWT5FKRO3O755UHA, 30 Nov 2026 15:04.",
			"আমাদের ভুলের জন্য দুঃখিত: Aarong আপনাকে ৳২০.৫০ ফেরত দিয়েছেন। রেফ refund:JIJEIT6TZXQWT5FKRO3O755UHA, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"apologised by nobody", notice{apologised, "20.50", "BDT", "", "REF-7", at},
			"Sorry for our mistake: ৳20.50 returned to you. Ref REF-7, 30 Nov 2026 15:04.",
			"আমাদের ভুলের জন্য দুঃখিত: ৳২০.৫০ ফেরত পেয়েছেন। রেফ REF-7, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"the apology gives way to the amount",
			notice{apologised, "12345678901234567890.123456789012345678", "LONG_CURRENCY_16", strings.Repeat("N", 40), strings.Repeat("x", 40), at},
			"LONG_CURRENCY_16 1,23,45,67,89,01,23,45,67,890.123456789012345678 returned to you by NNNNNNNN…. Ref " + strings.Repeat("x", 40) + ", 30 Nov 2026 15:04.",
			"NNNNNN… আপনাকে LONG_CURRENCY_16 ১,২৩,৪৫,৬৭,৮৯,০১,২৩,৪৫,৬৭,৮৯০.১২৩৪৫৬৭৮৯০১২৩৪৫৬৭৮ ফেরত দিয়েছেন। রেফ " + strings.Repeat("x", 40) + ", ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"a payment of the payment API", notice{sent, "5.00", "BDT", "", "khata:TXN-JIJEIT6TZXQWT5FKRO3O755UHA", at},
			"৳5.00 sent. Ref TXN-JIJEIT6TZXQWT5FKRO3O755UHA, 30 Nov 2026 15:04.", "৳৫.০০ পাঠিয়েছেন। রেফ TXN-JIJEIT6TZXQWT5FKRO3O755UHA, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"nobody's name, no reference", notice{received, "5.00", "BDT", "", strings.Repeat("x", 41), at},
			"৳5.00 received. 30 Nov 2026 15:04.", "৳৫.০০ পেয়েছেন। ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"the longest reference", notice{sent, "5.00", "BDT", "", strings.Repeat("x", 40), at},
			"৳5.00 sent. Ref " + strings.Repeat("x", 40) + ", 30 Nov 2026 15:04.",
			"৳৫.০০ পাঠিয়েছেন। রেফ " + strings.Repeat("x", 40) + ", ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"a lakh", notice{returned, "100000.50", "BDT", "", "T", at},
			"৳1,00,000.50 returned to you. Ref T, 30 Nov 2026 15:04.", "৳১,০০,০০০.৫০ ফেরত পেয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"no decimals", notice{received, "12345678", "JPY", "Aki", "T", at},
			"JPY 1,23,45,678 received from Aki. Ref T, 30 Nov 2026 15:04.",
			"Aki-এর কাছ থেকে JPY ১,২৩,৪৫,৬৭৮ পেয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"three decimals", notice{received, "1234.567", "KWD", "Aki", "T", at},
			"KWD 1,234.567 received from Aki. Ref T, 30 Nov 2026 15:04.",
			"Aki-এর কাছ থেকে KWD ১,২৩৪.৫৬৭ পেয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"eighteen decimals, more than a float has", notice{received, "12345678901234567890.123456789012345678", "ETH", "Aki", "T", at},
			"ETH 1,23,45,67,89,01,23,45,67,890.123456789012345678 received from Aki. Ref T, 30 Nov 2026 15:04.",
			"Aki-এর কাছ থেকে ETH ১,২৩,৪৫,৬৭,৮৯,০১,২৩,৪৫,৬৭,৮৯০.১২৩৪৫৬৭৮৯০১২৩৪৫৬৭৮ পেয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"new year in Dhaka is not in Greenwich", notice{sent, "1.00", "BDT", "A", "T", time.Date(2026, 12, 31, 18, 0, 0, 0, time.UTC)},
			"৳1.00 sent to A. Ref T, 1 Jan 2027 00:00.", "A-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ১ জানু ২০২৭ ০০:০০।",
		},
		{
			"a name of two lines", notice{sent, "1.00", "BDT", "  Eve\r\n\u2028You have\twon\x00\x1b[31m ", "T", at},
			"৳1.00 sent to Eve You have won[31m. Ref T, 30 Nov 2026 15:04.",
			"Eve You have won[31m-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"a name that turns the line round", notice{sent, "1.00", "BDT", "\u202Eevil\u202C \u2066x\u2069\u200F\u061C\uFEFF", "T", at},
			"৳1.00 sent to evil x. Ref T, 30 Nov 2026 15:04.", "evil x-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"a name that is none", notice{sent, "1.00", "BDT", "\u202E\u200D .,\xff", "T", at},
			"৳1.00 sent. Ref T, 30 Nov 2026 15:04.", "৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"a name of 500 letters", notice{sent, "1.00", "BDT", long, "T", at},
			"৳1.00 sent to " + long[:39] + "…. Ref T, 30 Nov 2026 15:04.", long[:39] + "…-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"HTML", notice{sent, "1.00", "BDT", "<b>Bob</b>", "T", at},
			"৳1.00 sent to <b>Bob</b>. Ref T, 30 Nov 2026 15:04.", "<b>Bob</b>-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"joiners of Bengali stay", notice{sent, "1.00", "BDT", "র\u200d্যাব", "T", at},
			"৳1.00 sent to র\u200d্যাব. Ref T, 30 Nov 2026 15:04.", "র\u200d্যাব-কে ৳১.০০ পাঠিয়েছেন। রেফ T, ৩০ নভে ২০২৬ ১৫:০৪।",
		},
		{
			"the name gives way to the amount",
			notice{returned, "12345678901234567890.123456789012345678", "LONG_CURRENCY_16", strings.Repeat("N", 40), strings.Repeat("x", 40), at},
			"LONG_CURRENCY_16 1,23,45,67,89,01,23,45,67,890.123456789012345678 returned to you by NNNNNNNN…. Ref " + strings.Repeat("x", 40) + ", 30 Nov 2026 15:04.",
			"NNNNNN… আপনাকে LONG_CURRENCY_16 ১,২৩,৪৫,৬৭,৮৯,০১,২৩,৪৫,৬৭,৮৯০.১২৩৪৫৬৭৮৯০১২৩৪৫৬৭৮ ফেরত দিয়েছেন। রেফ " + strings.Repeat("x", 40) + ", ৩০ নভে ২০২৬ ১৫:০৪।",
		},
	} {
		if got := c.n.text(English, dhaka(t)); got != c.en {
			t.Errorf("%s\n got %q\nwant %q", c.name, got, c.en)
		}
		if got := c.n.text(Bengali, dhaka(t)); got != c.bn {
			t.Errorf("%s\n got %q\nwant %q", c.name, got, c.bn)
		}
	}
}

func TestGroupDigits(t *testing.T) {
	t.Parallel()
	for whole, want := range map[string]string{
		"0": "0", "12": "12", "999": "999", "1000": "1,000", "12345": "12,345", "100000": "1,00,000", "1234567": "12,34,567", "12345678": "1,23,45,678",
	} {
		if got := groupDigits(whole); got != want {
			t.Errorf("%s: %s, want %s", whole, got, want)
		}
	}
}

// A letter is not parted from its signs.
func TestCutName(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		most int
		want string
	}{
		{"Shimul", 6, "Shimul"}, {"Shimul", 5, "Shim…"}, {"Ab Cd", 4, "Ab…"}, {"তিথি", 3, "তি…"}, {"তিথি", 2, ""}, {"ব্যাংকার", 7, "ব্যাং…"}, {"ব্যাংক", 5, ""},
		{"é" + "e\u0301e\u0301", 3, "é…"}, {"abc", 1, ""}, {"abc", 0, ""}, {"abc", -9, ""},
	} {
		if got := cutName(c.name, c.most); got != c.want {
			t.Errorf("%q to %d: %q, want %q", c.name, c.most, got, c.want)
		}
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for account, want := range map[string]string{"wallet:shimul": "shimul", "cash": "cash", "wallet:shimul:savings": "savings", "odd:": "odd:"} {
		if got := nameOf(account); got != want {
			t.Errorf("%s: %s, want %s", account, got, want)
		}
	}
}

// Whatever the name: one line, not too long, nothing invisible, and every digit of the amount.
func TestNotice_Text_Any(t *testing.T) {
	t.Parallel()
	zone := dhaka(t)
	rapid.Check(t, func(t *rapid.T) {
		n := notice{
			kind: rapid.SampledFrom([]kind{received, sent, returned}).Draw(t, "kind"), at: at,
			amount:    rapid.StringMatching(`[1-9][0-9]{0,37}|[1-9][0-9]{0,19}\.[0-9]{1,18}`).Draw(t, "amount"),
			currency:  rapid.StringMatching(`[A-Z][A-Z0-9_]{2,15}`).Draw(t, "currency"),
			other:     rapid.String().Draw(t, "other"),
			reference: rapid.StringMatching(`[!-~]{1,50}`).Draw(t, "reference"),
		}
		for language, p := range phrasings {
			text := n.text(language, zone)
			if !utf8.ValidString(text) || utf8.RuneCountInString(text) > maxText {
				t.Fatalf("%d characters: %q", utf8.RuneCountInString(text), text)
			}
			if strings.ContainsAny(text, "\n\r\t\x00\u2028\u2029\u202A\u202B\u202D\u202E\u2066\u2067\u2068\u2069\u200E\u200F") {
				t.Fatalf("%q", text)
			}
			if !strings.Contains(strings.ReplaceAll(text, ",", ""), p.number(n.amount)) {
				t.Fatalf("%q does not say %s", text, n.amount)
			}
		}
	})
}
