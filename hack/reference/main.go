// Command reference writes docs/reference/api.md from the CustomResourceDefinitions and the constants of api/v1alpha1. make
// references runs it.
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

func main() {
	root := flag.String("root", ".", "`directory` of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "reference:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	written, err := page(filepath.Join(root, "api"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "docs", "reference"), 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, "docs", "reference", "api.md"), written, 0o644)
}

// order is the order of the kinds on the page.
var order = []string{ //nolint:gochecknoglobals // a constant
	"PodProtector", "Cell", "ProtectionPolicy", "ClusterProtectionPolicy", "PodSchedulingPolicy", "ClusterPodSchedulingPolicy", "ClusterRing",
}

//go:embed preface.txt
var preface string

// page renders the page for the API in a folder.
func page(api string) ([]byte, error) {
	definitions, err := read(filepath.Join(api, "crds"))
	if err != nil {
		return nil, err
	}
	slices.SortFunc(definitions, func(a, b *apiextensionsv1.CustomResourceDefinition) int {
		return slices.Index(order, a.Spec.Names.Kind) - slices.Index(order, b.Spec.Names.Kind)
	})
	var out bytes.Buffer
	out.WriteString(preface)
	w := &writer{out: &out, told: map[string]string{}}
	for _, definition := range definitions {
		if !slices.Contains(order, definition.Spec.Names.Kind) {
			return nil, fmt.Errorf("kind %s is missing in order", definition.Spec.Names.Kind)
		}
		w.kind(definition)
	}
	if err := constants(&out, filepath.Join(api, "v1alpha1")); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

func read(folder string) (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(raw, definition); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, definition)
	}
	return all, nil
}

// cell escapes a text for a table cell.
func cell(text string) string {
	text = strings.NewReplacer("|", `\|`, "<", `\<`, "*", `\*`).Replace(strings.TrimSpace(text))
	return strings.ReplaceAll(strings.ReplaceAll(text, "\n\n", "<br>"), "\n", " ")
}
