package cli_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"

	"github.com/khata-ledger/khata/internal/devpg"
)

var update = flag.Bool("update", false, "write the output of the scripts in testdata again")

// Each script in testdata is a session at a terminal, on a database of its own: commands after "$ ", what they print, lines
// on standard error after "! ", and the exit code where it is not 0. An empty line that they print is "~". Sequences and hashes
// are numbered in the order in which they appear, so that one that comes again is seen to be the same; times of the database's
// clock are TIME. A command after "until" is run again until it prints something. In a script that needs people,
// KHATA_TOKEN=NAME before a command is one of these: see guarded.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			tokens := map[string]string{}
			var b *bench
			if strings.Contains(string(text), "$ KHATA_TOKEN=") {
				b, tokens = guarded(t)
			} else {
				b = setup(t)
			}
			t.Setenv("KHATA_ADDR", b.addr)
			var got strings.Builder
			mask := newMask()
			for line := range strings.Lines(string(text)) {
				switch {
				case strings.HasPrefix(line, "$ "):
					got.WriteString(line)
					args := words(t, strings.TrimPrefix(line, "$ "))
					if name, ok := strings.CutPrefix(args[0], "KHATA_TOKEN="); ok {
						t.Setenv("KHATA_TOKEN", tokens[name])
						args = args[1:]
					}
					for i := range args {
						args[i] = mask.unmasked(args[i])
					}
					until := args[0] == "until"
					if until {
						args = args[1:]
					}
					if args[0] != "khata" {
						t.Fatalf("%q does not run khata", line)
					}
					r := khata(t.Context(), args[1:]...)
					for begun := time.Now(); until && r.out == "" && r.code == 0 && time.Since(begun) < 30*time.Second; r = khata(t.Context(), args[1:]...) {
						time.Sleep(100 * time.Millisecond)
					}
					got.WriteString(emptyLine.ReplaceAllString(mask.of(r.out), "~\n"))
					for line := range strings.Lines(r.err) {
						got.WriteString("! " + mask.of(line))
					}
					if r.code != 0 {
						fmt.Fprintf(&got, "exit %d\n", r.code)
					}
				case strings.HasPrefix(line, "#"), line == "\n":
					got.WriteString(line)
				}
			}
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(got.String(), "\n")); diff != "" {
				t.Errorf("%s (-want +got; go test ./internal/cli -update writes it again):\n%s", file, diff)
			}
		})
	}
}

// words splits a command line as a shell does, with single and double quotes and nothing else.
func words(t *testing.T, line string) []string {
	t.Helper()
	var list []string
	var word strings.Builder
	var quote rune
	inWord := false
	for _, r := range strings.TrimSpace(line) {
		switch {
		case quote == 0 && (r == '"' || r == '\''):
			quote, inWord = r, true
		case r == quote && quote != 0:
			quote = 0
		case quote == 0 && unicode.IsSpace(r):
			if inWord {
				list = append(list, word.String())
			}
			word.Reset()
			inWord = false
		default:
			word.WriteRune(r)
			inWord = true
		}
	}
	if quote != 0 {
		t.Fatalf("%q has an open quote", line)
	}
	if inWord {
		list = append(list, word.String())
	}
	return list
}

var (
	clock     = regexp.MustCompile(`20\d\d-\d\d-\d\d(T\d\d:\d\d:\d\d\.\d{1,6}| \d\d:\d\d:\d\d)Z`)
	sequences = regexp.MustCompile(`(?m)(^ *|[Ss]equence:? +|"sequence":|"version":|"through":|--after |last number is ` +
		`|hrough sequence", "value": "|"sequence": "|,20\d\d-\d\d-\d\d,|^20\d\d-\d\d-\d\d +)([1-9][0-9]*)(  TIME|,|}|"|:|$|  T)`)
	emptyLine = regexp.MustCompile(`(?m)^\n`)
	hashes    = regexp.MustCompile(`[0-9a-f]{64}`)
	audited   = regexp.MustCompile(`(?m)^\{"number":[0-9]+`)
	hashFlag  = regexp.MustCompile(`HASH[0-9]+`)
	apart     = regexp.MustCompile(`posted (less than a second|[0-9.]+s) apart`)
)

// mask makes output the same at every run.
type mask struct{ names map[string]string }

func newMask() *mask { return &mask{map[string]string{}} }

func (m *mask) of(text string) string {
	text = apart.ReplaceAllString(clock.ReplaceAllString(text, "TIME"), "posted AWHILE apart")
	if dir, err := devpg.DefaultDir(); err == nil { // Everybody has another.
		text = strings.ReplaceAll(text, dir, "DIR")
	}
	text = hashes.ReplaceAllStringFunc(text, func(hash string) string { return m.name("HASH", hash) })
	text = audited.ReplaceAllStringFunc(text, func(found string) string {
		return `{"number":` + m.name("N", strings.TrimPrefix(found, `{"number":`))
	})
	return sequences.ReplaceAllStringFunc(text, func(found string) string {
		parts := sequences.FindStringSubmatch(found)
		return strings.TrimLeft(parts[1], " ") + m.name("S", parts[2]) + parts[3]
	})
}

// unmasked puts back into a command what it names of what was printed before.
func (m *mask) unmasked(arg string) string {
	return hashFlag.ReplaceAllStringFunc(arg, func(name string) string {
		for key, known := range m.names {
			if known == name {
				return strings.TrimPrefix(key, "HASH")
			}
		}
		return name
	})
}

// name gives what is another at every run the next name of its kind.
func (m *mask) name(kind, value string) string {
	name, ok := m.names[kind+value]
	if !ok {
		n := 1
		for _, other := range m.names {
			if strings.HasPrefix(other, kind) {
				n++
			}
		}
		name = fmt.Sprintf("%s%d", kind, n)
		m.names[kind+value] = name
	}
	return name
}
