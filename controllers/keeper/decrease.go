package keeper

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/policy"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// decreaseOf returns the conditions that record a pending decrease of a protector (rule 13), or none if no decrease is pending. A protector
// that waits for its status carries them in its metadata. A record that cannot be parsed counts as none. So does that of a handwritten protector that
// terminates: it waits for the release of that one, and no client has deleted the recreated one.
func decreaseOf(p *v1alpha1.PodProtector) (pending []metav1.Condition) {
	if p.DeletionTimestamp != nil && !policy.IsGenerated(p) {
		return nil
	}
	all := p.Status.Conditions
	if quota.IsRestorePending(p) {
		all = nil
		if err := json.Unmarshal([]byte(p.Annotations[v1alpha1.AnnotationRestoredDecrease]), &all); err != nil {
			return nil
		}
	}
	if !meta.IsStatusConditionTrue(all, v1alpha1.ConditionDecreasePending) {
		return nil
	}
	for _, kind := range []string{v1alpha1.ConditionDecreasePending, v1alpha1.ConditionTargetResolved} {
		if c := meta.FindStatusCondition(all, kind); c != nil {
			pending = append(pending, *c)
		}
	}
	return pending
}

// restoreDecrease gives p the conditions of the pending decrease of the lost protector, also if the generator has replaced them meanwhile: without
// them no confirmation would find the decrease, and the generator would treat the workload as vanished.
func restoreDecrease(p *v1alpha1.PodProtector, pending []metav1.Condition) {
	for _, c := range pending {
		meta.RemoveStatusCondition(&p.Status.Conditions, c.Type) // so that the restored condition keeps its transition time
		p.Status.Conditions = append(p.Status.Conditions, c)
	}
}
