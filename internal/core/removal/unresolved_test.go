package removal_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/quota"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

// Rule 14, while no aggregator has resolved the workload that a protector names: any relabel of a pod that it may cover may be a loss.
func TestRelabelInCellWithoutResolvedTargetConsumesBudget(t *testing.T) {
	for claim, aggregation := range map[string]func(*v1alpha1.PodProtector) []v1alpha1.PodProtectorCell{
		"never counted": func(*v1alpha1.PodProtector) []v1alpha1.PodProtectorCell { return nil },
		"counted by an earlier spec": func(*v1alpha1.PodProtector) []v1alpha1.PodProtectorCell {
			return []v1alpha1.PodProtectorCell{{CellID: "c0", Aggregation: v1alpha1.Aggregation{CountedSpec: "earlier", CountedReplicas: 10, Target: &v1alpha1.Target{Selector: "app=web"}}}}
		},
		"void counts": func(p *v1alpha1.PodProtector) []v1alpha1.PodProtectorCell {
			return []v1alpha1.PodProtectorCell{{CellID: "c0", Aggregation: v1alpha1.Aggregation{CountedSpec: quota.CountedSpec(&p.Spec), SelectedSpec: quota.SelectedSpec(&p.Spec), Void: true, Target: &v1alpha1.Target{Selector: "app=web"}}}}
		},
	} {
		t.Run(claim, func(t *testing.T) {
			c := chargeOf("web", func(s *v1alpha1.PodProtectorSpec) {
				s.Selector, s.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
			})
			c.Protector.Status.Cells = aggregation(c.Protector)
			r, guarded, err := removal.Parse(updateReview(t, labeledPod(map[string]string{"app": "web"}, ""), labeledPod(nil, "")))
			if err != nil || !guarded {
				t.Fatal(guarded, err)
			}
			if charges, free := chargesFor(r, c); len(charges) != 1 || charges[0].Operation != v1alpha1.OperationRelabel {
				t.Errorf("ChargesFor() = %v and %s, want a charge for Relabel: a deletion of the pod is charged", charges, free)
			}
			d, _, _ := removal.Parse(func() *admissionv1.AdmissionRequest {
				review := updateReview(t, labeledPod(map[string]string{"app": "web"}, ""), labeledPod(nil, ""))
				review.Operation, review.Object = admissionv1.Delete, runtime.RawExtension{}
				return review
			}())
			if charges, free := chargesFor(d, c); len(charges) != 1 {
				t.Errorf("a deletion: ChargesFor() = %v and %s, want a charge", charges, free)
			}
		})
	}
}

// Kubernetes 1.36 (InPlacePodLevelResourcesVerticalScaling, on by default): a container without a limit has that of the pod, and its resizePolicy applies.
func TestResizeOfThePodRestartsContainersWithoutALimit(t *testing.T) {
	pod := func(generation, podLimit string) string {
		return `{"metadata":{"name":"web-0","namespace":"default","uid":"u","generation":` + generation + `},"spec":{"nodeName":"n",
			"resources":{"limits":{"memory":"` + podLimit + `","cpu":"1"},"requests":{"memory":"1Gi","cpu":"1"}},"containers":[
			{"name":"web","image":"web:1","resizePolicy":[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}]},
			{"name":"own","image":"own:1","resources":{"limits":{"memory":"1Gi"}},"resizePolicy":[{"resourceName":"memory","restartPolicy":"RestartContainer"}]},
			{"name":"log","image":"log:1"}]},"status":{"phase":"Running"}}`
	}
	review := reviewOf(admissionv1.Update, "resize", pod("5", "2Gi"))
	review.OldObject = runtime.RawExtension{Raw: []byte(pod("4", "1Gi"))}
	got, guarded, err := removal.Parse(review)
	if err != nil || !guarded || got.Operation != v1alpha1.OperationResize || len(got.Containers) != 1 || got.Containers[0].Name != "web" {
		t.Errorf("Parse() = %s of %v, guarded %v, error %v; want a Resize that restarts container web", got.Operation, got.Containers, guarded, err)
	}
}

// The clock of the webhook is ahead of the aggregator's: by that one the pod does not meet the new criterion yet.
func TestCriterionIsJudgedByTheClockOfTheCounts(t *testing.T) {
	now := time.Now()
	pod := func(criterion string) *corev1.Pod {
		p := labeledPod(map[string]string{"app": "web"}, criterion)
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(now.Add(-8 * time.Second))
		return p
	}
	c := chargeOf("web", func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 10 })
	c.Protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "c0", Aggregation: v1alpha1.Aggregation{
		CountedSpec: quota.CountedSpec(&c.Protector.Spec), CountedReplicas: 1, LastEventTime: metav1.NewMicroTime(now),
	}}}
	r, _, err := removal.Parse(updateReview(t, pod("Ready"), pod("Available")))
	if err != nil {
		t.Fatal(err)
	}
	covering := []removal.Charge{c}
	removal.AssessAll(covering, "c0", r, now.Add(5*time.Second))
	if charges, free := removal.ChargesFor(covering, true, r); len(charges) != 1 {
		t.Errorf("ChargesFor() = none and %s, want a charge: the pod stops counting", free)
	}
}

// A change of the spec that selects the same pods leaves known which labels matter: a controller that labels the leader of its pods must not wait for a count.
func TestRelabelThatStaysInTheKnownCoverageIsFree(t *testing.T) {
	c := chargeOf("web", func(s *v1alpha1.PodProtectorSpec) {
		s.Selector, s.TargetRef = nil, &v1alpha1.TargetRef{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	})
	c.Protector.Status.Cells = []v1alpha1.PodProtectorCell{{CellID: "c0", Aggregation: v1alpha1.Aggregation{
		CountedSpec: "earlier", SelectedSpec: quota.SelectedSpec(&c.Protector.Spec), Target: &v1alpha1.Target{Selector: "app=web"},
	}}}
	for _, one := range []struct {
		labels map[string]string
		void   bool
		want   int
	}{
		{map[string]string{"app": "web", "role": "leader"}, false, 0},
		{map[string]string{"role": "leader"}, false, 1},
		{map[string]string{"app": "web", "role": "leader"}, true, 1}, // a restored core may have the selector of an earlier workload
	} {
		labels, want := one.labels, one.want
		c.Protector.Status.Cells[0].Aggregation.Void = one.void
		r, _, err := removal.Parse(updateReview(t, labeledPod(map[string]string{"app": "web"}, ""), labeledPod(labels, "")))
		if err != nil {
			t.Fatal(err)
		}
		if charges, free := chargesFor(r, c); len(charges) != want {
			t.Errorf("labels %v: ChargesFor() = %v and %s, want %d charges", labels, charges, free, want)
		}
	}
}

func TestForgedContainersAreTooMany(t *testing.T) {
	pod := func(image string, containers int) string {
		var all []string
		for i := range containers {
			all = append(all, fmt.Sprintf(`{"name":"c-%d","image":%q}`, i, image))
		}
		return `{"metadata":{"name":"web-0","namespace":"default","uid":"u"},"spec":{"nodeName":"n","containers":[` + strings.Join(all, ",") + `]},"status":{"phase":"Running"}}`
	}
	for containers, want := range map[int]bool{1000: true, 1001: false} {
		review := reviewOf(admissionv1.Update, "", pod("web:2", containers))
		review.OldObject = runtime.RawExtension{Raw: []byte(pod("web:1", containers))}
		if _, _, err := removal.Parse(review); (err == nil) != want {
			t.Errorf("%d containers: Parse() = %v, want success %v", containers, err, want)
		}
	}
}
