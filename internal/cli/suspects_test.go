package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// The ending of the train story at a terminal: two payments under two ids, found, and one of them refunded once.
func TestSuspects(t *testing.T) {
	b := setup(t)
	t.Setenv("KHATA_ADDR", b.addr)
	run := func(code int, line string, wants ...string) string {
		t.Helper()
		r := khata(t.Context(), words(t, line)...)
		if r.code != code {
			t.Fatalf("khata %s: exit %d\n%s%s", line, r.code, r.out, r.err)
		}
		for _, want := range wants {
			if !strings.Contains(r.out+r.err, want) {
				t.Errorf("khata %s does not say %q:\n%s%s", line, want, r.out, r.err)
			}
		}
		return r.out
	}
	// await lists groups until there are so many: the server looks for them every second.
	await := func(want int) []string {
		t.Helper()
		for begun := time.Now(); ; time.Sleep(100 * time.Millisecond) {
			list := strings.Split(strings.TrimSpace(run(0, "suspects list --json")), "\n")
			if list[0] == "" {
				list = nil
			}
			if len(list) == want {
				return list
			}
			if time.Since(begun) > 30*time.Second {
				t.Fatalf("%d groups, want %d: %v", len(list), want, list)
			}
		}
	}
	for _, account := range []string{"mina", "rana", "shop"} {
		run(0, "account create "+account+" --type liability --currency BDT")
	}
	for _, id := range []string{"first-key", "second-key"} {
		run(0, "transfer post --debit mina --credit rana --amount 500 --id "+id)
	}
	list := await(1)
	var group struct {
		Suspect int64
		State   string
		Level   string
		Earlier string
		Later   string
		Members []struct {
			TransferID string `json:"transfer_id"`
			Refunded   string
			WentBack   bool `json:"went_back"`
		}
	}
	if err := json.Unmarshal([]byte(list[0]), &group); err != nil {
		t.Fatal(err)
	}
	if group.Level != "high" || group.State != "open" || group.Earlier != "first-key" || group.Later != "second-key" || len(group.Members) != 2 ||
		group.Members[1].Refunded != "0.00" {
		t.Errorf("%s", list[0])
	}
	no := fmt.Sprint(group.Suspect)
	run(0, "suspects list --at-least high --account rana --state open,dismissed", no+"  open  high 80  2 transfers  debit mina  credit rana  500.00 BDT  first-key second-key  posted ")
	run(0, "suspects show "+no, "\n  first-key  sequence ", "\n  second-key  sequence ")
	run(2, "suspects dismiss "+no+" --reason x", "--members is required")
	run(2, "suspects dismiss "+no+" --members 3 --reason x", "the group has 2 now")
	run(2, "suspects show x", "is no number of a group")
	run(2, "suspects list --at-least highest", "is no level")
	run(2, "suspects list --state gone", "is no state")
	run(2, "suspects undismiss "+no, "--reason is required")
	run(0, "suspects dismiss "+no+" --members 2 --reason 'two tickets'", "dismissed  high", "\n  dismissed, with 2 transfers, by local at ", ": two tickets")
	run(0, "suspects dismiss "+no+" --members 2 --reason 'two tickets'", "replayed")
	run(0, "suspects undismiss "+no+" --reason 'one ticket'", "open  high", "\n  taken back by local at ")
	run(0, "refund second-key --id refund-1 --all --expected-refunded 0 --reason duplicate")
	run(3, "refund second-key --id refund-2 --all --expected-refunded 0 --reason duplicate", "REFUNDED_CHANGED")
	await(0)
	run(0, "suspects list --state all", "refunded  high")
	run(0, "suspects show "+no, "went back")
	run(0, "balance mina rana", "mina  -500.00 BDT", "rana  500.00 BDT")
	run(5, "suspects show 999", "is no group")
}
