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

// all returns the examples: every file in this directory tree that is not a Go file.
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

// matching returns the examples that match the patterns.
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

// readExternal reads files that only other programs read for a test. Otherwise go test would return a cached result after they changed.
func readExternal(t *testing.T, paths ...string) {
	t.Helper()
	for _, path := range paths {
		read(t, path)
	}
}

// destructible removes the deletion protection of an example, so that a test can destroy it.
func destructible(configuration string) string {
	configuration = regexp.MustCompile(`(?m)^ *deletion_protection += true\n`).ReplaceAllString(configuration, "")
	return regexp.MustCompile(`(?m)^resource "breakwater_pod_protector" .*\{$`).ReplaceAllString(configuration, "$0\n  deletion_protection = false")
}

// The repository that a release splits from this folder has its own license, because registries show it and GitHub reads it there.
func TestLicenseIsThatOfTheRepository(t *testing.T) {
	if read(t, "../LICENSE") != read(t, "../../LICENSE") {
		t.Error("terraform-provider/LICENSE differs from LICENSE: copy it")
	}
}
