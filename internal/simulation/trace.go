package simulation

import (
	"fmt"
	"strings"
	"sync"
	"time"
)

// Trace is what happened, for people. A nil trace keeps nothing.
type Trace struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

// NewTrace returns an empty trace.
func NewTrace() *Trace { return &Trace{} }

func (t *Trace) start() {
	if t != nil {
		t.began = time.Now()
	}
}

func (t *Trace) add(format string, arguments ...any) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	at := time.Since(t.began)
	t.lines = append(t.lines, fmt.Sprintf("%12s  ", at)+fmt.Sprintf(format, arguments...))
}

// String is the trace, a line for each thing that happened.
func (t *Trace) String() string {
	if t == nil {
		return ""
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}
