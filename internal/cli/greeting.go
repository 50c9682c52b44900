package cli

import (
	"fmt"
	"os"
	"strings"
)

// greeting is what khata up says when it is up: where everything is, and what to try.
type greeting struct {
	dir, dsn, grpc, http string
	// What may be left out is empty.
	pay, console, brokers, sms string
}

func (g greeting) text() string {
	khata := os.Args[0]
	client := khata + " --ledger demo"
	if g.grpc != defaultAddress {
		client += " --addr " + g.grpc
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	line("\nKhata is up.\n")
	line("  gRPC      %s   (reflection is on)", g.grpc)
	line("  HTTP      http://%s/healthz  /readyz  /metrics", g.http)
	if g.pay != "" {
		line("  pay page  http://%s/pay   (press it ten times, on a bad network)", g.pay)
		line("  payments  http://%s/v1   (sandbox: whoever says sandbox-shimul is Shimul)", g.pay)
	}
	if g.console != "" {
		line("  console   http://%s/console/   (reports, reconciliation, support: pick who to be)", g.console)
	}
	if g.brokers != "" {
		line("  events    %s   (Kafka: topics khata.transfers and khata.accounts; verdicts on khata.verdicts)", g.brokers)
	}
	if g.sms != "" {
		line("  messages  %s   (what Shimul and Tithi get on their phones)", g.sms)
	}
	line("  data      %s", g.dir)
	line("  psql      psql \"%s\"", g.dsn)
	line("\nTry, in another terminal:\n")
	line("  %s balance wallet:shimul", client)
	for range 2 {
		line("  %s transfer post --id TXN-1 --debit wallet:shimul --credit wallet:tithi --amount 500.00", client)
	}
	line("  %s entries wallet:shimul", client)
	line("  %s report trial-balance", client)
	if g.brokers != "" {
		line("  %s events --kafka %s --from-beginning", khata, g.brokers)
		line("  %s consume wallet show wallet:tithi --ledger demo --data-dir %s", khata, g.dir)
		line("  %s fraud flagged --data-dir %s", khata, g.dir)
		line("  %s verify --wallet --data-dir %s", khata, g.dir)
	}
	line("  %s verify --data-dir %s", khata, g.dir)
	line("\nCtrl-C stops it; the data stays.")
	if g.pay != "" {
		fmt.Fprintf(&b, `
Press it ten times, the money moves once:

  curl http://%[1]s/v1/transfers -H 'Authorization: Bearer sandbox-shimul' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: "a-key-for-this-payment"' -d '{"from":"wallet:shimul","to":"wallet:tithi","amount":"20.00","currency":"BDT"}'

Take money from a card (card-decline, card-slow-2s, card-charge-then-lose and others misbehave as they say; docs/payments-cash-ins.md):

  curl http://%[1]s/v1/cash-ins -H 'Authorization: Bearer sandbox-shimul' -H 'Content-Type: application/json' \
    -H 'Idempotency-Key: "a-key-for-this-cash-in"' -d '{"to":"wallet:shimul","card":"card-4000","amount":"100.00","currency":"BDT"}'
`, g.pay)
	}
	return b.String()
}
