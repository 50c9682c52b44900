package client

import (
	"context"
	"iter"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Reconciliation compares the books of the client's ledger with what banks say: it imports the files of bank accounts, has their lines matched with
// entries of the books, keeps what people decide, and asks for the reports about that. docs/reconciliation.md has the words and the rules.
//
// All amounts are in units of the bank account's currency (12.34 is 12 euros and 34 cents), and positive where they are in the account holder's
// favour, of lines and of entries. Days are text such as "2026-01-31", and "" is none.
//
// Errors are *ledger.Error. What names a bank account, profile, file, line, run or decision that there is not is CodeNotFound about that field.
// Beside what each method names, all return CodeLedgerNotFound, and what any call does where the server cannot be reached or does not let the caller.
type Reconciliation struct {
	client *Client
	api    khatav1.ReconcileServiceClient
}

// Reconciliation gives what compares the books with what banks say, over the client's connection.
func (c *Client) Reconciliation() *Reconciliation {
	return &Reconciliation{client: c, api: khatav1.NewReconcileServiceClient(c.conn)}
}

func (r *Reconciliation) ledger() string { return string(r.client.options.Ledger) }

// patientFor gives a client of the same connection that waits for at least so long for one answer, where the default would be too short: a run over
// a million entries takes half a minute. A client that leaves this to the context does so here, too.
func (c *Client) patientFor(attempt time.Duration) *Client {
	patient := *c
	if patient.options.AttemptTimeout > 0 {
		patient.options.AttemptTimeout = max(patient.options.AttemptTimeout, attempt)
	}
	return &patient
}

// settle sends a decision, and sends it again while its outcome is open. A conflict is not open here: somebody else has decided first, and would have
// the next time, too.
func settle[Req, Resp any](
	ctx context.Context, c *Client, method func(context.Context, Req, ...grpc.CallOption) (Resp, error), req Req,
) (resp Resp, err error) {
	err = c.again(ctx, func() (final bool, err error) {
		resp, err = attempt(ctx, c, method, req)
		return ledger.CodeOf(err) == ledger.CodeConflict, err
	})
	return resp, err
}

// paged goes through a list that comes in pages. It ends after an error.
func paged[Resp interface{ GetNextPageToken() string }, Item any](
	page func(token string) (Resp, error), items func(Resp) ([]Item, error),
) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var none Item
		for token := ""; ; {
			resp, err := page(token)
			if err != nil {
				yield(none, err)
				return
			}
			list, err := items(resp)
			if err != nil {
				yield(none, err)
				return
			}
			for _, item := range list {
				if !yield(item, nil) {
					return
				}
			}
			if token = resp.GetNextPageToken(); token == "" {
				return
			}
		}
	}
}

// amounts reads the amounts of an answer, and keeps the first error.
type amounts struct{ err error }

// of reads an amount; "" is zero.
func (a *amounts) of(text string) decimal.Decimal {
	if text == "" {
		return decimal.Zero
	}
	amount, err := decodeAmount(text)
	if a.err == nil {
		a.err = err
	}
	return amount
}

// optional reads an amount; "" is none.
func (a *amounts) optional(text string) *decimal.Decimal {
	if text == "" {
		return nil
	}
	amount := a.of(text)
	return &amount
}

// encodeOpen writes how much of an item; zero is all that is open.
func encodeOpen(amount decimal.Decimal) string {
	if amount.IsZero() {
		return ""
	}
	return ledger.FormatWritten(amount)
}

func encodeMoneyIn(direction ledger.Direction) (khatav1.Direction, error) {
	if direction == "" {
		return khatav1.Direction_DIRECTION_UNSPECIFIED, nil
	}
	out, ok := directions[direction]
	if !ok {
		return 0, ledger.Invalid("money_in", "%.40q is not debit or credit", string(direction))
	}
	return out, nil
}

// decodeMap gives nil for an empty map.
func decodeMap[A, B any](in map[string]A, f func(A) B) map[string]B {
	if len(in) == 0 {
		return nil
	}
	out := make(map[string]B, len(in))
	for key, value := range in {
		out[key] = f(value)
	}
	return out
}
