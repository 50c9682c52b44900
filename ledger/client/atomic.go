package client

import (
	"context"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// PostAtomically has up to 1,000 transfers with up to 5,000 entries decided in their order, all or nothing, and returns the results in
// their order. If one cannot be posted, its refusal is the only one that is on record; each of the others has CodeAtomicCallRefused,
// which names it, unless it was decided before. While the outcome of one is open, the whole call is sent again: a part of it would be
// another call.
func (c *Client) PostAtomically(ctx context.Context, specs []ledger.TransferSpec) ([]Result, error) {
	transfers, err := tryEach(specs, encodeTransfer)
	if err != nil {
		return nil, err
	}
	return c.postAtomically(ctx, transfers)
}

// Request is a request for a transfer in the form that goes over the wire, which the server judges as it is.
type Request struct{ message *khatav1.NewTransfer }

// ReadRequest reads a khata.v1.NewTransfer from JSON, by the rules of protobuf. A field that it does not know is an error: to leave it
// out would be to ask for something else. It returns CodeInvalidArgument.
func ReadRequest(text []byte) (Request, error) {
	message := &khatav1.NewTransfer{}
	if err := protojson.Unmarshal(text, message); err != nil {
		// Its spaces are not the same in every build, so that nobody relies on the text.
		why := strings.TrimSpace(strings.TrimPrefix(strings.ReplaceAll(err.Error(), "\u00a0", " "), "proto:"))
		return Request{}, ledger.Errorf(ledger.CodeInvalidArgument, "is no transfer of the API: %s", why)
	}
	return Request{message}, nil
}

// TransferID is the id of the transfer that is asked for.
func (r Request) TransferID() ledger.TransferID { return ledger.TransferID(r.message.GetTransferId()) }

// PostRequestsAtomically is PostAtomically for requests that were read.
func (c *Client) PostRequestsAtomically(ctx context.Context, requests []Request) ([]Result, error) {
	return c.postAtomically(ctx, each(requests, func(r Request) *khatav1.NewTransfer { return r.message }))
}

func (c *Client) postAtomically(ctx context.Context, transfers []*khatav1.NewTransfer) ([]Result, error) {
	if err := c.knowsTerms(ctx); err != nil {
		return nil, err
	}
	req := &khatav1.PostTransfersRequest{Ledger: string(c.options.Ledger), Transfers: transfers, Atomic: true}
	giveUp := time.Now().Add(c.options.Patience)
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		resp, err := call(ctx, c, c.api.PostTransfers, req)
		if err != nil {
			return nil, err
		}
		if len(resp.GetResults()) != len(transfers) {
			return nil, ledger.Errorf(ledger.CodeInternal, "the server sent %d results for %d transfers", len(resp.GetResults()), len(transfers))
		}
		results := make([]Result, len(transfers))
		open := false
		for i, in := range resp.GetResults() {
			results[i] = decodeTransfersResult(in, transfers[i])
			open = open || ledger.CodeOf(results[i].Err).Retryable()
		}
		if !open || !again(ctx, pause, giveUp) {
			return results, nil
		}
	}
}
