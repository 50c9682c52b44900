package bankfile

import (
	"encoding/xml"
	"fmt"

	"github.com/shopspring/decimal"
)

// camtTransaction is what a TxDtls says.
type camtTransaction struct {
	position int
	// amount has a sign only if signed; hasAmount says that there is one.
	amount            decimal.Decimal
	currency          string
	hasAmount, signed bool
	externalID        string
	references        References
	debtor, creditor  Party
	code              string
	description       string
}

// camtEntry reads an entry. Its transactions are taken one by one as they come: a batch may have thousands.
func (p *parse) camtEntry(x *xmlReader, s *camtReading, start xml.StartElement) error {
	position := x.position()
	var transactions []camtTransaction
	n, err := x.tree(start, 0, func(kid *node) (bool, error) {
		if kid.name != "TxDtls" {
			return false, nil
		}
		x.budget.renew()
		if err := p.room(s.Statement, 1+len(transactions), x.position()); err != nil {
			return true, err
		}
		t, err := readTransaction(kid)
		if err != nil {
			return true, malformed(x.position(), "TxDtls: %s", err)
		}
		t.position = x.position()
		transactions = append(transactions, t)
		return true, nil
	})
	if err != nil {
		return err
	}
	line, err := readEntry(n)
	if err != nil {
		return malformed(position, "Ntry: %s", err)
	}
	line.Position = position
	s.complete(&line, transactions)
	return p.add(s.Statement, &line)
}

// readEntry reads what an entry says itself.
func readEntry(n *node) (Line, error) {
	line := Line{Status: StatusBooked}
	var err error
	if line.Amount, line.Currency, err = camtAmount(n); err != nil {
		return line, err
	}
	if err := line.camtStatus(n.find("Sts")); err != nil {
		return line, err
	}
	if raw, ok := camtDate(n.find("BookgDt")); ok {
		if line.BookingDate, err = raw.date(); err != nil {
			return line, fmt.Errorf("booking date: %w", err)
		}
	}
	if raw, ok := camtDate(n.find("ValDt")); ok {
		if err := line.setValueDate(raw); err != nil {
			return line, err
		}
	}
	// The sign is that of this entry. The indicator only says that it takes an earlier one back: with CRDT, a debit.
	switch text := n.get("RvslInd"); text {
	case "", "false", "0":
	case "true", "1":
		line.Reversal = true
	default:
		return line, fmt.Errorf("RvslInd is %.40q", text)
	}
	line.References.Bank = reference(n.get("AcctSvcrRef"))
	line.References.Batch = reference(n.get("NtryDtls", "Btch", "PmtInfId"))
	line.ExternalID = line.References.Bank
	line.Code = camtCode(n.find("BkTxCd"))
	line.Description = clean(n.get("AddtlNtryInf"))
	return line, nil
}

// camtStatus reads the status: text until version .07, Cd since. FUTR is one that will come.
func (l *Line) camtStatus(n *node) error {
	text := n.get()
	if code := n.get("Cd"); code != "" {
		text = code
	}
	switch text {
	case "BOOK":
	case "PDNG", "FUTR":
		l.Status = StatusPending
	case "INFO":
		l.Status = StatusInformation
	case "":
		l.flag(FlagNoStatus, "the entry does not say whether it is booked: read as booked")
	default:
		return fmt.Errorf("status %.40q is not known", text)
	}
	return nil
}

// camtCode is the kind of movement: domain, family and sub-family, or else the bank's own.
func camtCode(n *node) string {
	code := join("/", n.get("Domn", "Cd"), n.get("Domn", "Fmly", "Cd"), n.get("Domn", "Fmly", "SubFmlyCd"))
	if code == "" {
		code = clean(n.get("Prtry", "Cd"))
	}
	return code
}

// readTransaction reads a TxDtls.
func readTransaction(n *node) (camtTransaction, error) {
	t := camtTransaction{code: camtCode(n.find("BkTxCd"))}
	if err := t.readAmount(n); err != nil {
		return t, err
	}
	refs := n.find("Refs")
	t.references = References{
		EndToEnd: reference(refs.get("EndToEndId")), Bank: reference(refs.get("AcctSvcrRef")), Instruction: reference(refs.get("InstrId")),
		Transaction: reference(refs.get("TxId")), Mandate: reference(refs.get("MndtId")), Cheque: reference(refs.get("ChqNb")),
		Batch: reference(refs.get("PmtInfId")), Creditor: reference(n.get("RmtInf", "Strd", "CdtrRefInf", "Ref")),
	}
	t.externalID = t.references.Bank
	parties, agents := n.find("RltdPties"), n.find("RltdAgts")
	t.debtor = camtParty(parties, agents, "Dbtr")
	t.creditor = camtParty(parties, agents, "Cdtr")
	var texts []string
	for _, text := range n.find("RmtInf").all("Ustrd") {
		texts = append(texts, text.text)
	}
	t.description = join(" ", append(texts, n.get("AddtlTxInf"))...)
	return t, nil
}

