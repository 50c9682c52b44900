package payclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// A vector is a story of a payment, which any client of the API can be held against. docs/client-protocol.md describes the format.
type vector struct {
	Title   string        `json:"title"`
	Payment vectorPayment `json:"payment"`
	Store   *vectorRecord `json:"store"`
	Runs    []vectorRun   `json:"runs"`
}

type vectorPayment struct {
	Path      string          `json:"path"`
	Reference string          `json:"reference"`
	Body      json.RawMessage `json:"body"`
}

type vectorRecord struct {
	Key          string          `json:"key"`
	State        payclient.State `json:"state"`
	Body         string          `json:"body"`
	CreatedAgo   float64         `json:"created_ago"`
	FirstSentAgo *float64        `json:"first_sent_ago"`
	UpdatedAgo   float64         `json:"updated_ago"`
	Elapsed      float64         `json:"elapsed"`
	Attempts     int             `json:"attempts"`
	Unanswered   int             `json:"unanswered"`
}

type vectorRun struct {
	Do       string          `json:"do"`
	Body     json.RawMessage `json:"body"`
	Away     float64         `json:"away"`
	Clock    float64         `json:"clock"`
	Requests []vectorRequest `json:"requests"`
	End      *vectorEnd      `json:"end"`
}

type vectorRequest struct {
	Expect struct {
		Method string `json:"method"`
		Path   string `json:"path"`
	} `json:"expect"`
	Wait      []float64     `json:"wait"`
	At        []float64     `json:"at"`
	Takes     float64       `json:"takes"`
	Answer    *vectorAnswer `json:"answer"`
	Half      bool          `json:"half"`
	Drop      string        `json:"drop"`
	Crash     string        `json:"crash"`
	Stop      bool          `json:"stop"`
	ClockStep float64       `json:"clock_step"`
	Repeat    bool          `json:"repeat"`
	Server    bool          `json:"server"`
	Executed  bool          `json:"executed"`
}

