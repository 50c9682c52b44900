package payclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// record is what the disk knows of a payment. Its file is a line with the format and a checksum of the rest, and the rest as JSON.
type record struct {
	Key       string `json:"key"`
	Reference string `json:"reference,omitempty"`
	User      string `json:"user"`
	Server    string `json:"server"`
	Method    string `json:"method"`
	Path      string `json:"path"`
	Body      []byte `json:"body"` // what is sent, byte for byte
	BodyHash  string `json:"body_sha256"`

	State       State     `json:"state"`
	CreatedAt   time.Time `json:"created_at"`
	FirstSentAt time.Time `json:"first_sent_at,omitzero"`
	UpdatedAt   time.Time `json:"updated_at"`
	FinishedAt  time.Time `json:"finished_at,omitzero"`
	// Elapsed is what is known to have passed since the first sending. It only grows, whatever the clock does.
	Elapsed time.Duration `json:"elapsed_ns"`
	// Attempts counts tries, of which Unanswered have no answer that says what they did. It is written before the try, as if that one had none.
	Attempts   int `json:"attempts"`
	Sent       int `json:"sent"`
	Unanswered int `json:"unanswered"`
	// Paused is whether the last answer asked for another token.
	Paused bool `json:"paused,omitempty"`

	TransferID string  `json:"transfer_id,omitempty"`
	Replayed   bool    `json:"replayed,omitempty"`
	Answer     *answer `json:"answer,omitempty"` // the last one
}

const (
	recordFormat = "khata-payment 1 sha256:"
	hashLength   = 2 * sha256.Size
)

func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (r *record) encode() []byte {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil { // There is nothing in it that JSON does not have.
		panic(err)
	}
	text = append(text, '\n')
	return append([]byte(recordFormat+hash(text)+"\n"), text...)
}

// decodeRecord reads a record, and believes nothing that is not whole.
func decodeRecord(data []byte) (*record, error) {
	rest, ok := bytes.CutPrefix(data, []byte(recordFormat))
	if !ok || len(rest) < hashLength+1 || rest[hashLength] != '\n' {
		return nil, errors.New("it does not begin as a record does")
	}
	sum, text := string(rest[:hashLength]), rest[hashLength+1:]
	if hash(text) != sum {
		return nil, errors.New("its checksum is wrong")
	}
	r := new(record)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, err
	}
	switch r.State {
	case Pending, InFlight, Done, Rejected, Unknown:
	default:
		return nil, fmt.Errorf("its state is %q", r.State)
	}
	if !wellFormedKey.MatchString(r.Key) || r.Method != http.MethodPost || hash(r.Body) != r.BodyHash {
		return nil, errors.New("it is not the record of a payment")
	}
	return r, nil
}

// finish settles it.
func (r *record) finish(s State, a *answer, now time.Time) {
	r.State, r.FinishedAt, r.Answer, r.Paused = s, now, a, false
	if s.Final() {
		r.TransferID, r.Replayed, r.Unanswered = a.TransferID, a.Replayed, 0
	}
}

func (r *record) result() Result {
	out := Result{
		Key: r.Key, Reference: r.Reference, State: r.State, TransferID: r.TransferID, Replayed: r.Replayed, Attempts: r.Attempts, Sent: r.Sent,
		Ambiguous: r.Unanswered > 0, Paused: r.Paused, Method: r.Method, Path: r.Path, Request: bytes.Clone(r.Body), User: r.User, Server: r.Server,
		CreatedAt: r.CreatedAt, FirstSentAt: r.FirstSentAt,
	}
	if a := r.Answer; a != nil {
		out.Status, out.Code, out.Title, out.Detail, out.Body = a.Status, a.Code, a.Title, a.Detail, bytes.Clone(a.Body)
	}
	return out
}
