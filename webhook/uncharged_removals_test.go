package webhook_test

import (
	"strings"
	"testing"
	"time"

	"github.com/breakwater-k8s/breakwater/webhook/register"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/removal"
)

func TestUnchargedRemovalsPassAtFloor(t *testing.T) {
	for claim, test := range map[string]struct {
		change      func(*corev1.Pod)
		minReady    int32
		wantVerdict removal.VerdictReason
	}{
		"a pod that is not ready":                 {unready, 0, removal.VerdictNotAvailable},
		"a pod that is not ready for long enough": {func(*corev1.Pod) {}, 3600, removal.VerdictNotAvailable},
		"a pod that no protector covers":          {unprotected, 0, removal.VerdictUnprotected},
		"a pod without labels":                    {func(p *corev1.Pod) { p.Labels = nil }, 0, removal.VerdictUnprotected},
		"a pod without a node":                    {unscheduled, 0, removal.VerdictNotAvailable},
	} {
		t.Run(claim, func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 5, 5, func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = test.minReady })
			deleted, evicted := l.pod("deleted", test.change), l.pod("evicted", test.change)
			r := l.serve().guard()
			verdicts := func() int {
				return r.count("breakwater_webhook_reviews_total", "verdict", string(test.wantVerdict))
			}
			before := verdicts()
			if err := deletion(l, deleted); err != nil {
				t.Errorf("deletion: %v", err)
			}
			if err := eviction(l, evicted); err != nil {
				t.Errorf("eviction: %v", err)
			}
			if verdicts() == before {
				t.Errorf("no review had the verdict %s", test.wantVerdict)
			}
			l.wantReserved("web", 0)
		})
	}
}

func TestMinReadySecondsDeterminesCharge(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 1, func(s *v1alpha1.PodProtectorSpec) { s.MinReadySeconds = 3600 })
	old := l.pod("web-0", func(p *corev1.Pod) {
		p.Status.Conditions[0].LastTransitionTime = metav1.NewTime(time.Now().Add(-2 * time.Hour))
	})
	l.serve().guard()
	wantDenied(t, deletion(l, old), "floor 1", "available 1")
}

// Clients recognize by the cause that a budget refused an eviction. API servers pass the cause on.
func TestDeniedEvictionHasDisruptionBudgetCause(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 1)
	pod := l.pod("web-0")
	l.serve().guard()
	err := eviction(l, pod)
	wantDenied(t, err, "floor 1", "available 1")
	cause, ok := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	if !ok || !strings.Contains(cause.Message, "/web needs 1 available pod and has 1") {
		t.Errorf("the refusal of an eviction has the cause %+v (%t), want that of a disruption budget: %#v", cause, ok, err)
	}
	if err := deletion(l, pod); apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) {
		t.Errorf("the refusal of a deletion has the cause of a disruption budget: %v", err)
	}
}

// Nodes must be able to finish their work while no webhook replica runs.
func TestTerminatingPodsPassWithoutWebhook(t *testing.T) {
	l := newFixture(t)
	available := l.pod("available")
	going := map[string]*corev1.Pod{
		"terminating": l.pod("terminating", finalized),
		"succeeded":   l.pod("succeeded", finished),
		"failed":      l.pod("failed", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }),
		"unscheduled": l.pod("unscheduled", unscheduled),
	}
	if err := deletion(l, going["terminating"]); err != nil {
		t.Fatal(err)
	}
	// No process listens on port 1.
	l.register(register.Endpoint{URL: "https://127.0.0.1:1"})
	l.awaitConfiguration(func(err error) bool { return err != nil && strings.Contains(err.Error(), "failed calling webhook") })
	for name, pod := range going {
		if err := deletion(l, pod); err != nil {
			t.Errorf("deletion of a pod that is %s: %v", name, err)
		}
	}
	if err := deletion(l, available); err == nil {
		t.Error("an available pod was deleted without a webhook")
	}
}

func TestTerminatingPodsPassTheWebhook(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 5)
	now := metav1.Now()
	r := l.serve()
	for name, change := range map[string]func(*corev1.Pod){
		"terminating": func(p *corev1.Pod) { p.DeletionTimestamp = &now },
		"finished":    finished,
		"unscheduled": unscheduled,
	} {
		pod := l.pod(name)
		change(pod)
		if response := r.review(deleteReview(pod)); !response.Allowed || response.AuditAnnotations[v1alpha1.AuditVerdict] != string(removal.VerdictNotAvailable) {
			t.Errorf("%s pod: %+v, want it allowed as not available", name, response)
		}
	}
	l.wantReserved("web", 0)
}

