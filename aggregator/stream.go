package aggregator

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
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/pager"
)

// streamBackoff is how the stream comes back after its apiserver was away: soon, since budget that returned is
// of no use until it does.
var streamBackoff = wait.Backoff{ //nolint:gochecknoglobals // a constant in all but the language's sense
	Duration: 200 * time.Millisecond, Factor: 2, Cap: 3 * time.Second, Steps: 5, Jitter: 0.5,
}

// newStream returns what keeps the snapshot up to date until its context ends. It watches all pods of the cluster also for
// a cell that has only some of them: several watches are not of one version, and one by a selector calls a pod deleted that
// has only other labels now.
//
// The reflector streams the first list too (sendInitialEvents), which starts at the newest version when none is
// asked for, and strips its pods one by one; see Snapshot.Transformer. From an apiserver that cannot do that it
// takes listStripped, and watches from there.
func newStream(cell kubernetes.Interface, snapshot *Snapshot, log logr.Logger) *cache.Reflector {
	pods, past := cell.CoreV1().Pods(metav1.NamespaceAll), &continuity{now: time.Now}
	most := newCeiling("pods", podsCeiling)
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			past.listing()
			listed, err := listStripped(ctx, options, stripping(snapshot.sinceBegan()), most.pages(snapshot.own(past.pages(pods.List))))
			past.listed(err)
			return listed, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return past.watch(ctx, options, most.watch(snapshot.narrow(pods.Watch)))
		},
	}
	return cache.NewReflectorWithOptions(source, &corev1.Pod{}, snapshot, cache.ReflectorOptions{
		Name: "pods", Logger: &log, Backoff: &streamBackoff,
	})
}

// listPage is the number of whole pods that are in memory at a time while they are listed.
const listPage = 250

// listStripped lists pods page by page and strips each page before it asks for the next. All pages are of the
// version of the first, which is always the newest: a reflector that lists again asks for one that is not older
// than what it knows, but an apiserver answers that from its cache, which has no pages.
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
