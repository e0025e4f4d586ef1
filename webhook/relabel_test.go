package webhook_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
)

const (
	unlabeled     = `{"metadata":{"labels":{"app":null}}}`
	criterionNone = `{"metadata":{"annotations":{"breakwater.dev/criterion":"Splendid"}}}`
)

// Rule 14, with an API server that evaluates the match conditions: the effect of kubectl label pods --all app-.
func TestRelabelIsReservedAgainstAPIServer(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 3, 5)
	pods := l.pods(5)
	l.serve().guard()
	for _, pod := range pods[:2] {
		if err := l.patchPod(pod, unlabeled); err != nil {
			t.Fatal(err)
		}
	}
	l.wantReserved("web", 2)
	for _, pod := range pods[2:] {
		wantDenied(t, l.patchPod(pod, unlabeled), fmt.Sprintf("refuses to relabel pod %q", pod.Name), "fewer pods available than its floor")
		wantDenied(t, l.patchPod(pod, criterionNone), fmt.Sprintf("refuses to relabel pod %q", pod.Name))
		wantDenied(t, l.client.Delete(t.Context(), pod), "refuses to remove pod")
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

// Rule 14: labels and annotations also change through the status of a pod, alone or together with it.
func TestRelabelThroughStatusIsReserved(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 3, 4)
	pods := l.pods(4)
	r := l.serve().guard()
	if err := l.patchPod(pods[0], unlabeled, "status"); err != nil {
		t.Fatal(err)
	}
	l.wantReserved("web", 1)
	reserved := l.protector("web").Status.Cells[0].AdmissionHistory.Buckets[0]
	if reserved.Operation != v1alpha1.OperationRelabel || fmt.Sprint(reserved.PodVersion) != pods[0].ResourceVersion {
		t.Errorf("reserved %+v, want a Relabel at version %s of the pod", reserved, pods[0].ResourceVersion)
	}
	const unready = `"status":{"conditions":[{"type":"Ready","status":"False"}]}`
	for claim, patch := range map[string]string{
		"a label":                             unlabeled,
		"the criterion":                       criterionNone,
		"a label and the readiness":           `{"metadata":{"labels":{"app":null}},` + unready + `}`,
		"a label and the phase":               `{"metadata":{"labels":{"app":null}},"status":{"phase":"Failed"}}`,
		"the criterion and the readiness":     `{"metadata":{"annotations":{"breakwater.dev/criterion":"Splendid"}},` + unready + `}`,
		"all labels":                          `{"metadata":{"labels":null}}`,
		"a label, with the annotation for it": `{"metadata":{"labels":{"app":null},"annotations":{"breakwater.dev/force-delete":"true"}}}`,
	} {
		for _, pod := range pods[1:] {
			err := l.patchPod(pod, patch, "status")
			if err == nil {
				t.Errorf("%s of pod %s was changed, want a denial", claim, pod.Name)
				continue
			}
			wantDenied(t, err, fmt.Sprintf("refuses to relabel pod %q", pod.Name), "fewer pods available than its floor")
		}
	}
	updated := pods[1].DeepCopy()
	updated.Labels = nil
	wantDenied(t, l.client.Status().Update(t.Context(), updated), "refuses to relabel pod")
	l.wantReserved("web", 1)
	if left := l.remaining(); left != 3 {
		t.Errorf("%d pods are left, want the floor of 3", left)
	}
	if got := r.count("breakwater_webhook_reviews_total", "operation", "Relabel", "verdict", "NoBudget"); got != 22 {
		t.Errorf("%d reviews of relabels were denied, want 22", got)
	}
	// The pod that left may go, and a pod that is annotated through its status is a break-glass removal.
	if err := l.patchPod(pods[1], `{"metadata":{"annotations":{"breakwater.dev/force-delete":"true"}}}`, "status"); err != nil {
		t.Fatal(err)
	}
	if err := l.patchPod(pods[1], unlabeled, "status"); err != nil {
		t.Errorf("break-glass relabel: %v, want it admitted", err)
	}
	l.wantReserved("web", 2)
}

// Kubelets write the status of pods all the time. The API server compares the labels, and sends none of these writes.
func TestStatusWritesAreNotReviewed(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 2, 2)
	pod := l.pod("web-0", func(p *corev1.Pod) {
		p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: "Ready", "example.com/a": "b"}
	})
	bare := l.pod("bare", func(p *corev1.Pod) { p.Labels = nil })
	r := l.serve().guard()
	before := r.count("breakwater_webhook_reviews_total")
	uid := fmt.Sprintf(`{"metadata":{"uid":%q},`, pod.UID) // as kubelets do
	for _, patch := range []string{
		uid + `"status":{"conditions":[{"type":"Ready","status":"False","reason":"ContainersNotReady"}]}}`,
		uid + `"status":{"conditions":[{"type":"Ready","status":"True"}],"podIP":"10.0.0.1","podIPs":[{"ip":"10.0.0.1"}]}}`,
		uid + `"status":{"containerStatuses":[{"name":"web","ready":true,"restartCount":1,"image":"web","imageID":"web","state":{"running":{}}}]}}`,
		`{"metadata":{"annotations":{"example.com/a":"c"}}}`, `{"metadata":{"annotations":{"example.com/a":null}}}`,
		`{"metadata":{"finalizers":["example.com/hold"]}}`, `{"metadata":{"finalizers":null}}`, `{"metadata":{"labels":{"app":"web"}}}`,
		`{"spec":{"containers":[{"name":"web","image":"web:2"}]}}`, `{}`,
	} {
		if err := l.patchPod(pod, patch, "status"); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
	}
	for range 2 {
		if err := l.client.Status().Update(t.Context(), bare); err != nil {
			t.Errorf("update of the status of a pod without labels: %v", err)
		}
		bare.Status.Message += "hello"
	}
	if got := r.count("breakwater_webhook_reviews_total"); got != before {
		t.Errorf("%d reviews of writes of the status, want 0", got-before)
	}
	if err := l.patchPod(bare, `{"metadata":{"labels":{"a":"b"}}}`, "status"); err != nil {
		t.Error(err)
	}
	if got := r.count("breakwater_webhook_reviews_total"); got != before+1 {
		t.Errorf("%d reviews of a label that is set through the status, want 1", got-before)
	}
}

