package webhook_test

import (
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

func TestDeniesTheThirdRemovalOfSevenAboveAFloorOfFive(t *testing.T) {
	for name, remove := range removalMethods() {
		t.Run(name, func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 5, 7)
			pods := l.pods(7)
			l.serve().guard()
			for _, pod := range pods[:2] {
				if err := remove(l, pod); err != nil {
					t.Fatalf("%s of pod %s: %v", name, pod.Name, err)
				}
			}
			wantDenied(t, remove(l, pods[2]),
				`pod "web-2"`, "PodProtector "+l.namespace+`/web in core cluster "core"`,
				"floor 5", "available 7", "removals under way 2", "try again when more pods are available, or lower the floor")
			if left := l.remaining(); left != 5 {
				t.Errorf("%d pods left, want 5: the refused one stays", left)
			}
			l.wantReserved("web", 2)
		})
	}
}

func TestDeniesDeleteCollectionAtFloor(t *testing.T) {
	for _, budget := range []int32{0, 2} {
		t.Run(fmt.Sprint("budget ", budget), func(t *testing.T) {
			l := newFixture(t)
			l.protect("web", 5-budget, 5)
			l.pods(5)
			l.serve().guard()
			wantDenied(t, l.client.DeleteAllOf(t.Context(), &corev1.Pod{},
				client.InNamespace(l.namespace), client.MatchingLabels{"app": "web"}, client.GracePeriodSeconds(0)),
				"available 5", fmt.Sprint("removals under way ", budget))
			if left := l.remaining(); left != 5-int(budget) {
				t.Errorf("%d pods are left, want %d", left, 5-budget)
			}
		})
	}
}

// A Retry-After would make client-go retry ten times inside one call, invisibly to its caller.
func TestDenialHasNoRetryAfter(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 1, 1)
	pod := l.pod("web-0")
	l.serve().guard()
	config := testplane.Config(t)
	browser, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("%s/api/v1/namespaces/%s/pods/%s", config.Host, pod.Namespace, pod.Name)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := browser.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusTooManyRequests || response.Header.Get("Retry-After") != "" {
		t.Errorf("answer %s with header %v, want 429 without Retry-After", response.Status, response.Header)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	l := newFixture(t)
	l.protect("web", 5, 6)
	l.protect("full", 6, 6, only("full"))
	admitted := l.pod("web-0")
	denied := l.pod("full-0", nodeEntry("full"))
	l.serve().guard()
	before := map[string]string{"web": l.protector("web").ResourceVersion, "full": l.protector("full").ResourceVersion}
	for name, ask := range dryRuns() {
		// More dry runs than there is budget.
		for range 2 {
			if err := ask(l, admitted); err != nil {
				t.Errorf("%s with a budget of 1: %v", name, err)
			}
			wantDenied(t, ask(l, denied), "floor 6", "available 6", "removals under way 0")
		}
	}
	for protector, version := range before {
		if p := l.protector(protector); p.ResourceVersion != version {
			t.Errorf("dry runs changed protector %s: %+v", protector, p.Status)
		}
	}
	if l.remaining() != 1 {
		t.Error("a dry run removed the pod")
	}
}

// only makes a protector cover the pods with app=value.
func only(value string) func(*v1alpha1.PodProtectorSpec) {
	return func(s *v1alpha1.PodProtectorSpec) { s.Selector.MatchLabels = map[string]string{"app": value} }
}

func nodeEntry(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels["app"] = value }
}