// readAmount reads the amount of the transaction in the currency of the account. Version .08 has it beside the direction, .02 below AmtDtls.
func (t *camtTransaction) readAmount(n *node) error {
	amt := n.find("Amt")
	if amt == nil {
		amt = n.find("AmtDtls", "TxAmt", "Amt")
	}
	if amt == nil {
		return nil
	}
	amount, err := parseNumber(amt.text, '.')
	if err != nil {
		return err
	}
	t.amount, t.currency, t.hasAmount = amount, amt.currency, true
	if n.find("CdtDbtInd") != nil {
		t.signed = true
		t.amount, err = camtSign(n, amount)
	}
	return err
}

// camtParty reads a party: its name stands one level deeper since version .08.
func camtParty(parties, agents *node, role string) Party {
	name := parties.get(role, "Nm")
	if name == "" {
		name = parties.get(role, "Pty", "Nm")
	}
	account := parties.get(role+"Acct", "Id", "IBAN")
	if account == "" {
		account = parties.get(role+"Acct", "Id", "Othr", "Id")
	}
	bank := agents.get(role+"Agt", "FinInstnId", "BICFI")
	if bank == "" {
		bank = agents.get(role+"Agt", "FinInstnId", "BIC")
	}
	return Party{Name: clean(name), Account: clean(account), Bank: clean(bank)}
}

// counterparty is the other side: of money that came in whoever paid, of money that went out whoever received it, and the other way round where that
// is taken back. A bank that fills in only one party, and not the account holder, means that one.
func (t *camtTransaction) counterparty(credit, reversal bool, account string) Party {
	other, own := t.debtor, t.creditor
	if credit == reversal {
		other, own = own, other
	}
	if other == (Party{}) && own.Account != account {
		return own
	}
	return other
}

// complete adds to a line what its transactions say: one is the line itself, several are its details.
func (s *camtReading) complete(line *Line, transactions []camtTransaction) {
	credit := !line.Amount.IsNegative()
	if len(transactions) == 1 {
		t := &transactions[0]
		line.References = line.References.or(t.references)
		line.Counterparty = t.counterparty(credit, line.Reversal, s.AccountID)
		line.Description = join(" ", t.description, line.Description)
		if line.ExternalID == "" {
			line.ExternalID = t.externalID
		}
		if line.Code == "" {
			line.Code = t.code
		}
		return
	}
	for i := range transactions {
		line.Details = append(line.Details, s.detail(line, &transactions[i], credit))
	}
	if len(line.Details) > 0 {
		s.batches.look(line, transactions)
	}
}

// detail is a part of a batch.
func (s *camtReading) detail(line *Line, t *camtTransaction, credit bool) Line {
	switch {
	case t.signed: // a batch may have parts of either sign
		credit = !t.amount.IsNegative()
	case !credit:
		t.amount = t.amount.Neg()
	}
	if t.currency == "" {
		t.currency = line.Currency
	}
	d := Line{
		Position: t.position, Amount: t.amount, Currency: t.currency, Reversal: line.Reversal, ExternalID: t.externalID, References: t.references,
		Counterparty: t.counterparty(credit, line.Reversal, s.AccountID), Code: t.code, Description: t.description,
	}
	if d.References.Batch == "" {
		d.References.Batch = line.References.Batch
	}
	return d
}

// or fills in from others what r has not.
func (r References) or(others References) References {
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&r.EndToEnd, others.EndToEnd}, {&r.Bank, others.Bank}, {&r.Customer, others.Customer}, {&r.Instruction, others.Instruction},
		{&r.Transaction, others.Transaction}, {&r.Mandate, others.Mandate}, {&r.Creditor, others.Creditor}, {&r.Batch, others.Batch},
		{&r.Source, others.Source}, {&r.Cheque, others.Cheque},
	} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	return r
}

// batchCount counts the batches of a statement, and those whose details do not add up.
type batchCount struct{ all, differ int }

// look adds up the details of a line. Charges, or amounts in the currency of the payer, may lie between the two sums, so a difference is a remark and
// no reason to refuse the file; but such details must not stand in for the line.
func (b *batchCount) look(line *Line, transactions []camtTransaction) {
	b.all++
	sum := decimal.Zero
	for i := range line.Details {
		if !transactions[i].hasAmount || line.Details[i].Currency != line.Currency {
			b.differ++
			line.flag(FlagDetailsDiffer, "detail %d of the batch has no amount in %s", i+1, line.Currency)
			return
		}
		sum = sum.Add(line.Details[i].Amount)
	}
	if !sum.Equal(line.Amount) {
		b.differ++
		line.flag(FlagDetailsDiffer, "the details of the batch make %s, and the line is %s", written(sum, line.Currency), written(line.Amount,
			line.Currency))
	}
}

func (b *batchCount) report(s *Statement) {
	switch {
	case b.all == 0:
	case b.differ == 0:
		s.held(CheckDetails, "the details of each of %d batches add up to its line", b.all)
	default:
		s.notMade(CheckDetails, "the details of %d of %d batches do not add up to their lines, or not all have an amount: there only the line can be used",
			b.differ, b.all)
	}
}
