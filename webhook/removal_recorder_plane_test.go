package webhook_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/core/podhold"
)

// With the permissions that users grant it, the webhook records exactly the removals that the API server carries out at once.
func TestRemovalsWithoutGracePeriodAreRecordedInTheCell(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 0, 20)
	rights := testplane.User(l, "webhook-of-"+l.namespace, roles.Rules(l, "webhook.cell", roles.Value("node.enabled", true)))
	l.serve(func(s *replicaOptions) { s.cell, s.nodeGuard = rights, true }).guard()
	period := func(seconds int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	deleteWith := func(options ...client.DeleteOption) removalMethod {
		return func(l *fixture, pod *corev1.Pod) error {
			return l.client.Delete(l.Context(), pod.DeepCopy(), options...)
		}
	}
	deleteAll := func(l *fixture, pod *corev1.Pod) error {
		return l.client.DeleteAllOf(l.Context(), &corev1.Pod{}, client.InNamespace(l.namespace), client.MatchingFields{"metadata.name": pod.Name}, client.GracePeriodSeconds(0))
	}
	for name, c := range map[string]struct {
		period   int64
		remove   removalMethod
		recorded bool
	}{
		"deleted-at-once":      {30, deletion, true},
		"evicted-at-once":      {30, eviction, true},
		"deleted-by-selector":  {30, deleteAll, true},
		"deleted-without-any":  {0, deleteWith(), true},
		"evicted-without-any":  {0, func(l *fixture, pod *corev1.Pod) error { return evict(l, pod, metav1.DeleteOptions{}) }, true},
		"deleted-with-period":  {30, deleteWith(), false},
		"evicted-with-period":  {30, func(l *fixture, pod *corev1.Pod) error { return evict(l, pod, metav1.DeleteOptions{}) }, false},
		"deleted-with-another": {0, deleteWith(client.GracePeriodSeconds(5)), false},
	} {
		pod := l.pod(name, period(c.period))
		if err := c.remove(l, pod); err != nil {
			t.Fatalf("removal of %s: %v", name, err)
		}
		if atOnce := l.existing(name) == nil; atOnce != c.recorded {
			t.Fatalf("pod %s ended at once: %v, want %v", name, atOnce, c.recorded)
		}
		event := &corev1.Event{}
		err := l.client.Get(l.Context(), client.ObjectKey{Namespace: l.namespace, Name: podhold.AdmittedEvent(pod.UID)}, event)
		switch {
		case client.IgnoreNotFound(err) != nil:
			t.Fatal(err)
		case (err == nil) != c.recorded:
			t.Errorf("removal of %s recorded: %v, want %v", name, err == nil, c.recorded)
		case c.recorded && (event.InvolvedObject.UID != pod.UID || event.Reason != podhold.ReasonRemovalAdmitted):
			t.Errorf("record of %s: %+v, want one of pod %s", name, event, pod.UID)
		}
	}
}

// A namespace that is being deleted takes no Events. Its pods must be removable all the same.
func TestDeletedNamespaceIsNotHeldByRecords(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 0, 5)
	pod := l.pod("web-0")
	l.serve(func(s *replicaOptions) { s.nodeGuard = true }).guard()
	if err := l.client.Delete(l.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.namespace}}); err != nil {
		t.Fatal(err)
	}
	l.eventually(func() string { return errorText(client.IgnoreNotFound(deletion(l, pod))) })
	if l.existing("web-0") != nil {
		t.Error("the pod still exists, want it removed")
	}
}
