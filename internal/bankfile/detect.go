package bankfile

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"
)

// sniffed is how many bytes of a file are looked at to recognise its format.
const sniffed = 64 << 10

// Detect recognises the format of a file by its first bytes. It returns a reader from which all of the file can still be read, and "" where it knows
// none. It never says FormatCSV: what the columns of a CSV file mean is known to a Profile only. It returns a *Refusal for what is surely no statement:
// an image, a PDF, and a message of ISO 20022 such as camt.052, whose movements come again in camt.053.
func Detect(r io.Reader) (Format, io.Reader, error) {
	in := bufio.NewReaderSize(r, sniffed)
	start, err := in.Peek(sniffed)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", in, err
	}
	format, refused := sniff(start, false)
	if refused != nil {
		return "", in, refused
	}
	return format, in, nil
}

var (
	// camtBody is the element that says which message of the camt family it is, whatever its namespace and what it is wrapped in.
	camtBody  = regexp.MustCompile(`<(?:[\w.-]+:)?(BkToCstmr\w+)[\s/>]`)
	xmlRoot   = regexp.MustCompile(`<(?:[\w.-]+:)?([A-Za-z_][\w.-]*)[\s/>]`)
	ofxStart  = regexp.MustCompile(`(?i)^(?:OFXHEADER\s*:|(?:<\?[^>]*\?>\s*)*(?:<\?OFX\s|<OFX>))`)
	bai2Start = regexp.MustCompile(`^01,[^,/\r\n]*,[^,/\r\n]*,\d{6},\d{0,4},`)
	mtFirst   = regexp.MustCompile(`(?m)^(?:\{[^\r\n]*\{4:)?[ \t]*:20:`)
	mtSecond  = regexp.MustCompile(`(?m)^:(?:25P?|28C?|60[FM]):`)
	mtStart   = regexp.MustCompile(`^(?:\{1:|:20:)`)
)

// sniff recognises a format, and refuses what is sure to be none. Where the file may be CSV, the format must show at its very beginning: a
// description that a stranger wrote into a CSV file, line ends and all, must not make it another file. Only banks' MT940 files begin with lines that
// are none.
func sniff(start []byte, maybeCSV bool) (Format, *Refusal) {
	if bytes.HasPrefix(start, []byte("PK\x03\x04")) || bytes.HasPrefix(start, []byte("PK\x05\x06")) {
		return FormatZip, nil
	}
	if refused := noStatement(start); refused != nil {
		return "", refused
	}
	text := sniffText(start)
	switch {
	case ofxStart.Match(text):
		return FormatOFX, nil
	case bytes.HasPrefix(text, []byte("<?xml")), bytes.HasPrefix(text, []byte("<")) && (!maybeCSV || camtBody.Match(text)):
		return sniffXML(text)
	case bai2Start.Match(text):
		return FormatBAI2, nil
	case mtFirst.Match(text) && mtSecond.Match(text) && (!maybeCSV || mtStart.Match(text)):
		return FormatMT940, nil
	case isStripe(text):
		return FormatStripe, nil
	}
	return "", noText(start)
}

// sniffText is the beginning of a file as text, without what may stand before the first character that counts.
func sniffText(start []byte) []byte {
	in := bufio.NewReader(bytes.NewReader(start))
	text, _ := io.ReadAll(skipBOM(in)) // of UTF-16 that was cut within a character, what comes before
	return bytes.TrimLeftFunc(text, func(r rune) bool { return r <= ' ' })
}

// camtOthers are the messages of the family that are no statements.
var camtOthers = map[string]string{
	"BkToCstmrAcctRpt":      "camt.052, an account report within the day, whose movements come again in a camt.053 when they are final",
	"BkToCstmrDbtCdtNtfctn": "camt.054, a notification of single movements, which come again in a camt.053",
}

func sniffXML(text []byte) (Format, *Refusal) {
	found := camtBody.FindSubmatch(text)
	if found == nil {
		root := xmlRoot.FindSubmatch(text)
		if root == nil {
			return "", nil
		}
		return "", refusal(ReasonNotThisFormat, 0, "it is XML with root %.60q, and neither camt.053 nor OFX", root[1])
	}
	if string(found[1]) == camtStatements {
		return FormatCamt053, nil
	}
	return "", otherCamt(string(found[1]))
}

func otherCamt(element string) *Refusal {
	what, ok := camtOthers[element]
	if !ok {
		what = "not camt.053"
	}
	return refusal(ReasonNotThisFormat, 0, "it is a message %.60q: %s", element, what)
}

// isStripe reports whether the first line has the columns that make a report of Stripe.
func isStripe(text []byte) bool {
	first, _, _ := bytes.Cut(text, []byte("\n"))
	names := strings.Split(strings.TrimRight(string(first), "\r"), ",")
	for i := range names {
		names[i] = strings.Trim(names[i], `" `)
	}
	for _, name := range stripeRequired {
		if !slices.Contains(names, name) {
			return false
		}
	}
	return true
}
