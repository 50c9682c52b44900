package console_test

import (
	"context"
	"fmt"
	stdhtml "html"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/ledgertest"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

const desk1 = "/console/main"

var boss = support.Actor{Name: "boss", Address: "192.0.2.9"}

// helped gives a desk customers, and verifies the books at the end of the test.
func (d *desk) helped(t testing.TB) *desk {
	t.Helper()
	t.Cleanup(func() { ledgertest.CheckBooks(t, d.db) })
	return d.customers(t)
}

// customers are Rana, who pays the railway ৳500 for a ticket, twice, and Mina, who pays once.
func (d *desk) customers(t testing.TB) *desk {
	t.Helper()
	var specs []ledger.AccountSpec
	for _, id := range []ledger.AccountID{"wallet:rana", "wallet:mina", "shop:railway"} {
		specs = append(specs, ledger.AccountSpec{ID: id, Type: ledger.Liability, Currency: "BDT"})
	}
	if _, err := d.journal.CreateAccounts(t.Context(), "x", "main", specs); err != nil {
		t.Fatal(err)
	}
	d.pay(t, "first-key", "wallet:rana", "500.00", `{"phone":"+8801711000001"}`, "Dhaka to Chattogram")
	d.pay(t, "second-key", "wallet:rana", "500.00", `{"phone":"+8801711000001"}`, "Dhaka to Chattogram")
	d.pay(t, "other-key", "wallet:mina", "120.00", `{"order":"A-17"}`, "Dhaka to Sylhet")
	return d
}

func (d *desk) pay(t testing.TB, id ledger.TransferID, from ledger.AccountID, amount, metadata, description string) {
	t.Helper()
	m, err := ledger.ParseMetadata(metadata, "metadata")
	if err != nil {
		t.Fatal(err)
	}
	results, err := d.journal.Post(t.Context(), "app", "main", []ledger.TransferSpec{{
		ID: id, Entries: ledger.Simple(from, "shop:railway", dec(amount), "BDT"), Metadata: m, Description: description,
	}})
	if err != nil || results[0].Err != nil || results[0].Transfer.Refusal != nil {
		t.Fatal(results, err)
	}
}

func (d *desk) limit(t testing.TB, single, daily string) {
	t.Helper()
	spec := support.LimitSpec{Ledger: "main", Currency: "BDT", Single: dec(single), Daily: dec(daily), Reason: "for the test"}
	if _, err := d.help.SetLimit(t.Context(), boss, spec); err != nil {
		t.Fatal(err)
	}
}

// named gives a browser of another person.
func (d *desk) named(t *testing.T, name string, grants ...string) *guest {
	t.Helper()
	_, secret := d.token(t, name, grants...)
	g := d.guest(t)
	g.post("/console/signin", "token", secret)
	return g
}

// refunded is how much of a transfer has gone back, by the books.
func (d *desk) refunded(t testing.TB, id ledger.TransferID) string {
	t.Helper()
	_, p, err := d.journal.Transfer(t.Context(), "main", id)
	if err != nil {
		t.Fatal(err)
	}
	return p.Refunded.StringFixed(2)
}

func (d *desk) requests(t testing.TB) []support.Refund {
	t.Helper()
	list, err := d.help.Refunds(t.Context(), boss, support.RefundFilter{Ledger: "main"})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var hiddenPattern = regexp.MustCompile(`<input type="hidden" name="([a-z0-9_]+)" value="([^"]*)"`)

// hidden are the fields of a form of a page that people do not see, by what the form's address ends with, and what more there is to fill in.
func (g *guest) hidden(page, action string, more ...string) []string {
	g.t.Helper()
	body := g.get(page).Body.String()
	_, form, found := strings.Cut(body, `action="`+action+`"`)
	if !found {
		g.t.Fatalf("%s has no form to %s:\n%s", page, action, body)
	}
	form, _, _ = strings.Cut(form, "</form>")
	var fields []string
	for _, m := range hiddenPattern.FindAllStringSubmatch(form, -1) {
		if m[1] != "form_key" { // Who sends the form adds it.
			fields = append(fields, m[1], stdhtml.UnescapeString(m[2]))
		}
	}
	return append(fields, more...)
}

// ask are the fields of a form for a refund.
func (g *guest) ask(page string, more ...string) []string {
	return g.hidden(page, desk1+"/refunds", append([]string{"reason", "duplicate"}, more...)...)
}

func TestSupport_Find(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	g := d.as(t, "main:support")
	find := desk1 + "/support"
	if body := g.get(find).Body.String(); strings.Contains(body, "Found") || !strings.Contains(body, `aria-current="page">Support`) {
		t.Errorf("nothing was asked:\n%s", body)
	}
	says(t, "an id", g.get(find+"?text=first-key"), 200, `href="/console/main/transfer?id=first-key"`, "500.00 BDT", "wallet:rana", "shop:railway", "transfer id")
	says(t, "nothing", g.get(find+"?text=nothing"), 200, "No such transfer", "Only ids, numbers and keys were looked up")
	w := g.get(find + "?text=%2B8801711000001&account=wallet:rana")
	says(t, "a phone", w, 200, "first-key", "second-key", "2 entries of wallet:rana were looked at", "That is all there are", "metadata")
	w = g.get(find + "?account=shop:railway&amount=120.00")
	if says(t, "an amount", w, 200, "other-key", "3 entries of shop:railway"); strings.Contains(w.Body.String(), "first-key") {
		t.Error("the amount does not count")
	}
	now := time.Now().UTC()
	window := "&from=" + now.AddDate(0, 0, -1).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)
	says(t, "a reference between two days", g.get(find+"?text=A-17"+window), 200, "other-key", "transfers were looked at")
	says(t, "since a day", g.get(find+"?text=A-17&from="+now.AddDate(0, 0, -1).Format(time.DateOnly)), 200, "other-key")
	for query, anchor := range map[string]string{
		"to=2026-01-01": "from",
		"amount=12":     "text", "text=x&amount=12": "account", "text=x&amount=x": "amount", "text=x&amount=1e99": "amount", "from=soon": "from", "account=a+b": "account",
		"from=2026-01-02&to=2026-01-01": "to", "from=2025-01-01&to=2026-01-01": "from", "user=x": "user", "text=%00": "text", "text=x&zone=Mars": "zone",
		"text=" + strings.Repeat("x", 300): "text",
	} {
		says(t, query, g.get(find+"?"+query), 400, `<a href="#`+anchor+`">`)
	}
	says(t, "no account", g.get(find+"?account=nobody"), 404, `<a href="#account">`)
	for i := range 60 {
		d.pay(t, ledger.TransferID(fmt.Sprintf("many-%02d", i)), "wallet:mina", "1.00", `{"ref":"MANY"}`, "x")
	}
	w = g.get(find + "?text=MANY&account=wallet:mina")
	says(t, "many", w, 200, "Look further back", "many-59")
	next := regexp.MustCompile(`href="([^"]*before=[^"]*)"`).FindStringSubmatch(w.Body.String())
	says(t, "further back", g.get(stdhtml.UnescapeString(next[1])), 200, "many-00", "That is all there are")
}

func TestSupport_Story(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	g := d.as(t, "main:support")
	story := desk1 + "/transfer?id=first-key"
	w := g.get(story)
	says(t, "the story", w, 200, "<strong>posted</strong>", "500.00 BDT", "Can still be refunded", "Refund of up to 500.00 BDT", `href="/console/main/refund?id=first-key"`,
		"was moved", "Dhaka to Chattogram", "looked at this story", "ayesha", "192.0.2.1", "<time datetime=")
	if strings.Contains(w.Body.String(), `href="/console/main/account?`) {
		t.Error("support is led to a page that is not theirs")
	}
	w = d.named(t, "farida", "main:finance").get(story)
	if says(t, "to finance", w, 200, `href="/console/main/account?account=wallet%3Arana"`); strings.Contains(w.Body.String(), "/console/main/refund?") {
		t.Error("finance is led to the form for a refund")
	}
	leads(t, "of nothing", g.get(desk1+"/transfer"), desk1+"/support")
	says(t, "of what there is not", g.get(desk1+"/transfer?id=nobody"), 404, "ledger main has no transfer")
	for _, id := range []string{"../../etc/passwd", "%2e%2e%2f", "a%0d%0aSet-Cookie:%20x=y", "%00", "%ff", "x' OR '1'='1", `"><script>`, strings.Repeat("x", 2000), "{{.}}"} {
		for _, page := range []string{"/transfer?id=", "/refund?id=", "/support?text=", "/refunds?id=", "/audit?object="} {
			w := g.get(desk1 + page + url.QueryEscape(must(url.QueryUnescape(id))))
			if w.Code >= 500 || w.Header().Get("Set-Cookie") != "" || w.Header().Get("Location") != "" {
				t.Errorf("%s%s: %d %v", page, id, w.Code, w.Header())
			}
			noMarkup(t, page+id, w.Body.String())
		}
	}
	for _, path := range []string{"/refunds/x", "/refunds/-1", "/refunds/99", "/refunds/1%2F..%2F", "/suspects/99", "/suspects/99999999999999999999"} {
		says(t, path, g.get(desk1+path), 404)
	}
}

func must(text string, err error) string {
	if err != nil {
		return ""
	}
	return text
}

// One person refunds alone, within the limits: the button has the exact amount, and however often the form is sent, it is one refund.
func TestSupport_Refund(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.limit(t, "1000", "5000")
	g := d.as(t, "main:support")
	form := desk1 + "/refund?id=first-key"
	says(t, "the form", g.get(form+"&reason=duplicate"), 200, ">Refund 500.00 BDT</button>", `<option value="duplicate" selected>`, "It is posted at once", "at most 500.00 BDT")
	for amount, text := range map[string]string{"600": "only 500.00 BDT is left", "0.001": "more decimals", "x": "part-amount", "-5": "part-amount", "1e3": "part-amount",
		"500,00": "part-amount", strings.Repeat("9", 300): "part-amount"} {
		says(t, amount, g.get(form+"&amount="+url.QueryEscape(amount)), 400, text, `<a href="#part-amount">`)
	}
	part := g.get(form + "&amount=200.5")
	says(t, "a part", part, 200, ">Refund 200.50 BDT</button>", "Refund all that is left instead")
	for what, c := range map[string]struct {
		fields []string
		text   string
	}{
		"no reason":          {[]string{"reason", ""}, `<a href="#refund-reason">`},
		"what is no reason":  {[]string{"reason", "<b>"}, `<a href="#refund-reason">`},
		"another without":    {[]string{"reason", "other"}, `<a href="#refund-note">`},
		"a long ticket":      {[]string{"ticket", strings.Repeat("x", 101)}, `<a href="#refund-ticket">`},
		"a long note":        {[]string{"note", strings.Repeat("x", 1001)}, `<a href="#refund-note">`},
		"a note of no text":  {[]string{"note", "a\x00b"}, `<a href="#refund-note">`},
		"too many decimals":  {[]string{"amount", "1.001"}, "more decimals"},
		"what is not so yet": {[]string{"ticket", "\xff"}, `<a href="#refund-ticket">`},
	} {
		says(t, what, g.submit(desk1+"/refunds", g.ask(form, c.fields...)...), 400, c.text, ">Refund ")
	}
	for what, wrong := range map[string][]string{"no key": {"key", ""}, "a short key": {"key", "AAAA"}, "a key with markup": {"key", "<b>" + strings.Repeat("A", 23)},
		"no amount": {"amount", ""}, "no amount at all": {"amount", "all"}, "nothing expected": {"expected_refunded", "x"}} {
		says(t, what, g.submit(desk1+"/refunds", g.ask(form, wrong...)...), 403, "This form is not from here")
	}
	says(t, "of nothing", g.submit(desk1+"/refunds", g.ask(form, "id", "nobody")...), 404)
	if n := len(d.requests(t)); n != 0 {
		t.Fatalf("%d requests", n)
	}
	fields := g.ask(form+"&amount=200.5", "note", "two\r\nlines", "ticket", "T-1")
	page := desk1 + "/refunds/1"
	leads(t, "asked", g.submit(desk1+"/refunds", fields...), page+"?done=asked")
	leads(t, "asked again", g.submit(desk1+"/refunds", fields...), page+"?done=before")
	says(t, "the request", g.get(page+"?done=asked"), 200, "200.50 BDT is refunded", "<strong>posted</strong>", "T-1", "two\nlines", "paid twice", "In the books", "needs nobody else")
	says(t, "said", g.get(page+"?done=before"), 200, "It is one request")
	if got := d.refunded(t, "first-key"); got != "200.50" {
		t.Errorf("%s has gone back", got)
	}
	// The same key with something else in the form.
	says(t, "another amount", g.submit(desk1+"/refunds", append(fields, "amount", "299.50")...), 409, "This form was sent before", "request 1", "You have", "To a new form")
	says(t, "the rest", g.get(form), 200, ">Refund 299.50 BDT</button>")
	leads(t, "the rest", g.submit(desk1+"/refunds", g.ask(form)...), desk1+"/refunds/2?done=asked")
	w := g.get(form)
	if says(t, "nothing left", w, 200, "Nothing can be refunded", "was refunded in full"); strings.Contains(w.Body.String(), ">Refund 0") {
		t.Error("there is a button to refund nothing")
	}
	says(t, "a refund of a refund", g.get(desk1+"/refund?id="+url.QueryEscape(string(d.requests(t)[0].Transfer))), 200, "Nothing can be refunded", "is a refund itself")
	says(t, "the list", g.get(desk1+"/refunds"), 200, "200.50 BDT", "299.50 BDT", "Of requests 1 to 2")
	says(t, "those that wait", g.get(desk1+"/refunds?state=waiting"), 200, "There is no such request")
	says(t, "those of another", g.get(desk1+"/refunds?id=other-key"), 200, "There is no such request")
	says(t, "no state", g.get(desk1+"/refunds?state=%3Cb%3E"), 400, `<a href="#state">`)
	says(t, "the story", g.get(desk1+"/transfer?id=first-key"), 200, "refunded in full", "was asked for", "the refund of 200.50 BDT was posted", "khata:refund:")
}

// Two people in two browsers refund the same payment: one refund, and the other is told who was first.
func TestSupport_TwoPeople(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.limit(t, "1000", "5000")
	rina, karim := d.named(t, "rina", "main:support"), d.named(t, "karim", "main:support")
	form := desk1 + "/refund?id=first-key"
	var forms [][]string
	guests := []*guest{rina, karim, rina, karim}
	for _, g := range guests { // Two tabs each.
		forms = append(forms, append(g.ask(form), "form_key", g.key()))
	}
	var waiting sync.WaitGroup
	var mu sync.Mutex
	var lost []*httptest.ResponseRecorder
	won := 0
	for i, g := range guests {
		for range 3 { // And each is pressed three times.
			waiting.Go(func() {
				w := (&guest{t: t, d: d, cookies: g.cookies, headers: g.headers, from: g.from}).post(desk1+"/refunds", forms[i]...)
				mu.Lock()
				defer mu.Unlock()
				if w.Code == 303 {
					won++
				} else {
					lost = append(lost, w)
				}
			})
		}
	}
	waiting.Wait()
	if got := d.refunded(t, "first-key"); got != "500.00" {
		t.Errorf("%s has gone back", got)
	}
	posted := 0
	var first support.Refund
	for _, r := range d.requests(t) {
		if r.State == support.Posted {
			posted, first = posted+1, r
		}
	}
	if posted != 1 || won == 0 {
		t.Fatalf("%d were posted, %d were told of success", posted, won)
	}
	for _, w := range lost {
		says(t, "who was second", w, 409, "came first", "Below is how it is now", "Nothing can be refunded", fmt.Sprintf("request %d", first.Number))
	}
	// Whoever reads the old page and sends it now is told who was first.
	late := karim.ask(desk1 + "/refund?id=second-key")
	leads(t, "first", rina.submit(desk1+"/refunds", rina.ask(desk1+"/refund?id=second-key&amount=100")...), fmt.Sprintf("%s/refunds/%d?done=asked", desk1, len(d.requests(t))))
	says(t, "late", karim.submit(desk1+"/refunds", late...), 409, "Somebody else came first", "rina", "has asked for 100.00 BDT", "To a new form, for what is left", "400.00 BDT")
	// Back, and reload: the page is made anew, with a key of its own.
	again := karim.ask(desk1 + "/refund?id=second-key")
	if i := slices.Index(again, "key"); again[i+1] == late[i+1] {
		t.Error("two forms have the same key")
	}
}

// Above the limit another person decides, about exactly what they have seen; nobody about their own.
func TestSupport_FourEyes(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	rina, karim := d.named(t, "rina", "main:support"), d.named(t, "karim", "main:approver")
	form := desk1 + "/refund?id=first-key"
	says(t, "the form", rina.get(form), 200, "needs another person: no limit is set", "Nothing is posted before that")
	fields := rina.ask(form, "ticket", "T-9")
	page := desk1 + "/refunds/1"
	leads(t, "asked", rina.submit(desk1+"/refunds", fields...), page+"?done=asked")
	w := rina.get(page + "?done=asked")
	says(t, "to its maker", w, 200, "waiting for another person", "It is yours", "support or approver", "Withdraw the request for 500.00 BDT")
	if strings.Contains(w.Body.String(), ">Approve") {
		t.Error("the maker is shown how to approve")
	}
	says(t, "a second form", rina.get(form), 200, "not settled yet")
	w = d.named(t, "farida", "main:finance").get(page)
	if says(t, "to finance", w, 200, "It waits for somebody with the role"); strings.Contains(w.Body.String(), "/decide") {
		t.Error("finance is shown how to decide")
	}
	sha := d.requests(t)[0].SHA256
	decide := page + "/decide"
	says(t, "by its maker", rina.submit(decide, "verdict", "approve", "sha256", sha), 403, "is yours: another person has to approve", "Below is how it is now")
	says(t, "rejected by its maker", rina.submit(decide, "verdict", "reject", "sha256", sha, "note", "x"), 403)
	says(t, "withdrawn by another", karim.submit(decide, "verdict", "withdraw", "sha256", sha), 403, "only they can withdraw")
	says(t, "something else", karim.submit(decide, "verdict", "approve", "sha256", strings.Repeat("0", 64)), 409, "another one than was decided about", "Below is how it is now")
	says(t, "no hash", karim.submit(decide, "verdict", "approve", "sha256", "x"), 409)
	says(t, "no verdict", karim.submit(decide, "verdict", "<b>", "sha256", sha), 400, "is no verdict")
	says(t, "rejected without why", karim.submit(decide, "verdict", "reject", "sha256", sha), 400, `<a href="#reject-note">`)
	says(t, "of what there is not", karim.submit(desk1+"/refunds/99/decide", "verdict", "approve", "sha256", sha), 404, "There is no such request")
	if got := d.refunded(t, "first-key"); got != "0.00" {
		t.Fatalf("%s has gone back", got)
	}
	says(t, "to who may", karim.get(page), 200, ">Approve: refund 500.00 BDT</button>", "Reject the refund of 500.00 BDT", sha)
	approve := karim.hidden(page, decide)[:4]
	leads(t, "approved", karim.submit(decide, approve...), page+"?done=decided")
	leads(t, "approved again", karim.submit(decide, approve...), page+"?done=decided-before")
	says(t, "approved", karim.get(page+"?done=decided"), 200, "Approved: 500.00 BDT is refunded", "Approved by", "karim")
	says(t, "decided by another", d.named(t, "selim", "main:approver").submit(decide, "verdict", "reject", "sha256", sha, "note", "no"), 409,
		"Somebody else has decided first", "karim has decided")
	leads(t, "asked again", rina.submit(desk1+"/refunds", fields...), page+"?done=before")
	if got := d.refunded(t, "first-key"); got != "500.00" {
		t.Errorf("%s has gone back", got)
	}

	// Two people ask before anybody has agreed: what is approved second the books refuse.
	second := desk1 + "/refund?id=second-key"
	a, b := rina.ask(second), d.named(t, "selim", "main:support").ask(second)
	leads(t, "the one", rina.submit(desk1+"/refunds", a...), desk1+"/refunds/2?done=asked")
	leads(t, "the other", d.named(t, "selim", "main:support").submit(desk1+"/refunds", b...), desk1+"/refunds/3?done=asked")
	for _, no := range []string{"2", "3"} {
		leads(t, no, karim.submit(desk1+"/refunds/"+no+"/decide", karim.hidden(desk1+"/refunds/"+no, desk1+"/refunds/"+no+"/decide")[:4]...),
			desk1+"/refunds/"+no+"?done=decided")
	}
	says(t, "the second one", karim.get(desk1+"/refunds/3?done=decided"), 200, "but the books have refused it", "REFUNDED_CHANGED")
	if got := d.refunded(t, "second-key"); got != "500.00" {
		t.Errorf("%s has gone back", got)
	}
	other := rina.ask(desk1 + "/refund?id=other-key")
	leads(t, "a third", rina.submit(desk1+"/refunds", other...), desk1+"/refunds/4?done=asked")
	leads(t, "withdrawn", rina.submit(desk1+"/refunds/4/decide", rina.hidden(desk1+"/refunds/4", desk1+"/refunds/4/decide")[:4]...), desk1+"/refunds/4?done=decided")
	says(t, "withdrawn", rina.get(desk1+"/refunds/4?done=decided"), 200, "It is withdrawn", "to a new form")
}

func TestSupport_Limits(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	g := d.as(t, "main:admin")
	limits := desk1 + "/limits"
	says(t, "none", g.get(limits), 200, "every refund needs another person", "Set a limit")
	fields := []string{"currency", "BDT", "single", "1000.00", "daily", "5000", "reason", "<b>Eid</b>"}
	leads(t, "set", g.submit(limits, fields...), limits+"?done=set")
	leads(t, "set again", g.submit(limits, fields...), limits+"?done=set")
	says(t, "set", g.get(limits+"?done=set"), 200, "The limit is set", "1,000.00 BDT", "5,000.00 BDT", "&lt;b&gt;Eid&lt;/b&gt;", "ayesha")
	leads(t, "lowered", g.submit(limits, append(fields, "single", "10")...), limits+"?done=set")
	says(t, "its versions", g.get(limits+"?currency=BDT"), 200, "all versions", "1,000.00 BDT", ">10.00 BDT<")
	says(t, "no currency", g.get(limits+"?currency=%3Cb%3E"), 404)
	for what, c := range map[string][3]string{
		"no reason": {"reason", "", "reason"}, "no amount": {"single", "x", "single"}, "less than nothing": {"daily", "-1", "daily"},
		"no such currency": {"currency", "XYZ", "currency"}, "no currency": {"currency", "<b>", "currency"}, "too fine": {"single", "0.001", "single"}, "the other too fine": {"daily", "5000.001", "daily"}, "never to be used": {"single", "5000.01", "single"},
		"too much": {"daily", strings.Repeat("9", 200), "daily"},
	} {
		says(t, what, g.submit(limits, append(append([]string{}, fields...), c[0], c[1])...), 400, `<a href="#limit-`+c[2]+`">`)
	}
	if body := d.as(t, "main:support").get(limits).Body.String(); strings.Contains(body, "Set a limit") {
		t.Error("support is shown the form")
	}
}

// The train's story ends here: two payments of ৳500 under different keys are a suspect, one is refunded, once, and the trial balance is zero.
func TestSupport_TrainStory(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.Handler = console.New(console.Config{
		Reports: report.New(d.journal, d.at.Pool), Books: d.journal, Desk: d.help, Suspects: d.suspects, Sessions: d.sessions, Zone: "Asia/Dhaka",
		Logger: slog.New(slog.DiscardHandler),
	})
	d.limit(t, "1000", "5000")
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := d.named(t, "rina", "main:support", "main:finance")
	w := g.get(desk1 + "/suspects")
	says(t, "the list", w, 200, `href="/console/main/suspects/1"`, "500.00 BDT", "wallet:rana", "shop:railway", "high", "apart", `aria-current="page">Suspects`)
	page := desk1 + "/suspects/1"
	w = g.get(page)
	says(t, "the group", w, 200, "first-key", "second-key", "Refund payment 2: 500.00 BDT", "the same description", "Dismiss: these 2")
	found := regexp.MustCompile(`class="button" href="([^"]+)"`).FindStringSubmatch(w.Body.String())
	if want := desk1 + "/refund?id=second-key&amp;reason=duplicate"; found == nil || found[1] != want {
		t.Fatalf("the button leads to %q", found)
	}
	form := stdhtml.UnescapeString(found[1])
	says(t, "the form", g.get(form), 200, `<option value="duplicate" selected>`, ">Refund 500.00 BDT</button>")
	fields := append(g.ask(form), "form_key", g.key())
	answers := make(chan *httptest.ResponseRecorder, 10)
	for range cap(answers) { // Ten presses.
		go func() {
			answers <- (&guest{t: t, d: d, cookies: g.cookies, headers: g.headers, from: g.from}).post(desk1+"/refunds", fields...)
		}()
	}
	for range cap(answers) {
		if w := <-answers; w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), desk1+"/refunds/1?") {
			t.Errorf("%d to %s: %s", w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	if first, second := d.refunded(t, "first-key"), d.refunded(t, "second-key"); first != "0.00" || second != "500.00" {
		t.Errorf("%s of the first and %s of the second have gone back", first, second)
	}
	w = g.get(page)
	says(t, "the group", w, 200, "<strong>refunded</strong>", "refunded in full", "All the others have gone back: this is the one that was meant")
	if strings.Contains(w.Body.String(), "/console/main/refund?") {
		t.Error("there is a way from here to refund the one that was meant")
	}
	// Who goes there all the same is told, and not by a duplicate.
	other := desk1 + "/refund?id=first-key&reason=duplicate"
	const warning = "belongs to suspect 1: its other payment second-key was refunded (request 1)"
	says(t, "the form of the other half", g.get(other), 200, warning)
	says(t, "its story", g.get(desk1+"/transfer?id=first-key"), 200, warning)
	says(t, "the other half", g.submit(desk1+"/refunds", g.ask(other)...), 400, `<a href="#refund-reason">`, "first-key is the last payment of suspect 1 that stands",
		"say why with another reason", warning)
	d.limit(t, "1", "1")
	leads(t, "for another reason", g.submit(desk1+"/refunds", g.ask(other, "reason", "goodwill")...), desk1+"/refunds/2?done=asked")
	says(t, "its request", d.named(t, "karim", "main:approver").get(desk1+"/refunds/2"), 200, warning, "wallet:rana", "shop:railway", "Can still be refunded now", ">Approve")
	if got := d.refunded(t, "first-key"); got != "0.00" {
		t.Errorf("%s of the first has gone back", got)
	}
	g.submit(desk1+"/refunds/2/decide", g.hidden(desk1+"/refunds/2", desk1+"/refunds/2/decide")[:4]...)
	says(t, "the list", g.get(desk1+"/suspects"), 200, "There is no such suspect")
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	says(t, "those refunded", g.get(desk1+"/suspects?state=refunded"), 200, `href="/console/main/suspects/1"`)
	now := time.Now().UTC()
	period := "?zone=UTC&from=" + now.AddDate(0, 0, -3).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)
	w = g.get(desk1 + "/reports/trial-balance" + period)
	if says(t, "the trial balance", w, 200, "debits equal credits in BDT", "shop:railway", "620.00"); strings.Contains(w.Body.String(), `role="alert"`) {
		t.Errorf("it does not add up:\n%s", w.Body)
	}
}

func TestSupport_Dismiss(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	follow := func() {
		t.Helper()
		if _, err := d.suspects.Follow(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	follow()
	rina, karim := d.named(t, "rina", "main:support"), d.named(t, "karim", "main:finance")
	page := desk1 + "/suspects/1"
	dismiss, undismiss := page+"/dismiss", page+"/undismiss"
	late := karim.hidden(page, dismiss, "reason", "two seats")
	says(t, "without why", rina.submit(dismiss, rina.hidden(page, dismiss)...), 400, `<a href="#dismiss-reason">`)
	says(t, "too long", rina.submit(dismiss, rina.hidden(page, dismiss, "reason", strings.Repeat("x", 1001))...), 400, `<a href="#dismiss-reason">`)
	says(t, "forged", rina.submit(dismiss, "request", "x", "members", "2", "reason", "x"), 403)
	says(t, "no number", rina.submit(dismiss, "request", strings.Repeat("A", 26), "members", "x", "reason", "x"), 403)
	fields := rina.hidden(page, dismiss, "reason", "two tickets")
	leads(t, "dismissed", rina.submit(dismiss, fields...), page+"?done=dismissed")
	leads(t, "dismissed again", rina.submit(dismiss, fields...), page+"?done=before")
	says(t, "dismissed", rina.get(page+"?done=dismissed"), 200, "It is dismissed", "two tickets", "Take the dismissal back", "rina")
	says(t, "by another", karim.submit(dismiss, late...), 409, "Somebody else has decided first", "rina has dismissed it", "two tickets")
	back := karim.hidden(page, undismiss, "reason", "it was one")
	leads(t, "taken back", karim.submit(undismiss, back...), page+"?done=undismissed")
	leads(t, "taken back again", karim.submit(undismiss, back...), page+"?done=before")
	// Another payment comes while somebody has the page before him.
	old := rina.hidden(page, dismiss, "reason", "three tickets")
	d.pay(t, "third-key", "wallet:rana", "500.00", `{}`, "Dhaka to Chattogram")
	follow()
	says(t, "of two, when there are three", rina.submit(dismiss, old...), 409, "another payment since", "third-key")
	for query, anchor := range map[string]string{"state=x": "state", "level=x": "level", "account=a+b": "account", "from=x": "from"} {
		says(t, query, rina.get(desk1+"/suspects?"+query), 400, `<a href="#`+anchor+`">`)
	}
	says(t, "of an account", rina.get(desk1+"/suspects?account=wallet:mina&level=high&state=all"), 200, "There is no such suspect")
	says(t, "of no account", rina.get(desk1+"/suspects?account=nobody"), 404, `<a href="#account">`)
	says(t, "further on", rina.get(desk1+"/suspects?before=2020-01-01T00:00:00Z&before_no=1"), 200, "There is no such suspect")
	says(t, "from nowhere", rina.get(desk1+"/suspects?before=x"), 400)
	// Who looked is written down.
	if body := d.as(t, "main:admin").get(desk1 + "/audit?action=suspect.read&actor=rina").Body.String(); !strings.Contains(body, `href="/console/main/suspects/1"`) {
		t.Errorf("nobody knows who has looked:\n%s", body)
	}
}

// Of three, the two that look most alike are named by their places, whichever came last.
func TestSupport_SuspectOfThree(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.pay(t, "third-key", "wallet:rana", "500.00", `{}`, "Dhaka to Sylhet")
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := d.as(t, "main:support")
	w := g.get(desk1 + "/suspects/1")
	says(t, "the group", w, 200, "Refund payment 2: 500.00 BDT", `class="button" href="/console/main/refund?id=second-key&amp;reason=duplicate"`, "most like payment 1", "most like payment 2")
	if times := regexp.MustCompile(`>20\d\d-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}</time>`).FindAllString(w.Body.String(), -1); len(times) != 3 {
		t.Errorf("the times have no fractions: %q", times)
	}
}

// What customers have in hand leads to the same pages, and the approver sees what has changed since.
func TestSupport_WrittenAsCustomersHaveIt(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.limit(t, "100", "5000")
	number := "TXN-" + strings.Repeat("AB", 13)
	entries := ledger.Simple("wallet:mina", "shop:railway", dec("300"), "BDT")
	if r, err := d.journal.PostWith(t.Context(), "app", "main", ledger.TransferSpec{ID: ledger.TransferID("khata:" + number), Entries: entries}, nil, nil); err != nil || r.Err != nil {
		t.Fatal(r.Err, err)
	}
	g, karim := d.named(t, "rina", "main:support"), d.named(t, "karim", "main:approver")
	says(t, "the story", g.get(desk1+"/transfer?id="+strings.ToLower(number)), 200, "Transfer <bdi class=\"break\">"+number, "300.00 BDT", "refund?id=khata%3A"+number)
	form := desk1 + "/refund?id=" + number
	says(t, "the form", g.get(form), 200, ">Refund 300.00 BDT</button>")
	leads(t, "asked", g.submit(desk1+"/refunds", g.ask(form, "id", number)...), desk1+"/refunds/1?done=asked")
	says(t, "those of it", g.get(desk1+"/refunds?id="+number), 200, "Of requests 1 to 1")
	says(t, "in the audit", d.as(t, "main:admin").get(desk1+"/audit?object="+number), 200, "refund.request", "transfer?id=khata%3A"+number)
	says(t, "to its approver", karim.get(desk1+"/refunds/1"), 200, "wallet:mina", "shop:railway", "Can still be refunded now</dt><dd>300.00 BDT")
	leads(t, "a part", g.submit(desk1+"/refunds", g.ask(form+"&amount=100")...), desk1+"/refunds/2?done=asked")
	says(t, "to its approver, later", karim.get(desk1+"/refunds/1"), 200, "Can still be refunded now</dt><dd>200.00 BDT", "It would be refused",
		"100.00 BDT was refunded since it was asked for: approving it will be refused by the books")
	ref := strings.TrimPrefix(string(d.requests(t)[0].Transfer), "khata:")
	says(t, "the reference of a text message", g.get(desk1+"/support?text="+ref), 200, "reference of the refund", "100.00 BDT")
	says(t, "its story", g.get(desk1+"/transfer?id="+ref), 200, "100.00 BDT was refunded")
	// Nobody came first where more is asked for than there is.
	says(t, "too much", g.submit(desk1+"/refunds", g.ask(form, "amount", "200.01")...), 409, "More than is left", "200.00 BDT of transfer", "is left, and 200.01 BDT is asked for")
}

// What somebody has looked for in vain is in the audit, and nothing leads to it.
func TestSupport_AuditOfNothing(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	rina := d.named(t, "rina", "main:support")
	for _, path := range []string{"/transfer?id=NOPE", "/suspects/99", "/refunds/99", "/transfer?id=first-key", "/suspects/1"} {
		rina.get(desk1 + path)
	}
	body := d.as(t, "main:finance").get(desk1 + "/audit").Body.String()
	for text, want := range map[string]bool{
		"NOPE": true, "transfer?id=NOPE": false, "suspects/99": false, "refunds/99": false, `href="/console/main/transfer?id=first-key"`: true, `href="/console/main/suspects/1"`: true,
	} {
		if strings.Contains(body, text) != want {
			t.Errorf("the audit has %q: %t, want %t", text, !want, want)
		}
	}
}

func TestSupport_Review(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	rina := d.named(t, "rina", "main:support")
	rina.submit(desk1+"/refunds", rina.ask(desk1+"/refund?id=first-key")...)
	says(t, "the list", rina.get(desk1+"/review"), 200, "Refunds that wait for another person", "rina asked for a refund of 500.00 BDT", `href="/console/main/refunds/1"`,
		`href="/console/main/transfer?id=first-key"`, "The oldest waits for less than a minute", "Suspected double charges", `aria-current="page">Review`)
}

// What cannot be written down is not shown, and not done.
func TestSupport_Unaudited(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).customers(t)
	d.limit(t, "1000", "5000")
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := d.as(t, "main:support", "main:admin")
	fields := g.ask(desk1 + "/refund?id=first-key")
	d.db.Exec(t, `REVOKE INSERT ON audit_event FROM khata_service`)
	for _, path := range []string{"/support?text=first-key", "/transfer?id=first-key", "/refund?id=first-key", "/refunds", "/refunds/1", "/review", "/suspects", "/suspects/1", "/audit"} {
		w := g.get(desk1 + path)
		if w.Code < 500 || strings.Contains(w.Body.String(), "rana") || strings.Contains(w.Body.String(), "500.00") {
			t.Errorf("%s: %d\n%s", path, w.Code, w.Body)
		}
	}
	if w := g.submit(desk1+"/refunds", fields...); w.Code < 500 {
		t.Errorf("a refund: %d", w.Code)
	}
	if got := d.refunded(t, "first-key"); got != "0.00" {
		t.Errorf("%s has gone back", got)
	}
}

func TestSupport_Audit(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	rina, g := d.named(t, "rina", "main:support"), d.as(t, "main:finance")
	rina.get(desk1 + "/transfer?id=first-key")
	rina.submit(desk1+"/refunds", rina.ask(desk1+"/refund?id=first-key")...)
	audit := desk1 + "/audit"
	says(t, "to who may not", rina.get(audit), 403)
	says(t, "all", g.get(audit), 200, "transfer.story", "refund.request", "audit.list", "rina", "192.0.2.1", "refund.form")
	w := g.get(audit + "?actor=rina&action=refund.request")
	if says(t, "some", w, 200, "refund.request", "amount", "500.00 BDT", `href="/console/main/transfer?id=first-key"`); strings.Contains(w.Body.String(), ">transfer.story<") {
		t.Error("the filter does not count")
	}
	says(t, "of a transfer", g.get(audit+"?object=first-key"), 200, "transfer.story")
	says(t, "of another one", g.get(audit+"?object=other-key&kind=transfer"), 200, "There is no such event")
	for query, anchor := range map[string]string{"kind=transfer": "object", "from=x": "from", "to=x": "to", "actor=" + strings.Repeat("x", 300): "actor"} {
		says(t, query, g.get(audit+"?"+query), 400, `<a href="#`+anchor+`">`)
	}
	says(t, "no time", g.get(audit+"?before=x"), 400)
	for range 120 {
		rina.get(desk1 + "/transfer?id=other-key")
	}
	w = g.get(audit + "?actor=rina")
	says(t, "many", w, 200, "Older ones")
	next := regexp.MustCompile(`class="button" href="([^"]+)"`).FindStringSubmatch(w.Body.String())
	says(t, "older ones", g.get(stdhtml.UnescapeString(next[1])), 200, "refund.request")
}

// Where there is no desk there are no pages, and nothing leads to them.
func TestSupport_LeftOut(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false, func(c *console.Config) { c.Desk = nil })
	g := d.as(t, "main:support", "main:admin", "main:finance")
	for _, path := range []string{"support", "suspects", "review"} {
		if strings.Contains(g.get(desk1+"/").Body.String(), desk1+"/"+path) {
			t.Errorf("there is a way to %s", path)
		}
	}
	for _, route := range console.ConsoleRoutes() {
		method, path := sample(route)
		if !slices.Contains([]string{"support", "transfer", "refund", "refunds", "limits", "review", "suspects", "audit"}, strings.Split(path+"///", "/")[3]) {
			continue
		}
		w := g.get(path)
		if method == "POST" {
			w = g.submit(path, "request", strings.Repeat("A", 26))
		}
		says(t, route, w, 404)
	}
}

// Forms that are not the session's own do nothing.
func TestSupport_ForeignForms(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).helped(t)
	d.limit(t, "1000", "5000")
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := d.as(t, "main:support", "main:admin")
	other := d.named(t, "mallory", "main:support", "main:admin")
	fields := g.ask(desk1 + "/refund?id=first-key")
	for _, path := range []string{"/refunds", "/refunds/1/decide", "/limits", "/suspects/1/dismiss", "/suspects/1/undismiss"} {
		send := append(append([]string{}, fields...), "currency", "BDT", "single", "1", "daily", "1", "reason", "duplicate", "members", "2", "request", strings.Repeat("A", 26))
		says(t, path+" without a key", g.post(desk1+path, send...), 403, "This form is not from here")
		says(t, path+" with another's key", g.post(desk1+path, append(send, "form_key", other.key())...), 403, "This form is not from here")
		key := g.key()
		g.headers = map[string]string{"Sec-Fetch-Site": "cross-site"}
		says(t, path+" from another site", g.post(desk1+path, append(send, "form_key", key)...), 403, "This form is not from here")
		g.headers = map[string]string{"Sec-Fetch-Site": "same-origin"}
		says(t, path+" too big", g.post(desk1+path, append(send, "form_key", key, "note", strings.Repeat("x", 20_000))...), 413)
		if w := g.get(desk1 + path); w.Code == 200 && path != "/refunds" && path != "/limits" {
			t.Errorf("%s can be got", path)
		}
	}
	if n := len(d.requests(t)); n != 0 {
		t.Errorf("%d requests", n)
	}
}

