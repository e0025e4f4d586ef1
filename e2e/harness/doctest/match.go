package doctest

import (
	"fmt"
	"regexp"
	"strings"
)

// wildcard matches any text of a line, and as a separate line any number of lines.
const wildcard = "…"

// volatileText is a pattern for text that differs between runs, and the word that replaces it on both sides.
type volatileText struct {
	pattern *regexp.Regexp
	word    string
}

// volatileTexts are applied in order.
var volatileTexts = []volatileText{ //nolint:gochecknoglobals // a constant
	{regexp.MustCompile(`\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`), "UID"},
	// The names of a Deployment's pods, and other names that the API server generates. Their letters include no vowels.
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz0-9]{5,10}-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-HASH-NAME"},
	{regexp.MustCompile(`\b127\.0\.0\.1:\d+\b`), "ADDRESS"},
	{regexp.MustCompile(`\b(\d+(\.\d+)?(ms|µs|d|h|m|s))+\b`), "AGE"},
}

// Compare returns "" if an output matches what a page shows, and otherwise the difference. It ignores trailing spaces and the
// widths of table columns. It treats all ages, times, UIDs, addresses of this machine and random parts of pod names as equal.
func Compare(shown, output string, wrapped bool) string {
	want, got := normalize(shown), normalize(output)
	same := false
	if wrapped {
		want, got = []string{strings.Join(strings.Fields(strings.Join(want, " ")), " ")}, []string{strings.Join(strings.Fields(strings.Join(got, " ")), " ")}
	}
	same = match(want, got)
	if same {
		return ""
	}
	return fmt.Sprintf("the page shows\n%s\nbut the command printed\n%s\ncompared as\n%s\nand\n%s",
		indent(strings.Split(shown, "\n")), indent(strings.Split(output, "\n")), indent(want), indent(got))
}

// match compares lines.
func match(want, got []string) bool {
	if len(want) == 0 {
		return len(got) == 0
	}
	if want[0] == wildcard {
		for skipped := range len(got) + 1 {
			if match(want[1:], got[skipped:]) {
				return true
			}
		}
		return false
	}
	return len(got) > 0 && matchLine(want[0], got[0]) && match(want[1:], got[1:])
}

func matchLine(want, got string) bool {
	parts := strings.Split(want, wildcard)
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile(`\A` + strings.Join(parts, `.*`) + `\z`).MatchString(got)
}

var columns = regexp.MustCompile(`(  |\t)[ \t]*`)

// normalize returns the lines of a text without what differs between runs.
func normalize(text string) []string {
	for _, n := range volatileTexts {
		text = n.pattern.ReplaceAllString(text, n.word)
	}
	lines := strings.Split(strings.TrimRight(text, "\n \t"), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimRight(columns.ReplaceAllString(line, "  "), " ")
	}
	return lines
}

func indent(lines []string) string { return "    " + strings.Join(lines, "\n    ") }
