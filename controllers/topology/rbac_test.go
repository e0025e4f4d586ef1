package topology

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/e2e/harness/roles"
	"github.com/breakwater-k8s/breakwater/e2e/harness/testplane"
	"github.com/breakwater-k8s/breakwater/internal/clusters"
)

// account returns the configuration of a user with these rules and nothing more.
func (l *fixture) account(admin *rest.Config, namespace, name string, rules []rbacv1.PolicyRule) *rest.Config {
	l.Helper()
	c, err := client.New(admin, client.Options{Scheme: clusters.Scheme()})
	l.must(err)
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name}, Rules: rules}
	l.must(c.Create(l.Context(), role))
	l.Cleanup(func() { _ = c.Delete(context.Background(), role) })
	return testplane.AsServiceAccount(l, admin, namespace, l.namespace+"-"+name, role.Name)
}

func (l *fixture) eventually(unmet func() string) { l.Helper(); testplane.Eventually(l, unmet) }

// The controllers run as users with exactly the rules of the chart, in the core and in the cell's cluster.
func TestRulesAreSufficient(t *testing.T) {
	l := newFixture(t)
	readsSecrets := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"}}
	testplane.StartManager(t, l.account(testplane.Config(t), l.namespace, "core", append(roles.Rules(t, "topology.core"), readsSecrets)), func(ctx context.Context, mgr manager.Manager) error {
		return Setup(ctx, mgr, nil, prometheus.NewRegistry())
	})

	worker := l.account(testplane.Second(t), "default", "worker", roles.Rules(t, "topology.cell"))
	ref := testplane.StoreKubeconfig(t, l, l.namespace, "a", testplane.KubeconfigOf(t, worker))
	cell := l.createCell("a", func(s *v1alpha1.CellSpec) {
		s.KubeconfigSecretRef = ref
		s.PodSelector = &v1alpha1.PodSelector{MatchLabels: map[string]string{"cell": "a"}}
	})
	l.configureWebhook(cell.Name)
	l.eventually(func() string {
		now := l.get(cell)
		connected := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionConnected)
		guarded := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionGuarded)
		if connected == nil || connected.Status != metav1.ConditionTrue || guarded == nil || guarded.Reason != v1alpha1.ReasonLabelsNotFixed {
			return fmt.Sprintf("got conditions %+v, want Connected=True and Guarded with reason LabelsNotFixed", now.Status.Conditions)
		}
		return ""
	})
	l.eventually(func() string {
		all := &eventsv1.EventList{}
		l.must(l.List(t.Context(), all))
		for _, event := range all.Items {
			if event.Regarding.Name == cell.Name && event.Reason == v1alpha1.ReasonLabelsNotFixed {
				return ""
			}
		}
		return "no LabelsNotFixed event"
	})

	// A protector requests the removal of a cell that no longer exists.
	p := l.protect(1, &v1alpha1.Cell{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-gone"}})
	now := l.protector(p)
	metav1.SetMetaDataAnnotation(&now.ObjectMeta, v1alpha1.AnnotationRemoveCell, l.namespace+"-gone")
	l.must(l.Update(t.Context(), now))
	l.eventually(func() string {
		if now := l.protector(p); len(now.Status.Cells) != 0 || len(now.Annotations) != 0 {
			return fmt.Sprintf("%+v %+v", now.Annotations, now.Status.Cells)
		}
		return ""
	})

	l.must(l.Delete(t.Context(), l.get(cell)))
	l.eventually(func() string {
		if err := l.Get(t.Context(), client.ObjectKeyFromObject(cell), &v1alpha1.Cell{}); err == nil {
			return "Cell exists"
		}
		return ""
	})
}
