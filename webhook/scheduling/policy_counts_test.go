package scheduling_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestPolicyStatusShowsCounts(t *testing.T) {
	p := newFixture(t)
	policy := p.policy("disk")
	p.create(policy)
	p.configure()
	p.create(p.pod("a"))
	p.create(p.pod("b"))
	p.create(p.pod("c", func(pod *corev1.Pod) { pod.Spec.NodeSelector = map[string]string{"disk": "hdd"} }))
	p.eventually(func() string {
		if err := p.Get(p.Context(), client.ObjectKeyFromObject(policy), policy); err != nil {
			return err.Error()
		}
		s := policy.Status
		if s.Matched != 3 || s.Injected != 2 || s.Conflicts != 1 || s.Rejected != 0 || s.LastInjected == nil || s.ObservedGeneration != policy.Generation ||
			!meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionReady) || !meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionConflicting) {
			return fmt.Sprintf("status %+v, want 3 matched, 2 injected, 1 conflict, Ready and Conflicting", s)
		}
		return ""
	})
}
