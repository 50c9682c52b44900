package devpg

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"
)

// initialise makes a new cluster. initdb writes PG_VERSION first, so that a
// cluster cut off half way looks like one: it is made under another name, and
// the rename is what makes it exist. The caller holds both locks.
func (l layout) initialise(ctx context.Context, bin binaries, acct *account, lk *locks, log *os.File, sync bool) error {
	tmp := l.unfinished()
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	if err := acct.give(tmp); err != nil {
		return err
	}
	args := []string{
		"-D", tmp, "-U", Superuser,
		// Whoever can enter the socket's directory is the server's own user
		// or root, and could read the files anyway.
		"--auth-local=trust", "--auth-host=reject",
		// Sorting is then bytewise and the same on every machine.
		"-E", "UTF8", "--no-locale",
		"--data-checksums", "--no-instructions",
	}
	if !sync {
		args = append(args, "--no-sync")
	}
	start := l.logSize()
	c, err := startChild(bin.path("initdb"), args, l.dir, acct, log, lk.cluster, syscall.SIGTERM, func() {})
	if err != nil {
		return fmt.Errorf("start initdb: %w", err)
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		// Only initdb itself is told to end. The backend that it runs ends when
		// its input does, and then frees its shared memory, which a signal would
		// leave behind; until then it holds the lock.
		_ = c.proc.Signal(syscall.SIGTERM)
		if !c.ended(2 * time.Second) {
			_ = c.proc.Kill()
			<-c.done
		}
		return fmt.Errorf("initdb: %w", context.Cause(ctx))
	}
	if c.err != nil {
		return fmt.Errorf("initdb: %w\n%s", c.err, l.logTail(start))
	}
	if err := os.Rename(tmp, l.data()); err != nil {
		return err
	}
	if sync {
		return syncDir(l.dir)
	}
	return nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
