package fraud_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unheard lists the calls in a file that send a record and do not want to know what becomes of it.
func unheard(t testing.TB, name string, source []byte) (places []string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		method, ok := call.Fun.(*ast.SelectorExpr)
		if !ok || method.Sel.Name != "Produce" && method.Sel.Name != "TryProduce" {
			return true
		}
		if promise, ok := call.Args[len(call.Args)-1].(*ast.Ident); ok && promise.Name == "nil" {
			places = append(places, set.Position(call.Pos()).String())
		}
		return true
	})
	return places
}

// A record that was refused is missing, and a transaction is committed without it (TestProduceErrors), unless somebody listens. So nobody in the
// whole repository sends one without a promise.
func TestNoPromiseUnheard(t *testing.T) {
	t.Parallel()
	const careless = `package a
func f() { client.Produce(ctx, r, nil); s.c.TryProduce(ctx, r, nil); client.Produce(ctx, r, promise); Produce(nil) }`
	if got := unheard(t, "careless.go", []byte(careless)); len(got) != 2 {
		t.Fatalf("it finds %v", got)
	}
	files := 0
	if err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		files++
		source, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, place := range unheard(t, path, source) {
			t.Errorf("%s sends a record and does not want to know what becomes of it", place)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if files < 100 {
		t.Errorf("it has looked at %d files only", files)
	}
}
