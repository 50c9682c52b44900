package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	khatav1 "github.com/khata-ledger/khata/proto/khata/v1"
)

// payer is the user of the payment API's sandbox whose wallets pay: a token that anybody can make up.
const payer = "bench"

// payments measures the payment API: new payments under keys of their own, and then the same ones sent again.
func (b *bench) payments(ctx context.Context) error {
	if b.config.Target.PayURL == "" {
		return errors.New("the payment API is measured on a server that the command starts, or at --pay-url")
	}
	wallets := make([]string, b.config.Accounts)
	for i := range wallets {
		wallets[i] = fmt.Sprintf("wallet:%s:%s%d", payer, b.prefix, i)
	}
	b.progress("making wallets: %s", grouped(len(wallets)))
	if err := b.wire.makeAccounts(ctx, wallets, khatav1.AccountType_ACCOUNT_TYPE_LIABILITY, false); err != nil {
		return err
	}
	clients := b.config.Clients
	transport := &http.Transport{MaxIdleConnsPerHost: clients, MaxConnsPerHost: clients}
	defer transport.CloseIdleConnections()
	phone := &http.Client{Transport: transport, Timeout: time.Minute}

	sent := make([][]payment, clients)
	r := b.newResult(ModePay, true, clients)
	b.progress("%s", r.Name)
	if err := b.timePayments(ctx, r, func(client int, random *rand.Rand) (payment, bool) {
		p := newPayment(wallets, random)
		if len(sent[client]) < mostKept/clients {
			sent[client] = append(sent[client], p)
		}
		return p, false
	}, phone); err != nil {
		return err
	}
	next := make([]int, clients)
	r = Result{Case: unaryCase(ModePay+"-again", clients), Name: fmt.Sprintf("pay again, %d clients", clients), Clients: clients, Batch: 1}
	b.progress("%s", r.Name)
	return b.timePayments(ctx, r, func(client int, _ *rand.Rand) (payment, bool) {
		known := sent[client]
		p := known[next[client]%len(known)]
		next[client]++
		return p, true
	}, phone)
}

func (b *bench) timePayments(ctx context.Context, r Result, choose func(client int, random *rand.Rand) (payment, bool), phone *http.Client) error {
	steps := make([]step, r.Clients)
	for i := range steps {
		random := newRandom()
		steps[i] = func(ctx context.Context) outcome {
			p, again := choose(i, random)
			return p.send(ctx, phone, b.config.Target.PayURL, again)
		}
	}
	if err := b.db.settle(ctx); err != nil {
		return err
	}
	w := b.load().run(ctx, steps)
	r.fill(w, &w.kinds[0])
	return b.emit(ctx, r)
}

// payment is a request and its key.
type payment struct {
	key  string
	body []byte
}

func newPayment(wallets []string, random *rand.Rand) payment {
	from, to := distinct(random, len(wallets))
	body, err := json.Marshal(map[string]string{
		"from": wallets[from], "to": wallets[to], "amount": randomAmount(random), "currency": currency, "note": "bench",
	})
	if err != nil { // It is made of strings.
		panic(err)
	}
	return payment{strconv.FormatUint(random.Uint64(), 16) + "-" + strconv.FormatUint(random.Uint64(), 16) + "-bench", body}
}

// send pays, and says what came of it.
func (p payment) send(ctx context.Context, phone *http.Client, url string, again bool) (o outcome) {
	ctx, cancel := patient(ctx)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/transfers", bytes.NewReader(p.body))
	if err != nil {
		o.fail(err.Error())
		return o
	}
	req.Header.Set("Authorization", "Bearer sandbox-"+payer)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", p.key)
	resp, err := phone.Do(req)
	if err != nil {
		o.fail("HTTP")
		return o
	}
	defer func() { _ = resp.Body.Close() }()
	_, err = io.Copy(io.Discard, resp.Body)
	switch replayed := resp.Header.Get("Idempotent-Replayed") == "true"; {
	case err != nil || resp.StatusCode != http.StatusCreated:
		o.fail(strconv.Itoa(resp.StatusCode))
	case replayed && !again:
		o.fail(unexpectedReplay)
	case !replayed && again:
		o.fail(unexpectedPost)
	default:
		o.transfers = 1
	}
	return o
}
