package clusters

import (
	"context"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/cache"
)

// CacheOptions returns the options of all caches of core clusters. They leave out managed fields. They retry an API server that is
// unreachable every two seconds. client-go would wait for up to a minute. In that time a webhook would not see new protectors, and would
// admit removals that they deny.
func CacheOptions() cache.Options { return CacheOptionsOf(nil) }

// CacheOptionsOf returns the options of a cache that reports restores of its core to detector. A nil detector disables the detection.
func CacheOptionsOf(detector *RestoreDetector) cache.Options {
	return cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer: func(
			source toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers,
		) toolscache.SharedIndexInformer {
			return toolscache.NewSharedIndexInformer(retrying(source, detector), object, resync, indexers)
		},
	}
}

// Retrying lists and watches a source, and retries while its API server does not answer.
func Retrying(source toolscache.ListerWatcher) *toolscache.ListWatch { return retrying(source, nil) }

// retrying also reports restores of the source to detector. A nil detector disables the detection.
func retrying(source toolscache.ListerWatcher, detector *RestoreDetector) *toolscache.ListWatch {
	from := toolscache.ToListerWatcherWithContext(source)
	return &toolscache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return retryUntilAnswered(ctx, func() (runtime.Object, error) {
				if detector == nil {
					return from.ListWithContext(ctx, options)
				}
				mark := detector.Mark()
				// Read the newest state: a state from a watch cache that lags would look like a restored core.
				options.ResourceVersion, options.ResourceVersionMatch = "", ""
				list, err := from.ListWithContext(ctx, options)
				if err == nil {
					detector.observeList(mark, list)
				}
				return list, err
			})
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return retryUntilAnswered(ctx, func() (watch.Interface, error) {
				if detector == nil {
					return from.WatchWithContext(ctx, options)
				}
				initial := options.SendInitialEvents != nil && *options.SendInitialEvents
				mark := detector.markOf(options.ResourceVersion)
				if initial {
					options.ResourceVersion, mark = "", detector.Mark()
				}
				w, err := from.WatchWithContext(ctx, options)
				if err != nil {
					return nil, err
				}
				return detector.observeWatch(mark, w, initial), nil
			})
		},
	}
}

// retryUntilAnswered retries request until the API server answers, be it with an error, or until ctx ends.
func retryUntilAnswered[Answer any](ctx context.Context, request func() (Answer, error)) (answer Answer, err error) {
	delay := wait.Backoff{Duration: 200 * time.Millisecond, Factor: 2, Steps: 4, Cap: 2 * time.Second, Jitter: 0.2}.DelayFunc()
	for logged := false; ; logged = true {
		answer, err = request()
		if err == nil || isAnswer(err) {
			return answer, err
		}
		if !logged {
			klog.FromContext(ctx).Info("API server unreachable; retrying", "error", err.Error())
		}
		select {
		case <-time.After(delay()):
		case <-ctx.Done():
			return answer, err
		}
	}
}

// isAnswer reports whether an error is a decision of the API server, as opposed to a server that is unreachable, starting or overloaded.
func isAnswer(err error) bool {
	switch reason := apierrors.ReasonForError(err); reason {
	case metav1.StatusReasonUnknown, metav1.StatusReasonServiceUnavailable, metav1.StatusReasonInternalError,
		metav1.StatusReasonTimeout, metav1.StatusReasonServerTimeout, metav1.StatusReasonTooManyRequests:
		return false
	default:
		return true
	}
}
