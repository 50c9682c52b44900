package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/shopspring/decimal"
)

const (
	// MaxMetadata is the most bytes that metadata may have, as sent and as canonical JSON.
	MaxMetadata = 16 << 10
	// maxMetadataDepth bounds the nesting, so that no reader's stack is at risk.
	maxMetadataDepth = 16
	// maxNumberLength and maxNumberExponent bound a number, as sent and as canonical JSON: 1e999999999 is short, but its
	// value is not. Every number that fits an IEEE 754 double fits in here.
	maxNumberLength, maxNumberExponent = 512, 400
)

// Metadata is a JSON object in canonical form: no white space, keys sorted by their bytes, no key twice, strings with the
// fewest escapes, numbers by value without exponent or trailing zeros. Two requests whose metadata mean the same have the
// same Metadata. The empty string is no metadata; an empty object is stored as none.
//
// RFC 8785 was not taken: it prints numbers as IEEE 754 doubles, and two order numbers beyond 2^53 would be "the same".
type Metadata string

// ParseMetadata reads a JSON object of at most MaxMetadata bytes. It returns CodeInvalidArgument for anything else.
func ParseMetadata(text, field string) (Metadata, error) {
	if text == "" {
		return "", nil
	}
	if len(text) > MaxMetadata {
		return "", Invalid(field, "has %d bytes, at most %d are allowed", len(text), MaxMetadata)
	}
	if !utf8.ValidString(text) {
		return "", Invalid(field, "is not valid UTF-8")
	}
	if hasLoneSurrogate(text) {
		return "", Invalid(field, "has half of a surrogate pair, which is no character")
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var out bytes.Buffer
	if err := canonicalValue(dec, &out, 0); err != nil {
		return "", Invalid(field, "is not a JSON object: %s", metadataFault(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return "", Invalid(field, "has more than one JSON value")
	}
	switch {
	case out.Bytes()[0] != '{':
		return "", Invalid(field, "is not a JSON object, such as {\"order\":\"77\"}")
	case out.Len() == len("{}"):
		return "", nil
	case out.Len() > MaxMetadata:
		return "", Invalid(field, "has %d bytes as canonical JSON, at most %d are allowed", out.Len(), MaxMetadata)
	}
	return Metadata(out.String()), nil
}

// hasLoneSurrogate reports whether JSON has an escaped surrogate without its other half. The decoder would make U+FFFD of
// it without a word, and two contents would be one.
func hasLoneSurrogate(text string) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		i++ // What is escaped: a backslash, say, that begins no escape of its own.
		first, ok := escapedUnit(text[i-1:])
		if !ok || !utf16.IsSurrogate(first) {
			continue
		}
		second, ok := escapedUnit(text[min(i+5, len(text)):])
		if !ok || utf16.DecodeRune(first, second) == unicode.ReplacementChar {
			return true
		}
		i += 10 // at the last digit of the second
	}
	return false
}

// escapedUnit reads a \uXXXX that text begins with.
func escapedUnit(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	unit, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(unit), err == nil
}

func metadataFault(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends too early"
	}
	return err.Error()
}

// canonicalValue copies the next value of dec to out in canonical form.
func canonicalValue(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	if depth > maxMetadataDepth {
		return errors.New("it is nested too deep")
	}
	token, err := dec.Token()
	if err != nil {
		return err
	}
	switch value := token.(type) {
	case json.Delim:
		if value == '[' {
			return canonicalArray(dec, out, depth)
		}
		return canonicalObject(dec, out, depth)
	case json.Number:
		return canonicalNumber(string(value), out)
	case string:
		return canonicalString(value, out)
	default: // true, false, null
		text, err := json.Marshal(value)
		out.Write(text)
		return err
	}
}

func canonicalArray(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	out.WriteByte('[')
	for i := 0; dec.More(); i++ {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := canonicalValue(dec, out, depth+1); err != nil {
			return err
		}
	}
	out.WriteByte(']')
	_, err := dec.Token()
	return err
}

func canonicalObject(dec *json.Decoder, out *bytes.Buffer, depth int) error {
	members := map[string]string{}
	var keys []string
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return err
		}
		key := token.(string) // The decoder has checked that a key is a string.
		if _, twice := members[key]; twice {
			return errors.New("a key stands in it twice")
		}
		var value bytes.Buffer
		if err := canonicalValue(dec, &value, depth+1); err != nil {
			return err
		}
		keys = append(keys, key)
		members[key] = value.String()
	}
	if _, err := dec.Token(); err != nil {
		return err
	}
	slices.Sort(keys)
	out.WriteByte('{')
	for i, key := range keys {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := canonicalString(key, out); err != nil {
			return err
		}
		out.WriteByte(':')
		out.WriteString(members[key])
	}
	out.WriteByte('}')
	return nil
}

func canonicalString(value string, out *bytes.Buffer) error {
	if strings.ContainsRune(value, 0) {
		return errors.New("it has a NUL character") // PostgreSQL's JSON operators refuse \u0000.
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(value); err != nil {
		return err
	}
	out.Truncate(out.Len() - 1) // the encoder's newline
	return nil
}

func canonicalNumber(text string, out *bytes.Buffer) error {
	if len(text) > maxNumberLength {
		return errors.New("a number in it is too long")
	}
	number, err := decimal.NewFromString(text)
	if err != nil || number.Exponent() > maxNumberExponent || number.Exponent() < -maxNumberExponent {
		return errors.New("a number in it is out of range")
	}
	canonical := number.String()
	if len(canonical) > maxNumberLength { // or it could not be sent again as it was answered
		return errors.New("a number in it is too long")
	}
	out.WriteString(canonical)
	return nil
}
