package client

import (
	"context"
	"iter"
	"time"

	"github.com/shopspring/decimal"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// Result is what was decided of a transfer. A refusal is a result and not an error: it is on record, and sending the same
// id again brings the same refusal.
type Result struct {
	TransferID ledger.TransferID
	// Refusal is nil for a posted transfer.
	Refusal  *ledger.Refusal
	Sequence int64
	PostedAt time.Time
	// Replayed reports whether this is the first answer again.
	Replayed bool
	// Balances are those of the transfer's accounts as of its sequence, if they were asked for.
	Balances []ledger.Balance
	// Entries are what a posted capture, void, refund, reversal or balancing transfer moved or released; of others nil, since they stand
	// in the request. Of an answer that would be too large they are left out where there are more than two: the record has them.
	Entries []ledger.Entry
	// Deadline is that of a posted hold; nil is none.
	Deadline *time.Time
	// Err is set in the results of PostTransfers and PostAtomically: nothing else is then.
	Err error
}

// Outcome is Posted or Refused.
func (r Result) Outcome() ledger.Outcome {
	if r.Refusal != nil {
		return ledger.Refused
	}
	return ledger.Posted
}

// PostTransfer has one transfer decided. It returns CodeInvalidArgument, CodeUnbalanced, CodeCurrencyMismatch,
// CodeAmountScale, CodeLedgerNotFound, CodeAccountNotFound, CodeTransferNotFound, CodeWrongOrigin, CodeNotSerialised or
// CodeAlreadyExists, after which nothing was written; any other error leaves the outcome open, and the same id has to be sent again.
func (c *Client) PostTransfer(ctx context.Context, spec ledger.TransferSpec) (Result, error) {
	return c.postTransfer(ctx, spec, false)
}

// PostTransferWithBalances is PostTransfer, and answers with the resulting balances.
func (c *Client) PostTransferWithBalances(ctx context.Context, spec ledger.TransferSpec) (Result, error) {
	return c.postTransfer(ctx, spec, true)
}

func (c *Client) postTransfer(ctx context.Context, spec ledger.TransferSpec, balances bool) (Result, error) {
	transfer, err := encodeTransfer(spec)
	if err != nil {
		return Result{}, err
	}
	if err := c.knowsTermsOf(ctx, transfer); err != nil {
		return Result{}, err
	}
	resp, err := call(ctx, c, c.api.PostTransfer, &khatav1.PostTransferRequest{
		Ledger: string(c.options.Ledger), Transfer: transfer, IncludeBalances: balances,
	})
	if err != nil {
		return Result{}, err
	}
	return decodeResult(resp.GetResult(), transfer)
}

// PostTransfers has up to 10,000 transfers decided, each by itself, and returns the results in their order. Those whose
// outcome is open are sent again like a call; what is then still open is in the result's Err. It returns CodeInvalidArgument, with
// nothing sent, if one is of a kind that no caller can ask for, or has terms that the server is too old for.
func (c *Client) PostTransfers(ctx context.Context, specs []ledger.TransferSpec) ([]Result, error) {
	transfers, err := tryEach(specs, encodeTransfer)
	if err != nil {
		return nil, err
	}
	if err := c.knowsTermsOf(ctx, transfers...); err != nil {
		return nil, err
	}
	results := make([]Result, len(specs))
	places := make([]int, len(specs))
	for i := range places {
		places[i] = i
	}
	giveUp := time.Now().Add(c.options.Patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		req := &khatav1.PostTransfersRequest{Ledger: string(c.options.Ledger)}
		for _, place := range places {
			req.Transfers = append(req.Transfers, transfers[place])
		}
		resp, err := call(ctx, c, c.api.PostTransfers, req)
		if err != nil && len(places) < len(specs) {
			for _, place := range places { // The others are known, and stay so.
				results[place].Err = err
			}
			return results, nil
		}
		if err != nil {
			return nil, err
		}
		if len(resp.GetResults()) != len(places) {
			return nil, ledger.Errorf(ledger.CodeInternal, "the server sent %d results for %d transfers", len(resp.GetResults()), len(places))
		}
		var open []int
		for i, place := range places {
			results[place] = decodeTransfersResult(resp.GetResults()[i], transfers[place])
			if ledger.CodeOf(results[place].Err).Retryable() {
				open = append(open, place)
			}
		}
		if places = open; len(open) == 0 || !again(ctx, pause, giveUp) {
			return results, nil
		}
	}
}

// again waits before the next try, and reports whether there is to be one.
func again(ctx context.Context, pause time.Duration, giveUp time.Time) bool {
	if time.Now().Add(pause).After(giveUp) {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

func decodeTransfersResult(in *khatav1.PostTransfersResult, of *khatav1.NewTransfer) Result {
	if in.GetError() != nil {
		return Result{Err: fromStatus(status.FromProto(in.GetError()))}
	}
	result, err := decodeResult(in.GetResult(), of)
	if err != nil {
		return Result{Err: err}
	}
	return result
}

// Transfer gets the record of a decided transfer. It returns CodeTransferNotFound.
//
// It is as the server has it, but for terms that ask for nothing (a plain transfer without conditions), which come back as nil.
func (c *Client) Transfer(ctx context.Context, id ledger.TransferID) (ledger.Transfer, error) {
	t, _, err := c.TransferWithProgress(ctx, id)
	return t, err
}

// Balance gets the balance of an account. It returns CodeAccountNotFound.
func (c *Client) Balance(ctx context.Context, id ledger.AccountID) (ledger.Balance, error) {
	return c.BalanceAsOf(ctx, id, ledger.AsOf{})
}

// BalanceAsOf gets the balance of an account as of a point of the past. It returns CodeAccountNotFound, and
// CodeInvalidArgument for a point that is still to come.
func (c *Client) BalanceAsOf(ctx context.Context, id ledger.AccountID, at ledger.AsOf) (ledger.Balance, error) {
	resp, err := call(ctx, c, c.api.GetBalance, &khatav1.GetBalanceRequest{
		Ledger: string(c.options.Ledger), Account: string(id),
		AsOfSequence: at.Sequence, AsOfPostedAt: encodeTime(at.PostedAt), AsOfEffectiveAt: encodeTime(at.EffectiveAt),
	})
	if err != nil {
		return ledger.Balance{}, err
	}
	return decodeBalanceAsOf(resp.GetBalance(), at)
}

// Balances gets up to 10,000 balances at one point in time, in the order of the ids. It returns CodeAccountNotFound.
func (c *Client) Balances(ctx context.Context, ids []ledger.AccountID) ([]ledger.Balance, error) {
	return c.BalancesAsOf(ctx, ids, ledger.AsOf{})
}

// BalancesAsOf gets up to 10,000 balances as of a point of the past, in the order of the ids. It returns CodeAccountNotFound,
// and CodeInvalidArgument for a point that is still to come.
func (c *Client) BalancesAsOf(ctx context.Context, ids []ledger.AccountID, at ledger.AsOf) ([]ledger.Balance, error) {
	resp, err := call(ctx, c, c.api.GetBalances, &khatav1.GetBalancesRequest{
		Ledger: string(c.options.Ledger), Accounts: each(ids, func(id ledger.AccountID) string { return string(id) }),
		AsOfSequence: at.Sequence, AsOfPostedAt: encodeTime(at.PostedAt), AsOfEffectiveAt: encodeTime(at.EffectiveAt),
	})
	if err != nil {
		return nil, err
	}
	return tryEach(resp.GetBalances(), func(b *khatav1.Balance) (ledger.Balance, error) { return decodeBalanceAsOf(b, at) })
}

// decodeBalanceAsOf refuses the balance of now from a server that does not know the point that was asked for.
func decodeBalanceAsOf(in *khatav1.Balance, at ledger.AsOf) (ledger.Balance, error) {
	asked := at.PostedAt != nil || at.EffectiveAt != nil || at.Sequence != nil && *at.Sequence > 0
	if asked && in.GetAsOfSequence() == 0 {
		return ledger.Balance{}, ledger.Errorf(ledger.CodeInvalidArgument, "this server is too old for balances as of a point of the past")
	}
	return decodeBalance(in)
}

// AccountEntry is an entry in the listing of its account.
type AccountEntry struct {
	Sequence    int64
	TransferID  ledger.TransferID
	Direction   ledger.Direction
	Amount      decimal.Decimal
	Currency    ledger.CurrencyCode
	Balance     decimal.Decimal // after this entry, in the account's normal direction
	PostedAt    time.Time
	EffectiveAt *time.Time
	Description string
}

// Entries goes through the entries of an account with the balance after each, in the order of decision or the newest
// first. Every entry comes exactly once. It ends after an error.
func (c *Client) Entries(ctx context.Context, id ledger.AccountID, newestFirst bool) iter.Seq2[AccountEntry, error] {
	return func(yield func(AccountEntry, error) bool) {
		req := &khatav1.ListEntriesRequest{
			Ledger: string(c.options.Ledger), Account: string(id), NewestFirst: newestFirst,
		}
		for {
			resp, err := call(ctx, c, c.api.ListEntries, req)
			if err != nil {
				yield(AccountEntry{}, err)
				return
			}
			for _, in := range resp.GetEntries() {
				if e, err := decodeAccountEntry(in, resp.GetCurrency()); !yield(e, err) || err != nil {
					return
				}
			}
			if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
				return
			}
		}
	}
}

var directions = map[ledger.Direction]khatav1.Direction{
	ledger.Debit: khatav1.Direction_DIRECTION_DEBIT, ledger.Credit: khatav1.Direction_DIRECTION_CREDIT,
}

func encodeTransfer(spec ledger.TransferSpec) (*khatav1.NewTransfer, error) {
	out := &khatav1.NewTransfer{
		TransferId: string(spec.ID), Description: spec.Description, Metadata: string(spec.Metadata),
	}
	for _, e := range spec.Entries {
		out.Entries = append(out.Entries, &khatav1.Entry{
			Account: string(e.Account), Direction: directions[e.Direction], Amount: ledger.FormatWritten(e.Amount),
			Currency: string(e.Currency.Code),
		})
	}
	out.EffectiveAt = encodeTime(spec.EffectiveAt)
	return out, encodeTerms(out, spec.Terms)
}

func encodeTime(t *time.Time) *timestamppb.Timestamp {
	if t == nil {
		return nil
	}
	return timestamppb.New(*t)
}

// decodeResult reads the result of a request.
func decodeResult(in *khatav1.TransferResult, of *khatav1.NewTransfer) (Result, error) {
	r := Result{
		TransferID: ledger.TransferID(in.GetTransferId()), Refusal: decodeRefusal(in.GetReason(), in.GetReasonAccount()),
		Sequence: in.GetSequence(), PostedAt: in.GetPostedAt().AsTime(), Replayed: in.GetReplayed(), Deadline: decodeTime(in.GetDeadline()),
	}
	var err error
	if r.Balances, err = tryEach(in.GetBalances(), decodeBalance); err != nil {
		return r, err
	}
	if len(in.GetEntries()) > 0 {
		r.Entries, err = tryEach(in.GetEntries(), decodeEntry)
	}
	expires := of.GetHold().GetExpiresAt() != nil || of.GetHold().GetExpiresAfter() != nil
	if err == nil && r.Refusal == nil && (of.GetBalancing() && r.Entries == nil || expires && r.Deadline == nil) {
		// Behind one address there are servers of two ages; see knowsTerms. Asked again, a newer one says what is there.
		err = ledger.Errorf(ledger.CodeInternal, "the server is too old for this transfer, and may have moved the whole amount of %q", of.GetTransferId())
	}
	return r, err
}

func decodeRefusal(reason, account string) *ledger.Refusal {
	if reason == "" {
		return nil
	}
	return &ledger.Refusal{Reason: ledger.Code(reason), Account: ledger.AccountID(account)}
}

func decodeBalance(in *khatav1.Balance) (ledger.Balance, error) {
	posted, err := decodeAmount(in.GetPosted())
	if err != nil {
		return ledger.Balance{}, err
	}
	b := ledger.Balance{
		Account: ledger.AccountID(in.GetAccount()), Posted: posted, Version: in.GetVersion(), AsOf: in.GetAsOfSequence(),
		Currency: ledger.Currency{Code: ledger.CurrencyCode(in.GetCurrency()), Scale: decimals(posted)},
	}
	for _, part := range []struct {
		text string
		to   *decimal.Decimal
	}{{in.GetHeld(), &b.Held}, {in.GetIncoming(), &b.Incoming}} {
		if part.text == "" { // A server from before there were holds.
			continue
		}
		if *part.to, err = decodeAmount(part.text); err != nil {
			return b, err
		}
	}
	return b, nil
}

func decodeEntry(in *khatav1.Entry) (ledger.Entry, error) {
	amount, err := decodeAmount(in.GetAmount())
	return ledger.Entry{
		Account: ledger.AccountID(in.GetAccount()), Direction: keyOf(directions, in.GetDirection()), Amount: amount,
		Currency: ledger.Currency{Code: ledger.CurrencyCode(in.GetCurrency()), Scale: decimals(amount)},
	}, err
}

func decodeTransfer(in *khatav1.Transfer) (ledger.Transfer, error) {
	entries, err := tryEach(in.GetEntries(), decodeEntry)
	if err != nil {
		return ledger.Transfer{}, err
	}
	t := ledger.Transfer{
		TransferSpec: ledger.TransferSpec{
			ID: ledger.TransferID(in.GetTransferId()), Entries: entries, EffectiveAt: decodeTime(in.GetEffectiveAt()),
			Description: in.GetDescription(), Metadata: ledger.Metadata(in.GetMetadata()),
		},
		Refusal: decodeRefusal(in.GetReason(), in.GetReasonAccount()), Sequence: in.GetSequence(),
		PostedAt: in.GetPostedAt().AsTime(), Caller: in.GetCaller(), Atomic: in.GetAtomic(),
	}
	err = decodeTerms(&t, in)
	return t, err
}

func decodeAccountEntry(in *khatav1.AccountEntry, currency string) (AccountEntry, error) {
	amount, err := decodeAmount(in.GetAmount())
	if err != nil {
		return AccountEntry{}, err
	}
	balance, err := decodeAmount(in.GetBalance())
	return AccountEntry{
		Sequence: in.GetSequence(), TransferID: ledger.TransferID(in.GetTransferId()), Direction: keyOf(directions, in.GetDirection()),
		Amount: amount, Currency: ledger.CurrencyCode(currency), Balance: balance, PostedAt: in.GetPostedAt().AsTime(),
		EffectiveAt: decodeTime(in.GetEffectiveAt()), Description: in.GetDescription(),
	}, err
}

// decimals is the scale of a currency as an amount of the server's shows it: these are printed at it.
func decimals(amount decimal.Decimal) int32 { return max(0, -amount.Exponent()) }

func decodeTime(in *timestamppb.Timestamp) *time.Time {
	if in == nil {
		return nil
	}
	t := in.AsTime()
	return &t
}
