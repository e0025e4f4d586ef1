package simulation

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

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
