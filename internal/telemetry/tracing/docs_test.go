package tracing_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
)

// The names are stable: docs/how-to/tracing.md must list all of them.
func TestDocsListAllNames(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/how-to/tracing.md")
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), "names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	ast.Inspect(file, func(n ast.Node) bool {
		if value, ok := n.(*ast.BasicLit); ok && value.Kind == token.STRING {
			names++
			if name := strings.Trim(value.Value, `"`); !strings.Contains(string(docs), "`"+name+"`") {
				t.Errorf("docs/how-to/tracing.md does not have %s", name)
			}
		}
		return true
	})
	if names < 20 {
		t.Errorf("names.go has %d names", names)
	}
}
