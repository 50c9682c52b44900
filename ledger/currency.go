package ledger

import (
	"maps"
	"slices"
	"strings"
)

// MaxScale is the most decimals that a currency may have.
const MaxScale = 30

// CurrencyCode is a code of ISO 4217, such as "BDT", or one registered in a ledger, such as "ETH".
type CurrencyCode string

// Currency is a currency and its scale, the number of decimals of its smallest unit: BDT 2, JPY 0, KWD 3, ETH 18. Neither
// ever changes.
type Currency struct {
	Code  CurrencyCode
	Scale int32
}

// Validate returns CodeInvalidArgument unless the code is 3 to 16 characters of A-Z, 0-9 and _, the first a letter.
func (c CurrencyCode) Validate(field string) error {
	ok := len(c) >= 3 && len(c) <= 16 && c[0] >= 'A' && c[0] <= 'Z'
	for i := 0; ok && i < len(c); i++ {
		ok = c[i] >= 'A' && c[i] <= 'Z' || c[i] >= '0' && c[i] <= '9' || c[i] == '_'
	}
	if !ok {
		return Invalid(field, "%.40q is not a currency code: want 3 to 16 characters of A-Z, 0-9 and _, the first a letter, such as BDT", string(c))
	}
	return nil
}

// Validate returns CodeInvalidArgument unless the currency may be registered: a well-formed code that ISO 4217 does not
// define, and a scale of 0 to MaxScale.
func (c Currency) Validate() error {
	if err := c.Code.Validate("code"); err != nil {
		return err
	}
	if c.Scale < 0 || c.Scale > MaxScale {
		return Invalid("scale", "is %d, want 0 to %d", c.Scale, MaxScale)
	}
	if iso, ok := ISOCurrency(c.Code); ok && iso.Scale != c.Scale {
		return Invalid("code", "%s is in ISO 4217 with %d decimals and needs no registering", c.Code, iso.Scale)
	}
	return nil
}

// ISOCurrency returns the currency of ISO 4217 with that code.
func ISOCurrency(code CurrencyCode) (Currency, bool) {
	scale, ok := isoScales[code]
	return Currency{Code: code, Scale: scale}, ok
}

// ISOCurrencies returns the currencies of ISO 4217 in the order of their codes.
func ISOCurrencies() []Currency {
	list := make([]Currency, 0, len(isoScales))
	for _, code := range slices.Sorted(maps.Keys(isoScales)) {
		list = append(list, Currency{Code: code, Scale: isoScales[code]})
	}
	return list
}

// isoScales has the active currencies of ISO 4217 list one (funds included) with their minor units. Codes without a minor
// unit, such as XAU and XXX, are left out: how precise an ounce of gold is, its owner has to say by registering one.
//
// Source: ISO 4217:2015, list one as of amendment 176.
var isoScales = func() map[CurrencyCode]int32 {
	scales := map[CurrencyCode]int32{}
	for scale, list := range map[int32]string{
		0: "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF",
		2: `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD CAD CDF CHE CHF
			CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG
			HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR
			MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG
			SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES
			WST XAD XCD XCG YER ZAR ZMW ZWG`,
		3: "BHD IQD JOD KWD LYD OMR TND",
		4: "CLF UYW",
	} {
		for code := range strings.FieldsSeq(list) {
			scales[CurrencyCode(code)] = scale
		}
	}
	return scales
}()
