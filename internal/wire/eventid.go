package wire

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
)

// EventID is an id that follows from what it names, and from nothing else: a UUID of version 8, made of a SHA-256. The same parts of the
// same kind give the same id for ever, and others another one.
func EventID(kind string, parts ...string) string {
	buf := make([]byte, 0, 512)
	add := func(part string) {
		buf = strconv.AppendInt(buf, int64(len(part)), 10)
		buf = append(append(buf, ':'), part...)
	}
	add(kind)
	for _, part := range parts {
		add(part)
	}
	sum := sha256.Sum256(buf)
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	var text [36]byte
	at := 0
	for _, group := range [][]byte{sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]} {
		if at > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], group)
	}
	return string(text[:])
}
