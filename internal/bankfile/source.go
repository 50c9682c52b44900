package bankfile

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"strings"
)

// source is the stream that a file is read from: it counts, it hashes, and it stops when the caller no longer waits.
type source struct {
	ctx   context.Context
	r     io.Reader
	limit int64
	left  int64
	sum   hash.Hash
}

func newSource(ctx context.Context, r io.Reader, limit int64) *source {
	return &source{ctx: ctx, r: r, limit: limit, left: limit, sum: sha256.New()}
}

func (s *source) Read(p []byte) (int, error) {
	if err := s.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := s.r.Read(p)
	s.sum.Write(p[:n])
	if s.left -= int64(n); s.left < 0 {
		return 0, refusal(ReasonTooLarge, 0, "the file has more than %d bytes", s.limit)
	}
	return n, err
}

func (s *source) hex() string { return hex.EncodeToString(s.sum.Sum(nil)) }

// lineReader reads lines of bounded length. A line ends in LF, with any number of CR before it.
type lineReader struct {
	in    *bufio.Reader
	limit int
	// number is that of the line last read, from 1.
	number int
	text   []byte
}

// next reads a line. It returns io.EOF at the end, and a Refusal for a line that is too long.
func (r *lineReader) next() (string, error) {
	r.text = r.text[:0]
	r.number++
	for {
		part, err := r.in.ReadSlice('\n')
		if len(r.text)+len(part) > r.limit {
			return "", refusal(ReasonTooLarge, r.number, "the line has more than %d bytes", r.limit)
		}
		r.text = append(r.text, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(r.text) == 0:
			return "", io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return "", err
		}
		return decodeText(bytes.TrimRight(r.text, "\r\n")), nil
	}
}

// budget lets a bounded number of bytes through, until it is renewed. It keeps one element of XML, of which the decoder holds all, from being the
// whole file.
type budget struct {
	in    *bufio.Reader
	limit int
	left  int
}

func newBudget(in *bufio.Reader, limit int) *budget {
	return &budget{in: in, limit: limit, left: limit}
}

func (b *budget) renew() { b.left = b.limit }

// ReadByte is what the XML decoder calls; having it, the decoder needs no buffer of its own and reads no further than it must.
func (b *budget) ReadByte() (byte, error) {
	if b.left--; b.left < 0 {
		return 0, refusal(ReasonTooLarge, 0, "an element has more than %d bytes", b.limit)
	}
	return b.in.ReadByte()
}

func (b *budget) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c, err := b.ReadByte()
	if err != nil {
		return 0, err
	}
	p[0] = c
	return 1, nil
}

// clean makes text out of a file fit to be shown and compared: control characters go, runs of white space become one space, none at the ends.
func clean(text string) string {
	if isClean(text) {
		return text
	}
	var out strings.Builder
	out.Grow(len(text))
	gap := false
	for _, r := range text {
		switch {
		case r == ' ' || r == '\t' || r == '\n' || r == '\r' || r == '\u00a0':
			gap = out.Len() > 0
			continue
		case r < ' ' || r >= 0x7f && r < 0xa0: // the controls of ASCII and of Latin-1
			continue
		}
		if gap {
			out.WriteByte(' ')
			gap = false
		}
		out.WriteRune(r)
	}
	return out.String()
}

// isClean reports whether text is plain ASCII that clean would leave as it is, as most is.
func isClean(text string) bool {
	space := true
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c >= 0x7f || c == ' ' && space {
			return false
		}
		space = c == ' '
	}
	return text == "" || !space
}

// join puts the parts that are not empty into one text.
func join(separator string, parts ...string) string {
	var some []string
	for _, part := range parts {
		if part = clean(part); part != "" {
			some = append(some, part)
		}
	}
	return strings.Join(some, separator)
}

// reference cleans a reference, and drops what banks write where there is none.
func reference(text string) string {
	switch text = clean(text); strings.ToUpper(text) {
	case "NONREF", "NOTPROVIDED", "NOT PROVIDED", "NOTAVAILABLE", "NONE":
		return ""
	}
	if strings.Trim(text, "0") == "" { // 0 and 000000
		return ""
	}
	return text
}
