package main

import (
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
