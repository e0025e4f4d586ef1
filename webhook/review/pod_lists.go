package review

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// listFrom is the number of verifications under way with one protector of a cell from which a list is cheaper than a read of each pod.
	listFrom = 8
	// listTTL is how long a list counts, from the start of its request.
	listTTL = time.Second
	// failedListTTL is how long the webhook does not list again after an error, for example because it may not list pods.
	failedListTTL = time.Minute
	// maxListedPods limits the pods of one list: a pod takes about a kilobyte.
	maxListedPods = 2000
	// podsPerRead is how many pods of a list cost the API server as much as one read.
	podsPerRead = 32
)

// podLists are recent lists of the pods of protectors. In a storm, one list verifies the removals of a second, which would otherwise
// cost a read each. It is safe for concurrent use.
type podLists struct {
	reading singleflight.Group

	mu       sync.Mutex
	byTarget map[listTarget]*podList
}

// listTarget is what a list contains: the pods of a protector in a cell.
type listTarget struct {
	cell, core string
	protector  types.NamespacedName
}

// podList is the last list of the pods of a protector.
type podList struct {
	underWay atomic.Int32
	// result is nil before the first list.
	result atomic.Pointer[listResult]
}

// listResult has the labels of pods by UID, as of a request that began at a time; nil if it failed.
type listResult struct {
	began  time.Time
	labels map[types.UID]map[string]string
}

// begin returns the list for a removal, and counts it as under way until end is called. It is nil if no protector of the removal has a
// list: its selector is unknown, or it has too many pods.
func (l *podLists) begin(cell string, charges []removal.Charge) (list *podList, charge removal.Charge, end func()) {
	for _, c := range charges {
		counted := quota.CellOf(c.Protector, cell)
		if counted == nil || counted.Aggregation.TotalReplicas > maxListedPods || selectorIn(cell, c.Protector) == nil {
			continue
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.byTarget == nil {
			l.byTarget = map[listTarget]*podList{}
		}
		target := listTarget{cell, c.Core, c.Key}
		list := l.byTarget[target]
		if list == nil {
			list = &podList{}
			l.byTarget[target] = list
		}
		list.underWay.Add(1)
		return list, c, func() { l.end(target, list) }
	}
	return nil, removal.Charge{}, func() {}
}

// end forgets a list that no removal needs any more. A failed one stays, so that it is not repeated.
func (l *podLists) end(target listTarget, list *podList) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if list.underWay.Add(-1) > 0 {
		return
	}
	if result := list.result.Load(); result == nil || !result.isFresh() {
		delete(l.byTarget, target)
	}
}

// isFresh reports whether a list still counts or, if it failed, must not be repeated yet.
func (r *listResult) isFresh() bool {
	ttl := listTTL
	if r.labels == nil {
		ttl = failedListTTL
	}
	return time.Since(r.began) < ttl
}

// free frees the memory of a result that no longer counts. A failed one stays, so that it is not repeated.
func (l *podList) free(result *listResult) {
	if result.labels != nil {
		l.result.CompareAndSwap(result, nil)
	}
}

// shows reports whether a recent list has the pod of a removal, with the same UID and labels. If enough removals need it, it lists.
func (v *verifier) shows(ctx context.Context, cell string, r removal.Request, charges []removal.Charge) bool {
	list, charge, end := v.lists.begin(cell, charges)
	defer end()
	if list == nil {
		return false
	}
	result := list.result.Load()
	if result == nil || !result.isFresh() {
		if list.underWay.Load() < listFrom {
			return false
		}
		result = v.list(ctx, cell, charge, list)
	}
	labels, ok := result.labels[r.Pod.UID]
	return ok && maps.Equal(labels, r.Pod.Labels)
}

// list lists the pods of a protector, once for all callers that wait for it. The result has no pods if the cell does not answer, or the
// limit of reads does not allow it.
func (v *verifier) list(ctx context.Context, cell string, c removal.Charge, list *podList) *listResult {
	name := cell + "/" + c.String()
	got, _, _ := v.lists.reading.Do(name, func() (any, error) {
		if result := list.result.Load(); result != nil && result.isFresh() {
			return result, nil // another caller has just listed
		}
		result := &listResult{began: time.Now()}
		cost := 1 + int(quota.CellOf(c.Protector, cell).Aggregation.TotalReplicas)/podsPerRead
		if !v.limit(cell).AllowN(result.began, cost) {
			return result, nil
		}
		pods, err := v.readList(ctx, cell, c)
		if err == nil {
			result.labels = make(map[types.UID]map[string]string, len(pods.Items))
			for i := range pods.Items {
				result.labels[pods.Items[i].UID] = pods.Items[i].Labels
			}
		}
		if err == nil || ctx.Err() == nil {
			list.result.Store(result)
			time.AfterFunc(listTTL, func() { list.free(result) })
		}
		return result, nil
	})
	result, _ := got.(*listResult)
	return result
}

// readList lists the metadata of the pods of a protector from the watch cache of the API server.
func (v *verifier) readList(ctx context.Context, cell string, c removal.Charge) (*metav1.PartialObjectMetadataList, error) {
	objects, err := v.cells.metadata(cell)
	if err != nil {
		return nil, err
	}
	selector, err := metav1.LabelSelectorAsSelector(selectorIn(cell, c.Protector).LabelSelector())
	if err != nil {
		return nil, err
	}
	return podsOf(objects, c.Key.Namespace).List(ctx, metav1.ListOptions{ResourceVersion: "0", LabelSelector: selector.String()})
}

func podsOf(objects metadata.Interface, namespace string) metadata.ResourceInterface {
	return objects.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(namespace)
}
