package wake

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
	// noTaintsTTL is how long it is cached that a node has no taints. A pod on such a node is no longer retried. Taints are not cached: they
	// are reasons to evict (rule 15).
	noTaintsTTL = 200 * time.Millisecond
	// pdbRetryInterval is how long the webhook does not retry a pod whose eviction a PodDisruptionBudget refused. It is
	// longer than admission deadlines: more frequent attempts would keep the budget reserved all the time without a
	// removal.
	pdbRetryInterval = 5 * time.Minute
)

// waitingPod is a pod whose removal by a controller was refused. The eviction of pods from tainted nodes gives up after
// five attempts and does not resume. No event of pods or their owners wakes the garbage collector and the eviction of pods with tainted devices.
type waitingPod struct {
	cell, namespace string
	podRef
	// mayBeCollected reports whether the client may have been the garbage collector. Only then is it worth reading the
	// pod's owner.
	mayBeCollected bool
	// mayHaveTaintedDevice reports whether the client may have been the device taint eviction. Only then is it worth waking it.
	mayHaveTaintedDevice bool
}

// evictionPause is the time until which a pod that waits for a protector is not retried.
type evictionPause struct {
	protector Protector
	until     time.Time
}

type nodeKey struct{ cell, name string }

// retryEvictions resumes the removal of pods from tainted nodes and devices, and of pods whose owners were deleted, as many as the budget
// allows. Each eviction requests its budget like any other.
func (r *Retrier) retryEvictions(ctx context.Context, protector Protector, budget int) {
	for _, entry := range r.pods.pop(protector, budget) {
		e := entry.client
		if _, paused := r.paused[e]; paused {
			continue
		}
		done, err := r.evictPod(ctx, e)
		if done || err != nil {
			countRetry(r.retries, e.cell, "evict", err)
		}
		switch {
		case removal.IsDisruptionBudgetDenial(err):
			r.paused[e] = evictionPause{protector, r.now().Add(pdbRetryInterval)}
		case err != nil:
			if !apierrors.IsForbidden(err) {
				r.paused[e] = evictionPause{protector, r.now().Add(sweepInterval)}
			}
			r.log.V(1).Info("Could not evict a pod whose removal by a controller was refused",
				"cell", e.cell, "namespace", e.namespace, "pod", e.name, "reason", err.Error())
		}
	}
}

// requeuePaused puts the pods whose pause is over back on the waitlist.
func (r *Retrier) requeuePaused(now time.Time) {
	for e, p := range r.paused {
		if !now.Before(p.until) {
			delete(r.paused, e)
			r.pods.add(p.protector, e, struct{}{})
		}
	}
}

// evictPod evicts a pod if its node or a device of it has a taint that the pod does not tolerate, or its owner was deleted, according to
// the cell's API server now.
func (r *Retrier) evictPod(ctx context.Context, e waitingPod) (done bool, err error) {
	cell, err := r.clientsOf(e.cell)
	if err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, wakeTimeout)
	defer cancel()
	pod, err := cell.pod(ctx, e.namespace, e.podRef)
	if err != nil || pod == nil {
		return false, err
	}
	if must, err := r.mustBeEvicted(ctx, cell, e, pod); err != nil || !must {
		if err == nil && e.mayHaveTaintedDevice {
			r.wakeDeviceTaintEviction(ctx, cell, e, pod)
		}
		return false, err
	}
	err = cell.client.CoreV1().Pods(e.namespace).EvictV1(ctx, &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: e.namespace, Name: e.name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}},
	})
	return err == nil, err
}

// mustBeEvicted reports whether a taint of its node or devices expels a pod, or its owner was deleted.
func (r *Retrier) mustBeEvicted(ctx context.Context, cell *cellClients, e waitingPod, pod *corev1.Pod) (bool, error) {
	if isExpelledByDevice(pod) {
		return true, nil
	}
	var found []corev1.Taint
	if pod.Spec.NodeName != "" {
		var err error
		if found, err = r.taintsOf(ctx, cell, nodeKey{e.cell, pod.Spec.NodeName}); err != nil {
			return false, err
		}
	}
	if hasUntoleratedTaint(pod, found, r.now()) {
		return true, nil
	}
	owner := metav1.GetControllerOf(pod)
	if !e.mayBeCollected || owner == nil {
		return false, nil
	}
	return cell.isOwnerDeleted(ctx, e.namespace, *owner)
}

// taintsOf returns the NoExecute taints of a node.
func (r *Retrier) taintsOf(ctx context.Context, cell *cellClients, id nodeKey) ([]corev1.Taint, error) {
	if r.now().Sub(r.untaintedAt[id]) < noTaintsTTL {
		return nil, nil
	}
	found, err := cell.client.CoreV1().Nodes().Get(ctx, id.name, metav1.GetOptions{})
	if err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	noExecute := slices.DeleteFunc(found.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectNoExecute })
	if len(noExecute) == 0 {
		r.untaintedAt[id] = r.now()
	}
	return noExecute, nil
}

// hasUntoleratedTaint reports whether a taint expels a pod now: the pod has no toleration for it, or every such toleration has
// run out.
func hasUntoleratedTaint(pod *corev1.Pod, found []corev1.Taint, now time.Time) bool {
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
