package grpcapi

import (
	"fmt"
	"strings"

	"github.com/shopspring/decimal"

	"github.com/khata-ledger/khata/internal/bankfile"
	"github.com/khata-ledger/khata/internal/reconcile"
	"github.com/khata-ledger/khata/internal/report"
	"github.com/khata-ledger/khata/internal/wire"
	"github.com/khata-ledger/khata/ledger"
	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// called gives fields other names: of each two names the first becomes the second.
func called(names ...string) func(string) string {
	return func(field string) string {
		for i := 0; i < len(names); i += 2 {
			if field == names[i] {
				return names[i+1]
			}
		}
		return field
	}
}

// inSettings calls the fields of settings as the API does.
func inSettings(field string) string {
	first, _, _ := strings.Cut(field, "[")
	switch first {
	case "identifiers", "profile", "days_before", "days_after", "tolerance", "transit_days", "reference_keys", "confirm", "bai2_decimals":
		return "settings." + field
	case "from": // of the period that begins with the day
		return "begins"
	}
	return field
}

// decodeLedger reads the name of a ledger, which is looked up before anybody else has a look at it.
func decodeLedger(in interface{ GetLedger() string }) (ledger.Name, error) {
	name := ledger.Name(in.GetLedger())
	if name == "" {
		return name, nil
	}
	return name, name.Validate("ledger")
}

func decodeDay(text, field string) (bankfile.Date, error) {
	if text == "" {
		return bankfile.Date{}, nil
	}
	day, err := bankfile.ParseDate(text)
	if err != nil {
		return day, ledger.Invalid(field, "%v", err)
	}
	return day, nil
}

func decodeDays(in interface {
	GetFrom() string
	GetTo() string
}) (from, to bankfile.Date, err error) {
	if from, err = decodeDay(in.GetFrom(), "from"); err != nil {
		return from, to, err
	}
	to, err = decodeDay(in.GetTo(), "to")
	return from, to, err
}

// decodeMoneyIn refuses a side of a later version; without one it is the default.
func decodeMoneyIn(in khatav1.Direction) (ledger.Direction, error) {
	side, ok := wire.Directions[in]
	if !ok && in != khatav1.Direction_DIRECTION_UNSPECIFIED {
		return "", ledger.Invalid("money_in", "is %d, which is not debit or credit", in)
	}
	return side, nil
}

func decodeOutcomes(in []string) []reconcile.Outcome {
	return each(in, func(o string) reconcile.Outcome { return reconcile.Outcome(o) })
}

func decodeBankAccount(in *khatav1.CreateBankAccountRequest) (reconcile.BankAccountSpec, error) {
	spec := reconcile.BankAccountSpec{Name: in.GetName(), Account: ledger.AccountID(in.GetAccount())}
	var err error
	if spec.Ledger, err = decodeLedger(in); err != nil {
		return spec, err
	}
	if spec.MoneyIn, err = decodeMoneyIn(in.GetMoneyIn()); err != nil {
		return spec, err
	}
	if spec.Basis, err = decodeBasis(in.GetBasis()); err != nil {
		return spec, err
	}
	if spec.Zone, err = report.ParseZone(in.GetZone()); err != nil {
		return spec, err
	}
	if spec.Begins, err = decodeDay(in.GetBegins(), "begins"); err != nil || in.GetSettings() == nil {
		return spec, err
	}
	settings, err := decodeSettings(in.GetSettings())
	spec.Settings = &settings
	return spec, err
}

func decodeSettings(in *khatav1.BankSettings) (reconcile.Settings, error) {
	settings := reconcile.Settings{
		Identifiers: in.GetIdentifiers(), Profile: in.GetProfile(), DaysBefore: int(in.GetDaysBefore()), DaysAfter: int(in.GetDaysAfter()),
		TransitDays: int(in.GetTransitDays()), ReferenceKeys: append([]string{}, in.GetReferenceKeys()...),
		Confirm:    each(in.GetConfirm(), func(rule string) reconcile.Rule { return reconcile.Rule(rule) }),
		AnyNumbers: in.GetAnyNumbers(), IgnoreBalances: in.GetIgnoreBalances(), BAI2Decimals: in.GetBai2Decimals(),
	}
	if in.GetTolerance() == "" {
		return settings, nil
	}
	var err error
	settings.Tolerance, err = ledger.ParseBalance(in.GetTolerance(), "settings.tolerance")
	return settings, err
}

// maxProfile is the most bytes of a profile. Those of banks have some hundred.
const maxProfile = 64 << 10

func decodeProfile(content, field string) (*bankfile.Profile, error) {
	if len(content) > maxProfile {
		return nil, ledger.Invalid(field, "has %d bytes, at most %d are allowed", len(content), maxProfile)
	}
	if strings.ToValidUTF8(content, "") != content {
		return nil, ledger.Invalid(field, "is not text")
	}
	profile, err := bankfile.ParseProfile([]byte(content))
	if err != nil {
		return nil, ledger.Invalid(field, "is no profile: %v", err)
	}
	return profile, nil
}

func takeField(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// decodeTaken reads how much of an item is meant. None is all that is open, which a zero would become, too.
func decodeTaken(text, field string) (decimal.Decimal, error) {
	if text == "" {
		return decimal.Zero, nil
	}
	amount, err := ledger.ParseBalance(text, field)
	if err == nil && amount.IsZero() {
		return amount, ledger.Invalid(field, "is zero: leave it out for all that is open")
	}
	return amount, err
}

func decodeLineTake(in *khatav1.LineTake, field string) (reconcile.LineTake, error) {
	take := reconcile.LineTake{Line: in.GetLine()}
	if take.Line <= 0 {
		return take, ledger.Invalid(field+".line", "is %d, which is no number of a line", take.Line)
	}
	var err error
	take.Amount, err = decodeTaken(in.GetAmount(), field+".amount")
	return take, err
}

func decodeEntryTake(in *khatav1.EntryTake, field string) (reconcile.EntryTake, error) {
	take := reconcile.EntryTake{
		Transfer: ledger.TransferID(in.GetTransferId()), Sequence: in.GetSequence(), Leg: int(in.GetLeg()), Forward: in.GetForward(),
	}
	if take.Forward && (take.Transfer != "" || take.Sequence != 0 || take.Leg != 0) {
		return take, ledger.Invalid(field+".forward", "cannot be given together with transfer_id, sequence or leg")
	}
	var err error
	take.Amount, err = decodeTaken(in.GetAmount(), field+".amount")
	return take, err
}

func decodeDifference(in *khatav1.DifferenceSpec) (*reconcile.DifferenceSpec, error) {
	if in == nil {
		return nil, nil
	}
	at, err := decodeTime(in.GetEffectiveAt(), "difference.effective_at")
	return &reconcile.DifferenceSpec{Account: ledger.AccountID(in.GetAccount()), EffectiveAt: at, Description: in.GetDescription()}, err
}

func decodeConfirm(in *khatav1.ConfirmMatchRequest) (reconcile.ConfirmSpec, error) {
	spec := reconcile.ConfirmSpec{Request: in.GetRequestId(), Run: in.GetRun(), Group: int(in.GetGroup()), Reason: in.GetReason()}
	if spec.Run != 0 && spec.Group == 0 {
		return spec, ledger.Invalid("group", "is required with run")
	}
	var err error
	if spec.Difference, err = decodeDifference(in.GetDifference()); err != nil {
		return spec, err
	}
	for i, l := range in.GetLines() {
		take, err := decodeLineTake(l, takeField("lines", i))
		if err != nil {
			return spec, err
		}
		spec.Lines = append(spec.Lines, take)
	}
	for i, e := range in.GetEntries() {
		take, err := decodeEntryTake(e, takeField("entries", i))
		if err != nil {
			return spec, err
		}
		spec.Entries = append(spec.Entries, take)
	}
	return spec, nil
}
