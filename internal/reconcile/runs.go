package reconcile

import (
	"context"
	"encoding/json"
	"math"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// Runs lists the runs of a bank account, the newest first, before the place of one; 0 is the beginning of the list. It returns CodeInvalidArgument.
func (r *Reconciler) Runs(ctx context.Context, name ledger.Name, bankAccount string, before, limit int) (list []*Run, more bool, err error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, false, err
	}
	if before <= 0 || before > math.MaxInt32 {
		before = math.MaxInt32
	}
	list, err = r.runs(ctx, r.pool, a, dbsqlc.ReconcileRunsParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, Before: int32(before), PageSize: int32(limit) + 1, //nolint:gosec // a few hundred
	})
	if err != nil {
		return nil, false, public(ctx, "list the runs", err)
	}
	more = len(list) > limit
	return list[:min(limit, len(list))], more, nil
}

// Run gives a run of a bank account by its number; 0 is the last one. It returns CodeInvalidArgument or CodeNotFound.
func (r *Reconciler) Run(ctx context.Context, name ledger.Name, bankAccount string, no int64) (*Run, error) {
	a, err := r.BankAccount(ctx, name, bankAccount)
	if err != nil {
		return nil, err
	}
	return r.run(ctx, a, no)
}

func (r *Reconciler) run(ctx context.Context, a *BankAccount, no int64) (*Run, error) {
	run, err := r.runOf(ctx, r.pool, a, no, "")
	switch {
	case err != nil:
		return nil, public(ctx, "read the run", err)
	case run == nil && no == 0:
		return nil, ledger.Missing("run", "bank account %s has no run yet", a.Name)
	case run == nil:
		return nil, ledger.Missing("run", "%d is no run of bank account %s", no, a.Name)
	}
	return run, nil
}

// runOf finds a run by its number or by its request, or else the last one; nil is none.
func (r *Reconciler) runOf(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, no int64, request string) (*Run, error) {
	list, err := r.runs(ctx, db, a, dbsqlc.ReconcileRunsParams{
		LedgerID: a.ledgerID, BankAccountNo: a.no, Before: math.MaxInt32, RunNo: no, Request: request, PageSize: 1,
	})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return list[0], nil
}

func (r *Reconciler) runs(ctx context.Context, db dbsqlc.DBTX, a *BankAccount, args dbsqlc.ReconcileRunsParams) ([]*Run, error) {
	rows, err := r.sql.ReconcileRuns(ctx, db, args)
	if err != nil {
		return nil, err
	}
	list := make([]*Run, len(rows))
	for i, row := range rows {
		run := &Run{
			No: row.RunNo, Ordinal: int(row.Ordinal), BankAccount: a.Name, Request: row.Request, AsOf: row.AsOf, Through: row.Through,
			SettingsVersion: int(row.SettingVersion), Covers: fromDate(row.CoversOn), Confirmed: row.Confirmed, Results: row.Results,
			RunAt: row.RunAt.UTC(), RunBy: row.RunBy, sinceLine: row.SinceLine, sinceEntry: row.SinceEntry, settledLine: row.SettledLine,
			settledEntry: row.SettledEntry,
		}
		content, err := r.sql.BankSetting(ctx, db, dbsqlc.BankSettingParams{LedgerID: a.ledgerID, BankAccountNo: a.no, Version: row.SettingVersion})
		if err != nil {
			return nil, err
		}
		if run.Settings, err = decodeSettings(content); err != nil {
			return nil, err
		}
		if err := json.Unmarshal([]byte(row.Summary), &run.Summary); err != nil {
			return nil, err
		}
		list[i] = run
	}
	return list, nil
}
