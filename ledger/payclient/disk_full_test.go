package payclient_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// still is a clock that waits for nothing.
func still() *payclient.FakeClock {
	start := time.Now()
	return &payclient.FakeClock{
		Wall: time.Now, Since: func() time.Duration { return time.Since(start) }, Chance: func() float64 { return 0.5 },
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

func open(t testing.TB, d payclient.Disk, b *books) *payclient.Client {
	t.Helper()
	c, err := payclient.Open(payclient.Config{
		URL: "https://pay.example", Dir: "memory", User: "shimul", Token: tokenOf("shimul"), Transport: b, RetryRate: 1000,
	}, d, still())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// The disk is full at one step of a payment, or from that step on; the step has happened all the same, or has not. What was not on disk was
// not sent, what was answered is told, and when there is space again it ends under the same key.
func TestDiskFull_EveryStep(t *testing.T) {
	t.Parallel()
	seenUnbegun, seenUnsent, seenUnsaved, steps := 0, 0, 0, 0
	for at := 1; steps == 0; at++ {
		for _, mode := range []string{"once", "from here on"} {
			b, disk, step := newBooks(), newMemory(), 0
			c := open(t, &hooked{disk, func(name string, after bool) error {
				if step++; step == at || step > at && mode != "once" && name != "remove" && !after {
					return fmt.Errorf("%s: %w", name, syscall.ENOSPC)
				}
				return nil
			}}, b)
			r, err := c.Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77"))
			sent := len(b.requests)
			switch {
			case step < at: // There are no more steps.
				steps = step
			case err != nil && !errors.Is(err, syscall.ENOSPC):
				t.Errorf("%d %s: %v", at, mode, err)
			case err != nil && !errors.Is(err, payclient.ErrUnfinished):
				seenUnbegun++
				if names, _ := disk.Names(); len(names) > 0 && mode == "once" {
					t.Errorf("%d %s: not begun, and there is %v", at, mode, names)
				}
			case err != nil:
				seenUnsent++
				if r.State != payclient.Pending || r.Key == "" {
					t.Errorf("%d %s: %+v", at, mode, r)
				}
			case r.State != payclient.Done || r.TransferID == "":
				t.Errorf("%d %s: %+v", at, mode, r)
			case r.Unsaved != nil:
				seenUnsaved++
			}
			if err != nil && sent > 0 {
				t.Errorf("%d %s: %d requests were sent, and %v", at, mode, sent, err)
			}
			again, err := open(t, disk, b).Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77"))
			keys, _, paid := b.of("coaching")
			if err != nil || again.State != payclient.Done || len(keys) != 1 || paid != 1 || keys[0] != again.Key || r.Key != "" && r.Key != again.Key {
				t.Errorf("%d %s, with space again: %+v %v, keys %v, paid %d", at, mode, again, err, keys, paid)
			}
		}
	}
	if steps < 30 || seenUnbegun < 10 || seenUnsent < 10 || seenUnsaved < 10 {
		t.Errorf("%d steps; not begun %d, not sent %d, not saved %d", steps, seenUnbegun, seenUnsent, seenUnsaved)
	}
}

// A rejection that is not on record is not told as an end if it cannot be written: the next start sends the payment again, and it may pass.
func TestDiskFull_Rejected(t *testing.T) {
	t.Parallel()
	b, disk, full := newBooks(), newMemory(), false
	b.noAccount = true
	b.road = func() (string, error) {
		full = true
		return "", nil
	}
	c := open(t, &hooked{disk, func(string, bool) error {
		if full {
			return syscall.ENOSPC
		}
		return nil
	}}, b)
	r, err := c.Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77"))
	if !errors.Is(err, payclient.ErrUnfinished) || !errors.Is(err, syscall.ENOSPC) || r.State != payclient.InFlight || r.Code != "ACCOUNT_NOT_FOUND" {
		t.Errorf("%+v %v", r, err)
	}
	b.noAccount, full = false, false
	if r, err := open(t, disk, b).Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77")); err != nil || r.State != payclient.Done {
		t.Errorf("%+v %v", r, err)
	}
}

// A disk that writes less than it is given, and says nothing.
type short struct{ payclient.Disk }

type shortFile struct{ payclient.File }

func (s short) Create(name string) (payclient.File, error) {
	f, err := s.Disk.Create(name)
	return shortFile{f}, err
}

func (f shortFile) Write(data []byte) (int, error) { return f.File.Write(data[:len(data)-1]) }

func TestDisk_ShortWrite(t *testing.T) {
	t.Parallel()
	b, disk := newBooks(), newMemory()
	if _, err := open(t, short{disk}, b).Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77")); err == nil || len(b.requests) > 0 {
		t.Errorf("%v, and %d requests", err, len(b.requests))
	}
	if names, _ := disk.Names(); len(names) > 0 {
		t.Errorf("there is %v", names)
	}
}

// record begins and sends a payment, and gives its file.
func record(t *testing.T, b *books) (name string, data []byte) {
	t.Helper()
	disk := newMemory()
	if _, err := open(t, disk, b).Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77")); err != nil {
		t.Fatal(err)
	}
	name = payclient.NameOf("order-77") + payclient.RecordSuffix
	data, err := disk.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return name, data
}

