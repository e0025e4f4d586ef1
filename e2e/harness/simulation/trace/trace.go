// Package trace records what happens in a simulation, so that two runs can be compared.
package trace

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Trace records each message that arrived, each change of a cluster and each answer to a client. A nil trace records nothing.
type Trace struct {
	mu    sync.Mutex
	began time.Time
	lines []line
}

type line struct {
	at   time.Duration
	text string
}

func (l line) String() string { return fmt.Sprintf("%12s  %s", l.at, l.text) }

// New returns an empty trace.
func New() *Trace { return &Trace{} }

// Start sets the time from which entries are counted to now.
func (t *Trace) Start() {
	if t != nil {
		t.began = time.Now()
	}
}

// Add records an entry.
func (t *Trace) Add(format string, arguments ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.began), fmt.Sprintf(format, arguments...)})
}

// String returns the trace in readable form, one line per entry.
func (t *Trace) String() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return join(t.lines)
}

func join(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// Settled returns the trace with the entries of one instant in alphabetical order. Which of them is recorded first depends on the Go
// scheduler and changes nothing. The result is the same for each run of a seed.
func (t *Trace) Settled() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.lines)
	slices.SortFunc(lines, func(a, b line) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.text, b.text)) })
	return join(lines)
}

// Hash returns a short hash of Settled.
func (t *Trace) Hash() string {
	sum := sha256.Sum256([]byte(t.Settled()))
	return hex.EncodeToString(sum[:6])
}
