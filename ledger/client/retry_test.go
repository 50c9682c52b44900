package client_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

// Who waits for a server that is not there is told of each try, and in a sentence why.
func TestOptions_OnRetry(t *testing.T) {
	t.Parallel()
	var mutex sync.Mutex
	var retries, attempts int
	var methods []string
	c, err := client.Dial("127.0.0.1:1", client.Options{
		Patience: 500 * time.Millisecond,
		OnRetry: func(err error, left time.Duration) {
			mutex.Lock()
			defer mutex.Unlock()
			retries++
			if !errors.Is(err, ledger.CodeUnavailable) || left <= 0 || left > 500*time.Millisecond {
				t.Errorf("retry %d with %s left: %v", retries, left, err)
			}
		},
		OnAttempt: func(method string, err error) {
			mutex.Lock()
			defer mutex.Unlock()
			attempts++
			methods = append(methods, method)
			if !client.NotSent(err) && status.Code(err) != codes.Canceled {
				t.Errorf("attempt %d of %s: %v", attempts, method, err)
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, err = c.Balance(t.Context(), "a")
	if !errors.Is(err, ledger.CodeUnavailable) || err.Error() != "no answer from the server: connection refused" {
		t.Errorf("%v", err)
	}
	if retries < 2 || attempts != retries+1 || !strings.HasSuffix(methods[0], "/GetBalance") {
		t.Errorf("%d retries, %d attempts of %s", retries, attempts, methods)
	}
	// Of a stream, too.
	before := attempts
	if err := c.Reports().Run(t.Context(), client.ReportRequest{Report: "trial-balance"}, &lines{}); !errors.Is(err, ledger.CodeUnavailable) {
		t.Errorf("%v", err)
	}
	if attempts == before || !strings.HasSuffix(methods[before], "/RunReport") {
		t.Errorf("%d attempts of %s", attempts-before, methods[before:])
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	retries = 0
	if _, err := c.Balance(ctx, "a"); err == nil || retries != 0 {
		t.Errorf("%d retries for who has gone: %v", retries, err)
	}
}

func TestNotSent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":       {nil, false},
		"refused":    {status.Error(codes.Unavailable, `connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:1: connect: connection refused"`), true},
		"no name":    {status.Error(codes.Unavailable, `last connection error: connection error: desc = "transport: authentication handshake failed: EOF"`), true},
		"broken off": {status.Error(codes.Unavailable, "error reading from server: EOF"), false},
		"broken":     {status.Error(codes.Unavailable, `connection error: desc = "error reading from server: EOF"`), false},
		"a proxy":    {status.Error(codes.Unavailable, "upstream is away"), false},
		"too late":   {status.Error(codes.DeadlineExceeded, "context deadline exceeded"), false},
		"no gRPC":    {errors.New("connection error"), false},
	} {
		if got := client.NotSent(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
