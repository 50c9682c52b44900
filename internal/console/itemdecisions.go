package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/ledger"
)

// takes are the lines and entries that a form names.
type takes struct {
	lines   []reconcile.LineTake
	entries []reconcile.EntryTake
}

func (t *takes) add(k itemKey) {
	if k.line != 0 {
		t.lines = append(t.lines, reconcile.LineTake{Line: k.line})
		return
	}
	t.entries = append(t.entries, reconcile.EntryTake{Sequence: k.sequence, Leg: k.leg, Forward: k.sequence == 0})
}

// takesOf reads what a form names beside its item. It returns CodeInvalidArgument.
func takesOf(k itemKey, q values) (takes, error) {
	var t takes
	t.add(k)
	for _, text := range q["with"] {
		other, ok := parseKey(text)
		if !ok {
			return t, errForeignForm
		}
		t.add(other)
	}
	if err := errors.Join(q.check("transfers"), q.check("lines")); err != nil {
		return t, err
	}
	for _, id := range strings.Fields(q.get("transfers")) {
		t.entries = append(t.entries, reconcile.EntryTake{Transfer: ledger.TransferID(id)})
	}
	for _, text := range strings.Fields(q.get("lines")) {
		no, err := strconv.ParseInt(text, 10, 64)
		if err != nil || no <= 0 {
			return t, ledger.Invalid("lines", "%.40q is no number of a line", text)
		}
		t.add(itemKey{line: no})
	}
	return t, nil
}

// confirm matches what a form names: a suggestion, or an item and others.
func (v *visit) confirm() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	request, err := q.request()
	if err != nil {
		return err
	}
	spec := reconcile.ConfirmSpec{Ledger: v.ledger, BankAccount: b.Name, Request: request, Reason: q.get("reason")}
	if account := q.get("account"); account != "" {
		spec.Difference = &reconcile.DifferenceSpec{Account: ledger.AccountID(account)}
	}
	if q.get("item") == "" {
		return v.confirmSuggestion(b, q, spec)
	}
	k, ok := parseKey(q.get("item"))
	if !ok {
		return errForeignForm
	}
	t, err := takesOf(k, q)
	if errors.Is(err, errForeignForm) {
		return err
	}
	var d *reconcile.Decision
	if err == nil {
		spec.Lines, spec.Entries = t.lines, t.entries
		d, err = v.config.Reconciler.Confirm(v.r.Context(), spec, v.session.Name)
	}
	if err != nil {
		return v.refuseDecision(b, k, q, request, err, func(main *itemMain) *form { return main.Confirm })
	}
	return v.see(v.decisionPath(b, d.No, url.Values{"done": {doneWord(d, "confirmed")}}))
}

// doneWord says what became of a request: it was done now, or had been before.
func doneWord(d *reconcile.Decision, word string) string {
	if d.Replayed {
		return "before"
	}
	return word
}

// atFields are the fields of forms that errors of other codes are about.
var atFields = map[ledger.Code]string{
	ledger.CodeAccountNotFound: "account", ledger.CodeCurrencyMismatch: "account", ledger.CodeTransferNotFound: "transfers",
}

// refuseDecision shows at an item why a decision about it was not made; or the decision, if it was made and its difference could not be posted.
func (v *visit) refuseDecision(b bank, k itemKey, q values, request string, err error, which func(*itemMain) *form) error {
	status := refusedStatus(err)
	if status != http.StatusConflict || ledger.CodeOf(err) == ledger.CodeConflict {
		return v.showItem(status, b, k, q, which, ofForm(err, atFields))
	}
	if d := v.decisionMade(b, k, request); d != nil {
		return v.showDecision(status, b, d.No, values{}, nil, err)
	}
	return v.showItem(status, b, k, q, which, err)
}

// decisionMade finds the decision that a request has made about an item; nil is none.
func (v *visit) decisionMade(b bank, k itemKey, request string) *reconcile.Decision {
	list, err := v.decisionsAbout(b, k)
	if err != nil {
		return nil
	}
	for _, d := range list {
		if d.Request == request {
			return d
		}
	}
	return nil
}

// confirmSuggestion confirms what a run suggests.
func (v *visit) confirmSuggestion(b bank, q values, spec reconcile.ConfirmSpec) error {
	run, err := q.number("run")
	if err != nil {
		return errForeignForm
	}
	group, err := q.number("group")
	if err != nil || run == 0 || group == 0 || group > 1<<30 {
		return errForeignForm
	}
	spec.Run, spec.Group = run, int(group)
	d, err := v.config.Reconciler.Confirm(v.r.Context(), spec, v.session.Name)
	if err == nil {
		next := url.Values{"run": {q.get("run")}, "view": {"suggestions"}, "decision": {strconv.FormatInt(d.No, 10)}, "done": {doneWord(d, "confirmed")}}
		if after := q.get("after"); after != "" && after != "0" {
			next.Set("after", after)
		}
		return v.see(v.bankPath(b, "work", next))
	}
	status := refusedStatus(err)
	if status != http.StatusConflict {
		return v.showWork(status, b, values{"run": q["run"], "view": {"suggestions"}, "group": q["group"], "account": q["account"]}, ofForm(err, atFields))
	}
	// As it is now: at the first item of the suggestion that was decided otherwise.
	list, _, found := v.config.Reconciler.Suggestions(v.r.Context(), v.ledger, b.Name, run, spec.Group-1, 1)
	if found != nil || len(list) == 0 {
		return err
	}
	results := slices.Concat(list[0].Lines, list[0].Entries)
	if len(results) == 0 {
		return err
	}
	k := keyOf(&results[0])
	for i := range results[:min(len(results), inCard)] {
		decided, lookErr := v.decisionsAbout(b, keyOf(&results[i]))
		if lookErr == nil && len(decided) > 0 && decided[0].Undone == nil {
			k = keyOf(&results[i])
			break
		}
	}
	return v.refuseDecision(b, k, values{}, spec.Request, err, func(main *itemMain) *form { return main.Confirm })
}

// ignore says that an item has no counterpart and needs none.
func (v *visit) ignore() error {
	b, err := v.bank()
	if err != nil {
		return err
	}
	q := values(v.r.PostForm)
	request, err := q.request()
	if err != nil {
		return err
	}
	k, ok := parseKey(q.get("item"))
	if !ok {
		return errForeignForm
	}
	var t takes
	t.add(k)
	spec := reconcile.IgnoreSpec{Ledger: v.ledger, BankAccount: b.Name, Request: request, Reason: q.get("reason")}
	if k.line != 0 {
		spec.Line = &t.lines[0]
	} else {
		spec.Entry = &t.entries[0]
	}
	d, err := v.config.Reconciler.Ignore(v.r.Context(), spec, v.session.Name)
	if err != nil {
		return v.refuseDecision(b, k, q, request, err, func(main *itemMain) *form { return main.Ignore })
	}
	return v.see(v.decisionPath(b, d.No, url.Values{"done": {doneWord(d, "ignored")}}))
}
