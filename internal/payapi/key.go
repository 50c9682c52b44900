package payapi

import (
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"net/http"
	"regexp"
	"strings"

	"github.com/khata-ledger/khata/ledger"
)

// keyHeader is the header that names a payment.
const keyHeader = "Idempotency-Key"

// wellFormedKey is what a key may be, without its quotes: opaque, and long enough not to be a counter that another customer has too.
var wellFormedKey = regexp.MustCompile(`^[A-Za-z0-9._:-]{16,255}$`)

// readKey reads the key of a request: quoted, as the draft of the IETF has it, or bare; both name the same payment. A malformed key is not
// the same as none: to ignore it would be to pay without protection.
func readKey(r *http.Request) (string, error) {
	values := r.Header.Values(keyHeader)
	switch len(values) {
	case 0:
		return "", &problem{
			Status: http.StatusBadRequest, Code: codeKeyMissing, Title: "Idempotency-Key is missing",
			Detail: "make a key when the payment is begun, such as a UUID, keep it, and send it with every try of this payment",
		}
	case 1:
		return parseKey(values[0])
	default:
		return "", malformedKey("the header is there %d times", len(values))
	}
}

func parseKey(value string) (string, error) {
	key := value
	if strings.HasPrefix(value, `"`) {
		if len(value) < 2 || !strings.HasSuffix(value, `"`) {
			return "", malformedKey("a quote is missing")
		}
		key = value[1 : len(value)-1]
	}
	if !wellFormedKey.MatchString(key) {
		return "", malformedKey("want 16 to 255 characters of A-Z, a-z, 0-9 and ._:- , with or without quotes around them")
	}
	return key, nil
}

// number is the public number of a payment: of the same user and key always the same, and of no others.
type number string

const numberPrefix = "TXN-"

var base32Digits = base32.StdEncoding.WithPadding(base32.NoPadding)

// newNumber makes a number from a user and a key. 130 bits of a hash: nobody who does not know the key can guess it.
func newNumber(user, key string) number {
	hash := sha256.New()
	hash.Write([]byte("khata payment"))
	for _, part := range []string{user, key} {
		hash.Write(binary.BigEndian.AppendUint32(nil, uint32(len(part)))) //nolint:gosec // Both are short.
		hash.Write([]byte(part))
	}
	return number(numberPrefix + base32Digits.EncodeToString(hash.Sum(nil))[:26])
}

var wellFormedNumber = regexp.MustCompile(`^TXN-[A-Z2-7]{26}$`)

// transferID is the ledger's own id of the payment.
func (n number) transferID() ledger.TransferID {
	return ledger.TransferID(ledger.ReservedPrefix + string(n))
}

// lockHash is the advisory lock of a key. Two keys of one hash are in each other's way for a moment, and no more.
func lockHash(user, key string) int64 {
	sum := sha256.Sum256([]byte(user + "\x00" + key))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // All of its bits are wanted.
}
