package console

import (
	"maps"
	"slices"
	"strings"

	"github.com/khata-ledger/khata/internal/support"
	"github.com/khata-ledger/khata/ledger"
)

// look is what is written down of a page that shows what customers have and did, before it is shown. The pages of the support desk do so themselves.
type look struct {
	action, kind string
	// object says what it is of: "{no}" of the path, or a field of the question; "" is all there is.
	object string
}

var looks = map[string]look{
	reportRoute:        {"report.read", "report", "{report}"},
	accountsRoute:      {"account.list", "accounts", ""},
	accountRoute:       {"account.read", "account", "account"},
	statementsRoute:    {"statement.list", "statements", ""},
	statementRoute:     {"statement.read", "statement", "{no}"},
	bankRoute:          {"bank.read", "bank_account", "{bank}"},
	bankFileRoute:      {"bank.read", "bank_account", "{bank}"},
	workRoute:          {"bank.read", "bank_account", "{bank}"},
	itemRoute:          {"bank.read", "bank_account", "{bank}"},
	bankStatementRoute: {"bank.read", "bank_account", "{bank}"},
	bankItemsRoute:     {"bank.read", "bank_account", "{bank}"},
	decisionsRoute:     {"bank.read", "bank_account", "{bank}"},
	decisionRoute:      {"bank.read", "bank_account", "{bank}"},
}

const (
	// maxAsked and maxAskedText bound what is written down of a question, and maxObject what it is of.
	maxAsked, maxAskedText, maxObject = 12, 200, 256
)

// writeDown writes down who looks at what. A page of which that fails is not shown.
func (v *visit) writeDown() error {
	l, ok := looks[v.route]
	if !ok || v.config.Desk == nil {
		return nil
	}
	asked := v.r.URL.Query()
	event := support.Event{Ledger: v.ledger, Actor: v.actor(), Action: l.action, Object: support.Object{Kind: l.kind}, Detail: map[string]string{}}
	if name, ok := strings.CutPrefix(l.object, "{"); ok {
		event.Object.ID = v.r.PathValue(strings.TrimSuffix(name, "}"))
	} else if l.object != "" {
		event.Object.ID = asked.Get(l.object)
		asked.Del(l.object)
	}
	event.Object.ID = asText(event.Object.ID, maxObject)
	for _, field := range slices.Sorted(maps.Keys(asked)) {
		if value := asked.Get(field); value != "" && len(event.Detail) < maxAsked {
			event.Detail[asText(field, maxAskedText)] = asText(value, maxAskedText)
		}
	}
	err := v.config.Desk.Audit().Read(v.r.Context(), event, func() error { return nil })
	if ledger.CodeOf(err) == ledger.CodeLedgerNotFound {
		return nil // There is nothing to see, and the page says so.
	}
	return err
}

// asText makes what a visitor has asked for something that can be kept: text of PostgreSQL's, and not too much of it.
func asText(text string, most int) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "")
	}
	return text
}
