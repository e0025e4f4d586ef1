package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
)

// constant is a constant of the package, as declared.
type constant struct {
	Name, Value, Meaning string
}

// tables are the tables of constants on the page, by name prefix.
var tables = []struct{ title, preface, prefix string }{ //nolint:gochecknoglobals // a constant
	{"Conditions", "Types of `status.conditions`. An object is healthy when `Ready` is true, which kstatus, Argo CD and Flux evaluate.", "Condition"},
	{"Reasons", "Reasons of conditions. Each meaning begins with the condition.", "Reason"},
	{"Labels", "", "Label"},
	{"Annotations", "", "Annotation"},
	{"Finalizers", "", "Finalizer"},
	{"Audit annotations", "Annotations of a review in the audit log of an API server, which prefixes them with the webhook's name.", "Audit"},
}

// constants writes the tables for the package in a folder.
func constants(out *bytes.Buffer, folder string) error {
	var all []constant
	for _, name := range []string{"conditions.go", "labels.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, name), nil, parser.ParseComments)
		if err != nil {
			return err
		}
		for _, declaration := range file.Decls {
			all = append(all, declared(declaration)...)
		}
	}
	for _, table := range tables {
		fmt.Fprintf(out, "\n## %s\n\n", table.title)
		if table.preface != "" {
			fmt.Fprintf(out, "%s\n\n", table.preface)
		}
		out.WriteString("| name | meaning |\n| --- | --- |\n")
		for _, c := range all {
			if !strings.HasPrefix(c.Name, table.prefix) {
				continue
			}
			if c.Meaning == "" {
				return fmt.Errorf("constant %s has no comment", c.Name)
			}
			fmt.Fprintf(out, "| `%s` | %s |\n", c.Value, cell(named(c.Meaning, all)))
		}
	}
	return nil
}

// named replaces the names of Go constants by their values.
func named(text string, all []constant) string {
	for _, c := range all {
		for _, ending := range []string{" ", ",", ".", ":"} {
			text = strings.ReplaceAll(text, " "+c.Name+ending, " `"+c.Value+"`"+ending)
		}
	}
	return text
}

func declared(declaration ast.Decl) (all []constant) {
	switch d := declaration.(type) {
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			v, ok := spec.(*ast.ValueSpec)
			if !ok || len(v.Values) != 1 {
				continue
			}
			doc := v.Doc.Text()
			if len(d.Specs) == 1 && doc == "" {
				doc = d.Doc.Text()
			}
			all = append(all, constantOf(v.Names[0].Name, v.Values[0], "", doc))
		}
	case *ast.FuncDecl: // a label with a variable part
		if r, ok := d.Body.List[0].(*ast.ReturnStmt); ok {
			if sum, ok := r.Results[0].(*ast.BinaryExpr); ok {
				all = append(all, constantOf(d.Name.Name, sum.X, strings.ToUpper(d.Type.Params.List[0].Names[0].Name), d.Doc.Text()))
			}
		}
	}
	return all
}

func constantOf(name string, value ast.Expr, end, doc string) constant {
	c := constant{Name: name}
	if literal, ok := value.(*ast.BasicLit); ok {
		if c.Value = literal.Value; literal.Kind == token.STRING {
			c.Value, _ = strconv.Unquote(literal.Value) // the compiler has validated it
		}
	}
	c.Value += end
	c.Meaning = strings.TrimLeft(strings.TrimPrefix(strings.TrimSpace(doc), name), ", ")
	return c
}
