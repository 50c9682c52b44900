package suspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/internal/periodic"
	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/ledger"
)

// errMoved: somebody else has followed the ledger meanwhile, or is about to.
var errMoved = fmt.Errorf("the cursor of the ledger has been moved by somebody else: %w", pg.ErrAgain)

// stepLimit bounds a batch, and the look for work: a connection that has gone silent must not stop the job.
const stepLimit = time.Minute

// Run follows the journal until ctx ends.
func (d *Detector) Run(ctx context.Context) {
	followed := periodic.Job{
		Name: "look for double charges", Every: d.config.Every, Log: d.log, Failed: d.config.Metrics.failed,
		Do: func(ctx context.Context) error {
			_, err := d.follow(ctx, true)
			return err
		},
	}.Start(ctx)
	// By itself: to follow books that were there before takes long.
	periodic.Job{
		Name: "measure what was not looked at for double charges", Every: d.config.Every, Log: d.log, Failed: d.config.Metrics.unknown, Do: d.measure,
	}.Start(ctx)()
	followed()
}

// Follow looks at all transfers that are final by now, and returns how many it has looked at. What another one is following at the same time it
// leaves to that one.
func (d *Detector) Follow(ctx context.Context) (int, error) {
	n, err := d.follow(ctx, false)
	return n, public(ctx, "look for double charges", err)
}

// follow follows all ledgers in turn, a batch of each. gently is for work beside that of callers: where there is much to do, as on books that were
// there before, it rests as long as it works.
func (d *Detector) follow(ctx context.Context, gently bool) (total int, err error) {
	d.following.Lock()
	defer d.following.Unlock()
	unread, err := d.unread(ctx)
	if err != nil {
		return 0, err
	}
	var failed error
	for len(unread) > 0 {
		var more []journal.Unmoved
		for _, u := range unread {
			begun := time.Now()
			n, through, err := d.batch(ctx, u.LedgerID)
			total += n
			switch {
			case errors.Is(err, errMoved) || errors.Is(err, journal.ErrUnderWay):
			case err != nil && ctx.Err() != nil:
				return total, err
			case err != nil: // Other ledgers need not wait for this one.
				failed = cmp.Or(failed, err)
			case n > 0 && through < u.Last: // What has come since is for the next time.
				more = append(more, u)
				if gently && !sleep(ctx, time.Since(begun)) {
					return total, ctx.Err()
				}
			}
		}
		unread = more
	}
	return total, failed
}

// unread lists the ledgers that have transfers nobody has looked at.
func (d *Detector) unread(ctx context.Context) ([]journal.Unmoved, error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	read, err := d.cursors(ctx)
	if err != nil {
		return nil, err
	}
	return d.feed.UnreadTransfers(ctx, read)
}

// cursors are how far each ledger has been followed.
func (d *Detector) cursors(ctx context.Context) (map[int32]int64, error) {
	rows, err := d.sql.SuspectCursors(ctx, d.pool)
	read := map[int32]int64{}
	for _, row := range rows {
		read[row.LedgerID] = row.Through
	}
	return read, err
}

// sleep returns false if ctx ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// equal is an earlier payment of the same fingerprint.
type equal struct {
	sequence int64
	postedAt time.Time
}

// group is a group as a batch finds and leaves it.
type group struct {
	// no is 0 until it is written.
	no      int64
	members []equal
	// written is how many of the members were there before.
	written int
	touched bool
}

// takes reports whether a group may have another member.
func (g *group) takes(e equal) bool {
	if len(g.members) >= maxMembers {
		return false
	}
	first, last := e.postedAt, e.postedAt
	for _, m := range g.members {
		if m.postedAt.Before(first) {
			first = m.postedAt
		}
		if m.postedAt.After(last) {
			last = m.postedAt
		}
	}
	return last.Sub(first) <= Window
}

// touch appends a group, once.
func touch(list []*group, g *group) []*group {
	if !g.touched {
		g.touched = true
		list = append(list, g)
	}
	return list
}

