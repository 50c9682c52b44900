package payclient_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// A real file system that is full, where the tests may mount one.
func TestDiskFull_Tmpfs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		if os.Geteuid() == 0 && !errors.Is(err, syscall.EPERM) {
			t.Fatal(err)
		}
		t.Skipf("cannot mount: %v; TestDiskFull_EveryStep has the same on a disk of its own", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	b := newBooks()
	d, err := payclient.OpenFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	c := open(t, d, b)
	begun, full := 0, error(nil)
	for i := 0; full == nil && i < 100; i++ {
		if _, full = c.Begin(context.Background(), coaching("1.00"), payclient.Reference(fmt.Sprint(i))); full == nil {
			begun++
		}
	}
	if !errors.Is(full, syscall.ENOSPC) || begun == 0 || len(b.requests) > 0 {
		t.Fatalf("%d begun, then %v; %d requests", begun, full, len(b.requests))
	}
	if temps, _ := filepath.Glob(filepath.Join(dir, "*"+payclient.TempSuffix)); len(temps) > 0 {
		t.Errorf("there is %v", temps)
	}
	if list, err := c.Payments(); err != nil || len(list) != begun {
		t.Errorf("%d payments, want %d: %v", len(list), begun, err)
	}
	for _, err := range c.Resume(context.Background()) { // Without space for the record of a first try, nothing is sent.
		if !errors.Is(err, payclient.ErrUnfinished) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	if len(b.requests) > 0 {
		t.Errorf("%d requests", len(b.requests))
	}
	if err := os.Remove(filepath.Join(dir, payclient.NameOf("0")+payclient.RecordSuffix)); err != nil {
		t.Fatal(err)
	}
	// There is space for one at a time now, and they are resumed at once: whoever finds none is kept for the next time.
	for n, open := 0, 1; open > 0 && n < 200; n++ {
		open = 0
		for r, err := range c.Resume(context.Background()) {
			if err != nil && !errors.Is(err, syscall.ENOSPC) || err == nil && r.State != payclient.Done {
				t.Errorf("%+v %v", r, err)
			}
			open++
		}
	}
	if _, _, paid := b.of("coaching"); paid != begun-1 {
		t.Errorf("%d paid, want %d", paid, begun-1)
	}
}
