package console

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/sheet"
	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/internal/suspect"
	"github.com/khata-ledger/khata/ledger"
)

// Reports makes reports and issues statements. *report.Reports is one.
type Reports interface {
	Run(ctx context.Context, request report.Request, w sheet.Writer) error
	Issue(ctx context.Context, spec report.StatementSpec, caller string) (statement report.Statement, issued bool, err error)
	Statement(ctx context.Context, name ledger.Name, number int64) (report.Statement, error)
	Statements(ctx context.Context, name ledger.Name, account ledger.AccountID, before int64, limit int) (list []report.Statement, more bool, err error)
}

// Books are the ledgers and what is in them. *journal.Journal is one.
type Books interface {
	Ledgers(ctx context.Context) ([]journal.Ledger, error)
	Account(ctx context.Context, name ledger.Name, id ledger.AccountID) (ledger.Account, error)
	Accounts(ctx context.Context, name ledger.Name, prefix string, after ledger.AccountID, limit int) ([]ledger.Account, error)
	PeriodChanges(ctx context.Context, name ledger.Name, before int64, limit int) ([]ledger.PeriodChange, error)
	ClosePeriod(ctx context.Context, caller string, name ledger.Name, c ledger.PeriodClose) (change ledger.PeriodChange, already bool, err error)
	ReopenPeriod(ctx context.Context, caller string, name ledger.Name, r ledger.PeriodReopen) (change *ledger.PeriodChange, already bool, err error)
}

// Reconciler compares the books with what banks say. *reconcile.Reconciler is one.
type Reconciler interface {
	BankAccounts(ctx context.Context, name ledger.Name) ([]*reconcile.BankAccount, error)
	BankAccount(ctx context.Context, name ledger.Name, bankAccount string) (*reconcile.BankAccount, error)
	CreateBankAccount(ctx context.Context, spec reconcile.BankAccountSpec, caller string) (*reconcile.BankAccount, error)
	Set(ctx context.Context, name ledger.Name, bankAccount string, settings reconcile.Settings, caller string) (*reconcile.BankAccount, error)

	Import(ctx context.Context, spec reconcile.ImportSpec, in io.Reader, caller string) (*reconcile.Import, error)
	Files(ctx context.Context, name ledger.Name, bankAccount string, before int64, limit int) (list []reconcile.File, more bool, err error)
	File(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.File, error)
	Lines(ctx context.Context, name ledger.Name, bankAccount string, filter reconcile.LineFilter) (list []*reconcile.Line, more bool, err error)
	Line(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Line, error)
	Entries(ctx context.Context, name ledger.Name, bankAccount string, sequences []int64) ([]*reconcile.Entry, error)
	Profiles(ctx context.Context, name ledger.Name) ([]reconcile.StoredProfile, error)
	Profile(ctx context.Context, name ledger.Name, profile string, version int) (reconcile.StoredProfile, error)
	SaveProfile(ctx context.Context, name ledger.Name, profile bankfile.Profile, caller string) (reconcile.StoredProfile, error)

	Match(ctx context.Context, spec reconcile.MatchSpec, caller string) (*reconcile.Run, error)
	Run(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Run, error)
	Runs(ctx context.Context, name ledger.Name, bankAccount string, before, limit int) (list []*reconcile.Run, more bool, err error)
	Results(ctx context.Context, name ledger.Name, bankAccount string, run int64, filter reconcile.ResultFilter) (list []reconcile.Result, more bool, err error)
	Suggestions(ctx context.Context, name ledger.Name, bankAccount string, run int64, after, limit int) (list []reconcile.Suggestion, more bool, err error)

	Confirm(ctx context.Context, spec reconcile.ConfirmSpec, caller string) (*reconcile.Decision, error)
	Ignore(ctx context.Context, spec reconcile.IgnoreSpec, caller string) (*reconcile.Decision, error)
	Unmatch(ctx context.Context, spec reconcile.UnmatchSpec, caller string) (*reconcile.Decision, error)
	ApproveDifference(ctx context.Context, spec reconcile.ApproveSpec, caller string) (*reconcile.Decision, error)
	Decisions(ctx context.Context, name ledger.Name, bankAccount string, filter reconcile.DecisionFilter) (list []*reconcile.Decision, more bool, err error)
	Decision(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*reconcile.Decision, error)

	Statement(ctx context.Context, spec reconcile.StatementSpec, w sheet.Writer) error
	Items(ctx context.Context, spec reconcile.ItemsSpec, w sheet.Writer) error
	Changes(ctx context.Context, name ledger.Name, bankAccount string, older, newer int64, w sheet.Writer) error
}

