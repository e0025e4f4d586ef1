package simulation

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/recorder"
)

// runnableManager is a manager that simply starts and stops its runnables. The manager of controller-runtime spins when it is stopped before it has
// started, and a spin never ends in virtual time.
type runnableManager struct {
	manager.Manager
	runnables []manager.Runnable
}

// Add implements manager.Manager.
func (h *runnableManager) Add(runnable manager.Runnable) error {
	h.runnables = append(h.runnables, runnable)
	return nil
}

// GetEventRecorder implements manager.Manager. The simulation does not read events.
func (*runnableManager) GetEventRecorder(string) recorder.EventRecorder { return discardingRecorder{} }

// Start implements manager.Manager. It returns when all runnables have ended.
func (h *runnableManager) Start(ctx context.Context) error {
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
	for _, part := range h.runnables {
		start(part.Start)
	}
	<-ctx.Done()
	running.Wait()
	if err := context.Cause(ctx); err != context.Canceled { //nolint:errorlint // the cause itself
		return err
	}
	return nil
}

// eventDiscardingCluster is a cluster that discards events.
type eventDiscardingCluster struct {
	cluster.Cluster
}

func (eventDiscardingCluster) GetEventRecorder(string) recorder.EventRecorder {
	return discardingRecorder{}
}

type discardingRecorder struct{}

func (discardingRecorder) Eventf(runtime.Object, runtime.Object, string, string, string, string, ...any) {
}

func (discardingRecorder) AnnotatedEventf(runtime.Object, runtime.Object, map[string]string, string, string, string, string, ...any) {
}
