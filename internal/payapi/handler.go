package payapi

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

const (
	// DefaultWindow is for how long an answer is kept.
	DefaultWindow = 48 * time.Hour
	// LongestRetry is for how long a client may go on trying. What the window is longer by is what clocks may be off by.
	LongestRetry = 24 * time.Hour
	// lookUpTimeout bounds the look at a key: no caller's hanging up does.
	lookUpTimeout = 5 * time.Second
)

// Principal is who calls.
type Principal struct {
	// Name is the scope of keys, and the caller in the ledger.
	Name string
	// Owns reports whether a wallet is the caller's own: to pay from, and to look at.
	Owns func(ledger.AccountID) bool
	// Support may look at all payments and wallets. It refunds at a desk of its own, where another person has to agree, and not here.
	Support bool
}

// Config is what the API needs.
type Config struct {
	Journal *journal.Journal
	Pool    *pgxpool.Pool
	// Ledger is the one that the wallets are in.
	Ledger ledger.Name
	// Authenticate tells who calls. It returns CodeUnauthenticated.
	Authenticate func(*http.Request) (Principal, error)
	// Origins are those whose pages in a browser may call, such as https://shop.example; "*" is all of them. Tokens are sent by the page
	// and not by the browser, so an origin gives away nothing by itself. None: no page may.
	Origins []string
	// Window is for how long answers are kept; 0 is DefaultWindow.
	Window time.Duration
	// Logger gets what callers are not told. Required.
	Logger *slog.Logger
	// CashIn is how money comes in from cards; without a gateway it does not.
	CashIn CashInConfig
}

// API serves the payment API.
type API struct {
	config Config
	sql    *dbsqlc.Queries
	hook   *hook
	mux    *http.ServeMux
	// methods are those of each path.
	methods map[string][]string
	cash    *cashier // nil without a gateway

	stop context.CancelFunc
	jobs []func() // wait for each
}

// New makes the API and starts its job, which makes and drops partitions. It returns an error if the window is not longer than clients
// may go on trying: a retry would then not find the answer any more.
func New(ctx context.Context, config Config) (*API, error) {
	if config.Window == 0 {
		config.Window = DefaultWindow
	}
	if err := config.CashIn.complete(); err != nil {
		return nil, err
	}
	if config.Window <= LongestRetry {
		return nil, ledger.Errorf(ledger.CodeInvalidArgument, "the window of the payment API is %s, and must be more than the %s for which clients may try again",
			config.Window, LongestRetry)
	}
	a := &API{config: config, sql: dbsqlc.New(), hook: &hook{config.Window}, mux: http.NewServeMux(), methods: map[string][]string{}}
	if err := a.keepPartitions(ctx); err != nil {
		return nil, err
	}
	a.handle("POST /v1/transfers", a.postTransfer)
	a.handle("POST /v1/refunds", a.postRefund)
	if config.CashIn.Gateway != nil {
		a.cash = &cashier{
			newDesk(config.Journal, config.Pool, config.Ledger, config.Window, config.Logger, config.CashIn),
		}
		a.handle("POST /v1/cash-ins", a.postCashIn)
	}
	a.handle("GET /v1/transfers/{id}", a.getTransfer)
	a.handle("GET /v1/transfers/by-idempotency-key/{key}", a.getByKey)
	a.handle("GET /v1/wallets/{id}", a.getWallet)
	a.handle("GET /v1/wallets/{id}/entries", a.getEntries)
	a.handle("PUT /v1/wallets/{id}", a.putWallet)
	a.public("GET /v1/openapi.json", getOpenAPI)
	a.handleRest()
	job, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.jobs = []func(){a.partitions().Start(job)}
	if a.cash != nil {
		a.jobs = append(a.jobs, a.cash.sweeps().Start(job))
	}
	return a, nil
}

// Close ends the jobs. Requests must have ended before.
func (a *API) Close() {
	a.stop()
	for _, wait := range a.jobs {
		wait()
	}
}

func (a *API) postTransfer(w http.ResponseWriter, r *http.Request, who Principal) error {
	var c transferCommand
	return a.pay(w, r, who, "/v1/transfers", &c, func(context.Context) error {
		if !who.Owns(ledger.AccountID(c.From)) {
			return denied()
		}
		return nil
	})
}