// batch follows a ledger for some transfers, and returns how many, and the number of the last one. All that it has to know it reads before its transaction, in which it then only
// writes: none of that can change but by whoever moves the cursor, and if somebody has, nothing is written.
func (d *Detector) batch(ctx context.Context, ledgerID int32) (n int, through int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, stepLimit)
	defer cancel()
	from, err := d.sql.SuspectThrough(ctx, d.pool, ledgerID)
	if err != nil {
		return 0, 0, err
	}
	moved, err := d.feed.Moved(ctx, ledgerID, from, d.config.Batch)
	if err != nil || len(moved) == 0 {
		return 0, 0, err
	}
	through = moved[len(moved)-1].Sequence
	var payments []journal.Moved
	var back []int64
	for _, m := range moved {
		switch {
		case m.Payment:
			if d.blur != nil {
				m.Fingerprint = d.blur(m.Fingerprint)
			}
			payments = append(payments, m)
		case m.TakesBack != 0:
			back = append(back, m.TakesBack)
		}
	}
	touched, facts, err := d.groups(ctx, ledgerID, payments, back)
	if err != nil {
		return 0, 0, err
	}
	err = pg.InTx(ctx, d.pool, func(tx pgx.Tx) error {
		ours, err := d.sql.SuspectTryLock(ctx, tx, ledgerID)
		if err != nil {
			return err
		}
		if !ours {
			return errMoved
		}
		advanced, err := d.sql.SuspectAdvance(ctx, tx, dbsqlc.SuspectAdvanceParams{
			LedgerID: ledgerID, Through: through, FromNumber: from,
		})
		if err != nil {
			return err
		}
		if len(advanced) == 0 {
			return errMoved
		}
		if err := d.keep(ctx, tx, ledgerID, payments); err != nil {
			return err
		}
		return d.write(ctx, tx, ledgerID, touched, facts)
	})
	if err != nil {
		return 0, 0, err
	}
	d.config.Metrics.followed(len(moved), touched)
	return len(moved), through, nil
}

// keep puts payments into the window, and takes out what is too old for any that may come.
func (d *Detector) keep(ctx context.Context, tx pgx.Tx, ledgerID int32, payments []journal.Moved) error {
	if len(payments) == 0 {
		return nil
	}
	args := dbsqlc.SuspectWindowInsertParams{LedgerID: ledgerID}
	oldest := payments[0].PostedAt
	for _, p := range payments {
		args.Fingerprints, args.PostedAts = append(args.Fingerprints, p.Fingerprint), append(args.PostedAts, p.PostedAt)
		args.Sequences = append(args.Sequences, p.Sequence)
		if p.PostedAt.Before(oldest) {
			oldest = p.PostedAt
		}
	}
	if err := d.sql.SuspectWindowInsert(ctx, tx, args); err != nil {
		return err
	}
	// More than comes in, so that a long pause is made up for, and not so much that it takes long.
	_, err := d.sql.SuspectWindowTrim(ctx, tx, dbsqlc.SuspectWindowTrimParams{
		LedgerID: ledgerID, Before: oldest.Add(-Window - slack), AtMost: int32(4 * d.config.Batch), //nolint:gosec // a few thousand
	})
	return err
}

// groups finds what a batch does to groups: payments join them, and of others a member has gone back. It also returns what is known of their members.
func (d *Detector) groups(ctx context.Context, ledgerID int32, payments []journal.Moved, back []int64) ([]*group, map[int64]*fact, error) {
	equals, err := d.equals(ctx, ledgerID, payments)
	if err != nil || len(equals) == 0 && len(back) == 0 {
		return nil, nil, err
	}
	facts := map[int64]*fact{}
	var wanted []int64
	for sequence, list := range equals {
		wanted = append(wanted, sequence)
		for _, e := range list {
			wanted = append(wanted, e.sequence)
		}
	}
	if err := d.learn(ctx, ledgerID, facts, wanted); err != nil {
		return nil, nil, err
	}
	// The one that each payment is most likely a repetition of; of those as likely the latest.
	partners := map[int64]equal{}
	for sequence, list := range equals {
		var best verdict
		for _, e := range list {
			if facts[e.sequence].movement != facts[sequence].movement {
				continue
			}
			if v := compare(facts[e.sequence], facts[sequence]); best.score == 0 || v.better(best) {
				best, partners[sequence] = v, e
			}
		}
	}
	latest, touched, err := d.existing(ctx, ledgerID, partners, back)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range payments {
		partner, found := partners[p.Sequence]
		if !found {
			continue
		}
		this := equal{p.Sequence, p.PostedAt}
		g := latest[partner.sequence]
		if g == nil || !g.takes(this) {
			g = &group{members: []equal{partner}}
			latest[partner.sequence] = g
		}
		g.members = append(g.members, this)
		latest[p.Sequence] = g
		touched = touch(touched, g)
	}
	wanted = wanted[:0]
	for _, g := range touched {
		for _, m := range g.members {
			wanted = append(wanted, m.sequence)
		}
	}
	return touched, facts, d.learn(ctx, ledgerID, facts, wanted)
}

