package aggregator

import (
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func TestForceDeletablePodsAreCounted(t *testing.T) {
	s := newSnapshot(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
	key := types.NamespacedName{Namespace: "default", Name: "web"}
	s.Cover(key, selectors.Coverage{Selector: selectors.Everything()}, 0)
	version := 10
	pod := func(name string, change ...func(*corev1.Pod)) *corev1.Pod {
		version++
		p := samplePod(name, name, strconv.Itoa(version), nil)
		for _, c := range change {
			c(p)
		}
		return p
	}
	annotated := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: value} }
	}
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: time.Now()} }
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	want := func(when string, number int32) {
		t.Helper()
		got, ok := s.Count(key, &v1alpha1.PodProtectorSpec{}, none, nil, nil)
		if !ok || got.aggregation.ForceDeletableReplicas != number || s.ForceDeletable() != int(number) {
			t.Errorf("%s: %d of the protector, %d of the cell (counted: %v), want %d", when, got.aggregation.ForceDeletableReplicas, s.ForceDeletable(), ok, number)
		}
	}
	if err := s.Replace(listOf(pod("a", annotated("true")), pod("b"), pod("c", annotated("false")), pod("d", annotated("true"), terminating), pod("e", annotated("true"), finished)), "20"); err != nil {
		t.Fatal(err)
	}
	want("after the list", 1)
	version = 20
	for _, step := range []struct {
		when string
		pod  *corev1.Pod
		want int32
	}{
		{"when another gets the annotation", pod("b", annotated("true")), 2},
		{"when one loses it", pod("a"), 1},
		{"when one terminates", pod("b", annotated("true"), terminating), 0},
	} {
		if err := s.Update(step.pod); err != nil {
			t.Fatal(err)
		}
		want(step.when, step.want)
	}
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
