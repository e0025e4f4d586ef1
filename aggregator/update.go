package aggregator

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/podhealth"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// defaultUpdateTimeout is the default of the CRD, for a protector that was created before the CRD had it.
const defaultUpdateTimeout = 10 * time.Minute

// updateTimeout is how long a pod may take to be available again after an update.
func updateTimeout(p *v1alpha1.PodProtector) time.Duration {
	if seconds := p.Spec.AdmissionHistory.UpdateTimeoutSeconds; seconds != nil {
		return time.Duration(*seconds) * time.Second
	}
	return defaultUpdateTimeout
}

func isUpdate(o v1alpha1.Operation) bool {
	return o == v1alpha1.OperationUpdate || o == v1alpha1.OperationResize
}

// isUpdated asks the cell's API server whether the pod of a reservation has been updated and is available again. The snapshot
// keeps no containers, and a kubelet reports a generation as observed before it restarts them. The read may be later than the
// snapshot: the pod is available in both, and the update that was to make it unavailable happened before the read.
func (po *podObserver) isUpdated(ctx context.Context, p *v1alpha1.PodProtector, r quota.Reservation) (bool, error) {
	if r.Update.Removal {
		return false, nil
	}
	pod, err := po.readPod(ctx, p.Namespace, r.PodName)
	if err != nil {
		return false, fmt.Errorf("read pod %s: %w", r.PodName, err)
	}
	if pod == nil || quota.HashUID(pod.UID) != r.Hash || pod.Status.ObservedGeneration < max(pod.Generation, r.Update.Generation) {
		return false, nil
	}
	restarts := map[string]int32{}
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			restarts[statuses[i].Name] = statuses[i].RestartCount
		}
	}
	for _, c := range r.Update.Containers {
		if restarts[c.Name] < c.Restarts {
			return false, nil
		}
	}
	return podhealth.Of(pod, p.Spec.MinReadySeconds, po.clock.now()).Counted(p.Spec.Criterion), nil
}
