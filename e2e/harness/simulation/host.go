package simulation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// host is a manager that simply starts and stops its runnables. The manager of controller-runtime spins when it is stopped before it has
// started, and a spin never ends in virtual time.
type host struct {
	manager.Manager
	parts []manager.Runnable
}

// Add implements manager.Manager.
func (h *host) Add(part manager.Runnable) error {
	h.parts = append(h.parts, part)
	return nil
}

// GetEventRecorder implements manager.Manager. The simulation does not read events.
func (*host) GetEventRecorder(string) recorder.EventRecorder { return silent{} }

// Start implements manager.Manager. It returns when all runnables have ended.
func (h *host) Start(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var running sync.WaitGroup
	start := func(run func(context.Context) error) {
		running.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	start(h.GetCache().Start)
	// Runnables start even if ctx has ended, so that they end the goroutines that began when they were created.
	h.GetCache().WaitForCacheSync(ctx)
	for _, part := range h.parts {
		start(part.Start)
	}
	<-ctx.Done()
	running.Wait()
	if err := context.Cause(ctx); err != context.Canceled { //nolint:errorlint // the cause itself
		return err
	}
	return nil
}

// silentCluster is a cluster that discards events.
type silentCluster struct {
	cluster.Cluster
}

func (silentCluster) GetEventRecorder(string) recorder.EventRecorder { return silent{} }

type silent struct{}

func (silent) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {}

func (silent) AnnotatedEventf(runtime.Object, runtime.Object, map[string]string, string, string, string, string, ...any) {
}