// Desk is where people help customers, and where it is written down who has looked. *support.Desk is one.
type Desk interface {
	Find(ctx context.Context, who support.Actor, q support.Query) (*support.Found, error)
	Story(ctx context.Context, who support.Actor, name ledger.Name, id ledger.TransferID) (*support.Story, error)
	Review(ctx context.Context, who support.Actor, name ledger.Name) (*support.Review, error)
	Audit() *support.Audit

	Form(ctx context.Context, who support.Actor, name ledger.Name, id ledger.TransferID) (*support.Form, error)
	Request(ctx context.Context, who support.Actor, spec support.RefundSpec) (*support.Refund, error)
	Refund(ctx context.Context, who support.Actor, name ledger.Name, number int64) (*support.Refund, error)
	Refunds(ctx context.Context, who support.Actor, f support.RefundFilter) ([]support.Refund, error)
	Decide(ctx context.Context, who support.Actor, spec support.DecisionSpec) (*support.Refund, error)
	Limits(ctx context.Context, name ledger.Name, currency ledger.CurrencyCode) ([]support.Limit, error)
	SetLimit(ctx context.Context, who support.Actor, spec support.LimitSpec) (*support.Limit, error)
}

// Suspects finds payments that may have been made twice, and keeps what people say of them. *suspect.Detector is one.
type Suspects interface {
	Suspects(ctx context.Context, name ledger.Name, filter suspect.Filter) (suspect.Page, error)
	Suspect(ctx context.Context, name ledger.Name, no int64) (*suspect.Group, error)
	Dismiss(ctx context.Context, spec suspect.DecisionSpec, by string) (*suspect.Group, *suspect.Decision, error)
	Undismiss(ctx context.Context, spec suspect.DecisionSpec, by string) (*suspect.Group, *suspect.Decision, error)
}

// Config is how the console is served.
type Config struct {
	// Reports and Books are what the pages show. Required.
	Reports Reports
	Books   Books
	// Reconciler compares the books with banks; nil leaves its pages out.
	Reconciler Reconciler
	// Desk is for support; nil leaves its pages out. Suspects are double charges; nil leaves out theirs, and so does no Desk, which writes down who has
	// looked at them.
	Desk     Desk
	Suspects Suspects
	// Sessions says who is signed in. If it asks nobody who they are, the console answers only under names of this machine. Required.
	Sessions *auth.Sessions
	// Zone is the time zone that forms propose, such as Asia/Dhaka; "" is UTC.
	Zone string
	// Secure is whether visitors come over TLS. Their cookies are then never sent without.
	Secure bool
	// Limiter bounds how often each caller calls, here and elsewhere; nil does not.
	Limiter *auth.Limiter
	// Denied, if it is not nil, is told of each request that is not let in.
	Denied func(ledger.Code)
	// Logger gets what visitors are not told. Required.
	Logger *slog.Logger
}

// console serves the pages.
type console struct {
	config    Config
	files     *files
	templates templateSet
	attempts  *auth.Limiter
	crossSite *http.CrossOriginProtection
	mux       *http.ServeMux
	// uploads has room for one file at a time: while it arrives it takes one of the places that reports and runs of the matching need, too.
	uploads chan struct{}
}

const (
	root = "/console/"
	// maxForm is the most bytes of a form, and maxQuery of a question in an address: a few short fields.
	maxForm, maxQuery = 16 << 10, 4 << 10
	// formPatience is how long a browser may take to send a form, and pagePatience how long a page may take to be made.
	formPatience, pagePatience = 10 * time.Second, 30 * time.Second
	// attemptsPerSecond and attemptsAtOnce bound how often one address tries to sign in. Nobody guesses 32 random bytes; they bound what it costs.
	attemptsPerSecond, attemptsAtOnce = 0.5, 10
)

// route is a page or an action. Its pattern is what it is known by in the policy of package auth, which says who may go there.
type route struct {
	pattern string
	handle  func(*visit) error
}

