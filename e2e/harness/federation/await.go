package federation

import (
	"context"
	"fmt"
	"time"
)

// Await calls check until it returns nil. When ctx ends first, the error has the cause and the last error of check.
func Await(ctx context.Context, pause time.Duration, description string, check func(context.Context) error) error {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		// The error of an interrupted check is less useful than the one before.
		if ctx.Err() == nil || last == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last seen: %w)", description, context.Cause(ctx), last)
		case <-ticker.C:
		}
	}
}
