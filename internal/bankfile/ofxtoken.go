package bankfile

import (
	"bufio"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// ofxKind says what a token of OFX is.
type ofxKind int

const (
	ofxOpen ofxKind = iota
	ofxClose
	ofxText
)

// ofxToken is a tag or the text between two.
type ofxToken struct {
	kind ofxKind
	// text is the name of a tag, in upper case, or the text.
	text     string
	position int
}

// ofxReader splits OFX into tags and text. It takes SGML, in which elements that hold text are not closed, and XML alike, and does not mind which.
type ofxReader struct {
	in    *bufio.Reader
	limit int
	line  int
	buf   []byte
	// closing is the name of an empty element ("<MEMO/>") whose end is still to be told.
	closing string
}

// next gives a token; white space between tags is none.
func (r *ofxReader) next() (ofxToken, error) {
	if r.closing != "" {
		name := r.closing
		r.closing = ""
		return ofxToken{ofxClose, name, r.line}, nil
	}
	for {
		position := r.line
		text, err := r.until('<')
		if err != nil && !errors.Is(err, io.EOF) {
			return ofxToken{}, err
		}
		if found := strings.TrimSpace(text); found != "" {
			if err == nil {
				err = r.in.UnreadByte() // the tag is the next token
			} else {
				err = nil // the end is
			}
			return ofxToken{ofxText, unescape(found), position}, err
		}
		if err != nil {
			return ofxToken{}, err
		}
		if token, ok, err := r.tag(); ok || err != nil {
			return token, err
		}
	}
}

// tag reads the rest of a tag; not ok for a comment, a declaration or the like.
func (r *ofxReader) tag() (token ofxToken, ok bool, err error) {
	position := r.line
	if token, ok, err := r.cdata(); ok || err != nil {
		return token, ok, err
	}
	text, err := r.until('>')
	if errors.Is(err, io.EOF) {
		return token, false, malformed(position, "a tag is opened and not closed")
	}
	if err != nil {
		return token, false, err
	}
	if strings.HasPrefix(text, "!") || strings.HasPrefix(text, "?") {
		return token, false, nil
	}
	kind := ofxOpen
	if rest, closes := strings.CutPrefix(text, "/"); closes {
		text, kind = rest, ofxClose
	}
	name, _, _ := strings.Cut(strings.TrimSpace(text), " ")
	name, empty := strings.CutSuffix(name, "/")
	name = strings.ToUpper(name)
	if name == "" {
		return token, false, malformed(position, "a tag has no name")
	}
	if kind == ofxOpen && (empty || strings.HasSuffix(text, "/")) {
		r.closing = name
	}
	return ofxToken{kind, name, position}, true, nil
}

// cdata reads a section whose text is as it stands, after its "<".
func (r *ofxReader) cdata() (token ofxToken, ok bool, err error) {
	const start, end = "![CDATA[", "]]>"
	if peeked, _ := r.in.Peek(len(start)); string(peeked) != start {
		return token, false, nil
	}
	_, _ = r.in.Discard(len(start)) // they have been seen
	position := r.line
	var text strings.Builder
	for {
		part, err := r.until('>')
		if errors.Is(err, io.EOF) {
			return token, false, malformed(position, "a CDATA section is opened and not closed")
		}
		if err != nil {
			return token, false, err
		}
		if text.Len()+len(part) > r.limit {
			return token, false, refusal(ReasonTooLarge, position, "a text has more than %d bytes", r.limit)
		}
		text.WriteString(part)
		if strings.HasSuffix(part, strings.TrimSuffix(end, ">")) {
			return ofxToken{ofxText, strings.TrimSpace(strings.TrimSuffix(text.String(), strings.TrimSuffix(end, ">"))), position}, true, nil
		}
		text.WriteByte('>')
	}
}

// until reads to a character, which it takes and does not give.
func (r *ofxReader) until(end byte) (string, error) {
	r.buf = r.buf[:0]
	for {
		c, err := r.in.ReadByte()
		if err != nil {
			return decodeText(r.buf), err
		}
		if c == '\n' {
			r.line++
		}
		if c == end {
			return decodeText(r.buf), nil
		}
		if len(r.buf) >= r.limit {
			return "", refusal(ReasonTooLarge, r.line, "a text has more than %d bytes", r.limit)
		}
		r.buf = append(r.buf, c)
	}
}

var entity = regexp.MustCompile(`&(?:#[xX]?[0-9a-fA-F]{1,6}|[a-z]{2,4});`)

var namedEntities = map[string]string{"amp": "&", "lt": "<", "gt": ">", "quot": `"`, "apos": "'", "nbsp": " "}

// unescape replaces the entities that OFX has. An ampersand that begins none is text: names of shops have them.
func unescape(text string) string {
	if !strings.Contains(text, "&") {
		return text
	}
	return entity.ReplaceAllStringFunc(text, func(found string) string {
		name := found[1 : len(found)-1]
		if name[0] != '#' {
			if text, ok := namedEntities[name]; ok {
				return text
			}
			return found
		}
		const decimalBase, hexBase, bits = 10, 16, 32
		base, digits := decimalBase, name[1:]
		if digits[0] == 'x' || digits[0] == 'X' {
			base, digits = hexBase, digits[1:]
		}
		n, err := strconv.ParseUint(digits, base, bits)
		if err != nil {
			return found
		}
		return string(rune(n)) // U+FFFD for what is no character
	})
}
