package plugin

import (
	"strings"
	"testing"
)

func TestFitTerminal(t *testing.T) {
	for text, want := range map[string]string{
		"a word or two\n":                "a word or\n  two\n",
		"  a word or two\n":              "  a word\n    or two\n",
		"ten chars.\n":                   "ten chars.\n",
		"a sentence ends\nshort\n":       "a sentence\n  ends\nshort\n",
		"unbreakable-word\n":             "unbreakable-word\n",
		"POD     NAME\n":                 "POD\n  NAME\n",
		"run kubectl get pods -n shop\n": "run kubectl get pods -n shop\n",
		"\x1b[32mgreen\x1b[0m words\n":   "\x1b[32mgreen\x1b[0m\n  words\n",
		"\x1b[32mgreen\x1b[0m word\n":    "\x1b[32mgreen\x1b[0m word\n",
		"größer als so\n":                "größer als\n  so\n",
		"a word or two":                  "a word or\n  two",
		"":                               "",
	} {
		if got := FitTerminal(text, 10); got != want {
			t.Errorf("fitTerminal(%q) = %q, want %q", text, got, want)
		}
		if got := FitTerminal(text, 0); got != text {
			t.Errorf("fitTerminal(%q) without a terminal = %q", text, got)
		}
	}
}

func TestTextsAreBrokenForTheTerminal(t *testing.T) {
	text := WrapText("first second third", "  ") + "\n" + IndentHanging(strings.Repeat("word ", 30)) + "\nend\n"
	for _, width := range []int{0, 40, 80, 100, 120} {
		got := FitTerminal(text, width)
		if strings.Contains(got, softBreak) {
			t.Errorf("fitTerminal(%d) = %q, want no soft break", width, got)
		}
		lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
		limit := textWidth
		if width > 0 {
			limit = min(width, textWidth)
		}
		for i, line := range lines {
			if len(line) > limit || strings.HasPrefix(line, "    word") && i+1 < len(lines) && lines[i+1] != "end" && len(line) < limit-len(" word")+1 {
				t.Errorf("with %d columns line %d is %q, want lines of up to %d that are full", width, i, line, limit)
			}
		}
	}
}
