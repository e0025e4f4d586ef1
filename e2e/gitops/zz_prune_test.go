package gitops_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/breakwater-k8s/breakwater/e2e/gitops"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// This test uninstalls Breakwater, so only the test that installs it again is in a later file.
func TestPruningRemovesWebhookConfigurationsBeforeWorkloads(t *testing.T) {
	noErrors(t, fixture.waitForSync(t.Context()))
	expectDenied(t)
	order := recordDeletions(t,
		schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "ValidatingWebhookConfigurationList"},
		schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingWebhookConfigurationList"},
		schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DeploymentList"})
	for _, layer := range []string{"breakwater-cells", "breakwater"} {
		k, err := fixture.Kustomization(t.Context(), systemNamespace, layer)
		noErrors(t, err)
		noErrors(t, fixture.Delete(t.Context(), k), gitops.WaitUntil(t.Context(), "deletion of "+layer, func() string {
			k, err := fixture.Kustomization(t.Context(), systemNamespace, layer)
			if client.IgnoreNotFound(err) != nil || err == nil {
				return fmt.Sprintf("the object still exists: %v %+v", err, k.Object["status"])
			}
			return ""
		}))
	}
	deleted := order()
	t.Logf("in this order: %v", deleted)
	last, first := -1, len(deleted)
	for i, one := range deleted {
		if strings.HasSuffix(one.kind, "WebhookConfiguration") {
			last = i
		} else {
			first = min(first, i)
		}
	}
	if last < 0 || first == len(deleted) || last > first {
		t.Errorf("want all webhook configurations deleted before the first Deployment, got %v", deleted)
	}
	// The API server calls no deleted webhook, and the objects that users declared still exist.
	if word := fixture.denialProblem(t.Context()); word != "the removal was admitted" {
		t.Errorf("a removal after pruning: %s", word)
	}
	if left := shopProtectors(t); len(left) != 2 {
		t.Errorf("remaining protectors %v, want both", left)
	}
}

// deletion is the deletion of an object at a resource version.
type deletion struct {
	kind, name string
	version    uint64
}

// recordDeletions watches Breakwater's objects of the given kinds. The returned function waits until all of them are deleted, and returns
// the deletions in the order of their resource versions.
func recordDeletions(t *testing.T, kinds ...schema.GroupVersionKind) func() []deletion {
	t.Helper()
	watcher, err := client.NewWithWatch(fixture.Cluster.RESTConfig(), client.Options{})
	noErrors(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), gitops.WaitTimeout)
	t.Cleanup(cancel)
	var gathers []func() []deletion
	for _, kind := range kinds {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		ours := client.MatchingLabels{"app.kubernetes.io/part-of": "breakwater"}
		noErrors(t, watcher.List(ctx, list, ours))
		wanted := len(list.Items)
		stream, err := watcher.Watch(ctx, list, ours, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.GetResourceVersion()}})
		noErrors(t, err)
		t.Cleanup(stream.Stop)
		gathers = append(gathers, func() []deletion { return readDeletions(ctx, t, stream, wanted) })
	}
	return func() []deletion {
		var all []deletion
		for _, gather := range gathers {
			all = append(all, gather()...)
		}
		slices.SortFunc(all, func(a, b deletion) int { return cmp.Compare(a.version, b.version) })
		return all
	}
}

// readDeletions reads count deletions from a watch.
func readDeletions(ctx context.Context, t *testing.T, stream watch.Interface, count int) []deletion {
	t.Helper()
	var all []deletion
	for len(all) < count {
		select {
		case <-ctx.Done():
			t.Fatalf("%d objects were deleted, want %d: %v", len(all), count, all)
		case event, open := <-stream.ResultChan():
			if !open {
				t.Fatalf("the watch ended; %d objects were deleted, want %d: %v", len(all), count, all)
			}
			if event.Type != watch.Deleted {
				continue
			}
			object := event.Object.(*unstructured.Unstructured)
			version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
			noErrors(t, err)
			all = append(all, deletion{object.GetKind(), object.GetName(), version})
		}
	}
	return all
}
