package kafkatest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// opWait bounds each thing that a test waits for here. A busy machine takes its time over three brokers.
const opWait = 2 * time.Minute

// node is a broker, which is a controller too. Its data and its ports outlive its process.
type node struct {
	in             installation
	id             int // from 1
	dir            string
	port           int
	controllerPort int

	proc *process // nil before the first start
	// wanted says that it is to run; otherwise somebody has stopped or killed it.
	wanted bool
	// killed says that it was ended by kill, and has not been started since.
	killed bool
	// logged is the size of the log when the process was started.
	logged int64
	// draft is the file of classes that the process writes when it is stopped; none if it is empty.
	draft string
}

func (n *node) dataDir() string    { return filepath.Join(n.dir, "data") }
func (n *node) logPath() string    { return filepath.Join(n.dir, "log") }
func (n *node) configPath() string { return filepath.Join(n.dir, "server.properties") }

func (n *node) controllerPath() string { return filepath.Join(n.dir, "controller.properties") }

func (n *node) address() string { return "127.0.0.1:" + strconv.Itoa(n.port) }

// java starts one of Kafka's programs.
func (n *node) java(flags []string, class string, args ...string) (*process, error) {
	log, err := os.OpenFile(n.logPath(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	all := append([]string{
		"-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:+ExitOnOutOfMemoryError",
		"-Dlog4j2.configurationFile=file:" + filepath.Join(n.dir, "log4j2.properties"), "-cp", filepath.Join(n.in.lib, "*"),
	}, flags...)
	return startProcess(n.in.java, append(append(all, class), args...), log)
}

// configure makes the directory of a new node.
func (n *node) configure(properties string) error {
	return errors.Join(os.Mkdir(n.dir, 0o700), os.WriteFile(n.configPath(), []byte(properties), 0o600),
		os.WriteFile(n.controllerPath(), []byte(properties+n.controllerOnly()), 0o600),
		os.WriteFile(filepath.Join(n.dir, "log4j2.properties"), []byte(logging), 0o600))
}

// format makes its data directory, by Kafka's own tool.
func (n *node) format(clusterID string) error {
	p, err := n.java(n.in.cdsFlags(""), "kafka.tools.StorageTool", "format", "--cluster-id", clusterID, "--config", n.configPath())
	if err != nil {
		return err
	}
	if !p.ended(opWait) {
		_ = p.signal(syscall.SIGKILL)
		<-p.done
	}
	if p.err != nil {
		return fmt.Errorf("%w\n%s", p.err, n.logTail(0))
	}
	return nil
}

// formatLike makes what the tool would make: the first records of the cluster, which are the same on all nodes, and who is who. The
// tool takes a second of processor time for each node.
func (n *node) formatLike(other *node, clusterID string) error {
	const first = "__cluster_metadata-0"
	who := fmt.Sprintf("version=1\ncluster.id=%s\nnode.id=%d\ndirectory.id=%s\n", clusterID, n.id, newID())
	return errors.Join(os.CopyFS(filepath.Join(n.dataDir(), first), os.DirFS(filepath.Join(other.dataDir(), first))),
		os.WriteFile(filepath.Join(n.dataDir(), "meta.properties"), []byte(who), 0o600))
}

// start starts the process; ready waits for it.
func (n *node) start() error {
	n.logged = n.logSize()
	p, err := n.java(n.in.cdsFlags(n.draft), "kafka.Kafka", n.configPath())
	if err != nil {
		return err
	}
	n.proc, n.wanted, n.killed = p, true, false
	return nil
}

func (n *node) ready() error { return n.says("Kafka Server started", opWait) }

// says waits until the process has logged something.
func (n *node) says(what string, within time.Duration) error {
	for deadline := time.Now().Add(within); ; {
		text, err := n.logSince(n.logged)
		switch {
		case err != nil:
			return err
		case bytes.Contains(text, []byte(what)):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("node %d does not start\n%s", n.id, n.logTail(n.logged))
		case n.proc.ended(20 * time.Millisecond):
			return fmt.Errorf("node %d ended when it was to start: %w\n%s", n.id, n.proc.err, n.logTail(n.logged))
		}
	}
}

// fence has its controller alone find out that its broker is dead, and take the partitions from it, as a controller does that lives on when a broker
// dies. A lone node is its own controller. It would start as what it was before, a broker that leads its partitions, and find out some seconds later:
// and Kafka 4.4 takes a partition that has no leader just then for a deleted one, and forgets that it owes it the end of a transaction
// (KAFKA-20734), which stays open there for ever.
func (n *node) fence() error {
	n.logged = n.logSize()
	p, err := n.java(n.in.cdsFlags(""), "kafka.Kafka", n.controllerPath())
	if err != nil {
		return err
	}
	n.proc = p
	// It does not say so of one that it has found dead before: that is as good.
	const enough = 15 * time.Second
	_ = n.says("Fencing broker", enough)
	return n.stop()
}

// signal is for a process that runs.
func (n *node) signal(sig syscall.Signal) error {
	if !n.running() {
		return fmt.Errorf("node %d does not run", n.id)
	}
	return n.proc.signal(sig)
}

func (n *node) running() bool { return n.proc != nil && !n.proc.ended(0) }

// stop shuts the process down cleanly. One that has stopped already is left at that.
func (n *node) stop() error {
	if !n.running() {
		return nil
	}
	n.wanted = false
	// A test may have left it frozen. An error means that it has just ended.
	_ = n.proc.signal(syscall.SIGCONT)
	_ = n.proc.signal(syscall.SIGTERM)
	if !n.proc.ended(opWait) {
		return errors.Join(fmt.Errorf("node %d does not stop\n%s", n.id, n.logTail(n.logged)), n.kill())
	}
	// Java ends so after a SIGTERM that it has handled.
	const terminated = 128 + int(syscall.SIGTERM)
	if exit, ok := errors.AsType[*exec.ExitError](n.proc.err); ok && exit.ExitCode() == terminated {
		return nil
	}
	return n.proc.err
}

// kill ends the process as the kernel does when memory runs out.
func (n *node) kill() error {
	if !n.running() {
		return nil
	}
	n.wanted, n.killed = false, true
	if err := n.proc.signal(syscall.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if !n.proc.ended(opWait) {
		return fmt.Errorf("node %d survives SIGKILL", n.id)
	}
	return nil
}

func (n *node) logSize() int64 {
	info, err := os.Stat(n.logPath())
	if err != nil {
		return 0
	}
	return info.Size()
}

func (n *node) logSince(size int64) ([]byte, error) {
	f, err := os.Open(n.logPath())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.NewSectionReader(f, size, 1<<30))
}

// logTail gives the end of what was logged after that size.
func (n *node) logTail(since int64) string {
	const most = 4000
	text, err := n.logSince(max(since, n.logSize()-most))
	if err != nil {
		return err.Error()
	}
	return string(bytes.TrimSpace(text))
}
