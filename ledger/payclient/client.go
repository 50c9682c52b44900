package payclient

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config is what a Client is made of. URL, Dir and Token are required.
type Config struct {
	// URL is where the payment API is, without /v1: https://pay.example. Plain http is for loopback only: whoever reads a token can pay with it.
	URL string
	// Dir is the folder of the store, made if it is not there. See the package's own comment.
	Dir string
	// User names who pays, for the records: keys belong to users, so that a payment is only ever sent for the user that it was begun for. Any
	// name that stays the same, and never the token.
	User string
	// Token gives the token of the user, before each try. It is not stored and not logged. It must be safe for concurrent use; see ErrNoToken.
	Token func(context.Context) (string, error)
	// Transport sends. nil: the system's proxies and authorities, over HTTP/1.1 or HTTP/2.
	Transport http.RoundTripper
	// TLS is for the Transport that nil stands for.
	TLS *tls.Config
	// TryTimeout bounds one try. 0: 30 s, which is more than the server takes.
	TryTimeout time.Duration
	// Horizon is for how long from its first sending a payment is sent again. 0: DefaultHorizon; it may be less, and not more.
	Horizon time.Duration
	// RetryRate is how many tries again there may be in a second, over all payments. 0: 10.
	RetryRate int
	// Keep is for how long settled payments are kept, for callers who begin them again. 0: 30 days. Those that are not settled are kept until
	// Forget.
	Keep time.Duration
}

// Client sends payments, and keeps them in its store. It is safe for concurrent use, and needs no closing.
type Client struct {
	config Config
	store  store
	clock  clock
	budget *budget
	http   *http.Client
	// traced is whether the transport tells when a request goes out.
	traced bool
}

// New opens the store, and drops from it what is older than it has to be. It sends nothing: Resume does.
func New(config Config) (*Client, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	d, err := openFolder(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	return open(config, d, systemClock())
}

func open(config Config, d disk, c clock) (*Client, error) {
	if err := config.complete(); err != nil {
		return nil, err
	}
	_, traced := config.Transport.(*http.Transport)
	client := &Client{config: config, store: store{d}, clock: c, budget: newBudget(config.RetryRate), traced: traced}
	client.http = &http.Client{
		Transport: config.Transport,
		// A payment goes where it was meant to go. What answers with another address has not answered.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	if err := client.store.clean(); err != nil {
		return nil, fmt.Errorf("clean the store: %w", err)
	}
	return client, client.Prune()
}

func (c *Config) complete() error {
	for _, d := range []struct {
		to    *time.Duration
		value time.Duration
	}{{&c.TryTimeout, 30 * time.Second}, {&c.Horizon, DefaultHorizon}, {&c.Keep, 30 * 24 * time.Hour}} {
		if *d.to == 0 {
			*d.to = d.value
		}
	}
	if c.RetryRate == 0 {
		c.RetryRate = defaultRetryRate
	}
	switch {
	case c.Dir == "":
		return fmt.Errorf("%w: Dir is missing", ErrInvalid)
	case c.Token == nil:
		return fmt.Errorf("%w: Token is missing", ErrInvalid)
	case c.TryTimeout < 0 || c.RetryRate < 0 || c.Horizon < 0 || c.Horizon > DefaultHorizon:
		return fmt.Errorf("%w: a limit is negative, or the horizon more than %s", ErrInvalid, DefaultHorizon)
	case c.Keep < DefaultHorizon:
		return fmt.Errorf("%w: settled payments are kept for %s at least, for those who begin them again", ErrInvalid, DefaultHorizon)
	}
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // It is one, unless the program has replaced it.
		t.TLSClientConfig, t.DisableCompression = c.TLS, true
		c.Transport = t
	}
	return c.checkURL()
}

