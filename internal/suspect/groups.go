package suspect

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/internal/journal"
	"github.com/khata-ledger/khata/ledger"
)

// Group is a group of transfers that may be one payment.
type Group struct {
	No     int64
	Ledger ledger.Name
	State  State
	// Level and Score, from 1 to 100, say how much speaks for it, and Reasons why: of those two of its members of which it says most, which are Pair,
	// places in Members. Of an open group they are two that still stand.
	Level   Level
	Score   int
	Reasons []string
	Pair    [2]int
	// Members are its transfers, in the order of decision. There are ever only more of them.
	Members []Member
	// Decisions are what people have said of it, the last of which counts, as far as it is about all members.
	Decisions []Decision
}

// Member is a transfer of a group, and what has become of it.
type Member struct {
	journal.Progressed
	// WentBack says that nothing is left of it: it was reversed, or refunded in full.
	WentBack bool
}

// Decision is what somebody has said of a group.
type Decision struct {
	// Ordinal is its place among those of its group, from 1.
	Ordinal int
	// Dismissed says that it is no double charge; otherwise that was taken back.
	Dismissed bool
	// Members is how many the group had.
	Members int
	Reason  string
	Request string
	At      time.Time
	By      string
	// Replayed says that it was there before the request that returns it.
	Replayed bool
}

const (
	// DefaultPage is how many groups a page has where nobody says.
	DefaultPage = 50
	// MaxPage is how many it may have.
	MaxPage = 200
	// maxRounds is how often the list is read for one page: what has gone back since the journal was last followed is still in it.
	maxRounds = 10
	// groupsAtOnce and maxEntries bound what a page takes in memory: a group may have fifty transfers of a thousand entries each.
	groupsAtOnce, maxEntries = 10, 100_000
)

// Filter says which groups are meant. The zero filter is all that are open.
type Filter struct {
	// States are which; none is Open alone.
	States []State
	// AtLeast is the lowest level; 0 is Low.
	AtLeast Level
	// Account is one that takes part; "" is any.
	Account ledger.AccountID
	// Since and Until bound when the last member of a group was posted: from the first moment up to, and without, the second one. Zero is no bound.
	Since, Until time.Time
	// After is the place after which the page begins; nil is the beginning of the list.
	After *Place
	// Limit is the most groups of the page; 0 is DefaultPage.
	Limit int
}

// Place is a place in the list.
type Place struct {
	At time.Time
	No int64
}

// Page is a part of the list.
type Page struct {
	Groups []*Group
	// Next is where the next page begins; nil is that there is none. A page can be short, or empty, and yet have a next one.
	Next *Place
}

// Suspects lists groups, those with the latest transfer first. A group that gets another transfer while somebody turns the pages moves to the
// beginning. It returns CodeAccountNotFound and CodeInvalidArgument.
func (d *Detector) Suspects(ctx context.Context, name ledger.Name, filter Filter) (Page, error) {
	var page Page
	err := d.again(ctx, "list suspected double charges", func(bool) (err error) {
		page, err = d.suspects(ctx, name, filter)
		return err
	})
	return page, err
}

func (d *Detector) suspects(ctx context.Context, name ledger.Name, filter Filter) (page Page, err error) {
	args, err := d.pageArgs(ctx, name, filter)
	if err != nil {
		return Page{}, err
	}
	limit, entries := int(args.PageSize)-1, 0
	for range maxRounds {
		rows, err := d.sql.SuspectPage(ctx, d.pool, args)
		if err != nil {
			return Page{}, err
		}
		more := len(rows) > limit
		rows = rows[:min(len(rows), limit)]
		for i := 0; i < len(rows); i += groupsAtOnce {
			some := rows[i:min(i+groupsAtOnce, len(rows))]
			nos := make([]int64, len(some))
			for k, row := range some {
				nos[k] = row.GroupNo
			}
			found, err := d.load(ctx, args.LedgerID, name, nos)
			if err != nil {
				return Page{}, err
			}
			for k, row := range some {
				page.Next = &Place{row.LastAt.UTC(), row.GroupNo}
				g := found[row.GroupNo]
				if g == nil || !slices.Contains(args.States, int16(g.State)) { //nolint:gosec // 1 to 3
					continue // The list is as of the cursor; this is as of now.
				}
				page.Groups = append(page.Groups, g)
				for _, m := range g.Members {
					entries += len(m.Entries)
				}
				if len(page.Groups) == limit || entries > maxEntries {
					if !more && i+k == len(rows)-1 {
						page.Next = nil
					}
					return page, nil
				}
			}
		}
		if !more {
			page.Next = nil
			return page, nil
		}
		args.BeforeAt, args.BeforeNo = page.Next.At, page.Next.No
	}
	return page, nil
}

