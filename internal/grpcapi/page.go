package grpcapi

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Page tokens are opaque to callers. There is nothing in them to protect: they say where a listing goes on, and what they
// can reach, the request can.
type accountToken struct {
	Account ledger.AccountID `json:"a"`
}

type entryToken struct {
	Account     ledger.AccountID `json:"a"`
	NewestFirst bool             `json:"n,omitempty"`
	Sequence    int64            `json:"s"`
	Leg         int16            `json:"l"`
}

type holdToken struct {
	Account  ledger.AccountID `json:"a"`
	Sequence int64            `json:"s"`
}

type statementToken struct {
	Account ledger.AccountID `json:"a"`
	Before  int64            `json:"b"`
}

type periodToken struct {
	Sequence int64 `json:"s"`
}

// reconcileToken is of any listing of khata.v1.ReconcileService. Of says which one, with all that it was asked for by.
type reconcileToken struct {
	Of string `json:"o"`
	// Run is the run that is listed, also where the last one was asked for and there is another one by now.
	Run int64 `json:"r,omitempty"`
	// No is the number after which the listing goes on, or before which; Entry and Leg are of results.
	No    int64 `json:"n"`
	Entry bool  `json:"e,omitempty"`
	Leg   int   `json:"l,omitempty"`
}

// listing is a request for a page.
type listing interface {
	proto.Message
	GetLedger() string
	GetPageSize() int32
	GetPageToken() string
}

// listingOf names what is listed: the request without its page.
func listingOf(in listing) string {
	asked := proto.Clone(in)
	m := asked.ProtoReflect()
	fields := m.Descriptor().Fields()
	m.Clear(fields.ByName("page_size"))
	m.Clear(fields.ByName("page_token"))
	m.Set(fields.ByName("ledger"), protoreflect.ValueOfString(string(ledger.Name(in.GetLedger()).Or())))
	m.SetUnknown(nil)
	text, err := proto.MarshalOptions{Deterministic: true}.Marshal(asked)
	if err != nil {
		panic(err) // It was a message a moment ago.
	}
	sum := sha256.Sum256(append([]byte(m.Descriptor().Name()), text...))
	return base64.RawURLEncoding.EncodeToString(sum[:12])
}

// readPage reads where a listing is to go on, and how many it may give.
func readPage(in listing) (limit int, token reconcileToken, err error) {
	if limit, err = pageSize(in.GetPageSize()); err != nil {
		return 0, token, err
	}
	of := listingOf(in)
	if in.GetPageToken() == "" {
		return limit, reconcileToken{Of: of}, nil
	}
	if err := readToken(in.GetPageToken(), &token); err != nil {
		return 0, token, err
	}
	if token.Of != of {
		return 0, token, ledger.Invalid("page_token", "is of another listing: all but page_size has to be as it was")
	}
	return limit, token, nil
}

// pageBytes is how much of a message a page may take up: the texts of banks can be long.
const pageBytes = MaxMessage / 4

// fitting gives how many of a page there is room for in a message, one at least.
func fitting[M proto.Message](list []M) int {
	size := 0
	for i, m := range list {
		if size += proto.Size(m); size > pageBytes && i > 0 {
			return i
		}
	}
	return len(list)
}

func writeToken(token any) string {
	text, err := json.Marshal(token)
	if err != nil {
		panic(err) // The types above can always be written.
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func readToken(text string, token any) error {
	if text == "" {
		return nil
	}
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil {
		err = json.Unmarshal(decoded, token)
	}
	if err != nil {
		return ledger.Invalid("page_token", "is not a next_page_token of this listing")
	}
	return nil
}

func pageSize(size int32) (int, error) {
	switch {
	case size < 0 || size > journal.MaxPage:
		return 0, ledger.Invalid("page_size", "is %d, want 1 to %d, or 0 for the most", size, journal.MaxPage)
	case size == 0:
		return journal.MaxPage, nil
	}
	return int(size), nil
}