// equals finds for each payment those before it that have the same fingerprint and are near enough, the latest first.
func (d *Detector) equals(ctx context.Context, ledgerID int32, payments []journal.Moved) (map[int64][]equal, error) {
	if len(payments) == 0 {
		return nil, nil
	}
	args := dbsqlc.SuspectEqualParams{LedgerID: ledgerID, Seconds: Window.Seconds(), AtMost: maxEqual}
	for _, p := range payments {
		args.Fingerprints, args.PostedAts = append(args.Fingerprints, p.Fingerprint), append(args.PostedAts, p.PostedAt)
	}
	rows, err := d.sql.SuspectEqual(ctx, d.pool, args)
	if err != nil {
		return nil, err
	}
	found := map[int64][]equal{}
	for _, row := range rows {
		p := payments[row.Place-1]
		found[p.Sequence] = append(found[p.Sequence], equal{row.Sequence, row.PostedAt.UTC()})
	}
	// And those of the batch itself.
	byFingerprint := map[int64][]equal{}
	for _, p := range payments {
		before := byFingerprint[p.Fingerprint]
		byFingerprint[p.Fingerprint] = append(before, equal{p.Sequence, p.PostedAt})
		if len(before) == 0 {
			continue
		}
		list := found[p.Sequence]
		for _, e := range before[max(0, len(before)-maxEqual):] { // The latest, unless the clock was set back meanwhile.
			if p.PostedAt.Sub(e.postedAt).Abs() <= Window {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b equal) int {
			return cmp.Or(b.postedAt.Compare(a.postedAt), cmp.Compare(b.sequence, a.sequence))
		})
		if len(list) > 0 {
			found[p.Sequence] = list[:min(len(list), maxEqual)]
		}
	}
	return found, nil
}

// learn reads what is not known yet of transfers.
func (d *Detector) learn(ctx context.Context, ledgerID int32, facts map[int64]*fact, wanted []int64) error {
	wanted = slices.Clone(wanted)
	slices.Sort(wanted)
	wanted = slices.DeleteFunc(slices.Compact(wanted), func(sequence int64) bool { return facts[sequence] != nil })
	for some := range slices.Chunk(wanted, 500) { // A transfer can have a thousand entries.
		list, err := d.journal.ProgressAt(ctx, ledgerID, some)
		if err != nil {
			return err
		}
		for _, p := range list {
			facts[p.Sequence] = factOf(p)
		}
	}
	for _, sequence := range wanted {
		if facts[sequence] == nil {
			return ledger.Errorf(ledger.CodeInternal, "transfer %d is not in the journal any more", sequence)
		}
	}
	return nil
}

// existing reads the latest group of each partner; and those of which a member has gone back.
func (d *Detector) existing(ctx context.Context, ledgerID int32, partners map[int64]equal, back []int64) (latest map[int64]*group, touched []*group,
	err error) {
	wanted := slices.Clone(back)
	wentBack := map[int64]bool{}
	for _, sequence := range back {
		wentBack[sequence] = true
	}
	for _, e := range partners {
		wanted = append(wanted, e.sequence)
	}
	slices.Sort(wanted)
	rows, err := d.sql.SuspectGroupsOf(ctx, d.pool, dbsqlc.SuspectGroupsOfParams{LedgerID: ledgerID, Sequences: slices.Compact(wanted)})
	if err != nil {
		return nil, nil, err
	}
	byNo := map[int64]*group{}
	for _, row := range rows {
		byNo[row.GroupNo] = &group{no: row.GroupNo}
	}
	members, err := d.sql.SuspectMembers(ctx, d.pool, dbsqlc.SuspectMembersParams{LedgerID: ledgerID, GroupNos: slices.Sorted(maps.Keys(byNo))})
	if err != nil {
		return nil, nil, err
	}
	for _, m := range members {
		g := byNo[m.GroupNo]
		g.members, g.written = append(g.members, equal{m.Sequence, m.PostedAt.UTC()}), g.written+1
	}
	latest = map[int64]*group{}
	for _, row := range rows { // In the order of their numbers.
		latest[row.Sequence] = byNo[row.GroupNo]
		if wentBack[row.Sequence] {
			touched = touch(touched, byNo[row.GroupNo])
		}
	}
	return latest, touched, nil
}

