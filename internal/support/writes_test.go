package support

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/ledger"
)

// Whatever a person writes elsewhere is in the audit, too, by the database itself; and if it cannot be there, nothing is written.
func TestWritesElsewhere(t *testing.T) {
	t.Parallel()
	o := setup(t, Config{})
	bank := reconcile.New(o.journal, o.pool)
	reports := report.New(o.journal, o.pool)
	ctx := t.Context()
	csv := "date,amount,balance\n2026-01-02,5.00,5.00\n2026-01-03,-5.00,0.00\n"
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	settings := reconcile.DefaultSettings()
	settings.Profile = "city"
	decide := func(f func(lines []int64) error) error {
		var nos []int64
		list, _, err := bank.Lines(ctx, main, "city", reconcile.LineFilter{Limit: 10})
		for _, l := range list {
			nos = append(nos, l.No)
		}
		if err != nil || len(nos) != 2 {
			return fmt.Errorf("lines: %v, %w", nos, err)
		}
		return f(nos)
	}
	var made int64
	steps := []struct {
		action, object string
		write          func() error
	}{
		{"account.change", "account:wallet:shimul", func() error {
			frozen := ledger.FrozenDebits
			_, err := o.journal.UpdateAccount(ctx, "boss", main, "wallet:shimul", ledger.AccountUpdate{Frozen: &frozen})
			return err
		}},
		{"period.change", "period:2026-01-01", func() error {
			_, _, err := o.journal.ClosePeriod(ctx, "boss", main, ledger.PeriodClose{Before: day, Reason: "the year is over"})
			return err
		}},
		{"statement.issue", "statement:", func() error {
			_, _, err := reports.Issue(ctx, report.StatementSpec{Ledger: main, Account: "wallet:shimul", Period: report.Period{From: day, To: day.AddDate(0, 1, 0), Zone: time.UTC}}, "boss")
			return err
		}},
		{"bank.profile", "bank_profile:city", func() error {
			p := `{"name":"city","header":true,"currency":"BDT","columns":{"booking_date":"date","amount":"amount","balance":"balance"}}`
			profile, err := bankfile.ParseProfile([]byte(p))
			if err == nil {
				_, err = bank.SaveProfile(ctx, main, *profile, "boss")
			}
			return err
		}},
		{"bank.create", "bank_account:city", func() error {
			_, err := bank.CreateBankAccount(ctx, reconcile.BankAccountSpec{Ledger: main, Name: "city", Account: "assets:bank", Settings: &settings}, "boss")
			return err
		}},
		{"bank.import", "bank_account:city", func() error {
			_, err := bank.Import(ctx, reconcile.ImportSpec{Ledger: main, BankAccount: "city", FileName: "january.csv", Format: "csv"}, strings.NewReader(csv), "boss")
			return err
		}},
		{"bank.set", "bank_account:city", func() error {
			changed := settings
			changed.DaysAfter = 5
			_, err := bank.Set(ctx, main, "city", changed, "boss")
			return err
		}},
		{"reconcile.match", "bank_account:city", func() error {
			_, err := bank.Match(ctx, reconcile.MatchSpec{Ledger: main, BankAccount: "city", Request: "one"}, "boss")
			return err
		}},
		{"reconcile.confirm", "bank_account:city", func() error {
			return decide(func(lines []int64) error {
				d, err := bank.Confirm(ctx, reconcile.ConfirmSpec{
					Ledger: main, BankAccount: "city", Request: "two", Reason: "there and back", Lines: []reconcile.LineTake{{Line: lines[0]}, {Line: lines[1]}},
				}, "boss")
				if err == nil {
					made = d.No
				}
				return err
			})
		}},
		{"reconcile.undo", "bank_account:city", func() error {
			_, err := bank.Unmatch(ctx, reconcile.UnmatchSpec{Ledger: main, BankAccount: "city", Match: made, Reason: "it was not"}, "boss")
			return err
		}},
		{"reconcile.ignore", "bank_account:city", func() error {
			return decide(func(lines []int64) error {
				_, err := bank.Ignore(ctx, reconcile.IgnoreSpec{
					Ledger: main, BankAccount: "city", Request: "three", Line: &reconcile.LineTake{Line: lines[0]}, Reason: "a test of the bank's",
				}, "boss")
				return err
			})
		}},
	}
	for _, s := range steps {
		o.db.Exec(t, `ALTER TABLE audit_event ADD CONSTRAINT full_disk CHECK (false) NOT VALID`)
		if err := s.write(); err == nil {
			t.Errorf("%s was written, and could not be in the audit", s.action)
		}
		o.db.Exec(t, `ALTER TABLE audit_event DROP CONSTRAINT full_disk`)
		before := len(o.eventsOf(t, s.action))
		if before != 0 && s.action != "bank.set" { // A new bank account has its first settings.
			t.Errorf("%s: %d events of what was not written", s.action, before)
		}
		for range 2 {
			if err := s.write(); err != nil {
				t.Fatalf("%s: %v", s.action, err)
			}
		}
		events := o.eventsOf(t, s.action)
		if len(events) != before+1 || !strings.HasPrefix(events[0], "boss done "+s.object) {
			t.Errorf("%s: %q", s.action, events)
		}
	}
}

// eventsOf lists the events of an action, the newest first.
func (o *office) eventsOf(t *testing.T, action string) []string {
	t.Helper()
	page, err := o.Audit().List(context.WithoutCancel(t.Context()), AuditFilter{Ledger: main, Action: action})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range page.Events {
		out = append(out, fmt.Sprintf("%s %s %s:%s", e.Actor.Name, e.Outcome, e.Object.Kind, e.Object.ID))
	}
	return out
}
