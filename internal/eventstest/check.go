package eventstest

import (
	"maps"
	"slices"
	"testing"
	"time"
)

// place is a key of a topic.
type place struct{ topic, key string }

// checker is what is known of the events up to one.
type checker struct {
	t testing.TB
	// order is the place of a fact among those of its key.
	order map[Fact]int
	first map[string]Sent // by id, when it came for the first time
	ids   map[Fact]string
	// at is where a key is: the place of its next fact, if nothing comes again.
	at         map[place]int
	partitions map[place]int32
	again      int
	faults     int
}

// Check holds what was sent against what should have been: every fact is there, nothing else is, a fact has one id and an id one fact, a key
// has one partition, and in it its facts stand in order. What comes again is the same as before, and so is what comes after it. It returns how
// often something came again.
func Check(t testing.TB, want []Fact, sent []Sent) (again int) {
	t.Helper()
	c := checker{
		t: t, order: map[Fact]int{}, first: map[string]Sent{}, ids: map[Fact]string{}, at: map[place]int{}, partitions: map[place]int32{},
	}
	next := map[place]int{}
	for _, f := range want {
		p := place{f.Topic, f.Key}
		c.order[f] = next[p]
		next[p]++
	}
	if len(c.order) != len(want) {
		t.Errorf("%d facts are expected, and only %d different ones", len(want), len(c.order))
	}
	for _, s := range sent {
		c.check(s)
	}
	for _, f := range want {
		if _, there := c.ids[f]; !there {
			c.fault("%+v is not published", f)
		}
	}
	if c.faults > mostTold {
		t.Errorf("and %d faults more", c.faults-mostTold)
	}
	return c.again
}

func (c *checker) check(s Sent) {
	c.t.Helper()
	f, err := s.Fact()
	order, known := c.order[f]
	if err != nil || !known {
		c.fault("%v: the journal has no such fact: %+v", s, f)
		return
	}
	p := place{s.Topic, s.Key}
	if before, known := c.partitions[p]; known && before != s.Partition {
		c.fault("%v is in another partition than what came before, which is in %d", s, before)
	}
	c.partitions[p] = s.Partition
	if s.Timestamp.Before(time.Now().Add(-time.Hour)) {
		c.fault("%v is stamped %v", s, s.Timestamp)
	}
	// To begin again at an earlier fact is no fault. To leave one out is, the first time and every time.
	if order > c.at[p] {
		c.fault("%v comes too early, or %d facts of its key before it are left out", s, order-c.at[p])
	}
	c.at[p] = order + 1
	if id, known := c.ids[f]; known && id != s.ID() {
		c.fault("%v has the id %s, and had %s", s, s.ID(), id)
	}
	c.ids[f] = s.ID()
	before, repeated := c.first[s.ID()]
	if !repeated {
		c.first[s.ID()] = s
		return
	}
	c.again++
	if !slices.Equal(before.Value, s.Value) || !maps.Equal(before.Headers, s.Headers) {
		c.fault("%v has the id of %v, and is another", s, before)
	}
}

// mostTold bounds what a check prints: where a record is lost, everything after it may be.
const mostTold = 20

func (c *checker) fault(format string, args ...any) {
	c.t.Helper()
	if c.faults++; c.faults <= mostTold {
		c.t.Errorf(format, args...)
	}
}