// write writes new groups and new members, and the list anew.
func (d *Detector) write(ctx context.Context, tx pgx.Tx, ledgerID int32, touched []*group, facts map[int64]*fact) error {
	if len(touched) == 0 {
		return nil
	}
	var fresh []*group
	for _, g := range touched {
		if g.no == 0 {
			fresh = append(fresh, g)
		}
	}
	if len(fresh) > 0 {
		numbers, err := d.sql.SuspectNumbers(ctx, tx, int32(len(fresh))) //nolint:gosec // no more than a batch
		if err != nil {
			return err
		}
		slices.Sort(numbers)
		for i, g := range fresh {
			g.no = numbers[i]
		}
		if err := d.sql.SuspectGroupInsert(ctx, tx, dbsqlc.SuspectGroupInsertParams{LedgerID: ledgerID, GroupNos: numbers}); err != nil {
			return err
		}
	}
	args := dbsqlc.SuspectMemberInsertParams{LedgerID: ledgerID}
	var nos []int64
	for _, g := range touched {
		nos = append(nos, g.no)
		for i, m := range g.members[g.written:] {
			args.GroupNos, args.Ordinals = append(args.GroupNos, g.no), append(args.Ordinals, int32(g.written+i+1)) //nolint:gosec // at most maxMembers
			args.Sequences, args.PostedAts = append(args.Sequences, m.sequence), append(args.PostedAts, m.postedAt)
		}
	}
	if len(args.GroupNos) > 0 {
		if err := d.sql.SuspectMemberInsert(ctx, tx, args); err != nil {
			return err
		}
	}
	decisions, err := d.decisions(ctx, tx, ledgerID, nos)
	if err != nil {
		return err
	}
	list := make([]listed, len(touched))
	for i, g := range touched {
		members := make([]*fact, len(g.members))
		for k, m := range g.members {
			members[k] = facts[m.sequence]
		}
		list[i] = listed{g.no, members, dismissedOf(decisions[g.no])}
	}
	return d.list(ctx, tx, ledgerID, list)
}

// listed is a group to be listed.
type listed struct {
	no        int64
	members   []*fact
	dismissed int
}

// list writes the places of groups in the list anew.
func (d *Detector) list(ctx context.Context, tx pgx.Tx, ledgerID int32, groups []listed) error {
	args := dbsqlc.SuspectListInsertParams{LedgerID: ledgerID}
	var nos []int64
	for _, g := range groups {
		a := assess(g.members, g.dismissed)
		last := g.members[0].postedAt
		for _, m := range g.members {
			if m.postedAt.After(last) {
				last = m.postedAt
			}
		}
		nos = append(nos, g.no)
		for _, account := range append([]ledger.AccountID{""}, g.members[0].accounts...) {
			args.AccountIds, args.States = append(args.AccountIds, string(account)), append(args.States, int16(a.state)) //nolint:gosec // 1 to 3
			args.Levels, args.LastAts = append(args.Levels, int16(a.level())), append(args.LastAts, last)                //nolint:gosec // 1 to 3
			args.GroupNos = append(args.GroupNos, g.no)
		}
	}
	if err := d.sql.SuspectListDelete(ctx, tx, dbsqlc.SuspectListDeleteParams{LedgerID: ledgerID, GroupNos: nos}); err != nil {
		return err
	}
	return d.sql.SuspectListInsert(ctx, tx, args)
}
