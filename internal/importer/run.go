package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const (
	// maxCallEntries is how many entries a call has: as many as the server commits at once, so that a call is decided as a
	// whole, in its order.
	maxCallEntries = 5000
	// maxCallBytes keeps calls well below the server's limit for a message.
	maxCallBytes = 16 << 20
)

// Run imports a file. It returns a *StoppedError if it could not go on, another error if the file as a whole is not what it
// should be, with nothing written, and nil if every line was dealt with, whatever became of it. The summary is always that
// of what was done.
func Run(ctx context.Context, books Books, in io.Reader, config Config) (Summary, error) {
	config = config.withDefaults()
	started := time.Now()
	src, err := open(&cancelReader{ctx: ctx, in: in}, config)
	if err != nil {
		return Summary{}, err
	}
	p := &poster{
		books: books, config: config, source: src, accounts: newAccounts(books, config),
		ordered: make(chan *batch, config.InFlight), slots: make(chan struct{}, config.InFlight), halt: make(chan struct{}),
	}
	go p.read(ctx)
	var s settler
	for b := range p.ordered {
		<-b.done
		if s.settle(b, config) {
			continue
		}
		if !s.halted {
			s.halted = true
			close(p.halt) // The calls under way are waited for: what they did is in the summary.
		}
	}
	s.Elapsed = time.Since(started)
	if s.stopped != nil {
		return s.Summary, s.stopped
	}
	return s.Summary, nil
}

// batch is the lines of one call.
type batch struct {
	rows    []row
	specs   []ledger.TransferSpec // of the rows that are not wrong
	places  []int                 // of the specs among the rows
	entries int
	bytes   int
	// ids and shared are what no two calls under way may have in common.
	ids    map[ledger.TransferID]struct{}
	shared map[ledger.AccountID]struct{}
	// at is the first line that is not in the batch, readTo how far the file was read, skipped and created are so far.
	at, skipped, created int
	readTo               int64

	// Before done is closed:
	results []client.Result
	err     error // instead of results, or after all rows: what ended the reading
	done    chan struct{}
}

func newBatch() *batch {
	return &batch{ids: map[ledger.TransferID]struct{}{}, shared: map[ledger.AccountID]struct{}{}, done: make(chan struct{})}
}

func (b *batch) add(r row) {
	b.rows = append(b.rows, r)
	b.entries += len(r.spec.Entries)
	b.bytes += size(r.spec)
}

func (b *batch) full(limit int) bool {
	return len(b.rows) >= limit || b.entries >= maxCallEntries || b.bytes >= maxCallBytes
}

// fits reports whether a row can be added without going over what the server commits at once.
func (b *batch) fits(r row) bool {
	return len(b.rows) == 0 || b.entries+len(r.spec.Entries) <= maxCallEntries
}

// size is about how many bytes a transfer takes in a call.
func size(spec ledger.TransferSpec) int {
	n := 64 + len(spec.ID) + len(spec.Description) + len(spec.Metadata)
	for _, e := range spec.Entries {
		n += 64 + len(e.Account)
	}
	return n
}

// conflicts reports whether the order of two batches can matter.
func (b *batch) conflicts(other *batch) bool {
	for id := range b.ids {
		if _, both := other.ids[id]; both {
			return true
		}
	}
	for id := range b.shared {
		if _, both := other.shared[id]; both {
			return true
		}
	}
	return false
}

// poster reads the file and starts the calls.
type poster struct {
	books    Books
	config   Config
	source   *source
	accounts *accounts

	ordered chan *batch // in the order of the file; bounded, so that what is not settled is too
	slots   chan struct{}
	halt    chan struct{}
	flying  []*batch
}

func (p *poster) read(ctx context.Context) {
	defer close(p.ordered)
	b := newBatch()
	for {
		r, err := p.source.next()
		if err != nil {
			b.at = r.line
			if !errors.Is(err, io.EOF) {
				p.send(ctx, b)
				b = newBatch()
				b.at, b.err = r.line, fmt.Errorf("read the file: %w", err)
			}
			p.send(ctx, b) // at the end of the file too, empty or not: it has the last counts
			return
		}
		if !b.fits(r) {
			if !p.send(ctx, b) {
				return
			}
			b = newBatch()
		}
		if b.add(r); b.full(p.config.Batch) {
			b.at = r.last + 1
			if !p.send(ctx, b) {
				return
			}
			b = newBatch()
		}
	}
}

