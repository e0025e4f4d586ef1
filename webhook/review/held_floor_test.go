package review

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestHeldFloorDenialNamesConfirmation(t *testing.T) {
	p := memoryProtector("web", 3, 3)
	p.Status.Conditions = []metav1.Condition{{
		Type: v1alpha1.ConditionDecreasePending, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonCascade,
		Message: "Deployment web was deleted, which would release the floor of 3, but its owner was deleted: it is held.",
	}}
	answer := newMemoryFixture(t, p).remove(t.Context(), memoryPod("web-0"))
	const want = `the floor is held although Deployment web was deleted: if that is intended, run "kubectl breakwater release --pending -n default web"`
	if answer.Allowed || !strings.Contains(answer.Status.Message, want) {
		t.Errorf("the removal is allowed: %v, with %+v; want it refused with %q", answer.Allowed, answer.Status, want)
	}
}
