package webhook_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const (
	unlabelled    = `{"metadata":{"labels":{"app":null}}}`
	criterionNone = `{"metadata":{"annotations":{"breakwater.dev/criterion":"Splendid"}}}`
)

// Rule 14, with an API server that evaluates the match conditions: the effect of kubectl label pods --all app-.
func TestRelabelIsReservedAgainstAPIServer(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 3, 5)
	pods := l.pods(5)
	l.serve().guard()
	for _, pod := range pods[:2] {
		if err := l.patchPod(pod, unlabelled); err != nil {
			t.Fatal(err)
		}
	}
	l.wantReserved("web", 2)
	for _, pod := range pods[2:] {
		wantRefused(t, l.patchPod(pod, unlabelled), fmt.Sprintf("refuses to relabel pod %q", pod.Name), "fewer pods available than its floor")
		wantRefused(t, l.patchPod(pod, criterionNone), fmt.Sprintf("refuses to relabel pod %q", pod.Name))
		wantRefused(t, l.client.Delete(t.Context(), pod), "refuses to remove pod")
	}
	l.wantReserved("web", 2)
	if left := l.remaining(); left != 3 {
		t.Errorf("%d pods are left, want the floor of 3", left)
	}
	for _, bucket := range l.protector("web").Status.Cells[0].AdmissionHistory.Buckets {
		if bucket.Operation != v1alpha1.OperationRelabel || fmt.Sprint(bucket.PodVersion) != pods[0].ResourceVersion && fmt.Sprint(bucket.PodVersion) != pods[1].ResourceVersion {
			t.Errorf("reserved %+v, want a Relabel at the version of the pod", bucket)
		}
	}
}

func TestUnchargedRelabels(t *testing.T) {
	for claim, c := range map[string]struct {
		pod    func(*corev1.Pod)
		change func(*v1alpha1.PodProtectorSpec)
		patch  string
	}{
		"of a pod that is not available":       {pod: unready, patch: unlabelled},
		"of a pod that has finished":           {pod: finished, patch: unlabelled},
		"of a pod that is not scheduled":       {pod: unscheduled, patch: unlabelled},
		"into coverage":                        {pod: unprotected, patch: `{"metadata":{"labels":{"app":"web"}}}`},
		"that leaves the pod covered":          {patch: `{"metadata":{"labels":{"release":"b"}}}`},
		"with a criterion that the pod meets":  {patch: `{"metadata":{"annotations":{"breakwater.dev/criterion":"Ready"}}}`},
		"if operations do not include it":      {change: guardsRemovals, patch: unlabelled},
		"that also removes an owner reference": {pod: owned, patch: `{"metadata":{"ownerReferences":null}}`},
		"that also removes a finalizer":        {pod: finalized, patch: `{"metadata":{"finalizers":null}}`},
		"of a pod that is annotated otherwise": {patch: `{"metadata":{"annotations":{"example.com/a":"b"}}}`},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			if c.change == nil {
				c.change = func(*v1alpha1.PodProtectorSpec) {}
			}
			l.protect("web", 5, 5, c.change)
			if c.pod == nil {
				c.pod = func(*corev1.Pod) {}
			}
			pod := l.pod("web-0", c.pod)
			l.serve().guard()
			if err := l.patchPod(pod, c.patch); err != nil {
				t.Error(err)
			}
			l.wantReserved("web", 0)
		})
	}
}

func guardsRemovals(spec *v1alpha1.PodProtectorSpec) {
	spec.Operations = []v1alpha1.Operation{v1alpha1.OperationDelete, v1alpha1.OperationEvict}
}

func owned(p *corev1.Pod) {
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "u"}}
}

// The API server evaluates the match conditions, and sends no other updates of a pod.
func TestUpdatesOfOtherMetadataAreNotReviewed(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	pods := l.pods(2)
	r := l.serve().guard()
	before := r.count("breakwater_webhook_reviews_total")
	for _, patch := range []string{
		`{"metadata":{"annotations":{"example.com/a":"b"}}}`, `{"metadata":{"annotations":{"breakwater.dev/force-delete":"true"}}}`,
		`{"metadata":{"annotations":{"breakwater.dev/force-delete":null}}}`, `{"metadata":{"finalizers":["example.com/hold"]}}`,
		`{"metadata":{"finalizers":null}}`, `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`,
		`{"metadata":{"labels":{"app":"web"}}}`, `{}`,
	} {
		if err := l.patchPod(pods[0], patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	if err := l.patchPod(pods[0], `{"status":{"message":"hello"}}`, "status"); err != nil {
		t.Error(err)
	}
	if got := r.count("breakwater_webhook_reviews_total"); got != before {
		t.Errorf("%v reviews of updates that do not change coverage, want 0", got-before)
	}
	for i, patch := range []string{
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`, `{"metadata":{"labels":{"a":null}}}`,
		`{"metadata":{"annotations":{"breakwater.dev/criterion":"Ready"}}}`, `{"metadata":{"annotations":{"breakwater.dev/criterion":null}}}`,
	} {
		if err := l.patchPod(pods[1], patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
		if got := r.count("breakwater_webhook_reviews_total"); got != before+i+1 {
			t.Errorf("%v reviews after %s, want %d", got-before, patch, i+1)
		}
	}
	if got := r.count("breakwater_webhook_reviews_total", "operation", "Relabel"); got < 5 {
		t.Errorf("%v reviews are of relabels, want 5", got)
	}
}

// Rule 7: all protectors that lose the pod must admit, and no other protector is asked.
func TestRelabelNeedsAllProtectorsThatLoseThePod(t *testing.T) {
	l := newFixture(t)
	tier := func(spec *v1alpha1.PodProtectorSpec) {
		spec.Selector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"tier": "front"}}
	}
	l.protect("a", 0, 10)
	l.protect("b", 5, 5)
	l.protect("c", 5, 5, tier)
	pod := l.pod("web-0", func(p *corev1.Pod) { p.Labels["tier"] = "front" })
	other := l.pod("web-1", func(p *corev1.Pod) { p.Labels["tier"] = "front" })
	l.serve().guard()
	wantRefused(t, l.patchPod(pod, unlabelled), "PodProtector "+l.namespace+"/b", "floor 5", "available 5")
	wantRefused(t, l.patchPod(pod, `{"metadata":{"labels":{"tier":null}}}`), "PodProtector "+l.namespace+"/c")
	for _, name := range []string{"a", "b", "c"} {
		l.wantReserved(name, 0)
	}
	lowered := l.protector("b")
	lowered.Spec.MinAvailable = v1alpha1.Pods(4)
	if err := l.client.Update(t.Context(), lowered); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string { return errorText(l.patchPod(other, unlabelled)) })
	for name, want := range map[string]int{"a": 1, "b": 1, "c": 0} {
		l.wantReserved(name, want)
	}
}

func TestForcedAndDryRelabels(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 2, 2)
	forced := l.pod("forced", func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationForceDelete: "true"} })
	spare := l.pod("spare")
	l.serve().guard()
	dry := func(pod *corev1.Pod) error {
		return l.client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(unlabelled)), client.DryRunAll)
	}
	wantRefused(t, dry(spare), "refuses to relabel")
	if err := dry(forced); err != nil {
		t.Error(err)
	}
	l.wantReserved("web", 0)
	if err := l.patchPod(forced, unlabelled); err != nil {
		t.Errorf("break-glass relabel: %v, want it admitted", err)
	}
	l.wantReserved("web", 1)
	wantRefused(t, l.patchPod(spare, unlabelled), "removals under way 1")
}
