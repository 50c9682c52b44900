package kafkatest

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// logging is log4j's. The values of all settings, which Kafka logs several times over, would bury the rest.
const logging = `status=warn
appender.out.type=Console
appender.out.name=OUT
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=[%d] %p %m (%c)%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=OUT
logger.config.name=org.apache.kafka.common.config.AbstractConfig
logger.config.level=warn
`

// properties are a node's settings. What is not Kafka's default is what a small cluster needs, or a timer that a test would
// otherwise wait minutes for.
func (c *Cluster) properties(n *node) string {
	replicas := strconv.Itoa(len(c.nodes))
	minISR := strconv.Itoa(c.minISR())
	voters := make([]string, len(c.nodes))
	for i, other := range c.nodes {
		voters[i] = fmt.Sprintf("%d@127.0.0.1:%d", other.id, other.controllerPort)
	}
	set := map[string]string{
		"process.roles":                  "broker,controller",
		"node.id":                        strconv.Itoa(n.id),
		"controller.quorum.voters":       strings.Join(voters, ","),
		"listeners":                      fmt.Sprintf("PLAINTEXT://127.0.0.1:%d,CONTROLLER://127.0.0.1:%d", n.port, n.controllerPort),
		"advertised.listeners":           fmt.Sprintf("PLAINTEXT://127.0.0.1:%d", n.port),
		"controller.listener.names":      "CONTROLLER",
		"listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
		"log.dirs":                       n.dataDir(),

		"auto.create.topics.enable":                        "false",
		"default.replication.factor":                       replicas,
		"min.insync.replicas":                              minISR,
		"offsets.topic.replication.factor":                 replicas,
		"offsets.topic.num.partitions":                     "3",
		"transaction.state.log.replication.factor":         replicas,
		"transaction.state.log.min.isr":                    minISR,
		"transaction.state.log.num.partitions":             "3",
		"share.coordinator.state.topic.replication.factor": replicas,
		"share.coordinator.state.topic.min.isr":            minISR,

		"group.initial.rebalance.delay.ms": "0",
		// A broker that is killed or frozen loses its partitions after this, and one that is killed cannot come back before: 9 s by
		// default. Shorter, and a busy machine loses brokers that are well.
		"broker.session.timeout.ms":    "4000",
		"broker.heartbeat.interval.ms": "1000",
		// How soon transactions end whose time is up, and retention is applied: 10 s and 5 min by default, the first time after 30 s.
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
		"log.retention.check.interval.ms":                             "2000",
		"log.initial.task.delay.ms":                                   "500",
		"log.segment.delete.delay.ms":                                 "500",
	}
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(set)) {
		fmt.Fprintf(&text, "%s=%s\n", name, set[name])
	}
	return text.String()
}

// controllerOnly are the settings that are others when only its controller is to run, to find out that its broker is dead. Of two lines Java takes the last.
func (n *node) controllerOnly() string {
	listener := fmt.Sprintf("CONTROLLER://127.0.0.1:%d", n.controllerPort)
	return "process.roles=controller\nlisteners=" + listener + "\nadvertised.listeners=" + listener + "\nbroker.session.timeout.ms=100\n"
}

// minISR is how many replicas must have a record before it is acknowledged.
func (c *Cluster) minISR() int { return min(2, len(c.nodes)) }

// newID is a random id in Kafka's form: 16 bytes in base64. One that begins with a dash would be taken for a flag.
func newID() string {
	for {
		var id [16]byte
		_, _ = rand.Read(id[:]) // It never fails.
		if text := base64.RawURLEncoding.EncodeToString(id[:]); text[0] != '-' {
			return text
		}
	}
}
