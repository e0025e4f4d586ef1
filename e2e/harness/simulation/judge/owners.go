package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/apiserver"
	"github.com/breakwater-k8s/breakwater/e2e/harness/simulation/scenario"
)

// The oracle of rule 16, which says which workload a pod is expected with:
//
//   - A controller counts pods if it has a scale. The direct controller of a pod needs no selector in its scale. Any other controller
//     needs one that selects the pod.
//   - The lowest controller that counts the pod is the one, unless that is a ReplicaSet whose controller counts the pods of the set.
//   - Nothing above that is a number of pods.
//
// A protector that names a workload covers the pods that the scale of the workload selects. What a status says of it must have been true
// since the previous count, and is true in a calm.

// controllerObject is an object that controls pods or workloads.
type controllerObject struct {
	name workloadName
	// controller is the UID of its own controller; empty for none.
	controller types.UID
	hasScale   bool
	// selector is the selector in its scale.
	selector map[string]string
	// setLabels are the labels of the pods of a ReplicaSet; nil for any other kind.
	setLabels map[string]string
}

// newController returns an object that controls pods or workloads; nil for an object of another kind.
func newController(kind string, object client.Object) *controllerObject {
	o := &controllerObject{name: workloadName{kind, client.ObjectKeyFromObject(object)}, hasScale: true}
	if ref := metav1.GetControllerOf(object); ref != nil {
		o.controller = ref.UID
	}
	switch object := object.(type) {
	case *appsv1.Deployment:
		o.selector = object.Spec.Selector.MatchLabels
	case *appsv1.StatefulSet:
		o.selector = object.Spec.Selector.MatchLabels
	case *appsv1.ReplicaSet:
		o.selector = object.Spec.Selector.MatchLabels
		o.setLabels = o.selector
	case *apiserver.Operated:
		o.hasScale = slices.Contains([]string{apiserver.KindRollout, apiserver.KindDatabase, apiserver.KindClusterDatabase, apiserver.KindPodSet}, kind)
		o.selector = parseLabels(object.Status.Selector)
	default:
		if kind != apiserver.Application().Kind {
			return nil
		}
		o.hasScale = false
	}
	return o
}

// parseLabels parses a selector that has labels only; nil for an empty one.
func parseLabels(selector string) map[string]string {
	var labels map[string]string
	for part := range strings.SplitSeq(selector, ",") {
		if key, value, ok := strings.Cut(part, "="); ok {
			if labels == nil {
				labels = map[string]string{}
			}
			labels[key] = value
		}
	}
	return labels
}

// countsPodsWith reports whether the scale of the object selects pods with these labels.
func (o *controllerObject) countsPodsWith(labels map[string]string) bool {
	return o != nil && o.hasScale && o.selector != nil && hasLabels(labels, o.selector)
}

