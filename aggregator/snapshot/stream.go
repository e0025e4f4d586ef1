package snapshot

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/breakwater-k8s/breakwater/aggregator/stream"
)

// streamBackoff is the retry backoff of the stream after its API server was unreachable. It is short because returned
// budget cannot be used until the stream resumes.
var streamBackoff = wait.Backoff{ //nolint:gochecknoglobals // effectively a constant
	Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 5, Jitter: 0.5,
}

// Stream keeps the snapshot up to date until ctx ends. It watches all pods of the
// cluster even for a cell that has only some of them. Several watches are not at one version, and a watch by a selector
// reports a pod as deleted when only its labels have changed.
//
// The reflector also streams the first list (sendInitialEvents), which starts at the newest version if none is requested,
// and strips its pods one by one; see Snapshot.Transformer. With an API server that cannot do that it uses listStripped,
// and watches from there.
func (s *Snapshot) Stream(ctx context.Context, cell corev1client.PodsGetter, log logr.Logger) {
	pods, history := cell.Pods(metav1.NamespaceAll), &stream.Continuity{Now: time.Now}
	limit := stream.NewMemoryLimit("pods", stream.PodsLimitBytes)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return listStripped(ctx, options, history, limit, stripping(s.SinceCreation()), s.filter.filterList(pods.List))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return history.Watch(ctx, options, limit.WrapWatch(s.filter.filterWatch(pods.Watch)))
		},
	}
	cache.NewReflectorWithOptions(source, &corev1.Pod{}, s, cache.ReflectorOptions{Name: "pods", Logger: &log, Backoff: &streamBackoff}).RunWithContext(ctx)
}

// listStripped lists pods page by page and strips each page before it requests the next.
func listStripped(
	ctx context.Context, options metav1.ListOptions, history *stream.Continuity, limit *stream.MemoryLimit, strip func(*corev1.Pod) *pod,
	list func(context.Context, metav1.ListOptions) (*corev1.PodList, error),
) (runtime.Object, error) {
	return stream.List(ctx, options, history, limit, func(ctx context.Context, options metav1.ListOptions) (runtime.Object, []metav1.Object, error) {
		whole, err := list(ctx, options)
		if err != nil {
			return nil, nil, err
		}
		page, objects := &internalversion.List{ListMeta: whole.ListMeta}, make([]metav1.Object, len(whole.Items))
		for i := range whole.Items {
			page.Items = append(page.Items, strip(&whole.Items[i]))
			objects[i] = &whole.Items[i]
		}
		return page, objects, nil
	})
}
