package bankfile

import "bytes"

// askFor is what to do about a file that cannot be read here at all.
const askFor = "ask the bank for CSV, camt.053, MT940, BAI2 or OFX"

// binaries are files that people have of their bank and that cannot be read here, by their first bytes.
var binaries = []struct{ start, what string }{
	{"\x89PNG\r\n\x1a\n", "an image (PNG)"}, {"\xff\xd8\xff", "an image (JPEG)"}, {"GIF8", "an image (GIF)"}, {"II*\x00", "an image (TIFF)"},
	{"MM\x00*", "an image (TIFF)"}, {"%PDF-", "a PDF"}, {"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "a document of Microsoft Office (such as .xls)"},
	{"\x1f\x8b", "packed with gzip"}, {"7z\xbc\xaf\x27\x1c", "packed with 7-Zip"}, {"Rar!\x1a\x07", "packed with RAR"},
}

// binaryAsked is what is asked for of a file of each kind, where it is not askFor.
var binaryAsked = map[string]string{"packed with gzip": "unpack it first", "packed with 7-Zip": "unpack it first", "packed with RAR": "unpack it first"}

// noStatement refuses what is known by its first bytes to be no statement.
func noStatement(start []byte) *Refusal {
	for _, b := range binaries {
		if !bytes.HasPrefix(start, []byte(b.start)) {
			continue
		}
		advice := askFor
		if asked, ok := binaryAsked[b.what]; ok {
			advice = asked
		}
		return refusal(ReasonNotThisFormat, 0, "the file is %s: %s", b.what, advice)
	}
	return nil
}

// noText refuses what has so many control characters that it is no text, in its first line, too. Those in a text that a stranger wrote make no file
// binary.
func noText(start []byte) *Refusal {
	const looked, share = 512, 10
	start = start[:min(len(start), looked)]
	if bytes.HasPrefix(start, []byte(bomLittle)) || bytes.HasPrefix(start, []byte(bomBig)) {
		return nil
	}
	isControl := func(r rune) bool { return r < ' ' && r != '\t' && r != '\n' && r != '\r' && r != '\f' }
	first, _, _ := bytes.Cut(start, []byte("\n"))
	controls := 0
	for _, c := range start {
		if isControl(rune(c)) {
			controls++
		}
	}
	if controls*share <= len(start) || bytes.IndexFunc(first, isControl) < 0 {
		return nil
	}
	return refusal(ReasonNotThisFormat, 0, "the file is no text: %s; if it is text in UTF-16, it lacks the byte order mark", askFor)
}
