package play

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
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

// skewedClockManager is a manager whose clients write Leases with the wall clock of the process. That clock may be wrong, and no decision may depend
// on it.
type skewedClockManager struct {
	manager.Manager
	skew func() time.Duration
}

// GetConfig implements manager.Manager.
func (m skewedClockManager) GetConfig() *rest.Config {
	config := rest.CopyConfig(m.Manager.GetConfig())
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return skewedLeaseTransport{inner, m.skew} })
	return config
}

type skewedLeaseTransport struct {
	http.RoundTripper
	skew func() time.Duration
}

// RoundTrip implements http.RoundTripper.
func (s skewedLeaseTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Body == nil || !strings.Contains(request.URL.Path, "/leases") {
		return s.RoundTripper.RoundTrip(request)
	}
	lease := &coordinationv1.Lease{}
	if err := json.NewDecoder(request.Body).Decode(lease); err != nil {
		return nil, fmt.Errorf("decode the Lease to write: %w", err)
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: lease.Spec.RenewTime.Add(s.skew())}
	body, err := json.Marshal(lease)
	if err != nil {
		return nil, fmt.Errorf("encode the Lease: %w", err)
	}
	request = request.Clone(request.Context())
	request.Body, request.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return s.RoundTripper.RoundTrip(request)
}

// withSeededWatchTimeouts makes the informers of a process use watch timeouts that depend on the seed. client-go draws them from a source that all
// goroutines share.
//
// It also drains watches of metadata when they stop. The watches of controller-runtime pass a filter of apimachinery, which leaks a
// goroutine if it has an event at the instant at which its reader leaves. No bubble of testing/synctest ends before its last goroutine.
func (p *process) withSeededWatchTimeouts(options cache.Options) cache.Options {
	inner := options.NewInformer
	options.NewInformer = func(
		source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
	) toolscache.SharedIndexInformer {
		_, isMetadata := object.(*metav1.PartialObjectMetadata)
		name := fmt.Sprintf("%s watches %T %s", p.name, object, object.GetObjectKind().GroupVersionKind().Kind)
		from := toolscache.ToListerWatcherWithContext(source)
		return inner(&toolscache.ListWatch{
			ListWithContextFunc: from.ListWithContext,
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				if options.TimeoutSeconds != nil {
					seconds := int64(p.env.dice.Between(minWatchTimeout, 2*minWatchTimeout, name).Seconds())
					options.TimeoutSeconds = &seconds
				}
				stream, err := from.WatchWithContext(ctx, options)
				if err != nil || !isMetadata {
					return stream, err
				}
				return drainedWatch{stream}, nil
			},
		}, object, resync, indexers)
	}
	return options
}

// minWatchTimeout is the shortest watch timeout of client-go.
const minWatchTimeout = 5 * time.Minute

type drainedWatch struct{ watch.Interface }

// Stop implements watch.Interface.
func (d drainedWatch) Stop() {
	d.Interface.Stop()
	go func() {
		for range d.ResultChan() {
		}
	}()
}
