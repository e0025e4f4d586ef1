package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What docs/scheduling.md shows of breakwater explain is what it says of the files that the page shows.
func TestThePageOfSchedulingShowsWhatExplainSays(t *testing.T) {
	raw, err := os.ReadFile("../../docs/scheduling.md")
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for _, block := range regexp.MustCompile("(?s)```yaml\n(# ([a-z]+\\.yaml)\n.*?)```").FindAllStringSubmatch(string(raw), -1) {
		if err := os.WriteFile(filepath.Join(folder, block[2]), []byte(block[1]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(folder)
	shown := regexp.MustCompile("(?s)```console\n\\$ breakwater (explain [^\n]*)\n(.*?)```").FindAllStringSubmatch(string(raw), -1)
	if len(shown) == 0 {
		t.Fatal("it shows none")
	}
	for _, example := range shown {
		out, err := ask(t, strings.Fields(example[1])...)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(example[2], out); diff != "" {
			t.Errorf("%s (-page +output):\n%s", example[1], diff)
		}
	}
}
