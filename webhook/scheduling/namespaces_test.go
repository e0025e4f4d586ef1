package scheduling

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
)

// startNamespaceLabels returns the namespaces of a cluster, read by a user who has the given verbs.
func startNamespaceLabels(t *testing.T, name string, verbs ...string) *namespaceLabels {
	t.Helper()
	user := testplane.User(t, name, []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: verbs}})
	n := newNamespaceLabels(func(string) (*rest.Config, error) { return user, nil })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = n.Start(ctx)
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return n
}

func relabel(t *testing.T, namespace, team string) {
	t.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"team":%q}}}`, team))
	if err := testplane.Client(t).Patch(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, patch); err != nil {
		t.Fatal(err)
	}
}

func awaitTeam(t *testing.T, n *namespaceLabels, namespace, want string) {
	t.Helper()
	testplane.Eventually(t, func() string {
		labels, err := n.labelsOf(t.Context(), "cell", namespace)
		if err != nil || labels["team"] != want {
			return fmt.Sprintf("labels %v and error %v, want team %s", labels, err, want)
		}
		return ""
	})
}

// A user without the verb get can read labels only through the watch.
func TestNamespacesAreWatched(t *testing.T) {
	namespace := testplane.Namespace(t)
	n := startNamespaceLabels(t, namespace, "list", "watch")
	for _, team := range []string{"a", "b"} {
		relabel(t, namespace, team)
		awaitTeam(t, n, namespace, team)
	}
}

func TestUncachedNamespaceIsRead(t *testing.T) {
	namespace := testplane.Namespace(t)
	n := startNamespaceLabels(t, namespace, "get")
	for _, team := range []string{"a", "b"} {
		relabel(t, namespace, team)
		labels, err := n.labelsOf(t.Context(), "cell", namespace)
		if err != nil || labels["team"] != team {
			t.Errorf("labels %v and error %v, want team %s at once", labels, err, team)
		}
	}
	if labels, err := n.labelsOf(t.Context(), "cell", namespace+"-absent"); err == nil {
		t.Errorf("labels %v of a namespace that does not exist", labels)
	}
}

// A rotated kubeconfig keeps its connection; another connection means another cluster.
func TestWatchEndsWithCell(t *testing.T) {
	namespace := testplane.Namespace(t)
	n := startNamespaceLabels(t, namespace, "get", "list", "watch")
	awaitTeam(t, n, namespace, "")
	testplane.Eventually(t, func() string {
		if w, err := n.watchOf("cell"); err != nil || w.store == nil || len(w.store.ListKeys()) == 0 {
			return fmt.Sprintf("nothing is watched, error %v", err)
		}
		return ""
	})
	n.mu.Lock()
	first := n.watches["cell"]
	n.mu.Unlock()
	second := testplane.Second(t)
	n.config = func(string) (*rest.Config, error) { return second, nil }
	if _, err := n.labelsOf(t.Context(), "cell", namespace); err == nil {
		t.Error("the second cluster has the namespace of the first")
	}
	n.mu.Lock()
	now := n.watches["cell"]
	n.mu.Unlock()
	if now == first || now.config != second {
		t.Error("the former cluster of the cell is still watched")
	}
	n.config = func(string) (*rest.Config, error) { return nil, fmt.Errorf("cell was deleted") }
	n.prune()
	if len(n.watches) > 0 {
		t.Errorf("%d clusters are watched for deleted cells, want 0", len(n.watches))
	}
}
