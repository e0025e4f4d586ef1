package webhook

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/internal/removal"
)

const (
	// nodeMemory is how long the taints of a node are believed, and bareMemory that it has none: a pod is forgotten by that.
	nodeMemory, bareMemory = 5 * time.Second, 200 * time.Millisecond
	// disruptionPause is how long a pod is left alone that a PodDisruptionBudget keeps. It is longer than admission deadlines are:
	// whoever asks more often has the budget reserved all the time, for nothing.
	disruptionPause = 5 * time.Minute
)

// evictee is a pod that a controller was refused to remove. The eviction of pods from tainted nodes gives up after five attempts,
// and never takes it up again; and what the garbage collector was refused it cannot be told about.
type evictee struct {
	cell, namespace, name, node string
	uid                         types.UID
	// owner is what the pod was a part of, if it may have been the garbage collector that was refused.
	owner controller
}

// pause is until when an evictee is left alone, which waits for a protector.
type pause struct {
	protector protectorRef
	until     time.Time
}

type node struct{ cell, name string }

type taints struct {
	at  time.Time
	all []corev1.Taint
}

// evict takes up the removal of pods from tainted nodes, and of those whose owners are gone, as many as there is budget for. Each
// asks for its budget like any other.
func (n *nudger) evict(ctx context.Context, protector protectorRef, budget int) {
	for _, e := range n.evictees.take(protector, budget) {
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

// resume lets those wait for budget again whose pause is over.
func (n *nudger) resume(now time.Time) {
	for e, p := range n.paused {
		if !now.Before(p.until) {
			delete(n.paused, e)
			n.evictees.add(p.protector, e)
		}
	}
}

// evictOne evicts a pod, if its node does not tolerate it any more or its owner is gone.
func (n *nudger) evictOne(ctx context.Context, e evictee) (done bool, err error) {
	cell, err := n.reach(e.cell)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTime)
	defer cancel()
	erased, err := cell.erased(ctx, e.owner)
	if err != nil {
		return false, err
	}
	found, err := n.taintsOf(ctx, cell, node{e.cell, e.node})
	if err != nil || !erased && len(found) == 0 {
		return false, err
	}
	pod, err := cell.client.CoreV1().Pods(e.namespace).Get(ctx, e.name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, err
	case pod.UID != e.uid, pod.DeletionTimestamp != nil:
		return false, nil
	}
	if owner := metav1.GetControllerOf(pod); owner == nil || owner.UID != e.owner.uid {
		erased = false // another has adopted it
	}
	if !erased && !isExpelled(pod, found, time.Now()) {
		return false, nil
	}
	err = cell.client.CoreV1().Pods(e.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.namespace, Name: e.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	return err == nil, err
}

// taintsOf returns the taints of a node that expel pods.
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

// isExpelled tells whether a taint expels a pod now: none of its tolerations is for it, or those that are have run out.
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

// erased tells whether what pods were a part of is gone, or goes when they have. It takes a live look.
func (n *nudged) erased(ctx context.Context, owner controller) (bool, error) {
	if owner == (controller{}) {
		return false, nil
	}
	objects, err := n.like(owner)
	if err != nil {
		return false, err
	}
	found, err := objects.Get(ctx, owner.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	return found.UID != owner.uid || found.DeletionTimestamp != nil && slices.Contains(found.Finalizers, metav1.FinalizerDeleteDependents), nil
}
