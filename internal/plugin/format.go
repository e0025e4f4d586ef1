package plugin

import (
	"fmt"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"
)

// Age formats the time since then as kubectl does.
func Age(now, then time.Time) string {
	if then.IsZero() {
		return "?"
	}
	return duration.HumanDuration(max(0, now.Sub(then)))
}

// Ago says how long ago a time is, or that it is ahead of this clock.
func Ago(now, then time.Time) string {
	if ahead := then.Sub(now); ahead > 5*time.Second {
		return duration.HumanDuration(ahead) + " ahead of this clock"
	}
	return Age(now, then) + " ago"
}

// NumberText formats a number, or "?" if it is unknown.
func NumberText(n *int) string {
	if n == nil {
		return "?"
	}
	return strconv.Itoa(*n)
}

// RunbookHint refers to a runbook by its name.
func RunbookHint(name string) string { return "-> docs/runbooks/" + name + ".md" }

// InCore says in which of several core clusters something is.
func InCore(name string) string {
	if name == "" {
		return ""
	}
	return fmt.Sprintf(" in core %q", name)
}
