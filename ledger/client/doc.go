// Package client is the Go client of Khata's gRPC API, in the words of package ledger.
//
// Errors are *ledger.Error, as on the server: errors.Is(err, ledger.CodeAccountNotFound). Where the outcome of a call is
// open, because an answer was lost or did not come in time, the client sends the same request again, under the same id,
// until the context ends or Options.Patience is spent. That is safe: every request of the API repeated is the same request.
//
//	c, err := client.Dial("127.0.0.1:7070", client.Options{})
//	...
//	defer c.Close()
//	result, err := c.PostTransfer(ctx, ledger.TransferSpec{
//		ID:      "TXN-88412",
//		Entries: ledger.Simple("wallet:shimul", "wallet:tithi", decimal.RequireFromString("500.00"), "BDT"),
//	})
//
// What goes beyond moving entries stands in the Terms of a request: holds and their steps, refunds, reversals, conditions. To a server
// from before these they are unknown fields, which it ignores: it would move what is to be held. So the client asks the server first
// whether it knows them, once.
package client
