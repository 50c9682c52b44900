package ledger

import "fmt"

// decideStep judges a request that is a step of an earlier transfer: its entries follow from that one, and from the steps before
// it.
func (b *Books) decideStep(spec TransferSpec) (*Transfer, error) {
	o, err := b.origin(spec.Terms)
	if err != nil {
		return nil, err
	}
	if spec.Terms.Kind.OfHold() {
		return b.decideHoldStep(spec, o)
	}
	return b.decideGoingBack(spec, o)
}

// origin finds the transfer that a step names, and whether it can have such a step at all. That never changes, and so an error
// decides nothing.
func (b *Books) origin(t *Terms) (*origin, error) {
	o, ok := b.origins[t.Origin]
	if !ok {
		record, ok := b.transfers[t.Origin]
		if !ok || record.Sequence != 0 { // An earlier record would have been entered as an origin.
			return nil, violation(CodeTransferNotFound, t.originField(), "there is no transfer %q", string(t.Origin))
		}
		b.AddOrigin(record, nil)
		o = b.origins[t.Origin]
	}
	wrong := func(format string, args ...any) error {
		return violation(CodeWrongOrigin, t.originField(), "transfer %q "+format, append([]any{string(t.Origin)}, args...)...)
	}
	switch kind := o.Kind(); {
	case o.Refusal != nil:
		return nil, wrong("was refused (%s): it has moved and reserved nothing", o.Refusal.Reason)
	case t.Kind.OfHold() && kind != Hold:
		return nil, wrong("is a %s, not a hold", kind)
	case t.Kind.OfHold():
	case kind == Hold:
		return nil, wrong("is a hold, which has moved nothing: void it, or name its capture")
	case kind.GoesBack():
		return nil, wrong("is a %s, and cannot go back itself: post a new transfer", kind)
	case !kind.Moves():
		return nil, wrong("is a %s, and has moved nothing", kind)
	case t.Kind == Refund && o.Currency.Code == "":
		return nil, wrong("moves several currencies, and can only be reversed")
	}
	return o, nil
}

// decideHoldStep judges a capture, a void or an expiry.
func (b *Books) decideHoldStep(spec TransferSpec, o *origin) (*Transfer, error) {
	t := spec.Terms
	if err := t.checkScale(o.Currency); err != nil {
		return nil, err
	}
	amount := o.Reserved
	if t.Amount != nil {
		amount = *t.Amount
	}
	record := &Transfer{TransferSpec: spec}
	record.Entries = withAmount(o.Entries, amount)
	if !amount.IsPositive() { // Nothing is left. The record says what it would have been about.
		record.Entries = o.Entries
	}
	switch late := o.Step.Deadline != nil && !b.now.Before(*o.Step.Deadline); {
	case t.Kind == Expiry && o.ended():
		return nil, Errorf(CodeHoldEnded, "hold %q has ended", string(t.Origin))
	case t.Kind == Expiry && !late:
		return nil, Errorf(CodeConflict, "the deadline of hold %q is still to come", string(t.Origin))
	case o.ended():
		record.Refusal = &Refusal{Reason: CodeHoldEnded}
	case t.Kind != Capture:
		record.Step = &Step{Ordinal: len(o.Steps) + 1, Ends: true, Reserved: o.Reserved.Neg()}
	case late:
		record.Refusal = &Refusal{Reason: CodeHoldExpired}
	case amount.GreaterThan(o.Reserved):
		record.Refusal = &Refusal{Reason: CodeCaptureExceedsHold}
	default:
		step := &Step{Ordinal: len(o.Steps) + 1, Ends: !t.KeepOpen || amount.Equal(o.Reserved), Reserved: amount.Neg()}
		if step.Ends {
			step.Reserved = o.Reserved.Neg()
		}
		// It takes what was reserved for it, on both sides: no floor or ceiling can be in its way.
		if record.Refusal = b.judgeOpen(record); record.Refusal == nil {
			record.Step = step
		}
	}
	return record, nil
}

