package bench

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestHistogram(t *testing.T) {
	t.Parallel()
	r := newRandom()
	var samples []time.Duration
	var whole, half histogram
	for i := range 20_000 {
		d := time.Duration(math.Exp(r.Float64() * 25)) // nanoseconds to a minute
		samples = append(samples, d)
		if i%2 == 0 {
			whole.add(d)
		} else {
			half.add(d)
		}
	}
	whole.merge(&half)
	slices.Sort(samples)
	for _, q := range []float64{0, 0.001, 0.25, 0.5, 0.95, 0.99, 0.9999, 1} {
		want := samples[max(int(math.Ceil(q*float64(len(samples))))-1, 0)]
		got := whole.quantile(q)
		if off := math.Abs(float64(got-want)) / float64(want); off > 0.01 && got != want {
			t.Errorf("quantile %v is %s, want %s", q, got, want)
		}
	}
	if whole.longest != samples[len(samples)-1] || whole.quantile(1) > whole.longest {
		t.Errorf("the longest is %s (%s), want %s", whole.longest, whole.quantile(1), samples[len(samples)-1])
	}
}

func TestHistogram_Edges(t *testing.T) {
	t.Parallel()
	var h histogram
	if got := h.quantile(0.5); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	for _, d := range []time.Duration{-1, 0, 1, 127, 128, 255, 256, 257, math.MaxInt64} {
		if got := bucketOf(d); got < 0 || got >= len(h.buckets) {
			t.Fatalf("%d is in bucket %d of %d", d, got, len(h.buckets))
		}
		if got := middle(bucketOf(d)); d >= 0 && math.Abs(float64(got-d)) > float64(d)/128 {
			t.Errorf("the bucket of %d has %d as its middle", d, got)
		}
		h.add(d)
	}
	if h.count != 9 || h.longest != math.MaxInt64 {
		t.Errorf("%d counted, the longest %d", h.count, h.longest)
	}
}
