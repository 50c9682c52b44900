package console

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

// visit is one request, and who makes it.
type visit struct {
	*console
	w http.ResponseWriter
	r *http.Request
	// whole ends with the request, where the request's own context ends when a page has taken too long.
	whole context.Context
	// route is the pattern that the policy knows the request by; "" is none.
	route string
	// session is nil for who is not signed in.
	session *auth.Session
	// ledger is the one that the address names; "" is none.
	ledger ledger.Name
	// upload is what a form with a file has sent, on its way.
	upload *upload
}

// serve makes a handler of a route. Whoever reaches the route's own code may be there, and, if it does something, has asked for it himself.
func (c *console) serve(route route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := &visit{console: c, w: w, r: r, route: route.pattern, ledger: ledger.Name(r.PathValue("ledger")), whole: r.Context()}
		ctx, cancel := context.WithTimeout(r.Context(), pagePatience)
		defer cancel()
		v.r = r.WithContext(ctx)
		if takesFile[v.route] {
			defer v.drain()
		}
		err := v.admit()
		if err != nil {
			v.deny(err)
		} else if err = v.writeDown(); err == nil {
			err = route.handle(v)
		}
		if err != nil {
			v.failWith(err)
		}
	}
}

// admit lets a request in, or returns why not.
func (v *visit) admit() error {
	if v.r.Method == http.MethodPost {
		read := v.readForm
		if takesFile[v.route] { // Of these nothing is read before it is known who sends it.
			read = v.fromHere
		}
		if err := read(); err != nil {
			return err
		}
	}
	if err := v.recognise(); err != nil {
		return err
	}
	rule, known := auth.RuleOf(v.route)
	if v.route == "" || known && rule.Scope == auth.Anyone {
		return nil
	}
	if v.session == nil {
		return errSignIn
	}
	if err := v.config.Limiter.Take(v.session.Name); err != nil {
		return err
	}
	if !v.may(v.route) {
		return v.forbidden(v.route)
	}
	// Only now: to who may not look, a name that cannot be and one that is not there are as one that is.
	if v.ledger != "" {
		if err := v.ledger.Validate("ledger"); err != nil {
			return errNotFound
		}
	}
	switch {
	case takesFile[v.route]:
		return v.openUpload()
	case v.r.Method == http.MethodPost && !v.session.IsFormKey(v.r.PostFormValue(formKeyField)):
		return errForeignForm
	}
	return nil
}

// fromHere returns errForeignForm for a form that does not come from a page of the console's own.
func (v *visit) fromHere() error {
	if err := v.crossSite.Check(v.r); err != nil {
		return errForeignForm
	}
	return nil
}

// deny tells of a request that was not let in.
func (v *visit) deny(err error) {
	var known *ledger.Error
	var shown errorPage
	code := ledger.CodeUnauthenticated
	switch {
	case errors.As(err, &known):
		code = known.Code
	case errors.As(err, &shown) && shown.Status == http.StatusForbidden, errors.Is(err, errForeignForm):
		code = ledger.CodePermissionDenied
	case !errors.Is(err, errSignIn):
		return // It was let in, and has asked for what is not there.
	}
	if v.config.Denied != nil {
		v.config.Denied(code)
	}
}

// Reasons not to let a request in, or not to go on with it.
var (
	errSignIn      = errors.New("the visitor is not signed in")
	errNotFound    = errors.New("there is no such page")
	errForeignForm = errors.New("the form is not the session's")
)

