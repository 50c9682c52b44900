package sms

import (
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
)

const pageStyle = `body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:44rem;padding:0 1rem;color:#1c1c1c;background:#fafafa}
h2{margin:2rem 0 .5rem;font-size:1.1rem}ul{list-style:none;margin:0;padding:0}
li{background:#fff;border:1px solid #ddd;border-radius:.75rem;padding:.6rem .9rem;margin:.5rem 0}
p{margin:0}small{color:#666}`

// pagePolicy lets the page do nothing but look like this.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) +
		"'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

var pageTemplate = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta http-equiv="refresh" content="3">
<title>Messages</title><style>` + pageStyle + `</style></head><body>
<h1>Messages</h1>
<p>The sandbox of text messages. No phone gets them.</p>
{{range .}}<h2>{{.Phone}}</h2>
<ul>{{range .Messages}}<li><p>{{.Text}}</p><small>{{.At.Format "2006-01-02 15:04:05Z"}}, {{.ID}}{{if gt .Calls 1}}, asked for {{.Calls}} times{{end}}</small></li>
{{end}}</ul>
{{else}}<p>There are none yet.</p>
{{end}}</body></html>
`))

// sandboxPhone is a phone on the page.
type sandboxPhone struct {
	Phone    string
	Messages []SandboxMessage
}

// page shows the phones, the one with the newest message first, each with its messages, newest first.
func (g *SandboxGateway) page(w http.ResponseWriter, _ *http.Request) {
	list := g.Messages()
	var phones []*sandboxPhone
	byNumber := map[string]*sandboxPhone{}
	for _, m := range list[:min(len(list), sandboxShows)] {
		if byNumber[m.To] == nil {
			byNumber[m.To] = &sandboxPhone{Phone: m.To}
			phones = append(phones, byNumber[m.To])
		}
		byNumber[m.To].Messages = append(byNumber[m.To].Messages, m)
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_ = pageTemplate.Execute(w, phones) // The client may have gone.
}
