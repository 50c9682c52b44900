package ledger

// Movement is what a posted transfer did to the balance of one of its accounts.
type Movement struct {
	Account  AccountID
	Currency Currency
	// Funds are what it added to each part of the balance; what it took off is negative. Last is the sequence of the transfer.
	Funds
	// Entries are those of the transfer in this account. Of a hold, a void or an expiry they are not posted: they say on which side it
	// reserves or releases.
	Entries []Entry
}

// Movements lists what the transfer did to each of its accounts, in the order of its entries. It is empty for a refused one. The
// types of the accounts are the caller's to know.
func (t *Transfer) Movements(typeOf func(AccountID) AccountType) []Movement {
	if t.Refusal != nil {
		return nil
	}
	list := make([]Movement, 0, len(t.Entries))
	var at map[AccountID]int // of few accounts it is cheaper to look at each
	if len(t.Entries) > 8 {
		at = make(map[AccountID]int, len(t.Entries))
	}
	find := func(id AccountID) int {
		if at != nil {
			if i, ok := at[id]; ok {
				return i
			}
			at[id] = len(list)
			return len(list)
		}
		for i := range list {
			if list[i].Account == id {
				return i
			}
		}
		return len(list)
	}
	for _, e := range t.Entries {
		i := find(e.Account)
		if i == len(list) {
			list = append(list, Movement{Account: e.Account, Currency: e.Currency, Funds: Funds{Last: t.Sequence}})
		}
		list[i].add(t.adds(typeOf(e.Account), e))
		list[i].Entries = append(list[i].Entries, e)
	}
	return list
}

// adds is what an entry of the transfer, which was posted, adds to the funds of its account.
func (t *Transfer) adds(of AccountType, e Entry) (f Funds) {
	if t.Kind().Moves() {
		f.Posted = of.Signed(e.Direction, e.Amount)
	}
	switch {
	case t.Step == nil || t.Step.Reserved.IsZero():
	case of.NormalBalance() == e.Direction:
		f.Incoming = t.Step.Reserved
	default:
		f.Held = t.Step.Reserved
	}
	return f
}

// Parties are the accounts of the first debit and of the first credit: between people's accounts, who pays and who is paid.
func (s TransferSpec) Parties() (payer, payee AccountID) {
	for _, e := range s.Entries {
		switch {
		case e.Direction == Debit && payer == "":
			payer = e.Account
		case e.Direction == Credit && payee == "":
			payee = e.Account
		}
	}
	return payer, payee
}
