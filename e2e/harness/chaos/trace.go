package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// trace returns the evidence line by line, in the order of time. Stored changes are sorted by their latest time, requests by their answer.
func (e Evidence) trace() []byte {
	type line struct {
		at   time.Duration
		text string
	}
	var lines []line
	for _, truth := range e.Truths {
		for _, f := range truth.Facts {
			lines = append(lines, line{f.Latest, fmt.Sprintf("%s stored   %s/%s %s, UID %s, revision %d",
				span(f.Earliest, f.Latest), truth.Cell, f.Pod, f.Change, f.UID, f.Revision)})
		}
	}
	for _, a := range e.Requests {
		lines = append(lines, line{a.Answered, fmt.Sprintf("%s answered %s/%s %s %s, UID %s, client %d %s",
			span(a.Sent, a.Answered), a.Cell, a.Pod, a.Operation, a.Outcome, a.UID, a.Client, a.Error)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return cmp.Compare(a.at, b.at) })
	var text strings.Builder
	fmt.Fprintf(&text, "floor %d\n", e.Floor)
	for _, truth := range e.Truths {
		fmt.Fprintf(&text, "%s begins with %d available pods\n", truth.Cell, len(truth.Baseline))
	}
	for _, l := range lines {
		text.WriteString(strings.TrimRight(l.text, " ") + "\n")
	}
	return []byte(text.String())
}

func span(from, to time.Duration) string {
	return fmt.Sprintf("%9.4f..%9.4f", from.Seconds(), to.Seconds())
}

// write writes the evidence of a scenario and its picture to files for reading. It returns their name without extension.
func (t timeline) write(folder string) (name string, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", fmt.Errorf("create the directory of traces: %w", err)
	}
	name = fmt.Sprintf("%s-%d", slug(t.name), t.seed)
	return name, errors.Join(
		os.WriteFile(filepath.Join(folder, name+".txt"), t.evidence.trace(), 0o600),
		os.WriteFile(filepath.Join(folder, name+".svg"), []byte(t.chart().SVG()), 0o600),
	)
}

// slug converts the name of a scenario to a file name.
func slug(name string) string {
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return ' '
	}, strings.ReplaceAll(name, "'", ""))
	return strings.Join(strings.Fields(letters), "-")
}
