package scheduling

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// quietPeriod is how long no pod must have contradicted a policy before its condition Conflicting becomes false.
const quietPeriod = 10 * time.Minute

// statusOf returns the status of a policy of either kind; nil for any other object.
func statusOf(object client.Object) *v1alpha1.PodSchedulingPolicyStatus {
	switch p := object.(type) {
	case *v1alpha1.PodSchedulingPolicy:
		return &p.Status
	case *v1alpha1.ClusterPodSchedulingPolicy:
		return &p.Status
	}
	return nil
}

// statusUpdate are the changes to write to the status of a policy.
type statusUpdate struct {
	count
	// ready is nil when this replica does not have the generation.
	ready *metav1.Condition
	// quiet reports that no pod has contradicted the policy recently.
	quiet bool
}

// applyTo merges the news into a status, and reports whether the status changed.
func (n statusUpdate) applyTo(status *v1alpha1.PodSchedulingPolicyStatus, generation int64) (changed bool) {
	status.Matched += n.matched
	status.Injected += n.injected
	status.Conflicts += n.conflicts
	status.Rejected += n.rejected
	if !n.lastInjected.IsZero() && (status.LastInjected == nil || status.LastInjected.Time.Before(n.lastInjected)) {
		status.LastInjected = &metav1.Time{Time: n.lastInjected}
	}
	changed = n.count != count{}
	if n.ready != nil {
		changed = meta.SetStatusCondition(&status.Conditions, *n.ready) || status.ObservedGeneration != generation || changed
		status.ObservedGeneration = generation
	}
	conflicting := metav1.Condition{
		Type: v1alpha1.ConditionConflicting, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonContradicted, Message: n.conflict, ObservedGeneration: generation,
	}
	switch {
	case n.conflicts > 0:
		meta.SetStatusCondition(&status.Conditions, conflicting)
	case n.quiet && isConflicting(status):
		conflicting.Status, conflicting.Reason, conflicting.Message = metav1.ConditionFalse, v1alpha1.ReasonUncontradicted,
			"no pod has contradicted the policy recently"
		changed = meta.SetStatusCondition(&status.Conditions, conflicting) || changed
	}
	return changed
}

func isConflicting(status *v1alpha1.PodSchedulingPolicyStatus) bool {
	return meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionConflicting)
}

// isGood reports whether a condition needs no warning.
func isGood(c metav1.Condition) bool {
	return (c.Type == v1alpha1.ConditionConflicting) == (c.Status == metav1.ConditionFalse)
}

// quietTracker record since when the conflicts of policies have not increased, no matter which replica counts them.
type quietTracker struct {
	now     func() time.Time
	entries map[scheduling.Ref]quietEntry
}

type quietEntry struct {
	conflicts int64
	since     time.Time
}

// isQuiet records the current status of a policy. It reports whether its conflicts have not increased for quietPeriod.
func (s *quietTracker) isQuiet(of scheduling.Ref, status *v1alpha1.PodSchedulingPolicyStatus) bool {
	if !isConflicting(status) {
		delete(s.entries, of)
		return false
	}
	before, found := s.entries[of]
	if !found || before.conflicts != status.Conflicts {
		s.entries[of] = quietEntry{status.Conflicts, s.now()}
		return false
	}
	return s.now().Sub(before.since) >= quietPeriod
}

// retain removes the policies that no longer exist.
func (s *quietTracker) retain(existing map[scheduling.Ref]bool) {
	for ref := range s.entries {
		if !existing[ref] {
			delete(s.entries, ref)
		}
	}
}
