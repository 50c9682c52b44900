package internal_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/khata-ledger/khata/"

// goPackage is what go list says of a package. Paths of ours are without the module.
type goPackage struct {
	ImportPath   string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rule is an arrow that must not be. It looks at one import of one package, and gives the reason where it is wrong.
type rule func(from, to string) (reason string)

// The rooms of the house (docs/design.md, section 9), which not all exist yet.
var (
	adapters = []string{"internal/grpcapi", "internal/payapi", "internal/console"}
	testOnly = []string{"internal/pgtest", "internal/kafkatest", "internal/ledgertest", "internal/eventstest"}
	database = []string{
		"internal/pg", "internal/pgtest", "internal/journal", "internal/auth", "internal/payapi", "internal/dbsqlc", "internal/devpg", "internal/verify", "internal/ledgertest",
		"internal/server", "internal/bench", "internal/relay", "ledger/inbox", "internal/wallet", "internal/sms", "internal/fraud",
		"internal/report", "internal/reconcile", "internal/suspect", "internal/support", "internal/retry",
	}
	// kafka are those who speak to Kafka. Others have it done: the command line is given clients that it only passes on.
	kafka = []string{"internal/kafka", "internal/devkafka", "internal/kafkatest", "internal/eventstest", "internal/relay", "ledger/inbox", "internal/fraud"}
)

// rules are about what a package is built of; testRules also about what its tests are.
var (
	rules = []rule{
		func(from, to string) string {
			if from == "ledger" && to != "github.com/shopspring/decimal" && !isStandard(to) {
				return "the domain imports the standard library and decimal only"
			}
			return ""
		},
		func(from, to string) string {
			if from == "ledger" && within(to, "net", "os", "database") {
				return "the domain does no I/O"
			}
			return ""
		},
		func(from, to string) string {
			if within(from, "ledger") && within(to, "internal", "cmd", "db") {
				return "others import the public packages, and cannot import what is internal"
			}
			return ""
		},
		func(from, to string) string {
			if within(from, adapters...) && within(to, adapters...) && roomOf(from) != roomOf(to) {
				return "adapters never import each other"
			}
			return ""
		},
		only(adapters, []string{"internal/server"}, "only the server knows the adapters"),
		only([]string{"internal/server"}, []string{"internal/cli"}, "only the command line starts servers"),
		only([]string{"internal/cli"}, []string{"cmd"}, "commands are run by cmd only"),
		only([]string{"github.com/jackc/pgx"}, database, "only what owns tables or starts a database speaks to PostgreSQL"),
		only([]string{"github.com/twmb/franz-go"}, kafka, "only what publishes, consumes or starts a broker speaks to Kafka"),
		only([]string{"github.com/twmb/franz-go/pkg/kfake"}, []string{"internal/devkafka"}, "the broker of khata up is the only fake one that is built in"),
		only([]string{"internal/devidp"}, []string{"internal/server"}, "the identity provider of khata up takes people for whom they say they are"),
		only([]string{"internal/dbsqlc"}, []string{"internal/journal", "internal/auth", "internal/payapi", "internal/relay", "internal/wallet", "internal/sms", "internal/fraud", "internal/report", "internal/reconcile", "internal/suspect", "internal/support", "internal/ledgertest"}, "a capability is the only writer of its tables"),
		only([]string{"proto"}, []string{"internal/grpcapi", "internal/wire", "internal/relay", "internal/wallet", "internal/sms", "internal/fraud", "ledger/client", "internal/server", "internal/bench", "proto"},
			"the wire's types stay with those who encode and decode them; everyone else speaks ledger"),
		only([]string{"github.com/spf13/cobra", "github.com/spf13/pflag"}, []string{"internal/cli"}, "commands live in internal/cli"),
		only([]string{"internal/bench"}, []string{"internal/cli"}, "the load generator is a client, and nothing is built on it"),
		only(testOnly, testOnly, "they are for tests only"),
		func(from, to string) string {
			if within(from, "cmd") && isOurs(to) && to != "internal/cli" {
				return "cmd imports internal/cli only"
			}
			return ""
		},
	}
	testRules = []rule{
		func(_, to string) string {
			if within(to, "cmd") {
				return "nothing imports cmd"
			}
			return ""
		},
		func(from, to string) string {
			if from == "ledger" && isOurs(to) && to != "ledger" {
				return "the domain's tests need nothing of ours"
			}
			return ""
		},
	}
)

// only makes a rule of who may import something.
func only(what, who []string, reason string) rule {
	return func(from, to string) string {
		if within(to, what...) && !within(from, who...) && !within(from, what...) {
			return reason
		}
		return ""
	}
}

// within reports whether a package is one of these or below.
func within(pkg string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") })
}

// roomOf is the first two steps of a path of ours.
func roomOf(pkg string) string {
	steps := strings.SplitN(pkg, "/", 3)
	return strings.Join(steps[:min(2, len(steps))], "/")
}

func isOurs(pkg string) bool { return within(pkg, "internal", "ledger", "proto", "db", "cmd") }

// isStandard reports whether a package is of the standard library: only those have no dot in their first step.
func isStandard(pkg string) bool {
	first, _, _ := strings.Cut(pkg, "/")
	return !isOurs(pkg) && !strings.Contains(first, ".")
}

// wrongArrows lists the imports that break a rule.
func wrongArrows(packages []goPackage) []string {
	var wrong []string
	check := func(from string, imports []string, rules []rule) {
		for _, to := range imports {
			for _, rule := range rules {
				if reason := rule(from, to); reason != "" {
					wrong = append(wrong, from+" imports "+to+": "+reason)
				}
			}
		}
	}
	for _, p := range packages {
		check(p.ImportPath, p.Imports, slices.Concat(rules, testRules))
		check(p.ImportPath, slices.Concat(p.TestImports, p.XTestImports), testRules)
	}
	slices.Sort(wrong)
	return slices.Compact(wrong)
}

// goList asks the go command for the packages of the module.
func goList(t *testing.T) []goPackage {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports", module+"...")
	out, err := cmd.Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("go list: %v\n%s", err, failed.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var list []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		p.ImportPath = strings.TrimPrefix(p.ImportPath, module)
		for _, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for i := range imports {
				imports[i] = strings.TrimPrefix(imports[i], module)
			}
		}
		list = append(list, p)
	}
}