// forEver is after all times of transfers.
var forEver = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (d *Detector) pageArgs(ctx context.Context, name ledger.Name, filter Filter) (args dbsqlc.SuspectPageParams, err error) {
	if args.LedgerID, err = d.ledgerID(ctx, name); err != nil {
		return args, err
	}
	if filter.Limit == 0 {
		filter.Limit = DefaultPage
	}
	if filter.Limit < 0 || filter.Limit > MaxPage {
		return args, ledger.Invalid("limit", "is %d, want 1 to %d", filter.Limit, MaxPage)
	}
	args.PageSize = int32(filter.Limit) + 1 //nolint:gosec // at most MaxPage
	if len(filter.States) == 0 {
		filter.States = []State{Open}
	}
	for _, s := range States() {
		if slices.Contains(filter.States, s) {
			args.States = append(args.States, int16(s)) //nolint:gosec // 1 to 3
		}
	}
	for _, l := range Levels() {
		if l >= filter.AtLeast {
			args.Levels = append(args.Levels, int16(l)) //nolint:gosec // 1 to 3
		}
	}
	args.Since, args.BeforeAt = filter.Since, forEver
	if !filter.Until.IsZero() {
		args.BeforeAt = filter.Until // Numbers begin with 1, so nothing of that moment itself comes before it and 0.
	}
	if after := filter.After; after != nil {
		if after.No < 0 || after.At.After(forEver) {
			return args, ledger.Invalid("after", "is no place of the list")
		}
		if after.At.Before(args.BeforeAt) {
			args.BeforeAt, args.BeforeNo = after.At, after.No
		}
	}
	if filter.Account == "" {
		return args, nil
	}
	nos, err := d.sql.SuspectAccount(ctx, d.pool, dbsqlc.SuspectAccountParams{LedgerID: args.LedgerID, AccountID: string(filter.Account)})
	switch {
	case err != nil:
		return args, err
	case len(nos) == 0:
		return args, ledger.Errorf(ledger.CodeAccountNotFound, "account %q does not exist", string(filter.Account))
	}
	args.AccountNo = nos[0]
	return args, nil
}

// Suspect gives a group. It returns CodeNotFound.
func (d *Detector) Suspect(ctx context.Context, name ledger.Name, no int64) (*Group, error) {
	var g *Group
	err := d.again(ctx, "read a suspected double charge", func(bool) error {
		ledgerID, err := d.ledgerID(ctx, name)
		if err == nil {
			g, err = d.one(ctx, ledgerID, name, no)
		}
		return err
	})
	return g, err
}

// Of gives the groups that a transfer is in, by its place in the books. They are as far as the journal has been followed.
func (d *Detector) Of(ctx context.Context, name ledger.Name, sequence int64) (groups []*Group, err error) {
	err = d.again(ctx, "look for suspected double charges", func(bool) error {
		ledgerID, err := d.ledgerID(ctx, name)
		if err != nil {
			return err
		}
		rows, err := d.sql.SuspectGroupsOf(ctx, d.pool, dbsqlc.SuspectGroupsOfParams{LedgerID: ledgerID, Sequences: []int64{sequence}})
		if err != nil {
			return err
		}
		nos := make([]int64, len(rows))
		for i, row := range rows {
			nos[i] = row.GroupNo
		}
		found, err := d.load(ctx, ledgerID, name, nos)
		if err != nil {
			return err
		}
		groups = nil
		for _, no := range nos {
			if g := found[no]; g != nil {
				groups = append(groups, g)
			}
		}
		return nil
	})
	return groups, err
}

