package wake

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// deviceTaintEviction deletes pods whose devices have a NoExecute taint. It retries a denial with a backoff that doubles, up to 1,000 seconds.
	deviceTaintEviction = serviceAccounts + "kube-system:device-taint-eviction-controller"
	// reasonDeviceTaint is the reason of the condition DisruptionTarget that it writes before each attempt. k8s.io/api has no constant for it.
	reasonDeviceTaint = "DeletionByDeviceTaintManager"
)

// isExpelledByDevice reports whether the device taint eviction controller tried to delete a pod. Two minutes after an attempt, the disruption
// controller of Kubernetes sets the condition to False, which also ends the claim of a taint that was removed.
func isExpelledByDevice(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue && c.Reason == reasonDeviceTaint
	})
}

// wakeDeviceTaintEviction touches the ResourceClaims of a pod. Their change makes the device taint eviction check the pod at once: it deletes the pod if
// a device is still tainted. A change of the pod, its owner or the DeviceTaintRule does not.
func (r *Retrier) wakeDeviceTaintEviction(ctx context.Context, cell *cellClients, e waitingPod, pod *corev1.Pod) {
	now, woken := r.now(), waitingController{e.cell, e.namespace, pod.UID}
	if now.Sub(r.wokenAt[woken]) < minWakeInterval {
		return // it has just tried, and the condition of the pod tells that
	}
	r.wokenAt[woken] = now
	for _, name := range claimsOf(pod) {
		touched, err := cell.annotateClaim(ctx, e.namespace, name, now)
		if touched || err != nil {
			countRetry(r.retries, e.cell, "wake", err)
		}
		if err != nil {
			r.log.V(1).Info("Could not wake the device taint eviction", "cell", e.cell, "namespace", e.namespace, "pod", e.name, "claim", name,
				"reason", err.Error())
		}
	}
}

// claimsOf returns the names of the ResourceClaims of a pod.
func claimsOf(pod *corev1.Pod) (names []string) {
	for i := range pod.Spec.ResourceClaims {
		if name := pod.Spec.ResourceClaims[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	for i := range pod.Status.ResourceClaimStatuses { // from a template
		if name := pod.Status.ResourceClaimStatuses[i].ResourceClaimName; name != nil {
			names = append(names, *name)
		}
	}
	return names
}

// annotateClaim writes the annotation with a time to a ResourceClaim. It does nothing if the claim does not exist.
func (c *cellClients) annotateClaim(ctx context.Context, namespace, name string, at time.Time) (touched bool, err error) {
	claim := metav1.OwnerReference{APIVersion: "resource.k8s.io/v1", Kind: "ResourceClaim", Name: name}
	claims, err := c.resourceClient(namespace, claim)
	if err != nil {
		return false, err
	}
	found, err := claims.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	claim.UID = found.UID
	return true, c.annotate(ctx, namespace, claim, at)
}
