package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/khata-ledger/khata/ledger"
)

// transferJSON is a transfer in the documented NDJSON shape.
type transferJSON struct {
	TransferID    string          `json:"transfer_id"`
	DebitAccount  string          `json:"debit_account,omitempty"`
	CreditAccount string          `json:"credit_account,omitempty"`
	Amount        string          `json:"amount,omitempty"`
	Currency      string          `json:"currency,omitempty"`
	Entries       []entryJSON     `json:"entries,omitempty"`
	EffectiveAt   string          `json:"effective_at,omitempty"`
	Description   string          `json:"description,omitempty"`
	Metadata      json.RawMessage `json:"metadata,omitempty"`
}

type entryJSON struct {
	Account   string `json:"account"`
	Direction string `json:"direction"`
	Amount    string `json:"amount"`
	Currency  string `json:"currency,omitempty"`
}

// Convert reads a file as Run does and writes the transfers as NDJSON, which Run reads too, instead of posting them. In the
// summary only Lines, Wrong and Skipped count.
func Convert(ctx context.Context, in io.Reader, out io.Writer, config Config) (Summary, error) {
	started := time.Now()
	var s settler
	src, err := open(&cancelReader{ctx: ctx, in: in}, config)
	if err != nil {
		return s.Summary, err
	}
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	for {
		r, err := src.next()
		s.Skipped, s.Elapsed = src.skipped, time.Since(started)
		switch {
		case errors.Is(err, io.EOF):
			return s.Summary, nil
		case err != nil:
			return s.Summary, &StoppedError{Line: r.line, Err: fmt.Errorf("read the file: %w", err)}
		case r.err == nil:
			s.Lines++
			err = enc.Encode(toJSON(r.spec))
		default:
			problem := s.count(r, nil)
			if config.Problem != nil {
				err = config.Problem(*problem)
			}
		}
		if err != nil {
			return s.Summary, &StoppedError{Line: r.line, Err: err}
		}
	}
}

func toJSON(spec ledger.TransferSpec) transferJSON {
	out := transferJSON{TransferID: string(spec.ID), Description: spec.Description}
	if spec.EffectiveAt != nil {
		out.EffectiveAt = spec.EffectiveAt.Format(time.RFC3339Nano)
	}
	if spec.Metadata != "" {
		out.Metadata = json.RawMessage(spec.Metadata)
	}
	for _, e := range spec.Entries {
		out.Entries = append(out.Entries, entryJSON{
			string(e.Account), string(e.Direction), ledger.FormatWritten(e.Amount), string(e.Currency.Code),
		})
	}
	if e := out.Entries; len(e) == 2 && e[0].Direction == string(ledger.Debit) && e[1].Direction == string(ledger.Credit) &&
		e[0].Amount == e[1].Amount && e[0].Currency == e[1].Currency {
		out.DebitAccount, out.CreditAccount = e[0].Account, e[1].Account
		out.Amount, out.Currency, out.Entries = e[0].Amount, e[0].Currency, nil
	}
	return out
}
