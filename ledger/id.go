package ledger

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"strings"
	"unicode/utf8"
)

// DefaultLedger is the ledger that a request means when it names none. It exists from the first migration on.
const DefaultLedger Name = "main"

// MaxIDLength is the longest TransferID or AccountID, in bytes.
const MaxIDLength = 128

// ReservedPrefix begins the ids that Khata derives itself. Callers cannot use it.
const ReservedPrefix = "khata:"

// TransferID is the caller's name for a transfer, unique in its ledger for ever: 1 to 128 characters of 0x21-0x7E,
// such as "order-77-capture".
type TransferID string

// AccountID is the caller's name for an account, unique in its ledger: 1 to 128 characters of 0x21-0x7E, such as
// "wallet:shimul".
type AccountID string

// Name names a ledger: 1 to 63 characters of a-z, 0-9, "-" and "_", the first a letter or digit.
type Name string

// Validate returns CodeInvalidArgument, about the given field, unless a caller may give this id to something new.
func (id TransferID) Validate(field string) error {
	return cmp.Or(id.ValidateFormat(field), validateUnreserved(string(id), field))
}

// ValidateFormat returns CodeInvalidArgument, about the given field, unless something can have this id: those that Khata
// derives are among them.
func (id TransferID) ValidateFormat(field string) error { return validateID(string(id), field) }

// Validate returns CodeInvalidArgument, about the given field, unless a caller may give this id to something new.
func (id AccountID) Validate(field string) error {
	return cmp.Or(id.ValidateFormat(field), validateUnreserved(string(id), field))
}

// ValidateFormat returns CodeInvalidArgument, about the given field, unless something can have this id: those that Khata
// derives are among them.
func (id AccountID) ValidateFormat(field string) error { return validateID(string(id), field) }

func validateUnreserved(id, field string) error {
	if strings.HasPrefix(id, ReservedPrefix) {
		return Invalid(field, "begins with %q, which is reserved", ReservedPrefix)
	}
	return nil
}

func validateID(id, field string) error {
	switch {
	case id == "":
		return Invalid(field, "is required: 1 to %d characters of 0x21-0x7E", MaxIDLength)
	case len(id) > MaxIDLength:
		return Invalid(field, "has %d bytes, at most %d are allowed", len(id), MaxIDLength)
	}
	for i := range len(id) {
		if id[i] < 0x21 || id[i] > 0x7e {
			return Invalid(field, "has byte %#02x at position %d, only 0x21-0x7E are allowed (no spaces)", id[i], i)
		}
	}
	return nil
}

// Validate returns CodeInvalidArgument unless the name is well-formed.
func (n Name) Validate(field string) error {
	const want = "want 1 to 63 characters of a-z, 0-9, - and _, the first a letter or digit"
	if n == "" || len(n) > 63 || n[0] == '-' || n[0] == '_' {
		return Invalid(field, "%.80q is not a ledger name: %s", string(n), want)
	}
	for _, c := range []byte(n) {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
			return Invalid(field, "%.80q is not a ledger name: %s", string(n), want)
		}
	}
	return nil
}

// Or returns the name, or DefaultLedger where it is empty.
func (n Name) Or() Name {
	if n == "" {
		return DefaultLedger
	}
	return n
}

// DerivedID makes an id of Khata's own from a kind, which is a short word of ours, and parts that are not empty, such as
// "khata:refund:order-77". The same parts give the same id, and others another one: colons within a part are escaped. An
// id that would be longer than MaxIDLength ends in a hash of the whole, after two colons.
func DerivedID(kind string, parts ...string) TransferID {
	escape := strings.NewReplacer("%", "%25", ":", "%3A")
	id := ReservedPrefix + kind
	for _, part := range parts {
		id += ":" + escape.Replace(part)
	}
	if len(id) <= MaxIDLength {
		return TransferID(id)
	}
	sum := sha256.Sum256([]byte(id))
	hash := base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	return TransferID(ReservedPrefix + kind + "::" + hash)
}

// validateText checks free text: valid UTF-8, no NUL (PostgreSQL cannot store it), bounded.
func validateText(text, field string, limit int) error {
	switch {
	case len(text) > limit:
		return Invalid(field, "has %d bytes, at most %d are allowed", len(text), limit)
	case !utf8.ValidString(text):
		return Invalid(field, "is not valid UTF-8")
	case strings.ContainsRune(text, 0):
		return Invalid(field, "has a NUL character")
	}
	return nil
}