func hasLabels(labels, wanted map[string]string) bool {
	for key, value := range wanted {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// workloadOf returns the workload that a pod is expected with. chain has the objects that lead from the pod to it.
func (t *workloadHistories) workloadOf(pod *corev1.Pod) (name workloadName, chain []*controllerObject, ok bool) {
	owner := metav1.GetControllerOf(pod)
	if owner == nil {
		return name, nil, false
	}
	for at := t.objects[owner.UID]; at != nil; at = t.objects[at.controller] {
		chain = append(chain, at)
		if isDirect := len(chain) == 1; !at.hasScale || !isDirect && !at.countsPodsWith(pod.Labels) {
			continue
		}
		if upper := t.objects[at.controller]; at.setLabels != nil && upper.countsPodsWith(at.setLabels) {
			return upper.name, append(chain, upper), true
		}
		return at.name, chain, true
	}
	return name, nil, false
}

// isLeftoverOf reports whether a pod's controller had a name, and was deleted before the pod was created.
func (t *workloadHistories) isLeftoverOf(pod *corev1.Pod, name workloadName) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && t.objects[owner.UID] == nil && name == workloadName{owner.Kind, scenario.KeyOf(owner.Kind, pod.Namespace, owner.Name)}
}

// hasExistedSince reports whether objects of the names in a chain have existed all the time since from.
func (t *workloadHistories) hasExistedSince(chain []*controllerObject, from time.Time) bool {
	return !slices.ContainsFunc(chain, func(o *controllerObject) bool { return t.byName[o.name].wasMissingSince(from) })
}

// sizeOf returns how many pods an object wants by its own number; notCounted if that is no number of pods.
func (t *workloadHistories) sizeOf(o *controllerObject, object client.Object) int {
	if !o.hasScale || o.setLabels != nil && t.objects[o.controller].countsPodsWith(o.setLabels) {
		return notCounted
	}
	return scenario.ReplicasOf(object)
}

// isUncounted reports whether an object that exists is expected although no pod is expected with it. A pod of a deleted workload is expected with the
// one that has its name now.
func (t *cellHistory) isUncounted(name workloadName) bool {
	truth := t.workloads.byName[name]
	if truth == nil || !truth.current().exists || name.kind == scenario.KindReplicaSet {
		return false // a ReplicaSet whose controller was deleted is a workload of its own
	}
	for era := range t.restores + 1 {
		for _, line := range t.podsOf(era) {
			pod := line.states[0].pod
			if counted, _, ok := t.workloads.workloadOf(pod); ok && counted == name || t.workloads.isLeftoverOf(pod, name) {
				return false
			}
		}
	}
	return true
}

// isTarget reports whether a protector names a workload.
func (w *watchedProtector) isTarget() bool { return w.stored.Spec.TargetRef != nil }

func (w *watchedProtector) targetName() workloadName {
	return workloadName{w.stored.Spec.TargetRef.Kind, types.NamespacedName{Namespace: w.stored.Namespace, Name: w.stored.Spec.TargetRef.Name}}
}

// targetSelectors returns the selectors of the workload that a protector names, by cell, as its status has them.
func targetSelectors(p *v1alpha1.PodProtector) map[string]string {
	selectors := map[string]string{}
	if p == nil || p.Spec.TargetRef == nil {
		return selectors
	}
	for i := range p.Status.Cells {
		if a := &p.Status.Cells[i].Aggregation; a.Target != nil && isCounted(p, a) {
			selectors[p.Status.Cells[i].CellID] = a.Target.Selector
		}
	}
	return selectors
}

// selectsTarget reports whether a pod is one of the workload that a protector names, by the selector in the status.
func (w *watchedProtector) selectsTarget(pod *corev1.Pod) bool {
	selector, ok := targetSelectors(w.stored)[w.podCells[pod.UID]]
	return ok && hasLabels(pod.Labels, parseLabels(selector))
}

// judgeTarget judges what a write says of the workload that a protector names, in a cell: its selector and number were true at some time
// since the previous count.
func (j *aggregationJudge) judgeTarget(w *watchedProtector, cell, before *v1alpha1.PodProtectorCell) {
	if !w.isTarget() {
		return
	}
	is, was := cell.Aggregation.Target, before.Aggregation.Target
	truth := j.history.cells[cell.CellID].workloads.byName[w.targetName()]
	if is == nil || truth == nil || was != nil && is.UID == was.UID && is.Selector == was.Selector && is.Replicas == was.Replicas {
		return
	}
	var had []string
	for _, s := range truth.since(j.previousCount(w, cell, before)) {
		if s.uid == is.UID && s.selector == is.Selector && s.size == int(is.Replicas) {
			return
		}
		had = append(had, fmt.Sprintf("%d of %q", s.size, s.selector))
	}
	j.report.fail("protector %s covers %d pods of %q in %s, and the workload that it names has had %v since", w.name(), is.Replicas, is.Selector,
		cell.CellID, had)
}

// targetProblem returns why the status of a protector that names a workload does not match the workload yet; "" if it does.
func (cv *Convergence) targetProblem(core string, p *v1alpha1.PodProtector) string {
	cv.Judge.mu.Lock()
	defer cv.Judge.mu.Unlock()
	w := cv.Judge.history.protectors[protectorKey{core, client.ObjectKeyFromObject(p)}]
	if w == nil || !w.isTarget() {
		return ""
	}
	for i := range p.Status.Cells {
		cell := &p.Status.Cells[i]
		truth, target := cv.Judge.history.cells[cell.CellID].workloads.byName[w.targetName()], cell.Aggregation.Target
		switch {
		case truth == nil || !truth.current().exists:
			if target != nil && !target.Gone {
				return fmt.Sprintf("protector %s covers the pods of %s, which does not exist in %s", p.Name, target.UID, cell.CellID)
			}
		case target == nil || target.Gone || target.Selector != truth.current().selector || int(target.Replicas) != truth.current().size:
			return fmt.Sprintf("protector %s covers %+v in %s, and the workload that it names has %d pods of %q: %s", p.Name, target, cell.CellID,
				truth.current().size, truth.current().selector, cell.Aggregation.TargetProblem)
		}
	}
	return ""
}
