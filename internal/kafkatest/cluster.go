package kafkatest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Cluster is a Kafka of one node or several. Nodes have numbers from 1, which are their ids in Kafka; each is a broker and a
// controller. Its methods may be called by several goroutines.
type Cluster struct {
	dir    string
	shared bool

	mu    sync.Mutex
	nodes []*node
}

// Start starts a cluster of a test's own: of one node, or of three (replication factor 3, of which two must have a record
// before it is acknowledged). It is thrown away when the test ends. A test that breaks nothing calls Shared.
func Start(t testing.TB, nodes int) *Cluster {
	t.Helper()
	in := need(t)
	c, err := newCluster(in, filepath.Join(t.TempDir(), "kafka"), nodes)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(func() { c.cleanup(t) })
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.start(); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return c
}

// newCluster makes nodes that do not run yet.
func newCluster(in installation, dir string, nodes int) (*Cluster, error) {
	c := &Cluster{dir: dir}
	for id := 1; id <= nodes; id++ {
		n := &node{in: in, id: id, dir: filepath.Join(dir, fmt.Sprintf("node%d", id))}
		for _, port := range []*int{&n.port, &n.controllerPort} {
			var err error
			if *port, err = freePort(); err != nil {
				return nil, err
			}
		}
		c.nodes = append(c.nodes, n)
	}
	return c, os.Mkdir(dir, 0o700)
}

// start starts the cluster for the first time.
func (c *Cluster) start() error {
	id := newID()
	for i, n := range c.nodes {
		err := n.configure(c.properties(n))
		switch {
		case err != nil:
		case i == 0:
			err = n.format(id)
		default:
			err = n.formatLike(c.nodes[0], id)
		}
		if err != nil {
			return fmt.Errorf("format node %d: %w", n.id, err)
		}
	}
	if err := startAll(c.nodes); err != nil {
		return err
	}
	return c.complete()
}

// startAll starts nodes and waits for them all: the first ones may need the others to choose a controller.
func startAll(nodes []*node) error {
	for _, n := range nodes {
		if err := n.start(); err != nil {
			return err
		}
	}
	for _, n := range nodes {
		if err := n.ready(); err != nil {
			return err
		}
	}
	return nil
}

