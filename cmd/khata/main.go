// Command khata is a double-entry ledger: server, tools and client in one binary. See "khata help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/khata-ledger/khata/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.IO{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
