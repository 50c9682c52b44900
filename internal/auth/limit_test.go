package auth_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/khata-ledger/khata/internal/auth"
	"github.com/khata-ledger/khata/ledger"
)

func TestLimiter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := auth.NewLimiter(10, 3)
		take := func(name string, want bool) {
			t.Helper()
			err := l.Take(name)
			if (err == nil) != want {
				t.Fatalf("%s: %v", name, err)
			}
			var typed *ledger.Error
			if err != nil && (!errors.As(err, &typed) || typed.Code != ledger.CodeRateLimited || typed.RetryAfter <= 0 || typed.RetryAfter > 100*time.Millisecond) {
				t.Fatalf("%s: %#v", name, err)
			}
		}
		for range 3 {
			take("a", true)
		}
		for range 5 { // Who tries too early is not set back for it.
			take("a", false)
		}
		take("b", true)
		time.Sleep(100 * time.Millisecond)
		take("a", true)
		take("a", false)
	})
	if err := (*auth.Limiter)(nil).Take("a"); err != nil {
		t.Errorf("no limit: %v", err)
	}
	if err := auth.NewLimiter(0.5, 0).Take("a"); err != nil {
		t.Errorf("less than one a second: %v", err)
	}
}

func TestLimiter_RemembersSoManyAndNoMore(t *testing.T) {
	t.Parallel()
	l := auth.NewLimiter(0.001, 1)
	for i := range 3 * auth.MaxLimited {
		_ = l.Take("busy")
		_ = l.Take(fmt.Sprint(i))
	}
	if got := l.Callers(); got != auth.MaxLimited {
		t.Errorf("%d callers are remembered, want %d", got, auth.MaxLimited)
	}
	if l.Take("busy") == nil {
		t.Error("who calls all the time is forgotten")
	}
}
