package server_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/khata-ledger/khata/internal/kafkatest"
	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestMain(m *testing.M) {
	if config := os.Getenv(clientEnv); config != "" {
		os.Exit(runClient(config))
	}
	code := kafkatest.Main(func() int { return pgtest.Main(m, kafkatest.Ignore()) })
	if binaryDir != "" {
		_ = os.RemoveAll(binaryDir)
	}
	os.Exit(code)
}

// seedEnv overrides the seed of everything random here.
const seedEnv = "KHATA_TEST_SEED"

// seed is the same in every run, unless it is overridden, and is in the log of the test.
func seed(t testing.TB) uint64 {
	t.Helper()
	n := uint64(88412)
	if text := os.Getenv(seedEnv); text != "" {
		var err error
		if n, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("%s: %v", seedEnv, err)
		}
	}
	t.Logf("seed %d (%s)", n, seedEnv)
	return n
}

// random is one of the generators of a seed, by number: each goroutine has its own.
func random(seed uint64, number int) *rand.Rand {
	return rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // repeatable on purpose
}

// count is how much a storm does: a number for every change, and one for make test-long.
func count(short, long int) int {
	if os.Getenv("KHATA_TEST_LONG") != "" {
		return long
	}
	return short
}

var binaryDir string

// makeBinaryDir makes it, once for all tests.
var makeBinaryDir = sync.OnceValue(func() (err error) {
	binaryDir, err = os.MkdirTemp("", "khata-test-bin-")
	return err
})

// build builds the khata command, and buildConsumer the example of an inbox.
var (
	build         = sync.OnceValues(func() (string, error) { return buildProgram("khata", "./cmd/khata") })
	buildConsumer = sync.OnceValues(func() (string, error) { return buildProgram("consumer", "./ledger/inbox/example") })
)

func buildProgram(name, source string) (path string, err error) {
	if err := makeBinaryDir(); err != nil {
		return "", err
	}
	path = filepath.Join(binaryDir, name)
	cmd := exec.Command("go", "build", "-o", path, source)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}