func (a *API) postRefund(w http.ResponseWriter, r *http.Request, who Principal) error {
	var c refundCommand
	return a.pay(w, r, who, "/v1/refunds", &c, func(ctx context.Context) error {
		// Whoever has got the money may give it back.
		original, _, err := a.find(ctx, who, number(c.TransferID))
		if err != nil {
			return err
		}
		if !a.ownsSide(who, original, ledger.Credit) {
			return denied()
		}
		return notFromACard(original)
	})
}

func denied() error {
	return ledger.Errorf(ledger.CodePermissionDenied, "this is not yours to do")
}

// pay answers a request under a key. may reports whether the caller may do what the command says; it is asked before the key is
// looked at, also for a retry.
func (a *API) pay(w http.ResponseWriter, r *http.Request, who Principal, route string, c command, may func(context.Context) error) error {
	return a.under(w, r, who, route, c, may, a.answer)
}

// under answers a request under a key as answer does.
func (a *API) under(w http.ResponseWriter, r *http.Request, who Principal, route string, c command, may func(context.Context) error,
	answer func(context.Context, *ticket, ledger.TransferSpec) (answer, error),
) error {
	key, err := readKey(r)
	if err != nil {
		return err
	}
	if err := readBody(w, r, c); err != nil {
		return err
	}
	spec, err := c.spec(newNumber(who.Name, key))
	if err != nil {
		return err
	}
	// The caller may hang up; what has begun is brought to its end all the same, or given up when its time is.
	ctx := a.config.Journal.WithBudget(context.WithoutCancel(r.Context()))
	if err := may(ctx); err != nil {
		return err
	}
	t := newTicket(who.Name, key, fingerprint(r.Method, route, c))
	given, err := answer(ctx, t, spec)
	a.countDuplicate(ctx, spec.ID, given, err)
	if err != nil {
		return err
	}
	given.write(w)
	return nil
}

// answer gives the answer to a payment: the one that is stored, or that of paying. A retry is looked up in a batch with others, which
// writes nothing: a look of its own before that would cost every new payment as much as it saves a retry.
func (a *API) answer(ctx context.Context, t *ticket, spec ledger.TransferSpec) (answer, error) {
	result, err := a.config.Journal.PostWith(ctx, t.user, a.config.Ledger, spec, a.hook, t)
	if err == nil {
		err = result.Err
	}
	if p := new(problem); errors.As(err, &p) && p.Code == codeInProgress {
		// It has waited for the wallets since it was told so: mostly behind the very try that had the key, which has ended then.
		if found := a.lookUp(ctx, t); found != nil {
			return again(found)
		}
	}
	if err != nil {
		return again(err)
	}
	given := rebuilt(result.Transfer)
	if result.Replayed {
		given.replayed, given.stopped = true, journal.LedgerGuard
	}
	return given, nil
}

// lookUp looks a key up without a transaction. It returns what its answer or its claim has to say to the request, or nil.
func (a *API) lookUp(ctx context.Context, t *ticket) error {
	ctx, cancel := context.WithTimeout(ctx, lookUpTimeout)
	defer cancel()
	b := &pgx.Batch{}
	found := findKeys(b, a.config.Window, 0, []string{t.user}, []string{t.key}, nil)
	if err := a.config.Pool.SendBatch(ctx, b).Close(); err != nil {
		a.config.Logger.Warn("look a key up", "error", err)
		return ledger.Errorf(ledger.CodeUnavailable, "the database does not answer")
	}
	if len(found.answers) > 0 {
		return t.compare(found.answers[0])
	}
	if len(found.claims) > 0 {
		return t.compareClaim(found.claims[0])
	}
	return nil
}

// again turns a stored answer into one that is given again.
func again(err error) (answer, error) {
	var found *stored
	if !errors.As(err, &found) {
		return answer{}, err
	}
	given := found.answer
	if !found.mine {
		given.replayed, given.stopped = true, journal.KeyGuard
	}
	return given, nil
}