// readForm reads what a form has sent, which must come from a page of the console's own.
func (v *visit) readForm() error {
	if err := v.fromHere(); err != nil {
		return err
	}
	// Where there is no deadline to set, the server has its own. Afterwards there is none: to do what was asked may take longer.
	control := http.NewResponseController(v.w)
	_ = control.SetReadDeadline(time.Now().Add(formPatience))
	defer control.SetReadDeadline(time.Time{})
	v.r.Body = http.MaxBytesReader(v.w, v.r.Body, maxForm)
	kind, _, _ := strings.Cut(v.r.Header.Get("Content-Type"), ";")
	if !strings.EqualFold(strings.TrimSpace(kind), "application/x-www-form-urlencoded") {
		return errorPage{Status: http.StatusUnsupportedMediaType, Title: "This is no form of the console's", Text: "Nothing was done."}
	}
	err := v.r.ParseForm()
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return errorPage{Status: http.StatusRequestEntityTooLarge, Title: "The form is too big", Text: "Nothing was done. Go back, and send shorter texts."}
	case err != nil:
		return errorPage{Status: http.StatusBadRequest, Title: "The form cannot be read", Text: "Nothing was done. Go back, and send it again."}
	}
	return nil
}

// recognise finds out who is signed in.
func (v *visit) recognise() error {
	cookie, err := v.r.Cookie(v.cookieName())
	if err != nil {
		return nil
	}
	v.session, err = v.config.Sessions.Get(v.r.Context(), cookie.Value)
	if errors.Is(err, ledger.CodeUnauthenticated) {
		v.session = nil
		return nil
	}
	return err
}

// may reports whether the visitor may go to a route, in the ledger at hand.
func (v *visit) may(route string) bool { return v.mayIn(route, v.ledger) }

func (v *visit) mayIn(route string, name ledger.Name) bool {
	return v.session != nil && v.session.Allow(auth.Request{Method: route, Ledger: name}) == nil
}

// forbidden says which roles a route takes.
func (v *visit) forbidden(route string) error {
	rule, _ := auth.RuleOf(route)
	where := "in any ledger"
	has := v.session.Grants.Somewhere()
	if rule.Scope == auth.InLedger {
		where = "in ledger " + string(v.ledger)
		has = v.session.Grants.On(v.ledger)
	}
	text := "It takes one of these roles " + where + ": " + rule.Roles.String() + "."
	if len(rule.Roles.Names()) == 1 {
		text = "It takes the role " + rule.Roles.String() + " " + where + "."
	}
	mine := "You have none there."
	if has != 0 {
		mine = "Yours there: " + has.String() + "."
	}
	return errorPage{
		Status: http.StatusForbidden, Title: "You may not do this", Text: text + " " + mine,
		Advice: "Ask who gives out roles for it, or sign out and sign in as somebody who has it.",
	}
}

// path is the address of something in the ledger at hand, with a query if there is one.
func (v *visit) path(below string, query url.Values) string {
	return ledgerPath(v.ledger, below, query)
}

func ledgerPath(name ledger.Name, below string, query url.Values) string {
	path := root + url.PathEscape(string(name)) + "/" + below
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return path
}

// see sends the visitor to another page of the console, after something was done: to load that again does nothing again.
func (v *visit) see(path string) error {
	http.Redirect(v.w, v.r, path, http.StatusSeeOther)
	return nil
}

// nothingHere answers what is no route: another method of one that there is, or nothing.
func (v *visit) nothingHere() error {
	// The frame is that of the ledger, if the address is of one.
	name, _, _ := strings.Cut(strings.TrimPrefix(v.r.URL.Path, root), "/")
	if ledger.Name(name).Validate("ledger") == nil {
		v.ledger = ledger.Name(name)
	}
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		other := v.r.Clone(v.r.Context())
		other.Method = method
		if _, pattern := v.mux.Handler(other); pattern != root && pattern != "" && method != v.r.Method {
			allowed = append(allowed, method)
		}
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = slices.Insert(allowed, 1, http.MethodHead)
	}
	if len(allowed) == 0 {
		return errNotFound
	}
	v.w.Header().Set("Allow", strings.Join(allowed, ", "))
	return errorPage{
		Status: http.StatusMethodNotAllowed, Title: "This cannot be done so", Text: "The address is right, and what was to be done there is not.",
	}
}

// isThisMachine reports whether the name under which a request has come is one of this machine's.
func isThisMachine(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
