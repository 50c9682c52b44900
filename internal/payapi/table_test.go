package payapi_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The table of edge cases has every number, and names tests that are there.
func TestEdge_Table(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("../../docs/payments-edge-cases.md")
	if err != nil {
		t.Fatal(err)
	}
	var numbers []int
	for _, m := range regexp.MustCompile(`(?m)^\| (\d+)(?:-(\d+))? \|`).FindAllStringSubmatch(string(table), -1) {
		first, _ := strconv.Atoi(m[1])
		last, err := strconv.Atoi(m[2])
		if err != nil {
			last = first
		}
		for n := first; n <= last; n++ {
			numbers = append(numbers, n)
		}
	}
	for i := range 90 {
		if i >= len(numbers) || numbers[i] != i+1 {
			t.Fatalf("after %d rows: want 1 to 90, each once: %v", i, numbers)
		}
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var tests []string
	source := ""
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source += string(text)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(string(text), -1) {
			tests = append(tests, m[1])
		}
	}
	for _, m := range regexp.MustCompile("`(Test\\w+)(?:/(\\w+))?`").FindAllStringSubmatch(string(table), -1) {
		if !slices.Contains(tests, m[1]) {
			t.Errorf("there is no %s", m[1])
		}
		if m[2] != "" && !strings.Contains(source, `{"`+m[2]) {
			t.Errorf("%s has no case %s", m[1], m[2])
		}
	}
}
