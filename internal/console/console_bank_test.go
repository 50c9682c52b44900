package console_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// brac is the page of the bank account that tests have.
const brac = "/console/main/reconcile/bank/brac"

// post posts "id day amount description [payout]" between the bank's account and a wallet: a positive amount comes in.
func (d *desk) postAll(t testing.TB, transfers ...string) {
	t.Helper()
	var specs []ledger.TransferSpec
	for _, text := range transfers {
		f := strings.Split(text, "|")
		at, err := time.Parse(time.DateOnly, f[1])
		if err != nil {
			t.Fatal(err)
		}
		amount, debit, credit := decimal.RequireFromString(f[2]), ledger.AccountID("assets:bank:brac"), ledger.AccountID("wallet:tithi")
		if amount.IsNegative() {
			debit, credit, amount = credit, debit, amount.Neg()
		}
		at = at.Add(10 * time.Hour)
		spec := ledger.TransferSpec{ID: ledger.TransferID(f[0]), Entries: ledger.Simple(debit, credit, amount, ""), EffectiveAt: &at, Description: f[3]}
		if len(f) > 4 {
			spec.Metadata = ledger.Metadata(fmt.Sprintf(`{"payout":%q}`, f[4]))
		}
		specs = append(specs, spec)
	}
	results, err := d.journal.Post(t.Context(), "x", "main", specs)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if r.Err != nil || r.Transfer.Refusal != nil {
			t.Fatalf("%s: %v %+v", transfers[i], r.Err, r.Transfer)
		}
	}
}

// mt940 is a statement of account BRAC-001 in BDT: its number, "2026-01-01 100.00" at its beginning and end, and lines "day|amount|reference|text".
func mt940(number int, opening, closing string, lines ...string) string {
	mark := func(amount string) string {
		if rest, negative := strings.CutPrefix(amount, "-"); negative {
			return "D" + strings.ReplaceAll(rest, ".", ",")
		}
		return "C" + strings.ReplaceAll(amount, ".", ",")
	}
	short := func(day string) string { return strings.ReplaceAll(day[2:], "-", "") }
	balance := func(tag, text string) string {
		day, amount, _ := strings.Cut(text, " ")
		amount = mark(amount)
		return fmt.Sprintf(":%s:%s%sBDT%s\n", tag, amount[:1], short(day), amount[1:])
	}
	out := fmt.Sprintf(":20:TEST%d\n:25:BRAC-001\n:28C:%d/1\n", number, number) + balance("60F", opening)
	for _, line := range lines {
		f := strings.Split(line, "|")
		out += fmt.Sprintf(":61:%s%s%sNTRF%s\n", short(f[0]), short(f[0])[2:], mark(f[1]), f[2])
		if len(f) > 3 {
			out += ":86:" + f[3] + "\n"
		}
	}
	return out + balance("62F", closing) + "-\n"
}

// january is a statement in which there is one of each.
var january = mt940(1, "2026-01-01 5000.00", "2026-01-31 10852.50",
	"2026-01-05|1500.00|TXN-1|Coaching fee", "2026-01-06|-250.00|TXN-2|Rent of the counter", "2026-01-07|997.50|TXN-3|Net of charges",
	"2026-01-08|420.00|NONREF|Cash deposit at the Mirpur branch", "2026-01-09|100.00|NONREF|Agent 17", "2026-01-09|100.00|NONREF|Agent 17",
	"2026-01-12|-15.00|CHG-0112|Account maintenance fee", "2026-01-20|3000.00|PAYOUT-9|Gateway payout")

