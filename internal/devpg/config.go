package devpg

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
)

// BinEnv names the environment variable that holds the directory of initdb and
// postgres when Config.Bin is empty.
const BinEnv = "KHATA_PG_BIN"

// Superuser is the bootstrap role of every cluster that this package creates.
// It passes every permission check, so nothing but set-up should connect as it.
const Superuser = "postgres"

// Errors that a caller can act on; each is wrapped with the particulars.
var (
	// ErrNotInstalled means that no usable PostgreSQL was found.
	ErrNotInstalled = errors.New("no PostgreSQL found: run apt-get install postgresql, or set " + BinEnv +
		" to the directory that holds initdb and postgres")
	// ErrVersion means that the data directory and the binaries at hand are of
	// different major versions. The data directory has not been touched.
	ErrVersion = errors.New("data directory of another PostgreSQL version")
	// ErrInUse means that another process runs, starts or stops a server on
	// the directory.
	ErrInUse = errors.New("data directory in use")
	// ErrUnreachable means that the user that PostgreSQL would run as cannot
	// enter the directory.
	ErrUnreachable = errors.New("data directory out of reach")
	// ErrNoCluster means that the directory holds no cluster.
	ErrNoCluster = errors.New("no database here")
)

// Config says where and how to run a server. The zero value of every field but
// Dir is usable.
type Config struct {
	// Dir is created if missing. A relative path is resolved against the
	// working directory of the call. Required; see DefaultDir.
	Dir string
	// Bin is the directory that holds initdb and postgres, version 15 or
	// later. Default: $KHATA_PG_BIN, else the newest one in the usual places
	// that fits the data directory.
	Bin string
	// Unsafe trades durability for speed: fsync and full_page_writes are off.
	// A crash of the machine, though not of postgres, loses or corrupts the
	// cluster. For tests only.
	Unsafe bool
	// Settings are further server settings (postgres -c name=value); they win
	// over those of this package.
	Settings map[string]string
	// Logger hears of waits and repairs. Default: silence.
	Logger *slog.Logger
}

// DefaultDir is the directory of a server whose user named none:
// /var/lib/khata for root, since PostgreSQL runs as another user and cannot
// enter root's home; else $XDG_DATA_HOME/khata or ~/.local/share/khata (XDG
// Base Directory Specification). It fails only if the user has no home.
func DefaultDir() (string, error) {
	if os.Geteuid() == 0 {
		return "/var/lib/khata", nil
	}
	// The specification says to ignore a relative path.
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "khata"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		u, uerr := user.Current()
		if uerr != nil || u.HomeDir == "" {
			return "", fmt.Errorf("find a data directory: %w", err)
		}
		home = u.HomeDir
	}
	return filepath.Join(home, ".local", "share", "khata"), nil
}

func (c Config) logger() *slog.Logger {
	if c.Logger != nil {
		return c.Logger
	}
	return slog.New(slog.DiscardHandler)
}
