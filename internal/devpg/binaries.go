package devpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// oldest is the first major version with everything that Khata needs.
const oldest = 15

// binaries is a directory of PostgreSQL programs that were seen to run.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// places are where distributions put the server programs; Debian puts them on
// nobody's PATH.
var places = []string{
	"/usr/lib/postgresql/*/bin",               // Debian, Ubuntu
	"/usr/pgsql-*/bin",                        // PGDG on Red Hat
	"/usr/libexec/postgresql*",                // Alpine
	"/usr/local/pgsql/bin",                    // built from source
	"/opt/homebrew/opt/postgresql@*/bin",      // Homebrew, ARM
	"/usr/local/opt/postgresql@*/bin",         // Homebrew, Intel
	"/Applications/Postgres.app/*/latest/bin", // Postgres.app
}

// findBinaries returns the newest programs, or for an existing cluster (major
// not 0) those of its version: a server of another one refuses the directory.
func findBinaries(ctx context.Context, explicit string, major int, acct *account) (binaries, error) {
	if explicit == "" {
		explicit = os.Getenv(BinEnv)
	}
	if explicit != "" {
		return checkExplicit(ctx, explicit, major, acct)
	}
	var (
		best     binaries
		unusable []error
	)
	for _, dir := range candidates() {
		b, err := probe(ctx, dir, acct)
		switch {
		case err != nil:
			unusable = append(unusable, err)
		case major != 0 && b.major != major:
			unusable = append(unusable, fmt.Errorf("%s is version %d", dir, b.major))
		case b.major > best.major:
			best = b
		}
	}
	switch {
	case best.major != 0:
		return best, nil
	case ctx.Err() != nil: // They were not asked to the end.
		return best, fmt.Errorf("look for PostgreSQL: %w", ctx.Err())
	case major != 0:
		return best, fmt.Errorf("%w: it is of version %d: install postgresql-%d, or set %s to its programs%s",
			ErrVersion, major, major, BinEnv, because(unusable))
	}
	return best, fmt.Errorf("%w%s", ErrNotInstalled, because(unusable))
}

func checkExplicit(ctx context.Context, dir string, major int, acct *account) (binaries, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	b, err := probe(ctx, dir, acct)
	switch {
	case err != nil && ctx.Err() != nil:
		return b, fmt.Errorf("look for PostgreSQL: %w", ctx.Err())
	case err != nil:
		return b, fmt.Errorf("%w (%w)", ErrNotInstalled, err)
	}
	if major != 0 && b.major != major {
		return b, fmt.Errorf("%w: it is of version %d, and the programs in %s are of version %d",
			ErrVersion, major, dir, b.major)
	}
	return b, nil
}

// because appends what was found and why it does not do, if anything was.
func because(unusable []error) string {
	if len(unusable) == 0 {
		return ""
	}
	return " (" + strings.ReplaceAll(errors.Join(unusable...).Error(), "\n", "; ") + ")"
}

func candidates() []string {
	var dirs []string
	for _, pattern := range places {
		found, _ := filepath.Glob(pattern)
		dirs = append(dirs, found...)
	}
	// The PATH may hold pg_config or psql without a server, so look for postgres.
	if p, err := exec.LookPath("postgres"); err == nil {
		if p, err = filepath.Abs(p); err == nil {
			dirs = append(dirs, filepath.Dir(p))
		}
	}
	var holding []string
	for _, dir := range dirs {
		if _, err := os.Stat(filepath.Join(dir, "postgres")); err == nil {
			holding = append(holding, dir)
		}
	}
	return holding
}

// probe runs both programs, as the user that will run them: that they exist
// does not mean that their libraries do, or that this user may execute them.
func probe(ctx context.Context, dir string, acct *account) (binaries, error) {
	b := binaries{dir: dir}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := os.Stat(b.path(name)); err != nil {
			return b, err
		}
		cmd := exec.CommandContext(ctx, b.path(name), "--version")
		cmd.Env = environment(dir, "/")
		cmd.Dir = "/"
		cmd.SysProcAttr = attributes(acct, 0)
		cmd.WaitDelay = time.Second
		out, err := cmd.CombinedOutput()
		if err != nil {
			return b, fmt.Errorf("%s does not run: %w %s", b.path(name), err, strings.TrimSpace(string(out)))
		}
		if b.major, err = parseMajor(string(out)); err != nil {
			return b, fmt.Errorf("%s --version: %w", b.path(name), err)
		}
	}
	if b.major < oldest {
		return b, fmt.Errorf("%s is version %d, older than %d", dir, b.major, oldest)
	}
	return b, nil
}

// parseMajor reads "postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)", also
// "18beta1" and "9.6.24".
func parseMajor(version string) (int, error) {
	_, v, ok := strings.Cut(version, "(PostgreSQL) ")
	end := strings.IndexFunc(v, func(r rune) bool { return r < '0' || r > '9' })
	if end < 0 {
		end = len(v)
	}
	n, err := strconv.Atoi(v[:end])
	if !ok || err != nil {
		return 0, fmt.Errorf("not a version of PostgreSQL: %q", strings.TrimSpace(version))
	}
	return n, nil
}

// clusterVersion is the major version of the cluster in dataDir, or 0 if there
// is no such directory. Anything else that is not plainly a cluster is an error:
// it must not be taken for an empty place.
func clusterVersion(dataDir string) (int, error) {
	if _, err := os.Lstat(dataDir); errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	b, err := os.ReadFile(filepath.Join(dataDir, "PG_VERSION"))
	if err != nil {
		return 0, fmt.Errorf("%s exists, but is not a readable PostgreSQL cluster: %w", dataDir, err)
	}
	v, _, _ := strings.Cut(strings.TrimSpace(string(b)), ".")
	major, err := strconv.Atoi(v)
	if err != nil || major <= 0 {
		return 0, fmt.Errorf("%s exists, but its PG_VERSION is %q", dataDir, b)
	}
	return major, nil
}

// environment is all that PostgreSQL sees of ours. The caller's PGPORT, PGDATA
// or LANG would otherwise leak in; a LANG that is not installed stops initdb.
func environment(bin, home string) []string {
	return []string{"PATH=" + bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC", "HOME=" + home}
}
