package main

import (
	"slices"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	source := "package a\n\n// Nobody tells whether it is so.\nfunc nobody() string { return `x\nanew` }\n"
	for file, want := range map[string]string{"a.go": "3 Nobody, 3 tells whether, 5 anew", "a.md": "3 Nobody, 3 tells whether, 4 nobody, 5 anew"} {
		var got []string
		for _, h := range find(file, []byte(source)) {
			got = append(got, strings.Join([]string{string(rune('0' + h.line)), h.word}, " "))
		}
		seen := map[string]bool{}
		for _, g := range got {
			seen[g] = true
		}
		for w := range strings.SplitSeq(want, ", ") {
			if !seen[w] {
				t.Errorf("find(%s) = %q, want %q in it", file, got, w)
			}
		}
		if len(got) != strings.Count(want, ",")+1 {
			t.Errorf("find(%s) = %q, want %q", file, got, want)
		}
	}
}

func TestNamesInCommentsExist(t *testing.T) {
	n := &names{known: map[string]bool{}, files: map[string]bool{}}
	n.add("a/b.go", []byte("package a\n\n// oldName calls newName, in b.go and a/b.go, not in gone.go. It reads maxSurges.\nfunc newName() {}\n"))
	n.add("a/c.go", []byte("package a\n\n// newName adds.\nfunc add() {}\n\n// Sum is.\ntype sum int\n\n// add adds.\nfunc (s sum) add() {}\n"))
	n.add("chart.yaml", []byte("maxSurge: 1\n"))
	n.add("page.md", []byte("oldName\n"))
	want := []string{`a/b.go:3: the docstring of newName explains "oldName"`, `a/c.go:3: the docstring of add explains "newName"`, `a/c.go:6: the docstring of sum explains "Sum"`,
		`a/b.go:3: "oldName": no code has this name`, `a/b.go:3: "gone.go": no file has this name`}
	if got := n.missing(); !slices.Equal(got, want) {
		t.Errorf("missing() = %q, want %q", got, want)
	}
}
