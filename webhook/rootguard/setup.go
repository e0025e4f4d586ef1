package rootguard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/api/v1alpha1"
	"github.com/breakwater-k8s/breakwater/internal/core/rootguard"
)

// Protection gives access to the state of the webhook.
type Protection interface {
	// HasCell reports whether the webhook reviews the pods of a cell.
	HasCell(cell string) bool
	// EachProtector visits the PodProtectors of a namespace, or all; unread are the core clusters that have not been
	// read yet.
	EachProtector(namespace string, visit func(core string, of *v1alpha1.PodProtector)) (unread []string)
	// CellMetadata returns a metadata client for the cluster of a cell.
	CellMetadata(cell string) (metadata.Interface, error)
}

// Options are the options of the handler.
type Options struct {
	// Mode must not be Off.
	Mode rootguard.Mode
	// Audit turns denials into warnings.
	Audit bool
	// OnCascade is the generator's policy for cascades, for texts. Empty is Hold.
	OnCascade v1alpha1.CascadePolicy
	// Cores are the core clusters by name.
	Cores      map[string]cluster.Cluster
	Protection Protection
	// OwnerKinds are the resources whose objects own source workloads.
	OwnerKinds []schema.GroupResource
	// Registry is the registry for the handler's metrics.
	Registry prometheus.Registerer
}

// Setup returns the handler. It needs no informers of its own.
func Setup(mgr manager.Manager, o Options) (*Handler, error) {
	metrics, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		mode: o.Mode, onCascade: o.OnCascade, cores: map[string]*coreCluster{}, protection: o.Protection, metrics: metrics, log: mgr.GetLogger(), now: time.Now,
	}
	if o.Audit && h.mode == rootguard.Deny {
		h.mode = rootguard.Warn
	}
	for name, core := range o.Cores {
		h.cores[name] = &coreCluster{
			reader: core.GetAPIReader(), owners: newOwnerFinder(core.GetAPIReader(), core.GetRESTMapper(), o.OwnerKinds...),
		}
	}
	return h, nil
}

// ClusterRules returns the permissions that the handler needs in each cluster that is a core or has cells: a
// confirmation may be an annotation of the namespace.
func ClusterRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"namespaces"}, Verbs: []string{"get"}}}
}

// OwnerRules returns the permissions that the handler needs in a core cluster to find the owners of sources: none
// without owner kinds. sources are your own kinds of workloads that PodProtectors are generated from.
func OwnerRules(ownerKinds []schema.GroupResource, sources ...schema.GroupResource) []rbacv1.PolicyRule {
	if len(ownerKinds) == 0 {
		return nil
	}
	rules := []rbacv1.PolicyRule{
		{APIGroups: []string{"apps"}, Resources: []string{"deployments", "replicasets", "statefulsets"}, Verbs: []string{"list"}},
		{APIGroups: []string{""}, Resources: []string{"replicationcontrollers"}, Verbs: []string{"list"}},
	}
	for _, source := range sources {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{source.Group}, Resources: []string{source.Resource}, Verbs: []string{"list"}})
	}
	for _, owner := range ownerKinds {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: []string{owner.Group}, Resources: []string{owner.Resource}, Verbs: []string{"get"}})
	}
	return rules
}
