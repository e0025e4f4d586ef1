package chaos

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/e2e/harness/storm"
)

// revision is one pod as an etcd stored it; Pod is nil when the revision removed it.
type revision struct {
	Number int64
	Key    string
	Pod    *corev1.Pod
}

// Fact is one change of a pod's availability that a cell stored. Times count from the start of a scenario.
type Fact struct {
	Change   storm.Change
	UID      types.UID
	Pod      string
	Revision int64
	// Earliest and Latest bound when it was stored.
	Earliest, Latest time.Duration
}

// Truth is the history of one cell: the pods that were available at first, then every change in its order.
type Truth struct {
	Cell     string
	Baseline []types.UID
	Facts    []Fact
}

// available reports whether a protector counts the pod by the criterion Available without minReadySeconds. It is an independent
// implementation and not taken from the product, so that both are not wrong in the same way.
func available(pod *corev1.Pod) bool {
	if pod == nil || pod.DeletionTimestamp != nil || pod.Spec.NodeName == "" || pod.Status.Phase != corev1.PodRunning {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// replay converts the revisions that a cell stored into facts. The time bounds of a fact are those of its revision. replay also returns
// the last state of the pods.
func replay(
	cell string, first, later []revision, when func(revision int64) (earliest, latest time.Duration),
) (truth Truth, pods map[string]*corev1.Pod) {
	truth, pods = Truth{Cell: cell}, map[string]*corev1.Pod{}
	for _, r := range first {
		pods[r.Key] = r.Pod
		if available(r.Pod) {
			truth.Baseline = append(truth.Baseline, r.Pod.UID)
		}
	}
	for _, r := range later {
		before := pods[r.Key]
		if before != nil && r.Pod != nil && before.UID != r.Pod.UID {
			before = nil // etcd reported the end of the old pod before
		}
		pods[r.Key] = r.Pod
		change, pod, ok := changeOf(before, r.Pod)
		if !ok {
			continue
		}
		fact := Fact{Change: change, UID: pod.UID, Pod: pod.Name, Revision: r.Number}
		fact.Earliest, fact.Latest = when(r.Number)
		truth.Facts = append(truth.Facts, fact)
	}
	return truth, pods
}

func changeOf(before, after *corev1.Pod) (storm.Change, *corev1.Pod, bool) {
	switch {
	case available(before) == available(after):
		return 0, nil, false
	case available(after):
		return storm.Gained, after, true
	case after == nil || after.DeletionTimestamp != nil:
		return storm.Removed, before, true
	}
	// No client deleted it: it failed, or its node did. That is no removal.
	return storm.Dropped, before, true
}

// stream returns the truth in the form that the judge of storms reads.
func (t Truth) stream() storm.Stream {
	s := storm.Stream{Cell: t.Cell, Baseline: len(t.Baseline)}
	for _, f := range t.Facts {
		s.Events = append(s.Events, storm.Event{Change: f.Change, Pod: f.Pod, Earliest: f.Earliest, Seen: f.Latest})
	}
	return s
}
