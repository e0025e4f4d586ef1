package guard

import "context"

// Check is a check for ignored labels. It returns how many workloads it found.
func (l *IgnoredLabels) Check(ctx context.Context) int {
	l.check(ctx)
	return len(l.found)
}
