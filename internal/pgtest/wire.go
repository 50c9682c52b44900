package pgtest

import (
	"bytes"
	"encoding/binary"
	"regexp"
)

// commitSQL matches a statement, or one of several, that commits.
var commitSQL = regexp.MustCompile(`(?i)^\s*(commit|end)\b|;\s*commit\b`)

// requestReader cuts what a client sends into messages (PostgreSQL 15, section
// 55.7, Message Formats).
type requestReader struct {
	buf     []byte
	started bool // the start-up message, which has no type byte, is behind us
	opaque  bool // not ours to understand: pass everything on
	asked   int  // how many ReadyForQuery the client has asked for
	// Names of prepared statements and portals that commit.
	statements, portals map[string]bool
}

func (r *requestReader) add(b []byte) { r.buf = append(r.buf, b...) }

// next returns the next complete message, or nil, and whether it is a COMMIT.
func (r *requestReader) next() (msg []byte, commit bool) {
	if r.opaque {
		msg, r.buf = r.buf, nil
		return msg, false
	}
	header := 5
	if !r.started {
		header = 4
	}
	if len(r.buf) < header {
		return nil, false
	}
	size := header - 4 + int(binary.BigEndian.Uint32(r.buf[header-4:]))
	if size < header {
		r.opaque = true // out of step; the server will say so
		return r.next()
	}
	if len(r.buf) < size {
		return nil, false
	}
	msg, r.buf = r.buf[:size:size], r.buf[size:]
	if !r.started {
		r.start(msg)
		return msg, false
	}
	return msg, r.note(msg[0], msg[5:])
}

func (r *requestReader) start(msg []byte) {
	const protocol3 = 3
	r.started = true
	r.asked = 1 // the server is ready once it has let the client in
	// Requests to cancel or to encrypt share the form, with a version of 1234.
	r.opaque = len(msg) < 8 || binary.BigEndian.Uint16(msg[4:]) != protocol3
}

func (r *requestReader) note(kind byte, body []byte) (commit bool) {
	switch kind {
	case 'Q':
		r.asked++
		sql, _ := cutString(body)
		return commitSQL.Match(sql)
	case 'S', 'F': // Sync, FunctionCall
		r.asked++
	case 'P': // Parse: statement, SQL
		name, rest := cutString(body)
		sql, _ := cutString(rest)
		set(&r.statements, name, commitSQL.Match(sql))
	case 'B': // Bind: portal, statement
		portal, rest := cutString(body)
		name, _ := cutString(rest)
		set(&r.portals, portal, r.statements[string(name)])
	case 'E': // Execute: portal
		portal, _ := cutString(body)
		return r.portals[string(portal)]
	}
	return false
}

func set(m *map[string]bool, name []byte, commits bool) {
	if !commits {
		delete(*m, string(name))
		return
	}
	if *m == nil {
		*m = make(map[string]bool)
	}
	(*m)[string(name)] = true
}

func cutString(b []byte) (s, rest []byte) {
	s, rest, _ = bytes.Cut(b, []byte{0})
	return s, rest
}

// answerReader follows what the server sends.
type answerReader struct {
	header  []byte // of the message being read, and the first bytes of its body
	missing int    // bytes of the body still to come
	ready   int    // how many ReadyForQuery have come
}

// read notes b and reports whether it holds the answer to a COMMIT before which
// the client had asked for that many ReadyForQuery; from is -1 if none is awaited.
// The answer is the tag COMMIT or ROLLBACK, or, if the server never came to it
// because of an error before, that it is ready again.
func (r *answerReader) read(b []byte, from int) (answered bool) {
	const header, tag = 5, len("ROLLBACK\x00")
	for len(b) > 0 {
		if len(r.header) < header {
			n := min(header-len(r.header), len(b))
			r.header, b = append(r.header, b[:n]...), b[n:]
			if len(r.header) < header {
				return answered
			}
			r.missing = int(binary.BigEndian.Uint32(r.header[1:])) - 4
		}
		n := min(r.missing, len(b))
		keep := max(0, min(n, header+tag-len(r.header)))
		r.header = append(r.header, b[:keep]...)
		b, r.missing = b[n:], r.missing-n
		if r.missing > 0 {
			return answered
		}
		answered = r.note(r.header[0], r.header[header:], from) || answered
		r.header = r.header[:0]
	}
	return answered
}

func (r *answerReader) note(kind byte, body []byte, from int) bool {
	due := from >= 0 && r.ready >= from
	switch kind {
	case 'Z':
		r.ready++
		return due
	case 'C':
		tag, _ := cutString(body)
		return due && (string(tag) == "COMMIT" || string(tag) == "ROLLBACK")
	}
	return false
}
