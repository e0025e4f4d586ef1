package policy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

// Without its key in Keys, a new label or annotation would be reported to users as a spelling mistake.
func TestKeysHasAllConstants(t *testing.T) {
	var known []string
	for _, key := range v1alpha1.Keys() {
		known = append(known, key.Name)
	}
	for name, where := range keysInSource(t) {
		if !slices.Contains(known, name) {
			t.Errorf("Keys() lacks %s of %s", name, where)
		}
	}
}

// keysInSource returns the string literals of the module that look like a label or annotation of Breakwater, with their files. It omits
// finalizers, and what is no key: API versions, the type of a pod's condition, and the prefix itself.
func keysInSource(t *testing.T) map[string]string {
	t.Helper()
	found, finalizers := map[string]string{}, map[string]bool{}
	for _, folder := range []string{"api", "internal", "aggregator", "webhook", "controllers", "cmd"} {
		err := filepath.WalkDir(filepath.Join("..", "..", "..", folder), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(path) == "keys.go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Finalizer") && len(spec.Values) == 1 {
					if value, ok := spec.Values[0].(*ast.BasicLit); ok {
						finalizers[textOf(value)] = true
					}
				}
				if value, ok := node.(*ast.BasicLit); ok && value.Kind == token.STRING {
					if text, _, _ := strings.Cut(textOf(value), "="); strings.HasPrefix(text, v1alpha1.KeyPrefix) && !strings.ContainsAny(text, " %") {
						found[text] = path
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name := range finalizers {
		delete(found, name)
	}
	for _, name := range []string{v1alpha1.KeyPrefix, v1alpha1.GroupVersion.String(), "breakwater.dev/update-trigger"} {
		delete(found, name)
	}
	if len(found) < 30 {
		t.Fatalf("found %d keys in the source, want at least 30: %v", len(found), found)
	}
	return found
}

func textOf(literal *ast.BasicLit) string {
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return ""
	}
	return text
}
