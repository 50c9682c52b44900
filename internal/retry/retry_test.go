package retry_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/khata-ledger/khata/internal/pg"
	"github.com/khata-ledger/khata/internal/retry"
	"github.com/khata-ledger/khata/ledger"
)

var (
	errDeadlock = &pgconn.PgError{Code: "40P01"}
	errLocked   = &pgconn.PgError{Code: "55P03"}
	errBug      = &pgconn.PgError{Code: "42601"}
	errUnknown  = fmt.Errorf("commit: %w", pg.ErrUnknown)
	errDecided  = ledger.Invalid("amount", "is required")
)

func TestDo(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget time.Duration
		errs   []error // of each try; the last one's stays
		tries  int
		tried  int // with which try tried becomes true; 0: never
		code   ledger.Code
		says   string
	}{
		{"at once", time.Minute, []error{nil}, 1, 0, "", ""},
		{"decided", time.Minute, []error{errDecided}, 1, 0, ledger.CodeInvalidArgument, "is required"},
		{"a bug", time.Minute, []error{errBug}, 1, 0, ledger.CodeInternal, "pay: internal error"},
		{"lost once", time.Minute, []error{errDeadlock, nil}, 2, 0, "", ""},
		{"lost once, without a budget", 0, []error{errDeadlock, nil}, 2, 0, "", ""},
		{"lost for ever", time.Minute, []error{errDeadlock}, 21, 0, ledger.CodeConflict, "pay: others do it; ask again"},
		{"begins anew", time.Minute, []error{fmt.Errorf("moved: %w", pg.ErrAgain), nil}, 2, 0, "", ""},
		{"away once", time.Minute, []error{io.EOF, nil}, 2, 0, "", ""},
		{"away once, without a budget", 0, []error{io.EOF}, 1, 0, ledger.CodeUnavailable, "did not answer in time"},
		{"a lock that is let go", time.Minute, []error{errLocked, nil}, 2, 0, "", ""},
		{"a lock, without a budget", 0, []error{errLocked}, 1, 0, ledger.CodeUnavailable, "did not answer in time"},
		{"a commit without an answer", time.Minute, []error{io.EOF, errUnknown, errDeadlock, nil}, 4, 3, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			tries, told := 0, 0
			err := retry.Policy{Budget: c.budget, Contended: "others do it"}.Do(t.Context(), "pay", func(tried bool) error {
				tries++
				if tried && told == 0 {
					told = tries
				}
				return c.errs[min(tries, len(c.errs))-1]
			})
			if tries != c.tries || told != c.tried {
				t.Errorf("%d tries, told with %d; want %d and %d", tries, told, c.tries, c.tried)
			}
			if code := ledger.CodeOf(err); code != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: %v; want %s: %s", code, err, c.code, c.says)
			}
		})
	}
}

func TestDo_BudgetIsSpent(t *testing.T) {
	tries := 0
	err := retry.Policy{Budget: 100 * time.Millisecond}.Do(t.Context(), "pay", func(bool) error {
		tries++
		return io.EOF
	})
	if !errors.Is(err, ledger.CodeUnavailable) || !errors.Is(err, io.EOF) || tries < 2 || tries > 20 {
		t.Errorf("%d tries: %v", tries, err)
	}
}

func TestDo_CallerLeaves(t *testing.T) {
	for name, c := range map[string]struct {
		with func(context.Context) (context.Context, context.CancelFunc)
		code ledger.Code
	}{
		"cancelled": {context.WithCancel, ledger.CodeCancelled},
		"deadline": {func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Nanosecond)
		}, ledger.CodeDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := c.with(t.Context())
			defer leave()
			tries := 0
			err := retry.Policy{Budget: time.Minute}.Do(ctx, "pay", func(bool) error {
				tries++
				leave()
				<-ctx.Done()
				return io.EOF
			})
			if !errors.Is(err, c.code) || tries != 1 {
				t.Errorf("%d tries: %v", tries, err)
			}
		})
	}
}
