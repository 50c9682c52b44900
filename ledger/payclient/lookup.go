package payclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
)

// Lookup asks the server once what became of a key, whether or not the store knows it. Of a payment in the store, an answer that settles it is
// written; one that is settled already is given from disk, and nobody is asked. A 404 settles nothing: its Result has the Status and Code of it,
// and a State of InFlight, Pending or Unknown as before. Of a key that is not in the store the State is Done, Rejected or Unknown.
//
// It returns ErrOther; an error where the server gave no answer; and an *UnfinishedError that is ErrPaused where it wants another token.
func (c *Client) Lookup(ctx context.Context, key string) (Result, error) {
	if !wellFormedKey.MatchString(key) {
		return Result{}, fmt.Errorf("%w: %q is not a key", ErrInvalid, key)
	}
	name, r, err := c.store.find(key)
	if err != nil { // It may be among those that cannot be read: then the server is the only one to ask.
		return c.lookUpForeign(ctx, key)
	}
	unlock, err := c.store.disk.Lock(name)
	if errors.Is(err, errLocked) { // Whoever sends it will hear of it too.
		return c.ask(ctx, r, func(*answer, State) (Result, error) { return r.result(), nil })
	}
	if err != nil {
		return Result{}, err
	}
	defer unlock()
	if r, err = c.store.load(name); err != nil {
		return Result{}, err
	}
	s := c.takeUp(name, r)
	return c.ask(ctx, r, func(a *answer, to State) (Result, error) { return s.settle(to, a) })
}

func (c *Client) lookUpForeign(ctx context.Context, key string) (Result, error) {
	r := &record{Key: key, User: c.config.User, Server: c.config.URL, Method: http.MethodPost, State: Unknown}
	return c.ask(ctx, r, func(*answer, State) (Result, error) { return r.result(), nil })
}

// ask asks what became of a payment, and has an answer that settles it written by settle.
func (c *Client) ask(ctx context.Context, r *record, settle func(*answer, State) (Result, error)) (Result, error) {
	if err := c.mine(r); err != nil || r.State.Final() {
		return r.result(), err
	}
	token, err := c.config.Token(ctx)
	if err != nil {
		return r.result(), fmt.Errorf("get a token: %w", err)
	}
	o := c.look(ctx, r.Key, r.Body, token)
	if o.answer == nil {
		return r.result(), o.err
	}
	to := Done
	switch o.verdict {
	case done:
	case refused:
		to = Rejected
	case undone:
		told := *r
		told.Answer = o.answer
		return told.result(), nil
	case denied:
		return r.result(), &UnfinishedError{Key: r.Key, Paused: true, Cause: o.why()}
	default:
		return r.result(), o.why()
	}
	r.finish(to, o.answer, c.clock.wall().UTC())
	return settle(o.answer, to)
}
