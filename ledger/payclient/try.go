package payclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
)

const (
	// maxAnswer bounds what is read of an answer; the server's have less than a kilobyte.
	maxAnswer  = 256 << 10
	lookupPath = "/v1/transfers/by-idempotency-key/"
)

// outcome is what a try has led to.
type outcome struct {
	*answer       // nil: none came
	sent    int   // how often the request went out, as far as is known
	left    bool  // whether any of it may have
	err     error // why no answer came
}

// try sends a payment once, and reads the answer. Go's transport may send it more often: it does when a connection that it has kept turns out
// to be broken, since the request has an Idempotency-Key and its body can be had again. That is fine, and counted.
func (c *Client) try(ctx context.Context, r *record, token string) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.config.TryTimeout)
	defer cancel()
	var sent atomic.Int64
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Add(1) }})
	// NewRequest sets GetBody of a bytes.Reader, which reads the stored bytes each time.
	req, err := http.NewRequestWithContext(traced, r.Method, r.Server+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return outcome{err: err}
	}
	req.Header.Set("Idempotency-Key", r.Key)
	req.Header.Set("Content-Type", jsonType)
	status, header, body, err := c.exchange(req, token)
	o := outcome{sent: int(sent.Load()), left: true, err: err}
	if err != nil {
		var dial *net.OpError
		o.left = !c.traced || o.sent > 0 || !errors.As(err, &dial) || dial.Op != "dial"
		return o
	}
	o.sent = max(o.sent, 1)
	o.answer = read(status, header, body, c.clock.wall())
	return o
}

// look asks what became of a key. body is what was asked for under it, or nil.
func (c *Client) look(ctx context.Context, key string, body []byte, token string) outcome {
	ctx, cancel := context.WithTimeout(ctx, c.config.TryTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.config.URL+lookupPath+url.PathEscape(key), nil)
	if err != nil {
		return outcome{err: err}
	}
	status, header, text, err := c.exchange(req, token)
	if err != nil {
		return outcome{err: err}
	}
	return outcome{answer: readLookup(status, header, text, body, c.clock.wall())}
}

// exchange sends a request and reads the whole of what comes back.
func (c *Client) exchange(req *http.Request, token string) (status int, header http.Header, body []byte, err error) {
	req.Header.Set("Authorization", "Bearer "+token)
	req.Header.Set("Accept", jsonType+", "+problemType)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, nil, fmt.Errorf("half an answer of status %d: %w", resp.StatusCode, err)
	case len(body) > maxAnswer:
		return 0, nil, nil, fmt.Errorf("an answer of status %d with more than %d bytes", resp.StatusCode, maxAnswer)
	}
	return resp.StatusCode, resp.Header, body, nil
}

// why says why an outcome settles nothing.
func (o outcome) why() error {
	switch {
	case o.answer == nil:
		return o.err
	case o.Code != "" && o.Detail != "":
		return fmt.Errorf("%d %s: %s", o.Status, o.Code, o.Detail)
	case o.Code != "":
		return fmt.Errorf("%d %s: %s", o.Status, o.Code, o.Title)
	}
	return fmt.Errorf("%d %s, which is no answer of the payment API", o.Status, http.StatusText(o.Status))
}