// Known gives those of some numbers that groups have.
func (d *Detector) Known(ctx context.Context, name ledger.Name, nos []int64) (known []int64, err error) {
	err = d.again(ctx, "look for suspected double charges", func(bool) error {
		ledgerID, err := d.ledgerID(ctx, name)
		if err != nil {
			return err
		}
		rows, err := d.sql.SuspectMembers(ctx, d.pool, dbsqlc.SuspectMembersParams{LedgerID: ledgerID, GroupNos: nos})
		known = nil
		for _, row := range rows {
			known = append(known, row.GroupNo)
		}
		known = slices.Compact(known)
		return err
	})
	return known, err
}

func (d *Detector) one(ctx context.Context, ledgerID int32, name ledger.Name, no int64) (*Group, error) {
	found, err := d.load(ctx, ledgerID, name, []int64{no})
	if err == nil && found[no] == nil {
		err = ledger.Missing("suspect", "%d is no group of ledger %s", no, name)
	}
	return found[no], err
}

// load reads groups, and what has become of their transfers until now.
func (d *Detector) load(ctx context.Context, ledgerID int32, name ledger.Name, nos []int64) (map[int64]*Group, error) {
	if len(nos) == 0 {
		return nil, nil
	}
	rows, err := d.sql.SuspectMembers(ctx, d.pool, dbsqlc.SuspectMembersParams{LedgerID: ledgerID, GroupNos: nos})
	if err != nil {
		return nil, err
	}
	// After the members: what is dismissed cannot be about more than there are.
	decisions, err := d.decisions(ctx, d.pool, ledgerID, nos)
	if err != nil {
		return nil, err
	}
	var sequences []int64
	for _, row := range rows {
		sequences = append(sequences, row.Sequence)
	}
	slices.Sort(sequences)
	transfers := map[int64]journal.Progressed{}
	for some := range slices.Chunk(slices.Compact(sequences), 500) { // As in learn.
		list, err := d.journal.ProgressAt(ctx, ledgerID, some)
		if err != nil {
			return nil, err
		}
		for _, p := range list {
			transfers[p.Sequence] = p
		}
	}
	groups, facts := map[int64]*Group{}, map[int64][]*fact{}
	for _, row := range rows {
		p, there := transfers[row.Sequence]
		if !there {
			return nil, ledger.Errorf(ledger.CodeInternal, "transfer %d is not in the journal any more", row.Sequence)
		}
		g := groups[row.GroupNo]
		if g == nil {
			g = &Group{No: row.GroupNo, Ledger: name, Decisions: decisions[row.GroupNo]}
			groups[row.GroupNo] = g
		}
		g.Members = append(g.Members, Member{p, wentBack(p.Progress)})
		facts[g.No] = append(facts[g.No], factOf(p))
	}
	for no, g := range groups {
		g.judge(facts[no])
	}
	return groups, nil
}

// judge says what a group is worth, by its members and decisions.
func (g *Group) judge(facts []*fact) {
	a := assess(facts, dismissedOf(g.Decisions))
	g.State, g.Level, g.Score, g.Reasons, g.Pair = a.state, a.level(), a.score, a.reasons(), a.pair
}

// decisions reads what was decided of groups, in order.
func (d *Detector) decisions(ctx context.Context, db dbsqlc.DBTX, ledgerID int32, nos []int64) (map[int64][]Decision, error) {
	rows, err := d.sql.SuspectDecisions(ctx, db, dbsqlc.SuspectDecisionsParams{LedgerID: ledgerID, GroupNos: nos})
	if err != nil {
		return nil, err
	}
	found := map[int64][]Decision{}
	for _, row := range rows {
		found[row.GroupNo] = append(found[row.GroupNo], Decision{
			Ordinal: int(row.Ordinal), Dismissed: row.Dismissed, Members: int(row.Members), Reason: row.Reason, Request: row.Request,
			At: row.DecidedAt.UTC(), By: row.DecidedBy,
		})
	}
	return found, nil
}

// dismissedOf is how many of the first members of a group somebody has dismissed.
func dismissedOf(decisions []Decision) int {
	if n := len(decisions); n > 0 && decisions[n-1].Dismissed {
		return min(decisions[n-1].Members, math.MaxInt32)
	}
	return 0
}
