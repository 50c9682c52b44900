package auth

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// cached keeps the whole of something small that is kept elsewhere, and reads it again when it is asked to. Reads are shared and at
// least pause apart, however many ask: whoever makes things up cannot make it read more.
type cached[T any] struct {
	what  string
	load  func(context.Context) (T, error)
	pause time.Duration
	log   *slog.Logger

	life context.Context
	end  context.CancelFunc
	wait sync.WaitGroup

	mu      sync.Mutex
	value   T
	asOf    time.Time // when the read of value began; zero before the first
	running *reading
	began   time.Time
}

// reading is a read under way.
type reading struct {
	done chan struct{}
	err  error // once done is closed
}

// loadPatience bounds one read.
const loadPatience = 5 * time.Second

func newCached[T any](what string, pause time.Duration, log *slog.Logger, load func(context.Context) (T, error)) *cached[T] {
	life, end := context.WithCancel(context.Background())
	return &cached[T]{what: what, load: load, pause: pause, log: log, life: life, end: end}
}

func (c *cached[T]) close() {
	c.end()
	c.wait.Wait()
}

// get gives the value, and since when it is known, if it is at most limit old; otherwise it waits until it is read. One older than
// soon is read again meanwhile.
func (c *cached[T]) get(ctx context.Context, soon, limit time.Duration) (T, time.Time, error) {
	c.mu.Lock()
	value, asOf := c.value, c.asOf
	age := time.Since(asOf)
	if age > soon {
		c.start()
	}
	c.mu.Unlock()
	if age <= limit {
		return value, asOf, nil
	}
	return c.since(ctx, time.Now().Add(-limit))
}

// since gives the value as it was at a time or later, and waits for it.
func (c *cached[T]) since(ctx context.Context, moment time.Time) (T, time.Time, error) {
	for {
		c.mu.Lock()
		if !c.asOf.Before(moment) {
			defer c.mu.Unlock()
			return c.value, c.asOf, nil
		}
		running := c.start()
		c.mu.Unlock()
		var none T
		select {
		case <-running.done:
			if running.err != nil {
				return none, time.Time{}, running.err
			}
		case <-ctx.Done():
			return none, time.Time{}, ctx.Err()
		}
	}
}

// start begins a read, or joins the one under way. c.mu is held.
func (c *cached[T]) start() *reading {
	if c.running != nil {
		return c.running
	}
	running := &reading{done: make(chan struct{})}
	if running.err = c.life.Err(); running.err != nil {
		close(running.done)
		return running
	}
	c.running = running
	early := c.pause - time.Since(c.began)
	c.wait.Go(func() {
		defer close(running.done)
		if early > 0 {
			select {
			case <-time.After(early):
			case <-c.life.Done():
			}
		}
		began := time.Now()
		ctx, cancel := context.WithTimeout(c.life, loadPatience)
		defer cancel()
		value, err := c.load(ctx)
		if err != nil && c.life.Err() == nil {
			c.log.Warn("cannot read "+c.what, "error", err)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.running, c.began = nil, began
		if running.err = err; err == nil {
			c.value, c.asOf = value, began
		}
	})
	return running
}
