package payclient

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
)

var wellFormedKey = regexp.MustCompile(`^[A-Za-z0-9._:-]{16,255}$`)

// NewKey makes a key of 160 random bits. Only a key that is needed before the payment is known needs it, such as one that lies in a form; it
// is given to Begin by Key.
func NewKey() string {
	var random [20]byte
	_, _ = rand.Read(random[:]) // It never fails.
	return "khp-" + hex.EncodeToString(random[:])
}

// nameOf is the name of the record that a reference or a key belongs to. Whoever begins the same again must come to the same file, also if
// its content cannot be read any more.
func nameOf(o options) string {
	prefix, id := "k-", o.key
	if o.reference != "" {
		prefix, id = "r-", o.reference
	}
	sum := sha256.Sum256([]byte(id))
	return prefix + hex.EncodeToString(sum[:20])
}
