package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// parseJSON reads a line of NDJSON: an object with the names of the API's NewTransfer. Unlike json.Unmarshal it refuses
// unknown names, also by case, and a name that stands twice.
func parseJSON(text []byte) (ledger.TransferSpec, error) {
	var spec ledger.TransferSpec
	var debit, credit, amount, currency, at string
	var entries []json.RawMessage
	var shorthand, list bool
	err := members(text, "line", func(name string, value json.RawMessage) (err error) {
		switch name {
		case "transfer_id":
			return jsonString(value, name, (*string)(&spec.ID))
		case "debit_account":
			shorthand = true
			return jsonString(value, name, &debit)
		case "credit_account":
			shorthand = true
			return jsonString(value, name, &credit)
		case "amount":
			shorthand = true
			return jsonString(value, name, &amount)
		case "currency":
			shorthand = true
			return jsonString(value, name, &currency)
		case "effective_at":
			return jsonString(value, name, &at)
		case "description":
			return jsonString(value, name, &spec.Description)
		case "metadata":
			spec.Metadata, err = jsonMetadata(value)
			return err
		case "entries":
			list = true
			if json.Unmarshal(value, &entries) != nil {
				return ledger.Invalid(name, "is not an array of entries")
			}
			return nil
		}
		return ledger.Invalid("line", "has %.40q, which is not known; the names are %s, entries", name, strings.Join(columns, ", "))
	})
	if err != nil {
		return spec, err
	}
	switch {
	case shorthand && list:
		return spec, ledger.Invalid("entries", "cannot be given together with debit_account, credit_account, amount or currency")
	case list:
		spec.Entries, err = parseEntries(entries)
	default:
		spec.Entries, err = simpleEntries(debit, credit, amount, currency)
	}
	if err == nil {
		spec.EffectiveAt, err = parseTime(at, "effective_at")
	}
	return spec, err
}

func parseEntries(list []json.RawMessage) ([]ledger.Entry, error) {
	if len(list) > ledger.MaxEntries {
		return nil, ledger.Invalid("entries", "has %d entries, want 2 to %d", len(list), ledger.MaxEntries)
	}
	entries := make([]ledger.Entry, len(list))
	for i, text := range list {
		var account, direction, amount, currency string
		at := func(name string) string { return ledger.EntryField(i, name) }
		err := members(text, fmt.Sprintf("entries[%d]", i), func(name string, value json.RawMessage) error {
			switch name {
			case "account":
				return jsonString(value, at(name), &account)
			case "direction":
				return jsonString(value, at(name), &direction)
			case "amount":
				return jsonString(value, at(name), &amount)
			case "currency":
				return jsonString(value, at(name), &currency)
			}
			return ledger.Invalid(fmt.Sprintf("entries[%d]", i), "has %.40q, which is not known; the names are account, direction, amount, currency", name)
		})
		if err != nil {
			return nil, err
		}
		value, err := ledger.ParseAmount(amount, at("amount"))
		if err != nil {
			return nil, err
		}
		entries[i] = ledger.Entry{
			Account: ledger.AccountID(account), Direction: ledger.Direction(direction), Amount: value,
			Currency: ledger.Currency{Code: ledger.CurrencyCode(currency)},
		}
	}
	return entries, nil
}

// members visits the members of a JSON object.
func members(text []byte, field string, visit func(name string, value json.RawMessage) error) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if start, err := dec.Token(); err != nil || start != json.Delim('{') {
		return ledger.Invalid(field, "is not a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return jsonFault(field, err)
		}
		name, _ := token.(string) // The decoder has checked that a name is a string.
		if seen[name] {
			return ledger.Invalid(field, "has %.40q twice", name)
		}
		seen[name] = true
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return jsonFault(field, err)
		}
		if string(value) == "null" { // as good as absent
			continue
		}
		if err := visit(name, value); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return jsonFault(field, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return ledger.Invalid(field, "has more after the JSON object; each line holds one")
	}
	return nil
}

func jsonFault(field string, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return ledger.Invalid(field, "is not a JSON object: it ends too early")
	}
	return ledger.Invalid(field, "is not a JSON object: %v", err)
}

// jsonString reads a string. A number is refused even where digits are wanted: most programs
// that write 0.1 as a number have rounded it before.
func jsonString(value json.RawMessage, field string, out *string) error {
	if json.Unmarshal(value, out) != nil {
		return ledger.Invalid(field, "is %.40s, want a string, such as \"500.00\" with its quotes", value)
	}
	return nil
}

// jsonMetadata reads metadata as an object, or as a string that holds one, as the API has it.
func jsonMetadata(value json.RawMessage) (ledger.Metadata, error) {
	text := string(value)
	if strings.HasPrefix(text, `"`) {
		if err := jsonString(value, "metadata", &text); err != nil {
			return "", err
		}
	}
	return ledger.ParseMetadata(text, "metadata")
}
