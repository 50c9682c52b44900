package payclient

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"slices"
	"sync"
)

// named is a record with its name.
type named struct {
	name string
	*record
}

// records reads all that can be read, the oldest first, and tells what cannot.
func (c *Client) records() (list []named, damaged []error) {
	names, err := c.store.names()
	if err != nil {
		return nil, []error{err}
	}
	for _, name := range names {
		switch r, err := c.store.load(name); {
		case err == nil:
			list = append(list, named{name, r})
		case !errors.Is(err, fs.ErrNotExist): // It may have been dropped meanwhile.
			damaged = append(damaged, err)
		}
	}
	slices.SortStableFunc(list, func(a, b named) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return list, damaged
}

// Payments lists what is in the store, of all users and servers, the oldest first. Records that cannot be read are in the error, which joins
// a *DamagedError for each; the others are in the list all the same.
func (c *Client) Payments() ([]Result, error) {
	list, damaged := c.records()
	results := make([]Result, 0, len(list))
	for _, n := range list {
		results = append(results, n.result())
	}
	return results, errors.Join(damaged...)
}

// atOnce is how many payments are resumed at a time; each has a file open.
const atOnce = 128

// resumed is what Resume gives.
type resumed struct {
	result Result
	err    error
}

// Resume goes on with all payments that are not settled, until ctx ends: call it when the process starts. It gives each as it comes to an
// end, with the error that Pay would return; those that are Unknown it looks up. Records that cannot be read come first, each a *DamagedError.
// Payments of other users and servers come as ErrOther, and are not touched. Whoever leaves the loop early stops the rest, which are kept.
func (c *Client) Resume(ctx context.Context) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		list, damaged := c.records()
		if err := c.Prune(); err != nil {
			damaged = append(damaged, err)
		}
		for _, err := range damaged {
			if !yield(Result{}, err) {
				return
			}
		}
		list = slices.DeleteFunc(list, func(n named) bool { return n.State.Final() })
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		gone := make(chan struct{})
		defer close(gone)
		results := c.resume(ctx, &wg, list, gone)
		for range list {
			if r := <-results; !yield(r.result, r.err) {
				return
			}
		}
	}
}

// resume starts those who send the payments of a list, until gone.
func (c *Client) resume(ctx context.Context, wg *sync.WaitGroup, list []named, gone <-chan struct{}) <-chan resumed {
	results, work := make(chan resumed), make(chan named)
	wg.Go(func() {
		defer close(work)
		for _, n := range list {
			select {
			case work <- n:
			case <-gone:
				return
			}
		}
	})
	for range min(atOnce, len(list)) {
		wg.Go(func() {
			for n := range work {
				r, err := c.send(ctx, n.name, n.Key, false)
				if r.Key == "" {
					r = n.result()
				}
				select {
				case results <- resumed{r, err}:
				case <-gone:
					return
				}
			}
		})
	}
	return results
}