func TestArrows(t *testing.T) {
	t.Parallel()
	packages := goList(t)
	for _, wrong := range wrongArrows(packages) {
		t.Error(wrong)
	}
	// Without these the rules above would say nothing.
	for from, to := range map[string]string{
		"cmd/khata": "internal/cli", "internal/cli": "internal/server", "internal/server": "internal/grpcapi", "internal/grpcapi": "internal/journal",
		"internal/journal": "ledger", "ledger": "github.com/shopspring/decimal", "ledger/client": "proto/khata/v1",
	} {
		if !slices.ContainsFunc(packages, func(p goPackage) bool { return p.ImportPath == from && slices.Contains(p.Imports, to) }) {
			t.Errorf("%s does not import %s: has the house been rebuilt?", from, to)
		}
	}
}

func TestArrows_OfAnotherHouse(t *testing.T) {
	t.Parallel()
	imports := func(path string, imports ...string) goPackage { return goPackage{ImportPath: path, Imports: imports} }
	tests := func(path string, imports ...string) goPackage {
		return goPackage{ImportPath: path, XTestImports: imports}
	}
	for name, c := range map[string]struct {
		pkg  goPackage
		want []string // what it imports wrongly
	}{
		"the domain in order":          {imports("ledger", "errors", "encoding/json", "github.com/shopspring/decimal"), nil},
		"the domain with I/O":          {imports("ledger", "os", "net/http", "database/sql", "time"), []string{"database/sql", "net/http", "os"}},
		"the domain with ours":         {imports("ledger", "internal/pg", "ledger/client"), []string{"internal/pg", "ledger/client"}},
		"the domain with theirs":       {imports("ledger", "github.com/google/uuid", "golang.org/x/text"), []string{"github.com/google/uuid", "golang.org/x/text"}},
		"the domain's tests":           {tests("ledger", "ledger", "pgregory.net/rapid"), nil},
		"the domain's tests with ours": {tests("ledger", "internal/pgtest"), []string{"internal/pgtest"}},
		"the client":                   {imports("ledger/client", "ledger", "proto/khata/v1", "google.golang.org/grpc"), nil},
		"the client with internals":    {imports("ledger/client", "internal/grpcapi"), []string{"internal/grpcapi"}},
		"another public package":       {imports("ledger/inbox", "internal/pg"), []string{"internal/pg"}},
		"an adapter":                   {imports("internal/grpcapi", "internal/journal", "ledger", "proto/khata/v1"), nil},
		"an adapter with another":      {imports("internal/payapi", "internal/grpcapi"), []string{"internal/grpcapi"}},
		"a part of one with another":   {imports("internal/console/page", "internal/payapi/key"), []string{"internal/payapi/key"}},
		"a part of one with its own":   {imports("internal/console/page", "internal/console"), nil},
		"an adapter with pgx":          {imports("internal/console", "github.com/jackc/pgx/v5"), []string{"github.com/jackc/pgx/v5"}},
		"a capability with an adapter": {imports("internal/journal", "internal/grpcapi"), []string{"internal/grpcapi"}},
		"a capability with the server": {imports("internal/report", "internal/server"), []string{"internal/server"}},
		"a capability with proto":      {imports("internal/journal", "proto/khata/v1"), []string{"proto/khata/v1"}},
		"another capability's SQL":     {imports("internal/export", "internal/dbsqlc"), []string{"internal/dbsqlc"}},
		"the command line with proto":  {imports("internal/cli", "proto/khata/v1"), []string{"proto/khata/v1"}},
		"a capability with Kafka":      {imports("internal/report", "github.com/twmb/franz-go/pkg/kgo"), []string{"github.com/twmb/franz-go/pkg/kgo"}},
		"the command line with Kafka":  {imports("internal/cli", "internal/kafka", "github.com/twmb/franz-go/pkg/kadm"), []string{"github.com/twmb/franz-go/pkg/kadm"}},
		"Kafka in its rooms":           {imports("internal/kafka", "github.com/twmb/franz-go/pkg/kgo", "github.com/twmb/franz-go/pkg/kadm"), nil},
		"a fake Kafka in production":   {imports("ledger/inbox", "github.com/twmb/franz-go/pkg/kfake"), []string{"github.com/twmb/franz-go/pkg/kfake"}},
		"a provider that asks nobody":  {imports("internal/console", "internal/devidp"), []string{"internal/devidp"}},
		"a fake Kafka in tests":        {tests("internal/report", "github.com/twmb/franz-go/pkg/kfake"), nil},
		"the server with cobra":        {imports("internal/server", "github.com/spf13/cobra"), []string{"github.com/spf13/cobra"}},
		"test packages built in": {
			imports("internal/server", "internal/pgtest", "internal/kafkatest", "internal/ledgertest"), []string{"internal/kafkatest", "internal/ledgertest", "internal/pgtest"},
		},
		"test packages of each other": {imports("internal/ledgertest", "internal/pgtest"), nil},
		"test packages in tests":      {tests("internal/server", "internal/pgtest", "internal/ledgertest"), nil},
		"a capability with the bench": {imports("internal/journal", "internal/bench"), []string{"internal/bench"}},
		"cmd":                         {imports("cmd/khata", "context", "internal/cli"), nil},
		"cmd with more":               {imports("cmd/khata", "internal/server", "ledger"), []string{"internal/server", "ledger"}},
		"cmd imported":                {imports("internal/cli", "cmd/khata"), []string{"cmd/khata"}},
		"cmd imported by a test":      {tests("internal/cli", "cmd/khata"), []string{"cmd/khata"}},
		"the command line imported":   {imports("internal/server", "internal/cli"), []string{"internal/cli"}},
		"a name that only begins so":  {imports("internal/reportable", "internal/serverless", "github.com/jackc/pgxyz"), nil},
	} {
		var got []string
		for _, wrong := range wrongArrows([]goPackage{c.pkg}) {
			words := strings.Fields(wrong)
			got = append(got, strings.TrimSuffix(words[2], ":"))
		}
		if diff := cmp.Diff(c.want, slices.Compact(got)); diff != "" {
			t.Errorf("%s: wrong imports (-want +got):\n%s", name, diff)
		}
	}
}
