// Package kafkatest gives tests a real Apache Kafka, and kills, freezes and restarts its brokers on demand.
//
// A package that uses it has
//
//	func TestMain(m *testing.M) { os.Exit(kafkatest.Main(m.Run)) }
//
// or, with databases as well,
//
//	func TestMain(m *testing.M) {
//		os.Exit(kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) }))
//	}
//
// and calls Shared for the one broker that all tests of the process share, each with topics of its own (Cluster.Topic). Start
// gives a cluster of a test's own, for tests that break it. A broker takes some 300 MB and two seconds of processor time to
// start.
//
// Where there is no Kafka, tests that ask for one are skipped, and say what to run; with CI=true in the environment they fail.
// .ci/need-kafka.sh puts Kafka where this package looks for it: in the user's cache, or where KHATA_KAFKA_LIB says.
//
// The brokers are real but small: loopback only, nothing encrypted, few partitions of Kafka's own topics, and timers that
// would be minutes in production are seconds (see properties). Tests of speed have no business here.
//
// It must be imported from _test.go files only.
package kafkatest