// decideGoingBack judges a refund or a reversal.
func (b *Books) decideGoingBack(spec TransferSpec, o *origin) (*Transfer, error) {
	t := spec.Terms
	if err := t.checkScale(o.Currency); err != nil {
		return nil, err
	}
	record := &Transfer{TransferSpec: spec}
	// Unless it turns out that the amount can be had: what a refused one would have been about.
	record.Entries = mirror(o.Entries)
	amount := o.Refundable
	if t.Amount != nil {
		amount = *t.Amount
	}
	switch {
	case o.Reversed:
		record.Refusal = &Refusal{Reason: CodeAlreadyReversed}
		return record, nil
	case t.Kind == Reversal && len(o.Steps) > 0:
		record.Refusal = &Refusal{Reason: CodeAlreadyRefunded}
		return record, nil
	case t.Kind == Reversal:
	case !t.ExpectedRefunded.Equal(o.Refunded):
		record.Refusal = &Refusal{Reason: CodeRefundedChanged}
		return record, nil
	case !amount.IsPositive(), amount.GreaterThan(o.Refundable):
		record.Refusal = &Refusal{Reason: CodeRefundExceedsRest}
		return record, nil
	default:
		record.Entries = o.refund(amount)
	}
	if record.Refusal = b.judge(record); record.Refusal == nil {
		record.Step = &Step{Ordinal: len(o.Steps) + 1, Ends: t.Kind == Reversal}
	}
	return record, nil
}

// Decision is what became of one request of an atomic call.
type Decision struct {
	Transfer *Transfer
	Replayed bool
	Err      error
}

// DecideAtomically judges the requests of one caller in their order, all or nothing. If one of them cannot be posted, nothing is
// decided but that: its refusal, if it is one, is the only new record. Each other request that would have been decided then
// gets CodeAtomicCallRefused, which names it. Requests that were posted before are replayed, and count as posted. If one was refused
// before, it is that one, whatever comes before it: a late retry of the call must not refuse any other, of which its caller was told
// that nothing was written.
func (b *Books) DecideAtomically(specs []TransferSpec, caller string) []Decision {
	decisions := make([]Decision, len(specs))
	for i, spec := range specs {
		if record, err := b.recorded(spec, caller); err == nil && record != nil && record.Refusal != nil {
			decisions[i] = Decision{Transfer: record, Replayed: true}
			b.refuseOthers(decisions, specs, i, caller)
			return decisions
		}
	}
	b.undo = &undo{decided: len(b.decided), accounts: map[AccountID]Funds{}, origins: map[TransferID]Progress{}}
	defer func() { b.undo = nil }()
	for i, spec := range specs {
		d := &decisions[i]
		d.Transfer, d.Replayed, d.Err = b.Decide(spec, caller)
		if d.Err == nil && d.Transfer.Refusal == nil {
			continue
		}
		b.takeBack()
		if d.Err == nil {
			d.Transfer.Atomic = true
			b.enter(d.Transfer)
		}
		b.refuseOthers(decisions, specs, i, caller)
		break
	}
	return decisions
}

// refuseOthers gives the error of those who must not be posted because of one. What was decided before the call is told all the same.
func (b *Books) refuseOthers(decisions []Decision, specs []TransferSpec, i int, caller string) {
	refused := culprit(i, decisions[i])
	for k := range decisions {
		if k == i {
			continue
		}
		decisions[k] = Decision{Err: refused}
		if record, err := b.recorded(specs[k], caller); record != nil && err == nil {
			decisions[k] = Decision{Transfer: record, Replayed: true}
		}
	}
}

// culprit is the error that names it.
func culprit(i int, d Decision) error {
	if d.Err != nil {
		return AtomicCallRefused(i, d.Err)
	}
	why := string(d.Transfer.Refusal.Reason)
	if d.Transfer.Refusal.Account != "" {
		why += " of " + string(d.Transfer.Refusal.Account)
	}
	return AtomicCallRefused(i, fmt.Errorf("%q was refused: %s", string(d.Transfer.ID), why))
}

// AtomicCallRefused is the error of the requests of an atomic call that are not decided because of number i, and why that is
// not posted.
func AtomicCallRefused(i int, why error) error {
	return violation(CodeAtomicCallRefused, fmt.Sprintf("transfers[%d]", i), "%s", why)
}

// undo is how the books were before an atomic call.
type undo struct {
	decided  int
	accounts map[AccountID]Funds
	origins  map[TransferID]Progress
}

func (u *undo) account(a *bookAccount) {
	if u == nil {
		return
	}
	if _, kept := u.accounts[a.ID]; !kept {
		u.accounts[a.ID] = a.Funds
	}
}

func (u *undo) origin(o *origin) {
	if u == nil {
		return
	}
	if _, kept := u.origins[o.ID]; !kept {
		u.origins[o.ID] = o.Progress
	}
}

// takeBack makes the books as they were when the atomic call began.
func (b *Books) takeBack() {
	for id, funds := range b.undo.accounts {
		b.accounts[id].Funds = funds
	}
	for id, progress := range b.undo.origins {
		b.origins[id].Progress = progress
	}
	for _, t := range b.decided[b.undo.decided:] {
		delete(b.transfers, t.ID)
		delete(b.origins, t.ID)
	}
	b.decided = b.decided[:b.undo.decided]
}
