package auth

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A provider that is elsewhere leads nobody to what is on this machine: neither by what it says of itself, nor by a redirect.
func TestOIDC_LeadsNowhereElse(t *testing.T) {
	t.Parallel()
	asked := 0
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.WriteHeader(http.StatusTeapot)
	}))
	defer inside.Close()
	for name, differs := range map[string]map[string]string{
		"its keys": {"jwks_uri": inside.URL}, "where codes go": {"token_endpoint": inside.URL}, "where people go": {"authorization_endpoint": inside.URL},
		"where they leave": {"end_session_endpoint": inside.URL}, "a redirect": {"jwks_uri": "/elsewhere"},
	} {
		var provider *httptest.Server
		provider = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/elsewhere" {
				http.Redirect(w, r, inside.URL, http.StatusFound)
				return
			}
			says := map[string]string{
				"issuer": provider.URL, "authorization_endpoint": provider.URL + "/a", "token_endpoint": provider.URL + "/t", "jwks_uri": provider.URL + "/k",
			}
			for key, value := range differs {
				if strings.HasPrefix(value, "/") {
					value = provider.URL + value
				}
				says[key] = value
			}
			_ = json.NewEncoder(w).Encode(says)
		}))
		client := provider.Client()
		client.CheckRedirect = fetchingClient().CheckRedirect
		p := &Provider{config: OIDCConfig{Issuer: provider.URL}}
		_, err := p.discover(t.Context(), client)
		if err == nil || !strings.Contains(err.Error(), "https") && !strings.Contains(err.Error(), "redirected to") {
			t.Errorf("%s: %v", name, err)
		}
		provider.Close()
	}
	if asked != 0 {
		t.Errorf("it was asked %d times", asked)
	}
}
