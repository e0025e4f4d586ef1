package commands

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/pager"

	"github.com/breakwater-k8s/breakwater/internal/cli/convert"
)

// readFiles reads files, the files of folders in the order of their names, and standard input for "-".
func readFiles(paths []string, recursive bool, in io.Reader) (sources []convert.Source, notes []string, err error) {
	for _, path := range paths {
		if path == "-" {
			raw, err := io.ReadAll(in)
			if err != nil {
				return nil, nil, fmt.Errorf("read standard input: %w", err)
			}
			if err := parse(raw, "standard input", &sources, &notes); err != nil {
				return nil, nil, err
			}
			continue
		}
		files, err := filesOf(path, recursive)
		if err != nil {
			return nil, nil, fmt.Errorf("--filename: %w", err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				return nil, nil, fmt.Errorf("--filename: %w", err)
			}
			if err := parse(raw, file, &sources, &notes); err != nil {
				return nil, nil, err
			}
		}
	}
	return sources, notes, nil
}

// filesOf returns the path itself if it is a file, and the manifests in it if it is a folder.
func filesOf(path string, recursive bool) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	var files []string
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && file != path && !recursive:
			return fs.SkipDir
		case !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(file)):
			files = append(files, file)
		}
		return nil
	})
	return files, err
}

// parse reads the documents of one text. It skips documents that are not Kubernetes objects, such as chart values, and adds a note for
// each.
func parse(raw []byte, origin string, sources *[]convert.Source, notes *[]string) error {
	decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096)
	for document := 1; ; document++ {
		var extension runtime.RawExtension
		err := decoder.Decode(&extension)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s, document %d: %w", origin, document, err)
		}
		if text := bytes.TrimSpace(extension.Raw); len(text) == 0 || bytes.Equal(text, []byte("null")) {
			continue
		}
		object, err := runtime.Decode(unstructured.UnstructuredJSONScheme, extension.Raw)
		if runtime.IsMissingKind(err) || runtime.IsMissingVersion(err) || bytes.TrimSpace(extension.Raw)[0] != '{' {
			*notes = append(*notes, fmt.Sprintf("skipped document %d of %s: it is not a Kubernetes object", document, origin))
			continue
		}
		if err != nil {
			return fmt.Errorf("read %s, document %d: %w", origin, document, err)
		}
		if err := flatten(object, origin, sources); err != nil {
			return fmt.Errorf("read %s, document %d: %w", origin, document, err)
		}
	}
}

// flatten expands lists, including nested ones.
func flatten(object runtime.Object, origin string, sources *[]convert.Source) error {
	switch object := object.(type) {
	case *unstructured.UnstructuredList:
		return object.EachListItem(func(item runtime.Object) error { return flatten(item, origin, sources) })
	case *unstructured.Unstructured:
		if object.IsList() {
			return object.EachListItem(func(item runtime.Object) error { return flatten(item, origin, sources) })
		}
		*sources = append(*sources, convert.Source{Object: object, Origin: origin})
	}
	return nil
}

// list reads the PodDisruptionBudgets of the cluster, in pages.
func (f *convertFlags) list(ctx context.Context) (sources []convert.Source, notes []string, err error) {
	config, err := f.from.Config(ctx, "convert")
	if err != nil {
		return nil, nil, err
	}
	namespace := f.from.NamespaceFlag()
	if namespace == "" && !f.allNamespaces {
		if namespace, err = f.from.Namespace(); err != nil {
			return nil, nil, err
		}
		notes = append(notes, fmt.Sprintf("read namespace %s; -A reads all", namespace))
	}
	cluster, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, nil, err
	}
	budgets := cluster.Resource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")).Namespace(namespace)
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		return budgets.List(ctx, options)
	})
	list, _, err := pages.List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list PodDisruptionBudgets: %w", err)
	}
	err = meta.EachListItem(list, func(item runtime.Object) error {
		sources = append(sources, convert.Source{Object: item.(*unstructured.Unstructured)})
		return nil
	})
	return sources, notes, err
}
