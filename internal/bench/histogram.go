package bench

import (
	"math"
	"math/bits"
	"time"
)

// Durations are kept in buckets whose width is a 128th of their octave, so that a quantile is less than one in a hundred off,
// and a run of hours needs no more memory than one of seconds.
const (
	subBits = 7
	sub     = 1 << subBits
)

// histogram counts durations. The zero value is empty.
type histogram struct {
	buckets [(64 - subBits) * sub]uint64
	count   uint64
	longest time.Duration // exact
}

func bucketOf(d time.Duration) int {
	n := uint64(max(d, 0))
	shift := max(bits.Len64(n)-1-subBits, 0)
	return shift*sub + int(n>>shift)
}

// middle is the middle of a bucket.
func middle(bucket int) time.Duration {
	shift := max(bucket/sub-1, 0)
	low := uint64(bucket-shift*sub) << shift
	return time.Duration(low + (1<<shift)/2)
}

func (h *histogram) add(d time.Duration) {
	h.buckets[bucketOf(d)]++
	h.count++
	h.longest = max(h.longest, d)
}

func (h *histogram) merge(other *histogram) {
	for i, n := range other.buckets {
		h.buckets[i] += n
	}
	h.count += other.count
	h.longest = max(h.longest, other.longest)
}

// quantile is the least duration that a share q of all durations does not exceed; 0 if there are none.
func (h *histogram) quantile(q float64) time.Duration {
	rank := max(uint64(math.Ceil(q*float64(h.count))), 1)
	var seen uint64
	for bucket, n := range h.buckets {
		if seen += n; seen >= rank {
			return min(middle(bucket), h.longest)
		}
	}
	return 0
}
