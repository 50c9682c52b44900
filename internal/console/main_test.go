package console_test

import (
	"os"
	"testing"

	"github.com/khata-ledger/khata/internal/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }
