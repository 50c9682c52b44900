package bench

import (
	crand "crypto/rand"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"time"
)

// IDVersion is which kind of UUID the transfers are named by.
type IDVersion string

const (
	// V7 ids begin with the time, so that new ones land at the end of the index (RFC 9562, section 5.7).
	V7 IDVersion = "v7"
	// V4 ids are random, and land anywhere in it (RFC 9562, section 5.4).
	V4 IDVersion = "v4"
)

// idLength is the length of a UUID as text, in bytes.
const idLength = 36

// newRandom makes a generator that no other run shares: what was posted before can never be met again.
func newRandom() *rand.Rand {
	var seed [32]byte
	_, _ = crand.Read(seed[:]) // It never fails: it ends the program first.
	return rand.New(rand.NewChaCha8(seed))
}

// ids makes UUIDs. It is not safe for concurrent use: each client has its own.
type ids struct {
	version IDVersion
	random  *rand.Rand
	now     func() time.Time
	last    uint64 // milliseconds since 1970 and, in the lowest 12 bits, the count within that millisecond
}

func newIDs(version IDVersion) (*ids, error) {
	if version != V7 && version != V4 {
		return nil, fmt.Errorf("ids %q: want %s or %s", version, V7, V4)
	}
	return &ids{version: version, random: newRandom(), now: time.Now}, nil
}

// append adds the text of a new id to buf.
func (g *ids) append(buf []byte) []byte {
	high, low := g.random.Uint64(), g.random.Uint64()
	if g.version == V7 {
		// The ids of one generator rise even within a millisecond, and if the clock is set back.
		g.last = max(g.last+1, uint64(g.now().UnixMilli())<<12)
		high = g.last>>12<<16 | 0x7000 | g.last&0xfff
	} else {
		high = high&^0xf000 | 0x4000
	}
	low = low&^(3<<62) | 2<<62
	var raw [16]byte
	for i := range 8 {
		raw[i], raw[8+i] = byte(high>>(56-8*i)), byte(low>>(56-8*i))
	}
	for i, part := range [][]byte{raw[:4], raw[4:6], raw[6:8], raw[8:10], raw[10:]} {
		if i > 0 {
			buf = append(buf, '-')
		}
		buf = hex.AppendEncode(buf, part)
	}
	return buf
}

// next makes one id.
func (g *ids) next() string {
	var buf [idLength]byte
	return string(g.append(buf[:0]))
}