// banked gives a desk a bank account whose lines and entries are in many states, and a run of the matching.
func (d *desk) banked(t testing.TB) *desk {
	t.Helper()
	if _, err := d.journal.CreateAccounts(t.Context(), "x", "main", []ledger.AccountSpec{
		{ID: "assets:bank:brac", Type: ledger.Asset, Currency: "BDT"}, {ID: "assets:bank:city", Type: ledger.Asset, Currency: "BDT"},
		{ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT"}, {ID: "expenses:bank-charges", Type: ledger.Expense, Currency: "BDT"},
		{ID: "assets:bank:usd", Type: ledger.Asset, Currency: "USD"},
	}); err != nil {
		t.Fatal(err)
	}
	d.postAll(t, "OPEN|2025-12-31|5000.00|Brought over from the old books", "TXN-1|2026-01-05|1500.00|Coaching fee", "TXN-2|2026-01-06|-250.00|Rent",
		"TXN-3|2026-01-07|1000.00|Card payment", "INV-77|2026-01-08|420.00|Invoice 77", "AG-1|2026-01-09|100.00|Agent", "AG-2|2026-01-09|100.00|Agent",
		"P-1|2026-01-18|1000.00|Sale|PAYOUT-9", "P-2|2026-01-18|1200.00|Sale|PAYOUT-9", "P-3|2026-01-19|800.00|Sale|PAYOUT-9",
		"LATE-1|2026-01-30|777.00|On its way")
	settings := reconcile.DefaultSettings()
	settings.Identifiers = []string{"BRAC-001"}
	if _, err := d.bank.CreateBankAccount(t.Context(), reconcile.BankAccountSpec{
		Ledger: "main", Name: "brac", Account: "assets:bank:brac", Basis: report.Value, Settings: &settings,
	}, "rahim"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.bank.SaveProfile(t.Context(), "main", plainProfile, "rahim"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.bank.Import(t.Context(), reconcile.ImportSpec{Ledger: "main", BankAccount: "brac", FileName: "january.sta"}, strings.NewReader(january),
		"rahim"); err != nil {
		t.Fatal(err)
	}
	d.rematch(t)
	return d
}

func (d *desk) rematch(t testing.TB) *reconcile.Run {
	t.Helper()
	run, err := d.bank.Match(t.Context(), reconcile.MatchSpec{Ledger: "main", BankAccount: "brac"}, "rahim")
	if err != nil {
		t.Fatal(err)
	}
	return run
}

var plainProfile = bankfile.Profile{
	Name: "plain", Delimiter: ";", Currency: "BDT", Header: true,
	Columns: bankfile.Columns{
		BookingDate: bankfile.Column{Name: "day"}, Amount: bankfile.Column{Name: "amount"}, Reference: bankfile.Column{Name: "reference"},
		Description: []bankfile.Column{{Name: "text"}}, Partner: bankfile.Column{Name: "partner"}, PartnerAccount: bankfile.Column{Name: "iban"},
		PartnerBank: bankfile.Column{Name: "bic"}, ID: bankfile.Column{Name: "id"}, EndToEnd: bankfile.Column{Name: "e2e"}, Code: bankfile.Column{Name: "code"},
	},
}

// multipartForm is a form with a file: names and values, and the file's name and content after "file".
func multipartForm(t testing.TB, fields ...string) (contentType string, body []byte) {
	t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(fields); i += 2 {
		var part io.Writer
		var err error
		if fields[i] == "file" {
			part, err = w.CreateFormFile("file", fields[i+1])
			i++
		} else {
			part, err = w.CreateFormField(fields[i])
		}
		if err == nil {
			_, err = io.WriteString(part, fields[i+1])
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.Bytes()
}

// upload sends a form with a file, and the session's key first.
func (g *guest) upload(path string, fields ...string) *httptest.ResponseRecorder {
	g.t.Helper()
	return g.uploadRaw(path, append([]string{"form_key", g.key()}, fields...)...)
}

func (g *guest) uploadRaw(path string, fields ...string) *httptest.ResponseRecorder {
	g.t.Helper()
	contentType, body := multipartForm(g.t, fields...)
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	return g.send(r)
}

var requestPattern = regexp.MustCompile(`name="request" value="([A-Z2-7]{26})"`)

// request is what the first form of a page knows its request by.
func (g *guest) request(path string) string {
	g.t.Helper()
	body := g.get(path).Body.String()
	found := requestPattern.FindStringSubmatch(body)
	if found == nil {
		g.t.Fatalf("%s has no form with a request:\n%s", path, body)
	}
	return found[1]
}

// items are the results of the last run, by how forms name them, for one that a test looks for.
func (d *desk) find(t testing.TB, what func(*reconcile.Result) bool) string {
	t.Helper()
	list, _, err := d.bank.Results(t.Context(), "main", "brac", 0, reconcile.ResultFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if r := &list[i]; what(r) {
			if r.Line != nil {
				return fmt.Sprintf("line:%d", r.Line.No)
			}
			return fmt.Sprintf("entry:%d:%d", r.Entry.Sequence, r.Entry.Leg)
		}
	}
	t.Fatalf("there is no such item among %d", len(list))
	return ""
}

func ofLine(description string) func(*reconcile.Result) bool {
	return func(r *reconcile.Result) bool {
		return r.Line != nil && strings.Contains(r.Line.Description, description)
	}
}

func ofTransfer(id ledger.TransferID) func(*reconcile.Result) bool {
	return func(r *reconcile.Result) bool { return r.Entry != nil && r.Entry.Transfer == id }
}

// group is the suggestion that an item is in.
func (d *desk) group(t testing.TB, what func(*reconcile.Result) bool) string {
	t.Helper()
	group := 0
	d.find(t, func(r *reconcile.Result) bool {
		if what(r) {
			group = r.Group
		}
		return what(r)
	})
	return fmt.Sprint(group)
}

func (d *desk) manual(t testing.TB) []*reconcile.Decision {
	t.Helper()
	list, _, err := d.bank.Decisions(t.Context(), "main", "brac", reconcile.DecisionFilter{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	var manual []*reconcile.Decision
	for _, d := range list {
		if d.Kind != "automatic" {
			manual = append(manual, d)
		}
	}
	return manual
}

// The pages show what there is: open items by outcome, suggestions, items with their candidates, decisions, files.
func TestBank_Pages(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance", "main:admin")
	run := fmt.Sprint(d.lastRun(t).No)
	says(t, "the list", g.get("/console/main/reconcile"), 200, `href="`+brac+`"`, "assets:bank:brac", "10,852.50", "2026-01-31", "explained by open items",
		"Add a bank account", `aria-current="page">Reconciliation`)
	says(t, "the bank account", g.get(brac), 200, "mirrors", "What to do next", "suggestion", "Balance in the books", "11,647.00", "Balance at the bank",
		"Unexplained", "not at the bank", "of these, in transit", "not in the books", "several candidates", "january.sta", "Match now", "Import the file",
		"BRAC-001", "Version 1", "Change the settings")
	says(t, "the suggestions", g.get(brac+"/work"), 200, "Suggestion 1", "Confirm: line", "420.00 BDT", "They differ by", "−2.50",
		"and post the difference of −2.50 BDT", "Account for the difference of −2.50 BDT")
	says(t, "the items", g.get(brac+"/work?view=items"), 200, "Account maintenance fee", "LATE-1", "in transit", "several candidates")
	w := g.get(brac + "/work?view=items&outcome=missing_in_ledger&side=bank")
	if says(t, "one outcome", w, 200, "Account maintenance fee"); strings.Contains(w.Body.String(), "LATE-1") {
		t.Error("the filter does not count")
	}
	says(t, "no outcome", g.get(brac+"/work?view=items&outcome=%3Cb%3E"), 400, `<a href="#outcome">`)
	says(t, "no side", g.get(brac+"/work?view=items&side=both"), 400, `<a href="#side">`)
	says(t, "a run", g.get(brac+"/work?run="+run), 200, "What run "+run)
	agent := d.find(t, ofLine("Agent 17"))
	says(t, "a line", g.get(brac+"/item?item="+agent), 200, "Agent 17", "Candidates", "AG-1", "AG-2", "Nobody has decided", "Ignore line")
	late := d.find(t, ofTransfer("LATE-1"))
	says(t, "an entry", g.get(brac+"/item?item="+late), 200, "LATE-1", "in transit", "On its way", "wallet:tithi")
	says(t, "the decisions", g.get(brac+"/decisions"), 200, "matched by a run, by reference", "matched by a run, by batch")
	says(t, "those of people", g.get(brac+"/decisions?kind=manual&active=1"), 200, "There is no such decision")
	says(t, "no kind", g.get(brac+"/decisions?kind=x"), 400, `<a href="#kind">`)
	first := d.decisions(t)[0]
	says(t, "a decision", g.get(fmt.Sprintf("%s/decisions/%d", brac, first.No)), 200, "rahim", "Take decision")
	says(t, "the file", g.get(fmt.Sprintf("%s/files/%d", brac, d.files(t)[0].No)), 200, "SHA-256", "opening balance and lines make the closing balance",
		"New lines", "Gateway payout")
	for _, nothing := range []string{
		"/nothing", "/files/99", "/files/x", "/decisions/99999", "/decisions/-1", "/item", "/item?item=line:99999", "/item?item=entry:99999:1",
		"/item?item=line:0", "/item?item=entry:x:1", "/item?item=entry:0:0", "/work?run=99999",
	} {
		says(t, nothing, g.get(brac+nothing), 404)
	}
	for _, nothing := range []string{"/console/main/reconcile/bank/nobody", "/console/main/reconcile/bank/%3Cb%3E/work", "/console/main/reconcile/profiles/x"} {
		says(t, nothing, g.get(nothing), 404, "There is no such")
	}
	// Who may only look is shown no form.
	body := d.as(t, "main:reader").get(brac + "/item?item=" + agent).Body.String()
	if strings.Contains(body, "<fieldset") || strings.Count(body, `method="post"`) != 1 {
		t.Errorf("a reader is shown a form:\n%s", body)
	}
}

func (d *desk) lastRun(t testing.TB) *reconcile.Run {
	t.Helper()
	run, err := d.bank.Run(t.Context(), "main", "brac", 0)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func (d *desk) decisions(t testing.TB) []*reconcile.Decision {
	t.Helper()
	list, _, err := d.bank.Decisions(t.Context(), "main", "brac", reconcile.DecisionFilter{Limit: 1000})
	if err != nil || len(list) == 0 {
		t.Fatal(list, err)
	}
	return list
}

func (d *desk) files(t testing.TB) []reconcile.File {
	t.Helper()
	list, _, err := d.bank.Files(t.Context(), "main", "brac", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What people have decided since the run is no more to do, and is not counted as open.
func TestBank_DecidedSince(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	outcome := func() string {
		found := regexp.MustCompile(`>not in the books</a></th><td class="num">([0-9]+)</td><td class="[a-z ]+">([^<]+)<`).FindStringSubmatch(g.get(brac).Body.String())
		if found == nil {
			return "none"
		}
		return found[1] + " of " + found[2]
	}
	open := func() string {
		return strings.Join(regexp.MustCompile(`>Open</a></th><td class="num">([0-9]+)</td><td class="[a-z ]+">([^<]+)</td><td class="num">([0-9]+)</td>`).
			FindStringSubmatch(g.get(brac).Body.String())[1:], " ")
	}
	before := open()
	says(t, "before", g.get(brac), 200, "Not in the books: <a", ">1 item</a>")
	if got := outcome(); got != "1 of −15.00" {
		t.Fatalf("before: %s", got)
	}
	fee := d.find(t, ofLine("maintenance"))
	leads(t, "ignored", g.submit(brac+"/ignore", "request", g.request(brac+"/item?item="+fee), "item", fee, "reason", "agreed"),
		fmt.Sprintf("%s/decisions/%d?done=ignored", brac, d.manual(t)[0].No))
	w := g.get(brac)
	says(t, "after", w, 200, "Match again: 1 item was decided since the last run.", "1 item was decided since, and is left out here.")
	if strings.Contains(w.Body.String(), "Not in the books") || outcome() != "none" {
		t.Errorf("what was ignored is still to be found: %s", outcome())
	}
	says(t, "the work list", g.get(brac+"/work"), 200, "1 of the items was decided since this run")

	// Of an item that was decided in part the rest is open. The run itself stays as it is.
	entry := reconcile.EntryTake{Amount: decimal.RequireFromString("700")}
	if _, err := fmt.Sscanf(d.find(t, func(r *reconcile.Result) bool { return r.Entry != nil && r.Entry.Transfer == "LATE-1" }), "entry:%d:%d",
		&entry.Sequence, &entry.Leg); err != nil {
		t.Fatal(err)
	}
	if _, err := d.bank.Ignore(t.Context(), reconcile.IgnoreSpec{Ledger: "main", BankAccount: "brac", Entry: &entry, Reason: "most of it"}, "rahim"); err != nil {
		t.Fatal(err)
	}
	says(t, "a part of another", g.get(brac), 200, "Match again: 2 items were decided since the last run.", "2 items were decided since, and are left out here.", ">77.00<")
	after := open()
	d.rematch(t)
	w = g.get(brac)
	if says(t, "matched again", w, 200); strings.Contains(w.Body.String(), "decided since") || open() != after || before == after {
		t.Errorf("open before %s, since %s, matched again %s", before, after, open())
	}
}

func TestBank_CreateAndSet(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:admin")
	fields := []string{"name", "city", "account", "assets:bank:city", "identifiers", "CITY-1\n\n CITY-2 ", "zone", "Asia/Dhaka", "money_in", "debit",
		"basis", "value", "begins", "2026-01-01"}
	city := "/console/main/reconcile/bank/city"
	leads(t, "created", g.submit("/console/main/reconcile", fields...), city+"?done=created")
	leads(t, "created again", g.submit("/console/main/reconcile", fields...), city+"?done=created")
	says(t, "its page", g.get(city+"?done=created"), 200, "Begin with the oldest", "CITY-1, CITY-2", "begins 2026-01-01", "The bank account is there")
	says(t, "its work list", g.get(city+"/work"), 200, "Nothing was matched yet")
	says(t, "its statement", g.get(city+"/statement"), 200, "The bank has said nothing yet", `<a href="`+city+`#upload-title">Import a file first</a>`)
	says(t, "its statement at a day that cannot be", g.get(city+"/statement?day=x"), 400, `<a href="#day">`)
	says(t, "its items", g.get(city+"/items?run="), 404, `<a href="#run">`, "has no run yet")
	for what, c := range map[string]struct {
		change []string
		status int
		text   string
	}{
		"another's account": {[]string{"name", "x", "account", "assets:bank:brac"}, 409, `<a href="#create-account">Account: account assets:bank:brac is mirrored`},
		"a name that is":    {[]string{"account", "wallet:tithi"}, 409, `<a href="#create-name">`},
		"no name":           {[]string{"name", "A B"}, 400, `<a href="#create-name">`},
		"no account":        {[]string{"name", "x", "account", "nobody"}, 404, `<a href="#create-account">`},
		"no day":            {[]string{"name", "x", "begins", "soon"}, 400, `<a href="#create-begins">`},
		"no zone":           {[]string{"name", "x", "zone", "Mars"}, 400, `<a href="#create-zone">`},
		"no side":           {[]string{"name", "x", "account", "wallet:tithi", "money_in", "both"}, 400, `<a href="#create-money_in">`},
	} {
		says(t, what, g.submit("/console/main/reconcile", append(append([]string{}, fields...), c.change...)...), c.status, c.text)
	}
	set := []string{"version", "1", "identifiers", "CITY-1", "days_before", "2", "days_after", "4", "tolerance", "0.50", "transit_days", "9",
		"reference_keys", "payout\nbatch", "confirm-reference", "1", "any_numbers", "1", "bai2_decimals", "jpy=2"}
	leads(t, "set", g.submit(city+"/settings", set...), city+"?done=set")
	says(t, "as set", g.get(city), 200, "Version 2", "2 and 4", "0.50 BDT", "payout, batch", "JPY=2", "may leave gaps")
	says(t, "set on an old page", g.submit(city+"/settings", set...), 409, "ayesha has changed them", "Version 2")
	for what, c := range map[string]struct{ name, value, text string }{
		"too fine": {"tolerance", "0.001", `<a href="#set-tolerance">`}, "no amount": {"tolerance", "1e99999", `<a href="#set-tolerance">`},
		"negative": {"tolerance", "-1", `<a href="#set-tolerance">`}, "too many days": {"days_after", "61", `<a href="#set-days_after">`},
		"no days": {"transit_days", "x", `<a href="#set-transit_days">`}, "no decimals": {"bai2_decimals", "JPY", `<a href="#set-bai2_decimals">`},
		"a long identifier": {"identifiers", strings.Repeat("x", 300), `<a href="#set-identifiers">`}, "no profile": {"profile", "A B", `<a href="#set-profile">`},
	} {
		w := g.submit(city+"/settings", append(append([]string{}, set...), "version", "2", c.name, c.value)...)
		says(t, what, w, 400, c.text, c.value)
	}
	if a, err := d.bank.BankAccount(t.Context(), "main", "city"); err != nil || a.SettingsVersion != 2 {
		t.Errorf("%+v %v", a, err)
	}
}

// A file is read as it arrives, and what becomes of it is said: imported, the same again, refused with the reason, too large, not whole.
func TestBank_Upload(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	files := brac + "/files"
	february := mt940(2, "2026-02-01 10852.50", "2026-02-28 10952.50", "2026-02-03|100.00|NEW|<b>A line</b>")
	w := g.upload(files, "dry_run", "1", "file", "february.sta", february)
	says(t, "dry", w, 200, "What would become of it", "Nothing was imported", "10,952.50")
	if n := len(d.files(t)); n != 1 {
		t.Errorf("a dry run has imported: %d files", n)
	}
	w = g.upload(files, "file", "../../<i>february<i>.sta", february)
	path, _, _ := strings.Cut(w.Header().Get("Location"), "?")
	leads(t, "imported", w, path+"?done=imported")
	says(t, "the file", g.get(path+"?done=imported"), 200, "The file is imported", "&lt;i&gt;february&lt;", "&lt;b&gt;A line&lt;/b&gt;", "ayesha")
	leads(t, "the same again", g.upload(files, "file", "renamed.sta", february), path+"?done=again")
	says(t, "the file again", g.get(path+"?done=again"), 200, "The same file again", "Nothing was done")
	says(t, "the same again, dry", g.upload(files, "dry_run", "1", "file", "x.sta", february), 200, "It is the same file again")

	for what, c := range map[string]struct {
		content string
		texts   []string
	}{
		"does not add up": {strings.Replace(mt940(3, "2026-03-01 10952.50", "2026-03-31 10952.50", "2026-03-03|1.00|X"), ":20:TEST3", ":20:T", 1),
			[]string{"Opening balance and lines do not make the closing balance", "totals_differ", "10953.5", "The file says", "does not hold"}},
		"a gap":           {mt940(4, "2026-04-01 1.00", "2026-04-30 1.00"), []string{"Something is missing", "gap"}},
		"another account": {strings.ReplaceAll(mt940(3, "2026-03-01 10952.50", "2026-03-31 10952.50"), "BRAC-001", "<b>OTHER</b>"), []string{"It is of another account", "other_account", "&lt;b&gt;OTHER"}},
		"nothing":         {"", []string{"is refused"}},
		"no bank's file":  {"\x00\x01\x02 garbage", []string{"is refused", "not_this_format"}},
	} {
		w := g.upload(files, "file", "x.sta", c.content)
		says(t, what, w, 400, append(c.texts, "Nothing of it was imported", "Import another file")...)
		noMarkup(t, what, w.Body.String())
	}
	says(t, "no file", g.upload(files, "file", "", ""), 400, `<a href="#file-file">`)
	says(t, "no file at all", g.upload(files), 400, `<a href="#file-file">`)
	says(t, "no profile", g.upload(files, "profile", "nobody", "file", "x.csv", "a;b"), 404, "has no profile nobody")

	says(t, "somebody else's key", g.uploadRaw(files, "form_key", "x", "file", "x.sta", february), 403, "This form is not from here")
	says(t, "the key after the file", g.uploadRaw(files, "file", "x.sta", february, "form_key", g.key()), 403, "This form is not from here")
	says(t, "no form with a file", g.submit(files, "file", "x"), 415)
	says(t, "big fields", g.upload(files, "profile", strings.Repeat("x", 200_000), "file", "x", "y"), 413, "The form is too big")
	foreign := d.as(t, "main:finance")
	foreign.headers["Sec-Fetch-Site"] = "cross-site"
	says(t, "from another site", foreign.uploadRaw(files, "form_key", g.key(), "file", "x.sta", february), 403, "This form is not from here")
	says(t, "who may not", d.as(t, "main:reader").upload(files, "file", "x.sta", february), 403, "You may not do this")
	leads(t, "who is not signed in", d.guest(t).uploadRaw(files, "form_key", "x", "file", "x.sta", february), "/console/signin?lost=1")

	contentType, body := multipartForm(t, "form_key", g.key(), "file", "x.sta", mt940(3, "2026-03-01 10952.50", "2026-03-31 10952.50"))
	for what, cut := range map[string]int{"cut in the file": len(body) - 90, "cut before it": 80, "cut at once": 10} {
		r := httptest.NewRequest(http.MethodPost, files, bytes.NewReader(body[:cut]))
		r.Header.Set("Content-Type", contentType)
		says(t, what, g.send(r), 400, "has not arrived whole")
	}
	if n := len(d.files(t)); n != 2 {
		t.Errorf("%d files were imported", n)
	}
}

// endless is a file of a form that never ends, and counts how much of it was read.
type endless struct {
	head io.Reader
	read int64
}

func (e *endless) Read(p []byte) (int, error) {
	if n, err := e.head.Read(p); n > 0 || err == nil {
		return n, err
	}
	for i := range p {
		p[i] = 'x'
		if i%80 == 79 {
			p[i] = '\n'
		}
	}
	e.read += int64(len(p))
	return len(p), nil
}

// Of a file that is too large no more is read than twice what a file may have, and none of it is kept.
func TestBank_UploadTooLarge(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	contentType, body := multipartForm(t, "form_key", g.key(), "file", "x.sta", ":20:X\n")
	file := &endless{head: bytes.NewReader(body[:bytes.Index(body, []byte(":20:X"))+6])}
	r := httptest.NewRequest(http.MethodPost, brac+"/files", file)
	r.Header.Set("Content-Type", contentType)
	w := g.send(r)
	says(t, "too large", w, 413, "The file is too large", "64 MiB")
	if len(d.files(t)) != 1 || file.read > 140<<20 {
		t.Errorf("after %d bytes: %d files", file.read, len(d.files(t)))
	}
	// And it does not keep the next one from its turn.
	says(t, "the next", g.upload(brac+"/files", "dry_run", "1", "file", "x.sta", mt940(2, "2026-02-01 10852.50", "2026-02-28 10852.50")), 200)
}

// Over a connection, too: a browser that sends too much is shown why, and one that goes away in the middle has imported nothing and is in nobody's way.
func TestBank_UploadOverTheWire(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	key := g.key()
	s := httptest.NewServer(d)
	defer s.Close()
	february := mt940(2, "2026-02-01 10852.50", "2026-02-28 10852.50")
	contentType, body := multipartForm(t, "form_key", key, "file", "x.sta", february)
	send := func(length int64, body io.Reader) (*http.Response, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+brac+"/files", body)
		if err != nil {
			t.Fatal(err)
		}
		r.ContentLength = length
		r.Header.Set("Content-Type", contentType)
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		r.AddCookie(&http.Cookie{Name: "khata_session", Value: g.cookies["khata_session"]})
		return direct.RoundTrip(r)
	}
	begin := body[:bytes.Index(body, []byte(":20:"))]
	resp, err := send(-1, io.LimitReader(&endless{head: bytes.NewReader(begin)}, 70<<20))
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != 413 || !strings.Contains(string(page), "The file is too large") {
		t.Errorf("too large: %d %v\n%s", resp.StatusCode, err, page)
	}
	cut := errors.New("the browser is gone")
	if resp, err := send(int64(len(body)), io.MultiReader(bytes.NewReader(body[:len(body)-90]), iotest.ErrReader(cut))); err == nil {
		_ = resp.Body.Close()
		t.Errorf("cut off: %d", resp.StatusCode)
	}
	resp, err = send(int64(len(body)), bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if files := d.files(t); resp.StatusCode != 303 || len(files) != 2 {
		t.Errorf("whole: %d, and %d files", resp.StatusCode, len(files))
	}
}

// However often a form is sent, it is one run, and one decision.
func TestBank_DoubleClick(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	request := g.request(brac)
	leads(t, "matched", g.submit(brac+"/match", "request", request), brac+"?done=matched")
	leads(t, "matched twice", g.submit(brac+"/match", "request", request), brac+"?done=matched-before")
	says(t, "said", g.get(brac+"?done=matched-before"), 200, "It was done once")
	if runs, _, err := d.bank.Runs(t.Context(), "main", "brac", 0, 10); err != nil || len(runs) != 2 || runs[0].RunBy != "ayesha" {
		t.Errorf("%d runs: %v", len(runs), err)
	}
	run, group := fmt.Sprint(d.lastRun(t).No), d.group(t, ofLine("Cash deposit"))
	work := brac + "/work?run=" + run + "&view=suggestions&group=" + group
	fields := []string{"run", run, "group", group, "request", g.request(work), "after", "0"}
	key := g.key()
	answers := make(chan *httptest.ResponseRecorder, 4)
	for range cap(answers) {
		go func() { answers <- g.post(brac+"/confirm", append(fields, "form_key", key)...) }()
	}
	for range cap(answers) {
		if w := <-answers; w.Code != 303 || !strings.HasPrefix(w.Header().Get("Location"), brac+"/work?decision=") {
			t.Errorf("%d %s\n%s", w.Code, w.Header().Get("Location"), w.Body)
		}
	}
	list := d.manual(t)
	if len(list) != 1 || list[0].DecidedBy != "ayesha" {
		t.Fatalf("%d decisions: %+v", len(list), list)
	}
	says(t, "the card", g.get(work), 200, "decided since", "decision "+fmt.Sprint(list[0].No))
	for what, forged := range map[string]string{"none": "", "another's": "undo:1", "too short": "AAAA", "markup": "<b>", "lower case": strings.Repeat("a", 26)} {
		for _, path := range []string{"/match", "/confirm", "/ignore"} {
			says(t, what, g.submit(brac+path, "request", forged, "item", "line:1", "reason", "x"), 403, "This form is not from here")
		}
	}
	for what, wrong := range map[string][]string{
		"no group": {"run", run}, "no run": {"group", group}, "no number": {"run", "x", "group", "y"}, "no item": {"item", "line:x"},
		"not among them": {"item", "line:1", "with", "line:-2"},
	} {
		says(t, what, g.submit(brac+"/confirm", append(wrong, "request", strings.Repeat("B", 26))...), 403)
	}
	says(t, "no such group", g.submit(brac+"/confirm", "run", run, "group", "999", "request", strings.Repeat("C", 26)), 404)
	if n := len(d.manual(t)); n != 1 {
		t.Errorf("%d decisions", n)
	}
}

// Of two who confirm the same line at once one is first, and the other is told who, on a page that shows how it is now.
func TestBank_TwoOperators(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	first := d.as(t, "main:finance")
	_, secret := d.token(t, "karim", "main:finance")
	second := d.guest(t)
	second.post("/console/signin", "token", secret)
	line := d.find(t, ofLine("Agent 17"))
	item := brac + "/item?item=" + line
	ask := func(g *guest, transfer string) []string {
		return []string{"form_key", g.key(), "request", g.request(item), "item", line, "with", d.find(t, ofTransfer(ledger.TransferID(transfer)))}
	}
	forms := [][]string{ask(first, "AG-1"), ask(second, "AG-2")}
	answers := make(chan *httptest.ResponseRecorder, 2)
	for i, g := range []*guest{first, second} {
		go func() { answers <- g.post(brac+"/confirm", forms[i]...) }()
	}
	var lost *httptest.ResponseRecorder
	won := 0
	for range 2 {
		if w := <-answers; w.Code == 303 {
			won++
		} else {
			lost = w
		}
	}
	list := d.manual(t)
	if won != 1 || len(list) != 1 {
		t.Fatalf("%d have won, and %d decisions were made", won, len(list))
	}
	says(t, "who was second", lost, 409, "Somebody else has decided first", list[0].DecidedBy+" matched it", fmt.Sprintf("decisions/%d", list[0].No), "<dt>Open</dt><dd>0.00 BDT")

	// A suggestion, too: one ignores its line while the other still has it before him.
	run, group := fmt.Sprint(d.lastRun(t).No), d.group(t, ofLine("Cash deposit"))
	confirm := []string{"run", run, "group", group, "request", second.request(brac + "/work?view=suggestions&group=" + group)}
	deposit := d.find(t, ofLine("Cash deposit"))
	w := first.submit(brac+"/ignore", "request", first.request(brac+"/item?item="+deposit), "item", deposit, "reason", "Not <b>ours</b>")
	leads(t, "ignored", w, fmt.Sprintf("%s/decisions/%d?done=ignored", brac, d.manual(t)[0].No))
	says(t, "confirmed after that", second.submit(brac+"/confirm", confirm...), 409, "Somebody else has decided first", "ayesha", "Not &lt;b&gt;ours&lt;/b&gt;")

	// And to take the same decision back.
	undo := fmt.Sprintf("%s/decisions/%d", brac, d.manual(t)[0].No)
	says(t, "without a reason", first.submit(undo+"/unmatch"), 400, `<a href="#undo-reason">`)
	leads(t, "taken back", first.submit(undo+"/unmatch", "reason", "It is ours"), undo+"?done=undone")
	leads(t, "taken back again", first.submit(undo+"/unmatch", "reason", "It is ours"), undo+"?done=before")
	says(t, "taken back by both", second.submit(undo+"/unmatch", "reason", "Mine"), 409, "Somebody else has decided first", "was taken back by ayesha")
	says(t, "the whole history", first.get(brac+"/item?item="+deposit), 200, "taken back", "It is ours", "Not &lt;b&gt;ours")
}

// What one side has more is posted to the account that is named, once; a decision is taken back, and its difference with it.
func TestBank_Difference(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	run, group := fmt.Sprint(d.lastRun(t).No), d.group(t, ofLine("Net of charges"))
	ask := func(account string) []string {
		return []string{"run", run, "group", group, "request", g.request(brac + "/work?view=suggestions&group=" + group), "account", account}
	}
	says(t, "no account", g.submit(brac+"/confirm", ask("")...), 400, "name the account to which the difference of -2.5")
	says(t, "an account that there is not", g.submit(brac+"/confirm", ask("nobody")...), 404, `-account">Account for the difference of −2.50 BDT: account nobody does not exist`)
	says(t, "another currency", g.submit(brac+"/confirm", ask("assets:bank:usd")...), 400, "is in USD")
	says(t, "the bank's own", g.submit(brac+"/confirm", ask("assets:bank:brac")...), 400, "is the bank account&#39;s own")
	says(t, "no account's name", g.submit(brac+"/confirm", ask("<b>")...), 404, "&lt;b&gt;")
	if n := len(d.manual(t)); n != 0 {
		t.Fatalf("%d decisions", n)
	}
	w := g.submit(brac+"/confirm", ask("expenses:bank-charges")...)
	made := d.manual(t)[0]
	leads(t, "confirmed", w, fmt.Sprintf("%s/work?decision=%d&done=confirmed&run=%s&view=suggestions", brac, made.No, run))
	page := fmt.Sprintf("%s/decisions/%d", brac, made.No)
	says(t, "the decision", g.get(page), 200, "−2.50 BDT, posted", "expenses:bank-charges", "posts the difference", "Reverse the difference")
	leads(t, "taken back with its difference", g.submit(page+"/unmatch", "reason", "Wrong", "reverse", "1"), page+"?done=undone")
	says(t, "taken back", g.get(page), 200, "taken back", "Wrong")
	says(t, "to post what was taken back", g.submit(page+"/difference", "account", "expenses:bank-charges"), 409, "was taken back by ayesha")

	// Within the tolerance it can be kept, and be posted later.
	settings := reconcile.DefaultSettings()
	settings.Identifiers, settings.Tolerance = []string{"BRAC-001"}, decimal.RequireFromString("5")
	settings.Confirm = nil
	if _, err := d.bank.Set(t.Context(), "main", "brac", settings, "x"); err != nil {
		t.Fatal(err)
	}
	line, entry := fmt.Sprintf("line:%d", lineOf(made)), fmt.Sprintf("entry:%d:%d", entryOf(made).Sequence, entryOf(made).Leg)
	w = g.submit(brac+"/confirm", "item", line, "with", entry, "request", g.request(brac+"/item?item="+line))
	kept := d.manual(t)[0]
	page = fmt.Sprintf("%s/decisions/%d", brac, kept.No)
	leads(t, "kept", w, page+"?done=confirmed")
	says(t, "kept", g.get(page), 200, "not posted", "Post the difference of −2.50 BDT")
	says(t, "posted nowhere", g.submit(page+"/difference", "account", "nobody"), 404, `<a href="#post-account">`)
	says(t, "posted never", g.submit(page+"/difference", "account", "expenses:bank-charges", "effective", "soon"), 400, `<a href="#post-effective">`)
	leads(t, "posted", g.submit(page+"/difference", "account", "expenses:bank-charges", "effective", "2026-01-07"), page+"?done=posted")
	leads(t, "posted again", g.submit(page+"/difference", "account", "expenses:bank-charges"), page+"?done=before")
	says(t, "posted elsewhere", g.submit(page+"/difference", "account", "wallet:tithi"), 409, "ayesha approved")

	// By ids and numbers, and what does not come to the same.
	agent := d.find(t, ofLine("Agent 17"))
	confirm := func(more ...string) *httptest.ResponseRecorder {
		return g.submit(brac+"/confirm", append([]string{"item", agent, "request", g.request(brac + "/item?item=" + agent)}, more...)...)
	}
	says(t, "alone", confirm(), 400, "a match has two or more")
	says(t, "no transfer", confirm("transfers", "nobody"), 404, `<a href="#confirm-transfers">`)
	says(t, "no line", confirm("lines", "x"), 400, `<a href="#confirm-lines">`)
	says(t, "not the same", confirm("transfers", "LATE-1"), 400, "777", "LATE-1")
	says(t, "twice the same", confirm("lines", strings.TrimPrefix(agent, "line:")), 400, "twice")
	leads(t, "by its id", confirm("transfers", "AG-1", "reason", "Asked the agent"), fmt.Sprintf("%s/decisions/%d?done=confirmed", brac, d.manual(t)[0].No))
}

func lineOf(d *reconcile.Decision) int64 {
	for _, i := range d.Items {
		if i.IsLine() {
			return i.Line
		}
	}
	return 0
}

func entryOf(d *reconcile.Decision) reconcile.DecisionItem {
	for _, i := range d.Items {
		if !i.IsLine() && !i.PostsDifference {
			return i
		}
	}
	return reconcile.DecisionItem{}
}

// The reports lead from the books to the bank, and have an address at which they are the same for ever.
func TestBank_Reports(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:reader")
	w := g.get(brac + "/statement?items=1")
	says(t, "the statement", w, 200, "Reconciliation statement", "Balance in the books", "Balance at the bank", "nothing is unexplained", "LATE-1")
	same := regexp.MustCompile(`href="(/console/main/reconcile/bank/brac/statement\?as_of=[^"]*)">This very`).FindStringSubmatch(w.Body.String())
	if same == nil {
		t.Fatalf("there is no address to keep:\n%s", w.Body)
	}
	kept := strings.ReplaceAll(same[1], "&amp;", "&")
	before := g.get(kept)
	says(t, "kept", before, 200, "This address always shows the same")
	file := g.get(kept + "&format=json").Body.String()
	d.postAll(t, "NEW|2026-01-15|5.00|later")
	older := d.lastRun(t).No
	newer := d.rematch(t).No
	if after := g.get(kept); withoutKeys(after.Body.String()) != withoutKeys(before.Body.String()) {
		t.Error("it is not the same for ever")
	}
	if again := g.get(kept + "&format=json").Body.String(); again != file || file == "" {
		t.Error("its file is not the same for ever")
	}
	says(t, "now", g.get(brac+"/statement?items=1"), 200, "NEW")
	says(t, "another day", g.get(brac+"/statement?day=2026-01-10"), 200, "At the end of 2026-01-10")
	says(t, "no day", g.get(brac+"/statement?day=%3Cb%3E"), 400, `<a href="#day">`, "&lt;b&gt;")
	says(t, "no number", g.get(brac+"/statement?as_of=x&through=9"), 400, `<a href="#as_of">`)
	says(t, "to come", g.get(brac+"/statement?through=999999"), 400, `<a href="#through">`)
	says(t, "the items, not asked", g.get(brac+"/items"), 200, "Show the list", " open>")
	says(t, "the items", g.get(brac+"/items?side=bank&run="), 200, "Gateway payout", brac+"/item?item=line%3A", "confirmed by a run")
	says(t, "the entries", g.get(brac+"/items?side=ledger&outcome=missing_at_bank&open=1"), 200, "LATE-1", brac+"/item?item=entry%3A")
	says(t, "no outcome", g.get(brac+"/items?outcome=x"), 400, `<a href="#outcome">`)
	says(t, "no day", g.get(brac+"/items?from=x"), 400, `<a href="#from">`)
	says(t, "the changes, not asked", g.get(brac+"/changes"), 200, fmt.Sprintf(`value="%d"`, older), fmt.Sprintf(`value="%d"`, newer))
	says(t, "the changes", g.get(fmt.Sprintf("%s/changes?older=%d&newer=%d", brac, older, newer)), 200, "missing_at_bank", "new")
	says(t, "changes backwards", g.get(fmt.Sprintf("%s/changes?older=%d&newer=%d", brac, newer, older)), 400, `<a href="#older">`)
	says(t, "changes of nothing", g.get(brac+"/changes?older="), 400, `<a href="#older">`)
	for _, path := range []string{brac + "/statement?day=2026-01-31", brac + "/items?run=", fmt.Sprintf("%s/changes?older=%d", brac, older)} {
		for _, format := range []string{"csv", "xlsx", "json"} {
			w := g.get(path + "&format=" + format)
			if w.Code != 200 || w.Body.Len() == 0 || !strings.Contains(w.Header().Get("Content-Disposition"), "attachment") {
				t.Errorf("%s as %s: %d %s", path, format, w.Code, w.Body)
			}
		}
		says(t, path, g.get(path+"&format=pdf"), 400)
	}
}

var keyPattern = regexp.MustCompile(`value="[\w-]{26,}"`)

func withoutKeys(body string) string { return keyPattern.ReplaceAllString(body, "") }

func TestBank_Profiles(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false).banked(t)
	g := d.as(t, "main:finance")
	const profiles = "/console/main/reconcile/profiles"
	says(t, "the list", g.get(profiles), 200, `href="`+profiles+`/plain"`, "rahim", "Save the profile", "&#34;booking_date&#34;")
	says(t, "one", g.get(profiles+"/plain"), 200, "Profile", "version 1", "&#34;name&#34;: &#34;plain&#34;")
	w := d.as(t, "main:reader").get(profiles + "/plain")
	if says(t, "to who may not", w, 200, `<pre class="code"`); strings.Contains(w.Body.String(), "<textarea") {
		t.Error("a reader is shown the form")
	}
	good := `{"name":"shop","delimiter":";","header":true,"currency":"BDT","columns":{"booking_date":"day","amount":"amount","description":["text"]}}`
	leads(t, "saved", g.submit(profiles, "profile", good), profiles+"/shop?done=saved")
	leads(t, "saved again", g.submit(profiles, "profile", good), profiles+"/shop?done=saved")
	says(t, "saved", g.get(profiles+"/shop?done=saved"), 200, "The profile is saved", "version 1", "ayesha")
	for what, text := range map[string]string{
		"nothing": "", "no JSON": "{", "an unknown field": `{"nome":"x"}`, "no name": strings.Replace(good, "shop", "A <b>", 1), "no columns": `{"name":"x"}`,
		"markup": `"><script>alert(1)</script>`,
	} {
		w := g.submit(profiles, "profile", text)
		says(t, what, w, 400, `<a href="#profile-profile">`)
		noMarkup(t, what, w.Body.String())
	}
	sample := "day;amount;text\n2026-01-02;12.50;<b>Tea</b>\n2026-01-03;x;wrong\n"
	w = g.upload(profiles+"/preview", "profile", good, "file", "<i>sample<i>.csv", sample)
	says(t, "a preview", w, 200, "names of the columns", "12.5", "&lt;b&gt;Tea&lt;/b&gt;", "&lt;i&gt;sample", "wrong", "Nothing of it was kept", "&#34;shop&#34;")
	noMarkup(t, "a preview", w.Body.String())
	says(t, "a preview by nothing", g.upload(profiles+"/preview", "profile", "{", "file", "x", sample), 400, `<a href="#profile-profile">`)
	says(t, "a preview of nothing", g.upload(profiles+"/preview", "profile", good), 400, `<a href="#profile-file">`)
	says(t, "a preview that does not fit", g.upload(profiles+"/preview", "profile", good, "file", "x", "a;b\n1;2\n"), 200, "the header has no column")
	says(t, "a preview of what is no text", g.upload(profiles+"/preview", "profile", good, "file", "x", "day;amount\xff\xfe\x00;\n"), 200)
	if n := len(d.files(t)); n != 1 {
		t.Errorf("%d files", n)
	}
}

// What a bank has written does nothing, wherever it is shown.
func TestBank_Markup(t *testing.T) {
	t.Parallel()
	const evil = `><script>alert(1)</script><img/src=x/onerror=alert(1)>'{{.}}` + "\u202e\u200b"
	d := newDesk(t, false).banked(t)
	if _, err := d.bank.Set(t.Context(), "main", "brac", reconcile.Settings{Identifiers: []string{evil}, ReferenceKeys: []string{evil}, IgnoreBalances: true,
		TransitDays: 5}, evil); err != nil {
		t.Fatal(err)
	}
	content := "day;amount;reference;text;partner;iban;bic;id;e2e;code\n" + "2026-02-02;12.00" + strings.Repeat(";"+evil, 8) + "\n"
	if _, err := d.bank.Import(t.Context(), reconcile.ImportSpec{Ledger: "main", BankAccount: "brac", Profile: "plain", FileName: evil},
		strings.NewReader(content), evil); err != nil {
		t.Fatal(err)
	}
	d.postAll(t, "EVIL|2026-02-02|12.00|"+evil)
	run := d.rematch(t)
	line := d.find(t, func(r *reconcile.Result) bool { return r.Line != nil && r.Line.ExternalID != "" })
	var no int64
	if _, err := fmt.Sscanf(line, "line:%d", &no); err != nil {
		t.Fatal(err)
	}
	g := d.as(t, "main:finance", "main:admin")
	check := func(what string, w *httptest.ResponseRecorder) {
		t.Helper()
		if w.Code >= 500 {
			t.Errorf("%s: %d %s", what, w.Code, w.Body)
		}
		noMarkup(t, what, w.Body.String())
	}
	pages := []string{
		"/console/main/reconcile", brac, brac + "?done=" + "%3Cscript", brac + "/work", brac + "/work?view=items", brac + "/item?item=" + line, brac + "/decisions",
		brac + "/items?run=", brac + "/statement?items=1&day=2026-02-02", fmt.Sprintf("%s/files/%d", brac, d.files(t)[0].No),
		fmt.Sprintf("%s/work?run=%d&view=%%3Cscript", brac, run.No),
	}
	for _, page := range pages {
		check(page, g.get(page))
	}
	ignored, err := d.bank.Ignore(t.Context(), reconcile.IgnoreSpec{Ledger: "main", BankAccount: "brac", Line: &reconcile.LineTake{Line: no}, Reason: evil}, evil)
	if err != nil {
		t.Fatal(err)
	}
	check("confirming it", g.submit(brac+"/confirm", "item", line, "transfers", "EVIL", "request", strings.Repeat("D", 26)))
	page := fmt.Sprintf("%s/decisions/%d", brac, ignored.No)
	check("its decision", g.get(page))
	check("the work list after it", g.get(brac+"/work"))
	check("taking it back", g.submit(page+"/unmatch", "reason", evil))
	for _, path := range []string{page, brac + "/item?item=" + line, brac + "/decisions"} {
		check(path, g.get(path))
	}
	for _, form := range []string{"/console/main/reconcile", brac + "/settings", brac + "/confirm", brac + "/ignore", page + "/unmatch", page + "/difference",
		"/console/main/reconcile/profiles"} {
		check(form, g.submit(form, "name", evil, "account", evil, "identifiers", evil, "zone", evil, "begins", evil, "basis", evil, "money_in", evil, "reason", evil,
			"transfers", evil, "lines", evil, "profile", evil, "version", "2", "item", line, "request", strings.Repeat("E", 26), "effective", evil, "tolerance", evil,
			"days_after", evil, "description", evil))
	}
	check("a file", g.upload(brac+"/files", "profile", evil, "file", evil, evil))
	check("a preview", g.upload("/console/main/reconcile/profiles/preview", "profile", evil, "file", evil, evil))
}

func dec(text string) decimal.Decimal { return decimal.RequireFromString(text) }

// today is the day in UTC, in which the dates of the tests' bank accounts are.
func today() string { return time.Now().UTC().Format(time.DateOnly) }
