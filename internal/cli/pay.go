package cli

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/khata-ledger/khata/ledger/payclient"
)

// payFlags are the flags of khata pay and of the commands below it.
type payFlags struct {
	url, tokenFile, user, store, ca string
	wait                            time.Duration
}

func (a *app) payCommand() *cobra.Command {
	var f payFlags
	var t payclient.Transfer
	var reference string
	cmd := &cobra.Command{
		Use:   "pay --from WALLET --to WALLET --amount AMOUNT --currency CURRENCY",
		Short: "Pay through the payment API, with a key that survives crashes",
		Long: `Pay from one wallet to another through the payment API. The payment's key is made once and is on disk, with its exact bytes, before the first
of them is sent. Whatever the network does, it is sent again under that key until there is an answer; what has none yet when the command ends is
kept, and khata pay resume goes on with it.

  khata pay --from wallet:shimul --to wallet:tithi --amount 500.00 --currency BDT --reference order-77

With --reference, the same command again is the same payment, for as long as the store keeps it (30 days): it says what became of it, and sends
nothing that is settled. Without one, each command is a new payment.

The token that says who pays is in the file of --token-file, which is read before each try, or in KHATA_PAY_TOKEN. A payment is only ever sent for the
user that it was begun for: name the user by --user if the token changes; without it, another token is another user.

Exit codes: 0 done, 1 rejected or unknown, 2 usage, 4 the reference names another payment, 6 unfinished: kept, and not to be paid anew.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPayments(cmd, &f, func(ctx context.Context, c *payclient.Client) error {
				var with []payclient.Option
				if reference != "" {
					with = append(with, payclient.Reference(reference))
				}
				r, err := c.Pay(ctx, t, with...)
				return a.endPay(r, err)
			})
		},
	}
	p := cmd.PersistentFlags()
	p.StringVar(&f.url, "url", "http://127.0.0.1:7090", "where the payment API is; plain http on loopback only")
	p.StringVar(&f.tokenFile, "token-file", "", "file with the token that says who pays; or have it in KHATA_PAY_TOKEN")
	p.StringVar(&f.user, "user", "", "a name for who pays that stays when the token changes; default: one that follows from the token")
	p.StringVar(&f.store, "store", "", "folder of the payments; default ~/.local/share/khata/payments")
	p.StringVar(&f.ca, "tls-ca", "", "file in PEM with the authorities to trust instead of the system's")
	p.DurationVar(&f.wait, "wait", 2*time.Minute, "for how long to go on trying before it is left to khata pay resume; 0 is 24 hours")
	p.BoolVar(&a.json, "json", false, "print one JSON object a line")
	own := cmd.Flags()
	own.StringVar(&t.From, "from", "", "wallet that pays (required)")
	own.StringVar(&t.To, "to", "", "wallet that is paid (required)")
	own.StringVar(&t.Amount, "amount", "", "amount, such as 500.00 (required)")
	own.StringVar(&t.Currency, "currency", "", "currency, such as BDT (required)")
	own.StringVar(&t.Note, "note", "", "text for both")
	own.StringVar(&reference, "reference", "", "your own name of the payment, such as an order's number: the same one is the same payment")
	for _, flag := range []string{"from", "to", "amount", "currency", "note", "reference"} {
		onlyOnCommandLine(cmd, flag) // A payment is not to be made of what lies about.
	}
	cmd.AddCommand(a.payListCommand(&f), a.payResumeCommand(&f), a.payLookupCommand(&f))
	return cmd
}

func (a *app) payListCommand(f *payFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Show the payments in the store, the oldest first",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			config, err := a.payConfig(f)
			if err != nil {
				return err
			}
			config.Token = func(context.Context) (string, error) { return "", payclient.ErrNoToken } // Nobody is asked.
			c, err := payclient.New(config)
			if err != nil {
				return payError(err)
			}
			list, damaged := c.Payments()
			for _, r := range list {
				if err := a.print(toPayJSON(r), payText(r)); err != nil {
					return err
				}
			}
			return damaged
		},
	}
}

func (a *app) payResumeCommand(f *payFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "Go on with all payments that are not settled",
		Long: `Go on with all payments that are not settled, each under its own key; those that are unknown are looked up. The exit code is 0 if all of them
are done, 1 if one is rejected or unknown or its record is damaged, and 6 if one is unfinished still.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withPayments(cmd, f, func(ctx context.Context, c *payclient.Client) error {
				worst, n := ExitOK, 0
				for r, err := range c.Resume(ctx) {
					n++
					var exit *exitError
					switch err := a.endPay(r, err); {
					case errors.As(err, &exit):
						worst = max(worst, exit.code)
					case err != nil: // It is not for this user to send, or cannot be read: the others go on.
						a.printError(err)
						worst = max(worst, ExitFailure)
					}
				}
				if n == 0 && !a.json {
					fmt.Fprintln(a.Out, "nothing is unfinished")
				}
				if worst != ExitOK {
					return &exitError{worst}
				}
				return nil
			})
		},
	}
}