func TestEvictionOfMissingPodIsNotFound(t *testing.T) {
	l := newFixture(t)
	r := l.serve().guard()
	ghost := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "ghost"}}
	if err := eviction(l, ghost); !apierrors.IsNotFound(err) {
		t.Errorf("eviction of a missing pod: %v, want 404", err)
	}
	if r.count("breakwater_webhook_reviews_total", "verdict", string(removal.VerdictNoPod)) != 1 {
		t.Error("the webhook allowed the eviction: the API server may find another pod with that name")
	}
}

// The API server refuses such an eviction after the review. A reservation would hold the budget until the admission deadline.
func TestEvictionWithFailedPreconditionIsNotReserved(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 2)
	pod := l.pods(2)[0]
	r := l.serve().guard()
	other, earlier := types.UID("11111111-1111-1111-1111-111111111111"), "1"
	for claim, preconditions := range map[string]metav1.Preconditions{
		"another UID": {UID: &other}, "an earlier version": {ResourceVersion: &earlier},
		"the UID and an earlier version": {UID: &pod.UID, ResourceVersion: &earlier},
	} {
		for _, dry := range [][]string{nil, {metav1.DryRunAll}} {
			err := evict(l, pod, metav1.DeleteOptions{Preconditions: &preconditions, DryRun: dry})
			if !apierrors.IsConflict(err) {
				t.Errorf("eviction with %s: error %v, want 409", claim, err)
			}
		}
	}
	l.wantReserved("web", 0)
	if got := r.count("breakwater_webhook_reviews_total", "verdict", string(removal.VerdictFailedPrecondition)); got != 6 {
		t.Errorf("%d reviews had a failed precondition, want 6", got)
	}
	if err := l.client.Delete(t.Context(), pod.DeepCopy(), client.Preconditions{UID: &other}); !apierrors.IsConflict(err) {
		t.Errorf("deletion with another UID: error %v, want 409 before the review", err)
	}
	stale := pod.DeepCopy()
	stale.ResourceVersion, stale.Labels = earlier, nil
	if err := l.client.Update(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("relabel of an earlier version: error %v, want 409 before the review", err)
	}
	l.wantReserved("web", 0)
	if err := evict(l, pod, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}}); err != nil {
		t.Errorf("eviction with preconditions that fit: %v, want it admitted", err)
	}
	l.wantReserved("web", 1)
}

func TestExemptNamespaceLabel(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 1)
	pod := l.pod("web-0")
	l.serve().guard()
	wantDenied(t, deletion(l, pod))
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"`+v1alpha1.LabelExempt+`":"true"}}}`))
	if err := l.client.Patch(t.Context(), namespace, patch); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string {
		if err := deletion(l, pod); err != nil {
			return err.Error()
		}
		return ""
	})
	l.wantReserved("web", 0)
}

func TestUncountedProtectorDenies(t *testing.T) {
	for name, remove := range removalMethods() {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			p := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "web"}}
			p.Spec.Selector, p.Spec.MinAvailable = &v1alpha1.PodSelector{}, v1alpha1.Pods(1)
			l.create(p)
			// The selector of this protector is empty, so it covers the probes, too.
			pod := l.pod("web-0")
			l.serve().guard()
			wantDenied(t, remove(l, pod), "has never been aggregated in this cell", "check that an aggregator runs for the cell")
		})
	}
}

func TestMaxConcurrentLagBoundsOpenReservations(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 7, func(s *v1alpha1.PodProtectorSpec) { s.AdmissionHistory.MaxConcurrentLag = 1 })
	pods := l.pods(7)
	l.serve().guard()
	if err := deletion(l, pods[0]); err != nil {
		t.Fatal(err)
	}
	for name, remove := range removalMethods() {
		if err := remove(l, pods[1]); err == nil {
			t.Errorf("a second %s was admitted, want it refused", name)
		} else {
			wantDenied(t, err, "as many removals under way as its maxConcurrentLag allows",
				"try again when the aggregators have seen them", "removals under way 1")
		}
	}
	l.wantReserved("web", 1)
}