// These subresources also store a pod, and keep its metadata: there is nothing to review.
func TestOtherSubresourcesKeepLabels(t *testing.T) {
	l := newFixture(t)
	pod := l.pod("web-0", func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationCriterion: "Ready"} })
	for _, subresource := range []string{"ephemeralcontainers", "resize"} {
		changed := &corev1.Pod{}
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(pod), changed); err != nil {
			t.Fatal(err)
		}
		changed.Labels, changed.Annotations, changed.Finalizers = nil, nil, []string{"example.com/hold"}
		changed.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
		if err := l.client.SubResource(subresource).Update(t.Context(), changed); err != nil {
			t.Errorf("update of %s: %v", subresource, err)
		}
		stored := &corev1.Pod{}
		if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(pod), stored); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(pod.ObjectMeta, stored.ObjectMeta, cmpopts.IgnoreFields(metav1.ObjectMeta{}, "ManagedFields", "ResourceVersion", "Generation")); diff != "" {
			t.Errorf("pods/%s changed the metadata of the pod (-want +got):\n%s", subresource, diff)
		}
	}
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "other"}}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-2"}}
	if err := l.client.SubResource("binding").Create(t.Context(), pod, binding); !apierrors.IsConflict(err) {
		t.Errorf("binding of a pod that is bound: error %v, want a conflict", err)
	}
	for name, labels := range map[string]string{"finalizer": `{"metadata":{"finalizers":["example.com/hold"]}}`, "owner": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]}}`} {
		if err := l.patchPod(pod, labels, "status"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	stored := &corev1.Pod{}
	if err := l.client.Get(t.Context(), client.ObjectKeyFromObject(pod), stored); err != nil {
		t.Fatal(err)
	}
	if len(stored.OwnerReferences) > 0 || stored.DeletionTimestamp != nil {
		t.Errorf("pods/status changed %+v, want it to keep owners and the deletion", stored.ObjectMeta)
	}
}

func TestUnchargedRelabels(t *testing.T) {
	for claim, c := range map[string]struct {
		pod    func(*corev1.Pod)
		change func(*v1alpha1.PodProtectorSpec)
		patch  string
	}{
		"of a pod that is not available":       {pod: unready, patch: unlabeled},
		"of a pod that has finished":           {pod: finished, patch: unlabeled},
		"of a pod that is not scheduled":       {pod: unscheduled, patch: unlabeled},
		"into coverage":                        {pod: unprotected, patch: `{"metadata":{"labels":{"app":"web"}}}`},
		"that leaves the pod covered":          {patch: `{"metadata":{"labels":{"release":"b"}}}`},
		"with a criterion that the pod meets":  {patch: `{"metadata":{"annotations":{"breakwater.dev/criterion":"Ready"}}}`},
		"if operations do not include it":      {change: guardsRemovals, patch: unlabeled},
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
	for _, patch := range []string{
		`{"metadata":{"labels":{"a":"b"}}}`, `{"metadata":{"labels":{"a":"c"}}}`, `{"metadata":{"labels":{"a":null}}}`,
		`{"metadata":{"annotations":{"breakwater.dev/criterion":"Ready"}}}`, `{"metadata":{"annotations":{"breakwater.dev/criterion":null}}}`,
	} {
		known := r.count("breakwater_webhook_reviews_total")
		if err := l.patchPod(pods[1], patch); err != nil {
			t.Errorf("%s: %v", patch, err)
		}
		// The API server repeats the review of an update that meets another one.
		if got := r.count("breakwater_webhook_reviews_total"); got <= known {
			t.Errorf("%v reviews of %s, want one", got-known, patch)
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
	wantDenied(t, l.patchPod(pod, unlabeled), "PodProtector "+l.namespace+"/b", "floor 5", "available 5")
	wantDenied(t, l.patchPod(pod, `{"metadata":{"labels":{"tier":null}}}`), "PodProtector "+l.namespace+"/c")
	for _, name := range []string{"a", "b", "c"} {
		l.wantReserved(name, 0)
	}
	lowered := l.protector("b")
	lowered.Spec.MinAvailable = v1alpha1.Pods(4)
	if err := l.client.Update(t.Context(), lowered); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string { return errorText(l.patchPod(other, unlabeled)) })
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
		return l.client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(unlabeled)), client.DryRunAll)
	}
	wantDenied(t, dry(spare), "refuses to relabel")
	if err := dry(forced); err != nil {
		t.Error(err)
	}
	l.wantReserved("web", 0)
	if err := l.patchPod(forced, unlabeled); err != nil {
		t.Errorf("break-glass relabel: %v, want it admitted", err)
	}
	l.wantReserved("web", 1)
	wantDenied(t, l.patchPod(spare, unlabeled), "removals under way 1")
}
