package suspect

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// synthetic is a month of payments of which it is known which are double charges.
type synthetic struct {
	random    *rand.Rand
	telling   bool
	payers    int
	merchants int
	transfers []payment
	// doubles are ids that are one payment, two or three, and repeats counts the payments that only look like another one.
	doubles [][]string
	repeats int
}

// payment is a transfer to be inserted.
type payment struct {
	id           string
	at           time.Time
	payer, payee int
	amount       string
	description  string
	order        string
	// what is what it was made as; "" is an ordinary one.
	what string
}

// month is how long a synthetic history is.
const month = 30 * 24 * time.Hour

// newSynthetic makes about n transfers, some doubles and as many legitimate repeats. telling says that payments tell of themselves, as they do in
// life, three times out of five; otherwise nobody says anything, and only times are left.
func newSynthetic(n, planted int, telling bool) *synthetic {
	s := &synthetic{random: rand.New(rand.NewPCG(1, uint64(n))), telling: telling, payers: max(100, n/50), merchants: max(20, n/2000)}
	for range n - 2*planted - planted/4 {
		p := s.payment()
		if s.random.IntN(5) < 3 {
			p.order = s.fresh("order")
		}
		s.add(p)
	}
	for range planted {
		s.double()
	}
	for s.repeats < planted*3/10 {
		s.instalments()
	}
	for s.repeats < planted/2 {
		s.gifts()
	}
	for s.repeats < planted {
		s.fares()
	}
	slices.SortStableFunc(s.transfers, func(a, b payment) int { return a.at.Compare(b.at) })
	return s
}

func (s *synthetic) add(p payment) string {
	if !s.telling {
		p.order, p.description = "", ""
	}
	p.id = fmt.Sprintf("s%d", len(s.transfers))
	s.transfers = append(s.transfers, p)
	return p.id
}

func (s *synthetic) fresh(what string) string { return fmt.Sprintf("%s-%d", what, s.random.Uint64()) }

func (s *synthetic) within(from, to time.Duration) time.Duration {
	return from + time.Duration(s.random.Int64N(int64(to-from)/1000+1))*time.Microsecond
}

// payment is an ordinary one: mostly to one of the payer's five usual payees, and half of the time of a round amount.
func (s *synthetic) payment() payment {
	p := payment{at: noon.Add(s.within(0, month)), payer: s.random.IntN(s.payers)}
	p.payee = s.random.IntN(s.merchants)
	if s.random.IntN(10) < 7 {
		p.payee = (p.payer*7 + s.random.IntN(5)) % s.merchants
	}
	p.amount = fmt.Sprintf("%d.%02d", 10+s.random.IntN(2000), s.random.IntN(100))
	if s.random.IntN(2) == 0 {
		p.amount = []string{"10", "20", "30", "50", "100", "150", "200", "250", "300", "500", "1000", "2000"}[s.random.IntN(12)]
	}
	return p
}

// double pays twice: mostly because a first try seemed to have failed, and mostly of the same order; some apps number each try anew.
func (s *synthetic) double() {
	p := s.payment()
	switch s.random.IntN(20) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11:
		p.order = s.fresh("order")
	}
	q := p
	switch n := s.random.IntN(100); {
	case n < 60:
		q.at = p.at.Add(s.within(time.Second, 2*time.Minute))
	case n < 85:
		q.at = p.at.Add(s.within(2*time.Minute, 10*time.Minute))
	case n < 95:
		q.at = p.at.Add(s.within(10*time.Minute, time.Hour))
	case n < 99:
		q.at = p.at.Add(s.within(time.Hour, 24*time.Hour))
	default:
		q.at = p.at.Add(24 * time.Hour)
	}
	if p.order != "" && s.random.IntN(10) == 0 {
		q.order = s.fresh("order")
	}
	ids := []string{s.add(p), s.add(q)}
	if apart := q.at.Sub(p.at); apart < 10*time.Minute && s.random.IntN(20) == 0 { // Who has tried twice tries a third time.
		third := q
		third.at = q.at.Add(apart)
		ids = append(ids, s.add(third))
	}
	s.doubles = append(s.doubles, ids)
}

