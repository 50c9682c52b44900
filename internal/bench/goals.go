package bench

import (
	"fmt"
	"strings"
)

// Goal is a target and what was measured.
type Goal struct {
	Case   string `json:"case"`
	Target string `json:"target"`
	// Measured is absent if it was not measured.
	Measured *float64 `json:"measured,omitempty"`
	// Verdict is VerdictPass, VerdictMiss or VerdictNone.
	Verdict string `json:"verdict"`
}

// The verdicts.
const (
	VerdictPass = "pass"
	VerdictMiss = "miss"
	VerdictNone = "not measured"
)

// number is something that a series of measurements gives, or does not.
type number func(series) (float64, bool)

// of is the median of a case.
func of(name string, what func(Result) float64) number {
	return func(s series) (float64, bool) { return s.median(name, what) }
}

// ratioOf divides.
func ratioOf(above, below number) number {
	return func(s series) (float64, bool) {
		a, okA := above(s)
		b, okB := below(s)
		if !okA || !okB || b == 0 {
			return 0, false
		}
		return a / b, true
	}
}

func bestF1Rate(s series) (float64, bool) {
	_, rate, ok := s.bestF1()
	return rate, ok
}

// bytesOf is the median of the bytes per transfer of a case, where they were read.
func bytesOf(name string) number {
	return func(s series) (float64, bool) {
		var list []float64
		for _, r := range s[name] {
			if r.BytesPerTransfer != nil {
				list = append(list, *r.BytesPerTransfer)
			}
		}
		if len(list) == 0 {
			return 0, false
		}
		return median(list), true
	}
}

// goal is a line of the table of targets.
type goal struct {
	name, target string
	measured     number
	limit        float64
	most         bool // the limit is the most that it may be, and not the least
}

// goals are the targets, for a suite with so many clients, so long a history, and tables that grow as far as this.
func goals(c Config) []goal {
	largest := "largest table (--growth-to)"
	if c.GrowthTo > 0 {
		largest = fmt.Sprintf("table of %s transfers (%s ids)", grouped(c.GrowthTo), c.IDs)
	}
	uniform := of(ModeBatch, rateOf)
	singles := of(unaryCase(ModePost, c.Clients), rateOf)
	return []goal{
		{
			name:   fmt.Sprintf("batch calls of %s, %d in flight", grouped(c.Batch), c.InFlight),
			target: "≥ 0.6 of F2 on 2 connections", limit: 0.6, measured: ratioOf(uniform, of(floorCase(true, 2), rateOf)),
		}, {
			name: fmt.Sprintf("unary, %d clients", c.Clients), target: "≥ 1.2 of the best F1", limit: 1.2, measured: ratioOf(singles, bestF1Rate),
		}, {
			name: "one client, unary: p50", target: "≤ 2.5 of F1's on 1 connection", limit: 2.5, most: true,
			measured: ratioOf(of(unaryCase(ModePost, 1), p50Of), of(floorCase(false, 1), p50Of)),
		}, {
			name: "hot account in every transfer, batch calls", target: "≥ 0.9 of uniform", limit: 0.9,
			measured: ratioOf(of(ModeHot, rateOf), uniform),
		}, {
			name: "hot account in every transfer, unary", target: "≥ 0.9 of uniform", limit: 0.9,
			measured: ratioOf(of(unaryCase(ModeHot, c.Clients), rateOf), singles),
		}, {
			name:   fmt.Sprintf("all payers floored, %s accounts, batch calls", grouped(c.Accounts)),
			target: "≥ 0.7 of unfloored", limit: 0.7, measured: ratioOf(of(ModeFloor, rateOf), uniform),
		}, {
			name:   fmt.Sprintf("all payers floored, %s accounts, unary", grouped(c.Accounts)),
			target: "≥ 0.7 of unfloored", limit: 0.7, measured: ratioOf(of(unaryCase(ModeFloor, c.Clients), rateOf), singles),
		}, {
			name: "one floored payer in every transfer", target: "≥ 0.5 of uniform", limit: 0.5, measured: ratioOf(of(ModeOneFloor, rateOf), uniform),
		}, {
			name: "duplicates only", target: "≥ 2 of fresh posts", limit: 2, measured: ratioOf(of(ModeDup, rateOf), uniform),
		}, {
			name:   fmt.Sprintf("balance read, %s entries: p99", grouped(c.History)),
			target: "≤ 2 of that at 1,000", limit: 2, most: true,
			measured: ratioOf(of(sizeCase(ModeBalance, int64(c.History)), p99Of), of(sizeCase(ModeBalance, leastHistory), p99Of)),
		}, {
			name: "bytes per transfer on disk", target: "≤ 700", limit: 700, most: true,
			measured: bytesOf(ModeBatch),
		}, {
			name: largest, target: fmt.Sprintf("≥ 0.8 of the rate at %s", grouped(c.GrowthFrom)), limit: 0.8,
			measured: ratioOf(of(sizeCase(ModeGrowth, c.GrowthTo), rateOf), of(sizeCase(ModeGrowth, c.GrowthFrom), rateOf)),
		},
	}
}

// judge holds the measurements against the targets.
func judge(goals []goal, s series) []Goal {
	list := make([]Goal, len(goals))
	for i, g := range goals {
		list[i] = Goal{Case: g.name, Target: g.target, Verdict: VerdictNone}
		measured, ok := g.measured(s)
		if !ok {
			continue
		}
		list[i].Measured, list[i].Verdict = &measured, VerdictMiss
		if g.most && measured <= g.limit || !g.most && measured >= g.limit {
			list[i].Verdict = VerdictPass
		}
	}
	return list
}

func goalTable(goals []Goal) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%-46s %-32s %10s  %s\n", "case", "target", "measured", "verdict")
	for _, g := range goals {
		measured := "-"
		if g.Measured != nil {
			measured = fmt.Sprintf("%.2f", *g.Measured)
		}
		fmt.Fprintf(&out, "%-46s %-32s %10s  %s\n", g.Case, g.Target, measured, g.Verdict)
	}
	return out.String()
}
