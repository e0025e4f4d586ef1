package kind

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/harness/federation"
)

// StartForTest starts a federation for a test and stops it when the test ends, also on a signal, which skips the test's cleanup.
func StartForTest(tb testing.TB, topology *federation.Topology, options Options) *Federation {
	tb.Helper()
	ctx, forget := signal.NotifyContext(tb.Context(), os.Interrupt, syscall.SIGTERM)
	f, err := Start(ctx, topology, options)
	if isInterrupted(ctx, tb) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	} else if err != nil {
		forget()
		tb.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		select {
		case <-ended:
		case <-ctx.Done():
			if isInterrupted(ctx, tb) {
				_ = f.Stop(context.Background()) // the test is gone and cannot report it
				os.Exit(1)
			}
		}
	}()
	tb.Cleanup(func() {
		close(ended)
		forget()
		if err := f.Stop(context.WithoutCancel(tb.Context())); err != nil {
			tb.Error(err)
		}
	})
	return f
}

// isInterrupted reports whether a signal, and not the end of the test, ended ctx.
func isInterrupted(ctx context.Context, tb testing.TB) bool {
	return ctx.Err() != nil && tb.Context().Err() == nil
}
