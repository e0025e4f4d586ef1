package main

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

func TestExpectationBelowPodsIsShown(t *testing.T) {
	h := newHub(t)
	h.protect("web", 0, 3, func(p *v1alpha1.PodProtector) {
		expected := int32(1)
		p.Status.Cells[0].Aggregation.ExpectedReplicas = &expected
		p.Status.Conditions = append(p.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionExpectationBelowPods, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonMorePodsThanExpected,
			Message: "More pods are available (3) than are expected (1: Prometheus/main has 1 in cell a).", LastTransitionTime: metav1.NewTime(time.Now().Add(-20 * time.Minute)),
		})
	})
	wantWords(t, h.mustRun("status"), "web 0 3 0 3 ok; 2 above expected")
	wantWords(t, h.mustRun("status", "web"), "Expects too few pods: 3 are available, and 1 expected. The floor may be too low.",
		"ExpectationBelowPods True MorePodsThanExpected, since 20m: More pods are available (3)")
}
