package cli

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger"
	"github.com/khata-ledger/khata/ledger/client"
)

const (
	// maxAtomic is the most transfers of an atomic call.
	maxAtomic = 1000
	// maxRequest is the most bytes of a line: a transfer of 1,000 entries and all the metadata that there may be takes a quarter.
	maxRequest = 1 << 20
)

func (a *app) transferPostAtomicCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "post-atomic FILE",
		Short: "Post the transfers of a file, all or nothing",
		Long: `Post the transfers of a file, all or nothing; "-" is standard input. Each line is one transfer as a JSON object, with the names of
the API (khata.v1.NewTransfer). At most 1,000, with at most 5,000 entries. They are decided in their order, and each sees what those
before it do.

  {"transfer_id":"H-9","debit_account":"wallet:shimul","credit_account":"shop:1","amount":"500.00","hold":{}}
  {"transfer_id":"H-9-capture","capture":{"hold":"H-9","amount":"420.00"}}

If one of them cannot be posted, none is. A refusal is recorded, and final, as ever; the others were not decided, and their ids are
free. Run again with the same file, it answers the same. The exit code is that of the transfer at fault: 3 if it was refused.`,
		Args: exactArgs("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, _, err := a.openInput(args[0])
			if err != nil {
				return err
			}
			defer in.Close()
			requests, err := readRequests(in)
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				results, err := c.PostRequestsAtomically(cmd.Context(), requests)
				if err != nil {
					return err
				}
				return a.printAtomic(requests, results)
			})
		},
	}
}

// readRequests reads a request a line. An error names the line.
func readRequests(in io.Reader) ([]client.Request, error) {
	var requests []client.Request
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxRequest)
	n := 0
	for lines.Scan() {
		n++
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if len(requests) == maxAtomic {
			return nil, usagef("line %d: an atomic call has at most %d transfers", n, maxAtomic)
		}
		request, err := client.ReadRequest(line)
		if err != nil {
			return nil, usagef("line %d: %w", n, err)
		}
		requests = append(requests, request)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, usagef("line %d: is longer than 1 MiB", n+1)
	case err != nil:
		return nil, err
	case len(requests) == 0:
		return nil, usagef("there is no transfer in it")
	}
	return requests, nil
}

// notPostedJSON is what became of a transfer that was not decided.
type notPostedJSON struct {
	TransferID string    `json:"transfer_id"`
	Error      errorJSON `json:"error"`
}

// printAtomic prints each result, and ends with the exit code of the one at fault.
func (a *app) printAtomic(requests []client.Request, results []client.Result) error {
	code := ExitOK
	blame := func(with int) {
		if code == ExitOK {
			code = with
		}
	}
	for i, r := range results {
		var out any
		var text string
		switch {
		case r.Err != nil:
			id := string(requests[i].TransferID())
			out, text = notPostedJSON{id, toErrorJSON(r.Err)}, fmt.Sprintf("not posted %s: %v", id, r.Err)
			if !errors.Is(r.Err, ledger.CodeAtomicCallRefused) {
				blame(exitCode(r.Err))
			}
		default:
			out, text = result(r)
			if r.Refusal != nil {
				blame(ExitRefused)
			}
		}
		if err := a.print(out, text); err != nil {
			return err
		}
	}
	if code != ExitOK {
		return &exitError{code}
	}
	return nil
}
