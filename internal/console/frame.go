package console

import (
	"bytes"
	"embed"
	"errors"
	"html/template"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

//go:embed assets-console
var consoleAssets embed.FS

// loadConsoleFiles loads the styles and pictures of the console.
func loadConsoleFiles() *files {
	own, err := fs.Sub(consoleAssets, "assets-console")
	if err != nil { // The name is well-formed.
		panic(err)
	}
	return newFiles(root+"-/assets/", fileSet{"", own})
}

// file serves a style or picture.
func (v *visit) file() error {
	v.w.Header().Del("Cache-Control")
	v.files.serve(v.w, v.r.PathValue("hash"), v.r.PathValue("file"))
	return nil
}

// templateSet has a template for each page, by the name of its file.
type templateSet map[string]*template.Template

// parts are files that pages are put together of.
var parts = []string{"frame.html", "form.html", "sheet.html", "bank.html", "desk.html"}

func parseTemplates() templateSet {
	const folder = "templates/console/"
	common := template.New("").Funcs(template.FuncMap{"items": itemTableOf, "side": sideOf})
	for _, name := range parts {
		template.Must(common.Parse(string(mustRead(templates, folder+name))))
	}
	entries, err := templates.ReadDir(strings.TrimSuffix(folder, "/"))
	if err != nil { // They are built in.
		panic(err)
	}
	set := templateSet{}
	for _, entry := range entries {
		if slices.Contains(parts, entry.Name()) {
			continue
		}
		page := template.Must(template.Must(common.Clone()).Parse(string(mustRead(templates, folder+entry.Name()))))
		set[strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))] = page
	}
	return set
}

// formKeyField is the field of every form that says whose it is.
const formKeyField = "form_key"

// section is a part of the console that people find in the navigation. Those who may not go there do not see it.
type section struct {
	Title, About, route, below string
}

// sections are in the order in which they are shown.
var sections = []section{
	{"Overview", "", overviewRoute, ""},
	{"Accounts", "Find an account, and see its balance over time and its entries.", accountsRoute, "accounts"},
	{"Statements", "Account statements that were issued, and never change.", statementsRoute, "statements"},
	{"Periods", "How far the books are closed, and who closed them.", periodsRoute, "periods"},
	{"Reconciliation", "The books against the banks' own files: what agrees, what does not, and who has decided what.", reconcileRoute, "reconcile"},
	{"Support", "Find a transfer, read its story, and give money back; who asked for it, who agreed, and who has looked at what.", findRoute, "support"},
	{"Suspects", "Payments that may have been made twice.", suspectsRoute, "suspects"},
	{"Review", "What waits for people: refunds to be approved, stuck payments, open items of banks.", reviewRoute, "review"},
}

// link is a link of a navigation.
type link struct {
	Title, About, Path string
	Here               bool
}

// page is what every page is made of.
type page struct {
	// Name is the file of its template, Title what it is called.
	Name, Title string
	// Section is where it is in the navigation: the pattern of the section's route.
	Section string
	// Within is whether the page is below its section, and not the section itself.
	Within bool
	// Wide pages use all of the window: they have tables.
	Wide bool
	Main any

	// What render fills in.
	Files, FormKey, FormField, Who, Display, Roles string
	Ledger                                         ledger.Name
	Overview, Home                                 string
	Nav                                            []link
	SignedIn                                       bool
}

// render writes a page.
func (v *visit) render(status int, p page) error {
	p.Files, p.FormField, p.Home = v.files.path, formKeyField, root
	if s := v.session; s != nil {
		p.SignedIn, p.FormKey, p.Who, p.Display = true, s.FormKey, s.Name, s.Display
		p.Roles = s.Grants.Somewhere().String()
		if v.ledger != "" && v.may(overviewRoute) {
			p.Ledger, p.Overview, p.Nav = v.ledger, v.path("", nil), v.navigation(p.Section)
			p.Roles = s.Grants.On(v.ledger).String()
		}
	}
	var body bytes.Buffer
	if err := v.templates[p.Name].ExecuteTemplate(&body, "frame", p); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Language", "en")
	v.w.WriteHeader(status)
	if _, err := v.w.Write(body.Bytes()); err != nil {
		v.config.Logger.Debug("write a page of the console", "page", p.Name, "error", err)
	}
	return nil
}

// served reports whether this console has the section of a route.
func (v *visit) served(route string) bool {
	switch route {
	case reconcileRoute:
		return v.config.Reconciler != nil
	case findRoute, reviewRoute:
		return v.config.Desk != nil
	case suspectsRoute:
		return v.config.Desk != nil && v.config.Suspects != nil
	}
	return true
}

func (v *visit) navigation(here string) []link {
	var links []link
	for _, s := range sections {
		if v.may(s.route) && v.served(s.route) {
			links = append(links, link{Title: s.Title, About: s.About, Path: v.path(s.below, nil), Here: s.route == here})
		}
	}
	return links
}

