package overlap_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/controllers/overlap"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestMain(m *testing.M) { testplane.Main(m) }

type fixture struct {
	*testing.T
	client.Client
	namespace string
}

// newFixture is a namespace of a real apiserver with the controller.
func newFixture(t *testing.T) *fixture {
	t.Helper()
	testplane.StartManager(t, testplane.Config(t), func(_ context.Context, mgr manager.Manager) error { return overlap.Setup(mgr, nil) })
	return &fixture{t, testplane.Client(t), testplane.Namespace(t)}
}

func (p *fixture) protect(name string, labels map[string]string) *v1alpha1.PodProtector {
	p.Helper()
	protector := &v1alpha1.PodProtector{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}
	protector.Spec.MinAvailable, protector.Spec.Selector = v1alpha1.Pods(1), &v1alpha1.PodSelector{MatchLabels: labels}
	if err := p.Create(p.Context(), protector); err != nil {
		p.Fatal(err)
	}
	return protector
}

// waitForOverlapping waits until a protector has the condition; no status is none.
func (p *fixture) waitForOverlapping(name string, status metav1.ConditionStatus, words ...string) {
	p.Helper()
	testplane.Eventually(p, func() string { return p.unmetCondition(name, status, words) })
}

func (p *fixture) unmetCondition(name string, status metav1.ConditionStatus, words []string) string {
	protector := &v1alpha1.PodProtector{}
	if err := p.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, protector); err != nil {
		return err.Error()
	}
	condition := meta.FindStatusCondition(protector.Status.Conditions, v1alpha1.ConditionOverlapping)
	if condition == nil || condition.Status != status {
		return fmt.Sprintf("%s: got condition %+v, want status %s", name, condition, status)
	}
	for _, word := range words {
		if !strings.Contains(condition.Message, word) {
			return fmt.Sprintf("%s: message %q does not contain %q", name, condition.Message, word)
		}
	}
	return ""
}

func TestOverlappingProtectorsHaveCondition(t *testing.T) {
	p := newFixture(t)
	p.protect("web", map[string]string{"app": "web"})
	front := p.protect("front", map[string]string{"app": "web", "tier": "front"})
	p.protect("api", map[string]string{"app": "api"})
	p.waitForOverlapping("web", metav1.ConditionTrue, "front", "budget in all of them")
	p.waitForOverlapping("front", metav1.ConditionTrue, "web")

	all := p.protect("all", nil)
	p.waitForOverlapping("api", metav1.ConditionTrue, "all")
	p.waitForOverlapping("web", metav1.ConditionTrue, "all, front")
	if err := p.Delete(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	p.waitForOverlapping("api", metav1.ConditionFalse)

	// Conditions of another manager stay, and a protector that no longer overlaps gets a condition that says so.
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // the controller writes the status at any time
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(front), front); err != nil {
			return err
		}
		front.Spec.Selector.MatchLabels["app"] = "front"
		return p.Update(t.Context(), front)
	})
	if err != nil {
		t.Fatal(err)
	}
	p.waitForOverlapping("web", metav1.ConditionFalse)
	p.waitForOverlapping("front", metav1.ConditionFalse)

	p.waitForEvent(v1alpha1.ReasonSelectorsOverlap)
}

// waitForEvent waits for an event.
func (p *fixture) waitForEvent(reason string) {
	p.Helper()
	testplane.Eventually(p, func() string {
		events := &eventsv1.EventList{}
		if err := p.List(p.Context(), events, client.InNamespace(p.namespace)); err != nil {
			return err.Error()
		}
		if !slices.ContainsFunc(events.Items, func(e eventsv1.Event) bool { return e.Reason == reason }) {
			return fmt.Sprintf("no event %s among %d", reason, len(events.Items))
		}
		return ""
	})
}

func TestProtectorWithoutOverlapHasNoCondition(t *testing.T) {
	p := newFixture(t)
	p.protect("web", map[string]string{"app": "web"})
	p.protect("one", map[string]string{"app": "one"})
	p.protect("two", map[string]string{"app": "one"})
	p.waitForOverlapping("two", metav1.ConditionTrue, "one") // the controller has come by
	protector := &v1alpha1.PodProtector{}
	if err := p.Get(t.Context(), client.ObjectKey{Namespace: p.namespace, Name: "web"}, protector); err != nil {
		t.Fatal(err)
	}
	if len(protector.Status.Conditions) != 0 {
		t.Errorf("got conditions %+v, want none", protector.Status.Conditions)
	}
}
