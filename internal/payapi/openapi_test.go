package payapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/payapi"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/pgtest"
)

// document is the contract, with every object closed: what a test is answered and the document does not say is an error.
var document = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData(payapi.OpenAPI)
	if err != nil {
		return nil, err
	}
	for _, s := range doc.Components.Schemas {
		if no := false; s.Value.Type.Is("object") {
			s.Value.AdditionalProperties = openapi3.BoolSchema{Has: &no}
		}
	}
	return doc, nil
})

// recorder holds what passes through it against the contract.
type recorder struct {
	t    testing.TB
	next http.Handler
}

// ServeHTTP implements http.Handler.
func (c recorder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var asked bytes.Buffer
	r.Body = struct {
		io.Reader
		io.Closer
	}{io.TeeReader(r.Body, &asked), r.Body}
	given := httptest.NewRecorder()
	c.next.ServeHTTP(given, r)
	header, body := given.Header().Clone(), given.Body.Bytes()
	if err := checkExchange(r, asked.Bytes(), given.Code, header, body); err != nil {
		c.t.Errorf("the contract: %s %s: %v\n%d %v\n%s", r.Method, r.URL, err, given.Code, header, body)
	}
	for name, values := range header {
		w.Header()[name] = values
	}
	w.WriteHeader(given.Code)
	_, _ = w.Write(body)
}

// checkExchange holds one request and its answer against the contract. A request that is not as it should be must not be accepted.
func checkExchange(r *http.Request, asked []byte, status int, header http.Header, body []byte) error {
	doc, err := document()
	if err != nil {
		return err
	}
	method, path, ok := strings.Cut(r.Pattern, " ")
	if !ok { // One of the answers to what is not in the contract.
		if status == http.StatusNoContent && r.Method == http.MethodOptions {
			return nil
		}
		if got := header.Get("Content-Type"); got != "application/problem+json" {
			return fmt.Errorf("Content-Type: %s", got)
		}
		value, err := decode(body)
		if err != nil {
			return err
		}
		return doc.Components.Schemas["Problem"].Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
	}
	item := doc.Paths.Value(path)
	if item == nil || item.GetOperation(method) == nil {
		return fmt.Errorf("the document does not have %s", r.Pattern)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: r.Clone(context.Background()), PathParams: map[string]string{}, QueryParams: r.URL.Query(),
		Route:   &routers.Route{Spec: doc, Server: doc.Servers[0], Path: path, PathItem: item, Method: method, Operation: item.GetOperation(method)},
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true},
	}
	for _, p := range regexp.MustCompile(`\{(\w+)\}`).FindAllStringSubmatch(path, -1) {
		input.PathParams[p[1]] = r.PathValue(p[1])
	}
	input.Request.Body = io.NopCloser(bytes.NewReader(asked))
	if status < 400 {
		if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
			return fmt.Errorf("the request was accepted: %w", err)
		}
	}
	out := &openapi3filter.ResponseValidationInput{RequestValidationInput: input, Status: status, Header: header, Options: input.Options}
	if r.Method == http.MethodHead {
		return nil // The recorder has the body, and the client does not get it.
	}
	if err := openapi3filter.ValidateResponse(context.Background(), out.SetBodyBytes(body)); err != nil {
		return err
	}
	// What the document does not say of an answer is not sent either.
	response := item.GetOperation(method).Responses.Status(status).Value
	for _, name := range []string{"Location", "Idempotent-Replayed", "Retry-After", "WWW-Authenticate"} {
		if _, said := response.Headers[name]; header.Get(name) != "" && !said {
			return fmt.Errorf("the document does not have the header %s of %d", name, status)
		}
	}
	return nil
}

func decode(body []byte) (value any, err error) {
	return openapi3filter.JSONBodyDecoder(bytes.NewReader(body), nil, nil, nil)
}

// The document is OpenAPI 3.1 by its own rules, examples included, and is served to everyone.
func TestOpenAPI_Valid(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromData(payapi.OpenAPI)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context(), openapi3.EnableExamplesValidation(), openapi3.EnableSchemaFormatValidation()); err != nil {
		t.Error(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1.") {
		t.Errorf("it is of %s", doc.OpenAPI)
	}
	s := setup(t)
	if r := s.ask(t, "", "GET", "/v1/openapi.json", ""); r.status != 200 || r.body != string(payapi.OpenAPI) || r.kind != "application/json" {
		t.Errorf("%d %s", r.status, r.kind)
	}
}

