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
	"k8s.io/client-go/tools/pager"

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
			history.BeginList()
			listed, err := listStripped(ctx, options, stripping(s.SinceCreation()), limit.WrapList(s.filter.filterList(history.WrapList(pods.List))))
			history.EndList(err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return history.Watch(ctx, options, limit.WrapWatch(s.filter.filterWatch(pods.Watch)))
		},
	}
	cache.NewReflectorWithOptions(source, &corev1.Pod{}, s, cache.ReflectorOptions{Name: "pods", Logger: &log, Backoff: &streamBackoff}).RunWithContext(ctx)
}

// listPage is the page size of a list: the number of whole pods that are in memory at a time.
const listPage = 250

// listStripped lists pods page by page and strips each page before it requests the next. All pages have the version of the
// first, which is always the newest (rule 5). A reflector that lists again requests a version that is not older than its last one,
// but an API server serves that from its cache, which has no pages.
func listStripped(
	ctx context.Context, options metav1.ListOptions, strip func(*corev1.Pod) *pod,
	list func(context.Context, metav1.ListOptions) (*corev1.PodList, error),
) (runtime.Object, error) {
	pages := pager.New(func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
		whole, err := list(ctx, options)
		if err != nil {
			return nil, err
		}
		page := &internalversion.List{ListMeta: whole.ListMeta, Items: make([]runtime.Object, 0, len(whole.Items))}
		for i := range whole.Items {
			page.Items = append(page.Items, strip(&whole.Items[i]))
		}
		return page, nil
	})
	options.ResourceVersion, options.ResourceVersionMatch = "", ""
	options.Limit = listPage
	listed, _, err := pages.List(ctx, options)
	return listed, err
}
