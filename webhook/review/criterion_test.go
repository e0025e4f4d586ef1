package review

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// The cost of a removal depends on the criterion of the protector, of the pod and of the eviction.
func TestCriterionDeterminesCharge(t *testing.T) {
	unready := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	own := func(criterion string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: criterion} }
	}
	canary := func(p *corev1.Pod) { p.Labels["track"] = "canary" }
	exemptCanary := func(p *v1alpha1.PodProtector) {
		p.Spec.ExemptPodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"track": "canary"}}
	}
	criterion := func(c v1alpha1.Criterion) func(*v1alpha1.PodProtector) {
		return func(p *v1alpha1.PodProtector) { p.Spec.Criterion = c }
	}
	for claim, c := range map[string]struct {
		protector func(*v1alpha1.PodProtector)
		pod       []func(*corev1.Pod)
		eviction  v1alpha1.Criterion
		want      removal.VerdictReason
	}{
		"a pod that counts":                                     {want: removal.VerdictReserved},
		"a pod that is not available":                           {pod: []func(*corev1.Pod){unready}, want: removal.VerdictNotAvailable},
		"a pod that runs, where that counts":                    {protector: criterion(v1alpha1.CriterionRunning), pod: []func(*corev1.Pod){unready}, want: removal.VerdictReserved},
		"a pod that runs, by its own criterion":                 {pod: []func(*corev1.Pod){unready, own("Running")}, want: removal.VerdictReserved},
		"a pod that is not ready, by its own criterion":         {protector: criterion(v1alpha1.CriterionRunning), pod: []func(*corev1.Pod){unready, own("Ready")}, want: removal.VerdictNotAvailable},
		"a pod with an unknown criterion":                       {pod: []func(*corev1.Pod){unready, own("alive")}, want: removal.VerdictReserved},
		"an eviction that requests Running":                     {pod: []func(*corev1.Pod){unready}, eviction: v1alpha1.CriterionRunning, want: removal.VerdictReserved},
		"an eviction that requests Ready, where Running counts": {protector: criterion(v1alpha1.CriterionRunning), pod: []func(*corev1.Pod){unready}, eviction: v1alpha1.CriterionReady, want: removal.VerdictReserved},
		"a pod that is exempt":                                  {protector: exemptCanary, pod: []func(*corev1.Pod){canary}, want: removal.VerdictUnprotected},
		"a pod that is not exempt":                              {protector: exemptCanary, want: removal.VerdictReserved},
	} {
		t.Run(claim, func(t *testing.T) {
			p := memoryProtector("web", 1, 5)
			if c.protector != nil {
				c.protector(p)
			}
			p.Status.Cells[0].Aggregation.CountedSpec = quota.CountedSpec(&p.Spec)
			pod := memoryPod("web-0")
			for _, change := range c.pod {
				change(pod)
			}
			d := newMemoryFixture(t, p)
			answer := d.decided(t.Context(), removal.Request{
				Operation: v1alpha1.OperationEvict, Namespace: pod.Namespace, PodName: pod.Name, Pod: removal.NewPod(pod), Criterion: c.eviction,
			})
			if answer.Verdict != c.want {
				t.Errorf("verdict %s, want %s (%+v)", answer.Verdict, c.want, answer.Status)
			}
		})
	}
}
