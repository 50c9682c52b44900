package bench

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// The columns of the table. CPU is in microseconds for each transfer, or call where there are none, and cores is how many
// were busy.
const header = "" +
	"                                                     latency of a call, ms             CPU, µs each                        bytes each\n" +
	"case                                 per second      p50      p95      p99      max    client  server  postgres  cores  on disk  of the floor\n"

// grouped prints a number with commas: 1,234,567.
func grouped[T int | int64](n T) string {
	digits := strconv.FormatInt(int64(n), 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// short prints a latency in milliseconds with three figures.
func short(ms float64) string {
	switch {
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	case ms < 100:
		return fmt.Sprintf("%.1f", ms)
	}
	return fmt.Sprintf("%.0f", ms)
}

// line prints a measurement as a line of the table.
func (r Result) line(indent string) string {
	rate, number := r.TransfersPerSecond, r.Transfers
	if r.Batch == 0 {
		rate, number = r.CallsPerSecond, r.Calls
	}
	each := func(seconds *float64) string {
		if seconds == nil || number == 0 {
			return "-"
		}
		return fmt.Sprintf("%.0f", *seconds*1e6/float64(number))
	}
	cores, bytes, ratio := "-", "-", "-"
	if r.CPU.Client != nil {
		cores = fmt.Sprintf("%.2f", r.CPU.total()/r.Seconds)
	}
	if r.BytesPerTransfer != nil {
		bytes = fmt.Sprintf("%.0f", *r.BytesPerTransfer)
	}
	if r.Ratio != nil {
		ratio = fmt.Sprintf("%.2f of %s", r.Ratio.Value, r.Ratio.Of)
	}
	text := fmt.Sprintf("%-36s %10s %8s %8s %8s %8s  %8s %7s %9s %6s %8s  %s\n", indent+r.Name, grouped(int64(math.Round(rate))),
		short(r.Latency.P50), short(r.Latency.P95), short(r.Latency.P99), short(r.Latency.Max),
		each(r.CPU.Client), each(r.CPU.Server), each(r.CPU.Postgres), cores, bytes, ratio)
	for _, part := range r.Parts {
		text += part.line(indent + "  ")
	}
	if len(r.Failures) > 0 {
		text += indent + "  FAILED: " + failureText(r.Failures) + "\n"
	}
	return text
}

func failureText(failures map[string]int64) string {
	var list []string
	for _, code := range slices.Sorted(maps.Keys(failures)) {
		list = append(list, fmt.Sprintf("%s %s", grouped(failures[code]), code))
	}
	return strings.Join(list, ", ")
}

// WriteSummary prints for people what is known once all is measured: targets, sizes, verify, failures.
func (r Report) WriteSummary(w io.Writer) error {
	var out strings.Builder
	if len(r.Goals) > 0 {
		out.WriteString("\n" + goalTable(r.Goals))
	}
	if len(r.Tables) > 0 {
		var total int64
		for _, t := range r.Tables {
			total += t.Bytes
		}
		fmt.Fprintf(&out, "\nThe journal has %s transfers; the tables take %s MB:", grouped(r.Transfers), grouped(total>>20))
		for _, t := range r.Tables {
			if t.Bytes>>20 > 0 {
				fmt.Fprintf(&out, " %s %s", t.Table, grouped(t.Bytes>>20))
			}
		}
		out.WriteString(".\n")
	}
	for _, note := range r.Notes {
		out.WriteString("\nNote: " + note + "\n")
	}
	if r.Verify != nil {
		out.WriteString("\nVerify: ")
		if err := r.writeVerify(&out); err != nil {
			return err
		}
	}
	if len(r.Failures) > 0 {
		out.WriteString("\nFAILED: " + failureText(r.Failures) + "\n")
	}
	if r.Stopped != "" {
		out.WriteString("\nSTOPPED EARLY: " + r.Stopped + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func (r Report) writeVerify(out io.Writer) error {
	if !r.Verify.OK() {
		return r.Verify.Write(out)
	}
	var checked int64
	for _, c := range r.Verify.Checks {
		if c.Of == "transfers" {
			checked = c.Checked
		}
	}
	_, err := fmt.Fprintf(out, "all %d checks hold over %s transfers.\n", len(r.Verify.Checks), grouped(checked))
	return err
}
