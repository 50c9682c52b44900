package bankfile

import (
	"errors"
	"io"

	"github.com/shopspring/decimal"
)

// csv reads a file by its profile. Each account, and each currency of one, is a statement.
func (p *parse) csv() error {
	profile := p.o.Profile
	scan, err := newCSVScan(profile, p.in, p.limits)
	if err != nil {
		return err
	}
	b := csvBook{p: p, accounts: map[csvKey]*csvAccount{}}
	var decoder *csvDecoder
	var skipped, footer []csvRow
	for {
		row, err := scan.next()
		switch {
		case errors.Is(err, io.EOF) && len(skipped) == profile.SkipLines && (scan.header != nil || !profile.Header):
			return b.close(profile, decoder, skipped, footer)
		case errors.Is(err, io.EOF):
			return malformed(0, "the file ends before its rows begin")
		case err != nil:
			return err
		}
		if decoder == nil && row.kind != RowSkipped {
			if decoder, err = newCSVDecoder(profile, scan.header); err != nil {
				return malformed(row.position, "%s", err)
			}
		}
		switch row.kind {
		case RowSkipped:
			skipped = append(skipped, row)
		case RowFooter:
			footer = append(footer, row)
		case RowLine:
			if err := b.row(decoder, row); err != nil {
				return err
			}
		}
	}
}

// csvBook gathers the rows of a file by account.
type csvBook struct {
	p        *parse
	accounts map[csvKey]*csvAccount
	order    []*csvAccount
}

type csvKey struct{ account, currency string }

// csvAccount is a statement with the balances beside its lines.
type csvAccount struct {
	*Statement
	index    int // among the statements of the file
	balances []decimal.Decimal
	// without is the first line that has no balance beside it, 0 if all have one.
	without int
}

func (b *csvBook) row(d *csvDecoder, row csvRow) error {
	read, err := d.decode(row)
	if err != nil {
		return malformed(row.position, "%s", err)
	}
	key := csvKey{read.account, read.line.Currency}
	account := b.accounts[key]
	if account == nil {
		account = &csvAccount{Statement: &Statement{AccountID: key.account, Currency: key.currency}, index: len(b.p.file.Statements)}
		if err := b.p.open(account.Statement); err != nil {
			return err
		}
		b.accounts[key] = account
		b.order = append(b.order, account)
	}
	if err := b.p.add(account.Statement, &read.line); err != nil {
		return err
	}
	switch {
	case read.balance != nil:
		account.balances = append(account.balances, *read.balance)
	case account.without == 0:
		account.without = len(account.Lines)
	}
	return nil
}

// close makes the checks that need all rows.
func (b *csvBook) close(profile *Profile, d *csvDecoder, skipped, footer []csvRow) error {
	if len(b.order) == 0 && profile.Opening == nil && profile.Closing == nil { // It may as well be cut off, or be another file.
		if profile.Header {
			return refusal(ReasonEmpty, 0, "the file has a header and no rows")
		}
		return refusal(ReasonEmpty, 0, "the file has no rows")
	}
	if len(b.order) == 0 && profile.Currency != "" { // a period without movements, whose balances say so
		account := &csvAccount{Statement: &Statement{AccountID: profile.Account, Currency: profile.Currency}}
		if err := b.p.open(account.Statement); err != nil {
			return err
		}
		b.order = append(b.order, account)
	}
	for _, account := range b.order {
		if !profile.Columns.Balance.IsZero() && len(account.Lines) > 0 {
			b.p.verifyRunning(account)
		}
	}
	for _, cell := range []struct {
		*Cell
		what string
		set  func(*Statement, *Balance)
	}{
		{profile.Opening, "opening", func(s *Statement, b *Balance) { s.Opening = b }},
		{profile.Closing, "closing", func(s *Statement, b *Balance) { s.Closing = b }},
	} {
		if cell.Cell == nil {
			continue
		}
		row, err := cellRow(cell.Cell, skipped, footer)
		if err != nil {
			return err
		}
		amount, err := d.orNew(profile).cell(cell.Cell, row)
		if err != nil {
			return malformed(row.position, "%s balance: %s", cell.what, err)
		}
		if err := b.setBalance(cell.what, *amount, cell.set); err != nil {
			return err
		}
	}
	return nil
}

// orNew is a decoder of amounts for a file that has no rows.
func (d *csvDecoder) orNew(profile *Profile) *csvDecoder {
	if d != nil {
		return d
	}
	return &csvDecoder{profile: *profile, style: numberStyle{profile.decimalMark(), profile.GroupMark}}
}

func cellRow(cell *Cell, skipped, footer []csvRow) (csvRow, error) {
	if cell.Line > 0 {
		return skipped[cell.Line-1], nil
	}
	if len(footer) < -cell.Line {
		return csvRow{}, malformed(0, "the file has fewer lines than its footer should")
	}
	return footer[len(footer)+cell.Line], nil
}

// setBalance gives the one statement of the file a balance that stands outside the rows, and compares it with the one beside them.
func (b *csvBook) setBalance(what string, amount decimal.Decimal, set func(*Statement, *Balance)) error {
	if len(b.order) == 0 {
		return nil // the file has no rows to say of which currency it is, and is refused as empty
	}
	if len(b.order) > 1 {
		return malformed(0, "the profile gives one %s balance, and the file has %d accounts or currencies", what, len(b.order))
	}
	account := b.order[0]
	s := account.Statement
	running := map[string]*Balance{"opening": s.Opening, "closing": s.Closing}[what]
	if running != nil && running.Code == CodeRunning && !running.Amount.Equal(amount) {
		check := compare(CheckRunning, what+" balance", written(amount, s.Currency), written(running.Amount, s.Currency))
		b.p.failed(account.index, s, check, ReasonRunning, 0)
	}
	set(s, &Balance{Code: what, Amount: amount, Currency: s.Currency})
	return nil
}
