package webhook

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

const (
	// nodeMemory is how long the taints of a node are cached. bareMemory is how long their absence is cached,
	// because a pod on a node without taints is no longer retried.
	nodeMemory, bareMemory = 5 * time.Second, 200 * time.Millisecond
	// disruptionPause is how long the webhook does not retry a pod whose eviction a PodDisruptionBudget refused. It is
	// longer than admission deadlines: more frequent attempts would keep the budget reserved all the time without a
	// removal.
	disruptionPause = 5 * time.Minute
)

// evictee is a pod whose removal by a controller was refused. The eviction of pods from tainted nodes gives up after
// five attempts and does not resume, and no event wakes the garbage collector.
type evictee struct {
	cell, namespace string
	podRef
	// isCollected reports whether the client may have been the garbage collector. Only then is it worth reading the
	// pod's owner.
	isCollected bool
}

// pause is the time until which an evictee of a protector is not retried.
type pause struct {
	protector protectorRef
	until     time.Time
}

type node struct{ cell, name string }

type taints struct {
	at  time.Time
	all []corev1.Taint
}

// evict resumes the removal of pods from tainted nodes, and of pods whose owners were deleted, as many as the budget
// allows. Each eviction requests its budget like any other.
func (n *nudger) evict(ctx context.Context, protector protectorRef, budget int) {
	for _, waits := range n.evictees.take(protector, budget) {
		e := waits.who
		if _, paused := n.paused[e]; paused {
			continue
		}
		done, err := n.evictOne(ctx, e)
		if done || err != nil {
			n.told(e.cell, "evict", err)
		}
		switch {
		case removal.IsOfDisruptionBudget(err):
			n.paused[e] = pause{protector, time.Now().Add(disruptionPause)}
		case err != nil:
			if !apierrors.IsForbidden(err) {
				n.paused[e] = pause{protector, time.Now().Add(nudgeSweep)}
			}
			n.log.V(1).Info("A pod was not evicted, which a controller had been refused to remove",
				"cell", e.cell, "namespace", e.namespace, "pod", e.name, "reason", err.Error())
		}
	}
}

// resume puts the evictees whose pause is over back on the waitlist.
func (n *nudger) resume(now time.Time) {
	for e, p := range n.paused {
		if !now.Before(p.until) {
			delete(n.paused, e)
			n.evictees.add(p.protector, e, struct{}{})
		}
	}
}

// evictOne evicts a pod if its node has a taint that the pod does not tolerate, or its owner was deleted, according to
// the cell's API server now.
func (n *nudger) evictOne(ctx context.Context, e evictee) (done bool, err error) {
	cell, err := n.reach(e.cell)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	pod, err := cell.pod(ctx, e.namespace, e.podRef)
	if err != nil || pod == nil {
		return false, err
	}
	if mustGo, err := n.mustGo(ctx, cell, e, pod); err != nil || !mustGo {
		return false, err
	}
	err = cell.client.CoreV1().Pods(e.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.namespace, Name: e.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	return err == nil, err
}

// mustGo reports whether a taint of its node expels a pod, or its owner was deleted.
func (n *nudger) mustGo(ctx context.Context, cell *nudged, e evictee, pod *corev1.Pod) (bool, error) {
	var found []corev1.Taint
	if pod.Spec.NodeName != "" {
		var err error
		if found, err = n.taintsOf(ctx, cell, node{e.cell, pod.Spec.NodeName}); err != nil {
			return false, err
		}
	}
	if isExpelled(pod, found, time.Now()) {
		return true, nil
	}
	owner := metav1.GetControllerOf(pod)
	if !e.isCollected || owner == nil {
		return false, nil
	}
	return cell.erased(ctx, e.namespace, *owner)
}

// taintsOf returns the NoExecute taints of a node.
func (n *nudger) taintsOf(ctx context.Context, cell *nudged, of node) ([]corev1.Taint, error) {
	known, memory := n.nodes[of], nodeMemory
	if len(known.all) == 0 {
		memory = bareMemory
	}
	if time.Since(known.at) < memory {
		return known.all, nil
	}
	found, err := cell.client.CoreV1().Nodes().Get(ctx, of.name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	expelling := slices.DeleteFunc(found.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	n.nodes[of] = taints{time.Now(), expelling}
	return expelling, nil
}

// isExpelled reports whether a taint expels a pod now: the pod has no toleration for it, or every such toleration has
// run out.
func isExpelled(pod *corev1.Pod, found []corev1.Taint, now time.Time) bool {
	return slices.ContainsFunc(found, func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
			if !t.ToleratesTaint(klog.Background(), &taint, true) {
				return false
			}
			return t.TolerationSeconds == nil || taint.TimeAdded != nil &&
				now.Before(taint.TimeAdded.Add(time.Duration(*t.TolerationSeconds)*time.Second))
		})
	})
}

// erased reports whether the owner of a pod was deleted, or waits for its pods to be deleted.
func (n *nudged) erased(ctx context.Context, namespace string, owner metav1.OwnerReference) (bool, error) {
	objects, err := n.like(namespace, owner)
	if err != nil {
		return false, err
	}
	found, err := objects.Get(ctx, owner.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return found.UID != owner.UID || found.DeletionTimestamp != nil && slices.Contains(found.Finalizers, metav1.FinalizerDeleteDependents), nil
}
