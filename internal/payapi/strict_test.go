package payapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// A body that is accepted says the same to a reader that keeps names as they are and takes the first of two: no other server, proxy or
// auditor reads another payment in it.
func FuzzReadBody(f *testing.F) {
	for _, body := range []string{
		`{"from":"wallet:shimul","to":"wallet:tithi","amount":"500.00","currency":"BDT","note":"coaching"}`,
		` { "amount" : "1" , "\u006eote" : "\ud83d\ude42 \ufffd" } `, `{"amount":"1","amount":"2"}`, `{"amount":"1","AMOUNT":"2"}`, `{"amount":null}`,
		`{"amount":"1"}x`, `{"amount":"1"}{}`, `{"note":"\ud83d"}`, "{\"note\":\"\xff\"}", `{"note":{"a":1,"a":2}}`, `[]`, `null`, ``, `{"amount":["1"]}`,
	} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := httptest.NewRequest("POST", "/v1/transfers", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		var c transferCommand
		err := readBody(httptest.NewRecorder(), r, &c)
		if err != nil {
			if p := asProblem(err); p.Status != 400 && p.Status != 413 {
				t.Fatalf("%+v", p)
			}
			return
		}
		d := json.NewDecoder(strings.NewReader(body))
		first := map[string]string{}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				t.Fatal(err)
			}
			var value string
			if err := d.Decode(&value); err != nil {
				t.Fatalf("a value that is no string was accepted: %v", err)
			}
			if _, there := first[name.(string)]; !there { //nolint:forcetypeassert // Names are strings.
				first[name.(string)] = value //nolint:forcetypeassert // as above
			}
		}
		want := transferCommand{From: first["from"], To: first["to"], Amount: first["amount"], Currency: first["currency"], Note: first["note"]}
		if c != want {
			t.Errorf("%q: %+v, others read %+v", body, c, want)
		}
		for _, name := range []string{"from", "to", "amount", "currency", "note"} {
			delete(first, name)
		}
		if len(first) > 0 {
			t.Errorf("%q: unknown fields were accepted: %v", body, first)
		}
	})
}
