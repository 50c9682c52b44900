package grpcapi

import (
	"encoding/base64"
	"encoding/json"

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