// Every route is in the document, and nothing else is.
func TestOpenAPI_Routes(t *testing.T) {
	t.Parallel()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for path, item := range doc.Paths.Map() {
		for method := range item.Operations() {
			documented = append(documented, method+" "+path)
		}
	}
	slices.Sort(documented)
	db := pgtest.New(t)
	gateway, err := payapi.NewHTTPGateway("http://127.0.0.1:1", "none")
	if err != nil {
		t.Fatal(err)
	}
	s := serveCash(t, db, pg.Config{DSN: db.ServiceDSN()}, payapi.CashInConfig{Gateway: gateway})
	if d := cmp.Diff(s.api.Routes(), documented); d != "" {
		t.Errorf("routes and document: %s", d)
	}
}

// Every code that a problem may have is in the document and in the table for people.
func TestOpenAPI_Codes(t *testing.T) {
	t.Parallel()
	doc, err := document()
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, code := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		documented = append(documented, code.(string)) //nolint:forcetypeassert // a test
	}
	source, err := os.ReadFile("problem.go")
	if err != nil {
		t.Fatal(err)
	}
	codes := payapi.Codes()
	for _, m := range regexp.MustCompile(`(?m)^\tcode\w+ += "([A-Z_]+)"`).FindAllStringSubmatch(string(source), -1) {
		codes = append(codes, m[1])
	}
	slices.Sort(codes)
	slices.Sort(documented)
	if d := cmp.Diff(slices.Compact(codes), documented); d != "" {
		t.Errorf("codes and document: %s", d)
	}
	text, err := os.ReadFile("../../docs/payments.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, code := range documented {
		if !strings.Contains(string(text), "`"+code+"`") {
			t.Errorf("docs/payments.md does not tell of %s", code)
		}
	}
}

// The recorder finds what is wrong.
func TestOpenAPI_RecorderSees(t *testing.T) {
	t.Parallel()
	const good = `{"transfer_id":"TXN-5HYVSN3DDVNQSZ2DXW3ACUOGJM","from":"wallet:a","to":"wallet:b","amount":"500.00","currency":"BDT","posted_at":"2026-11-29T18:04:05.123456Z"}`
	const location = "/v1/transfers/TXN-5HYVSN3DDVNQSZ2DXW3ACUOGJM"
	for name, c := range map[string]struct {
		asked, key, answer, location string
		status                       int
		wrong                        string
	}{
		"good":               {payment("1"), "a-key-of-16-bytes", good, location, 201, ""},
		"unknown field":      {payment("1"), "a-key-of-16-bytes", strings.Replace(good, "{", `{"more":1,`, 1), location, 201, "more"},
		"missing field":      {payment("1"), "a-key-of-16-bytes", `{}`, location, 201, "required"},
		"a number":           {payment("1"), "a-key-of-16-bytes", strings.Replace(good, `"500.00"`, `500.00`, 1), location, 201, "amount"},
		"a field of two":     {payment("1"), "a-key-of-16-bytes", strings.Replace(good, "{", `{"reason":"goodwill",`, 1), location, 201, "original"},
		"another status":     {payment("1"), "a-key-of-16-bytes", good, location, 202, "status"},
		"wrong location":     {payment("1"), "a-key-of-16-bytes", good, "/elsewhere", 201, "Location"},
		"key was not needed": {payment("1"), "short", good, location, 201, "accepted"},
		"body was accepted":  {`{"amount":500}`, "a-key-of-16-bytes", good, location, 201, "accepted"},
	} {
		r := &http.Request{
			Method: "POST", Pattern: "POST /v1/transfers", URL: &url.URL{Path: "/v1/transfers"},
			Header: http.Header{"Idempotency-Key": {c.key}, "Content-Type": {"application/json"}},
		}
		err := checkExchange(r, []byte(c.asked), c.status, http.Header{"Content-Type": {"application/json"}, "Location": {c.location}}, []byte(c.answer))
		if (err == nil) != (c.wrong == "") || err != nil && !strings.Contains(err.Error(), c.wrong) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
