package bankfile

import "fmt"

// Options say how a file is to be read. The zero Options recognise the format, know no currency's scale, and have the default limits.
type Options struct {
	// Format is the one that the file is in; "" has it recognised by Detect, and a file that is not recognised is CSV if there is a Profile. With a
	// Profile, an MT940 that does not begin with its first message is not recognised, and has to be named.
	Format Format
	// Profile says how CSV is read. It is needed for FormatCSV, and used for the CSV members of a zip.
	Profile *Profile
	// Scale gives the decimals that a currency has, and ok where it knows the currency. An amount that is finer is refused. Where it is nil or does not
	// know a currency, that check is not made; BAI2 writes no decimal point and cannot be read without it.
	Scale func(code string) (scale int32, ok bool)
	// BAI2Decimals has the decimals that amounts in BAI2 files imply, by currency, where the bank writes others than Scale has: some write yen with two.
	BAI2Decimals map[string]int32
	Limits       Limits
}

// Limits bound what a file may make of memory and time. Zero is the default of each.
type Limits struct {
	// Bytes is the most bytes of a file, and of all members of a zip together, uncompressed. Default 256 MiB.
	Bytes int64
	// Element is the most bytes of what has to be in memory at once to be read: a line or a record of text, an element of XML (each transaction of a
	// batch is one of its own), a value of OFX. Default 1 MiB.
	Element int
	// Lines is the most lines of a statement, the details of batches included. Default 200,000.
	Lines int
	// Statements is the most statements of a file. Default 10,000.
	Statements int
	// Members is the most files of a zip. Default 1,000.
	Members int
	// Ratio is the most bytes that a byte of a zip's member may unpack to, once it has unpacked to more than a mebibyte. Default 200.
	Ratio int64
}

const mebibyte = 1 << 20

func (l Limits) withDefaults() Limits {
	defaults := Limits{Bytes: 256 * mebibyte, Element: mebibyte, Lines: 200_000, Statements: 10_000, Members: 1000, Ratio: 200}
	if l.Bytes <= 0 {
		l.Bytes = defaults.Bytes
	}
	if l.Element <= 0 {
		l.Element = defaults.Element
	}
	if l.Lines <= 0 {
		l.Lines = defaults.Lines
	}
	if l.Statements <= 0 {
		l.Statements = defaults.Statements
	}
	if l.Members <= 0 {
		l.Members = defaults.Members
	}
	if l.Ratio <= 0 {
		l.Ratio = defaults.Ratio
	}
	return l
}

// scale is Options.Scale, which may be nil.
func (o Options) scale(code string) (int32, bool) {
	if o.Scale == nil {
		return 0, false
	}
	return o.Scale(code)
}

// bai2Decimals gives the decimals that an amount in a BAI2 file implies.
func (o Options) bai2Decimals(code string) (int32, bool) {
	if decimals, ok := o.BAI2Decimals[code]; ok {
		return decimals, true
	}
	return o.scale(code)
}

func (o Options) validate() error {
	if o.Format == FormatCSV && o.Profile == nil {
		return fmt.Errorf("format %s needs a profile", FormatCSV)
	}
	if o.Profile != nil {
		return o.Profile.Validate()
	}
	return nil
}
