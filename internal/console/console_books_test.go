package console_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/console"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

var (
	_ console.Reports    = (*report.Reports)(nil)
	_ console.Books      = (*journal.Journal)(nil)
	_ console.Reconciler = (*reconcile.Reconciler)(nil)
	_ console.Desk       = (*support.Desk)(nil)
	_ console.Suspects   = (*suspect.Detector)(nil)
)

// The pages show what real books and real reports have, and do in them what is asked.
func TestConsole_RealBooks(t *testing.T) {
	t.Parallel()
	d := newDesk(t, false)
	j := journal.New(d.at.Pool, journal.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(j.Close)
	d.Handler = console.New(console.Config{
		Reports: report.New(j, d.at.Pool), Books: j, Sessions: d.sessions, Zone: "Asia/Dhaka", Logger: slog.New(slog.DiscardHandler),
	})
	if _, err := j.CreateAccounts(t.Context(), "x", "main", []ledger.AccountSpec{
		{ID: "cash", Type: ledger.Asset, Currency: "BDT"}, {ID: "wallet:tithi", Type: ledger.Liability, Currency: "BDT", Name: "তিথি রহমান"},
		{ID: "card:clearing", Type: ledger.Asset, Currency: "BDT"}, {ID: "fees", Type: ledger.Revenue, Currency: "BDT", Name: "<b>Fees</b>"},
	}); err != nil {
		t.Fatal(err)
	}
	value := time.Now().AddDate(0, -1, 0).Truncate(time.Microsecond)
	for id, entries := range map[ledger.TransferID][]ledger.Entry{
		"opening": ledger.Simple("cash", "wallet:tithi", decimal.RequireFromString("5000.00"), "BDT"), "fee": ledger.Simple("wallet:tithi", "fees",
			decimal.RequireFromString("12.50"), "BDT"),
		"card": ledger.Simple("card:clearing", "wallet:tithi", decimal.RequireFromString("700"), "BDT"),
	} {
		specs := []ledger.TransferSpec{{ID: id, Entries: entries, Description: "<i>" + string(id) + "</i>", EffectiveAt: &value}}
		if results, err := j.Post(t.Context(), "x", "main", specs); err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
	}
	g := d.as(t, "main:finance", "main:admin")
	now := time.Now().UTC()
	period := "?zone=UTC&from=" + now.AddDate(0, 0, -40).Format(time.DateOnly) + "&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)
	for name, texts := range map[report.Name][]string{
		report.TrialBalance: {"5,700.00", "&lt;b&gt;Fees&lt;/b&gt;", "debits equal credits in BDT"}, report.IncomeStatement: {"12.50", "Revenue",
			"Result BDT"},
		report.GeneralLedger: {"&lt;i&gt;opening&lt;/i&gt;", "wallet:tithi", "−5,687.50"}, report.Clearing: {"card:clearing", "700.00"},
		report.DailyPosition: {"cash", "5,000.00"}, report.Growth: {"Posted", ">3<"},
	} {
		query := period
		if name == report.Clearing {
			query = "?zone=UTC&to=" + now.AddDate(0, 0, 2).Format(time.DateOnly)
		}
		w := g.get("/console/main/reports/" + string(name) + query)
		says(t, string(name), w, 200, texts...)
		if body := w.Body.String(); strings.Contains(body, `role="alert"`) {
			t.Errorf("%s has an alert:\n%s", name, body)
		}
		for _, format := range []string{"csv", "json", "xlsx"} {
			if w := g.get("/console/main/reports/" + string(name) + query + "&format=" + format); w.Code != 200 || w.Body.Len() == 0 {
				t.Errorf("%s as %s: %d %s", name, format, w.Code, w.Body)
			}
		}
	}
	says(t, "the balance sheet", g.get("/console/main/reports/balance-sheet?zone=UTC&to="+now.AddDate(0, 0, 2).Format(time.DateOnly)), 200,
		"Assets", "5,687.50", "Result not yet closed")
	says(t, "by value date", g.get("/console/main/account"+period+"&basis=value&account=wallet:tithi"), 200, "<svg", "5,687.50", "তিথি রহমান")
	says(t, "an account that there is not", g.get("/console/main/account?account=nobody"), 404, "account nobody does not exist")
	says(t, "a report of an account that there is not", g.get("/console/main/reports/balance-over-time"+period+"&account=nobody"), 404,
		`<a href="#account">`)

	yesterday := now.Format(time.DateOnly)
	fields := []string{"account", "wallet:tithi", "from", now.AddDate(0, 0, -60).Format(time.DateOnly), "to", yesterday, "zone", "UTC", "basis",
		"value"}
	first := g.submit("/console/main/statements", fields...).Header().Get("Location")
	path, _, _ := strings.Cut(first, "?")
	leads(t, "the same again", g.submit("/console/main/statements", fields...), path+"?issued=before")
	says(t, "the statement", g.get(first), 200, "It will never change", "Opening balance", "5,687.50", "SHA-256")
	says(t, "its changes", g.get("/console/main/reports/changes-since-issued?statement="+path[strings.LastIndex(path, "/")+1:]), 200,
		"Changes since issued")
	says(t, "a statement of what is still to come", g.submit("/console/main/statements", "account", "wallet:tithi", "month", "2999-01"), 400,
		`<a href="#issue-`)

	leads(t, "closing", g.submit("/console/main/periods/close", "closed_before", now.AddDate(0, 0, -1).Format(time.DateOnly), "zone", "UTC"),
		"/console/main/periods?done=closed")
	says(t, "closing what is not over", g.submit("/console/main/periods/close", "month", "2999-01"), 400, `<a href="#close-closed_before">`,
		"is still to come")
	leads(t, "opening", g.submit("/console/main/periods/reopen", "everything", "1", "reason", "<b>why</b>"), "/console/main/periods?done=opened")
	says(t, "the history", g.get("/console/main/periods"), 200, "&lt;b&gt;why&lt;/b&gt;", "ayesha", "open</strong>")
}
