package bench

import "context"

// suite measures all that has a target. Each round measures each case once, a floor beside what is held against it; the
// floors once more at the end. What counts is the median of the rounds, so that a machine that is slow for a while is slow
// for all. Growth begins before them, since a table that is empty
// is faster than any will ever be again, and goes on after them.
func (b *bench) suite(ctx context.Context) error {
	c := b.config
	batches := func(mode string) func(context.Context) error {
		return func(ctx context.Context) error { return b.posting(ctx, mode, false, c.InFlight) }
	}
	singles := func(mode string, clients int) func(context.Context) error {
		return func(ctx context.Context) error { return b.posting(ctx, mode, true, clients) }
	}
	floor := func(batch bool, connections int) func(context.Context) error {
		return func(ctx context.Context) error { return b.floor(ctx, batch, connections) }
	}
	round := []func(context.Context) error{
		floor(true, 2), batches(ModeBatch), batches(ModeHot), batches(ModeFloor), batches(ModeOneFloor),
		func(ctx context.Context) error { return b.duplicates(ctx, false) }, floor(true, 1),
		floor(false, 1), singles(ModePost, 1), floor(false, 16), floor(false, 64), singles(ModePost, c.Clients), singles(ModeHot, c.Clients),
		singles(ModeFloor, c.Clients),
	}
	growing := sizes(c.GrowthFrom, max(c.GrowthFrom, c.GrowthTo))
	defer func() { b.report.Goals = judge(goals(c), b.series) }()
	if err := b.growth(ctx, growing[:min(1, len(growing))]); err != nil {
		return err
	}
	for n := range c.Rounds {
		b.progress("round %d of %d", n+1, c.Rounds)
		for _, measure := range round {
			if err := measure(ctx); err != nil {
				return err
			}
		}
	}
	if err := b.allFloors(ctx); err != nil {
		return err
	}
	if err := b.balance(ctx); err != nil {
		return err
	}
	return b.growth(ctx, growing[min(1, len(growing)):])
}
