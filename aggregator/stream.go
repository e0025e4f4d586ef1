package aggregator

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// streamBackoff is how the stream comes back after its apiserver was away: soon, since budget that returned is
// of no use until it does.
var streamBackoff = wait.Backoff{ //nolint:gochecknoglobals // a constant in all but the language's sense
	Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 5, Jitter: 0.5,
}

// newStream returns what keeps the snapshot up to date until its context ends.
func newStream(cell kubernetes.Interface, snapshot *Snapshot, log logr.Logger) *cache.Reflector {
	pods := cell.CoreV1().Pods(metav1.NamespaceAll)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return pods.List(ctx, consistent(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, consistent(options))
		},
	}
	return cache.NewReflectorWithOptions(source, &corev1.Pod{}, snapshot, cache.ReflectorOptions{
		Name: "pods", Logger: &log, Backoff: &streamBackoff,
	})
}

// consistent asks for the newest state where a reflector is content with any old one: a list from a cache that
// lags would count pods whose removal a former leader has settled.
func consistent(options metav1.ListOptions) metav1.ListOptions {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
		options.ResourceVersionMatch = ""
	}
	return options
}