// complete waits until each node knows of all others that are to run.
func (c *Cluster) complete() error {
	want := 0
	for _, n := range c.nodes {
		if n.wanted {
			want++
		}
	}
	for _, n := range c.nodes {
		if !n.wanted {
			continue
		}
		client, err := kgo.NewClient(kgo.SeedBrokers(n.address()))
		if err != nil {
			return err
		}
		defer client.Close()
		if err := poll(func(ctx context.Context) error {
			answer, err := metadata(ctx, client)
			if err == nil && len(answer.Brokers) < want {
				err = fmt.Errorf("node %d sees %d brokers of %d", n.id, len(answer.Brokers), want)
			}
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}

// poll tries something until it works. The error is that of the last try.
func poll(try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Brokers are the addresses of all nodes, which stay the same whatever happens to these.
func (c *Cluster) Brokers() []string {
	addresses := make([]string, len(c.nodes))
	for i, n := range c.nodes {
		addresses[i] = n.address()
	}
	return addresses
}

// Kill ends nodes with SIGKILL, as the kernel does when memory runs out. What they have written survives: only the machine's own
// end would lose that.
func (c *Cluster) Kill(t testing.TB, nodes ...int) {
	t.Helper()
	c.each(t, nodes, (*node).kill)
}

// Pause freezes nodes (SIGSTOP). Their connections stay open, and nobody answers on them.
func (c *Cluster) Pause(t testing.TB, nodes ...int) {
	t.Helper()
	c.each(t, nodes, func(n *node) error { return n.signal(syscall.SIGSTOP) })
}

// Resume lets frozen nodes go on.
func (c *Cluster) Resume(t testing.TB, nodes ...int) {
	t.Helper()
	c.each(t, nodes, func(n *node) error { return n.signal(syscall.SIGCONT) })
}

// Stop shuts nodes down cleanly: they give up their partitions first. That needs a majority of the nodes; without it, Kill.
func (c *Cluster) Stop(t testing.TB, nodes ...int) {
	t.Helper()
	c.each(t, nodes, (*node).stop)
}

// Restart starts nodes again on the same data and ports, all of those that are named at once; one that runs is stopped first. It
// returns when all nodes that run know of each other.
func (c *Cluster) Restart(t testing.TB, nodes ...int) {
	t.Helper()
	var again []*node
	c.each(t, nodes, func(n *node) error {
		again = append(again, n)
		return n.stop()
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.nodes[0]; len(c.nodes) == 1 && n.killed {
		if err := n.fence(); err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
	}
	if err := errors.Join(startAll(again), c.complete()); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
}

// each does something to the nodes of those numbers.
func (c *Cluster) each(t testing.TB, nodes []int, do func(*node) error) {
	t.Helper()
	if c.shared {
		t.Fatal("kafkatest: the shared cluster is everybody's; break one of the test's own (Start)")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, id := range nodes {
		if id < 1 || id > len(c.nodes) {
			t.Fatalf("kafkatest: there is no node %d", id)
		}
		if err := do(c.nodes[id-1]); err != nil {
			t.Fatalf("kafkatest: %v", err)
		}
	}
}

// Client makes a client of the cluster that is closed with the test.
func (c *Cluster) Client(t testing.TB, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	client, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.Brokers()...)}, options...)...)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Cleanup(client.Close)
	return client
}

// Topic makes a topic of the test's own on all nodes, with these settings of its own, and returns its name when each partition
// has a leader. Nobody deletes it before the cluster ends.
func (c *Cluster) Topic(t testing.TB, partitions int, settings map[string]string) string {
	t.Helper()
	name := topicName(t.Name())
	values := map[string]*string{}
	for setting, value := range settings {
		values[setting] = &value
	}
	client := c.Client(t)
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	made, err := kadm.NewClient(client).CreateTopic(ctx, int32(partitions), int16(len(c.nodes)), values, name)
	if err != nil || made.Err != nil {
		t.Fatalf("kafkatest: create %s: %v", name, errors.Join(err, made.Err))
	}
	if err := poll(func(ctx context.Context) error {
		answer, err := metadata(ctx, client, name)
		if err != nil {
			return err
		}
		led := 0
		for _, p := range answer.Topics[0].Partitions {
			if p.Leader >= 0 {
				led++
			}
		}
		if led < partitions {
			return errors.Join(fmt.Errorf("%s has leaders for %d of %d partitions", name, led, partitions), kerr.ErrorForCode(answer.Topics[0].ErrorCode))
		}
		return nil
	}); err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	return name
}

// topicName is a name for a test's topic that no other has.
func topicName(test string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, test)
	return name[:min(len(name), 100)] + "-" + strings.ToLower(rand.Text()[:8])
}

// Leader is the node that leads a partition just now; 0 if none does.
func (c *Cluster) Leader(t testing.TB, topic string, partition int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), opWait)
	defer cancel()
	answer, err := metadata(ctx, c.Client(t), topic)
	if err != nil {
		t.Fatalf("kafkatest: %v", err)
	}
	for _, p := range answer.Topics[0].Partitions {
		if p.Partition == int32(partition) {
			return max(0, int(p.Leader))
		}
	}
	t.Fatalf("kafkatest: %s has no partition %d", topic, partition)
	return 0
}

// metadata asks a broker, and not what the client was told some seconds ago, as kadm does.
func metadata(ctx context.Context, client *kgo.Client, topics ...string) (*kmsg.MetadataResponse, error) {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	for _, topic := range topics {
		asked := kmsg.NewMetadataRequestTopic()
		asked.Topic = &topic
		request.Topics = append(request.Topics, asked)
	}
	return request.RequestWith(ctx, client)
}

// cleanup ends the cluster, whatever state the test has left it in.
func (c *Cluster) cleanup(t testing.TB) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report(t)
	for _, n := range c.nodes {
		if err := n.kill(); err != nil {
			t.Errorf("kafkatest: %v", err)
		}
	}
}

// report says what a failed test wants to know of the nodes, and fails the test if one has ended by itself.
func (c *Cluster) report(t testing.TB) {
	for _, n := range c.nodes {
		if n.wanted && !n.running() {
			t.Errorf("kafkatest: node %d has ended by itself: %v", n.id, n.proc.err)
		}
	}
	if !t.Failed() {
		return
	}
	for _, n := range c.nodes {
		t.Logf("the end of the log of node %d:\n%s", n.id, n.logTail(0))
	}
}