// send starts the call of a batch as soon as it may, and reports whether to go on reading.
func (p *poster) send(ctx context.Context, b *batch) bool {
	b.readTo, b.skipped = p.source.count.n, p.source.skipped
	if b.err == nil {
		b.err = p.accounts.prepare(ctx, b)
		b.created = p.accounts.created
	}
	if b.err == nil {
		b.take()
		b.err = p.wait(ctx, b)
	}
	failed := b.err != nil
	if failed || len(b.specs) == 0 {
		close(b.done)
	} else {
		p.flying = append(p.flying, b)
		go func() {
			b.results, b.err = p.books.PostTransfers(ctx, b.specs)
			<-p.slots
			close(b.done)
		}()
	}
	p.ordered <- b // The receiver is there until the channel is closed.
	return !failed
}

// take gathers what is sent.
func (b *batch) take() {
	for i, r := range b.rows {
		if r.err == nil {
			b.specs = append(b.specs, r.spec)
			b.places = append(b.places, i)
			b.ids[r.spec.ID] = struct{}{}
		}
	}
}

var errHalted = errors.New("an earlier line stopped the import")

// wait takes a slot, once no batch under way is one that this must not overtake.
func (p *poster) wait(ctx context.Context, b *batch) error {
	select { // Of several cases that are ready, the select below may take any.
	case <-p.halt:
		return errHalted
	default:
	}
	open := false
	p.flying = slices.DeleteFunc(p.flying, func(other *batch) bool {
		if !b.conflicts(other) {
			return isDone(other)
		}
		<-other.done
		open = open || other.open()
		return true
	})
	if open { // A payment would be refused, for ever, for want of the deposit whose outcome nobody knows.
		return errHalted
	}
	if len(b.specs) == 0 {
		return nil
	}
	select {
	case p.slots <- struct{}{}:
		return nil
	case <-p.halt:
		return errHalted
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// open reports whether a batch that is done left an outcome unknown.
func (b *batch) open() bool {
	return b.err != nil || slices.ContainsFunc(b.results, func(r client.Result) bool { return ledger.CodeOf(r.Err).Retryable() })
}

func isDone(b *batch) bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// settler counts what became of the lines, in their order.
type settler struct {
	Summary
	stopped *StoppedError
	halted  bool
	deaf    bool // Config.Problem has failed
}

func (s *settler) stop(line int, err error) {
	if s.stopped == nil {
		s.stopped = &StoppedError{Line: line, Err: err}
	}
}

// settle counts a batch, and reports whether the import can go on.
func (s *settler) settle(b *batch, config Config) bool {
	s.Skipped, s.AccountsCreated = max(s.Skipped, b.skipped), max(s.AccountsCreated, b.created)
	if b.err != nil {
		line := b.at
		if len(b.rows) > 0 {
			line = b.rows[0].line
		}
		s.stop(line, b.err)
		return false
	}
	results := make([]*client.Result, len(b.rows))
	for i, place := range b.places {
		results[place] = &b.results[i]
	}
	for i, r := range b.rows {
		problem := s.count(r, results[i])
		if problem == nil || config.Problem == nil || s.deaf {
			continue
		}
		if err := config.Problem(*problem); err != nil {
			s.deaf = true
			s.stop(r.line, err)
		}
	}
	if config.Progress != nil {
		config.Progress(s.Summary, b.readTo)
	}
	return s.stopped == nil
}

// count counts one line, and gives the problem that it is.
func (s *settler) count(r row, result *client.Result) *Problem {
	problem := &Problem{Line: r.line, TransferID: r.spec.ID, Outcome: Wrong}
	err := r.err
	if result != nil {
		err = result.Err
	}
	switch {
	case result != nil && ledger.CodeOf(err).Retryable():
		// The client has tried for as long as it may. What the line became is not known, and it is not counted.
		s.stop(r.line, err)
		return nil
	case errors.Is(err, ledger.CodeAlreadyExists):
		problem.Outcome = Conflict
		s.Conflicts++
		s.Wrong++
	case err != nil:
		s.Wrong++
	case result.Refusal != nil:
		s.Lines++
		s.Refused++
		problem.Outcome = Refused
		problem.Reason = fmt.Sprintf("%s of account %s", result.Refusal.Reason, result.Refusal.Account)
		return problem
	case result.Replayed:
		s.Lines++
		s.Replayed++
		return nil
	default:
		s.Lines++
		s.Posted++
		return nil
	}
	s.Lines++
	problem.Reason = err.Error()
	return problem
}
