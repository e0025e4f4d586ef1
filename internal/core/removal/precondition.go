package removal

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// FailedPrecondition reports why the API server is certain to refuse an eviction: its deleteOptions.preconditions do not fit the pod,
// as read from the cell after the request arrived. It is empty if the eviction may succeed.
//
// The read is linearizable. UIDs never return, and versions of a pod only grow, so no later state of the pod can fit. The API server
// compares them only after the webhook has answered, and a reservation would hold the budget until the admission deadline. It refuses
// other requests that cannot succeed before it calls the webhook: a deletion with such preconditions or with invalid options
// (rest.BeforeDelete), an update of an older version, and one that is invalid (registry.Store.Update). An eviction that a
// PodDisruptionBudget may deny is different: its status can change before the API server compares it, so the reservation is needed.
func (r Request) FailedPrecondition(live *corev1.Pod) string {
	if r.preconditions == nil || live == nil {
		return ""
	}
	// The API server ignores an empty precondition in its first check of an eviction.
	if uid := r.preconditions.UID; uid != nil && *uid != "" && *uid != live.UID {
		return fmt.Sprintf("it requires UID %.*q, and the pod of this name has UID %q", maxUIDLength, string(*uid), live.UID)
	}
	if version := r.preconditions.ResourceVersion; version != nil && *version != "" && *version != live.ResourceVersion {
		return fmt.Sprintf("it requires resourceVersion %.*q, and the pod has %q", maxVersionLength, *version, live.ResourceVersion)
	}
	return ""
}
