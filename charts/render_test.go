// Package charts_test checks the charts as users render and install them: with the real Helm, against a real API server.
package charts_test

import (
	"bytes"
	"errors"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation/local"
	"github.com/breakwater-k8s/breakwater/e2e/harness/release"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

// namespace is the release namespace of all tests.
const namespace = "breakwater-system"

// toolPath returns the path of a program that make built.
func toolPath(t testing.TB, name string) string {
	t.Helper()
	path, err := local.BuiltProgram(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// helm runs Helm and returns its output.
func helm(t testing.TB, arguments ...string) (string, error) {
	t.Helper()
	command, err := release.Helm(t.Context(), t.TempDir(), arguments...)
	if err != nil {
		t.Fatal(err)
	}
	out, err := command.Output()
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = errors.New(strings.TrimSpace(string(failed.Stderr)))
	}
	return string(out), err
}

// template renders the chart breakwater.
func template(t testing.TB, arguments ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "breakwater", "breakwater", "--namespace", namespace}, arguments...)...)
}

// render returns the objects of a value set.
func render(t testing.TB, arguments ...string) []*unstructured.Unstructured {
	t.Helper()
	text, err := template(t, arguments...)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, text)
}

func parse(t testing.TB, text string) []*unstructured.Unstructured {
	t.Helper()
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewBufferString(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}

// valueSets returns the values files of ci, which every rendering test covers.
func valueSets(t testing.TB) []string {
	t.Helper()
	sets, err := filepath.Glob("breakwater/ci/*.yaml")
	if err != nil || len(sets) < 10 {
		t.Fatalf("value sets %q, error %v", sets, err)
	}
	return sets
}

// forEachValueSet runs a test for each value set.
func forEachValueSet(t *testing.T, testSet func(t *testing.T, set string)) {
	t.Helper()
	for _, set := range valueSets(t) {
		t.Run(strings.TrimSuffix(filepath.Base(set), ".yaml"), func(t *testing.T) { testSet(t, set) })
	}
}

// objectsOfKind returns the objects of a kind, converted to their type.
func objectsOfKind[T any](t testing.TB, objects []*unstructured.Unstructured, kind string) []*T {
	t.Helper()
	var found []*T
	for _, object := range objects {
		if object.GetKind() != kind {
			continue
		}
		one := new(T)
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, one, true); err != nil {
			t.Fatalf("%s %s: %v", kind, object.GetName(), err)
		}
		found = append(found, one)
	}
	return found
}
