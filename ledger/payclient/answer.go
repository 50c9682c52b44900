package payclient

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// answer is what came back from a try, as far as it is Khata's.
type answer struct {
	Status     int    `json:"status"`
	Type       string `json:"content_type,omitempty"`
	Replayed   bool   `json:"replayed,omitempty"`
	Body       []byte `json:"body,omitempty"`
	Code       string `json:"code,omitempty"`
	Title      string `json:"title,omitempty"`
	Detail     string `json:"detail,omitempty"`
	TransferID string `json:"transfer_id,omitempty"`

	verdict    verdict
	retryAfter time.Duration // as the server has it; 0 if it has none
}

// verdict is what an answer says of the payment.
type verdict int

const (
	// silent says nothing of it: it may have been made, or be under way. The same is sent again.
	silent verdict = iota
	// done: the money has moved.
	done
	// refused: it has not, on record, and never will under this key.
	refused
	// undone: nothing was decided by this try, and nothing would be by another one.
	undone
	// denied: nothing was decided by this try; another token may help.
	denied
)

// payment is what is read of a payment as the server tells it.
type payment struct {
	TransferID string `json:"transfer_id"`
	Original   string `json:"original"`
	From       string `json:"from"`
	To         string `json:"to"`
	Amount     string `json:"amount"`
	Currency   string `json:"currency"`
}

// problem is what is read of an answer of RFC 9457.
type problem struct {
	Title      string `json:"title"`
	Status     int    `json:"status"`
	Code       string `json:"code"`
	Detail     string `json:"detail"`
	TransferID string `json:"transfer_id"`
	Fields     []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"fields"`
}

const (
	jsonType    = "application/json"
	problemType = "application/problem+json"
)

// read reads an answer to a payment. Only what has the type and the shape of Khata's counts: proxies, captive portals and other people's
// servers answer too, and with any status.
func read(status int, header http.Header, body []byte, now time.Time) *answer {
	a := &answer{Status: status, Body: body, Replayed: header.Get("Idempotent-Replayed") == "true", retryAfter: retryAfter(header, now)}
	a.Type, _, _ = mime.ParseMediaType(header.Get("Content-Type"))
	switch {
	case status == http.StatusCreated && a.Type == jsonType:
		var p payment
		if decode(body, &p) == nil && p.TransferID != "" {
			a.TransferID, a.verdict = p.TransferID, done
		}
	case status >= 400 && a.Type == problemType:
		a.readProblem(body)
	}
	return a
}

func (a *answer) readProblem(body []byte) {
	var p problem
	if decode(body, &p) != nil || p.Code == "" || p.Status != a.Status { // Another status: somebody on the way has changed it.
		return
	}
	a.Code, a.Title, a.Detail = p.Code, p.Title, p.Detail
	for _, f := range p.Fields {
		if a.Detail != "" {
			a.Detail += "; "
		}
		a.Detail += f.Field + " " + f.Message
	}
	switch s := a.Status; {
	case s == http.StatusUnprocessableEntity && p.TransferID != "":
		a.TransferID, a.verdict = p.TransferID, refused
	case s == http.StatusUnauthorized, s == http.StatusForbidden:
		a.verdict = denied
	case s == http.StatusRequestTimeout, s == http.StatusConflict, s == http.StatusTooEarly, s == http.StatusTooManyRequests, s >= 500:
		// The same again.
	default:
		a.verdict = undone
	}
}

// progress is what a look-up by key answers.
type progress struct {
	Payment json.RawMessage `json:"payment"`
	Status  string          `json:"status"`
}

// readLookup reads the answer to a look-up for the payment that body asks for. What is done or refused is told as if the payment itself had
// been answered so; undone is that nothing is decided yet. body is nil where it is not known.
func readLookup(status int, header http.Header, text, body []byte, now time.Time) *answer {
	a := &answer{Status: status, Body: text, retryAfter: retryAfter(header, now)}
	a.Type, _, _ = mime.ParseMediaType(header.Get("Content-Type"))
	if status != http.StatusOK {
		if status >= 400 && a.Type == problemType {
			a.readProblem(text)
		}
		if a.verdict == undone && a.Code != "TRANSFER_NOT_FOUND" { // Such as an address where no such question can be asked.
			a.verdict = silent
		}
		return a
	}
	var g progress
	if a.Type != jsonType || decode(text, &g) != nil {
		return a
	}
	switch g.Status {
	case "posted":
		var p payment
		if decode(g.Payment, &p) != nil || p.TransferID == "" {
			return a
		}
		if body != nil && !isAbout(body, p) { // Under this key something else was paid: this payment never was, and never will be.
			a.verdict, a.TransferID = refused, ""
			a.Code, a.Title = "IDEMPOTENCY_KEY_REUSED", "Idempotency-Key was used for another payment"
			a.Detail = p.TransferID + " is the payment under this key, and has other content"
			return a
		}
		a.Status, a.Replayed, a.TransferID, a.verdict = http.StatusCreated, true, p.TransferID, done
		a.Body = append(bytes.Clone(g.Payment), '\n') // as the payment was answered
	case "refused":
		a.Status, a.Type = http.StatusUnprocessableEntity, problemType
		a.Body = append(bytes.Clone(g.Payment), '\n')
		a.readProblem(a.Body)
		if a.verdict != refused {
			a.verdict = silent
		}
	}
	return a
}

// decode reads one JSON value with nothing after it: half an answer is none.
func decode(data []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the value")
	}
	return nil
}

// retryAfter reads Retry-After: seconds, or a date, which is compared with the server's own clock where it tells it.
func retryAfter(h http.Header, now time.Time) time.Duration {
	text := h.Get("Retry-After")
	if seconds, err := strconv.ParseUint(text, 10, 64); err == nil {
		return max(time.Duration(min(seconds, math.MaxInt64/uint64(time.Second)))*time.Second, soon) //nolint:gosec // It is bounded.
	} else if errors.Is(err, strconv.ErrRange) {
		return math.MaxInt64
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		now = date
	}
	return max(at.Sub(now), soon)
}

// soon is a Retry-After that says "now", or a time that has passed. It is there all the same, and the least that counts is a second.
const soon = time.Nanosecond
