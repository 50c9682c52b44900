package auth

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// key is a public key that verifies user tokens, by one algorithm.
type key struct {
	// id is its kid. One without may be that of any token.
	id        string
	algorithm jose.SignatureAlgorithm
	public    crypto.PublicKey
}

const (
	// fileFresh and urlFresh are after how long keys in use are read again, so that one that was taken out is forgotten.
	fileFresh, urlFresh = 5 * time.Second, 5 * time.Minute
	// keysLimit is for how long keys are believed whose source cannot be read.
	keysLimit = time.Hour
	// maxAnswer is the most bytes that are read of anything that a provider answers.
	maxAnswer  = 1 << 20
	maxKeys    = 100
	minRSABits = 2048
)

// keysPause is between two readings: key ids that somebody makes up do not become a flood of requests to the provider.
var keysPause = 5 * time.Second

// keySource gives the function that reads keys from where a configuration says, and whether that is far away.
func keySource(where string) (load func(context.Context) ([]key, error), remote bool, err error) {
	if !strings.Contains(where, "://") {
		return func(context.Context) ([]key, error) {
			text, err := os.ReadFile(where)
			if err != nil {
				return nil, err
			}
			return parseKeys(text)
		}, false, nil
	}
	at, err := url.Parse(where)
	if err != nil {
		return nil, false, fmt.Errorf("the URL of the keys: %w", err)
	}
	if !fetchable(at) {
		return nil, false, fmt.Errorf("the URL of the keys is %s: want https, or whoever is on the way chooses the keys", where)
	}
	client := fetchingClient()
	return func(ctx context.Context) ([]key, error) { return fetchKeys(ctx, client, where) }, true, nil
}

// fetchingClient fetches what a provider publishes, and follows it nowhere that is not fetchable.
func fetchingClient() *http.Client {
	return &http.Client{Timeout: loadPatience, CheckRedirect: func(req *http.Request, via []*http.Request) error {
		if !fetchableFrom(via[0].URL, req.URL) || len(via) > 3 {
			return fmt.Errorf("redirected to %s", req.URL)
		}
		return nil
	}}
}

// fetchable reports whether keys may be fetched from a URL: over TLS, or without leaving this machine.
func fetchable(at *url.URL) bool {
	ip := net.ParseIP(at.Hostname())
	return at.Scheme == "https" || at.Scheme == "http" && ip != nil && ip.IsLoopback()
}

// fetchableFrom reports whether what a provider names may be fetched. One that is elsewhere has nothing to say about what is on this machine, where many
// a service believes whoever comes from it.
func fetchableFrom(provider, at *url.URL) bool {
	return fetchable(at) && (at.Scheme == "https" || provider.Scheme != "https")
}

func fetchKeys(ctx context.Context, client *http.Client, where string) ([]key, error) {
	text, err := fetch(ctx, client, where)
	if err != nil {
		return nil, err
	}
	return parseKeys(text)
}

func fetch(ctx context.Context, client *http.Client, where string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", where, resp.Status)
	}
	text, err := readAnswer(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", where, err)
	}
	return text, nil
}

// readAnswer reads all of an answer, which is no endless one.
func readAnswer(body io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer+1))
	if err == nil && len(text) > maxAnswer {
		err = fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return text, err
}

// parseKeys reads PEM blocks or a JWK set. Keys of a set that are for something else are left out.
func parseKeys(text []byte) ([]key, error) {
	var keys []key
	var err error
	if block, _ := pem.Decode(text); block != nil {
		keys, err = parsePEM(text)
	} else {
		keys, err = parseSet(text)
	}
	switch {
	case err != nil:
		return nil, err
	case len(keys) == 0:
		return nil, errors.New("there is no key for RS256 (2,048 bits at least), ES256 (P-256) or EdDSA (Ed25519) in it")
	case len(keys) > maxKeys:
		return nil, fmt.Errorf("there are %d keys in it, at most %d are looked at", len(keys), maxKeys)
	}
	return keys, nil
}

func parsePEM(text []byte) ([]key, error) {
	var keys []key
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return keys, nil
		}
		var public crypto.PublicKey
		switch block.Type {
		case "PUBLIC KEY":
			var err error
			if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
				return nil, err
			}
		case "CERTIFICATE":
			cert, err := x509.ParseCertificate(block.Bytes)
			if err != nil {
				return nil, err
			}
			public = cert.PublicKey
		default:
			return nil, fmt.Errorf("a PEM block %q: want PUBLIC KEY or CERTIFICATE", block.Type)
		}
		algorithm, ok := algorithmOf(public)
		if !ok {
			return nil, errors.New("a PEM block is no key for RS256 (2,048 bits at least), ES256 (P-256) or EdDSA (Ed25519)")
		}
		keys = append(keys, key{algorithm: algorithm, public: public})
	}
}

func parseSet(text []byte) ([]key, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("neither PEM nor a JWK set: %w", err)
	}
	var keys []key
	for _, text := range set.Keys {
		var k jose.JSONWebKey
		if k.UnmarshalJSON(text) != nil || k.Use != "" && k.Use != "sig" {
			continue
		}
		if _, secret := k.Key.([]byte); secret {
			continue
		}
		if !k.IsPublic() {
			return nil, fmt.Errorf("key %q is a private one: only the issuer should have it", k.KeyID)
		}
		if algorithm, ok := algorithmOf(k.Key); ok && (k.Algorithm == "" || k.Algorithm == string(algorithm)) {
			keys = append(keys, key{id: k.KeyID, algorithm: algorithm, public: k.Key})
		}
	}
	return keys, nil
}

// algorithmOf is the one algorithm that a key is used with, whatever a token says.
func algorithmOf(public crypto.PublicKey) (jose.SignatureAlgorithm, bool) {
	switch k := public.(type) {
	case *rsa.PublicKey:
		return jose.RS256, k.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return jose.ES256, k.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return jose.EdDSA, true
	}
	return "", false
}