func (a *app) payLookupCommand(f *payFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "lookup KEY",
		Short: "Ask the server what became of a key",
		Args:  exactArgs("KEY"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withPayments(cmd, f, func(ctx context.Context, c *payclient.Client) error {
				r, err := c.Lookup(ctx, args[0])
				if err != nil && !errors.Is(err, payclient.ErrInvalid) && !errors.Is(err, payclient.ErrOther) {
					a.printError(fmt.Errorf("the server does not say: %w", err))
					return &exitError{ExitUnavailable}
				}
				return a.endPay(r, err)
			})
		},
	}
}

// withPayments runs f with a client of the payment API, for as long as --wait says.
func (a *app) withPayments(cmd *cobra.Command, f *payFlags, do func(context.Context, *payclient.Client) error) error {
	config, err := a.payConfig(f)
	if err != nil {
		return err
	}
	token, err := config.Token(cmd.Context())
	if err != nil {
		return usagef("%w", err)
	}
	if config.User == "" {
		sum := sha256.Sum256([]byte("the user of khata pay\x00" + token))
		config.User = "token-" + hex.EncodeToString(sum[:6])
	}
	c, err := payclient.New(config)
	if err != nil {
		return payError(err)
	}
	ctx := cmd.Context()
	if f.wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, f.wait)
		defer cancel()
	}
	return do(ctx, c)
}

func (a *app) payConfig(f *payFlags) (payclient.Config, error) {
	config := payclient.Config{URL: f.url, Dir: f.store, User: f.user, Token: func(context.Context) (string, error) { return a.payToken(f) }}
	if config.Dir == "" {
		data := a.getenv("XDG_DATA_HOME")
		if data == "" {
			home, err := os.UserHomeDir()
			if err != nil {
				return config, usagef("--store is required: %w", err)
			}
			data = filepath.Join(home, ".local", "share")
		}
		config.Dir = filepath.Join(data, "khata", "payments")
	}
	var err error
	var encrypted *tls.Config
	if encrypted, err = (security{ca: f.ca}).config(); err != nil {
		return config, err
	}
	config.TLS = encrypted
	return config, nil
}

// payToken reads the token, each time: whoever renews the file need not start anything again.
func (a *app) payToken(f *payFlags) (string, error) {
	text := a.getenv("KHATA_PAY_TOKEN")
	if f.tokenFile != "" {
		data, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return "", fmt.Errorf("--token-file: %w", err)
		}
		text = string(data)
	}
	if text = strings.TrimSpace(text); text == "" {
		return "", fmt.Errorf("give --token-file, or have the token in KHATA_PAY_TOKEN: %w", payclient.ErrNoToken)
	}
	return text, nil
}

// endPay prints how a payment stands, and gives its exit code.
func (a *app) endPay(r payclient.Result, err error) error {
	unfinished := errors.Is(err, payclient.ErrUnfinished)
	if err != nil && !unfinished {
		return a.payFailed(err)
	}
	out, text := toPayJSON(r), payText(r)
	if unfinished {
		out.Error = err.Error()
		text = fmt.Sprintf("kept, khata pay resume goes on: %v", err)
	}
	if err := a.print(out, text); err != nil {
		return err
	}
	if r.Unsaved != nil {
		a.printError(fmt.Errorf("this is not in the store (%w): the next start asks for it again, which does no harm", r.Unsaved))
	}
	switch {
	case unfinished:
		return &exitError{ExitUnavailable}
	case r.State != payclient.Done:
		return &exitError{ExitFailure}
	}
	return nil
}