// routes are all there are. Whoever adds a page adds it here, in the policy, and, if people are to find it, among the sections.
var routes = []route{
	{homeRoute, (*visit).home},
	{signInPage, (*visit).signInPage},
	{"POST /console/signin", (*visit).signIn},
	{"POST /console/signout", (*visit).signOut},
	{startRoute, (*visit).startSignIn},
	{answerRoute, (*visit).endSignIn},
	{"GET /console/-/assets/{hash}/{file}", (*visit).file},
	{overviewRoute, (*visit).overview},
	{reportRoute, (*visit).report},
	{accountsRoute, (*visit).accounts},
	{accountRoute, (*visit).account},
	{statementsRoute, (*visit).statements},
	{statementRoute, (*visit).statement},
	{issueRoute, (*visit).issue},
	{periodsRoute, (*visit).periods},
	{closeRoute, (*visit).closePeriod},
	{reopenRoute, (*visit).reopenPeriod},
	{reconcileRoute, (*visit).bankAccounts},
	{createBankRoute, (*visit).createBankAccount},
	{profilesRoute, (*visit).profiles},
	{profileRoute, (*visit).profile},
	{saveProfileRoute, (*visit).saveProfile},
	{previewRoute, (*visit).previewProfile},
	{bankRoute, (*visit).bankPage},
	{bankSetRoute, (*visit).setBankAccount},
	{matchRoute, (*visit).match},
	{uploadRoute, (*visit).importFile},
	{bankFileRoute, (*visit).bankFile},
	{workRoute, (*visit).work},
	{itemRoute, (*visit).item},
	{confirmRoute, (*visit).confirm},
	{ignoreRoute, (*visit).ignore},
	{decisionsRoute, (*visit).decisions},
	{decisionRoute, (*visit).decision},
	{unmatchRoute, (*visit).unmatch},
	{differenceRoute, (*visit).approveDifference},
	{bankStatementRoute, (*visit).bankStatement},
	{bankItemsRoute, (*visit).bankItems},
	{bankChangesRoute, (*visit).bankChanges},
	{findRoute, (*visit).find},
	{storyRoute, (*visit).story},
	{refundRoute, (*visit).refundForm},
	{refundsRoute, (*visit).refunds},
	{askRefundRoute, (*visit).askRefund},
	{requestRoute, (*visit).refundRequest},
	{decideRoute, (*visit).decideRefund},
	{limitsRoute, (*visit).limits},
	{setLimitRoute, (*visit).setLimit},
	{reviewRoute, (*visit).review},
	{suspectsRoute, (*visit).suspects},
	{suspectRoute, (*visit).suspect},
	{dismissRoute, (*visit).dismiss},
	{undismissRoute, (*visit).undismiss},
	{auditRoute, (*visit).audit},
}

// New serves the console at /console/ and below, and nothing else.
func New(config Config) http.Handler {
	c := &console{
		config: config, files: loadConsoleFiles(), templates: parseTemplates(), attempts: auth.NewLimiter(attemptsPerSecond, attemptsAtOnce),
		crossSite: http.NewCrossOriginProtection(), mux: http.NewServeMux(), uploads: make(chan struct{}, 1),
	}
	for _, route := range routes {
		c.mux.HandleFunc(muxPattern(route.pattern), c.serve(route))
	}
	c.mux.HandleFunc(root, c.serve(route{"", (*visit).nothingHere}))
	c.mux.HandleFunc("GET "+strings.TrimSuffix(root, "/"), func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, root, http.StatusSeeOther)
	})
	return securedBy(consolePolicy, http.HandlerFunc(c.enter))
}

// muxPattern is the pattern of a route as the mux wants it: in the policy a path that ends in a slash is that path alone.
func muxPattern(pattern string) string {
	if strings.HasSuffix(pattern, "/") {
		return pattern + "{$}"
	}
	return pattern
}

// consolePolicy is what pages of the console may do: show their own styles and pictures, and send forms to their own server. No page has a script.
var consolePolicy = strings.Join([]string{
	"default-src 'none'", "style-src 'self'", "img-src 'self'", "base-uri 'none'", "form-action 'self'", "frame-ancestors 'none'",
	"require-trusted-types-for 'script'", "trusted-types 'none'",
}, "; ")

// enter is the first that sees a request.
func (c *console) enter(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	// The browser says in forms where they come from, which no-referrer would have it hide; it tells no other site.
	h.Set("Referrer-Policy", "same-origin")
	// What is on the pages is for those who are signed in now, and not for who sits down at the machine after them.
	h.Set("Cache-Control", "no-store")
	v := &visit{console: c, w: w, r: r}
	switch {
	case c.config.Sessions.Open() && !isThisMachine(r.Host):
		// A page of somebody else's, whose name leads here all of a sudden, is within reach of whoever asks nobody who they are.
		v.fail(errorPage{
			Status: http.StatusMisdirectedRequest, Title: "This is not the console's name",
			Text: "This server asks nobody who they are, and so answers only under names of its own machine, such as 127.0.0.1 or localhost.",
		})
	case len(r.URL.RawQuery) > maxQuery:
		v.fail(errorPage{Status: http.StatusRequestURITooLong, Title: "The address is too long", Text: "Fill in the form again, with shorter texts."})
	default:
		c.mux.ServeHTTP(w, r)
	}
}
