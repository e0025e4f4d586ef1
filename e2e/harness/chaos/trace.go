package chaos

import (
	"cmp"
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
	fmt.Fprintf(&text, "floor %d, fault from %.1f s to %.1f s\n", e.Floor, e.FaultBegan.Seconds(), e.FaultEnded.Seconds())
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

// write writes the trace to a file of a folder.
func (e Evidence) write(folder, name string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("create the directory of traces: %w", err)
	}
	return os.WriteFile(filepath.Join(folder, name), e.trace(), 0o600)
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
