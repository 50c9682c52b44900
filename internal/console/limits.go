package console

import (
	"errors"
	"net/http"
	"net/url"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

const (
	limitsRoute   = "GET /console/{ledger}/limits"
	setLimitRoute = "POST /console/{ledger}/limits"
)

// limitRow is a limit, or an earlier version of one.
type limitRow struct {
	Currency      ledger.CurrencyCode
	Path          string
	Version       int
	Single, Daily string
	Reason, SetBy string
	SetAt         moment
}

// limitsMain is what the page of limits shows.
type limitsMain struct {
	deskHead
	Rows []limitRow
	// Of is the currency whose versions are listed; "" is the limits in force. All is the way to these.
	Of, All string
	Set     *form
	Said    bool
}

func (v *visit) limits() error { return v.showLimits(http.StatusOK, values{}, nil) }

func (v *visit) showLimits(status int, q values, refused error) error {
	if v.config.Desk == nil {
		return errNotFound
	}
	asked := values(v.r.URL.Query())
	main := &limitsMain{deskHead: v.deskHead(limitsRoute), Of: asked.get("currency"), Said: asked.get("done") == "set"}
	if main.Of != "" {
		if err := ledger.CurrencyCode(main.Of).Validate("currency"); err != nil {
			return absent(err, "currency")
		}
		main.All = v.path("limits", nil)
	}
	list, err := v.config.Desk.Limits(v.r.Context(), v.ledger, ledger.CurrencyCode(main.Of))
	if err != nil {
		return err
	}
	for _, l := range list {
		main.Rows = append(main.Rows, limitRow{
			Currency: l.Currency.Code, Path: v.path("limits", url.Values{"currency": {string(l.Currency.Code)}}), Version: l.Version,
			Single: inCurrency(l.Single, l.Currency), Daily: inCurrency(l.Daily, l.Currency), Reason: l.Reason, SetBy: l.SetBy, SetAt: v.instant(l.SetAt),
		})
	}
	if v.may(setLimitRoute) {
		main.Set = v.limitForm(q)
		main.Set.Open = len(list) == 0
		if q.get("currency") == "" {
			main.Set.Fields[0].Value = main.Of
		}
	}
	if refused != nil && (main.Set == nil || !main.Set.blame(refused)) {
		return refused
	}
	return v.render(status, page{Name: "limits", Title: "Limits", Section: findRoute, Within: true, Wide: true, Main: main})
}

func (v *visit) limitForm(q values) *form {
	return &form{ID: "limit-", Action: v.path("limits", nil), Button: "Set the limit", Fields: []field{
		{Name: "currency", Label: "Currency", Help: "such as BDT", Kind: "text", Value: q.get("currency")},
		{Name: "single", Label: "One refund", Help: "above it, a refund needs another person; 0 is always", Kind: "text", Value: q.get("single")},
		{Name: "daily", Label: "Within 24 hours", Help: "what one person may refund alone in all; 0 is nothing", Kind: "text", Value: q.get("daily")},
		{Name: "reason", Label: "Reason", Help: "required; it stays on record", Kind: "text", Value: q.get("reason")},
	}}
}

func (v *visit) setLimit() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	q := values(v.r.PostForm)
	spec := support.LimitSpec{Ledger: v.ledger, Currency: ledger.CurrencyCode(q.get("currency")), Reason: q.get("reason")}
	var wrong faults
	wrong.add(spec.Currency.Validate("currency"))
	var err error
	spec.Single, err = ledger.ParseBalance(q.get("single"), "single")
	wrong.add(err)
	spec.Daily, err = ledger.ParseBalance(q.get("daily"), "daily")
	wrong.add(err)
	if err = wrong.err(); err == nil {
		_, err = v.config.Desk.SetLimit(v.r.Context(), v.actor(), spec)
	}
	if err != nil {
		var known *ledger.Error
		if errors.As(err, &known) && known.Code == ledger.CodeAmountScale { // It names its field.
			fine := *known
			fine.Code = ledger.CodeInvalidArgument
			err = &fine
		}
		err = ofForm(err, map[ledger.Code]string{ledger.CodeCurrencyNotFound: "currency"})
		return v.showLimits(refusedStatus(err), q, err)
	}
	return v.see(v.path("limits", url.Values{"done": {"set"}}))
}
