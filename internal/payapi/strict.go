package payapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// checkStrictly refuses what encoding/json reads in silence and another reader of the same bytes reads otherwise: a name that is there
// twice (the last one wins here, the first one elsewhere), a name in other letters (AMOUNT is amount to it), text that is not UTF-8 (it
// becomes U+FFFD), and null (which leaves a field as it was). What two readers may understand differently is not paid. The body must be
// JSON.
func checkStrictly(body []byte) error {
	if !utf8.Valid(body) {
		return invalid("", "is not UTF-8")
	}
	if trimmed := bytes.TrimLeft(body, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return invalid("", "want a JSON object")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber() // A number is whatever its text says.
	c := strictly{body, d}
	return c.value("")
}

type strictly struct {
	body   []byte
	tokens *json.Decoder
}

// value reads the next value, which the field is named for.
func (c *strictly) value(field string) error {
	token, err := c.tokens.Token()
	if err != nil {
		return invalid(field, "is not JSON: %s", err)
	}
	switch token := token.(type) {
	case nil:
		return invalid(field, "is null: leave it out instead")
	case string:
		return c.text(field, token)
	case json.Delim:
		names := map[string]bool{}
		for i := 0; c.tokens.More(); i++ {
			var inner string
			if token == '[' {
				inner = fmt.Sprintf("%s[%d]", field, i)
			} else if inner, err = c.name(field, names); err != nil {
				return err
			}
			if err := c.value(inner); err != nil {
				return err
			}
		}
		if _, err := c.tokens.Token(); err != nil {
			return invalid(field, "is not JSON: %s", err)
		}
	}
	return nil
}

// name reads the next name of the object that the field is.
func (c *strictly) name(field string, names map[string]bool) (string, error) {
	token, err := c.tokens.Token()
	if err != nil {
		return "", invalid(field, "is not JSON: %s", err)
	}
	name, _ := token.(string) // Names are strings.
	inner := strings.TrimPrefix(field+"."+name, ".")
	for _, r := range name {
		// All of our names are made of these.
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return "", invalid(inner, "is not a field: names are in small letters")
		}
	}
	if names[name] {
		return "", invalid(inner, "is there twice")
	}
	names[name] = true
	return inner, nil
}

func (c *strictly) text(field, text string) error {
	// U+FFFD that is not in the body itself stands for half of a surrogate pair.
	if strings.ContainsRune(text, utf8.RuneError) &&
		!bytes.ContainsRune(c.body, utf8.RuneError) && !bytes.Contains(bytes.ToLower(c.body), []byte(`\ufffd`)) {
		return invalid(field, "has half of a surrogate pair")
	}
	return nil
}