type vectorAnswer struct {
	Status  int               `json:"status"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
}

type vectorEnd struct {
	Outcome    string          `json:"outcome"`
	State      payclient.State `json:"state"`
	TransferID *string         `json:"transfer_id"`
	Replayed   *bool           `json:"replayed"`
	Ambiguous  *bool           `json:"ambiguous"`
	Attempts   *int            `json:"attempts"`
	Code       *string         `json:"code"`
}

func readVectors(t *testing.T) map[string]vector {
	t.Helper()
	files, err := filepath.Glob("testdata/vectors/*.json")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d vectors: %v", len(files), err)
	}
	vectors := map[string]vector{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		dec := json.NewDecoder(bytes.NewReader(text))
		dec.DisallowUnknownFields()
		var v vector
		if err := dec.Decode(&v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		vectors[strings.TrimSuffix(filepath.Base(file), ".json")] = v
	}
	return vectors
}

// stage is where a vector is played: a clock that only moves when it is waited or a request takes its time, a disk in memory, and a road that
// follows the script.
type stage struct {
	t      *testing.T
	vector vector
	disk   *memory
	chance float64
	real   http.Handler // nil: the script's answers

	passed  time.Duration // true time
	offset  time.Duration // of the wall clock from it
	first   time.Duration // when the first request was sent
	left    time.Duration // when the last exchange was over
	process *mortal
	cancel  context.CancelFunc

	script  []vectorRequest
	repeats int // of script[0]
	key     string
	sent    string // the bytes
}

var dawn = time.Date(2026, 11, 29, 22, 0, 0, 0, time.UTC)

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (s *stage) clock() *payclient.FakeClock {
	return &payclient.FakeClock{
		Wall:   func() time.Time { return dawn.Add(s.passed + s.offset) },
		Since:  func() time.Duration { return s.passed },
		Chance: func() float64 { return s.chance },
		Sleep: func(ctx context.Context, d time.Duration) error {
			if ctx.Err() == nil {
				s.passed += d
			}
			return ctx.Err()
		},
	}
}

// RoundTrip is the road.
func (s *stage) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	s.check(r, string(body))
	if len(s.script) == 0 {
		s.t.Errorf("a request too many: %s %s", r.Method, r.URL)
		s.cancel()
		return nil, errDead
	}
	step := s.script[0]
	if !step.Repeat {
		s.script = s.script[1:]
	}
	s.repeats++
	s.passed += seconds(step.Takes)
	s.offset += seconds(step.ClockStep)
	defer func() { s.left = s.passed }()
	if step.Stop {
		defer s.cancel()
	}
	if step.Crash != "" {
		if step.Crash == "after" {
			s.execute(r, body)
		}
		s.process.die()
		s.cancel()
		return nil, errDead
	}
	answer := step.Answer
	executes := step.Server || step.Executed || step.Half || step.Drop == "after"
	if executes && s.real != nil {
		got := s.execute(r, body)
		if step.Server {
			s.compare(step.Answer, got)
			answer = got
		}
	}
	if step.Drop != "" {
		return nil, errors.New("the connection is lost")
	}
	return respond(answer, step.Half), nil
}

// check holds a request against the script.
func (s *stage) check(r *http.Request, body string) {
	s.t.Helper()
	// A repeated step ends when the client does what comes after it.
	if len(s.script) > 1 && s.script[0].Repeat && s.script[0].Expect.Method != r.Method {
		if s.repeats < 10 {
			s.t.Errorf("the client gave up after %d tries", s.repeats)
		}
		s.script, s.repeats = s.script[1:], 0
	}
	if len(s.script) == 0 {
		return
	}
	step := s.script[0]
	path := strings.ReplaceAll(step.Expect.Path, "{key}", s.key)
	if r.Method != step.Expect.Method || r.URL.Path != path {
		s.t.Errorf("%s %s, want %s %s", r.Method, r.URL.Path, step.Expect.Method, path)
	}
	if token := r.Header.Get("Authorization"); token != "Bearer sandbox-shimul" {
		s.t.Errorf("the token is %q", token)
	}
	s.within("waited", s.passed-s.left, step.Wait)
	if s.first < 0 {
		s.first = s.passed
	}
	s.within("since the first sending", s.passed-s.first, step.At)
	if r.Method != http.MethodPost {
		return
	}
	key := r.Header.Get("Idempotency-Key")
	if s.key == "" {
		s.key, s.sent = key, body
		if !sameJSON(s.t, body, string(s.vector.Payment.Body)) {
			s.t.Errorf("sent %s", body)
		}
	}
	if key != s.key || body != s.sent || len(key) < 16 || len(r.Header.Values("Idempotency-Key")) != 1 {
		s.t.Errorf("key %s and %s, want %s and %s", key, body, s.key, s.sent)
	}
	if r.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("headers %v", r.Header)
	}
}

func (s *stage) within(what string, got time.Duration, bounds []float64) {
	s.t.Helper()
	const slack = time.Millisecond
	if bounds != nil && (got < seconds(bounds[0])-slack || got > seconds(bounds[1])+slack) {
		s.t.Errorf("%s %s, want %v seconds", what, got, bounds)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y map[string]any
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Error(err)
	}
	for _, m := range []map[string]any{x, y} { // 500.0 and 500.00 are equal.
		if text, ok := m["amount"].(string); ok {
			m["amount"] = decimal.RequireFromString(text).String()
		}
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// execute has the real server do what is asked for, if there is one.
func (s *stage) execute(r *http.Request, body []byte) *vectorAnswer {
	if s.real == nil {
		return nil
	}
	w := httptest.NewRecorder()
	again := httptest.NewRequestWithContext(context.Background(), r.Method, r.URL.RequestURI(), bytes.NewReader(body))
	again.Header = r.Header.Clone()
	s.real.ServeHTTP(w, again)
	a := &vectorAnswer{Status: w.Code, Headers: map[string]string{}, Body: w.Body.String()}
	for name := range w.Header() {
		a.Headers[name] = w.Header().Get(name)
	}
	return a
}

// compare holds what the real server says against the script's answer: all but the numbers and times of payments.
func (s *stage) compare(want, got *vectorAnswer) {
	s.t.Helper()
	var x, y struct {
		Code, Amount, Status string
		Payment              struct{ Code, Amount string }
	}
	read := func(a *vectorAnswer, into any) {
		var m map[string]any
		if err := json.Unmarshal([]byte(a.Body), &m); err != nil {
			s.t.Errorf("%v: %s", err, a.Body)
		}
		if _, isNumber := m["status"].(float64); isNumber {
			delete(m, "status")
		}
		text, _ := json.Marshal(m)
		if err := json.Unmarshal(text, into); err != nil {
			s.t.Error(err)
		}
	}
	read(want, &x)
	read(got, &y)
	if want.Status != got.Status || x != y {
		s.t.Errorf("the real server answers %d %s, and the vector %d %s", got.Status, got.Body, want.Status, want.Body)
	}
	for _, name := range []string{"Content-Type", "Idempotent-Replayed"} {
		if want.Headers[name] != got.Headers[name] {
			s.t.Errorf("%s of the real server is %q, and of the vector %q", name, got.Headers[name], want.Headers[name])
		}
	}
}

func respond(a *vectorAnswer, half bool) *http.Response {
	body, length := io.Reader(strings.NewReader(a.Body)), int64(len(a.Body))
	if half {
		body = io.MultiReader(strings.NewReader(a.Body[:len(a.Body)/2]), broken{})
	}
	r := &http.Response{StatusCode: a.Status, Header: http.Header{}, Body: io.NopCloser(body), ContentLength: length, ProtoMajor: 1, ProtoMinor: 1}
	for name, value := range a.Headers {
		r.Header.Set(name, value)
	}
	return r
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// play plays a vector.
func (s *stage) play() {
	s.first = -1
	if r := s.vector.Store; r != nil {
		s.put(r)
	}
	for i, run := range s.vector.Runs {
		s.passed += seconds(run.Away)
		s.offset, s.left, s.script, s.repeats = seconds(run.Clock), s.passed, run.Requests, 0
		if i > 0 {
			s.disk.restart(false, nil)
		}
		s.run(run)
		if left := len(s.script); left > 0 && !s.script[0].Repeat {
			s.t.Errorf("run %d: %d requests were not made", i+1, left)
		}
	}
}

func (s *stage) put(r *vectorRecord) {
	ago := func(x float64) time.Time { return dawn.Add(-seconds(x)) }
	stored := &payclient.Record{
		Key: r.Key, Reference: s.vector.Payment.Reference, User: "shimul", Server: "https://pay.example", Method: http.MethodPost,
		Path: s.vector.Payment.Path, Body: []byte(r.Body), State: r.State, CreatedAt: ago(r.CreatedAgo), UpdatedAt: ago(r.UpdatedAgo),
		Elapsed: seconds(r.Elapsed), Attempts: r.Attempts, Sent: r.Attempts, Unanswered: r.Unanswered,
	}
	if r.FirstSentAgo != nil {
		stored.FirstSentAt = ago(*r.FirstSentAgo)
		s.first = -seconds(*r.FirstSentAgo)
	}
	if err := payclient.Save(s.disk, stored); err != nil {
		s.t.Fatal(err)
	}
	s.key, s.sent = r.Key, r.Body
}

func (s *stage) run(run vectorRun) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	s.cancel, s.process = cancel, newMortal(s.disk, nil)
	c, err := payclient.Open(payclient.Config{
		URL: "https://pay.example", Dir: "memory", User: "shimul", Token: tokenOf("shimul"), Transport: s,
	}, s.process, s.clock())
	if err != nil {
		s.t.Fatal(err)
	}
	var result payclient.Result
	found := run.Do != "resume"
	switch run.Do {
	case "pay":
		body := s.vector.Payment.Body
		if run.Body != nil {
			body = run.Body
		}
		result, err = c.Pay(ctx, requestOf(s.t, s.vector.Payment.Path, body), payclient.Reference(s.vector.Payment.Reference))
	case "resume":
		for r, e := range c.Resume(ctx) {
			result, err, found = r, e, true
		}
	case "lookup":
		result, err = c.Lookup(ctx, s.key)
	default:
		s.t.Fatalf("there is no %q", run.Do)
	}
	if !found || run.End == nil {
		if found != (run.End != nil) {
			s.t.Errorf("there is something to resume: %v; and there is to be: %v", found, run.End != nil)
		}
		return
	}
	s.end(run.End, result, err)
}

func requestOf(t *testing.T, path string, body []byte) payclient.Request {
	t.Helper()
	var err error
	var request payclient.Request
	switch path {
	case "/v1/transfers":
		var r payclient.Transfer
		err = json.Unmarshal(body, &r)
		request = r
	case "/v1/refunds":
		var r payclient.Refund
		err = json.Unmarshal(body, &r)
		request = r
	case "/v1/cash-ins":
		var r payclient.CashIn
		err = json.Unmarshal(body, &r)
		request = r
	}
	if err != nil || request == nil {
		t.Fatalf("%s: %v", path, err)
	}
	return request
}

func (s *stage) end(want *vectorEnd, r payclient.Result, err error) {
	s.t.Helper()
	outcome := "settled"
	switch {
	case s.process.dead():
		outcome = "crashed"
	case errors.Is(err, payclient.ErrPaused):
		outcome = "paused"
	case errors.Is(err, payclient.ErrUnfinished):
		outcome = "unfinished"
	case errors.Is(err, payclient.ErrReferenceTaken):
		outcome = "taken"
	case err != nil:
		s.t.Errorf("end: %v", err)
	}
	if outcome != want.Outcome {
		s.t.Errorf("outcome %s, want %s: %v %v", outcome, want.Outcome, r.State, err)
	}
	if outcome == "crashed" || outcome == "taken" {
		return
	}
	if r.State != want.State || r.Key != s.key || string(r.Request) != s.sent {
		s.t.Errorf("%s %s, want %s %s", r.State, r.Key, want.State, s.key)
	}
	if want.TransferID != nil && r.TransferID != *want.TransferID && (s.real == nil || (r.TransferID == "") != (*want.TransferID == "")) {
		s.t.Errorf("transfer %q, want %q", r.TransferID, *want.TransferID)
	}
	for _, c := range []struct{ got, want any }{
		{r.Replayed, deref(want.Replayed)}, {r.Ambiguous, deref(want.Ambiguous)}, {r.Attempts, deref(want.Attempts)}, {r.Code, deref(want.Code)},
	} {
		if c.want != nil && c.got != c.want {
			s.t.Errorf("got %v, want %v: %+v", c.got, c.want, r)
		}
	}
}

func deref[T any](p *T) any {
	if p == nil {
		return nil
	}
	return *p
}

// The vectors are true of this client, with the least and with the most that chance can give.
func TestVectors(t *testing.T) {
	t.Parallel()
	for name, v := range readVectors(t) {
		for _, chance := range []float64{0, 0.37, 0.9999999} {
			t.Run(fmt.Sprintf("%s/%.2g", name, chance), func(t *testing.T) {
				(&stage{t: t, vector: v, disk: newMemory(), chance: chance}).play()
			})
		}
	}
}

// They are true of the real server too: what a vector says that the server answers, it answers, and what is lost on the road is executed or
// not as it says.
func TestVectors_RealServer(t *testing.T) {
	t.Parallel()
	s := setup(t, 50_000)
	played := 0
	for name, v := range readVectors(t) {
		if v.Payment.Path == "/v1/cash-ins" || name == "refund" { // Their numbers are in the scripts.
			continue
		}
		t.Run(name, func(t *testing.T) {
			(&stage{t: t, vector: v, disk: newMemory(), chance: 0.5, real: s}).play()
		})
		played++
	}
	if played < 40 {
		t.Errorf("%d vectors were played", played)
	}
	executed := map[string]bool{}
	for _, r := range s.received() {
		executed[r.key] = true
	}
	if len(executed) < 30 {
		t.Errorf("the real server has seen %d keys", len(executed))
	}
}
