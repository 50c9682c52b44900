package console_test

import (
	"bytes"
	"compress/zlib"
	"encoding/hex"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// pdf is a document as Chromium makes it: the objects by their numbers.
type pdf map[string][]byte

var (
	pdfObject  = regexp.MustCompile(`(?s)(\d+) 0 obj\s(.*?)\sendobj`)
	pdfPage    = regexp.MustCompile(`/Type /Page\s`)
	pdfFonts   = regexp.MustCompile(`(?s)/Font <<(.*?)>>`)
	pdfFont    = regexp.MustCompile(`/(F\d+) (\d+) 0 R`)
	pdfRef     = regexp.MustCompile(`/(Contents|ToUnicode) (\d+) 0 R`)
	pdfBox     = regexp.MustCompile(`/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]`)
	pdfShow    = regexp.MustCompile(`/(F\d+) [\d.]+ Tf|<([0-9A-Fa-f]+)> Tj|\bET\b`)
	pdfChars   = regexp.MustCompile(`(?s)beginbfchar\n(.*?)endbfchar`)
	pdfChar    = regexp.MustCompile(`<(\w+)> <(\w+)>`)
	pdfRanges  = regexp.MustCompile(`(?s)beginbfrange\n(.*?)endbfrange`)
	pdfRange   = regexp.MustCompile(`<(\w+)> <(\w+)> <(\w+)>`)
	whitespace = regexp.MustCompile(`\s+`)
)

// sheetOfPaper is a page of a PDF: its size in points, and its text without spaces, since those are often only gaps there.
type sheetOfPaper struct {
	width, height float64
	text          string
}

func readPDF(t *testing.T, data []byte) []sheetOfPaper {
	t.Helper()
	objects := pdf{}
	for _, m := range pdfObject.FindAllSubmatch(data, -1) {
		objects[string(m[1])] = m[2]
	}
	var sheets []sheetOfPaper
	for _, m := range pdfObject.FindAllSubmatch(data, -1) { // in their order
		if !pdfPage.Match(m[2]) {
			continue
		}
		var s sheetOfPaper
		if box := pdfBox.FindSubmatch(m[2]); box != nil {
			s.width, _ = strconv.ParseFloat(string(box[1]), 64)
			s.height, _ = strconv.ParseFloat(string(box[2]), 64)
		}
		s.text = objects.text(t, m[2])
		sheets = append(sheets, s)
	}
	return sheets
}

// stream gives what an object refers to, unpacked.
func (p pdf) stream(t *testing.T, of []byte, name string) string {
	t.Helper()
	for _, m := range pdfRef.FindAllSubmatch(of, -1) {
		if string(m[1]) != name {
			continue
		}
		_, packed, _ := bytes.Cut(p[string(m[2])], []byte("stream"))
		r, err := zlib.NewReader(bytes.NewReader(bytes.TrimLeft(packed, "\r\n")))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	return ""
}

// text puts together what the page shows, by the tables of its fonts.
func (p pdf) text(t *testing.T, page []byte) string {
	t.Helper()
	fonts := map[string]map[uint64]string{}
	if list := pdfFonts.FindSubmatch(page); list != nil {
		for _, m := range pdfFont.FindAllSubmatch(list[1], -1) {
			fonts[string(m[1])] = fontTable(p.stream(t, p[string(m[2])], "ToUnicode"))
		}
	}
	var out strings.Builder
	var font map[uint64]string
	for _, m := range pdfShow.FindAllStringSubmatch(p.stream(t, page, "Contents"), -1) {
		if m[1] != "" {
			font = fonts[m[1]]
		}
		for i := 0; i+4 <= len(m[2]); i += 4 {
			glyph, _ := strconv.ParseUint(m[2][i:i+4], 16, 32)
			out.WriteString(font[glyph])
		}
	}
	return whitespace.ReplaceAllString(out.String(), "")
}

func fontTable(cmap string) map[uint64]string {
	table := map[uint64]string{}
	number := func(text string) uint64 { n, _ := strconv.ParseUint(text, 16, 32); return n }
	for _, block := range pdfChars.FindAllStringSubmatch(cmap, -1) {
		for _, m := range pdfChar.FindAllStringSubmatch(block[1], -1) {
			table[number(m[1])] = utf16Text(m[2])
		}
	}
	for _, block := range pdfRanges.FindAllStringSubmatch(cmap, -1) {
		for _, m := range pdfRange.FindAllStringSubmatch(block[1], -1) {
			for i, first := uint64(0), number(m[1]); first+i <= number(m[2]); i++ {
				table[first+i] = string(rune(number(m[3]) + i)) //nolint:gosec // a character
			}
		}
	}
	return table
}

func utf16Text(digits string) string {
	raw, _ := hex.DecodeString(digits)
	var units []uint16
	for i := 0; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])<<8|uint16(raw[i+1]))
	}
	return string(utf16.Decode(units))
}
