package guard

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/metadata"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
)

const (
	// ignoredLabelsInterval is the time between two checks for ignored labels.
	ignoredLabelsInterval = time.Minute
	// checksPerEvent is after how many checks the event on a workload is emitted again: API servers delete events after an hour.
	checksPerEvent = 60
)

// IgnoredLabels emits events on workloads in the cluster of the cell that request protection by their label, although generators read it in
// core clusters only, and no PodProtector is for them. If the cluster is also a core, its generator creates one.
type IgnoredLabels struct {
	Objects    metadata.Interface
	Protectors toolscache.Store
	Recorder   events.EventRecorder
	// Has reports whether the aggregator counts pods of a namespace.
	Has func(namespace string) bool
	Log logr.Logger
	// found is in how many checks each workload was found before. The first may precede its generator.
	found map[types.UID]int
}

// Run checks periodically until ctx ends. It may be called for nil, which checks nothing.
func (l *IgnoredLabels) Run(ctx context.Context) {
	if l == nil {
		return
	}
	_ = wait.PollUntilContextCancel(ctx, ignoredLabelsInterval, false, func(ctx context.Context) (bool, error) { // it ends with ctx
		l.check(ctx)
		return false, nil
	})
}

// check emits an event on each workload that the check before found, too, unless that was emitted in the last hour.
func (l *IgnoredLabels) check(ctx context.Context) {
	sources := map[policy.Ref]bool{}
	for _, stored := range l.Protectors.List() {
		if source, _, ok := policy.SourceOf(stored.(*v1alpha1.PodProtector)); ok {
			sources[source] = true
		}
	}
	found := map[types.UID]int{}
	kinds := slices.SortedFunc(maps.Keys(policy.BuiltIn()), func(a, b schema.GroupVersionKind) int { return cmp.Compare(a.Kind, b.Kind) })
	for _, kind := range kinds {
		plural, _ := meta.UnsafeGuessKindToResource(kind)
		// A list from the watch cache of the API server is recent enough.
		list, err := l.Objects.Resource(plural).List(ctx, metav1.ListOptions{LabelSelector: v1alpha1.LabelProtect + "=true", ResourceVersion: "0"})
		if err != nil {
			l.Log.V(1).Info("Failed to list workloads that request protection", "kind", kind.Kind, "error", err.Error())
			continue
		}
		for i := range list.Items {
			workload := &list.Items[i]
			ref := policy.Ref{Group: kind.Group, Kind: kind.Kind, Namespace: workload.Namespace, Name: workload.Name}
			if sources[ref] || !l.Has(workload.Namespace) || metav1.GetControllerOfNoCopy(workload) != nil {
				continue
			}
			n := l.found[workload.UID]
			found[workload.UID] = n + 1
			if n%checksPerEvent == 1 {
				l.emit(kind, workload)
			}
		}
	}
	l.found = found
}

func (l *IgnoredLabels) emit(kind schema.GroupVersionKind, workload *metav1.PartialObjectMetadata) {
	workload.SetGroupVersionKind(kind)
	l.Recorder.Eventf(workload, nil, corev1.EventTypeWarning, v1alpha1.ReasonIgnoredLabel, "Count", "%s", clusters.EventNote(fmt.Sprintf(
		"The label %s=true has no effect here: generators read it in the core cluster, where no PodProtector is for this %s. "+
			"Create the %s with the label there, too, or create a PodProtector there.", v1alpha1.LabelProtect, kind.Kind, kind.Kind)))
}
