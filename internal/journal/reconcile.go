package journal

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/dbsqlc"
	"github.com/khata-ledger/khata/ledger"
)

// ReconcileEntry is an entry of an account, as reconciliation looks at it.
type ReconcileEntry struct {
	Sequence int64
	Leg      int
	// Amount is positive for a debit.
	Amount      decimal.Decimal
	TransferID  ledger.TransferID
	Kind        ledger.Kind
	Origin      ledger.TransferID
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
	// Texts are those of the metadata that were asked for, in that order, without empty ones.
	Texts []string
	// Others are the other accounts of the transfer, each once. AccountEntries leaves them out.
	Others []ledger.AccountID
}

// AccountEntries gives the entries of an account after spec.Since, through the horizon, in the order of their numbers, with the texts that their
// transfers' metadata have under some keys. When they took place makes no difference. It keeps none of them. An error of yield ends it and is
// returned. It returns CodeAccountNotFound.
func (p *Period) AccountEntries(ctx context.Context, id ledger.AccountID, keys []string, yield func(ReconcileEntry) error) error {
	no, err := p.accountNo(ctx, id)
	if err != nil {
		return err
	}
	if keys == nil {
		keys = []string{}
	}
	args := []any{keys, p.book, no, p.spec.Since, p.horizon}
	return stream(ctx, p, "read the entries of an account", dbsqlc.AccountEntries, args, func(row dbsqlc.AccountEntriesRow) error {
		return yield(ReconcileEntry{
			Sequence: row.Sequence, Leg: int(row.Leg), Amount: row.Amount, TransferID: ledger.TransferID(row.TransferID), Kind: ledger.Kind(row.Kind),
			Origin: ledger.TransferID(row.Origin), PostedAt: row.PostedAt, EffectiveAt: row.EffectiveAt, Description: row.Description, Texts: row.Texts,
		})
	})
}

// AccountEntriesOf gives the entries that an account has of some transfers, given by their numbers or by their ids, in the order of their numbers.
// Those that there are not are left out. It returns CodeAccountNotFound.
func (j *Journal) AccountEntriesOf(ctx context.Context, name ledger.Name, id ledger.AccountID, sequences []int64,
	transfers []ledger.TransferID) ([]ReconcileEntry, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	args := dbsqlc.AccountEntriesOfParams{LedgerID: book.id, Sequences: sequences, TransferIds: make([]string, len(transfers))}
	for i, t := range transfers {
		args.TransferIds[i] = string(t)
	}
	if args.Sequences == nil {
		args.Sequences = []int64{}
	}
	var list []ReconcileEntry
	err = j.read(ctx, "read entries", func(ctx context.Context) error {
		account, err := j.accountRow(ctx, j.pool, book.id, id)
		if err != nil {
			return err
		}
		args.AccountNo = account.AccountNo
		rows, err := j.sql.AccountEntriesOf(ctx, j.pool, args)
		if err != nil {
			return err
		}
		list, err = j.accountEntries(ctx, book.id, account.AccountNo, rows)
		return err
	})
	return list, err
}

func (j *Journal) accountEntries(ctx context.Context, ledgerID int32, accountNo int64, rows []dbsqlc.AccountEntriesOfRow) ([]ReconcileEntry, error) {
	names := map[int64]ledger.AccountID{}
	var nos []int64
	for _, row := range rows {
		for _, no := range row.AccountNos {
			if _, ok := names[no]; !ok {
				names[no] = ""
				nos = append(nos, no)
			}
		}
	}
	accounts, err := j.sql.AccountIDs(ctx, j.pool, dbsqlc.AccountIDsParams{LedgerID: ledgerID, AccountNos: nos})
	if err != nil {
		return nil, err
	}
	for _, a := range accounts {
		names[a.AccountNo] = ledger.AccountID(a.AccountID)
	}
	list := make([]ReconcileEntry, len(rows))
	for i, row := range rows {
		list[i] = ReconcileEntry{
			Sequence: row.Sequence, Leg: int(row.Leg), Amount: row.Amount, TransferID: ledger.TransferID(row.TransferID), Kind: ledger.Kind(row.Kind),
			Origin: ledger.TransferID(row.Origin), PostedAt: row.PostedAt, EffectiveAt: row.EffectiveAt, Description: row.Description,
		}
		told := map[int64]bool{accountNo: true}
		for _, no := range row.AccountNos {
			if !told[no] {
				told[no] = true
				list[i].Others = append(list[i].Others, names[no])
			}
		}
	}
	return list, nil
}

// TransfersNamed gives the records of some ids, as many as there are, in no order.
func (j *Journal) TransfersNamed(ctx context.Context, name ledger.Name, ids []ledger.TransferID) ([]*ledger.Transfer, error) {
	book, err := j.ledger(ctx, name)
	if err != nil {
		return nil, err
	}
	var list []*ledger.Transfer
	err = j.read(ctx, "read transfers", func(ctx context.Context) (err error) {
		list, err = j.transfers(ctx, j.pool, book.id, texts(ids))
		return err
	})
	return list, err
}

// accountNo is the number of an account. It returns CodeAccountNotFound.
func (p *Period) accountNo(ctx context.Context, id ledger.AccountID) (no int64, err error) {
	err = p.read(ctx, "read the account", func(ctx context.Context) error {
		row, err := p.journal.accountRow(ctx, p.journal.pool, p.book, id)
		no = row.AccountNo
		return err
	})
	return no, err
}

func texts(ids []ledger.TransferID) []string {
	list := make([]string, len(ids))
	for i, id := range ids {
		list[i] = string(id)
	}
	return list
}
