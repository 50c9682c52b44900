package bankfile

import (
	"bufio"
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// The encodings of text.
const (
	encodingUTF8    = "utf-8"
	encodingUTF16   = "utf-16"
	encodingWindows = "windows-1252"
	encodingLatin1  = "iso-8859-1"
)

// windowsRunes are what windows-1252 has where ISO 8859-1 has controls: 0x80 to 0x9f. Five are not assigned and stay controls, as in browsers.
const windowsRunes = "\u20ac\u0081\u201a\u0192\u201e\u2026\u2020\u2021\u02c6\u2030\u0160\u2039\u0152\u008d\u017d\u008f" +
	"\u0090\u2018\u2019\u201c\u201d\u2022\u2013\u2014\u02dc\u2122\u0161\u203a\u0153\u009d\u017e\u0178"

// The bytes that windowsRunes are for.
const firstWindows, lastWindows = 0x80, 0x9f

var windowsTable = [lastWindows - firstWindows + 1]rune([]rune(windowsRunes))

func windowsRune(c byte) rune {
	if c >= firstWindows && c <= lastWindows {
		return windowsTable[c-firstWindows]
	}
	return rune(c)
}

func latin1Rune(c byte) rune { return rune(c) }

// decodeText makes text of bytes whose encoding the format leaves open: they are UTF-8 if they can be, else windows-1252, of which everything is
// text.
func decodeText(raw []byte) string {
	if utf8.Valid(raw) {
		return string(raw)
	}
	var out strings.Builder
	for _, c := range raw {
		out.WriteRune(windowsRune(c))
	}
	return out.String()
}

// byteDecoder reads text of one byte a character as UTF-8.
type byteDecoder struct {
	in     io.ByteReader
	toRune func(byte) rune
	rest   []byte
	buf    [utf8.UTFMax]byte
}

func (d *byteDecoder) Read(p []byte) (int, error) {
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	for n < len(p) {
		c, err := d.in.ReadByte()
		if err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		if c < utf8.RuneSelf {
			p[n] = c
			n++
			continue
		}
		encoded := d.buf[:utf8.EncodeRune(d.buf[:], d.toRune(c))]
		took := copy(p[n:], encoded)
		n += took
		d.rest = encoded[took:]
	}
	return n, nil
}

// utf16Decoder reads UTF-16 as UTF-8. The byte order mark has been taken off.
type utf16Decoder struct {
	in   io.ByteReader
	big  bool
	rest []byte
	buf  [utf8.UTFMax]byte
}

func (d *utf16Decoder) Read(p []byte) (int, error) {
	n := copy(p, d.rest)
	d.rest = d.rest[n:]
	for n < len(p) {
		r, err := d.rune()
		if err != nil {
			if n > 0 && errors.Is(err, io.EOF) {
				return n, nil
			}
			return n, err
		}
		encoded := d.buf[:utf8.EncodeRune(d.buf[:], r)]
		took := copy(p[n:], encoded)
		n += took
		d.rest = encoded[took:]
	}
	return n, nil
}

func errUTF16() error {
	return malformed(0, "the text is not UTF-16: it ends within a character, or has half of one")
}

func (d *utf16Decoder) rune() (rune, error) {
	first, err := d.unit()
	if err != nil || !utf16.IsSurrogate(first) {
		return first, err
	}
	second, err := d.unit()
	if errors.Is(err, io.EOF) {
		return 0, errUTF16()
	}
	if err != nil {
		return 0, err
	}
	r := utf16.DecodeRune(first, second)
	if r == utf8.RuneError {
		return 0, errUTF16()
	}
	return r, nil
}

func (d *utf16Decoder) unit() (rune, error) {
	a, err := d.in.ReadByte()
	if err != nil {
		return 0, err
	}
	b, err := d.in.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, errUTF16()
	}
	if d.big {
		a, b = b, a
	}
	const byteBits = 8
	return rune(a) | rune(b)<<byteBits, err
}

const (
	bomUTF8   = "\xef\xbb\xbf"
	bomLittle = "\xff\xfe"
	bomBig    = "\xfe\xff"
)

// skipBOM takes a byte order mark off the beginning, and reads as UTF-16 what says that it is.
func skipBOM(in *bufio.Reader) *bufio.Reader {
	start, _ := in.Peek(len(bomUTF8))
	switch {
	case bytes.HasPrefix(start, []byte(bomUTF8)):
		_, _ = in.Discard(len(bomUTF8)) // they have been seen
	case bytes.HasPrefix(start, []byte(bomLittle)), bytes.HasPrefix(start, []byte(bomBig)):
		_, _ = in.Discard(len(bomBig))
		return bufio.NewReader(&utf16Decoder{in: in, big: start[0] == bomBig[0]})
	}
	return in
}

// newXMLDecoder reads XML in the encodings that banks use.
func newXMLDecoder(in io.Reader) *xml.Decoder {
	dec := xml.NewDecoder(in)
	dec.CharsetReader = func(label string, input io.Reader) (io.Reader, error) {
		bytesOf, ok := input.(io.ByteReader)
		if !ok {
			bytesOf = bufio.NewReader(input)
		}
		switch strings.ToLower(label) {
		case "utf-8", "utf8", "us-ascii", "ascii", "utf-16": // UTF-16 was made UTF-8 by its byte order mark
			return input, nil
		case encodingLatin1, "iso8859-1", "latin1":
			return &byteDecoder{in: bytesOf, toRune: latin1Rune}, nil
		case encodingWindows, "cp1252":
			return &byteDecoder{in: bytesOf, toRune: windowsRune}, nil
		}
		return nil, fmt.Errorf("encoding %.40q is not read", label)
	}
	return dec
}