// instalments are two or three of one contract, paid one after the other by somebody who is behind.
func (s *synthetic) instalments() {
	p := s.payment()
	first := 1 + s.random.IntN(9)
	for i := range 2 + s.random.IntN(2) {
		q := p
		q.at = p.at.Add(time.Duration(i) * s.within(30*time.Second, 20*time.Minute))
		q.what = "instalments"
		q.description = fmt.Sprintf("instalment %d of 12", first+i)
		if s.random.IntN(2) == 0 {
			q.order = fmt.Sprintf("contract-%d-%d", p.payer, first+i)
		}
		s.add(q)
		if i > 0 {
			s.repeats++
		}
	}
}

// gifts are five of the same thing, for five grandchildren. One family in ten says nothing of whom they are for.
func (s *synthetic) gifts() {
	p := s.payment()
	silent := s.random.IntN(10) == 0
	for i := range 5 {
		q := p
		q.at, q.what = p.at.Add(time.Duration(i)*s.within(20*time.Second, 2*time.Minute)), "gifts"
		if !silent {
			q.order = s.fresh("order")
		}
		s.add(q)
	}
	s.repeats += 4
}

// fares are those of somebody who goes to work and home for ten days; half of the operators give their trips numbers.
func (s *synthetic) fares() {
	p := s.payment()
	p.amount = []string{"20", "25", "30", "45"}[s.random.IntN(4)]
	numbered := s.random.IntN(2) == 0
	morning := noon.Add(time.Duration(s.random.IntN(18)) * 24 * time.Hour).Add(s.within(-5*time.Hour, -4*time.Hour))
	for day := range 10 {
		for _, hour := range []time.Duration{0, 10 * time.Hour} {
			q := p
			q.at, q.what = morning.Add(time.Duration(day)*24*time.Hour+hour+s.within(0, 40*time.Minute)), "fares"
			if numbered {
				q.order = s.fresh("trip")
			}
			s.add(q)
		}
	}
	s.repeats += 19
}

