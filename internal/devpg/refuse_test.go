package devpg

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestStart_OtherVersion is the promise that a ledger needs most: another
// version's cluster is refused and left as it is, never made anew.
func TestStart_OtherVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version string
		want          error
	}{
		{"newer", "99\n", ErrVersion},
		{"old scheme", "9.6\n", ErrVersion},
		{"garbage", "tea\n", nil},
		{"empty", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := testDir(t)
			data := filepath.Join(dir, "data")
			write(t, filepath.Join(data, "PG_VERSION"), c.version)
			write(t, filepath.Join(data, "base", "1"), "money")
			give(t, data)
			for _, bin := range []string{"", installed(t)} {
				_, err := Start(t.Context(), Config{Dir: dir, Bin: bin})
				if err == nil || c.want != nil && !errors.Is(err, c.want) {
					t.Errorf("Start: %v", err)
				}
			}
			if b, _ := os.ReadFile(filepath.Join(data, "base", "1")); string(b) != "money" {
				t.Error("the data was touched")
			}
		})
	}
}

func TestStart_NotACluster(t *testing.T) {
	t.Parallel()
	dir := testDir(t)
	write(t, filepath.Join(dir, "data", "letter.txt"), "dear")
	give(t, filepath.Join(dir, "data"))
	if _, err := Start(t.Context(), Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "not a readable") {
		t.Errorf("Start: %v", err)
	}
}

func TestStart_NoPostgreSQL(t *testing.T) {
	t.Parallel()
	old := testDir(t)
	for _, name := range []string{"initdb", "postgres"} {
		write(t, filepath.Join(old, name), "#!/bin/sh\necho 'postgres (PostgreSQL) 14.9 (Debian)'\n")
		if err := os.Chmod(filepath.Join(old, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, bin := range []string{old, testDir(t)} {
		_, err := Start(t.Context(), Config{Dir: testDir(t), Bin: bin})
		if !errors.Is(err, ErrNotInstalled) || !strings.Contains(err.Error(), "apt-get install postgresql") {
			t.Errorf("Start with %s: %v", bin, err)
		}
	}
}

func TestStart_OutOfReach(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root's server runs as another user")
	}
	closed := testDir(t)
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(closed, "below", "khata")
	link := filepath.Join(testDir(t), "link")
	if err := os.Symlink(closed, link); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{dir, filepath.Join(link, "below", "khata")} {
		_, err := Start(t.Context(), Config{Dir: dir})
		if !errors.Is(err, ErrUnreachable) || !strings.Contains(err.Error(), "cannot enter") {
			t.Errorf("Start in %s: %v", dir, err)
		}
	}
	// A directory with something in it is not opened to others.
	full := testDir(t)
	write(t, filepath.Join(full, "diary"), "")
	if err := os.Chmod(full, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Config{Dir: full}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("Start in a private directory: %v", err)
	}
	if info, _ := os.Stat(full); info.Mode().Perm() != 0o700 {
		t.Errorf("mode is now %v", info.Mode())
	}
}

func TestParseMajor(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n": 15,
		"initdb (PostgreSQL) 18beta1":                            18,
		"postgres (PostgreSQL) 9.6.24":                           9,
		"postgres (PostgreSQL) 16":                               16,
		"pg 15":                                                  0,
		"":                                                       0,
	} {
		if got, err := parseMajor(in); got != want || (err == nil) != (want != 0) {
			t.Errorf("parseMajor(%q) = %d, %v", in, got, err)
		}
	}
}

func TestDSN_Quotes(t *testing.T) {
	t.Parallel()
	got := DSN(`/a b/c'd\e`, "o'brien", "khata")
	if want := `host='/a b/c\'d\\e' port=5432 user='o\'brien' dbname='khata' sslmode=disable`; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDefaultDir(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", "/xdg")
	got, err := DefaultDir()
	want := "/xdg/khata"
	if os.Geteuid() == 0 {
		want = "/var/lib/khata"
	}
	if got != want || err != nil {
		t.Errorf("DefaultDir = %s, %v", got, err)
	}
}

func installed(t *testing.T) string {
	t.Helper()
	bin, err := findBinaries(t.Context(), "", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	return bin.dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// give makes a tree PostgreSQL's, as it would be after an earlier run.
func give(t *testing.T, dir string) {
	t.Helper()
	acct, err := layout{t.TempDir()}.chooseAccount()
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(dir, func(p string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return acct.give(p)
	})
	if err != nil {
		t.Fatal(err)
	}
}