func (c *Config) checkURL() error {
	u, err := url.Parse(c.URL)
	if err != nil {
		return fmt.Errorf("%w: URL: %w", ErrInvalid, err)
	}
	local := u.Hostname() == "localhost" || net.ParseIP(u.Hostname()).IsLoopback()
	switch {
	case u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return fmt.Errorf("%w: URL: want an address such as https://pay.example", ErrInvalid)
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return fmt.Errorf("%w: URL: the token would go to %s in plain text: use https", ErrInvalid, u.Host)
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return nil
}

// Option is how a payment is begun.
type Option func(*options)

type options struct{ reference, key string }

// Reference is the caller's own name of the payment, such as the number of an order: to begin it again is to get the same payment again, as
// long as the store keeps it. It is unique in the store, also over users.
func Reference(name string) Option { return func(o *options) { o.reference = name } }

// Key is the payment's Idempotency-Key, of a caller who had to make it before: with a form, by NewKey. It serves as a reference too.
func Key(key string) Option { return func(o *options) { o.key = key } }

// Payment is one that has been begun.
type Payment struct {
	client *Client
	name   string
	begun  Result
}

// Key is the Idempotency-Key under which it is sent.
func (p *Payment) Key() string { return p.begun.Key }

// Result is how it stood when it was begun, or begun again.
func (p *Payment) Result() Result { return p.begun }

// Pay sends the payment until it is settled or ctx ends. See Client.Pay.
func (p *Payment) Pay(ctx context.Context) (Result, error) {
	return p.client.send(ctx, p.name, p.begun.Key, true)
}

// Begin makes a payment and puts it on disk. It sends nothing, but the decision to pay is made: when the process dies now, Resume sends it. With
// a Reference or Key that was begun before, it gives that payment, also if it is settled.
//
// It returns ErrInvalid, ErrReferenceTaken, ErrOther, ErrDamaged, the context's error, or the disk's; a payment that could not be begun is never
// sent.
func (c *Client) Begin(ctx context.Context, request Request, with ...Option) (*Payment, error) {
	path, body, err := encode(request)
	if err != nil {
		return nil, err
	}
	o, err := optionsOf(with)
	if err != nil {
		return nil, err
	}
	r := &record{
		Key: o.key, Reference: o.reference, User: c.config.User, Server: c.config.URL, Method: http.MethodPost, Path: path, Body: body,
		BodyHash: hash(body), State: Pending,
	}
	if r.Key == "" {
		r.Key = NewKey()
	}
	if o == (options{}) {
		o.key = r.Key
	}
	name := nameOf(o)
	found, err := c.beginOnce(ctx, name, r)
	if err != nil {
		return nil, err
	}
	if err := c.same(found, r); err != nil {
		return nil, err
	}
	return &Payment{c, name, found.result()}, nil
}

func optionsOf(with []Option) (options, error) {
	var o options
	for _, set := range with {
		set(&o)
	}
	switch {
	case o.reference != "" && o.key != "":
		return o, fmt.Errorf("%w: give a reference or a key: a key is a reference too", ErrInvalid)
	case o.key != "" && !wellFormedKey.MatchString(o.key):
		return o, fmt.Errorf("%w: a key has 16 to 255 characters of A-Z, a-z, 0-9 and ._:-", ErrInvalid)
	}
	return o, nil
}

// beginOnce gives the record of a name, or writes this one.
func (c *Client) beginOnce(ctx context.Context, name string, r *record) (*record, error) {
	// Who sends a payment has its lock for as long as it takes. That it is there can be seen without.
	if found, err := c.store.load(name); !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	unlock, err := c.store.lock(ctx, c.clock, name)
	if err != nil {
		return nil, fmt.Errorf("begin a payment: %w", err)
	}
	defer unlock()
	if found, err := c.store.load(name); !errors.Is(err, fs.ErrNotExist) {
		return found, err
	}
	r.CreatedAt = c.clock.wall().UTC()
	r.UpdatedAt = r.CreatedAt
	if err := c.store.add(name, r); err != nil {
		return nil, fmt.Errorf("begin a payment: %w", err)
	}
	return r, nil
}

// same checks that what was found is what is asked for.
func (c *Client) same(found, asked *record) error {
	if err := c.mine(found); err != nil {
		return err
	}
	if found.Path != asked.Path || !sameContent(found.Body, asked.Body) {
		return fmt.Errorf("%w: payment %s, which is %s", ErrReferenceTaken, found.Key, found.State)
	}
	return nil
}

// mine checks that a payment is for this client to send.
func (c *Client) mine(r *record) error {
	if r.User != c.config.User || r.Server != c.config.URL {
		return fmt.Errorf("%w: payment %s was begun for user %q at %s", ErrOther, r.Key, r.User, r.Server)
	}
	return nil
}

// Pay begins a payment and sends it until it is settled or ctx ends. The result of Done, Rejected and Unknown has no error. Otherwise there is
// an *UnfinishedError: the payment is on disk, and Pay again, or Resume, goes on with it. Errors of Begin are as they are there.
//
// Of a payment that is settled it gives the result that is on disk, and sends nothing.
func (c *Client) Pay(ctx context.Context, request Request, with ...Option) (Result, error) {
	p, err := c.Begin(ctx, request, with...)
	if err != nil {
		return Result{}, err
	}
	return p.Pay(ctx)
}

// Forget drops a payment from the store: one that was never sent, that is settled, that nothing was decided of, or that is Unknown and a person has
// settled otherwise. What may still be made it does not drop. It returns ErrNotFound, ErrBusy, or ErrUnfinished.
func (c *Client) Forget(key string) error {
	name, _, err := c.store.find(key)
	if err != nil {
		return err
	}
	unlock, err := c.store.disk.Lock(name)
	if errors.Is(err, errLocked) {
		return ErrBusy
	}
	if err != nil {
		return err
	}
	defer unlock()
	r, err := c.store.load(name)
	if err != nil {
		return err
	}
	if r.State == InFlight && r.Unanswered > 0 {
		return &UnfinishedError{Key: key, Cause: errors.New("the money may have moved")}
	}
	return c.store.drop(name)
}

// Prune drops what has been settled for longer than Config.Keep. New and Resume do it too. A clock that is wrong by weeks makes it drop too early
// or too late; what is not settled it never drops.
func (c *Client) Prune() error {
	if err := c.store.prune(c.clock.wall().Add(-c.config.Keep)); err != nil {
		return fmt.Errorf("prune the store: %w", err)
	}
	return nil
}