// countDuplicate notes a duplicate. One that was told to wait is none yet: its client asks again.
func (a *API) countDuplicate(ctx context.Context, id ledger.TransferID, given answer, err error) {
	var p *problem
	switch {
	case given.stopped != "":
		a.config.Journal.CountReplay(ctx, a.config.Ledger, given.stopped, id)
	case errors.As(err, &p) && p.Code == codeKeyReused:
		a.config.Journal.CountTaken(ctx, a.config.Ledger, journal.KeyGuard, id)
	case ledger.CodeOf(err) == ledger.CodeAlreadyExists:
		a.config.Journal.CountTaken(ctx, a.config.Ledger, journal.LedgerGuard, id)
	}
}

// find finds a payment that the caller may see: its own, or one that its wallets took part in.
func (a *API) find(ctx context.Context, who Principal, n number) (*ledger.Transfer, ledger.Progress, error) {
	missing := &problem{Status: http.StatusNotFound, Code: string(ledger.CodeTransferNotFound), Title: "There is no such payment"}
	if !wellFormedNumber.MatchString(string(n)) {
		return nil, ledger.Progress{}, missing
	}
	t, progress, err := a.config.Journal.Transfer(ctx, a.config.Ledger, n.transferID())
	switch {
	case ledger.CodeOf(err) == ledger.CodeTransferNotFound:
		return nil, progress, missing
	case err != nil:
		return nil, progress, err
	case who.Support, t.Caller == who.Name, a.ownsSide(who, t, ledger.Debit):
		return t, progress, nil
	case t.Refusal == nil && a.ownsSide(who, t, ledger.Credit): // Whom money did not reach is not told of the try.
		return t, progress, nil
	}
	return nil, progress, missing
}

func (a *API) ownsSide(who Principal, t *ledger.Transfer, side ledger.Direction) bool {
	for _, e := range t.Entries {
		if e.Direction == side && who.Owns(e.Account) {
			return true
		}
	}
	return false
}

// progressAnswer is a payment as it stands now.
type progressAnswer struct {
	Payment    json.RawMessage `json:"payment"`
	Status     string          `json:"status"`
	Refunded   string          `json:"refunded,omitempty"`
	Refundable string          `json:"refundable,omitempty"`
	Refunds    []string        `json:"refunds,omitempty"`
}

func (a *API) getTransfer(w http.ResponseWriter, r *http.Request, who Principal) error {
	t, progress, err := a.find(r.Context(), who, number(r.PathValue("id")))
	if err != nil {
		return err
	}
	return writePayment(w, t, progress)
}

func (a *API) getByKey(w http.ResponseWriter, r *http.Request, who Principal) error {
	key, err := parseKey(r.PathValue("key"))
	if err != nil {
		return err
	}
	t, progress, err := a.find(r.Context(), who, newNumber(who.Name, key))
	if err != nil {
		// Whoever asks whether a payment was made must not hear "no such payment" of one that is being made.
		if running := a.running(r.Context(), who, key); running != nil {
			return running
		}
		return err
	}
	return writePayment(w, t, progress)
}

func writePayment(w http.ResponseWriter, t *ledger.Transfer, progress ledger.Progress) error {
	given := progressAnswer{Payment: rebuilt(t).body, Status: string(t.Outcome())}
	if t.Refusal == nil && t.Kind() == ledger.Plain {
		given.Refunded = ledger.FormatAmount(progress.Refunded, progress.Currency.Scale)
		given.Refundable = ledger.FormatAmount(progress.Refundable, progress.Currency.Scale)
		for _, id := range progress.Steps {
			given.Refunds = append(given.Refunds, string(numberOf(string(id))))
		}
	}
	return writeJSON(w, given)
}

func writeJSON(w http.ResponseWriter, value any) error {
	body, err := json.Marshal(value)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(append(body, '\n')) // The client may have gone.
	return nil
}

type walletAnswer struct {
	Wallet    string `json:"wallet"`
	Name      string `json:"name"`
	Currency  string `json:"currency"`
	Balance   string `json:"balance"`
	Held      string `json:"held"`
	Available string `json:"available"`
	Version   int64  `json:"version"`
}

// wallet gives a wallet that the caller may see; that of another is as one that does not exist.
func (a *API) wallet(r *http.Request, who Principal) (ledger.AccountID, error) {
	id := ledger.AccountID(r.PathValue("id"))
	if checkWallet("id", string(id)) != nil || !who.Support && !who.Owns(id) {
		return "", noWallet()
	}
	return id, nil
}