// What customers, colleagues and rooms have written does nothing, wherever it is shown.
func TestSupport_Markup(t *testing.T) {
	t.Parallel()
	const evil = `><script>alert(1)</script><img/src=x/onerror=alert(1)>'{{.}}` + "\u202e"
	d := newDesk(t, false, func(c *console.Config) { c.Desk = shouting{c.Desk, evil} }).helped(t)
	for _, id := range []ledger.TransferID{"evil-1", "evil-2"} {
		d.pay(t, id, "wallet:mina", "77.00", `{"order":"><script>alert(1)</script>","ref":"<img/src=x/onerror=alert(1)>"}`, evil)
	}
	if _, err := d.suspects.Follow(t.Context()); err != nil {
		t.Fatal(err)
	}
	g := d.as(t, "main:support", "main:finance", "main:admin")
	karim := d.named(t, "karim", "main:approver", "main:support")
	check := func(what string, w *httptest.ResponseRecorder) {
		t.Helper()
		if w.Code >= 500 {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		noMarkup(t, what, w.Body.String())
	}
	check("asking", g.submit(desk1+"/refunds", g.ask(desk1+"/refund?id=evil-1", "note", evil, "ticket", evil, "reason", "other")...))
	page := desk1 + "/refunds/1"
	e := url.QueryEscape(evil)
	group := desk1 + "/suspects/2"
	check("dismissing", g.submit(group+"/dismiss", g.hidden(group, group+"/dismiss", "reason", evil)...))
	check("undismissing", karim.submit(group+"/undismiss", karim.hidden(group, group+"/undismiss", "reason", evil)...))
	check("a limit", g.submit(desk1+"/limits", "currency", "BDT", "single", "1", "daily", "1", "reason", evil))
	paths := []string{
		desk1 + "/support?account=wallet:mina", desk1 + "/support?text=" + e, desk1 + "/transfer?id=evil-1", desk1 + "/refund?id=evil-1&reason=" + e, page,
		page + "?done=" + e, desk1 + "/refunds", desk1 + "/refunds?state=" + e, desk1 + "/limits", desk1 + "/limits?currency=BDT", desk1 + "/limits?currency=" + e,
		desk1 + "/review", desk1 + "/suspects", group, group + "?done=" + e, desk1 + "/audit", desk1 + "/audit?action=" + e, desk1 + "/audit?actor=" + e,
	}
	for _, name := range []string{"text", "user", "account", "amount", "from", "to", "zone", "state", "level", "kind", "object", "before", "before_no", "id", "reason"} {
		for _, below := range []string{"/support?x=", "/transfer?id=evil-1", "/refund?id=evil-1", "/refunds?x=", "/suspects?x=", "/audit?x="} {
			paths = append(paths, desk1+below+"&"+name+"="+e)
		}
	}
	for _, path := range paths {
		check(path, g.get(path))
	}
	check("rejecting", karim.submit(page+"/decide", "verdict", "reject", "sha256", d.requests(t)[0].SHA256, "note", evil))
	check("the request", karim.get(page))
	for _, path := range []string{"/refunds", "/refunds/1/decide", "/limits", "/suspects/2/dismiss", "/suspects/2/undismiss"} {
		check(path, g.submit(desk1+path, "id", evil, "key", strings.Repeat("A", 26), "amount", "1", "expected_refunded", "0", "reason", evil, "note", evil, "ticket", evil,
			"verdict", evil, "sha256", evil, "currency", evil, "single", evil, "daily", evil, "members", "2", "request", strings.Repeat("B", 26)))
	}
}

// shouting is a desk whose rooms tell of what somebody has written.
type shouting struct {
	console.Desk
	evil string
}

func (s shouting) Story(ctx context.Context, who support.Actor, name ledger.Name, id ledger.TransferID) (*support.Story, error) {
	story, err := s.Desk.Story(ctx, who, name, id)
	if err == nil {
		story.Items = append(story.Items, support.Item{
			At: time.Now(), Source: s.evil, Transfer: ledger.TransferID(s.evil), Who: s.evil, What: s.evil, Details: []support.Detail{{Name: s.evil, Value: s.evil}},
		})
		story.Cut, story.Missing = append(story.Cut, s.evil), append(story.Missing, support.Missing{Source: s.evil, Why: s.evil})
	}
	return story, err
}

func (s shouting) Review(ctx context.Context, who support.Actor, name ledger.Name) (*support.Review, error) {
	review, err := s.Desk.Review(ctx, who, name)
	if err == nil {
		task := support.Task{Since: time.Now(), What: s.evil, ID: s.evil, Transfer: ledger.TransferID(s.evil), Next: s.evil}
		for _, kind := range []support.Kind{support.Breaks, support.WaitingRefunds, support.Kind(s.evil)} {
			review.Heaps = append(review.Heaps, support.Heap{Kind: kind, Count: 1, Oldest: time.Now(), Next: s.evil, Entries: []support.Task{task}})
		}
		review.Missing = append(review.Missing, support.Missing{Source: s.evil, Why: s.evil})
	}
	return review, err
}