func put(t *testing.T, disk payclient.Disk, name string, data []byte) {
	t.Helper()
	f, err := disk.Create(name)
	if err == nil {
		_, err = f.Write(data)
	}
	if err = errors.Join(err, f.Sync(), f.Close(), disk.Sync()); err != nil {
		t.Fatal(err)
	}
}

// A record that ends at any of its bytes, or has one of them wrong, is reported by name in all that touches it. It is neither sent nor begun
// anew nor removed, and does not keep others from being sent.
func TestDamaged(t *testing.T) {
	t.Parallel()
	name, whole := record(t, newBooks())
	var damaged [][]byte
	for i := range whole {
		damaged = append(damaged, whole[:i])
		if i%7 == 0 {
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1
			damaged = append(damaged, flipped)
		}
	}
	damaged = append(damaged, append(bytes.Clone(whole), '\n'), make([]byte, len(whole)))
	for i, data := range damaged {
		disk, b := newMemory(), newBooks()
		put(t, disk, name, data)
		c := open(t, disk, b)
		other, err := c.Begin(context.Background(), coaching("1.00"), payclient.Reference("order-78"))
		if err != nil {
			t.Fatal(err)
		}
		_, errPay := c.Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77"))
		_, errList := c.Payments()
		var errResume error
		for r, err := range c.Resume(context.Background()) {
			errResume = errors.Join(errResume, err)
			if err == nil && r.Key != other.Key() {
				t.Errorf("resumed %+v", r)
			}
		}
		for what, err := range map[string]error{"pay": errPay, "list": errList, "resume": errResume} {
			var named *payclient.DamagedError
			if !errors.Is(err, payclient.ErrDamaged) || !errors.As(err, &named) || named.File != disk.Path(name) || !strings.Contains(err.Error(), name) {
				t.Errorf("damage %d, %s: %v", i, what, err)
			}
		}
		if after, err := disk.Read(name); err != nil || !bytes.Equal(after, data) {
			t.Errorf("damage %d: the record has been touched: %v", i, err)
		}
		if keys, _, paid := b.of("coaching"); len(keys) != 1 || paid != 1 || keys[0] != other.Key() {
			t.Errorf("damage %d: sent %v", i, keys)
		}
		if t.Failed() {
			return
		}
	}
}

// What a process was writing when it died, up to any of its bytes, is ignored and cleaned up.
func TestTorn_TempFile(t *testing.T) {
	t.Parallel()
	b := newBooks()
	name, whole := record(t, b)
	temp := strings.TrimSuffix(name, payclient.RecordSuffix) + payclient.TempSuffix
	for i := range len(whole) + 1 {
		for _, withRecord := range []bool{false, true} {
			disk, b := newMemory(), newBooks()
			put(t, disk, temp, whole[:i])
			if withRecord {
				put(t, disk, name, whole)
			}
			c := open(t, disk, b)
			if names, _ := disk.Names(); len(names) > 1 || len(names) == 1 && names[0] != name {
				t.Fatalf("%d bytes: there is %v", i, names)
			}
			r, err := c.Pay(context.Background(), coaching("500.00"), payclient.Reference("order-77"))
			if err != nil || r.State != payclient.Done || (len(b.requests) > 0) == withRecord {
				t.Fatalf("%d bytes: %+v %v, %d requests", i, r, err, len(b.requests))
			}
		}
	}
	// That of another process which is alive is left alone.
	disk := newMemory()
	put(t, disk, temp, whole[:5])
	unlock, err := disk.Lock(strings.TrimSuffix(name, payclient.RecordSuffix))
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	open(t, disk, b)
	if names, _ := disk.Names(); len(names) != 1 {
		t.Errorf("there is %v", names)
	}
}

// The folder on a real disk: readable by nobody else, made with its parents, and one of them in the way is an error.
func TestFolder(t *testing.T) {
	t.Parallel()
	s := setup(t, 10)
	base := t.TempDir()
	dir := filepath.Join(base, "a", "b", "payments")
	c := newClient(t, s.URL, dir)
	if _, err := c.Pay(limited(t), coaching("1.00"), payclient.Reference("x")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, filepath.Join(dir, payclient.NameOf("x")+payclient.RecordSuffix), filepath.Join(dir, payclient.NameOf("x")+payclient.LockSuffix)} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", path, info, err)
		}
	}
	if err := os.WriteFile(filepath.Join(base, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := payclient.New(config(t, s.URL, filepath.Join(base, "file", "x"))); err == nil {
		t.Error("a file was taken for a folder")
	}
}