// insert writes the transfers, in the order of their times.
func (s *synthetic) insert(t *testing.T, d *desk) {
	t.Helper()
	var specs []ledger.AccountSpec
	for i := range s.payers {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprintf("p%d", i)), Type: ledger.Liability, Currency: "BDT"})
	}
	for i := range s.merchants {
		specs = append(specs, ledger.AccountSpec{ID: ledger.AccountID(fmt.Sprintf("m%d", i)), Type: ledger.Liability, Currency: "BDT"})
	}
	for some := range slices.Chunk(specs, 1000) {
		if _, err := d.journal.CreateAccounts(t.Context(), clerk, main, some); err != nil {
			t.Fatal(err)
		}
	}
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	numbers := map[string]int64{}
	rows, err := conn.Query(t.Context(), `SELECT account_id, account_no FROM account`)
	if err != nil {
		t.Fatal(err)
	}
	accounts, err := pgx.CollectRows(rows, pgx.RowToStructByPos[struct {
		ID string
		No int64
	}])
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		numbers[a.ID] = a.No
	}
	for some := range slices.Chunk(s.transfers, 10_000) {
		var ids, amounts, descriptions, orders []string
		var ats []time.Time
		var debits, credits []int64
		for _, p := range some {
			ids, ats, amounts = append(ids, p.id), append(ats, p.at), append(amounts, p.amount)
			debits = append(debits, numbers[fmt.Sprintf("p%d", p.payer)])
			credits = append(credits, numbers[fmt.Sprintf("m%d", p.payee)])
			descriptions, orders = append(descriptions, p.description), append(orders, p.order)
		}
		if _, err := conn.Exec(t.Context(), `INSERT INTO transfer (ledger_id, transfer_id, posted_at, account_nos, amounts, caller, description, metadata)
			SELECT 1, n.id, n.at, ARRAY[n.debit, n.credit], ARRAY[n.amount::numeric, -n.amount::numeric], 'psql', NULLIF(n.description, ''),
			       CASE WHEN n.orders <> '' THEN json_build_object('order_id', n.orders) END
			  FROM unnest($1::text[], $2::timestamptz[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::text[])
			       AS n (id, at, debit, credit, amount, description, orders)`, ids, ats, debits, credits, amounts, descriptions, orders); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSynthetic plants double charges and legitimate repeats in a month of payments. It is of 20,000 transfers; with KHATA_TEST_LONG it is of a
// million, and says what docs/support.md says.
func TestSynthetic(t *testing.T) {
	n, planted := 20_000, 200
	if os.Getenv("KHATA_TEST_LONG") != "" {
		n, planted = 1_000_000, 10_000
	}
	if size := os.Getenv("KHATA_TEST_SMALL"); size != "" {
		if _, err := fmt.Sscan(size, &n, &planted); err != nil {
			t.Fatal(err)
		}
	}
	for _, telling := range []bool{true, false} {
		name := "payments that say what they are for"
		if !telling {
			name = "payments that say nothing"
		}
		t.Run(name, func(t *testing.T) {
			d := bare(t, quiet)
			s := newSynthetic(n, planted, telling)
			begun := time.Now()
			s.insert(t, d)
			t.Logf("%d transfers, %d doubles, %d legitimate repeats; inserted in %.0f s", len(s.transfers), len(s.doubles), s.repeats, time.Since(begun).Seconds())
			begun = time.Now()
			d.follow(t)
			took := time.Since(begun)
			t.Logf("followed in %.1f s: %.0f transfers/s, %.0f µs each", took.Seconds(), float64(len(s.transfers))/took.Seconds(),
				float64(took.Microseconds())/float64(len(s.transfers)))
			s.judge(t, d)
			if telling && n > 100_000 {
				s.measure(t, d)
				s.posting(t, d)
			}
		})
	}
}

// judge counts what was found of what was planted.
func (s *synthetic) judge(t *testing.T, d *desk) {
	t.Helper()
	double := map[string]int{}
	for i, ids := range s.doubles {
		for _, id := range ids {
			double[id] = i + 1
		}
	}
	found := map[Level]map[int]bool{Low: {}, Medium: {}, High: {}}
	groups, right := map[Level]int{}, map[Level]int{}
	what := map[string]string{}
	for _, p := range s.transfers {
		what[p.id] = p.what
	}
	// Of those that are high: by how many members they have, and what they are where they are wrong.
	high, highRight, wrong := map[bool]int{}, map[bool]int{}, map[string]int{}
	filter := Filter{Limit: MaxPage}
	for {
		page, err := d.Suspects(t.Context(), main, filter)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range page.Groups {
			groups[g.Level]++
			seen, good := map[int]bool{}, false
			for _, m := range g.Members {
				if i := double[string(m.ID)]; i > 0 {
					if seen[i] {
						found[g.Level][i], good = true, true
					}
					seen[i] = true
				}
			}
			if good {
				right[g.Level]++
			}
			if g.Level != High {
				continue
			}
			two := len(g.Members) == 2
			high[two]++
			if good {
				highRight[two]++
			} else {
				wrong[what[string(g.Members[g.Pair[0]].ID)]+" "+what[string(g.Members[g.Pair[1]].ID)]]++
			}
		}
		if page.Next == nil {
			break
		}
		filter.After = page.Next
	}
	t.Logf("high: %d of %d groups of two are right, and %d of %d larger ones; the others are %v", highRight[true], high[true], highRight[false], high[false], wrong)
	all := map[int]bool{}
	for _, l := range Levels() {
		for i := range found[l] {
			all[i] = true
		}
		t.Logf("%s: %d groups, %d of them with a double: precision %.3f; recall of the doubles down to here %.4f", l, groups[l], right[l],
			float64(right[l])/float64(max(1, groups[l])), float64(len(all))/float64(len(s.doubles)))
	}
	if len(all) != len(s.doubles) {
		t.Errorf("%d of %d doubles were found", len(all), len(s.doubles))
	}
	if precision := float64(right[High]) / float64(groups[High]); precision < 0.9 {
		t.Errorf("the precision of those that are high is %.3f", precision)
	}
}

// measure says how large the tables are and how long a page takes.
func (s *synthetic) measure(t *testing.T, d *desk) {
	t.Helper()
	t.Log(query[string](t, d, `SELECT string_agg(relname || ': ' || n || ' rows, ' || pg_size_pretty(pg_total_relation_size(relname::regclass)), E'\n' ORDER BY relname)
		FROM (VALUES ('suspect_window', (SELECT count(*) FROM suspect_window)), ('suspect_group', (SELECT count(*) FROM suspect_group)),
		             ('suspect_member', (SELECT count(*) FROM suspect_member)), ('suspect_list', (SELECT count(*) FROM suspect_list)),
		             ('transfer', (SELECT count(*) FROM transfer)), ('entry', (SELECT count(*) FROM entry))) v (relname, n)`))
	merchant := query[string](t, d, `SELECT a.account_id FROM suspect_list l JOIN account a USING (ledger_id, account_no) WHERE a.account_id LIKE 'm%'
		GROUP BY 1 ORDER BY count(*) DESC, 1 LIMIT 1`)
	for name, filter := range map[string]Filter{
		"the first page": {}, "high only": {AtLeast: High}, "of one merchant": {Account: ledger.AccountID(merchant)},
		"two weeks ago": {Until: noon.Add(month / 2)}, "of all states": everything, "the first ten": {Limit: 10},
	} {
		var times []time.Duration
		n := 0
		for range 100 {
			begun := time.Now()
			page, err := d.Suspects(t.Context(), main, filter)
			if err != nil {
				t.Fatal(err)
			}
			times, n = append(times, time.Since(begun)), len(page.Groups)
		}
		slices.SortFunc(times, func(a, b time.Duration) int { return cmp.Compare(a, b) })
		t.Logf("a page, %s: %d groups, p50 %.1f ms, p99 %.1f ms", name, n, float64(times[50].Microseconds())/1000, float64(times[98].Microseconds())/1000)
	}
	args := []any{[]int16{1, 2, 3}, []int16{3, 2, 1}, int32(1), int64(0), forEver, int64(0), time.Time{}, int32(51)}
	conn, err := pgx.Connect(t.Context(), d.db.SuperDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	rows, err := conn.Query(t.Context(), "EXPLAIN (ANALYZE, BUFFERS) "+dbsqlc.SuspectPage, args...)
	if err != nil {
		t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	t.Log(strings.Join(lines, "\n"))
}

// posting says how many transfers a second are posted without anybody who follows, and with one: in turns, since other things go on, too.
func (s *synthetic) posting(t *testing.T, d *desk) {
	t.Helper()
	var next atomic.Int64
	posted := map[bool][]int64{}
	for round := range 6 {
		follow := round%2 == 1
		ctx, stop := context.WithCancel(t.Context())
		var wait sync.WaitGroup
		if follow {
			one := d.another()
			one.config.Every = 100 * time.Millisecond
			wait.Go(func() { one.Run(ctx) })
		}
		var n atomic.Int64
		var posters sync.WaitGroup
		begun := time.Now()
		for worker := range 4 {
			posters.Go(func() {
				random := rand.New(rand.NewPCG(uint64(round), uint64(worker)))
				for time.Since(begun) < 4*time.Second {
					var specs []ledger.TransferSpec
					for range 200 {
						specs = append(specs, ledger.TransferSpec{
							ID: ledger.TransferID(fmt.Sprintf("x%d", next.Add(1))),
							Entries: ledger.Simple(ledger.AccountID(fmt.Sprintf("p%d", random.IntN(s.payers))),
								ledger.AccountID(fmt.Sprintf("m%d", random.IntN(s.merchants))), dec(fmt.Sprintf("%d.%02d", 1+random.IntN(999), random.IntN(100))), ""),
						})
					}
					if _, err := d.journal.Post(t.Context(), clerk, main, specs); err != nil {
						t.Error(err)
						return
					}
					n.Add(int64(len(specs)))
				}
			})
		}
		posters.Wait()
		posted[follow] = append(posted[follow], int64(float64(n.Load())/time.Since(begun).Seconds()))
		stop()
		wait.Wait()
		// A connection that the follower was stopped on may be the first one that is tried.
		if _, err := d.Follow(t.Context()); ledger.CodeOf(err) != ledger.CodeUnavailable && err != nil {
			t.Fatal(err)
		}
		d.follow(t)
	}
	t.Logf("posted each second: %v without a follower, %v with one", posted[false], posted[true])
}