func noWallet() error {
	return &problem{Status: http.StatusNotFound, Code: string(ledger.CodeAccountNotFound), Title: "There is no such wallet"}
}

// orNoWallet makes an account that does not exist a 404.
func orNoWallet(err error) error {
	if ledger.CodeOf(err) == ledger.CodeAccountNotFound {
		return noWallet()
	}
	return err
}

func (a *API) getWallet(w http.ResponseWriter, r *http.Request, who Principal) error {
	id, err := a.wallet(r, who)
	if err != nil {
		return err
	}
	return a.writeWallet(w, r, id)
}

func (a *API) writeWallet(w http.ResponseWriter, r *http.Request, id ledger.AccountID) error {
	account, err := a.config.Journal.Account(r.Context(), a.config.Ledger, id)
	if err != nil {
		return orNoWallet(err)
	}
	balances, err := a.config.Journal.Balances(r.Context(), a.config.Ledger, []ledger.AccountID{id})
	if err != nil {
		return orNoWallet(err)
	}
	b := balances[0]
	return writeJSON(w, walletAnswer{
		Wallet: string(id), Name: account.Name, Currency: string(b.Currency.Code), Version: b.Version,
		Balance: ledger.FormatAmount(b.Posted, b.Currency.Scale), Held: ledger.FormatAmount(b.Held, b.Currency.Scale),
		Available: ledger.FormatAmount(b.Available(), b.Currency.Scale),
	})
}

func (a *API) putWallet(w http.ResponseWriter, r *http.Request, who Principal) error {
	id, err := a.wallet(r, who)
	if err != nil {
		return err
	}
	var c struct {
		Name *string `json:"name"`
	}
	if err := readBody(w, r, &c); err != nil {
		return err
	}
	if c.Name == nil {
		return invalid("name", "is required")
	}
	if _, err := a.config.Journal.UpdateAccount(context.WithoutCancel(r.Context()), who.Name, a.config.Ledger, id, ledger.AccountUpdate{Name: c.Name}); err != nil {
		return orNoWallet(err)
	}
	return a.writeWallet(w, r, id)
}

type entryAnswer struct {
	TransferID string `json:"transfer_id"`
	// Change is what the entry did to the balance, with its sign.
	Change   string `json:"change"`
	Balance  string `json:"balance"`
	Note     string `json:"note,omitempty"`
	PostedAt string `json:"posted_at"`
}

type entriesAnswer struct {
	Wallet   string        `json:"wallet"`
	Currency string        `json:"currency"`
	Entries  []entryAnswer `json:"entries"`
	// Next is the cursor of the next page; empty on the last.
	Next string `json:"next,omitempty"`
}

const (
	entriesPage = 50
	maxEntries  = 200
)

func (a *API) getEntries(w http.ResponseWriter, r *http.Request, who Principal) error {
	id, err := a.wallet(r, who)
	if err != nil {
		return err
	}
	limit, after := entriesPage, journal.EntryCursor{}
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxEntries {
			return invalid("limit", "want 1 to %d", maxEntries)
		}
	}
	if text := r.URL.Query().Get("after"); text != "" {
		if after, err = parseCursor(text); err != nil {
			return err
		}
	}
	page, err := a.config.Journal.Entries(r.Context(), a.config.Ledger, id, after, true, limit)
	if err != nil {
		return orNoWallet(err)
	}
	given := entriesAnswer{Wallet: string(id), Currency: string(page.Currency.Code), Entries: []entryAnswer{}}
	for _, e := range page.Entries {
		change := e.Amount
		if e.Direction == ledger.Debit { // A wallet is what the company owes.
			change = change.Neg()
		}
		given.Entries = append(given.Entries, entryAnswer{
			TransferID: string(numberOf(string(e.TransferID))), Change: ledger.FormatAmount(change, page.Currency.Scale),
			Balance: ledger.FormatAmount(e.Balance, page.Currency.Scale), Note: e.Description, PostedAt: formatTime(e.PostedAt),
		})
	}
	if page.More {
		given.Next = formatCursor(page.Entries[len(page.Entries)-1].Cursor)
	}
	return writeJSON(w, given)
}

func formatCursor(c journal.EntryCursor) string {
	return strconv.FormatInt(c.Sequence, 36) + "." + strconv.FormatInt(int64(c.Leg), 36)
}
