package devpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is the user that PostgreSQL runs as. It is nil in most functions'
// arguments when that is simply the caller.
type account struct {
	name     string
	uid, gid int
}

// chooseAccount returns nil unless the caller is root. The owner of an existing
// cluster comes first, because nobody else can read it; then the owner of the
// directory, who will want to use it without root. An arbitrary number would not
// do: initdb looks its user up in the passwd database.
func (l layout) chooseAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	uid, _, err := owner(l.data())
	if err == nil {
		if uid == 0 {
			return nil, fmt.Errorf("%s belongs to root, and PostgreSQL refuses to run as root: "+
				"chown it to the user that it should run as", l.data())
		}
		u, err := user.LookupId(strconv.Itoa(uid))
		if err != nil {
			return nil, fmt.Errorf("find the owner of %s: %w", l.data(), err)
		}
		return newAccount(u)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if uid, _, err = owner(l.dir); err != nil {
		return nil, err
	}
	// A directory that is mounted into a container may have an owner that the
	// container does not know.
	if u, err := user.LookupId(strconv.Itoa(uid)); uid != 0 && err == nil {
		return newAccount(u)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return newAccount(u)
		}
	}
	return nil, errors.New("PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody " +
		"to run it as: create one (useradd --system postgres), or start as an ordinary user")
}

func newAccount(u *user.User) (*account, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return &account{name: u.Username, uid: uid, gid: gid}, nil
}

// give makes path the account's.
func (a *account) give(path string) error {
	if a == nil {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("%w (root without the right to change owners, as in some containers: "+
			"start as an ordinary user, or use a database of your own)", err)
	}
	return nil
}

// canReach checks that the account may enter dir, which is free of symbolic
// links, and every directory above it. PostgreSQL itself would only say
// "Permission denied" about a path deep inside.
func (a *account) canReach(dir string) error {
	if a == nil {
		return nil
	}
	for p := dir; ; p = filepath.Dir(p) {
		ok, err := a.canEnter(p)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("%w: user %s, which PostgreSQL runs as when started by root, cannot enter %s; "+
				"choose a directory elsewhere, such as /var/lib/khata, or allow it (chmod o+x %s)",
				ErrUnreachable, a.name, p, p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

// canEnter applies the owner, group and other bits in the kernel's order: the
// first class that matches decides. The account has no further groups, since
// they are dropped when the server starts.
func (a *account) canEnter(dir string) (bool, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return false, err
	}
	uid, gid, err := owner(dir)
	if err != nil {
		return false, err
	}
	perm := info.Mode().Perm()
	switch {
	case uid == a.uid:
		return perm&0o100 != 0, nil
	case gid == a.gid:
		return perm&0o010 != 0, nil
	}
	return perm&0o001 != 0, nil
}

func owner(path string) (uid, gid int, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, fmt.Errorf("owner of %s: not known on this system", path)
	}
	return int(st.Uid), int(st.Gid), nil
}
