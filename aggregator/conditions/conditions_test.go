package conditions

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
)

// countedProtector returns shop/web with one counted cell for each number of pods.
func countedProtector(totals ...int32) *v1alpha1.PodProtector {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 3}}
	p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{MatchLabels: map[string]string{"app": "web"}}, v1alpha1.Pods(0)
	for i, total := range totals {
		cell := v1alpha1.PodProtectorCell{CellID: "c" + string(rune('0'+i))}
		cell.Aggregation.TotalReplicas, cell.Aggregation.CountedSpec = total, quota.CountedSpec(&p.Spec)
		p.Status.Cells = append(p.Status.Cells, cell)
	}
	return p
}

// wantCondition compares a condition after Summarize; an empty status is none.
func wantCondition(t *testing.T, p *v1alpha1.PodProtector, kind string, status metav1.ConditionStatus, reason string, words ...string) {
	t.Helper()
	Summarize(p, time.Now())
	got := meta.FindStatusCondition(p.Status.Conditions, kind)
	if got == nil {
		if status != "" {
			t.Fatalf("no condition %s, want %s %s", kind, status, reason)
		}
		return
	}
	if got.Status != status || got.Reason != reason || got.ObservedGeneration != 3 {
		t.Fatalf("condition %+v, want %s %s of generation 3", got, status, reason)
	}
	for _, word := range words {
		if !strings.Contains(got.Message, word) {
			t.Errorf("message %q, want it to contain %q", got.Message, word)
		}
	}
}

func TestPodsMatchedCondition(t *testing.T) {
	p := countedProtector(0, 2)
	wantCondition(t, p, v1alpha1.ConditionPodsMatched, "", "")
	p.Status.Cells[1].Aggregation.TotalReplicas = 0
	wantCondition(t, p, v1alpha1.ConditionPodsMatched, metav1.ConditionFalse, v1alpha1.ReasonNoPodMatches, "kubectl get pods -n shop --show-labels")
	p.Status.Cells[1].Aggregation.CountedSpec = "earlier" // counted again: what was found before stays
	wantCondition(t, p, v1alpha1.ConditionPodsMatched, metav1.ConditionFalse, v1alpha1.ReasonNoPodMatches)
	p = countedProtector(0)
	p.Status.Cells[0].Aggregation.Workloads = []v1alpha1.ExpectedWorkload{{Kind: "Deployment", Name: "web"}}
	wantCondition(t, p, v1alpha1.ConditionPodsMatched, metav1.ConditionFalse, v1alpha1.ReasonScaledToZero, "nothing is protected until it is scaled up")
	p.Status.Cells[0].Aggregation.TotalReplicas = 1
	wantCondition(t, p, v1alpha1.ConditionPodsMatched, "", "")
}

func TestGuardedCondition(t *testing.T) {
	p := countedProtector(1, 1)
	wantCondition(t, p, v1alpha1.ConditionGuarded, "", "")
	p.Status.Cells[0].Aggregation.ExemptProblem = "allow the aggregator to list namespaces in the cluster of the cell"
	wantCondition(t, p, v1alpha1.ConditionGuarded, metav1.ConditionUnknown, v1alpha1.ReasonConfigurationUnread, "cell c0: allow the aggregator to list namespaces")
	p.Status.Cells[1].Aggregation.Exempt = v1alpha1.ExemptLabel
	wantCondition(t, p, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt,
		"Removals in namespace shop are not checked in cell c1", "kubectl label namespace shop breakwater.dev/exempt-")
	wantCondition(t, p, v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt, "Removals in namespace shop are not checked in cell c1")
	p.Status.Cells[0].Aggregation.Exempt = v1alpha1.ExemptNamespaceSelector
	wantCondition(t, p, v1alpha1.ConditionGuarded, metav1.ConditionFalse, v1alpha1.ReasonNamespaceExempt, "in cell c0: the namespaceSelector", "in cell c1: the namespace has")
	for i := range p.Status.Cells {
		p.Status.Cells[i].Aggregation.Exempt, p.Status.Cells[i].Aggregation.ExemptProblem = "", ""
	}
	wantCondition(t, p, v1alpha1.ConditionGuarded, metav1.ConditionTrue, v1alpha1.ReasonNamespaceGuarded)
}

func TestConditionReportsForceDeletablePods(t *testing.T) {
	p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	for range 3 {
		p.Status.Cells = append(p.Status.Cells, v1alpha1.PodProtectorCell{CellID: "c" + string(rune('0'+len(p.Status.Cells)))})
	}
	condition := func() *metav1.Condition {
		setForceDeletableCondition(p)
		return meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionForceDeletable)
	}
	if got := condition(); got != nil {
		t.Errorf("without such pods the condition is %+v, want none", got)
	}
	p.Status.Cells[0].Aggregation.ForceDeletableReplicas, p.Status.Cells[2].Aggregation.ForceDeletableReplicas = 2, 1
	if got := condition(); got == nil || got.Status != metav1.ConditionTrue || got.Reason != v1alpha1.ReasonPodsAnnotated || got.ObservedGeneration != 3 ||
		!strings.Contains(got.Message, "does not protect 3 pods") || !strings.Contains(got.Message, "2 in cell c0, 1 in cell c2") {
		t.Errorf("with such pods the condition is %+v, want it to be true for 3 pods of c0 and c2", got)
	}
	p.Status.Cells[0].Aggregation.ForceDeletableReplicas, p.Status.Cells[2].Aggregation.ForceDeletableReplicas = 0, 0
	if got := condition(); got == nil || got.Status != metav1.ConditionFalse || got.Reason != v1alpha1.ReasonNoPodAnnotated {
		t.Errorf("after their removal the condition is %+v, want it to be false", got)
	}
}
