package reconcile

import (
	"encoding/json"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
)

// What is kept as JSON, under names of its own: those of package bankfile may change.

type storedRefs struct {
	EndToEnd    string `json:"end_to_end,omitempty"`
	Bank        string `json:"bank,omitempty"`
	Customer    string `json:"customer,omitempty"`
	Instruction string `json:"instruction,omitempty"`
	Transaction string `json:"transaction,omitempty"`
	Mandate     string `json:"mandate,omitempty"`
	Creditor    string `json:"creditor,omitempty"`
	Batch       string `json:"batch,omitempty"`
	Source      string `json:"source,omitempty"`
	Cheque      string `json:"cheque,omitempty"`
}

type storedParty struct {
	Name    string `json:"name,omitempty"`
	Account string `json:"account,omitempty"`
	Bank    string `json:"bank,omitempty"`
}

type storedFlag struct {
	Code bankfile.FlagCode `json:"code"`
	Text string            `json:"text"`
}

type storedCheck struct {
	Name     bankfile.CheckName  `json:"name"`
	State    bankfile.CheckState `json:"state"`
	Detail   string              `json:"detail,omitempty"`
	Stated   string              `json:"stated,omitempty"`
	Computed string              `json:"computed,omitempty"`
}

type storedBalance struct {
	Code     string          `json:"code"`
	Amount   decimal.Decimal `json:"amount"`
	Currency string          `json:"currency"`
	Date     bankfile.Date   `json:"date"`
}

func flagsOf(list []bankfile.Flag) []storedFlag {
	out := make([]storedFlag, len(list))
	for i, f := range list {
		out[i] = storedFlag(f)
	}
	return out
}

func checksOf(list []bankfile.Check) []storedCheck {
	out := make([]storedCheck, len(list))
	for i, c := range list {
		out[i] = storedCheck(c)
	}
	return out
}

func balancesOf(list []bankfile.Balance) []storedBalance {
	out := make([]storedBalance, len(list))
	for i, b := range list {
		out[i] = storedBalance(b)
	}
	return out
}

// decodeList reads a list that was kept, and makes each of it what it was.
func decodeList[Stored, T any](text string, of func(Stored) T) ([]T, error) {
	var stored []Stored
	if err := json.Unmarshal([]byte(text), &stored); err != nil {
		return nil, err
	}
	var list []T
	for _, s := range stored {
		list = append(list, of(s))
	}
	return list, nil
}
