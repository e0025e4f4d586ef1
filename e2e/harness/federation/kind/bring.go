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

// Bring starts a federation for a test, and stops it when the test ends: also by a signal, which ends no test in order.
func Bring(tb testing.TB, topology *federation.Topology, options Options) *Federation {
	tb.Helper()
	ctx, forget := signal.NotifyContext(tb.Context(), os.Interrupt, syscall.SIGTERM)
	f, err := Start(ctx, topology, options)
	if interrupted(ctx, tb) {
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
			if interrupted(ctx, tb) {
				_ = f.Stop(context.Background()) // nobody is left to be told
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

// interrupted tells the end by a signal from that of the test.
func interrupted(ctx context.Context, tb testing.TB) bool {
	return ctx.Err() != nil && tb.Context().Err() == nil
}
