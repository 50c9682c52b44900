// Package grpcapi serves khata.v1.LedgerService: it decodes requests into the words of package ledger, calls the journal,
// and encodes answers. It decides nothing.
package grpcapi