// errorPage is a page that says what went wrong, and what to do. It is an error until it is shown.
type errorPage struct {
	Status              int
	Title, Text, Advice string
	// Details are the fields at fault, where no form is there to show them at.
	Details []ledger.Violation
	// Again is the address of what may work after a while.
	Again string
}

func (e errorPage) Error() string { return e.Title + ": " + e.Text }

func (v *visit) fail(e errorPage) {
	if err := v.render(e.Status, page{Name: "error", Title: e.Title, Main: e}); err != nil {
		v.config.Logger.Error("a page of the console cannot be made", "page", "error", "error", err)
		http.Error(v.w, e.Title, http.StatusInternalServerError)
	}
}

// failWith shows what went wrong. An error of the ledger may be told as it is; of all others the log has more than the visitor.
func (v *visit) failWith(err error) {
	var shown errorPage
	switch {
	case errors.As(err, &shown):
	case errors.Is(err, errSignIn):
		v.askToSignIn()
		return
	case errors.Is(err, errNotFound):
		shown = errorPage{Status: http.StatusNotFound, Title: "There is no such page", Text: "The address is wrong, or what was there has another one now."}
	case errors.Is(err, errForeignForm):
		shown = errorPage{
			Status: http.StatusForbidden, Title: "This form is not from here",
			Text:   "Nothing was done. What was sent did not come from a page that this session has been shown.",
			Advice: "You may have signed in again since. Open the page again and send the form from there.",
		}
	default:
		shown = v.errorOf(err)
	}
	v.fail(shown)
}

// errorOf is the page of an error of a capability's.
func (v *visit) errorOf(err error) errorPage {
	code := ledger.CodeOf(err)
	shown := errorPage{Status: statusOf(code), Title: titleOf(code), Text: code.Error()}
	var known *ledger.Error
	if errors.As(err, &known) {
		shown.Text, shown.Details = known.Message, known.Violations
		if known.RetryAfter > 0 {
			v.w.Header().Set("Retry-After", strconv.Itoa(int(known.RetryAfter/time.Second)+1))
		}
	}
	if code.Retryable() {
		shown.Advice = "It may work in a moment."
		if v.r.Method != http.MethodPost {
			shown.Again = v.r.URL.RequestURI()
		}
	}
	if code.Open() && v.r.Method == http.MethodPost {
		shown.Advice = "Whether it was done is not known: look before you do it again. To do it again does no harm."
	}
	if code == ledger.CodeInternal {
		if known == nil {
			shown.Text = "This is a fault of Khata's, and it has been noted."
		}
		shown.Advice = "Tell those who run it, with the time: " + time.Now().UTC().Format(time.RFC3339) + "."
	}
	if code == ledger.CodeInternal || code == ledger.CodeUnavailable {
		v.config.Logger.Error("a page of the console failed", "route", v.route, "ledger", v.ledger, "error", err)
	}
	return shown
}

// statuses are those of the codes that pages can meet; every other one is a fault.
var statuses = map[ledger.Code]int{
	ledger.CodeInvalidArgument:  http.StatusBadRequest,
	ledger.CodePermissionDenied: http.StatusForbidden,
	ledger.CodeUnauthenticated:  http.StatusForbidden,
	ledger.CodeLedgerNotFound:   http.StatusNotFound,
	ledger.CodeAccountNotFound:  http.StatusNotFound,
	ledger.CodeTransferNotFound: http.StatusNotFound,
	ledger.CodeNotFound:         http.StatusNotFound,
	ledger.CodeAlreadyExists:    http.StatusConflict,
	ledger.CodeRateLimited:      http.StatusTooManyRequests,
	// What may work in a moment.
	ledger.CodeConflict:         http.StatusServiceUnavailable,
	ledger.CodeOverloaded:       http.StatusServiceUnavailable,
	ledger.CodeUnavailable:      http.StatusServiceUnavailable,
	ledger.CodeCancelled:        http.StatusServiceUnavailable,
	ledger.CodeDeadlineExceeded: http.StatusGatewayTimeout,
}

func statusOf(code ledger.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

func titleOf(code ledger.Code) string {
	switch statusOf(code) {
	case http.StatusBadRequest:
		return "This cannot be shown"
	case http.StatusForbidden:
		return "You may not do this"
	case http.StatusNotFound:
		return "There is no such thing"
	case http.StatusConflict:
		return "It is otherwise already"
	case http.StatusTooManyRequests:
		return "Too many at once"
	case http.StatusServiceUnavailable:
		return "It cannot be shown now"
	case http.StatusGatewayTimeout:
		return "It took too long"
	}
	return "Something is broken"
}

// rolesOf lists what somebody may do in each ledger, for people.
func rolesOf(grants auth.Grants) []string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(grants)) {
		where := "in ledger " + string(name)
		if name == auth.AllLedgers {
			where = "in all ledgers"
		}
		list = append(list, grants[name].String()+" "+where)
	}
	return list
}