// payFailed is for what was not sent.
func (a *app) payFailed(err error) error {
	if errors.Is(err, payclient.ErrReferenceTaken) {
		a.printError(err)
		return &exitError{ExitConflict}
	}
	return payError(err)
}

func payError(err error) error {
	if errors.Is(err, payclient.ErrInvalid) {
		return usagef("%w", err)
	}
	return err
}

// payJSON is a payment with --json.
type payJSON struct {
	Key        string          `json:"key"`
	Reference  string          `json:"reference,omitempty"`
	State      payclient.State `json:"state"`
	TransferID string          `json:"transfer_id,omitempty"`
	Replayed   bool            `json:"replayed"`
	Ambiguous  bool            `json:"ambiguous"`
	Paused     bool            `json:"paused,omitempty"`
	Attempts   int             `json:"attempts"`
	Sent       int             `json:"sent"`
	Status     int             `json:"status,omitempty"`
	Code       string          `json:"code,omitempty"`
	Title      string          `json:"title,omitempty"`
	Detail     string          `json:"detail,omitempty"`
	Path       string          `json:"path,omitempty"`
	Request    json.RawMessage `json:"request,omitempty"`
	User       string          `json:"user"`
	Server     string          `json:"server"`
	CreatedAt  string          `json:"created_at,omitempty"`
	Advice     string          `json:"advice,omitempty"`
	Error      string          `json:"error,omitempty"`
}

func toPayJSON(r payclient.Result) payJSON {
	out := payJSON{
		Key: r.Key, Reference: r.Reference, State: r.State, TransferID: r.TransferID, Replayed: r.Replayed, Ambiguous: r.Ambiguous, Paused: r.Paused,
		Attempts: r.Attempts, Sent: r.Sent, Status: r.Status, Code: r.Code, Title: r.Title, Detail: r.Detail, Path: r.Path, Request: r.Request, User: r.User,
		Server: r.Server, Advice: r.Advice(),
	}
	if !r.CreatedAt.IsZero() {
		out.CreatedAt = formatTime(r.CreatedAt)
	}
	return out
}

// payText says in one line how a payment stands.
func payText(r payclient.Result) string {
	switch r.State {
	case payclient.Done:
		text := fmt.Sprintf("%s %s, %s", moneyText(r), pastOf(r.Path), r.TransferID)
		if r.Replayed {
			text += " (an earlier try had done it)"
		}
		return text
	case payclient.Rejected:
		text := fmt.Sprintf("%s not %s: %s", moneyText(r), pastOf(r.Path), refusedText(r))
		if r.TransferID != "" {
			text += ", " + r.TransferID
		}
		return text + "; " + r.Advice()
	}
	text := fmt.Sprintf("%s %s: %s; key %s", moneyText(r), strings.ToLower(strings.ReplaceAll(string(r.State), "_", " ")), r.Advice(), r.Key)
	if r.Code != "" {
		text += "; the last answer was " + refusedText(r)
	}
	return text
}

func refusedText(r payclient.Result) string {
	text := r.Code
	if r.Title != "" {
		text += ", " + r.Title
	}
	return text
}

// pastOf says what has happened to the money of a request.
func pastOf(path string) string {
	switch path {
	case "/v1/refunds":
		return "refunded"
	case "/v1/cash-ins":
		return "taken in"
	}
	return "sent"
}

// moneyText is the amount, as the answer has it, or else the request.
func moneyText(r payclient.Result) string {
	var money struct{ Amount, Currency string }
	for _, text := range [][]byte{r.Request, r.Body} {
		var found struct{ Amount, Currency string }
		if json.Unmarshal(text, &found) == nil && found.Amount != "" {
			money = found
		}
	}
	switch {
	case money.Amount == "":
		return "the payment"
	case money.Currency == "BDT":
		return "৳" + money.Amount
	}
	return strings.TrimSpace(money.Amount + " " + money.Currency)
}
