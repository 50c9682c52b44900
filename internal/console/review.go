package console

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/khata-ledger/khata/internal/support"
)

const reviewRoute = "GET /console/{ledger}/review"

// heapNames are what people call what waits.
var heapNames = map[support.Kind]string{
	support.WaitingRefunds: "Refunds that wait for another person", support.StuckKeys: "Stuck payments", support.ParkedEvents: "Events that were not published",
	support.QuarantinedEvents: "Events that a consumer did not handle", support.FlaggedVerdicts: "Flagged by the fraud check",
	support.Breaks: "Open items of banks",
}

func heapName(k support.Kind) string {
	if name, ok := heapNames[k]; ok {
		return name
	}
	return string(k)
}

// taskView is one thing that waits.
type taskView struct {
	Since      moment
	What, Next string
	// Of is the transfer that it is about, and Path where it is settled; "" is nowhere here.
	Of, OfPath, Path, Link string
}

// heapView is what waits of one kind.
type heapView struct {
	ID, Title, Count string
	Oldest           moment
	Age, Next        string
	Tasks            []taskView
	// Path is where all of them are; "" is nowhere here.
	Path, Link string
	Empty      bool
	// Rest says that not all of them are shown.
	Rest bool
}

// reviewMain is what the review list shows.
type reviewMain struct {
	Heaps   []heapView
	Missing []support.Missing
	// Suspects is the way to double charges, which have a list of their own.
	Suspects string
	Zone     string
}

func (v *visit) review() error {
	if v.config.Desk == nil {
		return errNotFound
	}
	r, err := v.config.Desk.Review(v.r.Context(), v.actor(), v.ledger)
	if err != nil {
		return err
	}
	main := &reviewMain{Zone: v.location(values{}).String()}
	for _, m := range r.Missing {
		main.Missing = append(main.Missing, support.Missing{Source: heapName(support.Kind(m.Source)), Why: m.Why})
	}
	now := time.Now()
	for i := range r.Heaps {
		main.Heaps = append(main.Heaps, v.heapView(&r.Heaps[i], now))
	}
	if v.served(suspectsRoute) && v.may(suspectsRoute) {
		main.Suspects = v.path("suspects", nil)
	}
	return v.render(http.StatusOK, page{Name: "review", Title: "Review", Section: reviewRoute, Wide: true, Main: main})
}

func (v *visit) heapView(h *support.Heap, now time.Time) heapView {
	view := heapView{
		ID: string(h.Kind), Title: heapName(h.Kind), Count: grouped(strconv.Itoa(h.Count)), Oldest: v.instant(h.Oldest), Next: h.Next, Empty: h.Count == 0,
		Rest: len(h.Entries) < h.Count,
	}
	if h.More {
		view.Count = "more than " + view.Count
	}
	if !h.Oldest.IsZero() {
		view.Age = ageText(now.Sub(h.Oldest))
	}
	switch {
	case h.Kind == support.WaitingRefunds && v.may(refundsRoute):
		view.Path, view.Link = v.path("refunds", url.Values{"state": {string(support.Waiting)}}), "All that wait"
	case h.Kind == support.Breaks && v.served(reconcileRoute) && v.may(reconcileRoute):
		view.Path, view.Link = v.path("reconcile", nil), "Reconciliation"
	}
	for _, t := range h.Entries {
		task := taskView{Since: v.instant(t.Since), What: t.What, Next: t.Next}
		if t.Transfer != "" {
			task.Of, task.OfPath = shownID(t.Transfer), v.storyPath(t.Transfer)
		}
		switch {
		case t.ID == "":
		case h.Kind == support.WaitingRefunds:
			task.Path, task.Link = v.path("refunds/"+url.PathEscape(t.ID), nil), "Request "+t.ID
		case h.Kind == support.Breaks && view.Path != "":
			task.Path, task.Link = v.path("reconcile/bank/"+url.PathEscape(t.ID)+"/work", nil), "Work list of "+t.ID
		}
		view.Tasks = append(view.Tasks, task)
	}
	return view
}

// ageText is how long something waits, as a person says it.
func ageText(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "less than a minute"
	case d < time.Hour:
		return plural(int(d/time.Minute), "minute", "minutes")
	case d < 48*time.Hour:
		return plural(int(d/time.Hour), "hour", "hours")
	}
	return fmt.Sprintf("%d days", int(d/(24*time.Hour)))
}
