package snapshot

import (
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/selectors"
)

func TestForceDeletablePodsAreCounted(t *testing.T) {
	s := New(func(types.NamespacedName, time.Duration) {}, func(error) {}, time.Now, time.Now)
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
		if !ok || got.Aggregation.ForceDeletableReplicas != number || s.ForceDeletable() != int(number) {
			t.Errorf("%s: %d of the protector, %d of the cell (counted: %v), want %d", when, got.Aggregation.ForceDeletableReplicas, s.ForceDeletable(), ok, number)
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
