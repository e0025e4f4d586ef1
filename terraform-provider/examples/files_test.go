package examples_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// all are the examples: every file beside this one that is no test.
func all(t *testing.T) []string {
	t.Helper()
	var paths []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && !strings.HasSuffix(path, ".go") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

// matching are the examples of those patterns.
func matching(t *testing.T, patterns ...string) []string {
	t.Helper()
	return slices.DeleteFunc(all(t), func(path string) bool {
		return !slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, err := filepath.Match(pattern, path)
			return ok && err == nil
		})
	})
}

func read(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// knowOf reads files that only other programs read for a test: go test would otherwise take it for done when they have changed.
func knowOf(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		read(t, path)
	}
}

// destructible lets a test destroy what an example rightly protects.
func destructible(configuration string) string {
	configuration = regexp.MustCompile(`(?m)^ *deletion_protection += true\n`).ReplaceAllString(configuration, "")
	return regexp.MustCompile(`(?m)^resource "breakwater_pod_protector" .*\{$`).ReplaceAllString(configuration, "$0\n  deletion_protection = false")
}
