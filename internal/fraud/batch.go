package fraud

import (
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// progressKey is the key of how far the check has come, in each partition of the changelog. No payer has it: theirs have a slash.
const progressKey = "partition"

// maxUnreadable is how many events that could not be read are remembered of a partition, so that they are not flagged a second time.
const maxUnreadable = 500

// partition is what is remembered of the payers of a partition. All states are kept, also where no window reaches back to them: they are how a
// transfer is known that comes again after weeks.
type partition struct {
	states map[string]*State
	// next is the offset to go on from; 0 if nobody has been at it yet.
	next       int64
	unreadable []string
}

func newPartition() *partition { return &partition{states: map[string]*State{}} }

// change is what a batch does to a partition, if it is committed.
type change struct {
	*partition
	id         int32
	touched    map[string]*State
	order      []string // the keys of touched, as they came
	next       int64
	unreadable []string
}

func (p *partition) change(id int32) *change {
	return &change{partition: p, id: id, touched: map[string]*State{}, next: p.next, unreadable: p.unreadable}
}

func (c *change) state(place string) *State {
	if s, there := c.touched[place]; there {
		return s
	}
	if s, there := c.states[place]; there {
		return s
	}
	return &State{}
}

func (c *change) set(place string, s *State) {
	if _, there := c.touched[place]; !there {
		c.order = append(c.order, place)
	}
	c.touched[place] = s
}

// apply makes the change that it is. It is committed.
func (c *change) apply() {
	for place, s := range c.touched {
		c.states[place] = s
	}
	c.partition.next, c.partition.unreadable = c.next, c.unreadable
}

// judge judges the events of a partition in their order, and gives the verdicts.
func (c *change) judge(rules *Rules, topic string, records []*kgo.Record, t *tally) (verdicts []*kgo.Record, err error) {
	for _, r := range records {
		e := readEvent(r)
		var verdict *kgo.Record
		switch e.kind {
		case payerless:
			t.payerless++
		case aFault:
			verdict, err = c.flagUnreadable(rules, topic, &e, t)
		case aPayment:
			verdict, err = c.judgePayment(rules, topic, &e, t)
		}
		if err != nil {
			return nil, err
		}
		if verdict != nil {
			verdicts = append(verdicts, verdict)
		}
		c.next = r.Offset + 1
	}
	return verdicts, nil
}

func (c *change) judgePayment(rules *Rules, topic string, e *event, t *tally) (*kgo.Record, error) {
	place := e.payment.place()
	reasons, next, isNew := rules.Judge(c.state(place), e.payment)
	if !isNew {
		t.duplicates++
		return nil, nil
	}
	c.set(place, next)
	t.judged(e.time())
	if len(reasons) > 0 {
		t.flagged++
	} else {
		t.approved++
	}
	return rules.verdict(topic, e, reasons)
}

func (c *change) flagUnreadable(rules *Rules, topic string, e *event, t *tally) (*kgo.Record, error) {
	id := e.unreadableID()
	if slices.Contains(c.unreadable, id) {
		t.duplicates++
		return nil, nil
	}
	// A copy: what was before may be needed again.
	list := append(slices.Clone(c.unreadable), id)
	c.unreadable = list[max(0, len(list)-maxUnreadable):]
	t.unreadable++
	t.flagged++
	t.judged(e.time())
	return rules.unreadable(topic, e)
}

// records are those of the changelog: the last state of each payer, and how far it has come. They go to the partition of the
// changelog that has the number of that from which they were made.
func (c *change) records(topic string) ([]*kgo.Record, error) {
	var list []*kgo.Record
	add := func(key string, value []byte, err error) error {
		if err != nil {
			return fmt.Errorf("encode the state of %s: %w", key, err)
		}
		list = append(list, &kgo.Record{Topic: topic, Partition: c.id, Key: []byte(key), Value: value})
		return nil
	}
	for _, place := range c.order {
		value, err := c.touched[place].encode()
		if err := add(place, value, err); err != nil {
			return nil, err
		}
	}
	value, err := proto.Marshal(&khatav1.FraudProgress{Next: c.next, Unreadable: c.unreadable})
	err = add(progressKey, value, err)
	return list, err
}

// read takes over a record of the changelog.
func (p *partition) read(r *kgo.Record) error {
	key := string(r.Key)
	if key != progressKey {
		if r.Value == nil {
			delete(p.states, key)
			return nil
		}
		s, err := decodeState(r.Value)
		if err != nil {
			return fmt.Errorf("the state of %s at offset %d: %w", key, r.Offset, err)
		}
		p.states[key] = s
		return nil
	}
	var progress khatav1.FraudProgress
	if err := proto.Unmarshal(r.Value, &progress); err != nil {
		return fmt.Errorf("the progress at offset %d: %w", r.Offset, err)
	}
	p.next, p.unreadable = progress.Next, progress.Unreadable
	return nil
}
