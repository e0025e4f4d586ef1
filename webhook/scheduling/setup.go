package scheduling

import (
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/breakwater-k8s/breakwater/internal/scheduling"
)

// Options are the options of the handler.
type Options struct {
	// Cores are the core clusters by name. The caller adds them to the manager.
	Cores map[string]cluster.Cluster
	Cells Cells
	// Audit admits objects that would be rejected, with a warning.
	Audit bool
	// Registry is the registry for the handler's metrics.
	Registry prometheus.Registerer
}

// Setup adds the parts of the handler to a manager. Readiness does not depend on it: until it is ready the handler
// leaves objects unchanged.
func Setup(mgr manager.Manager, o Options) (*Handler, error) {
	metrics, err := newMetrics(o.Registry)
	if err != nil {
		return nil, err
	}
	policies, namespaces := newPolicies(mgr.GetLogger()), newNamespaceLabels(o.Cells.CellConfig)
	counts := newPolicyCounts(time.Now)
	h := &Handler{cells: o.Cells, policies: policies, labelsOf: namespaces.labelsOf, counts: counts, audit: o.Audit, metrics: metrics, log: mgr.GetLogger()}
	parts := []manager.Runnable{policies, namespaces}
	for name, core := range o.Cores {
		log := mgr.GetLogger().WithValues("core", name)
		parts = append(parts, &policyWatch{core: name, cache: core.GetCache(), policies: policies, log: log},
			&statusWriter{
				core: name, client: core.GetClient(), apiReader: core.GetAPIReader(), policies: policies, counts: counts, log: log,
				quiet: &quietTracker{now: time.Now, entries: map[scheduling.Ref]quietEntry{}}, events: core.GetEventRecorder("breakwater-webhook"),
			})
	}
	for _, part := range parts {
		if err := mgr.Add(part); err != nil {
			return nil, fmt.Errorf("add scheduling policies: %w", err)
		}
	}
	return h, nil
}
