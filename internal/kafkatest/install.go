package kafkatest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"testing"
)

// Version is the Kafka that .ci/need-kafka.sh fetches.
const Version = "4.4.0"

// LibEnv names the environment variable that holds the directory of another Kafka's jars.
const LibEnv = "KHATA_KAFKA_LIB"

// oldestJava is the oldest that Kafka's brokers run on.
const oldestJava = 17

// installation is what brokers are started from.
type installation struct {
	java string // path of the program
	lib  string // directory of Kafka's jars
	cds  string // file of the classes as Java has laid them out before; see cds.go
}

var installed = sync.OnceValues(func() (installation, error) { return find(os.Getenv) })

// need gives the installation. Without one, the test ends.
func need(t testing.TB) installation {
	t.Helper()
	in, err := installed()
	if err != nil {
		missing(t, err, os.Getenv("CI") == "true")
	}
	return in
}

// missing ends a test for which there is no Kafka. In CI there has to be one.
func missing(t testing.TB, err error, ci bool) {
	t.Helper()
	if ci {
		t.Fatalf("kafkatest: %v", err)
	}
	t.Skipf("needs a real Kafka: %v", err)
}

func find(getenv func(string) string) (installation, error) {
	in := installation{lib: getenv(LibEnv)}
	cache := cacheDir(getenv)
	if in.lib == "" {
		in.lib = filepath.Join(cache, "kafka-"+Version, "lib")
	}
	jars, err := filepath.Glob(filepath.Join(in.lib, "*.jar"))
	if err != nil {
		return in, err
	}
	if broker, err := filepath.Glob(filepath.Join(in.lib, "kafka_2.13-*.jar")); err != nil || len(broker) == 0 {
		return in, fmt.Errorf("there is no kafka_2.13-*.jar in %s: run .ci/need-kafka.sh, or set %s", in.lib, LibEnv)
	}
	if in.java, err = exec.LookPath("java"); err != nil {
		return in, fmt.Errorf("there is no java on PATH: run .ci/need-kafka.sh, or install Java %d or newer", oldestJava)
	}
	version, err := javaVersion(in.java)
	if err != nil {
		return in, err
	}
	in.cds, err = cdsFile(cache, version, jars)
	return in, err
}

// cacheDir is Khata's directory in the user's cache. .ci/need-kafka.sh says the same.
func cacheDir(getenv func(string) string) string {
	dir := getenv("XDG_CACHE_HOME")
	if dir == "" {
		dir = filepath.Join(getenv("HOME"), ".cache")
	}
	return filepath.Join(dir, "khata")
}

var versionLine = regexp.MustCompile(` version "(\d+)`)

// javaVersion gives all that java says of its version.
func javaVersion(java string) (string, error) {
	out, err := exec.Command(java, "-version").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s -version: %w: %s", java, err, out)
	}
	found := versionLine.FindSubmatch(out)
	if found == nil {
		return "", fmt.Errorf("%s does not say its version: %s", java, out)
	}
	if major, err := strconv.Atoi(string(found[1])); err != nil || major < oldestJava {
		return "", errors.Join(err, fmt.Errorf("%s is of version %s: install Java %d or newer", java, found[1], oldestJava))
	}
	return string(out), nil
}
