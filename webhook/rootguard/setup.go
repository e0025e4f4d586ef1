package rootguard

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
